"""The house's figures: one theme, one colour per quantity, and figures whose data can be downloaded."""

import ast
import base64
import dis
import html
import inspect
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from coding_schemes import paths

WIDTH = 6.4
"""Width of a figure in inches, for the book's text column; still readable on a phone."""

DOTS_PER_INCH = 200
_SHOWN_DOTS_PER_INCH = 110  # of the image on the page; the rest is for dense screens

THEME: dict[str, Any] = {
    "context": "notebook",
    "style": "ticks",
    "palette": "colorblind",
    "rc": {
        "figure.figsize": (WIDTH, 3.4),
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titleweight": "normal",
        "axes.labelsize": 11,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
        "legend.fontsize": 10,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 5,
        "image.interpolation": "nearest",
        "savefig.dpi": DOTS_PER_INCH,
        "mathtext.fontset": "dejavusans",
    },
}
"""Arguments of `seaborn.set_theme` for every figure of the book."""

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
    "prior": "#B0B0B0",
    "lazy": "#999999",
    "non-lazy": "#882255",
    "train": "#332288",
    "test": "#CC6677",
    "control": "#B0B0B0",
}
"""One colour per quantity and nonlinearity, the same in every chapter, safe for colour-blind readers."""

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
"""Colours of the classes, in the order of their labels."""

CODE_COLORS = {
    "1-1-0": "#0072B2",
    "1-0-1": "#E69F00",
    "0-1-1": "#009E73",
    "1-1-1": "#CC79A7",
    "1-0-0": "#56B4E9",
    "0-1-0": "#B8A500",
    "0-0-1": "#D55E00",
    "0-0-0": "#8A8A8A",
}
"""One color per code of three classes, the same in every figure and in the explorer."""


@contextmanager
def theme() -> Iterator[None]:
    """Draw in the house's theme inside a ``with`` block, and leave the reader's settings as they were."""
    with mpl.rc_context():
        sns.set_theme(**THEME)
        yield


def publish(plot_function: Callable[..., Figure], name: str, *, description: str = "", **arrays: Any) -> None:
    """Draw a figure, show it, and offer the arrays it was drawn from and the code that drew it.

    Where the pipeline builds the book (``CODING_SCHEMES_ARTIFACTS`` and ``CODING_SCHEMES_CHAPTER`` set), two
    files are left for download, ``name.npz`` and ``name.py``; the second draws the figure again
    from the first. The same arrays give the same bytes.

    Args:
        plot_function: Takes the arrays by name, returns a Figure. It may use modules, importable functions,
            functions of the notebook and literal constants (a colour, a tuple of names), but no other
            variable of the notebook: what it draws comes in as an argument.
        name: The figure's name, unique within the chapter; a file name without its ending.
        description: What is to be seen, for readers who cannot see it (the image's alt text). Default: the
            first line of the plot function's docstring.
        **arrays: What is drawn: arrays, numbers, texts, or sequences of them of one shape.

    Raises:
        ValueError: If the name is no file name, an argument cannot be stored as a plain array, or the plot
            function reads a variable of the notebook.
    """
    if not name.replace("-", "_").isidentifier():
        raise ValueError(f"name must be letters, digits, '_' or '-', as it becomes a file name; got {name!r}")
    stored = {key: _as_stored(key, value) for key, value in arrays.items()}
    script = _script(plot_function, name)
    with theme():
        figure = plot_function(**{key: _as_argument(array) for key, array in stored.items()})
        if not isinstance(figure, Figure):
            raise TypeError(f"plot_function must return a matplotlib Figure; got {type(figure).__name__}")
        image = io.BytesIO()
        figure.savefig(image, format="png", bbox_inches="tight", pad_inches=0.05, metadata={"Software": None})
        plt.close(figure)
    folder = paths.artifacts()
    if folder is not None:
        np.savez_compressed(folder / f"{name}.npz", **stored)  # type: ignore[arg-type]
        (folder / f"{name}.py").write_text(script, encoding="utf-8")
    description = description or (inspect.getdoc(plot_function) or name).splitlines()[0]
    png = base64.b64encode(image.getvalue()).decode("ascii")
    pixels = int.from_bytes(image.getvalue()[16:20], "big")  # the image's width, from the PNG's header
    size = f"width: 100%; max-width: {pixels * _SHOWN_DOTS_PER_INCH // DOTS_PER_INCH}px"
    source = (
        f'<figure class="published-figure"><img src="data:image/png;base64,{png}" '
        f'alt="{html.escape(description)}" style="{size}">'
        f"{_download_links(name)}</figure>"
    )
    display({"text/plain": f"Figure {name}: {description}", "text/html": source, "image/png": png}, raw=True)


def _as_stored(key: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biufcU":
        raise ValueError(
            f"{key} must be an array, a number, a text or a sequence of them of one shape; "
            f"got {type(value).__name__}"
        )
    return array


def _as_argument(array: np.ndarray) -> Any:
    return array.item() if array.ndim == 0 else array


def _download_links(name: str) -> str:
    chapter = os.environ.get("CODING_SCHEMES_CHAPTER")
    if not chapter or paths.artifacts() is None:
        return ""
    folder = f"../downloads/{chapter}/{name}"
    return (
        f'<figcaption>Download: <a href="{folder}.npz" download>arrays (npz)</a>, '
        f'<a href="{folder}.py" download>drawing code (py)</a></figcaption>'
    )


def _script(plot_function: Callable[..., Figure], name: str) -> str:
    """A program that draws the figure again from ``name.npz`` beside it."""
    imports = {"from pathlib import Path", "import numpy as np", "import seaborn as sns"}
    definitions: list[str] = []
    _collect(plot_function, imports, definitions)
    return (
        f'"""Draw the figure {name} from {name}.npz, which lies beside this file."""\n\n'
        + "\n".join(sorted(imports))
        + "\n\n\n"
        + "\n\n".join(definitions)
        + "\n\n"
        + f"sns.set_theme(**{THEME!r})\n"
        + f'stored = np.load(Path(__file__).with_name("{name}.npz"))\n'
        + "arrays = {key: array.item() if array.ndim == 0 else array for key, array in stored.items()}\n"
        + f"figure = {plot_function.__name__}(**arrays)\n"
        + f'figure.savefig(Path(__file__).with_name("{name}.png"), bbox_inches="tight")\n'
    )


def _collect(function: Callable[..., Any], imports: set[str], definitions: list[str]) -> None:
    """Add what a function needs to run on its own: imports, constants and functions of the notebook."""
    if function.__module__ != "__main__":
        imports.add(f"from {function.__module__} import {function.__name__}")
        return
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>" or function.__closure__:
        raise ValueError(
            "plot_function must be a function defined with def at the top level of a cell or module"
        )
    for used in sorted(_global_names(function.__code__) & set(function.__globals__)):
        value = function.__globals__[used]
        if value is function:
            continue
        if isinstance(value, ModuleType):
            imports.add(_import_line(value, used))
        elif isinstance(value, FunctionType | type) and value.__name__ == used:
            _collect(value, imports, definitions)
        elif _is_literal(value):
            definitions.append(f"{used} = {value!r}\n")
        else:
            raise ValueError(
                f"plot_function {function.__name__} reads the variable {used!r} of the notebook; "
                "pass it as an argument"
            )
    definitions.append(inspect.getsource(function).rstrip() + "\n")
    definitions[:] = dict.fromkeys(definitions)  # a helper used twice is written once


def _import_line(module: ModuleType, name: str) -> str:
    parent, _, last = module.__name__.rpartition(".")
    if last != name:
        return f"import {module.__name__} as {name}"
    return f"from {parent} import {last}" if parent else f"import {last}"


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _global_names(code: CodeType) -> set[str]:
    names = {
        step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def readout_histogram(
    readouts: ArrayLike,
    grid: ArrayLike,
    density: ArrayLike,
    color: str = COLORS["samples"],
    xlabel: str = r"readout weight $a$",
) -> Figure:
    """Sampled readout weights of each class as histograms, with the theory's density as a line.

    Args:
        readouts: Sampled weights (n, m), one column per class; (n,) for one class.
        grid: Where the density is known, (G,) or one row per class (m, G).
        density: Theory's density on the grid, (m, G) or (G,), per unit of `readouts`.
        color: Colour of the histograms.
        xlabel: Label of the horizontal axes.

    Returns:
        A figure with one panel per class.
    """
    columns = np.asarray(readouts, dtype=float)
    columns = columns[None] if columns.ndim == 1 else columns.T
    densities = np.broadcast_to(density, (len(columns), np.shape(density)[-1]))
    grids = np.broadcast_to(grid, densities.shape)
    figure, axes = plt.subplots(1, len(columns), figsize=(WIDTH, 2.8), sharey=True, squeeze=False)
    for r, axis in enumerate(axes[0]):
        axis.hist(columns[r], bins=_bins(columns[r]), density=True, color=color, alpha=0.75, label="samples")
        axis.plot(grids[r], densities[r], color=COLORS["theory"], label="theory")
        axis.set(xlabel=xlabel, title=f"class {r}" if len(columns) > 1 else "")
    axes[0, 0].set_ylabel("probability density")
    _legend_above(figure, axes[0, 0])
    return figure


def density_comparison(
    samples: ArrayLike,
    grid: ArrayLike,
    density: ArrayLike,
    names: ArrayLike = ("",),
    colors: ArrayLike = CLASS_COLORS,
    xlabel: str = r"preactivation $z$",
) -> Figure:
    """Densities of several sampled quantities on one axis, each with its theory as a line.

    Args:
        samples: Sampled values (K, n), or (n,) for one quantity.
        grid: Where the densities are known, (G,) or (K, G).
        density: Theory's densities, (K, G) or (G,), per unit of `samples`.
        names: One name per quantity.
        colors: One colour per quantity.
        xlabel: Label of the horizontal axis.

    Returns:
        The figure.
    """
    rows = np.atleast_2d(np.asarray(samples, dtype=float))
    densities = np.broadcast_to(density, (len(rows), np.shape(density)[-1]))
    grids = np.broadcast_to(grid, densities.shape)
    figure, axis = plt.subplots()
    for k, (row, name, color) in enumerate(
        zip(rows, np.atleast_1d(names), np.atleast_1d(colors), strict=False)
    ):
        axis.hist(
            row, bins=_bins(row), density=True, color=color, alpha=0.55, label=f"{name} samples".strip()
        )
        axis.plot(grids[k], densities[k], color=COLORS["theory"], label="theory" if k == 0 else None)
    axis.set(xlabel=xlabel, ylabel="probability density")
    _legend_above(figure, axis)
    return figure


def activation_matrix(
    activations: ArrayLike,
    labels: ArrayLike,
    titles: ArrayLike = ("",),
    colorbar_label: str = r"activation $\phi(z)$",
) -> Figure:
    """Activations of every neuron on every input, the inputs sorted by class.

    Args:
        activations: Array (N, P), neurons in the order to be shown; (K, N, P) for K panels side by side.
        labels: Class of each input (P,).
        titles: One title per panel.
        colorbar_label: What the colours stand for.

    Returns:
        A figure with one shared colour scale; lines separate the classes.
    """
    panels = np.asarray(activations, dtype=float)
    panels = panels[None] if panels.ndim == 2 else panels
    order = np.argsort(labels, kind="stable")
    scale = _color_scale(panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 3.6), sharey=True, squeeze=False)
    for panel, title, axis in zip(panels, np.broadcast_to(titles, len(panels)), axes[0], strict=True):
        image = axis.imshow(panel[:, order], aspect="auto", **scale)
        _class_ticks(axis.xaxis, labels)
        axis.vlines(_class_edges(labels), -0.5, len(panel) - 0.5, color=COLORS["theory"], linewidth=0.8)
        axis.set(xlabel="input, by class", title=title)
    axes[0, 0].set_ylabel("neuron")
    figure.colorbar(image, ax=axes[0], label=colorbar_label, fraction=0.05, pad=0.02)
    return figure


def kernel_matrices(kernels: ArrayLike, labels: ArrayLike, titles: ArrayLike = ("",)) -> Figure:
    """Kernels side by side on one colour scale, inputs sorted by class.

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
    scale = _color_scale(panels)
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


def output_traces(
    outputs: ArrayLike, targets: ArrayLike, labels: ArrayLike, theory: ArrayLike | None = None
) -> Figure:
    """Network outputs as markers against the targets as lines, one panel per output.

    Args:
        outputs: Outputs (P, m).
        targets: Targets (P, m).
        labels: Class of each input (P,); inputs are sorted by it.
        theory: Predicted outputs (P, m), drawn as a thin line where given.

    Returns:
        A figure with m panels over a shared axis of inputs.
    """
    order = np.argsort(labels, kind="stable")
    outputs, targets = np.asarray(outputs)[order], np.asarray(targets)[order]
    num_targets = outputs.shape[1]
    figure, axes = plt.subplots(
        num_targets, 1, figsize=(WIDTH, 1.0 + 1.15 * num_targets), sharex=True, sharey=True, squeeze=False
    )
    inputs = np.arange(len(outputs))
    for r, axis in enumerate(axes[:, 0]):
        axis.plot(inputs, outputs[:, r], ".", color=COLORS["outputs"], markersize=4, label="output")
        axis.step(inputs, targets[:, r], where="mid", color=COLORS["targets"], linewidth=1.2, label="target")
        if theory is not None:
            predicted = np.asarray(theory)[order, r]
            axis.plot(inputs, predicted, color=COLORS["relu"], linewidth=0.9, label="theory")
        axis.set_ylabel(f"$f_{{{r}}}$")
    _class_ticks(axes[-1, 0].xaxis, labels)
    axes[-1, 0].set_xlabel("input, by class")
    _legend_above(figure, axes[0, 0])
    return figure


def class_error_bars(
    sampled: ArrayLike,
    sampled_error: ArrayLike,
    theory: ArrayLike,
    gaussian_process: ArrayLike,
    names: ArrayLike | None = None,
    color: str = COLORS["samples"],
) -> Figure:
    """Generalisation error of each class: sampling as bars, theory as circles, Gaussian process as triangles.

    Args:
        sampled: Squared error of each class from sampling (m,).
        sampled_error: Its standard error (m,).
        theory: Predicted error (m,).
        gaussian_process: Error of the Gaussian process, its variance included (m,).
        names: One name per class.
        color: Colour of the bars.

    Returns:
        The figure.
    """
    position = np.arange(np.size(sampled))
    figure, axis = plt.subplots(figsize=(WIDTH, 3.0))
    error = np.asarray(sampled_error)
    axis.bar(
        position, np.asarray(sampled), 0.6, yerr=error, color=color, alpha=0.75, capsize=3, label="sampling"
    )
    axis.plot(position, np.asarray(theory), "o", color=COLORS["theory"], markersize=7, label="theory")
    gp_color = COLORS["gaussian_process"]
    axis.plot(
        position, np.asarray(gaussian_process), "^", color=gp_color, markersize=8, label="Gaussian process"
    )
    axis.set_xticks(position, [str(name) for name in (position if names is None else np.asarray(names))])
    axis.set(xlabel="class", ylabel="generalisation error", ylim=(0, None))
    _legend_above(figure, axis)
    return figure


def scaling_plot(
    sizes: ArrayLike,
    values: ArrayLike,
    exponents: ArrayLike,
    prefactors: ArrayLike,
    names: ArrayLike,
    errors: ArrayLike | None = None,
    colors: ArrayLike = CLASS_COLORS,
    theory: ArrayLike | None = None,
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
        colors: One colour per quantity.
        theory: Predicted values (K, S), drawn dashed; NaN where there is none.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.

    Returns:
        The figure; the legend states the exponents.
    """
    sizes, rows = np.asarray(sizes, dtype=float), np.atleast_2d(np.asarray(values, dtype=float))
    bars = [None] * len(rows) if errors is None else np.atleast_2d(np.asarray(errors, dtype=float))
    laws = zip(np.atleast_1d(exponents), np.atleast_1d(prefactors), strict=True)
    figure, axis = plt.subplots()
    for row, bar, (exponent, prefactor), name, color in zip(
        rows, bars, laws, np.atleast_1d(names), np.atleast_1d(colors), strict=False
    ):
        label = f"{name}, exponent " + f"{round(exponent, 2) + 0.0:.2f}".replace("-", "−")  # no −0.00
        axis.errorbar(sizes, row, bar, fmt="o", color=color, capsize=3, label=label)
        axis.plot(sizes, prefactor * sizes**exponent, color=color, linewidth=1.2)
    if theory is not None:
        lines = axis.plot(
            sizes, np.atleast_2d(theory).T, color=COLORS["theory"], linestyle="--", linewidth=1.2
        )
        lines[0].set_label("theory")
    axis.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axis.xaxis.set_minor_locator(NullLocator())
    figure.legend(loc="outside upper left", ncols=1 if len(rows) <= 3 else 2)
    return figure


def trace_plot(
    times: ArrayLike,
    values: ArrayLike,
    names: ArrayLike = ("",),
    levels: ArrayLike = (),
    colors: ArrayLike = CLASS_COLORS,
    xlabel: str = "sample",
    ylabel: str = r"readout weight $a$",
) -> Figure:
    """Time series of chosen neurons, with the theory's levels as horizontal lines.

    Args:
        times: Sampling times (S,).
        values: One row per neuron (K, S).
        names: One name per neuron, or one empty name for none.
        levels: Values the theory allows, drawn as lines across.
        colors: One colour per neuron, repeated as needed.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.

    Returns:
        The figure.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    palette = np.resize(np.atleast_1d(colors), len(rows))
    figure, axis = plt.subplots()
    for row, name, color in zip(rows, np.broadcast_to(names, len(rows)), palette, strict=True):
        axis.plot(np.asarray(times), row, color=color, linewidth=1.0, label=str(name) or None)
    for k, level in enumerate(np.atleast_1d(levels)):
        axis.axhline(
            level, color=COLORS["theory"], linestyle="--", linewidth=1, label="theory" if k == 0 else None
        )
    axis.set(xlabel=xlabel, ylabel=ylabel)
    _legend_above(figure, axis)
    return figure


def _bins(values: np.ndarray) -> int:
    """Freedman–Diaconis bins, kept between 20 and 120 so that outliers do not make them countless."""
    edges = np.histogram_bin_edges(values, "fd") if np.ptp(values) > 0 else np.empty(0)
    return int(np.clip(len(edges), 20, 120))


def _color_scale(values: np.ndarray) -> dict[str, Any]:
    """White at zero: diverging for signed values, sequential otherwise; the top half per cent saturates."""
    top = float(np.quantile(np.abs(values), 0.995)) or float(np.abs(values).max()) or 1.0
    if values.min() < -0.02 * top:
        return {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
    return {"cmap": "Blues", "vmin": 0.0, "vmax": top}


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


def _legend_above(figure: Figure, axis: Axes) -> None:
    handles, names = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 4))


def network_sample(
    readouts: ArrayLike, activations: ArrayLike, outputs: ArrayLike, targets: ArrayLike, labels: ArrayLike
) -> Figure:
    """One sampled network: readouts and activations of its neurons, and its outputs against the targets.

    Args:
        readouts: Readout weights (N, m), neurons in the order to be shown.
        activations: Activations (N, P), neurons in the same order.
        outputs: Outputs (P, m).
        targets: Targets (P, m).
        labels: Class of each input (P,); inputs are sorted by it.

    Returns:
        A figure with readouts beside activations, and below them the outputs on the same inputs.
    """
    order = np.argsort(labels, kind="stable")
    readouts, activations = np.asarray(readouts, dtype=float), np.asarray(activations, dtype=float)[:, order]
    outputs, targets = np.asarray(outputs)[order], np.asarray(targets)[order]
    num_targets = outputs.shape[1]
    figure, axes = plt.subplots(
        1 + num_targets,
        2,
        figsize=(WIDTH, 3.4 + 0.75 * num_targets),
        width_ratios=(1, 6),
        height_ratios=(5, *[1] * num_targets),
        squeeze=False,
    )
    scales = _color_scale(readouts), _color_scale(activations)
    images = [
        axis.imshow(values, aspect="auto", interpolation="nearest", **scale)
        for axis, values, scale in zip(axes[0], (readouts, activations), scales, strict=True)
    ]
    axes[0, 0].set(
        xlabel="output $r$", ylabel="neuron $i$", title=r"readout $a_i^r$", xticks=range(num_targets)
    )
    axes[0, 1].set(title=r"activation $\phi(z_{i\mu})$", yticks=[])
    for image, axis in zip(images, axes[0], strict=True):
        figure.colorbar(image, ax=axis, shrink=0.8, location="left" if axis is axes[0, 0] else "right")
    inputs = np.arange(len(outputs))
    for r, (spare, axis) in enumerate(axes[1:]):
        spare.set_visible(False)
        axis.plot(inputs, outputs[:, r], ".", color=COLORS["outputs"], markersize=3, label="output")
        axis.step(inputs, targets[:, r], color=COLORS["targets"], where="mid", linewidth=1, label="target")
        axis.set(ylabel=f"$f_{r}$", xlim=(-0.5, len(inputs) - 0.5))
        axis.xaxis.set_visible(r == num_targets - 1)
    for axis in axes[:, 1]:
        _class_ticks(axis.xaxis, np.asarray(labels)[order])
    axes[0, 1].set_xticklabels([])
    axes[-1, 1].set_xlabel(r"input $\mu$, by class")
    _legend_above(figure, axes[1, 1])
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
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.8))
    left.hist(
        np.asarray(bulk), bins=60, density=True, color=COLORS["relu"], alpha=0.75, label="samples, bulk"
    )
    left.plot(np.asarray(grid), np.asarray(density), color=COLORS["theory"], label="theory")
    left.set(xlabel=xlabel, ylabel="probability density", title="bulk")
    span = max(np.ptp(np.append(rows, bulk)), 1e-12)
    edges = np.linspace(min(rows.min(), np.min(bulk)), max(rows.max(), np.max(bulk)) + 1e-9 * span, 90)
    right.hist(np.asarray(bulk), bins=edges, color=COLORS["relu"], alpha=0.35)
    for k, (row, level) in enumerate(zip(rows, np.asarray(levels), strict=True)):
        color = CLASS_COLORS[k % len(CLASS_COLORS)]
        rim = 1.2 * (len(rows) - k)  # bars are narrow, and those of two outliers may coincide
        right.hist(row, bins=edges, color=color, edgecolor=color, linewidth=rim, label=f"outlier {k}")
        right.axvline(level, color=COLORS["theory"], linestyle="--", linewidth=1, zorder=0)
    right.set(xlabel=xlabel, ylabel="count", yscale="log", title="bulk and outliers")
    handles = [handle for axis in (left, right) for handle in axis.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 5))
    return figure


def coarsening(
    times: ArrayLike,
    counts: ArrayLike,
    zero_loss: ArrayLike,
    names: ArrayLike,
    colors: ArrayLike = CLASS_COLORS,
    level: float = 3,
    xlabel: str = "gradient evaluations",
) -> Figure:
    """Number of outliers over logarithmic time, with the time at which each run has reached zero loss.

    Args:
        times: Times (K, S), one row per run, positive.
        counts: Numbers of outliers (K, S).
        zero_loss: Time of zero loss of each run (K,), a dotted line.
        names: One name per run; runs of one name share a colour and a legend entry.
        colors: One colour per name.
        level: The final number, drawn across.
        xlabel: Label of the horizontal axis.

    Returns:
        The figure.
    """
    names = [str(name) for name in np.atleast_1d(names)]
    palette = dict(zip(dict.fromkeys(names), np.atleast_1d(colors), strict=False))
    figure, axis = plt.subplots()
    for k, (time, count, zero, name) in enumerate(
        zip(np.asarray(times), np.asarray(counts), np.asarray(zero_loss), names, strict=True)
    ):
        label = name if name not in names[:k] else None
        axis.step(time, count, where="post", color=palette[name], linewidth=1.2, label=label)
        axis.axvline(zero, color=palette[name], linestyle=":", linewidth=1.2)
    axis.axhline(level, color=COLORS["theory"], linestyle="--", linewidth=1, label="one per class")
    axis.set(xscale="log", yscale="log", xlabel=xlabel, ylabel="number of outliers")
    ticks = [count for count in (1, 2, 3, 5, 10, 20, 50) if count <= np.max(counts)]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])
    axis.yaxis.set_minor_locator(NullLocator())
    _legend_above(figure, axis)
    return figure


def layer_counts(counts: ArrayLike, ylabel: str = "number of outliers") -> Figure:
    """A whole number per layer and seed: dots whose area is the number of seeds.

    Args:
        counts: Numbers (seeds, layers).
        ylabel: Label of the vertical axis.

    Returns:
        The figure; each dot is labelled with its number of seeds.
    """
    counts = np.asarray(counts)
    figure, axis = plt.subplots(figsize=(0.65 * WIDTH, 3.0))
    for layer, column in enumerate(counts.T, start=1):
        values, seeds = np.unique(column, return_counts=True)
        axis.scatter(np.full(len(values), layer), values, s=40 * seeds, color=COLORS["relu"], alpha=0.6)
        for value, number in zip(values, seeds, strict=True):
            axis.annotate(str(number), (layer, value), ha="center", va="center", fontsize=9)
    axis.set(xlabel="layer", ylabel=ylabel, xticks=range(1, counts.shape[1] + 1))
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlim(0.5, counts.shape[1] + 0.5)
    axis.set_ylim(counts.min() - 0.7, counts.max() + 0.7)
    return figure


def parameter_sweep(
    parameter: ArrayLike,
    theory: ArrayLike,
    sampled_parameter: ArrayLike,
    sampled: ArrayLike,
    errors: ArrayLike | None = None,
    names: ArrayLike = ("",),
    colors: ArrayLike = CLASS_COLORS,
    linewidths: ArrayLike = 1.2,
    xlabel: str = r"target of other classes $y_-$",
    ylabel: str = "value",
) -> Figure:
    """Quantities over a parameter: theory as lines on a fine grid, simulation as markers with error bars.

    Args:
        parameter: The theory's grid (G,).
        theory: Theory (K, G).
        sampled_parameter: Where samples were drawn (S,).
        sampled: Measured values (K, S).
        errors: Their standard errors (K, S).
        names: One name per quantity.
        colors: One colour per quantity.
        linewidths: Width of all lines or of each; falling ones keep lines apart that lie on each other.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.

    Returns:
        The figure.
    """
    lines, markers = (np.atleast_2d(np.asarray(values, dtype=float)) for values in (theory, sampled))
    bars = np.zeros_like(markers) if errors is None else np.atleast_2d(np.asarray(errors, dtype=float))
    figure, axis = plt.subplots()
    widths = np.broadcast_to(np.asarray(linewidths, dtype=float), len(lines))
    for line, row, bar, name, color, width in zip(
        lines, markers, bars, np.atleast_1d(names), np.atleast_1d(colors), widths, strict=False
    ):
        axis.plot(np.asarray(parameter), line, color=color, linewidth=width)
        axis.errorbar(
            np.asarray(sampled_parameter), row, bar, fmt="o", color=color, capsize=3, label=str(name) or None
        )
    axis.set(xlabel=xlabel, ylabel=ylabel)
    _legend_above(figure, axis)
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
        colors: One colour per neuron, repeated as needed.
        levels: Values to mark by dashed lines, (K, l); NaN for none.
        xlabel: Label of the horizontal axes.
        ylabel: Label of the first vertical axis.

    Returns:
        The figure.
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


def curves(
    x: ArrayLike,
    values: ArrayLike,
    names: ArrayLike = ("",),
    errors: ArrayLike | None = None,
    colors: ArrayLike = CLASS_COLORS,
    styles: ArrayLike = ("-",),
    scales: ArrayLike = ("linear", "linear"),
    levels: ArrayLike = (),
    xlabel: str = r"time $t$",
    ylabel: str = "value",
) -> Figure:
    """Several measured curves on one axis, with bands of one standard error.

    Args:
        x: Horizontal positions (S,), or one row per curve (K, S).
        values: Curves (K, S); NaN where there is nothing to show.
        names: One name per curve.
        errors: Standard errors (K, S).
        colors: One colour per curve.
        styles: One line style per curve, repeated as needed.
        scales: Scales of the horizontal and the vertical axis, "linear" or "log".
        levels: Heights to mark by dashed lines.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.

    Returns:
        The figure.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    positions = np.broadcast_to(np.asarray(x, dtype=float), rows.shape)
    across, up = np.asarray(scales)
    figure, axis = plt.subplots()
    drawn = zip(
        np.broadcast_to(names, len(rows)),
        np.resize(np.atleast_1d(colors), len(rows)),
        np.resize(np.atleast_1d(styles), len(rows)),
        strict=True,
    )
    for k, (name, color, style) in enumerate(drawn):
        axis.plot(positions[k], rows[k], linestyle=style, color=color, label=str(name) or None)
        if errors is not None:
            bar = np.asarray(errors, dtype=float)[k]
            axis.fill_between(positions[k], rows[k] - bar, rows[k] + bar, color=color, alpha=0.2, linewidth=0)
    for level in np.atleast_1d(levels):
        axis.axhline(level, color=COLORS["theory"], linestyle="--", linewidth=0.8)
    axis.set(xlabel=xlabel, ylabel=ylabel, xscale=str(across), yscale=str(up))
    _legend_above(figure, axis)
    return figure


def activation_grid(
    activations: ArrayLike,
    labels: ArrayLike,
    row_names: ArrayLike,
    column_names: ArrayLike,
    colorbar_label: str = r"activation $\phi(z)$",
) -> Figure:
    """Activations of neurons on inputs over a grid of panels, such as layers over time.

    Args:
        activations: Array (rows, columns, N, P), neurons in the order to be shown.
        labels: Class of each input (P,).
        row_names: One name per row.
        column_names: One name per column.
        colorbar_label: What the colours stand for.

    Returns:
        A figure with one colour scale; lines separate the classes.
    """
    panels = np.asarray(activations, dtype=float)
    order = np.argsort(labels, kind="stable")
    scale = _color_scale(panels)
    rows, columns = panels.shape[:2]
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, 0.5 + 1.7 * rows), sharex=True, sharey=True, squeeze=False
    )
    for (r, c), axis in zip(np.ndindex(rows, columns), axes.flat, strict=True):
        image = axis.imshow(panels[r, c][:, order], aspect="auto", **scale)
        axis.vlines(_class_edges(labels), -0.5, panels.shape[2] - 0.5, color=COLORS["theory"], linewidth=0.7)
        _class_ticks(axis.xaxis, labels)
        if r == 0:
            axis.set_title(str(np.asarray(column_names)[c]))
        if c == 0:
            axis.set_ylabel(f"{np.asarray(row_names)[r]}\nneuron")
        if r == rows - 1:
            axis.set_xlabel("input, by class")
    figure.colorbar(image, ax=axes, label=colorbar_label, fraction=0.05, pad=0.02)
    return figure


def code_raster(
    times: ArrayLike, which: ArrayLike, names: ArrayLike, titles: ArrayLike, xlabel: str = r"time $t$"
) -> Figure:
    """Every neuron's code over time, one panel per layer, codes as colours.

    Args:
        times: Times (S,), evenly spaced.
        which: Index of the code of every neuron at every time, (layers, N, S).
        names: The codes, in the order of the indices.
        titles: One title per layer.
        xlabel: Label of the horizontal axes.

    Returns:
        The figure.
    """
    panels, names = np.asarray(which), [str(name) for name in np.atleast_1d(names)]
    palette = (
        sns.color_palette("colorblind", len(names)) if len(names) <= 10 else sns.husl_palette(len(names))
    )
    colormap = mpl.colors.ListedColormap(palette)
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 3.8), sharey=True, squeeze=False)
    extent = (float(np.min(times)), float(np.max(times)), panels.shape[1] - 0.5, -0.5)
    for axis, panel, title in zip(axes[0], panels, np.atleast_1d(titles), strict=True):
        axis.imshow(panel, aspect="auto", cmap=colormap, vmin=-0.5, vmax=len(names) - 0.5, extent=extent)
        axis.set(xlabel=xlabel, title=title)
    axes[0, 0].set_ylabel("neuron")
    handles = [mpl.patches.Patch(color=color, label=name) for color, name in zip(palette, names, strict=True)]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(names), 5))
    return figure


def occupancy_lines(
    grid: ArrayLike,
    theory: ArrayLike,
    names: ArrayLike,
    positions: ArrayLike = (),
    sampled: ArrayLike = (),
    errors: ArrayLike = (),
    xlabel: str = r"target of the other classes $y_-$",
) -> Figure:
    """Fraction of the neurons with each code along a line of tasks or temperatures.

    Args:
        grid: Where the theory is known (G,).
        theory: Predicted fractions (K, G), one row per code.
        names: Names of the codes (K,).
        positions: Where networks were sampled (S,).
        sampled: Sampled fractions (K, S).
        errors: Their standard errors (K, S).
        xlabel: Label of the horizontal axis.

    Returns:
        The figure, a line and markers per code.
    """
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    sampled, errors = np.asarray(sampled, dtype=float), np.asarray(errors, dtype=float)
    for k, (row, name) in enumerate(zip(np.asarray(theory), np.asarray(names), strict=True)):
        color = CLASS_COLORS[k % len(CLASS_COLORS)]
        axis.plot(np.asarray(grid), row, color=color, label=str(name))
        if sampled.size:
            axis.errorbar(np.asarray(positions), sampled[k], errors[k], fmt="o", color=color, capsize=3)
    axis.set(xlabel=xlabel, ylabel="fraction of neurons", ylim=(-0.02, None))
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


def occupancy_bars(fractions: ArrayLike, names: ArrayLike, groups: ArrayLike, titles: ArrayLike) -> Figure:
    """Shares of the codes as stacked bars: one panel per task, one bar per way to get there.

    Args:
        fractions: Shares (T, G, K) for T tasks, G ways and K codes; a bar sums to one.
        names: Names of the codes (K,).
        groups: Names of the ways (G,).
        titles: Titles of the panels (T,).

    Returns:
        The figure.
    """
    values = np.asarray(fractions, dtype=float)
    figure, axes = plt.subplots(1, len(values), figsize=(WIDTH * 1.15, 3.8), sharey=True, squeeze=False)
    for axis, task, title in zip(axes[0], values, np.asarray(titles), strict=True):
        base = np.zeros(len(task))
        for k, name in enumerate(np.asarray(names)):
            color = CLASS_COLORS[k % len(CLASS_COLORS)]
            axis.bar(np.arange(len(task)), task[:, k], 0.8, bottom=base, color=color, label=str(name))
            base += task[:, k]
        axis.set_xticks(np.arange(len(task)), [str(g) for g in np.asarray(groups)], rotation=90)
        axis.set(title=str(title), ylim=(0, 1))
    axes[0, 0].set_ylabel("fraction of neurons")
    _legend_above(figure, axes[0, 0])
    return figure


def phase_map(
    horizontal: ArrayLike,
    vertical: ArrayLike,
    values: ArrayLike,
    boundary: ArrayLike,
    points: ArrayLike,
    point_values: ArrayLike,
    xlabel: str = r"target of the other classes $y_-$",
    ylabel: str = r"temperature $T$",
    colorbar_label: str = "effective number of codes",
) -> Figure:
    """A quantity over two parameters: theory as colour, sampled networks as points in the same colours.

    Args:
        horizontal: Values on the horizontal axis (k,).
        vertical: Values on the vertical axis (j,), positive; shown logarithmically.
        values: Theory (k, j).
        boundary: Vertical position of a phase boundary (k,), drawn as a line.
        points: Where networks were sampled (S, 2).
        point_values: What they gave (S,).
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.
        colorbar_label: What the colours stand for.

    Returns:
        The figure.
    """
    theory, points = np.asarray(values, dtype=float), np.asarray(points, dtype=float)
    highest = float(max(theory.max(), np.max(point_values, initial=0.0)))
    figure, axis = plt.subplots(figsize=(WIDTH, 4.0))
    mesh = axis.pcolormesh(
        np.asarray(horizontal),
        np.asarray(vertical),
        theory.T,
        cmap="viridis",
        shading="nearest",
        vmin=1.0,
        vmax=highest,
    )
    axis.plot(np.asarray(horizontal), np.asarray(boundary), color="white", label="critical temperature")
    axis.scatter(
        points[:, 0],
        points[:, 1],
        c=np.asarray(point_values),
        cmap="viridis",
        vmin=1.0,
        vmax=highest,
        edgecolors="white",
        s=70,
        linewidths=1.2,
    )
    axis.set(xlabel=xlabel, ylabel=ylabel, yscale="log")
    axis.legend(labelcolor="white", loc="upper right")
    figure.colorbar(mesh, label=colorbar_label)
    return figure
