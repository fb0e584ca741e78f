"""Theory's numbers and the measures of the sparse chapter, on cases that need no sampling."""

import numpy as np
from coding_schemes.theory import relu
from experiments import sparse


def test_a_bulk_that_codes_for_a_class_saves_an_outlier():
    assert relu.solve(sparse.background_task(100), 0.01).num_outliers == 2


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
