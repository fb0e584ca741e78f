"""Theory of single neurons in time, passes, and measures of drift."""

import numpy as np
import pytest
from experiments import dynamics, swaps
from scipy.optimize import brentq
from scipy.special import ndtr


def test_linear_memory_is_that_of_the_coupled_processes():
    theory = dynamics.solve("linear", 40, 0.01)
    lags = np.linspace(0, 300, 30001)
    memory = dynamics.linear_memory(theory, lags)
    assert memory[0] == pytest.approx(1)
    assert np.all(np.diff(memory) < 0)
    # the integral of a mode's memory is ((1 + κ)/(1 − κ) + (1 − κ)/(1 + κ))/2
    variances = np.linalg.eigvalsh(theory.readout_covariance)
    kappa = np.sqrt(1 - theory.readout_variance / variances)
    times = ((1 + kappa) / (1 - kappa) + (1 - kappa) / (1 + kappa)) / 2
    expected = times @ variances / variances.sum()
    tail = memory[-1] / (1 - kappa.max())
    assert np.trapezoid(memory, lags) == pytest.approx(expected, abs=1.2 * tail + 0.01 * expected)


def test_outliers_freeze_as_networks_grow():
    sizes = (60, 240)
    small, large = (dynamics.outlier_variances(size, 0.01, 0.005) for size in sizes)
    assert np.allclose(small.infinite, large.infinite)
    for one in (small, large):
        assert np.all((one.infinite < one.noise) & (one.noise < one.total) & (one.total < one.stepped))
    # both corrections are of order 1/N
    ratio = (small.total - small.infinite) / (large.total - large.infinite)
    assert ratio == pytest.approx(4 * np.ones(2), rel=0.15)


def test_variance_in_time_is_that_of_independent_draws():
    z = 3 + 0.5 * np.random.default_rng(0).standard_normal((2, 400, 5, 7))
    series = dynamics.variance_in_time(z)
    assert series.shape == (2, 200)
    assert series.mean() == pytest.approx(0.25, rel=0.03)


def test_euler_steps_add_half_a_step_to_the_variance():
    # the stationary law of the Euler chain itself, on a grid, for one preactivation in a field of 6
    step, field, z = 0.005, 6.0, np.arange(-6, 8, 0.03)
    phi = ndtr(np.sqrt(np.pi / 2) * z)
    slope = z - field * 0.5 * np.exp(-np.pi * z**2 / 4)  # of the energy ½z² − 6φ(z)
    chain = np.exp(-np.square(z[:, None] - (z - step * slope)) / (4 * step))
    density = np.linalg.matrix_power(chain / chain.sum(0), 4096)[:, len(z) // 2]
    mean, variance = density @ phi, density @ z**2 - (density @ z) ** 2
    exact = dynamics._tilted(brentq(lambda s: dynamics._tilted(s).mean - mean, 0, 20)).variance
    assert variance - exact == pytest.approx(step / 2, rel=0.06)


def test_net_flux_counts_only_neurons_that_moved():
    before, after = np.array([0] * 50 + [1] * 50), np.array([1] * 16 + [0] * 34 + [0] * 16 + [1] * 34)
    assert np.all(dynamics.net_flux(before, after, 2) == 0)
    assert dynamics.net_flux(before[:50], after[:50], 2) == pytest.approx([-4, 4])


def test_passes_are_extensive_and_end_with_the_scheme():
    small, large = (swaps.passes(size, 0.01) for size in (60, 120))
    assert 1.5 < large.lowest / small.lowest < 3
    assert swaps.passes(60, 0.16).lowest == 0


def test_handing_an_outlier_on_costs_entropy_in_proportion_to_the_inputs():
    angles = np.linspace(0, np.pi / 2, 41)
    small, large = (swaps.split_free_energy(size, 0.01, 1, angles) for size in (100, 400))
    assert large[-1] == pytest.approx(0, abs=1e-9)
    assert 3 < large.max() / small.max() < 5
