"""What the chapter on dynamics runs and measures: networks left to their noise, and what keeps neurons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc.hmc import HMCState
from coding_schemes import barriers, coding, planting, statistics, tasks, training
from coding_schemes.networks import Network, is_bounded
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import HMC, Convergence, PlainLangevin, Samples, convergence, sample
from coding_schemes.sampling.hmc import transition
from coding_schemes.tasks import Task
from coding_schemes.theory import condensation, deep_sigmoidal, dynamics, linear, relu, sigmoidal
from companion.findings import Estimate, extrapolated, spread, stacked
from companion.workbench import Run, estimate
from scipy.linalg import cholesky, toeplitz
from scipy.stats import binomtest, norm

TARGETS = {"linear": 0.0, "sigmoidal": 0.5, "relu": -0.5}  # y₋, as in paper A's Fig. 4
NAMES = {"linear": "linear", "sigmoidal": "sigmoidal", "relu": "ReLU"}
COLD = 0.001  # where deep ReLU networks begin: cooled to T only, they may stop at half of the task
EXACT: dict[str, Any] = {"moves": (), "method": HMC(max_num_steps=75)}
FILM_INPUTS = 64  # shown in the film, at most: one more column costs it ten kilobytes


def toy(nonlinearity: str, size: int) -> Task:
    """The task of three classes with the targets that paper A uses for this nonlinearity."""
    return tasks.toy(size, y_minus=TARGETS[nonlinearity])


def solve(nonlinearity: str, size: int, temperature: float) -> Any:
    """Theory of one hidden layer at N = P = size: linear, sigmoidal or relu (with its finite-size terms)."""
    task = toy(nonlinearity, size)
    if nonlinearity == "linear":
        return linear.solve(task, 1, temperature, width=size)
    if nonlinearity == "sigmoidal":
        return sigmoidal.solve(task, temperature)
    return relu.finite_size(relu.solve(task, temperature), size)


# ---- networks in time ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Motion:
    """A network left to its noise, by several chains.

    Attributes:
        run: the snapshots with their diagnostics.
        interval: time between two of them.
        rest_error: mean ‖Y − f‖² of the exact sampler that the chains started from.
    """

    run: Run
    interval: float
    rest_error: float

    @property
    def times(self) -> np.ndarray:
        """Times of the snapshots, shape (S,)."""
        return self.interval * np.arange(1, self.run.samples.info.energy.shape[1] + 1)

    @property
    def excess(self) -> float:
        """What the finite step adds to the mean squared error, as a fraction of it."""
        return float(self.run.samples.info.squared_error.mean()) / self.rest_error - 1

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        network, samples = self.run.posterior.network, self.run.samples
        depth = {"L": network.depth} if network.depth > 1 else {}
        sizes = depth | {"N": network.width, "P": self.run.task.num_inputs, "T": float(samples.temperature)}
        return sizes | {"chains": len(samples.info.energy), "units of time": round(float(self.times[-1]), 1)}

    @cached_property
    def means(self) -> tuple[np.ndarray, ...]:
        """Mean activation of every neuron on every class, (chains, S, N, C) for each layer."""
        task, samples = self.run.task, self.run.samples
        layers = range(self.run.posterior.network.depth)
        return tuple(coding.class_means(samples.activations(layer), task.labels) for layer in layers)

    @cached_property
    def codes(self) -> tuple[np.ndarray, ...]:
        """Codes of every layer, (chains, S, N, C): active classes, outlier's classes, signs if linear."""
        network, samples = self.run.posterior.network, self.run.samples
        if is_bounded(network.phi):
            return tuple(coding.settled_codes(means) for means in self.means)
        if network.nonlinearity == "linear":
            return tuple(means > 0 for means in self.means)
        layers, labels = range(network.depth), self.run.task.labels
        return tuple(coding.outliers(samples.activations(layer), labels).codes for layer in layers)

    @property
    def local(self) -> Convergence:
        """Diagnostics by energy and training error: of equilibrium within the codes, which neurons keep."""
        bare = replace(self.run.samples, readouts=None, preactivations=None)
        return convergence(bare, self.run.posterior)

    def switches(self, layer: int = -1) -> coding.SwitchRate:
        """Rate at which neurons of a layer change their code."""
        return coding.switch_rate(self.codes[layer], self.interval)

    def correlation_time(self, neurons: int = 20, inputs: int = 10) -> float:
        """Integrated autocorrelation time of the feature layer's preactivations, in units of t."""
        z = self.run.preactivations[-1]
        stride = max(1, z.shape[-2] // neurons), max(1, z.shape[-1] // inputs)
        tau = statistics.autocorrelation_time(z[..., :: stride[0], :: stride[1]])
        return float(np.nanmean(tau) * self.interval)

    def order(self, layer: int = -1) -> Estimate:
        """Permutation order q of a layer's class means over the whole run."""
        return Estimate(*_order(self.means[layer]))

    def readout_order(self) -> Estimate:
        """Permutation order q of the readouts."""
        return Estimate(*_order(self.run.readouts))


def _order(series: np.ndarray) -> tuple[float, float]:
    found = statistics.permutation_order(series)
    return np.float64(found.value), np.float64(found.standard_error)


def orders(motions: Sequence[Motion]) -> Estimate:
    """Order of the readouts of several networks."""
    return stacked([motion.readout_order() for motion in motions])


def follow(
    key: Any,
    posterior: Posterior,
    rest: Samples,
    span: float,
    *,
    dt: float,
    num_samples: int,
    num_chains: int,
    mobility: str = "prior variance",
) -> Motion:
    """Plain Langevin dynamics over a span of t, in steps of at most dt, from a state at rest.

    It starts from the last weights of the exact sampler's `rest`: all chains, of independent noise, from one
    network if it has but one.
    """
    start, interval = rest.final, span / num_samples
    if len(rest.info.energy) == 1:
        start = jax.tree.map(lambda leaf: leaf[0], start)
    steps = int(np.ceil(interval / dt - 1e-9))
    method = PlainLangevin((2 * interval / steps) ** 0.5, steps, mobility=mobility)
    counts: dict[str, Any] = {"num_samples": num_samples, "num_chains": num_chains, "num_warmup": 0}
    samples = sample(posterior, jax.random.fold_in(key, 1), init=start, method=method, moves=(), **counts)
    run = Run(posterior, samples, convergence(samples, posterior))
    return Motion(run, interval, float(rest.info.squared_error.mean()))


def one_layer(
    key: Any,
    nonlinearity: str,
    *,
    num_neurons: int,
    temperature: float,
    span: float,
    num_samples: int,
    num_chains: int,
    plant_key: Any = None,
    mobility: str = "prior variance",
) -> Motion:
    """A network of one hidden layer, N = P, planted in theory's scheme, brought to rest and followed."""
    posterior = Posterior(toy(nonlinearity, num_neurons), Network(1, num_neurons, nonlinearity), temperature)
    theory = solve(nonlinearity, num_neurons, temperature)
    start = planting.planted(key if plant_key is None else plant_key, theory, posterior)
    rest = sample(posterior, key, 20, num_chains=num_chains, num_warmup=60, init=start, **EXACT)
    dt = temperature / 2 if mobility == "prior variance" else temperature / num_neurons
    counts: dict[str, Any] = {"num_samples": num_samples, "num_chains": num_chains}
    return follow(key, posterior, rest, span, dt=dt, mobility=mobility, **counts)


def two_layers(
    key: Any,
    nonlinearity: str,
    *,
    num_neurons: int,
    temperature: float,
    span: float,
    num_samples: int,
    num_chains: int,
) -> Motion:
    """A network of two layers, N = P, brought to rest and followed."""
    posterior = Posterior(toy(nonlinearity, num_neurons), Network(2, num_neurons, nonlinearity), temperature)
    rest = settle_deep(jax.random.fold_in(key, 0), posterior)
    stiff = nonlinearity != "sigmoidal"  # their readouts have a larger prior variance
    dt = 2 * float(rest.info.step_size[0, -1]) ** 2 if stiff else temperature / 2
    counts: dict[str, Any] = {"num_samples": num_samples, "num_chains": num_chains}
    return follow(jax.random.fold_in(key, 1), posterior, rest, span, dt=dt, **counts)


def settle_deep(key: Any, posterior: Posterior) -> Samples:
    """A network of two layers at rest: in the theory's scheme if it is redundant; else warmed up from COLD.

    A quench leaves redundant networks with a third of the neurons at work, and some of them between codes.
    """
    assert posterior.task is not None
    start: dict[str, Any]
    options: dict[str, Any] = {"num_chains": 1, "num_warmup": 60, "store": ("readouts",)}
    if is_bounded(posterior.network.phi):
        scheme = deep_sigmoidal.solve(posterior.task, 2, float(posterior.temperature))
        start = {"init": planting.planted(jax.random.fold_in(key, 0), scheme, posterior)}
        return sample(posterior, jax.random.fold_in(key, 1), 4, **start, **options, **EXACT)
    start = {"anneal_from": 1.0}
    for stage, temperature in enumerate(np.geomspace(COLD, float(posterior.temperature), 3)):
        options["num_warmup"] = 30 if stage else 60
        warmer = posterior.at_temperature(temperature)
        rest = sample(warmer, jax.random.fold_in(key, stage), 4, **start, **options, **EXACT)
        start = {"init": jax.tree.map(lambda leaf: leaf[0], rest.final)}
    return rest


# ---- single neurons -------------------------------------------------------------------------


def shown_neurons(motion: Motion, count: int = 6) -> np.ndarray:
    """Neurons for a figure: of all codes if sigmoidal, else the first, as planted outliers come first."""
    if motion.run.posterior.network.nonlinearity != "sigmoidal":
        return np.arange(count)
    order = coding.sort_by_code(motion.codes[-1][0, 0], motion.means[-1][0, 0])
    return order[np.linspace(0, len(order) - 1, count).astype(int)]


def on_one_axis(
    motions: dict[str, Motion], values: dict[str, np.ndarray], points: int = 100
) -> dict[str, Any]:
    """For `figures.trace_panels`: series (n, S) of several networks over the time that all were followed."""
    span = min(motion.times[-1] for motion in motions.values())
    times = np.linspace(span / points, span, points)
    at = {name: np.searchsorted(motion.times, times - 1e-9) for name, motion in motions.items()}
    return {
        "times": [motion.times[at[name]] for name, motion in motions.items()],
        "values": [values[name][:, at[name]] for name in motions],
        "titles": [NAMES[name] for name in motions],
    }


def coverage(series: np.ndarray) -> Estimate:
    """Share of the population's deciles that single neurons visit, (chains, S, N, m)."""
    edges = np.quantile(series, np.linspace(0.1, 0.9, 9), axis=(0, 1, 2))
    deciles = np.stack(
        [np.searchsorted(e, x) for e, x in zip(edges.T, np.moveaxis(series, -1, 0), strict=True)]
    )
    visited = np.stack([(deciles == k).any(2) for k in range(10)]).mean((0, 1))  # (chains, N)
    return Estimate(visited.mean(), visited.std() / visited.size**0.5)


def gaussian_coverage(memory: np.ndarray, draws: int = 4000) -> np.float64:
    """The same of Gaussian series with these autocorrelations (m, S), at lag 0 first."""
    rng, shares = np.random.default_rng(0), []
    for row in memory:
        root = cholesky(toeplitz(row) + 1e-9 * np.eye(len(row)), lower=True)
        series = root @ rng.standard_normal((len(row), draws))
        deciles = np.floor(10 * norm.cdf(series))
        shares.append(np.mean([(deciles == k).any(0) for k in range(10)]))
    return np.float64(np.mean(shares))


def autocorrelations(series: np.ndarray, max_lag: int) -> Estimate:
    """Autocorrelation of single neurons around the population, and its error from the chains' scatter."""
    pooled = statistics.autocorrelation(series, max_lag)
    each = np.stack([statistics.autocorrelation(chain[None], max_lag) for chain in series])
    return Estimate(pooled, each.std(0, ddof=1) / len(each) ** 0.5)


def linear_memory(theory: linear.Solution, lags: np.ndarray, **options: Any) -> np.ndarray:
    """Theory's autocorrelation averaged over the readouts by their variance, shape of the lags."""
    variances = np.linalg.eigvalsh(theory.readout_covariance)
    return variances @ dynamics.linear_memory(theory, lags, **options) / variances.sum()


def wandering_order(size: int, temperature: float, span: float, mobility: float = 1.0) -> float:
    """Theory's permutation order of a linear network's readouts in a run: the memory between its halves."""
    theory = solve("linear", size, temperature)
    first, second = np.split(span * (np.arange(100) + 0.5) / 100, 2)
    lags = (second[:, None] - first).ravel()
    finite = {"num_neurons": size} if mobility == 1 else {"mobility": mobility}
    return float(linear_memory(theory, lags, **finite).mean())


def least_order(size: int, temperature: float, span: float, mobility: float = 1.0) -> float:
    """Permutation order above which neurons keep their roles: half way from a linear network's to 1."""
    return (1 + wandering_order(size, temperature, span, mobility)) / 2


def decay_times(series: np.ndarray, interval: float, level: float) -> np.ndarray:
    """When the autocorrelation of each chain's neurons falls below a level, shape (chains,)."""
    lags = series.shape[1] // 2
    each = [statistics.autocorrelation(chain[None], lags) for chain in series]
    return np.array([decay_time(memory, interval, level) for memory in each])


def ratio(ones: np.ndarray, others: np.ndarray) -> Estimate:
    """Mean of some independent values over that of others."""
    first, second = spread(ones), spread(others)
    value = first.value / second.value
    return Estimate(value, value * np.hypot(first.error / first.value, second.error / second.value))


def decay_time(memory: np.ndarray, interval: float, level: float = 0.5) -> float:
    """When an autocorrelation, at multiples of an interval from lag 0 on, falls below a level."""
    below = int(np.argmax(memory < level))
    before, after = memory[below - 1], memory[below]
    return float(interval * (below - 1 + (before - level) / (before - after))) if below else float("nan")


def order_over_length(motion: Motion, layer: int, count: int = 8) -> dict[str, np.ndarray]:
    """Permutation order q of a layer's class means for the first part of a run: lengths, values, errors."""
    series, times = motion.means[layer], motion.times
    ends = np.unique(np.geomspace(4, len(times), count).astype(int))
    values, errors = np.transpose([_order(series[:, :end]) for end in ends])
    return {"x": times[ends - 1], "values": values, "errors": errors}


def order_curves(layers: dict[str, tuple[Motion, int]]) -> dict[str, Any]:
    """For `figures.curves`: order of several layers over the length of the run, by name."""
    rows = [order_over_length(motion, layer) for motion, layer in layers.values()]
    length = max(len(row["x"]) for row in rows)
    pad = lambda part: np.pad(part, (0, length - len(part)), constant_values=np.nan)  # noqa: E731
    return {name: [pad(row[name]) for row in rows] for name in ("x", "values", "errors")}


# ---- variances in time ----------------------------------------------------------------------


class Variances(NamedTuple):
    """Variance of preactivations in time.

    Attributes:
        sampled: in the samples, an Estimate of shape (k,).
        theory: shape (k,).
        names: what each of them is of.
    """

    sampled: Estimate
    theory: np.ndarray
    names: list[str]


def step(motion: Motion) -> float:
    """Δt of a run's Euler steps."""
    return 0.5 * float(motion.run.samples.info.step_size.flat[-1]) ** 2


def sigmoidal_variances(motion: Motion, theory: sigmoidal.Solution) -> Variances:
    """By code and class, of neurons that keep their code; theory at the sampled mean and the run's step.

    One NaN where no neuron keeps its code.
    """
    codes, z, labels = motion.codes[-1], motion.run.preactivations[-1], motion.run.task.labels
    keeps = np.all(codes == codes[:1, :1], axis=(0, 1, 3))
    sampled, expected, names = [], [], []
    for row in np.flatnonzero(theory.probabilities > 0.01).tolist():
        code = theory.codes[row]
        members = keeps & np.all(codes[0, 0] == code, axis=-1)
        for c in range(len(code)) if members.any() else ():
            sampled.append(estimate(statistics.variance_in_time(z[:, :, members][..., labels == c])))
            mean = float(motion.means[-1][:, :, members, c].mean())
            expected.append(dynamics.branch_variance(theory, row, c, mean, step(motion)))
            names.append(f"{coding.code_name(code)} on class {c}")
    if not names:
        none = np.full(1, np.nan)
        return Variances(Estimate(none, none), none, ["no neuron keeps its code"])
    return Variances(stacked(sampled), np.array(expected), names)


def outlier_variances(run: Run, step: float = 0.0) -> dict[str, Any]:
    """Of planted ReLU outliers on their class, of class 0 and of the small ones: sampled, and theory.

    Theory is a `dynamics.OutlierVariances` with rows for class 0 and a small one.
    """
    z, labels = run.preactivations[0], run.task.labels
    loudest = coding.class_means(z, labels).mean((0, 1)).argmax(0)
    own = [statistics.variance_in_time(z[:, :, i][..., labels == c]) for c, i in enumerate(loudest)]
    size, temperature = run.posterior.network.width, float(run.posterior.temperature)
    theory = dynamics.outlier_variances(run.task, temperature, size, step)
    return {
        "sampled": stacked([estimate(one) for one in (own[0], (own[1] + own[2]) / 2)]),
        "theory": dynamics.OutlierVariances(*(part[:2] for part in theory)),
    }


def beyond_first_order(widths: Sequence[int], measured: Estimate, theory: np.ndarray) -> Estimate:
    """Ratio of measured to theory at N → ∞, (widths, n) each to (n,), by a line in 1/N²: theory has 1/N."""
    ratio, error = measured.value / theory, measured.error / theory
    return extrapolated(np.square(widths), [*zip(ratio, error, strict=True)])


def bulk_variance(run: Run, num_outliers: int) -> np.float64:
    """Of the bulk's preactivations in a ReLU network."""
    return statistics.variance_in_time(run.preactivations[0][:, :, num_outliers:]).mean()


# ---- drift ----------------------------------------------------------------------------------


class Snapshot(NamedTuple):
    """Some neurons at one time: activations (n, P), and names of their codes."""

    activations: np.ndarray
    codes: list[str]


def in_order(motion: Motion, layer: int, snapshot: int, order_from: int, neurons: np.ndarray) -> Snapshot:
    """Some neurons in a snapshot of the first chain, sorted by the codes they have in another."""
    means, code = (x[layer][0, order_from][neurons] for x in (motion.means, motion.codes))
    ordered = neurons[np.lexsort((means[:, 0], -(code @ [4, 2, 1])))]
    z = motion.run.preactivations[layer][0, snapshot][ordered]
    activations = np.asarray(motion.run.posterior.network.phi(jnp.asarray(z)))
    codes = motion.codes[layer][0, snapshot][ordered]
    return Snapshot(activations, [coding.code_name(each) for each in codes])


def drift_rows(motion: Motion, snapshots: Any, num_neurons: int = 40) -> dict[str, list[Snapshot]]:
    """Layer 1 in a fixed order, layer 1 sorted anew, layer 2 in a fixed order, at the snapshots."""
    neurons = np.linspace(0, motion.means[0].shape[2] - 1, num_neurons).astype(int)
    return {
        "fixed": [in_order(motion, 0, k, 0, neurons) for k in snapshots],
        "sorted_anew": [in_order(motion, 0, k, k, neurons) for k in snapshots],
        "last": [in_order(motion, 1, k, 0, neurons) for k in snapshots],
    }


def film(motion: Motion, num_frames: int) -> dict[str, Any]:
    """For `films.publish_animation`: `drift_rows` at evenly spaced times, and colors of their codes."""
    labels, at = motion.run.task.labels, np.linspace(0, len(motion.times) - 1, num_frames).astype(int)
    every = -(-len(labels) // FILM_INPUTS)
    rows = drift_rows(motion, at)
    frames = {
        name: np.stack([shown.activations for shown in row])[..., ::every].astype(np.float32)
        for name, row in rows.items()
    }
    return frames | {
        "codes": [[shown.codes for shown in row] for row in rows.values()],
        "edges": np.cumsum(np.bincount(labels[::every]))[:-1] - 0.5,
        "times": motion.times[at],
        "num_frames": num_frames,
        "still": num_frames - 1,
    }


class CodeHistory(NamedTuple):
    """Which code every neuron has when: index into `names`, (chains, S, N) for each layer."""

    names: list[str]
    layers: tuple[np.ndarray, ...]


def code_history(motion: Motion) -> CodeHistory:
    """Codes of all layers as indices into one list."""
    stacked_codes = np.concatenate([codes.reshape(-1, codes.shape[-1]) for codes in motion.codes])
    kinds, which = np.unique(stacked_codes, axis=0, return_inverse=True)
    layers = which.reshape(len(motion.codes), *motion.codes[0].shape[:-1])
    return CodeHistory([coding.code_name(kind) for kind in kinds], tuple(layers))


def chain_rates(motion: Motion, layer: int) -> Estimate:
    """Rate of code switches per neuron and unit of time, with the chains' spread."""
    codes = motion.codes[layer]
    return spread(np.any(codes[:, 1:] != codes[:, :-1], axis=-1).mean((1, 2)) / motion.interval)


def no_net_flux(before: np.ndarray, after: np.ndarray, num_kinds: int) -> float:
    """p-value of the largest net flux into a code: in equilibrium entering and leaving are equally likely.

    Exact for every code, and Šidák's 1 − (1 − p)^k for the least p of k codes that neurons entered or left.
    """
    moved = before != after
    entered, left = (np.bincount(one[moved], minlength=num_kinds) for one in (after, before))
    used = [pair for pair in zip(entered, left, strict=True) if sum(pair)]
    each = [binomtest(int(a), int(a + b)).pvalue for a, b in used]
    return float(1 - (1 - min(each, default=1.0)) ** max(len(each), 1))


class Kept(NamedTuple):
    """How alike the first and the last tenth of a run are, by chain.

    Attributes:
        kernel: cosine of the centered kernels.
        shuffled: the same with the inputs of the last shuffled.
        neurons: cosine of the neurons' class means, as deviations from the population's.
    """

    kernel: np.ndarray
    shuffled: np.ndarray
    neurons: np.ndarray


def kept(motion: Motion, layer: int) -> Kept:
    """What is kept of a layer over a run."""
    tenth = max(1, motion.means[layer].shape[1] // 10)
    phi, parts = motion.run.samples.activations(layer), (slice(None, tenth), slice(-tenth, None))
    first, last = (coding.kernels(phi[:, part]).mean(1) for part in parts)
    mixed = np.random.default_rng(0).permutation(phi.shape[-1])
    before, after = (motion.means[layer][:, part].mean(1) for part in parts)
    before, after = before - before.mean(1, keepdims=True), after - after.mean(1, keepdims=True)
    norms = np.linalg.norm(before, axis=(1, 2)) * np.linalg.norm(after, axis=(1, 2))
    return Kept(
        coding.kernel_alignment(first, last, centered=True),
        coding.kernel_alignment(first, last[:, mixed][:, :, mixed], centered=True),
        np.sum(before * after, axis=(1, 2)) / norms,
    )


# ---- crossings of the passes ----------------------------------------------------------------


@cache
def passes(size: int, temperature: float) -> dynamics.Passes:
    """Passes of the sigmoidal toy task at N = P = size."""
    return dynamics.passes(solve("sigmoidal", size, temperature))


@dataclass(frozen=True)
class Crossings:
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

    def slope(self) -> Estimate:
        """β of the rates ∝ e^{−βΔF}, by maximum likelihood over all ways, one attempt rate for each T."""
        found = statistics.fit_barrier_scale(self.heights, self.counts, self.exposures)
        return Estimate(*map(np.float64, found))

    def dealt(self) -> "Crossings":
        """The same with the passes dealt to the ways at random."""
        rng = np.random.default_rng(0)
        return replace(self, heights=[rng.permutation(height) for height in self.heights])

    def curves(self) -> dict[str, Any]:
        """For `figures.curves`: rates of the ways on which changes were seen, and e^{−ΔF}, for each T."""
        grid, rows, lines = np.linspace(0, max(map(np.max, self.heights)) + 0.5, 40), [], []
        for k, (height, count, exposure) in enumerate(
            zip(self.heights, self.counts, self.exposures, strict=True)
        ):
            seen = count > 0
            rows.append(
                (k, height[seen], count[seen] / exposure[seen], np.sqrt(count[seen]) / exposure[seen])
            )
            lines.append(count.sum() / (exposure @ np.exp(-height)) * np.exp(-grid))
        owner = np.concatenate([np.full(len(height), k) for k, height, _, _ in rows])
        own = owner == np.arange(len(rows))[:, None]
        rates, errors = (np.concatenate([row[i] for row in rows]) for i in (2, 3))
        return {
            "x": grid,
            "values": lines,
            "names": [f"T = {t:g}" for t in self.temperatures],
            "sampled_x": np.concatenate([height for _, height, _, _ in rows]),
            "sampled": np.where(own, rates, np.nan),
            "sampled_errors": np.where(own, errors, np.nan),
        }


def crossings(key: Any, *, num_neurons: int, temperatures: Sequence[float], **sizes: Any) -> Crossings:
    """Sigmoidal networks small enough for neurons to cross, as `one_layer` follows them, at several T."""
    heights, counts, exposures, local = [], [], [], []
    for k, temperature in enumerate(temperatures):
        own = {"num_neurons": num_neurons, "temperature": temperature, **sizes}
        motion = one_layer(jax.random.fold_in(key, k), "sigmoidal", **own)
        theory, codes = passes(num_neurons, temperature), motion.codes[-1]
        inside = np.stack([np.all(codes == code, axis=-1) for code in theory.codes])
        seen = np.einsum("gcsn,hcsn->gh", inside[:, :, :-1].astype(int), inside[:, :, 1:].astype(int))
        time = np.repeat(motion.interval * inside.sum((1, 2, 3))[:, None], len(inside), axis=1)
        ways = ~np.eye(len(inside), dtype=bool)
        heights.append(theory.heights[ways])
        counts.append(seen[ways])
        exposures.append(time[ways])
        local.append(motion.local)
    return Crossings(np.asarray(temperatures), heights, counts, exposures, local)


# ---- paths that exchange two neurons --------------------------------------------------------


class Minimum(NamedTuple):
    """A network slid down into a minimum of its energy, and the codes it has there (N, C)."""

    posterior: Posterior
    weights: Weights
    codes: np.ndarray

    def members(self, name: str) -> np.ndarray:
        """Neurons of a code."""
        return np.array([i for i, code in enumerate(self.codes) if coding.code_name(code) == name])


@cache
def minimum(nonlinearity: str, size: int, temperature: float) -> Minimum:
    """A network planted in the theory's scheme, slid down into its minimum of U."""
    task = toy(nonlinearity, size)
    posterior = Posterior(task, Network(1, size, nonlinearity), temperature)
    drawn = planting.planted(jax.random.key(0), solve(nonlinearity, size, temperature), posterior)
    step = 0.4 * temperature  # for twenty units of time
    starts = jax.tree.map(lambda leaf: leaf[None], drawn)
    weights, _ = training.descend(posterior, starts, num_steps=int(20 / step), learning_rate=0.4 * size)
    there = jax.tree.map(lambda leaf: leaf[0], weights)  # in NumPy, which compiles nothing to exchange two
    activations = np.asarray(posterior.network.phi(there.first))
    bounded = is_bounded(posterior.network.phi)
    codes = coding.codes if bounded else lambda *given: coding.outliers(*given).codes
    return Minimum(posterior, there, codes(activations, task.labels))


def _energy(weights: Weights, posterior: Posterior) -> Any:
    return posterior.energy(weights)


def exchanged(weights: Weights, i: int, j: int) -> Weights:
    """The same network with two neurons renamed."""
    order = np.arange(len(weights.readout))
    order[[i, j]] = j, i
    return weights._replace(first=weights.first[order], readout=weights.readout[order])


def halfway(weights: Weights, i: int, j: int, like: int, share: float) -> Weights:
    """Neurons i and j both as another, with a share of its readout and of its weights."""
    first, readout = weights.first.copy(), weights.readout.copy()
    for leaf in (first, readout):
        leaf[[i, j]] = share * leaf[like]
    return weights._replace(first=first, readout=readout)


def swap_paths(found: Minimum, i: int, j: int, through: Sequence[int | None]) -> list[barriers.Path]:
    """Relaxed paths in all weights that exchange neurons i and j, one for each first guess.

    A guess passes through a state in which both are like one neuron of `through`, with shares of 1/√2 for a
    homogeneous φ; or, for None, straight through the mean of the two.
    """
    share = 0.5**0.5 if found.posterior.network.nonlinearity == "relu" else 1.0
    start, end = found.weights, exchanged(found.weights, i, j)
    step = 0.4 * float(found.posterior.temperature)
    options: dict[str, Any] = {"step_size": step, "num_images": 21, "num_steps": int(5 / step)}
    options["tolerance"] = 0.5
    paths = []
    for like in through:
        middle = (
            jax.tree.map(lambda a, b: (a + b) / 2, start, end)
            if like is None
            else halfway(start, i, j, like, share)
        )
        paths.append(barriers.minimum_energy_path(_energy, (start, middle, end), found.posterior, **options))
    return paths


def least(paths: Sequence[barriers.Path]) -> barriers.Path:
    """The path with the smallest climb."""
    return min(paths, key=lambda path: path.barrier)


def sigmoidal_swap(size: int, temperature: float) -> barriers.Path:
    """The least of the paths that exchange a neuron of 1-1-0 and one of 1-0-1, by way of five guesses."""
    found = minimum("sigmoidal", size, temperature)
    i, j = found.members("1-1-0")[0], found.members("1-0-1")[0]
    others = [found.members(name)[:1] for name in ("0-1-1", "1-1-1")]
    return least(swap_paths(found, i, j, [i, j, None, *(int(each[0]) for each in others if len(each))]))


def same_code_swap(size: int, temperature: float) -> barriers.Path:
    """The path that exchanges two neurons of one code."""
    found = minimum("sigmoidal", size, temperature)
    i, j = found.members("1-1-0")[:2]
    return least(swap_paths(found, i, j, [i]))


def relu_swap(size: int, temperature: float) -> barriers.Path:
    """The least of the paths that exchange an outlier and a neuron of the bulk."""
    found = minimum("relu", size, temperature)  # planted: outliers come first
    return least(swap_paths(found, 1, size - 1, [1, None]))


def linear_swap(size: int, temperature: float) -> barriers.Path:
    """The path that exchanges two linear neurons."""
    return least(swap_paths(minimum("linear", size, temperature), 0, 1, [0]))


@cache
def condensate(size: int, temperature: float) -> condensation.Solution:
    """Theory of outliers at finite width, N = P = size."""
    return condensation.solve(toy("relu", size), temperature)


def handing_on(size: int, temperature: float, angles: np.ndarray, outlier: int = 1) -> np.ndarray:
    """Theory's free energy above its least while an outlier is handed on to the bulk, N = P = size."""
    return condensate(size, temperature).sharing(outlier, angles, size)


# ---- umbrella sampling ----------------------------------------------------------------------

SPRING = 1000.0  # kT per radian²: stiffer than the free energy is curved
WINDOWS = np.linspace(-0.13, np.pi / 4, 15)  # radians; from the bulk to equal shares


class Umbrella(NamedTuple):
    """Free energy on the way that hands an outlier on, from networks held on it by a spring.

    Attributes:
        angles: means of θ = atan2(a_j·ê, a_i·ê) in the windows, shape (windows,).
        free_energy: in kT above its minimum, with its error, shape (windows,).
        barrier: at equal shares, with its error.
        acceptance: least mean acceptance of a window.
    """

    angles: np.ndarray
    free_energy: Estimate
    barrier: Estimate
    acceptance: float


def umbrella(
    key: Any, *, num_neurons: int, temperature: float, num_samples: int, num_chains: int, outlier: int = 1
) -> Umbrella:
    """Hold θ near each of WINDOWS, sample all other weights, and integrate the mean force k(θ₀ − ⟨θ⟩).

    From planted networks in which the outlier i shares its readout and its weights with the last neuron, j,
    of the bulk; ê is the direction of the outlier's readout.

    Source: umbrella integration, Kästner & Thiel, J. Chem. Phys. 123, 144104 (2005).
    """
    task = toy("relu", num_neurons)
    posterior = Posterior(task, Network(1, num_neurons, "relu"), temperature)
    theory = solve("relu", num_neurons, temperature)
    direction = theory.outlier_readouts[outlier] / np.linalg.norm(theory.outlier_readouts[outlier])
    silent = task.labels != theory.outlier_preactivations[outlier].argmax()
    pair, keys = [outlier, num_neurons - 1], jax.random.split(key, 4)
    plants = planting.planted(jax.random.split(keys[0], num_chains), theory, posterior)
    starts = [
        _shared(jax.tree.map(lambda leaf, c=chain: np.array(leaf[c]), plants), pair, angle, silent)
        for chain in range(num_chains)
        for angle in WINDOWS
    ]
    weights = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
    held = np.tile(WINDOWS, num_chains)
    fixed = {"held": held, "posterior": posterior, "direction": direction, "pair": tuple(pair)}
    run = partial(_held, **fixed, most_samples=max(100, num_samples))
    step = float(0.12 * temperature**0.5)  # of the stiffest direction, 1/√T
    weights, _, _ = run(keys[1], weights, step_size=step / 6, num_samples=100, num_steps=30)
    weights, _, _ = run(keys[2], weights, step_size=step, num_samples=num_samples // 4, num_steps=60)
    _, *kept = run(keys[3], weights, step_size=step, num_samples=num_samples, num_steps=60)
    series, acceptance = (np.asarray(each, float)[:, :num_samples] for each in kept)
    theta = series.reshape(num_chains, len(WINDOWS), -1).transpose(0, 2, 1)
    mean, error = statistics.mean_and_error(theta)
    force, gaps = SPRING * (WINDOWS - mean), np.diff(mean)
    windows = np.eye(len(mean))
    integral = np.zeros_like(windows)  # weight of every window's force in the work from the first to another
    integral[1:] = np.cumsum(gaps[:, None] / 2 * (windows[:-1] + windows[1:]), axis=0)
    integral -= integral[(integral @ force).argmin()]
    to_top = integral[-1] + (np.pi / 4 - mean[-1]) * windows[-1]
    barrier = Estimate(float(to_top @ force), float(SPRING * np.linalg.norm(to_top * error)))
    free = Estimate(integral @ force, SPRING * np.sqrt(integral**2 @ error**2))
    least_accepted = acceptance.mean(1).min()
    return Umbrella(mean, free, barrier, float(least_accepted))


def _shared(weights: Weights, pair: list[int], angle: float, silent: np.ndarray) -> Weights:
    """The pair turned by an angle; the second is silent where the outlier is, if it gets a real share."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    first, readout = weights.first.copy(), weights.readout.copy()
    first[pair], readout[pair] = turn @ first[pair], turn @ readout[pair]
    if angle > 0.15:  # orthogonal inputs: first-layer weights are preactivations
        first[pair[1], silent] = -np.abs(first[pair[1], silent])
    return weights._replace(first=first, readout=readout)


@partial(jax.jit, static_argnames=("pair", "most_samples"))
def _held(key, weights, held, posterior, direction, pair, step_size, num_samples, num_steps, most_samples):
    """HMC on U + k(θ − θ₀)²/2, all windows at once: last weights, θ, acceptance (windows, most_samples).

    The samples come first and zeros after them, so that runs of all lengths are one program.
    """

    def angle(weights):
        i, j = (weights.readout[neuron] @ direction for neuron in pair)
        return jnp.arctan2(j, i)

    def one(key, weights, wanted):
        def value_and_gradient(weights):
            value, gradient = posterior.value_and_gradient(weights)
            theta, slope = jax.value_and_grad(angle)(weights)
            away = theta - wanted
            pull = jax.tree.map(lambda g, s: g - (SPRING * away * s).astype(g.dtype), gradient, slope)
            return value - 0.5 * SPRING * away**2, pull

        def step(index, carry):
            state, theta, acceptance = carry
            own = jax.random.fold_in(key, index)
            length = jax.random.randint(jax.random.fold_in(own, 1), (), num_steps // 2, 3 * num_steps // 2)
            state, info = transition(own, state, value_and_gradient, step_size, length)
            theta = theta.at[index].set(angle(state.position))
            return state, theta, acceptance.at[index].set(info.acceptance_rate)

        start = HMCState(weights, *value_and_gradient(weights))
        nothing = jnp.zeros(most_samples)
        state, theta, acceptance = jax.lax.fori_loop(0, num_samples, step, (start, nothing, nothing))
        return state.position, theta, acceptance

    return jax.vmap(one)(jax.random.split(key, len(held)), weights, held)
