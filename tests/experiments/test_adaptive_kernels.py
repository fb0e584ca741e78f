"""Measures of the adaptive kernels' chapter, on kernels and networks whose values are known."""

import numpy as np
import pytest
from coding_schemes.networks import Network
from coding_schemes.theory import adaptive_kernel, dmft
from experiments import adaptive_kernels


def test_entries_and_alignment_of_a_block_kernel():
    task = adaptive_kernels.two_classes(6)
    y = task.targets[:, 0]
    kernel = 2 * np.eye(6) + 0.5 * np.outer(y, y) + 0.1
    np.testing.assert_allclose(
        adaptive_kernels.entries(np.stack([kernel] * 2), task.labels), [[0.6, -0.4]] * 2
    )
    assert adaptive_kernels.alignment(np.outer(y, y), task.targets) == pytest.approx(1)
    assert adaptive_kernels.alignment(np.eye(6), task.targets) == pytest.approx(6**-0.5)
    assert adaptive_kernels.overlaps(kernel, task) == pytest.approx(2 + 0.5 * 6)


def test_teacher_labels_inputs_by_their_side():
    task = adaptive_kernels.teacher_task(40, 10, 30, seed=1)
    direction = np.linalg.lstsq(task.inputs.T, task.targets[:, 0], rcond=None)[0]
    assert np.mean(np.sign(direction @ task.inputs) == task.targets[:, 0]) > 0.9
    assert np.mean(np.sign(direction @ task.test_inputs) == task.test_targets[:, 0]) > 0.7
    assert np.all(np.diff(task.labels) >= 0)


def test_shape_of_a_linear_network_is_gaussian():
    task = adaptive_kernels.two_classes(4)
    solution = adaptive_kernel.solve(
        task, Network(1, 1, "linear"), 0.2, 0.1, method="population", num_neurons=512, num_rounds=100
    )
    second, shape = adaptive_kernels.predicted_shape(solution)
    assert second == pytest.approx(np.trace(solution.kernels[1]) / 4, rel=0.05)
    assert shape == pytest.approx((2 / np.pi) ** 0.5, rel=0.02)


def test_what_has_not_converged_is_not_shown(monkeypatch):
    task = adaptive_kernels.teacher_task(8, 12, 10, 0)
    options = {"method": "population", "num_neurons": 256, "num_rounds": 4}
    arguments = (adaptive_kernel.solve, task, Network(1, 1, "erf"), 1.0, 0.1)
    assert adaptive_kernels.solved(*arguments, **options).converged
    monkeypatch.setattr(adaptive_kernel, "MAX_DISAGREEMENT", 1e-6)
    with pytest.raises(FloatingPointError, match="not solved: adaptive kernel .* populations differ"):
        adaptive_kernels.solved(*arguments, **options)


def test_a_search_that_is_not_at_rest_is_not_shown():
    task = adaptive_kernels.teacher_task(8, 12, 10, 0)
    with pytest.raises(FloatingPointError, match="not solved: fixed_point"):
        adaptive_kernels.solved(dmft.fixed_point, task, "relu", 1.0, 0.1, num_neurons=8, max_steps=3)
    path = dmft.population(task, "relu", 1.0, 0.1, duration=1.0, num_neurons=8)
    with pytest.raises(FloatingPointError, match="not solved: aNTK"):
        adaptive_kernels.solved(dmft.antk, path)


def test_values_at_infinite_width():
    widths, limit, slope = (40, 64, 100), np.array([[1.0, -2.0]]), np.array([[3.0, 5.0]])
    means = [limit + slope / n for n in widths]
    errors = [np.full((1, 2), 0.1), np.full((1, 2), 0.2), np.full((1, 2), 0.1)]
    value, error = adaptive_kernels.infinite_width(widths, means, errors)
    np.testing.assert_allclose(value, limit, atol=1e-9)
    two, two_error = adaptive_kernels.infinite_width(widths[::2], means[::2], errors[::2])
    np.testing.assert_allclose(two, limit, atol=1e-9)
    np.testing.assert_allclose(two_error, np.hypot(100, 40) / 60 * 0.1)
    assert np.all(error < two_error)
    alone, _ = adaptive_kernels.infinite_width((40,), means[:1], errors[:1])
    np.testing.assert_array_equal(alone, means[0])


def test_expansion_leaves_the_next_order():
    task = adaptive_kernels.two_classes(2)
    left = adaptive_kernels.expansion_errors(task, Network(1, 1, "erf"), 0.1, np.array([0.05, 0.1]))
    zeroth, first = np.log2(left[1] / left[0])
    assert zeroth == pytest.approx(2, abs=0.1)
    assert first == pytest.approx(4, abs=0.3)


def test_a_laplace_start_keeps_its_shape():
    final, start = adaptive_kernels.final_kurtosis("laplace", 512)
    assert final == pytest.approx(start, abs=1e-6)
    assert abs(adaptive_kernels.final_kurtosis("gaussian", 512)[0]) < 0.5 < start
