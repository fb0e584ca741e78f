"""What the chapter on redundant schemes measures, on cases that are known exactly."""

import numpy as np
import pytest
from coding_schemes.theory import sigmoidal
from experiments import finite_width, redundant, redundant_descent


@pytest.fixture(scope="module")
def theory():
    return redundant.solve(24, 0.5, 0.02)


def test_finite_width_adds_no_neurons(theory):
    points, _ = sigmoidal.readout_ensemble(theory)
    assert finite_width.correction(theory, np.ones(len(points))) == pytest.approx(0, abs=1e-9)


def test_numbers_of_all_codes_add_up_to_the_width(theory):
    codes = np.array(list(np.ndindex(2, 2, 2)), dtype=bool)
    assert finite_width.numbers(theory, codes, 24).sum() == pytest.approx(24, abs=1e-4)


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
