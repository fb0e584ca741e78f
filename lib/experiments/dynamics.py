"""Networks in time: plain Langevin runs, what single neurons remember, and how representations drift."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, planting, statistics, tasks
from coding_schemes.networks import Network, is_bounded
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, PlainLangevin, Samples, convergence, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import deep_sigmoidal, dynamics, linear, relu, sigmoidal
from coding_schemes.theory.dynamics import OutlierVariances
from companion.figures import CODE_COLORS
from companion.workbench import Run
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

TARGETS = {"linear": 0.0, "sigmoidal": 0.5, "relu": -0.5}  # y₋, as in paper A's Fig. 4
COLD = 0.001  # where deep ReLU networks begin: cooled to T only, they may stop at half of the task
EXACT: dict[str, Any] = {"moves": (), "method": HMC(max_num_steps=75)}


def toy(nonlinearity: str, size: int, seed: int = 0) -> Task:
    """The task of three classes with the targets that paper A uses for this nonlinearity."""
    return tasks.toy(size, (0.5, 0.25, 0.25), y_minus=TARGETS[nonlinearity], seed=seed)


def solve(nonlinearity: str, size: int, temperature: float, seed: int = 0) -> Any:
    """Theory of one hidden layer at N = P = size: linear, sigmoidal or relu (with its finite-size terms)."""
    task = toy(nonlinearity, size, seed)
    if nonlinearity == "linear":
        return linear.solve(task, 1, temperature, width=size)
    if nonlinearity == "sigmoidal":
        return sigmoidal.solve(task, temperature)
    return relu.finite_size(relu.solve(task, temperature), size)


@dataclass(frozen=True)
class Motion:
    """A network left to its noise, by one or more chains from one start.

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
    def squared_error(self) -> float:
        """Mean ‖Y − f‖² along the run."""
        return float(self.run.samples.info.squared_error.mean())

    @cached_property
    def means(self) -> tuple[np.ndarray, ...]:
        """Mean activation of every neuron on every class, (chains, S, N, C) for each layer."""
        task, samples = self.run.task, self.run.samples
        layers = range(len(self.run.preactivations))
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

    def switches(self, layer: int = -1) -> coding.SwitchRate:
        """Rate at which neurons of a layer change their code."""
        return coding.switch_rate(self.codes[layer], self.interval)

    def correlation_time(self, neurons: int = 20, inputs: int = 10) -> float:
        """Integrated autocorrelation time of the feature layer's preactivations, in units of t."""
        z = self.run.preactivations[-1]
        stride = max(1, z.shape[-2] // neurons), max(1, z.shape[-1] // inputs)
        return float(
            np.nanmean(statistics.autocorrelation_time(z[..., :: stride[0], :: stride[1]])) * self.interval
        )


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


def follow(
    key: Any,
    posterior: Posterior,
    rest: Samples,
    span: float,
    *,
    dt: float,
    num_samples: int,
    num_chains: int,
) -> Motion:
    """Plain Langevin dynamics over a span of t, in steps of at most dt, from a state at rest.

    It starts from the last weights of the exact sampler's `rest`: all chains, of independent noise, from one
    network if it has but one.
    """
    start, interval = rest.final, span / num_samples
    if len(rest.info.energy) == 1:
        start = jax.tree.map(lambda leaf: leaf[0], start)
    steps = int(np.ceil(interval / dt - 1e-9))
    method = PlainLangevin((2 * interval / steps) ** 0.5, steps)
    counts: dict[str, Any] = {"num_samples": num_samples, "num_chains": num_chains, "num_warmup": 0}
    samples = sample(posterior, jax.random.fold_in(key, 1), init=start, method=method, moves=(), **counts)
    run = Run(posterior, samples, convergence(samples, posterior))
    return Motion(run, interval, float(rest.info.squared_error.mean()))


def two_layers(
    key: Any, nonlinearity: str, size: int, temperature: float, span: float, **counts: int
) -> Motion:
    """A network of two layers, N = P = size, brought to rest and followed."""
    posterior = Posterior(toy(nonlinearity, size), Network(2, size, nonlinearity), temperature)
    rest = settle_deep(jax.random.fold_in(key, 0), posterior)
    stiff = nonlinearity != "sigmoidal"  # their readouts have a larger prior variance
    dt = 2 * float(rest.info.step_size[0, -1]) ** 2 if stiff else temperature / 2
    return follow(jax.random.fold_in(key, 1), posterior, rest, span, dt=dt, **counts)


# ---- single neurons -------------------------------------------------------------------------


def coverage(series: np.ndarray) -> tuple[float, float]:
    """Share of the population's deciles that single neurons visit, (chains, S, N, m): mean and error."""
    edges = np.quantile(series, np.linspace(0.1, 0.9, 9), axis=(0, 1, 2))
    deciles = np.stack(
        [np.searchsorted(e, x) for e, x in zip(edges.T, np.moveaxis(series, -1, 0), strict=True)]
    )
    visited = np.stack([(deciles == k).any(2) for k in range(10)]).mean((0, 1))  # (chains, N)
    return float(visited.mean()), float(visited.std() / visited.size**0.5)


def autocorrelations(series: np.ndarray, max_lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Autocorrelation of single neurons around the population, and its error from the chains' scatter."""
    pooled = statistics.autocorrelation(series, max_lag)
    each = np.stack([statistics.autocorrelation(chain[None], max_lag) for chain in series])
    return pooled, each.std(0, ddof=1) / len(each) ** 0.5


def order_over_length(
    motion: Motion, layer: int, count: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Permutation order q of a layer's class means for the first part of a run: lengths, values, errors."""
    series, times = motion.means[layer], motion.times
    ends = np.unique(np.geomspace(4, len(times), count).astype(int))
    orders = [statistics.permutation_order(series[:, :end]) for end in ends]
    return times[ends - 1], np.array([o.value for o in orders]), np.array([o.standard_error for o in orders])


def variance_ratio(series: np.ndarray) -> np.ndarray:
    """Variance in time over that of the neurons' time averages, (chains, S, N, m) → one number per chain."""
    return series.var(1).mean(1).sum(-1) / series.mean(1).var(1).sum(-1)


# ---- variances in time ----------------------------------------------------------------------


def sigmoidal_variances(
    motion: Motion, theory: sigmoidal.Solution, step: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variance in time of the preactivations by code and class, (codes, C), of neurons that keep their code.

    Sampled values, their errors, and theory's at the sampled mean activation.
    """
    codes, z, labels = motion.codes[-1], motion.run.preactivations[-1], motion.run.task.labels
    keeps = np.all(codes == codes[:1, :1], axis=(0, 1, 3))
    rows = []
    for row, code in enumerate(theory.codes[theory.probabilities > 0.01]):
        members = keeps & np.all(codes[0, 0] == code, axis=-1)
        for c in range(len(code)):
            series = statistics.variance_in_time(z[:, :, members][..., labels == c])
            mean = float(motion.means[-1][:, :, members, c].mean())
            rows.append(
                [*statistics.mean_and_error(series), dynamics.branch_variance(theory, row, c, mean, step)]
            )
    sampled, errors, expected = np.array(rows).T.reshape(3, -1, len(theory.dual_field))
    return sampled, errors, expected


def outlier_variances(size: int, temperature: float, step: float) -> OutlierVariances:
    """Theory at N = P = size, for class 0 and a small class."""
    found = dynamics.outlier_variances(toy("relu", size), temperature, size, step)
    return OutlierVariances(*(part[:2] for part in found))


def sampled_outlier_variances(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Variance in time of planted outliers on their class: of class 0, mean of the small ones; and errors."""
    z, labels = run.preactivations[0], run.task.labels
    loudest = coding.class_means(z, labels).mean((0, 1)).argmax(0)
    own = [statistics.variance_in_time(z[:, :, i][..., labels == c]) for c, i in enumerate(loudest)]
    pairs = [statistics.mean_and_error(one) for one in (own[0], (own[1] + own[2]) / 2)]
    mean, error = np.transpose(pairs)
    return mean, error


# ---- drift ----------------------------------------------------------------------------------


def in_order(
    motion: Motion, layer: int, snapshot: int, order_from: int, neurons: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Activations and codes of some neurons in a snapshot, sorted by the codes they have in another."""
    means, code = (x[layer][0, order_from][neurons] for x in (motion.means, motion.codes))
    ordered = neurons[np.lexsort((means[:, 0], -(code @ [4, 2, 1])))]
    z = motion.run.preactivations[layer][0, snapshot][ordered]
    activations = np.asarray(motion.run.posterior.network.phi(jnp.asarray(z)))
    return activations, motion.codes[layer][0, snapshot][ordered]


def drift_rows(
    motion: Motion, snapshots: Any, neurons: np.ndarray
) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Layer 1 in a fixed order, layer 1 sorted anew, layer 2 in a fixed order, at the snapshots."""
    ways = ((0, False), (0, True), (1, False))
    return [[in_order(motion, l, k, k if anew else 0, neurons) for k in snapshots] for l, anew in ways]


def drift_frame(
    frame: int,
    fixed: np.ndarray,
    sorted_anew: np.ndarray,
    last: np.ndarray,
    codes: np.ndarray,
    edges: np.ndarray,
    times: np.ndarray,
    figure: Figure | None = None,
) -> Figure:
    """Layer 1 in a fixed order and sorted anew, and layer 2, in one snapshot; a color per code."""
    snapshots = fixed[frame], sorted_anew[frame], last[frame]
    if figure is None:
        figure, axes = plt.subplots(1, 3, figsize=(6.4, 3.2), sharey=True, layout="none")
        figure.subplots_adjust(left=0.09, right=0.99, top=0.83, bottom=0.09, wspace=0.06)
        titles = "layer 1, fixed order", "layer 1, sorted anew", "layer 2, fixed"
        for axis, values, title in zip(axes, snapshots, titles, strict=True):
            axis.imshow(np.ones((*values.shape, 3)), aspect="auto")
            axis.vlines(edges, -0.5, len(values) - 0.5, color="black", linewidth=0.7)
            axis.set(xlabel="input, by class", xticks=[])
            axis.set_title(title, fontsize="medium")
        axes[0].set_ylabel("neuron")
    for axis, values, rows in zip(figure.axes, snapshots, codes[:, frame], strict=True):
        inks = [to_rgb(CODE_COLORS[coding.code_name(code)]) for code in rows]
        axis.images[0].set_data(1 - np.clip(values, 0, 1)[..., None] * (1 - np.array(inks))[:, None])
    figure.suptitle(f"t = {times[frame]:.1f}")
    return figure


class CodeHistory(NamedTuple):
    """Which code every neuron has when: index into `kinds`, (chains, S, N) for each layer."""

    kinds: np.ndarray
    layers: tuple[np.ndarray, ...]

    @property
    def names(self) -> list[str]:
        """The codes by name."""
        return [coding.code_name(kind) for kind in self.kinds]


def code_history(motion: Motion) -> CodeHistory:
    """Codes of all layers as indices into one list."""
    stacked = np.concatenate([codes.reshape(-1, codes.shape[-1]) for codes in motion.codes])
    kinds, which = np.unique(stacked, axis=0, return_inverse=True)
    return CodeHistory(kinds, tuple(which.reshape(len(motion.codes), *motion.codes[0].shape[:-1])))


def net_flux(before: np.ndarray, after: np.ndarray, num_kinds: int) -> np.ndarray:
    """Net number of neurons that entered each code, in standard errors √(entered + left)."""
    moved = before != after
    entered, left = (np.bincount(one[moved], minlength=num_kinds) for one in (after, before))
    return (entered - left) / np.sqrt(np.maximum(entered + left, 1))


def kept(motion: Motion, layer: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How alike the first and the last tenth of the run are, by chain.

    Returns:
        Cosine of the centered kernels, the same with the inputs of the last shuffled, and the cosine of the
        neurons' class means (deviations from the population's).
    """
    tenth = max(1, motion.means[layer].shape[1] // 10)
    phi = motion.run.samples.activations(layer)
    ends = [coding.kernels(phi[:, part]).mean(1) for part in (slice(None, tenth), slice(-tenth, None))]
    mixed = rng.permutation(phi.shape[-1])
    kernel = coding.kernel_alignment(ends[0], ends[1], centered=True)
    shuffled = coding.kernel_alignment(ends[0], ends[1][:, mixed][:, :, mixed], centered=True)
    first, last = (motion.means[layer][:, part].mean(1) for part in (slice(None, tenth), slice(-tenth, None)))
    first, last = first - first.mean(1, keepdims=True), last - last.mean(1, keepdims=True)
    norms = np.linalg.norm(first, axis=(1, 2)) * np.linalg.norm(last, axis=(1, 2))
    return kernel, shuffled, np.sum(first * last, axis=(1, 2)) / norms
