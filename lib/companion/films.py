"""Animations that play in the page itself: frames and a player of a few lines, nothing from outside."""

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from companion import publish

DOTS_PER_INCH = 120
PALETTE_SIZE = 96  # colors per frame; a third of the bytes of a full-color image, and no visible steps

_PLAYER = """<div class="player" id="{id}"><button type="button">Play</button>
<input type="range" min="0" max="{last}" value="{still}" aria-label="frame"></div>
<script>
(() => {{
  const player = document.getElementById({id_text});
  const image = (player.closest("figure") || player.previousElementSibling).querySelector("img");
  const button = player.querySelector("button"), slider = player.querySelector("input");
  const frames = {frames};
  let timer = null;
  const show = k => {{ slider.value = k; image.src = frames[k]; }};
  const pause = () => {{ clearInterval(timer); timer = null; button.textContent = "Play"; }};
  const play = () => {{
    frames.forEach(source => {{ new Image().src = source; }});
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
    caption: str = "",
    still: int = 0,
    interval_ms: int = 150,
    **arrays: Any,
) -> None:
    """Draw a figure frame by frame, and show it with a button to play and pause and a slider.

    The frames lie beside the page, or in the notebook, so it plays without a connection. It does not start by
    itself. On paper, and where scripts are off, the still is shown. Arrays and drawing code are offered as
    `publish.publish` offers them; the code draws the still.

    Args:
        plot_function: takes ``frame`` and the arrays by name, returns a Figure; all frames of one size.
        name: the animation's name, unique within the chapter; letters, digits, ``_`` or ``-``.
        num_frames: number of frames.
        description: what is to be seen, as alternative text.
        caption: as in `publish.publish`.
        still: the frame to show first and in print.
        interval_ms: time from frame to frame, in milliseconds.
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
    frames = [_png(function, frame, given) for frame in range(num_frames)]
    files = {f"{name}-frames/{frame:03d}.png": content for frame, content in enumerate(frames)}
    publish.store(name, stored, code, function.__name__, {f"{name}.png": frames[still], **files})

    def player(sources: list[str]) -> str:
        return _PLAYER.format(
            id=f"player-{name}",
            id_text=json.dumps(f"player-{name}"),
            last=num_frames - 1,
            still=still,
            frames=json.dumps(sources),
            interval=int(interval_ms),
        )

    inline = [f"data:image/png;base64,{base64.b64encode(frame).decode('ascii')}" for frame in frames]
    width = Image.open(io.BytesIO(frames[still])).width * publish.PIXELS_PER_INCH // DOTS_PER_INCH
    publish.show(
        name,
        f"{name}.png",
        frames[still],
        caption,
        description,
        width,
        inline=player(inline),
        page=player([f"{publish.downloads()}/{file}" for file in files]),
    )


def _png(plot_function: Callable[..., Figure], frame: int, arrays: dict[str, Any]) -> bytes:
    """One frame as a PNG with a small palette."""
    with publish.theme():
        figure = plot_function(frame=frame, **arrays)
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None}, transparent=False
        )
        plt.close(figure)
    small = Image.open(buffer).convert("RGB").quantize(PALETTE_SIZE, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    small.save(packed, format="png", optimize=True)
    return packed.getvalue()
