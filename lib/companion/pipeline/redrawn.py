"""Kept figures drawn again from their arrays: an edit of how figures look reaches them without a run."""

import ast
import importlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from companion import publish
from companion.pipeline import kept, manifest
from companion.pipeline.project import Project


def anew(project: Project, chapter: str, name: str, figure: dict[str, Any]) -> publish.Drawn | None:
    """A kept figure, drawn from its arrays by the code of now; None of a film, or without arrays."""
    if not figure.get("function") or "arrays" not in figure:
        return None
    module, _, function = figure["function"].rpartition(".")
    if module == "__main__":  # of the chapter itself
        text = project.source(chapter).read_text(encoding="utf-8")
        named = (node for node in ast.walk(ast.parse(text)) if getattr(node, "name", "") == function)
        draw, _ = publish.defined(function, ast.get_source_segment(text, next(named)) or "")
    else:
        draw = getattr(importlib.import_module(module), function)
    with np.load(project.root / kept.FOLDER / chapter / figure["arrays"]) as arrays:
        stored = {key: as_written(arrays[key]) for key in arrays}
        return publish.draw(draw, name, stored, thumbnail=False)


def redraw(project: Project) -> list[str]:
    """Draw the kept figures again, after an edit of how they look; returns the files that changed."""
    changed: list[str] = []
    for chapter, run in kept.read(project).items():
        folder, before = project.root / kept.FOLDER / chapter, len(changed)
        for name, figure in run.figures.items():
            drawn = anew(project, chapter, name, figure)
            if drawn is None or same(folder / figure["file"], drawn):
                continue
            (folder / figure["file"]).unlink()
            (folder / drawn.file).write_bytes(drawn.images[drawn.file])
            figure |= {"file": drawn.file, "width": drawn.width, "height": drawn.height}
            changed.append(f"{chapter}/{drawn.file}")
        if len(changed) > before:
            manifest.write_readable(folder / kept.FILE, run._asdict())
    return changed


_NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
_UNSEEN = re.compile(r'(?<=id=")[^"]*|(?<=href="#)[^"]*|(?<=url\(#)[^)]*')


def same(path: Path, drawn: publish.Drawn) -> bool:
    """Whether a figure looks as it did: an SVG to .02 of a pixel, a PNG but for rims of letters."""
    if path.name != drawn.file:
        return False
    before, now = path.read_bytes(), drawn.images[drawn.file]
    if path.suffix == ".png":
        pixels, others = (
            np.asarray(Image.open(io.BytesIO(it)).convert("RGBA"), float) for it in (before, now)
        )
        return pixels.shape == others.shape and bool(np.mean(np.abs(pixels - others)) < 0.05)
    one, other = (_UNSEEN.sub("", it.decode()) for it in (before, now))
    if _NUMBER.sub("", one) != _NUMBER.sub("", other):
        return False
    places, there = (np.array(_NUMBER.findall(text), float) for text in (one, other))
    return np.allclose(places, there, rtol=0, atol=0.02)


def as_written(array: np.ndarray) -> np.ndarray:
    """Seven digits as they were meant, 0.1 and not 0.10000000149."""
    if array.dtype != np.float32:
        return array
    return np.reshape([float(f"{value:.7g}") for value in np.ravel(array)], array.shape)
