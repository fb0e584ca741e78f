"""The weight posterior in data-span coordinates.

Energy of paper A's posterior, with the temperature rescaled by N in the non-lazy case:

    U = N/(2T) ‖Y − f‖² + ‖a‖²/(2σ_a²) + Σ_ℓ ‖W^ℓ‖²/2        (non-lazy)
    U = 1/(2T) ‖Y − f‖² + ‖a‖²/(2σ_a²) + Σ_ℓ ‖W^ℓ‖²/2        (lazy)

**Coordinates.** Only the projection of W¹ on the span of the training inputs meets the data. With
X/√N0 = Bᵀ Rᵀ, B (r, N0) an orthonormal basis of that span and R (P, r), the first preactivations
are z¹ = u Rᵀ with u = W¹ Bᵀ of shape (N, r) and prior N(0, 1). The rest of W¹ stays exactly at its
prior; Langevin noise projects to Langevin noise, so the dynamics of z is kept too. For orthogonal
inputs R = 1 and the product is skipped; where overlaps depend on classes alone, it is a few sums. Readouts
are kept as ã = a/σ_a. All coordinates then have unit-variance priors, and the posterior's condition number
is O(1/T) rather than O(P/T).
"""

import copy
import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from coding_schemes import _roots, validation
from coding_schemes.networks import Network, is_bounded
from coding_schemes.tasks import Task


class Weights(NamedTuple):
    """Network weights in coordinates with unit-variance Gaussian priors.

    Attributes:
        first: u, the first layer in data-span coordinates, shape (N, r).
        hidden: W² … W^L, each of shape (N, N).
        readout: ã = a/σ_a, shape (N, m).
    """

    first: Array
    hidden: tuple[Array, ...]
    readout: Array

    def stretched(self, factor) -> "Weights":
        """The same with readouts times a factor, for dynamics in other units."""
        return self._replace(readout=self.readout * factor)


class Prediction(NamedTuple):
    """One network's response to new inputs.

    Attributes:
        preactivations: z¹ … z^L, each of shape (N, P*).
        outputs: f, shape (P*, m).
    """

    preactivations: tuple[Array, ...]
    outputs: Array


class NewInputs(NamedTuple):
    """New inputs as a posterior sees them: z¹* = u M + ξ C with ξ ~ N(0, 1) of shape (N, q).

    Attributes:
        projection: M, shape (r, P*); the conditional mean K*₀ K₀⁺ z in terms of u.
        noise_root: C, shape (q, P*); CᵀC = K** − K*₀ K₀⁺ K₀*, the conditional covariance.
    """

    projection: Array
    noise_root: Array


@jax.tree_util.register_pytree_node_class
class Posterior:
    """Posterior over the weights of a network that learned a task at temperature T.

    A pytree: the arrays (R, Y, T, σ_a) are its leaves, so posteriors can pass through `jax.jit`
    and temperatures can be swept without recompilation. `task` and `basis` stay outside.

    Args:
        task: what the network learned.
        network: its architecture and readout scaling.
        temperature: T > 0; rescaled by N in the non-lazy case, as paper A does.
        readout_variance: σ_a². Unless given: 1 for lazy networks; 1/P for bounded nonlinearities
            and 1/P^{1/L} for the others (paper A), which keeps the posterior norm of a at O(1).
            Readouts come with the network's `gain`, 1 unless it has a `weight_std`.
        dtype: of the weights; energies are accumulated in float64 where JAX has it enabled.

    Raises:
        ValueError: T ≤ 0 or not finite, σ_a² ≤ 0, or a dtype that is not a float.

    Source: paper A, Methods, "Weight posterior" and "Scaling limit".
    """

    def __init__(
        self,
        task: Task,
        network: Network,
        temperature: float,
        readout_variance: float | None = None,
        dtype: Any = jnp.float32,
    ):
        validation.instance("task", task, Task)
        validation.instance("network", network, Network)
        validation.positive(temperature=temperature)
        readout_variance = effective_readout_variance(task, network, readout_variance)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"dtype: got {dtype}, needs a floating-point type")
        self.task: Task | None = task
        self.network = network
        self._basis, root = _roots.data_span(task)
        self.root: Array | _roots.OfClasses | None = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), root)
        self.targets = jnp.asarray(task.targets, dtype)
        self.temperature = jnp.asarray(temperature, dtype)
        self.readout_std = jnp.asarray(readout_variance**0.5, dtype)
        if not np.isfinite(self.likelihood_precision):
            raise ValueError(
                f"temperature: T = {temperature:g} in {self.dtype} makes the likelihood infinitely precise; "
                "take a higher T, or dtype=float64"
            )

    def tree_flatten(self):
        """Leaves: the arrays R, Y, T and σ_a; static: the network."""
        return (self.root, self.targets, self.temperature, self.readout_std), self.network

    @classmethod
    def tree_unflatten(cls, network, leaves):
        """Rebuild from leaves; the task is left behind."""
        posterior = object.__new__(cls)
        posterior.task = posterior._basis = None
        posterior.network = network
        posterior.root, posterior.targets, posterior.temperature, posterior.readout_std = leaves
        return posterior

    @property
    def dtype(self):
        """Floating-point type of the weights."""
        return self.targets.dtype

    @property
    def rank(self) -> int:
        """r, the dimension of the span of the training inputs."""
        return self.targets.shape[0] if self.root is None else self.root.shape[1]

    @property
    def readout_variance(self) -> Array:
        """σ_a², prior variance of the readouts."""
        return jnp.square(self.readout_std)

    @property
    def likelihood_precision(self) -> Array:
        """The factor of ½‖Y − f‖² in the energy, N/T (non-lazy) or 1/T (lazy)."""
        scale = self.network.width if self.network.scaling == "non-lazy" else 1
        return scale / self.temperature

    def at_temperature(self, temperature) -> "Posterior":
        """The same posterior at another temperature, for annealing and replica exchange."""
        other = copy.copy(self)
        other.temperature = jnp.asarray(temperature, self.dtype)
        return other

    def with_root(self) -> "Posterior":
        """The same posterior with R written out, R = 1 on orthogonal inputs.

        Tasks of one shape then share one compiled program whatever the overlaps of their classes, and are
        sampled by the moves for correlated inputs.
        """
        other = copy.copy(self)
        if other.root is None:
            none = jnp.zeros((self.rank, self._own_task().num_classes), self.dtype)
            other.root = _roots.OfClasses(jnp.ones(self.rank, self.dtype), none, none)
        return other

    def preactivations(self, weights: Weights) -> tuple[Array, ...]:
        """z¹ … z^L on the training inputs, each of shape (N, P)."""
        first = weights.first if self.root is None else weights.first @ self.root.T
        return self.network.preactivations(first, weights.hidden)

    def readouts(self, weights: Weights) -> Array:
        """Readouts in the paper's units, a = σ_a ã, shape (N, m)."""
        return self.readout_std * weights.readout

    def outputs(self, weights: Weights) -> Array:
        """Outputs f on the training inputs, shape (P, m)."""
        return self.network.outputs(self.preactivations(weights)[-1], self.readouts(weights))

    def outputs_on(self, weights: Weights, batch: Array) -> Array:
        """Outputs f on the training inputs with the given indices, shape (B, m)."""
        first = weights.first[:, batch] if self.root is None else weights.first @ self.root[batch].T
        layers = self.network.preactivations(first, weights.hidden)
        return self.network.outputs(layers[-1], self.readouts(weights))

    def energy(self, weights: Weights, batch_size: int | None = None) -> Array:
        """U of the module docstring; its negative is the log posterior up to a constant."""
        prior = sum(sum_of_squares(leaf) for leaf in jax.tree.leaves(weights))
        return 0.5 * self.likelihood_precision * self.squared_error(weights, batch_size) + 0.5 * prior

    def squared_error(self, weights: Weights, batch_size: int | None = None) -> Array:
        """‖Y − f‖², summed over inputs and outputs, in float64 where JAX has it enabled.

        From `batch_size` inputs at a time, where the preactivations of all would not fit into memory.
        """
        accurate = jnp.promote_types(self.dtype, jnp.result_type(float))
        if batch_size is None:
            return sum_of_squares((self.targets - self.outputs(weights)).astype(accurate))
        num_inputs = self.targets.shape[0]
        batches = jnp.arange(-(-num_inputs // batch_size) * batch_size).reshape(-1, batch_size)

        def batch_error(batch):
            inside = jnp.minimum(batch, num_inputs - 1)
            residual = self.targets[inside] - self.outputs_on(weights, inside)
            return sum_of_squares(jnp.where((batch < num_inputs)[:, None], residual, 0.0).astype(accurate))

        return jax.lax.map(batch_error, batches).sum()

    def logdensity(self, weights: Weights) -> Array:
        """Log posterior density −U in the unit-variance coordinates, up to a constant."""
        return -self.energy(weights)

    def value_and_gradient(self, weights: Weights) -> tuple[Array, Weights]:
        r"""Log density and its gradient by hand, which takes half of autodiff's time at L = 1.

        With h_ℓ = φ(z_ℓ), the error pulled back through the layers is

            e = β (Y − f)ᵀ,   δ_L = φ'(z_L) ∘ (s σ_a ã e),   δ_{ℓ−1} = φ'(z_{ℓ−1}) ∘ (W^ℓᵀ δ_ℓ/√N)

        and −∂U/∂ã = s σ_a h_L eᵀ − ã, −∂U/∂W^ℓ = δ_ℓ h_{ℓ−1}ᵀ/√N − W^ℓ, −∂U/∂u = δ_1 R − u. Features and
        error are computed once for value and gradient; who drops the value does not pay for it.
        """
        layers, features, pull_backs = self.preactivations(weights), [], []
        for z in layers:
            h, pull_back = jax.vjp(self.network.phi, z)
            features.append(h)
            pull_backs.append(pull_back)
        scale = self.network.readout_scale * self.readout_std
        residual = self.targets.T - scale * (weights.readout.T @ features[-1])
        error = self.likelihood_precision * residual
        readout = scale * (features[-1] @ error.T) - weights.readout
        (delta,) = pull_backs[-1](weights.readout @ (scale * error))
        hidden = []
        for matrix, h, pull_back in zip(weights.hidden[::-1], features[-2::-1], pull_backs[-2::-1]):
            hidden.append(delta @ h.T / self.network.width**0.5 - matrix)
            (delta,) = pull_back(matrix.T @ delta / self.network.width**0.5)
        first = (delta if self.root is None else delta @ self.root) - weights.first
        prior = sum(sum_of_squares(leaf) for leaf in jax.tree.leaves(weights))
        accurate = jnp.promote_types(self.dtype, jnp.result_type(float))
        likelihood = self.likelihood_precision * sum_of_squares(residual.astype(accurate))
        return -0.5 * (likelihood + prior), Weights(first, tuple(hidden[::-1]), readout)

    def prior(self, key: Array) -> Weights:
        """One draw of the weights from the prior."""
        first, readout, *hidden = jax.random.split(key, self.network.depth + 1)
        width = self.network.width
        return Weights(
            normal(first, (width, self.rank), self.dtype),
            tuple(normal(k, (width, width), self.dtype) for k in hidden),
            normal(readout, (width, self.targets.shape[1]), self.dtype),
        )

    def planted(
        self, first_preactivations: Array, readouts: Array, hidden: tuple[Array, ...] = ()
    ) -> Weights:
        """Weights with given z¹ (N, P), readouts a (N, m) and W² … W^L, to start a chain from theory.

        First preactivations are projected on what the inputs can produce.
        """
        first = jnp.asarray(first_preactivations, self.dtype)
        if self.root is not None:
            first = jnp.linalg.lstsq(_roots.dense(self.root), first.T)[0].T
        matrices = tuple(jnp.asarray(matrix, self.dtype) for matrix in hidden)
        return Weights(first, matrices, jnp.asarray(readouts, self.dtype) / self.readout_std)

    def first_layer(self, key: Array, weights: Weights) -> Array:
        """W¹ in input space, shape (N, N0), drawn from its posterior given u.

        The part in the span of the training inputs is u B; the part orthogonal to it is a fresh
        prior draw. Two calls with one key are one network.
        """
        self._own_task()
        if self._basis is None:
            return weights.first
        basis = jnp.asarray(self._basis, self.dtype)
        fresh = normal(key, (self.network.width, basis.shape[1]), self.dtype)
        return fresh + (weights.first - fresh @ basis.T) @ basis

    def _own_task(self) -> Task:
        """The task; ValueError where it was left behind in a JAX transformation."""
        if self.task is None:
            raise ValueError(
                "posterior: this copy came out of a JAX transformation and has no task; use the original"
            )
        return self.task

    def predict(self, key: Array, weights: Weights, inputs) -> Prediction:
        """Preactivations of all layers and outputs of one sampled network on new inputs (N0, P*).

        Given z on the training inputs, z* on new ones is Gaussian with mean K*₀ K₀⁺ z and
        covariance K** − K*₀ K₀⁺ K₀*; drawing the part of W¹ that they leave free gives exactly that.
        """
        first_layer = self.first_layer(key, weights)
        inputs = validation.array("inputs", inputs, "N0, P*", N0=first_layer.shape[1])
        inputs = jnp.asarray(inputs, self.dtype)
        first = first_layer @ inputs / inputs.shape[0] ** 0.5
        layers = self.network.preactivations(first, weights.hidden)
        return Prediction(layers, self.network.outputs(layers[-1], self.readouts(weights)))

    def new_inputs(self, inputs) -> NewInputs:
        """New inputs (N0, P*) in data-span coordinates, for many calls of `respond` inside compiled loops.

        q = min(N0 − r, P*), and 0 where the training inputs span all.
        """
        input_dim = self._own_task().input_dim
        inputs = validation.array("inputs", inputs, "N0, P*", N0=input_dim)
        scaled = inputs / np.sqrt(input_dim)
        if self._basis is None:
            return NewInputs(jnp.asarray(scaled, self.dtype), jnp.zeros((0, inputs.shape[1]), self.dtype))
        projection = self._basis @ scaled
        rest = scaled - self._basis.T @ projection
        root = np.linalg.qr(rest, mode="r") if rest.shape[0] > rest.shape[1] else rest
        return NewInputs(jnp.asarray(projection, self.dtype), jnp.asarray(root, self.dtype))

    def respond(self, key: Array, weights: Weights, new: NewInputs) -> Prediction:
        """As `predict`, from prepared inputs; the free part of W¹ is drawn as its image on them."""
        noise = normal(key, (self.network.width, new.noise_root.shape[0]), self.dtype)
        first = weights.first @ new.projection + noise @ new.noise_root
        layers = self.network.preactivations(first, weights.hidden)
        return Prediction(layers, self.network.outputs(layers[-1], self.readouts(weights)))


def non_lazy(task: Task, network: Network, temperature: float) -> Posterior:
    """The posterior of a network; of a lazy one as a non-lazy network with readouts √N times as large.

    With f = (1/N) Σ a φ, σ_a² = N and N T in place of T, prior and likelihood of the outputs are the lazy
    network's, so that both kinds of networks share one compiled sampler.
    """
    if network.scaling == "non-lazy":
        return Posterior(task, network, temperature)
    wide = replace(network, scaling="non-lazy")
    return Posterior(task, wide, network.width * temperature, readout_variance=network.width)


def default_readout_variance(task: Task, network: Network) -> float:
    """σ_a² that keeps the posterior readouts at O(1): paper A's choice for the network.

    1 for lazy networks; 1/P for bounded nonlinearities at any depth; 1/P^{1/L} for the others.
    """
    if network.scaling == "lazy":
        return 1.0
    exponent = 1.0 if is_bounded(network.phi) else 1 / network.depth
    return task.num_inputs**-exponent


def effective_readout_variance(task: Task, network: Network, given: float | None = None) -> float:
    """σ_a², paper A's unless given, of readouts that carry what hidden weights of other variances pass on."""
    validation.positive(**validation.given(readout_variance=given))
    return network.gain**2 * (default_readout_variance(task, network) if given is None else given)


def normal(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """`jax.random.normal`, drawn as a vector: the same numbers, compiled five times as fast under vmap."""
    return jax.random.normal(key, (math.prod(shape),), dtype).reshape(shape)


def uniform(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """`jax.random.uniform`, drawn as a vector: loops over rows of a few numbers would be unrolled."""
    return jax.random.uniform(key, (math.prod(shape),), dtype).reshape(shape)


def sum_of_squares(array: Array) -> Array:
    """Σ x² to about 1 part in 10⁹ of a float32 array, in half the time of a sum in float64.

    Columns are summed in the array's own dtype, side by side in vector registers, and the sums in
    float64 where JAX has it enabled: accept/reject needs ΔU to O(0.1) of U = O(N·P).
    """
    columns = jnp.sum(jnp.square(array), axis=0)
    return jnp.sum(columns, dtype=jnp.promote_types(array.dtype, jnp.result_type(float)))
