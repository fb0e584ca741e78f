"""The solvers' numbers as they were before their algorithms changed, to 1e-6 of the largest entry.

reference.json was written by the hand-written barrier, Newton and L-BFGS solvers; arrays longer than 12 rows
are thinned to every (length // 6)-th.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import gaussian_process, linear, mean_field, relu, relu_squared

REFERENCE = json.loads((Path(__file__).parent / "reference.json").read_text())
RATIOS = (0.5, 0.25, 0.25)


def toy(y_minus=-0.5, targets=None, ratios=RATIOS):
    return tasks.toy(100, ratios, y_minus=y_minus, targets=targets)


def random_inputs():
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], [20, 10, 10])
    return tasks.Task(rng.standard_normal((60, 40)), labels, tasks.one_hot(3, 1.0, -0.5)[labels])


def clusters():
    rng = np.random.default_rng(0)
    centers, labels = rng.standard_normal((40, 3)), np.arange(24) * 3 // 24
    rng.integers(0, 3, 15)  # labels of a test split that is not needed here
    inputs = centers[:, labels] + 0.7 * rng.standard_normal((40, 24))
    return tasks.Task(inputs, labels, tasks.one_hot(3, 1.0, 0.2)[labels])


RARE = [[0.1158, 0.3272, 1.9061], [0.4488, 1.9008, 0.4205], [0.3863, 0.2349, 0.4138]]
SOLVES = {
    "relu, published task": lambda: relu.solve(toy()),
    "relu, a family of outliers": lambda: relu.solve(toy(0.5), 0.01),
    "relu, four classes": lambda: relu.solve(
        toy(targets=tasks.one_hot(4, 1.0, 0.0), ratios=(0.4, 0.3, 0.2, 0.1)), 0.3
    ),
    "relu, two bulk populations": lambda: relu.solve(toy(targets=RARE, ratios=(0.05, 0.08, 0.87)), 0.1),
    "softplus": lambda: relu.solve(toy(), 0.01, nonlinearity="softplus"),
    "relu, one class": lambda: relu.solve(toy(targets=[[1.0]], ratios=(1.0,))),
    "relu, weak targets": lambda: relu.solve(
        toy(targets=0.05 * tasks.one_hot(2, 1.0, 0.0), ratios=(0.7, 0.3))
    ),
    "relu, equal outliers": lambda: relu.solve(toy(0.2), 0.01),
    "relu squared": lambda: relu_squared.solve(toy()),
    "relu squared, finite size": lambda: relu_squared.solve(toy(), 0.01, num_neurons=500),
    "mean field, sigmoidal": lambda: mean_field.solve(clusters(), "sigmoidal", 0.01),
    "mean field, relu": lambda: mean_field.solve(clusters(), "relu", 0.01),
    "linear": lambda: linear.solve(random_inputs(), 1, 0.05),
    "linear, three layers": lambda: linear.solve(random_inputs(), 3, 0.05),
    "linear, three layers, finite width": lambda: linear.solve(random_inputs(), 3, 0.05, width=100),
    "gaussian process": lambda: gaussian_process.solve(tasks.mnist(100, 0), "relu", 2, 0.01),
}
OF_OUTLIERS = ("outlier_readouts", "outlier_preactivations", "outlier_preactivation_variances")


@pytest.mark.parametrize("name", list(SOLVES))
def test_numbers_are_those_of_the_hand_written_solvers(name):
    solution = SOLVES[name]()
    assert solution.converged
    for field, expected in REFERENCE[name].items():
        wanted, found = np.array(expected), np.asarray(getattr(solution, field), dtype=float)
        if found.ndim and len(found) > 12:
            found = found[:: max(1, len(found) // 6)]
        if field in OF_OUTLIERS:  # equally large outliers come in any order
            wanted, found = (a[np.lexsort(a.round(5).T)] for a in (wanted, found))
        np.testing.assert_allclose(
            found, wanted, atol=1e-6 * max(np.abs(wanted).max(initial=0), 1e-3), err_msg=field
        )
