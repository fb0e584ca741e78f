r"""Minimum-energy paths between two states, and the barrier on the way: the simplified string method.

A path w(α), 0 ≤ α ≤ 1, is one of minimum energy where the gradient has no component across it,
(∇U)⊥ = 0. Its highest point is a saddle of U, and the energy there minus the start's the barrier. A
string of images is relaxed by repeating two steps:

    1. every image descends,  w_k ← w_k − h ∇U(w_k)   (the ends too, into their minima)
    2. the images are spread evenly along the polygon through them again.

The second step undoes the first one's motion along the path, so what stays is (∇U)⊥.

Source: E, Ren & Vanden-Eijnden, J. Chem. Phys. 126, 164103 (2007). Paper A speaks of barriers between
permuted solutions (Discussion); computing them is this book's.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from coding_schemes import validation
from coding_schemes.theory._solution import Solved


@dataclass(frozen=True, eq=False)
class Path(Solved):
    """A relaxed path.

    Attributes:
        images: states along the path, a pytree with a leading axis (images,).
        lengths: arc length up to every image, in the units of the states, shape (images,).
        energies: U of every image, shape (images,).
        drift: change of the highest energy over the last tenth of the steps.
        residual: largest norm of the gradient's part across the path, over the inner images.
        num_steps: steps made.
        converged: whether |drift| is below the tolerance.
    """

    images: Any
    lengths: np.ndarray
    energies: np.ndarray
    drift: float

    @property
    def barrier(self) -> float:
        """Largest rise on the way from any earlier image, which is what has to be climbed at once."""
        return float(np.max(self.energies - np.minimum.accumulate(self.energies)))


def minimum_energy_path(
    energy: Callable[..., Array],
    waypoints: Sequence[Any],
    *parameters: Any,
    step_size: float,
    num_images: int = 21,
    num_steps: int = 2000,
    tolerance: float = 0.1,
) -> Path:
    """Relax a string through the waypoints to a path of minimum energy between its ends.

    Args:
        energy: U, a JAX function of a state and of the parameters.
        waypoints: two or more states (pytrees of one structure): start, states the first guess passes
            through, end. The method finds the path of the guess's valley, not the lowest of all.
        *parameters: passed on to the energy, pytrees; one compiled program serves all their values.
        step_size: h, below 2 over the largest curvature of U; FloatingPointError where the descent diverges.
        num_images: images on the string, at least 3.
        num_steps: descent steps, at least ten, of which the last tenth says whether the path still moves.
        tolerance: on the change of the highest energy over the last tenth of the steps.

    Returns:
        A Path; one that has not converged is returned with a warning.
    """
    if not isinstance(waypoints, Sequence) or len(waypoints) < 2:
        raise ValueError(f"waypoints: got {validation.shown(waypoints)}, needs two or more states")
    validation.count("num_images", num_images, 3)
    validation.positive(step_size=step_size, tolerance=tolerance)
    validation.count("num_steps", num_steps, 10)
    images, before, energies, across, lengths = _relax(
        energy, tuple(waypoints), parameters, step_size, num_steps, num_images
    )
    energies = np.asarray(energies, float)
    if not np.all(np.isfinite(energies)):
        raise FloatingPointError(f"the string diverged with step_size {step_size:g}; take a smaller one")
    drift = float(energies.max() - before)
    path = Path(
        jax.tree.map(np.asarray, images), np.asarray(lengths, float), energies, drift,
        residual=float(across), num_steps=num_steps, converged=abs(drift) <= tolerance,
    )  # fmt: skip
    return path.reported("minimum_energy_path", f"the highest energy still moved by {drift:.3g} at last")


@functools.partial(jax.jit, static_argnames=("energy", "num_images"))
def _relax(energy, waypoints, parameters, step_size, num_steps, num_images):
    unravel = ravel_pytree(waypoints[0])[1]
    string = _spread(jnp.stack([ravel_pytree(state)[0] for state in waypoints]), num_images)
    step_size = jnp.asarray(step_size, string.dtype)
    slope = jax.vmap(jax.value_and_grad(lambda flat: energy(unravel(flat), *parameters)))

    def step(index, carry):  # the one copy of the energy in the loop, as its compilation takes long
        string, before = carry
        values, gradient = slope(string)
        before = jnp.where(index == num_steps - num_steps // 10, values.max(), before)
        return _spread(string - step_size * gradient, num_images), before

    nothing = jnp.zeros((), jax.eval_shape(slope, string)[0].dtype)
    string, before = jax.lax.fori_loop(0, num_steps, step, (string, nothing))
    values, gradient = slope(string)
    tangent = string[2:] - string[:-2]
    tangent /= jnp.maximum(jnp.linalg.norm(tangent, axis=1, keepdims=True), jnp.finfo(string.dtype).tiny)
    inner = gradient[1:-1]
    across = inner - jnp.sum(inner * tangent, axis=1, keepdims=True) * tangent
    return jax.vmap(unravel)(string), before, values, jnp.linalg.norm(across, axis=1).max(), _lengths(string)


def _lengths(string):
    return jnp.concatenate(
        [jnp.zeros(1, string.dtype), jnp.cumsum(jnp.linalg.norm(jnp.diff(string, axis=0), axis=1))]
    )


def _spread(string, num_images):
    """Points at equal arc length on the polygon through the rows of the string."""
    lengths = _lengths(string)
    wanted = jnp.linspace(0.0, 1.0, num_images, dtype=string.dtype) * lengths[-1]
    left = jnp.clip(jnp.searchsorted(lengths, wanted, side="right") - 1, 0, len(string) - 2)
    span = jnp.maximum(lengths[left + 1] - lengths[left], jnp.finfo(string.dtype).tiny)
    weight = jnp.clip((wanted - lengths[left]) / span, 0.0, 1.0)[:, None]
    return (1 - weight) * string[left] + weight * string[left + 1]
