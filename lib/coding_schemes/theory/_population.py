r"""The single-neuron measure of a hidden layer, carried by a population of neurons.

    p(u) ∝ N(u; 0, 1) exp(½ Σ_a F_a(u)ᵀ Φ̂ F_a(u)),

with F the layer's features and Φ̂ its dual kernel; of the last layer Φ̂ = q qᵀ with q = γ0 v (P, m),
and q is the minimum of the convex dual

    D(q) = log E_{u ~ N(0, 1)} exp(½ Σ_a |qᵀF_a|²) − γ0 tr qᵀY + |q|²/(2β).

Neurons move by Hamiltonian Monte Carlo; between moves q follows by Newton's method on the dual of the
*reweighted* population, as far as its effective sample size allows, while γ0 rises from the lazy end. At last
q is held, many snapshots are taken, and one more Newton solve reweights them: the conditions Y − f = v/β hold
to rounding on the result, which takes most of the sampling noise out of the predictor.
"""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes.networks import Nonlinearity
from coding_schemes.posterior import normal
from coding_schemes.theory import features as _features
from coding_schemes.theory._drawn import systematic
from coding_schemes.theory._solvers import newton
from coding_schemes.theory.features import NewInputs

NUM_LEAPFROG = 12
ACCEPTANCE = 0.85
MIN_SHARE = 0.5  # of the neurons that reweighting must leave effective
MAX_NUMBERS = 3e7  # stored activations, all snapshots together
CHUNK = 4e6  # activations on new inputs that are held at a time


class Neurons(NamedTuple):
    """Weighted neurons that stand for one layer's measure.

    Attributes:
        u: shape (n, r).
        weights: shape (n,), sum 1.
    """

    u: np.ndarray
    weights: np.ndarray


class Layers(NamedTuple):
    """Solution of one layer or more.

    Attributes:
        kernels: Φ^1 … Φ^L, shape (L, P, P).
        lower_duals: Φ̂^1 … Φ̂^{L−1}, each of shape (P, P); the last is γ0² v vᵀ.
        field: v, shape (P, m).
        roots: S_0 … S_{L−1}, of shape (P, r).
        neurons: of every layer.
        residual: largest relative violation of the stationarity conditions.
        disagreement: largest relative difference between populations' kernels.
        effective: effective sample size over the number of neurons, or the weight inside the quadrature.
        num_steps: evaluations, Newton or outer steps.
    """

    kernels: np.ndarray
    lower_duals: Sequence[np.ndarray]
    field: np.ndarray
    roots: list[np.ndarray]
    neurons: list[Neurons]
    residual: float
    disagreement: float
    effective: float
    num_steps: int


def solve_readout(
    root: np.ndarray,
    targets: np.ndarray,
    phi: Nonlinearity,
    richness: float,
    ridge: float,
    key: jax.Array,
    num_neurons: int,
    num_rounds: int,
    num_populations: int = 2,
    pooled: bool = False,
) -> Layers:
    """Minimize D of the module docstring with independent populations, then pool them: a single layer.

    Snapshots of each population, num_rounds of them, are fewer where they would not fit into memory.
    """
    fixed = (root, targets, (phi, pooled), richness, ridge)
    found = [
        _one_population(*fixed, k, num_neurons, num_rounds) for k in jax.random.split(key, num_populations)
    ]
    fields, duals, snapshots, num_steps = zip(*found)
    kernels = [dual.kernel(dual.weights(own)) for own, dual in zip(fields, duals)]
    activations = np.concatenate([dual.activations for dual in duals])
    log_proposal = np.concatenate([dual.log_proposal for dual in duals])
    dual = _Dual(activations, log_proposal, targets, richness, ridge)
    q, effective, steps = dual.newton(np.mean(fields, axis=0), 0.2)
    weights = dual.weights(q)
    kernel, field = dual.kernel(weights), q / richness
    violation = kernel @ field + ridge * field - targets
    disagreement = max(np.linalg.norm(k - kernel) for k in kernels) / np.linalg.norm(kernel)
    residual = np.linalg.norm(violation) / np.linalg.norm(targets)
    return Layers(
        kernel[None], [], field, [root[0]], [Neurons(np.concatenate(snapshots), weights)], float(residual),
        float(disagreement), effective, sum(num_steps) + steps,
    )  # fmt: skip


def _one_population(root, targets, kind, richness, ridge, key, num_neurons, num_rounds):
    """Anneal γ0 upwards, equilibrate, hold q and take snapshots; again where q still moved far."""
    root, rank = np.asarray(root, np.float32), root.shape[-1]
    rng = generator(key)
    u = rng.standard_normal((num_neurons, rank), np.float32)
    log_step, q, num_steps, calls = np.float32(np.log(0.15)), np.zeros_like(targets), 0, itertools.count()

    def advance(u, log_step, q, num_moves):
        tilt = (q @ q.T).astype(np.float32)
        u, log_step = move(key, next(calls), u, log_step, tilt, root, num_moves, *kind)
        return np.asarray(u), log_step

    def dual_of(u, level, q):
        activations = np.asarray(evaluate(u, root, *kind), float)
        return _Dual(activations, 0.5 * np.square(activations @ q).sum((1, 2)), targets, level, ridge)

    start = min(richness, 0.5 / np.linalg.norm(targets))
    levels = richness * 2.0 ** (-0.5 * np.arange(np.ceil(2 * np.log2(richness / start)), -1, -1))
    for level in [*levels, *[richness] * 8]:
        dual = dual_of(u, level, q)
        q, _, steps = dual.newton(q, MIN_SHARE, 6, 1e-4)
        u = u[systematic(dual.weights(q), num_neurons, rng)]
        num_steps += steps
        u, log_step = advance(u, log_step, q, 3)
    for index in range(30):  # stochastic approximation: no resampling, decreasing gain
        target, _, steps = dual_of(u, richness, q).newton(q, MIN_SHARE, 1)
        q, num_steps = q + min(0.5, 10 / (index + 10)) * (target - q), num_steps + steps
        u, log_step = advance(u, log_step, q, 2)
    size = num_neurons * root.shape[0] * root.shape[1]
    num_snapshots = int(min(num_rounds, max(MAX_NUMBERS // (2 * size), 1)))
    for _ in range(4):
        snapshots = np.empty((num_snapshots, *u.shape), np.float32)
        for snapshot in snapshots:
            u, log_step = advance(u, log_step, q, num_rounds // num_snapshots)
            snapshot[:] = u
        snapshots = snapshots.reshape(-1, rank)
        dual = dual_of(snapshots, richness, q)
        q, effective, steps = dual.newton(q, MIN_SHARE)
        num_steps += steps
        if effective > 0.9:
            break
    return q, dual, snapshots, num_steps


# --- the dual of a weighted population ------------------------------------------------------------


class _Dual:
    """D(q) as an average over neurons drawn from a known proposal."""

    def __init__(self, activations, log_proposal, targets, richness, ridge):
        self.activations, self.log_proposal = activations, log_proposal
        self.targets, self.richness, self.ridge = targets, richness, ridge

    def value(self, q):
        """D, the neurons' weights and their share that is effective, and F_aᵀq (n, A, m)."""
        overlaps = self.activations @ q
        log_weight = 0.5 * np.square(overlaps).sum((1, 2)) - self.log_proposal
        shift = log_weight.max()
        weights = np.exp(log_weight - shift)
        value = np.log(weights.mean()) + shift
        value += 0.5 * self.ridge * np.sum(q**2) - self.richness * np.sum(q * self.targets)
        weights /= weights.sum()
        return value, weights, float(1 / (len(weights) * np.sum(weights**2))), overlaps

    def weights(self, q) -> np.ndarray:
        return self.value(q)[1]

    def kernel(self, weights) -> np.ndarray:
        flat = self.activations.reshape(-1, self.activations.shape[-1])
        return (flat * np.repeat(weights, self.activations.shape[1])[:, None]).T @ flat

    def newton(self, q, min_share, max_steps=30, tolerance=1e-14) -> tuple[np.ndarray, float, int]:
        """Newton's method, steps cut so that min_share of the neurons stay effective: q, share, steps."""
        (num, m), found = q.shape, self.value(q)
        least = min(min_share, 0.98 * found[2])

        def evaluate(q):
            value, *rest = self.value(q)
            return np.inf if rest[1] < least else value, *rest

        def propose(q, found):
            value, weights, _, overlaps = found
            pulled = np.einsum("nap,nam->npm", self.activations, overlaps, optimize=True)
            pulled = pulled.reshape(len(weights), -1)  # Σ_a F_a F_aᵀq
            mean = weights @ pulled
            gradient = mean - self.richness * self.targets.ravel() + self.ridge * q.ravel()
            hessian = (pulled * weights[:, None]).T @ pulled - np.outer(mean, mean)
            hessian += np.kron(self.kernel(weights) + self.ridge * np.eye(num), np.eye(m))
            step = -np.linalg.solve(hessian, gradient)
            decrement = -gradient @ step
            enough = not decrement > tolerance * max(1.0, abs(value))
            return None if enough else (step.reshape(q.shape), decrement, 1.0)

        q, found, steps = newton(evaluate, propose, q, found, max_steps, shortest=1e-3, noise=1e-12)
        return q, found[2], min(steps + 1, max_steps)


def hold(key, root, tilt, phi, num_neurons=1024, num_rounds=40, pooled=False) -> Neurons:
    """Neurons of the measure at a given dual kernel Φ̂ (P, P), tempered from the prior."""
    root, tilt = np.asarray(root, np.float32), np.asarray(tilt, np.float32)
    rng = generator(key)
    u = rng.standard_normal((num_neurons, root.shape[-1]), np.float32)
    log_step, share, calls = np.float32(np.log(0.15)), 0.0, itertools.count()
    while share < 1:
        activations = np.asarray(evaluate(u, root, phi, pooled), float)
        energy = 0.5 * np.sum(activations * (activations @ tilt), axis=(1, 2))
        more = 1 - share
        while True:
            weights = np.exp(more * (energy - energy.max()))
            weights /= weights.sum()
            if 1 / np.sum(weights**2) > MIN_SHARE * num_neurons or more < 1e-4:
                break
            more /= 2
        share = share + more if more < 1 - share else 1.0
        u = u[systematic(weights, num_neurons, rng)]
        u, log_step = move(key, next(calls), u, log_step, share * tilt, root, 3, phi, pooled)
        u = np.asarray(u)
    snapshots = []
    for _ in range(num_rounds):
        u, log_step = move(key, next(calls), u, log_step, tilt, root, 2, phi, pooled)
        snapshots.append(np.asarray(u))
    u = np.concatenate(snapshots)
    return Neurons(u, np.full(len(u), 1 / len(u)))


def generator(key: jax.Array) -> np.random.Generator:
    """NumPy's random numbers from a JAX key: draws on the host need no compiled program for every shape."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


# --- moves ----------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(7, 8))
def move(key, call, u, log_step, tilt, root, num_moves, phi, pooled=False):
    """HMC moves of all neurons at once, at the dual kernel `tilt`; the step size adapts to 85 % acceptance.

    One matrix product serves the whole population; a kernel of its own for every neuron would not. First
    every neuron is drawn from itself and its mirror image −u, which the prior has as often: a code and its
    complement are far apart, and where outputs leave their balance free nothing else would set it.

    Returns:
        u and the log step size.
    """
    key = jax.random.fold_in(key, call)
    responses = partial(_features.responses, root=root, phi=phi, pooled=pooled)

    def value_and_gradient(u):
        activations, pull_back = jax.vjp(responses, u)
        pull = activations @ tilt
        value = 0.5 * (jnp.sum(activations * pull, axis=(1, 2)) - jnp.sum(jnp.square(u), axis=1))
        return value, pull_back(pull)[0] - u

    mirror_key = jax.random.fold_in(key, num_moves)
    value, mirrored = (0.5 * jnp.sum(f * (f @ tilt), axis=(1, 2)) for f in (responses(u), responses(-u)))
    flip = jax.random.uniform(mirror_key, value.shape, u.dtype) < jax.nn.sigmoid(mirrored - value)
    u = jnp.where(flip[:, None], -u, u)

    def one(index, state):
        u, log_step = state
        kick_key, accept_key = jax.random.split(jax.random.fold_in(key, index))
        size = jnp.exp(log_step)
        p = normal(kick_key, u.shape, u.dtype)
        value, gradient = value_and_gradient(u)
        energy = value - 0.5 * jnp.sum(jnp.square(p), axis=1)

        def leap(_, state):  # the kick that ends a step and the one that begins the next are made as one
            x, p = state
            x = x + size * p
            return x, p + size * value_and_gradient(x)[1]

        new, p = jax.lax.fori_loop(1, NUM_LEAPFROG, leap, (u, p + 0.5 * size * gradient))
        new = new + size * p
        value, gradient = value_and_gradient(new)
        p = p + 0.5 * size * gradient
        log_ratio = value - 0.5 * jnp.sum(jnp.square(p), axis=1) - energy
        ratio = jnp.where(jnp.isfinite(log_ratio), jnp.minimum(1, jnp.exp(log_ratio)), 0.0)
        accepted = jax.random.uniform(accept_key, ratio.shape, u.dtype) < ratio
        u = jnp.where(accepted[:, None], new, u)
        return u, (log_step + 0.15 * (ratio.mean() - ACCEPTANCE)).astype(log_step.dtype)

    return jax.lax.fori_loop(0, num_moves, one, (u, log_step))


@partial(jax.jit, static_argnums=(2, 3))
def evaluate(u, root, phi, pooled=False):
    """F of neurons u (n, r), shape (n, A, P)."""
    return _features.responses(u, root, phi, pooled)


# --- new inputs -----------------------------------------------------------------------------------


class TestMoments(NamedTuple):
    """Averages over neurons on P* new inputs.

    Attributes:
        rows: k(x) = Σ_a ⟨F_a(x) F_a⟩, shape (P*, P).
        diagonal: Σ_a ⟨F_a(x)²⟩, shape (P*,).
        square: ⟨(Σ_a F_a(x) g_a)²⟩ with g_a = vᵀF_a, shape (P*, m).
        mixed: ⟨Σ_a F_a(x) g_a (Σ_b F_b g_b)ᵀ⟩, shape (P*, m, P·m).
    """

    rows: np.ndarray
    diagonal: np.ndarray
    square: np.ndarray
    mixed: np.ndarray


def moments_on(
    neurons: Neurons,
    root: np.ndarray,
    new: NewInputs,
    field: np.ndarray,
    phi: Nonlinearity,
    pooled: bool = False,
    rows_only: bool = False,
) -> TestMoments:
    """TestMoments of one layer; the scatter of h(x) given u is averaged out, or drawn where it is squared.

    With rows_only all but k(x) is left out, and 0: enough for a mean predictor.
    """
    per_neuron = len(root) * max(new.projection.shape[1], root.shape[1])
    size = int(np.clip(CHUNK // per_neuron, 64, max(len(neurons.u), 64)))
    arrays = [jnp.asarray(a, jnp.float32) for a in (root, *new, field)]
    total: list[np.ndarray] = []
    for start in range(0, len(neurons.u), size):
        u, weights = neurons.u[start : start + size], neurons.weights[start : start + size]
        short = size - len(u)
        u, weights = np.pad(u, ((0, short), (0, 0))), np.pad(weights, (0, short))
        chunk = (jnp.asarray(a, jnp.float32) for a in (u, weights))
        sums = _test_sums(jax.random.key(start), *chunk, *arrays, phi, pooled, rows_only)
        part = [np.asarray(array, float) for array in sums]
        total = [a + b for a, b in zip(total, part)] if total else part
    return TestMoments(*total)


@partial(jax.jit, static_argnums=(7, 8, 9))
def _test_sums(key, u, weights, root, projection, noise_root, field, phi, pooled, rows_only):
    own = _features.responses(u, root, phi, pooled)
    mean = _features.preactivations(u, projection)
    std = jnp.sqrt(jnp.sum(jnp.square(noise_root), axis=-1))
    smooth = _features.gather(_features.averaged(phi, mean, jnp.broadcast_to(std, mean.shape)), pooled)
    weighted = smooth * weights[:, None, None]
    rows = jnp.einsum("nax,nap->xp", weighted, own)
    if rows_only:
        zero = jnp.zeros(1, u.dtype)
        return rows, zero, zero, zero
    noise = normal(key, (len(u), noise_root.shape[-1]), u.dtype)
    drawn = _features.gather(phi(mean + _features.preactivations(noise, noise_root)), pooled)
    diagonal = jnp.einsum("n,nax,nax->x", weights, drawn, drawn)
    g = own @ field
    square = jnp.einsum("n,nxm->xm", weights, jnp.square(jnp.einsum("nax,nam->nxm", drawn, g)))
    here = jnp.einsum("nap,nam->npm", own, g).reshape(len(u), -1)
    there = jnp.einsum("nax,nam->nxm", weighted, g)
    mixed = jnp.tensordot(there, here, ((0,), (0,)))
    return rows, diagonal, square, mixed
