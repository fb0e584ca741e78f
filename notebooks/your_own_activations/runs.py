"""What the chapter on readers' activations runs: networks of known scheme, and networks that Adam trained.

The scheme of a network drawn from the posterior is known: analog for linear networks, redundant for sigmoidal
and sparse for rectified ones (paper A). Lazy networks and draws of the prior of these three, on digits, have
none of the latter two; calling one of them so is the error that counts. Lazy is a limit, though: with fewer
neurons than inputs and T → 0, lazy ReLUs must learn features, and a few of them do the work.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from coding_schemes import coding, tasks
from coding_schemes.diagnosis import Diagnosis, diagnose
from coding_schemes.networks import NONLINEARITIES, Network
from coding_schemes.posterior import non_lazy
from coding_schemes.sampling import HMC, sample
from coding_schemes.tasks import Task
from jax import Array
from numpy.typing import ArrayLike
from scipy.stats import beta

KNOWN = {"linear": "analog", "sigmoidal": "redundant", "relu": "sparse"}
KINDS = ("sampled", "lazy", "untrained")
SCHEMES = ("analog", "redundant", "sparse", "undecided")
ANALOG, REDUNDANT, SPARSE, UNDECIDED = range(4)
MOVES = {
    "linear": ("gibbs",),
    "sigmoidal": ("gibbs",),
    "relu": ("gibbs", "scale", "rotations", "split_merge"),
}
"""Moves that reach each scheme. Sigmoidal networks find some set of codes, and any is redundant, without the
moves between codes, which compile for long."""
ROTATIONS = 199  # of a diagnosis that is repeated often
TEMPERATURE = 0.01


class Layers(NamedTuple):
    """Feature layers of independent networks: activations (networks, N, P), readouts (networks, N, m)."""

    activations: np.ndarray
    readouts: np.ndarray


def drawn(
    key: Array,
    task: Task,
    network: Network,
    *,
    trained: bool = True,
    num_networks: int = 8,
    num_warmup: int = 300,
    moves: Sequence[str] | None = None,
    temperature: float = TEMPERATURE,
) -> Layers:
    """Independent networks of a posterior: the last states of chains that anneal T; or draws of the prior."""
    posterior = non_lazy(task, network, temperature)
    if not trained:
        weights = jax.vmap(posterior.prior)(jax.random.split(key, num_networks))
    else:
        weights = sample(
            posterior,
            key,
            num_samples=1,
            num_chains=num_networks,
            num_warmup=num_warmup,
            anneal_from=100 * float(posterior.temperature),
            moves=tuple(MOVES[str(network.nonlinearity)] if moves is None else moves),
            store=(),
            method=HMC(max_num_steps=45),
        ).final
    features = jax.vmap(lambda w: network.phi(posterior.preactivations(w)[-1]))(weights)
    return Layers(np.asarray(features, float), np.asarray(posterior.readouts(weights), float))


class Calls(NamedTuple):
    """How networks of every nonlinearity (3: linear, sigmoidal, ReLU) and kind (3: `KINDS`) are called.

    Attributes:
        counts: networks called by each of `SCHEMES`, shape (3, 3, 4).
        readout_share: share of the readouts in the span of class differences, shape (3, 3, networks).
        fitted_share: the same of readouts fitted to the untrained networks' features, with the penalty that
            the sampled networks' posterior has and with a tenth of it, shape (3, 2, networks).
        sharing: `sharing` of the sampled networks, shape (3, networks).
    """

    counts: np.ndarray
    readout_share: np.ndarray
    fitted_share: np.ndarray
    sharing: np.ndarray


def calls(key: Array, task: Task, width: int, num_networks: int, **options: Any) -> Calls:
    """Diagnose sampled, lazy and untrained networks of every nonlinearity that learn a task."""
    counts, share = np.zeros((3, 3, 4), int), np.zeros((3, 3, num_networks))
    fitted, common = np.zeros((3, 2, num_networks)), np.zeros((3, num_networks))
    for n, name in enumerate(KNOWN):
        for k, kind in enumerate(KINDS):
            layers = drawn(
                jax.random.fold_in(key, n + 10 * k),
                task,
                Network(1, width, name, "lazy" if kind == "lazy" else "non-lazy"),
                trained=kind != "untrained",
                num_networks=num_networks,
                **options,
            )
            for r, (phi, readouts) in enumerate(zip(*layers, strict=True)):
                found = diagnose(phi, task.labels, readouts, num_rotations=ROTATIONS)
                counts[n, k, SCHEMES.index(found.scheme)] += 1
                share[n, k, r] = found.readout_share
                if kind == "sampled":
                    common[n, r] = sharing(found)
                if kind == "untrained":
                    for s, part in enumerate((1, 0.1)):
                        readouts = ridge(phi, task.targets, part * TEMPERATURE * task.num_inputs)
                        refitted = diagnose(phi, task.labels, readouts, num_rotations=99)
                        fitted[n, s, r] = refitted.readout_share
    return Calls(counts, share, fitted, common)


def ridge(activations: np.ndarray, targets: ArrayLike, penalty: float) -> np.ndarray:
    """Readouts (N, m) that fit the targets (P, m) to activations (N, P), by the kernel plus a penalty.

    A penalty of P T gives the mean of the posterior's readouts, of prior variance 1/P, given the features.
    """
    kernel = activations.T @ activations / len(activations)
    return activations @ np.linalg.solve(kernel + penalty * np.eye(len(kernel)), np.asarray(targets))


def sharing(found: Diagnosis) -> float:
    """How many neurons have the code of an average live neuron, itself included."""
    return float(found.live.sum() * np.square(found.occupancies.fractions).sum())


class OfTen(NamedTuple):
    """Networks that learned ten classes of orthogonal inputs, at one size.

    Attributes:
        sparse: ReLU networks called sparse.
        untrained: draws of their prior called so.
        undecided: sigmoidal networks called undecided.
        sharing: `sharing` of the sigmoidal networks, shape (networks,).
        num_codes: codes of a sigmoidal network, on average.
        two_levels: what they explain of its differences between classes, on average.
    """

    sparse: int
    untrained: int
    undecided: int
    sharing: np.ndarray
    num_codes: float
    two_levels: float


def of_ten(key: Array, width: int, num_inputs: int, num_networks: int) -> OfTen:
    """Diagnose sampled sigmoidal and ReLU networks of ten classes."""
    task = tasks.toy(num_inputs, (0.1,) * 10, y_minus=0.0)
    sigmoidal, relu, prior = (
        drawn(key, task, Network(1, width, name), num_networks=num_networks, trained=trained).activations
        for name, trained in (("sigmoidal", True), ("relu", True), ("relu", False))
    )

    def told(layers):
        return [diagnose(phi, task.labels, num_rotations=ROTATIONS) for phi in layers]

    many = told(sigmoidal)
    sparse, untrained = (sum(each.scheme == "sparse" for each in told(layers)) for layers in (relu, prior))
    return OfTen(
        sparse,
        untrained,
        sum(each.scheme == "undecided" for each in many),
        np.array([sharing(each) for each in many]),
        float(np.mean([len(each.occupancies.codes) for each in many])),
        float(np.mean([each.evidence.two_levels for each in many])),
    )


def steep(z: ArrayLike) -> np.ndarray:
    """A sigmoid of gain ten."""
    return np.asarray(jax.nn.sigmoid(10 * jnp.asarray(z)))


def high(z: ArrayLike) -> np.ndarray:
    """A smooth rectifier with a threshold of 2.5 standard deviations."""
    return np.asarray(jax.nn.softplus(5 * (jnp.asarray(z) - 2.5)) / 5)


def untrained(
    task: Task, phi: Callable[[ArrayLike], ArrayLike], *, width: int = 100, num_networks: int = 24
) -> np.ndarray:
    """How many layers with random weights are called by each of `SCHEMES`, (4,)."""
    counts, rng = np.zeros(len(SCHEMES), int), np.random.default_rng(0)
    for _ in range(num_networks):
        preactivations = rng.standard_normal((width, task.input_dim)) @ task.inputs / task.input_dim**0.5
        found = diagnose(np.asarray(phi(preactivations)), task.labels, num_rotations=ROTATIONS)
        counts[SCHEMES.index(found.scheme)] += 1
    return counts


def rotation(size: int, rng: np.random.Generator) -> np.ndarray:
    """A random rotation that keeps the average neuron, as those that `diagnose` compares with."""

    def basis() -> np.ndarray:
        frame, triangle = np.linalg.qr(
            np.column_stack([np.ones(size), rng.standard_normal((size, size - 1))])
        )
        return frame * np.sign(np.diagonal(triangle))  # uniform among those that begin with the average

    return basis() @ basis().T


def at_least(found: ArrayLike, of: ArrayLike) -> np.ndarray:
    """The smallest share at which so many or more would be found among so many in one of twenty cases."""
    k, n = np.broadcast_arrays(np.asarray(found, float), np.asarray(of, float))
    return np.where(k > 0, beta.ppf(0.05, np.maximum(k, 0.5), n - k + 1), 0.0)


def at_most(found: ArrayLike, of: ArrayLike) -> np.ndarray:
    """The largest share at which so few would be found in one of twenty cases."""
    return 1 - at_least(np.subtract(of, found), of)


# ---- one layer, as it is shown ----------------------------------------------------------------


def shown(activations: ArrayLike, labels: ArrayLike, found: Diagnosis) -> dict[str, Any]:
    """A layer with its neurons by code, the most frequent first and the dead last, and its evidence."""
    phi = np.asarray(activations, float)
    order = coding.sort_by_code(found.codes, phi)
    order = np.concatenate([order[found.live[order]], order[~found.live[order]]])
    numbers = ("rotated_two_levels", "two_levels", "rotated_participation", "participation")
    classes = np.unique(labels, return_inverse=True)[1]
    inputs = np.argsort(classes, kind="stable")
    evidence = {name: getattr(found.evidence, name) for name in numbers}
    return {"activations": phi[order][:, inputs], "labels": classes[inputs], **evidence}


# ---- networks that an optimizer trained -------------------------------------------------------


class Trained(NamedTuple):
    """A network trained by Adam.

    Attributes:
        activations: of its last hidden layer, shape (N, P).
        readouts: of that layer, shape (N, m).
        accuracy: fraction of the training inputs whose largest output is their class's.
        kernel_change: of that layer's kernel, over the initial one (Frobenius norms).
    """

    activations: np.ndarray
    readouts: np.ndarray
    accuracy: float
    kernel_change: float


def perceptron(
    task: Task,
    key: Array,
    *,
    nonlinearity: str = "relu",
    width: int = 100,
    gain: float = 1.0,
    decay: float = 0.0,
    learning_rate: float = 1e-3,
    num_steps: int = 2000,
) -> Trained:
    """One hidden layer with biases, trained by AdamW on the squared error of all inputs at once.

    Args:
        task: what it learns.
        key: draws its initial weights.
        nonlinearity: of its hidden layer, a name of `networks.NONLINEARITIES`.
        width: neurons of the hidden layer.
        gain: of the Xavier-normal initial weights; small ones learn features.
        decay: AdamW's weight decay.
        learning_rate: of AdamW.
        num_steps: of AdamW.
    """
    inputs, targets = (jnp.asarray(each, jnp.float32) for each in (task.inputs.T, task.targets))
    phi = NONLINEARITIES[nonlinearity]
    shapes = ((task.input_dim, width), (width, task.num_targets))

    def forward(parameters):
        (first, readout), (bias, offset) = parameters
        h = phi(inputs @ first + bias)
        return h @ readout + offset, h

    def loss(parameters):
        return jnp.square(forward(parameters)[0] - targets).mean()

    start = _initial(key, shapes, lambda rows, columns: gain * (2 / (rows + columns)) ** 0.5)
    return _descended(task, start, forward, loss, learning_rate, num_steps, decay)


def convolutional(
    task: Task,
    key: Array,
    *,
    channels: tuple[int, int] = (8, 16),
    width: int = 64,
    learning_rate: float = 2e-3,
    num_steps: int = 200,
) -> Trained:
    """A small convolutional network on square gray images, trained by Adam on the cross-entropy.

    Two convolutions (3 × 3, stride 2, ReLU), a dense layer of ReLUs, whose activations are returned, and
    a linear readout.

    Args:
        task: images of side × side pixels, such as `tasks.mnist`.
        key: draws the initial weights.
        channels: of the two convolutions.
        width: neurons of the dense layer.
        learning_rate: of Adam.
        num_steps: of Adam, on all inputs at once.

    Raises:
        ValueError: the inputs are no square images.
    """
    side = round(task.input_dim**0.5)
    if side**2 != task.input_dim:
        raise ValueError(f"task: inputs have {task.input_dim} pixels, needs gray images of side × side")
    images = jnp.asarray(task.inputs.T.reshape(-1, side, side, 1), jnp.float32)
    labels = jnp.asarray(task.labels)
    flat = channels[1] * (-(-side // 4)) ** 2
    shapes = (9, channels[0]), (9 * channels[0], channels[1]), (flat, width), (width, task.num_classes)

    def forward(parameters):
        (*kernels, dense, readout), (*offsets, dense_bias, readout_bias) = parameters
        h = images
        for kernel, bias in zip(kernels, offsets):
            h = jax.nn.relu(_patches(h) @ kernel + bias[None, None])
        h = jax.nn.relu(h.reshape(len(h), -1) @ dense + dense_bias)
        return h @ readout + readout_bias, h

    def loss(parameters):
        return optax.softmax_cross_entropy_with_integer_labels(forward(parameters)[0], labels).mean()

    start = _initial(key, shapes, lambda rows, columns: (2 / rows) ** 0.5)
    return _descended(task, start, forward, loss, learning_rate, num_steps)


def _initial(key: Array, shapes: Sequence[tuple[int, int]], scale: Callable[[int, int], float]) -> Any:
    """Gaussian weights of every layer, biases zero."""
    weights = [
        jax.random.normal(jax.random.fold_in(key, layer), shape, jnp.float32) * scale(*shape)
        for layer, shape in enumerate(shapes)
    ]
    return weights, [jnp.zeros((1, shape[1]), jnp.float32) for shape in shapes]


def _descended(task, parameters, forward, loss, learning_rate, num_steps, decay=0.0) -> Trained:
    """What AdamW makes of a network; `forward` gives outputs (P, m) and the last hidden layer (P, N)."""
    optimizer = optax.adamw(learning_rate, weight_decay=decay)

    @jax.jit
    def descend(parameters):
        def step(_, carry):
            parameters, state = carry
            updates, state = optimizer.update(jax.grad(loss)(parameters), state, parameters)
            return optax.apply_updates(parameters, updates), state

        return jax.lax.fori_loop(0, num_steps, step, (parameters, optimizer.init(parameters)))[0]

    initial = forward(parameters)[1]
    parameters = descend(parameters)
    outputs, hidden = forward(parameters)
    right = np.asarray(outputs).argmax(axis=1) == task.labels
    readouts = np.asarray(parameters[0][-1], float)
    before, after = initial @ initial.T, hidden @ hidden.T
    change = float(jnp.linalg.norm(after - before) / jnp.linalg.norm(before))
    return Trained(np.asarray(hidden.T, float), readouts, float(right.mean()), change)


def _patches(h: Array) -> Array:
    """Neighborhoods of 3 × 3 pixels around every second one, from (P, s, s, c) to (P, ⌈s/2⌉, ⌈s/2⌉, 9c).

    The convolution is then a matrix product, which processors are far faster at inside a compiled loop.
    """
    count = -(-h.shape[1] // 2)
    padded = jnp.pad(h, ((0, 0), (1, 2), (1, 2), (0, 0)))
    shifts = [padded[:, i : i + 2 * count : 2, j : j + 2 * count : 2] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifts, axis=-1)
