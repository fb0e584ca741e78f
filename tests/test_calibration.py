"""Every error bar of the library: (estimate − truth)/error has unit variance on made-up data."""

import numpy as np
import pytest
from coding_schemes import coding, statistics

REPEATS = 400


def autoregressive(decay, shape, seed):
    """Stationary AR(1) series of unit variance, shape (chains, samples, …)."""
    noise = np.random.default_rng(seed).standard_normal(shape)
    for t in range(1, shape[1]):
        noise[:, t] = decay * noise[:, t - 1] + (1 - decay**2) ** 0.5 * noise[:, t]
    return noise


def assert_calibrated(estimates, truth, errors, variance=1.0, slack=0.0):
    """Mean square of (estimate − truth)/error, within four of its own standard errors and a stated slack.

    Variance: of that ratio; n/(n − 2) where the error is itself a scatter of n + 1 networks.
    """
    z_sq = np.square((np.asarray(estimates) - truth) / errors)
    error = z_sq.std() / z_sq.size**0.5
    assert abs(z_sq.mean() - variance) < 4 * error + slack * variance, (z_sq.mean(), error)


@pytest.mark.parametrize("num_chains", [1, 2, 16])
@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_mean_over_chains(decay, num_chains):
    """The larger of two honest errors is too large by some per cent, and by more for two chains."""
    series = autoregressive(decay, (num_chains, 16_000 // num_chains, 100), seed=1)
    mean, error = statistics.mean_and_error(series)
    slack = {1: 0.1, 2: 0.45, 16: 0.3}[num_chains]
    assert_calibrated(mean, 0.0, error, slack=slack)
    exact = ((1 + decay) / (1 - decay) / 16_000) ** 0.5
    np.testing.assert_allclose(np.median(error), exact, rtol=0.12)


@pytest.mark.parametrize("num_chains", [4, 12])
def test_mean_over_networks_that_differ(num_chains):
    """Between networks lies more than within them: the error is their scatter, with n − 1 and over √n."""
    rng = np.random.default_rng(2)
    own = 3 * rng.standard_normal((num_chains, 1, 4 * REPEATS))
    mean, error = statistics.mean_and_error(own + autoregressive(0.5, (num_chains, 50, 4 * REPEATS), seed=3))
    free = num_chains - 1
    if free > 4:  # fewer leave the ratio without a finite fourth moment
        assert_calibrated(mean, 0.0, error, free / (free - 2), slack=0.05)
    exact = (9 + 3 / 50) / num_chains
    np.testing.assert_allclose(np.mean(error**2), exact, rtol=4 * (2 / free / 4 / REPEATS) ** 0.5 + 0.03)


def test_autocorrelation_time():
    times = statistics.autocorrelation_time(autoregressive(0.8, (4, 1000, 100), seed=4))
    assert times.shape == (100,)
    assert times.mean() == pytest.approx(9, rel=0.05)
    assert np.isnan(statistics.autocorrelation_time(np.ones((2, 10))))


@pytest.mark.parametrize(("decay", "between"), [(0.0, 0.0), (0.7, 0.0), (0.5, 1.0)])
def test_permutation_order(decay, between):
    """Of a share b²/(1 + b²) between neurons; and of memory, which adds (τ/n)² or so to the value."""
    found = []
    for seed in range(120):
        series = autoregressive(decay, (2, 120, 40, 2), seed)
        own = between * np.random.default_rng(seed + 500).standard_normal((2, 1, 40, 2))
        found.append(statistics.permutation_order(series + own))
    values, errors = np.array(found).T
    truth = between**2 / (1 + between**2)
    memory = values.mean() if between == 0 else truth
    assert abs(memory - truth) < 0.002
    assert_calibrated(values, memory, errors, slack=0.15)


@pytest.mark.parametrize("networks_differ", [False, True])
def test_occupancies(networks_differ):
    """Frozen independent neurons: binomial; networks with shares of their own: the scatter of the chains."""
    rng, z_sq, exact = np.random.default_rng(5), [], []
    for _ in range(150):
        shares = 0.3 + 0.1 * rng.choice([-1, 1], 12) * networks_differ
        first = rng.random((12, 1, 60)) < shares[:, None, None]
        found = coding.occupancy(np.stack([first, ~first], axis=-1).repeat(3, axis=1))
        row = found.names.index("1-0")
        error = found.chain_errors if networks_differ else found.binomial_errors
        assert found.standard_errors[row] == max(found.chain_errors[row], found.binomial_errors[row])
        z_sq.append(((found.fractions[row] - 0.3) / error[row]) ** 2)
        exact.append(error[row] ** 2)
    variance = 11 / 9 if networks_differ else 1.0
    assert abs(np.mean(z_sq) - variance) < 4 * np.std(z_sq) / 150**0.5
    expected = (0.3 * 0.7 - 0.01 * networks_differ) / 60 / 12 + 0.01 / 12 * networks_differ
    assert np.mean(exact) == pytest.approx(expected, rel=0.15)


def test_exponents_of_power_laws():
    rng, sizes = np.random.default_rng(6), np.geomspace(50, 3200, 9)
    fits = [
        statistics.fit_power_law(sizes, 2 * sizes**-0.5 * np.exp(0.1 * rng.standard_normal(9)))
        for _ in range(REPEATS)
    ]
    exponents, errors, prefactors = np.array(fits).T
    assert_calibrated(exponents, -0.5, errors, 7 / 5)
    np.testing.assert_allclose(np.mean(errors**2), exponents.var(), rtol=0.3)
    assert np.median(prefactors) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_bounds_of_switch_rates(confidence):
    """Each side misses as often as it may, at an interval of its own; Clopper and Pearson's err to safety."""
    rng, interval, rate = np.random.default_rng(7), 0.5, 0.04
    found = []
    for _ in range(REPEATS):
        state = np.cumsum(rng.random((2, 61, 8, 1)) < rate * interval, axis=1) % 2 == 1
        found.append(coding.switch_rate(np.concatenate([state, ~state], axis=-1), interval, confidence))
    for missed in ([f.lower > rate for f in found], [f.upper < rate for f in found]):
        allowed = (1 - confidence) / 2
        error = (allowed * (1 - allowed) / REPEATS) ** 0.5
        assert 0.3 * allowed < np.mean(missed) < allowed + 3 * error
    assert np.mean([f.rate for f in found]) == pytest.approx(rate, rel=0.05)


def test_within_ends_at_its_number_of_standard_errors():
    for number in (1.0, 3.0):
        assert statistics.within(1.0, 1.0 + 0.999 * number * 0.1, 0.1, number)
        assert not statistics.within(1.0, 1.0 - 1.001 * number * 0.1, 0.1, number)
        assert not statistics.within([1.0, 1.0], [1.0, 1.0 + 1.001 * number * 0.1], [0.1, 0.1], number)
    for gap, inside in ((0.29, True), (0.31, False)):  # three unless told otherwise, one error for all
        assert statistics.within([1.0, 2.0], [1.0 + gap, 2.0], 0.1) == inside


def test_limit_of_infinite_width():
    rng, widths = np.random.default_rng(3), np.array([50, 100, 400])
    errors = np.array([0.02, 0.03, 0.01])[:, None, None] * np.ones((1, 50, 40))
    truth = np.linspace(1, 2, 50)[:, None]
    law = truth - 3 / widths[:, None, None] * np.ones((1, 50, 40))
    np.testing.assert_allclose(statistics.infinite_width(widths, law, errors)[0], truth * np.ones((1, 40)))
    means = law + errors * rng.standard_normal((3, 50, 40))
    limit, error = statistics.infinite_width(widths, means, errors)
    assert_calibrated(limit, truth, error)
    design = np.column_stack([np.ones(3), 1 / widths]) / errors[:, 0, :1]
    np.testing.assert_allclose(error, np.linalg.inv(design.T @ design)[0, 0] ** 0.5)
    alone, error = statistics.infinite_width([50], means[:1], errors[:1])
    np.testing.assert_array_equal(alone, means[0])
    assert error[0, 0] == 0.02
