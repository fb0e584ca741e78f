import pytest
from companion.predicates import above, absolute, below, between, equal, p_value, relative, standard_errors


@pytest.mark.parametrize(
    ("predicate", "text", "inside", "outside"),
    [
        (standard_errors(3), "within 3 s.e.", ([1.29, 0.71], 1.0, 0.1), ([1.0, 1.31], 1.0, 0.1)),
        (relative(0.1), "within 10 %", ([-2.19], -2.0), ([-2.21], -2.0)),
        (absolute(0.02), "within 0.02", ([1.0, 1.019], 1.0), ([1.0, 1.021], 1.0)),
        (above(0.99), "> 0.99", ([0.991, 1.0],), ([0.99, 1.0],)),
        (above([0.8, 0.9]), "> (0.8, 0.9)", ([0.81, 0.91],), ([0.91, 0.81],)),
        (above(1, 3), "> 1 by 3 s.e.", ([1.4, 2.0], None, [0.1, 0.3]), ([1.4, 2.0], None, [0.1, 0.4])),
        (below(0.05), "< 0.05", (0.049,), (0.05,)),
        (below(0, 3), "< 0 by 3 s.e.", (-0.31, None, 0.1), (-0.3, None, 0.1)),
        (between(0.2, 0.3), "between 0.2 and 0.3", ([0.2, 0.3],), (0.31,)),
        (p_value(0.01), "p > 0.01", ([0.011, 1.0],), ([0.5, 0.01],)),
        (equal(), "exactly", (["1-1-0", "0-1-1"], ["1-1-0", "0-1-1"]), (["1-1-0"], ["1-1-0", "0-1-1"])),
        (equal(), "exactly", ([[3, 2], [3, 2]], [3, 2]), ([3, 2], [[3, 2], [3, 2]])),
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
