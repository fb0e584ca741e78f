"""Deep sigmoidal networks: limits, finite differences and Monte Carlo over whole preactivation vectors."""

import jax
import numpy as np
import pytest
from coding_schemes import coding, networks, posterior, sampling, tasks
from coding_schemes.theory import deep_sigmoidal, sigmoidal
from coding_schemes.theory._convex_dual import make_problem
from scipy.linalg import block_diag
from scipy.special import erf

COUNTS = np.array([0.5, 0.25, 0.25])


def classes(num_inputs, y_minus=0.5, counts=COUNTS, num_classes=3):
    task = object.__new__(tasks.Task)  # what the solver reads of it, without drawing its inputs
    vars(task).update(
        class_counts=counts * num_inputs,
        class_targets=tasks.one_hot(num_classes, 1.0, y_minus),
        is_orthogonal=True,
    )
    return task


def two_classes(num_inputs):
    return classes(num_inputs, 0.0, np.array([0.5, 0.5]), 2)


def problem(task, temperature=0.01):
    return make_problem(task, temperature, "sigmoidal", None, None)


def phi(z):
    return 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2))


@pytest.fixture(scope="module")
def two_layers():
    return deep_sigmoidal.solve(two_classes(60), 2, 0.01)


@pytest.mark.parametrize("y_minus", [0.1, 0.5])
def test_one_layer_is_the_shallow_theory(y_minus):
    task = classes(200, y_minus)
    deep, shallow = deep_sigmoidal.solve(task, 1, 0.01), sigmoidal.solve(task, 0.01)
    (layer,) = deep.layers
    np.testing.assert_allclose(deep.dual_field, shallow.dual_field, atol=1e-4)
    assert deep.free_energy == pytest.approx(shallow.free_energy, abs=1e-3)
    np.testing.assert_allclose(layer.kernel_block, shallow.kernel_block, atol=1e-5)
    np.testing.assert_allclose(layer.kernel_diagonal, shallow.kernel_diagonal, atol=1e-5)
    expected = [shallow.occupancy(code) for code in layer.codes]
    np.testing.assert_allclose(layer.probabilities, expected, atol=1e-3)


def test_first_layer_moments_by_monte_carlo():
    task = classes(32)
    tilt = deep_sigmoidal.Kernel(
        0.04 * np.array([[1.0, -0.3, 0.4], [-0.3, 2.0, 0.2], [0.4, 0.2, -1.0]]), COUNTS
    )
    layer = deep_sigmoidal._layer(problem(task), None, tilt)
    counts = task.class_counts.astype(int)
    rng = np.random.default_rng(0)
    activations = [phi(rng.standard_normal((300_000, n))) for n in counts]
    sums = np.stack([a.sum(axis=1) for a in activations], axis=1)
    squares = np.stack([(a**2).sum(axis=1) for a in activations], axis=1)
    weight = np.exp(0.5 * np.einsum("ni,ij,nj->n", sums, tilt.block, sums) + 0.5 * squares @ tilt.diagonal)
    assert layer.log_value == pytest.approx(np.log(weight.mean()), abs=4e-3)
    statistics = deep_sigmoidal._statistics(sums, squares)
    sampled = weight @ statistics / weight.sum()
    error = np.sqrt(weight**2 @ (statistics - sampled) ** 2) / weight.sum()
    exact = deep_sigmoidal._from_kernel(layer.kernel, task.class_counts)
    assert np.all(np.abs(exact - sampled) < 5 * error + 2e-3 * sampled)


@pytest.mark.parametrize("sizes", [(7,), (9, 8), (9, 8, 7), (7, 6, 5, 6)])
def test_points_near_the_highest_are_those_of_the_whole_lattice(sizes, monkeypatch):
    """Every point is evaluated here; a few at a time there, with couplings that make several peaks."""
    monkeypatch.setattr(deep_sigmoidal, "BLOCK", 200)
    rng = np.random.default_rng(len(sizes))
    grids = [np.linspace(-3, 3, n) for n in sizes]
    own = [3 * rng.standard_normal(n) - 4 * grid**2 for n, grid in zip(sizes, grids)]
    pairs = {
        (c, e): 5 * rng.standard_normal() * np.outer(grids[c], grids[e])
        for e in range(len(sizes))
        for c in range(e)
    }
    index, exponent = deep_sigmoidal._highest(own, pairs)
    all_of_them = np.indices(sizes).reshape(len(sizes), -1)
    whole = sum(one[i] for one, i in zip(own, all_of_them))
    whole = whole + sum(pair[all_of_them[c], all_of_them[e]] for (c, e), pair in pairs.items())
    cutoff = 28 if len(sizes) <= 3 else 21
    near = whole > whole.max() - cutoff
    assert 1 < near.sum() < len(whole)
    order = np.lexsort(index[::-1])
    np.testing.assert_array_equal(index[:, order], all_of_them[:, near])
    np.testing.assert_allclose(exponent[order], whole[near], rtol=1e-12)


@pytest.mark.parametrize("higher", [False, True], ids=["first", "higher"])
def test_classes_that_do_not_couple_are_independent(higher):
    """Four classes in two pairs: log Z is the sum of the pairs', and their kernels are the blocks."""
    task = classes(24, counts=np.full(4, 0.25), num_classes=4)
    pair = classes(12, counts=np.full(2, 0.5), num_classes=2)
    tilts = [0.03 * np.array([[2.0, x], [x, 1.0]]) for x in (-1.0, 0.5)]
    diagonals = np.array([0.1, -0.1]), np.array([0.0, 0.2])
    belows = [0.2 * np.array([[1.0, x], [x, 1.0]]) for x in (0.1, -0.2)]

    def layer(task, tilt, diagonal, block):
        below = deep_sigmoidal.Kernel(block, np.full(len(block), 0.05)) if higher else None
        return deep_sigmoidal._layer(problem(task), below, deep_sigmoidal.Kernel(tilt, diagonal))

    whole = layer(task, block_diag(*tilts), np.concatenate(diagonals), block_diag(*belows))
    parts = [layer(pair, *each) for each in zip(tilts, diagonals, belows)]
    assert whole.log_value == pytest.approx(sum(part.log_value for part in parts), abs=1e-7)
    for part, place in zip(parts, (slice(0, 2), slice(2, 4))):
        np.testing.assert_allclose(whole.kernel.block[place, place], part.kernel.block, rtol=1e-6)
        np.testing.assert_allclose(whole.kernel.diagonal[place], part.kernel.diagonal, rtol=1e-6)
    means = [part.weights @ part.activations for part in parts]
    np.testing.assert_allclose(whole.kernel.block[:2, 2:], np.outer(*means), rtol=1e-6)


def test_four_classes_in_one_layer_are_the_shallow_theory():
    """With two outputs, where the shallow theory integrates over readouts by quadrature."""
    task = classes(48, counts=np.full(4, 0.25), num_classes=4)
    outputs = {"class_targets": np.array([[1.0, 0], [0, 1.0], [1.0, 1.0], [0, 0]])}
    deep, shallow = deep_sigmoidal.solve(task, 1, 0.05, **outputs), sigmoidal.solve(task, 0.05, **outputs)
    assert deep.converged
    np.testing.assert_allclose(deep.layers[0].kernel_block, shallow.kernel_block, atol=2e-4)
    np.testing.assert_allclose(deep.layers[0].kernel_diagonal, shallow.kernel_diagonal, atol=2e-4)
    np.testing.assert_allclose(deep.dual_field, shallow.dual_field, rtol=2e-3)


@pytest.mark.weekly
def test_four_classes_in_two_layers_are_three_where_two_share_their_targets():
    """Corrections of order 1/n_c apart, since a class of 12 inputs has one mean and two of 6 have two."""
    targets = np.array([[1.0, 0], [0, 1.0], [0, 0], [0, 0]])
    split = classes(24, counts=np.full(4, 0.25), num_classes=4)
    joined = classes(24, counts=np.array([0.25, 0.25, 0.5]))
    four, three = (
        deep_sigmoidal.solve(task, 2, 0.05, class_targets=targets[: len(task.class_counts)])
        for task in (split, joined)
    )
    assert four.converged
    for a, b in zip(four.layers, three.layers):
        np.testing.assert_allclose(a.kernel_block[:3, :3], b.kernel_block, atol=0.02)
        np.testing.assert_allclose(a.kernel_block[2, 3], b.kernel_block[2, 2], atol=0.02)


def test_second_layer_moments_by_monte_carlo(two_layers):
    """Importance sampling of all preactivations, scatter within classes and all."""
    task = two_classes(60)
    counts = task.class_counts.astype(int)
    first, second = two_layers.layers
    scatter = first.kernel_diagonal
    layer = deep_sigmoidal._layer(
        problem(task),
        deep_sigmoidal.Kernel(first.kernel_block, scatter),
        deep_sigmoidal.Kernel(second.dual_block, second.dual_diagonal),
    )
    rng = np.random.default_rng(1)
    rows = rng.choice(len(layer.weights), 20_000, p=layer.weights)
    grid = np.arange(-6, 6, 0.01)
    sums, squares = np.empty((len(rows), 2)), np.empty((len(rows), 2))
    for c in range(2):
        smooth = phi(grid[:, None] + np.sqrt(scatter[c]) * deep_sigmoidal.SCATTER_NODES)
        field = np.interp(layer.activations[rows, c], smooth @ deep_sigmoidal.SCATTER_WEIGHTS, grid)
        xi = rng.standard_normal((len(rows), counts[c]))
        activation = phi(field[:, None] + np.sqrt(scatter[c]) * (xi - xi.mean(axis=1, keepdims=True)))
        sums[:, c], squares[:, c] = activation.sum(axis=1), (activation**2).sum(axis=1)
    assumed = layer.activations[rows] * counts
    log_weight = 0.5 * np.sum(
        (sums @ second.dual_block) * sums - (assumed @ second.dual_block) * assumed, axis=1
    )
    weight = np.exp(log_weight - log_weight.max())
    assert weight.sum() ** 2 / (weight @ weight) > 0.3 * len(rows)
    sampled = deep_sigmoidal._to_kernel(
        weight @ deep_sigmoidal._statistics(sums, squares) / weight.sum(), task.class_counts
    )
    np.testing.assert_allclose(sampled.block, layer.kernel.block, atol=0.02)


def test_slope_of_the_evidence_is_its_finite_difference():
    task = two_classes(40)
    numbers = problem(task)
    tilts, means, below = [], [], None
    for strength in (1.5, 2.5):  # L = 3: two layers with kernels of their own
        block = strength * np.array([[0.08, 0.02], [0.02, 0.05]])
        tilts.append(deep_sigmoidal._to_vector(deep_sigmoidal.Kernel(block, np.array([0.3, -0.4]))))
        below = deep_sigmoidal._layer(numbers, below, deep_sigmoidal._to_tilt(tilts[-1], 2)).kernel
        means.append(deep_sigmoidal._from_kernel(below, numbers.counts))
    means = np.array(means)
    field = sigmoidal.solve(task, 0.01).dual_field

    def value(means):
        return deep_sigmoidal._evaluate(numbers, means, tilts, field, None)

    state = value(means)
    metric = deep_sigmoidal._metric(state, means.shape)
    rng = np.random.default_rng(0)
    for _ in range(6):  # along directions in which neurons fluctuate: others lead to kernels no density has
        scale = 1 / np.sqrt(np.diag(metric))
        shift = metric @ (scale * rng.standard_normal(means.size))
        shift = (0.01 * shift / np.sqrt(shift @ np.linalg.solve(metric, shift))).reshape(means.shape)
        difference = 0.5 * (value(means + shift).value - value(means - shift).value)
        expected = np.sum(state.slope * shift)
        assert difference == pytest.approx(expected, rel=0.02, abs=2e-4)
        assert abs(expected) > 1e-3


def test_two_layers_are_at_a_maximum(two_layers):
    solution = two_layers
    assert solution.converged
    assert solution.residual < 1e-4
    assert solution.readout_residual < 1e-4
    again = deep_sigmoidal.solve(two_classes(60), 2, 0.01, start=0.6)
    assert again.free_energy == pytest.approx(solution.free_energy, abs=1e-3)
    np.testing.assert_allclose(again.layers[0].kernel_block, solution.layers[0].kernel_block, atol=3e-3)
    warm = deep_sigmoidal.solve(two_classes(60), 2, 0.01, start=solution)
    assert warm.num_steps <= 5
    near = deep_sigmoidal.solve(two_classes(60), 2, 0.01005, start=solution)
    assert near.num_steps > 0  # the first metric is rough: no start is taken for the end by it alone


@pytest.mark.parametrize("start", [0.0, 0.3, 0.6])
def test_the_ascent_begins_between_the_priors_kernel_and_that_of_one_layer(start, monkeypatch):
    """⟨φ⟩ = ½ and ⟨φ²⟩ = ¼ + arcsin(a²/(1 + a²))/2π in the prior, with φ = Φ(a z), a² = π/2."""
    task, begun = two_classes(60), []

    def stop(problem, state, means, *_):
        begun.append(deep_sigmoidal._to_kernel(means[0], task.class_counts))
        raise InterruptedError

    monkeypatch.setattr(deep_sigmoidal, "_ascend", stop)
    with pytest.raises(InterruptedError):
        deep_sigmoidal.solve(task, 2, 0.01, start=start)
    (found,), shallow = begun, sigmoidal.solve(task, 0.01)
    scatter = np.arcsin(np.pi / (2 + np.pi)) / (2 * np.pi)
    for kernel, prior, learned in (
        (found.block, 0.25, shallow.kernel_block),
        (found.diagonal, scatter, shallow.kernel_diagonal),
    ):
        np.testing.assert_allclose(kernel, (1 - start) * prior + start * learned, atol=1e-3)


def test_codes_sharpen_with_depth(two_layers):
    first, second = two_layers.layers
    assert np.all(second.within_class_variance < 0.3 * first.within_class_variance)
    assert second.occupancy([1, 0]) > 0.4  # classes are told apart by codes of their own
    np.testing.assert_allclose(first.probabilities.sum(), 1)
    np.testing.assert_allclose(
        first.within_class_variance, first.kernel_diagonal, atol=0.1 * first.kernel_diagonal.max()
    )


def test_frozen_equilibrium_occupancies_change_nothing(two_layers):
    last = two_layers.layers[-1]
    used = last.probabilities > 1e-3
    fractions = last.probabilities[used] / last.probabilities[used].sum()
    frozen = deep_sigmoidal.solve(two_classes(60), 2, 0.01, codes=last.codes[used], occupancies=fractions)
    assert frozen.free_energy == pytest.approx(two_layers.free_energy, abs=0.02)
    other = deep_sigmoidal.solve(
        two_classes(60), 2, 0.01, codes=[[1, 0], [0, 1], [1, 1]], occupancies=[0.3, 0.3, 0.4]
    )
    np.testing.assert_allclose(other.layers[-1].probabilities, [0, 0.3, 0.3, 0.4], atol=1e-9)
    assert other.free_energy > two_layers.free_energy


@pytest.mark.slow
def test_sampled_network_of_two_layers():
    """From the prior the last layer ends in one code and stays in it: the theory is frozen there too."""
    task = tasks.toy(24, COUNTS, y_minus=0.5)
    target = posterior.Posterior(task, networks.Network(2, 96, "sigmoidal"), 0.05)
    samples = sampling.sample(
        target,
        jax.random.key(1),
        num_samples=150,
        num_chains=1,
        num_warmup=300,
        thinning=2,
        method=sampling.HMC(max_num_steps=60),
        moves=(),
        progress=False,
    )
    first, second = (phi(np.asarray(z, float))[0] for z in samples.preactivations)
    frozen = deep_sigmoidal.measure(second, task.labels)
    used = frozen.probabilities > 0.01
    fractions = frozen.probabilities[used] / frozen.probabilities[used].sum()
    theory = deep_sigmoidal.solve(task, 2, 0.05, codes=frozen.codes[used], occupancies=fractions)
    for layer, activations in zip(theory.layers, (first, second)):
        blocks = [deep_sigmoidal.measure(part, task.labels) for part in np.split(activations, 10)]
        for name in ("kernel_block", "probabilities"):
            values = np.array([getattr(block, name) for block in blocks])
            error = values.std(axis=0, ddof=1) / np.sqrt(10)
            # beyond the standard error: what the theory leaves out, in 1/N and 1/n_c
            allowed = 4 * error + (0.004 if name == "kernel_block" else 0.02)
            assert np.all(np.abs(values.mean(axis=0) - getattr(layer, name)) < allowed)
    equilibrium = deep_sigmoidal.solve(task, 2, 0.05)
    assert np.abs(equilibrium.layers[1].kernel_block - theory.layers[1].kernel_block).max() > 0.05


def test_measured_quantities_of_a_known_layer():
    labels = np.repeat([0, 1], [4, 2])
    activations = np.array([[1, 1, 0.8, 0.8, 0, 0], [0, 0, 0, 0, 0.5, 0.7]])
    scheme = deep_sigmoidal.measure(activations, labels)
    np.testing.assert_allclose(scheme.probabilities, [0, 0.5, 0.5, 0])
    np.testing.assert_allclose(scheme.activations[[1, 2]], [[0, 0.6], [0.9, 0]])
    np.testing.assert_allclose(scheme.within_class_variance, [0.005, 0.005])
    gram = activations.T @ activations / 2
    kernel = scheme.kernel(labels)
    np.testing.assert_allclose(np.trace(kernel), np.trace(gram))
    np.testing.assert_allclose(kernel[:4, 4:].sum(), gram[:4, 4:].sum(), atol=1e-12)
    np.testing.assert_allclose(kernel[:4, :4].sum(), gram[:4, :4].sum())
    odd = deep_sigmoidal.measure(2 * activations - 1, labels, threshold=0.0)  # the same codes of another φ
    np.testing.assert_array_equal(odd.probabilities, scheme.probabilities)
    np.testing.assert_allclose(odd.activations, 2 * scheme.activations - 1)


def test_drawn_readouts_scatter_by_their_prior_about_what_the_classes_ask():
    task = two_classes(120)
    solution = deep_sigmoidal.solve(task, 2, 0.05)
    labels = np.repeat([0, 1], 60)
    z, readouts, (matrix,) = solution.draw(np.random.default_rng(0), labels, 2_000)
    means = coding.class_means(phi(matrix @ phi(z) / 2_000**0.5), labels)
    design = np.column_stack([means, np.ones(2_000)])
    left = readouts - design @ np.linalg.lstsq(design, readouts, rcond=None)[0]
    assert left.var() == pytest.approx(solution.problem.readout_variance, rel=0.15)


def test_a_class_of_one_input_has_a_square_and_no_pairs():
    """What its statistics do not tell apart, the kernel with others of the class, is no number by 0/0."""
    kernel = deep_sigmoidal.Kernel(np.array([[0.4, 0.2], [0.2, 0.3]]), np.array([0.1, 0.05]))
    counts = np.array([5.0, 1.0])
    with np.errstate(all="raise"):
        found = deep_sigmoidal._to_kernel(deep_sigmoidal._from_kernel(kernel, counts), counts)
    np.testing.assert_allclose(found.block[0], kernel.block[0])
    np.testing.assert_allclose((found.block.diagonal() + found.diagonal)[1], 0.35)
    assert found.diagonal[0] == pytest.approx(0.1)


def test_failure_to_converge_is_reported():
    with pytest.warns(UserWarning, match="did not converge"):
        solution = deep_sigmoidal.solve(two_classes(60), 2, 0.01, max_steps=1)
    assert not solution.converged
    assert solution.residual > 1e-4
