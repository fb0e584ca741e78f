"""Coding schemes in neural networks: tasks, networks, posteriors, samplers and theory.

`diagnose(activations, labels)` tells which scheme a network of any origin uses.
"""


def __getattr__(name: str):
    """`diagnose` on first use, so that importing the package costs nothing."""
    if name == "diagnose":
        from coding_schemes.diagnosis import diagnose

        return diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
