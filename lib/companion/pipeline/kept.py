"""What the last run of each chapter at the preset paper left, kept so that every build can show it.

It lies in ``book/_static/paper/CHAPTER/``: ``kept.json`` (records, captions, commit, date), the figures, and
their arrays, compressed and with seven digits.
"""

import datetime
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from companion import records
from companion.formats import CHECK_TYPE, FIGURE_TYPE, text
from companion.pipeline import manifest
from companion.pipeline.project import Chapter, Project

FOLDER = Path("book/_static/paper")
FILE = "kept.json"
_LARGEST = 1_000_000  # bytes of a figure's arrays; whole films and phase diagrams stay with the run
_SHOWN = ("file", "caption", "tail", "description", "width", "height", "function")  # of a figure's payload


class Kept(NamedTuple):
    """What is kept of one chapter at the preset paper.

    Attributes:
        commit: The repository's state that made it.
        date: Day of the run, as 2026-11-25.
        records: Of its findings, in order.
        figures: Its published figures by name: file, caption, tail, description, width and height; the
            function that draws it, if it is no film; and the file of its arrays, unless they are large.
    """

    commit: str
    date: str
    records: list[dict[str, Any]]
    figures: dict[str, dict[str, Any]]

    def of(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """The record of the same quantity of the same claim."""
        same = (kept for kept in self.records if all(kept[key] == record[key] for key in ("id", "quantity")))
        return next(same, None)

    @property
    def stamp(self) -> str:
        """Where it comes from, for a page."""
        return f"run of {self.date}, commit {self.commit}"


def left_behind(notebook: Path, kind: str) -> list[dict[str, Any]]:
    """What the cells of an executed notebook left of a kind (`CHECK_TYPE`, `FIGURE_TYPE`), in order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def published(chapter: Chapter) -> dict[str, dict[str, Any]]:
    """The figures that an executed chapter published, by name, in order."""
    return {figure["name"]: figure for figure in left_behind(chapter.notebook, FIGURE_TYPE)}


def keep(project: Project, chapter: Chapter) -> Path:
    """Keep what an executed chapter left, in place of what was kept of it."""
    shown = published(chapter)
    kept = Kept(
        project.commit or "unknown",
        datetime.date.fromtimestamp(chapter.notebook.stat().st_mtime).isoformat(),
        left_behind(chapter.notebook, CHECK_TYPE),
        {name: {key: figure.get(key) for key in _SHOWN} for name, figure in shown.items()},
    )
    folder = project.root / FOLDER / chapter.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, figure in shown.items():
        shutil.copy(chapter.artifacts / figure["file"], folder)
        if (arrays := chapter.artifacts / f"{name}.npz").is_file():
            target = folder / arrays.name
            _compact(arrays, target)
            if target.stat().st_size > _LARGEST:
                target.unlink()
            else:
                kept.figures[name]["arrays"] = target.name
    manifest.write_readable(folder / FILE, kept._asdict())
    return folder


def _compact(source: Path, target: Path) -> None:
    """Copy a figure's arrays, numbers with seven digits."""
    with np.load(source) as arrays:
        held = {name: arrays[name] for name in arrays}
    short = {name: array.astype(np.float32) for name, array in held.items() if array.dtype == np.float64}
    np.savez_compressed(target, **(held | short))


def read(project: Project) -> dict[str, Kept]:
    """What is kept, by chapter."""
    paths = sorted((project.root / FOLDER).glob(f"*/{FILE}"))
    return {path.parent.name: Kept(**json.loads(path.read_text(encoding="utf-8"))) for path in paths}


def beside(project: Project) -> dict[str, Kept]:
    """What pages show beside their own results; nothing in a build at the preset paper itself."""
    return {} if project.preset == "paper" else read(project)


def line(kept: Kept | None, record: dict[str, Any]) -> str:
    """What a record's quantity was at the preset paper, as a line of a page; nothing where it is not kept."""
    found = kept and kept.of(record)
    if not kept or not found:
        return ""
    state = records.state(found)
    sized = f" ({text(records.sizes(found['size']))})" if found.get("size") else ""
    return (
        f'<p class="check-paper check-{state}" title="{text(kept.stamp)}">At paper size{sized}: '
        f'<span class="check-mark">{records.MARKS[state]}</span> {records.headline(found)}</p>'
    )
