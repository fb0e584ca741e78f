"""The long run: resuming, refusing, several devices and processes, and what it stores."""

import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from coding_schemes import data, sampling, tasks
from coding_schemes.sampling import run
from coding_schemes.sampling.checkpoint import Checkpoint, CheckpointMismatchError
from images import large_run

SETTINGS = large_run.Settings(
    num_inputs=24, num_test=10, num_classes=3, width=12, num_annealing=2, num_blocks=4, num_averaged=2,
    num_trajectories=3, num_leapfrog=4, temperature=0.1,
)  # fmt: skip
EPOCHS = replace(SETTINGS, num_epochs=20, batch_size=8, num_blocks=8, num_averaged=4, num_trajectories=20)


def blobs(num_inputs=24, num_test=10, input_dim=16, seed=0):
    """Three clusters, more inputs than dimensions, as in CIFAR-10's full run."""
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((input_dim, 3))
    labels, test_labels = np.arange(num_inputs) % 3, np.arange(num_test) % 3
    targets = tasks.one_hot(3, 1.0, -0.1)
    noise = rng.standard_normal((input_dim, num_inputs)), rng.standard_normal((input_dim, num_test))
    return tasks.Task(
        centers[:, labels] + noise[0], labels, targets[labels],
        centers[:, test_labels] + noise[1], test_labels, targets[test_labels], name="blobs",
    )  # fmt: skip


def history(results):
    return dict(zip(large_run.HISTORY, results["history"].T, strict=True))


def same(found, expected):
    for name in set(expected) - {"manifest"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A function that runs settings up to so many blocks of the program, one slot each, and is killed."""
    monkeypatch.setattr(run, "LARGE", 0)
    save = Checkpoint.save

    def start(settings, blocks):
        def die(self, state, block):
            save(self, state, block)
            if self.count == blocks:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "save", die)
            with pytest.raises(KeyboardInterrupt):
                large_run.run(settings, blobs(), tmp_path / "run")
        return tmp_path / "run"

    return start


@pytest.fixture(scope="module")
def unbroken():
    return large_run.run(SETTINGS, blobs())


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "blocks"), [(SETTINGS, (2, 7)), (EPOCHS, (1, 3))])
def test_a_killed_run_ends_with_the_same_numbers(killed, settings, blocks):
    """Killed twice; the settings with epochs once while minibatches anneal, once as HMC adapts."""
    folder = [killed(settings, count) for count in blocks][-1]
    resumed = large_run.run(settings, blobs(), folder)
    same(resumed, large_run.run(settings, blobs()))
    again = large_run.run(settings, blobs(), folder)  # a finished run has nothing left to do
    same(again, resumed)
    assert json.loads(again["manifest"])["seconds"] == json.loads(resumed["manifest"])["seconds"]


def test_the_predictor_averages_the_last_blocks_alone(monkeypatch):
    """Two of four blocks, the other two before them; and each is a sample of a block's trajectories."""
    kept, sample = [], sampling.sample
    monkeypatch.setattr(sampling, "sample", lambda *a, **b: kept.append(sample(*a, **b)) or kept[0])
    results = large_run.run(SETTINGS, blobs())
    outputs, labels = kept[0].predictions.outputs, blobs().test_labels
    assert outputs.shape[:2] == (1, 2)
    np.testing.assert_allclose(results["predictor"], outputs[0].mean(0), rtol=1e-6)
    assert kept[0].warmup_info.energy.shape == (1, 2 * 3)
    accuracy = history(results)["test_accuracy"]
    np.testing.assert_array_equal(accuracy[2:], [np.mean(one.argmax(1) == labels) for one in outputs[0]])
    assert np.isnan(accuracy[:2]).all()


def test_operations_are_counted():
    """One multiply-add per weight and input, thrice; twice in the first layer, whose inputs are fixed."""
    assert large_run.num_operations(SETTINGS, 16) == 24 * 2 * (2 * 12 * 16 + 3 * 12 * 12 + 3 * 12 * 3)


def test_a_checkpoint_of_another_run_is_refused(killed):
    checkpoint = killed(SETTINGS, 1)
    other = replace(SETTINGS, temperature=0.2, seed=3)
    with pytest.raises(CheckpointMismatchError, match=r"key is .*temperatures is \[0.1.* there and \[0.2"):
        large_run.run(other, blobs(), checkpoint)
    with pytest.raises(CheckpointMismatchError, match="posterior is"):
        large_run.run(SETTINGS, blobs(seed=1), checkpoint)


def test_a_damaged_checkpoint_is_refused(killed):
    """More than the newest block, that is."""
    checkpoint = killed(SETTINGS, 2)
    for number in (2, 1):
        state = checkpoint / f"state_{number:05d}.npz"
        state.write_bytes(state.read_bytes()[:-200])
    with (
        pytest.warns(UserWarning, match=r"state_00002\.npz is missing or damaged.*going back by one block"),
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
    np.testing.assert_allclose(history(unbroken)["temperature"], [0.1**0.5, 0.1, 0.1, 0.1])


@pytest.mark.slow
def test_it_learns():
    settings = replace(
        SETTINGS, width=40, temperature=0.003, num_annealing=10, num_blocks=14, num_trajectories=20
    )
    results = large_run.run(settings, blobs())
    rows = history(results)
    assert rows["training_error"][-1] < 0.2 * rows["training_error"][0]
    assert rows["training_accuracy"][-1] == 1.0
    assert results["accuracy"] > 0.7


PROGRAM = """
import sys
from images import large_run
texts, spied = [], sys.argv.pop(1) == "spied"

def make_task(settings):  # called once processes have found each other, as what is imported here has to be
    sys.path.insert(0, "tests/notebooks/images")
    import test_large_run
    from coding_schemes.sampling import program

    advance = program.compiled()
    def spy(*arguments):
        if not texts:
            texts.append(advance.lower(*arguments).compile().as_text())
        return advance(*arguments)

    program.compiled = lambda options: spy if spied else advance
    return test_large_run.blobs()

large_run.make_task = make_task
large_run.main()
print(*[line for line in texts[0].splitlines() if " all-reduce(" in line] if texts else [], sep="\\n")
"""


def command(folder, *options, devices, spied=True):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)}
    settings = replace(EPOCHS, num_epochs=2, num_trajectories=3)
    arguments = ["spied" if spied else "plain"]
    arguments += [f"--{name}={value}" for name, value in asdict(settings).items() if value is not False]
    arguments += ["--output", folder / "run.npz", "--checkpoint", folder / "checkpoint", *options]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(*programs):
    texts = [program.communicate(timeout=500) for program in programs]
    assert not any(program.returncode for program in programs), texts[0][1][-2000:]
    return texts[0][0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    text = ended(command(folder, devices=1))
    assert not text.strip()  # nobody to exchange with
    return np.load(folder / "run.npz")


def close(found, alone):
    """Sums over inputs are added in another order; 24 trajectories later that is still small."""
    for name in ("predictor", "readouts"):
        np.testing.assert_allclose(found[name], alone[name], atol=2e-3, err_msg=name)
    np.testing.assert_allclose(found["history"], alone["history"], rtol=2e-3)


@pytest.mark.slow
def test_eight_devices_give_the_same_network(alone, tmp_path):
    """Inputs are split over them, and of a force only its sum over inputs is exchanged."""
    text = ended(command(tmp_path, devices=8))
    close(np.load(tmp_path / "run.npz"), alone)
    reduced = {shape for line in text.splitlines()
               for shape in re.findall(r"f\d\d\[[\d,]*\]", line.split(" all-reduce(")[0])}  # fmt: skip
    assert {"f32[12,16]", "f32[12,12]", "f32[12,3]", "f64[]"} <= reduced  # ∂U/∂u, ∂U/∂W², ∂U/∂ã and U
    assert "f32[12,24]" not in reduced  # nothing of a layer's size, N × P


@pytest.mark.slow
def test_two_processes_give_the_same_network(alone, tmp_path):
    """Each with two devices; one process alone finds their checkpoint complete."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    both = [command(tmp_path, "--distributed", address, 2, index, devices=2) for index in (0, 1)]
    assert "all-reduce" in ended(*both)
    close(np.load(tmp_path / "run.npz"), alone)
    (tmp_path / "run.npz").unlink()
    ended(command(tmp_path, devices=1, spied=False))
    close(np.load(tmp_path / "run.npz"), alone)


def test_bad_settings():
    with pytest.raises(ValueError, match="num_averaged"):
        large_run.Settings(num_blocks=5, num_annealing=5, num_averaged=1)
    with pytest.raises(ValueError, match="batch_size: got 7, must divide the 24 inputs"):
        large_run.run(replace(EPOCHS, batch_size=7), blobs())
