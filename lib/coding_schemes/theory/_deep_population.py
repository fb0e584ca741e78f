r"""The saddle point of deep networks: quadrature for a few inputs, nested populations for some tens.

    S = (γ0²/2) tr Yᵀ(Φ^L + 1/β)⁻¹Y + Σ_ℓ [½ tr Φ^ℓ Φ̂^ℓ − log Z_ℓ(Φ^{ℓ−1}, Φ̂^ℓ)],

minimal over Φ, maximal over Φ̂. With u = S_ℓ⁻¹h white at layer ℓ+1 (S_ℓ a root of Φ^ℓ), stationarity reads

    ⟨φφᵀ⟩_ℓ = Φ^ℓ,    S_ℓᵀ Φ̂^ℓ S_ℓ = ⟨u uᵀ⟩_{ℓ+1} − 1 = sym ⟨∇_uE uᵀ⟩_{ℓ+1},    E = ½ φᵀΦ̂^{ℓ+1}φ .

Damping Φ and Φ̂ together towards these targets is unstable at three layers and moderate γ0, linear networks
included. What is stable is to solve for Φ̂^ℓ at given kernels and let Φ^ℓ descend: here every inner dual takes
a Newton step of its own, cut by the effective sample size, for every small step of the kernels.

Source: paper B, Eqs. 6–8, 26–28 and Algorithm 1.
"""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import root as find_root

from coding_schemes.networks import Nonlinearity
from coding_schemes.theory import _population
from coding_schemes.theory import features as _features
from coding_schemes.theory._population import Layers, Neurons
from coding_schemes.theory._solvers import symmetric_root

POINTS, REACH = 41, 6.5  # of the quadrature, per dimension
RATE, CAP = 0.25, 0.5  # of the kernels' descent
SHRINKAGE = 0.3  # of the sampled Hessian towards a Gaussian layer's


# --- quadrature -----------------------------------------------------------------------------------


def quadrature(
    first_root: np.ndarray, targets: np.ndarray, phi: Nonlinearity, depth: int, richness: float, ridge: float
) -> Layers:
    """The saddle point by the trapezoid rule over every layer's white coordinates, for P ≤ 3.

    All conditions at once by Powell's hybrid method with exact derivatives, followed up from small γ0.
    """
    with jax.enable_x64(True):
        num_levels = _num_levels(richness, targets)
        root, y = jnp.asarray(first_root, jnp.float64), jnp.asarray(targets, jnp.float64)
        x, num_steps = _prior_start(root, y, phi, depth, ridge), 0
        for level in richness * 2.0 ** (-0.5 * np.arange(num_levels, -1, -1)):
            arguments = (root, y, jnp.float64(level), jnp.float64(ridge))
            found = find_root(
                lambda x, *rest: tuple(map(np.asarray, _with_jacobian(jnp.asarray(x), *rest, phi, depth))),
                x,
                arguments,
                jac=True,
                tol=1e-13,
            )
            x, num_steps = found.x, num_steps + int(found.nfev)
        described = _describe(x, root, y, jnp.float64(richness), phi, depth)
        _, duals, field, roots, measured = jax.tree.map(np.asarray, described)
    neurons, edge = [], 0.0
    for root, (_, _, weights) in zip(roots, measured):
        points = np.asarray(lattice(root.shape[1])[0])
        neurons.append(Neurons(points, weights))
        edge = max(edge, float(weights @ (np.abs(points).max(1) > REACH - 1e-9)))
    residual = float(np.linalg.norm(found.fun) / np.linalg.norm(x))
    return Layers(
        np.stack([kernel for kernel, _, _ in measured]), duals[:-1], field, roots, neurons,
        max(residual, edge), 0.0, 1 - edge, num_steps,
    )  # fmt: skip


def _num_levels(richness, targets) -> int:
    return int(max(np.ceil(2 * np.log2(richness * np.linalg.norm(targets) / 0.3)), 0))


def lattice(rank):
    """Points of the trapezoid rule in white coordinates, and their log density but for a constant."""
    axis = np.linspace(-REACH, REACH, POINTS)
    points = np.array(list(itertools.product(axis, repeat=rank)))
    return jnp.asarray(points), jnp.asarray(-0.5 * np.sum(points**2, axis=1))


def _measure(root, dual, phi):
    """Of one layer: ⟨φφᵀ⟩, ⟨uuᵀ⟩, and the weights of the lattice's points."""
    points, log_prior = lattice(root.shape[1])
    activations = phi(points @ root.T)
    weights = jax.nn.softmax(log_prior + 0.5 * jnp.sum(activations * (activations @ dual), axis=1))
    weighted = weights[:, None]
    return (weighted * activations).T @ activations, (weighted * points).T @ points, weights


def _unpack(x, num, m, depth):
    size = num * (num + 1) // 2
    lower = jnp.tril_indices(num)
    parts = x[: 2 * (depth - 1) * size].reshape(depth - 1, 2, size)

    def symmetric(entries):
        matrix = jnp.zeros((num, num)).at[lower].set(entries)
        return matrix + jnp.tril(matrix, -1).T

    kernels = [symmetric(p[0]) for p in parts]
    duals = [symmetric(p[1]) for p in parts]
    return kernels, duals, x[2 * (depth - 1) * size :].reshape(num, m)


@partial(jax.jit, static_argnums=(4, 5))
def _describe(x, first_root, targets, richness, phi, depth):
    """Φ^1 … Φ^{L−1}, all duals, v, roots, and `_measure` of every layer."""
    num, m = targets.shape
    kernels, duals, field = _unpack(x, num, m, depth)
    duals = [*duals, richness**2 * field @ field.T]
    roots = [first_root, *map(jnp.linalg.cholesky, kernels)]
    return kernels, duals, field, roots, [_measure(r, d, phi) for r, d in zip(roots, duals)]


def _conditions(x, first_root, targets, richness, ridge, phi, depth):
    lower = jnp.tril_indices(len(targets))
    kernels, duals, field, roots, measured = _describe(x, first_root, targets, richness, phi, depth)
    violations = []
    for layer, (kernel, second, _) in enumerate(measured):
        if layer < depth - 1:
            violations.append((kernel - kernels[layer])[lower])
        else:
            violations.append((kernel @ field + ridge * field - targets).ravel())
        if layer > 0:
            white = roots[layer].T @ duals[layer - 1] @ roots[layer]
            violations.append((white - second + jnp.eye(len(white)))[lower])
    return jnp.concatenate(violations)


@partial(jax.jit, static_argnums=(5, 6))
def _with_jacobian(x, *arguments):
    def conditions(x):
        violations = _conditions(x, *arguments)
        return violations, violations

    jacobian, violations = jax.jacfwd(conditions, has_aux=True)(x)
    return violations, jacobian


@partial(jax.jit, static_argnums=(2, 3))
def _prior_start(first_root, targets, phi, depth, ridge):
    num = len(targets)
    root, parts = first_root, []
    for _ in range(depth):
        kernel = _measure(root, jnp.zeros((num, num)), phi)[0]
        parts += [kernel[jnp.tril_indices(num)], jnp.zeros(num * (num + 1) // 2)]
        root = jnp.linalg.cholesky(kernel)
    field = jnp.linalg.solve(kernel + ridge * jnp.eye(num), targets)
    return jnp.concatenate([*parts[:-2], field.ravel()])


# --- nested populations ---------------------------------------------------------------------------


def nested(
    first_root: np.ndarray,
    targets: np.ndarray,
    phi: Nonlinearity,
    depth: int,
    richness: float,
    ridge: float,
    key: jax.Array,
    num_neurons: int,
    num_rounds: int,
    num_populations: int = 2,
) -> Layers:
    """The saddle point for bounded φ and P ≤ 30, each population solved on its own, then averaged."""
    runs = [
        _Nest(first_root, targets, phi, depth, ridge, k, num_neurons).solve(richness, num_rounds)
        for k in jax.random.split(key, num_populations)
    ]
    kernels = np.mean([run[0] for run in runs], axis=0)  # Φ^1 … Φ^{L−1}
    duals = np.mean([run[1] for run in runs], axis=0)
    roots = [first_root, *(_root(k) for k in kernels)]
    spread = max(_distance(own, k) for each, _, _ in runs for own, k in zip(each, kernels))
    neurons, residual = [], 0.0
    for layer, (kernel, dual) in enumerate(zip(kernels, duals)):
        held = _population.hold(jax.random.fold_in(key, layer), roots[layer][None], dual, phi, num_neurons)
        activations = _population.evaluate(held.u, np.float32(roots[layer][None]), phi)
        activations = np.asarray(activations, float)[:, 0]
        measured = activations.T @ activations / len(activations)
        noise = np.sqrt(len(kernel) / len(activations))  # what sampling alone leaves of this norm
        residual = max(residual, _distance(measured, kernel) - noise)
        neurons.append(held)
    last = (roots[-1][None], targets, phi, richness, ridge, jax.random.fold_in(key, depth))
    readout = _population.solve_readout(*last, num_neurons, num_rounds, num_populations=1)
    return Layers(
        np.stack([*kernels, *readout.kernels]), duals, readout.field,
        roots, [*neurons, *readout.neurons], max(residual, readout.residual), spread,
        readout.effective, sum(run[2] for run in runs),
    )  # fmt: skip


def _distance(found: np.ndarray, kernel: np.ndarray) -> float:
    return float(np.linalg.norm(found - kernel) / np.linalg.norm(kernel))


class _Nest:
    """Populations of all layers, with the kernels between them and the inner duals."""

    def __init__(self, first_root, targets, phi, depth, ridge, key, num_neurons):
        self.targets, self.phi, self.depth, self.ridge = targets, phi, depth, ridge
        self.key, self.calls, rng = key, itertools.count(), _population.generator(key)
        num = len(targets)
        ranks = [first_root.shape[1], *[num] * (depth - 1)]
        self.u = [rng.standard_normal((num_neurons, rank), np.float32) for rank in ranks]
        self.log_steps = [np.float32(np.log(0.15))] * depth
        self.duals = [np.zeros((num, num)) for _ in range(depth - 1)]
        self.q = np.zeros_like(targets)
        self.first_root, self.kernels = first_root, []
        for layer in range(depth - 1):
            activations = self._activations(layer)
            self.kernels.append(activations.T @ activations / len(activations))

    def solve(self, richness, num_rounds):
        """Anneal γ0, then average Φ and Φ̂ with decreasing gain: kernels, duals, outer steps."""
        levels = richness * 2.0 ** (-0.5 * np.arange(_num_levels(richness, self.targets), 0, -1))
        levels = [*np.repeat(levels, 6), *[richness] * 60]
        for level in levels:
            self._outer_step(level, 1.0)
        sums = [np.zeros((self.depth - 1, *self.kernels[0].shape)) for _ in range(2)]
        for index in range(num_rounds):
            self._outer_step(richness, 10 / (index + 10))
            for total, parts in zip(sums, (self.kernels, self.duals)):
                total += np.stack(parts) / num_rounds
        return *sums, len(levels) + num_rounds

    def _root(self, layer):
        return self.first_root if layer == 0 else _root(self.kernels[layer - 1])

    def _activations(self, layer):
        root = np.float32(self._root(layer)[None])
        return np.asarray(_population.evaluate(self.u[layer], root, self.phi), float)[:, 0]

    def _outer_step(self, richness, gain):
        for layer in range(self.depth - 1):
            self._inner_step(layer, gain)
        activations = self._activations(self.depth - 1)[:, None]
        proposal = 0.5 * np.square(activations @ self.q).sum((1, 2))
        dual = _population._Dual(activations, proposal, self.targets, richness, self.ridge)
        target, _, _ = dual.newton(self.q, _population.MIN_SHARE, 2, 1e-6)
        self.q = self.q + max(gain, 0.1) * (target - self.q)
        moments = [self._move(layer) for layer in range(self.depth)]
        for layer, kernel in enumerate(self.kernels):
            half = _root(kernel)
            slope = half @ self.duals[layer] @ half - moments[layer + 1]
            slope *= min(1.0, CAP / float(np.linalg.norm(slope, 2))) * RATE * gain
            values, vectors = np.linalg.eigh(slope)
            self.kernels[layer] = half @ (vectors * np.exp(-values)) @ vectors.T @ half

    def _inner_step(self, layer, gain):
        """A Newton step of Φ̂ towards ⟨φφᵀ⟩ = Φ, in features that Φ makes white."""
        inverse = np.linalg.inv(_root(self.kernels[layer]))
        white = self._activations(layer) @ inverse
        num = white.shape[1]
        upper = np.triu_indices(num)
        factor = np.where(upper[0] == upper[1], 0.5, 1.0)
        statistics = (white[:, upper[0]] * white[:, upper[1]] * factor).astype(np.float32)
        missed = statistics.mean(0) - np.where(upper[0] == upper[1], 0.5, 0.0)
        centered = statistics - statistics.mean(0)
        hessian = (1 - SHRINKAGE) * (centered.T @ centered) / len(white) + SHRINKAGE * np.diag(factor)
        step = -np.linalg.solve(hessian, missed)
        energy = centered @ step
        length = float(gain)
        while np.mean(np.exp(length * energy)) ** 2 < _population.MIN_SHARE * np.mean(
            np.exp(2 * length * energy)
        ):
            length /= 2
        change = np.zeros((num, num))
        change[upper] = length * step
        change = change + np.triu(change, 1).T
        self.duals[layer] = self.duals[layer] + inverse @ change @ inverse

    def _move(self, layer):
        """Move a layer's neurons and return ⟨∇_uE uᵀ⟩."""
        tilt = self.q @ self.q.T if layer == self.depth - 1 else self.duals[layer]
        tilt, root = np.float32(tilt), np.float32(self._root(layer)[None])
        u, self.log_steps[layer] = _population.move(
            self.key, next(self.calls), self.u[layer], self.log_steps[layer], tilt, root, 2, self.phi
        )
        self.u[layer] = np.asarray(u)
        return np.asarray(_virial(u, tilt, root, self.phi), float)


@partial(jax.jit, static_argnums=3)
def _virial(u, tilt, root, phi):
    def energy(u):
        activations = _features.responses(u, root, phi, False)
        return 0.5 * jnp.sum(activations * (activations @ tilt))

    product = jax.grad(energy)(u).T @ u / len(u)
    return 0.5 * (product + product.T)


_root = partial(symmetric_root, floor=1e-9)  # and positive
