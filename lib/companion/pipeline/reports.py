"""What a reviewer sends of a rerun: the machine, versions, times, and differences to the record."""

import os
import platform
from importlib import metadata
from pathlib import Path

from companion.pipeline import difference, kept, scoreboard
from companion.pipeline.progress import cost, duration
from companion.pipeline.project import BuildError, Project
from companion.pipeline.rendering import render

_PACKAGES = ("jax", "jaxlib", "blackjax", "numpy", "scipy", "matplotlib", "jupyter-book", "snakemake")


def machine() -> dict[str, str]:
    """What this machine is, in the words of its system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    info = Path("/proc/cpuinfo")
    models = (
        [line for line in info.read_text().splitlines() if "model name" in line] if info.is_file() else []
    )
    return {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": models[0].partition(":")[2].strip() if models else platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
    }


def write(project: Project) -> Path:
    """Leave ``report.md`` in the build's folder; returns it.

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
    text = render(
        "report.md",
        preset=project.preset,
        commit=project.commit,
        machine=machine(),
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
    return path
