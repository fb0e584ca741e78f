"""What the chapter on generalization measures, on cases that are known exactly."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from companion.findings import Estimate
from companion.held_out import Draw, Learned, Predicted
from companion.workbench import Equilibrium
from generalization import runs

TARGETS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])


def predicted(error, variance, predictor=TARGETS):
    error = coding.GeneralizationError(np.full(2, error), np.full(2, variance), np.full(2, error + variance))
    return Predicted(error, predictor, np.eye(4), None)


def answered(outputs, **arrays):
    """Networks with given outputs on four test inputs, (networks, samples, 4, 2)."""
    inputs = np.eye(4)
    task = tasks.Task(inputs, [0, 1, 0, 1], TARGETS, inputs, [0, 1, 0, 1], TARGETS)
    number = len(outputs)
    given = {name: np.zeros((number, 3, 4)) for name in ("training_activations", "test_activations")}
    given |= {
        "readouts": np.zeros((number, 3, 2)),
        "kernels": np.zeros((2, 4, 4)),
        "energy": np.zeros(number),
    }
    posterior = SimpleNamespace(task=task)
    learned = Learned(posterior, np.asarray(outputs), **(given | arrays), meeting=Equilibrium(True, ""))
    return Draw(task, learned, predicted(0.1, 0.0), predicted(0.3, 0.2))


def test_draws_have_images_and_random_numbers_of_their_own(monkeypatch):
    monkeypatch.setattr(runs.tasks, "mnist", lambda *_, seed, **__: seed)
    monkeypatch.setattr(runs, "experiment", lambda task, network, temperature, key, **_: (task, key))
    given = {"width": 4, "num_inputs": 8, "num_test": 4, "seed": 5}
    found = [
        draw
        for name in ("relu", "linear")
        for draw in runs.draws(jax.random.key(0), name, 0.1, num_draws=4, first=1, **given)
    ]
    assert [seed for seed, _ in found] == [6, 7, 8] * 2
    assert len({tuple(jax.random.key_data(key).tolist()) for _, key in found}) == 6


def test_neurons_shown_are_evenly_taken_and_of_the_relu_the_most_active():
    """Linear ones in order of activity, sigmoidal ones by their code on training images."""
    rng, labels = np.random.default_rng(0), np.arange(12) // 4
    task = SimpleNamespace(labels=labels, held_out=(None, labels, None))
    first = {}
    for name in ("linear", "sigmoidal", "relu"):
        phi, other = rng.random((2, 1, 9, 12))
        posterior = SimpleNamespace(network=Network(1, 9, name))
        given = {"training_activations": other, "test_activations": phi, "kernel": np.cov(phi[0].T)}
        first[name] = SimpleNamespace(task=task, learned=SimpleNamespace(posterior=posterior, **given))
    found = runs.answers(first, num_neurons=3, num_images=4)
    own = coding.codes(first["sigmoidal"].learned.training_activations[0], labels)
    for name, rows, kernel in zip(first, found["activations"], found["kernels"], strict=True):
        phi = first[name].learned.test_activations[0]
        order = np.argsort(-np.square(phi).mean(1))
        order = coding.sort_by_code(own, phi) if name == "sigmoidal" else order
        taken = order[:3] if name == "relu" else order[[0, 4, 8]]
        np.testing.assert_array_equal(rows, phi[taken][:, [0, 3, 7, 11]])
        whole = first[name].learned.kernel[np.ix_([0, 3, 7, 11], [0, 3, 7, 11])]
        np.testing.assert_allclose(kernel / kernel[0, 0], whole / whole[0, 0])
    np.testing.assert_array_equal(found["labels"], [0, 0, 1, 2])


def test_each_kernel_stands_under_its_own_name():
    """The networks' in one row and theory's in the next, of each nonlinearity in turn."""
    first, scales = {}, iter((1.0, 2.0, 3.0))
    for name in ("linear", "sigmoidal", "relu"):
        power, labels = next(scales), np.array([0, 0, 1, 1])
        given = SimpleNamespace(kernel=np.arange(16.0).reshape(4, 4) ** power)
        theory = SimpleNamespace(kernel=np.arange(16.0)[::-1].reshape(4, 4) ** power)
        first[name] = SimpleNamespace(
            task=SimpleNamespace(held_out=(None, labels, None)), learned=given, theory=theory
        )
    found = runs.kernel_panels(first, num_images=2)
    whole = {f"{title}, samples": one.learned for title, one in zip(runs.TITLES, first.values())}
    whole |= {f"{title}, theory": one.theory for title, one in zip(runs.TITLES, first.values())}
    for title, kernel in zip(found["titles"], found["kernels"], strict=True):
        expected = whole[title].kernel[np.ix_([0, 3], [0, 3])]
        np.testing.assert_allclose(kernel / kernel.max(), expected / expected.max())
    assert found["labels"].tolist() == [0, 1]


def test_gains_split_the_error_into_mean_and_variance():
    """Outputs around a mean that is off by a known amount, with a known variance."""
    rng = np.random.default_rng(0)
    off, deviation = 0.4, 0.3
    noise = rng.standard_normal((40, 500, 4, 2))
    draw = answered(TARGETS + off + deviation * noise)
    gains = runs.gains(draw)
    assert gains.mean.value == pytest.approx((0.3 - off**2) / 0.5, abs=5 * gains.mean.error)
    assert gains.variance.value == pytest.approx((0.2 - deviation**2) / 0.5, abs=5 * gains.variance.error)
    assert gains.difference.value == pytest.approx(gains.mean.value - gains.variance.value)
    found = runs.saved(draw)
    assert found.value == pytest.approx((0.5 - draw.learned.error.value.mean()) / 0.2)
    assert runs.saved_in_theory(draw) == pytest.approx(2.0)


def test_errors_of_gains_are_those_of_many_repetitions():
    """Networks that differ among each other: the error of the mean's part is its scatter."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(200):
        own = TARGETS + 0.4 + 0.2 * rng.standard_normal((8, 1, 4, 2))
        found.append(runs.gains(answered(np.repeat(own, 3, axis=1))).mean)
    values, errors = np.transpose(found)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(values.std(), rel=0.25)


def test_what_is_explained_beyond_lazy_networks_is_of_test_images():
    """R² on training images, which stands first, does not enter; draws count by their networks."""
    ours = [np.array([[0.9, 0.5], [0.8, 0.7]]), np.array([[1.0, 0.6]])]
    lazy = [np.array([[0.1, 0.2], [0.7, 0.4]])]
    found = runs.explained_beyond(ours, lazy)
    assert found.value == pytest.approx(0.6 - 0.3)
    assert found.error == pytest.approx(np.hypot(0.1 / 3**0.5, 0.1))


def test_outliers_make_the_outputs_of_networks_whose_other_neurons_read_out_nothing():
    phi = np.full((2, 9, 4), 0.1)
    phi[:, 0, ::2] = phi[:, 1, 1::2] = 5.0
    readouts = np.zeros((2, 9, 2))
    readouts[:, 0, 0] = readouts[:, 1, 1] = 1.0
    draw = answered(np.zeros((2, 1, 4, 2)), test_activations=phi, readouts=readouts)
    assert runs.of_outliers(draw) == pytest.approx(1)
    assert runs.of_outliers(draw, others=True) == pytest.approx(0)


def test_kernel_formula_has_the_coefficient_one():
    """A kernel made by the formula, and one that has learned half of it."""
    rng = np.random.default_rng(2)
    readouts, f = rng.standard_normal((2, 50, 2)), rng.standard_normal((4, 2))
    covariance = np.einsum("nir,nis->rs", readouts, readouts) / 100
    change = f @ np.linalg.inv(covariance) @ f.T
    for factor in (1.0, 0.5):
        kernels = np.stack([np.eye(4) / 4 + factor * change] * 2)
        draw = answered(np.broadcast_to(f, (2, 3, 4, 2)), readouts=readouts, kernels=kernels)
        assert runs.kernel_formula(draw) == pytest.approx(factor)
        assert runs.kernel_formula(draw, power=2) != pytest.approx(factor, rel=0.05)


@pytest.mark.slow
def test_sampled_digits_agree_with_theory():
    """Linear networks from both starts: the error saved is that of theory at this width."""
    counts = {"num_chains": 2, "num_samples": 20, "num_warmup": 150, "thinning": 2}
    sizes = {"width": 60, "num_inputs": 30, "num_test": 100, "num_draws": 1, "seed": 0}
    (draw,) = runs.draws(jax.random.key(0), "linear", 0.01, **sizes, **counts)
    assert draw.learned.meeting.agree, draw.learned.meeting.verdict
    saved = runs.saved(draw)
    assert saved.value == pytest.approx(runs.saved_in_theory(draw), abs=5 * saved.error)
    assert runs.distance(draw.learned.predictor, draw.process.predictor) < 0.03
    assert runs.without_learning(jax.random.key(1), draw, 3).shape == (3, 2)
    assert runs.kernel_formula(draw) == pytest.approx(1, abs=0.1)
    assert [start.learned.outputs.shape for start in draw.starts] == [(2, 20, 100, 3)] * 2


def test_the_exponents_error_is_one_for_all_widths():
    """Spreads that come out small at the outer widths, on which alone a slope hangs, do not make it sure."""
    widths = np.array([25, 50, 100])
    errors = np.array([[0.01, 0.01, 0.01], [0.001, 0.01 * (3 - 0.02) ** 0.5, 0.001]]) / widths
    found = [
        runs.Variances(widths, Estimate(1 / widths, error), (), Estimate(1 / widths, error), [])
        for error in errors
    ]
    slopes = [each.exponent(each.learned) for each in found]
    assert [slope.value for slope in slopes] == pytest.approx([-1, -1])
    assert slopes[0].error == pytest.approx(0.01 / (2**0.5 * np.log(2)))
    assert slopes[1].error == pytest.approx(slopes[0].error)


@pytest.mark.parametrize(("strength", "expected"), [(0.01, 0), (10, 3)])
def test_theorys_outliers_stand_in_front_of_a_bulk_and_untrained_networks_have_none(strength, expected):
    """Three neurons, planted on a class each: outliers if they are stronger than twenty-two others."""
    labels = np.repeat([0, 1, 2], 20)
    planted = strength * np.eye(3)[:, labels]
    learned = np.full((2, 25, 60), 0.1)
    learned[:, 0, labels == 0] = learned[1, 4, labels == 2] = 5.0
    draw = SimpleNamespace(
        task=SimpleNamespace(held_out=(np.eye(60), labels, None)),
        theory=SimpleNamespace(solution=SimpleNamespace(preactivations_on=lambda _: planted)),
        learned=SimpleNamespace(
            test_activations=learned, posterior=SimpleNamespace(network=SimpleNamespace(width=25))
        ),
    )
    found = runs.outliers(draw, num_networks=6)
    assert found.sampled.tolist() == [1, 2]
    assert found.theory == expected
    assert found.untrained.tolist() == [0] * 6


def test_lazy_networks_on_the_first_draw_are_held_against_theory_on_the_same_one():
    """Half of the process's error is left by lazy networks: all of one theory's gain, half of the other's."""
    lazy = answered(np.broadcast_to(TARGETS + 0.5, (2, 3, 4, 2)))._replace(theory=predicted(0.4, 0.0))
    process = lazy._replace(process=predicted(0.3, 0.2))
    other = process._replace(learned=answered(np.zeros((2, 3, 4, 2))).learned)
    theories = {"linear": (0.25, 0.1), "relu": (0.0, 0.4, 0.2)}
    learned = {
        name: [other._replace(theory=predicted(error, 0.0)) for error in errors]
        for name, errors in theories.items()
    }
    found = runs.of_lazy(learned, {name: [process, other] for name in theories})
    np.testing.assert_allclose(found.value, np.repeat([1.0, 0.5], [2, 3])[:, None] * [1, 1])
    np.testing.assert_allclose(found.error, 0, atol=1e-12)


def test_gains_of_networks_and_of_theory_over_draws():
    """Networks off by ½ or by 0.6; the process's error is a half, or 0.8, three eighths of it variance."""
    first, second = (answered(np.broadcast_to(TARGETS + off, (2, 3, 4, 2))) for off in (0.5, 0.6))
    second = second._replace(process=predicted(0.5, 0.3), theory=predicted(0.2, 0.1))
    assert [runs.gain(each) for each in (first, second)] == pytest.approx([0.25, 0.44])
    assert [runs.gain_in_theory(each) for each in (first, second)] == pytest.approx([0.4, 0.5])
    found = runs.realized_on_average([first, second])
    assert found == pytest.approx((0.69 / 0.9, 0.045 / 0.45))
    assert runs.variance_share([first, second]) == pytest.approx((0.4 + 0.375) / 2)
    assert runs.saved_in_theory(second) == pytest.approx(0.5 / 0.3)


def test_images_are_right_by_the_mean_predictor_of_all_networks():
    """Three networks that say so outvote one that is sure of the other class, on one of four images."""
    outputs = np.stack([TARGETS, TARGETS, TARGETS, TARGETS])[:, None].copy()
    outputs[0, 0, 1], outputs[0, 0, 2] = [9, 0], [0.9, 1]
    found = runs.right(answered(outputs))
    assert found == pytest.approx((0.75, np.sqrt(0.75 * 0.25 / 4)))


def test_codes_are_compared_neuron_by_neuron(monkeypatch):
    code = np.tile(np.repeat(np.eye(2, dtype=bool), 2, axis=0), (3, 1, 1))  # (networks, N, C)
    other = code.copy()
    other[0, 0] = ~other[0, 0]
    monkeypatch.setattr(runs, "codes", lambda _: (code, other))
    assert runs.same_code(None).mean() == pytest.approx(11 / 12)


def test_responses_are_explained_by_more_than_in_other_networks_of_the_same_draw():
    """Differences draw by draw: draws that differ alike in both have no error."""
    learned = [np.array([[0.9, 0.8], [0.9, 0.6]]), np.array([[0.9, 0.4], [0.9, 0.2]])]
    assert runs.explained_more(learned, [each - 0.1 for each in learned]) == pytest.approx((0.1, 0))


def test_untrained_networks_that_answer_test_images_as_those_of_training_keep_their_codes(monkeypatch):
    """Two networks: one has the same codes on both, the other the opposite ones."""
    phi = np.array([[0.9, 0.1], [0.1, 0.9]])
    monkeypatch.setattr(runs, "_untrained", lambda *_: [(phi, phi), (phi, phi[::-1])])
    network = SimpleNamespace(phi=lambda z: 1 / (1 + np.exp(-z)))
    draw = SimpleNamespace(
        task=SimpleNamespace(labels=np.array([0, 1]), held_out=(None, np.array([0, 1]), None)),
        learned=SimpleNamespace(posterior=SimpleNamespace(network=network)),
    )
    assert runs.same_code_untrained(None, draw) == pytest.approx(0.5)


def test_outliers_are_counted_draw_by_draw():
    draws = [runs.Outliers(np.array([2, 4]), 1.0, np.zeros(5)), runs.Outliers(np.array([5]), 1.5, np.ones(5))]
    found = runs.counted(draws)
    assert found.number == pytest.approx((4, 1))
    assert found.beyond == pytest.approx((2.75, 0.75))
    assert runs.counted(draws, "untrained").number == pytest.approx((0.5, 0.5))
