"""Digits and patches of the adaptive kernels' chapter: kernels, choices and controls."""

from types import SimpleNamespace

import numpy as np
import pytest
from adaptive_images import pairs, runs
from coding_schemes.tasks import Task
from coding_schemes.theory import features, gaussian_process


@pytest.fixture(scope="module")
def digits():
    """Ten images of two digits."""
    return runs.digits(10, 0)


def test_lazy_kernels_of_patches(digits):
    """One patch is the whole image; several are a mean over positions."""
    dense = features.dense(digits, "relu")
    whole = features.convolution(digits, "relu", runs.IMAGE, 28, 1)
    for tangent, exact in ((False, gaussian_process.prior_kernels), (True, gaussian_process.tangent_kernels)):
        expected = exact(digits.inputs, None, "relu", 1)[1]
        for each in (dense, whole):
            found = runs.lazy_kernels(each, digits.inputs, digits.inputs, "relu", tangent)
            np.testing.assert_allclose(found, expected, rtol=1e-9)
    patches = runs.convolution(digits, "linear")
    found = runs.lazy_kernels(patches, digits.inputs, digits.inputs, "linear", False)
    np.testing.assert_allclose(
        found, np.einsum("apr,aqr->pq", patches.root, patches.root) / len(patches.root), rtol=1e-9
    )


def test_dense_kernels_do_not_see_the_order_of_pixels(digits):
    other = runs.permuted(digits, 1)
    kinds = (lambda t: features.dense(t, "relu"), lambda t: runs.convolution(t, "relu"))
    (dense, same), (patches, mixed) = (
        [next(runs.lazy_outputs(each, kind(each), "relu", True, (0.1,))) for each in (digits, other)]
        for kind in kinds
    )
    np.testing.assert_allclose(same, dense)
    assert np.abs(patches - mixed).max() > 0.01


def test_no_predictor_beats_the_lazy_kernel_on_its_own_targets(digits):
    """Targets have the covariance of kernel and ridge, and other ridges lose."""
    test = digits.test_inputs[:, :50], digits.test_labels[:50], digits.test_targets[:50]
    task = Task(digits.inputs, digits.labels, digits.targets, *test)
    kernel = gaussian_process.prior_kernels(digits.inputs, None, "erf", 1)[1] + 0.3 * np.eye(10)
    drawn, losses = [], []
    for seed in range(400):
        labeled = runs.lazily_labeled(task, "erf", False, 0.3, seed)
        drawn.append(labeled.targets[:, 0])
        outputs = runs.lazy_outputs(labeled, features.dense(labeled, "erf"), "erf", False, (0.3, 0.03, 3.0))
        losses.append([np.mean((labeled.test_targets - each) ** 2) for each in outputs])
    found = np.cov(np.transpose(drawn))
    assert np.corrcoef(found.ravel(), kernel.ravel())[0, 1] > 0.9
    worse = np.transpose(losses)[1:] - np.transpose(losses)[0]
    assert np.all(worse.mean(1) > 5 * worse.std(1) / len(drawn) ** 0.5)


def drawn(size, draw):
    """As many made-up inputs, with validation and test inputs of the numbers that chapters have."""
    rng = np.random.default_rng([size, draw])
    number = runs.NUM_VALIDATION + runs.NUM_TEST
    targets = np.ones((number, 1))
    own, new = rng.standard_normal((4, size)), rng.standard_normal((4, number))
    return Task(own, np.zeros(size, int), np.ones((size, 1)), new, np.zeros(number, int), targets)


def test_controls_are_of_the_largest_task(monkeypatch):
    monkeypatch.setattr(runs, "digits", drawn)
    monkeypatch.setattr(runs, "dense_predictors", lambda *_: {})
    monkeypatch.setattr(runs, "without_features", lambda name, task, ridge, draw: task)
    monkeypatch.setattr(runs, "measured", lambda _, tasks, draws: np.array([t.num_inputs for t in tasks]))
    numbers = {"neurons": 1, "rounds": 1, "rest_neurons": 1}
    found = runs.digit_curves(0, sizes=(5, 8, 11), draws=2, ridges=(0.1,), **numbers)
    assert found.control_size == 11
    for name, errors in found.errors.items():
        assert errors[:, 0].tolist() == [5, 8, 11]
        assert found.controls[name].tolist() == [11, 11]


def off(*errors):
    """A predictor that is wrong by so much on validation and on test images, at ridge after ridge."""

    def predictor(task, draw):
        for validation, test in errors:
            wrong = np.where(np.arange(len(task.test_targets)) < runs.NUM_VALIDATION, validation, test)
            yield task.test_targets + wrong[:, None] * (1 + 0.1 * draw)

    return predictor


@pytest.fixture(scope="module")
def losses():
    """Two predictors at two ridges over P = 6, 10, of which the second is not known at all of them."""
    draws, sizes = range(6), (6, 10)
    predictors = {"NTK": off((2, 1), (1, 3)), "aNTK": off((1, 0.5), (2, 0.1))}
    errors = {
        name: np.array([runs.measured(each, [drawn(size, d) for d in draws], draws) for size in sizes])
        for name, each in predictors.items()
    }
    errors["aNTK"][1, :, :, 1] = np.nan
    errors["aNTK"][1, 0] = np.nan
    controls = {name: 4 * each[0] for name, each in errors.items()}
    return runs.Curves(np.array(sizes), np.array([1.0, 0.1]), errors, controls, 6)


GROWTH = (1 + 0.1 * np.arange(6)) ** 2  # of the losses over draws
PAIR = {"aNTK": "NTK"}


def test_losses_are_judged_on_test_images_by_the_ridge_that_validation_chooses(losses):
    assert losses.draws == 6
    np.testing.assert_allclose(losses.loss("NTK", 0)[0], GROWTH)
    np.testing.assert_allclose(losses.loss("NTK", None)[0], 9 * GROWTH)
    np.testing.assert_allclose(losses.loss("aNTK", None)[0], 0.25 * GROWTH)
    np.testing.assert_allclose(losses.over_ridges("NTK", 10).value, np.array([1, 9]) * GROWTH.mean())


def test_only_what_is_known_of_both_is_compared(losses):
    """At one ridge a missing draw is left out; a ridge of one's own needs them all."""
    assert losses.largest(PAIR, 0) == [10]
    assert losses.largest(PAIR, None) == [6]
    assert np.isnan(losses.mean("aNTK", None).value).tolist() == [False, True]
    assert not np.isnan(losses.mean("aNTK", 0).value).any()
    for size, part in ((6, slice(None)), (10, slice(1, None))):
        each = 0.75 * GROWTH[part]
        gain = losses.gains(PAIR, 0, [size])
        np.testing.assert_allclose(gain.value, [each.mean()])
        np.testing.assert_allclose(gain.error, [each.std(ddof=1) / len(each) ** 0.5])


def test_shares_of_the_loss_that_one_saves_of_the_other(losses):
    """A quarter of 9 is lost at P = 6, known at all ridges; errors add, as if draws were not the same."""
    share = losses.shares(PAIR, None)
    relative = GROWTH.std(ddof=1) / 6**0.5 / GROWTH.mean()
    np.testing.assert_allclose(share.value, [[1 - 0.25 / 9, np.nan]])
    np.testing.assert_allclose(share.error, [[0.25 / 9 * 2**0.5 * relative, np.nan]])


def test_gains_of_the_control(losses):
    np.testing.assert_allclose(losses.control_gains(PAIR, 0).value, [3 * GROWTH.mean()])
    np.testing.assert_allclose(losses.control_gains(PAIR, 0, both=False).value, [0])


def test_adaptive_kernels_are_left_out_beyond_their_largest_number_of_images(digits):
    largest = {"aNTK": {3.0: digits.num_inputs, 1.0: digits.num_inputs - 1}}
    predictors = runs.dense_predictors((3.0, 1.0), {}, {"num_neurons": 4}, largest)
    first, second = predictors["aNTK"](digits, 0)
    assert np.all(np.isfinite(first))
    assert np.all(np.isnan(second))
    assert len(list(predictors["NTK"](digits, 0))) == 2 + len(runs.RIDGES)


def test_stored_curves_of_natural_images_are_complete():
    """Every predictor is there in all draws at the shared ridge, but for the aNBK of the most images."""
    found = runs.stored_curves()
    assert found.draws == pairs.NUM_DRAWS
    assert found.control_size == pairs.CONTROL
    assert (*found.ridges,) == pairs.RIDGES
    assert (*found.sizes,) == pairs.SIZES
    for name in ("random features", "NTK", "aNTK", "aNBK"):
        losses = found.loss(name, 0)[: len(pairs.SIZES) - (name == "aNBK")]
        assert np.all((losses > 0.3) & (losses < 1.1))


def test_curves_that_were_broken_off_go_on_with_the_next_draw(tmp_path, monkeypatch):
    """Controls have targets of the lazy kernel at the ridge that all share."""
    made, output = [], tmp_path / "curves.npz"

    def measured(predictor, tasks, draws):
        ((size, *altered),) = tasks
        made.append((predictor, size, *draws, *altered))
        if len(made) == 6:
            raise KeyboardInterrupt
        return np.full((1, 2, 3), 10 * size + draws[0] + 500 * bool(altered))

    names = {"SIZES": (6, 10), "CONTROL": 10, "NUM_DRAWS": 2, "RIDGES": (10.0, 3.0, 1.0)}
    given = {"dense_predictors": lambda *_: {"NTK": "n", "aNBK": "b"}, "measured": measured}
    given["without_features"] = lambda name, task, ridge, draw: (*task, name, ridge, draw)
    for module, values in ((pairs, names | {"pair": lambda size, draw, number: (size,)}), (runs, given)):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(runs.paths, "located", lambda _: output)
    monkeypatch.setattr("sys.argv", ["pairs", "--output", str(output)])
    with pytest.raises(KeyboardInterrupt):
        pairs.main()
    pairs.main()
    expected = [(name, 6, draw) for name in "nb" for draw in (0, 1)]
    for name, kind in (("NTK", "n"), ("aNBK", "b")):
        expected += [(kind, 10, draw) for draw in (0, 1)]
        expected += [(kind, 10, draw, name, 10.0, draw) for draw in (0, 1)]
    assert made == [*expected[:6], *expected[5:]]
    found = runs.stored_curves()
    for name in ("NTK", "aNBK"):
        np.testing.assert_array_equal(found.loss(name, 0), [[60, 61], [100, 101]])
        np.testing.assert_array_equal(found.loss(name, 0, control=True), [600, 601])


def test_controls_have_another_order_of_pixels_or_targets_of_the_lazy_kernel(monkeypatch):
    monkeypatch.setattr(runs, "permuted", lambda *given: given)
    monkeypatch.setattr(runs, "lazily_labeled", lambda *given: given)
    for name in ("NTK of patches", "aNTK of patches"):
        assert runs.without_features(name, "t", 0.3, 5) == ("t", 5)
    for name, *kernel in (("NTK", "relu", True), ("aNTK", "relu", True), ("aNBK", "erf", False)):
        assert runs.without_features(name, "t", 0.3, 5) == ("t", *kernel, 0.3, 5)


def test_networks_at_rest_are_asked_at_half_the_ridge_and_may_not_come_to_rest(digits, monkeypatch):
    """Regression with a network's own kernel has the ridge 2 λ."""

    def solved(solve, task, phi, richness, decay, **_):
        if decay > 1:
            raise FloatingPointError
        return SimpleNamespace(test_outputs=np.array([np.zeros((560, 1)), np.full((560, 1), decay)]))

    monkeypatch.setattr(runs, "solved", solved)
    assert np.all(runs.rest_outputs(digits, None, 0.5, 0) == 0.25)
    assert np.all(np.isnan(runs.rest_outputs(digits, None, 3.0, 0)))
