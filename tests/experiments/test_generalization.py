"""Networks on new inputs: code transfer, planted starts, sampling from two ends against theory."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import mean_field
from experiments import digits, generalization


def test_code_transfer_of_pure_codes_and_of_noise():
    """Responses that are the class mean are explained fully; independent ones not at all on test inputs."""
    rng = np.random.default_rng(0)
    labels, test_labels = np.repeat([0, 1, 2], 20), rng.integers(0, 3, 50)
    means = rng.standard_normal((30, 3))
    found = generalization.code_transfer(means[:, labels], labels, means[:, test_labels], test_labels)
    np.testing.assert_allclose(found, 1)
    noise, test_noise = rng.standard_normal((30, 60)), rng.standard_normal((30, 50))
    train, test = generalization.code_transfer(noise, labels, test_noise, test_labels)
    np.testing.assert_allclose(train, 2 / 59, atol=0.02)  # two free means among 59 degrees of freedom
    assert test < 0


def test_code_transfer_does_not_see_the_scale():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 10)
    arrays = rng.standard_normal((5, 20)), rng.standard_normal((5, 20))
    first = generalization.code_transfer(arrays[0], labels, arrays[1], labels)
    np.testing.assert_allclose(
        generalization.code_transfer(7 * arrays[0], labels, 7 * arrays[1], labels), first
    )


def test_planted_networks_fit_the_task():
    """A network made of the theory's kinds has the theory's outputs, up to rounding its shares to N."""
    task = tasks.toy(20, y_minus=-0.5)
    for name in ("sigmoidal", "relu"):
        solution = mean_field.solve(task, name, 0.01)
        posterior = Posterior(task, Network(1, 400, name), 0.01)
        outputs = np.asarray(posterior.outputs(planting.planted(jax.random.key(0), solution, posterior)))
        np.testing.assert_allclose(outputs, solution.outputs, atol=0.02)


@pytest.mark.slow
def test_sampled_digits_agree_with_theory():
    """Linear networks on digits, from both ends: class errors within a tenth of the exact saddle point's."""
    task, network = tasks.mnist(30, 100), Network(1, 60, "linear")
    counts = {"num_chains": 2, "num_samples": 20, "num_warmup": 150, "thinning": 2}
    draw = generalization.experiment(task, network, 0.01, jax.random.key(0), **counts)
    error = draw.learned.error
    np.testing.assert_allclose(error.total, draw.theory.error.total, rtol=0.1)
    np.testing.assert_allclose(error.total, error.mean_error + error.variance)
    assert np.all(error.total < draw.process.error.total)
    assert draw.learned.test_activations.shape == (4, 60, 100)
    assert draw.learned.kernel.shape == (100, 100)
    assert draw.learned.equilibrium.agree, draw.learned.equilibrium.verdict
    assert digits.mean_ratio(draw) == pytest.approx(1, abs=0.03)
    assert digits.training_like(task).sum() == 50


def test_a_task_without_test_split_is_refused():
    with pytest.raises(ValueError, match="test split"):
        generalization.predicted(tasks.toy(12), "linear", 0.01)


@pytest.mark.parametrize(
    ("ratio", "noise", "networks", "agree"),
    [
        (1.019, 0.0, 2, True),
        (1.022, 0.0, 2, False),
        (1.2, 1.0, 2, True),  # within four standard errors
        (1.022, 0.0, 4, True),  # eight networks, each end by itself
        (1.022, 0.0, 3, False),
    ],
)
def test_test_errors_meet_within_two_per_cent_or_four_standard_errors(
    ratio, noise, networks, agree, monkeypatch
):
    monkeypatch.setattr(generalization, "compare_ends", lambda *_: SimpleNamespace(verdict="the rest"))
    rng = np.random.default_rng(0)
    errors = [
        f * np.ones((networks, 20, 2)) + noise * rng.standard_normal((networks, 20, 2)) for f in (1, ratio)
    ]
    found = generalization._two_ended(None, (None, None), errors)
    assert found.agree == agree
    if noise == 0:
        assert found.apart == pytest.approx(1 - 1 / ratio)
