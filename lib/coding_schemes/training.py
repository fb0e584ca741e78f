"""Training by gradient descent or Adam, with hidden representations tracked inside one compiled loop.

The architectures are those of paper C's Table 1: deep networks with biases, Xavier-normal weights of a
given gain, and outputs linear in the last layer. Inputs are columns, (N0, P); activations are (N, P),
outputs (P, m), as everywhere in the library. The loss is L = ½ ⟨|f − y|²⟩: a sum over outputs, a mean
over inputs. Time is counted in steps; a step on all inputs is an epoch of paper C.

A weight's gradient is a sum over inputs of (error at its output) × (activation at its input). The loop
keeps these two factors and multiplies them out inside the update of the weight, at the start of the
next step. The weights are then read twice and rewritten once per step, in place, and no gradient
of their size is ever stored. Every layer's weights are an array of their own: a slice of one stacked array
would be copied before each matrix product.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import ArrayLike

from coding_schemes import validation
from coding_schemes.compiler import fusion_emitters
from coding_schemes.networks import NONLINEARITIES, Network, Nonlinearity, nonlinearity
from coding_schemes.posterior import Posterior, Weights, normal

KINDS = ("dense", "skip", "dropout", "convolution")
NUM_CHANNELS, KERNEL_SIZE = 20, 11  # paper C, appendix B.1
DROPOUT = 0.1  # paper C, appendix B.1
FEW_INPUTS = 8  # up to here sums that read the weights in place beat a CPU's matrix products with weights.T


class Parameters(NamedTuple):
    """Weights and biases.

    Attributes:
        weights: one array per layer, (units out, units in); of a convolution (channels out, channels in, 11).
        biases: in the same order, (units out, 1).
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]


class Factors(NamedTuple):
    """A weight matrix's gradient, errors @ activations.T, not multiplied out."""

    errors: Array  # derivative of the loss in the layer's preactivation, shape (units out, P)
    activations: Array  # the layer's input, shape (units in, P)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Architecture:
    """A network of paper C's Table 1.

    Args:
        nonlinearity: as for networks.Network, applied in every hidden layer.
        gain: of the Xavier-normal initialization, Var W = 2 gain² / (units in + units out). Biases
            start at zero.
        width: units per hidden layer.
        depth: hidden layers. With kind "convolution": `depth` convolutions of 20 channels and one back
            to a single channel stand between a first and a last dense layer.
        kind: "dense"; "skip" adds to every hidden layer the one two layers below; "dropout" silences every
            input and unit with probability 0.1 while training; "convolution".
        biases: whether biases are learned; without, they stay at zero.

    Raises:
        ValueError: a value is out of range.
    """

    nonlinearity: str | Nonlinearity = jax.nn.leaky_relu
    gain: float = 1.0
    width: int = 500
    depth: int = 20
    kind: str = "dense"
    biases: bool = True

    def __post_init__(self):
        nonlinearity(self.nonlinearity)
        validation.positive(gain=self.gain)
        validation.counts(width=self.width, depth=self.depth)
        validation.choice("kind", self.kind, KINDS)
        if self.kind == "convolution" and self._flat_width < 1:
            raise ValueError(
                f"width: got {self.width}, needs more than {(KERNEL_SIZE - 1) * (self.depth + 1)} "
                f"for {self.depth + 1} convolutions without padding"
            )

    @property
    def _flat_width(self) -> int:
        return self.width - (KERNEL_SIZE - 1) * (self.depth + 1)

    @property
    def phi(self) -> Nonlinearity:
        """The nonlinearity as a function."""
        return NONLINEARITIES[self.nonlinearity] if isinstance(self.nonlinearity, str) else self.nonlinearity

    @property
    def middle(self) -> int:
        """Index of the hidden layer halfway through the network, where paper C observes it."""
        return self.depth // 2

    def init(self, key: Array, input_dim: int, num_outputs: int) -> Parameters:
        """Draw the initial weights, float32, from N0 inputs to m outputs."""

        def draw(layer, shape):
            units = (shape[0] + shape[1]) * math.prod(shape[2:])  # in and out
            std = np.sqrt(np.float32(2 * self.gain**2 / units))
            return std * normal(jax.random.fold_in(key, layer), shape, jnp.float32)

        if self.kind == "convolution":
            channels = [1] + self.depth * [NUM_CHANNELS] + [1]
            shapes: list[tuple[int, ...]] = [(self.width, input_dim)]
            shapes += [(o, i, KERNEL_SIZE) for i, o in itertools.pairwise(channels)]
            shapes += [(num_outputs, self._flat_width)]
            weights = tuple(draw(layer, shape) for layer, shape in enumerate(shapes))
        else:  # layers of one shape at once, which compiles as fast for twenty as for two
            hidden = jax.vmap(lambda layer: draw(layer, (self.width, self.width)))(jnp.arange(1, self.depth))
            readout = draw(self.depth, (num_outputs, self.width))
            weights = draw(0, (self.width, input_dim)), *hidden, readout
        return Parameters(weights, tuple(jnp.zeros((len(w), 1), jnp.float32) for w in weights))

    def forward(self, parameters: Parameters, inputs: Array) -> tuple[Array, Any]:
        """Outputs f (P, m) for inputs (N0, P), and all hidden activations, without dropout.

        Activations are (depth, N, P); of convolutional networks a tuple of arrays (units, P).
        """
        if self.kind == "convolution":
            return self._convolve(parameters, inputs)
        outputs, activations, _ = self._propagate(parameters, inputs, None)
        return outputs, jnp.stack(activations)

    def gradients(self, parameters: Parameters, inputs: Array, targets: Array, key: Array) -> Any:
        """Gradient of the loss, a tree like Parameters with matrices' as Factors; `key` draws the dropout."""
        if self.kind == "convolution":
            found = jax.grad(lambda p: loss(self._convolve(p, inputs)[0], targets))(parameters)
            return found if self.biases else found._replace(biases=jax.tree.map(jnp.zeros_like, found.biases))
        outputs, _, (layer_inputs, masks, slopes) = self._propagate(parameters, inputs, key)
        error = (outputs - targets).T / len(targets)
        errors: list[Array] = [error]  # derivatives of the loss in every z
        of_activations: list[Array] = []  # and in every h
        for weights, mask, slope in zip(parameters.weights[:0:-1], masks[:0:-1], slopes[::-1]):
            of_h = self._skip(_drop(_transposed_times(weights, error), mask), of_activations)
            of_activations.append(of_h)
            error = slope * of_h
            errors.insert(0, error)
        return Parameters(
            tuple(Factors(e, h) for e, h in zip(errors, layer_inputs)),  # type: ignore[misc]
            tuple(self.biases * e.sum(-1, keepdims=True) for e in errors),
        )

    def _propagate(self, parameters, inputs, key):
        """Outputs, activations of every hidden layer, and what the backward pass needs of each layer.

        That is: the layers' inputs, their dropout masks, and the nonlinearity's slopes.
        """
        h, activations = inputs, list[Array]()
        layer_inputs, masks, slopes = [], [], []
        for layer, (weights, bias) in enumerate(zip(*parameters)):
            kept = None
            if self.kind == "dropout" and key is not None:
                kept = jax.random.bernoulli(jax.random.fold_in(key, layer), 1 - DROPOUT, h.shape)
            masks.append(kept)
            layer_inputs.append(_drop(h, kept))
            z = weights @ layer_inputs[-1] + bias
            if layer < self.depth:
                h, slope = jax.jvp(self.phi, (z,), (jnp.ones_like(z),))
                h = self._skip(h, activations)
                slopes.append(slope)
                activations.append(h)
        return z.T, activations, (layer_inputs, masks, slopes)

    def _skip(self, h, before):
        """Add what stands two layers before, on the way up and, for derivatives, on the way down."""
        return h + before[-2] if self.kind == "skip" and len(before) > 1 else h

    def _convolve(self, parameters, inputs):
        phi = self.phi
        h = phi(parameters.weights[0] @ inputs + parameters.biases[0])
        activations = [h]
        h = h.T[None]  # (channels, P, positions)
        for weights, bias in zip(parameters.weights[1:-1], parameters.biases[1:-1]):
            h = phi(_convolution(weights, h) + bias[:, None])
            activations.append(jnp.swapaxes(h, 1, 2).reshape(-1, h.shape[1]))
        return (parameters.weights[-1] @ h[0].T + parameters.biases[-1]).T, tuple(activations)


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class ScaledNetwork:
    """One of paper A's networks under gradient descent, for the same training loop.

    Weights start from the prior N(0, 1). Gradients are divided by N s² with s the readout's scale (1/N or
    1/√N), so that lazy and non-lazy outputs move at O(1) per unit of learning rate at any width. A richness
    γ0 divides the readout's scale, s = 1/(γ0 N), which is paper B's network: at the learning rate P dt and
    the weight decay λ/P a step is one of theory.dmft's flow.

    Args:
        network: depth, width, nonlinearity and scaling.
        richness: γ0.

    Raises:
        ValueError: γ0 ≤ 0.
    """

    network: Network
    richness: float = 1.0

    def __post_init__(self):
        validation.instance("network", self.network, Network)
        self.network.check_unit_weights()
        validation.positive(richness=self.richness)

    def tree_flatten(self):
        """Leaf: the richness; static: the network."""
        return (self.richness,), self.network

    @classmethod
    def tree_unflatten(cls, network, leaves):
        """Rebuild, unchecked."""
        model = object.__new__(cls)
        model.__dict__.update(network=network, richness=leaves[0])
        return model

    def without_scaling(self) -> "ScaledNetwork":
        """The same as a non-lazy network: with γ0/√N in γ0's place it is the lazy one."""
        network = replace(self.network, scaling="non-lazy")
        return ScaledNetwork(network, self.richness * network.readout_scale / self.network.readout_scale)

    @property
    def middle(self) -> int:
        """The feature layer, the last one."""
        return self.network.depth - 1

    def init(self, key: Array, input_dim: int, num_outputs: int) -> Parameters:
        """Draw all weights from N(0, 1); there are no biases."""
        units = [input_dim] + self.network.depth * [self.network.width] + [num_outputs]
        keys = jax.random.split(key, len(units) - 1)
        shapes = zip(units[1:], units)
        return Parameters(tuple(normal(k, shape, jnp.float32) for k, shape in zip(keys, shapes)), ())

    def forward(self, parameters: Parameters, inputs: Array) -> tuple[Array, tuple[Array, ...]]:
        """Outputs (P, m), and per layer φ(z)/√N, shape (N, P), whose squared distances are kernel entries."""
        first, *hidden, readout = parameters.weights
        layers = self.network.preactivations(first @ inputs / inputs.shape[0] ** 0.5, tuple(hidden))
        outputs = self.network.outputs(layers[-1], readout.T) / self.richness
        return outputs, tuple(self.network.phi(z) / self.network.width**0.5 for z in layers)

    def gradients(self, parameters: Parameters, inputs: Array, targets: Array, key: Array) -> Any:
        """Gradient of the loss, divided by N s² (γ0 is part of s)."""
        del key
        gradient = jax.grad(lambda p: loss(self.forward(p, inputs)[0], targets))(parameters)
        scale = self.richness**2 / (self.network.width * self.network.readout_scale**2)
        return jax.tree.map(lambda g: scale * g, gradient)


@dataclass(frozen=True)
class Run:
    """What training left, with a leading axis of repeats.

    Attributes:
        times: steps taken at each record, shape (n,).
        loss: shape (repeats, n).
        tracked: what `track` returned, every array with leading axes (repeats, n).
        parameters: after the last step, leading axis repeats.
        num_steps: steps until the loss fell below `stop_loss` or time was up, shape (repeats,).
        converged: the last loss is finite and below `converged_loss`, shape (repeats,).
    """

    times: np.ndarray
    loss: np.ndarray
    tracked: Any
    parameters: Any
    num_steps: np.ndarray
    converged: np.ndarray


Track = Callable[[Array, tuple[Array, ...]], Any]


def loss(outputs: Array, targets: Array) -> Array:
    """L = ½ ⟨|f − y|²⟩ for outputs and targets of shape (P, m)."""
    return 0.5 * jnp.mean(jnp.sum(jnp.square(outputs - targets), axis=1))


def outputs_and_distances(outputs: Array, activations: tuple[Array, ...]) -> dict[str, Array]:
    """Track the outputs, (P, m), and in every hidden layer all squared distances, (layers, P, P)."""
    kernels = _of_layers(lambda h: h.T @ h, activations)
    norms = jnp.diagonal(kernels, axis1=1, axis2=2)
    return {
        "outputs": outputs,
        "distances_sq": jnp.maximum(norms[:, :, None] + norms[:, None] - 2 * kernels, 0),
    }


def two_points(outputs: Array, activations: tuple[Array, ...]) -> dict[str, Array]:
    """Track the outputs, (2, m), and the points' squared distance in every hidden layer, (layers,)."""
    H = _of_layers(lambda h: jnp.sum(jnp.square(h[:, 1] - h[:, 0])), activations)
    return {"outputs": outputs, "H": H}


def _of_layers(measure, activations):
    """One measure of every layer; of stacked layers at once, which compiles as fast for twenty as for two."""
    if isinstance(activations, tuple):
        return jnp.stack([measure(h) for h in activations])
    return jax.vmap(measure)(activations)


def train(
    model: Architecture | ScaledNetwork,
    key: Array,
    inputs: ArrayLike,
    targets: ArrayLike,
    *,
    learning_rate: float,
    num_steps: int,
    adam: bool = False,
    weight_decay: float = 0.0,
    batch_size: int | None = None,
    repeats: int = 1,
    record_every: int = 10,
    stop_loss: float = 0.0,
    converged_loss: float = 1e-2,
    track: Track = two_points,
    tracked_inputs: ArrayLike | None = None,
) -> Run:
    """Train from independent initial weights, all steps and repeats in one compiled program.

    Repeats run one after the other inside the program: side by side, their weights would not stay in the
    processor's cache, which is what a step with few inputs is bound by. Diverged or unconverged repeats are
    counted in a warning, never dropped.

    Args:
        model: an Architecture or a ScaledNetwork.
        key: random key; repeat r uses fold_in(key, r).
        inputs: X, shape (N0, P).
        targets: Y, shape (P, m).
        learning_rate: per step, of the loss ½ ⟨|f − y|²⟩.
        num_steps: largest number of steps, a multiple of record_every.
        adam: Adam in place of gradient descent.
        weight_decay: every step also takes learning_rate × weight_decay of all weights and biases away
            (decoupled from Adam's preconditioner).
        batch_size: inputs per step, drawn anew in random order every epoch; all of them unless given.
        repeats: number of independent networks.
        record_every: steps between records.
        stop_loss: stop when a record's loss is below; records after that repeat the last one.
        converged_loss: a run above it at the end counts as unconverged (paper C discards at 1e-2).
        track: called with outputs and hidden activations at every record; returns a tree of arrays.
        tracked_inputs: where `track` looks, shape (N0, n); the training inputs unless given. The
            recorded loss is that of the training inputs.
    """
    validation.instance("model", model, Architecture, ScaledNetwork)
    validation.key(key)
    inputs = validation.array("inputs", inputs, "N0, P", dtype=np.float32)
    num_inputs = inputs.shape[1]
    targets = validation.array("targets", targets, "P, m", P=num_inputs, dtype=np.float32)
    if tracked_inputs is not None:
        tracked_inputs = validation.array(
            "tracked_inputs", tracked_inputs, "N0, n", N0=len(inputs), dtype=np.float32
        )
    validation.positive(learning_rate=learning_rate, converged_loss=converged_loss)
    validation.number("weight_decay", weight_decay, least=0)
    validation.number("stop_loss", stop_loss, least=0)
    validation.counts(num_steps=num_steps, record_every=record_every, repeats=repeats)
    if num_steps % record_every:
        raise ValueError(f"num_steps: got {num_steps}, needs a multiple of record_every = {record_every}")
    if batch_size is not None:
        validation.count("batch_size", batch_size, most=num_inputs)

    gain = 1.0
    if isinstance(model, Architecture):  # traced, so that a series of gains compiles once
        model, gain = replace(model, gain=1.0), model.gain
    else:  # so that lazy and non-lazy networks do
        model = model.without_scaling()
    buffers, parameters, last_record = _run(
        model,
        *_initial(model, key, jnp.float32(gain), inputs.shape[0], targets.shape[1], repeats),
        inputs,
        targets,
        tracked_inputs,
        jnp.float32(learning_rate),
        jnp.float32(weight_decay),
        jnp.float32(stop_loss),
        jnp.int32(record_every),
        num_records=num_steps // record_every,
        adam=adam,
        decays=weight_decay > 0,
        batch_size=None if batch_size == num_inputs else batch_size,
        track=track,
    )
    last_record = np.asarray(last_record)
    losses, tracked = jax.tree.map(lambda buffer: _hold_last(np.asarray(buffer), last_record), buffers)
    converged = np.isfinite(losses[:, -1]) & (losses[:, -1] < converged_loss)
    times = np.arange(num_steps // record_every + 1) * float(record_every)
    if not converged.all():
        validation.warn(
            f"training.train: {np.sum(~converged)} of {repeats} runs diverged or ended with a loss above "
            f"{converged_loss} (largest {np.max(losses[:, -1]):.3g})"
        )
    return Run(times, losses, tracked, parameters, last_record * record_every, converged)


def _initial(model, key, gain, input_dim, num_outputs, repeats):
    """Initial parameters of all repeats, and their keys of batches and dropout.

    Step by step: what is compiled, normal numbers, serves all networks with layers of these shapes.
    """

    def one(repeat):
        init_key, *streams = jax.random.split(jax.random.fold_in(key, repeat), 3)
        parameters = model.init(init_key, input_dim, num_outputs)
        weights = tuple(gain * weights for weights in parameters.weights)
        return parameters._replace(weights=weights), tuple(streams)

    return jax.vmap(one)(jnp.arange(repeats))


# XLA's newer way of writing vector code steps through deep networks in two thirds of the time
@partial(
    jax.jit,
    static_argnames=("num_records", "adam", "decays", "batch_size", "track"),
    compiler_options=fusion_emitters(True) or None,
)
def _run(
    model, start, streams, inputs, targets, tracked_inputs, learning_rate, weight_decay, stop_loss,
    record_every, *, num_records, adam, decays, batch_size, track,
):  # fmt: skip
    rule = optax.scale_by_adam() if adam else optax.identity()
    decay = optax.add_decayed_weights(weight_decay) if decays else optax.identity()
    optimizer = optax.chain(rule, decay, optax.scale_by_learning_rate(learning_rate))
    num_inputs = len(targets)
    steps_per_epoch = 1 if batch_size is None else num_inputs // batch_size

    def record(parameters):
        outputs, activations = model.forward(parameters, inputs)
        current = loss(outputs, targets)
        if tracked_inputs is not None:
            outputs, activations = model.forward(parameters, tracked_inputs)
        return current, track(outputs, activations)

    def one(given):
        parameters, (batch_key, dropout_key) = given

        def gradients(parameters, step, order):
            x, y = inputs, targets
            if batch_size is not None:
                batch = jax.lax.dynamic_slice(order, ((step % steps_per_epoch) * batch_size,), (batch_size,))
                x, y = inputs[:, batch], targets[batch]
            return model.gradients(parameters, x, y, jax.random.fold_in(dropout_key, step))

        def shuffled(step, order):
            """A new order of the inputs at the start of every epoch."""
            if batch_size is None:
                return order
            epoch_key = jax.random.fold_in(batch_key, step // steps_per_epoch)
            return jax.lax.cond(
                step % steps_per_epoch == 0,
                lambda: jax.random.permutation(epoch_key, num_inputs),
                lambda: order,
            )

        def step(i, state):
            """The update of step i, none for i < 0, and the gradient of the next step."""
            *before, pending, order = state
            parameters, optimizer_state = before
            updates, optimizer_state = optimizer.update(_multiply_out(pending), optimizer_state, parameters)
            after = optax.apply_updates(parameters, updates), optimizer_state
            after = jax.tree.map(lambda new, old: jnp.where(i < 0, old, new), after, tuple(before))
            order = shuffled(i + 1, order)
            return *after, gradients(after[0], i + 1, order), order

        def body(carry):
            index, _, buffers, state = carry
            values = record(state[0])
            buffers = jax.tree.map(lambda buffer, value: buffer.at[index].set(value), buffers, values)
            done = (index == num_records) | (values[0] < stop_loss) | ~jnp.isfinite(values[0])
            last = jnp.where(done, -1, (index + 1) * record_every)
            state = jax.lax.fori_loop(jnp.where(index == 0, -1, index * record_every), last, step, state)
            return index + 1, done, buffers, state

        order = jnp.arange(num_inputs)
        pending = jax.eval_shape(gradients, parameters, 0, order)
        pending, buffers = jax.tree.map(
            lambda like: jnp.zeros(like.shape, like.dtype), (pending, jax.eval_shape(record, parameters))
        )
        buffers = jax.tree.map(lambda one: jnp.zeros((num_records + 1, *one.shape), one.dtype), buffers)
        state = parameters, optimizer.init(parameters), pending, order
        carry = jnp.int32(0), jnp.array(False), buffers, state
        index, _, buffers, state = jax.lax.while_loop(lambda carry: ~carry[1], body, carry)
        return buffers, state[0], index - 1

    return jax.lax.map(one, (start, streams))


def descend(
    posterior: Posterior, starts: Weights, *, num_steps: int, learning_rate: float = 1.5
) -> tuple[Weights, np.ndarray]:
    """Noise-free gradient descent on the energy of a posterior, w ← w − η (T/N) ∇U.

    U T/N = ½‖Y − f‖² + (T/2N) Σ(weights)²: the temperature is the strength of the weight decay, and with
    readout_variance=1 nothing in it depends on P. Starts are weights of independent networks, leading axis
    (r,), as `jax.vmap(posterior.prior)` draws them; the last weights and their ‖Y − f‖², (r,), are returned.
    The learning rate η is stable below about 8 N/P at σ_a = 1; FloatingPointError where the descent diverges.
    """
    validation.instance("posterior", posterior, Posterior)
    validation.counts(num_steps=num_steps)
    validation.positive(learning_rate=learning_rate)
    weights, error = _descend(posterior, starts, learning_rate, num_steps)
    if not np.all(np.isfinite(error)):
        raise FloatingPointError(f"descend: diverged at learning rate {learning_rate}; take a smaller one")
    return jax.tree.map(np.asarray, weights), np.asarray(error)


@jax.jit
def _descend(posterior, starts, learning_rate, num_steps):
    scale = learning_rate / posterior.likelihood_precision

    def step(_, weights):
        _, slopes = posterior.value_and_gradient(weights)
        return jax.tree.map(lambda w, g: (w + scale * g).astype(w.dtype), weights, slopes)

    weights = jax.vmap(lambda start: jax.lax.fori_loop(0, num_steps, step, start))(starts)
    return weights, jax.vmap(posterior.squared_error)(weights)


def _drop(h: Array, kept: Array | None) -> Array:
    return h if kept is None else jnp.where(kept, h / (1 - DROPOUT), 0.0)


def _transposed_times(weights: Array, errors: Array) -> Array:
    """weights.T @ errors; for few inputs as a sum over rows, which reads the weights in place."""
    if errors.shape[1] > FEW_INPUTS:
        return weights.T @ errors
    return jnp.sum(weights[None] * errors.T[:, :, None], axis=1).T


def _multiply_out(gradients):
    """Gradients with every Factors multiplied out; for few inputs in a form that fuses with the update."""

    def product(leaf):
        if not isinstance(leaf, Factors):
            return leaf
        errors, activations = leaf
        if errors.shape[-1] > FEW_INPUTS:
            return errors @ jnp.swapaxes(activations, -1, -2)
        return sum(errors[..., :, p, None] * activations[..., None, :, p] for p in range(errors.shape[-1]))

    return jax.tree.map(product, gradients, is_leaf=lambda leaf: isinstance(leaf, Factors))


def _convolution(weights: Array, h: Array) -> Array:
    """Convolve (channels in, P, positions) as one matrix product, here three times as fast as XLA's own."""
    num_positions = h.shape[2] - KERNEL_SIZE + 1
    shifted = jnp.stack([h[:, :, k : k + num_positions] for k in range(KERNEL_SIZE)], axis=1)
    return jnp.tensordot(weights, shifted, axes=((1, 2), (0, 1)))


def _hold_last(buffer: np.ndarray, last_record: np.ndarray) -> np.ndarray:
    """Repeat each run's last record to the end, shape (repeats, n, ...)."""
    index = np.minimum(np.arange(buffer.shape[1])[None], last_record[:, None])
    return buffer[np.arange(len(buffer))[:, None], index]
