"""The scoreboard: every claim of the list, with what the executed chapters of this build computed for it."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from companion import formats, records
from companion.formats import CHECK_TYPE
from companion.pipeline import kept, manifest, sections
from companion.pipeline.project import BuildError, Project
from companion.pipeline.rendering import render

SCHEMA = 1  # of scoreboard.json and figures.json; another where a field changes its meaning or goes
VERDICTS = ("reproduced", "in part", "refuted", "open", "not run")
HOLDS = "holds"  # how pages say "reproduced" of a claim that is in no paper
SAID = (VERDICTS[0], HOLDS, *VERDICTS[1:])  # verdicts as pages say them, in their order
_GROUPS = {
    "A": "Coding schemes",
    "B": "Adaptive kernels",
    "C": "Universality of two-point dynamics",
    "D": "What none of the papers has",
}


class Row(NamedTuple):
    """One claim with its records.

    Attributes:
        claim: Its row of ``book/claims.yml``.
        chapter: Chapter that recorded it, or that will.
        records: What was recorded, one dict per quantity.
        written: Whether the chapter exists.
    """

    claim: dict[str, Any]
    chapter: str
    records: list[dict[str, Any]]
    written: bool

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`: the headline decides, other findings can only lower it to "in part"."""
        if not self.records:
            return "not run"
        states = [records.state(record) for record in self.records]
        leading = [records.state(record) for record in self.records if record.get("headline")] or states
        for decisive, verdict in (("failed", "refuted"), ("open", "open")):
            if set(leading) == {decisive}:
                return verdict
        return "reproduced" if set(states) == {"passed"} else "in part"

    @property
    def said(self) -> str:
        """The verdict in the words that pages show."""
        return said(self.claim, self.verdict)

    @property
    def why(self) -> str:
        """One plain sentence why the verdict is not "reproduced", and how many checks fail.

        Of the headline where it fails or is open; else of a check that fails, before one that is open and one
        whose limit is wide.
        """
        if not self.records:
            needs = "It needs the preset full." if self.claim.get("needs") == "full" else ""
            return needs or ("" if self.written else "Its chapter is not written.")
        decided = self.verdict in ("refuted", "open")
        order: list[records.State] = ["failed", "open", "partly", "passed"]

        def rank(record: dict[str, Any]) -> tuple[bool, int, bool]:
            leads = bool(record.get("headline"))
            return not (decided and leads), order.index(records.state(record)), not leads

        first = min(self.records, key=rank)
        count, reason = sum(records.state(record) == "failed" for record in self.records), records.why(first)
        if not count or len(self.records) == 1:
            return reason
        fail = f"{count} of {len(self.records)} checks {'fails' if count == 1 else 'fail'}"
        if records.state(first) != "failed":
            return f"{reason.rstrip('.')}; {fail}"
        return f"{fail}: {reason}" if first.get("headline") else f"{fail} ({first['quantity']}): {reason}"


def said(claim: Mapping[str, Any], verdict: str) -> str:
    """A verdict in words: what no paper has published cannot be reproduced, it "holds"."""
    return HOLDS if verdict == "reproduced" and not claim.get("published") else verdict


class Standing(NamedTuple):
    """What is known of a claim where it is quoted: the run at paper size where that is kept, else this build.

    Attributes:
        row: The claim with this build's records.
        records: Of the run that is quoted.
        verdict: Its verdict in words.
        place: "at paper size" or "in this build".
        kept: What is kept of that run, if it is not this build's.
    """

    row: Row
    records: list[dict[str, Any]]
    verdict: str
    place: str
    kept: kept.Kept | None

    @property
    def why(self) -> str:
        """One plain sentence why it is not "reproduced"."""
        return self.row._replace(records=self.records).why


def standings(project: Project, table: Iterable[Row]) -> dict[str, Standing]:
    """Where every claim stands, by its name."""
    left = kept.beside(project)
    at_paper = recorded_verdicts(Project(project.root, "paper"))
    found = {}
    for row in table:
        id, run = row.claim["id"], left.get(row.chapter)
        own = [record for record in run.records if record["id"] == id] if run else []
        if own:
            verdict = said(row.claim, at_paper.get(id, row.verdict))
            found[id] = Standing(row, own, verdict, "at paper size", run)
        else:
            found[id] = Standing(row, row.records, row.said, "in this build", None)
    return found


def together(verdicts: Collection[str]) -> str:
    """What is said of several verdicts at once: theirs if it is one, else "in part" if any speaks for it.

    >>> together(["reproduced", "open"]), together(["open", "open"]), together(["open", "refuted"])
    ('in part', 'open', 'refuted')
    """
    if len(different := set(verdicts)) == 1:
        return different.pop()
    return "in part" if different & {"reproduced", HOLDS, "in part"} else min(different, key=VERDICTS.index)


def rows(project: Project) -> list[Row]:
    """Every claim of the list, with the records of the executed chapters of this build.

    Raises:
        BuildError: If a chapter records a claim that is not in the list, none of a claim's records has a
            control, or its findings have not exactly one headline.
    """
    claims = project.told("book/claims.yml", [])
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for chapter in project.chapters:
        for record in kept.left_behind(chapter.notebook, CHECK_TYPE) if chapter.finished else ():
            found.setdefault(record["id"], []).append((chapter.name, record))
    unknown = sorted(set(found) - {claim["id"] for claim in claims})
    if unknown:
        raise BuildError(f"claims {', '.join(unknown)} are recorded but not in book/claims.yml")
    result = []
    for claim in claims:
        records = found.get(claim["id"], [])
        if records and not any(record["control"] for _, record in records):
            raise BuildError(f"claim {claim['id']} ({records[0][0]}) has no control: a check shown failing")
        leading = [record["quantity"] for _, record in records if record.get("headline")]
        if any(record.get("size") for _, record in records) and len(leading) != 1:
            raise BuildError(
                f"claim {claim['id']} needs one finding as its headline; has {leading or 'none'}"
            )
        name = records[0][0] if records else claim["chapter"]
        result.append(Row(claim, name, [record for _, record in records], name in project.names))
    return result


def recorded_verdicts(project: Project) -> dict[str, str]:
    """Verdicts on record for this preset, by claim; "not run" is not kept."""
    recorded = project.told("book/verdicts.yml", {}) or {}
    return recorded.get(project.preset) or {}


def export(project: Project, table: Iterable[Row], path: Path) -> None:
    """Write the scoreboard as JSON: every claim, this build's verdict and records, and where it stands."""
    told = ("chapter", "verdict", "why", "records")
    claims = [
        one.row.claim
        | {name: getattr(one.row, name) for name in told}
        | {"stands": {"verdict": one.verdict, "place": one.place, "why": one.why}}
        for one in standings(project, table).values()
    ]
    manifest.write_readable(path, about(project, path.stem) | {"claims": claims})


def about(project: Project, name: str) -> dict[str, Any]:
    """How a JSON file of the pages begins: its JSON Schema, a file beside it, preset, commit, date."""
    made = {"preset": project.preset, "commit": project.commit, "date": project.commit_date}
    return {"$schema": f"{name}.schema.json", "schema": SCHEMA} | made


def link_history(history: str) -> tuple[str, set[str]]:
    """The page "Changed checks" with its claims linked to the scoreboard, and the claims that are on it.

    Claims stand in the first cell of a row; where one occurs first it gets the anchor that `page` links to.
    """
    seen: set[str] = set()

    def linked(found: re.Match[str]) -> str:
        id = found[0]
        here = "" if id in seen else f' id="changed-{id.lower()}"'
        seen.add(id)
        return f'<a{here} href="scoreboard.html#claim-{id.lower()}">{id}</a>'

    row = re.compile(r"^\| [A-D]\d[^|]*", re.MULTILINE)
    return row.sub(lambda cell: re.sub(r"[A-D]\d+", linked, cell[0]), history), seen


def page(
    table: Collection[Standing],
    preset: str,
    changed: Collection[str] = (),
    held: Mapping[str, str] | None = None,
    ledger: str = "",
    panels: Mapping[str, Collection[str]] | None = None,
) -> str:
    """The scoreboard, as the Markdown that ``book/scoreboard.md`` includes.

    Args:
        table: Where every claim stands.
        preset: Of this build.
        changed: Claims whose rows link to the page "Changed checks".
        held: Over how many seeds the verdict came out, by claim.
        ledger: What the ledger of seeds says of all claims.
        panels: The papers' figures that a claim belongs to, by claim.
    """
    counts = Counter(one.verdict for one in table)
    groups = [
        (letter, title, [one for one in table if one.row.claim["id"].startswith(letter)])
        for letter, title in _GROUPS.items()
    ]
    return render(
        "scoreboard.md",
        preset=preset,
        table=table,
        counts={verdict: counts[verdict] for verdict in SAID},
        groups=[group for group in groups if group[-1]],
        changed=changed,
        held=held or {},
        ledger=ledger,
        panels=panels or {},
        anchor=sections.anchor,
        difference=difference,
        notes=notes,
        beside=beside,
        records=records,
        places=sorted({one.place for one in table}),
    )


def difference(row: Row) -> float | None:
    """The largest distance between found and expected, in standard errors, over the checks that have both."""
    return max((record["apart"] for record in row.records if record["apart"] is not None), default=None)


def notes(record: dict[str, Any]) -> str:
    """What a page says beside a check that does not hold as a whole."""
    found = records.state(record)
    said = ["stored result"] * bool(record["stored"]) + [records.missing(record)] * (found == "open")
    return "; ".join(filter(None, said + [record["because"]] * (found in ("partly", "failed"))))


def altered(record: dict[str, Any]) -> Any:
    """What the control of a record altered: the theory, or else what was sampled."""
    control = record["control"]
    of_theory = control["computed"] == record["computed"] and control["expected"] is not None
    return control["expected" if of_theory else "computed"]


def span(value: Any, error: Any = None) -> str:
    """A value as a table's cell holds it: of more than three numbers, the least and the largest.

    >>> span([0.18, 1.39, 0.5, 0.2])
    '0.18 to 1.39'
    """
    if value is None:
        return "nothing"
    flat = np.ravel(np.asarray(value))
    if flat.size <= 3 or flat.dtype.kind == "U":
        return formats.values(value, error)
    return ends(value, 3)


def ends(value: Any, digits: int) -> str:
    """The least and the largest of some numbers."""
    if value is None:
        return "nothing"
    ends = [formats.number(float(f"{end:.{digits}g}")) for end in (np.min(value), np.max(value))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def beside(record: dict[str, Any]) -> str:
    """What the control gave, which is the scale of what was found; nothing where it has no number."""
    control = record["control"]
    return "" if not control or altered(record) is None else f"control {span(altered(record))}"
