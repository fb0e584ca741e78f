"""The 1/N of the sigmoidal theory against networks of two inputs, whose posterior is a sum over a grid."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import clustered, finite_width, sigmoidal
from scipy.special import comb, erf, ndtr
from scipy.stats import norm

CODES = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)  # in equilibrium at y₋ = ½
TEMPERATURE, TARGET = 0.05, 1.2
FIELD = 1.942  # t at the saddle point
EVERY = np.array([[True], [False]])  # code of one class


@pytest.fixture(scope="module")
def theory():
    return sigmoidal.solve(tasks.toy(24, y_minus=0.5), 0.02)


@pytest.fixture(scope="module")
def pair():
    """Theory of two inputs of one class with one output."""
    task = tasks.Task(np.sqrt(2) * np.eye(2), np.zeros(2, int), np.full((2, 1), TARGET))
    return sigmoidal.solve(task, TEMPERATURE)


@cache
def readouts_and_tilts():
    """Readouts, their prior, and E_z[z^k e^{i(k − it) a φ(z)}] on a grid of fields, one axis of them.

    The axis is moved through the saddle point, which changes no integral, only its cancellations.
    """
    a, z = np.linspace(-5, 8, 131), np.linspace(-8, 8, 161)
    fields = FIELD + 1j * np.linspace(-8, 8, 161)
    phi, prior = 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2)), norm.pdf(z) * (z[1] - z[0])
    tilts = np.exp(fields[:, None, None] * a[:, None] * phi)
    return a, fields, norm.pdf(a, scale=0.5**0.5) * (a[1] - a[0]), [tilts @ (prior * z**k) for k in range(3)]


def exact(weight, width, power=0):
    """⟨w(a) z_1^k⟩ over the neurons of networks of N = width, by the integral over both inputs' fields."""
    one, tilted = over_readouts(np.ones_like), over_readouts(weight, power)
    return (np.sum(tilted * one ** (width - 1)) / np.sum(one**width)).real


def over_readouts(weight, power=0):
    """⟨w(a) z_1^k e^{Σ_μ t_μ (a φ(z_μ) − y) + T t_μ²/2}⟩ over the prior, on the grid of both fields."""
    a, fields, prior, tilts = readouts_and_tilts()
    action = np.add.outer(*[0.5 * TEMPERATURE * fields**2 - fields * TARGET] * 2)
    return np.einsum("a,ka,la->kl", prior * weight(a), tilts[power], tilts[0]) * np.exp(action)


def active(solution):
    """Probability that a neuron with readout a is found with its class active."""
    site, t = solution.problem.site, solution.dual_field[0, 0]

    def weight(a):
        _, mean, variance = site.cumulants(a * t, 2)
        return ndtr((mean - site.threshold) * np.sqrt(2 / variance))

    return weight


def test_correction_is_the_first_order_of_the_exact_integral(pair):
    """N times the difference from theory, extrapolated to N = ∞ from two widths."""
    points, weights = sigmoidal.readout_ensemble(pair)
    for weight in (np.tanh, np.square):
        values = weight(points[:, 0])
        one, two = (width * (exact(weight, width) - weights @ values) for width in (40, 80))
        assert finite_width.correction(pair, values) == pytest.approx(2 * two - one, rel=0.02)
        assert abs(two) > 0.01


@pytest.fixture(scope="module")
def twins():
    """Theory of two inputs of one class that overlap by 0.6."""
    root = np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T
    task = tasks.Task(np.sqrt(2) * root, np.zeros(2, int), np.full((2, 1), TARGET))
    return clustered.solve(task, TEMPERATURE)


def test_correction_of_two_inputs_that_are_alike(twins):
    """Against the integral over both fields and what the two preactivations share."""
    t = twins.dual_field[0, 0]
    a, z, v = np.linspace(-5, 8, 105), np.linspace(-6, 6, 81), np.linspace(-5, 7, 49)
    fields = t + 1j * np.linspace(-7, 7, 99)
    phi = 0.5 * (1 + erf(np.sqrt(np.pi) * (np.sqrt(0.6) * v[:, None] + np.sqrt(0.4) * z) / 2))
    tilts = np.exp(np.multiply.outer(np.outer(a, fields), phi)) @ (norm.pdf(z) * (z[1] - z[0]))
    both = np.einsum("v,akv,alv->akl", norm.pdf(v) * (v[1] - v[0]), tilts, tilts, optimize=True)
    both *= np.exp(np.add.outer(*[0.5 * TEMPERATURE * fields**2 - fields * TARGET] * 2))
    prior = norm.pdf(a, scale=0.5**0.5) * (a[1] - a[0])
    one = np.tensordot(prior, both, 1)

    points, weights = twins.ensemble.points, twins.ensemble.weights
    for weight in (np.tanh, np.square):
        values, tilted = weight(points[:, 0]), np.tensordot(prior * weight(a), both, 1)
        exact = [(np.sum(tilted * one ** (n - 1)) / np.sum(one**n)).real for n in (40, 80)]
        first, second = (n * (x - weights @ values) for n, x in zip((40, 80), exact))
        assert finite_width.correction(twins, values) == pytest.approx(2 * second - first, rel=0.02)
        assert abs(second) > 0.01


def test_unrelated_inputs_have_one_correction_by_either_theory(theory):
    other = clustered.solve(tasks.toy(24, y_minus=0.5), 0.02)
    for found in (finite_width.numbers, finite_width.whole_numbers):
        np.testing.assert_allclose(found(other, CODES, 30), found(theory, CODES, 30), rtol=1e-4)


def test_numbers_of_a_small_network(pair):
    (on, off), (wide, _) = (finite_width.numbers(pair, EVERY, width) / width for width in (10, 10**9))
    truth = exact(active(pair), 10)
    assert on == pytest.approx(truth, abs=1e-4)
    assert off == pytest.approx(1 - truth, abs=1e-4)
    assert abs(wide - truth) > 1e-3  # what theory without the 1/N says


def test_number_moments_are_those_of_the_exact_distribution(pair):
    """P(n) ∝ binomial × the integral with n neurons of one code and N − n of the other."""
    width, weight = 40, active(pair)
    on, off = over_readouts(weight), over_readouts(lambda a: 1 - weight(a))
    j = np.arange(width + 1)
    p = np.array([comb(width, n) * np.sum(on**n * off ** (width - n)).real for n in j])
    p /= p.sum()
    variance, fourth = finite_width.number_moments(pair, EVERY, width)
    np.testing.assert_allclose(variance, p @ (j - p @ j) ** 2, rtol=0.03)
    np.testing.assert_allclose(fourth, p @ (j - p @ j) ** 4, rtol=0.08)


def test_preactivation_moments_of_a_small_network(pair):
    weight, width = active(pair), 20
    norm_, first, second = (exact(weight, width, power) for power in range(3))
    mean, variance = finite_width.preactivation_moments(pair, EVERY[0], 0, width)
    wide = finite_width.preactivation_moments(pair, EVERY[0], 0, np.inf)
    assert mean == pytest.approx(first / norm_, abs=1e-3)
    assert variance == pytest.approx(second / norm_ - (first / norm_) ** 2, abs=1e-3)
    assert np.all(np.abs(wide - [mean, variance]) > 5e-3)


@pytest.mark.parametrize("ratios", [(0.5, 0.25, 0.25), (0.25, 0.5, 0.25)])
def test_outputs_are_the_targets_at_any_width_without_temperature(ratios):
    """Σ_i a_i φ(z_i) = N y in every network at T = 0: nothing is left to correct, in no class and output."""
    solution = sigmoidal.solve(tasks.toy(24, ratios, y_minus=0.5), 0.0)
    points, _ = sigmoidal.readout_ensemble(solution)
    cumulants = lambda s: solution.problem.site.cumulants(s, 3)[1:]  # noqa: E731 (⟨φ⟩ and its derivatives)
    for c, output in np.ndindex(3, 3):
        found = finite_width.correction(solution, points[:, output], lambda s, k: cumulants(s)[k], c)
        assert found == pytest.approx(0, abs=1e-5)
    squares = finite_width.correction(solution, np.square(points[:, 0]), lambda s, k: cumulants(s)[k], 1)
    assert abs(squares) > 0.1  # of another property there is


@pytest.mark.parametrize("name", ["theory", "twins"])
def test_solutions_by_laplaces_formula_are_refused(name, request):
    solution = replace(request.getfixturevalue(name), method="laplace")
    code = np.ones((1, len(solution.dual_field)), bool)
    for asked in (
        lambda: finite_width.correction(solution, np.ones(1)),
        lambda: finite_width.numbers(solution, code, 20),
        lambda: finite_width.readout_moments(solution, code[0], 0, 20),
        lambda: finite_width.preactivation_moments(solution, code[0], 0, 20),
    ):
        with pytest.raises(ValueError, match="solution: got one by 'laplace'"):
            asked()


def test_finite_width_adds_no_neurons(theory):
    points, _ = sigmoidal.readout_ensemble(theory)
    assert finite_width.correction(theory, np.ones(len(points))) == pytest.approx(0, abs=1e-9)


def test_numbers_of_all_codes_add_up_to_the_width(theory):
    codes = np.array(list(np.ndindex(2, 2, 2)), dtype=bool)
    assert finite_width.numbers(theory, codes, 24).sum() == pytest.approx(24, abs=1e-4)


def test_whole_numbers_are_coins_where_they_hardly_move_and_gaussian_where_they_do():
    solution = sigmoidal.solve(tasks.toy(160, y_minus=0.5), 0.01)
    variance, fourth = finite_width.number_moments(solution, CODES, 160)
    assert fourth[0] == pytest.approx(variance[0], rel=0.1)  # off by one, or not at all
    assert fourth[2] == pytest.approx(3 * variance[2] ** 2, rel=0.02)


def test_a_wide_network_has_theorys_preactivations(theory):
    row = int(np.flatnonzero(np.all(theory.codes == CODES[0], axis=1))[0])
    z = np.linspace(-8, 8, 1601)
    density = sigmoidal.preactivation_density(theory, row, 0, z) * (z[1] - z[0])
    mean, variance = finite_width.preactivation_moments(theory, CODES[0], 0, np.inf)
    assert mean == pytest.approx(density @ z, abs=0.01)
    assert variance == pytest.approx(density @ z**2 - (density @ z) ** 2, abs=0.01)


def test_readout_moments_of_a_small_network(pair):
    weight, width = active(pair), 20
    norm_, first, second = (exact(lambda a, k=k: weight(a) * a**k, width) for k in range(3))
    mean, variance = finite_width.readout_moments(pair, EVERY[0], 0, width)
    wide = finite_width.readout_moments(pair, EVERY[0], 0, np.inf)
    assert mean == pytest.approx(first / norm_, abs=2e-3)
    assert variance == pytest.approx(second / norm_ - (first / norm_) ** 2, abs=2e-3)
    assert np.abs(wide - [mean, variance]).max() > 1e-2


def test_means_of_whole_numbers_are_those_of_the_integral_where_numbers_move(pair):
    for width in (10, 13):
        truth = width * exact(active(pair), width)
        assert finite_width.whole_numbers(pair, EVERY, width)[0] == pytest.approx(truth, abs=1e-3)


def test_means_are_drawn_to_whole_numbers_where_they_hardly_move():
    """And then the whole numbers of a code take some of those of the others: all of them add up to N."""
    solution = sigmoidal.solve(tasks.toy(90, y_minus=0.5), 0.01)
    smooth, whole = (f(solution, CODES, 60) for f in (finite_width.numbers, finite_width.whole_numbers))
    variance = finite_width.number_moments(solution, CODES, 60)[0]
    assert variance[0] < 0.1
    assert smooth[0] + 0.05 < whole[0] < 18
    assert whole.sum() == pytest.approx(60, abs=1e-9)


def test_moments_of_a_rare_code_are_those_of_none_or_a_few(theory):
    """No negative numbers: of six neurons less than one has the code 1-1-1, all splits by hand."""
    mean = finite_width.numbers(theory, CODES, 6)
    inverse = np.linalg.inv(6 * sigmoidal.occupancy_covariance(theory, CODES)[:3, :3])
    splits = np.array([n for n in np.ndindex(9, 9, 9, 9) if sum(n) == 8]) - [0, 0, 0, 2]  # −2 … of the last
    away = splits[:, :3] - mean[:3]
    p = np.exp(-0.5 * np.einsum("ni,ij,nj->n", away, inverse, away))
    assert p[splits[:, 3] < 0].sum() > 5e-4 * p.sum()  # would be seen
    p = np.where(splits[:, 3] < 0, 0, p)
    p /= p.sum()
    expected = [p @ (splits - p @ splits) ** power for power in (2, 4)]
    np.testing.assert_allclose(finite_width.number_moments(theory, CODES, 6), expected, rtol=1e-4)


def test_renaming_the_classes_renames_the_moments_of_a_code(theory):
    """Of the class that is asked for: the smallest class is the first of the renamed task."""
    order = [2, 0, 1]
    renamed = tasks.toy(24, (0.25, 0.5, 0.25), y_minus=0.5)
    other = sigmoidal.solve(renamed, 0.02)
    for c, k in enumerate(order):  # class order[c] of the one is class c of the other
        one = finite_width.preactivation_moments(theory, CODES[0], k, 24)
        same = finite_width.preactivation_moments(other, CODES[0][order], c, 24)
        np.testing.assert_allclose(one, same, rtol=1e-5)
        r = finite_width.readout_moments(theory, CODES[0], k, 24)
        np.testing.assert_allclose(r, finite_width.readout_moments(other, CODES[0][order], c, 24), rtol=1e-5)
    away = finite_width.preactivation_moments(theory, CODES[0], 2, 24) - one
    assert np.abs(away).max() > 0.1
    # the same classes, but the outputs keep their places
    targets = tasks.one_hot(3, 1.0, 0.5)[order]
    third = sigmoidal.solve(tasks.toy(24, (0.25, 0.5, 0.25), targets=targets.tolist()), 0.02)
    for same in (other, third):
        found = sigmoidal.occupancy_covariance(same, CODES[:, order])
        np.testing.assert_allclose(found, sigmoidal.occupancy_covariance(theory, CODES), atol=1e-6)


@pytest.mark.parametrize(
    "factor",
    [
        [[0.05, 0, 0], [0.02, 0.3, 0], [0, -0.1, 0.6]],  # hardly any freedom at first
        [[1.9, 0, 0], [-1.8, 0.2, 0], [1.7, 0.1, 0.15]],  # together far, each given the others hardly
    ],
)
def test_whole_numbers_are_those_of_a_grid_without_gaps(factor):
    mean, factor = np.array([6.3, 7.5, 8.05]), np.array(factor, dtype=float)
    found, weights = finite_width._lattice(mean, factor)
    grid = np.stack(np.meshgrid(*[np.arange(-8, 24)] * 3, indexing="ij"), -1).reshape(-1, 3)
    density = np.exp(-0.5 * np.square(np.linalg.solve(factor, (grid - mean).T)).sum(0))
    density /= density.sum()
    assert weights @ found == pytest.approx(density @ grid, abs=1e-5)  # six sigma
    second = lambda points, p: (points - mean).T * p @ (points - mean)  # noqa: E731
    assert second(found, weights) == pytest.approx(second(grid, density), abs=1e-5)
