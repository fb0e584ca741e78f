"""The chapters' own estimators, by which their verdicts are given, on made-up data of known law."""

import numpy as np
import pytest
from adaptive_images import runs as adaptive_images
from coding_schemes.sampling import integrated
from images import runs as images
from test_calibration import assert_calibrated

REPEATS = 300


def test_trend_of_accuracies():
    rng, sizes = np.random.default_rng(4), np.array([100, 300, 1000, 3000, 10_000, 30_000, 50_000])
    found = []
    for _ in range(REPEATS):
        accuracy = 0.3 + 0.1 * np.log10(sizes / images.PUBLISHED_SIZE) + 0.01 * rng.standard_normal(7)
        gain, end = images.trend(sizes, accuracy)
        found.append((gain.value, gain.error, end))
    slopes, errors, ends = np.array(found).T
    np.testing.assert_allclose(np.mean(errors**2), slopes.var(), rtol=0.3)
    assert_calibrated(slopes, 0.1, errors, 5 / 3, slack=0.2)
    assert np.mean(ends) == pytest.approx(0.3, abs=0.003)


def test_paired_differences_in_their_errors():
    """Of unit variance around nothing, and of n^½ μ/σ around a mean μ."""

    def estimator(x):
        return np.divide(*adaptive_images.paired(x))

    z = estimator(np.random.default_rng(5).standard_normal((2000, 10)))
    assert_calibrated(z, 0.0, 1.0, 9 / 7)
    shifted = estimator(2.0 + np.random.default_rng(6).standard_normal((2000, 10)))
    assert np.mean(2 * 10**0.5 / shifted) == pytest.approx(1, abs=0.03)


def test_paired_differences_leave_out_what_is_missing():
    values = np.array([[1.0, 2, 3, 4, np.nan, np.nan]])
    expected = 2.5 / (np.std([1, 2, 3, 4], ddof=1) / 2)
    np.testing.assert_allclose(np.divide(*adaptive_images.paired(values)), [expected])


def test_variance_of_the_outputs_of_networks():
    rng, found = np.random.default_rng(10), []
    for _ in range(100):
        own = 0.6 * rng.standard_normal((12, 1, 6, 1))  # that chains keep
        means, variances = own + 0.8 * rng.standard_normal((12, 30, 6, 1)), np.full((12, 30, 6), 0.5)
        one = integrated.Networks(50, means, variances, *[None] * 3)
        found.append(one.variance())
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(1.5 - 0.36 / 12, abs=0.04)
    assert_calibrated(values, values.mean(), errors, 11 / 9, slack=0.4)
