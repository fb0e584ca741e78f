"""A few trials of each kind of the campaign; `make faults` runs all of them."""

import pytest
from faults import builds, files, run, trials

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.key_reuse, pytest.mark.rank_promotion]
FAST = [trial for trial in trials.TRIALS if trial.fast]
EVERY = 3


def test_bad_arguments_are_named():
    rows = list(run.bad_arguments(every=EVERY))
    assert [row for row in rows if row.verdict != "survived"] == []
    assert sum(row.trials for row in rows) > 500


@pytest.mark.parametrize("trial", FAST, ids=lambda trial: trial.tried)
def test_one_of_a_kind(trial, tmp_path):
    came, verdict = trials.judged(trial, tmp_path / "trial")
    assert verdict == "survived", came


def test_every_trial_says_what_must_come():
    assert len(trials.TRIALS) > 150
    assert len({(t.kind, t.tried) for t in trials.TRIALS}) == len(trials.TRIALS)
    assert {t.kind for t in FAST} == {"Files", "Checks", "Parameters", "Shells"}
    assert files.TASK
    assert builds.HOSTILE


def test_what_was_seen_cannot_leave_its_cell():
    assert run.code("a | `b`\nc") == "`` a \\| `b` c ``"
