"""A page for every claim: what was published, how it is checked, what was found, and how to cite it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from companion import formats, records
from companion.pipeline import front, kept, reports, scoreboard, sections, seeds
from companion.pipeline.project import BuildError, Project
from companion.pipeline.rendering import render

CHECKED_HERE = ("A8", "A9", "A11", "A13", "A15", "D1", "D8", "D10")  # by book/_static/check-here.js
MAPPED = {"A4": "analog", "A8": "redundant", "A15": "sparse"}  # the scheme that each is about
_MAPS = ("your_own_task", "scheme_maps")  # chapter and figure in which every scheme ends


def write(
    project: Project,
    table: Sequence[scoreboard.Row],
    figures: Iterable[front.Figure],
    ledgers: Mapping[str, dict[str, Any]],
    folder: Path,
) -> None:
    """Write each claim's page into a folder, as Markdown that no table of contents lists.

    Of the published figures it shows the one that the claim is checked beside, or that names its panels; of
    the `seeds.ledgers` how the claim came out over seeds.
    """
    shown = list(figures)
    maps = next((figure.link for figure in shown if (figure.chapter, figure.name) == _MAPS), None)
    changes = project.root / "book" / "changed_checks.md"
    changed = history(changes.read_text(encoding="utf-8")) if changes.is_file() else {}
    panels = project.told("book/panels.yml", ())
    folder.mkdir(parents=True)
    held, machines = seeds.held(ledgers, table), reports.read(project)
    for id, one in scoreboard.standings(project, table).items():
        own = [panel for panel in panels if id in panel.get("claims", ())]
        content = render(
            "claim.md",
            one=one,
            panels=[(panel, f"panel-{front.anchor(panel['panel'])}") for panel in own],
            figure=front.of_claim(one.row, shown, {panel["panel"] for panel in own}),
            seeds=held.get(id),
            forest=_forest(id, one, ledgers, machines),
            elsewhere=[
                (reports.label(row), row["claims"][id]["verdict"]) for row in machines if id in row["claims"]
            ],
            history=changed.get(id, ()),
            preset=project.preset,
            line=kept.line,
            here=id in CHECKED_HERE,
            mapped=MAPPED.get(id),
            maps=maps,
            anchor=sections.anchor,
            records=records,
            notes=scoreboard.notes,
            beside=scoreboard.beside,
            cited=_cited(project, one),
            repository=project.repository,
        )
        (folder / f"{id}.md").write_text(content, encoding="utf-8")


def _forest(
    id: str,
    one: scoreboard.Standing,
    ledgers: Mapping[str, dict[str, Any]],
    machines: Iterable[dict[str, Any]],
) -> list[tuple[str, float]]:
    """Distances of a claim's headline from theory in standard errors: as shown here, by seed, by machine."""
    rows = [(one.place, seeds.headline(one.records).get(id))]
    for preset, chapters in ledgers.items():
        headlines = chapters.get(one.row.chapter, {}).get("headlines", {})
        rows += [(f"seed {k}, {preset}", away) for k, away in enumerate(headlines.get(id, ()))]
    rows += [(reports.label(row), row["claims"].get(id, {}).get("away")) for row in machines]
    known = [(name, away) for name, away in rows if away is not None]
    return known if len(known) > 1 else []


def history(changes: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of the page "Changed checks", by claim: what was before, what is now, and why, in Markdown."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in re.findall(r"^\| ([A-D]\d.*) \|$", changes, re.MULTILINE):
        claims, *rest = (cell.strip() for cell in row.split(" | "))
        for id in re.findall(r"[A-D]\d+", claims):
            found.setdefault(id, []).append(dict(zip(("before", "now", "why"), rest, strict=False)))
    return found


def quoted(project: Project, known: Mapping[str, scoreboard.Standing], prose: str) -> str:
    """Prose with its quotes of claims replaced by what was found.

    - ``{claim}`A13```: the headline in one line.
    - ``{result}`D10 figure; quantity```: the verdict, the headline and further quantities, named by a part of
      their name, each beside its control; a figure of the chapter; how to cite it.
    - ``{found}`D10 quantity``` and ``{altered}`D10 quantity```: a value, or its range, and what the control
      makes of it; ``A33[1]`` takes one column.

    All of it comes from the run at paper size where that is kept, else from this build.

    Raises:
        BuildError: A claim, figure or quantity is named that is not there.
    """

    def found(named: re.Match[str]) -> scoreboard.Standing:
        if named["id"] not in known:
            raise BuildError(f"{named[0]}: no claim {named['id']} in book/claims.yml")
        return known[named["id"]]

    def number(named: re.Match[str]) -> str:
        record = _named(found(named), named["quantity"])
        value = record["computed"] if named["role"] == "found" else scoreboard.altered(record)
        if named["column"] and value is not None:
            value = np.asarray(value)[..., int(named["column"])]
        return scoreboard.ends(value, 2)

    id = r"(?P<id>[A-D]\d+)"
    prose = re.sub(rf"\{{claim\}}`{id}`", lambda named: _line(found(named)), prose)
    of = rf"\{{(?P<role>found|altered)\}}`{id}(?:\[(?P<column>\d)\])? (?P<quantity>[^`]+)`"
    prose = re.sub(of, number, prose)
    of = rf"^\{{result\}}`{id} (?P<parts>[^`]+)`$"
    return re.sub(of, lambda named: _result(project, found(named), named["parts"]), prose, flags=re.MULTILINE)


def _cited(project: Project, found: scoreboard.Standing) -> str:
    """What an entry of a bibliography says of a verdict: where it was found, by which run."""
    run = found.kept.stamp if found.kept else f"commit {project.commit or 'unknown'}"
    return f"{found.verdict} {found.place}, {run}"


def _line(found: scoreboard.Standing) -> str:
    """A claim's verdict and headline."""
    id = found.row.claim["id"]
    link = f"[{id}](claims/{id}.md) · {found.verdict} {found.place}"
    leading = next((record for record in found.records if record.get("headline")), None)
    if leading is None:
        return link
    sized = f" ({records.sizes(leading['size'])})" if leading.get("size") else ""
    return f"{link} · {formats.text(leading['quantity'])}{sized}: {records.headline(leading)}"


def _result(project: Project, found: scoreboard.Standing, parts: str) -> str:
    """A claim's verdict, quantities with controls, figure and citation."""
    figure, *more = map(str.strip, parts.split(";"))
    shown = [record for record in found.records if record.get("headline")]
    shown += [_named(found, part) for part in more]
    return render(
        "result.md",
        claim=found.row.claim,
        why=found.why,
        verdict=found.verdict,
        place=f"{found.place}, {found.kept.stamp}" if found.kept else found.place,
        shown=[_quantity(record) for record in shown],
        picture=_picture(project, found, figure),
        cited=_cited(project, found),
        repository=project.repository,
    )


def _named(found: scoreboard.Standing, part: str) -> dict[str, Any]:
    """The first of a claim's records with this in the name of its quantity."""
    named = [record for record in found.records if part in record["quantity"]]
    if not named:
        raise BuildError(f"{found.row.claim['id']} has no quantity {part!r} {found.place}")
    return named[0]


def _quantity(record: dict[str, Any]) -> dict[str, str]:
    """A record as a row: what was computed, what it is held against, and what the control gave."""
    control, expected = record["control"], record["expected"]
    spared = f", not asked of {', '.join(control['spared'])}" if control.get("spared") else ""
    return {
        "quantity": record["quantity"],
        # No line ends between |dx| and its ²
        "sizes": records.sizes(record["size"]).replace("|²", "|\u2060²") if record.get("size") else "",
        "mark": records.MARKS[records.state(record)],
        "found": scoreboard.span(record["computed"], record["uncertainty"]),
        "against": f"{record['source']} {scoreboard.span(expected)}" if expected is not None else "",
        "limit": record["predicate"],
        "control": f"{control['description']}: {scoreboard.span(scoreboard.altered(record))}{spared}",
    }


def _picture(project: Project, found: scoreboard.Standing, name: str) -> dict[str, Any]:
    """A figure of a claim's chapter: its file, seen from ``book/``, caption and sizes."""
    if found.kept:
        shown, folder = found.kept.figures, f"_static/paper/{found.row.chapter}"
    else:
        left = next((c for c in project.chapters if c.name == found.row.chapter and c.finished), None)
        shown = kept.published(left) if left else {}
        folder = f"../notebooks/figures/{found.row.chapter}"
    if name not in shown:
        raise BuildError(f"{{result}}`{found.row.claim['id']}`: {found.row.chapter} has no figure {name!r}")
    return shown[name] | {"path": f"{folder}/{shown[name]['file']}"}


def chapter_of(project: Project, id: str) -> str:
    """The chapter that judges a claim.

    Raises:
        BuildError: There is no such claim, or its chapter is not written.
    """
    chapters = {claim["id"]: claim["chapter"] for claim in project.told("book/claims.yml")}
    if id not in chapters:
        raise BuildError(f"ID must be a claim of book/claims.yml, {', '.join(chapters)}; got {id!r}")
    if chapters[id] not in project.names:
        raise BuildError(f"the chapter of {id}, {chapters[id]}, is not written")
    return chapters[id]
