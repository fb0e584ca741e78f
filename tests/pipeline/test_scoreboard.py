"""Verdicts from records."""

import pytest
from book_pipeline.scoreboard import Row


@pytest.mark.parametrize(
    ("passed", "needs", "written", "verdict"),
    [
        ([True, True], None, True, "reproduced"),
        ([True, False], None, True, "partly"),
        ([False, True], None, True, "partly"),
        ([False, False], None, True, "not reproduced"),
        ([True, False], "full", True, "partly"),
        ([], "full", True, "needs the full preset"),
        ([], "full", False, "not yet"),
        ([], None, True, "not yet"),
    ],
)
def test_verdict_is_that_of_all_records(passed, needs, written, verdict):
    records = [{"passed": one} for one in passed]
    assert Row({"id": "A1", "needs": needs}, "even", records, written).verdict == verdict
