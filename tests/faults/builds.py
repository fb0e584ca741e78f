"""Builds of a small book that are damaged, killed, given hostile values, or short of space and programs."""

import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import small_book
from companion.pipeline.project import Project
from faults import files
from faults.files import cut, empty, flip, noise, same, whole
from faults.trials import FaultError, trial

TESTS = Path(__file__).resolve().parents[1]
CHAPTERS = ("even", "loud")
BUILT: list[Path] = []  # the small book, built once before the trials that copy it
PATIENCE_S = 300  # a busy machine is slow, not wrong


def book(folder: Path) -> Path:
    """A copy of the built book."""
    return shutil.copytree(BUILT[0], folder / "book", symlinks=True)


def told(done: subprocess.CompletedProcess[str], says: str, status: int | None = None) -> str:
    """What a command that must fail said last, without a traceback and with what helps."""
    text = (done.stderr or done.stdout).strip()
    if done.returncode == 0:
        raise FaultError("silent", f"status 0: {text[-200:]}")
    if "Traceback" in text or not re.search(says, text):
        raise FaultError("obscure", text[-300:])
    assert status in (None, done.returncode)
    line = next(line for line in text.splitlines() if re.search(says, line))
    return line.strip()[:220]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def execute(root: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Run the chapters' rules of the DAG, without the pages."""
    targets = [f"chapter_{name}" for name in names or CHAPTERS]
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/default", "--cores", "2", "--nolock"]
    environment = small_book.environment()
    return subprocess.run([*command, *targets], cwd=root, capture_output=True, text=True, env=environment)


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            if found := condition():
                return found
        time.sleep(0.05)
    raise FaultError("lost", "waited too long")


# ---- damaged results ------------------------------------------------------------------------

_HTML = "_build/quick/html"


def _one(pattern: str) -> Callable[[Path], Path]:
    return lambda root: next(iter(sorted(root.glob(pattern))))


_RESULTS = {
    "the pages": (_one(_HTML), "pages"),
    "a page": (_one(f"{_HTML}/notebooks/even.html"), "pages"),
    "the first page": (_one(f"{_HTML}/index.html"), "pages"),
    "the downloads": (_one(f"{_HTML}/downloads"), "pages"),
    "a style sheet": (_one(f"{_HTML}/_static/*.css"), "pages"),
    "the pages' manifest": (_one("_build/quick/html-*.json"), "pages"),
    "an executed notebook": (_one("_build/quick/chapters/even-*/even.ipynb"), "even"),
    "a chapter's manifest": (_one("_build/quick/chapters/even-*/manifest.json"), "even"),
    "an artifact": (_one("_build/quick/chapters/loud-*/artifacts/curve.py"), "loud"),
    "the artifacts": (_one("_build/quick/chapters/even-*/artifacts"), "even"),
    "a chapter's folder": (_one("_build/quick/chapters/loud-*"), "loud"),
}
_HOW = {"cut in half": files.half, "one bit changed": flip, "empty": empty, "of other bytes": noise}


def _damages() -> dict[str, Any]:
    cases: dict[str, Any] = {}
    for what, (find, made) in _RESULTS.items():
        folder = (what.endswith(("s", "folder")) and "'s" not in what) or what == "a chapter's folder"
        gone = shutil.rmtree if folder else Path.unlink
        for how, damage in ({"gone": gone} if folder else {"gone": gone, **_HOW}).items():
            if (what, how) not in (
                ("a chapter's manifest", "one bit changed"),
                ("the pages' manifest", "one bit changed"),
            ):
                cases[f"{what}: {how}"] = (find, damage, made)
    return cases


@trial("Builds", "the next build makes it again, and says why", cases=_damages())
def damaged(folder, case):
    find, damage, made = case
    root = book(folder)
    damage(find(root))
    plan = Project(root).plan()
    if not plan[made]:
        raise FaultError("silent", "up to date")
    found = Project(root).discard_damaged()
    again = Project(root)
    if again.pages_stamp.exists() or (made != "pages" and all(c.finished for c in again.chapters)):
        raise FaultError("silent", f"planned ({plan[made]}), but not discarded")
    return (found or [plan[made]])[0]


@trial(
    "Builds",
    "the pages and notebooks are there again, byte for byte",
    cases={"all of that at once": None},
    outside=True,
)
def repaired(folder, _):
    root = book(folder)
    before = {path: path.read_bytes() for path in BUILT[0].glob("_build/quick/chapters/[!.]*/*.ipynb")}
    shutil.rmtree(root / _HTML)
    cut(_one("_build/quick/chapters/even-*/even.ipynb")(root))
    (root / "_build/quick/chapters").joinpath(".left-behind").mkdir()
    for path in (root / "_build/quick/durations").glob("*"):
        noise(path)
    done = small_book.pipeline(root, "build", check=False)
    if done.returncode or not (root / _HTML / "notebooks/even.html").is_file():
        raise FaultError("lost", done.stderr[-300:])
    for path, content in before.items():
        if (root / path.relative_to(BUILT[0])).read_bytes() != content:
            raise FaultError("lost", f"{path.name} differs")
    return done.stdout.splitlines()[0]


@trial(
    "Builds",
    "a build goes on without them",
    cases={
        f"times of earlier builds: {how}": text
        for how, text in {
            "empty": "",
            "NUL": "\0",
            "half of them": '{"k": 1',
            "a list": '["x"]',
            "text for numbers": '{"k": "x"}',
            "NaN": '{"k": NaN}',
            "negative": '{"k": -5}',
            "nested": '{"k": {"k": 1}}',
            "a number": "3",
        }.items()
    },
)
def times(folder, text):
    from companion.pipeline.progress import Display

    root = book(folder)
    (root / "_build/quick/durations/even.json").write_text(text)
    with (
        contextlib.redirect_stdout(io.StringIO()),
        Display(root / "_build/quick", ["even", "loud"], 2) as display,
    ):
        assert display
    return next(iter(f"{name}: {why or 'up to date'}" for name, why in Project(root).plan().items()))


@trial(
    "Builds",
    "an error that names the file and line",
    cases={
        "a chapter that is no Python": ("notebooks/even.py", "import numbers", "import (", "even.py, line"),
        "a module that is no Python": ("lib/small/constants.py", "TWO = 2", "TWO = ", "constants.py, line 1"),
    },
)
def no_python(folder, case):
    from companion.pipeline.project import BuildError

    name, old, new, says = case
    root = book(folder)
    path = root / name
    path.write_text(path.read_text().replace(old, new) if old in path.read_text() else "x = (\n")
    return files.refused(lambda: Project(root).plan(), says, BuildError)


# ---- kills ----------------------------------------------------------------------------------


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it


def start(root: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "companion.pipeline", *(arguments or ("build",))]
    return subprocess.Popen(
        command,
        cwd=root,
        start_new_session=True,
        env=small_book.environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=_interruptible if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else None,
    )


def held(folder: Path) -> tuple[Path, Path, Path]:
    """A copy whose chapter `loud` waits for a file to go; the book, the file, the kernel's id."""
    root, hold, kernel = book(folder), folder / "hold", folder / "kernel"
    hold.touch()
    edit(
        root / "notebooks/loud.py",
        "print(",
        f"Path({str(kernel)!r}).write_text(str(os.getpid()))\n"
        f"while os.path.exists({str(hold)!r}): __import__('time').sleep(0.1)\nprint(",
    )
    return root, hold, kernel


def children(process: int) -> list[int]:
    found = [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return found + [below for child in found for below in children(child)]


def alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def _group(build: subprocess.Popen, kernel: int, how: int) -> None:
    os.killpg(build.pid, how)


@trial(
    "Kills",
    "nothing runs on, what was finished stays, and the next run ends well",
    cases={
        "SIGKILL of a build and all its jobs, in a chapter": (_group, signal.SIGKILL, ""),
        "SIGKILL of the build alone, in a chapter": (lambda b, k, s: b.kill(), 0, ""),
        "SIGTERM of the build alone, in a chapter": (lambda b, k, s: b.terminate(), 0, ""),
        "Ctrl-C in a chapter": (_group, signal.SIGINT, "interrupted"),
        "SIGKILL of the scheduler": (
            lambda b, k, s: os.kill(children(b.pid)[0], signal.SIGKILL),
            0,
            "scheduler was killed",
        ),
        "SIGKILL of a chapter's kernel": (lambda b, k, s: os.kill(k, signal.SIGKILL), 0, "loud: .*kernel"),
        "SIGKILL of the job that runs a chapter": (
            lambda b, k, s: os.kill(int(Path(f"/proc/{k}/stat").read_text().split()[3]), signal.SIGKILL),
            0,
            "loud: killed",
        ),
    },
    outside=True,
)
def killed(folder, case):
    kill, how, says = case
    root, hold, kernel = held(folder)
    build = start(root)
    number = wait_for(lambda: int(kernel.read_text()))
    jobs = children(build.pid)
    kill(build, number, how)
    text = build.communicate()[0]
    if "Traceback" in text or not re.search(says, text):
        raise FaultError("obscure", text[-300:])
    wait_for(lambda: not any(alive(job) for job in [number, *jobs]))
    kept = list(root.glob("_build/quick/chapters/even-*/even.ipynb"))
    if not kept:
        raise FaultError("lost", "the chapter that was finished is gone")
    hold.unlink()
    again = execute(root, "loud")
    if again.returncode or len(list(root.glob("_build/quick/chapters/loud-*/loud.ipynb"))) != 2:
        raise FaultError("lost", again.stderr[-300:])
    return next(
        (line for line in text.splitlines() if says and re.search(says, line)), "ran again to its end"
    )[:220]


@trial("Kills", "the second waits for the first", cases={"two builds at once": None}, outside=True)
def two_builds(folder, _):
    root, hold, kernel = held(folder)
    first = start(root)
    wait_for(lambda: int(kernel.read_text()))
    second = start(root)
    line = second.stdout.readline() if second.stdout else ""
    os.killpg(second.pid, signal.SIGKILL)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(), second.communicate()
    if "is running here; waiting" not in line:
        raise FaultError("lost", line)
    return line.strip()


_SAMPLE = "import sys; from pathlib import Path; from faults import files; files.sampled(Path(sys.argv[1]))"
_LARGE = "import sys; from pathlib import Path; from faults import files as f;f.long_run(Path(sys.argv[1]))"


def _program(code: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS), *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


@cache
def _large_whole() -> Any:
    return files.long_run(None)


@trial(
    "Kills",
    "it goes on, and ends with bitwise the same numbers",
    cases={
        "SIGKILL of sample(checkpoint) at its first block": (_SAMPLE, "block_00000.npz"),
        "SIGKILL of sample(checkpoint) as it writes": (_SAMPLE, "block_00001.partial"),
        "SIGKILL of sample(checkpoint) at its third state": (_SAMPLE, "state_00003.npz"),
        "SIGKILL of the long run at its first state": (_LARGE, "state_00001.npz"),
        "SIGKILL of the long run as it writes": (_LARGE, "block_00001.partial"),
    },
    outside=True,
)
def killed_sampler(folder, case):
    code, name = case
    path = folder / "run"
    program = _program(code, path)
    wait_for(lambda: (path / name).exists() or program.poll() is not None)
    program.kill()
    program.communicate()
    blocks = len(list(path.glob("state_*.npz")))
    if code is _LARGE:
        found, wanted = files.long_run(path), _large_whole()
        equal = all(
            np.array_equal(found[key], wanted[key], equal_nan=True) for key in ("predictor", "readouts")
        )
    else:
        equal = same(files.sampled(path), whole())
    if not equal:
        raise FaultError("lost", "other numbers")
    return f"the same numbers, from {blocks} states on"


# ---- shells ---------------------------------------------------------------------------------

HOSTILE = {
    "backquotes": "`touch pwned`",
    "$(…)": "$(touch pwned)",
    "make's $(shell …)": "$(shell touch pwned)",
    "quotes, ; and a command": "'\"; touch pwned; '",
}
SETTINGS = {
    "make chapter NAME=": ("chapter", "NAME={}"),
    "make chapter SEED=": ("chapter", "NAME=even", "SEED={}"),
    "make chapter start=": ("chapter", "NAME=even", "start={}"),
    "make chapter PRESET=": ("chapter", "NAME=even", "PRESET={}"),
    "make book PRESET=": ("book", "PRESET={}"),
    "make book strat=": ("book", "strat={}"),
    "make serve PORT=": ("serve", "PORT={}"),
}


@trial(
    "Shells",
    "an error, and no command runs",
    cases={
        f"{given}{how}": (words, text) for given, words in SETTINGS.items() for how, text in HOSTILE.items()
    },
    outside=True,
)
def shell(folder, case):
    words, text = case
    root = made(folder, small_book.write(folder / "book"))
    done = make(root, *(word.replace("{}", text) for word in words))
    if list(folder.rglob("pwned")):
        raise FaultError("lost", "the command ran")
    return told(done, "must be|unknown|allowed|invalid|integer")


def made(folder: Path, root: Path) -> Path:
    """A book with the Makefile, in this environment."""
    shutil.copy(small_book.REPOSITORY / "Makefile", root)
    (root / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (root / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    shutil.copy(root / "requirements.lock", root / ".venv")
    return root


def make(root: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make` in a book."""
    return subprocess.run(
        ["make", *words], cwd=root, capture_output=True, text=True, env=small_book.environment() | environment
    )


# ---- the machine ----------------------------------------------------------------------------

_FULL = "mount -t tmpfs -o size={} none {} && {}"


def unshared(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    """A script where mounts are its own; FaultError where the machine does not allow that."""
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=root,
        capture_output=True,
        text=True,
        env=small_book.environment() | {"PYTHONDONTWRITEBYTECODE": "1"},
    )


_READ_ONLY = "mount --bind . . && mount -o remount,bind,ro . && cd . && cd $PWD && {}"


def _companion(words: str) -> str:
    return f"{sys.executable} -m companion.pipeline {words}"


@trial(
    "Machine",
    "advice, and no traceback",
    cases={
        "a read-only folder: make book": ("build", True),
        "a read-only folder: make chapter": ("chapter even start=3", True),
        "a read-only folder: make accept-verdicts": ("accept-verdicts", False),
    },
    outside=True,
)
def read_only(folder, case):
    words, changed = case
    root = book(folder)
    if changed:
        edit(root / "notebooks/even.py", "object()", "object")
    else:
        (root / "book/verdicts.yml").write_text("paper: {A1: reproduced}\n")
    return told(unshared(_READ_ONLY.format(_companion(words)), root), "cannot be written to")


@trial(
    "Machine",
    "the reason: advice, or the cell that could not write",
    cases={"a full disk: make book": "build", "a full disk: make chapter": "chapter even start=3"},
    outside=True,
)
def full_disk(folder, words):
    root = small_book.write(folder / "book")
    (root / "_build").mkdir()
    done = unshared(_FULL.format("64k", "_build", _companion(words)), root)
    found = re.search(
        r"\S+: (No space left on device\. The disk is full|cell .* No space left on device).*", done.stderr
    )
    if done.returncode == 0 or not found:
        raise FaultError("silent" if done.returncode == 0 else "obscure", done.stderr[-300:])
    return found[0][:220]


@trial(
    "Machine",
    "an error that names the file; with room again it goes on",
    cases={"a full disk: sample(checkpoint)": None},
    outside=True,
)
def full_checkpoint(folder, _):
    path = folder / "run"
    path.mkdir()
    code = _SAMPLE.replace("import sys;", f"import sys; sys.path[:0] = {[str(TESTS), *sys.path]!r};")
    code += "\n"
    script = folder / "one.py"
    script.write_text(code.replace("; ", "\n").replace(";", "\n"))
    command = f"{sys.executable} -W ignore {script} {path}; s=$?; cp -r run kept; exit $s"
    done = unshared(_FULL.format("20k", "run", command), folder)
    if done.returncode == 0:
        raise FaultError("silent", "status 0")
    if "No space left" not in done.stderr:
        raise FaultError("obscure", done.stderr[-300:])
    if not same(files.sampled(folder / "kept"), whole()):
        raise FaultError("lost", "other numbers")
    return f"{done.stderr.strip().splitlines()[-1][:150]}; with room again: the same numbers"


@trial(
    "Machine",
    "advice, and no traceback",
    cases={
        "make serve: the port is in use": "busy",
        "make serve PORT=99999": "99999",
        "make serve PORT=-1": "-1",
        "make serve before make book": "unbuilt",
    },
    outside=True,
)
def port(folder, case):
    root = book(folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        if case == "unbuilt":
            shutil.rmtree(root / _HTML)
        number = (case.lstrip("-").isdigit() and case) or str(taken.getsockname()[1])
        done = small_book.pipeline(root, "serve", f"--port={number}", check=False)
    return told(done, "make serve PORT=|PORT must be|make book")


@trial(
    "Machine",
    "advice, and no traceback",
    cases={
        "a file in place of a folder: _build/reruns": "_build/reruns",
        "a file in place of a folder: _build": "_build",
    },
    outside=True,
)
def in_the_way(folder, name):
    root = small_book.write(folder / "book")
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("in the way")
    return told(small_book.pipeline(root, "chapter", "even", "start=3", check=False), "_build.*Run the same")


@trial(
    "Machine",
    "set-up begins anew",
    cases={
        ".venv with the right lock, but no Python": lambda venv: (venv / "bin/python").unlink(),
        ".venv whose Python leads nowhere": lambda venv: (
            (venv / "bin/python").unlink(),
            (venv / "bin/python").symlink_to("/nowhere/python3"),
        ),
        ".venv of another lock": lambda venv: (venv / "requirements.lock").write_text("jax==0.1\n"),
        ".venv without a lock: killed during set-up": lambda venv: (venv / "requirements.lock").unlink(),
        ".venv with half a lock": lambda venv: files.half(venv / "requirements.lock"),
        ".venv is an empty folder": lambda venv: (shutil.rmtree(venv), venv.mkdir()),
        ".venv is gone": shutil.rmtree,
    },
)
def environment(folder, damage):
    root = made(folder, small_book.write(folder / "book"))
    (root / ".venv/bin").unlink()
    (root / ".venv/bin").mkdir()
    (root / ".venv/bin/python").symlink_to("/bin/false")  # a Python without pip: what a killed set-up leaves
    damage(root / ".venv")
    script = folder / "python"
    script.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/ran"; exit 1\n')
    script.chmod(0o755)
    done = make(root, "setup", f"PYTHON={script}")
    ran = folder / "ran"
    if done.returncode == 0 or not ran.exists():
        raise FaultError("silent", "taken for whole")
    return f"python {ran.read_text().strip()}"


@trial("Machine", "the version needed", cases={"no Python from 3.11 on": None})
def no_interpreter(folder, _):
    root = small_book.write(folder / "book")
    shutil.copy(small_book.REPOSITORY / "Makefile", root)
    return told(make(root, "setup", "PYTHON="), "Python 3.11 or newer is needed")


@trial("Machine", "advice, and no traceback", cases={"a package gone from .venv": None}, outside=True)
def package_gone(folder, _):
    root = book(folder)
    (root / "lib/jupytext.py").write_text("raise ModuleNotFoundError(\"No module named 'jupytext'\")\n")
    done = small_book.pipeline(root, "chapter", "even", "start=3", check=False)
    if "Traceback" not in done.stderr and "jupytext" not in done.stderr:  # the book's lib is not first there
        environment = small_book.environment()
        environment["PYTHONPATH"] = os.pathsep.join([str(root / "lib"), environment["PYTHONPATH"]])
        command = [sys.executable, "-m", "companion.pipeline", "chapter", "even", "start=4"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment)
    return told(done, "delete .venv")


@trial(
    "Machine",
    "a reason: skipped here, an error in CI",
    cases={"no browser, at home": "", "no browser, in CI": "true"},
    outside=True,
)
def no_browser(folder, ci):
    programs = folder / "bin"
    programs.mkdir()
    environment = small_book.environment() | {"PATH": str(programs), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests/pages"]
    command += ["-k", "asks_for_anything", "--book", str(BUILT[0] / _HTML)]
    done = subprocess.run(command, cwd=small_book.REPOSITORY, capture_output=True, text=True, env=environment)
    text = next((line for line in done.stdout.splitlines() if re.search("chromium|browser", line, re.I)), "")
    if bool(ci) != bool(done.returncode) or not text:
        raise FaultError("obscure" if done.returncode else "silent", done.stdout[-300:])
    return text.strip()[:220]


def build_once(folder: Path) -> None:
    """Build the small book that the trials copy; nothing else."""
    root = small_book.write(folder / "built")
    small_book.pipeline(root, "build")
    BUILT.append(root)
