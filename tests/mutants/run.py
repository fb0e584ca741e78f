"""Plant every fault of mutants.yml, one at a time, and see whether the tests named for it fail.

    make mutants                                    all of them
    make mutants ONLY='moves.py|relu'               those whose file and reason match a pattern
    python tests/mutants/run.py --jobs 2 --only gibbs

A fault is a replacement of a text that occurs exactly once in its file. It is planted in a copy of the tree,
and its tests run there, up to the first that fails. Before that all tests named must pass as things stand.

Verdicts: caught (a test failed), survived, slow (past the limit; not counted as caught), stale (the text does
not occur exactly once, or a test is gone), broken (the file no longer imports: any test would have noticed).
Exit status: 0 if the score reaches --least, 1 if not, 2 if anything is stale, broken or fails unplanted.
"""

import argparse
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.yml")
VERDICTS = {0: "survived", 1: "caught", 2: "broken", 4: "stale", 5: "stale"}  # by pytest's exit status

#: Imported once, in the process that all test runs are forked from. Nothing that starts JAX's threads, as
#: blackjax does when it is imported: a fork after that hangs.
PRELOADED = ["pytest", "jax", "scipy.stats", "scipy.optimize", "optax", "arviz", "matplotlib.pyplot"]
ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONWARNINGS": "ignore:os.fork:RuntimeWarning",  # JAX's, whose threads do not run yet
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / "_build/jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
}


@dataclass(frozen=True)
class Mutant:
    """One fault: `old` becomes `new` in `file`, which one of `tests` (files or node ids) has to notice."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str

    def planted(self, root: Path) -> str | None:
        """The file's text with the fault; None where `old` does not occur exactly once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def read(path: Path = LIST) -> list[Mutant]:
    """The mutants of a list: a mapping from file to entries of old, new, tests and reason."""
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Mutant(file, entry["old"], entry["new"], tuple(entry["tests"].split()), entry["reason"])
        for file, entries in listed.items()
        for entry in entries
    ]


def copy_tree(target: Path) -> Path:
    """The tree as it stands: what git tracks, and new files that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def run_tests(tree: Path, tests: list[str], limit: float) -> int | None:
    """Pytest's exit status on the tests, its output in the tree's file `log`; None past the time limit."""
    process = multiprocessing.get_context("forkserver").Process(target=_pytest, args=(tree, tests))
    process.start()
    process.join(limit)
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


def _pytest(tree: Path, tests: list[str]) -> None:
    os.setsid()  # so that a run past its limit ends with all that it started
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "lib")
    sys.path[:0] = [str(tree / "lib"), str(tree)]
    log = os.open(tree / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    import pytest

    sys.exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(tree), *tests])))


def verdict(tree: Path, mutant: Mutant, limit: float) -> str:
    """Plant a mutant in a tree, run its tests, and take it out again."""
    planted = mutant.planted(tree)
    if planted is None:
        return "stale"
    path = tree / mutant.file
    kept = path.read_text(encoding="utf-8")
    path.write_text(planted, encoding="utf-8")
    try:
        status = run_tests(tree, list(mutant.tests), limit)
    finally:
        path.write_text(kept, encoding="utf-8")
    return "slow" if status is None else VERDICTS.get(status, "broken")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="mutants whose file and reason match this pattern")
    parser.add_argument("--jobs", type=int, default=1, help="mutants side by side")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one mutant's tests")
    parser.add_argument("--least", type=float, default=0.95, help="score that is asked for")
    arguments = parser.parse_args()
    mutants = [m for m in read() if re.search(arguments.only, f"{m.file}: {m.reason}")]
    if not mutants:
        parser.error(f"--only: no mutant's file and reason match {arguments.only!r}")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            trees.put(copy_tree(Path(folder) / str(job)))
        tree = trees.get()
        if run_tests(tree, sorted({t for m in mutants for t in m.tests}), 20 * arguments.limit) != 0:
            print((tree / "log").read_text(), "The tests fail without any fault planted.", file=sys.stderr)
            return 2
        trees.put(tree)

        def judge(mutant: Mutant) -> tuple[str, float]:
            tree, start = trees.get(), time.perf_counter()
            try:
                return verdict(tree, mutant, arguments.limit), time.perf_counter() - start
            finally:
                trees.put(tree)

        verdicts = []
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for mutant, (word, seconds) in zip(mutants, pool.map(judge, mutants)):
                verdicts.append(word)
                place = mutant.file.removeprefix("lib/").removeprefix("coding_schemes/")
                print(f"{word:9}{seconds:4.0f} s  {place:28} {mutant.reason}", flush=True)
    counts = {word: verdicts.count(word) for word in sorted(set(verdicts))}
    decided = len(verdicts) - counts.get("stale", 0) - counts.get("broken", 0)
    score = counts.get("caught", 0) / max(decided, 1)
    print(f"{score:.1%} of {decided} caught:", ", ".join(f"{n} {word}" for word, n in counts.items()))
    return 2 if decided < len(verdicts) else int(score < arguments.least)


if __name__ == "__main__":
    sys.exit(main())
