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
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from coding_schemes import paths

WIDTH = 6.4
"""Width of a figure in inches: the book's text column, and still readable on a phone."""

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
    width = int.from_bytes(image.getvalue()[16:20], "big")  # pixels, from the PNG's header
    source = (
        f'<figure class="published-figure"><img src="data:image/png;base64,{png}" '
        f'alt="{html.escape(description)}" style="width: 100%; max-width: {width * _SHOWN_DOTS_PER_INCH // DOTS_PER_INCH}px">'
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
            f"{key} must be an array, a number, a text or a sequence of them of one shape; got {type(value).__name__}"
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
    """Add what a function needs to run on its own: imports, constants, and the notebook's functions it calls."""
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
                f"plot_function {function.__name__} reads the variable {used!r} of the notebook; pass it as an argument"
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
