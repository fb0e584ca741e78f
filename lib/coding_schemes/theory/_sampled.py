"""Adaptive kernels from sampled networks: two widths, extrapolated linearly in 1/N.

Where no deterministic solver is known to converge (deep ReLU networks on general inputs: a few long neurons
carry much of the kernel), this is the theory's value within its error bars, and says so.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes import sampling
from coding_schemes.networks import Network, homogeneity, is_bounded
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.tasks import Task

WIDTHS = (100, 300)
NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP, THINNING = 2, 40, 400, 5


@dataclass(frozen=True, eq=False)
class Sampled:
    """Sampled networks of two widths.

    Attributes:
        kernels: Φ^1 … Φ^L at 1/N → 0, shape (L, P, P).
        lower_duals: Φ̂^1 … Φ̂^{L−1}, shape (L − 1, P, P).
        field: v = (Φ^L + 1/β)⁻¹ Y, shape (P, m).
        residual: ‖(Y − f) − v/β‖/‖Y‖ with f the extrapolated mean output.
        disagreement: relative difference between the chains' feature kernels at the larger width.
        num_steps: transitions of every chain.
        posteriors: of both widths.
        weights: samples of both widths, leading axis.
    """

    kernels: np.ndarray
    lower_duals: np.ndarray
    field: np.ndarray
    residual: float
    disagreement: float
    num_steps: int
    posteriors: tuple[Posterior, ...]
    weights: tuple[Weights, ...]

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean outputs on inputs (N0, P*), extrapolated in 1/N, shape (P*, m)."""
        means = []
        for posterior, weights in zip(self.posteriors, self.weights):
            new = posterior.new_inputs(inputs)
            keys = jax.random.split(jax.random.key(0), len(weights.readout))
            means.append(np.asarray(_mean_response(posterior, new, keys, weights)))
        return _extrapolated(*means)


def solve(task: Task, network: Network, richness: float, ridge: float, seed: int) -> Sampled:
    """Sample networks of both widths and extrapolate."""
    # long neurons trade strength with their readouts; to turn pairs of them is slow, and not needed here
    moves = ("gibbs", "scale") if homogeneity(network.phi) and not is_bounded(network.phi) else "auto"
    posteriors, kept, kernels, outputs, seconds = [], [], [], [], []
    for index, width in enumerate(WIDTHS):
        posterior = Posterior(
            task, replace(network, width=width, scaling="non-lazy"), ridge / richness**2, 1 / richness**2
        )
        samples = sampling.sample(
            posterior, jax.random.fold_in(jax.random.key(seed), index), num_samples=NUM_SAMPLES,
            num_chains=NUM_CHAINS, num_warmup=NUM_WARMUP, thinning=THINNING, moves=moves,
            store=("weights", "mean_outputs", "kernels"), progress=False,
        )  # fmt: skip
        assert samples.kernels is not None
        weights = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), samples.weights)
        posteriors.append(posterior)
        kept.append(weights)
        kernels.append(np.stack(samples.kernels, axis=1).astype(float))  # (chains, L, P, P)
        outputs.append(np.asarray(samples.mean_outputs, float).mean(0))
        seconds.append(np.array(_second_moments(posterior, weights), float))
    means = [k.mean(0) for k in kernels]
    found = _extrapolated(*means)
    field = np.linalg.solve(found[-1] + ridge * np.eye(len(task.targets)), task.targets)
    missed = task.targets - _extrapolated(*outputs) - ridge * field
    duals = [
        np.linalg.solve(k, np.linalg.solve(k, moment).T) - np.linalg.inv(k)
        for k, moment in zip(found[:-1], _extrapolated(*seconds))
    ]
    spread = np.linalg.norm(kernels[-1][0, -1] - kernels[-1][1, -1]) / np.linalg.norm(means[-1][-1])
    residual = np.linalg.norm(missed) / np.linalg.norm(task.targets)
    return Sampled(
        found, np.array(duals).reshape(-1, *found.shape[1:]), field, float(residual), float(spread),
        NUM_WARMUP + NUM_SAMPLES * THINNING, tuple(posteriors), tuple(kept),
    )  # fmt: skip


@jax.jit
def _mean_response(posterior, new, keys, weights):
    """Outputs on new inputs, averaged over samples one after the other: side by side they may not fit."""
    return jax.lax.map(lambda kw: posterior.respond(*kw, new).outputs, (keys, weights)).mean(0)


@jax.jit
def _second_moments(posterior, weights):
    """⟨hhᵀ⟩ of layers 2 … L, L − 1 arrays (P, P)."""

    def moments(one):
        return [z.T @ z / len(z) for z in posterior.preactivations(one)[1:]]

    return jax.tree.map(lambda a: a.mean(0), jax.lax.map(moments, weights))


def _extrapolated(narrow, wide):
    """Value at 1/N → 0 of what is linear in 1/N."""
    first, second = WIDTHS
    return (second * np.asarray(wide) - first * np.asarray(narrow)) / (second - first)
