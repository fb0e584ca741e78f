"""The long run: resuming, refusing, splitting over devices, and what it stores."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from coding_schemes import data, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling.checkpoint import CheckpointMismatchError
from experiments import large_run

SETTINGS = large_run.Settings(
    num_inputs=24, num_test=10, num_classes=3, width=12, num_annealing=2, num_blocks=4, num_averaged=2,
    num_trajectories=3, num_leapfrog=4, temperature=0.1,
)  # fmt: skip


def blobs(num_inputs=24, num_test=10, input_dim=16, seed=0):
    """Three clusters, more inputs than dimensions, as in CIFAR-10's full run."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((input_dim, 3))
    labels, test_labels = np.arange(num_inputs) % 3, np.arange(num_test) % 3
    targets = tasks.one_hot(3, 1.0, -0.1)
    noise = rng.standard_normal((input_dim, num_inputs)), rng.standard_normal((input_dim, num_test))
    return tasks.Task(
        centres[:, labels] + noise[0], labels, targets[labels],
        centres[:, test_labels] + noise[1], test_labels, targets[test_labels], name="blobs",
    )  # fmt: skip


@pytest.fixture(scope="module")
def unbroken():
    return large_run.run(SETTINGS, blobs())


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_numbers(unbroken, tmp_path):
    checkpoint = tmp_path / "run"
    assert large_run.run(SETTINGS, blobs(), checkpoint, max_blocks=1) is None
    assert large_run.run(SETTINGS, blobs(), checkpoint, max_blocks=2) is None
    resumed = large_run.run(SETTINGS, blobs(), checkpoint)
    for name in set(unbroken) - {"manifest"}:
        np.testing.assert_array_equal(resumed[name], unbroken[name], err_msg=name)
    again = large_run.run(SETTINGS, blobs(), checkpoint)  # a finished run has nothing left to do
    np.testing.assert_array_equal(again["predictor"], unbroken["predictor"])


def test_the_predictor_averages_the_last_blocks_alone(monkeypatch):
    """Two of four: the sum over blocks starts with the third network's outputs and ends with the fourth's."""
    sums, accuracy = [], large_run.HISTORY.index("test_accuracy")
    monkeypatch.setattr(
        large_run.Checkpoint,
        "save",
        lambda self, state, row: sums.append((np.array(state.prediction_sum), row[accuracy])),
    )
    results = large_run.run(SETTINGS, blobs())
    assert not sums[0][0].any()
    assert not sums[1][0].any()
    labels = blobs().test_labels
    for outputs, accuracy in ((sums[2][0], sums[2][1]), (sums[3][0] - sums[2][0], sums[3][1])):
        assert np.mean(outputs.argmax(1) == labels) == accuracy
    np.testing.assert_allclose(results["predictor"], sums[3][0] / 2, rtol=1e-6)


def test_a_minibatch_stands_for_all_inputs():
    """Every input twice: half of them, each once, have the forces of all, so the same largest frequency."""
    once = blobs(num_inputs=12)
    twice = np.repeat(np.arange(12), 2)
    task = tasks.Task(once.inputs[:, twice], once.labels[twice], once.targets[twice], name="pairs")
    given = Posterior(task, Network(2, 6, "sigmoidal"), 0.1)
    key = jax.random.key(0)
    weights = given.prior(key)
    whole, half = (large_run._epochs(given, weights, jax.random.key(1), 1, size)[1] for size in (24, 12))
    assert float(half) == pytest.approx(float(whole), rel=1e-3)


@pytest.mark.slow
def test_minibatches_resume_and_reach_the_same_posterior(tmp_path):
    """Annealed by minibatches or by HMC alone, the held network has the same energy."""
    settings = replace(
        SETTINGS, num_epochs=20, batch_size=8, num_blocks=8, num_averaged=4, num_trajectories=20
    )
    unbroken, checkpoint = large_run.run(settings, blobs()), tmp_path / "run"
    assert large_run.run(settings, blobs(), checkpoint, max_blocks=3) is None
    np.testing.assert_array_equal(
        large_run.run(settings, blobs(), checkpoint)["predictor"], unbroken["predictor"]
    )
    history = dict(zip(large_run.HISTORY, unbroken["history"].T, strict=True))
    assert np.isnan(history["acceptance"][:2]).all()  # minibatches alone lower the temperature
    assert history["acceptance"][4:].min() > 0.3
    alone = large_run.run(replace(settings, num_epochs=0, num_trajectories=60), blobs())
    energies = history["energy"][4:], alone["history"][4:, large_run.HISTORY.index("energy")]
    error = np.hypot(*[e.std(ddof=1) / 2 for e in energies])
    assert abs(energies[0].mean() - energies[1].mean()) < 5 * error + 0.02 * energies[1].mean()


def test_operations_are_counted():
    """One multiply-add per weight and input, thrice; twice in the first layer, whose inputs are fixed."""
    settings = replace(SETTINGS, num_epochs=2, batch_size=12, num_trajectories=3)
    assert large_run.num_operations(settings, 16) == 24 * 2 * (2 * 12 * 16 + 3 * 12 * 12 + 3 * 12 * 3)
    assert settings.num_gradients == 2 * 2 + 2 * 3 * 4  # epochs of 2 blocks, trajectories of the last 2


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    checkpoint = tmp_path / "run"
    large_run.run(SETTINGS, blobs(), checkpoint, max_blocks=1)
    other = replace(SETTINGS, temperature=0.2, seed=3)
    with pytest.raises(CheckpointMismatchError, match=r"seed is 0 .*temperature is 0.1 there and 0.2 here"):
        large_run.run(other, blobs(), checkpoint)
    with pytest.raises(CheckpointMismatchError, match="task is"):
        large_run.run(SETTINGS, blobs(seed=1), checkpoint)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    """More than the newest block, that is: of two, the older state serves."""
    checkpoint = tmp_path / "run"
    large_run.run(SETTINGS, blobs(), checkpoint, max_blocks=2)
    newest, older = checkpoint / "state_00002.npz", checkpoint / "state_00001.npz"
    newest.write_bytes(newest.read_bytes()[:-200])
    with pytest.warns(UserWarning, match=r"state_00002\.npz is missing or damaged.*going back by one block"):
        large_run.run(SETTINGS, blobs(), checkpoint, max_blocks=1)
    for state in (newest, older):
        state.write_bytes(state.read_bytes()[:-200])
    with (
        pytest.warns(UserWarning, match="going back by one block"),
        pytest.raises(data.CorruptDataError, match=r"state_00001\.npz is missing or damaged"),
    ):
        large_run.run(SETTINGS, blobs(), checkpoint)


@pytest.mark.slow
def test_results_describe_the_run(unbroken):
    assert unbroken["training_activations_1"].shape == (12, 24)
    assert unbroken["test_activations_2"].shape == (12, 10)
    assert unbroken["readouts"].shape == (12, 3)
    assert unbroken["history"].shape == (4, len(large_run.HISTORY))
    manifest = json.loads(unbroken["manifest"])
    assert manifest["task"] == "blobs"
    assert manifest["settings"]["temperature"] == 0.1
    assert manifest["gradient_rate"] > 0
    temperatures = unbroken["history"][:, 0]
    np.testing.assert_allclose(temperatures, [1, 0.1**0.5, 0.1, 0.1])


@pytest.mark.slow
def test_it_learns():
    settings = replace(
        SETTINGS, width=40, temperature=0.003, num_annealing=10, num_blocks=14, num_trajectories=20
    )
    results = large_run.run(settings, blobs())
    history = dict(zip(large_run.HISTORY, results["history"].T, strict=True))
    assert history["training_error"][-1] < 0.2 * history["training_error"][0]
    assert history["training_accuracy"][-1] == 1.0
    assert results["accuracy"] > 0.7


@pytest.mark.slow
def test_several_devices_give_the_same_network(unbroken, tmp_path):
    """Inputs split over four (simulated) devices; sums are then added in another order."""
    program = (
        "import sys, numpy as np; sys.path.insert(0, 'tests/experiments'); import test_large_run as t;"
        "import jax; assert len(jax.devices()) == 4;"
        f"np.save({str(tmp_path / 'f.npy')!r}, t.large_run.run(t.SETTINGS, t.blobs())['predictor'])"
    )
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | environment)
    np.testing.assert_allclose(np.load(tmp_path / "f.npy"), unbroken["predictor"], atol=2e-3)


def test_bad_settings():
    with pytest.raises(ValueError, match="num_averaged"):
        large_run.Settings(num_blocks=5, num_annealing=5, num_averaged=1)
    with pytest.raises(ValueError, match="batch_size.*must divide num_inputs = 2000"):
        large_run.Settings(num_inputs=2000, num_epochs=1, batch_size=300)
