"""Condensation: closed forms, the law of k by brute force, the exact population, sampled networks."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from coding_schemes import coding, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.theory import _alike_outliers, clustered, condensation, relu
from scipy.integrate import quad
from scipy.special import gamma, ndtr
from scipy.stats import multivariate_normal

T = 0.01


@pytest.fixture(scope="module")
def alike():
    return condensation.solve(tasks.clustered(60, overlap=0.5, y_minus=-0.5), T)


@pytest.fixture(scope="module")
def apart():
    return condensation.solve(tasks.clustered(240, overlap=0.0, y_minus=-0.5), T)


@pytest.mark.parametrize(("count", "overlap"), [(2, 0.3), (3, 0.5), (5, 0.9)])
def test_silence_is_an_orthant_probability(count, overlap):
    covariance = (1 - overlap) * np.eye(count) + overlap
    expected = multivariate_normal(np.zeros(count), covariance).cdf(np.zeros(count))
    assert condensation.log_silence(count, overlap) == pytest.approx(np.log(expected), abs=1e-4)


def test_silence_of_many_alike_inputs_is_a_power_law():
    """At ρ = ½ the chance that the largest of n + 1 normals is a given one: 1/(n + 1)."""
    for count in (1, 10, 200):
        assert condensation.log_silence(count, 0.5) == pytest.approx(-np.log(count + 1), abs=1e-6)
    assert condensation.log_silence(20, 0.0) == pytest.approx(-20 * np.log(2))


def test_law_on_a_flat_branch_is_that_of_radii_drawn_at_random():
    """Poisson points of constant density on r > 0, kept where Σ r² falls near its value."""
    ratio, rng = 0.8, np.random.default_rng(0)
    x = (3 * ratio) ** 1.5 / np.sqrt(2)
    density, tilt = 2 * x / np.sqrt(np.pi), 0.9  # of r, at Σ r² = 1; a tilt in Σ r² cancels
    numbers = rng.poisson(density * np.sqrt(np.pi / tilt) / 2, 400_000)
    points = np.abs(rng.standard_normal((len(numbers), numbers.max()))) / np.sqrt(2 * tilt)
    squares = np.where(np.arange(numbers.max()) < numbers[:, None], points, 0) ** 2
    kept = np.abs(squares.sum(1) - 1) < 0.03
    found = condensation.universal(ratio)
    for k, p in zip(found.numbers[:4], found.probabilities):
        share = (numbers[kept] == k).mean()
        assert share == pytest.approx(p, abs=4 * np.sqrt(p / kept.sum()) + 0.005)
    inverse = np.square(squares[kept]).sum(1) / squares[kept].sum(1) ** 2
    assert found.participation == pytest.approx(1 / inverse.mean(), rel=0.02)
    largest = (squares[kept].max(1) / squares[kept].sum(1)).mean()
    assert _sums_on_a_flat_branch(found).largest == pytest.approx(0.5 * largest, rel=0.01)


def _sums_on_a_flat_branch(neurons, coding_share=0.5):
    edges = np.arange(4 * condensation.NUM_CELLS + 1) / condensation.NUM_CELLS
    mass = np.diff(np.sqrt(edges)) * np.exp(-4 * edges[1:])  # a tilt, against sums that come back
    (weights,) = condensation._at_total(neurons.numbers[-1], np.fft.rfft(mass))
    return condensation._Sums(neurons, mass, 1.0, weights[neurons.numbers - 1], coding_share)


def test_the_largest_of_two_neurons_and_of_one_on_a_flat_branch():
    """r = (cos θ, sin θ) with θ uniform: ⟨max cos²θ, sin²θ⟩ = ½ + 1/π."""
    for number, expected in ((1, 1.0), (2, 0.5 + 1 / np.pi)):
        neurons = condensation.Neurons(np.array([number]), np.ones(1), np.nan)
        assert _sums_on_a_flat_branch(neurons, 1.0).largest == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("width", [40, 400])
def test_the_largest_neurons_share_is_between_mean_and_root_of_the_inverse_participation(alike, width):
    """Σ s² ≤ max s ≤ √Σ s² for shares s that add up to one."""
    inverse = 1 / alike.participation(width)
    found = alike.largest_share(width)
    assert np.all((inverse < found) & (found < np.sqrt(inverse)))


def test_the_largest_neurons_share_of_a_condensate_tends_to_what_a_crowd_cannot_hold():
    """Beyond the critical overlap between classes."""
    solution = condensation.solve(tasks.tree(40, (0.5, 0.5), [0, 0], (0.5, 0.25), y_minus=-0.5), T)
    near, far = (solution.largest_share(N) - solution.condensate_share for N in (1600, 100))
    assert np.all(np.abs(near) < np.minimum(0.7 * np.abs(far), 0.025))


def test_law_on_a_flat_branch_has_its_limits():
    assert condensation.universal(1e-3).participation == pytest.approx(1, abs=1e-3)
    for ratio in (100.0, 500.0):  # at the latter W_k/W_1 is no double
        many = condensation.universal(ratio)
        assert many.participation == pytest.approx(ratio, rel=0.02)
        assert many.mean == pytest.approx(3 * ratio, rel=0.02)
    small = condensation.universal(0.05)
    x = 0.15**1.5 / np.sqrt(2)
    two = x / (2 * gamma(1)) * gamma(0.5)  # W_2/W_1
    assert small.probabilities[1] / small.probabilities[0] == pytest.approx(two)
    assert np.all(np.diff(small.probabilities) < 0)


def test_condensed_equations_are_met_and_are_those_of_relu_at_large_sizes(apart):
    assert apart.converged
    known = relu.solve(apart.task, T)
    np.testing.assert_allclose(apart.dual_field, known.dual_field, atol=0.03)
    np.testing.assert_allclose(np.diag(apart.activations), known.outlier_preactivations.max(0), rtol=0.03)
    order = known.outlier_preactivations.argmax(0)
    np.testing.assert_allclose(apart.readouts[:-1], known.outlier_readouts[order], atol=0.03)
    np.testing.assert_allclose(apart.activations[-1], known.bulk_activations, rtol=0.03)


def test_density_along_the_branch_falls_to_its_closed_form(alike):
    """w(r) by an integral over the readouts across the branch, at moderate r, and at r → ∞."""
    radii = np.array([2.0, 30.0, 3000.0])
    found = alike.log_density(0, radii) - np.log(alike.densities[0])
    assert np.all(np.diff(found) < 0)
    assert found[-1] == pytest.approx(0, abs=0.02)
    problem, t = alike.problem, alike.dual_field
    unit = t[0] / np.linalg.norm(t[0])
    across = np.linalg.svd(unit[None])[2][1:]
    grid = np.linspace(-6, 6, 61) * np.sqrt(problem.readout_variance)
    a = 2.0 * unit + grid[:, None, None] * across[0] + grid[None, :, None] * across[1]
    log_g = problem.site.cumulants(a.reshape(-1, 3) @ t.T, 0)[0] @ problem.counts
    exponent = log_g - 0.5 * np.square(a.reshape(-1, 3)).sum(1) / problem.readout_variance
    cell = (grid[1] - grid[0]) ** 2 / (2 * np.pi * problem.readout_variance) ** 1.5
    direct = np.log(np.exp(exponent).sum() * cell) - alike.log_bulk
    assert direct == pytest.approx(alike.log_density(0, radii)[0], abs=1e-3)


def test_one_and_two_neurons_are_weighed_as_by_hand():
    """W_2/W_1 of the code against the integral over one radius."""
    width, c = 400, 0
    task = tasks.clustered(60, overlap=0.1, y_minus=-0.5)
    solution = condensation.solve(task, T)
    noise = solution.noise(width, np.ones(3))
    alone = solution._sums_of(c, width, np.ones(3), noise).neurons
    total = width * (solution.amounts[c] + 3 / width * solution.bulk_amounts[c])
    others = 1 + 2 / (width - 3)
    radii = solution._radii(c, total)

    def density(r):
        r = np.atleast_1d(r)
        return np.exp(solution.log_density(c, r) + solution.held(c, r, width, noise)) / others

    def both(r):
        return float((density(r) * density(np.sqrt(total - r**2)))[0] / np.sqrt(total - r**2))

    middle = np.sqrt(total / 2)
    pair = 2 * quad(both, radii[0], middle, epsrel=1e-6, limit=200)[0]  # the larger radius is eliminated
    one = float(density(np.sqrt(total))[0] / np.sqrt(total))
    ratio = alone.probabilities[1] / alone.probabilities[0]
    assert ratio == pytest.approx(0.5 * (width - 1) * pair / one, rel=0.03)


def test_the_range_of_widths_is_told_as_counted_or_as_a_bound(alike, apart):
    """Without overlap the population lies too near its edge to be counted, and N* is the flat branch's."""
    assert np.all(np.isnan(apart.class_participation))
    assert apart.approximation.endswith(", at most")
    assert "at most" not in alike.approximation
    one = replace(alike)
    vars(one)["population_width"] = np.where(np.arange(3) == 1, alike.crossover_width, alike.population_width)
    assert one.approximation.endswith(", at most")  # for one class


def test_a_coding_neuron_is_held_by_what_inputs_of_its_class_do_not_share(alike):
    """Readouts across the branch, drawn from their prior, times what inputs have of their own in z."""
    width, rng = 400, np.random.default_rng(0)
    noise, t = alike.noise(width, np.ones(3)), alike.dual_field
    for c in range(3):
        count = alike.task.class_counts[c]
        across = rng.standard_normal((20_000, 3)) / 60**0.5
        across -= np.outer(across @ t[c], t[c]) / (t[c] @ t[c])
        own = 0.5**0.5 * rng.standard_normal((20_000, count))
        costs = (
            0.5 * np.square(own).sum(1) * np.sum(across * np.linalg.solve(noise[c], across.T).T, 1) / width
        )
        found = -alike.held(c, np.zeros(1), width, noise)[0]  # at r = 0 nothing leaks to other classes
        assert abs(found - costs.mean()) < 4 * costs.std() / 20_000**0.5


def test_noise_on_an_input_is_what_its_class_does_not_share(alike):
    """T, the bulk's and (1 − ρ) B along the class's own readout; leaks add a hundredth."""
    noise, unit = alike.noise(400, np.ones(3)), alike.dual_field
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    own = np.einsum("cr,crq,cq->c", unit, noise - alike.bulk_noise, unit) - T
    np.testing.assert_allclose(own, 0.5 * alike.amounts, rtol=0.01)


def test_leaks_on_classes_of_different_sizes_are_mean_squares_of_the_activity():
    """Of a coding neuron of class c on one input of class d, by quadrature over what inputs share and own."""
    width, solution = 400, condensation.solve(tasks.clustered(60, (0.5, 0.3, 0.2), overlap=0.5), T)
    unit = solution.dual_field / np.linalg.norm(solution.dual_field, axis=1, keepdims=True)
    noise, sizes = solution.noise(width, np.ones(3)), solution.problem.counts
    nodes = np.linspace(-7, 7, 701)
    phi = np.maximum(0.5**0.5 * (nodes[:, None] + nodes), 0)  # shared part down, own part along
    for d in range(3):
        expected = T * np.eye(3) + solution.bulk_noise[d]
        expected = expected + 0.5 * solution.amounts[d] * np.outer(unit[d], unit[d])
        for c in {0, 1, 2} - {d}:
            radius = np.sqrt(width * solution.amounts[c])
            firm = solution.amounts[c] * unit[c] @ np.linalg.inv(noise[d]) @ unit[c]
            field = radius * unit[c] @ solution.dual_field[d]
            weight = np.exp(field * phi - 0.5 * firm * phi**2 - 0.5 * nodes**2)
            one = weight.sum(1)
            shared = np.exp(sizes[d] * np.log(one) - 0.5 * nodes**2 - sizes[d] * np.log(one).max())
            leak = shared @ ((weight * phi**2).sum(1) / one) / shared.sum()
            expected = expected + solution.amounts[c] * leak * np.outer(unit[c], unit[c])
        np.testing.assert_allclose(noise[d], expected, atol=3e-4 * np.abs(expected).max())


def test_bulk_gives_way_as_two_inputs_of_a_class_say():
    """What b ≪ 1 does is a derivative of log E_v E_ξξ' e^{s(φ+φ') − b(φ−φ')²/4}, here by quadrature."""
    problem = clustered.make_problem(tasks.clustered(6, (1 / 3,) * 3, overlap=0.4), T, "relu", None)
    field = np.eye(3) - 0.3
    firm = 1e-4 * np.array([1.0, 2.0, 3.0])[:, None, None] * np.eye(3)
    places = condensation._places(field, problem)
    free, held = (condensation._bulk(field, problem, places, each) for each in (None, firm))
    v, xi = np.linspace(-7, 9, 81), np.linspace(-7, 9, 201)
    rule = np.exp(-0.5 * v**2)
    own = np.maximum(np.sqrt(0.4) * v[:, None] + np.sqrt(0.6) * xi, 0)
    apart = np.square(own[:, :, None] - own[:, None, :])

    def mean_square(s):
        tilted = np.exp(s * own - 0.5 * xi**2)
        return np.einsum("v,vx,vy,vxy", rule, tilted, tilted, apart) / (rule @ tilted.sum(1) ** 2)

    for k in np.argsort(free.weights)[-60::20]:
        a, b = free.points[k], np.array([1e-4, 2e-4, 3e-4]) * np.square(free.points[k]).sum()
        low, middle, high = ([mean_square(s + x) for s in field @ a] for x in (-0.01, 0.0, 0.01))
        gain = np.log(held.weights[k] / free.weights[k]) + held.log_value - free.log_value
        assert gain == pytest.approx(-0.25 * b @ middle, rel=0.01)
        slopes = np.subtract(high, low) / 0.02
        np.testing.assert_allclose(held.means[k] - free.means[k], -b * slopes / 8, rtol=0.01)


def test_bulk_at_finite_width_does_what_neurons_and_temperature_leave(alike):
    """y t − T t² = κ t² (B + share of the bulk) per class; without limit of width nothing changes."""
    counts = np.array([4.0, 3.0, 2.0])
    held = alike.at_width(100, counts)
    t, y = held.dual_field, alike.problem.targets
    left = np.sum((y - T * t) * t, 1) / (alike.problem.stiffness * np.square(t).sum(1))
    assert held.bulk_fraction == pytest.approx(0.91)
    np.testing.assert_allclose(left, held.amounts + 0.91 * held.bulk_amounts, rtol=1e-6)
    np.testing.assert_allclose(np.square(t).sum(1), np.square(alike.dual_field).sum(1))
    assert np.all(held.bulk_squares < 0.95 * alike.bulk_squares)
    assert np.all(held.amounts > alike.amounts)
    wide = alike.at_width(10**9, counts)
    for name in ("dual_field", "amounts", "bulk_squares", "bulk_noise", "kernel_block", "log_bulk"):
        np.testing.assert_allclose(getattr(wide, name), getattr(alike, name), atol=1e-6, err_msg=name)
    assert wide.approximation != alike.approximation


def test_a_bulk_that_is_not_found_draws_nothing(alike, monkeypatch):
    monkeypatch.setattr(condensation, "MAX_ROUNDS", 1)
    with pytest.warns(UserWarning, match="N = 50 did not converge: .* still change"):
        assert np.all(np.isnan(alike.participation(50)))
    monkeypatch.setattr(condensation, "TOLERANCE", 0.0)
    with pytest.warns(UserWarning, match="N = 50 did not converge"):
        assert np.all(np.isnan(alike.participation(50)))


def test_branches_that_hold_nothing_have_no_participation(alike):
    """Its amounts are below zero: it has not converged, and every number can be looked at all the same."""
    empty = replace(alike, amounts=-alike.amounts, converged=False)
    assert np.all(np.isnan(empty.class_participation))


@pytest.mark.parametrize(
    ("num_inputs", "overlap", "rtol"),
    [(60, 0.25, 0.01), (60, 0.5, 0.01), (120, 0.5, 0.005)],
)
def test_counting_without_limit_of_width_is_the_exact_population(num_inputs, overlap, rtol):
    """Two derivations: neurons on a branch, counted, and the dual, which knows of no branch."""
    task = tasks.clustered(num_inputs, overlap=overlap, y_minus=-0.5)
    exact = clustered.solve(task, T, nonlinearity="relu").class_participation
    found = condensation.solve(task, T)
    np.testing.assert_allclose(found.class_participation, exact, rtol=rtol)
    assert np.all(1 / found.crossover_width < 0.5 * exact)  # a flat branch is far lower
    if overlap > 0.25:
        np.testing.assert_allclose(found.participation(1600) / 1600, exact, rtol=0.06)


def test_softplus_holds_little_on_its_branch_and_stays_condensed():
    task = tasks.clustered(24, overlap=0.5, y_minus=-0.5)
    solution, rectified = (condensation.solve(task, T, nonlinearity=phi) for phi in ("softplus", "relu"))
    assert solution.converged
    radii = np.linspace(condensation.BULK_RADIUS / 24**0.5, 20.0, 2000)
    for c in (0, 1):
        squares = np.trapezoid(np.exp(solution.log_density(c, radii)) * radii**2, radii)
        assert solution.branch_amount(c) == pytest.approx(squares, rel=1e-3)
        assert 0 < squares < 0.1 * solution.amounts[c]
    assert rectified.branch_amount(0) == np.inf
    np.testing.assert_allclose(solution.participation(800), solution.participation(100), rtol=0.15)
    assert np.all(rectified.participation(800) > 5 * rectified.participation(100))


def test_solve_answers_where_the_population_condenses():
    task = tasks.clustered(120, overlap=0.05, y_minus=-0.5)
    for phi in ("relu", "softplus"):
        found = theory.solve(task, Network(nonlinearity=phi), T)
        assert isinstance(found, condensation.Solution)
        assert found.num_outliers == 3
        residual = task.targets - found.predict(task.inputs) - T * found.dual_field[task.labels]
        assert np.abs(residual).max() < 1e-6


@pytest.mark.parametrize(
    ("ratios", "y_minus", "overlap", "variance", "sizes"),
    [
        ((0.5, 0.25, 0.25), 0.3, 0.01, None, 1.0),
        ((0.3, 0.2, 0.2, 0.2, 0.1), -0.5, 0.2, 0.1, 1.0),
        ((0.5, 0.3, 0.2), -0.5, 0.2, None, (0.8, 1.0, 1.3)),
    ],
    ids=["several classes", "five outputs", "inputs of other norms"],
)
def test_outliers_of_alike_inputs_are_a_saddle(ratios, y_minus, overlap, variance, sizes):
    """Equations by hand, the bulk's averages by quadrature over what inputs share and own, all directions."""
    task = tasks.clustered(40, ratios, overlap, y_minus=y_minus)
    sizes = np.broadcast_to(sizes, task.num_classes)  # roots of K0_μμ
    task = replace(task, inputs=task.inputs * sizes[task.labels])
    s = _alike_outliers.solve(task, T, "relu", variance)
    assert s.converged
    sigma_sq, n = variance or 1 / 40, task.class_counts.astype(float)
    kappa, t = sizes**2 * (1 - overlap + n * overlap), s.dual_field
    outliers, bulk = s.outlier_readouts, s.readouts[s.num_outliers :]
    z = kappa * np.maximum(outliers @ t.T, 0)
    np.testing.assert_allclose(s.outlier_preactivations, z, atol=1e-7)
    np.testing.assert_allclose(outliers, sigma_sq * (z * n) @ t, atol=1e-7)
    np.testing.assert_array_equal(s.codes[: s.num_outliers], z > 1e-5)
    nodes = np.linspace(-8, 8, 801)
    preactivations = overlap**0.5 * nodes[:, None] + (1 - overlap) ** 0.5 * nodes
    means, shared, log_g, silence = np.zeros((4, len(n)))
    for c in range(len(n)):
        phi = np.maximum(sizes[c] * preactivations, 0)
        tilted = np.exp(bulk[0] @ t[c] * phi - 0.5 * nodes**2)
        one = tilted.sum(1)
        of_v = (one / one.max()) ** n[c] * np.exp(-0.5 * nodes**2)
        mean = (tilted * phi).sum(1) / one
        means[c], shared[c] = of_v @ np.stack([mean, mean**2], 1) / of_v.sum()
        step = np.log(nodes[1] - nodes[0]) - 0.5 * np.log(2 * np.pi)
        log_g[c] = np.log(of_v.sum()) + n[c] * (np.log(one.max()) + step) + step
        silent = ndtr(-np.sqrt(overlap / (1 - overlap)) * nodes) ** n[c]  # of all of its inputs
        silence[c] = np.log(silent @ np.exp(-0.5 * nodes**2)) + step
    np.testing.assert_allclose(s.activations[-1], means, atol=2e-4)
    np.testing.assert_allclose(bulk[0], sigma_sq * (means * n) @ t, atol=1e-3)
    np.testing.assert_allclose(np.diag(s.kernel_block), shared + np.square(z).sum(0), atol=1e-3)
    # log Z of the bulk at its readout, and that all inputs of silent classes stand below 0
    costs = log_g.sum() - bulk[0] @ bulk[0] / (2 * sigma_sq) - (z < 1e-5) @ silence
    np.testing.assert_allclose(s.costs, costs, atol=0.01)
    squares = np.square(outliers).sum(1) / sigma_sq
    np.testing.assert_allclose(s.population_width, 3 * np.cbrt(4 / squares) * np.exp(2 / 3 * s.costs))
    outputs = np.outer(means, bulk[0]) + z.T @ outliers
    np.testing.assert_allclose(outputs, task.class_targets - T * t, atol=1e-3)
    directions = np.random.default_rng(0).standard_normal((20_000, len(outliers[0])))
    directions = np.concatenate([directions, outliers])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    load = sigma_sq * np.maximum(directions @ t.T, 0) ** 2 @ (n * kappa)
    assert load.max() < 1 + 1e-6
    np.testing.assert_allclose(load[-len(outliers) :], 1, atol=1e-6)


def test_outliers_of_many_inputs_are_the_condensates():
    """What the leading order neglects, the scatter of the bulk's readouts, falls with P."""
    gaps = []
    for num_inputs in (40, 320):
        task = tasks.clustered(num_inputs, overlap=0.4 / num_inputs, y_minus=-0.5)
        one, exact = _alike_outliers.solve(task, T, "relu", None), condensation.solve(task, T)
        gaps.append(
            [np.abs(getattr(one, k) - getattr(exact, k)).max() for k in ("kernel_block", "dual_field")]
        )
        np.testing.assert_allclose(one.costs, exact.costs, rtol=0.1)
        np.testing.assert_allclose(one.population_width, exact.crossover_width, rtol=0.6)
    assert np.all(np.array(gaps[1]) < 0.3 * np.array(gaps[0]))
    assert gaps[1][0] < 0.01


def test_one_output_and_two_classes():
    task = tasks.clustered(40, (0.5, 0.5), 0.1, targets=[[1.0], [-1.0]])
    solution = condensation.solve(task, T)
    assert solution.converged
    np.testing.assert_allclose(solution.amounts[0], solution.amounts[1])
    exact = clustered.solve(task, T, nonlinearity="relu").class_participation
    np.testing.assert_allclose(solution.class_participation, exact, rtol=0.02)


def test_costs_beyond_the_range_of_doubles():
    """1,500 unrelated inputs to be silent on: e^{−1040} a neuron, and one per class all the same."""
    solution = condensation.solve(tasks.clustered(2000, overlap=0.0, y_minus=-0.5), T)
    assert solution.costs.max() > 745
    assert all(each.probabilities[0] == 1 for each in solution.neurons(30))


@pytest.mark.slow
@pytest.mark.parametrize("width", [50, pytest.param(200, marks=pytest.mark.weekly)])
def test_sampled_networks_have_the_participation_and_the_kernel(alike, width):
    """No fitted number: ReLU networks at P = 60, ρ = ½, from the prior."""
    samples = sample(
        Posterior(alike.task, Network(1, width, "relu"), T),
        jax.random.key(width),
        48,
        num_chains=4,
        num_warmup=150,
        thinning=2,
    )
    phi, labels = samples.activations(), alike.task.labels
    inverse = (1 / coding.class_participation(phi, labels)).mean((1, 2))
    value, error = 1 / inverse.mean(), inverse.std(ddof=1) / 2 / inverse.mean() ** 2
    expected = 1 / np.mean(1 / alike.participation(width))
    assert abs(value - expected) < 4 * error + 0.03 * expected
    zero = phi[..., labels == 0].mean(-1)
    kernel = np.square(zero).mean()
    exact = clustered.solve(alike.task, T, nonlinearity="relu")
    assert kernel == pytest.approx(exact.kernel_block[0, 0] + exact.kernel_diagonal[0] / 30, rel=0.02)
    np.testing.assert_allclose(np.diag(alike.kernel_block), np.diag(exact.kernel_block), rtol=0.01)
    between = ~np.eye(
        3, dtype=bool
    )  # what a coding neuron leaks to other classes is left out: 8 % of it here
    missing = 1 - alike.kernel_block[between] / exact.kernel_block[between]
    assert np.all((missing > 0.05) & (missing < 0.1))


def test_two_neurons_that_share_a_part_cost_entropy_in_proportion_to_the_inputs(apart):
    """On a flat branch the second one costs C, less the width of the bulk that it leaves; ends are alike."""
    angles = np.linspace(0, np.pi / 2, 41)
    free = apart.sharing(1, angles, 100_000)  # wide: nothing holds neurons down
    np.testing.assert_allclose(free, free[::-1], atol=1e-6)
    bulk = 0.5 * np.log(apart.task.num_inputs / (2 * np.pi))
    assert free[20] == pytest.approx(apart.costs[1], abs=0.05 * apart.costs[1])
    assert free[20] > apart.sharing(0, angles, 100_000)[20] > bulk
    half = condensation.solve(tasks.toy(120, y_minus=-0.5), T).sharing(1, angles, 100_000)
    assert free[20] / half[20] == pytest.approx(2, abs=0.05)


def test_finite_width_makes_sharing_dearer():
    """The same from w(r) of N → ∞ is less by what two neurons leak more than one, some thermal energies."""
    solution, angles = condensation.solve(tasks.toy(40, y_minus=-0.5), T), np.linspace(-0.1, np.pi / 4, 40)
    radius = np.sqrt(40 * solution.amounts[1])
    free = -sum(solution.log_density(1, radius * part) for part in (np.cos(angles), np.sin(angles)))
    dearer = np.ptp(solution.sharing(1, angles, 40)) - np.ptp(free)
    assert 1 < dearer < 4
    noise = solution.noise(40, np.ones(3))
    leaks = [solution.held(1, radius * np.array([share]), 40, noise)[0] for share in (1, 0.5**0.5)]
    assert dearer == pytest.approx(leaks[0] - 2 * leaks[1], rel=0.5)


def test_sharing_is_not_drawn_where_the_width_is_not_solved(alike, monkeypatch):
    monkeypatch.setattr(condensation.Solution, "at_width", lambda self, *_: replace(self, converged=False))
    assert np.all(np.isnan(alike.sharing(0, [0.0, 0.5], 40)))


@pytest.mark.parametrize("shared", [0.0, 0.05])
def test_density_at_many_radii_beside_the_bulk_is_that_at_each(shared):
    """Angles below 0, where the second neuron has the other sign, and as many radii as a figure has."""
    ratios = (0.5, 0.25, 0.25)
    given = tasks.tree(24, ratios, (0, 0, 0), (0.5, shared)) if shared else tasks.clustered(24, ratios, 0.5)
    solution, radii = condensation.solve(given, T), np.linspace(-0.3, 2.0, 100)
    found = solution.log_density(1, radii)
    each = [solution.log_density(1, radius[None])[0] for radius in radii[::9]]
    np.testing.assert_allclose(found[::9], each, atol=1e-3 * np.ptp(each))
    assert np.all(np.isfinite(solution.sharing(1, np.linspace(-0.1, np.pi / 4, 40), 40)))
