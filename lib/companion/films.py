"""Pictures that move in the page itself: films with a player of a few lines, neurons turned by a slider."""

import base64
import html
import inspect
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from companion import publish

DOTS_PER_INCH = 120
INTERVAL_MS = 150  # from frame to frame
PALETTE_SIZE = 96  # colors per frame; a third of the bytes of a full-color image, and no visible steps

_SCRIPT = Path(__file__).with_name("player.js")
_PLAYER = """<div class="player" data-frames="{frames}" data-interval="{interval}">
<button type="button">Play</button>
<input type="range" min="0" max="{last}" value="{still}" aria-label="frame"></div>
<script>
{script}</script>"""


def publish_animation(
    plot_function: Callable[..., Figure],
    name: str,
    *,
    num_frames: int,
    description: str,
    caption: str = "",
    tail: str = "",
    counterparts: Sequence[str] = (),
    still: int = 0,
    **arrays: Any,
) -> None:
    """Draw a figure frame by frame, and show it with a button to play and pause and a slider.

    The frames lie beside the page, or in the notebook, so it plays without a connection. It does not start by
    itself. On paper, and where scripts are off, the still is shown. Arrays and drawing code are offered as
    `publish.publish` offers them, and the film as an animated WebP; the code draws the still.

    Args:
        plot_function: takes ``frame`` and the arrays by name, returns a Figure; all frames of one size. Where
            it takes ``figure`` too, it is given that of the frame before, to change what has changed.
        name: the animation's name, unique within the chapter; letters, digits, ``_`` or ``-``.
        num_frames: number of frames.
        description: what is to be seen, as alternative text.
        caption: as in `publish.publish`; so are tail and counterparts.
        tail: sizes and the paper's figure.
        counterparts: the papers' panels.
        still: the frame to show first and in print.
        **arrays: what is drawn, as in `publish.publish`.

    Raises:
        ValueError: a bad name, no frames, or a still that is not one of them.
    """
    publish.figure_name(name)
    if num_frames < 1 or not 0 <= still < num_frames:
        raise ValueError(f"num_frames, still: got {num_frames} and {still}; still must be one of the frames")
    stored = {key: publish.as_stored(key, value) for key, value in (arrays | {"frame": still}).items()}
    function, code = publish.drawing(plot_function)
    given = {key: publish.as_argument(array) for key, array in stored.items() if key != "frame"}
    with publish.theme():
        frames = [*_pngs(function, num_frames, given)]
    files = {f"{name}-frames/{frame:03d}.png": content for frame, content in enumerate(frames)}
    film = {f"{name}.webp": _film(frames)}
    publish.store(name, stored, code, function.__name__, {f"{name}.png": frames[still], **files, **film})

    def player(sources: list[str]) -> str:
        return _PLAYER.format(
            last=num_frames - 1,
            still=still,
            frames=html.escape(json.dumps(sources)),
            interval=INTERVAL_MS,
            script=_SCRIPT.read_text(encoding="utf-8"),
        )

    inline = [f"data:image/png;base64,{base64.b64encode(frame).decode('ascii')}" for frame in frames]
    pixels = Image.open(io.BytesIO(frames[still])).size
    width, height = (size * publish.PIXELS_PER_INCH // DOTS_PER_INCH for size in pixels)
    folder = f"../downloads/{os.environ.get('CODING_SCHEMES_CHAPTER', '')}"
    page = player([f"{folder}/{file}" for file in files])
    figure = {"name": name, "file": f"{name}.png", "width": width, "height": height, "film": True}
    figure |= {"caption": caption, "description": description, "tail": tail}
    figure |= {"panels": list(counterparts), "page": page}
    publish.show(figure, frames[still], player(inline))


def rotation(
    activations: Sequence[np.ndarray], readouts: Sequence[np.ndarray], labels: np.ndarray, neurons: np.ndarray
) -> str:
    """A slider that rotates neurons, for a book's page: `book/_static/rotation.js` draws what it asks for.

    At the angle α the activations are φ cos α + Jφ sin α, readouts alike; the kernel and the outputs are
    computed from them anew.

    Args:
        activations: φ and Jφ, shape (N, P) each.
        readouts: a and Ja, with the output's scale in them, shape (N,) each.
        labels: class of each input, 0 or 1, in the order to be shown.
        neurons: those to be shown, in their order.

    Returns:
        HTML.
    """
    packed = {
        name: base64.b64encode(np.asarray(pair, dtype="<f4").tobytes()).decode("ascii")
        for name, pair in (("activations", activations), ("readouts", readouts))
    }
    data = packed | {"labels": np.asarray(labels).tolist(), "neurons": np.asarray(neurons).tolist()}
    return (
        f'<div class="rotation" data-rotation="{html.escape(json.dumps(data))}" hidden></div>'
        '<script src="../_static/rotation.js"></script>'
    )


def _pngs(plot_function: Callable[..., Figure], num_frames: int, arrays: dict[str, Any]) -> Iterator[bytes]:
    """The frames as PNGs with a small palette."""
    reuses = "figure" in inspect.signature(plot_function).parameters
    canvas = None
    for frame in range(num_frames):
        if canvas is None or not reuses:
            canvas = FigureCanvasAgg(plot_function(frame=frame, **arrays))
            canvas.figure.set_dpi(DOTS_PER_INCH)
            plt.close(canvas.figure)
        else:
            plot_function(frame=frame, figure=canvas.figure, **arrays)
        canvas.draw()
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        packed = io.BytesIO()
        # no color is far from its own, as small dots' would be from a palette of the commonest
        small = image.quantize(PALETTE_SIZE, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        small.save(packed, format="png", compress_level=7)
        yield packed.getvalue()


def _film(frames: list[bytes]) -> bytes:
    """All frames in one file."""
    first, *rest = (Image.open(io.BytesIO(frame)).convert("RGB") for frame in frames)
    film = io.BytesIO()
    first.save(
        film,
        format="webp",
        save_all=True,
        append_images=rest,
        duration=INTERVAL_MS,
        loop=0,
        lossless=True,
        method=4,  # three quarters of the bytes of 0; higher ones take minutes
    )
    return film.getvalue()
