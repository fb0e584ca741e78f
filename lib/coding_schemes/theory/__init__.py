"""Theory solvers, one module per kind of network or limit."""

from coding_schemes.theory import (
    gaussian_process,
    linear,
    mean_field,
    relu,
    relu_squared,
    sigmoidal,
    two_point,
)

__all__ = ["gaussian_process", "linear", "mean_field", "relu", "relu_squared", "sigmoidal", "two_point"]
