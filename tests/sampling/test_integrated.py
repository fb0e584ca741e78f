"""The sampler without readouts against exact averages, Gaussian conditioning and automatic derivatives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import statistics
from coding_schemes.sampling import integrated
from coding_schemes.tasks import Task
from coding_schemes.theory import features, wishart_chain
from scipy.stats import multivariate_normal

RICHNESS, RIDGE = 1.3, 0.1


@pytest.fixture(scope="module")
def task():
    """Six Gaussian inputs of two classes."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 3)
    return Task(rng.standard_normal((9, 6)), labels, 1.0 - 2 * labels[:, None])


@pytest.fixture(scope="module")
def linear_networks(task):
    """Linear networks of two widths, seen on their own inputs."""
    dense, widths = features.dense(task, "linear"), (12, 30)
    key, options = jax.random.key(0), {"num_samples": 300, "thinning": 2}
    return widths, integrated.sample(key, dense, task.inputs, RICHNESS, RIDGE, widths, **options)


def test_linear_networks_have_the_exact_kernel_of_their_width(task, linear_networks):
    for width, networks in zip(*linear_networks, strict=True):
        exact = wishart_chain.solve(task, 1, RIDGE / RICHNESS**2, width, readout_variance=1 / RICHNESS**2)
        assert networks.convergence.converged, networks.convergence.verdict
        mean, error = statistics.mean_and_error(networks.kernels)
        i, j = np.triu_indices(6)
        scores = ((mean - exact.kernels[1]) / error)[i, j]
        assert np.sqrt(np.mean(scores**2)) < 1.7
        lazy = (mean - task.input_kernel)[i, j] / error[i, j]  # the control
        assert np.sqrt(np.mean(lazy**2)) > 5
        h = networks.preactivations[0, -1, :, 0]
        np.testing.assert_allclose(h.T @ h / width, networks.kernels[0, -1], atol=1e-4)


def test_outputs_are_those_of_gaussian_regression_with_the_networks_kernel(task, linear_networks):
    for width, networks in zip(*linear_networks, strict=True):
        kernel = networks.kernels[1, 7]
        inverse = np.linalg.inv(kernel + RIDGE * np.eye(6))
        np.testing.assert_allclose(networks.means[1, 7], kernel @ inverse @ task.targets, atol=1e-3)
        left = np.diag(kernel - kernel @ inverse @ kernel) / (RICHNESS**2 * width)
        np.testing.assert_allclose(networks.variances[1, 7], left, atol=1e-4)
        total = networks.means.var((0, 1)).mean() + networks.variances.mean()  # of all chains together
        assert networks.variance()[0] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(("pooled", "num_outputs"), [(False, 3), (True, 1)])
def test_density_is_the_prior_times_the_evidence_of_the_readouts(task, pooled, num_outputs):
    """Outputs are Gaussian given the neurons, one of five is unseen, and the slope is its derivative."""
    images = features.convolution(task, "tanh", (3, 3, 1), 2, 1, pooled)
    targets = np.random.default_rng(1).standard_normal((6, num_outputs))
    posterior = jnp.asarray(images.root), jnp.asarray(targets), RICHNESS, RIDGE, 4
    u = jax.random.normal(jax.random.key(1), (2, 5, images.rank))
    density = partial(integrated._value_and_gradient, posterior=posterior, phi=images.phi, pooled=pooled)
    found, evidence = [], []
    for neurons in u:
        value, slope = density(neurons)
        responses = np.asarray(images(neurons))[:4]
        covariance = np.einsum("nap,naq->pq", responses, responses) / 4 + RIDGE * np.eye(6)
        gaussian = multivariate_normal(np.zeros(6), covariance / (4 * RICHNESS**2))
        evidence.append(gaussian.logpdf(targets.T).sum() - 0.5 * np.sum(np.square(neurons)))
        found.append(float(value))
        np.testing.assert_allclose(slope, jax.grad(lambda x: density(x)[0])(neurons), rtol=1e-8, atol=1e-10)
    assert found[1] - found[0] == pytest.approx(evidence[1] - evidence[0], rel=1e-9)


def test_the_warm_up_is_left_out(task, monkeypatch):
    """Neurons that are zero while the step size adapts, and random afterwards."""
    rng = np.random.default_rng(0)

    def run(_, shape, posterior, gains, *__):
        after = jnp.broadcast_to(gains == 0, (shape[0], len(gains)))
        u = after[..., None, None] * rng.standard_normal((*after.shape, *shape[1:]))
        return u.astype(jnp.float32), jnp.ones(after.shape), jnp.zeros(after.shape)

    monkeypatch.setattr(integrated, "_run", run)
    dense, options = features.dense(task, "linear"), {"num_samples": 40, "num_warmup": 10, "thinning": 3}
    (found,) = integrated.sample(jax.random.key(0), dense, task.inputs, RICHNESS, RIDGE, (5,), **options)
    assert found.kernels.shape[1] == 40
    assert np.abs(found.preactivations).max((2, 3, 4)).min() > 0
