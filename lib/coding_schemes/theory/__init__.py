"""Theory solvers, one module per kind of network or limit."""

from coding_schemes.theory import linear, relu, relu_squared, sigmoidal, two_point

__all__ = ["linear", "relu", "relu_squared", "sigmoidal", "two_point"]
