"""Theory solvers, one module per kind of network or limit, and `solve`, which picks the one that fits.

Every `solve` takes the task first, then the network or those of its parts that the theory leaves open, then
the temperature; what follows goes by name. Adaptive kernels and their gradient flow (`adaptive_kernel`,
`dmft`, on the inputs' `features`) have a richness and a ridge in the temperature's place. The solutions of
`theory.solve` all have the same fields; all solutions have `residual`, `num_steps` and `converged`.

`sigmoidal`, `deep_sigmoidal`, `relu`, `relu_squared`, `mean_field`, `linear` and `gaussian_process` are NumPy
and SciPy in double precision, with φ by JAX: they solve for some twenty unknowns, another number for every
task. Measured on the ReLU's: a Jacobian by differences takes 0.7 ms, in a solve of 0.1 s; one by JAX takes
0.1 ms, after 1.5 s of compilation.
"""

from importlib import import_module

__all__ = [
    "adaptive_kernel",
    "clustered",
    "condensation",
    "deep_condensation",
    "deep_sigmoidal",
    "dmft",
    "dynamics",
    "features",
    "finite_width",
    "gaussian_process",
    "linear",
    "mean_field",
    "outliers",
    "relu",
    "relu_squared",
    "sigmoidal",
    "solve",
    "two_point",
    "wishart_chain",
]


def __getattr__(name: str):
    """A solver's module, imported when it is first asked for: some bring a sampler or an ODE solver along."""
    if name == "solve":
        return import_module(f"{__name__}._solve").solve
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
