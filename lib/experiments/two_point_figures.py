"""Drawing functions of the chapters on two points."""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from companion.figures import legend_above
from companion.publish import WIDTH
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from experiments.two_point import DESCRIBED

CURVES = ("#332288", "#CC6677", "#44AA99")


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

    Returns:
        The figure.
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
        for dot, line, color, name in zip(dots[k], lines[k], CURVES, np.asarray(names), strict=False):
            axis.plot(t[shown], line[shown], color=color, linewidth=1.2)
            axis.plot(t[marked], dot[marked], ".", color=color, label=str(name))
        axis.set_title(str(title))
        axis.locator_params(nbins=3 if columns < 4 else 2)
        axis.set_xlabel("steps $t$" if k + columns >= len(dots) else "")
    if len(np.asarray(names)) > 1:
        legend_above(figure, axes[0, 0])
    return figure


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


def square_matrices(
    matrices: ArrayLike, titles: ArrayLike, row_names: ArrayLike, ticks: ArrayLike, edges: ArrayLike = ()
) -> Figure:
    """Matrices of distances, each on its own scale from zero.

    Args:
        matrices: Rows and columns of panels, (R, K, n, n).
        titles: Of the columns (K,).
        row_names: Of the rows (R,).
        ticks: Names of the points (n,), or of the groups between edges.
        edges: Where groups of points begin; none where every point has a name.

    Returns:
        The figure.
    """
    panels, begin = np.asarray(matrices, dtype=float), np.asarray(edges, dtype=float)
    rows, columns, count = panels.shape[:3]
    place = (begin + np.append(begin[1:], count) - 1) / 2 if begin.size else np.arange(count)
    side = WIDTH / columns
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, 0.3 + rows * side), squeeze=False, sharex=True, sharey=True
    )
    for axis, panel in zip(axes.flat, panels.reshape(-1, count, count), strict=True):
        axis.imshow(panel / max(panel.max(), 1e-30), cmap="Greens", vmin=0, vmax=1)
        for set_ticks in (axis.set_xticks, axis.set_yticks):
            set_ticks(place, [str(t) for t in np.asarray(ticks)])
        axis.tick_params(length=0)
    _name(axes, titles, row_names)
    return figure


def projections(points: ArrayLike, targets: ArrayLike, titles: ArrayLike, row_names: ArrayLike) -> Figure:
    """Representations of two contexts on two principal axes, colored by target.

    Args:
        points: Rows and columns of panels, (R, K, contexts, n, 2).
        targets: (contexts, n).
        titles: Of the columns (K,).
        row_names: Of the rows (R,).

    Returns:
        The figure; circles and squares are the two contexts.
    """
    panels = np.asarray(points)
    rows, columns = panels.shape[:2]
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, 0.4 + 2.0 * rows), squeeze=False)
    for axis, panel in zip(axes.flat, panels.reshape(-1, *panels.shape[2:]), strict=True):
        for xy, colors, marker in zip(panel, np.asarray(targets), "os", strict=True):
            dots = axis.scatter(xy[:, 0], xy[:, 1], c=colors, s=4, marker=marker, cmap="viridis")
        axis.set_aspect("equal", adjustable="datalim")
        axis.set(xticks=[], yticks=[])
    _name(axes, titles, row_names)
    figure.colorbar(dots, ax=axes, label="target", fraction=0.04, pad=0.02)
    return figure


def _name(axes: np.ndarray, titles: ArrayLike, row_names: ArrayLike) -> None:
    """Titles above the columns of a grid, names beside its rows."""
    for axis, title in zip(axes[0], np.asarray(titles), strict=True):
        axis.set_title(str(title))
    for axis, name in zip(axes[:, 0], np.asarray(row_names), strict=True):
        axis.set_ylabel(str(name))
