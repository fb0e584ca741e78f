import pytest
import small_book
from companion import records


@pytest.mark.parametrize(
    ("caption", "panels"),
    [
        ("Paper A, Fig. 2.", {"A 2"}),
        ("On the task of paper A's Fig. 3, N = P = 80, L = 3. Paper A, text.", set()),
        ("Paper A′, Figs 5a–d and 4F.", {"A′ 5a", "A′ 5b", "A′ 5c", "A′ 5d", "A′ 4f"}),
        ("Paper C, Figs 9, 13 and\n14b, c.", {"C 9", "C 13", "C 14b", "C 14c"}),
    ],
)
def test_panels_named_in_a_caption(caption, panels):
    assert records.cited(caption) == panels


@pytest.mark.parametrize(
    ("panel", "places"),
    [
        ("Paper A, Figs 2b and 4a; paper A, text", ["A 2b", "A 4a"]),
        ("Paper A, Fig. 3", ["A 3"]),
        ("Paper A, supplement E, descent without noise", ["A supplement E, descent without noise"]),
        ("Paper A, Discussion", []),
        ("", []),
    ],
)
def test_places_in_the_papers(panel, places):
    assert records.placed(panel) == places


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ({"N": 60, "P": 60, "T": 0.01, "networks": 16}, "N = P = 60, T = 0.01, 16 networks"),
        ({"N": [30, 60], "P": 20, "y₋": -0.5}, "N = 30, 60, P = 20, y₋ = −0.5"),
        ({"1/β": 0.02, "|dx|²": 1.0, "networks": 1}, "1/β = 0.02, |dx|² = 1, 1 network"),
        ({"T": 0.0125, "P": [1536, 1540]}, "T = 0.0125, P = 1536, 1540"),
        ({"P": [40, 40], "L": [1, 2, 1], "networks": [20, 20]}, "P = 40, L = 1, 2, 1, 20 networks"),
    ],
)
def test_sizes_as_a_caption_says_them(size, said):
    assert records.sizes(size) == said


OPEN = small_book.RECORD | {"quantity": "q", "sampler": {"state": "not shown", "verdict": "R-hat 1.4"}}


def test_a_record_says_what_was_asked_for():
    assert records.state(OPEN) == "open"
    assert "<dt>asked for</dt><dd>exactly</dd>" in records.details_html(OPEN)


@pytest.mark.parametrize(("number", "text"), [(0.0, "0.00(10)"), ([0.0], "0.00(10)"), (None, "nothing")])
def test_a_number_that_is_zero_is_told_as_one(number, text):
    told = dict(records.details(OPEN | {"computed": number, "expected": 0.0, "uncertainty": 0.1}))
    assert told["computed"] == text
    assert told[OPEN["source"]] == "0"


def test_many_elements_are_one_line_by_the_one_closest_to_failing():
    worst = {"of": 4, "computed": 1.29, "expected": 1.0, "uncertainty": 0.1}
    line = records.headline(OPEN | {"computed": [[1.0, 1.02], [1.29, 1.0]], "worst": worst})
    assert line == "worst of 4: <b>1.29(10)</b> … theory 1"
    assert records.headline(OPEN | {"computed": [5, 6, 6, 6]}).startswith("<b>(5, 6, 6, 6)</b>")


FAILS = OPEN | {"passed": False, "because": "small", "sampler": None}


@pytest.mark.parametrize(
    "lacks",
    [
        {"control": small_book.CONTROL | {"passed": True}},
        {"sampler": {"state": "not shown", "verdict": "R-hat 1.4"}},
    ],
)
def test_what_fails_has_failed_whatever_else_is_missing(lacks):
    assert records.state(FAILS | lacks) == "failed"
    assert records.state(FAILS | lacks | {"passed": True}) == "open"
