"""Linear networks of finite width: against quadrature for one output, and against the saddle at large N."""

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import linear, wishart_chain


def test_one_output_against_quadrature_over_the_chain():
    width, temperature, variance = 12, 0.3, 0.2
    inputs = np.random.default_rng(1).standard_normal((9, 5))
    task = tasks.Task(inputs, np.array([0, 0, 1, 1, 1]), np.array([[1.0], [1], [-1], [-1], [-1]]))
    found = wishart_chain.solve(task, 2, temperature, width, variance, num_draws=20_000)
    assert found.converged
    grid = np.linspace(-6, 4, 401)
    grams = np.exp(np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1))  # A_2, A_1
    log_weight = linear.gram_logdensity(task, grams, width, temperature, variance) + np.log(grams).sum(-1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    # K_L = (1 − 1/N)(...) + f f'/A_L with f's mean and scatter at each A_1, along the eigenvectors of K0
    eigenvalues, basis = np.linalg.eigh(task.input_kernel)
    eigenvalues, y = eigenvalues.clip(0), basis.T @ task.targets[:, 0]
    scaled = eigenvalues * grams[..., 1:]
    shrunk = scaled / (scaled + temperature)
    second = (shrunk * y)[..., :, None] * (shrunk * y)[..., None, :]
    second = second + (temperature / width * shrunk)[..., None] * np.eye(5)
    kernel = np.diag(eigenvalues)
    for layer in (1, 0):
        learned = np.einsum("ab,abij->ij", weight / grams[..., layer], second)
        kernel = (1 - 1 / width) * kernel + learned
    expected = basis @ kernel @ basis.T
    np.testing.assert_allclose(found.kernels[-1], expected, atol=0.02 * np.abs(expected).max())
    above, below = (weight[..., None] * grams).sum((0, 1))
    assert found.readout_covariance[0, 0] == pytest.approx(above, rel=0.02)
    assert found.grams[:, 0, 0] == pytest.approx([below, above], rel=0.02)


def test_large_width_is_the_saddle_and_corrections_fall_as_one_over_width():
    task = tasks.toy(12, (0.5, 0.25, 0.25), y_plus=1.0, y_minus=0.0, seed=0)
    gaps = []
    for width in (100, 400):
        saddle = linear.solve(task, 3, 0.2, width=width)
        found = wishart_chain.solve(task, 3, 0.2, width)
        assert found.converged
        gaps.append(np.abs(found.kernels[-1] - saddle.kernels[-1]).max() / np.abs(saddle.kernels[-1]).max())
    assert gaps[1] < 0.01
    assert gaps[1] < 0.5 * gaps[0]


@pytest.mark.parametrize("num_inputs", [8, 13])
def test_directions_of_one_eigenvalue_count_as_if_each_had_its_own(num_inputs):
    """Unrelated inputs, all one term, and the same with lengths that differ in the ninth digit."""
    alike = tasks.toy(num_inputs, y_minus=-0.5)
    lengths = 1 + 1e-9 * np.arange(num_inputs)
    apart = tasks.Task(alike.inputs * lengths, alike.labels, alike.targets)
    one, other = (wishart_chain.solve(task, 2, 0.1, 20, num_draws=500) for task in (alike, apart))
    assert one.effective_draws == pytest.approx(other.effective_draws, rel=1e-4)
    np.testing.assert_allclose(one.grams, other.grams, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(one.kernels, other.kernels, rtol=1e-4, atol=1e-4)


def test_packed_factors_come_out_as_they_were():
    factor = np.tril(np.random.default_rng(0).standard_normal((4, 4)), -1) + np.diag([0.1, 1.0, 3.0, 20.0])
    np.testing.assert_allclose(wishart_chain._unpack(wishart_chain._pack(factor)), factor, rtol=1e-6)
