"""Readers' files: what is read, and what is refused."""

from pathlib import Path

import jax
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.networks import Network
from experiments import your_own

INPUTS = np.random.default_rng(0).standard_normal((5, 8))
LABELS = np.array(list("bacbacba"))


def test_a_file_becomes_a_task(tmp_path):
    np.savez(tmp_path / "my.npz", inputs=INPUTS, labels=LABELS)
    task = your_own.read_task(tmp_path / "my.npz")
    assert task.class_counts.tolist() == [3, 3, 2]
    assert np.mean(task.inputs**2) == pytest.approx(1)
    np.testing.assert_allclose(
        task.targets, tasks.one_hot(3, 1.0, -0.5)[np.sort(np.unique(LABELS, return_inverse=True)[1])]
    )
    lines = ["label," + ",".join(f"x{k}" for k in range(5))]
    lines += [
        f"{label}," + ",".join(map(repr, column.tolist()))
        for label, column in zip(LABELS, INPUTS.T, strict=True)
    ]
    (tmp_path / "my.csv").write_text("\n".join(lines))
    same = your_own.read_task(tmp_path / "my.csv")
    np.testing.assert_allclose(same.inputs, task.inputs)
    np.testing.assert_array_equal(same.labels, task.labels)


def test_a_relative_file_is_found_from_the_folder_of_notebooks(tmp_path, monkeypatch):
    for name in ("book/claims.yml", "notebooks/some.py", "my.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path / "notebooks")
    assert your_own.located("my.npz") == tmp_path / "my.npz"
    assert your_own.located("some.py") == Path("some.py")
    assert your_own.located(tmp_path / "my.npz") == tmp_path / "my.npz"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": INPUTS}, "has no array labels"),
        ({"inputs": INPUTS.T, "labels": LABELS}, "need shapes"),
        ({"inputs": INPUTS, "labels": LABELS, "targets": np.ones((3, 2))}, "targets"),
    ],
)
def test_wrong_files_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "my.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        your_own.read_task(tmp_path / "my.npz")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "my.txt").write_text("1")
    (tmp_path / "broken.npz").write_text("1")
    for name, error in (("my.txt", ValueError), ("broken.npz", ValueError), ("none.npz", FileNotFoundError)):
        with pytest.raises(error, match=name):
            your_own.read_task(tmp_path / name)


def test_nonlinearities_by_name():
    assert your_own.elementwise("relu") == "relu"
    assert your_own.elementwise("gelu") is jax.nn.gelu
    with pytest.raises(ValueError, match="nonlinearity: got 'wiggle'"):
        your_own.elementwise("wiggle")


def test_theory_where_there_is_one():
    task = tasks.toy(40)
    found, sentence = your_own.predicted(task, Network(1, 10, "sigmoidal"), 0.05)
    assert found is not None
    assert "4 kinds" in sentence
    found, sentence = your_own.predicted(task, Network(3, 10, "relu"), 0.05)
    assert found is None
    assert "no theory" in sentence


def test_rotations_keep_the_kernel_and_the_average_neuron():
    turn = your_own._rotation(7, np.random.default_rng(0))
    np.testing.assert_allclose(turn @ turn.T, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(turn @ np.ones(7), np.ones(7), atol=1e-12)
