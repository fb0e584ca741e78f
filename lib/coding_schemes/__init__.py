"""Coding schemes in neural networks: tasks, networks, posteriors, samplers and theory.

`diagnose(activations, labels)` tells which scheme a network of any origin uses.
"""

from importlib import import_module


def __getattr__(name: str):
    """`diagnose` on first use, so that importing the package neither costs nor depends on anything."""
    if name == "diagnose":
        return import_module("coding_schemes._diagnose").diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
