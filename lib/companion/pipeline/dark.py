"""Pictures for dark pages: ink turns light, colors mean what they meant, a picture inside stays as it is.

Beside every drawn picture of the pages, ``name.svg``, lies ``name-dark.svg``; ``dark.js`` shows it. Both are
made of one drawing, when the pages are built: a figure is not drawn twice, and what is kept has both, too.
"""

import re
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex, to_rgb
from PIL import Image
from scipy import ndimage

PLACES = ("_images", "_static/paper/*", "_static/thumbnails")  # of drawn pictures; dark.js names them, too
SUFFIX = "-dark"
GROUND = 0x12 / 255  # of the theme's dark pages
LIGHTEST = 0.93  # of the ink
_COLORLESS = 0.06  # most difference between the channels of a gray
_DARK = 0.20  # luminance: darker colors are lifted, so that they stand out from the ground,
_LEAST = 0.12  # to this at least, which is a contrast of 3
_WEIGHTS = np.array([[0.2126], [0.7152], [0.0722]])  # of the channels in the luminance
_COLOR = re.compile(r"(?<=: )#[0-9a-f]{6}(?=[;\"])")
_PATCH = re.compile(r'<path d="([^"]*)"(?: clip-path="url\(#(\w+)\)")? style="fill: (#[0-9a-f]{6})')
_CLIP = re.compile(
    r'<clipPath id="(\w+)">\s*<rect x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"'
)
_TEXT = re.compile(r'<g( style="fill: #[0-9a-f]{6}[^"]*")? transform="translate\(([\d.]+) ([\d.]+)\)')
_LIGHT = 0.35  # luminance of what dark text is read on
_STROKE = 15  # pixels: what is opaque and nowhere thinner is no ink
_OPAQUE = 240  # of 255; a palette makes it a little less


def recolored(colors: np.ndarray) -> np.ndarray:
    """Colors in sRGB, from 0 to 1, shape (…, 3), as they are drawn on a dark ground.

    Grays change sides, from black ink on a white page to light ink on the ground. Dark colors become lighter,
    in their own order, and keep their hue.
    """
    gray = np.ptp(colors, axis=-1, keepdims=True) < _COLORLESS
    inverted = LIGHTEST - colors.mean(-1, keepdims=True) * (LIGHTEST - GROUND)
    linear = _linear(colors)
    luminance = linear @ _WEIGHTS
    wanted = np.maximum(luminance, _LEAST + (_DARK - _LEAST) * luminance / _DARK)
    white = (wanted - luminance) / np.maximum(1 - luminance, 1e-9)
    linear = linear + white * (1 - linear)
    lifted = np.where(linear > 0.0031308, 1.055 * linear ** (1 / 2.4) - 0.055, 12.92 * linear)
    return np.where(gray, inverted, lifted)


def drawing(svg: str) -> str:
    """An SVG of matplotlib's on a dark ground; what has no color is black, and becomes ink as well."""
    ink = _recolored("#000000")
    svg = re.sub(r"<svg\b", f'<svg fill="{ink}"', svg, count=1)
    clips = {name: np.array(places, float).reshape(2, 2).cumsum(0) for name, *places in _CLIP.findall(svg)}
    whole = np.array([[-np.inf] * 2, [np.inf] * 2])
    boxes = [
        _box(place, clips.get(clip, whole))
        for place, clip, color in _PATCH.findall(svg)
        if _luminance(_recolored(color)) > _LIGHT
    ]

    def kept(text: re.Match[str]) -> str:
        """A text on a light patch stays dark; its color is hidden from what follows."""
        place = np.array(text.groups()[1:], float)
        if not any(np.all(low <= place) and np.all(place <= high) for low, high in boxes):
            return text[0]
        if text[1] is None:
            return text[0].replace("<g", '<g fill="#000000"')
        return text[0].replace("fill: #", "fill: !")

    svg = _COLOR.sub(lambda found: _recolored(found[0]), _TEXT.sub(kept, svg))
    return svg.replace("fill: !", "fill: #")


def picture(image: Image.Image) -> Image.Image:
    """A PNG on a dark ground: ink around its heat maps is light, they and what is drawn on them stay."""
    pixels = np.array(image.convert("RGBA"))
    solid = np.pad((pixels[..., 3] >= _OPAQUE).astype(np.uint8), _STROKE)
    opened = ndimage.maximum_filter(ndimage.minimum_filter(solid, _STROKE), _STROKE)
    ink = (pixels[..., 3] > 0) & (opened[_STROKE:-_STROKE, _STROKE:-_STROKE] == 0)
    packed = pixels[ink][:, :3].astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
    different, inverse = np.unique(packed, return_inverse=True)
    colors = np.stack([different >> 16, different >> 8 & 255, different & 255], axis=-1) / 255
    pixels[ink, :3] = np.rint(255 * recolored(colors)).astype(np.uint8)[inverse]
    return Image.fromarray(pixels)


def add(pages: Path) -> None:
    """Lay the dark picture beside every drawn one of the pages."""
    for place in PLACES:
        for path in sorted(pages.glob(f"{place}/*")):
            beside = path.with_name(f"{path.stem}{SUFFIX}{path.suffix}")
            if path.suffix == ".svg":
                beside.write_text(drawing(path.read_text(encoding="utf-8")), encoding="utf-8")
            elif path.suffix == ".png":
                with Image.open(path) as image:
                    picture(image).save(beside)


@cache
def _recolored(color: str) -> str:
    red, green, blue = recolored(np.array(to_rgb(color))).tolist()
    return to_hex((red, green, blue))


def _luminance(color: str) -> float:
    return float((_linear(np.array(to_rgb(color))) @ _WEIGHTS).item())


def _linear(colors: np.ndarray) -> np.ndarray:
    """Intensities of sRGB's channels."""
    return np.where(colors > 0.04045, ((colors + 0.055) / 1.055) ** 2.4, colors / 12.92)


def _box(path: str, clip: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest coordinates of what a clip, (2, 2), leaves of an SVG's path."""
    points = np.array(re.findall(r"-?[\d.]+", path), float).reshape(-1, 2)
    return np.maximum(points.min(0), clip[0]), np.minimum(points.max(0), clip[1])
