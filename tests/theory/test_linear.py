"""Linear theory against its limits, its defining conditions and the exact finite-width chain."""

import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import _solvers, linear
from scipy.optimize import minimize


@pytest.fixture(scope="module")
def correlated_task():
    """A task with a full-rank, non-trivial K0."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [20, 10, 10])
    return tasks.Task(rng.standard_normal((60, 40)), labels, tasks.one_hot(3, 1.0, -0.5)[labels])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_closed_form_is_paper_a(depth):
    task = tasks.toy(80, y_minus=-0.5)
    solution = linear.solve(task, depth)
    sigma_sq = 80 ** (-1 / depth)
    u = solution.readout_covariance
    np.testing.assert_allclose(
        np.linalg.matrix_power(u, depth + 1), sigma_sq**depth * task.targets.T @ task.targets, rtol=1e-10
    )
    for layer in range(1, depth + 1):
        learned = (
            task.targets @ np.linalg.matrix_power(np.linalg.pinv(u, 1e-9), depth - layer + 1) @ task.targets.T
        )
        np.testing.assert_allclose(
            solution.kernels[layer], np.eye(80) + sigma_sq ** (depth - layer) * learned, atol=1e-10
        )


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_saddle_point_conditions(correlated_task, depth):
    """t = (σ_a² K_L + T)⁻¹ Y, geometric kernels, U = (1/σ_a² − tᵀ K_{L−1} t)⁻¹, residual T t."""
    solution = linear.solve(correlated_task, depth, temperature=0.05)
    assert solution.converged
    kernels, t, sigma_sq = solution.kernels, solution.dual_field, solution.readout_variance
    ridge = sigma_sq * kernels[-1] + 0.05 * np.eye(40)
    np.testing.assert_allclose(t, np.linalg.solve(ridge, correlated_task.targets), atol=1e-9)
    for below, here, above in zip(kernels, kernels[1:], kernels[2:]):
        np.testing.assert_allclose(above, here @ np.linalg.solve(below, here), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        np.linalg.inv(solution.readout_covariance), np.eye(3) / sigma_sq - t.T @ kernels[-2] @ t, atol=1e-7
    )
    residual = correlated_task.targets - solution.predict(correlated_task.inputs)
    np.testing.assert_allclose(residual, 0.05 * t, atol=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_limit_rate(depth):
    """The exact saddle reaches paper A's formula as T → 0 and P → ∞, with error O(σ_a²) = O(P^{−1/L})."""
    errors = []
    for num_inputs in (200, 1600):
        task = tasks.toy(num_inputs, y_minus=0.0)
        exact = linear.solve(task, depth, temperature=1e-8).readout_covariance
        limit = linear.solve(task, depth).readout_covariance
        errors.append(np.linalg.norm(exact - limit))
    assert errors[1] < errors[0]
    assert np.log2(errors[0] / errors[1]) / 3 == pytest.approx(1 / depth, rel=0.15)


def test_ridge_limit_of_the_predictor(correlated_task):
    """At T → 0 the mean predictor is kernel interpolation with K0, at any depth."""
    inputs = np.random.default_rng(1).standard_normal((60, 7))
    k0 = inputs.T @ correlated_task.inputs / 60
    interpolation = k0 @ np.linalg.solve(correlated_task.input_kernel, correlated_task.targets)
    for depth in (1, 3):
        for temperature in (0.0, 1e-9):
            predicted = linear.solve(correlated_task, depth, temperature).predict(inputs)
            np.testing.assert_allclose(predicted, interpolation, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_finite_width_saddle_is_the_mode_of_the_exact_chain(depth):
    """The width-corrected H maximizes the exact density of the Gram matrices in scale-free measure."""
    rng = np.random.default_rng(2)
    task = tasks.Task(rng.standard_normal((30, 20)), np.arange(20) % 2, rng.standard_normal((20, 1)))
    sigma_sq, width, temperature = 0.3, 40, 0.02

    def negative(log_grams):
        grams = np.exp(log_grams)
        return -(linear.gram_logdensity(task, grams, width, temperature, sigma_sq) + log_grams.sum())

    mode = np.exp(minimize(negative, np.zeros(depth), method="BFGS", tol=1e-10).x)
    h = linear.solve(task, depth, temperature, sigma_sq, width).readout_covariance[0, 0] / sigma_sq
    np.testing.assert_allclose(mode, sigma_sq * h ** np.arange(1, depth + 1), rtol=1e-5)


def test_predictor_variance_is_the_conditional_gaussian_one(correlated_task):
    """For one neuron type the formula is A_1 ⊗ (κ − kᵀK0⁻¹k)/N at T → 0, and vanishes on training inputs."""
    solution = linear.solve(correlated_task, 1, temperature=1e-9)
    assert np.abs(solution.predictor_variance(correlated_task.inputs, 100)).max() < 1e-8
    inputs = np.random.default_rng(3).standard_normal((60, 5))
    k0 = inputs.T @ correlated_task.inputs / 60
    free = np.square(inputs).sum(0) / 60 - np.sum(
        k0 * np.linalg.solve(correlated_task.input_kernel, k0.T).T, 1
    )
    expected = free[:, None] * np.diag(solution.readout_covariance) / 100
    np.testing.assert_allclose(solution.predictor_variance(inputs, 100), expected, rtol=1e-4)


@pytest.mark.parametrize("depth", [1, 2])
def test_predictor_variance_at_finite_temperature_is_the_conditional_gaussian_one(correlated_task, depth):
    """Outputs are Gaussian of covariance K0 ⊗ A_1/N, seen through noise T/N, and conditioned all at once."""
    temperature, width = 0.3, 50
    solution = linear.solve(correlated_task, depth, temperature)
    gram = np.linalg.matrix_power(solution.readout_covariance / solution.readout_variance, depth)
    gram = solution.readout_variance * gram
    data = np.kron(correlated_task.input_kernel, gram) + temperature * np.eye(40 * 3)
    inputs = np.random.default_rng(3).standard_normal((60, 4))
    for x, variance in zip(inputs.T, solution.predictor_variance(inputs, width)):
        mixed = np.kron(correlated_task.inputs.T @ x[:, None] / 60, gram)
        expected = x @ x / 60 * gram - mixed.T @ np.linalg.solve(data, mixed)
        np.testing.assert_allclose(variance, np.diag(expected) / width, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e3])
def test_unreachable_targets_are_refused(scale):
    """Whatever the units of the inputs; and those within reach are met."""
    rng = np.random.default_rng(4)
    task = tasks.Task(scale * rng.standard_normal((5, 20)), np.arange(20) % 2, rng.standard_normal((20, 1)))
    with pytest.raises(ValueError, match="rank 5"):
        linear.solve(task)
    for temperature in (0.1, 0.1 * scale**2):  # in units of K0, too: H is large where these are small
        assert linear.solve(task, temperature=temperature).converged
    reachable = tasks.Task(scale * rng.standard_normal((25, 20)), task.labels, task.targets)
    s = linear.solve(reachable)
    assert s.converged
    np.testing.assert_allclose(s.predict(reachable.inputs), task.targets, atol=1e-9)


def test_root_of_a_singular_matrix_is_real_and_its_floor_a_share_of_the_largest_eigenvalue():
    """Some of those that vanish come out below 0; of X Xᵀ the others are those of Xᵀ X."""
    for x in np.random.default_rng(0).standard_normal((20, 6, 2)):
        matrix, own = x @ x.T, np.linalg.eigvalsh(x.T @ x)
        root, floored = _solvers.symmetric_root(matrix), _solvers.symmetric_root(matrix, 1e-3)
        np.testing.assert_allclose(root @ root, matrix, atol=1e-12)
        expected = np.append(np.full(4, 1e-3 * own[1]), np.maximum(own, 1e-3 * own[1]))
        np.testing.assert_allclose(np.linalg.eigvalsh(floored @ floored), expected)
