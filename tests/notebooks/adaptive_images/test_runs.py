"""Digits and patches of the adaptive kernels' chapter: kernels, choices and controls."""

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


def test_lazy_targets_have_the_kernels_covariance(digits):
    test = digits.test_inputs[:, :50], digits.test_labels[:50], digits.test_targets[:50]
    task = Task(digits.inputs, digits.labels, digits.targets, *test)
    drawn = [runs.lazily_labeled(task, "erf", False, seed).targets[:, 0] for seed in range(400)]
    kernel = gaussian_process.prior_kernels(digits.inputs, None, "erf", 1)[1]
    assert np.corrcoef(np.cov(np.transpose(drawn)).ravel(), kernel.ravel())[0, 1] > 0.9


def drawn(size, draw):
    """As many made-up inputs, with validation and test inputs of the numbers that chapters have."""
    rng = np.random.default_rng([size, draw])
    number = runs.NUM_VALIDATION + runs.NUM_TEST
    targets = np.ones((number, 1))
    own, new = rng.standard_normal((4, size)), rng.standard_normal((4, number))
    return Task(own, np.zeros(size, int), np.ones((size, 1)), new, np.zeros(number, int), targets)


def outputs(validation, test, ridges=2):
    """Outputs of errors² given by split, the second ridge worse on both."""

    def predictor(task, draw):
        for k in range(ridges):
            f = task.test_targets.copy()
            f[: runs.NUM_VALIDATION] += validation + k
            f[runs.NUM_VALIDATION :] += test(draw)
            yield f

    return predictor


def test_losses_are_judged_on_test_images_by_the_ridge_that_validation_chooses():
    def turned(task, draw):
        first, second = outputs(2.0, lambda d: 0.5)(task, draw)
        yield second  # the first ridge is the worse one on validation images
        first[runs.NUM_VALIDATION :] += 1.0
        yield first

    predictors = {"NTK": outputs(1.0, lambda draw: 1.0 + 0.1 * draw), "aNTK": turned}
    *_, found = runs.curves(drawn, predictors, (6, 10, 12), range(4), 6, {"aNTK": 10})
    assert found.draws == 4
    np.testing.assert_allclose(found.loss("NTK", True)[0], (1 + 0.1 * np.arange(4)) ** 2)
    np.testing.assert_allclose(found.loss("aNTK", False)[:2], 0.25)
    np.testing.assert_allclose(found.loss("aNTK", True)[:2], 2.25)
    assert found.known("NTK", "aNTK") == [6, 10]
    gain = found.gain("aNTK", "NTK", True, [10])
    each = 2.25 - (1 + 0.1 * np.arange(4)) ** 2
    np.testing.assert_allclose(gain.value, [each.mean()])
    np.testing.assert_allclose(gain.error, [each.std(ddof=1) / 2])
    assert np.isnan(found.mean("aNTK", True).value[2])


def test_stored_curves_of_natural_images_are_complete():
    """Both ends of every comparison are there in ten draws, up to the sizes that the job names."""
    found = runs.stored_curves()
    assert found.draws == 10
    assert found.control_size == pairs.CONTROL
    for name in ("random features", "NTK", "aNTK", "aNBK"):
        largest = pairs.LARGEST.get(name, max(pairs.SIZES))
        assert found.known(name) == sorted(size for size in pairs.SIZES if size <= largest)
        assert np.all(found.loss(name, True)[0] > 0.3)
