"""What the chapter on analog schemes measures, on cases that are known exactly."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from analog import runs
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import linear, wishart_chain
from companion.findings import Estimate


def test_gaussian_readouts_pass_and_two_peaks_of_the_same_covariance_do_not():
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.4], [0.4, 0.5]])
    root = np.linalg.cholesky(covariance)
    found = [runs.gaussian_pvalue(rng.standard_normal((4, 50, 2)) @ root.T, covariance) for _ in range(500)]
    assert np.mean(np.array(found) < 0.1) == pytest.approx(0.1, abs=0.04)
    two_peaks = rng.choice([-1.0, 1.0], (4, 50, 2)) @ root.T
    assert runs.gaussian_pvalue(two_peaks, covariance) < 1e-6


def test_regression_of_neurons_drawn_from_theory():
    """Slopes and residual covariance are unbiased at any width."""
    task, rng = tasks.toy(20, y_minus=0.0), np.random.default_rng(1)
    theory = linear.solve(task, 1, 0.05)
    drawn = [theory.draw(rng, task.labels, 25)[:2] for _ in range(400)]
    z, readouts = (np.stack(each)[None] for each in zip(*drawn, strict=True))
    run = SimpleNamespace(readouts=readouts, preactivations=(z,), task=task)
    found = runs.regress(run)
    cases = [
        (found.slopes, runs.class_slopes(theory.feature_slopes, task.labels)),
        (found.residual_covariance, np.append(np.eye(3)[np.triu_indices(3)], 1.0)),
    ]
    for series, expected in cases:
        error = series.std(1)[0] / 20
        assert np.all(np.abs(series.mean((0, 1)) - expected) < 4.5 * error)
    assert found.raw_covariance.mean((0, 1))[0] > 5  # the class's own variance grows by learning
    rest = z[..., task.labels == 0] @ [1, -1, *[0] * 8]  # of a class, at right angles to its mean
    others = found.raw_covariance[..., -1]  # over all 17 such directions, of 25 neurons
    assert others.mean() == pytest.approx(np.square(rest).mean() / 2, rel=0.05)


def test_exponents_of_exact_and_of_noisy_laws():
    sizes = np.array([30, 60, 120, 240])
    law = np.stack([3.0 * sizes**0.5, 2.0 * sizes**-0.25], axis=1)
    found, x = runs.exponent(sizes, Estimate(law, 0.01 * law)), np.log(sizes)
    assert found.value == pytest.approx([0.5, -0.25])
    assert found.error == pytest.approx(0.01 / (len(x) ** 0.5 * x.std()))
    rng = np.random.default_rng(2)
    noisy = law[..., None] * np.exp(0.02 * rng.standard_normal((*law.shape, 300)))
    found = runs.exponent(sizes, Estimate(noisy, 0.02 * noisy))
    scores = (found.value - np.array([[0.5], [-0.25]])) / found.error
    assert 0.75 < scores.std() < 1.0  # the larger of two errors: somewhat too wide, never too narrow


def test_scatter_about_a_law_widens_the_error():
    sizes = np.array([30, 60, 120, 240])
    bent = sizes**0.5 * np.array([1.0, 1.2, 1.2, 1.0])
    assert runs.exponent(sizes, Estimate(bent, 1e-6 * bent)).error > 0.05


def test_weights_of_every_layer_give_the_outputs_and_their_overlaps_the_prior():
    task = tasks.toy(10, y_minus=0.0)
    posterior = Posterior(task, Network(3, 40, "linear"), 0.1)
    weights = jax.vmap(posterior.prior)(jax.random.split(jax.random.key(0), 300))
    z = jax.vmap(posterior.preactivations)(weights)
    readouts = np.asarray(weights.readout) * posterior.readout_variance**0.5
    samples = SimpleNamespace(weights=jax.tree.map(lambda w: np.asarray(w)[:, None], weights))
    found = runs.overlaps(SimpleNamespace(samples=samples, readouts=readouts[:, None]))[:, 0]
    assert found.shape == (300, 3, 3, 3)
    back = readouts
    for layer in (2, 1, 0):
        outputs = np.asarray(np.swapaxes(z[layer], 1, 2) @ back / 40)
        np.testing.assert_allclose(outputs, np.swapaxes(z[-1], 1, 2) @ readouts / 40, atol=1e-5)
        assert found[:, layer] == pytest.approx(np.swapaxes(back, 1, 2) @ back / 40, rel=1e-4, abs=1e-6)
        if layer:
            back = np.swapaxes(np.asarray(weights.hidden[layer - 1]), 1, 2) @ back / 40**0.5
    diagonal = runs.along(found, np.eye(3)).mean(-1)
    error = diagonal.std(0) / 300**0.5
    assert np.all(np.abs(diagonal.mean(0) - posterior.readout_variance) < 4 * error)


def test_the_exact_chain_is_a_staircase_in_wide_networks():
    task = tasks.toy(12, y_minus=0.0)
    exact = wishart_chain.solve(task, 3, 0.05, 400).grams
    steps = runs.along(exact, np.eye(3))[::-1]
    ratios = steps / np.vstack([np.full(3, 12 ** (-1 / 3)), steps[:-1]])
    assert ratios == pytest.approx(np.broadcast_to(ratios[0], ratios.shape), rel=0.03)
    assert ratios[0].min() > 1.5


@pytest.mark.parametrize(("y_minus", "rank"), [(0.0, 3), (-0.5, 2)])
def test_theory_learns_as_many_directions_as_targets_have(y_minus, rank):
    task = tasks.toy(24, y_minus=y_minus)
    posterior = Posterior(task, Network(3, 24, "linear"), 0.2)
    run = SimpleNamespace(task=task, posterior=posterior, samples=SimpleNamespace(temperature=0.2))
    theory = wishart_chain.solve(task, 3, 0.2, 24)
    learned, none = (
        runs.over_smallest(kernels, run) for kernels in (theory.kernels[1:], [task.input_kernel] * 3)
    )
    assert np.sum(learned > 0.5, axis=-1).tolist() == [rank] * 3
    assert np.sum(none > 0.5, axis=-1).tolist() == [0] * 3


@pytest.mark.parametrize(
    ("nonlinearity", "depth", "factor"), [("linear", 2, 10), ("relu", 3, 20), ("sigmoidal", 2, 1)]
)
def test_norms_are_held_against_exact_ones_at_the_temperature_that_was_sampled(
    nonlinearity, depth, factor, monkeypatch
):
    """Deeper networks are warmer, unless they are sigmoidal; two starts of half the networks each."""
    at, solved = [], []

    def sample(posterior, _, num_samples, *, num_chains, anneal_from=None, **__):
        at.append((posterior.network.width, float(posterior.temperature)))
        if anneal_from is not None:
            at.append((posterior.network.width, anneal_from))
        shape = num_chains, num_samples, posterior.network.width, 3
        return SimpleNamespace(readouts=np.full(shape, 1.0 if anneal_from is None else 2.0))

    def solve(_, depth, temperature, width, variance):
        solved.append((depth, width, temperature, variance))
        return SimpleNamespace(readout_covariance=width * np.eye(3))

    monkeypatch.setattr(runs, "sample", sample)
    monkeypatch.setattr(runs, "compare_ends", lambda *_: SimpleNamespace(agree=True, verdict=""))
    monkeypatch.setattr(runs, "wishart_chain", SimpleNamespace(solve=solve))
    counts = {"num_networks": 4, "num_samples": 4, "num_warmup": 1}
    key, sizes, temperature = jax.random.key(0), (4, 8), 0.01 * factor
    found = runs.norms(key, nonlinearity, depth, 0.01, readout_variance=0.5, sizes=sizes, **counts)
    assert [width for width, _ in at] == [4] * 3 + [8] * 3
    assert [reached for _, reached in at] == pytest.approx([temperature] * 6)
    assert runs.exact_norms(found, depth, 0.5) == pytest.approx([12, 24])
    assert solved == [(depth, size, pytest.approx(temperature), 0.5) for size in sizes]
    assert [each.value.tolist() for each in found.by_start] == [[3, 3], [12, 12]]
    assert found.mean.value.tolist() == [7.5, 7.5]
    assert found.readouts.shape == (4, 8, 3)


def test_sizes_of_a_run_count_its_networks():
    """Not its samples, of which there are seven, and of a run over sizes those of one size."""

    def run(size):
        return SimpleNamespace(
            task=SimpleNamespace(num_inputs=size),
            posterior=SimpleNamespace(network=Network(2, size, "linear")),
            samples=SimpleNamespace(temperature=0.1),
            readouts=np.zeros((4, 7, size, 3)),
        )

    shared = {"L": 2, "T": 0.1, "chains": 4}
    assert runs.size(run(9)) == shared | {"N": 9, "P": 9}
    assert runs.size([run(9), run(12)], R=1) == shared | {"N": [9, 12], "P": [9, 12], "R": 1}


def test_strengths_of_layers_are_along_class_0_and_grow_as_their_entries_do(monkeypatch):
    """Kernels of ones and of tens, twice as large at the saddle point; z is one, and more on class 0."""

    def kernels(factor):
        def solve(task, depth, temperature, variance=None, *others, width=None):
            assert (depth, temperature, width or variance) == (2, 0.1, task.num_inputs)
            ones = np.ones((task.num_inputs, task.num_inputs))
            return SimpleNamespace(kernels=factor * np.array([7, 1, 10])[:, None, None] * ones)

        return SimpleNamespace(solve=solve)

    given = []
    monkeypatch.setattr(runs, "wishart_chain", kernels(1))
    monkeypatch.setattr(runs, "linear", kernels(2))
    for size in (8, 16, 32):
        task = tasks.toy(size, y_minus=0.0)
        e = (task.labels == 0) / task.class_counts[0] ** 0.5
        z = np.broadcast_to(1 + 2 * e, (2, 4, 6, size))
        posterior = SimpleNamespace(network=Network(2, size, "linear"))
        samples = SimpleNamespace(temperature=0.1)
        given.append(
            SimpleNamespace(task=task, preactivations=(z, 2 * z), posterior=posterior, samples=samples)
        )
    found = runs.grown(given)
    counts = np.array([run.task.class_counts[0] for run in given])[:, None]
    np.testing.assert_allclose(found.scan.mean, np.square((counts**0.5 + 2) * [1, 2]))
    for rows, factor in ((found.exact, 1), (found.saddle, 2)):
        np.testing.assert_allclose(rows, factor * counts * [1, 10])
    law = 1 + counts * counts ** np.array([0.5, -0.25])
    np.testing.assert_allclose(found.exponents_of(law), [0.5, -0.25])
    sampled = runs.Grown(runs.Scan(given, law, 0.1 * (law - 1)), law, law).exponents
    np.testing.assert_allclose(sampled.value, [0.5, -0.25])
    np.testing.assert_allclose(sampled.error, 0.1 / (2**0.5 * np.log(2)))
