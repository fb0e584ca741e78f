"""Measures of the adaptive kernels' chapter, on kernels and networks whose values are known."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from adaptive_kernels import runs
from coding_schemes.networks import Network
from coding_schemes.theory import adaptive_kernel
from companion.findings import Estimate
from companion.workbench import Equilibrium


def test_entries_and_alignment_of_a_block_kernel():
    task = runs.two_classes(6)
    y = task.targets[:, 0]
    kernel = 2 * np.eye(6) + 0.5 * np.outer(y, y) + 0.1
    np.testing.assert_allclose(runs.entries(np.stack([kernel] * 2), task.labels), [[0.6, -0.4]] * 2)
    assert runs.alignment(np.outer(y, y), task.targets) == pytest.approx(1)
    assert runs.alignment(np.eye(6), task.targets) == pytest.approx(6**-0.5)
    assert runs.overlaps(kernel, task) == pytest.approx(2 + 0.5 * 6)


def test_alignments_with_classes_of_different_size():
    """The kernel of the targets is aligned as it is; across are the directions of any basis of the rest."""
    task, rng = runs.white_task((1.0, 1.0, 1.0, -1.0)), np.random.default_rng(0)
    y = task.targets[:, 0]
    assert runs.alignment(np.outer(y, y), task.targets) == pytest.approx(1)
    assert runs.overlaps(np.outer(y, y), task) == pytest.approx(4)
    phi = rng.standard_normal((6, 4)) + 1
    basis = np.linalg.qr(np.column_stack([y, rng.standard_normal((4, 3))]))[0][:, 1:]
    each = [runs.alignment(phi.T @ phi, direction[:, None]) for direction in basis.T]
    assert runs.alignment_across(phi.T @ phi, task.targets) == pytest.approx(np.mean(each))


def test_stored_networks_are_in_equilibrium_where_they_converged():
    stored = {"converged": np.array([True, False]), "verdicts": np.array(["meet", "differ"])}
    assert runs.stored_sampler(stored) == [Equilibrium(True, "meet"), Equilibrium(False, "differ")]


def test_teacher_labels_inputs_by_their_side():
    task = runs.teacher_task(40, 10, 30, seed=1)
    direction = np.linalg.lstsq(task.inputs.T, task.targets[:, 0], rcond=None)[0]
    assert np.mean(np.sign(direction @ task.inputs) == task.targets[:, 0]) > 0.9
    assert np.mean(np.sign(direction @ task.test_inputs) == task.test_targets[:, 0]) > 0.7
    assert np.all(np.diff(task.labels) >= 0)


def test_shape_of_a_linear_network_is_gaussian():
    task = runs.two_classes(4)
    solution = adaptive_kernel.solve(
        task, Network(1, 1, "linear"), 0.2, 0.1, method="population", num_neurons=512, num_rounds=100
    )
    second, shape = runs.predicted_shape(solution)
    assert second == pytest.approx(np.trace(solution.kernels[1]) / 4, rel=0.05)
    assert shape == pytest.approx((2 / np.pi) ** 0.5, rel=0.02)


def test_theorys_density_weighs_its_neurons_and_both_are_of_class_0():
    """Three quarters of the weight lie below 0, on two of three neurons; samples are even on −1 … 1."""
    task, (low, high) = runs.two_classes(4), (-0.5, 0.5)
    h = np.array([low, low, high])[:, None, None] + 9 * task.labels
    theory = SimpleNamespace(task=task, preactivations=lambda: (h, np.array([0.5, 0.25, 0.25])))
    sampled = np.linspace(-1, 1, 20_000).reshape(2, 5, 1000, 2)[..., task.labels] + 9 * task.labels
    grid, picked, heights = runs.density(sampled, theory)
    assert grid[[0, -1]] == pytest.approx([-1, 1], abs=0.02)
    assert np.sum(heights[grid < 0]) * (grid[1] - grid[0]) == pytest.approx(0.75)
    assert np.sum(heights) * (grid[1] - grid[0]) == pytest.approx(1)
    assert picked.shape == (20_000,)
    assert np.abs(picked).max() <= 1
    assert picked.var() == pytest.approx(1 / 3, rel=0.05)


def test_expansion_leaves_the_next_order():
    task = runs.two_classes(2)
    left = runs.expansion_errors(task, Network(1, 1, "erf"), 0.1, np.array([0.05, 0.1]))
    zeroth, first = np.log2(left[1] / left[0])
    assert zeroth == pytest.approx(2, abs=0.1)
    assert first == pytest.approx(4, abs=0.3)


def test_a_laplace_start_keeps_its_shape():
    """The linear flow rescales h0 + w0; its kurtosis is 1.5 with Laplace weights and 0 with Gaussian ones."""
    heavy, normal = (runs.final_kurtosis(start, 2048, 6) for start in ("laplace", "gaussian"))
    assert heavy[:, 0].mean() == pytest.approx(1.5, abs=4 * heavy[:, 0].std(ddof=1) / 6**0.5)
    assert abs(normal[:, 0].mean()) < 0.2
    np.testing.assert_allclose(heavy[:, 1], 0.7, atol=1e-3)


def test_moments_of_white_inputs_by_group():
    task = runs.white_task((1.0, 1.0, -2.0))
    found = runs.expected_moments(task, (0.5, 1.6))
    y, both = 2**0.5, 2.0
    np.testing.assert_allclose(found[0], [y + both - 1, (y - 0.5) / 2, (y - 0.5) / 2, both - 0.5])
    np.testing.assert_allclose(found[1], [0.4, 0.0, 0.0, 0.4])
    rested = runs.fixed_points(runs.white_task((1.0, -2.0)), (0.5,), 64, 2)
    np.testing.assert_allclose(rested.moments[0], [2.0, 0.5, 1.5], atol=0.01)
    assert rested.negative[0] < 1e-3


def test_time_to_half_of_an_exponential():
    times = np.linspace(0, 5, 501)
    losses = np.exp(-np.array([[1.0], [2.0]]) * times)
    np.testing.assert_allclose(np.exp(runs.time_to(losses, times)), np.log(2) / np.array([1, 2]), rtol=1e-4)


def test_onset_is_where_the_gain_passes_the_level():
    richness, lazy = np.array([0.1, 1.0, 10.0]), np.array([0.2, 0.2])
    values = np.array([[[0.2, 0.25]], [[0.25, 0.35]], [[0.35, 0.4]]])  # (γ0, chains, layers)
    found = runs.Alignments(richness, lazy, values, []).onsets
    np.testing.assert_allclose(found, [[np.log(10**0.5), np.log(0.1) + np.log(10) / 2]])
    low = np.full((3, 1, 2), 0.2)  # a second chain, which never rises
    both = runs.Alignments(richness, lazy, np.concatenate([values, low], axis=1), []).onsets
    np.testing.assert_allclose(both, [*found, [np.log(10.0)] * 2])
    never = runs.Alignments(richness, lazy, np.full((3, 1, 2), 0.2), []).onsets
    np.testing.assert_allclose(never, np.log(10.0))


def test_the_tail_of_few_inputs_needs_few_neurons():
    """N* of a Gaussian-like population is the kurtosis of its mean activity, and grows with inputs and γ0."""
    options = {"num_neurons": 2048, "num_rounds": 20}
    found = [
        runs.crossover_width(
            adaptive_kernel.solve(runs.two_classes(number), Network(1, 1, "relu"), g, 0.02, **options)
        )
        for number, g in ((10, 0.1), (10, 2.0), (20, 2.0))
    ]
    assert 1.5 < found[0] < 3.5 < found[1] < found[2]


def test_overlaps_at_finite_width_approach_the_saddle_point():
    found = runs.limits({"lazy": [(2, 0.1)], "rich": [(2, 100.0)]}, (200, 800))
    for each in found.values():
        np.testing.assert_allclose(each.averages, each.saddle, rtol=5e-3)
    assert found["lazy"].limit[0] == pytest.approx(1.2)
    assert found["rich"].limit[0] == pytest.approx(100 ** (2 / 3))
    assert found["rich"].other[0] == pytest.approx(201)
    assert found["lazy"].other[0] == pytest.approx(0.1 ** (2 / 3))
    np.testing.assert_allclose(found["rich"].richer / found["rich"].saddle, 1.21 ** (2 / 3), rtol=0.01)


def test_the_limit_of_the_variance_has_the_error_of_networks_and_of_populations():
    """Of two widths the line in 1/N ends at twice the wider one less the other."""
    widths, variance, error = np.array([10, 20]), np.array([0.5, 0.2]), np.array([0.01, 0.03])
    for theirs in (0.0, 0.2, 3.0):
        given = dict.fromkeys(field.name for field in dataclasses.fields(runs.Widths))
        given |= {"widths": widths, "variance": Estimate(variance, error), "predicted": Estimate(3.0, theirs)}
        found = runs.Widths(**given).slope
        assert found.value == pytest.approx(2 * 20 * 0.2 - 10 * 0.5)
        ours = 2 * 20 * 0.03, 10 * 0.01
        assert found.error == pytest.approx(np.sqrt(ours[0] ** 2 + ours[1] ** 2 + theirs**2))


def test_rows_of_any_length_become_one_array():
    rows = runs.padded([np.array([1, 2, 3]), np.array([4.0])])
    np.testing.assert_array_equal(rows, [[1, 2, 3], [4, np.nan, np.nan]])


def test_a_population_that_escapes_is_drawn_again():
    def solve(seed):
        if seed < 8:
            raise FloatingPointError(f"not solved: {seed}")
        return seed

    assert runs.settled(solve, range(2, 16, 4)) == 10
    assert runs.settled(solve, range(9, 16, 4)) == 9
    with pytest.raises(FloatingPointError, match="not solved: 6"):
        runs.settled(solve, (2, 6))


def test_the_shape_of_a_bounded_neuron_is_its_populations():
    """Gaussian where hardly anything is learned; else as sampled neurons, which scatter by a thousandth."""
    task = runs.two_classes(8)
    lazy = runs.exact_shape(task, "sigmoidal", 1e-2, 0.02)
    np.testing.assert_allclose(lazy, [1, np.sqrt(2 / np.pi)], atol=1e-3)
    many = {"method": "population", "num_neurons": 2048, "num_rounds": 25}
    drawn = adaptive_kernel.solve(task, Network(1, 1, "sigmoidal"), 2.0, 0.02, **many)
    np.testing.assert_allclose(
        runs.exact_shape(task, "sigmoidal", 2.0, 0.02), runs.predicted_shape(drawn), rtol=4e-3
    )


def test_sampled_networks_have_the_richness_and_the_ridge(monkeypatch):
    """σ_a² = 1/γ0² and T = ridge/γ0²."""
    monkeypatch.setattr(runs, "draw", lambda *given, **options: (given[3:], options))
    assert runs.sampled(None, None, None, 2.0, 0.1, store=()) == ((0.025, 0.25), {"store": ()})


def test_alignments_of_networks_are_means_over_samples_of_every_layers_kernel():
    task, rng = runs.two_classes(4), np.random.default_rng(0)
    phi = rng.standard_normal((2, 3, 2, 5, 8, 4))  # (γ0, chains, layers, samples, N, P)
    given = [
        SimpleNamespace(
            task=task,
            posterior=SimpleNamespace(network=Network(2, 8, "relu")),
            samples=SimpleNamespace(activations=lambda layer, one=one: one[:, layer]),
            convergence=None,
        )
        for one in phi
    ]
    found = runs.alignments({0.5: given[0], 2.0: given[1]}, task.targets)
    expected = runs.alignment(np.swapaxes(phi, -1, -2) @ phi / 8, task.targets).mean(-1)
    np.testing.assert_allclose(found.values, expected)
    np.testing.assert_allclose(found.mean.value, expected.mean(1))
    np.testing.assert_allclose(found.mean.error, expected.std(1, ddof=1) / 3**0.5)
    for layer in (1, 2):
        prior = runs.gaussian_process.prior_kernels(task.inputs, None, "relu", layer)[-1]
        assert found.lazy[layer - 1] == pytest.approx(runs.alignment(prior, task.targets))
    overlaps = runs.sampled_overlaps(given)[1].value
    y = task.targets[:, 0] / 2
    np.testing.assert_allclose(overlaps, np.square(phi[1] @ y).mean((0, 2, 3)))
    values = np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.9], [0.5, 0.7]], [[0.6, 1.0], [0.8, 1.0]]])
    steps = runs.Alignments(np.ones(3), np.zeros(2), values, []).steps
    np.testing.assert_allclose(steps.value, [0.3, 0.5, 0.2, 0.2])
    np.testing.assert_allclose(steps.error, [0.1, 0.02**0.5, 0.1, 0.1])


def test_shares_over_widths_have_the_error_of_networks_and_of_populations(monkeypatch):
    """Outputs and kernels that go a known share of the way; populations scatter by a tenth and a fifth."""
    asked = []

    def at(outputs, kernel, variance=0.0):
        return SimpleNamespace(
            predict=lambda _: outputs * np.ones((3, 1)), kernels=[None, kernel * np.eye(4)], features=None,
            task=task, predictor_variance=lambda *_: np.array([variance, variance + 2.0]),
        )  # fmt: skip

    def solved(_, task, network, richness, ridge, seed):
        return at(1 + 0.1 * seed, 1 - 0.2 * seed, seed) if richness == 2 else at(0.6, 0.7, 10.0)

    def sample(key, features, inputs, richness, ridge, widths, **_):
        chains = np.array([0.9, 1.1])[:, None, None, None] * np.ones((4, 1, 1))
        one, share = np.ones((3, 1)), [(chains + 2 / n, 2 * chains + 3 / n) for n in widths]
        return [
            SimpleNamespace(
                means=a * one, kernels=b * np.eye(4), variance=lambda n=n: (n, n / 2), convergence=n
            )
            for (a, b), n in zip(share, widths, strict=True)
        ]

    task = runs.teacher_task(4, 2, 3, 0)
    monkeypatch.setattr(runs, "solved", solved)
    monkeypatch.setattr(runs.integrated, "sample", sample)
    lazy = lambda *given, temperature: asked.append(temperature) or at(0.0, 0.0)  # noqa: E731
    monkeypatch.setattr(runs.gaussian_process, "solve", lazy)
    found = runs.over_widths(None, task, "erf", 2.0, 0.3, (10, 20), {}, num_theories=3)
    assert asked == [0.3]
    np.testing.assert_allclose(found.shares.value, [1, 2])
    drawn = np.sqrt((0.1**2 + 0.2**2) / 4) * np.array([1, 2])
    sampled = 5**0.5 * 0.1 * np.array([1, 2])
    np.testing.assert_allclose(found.shares.error, np.hypot(sampled, drawn), rtol=1e-6)
    np.testing.assert_allclose(found.less_rich_shares, [0.6, 0.7])
    assert found.predicted == pytest.approx((2, 1 / 3**0.5))
    assert found.predicted_less_rich == 11
    assert [each.tolist() for each in found.variance] == [[10, 20], [5, 10]]


def test_distances_of_flows_are_over_all_times_and_new_inputs(monkeypatch):
    """Networks that are off by 6/N on one of two inputs at one of two times, and no more at the end."""
    asked = []

    def population(task, phi, richness, decay, num_neurons=0, network=False, seed=0, step=None, **_):
        outputs = np.full((2, 2, 1), 0.0 if richness == 3 else 4.0)
        if network:
            asked.append((num_neurons, seed, step))
            outputs[0, 0] = 6 / num_neurons
        losses = np.array([2.0, 1.0]) + seed
        return SimpleNamespace(test_outputs=outputs, step=0.25, train_loss=losses, test_loss=10 * losses)

    monkeypatch.setattr(runs, "dmft", SimpleNamespace(population=population))
    found = runs.flows(None, 3.0, 0.1, (1, 2), 2, duration=1.0)
    assert asked == [(width, seed, 0.25) for width in (1, 2) for seed in (0, 1)]
    np.testing.assert_allclose(found.distances[..., 0], [[3, 3], [1.5, 1.5]])
    np.testing.assert_allclose(np.square(found.distances[..., 1]), [[13, 13], [12.25, 12.25]])
    np.testing.assert_allclose(found.losses[0], [[[2, 1], [20, 10]], [[3, 2], [30, 20]]])


def test_losses_of_flows_are_extrapolated_and_distances_have_exponents():
    """From the two largest widths; of exponents every network has its own."""
    widths = np.array([4, 10, 20])[:, None]
    losses = 7 + 10 * np.array([1, 2]) / widths + np.array([90, 0, 0])[:, None]
    losses = losses[..., None, None] + np.array([[0], [1]]) + np.zeros(3)
    distances = widths[..., None] ** np.array([[-0.4, 0.1], [-0.6, 0.2]])
    found = runs.Flows(None, None, widths[:, 0], losses, distances)
    limit, slopes = found.at([1, 2]), found.exponents()
    np.testing.assert_allclose(limit.value, [[7, 7], [8, 8]])
    np.testing.assert_allclose(limit.error, 0.5**0.5)
    np.testing.assert_allclose(slopes.value, [-0.5, 0.15])
    np.testing.assert_allclose(slopes.error, [0.1, 0.05])
