"""What is on record, and a build is held to: every verdict, and every number that a chapter finds.

`make accept-verdicts` puts both there, after a look: ``book/verdicts.yml``, and the numbers in
``book/numbers-quick.json``; at the preset paper these are the kept runs'.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import special

from companion import formats, predicates, records
from companion.formats import CHECK_TYPE
from companion.pipeline import kept
from companion.pipeline.project import BuildError, Project
from companion.pipeline.scoreboard import Row, recorded_verdicts, rows

_NUMBERS = ("computed", "expected", "uncertainty")
_CHANCE = 1e-6  # of a number of the same law farther from the one on record
_ROUNDING = 1e-6  # relative
_NEAR = 0.25  # of the way to its control, for a number without an error


def check(project: Project, table: Iterable[Row]) -> None:
    """Refuse a build whose verdicts or numbers are not the ones on record.

    A chapter with no verdict on record at this preset, such as one of the reader's own, is not held to any.

    Raises:
        BuildError: If one differs; names each with what it was and is. Or if a control did not fail, though
            its check passes, or a check failed without a reason: readers' own runs may end so, the book on
            record not.
    """
    table = list(table)
    recorded, numbers = recorded_verdicts(project), _recorded_numbers(project)
    own = {row.chapter for row in table} - {row.chapter for row in table if row.claim["id"] in recorded}
    held = [row for row in table if row.chapter not in own]
    faults = {
        "controls that did not fail, so that their checks show nothing": _each(
            # a check that fails has shown that it can
            table,
            lambda it: it["passed"] and it["control"] and it["control"]["passed"] and not it["lacking"],
        ),
        "checks that fail, without a reason (because=…)": _each(
            table, lambda it: not it["passed"] and not it["because"].strip()
        ),
    }
    differ = {
        f"verdicts differ from book/verdicts.yml (preset {project.preset})": _turned(held, recorded),
        f"numbers differ from those on record (preset {project.preset})": [
            f"  {row.claim['id']} ({row.chapter}) {line}"
            for row in held
            if row.chapter in numbers
            for line in moved(
                [record for record in numbers[row.chapter] if record["id"] == row.claim["id"]], row.records
            )
        ],
    }
    told = ["\n".join([f"{fault}:", *lines]) for fault, lines in (faults | differ).items() if lines]
    if any(differ.values()):
        told.append(f"If that is right, record it: make accept-verdicts PRESET={project.preset}")
    if told:
        raise BuildError("\n".join(told))


def _each(table, has):
    return [
        f"  {row.claim['id']} ({row.chapter}) {record['quantity']}"
        for row in table
        for record in row.records
        if has(record)
    ]


def _turned(held: Iterable[Row], recorded: Mapping[str, str]) -> list[str]:
    """Claims whose verdict differs from the one on record, with both.

    Long trajectories are chaotic and end elsewhere on another processor, so that whether a sampler shows
    equilibrium may differ by machine, and of many statistical checks one may miss its limit by chance. Where
    no check fails by more (`_by_chance`), a change from or to "reproduced" is said, and let pass.
    """
    changed: list[str] = []
    shown: list[str] = []
    for row in held:
        before = recorded.get(row.claim["id"], "not run")
        if row.verdict == before:
            continue
        failed = [record for record in row.records if records.state(record) == "failed"]
        lets_pass = before in ("reproduced", "in part", "open") and all(map(_by_chance, failed))
        message = f"  {row.claim['id']} ({row.chapter}): {before} on record, now {row.verdict}"
        (shown if lets_pass else changed).append(message)
    if shown:
        title = "Verdicts that differ by whether equilibrium is shown, or by chance:"
        print(title, *shown, sep="\n", file=sys.stderr)
    return changed


def _by_chance(record: dict[str, Any]) -> bool:
    """Whether a check that failed may have done so by chance: within 5 standard errors, or p > 1e-5.

    Among the book's hundred checks within three standard errors, or at a level of a per cent, one or two
    fail on a processor whose chaotic trajectories end elsewhere. As those within three may be two further
    off, so may those within some per cent.
    """
    kinds = r"within \S+ s\.e\.(?: or within (\S+) %)?|within (?P<alone>\S+) %|p > \S+"
    found = re.fullmatch(kinds, record["predicate"])
    if not found:
        return False
    values = [record[name] for name in _NUMBERS]
    if found["alone"]:
        computed, expected, error = (np.asarray(value, float) for value in values)
        beyond = np.abs(computed - expected) - float(found["alone"]) / 100 * np.abs(expected)
        return bool(np.all(beyond <= 2 * error))
    wide = predicates.p_value(1e-5) if record["predicate"].startswith("p") else predicates.standard_errors(5)
    if found[1]:
        wide |= predicates.relative(float(found[1]) / 100)
    return wide(*values)


def moved(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> list[str]:
    """What differs between the findings on record and those of a build, in words.

    What is computed without chance is the same up to rounding. Chains end elsewhere on another processor: so
    a number may lie as far from its record as one of the same law does once in 10⁶ cases, by Student's t of
    as many networks. Theory that stands beside them may itself be sampled, or be that of sampled networks: it
    may move one and a half errors. A number without an error may go a quarter of the way to its control or
    its limit. P-values, texts, and what else chains give without an error are not held: their own limits
    judge them.
    """
    found, there = ({record["quantity"]: record for record in side} for side in (before, now))
    lines = [f"{name}: on record, not found" for name in found.keys() - there.keys()]
    lines += [f"{name}: found, not on record" for name in there.keys() - found.keys()]
    for name in found.keys() & there.keys():
        one, other = found[name], there[name]
        sides = {name: (one, other)}
        if one["control"] and other["control"]:
            sides[f"control of {name}"] = one["control"], other["control"]
        for what, pair in sides.items():
            if not all(_near(number, *pair, one) for number in ("computed", "expected")):
                lines.append(f"{what}: {' on record, now '.join(map(_shown, pair))}")
    return sorted(lines)


def _near(number: str, a: Mapping[str, Any], b: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether a number of a finding, or of its control, is still the one on record (`moved`)."""
    if a[number] is None or b[number] is None:
        return a[number] is b[number]
    x, y = np.asarray(a[number]), np.asarray(b[number])
    if "U" in (x.dtype.kind, y.dtype.kind):
        return True
    may = np.maximum(_may_move(number, a, b, record), _ROUNDING * np.abs(x))
    return x.shape == y.shape and not np.any(np.abs(x - y) > may)


def _may_move(number: str, a: Mapping[str, Any], b: Mapping[str, Any], record: Mapping[str, Any]) -> Any:
    errors = [side["uncertainty"] for side in (a, b)]
    if None not in errors:
        if number == "computed":
            return _apart(record) * np.hypot(*errors)
        # the theory of a control may be that of another element
        return 1.5 * (np.asarray(errors[0]) if a is record else np.max(errors[0]))
    if record["sampler"] is not None or record["predicate"].startswith("p "):
        return np.inf
    if number == "expected":
        return 0.0
    control = record["control"] and record["control"]["computed"]
    if a is not record or control is None:
        return np.inf
    limit = re.fullmatch(r"[<>] ([\d.]+)", record["predicate"])
    ends = [control, a[number] if limit is None else float(limit[1])]
    return _NEAR * np.max([np.abs(np.subtract(end, a[number])) for end in ends], axis=0)


def _apart(record: Mapping[str, Any]) -> float:
    """How many standard errors of their difference two numbers of the same law lie apart by chance."""
    networks = np.asarray(record["size"].get("networks", np.inf))
    fewest = networks.min() if networks.dtype.kind in "iuf" else np.inf
    return float(-special.stdtrit(2 * max(fewest - 1, 1), _CHANCE / 2))  # stats.t takes a second to load


def _shown(side: Mapping[str, Any]) -> str:
    if side["computed"] is None:
        return "nothing"
    theory = "" if side["expected"] is None else f" (theory {formats.values(side['expected'])})"
    return formats.values(side["computed"], side["uncertainty"]) + theory


def accept(project: Project) -> Path:
    """Put the executed chapters' verdicts and numbers on record, ``book/verdicts.yml``, and return that.

    Others, and other presets, stay. At the preset paper what the chapters left is kept (`kept.keep`), for
    builds at other presets.
    """
    path = project.root / "book" / "verdicts.yml"
    recorded = project.told("book/verdicts.yml", {}) or {}
    before = recorded.get(project.preset) or {}
    executed = {chapter.name: chapter for chapter in project.chapters if chapter.finished}
    found = {
        row.claim["id"]: row.verdict if row.chapter in executed else before.get(row.claim["id"], "not run")
        for row in rows(project)
    }
    recorded[project.preset] = {id: verdict for id, verdict in found.items() if verdict != "not run"}
    head = (
        "# The scoreboard's verdicts on record, by preset; a build that finds others fails.\n"
        "# Written by `make accept-verdicts`, after a look at what changed.\n"
    )
    path.write_text(head + yaml.safe_dump(recorded, sort_keys=False, allow_unicode=True), encoding="utf-8")
    if project.preset == "paper":
        for chapter in executed.values():
            kept.keep(project, chapter)
    else:
        numbers = _recorded_numbers(project) | {
            name: list(map(_held, kept.left_behind(chapter.notebook, CHECK_TYPE)))
            for name, chapter in executed.items()
        }
        _write_numbers(_numbers_file(project), numbers)
    return path


def _held(record: dict[str, Any]) -> dict[str, Any]:
    """What is put on record of a finding: its numbers and its control's, with nine digits."""
    told: dict[str, Any] = {key: record[key] for key in ("id", "quantity", "predicate")}
    told |= {key: _rounded(record[key]) for key in _NUMBERS}
    told["control"] = record["control"] and {key: _rounded(record["control"][key]) for key in _NUMBERS}
    told["size"] = {key: value for key, value in record["size"].items() if key == "networks"}
    return told | {"sampler": record["sampler"] and record["sampler"]["state"]}


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_rounded, value))
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _numbers_file(project: Project) -> Path:
    return project.root / "book" / f"numbers-{project.preset}.json"


def _recorded_numbers(project: Project) -> dict[str, list[dict[str, Any]]]:
    """Findings on record at this preset, by chapter."""
    if project.preset == "paper":
        return {name: run.records for name, run in kept.read(project).items()}
    path = _numbers_file(project)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _write_numbers(path: Path, numbers: Mapping[str, Iterable[dict[str, Any]]]) -> None:
    """A line for each finding, so that a change of one is a change of a line."""
    chapters = (
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in found) + "\n]"
        for name, found in sorted(numbers.items())
    )
    path.write_text("{\n" + ",\n".join(chapters) + "\n}\n", encoding="utf-8")
