"""What a build is held to: verdicts and numbers on record."""

import json

import pytest
import yaml
from companion.pipeline import accepted, scoreboard
from companion.pipeline.project import BuildError

from tests.companion.pipeline.test_scoreboard import (  # noqa: F401
    BLIND,
    FAILED,
    HEADLINE,
    RECORD,
    UNSETTLED,
    executed,
)

# ruff: noqa: F811


def test_the_book_on_record_is_not_built_from_a_control_that_passes(executed):
    project = executed(BLIND)
    with pytest.raises(BuildError, match=r"did not fail.*\n  A1 \(even\) twice two"):
        accepted.check(project, scoreboard.rows(project))


def test_beside_a_check_that_fails_such_a_control_hides_nothing(executed):
    project = executed(BLIND | {"passed": False, "because": "two is even"})
    accepted.check(project, scoreboard.rows(project))


def test_nor_from_a_check_that_fails_without_a_reason(executed):
    project = executed(FAILED | {"because": " "})
    with pytest.raises(BuildError, match=r"without a reason.*\n  A1 \(even\) twice two"):
        accepted.check(project, scoreboard.rows(project))


def off(errors, predicate="within 3 s.e."):
    """A check that fails by so many standard errors of 0.1, at 4."""
    return FAILED | {
        "predicate": predicate,
        "computed": 4 + 0.1 * errors,
        "expected": 4.0,
        "uncertainty": 0.1,
    }


@pytest.mark.parametrize(
    ("record", "before", "refused"),
    [
        (RECORD, "in part", False),
        (UNSETTLED, "reproduced", False),  # another processor's trajectories
        (UNSETTLED, "refuted", True),
        (FAILED, "reproduced", True),
        (off(3.5), "reproduced", False),  # one of hundreds of numbers
        (off(5.5), "reproduced", True),
        (off(5.5, "within 3 s.e. or within 20 %"), "reproduced", False),
        (off(1, "within 0.05"), "reproduced", True),
        (off(2.5, "within 2 %"), "reproduced", False),  # the limit is 0.8 errors
        (off(3.5, "within 2 %"), "reproduced", True),
        (off(1, "within 2 %") | {"uncertainty": None}, "reproduced", True),
        (off(22.5, "within 50 %"), "reproduced", True),  # of theory's 4, not of what was found
        (chance := FAILED | {"predicate": "p > 0.01", "computed": [0.3, 1e-4]}, "reproduced", False),
        (chance | {"computed": [0.3, 1e-6]}, "reproduced", True),
    ],
)
def test_a_verdict_may_differ_by_whether_equilibrium_is_shown_or_by_chance(
    executed, tmp_path, record, before, refused, capsys
):
    project = executed(record)
    (tmp_path / "book" / "verdicts.yml").write_text(f"quick: {{A1: {before}}}\n")
    if refused:
        with pytest.raises(BuildError, match="A1"):
            accepted.check(project, scoreboard.rows(project))
    else:
        accepted.check(project, scoreboard.rows(project))
        assert f"A1 (even): {before} on record" in capsys.readouterr().err


def test_one_check_that_fails_by_chance_excuses_no_other(executed, tmp_path):
    project = executed(off(3.5), off(6.5) | {"quantity": "another"})
    (tmp_path / "book" / "verdicts.yml").write_text("quick: {A1: reproduced}\n")
    with pytest.raises(BuildError, match="A1"):
        accepted.check(project, scoreboard.rows(project))


@pytest.mark.parametrize(("preset", "kept"), [("quick", False), ("paper", True)])
def test_records_of_the_paper_preset_are_kept_beside_the_verdicts(executed, preset, kept, tmp_path):
    accepted.accept(executed(RECORD, preset=preset))
    assert yaml.safe_load((tmp_path / "book/verdicts.yml").read_text()) == {preset: {"A1": "reproduced"}}
    path = tmp_path / "book/_static/paper/even/kept.json"
    assert path.exists() == kept
    if kept:
        assert json.loads(path.read_text())["records"] == [RECORD]


def test_kept_records_of_a_chapter_that_has_not_run_stay(executed, tmp_path):
    project = executed(RECORD, preset="paper")
    accepted.accept(project)
    project.chapters[0].notebook.unlink()
    accepted.accept(project)
    kept = json.loads((tmp_path / "book/_static/paper/even/kept.json").read_text())
    assert kept["records"] == [RECORD]


NUMBER = HEADLINE | {"size": {"networks": 8}, "uncertainty": 0.1, "predicate": "within 3 s.e."}
CERTAIN = RECORD | {"expected": None, "predicate": "< 1"}  # its control is at 6, two from it


def test_numbers_are_put_on_record_and_others_refused(executed, tmp_path):
    project, path = executed(NUMBER), tmp_path / "book/numbers-quick.json"
    accepted.accept(project)
    accepted.check(project, scoreboard.rows(project))
    (held,) = json.loads(path.read_text())["even"]
    path.write_text(json.dumps({"even": [held | {"computed": 8.0}]}))
    with pytest.raises(BuildError, match=r"A1 \(even\) twice two: 8.00\(10\).* on record, now 4.00\(10\)"):
        accepted.check(project, scoreboard.rows(project))
    accepted.accept(project)
    assert json.loads(path.read_text()) == {"even": [held]}
    project.chapters[0].notebook.unlink()  # what has not run stays
    accepted.accept(project)
    assert json.loads(path.read_text()) == {"even": [held]}


def control(**altered):
    return {"control": RECORD["control"] | altered}


@pytest.mark.parametrize(
    ("record", "altered", "refused"),
    [
        # Student's t with 14 degrees of freedom: 8.1 errors of the difference; of 2 networks with 2, 1000
        (NUMBER, {"computed": 4 + 7.9 * 2**0.5 / 10}, False),
        (NUMBER, {"computed": 4 + 8.3 * 2**0.5 / 10}, True),
        (NUMBER | {"size": {"networks": [8, 2]}}, {"computed": 140.0}, False),
        (NUMBER | {"size": {"networks": "eight"}}, {"computed": 4 + 5.0 * 2**0.5 / 10}, True),
        (NUMBER | {"size": {"N": 60}}, {"computed": 4 + 5.0 * 2**0.5 / 10}, True),  # errors are exact
        (NUMBER | {"size": {"N": 60}}, {"computed": 4 + 4.8 * 2**0.5 / 10}, False),
        (NUMBER, {"expected": 4.14}, False),  # theory of sampled networks
        (NUMBER, {"expected": 4.16}, True),
        (NUMBER, {"computed": None}, True),
        (NUMBER, control(computed=6.1), False),  # a number of chains without an error
        (NUMBER | control(uncertainty=0.1), control(computed=9.0, uncertainty=0.1), True),
        (NUMBER | control(expected=5.0, uncertainty=0.1), control(expected=5.2, uncertainty=0.1), True),
        (
            NUMBER | control(expected=5.0, uncertainty=[0.1, 0.2]),
            control(expected=5.2, uncertainty=0.1),
            False,
        ),
        (CERTAIN, {"computed": 4.7}, False),  # its limit is three away
        (CERTAIN, {"computed": 3.2}, True),
        (CERTAIN | {"predicate": "odd"}, {"computed": 4.4}, False),
        (CERTAIN | {"predicate": "odd"}, {"computed": 3.4}, True),
        (CERTAIN | {"predicate": "p > 0.01"}, {"computed": 3.4}, False),
        (CERTAIN | {"sampler": {"state": "met", "verdict": ""}}, {"computed": 3.4}, False),
        (RECORD, {"expected": 4.00001}, True),
        (RECORD, {"expected": 4.000001}, False),
        (RECORD | {"computed": [4.0, 4.0]}, {"computed": [4.0, 4.0, 4.0]}, True),
        (RECORD | {"computed": ["1-0"]}, {"computed": ["0-1"]}, False),
        (RECORD, {"quantity": "thrice two"}, True),
    ],
)
def test_a_number_may_move_by_chance_alone(record, altered, refused):
    lines = accepted.moved([record], [record | altered])
    assert bool(lines) == refused, lines


def test_what_is_new_and_what_is_gone_is_named():
    new = RECORD | {"quantity": "thrice two"}
    lines = ["thrice two: found, not on record", "twice two: on record, not found"]
    assert accepted.moved([RECORD], [new]) == lines
