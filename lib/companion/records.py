"""Records of findings: what is kept of each, shown under its cell, and read by the scoreboard.

A record is a dict that JSON takes. `companion.findings.Finding.judge` makes it; its fields are listed there.
"""

import html
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from coding_schemes import paths
from IPython.display import display

from companion import formats

State = Literal["passed", "partly", "open", "failed"]
MARKS: dict[State, str] = {"passed": "✓", "partly": "◐", "open": "○", "failed": "✗"}
HIDDEN = 5.0  # standard errors that a limit of another unit may hide, and still count as whole
#: Places of a paper that are no panel.
PROSE = ("text", "Methods", "Results", "Discussion", "supplement")
_ITEM = r"\b(?:\d+(?:[a-zA-Z](?:[–-][a-zA-Z])?)?|[a-zA-Z](?:[–-][a-zA-Z])?)\b"
_CITATION = re.compile(rf"[Pp]aper (A[′']|[ABC]), [Ff]igs?\.? ({_ITEM}(?:(?:, and |, | and ){_ITEM})*)")
_COUNTED = re.compile(r"[a-z ]{3,}")  # what there is a number of; other names are symbols
_PLACE = re.compile(r"(\d*)(?:([a-z])(?:[–-]([a-z]))?)?")
_LINE_HOLDS = 3  # longer lists are given by their worst element, the rest unfolds


def state(record: dict[str, Any]) -> State:
    """Whether a finding holds, holds in part, is open because something is missing, or fails."""
    if record["lacking"]:
        return "open"
    if missing(record):
        return "open" if record["passed"] or record["computed"] is None else "failed"
    if not record["passed"]:
        return "failed"
    return "partly" if (record["apart"] or 0) > HIDDEN else "passed"


def missing(record: dict[str, Any]) -> str:
    """What a record lacks to count, in a few words; nothing where it lacks nothing."""
    if record["lacking"]:
        return "it needs larger sizes"
    if record["computed"] is None:
        return "it cannot be computed at these sizes"
    if record["control"] and record["control"]["passed"]:
        return "its control did not fail"
    return "equilibrium not shown" if sampler_state(record) == "not shown" else ""


def sampler_state(record: dict[str, Any]) -> str:
    """Chains from two starts have "met", or "each" start passes by itself, or equilibrium is "not shown"."""
    return (record["sampler"] or {"state": "met"})["state"]


def why(record: dict[str, Any]) -> str:
    """One plain sentence why a finding does not hold as a whole; nothing where it does."""
    found = state(record)
    if found == "passed":
        return ""
    if found == "failed":
        return record["because"] or "No reason is known: with these settings and this seed nobody has looked."
    if found == "partly":
        away = f"{formats.number(record['apart'], 2)} standard errors away"
        apart = f"The value lies {away}, though {record['predicate']}"
        return f"{apart}: {record['because']}" if record["because"] else f"{apart}."
    lacks = missing(record)
    if record["lacking"]:
        return record["lacking"]
    if lacks == "equilibrium not shown":
        return f"Equilibrium is not shown: {record['sampler']['verdict'].removeprefix(f'{lacks}: ')}"
    if lacks == "its control did not fail":
        control = record["control"]["description"]
        return f"Its control did not fail ({control}), so that it cannot tell right from wrong."
    return f"{lacks[0].upper()}{lacks[1:]}."


def emit(record: dict[str, Any]) -> None:
    """Show a record under the cell and leave it there for the scoreboard."""
    shown = "; ".join(f"{name} {value}" for name, value in details(record))
    plain = f"{MARKS[state(record)]} {record['id']} {record['quantity']}: {shown}"
    display({"text/plain": plain, "text/html": _line(record), formats.CHECK_TYPE: record}, raw=True)


def details(record: dict[str, Any]) -> list[tuple[str, str]]:
    """All that a record says, as pairs of a name and a plain text."""
    computed = record["computed"]
    rows = [("computed", "nothing" if computed is None else formats.values(computed, record["uncertainty"]))]
    if record["expected"] is not None:
        rows.append((record["source"], formats.values(record["expected"])))
    rows.append(("asked for", record["predicate"]))
    if control := record["control"]:
        rows.append(("control", _control(control, record["source"])))
    is_reason = state(record) == "open" and missing(record) == "equilibrium not shown"
    if (sampler := record["sampler"]) and not is_reason:
        each = "each start by itself passes, the two do not meet: " * (sampler_state(record) == "each")
        rows.append(("sampler", each + (sampler["verdict"] or "equilibrium shown")))
    if record["size"]:
        rows.append(("sizes", sizes(record["size"])))
    rows += [(name, record[name]) for name in ("stored", "note") if record[name]]
    return rows


def _control(control: dict[str, Any], source: str) -> str:
    if control["computed"] is None:
        return f"{control['description']}: cannot be computed at these sizes"
    value = formats.values(control["computed"], control["uncertainty"])
    if control["expected"] is not None:
        value += f", {source} {formats.values(control['expected'])}"
    fate = "does not fail, though it should" if control["passed"] else "fails as it should"
    if spared := control["spared"]:
        fate += f" (not asked of {', '.join(spared)}: {control['because']})"
    return f"{control['description']}: {value}, {fate}"


def details_html(record: dict[str, Any]) -> str:
    """`details` as the body of an unfolding element, the reason of a finding that does not hold first."""
    items = "".join(
        f"<dt>{formats.text(name)}</dt><dd>{formats.text(value)}</dd>" for name, value in details(record)
    )
    reason = f'<p class="check-reason">{formats.text(why(record))}</p>' if why(record) else ""
    return f"{reason}<dl>{items}</dl>"


def headline(record: dict[str, Any]) -> str:
    """The value as one line holds it: of many elements, the one closest to failing."""
    shown, expected, error = record["computed"], record["expected"], record["uncertainty"]
    lead = ""
    worst = record["worst"]
    if worst and isinstance(shown, list) and np.size(np.asarray(shown, dtype=object)) > _LINE_HOLDS:
        shown, expected, error = worst["computed"], worst["expected"], worst["uncertainty"]
        lead = f"worst of {worst['of']}: "
    line = lead + ("" if shown is None else f"<b>{formats.text(formats.values(shown, error))}</b>")
    if expected is not None:
        line += f" … {formats.text(record['source'])} {formats.text(formats.values(expected))}"
    return line


def sizes(size: dict[str, Any]) -> str:
    """Sizes as a caption says them: "N = P = 60, T = 0.01, 16 networks".

    >>> sizes({"N": 60, "P": 60, "T": 0.01, "networks": 16})
    'N = P = 60, T = 0.01, 16 networks'
    """
    parts: dict[str, list[str]] = {}
    for name, value in size.items():
        listed = value if isinstance(value, list | tuple) else [value]
        listed = listed[:1] if len({*listed}) == 1 else listed
        said = ", ".join(one if isinstance(one, str) else formats.number(one) for one in listed)
        if _COUNTED.fullmatch(name):
            one = said == "1" and name.endswith("s") and not name.endswith("ses")
            parts[f"{said} {name[:-1] if one else name}"] = []
        else:
            parts.setdefault(said, []).append(name)
    return ", ".join(" = ".join([*names, said]) for said, names in parts.items())


def known() -> dict[str, dict[str, Any]] | None:
    """The rows of ``book/claims.yml`` by claim id; None outside the book's repository."""
    return _listed("claims.yml", "id")


def panels() -> dict[str, dict[str, Any]] | None:
    """The rows of ``book/panels.yml`` by panel, as "A 2a"; None outside the book's repository."""
    return _listed("panels.yml", "panel")


def cited(caption: str) -> set[str]:
    """Panels that a caption names.

    >>> sorted(cited("Flat. Paper A, Figs 2a and 3d–f; paper C, Fig. 9."))
    ['A 2a', 'A 3d', 'A 3e', 'A 3f', 'C 9']
    """
    found: set[str] = set()
    for paper, listed in _CITATION.findall(" ".join(caption.split())):
        number, paper = "", paper.replace("'", "′")
        for item in re.findall(_ITEM, listed):
            digits, first, last = _PLACE.fullmatch(item.lower()).groups()  # type: ignore[union-attr]
            number = digits or number
            letters = map(chr, range(ord(first), ord(last or first) + 1)) if first else ("",)
            found.update(f"{paper} {number}{letter}" for letter in letters)
    return found


def placed(panel: str) -> list[str]:
    """Panels, as ``book/panels.yml`` names them, that a finding's `panel` names.

    >>> placed("Paper A, Figs 2b and 4a; paper A, text")
    ['A 2b', 'A 4a']

    Raises:
        ValueError: one of them is no panel of that paper.
    """
    found: list[str] = []
    for part in filter(None, map(str.strip, panel.split(";"))):
        named = sorted(cited(part))
        paper, _, place = part.removeprefix("Paper ").removeprefix("paper ").partition(", ")
        found += named or [f"{paper} {place}"] * (not place.startswith(PROSE) or "," in place)
    listed = panels()
    # a figure may be named as a whole: all of its panels
    whole = {re.sub(r"(\d)[a-z]$", r"\1", name) for name in listed or ()}
    if listed is not None and not whole.union(listed).issuperset(found):
        raise ValueError(f"panel must be one of book/panels.yml, such as 'Paper A, Fig. 4a'; got {panel!r}")
    return found


def _listed(name: str, key: str) -> dict[str, dict[str, Any]] | None:
    root = paths.repository_root()
    path = None if root is None else root / "book" / name
    return _rows(path, key) if path is not None and path.is_file() else None


@cache
def _rows(path: Path, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in yaml.safe_load(path.read_text(encoding="utf-8"))}


def _line(record: dict[str, Any]) -> str:
    found, id = state(record), html.escape(record["id"])
    claim = f"<b>{id}</b>"
    if os.environ.get("CODING_SCHEMES_CHAPTER"):  # a page of the book, beside the scoreboard
        claim = f'<a href="../book/scoreboard.html#claim-{id.lower()}">{id}</a>'
    parts = [headline(record), formats.text(record["predicate"])]
    parts += ["stored result"] * bool(record["stored"]) + [missing(record)] * (found == "open")
    shown = " · ".join(filter(None, parts))
    return (
        f'<div class="check-line">{claim}'
        f'<details class="check check-{found}"{" open" * (found == "failed")}><summary>'
        f'<span class="check-mark" title="{found}">{MARKS[found]}</span> '
        f"{formats.text(record['quantity'])}: {shown}</summary>{details_html(record)}</details></div>"
    )
