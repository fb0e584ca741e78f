"""Comparisons of many runs and long jobs, callable from chapters and from the command line."""
