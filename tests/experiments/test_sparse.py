"""Theory's numbers and the measures of the sparse chapter, on cases that need no sampling."""

import numpy as np
from coding_schemes.theory import relu, relu_squared
from experiments import sparse


def test_room_for_further_outliers_appears_where_they_share_classes_and_shrinks_with_size():
    unique, family = (relu.solve(sparse.toy(100, y), 0.01) for y in (-0.5, 0.6))
    assert sparse.spare_outliers(unique, 100) < 1e-6
    assert sparse.spare_outliers(family, 100) > 10
    assert sparse.spare_outliers(family, 500) < 0.1


def test_a_bulk_that_codes_for_a_class_saves_an_outlier():
    assert relu.solve(sparse.background_task(100), 0.01).num_outliers == 2


def test_variations_fall_as_the_inverse_root_of_the_width():
    rectified, squared = [], []
    for size in (400, 1600):
        task = sparse.toy(size)
        rectified.append(sparse.variation(relu.finite_size(relu.solve(task, 0.01), size)))
        squared.append(sparse.variation_squared_relu(relu_squared.solve(task, 0.01), size, 0.01))
    for larger in (rectified[0] / rectified[1], squared[0] / squared[1]):
        assert np.all((larger > 1.7) & (larger < 2.7))


def test_statements_about_depth():
    labels = np.repeat([0, 1, 2], [8, 4, 4])
    rng = np.random.default_rng(0)
    classes = np.eye(3)[labels].T
    layers = []
    for rows in (classes[1:], classes[[1, 1, 2]], classes):
        phi = 0.1 * rng.random((60, 16))
        phi[: len(rows)] = (2 + len(layers)) * rows
        layers.append(phi[None])
    assert sparse.statements(layers, labels).tolist() == [[True] * 4 + [True]]
    layers[2] = np.concatenate([layers[2], layers[2][:, :1]], axis=1)  # a second outlier of class 0
    assert sparse.statements(layers, labels).tolist() == [[True, True, False, True, True]]
