"""The machine a benchmark ran on, and where its results go."""

import json
import os
import platform
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def processor():
    """Model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def measured(**more):
    """Date, processor and cores, which head all results; `more` are versions and whatever else counts."""
    cores = len(os.sched_getaffinity(0))
    return {"date": date.today().isoformat(), "machine": processor(), "cores": cores} | more


def leave(name, results, table):
    """Write results as JSON and as a table in Markdown, and show the table."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / f"{name}.md").write_text(table)
    print(table)
