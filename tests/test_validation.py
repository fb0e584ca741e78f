"""Checks of arguments: what passes comes back in one form, what does not is named."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import validation


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.array(2), jnp.float32(2)])
def test_a_number_comes_back_as_a_float(value):
    found = validation.number("T", value, above=1, most=2)
    assert type(found) is float
    assert found == 2


@pytest.mark.parametrize("value", [3, np.int32(3), np.array(3), jnp.int32(3)])
def test_a_count_comes_back_as_an_int(value):
    assert type(validation.count("n", value, most=3)) is int


def test_an_array_keeps_its_floats_where_asked():
    single = np.ones((2, 3), np.float32)
    assert validation.array("X", single, "N, P", dtype=None) is single
    assert validation.array("X", single, "N, P").dtype == float
    for other in ([[1, 2]], np.ones((1, 2), bool), jnp.ones((1, 2), jnp.bfloat16)):
        assert validation.array("X", other, "…, P", P=2, dtype=None).dtype.kind == "f"
    large = np.full((1, 9), 1e38, np.float32)  # whose sum overflows
    assert validation.array("X", large, "N, P", dtype=None) is large


def test_labels_are_whole_numbers_in_any_type():
    np.testing.assert_array_equal(validation.labels("labels", [1.0, 0.0, 1.0], 3), [1, 0, 1])
    np.testing.assert_array_equal(validation.labels("labels", [2, 2], 2, num_classes=3), [2, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: validation.number("T", 0, above=0), "T: got 0, needs a finite number above 0"),
        (lambda: validation.number("p", 2, least=0, most=1), "p: .* of at least 0 and of at most 1"),
        (lambda: validation.number("T", [1.0]), r"T: got \[1.0\]"),
        (lambda: validation.positive(a=1.0, b=-1), "b: got -1"),
        (lambda: validation.positive(a=None), "a: got None"),
        (lambda: validation.counts(a=None), "a: got None"),
        (lambda: validation.counts(**validation.given(a=None, b=0)), "b: got 0"),
        (lambda: validation.count("n", 2.0), "n: got 2.0, needs a whole number of at least 1"),
        (lambda: validation.count("n", 5, most=4), "n: got 5, needs 1 … 4"),
        (lambda: validation.counts(a=1, b=True), "b: got True"),
        (lambda: validation.choice("init", "plantd", ("prior", "planted")), "did you mean 'planted'"),
        (lambda: validation.several("moves", "gibbs"), "moves: got 'gibbs', needs a tuple"),
        (lambda: validation.array("X", np.ones((2, 3)), "N, P", P=4), r"shape \(2, 3\), needs \(N, P = 4\)"),
        (lambda: validation.array("K", np.ones((2, 3)), "…, P, P"), r"needs \(…, P, P\)"),
        (lambda: validation.array("X", np.ones((0, 3)), "N, P"), "got shape"),
        (lambda: validation.array("X", [[1j]], "N, P"), "X: got complex128 .* needs real numbers"),
        (lambda: validation.array("X", [[1.0], [1.0, 2.0]], "N, P"), "real numbers"),
        (lambda: validation.array("X", [[np.inf, np.nan, 1]], "N, P"), "X: 2 values are NaN or infinite"),
        (lambda: validation.array("X", np.ma.masked_less([1, 2, 3], 3), "P"), "X: 2 values are masked"),
        (lambda: validation.array("X", list(np.ma.masked_less([[1], [4]], 2)), "N, P"), "X: 1 values are"),
        (lambda: validation.array("X", list(np.ma.masked_less([1, 2, 3], 3)), "P"), "X: 2 values are masked"),
        (lambda: validation.labels("labels", [0, 2], 2), "class 1 has no input"),
        (lambda: validation.labels("labels", [0, 10**15], 2), "class 1 has no input"),
        (lambda: validation.labels("labels", [0, 3], 2, num_classes=3), "got class 3, needs classes 0 … 2"),
        (lambda: validation.instance("task", None, dict), "task: got None, needs builtins.dict"),
        (lambda: validation.key(jax.random.split(jax.random.key(0))), "key: got .* random key"),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_named(call, message):
    with pytest.raises(ValueError, match=message) as raised:
        call()
    assert len(re.sub(r"\s+", " ", str(raised.value))) < 200


def test_both_kinds_of_keys_pass():
    validation.key(jax.random.key(0))
    validation.key(jax.random.PRNGKey(0))
