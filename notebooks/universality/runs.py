"""What the chapter on two points runs and measures: paper C's architectures against the reduced equations."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import statistics, tasks
from coding_schemes.tasks import Task
from coding_schemes.theory import two_point
from coding_schemes.training import Architecture
from coding_schemes.two_points import DESCRIBED, Trained, learn, side_by_side
from companion.figures import VARIABLE_COLORS as CURVES
from companion.figures import legend_above
from companion.findings import Estimate, spread
from companion.publish import WIDTH
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy import optimize, stats

LEAKY = jax.nn.leaky_relu
LARGE_GAIN = 2.0  # high weights of paper C's Table 2; so small a rate that descent is a flow
GAIN_RATES = {0.9: 0.015, 1.0: 0.005, 1.1: 0.0025, 1.3: 0.00075, 1.4: 0.00025, LARGE_GAIN: 1e-10}
NARROW_RATES = {0.9: 0.015, 1.05: 0.005, 1.3: 0.0015}

PRINTED_LOSSES = (
    22.12, 20.30, 17.32, 13.35, 9.777, 7.702, 5.057, 3.078, 1.847, 0.8573,
    0.3582, 0.09402, 0.1002, 0.2350, 0.5230, 0.9208, 1.491, 3.036, 2.061, 1.623,
)  # fmt: skip
"""Fit losses of layers 1 to 20, as the notebook 2_points_depth of paper C's authors prints them."""

# From small to large weights
SHADES = ("#440154", "#443983", "#31688E", "#21918C", "#35B779", "#90D743", "#E0C51A")


# ---- paper C's Table 1 ------------------------------------------------------------------------------

Row = tuple[Architecture, float]  # and its learning rate


def table(width: int) -> dict[str, Row]:
    """Paper C's Table 1: architecture and learning rate by name, at another width if need be."""
    rows: dict[str, Row] = {
        "default": (Architecture(LEAKY, 1.0, width, 20), 0.005),
        "skip": (Architecture(LEAKY, 0.1, width, 20, "skip"), 0.01),
        "shallow": (Architecture(LEAKY, 0.35, width, 2), 0.01),
        "narrow": (Architecture(LEAKY, 1.05, min(50, width), 20), 0.005),
        "dropout": (Architecture(LEAKY, 1.0, width, 10, "dropout"), 0.005),
        "linear": (Architecture("linear", 0.85, width, 20), 0.00125),
        "relu": (Architecture("relu", 1.0, width, 20), 0.005),
        "elu": (Architecture(jax.nn.elu, 0.95, width, 20), 0.00045),
        "tanh": (Architecture("tanh", 0.85, width, 20), 0.00125),
        "swish": (Architecture(jax.nn.swish, 1.7, width, 20), 0.0025),
    }
    if width > 110:  # eleven convolutions without padding need as much
        rows["convolution"] = Architecture(LEAKY, 0.95, width, 10, "convolution"), 0.002
    return rows


def with_gain(gain: float, width: int) -> Row:
    """The default network at another gain of the initial weights, with its published rate."""
    return Architecture(LEAKY, gain, width, 20), GAIN_RATES[gain]


def altered_errors(networks: Trained) -> np.ndarray:
    """Fit errors of the theory and of its alterations in a run, shape (1 + alterations, networks)."""
    equations = (two_point.UNALTERED, *two_point.ALTERED.values())
    return np.array([[networks.fit(int(r), factors=f).error for r in networks.done] for f in equations])


def exponent_off_closed(rates: dict[str, Any], dy2: float, times: np.ndarray, grow: bool) -> np.float64:
    """Exponent in the gain g of the largest deviation of H from the solution for identical targets.

    Targets are fixed, or `grow` with the outputs.
    """
    gains, off = np.array([30, 100, 300, 1000]), []
    for g in gains:
        H, Q, span = 0.4 * g, 0.2 * g**2, times / g
        w = Q - 0.3 * (g**2 if grow else g)
        path = two_point.solve(H, Q, w, **rates, dy2=dy2 * g**2 if grow else dy2, times=span)
        off.append(np.max(np.abs(path.H - two_point.identical_outputs(H, Q, **rates, times=span).H)) / H)
    return np.float64(statistics.fit_power_law(gains, off).exponent)


# ---- waiting ----------------------------------------------------------------------------------------


STEP_LIKE = float((np.log(10 / 9) / np.log(10)) ** 0.5)  # between 0.046, an exponential's, and 1, a step's


def waiting(way: np.ndarray) -> float:
    """Time at which 1/10 of a way is gone over that at which 9/10 are: 0.046 if exponential, NaN if it stays.

    The way (n,) is given by what is left of it, 1 at the start.
    """
    early, late = (int(np.argmax(way < left)) for left in (0.9, 0.1))
    return early / late if late else np.nan


def remaining(curve: np.ndarray) -> np.ndarray:
    """What is left of the way of a curve (..., n) from its first value to its last."""
    first, last = curve[..., :1], curve[..., -1:]
    return (curve - last) / (first - last)


def difference_loss(trajectory: np.ndarray, dy2: float = 0.5) -> np.ndarray:
    """The outputs' difference's part of the loss, ⅛(2w − Q + |dy|²), of H, Q and w (3, n)."""
    return (2 * trajectory[2] - trajectory[1] + dy2) / 8


def waits(network: Trained) -> np.ndarray:
    """`waiting` of the first network's H, Q, loss of the difference, and whole loss."""
    H, Q, _ = path = network.trajectory()
    curves = [H, Q, difference_loss(path, network.dy2), network.run.loss[0]]
    return np.array([waiting(remaining(curve)) for curve in curves])


def backwards(network: Trained) -> float:
    """Fit error of the first network's loss, run backwards."""
    return two_point.fit_loss(network.run.loss[0][::-1], network.fit().solution, 0.5, network.dy2).error


def stepped(network: Trained) -> np.float64:
    """Fit error to the first network's loss of an exponential and a step, without the three equations.

    Their heights are those of the loss's two parts at the start; the rate and the step's time are fitted.
    """
    loss, times = network.run.loss[0], network.run.times
    height = difference_loss(network.trajectory(), network.dy2)[0]

    def least(log_rate):  # over the times of the step
        off = (loss[0] - height) * np.exp(-np.exp(log_rate) * times) - loss
        before, after = (np.cumsum(np.square(part)) for part in (off + height, off[::-1]))
        return np.min(np.append(0, before) + np.append(after[::-1], 0))

    rates = np.linspace(np.log(0.01 / times[-1]), np.log(10 / times[1]), 200)
    step, nearest = rates[1] - rates[0], rates[np.argmin(list(map(least, rates)))]
    found = optimize.minimize_scalar(least, bounds=(nearest - step, nearest + step), method="bounded")
    return found.fun / loss.size / np.var(loss)


# ---- layers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layers:
    """Fits at every layer of several networks.

    Attributes:
        loss: what the fit minimizes, Σ (ΔH)² + (ΔQ)² + (Δw)² over the records, shape (networks, layers).
        eta_h: encoder rate, of the same shape.
        eta_y: decoder rate.
        start: H at the start.
    """

    loss: np.ndarray
    eta_h: np.ndarray
    eta_y: np.ndarray
    start: np.ndarray


def over_layers(networks: Trained) -> Layers:
    """Both rates fitted at every hidden layer of all networks of a run."""
    rows = []
    for r in map(int, networks.done):
        for layer in range(networks.run.tracked["H"].shape[-1]):
            fit, observed = networks.fit(r, layer), networks.trajectory(r, layer)
            loss = fit.error * observed.var(axis=1).sum() * observed.shape[1]
            rows.append([loss, fit.eta_h, fit.eta_y, observed[0, 0]])
    return Layers(*np.transpose(rows).reshape(4, len(networks.done), -1))


def with_depth(rates: np.ndarray, layers: slice) -> np.ndarray:
    """Rank correlation of each network's rates (networks, layers) with the depth, over some layers.

    Layers without a fit are left out; NaN where these are more than half.
    """
    found = []
    for row in rates[:, layers]:
        (fitted,) = np.nonzero(np.isfinite(row))
        enough = 2 * fitted.size >= row.size
        found.append(stats.spearmanr(fitted, row[fitted]).statistic if enough else np.nan)
    return np.array(found)


# ---- where training ends ----------------------------------------------------------------------------

HALF = 0.5**0.5  # |dy| of the pair at which rates are fitted; its |dx| is 1


@dataclass(frozen=True)
class Ends:
    """Networks that were trained on several pairs of points, from the same initial weights on each.

    Attributes:
        distances: |dx| and |dy| of the pairs, shape (pairs, 2); rates are fitted at the first.
        trained: the networks, pair by pair.
    """

    distances: np.ndarray
    trained: list[Trained]

    @property
    def done(self) -> np.ndarray:
        """Which of the networks were trained to the end on every pair."""
        return np.flatnonzero(np.all([each.run.converged for each in self.trained], axis=0))

    @property
    def networks(self) -> int:
        """How many were trained."""
        return len(self.trained[0].run.loss)

    def layer(self, layer: int | None) -> int:
        """A layer, halfway through the network unless given."""
        return self.trained[0].model.middle if layer is None else layer

    def found(self, layer: int | None = None) -> np.ndarray:
        """H at the end of training, shape (done, pairs)."""
        return np.array([each.run.tracked["H"][self.done, -1, self.layer(layer)] for each in self.trained]).T

    def predicted(self, layer: int | None = None, blind: bool = False) -> np.ndarray:
        """H* of the same networks, from their distances at the start and one ratio of rates for all.

        A `blind` formula takes the inputs to be at a distance of 1, wherever they are.
        """
        if not len(self.done):
            return np.empty((0, len(self.distances)))
        fits = [self.trained[0].fit(int(r), layer) for r in self.done]
        ratio = np.exp(np.mean([np.log(fit.eta_h / fit.eta_y) for fit in fits]))
        rows = []
        for (dx, dy), each in zip(self.distances, self.trained, strict=True):
            H0, Q0, _ = np.transpose([each.trajectory(int(r), layer)[:, 0] for r in self.done])
            dx = 1.0 if blind else dx
            rows.append(two_point.final_distance(H0, Q0, ratio, 1.0, dx**2, dy**2))
        return np.transpose(rows)

    def exponents(self, H: np.ndarray) -> Estimate:
        """Exponents of H (done, pairs) in |dx| and |dy|, means over networks."""
        design = np.column_stack([np.ones(len(self.distances)), np.log(self.distances)])
        return spread(np.linalg.lstsq(design, np.log(H).T, rcond=None)[0][1:].T)


def train_pairs(
    key: Any, row: Row, networks: int, dx: Sequence[float], dy: Sequence[float], every: bool = False,
    centered: bool = False, steps: int = 48_000,
) -> Ends:  # fmt: skip
    """Train networks at all |dx| with |dy|² = ½ and at all |dy| with |dx| = 1, or at every pair of the two.

    Inputs lie at −1 and −1 + |dx| as paper C has them, or `centered` at ∓|dx|/2.
    """
    pairs = [(x, y) for x in dx for y in dy] if every else [(x, HALF) for x in dx] + [(1.0, y) for y in dy]
    distances = [(1.0, HALF), *(pair for pair in pairs if pair != (1.0, HALF))]
    options: dict[str, Any] = {"repeats": networks, "stop_loss": 1e-4, "converged_loss": 1e-3, "steps": steps}
    trained = [learn(key, *row, _points(x, y, centered), **options) for x, y in distances]
    return Ends(np.array(distances), trained)


def _points(dx: float, dy: float, centered: bool) -> Task:
    task = tasks.two_points(dx**2, dy**2)
    return replace(task, inputs=task.inputs - task.inputs.mean()) if centered else task


def variants(key: Any, row: Row, grid: dict[str, Any]) -> dict[str, tuple[Ends, None]]:
    """The default network at other gains, with inputs around zero, and without biases but in the inputs."""
    model, rate = row
    rows = {
        "gain 0.9": ((replace(model, gain=0.9), GAIN_RATES[0.9]), False),
        "gain 1.1": ((replace(model, gain=1.1), GAIN_RATES[1.1]), False),
        "inputs around zero": ((model, rate), True),
        "no biases, inputs around zero": ((replace(model, biases=False), rate), True),
    }
    done = side_by_side(
        partial(train_pairs, key, row, centered=at_zero, **grid) for row, at_zero in rows.values()
    )
    return {name: (each, None) for name, each in zip(rows, done, strict=True)}


# ---- randomness -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Networks of one width and gain that differ in nothing but the draw of their weights.

    Attributes:
        width: units per layer.
        gain: of the initial weights.
        start: squared distances before training, shape (networks,); networks that did not end are left out.
        theory: the closed form, with one ratio of rates for all.
        final: after training.
    """

    width: int
    gain: float
    start: np.ndarray
    theory: np.ndarray
    final: np.ndarray


def draws(key: Any, width: int, gain: float, networks: int) -> Draws:
    """Train networks of 20 layers on the pair of points."""
    model = Architecture(LEAKY, gain, width, 20)
    options: dict[str, Any] = {"stop_loss": 1e-6, "repeats": networks}
    trained = learn(jax.random.fold_in(key, width), model, NARROW_RATES[gain], **options)
    if len(trained.done) < 3:
        return Draws(width, gain, *3 * [np.full(3, np.nan)])
    H, Q, _ = np.transpose([trained.trajectory(int(r)) for r in trained.done], (1, 2, 0))
    ratio = np.median(H[-1]) ** 2 / trained.dy2
    theory = two_point.final_distance(H[0], Q[0], ratio, 1.0, 1.0, trained.dy2)
    return Draws(width, gain, H[0], theory, H[-1])


def log_spread(values: np.ndarray) -> Estimate:
    """Logarithm of the standard deviation of log values over networks, and its error by the jackknife."""
    logs = np.log(values)
    without = np.log([np.delete(logs, k).std(ddof=1) for k in range(len(logs))])
    return Estimate(np.log(logs.std(ddof=1)), np.sqrt((len(logs) - 1) * without.var()))


def slope(x: ArrayLike, values: Sequence[Estimate]) -> Estimate:
    """Slope of values over x by least squares, with their errors."""
    centered = np.asarray(x, dtype=float)
    centered = centered - centered.mean()
    weights = centered / np.square(centered).sum()
    value, error = np.transpose(values)
    return Estimate(weights @ value, np.linalg.norm(weights * error))


def log_mean(values: np.ndarray) -> Estimate:
    """Mean of log values over networks."""
    return spread(np.log(values))


def spread_curves(drawn: dict[tuple[int, float], Draws], gains: Sequence[float]) -> dict[str, Any]:
    """For `figures.curves`: spreads of initial and final distances and of the theory over the gain."""
    widths = [width for width in dict.fromkeys(width for width, _ in drawn) if (width, gains[-1]) in drawn]
    rows = [[drawn[widths[-1], gain] for gain in gains]] * 2 + [
        [drawn[n, gain] for gain in gains] for n in widths
    ]
    kinds = ["start", "theory", *["final"] * len(widths)]
    found = [[log_spread(getattr(each, kind)) for each in row] for kind, row in zip(kinds, rows, strict=True)]
    value, error = np.exp(np.array(found)[..., 0]), np.array(found)[..., 1]
    return {
        "x": gains,
        "values": value,
        "errors": value * error,
        "names": ["initial distances", "theory", *(f"$N$ = {n}" for n in widths)],
        "colors": ["#B0B0B0", "#1A1A1A", "#88CCEE", "#44AA99", "#332288", "#882255"],
        "styles": [":", "-", *["-"] * len(widths)],
        "scales": ("linear", "log"),
        "xlabel": "gain of the initial weights",
        "ylabel": "relative spread over networks",
    }


# ---- figures ----------------------------------------------------------------------------------------


def fit_errors(names: ArrayLike, errors: ArrayLike, altered: ArrayLike, altered_errors: ArrayLike) -> Figure:
    """Fit errors of architectures, and of altered equations on one of them.

    Args:
        names: Architectures (K,).
        errors: Their fit errors (K,).
        altered: Equations (E,).
        altered_errors: Fit errors of several networks (E, n).

    Returns:
        The figure, the threshold as a dashed line.
    """
    architectures, equations = ([textwrap.fill(str(n), 20) for n in np.asarray(a)] for a in (names, altered))
    heights = 0.25 * len(architectures), 0.45 * len(equations)  # of one line of text, and of two
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(WIDTH, 1.5 + sum(heights)), sharex=True, height_ratios=heights
    )
    upper.plot(np.asarray(errors), np.arange(np.size(names)), "o", color=CURVES[0])
    for k, row in enumerate(np.asarray(altered_errors)):
        lower.plot(row, np.full(row.shape, k), "o", color=CURVES[0] if k == 0 else CURVES[1], alpha=0.6)
    for axis, labels, title in (
        (upper, architectures, "architectures"),
        (lower, equations, "default, equations altered"),
    ):
        axis.set_yticks(np.arange(len(labels)), labels)
        axis.axvline(DESCRIBED, color="0.4", linestyle="--", linewidth=0.8)
        axis.set(xscale="log", ylim=(len(labels) - 0.5, -0.5), title=title)
    lower.set_xlabel("fit error")
    return figure


def depth_panels(
    loss: ArrayLike, printed: ArrayLike, eta_h: ArrayLike, eta_y: ArrayLike, start: ArrayLike, law: ArrayLike
) -> Figure:
    """Fit loss, fitted rates and initial distance over the layers of several networks, (networks, layers)."""
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.1))
    layers = np.arange(1, np.shape(loss)[1] + 1)
    panels = (
        (axes[0], ((loss, CURVES[0], None),)),
        (axes[1], ((eta_h, CURVES[0], r"encoder $\eta_h$"), (eta_y, CURVES[1], r"decoder $\eta_y$"))),
        (axes[2], ((start, CURVES[0], None),)),
    )
    for axis, rows in panels:
        for values, color, name in rows:
            axis.plot(layers, np.transpose(values), ".", color=color, markersize=3, alpha=0.5)
            axis.plot(layers, np.exp(np.log(values).mean(axis=0)), "o", color=color, label=name, markersize=4)
    axes[0].plot(layers, np.asarray(printed), "--", color="0.4", label="published")
    axes[2].plot(layers, np.asarray(law), color="0.1", label="theory")
    titles = ("fit loss", "rate per step", "initial distance $H_0$")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlabel="hidden layer", yscale="log", title=title)
        axis.locator_params(axis="y", numticks=5)
    legend_above(figure, *axes)
    return figure


def scatter_panels(
    theory: ArrayLike, network: ArrayLike, errors: ArrayLike, dx: ArrayLike, titles: ArrayLike
) -> Figure:
    """Final squared distances of networks against theory's, with standard errors: (K, pairs) in K panels.

    A color for each distance of the inputs, `dx` (pairs,).
    """
    rows, distances = np.asarray(theory), np.asarray(dx)
    shades = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, len(np.unique(distances))))
    figure, axes = plt.subplots(1, len(rows), figsize=(max(3.4, 2.15 * len(rows)), 2.7), squeeze=False)
    for axis, x, y, bar, title in zip(
        axes[0], rows, np.asarray(network), np.asarray(errors), np.atleast_1d(titles), strict=True
    ):
        for distance, shade in zip(np.unique(distances), shades, strict=True):
            at = distances == distance
            axis.errorbar(x[at], y[at], bar[at], fmt="o", color=shade, markersize=4, label=f"{distance:g}")
        top = 1.08 * max(np.nanmax(x), np.nanmax(y))
        axis.plot([0, top], [0, top], color="0.1", linewidth=1)
        axis.set(xlabel="$H^*$, theory", title=str(title))
    axes[0, 0].set_ylabel(r"$H(\infty)$, networks")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, title="$|dx|$", loc="outside right center", handletextpad=0.2)
    return figure
