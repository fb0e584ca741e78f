"""The house's drawing functions, from arrays to a figure, and its colors: one for each thing, everywhere.

Theory is a line, samples are markers or bars with their errors. Draw through `companion.publish.publish`.
"""

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from companion.publish import WIDTH

COLORS = {
    "linear": "#0072B2",
    "sigmoidal": "#009E73",
    "relu": "#D55E00",
    "softplus": "#E69F00",
    "relu_squared": "#A6611A",
    "erf": "#56B4E9",
    "tanh": "#CC79A7",
    "theory": "#1A1A1A",
    "samples": "#5B7C99",
    "targets": "#1A1A1A",
    "outputs": "#5B7C99",
    "gaussian_process": "#8C6BB1",
    "prior": "#9A9A9A",
    "lazy": "#999999",
    "non-lazy": "#882255",
    "train": "#332288",
    "test": "#CC6677",
    "control": "#9A9A9A",
}
"""One color per quantity and nonlinearity, the same in every chapter, safe for color-blind readers."""

VARIABLE_COLORS = ("#332288", "#CC6677", "#44AA99")
"""Colors of H, Q and w, the variables of two points."""

BLUES, GREYS = ("#6BAED6", "#2E7EBC", "#08519C"), ("#C4C4C4", "#999999", "#6E6E6E")
"""Light to dark, for layers, depths or degrees of one thing."""

CLASS_COLORS = (
    "#332288",
    "#C9A227",
    "#AA4499",
    "#44AA99",
    "#882255",
    "#88CCEE",
    "#999933",
    "#117733",
    "#CC6677",
    "#661100",
)
"""Colors of the classes, in the order of their labels."""


class _CodeColors(dict[str, str]):
    """Color of a code by its name; codes of more than three classes get one computed from the name."""

    def __missing__(self, name: str) -> str:
        digits = name.replace("-", "")
        if not digits or set(digits) - {"0", "1"}:
            raise KeyError(name)
        from seaborn import husl_palette  # here, because it loads pandas: a second and more

        turn = int(digits, 2) * 0.618034 % 1.0  # golden ratio: neighbors in number are far apart in hue
        lightness = 0.6 if digits.count("1") % 2 else 0.45
        self[name] = mpl.colors.to_hex(husl_palette(1, h=turn, l=lightness)[0])
        return self[name]


CODE_COLORS = _CodeColors(
    {
        "1-1-0": "#0072B2",
        "0-1-1": "#009E73",
        "1-0-1": "#E69F00",
        "1-1-1": "#CC79A7",
        "1-0-0": "#56B4E9",
        "0-1-0": "#B8A500",
        "0-0-1": "#D55E00",
        "0-0-0": "#8A8A8A",
        "1-0": "#56B4E9",
        "0-1": "#E69F00",
        "1-1": "#882255",
        "0-0": "#999999",
    }
)
"""One color per code name, such as "1-1-0", in every figure, film and interactive page."""

COLORMAPS = {
    "activations": ("Blues", "RdBu"),
    "readouts": ("Purples", "PuOr_r"),
    "kernels": ("Greens", "PRGn"),
}
"""Color maps of what is never negative and of what is signed; both are pale at zero."""


def activation_matrix(
    activations: ArrayLike,
    labels: ArrayLike,
    titles: ArrayLike = ("",),
    row_names: ArrayLike = (),
    codes: ArrayLike = (),
    colorbar_label: str = r"activation $\phi(z)$",
) -> Figure:
    """Activations of every neuron on every input, the inputs sorted by class.

    Args:
        activations: Array (N, P), neurons in the order to be shown; (K, N, P) for K panels side by side;
            (rows, K, N, P) for a grid.
        labels: Class of each input (P,).
        titles: One title per column.
        row_names: One name per row of a grid.
        codes: Name of every neuron's code, (N,), (K, N) or for all panels of a grid (rows K, N), as a strip
            of the codes' colors beside a panel.
        colorbar_label: What the colors stand for.

    Returns:
        A figure with one shared color scale; lines separate the classes.
    """
    panels = np.asarray(activations, dtype=float)
    panels = panels.reshape((1,) * (4 - panels.ndim) + panels.shape)
    order, (rows, columns) = np.argsort(labels, kind="stable"), panels.shape[:2]
    size = (WIDTH, 3.6 if rows == 1 else 0.5 + 1.7 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for panel, axis in zip(panels.reshape(-1, *panels.shape[2:]), axes.flat, strict=True):
        image = axis.imshow(panel[:, order], aspect="auto", **_color_scale(panels, "activations"))
        axis.vlines(_class_edges(labels), -0.5, len(panel) - 0.5, color=COLORS["theory"], linewidth=0.8)
        _class_ticks(axis.xaxis, labels)
    for axis, title in zip(axes[0], np.broadcast_to(titles, columns), strict=True):
        axis.set_title(str(title))
    named = zip(axes.flat, _rows_of_codes(codes, rows * columns))
    beside = {axis: _code_strip(axis, names) for axis, names in named}
    for axis, name in zip(axes[:, 0], [*np.atleast_1d(row_names), *[""] * rows], strict=False):
        beside.get(axis, axis).set_ylabel(f"{name}\n{'' if axis in beside else 'neuron'}".strip())
    figure.supxlabel("input, by class", fontsize=mpl.rcParams["axes.labelsize"])
    figure.colorbar(image, ax=axes, label=colorbar_label, fraction=0.05, pad=0.02)
    return figure


def kernel_matrices(kernels: ArrayLike, labels: ArrayLike, titles: ArrayLike = ("",)) -> Figure:
    """Kernels side by side on one color scale, inputs sorted by class.

    Args:
        kernels: Array (K, P, P), for instance one kernel per layer.
        labels: Class of each input (P,).
        titles: One title per kernel.

    Returns:
        The figure, up to three kernels a row.
    """
    panels = np.asarray(kernels, dtype=float)
    panels = panels[None] if panels.ndim == 2 else panels
    order = np.argsort(labels, kind="stable")
    scale = _color_scale(panels, "kernels")
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    side = WIDTH / max(columns, 2)
    size = (side * columns, 0.95 * side * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="compressed")
    for axis in grid.flat[len(panels) :]:
        axis.set_visible(False)
    for panel, title, axis in zip(panels, np.broadcast_to(titles, len(panels)), grid.flat, strict=False):
        image = axis.imshow(panel[np.ix_(order, order)], **scale)
        _class_ticks(axis.xaxis, labels)
        _class_ticks(axis.yaxis, labels)
        axis.set(title=title, xlabel="input, by class")
    for axis in grid[:, 0]:
        axis.set_ylabel("input, by class")
    figure.colorbar(image, ax=grid, label="kernel", fraction=0.04, pad=0.02)
    return figure


def kernels_and_neurons(
    kernels: ArrayLike,
    activations: ArrayLike,
    labels: ArrayLike,
    titles: ArrayLike,
    codes: ArrayLike = (),
) -> Figure:
    """Several networks side by side: kernels above, activations below, inputs sorted by class.

    Args:
        kernels: Array (K, P, P).
        activations: Array (K, n, P), neurons in the order to be shown.
        labels: Class of each input (P,).
        titles: One per network.
        codes: Name of every neuron's code, (K, n), as a strip of the codes' colors.

    Returns:
        The figure; all kernels share a color scale, the activations of each network have one of their own.
    """
    order, upper = np.argsort(labels, kind="stable"), np.asarray(kernels, dtype=float)
    lower = np.asarray(activations, dtype=float)
    figure, axes = plt.subplots(2, len(upper), figsize=(WIDTH, 4.4), squeeze=False)
    for kernel, neurons, title, (above, below) in zip(
        upper, lower, np.atleast_1d(titles), axes.T, strict=True
    ):
        above.imshow(kernel[np.ix_(order, order)], **_color_scale(upper, "kernels"))
        below.imshow(neurons[:, order], aspect="auto", **_color_scale(neurons, "activations"))
        below.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axis in (above.xaxis, above.yaxis, below.xaxis):
            _class_ticks(axis, labels)
        above.set_title(str(title))
        below.set_xlabel("input, by class")
    for axis, names in zip(axes[1], _rows_of_codes(codes, len(upper)), strict=False):
        _code_strip(axis, names)
    axes[0, 0].set_ylabel("kernel\ninput, by class")
    if np.size(codes):  # their names stand where the label would
        axes[1, 0].set_title("activation, neurons by code", loc="left")
    else:
        axes[1, 0].set_ylabel("activation\nneuron")
    return figure


def code_raster(times: ArrayLike, which: ArrayLike, names: ArrayLike, titles: ArrayLike) -> Figure:
    """Every neuron's code over time, one panel per layer, codes as colors.

    Args:
        times: Times (S,), evenly spaced.
        which: Index of the code of every neuron at every time, (layers, N, S).
        names: The codes, in the order of the indices.
        titles: One title per layer.
    """
    panels, codes = np.asarray(which), [str(name) for name in np.atleast_1d(names)]
    palette = [CODE_COLORS[name] for name in codes]
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 3.8), sharey=True, squeeze=False)
    scale = {"cmap": mpl.colors.ListedColormap(palette), "vmin": -0.5, "vmax": len(codes) - 0.5}
    extent = (float(np.min(times)), float(np.max(times)), panels.shape[1] - 0.5, -0.5)
    for axis, panel, title in zip(axes[0], panels, np.atleast_1d(titles), strict=True):
        axis.imshow(panel, aspect="auto", extent=extent, **scale)
        axis.set(xlabel="time $t$", title=title)
    axes[0, 0].set_ylabel("neuron")
    handles = [mpl.patches.Patch(color=color, label=name) for color, name in zip(palette, codes, strict=True)]
    legend_above(figure, handles=handles)
    return figure


def network_sample(
    readouts: ArrayLike,
    activations: ArrayLike,
    outputs: ArrayLike,
    targets: ArrayLike,
    labels: ArrayLike,
    theory: ArrayLike = (),
    names: ArrayLike = (),
    codes: ArrayLike = (),
) -> Figure:
    """One network: readouts and activations of its neurons, and its outputs against the targets.

    Args:
        readouts: Readout weights (N, m), neurons in the order to be shown; empty for outputs alone.
        activations: Activations (N, P), neurons in the same order; empty for outputs alone.
        outputs: Outputs (P, m).
        targets: Targets (P, m).
        labels: Class of each input (P,); inputs are sorted by it.
        theory: Predicted outputs (P, m), a thin line.
        names: Of the outputs (m,), where they are shown alone; $f_r$ unless given.
        codes: Name of every neuron's code (N,), as a strip of the codes' colors.

    Returns:
        A figure with readouts beside activations, and below them the outputs on the same inputs.
    """
    order = np.argsort(labels, kind="stable")
    rows = np.asarray(outputs).shape[1]
    if not np.size(activations):
        size = (WIDTH, 1.0 + 1.15 * rows)
        figure, axes = plt.subplots(rows, 1, figsize=size, sharex=True, sharey=True, squeeze=False)
        _draw_outputs(axes[:, 0], outputs, targets, labels, theory)
        for axis, name in zip(axes[:, 0], np.asarray(names), strict=False):
            axis.set_ylabel(str(name))
        return figure
    height = max(0.6, 1.2 / rows)  # of the axis of one output
    figure, axes = plt.subplots(
        1 + rows,
        2,
        figsize=(WIDTH, 2.6 + height * rows),
        width_ratios=(1, 6),
        height_ratios=(3, *[height] * rows),
        squeeze=False,
    )
    shown = {"readouts": np.asarray(readouts, dtype=float), "activations": np.asarray(activations)[:, order]}
    for (kind, values), axis, side in zip(shown.items(), axes[0], ("left", "right"), strict=True):
        image = axis.imshow(values, aspect="auto", **_color_scale(values, kind))
        figure.colorbar(image, ax=axis, shrink=0.8, location=side)
    axes[0, 0].set(xlabel="output $r$", ylabel="neuron $i$", title=r"readout $a_i^r$")
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes[0, 0].yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes[0, 1].set(title=r"activation $\phi(z_{i\mu})$", yticks=[])
    for code_names in _rows_of_codes(codes, 1):
        _code_strip(axes[0, 1], code_names)
    for spare in axes[1:, 0]:
        spare.set_visible(False)
    for axis in axes[:, 1]:
        _class_ticks(axis.xaxis, labels)
        axis.set_xlim(-0.5, len(order) - 0.5)
    axes[0, 1].set_xticklabels([])
    _draw_outputs(axes[1:, 1], outputs, targets, labels, theory)
    return figure


def densities(
    samples: ArrayLike,
    grid: ArrayLike,
    density: ArrayLike,
    names: ArrayLike = ("",),
    colors: ArrayLike = CLASS_COLORS,
    panels: bool = False,
    xlabel: str = r"readout weight $a$",
) -> Figure:
    """Sampled quantities as histograms, each with the theory's density as a line.

    Args:
        samples: Sampled values (K, n), or (n,) for one quantity.
        grid: Where the densities are known, (G,) or (K, G).
        density: Theory's densities, (K, G) or (G,), per unit of `samples`.
        names: One name per quantity.
        colors: One color per quantity, repeated as needed.
        panels: Whether each quantity has a panel of its own, titled by its name.
        xlabel: Label of the horizontal axes.
    """
    rows = np.atleast_2d(np.asarray(samples, dtype=float))
    lines = np.broadcast_to(density, (len(rows), np.shape(density)[-1]))
    grids, labels = np.broadcast_to(grid, lines.shape), np.broadcast_to(names, len(rows))
    count = len(rows) if panels else 1
    figure, axes = plt.subplots(1, count, figsize=(WIDTH, 2.8 if panels else 3.4), sharey=True, squeeze=False)
    for k, (row, color) in enumerate(zip(rows, np.resize(np.atleast_1d(colors), len(rows)), strict=True)):
        axis = axes[0, k % count]
        label = "samples" if panels else f"{labels[k]} samples".strip()
        bars = {"color": color, "alpha": 0.6, "label": label, "histtype": "stepfilled"}
        axis.hist(row, _bins(row), density=True, **bars)
        axis.plot(grids[k], lines[k], color=COLORS["theory"], label="theory" if panels or k == 0 else None)
        axis.set(xlabel=xlabel, title=str(labels[k]) if panels else "")
    axes[0, 0].set_ylabel("probability density")
    legend_above(figure, axes[0, 0])
    return figure


def sparse_population(
    bulk: ArrayLike,
    grid: ArrayLike,
    density: ArrayLike,
    outliers: ArrayLike,
    levels: ArrayLike,
    xlabel: str = r"readout weight $a$",
) -> Figure:
    """A sparse scheme's distribution: the bulk against its density, and beyond it the outliers.

    Args:
        bulk: Sampled values of the bulk's neurons (n,).
        grid: Where the bulk's density is known (G,).
        density: Theory's density of the bulk (G,), per unit of `bulk`.
        outliers: Sampled values of the outliers (K, n'), one row each.
        levels: Theory's value of each outlier (K,).
        xlabel: Label of the horizontal axes.

    Returns:
        A figure with the bulk on the left and the whole range on the right.
    """
    rows = np.atleast_2d(np.asarray(outliers, dtype=float))
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.4))
    filled = {"color": COLORS["relu"], "histtype": "stepfilled"}  # one path, not one per bar
    left.hist(np.asarray(bulk), 60, density=True, alpha=0.75, label="samples, bulk", **filled)
    left.plot(np.asarray(grid), np.asarray(density), color=COLORS["theory"], label="theory")
    left.set(xlabel=xlabel, ylabel="probability density", title="bulk")
    span = max(np.ptp(np.append(rows, bulk)), 1e-12)
    edges = np.linspace(min(rows.min(), np.min(bulk)), max(rows.max(), np.max(bulk)) + 1e-9 * span, 90)
    right.hist(np.asarray(bulk), edges, alpha=0.35, **filled)
    for k, (row, level) in enumerate(zip(rows, np.asarray(levels), strict=True)):
        color = CLASS_COLORS[k % len(CLASS_COLORS)]
        rim = 1.2 * (len(rows) - k)  # bars are narrow, and those of two outliers may coincide
        line = {"color": color, "edgecolor": color, "linewidth": rim, "histtype": "stepfilled"}
        right.hist(row, edges, label=f"outlier {k}", **line)
        right.axvline(level, color=COLORS["theory"], linestyle="--", linewidth=1, zorder=0)
    right.set(xlabel=xlabel, ylabel="count", yscale="log", title="bulk and outliers")
    legend_above(figure, left, right)
    return figure


def curves(
    x: ArrayLike,
    values: ArrayLike,
    names: ArrayLike = ("",),
    errors: ArrayLike = (),
    colors: ArrayLike = (),
    styles: ArrayLike = ("-",),
    widths: ArrayLike = (1.6,),
    scales: ArrayLike = ("linear", "linear"),
    levels: ArrayLike = (),
    marks: ArrayLike = (),
    sampled_x: ArrayLike = (),
    sampled: ArrayLike = (),
    sampled_errors: ArrayLike = (),
    xticks: ArrayLike = (),
    xlabel: str = r"time $t$",
    ylabel: str = "value",
) -> Figure:
    """Curves on one axis, with bands or with sampled markers of the same colors.

    Args:
        x: Horizontal positions (S,), or one row per curve (K, S).
        values: Curves (K, S); NaN where there is nothing to show.
        names: One name per curve; curves of one name share a color and a legend entry.
        errors: Standard errors (K, S), drawn as bands.
        colors: One color per name, repeated as needed; by default the codes' own, or those of the classes.
        styles: One line style per curve, repeated as needed; "steps-post" for counts.
        widths: One line width per curve, repeated; falling ones keep lines apart that lie on each other.
        scales: Scales of the horizontal and the vertical axis, "linear" or "log".
        levels: Heights to mark by dashed lines.
        marks: A horizontal position per curve (K,), marked by a dotted line of its color.
        sampled_x: Where was sampled (S',), or one row per sampled curve (k, S').
        sampled: Sampled values (k, S') of the first k curves; NaN for none.
        sampled_errors: Their standard errors (k, S').
        xticks: Ticks of the horizontal axis, in place of chosen ones.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    positions = np.broadcast_to(np.asarray(x, dtype=float), rows.shape)
    labels = [str(name) for name in np.broadcast_to(names, len(rows))]
    palette = _palette(labels, colors)
    figure, axis = plt.subplots()
    for k, (row, style, width) in enumerate(
        zip(rows, np.resize(styles, len(rows)), np.resize(widths, len(rows)), strict=True)
    ):
        steps = {"drawstyle": style} if str(style).startswith("steps") else {"linestyle": style}
        label = labels[k] if labels[k] not in labels[:k] else None
        axis.plot(positions[k], row, color=palette[k], linewidth=width, label=label or None, **steps)
        if np.size(errors):
            bar = np.asarray(errors, dtype=float)[k]
            axis.fill_between(positions[k], row - bar, row + bar, color=palette[k], alpha=0.2, linewidth=0)
    markers = np.asarray(sampled, dtype=float)
    markers = np.atleast_2d(markers) if markers.size else markers
    bars = (
        np.broadcast_to(sampled_errors, markers.shape) if np.size(sampled_errors) else [None] * len(markers)
    )
    places = np.broadcast_to(sampled_x, markers.shape)
    for place, row, bar, color in zip(places, markers, bars, palette, strict=False):
        axis.errorbar(place, row, bar, fmt="o", color=color, capsize=3)
    for level in np.atleast_1d(levels):
        axis.axhline(level, color=COLORS["theory"], linestyle="--", linewidth=0.8)
    for mark, color in zip(np.atleast_1d(marks), palette, strict=False):
        axis.axvline(mark, color=color, linestyle=":", linewidth=1.2)
    across, up = np.asarray(scales)
    axis.set(xlabel=xlabel, ylabel=ylabel, xscale=str(across), yscale=str(up))
    if np.size(xticks):
        axis.set_xticks(np.asarray(xticks), [f"{tick:,}" for tick in np.asarray(xticks).tolist()])
        axis.xaxis.set_minor_locator(NullLocator())
    legend_above(figure, axis)
    return figure


def scaling_plot(
    sizes: ArrayLike,
    values: ArrayLike,
    exponents: ArrayLike,
    prefactors: ArrayLike,
    names: ArrayLike,
    errors: ArrayLike = (),
    colors: ArrayLike = CLASS_COLORS,
    theory: ArrayLike = (),
    xlabel: str = r"width $N$",
    ylabel: str = "value",
) -> Figure:
    """Quantities against size on logarithmic axes, each with its fitted power law.

    Args:
        sizes: Sizes (S,), positive.
        values: Measured values (K, S), positive.
        exponents: Fitted exponents (K,).
        prefactors: Fitted prefactors (K,): value = prefactor · size^exponent.
        names: One name per quantity.
        errors: Standard errors of the values (K, S).
        colors: One color per quantity.
        theory: Predicted values (K, S), drawn dashed; NaN where there is none.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.

    Returns:
        The figure; the legend states the exponents.
    """
    x, powers = np.asarray(sizes, dtype=float), np.atleast_1d(exponents)
    laws = np.atleast_1d(prefactors)[:, None] * x ** powers[:, None]
    predicted = np.atleast_2d(theory) if np.size(theory) else np.empty((0, len(x)))
    stated = [f"{round(power, 2) + 0.0:.2f}".replace("-", "−") for power in powers]  # no −0.00
    titles = [f"{name}: {power}" for name, power in zip(np.atleast_1d(names), stated, strict=True)]
    figure = curves(
        x,
        np.concatenate([laws, predicted]),
        [*titles, *titles[: len(predicted)]],  # theory, dashed, in the color of its samples
        colors=np.atleast_1d(colors)[: len(laws)],
        styles=["-"] * len(laws) + ["--"] * len(predicted),
        scales=("log", "log"),
        sampled_x=x,
        sampled=values,
        sampled_errors=errors,
        xlabel=xlabel,
        ylabel=ylabel,
    )
    figure.legends[0].set_title("exponents")
    axis = figure.axes[0]
    axis.set_xticks(x, [f"{size:g}" for size in x])
    axis.xaxis.set_minor_locator(NullLocator())
    return figure


def fit_panels(
    times: ArrayLike, network: ArrayLike, theory: ArrayLike, titles: ArrayLike, stops: ArrayLike,
    names: ArrayLike = ("$H$", "$Q$", "$w$"), columns: int = 3,
) -> Figure:  # fmt: skip
    """Networks (markers) over the fitted theory (lines), a panel each.

    Args:
        times: (S,).
        network: Curves of K panels (K, q, S).
        theory: The same.
        titles: (K,).
        stops: Where training ended (K,); a little more is shown.
        names: Of the curves (q,).
        columns: Panels per row.
    """
    t, dots, lines = np.asarray(times), np.asarray(network), np.asarray(theory)
    rows = -(-len(dots) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, 0.6 + 1.6 * rows), squeeze=False)
    for axis in axes.flat[len(dots) :]:
        axis.set_visible(False)
    for k, (axis, title, stop) in enumerate(
        zip(axes.flat, np.asarray(titles), np.asarray(stops), strict=False)
    ):
        shown = np.flatnonzero(t <= 1.3 * stop)
        marked = shown[:: max(1, len(shown) // 16)]
        curves = zip(dots[k], lines[k], VARIABLE_COLORS, np.asarray(names), strict=False)
        for dot, line, color, name in curves:
            axis.plot(t[shown], line[shown], color=color, linewidth=1.2)
            axis.plot(t[marked], dot[marked], ".", color=color, label=str(name))
        axis.set_title(str(title))
        axis.locator_params(nbins=3 if columns < 4 else 2)
        axis.set_xlabel("steps $t$" if k + columns >= len(dots) else "")
    if len(np.asarray(names)) > 1:
        legend_above(figure, axes[0, 0])
    return figure


def trace_panels(
    times: ArrayLike,
    values: ArrayLike,
    titles: ArrayLike,
    colors: ArrayLike = CLASS_COLORS,
    levels: ArrayLike | None = None,
    xlabel: str = r"time $t$",
    ylabel: str = r"readout weight $a$",
) -> Figure:
    """Time series of a few neurons for several networks, one panel each with axes of its own.

    Args:
        times: Times (K, S), one row per panel.
        values: Series (K, n, S).
        titles: One title per panel.
        colors: One color per neuron, repeated as needed.
        levels: Values to mark by dashed lines, (K, l); NaN for none.
        xlabel: Label of the horizontal axes.
        ylabel: Label of the first vertical axis.
    """
    panels = np.asarray(values, dtype=float)
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 2.9), squeeze=False)
    palette = np.resize(np.atleast_1d(colors), panels.shape[1])
    for k, (axis, time, rows, title) in enumerate(
        zip(axes[0], np.asarray(times), panels, np.atleast_1d(titles), strict=True)
    ):
        for row, color in zip(rows, palette, strict=True):
            axis.plot(time, row, color=color, linewidth=0.8)
        for level in [] if levels is None else np.asarray(levels)[k]:
            axis.axhline(level, color=COLORS["theory"], linestyle="--", linewidth=0.8)
        axis.set(xlabel=xlabel, title=title)
    axes[0, 0].set_ylabel(ylabel)
    return figure


def sampler_traces(
    names: ArrayLike,
    series: ArrayLike = (),
    prior: ArrayLike = (),
    planted: ArrayLike = (),
    rhat: ArrayLike = (),
    ess: ArrayLike = (),
    verdict: str = "",
) -> Figure:
    """Traces of a sampler's observables, one panel each, a thin line per chain: `Convergence` or `TwoEnded`.

    Args:
        names: Of the observables (K,).
        series: Of one run (K, chains, samples), or
        prior: of a run from the prior, and
        planted: of a run from a planted state.
        rhat: Of each observable (K,).
        ess: Of each observable (K,).
        verdict: Title.
    """
    given = ((series, "samples", ""), (prior, "prior", "from the prior"), (planted, "theory", "planted"))
    runs = [(np.asarray(run), color, label) for run, color, label in given if np.size(run)]
    rows = -(-len(np.asarray(names)) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, 2.1 * rows + 0.5), squeeze=False)
    for k, (axis, name) in enumerate(zip(axes.flat, np.asarray(names), strict=False)):
        for run, color, label in runs:
            axis.plot(run[k].T, color=COLORS[color], linewidth=0.8, alpha=0.8)
            axis.plot([], [], color=COLORS[color], label=label or None)
        axis.set(xlabel="sample", ylabel=str(name))
        if np.size(rhat):
            axis.set_title(f"R-hat {np.asarray(rhat)[k]:.3f}, ESS {np.asarray(ess)[k]:.0f}")
    for spare in axes.flat[len(np.asarray(names)) :]:
        spare.remove()
    figure.suptitle("\n".join(textwrap.wrap(str(verdict), 54)))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def bars(
    values: ArrayLike,
    groups: ArrayLike,
    names: ArrayLike = ("",),
    titles: ArrayLike = ("",),
    errors: ArrayLike = (),
    points: ArrayLike = (),
    point_names: ArrayLike = ("theory", "Gaussian process"),
    on: ArrayLike = (),
    colors: ArrayLike = (),
    stacked: bool = False,
    xlabel: str = "",
    ylabel: str = "fraction of neurons",
) -> Figure:
    """Bars in groups, stacked or side by side, with other predictions of the same quantity as markers.

    Args:
        values: Heights (T, G, K) of K bars in each of G groups, in T panels; (G,) for single bars.
        groups: Names of the groups (G,).
        names: Names of the bars of a group (K,).
        titles: Titles of the panels (T,).
        errors: Standard errors of the heights, of their shape.
        points: Predictions (L, G), or (T, L, G) for each panel its own: circles, triangles and squares.
        point_names: Their names (L,).
        on: Number of the bar in its group that each row of points stands on (L,), −1 the last; by itself the
            rows stand in the middle of the groups.
        colors: One color per bar of a group; by default the codes' own, or those of the classes.
        stacked: Whether the bars of a group stand on each other.
        xlabel: Label of the horizontal axes.
        ylabel: Label of the first vertical axis.
    """
    heights = np.asarray(values, dtype=float)
    heights = heights[None, :, None] if heights.ndim == 1 else heights
    bar = np.reshape(errors, heights.shape) if np.size(errors) else None
    place, count = np.arange(heights.shape[1]), heights.shape[2]
    labels = [str(name) for name in np.broadcast_to(names, count)]
    width, ticks = 0.8 if stacked else 0.8 / count, [str(group) for group in np.asarray(groups)]
    shifts = np.zeros(count) if stacked else (np.arange(count) - (count - 1) / 2) * width
    figure, axes = plt.subplots(1, len(heights), figsize=(WIDTH, 3.4), sharey=True, squeeze=False)
    for t, (axis, title) in enumerate(zip(axes[0], np.broadcast_to(titles, len(heights)), strict=True)):
        for k, color in enumerate(_palette(labels, colors)):
            base = heights[t, :, :k].sum(1) if stacked else 0.0
            error = None if bar is None else bar[t, :, k]
            look = {"color": color, "alpha": 0.85, "label": labels[k] or None}
            look |= {"yerr": error, "ecolor": COLORS["theory"], "capsize": 3}
            axis.bar(place + shifts[k], heights[t, :, k], width, base, **look)
        shades = (COLORS["theory"], COLORS["gaussian_process"], COLORS["control"])
        rows = np.asarray(points)[t] if np.ndim(points) == 3 else np.asarray(points)
        offsets = shifts[np.asarray(on)] if np.size(on) else np.zeros(len(rows))
        for row, at, name, marker, shade in zip(rows, offsets, np.atleast_1d(point_names), "o^s", shades):
            axis.plot(place + at, row, marker, color=shade, markersize=7, label=str(name))
        axis.set_xticks(place, ticks, rotation=90 if sum(map(len, ticks)) * len(heights) > 40 else 0)
        axis.set(title=str(title), xlabel=xlabel)
    lowest = 0 if np.nanmin(heights) >= 0 else None
    axes[0, 0].set(ylabel=ylabel, ylim=(lowest, None))  # shared, so that every panel's bars are in view
    if stacked and np.allclose(heights.sum(2).max(), 1):
        axes[0, 0].set_ylim(top=1)  # fractions of a whole, whatever rounding made of them
    legend_above(figure, axes[0, 0])
    return figure


def phase_map(
    horizontal: ArrayLike,
    vertical: ArrayLike,
    values: ArrayLike,
    boundary: ArrayLike,
    points: ArrayLike,
    point_values: ArrayLike,
) -> Figure:
    """A quantity over two parameters: theory as color, sampled networks as points in the same colors.

    Args:
        horizontal: Targets of the other classes (k,).
        vertical: Temperatures (j,), positive; shown logarithmically.
        values: Theory (k, j).
        boundary: Critical temperature (k,), drawn as a line.
        points: Where networks were sampled (S, 2).
        point_values: What they gave (S,).
    """
    theory, points = np.asarray(values, dtype=float), np.asarray(points, dtype=float)
    highest = float(max(theory.max(), np.max(point_values, initial=0.0)))
    figure, axis = plt.subplots(figsize=(WIDTH, 4.0))
    scale: dict[str, Any] = {"cmap": "viridis", "vmin": 1.0, "vmax": highest}
    mesh = axis.pcolormesh(np.asarray(horizontal), np.asarray(vertical), theory.T, shading="nearest", **scale)
    axis.plot(np.asarray(horizontal), np.asarray(boundary), color="white", label="critical temperature")
    marks: dict[str, Any] = {"edgecolors": "white", "s": 70, "linewidths": 1.2, **scale}
    axis.scatter(points[:, 0], points[:, 1], c=np.asarray(point_values), **marks)
    axis.set(xlabel="target of the other classes $y_-$", ylabel="temperature $T$", yscale="log")
    axis.legend(labelcolor="white", loc="upper right")
    figure.colorbar(mesh, label="effective number of codes")
    return figure


def _draw_outputs(
    axes: Any, outputs: ArrayLike, targets: ArrayLike, labels: ArrayLike, theory: ArrayLike
) -> None:
    """Outputs as dots and targets as steps, one axis per output, inputs by class."""
    order = np.argsort(labels, kind="stable")
    inputs = np.arange(len(order))
    for r, axis in enumerate(axes):
        output, target = np.asarray(outputs)[order, r], np.asarray(targets)[order, r]
        size = 4 if len(order) <= 200 else 2
        axis.plot(inputs, output, ".", color=COLORS["outputs"], markersize=size, label="output")
        axis.step(inputs, target, where="mid", color=COLORS["targets"], linewidth=1.2, label="target")
        if np.size(theory):
            predicted = np.asarray(theory)[order, r]
            axis.plot(inputs, predicted, color=COLORS["relu"], linewidth=0.9, label="theory")
        axis.set_ylabel(f"$f_{{{r}}}$")
        axis.xaxis.set_visible(r == len(axes) - 1)
    _class_ticks(axes[-1].xaxis, labels)
    axes[-1].set_xlabel(r"input $\mu$, by class")
    axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.1)


def _palette(names: list[str], colors: ArrayLike) -> list[str]:
    """A color per name, the same for the same name; the codes' own unless told otherwise."""
    kinds = list(dict.fromkeys(names)) if any(names) else list(map(str, range(len(names))))
    if np.size(colors):
        chosen = np.resize(np.atleast_1d(colors), len(kinds)).tolist()
    elif all(set(kind) <= set("01-") and "-" in kind for kind in kinds):
        chosen = [CODE_COLORS[kind] for kind in kinds]
    else:
        chosen = np.resize(CLASS_COLORS, len(kinds)).tolist()
    return [chosen[kinds.index(name)] for name in names] if any(names) else chosen


def _bins(values: np.ndarray) -> int:
    """Freedman–Diaconis bins, kept between 20 and 120 so that outliers do not make them countless."""
    edges = np.histogram_bin_edges(values, "fd") if np.ptp(values) > 0 else np.empty(0)
    return int(np.clip(len(edges), 20, 120))


def _color_scale(values: np.ndarray, kind: str) -> dict[str, Any]:
    """Pale at zero: diverging for signed values, sequential otherwise; the top half per cent saturates."""
    top = float(np.quantile(np.abs(values), 0.995)) or float(np.abs(values).max()) or 1.0
    positive, signed = COLORMAPS[kind]
    if values.min() < -0.02 * top:
        return {"cmap": signed, "vmin": -top, "vmax": top}
    return {"cmap": positive, "vmin": 0.0, "vmax": top}


def _rows_of_codes(codes: ArrayLike, count: int) -> list[np.ndarray]:
    """Names of the codes panel by panel; none where none are given."""
    names = np.asarray(codes)
    return [] if not names.size else list(names if names.ndim == 2 else np.tile(names, (count, 1)))


def _code_strip(axis: Axes, names: ArrayLike) -> Axes:
    """A strip of the codes' colors beside a matrix of neurons, large groups with their names."""
    kinds = [str(name) for name in np.atleast_1d(names)]
    edges = [0, *(k for k in range(1, len(kinds)) if kinds[k] != kinds[k - 1]), len(kinds)]
    groups = [(kinds[start], start, end) for start, end in pairwise(edges)]
    thick = 0.1 / (axis.get_position().width * WIDTH)  # a tenth of an inch
    strip = axis.inset_axes((-1.3 * thick, 0, thick, 1))
    for name, start, end in groups:
        strip.axhspan(start - 0.5, end - 0.5, color=CODE_COLORS[name], linewidth=0)
    large = [group for group in groups if group[2] - group[1] >= 0.06 * len(kinds)]
    strip.set_yticks([(start + end - 1) / 2 for _, start, end in large], [name for name, _, _ in large])
    strip.set(xticks=[], xlim=(0, 1), ylim=(len(kinds) - 0.5, -0.5))
    strip.tick_params(axis="y", length=0, labelsize=mpl.rcParams["ytick.labelsize"])
    strip.spines[:].set_visible(False)
    axis.tick_params(axis="y", left=False, labelleft=False)
    return strip


def _class_edges(labels: ArrayLike) -> np.ndarray:
    """Positions between the last input of a class and the first of the next, classes in order."""
    _, counts = np.unique(np.asarray(labels), return_counts=True)
    return np.cumsum(counts)[:-1] - 0.5


def _class_ticks(axis: XAxis | YAxis, labels: ArrayLike) -> None:
    """Name each class at its middle and mark the borders by small ticks."""
    classes, counts = np.unique(np.asarray(labels), return_counts=True)
    ends = np.cumsum(counts)
    axis.set_ticks(ends - counts / 2 - 0.5, [str(name) for name in classes])
    axis.set_ticks(_class_edges(labels), minor=True)
    axis.set_tick_params(which="major", length=0)
    axis.set_tick_params(which="minor", length=6)


def legend_above(figure: Figure, *axes: Axes, handles: Sequence[Artist] = ()) -> None:
    """Put one legend above all panels: of these axes, or these handles, in as few rows as fit.

    A legend wider than the figure would make the figure wider, and its text smaller on a phone; from the
    third row on the figure grows, as the panels would shrink.
    """
    entries = handles or [h for axis in axes for h in axis.get_legend_handles_labels()[0]]
    for rows in range(1, len(entries) + 1):
        columns = -(-len(entries) // rows)
        legend = figure.legend(handles=entries, loc="outside upper center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + 0.25 * max(0, rows - 2))
            return
        legend.remove()
