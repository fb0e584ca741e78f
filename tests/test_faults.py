"""The campaign, but for what starts builds, kills them or fills disks: `make faults` runs that, too."""

import re
import shutil

import pytest
import small_book
from faults import arguments, builds, files, results, run, soak, trials

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.key_reuse, pytest.mark.rank_promotion]
WITH_BOOK = ("Builds", "Results")
HERE = [trial for trial in trials.TRIALS if trial.kind not in WITH_BOOK and not trial.outside]
THERE = [trial for trial in trials.TRIALS if trial.kind in WITH_BOOK and not trial.outside]


def test_bad_arguments_are_named():
    rows = list(run.bad_arguments())
    assert [row for row in rows if row.verdict != "survived"] == []
    assert sum(row.trials for row in rows) > 2000


@pytest.mark.parametrize("trial", HERE, ids=lambda trial: trial.tried)
def test_what_needs_no_other_program(trial, tmp_path):
    if trial.kind == "Laboratory" and not shutil.which("node"):
        pytest.skip("needs node")
    came, verdict = trials.judged(trial, tmp_path / "trial")
    assert verdict == "survived", came


@pytest.mark.pipeline
@pytest.mark.xdist_group("pipeline")  # whose book it is
@pytest.mark.parametrize("trial", THERE, ids=lambda trial: trial.tried)
def test_what_is_done_to_a_built_book(trial, built_book, tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "BUILT", [built_book])
    monkeypatch.setattr(results, "BUILT", [built_book])
    came, verdict = trials.judged(trial, tmp_path / "trial")
    assert verdict == "survived", came


def test_every_trial_says_what_must_come():
    assert len(trials.TRIALS) > 150
    assert len({(t.kind, t.tried) for t in trials.TRIALS}) == len(trials.TRIALS)
    assert files.TASK
    assert builds.HOSTILE
    assert results.LABORATORY


def test_the_table_in_the_book_lists_what_is_tried_today():
    """It is written by `make faults` alone, which nobody runs after each edit of a list."""
    listed = [("Arguments", run.tried(row), run.NAMED, len(row.values)) for row in arguments.rows()]
    listed += [(trial.kind, trial.tried, trial.must, 1) for trial in trials.TRIALS]
    summary, *parts = re.split(r"^## ", run.WRITTEN.read_text(encoding="utf-8"), flags=re.MULTILINE)
    written = {kind: body.split("\n")[3:] for kind, _, body in (part.partition("\n") for part in parts)}
    assert set(written) == {kind for kind, *_ in listed}
    for kind, lines in written.items():
        rows = [
            (f"| {run.code(tried)} | {must} | ", count) for of, tried, must, count in listed if of == kind
        ]
        shown = [line[: len(row)] for line, (row, _) in zip(filter(None, lines), rows, strict=True)]
        assert shown == [row for row, _ in rows]
        number = sum(count for _, count in rows)
        assert f"| {kind} | {number} | {number} | 0 | 0 | 0 |\n" in summary


def test_what_was_seen_cannot_leave_its_cell():
    assert run.code("a | `b`\nc") == "`` a \\| `b` c ``"


def test_the_soak_sees_what_is_left_behind_and_what_is_other(tmp_path):
    root, scratch = small_book.write(tmp_path / "book"), tmp_path / "tmp"
    (root / "_build/quick/html").mkdir(parents=True)
    scratch.mkdir()
    assert soak.left(root, scratch) == []
    before = soak.digests(root)
    (root / "_build/quick/html/index.html").write_text("one · run in 3 s · two", encoding="utf-8")
    other = soak.digests(root)
    assert other != before
    (root / "_build/quick/html/index.html").write_text("one · run in 62 s · two", encoding="utf-8")
    assert soak.digests(root) == other
    (root / "_build/quick/html/index.html").write_text("one · run in 3 s · 2", encoding="utf-8")
    assert soak.digests(root) != other
    index = root / "_build/quick/html/searchindex.js"
    index.write_text('{"terms": {"10": 4, "2": [1, 3], "word": 4}}')
    other = soak.digests(root)
    index.write_text('{"terms": {"2": [1, 3, 4], "word": 4}}')
    assert soak.digests(root) == other
    index.write_text('{"terms": {"2": [1, 3, 4], "word": 3}}')
    assert soak.digests(root) != other
    (root / "_build/quick/chapters/.even-begun").mkdir(parents=True)
    for name in ("html-1.json", "html-2.json", "progress.part"):
        (root / "_build/quick" / name).touch()
    (scratch / "tmpx").touch()
    names = ["_build/quick/chapters/.even-begun", "_build/quick/html-2.json", "_build/quick/progress.part"]
    assert soak.left(root, scratch) == [*names, "tmpx"]


def test_each_edit_of_the_soak_can_be_made():
    assert all(before in small_book.SMALL_BOOK[path] for path, before, _ in soak.EDITS.values())
