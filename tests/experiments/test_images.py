"""The images chapter: few-shot readouts, stored results and the commands that make them."""

import ast
import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from coding_schemes import data
from experiments import image_jobs, images
from experiments.large_run import FULL, Settings

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "data" / "results"


def test_few_shot_accuracy_in_closed_cases():
    """Separate clusters: always right from one example. Features that say nothing: chance."""
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2, 3], 25)
    clusters = 5 * np.eye(4)[:, labels] + 0.1 * rng.standard_normal((4, 100))
    assert image_jobs.few_shot_accuracy(clusters, labels, 1, rng).min() == 1.0
    nothing = image_jobs.few_shot_accuracy(rng.standard_normal((50, 100)), labels, 5, rng, num_episodes=200)
    assert abs(nothing.mean() - 0.25) < 0.03
    with pytest.raises(ValueError, match="num_shots"):
        image_jobs.few_shot_accuracy(clusters, labels, 25, rng)


def test_effective_dimension_counts_equal_directions():
    """k directions of equal variance count k, whatever the mean and the number of neurons."""
    signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # orthogonal, of zero mean
    mixed = np.linalg.qr(np.random.default_rng(3).standard_normal((8, 3)))[0]
    for k in (1, 2, 3):
        assert image_jobs.effective_dimension(7 + mixed[:, :k] @ signs[:k]) == pytest.approx(k)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.npz")), ids=lambda path: path.stem)
def test_stored_results_are_small_and_described(path):
    """What the chapter draws: a manifest, finite numbers, at most 3 MB."""
    assert path.stat().st_size < 3e6
    with np.load(path) as stored:
        manifest = json.loads(str(stored["manifest"]))
        assert {
            "versions",
            "settings" if path.stem.startswith(("cifar10-P", "cifar10-full")) else "job",
        } <= set(manifest)
        for name in stored.files:
            if stored[name].dtype.kind == "f" and name != "history":  # no acceptance without trajectories
                assert np.isfinite(stored[name]).all(), name


def test_stored_results_that_are_missing_or_damaged(tmp_path):
    """Each says what is wrong and what to do."""
    path = tmp_path / "reuse-digits.npz"
    with pytest.raises(FileNotFoundError, match=r"does not exist.*snakemake data/results/reuse-digits.npz"):
        images.stored(path)
    content = (RESULTS / "reuse-digits.npz").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for damaged in (b"", b"something else", content[:-500], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(data.CorruptDataError, match="reuse-digits.npz is damaged or no result file"):
            images.stored(path)
    path.write_bytes(content)
    np.testing.assert_array_equal(images.stored(path)["shots"], [1, 2, 5, 10, 20])


def test_stored_cifar_accuracy_is_that_of_its_predictor():
    for path in RESULTS.glob("cifar10-P*.npz"):
        with np.load(path) as stored:
            right = stored["predictor"].argmax(axis=1) == stored["test_targets"].argmax(axis=1)
            assert right.mean() == pytest.approx(float(stored["accuracy"]))
            assert json.loads(str(stored["manifest"]))["settings"]["num_inputs"] == int(path.stem[9:])


def test_the_commands_of_the_long_runs_have_the_stored_settings():
    """What `snakemake` passes on for each file, against its manifest."""
    text = (ROOT / "Snakefile").read_text(encoding="utf-8")
    options = ast.literal_eval(re.search(r"LARGE_RUNS = ({.*?\n})", text, re.DOTALL).group(1))
    for path in RESULTS.glob("cifar10-P*.npz"):
        settings = json.loads(str(images.stored(path)["manifest"]))["settings"]
        words = shlex.split(options.get(path.stem[9:], ""))
        given = {k[2:]: type(settings[k[2:]])(v) for k, v in zip(words[::2], words[1::2], strict=True)}
        assert asdict(Settings(num_inputs=int(path.stem[9:]), **given)) == settings
    largest = json.loads(str(images.stored(RESULTS / "cifar10-full-jpeg.npz")["manifest"]))
    assert asdict(replace(FULL, jpeg=True)) == largest["settings"]
    assert "JPEG" in largest["task"]


def test_a_result_that_says_nothing_of_its_sampler_is_not_in_equilibrium():
    assert not images.equilibrium({}, "cifar")[0].agree
    found = images.equilibrium(
        {"x_agree": np.array([True, False]), "x_verdict": np.array(["meet", "differ"])}, "x"
    )
    assert [one.agree for one in found] == [True, False]


def test_trend_of_a_straight_line():
    sizes = np.array([100, 1000, 5000])
    slope, error, end = images.trend(sizes, 0.1 + 0.05 * np.log10(sizes))
    assert slope == pytest.approx(0.05)
    assert error == pytest.approx(0, abs=1e-6)
    assert end == pytest.approx(0.1 + 0.05 * np.log10(50_000))
