"""Theory solvers, one module per kind of network or limit."""

from coding_schemes.theory import linear, relu, sigmoidal, two_point

__all__ = ["linear", "relu", "sigmoidal", "two_point"]
