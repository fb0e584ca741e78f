"""What the chapter on redundant schemes measures, on cases that are known exactly."""

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import sigmoidal
from experiments import redundant, redundant_descent


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


def test_a_gaussian_code_cut_by_its_sign_explains_two_over_pi():
    gaussian = np.random.default_rng(0).standard_normal((20_000, 1))
    assert redundant_descent.between_codes(gaussian, gaussian > 0) == pytest.approx(2 / np.pi, abs=0.01)


def test_perfect_groups_explain_everything():
    codes = np.random.default_rng(0).random((50, 3)) > 0.5
    assert redundant_descent.between_codes(codes.astype(float), codes) == pytest.approx(1)
