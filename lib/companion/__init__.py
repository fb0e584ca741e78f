"""What chapters are written with and built by: checks, figures, films, presets, and the pipeline.

It imports the science, `coding_schemes`; the science never imports it.
"""
