"""Checkpoints of a run: resuming, refusing other runs, damaged files, no pickles."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from coding_schemes import networks, posterior, sampling, tasks
from coding_schemes.sampling.checkpoint import CheckpointMismatchError, CorruptDataError
from faults import files

TASK = tasks.toy(4, (0.5, 0.5), seed=1)
GIVEN = posterior.Posterior(TASK, networks.Network(1, 6, "sigmoidal"), 0.1)
ARGUMENTS = {
    "num_samples": 40, "num_chains": 2, "num_warmup": 20, "moves": (), "store": ("weights", "kernels"),
    "progress": False,
}  # fmt: skip


def run(folder, given=GIVEN, key=0, **arguments):
    return sampling.sample(given, jax.random.key(key), **(ARGUMENTS | {"checkpoint": folder} | arguments))


def assert_same(first, second):
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def kept(samples):
    return samples.weights, samples.kernels, samples.info, samples.warmup_info, samples.final


@pytest.fixture
def folder(tmp_path):
    """The folder of a run that was killed after four of its five blocks."""
    return files.stopped(tmp_path / "copy", run=run)


def test_a_killed_run_resumes_bitwise(folder):
    """What damage does to its files is tried by faults/files.py."""
    whole = kept(run(None))
    assert len(list(folder.glob("block_*.npz"))) == 4
    assert sorted(path.name for path in folder.glob("state_*")) == ["state_00003.npz", "state_00004.npz"]
    assert_same(kept(run(folder)), whole)
    assert_same(kept(run(folder)), whole)  # a finished run has nothing left to do


def test_checkpoints_from_before_moves_were_keyed_by_name_are_refused(folder):
    record = json.loads((folder / "record.json").read_text())
    del record["arrangement"]
    (folder / "record.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointMismatchError, match="arrangement is None there and .* by name here"):
        run(folder)


def test_a_run_with_other_moves_does_not_go_on(folder):
    with pytest.raises(CheckpointMismatchError, match="moves"):
        run(folder, moves=("gibbs",))


def test_a_run_with_other_new_inputs_does_not_go_on(tmp_path):
    """Inputs of another projection onto the training inputs, or farther from what these span."""
    short = {"num_samples": 2, "num_warmup": 2}
    beyond = np.linalg.svd(TASK.inputs.T)[2][4:6].T
    new = TASK.inputs[:, :2] + beyond
    found = run(tmp_path, predict_inputs=new, **short)
    for other in (TASK.inputs[:, 2:] + beyond, TASK.inputs[:, :2] + 1.01 * beyond):
        with pytest.raises(CheckpointMismatchError, match="new inputs is .* there and .* here"):
            run(tmp_path, predict_inputs=other, **short)
    assert_same(run(tmp_path, predict_inputs=new, **short).predictions, found.predictions)


def test_a_block_in_the_place_of_another_is_noticed(folder):
    (folder / "block_00002.npz").write_bytes((folder / "block_00003.npz").read_bytes())
    with pytest.raises(CorruptDataError, match="block_00002.npz is damaged, or stands in the place of"):
        run(folder)


def test_versions_are_part_of_the_run(folder, monkeypatch):
    monkeypatch.setattr("coding_schemes.sampling.checkpoint.metadata.version", lambda name: "0.0")
    with pytest.raises(CheckpointMismatchError, match="versions"):
        run(folder)


def test_a_function_of_ones_own_is_known_by_its_values(tmp_path):
    """Its name in memory changes from process to process; its values do not."""
    functions = [lambda z: 0.5 * z, lambda z: 0.5 * z]
    for function in functions:
        network = dataclasses.replace(GIVEN.network, nonlinearity=function)
        found = run(tmp_path, posterior.Posterior(TASK, network, 0.1), num_samples=2, num_warmup=2)
    assert len(found.info.energy[0]) == 2
