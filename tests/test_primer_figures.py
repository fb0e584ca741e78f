"""The primer's figures: four neurons have one kernel, the landscape's peaks are the theories' readouts."""

import importlib.util

import numpy as np
import pytest
from coding_schemes import paths, tasks
from coding_schemes.theory import sigmoidal


def _module():
    path = paths.repository_root() / "book" / "primer_figures.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


landscape = _module()


@pytest.mark.parametrize("scheme", ["sparse", "redundant", "analog"])
def test_four_neurons_have_one_kernel_and_one_output(scheme):
    """And readouts of one length, so that neither kernel nor prior can tell the schemes apart."""
    activations, readouts = landscape.FOUR_NEURONS[scheme]
    np.testing.assert_allclose(activations.T @ activations / 4, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(readouts @ activations / 4, [1, -1], atol=1e-12)
    assert readouts @ readouts == pytest.approx(8)


@pytest.fixture(scope="module")
def found():
    return landscape.exponents(200, 0.05, np.linspace(-12, 12, 481))


def test_linear_is_the_gaussian_of_the_theory(found):
    """Curvature 1/(P U), U of the primer's worked example."""
    tau = 1.0
    for _ in range(200):
        tau = (np.sqrt(1 + 4 * (200 * (1 - 0.05 * tau)) ** 2) - 1) / (2 * 200 * (1 - 0.05 * tau))
    curvature = -np.diff(found["linear"], 2)[239] / 0.05**2
    assert curvature == pytest.approx(1 - tau**2, rel=1e-3)


def test_each_energy_is_drawn_over_its_readouts(found):
    grid = np.linspace(-12, 12, 481)
    for axis, energy in zip(landscape.draw(grid, found).axes, found.values(), strict=True):
        np.testing.assert_array_equal(axis.lines[0].get_xydata(), np.transpose([grid, energy]))


def test_sigmoidal_peaks_are_the_codes(found):
    task = tasks.toy(200, (0.5, 0.5), targets=[[1.0], [-1.0]])
    codes = np.sort(sigmoidal.solve(task, 0.05).readouts.ravel())
    a = np.linspace(-12, 12, 481)
    inner = found["sigmoidal"][1:-1]
    peaks = a[1:-1][(inner > found["sigmoidal"][:-2]) & (inner > found["sigmoidal"][2:])]
    np.testing.assert_allclose(peaks, codes, atol=0.06)


def test_relu_is_level_far_out(found):
    """|a| costs nothing beyond the bulk; silence on the other class costs log 2 on half of the inputs."""
    energy = found["relu"]
    assert energy.argmax() == 240
    far = energy[[0, 60, -61, -1]]
    np.testing.assert_allclose(far, far[0], atol=0.03)
    assert 2 * energy[0] - energy[120] == pytest.approx(-np.log(2) / 2, abs=0.005)  # nears it as 1/|a|
    assert energy[120] == pytest.approx(-0.3, abs=0.005)  # at the edge of the figure, a = -6


def test_three_networks_are_drawn_with_kernels_on_one_scale():
    rng = np.random.default_rng(0)
    labels = np.array([1, 0, 0, 1, 0])
    kernels = np.where(labels[:, None] == labels, 1.0, -1.0) * np.array([1.0, 2.0, 3.0])[:, None, None]
    neurons = rng.uniform(0.1, 1, (3, 4, 5))
    neurons[0] -= 0.5  # linear: signed
    drawn = landscape.draw_three_networks(kernels, neurons, labels).axes
    axes, bars = np.reshape(drawn[:6], (2, 3)), drawn[6:]
    assert [axis.images[0].get_clim() for axis in axes[0]] == [(-3, 3)] * 3
    for axis, kernel in zip(axes[0], kernels, strict=True):  # two blocks: inputs stand by class
        np.testing.assert_array_equal(axis.images[0].get_array()[:3, :3], kernel[1, 1])
    for axis, phi in zip(axes[1], neurons, strict=True):  # one bar names the colors of all three
        assert axis.images[0].get_clim() == (-1, 1)
        np.testing.assert_allclose(np.abs(axis.images[0].get_array()).max(), 1)
        assert (axis.images[0].get_array().min() < 0) == (phi.min() < 0)
    assert [[text.get_text() for text in bar.get_yticklabels()][1] for bar in bars] == ["average", "silent"]


def test_the_dual_is_convex_and_least_at_the_solution():
    fields = np.linspace(-8, 8, 161)
    height = landscape.dual(200, 0.05, fields)
    for axis in (0, 1):
        assert np.diff(height, 2, axis=axis).min() > 0
    least = fields[list(np.unravel_index(height.argmin(), height.shape))]
    solution = sigmoidal.solve(landscape.two_classes(200), 0.05)
    np.testing.assert_allclose(least, solution.dual_field[:, 0], atol=0.06)  # the grid's step is 0.1
