"""What a reviewer sends of a rerun: the machine, versions, times, and differences to the record.

`write` leaves it as Markdown, to be pasted, and as JSON, which `enter` takes into the ledger of machines,
``book/machines.json``: a row for each machine, Python, JAX and preset.
"""

import json
import os
import platform
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from companion.pipeline import difference, kept, manifest, scoreboard, seeds
from companion.pipeline.progress import cost, duration
from companion.pipeline.project import BuildError, Project
from companion.pipeline.rendering import render

_PACKAGES = ("jax", "jaxlib", "blackjax", "numpy", "scipy", "matplotlib", "jupyter-book", "snakemake")


def machine() -> dict[str, str]:
    """What this machine is, in the words of its system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    info = Path("/proc/cpuinfo")
    told = info.read_text().splitlines() if info.is_file() else []
    models = [line for line in told if "model name" in line]
    return {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": models[0].partition(":")[2].strip() if models else platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
    }


def write(project: Project) -> Path:
    """Leave ``report.md`` and ``report.json`` in the build's folder; returns the first.

    Verdicts are held against ``book/verdicts.yml``, at the preset paper every number against the kept one.

    Raises:
        BuildError: no chapter has run from the present sources.
    """
    done = [chapter for chapter in project.chapters if chapter.finished]
    if not done:
        raise BuildError(f"no chapter has run from these sources; run make book PRESET={project.preset}")
    recorded = scoreboard.recorded_verdicts(project)
    table = [row for row in scoreboard.rows(project) if row.records]
    at_paper = kept.read(project) if project.preset == "paper" else {}
    found = None
    if at_paper:
        before = [record for chapter in at_paper.values() for record in chapter.records]
        now = [record for row in table for record in row.records]
        ran = {record["id"] for record in now}
        before = [record for record in before if record["id"] in ran]
        found = difference.compare(difference.Build({"": before}, {}), difference.Build({"": now}, {}))
    times = {chapter.name: cost(project.build, chapter.name) for chapter in done}
    versions = {"Python": platform.python_version()} | {name: metadata.version(name) for name in _PACKAGES}
    here = machine()
    text = render(
        "report.md",
        preset=project.preset,
        commit=project.commit,
        machine=here,
        versions=versions,
        times={name: duration(took.seconds) if took else "taken over" for name, took in times.items()},
        waiting=[chapter.name for chapter in project.chapters if chapter not in done],
        claims=len(table),
        recorded=sum(row.claim["id"] in recorded for row in table),
        turned=[
            f"{row.claim['id']}: {recorded[row.claim['id']]} on record, {row.verdict} here"
            for row in table
            if recorded.get(row.claim["id"], row.verdict) != row.verdict
        ],
        found=found,
        limit=difference.MOVED,
    )
    path = project.build / "report.md"
    path.write_text(text, encoding="utf-8")
    away = seeds.headline(record for row in table for record in row.records)
    row = {
        "preset": project.preset,
        "commit": project.commit,
        "date": date.today().isoformat(),
        "machine": here,
        "versions": versions,
        "seconds": {name: round(took.seconds) for name, took in times.items() if took},
        "claims": {
            row.claim["id"]: {"verdict": row.verdict, "away": away.get(row.claim["id"])} for row in table
        },
    }
    manifest.write(path.with_suffix(".json"), row, indent=1)
    return path


_FORM: dict[str, type] = {"preset": str, "commit": str, "date": str}
_FORM |= {"machine": dict, "versions": dict, "seconds": dict, "claims": dict}


def enter(project: Project, report: Path) -> Path:
    """Take a report into the ledger of machines, in the place of an older one of its kind; returns that.

    Raises:
        BuildError: it is no report, or speaks of claims that the book does not have.
    """
    try:
        row = json.loads(report.read_text(encoding="utf-8"))
        problem = _problem(row, _known(project))
    except (OSError, ValueError) as error:
        problem = str(error)
    if problem:
        raise BuildError(f"FROM must be a report.json of make report; got {report}: {problem}")
    others = [other for other in read(project) if _who(other) != _who(row)]
    path = project.root / "book" / "machines.json"
    manifest.write(path, sorted([*others, row], key=_who), indent=1)
    return path


def read(project: Project) -> list[dict[str, Any]]:
    """The ledger of machines; empty where none is kept.

    Raises:
        BuildError: it is spoiled.
    """
    path = project.root / "book" / "machines.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        known = _known(project) if rows else set()
        problems = [problem for row in rows if (problem := _problem(row, known))]
    except ValueError as error:
        problems = [str(error)]
    if problems:
        raise BuildError(f"book/machines.json is spoiled ({problems[0]}); restore it (git checkout)")
    return rows


def label(row: dict[str, Any]) -> str:
    """A machine of the ledger in one line."""
    versions = row["versions"]
    words = f"{row['machine']['processor']}, Python {versions['Python']}, JAX {versions['jax']}"
    return f"{words}, {row['preset']}, {row['date']}".replace("`", "")  # no fence of a page ends in it


def _who(row: dict[str, Any]) -> str:
    return json.dumps([row["machine"], row["versions"]["Python"], row["versions"]["jax"], row["preset"]])


def _known(project: Project) -> set[str]:
    return {claim["id"] for claim in project.told("book/claims.yml")}


def _problem(row: Any, known: set[str]) -> str:
    """What keeps a value from being a report; nothing where it is one."""
    if not isinstance(row, dict):
        return "it is no object"
    for name, kind in _FORM.items():
        if not isinstance(row.get(name), kind):
            return f"{name} is {row.get(name)!r}, no {kind.__name__}"
    for name, wanted in (("machine", ("processor", "system")), ("versions", ("Python", "jax"))):
        if lacking := [one for one in wanted if not isinstance(row[name].get(one), str)]:
            return f"{name} lacks {lacking[0]}"
    for id, found in row["claims"].items():
        if id not in known:
            return f"there is no claim {id}"
        right = isinstance(found, dict) and found.get("verdict") in scoreboard.VERDICTS
        if not right or not isinstance(found.get("away"), int | float | None):
            return f"claim {id} has {found!r}"
    return ""
