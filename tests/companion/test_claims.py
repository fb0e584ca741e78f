import math
import re

import numpy as np
import pytest
import yaml
from coding_schemes import paths
from companion import checks, claims, formats

CONTROL = claims.Control("labels shuffled", computed=0.9, passed=False)


@pytest.fixture
def shown(monkeypatch):
    """The mime bundles that `record` displays."""
    bundles = []
    monkeypatch.setattr(checks, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def test_record_is_that_of_a_check(shown):
    claims.record(
        "A4", "slope", np.float32(0.5), 1.0, 0.25, "2 s.e.", passed=True, control=CONTROL, note="N = 9"
    )
    found = np.float64(0.9)
    checks.check(
        "A4", "slope", 0.5, 1.0, 0.25, checks.standard_errors(2), control=("labels shuffled", found + 9)
    )
    old, new = (bundle[formats.CHECK_TYPE] for bundle in shown)
    assert old.keys() == new.keys()
    assert old["control"].keys() == new["control"].keys()
    assert (old["computed"], old["uncertainty"], old["note"]) == (0.5, 0.25, "N = 9")


def test_failed_check_is_kept_with_its_reason(shown):
    claims.record("A4", "slope", 2.0, expected=1.0, passed=False, control=CONTROL, note="N too small")
    assert shown[0][formats.CHECK_TYPE]["passed"] is False
    assert "N too small" in shown[0]["text/html"]


def test_failed_check_without_a_reason_is_refused(shown):
    with pytest.raises(ValueError, match="must give the reason"):
        claims.record("A4", "slope", 2.0, expected=1.0, passed=False, control=CONTROL)
    assert not shown


def test_control_that_passes_stops_the_chapter(shown):
    with pytest.raises(AssertionError, match=r"control \(labels shuffled\) did not fail"):
        claims.record("A4", "slope", 1.0, passed=True, control=CONTROL._replace(passed=np.True_))
    assert not shown


@pytest.mark.parametrize("bad", [math.nan, math.inf, [1.0, math.nan], [], object(), {"a": 1}])
@pytest.mark.parametrize("argument", ["computed", "expected", "uncertainty", "tolerance"])
def test_values_must_be_finite_numbers(shown, argument, bad):
    with pytest.raises(ValueError, match=f"{argument} must be"):
        claims.record(
            **({"id": "A4", "quantity": "slope", "computed": 1.0, "passed": True} | {argument: bad})
        )
    assert not shown


@pytest.mark.parametrize("bad", [math.nan, "no", 1, None])
def test_decision_must_be_a_bool(shown, bad):
    with pytest.raises(ValueError, match="passed must be a bool"):
        claims.record("A4", "slope", 1.0, passed=bad)
    with pytest.raises(ValueError, match="control.passed must be a bool"):
        claims.record("A4", "slope", 1.0, passed=True, control=CONTROL._replace(passed=bad))


def test_negative_uncertainty_is_refused(shown):
    with pytest.raises(ValueError, match="uncertainty must not be negative"):
        claims.record("A4", "slope", 1.0, uncertainty=-0.1, passed=True)


def test_every_chapter_is_held_to_its_quick_verdicts():
    root = paths.repository_root()
    chapter_of = {row["id"]: row["chapter"] for row in yaml.safe_load((root / "book/claims.yml").read_text())}
    on_record = yaml.safe_load((root / "book/verdicts.yml").read_text())["quick"]
    assert {path.stem for path in (root / "notebooks").glob("*.py")} <= {chapter_of[id] for id in on_record}


def test_list_of_claims_is_complete_and_in_order():
    rows = yaml.safe_load((paths.repository_root() / "book" / "claims.yml").read_text(encoding="utf-8"))
    letters = {"A": 33, "B": 13, "C": 11, "D": 6}
    assert [row["id"] for row in rows] == [
        f"{letter}{k}" for letter, n in letters.items() for k in range(1, n + 1)
    ]
    for row in rows:
        assert [key for key in row if key != "needs"] == ["id", "chapter", "claim", "published", "check"], (
            row["id"]
        )
        assert row.get("needs", "full") == "full", row["id"]
        assert re.fullmatch(r"[a-z_]+", row["chapter"]), row["id"]
        assert row["claim"].endswith("."), row["id"]
        assert (row["published"] is None) == row["id"].startswith("D"), row["id"]
        assert row["check"], row["id"]
