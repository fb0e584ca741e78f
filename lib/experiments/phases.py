"""Coding schemes over targets and temperatures: in equilibrium, quenched, cooled step by step."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, planting, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import HMC, Samples, TwoEnded, compare_ends, sample
from coding_schemes.theory import sigmoidal
from companion.workbench import Run, draw

CODES = np.array(list(product((True, False), repeat=3)))[[1, 2, 4, 0, 3, 5, 6, 7]]
NAMES = tuple(coding.code_name(code) for code in CODES)
SMALL_WAYS = ("fast", "planted", "recode", "exchange")
PRESENT = 0.01  # a code belongs to a scheme if it holds this fraction of the neurons
COLD = 0.001  # where networks are quenched to at once
LOCAL: dict[str, Any] = {"moves": (), "method": HMC(1.0)}
RECODE: dict[str, Any] = {"moves": ("recode",), "method": HMC(1.0)}  # short: the moves do the rest


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


def count_schemes(size: int, targets: Any, temperature: float) -> int:
    """How many schemes, told by the codes of the theory's peaks, follow each other along a line of y₋."""
    line = over_targets(size, targets, temperature)
    return len(set(schemes(np.array([[each.occupancy(code) for code in CODES] for each in line]))))


def shares(solution: sigmoidal.Solution) -> np.ndarray:
    """Predicted fraction of the neurons found with each of the eight codes."""
    return sigmoidal.measured_occupancies(solution, CODES)


def share_errors(solution: sigmoidal.Solution, size: int, networks: int = 1) -> np.ndarray:
    """Predicted standard error of these fractions over networks of `size` neurons.

    Neurons are whole. Where shares hardly fluctuate all networks round them alike, so that the rounding, of
    variance 1/12 neuron², does not average out over networks.
    """
    variance = np.diag(sigmoidal.occupancy_covariance(solution, CODES)).clip(0) / size
    return np.sqrt(variance / networks + 1 / (12 * size**2))


def peak_shares(solution: sigmoidal.Solution, spacing: float) -> np.ndarray:
    """Shares of the codes of the readouts' *peaks*, (8,): a lattice's cells belong to where they climb to.

    Its spacing is in units of σ_a. Just below the critical temperature peaks overlap and shares depend on it:
    that is how well "the share of a peak" is defined there.
    """
    problem = solution.problem
    ensemble, maxima, owner = sigmoidal.neurons(
        solution.dual_field, problem, solution.method, spacing=spacing
    )
    codes = maxima @ solution.dual_field.T > problem.site.critical_field
    of_peak = np.bincount(owner, ensemble.weights, len(maxima))
    return np.array([of_peak[np.all(codes == code, axis=1)].sum() for code in CODES])


def schemes(rows: np.ndarray, least: float = PRESENT) -> list[tuple[str, ...]]:
    """Which codes hold at least a fraction of the neurons, row by row."""
    return [tuple(name for name, share in zip(NAMES, row, strict=True) if share > least) for row in rows]


def occupancies(samples: Samples) -> np.ndarray:
    """Fraction of the neurons with each of the eight codes, shape (chains, samples, 8)."""
    found = samples.codes()
    return np.stack([np.all(found == code, axis=-1).mean(-1) for code in CODES], axis=-1)


def mean_shares(run: Run) -> np.ndarray:
    """Mean over chains and samples, shape (8,)."""
    return occupancies(run.samples).mean((0, 1))


def share_series(runs: list[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Mean shares of several runs and their standard errors, each of shape (runs, 8)."""
    rows = [statistics.mean_and_error(occupancies(run.samples)) for run in runs]
    mean, error = np.moveaxis(np.array(rows), 1, 0)
    return mean, error


def sorted_by_code(run: Run) -> np.ndarray:
    """Activations of the first network's last sample, neurons sorted by code: shape (N, P)."""
    activations = run.samples.activations()[0, -1]
    return activations[coding.sort_by_code(coding.codes(activations, run.task.labels), activations)]


@dataclass(frozen=True)
class Ends:
    """Networks at one y₋ and T, by local dynamics and in equilibrium.

    Attributes:
        quenched: from the prior, by local dynamics alone.
        run: neurons may change their codes; half of the networks start where `quenched` ended, half planted.
        ends: whether the two halves meet.
    """

    quenched: Run
    run: Run
    ends: TwoEnded


Scan = dict[tuple[float, float], Ends]  # by y₋ and T


def equilibrate(
    key: Any,
    size: int,
    y_minus: float,
    temperature: float,
    chains: int,
    counts: tuple[int, int, int],
    at_once: float | None = None,
) -> Ends:
    """Networks of N = P = size, quenched; then with moves between codes, from there and from planted ones.

    An even number of chains; `counts` are transitions of the quench, of the warm-up with moves, and samples.
    The quench is a fast annealing, or puts the prior's networks at the temperature `at_once`.
    """
    quench, warmup, num_samples = counts
    warmup *= 1 if y_minus >= 0 else 4  # six codes coexist there, and their shares move slowly
    options: dict[str, Any] = {"num_chains": chains, "num_samples": num_samples}
    task, network = tasks.toy(size, y_minus=y_minus), Network(1, size, "sigmoidal")
    streams = [jax.random.fold_in(key, k) for k in range(3)]
    how: dict[str, Any] = {"num_warmup": quench}
    if at_once is not None:
        how = {"num_warmup": (quench - quench // 8, quench // 8), "anneal_from": at_once}
    quenched = draw(streams[0], task, network, at_once or temperature, **how, **LOCAL, **options)
    start = jax.tree.map(
        lambda one, other: np.concatenate([one[: chains // 2], other]),
        quenched.samples.final,
        planted(streams[1], quenched.posterior, chains // 2, temperature),
    )
    options |= {"num_warmup": warmup, "init": start}
    run = draw(streams[2], task, network, temperature, **RECODE, **options)
    halves = _chains(run.samples, slice(chains // 2)), _chains(run.samples, slice(chains // 2, None))
    return Ends(quenched, run, compare_ends(*halves, run.posterior))


def planted(key: Any, posterior: Any, count: int, temperature: float) -> Weights:
    """Networks drawn from the theory's scheme, with a leading axis (count,)."""
    solution = solve(posterior.task.num_inputs, float(posterior.task.class_targets[0, 1]), temperature)
    keys = jnp.stack([jax.random.fold_in(key, k) for k in range(count)])
    return planting.planted(keys, solution, posterior)


def _chains(samples: Samples, which: slice) -> Samples:
    info = jax.tree.map(lambda leaf: leaf[which], samples.info)
    layers = tuple(layer[which] for layer in samples.preactivations or ())
    readouts = None if samples.readouts is None else samples.readouts[which]
    return replace(samples, readouts=readouts, preactivations=layers, info=info)


def cool(key: Any, size: int, y_minus: float, temperatures: Any, chains: int, transitions: int) -> np.ndarray:
    """Shares of the codes in networks cooled step by step by local dynamics: (temperatures, chains, 8).

    Temperatures descend, each is entered as the last one was left, the first from the prior.
    """
    task, network, reached = tasks.toy(size, y_minus=y_minus), Network(1, size, "sigmoidal"), []
    init: Weights | str = "prior"
    counts: dict[str, Any] = {
        "num_chains": chains,
        "num_warmup": transitions // 2,
        "num_samples": transitions // 2,
    }
    for k, temperature in enumerate(temperatures):
        posterior = Posterior(task, network, float(temperature))
        samples = sample(posterior, jax.random.fold_in(key, k), init=init, **counts, **LOCAL)
        init = samples.final
        reached.append(occupancies(samples)[:, -1])
    return np.array(reached)


class Frozen(NamedTuple):
    """Theory for neurons held to the codes and the shares in which networks ended.

    Attributes:
        lost: free energy of a network above that of equilibrium, N ΔF: odds of e^lost against these shares.
        excess: U per neuron above that of equilibrium.
    """

    lost: float
    excess: float


def frozen(run: Run) -> Frozen:
    """What it costs to be held to the shares that the networks of a run ended with, on average."""
    size, (y_minus, temperature) = run.task.num_inputs, place(run)
    free, held = solve(size, y_minus, temperature), occupancies(run.samples)[:, -1].mean(0)
    some = held > 0
    restriction: dict[str, Any] = {
        "codes": CODES[some].astype(int),
        "occupancies": held[some] / held[some].sum(),
    }
    theory = sigmoidal.solve(run.task, temperature, **restriction)
    return Frozen(size * (theory.free_energy - free.free_energy), theory.energy - free.energy)


def switches(run: Run) -> float:
    """Code changes per neuron and transition."""
    return float(coding.switch_rate(run.samples.codes()).rate)


def ways(key: Any, ends: Ends, slow: int) -> dict[str, Run]:
    """The networks of `ends`, and as many by local dynamics after slow cooling, and from planted starts."""
    posterior, chains = ends.run.posterior, len(ends.run.readouts)
    y_minus, temperature = place(ends.run)
    counts: dict[str, Any] = {"num_chains": chains, "num_samples": ends.run.readouts.shape[1]}
    start = planted(key, posterior, chains, temperature)
    task, network = ends.run.task, posterior.network
    slowly = draw(jax.random.fold_in(key, 1), task, network, temperature, num_warmup=slow, **LOCAL, **counts)
    options: dict[str, Any] = {"num_warmup": 32, "init": start} | LOCAL | counts
    stays = draw(jax.random.fold_in(key, 2), task, network, temperature, **options)
    return {"quenched": ends.quenched, "slow": slowly, "planted": stays, "recode": ends.run}


def place(run: Run) -> tuple[float, float]:
    """y₋ and T of a run, as they were given."""
    return float(run.task.class_targets[0, 1]), round(float(run.posterior.temperature), 9)


def readout_variance(run: Run) -> np.ndarray:
    """Variance of the readouts over neurons, tr Cov(a), of every sample: shape (chains, samples)."""
    return run.readouts.var(axis=2).sum(-1)


def predicted_variance(size: int, y_minus: float, temperature: float) -> float:
    """The same by theory, all fluctuations at finite P included; O(1/P) where there is one code."""
    points, weights = sigmoidal.readout_ensemble(solve(size, y_minus, temperature))
    return float(weights @ np.square(points - weights @ points).sum(axis=1))


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


@cache
def critical_temperature(size: int, y_minus: float, least: float = 0.01) -> float:
    """T_c of the theory: above it no second peak holds the fraction `least` of the neurons."""
    task = tasks.toy(size, y_minus=y_minus)
    return sigmoidal.critical_temperature(task, 0.01, 1.0, min_probability=least).temperature


def effective_number(fractions: np.ndarray) -> np.ndarray:
    """Exponential of the entropy of the shares."""
    p = np.clip(fractions, 1e-12, 1)
    return np.exp(-np.sum(p * np.log(p), axis=-1))


def small_networks(
    key: Any, size: int, targets: Any, temperature: float, ladder: tuple[float, ...], num_samples: int
) -> dict[tuple[str, float], Run]:
    """Small networks by SMALL_WAYS and y₋: local dynamics from the prior and planted, moves, exchange.

    Exchange is with the higher temperatures of `ladder`, ascending; samples are thinned by twenty.
    """
    counts: dict[str, Any] = {"num_chains": 2, "num_samples": num_samples, "num_warmup": 200, "thinning": 20}
    runs, network = {}, Network(1, size, "sigmoidal")
    for j, y in enumerate(targets):
        task = tasks.toy(size, y_minus=y)
        start = planted(key, Posterior(task, network, temperature), 1, temperature)
        ways: dict[str, dict[str, Any]] = {
            "fast": {"moves": (), "anneal_from": temperature},
            "planted": {"moves": (), "init": jax.tree.map(lambda leaf: leaf[0], start)},
            "recode": {"moves": ("recode",)},
            "exchange": {"moves": (), "temperatures": ladder},
        }
        for k, (way, options) in enumerate(ways.items()):
            stream = jax.random.fold_in(key, 10 * j + k)
            runs[way, y] = draw(stream, task, network, temperature, method=HMC(1.0, 38), **counts, **options)
    return runs


def ambiguity(solution: sigmoidal.Solution) -> float:
    """Largest change of a peak's share with the lattice that deals readouts to peaks."""
    dealt = np.array([peak_shares(solution, spacing) for spacing in (1.0, 0.7, 0.5)])
    return float(np.ptp(dealt, axis=0).max())
