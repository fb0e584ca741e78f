import pytest
from companion import formats


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.697, 0.004, "0.6970(40)"),
        (123.4, 4.2, "123.4(4.2)"),
        (1234, 42, "1234(42)"),
        (12354, 420, "12350(420)"),
        (0.5, 0.0996, "0.50(10)"),
        (-0.0123, 0.0004, "−0.01230(40)"),
        (3.2e-7, 1.1e-8, "3.20(11)×10⁻⁷"),
        (-3e-7, 5e-6, "−0.3(5.0)×10⁻⁶"),
        (0.0, 0.1, "0.00(10)"),
        (0.25, 0.0, "0.25"),
        (-2.0, None, "−2"),
        (3.21987e-7, None, "3.22×10⁻⁷"),
    ],
)
def test_number_with_two_figures_of_its_error(value, error, text):
    assert formats.measured(value, error) == text


def test_lists_show_rounding_errors_as_zero_and_end_in_time():
    assert formats.values([[1.0, 1e-12], [0.5, -2.0]]) == "((1, 0), (0.5, −2))"
    assert formats.values([1.0] * 7) == "(1, 1, 1, 1, 1, 1, …)"
    assert formats.values([1.0, 2.0], [0.1, 0.2]) == "(1.00(10), 2.00(20))"
    assert formats.values([1.0, 2.0], 0.1) == "(1.00(10), 2.00(10))"
    assert formats.values(["1-0", "0-1"]) == "(1-0, 0-1)"
    assert formats.values([[3.0]]) == "3"


def test_text_cannot_leave_its_place_in_a_page():
    assert formats.text("P^{1/2} < `x`\n```\n") == "P<sup>1/2</sup> &lt; &#96;x&#96;\n&#96;&#96;&#96;\n"
    assert formats.text("P^{1/2}, N^{-1}") == "P<sup>1/2</sup>, N<sup>-1</sup>"
