"""Animations that play in the page itself: frames and a player of a few lines, nothing from outside."""

import base64
import html
import io
import json
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import paths
from IPython.display import display
from matplotlib.figure import Figure
from PIL import Image

from companion.figures import _as_argument, _as_stored, _download_links, _script, theme

DOTS_PER_INCH = 120
PALETTE_SIZE = 96  # colours per frame; a third of the bytes of a full-colour image, and no visible steps

_PLAYER = """<style>
#{id} .player {{ display: flex; gap: 0.6rem; align-items: center; justify-content: center }}
#{id} .player input {{ flex: 0 1 24rem }}
@media print {{ #{id} .player {{ display: none }} }}
</style>
<div class="player"><button type="button">Play</button>
<input type="range" min="0" max="{last}" value="{still}" aria-label="frame"></div>
<script>
(() => {{
  const root = document.getElementById({id_text}), image = root.querySelector("img");
  const button = root.querySelector("button"), slider = root.querySelector("input");
  const frames = {frames};
  let timer = null;
  const show = k => {{ slider.value = k; image.src = "data:image/png;base64," + frames[k]; }};
  const pause = () => {{ clearInterval(timer); timer = null; button.textContent = "Play"; }};
  const play = () => {{
    timer = setInterval(() => show((+slider.value + 1) % frames.length), {interval});
    button.textContent = "Pause";
  }};
  button.addEventListener("click", () => timer === null ? play() : pause());
  slider.addEventListener("input", () => {{ pause(); show(+slider.value); }});
}})();
</script>"""


def publish_animation(
    plot_function: Callable[..., Figure],
    name: str,
    *,
    num_frames: int,
    description: str,
    still: int = 0,
    interval_ms: int = 150,
    **arrays: Any,
) -> None:
    """Draw a figure frame by frame, and show it with a button to play and pause and a slider.

    The page holds the frames, so it plays without a connection. It does not start by itself. On paper,
    and where scripts are off, the still is shown. Arrays and drawing code are offered as `figures.publish`
    offers them; the code draws the still.

    Args:
        plot_function: takes ``frame`` and the arrays by name, returns a Figure; all frames of one size.
        name: the animation's name, unique within the chapter; letters, digits, ``_`` or ``-``.
        num_frames: number of frames.
        description: what is to be seen, as alternative text.
        still: the frame to show first and in print.
        interval_ms: time from frame to frame, in milliseconds.
        **arrays: what is drawn, as in `figures.publish`.

    Raises:
        ValueError: a bad name, no frames, or a still that is not one of them.
    """
    if not name.replace("-", "_").isidentifier():
        raise ValueError(f"name: got {name!r}, needs letters, digits, '_' or '-', as it becomes a file name")
    if num_frames < 1 or not 0 <= still < num_frames:
        raise ValueError(f"num_frames, still: got {num_frames} and {still}; still must be one of the frames")
    stored = {key: _as_stored(key, value) for key, value in (arrays | {"frame": still}).items()}
    script = _script(plot_function, name)
    given = {key: _as_argument(array) for key, array in stored.items() if key != "frame"}
    frames = [_png(plot_function, frame, given) for frame in range(num_frames)]
    folder = paths.artifacts()
    if folder is not None:
        np.savez_compressed(folder / f"{name}.npz", **stored)  # type: ignore[arg-type]
        (folder / f"{name}.py").write_text(script, encoding="utf-8")
    identifier = f"animation-{name}"
    player = _PLAYER.format(
        id=identifier,
        id_text=json.dumps(identifier),
        last=num_frames - 1,
        still=still,
        frames=json.dumps(frames),
        interval=int(interval_ms),
    )
    source = (
        f'<figure class="published-figure" id="{identifier}">'
        f'<img src="data:image/png;base64,{frames[still]}" alt="{html.escape(description)}" '
        f'style="width: 100%; max-width: 720px">'
        f"{player}{_download_links(name)}</figure>"
    )
    text = f"Animation {name}: {description}"
    display({"text/plain": text, "text/html": source, "image/png": frames[still]}, raw=True)


def _png(plot_function, frame, arrays) -> str:
    """One frame as a base64 PNG with a small palette."""
    with theme():
        figure = plot_function(frame=frame, **arrays)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        plt.close(figure)
    small = Image.open(buffer).convert("RGB").quantize(PALETTE_SIZE, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    small.save(packed, format="png", optimize=True)
    return base64.b64encode(packed.getvalue()).decode("ascii")
