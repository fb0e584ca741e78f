r"""Networks with one hidden layer, sampled with their readouts integrated out.

Given the neurons' u the readouts are Gaussian, so that the posterior of the neurons alone is

    −log p(u) = ½ |u|² + (N γ0²/2) tr Yᵀ(Φ_N + 1/β)⁻¹Y + (m/2) log |Φ_N + 1/β|,   Φ_N = (1/N) Σ_i F_iᵀ F_i,

with the features F of theory.features: dense, convolutional or pooled, richness γ0 and ridge 1/β. Mean and
variance of the outputs over the readouts are exact, and no readout holds a neuron to its code. Paper A's
posterior is the one with γ0² = 1/σ_a² and 1/β = T/σ_a².

Source: the posterior is paper B's; to sample it without its readouts is this book's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes import statistics, validation
from coding_schemes.posterior import normal
from coding_schemes.sampling import diagnostics
from coding_schemes.sampling.hmc import hmc_step
from coding_schemes.theory import features as _features
from coding_schemes.theory.features import Features, NewInputs

ACCEPTANCE, MAX_STEPS = 0.8, 40  # that the step size is adapted to; of one trajectory


@dataclass(frozen=True)
class Networks:
    """Sampled networks.

    Attributes:
        width: N.
        means: f on new inputs given u, shape (chains, samples, P*, m).
        variances: its variance over the readouts, shape (chains, samples, P*).
        kernels: Φ_N, shape (chains, samples, P, P).
        preactivations: of all neurons, shape (chains, samples, N, A', P).
        convergence: R-hat and effective sample sizes of energy, kernel and outputs.
    """

    width: int
    means: np.ndarray
    variances: np.ndarray
    kernels: np.ndarray
    preactivations: np.ndarray
    convergence: diagnostics.Convergence

    def variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Variance of one network's output, mean over new inputs, with its standard error."""
        scatter = np.square(self.means - self.means.mean((0, 1))).mean((2, 3))
        return statistics.mean_and_error(scatter + self.variances.mean(2))


def sample(
    key: Any,
    features: Features,
    inputs: np.ndarray,
    richness: float,
    ridge: float,
    widths: Sequence[int],
    *,
    num_samples: int = 100,
    num_chains: int = 4,
    num_warmup: int = 150,
    thinning: int = 3,
) -> list[Networks]:
    """Sample networks of several widths by Hamiltonian Monte Carlo, from the prior.

    One compiled program serves all widths: neurons beyond the width are there, but unseen. A trajectory is a
    quarter of a period of the prior long, ± half, of at most MAX_STEPS steps.

    Args:
        key: random key.
        features: what neurons see of a task's inputs, and its targets.
        inputs: new inputs, shape (N0, P*).
        richness: γ0 > 0.
        ridge: 1/β > 0.
        widths: N of each kind of network.
        num_samples: kept per chain.
        num_chains: of every width.
        num_warmup: transitions, at least, in which the step size adapts.
        thinning: transitions between two samples.

    Returns:
        Networks of every width, in order.

    Raises:
        ValueError: no key or features, inputs of another dimension, a richness or ridge that is not positive,
            no widths, or counts that are no whole numbers of at least 1 (0 for the warm-up).
    """
    validation.key(key)
    validation.instance("features", features, Features)
    validation.number("richness", richness, above=0)
    validation.number("ridge", ridge, above=0)
    widths = [validation.count("widths", width) for width in validation.several("widths", widths)]
    if not widths:
        raise ValueError("widths: got none, needs at least one")
    validation.counts(num_samples=num_samples, num_chains=num_chains, thinning=thinning)
    validation.count("num_warmup", num_warmup, 0)
    new = NewInputs(*(np.asarray(a, np.float32) for a in features.on(inputs)))
    arrays = [jnp.asarray(a, jnp.float32) for a in (features.root, features.task.targets)]
    early = -(-num_warmup // thinning)
    gains = jnp.asarray(np.repeat([0.2, 0.0], [early, num_samples]), jnp.float32)
    shape, kind = (num_chains, max(widths), features.rank), (features.phi, features.pooled)
    found = []
    for index, width in enumerate(widths):
        posterior = (*arrays, *(jnp.float32(a) for a in (richness, ridge, width)))
        run_key, new_key = jax.random.split(jax.random.fold_in(key, index))
        u, *moves = (a[:, early:] for a in _run(run_key, shape, posterior, gains, jnp.int32(thinning), *kind))
        kept = _observe(new_key, u, posterior, new, *kind)
        h = np.tensordot(np.asarray(u)[:, :, :width], np.asarray(arrays[0]), ((3,), (2,)))
        energy, means, variances, kernels, rate, divergent = (np.asarray(a, float) for a in (*kept, *moves))
        series = {"energy": energy, "kernel": kernels.sum((2, 3)), "outputs": np.square(means).mean((2, 3))}
        convergence = diagnostics.judge(series, rate.mean(1), int(divergent.sum()))
        found.append(Networks(int(width), means, variances, kernels, h, convergence))
    return found


def _responses(u, posterior, phi, pooled):
    """F of the neurons u (n, r) that are seen, 0 of the others."""
    root, *_, width = posterior
    return (jnp.arange(len(u)) < width)[:, None, None] * _features.responses(u, root, phi, pooled)


def _moments(u, responses, posterior):
    """Energy of neurons u (n, r) with F; Φ_N, v = (Φ_N + 1/β)⁻¹Y, and the inverse Cholesky factor."""
    _, targets, richness, ridge, width = posterior
    kernel = jnp.einsum("nap,naq->pq", responses, responses) / width
    unit = jnp.eye(len(targets), dtype=u.dtype)
    factor = jnp.linalg.cholesky(kernel + ridge * unit)
    inverse = jax.scipy.linalg.solve_triangular(factor, unit, lower=True)
    field = inverse.T @ (inverse @ targets)
    energy = 0.5 * jnp.sum(u**2) + 0.5 * width * richness**2 * jnp.sum(targets * field)
    energy += targets.shape[1] * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return energy, kernel, field, inverse


def _value_and_gradient(u, posterior, phi, pooled):
    """Log density of neurons u, and its gradient F (γ0² v vᵀ − (m/N) (Φ_N + 1/β)⁻¹) pulled back, less u.

    By hand: to differentiate the Cholesky factor takes longer than all the rest.
    """
    _, targets, richness, _, width = posterior
    responses, pull_back = jax.vjp(lambda u: _responses(u, posterior, phi, pooled), u)
    energy, _, field, inverse = _moments(u, responses, posterior)
    slope = richness**2 * field @ field.T - targets.shape[1] / width * inverse.T @ inverse
    return -energy, pull_back(responses @ slope)[0] - u


@partial(jax.jit, static_argnames=("phi", "pooled"))
def _observe(key, samples, posterior, new, phi, pooled):
    """Energies, means, variances and kernels of samples (chains, samples, n, r), one after the other."""

    def one(inputs):
        key, u = inputs
        responses = _responses(u, posterior, phi, pooled)
        energy, kernel, field, inverse = _moments(u, responses, posterior)
        _, _, richness, _, width = posterior
        noise = normal(key, (len(u), new.noise_root.shape[-1]), u.dtype)
        h = _features.preactivations(u, new.projection) + _features.preactivations(noise, new.noise_root)
        there = _features.gather(phi(h), pooled) * (jnp.arange(len(u)) < width)[:, None, None]
        rows = jnp.einsum("nax,nap->xp", there, responses) / width
        own = jnp.sum(there**2, axis=(0, 1)) / width - jnp.sum((rows @ inverse.T) ** 2, axis=1)
        return energy, rows @ field, own / (richness**2 * width), kernel

    flat = samples.reshape(-1, *samples.shape[2:])
    found = jax.lax.map(one, (jax.random.split(key, len(flat)), flat))
    return jax.tree.map(lambda a: a.reshape(*samples.shape[:2], *a.shape[1:]), found)


@partial(jax.jit, static_argnames=("shape", "phi", "pooled"))
def _run(key, shape, posterior, gains, thinning, phi, pooled):
    """A record after every `thinning` transitions; the step size adapts with the gain of each record."""

    def per_chain(key):
        return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(shape[0]))

    log_density = partial(_value_and_gradient, posterior=posterior, phi=phi, pooled=pooled)

    def transitions(key, u, log_step, gain):
        def one(index, carry):
            u, log_step, acceptance, divergences = carry
            own, size = jax.random.fold_in(key, index), jnp.exp(log_step)
            jitter = jax.random.uniform(jax.random.fold_in(own, shape[0]), (), u.dtype, 0.5, 1.5)
            num_steps = jnp.clip(jnp.int32(math.pi / 2 * jitter / size), 1, MAX_STEPS)
            u, info = jax.vmap(lambda k, x: hmc_step(k, x, log_density, size, num_steps))(per_chain(own), u)
            rate = info.acceptance.astype(u.dtype)
            log_step += gain * (rate.mean() - ACCEPTANCE)
            return u, log_step, acceptance + rate / thinning, divergences + info.divergent

        nothing = jnp.zeros(shape[0], u.dtype), jnp.zeros(shape[0], jnp.int32)
        return jax.lax.fori_loop(0, thinning, one, (u, log_step, *nothing))

    def record(state, inputs):
        index, gain = inputs
        u, log_step = state
        u, log_step, *moves = transitions(jax.random.fold_in(key, index), u, log_step, gain)
        return (u, log_step), (u, *moves)

    start_key, dtype = jax.random.fold_in(key, 0), gains.dtype
    start = normal(start_key, shape, dtype), jnp.asarray(math.log(0.1), dtype)
    _, kept = jax.lax.scan(record, start, (jnp.arange(1, len(gains) + 1), gains))
    return jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), kept)
