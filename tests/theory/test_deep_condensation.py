"""Two hidden layers of ReLU: bulk below by brute force, couplings by differences, the saddle point itself."""

from dataclasses import replace

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import clustered, condensation, deep_condensation
from coding_schemes.theory._solvers import class_kernel
from scipy.stats import norm

T = 0.01
UNEQUAL = tasks.toy(24, (0.5, 0.25, 0.25), y_minus=-0.5)


@pytest.fixture(scope="module")
def solved():
    return deep_condensation.solve(UNEQUAL, T)


@pytest.mark.parametrize(("between", "overlap"), [(-0.1, 0.0), (0.05, 0.0), (-0.1, 0.3)])
def test_bulk_below_by_brute_force(between, overlap):
    counts, rest, within = np.array([1, 2]), np.array([0.2, -0.1]), np.array([0.1, 0.3])
    overlaps = np.array([0.0, overlap])
    found = deep_condensation.bulk(counts, rest, within, between, overlaps, 1 - overlaps)
    axis = np.linspace(0, 9, 181)

    def cells(mean, variance):
        cell = axis[1] * norm.pdf(axis, mean, np.sqrt(variance))
        cell[:3] *= 3 / 8, 7 / 6, 23 / 24
        cell[0] += norm.cdf(0, mean, np.sqrt(variance))
        return cell

    v = np.linspace(-6, 12, 181)  # what both inputs of the second class have in common
    of_pair = [
        (v[1] - v[0]) * norm.pdf(x) * np.outer(*[cells(np.sqrt(overlap) * x, 1 - overlap)] * 2) for x in v
    ]
    a, b, c = np.meshgrid(axis, axis, axis, indexing="ij")
    energy = 0.5 * ((rest[0] + within[0]) * a**2 + (rest[1] + within[1]) * (b**2 + c**2))
    weight = np.einsum("i,jk->ijk", cells(0, 1), np.sum(of_pair, axis=0))
    weight *= np.exp(energy + within[1] * b * c + between * a * (b + c))
    weight[(b + c > 2 + 5 * np.sqrt(2)) | (a > 6)] = 0
    mean = lambda values: np.sum(weight * values) / weight.sum()  # noqa: E731
    tolerance = 2e-4 if overlap == 0 else 4e-4  # both lattices are coarser for narrower Gaussians
    np.testing.assert_allclose(found.diagonal, [mean(a**2), mean(b**2)], rtol=tolerance)
    np.testing.assert_allclose(found.within[1], mean(b * c), rtol=tolerance)
    np.testing.assert_allclose(found.between, mean(a * b), rtol=tolerance)
    np.testing.assert_allclose(found.log_value, np.log(weight.sum()), atol=tolerance)


def test_bulk_of_the_prior_has_its_kernel():
    """Without couplings ⟨φφ⟩ is that of two Gaussians of a given angle."""
    counts, overlaps, diagonal = np.array([4, 7]), np.array([0.2, 0.9]), np.array([1.0, 1.5])
    zero = np.zeros(2)
    found = deep_condensation.bulk(counts, zero, zero, 0.0, overlaps, diagonal - overlaps, 16.0)
    angle = np.arccos(overlaps / diagonal)
    expected = diagonal / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    np.testing.assert_allclose(found.within, expected, rtol=1e-4)
    np.testing.assert_allclose(found.diagonal, diagonal / 2, rtol=1e-4)
    assert found.between == pytest.approx(np.sqrt(diagonal.prod()) / (2 * np.pi), rel=1e-4)
    assert found.log_value == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("overlap", [0.0, 0.2])
def test_density_of_a_branch_is_that_of_its_sums(overlap):
    """Where all six inputs of the one class are active, the weight of their sum is level."""
    rest, count, own = 0.1, 6, 1 - overlap
    stiffness = own + count * overlap
    within = (1 / stiffness - rest) / count
    x, weights, _ = deep_condensation._sums(count, rest, within, overlap, own, 9.0)
    expected = np.sqrt(count / (2 * np.pi * stiffness)) * (1 - own * rest) ** (-(count - 1) / 2) / count
    np.testing.assert_allclose(weights[-3:] / (x[1] - x[0]), expected, rtol=1e-3)  # per unit of S = n x


def test_silent_neurons_of_the_prior_are_counted():
    """Two inputs of correlation ρ are both negative with probability 1/4 + arcsin(ρ)/2π."""
    found = deep_condensation._log_silent(np.array([3, 2]), np.array([0.0, 0.6]), np.array([1.0, 0.4]))
    expected = [0.125, 0.25 + np.arcsin(0.6) / (2 * np.pi)]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-6)


def test_couplings_are_slopes_of_the_free_energy():
    task, counts, variance = UNEQUAL, UNEQUAL.class_counts, 24**-0.5

    def features(diagonal, within, between):
        block = np.where(np.eye(3), within, between)
        kernel = class_kernel(block, diagonal - within, task.labels)
        return condensation.solve(clustered.with_kernel(task, kernel), T, readout_variance=variance)

    def free_energy(*place):
        found = features(*place)
        t = found.dual_field
        return (
            found.log_bulk
            - counts @ np.sum(found.problem.targets * t, 1)
            + 0.5 * T * counts @ np.sum(t**2, 1)
        )

    place = np.array([0.8, 0.9, 0.9]), np.array([0.4, 0.55, 0.55]), 0.2
    found = deep_condensation.couplings(features(*place))
    first, last, h = np.array([1, 0, 0]), np.array([0, 0, 1]), 2e-3
    pairs = counts.sum() ** 2 - np.sum(counts**2)
    for moved, expected in (
        ((first, 0 * first, 0.0), 0.5 * counts[0] * found.diagonal[0]),
        ((0 * last, last, 0.0), 0.5 * counts[2] * (counts[2] - 1) * found.within[2]),
        ((0 * first, 0 * first, 1.0), 0.5 * pairs * found.between),
    ):
        up, down = (free_energy(*(p + sign * h * d for p, d in zip(place, moved))) for sign in (1, -1))
        assert (up - down) / (2 * h) == pytest.approx(expected, rel=2e-3)


def test_saddle_point(solved):
    assert solved.converged
    assert "converged, residual" in repr(solved)
    counts = UNEQUAL.class_counts
    hat = deep_condensation.couplings(solved.features)
    assert hat.between < 0  # a neuron of one class pushes those of others away
    np.testing.assert_allclose(hat.diagonal + (counts - 1) * hat.within, 1, atol=1e-6)  # branches are flat
    inputs = np.zeros(3), np.ones(3)
    below = deep_condensation.bulk(counts, hat.diagonal - hat.within, hat.within, hat.between, *inputs)
    np.testing.assert_allclose(below.within + solved.amounts, solved.within, rtol=1e-6)
    np.testing.assert_allclose(below.diagonal + solved.amounts, solved.diagonal, rtol=1e-6)
    assert below.between == pytest.approx(solved.between, rel=1e-6)
    block = np.where(np.eye(3), solved.within, solved.between)
    expected = class_kernel(block, solved.diagonal - solved.within, UNEQUAL.labels)
    np.testing.assert_allclose(solved.kernel_below, expected, atol=1e-12)
    assert np.all(solved.amounts > solved.amounts_error)
    farther = deep_condensation.bulk(counts, hat.diagonal - hat.within, hat.within, hat.between, *inputs, 8.0)
    np.testing.assert_allclose(np.abs(farther.within - below.within), solved.amounts_error, rtol=1e-5)
    rest = hat.diagonal - hat.within
    density = np.sqrt(counts / (2 * np.pi)) * (1 - rest) ** (-(counts - 1) / 2) * 0.5 ** (24 - counts)
    density /= np.exp(below.log_value)
    expected = 3 * (0.5 * np.pi * density**2 * solved.amounts) ** (-1 / 3)
    np.testing.assert_allclose(solved.crossover_width, expected, rtol=1e-5)
    assert np.all(solved.within / solved.diagonal > 1 / np.pi)  # of the prior
    np.testing.assert_array_equal(solved.participation(60), solved.features.participation(60))
    assert "one neuron per class" in solved.approximation
    assert solved.task is UNEQUAL
    assert solved.temperature == T


def test_saddle_point_of_inputs_that_are_alike(solved):
    overlap = 0.1
    task = tasks.clustered(24, (0.5, 0.25, 0.25), overlap, y_minus=-0.5)
    found, counts = deep_condensation.solve(task, T), task.class_counts
    assert found.converged
    hat, stiffness = deep_condensation.couplings(found.features), 1 - overlap + counts * overlap
    np.testing.assert_allclose((hat.diagonal + (counts - 1) * hat.within) * stiffness, 1, atol=1e-6)
    overlaps = np.full(3, overlap)
    below = deep_condensation.bulk(counts, hat.rest, hat.within, hat.between, overlaps, 1 - overlaps)
    np.testing.assert_allclose(below.within + found.amounts, found.within, rtol=1e-6)
    np.testing.assert_allclose(below.diagonal + found.amounts, found.diagonal, rtol=1e-6)
    assert below.between == pytest.approx(found.between, rel=1e-6)
    silent = np.exp(deep_condensation._log_silent(counts, overlaps, 1 - overlaps))
    density = np.sqrt(counts / (2 * np.pi * stiffness)) * (silent.prod() / silent) / np.exp(below.log_value)
    density *= (1 - (1 - overlap) * hat.rest) ** (-(counts - 1) / 2)
    expected = 3 * (0.5 * np.pi * density**2 * found.amounts) ** (-1 / 3)
    np.testing.assert_allclose(found.crossover_width, expected, rtol=1e-5)
    assert np.all(found.crossover_width < solved.crossover_width)
    assert np.all(found.within / found.diagonal > solved.within / solved.diagonal)


def test_bulk_and_branch_that_are_not_told_apart_have_no_crossover(solved):
    vague = replace(solved, crossover_width=np.array([40.0, np.nan, np.nan]))
    assert "N ≪ N* = 40," in vague.approximation
    assert "N ≪ N*, without" in replace(solved, crossover_width=np.full(3, np.nan)).approximation


def test_classes_in_another_order_have_the_same_couplings_and_bulk(solved):
    order, task = [1, 0, 2], tasks.toy(24, (0.25, 0.5, 0.25), y_minus=-0.5)
    kernel = class_kernel(
        np.where(np.eye(3), solved.within[order], solved.between),
        solved.diagonal[order] - solved.within[order],
        task.labels,
    )
    like = clustered.with_kernel(task, kernel)
    hat = deep_condensation.couplings(condensation.solve(like, T, readout_variance=24**-0.5))
    first = deep_condensation.couplings(solved.features)
    np.testing.assert_allclose(hat.within, first.within[order], rtol=1e-5)
    np.testing.assert_allclose(hat.diagonal, first.diagonal[order], rtol=1e-4)
    assert hat.between == pytest.approx(first.between, rel=1e-5)
    inputs = np.zeros(3), np.ones(3)
    below = deep_condensation.bulk(task.class_counts, hat.rest, hat.within, hat.between, *inputs)
    np.testing.assert_allclose(below.within + solved.amounts[order], solved.within[order], rtol=1e-5)


@pytest.mark.parametrize(
    ("num_inputs", "ratios", "temperature"),
    [(32, (0.5, 0.5), 0.0), (24, (0.5, 0.5), 0.05)],
)
def test_classes_temperatures_and_sizes(num_inputs, ratios, temperature):
    found = deep_condensation.solve(tasks.toy(num_inputs, ratios, y_minus=-0.5), temperature)
    assert found.converged
    assert np.all(found.amounts > 0)


def test_a_class_without_a_neuron_below_is_told():
    with pytest.warns(UserWarning, match="a class has no neuron of its own in the layer below"):
        found = deep_condensation.solve(tasks.toy(16, (0.75, 0.25), y_minus=-0.5), 0.0, readout_variance=0.3)
    assert not found.converged
    assert found.amounts[0] < 0 < found.amounts[1]


def test_bad_input():
    with pytest.raises(ValueError, match="at least 2"):
        deep_condensation.solve(tasks.toy(8, (7 / 8, 1 / 8)), T)
    with pytest.raises(ValueError, match="do not overlap by one ρ within"):
        deep_condensation.solve(tasks.tree(24, overlaps=(0.5, 0.2)), T)
    with pytest.raises(ValueError, match="temperature"):
        deep_condensation.solve(UNEQUAL, -1.0)
    with pytest.raises(ValueError, match="readout_variance"):
        deep_condensation.solve(UNEQUAL, T, readout_variance=0.0)
