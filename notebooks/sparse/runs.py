"""What the chapter on sparse coding runs and measures: ReLU networks, their outliers and their bulk."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.coding import SparseMeasures
from coding_schemes.networks import Network
from coding_schemes.planting import merged, planted
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import HMC, PlainLangevin, compare_ends, convergence, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import outliers, relu
from companion.findings import Estimate, spread
from companion.workbench import Run, Starts, estimate
from scipy import stats

CLASSES = ("class 0", "class 1", "class 2")
OUTPUTS = ("output 0", "output 1", "output 2")
EXTREMES = ("fewest", "most")
MOST_STEPS = 225  # leapfrog steps of a trajectory
SMALL = 100  # N = P where many tasks are sampled


def toy(size: int, y_minus: float = -0.5, **options: Any) -> Task:
    """The chapter's task: targets 1 for an input's own class, y₋ for the others; options of `tasks.toy`."""
    return tasks.toy(size, y_minus=y_minus, **options)


def background_task(size: int, fraction: float = 0.05, seed: int = 0) -> Task:
    """The same with the largest class's targets made smaller: the bulk alone produces them."""
    targets = 1.5 * np.eye(3) - 0.5
    targets[0] *= fraction
    return tasks.toy(size, targets=targets.tolist(), seed=seed)


def extremes(counts: np.ndarray) -> np.ndarray:
    """Fewest and most."""
    return np.array([counts.min(), counts.max()])


def exponent(sizes: Sequence[int], found: Estimate) -> Estimate:
    """Exponents between the smallest and the largest size, of quantities (sizes, …) with their errors."""
    order = np.argsort(sizes)[[0, -1]]
    value, error = np.asarray(found.value)[order], np.asarray(found.error)[order] / found.value[order]
    reach = np.diff(np.log(np.asarray(sizes)[order]))[0]
    return Estimate(np.diff(np.log(value), axis=0)[0] / reach, np.hypot(*error) / reach)


# ---- segments, and two starts -------------------------------------------------------------------


class Path(NamedTuple):
    """A run from one start, segment after segment; the last one is what is measured.

    Attributes:
        run: the last segment.
        counts: number of outliers in its feature layer, shape (chains, samples).
    """

    run: Run
    counts: np.ndarray

    @property
    def measures(self) -> SparseMeasures:
        """The strongest neuron of every class, and the bulk, in every sample."""
        run, samples = self.run, self.run.samples
        return coding.sparse_measures(
            run.readouts, run.preactivations[-1], samples.activations(), run.task.labels
        )


def follow(key: Any, posterior: Posterior, num_segments: int, init: Any = "prior", **options: Any) -> Path:
    """Sample in segments, each from where the last one ended; `options` are those of `sample`."""
    with warnings.catch_warnings():  # far from equilibrium the first trajectories diverge
        warnings.filterwarnings("ignore", "sampling: ")
        for segment in range(num_segments):
            own = jax.random.fold_in(key, segment)
            samples = sample(posterior, own, init=init, num_warmup=0, **options)
            init = samples.final
    run = Run(posterior, samples, convergence(samples, posterior))
    return Path(run, coding.outliers(samples.activations(), run.task.labels).counts)


@dataclass(frozen=True)
class Networks(Starts):
    """One posterior, sampled from the prior and from the theory's network.

    Attributes:
        finite: the theory with its corrections of order 1/N and 1/P.
        paths: from the prior, and from the theory's network.
    """

    finite: relu.FiniteSize
    paths: tuple[Path, Path]

    @property
    def counts(self) -> np.ndarray:
        """Number of outliers in the samples of both starts, shape (chains of both, samples)."""
        return np.concatenate([path.counts for path in self.paths])

    @cached_property
    def measures(self) -> SparseMeasures:
        """Outliers and bulk in the samples of both starts."""
        return SparseMeasures(*map(np.concatenate, zip(*(path.measures for path in self.paths), strict=True)))

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        sizes = {"N": self.width, "P": self.task.num_inputs, "T": float(self.posterior.temperature)}
        return sizes | {"networks": len(self.counts)}

    def each_start(self, measure: Callable[[SparseMeasures], Estimate]) -> tuple[Estimate, Estimate]:
        """What is measured from either start."""
        first, second = (measure(path.measures) for path in self.paths)
        return first, second


def both_starts(
    key: Any, task: Task, nonlinearity: str, temperature: float, *, num_segments: int, **options: Any
) -> Networks:
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
    return Networks(posterior, theory, meeting, finite, (prior, other))


# ---- what outliers and bulk do ------------------------------------------------------------------


def carried(networks: Networks) -> np.ndarray:
    """Share of each class's own output that outliers carry: (chains of both, samples, C)."""
    return np.concatenate([_carried(path.run) for path in networks.paths])


def _carried(run: Run) -> np.ndarray:
    activations, labels = run.samples.activations(), run.task.labels
    each = run.readouts * coding.class_means(activations, labels)  # output c on class c, (…, N, C)
    mask = coding.outliers(activations, labels).mask[..., None]
    return (each * mask).sum(-2) / each.sum(-2)


def carried_in_theory(finite: relu.FiniteSize, temperature: float) -> np.ndarray:
    """The same in theory: Σ_i ā_i μ_ic of the outliers over the output y_c − T t_c, shape (C,)."""
    theirs = finite.activations[: finite.num_outliers].T @ finite.outlier_readouts
    return np.diagonal(theirs) / np.diagonal(finite.task.class_targets - temperature * finite.dual_field)


def variation(networks: Networks) -> Estimate:
    """Coefficient of variation of each class's outlier within its class."""
    return Estimate(*outliers.measured_variation(networks.measures))


def sizes_of(measures: SparseMeasures) -> Estimate:
    """|a| and z of class 0's outlier, and the bulk's activation on class 0."""
    series = [
        np.linalg.norm(measures.readouts[..., 0, :], axis=-1),
        measures.preactivations[..., 0, 0],
        measures.bulk_activations[..., 0],
    ]
    return estimate(np.stack(series, axis=-1))


def sizes_in_theory(finite: relu.FiniteSize) -> np.ndarray:
    """The same in theory."""
    strength = outliers.strengths(finite, finite.num_neurons)[0]
    return np.array([np.linalg.norm(strength[:-1]), strength[-1], finite.bulk_activations[0]])


# ---- densities of the bulk ----------------------------------------------------------------------


class Likelihood(NamedTuple):
    """How much likelier theory's density makes the bulk's preactivations than Gaussians do, per thousand.

    Attributes:
        sampled: 1000 ⟨log p(z)/q(z)⟩ over neurons and inputs, q the Gaussian of p's mean and variance.
        theory: its value if p is right, 1000 times the divergence of q from p.
        gaussian: its value if q is right, −1000 times the divergence of p from q.
    """

    sampled: Estimate
    theory: np.float64
    gaussian: np.float64


def likelihood(networks: Networks) -> Likelihood:
    """Theory's density of the bulk's preactivations against Gaussians, averaged over the classes' inputs."""
    grid, labels = np.linspace(-7, 7, 2801), networks.task.labels
    weights = np.array(networks.task.class_counts) / len(labels)
    ratios, ends = [], []
    for c in range(len(weights)):
        density = relu.bulk_density(networks.finite, grid, c)
        mean = np.trapezoid(density * grid, grid)
        variance = np.trapezoid(density * (grid - mean) ** 2, grid)
        gaussian = stats.norm(mean, np.sqrt(variance)).pdf(grid)
        ratio = 1000 * np.log(density / gaussian)
        ratios.append(ratio)
        ends.append([np.trapezoid(each * ratio, grid) for each in (density, gaussian)])
    series = [_mean_ratio(path.run, grid, ratios) for path in networks.paths]
    theory, gaussian = weights @ np.array(ends)
    return Likelihood(estimate(np.concatenate(series)), theory, gaussian)


def _mean_ratio(run: Run, grid: np.ndarray, ratios: list[np.ndarray]) -> np.ndarray:
    """Mean of a function of each class's preactivations over the bulk, shape (chains, samples)."""
    z, labels = run.preactivations[0], run.task.labels
    bulk = ~run.samples.codes().any(-1)
    values = np.empty(z.shape)
    for c, ratio in enumerate(ratios):
        values[..., labels == c] = np.interp(z[..., labels == c], grid, ratio)
    return (values.mean(-1) * bulk).sum(-1) / bulk.sum(-1)


def bulk_spread(networks: Networks) -> Estimate:
    """Standard deviation of each output's readouts over the neurons of the bulk."""
    return estimate(np.concatenate([_bulk_spread(path.run) for path in networks.paths]))


def _bulk_spread(run: Run) -> np.ndarray:
    bulk = ~np.any(run.samples.codes(), axis=-1, keepdims=True)
    count = bulk.sum(-2)
    mean = (run.readouts * bulk).sum(-2) / count
    deviations = (run.readouts - mean[..., None, :]) * bulk
    return np.sqrt(np.square(deviations).sum(-2) / (count - 1))


def populations(networks: Networks) -> list[dict[str, Any]]:
    """Figures of bulk and outliers: readouts of output 0, and preactivations on class 0."""
    path, finite = networks.paths[0], networks.finite
    run, found = path.run, path.measures
    in_bulk = ~run.samples.codes().any(-1)
    width = np.sqrt(finite.bulk_readout_covariance[0, 0])
    near, wide = finite.bulk_readout[0] + width * np.linspace(-4.5, 4.5, 200), np.linspace(-4, 4, 200)
    by_class, root = finite.outlier_preactivations.argmax(0), np.sqrt(finite.num_neurons)
    some = slice(None, None, max(1, in_bulk.sum() // 20_000))
    readouts = {
        "bulk": run.readouts[..., 0][in_bulk][some],
        "grid": near,
        "density": stats.norm.pdf(near, finite.bulk_readout[0], width),
        "outliers": found.readouts[..., 0].reshape(-1, len(by_class)).T,
        "levels": root * finite.outlier_readouts[by_class, 0],
        "xlabel": "readout weight $a$",
    }
    preactivations = {
        "bulk": run.preactivations[0][..., 0][in_bulk][some],
        "grid": wide,
        "density": relu.bulk_density(finite, wide, 0),
        "outliers": found.preactivations[..., 0].reshape(-1, len(by_class)).T,
        "levels": root * finite.outlier_preactivations[by_class, 0],
        "xlabel": "preactivation $z$ on class 0",
    }
    return [readouts, preactivations]


# ---- coarsening -----------------------------------------------------------------------------------


EPSILON = 0.06  # √(2 dt)
RAREST = 1280  # most steps between two samples; there are 5 to begin with


class Coarsening(NamedTuple):
    """Plain Langevin dynamics from the prior, sampled ever more rarely.

    Attributes:
        times: in steps, shape (S,).
        counts: number of outliers, shape (chains, S).
        losses: squared error, shape (chains, S).
        energies: U/P, shape (chains, S).
        codes: of every neuron of the first chain, shape (S, N, C).
        activations: their means on the classes, shape (S, N, C).
        zero: first time at which the loss is within twice its later mean, shape (chains,).
        final: when the number of outliers becomes that of the classes for good, or the run's end, (chains,).
        first_coded: first time at which every class has an outlier, shape (chains,).
        reached: whether each chain reached the final scheme, shape (chains,).
    """

    times: np.ndarray
    counts: np.ndarray
    losses: np.ndarray
    energies: np.ndarray
    codes: np.ndarray
    activations: np.ndarray
    zero: np.ndarray
    final: np.ndarray
    first_coded: np.ndarray
    reached: np.ndarray


def coarsen(
    key: Any, posterior: Posterior, *, num_chains: int, max_steps: int, mobility: str = "prior variance"
) -> Coarsening:
    """Follow the number of outliers until it has been that of the classes for a fifth of the time.

    With the mobility "unit", paper A's, steps are as much shorter as readouts are faster.
    """
    task, rows, times, interval = posterior.task, [], [0], 5
    step = EPSILON * (float(posterior.readout_std) if mobility == "unit" else 1)
    init: Any = "prior"
    assert task is not None
    while times[-1] < max_steps:
        own, method = jax.random.fold_in(key, times[-1]), PlainLangevin(step, interval, mobility=mobility)
        samples = sample(
            posterior, own, 32, init=init, method=method, num_chains=num_chains, num_warmup=0, moves=()
        )
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
        times=at,
        counts=counts,
        losses=losses,
        energies=energies,
        codes=codes[0],
        activations=activations[0],
        zero=at[(losses < 2 * late).argmax(1)],
        final=final,
        first_coded=at[coded.argmax(1)],
        reached=np.array([index is not None for index in lasting]),
    )


def split(posterior: Posterior, weights: Weights, class_index: int) -> Weights:
    """Weights in which a class's outlier is two equal ones; the second was the least active neuron.

    Both have the readouts and the preactivations on the class over √2. On other inputs the second is silent.
    """
    assert posterior.task is not None
    z, a = (np.array(each) for each in (posterior.preactivations(weights)[0], posterior.readouts(weights)))
    on, activity = posterior.task.labels == class_index, np.maximum(z, 0).mean(1)
    one, other = z[:, on].mean(1).argmax(), activity.argmin()
    z[one, on] /= 2**0.5
    a[one] /= 2**0.5
    z[other], a[other] = np.where(on, z[one], -np.abs(z[other])), a[one]
    return posterior.planted(jnp.asarray(z), jnp.asarray(a))


def price_of_a_copy(
    key: Any, finite: relu.FiniteSize, posterior: Posterior, **options: Any
) -> tuple[Estimate, np.ndarray]:
    """Energy of one further outlier, in nats per input: U/P with an outlier split in two, less U/P without.

    Both start from theory's network. Hamiltonian Monte Carlo alone hardly ever turns two outliers into one.

    Returns:
        The energy for each class's outlier, shape (C,), and the number of outliers, (C, chains, samples).
    """
    plant_key, *keys = jax.random.split(key, 2 + finite.task.num_classes)
    whole = planted(plant_key, finite, posterior)
    starts = [whole, *(split(posterior, whole, c) for c in range(finite.task.num_classes))]
    drawn = [
        sample(posterior, own, init=start, moves=(), **options)
        for own, start in zip(keys, starts, strict=True)
    ]
    energies = [spread(each.info.energy.mean(1) / finite.task.num_inputs) for each in drawn]
    value, error = np.array(energies).T
    counts = np.stack([each.codes().any(-1).sum(-1) for each in drawn[1:]])
    return Estimate(value[1:] - value[0], np.hypot(error[1:], error[0])), counts


def film(run: Coarsening, num_frames: int = 60) -> dict[str, Any]:
    """For `films.publish_animation`: every neuron of the first chain, the number of outliers, the loss."""
    spread = np.searchsorted(run.times, np.geomspace(run.times[0], run.times[-1], 4 * num_frames))
    there = np.unique(np.minimum(spread, len(run.times) - 1))  # early samples are too few for every place
    at = there[np.linspace(0, len(there) - 1, num_frames).astype(int)]
    return {
        "activations": run.activations[at].astype(np.float32),
        "codes": run.codes[at],
        "times": run.times,
        "counts": run.counts,
        "losses": run.losses,
        "now": run.times[at],
        "num_frames": len(at),
        "still": len(at) - 1,
    }


# ---- other nonlinearities -------------------------------------------------------------------------


def most_active(run: Run, count: int, over_root_mean_square: bool = False) -> np.ndarray:
    """Activations of the most active neurons in the last sample of the first network, shape (count, P)."""
    activations = run.samples.activations()[0, -1]
    shown = activations[coding.sort_by_activity(activations)[:count]]
    return shown / np.sqrt(np.square(shown).mean()) if over_root_mean_square else shown


# ---- three hidden layers --------------------------------------------------------------------------


@dataclass(frozen=True)
class Deep:
    """Three-layer networks from two starts: cooled from the prior, and from one outlier per code.

    Attributes:
        cooled: networks from the prior.
        merged: others like them, their feature layer's outliers of one code rotated into one, and run on.
        at_start: participation of the feature layer's classes where the second start began, (networks, C).
    """

    cooled: Path
    merged: Path
    at_start: np.ndarray

    @property
    def halves(self) -> tuple[Run, Run]:
        """Both runs."""
        return self.cooled.run, self.merged.run

    @property
    def meeting(self) -> Any:
        """Both starts, held against each other."""
        first, second = self.halves
        return compare_ends(first.samples, second.samples, first.posterior)

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        run, chains = self.cooled.run, sum(len(path.counts) for path in (self.cooled, self.merged))
        network, task = run.posterior.network, run.task
        sizes = {"L": network.depth, "N": network.width, "P": task.num_inputs}
        return sizes | {"T": float(run.posterior.temperature), "networks": chains}

    def carriers(self, layer: int, count: Any = coding.class_participation) -> tuple[np.ndarray, np.ndarray]:
        """Neurons that carry each class by a count, mean over samples, (networks, C) from either start."""
        first, second = (
            count(run.samples.activations(layer), run.task.labels).mean(1) for run in self.halves
        )
        return first, second

    def last(self) -> list[np.ndarray]:
        """Activations of every layer in the last sample of each network of both, (networks, N, P)."""
        layers = range(self.cooled.run.posterior.network.depth)
        return [
            np.concatenate([run.samples.activations(layer)[:, -1] for run in self.halves]) for layer in layers
        ]


def num_strong(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Neurons (…, C) whose mean activation on a class is at least half of the strongest one's."""
    means = coding.class_means(activations, labels)
    return (means >= 0.5 * means.max(-2, keepdims=True)).sum(-2)


def deep_networks(
    key: Any,
    *,
    num_neurons: int,
    num_inputs: int,
    num_chains: int,
    num_segments: int,
    num_samples: int,
    temperature: float,
    seed: int,
) -> Deep:
    """Sample ReLU networks of three hidden layers, y₋ = −½, `num_chains` from either start.

    All are cooled from the prior, at first in small steps. In the second half of them the outliers of one
    code are then merged; both halves run on for as many segments again.
    """
    posterior = Posterior(toy(num_inputs, seed=seed), Network(3, num_neurons, "relu"), temperature)
    step = float(0.07 * np.sqrt(temperature))  # no NumPy number: those compile the sampler anew
    options: dict[str, Any] = {"num_samples": num_samples, "thinning": 2, "moves": ("split_merge",)}
    first, second, third, fourth = (jax.random.fold_in(key, k) for k in range(4))
    fine, coarse = (HMC(1.0, MOST_STEPS, size) for size in (step / 3, step))
    start = follow(first, posterior, 1, method=fine, num_chains=2 * num_chains, **options)
    begun = follow(
        second,
        posterior,
        num_segments,
        start.run.samples.final,
        method=coarse,
        num_chains=2 * num_chains,
        **options,
    )
    weights = begun.run.samples.final
    kept, others = (jax.tree.map(lambda w, h=half: w[h], weights) for half in _halves(num_chains))
    codes = begun.run.samples.codes()[num_chains:, -1]
    united = merged(others, codes)
    phi = np.maximum(np.asarray(jax.vmap(posterior.preactivations)(united)[-1]), 0)
    options |= {"method": coarse, "num_chains": num_chains}
    return Deep(
        follow(third, posterior, num_segments, kept, **options),
        follow(fourth, posterior, num_segments, united, **options),
        coding.class_participation(phi, begun.run.task.labels),
    )


def _halves(count: int) -> tuple[slice, slice]:
    return slice(None, count), slice(count, None)


STATEMENTS = (
    "layer 1: two outliers, for the small classes",
    "layer 2: outliers that share a class",
    "layer 3: one code for each class",
    "kernels: blocks grow with depth",
)


def statements(layers: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Which of the STATEMENTS hold in each network, (networks, 4), by the activations of three layers."""
    first, second, feature = (coding.outliers(phi, labels) for phi in layers)
    classes = np.eye(labels.max() + 1, dtype=bool)
    grown = np.diff([contrast(phi, labels) for phi in layers], axis=0)
    rows = []
    for k in range(len(first.counts)):
        lower, upper = (np.unique(o.codes[k][o.mask[k]], axis=0) for o in (first, feature))
        two = np.array_equal(lower, classes[:0:-1]) and first.counts[k] == 2
        shared = second.codes[k].sum(0).max() > 1
        rows.append([two, shared, np.array_equal(upper, classes[::-1]), np.all(grown[:, k] > 0)])
    return np.array(rows)


def contrast(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Kernel within classes less between them, off the diagonal, as a fraction of the diagonal."""
    kernel = coding.kernels(activations)
    same = labels[:, None] == labels
    off = same & ~np.eye(len(labels), dtype=bool)
    diagonal = np.trace(kernel, axis1=-2, axis2=-1) / len(labels)
    return (kernel[..., off].mean(-1) - kernel[..., ~same].mean(-1)) / diagonal
