"""Paths that exchange two neurons, the passes on the way, and how often neurons cross them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import barriers, coding, planting, statistics, training
from coding_schemes.networks import Network, is_bounded
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import Convergence, convergence, sample
from coding_schemes.theory import relu
from companion import figures
from companion.checks import above, absolute, check, standard_errors
from scipy.special import log_ndtr

from experiments.dynamics import EXACT, NODE_WEIGHTS, NODES, follow, solve, toy


def _exchanged(weights: Weights, i: int, j: int) -> Weights:
    order = np.arange(len(weights.readout))
    order[[i, j]] = j, i
    return weights._replace(first=weights.first[order], readout=weights.readout[order])


def _halfway(weights: Weights, i: int, j: int, split: bool) -> Weights:
    """Both neurons as i is; for a homogeneous φ each with a share of 1/√2 in its readout and its weights."""
    share, first, readout = 0.5**0.5 if split else 1.0, weights.first.copy(), weights.readout.copy()
    for leaf in (first, readout):
        leaf[[i, j]] = share * leaf[i]
    return weights._replace(first=first, readout=readout)


def _energy(weights: Weights, posterior: Posterior) -> Any:
    return posterior.energy(weights)


def minimum(nonlinearity: str, size: int, temperature: float) -> tuple[Posterior, np.ndarray, Weights]:
    """A network with the theory's scheme, slid down into its minimum of U, and the codes it has there."""
    task = toy(nonlinearity, size)
    posterior = Posterior(task, Network(1, size, nonlinearity), temperature)
    drawn = planting.planted(jax.random.key(0), solve(nonlinearity, size, temperature), posterior)
    step = 0.4 * temperature  # for twenty units of time
    starts = jax.tree.map(lambda leaf: leaf[None], drawn)
    weights, _ = training.descend(posterior, starts, num_steps=int(20 / step), learning_rate=0.4 * size)
    there = jax.tree.map(lambda leaf: leaf[0], weights)  # in NumPy, which compiles nothing to exchange two
    activations = np.asarray(posterior.network.phi(there.first))
    if is_bounded(posterior.network.phi):
        return posterior, coding.codes(activations, task.labels), there
    return posterior, coding.outliers(activations, task.labels).codes, there


def swap_path(
    posterior: Posterior, weights: Weights, i: int, j: int, tolerance: float = 0.5
) -> barriers.Path:
    """Path of minimum energy, in all weights, that exchanges neurons i and j one after the other."""
    ends = (
        weights,
        _halfway(weights, i, j, posterior.network.nonlinearity == "relu"),
        _exchanged(weights, i, j),
    )
    step = 0.4 * float(posterior.temperature)
    options: dict[str, Any] = {
        "step_size": step,
        "num_images": 21,
        "num_steps": int(5 / step),
        "tolerance": tolerance,
    }
    return barriers.minimum_energy_path(_energy, ends, posterior, **options)


def free_energy(readout: Any, field: Any, counts: Any, variance: Any) -> Any:
    """−P E(a) of one sigmoidal neuron's readout."""
    log_prior = np.log(NODE_WEIGHTS / NODE_WEIGHTS.sum())
    values = Network(1, 1, "sigmoidal").phi(jnp.asarray(NODES))
    tilted = jax.scipy.special.logsumexp((field @ readout)[:, None] * values[None] + log_prior[None], axis=1)
    return 0.5 * jnp.sum(readout**2) / variance - counts @ tilted


class Passes(NamedTuple):
    """Barriers between the codes of a sigmoidal layer.

    Attributes:
        codes: those that at least one neuron in a hundred has, shape (n, C).
        heights: free energy of the pass from code γ to γ′ above that of γ, in units of kT, shape (n, n).
    """

    codes: np.ndarray
    heights: np.ndarray

    @property
    def lowest(self) -> float:
        """The lowest of them; 0 with one code only."""
        off = self.heights[~np.eye(len(self.heights), dtype=bool)]
        return float(off.min()) if off.size else 0.0


@cache
def passes(size: int, temperature: float) -> Passes:
    """Passes between all codes that at least one neuron in a hundred has, by the string method."""
    solution = solve("sigmoidal", size, temperature)
    kept = solution.probabilities > 0.01
    readouts, problem = solution.readouts[kept], solution.problem
    heights = np.zeros((len(readouts), len(readouts)))
    for i, j in combinations(range(len(readouts)), 2):
        parameters = solution.dual_field, problem.counts, problem.readout_variance
        options = {"step_size": 0.1 * problem.readout_variance, "num_images": 31, "num_steps": 2000}
        path = barriers.minimum_energy_path(free_energy, (readouts[i], readouts[j]), *parameters, **options)
        heights[i, j] = path.barrier
        heights[j, i] = replace(path, energies=path.energies[::-1]).barrier
    return Passes(solution.codes[kept], heights)


def split_free_energy(size: int, temperature: float, outlier: int, angles: np.ndarray) -> np.ndarray:
    """Free energy −P E(a_i) − P E(a_j) along a turn that hands an outlier on, ReLU at leading order.

    a_i = √N ā cos θ and a_j = √N ā sin θ, and the rest of either the bulk's readout: the output stays what it
    was, the energy does not rise, and halfway two neurons are silent on all other classes in place of one.
    """
    theory = relu.solve(toy("relu", size), temperature)
    large, small = size**0.5 * theory.outlier_readouts[outlier], theory.bulk_readout

    def minus_pe(share: np.ndarray) -> np.ndarray:
        readouts = np.outer(share, large) + np.outer(1 - share, small)
        s = readouts @ theory.dual_field.T
        log_g = np.logaddexp(np.log(0.5), s**2 / 2 + log_ndtr(s))
        return size * np.square(readouts).sum(1) / 2 - log_g @ theory.task.class_counts

    path = minus_pe(np.cos(angles)) + minus_pe(np.sin(angles))
    return path - path[0]


class Crossings(NamedTuple):
    """Changes of code, way by way, at several temperatures.

    Attributes:
        temperatures: T, shape (K,).
        heights: theory's passes, each of shape (ways,).
        counts: changes seen, each of shape (ways,).
        exposures: time that neurons spent in the code which the way leaves, each of shape (ways,).
        local: diagnostics by energy and training error: rates ask for equilibrium within the codes.
    """

    temperatures: np.ndarray
    heights: list[np.ndarray]
    counts: list[np.ndarray]
    exposures: list[np.ndarray]
    local: list[Convergence]

    def slope(self) -> tuple[float, float]:
        """β of the rates ∝ e^{−βΔF} and its error, by maximum likelihood over all ways.

        One attempt rate for each temperature: the counts are multinomial given their number.
        """
        beta, information = 0.0, 1.0
        for _ in range(50):
            score = information = 0.0
            for height, count, exposure in zip(self.heights, self.counts, self.exposures, strict=True):
                weight = exposure * np.exp(-beta * height)
                mean = np.average(height, weights=weight)
                score += count.sum() * mean - count @ height
                information += count.sum() * np.average((height - mean) ** 2, weights=weight)
            beta += float(np.clip(score / information, -0.3, 0.3))
        return beta, float(information**-0.5)


def crossings(
    key: Any, size: int, temperatures: Sequence[float], span: float, num_samples: int, num_chains: int
) -> Crossings:
    """Sigmoidal networks small enough for neurons to cross, planted and followed at several temperatures."""
    rows, local = [], []
    for k, temperature in enumerate(temperatures):
        posterior = Posterior(toy("sigmoidal", size), Network(1, size, "sigmoidal"), temperature)
        stream = jax.random.fold_in(key, k)
        start = planting.planted(stream, solve("sigmoidal", size, temperature), posterior)
        options: dict[str, Any] = {"num_chains": num_chains, "num_warmup": 60, "init": start}
        rest = sample(posterior, stream, 20, store=("readouts",), **options, **EXACT)
        counts = {"num_samples": num_samples, "num_chains": num_chains}
        motion = follow(stream, posterior, rest, span, dt=temperature / 2, **counts)
        theory, codes = passes(size, temperature), motion.codes[-1]
        inside = np.stack([np.all(codes == code, axis=-1) for code in theory.codes])
        seen = np.einsum("gcsn,hcsn->gh", inside[:, :, :-1].astype(int), inside[:, :, 1:].astype(int))
        time = np.repeat(motion.interval * inside.sum((1, 2, 3))[:, None], len(inside), axis=1)
        ways = ~np.eye(len(inside), dtype=bool)
        rows.append((theory.heights[ways], seen[ways], time[ways]))
        bare = replace(motion.run.samples, readouts=None, preactivations=None)
        local.append(convergence(bare, posterior))
    heights, seen, exposures = (list(part) for part in zip(*rows, strict=True))
    return Crossings(np.asarray(temperatures), heights, seen, exposures, local)


class Swaps(NamedTuple):
    """Relaxed paths that exchange two neurons.

    Attributes:
        sizes: N = P, shape (S,).
        climbs: largest single climb for two sigmoidal neurons, of 1-1-0 and of 1-0-1, shape (S,).
        shown: the size of the following.
        outliers: path that exchanges two ReLU outliers directly.
        paths: paths by name: other code, same code, linear, ReLU (outlier and bulk).
    """

    sizes: np.ndarray
    climbs: np.ndarray
    shown: int
    outliers: barriers.Path
    paths: dict[str, barriers.Path]


def swap_paths(sizes: Sequence[int], shown: int, temperature: float) -> Swaps:
    """Paths of sigmoidal networks at all sizes, and of the others at the size to be shown, one of them."""
    climbs = []
    paths: dict[str, barriers.Path] = {}
    for size in sizes:
        posterior, codes, weights = minimum("sigmoidal", size, temperature)
        names = [coding.code_name(code) for code in codes]
        first = names.index("1-1-0")
        path = swap_path(posterior, weights, first, names.index("1-0-1"))
        climbs.append(path.barrier)
        if size == shown:
            same = swap_path(posterior, weights, first, names.index("1-1-0", first + 1))
            paths |= {"other code": path, "same code": same}
    posterior, _, weights = minimum("linear", shown, temperature)
    paths["linear"] = swap_path(posterior, weights, 0, 1)
    posterior, _, weights = minimum("relu", shown, temperature)  # planted: outliers come first
    paths["ReLU"] = swap_path(posterior, weights, 1, shown - 1)
    outliers = swap_path(posterior, weights, 1, 2, tolerance=20)  # of hundreds
    return Swaps(np.asarray(sizes), np.array(climbs), shown, outliers, paths)


def path_curves(swaps: Swaps, temperature: float) -> dict[str, Any]:
    """Energies along the paths, and the free energy of the ReLU's."""
    fraction = np.linspace(0, 1, len(swaps.paths["linear"].energies))
    free = split_free_energy(swaps.shown, temperature, 1, fraction * np.pi / 2)
    rows = {name: path.energies - path.energies[0] for name, path in swaps.paths.items()}
    return {
        "x": fraction,
        "values": [*rows.values(), free],
        "names": [*rows, "ReLU, free energy"],
        "colors": [figures.COLORS[name] for name in ("sigmoidal", "control", "linear", "relu", "relu")],
        "styles": ["-", "-", "-", "-", ":"],
        "widths": [1.6, 6.0, 3.6, 1.4, 1.6],  # three of them lie on each other
        "xlabel": "fraction of the path",
        "ylabel": r"energy $U - U_{\rm start}$",
    }


def check_crossings(found: Crossings) -> dict[str, Any]:
    """A24: neurons cross at rates that follow the theory's passes; the arrays of the figure."""
    slope, error = found.slope()
    rng = np.random.default_rng(0)
    dealt = found._replace(heights=[rng.permutation(height) for height in found.heights])
    check(
        "A24",
        "β of the rates of code switches, e^−βΔF with the theory's passes ΔF",
        slope,
        1.0,
        error,
        standard_errors(3),
        control=("passes dealt to the ways at random", np.array(dealt.slope()[0])),
        sampler=found.local,
        note="diagnosed by energy and training error, within the codes; "
        + "; ".join(
            f"T = {t:g}: lowest pass {height.min():.1f}, {count.sum()} switches"
            for t, height, count in zip(found.temperatures, found.heights, found.counts, strict=True)
        ),
        because="passes of the order of the thermal energy are no rare events",
    )
    seen = [count > 0 for count in found.counts]
    x = np.concatenate([height[some] for height, some in zip(found.heights, seen, strict=True)])
    grid = np.linspace(0, x.max() + 0.5, 40)
    owner = np.repeat(np.arange(len(seen)), [some.sum() for some in seen])
    counts, exposures = (
        np.concatenate([part[some] for part, some in zip(parts, seen, strict=True)])
        for parts in (found.counts, found.exposures)
    )
    attempts = [
        count.sum() / (exposure @ np.exp(-height))
        for height, count, exposure in zip(found.heights, found.counts, found.exposures, strict=True)
    ]
    own = owner == np.arange(len(seen))[:, None]
    return {
        "x": grid,
        "values": [attempt * np.exp(-grid) for attempt in attempts],
        "names": [f"T = {t:g}" for t in found.temperatures],
        "sampled_x": x,
        "sampled": np.where(own, counts / exposures, np.nan),
        "sampled_errors": np.where(own, np.sqrt(counts) / exposures, np.nan),
        "scales": ("linear", "log"),
        "xlabel": r"height of the pass $\Delta F$",
        "ylabel": "rate per neuron of the code",
    }


def check_paths(found: Swaps, size: int, temperature: float, hot: float = 0.16) -> None:
    """A24: barriers of energy and of free energy, and how they grow with N = P."""
    paths, end = found.paths, f"N = P = {found.shown}, T = {temperature}"
    check(
        "A24",
        f"energy to exchange two sigmoidal neurons of different codes, {end} (thermal energy: 1)",
        np.array(paths["other code"].barrier),
        above(5),
        control=("two neurons of the same code", np.array(paths["same code"].barrier)),
        note=f"two neurons of a linear network: {paths['linear'].barrier:.1g}",
        because="the barrier is of the order of the thermal energy at this size",
    )
    check(
        "A24",
        f"energy to exchange two ReLU outliers directly, {end}",
        np.array(found.outliers.barrier),
        above(5),
        control=("an outlier and a neuron of the bulk", np.array(paths["ReLU"].barrier)),
        note="by way of a neuron of the bulk two outliers change places at no energy, too",
        because="the path found a way around",
    )
    sizes = np.array([125, 250, 500, 1000])
    angles = np.linspace(0, np.pi / 2, 101)
    heights = {
        "sigmoidal, lowest pass": [passes(n, temperature).lowest for n in sizes],
        "ReLU": [split_free_energy(n, temperature, 1, angles).max() for n in sizes],
        "temperature not rescaled": [passes(n, temperature * n / sizes[1]).lowest for n in sizes],
    }
    fits = {name: statistics.fit_power_law(sizes, values) for name, values in heights.items()}
    energy = statistics.fit_power_law(found.sizes, found.climbs)
    control = ("temperature that grows with N", np.float64(fits.pop("temperature not rescaled").exponent))
    for name, fit in fits.items():
        each = ", ".join(f"{n}: {height:.1f}" for n, height in zip(sizes, heights[name], strict=True))
        check(
            "A24",
            f"exponent in N = P of the free-energy barrier, {name}",
            fit.exponent,
            1.0,
            fit.standard_error,
            absolute(0.15),
            control=control,
            note=f"barriers at N = P = {each}",
            because="corrections of relative order log P / P",
        )
    check(
        "A24",
        f"free-energy barrier that a sigmoidal neuron has to cross, N = P = {size}, T = {temperature}",
        np.array(passes(size, temperature).lowest),
        above(5),
        control=(f"at T = {hot}, above the critical temperature", np.array(passes(size, hot).lowest)),
        because="at this P the pass is low enough to be crossed now and then",
    )
    check(
        "A24",
        f"exponent of the energy to exchange sigmoidal neurons, N = P = {', '.join(map(str, found.sizes))}",
        energy.exponent,
        1.0,
        energy.standard_error,
        absolute(0.25),
        control=control,
        note=f"barriers {', '.join(f'{climb:.1f}' for climb in found.climbs)}: a line with an offset",
        because="a constant adds to the part that is proportional to N",
    )
