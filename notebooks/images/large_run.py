r"""The long run on images (paper A, Fig. 7): one wide network, cooled by descent and sampled by HMC.

Adam descends the energy U from two starts, each once at the last temperature from the beginning (a quench)
and once while T falls geometrically to it. From the weights of the lowest energy HMC draws from the exact
full-batch posterior, in double precision: of U = O(10⁸) accept/reject needs 0.1. A killed run resumes from
its checkpoint and ends with the same numbers. Nothing of size P × P is ever formed: memory is
O(P (N0 + L N)). With several devices, also of several processes, the inputs are split among them.

    python -m images.large_run --num_inputs 2000 --output cifar10-P2000.npz
    python -m images.large_run full --output cifar10-full.npz
    srun python -m images.large_run full --distributed --output cifar10-full.npz

Source: paper A, Fig. 7 and "Parameters used in Figures". Deviations: descent and HMC in place of Langevin
dynamics, which reach equilibrium around their own minimum at P < 1,000 and still descend at P = 50,000; and
the temperature, which paper A does not give.
"""

import argparse
import json
import platform
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from coding_schemes import coding, paths, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, Weights

if TYPE_CHECKING:
    from coding_schemes.sampling import Samples

NUM_STORED_NEURONS, NUM_STORED_INPUTS = 100, 1000
#: Where the leapfrog step's adaptation starts, in stretched coordinates.
FIRST_STEP = 0.003
#: Where descents start: at weights of the prior; or at strong readouts of one class for each neuron, `STRONG`
#: times what learning makes of them.
STARTS, STRONG = ("prior", "one class"), 6.0
#: Of a descent: blocks that are recorded and kept, the part of it in which T falls, Adam's two memories.
NUM_RECORDS, COOLING, ADAM_DECAYS = 20, 0.7, (0.9, 0.99)


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
        start_temperature: T where cooling starts.
        temperature: T of a quench, at the end of cooling, and of sampling.
        num_steps: steps of each descent.
        learning_rate: Adam's at the start, in standard deviations of the prior; it falls to zero as a cosine.
        num_warmup: HMC trajectories that adapt the step size.
        num_samples: networks that are kept; the test predictor is their mean.
        num_trajectories: HMC trajectories between them.
        num_leapfrog: cap on the leapfrog steps of a trajectory, before their jitter.
        seed: of images and weights.
    """

    num_inputs: int = 2000
    num_test: int = 800
    num_classes: int = 10
    pool: str = "subset"
    jpeg: bool = False
    width: int = 1000
    depth: int = 2
    nonlinearity: str = "sigmoidal"
    y_plus: float = 1.0
    y_minus: float = -0.1
    start_temperature: float = 0.05
    temperature: float = 1e-3
    num_steps: int = 2000
    learning_rate: float = 0.1
    num_warmup: int = 80
    num_samples: int = 16
    num_trajectories: int = 10
    num_leapfrog: int = 40
    seed: int = 0

    def __post_init__(self):
        if self.num_steps <= 0 or self.num_steps % NUM_RECORDS:
            raise ValueError(f"num_steps: got {self.num_steps}, needs a multiple of {NUM_RECORDS}")
        if self.start_temperature < self.temperature:
            raise ValueError(
                f"start_temperature: got {self.start_temperature}, needs at least temperature = "
                f"{self.temperature}"
            )

    @property
    def descents(self) -> list[tuple[str, float]]:
        """Start and first temperature of every descent: quenched and cooled, from each start."""
        return [(start, hot) for start in STARTS for hot in (self.temperature, self.start_temperature)]


#: Paper A's Fig. 7, on the complete data set.
FULL = Settings(num_inputs=50_000, num_test=10_000, pool="full", num_steps=3000)
#: Settings that descents know nothing of: with others of these, descents that are done are not made again.
OF_SAMPLING = "num_warmup", "num_samples", "num_trajectories", "num_leapfrog"
#: Of every block of a descent, as it ends, and of every sample: T, training error, training and test accuracy
#: of this network, acceptance (NaN in descents), energy.
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
        checkpoint: folder for the checkpoints of descents and samples, from which a killed run goes on.
        progress: as of `sample`.

    Returns:
        The arrays to keep, with a manifest.

    Raises:
        ValueError: the task has no test split.
        CheckpointMismatchError: a checkpoint belongs to another run; the message says what differs.
        CorruptDataError: a checkpoint is damaged beyond its newest block.
        FloatingPointError: a descent or the chain left the finite numbers.
    """
    # Not above: importing BlackJAX starts JAX's devices, and processes have to find each other before that
    from coding_schemes import sampling

    task = make_task(settings) if task is None else task
    network = Network(settings.depth, settings.width, settings.nonlinearity)
    folder = (lambda name: None) if checkpoint is None else Path(checkpoint).joinpath
    with jax.enable_x64(True):  # energies are accumulated in float64
        single = Posterior(task, network, settings.temperature)
        found = [
            descend(single, settings, start, hot, folder(f"descent {k}"), progress)
            for k, (start, hot) in enumerate(settings.descents)
        ]
        best = int(np.argmin([rows[-1, HISTORY.index("energy")] for _, rows, _ in found]))
        posterior = Posterior(task, network, settings.temperature, dtype=jnp.float64)
        samples = sampling.sample(
            posterior,
            jax.random.key(settings.seed),
            settings.num_samples,
            num_chains=1,
            num_warmup=settings.num_warmup,
            thinning=settings.num_trajectories,
            init=jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found[best][0]),
            method=sampling.HMC(
                max_num_steps=round(sampling.hmc.JITTER[1] * settings.num_leapfrog),
                step_size=FIRST_STEP,
                stretch=_stretch(posterior),
            ),
            moves=(),
            store=("outputs",),
            predict_inputs=task.held_out[0],
            progress=progress,
            checkpoint=folder("samples"),
        )
        ends = [_layers(settings, single, task, weights) for weights, _, _ in found]
        return {
            "descents": np.array([rows for _, rows, _ in found]),
            "explained": np.array([_explained(layers, settings.depth) for layers in ends]),
            **_results(settings, posterior, task, samples, found[best][1], sum(one[2] for one in found)),
        }


def _stretch(posterior: Posterior) -> float:
    """Standard deviations of the prior that learning moves readouts by, √P/2, as `HMC` has it."""
    return max(1.0, len(posterior.targets) ** 0.5 / 2)


def descend(
    posterior: Posterior,
    settings: Settings,
    start: str,
    hot: float,
    checkpoint: Path | None = None,
    progress: bool | None = None,
) -> tuple[Weights, np.ndarray, float]:
    """Adam on the energy, in coordinates with stretched readouts, while T falls from `hot`.

    Returns the last weights, a row of HISTORY for each of `NUM_RECORDS` blocks, and the seconds they took.
    """
    from coding_schemes.sampling import run as driver
    from coding_schemes.sampling.checkpoint import Checkpoint, digest
    from tqdm.auto import tqdm

    assert posterior.task is not None
    stretch, key = _stretch(posterior), jax.random.fold_in(jax.random.key(settings.seed), STARTS.index(start))
    weights, class_key, new_key = posterior.prior(key), *(jax.random.fold_in(key, use) for use in (1, 2))
    if start != "prior":
        classes = jax.random.randint(class_key, (settings.width,), 0, settings.num_classes)
        one_hot = jax.nn.one_hot(classes, settings.num_classes, dtype=posterior.dtype)
        weights = weights._replace(readout=STRONG * stretch * one_hot)
    schedule = optax.cosine_decay_schedule(settings.learning_rate, settings.num_steps)
    optimizer = optax.adam(schedule, *ADAM_DECAYS)
    position = weights.stretched(1 / stretch)
    state = jax.tree.map(np.asarray, (position, optimizer.init(position)))
    test_inputs, test_labels, _ = posterior.task.held_out
    what = {"start": start, "hot": hot, "posterior": digest(posterior), "new inputs": digest(test_inputs)}
    own = {name: value for name, value in asdict(settings).items() if name not in OF_SAMPLING}
    saved = Checkpoint(checkpoint, own | what)
    state, blocks = saved.load(state, lambda: (0.0, 0.0))
    labels = posterior.task.labels
    placed, put = driver.spread(posterior)
    state, new = put(state), put(posterior.new_inputs(test_inputs))
    each, falling = settings.num_steps // NUM_RECORDS, COOLING * settings.num_steps

    def temperature(i):
        remaining = jnp.maximum(0.0, 1 - i / falling)
        return (settings.temperature * (hot / settings.temperature) ** remaining).astype(posterior.dtype)

    @jax.jit
    def block(posterior, new, state, first, key):
        def step(i, state):
            position, memory = state
            _, slope = posterior.at_temperature(temperature(i)).value_and_gradient(
                position.stretched(stretch)
            )
            updates, memory = optimizer.update(jax.tree.map(jnp.negative, slope.stretched(stretch)), memory)
            return optax.apply_updates(position, updates), memory

        state = jax.lax.fori_loop(first, first + each, step, state)
        weights, T = state[0].stretched(stretch), temperature(first + each - 1)
        with jax.default_matmul_precision("highest"):  # GPUs step with fewer digits than they report
            outputs, answers = posterior.outputs(weights), posterior.respond(key, weights, new).outputs
            energy = posterior.at_temperature(T).energy(weights)
        right = [jnp.mean(f.argmax(1) == c) for f, c in ((outputs, labels), (answers, test_labels))]
        error = jnp.mean(jnp.square(posterior.targets - outputs))
        return state, jnp.stack([T, error, *right, jnp.nan, energy])

    bar = tqdm(
        total=NUM_RECORDS, initial=len(blocks), desc=f"{start}, from T = {hot:g}", disable=not progress
    )
    for index in range(len(blocks), NUM_RECORDS):
        started = time.perf_counter()
        state, row = driver.fetched(
            block(placed, new, state, index * each, jax.random.fold_in(new_key, index))
        )
        if not np.isfinite(row[-1]):
            raise FloatingPointError(
                f"descend: the energy is {row[-1]} after {(index + 1) * each} steps; "
                f"take a learning_rate below {settings.learning_rate}"
            )
        blocks.append((row, np.asarray(time.perf_counter() - started)))
        saved.save(state, blocks[-1])
        bar.update()
    bar.close()
    rows, seconds = map(np.array, zip(*blocks, strict=True))
    return jax.tree.map(np.asarray, state[0].stretched(stretch)), rows, float(seconds.sum())


def num_operations(settings: Settings, rank: int) -> int:
    """Floating-point operations of one gradient, 2 per multiply-add.

    Each weight is used once forward and twice backward, those of the first layer once backward.
    """
    later = (settings.depth - 1) * settings.width**2 + settings.width * settings.num_classes
    return settings.num_inputs * (4 * settings.width * rank + 6 * later)


def _accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(outputs.argmax(axis=1) == labels))


def _layers(settings: Settings, posterior: Posterior, task: tasks.Task, weights: Weights) -> dict[str, Any]:
    """What is kept of every layer of a network, on training and on test images."""
    test_inputs, test_labels, _ = task.held_out
    key = jax.random.fold_in(jax.random.key(settings.seed), len(STARTS))  # those before are the starts' own
    prediction = posterior.predict(key, weights, test_inputs)
    splits = (
        ("training", posterior.preactivations(weights), task.labels),
        ("test", prediction.preactivations, test_labels),
    )
    kept: dict[str, Any] = {}
    rng = np.random.default_rng(settings.seed)
    for name, layers, labels in splits:
        chosen = np.sort(rng.permutation(len(labels))[:NUM_STORED_INPUTS])
        kept[f"{name}_labels"] = labels[chosen].astype(np.int16)
        for layer, z in enumerate(layers, start=1):
            phi = np.asarray(posterior.network.phi(z))
            means = [phi[:, labels == c].mean(axis=1) for c in range(settings.num_classes)]
            kept[f"{name}_class_means_{layer}"] = np.stack(means, axis=1).astype(np.float32)
            kept[f"{name}_activations_{layer}"] = phi[:NUM_STORED_NEURONS, chosen].astype(np.float16)
    return kept


def _explained(layers: dict[str, Any], layer: int) -> np.ndarray:
    """Variance of stored responses that a layer's training code explains, training and test images."""
    splits = ("training", "test")
    arrays = (layers[f"{s}_{what}"] for s in splits for what in (f"activations_{layer}", "labels"))
    return coding.code_transfer(*arrays)


def _results(
    settings: Settings,
    posterior: Posterior,
    task: tasks.Task,
    samples: "Samples",
    descent: np.ndarray,
    seconds: float,
) -> dict[str, Any]:
    assert samples.predictions is not None
    assert samples.outputs is not None
    assert samples.warmup_info is not None
    _, test_labels, test_targets = task.held_out
    weights = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), samples.final)
    predictor, info = samples.predictions.mean, jax.tree.map(lambda array: array[0], samples.info)
    sampled = [
        np.full(settings.num_samples, settings.temperature),
        info.squared_error / task.targets.size,
        [_accuracy(outputs, task.labels) for outputs in samples.outputs[0]],
        [_accuracy(outputs, test_labels) for outputs in samples.predictions.outputs[0]],
        info.acceptance,
        info.energy,
    ]
    drawn = sum(one.num_gradients.sum() for one in (samples.warmup_info, samples.info))
    made = {
        "descent, float32": (len(settings.descents) * settings.num_steps, seconds),
        "HMC, float64": (int(drawn), sum(samples.seconds.values())),
    }
    one = num_operations(settings, posterior.rank)
    return _layers(settings, posterior, task, weights) | {
        "readouts": np.asarray(posterior.readouts(weights)).astype(np.float32),
        "predictor": predictor.astype(np.float32),
        "test_targets": np.asarray(test_targets, np.float32),
        "accuracy": _accuracy(predictor, test_labels),
        "error": float(np.mean(np.square(predictor - test_targets))),
        "history": np.concatenate([descent, np.transpose(sampled)]),
        "warmup_energy": samples.warmup_info.energy[0],
        "manifest": json.dumps(
            {
                "task": task.name,
                "settings": asdict(settings),
                **paths.provenance(sum(spent for _, spent in made.values())),
                "gradient_rates": {name: one * count / spent for name, (count, spent) in made.items()},
                "device": f"{len(jax.devices())} x {jax.devices()[0].device_kind}, {platform.machine()}",
            }
        ),
    }


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
        paths.store(output, results)


if __name__ == "__main__":
    main()
