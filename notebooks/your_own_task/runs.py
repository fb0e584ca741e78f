"""What the chapter on readers' own tasks runs: a nonlinearity by its name, and theory where there is one."""

from typing import Any

import jax
from coding_schemes import theory
from coding_schemes.networks import NONLINEARITIES, Network
from coding_schemes.tasks import Task


def elementwise(name: str) -> Any:
    """A nonlinearity by its name: one of the library's, or else a function of jax.nn or jax.numpy.

    Raises:
        ValueError: none has that name.
    """
    if name in NONLINEARITIES:
        return name
    for module in (jax.nn, jax.numpy):
        if callable(getattr(module, name, None)):
            return getattr(module, name)
    raise ValueError(f"nonlinearity: got {name!r}, allowed are {sorted(NONLINEARITIES)} and names of jax.nn")


def predicted(task: Task, network: Network, temperature: float) -> tuple[Any, str]:
    """Theory's solution for a task and network, or None, with a sentence that says which or why not."""
    try:
        found = theory.solve(task, network, temperature)
    except ValueError as error:
        return None, f"There is no theory for this task and network: {error}"
    if not found.converged:
        return None, f"The solver did not converge: residual {found.residual:.1e}."
    kinds = len(found.probabilities)
    return (
        found,
        f"Solved, to a residual of {found.residual:.0e}: {kinds} kind{'s' * (kinds > 1)} of neurons.",
    )
