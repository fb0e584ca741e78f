"""The chapters' own estimators, by which their verdicts are given, on made-up data of known law."""

from types import SimpleNamespace

import numpy as np
import pytest
from adaptive_images import runs as adaptive_images
from coding_schemes.sampling import integrated
from companion.findings import spread
from experiments import dynamics, images, lazy_and_rich
from sparse import runs as sparse
from test_calibration import assert_calibrated, autoregressive

REPEATS = 300


def test_trend_of_accuracies():
    rng, sizes = np.random.default_rng(4), np.array([100, 300, 1000, 3000, 10_000, 30_000, 50_000])
    found = []
    for _ in range(REPEATS):
        accuracy = 0.3 + 0.1 * np.log10(sizes / images.PUBLISHED_SIZE) + 0.01 * rng.standard_normal(7)
        found.append(images.trend(sizes, accuracy))
    slopes, errors, ends = np.array(found).T
    np.testing.assert_allclose(np.mean(errors**2), slopes.var(), rtol=0.3)
    assert_calibrated(slopes, 0.1, errors, 5 / 3, slack=0.2)
    assert np.mean(ends) == pytest.approx(0.3, abs=0.003)


@pytest.mark.parametrize("estimator", [images._in_errors, lambda x: np.divide(*adaptive_images.paired(x))])
def test_paired_differences_in_their_errors(estimator):
    """Of unit variance around nothing, and of n^½ μ/σ around a mean μ."""
    z = estimator(np.random.default_rng(5).standard_normal((2000, 10)))
    assert_calibrated(z, 0.0, 1.0, 9 / 7)
    shifted = estimator(2.0 + np.random.default_rng(6).standard_normal((2000, 10)))
    assert np.mean(2 * 10**0.5 / shifted) == pytest.approx(1, abs=0.03)


def test_paired_differences_leave_out_what_is_missing():
    values = np.array([[1.0, 2, 3, 4, np.nan, np.nan]])
    expected = 2.5 / (np.std([1, 2, 3, 4], ddof=1) / 2)
    np.testing.assert_allclose(np.divide(*adaptive_images.paired(values)), [expected])


def test_autocorrelations_and_their_errors():
    found = []
    for seed in range(60):
        correlation, error = dynamics.autocorrelations(autoregressive(0.7, (8, 60, 10, 2), seed), 3)
        assert correlation[0] == 1
        found.append((correlation[1:], error[1:]))
    values, errors = np.moveaxis(np.array(found), 1, 0)
    np.testing.assert_allclose(values.mean(0), 0.7 ** np.arange(1, 4), atol=0.02)
    assert_calibrated(values, values.mean(0), errors, 7 / 5, slack=0.3)


def test_deciles_that_neurons_visit():
    """Independent neurons that stay where they are, or see all."""
    rng = np.random.default_rng(7)
    share, error = dynamics.coverage(np.repeat(rng.standard_normal((4, 1, 500, 1)), 3, axis=1))
    assert (share, error) == pytest.approx((0.1, 0.0), abs=1e-3)
    found = np.array([dynamics.coverage(rng.standard_normal((8, 5, 10, 1))) for _ in range(200)])
    assert_calibrated(found[:, 0], 1 - 0.9**5, found[:, 1], slack=0.5)


def test_exponents_with_scatter_and_samples_together():
    """Of an exact law what its points' errors propagate to is all; scatter about it comes in squares."""
    sizes, rng = np.array([50, 100, 200, 400]), np.random.default_rng(8)
    own = [SimpleNamespace(task=SimpleNamespace(num_inputs=n)) for n in sizes]
    truth = 2 * sizes[:, None] ** -0.5
    errors = truth * np.array([0.01, 0.02, 0.03, 0.04])[:, None]
    exact = lazy_and_rich.Widths(own, truth, errors).exponent(0)
    noisy = [
        lazy_and_rich.Widths(own, truth + errors * rng.standard_normal((4, 1)), errors)
        for _ in range(REPEATS)
    ]
    slopes = np.array([w.exponent(0).exponent for w in noisy])
    assert exact.standard_error == pytest.approx(slopes.std(), rel=0.15)
    for w in noisy[:3]:
        propagated = np.linalg.norm(_slope_weights(sizes) * w.error[:, 0] / w.mean[:, 0])
        both = np.hypot(w.laws[0].standard_error, propagated)
        assert w.exponent(0).standard_error == pytest.approx(both)


def _slope_weights(sizes):
    """Of a least-squares slope over log sizes, in the values."""
    return np.linalg.pinv(np.column_stack([np.log(sizes), np.ones(len(sizes))]))[0]


def test_price_of_one_more_outlier():
    """Slopes of energies over counts, one a network; times before the task is learned are left out."""
    rng, found = np.random.default_rng(9), []
    times = np.arange(60.0)
    for _ in range(REPEATS):
        counts = rng.integers(3, 9, (6, 60))
        own = 0.3 + 0.1 * rng.standard_normal((6, 1))
        energies = own * counts + 0.01 * rng.standard_normal((6, 60)) + 100 * (times <= 20)
        run = SimpleNamespace(times=times, counts=counts, energies=energies, zero=np.array([1.0, 2.0]))
        found.append(spread(sparse.price_of_splitting(run)))
    prices, errors = np.array(found).T
    assert_calibrated(prices, 0.3, errors, 5 / 3, slack=0.1)
    np.testing.assert_allclose(np.mean(errors**2), 0.01 / 6, rtol=0.1)


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
