"""What the solvers share: φ in double precision, Newton's method, and the checks on their arguments."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from coding_schemes import validation
from coding_schemes.networks import Nonlinearity
from coding_schemes.tasks import Task


def evaluate(phi: Nonlinearity, z: np.ndarray) -> np.ndarray:
    """φ(z) in float64, whatever JAX's global setting."""
    return _padded(_values, phi, z)[0]


def evaluate_with_slope(phi: Nonlinearity, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """φ(z) and φ'(z) in float64."""
    values, slopes = _padded(_values_and_slopes, phi, z)
    return values, slopes


def _padded(function: Callable, phi: Nonlinearity, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """`function` on z padded to a power of two, so that few sizes are compiled."""
    padded = np.zeros(max(1024, 1 << max(z.size - 1, 0).bit_length()))
    padded[: z.size] = z.ravel()
    with jax.enable_x64(True):
        return tuple(np.asarray(part)[: z.size].reshape(z.shape) for part in function(padded, phi))


@partial(jax.jit, static_argnums=1)
def _values(z, phi):
    return (phi(z),)


@partial(jax.jit, static_argnums=1)
def _values_and_slopes(z, phi):
    return jax.jvp(phi, (z,), (jnp.ones_like(z),))


def check_orthogonal(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Class weights n_c/P (C,) and targets (C, m) of a task; ValueError unless its inputs are orthogonal."""
    validation.instance("task", task, Task)
    if not task.is_orthogonal:
        raise ValueError(
            f"task: the inputs of {task.name!r} are not orthogonal (XᵀX/N0 ≠ 1); "
            "this theory needs a toy task, theory.mean_field takes general inputs"
        )
    return task.class_counts / task.num_inputs, np.asarray(task.class_targets, dtype=float)


def check_training_inputs(inputs: np.ndarray | None) -> None:
    """Raise ValueError where a kernel on new inputs is asked of a theory that has none."""
    if inputs is not None:
        raise ValueError(
            "inputs: this theory gives the kernel of its training inputs, kernel(); "
            "theory.mean_field gives that of new ones"
        )


def has_class_targets(task: Task) -> bool:
    """Whether all inputs of a class share one target."""
    try:
        return len(task.class_targets) > 0
    except ValueError:
        return False


def overlaps(task: Task, inputs: np.ndarray) -> np.ndarray:
    """Kernel k0 between new inputs (N0, P*) and a task's training inputs, shape (P*, P)."""
    inputs = validation.array("inputs", inputs, "N0, P*", N0=task.input_dim)
    return inputs.T @ task.inputs / task.input_dim


def class_means(per_input: np.ndarray, task: Task) -> np.ndarray:
    """Mean over the inputs of every class, (…, P) to (…, C)."""
    members = task.labels[:, None] == np.arange(task.num_classes)
    return per_input @ (members / np.maximum(members.sum(axis=0), 1))


def class_sums(matrix: np.ndarray, task: Task) -> np.ndarray:
    """Sum over the pairs of inputs of two classes, (P, P) to (C, C)."""
    members = (task.labels == np.arange(task.num_classes)[:, None]).astype(float)
    return members @ matrix @ members.T


def class_kernel(block: np.ndarray, diagonal: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Kernel (P, P) with one entry per pair of classes, (C, C), and more on its diagonal, (C,)."""
    return block[np.ix_(labels, labels)] + np.diag(diagonal[labels])


def spectrum(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a positive semidefinite matrix, rounding noise set to zero, and eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    return np.where(values > values[-1] * 1e-12, values, 0.0), vectors


def symmetric_root(matrix: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """Root of a positive matrix, its eigenvalues taken for no smaller than a share of the largest."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, floor * values[-1]))) @ vectors.T


def inverses(values: np.ndarray) -> np.ndarray:
    """1/x, and 0 where x = 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


Parts = TypeVar("Parts", bound=tuple)


def pack(parts: Sequence[np.ndarray]) -> np.ndarray:
    """All entries of a point as one vector."""
    return np.concatenate([part.ravel() for part in parts])


def unpack(x: np.ndarray, like: Parts) -> Parts:
    """Points from vectors (…, size): a tuple of arrays with the shapes of `like` after the leading axes."""
    pieces, start = [], 0
    for part in like:
        pieces.append(x[..., start : start + part.size].reshape(x.shape[:-1] + part.shape))
        start += part.size
    make: Callable = getattr(type(like), "_make", tuple)
    return make(pieces)


def jacobian(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Jacobian (n, size) at x (size,) of a function from vectors (…, size) to (…, n), by central differences.

    All of them in one call, good to about 1e-10 for functions of order one; `theory` says why not by JAX.
    """
    step = 1e-5
    shifts = step * np.eye(len(x))
    return (function(x + shifts) - function(x - shifts)).T / (2 * step)


def newton(
    evaluate: Callable[[Any], tuple],
    propose: Callable[..., tuple[Any, float, float] | None],
    point: Any,
    found: tuple,
    max_steps: int,
    *,
    shortest: float,
    noise: float = 0.0,
    relative_noise: float = 0.0,
) -> tuple[Any, tuple, int]:
    """Newton's descent of a convex function, every step halved until the value falls enough (Armijo's rule).

    `evaluate` gives a tuple that begins with a point's value, ∞ outside the domain; `found` is the start's.
    `propose` gives, from a point and what was found there, the step −H⁻¹∇, the decrement −∇ · step > 0 and
    the longest fraction of the step to take; None where the point will do. No fraction below the shortest is
    tried, and the value may rise by its noise. Returns the last point, what was found there, and the number
    of steps.
    """
    num_steps = 0
    while num_steps < max_steps and (proposal := propose(point, found)) is not None:
        step, decrement, length = proposal
        allowed = noise + relative_noise * abs(found[0])
        while length > shortest:
            trial = point + length * step
            there = evaluate(trial)
            if there[0] <= found[0] - 1e-4 * length * decrement + allowed:
                point, found, num_steps = trial, there, num_steps + 1
                break
            length /= 2
        else:
            break
    return point, found, num_steps


def solve_equations(equations: Callable[[np.ndarray], np.ndarray], start: Parts) -> tuple[Parts, int]:
    """A root, or the nearest to one, by Levenberg's and Marquardt's method, also of singular equations.

    Equations, at least as many as unknowns, are of points as vectors, as `jacobian` wants them; the start is
    a tuple of arrays, as is what is returned with the number of evaluations.
    """
    tolerances = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15)
    fit = least_squares(equations, pack(start), lambda x: jacobian(equations, x), method="lm", **tolerances)
    return unpack(fit.x, start), fit.nfev
