"""Checks of chapters that have not moved: what they ask less than a finding does, and the same line."""

import json

import numpy as np
import pytest
from coding_schemes import paths
from companion import formats, records
from companion.checks import Control, above, absolute, beside, check, relative, standard_errors

WRONG = ("labels shuffled", np.float64(9.0))


@pytest.fixture
def shown(monkeypatch):
    """The mime bundles that a check displays."""
    bundles = []
    monkeypatch.setattr(records, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def record(shown):
    (bundle,) = shown
    return json.loads(json.dumps(bundle[formats.CHECK_TYPE]))


def test_strip_is_one_line_with_its_permalink_and_unfolds(shown, monkeypatch):
    monkeypatch.setenv("CODING_SCHEMES_CHAPTER", "analog")
    check("A4", "covariance of <a>", 0.697, 0.7, 0.004, standard_errors(3), control=WRONG)
    page = shown[0]["text/html"]
    line, _, rest = page.partition("</summary>")
    link, _, line = line.partition('<details class="check check-passed"><summary>')
    assert link.endswith('<a href="../book/scoreboard.html#claim-a4">A4</a>')
    assert " covariance of &lt;a&gt;: " in line
    assert "<b>0.6970(40)</b> … theory 0.7 · within 3 s.e." in line
    assert "<dt>control</dt><dd>labels shuffled: 9, fails as it should</dd>" in rest


@pytest.mark.parametrize("predicate", [standard_errors(3), relative(0.1), absolute(0.2)])
def test_a_control_that_passes_leaves_the_check_unsettled_and_the_run_goes_on(shown, predicate):
    check("A4", "slope", 1.0, 1.0, 0.1, predicate, control=("lazy", np.float64(1.01)))
    assert record(shown)["control"]["passed"] is True
    assert records.state(record(shown)) == "open"
    assert "Its control did not fail" in shown[0]["text/html"]
    assert "lazy: 1.01, does not fail, as it should" in shown[0]["text/html"]


@pytest.mark.parametrize(("error", "state"), [(1.0, "open"), (0.1, "passed")])
def test_control_with_its_own_error_is_judged_with_it(shown, error, state):
    control = ("lazy", np.float64(2), np.float64(error))
    check("A4", "slope", 1.0, 1.0, 0.1, standard_errors(3), control=control)
    assert records.state(record(shown)) == state


def test_control_may_alter_the_theory(shown):
    altered = Control("theory at T + 1", expected=np.float64(2.0))
    check("A4", "slope", 1.0, 1.0, absolute(0.1), control=altered)
    assert "theory at T + 1: 1, theory 2, fails as it should" in shown[0]["text/html"]
    check("A4", "slope", 1.0, 1.0, absolute(0.1), control=altered._replace(expected=np.float64(1.05)))
    assert shown[1][formats.CHECK_TYPE]["control"]["passed"] is True


def test_an_estimate_stands_beside_what_it_should_be(shown):
    check("A5", "slope", *beside((np.float64(1.2), 0.1), 1.0), standard_errors(3), control=WRONG)
    found = record(shown)
    assert (found["computed"], found["expected"], found["uncertainty"]) == (1.2, 1.0, 0.1)


def test_a_control_needs_to_fail_in_one_element_only(shown):
    control = ("prior", np.array([1.0, 9.0]))
    check("A4", "moments", np.array([1.0, 1.1]), 1.0, 0.1, standard_errors(3), control=control)
    assert records.state(record(shown)) == "passed"
    assert record(shown)["size"] == {}


def test_control_is_required():
    with pytest.raises(TypeError, match="control"):
        check("A4", "slope", 1.0, 1.0, absolute(0.1))


@pytest.mark.parametrize(("error", "predicate"), [(-0.1, above(0.5)), ([0.1, -1], above(0.5))])
def test_error_must_be_positive(shown, error, predicate):
    with pytest.raises(ValueError, match="error .* must be positive"):
        check("A4", "slope", [1.0, 1.0], 1.0, error, predicate, control=("none", np.array([0.1, 0.2])))


def test_last_argument_must_be_a_predicate():
    with pytest.raises(ValueError, match="against .* must be .*predicate"):
        check("A4", "slope", 1.0, 1.0, 0.1, control=WRONG)


def test_unknown_id_is_refused(shown):
    with pytest.raises(ValueError, match=r"id must be a claim of book/claims\.yml.*got 'A99'"):
        check("A99", "slope", 1.0, 1.0, absolute(0.1), control=WRONG)


def test_outside_the_repository_any_id_is_taken(shown, monkeypatch):
    monkeypatch.setattr(paths, "repository_root", lambda: None)
    check("mine", "slope", 1.0, 1.0, absolute(0.1), control=WRONG)
    assert record(shown)["id"] == "mine"
