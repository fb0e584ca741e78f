"""ReLU networks: outliers from two ends, over targets and widths, their coarsening, other φ, depth."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.planting import planted
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, PlainLangevin, TwoEnded, compare_ends, convergence, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import relu
from companion.workbench import Run

QUICK: dict[str, Any] = {
    "num_neurons": 100,
    "temperature": 0.01,
    "num_samples": 32,  # per chain and segment
    "num_chains": 4,
    "num_segments": 4,
    "length": 0.6,  # of a trajectory
    "step_size": 0.01,
    "moves": ("rotations", "split_merge"),
    "widths": (40, 60),  # besides num_neurons
    "targets": (0.1, 0.6),  # y₋
    "ratios": ((0.6, 0.3, 0.1),),
    "target_runs": (6, 32, 2, 0.6),  # segments, samples of each, thinning, length of a trajectory
    "coarsening_size": 40,
    "max_steps": 200_000,
    "other": (60, 1.5),  # size, length of a trajectory of other nonlinearities, and their steps
    "other_steps": {"softplus": 0.015, "relu_squared": 0.015, "sigmoidal": 0.015},
    "squared": (3, 8, 32),  # segments, chains, samples of each
    "deep": {40: (1, 10)},  # size: temperatures, in units of T
    "deep_segments": 2,
}
PAPER = QUICK | {
    "num_neurons": 500,
    "num_samples": 32,
    "num_chains": 4,  # with fewer the error of their mean is itself uncertain by a factor of two
    "num_segments": 6,
    "length": 0.4,
    "step_size": 0.006,
    "widths": (60, 200),
    "targets": (-0.2, 0.1, 0.3, 0.5, 0.7, 0.9),
    "ratios": ((0.34, 0.33, 0.33), (0.6, 0.3, 0.1)),
    "target_runs": (7, 64, 3, 1.5),  # with fewer, errors are known too badly
    "coarsening_size": 100,
    "max_steps": 1_000_000,
    "other": (500, 1.2),
    "other_steps": {"softplus": 0.018, "relu_squared": 0.008, "sigmoidal": 0.012},
    "squared": (3, 4, 64),
    "deep": {100: (1,), 40: (1, 10, 0.1)},
    "deep_segments": 3,
}


def toy(size: int, y_minus: float = -0.5, **options: Any) -> Task:
    """The chapter's task: targets 1 for an input's own class, y₋ for the others; options of `tasks.toy`."""
    return tasks.toy(size, y_minus=y_minus, **options)


def background_task(size: int, fraction: float = 0.05, seed: int = 0) -> Task:
    """The same with the largest class's targets made smaller: the bulk alone produces them."""
    targets = 1.5 * np.eye(3) - 0.5
    targets[0] *= fraction
    return tasks.toy(size, targets=targets.tolist(), seed=seed)


# --- runs ---------------------------------------------------------------------------------------


class Path(NamedTuple):
    """A run from one start, segment after segment; the last one is what is measured.

    Attributes:
        run: the last segment.
        counts: number of outliers of the feature layer in every sample, shape (chains, samples of all).
        errors: squared error, of the same shape.
        gradients: gradient evaluations up to every sample, shape (samples of all,).
    """

    run: Run
    counts: np.ndarray
    errors: np.ndarray
    gradients: np.ndarray

    @property
    def settled(self) -> np.ndarray:
        """Number of outliers in the last segment, shape (chains, samples)."""
        return self.counts[:, -self.run.samples.info.energy.shape[1] :]


def follow(key: Any, posterior: Posterior, num_segments: int, init: Any = "prior", **options: Any) -> Path:
    """Sample in segments, each from where the last one ended; `options` are those of `sample`."""
    assert posterior.task is not None
    labels = posterior.task.labels
    counts, errors, gradients = [], [], []
    with warnings.catch_warnings():  # far from equilibrium the first trajectories diverge
        warnings.filterwarnings("ignore", "sampling: ")
        for segment in range(num_segments):
            own = jax.random.fold_in(key, segment)
            samples = sample(posterior, own, init=init, num_warmup=0, **options)
            counts.append(coding.outliers(samples.activations(), labels).counts)
            errors.append(samples.info.squared_error)
            gradients.append(samples.info.num_gradients.mean(0))
            init = samples.final
    run = Run(posterior, samples, convergence(samples, posterior))
    series = np.concatenate(counts, 1), np.concatenate(errors, 1)
    return Path(run, *series, np.cumsum(np.concatenate(gradients)))


class Ends(NamedTuple):
    """One posterior sampled from the prior and from the theory's network.

    Attributes:
        theory: for N, P → ∞.
        finite: with its corrections of order 1/N and 1/P.
        prior: from the prior.
        planted: from the theory's network.
        meeting: whether their last segments agree.
    """

    theory: relu.Solution
    finite: relu.FiniteSize
    prior: Path
    planted: Path
    meeting: TwoEnded

    @property
    def task(self) -> Task:
        """What was learned."""
        return self.prior.run.task

    @property
    def counts(self) -> np.ndarray:
        """Number of outliers in the last segments of both ends, shape (chains of both, samples)."""
        return np.concatenate([self.prior.settled, self.planted.settled])

    def measures(self) -> coding.SparseMeasures:
        """Outliers and bulk in the last segments of both ends."""
        pair = [measures(path.run) for path in (self.prior, self.planted)]
        return coding.SparseMeasures(*map(np.concatenate, zip(*pair, strict=True)))


def measures(run: Run) -> coding.SparseMeasures:
    """The strongest neuron of every class, and the bulk, in every sample."""
    return coding.sparse_measures(
        run.readouts, run.preactivations[-1], run.samples.activations(), run.task.labels
    )


def both_ends(
    key: Any,
    task: Task,
    nonlinearity: str,
    temperature: float,
    num_segments: int,
    **options: Any,
) -> Ends:
    """Sample N = P from the prior, `num_segments` long, and from the theory's network, two segments long.

    Where theory has a family of solutions, which the chains wander about slowly, both runs are as long.
    """
    network = Network(1, task.num_inputs, nonlinearity)
    with warnings.catch_warnings():  # families of outliers have no finite-size theory: see `converged`
        warnings.filterwarnings("ignore", "theory.relu.finite_size")
        theory = relu.solve(task, temperature, nonlinearity=network.nonlinearity)
        finite = relu.finite_size(theory, network.width, max_steps=30)
    posterior = Posterior(task, network, temperature)
    prior_key, plant_key, planted_key = jax.random.split(key, 3)
    prior = follow(prior_key, posterior, num_segments, **options)
    start = planted(plant_key, finite, posterior)
    count = num_segments if theory.num_free_directions else 2
    other = follow(planted_key, posterior, count, start, **options)
    meeting = compare_ends(prior.run.samples, other.run.samples, posterior)
    return Ends(theory, finite, prior, other, meeting)


# --- coarsening ---------------------------------------------------------------------------------


EPSILON = 0.06  # √(2 dt)
RAREST = 1280  # most steps between two samples; there are 5 to begin with
PLAIN: dict[str, Any] = {"num_chains": 2, "num_warmup": 0, "moves": ()}


class Coarsening(NamedTuple):
    """Plain Langevin dynamics from the prior, sampled ever more rarely.

    Attributes:
        times: in steps, shape (S,).
        counts: number of outliers, shape (chains, S).
        losses: squared error, shape (chains, S).
        energies: U/P, shape (chains, S).
        coded: whether every class has an outlier, shape (chains, S).
        codes: of every neuron of the first chain, shape (S, N, C).
        activations: their means on the classes, shape (S, N, C).
        zero: first time at which the loss is within twice its later mean, shape (chains,).
        final: when the number of outliers becomes that of the classes for good, or the run's end, (chains,).
        first_coded: first time at which every class has an outlier, shape (chains,).
        reached: whether all chains reached the final scheme.
    """

    times: np.ndarray
    counts: np.ndarray
    losses: np.ndarray
    energies: np.ndarray
    coded: np.ndarray
    codes: np.ndarray
    activations: np.ndarray
    zero: np.ndarray
    final: np.ndarray
    first_coded: np.ndarray
    reached: bool


def coarsen(key: Any, posterior: Posterior, max_steps: int) -> Coarsening:
    """Follow the number of outliers until it has been that of the classes for a fifth of the time."""
    task, rows, times, interval = posterior.task, [], [0], 5
    init: Any = "prior"
    assert task is not None
    while times[-1] < max_steps:
        own, options = jax.random.fold_in(key, times[-1]), PLAIN | {"init": init}
        samples = sample(posterior, own, 32, method=PlainLangevin(EPSILON, interval), **options)
        init, found = samples.final, samples.codes()
        loss, energy = samples.info.squared_error, samples.info.energy / task.num_inputs
        means = coding.class_means(samples.activations()[:1], task.labels)
        rows.append([found.any(-1).sum(-1), loss, energy, found.any(-2).all(-1), found[:1], means])
        times += [times[-1] + interval * k for k in range(1, 33)]
        interval = min(2 * interval, RAREST)
        counts, losses, energies, coded, codes, activations = (
            np.concatenate(part, 1) for part in zip(*rows, strict=True)
        )
        lasting = [statistics.first_lasting(row == task.num_classes) for row in counts]
        at = np.array(times[1:])
        final = np.array([at[-1] if index is None else at[index] for index in lasting])
        if np.all(final < 0.8 * at[-1]):
            break
    late = losses[:, -len(at) // 4 :].mean()
    return Coarsening(
        at,
        counts,
        losses,
        energies,
        coded,
        codes[0],
        activations[0],
        at[(losses < 2 * late).argmax(1)],
        final,
        at[coded.argmax(1)],
        None not in lasting,
    )


def price_of_splitting(run: Coarsening) -> tuple[float, float]:
    """Energy per input of one further outlier after the loss has long been zero: slope and its error."""
    later = run.times > 10 * run.zero.max()
    x, y = run.counts[:, later], run.energies[:, later]
    slopes = [np.polyfit(one, other, 1)[0] for one, other in zip(x, y, strict=True) if np.ptp(one)]
    return float(np.mean(slopes)), float(np.std(slopes) / max(1, len(slopes) - 1) ** 0.5)


# --- depth --------------------------------------------------------------------------------------


def layers_of(activations: Any, labels: np.ndarray, share: float | None = None) -> list[coding.Outliers]:
    """Outliers of every layer."""
    return [coding.outliers(each, labels, share) for each in activations]


def last_activations(run: Run) -> list[np.ndarray]:
    """Every layer's activations in the last sample of every chain, shape (chains, N, P) each."""
    return [run.samples.activations(layer)[:, -1] for layer in range(run.posterior.network.depth)]


STATEMENTS = (
    "layer 1: exactly two outliers, one for each of the small classes",
    "layer 2: outliers that share a class",
    "feature layer: exactly three outliers, one for each class",
    "feature layer: three codes, one for each class",
    "kernels: what tells classes apart grows from layer to layer",
)


def statements(activations: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Which of the STATEMENTS hold in each network, shape (networks, 5)."""
    first, second, feature = layers_of(activations, labels)
    classes = np.eye(labels.max() + 1, dtype=bool)
    grown = np.diff([contrast(phi, labels) for phi in activations], axis=0)
    rows = []
    for k in range(len(first.counts)):
        codes = {name: np.unique(o.codes[k][o.mask[k]], axis=0) for name, o in (("1", first), ("L", feature))}
        small = np.array_equal(codes["1"], classes[:0:-1]) and first.counts[k] == 2
        three = np.array_equal(codes["L"], classes[::-1])
        shared = second.codes[k].sum(0).max() > 1
        rows.append([small, shared, three and feature.counts[k] == 3, three, np.all(grown[:, k] > 0)])
    return np.array(rows)


def contrast(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Kernel within classes less between them, off the diagonal, as a fraction of the diagonal."""
    kernel = coding.kernels(activations)
    same = labels[:, None] == labels
    off = same & ~np.eye(len(labels), dtype=bool)
    diagonal = np.trace(kernel, axis1=-2, axis2=-1) / len(labels)
    return (kernel[..., off].mean(-1) - kernel[..., ~same].mean(-1)) / diagonal


def merged(run: Run) -> tuple[Any, np.ndarray]:
    """Last weights, the feature layer's outliers of one code rotated into one; the number there is then."""
    weights: Any = run.samples.final
    readout, incoming = np.array(weights.readout), np.array(weights.hidden[-1])
    for chain, codes in enumerate(run.samples.codes()[:, -1]):
        for code in np.unique(codes[codes.any(1)], axis=0):
            group = np.flatnonzero((codes == code).all(1))
            turn = np.linalg.svd(readout[chain, group])[0].T  # orthogonal, so the prior does not see it
            turn[0] *= np.sign(turn[0].sum())
            readout[chain, group] = turn @ readout[chain, group]
            incoming[chain, group] = turn @ incoming[chain, group]
    weights = weights._replace(readout=readout, hidden=(*weights.hidden[:-1], incoming))
    z = np.asarray(jax.vmap(run.posterior.preactivations)(weights)[-1])
    return weights, coding.outliers(np.maximum(z, 0), run.task.labels).counts


def deep_runs(
    key: Any, size: int, temperatures: Any, num_segments: int, seed: int, **options: Any
) -> dict[float, Run]:
    """Last segments of three-layer networks by temperature, each going on from the one before.

    The first T is reached from the prior, at first in small steps; the others have half as many segments.
    """
    init: Any = "prior"
    runs = {}
    for k, T in enumerate(temperatures):
        posterior = Posterior(toy(size, seed=seed), Network(3, size, "relu"), T)
        step = float(0.07 * np.sqrt(T))  # no NumPy number: those compile the sampler anew
        own = jax.random.fold_in(key, k)
        if k == 0:
            init = follow(own, posterior, 1, method=HMC(1.0, 225, step / 3), **options).run.samples.final
        count = num_segments if k == 0 else -(-num_segments // 2)
        path = follow(
            jax.random.fold_in(own, 1), posterior, count, init, method=HMC(1.0, 225, step), **options
        )
        runs[T], init = path.run, path.run.samples.final
    return runs
