"""Digits and patches of the adaptive kernels' chapter: kernels, choices and controls."""

from types import SimpleNamespace

import numpy as np
import pytest
from coding_schemes.tasks import Task
from coding_schemes.theory import features, gaussian_process
from experiments import adaptive_images


@pytest.fixture(scope="module")
def digits():
    """Ten images of two digits."""
    return adaptive_images.digits(10, 0)


def test_lazy_kernels_of_patches(digits):
    """One patch is the whole image; several are a mean over positions."""
    dense = features.dense(digits, "relu")
    whole = features.convolution(digits, "relu", adaptive_images.IMAGE, 28, 1)
    for tangent, exact in ((False, gaussian_process.prior_kernels), (True, gaussian_process.tangent_kernels)):
        expected = exact(digits.inputs, None, "relu", 1)[1]
        for each in (dense, whole):
            found = adaptive_images.lazy_kernels(each, digits.inputs, digits.inputs, "relu", tangent)
            np.testing.assert_allclose(found, expected, rtol=1e-9)
    patches = adaptive_images.convolution(digits, "linear")
    found = adaptive_images.lazy_kernels(patches, digits.inputs, digits.inputs, "linear", False)
    np.testing.assert_allclose(
        found, np.einsum("apr,aqr->pq", patches.root, patches.root) / len(patches.root), rtol=1e-9
    )


def test_settings_are_chosen_on_validation_images_and_judged_on_others(digits):
    targets = digits.test_targets
    good, bad = targets.copy(), targets + 1.0
    good[adaptive_images.NUM_VALIDATION :] += 2.0  # best where it is chosen, worst where it is judged
    assert adaptive_images.chosen(digits, [good, bad]) == pytest.approx(4.0)


def test_dense_kernels_do_not_see_the_order_of_pixels(digits):
    other = adaptive_images.permuted(digits, 1)
    loss, same = (adaptive_images.lazy_loss(each, "relu", True) for each in (digits, other))
    assert same == pytest.approx(loss)
    patches, mixed = (
        adaptive_images.lazy_loss(each, "relu", True, adaptive_images.convolution(each, "relu"))
        for each in (digits, other)
    )
    assert abs(patches - mixed) > 0.01


def test_lazy_targets_have_the_kernels_covariance(digits):
    test = digits.test_inputs[:, :50], digits.test_labels[:50], digits.test_targets[:50]
    task = Task(digits.inputs, digits.labels, digits.targets, *test)
    drawn = [adaptive_images.lazily_labeled(task, "erf", False, seed).targets[:, 0] for seed in range(400)]
    kernel = gaussian_process.prior_kernels(digits.inputs, None, "erf", 1)[1]
    assert np.corrcoef(np.cov(np.transpose(drawn)).ravel(), kernel.ravel())[0, 1] > 0.9


def test_gain_in_standard_errors():
    assert adaptive_images.gain(np.array([1.0, 3.0]), np.zeros(2)) == pytest.approx(2.0)


def test_what_is_not_solved_is_left_out_with_its_reason(monkeypatch):
    """A draw that fails is left out of the mean, the caption says so, and checks are at most "partly"."""
    monkeypatch.setattr(adaptive_images, "antk_loss", failing)
    monkeypatch.setattr(adaptive_images, "anbk_loss", lambda *_, **__: 0.1)
    settings = {"image_sizes": (6, 10), "draws": 3, "image_neurons": 8, "image_rounds": 2, "rest_neurons": 4}
    found = adaptive_images.losses(0, SimpleNamespace(**settings, image_decays=(0.1,), image_ridges=(0.1,)))
    assert np.isnan(found.losses["aNTK"][0, 1])
    assert np.isfinite(found.losses["NTK"]).all()
    assert found.gains("aNTK", "NTK").shape == (2,)
    for figure in (adaptive_images.over_images(found), adaptive_images.over_patches(found)):
        assert "Left out, as not solved: draws of aNTK, P = 6" in figure["caption"]
        k = figure["names"].index("aNTK")
        assert figure["values"][k][0] == pytest.approx(found.losses["aNTK"][0, [0, 2]].mean())
        assert np.isfinite(figure["errors"][k]).all()
    trouble = found.trouble("NTK", "aNTK")
    assert not trouble.converged
    assert trouble.verdict == "1 loss left out; aNTK, P = 6: not at rest"
    assert found.trouble("NTK", "NTK of patches") is None  # checks of what was solved stand


def failing(task, *_, **__):
    """Fails for the second draw of six images."""
    if task.num_inputs == 6 and np.allclose(task.inputs, adaptive_images.digits(6, 1).inputs):
        raise FloatingPointError("not at rest")
    return 0.5 + 0.01 * float(task.inputs.mean())
