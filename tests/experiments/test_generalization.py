"""Networks on new inputs: code transfer, few-shot readouts, planted starts, sampling against theory."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from coding_schemes import data, planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import mean_field
from experiments import generalization

RESULTS = Path(__file__).parents[2] / "data" / "results"


def test_code_transfer_of_pure_codes_and_of_noise():
    """Responses that are the class mean are explained fully; independent ones not at all on test inputs."""
    rng = np.random.default_rng(0)
    labels, test_labels = np.repeat([0, 1, 2], 20), rng.integers(0, 3, 50)
    means = rng.standard_normal((30, 3))
    assert generalization.code_transfer(means[:, labels], labels, means[:, test_labels], test_labels) == (
        1.0,
        1.0,
    )
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


def test_few_shot_accuracy_in_closed_cases():
    """Separate clusters: always right from one example. Features that say nothing: chance."""
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2, 3], 25)
    clusters = 5 * np.eye(4)[:, labels] + 0.1 * rng.standard_normal((4, 100))
    assert generalization.few_shot_accuracy(clusters, labels, 1, rng).min() == 1.0
    nothing = generalization.few_shot_accuracy(
        rng.standard_normal((50, 100)), labels, 5, rng, num_episodes=200
    )
    assert abs(nothing.mean() - 0.25) < 0.03
    with pytest.raises(ValueError, match="num_shots"):
        generalization.few_shot_accuracy(clusters, labels, 25, rng)


def test_effective_dimension_counts_equal_directions():
    """k directions of equal variance count k, whatever the mean and the number of neurons."""
    signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # orthogonal, of zero mean
    mixed = np.linalg.qr(np.random.default_rng(3).standard_normal((8, 3)))[0]
    for k in (1, 2, 3):
        assert generalization.effective_dimension(7 + mixed[:, :k] @ signs[:k]) == pytest.approx(k)


def test_a_lazy_network_is_a_non_lazy_one_with_large_readouts():
    """The same energy, outputs and responses for the same weights in unit-variance coordinates."""
    task, network = tasks.mnist(12, 5), Network(1, 9, "erf", "lazy")
    lazy, other = Posterior(task, network, 0.1), generalization.posterior_of(task, network, 0.1)
    weights = lazy.prior(jax.random.key(0))
    assert other.network.scaling == "non-lazy"
    np.testing.assert_allclose(other.energy(weights), lazy.energy(weights), rtol=1e-5)
    np.testing.assert_allclose(other.outputs(weights), lazy.outputs(weights), rtol=1e-4, atol=1e-5)


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
    """Class errors of a linear network on digits, within a tenth of the exact saddle point's."""
    task = tasks.mnist(30, 100)
    sampled = generalization.sampled(task, Network(1, 60, "linear"), 0.01, jax.random.key(0), num_samples=30)
    theory = generalization.predicted(task, "linear", 0.01)
    np.testing.assert_allclose(sampled.error, theory.error, rtol=0.1)
    np.testing.assert_allclose(sampled.error, sampled.mean_error + sampled.variance)
    process = generalization.gaussian_process_error(task, "linear", 0.01)
    assert np.all(sampled.error < process.total)
    assert sampled.test_activations.shape == (60, 100)
    assert sampled.kernel.shape == (100, 100)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.npz")), ids=lambda path: path.stem)
def test_stored_results_are_small_and_described(path):
    """What the chapter draws: a manifest, finite numbers, at most 3 MB."""
    assert path.stat().st_size < 3e6
    with np.load(path) as stored:
        manifest = json.loads(str(stored["manifest"]))
        assert {"versions", "settings" if path.stem.startswith("cifar10-P") else "job"} <= set(manifest)
        for name in stored.files:
            if stored[name].dtype.kind == "f" and name != "history":  # no acceptance without trajectories
                assert np.isfinite(stored[name]).all(), name


def test_stored_results_that_are_missing_or_damaged(tmp_path):
    """Each says what is wrong and what to do."""
    path = tmp_path / "reuse-digits.npz"
    with pytest.raises(FileNotFoundError, match=r"does not exist.*snakemake data/results/reuse-digits.npz"):
        generalization.stored(path)
    content = (RESULTS / "reuse-digits.npz").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for damaged in (b"", b"something else", content[:-500], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(data.CorruptDataError, match="reuse-digits.npz is damaged or no result file"):
            generalization.stored(path)
    path.write_bytes(content)
    np.testing.assert_array_equal(generalization.stored(path)["shots"], [1, 2, 5, 10, 20])


def test_stored_cifar_accuracy_is_that_of_its_predictor():
    for path in RESULTS.glob("cifar10-P*.npz"):
        with np.load(path) as stored:
            right = stored["predictor"].argmax(axis=1) == stored["test_targets"].argmax(axis=1)
            assert right.mean() == pytest.approx(float(stored["accuracy"]))
            assert json.loads(str(stored["manifest"]))["settings"]["num_inputs"] == int(path.stem[9:])


def test_a_task_without_test_split_is_refused():
    with pytest.raises(ValueError, match="test split"):
        generalization.predicted(tasks.toy(12), "linear", 0.01)
