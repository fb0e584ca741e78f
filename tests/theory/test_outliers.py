"""Outliers' strength, variation and number against the targets they make, and integrals by brute force."""

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.coding import SparseMeasures
from coding_schemes.theory import outliers, relu, relu_squared
from scipy.interpolate import CubicSpline
from scipy.stats import norm


def toy(size, y_minus=-0.5):
    return tasks.toy(size, y_minus=y_minus)


@pytest.fixture(scope="module")
def sparse():
    return relu.solve(toy(100), 0.01)


def test_outliers_and_bulk_make_the_targets(sparse):
    """f = (1/N) Σ a φ of each class: its own outlier's strengths, and the bulk; both kinds of networks."""
    size, temperature = 400, 0.01
    found = outliers.strengths(sparse, size)
    outputs = found[:, :-1] * found[:, -1:] / size + np.outer(sparse.bulk_activations, sparse.bulk_readout)
    np.testing.assert_allclose(outputs, sparse.class_targets - temperature * sparse.dual_field, atol=1e-6)
    squared = relu_squared.solve(toy(100), 0.0)
    found = outliers.strengths(squared, size)
    outputs = found[:, :-1] * found[:, -1:] ** 2 / size
    np.testing.assert_allclose(outputs, toy(100).class_targets, atol=1e-6)


def test_variation_of_a_squared_relu_is_that_of_one_neuron_in_its_noise():
    """The posterior of z alone given the outputs, with noise of the bulk that is drawn, on a grid."""
    size, num_inputs, temperature = 10**6, 100, 0.02
    solution = relu_squared.solve(toy(num_inputs), temperature)
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((400_000, 3)) / num_inputs**0.5 + solution.bulk_readout * size ** (-1 / 3)
    terms = draws * (np.maximum(rng.standard_normal((len(draws), 1)), 0) ** 2 - 0.5)
    precision = size * np.linalg.inv(temperature * np.eye(3) + terms.T @ terms / len(draws))
    found = outliers.variation_squared_relu(solution, size, temperature)
    for c, (*a, z) in enumerate(outliers.strengths(solution, size)):
        grid = z * np.linspace(0.9, 1.1, 4001)
        away = np.outer(grid**2 - z**2, a) / size
        weights = np.exp(-0.5 * np.einsum("ni,ij,nj->n", away, precision, away))
        mean = np.average(grid**2, weights=weights)
        cv = np.sqrt(np.average((grid**2 - mean) ** 2, weights=weights)) / mean
        cv *= np.sqrt(1 - 1 / solution.task.class_counts[c])  # about the class's own mean
        assert found[c] == pytest.approx(cv, rel=0.01)


def test_variations_fall_as_the_inverse_root_of_the_width():
    rectified, squared = [], []
    for size in (400, 1600):
        task = toy(size)
        rectified.append(outliers.variation(relu.finite_size(relu.solve(task, 0.01), size)))
        squared.append(outliers.variation_squared_relu(relu_squared.solve(task, 0.01), size, 0.01))
    for larger in (rectified[0] / rectified[1], squared[0] / squared[1]):
        assert np.all((larger > 1.7) & (larger < 2.7))


def test_variation_is_that_of_draws_about_their_own_mean():
    finite = relu.finite_size(relu.solve(toy(40), 0.01), 40)
    own = finite.outlier_preactivations.argmax(0)
    rng = np.random.default_rng(0)
    for c, i in enumerate(own):
        mean = 40**0.5 * finite.outlier_preactivations[i, c]
        spread, count = finite.outlier_preactivation_variances[i, c] ** 0.5, int(finite.task.class_counts[c])
        z = mean + spread * rng.standard_normal((100_000, count))
        cv = np.sqrt(z.var(1).mean()) / mean
        assert outliers.variation(finite)[c] == pytest.approx(cv, rel=0.005)


def test_room_for_further_outliers_is_the_ratio_of_two_integrals():
    """On lattices in space, in place of drawn angles and Laplace's formula; log g and ⟨φ²⟩ by sums over z."""
    size, solution = 100, relu.solve(toy(100, 0.6), 0.01)
    t, w, a0 = solution.dual_field, solution.class_weights, solution.bulk_readout
    z = np.linspace(-12, 30, 4201)
    prior, phi = norm.pdf(z) * (z[1] - z[0]), np.maximum(z, 0)
    nodes = np.linspace(-60, 60, 2401)
    log_g = np.where(
        nodes < 14,
        np.log(np.exp(np.outer(np.minimum(nodes, 14), phi)) @ prior),
        nodes**2 / 2 + np.log1p(0.5 * np.exp(-(nodes**2) / 2)),
    )
    tilted = np.exp(np.outer(t @ a0, phi)) * prior
    squares = np.square(solution.outlier_preactivations).sum(0) + tilted @ phi**2 / tilted.sum(1)
    reach = size**0.5 * np.linalg.norm(solution.outlier_readouts, axis=1).max()
    table = CubicSpline(nodes, log_g)

    def mass(center, half, num):
        """Over a cube, of outliers and of all others."""
        axis = np.linspace(-half, half, num)
        a = center + np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
        s = a @ t.T
        weight = np.exp(size * (table(s) @ w - np.square(a).sum(1) / 2 - (table(t @ a0) @ w - a0 @ a0 / 2)))
        out = (np.maximum(s, 0) ** 2 > size**0.5 * squares).any(1)
        weight *= np.linalg.norm(a, axis=1) <= reach
        return np.array([weight[out].sum(), weight[~out].sum()]) * (axis[1] - axis[0]) ** 3

    expected = size * mass(0.0, reach, 71)[0] / mass(a0, 0.8, 41)[1]
    assert 0.5 < outliers.spare_outliers(solution, size) / expected < 2  # its angles are drawn


def test_room_for_further_outliers_appears_where_they_share_classes_and_shrinks_with_size(sparse):
    family = relu.solve(toy(100, 0.6), 0.01)
    assert outliers.spare_outliers(sparse, 100) < 1e-6
    assert outliers.spare_outliers(family, 100) > 10
    assert outliers.spare_outliers(family, 500) < 0.1


def test_overlaps_are_sums_over_all_neurons_of_a_large_network(sparse):
    """10⁸ of them: every outlier once, and the bulk."""
    size = 10**8
    neurons = [size**0.5 * row for row in sparse.outlier_readouts]
    total = sum(np.outer(a, a) for a in neurons) + (size - len(neurons)) * np.outer(
        *[sparse.bulk_readout] * 2
    )
    np.testing.assert_allclose(outliers.overlaps(sparse), total[np.triu_indices(3)] / size, rtol=1e-6)


def test_measured_numbers_of_known_samples():
    rng = np.random.default_rng(0)
    z = rng.random((8, 200, 3, 3))
    variation = 0.2 + 0.02 * rng.standard_normal((8, 200, 3))
    none = np.zeros(0)
    measures = SparseMeasures(none, rng.random((8, 200, 3, 2)), z, variation, none, none)
    found = outliers.measured_strengths(measures)
    np.testing.assert_array_equal(found[1, 7, 2], [*measures.readouts[1, 7, 2], z[1, 7, 2, 2]])
    value, error = outliers.measured_variation(measures)
    assert np.all(np.abs(value - np.sqrt(0.2**2 + 0.02**2)) < 4 * error)
    assert error == pytest.approx(np.full(3, 0.02 / 40), rel=0.3)


def test_a_class_without_an_outlier_has_no_strength():
    targets = 1.5 * np.eye(3) - 0.5
    targets[0] *= 0.05
    solution = relu.solve(tasks.toy(100, targets=targets.tolist()), 0.01)
    with pytest.raises(ValueError, match="needs one that is active on each class"):
        outliers.strengths(solution, 100)
