"""A finding: what it refuses, what it keeps, how it is judged, and what its figure says."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from companion import findings, formats, records
from companion.findings import Control, Estimate, Finding, less
from companion.predicates import above, absolute, equal, p_value, relative, standard_errors
from companion.workbench import Equilibrium

NAMES = ("1-1-0", "1-0-1")
GIVEN = {
    "sampled": Estimate(np.array([18.1, 5.9]), np.array([0.1, 0.2])),
    "theory": np.array([18.0, 6.0]),
    "over": NAMES,
    "size": {"N": 60, "P": 60, "T": 0.01, "networks": 16},
    "control": Control("theory at y₋ + 0.1", theory=np.array([15.0, 9.0])),
    "panel": "Paper A, Fig. 4a",
    "figure": "numbers",
    "headline": True,
}


def finding(**changes):
    return Finding("A8", "number of neurons with each code", **(GIVEN | changes))


@pytest.fixture
def shown(monkeypatch):
    """The mime bundles that findings display."""
    bundles = []
    monkeypatch.setattr(records, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def judged(shown, predicate, judge=None, **changes):
    finding(**changes).judge(predicate, **(judge or {}))
    return json.loads(json.dumps(shown[-1][formats.CHECK_TYPE]))


def test_a_difference_has_both_errors():
    found = less(Estimate(np.array([3.0, 5.0]), np.array([0.3, 0.0])), Estimate(1.0, 0.4))
    np.testing.assert_allclose(found, [[2, 4], [0.5, 0.4]])


def test_several_estimates_are_one_along_a_new_first_axis():
    rows = [Estimate(np.array([k, 2.0, 3.0]), np.array([0.1, k, 0.3])) for k in (4.0, 5.0)]
    found = findings.stacked(rows)
    np.testing.assert_array_equal(found.value, [[4, 2, 3], [5, 2, 3]])
    np.testing.assert_array_equal(found.error, [[0.1, 4, 0.3], [0.1, 5, 0.3]])


def test_record_has_every_field(shown):
    record = judged(shown, standard_errors(3), {"because": "1/N", "note": "half from either start"})
    assert record == {
        "id": "A8",
        "quantity": "number of neurons with each code",
        "computed": [18.1, 5.9],
        "expected": [18.0, 6.0],
        "uncertainty": [0.1, 0.2],
        "predicate": "within 3 s.e.",
        "passed": True,
        "worst": {"of": 2, "computed": 18.1, "expected": 18.0, "uncertainty": 0.1},
        "apart": pytest.approx(1),
        "control": {
            "description": "theory at y₋ + 0.1",
            "computed": [18.1, 5.9],
            "uncertainty": [0.1, 0.2],
            "expected": [15.0, 9.0],
            "passed": False,
            "spared": [],
            "because": "",
        },
        "sampler": None,
        "because": "1/N",
        "note": "half from either start",
        "stored": "",
        "lacking": "",
        "source": "theory",
        "headline": True,
        "size": {"N": 60, "P": 60, "T": 0.01, "networks": 16},
        "panel": "Paper A, Fig. 4a",
        "figure": "numbers",
    }
    assert records.state(record) == "passed"


@pytest.mark.parametrize("given", [{"id": "Z9"}, {"panel": "Paper A, Fig. 99"}])
@pytest.mark.parametrize("book", ["none", "another"])
def test_a_name_that_the_book_does_not_list_is_refused_in_it_and_taken_elsewhere(
    given, book, tmp_path, monkeypatch
):
    """Whoever installs the library has no list of claims, or no repository at all."""
    arguments = {"id": "A8", "quantity": "numbers"} | GIVEN | given
    with pytest.raises(ValueError, match=r"Z9|99"):
        Finding(**arguments)
    monkeypatch.setattr(records.paths, "repository_root", lambda: tmp_path if book == "another" else None)
    assert Finding(**arguments).theory is GIVEN["theory"]


def test_networks_without_scatter_meet_theory_exactly_or_leave_the_finding_open(shown):
    """Networks with three outliers each, as theory has, agree; with four each there is no error to go by."""
    other = Control("untrained", theory=np.array([5.0, 5.0]))
    for sampled, state in (([3.0, 3.1], "passed"), ([3.0, 3.4], "passed"), ([4.0, 3.1], "open")):
        record = judged(
            shown,
            standard_errors(3),
            sampled=Estimate(np.array(sampled), np.array([0.0, 0.5])),
            theory=np.array([3.0, 3.0]),
            control=other,
        )
        assert records.state(record) == state, sampled
    assert record["computed"] is None


@pytest.mark.parametrize(("value", "state"), [(-1.0, "passed"), (0.0, "open"), (1.0, "open")])
def test_a_control_without_scatter_misses_its_limit_or_leaves_the_finding_open(shown, value, state):
    """A rank correlation of −1 in every network is below 0 by any number of errors; one of 0 or 1 is not."""
    record = judged(
        shown,
        above(0, 3),
        sampled=Estimate(np.array([0.9, 0.8]), np.array([0.1, 0.1])),
        theory=None,
        control=Control("early", sampled=Estimate(np.array([-0.5, value]), np.array([0.1, 0.0]))),
    )
    assert records.state(record) == state


@pytest.mark.parametrize("predicate", [standard_errors(3), relative(0.02), absolute(0.2)])
def test_control_must_fail_in_every_element_or_say_beforehand_where_not(shown, predicate):
    one = Control("other task", theory=np.array([15.0, 6.0]))
    record = judged(shown, predicate, control=one)
    assert record["control"]["passed"] is True
    assert records.state(record) == "open"
    assert "Its control did not fail (other task)" in records.why(record)
    spared = dataclasses.replace(one, spared=("1-0-1",), because="rare in both")
    record = judged(shown, predicate, control=spared)
    assert records.state(record) == "passed"
    assert "not asked of 1-0-1: rare in both" in shown[-1]["text/html"]


def test_control_with_its_own_error_is_judged_with_it(shown):
    wide = Control("c", sampled=Estimate(np.array([19.0, 8.0]), np.array([1.0, 1.0])))
    assert judged(shown, standard_errors(3), control=wide)["control"]["passed"] is True
    sharp = Control("c", sampled=Estimate(np.array([19.0, 8.0]), np.array([0.1, 0.1])))
    assert judged(shown, standard_errors(3), control=sharp)["control"]["passed"] is False


def test_a_limit_that_hides_many_standard_errors_counts_in_part(shown):
    """And a limit in standard errors hides nothing."""
    off = Estimate(np.array([18.6, 6.0]), np.array([0.1, 0.2]))
    record = judged(shown, relative(0.1), {"because": "order 1/N²"}, sampled=off)
    assert record["apart"] == pytest.approx(6)
    assert records.state(record) == "partly"
    assert records.why(record) == "The value lies 6 standard errors away, though within 10 %: order 1/N²"
    assert records.state(judged(shown, standard_errors(3), sampled=off)) == "failed"


MET, APART = (
    SimpleNamespace(agree=True, verdict="meet"),
    SimpleNamespace(agree=False, verdict="19 s.e. apart"),
)


@pytest.mark.parametrize(
    ("sampler", "state", "found"),
    [
        (None, "met", "passed"),
        (MET, "met", "passed"),
        (SimpleNamespace(converged=np.False_, verdict="R-hat 1.4"), "not shown", "open"),
        ([MET, APART], "not shown", "open"),
        (Equilibrium(True, "each", each=True), "each", "passed"),
        (Equilibrium.of(False, 16, "differ"), "each", "passed"),
        (Equilibrium.of(False, 4, "differ"), "not shown", "open"),
    ],
)
def test_sampler_has_three_states(shown, sampler, state, found):
    record = judged(shown, standard_errors(3), sampler=sampler)
    assert records.sampler_state(record) == state
    assert records.state(record) == found


def test_where_starts_do_not_meet_each_has_to_pass_by_itself(shown):
    near = Estimate(np.array([18.0, 6.0]), np.array([0.2, 0.3]))
    far = Estimate(np.array([19.0, 6.0]), np.array([0.2, 0.3]))
    for starts, state in (((near, near), "each"), ((near, far), "not shown"), ((far, near), "not shown")):
        record = judged(shown, standard_errors(3), sampler=APART, starts=starts)
        assert records.sampler_state(record) == state
    assert "Equilibrium is not shown: 19 s.e. apart" in shown[-1]["text/html"]
    assert "each start by itself passes, the two do not meet: 19 s.e. apart" in shown[-3]["text/html"]


@pytest.mark.parametrize(
    "changes",
    [
        {"sampled": Estimate(np.array([np.nan, 6.0]), np.array([0.1, 0.2]))},
        {"sampled": Estimate(np.array([18.0, 6.0]), np.array([0.1, np.inf]))},
        {"sampled": Estimate(np.array([18.0, 6.1]), np.array([0.1, 0.0]))},
        {"theory": np.array([np.inf, 6.0])},
    ],
)
def test_numbers_that_a_readers_sizes_spoil_leave_it_open(shown, changes):
    record = judged(shown, standard_errors(3), **changes)
    assert records.state(record) == "open"
    assert records.why(record) == "It cannot be computed at these sizes."
    assert record["computed"] is None


def test_what_larger_sizes_would_decide_is_open(shown):
    record = judged(shown, standard_errors(3), lacking="It needs N = 200.")
    assert (records.state(record), records.why(record)) == ("open", "It needs N = 200.")


def test_texts_are_judged_as_a_whole(shown):
    codes = {"sampled": ["1-1-0", "1-0-1"], "theory": ["1-1-0", "1-0-1"], "over": ()}
    control = Control("hot", sampled=["1-1-1"])
    assert records.state(judged(shown, equal(), control=control, **codes)) == "passed"
    assert "(1-1-0, 1-0-1)" in shown[0]["text/html"]
    with pytest.raises(ValueError, match="must be numbers"):
        finding(control=control, **codes).judge(p_value(0.01))


def test_a_failed_finding_stands_open_with_its_reason(shown):
    off = {"sampled": Estimate(np.array([19.0, 6.0]), np.array([0.1, 0.2]))}
    record = judged(shown, standard_errors(3), {"because": "N is too small"}, **off)
    assert (records.state(record), records.why(record)) == ("failed", "N is too small")
    assert '<details class="check check-failed" open>' in shown[0]["text/html"]
    assert "No reason is known" in records.why(judged(shown, standard_errors(3), **off))


@pytest.fixture
def drawn(monkeypatch):
    """What findings publish."""
    published = []
    monkeypatch.setattr(findings, "publish", lambda *given, **named: published.append((given, named)))
    return published


def test_the_figure_shows_what_is_judged(drawn):
    one = finding()
    one.bars("Two groups.", points={"independent": np.array([9.0, 9.0])}, ylabel="number")
    ((_, name), given) = drawn[0]
    assert name == "numbers"
    assert given["caption"] == "Two groups."
    assert given["tail"] == "N = P = 60, T = 0.01, 16 networks. Paper A, Fig. 4a."
    assert given["counterparts"] == ["A 4a"]
    assert given["values"] is one.sampled.value
    assert given["errors"] is one.error
    assert given["groups"] == list(NAMES)
    assert given["point_names"] == ["theory", "independent"]
    assert given["points"][0] is one.theory


def test_a_figure_without_a_panel_says_so(drawn):
    finding(panel="", size={"N": [30, 60], "P": [30, 60], "note": "cooled"}).bars("Two groups.")
    assert drawn[0][1]["tail"] == "N = P = 30, 60, cooled note. In none of the papers."
