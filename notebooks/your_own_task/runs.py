"""What the chapter on readers' own tasks runs: a nonlinearity by its name, and theory where there is one."""

from typing import Any

import jax
import numpy as np
from coding_schemes import coding, theory
from coding_schemes.networks import NONLINEARITIES, Network
from coding_schemes.tasks import Task
from companion.findings import spread
from numpy.typing import ArrayLike


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


def code_shares(codes: ArrayLike, solution: Any) -> list[str]:
    """Share of neurons with each of theory's codes, a line each: sampled, its error over chains, theory's.

    Args:
        codes: of sampled neurons, shape (chains, samples, N, C).
        solution: theory's, with the codes and probabilities of its kinds of neurons.
    """
    lines = []
    for code in np.unique(solution.codes, axis=0)[::-1]:
        sampled = spread((np.asarray(codes) == code).all(-1).mean((1, 2)))
        theory_share = np.asarray(solution.probabilities)[(solution.codes == code).all(-1)].sum()
        share = f"{sampled.value:.3f} ± {sampled.error:.3f}"
        lines.append(f"code {coding.code_name(code)}: {share} of the neurons, theory {theory_share:.3f}")
    return lines
