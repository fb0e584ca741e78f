"""The ledger of seeds: how often each finding held, and how far it lay from theory, over reruns of chapters.

Where theory holds and errors are right, (found − expected)/error is a standard normal; numbers of a finding
that held at no seed, as of a claim that is refuted, are left out of it. `make seeds` reruns the chapters and
writes the ledger, ``book/seeds-<preset>.json``; a chapter that is not rerun keeps its rows.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from companion import records
from companion.formats import CHECK_TYPE
from companion.pipeline import manifest, scoreboard
from companion.pipeline.kept import left_behind
from companion.pipeline.project import BuildError, Project

BEYOND = 3.0  # standard errors; 0.27 % of a standard normal lie there


def verdicts(found: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Verdict of every claim that a chapter's records speak of."""
    claims: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        claims.setdefault(record["id"], []).append(record)
    return {id: scoreboard.Row({"id": id}, "", each, True).verdict for id, each in claims.items()}


def distances(record: dict[str, Any]) -> np.ndarray:
    """(found − expected)/error of every element that has an error; none where a record has no theory."""
    return _away(record) if "s.e." in record["predicate"] else np.empty(0)


def _away(record):
    if record["expected"] is None or record["uncertainty"] is None:
        return np.empty(0)
    found, expected, error = (np.asarray(record[k]) for k in ("computed", "expected", "uncertainty"))
    away, error = np.broadcast_arrays(found - expected, error)
    there = error > 0  # numbers without scatter are theory's own
    return away[there] / error[there]


def headline(found: Iterable[dict[str, Any]]) -> dict[str, float]:
    """By claim, how far the headline's worst element lies from theory, in standard errors."""
    worst = {}
    for record in found:
        if record.get("headline") and (away := _away(record)).size:
            worst[record["id"]] = round(float(away[np.abs(away).argmax()]), 2)
    return worst


def ledger(runs: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """What one chapter's findings came to over its runs, the seeds, from the records of each.

    Returns:
        ``claims``: how often each verdict came out, by claim; ``findings``: how often each held, by claim and
        quantity; ``distances``: of the numbers of findings that held at least once, their count, sum of
        squares and how many lie beyond 3; ``headlines``: by claim, the headline's distance from theory in
        every run, None where it has none.
    """
    claims: dict[str, Counter[str]] = {}
    findings: dict[str, Counter[str]] = {}
    for found in runs:
        for id, verdict in verdicts(found).items():
            claims.setdefault(id, Counter())[verdict] += 1
        for record in found:
            findings.setdefault(f"{record['id']} {record['quantity']}", Counter())[records.state(record)] += 1
    away = [
        distances(record)
        for found in runs
        for record in found
        if {"passed", "partly"} & findings[f"{record['id']} {record['quantity']}"].keys()
    ]
    far = np.concatenate(away) if away else np.empty(0)
    each = [headline(found) for found in runs]
    headlines = {id: [row.get(id) for row in each] for id in sorted({id for row in each for id in row})}
    beyond, squares = int(np.sum(np.abs(far) > BEYOND)), float(np.sum(far**2))
    return {
        "seeds": len(runs),
        "claims": {id: dict(counted) for id, counted in claims.items()},
        "findings": {name: dict(counted) for name, counted in findings.items()},
        "distances": {"count": far.size, "beyond": beyond, "squares": squares},
        "headlines": headlines,
    }


def path(project: Project) -> Path:
    """Where the ledger of this preset is kept."""
    return project.root / "book" / f"seeds-{project.preset}.json"


def read(project: Project) -> dict[str, Any]:
    """Ledger of this preset by chapter; empty where none is kept.

    Raises:
        BuildError: It is spoiled.
    """
    return _read(path(project))


def ledgers(project: Project) -> dict[str, dict[str, Any]]:
    """Ledgers of all presets that have one, this build's first, by preset.

    Raises:
        BuildError: One is spoiled.
    """
    found = sorted(
        path(project).parent.glob("seeds-*.json"), key=lambda kept: (kept != path(project), kept.name)
    )
    return {kept.stem.removeprefix("seeds-"): _read(kept) for kept in found}


def _read(kept):
    try:
        rows = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
        held({"this": rows}, ()), summary({"this": rows})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        advice = "restore it (git checkout), or delete it and run make seeds again"
        raise BuildError(
            f"book/{kept.name} is spoiled ({type(error).__name__}: {error}); {advice}"
        ) from error
    return rows


def keep(project: Project, name: str, notebooks: Iterable[Path]) -> dict[str, Any]:
    """Enter one chapter's runs; the other chapters' rows stay."""
    entered = ledger([left_behind(notebook, CHECK_TYPE) for notebook in notebooks])
    rows = read(project) | {name: entered}
    manifest.write_readable(path(project), dict(sorted(rows.items())))
    return entered


def held(ledgers: Mapping[str, dict[str, Any]], table: Iterable[scoreboard.Row]) -> dict[str, str]:
    """How often each verdict came out, as "reproduced 7, open 1 of 8 seeds at quick", by claim.

    Of a claim of the table that no paper has published a verdict "holds".
    """
    claims = {row.claim["id"]: row.claim for row in table}
    said: dict[str, list[str]] = {}
    for preset, rows in ledgers.items():
        for row in rows.values():
            for id, counted in row["claims"].items():
                seeds = "" if id in said else " seeds"
                named = ", ".join(
                    f"{scoreboard.said(claims.get(id, {}), verdict)} {counted[verdict]}"
                    for verdict in sorted(counted, key=scoreboard.VERDICTS.index)
                )
                said.setdefault(id, []).append(f"{named} of {sum(counted.values())}{seeds} at {preset}")
    return {id: "; ".join(each) for id, each in said.items()}


def summary(ledgers: Mapping[str, dict[str, Any]]) -> str:
    """The ledgers of all presets, a sentence each; nothing where they are empty."""
    return " ".join(filter(None, (_summary(preset, rows) for preset, rows in ledgers.items())))


def _summary(preset, rows):
    total = {
        key: sum(row["distances"][key] for row in rows.values()) for key in ("count", "beyond", "squares")
    }
    same = sum(max(c.values()) for row in rows.values() for c in row["claims"].values())
    cases = sum(sum(c.values()) for row in rows.values() for c in row["claims"].values())
    if not cases or not total["count"]:
        return ""
    spread, beyond = (total["squares"] / total["count"]) ** 0.5, total["beyond"] / total["count"]
    return (
        f"Over seeds at preset {preset} {same / cases:.1%} of {cases} verdicts are the same; (found − "
        f"expected)/error over the {total['count']} numbers of findings that held at least once, with limits "
        f"in standard errors, has a root mean square of {spread:.2f}, and {beyond:.2%} lie beyond {BEYOND:g} "
        "(a standard normal: 1 and 0.27 %)."
    )
