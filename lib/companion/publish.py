"""Publish a figure: show it with its caption, offer the arrays it was drawn from and the code that drew it.

The pipeline makes a numbered figure of what lies in the notebook, with its image as a file beside the page.
The text refers to it by {numref}`fig-chapter-name`, underscores written as hyphens.
"""

import base64
import html
import inspect
import io
import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import paths
from IPython.display import display
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from companion import formats

WIDTH = 6.4
"""Width of a figure in inches, for the book's text column; still readable on a phone."""

_TICKS = {
    "color": ".15",
    "labelsize": 12,
    "major.size": 6,
    "major.width": 1.25,
    "minor.size": 4,
    "minor.width": 1,
}
THEME: dict[Any, Any] = {
    "figure.figsize": (WIDTH, 3.0),
    "figure.constrained_layout.use": True,
    "font.size": 12,
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"],
    "text.color": ".15",
    "axes.prop_cycle": "cycler('color', ['0173B2', 'DE8F05', '029E73', 'D55E00', 'CC78BC', "
    "'CA9161', 'FBAFE4', '949494', 'ECE133', '56B4E9'])",
    "axes.axisbelow": True,
    "axes.edgecolor": ".15",
    "axes.labelcolor": ".15",
    "axes.labelsize": 12,
    "axes.linewidth": 1.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titleweight": "normal",
    **{f"{axis}tick.{name}": size for axis in "xy" for name, size in _TICKS.items()},
    "grid.color": ".8",
    "grid.linewidth": 1,
    "legend.fontsize": 12,
    "legend.title_fontsize": 12,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "image.interpolation": "nearest",
    "savefig.dpi": 200,
    "savefig.transparent": True,  # the page's ground shows, light or dark
    "mathtext.fontset": "dejavusans",
    "svg.hashsalt": "coding-schemes",  # the same figure, the same bytes
}
"""Matplotlib's settings for every figure of the book.

Seaborn's context "notebook", style "ticks" and palette "colorblind" with changes, written out: to import
seaborn, and pandas with it, takes longer than to draw two figures.
"""

PIXELS_PER_INCH = 110  # on the page; a PNG has more, for dense screens
_PADDING = 0.05  # inches around a figure
_MOST_POINTS = 20_000  # of a line plot; from there on an SVG is larger than an image

# What a drawing function of a notebook may take for granted; its downloaded code begins so
_HEADER = """\
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from companion import figures
"""


def theme() -> AbstractContextManager[None]:
    """Draw in the house's theme inside a ``with`` block, and leave the reader's settings as they were."""
    return mpl.rc_context(THEME)


def publish(
    plot_function: Callable[..., Figure],
    name: str,
    *,
    caption: str = "",
    tail: str = "",
    counterparts: Sequence[str] = (),
    description: str = "",
    page: str = "",
    **arrays: Any,
) -> None:
    """Draw a figure, show it, and offer the arrays it was drawn from and the code that drew it.

    Where the pipeline builds the book (``CODING_SCHEMES_ARTIFACTS`` and ``CODING_SCHEMES_CHAPTER`` set),
    files are left: the image, an SVG unless it holds pictures or very many points, with a small PNG of it for
    thumbnails, and for download ``name.npz`` and ``name.py``, which draws the figure again from it. The same
    arrays give the same bytes.

    Args:
        plot_function: Takes the arrays by name, returns a Figure. A function of a module, or one defined in
            the notebook that reads nothing but its arguments, ``figures``, ``np`` and ``plt``.
        name: The figure's name, unique within the chapter; a file name without its ending.
        caption: In MyST: what is to be seen first, then what is shown. With one the figure is numbered.
        tail: Sizes and the paper's figure, small and gray behind the caption.
        counterparts: The papers' panels it stands for, as ``book/panels.yml`` names them; by default those
            that the caption names.
        description: What is to be seen, for readers who cannot see it (the image's alt text). Default: the
            first line of the plot function's docstring.
        page: HTML to follow it on the book's page.
        **arrays: What is drawn: arrays, numbers, texts, or sequences of them of one shape.

    Raises:
        ValueError: If the name is no file name, an argument cannot be stored as a plain array, or the plot
            function is a lambda.
        NameError: If it reads anything else of the notebook.
        TypeError: If it returns no Figure.
    """
    figure_name(name)
    stored = {key: as_stored(key, value) for key, value in arrays.items()}
    function, code = drawing(plot_function)
    description = description or (inspect.getdoc(plot_function) or name).splitlines()[0]
    drawn = draw(function, name, stored)
    store(name, stored, code, function.__name__, drawn.images)
    about = {"caption": caption, "description": description, "tail": tail, "panels": list(counterparts)}
    about |= {"page": page, "function": f"{plot_function.__module__}.{function.__name__}"}
    size = {"width": drawn.width, "height": drawn.height}
    show({"name": name, "file": drawn.file} | size | about, drawn.images[drawn.file])


class Drawn(NamedTuple):
    """A figure's images: its file among them, and width and height of that on the page, in pixels."""

    file: str
    images: dict[str, bytes]
    width: int
    height: int


def draw(
    function: Callable[..., Figure], name: str, stored: dict[str, np.ndarray], thumbnail: bool = True
) -> Drawn:
    """Draw a figure in the house's theme from its arrays, as they are stored; an SVG with a small PNG of it.

    Raises:
        TypeError: The function returns no Figure.
    """
    with theme():
        figure = function(**{key: as_argument(array) for key, array in stored.items()})
        if not isinstance(figure, Figure):
            raise TypeError(f"plot_function must return a matplotlib Figure; got {type(figure).__name__}")
        _limit_empty_scales(figure)
        file = f"{name}.{'png' if _is_picture(figure) else 'svg'}"
        images = {file: _saved(figure, file)}
        figure.set_layout_engine("none")  # all is in its place, and to find it takes as long as to draw
        box = figure.get_tightbbox()
        (inches, tall), across = box.size, box.width + 2 * _PADDING
        if thumbnail and file.endswith("svg"):
            options = {"bbox_inches": box.padded(_PADDING), "dpi": formats.THUMBNAIL / across}
            images[f"{name}-thumbnail.png"] = _saved(figure, "png", **options)
        plt.close(figure)
    width = round(inches * PIXELS_PER_INCH)
    return Drawn(file, images, width, round(width * (tall + 2 * _PADDING) / across))


def figure_name(name: str) -> None:
    """Refuse a figure's name that is no file name."""
    if not name.replace("-", "_").isidentifier():
        raise ValueError(f"name must be letters, digits, '_' or '-', as it becomes a file name; got {name!r}")


def as_stored(key: str, value: Any) -> np.ndarray:
    """An argument of a drawing function as it is stored."""
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


def as_argument(array: np.ndarray) -> Any:
    """A stored argument as the drawing function takes it."""
    return array.item() if array.ndim == 0 else array


def drawing(plot_function: Callable[..., Figure]) -> tuple[Callable[..., Figure], str]:
    """The function to draw with, and the code that defines it.

    A function of the notebook is defined anew from its source, so that what is drawn here is what its
    downloaded code draws.

    Raises:
        ValueError: If it has no name of its own.
    """
    name = getattr(plot_function, "__name__", "<lambda>")
    if not name.isidentifier():
        raise ValueError("plot_function must be a function defined with def; got a lambda or an object")
    if plot_function.__module__ != "__main__":
        return plot_function, f"{_HEADER}from {plot_function.__module__} import {name}\n"
    return defined(name, textwrap.dedent(inspect.getsource(plot_function)))


def defined(name: str, source: str) -> tuple[Callable[..., Figure], str]:
    """A drawing function of a notebook by its source, and the code that defines it."""
    code = f"{_HEADER}\n\n{source.rstrip()}\n"
    fresh: dict[str, Any] = {}
    exec(compile(code, f"<{name}, with nothing of the notebook but its arguments>", "exec"), fresh)
    return fresh[name], code


def store(
    name: str, stored: dict[str, np.ndarray], code: str, function: str, images: dict[str, bytes]
) -> None:
    """Leave a figure's images, arrays and drawing code where the pipeline finds them, if it is at work."""
    folder = paths.artifacts()
    if folder is None:
        return
    np.savez_compressed(folder / f"{name}.npz", **stored)  # type: ignore[arg-type]
    (folder / f"{name}.py").write_text(
        f'"""Draw the figure {name} from {name}.npz beside it, with the book\'s lib/ on the path."""\n\n'
        f"{code}\n\nplt.rcParams.update({THEME!r})\n"
        f'stored = np.load(Path(__file__).with_name("{name}.npz"))\n'
        "arrays = {key: array.item() if array.ndim == 0 else array for key, array in stored.items()}\n"
        f"figure = {function}(**arrays)\n"
        f'figure.savefig(Path(__file__).with_name("{name}.png"), bbox_inches="tight")\n',
        encoding="utf-8",
    )
    for file, content in images.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)


def show(figure: dict[str, Any], image: bytes, inline: str = "") -> None:
    """Show an image with its caption, and leave beside it what the pipeline makes a figure of.

    Args:
        figure: Its name; its file in the artifacts; width and height on the page, in pixels; caption,
            description, tail and page as in `publish`, panels (there counterparts); film, if the artifacts
            hold it as one, too.
        image: Content of its file.
        inline: HTML to follow it in the notebook.
    """
    name, caption, description = figure["name"], figure["caption"], figure["description"]
    kind = "svg+xml" if figure["file"].endswith("svg") else "png"
    source = f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}"
    small = f" <small>{html.escape(figure['tail'])}</small>" if figure["tail"] else ""
    display(
        {
            "text/plain": f"Figure {name}: {caption or description}",
            "text/html": f'<figure class="published-figure" id="figure-{name}"><img src="{source}" '
            f'alt="{html.escape(description)}" style="width: 100%; max-width: {figure["width"]}px">{inline}'
            f"<figcaption>{html.escape(caption)}{small}</figcaption></figure>",
            formats.FIGURE_TYPE: figure,
        },
        raw=True,
    )


def _saved(figure: Figure, file: str, **options: Any) -> bytes:
    """A figure as the content of a file, without a date or the name of a program."""
    ending = file.rpartition(".")[2]
    unstamped = {"Software": None} if ending == "png" else {"Date": None, "Creator": None}
    settings: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": _PADDING, "metadata": unstamped}
    image = io.BytesIO()
    figure.savefig(image, format=ending, **settings | options)
    return image.getvalue()


def _limit_empty_scales(figure: Figure) -> None:
    """Limits for log axes with nothing to show, as at a reader's sizes: matplotlib would not draw them."""
    for axis in figure.axes:
        for name, scaled in (("x", axis.xaxis), ("y", axis.yaxis)):
            if scaled.get_scale() == "log" and scaled.get_view_interval()[0] <= 0:
                axis.set(**{f"{name}lim": (0.1, 1.0)})


def _is_picture(figure: Figure) -> bool:
    """Whether a figure holds images, or more points than an SVG should."""
    points: int = sum(np.size(line.get_xdata()) for axis in figure.axes for line in axis.lines)
    points += sum(np.shape(marks.get_offsets())[0] for marks in figure.findobj(PathCollection))
    return points > _MOST_POINTS or bool(figure.findobj(AxesImage) + figure.findobj(QuadMesh))
