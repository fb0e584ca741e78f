"""Independent sigmoidal networks with one hidden layer, in equilibrium, against theory."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC
from coding_schemes.theory import finite_width, sigmoidal
from companion import figures
from companion.checks import Control, beside, check, p_value, standard_errors
from matplotlib.figure import Figure
from scipy import stats
from scipy.integrate import cumulative_trapezoid

from experiments.runs import Ends, both_ends, one_network

CODES = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)  # in equilibrium at y₋ = ½
NAMES = tuple(coding.code_name(code) for code in CODES)
GREENS = ("#A5DAC6", "#55BC97", figures.COLORS["sigmoidal"])  # of sizes
LEVEL = 0.01 / 12  # of one test in twelve
FORGOTTEN = 8  # samples after which a neuron's readouts have forgotten where about their peak they were
OPTIONS: dict[str, Any] = {"thinning": 2, "method": HMC(1.0)}
NEIGHBOR = 0.1  # distance in y₋ of the task whose theory is the control


@cache
def solve(size: int, y_minus: float, temperature: float, y_plus: float = 1.0) -> sigmoidal.Solution:
    """Theory of the toy task at N → ∞ and P = size."""
    solution = sigmoidal.solve(tasks.toy(size, y_plus=y_plus, y_minus=y_minus), temperature)
    assert solution.converged
    return solution


# --- independent networks -----------------------------------------------------------------------


@dataclass(frozen=True)
class Networks(Ends):
    """Independent networks of one posterior, half of them annealed from the prior, half planted in theory."""

    @cached_property
    def readouts(self) -> np.ndarray:
        """Readouts, shape (networks, samples, N, m)."""
        return np.concatenate([half.readouts for half in self.halves])

    @cached_property
    def activations(self) -> np.ndarray:
        """Activations in the last sample of each network, shape (networks, N, P)."""
        return np.concatenate([half.activations()[:, -1] for half in self.halves])

    @cached_property
    def codes(self) -> np.ndarray:
        """Codes of the neurons, shape (networks, samples, N, C)."""
        return np.concatenate([half.codes() for half in self.halves])

    @cached_property
    def numbers(self) -> np.ndarray:
        """Number of neurons with each of the codes in use, shape (networks, samples, 4)."""
        return np.stack([np.all(self.codes == code, axis=-1).sum(-1) for code in CODES], axis=-1)

    @cached_property
    def predicted_scatter(self) -> np.ndarray:
        """Second and fourth central moments of these numbers in theory, of whole numbers, shape (2, 4)."""
        return finite_width.number_moments(self.theory, CODES, self.width)

    def preactivations(self, code: int, class_index: int) -> list[np.ndarray]:
        """Preactivations of a code's neurons on a class, in the last sample of each network."""
        layers = [half.preactivations[0][:, -1] for half in self.halves if half.preactivations]
        member = np.all(self.codes[:, -1] == CODES[code], axis=-1)
        inputs = self.task.labels == class_index
        return [z[own][:, inputs].ravel() for z, own in zip(np.concatenate(layers), member, strict=True)]


def posed(size: int, y_minus: float, temperature: float) -> tuple[Posterior, sigmoidal.Solution]:
    """The toy task for networks of N = P = size: their posterior, and its theory."""
    task = tasks.toy(size, y_minus=y_minus)
    return Posterior(task, Network(1, size, "sigmoidal"), temperature), solve(size, y_minus, temperature)


def networks(
    key: Any, posterior: Posterior, theory: sigmoidal.Solution, count: int, num_samples: int, num_warmup: int
) -> Networks:
    """Draw `count` independent networks; a sample is taken after every second transition.

    Half start from the prior and are cooled for 2 num_warmup transitions, half are planted, with num_warmup.
    """
    from_prior, from_theory, *plants = jax.random.split(key, 2 + count // 2)
    drawn = both_ends(
        (from_prior, from_theory, jnp.stack(plants)),
        posterior,
        theory,
        tolerance=0.5 / posterior.network.width,
        prior_warmup=2 * num_warmup,
        num_samples=num_samples,
        num_warmup=num_warmup,
        num_chains=count // 2,
        **OPTIONS,
    )
    return Networks(drawn.posterior, drawn.theory, drawn.meeting)


def neighbor(networks: Networks, y_minus: float = 0.0, y_plus: float = 0.0) -> sigmoidal.Solution:
    """Theory of the same network with targets shifted by so much."""
    targets = networks.theory.problem.targets
    shifted = round(float(targets.min()) + y_minus, 6), round(float(targets.max()) + y_plus, 6)
    return solve(networks.width, shifted[0], networks.theory.temperature, shifted[1])


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over networks, the first axis, and its standard error from their spread."""
    return values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5


def scatter(networks: Networks) -> tuple[np.ndarray, np.ndarray]:
    """Variance v of the number of neurons with each code in one network, and its standard error in theory.

    That is √((μ₄ − v²)/n) for n effective draws, of which every network is one at least. Where numbers are
    nearly always the same whole one, it is far above that of a Gaussian, v √(2/n).
    """
    numbers = networks.numbers.astype(float)
    found = numbers.var(1).mean(0) + numbers.mean(1).var(0, ddof=1)  # within networks and between: unbiased
    draws = np.fmax(statistics.effective_sample_size(numbers), len(numbers))
    variance, fourth = networks.predicted_scatter
    return found, np.sqrt((fourth - variance**2) / draws)


def independent_scatter(networks: Networks) -> np.ndarray:
    """The variance of neurons that choose their codes independently."""
    shares = sigmoidal.measured_occupancies(networks.theory, CODES)
    return networks.width * shares * (1 - shares)


def _size(networks: Networks) -> str:
    """N, T and the task, as captions say them."""
    theory = networks.theory
    y_minus = float(theory.problem.targets.min())
    return f"N = P = {networks.width}, T = {theory.temperature:g}, y₋ = {y_minus:g}."


def sample_shown(networks: Networks) -> dict[str, Any]:
    """Figure: the last sample of the first network, neurons sorted by code."""
    phi = networks.activations[0]
    return one_network(
        networks,
        phi,
        coding.sort_by_code(networks.codes[0, -1], phi),
        "One sampled sigmoidal network: a few groups of neurons with one code each, plain to see "
        "in the activations and in the readouts. Neurons sorted by code; within a class activations keep "
        "fluctuating from input to input. Outputs (bottom) sit on the targets. "
        f"{_size(networks)} Paper A, Fig. 2.",
    )


def predicted_numbers(networks: Networks, theory: sigmoidal.Solution) -> np.ndarray:
    """Number of neurons with each code, with its 1/N."""
    return finite_width.numbers(theory, CODES, networks.width)


def shift(networks: Networks) -> str:
    """What finite width adds to these numbers, as text."""
    shares = sigmoidal.measured_occupancies(networks.theory, CODES)
    changes = predicted_numbers(networks, networks.theory) - networks.width * shares
    terms = [f"{c:+.2f}".replace("-", "−") + f" for {name}" for c, name in zip(changes, NAMES, strict=True)]
    return ", ".join(terms)


def check_numbers(networks: Networks) -> None:
    """A8: how many neurons have each code."""
    estimate = mean_and_spread(networks.numbers.mean(1))
    check(
        "A8",
        f"number of neurons with codes {', '.join(NAMES)}, N = P = {networks.width}",
        *beside(estimate, predicted_numbers(networks, networks.theory)),
        standard_errors(3),
        control=Control(
            f"theory at y₋ + {NEIGHBOR}", expected=predicted_numbers(networks, neighbor(networks, NEIGHBOR))
        ),
        sampler=networks.meeting,
        because="corrections of second order in 1/N",
    )


def check_scatter(networks: Networks) -> None:
    """D8: how far these numbers fluctuate from network to network."""
    check(
        "D8",
        f"variance of the number of neurons with codes {', '.join(NAMES)}, N = P = {networks.width}",
        *beside(scatter(networks), networks.predicted_scatter[0]),
        standard_errors(3),
        control=Control("independent neurons", expected=independent_scatter(networks)),
        sampler=networks.meeting,
        because="corrections of higher order in 1/N",
    )


def number_bars(networks: Networks) -> dict[str, Any]:
    """Figure: numbers of neurons over the codes."""
    mean, error = mean_and_spread(networks.numbers.mean(1))
    return {
        "plot_function": figures.bars,
        "name": "numbers",
        "caption": "Three large groups and a rare fourth, in the numbers that theory predicts. Bars: number "
        f"of neurons with each code, averaged over {len(networks.readouts)} networks, with the standard "
        f"error from their spread; dots: theory with its 1/N correction. {_size(networks)} Paper A, Fig. 4a.",
        "values": mean,
        "errors": error,
        "groups": NAMES,
        "points": [predicted_numbers(networks, networks.theory)],
        "point_names": ["theory"],
        "colors": [figures.COLORS["sigmoidal"]],
        "ylabel": "number of neurons",
    }


def scatter_bars(over_sizes: Sequence[Networks]) -> dict[str, Any]:
    """Figure: standard deviation of these numbers by code and size; theory at the largest."""
    found, errors = np.swapaxes([scatter(networks) for networks in over_sizes], 0, 1)
    largest = over_sizes[-1]
    return {
        "plot_function": figures.bars,
        "name": "scatter",
        "caption": "The number of neurons with a code fluctuates by one neuron, not by the square root of "
        "the number. Bars: standard deviation over networks and samples, with standard errors, "
        f"{', '.join(str(len(each.readouts)) for each in over_sizes)} networks; dots: theory, triangles: "
        f"independent neurons, both at the largest, {_size(largest)} Not in the paper.",
        "values": np.sqrt(found).T[None],
        "errors": (0.5 * errors / np.sqrt(found)).T[None],
        "groups": NAMES,
        "names": [f"N = {networks.width}" for networks in over_sizes],
        "points": np.sqrt([largest.predicted_scatter[0], independent_scatter(largest)]),
        "point_names": ["theory", "independent neurons"],
        "colors": GREENS[-len(over_sizes) :],
        "ylabel": "s.d. of the number of neurons",
    }


# --- densities ----------------------------------------------------------------------------------


def readout_pvalues(networks: Networks, theory: sigmoidal.Solution) -> np.ndarray:
    """Kolmogorov–Smirnov tests of readouts, by code and output; codes that the theory lacks are left out."""
    grid, found = np.linspace(-3, 3, 4001), []
    readouts, codes = networks.readouts[:, ::FORGOTTEN], networks.codes[:, ::FORGOTTEN]
    for code in filter(theory.occupancy, CODES):
        draws, row = readouts[np.all(codes == code, axis=-1)], _row(theory, code)
        for r in range(3):
            density = sigmoidal.readout_density(theory, r, grid, row)
            cumulative = cumulative_trapezoid(density, grid, initial=0)
            found.append(stats.kstest(draws[:, r], lambda a, c=cumulative: np.interp(a, grid, c)).pvalue)
    return np.reshape(found, (-1, 3))


def _row(solution, code):
    return int(np.flatnonzero(np.all(solution.codes == code, axis=1))[0])


def check_readouts(networks: Networks) -> None:
    """A9: readouts code by code and output by output; theory at y₋ ± 0.1 must fail, whichever fits better."""
    draws = np.all(networks.codes[:, ::FORGOTTEN, :, None] == CODES, axis=-1).sum((0, 1, 2))
    both = [readout_pvalues(networks, neighbor(networks, shift)) for shift in (NEIGHBOR, -NEIGHBOR)]
    wrong = max(both, key=np.min)
    check(
        "A9",
        f"p-values of the readouts, 4 codes × 3 outputs, N = P = {networks.width}, smallest",
        readout_pvalues(networks, networks.theory),
        p_value(LEVEL),
        control=(f"theory at y₋ + {NEIGHBOR} or − {NEIGHBOR}, whichever fits better", wrong),
        sampler=networks.meeting,
        note=f"{draws.min()} to {draws.max()} draws of every code, from every {FORGOTTEN}th sample; the "
        f"control fails in {np.sum(wrong < LEVEL)} of {wrong.size}",
        because="peaks are displaced by a correction of order 1/N",
    )


def readout_densities(networks: Networks) -> dict[str, Any]:
    """Figure: readouts of every fourth sample under the density of theory."""
    grid = np.linspace(-2.6, 2.6, 1041)
    return {
        "plot_function": figures.densities,
        "name": "readout_posterior",
        "caption": "Readout weights are found at the peaks of the theory. Histograms: every "
        f"fourth sample of {len(networks.readouts)} networks; lines: theory at the same P. {_size(networks)} "
        "Paper A, Fig. 4a.",
        "panels": True,
        "colors": [figures.COLORS["sigmoidal"]],
        "samples": networks.readouts[:, ::4].reshape(-1, 3).T,
        "grid": grid,
        "density": [sigmoidal.readout_density(networks.theory, r, grid) for r in range(3)],
        "names": [f"output {r}" for r in range(3)],
    }


def preactivation_density(networks: Networks) -> dict[str, Any]:
    """For `figures.densities`: preactivations of code 1-1-0 on class 0 under the density of theory."""
    grid = np.linspace(-3, 5, 321)
    return {
        "samples": np.concatenate(networks.preactivations(0, 0))[:20000],
        "grid": grid,
        "density": sigmoidal.preactivation_density(networks.theory, _row(networks.theory, CODES[0]), 0, grid),
        "colors": [figures.COLORS["sigmoidal"]],
        "xlabel": "preactivation $z$",
    }


def check_preactivations(networks: Networks) -> None:
    """A10: the density of preactivations of code 1-1-0 on class 0, mean and variance with their 1/N."""
    draws = np.concatenate(networks.preactivations(0, 0))

    def pvalue(theory: sigmoidal.Solution) -> np.float64:
        row, widths = _row(theory, CODES[0]), (networks.width, np.inf)
        (mean, variance), (limit, at_limit) = (
            finite_width.preactivation_moments(theory, CODES[0], 0, width) for width in widths
        )
        moved = limit + (draws - mean) * np.sqrt(at_limit / variance)
        return np.float64(
            stats.kstest(moved, lambda z: sigmoidal.preactivation_cdf(theory, row, 0, z)).pvalue
        )

    check(
        "A10",
        f"p-value of the preactivations, code 1-1-0 on class 0, {draws.size} draws, N = P = {networks.width}",
        pvalue(networks.theory),
        p_value(0.01),
        control=("theory at y₊ = 1.2", pvalue(neighbor(networks, y_plus=0.2))),
        sampler=networks.meeting,
        because="corrections of order 1/N to more than mean and variance",
    )


def _variance(networks, width):
    """Theory's variance of these preactivations at width N."""
    return finite_width.preactivation_moments(networks.theory, CODES[0], 0, width)[1]


def over_width(**arrays: Any) -> Figure:
    """Sampled quantities over 1/N under lines of theory, the axis labeled by N."""
    figure = figures.curves(**arrays)
    axis = figure.axes[0]
    axis.set_xticks(np.asarray(arrays["x"]), [f"{1 / x:.0f}" for x in np.asarray(arrays["x"])])
    return figure


def variance_curves(over_sizes: Sequence[Networks]) -> dict[str, Any]:
    """For `over_width`: variance of these preactivations, sampled and in theory without and with its 1/N."""
    sizes = np.array([networks.width for networks in over_sizes])
    each = [np.array([z.var() for z in networks.preactivations(0, 0)]) for networks in over_sizes]
    variance, error = np.transpose([mean_and_spread(values) for values in each])
    return {
        "x": 1 / sizes,
        "values": [
            [_variance(networks, np.inf) for networks in over_sizes],
            [_variance(networks, networks.width) for networks in over_sizes],
        ],
        "names": ["N → ∞ at this P", "with its 1/N correction"],
        "styles": ["--", "-"],
        "colors": [figures.COLORS["sigmoidal"], figures.COLORS["theory"]],
        "sampled_x": 1 / sizes,
        "sampled": [variance],
        "sampled_errors": [error],
        "xlabel": "width $N$, in steps of $1/N$",
        "ylabel": "variance of $z$",
    }


def check_variances(over_sizes: Sequence[Networks], curves: dict[str, Any]) -> None:
    """A10: the variance of preactivations at every size, as `variance_curves` has it."""
    limit, corrected = np.array(curves["values"])
    check(
        "A10",
        "variance of preactivations, code 1-1-0 on class 0, N = P = "
        + ", ".join(str(networks.width) for networks in over_sizes),
        curves["sampled"][0],
        corrected,
        curves["sampled_errors"][0],
        standard_errors(3),
        control=Control("a variance that falls as 1/N", expected=corrected[0] * curves["x"] / curves["x"][0]),
        sampler=[networks.meeting for networks in over_sizes],
        because="at the smallest size the correction of second order in 1/N",
        note=f"without the 1/N: {', '.join(f'{v:.4f}' for v in limit)}",
    )
