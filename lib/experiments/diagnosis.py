"""How far `coding_schemes.diagnose` can be trusted: networks of known scheme, and networks trained elsewhere.

    python -m experiments.diagnosis --output data/results/diagnosis.npz

makes a calibration. The scheme of a network drawn from the posterior is known: analog for linear
networks, redundant for sigmoidal and sparse for rectified ones (paper A). Lazy networks and draws of the
prior have none of the latter two; calling one of them so is the error that counts. Lazy is a limit, though:
with fewer neurons than inputs and T → 0, lazy ReLUs must learn features, and a few of them do the work.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from coding_schemes import tasks, training
from coding_schemes.diagnosis import diagnose
from coding_schemes.networks import Network
from coding_schemes.posterior import non_lazy
from coding_schemes.sampling import HMC, sample
from coding_schemes.tasks import Task
from jax import Array
from numpy.typing import ArrayLike

from experiments import jobs

SCHEMES = ("analog", "redundant", "sparse", "undecided")
TRUTHS = ("analog", "redundant", "sparse", "lazy", "untrained")
KNOWN = {"linear": "analog", "sigmoidal": "redundant", "relu": "sparse"}
EVIDENCE = ("two_levels", "participation", "outlier_share", "redundant_p", "sparse_p", "class_p")
MOVES = {
    "linear": ("gibbs",),
    "sigmoidal": ("gibbs",),
    "relu": ("gibbs", "scale", "rotations", "split_merge"),
}
"""Moves that reach each scheme. Sigmoidal networks find some set of codes, and any is redundant, without the
moves between codes, which compile for long."""


def drawn(
    task: Task,
    network: Network,
    temperature: float | None,
    key: Array,
    *,
    num_networks: int = 8,
    num_warmup: int = 300,
    moves: Sequence[str] | None = None,
) -> np.ndarray:
    """Feature-layer activations of independent networks.

    Args:
        task: what they learned.
        network: their architecture.
        temperature: T; None for draws of the prior.
        key: drives the chains.
        num_networks: one chain each, of which the last state is kept.
        num_warmup: transitions of the chains, half of them annealing T.
        moves: of the sampler; those of MOVES unless given.

    Returns:
        φ, shape (num_networks, N, P).
    """
    posterior = non_lazy(task, network, 1.0 if temperature is None else temperature)
    if temperature is None:
        weights = jax.vmap(posterior.prior)(jax.random.split(key, num_networks))
    else:
        moves = MOVES[str(network.nonlinearity)] if moves is None else moves
        weights = sample(
            posterior,
            key,
            num_samples=1,
            num_chains=num_networks,
            num_warmup=num_warmup,
            anneal_from=100 * float(posterior.temperature),
            moves=tuple(moves),
            store=(),
            method=HMC(max_num_steps=45),
        ).final
    features = jax.vmap(lambda w: network.phi(posterior.preactivations(w)[-1]))(weights)
    return np.asarray(features, dtype=float)


def noisy(activations: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """Activations with independent Gaussian noise of `noise` standard deviations of theirs."""
    rng = np.random.default_rng(seed)
    return activations + noise * activations.std() * rng.standard_normal(activations.shape)


def calibrate(
    key: Array,
    *,
    sizes: Sequence[tuple[int, int]] = ((60, 60),),
    temperatures: Sequence[float] = (0.01,),
    noises: Sequence[float] = (0.0, 0.5, 1.0),
    nonlinearities: Sequence[str] = ("linear", "sigmoidal", "relu"),
    kinds: Sequence[str] = ("non-lazy", "lazy", "untrained"),
    on: str = "toy",
    num_networks: int = 8,
    num_warmup: int = 300,
    num_rotations: int = 999,
) -> dict[str, np.ndarray]:
    """Diagnoses of networks of known scheme, one row per network and noise.

    Args:
        key: drives all chains.
        sizes: pairs (N, P).
        temperatures: T of the sampled networks.
        noises: observation noise, in standard deviations of the activations.
        nonlinearities: of one hidden layer.
        kinds: "non-lazy" and "lazy" networks are sampled, "untrained" ones drawn from the prior.
        on: "toy" (three classes of a half, a quarter and a quarter) or "mnist" (digits 0, 1 and 2).
        num_networks: independent networks at each point.
        num_warmup: transitions of their chains.
        num_rotations: as for `diagnose`.

    Returns:
        Columns of one length: truth, scheme (text), nonlinearity, width, num_inputs, temperature (NaN if
        untrained), noise, and EVIDENCE.

    Raises:
        ValueError: a task or kind of another name.
    """
    if on not in ("toy", "mnist") or not set(kinds) <= {"non-lazy", "lazy", "untrained"}:
        raise ValueError(
            f"on, kinds: got {on!r} and {tuple(kinds)}; allowed are 'toy', 'mnist' and 'non-lazy', 'lazy', "
            "'untrained'"
        )
    rows: list[dict] = []
    grid = product(sizes, nonlinearities, kinds)
    for stream, ((width, num_inputs), nonlinearity, kind) in enumerate(grid):
        make = tasks.toy if on == "toy" else partial(tasks.mnist, num_test=0)
        task = make(num_inputs, y_minus=-0.5)
        network = Network(1, width, nonlinearity, "lazy" if kind == "lazy" else "non-lazy")
        truth = KNOWN[nonlinearity] if kind == "non-lazy" else kind
        for k, temperature in enumerate((None,) if kind == "untrained" else temperatures):
            activations = drawn(
                task,
                network,
                temperature,
                jax.random.fold_in(jax.random.fold_in(key, stream), k),
                num_networks=num_networks,
                num_warmup=num_warmup,
            )
            for noise, (seed, phi) in product(noises, enumerate(activations)):
                found = diagnose(noisy(phi, noise, seed), task.labels, num_rotations=num_rotations, seed=seed)
                row: dict = {"truth": truth, "scheme": found.scheme, "nonlinearity": nonlinearity}
                row |= {"width": width, "num_inputs": num_inputs, "noise": noise}
                row |= {"temperature": np.nan if temperature is None else temperature}
                rows.append(row | {name: getattr(found.evidence, name) for name in EVIDENCE})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def confusion_matrix(truth: ArrayLike, scheme: ArrayLike) -> np.ndarray:
    """How often networks of each kind of TRUTHS were given each of SCHEMES, shape (5, 4)."""
    truth, scheme = np.asarray(truth)[:, None, None], np.asarray(scheme)[:, None, None]
    return np.sum((truth == np.array(TRUTHS)[:, None]) & (scheme == np.array(SCHEMES)), axis=0)


class Trained(NamedTuple):
    """A network trained by an optimizer.

    Attributes:
        activations: of its last hidden layer, shape (N, P).
        readouts: of that layer, shape (N, m).
        accuracy: fraction of the training inputs whose largest output is their class's.
    """

    activations: np.ndarray
    readouts: np.ndarray
    accuracy: float


def adam(
    task: Task,
    key: Array,
    *,
    nonlinearity: str = "relu",
    width: int = 100,
    depth: int = 1,
    gain: float = 1.0,
    learning_rate: float = 1e-3,
    num_steps: int = 2000,
) -> Trained:
    """A fully connected network with biases, trained by Adam on all inputs at once.

    Args:
        task: what it learns.
        key: draws its initial weights.
        nonlinearity: of its hidden layers, a name of `networks.NONLINEARITIES`.
        width: neurons of a hidden layer.
        depth: hidden layers.
        gain: of the Xavier-normal initial weights; small ones learn features.
        learning_rate: of Adam.
        num_steps: of Adam, a multiple of ten.

    Returns:
        Trained.
    """
    model = training.Architecture(nonlinearity, gain, width, depth)
    run = training.train(
        model,
        key,
        task.inputs,
        task.targets,
        learning_rate=learning_rate,
        num_steps=num_steps,
        adam=True,
        converged_loss=1e6,  # whatever it is
        track=_nothing,
    )
    parameters = jax.tree.map(lambda leaf: leaf[0], run.parameters)
    outputs, hidden = model.forward(parameters, jnp.asarray(task.inputs, jnp.float32))
    return _trained(hidden[-1], parameters.weights[-1].T, outputs, task.labels)


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

    Returns:
        Trained.

    Raises:
        ValueError: the inputs are no square images.
    """
    side = round(task.input_dim**0.5)
    if side**2 != task.input_dim:
        raise ValueError(f"task: inputs have {task.input_dim} pixels, needs gray images of side × side")
    images = jnp.asarray(task.inputs.T.reshape(-1, side, side, 1), jnp.float32)
    labels = jnp.asarray(task.labels)
    flat = channels[1] * (-(-side // 4)) ** 2
    shapes = (9, channels[0]), (9 * channels[0], channels[1]), (flat, width), (width, int(labels.max()) + 1)
    weights = [
        jax.random.normal(jax.random.fold_in(key, layer), shape, jnp.float32) * (2 / shape[0]) ** 0.5
        for layer, shape in enumerate(shapes)
    ]
    parameters = weights, [jnp.zeros((1, shape[1]), jnp.float32) for shape in shapes]

    def forward(parameters):
        (*kernels, dense, readout), (*offsets, dense_bias, readout_bias) = parameters
        h = images
        for kernel, bias in zip(kernels, offsets):
            h = jax.nn.relu(_patches(h) @ kernel + bias[None, None])
        h = jax.nn.relu(h.reshape(len(h), -1) @ dense + dense_bias)
        return h @ readout + readout_bias, h

    def loss(parameters):
        return optax.softmax_cross_entropy_with_integer_labels(forward(parameters)[0], labels).mean()

    optimizer = optax.adam(learning_rate)

    @jax.jit
    def descend(parameters):
        def step(_, carry):
            parameters, state = carry
            updates, state = optimizer.update(jax.grad(loss)(parameters), state, parameters)
            return optax.apply_updates(parameters, updates), state

        return jax.lax.fori_loop(0, num_steps, step, (parameters, optimizer.init(parameters)))[0]

    parameters = descend(parameters)
    outputs, hidden = forward(parameters)
    return _trained(hidden.T, parameters[0][-1], outputs, task.labels)


def perceptron(
    coefs: Sequence[ArrayLike], intercepts: Sequence[ArrayLike], inputs: ArrayLike, nonlinearity: str
) -> np.ndarray:
    """Last hidden layer of scikit-learn's MLPClassifier or MLPRegressor, from its coefs_ and intercepts_.

    Args:
        coefs: weights of every layer, readout included, each (units in, units out).
        intercepts: biases, each (units out,).
        inputs: X as scikit-learn takes it, shape (P, number of features).
        nonlinearity: its `activation`: "relu", "tanh", "logistic" or "identity".

    Returns:
        φ, shape (N, P), for `diagnose`; the readouts are coefs[-1].

    Raises:
        ValueError: another nonlinearity, or no hidden layer.
    """
    functions: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "relu": lambda z: np.maximum(z, 0.0),
        "tanh": np.tanh,
        "logistic": lambda z: 0.5 * (1 + np.tanh(z / 2)),
        "identity": lambda z: z,
    }
    if nonlinearity not in functions or len(coefs) < 2:
        raise ValueError(
            f"nonlinearity, coefs: got {nonlinearity!r} and {len(coefs)} layers; needs one of "
            f"{sorted(functions)} and a hidden layer"
        )
    h = np.asarray(inputs, dtype=float)
    for matrix, bias in zip(coefs[:-1], intercepts[:-1]):
        h = functions[nonlinearity](h @ np.asarray(matrix) + np.asarray(bias))
    return h.T


def _patches(h: Array) -> Array:
    """Neighborhoods of 3 × 3 pixels around every second one, from (P, s, s, c) to (P, ⌈s/2⌉, ⌈s/2⌉, 9c).

    The convolution is then a matrix product, which processors are far faster at inside a compiled loop.
    """
    count = -(-h.shape[1] // 2)
    padded = jnp.pad(h, ((0, 0), (1, 2), (1, 2), (0, 0)))
    shifts = [padded[:, i : i + 2 * count : 2, j : j + 2 * count : 2] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifts, axis=-1)


def _nothing(outputs: Array, hidden) -> Array:
    return jnp.zeros(())


def _trained(activations, readouts, outputs, labels) -> Trained:
    right = np.asarray(outputs).argmax(axis=1) == labels
    return Trained(np.asarray(activations, float), np.asarray(readouts, float), float(right.mean()))


def main() -> None:
    """Command line: compute a calibration."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[30, 60, 100, 200])
    parser.add_argument("--num_inputs", type=int, nargs="+", default=[30, 100])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.001, 0.01, 0.1])
    parser.add_argument("--num_networks", type=int, default=8)
    parser.add_argument("--on", choices=("toy", "mnist"), default="toy")

    def job(widths: list[int], num_inputs: list[int], **options: Any) -> tuple[dict, dict]:
        return calibrate(jax.random.key(0), sizes=list(product(widths, num_inputs)), **options), {}

    jobs.run(parser, job)


if __name__ == "__main__":
    main()
