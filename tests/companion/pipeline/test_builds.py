"""What runs when, what a failure leaves, and whether the same sources give the same bytes."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from companion.formats import CHECK_TYPE
from companion.pipeline import __main__, accepted, scoreboard
from companion.pipeline.kept import left_behind
from companion.pipeline.progress import Display, Progress, step_times
from companion.pipeline.project import Project
from faults.builds import CHAPTERS, alive, edit, execute, start, wait_for
from small_book import REPOSITORY, environment, pipeline

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("pipeline")]


@pytest.fixture
def book(built_book, tmp_path):
    return shutil.copytree(built_book, tmp_path / "copy", symlinks=True)


@pytest.fixture
def here(monkeypatch, capsys):
    """What a command that fails before it starts another process says, run in this one."""

    def run(book, *arguments):
        monkeypatch.chdir(book)
        monkeypatch.setattr(sys, "argv", ["companion.pipeline", *arguments])
        assert __main__.main() == 1
        return capsys.readouterr().err

    return run


def executed(book):
    """Every executed notebook in place, with its time; hidden folders hold what is not finished."""
    return {path: path.stat().st_mtime_ns for path in book.glob("_build/quick/chapters/[!.]*/*.ipynb")}


def new_runs(book, before):
    return sorted(path.stem for path, when in executed(book).items() if before.get(path) != when)


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
    edit(book / "notebooks/even.py", "object()", "tuple()")
    assert execute(book).returncode == 0
    assert new_runs(book, before) == ["even"]
    before = executed(book)
    edit(book / "notebooks/even.py", "tuple()", "object()")
    assert execute(book).returncode == 0
    assert executed(book) == before


def test_edited_text_runs_nothing_and_stands_on_the_page(book):
    before = executed(book)
    edit(book / "notebooks/even.py", "All of them", "Each of them")
    planned = Project(book).plan()
    assert [planned[name] for name in (*CHAPTERS, "pages")] == ["", "", "notebooks/even.py changed"]
    pipeline(book, "build")
    assert executed(book) == before
    page = (book / "_build/quick/html/notebooks/even.html").read_text()
    assert "Each of them" in page
    assert "All of them" not in page


def test_what_the_pages_carry_is_restored_and_nothing_runs(book, tmp_path):
    """From the built pages of another, as they are published: nothing is left to run."""
    shutil.move(book / "_build/quick/html", tmp_path / "published")
    shutil.rmtree(book / "_build")
    done = pipeline(book, "fetch-results", "--", str(tmp_path / "published"))
    assert done.stdout.count(": restored from") == 2
    before = executed(book)
    assert sorted(path.stem for path in before) == list(CHAPTERS)
    assert execute(book).returncode == 0
    assert executed(book) == before


def test_edited_library_runs_what_imports_it(book):
    before = executed(book)
    for module, dependants in (("__init__", []), ("constants", ["even"]), ("words", ["loud"])):
        path = book / f"lib/small/{module}.py"
        text = path.read_text()
        path.write_text(f"{text}\n# edited\n")
        planned = Project(book).plan()
        assert [name for name in CHAPTERS if planned[name] == f"lib/small/{module}.py changed"] == dependants
        if module != "words":  # the last one runs
            path.write_text(text)
    assert execute(book).returncode == 0
    assert new_runs(book, before) == ["loud"]


def test_failing_cell_is_named_and_leaves_nothing(book):
    before = executed(book)
    old_page = (book / "_build/quick/html/notebooks/even.html").read_text()
    edit(book / "notebooks/even.py", "object()", "partial = 1\nraise ArithmeticError('seven is odd')")
    done = pipeline(book, "build", check=False)
    assert done.returncode != 0
    before_it, _, _ = (book / "notebooks/even.py").read_text().partition("partial = 1")
    first = before_it[: before_it.rindex("# %%")].count("\n") + 2
    assert f"even: cell 3 of 6 (line {first})" in done.stderr
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
    build = start(book)
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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see what runs")
def test_jobs_end_when_only_their_build_is_killed(book, tmp_path):
    kernel = tmp_path / "kernel"
    edit(
        book / "notebooks/loud.py",
        "print(",
        f"Path({str(kernel)!r}).write_text(str(os.getpid()))\n__import__('time').sleep(600)\nprint(",
    )
    build = start(book)
    wait_for(lambda: int(kernel.read_text()))
    build.kill()
    build.wait()
    wait_for(lambda: not alive(int(kernel.read_text())))
    wait_for(lambda: not list(book.glob("_build/quick/chapters/.*")))


def test_killed_scheduler_is_named(book, tmp_path):
    edit(book / "notebooks/loud.py", "print(", "__import__('time').sleep(600)\nprint(")
    state = book / "_build/quick/progress/loud.json"
    state.unlink()
    build = start(book)
    wait_for(lambda: json.loads(state.read_text())["current"] == 1)
    (children,) = Path(f"/proc/{build.pid}/task").glob(f"{build.pid}/children")
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    complaint = build.communicate()[0]
    assert build.returncode == 1
    assert "The scheduler was killed by SIGKILL" in complaint
    assert "Traceback" not in complaint


def test_job_that_ended_without_a_word_is_named(tmp_path):
    (tmp_path / "progress").mkdir()
    display = Display(tmp_path, ["pages", "even"], 1)
    (tmp_path / "progress/pages.json").write_text('{"state": "running"}')
    (tmp_path / "progress/even.json").write_text('{"state": "done"}')
    assert display.failures() == ["pages: killed while it ran (out of memory?)"]


@pytest.mark.parametrize("spoiled", ['["x"]', '{"k": "long", "j": NaN, "i": null}', "{", "\0", ""])
def test_spoiled_times_are_as_good_as_none(tmp_path, spoiled):
    times = tmp_path / "durations/even.json"
    times.parent.mkdir()
    times.write_text(spoiled)
    assert step_times(times) == {}
    progress = Progress(tmp_path, "even")
    progress.begin(["one cell"])
    progress.cell(0)
    progress.cell_done()
    progress.end()
    assert list(step_times(times).values()) == [pytest.approx(0, abs=60)]


def test_lost_pages_are_built_again(book):
    shutil.rmtree(book / "_build/quick/html/downloads")
    planned = pipeline(book, "plan").stdout
    assert re.search(r"pages +again .*downloads/even.* missing or damaged", planned)
    done = pipeline(book, "build")
    assert "Nothing has changed" not in done.stdout
    assert "pages: downloads" in done.stdout
    assert (book / "_build/quick/html/downloads/even.ipynb").is_file()


@pytest.mark.parametrize("lost", ["even.ipynb", "manifest.json"])
def test_damaged_results_are_made_anew(book, built_book, lost):
    (damaged,) = book.glob(f"_build/quick/chapters/even-*/{lost}")
    (gone,) = book.glob("_build/quick/chapters/loud-*/artifacts/curve.py")
    damaged.write_text(damaged.read_text()[:-20])
    assert Project(book).plan()["pages"] == "a chapter is run again"
    gone.unlink()
    assert Project(book).discard_damaged()[:2] == [
        f"even: {lost} damaged; it is run again",
        "loud: artifacts/curve.py damaged; it is run again",
    ]
    assert not Project(book).pages_stamp.exists()
    if lost == "manifest.json":  # once is enough, with both chapters
        before = executed(book)
        assert execute(book).returncode == 0
        assert new_runs(book, before) == list(CHAPTERS)
        for path in (damaged, gone, *executed(book)):
            assert path.read_bytes() == (built_book / path.relative_to(book)).read_bytes()


def test_plan_says_what_runs_and_why(book):
    assert pipeline(book, "plan").stdout.splitlines() == [
        "even   up to date",
        "loud   up to date",
        "pages  up to date",
    ]
    edit(book / "lib/small/constants.py", "2", "2  # two")
    (book / "lib/small/extra.py").write_text("THREE = 3\n")
    edit(book / "notebooks/even.py", "from small import numbers", "from small import extra, numbers")
    even, loud, pages = pipeline(book, "plan").stdout.splitlines()
    assert re.fullmatch(
        r"even   again \(\d+ s last time\): lib/small/extra.py is new, notebooks/even.py changed, "
        r"lib/small/constants.py changed",
        even,
    )
    assert loud == "loud   up to date"
    assert "chapter even changed" in pages
    (never, *_) = pipeline(book, "plan", "--preset", "paper").stdout.splitlines()
    assert never == "even   again: nothing made yet"


def test_chapter_that_leaves_early_fails(book):
    edit(book / "notebooks/even.py", "object()", "import sys; sys.exit(0)")
    done = execute(book, "even")
    assert done.returncode != 0
    assert "SystemExit: a chapter runs to its last cell" in done.stderr + done.stdout


def test_error_of_the_system_is_told_with_advice(book):
    (book / "_build/reruns").write_text("in the way")
    done = pipeline(book, "chapter", "even", "start=3", check=False)
    assert done.returncode == 1
    assert "_build/reruns" in done.stderr
    assert "Traceback" not in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = pipeline(book, "serve", "--port", str(taken.getsockname()[1]), check=False)
    assert done.returncode == 1
    assert "make serve PORT=" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_what_is_typed_after_make_reaches_no_shell(book):
    shutil.copy(REPOSITORY / "Makefile", book)
    (book / ".venv").symlink_to(REPOSITORY / ".venv")
    hostile = "a b`touch pwned`$(touch pwned)$(shell touch pwned) $$(touch pwned) \"q\" \\x 'y'"

    def make(*typed):
        return subprocess.run(["make", *typed], cwd=book, capture_output=True, text=True, env=environment())

    done = make("chapter", "NAME=even", "SEED=3", "start=21", f"label={hostile}")
    assert done.returncode == 0, done.stderr
    assert f"label={hostile!r}, start=21" in done.stdout
    assert "seed=3" in done.stdout
    for typed in (
        ("chapter", f"NAME={hostile}"),
        ("chapter", "NAME=even", f"SEED={hostile}"),
        ("book", f"PRESET={hostile}"),
        ("book", "strat=`touch pwned`"),
        ("serve", f"PORT={hostile}"),
    ):
        assert make(*typed).returncode != 0, typed
    assert not (book / "pwned").exists()


def test_changed_verdict_fails_until_accepted(book):
    (book / "book/verdicts.yml").write_text("quick: {A1: refuted}\npaper: {A1: reproduced}\n")
    done = pipeline(book, "build", check=False)
    assert done.returncode != 0
    assert "A1 (even): refuted on record, now reproduced" in done.stderr
    assert "make accept-verdicts" in done.stderr
    (page,) = re.findall(r"The pages with what was found: (\S+)", done.stderr)
    assert "reproduced" in Path(page).with_name("scoreboard.json").read_text()
    assert pipeline(book, "pages", check=False).returncode != 0
    assert not Project(book).pages_stamp.exists()  # they do not stand for finished ones
    pipeline(book, "accept-verdicts")
    assert "quick:\n  A1: reproduced" in (book / "book/verdicts.yml").read_text()
    assert "paper:\n  A1: reproduced" in (book / "book/verdicts.yml").read_text()


def test_verdicts_are_accepted_from_the_chapters_that_ran(book):
    (book / "book/verdicts.yml").write_text("paper: {A1: reproduced}\n")
    project = Project(book)
    accepted.check(project, scoreboard.rows(project))  # nothing at quick: nothing is held to it
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
    ("command", "complaint"),
    [
        (
            "chapter even strat=3",
            "strat is not a parameter of the chapter even; allowed are preset, seed, start, scale, label",
        ),
        ("chapter even start=1.5", "start of the chapter even must be int; got '1.5'"),
        ("chapter even start=True", "start of the chapter even must be int"),
        ("chapter even scale=big", "scale of the chapter even must be float"),
        ("chapter even seed", "name=value"),
        ("chapter even preset=quik", "PRESET must be one of quick, paper, full"),
        ("chapter odd", "NAME must be one of the chapters even, loud"),
        ("build --preset big", "PRESET must be one of"),
    ],
)
def test_what_is_not_there_or_of_another_type_is_refused(built_book, here, command, complaint):
    said = here(built_book, *command.split())
    assert complaint in said
    assert "Traceback" not in said
    assert not (built_book / "_build/reruns").exists()


def test_chapter_runs_with_the_readers_parameters(book):
    done = pipeline(book, "chapter", "even", "start=21", "scale=2", "label=half way", "--preset", "paper")
    (notebook,) = book.glob("_build/reruns/even-*/even.ipynb")
    assert done.stdout.rstrip().endswith(str(notebook))
    assert "42 paper" in notebook.read_text()
    assert json.loads((book / "_build/reruns/progress/even.json").read_text())["state"] == "done"
    assert {record["preset"] for record in left_behind(notebook, CHECK_TYPE)} == {"paper"}
    again = notebook.stat().st_mtime_ns
    pipeline(book, "chapter", "even", "start=21", "scale=2", "label=half way", "--preset", "paper")
    assert notebook.stat().st_mtime_ns == again


def test_the_same_run_twice_at_once_waits_and_says_so(book):
    pipeline(book, "chapter", "even", "start=21")
    (lock,) = book.glob("_build/reruns/.even-*.lock")
    command = [sys.executable, "-m", "companion.pipeline", "chapter", "even", "start=21"]
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = subprocess.Popen(command, cwd=book, stdout=subprocess.PIPE, text=True, env=environment())
        assert "The chapter even with these parameters is running here; waiting" in second.stdout.readline()
        assert second.poll() is None
    assert second.communicate()[0].rstrip().endswith("even.ipynb")
    assert second.returncode == 0


def test_a_lock_is_held_until_its_job_has_ended(tmp_path):
    path = tmp_path / "lock"

    def is_free():
        with path.open("w") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    with __main__._only_one(path, "a job"):
        assert not is_free()
    assert is_free()


def test_a_claim_and_seeds_end_with_what_they_made(book):
    said = pipeline(book, "claim", "A1").stdout.splitlines()
    assert any("twice two" in line for line in said)
    (notebook,) = book.glob("_build/quick/chapters/even-*/even.ipynb")
    assert said[-1] == str(notebook)
    said = pipeline(book, "seeds", "--name", "even", "--seeds", "1").stdout.splitlines()
    assert "even A1: reproduced 1" in said
    assert said[-1] == str(book / "book/seeds-quick.json")
    assert json.loads((book / "book/seeds-quick.json").read_text())["even"]["seeds"] == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_help_lists_every_command():
    said = subprocess.run(["make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^make ([a-z-]+)", said, re.MULTILINE)
    text = (REPOSITORY / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())
    assert {"claim", "seeds", "diff", "report", "fetch-results"} <= set(listed)
    assert targets - set(listed) == {"help", "setup", "dag", "known-settings"}
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
