"""Coding measures on populations whose codes, switches and symmetry are known by construction."""

import numpy as np
import pytest
from coding_schemes import coding, statistics
from test_calibration import autoregressive

LABELS = np.repeat([0, 1, 2], [6, 3, 3])


def population(neuron_codes, noise=0.1, labels=LABELS, seed=0):
    """Activations near 0.1 off and 0.9 on the classes of each neuron's code."""
    rng = np.random.default_rng(seed)
    on = np.asarray(neuron_codes)[..., labels]
    return np.where(on, 0.9, 0.1) + noise * rng.uniform(-1, 1, on.shape)


def test_class_means_and_deviations_against_loops():
    activations = np.random.default_rng(1).standard_normal((2, 5, 12))
    means, deviations = coding.class_means(activations, LABELS), coding.class_deviations(activations, LABELS)
    for chain in range(2):
        for neuron in range(5):
            for c in range(3):
                members = activations[chain, neuron, c == LABELS]
                assert means[chain, neuron, c] == pytest.approx(members.mean())
                assert deviations[chain, neuron, c] == pytest.approx(members.std())


def test_codes_are_recovered_and_depend_on_the_threshold():
    planted = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]], dtype=bool)
    activations = population(planted)
    np.testing.assert_array_equal(coding.codes(activations, LABELS), planted)
    assert not coding.codes(activations, LABELS, threshold=1.1).any()
    near = np.array([[0.505], [0.495]]) * np.ones(12)  # a hundredth above the middle of the range, and below
    assert coding.codes(near, LABELS).tolist() == [[True] * 3, [False] * 3]
    assert coding.code_name(planted[0]) == "1-1-0"
    assert coding.threshold(lambda z: np.exp(-(z**2))) == 0.5  # of all values, not of those far out


def test_occupancy_counts_neurons_and_its_errors_are_those_of_chains():
    rng = np.random.default_rng(2)
    table = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
    probabilities = np.array([0.5, 0.3, 0.2])
    frozen = table[rng.choice(3, size=(400, 1, 50), p=probabilities)]  # 400 chains of 50 frozen neurons
    result = coding.occupancy(np.repeat(frozen, 3, axis=1))
    assert result.names == ("1-1-0", "0-1-1", "1-0-1")
    assert result.fractions.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        result.binomial_errors, np.sqrt(probabilities * (1 - probabilities) / 20000), rtol=0.05
    )
    np.testing.assert_allclose(result.chain_errors, result.binomial_errors, rtol=0.15)
    assert np.all(np.abs(result.fractions - probabilities) < 4 * result.standard_errors)
    assert result.fraction("0-1-1") == result.fractions[1]
    assert result.fraction([False, False, False]) == 0.0


def test_occupancy_of_one_sample_has_binomial_errors_only():
    result = coding.occupancy(np.array([[True, False], [True, False], [False, True], [True, False]]))
    np.testing.assert_allclose(result.fractions, [0.75, 0.25])
    assert np.all(np.isnan(result.chain_errors))
    np.testing.assert_allclose(result.standard_errors, np.sqrt(0.75 * 0.25 / 4))


def test_two_chains_scatter_by_half_their_difference():
    codes = np.array([[[True]] * 3 + [[False]], [[False]] * 3 + [[True]]])[:, None]  # 3 of 4 neurons, then 1
    result = coding.occupancy(codes)
    np.testing.assert_allclose(result.fractions, 0.5)
    np.testing.assert_allclose(result.chain_errors, 0.25)
    np.testing.assert_allclose(result.standard_errors, 0.25)  # the larger: binomial it would be 0.18


def test_sorting():
    planted = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]], dtype=bool)
    activations = population(planted)
    by_activity = coding.sort_by_activity(activations)
    assert np.all(np.diff(np.square(activations[by_activity]).mean(1)) <= 0)
    by_code = coding.sort_by_code(planted, activations)
    assert sorted(by_code) == list(range(6))
    assert [coding.code_name(c) for c in planted[by_code]] == ["0-1-1"] * 3 + ["1-0-0"] * 2 + ["0-0-0"]
    first_group = np.square(activations[by_code[:3]]).mean(1)
    assert np.all(np.diff(first_group) <= 0)
    planted = np.array([[1, 0, 0], [0, 1, 1]] * 3, dtype=bool)  # two groups of one size stay apart
    levels = np.arange(6.0)[:, None] * np.ones(4)
    assert coding.sort_by_code(planted, levels).tolist() == [5, 3, 1, 4, 2, 0]


def test_kernel_alignment():
    rng = np.random.default_rng(4)
    targets = rng.standard_normal((12, 3))
    task_kernel = targets @ targets.T
    other = rng.standard_normal((12, 30))
    other = other @ other.T / 30
    assert coding.kernel_alignment(task_kernel, 3 * task_kernel) == pytest.approx(1.0)
    expected = np.trace(task_kernel @ other) / (np.linalg.norm(task_kernel) * np.linalg.norm(other))
    assert coding.kernel_alignment(task_kernel, other) == pytest.approx(expected)
    offset = coding.kernel_alignment(task_kernel, task_kernel + 5.0)
    assert offset < 0.99
    assert coding.kernel_alignment(task_kernel, task_kernel + 5.0, centered=True) == pytest.approx(1.0)
    stack = np.stack([other, task_kernel + 5.0])
    alone = [coding.kernel_alignment(kernel, other + 1.0, centered=True) for kernel in stack]
    np.testing.assert_allclose(coding.kernel_alignment(stack, other + 1.0, centered=True), alone)


@pytest.mark.parametrize("width", [100, 500])
def test_outliers_stand_out_of_a_bulk_and_the_prior_has_none(width):
    rng = np.random.default_rng(width)
    labels = np.repeat([0, 1, 2], [width // 2, width // 4, width // 4])
    bulk = np.maximum(rng.standard_normal((2, width, width)), 0)
    assert coding.outliers(bulk, labels).counts.tolist() == [0, 0]
    planted = bulk.copy()
    for neuron, (c, amplitude) in enumerate([(0, 1.2744), (1, 1.583), (2, 1.583)]):
        planted[1, neuron] = np.where(labels == c, amplitude * width**0.5, 0.0)
    found = coding.outliers(planted, labels)
    assert found.counts.tolist() == [0, 3]
    assert np.flatnonzero(found.mask[1]).tolist() == [0, 1, 2]
    assert [coding.code_name(code) for code in found.codes[1, :3]] == ["1-0-0", "0-1-0", "0-0-1"]
    assert coding.outliers(planted, labels, share=0.99).counts.tolist() == [0, 0]
    split = planted.copy()  # the first outlier as five parallel ones, the output unchanged
    split[1, [0, 3, 4, 5, 6]] = planted[1, 0] / 5**0.5
    assert coding.outliers(split, labels).counts.tolist() == [0, 7]


def test_outliers_of_a_class_are_told_by_that_class_alone():
    activations = np.ones((100, 12))
    activations[0, LABELS == 0], activations[1, LABELS == 2] = (
        30.0,
        4.0,
    )  # 16 of 115 squares: more than a tenth
    found = coding.outliers(activations, LABELS)
    assert [coding.code_name(code) for code in found.codes[:3]] == ["1-0-0", "0-0-1", "0-0-0"]


def test_switch_rate_of_a_known_rate():
    rng = np.random.default_rng(5)
    flips = rng.random((4, 500, 50, 1)) < 0.02
    state = np.cumsum(flips, axis=1) % 2 == 1
    result = coding.switch_rate(np.concatenate([state, ~state], axis=-1), interval=0.5)
    assert result.num_steps == 4 * 499 * 50
    assert result.lower < 0.04 < result.upper
    assert result.rate == pytest.approx(result.num_switches / result.num_steps / 0.5)
    assert result.fraction_moved == pytest.approx(0.5, abs=0.15)


def test_switch_rate_bound_where_nothing_switches():
    """Clopper–Pearson for zero of n is 1 − (α/2)^{1/n}, near the Poisson bound 3.69/n at 95 %."""
    result = coding.switch_rate(np.ones((2, 11, 5, 3), dtype=bool))
    assert result.rate == result.lower == result.fraction_moved == 0
    assert result.upper == pytest.approx(1 - 0.025 ** (1 / 100))
    assert result.upper == pytest.approx(3.69 / 100, rel=0.02)


def test_error_of_a_mean_counts_autocorrelation_and_chains_that_disagree():
    """Each of the two alone: chains whose means agree, of (1 + ρ)/(1 − ρ) times the variance of independent
    draws, and two chains that do not; together test_calibration has them.
    """
    series = autoregressive(0.9, (4, 1000, 60), seed=8)
    centered = statistics.mean_and_error(series - series.mean(axis=1, keepdims=True))[1]
    np.testing.assert_allclose(np.median(centered), (19 / 4000) ** 0.5, rtol=0.2)
    pair = statistics.mean_and_error(0.05 * series[:2, :, 0] + np.array([[0.0], [4.0]]))[1]
    assert pair == pytest.approx(2, rel=0.05)


def test_autocorrelation_and_order_parameter_from_restored_to_frozen():
    moving = autoregressive(0.7, (4, 400, 60, 2), seed=7)
    correlation = statistics.autocorrelation(moving, max_lag=5)
    np.testing.assert_allclose(correlation, 0.7 ** np.arange(6), atol=0.02)
    restored = statistics.permutation_order(moving)
    assert abs(restored.value) < 4 * restored.standard_error < 0.02

    rng = np.random.default_rng(8)
    identity = rng.standard_normal((4, 1, 60, 2))
    frozen = statistics.permutation_order(np.repeat(identity, 10, axis=1))
    assert frozen.value == pytest.approx(1.0)
    mixed = statistics.permutation_order(moving + identity)  # half of the variance is between neurons
    assert abs(mixed.value - 0.5) < 4 * mixed.standard_error
    assert statistics.autocorrelation(moving + identity, max_lag=60)[-1] == pytest.approx(0.5, abs=0.1)


def test_order_parameter_is_invariant_under_permutations_but_not_shuffling_in_time():
    rng = np.random.default_rng(9)
    series = np.repeat(rng.standard_normal((1, 1, 50, 3)), 20, axis=1)
    permuted = statistics.permutation_order(series[:, :, rng.permutation(50)])
    assert permuted.value == pytest.approx(statistics.permutation_order(series).value)
    shuffled = np.stack([series[:, t, rng.permutation(50)] for t in range(20)], axis=1)
    assert abs(statistics.permutation_order(shuffled).value) < 0.1


def test_participation_tells_the_three_schemes_apart():
    rng = np.random.default_rng(12)
    labels = np.repeat([0, 1], 4)
    signs = rng.choice([-1.0, 1.0], 3000)[:, None]
    single = np.eye(3000)[:, [0, 0, 0, 0, 1, 1, 1, 1]]
    gaussian = rng.standard_normal((3000, 1))
    direction = 0.5 + np.array([1.0, -1.0])[labels]
    assert coding.participation(signs * direction, labels) == pytest.approx(1)
    assert coding.participation(gaussian * direction, labels) == pytest.approx(1 / 3, rel=0.1)
    assert coding.participation(single, labels) == pytest.approx(2 / 3000)
    assert np.isnan(coding.participation(np.ones((5, 8)), labels))


def test_neural_collapse_of_a_perfect_frame_and_of_noise():
    rng = np.random.default_rng(10)
    labels = np.repeat([0, 1, 2], 20)
    rotation, _ = np.linalg.qr(rng.standard_normal((50, 50)))
    simplex = rotation[:, :3] + rng.standard_normal((50, 1))  # orthonormal vectors plus a common shift
    perfect = coding.neural_collapse(simplex[:, labels], labels)
    np.testing.assert_allclose(perfect, 0, atol=1e-12)

    noise = 0.1 * rng.standard_normal((50, 60))
    varied = coding.neural_collapse(simplex[:, labels] + noise, labels)
    # the centered frame has two singular values 1, so NC1 is twice the noise's variance
    assert varied.within_class == pytest.approx(2 * 0.01, rel=0.3)
    # two singular values 1 over three classes against 50 neurons that all fluctuate
    assert varied.variability == pytest.approx(50 * 0.01 / (2 / 3), rel=0.1)
    stretched = coding.neural_collapse((simplex * np.array([3.0, 1.0, 1.0]))[:, labels], labels)
    assert stretched.norm_variation > 0.1
    assert stretched.angle_deviation > 0.1


def test_neural_collapse_against_its_definition():
    rng = np.random.default_rng(11)
    activations = rng.standard_normal((4, 12)) + 2 * rng.standard_normal((4, 3))[:, LABELS]
    means = coding.class_means(activations, LABELS)
    within = activations - means[:, LABELS]
    centered = means - means.mean(1, keepdims=True)
    between = centered @ centered.T / 3
    expected = np.trace(within @ within.T / 12 @ np.linalg.pinv(between, rcond=1e-9)) / 3
    assert coding.neural_collapse(activations, LABELS).within_class == pytest.approx(expected)
    single = coding.neural_collapse(activations.astype(np.float32), LABELS)
    assert single.within_class == pytest.approx(expected, rel=1e-4)


def test_code_agreement_and_chance():
    rng = np.random.default_rng(12)
    training = rng.random((1000, 3)) < 0.5
    same = coding.code_agreement(training, training)
    assert (same.neurons, same.entries) == (1.0, 1.0)
    shuffled = coding.code_agreement(training, training[rng.permutation(1000)])
    assert shuffled.chance == pytest.approx(same.chance) == pytest.approx(1 / 8, abs=0.01)
    assert shuffled.neurons == pytest.approx(shuffled.chance, abs=0.05)
    one_off = training.copy()
    one_off[:, 0] ^= True
    flipped = coding.code_agreement(training, one_off)
    assert flipped.neurons == 0.0
    assert flipped.entries == pytest.approx(2 / 3)


def test_generalization_error_splits_into_mean_and_variance():
    rng = np.random.default_rng(3)
    targets = rng.standard_normal((50, 3))
    samples = targets + 0.5 + rng.standard_normal((40, 50, 3)) * np.array([0.1, 0.2, 0.3])
    error = coding.generalization_error(samples.mean(0), samples.var(0), targets)
    np.testing.assert_allclose(error.total, np.square(samples - targets).mean((0, 1)))
    np.testing.assert_allclose(error.mean_error, np.square(samples.mean(0) - targets).mean(0))
    shared = coding.generalization_error(targets, np.full(50, 0.2), targets)
    np.testing.assert_allclose(shared.total, 0.2)


def test_sparse_measures_of_a_planted_population():
    rng = np.random.default_rng(5)
    readouts, z = 0.1 * rng.standard_normal((2, 30, 3)), rng.standard_normal((2, 30, 12))
    for neuron, c in ((7, 0), (3, 1), (20, 2)):
        readouts[:, neuron] = 10 * np.eye(3)[c]
        z[:, neuron] = np.where(c == LABELS, 20.0 + (np.arange(12) % 3 - 1), -0.5)
    activations = np.maximum(z, 0)
    found = coding.sparse_measures(readouts, z, activations, LABELS)
    assert found.neurons.tolist() == [[7, 3, 20]] * 2
    np.testing.assert_allclose(found.readouts, np.broadcast_to(10 * np.eye(3), (2, 3, 3)))
    np.testing.assert_allclose(found.preactivations[1], 20.5 * np.eye(3) - 0.5)
    np.testing.assert_allclose(found.variation, np.sqrt(2 / 3) / 20)
    others = np.setdiff1d(np.arange(30), [3, 7, 20])
    np.testing.assert_allclose(found.bulk_readouts, readouts[:, others].mean(1))
    np.testing.assert_allclose(
        found.bulk_activations, coding.class_means(activations, LABELS)[:, others].mean(1)
    )


@pytest.mark.parametrize(
    ("reached", "index"),
    [([0, 1, 0, 1, 1], 3), ([1, 1], 0), ([1, 0], None), ([0, 0, 1], 2)],
)
def test_first_lasting(reached, index):
    assert statistics.first_lasting(reached) == index


def test_settled_codes_ignore_a_mean_that_hovers_at_the_threshold():
    means = np.array([0.55, 0.45, 0.55, 0.61, 0.45, 0.39, 0.55, 0.7])[:, None, None]
    settled = coding.settled_codes(means)[:, 0, 0]
    assert settled.tolist() == [True, True, True, True, True, False, False, True]
    assert coding.switch_rate(coding.settled_codes(means)).num_switches == 2
    assert coding.switch_rate(means > 0.5).num_switches == 4


def test_error_of_the_permutation_order_is_that_of_a_ratio():
    # frozen neurons of very unequal strength: q = 1 whatever the strengths, so its error is small
    strength = np.random.default_rng(0).standard_cauchy((1, 1, 200, 3))
    noise = 0.01 * np.random.default_rng(1).standard_normal((1, 40, 200, 3))
    order = statistics.permutation_order(strength + noise)
    assert order.value == pytest.approx(1, abs=1e-3)
    assert order.standard_error < 1e-3


def test_the_gram_matrix_of_class_means_has_no_noise():
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1, 2], [40, 20, 20])
    noise = rng.standard_normal((60, 400, 80))
    frame = np.linalg.qr(rng.standard_normal((400, 3)))[0] * 20
    center = np.eye(3) - 1 / 3
    trained = coding.class_gram(noise + frame[:, labels], labels)
    error = trained.std(0) / 60**0.5
    assert np.all(np.abs(trained.mean(0) - center) < 4 * error)  # |frame|²/N = 1
    untrained = coding.class_gram(noise, labels)
    assert np.all(np.abs(untrained.mean(0)) < 4 * untrained.std(0) / 60**0.5)
    phi, c = noise[0], np.eye(3)[labels]
    pairs = np.outer(c.sum(0), c.sum(0)) - np.diag(c.sum(0))
    kernel = phi.T @ phi / 400
    block = c.T @ (kernel - np.diag(np.diag(kernel))) @ c / pairs
    np.testing.assert_allclose(untrained[0], center @ block @ center, atol=1e-12)
    with pytest.raises(ValueError, match="class 1 has 1 input"):
        coding.class_gram(noise[..., :41], labels[:41])


def test_class_participation_counts_the_neurons_of_a_class():
    labels = np.array([0, 0, 1, 1])
    activations = np.zeros((2, 10, 4))
    activations[:, 0, :2], activations[0, :5, 2:], activations[1, :, 2:] = 3.0, 1.0, -1.0
    np.testing.assert_allclose(coding.class_participation(activations, labels), [[1, 5], [1, 10]])
    assert np.isnan(coding.class_participation(np.zeros((3, 4)), labels)).all()
    gaussian = np.random.default_rng(0).standard_normal((100_000, 1)) * np.ones(4)
    np.testing.assert_allclose(coding.class_participation(gaussian, labels) / 1e5, 1 / 3, rtol=0.03)


def test_code_transfer_of_pure_codes_and_of_noise():
    """Responses that are the class mean are explained fully; independent ones not at all on test inputs."""
    rng = np.random.default_rng(0)
    labels, test_labels = np.repeat([0, 1, 2], 20), rng.integers(0, 3, 50)
    means = rng.standard_normal((30, 3))
    found = coding.code_transfer(means[:, labels], labels, means[:, test_labels], test_labels)
    np.testing.assert_allclose(found, 1)
    noise, test_noise = rng.standard_normal((2, 30, 60)), rng.standard_normal((2, 30, 50))
    both = coding.code_transfer(noise, labels, test_noise, test_labels)
    assert both.shape == (2, 2)
    np.testing.assert_allclose(both[:, 0], 2 / 59, atol=0.02)  # two free means among 59 degrees of freedom
    assert np.all(both[:, 1] < 0)
    np.testing.assert_allclose(coding.code_transfer(7 * noise, labels, 7 * test_noise, test_labels), both)
    shifted = (
        means[:, test_labels] + 2.0 + test_noise[0]
    )  # far from the mean on training inputs, which counts
    center = means.mean(1, keepdims=True)
    found = coding.code_transfer(means[:, labels], labels, shifted, test_labels)[1]
    missed = np.square(2.0 + test_noise[0]).sum()
    assert found == pytest.approx(1 - missed / np.square(shifted - center).sum())
