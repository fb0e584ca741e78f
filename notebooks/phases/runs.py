"""What the chapter on the phase diagram runs and measures: networks quenched, cooled, and free to recode."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, paths, planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import HMC, Samples, compare_ends, sample
from coding_schemes.sampling.langevin import PlainLangevin
from coding_schemes.theory import finite_width, sigmoidal
from companion.findings import Estimate, less, spread
from companion.workbench import Run, Starts, both_starts, draw, untrained
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.interpolate import interpn
from scipy.spatial.distance import cdist
from scipy.stats import f as f_distribution

CODES = np.array(list(product((True, False), repeat=3)))[[1, 2, 4, 0, 3, 5, 6, 7]]
NAMES = tuple(coding.code_name(code) for code in CODES)
MIRROR = np.array([NAMES.index(coding.code_name(code)) for code in CODES[:, [0, 2, 1]]])
SINGLE = CODES.sum(axis=1) == 1  # codes of one class
LEAST = (0.01, 0.02, 0.05)  # fractions of the neurons from which on a code belongs to a scheme
COLD = 0.001  # where networks are put at once
HOT = 0.3  # where coolings begin, above the critical temperature
LOCAL: dict[str, Any] = {"moves": (), "method": HMC(1.0)}
RECODE: dict[str, Any] = {"moves": ("recode",), "method": HMC(1.0)}  # short: the moves do the rest
MIRRORED: dict[str, Any] = {"moves": ("recode", "reflect"), "method": HMC(1.0)}


# ---- theory --------------------------------------------------------------------------------------


@cache
def solve(size: int, y_minus: float, temperature: float) -> sigmoidal.Solution:
    """Theory of the toy task at N → ∞ and P = size."""
    solution = sigmoidal.solve(tasks.toy(size, y_minus=y_minus), temperature)
    assert solution.converged
    return solution


def over_targets(size: int, targets: Any, temperature: float) -> list[sigmoidal.Solution]:
    """Theory along a line of y₋."""
    rows = [tasks.one_hot(3, 1.0, float(y)) for y in targets]
    line = sigmoidal.scan(tasks.toy(size), temperature, rows)
    assert all(solution.converged for solution in line)
    return line


def shares(solution: sigmoidal.Solution) -> np.ndarray:
    """Predicted fraction of the neurons found with each of the eight codes, N → ∞."""
    return sigmoidal.measured_occupancies(solution, CODES)


@cache
def numbers(size: int, y_minus: float, temperature: float) -> np.ndarray:
    """Predicted number of neurons with each code at N = P = size, neurons being whole, and its variance.

    Shape (2, 8). A code that not even one network in ten has is left as N → ∞ has it. The variance (claim D8)
    is not taken below that of numbers which need not be whole: where nearly all networks have the same
    numbers, the share of the others is exponential in the mean, and so in its error.
    """
    solution = solve(size, y_minus, temperature)
    found = size * np.stack([shares(solution), sigmoidal.occupancy_covariance(solution, CODES).diagonal()])
    asked = found[0] > 0.1
    if asked.sum() > 1:
        found[0, asked] = finite_width.whole_numbers(solution, CODES[asked], size)
        whole = finite_width.number_moments(solution, CODES[asked], size)[0]
        found[1, asked] = np.maximum(found[1, asked], whole)
    return found


def schemes(rows: np.ndarray, least: float = LEAST[0]) -> list[tuple[str, ...]]:
    """Which codes hold at least a fraction of the neurons, row by row."""
    return [tuple(name for name, share in zip(NAMES, row, strict=True) if share > least) for row in rows]


def count_schemes(rows: np.ndarray) -> np.ndarray:
    """How many different schemes there are among rows of shares, for each fraction of LEAST."""
    return np.array([len(set(schemes(rows, least))) for least in LEAST])


def peak_schemes(size: int, targets: Any, temperature: float) -> int:
    """How many schemes, told by the codes of the theory's peaks, follow each other along a line of y₋."""
    line = over_targets(size, targets, temperature)
    return len(set(schemes(np.array([[each.occupancy(code) for code in CODES] for each in line]))))


@cache
def critical_temperature(size: int, y_minus: float, least: float = 0.01) -> float:
    """T_c of the theory: above it no second peak holds the fraction `least` of the neurons."""
    task = tasks.toy(size, y_minus=y_minus)
    return sigmoidal.critical_temperature(task, 0.01, 1.0, min_probability=least).temperature


def variance_scatter(size: int, y_minus: float, temperature: float) -> float:
    """Standard deviation of this variance over networks of N = P = size, to leading order in 1/N."""
    solution = solve(size, y_minus, temperature)
    points, weights = sigmoidal.readout_ensemble(solution)
    distance_sq = np.square(points - weights @ points).sum(axis=1)
    return float(np.sqrt(sigmoidal.average_covariance(solution, distance_sq[None])[0, 0] / size))


def predicted_variance(size: int, y_minus: float, temperature: float, width: float = np.inf) -> float:
    """Variance of the readouts over the neurons of one network, tr Cov(a), P = size, N = width.

    With finite N neither second moments nor means are those of N → ∞, and the mean over neurons fluctuates:
    ⟨|a|²⟩ + δ₂/N − Σ_r [⟨a_r⟩² + 2⟨a_r⟩ δ_r/N + Var(ā_r)].
    """
    solution = solve(size, y_minus, temperature)
    points, weights = sigmoidal.readout_ensemble(solution)
    mean = weights @ points
    found = float(weights @ np.square(points - mean).sum(axis=1))
    if np.isinf(width):
        return found
    second = finite_width.correction(solution, np.square(points).sum(axis=1))
    first = np.array([finite_width.correction(solution, column) for column in points.T])
    scatter = np.trace(sigmoidal.average_covariance(solution, points.T))
    return found + (second - 2 * mean @ first - float(scatter)) / width


def effective_number(fractions: np.ndarray) -> np.ndarray:
    """Exponential of the entropy of the shares."""
    p = np.clip(fractions, 1e-12, 1)
    return np.exp(-np.sum(p * np.log(p), axis=-1))


# ---- networks at one place: quenched, then free to change codes ------------------------------------


def counted(samples: Samples) -> np.ndarray:
    """Number of neurons with each of the eight codes, shape (chains, samples, 8)."""
    found = samples.codes()
    return np.stack([np.all(found == code, axis=-1).sum(-1) for code in CODES], axis=-1).astype(float)


@dataclass(frozen=True)
class Networks(Starts):
    """Networks of N = P at one y₋ and T, after a quench by local dynamics, and free to change their codes.

    Half of the free ones start where the first half of the quenched ones ended, half are planted in theory.

    Attributes:
        quenched: from the prior, by local dynamics alone.
    """

    quenched: Run

    @property
    def place(self) -> tuple[float, float]:
        """y₋ and T."""
        return float(self.task.class_targets[0, 1]), round(float(self.posterior.temperature), 9)

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        y_minus, temperature = self.place
        shared = {"N": self.width, "P": self.task.num_inputs, "T": temperature, "y₋": y_minus}
        return shared | {"networks": len(self.readouts)}

    @property
    def readouts(self) -> np.ndarray:
        """Readouts of the free networks, shape (networks, samples, N, m)."""
        return np.concatenate([half.readouts for half in self.halves]).astype(float)

    @property
    def numbers(self) -> np.ndarray:
        """Number of neurons with each code in the free networks, shape (networks, samples, 8)."""
        return np.concatenate([counted(half) for half in self.halves])

    @property
    def free_shares(self) -> Estimate:
        """Fractions of neurons with each code in the free networks."""
        return spread(self.numbers.mean(1) / self.width)

    @property
    def quenched_numbers(self) -> np.ndarray:
        """Numbers at the end of the quench, shape (networks, 8)."""
        return counted(self.quenched.samples)[:, -1]

    def deviations(self, numbers_found: np.ndarray, y_shift: float = 0.0) -> np.ndarray:
        """Distance of numbers (networks, 8) from theory at y₋ + y_shift in standard errors, (8,).

        The error is the larger one of the networks' spread and of what theory lets numbers scatter. Away from
        y₋ itself theory's 1/N is left out: it is a fraction of a neuron.
        """
        size, (y_minus, temperature) = self.task.num_inputs, self.place
        expected, variance = numbers(size, y_minus, temperature)
        if y_shift:
            expected = size * shares(solve(size, round(y_minus + y_shift, 6), temperature))
        found = spread(numbers_found)
        scatter = np.sqrt(variance / len(numbers_found))
        return np.abs(found.value - expected) / np.maximum(np.fmax(found.error, scatter), 1e-12)

    def change(self, y_shift: float) -> float:
        """Largest change of theory's numbers with the targets."""
        size, (y_minus, temperature) = self.task.num_inputs, self.place
        moved = shares(solve(size, round(y_minus + y_shift, 6), temperature))
        return float(size * np.abs(moved - shares(self.theory)).max())


def farthest(places: Sequence[Networks], y_shift: float = 0.0, half: slice = slice(None)) -> np.ndarray:
    """Largest of a place's `deviations` over the codes, of all its networks or of half of them, (places,)."""
    return np.array([found.deviations(found.numbers.mean(1)[half], y_shift).max() for found in places])


def networks(
    key: Any,
    *,
    size: int,
    y_minus: float,
    temperature: float,
    num_networks: int,
    num_quench: int,
    num_warmup: int,
    num_samples: int,
    at_once: float | None = None,
) -> Networks:
    """Networks of N = P = size, quenched; then with moves between codes, from there and from planted ones.

    The quench is a fast annealing, or puts the prior's networks at the temperature `at_once`. Counts are
    transitions.
    """
    half = num_networks // 2
    options: dict[str, Any] = {"num_chains": 2 * half, "num_samples": num_samples}
    task, network = tasks.toy(size, y_minus=y_minus), Network(1, size, "sigmoidal")
    streams = [jax.random.fold_in(key, k) for k in range(3)]
    posterior = Posterior(task, network, temperature)
    quenched = quench(streams[0], task, temperature, num_quench=num_quench, at_once=at_once, **options)
    start = jax.tree.map(
        lambda one, other: np.concatenate([one[:half], other]),
        quenched.samples.final,
        planted(streams[1], posterior, half, temperature),
    )
    free = RECODE if y_minus >= 0 else MIRRORED
    found = sample(posterior, streams[2], init=start, num_warmup=num_warmup, **free, **options)
    meeting = compare_ends(
        _chains(found, slice(half)), _chains(found, slice(half, None)), posterior, tolerance=0.5 / size
    )
    return Networks(posterior, solve(size, y_minus, temperature), meeting, quenched)


def quench(
    key: Any,
    task: tasks.Task,
    temperature: float,
    *,
    num_quench: int,
    at_once: float | None = None,
    moves: tuple[str, ...] = (),
    **options: Any,
) -> Run:
    """Networks of N = P from the prior by local dynamics, annealed fast or put at `at_once`."""
    how: dict[str, Any] = LOCAL | {"num_warmup": num_quench, "moves": moves}
    if at_once is not None:
        how |= {"num_warmup": (num_quench - num_quench // 8, num_quench // 8), "anneal_from": at_once}
    network = Network(1, task.num_inputs, "sigmoidal")
    return draw(key, task, network, temperature if at_once is None else at_once, **how, **options)


def planted(key: Any, posterior: Any, count: int, temperature: float) -> Weights:
    """Networks drawn from the theory's scheme, with a leading axis (count,)."""
    solution = solve(posterior.task.num_inputs, float(posterior.task.class_targets[0, 1]), temperature)
    return planting.planted(
        jnp.stack([jax.random.fold_in(key, k) for k in range(count)]), solution, posterior
    )


def _chains(samples: Samples, which: slice) -> Samples:
    info = jax.tree.map(lambda leaf: leaf[which], samples.info)
    layers = tuple(layer[which] for layer in samples.preactivations or ())
    readouts = None if samples.readouts is None else samples.readouts[which]
    return replace(samples, readouts=readouts, preactivations=layers, info=info)


def typical(found: np.ndarray) -> np.ndarray:
    """Shares (8,): median over networks (networks, 8), averaged over exchanging the small classes."""
    middle = np.median(found, axis=0)
    return (middle + middle[MIRROR]) / 2 / found.sum(axis=1).mean()


def sorted_by_code(samples: Samples, labels: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Activations of the first network's last sample, neurons sorted by code, (N, P), and their codes."""
    activations = samples.activations()[0, -1]
    own = coding.codes(activations, labels)
    order = coding.sort_by_code(own, activations)
    return activations[order], [coding.code_name(code) for code in own[order]]


# ---- groups of neurons, without theory ------------------------------------------------------------

MOST_POINTS, ASCENTS = 1000, 60


class Groups(NamedTuple):
    """Modes of the readouts' density.

    Attributes:
        fractions: of the neurons, largest first.
        codes: classes on which a group's mean activation is above ½, (groups, C).
    """

    fractions: np.ndarray
    codes: np.ndarray

    @property
    def number(self) -> int:
        """Groups that hold one per cent of the neurons."""
        return int(np.sum(self.fractions >= LEAST[0]))


def groups(found: Networks) -> Groups:
    """Mean shift: every neuron climbs the density of the last samples' readouts, smoothed by σ_a = 1/√P."""
    readouts = found.readouts[:, -1].reshape(-1, 3)
    means = np.concatenate([coding.class_means(phi, found.task.labels) for phi in found.activations])
    some = np.unique(np.linspace(0, len(readouts) - 1, MOST_POINTS).astype(int))
    points, means = readouts[some], means[some]
    width_sq = 1 / found.task.num_inputs
    places = points
    for _ in range(ASCENTS):
        near = np.exp(-0.5 * cdist(places, points, "sqeuclidean") / width_sq)
        places = near @ points / near.sum(axis=1, keepdims=True)
    member = fcluster(linkage(places), 0.5 * width_sq**0.5, "distance") - 1
    fractions = np.bincount(member) / len(member)
    order = np.argsort(-fractions)
    average = np.stack([means[member == k].mean(axis=0) for k in order])
    return Groups(fractions[order], average > 0.5)


def group_shares(found: Groups) -> np.ndarray:
    """Fractions of neurons in groups with each of the eight codes."""
    return np.array([found.fractions[np.all(found.codes == code, axis=1)].sum() for code in CODES])


# ---- ways down ------------------------------------------------------------------------------------


def cool(key: Any, *, size: int, temperatures: Any, num_networks: int, num_transitions: int) -> np.ndarray:
    """Shares of the codes in networks at y₋ = 0.1 cooled step by step by local dynamics: (T, networks, 8).

    Temperatures descend, each is entered as the last one was left, the first from the prior.
    """
    task, network, reached = tasks.toy(size, y_minus=0.1), Network(1, size, "sigmoidal"), []
    init: Weights | str = "prior"
    half = num_transitions // 2
    counts: dict[str, Any] = {"num_chains": num_networks, "num_warmup": half, "num_samples": half}
    for k, temperature in enumerate(temperatures):
        posterior = Posterior(task, network, float(temperature))
        samples = sample(posterior, jax.random.fold_in(key, k), init=init, **counts, **LOCAL)
        init = samples.final
        reached.append(counted(samples)[:, -1] / size)
    return np.array(reached)


@dataclass(frozen=True)
class Ways:
    """Networks at one place that went four ways: the first three by local dynamics.

    Attributes:
        quenched: annealed fast.
        slow: annealed several times more slowly.
        planted: started in the theory's scheme.
        recode: free to change codes.
    """

    quenched: Samples
    slow: Samples
    planted: Samples
    recode: tuple[Samples, Samples]

    def halves(self, way: str) -> tuple[Samples, ...]:
        """The samples of a way."""
        found = getattr(self, way)
        return found if isinstance(found, tuple) else (found,)

    def numbers(self, way: str) -> np.ndarray:
        """Last number of neurons with each code, (networks, 8)."""
        return np.concatenate([counted(half)[:, -1] for half in self.halves(way)])


def ways(key: Any, found: Networks, *, num_slow: int) -> Ways:
    """The networks found at a place, and as many after slow cooling, and from planted starts."""
    posterior, count = found.posterior, len(found.readouts)
    counts: dict[str, Any] = {"num_chains": count, "num_samples": found.readouts.shape[1]}
    start = planted(key, posterior, count, found.place[1])
    slow = sample(posterior, jax.random.fold_in(key, 1), num_warmup=num_slow, **LOCAL, **counts)
    options: dict[str, Any] = {"num_warmup": 32, "init": start} | LOCAL | counts
    stays = sample(posterior, jax.random.fold_in(key, 2), **options)
    return Ways(found.quenched.samples, slow, stays, found.halves)


def difference(one: np.ndarray, other: np.ndarray) -> Estimate:
    """Mean over networks of one set (places, networks) less that of another."""
    return less(spread(one, axis=1), spread(other, axis=1))


def lost(held: np.ndarray, y_minus: float, temperature: float) -> float:
    """N ΔF in nats: free energy of N = P neurons held to these numbers (8,) above that of equilibrium."""
    return _lost(tuple(np.rint(held).astype(int).tolist()), y_minus, temperature)


@cache
def _lost(held: tuple[int, ...], y_minus: float, temperature: float) -> float:
    given = np.array(held)
    size, some = int(given.sum()), given > 0
    options: dict[str, Any] = {"codes": CODES[some].astype(int), "occupancies": given[some] / size}
    theory = sigmoidal.solve(tasks.toy(size, y_minus=y_minus), temperature, **options)
    return size * (theory.free_energy - solve(size, y_minus, temperature).free_energy)


def code_changes(samples: Samples, num_transitions: int) -> Estimate:
    """Code changes of a neuron in so many transitions; its error is that of one change in all, at least."""
    each = [coding.switch_rate(own[None]) for own in samples.codes()]
    found = spread(num_transitions * np.array([one.rate for one in each]))
    least = num_transitions / sum(one.num_steps for one in each)
    return Estimate(found.value, max(found.error, least))


# ---- a quench law: Langevin dynamics over cooling times ---------------------------------------------

NUM_TEMPERATURES = 32  # of a cooling, geometric
STEPS = {"prior variance": 0.1, "unit": 0.02}  # ε at P = 60; stiffness is 1/T, and P/T of faster readouts


def cooled_in(
    key: Any,
    times: Sequence[float],
    *,
    num_neurons: int,
    num_networks: int,
    mobility: str,
    start: float = HOT,
) -> np.ndarray:
    """Shares of the codes after a cooling from `start` to 0.01 within each time, (times, networks, 8).

    Langevin dynamics without moves at y₋ = 0.1, N = P; time is that of hidden weights.
    """
    posterior = Posterior(tasks.toy(num_neurons, y_minus=0.1), Network(1, num_neurons, "sigmoidal"), 0.01)
    step, reached = STEPS[mobility], []
    for k, time in enumerate(times):
        steps = max(1, round(time / (NUM_TEMPERATURES * 0.5 * step**2)))
        samples = sample(
            posterior,
            jax.random.fold_in(key, k),
            1,
            num_chains=num_networks,
            num_warmup=(NUM_TEMPERATURES, 0),
            anneal_from=start,
            method=PlainLangevin(step_size=step, num_steps=steps, mobility=mobility),
            moves=(),
        )
        reached.append(counted(samples)[:, -1] / num_neurons)
    return np.array(reached)


def frozen_share(found: np.ndarray, size: int) -> np.ndarray:
    """Share of neurons with a code of one class, less that of equilibrium at 0.01: found (…, 8)."""
    return found[..., SINGLE].sum(-1) - numbers(size, 0.1, 0.01)[0, SINGLE].sum() / size


class Law(NamedTuple):
    """log share = exponent · x + log prefactor, by weighted least squares.

    Attributes:
        exponent: with its error; where points scatter more than their errors say, enlarged by √(χ²/free).
        prefactor: the share at x = 0.
        chi_sq: of the points about the law.
        free: its degrees of freedom.
        spread_free: those of the errors, which the networks' spread gives.
    """

    exponent: Estimate
    prefactor: float
    chi_sq: float
    free: int
    spread_free: int


def law(times: np.ndarray, found: np.ndarray, exponential: bool = False) -> Law:
    """Fit of shares (times, networks) to a power of time, x = log t; or to an exponential law, x = t.

    Shares are counts of neurons: their variance over networks is taken in proportion to their mean, by one
    factor for all times, which many networks determine.
    """
    mean, variance = found.mean(axis=1), found.var(axis=1, ddof=1)
    inside = mean > 0
    x, y = (times if exponential else np.log(times))[inside], np.log(mean[inside])
    factor = variance[inside].sum() / max(mean[inside].sum(), 1e-12)
    if len(x) < 3 or factor == 0:
        return Law(Estimate(np.float64(np.nan), np.float64(np.nan)), np.nan, np.nan, 0, 0)
    sigma = np.sqrt(factor / (mean[inside] * found.shape[1]))
    design = np.column_stack([x, np.ones_like(x)]) / sigma[:, None]
    covariance = np.linalg.inv(design.T @ design)
    slope, offset = covariance @ design.T @ (y / sigma)
    chi_sq, free = float(np.sum(np.square((y - slope * x - offset) / sigma))), len(x) - 2
    enlarged = np.sqrt(covariance[0, 0] * max(1.0, chi_sq / free))
    spread_free = len(x) * (found.shape[1] - 1)
    return Law(Estimate(slope, enlarged), float(np.exp(offset)), chi_sq, free, spread_free)


def pvalue(laws: Sequence[Law]) -> np.float64:
    """That points scatter so much about several independent laws together: of F, as errors are estimated."""
    chi_sq, free, spread_free = (
        sum(getattr(one, name) for one in laws) for name in ("chi_sq", "free", "spread_free")
    )
    return np.float64(f_distribution.sf(chi_sq / free, free, spread_free) if free else np.nan)


def at_times(times: np.ndarray, own: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at some of the times, NaN at the others."""
    found = np.full(len(times), np.nan)
    found[np.searchsorted(times, own)] = values
    return found


# ---- many classes ---------------------------------------------------------------------------------

PER_CLASS, MANY_TARGET = 20, 0.3
RARE = 0.5  # neurons per network, on average: codes with fewer are not counted


@cache
def many_classes(
    num_classes: int, temperature: float = 0.01, y_minus: float = MANY_TARGET
) -> sigmoidal.Solution:
    """Theory for so many classes of PER_CLASS inputs each, by Laplace's formula; it may not converge."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*did not converge")
        return sigmoidal.solve(many_task(num_classes, y_minus), temperature, method="laplace")


def many_task(num_classes: int, y_minus: float = MANY_TARGET) -> tasks.Task:
    """Classes all alike."""
    return tasks.toy(PER_CLASS * num_classes, class_ratios=(1 / num_classes,) * num_classes, y_minus=y_minus)


def used_codes(codes: np.ndarray) -> np.ndarray:
    """Different codes with more than RARE neurons per network and sample: (networks, …, N, C) to (k, C)."""
    found, number = np.unique(codes.reshape(-1, codes.shape[-1]), axis=0, return_counts=True)
    return found[number > RARE * np.prod(codes.shape[:-2])]


def theory_codes(solution: sigmoidal.Solution) -> np.ndarray:
    """The same of a network of N = P in theory."""
    return solution.codes[solution.probabilities * solution.problem.counts.sum() > RARE]


class Codes(NamedTuple):
    """Number of codes in networks of N = P in theory, and of the classes that a neuron answers to."""

    number: float
    answered: float


def in_theory(num_classes: int, temperature: float) -> Codes:
    """NaN where Laplace's formula does not converge."""
    found = many_classes(num_classes, temperature)
    if not found.converged:
        return Codes(np.nan, np.nan)
    return Codes(float(len(theory_codes(found))), found.probabilities @ found.codes.sum(-1))


def prior_codes(key: Any, drawn: Starts, count: int) -> np.ndarray:
    """Codes (networks, N, C) of as many networks from the prior."""
    (activations,) = untrained(jax.random.split(key, count), drawn.posterior)
    return np.stack([coding.codes(phi, drawn.task.labels) for phi in activations])


def answered(codes: np.ndarray) -> Estimate:
    """Mean number of classes that a neuron answers to, codes (networks, …, N, C).

    The error has 1/√12 of a neuron in it: networks have whole ones, and all may have the same.
    """
    value, error = spread(codes.sum(-1).reshape(len(codes), -1).mean(-1))
    return Estimate(value, np.hypot(error, 12**-0.5 / codes.shape[-2]))


def many_networks(
    key: Any, *, num_classes: int, temperature: float, num_networks: int, num_warmup: int, **options: Any
) -> tuple[Starts, np.ndarray]:
    """Networks of N = P from the prior and planted, and codes of their samples (networks, samples, N, C)."""
    task, half = many_task(num_classes), num_networks // 2
    from_prior, from_theory, *plants = jax.random.split(key, 2 + half)
    drawn = both_starts(
        (from_prior, from_theory, jnp.stack(plants)),
        Posterior(task, Network(1, task.num_inputs, "sigmoidal"), temperature),
        many_classes(num_classes, temperature),
        tolerance=0.5 / task.num_inputs,
        prior_warmup=8 * num_warmup,
        num_warmup=num_warmup,
        num_chains=half,
        **RECODE,
        **options,
    )
    return drawn, np.concatenate([half.codes() for half in drawn.halves])


# ---- the critical temperature ---------------------------------------------------------------------


def readout_variance(found: Networks) -> np.ndarray:
    """Variance of the readouts over neurons, tr Cov(a), of every network."""
    return found.readouts.var(axis=2).sum(-1).mean(1)


class Zero(NamedTuple):
    """Where a quantity that falls with temperature would vanish.

    Attributes:
        temperature: midway between the zero of a straight line and that of a parabola through all values.
        network_error: standard error over independent networks.
        extrapolation_error: half the distance between the two zeros.
    """

    temperature: float
    network_error: float
    extrapolation_error: float

    @property
    def error(self) -> float:
        """Both errors together."""
        return float(np.hypot(self.network_error, self.extrapolation_error))


def zero(temperatures: Any, values: np.ndarray) -> Zero:
    """Extrapolate values of independent networks, (T, networks), at four or more ascending temperatures.

    The error over networks is the jackknife's, leaving one network out at every temperature.
    """
    values = np.asarray(values, dtype=float)
    count = values.shape[1]
    line, parabola = _zeros(temperatures, values.mean(1))
    left = (
        [np.mean(_zeros(temperatures, np.delete(values, k, axis=1).mean(1))) for k in range(count)]
        if count > 1
        else [0]
    )
    jackknife = np.sqrt((count - 1) / count * np.square(np.subtract(left, np.mean(left))).sum())
    return Zero(float((line + parabola) / 2), float(jackknife), float(abs(line - parabola) / 2))


def _zeros(temperatures: Any, values: np.ndarray) -> tuple[float, float]:
    """Of the fitted line, and of the parabola beyond the highest temperature, or else its lowest point."""
    line = np.polynomial.Polynomial.fit(temperatures, values, 1).roots()[0]
    parabola = np.polynomial.Polynomial.fit(temperatures, values, 2)
    roots = parabola.roots()
    beyond = [float(root.real) for root in roots if abs(root.imag) < 1e-12 and root.real > max(temperatures)]
    return float(line), float(min(beyond) if beyond else parabola.deriv().roots()[0])


# ---- stored results -------------------------------------------------------------------------------

_ATLAS = "data/results/redundant-atlas.npz"


def atlas_map() -> dict[str, np.ndarray]:
    """The stored atlas as a smooth map: effective number of codes over y₋ and T, one above T_c."""
    with np.load(paths.located(_ATLAS)) as stored:
        atlas = dict(stored)
    fine = np.geomspace(atlas["temperatures"][0], atlas["temperatures"][-1], 160)
    across = np.linspace(atlas["targets"][0], atlas["targets"][-1], 121)
    boundary = np.interp(across, atlas["targets"], atlas["critical_temperatures"])
    lines = [_up_to_critical(atlas, row) for row in range(len(atlas["targets"]))]
    # numbers of codes at the same T/T_c: a mean of two schemes would have the codes of both
    reduced = np.geomspace(0.99 * fine[0] / boundary.max(), 1.0, 400)
    known = effective_number(np.array([_at(*line, reduced) for line in lines]))
    places = np.stack(np.broadcast_arrays(across[:, None], np.log(fine / boundary[:, None])), axis=-1)
    axes = atlas["targets"], np.log(reduced)
    values = interpn(axes, known, places, bounds_error=False, fill_value=1.0)  # one group above T_c
    return {"horizontal": across, "vertical": fine, "values": values, "boundary": boundary}


def _up_to_critical(atlas: dict[str, np.ndarray], row: int) -> tuple[np.ndarray, np.ndarray]:
    """T/T_c at one y₋ and the shares of the atlas' codes there, (T, codes).

    From about half of T_c on theory is solved anew, as there codes go in quick succession.
    """
    y, critical = float(atlas["targets"][row]), float(atlas["critical_temperatures"][row])
    stored = atlas["temperatures"] < critical / 2
    last = np.geomspace(atlas["temperatures"][stored][-1], 0.995 * critical, 9)[1:]
    found = [solve(int(atlas["num_inputs"]), y, float(t)) for t in last]
    near = [[solution.occupancy(code) for code in atlas["codes"]] for solution in found]
    temperatures = np.append(atlas["temperatures"][stored], last)
    return temperatures / critical, np.concatenate([atlas["occupancies"][row, stored], near])


def _at(places: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Rows at places (n,), at those that are wanted (k,), linear in their logarithm; beyond them the last."""
    return np.transpose([np.interp(np.log(wanted), np.log(places), column) for column in values.T])


class Explored(NamedTuple):
    """Shares of codes found by the explorer's solver, and by theory.

    Attributes:
        off: largest difference from the stored atlas in every task of its grid.
        next_off: largest difference from the atlas at the next temperature.
        elsewhere: shares at tasks off the grid, (tasks, codes).
        theory: theory's for these.
        warmer: theory's at twice the temperature.
        num_inputs: P of these tasks.
    """

    off: np.ndarray
    next_off: np.ndarray
    elsewhere: np.ndarray
    theory: np.ndarray
    warmer: np.ndarray
    num_inputs: list[int]


def explored() -> Explored:
    """The explorer's stored solutions against the stored atlas and against theory."""
    found = json.loads(paths.located("data/results/explorer.json").read_text(encoding="utf-8"))
    codes = np.array([[digit == "1" for digit in code] for code in found["codes"]])
    # classes 1 and 2 are alike: a tie between mirrored codes may go to either
    mirror = [found["codes"].index(code[0] + code[2] + code[1]) for code in found["codes"]]
    with np.load(paths.located(_ATLAS)) as atlas:
        order = [int(np.flatnonzero((atlas["codes"] == code).all(1))[0]) for code in codes]
        stored = atlas["occupancies"][..., order]
    expected = (stored + stored[..., mirror]) / 2
    computed = np.reshape(found["grid"], stored.shape)
    computed = (computed + computed[..., mirror]) / 2
    off = np.abs(computed - expected).max(-1)
    next_off = np.abs(computed[:, :-1] - expected[:, 1:]).max(-1)
    others = found["elsewhere"]
    solved = [
        [
            sigmoidal.solve(
                tasks.toy(each["numInputs"], each["ratios"], 1.0, each["yMinus"]),
                factor * each["temperature"],
            )
            for each in others
        ]
        for factor in (1, 2)
    ]
    theory, warmer = (np.array([[one.occupancy(code) for code in codes] for one in each]) for each in solved)
    elsewhere = np.array([each["shares"] for each in others])
    return Explored(off, next_off, elsewhere, theory, warmer, [each["numInputs"] for each in others])
