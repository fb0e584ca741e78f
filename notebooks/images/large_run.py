r"""The long run on images (paper A, Fig. 7): one wide network, annealed and sampled, with checkpoints.

A command over `sampling.sample`: from the prior, T is lowered geometrically, then held; every block is a
number of HMC trajectories on the exact full-batch posterior. Where that takes too long, epochs of underdamped
Langevin dynamics on minibatches lower the temperature, and HMC holds it. A killed run resumes from its
checkpoint and ends with the same numbers. Nothing of size P × P is ever formed: memory is O(P (N0 + L N)).
With several devices, also of several processes, the inputs are split among them.

    python -m images.large_run --num_inputs 2000 --output cifar10-P2000.npz
    python -m images.large_run full --output cifar10-full.npz
    srun python -m images.large_run full --distributed --output cifar10-full.npz

Source: paper A, Fig. 7 and "Parameters used in Figures". Deviations: HMC in place of Langevin dynamics (the
same posterior, reached in fewer gradients), a start by minibatches, and the temperature, which paper A does
not give.
"""

import argparse
import itertools
import json
import platform
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import paths, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior

if TYPE_CHECKING:
    from coding_schemes.sampling import Samples

NUM_STORED_NEURONS, NUM_STORED_INPUTS = 100, 1000
#: Where the leapfrog step's adaptation starts, in stretched coordinates.
FIRST_STEP = 0.03


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
        num_leapfrog: leapfrog steps of a trajectory at most, on average.
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

    @property
    def warmup(self) -> tuple[int, int]:
        """Transitions that anneal, and that adapt the step size at the last temperature."""
        held = self.num_blocks - self.num_annealing - self.num_averaged
        annealing = self.num_annealing * (1 if self.num_epochs else self.num_trajectories)
        return annealing, held * self.num_trajectories


#: Paper A's Fig. 7, on the complete data set.
FULL = Settings(
    num_inputs=50_000,
    num_test=10_000,
    pool="full",
    width=1000,
    start_temperature=0.3,
    num_averaged=4,
    num_epochs=5,
    batch_size=500,
    num_trajectories=1,
    num_leapfrog=30,
)


#: Of every block: T, training error, training and test accuracy of this network (NaN before the averaged
#: blocks), acceptance (NaN for minibatches), energy.
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
    progress: bool | None = None,
) -> dict[str, Any]:
    """Run to the end, or from a checkpoint to the end.

    Args:
        settings: what to run.
        task: the images, made from the settings unless given; they must have a test split.
        checkpoint: folder of `sample`'s checkpoint, from which a killed run goes on.
        progress: as of `sample`.

    Returns:
        The arrays to keep, with a manifest.

    Raises:
        ValueError: the task has no test split, or batches that do not divide the inputs.
        CheckpointMismatchError: the checkpoint belongs to another run; the message says what differs.
        CorruptDataError: the checkpoint is damaged beyond its newest block.
        FloatingPointError: the chain left the finite numbers.
    """
    # Not above: importing BlackJAX starts JAX's devices, and processes have to find each other before that
    from coding_schemes import sampling

    task = make_task(settings) if task is None else task
    test_inputs = task.held_out[0]
    network = Network(settings.depth, settings.width, settings.nonlinearity)
    epochs = sampling.Minibatches(settings.num_epochs, settings.batch_size) if settings.num_epochs else None
    stretch = max(1.0, task.num_inputs**0.5 / 2)
    with jax.enable_x64(True):  # energies are accumulated in float64; weights stay float32
        posterior = Posterior(task, network, settings.temperature)
        samples = sampling.sample(
            posterior,
            jax.random.key(settings.seed),
            settings.num_averaged,
            num_chains=1,
            num_warmup=settings.warmup,
            thinning=settings.num_trajectories,
            method=sampling.HMC(
                max_num_steps=round(sampling.hmc.JITTER[1] * settings.num_leapfrog),
                step_size=FIRST_STEP,
                stretch=stretch,
            ),
            moves=(),
            anneal_from=settings.start_temperature,
            anneal_by=epochs,
            store=("outputs",),
            predict_inputs=test_inputs,
            progress=progress,
            checkpoint=checkpoint,
        )
        return _results(settings, posterior, task, samples)


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


def _accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(outputs.argmax(axis=1) == labels))


def _history(settings: Settings, task: tasks.Task, samples: "Samples") -> np.ndarray:
    """A row of HISTORY for every block, as it ends; of acceptance the mean."""
    rows, (annealing, adapting) = [], settings.warmup
    if samples.warmup_info is not None:
        lengths = [annealing // settings.num_annealing] * settings.num_annealing if annealing else []
        lengths += [settings.num_trajectories] * (adapting // settings.num_trajectories)
        remaining = np.append(np.arange(annealing)[::-1] / max(annealing, 1), np.zeros(adapting))
        hot = max(settings.start_temperature, settings.temperature)
        temperatures = settings.temperature * (hot / settings.temperature) ** remaining
        info = jax.tree.map(lambda array: array[0], samples.warmup_info)
        for first, last in itertools.pairwise(np.cumsum([0, *lengths])):
            error = info.squared_error[last - 1] / task.targets.size
            acceptance = info.acceptance[first:last].mean()
            rows.append((temperatures[last - 1], error, np.nan, np.nan, acceptance, info.energy[last - 1]))
    assert samples.outputs is not None
    assert samples.predictions is not None
    info = jax.tree.map(lambda array: array[0], samples.info)
    for k in range(settings.num_averaged):
        training = _accuracy(samples.outputs[0, k], task.labels)
        test = _accuracy(samples.predictions.outputs[0, k], task.held_out[1])
        error = info.squared_error[k] / task.targets.size
        rows.append((settings.temperature, error, training, test, info.acceptance[k], info.energy[k]))
    return np.array(rows)


def _results(
    settings: Settings, posterior: Posterior, task: tasks.Task, samples: "Samples"
) -> dict[str, Any]:
    assert samples.predictions is not None
    test_inputs, test_labels, test_targets = task.held_out
    weights = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), samples.final)
    test_key = jax.random.fold_in(jax.random.key(settings.seed), settings.num_blocks + 1)
    prediction = posterior.predict(test_key, weights, test_inputs)
    training = posterior.preactivations(weights)
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
    predictor, seconds = samples.predictions.mean, sum(samples.seconds.values())
    made = [info.num_gradients.sum() for info in (samples.warmup_info, samples.info) if info is not None]
    operations = num_operations(settings, posterior.rank) * float(sum(made))
    arrays |= {
        "readouts": np.asarray(posterior.readouts(weights)).astype(np.float32),
        "predictor": predictor.astype(np.float32),
        "test_targets": np.asarray(test_targets, np.float32),
        "accuracy": _accuracy(predictor, test_labels),
        "error": float(np.mean(np.square(predictor - test_targets))),
        "history": _history(settings, task, samples),
        "manifest": json.dumps(
            {
                "task": task.name,
                "settings": asdict(settings),
                **paths.provenance(seconds),
                "gradient_rate": operations / seconds,
                "matrix_product_rate": matrix_product_rate(),
                "device": f"{len(jax.devices())} x {jax.devices()[0].device_kind}, {platform.machine()}",
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
    parser.add_argument(
        "--distributed",
        nargs="*",
        metavar="ADDRESS COUNT INDEX",
        help="one of several processes: the first's address, how many, and which; or nothing, where the "
        "cluster's environment says it",
    )
    arguments = vars(parser.parse_args())
    output, processes = arguments.pop("output"), arguments.pop("distributed")
    if processes is not None:
        if len(processes) not in (0, 3):
            parser.error("--distributed: needs an address, a count and an index, or nothing")
        names = ("coordinator_address", "num_processes", "process_id")
        given = dict(zip(names, (processes[0], *map(int, processes[1:])))) if processes else {}
        jax.distributed.initialize(**given)
    checkpoint = arguments.pop("checkpoint") or output.with_suffix(".checkpoint")
    settings = replace(FULL if arguments.pop("preset") else Settings(), **arguments)
    results = run(settings, checkpoint=checkpoint)
    if jax.process_index() == 0:
        output.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(output, **results)


if __name__ == "__main__":
    main()
