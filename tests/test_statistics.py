"""Means with errors, power laws, and what they refuse."""

import math
import warnings

import numpy as np
import pytest
from coding_schemes import statistics


def test_series_that_never_change_have_no_error_and_frozen_chains_count_once_each():
    frozen = np.repeat(np.array([[1.0], [2.0], [4.0]]), 10, axis=1)
    assert statistics.effective_sample_size(frozen) == 3
    assert statistics.rhat(frozen) == np.inf
    halves = np.repeat([[0.0, 1.0], [2.0, 3.0]], 4, axis=1)  # each chain jumps once, between its halves
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert statistics.rhat(halves) == np.inf
    mean, error = statistics.mean_and_error(np.stack([frozen, np.ones((3, 10))], axis=-1))
    assert error[1] == 0
    assert error[0] == pytest.approx(np.std([1, 2, 4], ddof=1) / 3**0.5)
    assert mean == pytest.approx([7 / 3, 1])


def test_within_counts_standard_errors():
    assert statistics.within([1.0, 2.0], [1.29, 2.0], 0.1)
    assert not statistics.within([1.0, 2.0], [1.31, 2.0], 0.1)
    assert not statistics.within(1.0, 1.29, 0.1, num_standard_errors=2)


@pytest.mark.parametrize(
    "arguments", [(math.nan, 1.0, 0.1), (1.0, 1.0, 0.0), (1.0, 1.0, -1.0), (1.0, math.inf, 1.0)]
)
def test_within_refuses_what_it_cannot_judge(arguments):
    with pytest.raises(ValueError, match="needs|NaN"):
        statistics.within(*arguments)


def test_power_law_is_found_exactly_without_noise():
    sizes = np.array([50, 100, 200, 400])
    fit = statistics.fit_power_law(sizes, 3.0 * sizes**-0.5)
    np.testing.assert_allclose([fit.exponent, fit.prefactor], [-0.5, 3.0], rtol=1e-12)
    assert fit.standard_error < 1e-12


@pytest.mark.parametrize(("sizes", "values"), [([1, 2], [1, 2]), ([1, 2, 4], [1, 0, 2]), ([1, 2, 4], [1, 2])])
def test_power_law_refuses_bad_data(sizes, values):
    with pytest.raises(ValueError, match=r"(sizes|values): got"):
        statistics.fit_power_law(sizes, values)
