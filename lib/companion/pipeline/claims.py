"""A page for every claim: what was published, how it is checked, what was found, and how to cite it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from companion import formats, records
from companion.pipeline import kept, scoreboard, sections
from companion.pipeline.front import Figure
from companion.pipeline.project import BuildError, Project
from companion.pipeline.rendering import render

CHECKED_HERE = ("A8", "A9", "A11", "A13", "A15", "D1", "D8", "D10")  # by book/_static/check-here.js


def write(
    project: Project,
    table: Iterable[scoreboard.Row],
    figures: Iterable[Figure],
    held: Mapping[str, str],
    folder: Path,
) -> None:
    """Write each claim's page into a folder, as Markdown that no table of contents lists.

    Args:
        project: The book at one preset.
        table: All claims, with what this build found.
        figures: Published figures; those that name a claim's panels stand on its page.
        held: Over how many seeds the verdict came out, by claim.
        folder: Where the pages go.
    """
    root = project.root / "book"
    at_paper = scoreboard.recorded_verdicts(Project(project.root, "paper"))
    left, shown = kept.beside(project), list(figures)
    changes, listed = root / "changed_checks.md", root / "panels.yml"
    changed = history(changes.read_text(encoding="utf-8")) if changes.is_file() else {}
    panels = yaml.safe_load(listed.read_text(encoding="utf-8")) if listed.is_file() else []
    folder.mkdir(parents=True)
    for row in table:
        id = row.claim["id"]
        own = [panel for panel in panels if id in panel.get("claims", ())]
        named = {panel["panel"] for panel in own}
        pictures = [figure for figure in shown if figure.chapter == row.chapter and figure.panels & named]
        content = render(
            "claim.md",
            row=row,
            panels=own,
            figure=pictures[0] if pictures else None,
            paper=at_paper.get(id) if project.preset != "paper" else None,
            seeds=held.get(id),
            history=changed.get(id, ()),
            preset=project.preset,
            kept=left.get(row.chapter),
            line=kept.line,
            here=id in CHECKED_HERE,
            anchor=sections.anchor,
            records=records,
            notes=scoreboard.notes,
            commit=project.commit or "unknown",
            repository=project.repository,
        )
        (folder / f"{id}.md").write_text(content, encoding="utf-8")


def history(changes: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of the page "Changed checks", by claim: what was before, what is now, and why."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in re.findall(r"^\| ([A-D]\d.*) \|$", changes, re.MULTILINE):
        claims, *rest = (re.sub(r"[`*]|\\(?=\|)", "", cell).strip() for cell in row.split(" | "))
        for id in re.findall(r"[A-D]\d+", claims):
            found.setdefault(id, []).append(dict(zip(("before", "now", "why"), rest, strict=False)))
    return found


def quoted(project: Project, table: Iterable[scoreboard.Row], prose: str) -> str:
    """Prose with each ``{claim}`A13``` replaced by the claim's headline, at paper size where it is kept.

    Raises:
        BuildError: A claim is named that is not in the list.
    """
    rows, left = {row.claim["id"]: row for row in table}, kept.beside(project)
    at_paper = scoreboard.recorded_verdicts(Project(project.root, "paper"))

    def quote(named: re.Match[str]) -> str:
        if (row := rows.get(named[1])) is None:
            raise BuildError(f"{{claim}}`{named[1]}`: no such claim in book/claims.yml")
        before = left.get(row.chapter)
        own = [record for record in before.records if record["id"] == named[1]] if before else []
        found, place = (own, "at paper size") if own else (row.records, "in this build")
        verdict = at_paper.get(named[1], row.verdict) if own else row.verdict
        link = f"[{named[1]}](claims/{named[1]}.md) · {verdict} {place}"
        leading = next((record for record in found if record.get("headline")), None)
        if leading is None:
            return link
        sized = f" ({records.sizes(leading['size'])})" if leading.get("size") else ""
        return f"{link} · {formats.text(leading['quantity'])}{sized}: {records.headline(leading)}"

    return re.sub(r"\{claim\}`([A-D]\d+)`", quote, prose)


def chapter_of(project: Project, id: str) -> str:
    """The chapter that judges a claim.

    Raises:
        BuildError: There is no such claim, or its chapter is not written.
    """
    listed = yaml.safe_load((project.root / "book" / "claims.yml").read_text(encoding="utf-8"))
    chapters = {claim["id"]: claim["chapter"] for claim in listed}
    if id not in chapters:
        raise BuildError(f"ID must be a claim of book/claims.yml, {', '.join(chapters)}; got {id!r}")
    if chapters[id] not in project.names:
        raise BuildError(f"the chapter of {id}, {chapters[id]}, is not written")
    return chapters[id]
