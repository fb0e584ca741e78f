"""Convolutional and pooled neurons: against loops, dense networks, and both predictors."""

import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.networks import Network, nonlinearity
from coding_schemes.theory import adaptive_kernel, dmft, features

SHAPE = (4, 6, 2)


@pytest.fixture(scope="module")
def images():
    """Five images of 4 × 6 pixels in two colors, and three test images."""
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 1, 1])
    targets, test = np.where(labels == 0, 1.0, -1.0)[:, None], np.array([0, 1, 0])
    return tasks.Task(
        rng.standard_normal((48, 5)), labels, targets, rng.standard_normal((48, 3)), test, targets[[0, 2, 0]]
    )


@pytest.mark.parametrize("pooled", [False, True])
def test_patches_against_loops(images, pooled):
    found = features.convolution(images, "relu", SHAPE, kernel_size=3, stride=2, pooled=pooled)
    u = np.random.default_rng(1).standard_normal((4, found.rank))
    weights = (u @ found.basis).reshape(4, 2, 3, 3)  # colors, rows, columns
    expected = []
    for row in (0,):
        for column in (0, 2):
            pixels = images.inputs.T.reshape(5, *SHAPE)[:, row : row + 3, column : column + 3]
            expected.append(np.einsum("prck,nkrc->np", pixels, weights) / 18**0.5)
    expected = np.maximum(np.stack(expected, axis=1), 0)
    expected = expected.mean(1, keepdims=True) if pooled else expected / 2**0.5
    np.testing.assert_allclose(found(jnp.asarray(u)), expected, atol=1e-12)


def test_new_inputs_have_the_right_covariance(images):
    found = features.convolution(images, "relu", SHAPE, kernel_size=3, stride=1)
    new = found.on(images.test_inputs)
    patches = found.patches(images.test_inputs)
    covariance = np.einsum("apr,bqr->apbq", new.projection, new.projection)
    covariance += np.einsum("apr,bqr->apbq", new.noise_root, new.noise_root)
    np.testing.assert_allclose(covariance, np.einsum("apr,bqr->apbq", patches, patches), atol=1e-12)


def test_one_patch_is_a_dense_network(images):
    square = tasks.Task(images.inputs[:48], images.labels, images.targets)
    found = features.convolution(square, "erf", (4, 4, 3), kernel_size=4, stride=1)
    dense = features.dense(square, "erf")
    np.testing.assert_allclose(
        np.einsum("apr,aqr->pq", found.root, found.root), square.input_kernel, atol=1e-12
    )
    assert found.root.shape == dense.root.shape


@pytest.mark.parametrize("pooled", [False, True])
def test_tangent_kernel_of_convolutions(images, pooled):
    """The aNTK's identity at width 30."""
    conv = features.convolution(images, "relu_squared", SHAPE, kernel_size=2, stride=2, pooled=pooled)
    path = dmft.population(
        images, "relu_squared", 2.0, 0.5, duration=200, num_neurons=30, network=True, features=conv,
        dtype=jnp.float64,
    )  # fmt: skip
    antk = dmft.antk(path)
    assert antk.residual < 1e-6
    assert np.abs(path.outputs[-1]).max() > 0.3
    np.testing.assert_allclose(antk.predict(), path.test_outputs[-1], atol=1e-5)


@pytest.mark.parametrize("pooled", [False, True])
def test_adaptive_kernel_of_convolutions_against_quadrature(pooled):
    """Patches of one pixel: u is one number, and the saddle point an integral over it."""
    rng = np.random.default_rng(2)
    task = tasks.Task(rng.standard_normal((3, 2)), np.array([0, 1]), np.array([[1.0], [-1.0]]))
    conv = features.convolution(task, "erf", (1, 3, 1), kernel_size=1, stride=1, pooled=pooled)
    richness, ridge = 2.0, 0.5
    s = adaptive_kernel.solve(
        task, Network(1, 1, "erf"), richness, ridge, features=conv, num_neurons=512, num_rounds=100
    )
    assert s.converged
    u = np.linspace(-7, 7, 2001)[:, None]
    activations = np.asarray(conv(jnp.asarray(u)))
    energy = 0.5 * richness**2 * np.square(activations @ s.dual_field).sum((1, 2))
    weights = np.exp(energy - 0.5 * u[:, 0] ** 2)
    weights /= weights.sum()
    exact = np.einsum("n,nap,naq->pq", weights, activations, activations)
    np.testing.assert_allclose(s.kernels[1], exact, atol=0.005)
    residual = exact @ s.dual_field + ridge * s.dual_field - task.targets
    assert np.abs(residual).max() < 0.02
    np.testing.assert_allclose(s.predict(task.inputs), task.targets - ridge * s.dual_field, atol=1e-4)


@pytest.mark.parametrize("name", ["linear", "relu", "erf", "sigmoidal", "tanh"])
def test_averages_over_what_is_left_free_against_quadrature(name):
    phi, mean, std = nonlinearity(name), np.array([-1.2, 0.3, 2.0]), np.array([0.4, 1.5, 0.0])
    nodes = np.linspace(-9, 9, 20_001)
    density = np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi) * (nodes[1] - nodes[0])
    expected = np.asarray(phi(jnp.asarray(mean[:, None] + std[:, None] * nodes))) @ density
    found = features.averaged(phi, jnp.asarray(mean), jnp.asarray(std))
    np.testing.assert_allclose(found, expected, atol=1e-6 if name != "tanh" else 1e-3)
