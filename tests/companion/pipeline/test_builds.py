"""What runs when, what a failure leaves, and whether the same sources give the same bytes."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from small_book import pipeline

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("pipeline")]

CHAPTERS = ("even", "loud")


@pytest.fixture
def book(built_book, tmp_path):
    return shutil.copytree(built_book, tmp_path / "copy", symlinks=True)


def execute(book, *names):
    """Run the chapters' rules of the DAG, without the pages."""
    targets = [f"chapter_{name}" for name in names or CHAPTERS]
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/default", "--cores", "2", "--nolock"]
    return subprocess.run([*command, *targets], cwd=book, capture_output=True, text=True)


def executed(book):
    """Every executed notebook, with its time."""
    return {path: path.stat().st_mtime_ns for path in book.glob("_build/quick/chapters/*/*.ipynb")}


def new_runs(book, before):
    return sorted(path.stem for path, when in executed(book).items() if before.get(path) != when)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_no_change_executes_nothing_and_is_quick(book):
    before = executed(book)
    for path in [*book.glob("notebooks/*.py"), *book.glob("lib/**/*.py"), *book.glob("book/*.md")]:
        path.touch()
    started = time.monotonic()
    done = pipeline(book, "build")
    assert time.monotonic() - started < 5
    assert "Nothing has changed" in done.stdout
    assert done.stdout.rstrip().endswith("_build/quick/html/index.html")
    assert executed(book) == before
    assert "(100%) done" not in execute(book).stderr  # the DAG on its own agrees
    assert executed(book) == before


def test_edited_chapter_runs_alone_and_undoing_runs_nothing(book):
    before = executed(book)
    edit(book / "notebooks/even.py", "All of them", "Each of them")
    assert execute(book).returncode == 0
    assert new_runs(book, before) == ["even"]
    before = executed(book)
    edit(book / "notebooks/even.py", "Each of them", "All of them")
    assert execute(book).returncode == 0
    assert executed(book) == before


@pytest.mark.parametrize(
    ("module", "dependants"), [("constants", ["even"]), ("words", ["loud"]), ("__init__", ["even", "loud"])]
)
def test_edited_library_runs_what_imports_it(book, module, dependants):
    before = executed(book)
    with (book / f"lib/small/{module}.py").open("a") as file:
        file.write("\n# edited\n")
    assert execute(book).returncode == 0
    assert new_runs(book, before) == dependants


def test_failing_cell_is_named_and_leaves_nothing(book):
    before = executed(book)
    old_page = (book / "_build/quick/html/notebooks/even.html").read_text()
    edit(book / "notebooks/even.py", "object()", "partial = 1\nraise ArithmeticError('seven is odd')")
    done = pipeline(book, "build", check=False)
    assert done.returncode != 0
    assert "even: cell 3 of 4 (line " in done.stderr
    assert "ArithmeticError: seven is odd" in done.stderr
    assert executed(book) == before
    assert not list(book.glob("_build/quick/chapters/.*"))
    assert (book / "_build/quick/html/notebooks/even.html").read_text() == old_page


def test_killed_build_resumes(book, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    edit(
        book / "notebooks/loud.py",
        "print(",
        f"while os.path.exists({str(hold)!r}): __import__('time').sleep(0.1)\nprint(",
    )
    edit(book / "notebooks/even.py", "object()", "object")
    before = executed(book)
    build = subprocess.Popen(
        [sys.executable, "-m", "companion.pipeline", "build"], cwd=book, start_new_session=True
    )
    state = book / "_build/quick/progress/loud.json"
    wait_for(lambda: new_runs(book, before) == ["even"] and json.loads(state.read_text())["current"] == 1)
    os.killpg(build.pid, signal.SIGKILL)
    build.wait()
    assert new_runs(book, before) == ["even"]
    hold.unlink()
    halfway = executed(book)
    done = pipeline(book, "build")
    assert new_runs(book, halfway) == ["loud"]
    assert "loud: done" in done.stdout
    assert not list(book.glob("_build/quick/chapters/.*"))


def wait_for(condition, timeout=60):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.1)
    raise AssertionError("waited too long")


def test_same_sources_give_the_same_bytes(book, built_book):
    shutil.rmtree(book / "_build")
    assert execute(book).returncode == 0
    for path in executed(built_book):
        assert (book / path.relative_to(built_book)).read_bytes() == path.read_bytes()


def test_changed_verdict_fails_until_accepted(book):
    (book / "book/verdicts.yml").write_text("quick: {A1: not reproduced}\npaper: {A1: reproduced}\n")
    done = pipeline(book, "build", check=False)
    assert done.returncode != 0
    assert "A1 (even): not reproduced on record, now reproduced" in done.stderr
    assert "make accept-verdicts" in done.stderr
    pipeline(book, "accept-verdicts")
    assert "quick:\n  A1: reproduced" in (book / "book/verdicts.yml").read_text()
    assert "paper:\n  A1: reproduced" in (book / "book/verdicts.yml").read_text()


def test_verdicts_are_accepted_from_the_chapters_that_ran(book):
    (book / "book/verdicts.yml").write_text("paper: {A1: reproduced}\n")
    pipeline(book, "build")  # nothing at quick, so no chapter is held to anything
    for notebook in book.glob("_build/quick/chapters/loud-*/loud.ipynb"):
        notebook.unlink()
    assert "loud has not run" in pipeline(book, "accept-verdicts").stdout
    assert "quick:\n  A1: reproduced" in (book / "book/verdicts.yml").read_text()


def test_warning_fails_the_build_and_keeps_the_old_pages(book):
    edit(book / "book/intro.md", "{eq}`eq-even`", "{eq}`eq-odd`")
    done = pipeline(book, "build", check=False)
    assert done.returncode != 0
    assert "book/intro.md" in done.stderr
    assert "eq-odd" in done.stderr
    assert "eq-even" in (book / "_build/quick/html/book/intro.html").read_text()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            "strat=3",
            "strat is not a parameter of the chapter even; allowed are preset, seed, start, scale, label",
        ),
        ("start=1.5", "start of the chapter even must be int; got '1.5'"),
        ("start=True", "start of the chapter even must be int"),
        ("scale=big", "scale of the chapter even must be float"),
        ("seed", "name=value"),
        ("preset=quik", "PRESET must be one of quick, paper, full"),
    ],
)
def test_bad_parameter_is_refused(book, given, complaint):
    done = pipeline(book, "chapter", "even", given, check=False)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (book / "_build/reruns").exists()


def test_chapter_runs_with_the_readers_parameters(book):
    done = pipeline(book, "chapter", "even", "start=21", "scale=2", "label=half way", "--preset", "paper")
    (notebook,) = book.glob("_build/reruns/even-*/even.ipynb")
    assert done.stdout.rstrip().endswith(str(notebook))
    assert "42 paper" in notebook.read_text()
    again = notebook.stat().st_mtime_ns
    pipeline(book, "chapter", "even", "start=21", "scale=2", "label=half way", "--preset", "paper")
    assert notebook.stat().st_mtime_ns == again


def test_the_same_run_twice_at_once_waits_and_says_so(book):
    pipeline(book, "chapter", "even", "start=21")
    (lock,) = book.glob("_build/reruns/.even-*.lock")
    command = [sys.executable, "-m", "companion.pipeline", "chapter", "even", "start=21"]
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = subprocess.Popen(command, cwd=book, stdout=subprocess.PIPE, text=True)
        assert "The chapter even with these parameters is running here; waiting" in second.stdout.readline()
        assert second.poll() is None
    assert second.communicate()[0].rstrip().endswith("even.ipynb")
    assert second.returncode == 0


def test_unknown_chapter_and_preset_are_refused(book):
    assert (
        "NAME must be one of the chapters even, loud" in pipeline(book, "chapter", "odd", check=False).stderr
    )
    assert "PRESET must be one of" in pipeline(book, "build", "--preset", "big", check=False).stderr
