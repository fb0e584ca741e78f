import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from coding_schemes import paths
from companion import checks, formats
from companion.checks import (
    Control,
    above,
    absolute,
    below,
    beside,
    between,
    check,
    equal,
    p_value,
    relative,
    standard_errors,
)

WRONG = ("labels shuffled", np.float64(9.0))
PREDICATES = (standard_errors(3), relative(0.1), absolute(0.2))


@pytest.fixture
def shown(monkeypatch):
    """The mime bundles that a check displays."""
    bundles = []
    monkeypatch.setattr(checks, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def record(shown):
    (bundle,) = shown
    return json.loads(json.dumps(bundle[formats.CHECK_TYPE]))


@pytest.mark.parametrize(
    ("predicate", "text", "inside", "outside"),
    [
        (standard_errors(3), "within 3 s.e.", ([1.29, 0.71], 1.0, 0.1), ([1.0, 1.31], 1.0, 0.1)),
        (relative(0.1), "within 10 %", ([-2.19], -2.0), ([-2.21], -2.0)),
        (absolute(0.02), "within 0.02", ([1.0, 1.019], 1.0), ([1.0, 1.021], 1.0)),
        (above(0.99), "> 0.99", ([0.991, 1.0],), ([0.99, 1.0],)),
        (above([0.8, 0.9]), "> (0.8, 0.9)", ([0.81, 0.91],), ([0.91, 0.81],)),
        (below(0.05), "< 0.05", (0.049,), (0.05,)),
        (between(0.2, 0.3), "between 0.2 and 0.3", ([0.2, 0.3],), (0.31,)),
        (p_value(0.01), "p > 0.01", ([0.011, 1.0],), ([0.5, 0.01],)),
        (equal(), "exactly", (["1-1-0", "0-1-1"], ["1-1-0", "0-1-1"]), (["1-1-0"], ["1-1-0", "0-1-1"])),
        (
            standard_errors(1) | relative(0.5),
            "within 1 s.e. or within 50 %",
            (1.4, 1.0, 0.1),
            (1.6, 1.0, 0.1),
        ),
    ],
)
def test_predicate_decides_and_prints_itself(predicate, text, inside, outside):
    assert predicate.text == text
    assert predicate(*inside) is True
    assert predicate(*outside) is False


@pytest.mark.parametrize(
    "make",
    [
        lambda: standard_errors(0),
        lambda: relative(-1),
        lambda: absolute(math.nan),
        lambda: above(math.inf),
        lambda: between(1, 1),
        lambda: p_value(1.0),
    ],
)
def test_predicate_refuses_a_limit_that_cannot_decide(make):
    with pytest.raises(ValueError, match=r"must (be|lie)"):
        make()


def test_record_has_every_field(shown):
    convergence = SimpleNamespace(converged=True, verdict="R-hat 1.01")
    check(
        "A5",
        "slopes",
        np.array([0.5, 1.25]),
        np.float32(0.5),
        np.array([0.1, 0.5]),
        standard_errors(3),
        control=("labels shuffled", np.array([0.5, 9.0]), np.array([0.1, 0.2])),
        note="N = 200",
        sampler=convergence,
        stored="data/results/a.npz",
        source="published",
    )
    assert record(shown) == {
        "id": "A5",
        "quantity": "slopes",
        "computed": [0.5, 1.25],
        "expected": 0.5,
        "uncertainty": [0.1, 0.5],
        "predicate": "within 3 s.e.",
        "passed": True,
        "worst": {"of": 2, "computed": 1.25, "expected": 0.5, "uncertainty": 0.5},
        "control": {
            "description": "labels shuffled",
            "computed": [0.5, 9.0],
            "uncertainty": [0.1, 0.2],
            "expected": None,
            "passed": False,
        },
        "sampler": {"converged": True, "verdict": "R-hat 1.01"},
        "because": "",
        "note": "N = 200",
        "stored": "data/results/a.npz",
        "source": "published",
    }


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


def test_many_elements_are_one_line_by_the_one_closest_to_failing(shown):
    values = np.array([[1.0, 1.02], [1.29, 1.0]])
    check("A4", "moments", values, 1.0, 0.1, standard_errors(3), control=("prior", values + 9))
    assert "worst of 4: <b>1.29(10)</b> … theory 1 · within 3 s.e." in shown[0]["text/html"]


def test_failed_check_stands_open_with_its_reason(shown):
    check("A4", "slope", 2.0, 1.0, absolute(0.1), control=WRONG, because="N is too small")
    page = shown[0]["text/html"]
    assert '<details class="check check-failed" open>' in page
    assert '<p class="check-reason">N is too small</p>' in page
    assert record(shown)["passed"] is False


def test_reason_of_a_check_that_passes_is_not_shown(shown):
    check("A4", "slope", 1.0, 1.0, absolute(0.1), control=WRONG, because="N is too small")
    assert "too small" not in shown[0]["text/html"]


def test_failed_check_without_a_reason_says_so(shown):
    check("A4", "slope", 2.0, 1.0, absolute(0.1), control=WRONG)
    assert "No reason is known" in shown[0]["text/html"]


@pytest.mark.parametrize(
    "sampler",
    [
        SimpleNamespace(converged=np.False_, verdict="R-hat 1.4"),
        SimpleNamespace(converged=False, verdict="equilibrium not shown: R-hat 1.4"),
        SimpleNamespace(agree=False, verdict="R-hat 1.4"),
        (SimpleNamespace(converged=True, verdict="fine"), SimpleNamespace(agree=False, verdict="R-hat 1.4")),
    ],
)
def test_without_equilibrium_a_check_is_at_most_partly(shown, sampler):
    check("A4", "slope", 1.0, 1.0, absolute(0.1), control=WRONG, sampler=sampler)
    assert checks.state(record(shown)) == "partly"
    assert '<details class="check check-partly"><summary>' in shown[0]["text/html"]
    assert "· equilibrium not shown</summary>" in shown[0]["text/html"]
    assert "Equilibrium is not shown: R-hat 1.4" in shown[0]["text/html"]


def test_sampler_must_say_whether_it_converged(shown):
    with pytest.raises(ValueError, match="sampler must be a Convergence or TwoEnded"):
        check("A4", "slope", 1.0, 1.0, absolute(0.1), control=WRONG, sampler="yes")


@pytest.mark.parametrize("predicate", [standard_errors(3), relative(0.1), absolute(0.2)])
def test_a_control_that_passes_leaves_the_check_unsettled_and_the_run_goes_on(shown, predicate):
    check("A4", "slope", 1.0, 1.0, 0.1, predicate, control=("lazy", np.float64(1.01)))
    assert record(shown)["control"]["passed"] is True
    assert checks.state(record(shown)) == "partly"
    assert "Its control did not fail" in shown[0]["text/html"]
    assert "lazy: 1.01, does not fail, as it should" in shown[0]["text/html"]


@pytest.mark.parametrize(("error", "state"), [(1.0, "partly"), (0.1, "passed")])
def test_control_with_its_own_error_is_judged_with_it(shown, error, state):
    control = ("lazy", np.float64(2), np.float64(error))
    check("A4", "slope", 1.0, 1.0, 0.1, standard_errors(3), control=control)
    assert checks.state(record(shown)) == state


def test_control_may_alter_the_theory(shown):
    altered = Control("theory at T + 1", expected=np.float64(2.0))
    check("A4", "slope", 1.0, 1.0, absolute(0.1), control=altered)
    assert "theory at T + 1: 1, theory 2, fails as it should" in shown[0]["text/html"]
    check("A4", "slope", 1.0, 1.0, absolute(0.1), control=altered._replace(expected=np.float64(1.05)))
    assert shown[1][formats.CHECK_TYPE]["control"]["passed"] is True


@pytest.mark.parametrize(
    ("control", "complaint"),
    [
        (("exponent 0", 0.0), "must be computed too"),
        (("exponents 0", [0.0, 0]), "must be computed too"),
        ((" ", np.float64(0)), "must describe what was altered"),
        (("nothing",), "must differ from the check"),
        (("the same", np.float64(5.0)), "must differ from the check"),
        (("not a number", np.float64(np.nan)), "must be finite"),
    ],
)
def test_control_that_controls_nothing_is_refused(shown, control, complaint):
    with pytest.raises(ValueError, match=complaint):
        check("A4", "exponent", 5.0, 5.0, absolute(0.1), control=control)
    assert not shown


def test_an_estimate_stands_beside_what_it_should_be(shown):
    check("A5", "slope", *beside((np.float64(1.2), 0.1), 1.0), standard_errors(3), control=WRONG)
    found = record(shown)
    assert (found["computed"], found["expected"], found["uncertainty"]) == (1.2, 1.0, 0.1)


def test_counts_and_texts_may_have_plain_controls(shown):
    check("A8", "codes", 4, 4, equal(), control=("above the critical temperature", 1))
    check("A8", "codes", ["1-0", "0-1"], ["1-0", "0-1"], equal(), control=("hot", ["1-0"]))
    assert "(1-0, 0-1)" in shown[1]["text/html"]


def test_control_is_required():
    with pytest.raises(TypeError, match="control"):
        check("A4", "slope", 1.0, 1.0, absolute(0.1))


@pytest.mark.parametrize("bad", [math.nan, math.inf, [1.0, math.nan], [], object(), {"a": 1}, None])
@pytest.mark.parametrize("argument", ["computed", "expected", "error"])
def test_values_must_be_finite_numbers(shown, argument, bad):
    given = {"computed": 1.0, "expected": 1.0, "error": 0.1} | {argument: bad}
    with pytest.raises(ValueError, match=f"{argument} (.*must be|is needed)"):
        check("A4", "slope", *given.values(), standard_errors(3), control=WRONG)
    assert not shown


@pytest.mark.parametrize(
    ("error", "predicate"), [(-0.1, above(0.5)), ([0.1, -1], above(0.5)), (0, standard_errors(3))]
)
def test_error_must_be_positive(shown, error, predicate):
    with pytest.raises(ValueError, match="error .* must be positive"):
        check("A4", "slope", [1.0, 1.0], 1.0, error, predicate, control=("none", np.array([0.1, 0.2])))


def test_last_argument_must_be_a_predicate():
    with pytest.raises(ValueError, match="against .* must be .*predicate"):
        check("A4", "slope", 1.0, 1.0, 0.1, control=WRONG)


def test_p_values_lie_between_0_and_1(shown):
    with pytest.raises(ValueError, match="computed must be p-values"):
        check("A4", "fit", 1.5, p_value(0.01), control=("prior", np.float64(0.0)))


def test_unknown_id_is_refused(shown):
    with pytest.raises(ValueError, match=r"id must be a claim of book/claims\.yml.*got 'A99'"):
        check("A99", "slope", 1.0, 1.0, absolute(0.1), control=WRONG)


def test_outside_the_repository_any_id_is_taken(shown, monkeypatch):
    monkeypatch.setattr(paths, "repository_root", lambda: None)
    check("mine", "slope", 1.0, 1.0, absolute(0.1), control=WRONG)
    assert record(shown)["id"] == "mine"
