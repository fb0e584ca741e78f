"""Run the chapters, assemble the book and build its pages; called by the Makefile and the Snakefile."""
