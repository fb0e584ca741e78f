"""What differs between two builds of the book: numbers in standard errors, verdicts, and figures' arrays.

A build is a folder or an archive with executed chapters in it: built pages, a ``_build/<preset>``, or a
folder of reruns; or a commit, which stands for the record at the preset paper that its tree keeps. Records of
one claim and quantity are compared, the first where there are several.
"""

import html
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markdown_it import MarkdownIt

from companion import formats, records
from companion.formats import CHECK_TYPE
from companion.pipeline import kept, manifest, seeds
from companion.pipeline.project import BUILD, DIGITS, BuildError
from companion.pipeline.rendering import render

_HEAD = """\
<!doctype html>
<meta charset="utf-8">
<title>What differs between two builds</title>
<style>body {font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em}
table {border-collapse: collapse; margin: 1em 0}
td, th {padding: .2em .8em; border-bottom: 1px solid #ccc; text-align: left}</style>
"""
MOVED = 3.0  # standard errors of the difference; numbers of the same law lie farther apart once in 370 cases


_MOST_ARRAYS, _MOST_POINTS = 6, 2000  # of a figure that are drawn, and of each array


class Moved(NamedTuple):
    """One number or array of the findings in both builds.

    Attributes:
        id: its claim.
        quantity: what it is.
        values: of A and of B, as they are shown.
        states: of the two findings, as `records.state` says.
        away: largest distance in standard errors of the difference; None where one has no error.
    """

    id: str
    quantity: str
    values: tuple[str, str]
    states: tuple[str, str]
    away: float | None


class Difference(NamedTuple):
    """Two builds held against each other.

    Attributes:
        compared: number of quantities that both have.
        moved: those that lie farther apart than `MOVED`, or differ where there is no error.
        verdicts: claims whose verdict is not the same, with both; "not run" where a build has none.
        alone: quantities that only one build has, of chapters that both have.
        chapters: chapters that only one build has; of these nothing is compared.
        figures: figures whose arrays differ, each with how; and the number that both have.
        num_figures: figures in both.
    """

    compared: int
    moved: list[Moved]
    verdicts: dict[str, tuple[str, str]]
    alone: list[str]
    chapters: list[str]
    figures: dict[str, str]
    num_figures: int


class Build(NamedTuple):
    """Records by chapter, files of figures' arrays by chapter and name, and what to call it."""

    chapters: dict[str, list[dict[str, Any]]]
    figures: dict[str, Path]
    called: str = ""

    def limited(self, chapters: Collection[str]) -> "Build":
        """The part of the build that some chapters made."""
        figures = {name: path for name, path in self.figures.items() if name.partition("/")[0] in chapters}
        told = {name: told for name, told in self.chapters.items() if name in chapters}
        return self._replace(chapters=told, figures=figures)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Those of all chapters."""
        return [record for told in self.chapters.values() for record in told]


@contextmanager
def opened(given: str, name: str) -> Iterator[Build]:
    """A build in a folder or an archive, or what a commit has left.

    Raises:
        BuildError: there is none; names the setting.
    """
    with tempfile.TemporaryDirectory(prefix="build-") as scratch:
        path, called = Path(given), given
        if path.is_file():
            try:
                safe: dict[str, Any] = {} if path.suffix == ".zip" else {"filter": "data"}
                shutil.unpack_archive(path, scratch, **safe)
            except (shutil.ReadError, tarfile.TarError, ValueError, OSError) as error:
                raise BuildError(
                    f"{name} must be a folder or an archive; {given} is neither: {error}"
                ) from error
            path = Path(scratch)
        elif commit := _commit(given):
            path, called = _of_commit(commit, Path(scratch), name)
        if not given or not path.is_dir():
            raise BuildError(
                f"{name} must be a folder or an archive of a build, such as _build/quick, or a commit; "
                f"got {given!r}"
            )
        yield _read(path, name, called)


def _git(*arguments: str) -> bytes:
    """What git says in this folder; nothing where it fails."""
    found = subprocess.run(["git", *arguments], capture_output=True)
    return b"" if found.returncode else found.stdout


def _commit(given: str) -> str:
    """Full name of a commit, by any name that git knows here; "" for a folder, and where there is none."""
    if not given or given.startswith("-") or Path(given).exists():
        return ""
    return _git("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}").decode().strip()


def _of_commit(commit: str, scratch: Path, name: str) -> tuple[Path, str]:
    """A folder with the record that a commit's tree keeps, else a build here of that commit; and its name."""
    if packed := _git("archive", commit, str(kept.FOLDER)):
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(scratch, filter="data")
        return scratch, f"record of {commit[:DIGITS]}"
    for pages in sorted(Path(BUILD).glob("*/html")):
        made = manifest.read(pages / "scoreboard.json").get("commit")
        if made and commit.startswith(made):  # of sources with edits it ends in "-dirty"
            return pages, f"{pages.parent} of {made}"
    raise BuildError(
        f"{name}: commit {commit[:DIGITS]} keeps no results in {kept.FOLDER}, and no build in {BUILD} is of "
        "it; check it out in a folder of its own, and run make book there"
    )


def _read(folder: Path, name: str, called: str) -> Build:
    """What the chapters in a folder have left."""
    chapters = _chapters(folder)
    if not chapters:
        raise BuildError(f"{name}: no executed chapters in {called}; run make book first")
    told: dict[str, list[dict[str, Any]]] = {}
    for chapter, (path, _) in chapters.items():
        try:
            if path.name == kept.FILE:
                told[chapter] = json.loads(path.read_text(encoding="utf-8"))["records"]
            else:
                told[chapter] = kept.left_behind(path, CHECK_TYPE)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BuildError(f"{name}: {path.name} is spoiled ({type(error).__name__}: {error})") from error
    arrays = {
        f"{chapter}/{file.stem}": file
        for chapter, (_, place) in chapters.items()
        for file in place.glob("*.npz")
    }
    return Build(told, arrays, called)


def _chapters(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The latest run of every chapter, and the folder of its arrays; where none has run, what is kept."""
    pages = sorted(folder.rglob("downloads/*.ipynb"))
    runs = [path for path in folder.rglob("*.ipynb") if path.parent.name.startswith(f"{path.stem}-")]
    if latest := {path.stem: path for path in sorted(pages or runs, key=lambda path: path.stat().st_mtime)}:
        return {name: (path, path.with_name(name if pages else "artifacts")) for name, path in latest.items()}
    return {path.parent.name: (path, path.parent) for path in (folder / kept.FOLDER).glob(f"*/{kept.FILE}")}


def compare(a: Build, b: Build) -> Difference:
    """What differs between two builds, in the chapters that both have."""
    lone = _alone(a.chapters, b.chapters)
    a, b = (build.limited(a.chapters.keys() & b.chapters.keys()) for build in (a, b))
    one, other = (_by_quantity(build.records) for build in (a, b))
    pairs = [_moved(record, other[key]) for key, record in one.items() if key in other]
    told = [seeds.verdicts(build.records) for build in (a, b)]
    verdicts = {id: (told[0].get(id, "not run"), told[1].get(id, "not run")) for id in told[0] | told[1]}
    shown = {
        name: _arrays(a.figures[name], b.figures[name])
        for name in sorted(a.figures.keys() & b.figures.keys())
    }
    return Difference(
        len(pairs),
        [p for p in pairs if p.away is None or p.away > MOVED or p.states[0] != p.states[1]],
        {id: pair for id, pair in verdicts.items() if pair[0] != pair[1]},
        [f"{id} {quantity} ({side})" for (id, quantity), side in _alone(one, other)],
        [f"{name} ({side})" for name, side in lone],
        {name: how for name, how in shown.items() if how} | dict(_alone(a.figures, b.figures)),
        len(shown),
    )


def _alone(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> list[tuple[Any, str]]:
    """What only one of two builds has, and in words which."""
    sides = (("only in A", a.keys() - b.keys()), ("only in B", b.keys() - a.keys()))
    return [(key, side) for side, keys in sides for key in sorted(keys)]


def _by_quantity(told: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in told:
        found.setdefault((record["id"], record["quantity"]), record)
    return found


def _moved(a: Mapping[str, Any], b: Mapping[str, Any]) -> Moved:
    """How far two records of a quantity lie apart; 0 where they are the same, up to rounding."""
    values = tuple(map(_shown, (a, b)))
    away: float | None = None
    if a["computed"] == b["computed"]:
        away = 0.0
    elif None not in (a["computed"], b["computed"]):
        try:
            x, y = np.asarray(a["computed"]), np.asarray(b["computed"])
        except ValueError:  # a list of unequal lists
            x, y = np.empty(0), np.empty(1)
        if x.shape == y.shape and {x.dtype.kind, y.dtype.kind} <= set("iuf"):
            if None not in (a["uncertainty"], b["uncertainty"]):
                with np.errstate(divide="ignore", invalid="ignore"):
                    away = float(np.nanmax(np.abs(x - y) / np.hypot(a["uncertainty"], b["uncertainty"])))
            elif np.allclose(x, y, rtol=1e-6, atol=0):
                away = 0.0
    return Moved(a["id"], " ".join(a["quantity"].split()), values, (records.state(a), records.state(b)), away)  # type: ignore[arg-type]


def _shown(record: Mapping[str, Any]) -> str:
    """A record's number with its error; as it stands where the two do not fit."""
    if record["computed"] is None:
        return "–"
    try:
        return formats.values(record["computed"], record["uncertainty"])
    except (ValueError, TypeError):
        return f"{record['computed']} ± {record['uncertainty']}"


def _loaded(path: Path, name: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as arrays:
            return dict(arrays)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise BuildError(f"{name}: {path.parent.name}/{path.name} is spoiled ({error})") from error


def _both(a: Path, b: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two figures' arrays, with as many digits as the shorter has: those of a record have seven."""
    one, other = _loaded(a, "A"), _loaded(b, "B")
    for name in one.keys() & other.keys():
        if one[name].dtype.kind == other[name].dtype.kind == "f":
            shorter = min(one[name].dtype, other[name].dtype, key=lambda dtype: dtype.itemsize)
            one[name], other[name] = one[name].astype(shorter), other[name].astype(shorter)
    return one, other


def _arrays(a: Path, b: Path) -> str:
    """How two figures' arrays differ, in words; nothing where they are the same."""
    one, other = _both(a, b)
    if set(one) != set(other):
        return f"other arrays: {', '.join(sorted(set(one) ^ set(other)))}"
    apart = {}
    for name, x in one.items():
        y = other[name]
        if x.shape != y.shape:
            return f"{name} has shape {x.shape} and {y.shape}"
        if x.dtype.kind in "biufc" and y.dtype.kind in "biufc":
            if not np.array_equal(np.isfinite(x), np.isfinite(y)):
                return f"{name}: not finite in other places"
            scale = np.nanmax(np.abs(x), initial=0.0) or 1.0
            apart[name] = float(np.nanmax(np.abs(np.subtract(x, y, dtype=complex)), initial=0.0) / scale)
        elif not np.array_equal(x, y):
            return f"{name}: other texts"
    worst = max(apart, key=lambda name: apart[name], default="")
    return (
        f"{worst} differs by up to {apart[worst]:.2g} of its largest value" if apart and apart[worst] else ""
    )


def overdraw(a: Build, b: Build, found: Difference, folder: Path) -> dict[str, Path]:
    """Draw the numbers of each figure that differs, from both builds' arrays, one over the other."""
    from matplotlib.figure import Figure  # here: it loads for most of a second, in every step of a build

    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for name in (name for name in found.figures if name in a.figures and name in b.figures):
        one, other = _both(a.figures[name], b.figures[name])
        differing = [
            key
            for key in one.keys() & other.keys()
            if {one[key].dtype.kind, other[key].dtype.kind} <= set("biuf")
            and not np.array_equal(one[key], other[key], equal_nan=True)
        ]
        if shown := sorted(differing)[:_MOST_ARRAYS]:
            figure = Figure(figsize=(3.2 * len(shown), 2.4), layout="constrained")
            for axis, key in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
                for arrays, style in ((one, {"color": "0.6", "lw": 3}), (other, {"color": "C1", "lw": 1})):
                    flat = np.ravel(arrays[key])
                    places = np.arange(flat.size)[:: -(-flat.size // _MOST_POINTS) or 1]
                    axis.plot(places, flat[places], marker=".", **style)
                axis.set(title=key, xlabel="element")
            drawn[name] = folder / f"{name.replace('/', '-')}.svg"
            figure.savefig(drawn[name], metadata={"Date": None})
    return drawn


def write(
    found: Difference, names: tuple[str, str], folder: Path, drawn: Mapping[str, Path] | None = None
) -> Path:
    """Leave a difference as ``difference.md``, for a comment, and as a page; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = render("difference.md", found=found, names=names, limit=MOVED)
    (folder / "difference.md").write_text(summary, encoding="utf-8")
    page = folder / "difference.html"
    body = MarkdownIt("commonmark").enable("table").render(summary)
    for name, path in (drawn or {}).items():
        shown = html.escape(f"{name}: A gray, B orange")
        body += f'<h2>{shown}</h2>\n<img alt="{shown}" src="{html.escape(path.name)}">\n'
    page.write_text(f"{_HEAD}{body}", encoding="utf-8")
    return page
