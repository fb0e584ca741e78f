"""Many small builds in a row, with edits between them and kills at random: what is lost, left, or different.

    make soak                    a hundred builds, ten minutes on two idle cores
    python tests/faults/soak.py --builds 10 --seed 1

Every build is of a small book in one of sixteen states: four edits, each made or not. What a state gave once
it must give again, byte for byte. After every build that ended nothing of a killed one may be left, and no
chapter that was finished may be lost when one is killed. Exit status: 0 if so.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "lib")]

import small_book  # noqa: E402
from companion.pipeline.project import Project  # noqa: E402

EDITS = {  # what is edited, from what, to what
    "prose": ("book/intro.md", "Read [the", "First read [the"),
    "chapter": ("notebooks/even.py", "All of them", "Each of them"),
    "library": ("lib/small/constants.py", "TWO = 2", "TWO = 1 + 1"),
    "module": ("lib/small/words.py", "word.upper()", "str(word).upper()"),
}
KILLS = {
    "SIGKILL of all": lambda build: os.killpg(build.pid, signal.SIGKILL),
    "SIGKILL of the build alone": lambda build: build.kill(),
    "SIGTERM of the build alone": lambda build: build.terminate(),
    "Ctrl-C": lambda build: os.killpg(build.pid, signal.SIGINT),
}
KILLED = 0.5  # of the builds, before they are run again to their end
LOST = 0.15  # of the builds begin with a chapter's results deleted, as by hand
PATIENCE_S = 120.0
# What is other in every run: seconds under the figures, and so the numbers among the words to search for
TIMES = re.compile(rb" \xc2\xb7 run in \d+ s")
NUMBERS = re.compile(rb'"\d+": (?:\d+|\[[\d, ]+\]),? ?')


def steady(path: Path) -> bytes:
    """What a file holds, but for times."""
    content = TIMES.sub(b"", path.read_bytes())
    return NUMBERS.sub(b"", content) if path.name == "searchindex.js" else content


def digests(root: Path) -> dict[str, str]:
    """SHA-256 of every file of the pages, but for times, and of the present state's executed chapters."""
    project = Project(root)
    folders = [project.html, *(chapter.folder for chapter in project.chapters)]
    return {
        str(path.relative_to(root)): hashlib.sha256(steady(path)).hexdigest()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def finished(root: Path) -> set[str]:
    """Folders of finished chapters, whatever they were made from."""
    return {path.parent.name for path in root.glob("_build/quick/chapters/[!.]*/manifest.json")}


def left(root: Path, scratch: Path) -> list[str]:
    """What a build that has ended should not have left in the book, and among temporary files."""
    build = root / "_build/quick"
    stamps = sorted(build.glob("html-*.json"))[1:]
    found = [
        *build.glob("chapters/.*"),
        *build.glob("pages"),
        *build.glob(".scratch"),
        *build.rglob("*.part"),
        *stamps,
    ]
    return sorted(str(path.relative_to(root)) for path in found) + sorted(p.name for p in scratch.iterdir())


def start(root: Path, scratch: Path) -> subprocess.Popen[str]:
    """A build in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "companion.pipeline", "build"],
        cwd=root,
        start_new_session=True,
        env=small_book.environment() | {"TMPDIR": str(scratch)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def running(root: Path) -> list[int]:
    """Processes that work in a book's folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.resolve().is_relative_to(root):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def soak(folder: Path, builds: int, seed: int) -> Counter[str]:
    """Run the builds; returns counts, and says what was found."""
    rng = random.Random(seed)
    scratch = folder / "tmp"
    scratch.mkdir()
    root = small_book.write(folder / "book")
    known: dict[frozenset[str], dict[str, str]] = {}
    state: frozenset[str] = frozenset()
    counts: Counter[str] = Counter()
    took = [12.0]
    for number in range(builds):
        for name in rng.sample(sorted(EDITS), rng.randint(0, 2)) if number else ():
            path, before, after = EDITS[name]
            text = (root / path).read_text()
            before, after = (after, before) if name in state else (before, after)
            assert before in text
            (root / path).write_text(text.replace(before, after))
            state ^= {name}
        if rng.random() < LOST and (there := sorted(finished(root))):
            shutil.rmtree(root / "_build/quick/chapters" / rng.choice(there))
            counts["results deleted"] += 1
        if rng.random() < KILLED:
            before = finished(root)
            way = rng.choice(sorted(KILLS))
            build = start(root, scratch)
            time.sleep(rng.uniform(0.2, statistics.median(took[-5:])))  # one slow build is no measure
            if build.poll() is None:
                KILLS[way](build)
                counts[f"killed: {way}"] += 1
            build.communicate()
            deadline = time.monotonic() + PATIENCE_S
            while running(root) and time.monotonic() < deadline:
                time.sleep(0.1)
            if still := running(root):
                counts["lost or left"] += 1
                print(f"{number}: after {way} still runs: {still}", flush=True)
            if gone := {
                name
                for name in before - finished(root)
                if name in {c.folder.name for c in Project(root).chapters}
            }:
                counts["lost or left"] += 1
                print(f"{number}: after {way} gone: {sorted(gone)}", flush=True)
        started = time.monotonic()
        build = start(root, scratch)
        said = build.communicate()[0]
        took.append(time.monotonic() - started)
        print(f"{number}: {took[-1]:.0f} s", flush=True)
        counts["builds"] += 1
        counts["nothing to do"] += "Nothing has changed" in said
        counts["chapters run"] += len(re.findall(r"^(?:even|loud): done", said, re.MULTILINE))
        if build.returncode:
            counts["lost or left"] += 1
            print(f"{number}: a build failed:\n{said[-2000:]}", flush=True)
            continue
        if there := left(root, scratch):
            counts["lost or left"] += 1
            print(f"{number}: left behind: {there}", flush=True)
            for path in scratch.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        found = digests(root)
        wanted = known.setdefault(state, found)
        counts["states seen again"] += found is not wanted
        if differing := [
            name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
        ]:
            counts["different"] += 1
            print(f"{number}: other bytes than before: {sorted(differing)[:10]}", flush=True)
    counts["states"] = len(known)
    return counts


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--builds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        counts = soak(Path(name), arguments.builds, arguments.seed)
    print(*(f"{count:5} {what}" for what, count in sorted(counts.items())), sep="\n")
    bad = counts["lost or left"] + counts["different"]
    print(
        f"{time.monotonic() - started:.0f} s; "
        + (
            f"{bad} builds with something lost, left or different"
            if bad
            else "nothing lost, nothing left behind, the same bytes from the same sources"
        )
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
