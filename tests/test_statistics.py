"""Means with errors, power laws, and what they refuse."""

import warnings

import numpy as np
import pytest
from coding_schemes import statistics


def test_series_that_never_change_have_no_error_and_frozen_chains_count_once_each():
    frozen = np.repeat(np.array([[1.0], [2.0], [4.0]]), 10, axis=1)
    assert statistics.effective_sample_size(frozen) == 3
    assert statistics.rhat(frozen) == np.inf
    halves = np.repeat([[0.0, 1.0], [2.0, 3.0]], 2, axis=1)  # each chain jumps once, between its halves
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert statistics.rhat(halves) == np.inf
    mean, error = statistics.mean_and_error(np.stack([frozen, np.ones((3, 10))], axis=-1))
    assert error[1] == 0
    assert error[0] == pytest.approx(np.std([1, 2, 4], ddof=1) / 3**0.5)
    assert mean == pytest.approx([7 / 3, 1])


def test_chains_of_one_mean_that_scatter_unlike_do_not_agree():
    """Nor do shifted ones whose tails hide it: ranks are compared, and distances from the median."""
    rng = np.random.default_rng(0)
    normal, heavy = rng.standard_normal((4, 400, 2)), rng.standard_cauchy((4, 400, 2))
    normal[3, :, 1] *= 5
    heavy[3, :, 1] += 3
    for series in (normal, heavy):
        alike, unlike = statistics.rhat(series)
        assert alike < 1.02
        assert unlike > 1.05


def test_power_law_is_found_exactly_without_noise():
    sizes = np.array([50, 100, 200, 400])
    fit = statistics.fit_power_law(sizes, 3.0 * sizes**-0.5)
    np.testing.assert_allclose([fit.exponent, fit.prefactor], [-0.5, 3.0], rtol=1e-12)
    assert fit.standard_error < 1e-12
    # one per cent of the two outer sizes: the error of the slope between them
    values = np.array([4.0, 2.0, 1.0])
    own = statistics.fit_power_law([50, 100, 200], values, 0.01 * values * [1, 0, 1])
    assert own.standard_error == pytest.approx(0.01 * 2**0.5 / np.log(4))


def test_variance_in_time_is_that_of_independent_draws():
    z = 3 + 0.5 * np.random.default_rng(0).standard_normal((2, 400, 5, 7))
    series = statistics.variance_in_time(z)
    assert series.shape == (2, 200)
    assert series.mean() == pytest.approx(0.25, rel=0.03)


def test_scale_of_barriers_is_found_with_its_error():
    """Poisson counts of ways at two temperatures with attempt rates of their own, drawn two hundred times."""
    rng = np.random.default_rng(0)
    heights = [np.array([1.0, 2.0, 3.5]), np.array([0.5, 1.0, 2.0, 2.5])]
    exposures = [np.array([50.0, 90.0, 70.0]), np.array([40.0, 10.0, 90.0, 60.0])]
    rates = [attempt * np.exp(-0.8 * height) for attempt, height in zip((2.0, 0.5), heights)]
    found, errors = np.transpose(
        [
            statistics.fit_barrier_scale(
                heights, [rng.poisson(r * e) for r, e in zip(rates, exposures)], exposures
            )
            for _ in range(200)
        ]
    )
    assert abs(found.mean() - 0.8) < 4 * found.std() / 200**0.5
    assert found.std() == pytest.approx(errors.mean(), rel=0.2)


def test_share_of_the_way():
    start, end = np.zeros((3, 2)), np.arange(6.0).reshape(3, 2)
    aside = np.array([[5.0, 0.0], [0.0, 0.0], [0.0, 0.0]])  # at right angles to the way
    values = np.stack([start, end, 0.25 * end + aside])
    np.testing.assert_allclose(statistics.share_of_way(values, start, end), [0.0, 1.0, 0.25])
