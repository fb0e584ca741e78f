r"""Adaptive kernels (aNBK): what feature learning makes of the kernel of a Bayesian network.

A network f(x) = (1/(γ0 N)) w·φ(h^L) with unit Gaussian priors on all weights, learned with squared loss at
inverse temperature β (temperature scaled with N γ0²), is at N → ∞ and fixed P the saddle point

    S = (γ0²/2) tr Yᵀ(Φ^L + 1/β)⁻¹Y + Σ_ℓ [½ tr Φ^ℓ Φ̂^ℓ − log Z_ℓ(Φ^{ℓ−1}, Φ̂^ℓ)],
    Z_ℓ = E_{h ~ N(0, Φ^{ℓ−1})} exp(½ φ(h)ᵀ Φ̂^ℓ φ(h)),      Φ^0 = K0,

minimal over the kernels Φ^ℓ, maximal over their duals Φ̂^ℓ. With v = (Φ^L + 1/β)⁻¹Y,

    Φ^ℓ = ⟨φφᵀ⟩_ℓ,   Φ̂^L = γ0² v vᵀ,   Φ̂^ℓ = 2 ∂log Z_{ℓ+1}/∂Φ^ℓ,   f(x) = k(x)ᵀ v,   Y − f = v/β,

where k_μ(x) = ⟨φ(h(x)) φ(h_μ)⟩_L: nothing pulls at a new input, so h(x) given the training inputs' h is
Gaussian with the layer's prior. γ0 → 0 is the NNGP kernel. With σ_a² = 1/γ0² and T = 1/(β γ0²) this is paper
A's saddle point at finite P: `Posterior(task, network, T, readout_variance=σ_a²)` is the network itself, its
dual field is γ0² v, and γ0² = P is paper A's choice for bounded φ.

`solve` calls the theory that is exact or convergent for the task and network at hand (its `method`):

    linear          φ linear, any inputs and depth: theory.linear
    sigmoidal       bounded φ, orthogonal inputs, L = 1: theory.sigmoidal
    deep_sigmoidal  the same, deeper, up to 4 classes: theory.deep_sigmoidal
    lattice         ReLU, orthogonal inputs, L = 1, one output: an integral over g = γ0 × readout
    quadrature      smooth φ, P ≤ 3, any depth: the reference of the tests
    population      L = 1, any inputs (ReLU: not too rich)
    nested          bounded φ, any inputs, P ≤ 30
    sampling        everything else: networks sampled at two widths, extrapolated in 1/N

Source: paper B, Eqs. 4–8, 18–33 (the sign of Φ̂ is this book's); the convex dual at L = 1, and that these two
papers share one saddle point, are this book's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

from coding_schemes import networks, validation
from coding_schemes.networks import Network, is_bounded
from coding_schemes.tasks import Task
from coding_schemes.theory import _deep_population, _population, _relu_lattice, _sampled, linear, sigmoidal
from coding_schemes.theory import deep_sigmoidal as deep
from coding_schemes.theory import features as _features
from coding_schemes.theory._expansion import Expansion, expansion
from coding_schemes.theory._population import Neurons
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solvers import class_kernel, class_means, evaluate, has_class_targets
from coding_schemes.theory.features import Features, NewInputs

__all__ = ["Expansion", "Overlaps", "Solution", "expansion", "overlaps", "solve"]

MAX_QUADRATURE_INPUTS, MAX_NESTED_INPUTS = 3, 30
NEEDS = {  # of every method, and what to use instead at L = 1 and at L ≥ 2
    "linear": ("φ linear and dense features", "population", "sampling"),
    "sigmoidal": (
        "bounded φ, orthogonal inputs with one target per class, and L = 1", "population", "nested"
    ),
    "deep_sigmoidal": (
        f"bounded φ, orthogonal inputs and at most {deep.MAX_CLASSES} classes", "population", "nested"
    ),
    "lattice": ("the ReLU, orthogonal inputs, L = 1 and one output", "sampling", "sampling"),
    "quadrature": (f"dense features and at most {MAX_QUADRATURE_INPUTS} inputs", "population", "nested"),
    "population": ("L = 1", "", "nested' or 'sampling"),
    "nested": (
        f"bounded φ, dense features, L ≥ 2 and at most {MAX_NESTED_INPUTS} inputs", "population", "sampling"
    ),
    "sampling": ("dense features", "population", ""),
}  # fmt: skip
METHODS = tuple(NEEDS)
MAX_DISAGREEMENT = 0.1  # of two populations' kernels, relative; sampling alone leaves √(P/n) or so
MAX_POPULATION_RICHNESS_SQ = 4.0  # γ0²|y|² up to which a population carries the ReLU's tail
RESIDUAL_TOLERANCE = 1e-6
SAMPLED_TOLERANCE = 0.05  # where the conditions can only be measured on sampled neurons or networks


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Solved):
    """Kernels of all layers at the saddle point.

    Attributes:
        task: what was learned.
        network: architecture; its width plays no part.
        features: of the first layer.
        richness: γ0.
        ridge: 1/β.
        kernels: Φ^0 … Φ^L, shape (L + 1, P, P).
        dual_kernels: Φ̂^1 … Φ̂^L, shape (L, P, P); positive where they tilt towards larger φ.
        dual_field: v, shape (P, m); the training residual of the predictor is v/β.
        residual: relative violation of the conditions that the method solves for.
        disagreement: relative difference of the kernels of independent populations, 0 where there are none.
        effective_share: effective sample size over the number of neurons; 1 where there are none.
        num_steps: of the method's outermost iteration.
        converged: residual and disagreement are below their tolerances.
        method: one of METHODS.
    """

    task: Task
    network: Network
    features: Features
    richness: float
    ridge: float
    kernels: np.ndarray
    dual_kernels: np.ndarray
    dual_field: np.ndarray
    disagreement: float
    effective_share: float
    method: str
    _neurons: Callable[[], list[Neurons]] | None = field(default=None, repr=False)
    _roots: list[np.ndarray] | None = field(default=None, repr=False)
    _closed: linear.Solution | None = field(default=None, repr=False)
    _networks: _sampled.Sampled | None = field(default=None, repr=False)

    @property
    def approximation(self) -> str:
        """What is neglected."""
        sampled, differ = "exact at N → ∞, but for sampled neurons", f"{self.disagreement:.1%}"
        neglected = {
            "deep_sigmoidal": deep.Solution.approximation,
            "population": f"{sampled}: two populations differ by {differ}",
            "nested": sampled,
            "sampling": "sampled networks of two widths, extrapolated in 1/N",
        }
        return neglected.get(self.method, "exact at N → ∞")

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Predictor f(x) = k(x)ᵀ v on inputs (N0, P*), shape (P*, m)."""
        if self._closed is not None:
            return self._closed.predict(np.asarray(inputs, dtype=float))
        if self._networks is not None:
            return self._networks.predict(inputs)
        return self._moments(inputs, rows_only=True).rows @ self.dual_field

    def test_kernel(self, inputs: np.ndarray) -> np.ndarray:
        """k_μ(x) of the feature layer between inputs (N0, P*) and the training inputs, shape (P*, P).

        Raises:
            ValueError: the method has no neurons to average over.
        """
        if self._closed is not None:
            both = np.concatenate([np.asarray(inputs, dtype=float), self.task.inputs], axis=1)
            return self._closed.kernel(both)[: np.shape(inputs)[1], np.shape(inputs)[1] :]
        if self._networks is not None:
            raise ValueError("solution: sampled networks give predictions and training kernels only")
        return self._moments(inputs, rows_only=True).rows

    def predictor_variance(self, inputs: np.ndarray, width: int) -> np.ndarray:
        r"""Variance of one network's outputs to leading order in 1/N, one hidden layer.

            N Var f(x) = C_xx − C_xt (C_tt + T)⁻¹ C_tx,   C = Cov(aφ) over neurons,  T = 1/(β γ0²),

        a | h ~ N(vᵀφ, 1/γ0²): independent neurons, less what their common field takes back.

        Args:
            inputs: shape (N0, P*).
            width: N.

        Returns:
            Variances, shape (P*, m).

        Raises:
            ValueError: more than one hidden layer (sample instead), or sampled networks.
        """
        if self._closed is not None:
            return self._closed.predictor_variance(np.asarray(inputs, dtype=float), width)
        if self.network.depth > 1 or self._networks is not None:
            raise ValueError(
                f"network: has depth {self.network.depth}; the predictor's variance is known for one hidden "
                "layer and for linear networks, use sampling.sample for others"
            )
        both = self._moments(np.concatenate([self.task.inputs, np.asarray(inputs, dtype=float)], axis=1))
        num, m = self.dual_field.shape
        free = 1 / self.richness**2
        f = both.rows @ self.dual_field
        covariance = both.mixed + free * np.einsum("xp,cd->xcpd", both.rows, np.eye(m)).reshape(*f.shape, -1)
        covariance -= f[:, :, None] * f[:num].ravel()
        own, mixed = covariance[:num].reshape(num * m, num * m), covariance[num:]
        inverse = np.linalg.inv(own + self.ridge * free * np.eye(num * m))
        total = free * both.diagonal[num:, None] + both.square[num:] - f[num:] ** 2
        return np.maximum(total - np.einsum("xci,ij,xcj->xc", mixed, inverse, mixed), 0) / width

    def preactivations(self, layer: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """Neurons of a layer (first: 0): preactivations (n, A', P), and their weights (n,).

        Raises:
            ValueError: the method keeps no neurons.
        """
        neurons, roots = self._layers()
        (u, weights), root = neurons[layer], roots[layer]
        return (u @ root.reshape(-1, root.shape[-1]).T).reshape(len(u), *root.shape[:2]), weights

    def _layers(self) -> tuple[list[Neurons], list[np.ndarray]]:
        if self._neurons is None or self._roots is None:
            raise ValueError(
                f"solution: the method {self.method!r} keeps no neurons; use 'population' or 'nested'"
            )
        return self._neurons(), [self.features.root, *(root[None] for root in self._roots[1:])]

    def _moments(self, inputs: np.ndarray, rows_only: bool = False) -> _population.TestMoments:
        neurons, roots = self._layers()
        new = self.features.on(inputs)
        moments = None
        for layer, (own, root) in enumerate(zip(neurons, roots)):
            if moments is not None:
                projection = moments.rows @ np.linalg.solve(self.kernels[layer], root[0])
                scatter = np.maximum(moments.diagonal - np.sum(projection**2, axis=1), 0)
                new = NewInputs(projection[None], np.diag(np.sqrt(scatter))[None])
            kind = (self.features.phi, self.features.pooled and layer == 0)
            last = layer == self.network.depth - 1
            moments = _population.moments_on(own, root, new, self.dual_field, *kind, rows_only and last)
        assert moments is not None
        return moments


def solve(
    task: Task,
    network: Network,
    richness: float,
    ridge: float,
    *,
    features: Features | None = None,
    method: str = "auto",
    seed: int = 0,
    num_neurons: int = 1024,
    num_rounds: int = 300,
) -> Solution:
    """Solve the saddle point of the module docstring.

    Args:
        task: what is learned.
        network: depth and nonlinearity.
        richness: γ0 > 0.
        ridge: 1/β > 0.
        features: of the first layer where it is not dense, see theory.features; L = 1.
        method: one of METHODS, or "auto" for the first of them that answers.
        seed: of the populations, or of the sampled networks.
        num_neurons: in each of two populations.
        num_rounds: snapshots, or averaged outer steps, of each.

    Returns:
        A Solution; `converged` is False, with a warning, where conditions are violated or populations differ.

    Raises:
        ValueError: γ0 ≤ 0, 1/β ≤ 0, or a method that the task or network is out of reach of; the message
            names one that is not.

    Source: paper B, Eqs. 18–33 and Algorithm 1.
    """
    validation.instance("task", task, Task)
    validation.instance("network", network, Network)
    network.check_unit_weights()
    if np.ndim(richness) == 0 and richness == 0:
        raise ValueError("richness: got 0, needs a finite number above 0; γ0 → 0 is gaussian_process.solve")
    validation.positive(richness=richness, ridge=ridge)
    validation.counts(num_neurons=num_neurons, num_rounds=num_rounds)
    validation.count("seed", seed, 0)
    if features is not None and features.task is not task:
        raise ValueError("features: belong to another task")
    is_dense = features is None
    features = _features.dense(task, network.phi) if features is None else features
    if not is_dense and (network.depth > 1 or features.phi is not network.phi):
        raise ValueError("features: need a network of one hidden layer with the same nonlinearity")
    validation.choice("method", method, ("auto", *METHODS))
    chosen = _choose(method, task, network, richness, is_dense)
    saddle, size = (features, richness, ridge), (jax.random.key(seed), num_neurons, num_rounds)
    if chosen == "sampling":
        parts = _by_sampling(task, network, richness, ridge, seed)
    elif chosen in ("quadrature", "population", "nested"):
        parts = _by_neurons(chosen, task, network, *saddle, *size)
    else:
        solver = {"linear": _by_linear, "sigmoidal": _by_sigmoidal, "deep_sigmoidal": _by_deep_sigmoidal}
        parts = solver.get(chosen, _by_lattice)(task, network, *saddle, *size)
    root = features.root  # of patches, whose overlaps count the same
    base = task.input_kernel if is_dense else np.einsum("apr,aqr->pq", root, root) / len(root)
    found = _finished(task, network, *saddle, chosen, base, parts)
    differ, share = found.disagreement, found.effective_share
    detail = f"populations differ by {differ:.1%}, {share:.0%} of the neurons effective"
    return found.reported(f"adaptive kernel ({chosen})", detail)


def of_deep(found: deep.Solution, task: Task, nonlinearity: str | networks.Nonlinearity) -> Solution:
    """A solution of theory.deep_sigmoidal with neurons of its own, for predictions on new inputs."""
    network, richness = Network(found.depth, 1, nonlinearity), found.problem.readout_variance**-0.5
    features = _features.dense(task, network.phi)
    saddle = (features, richness, found.temperature * richness**2)
    parts = _deep_parts(found, task, features, richness, jax.random.key(0), 1024, 40)
    held, threshold = parts["_neurons"], found.problem.site.threshold

    def neurons():
        """With the codes' known fractions: what is left of the sampling noise is that within a code."""
        balanced = []
        for (u, weights), root, layer in zip(held(), parts["_roots"], found.layers):
            means = class_means(evaluate(network.phi, u @ root.T), task)
            code = (means > threshold) @ (2 ** np.arange(task.num_classes)[::-1])
            fractions = np.bincount(code, weights, len(layer.codes))
            weights = weights * (layer.probabilities / np.maximum(fractions, 1e-12))[code]
            balanced.append(Neurons(u, weights / weights.sum()))
        return balanced

    parts["_neurons"] = cache(neurons)
    return _finished(task, network, *saddle, "deep_sigmoidal", task.input_kernel, parts)


def _finished(task, network, features, richness, ridge, chosen, base, parts) -> Solution:
    """The Solution made of what a method found."""
    parts = {"disagreement": 0.0, "effective_share": 1.0} | parts
    tolerance = SAMPLED_TOLERANCE if chosen in ("nested", "sampling") else RESIDUAL_TOLERANCE
    converged = parts.pop("converged", parts["residual"] < tolerance)
    converged = bool(
        converged and parts["disagreement"] < MAX_DISAGREEMENT and parts["effective_share"] > 0.3
    )
    v = parts["dual_field"]
    parts["kernels"] = np.stack([base, *parts["kernels"]])
    parts["dual_kernels"] = np.stack([*parts.pop("lower_duals"), richness**2 * v @ v.T])
    return Solution(task, network, features, richness, ridge, converged=converged, method=chosen, **parts)


def _choose(method, task, network, richness, is_dense) -> str:
    """The method asked for where it reaches, or the first that does and carries the richness."""
    phi, bounded, shallow = network.phi, is_bounded(network.phi), network.depth == 1
    orthogonal = task.is_orthogonal and is_dense and has_class_targets(task)
    reaches = {
        "linear": phi is networks.linear and is_dense,
        "sigmoidal": bounded and orthogonal and shallow,
        "deep_sigmoidal": bounded and orthogonal and task.num_classes <= deep.MAX_CLASSES,
        "lattice": phi is jax.nn.relu and orthogonal and shallow and task.num_targets == 1,
        "quadrature": task.num_inputs <= MAX_QUADRATURE_INPUTS and is_dense,
        "population": shallow,
        "nested": bounded and is_dense and task.num_inputs <= MAX_NESTED_INPUTS and not shallow,
        "sampling": is_dense,
    }
    if method == "auto":
        rich = richness**2 * np.sum(task.targets**2) > MAX_POPULATION_RICHNESS_SQ
        avoided = {
            "deep_sigmoidal": task.class_counts.min() <= 3,
            "quadrature": shallow or not bounded,
            "population": is_dense and rich and not bounded,
        }
        return next(name for name, can in reaches.items() if can and not avoided.get(name))
    if not reaches[method]:
        (need, *others), kind = NEEDS[method], "orthogonal" if task.is_orthogonal else "general"
        came = f"{task.num_inputs} {kind} inputs, {task.num_targets} outputs, φ = {network.nonlinearity}, "
        came += f"L = {network.depth}; use '{others[0 if shallow else 1]}'"
        raise ValueError(f"method: {method!r} needs {need}; got {came}")
    return method


# --- methods --------------------------------------------------------------------------------------


def _parts(found, kernels, v, lower_duals=(), neurons=None, roots=None, **more) -> dict[str, Any]:
    """What every method finds: kernels and duals of all layers but the last dual, v, and its own numbers."""
    parts = {"kernels": kernels, "dual_field": v, "lower_duals": lower_duals, "_neurons": neurons}
    return parts | {"_roots": roots, "residual": found.residual, "num_steps": found.num_steps} | more


def _by_linear(task, network, features, richness, ridge, *size) -> dict:
    found = linear.solve(task, network.depth, ridge / richness**2, readout_variance=1 / richness**2)
    inverses = np.linalg.pinv(found.kernels, rcond=1e-10, hermitian=True)
    lower_duals = inverses[:-2] - inverses[1:-1]
    return _parts(found, found.kernels[1:], found.dual_field / richness**2, lower_duals, _closed=found)


def _by_sigmoidal(task, network, features, richness, ridge, key, *size) -> dict:
    options = {"nonlinearity": network.nonlinearity, "readout_variance": 1 / richness**2}
    found = sigmoidal.solve(task, ridge / richness**2, **options)
    v = found.dual_field[task.labels] / richness**2
    kind = (features.root, richness**2 * v @ v.T, features.phi)
    neurons = cache(lambda: [_population.hold(key, *kind, *size)])
    kernels, roots = [found.kernel(task.labels)], [features.root[0]]
    return _parts(found, kernels, v, neurons=neurons, roots=roots, converged=found.converged)


def _by_deep_sigmoidal(task, network, features, richness, ridge, key, *size) -> dict:
    options = {"nonlinearity": network.nonlinearity, "readout_variance": 1 / richness**2}
    found = deep.solve(task, network.depth, ridge / richness**2, **options)
    return _deep_parts(found, task, features, richness, key, *size)


def _deep_parts(found, task, features, richness, key, *size) -> dict:
    labels = task.labels
    kernels = [layer.kernel(labels) for layer in found.layers]
    duals = [class_kernel(layer.dual_block, layer.dual_diagonal, labels) for layer in found.layers]
    roots = [features.root[0], *(_deep_population._root(k) for k in kernels[:-1])]

    def neurons():
        layers = enumerate(zip(roots, duals))
        keys = partial(jax.random.fold_in, key)
        return [_population.hold(keys(i), r[None], d, features.phi, *size) for i, (r, d) in layers]

    own = {"converged": found.converged, "residual": max(found.residual, found.readout_residual)}
    v = found.dual_field[labels] / richness**2
    return _parts(found, kernels, v, duals[:-1], cache(neurons), roots, **own)


def _by_lattice(task, network, features, richness, ridge, key, num_neurons, num_rounds) -> dict:
    found = _relu_lattice.solve(task.class_counts, task.class_targets[:, 0], richness, ridge)
    labels, root, count = task.labels, features.root[0], num_neurons * num_rounds // 4
    kernel = class_kernel(found.block, found.diagonal, labels)
    neurons = cache(lambda: [_relu_lattice.neurons(found, labels, root, key, count)])
    return _parts(found, [kernel], found.field[labels, None], neurons=neurons, roots=[root])


def _by_neurons(method, task, network, features, richness, ridge, key, num_neurons, num_rounds) -> dict:
    scalars, size = (richness, ridge), (key, num_neurons, num_rounds)
    dense = (features.root[0], task.targets, features.phi, network.depth)
    if method == "quadrature":
        found = _deep_population.quadrature(*dense, *scalars)
    elif method == "nested":
        found = _deep_population.nested(*dense, *scalars, *size)
    else:
        kind = {"pooled": features.pooled}
        found = _population.solve_readout(features.root, task.targets, features.phi, *scalars, *size, **kind)
    own = {"disagreement": found.disagreement, "effective_share": found.effective}
    given = (found.kernels, found.field, found.lower_duals, lambda: found.neurons, found.roots)
    return _parts(found, *given, **own)


def _by_sampling(task, network, richness, ridge, seed) -> dict:
    found = _sampled.solve(task, network, richness, ridge, seed)
    own = {"disagreement": found.disagreement, "_networks": found}
    return _parts(found, found.kernels, found.field, found.lower_duals, **own)


# --- deep linear networks on white inputs ---------------------------------------------------------


@dataclass(frozen=True)
class Overlaps:
    """Overlaps ŷᵀΦ^ℓŷ of a deep linear network on white inputs.

    Attributes:
        overlaps: c_0 … c_L, c_ℓ = r^ℓ.
        duals: ĉ_1 … ĉ_L; c_ℓ ĉ_ℓ = r − 1 in every layer.
        ratio: r.
        lazy: 1 + L X, the limit X = γ0²|y|² → 0 of c_L.
        rich: X^{L/(L+1)}, the limit X → ∞.
        deep: e^{W(LX)}, the limit L → ∞, W Lambert's function.
    """

    overlaps: np.ndarray
    duals: np.ndarray
    ratio: float
    lazy: float
    rich: float
    deep: float


def overlaps(depth: int, richness_sq: float, ridge: float = 0.0) -> Overlaps:
    """Kernels' overlaps with the targets, layer by layer, in a deep linear network with K0 = 1.

        Φ^ℓ = 1 + (c_ℓ − 1) ŷŷᵀ,   c_ℓ = r^ℓ,   (r − 1) r^{−L} (r^L + 1/β)² = X = γ0²|y|².

    The limits are those of 1/β = 0.

    Args:
        depth: L ≥ 1.
        richness_sq: X = γ0²|y|² > 0.
        ridge: 1/β ≥ 0.

    Raises:
        ValueError: an argument is out of range.

    Source: paper B, Eqs. 15–17 and 36–44.
    """
    validation.counts(depth=depth)
    validation.positive(richness_sq=richness_sq)
    validation.number("ridge", ridge, least=0)

    log_ridge = np.log(ridge) if ridge > 0 else -np.inf

    def excess(log_r):  # the condition's logarithm, in log r
        last = depth * log_r
        return np.log(np.expm1(log_r)) - last + 2 * np.logaddexp(last, log_ridge) - np.log(richness_sq)

    largest = np.log1p(depth * richness_sq) / depth + 1e-12  # the root at 1/β = 0 lies below
    log_r = brentq(excess, 1e-300, largest, xtol=1e-16, rtol=1e-14)
    c = np.exp(log_r * np.arange(depth + 1))
    return Overlaps(
        overlaps=c,
        duals=np.expm1(log_r) / c[1:],
        ratio=float(np.exp(log_r)),
        lazy=1 + depth * richness_sq,
        rich=richness_sq ** (depth / (depth + 1)),
        deep=float(np.exp(lambertw(depth * richness_sq).real)),
    )
