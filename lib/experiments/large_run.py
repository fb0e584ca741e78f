r"""The long run on images (paper A, Fig. 7): one wide network, annealed and sampled, with checkpoints.

Starting from the prior, the temperature is lowered geometrically block by block, then held; every block is
a number of HMC trajectories on the exact full-batch posterior. Where that takes too long, epochs of
underdamped Langevin dynamics on minibatches lower the temperature, and HMC holds it. After each block
everything needed to go on is written to a checkpoint, so a killed run resumes where it was and ends with the
same numbers. Nothing of size P × P is ever formed: memory is O(P (N0 + L N)). With several devices the
inputs are split among them.

    python -m experiments.large_run --num_inputs 2000 --num_epochs 10 --output cifar10-P2000.npz
    python -m experiments.large_run full --output cifar10-full.npz

Source: paper A, Fig. 7 and "Parameters used in Figures". Deviations: HMC in place of Langevin dynamics (the
same posterior, reached in fewer gradients), a start by minibatches, and the temperature, which paper A does
not give.
"""

import argparse
import json
import platform
import time
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import paths, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling.checkpoint import Checkpoint, digest
from coding_schemes.sampling.hmc import hmc_step, standard_normal
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

TARGET_ACCEPTANCE = 0.8
NUM_STORED_NEURONS, NUM_STORED_INPUTS = 100, 1000
#: Momentum kept from epoch to epoch of minibatch Langevin dynamics.
KEPT_MOMENTUM = 0.5
#: Its step, and the first HMC step, times the largest frequency of the energy; 2 is the limit of stability.
MINIBATCH_STEP, FIRST_STEP = 0.6, 1.5


@dataclass(frozen=True)
class Settings:
    """Everything that determines a run's numbers.

    Attributes:
        num_inputs: P.
        num_test: test images, P*; the subset holds some 100 of each class.
        num_classes: the first so many classes of CIFAR-10.
        pool: "subset" (exact pixels, 8,068 + 1,017 images) or "full" (all of CIFAR-10).
        jpeg: use the JPEG-recompressed images; the task's name then says so.
        width: N.
        depth: L.
        nonlinearity: name of φ.
        y_plus: target of an image's own class.
        y_minus: target of the other classes.
        start_temperature: T of the first block.
        temperature: T after annealing.
        num_annealing: blocks over which T falls.
        num_blocks: blocks altogether.
        num_averaged: blocks at the end over which the test predictor is averaged.
        num_epochs: epochs of minibatch Langevin dynamics per block while T falls; 0: HMC alone.
        batch_size: images per minibatch; must divide P if there are epochs.
        num_trajectories: HMC trajectories per block (with epochs: of those at the last temperature).
        num_leapfrog: leapfrog steps per trajectory.
        seed: of images and chain.
    """

    num_inputs: int = 2000
    num_test: int = 800
    num_classes: int = 10
    pool: str = "subset"
    jpeg: bool = False
    width: int = 300
    depth: int = 2
    nonlinearity: str = "sigmoidal"
    y_plus: float = 1.0
    y_minus: float = -0.1
    start_temperature: float = 1.0
    temperature: float = 1e-3
    num_annealing: int = 20
    num_blocks: int = 30
    num_averaged: int = 5
    num_epochs: int = 0
    batch_size: int = 250
    num_trajectories: int = 5
    num_leapfrog: int = 20
    seed: int = 0

    def __post_init__(self):
        if not 0 < self.num_averaged <= self.num_blocks - self.num_annealing:
            raise ValueError(
                f"num_averaged: got {self.num_averaged}, needs at least 1 and at most "
                f"num_blocks − num_annealing = {self.num_blocks - self.num_annealing}"
            )
        if self.num_epochs and (self.batch_size < 1 or self.num_inputs % self.batch_size):
            raise ValueError(f"batch_size: got {self.batch_size}, must divide num_inputs = {self.num_inputs}")

    def temperature_at(self, block: int) -> float:
        """T during a block, falling geometrically and then constant."""
        remaining = max(1 - block / self.num_annealing, 0.0) if self.num_annealing else 0.0
        return self.temperature * (self.start_temperature / self.temperature) ** remaining

    def trajectories_in(self, block: int) -> int:
        """HMC trajectories of a block."""
        return 0 if self.num_epochs and block < self.num_annealing else self.num_trajectories

    def epochs_in(self, block: int) -> int:
        """Minibatch epochs of a block."""
        return self.num_epochs if block < self.num_annealing else 0

    @property
    def num_gradients(self) -> int:
        """Full-batch gradients of the whole run; an epoch counts as one."""
        blocks = range(self.num_blocks)
        return sum(self.epochs_in(b) + self.num_leapfrog * self.trajectories_in(b) for b in blocks)


#: Paper A's Fig. 7, for a GPU and the complete data set.
FULL = Settings(num_inputs=50_000, num_test=10_000, pool="full", width=1000, num_epochs=10, num_leapfrog=30)


class State(NamedTuple):
    """What a run carries from block to block.

    Attributes:
        weights: the network.
        log_step: logarithm of the leapfrog step.
        prediction_sum: sum of test outputs over the averaged blocks, (P*, m).
        seconds: time spent on trajectories, ().
    """

    weights: Weights
    log_step: Array
    prediction_sum: np.ndarray
    seconds: np.ndarray


#: Of every block: T, training error, training and test accuracy of this network, acceptance (NaN without
#: trajectories), energy.
HISTORY = ("temperature", "training_error", "training_accuracy", "test_accuracy", "acceptance", "energy")


def make_task(settings: Settings) -> tasks.Task:
    """The images of a run; classes of equal size, as in all of CIFAR-10."""
    return tasks.cifar10(
        settings.num_inputs,
        settings.num_test,
        tuple(range(settings.num_classes)),
        settings.y_plus,
        settings.y_minus,
        settings.seed,
        pool=settings.pool,
        jpeg=settings.jpeg,
        balanced=True,
    )


def run(
    settings: Settings,
    task: tasks.Task | None = None,
    checkpoint: str | Path | None = None,
    max_blocks: int | None = None,
    verbose: bool = False,
) -> dict[str, Any] | None:
    """Run to the end, or from a checkpoint to the end.

    Args:
        settings: what to run.
        task: the images, made from the settings unless given; they must have a test split.
        checkpoint: folder to which every block is written, and from which a killed run goes on.
        max_blocks: stop after so many blocks in this call, as a killed run would.
        verbose: print one line per block.

    Returns:
        The arrays to keep, with a manifest; None if stopped by max_blocks.

    Raises:
        ValueError: the task has no test split.
        CheckpointMismatchError: the checkpoint was written with other settings; the message names them.
        CorruptDataError: the checkpoint is damaged beyond its newest block.
        FloatingPointError: the chain left the finite numbers.
    """
    task = make_task(settings) if task is None else task
    test_targets = _test_split(task)[2]
    network = Network(settings.depth, settings.width, settings.nonlinearity)
    key = jax.random.key(settings.seed)
    with jax.enable_x64(True):  # energies are accumulated in float64; weights stay float32
        posterior = Posterior(task, network, settings.temperature)
        _spread_over_devices(posterior)
        images = {"task": digest((task.inputs, task.targets, task.test_inputs, task.test_targets))}
        saved = Checkpoint(checkpoint, asdict(settings) | images)
        state, rows = saved.load(_start(posterior, test_targets, key), lambda: np.zeros(len(HISTORY)))
        for _ in range(max_blocks if max_blocks is not None else settings.num_blocks):
            if len(rows) == settings.num_blocks:
                break
            state, row = _advance(settings, posterior, task, state, key, len(rows))
            saved.save(state, row)
            rows.append(row)
            if verbose:
                listed = ", ".join(f"{name} {value:.4g}" for name, value in zip(HISTORY, row))
                print(f"block {len(rows)}/{settings.num_blocks}: {listed}", flush=True)
        if len(rows) < settings.num_blocks:
            return None
        return _results(settings, posterior, task, state, np.stack(rows), key)


def num_operations(settings: Settings, rank: int) -> int:
    """Floating-point operations of one gradient, 2 per multiply-add.

    Each weight is used once forward and twice backward, those of the first layer once backward.
    """
    later = (settings.depth - 1) * settings.width**2 + settings.width * settings.num_classes
    return settings.num_inputs * (4 * settings.width * rank + 6 * later)


def matrix_product_rate(size: int = 2048) -> float:
    """Floating-point operations per second of a float32 matrix product on this device."""
    matrix = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    product(matrix).block_until_ready()
    start = time.perf_counter()
    for _ in range(5):
        product(matrix).block_until_ready()
    return 5 * 2 * size**3 / (time.perf_counter() - start)


def _test_split(task: tasks.Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if task.test_inputs is None or task.test_labels is None or task.test_targets is None:
        raise ValueError("task: has no test split; the run needs one")
    return task.test_inputs, task.test_labels, task.test_targets


def _start(posterior: Posterior, test_targets: np.ndarray, key: Array) -> State:
    weights = posterior.prior(jax.random.fold_in(key, 0))
    nothing = np.zeros(test_targets.shape)
    log_step = jnp.log(jnp.asarray(0.03, posterior.dtype))
    return State(weights, log_step, nothing, np.zeros(()))


def _advance(
    settings: Settings, posterior: Posterior, task: tasks.Task, state: State, key: Array, block: int
) -> tuple[State, np.ndarray]:
    """One block: the state after it, and its row of the history."""
    test_inputs, test_labels, _ = _test_split(task)
    temperature = settings.temperature_at(block)
    now = posterior.at_temperature(temperature)
    move_key, test_key = jax.random.split(jax.random.fold_in(key, block + 1))
    adapting = block < settings.num_blocks - settings.num_averaged
    weights, log_step = state.weights, state.log_step
    num_epochs, num_trajectories = settings.epochs_in(block), settings.trajectories_in(block)
    start = time.perf_counter()
    if num_epochs:
        epoch_key = jax.random.fold_in(key, settings.num_blocks + 2 + block)
        weights, frequency = _epochs(now, weights, epoch_key, num_epochs, settings.batch_size)
        log_step = jnp.log(FIRST_STEP / frequency)
    weights, log_step, acceptance, outputs, energy = jax.block_until_ready(
        _trajectories(now, weights, move_key, log_step, adapting, num_trajectories, settings.num_leapfrog)
    )
    seconds = time.perf_counter() - start
    if not np.isfinite(float(energy)):
        raise FloatingPointError(f"energy is not finite after block {block + 1}")
    test_outputs = np.asarray(posterior.predict(test_key, weights, test_inputs).outputs)
    training_error = float(np.mean(np.square(np.asarray(outputs) - task.targets)))
    row = (
        temperature,
        training_error,
        _accuracy(np.asarray(outputs), task.labels),
        _accuracy(test_outputs, test_labels),
        float(acceptance),
        float(energy),
    )
    averaged = state.prediction_sum + (0 if adapting else test_outputs)
    return State(weights, log_step, averaged, state.seconds + seconds), np.array(row)


@partial(jax.jit, static_argnames=("num_epochs", "batch_size"))
def _epochs(posterior, weights, key, num_epochs, batch_size):
    """Minibatch Langevin dynamics, one leapfrog step per batch; and the largest frequency of the energy."""
    num_inputs = len(posterior.targets)
    unit = _stretch(posterior)
    weights = _times(weights, 1 / unit)
    momentum_key, key = jax.random.split(key)

    def gradient(rows):
        _, network = posterior.tree_flatten()
        part = posterior.tree_unflatten(
            network,
            (
                posterior.root[rows],
                posterior.targets[rows],
                posterior.temperature * batch_size / num_inputs,  # as if the batch stood for all inputs
                posterior.readout_std,
            ),
        )
        return jax.grad(lambda w: part.energy(_times(w, unit)).astype(posterior.dtype))

    spread = jnp.arange(batch_size) * (num_inputs // batch_size)  # inputs are sorted by class

    def power_iteration(carry, _):
        direction, _ = carry
        image = jax.jvp(gradient(spread), (weights,), (direction,))[1]
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(image)))
        return (jax.tree.map(lambda leaf: leaf / norm, image), norm), None

    start = standard_normal(momentum_key, weights), jnp.ones((), posterior.dtype)
    (_, curvature), _ = jax.lax.scan(power_iteration, start, None, length=8)
    frequency = jnp.sqrt(curvature)
    step = MINIBATCH_STEP / frequency

    def move(carry, rows):
        weights, momentum = carry
        force = gradient(rows)(weights)
        momentum = jax.tree.map(lambda p, g: p - step * g, momentum, force)
        return (jax.tree.map(lambda w, p: w + step * p, weights, momentum), momentum), None

    def epoch(carry, i):
        weights, momentum = carry
        order_key, noise_key = jax.random.split(jax.random.fold_in(key, i))
        noise = standard_normal(noise_key, weights)
        fresh = (1 - KEPT_MOMENTUM**2) ** 0.5
        momentum = jax.tree.map(lambda p, n: KEPT_MOMENTUM * p + fresh * n, momentum, noise)
        batches = jax.random.permutation(order_key, num_inputs).reshape(-1, batch_size)
        return jax.lax.scan(move, (weights, momentum), batches)[0], None

    momentum = standard_normal(jax.random.fold_in(momentum_key, 1), weights)
    (weights, _), _ = jax.lax.scan(epoch, (weights, momentum), jnp.arange(num_epochs))
    return _times(weights, unit), frequency


def _stretch(posterior: Posterior) -> float:
    """Chains move in coordinates with readouts in units of √P/2 prior standard deviations.

    Learning moves readouts by √P prior standard deviations, and the energy is P times flatter along them
    than along the other weights; in these units all are alike, and one step size serves all.
    """
    return max(1.0, len(posterior.targets) ** 0.5 / 2)


def _times(weights: Weights, unit: float) -> Weights:
    """Weights with their readouts times a unit."""
    return weights._replace(readout=weights.readout * unit)


@partial(jax.jit, static_argnames=("num_trajectories",))
def _trajectories(posterior, weights, key, log_step, adapting, num_trajectories, num_leapfrog):
    unit = _stretch(posterior)

    def target(position):
        value, gradient = posterior.value_and_gradient(_times(position, unit))
        return value, _times(gradient, unit)

    def step(carry, i):
        position, log_step = carry
        jitter_key, move_key = jax.random.split(jax.random.fold_in(key, i))
        jitter = jax.random.uniform(jitter_key, (), log_step.dtype, 0.8, 1.2)
        position, info = hmc_step(move_key, position, target, jnp.exp(log_step) * jitter, num_leapfrog)
        gain = jnp.where(adapting, 0.15, 0.0) * (info.acceptance - TARGET_ACCEPTANCE)
        return (position, log_step + gain.astype(log_step.dtype)), info.acceptance

    start = _times(weights, 1 / unit), log_step
    (position, log_step), acceptance = jax.lax.scan(step, start, jnp.arange(num_trajectories))
    weights = _times(position, unit)
    return weights, log_step, acceptance.mean(), posterior.outputs(weights), posterior.energy(weights)


def _accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(outputs.argmax(axis=1) == labels))


def _spread_over_devices(posterior: Posterior) -> None:
    """Split the inputs (rows of R and Y) over all devices, where there are several and P divides."""
    devices = jax.devices()
    if len(devices) == 1 or posterior.root is None or len(posterior.targets) % len(devices):
        return
    rows = NamedSharding(Mesh(np.array(devices), ("inputs",)), PartitionSpec("inputs", None))
    posterior.root = jax.device_put(posterior.root, rows)
    posterior.targets = jax.device_put(posterior.targets, rows)


def _results(
    settings: Settings, posterior: Posterior, task: tasks.Task, state: State, history: np.ndarray, key: Array
) -> dict[str, Any]:
    test_inputs, test_labels, test_targets = _test_split(task)
    test_key = jax.random.fold_in(key, settings.num_blocks + 1)
    prediction = posterior.predict(test_key, state.weights, test_inputs)
    training = posterior.preactivations(state.weights)
    phi = posterior.network.phi
    arrays: dict[str, Any] = {}
    rng = np.random.default_rng(settings.seed)
    for name, layers, labels in (
        ("training", training, task.labels),
        ("test", prediction.preactivations, test_labels),
    ):
        chosen = np.sort(rng.permutation(len(labels))[:NUM_STORED_INPUTS])
        for layer, z in enumerate(layers, start=1):
            activations = np.asarray(phi(z))
            means = [activations[:, labels == c].mean(axis=1) for c in range(settings.num_classes)]
            arrays[f"{name}_class_means_{layer}"] = np.stack(means, axis=1).astype(np.float32)
            arrays[f"{name}_activations_{layer}"] = activations[:NUM_STORED_NEURONS, chosen].astype(
                np.float16
            )
        arrays[f"{name}_labels"] = labels[chosen].astype(np.int16)
    predictor = state.prediction_sum / settings.num_averaged
    operations = num_operations(settings, posterior.rank) * settings.num_gradients
    arrays |= {
        "readouts": np.asarray(posterior.readouts(state.weights)).astype(np.float32),
        "predictor": predictor.astype(np.float32),
        "test_targets": np.asarray(test_targets, np.float32),
        "accuracy": _accuracy(predictor, test_labels),
        "error": float(np.mean(np.square(predictor - test_targets))),
        "history": history,
        "manifest": json.dumps(
            {
                "task": task.name,
                "settings": asdict(settings),
                "seconds": round(float(state.seconds), 1),
                "gradient_rate": float(operations / state.seconds),
                "matrix_product_rate": matrix_product_rate(),
                "device": f"{len(jax.devices())} x {jax.devices()[0].device_kind}, {platform.machine()}",
                "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "blackjax", "numpy")},
                "commit": paths.commit(),
            }
        ),
    }
    return arrays


def main() -> None:
    """Command line: one option per field of Settings, an output file and a checkpoint."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("preset", nargs="?", choices=["full"], help="start from paper A's settings")
    for field in fields(Settings):
        kind = field.type if callable(field.type) else str
        options = {"action": "store_true"} if kind is bool else {"type": kind}
        parser.add_argument(f"--{field.name}", default=argparse.SUPPRESS, **options)
    parser.add_argument("--output", type=Path, required=True, help="npz file for the arrays")
    parser.add_argument(
        "--checkpoint", type=Path, help="checkpoint folder; the output's name with .checkpoint"
    )
    arguments = vars(parser.parse_args())
    output = arguments.pop("output")
    checkpoint = arguments.pop("checkpoint") or output.with_suffix(".checkpoint")
    settings = replace(FULL if arguments.pop("preset") else Settings(), **arguments)
    results = run(settings, checkpoint=checkpoint, verbose=True)
    assert results is not None
    output.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(output, **results)


if __name__ == "__main__":
    main()
