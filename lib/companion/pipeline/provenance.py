"""Where a figure comes from: one line under it, from the manifest of its chapter's results."""

import re
from typing import Any

from companion.formats import INJECTED
from companion.pipeline import manifest
from companion.pipeline.project import DIGITS, Chapter, Project
from companion.pipeline.rendering import render

_SETTING = re.compile(r"^(preset|seed)\b[^=\n]*=\s*(.+?)\s*(?:#.*)?$", re.MULTILINE)


def settings(notebook: Any) -> dict[str, str]:
    """Preset and seed of an executed chapter; what was handed to it stands after its defaults."""
    tagged = [
        "".join(cell["source"])  # a text, or its lines as they lie in a file
        for cell in notebook["cells"]
        if {"parameters", INJECTED} & set(cell["metadata"].get("tags", ()))
    ]
    return {name: value.strip("\"'") for name, value in _SETTING.findall("\n".join(tagged))}


def machine(chapter: Chapter) -> str:
    """What ran a chapter, as "Linux x86_64, Python 3.11"; "" where its manifest does not say."""
    known = re.fullmatch(r"\((\d+), (\d+)\) (.+)", manifest.made_from(chapter.manifest).get("Python", ""))
    return f"{known[3]}, Python {known[1]}.{known[2]}" if known else ""


def seconds(project: Project, chapter: Chapter) -> int | None:
    """How long the run took that left a chapter's results; None where it was not the latest here.

    Only the latest run here is known. The results are its own where they were finished while it ran.
    """
    state = manifest.read(project.build / "progress" / f"{chapter.name}.json")
    try:
        own = state["started"] <= chapter.manifest.stat().st_mtime <= state["ended"]
        return round(state["ended"] - state["started"]) if own else None
    except (KeyError, TypeError, OSError):
        return None


def source_address(project: Project, path: str) -> str:
    """Where a browser finds a file of the sources at the present commit; "" where nothing is known."""
    address, commit = project.repository, project.commit.removesuffix("-dirty")
    return f"{address}/blob/{commit}/{path}" if address and commit else ""


def line(project: Project, chapter: Chapter, figure: str, cell: str, settings: dict[str, str]) -> str:
    """The line under a figure that a chapter published by a cell of this source, with these `settings`."""
    within = cell.partition(f'"{figure}"')
    if row := chapter.row(cell):
        row += within[0].count("\n") * bool(within[1])
    path = chapter.source.relative_to(project.root).as_posix()
    place = source_address(project, path)
    digests = manifest.read(chapter.manifest).get("files", {})
    return render(
        "provenance.html",
        path=path.removeprefix("notebooks/"),
        row=row,
        place=f"{place}#L{row}" if place and row else place,
        commit=project.commit,
        commit_page=place and f"{project.repository}/commit/{project.commit.removesuffix('-dirty')}",
        date=project.commit_date,
        settings=settings,
        machine=machine(chapter),
        seconds=seconds(project, chapter),
        digest=digests.get(f"artifacts/{figure}.npz", "")[:DIGITS],
    )
