"""What the chapter on condensation runs and measures: ReLU networks over N, P and ρ, from two starts."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from coding_schemes.planting import merged
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import clustered, condensation, deep_condensation, finite_width
from companion.findings import Estimate, spread, stacked
from companion.workbench import Equilibrium
from scipy.optimize import brentq

T = 0.01  # rescaled as in the primer
Y_MINUS = -0.5


RATIOS = (0.5, 0.25, 0.25)


@cache
def task(num_inputs: int, overlap: float, shared: float = 0.0, ratios: tuple[float, ...] = RATIOS) -> Task:
    """Three classes with these ratios; inputs of a class overlap by ρ, those of two classes by ρ_b."""
    if shared:
        return tasks.tree(num_inputs, ratios, (0, 0, 0), (overlap, shared), y_minus=Y_MINUS)
    return tasks.clustered(num_inputs, ratios, overlap, y_minus=Y_MINUS)


# ---- theory ---------------------------------------------------------------------------------------


@cache
def condensate(
    num_inputs: int, overlap: float, nonlinearity: str = "relu", shared: float = 0.0
) -> condensation.Solution:
    """The bulk, and a branch of coding neurons for each class."""
    return condensation.solve(task(num_inputs, overlap, shared), T, nonlinearity=nonlinearity)


@cache
def population(num_inputs: int, overlap: float) -> clustered.Solution:
    """The exact population at N → ∞, where it can be resolved."""
    return clustered.solve(task(num_inputs, overlap), T, nonlinearity="relu")


@cache
def crossover(num_inputs: int, overlap: float) -> float:
    """N*, mean over classes of N/PR at N → ∞; of a flat branch where w(r) is not known that far."""
    found = condensate(num_inputs, overlap)
    each = 1 / found.class_participation
    return float(np.mean(np.where(np.isfinite(each), each, found.crossover_width)))


def per_class(solution: condensation.Solution, num_neurons: int) -> float:
    """Participation at finite N, harmonic mean over classes."""
    return float(1 / np.mean(1 / solution.participation(num_neurons)))


@cache
def predicted(
    num_inputs: int, overlap: float, num_neurons: int, nonlinearity: str = "relu", shared: float = 0.0
) -> float:
    """The same at these sizes."""
    return per_class(condensate(num_inputs, overlap, nonlinearity, shared), num_neurons)


@cache
def largest(num_inputs: int, overlap: float, num_neurons: int, shared: float) -> float:
    """Share of the largest neuron, mean over classes, as in `Networks.largest`."""
    return float(condensate(num_inputs, overlap, "relu", shared).largest_share(num_neurons).mean())


@cache
def largest_limit(num_inputs: int, overlap: float, shared: float) -> float:
    """The same as N → ∞."""
    return float(condensate(num_inputs, overlap, "relu", shared).condensate_share.mean())


def by_mean_overlaps(given: Task, shared: bool = True) -> condensation.Solution:
    """Theory of as many inputs of every class that overlap evenly, between classes, too, or not."""
    ratios = (given.class_counts / given.num_inputs).tolist()
    own = within(given.input_kernel, given.labels)
    if shared:
        groups, overlaps = [0] * len(ratios), (own, between(given.input_kernel, given.labels))
        like = tasks.tree(given.num_inputs, ratios, groups, overlaps, y_minus=Y_MINUS)
    else:
        like = tasks.clustered(given.num_inputs, ratios, own, y_minus=Y_MINUS)
    return condensation.solve(like, T)


@cache
def two_layers(num_inputs: int, overlap: float = 0.0) -> deep_condensation.Solution:
    """Two hidden layers, from theory alone."""
    return deep_condensation.solve(task(num_inputs, overlap), T)


@cache
def critical(num_inputs: int, overlap: float, ratios: tuple[float, ...] = RATIOS) -> float:
    """ρ_b beyond which one neuron of the first class takes a share at any width, to 2 %."""

    @cache  # a bracket's ends are asked for twice
    def share(log_shared: float) -> float:
        found = condensation.solve(task(num_inputs, overlap, float(np.exp(log_shared)), ratios), T)
        # bounded: far below, a population could hold a thousandfold
        return float(np.arctan(found.condensed_share[0]))

    high = np.log(0.06 * overlap)
    while share(high) < 0 and high < np.log(0.4 * overlap):
        high += 0.7
    low = high - 0.7
    while share(low) > 0:
        low -= 0.7
    return float(np.exp(brentq(share, low, high, xtol=0.02)))


@cache
def bulk(num_inputs: int, num_neurons: int) -> np.ndarray:
    """⟨m²⟩ of the bulk at ρ = 0, mean over classes, with one coding neuron for each: at this N, at N → ∞."""
    free = held = condensate(num_inputs, 0.0)
    alone = np.ones(free.num_outliers)
    for _ in range(4):  # until M is that of its own bulk
        held = free.at_width(num_neurons, alone, held.noise(num_neurons, alone))
    return np.array([float(np.mean(each.bulk_activity)) for each in (held, free)])


def within(kernel: np.ndarray, labels: np.ndarray) -> float:
    """Mean overlap of different inputs of a class in a kernel (P, P), over its diagonal."""
    return _overlap(kernel, (labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool))


def between(kernel: np.ndarray, labels: np.ndarray) -> float:
    """The same of inputs of different classes."""
    return _overlap(kernel, labels[:, None] != labels)


def _overlap(kernel: np.ndarray, pairs: np.ndarray) -> float:
    return float(kernel[pairs].mean() / np.diag(kernel).mean())


def overlaps(kernel: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean overlap within every class, over its diagonal, then between classes, of all; (C + 1,)."""
    classes = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    own = [within(kernel[np.ix_(members, members)], labels[members]) for members in classes]
    return np.array([*own, between(kernel, labels)])


def _by_rank(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    squares = np.square(coding.class_means(activations, labels)) / activations.shape[-2]
    return -np.sort(-squares, axis=-2)


# ---- networks from two starts -----------------------------------------------------------------------


@dataclass(frozen=True)
class Networks:
    """Networks of one size, cooled from the prior, and restarted with the neurons of a code merged into one.

    Attributes:
        size: N, P, ρ, L.
        cooled: ⟨1/PR⟩ of every chain and class, from the prior, shape (chains, C).
        restarted: the same from the second start.
        at_start: 1/PR where that began.
        means: class means of the activations, (chains of both, S, N, C).
        readouts: (chains of both, S, N, m).
        below: last activations of the layer below, (chains of both, N, P); of no chains at L = 1.
    """

    size: dict[str, Any]
    cooled: np.ndarray
    restarted: np.ndarray
    at_start: np.ndarray
    means: np.ndarray
    readouts: np.ndarray
    below: np.ndarray

    @property
    def starts(self) -> tuple[Estimate, Estimate]:
        """Participation from either start, harmonic over classes."""
        return _participation(self.cooled), _participation(self.restarted)

    @property
    def participation(self) -> Estimate:
        """Of both."""
        return _participation(np.concatenate([self.cooled, self.restarted]))

    @property
    def kernel(self) -> Estimate:
        """Mean kernel within class 0, the diagonal included."""
        return spread(np.square(self.means[..., 0]).mean((1, 2)))

    @property
    def largest(self) -> Estimate:
        """Share of a class's Σm² that its largest neuron has, mean over classes."""
        squares = np.square(self.means)
        return spread((squares.max(2) / squares.sum(2)).mean((1, 2)))

    def bulk(self, theory: condensation.Solution) -> Estimate:
        """⟨m²⟩, mean over classes, of the neurons whose readouts lie where theory has the bulk."""
        places = theory.ensemble.points
        center, radius = places.mean(0), condensation.BULK_RADIUS * np.sqrt(theory.problem.readout_variance)
        inside = np.square(self.readouts - center).sum(-1) <= radius**2
        return spread(np.square(self.means).mean(-1).mean((1, 2), where=inside))

    @property
    def kernel_below(self) -> np.ndarray:
        """Kernel of the layer below, mean over chains, shape (P, P)."""
        return coding.kernels(self.below).mean(0).astype(float)

    def overlaps_below(self, labels: np.ndarray) -> Estimate:
        """Of that kernel: within every class over its diagonal, then between classes, (C + 1,)."""
        return spread(np.array([overlaps(each.astype(float), labels) for each in coding.kernels(self.below)]))

    def by_rank_below(self, labels: np.ndarray) -> np.ndarray:
        """m²/N of the class means m of the layer below, the largest neuron first, (chains, N, C)."""
        return _by_rank(self.below, labels)

    @property
    def equilibrium(self) -> Equilibrium:
        """Whether the two starts agree to three standard errors, or 5 %."""
        first, second = self.starts
        apart = abs(first.value - second.value)
        met = apart < max(3 * np.hypot(first.error, second.error), 0.05 * self.participation.value)
        words = "meet" if met else "differ"
        verdict = f"the two starts {words}: participation {first.value:.2f} and {second.value:.2f}"
        return Equilibrium.of(met, 2 * len(self.cooled), verdict, apart / self.participation.value)


def _inverse(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean 1/PR over the samples of every chain, which theory gives: (chains, C) of activations (…, N, P)."""
    return (1 / coding.class_participation(activations, labels)).mean(1)


def _participation(inverse: np.ndarray) -> Estimate:
    """1/⟨1/PR⟩ over chains and classes, its error from the spread between chains."""
    each = inverse.mean(1)
    return Estimate(1 / each.mean(), each.std(ddof=1) / np.sqrt(len(each)) / each.mean() ** 2)


def networks(
    key: Any,
    given: Task,
    num_neurons: int,
    *,
    nonlinearity: str = "relu",
    depth: int = 1,
    readout_variance: float | None = None,
    num_chains: int,
    num_warmup: int,
    num_samples: int,
    thinning: int = 1,
    **options: Any,
) -> Networks:
    """Sample networks from the prior; then merge the neurons of every code into one, and sample again."""
    method = HMC(trajectory_length=0.8)  # longer ones decorrelate participation no further
    posterior = Posterior(given, Network(depth, num_neurons, nonlinearity), T, readout_variance)
    if depth == 1:  # all overlaps share one compiled program
        posterior = posterior.with_root()
    options |= {"method": method, "num_chains": num_chains, "num_warmup": num_warmup, "thinning": thinning}
    with warnings.catch_warnings():  # far from equilibrium the first trajectories diverge
        warnings.filterwarnings("ignore", "sampling: ")
        cooled = sample(posterior, jax.random.fold_in(key, 0), num_samples, **options)
        start = merged(cooled.final, cooled.codes()[:, -1])
        restarted = sample(posterior, jax.random.fold_in(key, 1), num_samples, init=start, **options)
    labels, halves = given.labels, (cooled, restarted)
    activations = [half.activations() for half in halves]
    inverse = [_inverse(phi, labels) for phi in activations]
    feature = np.asarray(posterior.network.phi(jax.vmap(posterior.preactivations)(start)[-1]))
    below = np.zeros((0, num_neurons, given.num_inputs))
    if depth > 1:
        below = np.concatenate([half.activations(depth - 2)[:, -1] for half in halves])
    return Networks(
        size={"L": depth, "N": num_neurons, "P": given.num_inputs},
        cooled=inverse[0],
        restarted=inverse[1],
        at_start=1 / coding.class_participation(feature, labels),
        means=np.concatenate([coding.class_means(phi, labels) for phi in activations]).astype(float),
        readouts=np.concatenate([half.readouts for half in halves]),
        below=below,
    )


def untrained_by_rank(key: Any, given: Task, num_neurons: int, num_networks: int) -> np.ndarray:
    """`Networks.by_rank_below` of a first layer of the prior, (networks, N, C)."""
    z = np.asarray(jax.random.normal(key, (num_networks, num_neurons, given.num_inputs)))
    return _by_rank(np.maximum(z, 0), given.labels)


def two_largest(ranked: np.ndarray) -> Estimate:
    """Sum of the two largest squares of `by_rank_below`: of the first class, and mean of the others, (2,)."""
    pairs = ranked[:, :2].sum(axis=1)
    return spread(np.stack([pairs[:, 0], pairs[:, 1:].mean(axis=1)], axis=1))


def averaged(given: Task, kernel: np.ndarray, together: bool = False) -> Task:
    """The classes and targets of a task, with inputs that have the means of a kernel (P, P).

    Over the pairs of inputs of every two classes, or of all different classes together, and of its diagonal.
    """
    labels, member = given.labels, np.eye(given.num_classes)[given.labels]
    counts, diagonal = member.sum(0), np.diag(kernel) @ member / member.sum(0)
    sums = member.T @ kernel @ member - np.diag(counts * diagonal)
    pairs = np.outer(counts, counts) - np.diag(counts)
    means = sums / np.maximum(pairs, 1)
    if together:
        apart = ~np.eye(len(counts), dtype=bool)
        means[apart] = sums[apart].sum() / pairs[apart].sum()
    found = means[np.ix_(labels, labels)]
    np.fill_diagonal(found, diagonal[labels])
    values, vectors = np.linalg.eigh(found)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    return replace(given, inputs=np.sqrt(given.num_inputs) * root)


def on_means_below(
    key: Any, given: Task, deep: Networks, readout_variance: float, **options: Any
) -> Networks:
    """One hidden layer as wide as these, on inputs with the class means of their layer below."""
    like = averaged(given, deep.kernel_below)
    return networks(key, like, deep.size["N"], readout_variance=readout_variance, **options)


def against_one_layer(deep: Sequence[Networks], flat: Sequence[Networks]) -> dict[str, Any]:
    """For a `Finding`: log participation of two layers over one, which is 0 if class means suffice."""
    return {
        "sampled": stacked([log_ratio(*pair) for pair in zip(flat, deep, strict=True)]),
        "theory": np.zeros(len(deep)),
        "sampler": [each.equilibrium for each in (*deep, *flat)],
    }


def by_theory(given: Task, num_neurons: int, readout_variance: float) -> float:
    """Participation of one layer on these inputs; NaN where theory does not reach or does not converge."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return per_class(condensation.solve(given, T, readout_variance=readout_variance), num_neurons)
    except (ValueError, FloatingPointError):
        return float("nan")


class Place(NamedTuple):
    """Inputs P, overlap ρ and width N."""

    num_inputs: int
    overlap: float
    num_neurons: int


def times(num_chains: int, factor: float) -> int:
    """Chains where more or fewer are needed than elsewhere; at least two, for an error."""
    return max(2, round(factor * num_chains))


def over_shapes(
    key: Any, shapes: Sequence[dict[str, Any]], overlaps: Sequence[float], *, num_chains: int, **options: Any
) -> dict[Place, Networks]:
    """Networks at every shape and overlap, with fold_in(key, k) for the k-th."""
    chains = {
        Place(shape["num_inputs"], rho, num_neurons): times(num_chains, shape.get("chains", 1))
        for shape in shapes
        for num_neurons in shape["num_neurons"]
        for rho in shape.get("overlaps", overlaps)
    }
    return {
        place: networks(
            jax.random.fold_in(key, k), task(*place[:2]), place.num_neurons, num_chains=number, **options
        )
        for k, (place, number) in enumerate(chains.items())
    }


def log_ratio(first: Networks, last: Networks) -> Estimate:
    """Logarithm of the participation of the last over that of the first."""
    a, b = first.participation, last.participation
    return Estimate(np.log(b.value / a.value), np.hypot(a.error / a.value, b.error / b.value))


def growth(found: Sequence[Networks]) -> Estimate:
    """Exponent in N of the participation, between the narrowest and the widest networks."""
    first, last = found[0], found[-1]
    value, error = log_ratio(first, last)
    reach = np.log(last.size["N"] / first.size["N"])
    return Estimate(value / reach, error / reach)


def exponent(theory: Callable[[int], float], widths: Sequence[int]) -> float:
    """The same of a theory."""
    return float(np.log(theory(widths[-1]) / theory(widths[0])) / np.log(widths[-1] / widths[0]))


# ---- sigmoidal networks on inputs that are alike ------------------------------------------------------


CODES = ((1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1))


@cache
def sigmoidal(num_inputs: int, overlap: float) -> clustered.Solution:
    """Theory of a sigmoidal network, y₋ = ½."""
    return clustered.solve(tasks.clustered(num_inputs, overlap=overlap, y_minus=0.5), T)


def share_of_all(num_inputs: int, overlap: float, num_neurons: int) -> np.ndarray:
    """Share of 1-1-1 in theory: for N neurons, which are whole, at N → ∞, and how it varies over networks."""
    solution, codes = sigmoidal(num_inputs, overlap), np.array(CODES, bool)
    whole = finite_width.whole_numbers(solution, codes, num_neurons) / num_neurons
    variance = finite_width.number_moments(solution, codes, num_neurons)[0] / num_neurons**2
    return np.array([whole[-1], solution.activity_shares(CODES)[-1], variance[-1] ** 0.5])


def shares(key: Any, num_inputs: int, overlap: float, num_neurons: int, **options: Any) -> np.ndarray:
    """Share of each of the CODES in sampled sigmoidal networks, (chains, codes)."""
    given = tasks.clustered(num_inputs, overlap=overlap, y_minus=0.5)
    posterior = Posterior(given, Network(1, num_neurons, "sigmoidal"), T)
    codes = sample(posterior, key, **options).codes()
    return np.stack([np.all(codes == np.array(code, bool), axis=-1).mean((1, 2)) for code in CODES], axis=-1)
