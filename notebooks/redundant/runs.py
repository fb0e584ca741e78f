"""What the chapter on redundant coding runs and measures: sigmoidal networks, one by one, against theory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, diagnose, statistics, tasks, training
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, TwoEnded, compare_ends, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import deep_sigmoidal, finite_width, sigmoidal
from companion.findings import Estimate, less, spread
from companion.workbench import Run, Starts, both_starts, draw, untrained
from scipy import stats
from scipy.integrate import cumulative_trapezoid

CODES = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)  # in equilibrium at y₋ = ½
NAMES = tuple(coding.code_name(code) for code in CODES)
BELOW = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], *CODES[:3]], dtype=bool)  # in the first of two layers
FORGOTTEN = 8  # samples after which a neuron's readouts have forgotten where about their peak they were
OPTIONS: dict[str, Any] = {"thinning": 2, "method": HMC(1.0)}


# ---- one hidden layer: independent networks ---------------------------------------------------


@cache
def solve(num_inputs: int, y_minus: float, temperature: float, y_plus: float = 1.0) -> sigmoidal.Solution:
    """Theory of the toy task for N → ∞ at this P."""
    solution = sigmoidal.solve(tasks.toy(num_inputs, y_plus=y_plus, y_minus=y_minus), temperature)
    assert solution.converged
    return solution


@dataclass(frozen=True)
class Networks(Starts):
    """Independent networks of one posterior, half of them annealed from the prior, half planted in theory."""

    @cached_property
    def readouts(self) -> np.ndarray:
        """Readouts, shape (networks, samples, N, m)."""
        return np.concatenate([half.readouts for half in self.halves])

    @cached_property
    def codes(self) -> np.ndarray:
        """Codes of the neurons, shape (networks, samples, N, C)."""
        return np.concatenate([half.codes() for half in self.halves])

    @cached_property
    def numbers(self) -> np.ndarray:
        """Number of neurons with each of the codes in use, shape (networks, samples, 4)."""
        return numbers_with(self.codes, CODES)

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        shared = {"N": self.width, "P": self.task.num_inputs, "T": float(self.theory.temperature)}
        return shared | {"y₋": float(self.theory.problem.targets.min()), "networks": len(self.readouts)}

    def neighbor(self, y_minus: float = 0.0, y_plus: float = 0.0) -> sigmoidal.Solution:
        """Theory of the same network with targets shifted by so much."""
        targets = self.theory.problem.targets
        shifted = round(float(targets.min()) + y_minus, 6), round(float(targets.max()) + y_plus, 6)
        return solve(self.task.num_inputs, shifted[0], self.theory.temperature, shifted[1])

    def preactivations(self, code: np.ndarray, class_index: int) -> list[np.ndarray]:
        """Preactivations of a code's neurons on a class, in the last sample of each network."""
        layers = [half.preactivations[0][:, -1] for half in self.halves if half.preactivations]
        member = np.all(self.codes[:, -1] == code, axis=-1)
        inputs = self.task.labels == class_index
        return [z[own][:, inputs].ravel() for z, own in zip(np.concatenate(layers), member, strict=True)]


def networks(
    key: Any,
    width: int,
    num_inputs: int,
    temperature: float,
    *,
    num_networks: int,
    num_samples: int,
    num_warmup: int,
    y_minus: float = 0.5,
) -> Networks:
    """Draw independent networks on the toy task; a sample is taken after every second transition.

    Half start from the prior and are cooled for 2 num_warmup transitions, half are planted, with num_warmup.
    """
    posterior = Posterior(tasks.toy(num_inputs, y_minus=y_minus), Network(1, width, "sigmoidal"), temperature)
    theory, lengths = solve(num_inputs, y_minus, temperature), (num_networks, num_samples, num_warmup)
    drawn = _halves(key, posterior, theory, *lengths, **OPTIONS)
    return Networks(drawn.posterior, drawn.theory, drawn.meeting)


def _halves(
    key: Any,
    posterior: Posterior,
    theory: Any,
    num_networks: int,
    num_samples: int,
    num_warmup: int,
    **options: Any,
) -> Starts:
    """Independent networks, half from the prior, with twice the warm-up, half planted."""
    from_prior, from_theory, *plants = jax.random.split(key, 2 + num_networks // 2)
    return both_starts(
        (from_prior, from_theory, jnp.stack(plants)),
        posterior,
        theory,
        tolerance=0.5 / posterior.network.width,
        prior_warmup=2 * num_warmup,
        num_samples=num_samples,
        num_warmup=num_warmup,
        num_chains=num_networks // 2,
        **options,
    )


def numbers_with(codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Number of neurons with each wanted code (k, C) among codes (…, N, C), shape (…, k)."""
    return np.stack([np.all(codes == code, axis=-1).sum(-1) for code in wanted], axis=-1)


def mean_numbers(each: Sequence[Networks], half: int | None = None) -> Estimate:
    """Mean number of neurons with each code, shape (sizes, codes); of one start, 0 the prior, 1 theory."""

    def chosen(networks: Networks) -> np.ndarray:
        numbers = networks.numbers.mean(1)
        return numbers if half is None else np.split(numbers, 2)[half]

    return Estimate(*np.swapaxes([spread(chosen(networks)) for networks in each], 0, 1))


def scatter(networks: Networks, half: int | None = None) -> Estimate:
    """Variance v of the number of neurons with each code in one network, and its standard error in theory.

    Of all networks, or of one start, 0 the prior, 1 theory.
    That is √((μ₄ − v²)/n) for n effective draws, of which every network is one at least. Where numbers are
    nearly always the same whole one, it is far above that of a Gaussian, v √(2/n).
    """
    numbers = networks.numbers.astype(float)
    numbers = numbers if half is None else np.split(numbers, 2)[half]
    found = covariance(numbers, numbers).diagonal()
    draws = np.fmax(statistics.effective_sample_size(numbers), len(numbers))
    variance, fourth = finite_width.number_moments(networks.theory, CODES, networks.width)
    return Estimate(found, np.sqrt((fourth - variance**2) / draws))


def independent_scatter(networks: Networks) -> np.ndarray:
    """The variance of neurons that choose their codes independently."""
    shares = sigmoidal.measured_occupancies(networks.theory, CODES)
    return networks.width * shares * (1 - shares)


def shift(networks: Networks) -> str:
    """What finite width adds to the numbers of neurons, as text."""
    shares = sigmoidal.measured_occupancies(networks.theory, CODES)
    changes = finite_width.numbers(networks.theory, CODES, networks.width) - networks.width * shares
    return ", ".join(
        f"{c:+.2f}".replace("-", "−") + f" for {name}" for c, name in zip(changes, NAMES, strict=True)
    )


# ---- pairs of neurons ---------------------------------------------------------------------------


def pair_correlation(variance: Estimate, mean: np.ndarray, width: Any) -> Estimate:
    """Correlation coefficient ρ of "has the code" between two neurons of one layer.

    The neurons are alike, so that the number n of those with the code has the variance

        V = N p(1 − p) [1 + (N − 1) ρ],   p = ⟨n⟩/N.

    The error is that of V; p is known much better.

    Args:
        variance: V, of any shape.
        mean: ⟨n⟩, of this shape.
        width: N, one or several that broadcast.

    Returns:
        ρ of this shape; NaN where no neuron has the code, or all have it.
    """
    independent = mean * (1 - mean / width)
    with np.errstate(divide="ignore", invalid="ignore"):
        value, error = (np.divide(part, independent) for part in variance)
    return Estimate((value - 1) / (width - 1), error / (width - 1))


def two_layers(
    key: Any, width: int, *, num_networks: int, num_samples: int, num_warmup: int, temperature: float
) -> Starts:
    """Draw independent networks with two hidden layers, N = P, y₋ = ½; half from the prior, half planted."""
    task = tasks.toy(width, y_minus=0.5)
    posterior = Posterior(task, Network(2, width, "sigmoidal"), temperature)
    theory, lengths = deep_sigmoidal.solve(task, 2, temperature), (num_networks, num_samples, num_warmup)
    return _halves(key, posterior, theory, *lengths, store=("preactivations",))


def numbers_by_layer(networks: Starts) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of neurons with codes BELOW in layer 1, CODES in layer 2, (networks, samples, codes) each."""
    lower, upper = (np.concatenate([half.codes(k) for half in networks.halves]) for k in (0, 1))
    return numbers_with(lower, BELOW), numbers_with(upper, CODES)


def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Covariance over the posterior of series (networks, samples, k) and (networks, samples, l), (k, l).

    Within networks and between them: unbiased, as networks are independent, whatever samples of one are.
    """
    means = one.mean(1), other.mean(1)
    inside = [x - mean[:, None] for x, mean in zip((one, other), means, strict=True)]
    across = [mean - mean.mean(0) for mean in means]
    within = np.einsum("rsk,rsl->kl", *inside) / (one.shape[0] * one.shape[1])
    return within + across[0].T @ across[1] / (len(one) - 1)


def layer_correlation(lower: np.ndarray, upper: np.ndarray, width: int) -> Estimate:
    """Correlation coefficient of "has code γ" in one layer with "has code δ" in another, of any two neurons.

    With n neurons of code γ in the one and m of code δ in the other,

        ρ = Cov(n, m) / (N² √(p(1 − p) q(1 − q))),   p = ⟨n⟩/N, q = ⟨m⟩/N,

    and the jackknife over networks gives its error.

    Args:
        lower: n, shape (networks, samples, k); three networks or more.
        upper: m, shape (networks, samples, l).
        width: N of either layer.

    Returns:
        ρ, shape (k, l).
    """

    def found(kept: Any) -> np.ndarray:
        p, q = (numbers[kept].mean((0, 1)) / width for numbers in (lower, upper))
        scale = np.sqrt(np.outer(p * (1 - p), q * (1 - q)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return covariance(lower[kept], upper[kept]) / (width**2 * scale)

    each = np.arange(len(lower))
    without = np.array([found(each != k) for k in each])
    return Estimate(found(each), np.sqrt((len(each) - 1) * without.var(0)))


# ---- densities ----------------------------------------------------------------------------------

MOST_DRAWS = 20_000  # of a test


def _row(solution: sigmoidal.Solution, code: np.ndarray) -> int:
    return int(np.flatnonzero(np.all(solution.codes == code, axis=1))[0])


def _moved(draws: np.ndarray, at_width: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Draws whose mean and variance are those of N → ∞ if at this width they are theory's."""
    return limit[0] + (draws - at_width[0]) * np.sqrt(limit[1] / at_width[1])


def readout_pvalues(networks: Networks, theory: sigmoidal.Solution) -> np.ndarray:
    """Kolmogorov–Smirnov tests of readouts, by code and output; codes that the theory lacks are left out.

    Theory's peaks are displaced and widened by their 1/N.
    """
    grid, found = np.linspace(-3, 3, 4001), []
    readouts, codes = networks.readouts[:, ::FORGOTTEN], networks.codes[:, ::FORGOTTEN]
    for code in filter(theory.occupancy, CODES):
        draws, row = readouts[np.all(codes == code, axis=-1)], _row(theory, code)
        for r in range(3):
            density = sigmoidal.readout_density(theory, r, grid, row)
            cumulative = cumulative_trapezoid(density, grid, initial=0)
            both = [finite_width.readout_moments(theory, code, r, N) for N in (networks.width, np.inf)]
            moved = _moved(draws[:, r], *both)
            found.append(stats.kstest(moved, lambda a, c=cumulative: np.interp(a, grid, c)).pvalue)
    return np.reshape(found, (-1, 3))


def combined(pvalues: np.ndarray) -> np.float64:
    """Fisher's combination of independent tests."""
    return np.float64(stats.combine_pvalues(np.fmax(pvalues, 1e-300).ravel()).pvalue)


def thinned(draws: np.ndarray, width: int) -> np.ndarray:
    """Draws, evenly spaced: so few that corrections of order 1/N to a density's shape stay in their scatter.

    A test of n draws sees distances of 1/√n; n = N²/4 of them see 2/N.
    """
    count = min(max(1, width**2 // 4), MOST_DRAWS)
    return draws[:: -(-len(draws) // count)]


def preactivation_pvalue(
    networks: Networks, theory: sigmoidal.Solution, draws: np.ndarray, gaussian: bool = False
) -> np.float64:
    """Kolmogorov–Smirnov test of preactivations, code 1-1-0 on class 0, mean and variance with their 1/N.

    Against theory's density, or against the Gaussian of its mean and variance.
    """
    widths = networks.width, np.inf
    both = [finite_width.preactivation_moments(theory, CODES[0], 0, width) for width in widths]
    moved = _moved(draws, *both)
    if gaussian:
        mean, variance = both[1]
        return np.float64(stats.kstest(moved, stats.norm(mean, variance**0.5).cdf).pvalue)
    row = _row(theory, CODES[0])
    return np.float64(stats.kstest(moved, lambda z: sigmoidal.preactivation_cdf(theory, row, 0, z)).pvalue)


def preactivation_density(networks: Networks, grid: np.ndarray) -> np.ndarray:
    """Theory's density of these preactivations."""
    return sigmoidal.preactivation_density(networks.theory, _row(networks.theory, CODES[0]), 0, grid)


def preactivation_variance(theory: sigmoidal.Solution, width: float) -> float:
    """Theory's variance of these preactivations at width N."""
    return finite_width.preactivation_moments(theory, CODES[0], 0, width)[1]


# ---- three hidden layers --------------------------------------------------------------------------

NUM_SAMPLES = 6  # stored per deep network; the last one is looked at
RARE = 0.03  # codes with fewer neurons are not counted
THRESHOLDS = (0.4, 0.5, 0.6)  # of ⟨φ⟩, above which a class is on


@dataclass(frozen=True)
class Deep:
    """Independent networks, cooled in steps or started at T at once.

    Attributes:
        posterior: what was sampled.
        meeting: networks from the two starts, held against each other.
        layers: activations of each layer in the networks' last samples, (networks, N, P) each.
        noise: the same of networks drawn from the prior.
    """

    posterior: Posterior
    meeting: TwoEnded
    layers: list[np.ndarray]
    noise: list[np.ndarray]

    @property
    def task(self) -> Task:
        """What was learned."""
        assert self.posterior.task is not None
        return self.posterior.task

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        network, inputs = self.posterior.network, self.task.num_inputs
        sizes = {"L": network.depth, "N": network.width, "P": inputs}
        return sizes | {"T": float(self.posterior.temperature), "y₋": -0.5, "networks": len(self.layers[0])}

    def by_layer(self, measure: Callable[[np.ndarray], Any]) -> tuple[np.ndarray, np.ndarray]:
        """A measure of activations (networks, N, P) by network and layer: sampled, and untrained."""
        sampled, noise = (
            np.stack([measure(phi) for phi in each], axis=1) for each in (self.layers, self.noise)
        )
        return sampled, noise

    def sharpness(self) -> tuple[np.ndarray, np.ndarray]:
        """Variance within classes over variance between them, tr Σ_W / tr Σ_B, by network and layer."""
        return self.by_layer(lambda phi: coding.neural_collapse(phi, self.task.labels).variability)

    def within(self) -> tuple[np.ndarray, np.ndarray]:
        """Variance within classes, likewise."""
        labels, share = self.task.labels, np.array(self.task.class_counts) / self.task.num_inputs
        return self.by_layer(lambda phi: np.square(coding.class_deviations(phi, labels)).mean(1) @ share)

    def num_codes(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Number of codes with more than RARE of the neurons, likewise."""
        read = lambda phi: coding.codes(phi, self.task.labels, threshold=threshold)  # noqa: E731
        return self.by_layer(lambda phi: [num_codes(own) for own in read(phi)])


def num_codes(codes: np.ndarray) -> int:
    """Number of codes (N, C) with more than RARE of the neurons."""
    return int(np.sum(coding.occupancy(codes).fractions > RARE))


def deep_networks(
    key: Any, depth: int, width: int, *, num_networks: int, num_warmup: int, temperature: float
) -> Deep:
    """Draw sigmoidal networks, N = P, y₋ = −½: half of them cooled in steps, half at once."""
    posterior = Posterior(tasks.toy(width, y_minus=-0.5), Network(depth, width, "sigmoidal"), temperature)
    first, second, third = jax.random.split(key, 3)
    options: dict[str, Any] = {"num_chains": num_networks // 2, "num_warmup": num_warmup}
    cooled = sample(posterior, first, NUM_SAMPLES, **options)
    quenched = sample(posterior, second, NUM_SAMPLES, anneal_from=temperature, **options)
    layers = [
        np.concatenate([half.activations(k)[:, -1] for half in (cooled, quenched)]) for k in range(depth)
    ]
    noise = untrained(jax.random.split(third, num_networks), posterior)
    return Deep(posterior, compare_ends(cooled, quenched, posterior), layers, noise)


def one_of_each_layer(deep: Deep) -> dict[str, Any]:
    """For `figures.kernels_and_neurons`: one network's kernels, and activations sorted by code."""
    labels, layers = deep.task.labels, [phi[0] for phi in deep.layers]
    codes = [coding.codes(phi, labels) for phi in layers]
    orders = [coding.sort_by_code(own, phi) for own, phi in zip(codes, layers, strict=True)]
    return {
        "kernels": [phi.T @ phi / len(phi) for phi in layers],
        "activations": [phi[order] for phi, order in zip(layers, orders, strict=True)],
        "codes": [names(own[order]) for own, order in zip(codes, orders, strict=True)],
        "labels": labels,
        "titles": [f"layer {k}" for k in range(1, len(layers) + 1)],
    }


def names(codes: np.ndarray) -> list[str]:
    """Name of every neuron's code."""
    return [coding.code_name(code) for code in codes]


def held_below(deep: Deep, solution: deep_sigmoidal.Solution) -> tuple[Estimate, np.ndarray, list[str]]:
    """Kernel within classes less that between them, in lower layers; theory holds each network's last layer.

    Returns:
        mean over networks, with the error of the difference; theory's mean; what of theory did not converge.
    """
    labels, found, expected, stopped = deep.task.labels, [], [], []
    for network in zip(*deep.layers, strict=True):
        *below_it, held = (deep_sigmoidal.measure(phi, labels) for phi in network)
        some = held.probabilities > 0
        theory = deep_sigmoidal.solve(
            deep.task,
            len(network),
            solution.problem.temperature,
            start=solution,
            codes=held.codes[some],
            occupancies=held.probabilities[some],
        )
        found.append([_contrast(layer.kernel_block) for layer in below_it])
        expected.append([_contrast(layer.kernel_block) for layer in theory.layers[:-1]])
        stopped += [] if theory.converged else [f"theory stopped at a residual of {theory.residual:.1g} nats"]
    error = spread(np.array(found) - np.array(expected)).error
    return Estimate(np.mean(found, axis=0), error), np.mean(expected, axis=0), stopped


def _contrast(block: np.ndarray) -> float:
    """Mean of a class block's diagonal less that of the rest."""
    same = np.eye(len(block), dtype=bool)
    return float(block[same].mean() - block[~same].mean())


def difference(one: np.ndarray, other: np.ndarray) -> Estimate:
    """Mean of one set of independent networks less that of another."""
    return less(spread(one), spread(other))


# ---- without noise --------------------------------------------------------------------------------

RATE = 6.5  # of the descent; stable below about 8


class Descended(NamedTuple):
    """Networks at the end of noise-free descent.

    Attributes:
        task: what they learned.
        activations: shape (networks, N, P).
        readouts: shape (networks, N, m).
    """

    task: Task
    activations: np.ndarray
    readouts: np.ndarray


def descend(
    key: Any, *, num_neurons: int, num_networks: int, decay_times: float, strength: float
) -> Descended:
    """Noise-free gradient descent with weight decay that knows nothing of P, N = P, y₋ = ½.

    From draws of the prior at σ_a = 1 on ½‖Y − f‖² + λ/2N Σ(weights)², λ = strength, for so many times
    N/(rate · λ) over which weight decay alone shrinks a weight.
    """
    task = tasks.toy(num_neurons, y_minus=0.5)
    posterior = Posterior(task, Network(1, num_neurons, "sigmoidal"), strength, readout_variance=1.0)
    starts = jax.vmap(posterior.prior)(jax.random.split(key, num_networks))
    steps = round(decay_times * num_neurons / (RATE * strength))
    weights, _ = training.descend(posterior, starts, num_steps=steps, learning_rate=RATE)
    return Descended(task, np.asarray(posterior.network.phi(weights.first)), np.asarray(weights.readout))


def weak_prior(key: Any, strong: Networks) -> Run:
    """As many networks as either start of `strong` has, at σ_a = 1 and the same temperature."""
    counts = {"num_chains": len(strong.readouts) // 2, "num_samples": 16, "num_warmup": 64}
    network, temperature = strong.posterior.network, strong.theory.temperature
    return draw(key, strong.task, network, temperature, 1.0, **counts, **OPTIONS)


class TwoLevels(NamedTuple):
    """How two-valued the neurons are, per network.

    Attributes:
        share: of the differences between classes that codes explain.
        rotated: the most that they explain after rotations of neuron space, which keep the kernel.
    """

    share: np.ndarray
    rotated: np.ndarray


def two_levels(activations: np.ndarray, labels: np.ndarray) -> TwoLevels:
    """Share of the differences between classes that codes explain; `diagnose` cuts rotated neurons alike."""
    found = [diagnose(phi, labels, num_rotations=199).evidence for phi in activations]
    share = np.array([evidence.two_levels for evidence in found])
    return TwoLevels(share, np.array([evidence.rotated_two_levels.max() for evidence in found]))


def between_codes(readouts: np.ndarray, codes: np.ndarray) -> float:
    """Share of the readouts' variance that lies between codes, readouts (N, m) and codes (N, C)."""
    _, which = np.unique(codes, axis=0, return_inverse=True)
    members = np.eye(which.max() + 1)[which.ravel()]
    rest = readouts - (members @ (members.T @ readouts / members.sum(0)[:, None]))
    return float(1 - np.square(rest).sum() / np.square(readouts - readouts.mean(0)).sum())


def readouts_cut(networks: Descended) -> tuple[np.ndarray, np.ndarray]:
    """`between_codes` of each network; and of Gaussian readouts of the same covariance, cut by their sign."""
    rng, codes = np.random.default_rng(0), coding.codes(networks.activations, networks.task.labels)
    gaussian = [rng.multivariate_normal(np.zeros(3), np.cov(a.T), len(a)) for a in networks.readouts]
    found = [between_codes(a, code) for a, code in zip(networks.readouts, codes, strict=True)]
    return np.array(found), np.array([between_codes(a, a > 0) for a in gaussian])
