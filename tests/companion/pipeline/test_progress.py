"""What a build says of the time it has left."""

import json
from types import SimpleNamespace

import pytest
from companion.pipeline import progress

NOW = 1000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(progress.time, "time", lambda: NOW)


@pytest.mark.parametrize(
    ("steps", "current", "spent", "left"),
    [
        ([10.0, 20.0, 30.0], 0, 4.0, 56.0),  # the rest of this one, and those after
        ([10.0, 20.0, 30.0], 2, 4.0, 26.0),
        ([10.0, 20.0, 30.0], 2, 40.0, 0.0),  # slower than the last time
        ([10.0, 20.0, 30.0], 0, 15.0, 50.0),  # which the others need not be
        ([10.0, None, 30.0], 0, 0.0, 60.0),  # one that never ran counts as the mean
        ([10.0, 20.0], -1, 0.0, 30.0),
        ([None, None], 0, 1.0, None),
    ],
)
def test_time_left_of_a_job(steps, current, spent, left):
    state = {"steps": steps, "current": current, "step_started": NOW - spent}
    assert progress._job_left(state) == left
    line = progress._describe("even", state | {"started": NOW - 60})
    assert line.startswith(f"even: cell {max(current, 0) + 1}/{len(steps)}, ")
    assert ("left" in line) == (left is not None)  # also where none should be


@pytest.mark.parametrize("steps", ["abcd", "dcba", "bxd"])
def test_a_job_expects_of_each_step_what_it_took_before_wherever_it_stands_now(tmp_path, monkeypatch, steps):
    took, now = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0}, [NOW]
    monkeypatch.setattr(progress.time, "time", lambda: now[0])
    before = progress.Progress(tmp_path, "even")
    before.begin(took)
    for index, seconds in enumerate(took.values()):
        before.cell(index)
        now[0] += seconds
        before.cell_done()
    before.end()
    progress.Progress(tmp_path, "even").begin(steps)
    state = json.loads((tmp_path / "progress/even.json").read_text())
    assert state["steps"] == [took.get(step) for step in steps]


def test_output_that_goes_to_a_file_has_whole_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress.sys, "stdin", SimpleNamespace(isatty=lambda: True))  # typed at a terminal
    progress.Display(tmp_path, ["even"], 1)._say("even: done")
    assert capsys.readouterr().out == "even: done\n"


@pytest.mark.parametrize(("terminal", "told"), [(False, [0, 10, 25]), (True, [0, 0.5, 9.9, 10, 19.9, 25])])
def test_a_line_comes_now_and_then_and_on_a_terminal_at_each_look(
    tmp_path, monkeypatch, capsys, terminal, told
):
    """Told after 10 s or more, at the first look then; what is done is told at once, and once."""
    now, display = [NOW], progress.Display(tmp_path, ["runs", "done"], 2)
    monkeypatch.setattr(progress.time, "time", lambda: now[0])
    display._terminal = terminal
    runs, done = (progress.Progress(tmp_path, name) for name in ("runs", "done"))
    runs.begin("a")
    done.begin("a")
    done.end()
    said = {}
    for after in (0, 0.5, 9.9, 10, 19.9, 25):
        now[0] = NOW + after
        display._update()
        said[after] = capsys.readouterr().out
    assert [after for after, text in said.items() if "runs: " in text] == told
    assert [after for after, text in said.items() if "done: done in 0 s" in text] == [0]


def test_what_runs_is_looked_at_within_a_second(tmp_path, monkeypatch):
    """On a terminal its line moves then, and a job that is done is told, however rare a log's lines are."""
    display, waited, looks = progress.Display(tmp_path, ["runs"], 1), [], []
    monkeypatch.setattr(display._stop, "wait", lambda seconds: waited.append(seconds) or len(waited) == 4)
    monkeypatch.setattr(display, "_update", lambda: looks.append(len(waited)))
    display._watch()
    assert looks == [1, 2, 3]
    assert 0 < max(waited) <= 1


def test_time_left_of_a_build_is_that_of_its_longest_job_or_of_all_over_the_workers(tmp_path):
    (tmp_path / "durations").mkdir()
    for name, seconds in (("waits", 100.0), ("runs", 60.0)):
        (tmp_path / f"durations/{name}.json").write_text(json.dumps({"a": seconds}))
    display = progress.Display(tmp_path, ["waits", "runs"], 2)
    running = {"state": "running", "steps": [60.0], "current": 0, "step_started": NOW - 20}
    assert display._left({"waits": {}, "runs": running}) == 100
    assert display._left({"waits": {}, "runs": {"state": "done"}}) == 100
    display._concurrent = 1
    assert display._left({"waits": {}, "runs": running}) == 140
    assert display._left({"waits": {}, "new": {}}) is None
