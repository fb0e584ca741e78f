"""Gaussian-process theory: kernels against Monte Carlo, posterior against weight space and its limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import networks, tasks
from coding_schemes.theory import gaussian_process, linear

NAMES = ["linear", "erf", "sigmoidal", "relu", "relu_squared"]


@pytest.fixture(scope="module")
def inputs():
    """Five correlated inputs, two of them parallel, one short."""
    x = np.random.default_rng(0).standard_normal((30, 5))
    x[:, 1] = x[:, 0]
    x[:, 2] += 0.8 * x[:, 0]
    x[:, 4] *= 0.1
    return x


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_layer_is_the_average_over_the_one_below(name, depth, inputs):
    """K_ℓ = E φ(z)φ(z)ᵀ with z ~ N(0, K_{ℓ−1}), by 400,000 draws: within 4.5 standard errors."""
    below, here = gaussian_process.prior_kernels(inputs, None, name, depth)[-2:]
    values, vectors = np.linalg.eigh(below)
    root = vectors * np.sqrt(np.maximum(values, 0))
    z = np.random.default_rng(depth).standard_normal((400_000, 5)) @ root.T
    phi = np.asarray(networks.NONLINEARITIES[name](z), dtype=float)
    for i in range(5):
        products = phi[:, i, None] * phi
        error = products.std(axis=0) / len(z) ** 0.5
        assert np.all(np.abs(products.mean(axis=0) - here[i]) < 4.5 * error + 1e-7)


@pytest.mark.parametrize(("name", "depth"), [*((name, 1) for name in NAMES), ("relu", 2), ("tanh", 2)])
def test_tangent_kernels_add_the_average_slopes(name, depth, inputs):
    """Θ_ℓ = K_ℓ + Θ_{ℓ−1} ∘ E φ'(z)φ'(z)ᵀ, by 400,000 draws: within 4.5 standard errors."""
    kernels = gaussian_process.prior_kernels(inputs, None, name, depth)
    tangent = gaussian_process.tangent_kernels(inputs, None, name, depth)
    assert np.array_equal(tangent[0], kernels[0])
    values, vectors = np.linalg.eigh(kernels[-2])
    z = np.random.default_rng(depth).standard_normal((400_000, 5)) @ (vectors * np.sqrt(abs(values))).T
    phi = networks.NONLINEARITIES[name]
    slopes = np.asarray(jax.jvp(phi, (jnp.asarray(z),), (jnp.ones(z.shape),))[1], dtype=float)
    for i in range(5):
        products = slopes[:, i, None] * slopes
        error = np.abs(tangent[-2][i]) * products.std(axis=0) / len(z) ** 0.5
        expected = kernels[-1][i] + tangent[-2][i] * products.mean(axis=0)
        assert np.all(np.abs(expected - tangent[-1][i]) < 4.5 * error + 1e-7)
    block = gaussian_process.tangent_kernels(inputs[:, :2], inputs[:, 2:], name, depth)
    np.testing.assert_allclose(block, tangent[:, :2, 2:], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [("linear", 1e-12), ("erf", 1e-10), ("sigmoidal", 1e-10), ("relu", 1e-5), ("relu_squared", 1e-7)],
)
def test_quadrature_reaches_the_closed_forms(name, accuracy, inputs):
    """To the accuracy that the module states; equal, opposite, parallel and vanishing inputs among them."""
    inputs = np.sqrt(3) * np.concatenate([inputs, -inputs[:, :1], 0 * inputs[:, :1]], axis=1)
    kernel = gaussian_process.prior_kernels(inputs, None, "linear")[0]
    q = np.diag(kernel)
    closed = gaussian_process._CLOSED_FORMS[name](kernel, q[:, None], q[None])
    quadrature = gaussian_process._by_quadrature(networks.NONLINEARITIES[name])
    np.testing.assert_allclose(
        quadrature(kernel, q[:, None], q[None]), closed, atol=accuracy * np.abs(closed).max()
    )
    np.testing.assert_allclose(quadrature(q, q, q), np.diag(closed), atol=1e-12 * np.abs(closed).max())
    block = quadrature(kernel[:2, 2:], q[:2, None], q[None, 2:])
    np.testing.assert_allclose(block, closed[:2, 2:], atol=accuracy * np.abs(closed).max())


def test_kernels_of_other_nonlinearities(inputs):
    """tanh by a double Gauss-Hermite rule, a step by its arcsine, a hard tanh by 400,000 draws."""
    x, w = np.polynomial.hermite_e.hermegauss(80)
    k0, k1 = gaussian_process.prior_kernels(inputs, None, jnp.tanh)
    w, q = w / w.sum(), np.diag(k0)
    for i, j in ((0, 2), (1, 4), (2, 3)):
        rho = k0[i, j] / np.sqrt(q[i] * q[j])
        second = np.tanh(np.sqrt(q[j]) * (rho * x[:, None] + np.sqrt(1 - rho**2) * x))
        np.testing.assert_allclose(k1[i, j], w @ (np.tanh(np.sqrt(q[i]) * x) * (second @ w)), atol=1e-9)
    step = gaussian_process.prior_kernels(inputs, None, jnp.sign)[1]
    arcsine = 2 / np.pi * np.arcsin(np.clip(k0 / np.sqrt(np.outer(q, q)), -1, 1))
    np.testing.assert_allclose(step, arcsine, atol=1e-2)
    opposite = gaussian_process.prior_kernels(inputs, -inputs, jnp.sign)[1]
    np.testing.assert_allclose(np.diag(opposite), -1, atol=1e-12)
    hard = gaussian_process.prior_kernels(inputs, None, lambda z: jnp.clip(z, -1, 1))[1]
    z = np.random.default_rng(0).multivariate_normal(np.zeros(5), k0, 400_000, method="eigh")
    phi = np.clip(z, -1, 1)
    products = phi[:, :, None] * phi[:, None]
    error = products.std(axis=0) / len(z) ** 0.5
    assert np.all(np.abs(products.mean(axis=0) - hard) < 4.5 * error + 1e-4)


def test_a_function_is_taken_for_its_name(inputs):
    """What the networks accept, the process accepts, and a named function gets its closed form."""
    for function, name in ((jax.nn.relu, "relu"), (lambda z: jnp.maximum(z, 0), "relu"), (jnp.tanh, "tanh")):
        np.testing.assert_array_equal(
            gaussian_process.prior_kernels(inputs, None, function, 2),
            gaussian_process.prior_kernels(inputs, None, name, 2),
        )
    task = tasks.mnist(20, 5)
    solution = gaussian_process.solve(task, jnp.tanh, 2, 0.1)
    assert solution.converged
    assert np.all(solution.predictor_variance(task.test_inputs) > 0)


@pytest.fixture(scope="module")
def wide_weights():
    """Of 24 networks of width 1,000: the first layer on 30 dimensions, and the second."""
    rng = np.random.default_rng(1)
    return [rng.standard_normal((24, 1000, width), np.float32) for width in (30, 1000)]


@pytest.mark.parametrize("name", ["erf", "sigmoidal", "relu"])
def test_kernel_of_a_wide_random_network(name, inputs, wide_weights):
    """The same kernels from the library's own forward pass, at width 1,000 and depth 2."""
    network = networks.Network(depth=2, width=1000, nonlinearity=name)
    first = inputs.T / inputs.shape[0] ** 0.5

    @jax.jit
    def kernel(weights, hidden):
        return network.kernel(network.preactivations(weights @ first.T, (hidden,))[-1])

    sampled = np.array([kernel(*each) for each in zip(*wide_weights)], dtype=float)
    error = sampled.std(axis=0, ddof=1) / 24**0.5
    expected = gaussian_process.prior_kernels(inputs, None, name, 2)[-1]
    # width corrections are of relative order 1/N
    assert np.all(np.abs(sampled.mean(axis=0) - expected) < 4.5 * error + 3e-3 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_symmetric_positive_and_agree_between_blocks(name, inputs):
    kernels = gaussian_process.prior_kernels(inputs, None, name, 3)
    np.testing.assert_allclose(kernels, np.swapaxes(kernels, 1, 2))
    assert np.linalg.eigvalsh(kernels[-1])[0] > -1e-10
    block = gaussian_process.prior_kernels(inputs[:, :2], inputs[:, 2:], name, 3)
    np.testing.assert_allclose(block, kernels[:, :2, 2:])


def test_zero_input_has_no_angle():
    kernel = gaussian_process.prior_kernels(np.zeros((3, 1)), np.ones((3, 1)), "relu", 2)
    np.testing.assert_array_equal(kernel, 0)


def test_linear_process_is_bayesian_linear_regression():
    """Posterior of w ~ N(0, 1/N0) with f = w·x, solved in weight space."""
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], [12, 8])
    task = tasks.Task(rng.standard_normal((9, 20)), labels, tasks.one_hot(2, 1.0, -0.5)[labels])
    new = rng.standard_normal((9, 6))
    solution = gaussian_process.solve(task, "linear", temperature=0.3)
    covariance = np.linalg.inv(9 * np.eye(9) + task.inputs @ task.inputs.T / 0.3)
    np.testing.assert_allclose(solution.predict(new), new.T @ covariance @ task.inputs @ task.targets / 0.3)
    np.testing.assert_allclose(
        solution.predictor_variance(new), np.einsum("ip,ij,jp->p", new, covariance, new)
    )


@pytest.mark.parametrize("name", NAMES)
def test_limits_in_temperature(name):
    task = tasks.mnist(30, 20)
    cold = gaussian_process.solve(task, name, depth=2)
    np.testing.assert_allclose(cold.predict(task.inputs), task.targets, atol=1e-6)
    assert cold.predictor_variance(task.inputs).max() < 1e-8 * np.diag(cold.kernels[-1]).max()
    hot = gaussian_process.solve(task, name, depth=2, temperature=1e8)
    assert np.abs(hot.predict(task.test_inputs)).max() < 1e-3
    prior = np.diag(gaussian_process.prior_kernels(task.test_inputs, None, name, 2)[-1])
    np.testing.assert_allclose(hot.predictor_variance(task.test_inputs), prior, rtol=1e-3)


@pytest.mark.parametrize("temperature", [0.0, 0.01, 1.0])
def test_training_residual_is_the_dual_field(temperature):
    task = tasks.mnist(40, 10)
    solution = gaussian_process.solve(task, "erf", temperature=temperature, readout_variance=2.0)
    residual = task.targets - solution.predict(task.inputs)
    np.testing.assert_allclose(residual, temperature * solution.dual_field, atol=1e-9)
    assert solution.converged


def test_predictions_are_the_conditional_gaussian():
    """Mean and variance from the joint covariance of training outputs and one new output."""
    task = tasks.mnist(25, 8)
    solution = gaussian_process.solve(task, "relu", depth=2, temperature=0.05, readout_variance=0.7)
    for j in range(8):
        both = np.concatenate([task.inputs, task.test_inputs[:, j : j + 1]], axis=1)
        joint = 0.7 * gaussian_process.prior_kernels(both, None, "relu", 2)[-1]
        noisy = joint + np.diag([0.05] * 25 + [0.0])
        precision = np.linalg.inv(noisy)  # conditional variance is the inverse of the last entry
        assert solution.predictor_variance(task.test_inputs)[j] == pytest.approx(1 / precision[-1, -1])
        mean = -precision[-1, :-1] @ task.targets / precision[-1, -1]
        np.testing.assert_allclose(solution.predict(task.test_inputs)[j], mean, rtol=1e-6)


@pytest.mark.parametrize("name", ["linear", "erf", "relu"])
def test_mean_and_variance_by_importance_sampling(name):
    """No kernel at all: 40,000 random lazy networks of 60 neurons, weighted by how well they fit."""
    rng = np.random.default_rng(7)
    inputs, targets = rng.standard_normal((3, 4)), np.array([[1.0], [-1.0], [0.5]])
    phi = networks.NONLINEARITIES[name](rng.standard_normal((40_000, 60, 3)) @ (inputs / 3**0.5))
    f = np.einsum("sn,snp->sp", rng.standard_normal((40_000, 60)), np.asarray(phi, dtype=float)) / 60**0.5
    misfit = np.square(targets[:, 0] - f[:, :3]).sum(axis=1)
    weights = np.exp(-misfit / (2 * 0.5))
    weights /= weights.sum()
    labels = np.zeros(3, dtype=int)
    task = tasks.Task(inputs[:, :3], labels, targets)
    solution = gaussian_process.solve(task, name, temperature=0.5)
    mean, error = weights @ f[:, 3], np.sum(weights**2) ** 0.5
    variance = weights @ np.square(f[:, 3] - mean)
    std = variance**0.5
    assert abs(solution.predict(inputs[:, 3:])[0, 0] - mean) < 4.5 * error * std + 0.01 * std
    # width corrections are of relative order 1/N
    assert solution.predictor_variance(inputs[:, 3:])[0] == pytest.approx(variance, rel=8 * error + 0.02)


def test_mean_predictor_of_the_linear_theory_is_the_process():
    """Paper A: learning features leaves the linear mean predictor unchanged."""
    task = tasks.mnist(60, 200)
    process = gaussian_process.solve(task, "linear").predict(task.test_inputs)
    np.testing.assert_allclose(linear.solve(task).predict(task.test_inputs), process, rtol=1e-5, atol=1e-6)


def test_targets_within_reach_are_passed_through_at_zero_temperature():
    rng = np.random.default_rng(4)
    inputs = rng.standard_normal((5, 20))
    task = tasks.Task(inputs, np.repeat([0, 1], 10), inputs.T @ rng.standard_normal((5, 2)))
    found = gaussian_process.solve(task, "linear")
    assert found.converged
    np.testing.assert_allclose(found.predict(inputs), task.targets, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e3])
def test_targets_out_of_reach_are_refused_at_zero_temperature(scale):
    """Whatever the units of the inputs."""
    rng = np.random.default_rng(4)
    labels = np.repeat([0, 1], 10)
    task = tasks.Task(scale * rng.standard_normal((5, 20)), labels, tasks.one_hot(2, 1.0, 0.0)[labels])
    with pytest.raises(ValueError, match="rank 5 < P = 20.*temperature"):
        gaussian_process.solve(task, "linear")
    assert gaussian_process.solve(task, "linear", temperature=0.1).converged
    assert gaussian_process.solve(task, "relu").converged
