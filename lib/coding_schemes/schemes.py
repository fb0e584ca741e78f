"""Coding schemes of sigmoidal networks at work: networks planted in a predicted scheme, and their atlas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes.posterior import Posterior, Weights
from coding_schemes.theory import sigmoidal

GRID = np.linspace(-7.0, 7.0, 701)  # preactivations are drawn by inverting their distribution on it


def planted(posterior: Posterior, solution: sigmoidal.Solution, seed: int) -> Weights:
    """A network whose neurons are drawn from a predicted coding scheme, to start a chain from.

    Neurons are dealt to the codes in proportion to P_γ; given its code a neuron has the readout a_γ and
    preactivations from the theory's density, independent over inputs.

    Args:
        posterior: of a network with one hidden layer on an orthogonal task.
        solution: the scheme, of theory.sigmoidal.solve, restricted or not.
        seed: of the draws.

    Returns:
        One network's weights.

    Raises:
        ValueError: the posterior has lost its task, or the network is deeper.
    """
    if posterior.task is None or posterior.network.depth != 1:
        raise ValueError("posterior: needs its task and one hidden layer to plant a scheme in")
    rng = np.random.default_rng(seed)
    width, labels = posterior.network.width, posterior.task.labels
    ends = np.rint(width * np.cumsum(solution.probabilities)).astype(int)
    rows = np.searchsorted(ends, np.arange(width), side="right")
    z = np.empty((width, len(labels)))
    for row in np.unique(rows):
        for c in range(labels.max() + 1):
            where = np.ix_(rows == row, labels == c)
            cumulative = sigmoidal.preactivation_cdf(solution, int(row), c, GRID)
            z[where] = np.interp(rng.random(z[where].shape), cumulative, GRID)
    return posterior.planted(jnp.asarray(z), jnp.asarray(solution.readouts[rows]))


def descend(
    posterior: Posterior, key: jax.Array, *, num_steps: int, learning_rate: float = 1.5, repeats: int = 1
) -> tuple[Weights, np.ndarray]:
    """Noise-free gradient descent on the energy, w ← w − η (T/N) ∇U, from draws of the prior.

    U T/N = ½‖Y − f‖² + (T/2N) Σ(weights)²: the temperature is the strength of the weight decay, and with
    readout_variance=1 nothing in it depends on P.

    Args:
        posterior: whose energy is minimised.
        key: random key of the initial weights; repeat r uses fold_in(key, r).
        num_steps: of descent.
        learning_rate: η; stable below about 8 N/P at σ_a = 1.
        repeats: independent networks.

    Returns:
        The last weights, leading axis (repeats,), and their ‖Y − f‖², shape (repeats,).

    Raises:
        FloatingPointError: the descent diverged.
    """
    weights, error = _descend(posterior, key, learning_rate, num_steps, repeats)
    if not np.all(np.isfinite(error)):
        raise FloatingPointError(f"descend: diverged at learning rate {learning_rate}; take a smaller one")
    return jax.tree.map(np.asarray, weights), np.asarray(error)


@functools.partial(jax.jit, static_argnames=("repeats",))
def _descend(posterior, key, learning_rate, num_steps, repeats):
    scale = learning_rate / posterior.likelihood_precision

    def step(_, weights):
        return jax.tree.map(
            lambda w, g: (w - scale * g).astype(w.dtype), weights, jax.grad(posterior.energy)(weights)
        )

    def one(repeat):
        return jax.lax.fori_loop(0, num_steps, step, posterior.prior(jax.random.fold_in(key, repeat)))

    weights = jax.vmap(one)(jnp.arange(repeats))
    return weights, jax.vmap(posterior.squared_error)(weights)
