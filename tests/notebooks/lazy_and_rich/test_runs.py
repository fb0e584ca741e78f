"""What the chapter on lazy and rich networks measures, on cases that are known exactly."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import linear
from companion.findings import Estimate
from companion.workbench import untrained
from lazy_and_rich import runs


def test_a_product_of_averages_and_its_error():
    """The series has the product as its mean, and the product's scatter over repetitions as its error."""
    rng, products, errors = np.random.default_rng(0), [], []
    for _ in range(300):
        x = 2 + rng.standard_normal((4, 50))
        y = 5 + 0.5 * x + rng.standard_normal((4, 50))
        series = runs.of_averages((x, 2), (y, -0.5))
        assert series.mean() == pytest.approx(x.mean() ** 2 / y.mean() ** 0.5)
        products.append(series.mean())
        errors.append(series.std() / series.size**0.5)  # all draws are independent
    assert np.mean(np.square(errors)) == pytest.approx(np.var(products), rel=0.25)


def test_the_learned_entry_is_what_a_pair_gains():
    task = runs.binary_task(6, 0)
    gained = 0.3 * task.targets @ task.targets.T
    assert runs.learned_entry(task.input_kernel + gained, task, "linear") == pytest.approx(0.3)


def test_over_widths_are_cosine_and_learned_entry_of_activations_in_this_order():
    """Of rectified networks, whose prior kernel is that of arc cosines."""
    rng, drawn, expected = np.random.default_rng(4), [], []
    for width in (4, 6):
        task, z = runs.binary_task(width, 0), rng.standard_normal((1, 5, 30, width))
        readouts, phi, y = rng.standard_normal((1, 5, 30, 1)), np.maximum(z, 0), task.targets[:, 0]
        samples = SimpleNamespace(activations=lambda phi=phi: phi)
        posterior = SimpleNamespace(network=Network(1, 30, "relu"))
        drawn.append(SimpleNamespace(task=task, readouts=readouts, samples=samples, posterior=posterior))
        drawn[-1].preactivations = (z,)
        overlap = np.mean([y @ f.T @ a[:, 0] / width for f, a in zip(phi[0], readouts[0])])
        lengths = np.square(phi).sum(2).mean() * np.square(readouts).sum(2).mean()
        angle = np.arccos(task.input_kernel.clip(-1, 1))
        prior = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
        change = np.outer(y, y) * (np.mean([f.T @ f / 30 for f in phi[0]], axis=0) - prior)
        expected.append([overlap / lengths**0.5, (change.sum() - np.trace(change)) / (width * (width - 1))])
    found = runs.over_widths(drawn)
    np.testing.assert_allclose(found.mean, expected, atol=1e-9)
    assert found.sizes.tolist() == [4, 6]


@pytest.mark.parametrize(("scaling", "power"), [("lazy", -0.5), ("non-lazy", 0.0)])
def test_cosine_of_linear_networks_in_theory_and_of_neurons_drawn_from_it(scaling, power):
    sizes = (50, 100)
    exact = runs.linear_theory(sizes, scaling, 0.01, 0)
    assert np.log(exact[1] / exact[0])[0] / np.log(2) == pytest.approx(power, abs=0.01)
    task = runs.binary_task(100, 0)
    hot, variance = (1.0, 100.0) if scaling == "lazy" else (0.01, None)
    saddle = linear.solve(task, 1, hot, variance, width=100)
    assert exact[1, 1] == pytest.approx(runs.learned_entry(saddle.kernels[1], task, "linear"), rel=0.02)
    if scaling == "lazy":  # independent neurons miss the outputs by as much as they have
        return
    rng = np.random.default_rng(1)
    z, a, _ = (
        np.stack(each) for each in zip(*(saddle.draw(rng, task.labels, 400) for _ in range(40)), strict=True)
    )
    run = SimpleNamespace(task=task, readouts=a[None], samples=SimpleNamespace(activations=lambda: z[None]))
    mean, error = statistics.mean_and_error(runs.cosine(run))
    assert abs(mean - exact[1, 0]) < 4 * error + 0.01


def test_sizes_tell_the_number_of_inputs_and_not_their_dimension():
    task = tasks.own(np.random.default_rng(0).standard_normal((7, 4)), np.array([0, 0, 1, 1]))
    run = SimpleNamespace(posterior=Posterior(task, Network(1, 5), 0.5), task=task)
    assert runs.size(run) == {"N": 5, "P": 4, "T": 0.5}
    assert runs.size(run, networks=8, L=2) == {"N": 5, "P": 4, "T": 0.5, "networks": 8, "L": 2}


def test_exponents_with_scatter_and_samples_together():
    """Of an exact law what its points' errors propagate to is all; scatter about it comes in squares."""
    sizes, rng = np.array([50, 100, 200, 400]), np.random.default_rng(8)
    truth = 2 * sizes[:, None] ** -0.5
    errors = truth * np.array([0.01, 0.02, 0.03, 0.04])[:, None]
    exact = runs.exponents(sizes, Estimate(truth, errors))
    assert exact.value == pytest.approx([-0.5])
    noisy = truth + errors * rng.standard_normal((4, 400))
    found = runs.exponents(sizes, Estimate(noisy, np.broadcast_to(errors, noisy.shape)))
    assert exact.error[0] == pytest.approx(found.value.std(), rel=0.15)
    scatter = np.array([statistics.fit_power_law(sizes, column).standard_error for column in noisy.T])
    assert np.all(found.error > scatter)
    assert np.all(found.error < scatter + 2 * exact.error)


@pytest.mark.parametrize("gain", [1.0, 50.0])
def test_share_of_the_neurons_that_carry_what_was_learned(gain):
    """Gaussian differences of (1 + κ) times the prior's variance: κ²/(3κ² + 4κ + 2), 1/9 at κ = 1."""
    task, network = runs.binary_task(20, 0), Network(1, 500, "linear")
    rng = np.random.default_rng(2)
    phi = rng.standard_normal((2, 200, 500, 20))
    sign = np.where(task.labels == 0, 1.0, -1.0) / np.sqrt(20)
    phi += (np.sqrt(1 + gain) - 1) * (phi @ sign)[..., None] * sign
    mean, error = statistics.mean_and_error(runs.carriers(task, network, phi))
    assert abs(mean - gain**2 / (3 * gain**2 + 4 * gain + 2)) < 4 * error


def test_share_of_two_neurons_and_of_all():
    task, network = runs.binary_task(20, 0), Network(1, 50, "linear")
    sign = np.where(task.labels == 0, 1.0, -1.0)
    one = np.zeros((1, 4, 50, 20))
    one[:, :, :2] = 100 * sign
    assert runs.carriers(task, network, one).mean() == pytest.approx(2 / 50, rel=0.01)
    assert runs.carriers(task, network, np.broadcast_to(100 * sign, one.shape)).mean() == pytest.approx(1)


def test_a_quarter_turn_is_orthogonal_and_squares_to_minus_one():
    vectors = np.random.default_rng(0).normal(size=(8, 3))
    turned = runs.quarter_turn(vectors, 1)
    np.testing.assert_allclose(turned.T @ turned, vectors.T @ vectors, atol=1e-12)
    np.testing.assert_allclose(np.sum(turned * vectors, axis=0), 0, atol=1e-12)  # v · Jv, J antisymmetric
    np.testing.assert_allclose(runs.quarter_turn(turned, 1), -vectors, atol=1e-12)


def test_an_odd_number_of_neurons_gets_a_silent_one():
    vectors = np.ones((3, 2))
    with pytest.raises(ValueError, match="3 neurons"):
        runs.quarter_turn(vectors, 0)
    np.testing.assert_array_equal(runs.even(vectors), [[1, 1], [1, 1], [1, 1], [0, 0]])
    assert runs.even(np.ones((4, 2))).shape == (4, 2)


def test_the_neurons_that_tell_classes_apart_best_are_shown():
    labels = np.array([0, 0, 1, 1])
    phi = np.random.default_rng(3).normal(size=(30, 4)) * 0.01
    phi[7] += [3, 3, 0, 0]
    phi[11] += [0, 0, 3, 3]
    shown = runs.telling_neurons(phi, labels, 8)
    assert (shown[0], shown[-1], len(set(shown))) == (7, 11, 8)
    assert len(runs.telling_neurons(phi[:6], labels, 40)) == 6


def test_frame_of_sampled_means_and_of_a_kernel():
    """Means at the corners of a triangle with a given Gram matrix, with noise on every input."""
    labels, rng = np.repeat([0, 1, 2], [20, 10, 10]), np.random.default_rng(4)
    corners = np.array([[2.0, 0], [-1, 0.5], [-1, -1.5]])
    phi = rng.standard_normal((8, 30, 200, 40))
    phi[:, :, :2] += 10 * corners.T[:, labels]
    half = SimpleNamespace(activations=lambda: phi[:4]), SimpleNamespace(activations=lambda: phi[4:])
    found = runs.frame(SimpleNamespace(halves=half, task=SimpleNamespace(labels=labels)))
    centered = corners - corners.mean(0)
    lengths = np.linalg.norm(centered, axis=1)
    expected = (centered @ centered.T / np.outer(lengths, lengths))[np.triu_indices(3, 1)]
    assert np.all(np.abs(found.value - expected) < 4 * found.error)
    assert np.all(found.error < 0.02)
    phi[:, :, :2] += 90 * corners.T[:, labels]  # noise of the means is no part of the lengths then
    assert runs.noisy_frame(phi[:, 0], labels) == pytest.approx(expected, abs=0.005)
    kernel = (corners @ corners.T)[np.ix_(labels, labels)] + np.diag(rng.random(40))
    assert runs.kernel_cosines(kernel, labels) == pytest.approx(expected)


def test_untrained_networks_have_no_frame():
    posterior = Posterior(tasks.toy(30), Network(1, 200, "sigmoidal"), 0.1)
    (phi,) = untrained(jax.random.split(jax.random.key(0), 64), posterior)
    assert np.abs(runs.noisy_frame(phi, posterior.task.labels)).max() < 0.1


def test_variance_within_classes_is_unbiased():
    rng, labels = np.random.default_rng(5), np.repeat([0, 1], [3, 5])
    phi = rng.standard_normal((2000, 4, 8)) * np.where(labels == 0, 1.0, 2.0) + rng.standard_normal((4, 1))
    assert runs.within_class(phi, labels).mean(0) == pytest.approx([1, 4], rel=0.05)


def test_training_begins_at_the_prior_and_ends_where_it_should():
    task = tasks.toy(12, y_minus=0.0)
    options = {"num_networks": 3, "learning_rate": 0.05, "num_records": 4}
    found = runs.trained(jax.random.key(0), task, 2, num_neurons=60, decay_times=2.0, **options)
    assert found.within.shape == (3, 5, 2, 3)
    assert found.times[-1] == pytest.approx(2.0)
    assert found.within[:, 0, 0].mean() == pytest.approx(0.1046, rel=0.15)
    assert np.all(found.loss[:, -1] < 1e-3)
    assert np.all(found.within[:, -1].mean(0) < 0.5 * found.within[:, 0].mean(0))


def test_kernels_that_learned_the_same_align_whatever_the_prior_and_the_mean():
    """Of P = 6 inputs with kernels that are the prior's and what is learned; every fourth sample is taken."""
    task, (y, v) = runs.binary_task(6, 0), np.array([[1.0, -1, 1, -1, 1, -1], [2, 1, 0, -1, 0, 1]])

    def learned(change):
        phi = np.sqrt(6) * np.linalg.cholesky(task.input_kernel + change).T
        phi = np.concatenate([phi[None], np.broadcast_to(np.eye(6), (3, 6, 6))])[None].repeat(2, 0)
        posterior = Posterior(task, Network(1, 6, "linear"), 0.1)
        return SimpleNamespace(
            task=task, posterior=posterior, samples=SimpleNamespace(activations=lambda: phi)
        )

    rows = v[:, None] + v + 20
    cases = {"a": 0.5 * np.outer(y, y), "b": 3 * np.outer(y, y) + rows, "c": np.outer(v, v)}
    found = runs.alignments({name: learned(change) for name, change in cases.items()})
    centered = v - v.mean()
    cosine = (y @ centered) ** 2 / (y @ y) / (centered @ centered)
    np.testing.assert_allclose(found, np.broadcast_to([1, cosine, cosine], (2, 1, 3)), atol=1e-6)


def test_variance_within_classes_at_infinite_width_is_over_networks_of_both_starts(monkeypatch):
    """Two networks of either start, 3 + 2/N in the first class and none in the second, up to their own."""
    task, keys = tasks.toy(4, (0.5, 0.5), targets=[[1.0], [-1.0]]), []
    own = np.array([-0.3, 0.1, 0.5, -0.3])  # of networks

    def both_starts(key, task, scheme, width, temperature, **how):
        keys.append(jax.random.key_data(key).tolist())
        half_variance = (3 + 2 / width + own[:, None] + [-1, 1]) / 2  # (networks, samples)
        phi = np.sqrt(half_variance)[..., None, None] * np.array([1, -1, 0, 0]) + 5.0
        phi = np.broadcast_to(phi, (4, 2, width, 4))
        halves = [SimpleNamespace(activations=lambda layer, h=half: h) for half in np.split(phi, 2)]
        posterior = SimpleNamespace(network=Network(1, width, scheme))
        return SimpleNamespace(posterior=posterior, task=task, halves=halves)

    monkeypatch.setattr(runs, "both_starts", both_starts)
    monkeypatch.setattr(runs, "extrapolated", lambda widths, found: (widths, found))
    found = runs.at_large_width(jax.random.key(0), task, (10, 20), 0.1)
    assert keys[0] != keys[1]
    assert found.limit == ((10, 20), found.at_widths)
    np.testing.assert_allclose([each.value for each in found.at_widths], [[3.2, 0], [3.1, 0]], atol=1e-9)
    np.testing.assert_allclose(found.at_widths[0].error, [own.std(ddof=1) / 2, 0], atol=1e-9)
