"""The long run: resuming, refusing, several devices and processes, and what it stores."""

import inspect
import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import data, sampling
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import run
from coding_schemes.sampling.checkpoint import CheckpointMismatchError
from faults import files
from faults.files import blobs
from images import large_run

SETTINGS = replace(files.SETTINGS, num_trajectories=3)


def history(results):
    return dict(zip(large_run.HISTORY, results["history"].T, strict=True))


def same(found, expected):
    for name in set(expected) - {"manifest"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A function that runs settings until so many blocks were kept, one slot each, and is killed."""
    monkeypatch.setattr(run, "LARGE", 0)

    def start(settings, blocks):
        files.kill(lambda: large_run.run(settings, blobs(), tmp_path / "run"), blocks)
        return tmp_path / "run"

    return start


@pytest.fixture(scope="module")
def unbroken():
    return large_run.run(SETTINGS, blobs())


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_numbers(killed, unbroken):
    """Killed in a descent, in the next one, and while it samples."""
    folder = [killed(SETTINGS, count) for count in (7, 20, 43, 14)][-1]
    resumed = large_run.run(SETTINGS, blobs(), folder)
    same(resumed, unbroken)
    again = large_run.run(SETTINGS, blobs(), folder)  # a finished run has nothing left to do
    same(again, resumed)
    assert json.loads(again["manifest"])["seconds"] == json.loads(resumed["manifest"])["seconds"]


def test_the_images_are_those_of_the_settings(monkeypatch):
    """Every one of which differs from what a task has unless told."""
    monkeypatch.setattr(large_run.tasks, "cifar10", inspect.signature(large_run.tasks.cifar10).bind)
    images = {"num_inputs": 40, "num_test": 8, "y_plus": 2.0, "y_minus": -0.3, "seed": 5}
    images |= {"pool": "full", "jpeg": True}
    asked = large_run.make_task(large_run.Settings(num_classes=4, **images)).arguments
    assert asked == images | {"classes": (0, 1, 2, 3), "balanced": True}


def test_the_lowest_descent_is_sampled(monkeypatch):
    """From its last weights; the predictor is the samples' mean, and a sample some trajectories."""
    ends, kept, sample, descend = [], [], sampling.sample, large_run.descend
    monkeypatch.setattr(large_run, "descend", lambda *a: ends.append(descend(*a)) or ends[-1])
    monkeypatch.setattr(
        sampling, "sample", lambda *a, **b: kept.append((b["init"], sample(*a, **b))) or kept[-1][1]
    )
    results = large_run.run(SETTINGS, blobs())
    energies = [rows[-1, 5] for _, rows, _ in ends]
    assert len(set(energies)) == len(ends) == 4
    init, samples = kept[0]
    jax.tree.map(np.testing.assert_array_equal, init, ends[int(np.argmin(energies))][0])
    outputs = samples.predictions.outputs
    assert outputs.shape[:2] == (1, 2)
    np.testing.assert_allclose(results["predictor"], outputs[0].mean(0), rtol=1e-6)
    assert samples.warmup_info.energy.shape == (1, 3)
    assert samples.info.num_gradients.min() > 3  # of three trajectories
    accuracy = history(results)["test_accuracy"]
    right = [np.mean(one.argmax(1) == blobs().test_labels) for one in outputs[0]]
    np.testing.assert_array_equal(accuracy[-2:], right)


def test_a_descent_takes_adams_steps():
    """Against Adam written out, on the energy in coordinates where readouts are √P/2 times as long."""
    given, rate, stretch = (
        Posterior(blobs(), Network(2, 12, "sigmoidal"), 0.1),
        SETTINGS.learning_rate,
        24**0.5 / 2,
    )
    with jax.enable_x64(True):
        found, rows, _ = large_run.descend(given, SETTINGS, "one class", 0.5)
        w = given.prior(jax.random.fold_in(jax.random.key(0), 1))
        chosen = found.readout.argmax(1)  # readouts are strong enough to keep their sign
        w = w._replace(readout=large_run.STRONG * stretch * np.eye(3)[chosen])
        unit = jax.tree.map(jnp.ones_like, w)._replace(readout=jnp.full((12, 3), stretch))
        m = v = jax.tree.map(jnp.zeros_like, w)
        for i in range(20):
            T = 0.1 * 5 ** max(0, 1 - i / 14)
            g = jax.tree.map(jnp.multiply, jax.grad(given.at_temperature(T).energy)(w), unit)
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, v, g)
            eta, c, d = rate * (1 + np.cos(np.pi * i / 20)) / 2, 1 - 0.9 ** (i + 1), 1 - 0.99 ** (i + 1)
            w = jax.tree.map(
                lambda w, m, v, u, e=eta, c=c, d=d: w - e * u * m / c / (v / d) ** 0.5, w, m, v, unit
            )
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-3), found, w)
    np.testing.assert_allclose(rows[:, 0], 0.1 * 5 ** np.maximum(0, 1 - np.arange(20) / 14), rtol=1e-5)


@pytest.mark.slow
def test_a_descent_ends_at_a_minimum():
    """Of a linear network with one output layer: no force is left, from either start and either cooling."""
    task, settings = blobs(), replace(SETTINGS, num_steps=2000)
    given = Posterior(task, Network(1, 12, "linear"), 0.1)
    with jax.enable_x64(True):
        for start, hot in settings.descents:
            weights, rows, _ = large_run.descend(given, replace(settings, depth=1), start, hot)
            forces = jax.tree.leaves(given.value_and_gradient(weights)[1])
            first = jax.tree.leaves(given.value_and_gradient(given.prior(jax.random.key(0)))[1])
            assert sum(np.square(f).sum() for f in forces) < 1e-5 * sum(np.square(f).sum() for f in first)
            assert rows[-1, 5] == pytest.approx(float(given.energy(weights)), rel=1e-5)


def test_operations_are_counted():
    """One multiply-add per weight and input, thrice; twice in the first layer, whose inputs are fixed."""
    assert large_run.num_operations(SETTINGS, 16) == 24 * 2 * (2 * 12 * 16 + 3 * 12 * 12 + 3 * 12 * 3)


def test_a_checkpoint_of_another_run_is_refused(killed):
    checkpoint = killed(SETTINGS, 1)
    other = replace(SETTINGS, temperature=0.2, seed=3)
    with pytest.raises(
        CheckpointMismatchError, match=r"seed is 0 there and 3 here, temperature is 0.1 there"
    ):
        large_run.run(other, blobs(), checkpoint)
    with pytest.raises(CheckpointMismatchError, match="posterior is"):
        large_run.run(SETTINGS, blobs(seed=1), checkpoint)


def test_a_damaged_checkpoint_is_refused(killed):
    """More than the newest block, that is."""
    checkpoint = killed(SETTINGS, 2)
    for number in (2, 1):
        state = checkpoint / f"descent 0/state_{number:05d}.npz"
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
    assert unbroken["descents"].shape == (4, large_run.NUM_RECORDS, len(large_run.HISTORY))
    assert unbroken["explained"].shape == (4, 2)
    assert unbroken["warmup_energy"].shape == (3,)
    manifest = json.loads(unbroken["manifest"])
    assert manifest["task"] == "blobs"
    assert manifest["settings"]["temperature"] == 0.1
    assert min(manifest["gradient_rates"].values()) > 0
    rows = history(unbroken)
    np.testing.assert_allclose(rows["temperature"][-8:], 0.1, rtol=1e-6)
    np.testing.assert_array_equal(rows["acceptance"][:-2], np.nan)
    lowest = unbroken["descents"][np.argmin(unbroken["descents"][:, -1, 5])]
    np.testing.assert_array_equal(unbroken["history"][:-2], lowest)


@pytest.mark.slow
def test_it_learns():
    settings = replace(SETTINGS, width=40, temperature=0.003, num_steps=400)
    results = large_run.run(settings, blobs())
    rows = history(results)
    assert rows["training_error"][-1] < 0.05 * rows["training_error"][0]
    assert rows["training_accuracy"][-1] == 1.0
    assert results["accuracy"] > 0.7
    assert results["explained"][:, 0].min() > 0.9


PROGRAM = """
import sys
from images import large_run
texts, spied = [], sys.argv.pop(1) == "spied"

def make_task(settings):  # called once processes have found each other, as what is imported here has to be
    from coding_schemes.sampling import program
    from faults import files

    advance = program.compiled()
    def spy(*arguments):
        if not texts:
            texts.append(advance.lower(*arguments).compile().as_text())
        return advance(*arguments)

    program.compiled = lambda options: spy if spied else advance
    return files.blobs()

large_run.make_task = make_task
large_run.main()
print(*[line for line in texts[0].splitlines() if " all-reduce(" in line] if texts else [], sep="\\n")
"""


def command(folder, *options, devices, spied=True):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = ["spied" if spied else "plain"]
    arguments += [f"--{name}={value}" for name, value in asdict(SETTINGS).items() if value is not False]
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
    """Sums over inputs are added in another order; 20 steps and 9 trajectories later that is still small."""
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
    assert {"f64[12,16]", "f64[12,12]", "f64[12,3]", "f64[]"} <= reduced  # ∂U/∂u, ∂U/∂W², ∂U/∂ã and U
    assert "f64[12,24]" not in reduced  # nothing of a layer's size, N × P


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
    with pytest.raises(ValueError, match="num_steps: got 30, needs a multiple of 20"):
        large_run.Settings(num_steps=30)
    with pytest.raises(ValueError, match="start_temperature: got 0.01, needs at least temperature = 0.1"):
        large_run.Settings(start_temperature=0.01, temperature=0.1)
    with pytest.raises(FloatingPointError, match="descend: the energy is .*take a learning_rate below 1e"):
        large_run.run(replace(SETTINGS, learning_rate=1e30), blobs())
