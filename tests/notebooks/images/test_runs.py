"""The images chapter: few-shot readouts, stored results and the commands that make them."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import coding, data, planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import non_lazy
from images import runs, stored
from images.large_run import FULL, Settings

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "data" / "results"


@pytest.mark.parametrize(
    ("manifest", "made"),
    [
        ({"commit": "a1b2"}, "commit a1b2"),
        ({"commit": "a1b2", "date": "2026-11-27"}, "2026-11-27"),
        ({}, "unknown"),
    ],
)
def test_a_stored_result_says_when_or_from_which_commit_it_was_made(manifest, made):
    assert f"{made};" in runs.source({"manifest": np.array(json.dumps(manifest))}, "x.npz")


def test_few_shot_accuracy_in_closed_cases():
    """Separate clusters: always right from one example. Features that say nothing: chance."""
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2, 3], 25)
    clusters = 5 * np.eye(4)[:, labels] + 0.1 * rng.standard_normal((4, 100))
    assert stored.few_shot_accuracy(clusters, labels, 1, rng).min() == 1.0
    nothing = stored.few_shot_accuracy(rng.standard_normal((50, 100)), labels, 5, rng, num_episodes=200)
    assert abs(nothing.mean() - 0.25) < 0.03
    with pytest.raises(ValueError, match="num_shots"):
        stored.few_shot_accuracy(clusters, labels, 25, rng)


def test_effective_dimension_counts_equal_directions():
    """k directions of equal variance count k, whatever the mean and the number of neurons."""
    signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # orthogonal, of zero mean
    mixed = np.linalg.qr(np.random.default_rng(3).standard_normal((8, 3)))[0]
    for k in (1, 2, 3):
        assert stored.effective_dimension(7 + mixed[:, :k] @ signs[:k]) == pytest.approx(k)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.npz")), ids=lambda path: path.stem)
def test_stored_results_are_small_and_described(path):
    """What the chapter draws: a manifest, finite numbers, at most 3 MB."""
    assert path.stat().st_size < 3e6
    with np.load(path) as found:
        manifest = json.loads(str(found["manifest"]))
        assert {
            "versions",
            "settings" if path.stem.startswith(("cifar10-P", "cifar10-full")) else "job",
        } <= set(manifest)
        for name in found.files:
            if "/" in name:  # draws of adaptive images that its job did not come to are NaN
                continue
            if found[name].dtype.kind == "f" and name not in ("history", "descents"):  # no acceptance there
                assert np.isfinite(found[name]).all(), name


def test_stored_results_that_are_missing_or_damaged(tmp_path):
    """Each says what is wrong and what to do."""
    path = tmp_path / "reuse-digits.npz"
    with pytest.raises(FileNotFoundError, match=r"does not exist.*snakemake data/results/reuse-digits.npz"):
        runs.stored(path)
    content = (RESULTS / "reuse-digits.npz").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for damaged in (b"", b"something else", content[:-500], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(data.CorruptDataError, match="reuse-digits.npz is damaged or no result file"):
            runs.stored(path)
    path.write_bytes(content)
    np.testing.assert_array_equal(runs.stored(path)["shots"], [1, 2, 5, 10, 20, 50])


def test_stored_cifar_accuracy_is_that_of_its_predictor():
    for path in RESULTS.glob("cifar10-P*.npz"):
        with np.load(path) as found:
            right = found["predictor"].argmax(axis=1) == found["test_targets"].argmax(axis=1)
            assert right.mean() == pytest.approx(float(found["accuracy"]))
            assert json.loads(str(found["manifest"]))["settings"]["num_inputs"] == int(path.stem[9:])


def test_the_commands_of_the_long_runs_have_the_stored_settings():
    """What `snakemake` makes each file with, against its manifest."""
    for path in RESULTS.glob("cifar10-P*.npz"):
        settings = json.loads(str(runs.stored(path)["manifest"]))["settings"]
        assert asdict(Settings(num_inputs=int(path.stem[9:]))) == settings
    largest = json.loads(str(runs.stored(RESULTS / "cifar10-full-jpeg.npz")["manifest"]))
    assert asdict(replace(FULL, jpeg=True)) == largest["settings"]
    assert "JPEG" in largest["task"]


def test_starts_of_a_stored_result_meet_only_where_nothing_differs():
    assert not runs.meetings({}, "cifar")[0].agree
    verdicts = ["errors meet; all else: the two ends meet", "errors meet; all else: the two ends differ in x"]
    found = runs.meetings({"x_verdict": np.repeat(verdicts, 2)}, "x")  # a row for each start
    assert [one.agree for one in found] == [True, False]
    assert "starts differ" in found[1].verdict


def test_rows_of_two_starts():
    """Means over draws of both starts, with an error from the draws alone."""
    rows = np.array([1.0, 3.0, 2.0, 6.0])
    found = runs.over_draws(rows)
    assert found["sampled"] == pytest.approx((3, 1))
    assert found["starts"][0] == pytest.approx((1.5, 0.5))
    assert found["starts"][1] == pytest.approx((4.5, 1.5))


def test_errors_of_a_draw_are_means_of_its_two_starts():
    """Rows are draw after draw, each from the prior and from theory."""
    rows = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, 50.0], [9.0, 90.0], [0.0, 0.0], [2.0, 20.0]])
    result = {"x_error": rows, "x_theory_error": rows[:2], "x_process_error": rows[2:]}
    errors, theory, process = runs.class_errors(result, ("x",))
    np.testing.assert_allclose(errors, [[[2, 20], [7, 70], [1, 10]]])
    np.testing.assert_allclose(theory, [[2, 20]])
    np.testing.assert_allclose(process, [[4, 40]])


def test_gain_realized_class_by_class():
    result = {"x_error": np.array([[1.0, 3.0]]), "x_theory_error": np.array([[2.0, 2.0]])}
    result["x_process_error"] = np.array([[4.0, 4.0]])
    np.testing.assert_allclose(runs.realized(result, "x"), [[1.5, 0.5]])
    np.testing.assert_allclose(runs.realized(result, "x", exchanged=True), [[0.5, 1.5]])


def test_code_of_the_large_run():
    """What is on record of the network of the paper's size, from its stored activations."""
    whole = runs.Run.of(runs.stored(RESULTS / "cifar10-full-jpeg.npz"))
    assert whole.explained(2)[0] == pytest.approx(0.9989, abs=1e-4)
    assert whole.least_explained == pytest.approx(0.986, abs=1e-3)
    assert whole.sides(2)[0].mean() == pytest.approx(0.812, abs=1e-3)
    assert len(whole.code_sizes) == 180
    assert whole.training_accuracy == pytest.approx(1.0, abs=1e-4)
    shown = whole.outputs()
    np.testing.assert_array_equal(shown["targets"][:, 0] == 1.0, shown["labels"] == 0)


def made_up(energies, warmup=(9.0,), last=8.0):
    """A run whose descents end at such energies: two starts, each quenched and cooled."""
    descents = np.zeros((4, 2, len(runs.HISTORY)))
    descents[:, -1, runs.HISTORY.index("energy")] = energies
    history = np.full((3, len(runs.HISTORY)), last)
    settings = {"num_inputs": 5, "width": 4, "depth": 2, "num_classes": 3}
    arrays = {"descents": descents, "history": history, "warmup_energy": np.array(warmup)}
    return runs.Run(arrays, settings, "made up", 1.0, "none")


def test_the_lowest_descent_from_either_start():
    one = made_up([3.0, 2.0, 1.0, 4.0])
    assert one.from_starts(np.array([10, 11, 12, 13])) == (11, 12)
    np.testing.assert_array_equal(one.ends["energy"], [[3, 2], [1, 4]])
    said = runs.chains([one]).verdict
    assert "0.1 and 0.1 at P = 5" in said
    assert not runs.chains([one]).agree


def test_thermal_energy_is_half_a_unit_per_weight():
    """Weights: 4 neurons of rank 5, 4 × 4 between the layers, 4 × 3 readouts: 48, so 24 above the minimum."""
    assert made_up([3, 2, 1, 4], last=25).thermal_share == pytest.approx(1)
    assert made_up([3, 2, 1, 4], warmup=(0.0, 5.0), last=12).thermal_share == pytest.approx(0.5)


def test_neurons_are_counted_by_their_code():
    one = made_up([1, 2, 3, 4])
    one.arrays["training_class_means_2"] = np.array([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2]])
    np.testing.assert_array_equal(one.code_sizes, [2, 1])
    assert one.shared() == pytest.approx(np.array([[1, -1], [-1, 1]]))
    one.arrays["training_class_means_1"] = np.array([[0.9, 0.9], [0.1, 0.1]])
    assert one.shared(1) == pytest.approx(np.ones((2, 2)))


def test_neurons_of_either_layer_are_grouped_by_their_own_code():
    one, labels = made_up([1, 2, 3, 4]), np.array([0, 0, 1])
    kinds = {1: np.array([0, 1, 0, 1, 0]), 2: np.array([0, 0, 1, 1, 1])}  # of five neurons
    one.arrays.update({"training_labels": labels, "test_labels": labels[::-1]})
    for layer, kind in kinds.items():
        phi = (kind[:, None] == labels) + 0.01 * np.arange(5)[:, None]
        one.arrays.update({f"training_activations_{layer}": phi, f"test_activations_{layer}": phi[:, ::-1]})
    shown = one.layers()
    assert shown["labels"].tolist() == [0, 1]
    for row in shown["activations"]:
        for layer, panel in zip((1, 2), row, strict=True):
            assert panel.shape == (5, 2)
            sides = (panel[:, 0] > panel[:, 1]).astype(int)
            assert np.count_nonzero(np.diff(sides)) == 1
            assert sides.sum() == np.count_nonzero(kinds[layer] == 0)


@pytest.mark.key_reuse  # all answer with the same noise
def test_features_of_reuse_are_those_of_networks_from_both_starts(monkeypatch):
    """Runs that end where they start: the second network is theory's, and that without a run another."""
    task, network = tasks.mnist(12, 6), Network(1, 8, "linear")

    def stay(posterior, key, init, **_):
        weights = posterior.prior(key) if isinstance(init, str) else init
        return SimpleNamespace(final=jax.tree.map(lambda leaf: leaf[None], weights))

    monkeypatch.setattr(stored, "sample", stay)
    found = stored.features_on(task, "linear", 8, task.inputs, 0)
    assert [len(each) for each in found] == [2, 1, 1]
    given = non_lazy(task, network, stored.TEMPERATURE)
    theory = stored.held_out.predicted(task, network, stored.TEMPERATURE).solution
    planted = planting.planted(jax.random.key(0), theory, given)
    np.testing.assert_allclose(found[0][1], network.phi(given.preactivations(planted)[-1]), atol=1e-4)
    assert np.abs(found[0][0] - found[2][0]).max() > 0.1


def test_what_is_explained_at_least():
    """Two classes at m and 1 − m: (m − ½)² between them, m (1 − m) within, whatever the responses are."""
    one, rng = made_up([1, 2, 3, 4]), np.random.default_rng(0)
    one.arrays["training_class_means_2"] = np.tile([[0.9, 0.1]], (5, 1))
    assert one.least_explained == pytest.approx(0.16 / 0.25)
    for responses in (rng.random((5, 400)) < 0.9, np.full((5, 400), 0.9)):  # the widest, and the narrowest
        both = np.concatenate([responses, 1 - responses], axis=1).astype(float)
        kept = coding.code_transfer(both, np.repeat([0, 1], 400), both, np.repeat([0, 1], 400))[0]
        assert kept > one.least_explained - 0.05


def test_responses_on_the_side_that_the_code_names():
    """Three of four follow the code, chance is what the other class's code gets."""
    one = made_up([1, 2, 3, 4])
    one.arrays.update(
        {
            "training_class_means_2": np.array([[1.0, 0.0], [0.0, 1.0]]),
            "test_labels": np.array([0, 0, 1, 1]),
        }
    )
    one.arrays["test_activations_2"] = np.array([[1.0, 1, 0, 1], [0, 0, 1, 0]])
    np.testing.assert_allclose(one.sides(2), [[0.75, 0.75], [0.25, 0.25]])
    assert one.beyond_chance(2) == pytest.approx((0.5 / 0.75, 0))
    assert one.beyond_chance(2, 1) == pytest.approx((0, 0))


def test_confusions_count_both_ways():
    one = made_up([1, 2, 3, 4])
    one.arrays.update(
        {"predictor": np.eye(3)[[0, 1, 1, 1, 2, 0]], "test_targets": np.eye(3)[[0, 0, 1, 1, 2, 2]]}
    )
    np.testing.assert_allclose(one.confusions, [[0.5, 0.25, 0.25], [0.25, 1, 0], [0.25, 0, 0.5]])


def test_mantels_correlation():
    """1 for a matrix with itself; over permutations it scatters by 1/√(pairs) about zero."""
    rng = np.random.default_rng(1)
    one, other = (x + x.T for x in rng.standard_normal((2, 10, 10)))
    same, permuted = runs.mantel(one, one)
    assert same.value == pytest.approx(1)
    assert abs(permuted) < 0.6
    assert same.error == pytest.approx(45**-0.5, rel=0.15)
    assert abs(runs.mantel(one, other)[0].value) < 0.5
    more, _ = runs.nearer(one, other, one)
    assert more.value == pytest.approx(1 - runs.mantel(one, other)[0].value)
    assert runs.nearer(one, one, other)[0] == (0, 0)


def test_responses_in_step_with_the_code():
    """All of it at any scale and mean of a neuron, and none where responses are those of the other class."""
    labels = np.array([0, 0, 1, 1])
    phi = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    assert runs.in_step(phi, labels, 0.1 * phi + [[0.5], [0.2]], labels) == pytest.approx(1)
    assert runs.in_step(phi, labels, np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]]), labels) == pytest.approx(0)


def test_best_nonlinearity_at_every_number_of_examples():
    values = np.zeros((3, 2, 4))
    values[1, 0], values[2, 1] = [1, 2, 1, 2], [5, 5, 5, 9]
    found = runs.best(values)
    np.testing.assert_allclose(found.value, [1.5, 6])
    np.testing.assert_allclose(found.error, [1 / 12**0.5, 1])


def test_trend_of_a_straight_line():
    sizes = np.array([100, 1000, 5000])
    slope, end = runs.trend(sizes, 0.1 + 0.05 * np.log10(sizes))
    assert slope.value == pytest.approx(0.05)
    assert slope.error == pytest.approx(0, abs=1e-6)
    assert end == pytest.approx(0.1 + 0.05 * np.log10(50_000))


def test_what_carries_over_of_a_stored_network_is_its_share_beyond_chance():
    """Of two neurons one keeps to the code on new images, the other answers by the toss of a coin."""
    labels, new = np.array([0, 0, 1, 2]), np.array([0, 1, 2, 0, 1, 2])
    phi = np.array([[0.9, 0.7, 0.1, 0.2], [0.8, 0.8, 0.2, 0.1]])
    responses = np.array([[1.0, 0, 0, 1, 0, 0], [1.0, 1, 1, 0, 0, 0]])
    stored = {"a_training_activations": phi, "a_training_labels": labels}
    found = runs.carried_over(stored | {"a_test_activations": responses, "a_test_labels": new}, "a")
    own, others = np.array([1.0, 0.5]), np.array([1 / 3, 0.5])  # shares on the side that is named
    assert found.value == pytest.approx(np.mean((own - others) / (1 - others.mean())))


def test_own_task_asks_for_no_more_test_images_than_a_subset_has(monkeypatch):
    """Only where the reader named no number: what was asked for goes through, and fails by itself."""
    asked = []
    monkeypatch.setitem(runs.DATASETS, "cifar10", lambda *given: asked.append(given))
    monkeypatch.setitem(runs.DATASETS, "mnist", lambda *given: asked.append(given))
    for dataset, number in (("cifar10", None), ("cifar10", 300), ("mnist", None)):
        runs.own_task(dataset, 40, number, 1000, (3, 5), 1.0, -1.0, 7)
    assert [given[1] for given in asked] == [140, 300, 1000]
    assert all(given[:1] + given[2:] == (40, (3, 5), 1.0, -1.0, 7) for given in asked)
    with pytest.raises(ValueError, match=r"dataset.*mnist"):
        runs.own_task("imagenet", 40, None, 1000, (3, 5))


def test_curves_of_reuse_are_means_over_draws_and_over_both_starts():
    """Of learned features, then of lazy ones, then of pixels."""
    rng, shots = np.random.default_rng(0), np.array([1, 5])
    accuracy, pixels = rng.random((3, 2, 2, 4, 2)), rng.random((2, 4))  # (names, kinds, shots, draws, starts)
    reuse = {"accuracy": accuracy, "pixels": pixels, "shots": shots}
    found = runs.curves(reuse, ("a", "b", "c"))
    draws = np.concatenate([*np.moveaxis(accuracy.mean(-1), 1, 0), pixels[None]])
    np.testing.assert_allclose(found["values"], draws.mean(-1))
    np.testing.assert_allclose(found["errors"], draws.std(-1, ddof=1) / 2)
    assert found["names"] == ["a", "b", "c"] * 2 + ["pixels"]
    assert len(found["styles"]) == 7
    for start in range(2):
        expected = accuracy[:, 0, ..., start] - accuracy[:, 1].mean(-1)
        np.testing.assert_allclose(runs.gain(reuse, start), expected)


def test_a_stored_run_says_its_sizes_and_its_accuracy_with_a_binomial_error():
    settings = {"num_inputs": 5, "width": 4, "depth": 2, "temperature": 0.1, "num_classes": 3}
    manifest = {"device": "1 x CPU, x86", "settings": settings, "task": "made up", "seconds": 90}
    outputs = {"predictor": np.eye(3)[[0, 1, 2, 2, 2]] - 5, "test_targets": np.eye(3)[[0, 1, 2, 2, 0]]}
    found = runs.Run.of({"manifest": json.dumps(manifest)} | outputs)
    assert (found.minutes, found.device, found.task) == (1.5, "CPU", "made up")
    assert found.size == {"L": 2, "N": 4, "P": 5, "T": 0.1}
    assert found.accuracy() == pytest.approx((0.8, np.sqrt(0.8 * 0.2 / 5)))
    assert found.accuracy(shuffled=True).value < 0.8
