"""Try bad arguments, damaged files, kills, hostile values and machines without room, and see what comes.

    make faults                     all of them; writes book/faults.inc, which the page on reliability shows
    make faults ONLY='Kills|csv'    those whose kind or text match a pattern; writes nothing
    python tests/faults/run.py --jobs 2 --only tasks.toy

A trial survives if what must come, came: an error that names the culprit and says what is allowed, or a run
that goes on with the same numbers. Otherwise it is silent (nothing was said), obscure (an error without a
name or advice) or lost (what was finished is gone, or wrong). Exit status: 0 if all survive.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "lib")]
WRITTEN = ROOT / "book/faults.inc"
NAMED = "ValueError that names it"
VERDICTS = ("survived", "silent", "obscure", "lost")

ENVIRONMENT = {
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / "_build/jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    "PYTHONWARNINGS": "ignore",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NPROC": "1",
}


class Row(NamedTuple):
    """One line of the table: some trials of one kind that must all end alike."""

    kind: str
    tried: str
    must: str
    came: str
    verdict: str
    trials: int


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="trials whose kind or text match this pattern")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side, besides this one")
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    started = time.time()
    from faults import builds, files, results, trials

    assert files  # which registers its trials, as the others do
    assert results
    wanted = [t for t in trials.TRIALS if re.search(arguments.only, f"{t.kind}: {t.tried}")]
    with tempfile.TemporaryDirectory(prefix="faults-") as name, ThreadPoolExecutor(arguments.jobs) as pool:
        folder = Path(name)
        places = {trial: folder / str(index) for index, trial in enumerate(wanted)}
        if any(trial.kind in ("Builds", "Kills", "Machine", "Results") for trial in wanted):
            builds.build_once(folder)
        outside = {t: pool.submit(trials.judged, t, places[t]) for t in wanted if t.outside}
        rows = list(bad_arguments(arguments.only))
        for trial in wanted:
            came = outside[trial].result() if trial.outside else trials.judged(trial, places[trial])
            rows.append(Row(trial.kind, trial.tried, trial.must, *came, 1))
    if not rows:
        parser.error(f"--only: no trial's kind and text match {arguments.only!r}")
    for row in rows:
        if row.verdict != "survived":
            print(f"{row.verdict:9}{row.kind}: {row.tried} -> {row.came}", flush=True)
    counts = Counter[str]()
    for row in rows:
        counts[row.verdict] += row.trials
    tried = sum(counts.values())
    print(
        f"{tried} trials in {len(rows)} rows, {time.time() - started:.0f} s:",
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS),
    )
    if not arguments.only:
        WRITTEN.write_text(page(rows), encoding="utf-8")
    return int(counts["survived"] < tried)


def bad_arguments(only: str = ""):
    """A row for each argument of each public function."""
    from faults import arguments

    for row in arguments.rows():
        if not re.search(only, f"Arguments: {row.function} {row.argument}"):
            continue
        found = [(value, *arguments.attempt(row, value)) for value in row.values]
        worst = max(found, key=lambda one: VERDICTS.index(one[2]))
        yield Row("Arguments", tried(row), NAMED, worst[1], worst[2], len(found))


def tried(row) -> str:
    """An argument with all that is tried for it, in the words of the table."""
    from faults import arguments

    shown = dict.fromkeys(arguments.shown(value) for value in row.values)
    return f"{row.function}({row.argument}=…): {', '.join(shown)}"


def page(rows: list[Row]) -> str:
    """The tables, in Markdown: a summary, then one for each kind."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    lines = ["| kind | tried | survived | silent | obscure | lost |", "|---|---|---|---|---|---|"]
    for kind in (*kinds, "all"):
        counts = Counter[str]()
        for row in rows:
            counts[row.verdict] += row.trials * (kind in (row.kind, "all"))
        cells = [str(sum(counts.values())), *(str(counts[verdict]) for verdict in VERDICTS)]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    for kind in kinds:
        members = [row for row in rows if row.kind == kind]
        lines += ["", f"## {kind}", "", "| tried | must come | came |", "|---|---|---|"]
        for row in members:
            mark = "" if row.verdict == "survived" else f"**{row.verdict}** "
            lines.append(f"| {code(row.tried)} | {row.must} | {mark}{code(row.came)} |")
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Text as it is, in a cell of a table: no markup, no line's end, no column's end; no path of here."""
    text = re.sub(r"[\w./-]*faults-\w+/\d+/|" + re.escape(f"{ROOT}/"), "", " ".join(text.split()))
    text = text.replace(f"{tempfile.gettempdir()}/", "")
    text = re.sub(r" at 0x[0-9a-f]+", "", text[:240]).replace("|", "\\|")
    fence = "``" if "`" in text else "`"
    return f"{fence}{' ' if '`' in text else ''}{text or '–'}{' ' if '`' in text else ''}{fence}"


if __name__ == "__main__":
    sys.exit(main())
