"""What the chapter on redundant schemes measures, on cases that are known exactly."""

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import finite_width, sigmoidal
from experiments import redundant, redundant_descent


@pytest.fixture(scope="module")
def theory():
    return redundant.solve(24, 0.5, 0.02)


def test_finite_width_adds_no_neurons(theory):
    points, _ = sigmoidal.readout_ensemble(theory)
    assert finite_width.correction(theory, np.ones(len(points))) == pytest.approx(0, abs=1e-9)


def test_numbers_of_all_codes_add_up_to_the_width(theory):
    codes = np.array(list(np.ndindex(2, 2, 2)), dtype=bool)
    assert finite_width.numbers(theory, codes, 24).sum() == pytest.approx(24, abs=1e-4)


def test_whole_numbers_cost_what_the_theory_of_frozen_shares_says():
    """N times the free energy at given whole numbers is the quadratic form that their Gaussian has."""
    size, away = 60, np.array([[1, 0, 0], [0, 0, 1], [1, -1, 0], [0, 0, 2], [-1, -1, 0]])
    theory = redundant.solve(size, 0.5, 0.01)
    covariance = size * sigmoidal.occupancy_covariance(theory, redundant.CODES)[:3, :3]
    mean = size * sigmoidal.measured_occupancies(theory, redundant.CODES)[:3]
    near = np.array([18, 18, 18]) + np.concatenate([np.zeros((1, 3), int), away])
    shares = np.column_stack([near, size - near.sum(1)]) / size
    task = tasks.toy(size, y_minus=0.5)
    frozen = [sigmoidal.solve(task, 0.01, codes=redundant.CODES, occupancies=each) for each in shares]
    cost = size * np.array([each.free_energy for each in frozen])
    form = 0.5 * np.einsum("ni,ij,nj->n", near - mean, np.linalg.inv(covariance), near - mean)
    assert cost[1:] - cost[0] == pytest.approx(form[1:] - form[0], rel=0.15)


def test_whole_numbers_are_coins_where_they_hardly_move_and_gaussian_where_they_do():
    variance, fourth = finite_width.number_moments(redundant.solve(160, 0.5, 0.01), redundant.CODES, 160)
    assert fourth[0] == pytest.approx(variance[0], rel=0.1)  # off by one, or not at all
    assert fourth[2] == pytest.approx(3 * variance[2] ** 2, rel=0.02)


def test_a_wide_network_has_theorys_preactivations(theory):
    code = redundant.CODES[0]
    row = int(np.flatnonzero(np.all(theory.codes == code, axis=1))[0])
    z = np.linspace(-8, 8, 1601)
    density = sigmoidal.preactivation_density(theory, row, 0, z) * (z[1] - z[0])
    mean, variance = finite_width.preactivation_moments(theory, code, 0, np.inf)
    assert mean == pytest.approx(density @ z, abs=0.01)
    assert variance == pytest.approx(density @ z**2 - (density @ z) ** 2, abs=0.01)


def test_a_gaussian_code_cut_by_its_sign_explains_two_over_pi():
    gaussian = np.random.default_rng(0).standard_normal((20_000, 1))
    assert redundant_descent.between_codes(gaussian, gaussian > 0) == pytest.approx(2 / np.pi, abs=0.01)


def test_perfect_groups_explain_everything():
    codes = np.random.default_rng(0).random((50, 3)) > 0.5
    assert redundant_descent.between_codes(codes.astype(float), codes) == pytest.approx(1)
