"""Networks on new inputs: from two starts, against theory and process."""

from types import SimpleNamespace

import numpy as np
import pytest
from coding_schemes import planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import mean_field
from companion import findings, held_out

import jax  # isort: skip


def test_planted_networks_fit_the_task():
    """A network made of the theory's kinds has the theory's outputs, up to rounding its shares to N."""
    task = tasks.toy(20, y_minus=-0.5)
    for name in ("sigmoidal", "relu"):
        solution = mean_field.solve(task, name, 0.01)
        posterior = Posterior(task, Network(1, 400, name), 0.01)
        outputs = np.asarray(posterior.outputs(planting.planted(jax.random.key(0), solution, posterior)))
        np.testing.assert_allclose(outputs, solution.outputs, atol=0.02)


def test_a_task_without_test_split_is_refused():
    with pytest.raises(ValueError, match="test split"):
        held_out.predicted(tasks.toy(12), Network(1, 12, "linear"), 0.01)


@pytest.mark.parametrize(
    ("ratio", "noise", "agree"), [(1.019, 0.0, True), (1.022, 0.0, False), (1.2, 1.0, True)]
)
@pytest.mark.parametrize("others", [True, False])
def test_starts_meet_within_two_per_cent_or_four_standard_errors(ratio, noise, agree, others, monkeypatch):
    """And only if all other observables do."""
    rest = SimpleNamespace(verdict="the rest", agree=others)
    monkeypatch.setattr(held_out, "compare_ends", lambda *_: rest)
    rng = np.random.default_rng(0)
    errors = [f * np.ones((2, 20, 2)) + noise * rng.standard_normal((2, 20, 2)) for f in (1, ratio)]
    found = held_out._meeting(None, (None, None), errors)
    assert found.agree == (agree and others)
    if noise == 0:
        assert found.apart == pytest.approx(1 - 1 / ratio)


@pytest.mark.parametrize(("gap", "agree"), [(5.6, True), (5.7, False)])
def test_the_difference_of_two_starts_has_both_their_errors(gap, agree, monkeypatch):
    """4 standard errors of a difference are 4 √2 of each start."""
    monkeypatch.setattr(held_out, "compare_ends", lambda *_: SimpleNamespace(verdict="", agree=True))
    monkeypatch.setattr(held_out.statistics, "mean_and_error", lambda each: (each.mean((0, 1)), np.ones(1)))
    errors = [np.full((2, 20, 1), 10.0), np.full((2, 20, 1), 10.0 + gap)]
    assert held_out._meeting(None, (None, None), errors).agree == agree


def test_the_error_of_a_realized_gain_is_in_its_units():
    """Also where theory predicts a loss."""
    process, theory = (
        SimpleNamespace(error=SimpleNamespace(total=np.array(x))) for x in ([4.0, 3.0], [2.0, 3.5])
    )
    learned = SimpleNamespace(error=findings.Estimate(np.array([3.0, 3.25]), np.array([0.2, 0.1])))
    found = held_out.realized(SimpleNamespace(process=process, theory=theory, learned=learned))
    np.testing.assert_allclose(found.value, [0.5, 0.5])
    np.testing.assert_allclose(found.error, [0.1, 0.2])


@pytest.mark.slow
def test_bars_have_the_error_of_a_mean_over_draws():
    """Four of five bars within one error and a half of the truth (Student's law: 0.79), over many trials."""
    rng, truth = np.random.default_rng(0), np.zeros((200, 3))
    bars = held_out.bars_over_draws(rng.standard_normal((200, 5, 3)), truth, truth)
    within = np.abs(bars["values"]) < 1.5 * bars["errors"]
    assert within.mean() == pytest.approx(0.79, abs=0.05)
    alone = held_out.bars_over_draws(rng.standard_normal((1, 1, 3)), truth[:1], truth[:1])
    assert np.all(alone["errors"] == 0)


@pytest.mark.parametrize("scaling", ["non-lazy", "lazy"])
def test_networks_stand_beside_theory_and_process_lazy_ones_beside_the_process_alone(scaling, monkeypatch):
    """And start from the prior and from theory's solution, lazy ones from the prior alone."""
    theory = SimpleNamespace(solution="solution")
    monkeypatch.setattr(held_out, "process", lambda *given: ("process", *given))
    monkeypatch.setattr(held_out, "predicted", lambda *given: theory)
    monkeypatch.setattr(held_out, "learn", lambda *given, **options: (*given, options))
    network = Network(1, 30, "erf", scaling)
    draw = held_out.experiment("task", network, 0.1, "key", num_samples=4)
    process, lazy = ("process", "task", "erf", 0.1), scaling == "lazy"
    assert draw.process == process
    assert draw.theory == (process if lazy else theory)
    start = () if lazy else ("solution",)
    assert draw.learned == ("task", network, 0.1, "key", *start, {"num_samples": 4})
    assert draw.task == "task"


def test_measures_of_all_networks_and_of_either_start():
    task, network = tasks.mnist(24, 40), Network(1, 30, "sigmoidal")
    counts = {"num_chains": 2, "num_samples": 4, "num_warmup": 30}
    draw = held_out.experiment(task, network, 0.01, jax.random.key(0), **counts)
    found = held_out.judged([draw], lambda one: one.learned.error, findings.stacked)
    squared = np.square(draw.learned.outputs - task.test_targets).mean((1, 2))
    np.testing.assert_allclose(found["sampled"].value[0], squared.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found["starts"][0].value[0], squared[:2].mean(0), rtol=1e-5)
    np.testing.assert_allclose(found["starts"][1].value[0], squared[2:].mean(0), rtol=1e-5)
    each = np.square(draw.learned.outputs - draw.learned.outputs.mean((0, 1))).mean((1, 2, 3))
    assert draw.learned.variance.value == pytest.approx(each.mean(), rel=1e-4)  # between networks, too
    gain = draw.process.error.total - draw.theory.error.total
    expected = (draw.process.error.total - squared.mean(0)) / gain
    np.testing.assert_allclose(held_out.realized(draw).value, expected, rtol=1e-4)
    for start, half in zip(draw.starts, (slice(2), slice(2, 4)), strict=True):
        own = (draw.process.error.total - squared[half].mean(0)) / gain
        np.testing.assert_allclose(held_out.realized(start).value, own, rtol=1e-4)
    assert held_out.transfer(draw).shape == (4, 2)
    shown = held_out.training_and_test(draw)
    assert [layer.shape[0] for layer in shown["activations"]] == [30, 30]


def test_what_is_kept_of_a_network_is_of_its_last_sample(monkeypatch):
    """Readouts belong to the activations beside them: of two starts with two chains of three samples."""
    monkeypatch.setattr(held_out, "_meeting", lambda *_: None)

    def run(start):
        numbers = (10.0 * start + np.arange(6)).reshape(2, 3, 1, 1)  # of chains and samples
        return SimpleNamespace(
            predictions=SimpleNamespace(outputs=np.tile(numbers, (4, 1)), kernel=np.eye(4)),
            readouts=np.tile(numbers, (2, 1)),
            activations=lambda: np.tile(numbers, (2, 5)),
            info=SimpleNamespace(energy=numbers[..., 0, 0]),
            final=(numbers[:, -1, 0, 0],),
        )

    answer = lambda key, final, inputs: SimpleNamespace(preactivations=[np.full((2, 4), final[0])])  # noqa: E731
    task = SimpleNamespace(held_out=(None, None, np.zeros((4, 1))), num_inputs=5)
    posterior = SimpleNamespace(network=Network(1, 2, "linear"), task=task, predict=answer)
    found = held_out.measured(posterior, run(1), run(2))
    for part in (found.readouts, found.training_activations, found.test_activations):
        np.testing.assert_array_equal(part[:, 0, 0], [12, 15, 22, 25])
    np.testing.assert_array_equal(
        found.outputs[:, :, 0, 0], [[10, 11, 12], [13, 14, 15], [20, 21, 22], [23, 24, 25]]
    )
    np.testing.assert_allclose(found.energy, np.array([11, 14, 21, 24]) / 10)


@pytest.mark.parametrize("name", ["sigmoidal", "erf", "relu", "linear"])
def test_training_and_test_inputs_of_any_nonlinearity_and_of_classes_of_any_size(name):
    """As many of a class as both sets have; a code's name only where there are codes."""
    rng = np.random.default_rng(0)
    labels, test_labels = np.array([1, 0, 2, 0, 1, 2, 2]), np.array([2, 0, 1, 0, 0, 1])
    first, second = rng.uniform(size=(2, 5, 7)), rng.uniform(size=(2, 5, 6))
    learned = SimpleNamespace(
        training_activations=first,
        test_activations=second,
        posterior=SimpleNamespace(network=Network(1, 5, name)),
    )
    task = SimpleNamespace(labels=labels, num_classes=3, held_out=(None, test_labels, None))
    draw = SimpleNamespace(task=task, learned=learned)
    shown = held_out.training_and_test(draw)
    assert shown["labels"].tolist() == [0, 0, 1, 1, 2]  # of class 2 one test input
    order = [int(np.flatnonzero(first[0, :, 1] == value)[0]) for value in shown["activations"][0][:, 0]]
    assert sorted(order) == list(range(5))
    np.testing.assert_array_equal(shown["activations"][0], first[0][order][:, [1, 3, 0, 4, 2]])
    np.testing.assert_array_equal(shown["activations"][1], second[0][order][:, [1, 3, 2, 5, 0]])
    assert ("codes" in shown) == (name in ("sigmoidal", "erf"))
    if "codes" in shown:
        both, middle = held_out.codes(draw), 0.5 * (name == "sigmoidal")
        for found, phi, own in zip(both, (first, second), (labels, test_labels), strict=True):
            means = [phi[..., own == c].mean(-1) for c in range(3)]
            np.testing.assert_array_equal(found, np.stack(means, axis=-1) > middle)
        assert shown["codes"] == ["-".join(str(int(c)) for c in code) for code in both[0][0][order]]
    if name == "relu":
        assert np.all(np.diff(np.square(first[0]).mean(1)[order]) <= 0)
