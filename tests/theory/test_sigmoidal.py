"""The sigmoidal theory against brute force, known values, limits and a sampled network."""

from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, sample
from coding_schemes.theory import _convex_dual, clustered, deep_sigmoidal, sigmoidal
from scipy.special import erf, logsumexp, ndtr
from scipy.stats import norm

RATIOS = (0.5, 0.25, 0.25)


def one_hot(y_minus, m=3):
    return tasks.one_hot(m, 1.0, y_minus)


def classes(num_inputs, targets, ratios=RATIOS):
    """What the solver reads of a task, without drawing its inputs."""
    counts = np.array(ratios) * num_inputs
    task = object.__new__(tasks.Task)
    given = {"class_counts": counts, "class_targets": np.asarray(targets, float), "is_orthogonal": True}
    vars(task).update(given, name="classes")
    return task


def brute_force_dual(field, task, temperature):
    """D(t) by a dense grid over a and Gauss–Hermite over z: shares no code with the solver."""
    counts, targets = np.asarray(task.class_counts, float), task.class_targets
    num_inputs, m = counts.sum(), targets.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    phi = 0.5 * (1 + erf(np.sqrt(np.pi) * nodes / 2))
    axis = np.linspace(-6, 6, 601)
    points = np.stack(np.meshgrid(*[axis] * m, indexing="ij"), -1).reshape(-1, m)
    exponent = -0.5 * num_inputs * np.sum(points**2, 1) + 0.5 * m * np.log(num_inputs / (2 * np.pi))
    for count, row in zip(counts, field):
        s = np.linspace(-1, 1, 4001) * np.abs(points @ row).max()
        log_g = np.log(np.exp(np.outer(s, phi)) @ weights / np.sqrt(2 * np.pi))
        exponent += count * np.interp(points @ row, s, log_g)
    value = logsumexp(exponent) + m * np.log(axis[1] - axis[0])
    return value + counts @ np.sum(0.5 * temperature * field**2 - field * targets, 1)


@pytest.mark.parametrize(
    ("ratios", "targets"),
    [
        ((1.0,), [[1.0]]),
        ((0.6, 0.4), [[1.0], [-1.0]]),
        ((0.5, 0.5), [[1.0, 0.2], [0.2, 1.0]]),
        ((0.5, 0.25, 0.25), [[1.0, 0.0], [0.3, 1.0], [0.5, -0.5]]),
    ],
    ids=["one output", "binary", "two outputs", "three classes, two outputs"],
)
def test_optimum_and_free_energy_agree_with_brute_force(ratios, targets):
    task, temperature = classes(20, targets, ratios), 0.02
    solution = sigmoidal.solve(task, temperature)
    field = solution.dual_field
    value = brute_force_dual(field, task, temperature)
    assert solution.converged
    np.testing.assert_allclose(-solution.free_energy, value, atol=1e-3)  # brute force interpolates log g
    for index in np.ndindex(field.shape):
        shift = np.zeros_like(field)
        shift[index] = 0.02
        up, down = (brute_force_dual(field + sign * shift, task, temperature) for sign in (1, -1))
        assert abs(up - down) / 0.04 < 2e-3 * 20
        assert min(up, down) > value


@pytest.mark.parametrize("method", ["quadrature", "laplace"])
@pytest.mark.parametrize("temperature", [0.0, 1e-3, 0.05])
def test_gradient_of_the_dual_is_its_finite_difference(method, temperature):
    task = classes(100, one_hot(0.5))
    problem = _convex_dual.Problem(task.class_counts, task.class_targets, temperature, 0.01, "sigmoidal")
    field = sigmoidal.solve(task, 0.02).dual_field
    rng = np.random.default_rng(0)
    for sides, occupancies in [
        ([None], None),
        ([np.array([1, 1, -1]), np.array([-1, 1, 1])], None),
        ([np.array([1, 1, -1]), np.array([-1, 1, 1])], np.array([0.3, 0.7])),
    ]:
        dual = _convex_dual.Dual(problem, method, sides, occupancies)
        _, gradient, *parts = dual.value_and_gradient(field)
        hessian = dual.hessian(*parts)
        direction = rng.standard_normal(field.shape)
        step = 1e-4
        (up, g_up, *_), (down, g_down, *_) = (
            dual.value_and_gradient(field + sign * step * direction) for sign in (1, -1)
        )
        np.testing.assert_allclose((up - down) / (2 * step), gradient @ direction.ravel(), rtol=2e-4)
        if method == "quadrature":  # Laplace's Hessian leaves out relative corrections of 1/P
            np.testing.assert_allclose(
                (g_up - g_down) / (2 * step), hessian @ direction.ravel(), rtol=1e-4, atol=1e-3
            )


def test_every_start_climbs_to_the_maximum_on_its_side_of_the_valley():
    """Of one output, where the ascent keeps the order of its starts; the lower maximum is the shorter one."""
    steep = lambda z: jax.nn.sigmoid(8 * (z - 2))  # noqa: E731
    problem = _convex_dual.make_problem(classes(40, [[1.0], [0.2]], (0.5, 0.5)), 0.01, steep, None, None)
    field, starts = np.array([[6.0], [1.2]]), np.linspace(-2, 8, 2001)[:, None]
    maxima, owner = _convex_dual.find_maxima(field, problem, starts=starts)
    height = _convex_dual.log_density(starts, field, problem, None)
    low, high = 1 + np.flatnonzero((height[1:-1] > height[:-2]) & (height[1:-1] > height[2:]))
    np.testing.assert_allclose(maxima, starts[[high, low]], atol=0.005)
    valley = low + np.argmin(height[low:high])
    assert height[valley] < height[low] < height[high]
    sure = np.abs(np.arange(2001) - valley) > 2
    np.testing.assert_array_equal(owner[sure], (np.arange(2001) < valley)[sure])


def test_paper_figure_4_values():
    solution = sigmoidal.solve(classes(500, one_hot(0.5)), 1e-4)
    assert solution.converged
    assert solution.residual <= 1e-8
    expected = {(1, 1, 0): 0.315, (1, 0, 1): 0.315, (0, 1, 1): 0.330, (1, 1, 1): 0.040}
    for code, fraction in expected.items():
        assert solution.occupancy(code) == pytest.approx(fraction, abs=6e-4)
    assert len(solution.probabilities) == 4
    row = solution.codes.tolist().index([True, True, False])
    np.testing.assert_allclose(solution.readouts[row], [1.731, 1.572, -0.338], atol=2e-3)
    np.testing.assert_allclose(solution.activations[row], [0.903, 0.930, 0.099], atol=2e-3)


def test_three_codes_at_small_off_target():
    solution = sigmoidal.solve(classes(500, one_hot(0.1)), 1e-3)
    assert solution.codes.astype(int).tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    np.testing.assert_allclose(solution.probabilities, 1 / 3, atol=0.01)


def test_one_code_at_high_temperature():
    solution = sigmoidal.solve(classes(500, one_hot(0.5)), 0.1)
    np.testing.assert_allclose(solution.mean_readouts, [[0.872, 0.721, 0.721]], atol=1e-3)
    np.testing.assert_allclose(solution.training_residual, 0.1 * solution.dual_field)


@pytest.mark.parametrize("temperature", [0.0, 1e-3, 0.1])
def test_residual_is_temperature_times_dual_field(temperature):
    task = classes(200, one_hot(0.3))
    solution = sigmoidal.solve(task, temperature)
    points, weights = sigmoidal.readout_ensemble(solution)
    z = np.linspace(-10, 10, 201)
    phi = np.asarray(0.5 * (1 + erf(np.sqrt(np.pi) * z / 2)))
    for c in range(3):
        tilted = np.exp((points @ solution.dual_field[c])[:, None] * phi - 0.5 * z**2)
        mean = (tilted @ phi) / tilted.sum(1)
        residual = task.class_targets[c] - (weights * mean) @ points
        np.testing.assert_allclose(residual, temperature * solution.dual_field[c], atol=1e-6)


def test_energy_is_the_mean_of_u_per_neuron():
    """½ T Σ n_c t_c² + ½ ⟨a²⟩/σ_a² + ½ Σ_c n_c ⟨z²⟩_c, one output and unequal classes, by sums over grids."""
    solution = sigmoidal.solve(classes(40, [[1.0], [0.2]], (0.75, 0.25)), 0.05)
    counts, field = np.array([30.0, 10.0]), solution.dual_field[:, 0]
    a, z = np.linspace(-4, 4, 2001), np.linspace(-10, 10, 801)
    phi, prior = 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2)), norm.pdf(z) * (z[1] - z[0])
    tilted = np.exp(a[:, None, None] * field[:, None] * phi) * prior
    exponent = -20 * a**2 + np.log(tilted.sum(2)) @ counts
    weights = np.exp(exponent - exponent.max())
    weights /= weights.sum()
    squares = weights @ (tilted @ z**2 / tilted.sum(2))
    expected = 0.5 * (0.05 * counts @ field**2 + 40 * weights @ a**2 + counts @ squares)
    assert solution.energy == pytest.approx(expected, rel=1e-5)


def test_laplace_approaches_quadrature_as_one_over_p():
    errors = []
    for num_inputs in (200, 800):
        task = classes(num_inputs, one_hot(0.5))
        exact, laplace = (sigmoidal.solve(task, 1e-3, method=m) for m in ("quadrature", "laplace"))
        assert exact.converged
        assert laplace.converged
        codes = exact.codes[exact.probabilities > 1e-3]
        difference = [exact.occupancy(code) - laplace.occupancy(code) for code in codes]
        assert np.abs(difference).max() < 0.005
        errors.append(abs(exact.free_energy - laplace.free_energy))
    assert errors[1] < 0.5 * errors[0] < 0.05


@pytest.mark.parametrize("variance", [None, 0.004])
def test_energy_by_laplace_has_the_scatter_of_readouts(variance):
    """½ kT of each readout: of one more without a target exactly, of three to what ⟨z²⟩ lacks of order 1."""
    targets, options = one_hot(0.5), {"method": "laplace", "readout_variance": variance}
    more = np.append(targets, np.zeros((3, 1)), axis=1)
    four, three = (sigmoidal.solve(classes(200, y), 0.2, **options) for y in (more, targets))
    assert four.energy - three.energy == pytest.approx(0.5, abs=1e-6)
    exact = sigmoidal.solve(classes(200, targets), 0.2, readout_variance=variance)
    assert len(exact.codes) == 1
    assert three.energy == pytest.approx(exact.energy, abs=0.3)  # 1.5 without the scatter


@pytest.mark.parametrize("m", [4, 5])
def test_more_outputs_by_laplace(m):
    task = classes(400, one_hot(0.0, m), np.full(m, 1 / m))
    solution = sigmoidal.solve(task, 1e-2)
    assert solution.converged
    assert solution.method == "laplace"
    assert "order 1/P" in solution.approximation
    assert "exact" not in solution.approximation
    sizes = solution.codes.sum(1)  # by symmetry all codes of one size are equally occupied
    for size in np.unique(sizes):
        np.testing.assert_allclose(
            solution.probabilities[sizes == size], solution.probabilities[sizes == size][0], atol=1e-6
        )
    assert solution.probabilities.sum() == pytest.approx(1)


def test_cold_and_warm_starts_agree():
    task = classes(500, one_hot(0.2))
    cold = sigmoidal.solve(task, 0.02)
    warm = sigmoidal.solve(task, 0.02, start=sigmoidal.solve(task, 0.2).dual_field)
    np.testing.assert_allclose(warm.dual_field, cold.dual_field, atol=1e-6)
    np.testing.assert_allclose(warm.probabilities, cold.probabilities, atol=1e-6)


def test_line_is_continued_with_few_steps():
    """A point starts from its neighbor: fewer Newton steps than from nothing, the same accuracy."""
    task = classes(500, one_hot(0.0))
    line = sigmoidal.scan(task, 0.01, [one_hot(y) for y in np.linspace(0, 0.2, 21)])
    assert all(point.residual <= 1e-8 for point in line)
    assert np.mean([point.num_steps for point in line[1:]]) < 0.5 * line[0].num_steps


def test_classes_of_equal_size_are_exchangeable():
    task = classes(300, one_hot(0.5))
    swapped = classes(300, one_hot(0.5)[:, [1, 0, 2]], RATIOS)
    a, b = (sigmoidal.solve(t, 0.01) for t in (task, swapped))
    np.testing.assert_allclose(a.dual_field[:, [1, 0, 2]], b.dual_field, atol=1e-7)
    np.testing.assert_allclose(a.dual_field[1, 1], a.dual_field[2, 2], atol=1e-7)


def test_odd_nonlinearity_has_mirrored_codes():
    solution = sigmoidal.solve(classes(200, [[1.0], [-1.0]], (0.5, 0.5)), 0.01, nonlinearity="tanh")
    assert solution.converged
    assert sorted(solution.codes.astype(int).tolist()) == [[0, 1], [1, 0]]
    np.testing.assert_allclose(solution.probabilities, 0.5, atol=1e-6)
    custom = sigmoidal.solve(classes(200, [[1.0], [-1.0]], (0.5, 0.5)), 0.01, nonlinearity=jnp.tanh)
    np.testing.assert_allclose(custom.dual_field, solution.dual_field)


@pytest.mark.parametrize(
    ("case", "free_energy", "probabilities", "readout", "field"),
    [
        (
            (classes(500, one_hot(0.5)), 1e-4, {}),
            1874.353824028,
            [0.330423206504, 0.314758969146, 0.314758969146, 0.040058855204],
            [-0.335648925965, 1.612216989034, 1.612216989034],
            [4.819296022371, -0.665775521965, -0.665775521965],
        ),
        (
            (classes(500, one_hot(0.5)), 0.01, {}),
            1762.428524134,
            [0.30714884518, 0.30137855997, 0.30137855997, 0.090094034879],
            [-0.304130176205, 1.514217151714, 1.514217151714],
            [4.708077985635, -0.647172109081, -0.647172109081],
        ),
        (
            (classes(500, one_hot(0.5)), 0.01, {"method": "laplace"}),
            1762.435488457,
            [0.307052826059, 0.301361830274, 0.301361830274, 0.090223513393],
            [-0.303998478914, 1.514172962465, 1.514172962465],
            [4.707894512361, -0.647157183751, -0.647157183751],
        ),
        (
            (
                classes(120, one_hot(0.25, 4), (0.4, 0.3, 0.2, 0.1)),
                0.01,
                {"nonlinearity": lambda z: jax.nn.sigmoid(3 * z)},
            ),
            589.274578112,
            [0.175047927354, 0.16186523394, 0.153404117337, 0.134035400044],
            [-0.95391291611, 1.3554928141, 1.380671593257, 1.405854846555],
            [5.621117726646, -0.957435972144, -0.91643323201, -0.881078132437],
        ),
    ],
    ids=["low T", "quadrature", "laplace", "four classes"],
)
def test_numbers_of_an_independent_implementation(case, free_energy, probabilities, readout, field):
    """Found by Newton's method alone on a lattice of spacing 0.9 with a cutoff of 33."""
    task, temperature, options = case
    solution = sigmoidal.solve(task, temperature, **options)
    assert solution.residual <= 1e-9
    np.testing.assert_allclose(solution.free_energy, free_energy, atol=1e-6)
    np.testing.assert_allclose(solution.probabilities[:4], probabilities, atol=1e-6)
    np.testing.assert_allclose(solution.readouts[0], readout, atol=1e-6)
    np.testing.assert_allclose(solution.dual_field[0], field, atol=1e-6)


# --- restricted schemes -------------------------------------------------------------------------


def test_restriction_to_the_equilibrium_codes_changes_nothing():
    task = classes(500, one_hot(0.5))
    free = sigmoidal.solve(task, 1e-3)
    same = sigmoidal.solve(task, 1e-3, codes=free.codes)
    frozen = sigmoidal.solve(task, 1e-3, codes=free.codes, occupancies=free.probabilities)
    for scheme in (same, frozen):
        np.testing.assert_allclose(scheme.free_energy, free.free_energy, atol=1e-4)
        np.testing.assert_allclose(scheme.dual_field, free.dual_field, atol=1e-4)
        assert scheme.exists.all()


def test_every_restriction_costs_free_energy():
    task = classes(500, one_hot(0.1))
    free = sigmoidal.solve(task, 1e-3)
    one_hot_codes = np.eye(3, dtype=int)
    single = sigmoidal.solve(task, 1e-3, codes=one_hot_codes)
    mixed = sigmoidal.solve(task, 1e-3, codes=[*one_hot_codes, [1, 1, 0], [1, 0, 1], [0, 1, 1]])
    frozen = sigmoidal.solve(task, 1e-3, codes=mixed.codes, occupancies=np.full(6, 1 / 6))
    assert free.free_energy <= mixed.free_energy + 1e-3 < frozen.free_energy
    assert free.free_energy < single.free_energy - 1
    assert single.converged
    assert frozen.converged
    np.testing.assert_allclose(frozen.probabilities, 1 / 6)
    assert frozen.residual <= 1e-8


# --- densities and kernels ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def four_codes():
    return sigmoidal.solve(classes(500, one_hot(0.5)), 0.01)


@pytest.fixture(scope="module")
def frozen():
    """The four codes, but at other occupancies, at which all of them exist."""
    return held_at(0.3, 0.28, 0.3, 0.12)


@pytest.fixture(scope="module")
def forced():
    """The same where one has no maximum of its own."""
    found = held_at(0.4, 0.3, 0.2, 0.1)
    assert found.exists.sum() == 3
    return found


def held_at(*shares):
    codes = [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]
    return sigmoidal.solve(classes(500, one_hot(0.5)), 0.01, codes=codes, occupancies=shares)


@pytest.mark.parametrize("row", [None, 0, 3])
@pytest.mark.parametrize("scheme", ["four_codes", "frozen"])
def test_readout_density_is_normalised_and_has_the_right_moments(scheme, row, request):
    solution, grid = request.getfixturevalue(scheme), np.linspace(-4, 4, 4001)
    for component in range(3):
        density = sigmoidal.readout_density(solution, component, grid, row)
        mass = np.trapezoid(density, grid)
        mean = np.trapezoid(density * grid, grid)
        rows = solution.mean_readouts[:, component]
        expected = solution.probabilities @ rows if row is None else rows[row]
        assert mass == pytest.approx(1, abs=3e-5)  # of a spline over half standard deviations
        assert mean == pytest.approx(expected, abs=2e-3)


def test_readout_density_agrees_with_brute_force_in_one_dimension():
    task = classes(40, [[1.0], [0.2]], (0.5, 0.5))
    solution = sigmoidal.solve(task, 0.05)
    grid = np.linspace(-4, 4, 2001)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    phi = 0.5 * (1 + erf(np.sqrt(np.pi) * nodes / 2))
    exponent = -20 * grid**2
    for count, t in zip(task.class_counts, solution.dual_field[:, 0]):
        exponent += count * np.log(np.exp(np.outer(grid * t, phi)) @ weights)
    exact = np.exp(exponent - exponent.max())
    exact /= np.trapezoid(exact, grid)
    np.testing.assert_allclose(sigmoidal.readout_density(solution, 0, grid), exact, atol=1e-4 * exact.max())


def test_measured_occupancies_are_the_peaks_where_codes_are_sharp(four_codes):
    codes = np.array(list(product((False, True), repeat=3)))
    measured = sigmoidal.measured_occupancies(four_codes, codes)
    assert measured.sum() == pytest.approx(1)
    np.testing.assert_allclose(measured, [four_codes.occupancy(code) for code in codes], atol=2e-3)


def test_neurons_of_a_solution_by_laplace_are_sampled(four_codes):
    """Against quadrature, where both can be had; and for four classes and a nonlinearity of one's own."""
    codes = np.array(list(product((False, True), repeat=3)))
    by_laplace = sigmoidal.solve(classes(500, one_hot(0.5)), 0.01, method="laplace")
    exact, sampled = (sigmoidal.measured_occupancies(s, codes) for s in (four_codes, by_laplace))
    np.testing.assert_allclose(sampled, exact, atol=2e-3)
    exact, sampled = (sigmoidal.occupancy_covariance(s, codes) for s in (four_codes, by_laplace))
    np.testing.assert_allclose(sampled, exact, atol=2e-3)
    grid = np.linspace(-3, 3, 301)
    for row in (None, 0):
        exact, sampled = (sigmoidal.readout_density(s, 1, grid, row) for s in (four_codes, by_laplace))
        np.testing.assert_allclose(sampled, exact, atol=0.02 * exact.max())
        z = np.linspace(-4, 4, 81)
        exact, sampled = (sigmoidal.preactivation_density(s, row, 2, z) for s in (four_codes, by_laplace))
        np.testing.assert_allclose(sampled, exact, atol=2e-3)
    task = classes(120, one_hot(0.25, 4), (0.4, 0.3, 0.2, 0.1))
    own = sigmoidal.solve(task, 0.01, nonlinearity=lambda z: jax.nn.sigmoid(3 * z))
    measured = sigmoidal.measured_occupancies(own, own.codes)
    assert measured.sum() == pytest.approx(1, abs=0.01)
    np.testing.assert_allclose(measured, own.probabilities, atol=0.02)


def test_measured_occupancies_are_those_of_single_neurons_below_the_critical_temperature():
    """Neurons drawn from the theory with their inputs one by one, and told by their mean activations."""
    solution = sigmoidal.solve(classes(96, one_hot(0.25)), 0.1)
    codes = np.array(list(product((False, True), repeat=3)))
    measured = sigmoidal.measured_occupancies(solution, codes)
    rng = np.random.default_rng(0)
    points, weights = sigmoidal.readout_ensemble(solution)
    readouts = points[rng.choice(len(points), 4000, p=weights)]
    z = np.linspace(-7, 7, 1401)
    phi = 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2))
    means = []
    for count, t in zip((48, 24, 24), solution.dual_field):
        log_h = (readouts @ t)[:, None] * phi - 0.5 * z**2
        cumulative = np.cumsum(np.exp(log_h - log_h.max(axis=1, keepdims=True)), axis=1)
        pairs = zip(rng.random((4000, count)), cumulative)
        means.append([np.interp(u * c[-1], c, phi).mean() for u, c in pairs])
    found = np.array([np.mean(np.all((np.array(means).T > 0.5) == code, axis=1)) for code in codes])
    error = np.sqrt(measured * (1 - measured) / 4000)
    assert np.all(np.abs(found - measured) < 4 * error + 0.005)
    normal = []  # the same for all neurons at once, class means being normal
    for count, t in zip((48, 24, 24), solution.dual_field):
        log_h = (points @ t)[:, None] * phi - 0.5 * z**2
        h = np.exp(log_h - log_h.max(axis=1, keepdims=True))
        mean, square = h @ phi / h.sum(1), h @ phi**2 / h.sum(1)
        normal.append(ndtr((mean - 0.5) * np.sqrt(count / (square - mean**2))))
    active = np.transpose(normal)
    by_code = [weights @ np.prod(np.where(code, active, 1 - active), axis=1) for code in codes]
    np.testing.assert_allclose(measured, by_code, atol=1e-5)
    by_peak = np.array([solution.occupancy(code) for code in codes])
    assert np.abs(found - by_peak).max() > 0.05  # where the two notions of a code come apart


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_occupancies_fluctuate_as_in_gaussian_conditioning(temperature, four_codes):
    """One output, by sums over a grid and Gauss–Hermite; and for three outputs, what must hold of any."""
    codes = np.array(list(product((False, True), repeat=3)))
    task = classes(40, [[1.0], [0.2]], (0.5, 0.5))
    pairs = np.array(list(product((False, True), repeat=2)))
    solution = sigmoidal.solve(task, temperature)
    found = sigmoidal.occupancy_covariance(solution, pairs)
    grid = np.linspace(-4, 4, 4001)
    density = sigmoidal.readout_density(solution, 0, grid)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    phi = 0.5 * (1 + erf(np.sqrt(np.pi) * nodes / 2))
    moments = []
    for t in solution.dual_field[:, 0]:
        tilted = np.exp(np.outer(grid * t, phi)) * weights
        tilted /= tilted.sum(axis=1, keepdims=True)
        moments.append((tilted @ phi, tilted @ phi**2 - (tilted @ phi) ** 2))
    means, variances = (np.array([pair[k] for pair in moments]) for k in (0, 1))
    p = density / density.sum()
    active = norm.cdf((means - 0.5) * np.sqrt(20 / variances))
    indicator = np.array([np.prod(np.where(code[:, None], active, 1 - active), axis=0) for code in pairs])
    statistics = 20 * grid * means
    within = np.diag([(p * grid**2 * v).sum() * 20 for v in variances])
    covariance = np.cov(np.concatenate([indicator, statistics]), aweights=p, bias=True)
    own = np.diag(indicator @ p) - np.outer(indicator @ p, indicator @ p)
    hessian = covariance[4:, 4:] + within + temperature * 20 * np.eye(2)
    mixed = covariance[:4, 4:]
    np.testing.assert_allclose(found, own - mixed @ np.linalg.inv(hessian) @ mixed.T, atol=2e-4)
    scatter = np.diag(sigmoidal.occupancy_covariance(four_codes, codes))
    shares = sigmoidal.measured_occupancies(four_codes, codes)
    assert np.all(scatter <= shares * (1 - shares) + 1e-12)
    assert scatter.max() < 0.01 < (shares * (1 - shares)).max()  # far less than independent neurons
    np.testing.assert_allclose(sigmoidal.occupancy_covariance(four_codes, codes).sum(axis=0), 0, atol=1e-9)


@pytest.mark.slow
def test_occupancies_fluctuate_so_in_sampled_networks():
    """Neurons with each code in networks of 16, whose codes change during a run; independent ones fail."""
    codes = np.array(list(product((False, True), repeat=3)))
    task = tasks.toy(16, RATIOS, y_minus=0.5)
    given = Posterior(task, Network(1, 16, "sigmoidal"), 0.02)
    samples = sample(
        given, jax.random.key(0), num_samples=120, num_chains=4, num_warmup=60, moves=("recode",), thinning=3,
        method=HMC(1.0, 38),
    )  # fmt: skip
    phi = np.asarray(given.network.phi(jnp.asarray(samples.preactivations[0])))
    found = coding.codes(phi, task.labels)
    counts = np.stack([np.all(found == code, axis=-1).sum(-1) for code in codes], axis=-1)
    solution = sigmoidal.solve(task, 0.02)
    scatter = np.sqrt(16 * np.diag(sigmoidal.occupancy_covariance(solution, codes)).clip(0))
    moving = scatter > 0.5
    assert moving.sum() >= 2
    shares, found = sigmoidal.measured_occupancies(solution, codes)[moving], counts.std((0, 1))[moving]
    np.testing.assert_allclose(found, scatter[moving], rtol=0.25)
    assert not np.allclose(found, np.sqrt(16 * shares * (1 - shares)), rtol=0.25)


@pytest.mark.parametrize("scheme", ["four_codes", "frozen", "forced"])
def test_preactivation_density_carries_the_activation_of_its_code(scheme, request):
    """Of all codes together, that of each by its share."""
    solution, z = request.getfixturevalue(scheme), np.linspace(-8, 8, 2001)
    phi = 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2))
    for row in (None, 0, 1, 2, 3):
        for c in range(3):
            density = sigmoidal.preactivation_density(solution, row, c, z)
            assert np.trapezoid(density, z) == pytest.approx(1, abs=1e-6)
            mean = np.trapezoid(density * phi, z)
            rows = solution.activations[:, c]
            expected = solution.probabilities @ rows if row is None else rows[row]
            assert mean == pytest.approx(expected, abs=2e-3)
            cdf = sigmoidal.preactivation_cdf(solution, row, c, z)
            assert cdf[-1] == pytest.approx(1)
            assert cdf[np.searchsorted(np.cumsum(density), density.sum() / 2)] == pytest.approx(0.5, abs=0.01)


def test_kernel_is_class_block_plus_diagonal(four_codes):
    labels = np.repeat([0, 1, 2], [4, 2, 2])
    kernel = four_codes.kernel(labels)
    activations, fractions = four_codes.activations, four_codes.probabilities
    np.testing.assert_allclose(kernel[0, 1], fractions @ activations[:, 0] ** 2, atol=2e-3)
    np.testing.assert_allclose(kernel[0, 7], fractions @ (activations[:, 0] * activations[:, 2]), atol=2e-3)
    assert np.all(np.linalg.eigvalsh(kernel) > 0)
    z = np.linspace(-8, 8, 2001)
    phi_sq = (0.5 * (1 + erf(np.sqrt(np.pi) * z / 2))) ** 2
    square = np.trapezoid(sigmoidal.preactivation_density(four_codes, None, 1, z) * phi_sq, z)
    np.testing.assert_allclose(kernel[5, 5], square, atol=1e-5)


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("solver", [sigmoidal, deep_sigmoidal])
def test_what_is_unbounded_on_any_side_is_refused(solver, sign):
    """Above, below or both; to the right, to the left or both."""
    depth = () if solver is sigmoidal else (2,)
    for grown in (lambda z: z, jax.nn.relu, lambda z: jax.nn.relu(-z), jax.nn.softplus, jnp.square):
        with pytest.raises(ValueError, match="is not bounded"):
            solver.solve(classes(20, one_hot(0.5)), *depth, 0.01, nonlinearity=lambda z: sign * grown(z))  # noqa: B023


def test_residual_of_a_search_is_its_largest_error():
    """At D = Σ_i n_i [cosh(x_i) − y_i x_i] a search is stopped early: it ends at the worst of its entries."""
    counts, targets = np.array([1.0, 2.0]), np.array([[0.0, 0.1], [0.2, 30.0]])
    scale, y = np.repeat(counts, 2), targets.ravel()

    def value_and_gradient(field):
        x = field.ravel()
        return scale @ (np.cosh(x) - y * x), scale * (np.sinh(x) - y), x, None

    dual = SimpleNamespace(problem=SimpleNamespace(counts=counts), rough=False)
    dual.value_and_gradient, dual.hessian = value_and_gradient, lambda x, _: np.diag(scale * np.cosh(x))
    for tolerance in (10.0, 1.0, 0.1):
        field, residual, *_ = _convex_dual.minimum(dual, np.zeros((2, 2)), tolerance)
        assert residual == pytest.approx(np.abs(np.sinh(field) - targets).max())
        assert 0 < residual <= tolerance


def test_failure_to_converge_is_reported(monkeypatch):
    monkeypatch.setattr(_convex_dual, "MAX_STEPS", 1)
    with pytest.warns(UserWarning, match="did not converge"):
        solution = sigmoidal.solve(classes(500, one_hot(0.5)), 1e-3)
    assert not solution.converged
    assert solution.residual > 1e-8


# --- transitions --------------------------------------------------------------------------------


def test_critical_temperature_ends_redundancy():
    task = classes(200, one_hot(0.5))
    transition = sigmoidal.critical_temperature(task, tolerance=0.01)
    assert 0.06 < transition.temperature < 0.08
    below = sigmoidal.solve(task, 0.97 * transition.temperature)
    above = sigmoidal.solve(task, 1.03 * transition.temperature)
    assert below.num_peaks() > 1
    assert np.ptp(below.readouts, axis=0).max() > 0.1
    assert above.num_peaks() == 1
    assert len(above.readouts) == 1
    assert transition.distance > 0.5  # codes fade away; they do not merge
    assert transition.weight < 0.2
    with pytest.raises(ValueError, match="low, high"):
        sigmoidal.critical_temperature(task, 0.2, 0.5)
    with pytest.raises(ValueError, match="start: is found along the way"):
        sigmoidal.critical_temperature(task, 0.05, 0.1, start=below.dual_field)


def test_transition_along_the_targets_agrees_with_a_scan():
    task = classes(500, one_hot(0.5))
    ends = (one_hot(0.4), one_hot(0.55))
    (transition,) = sigmoidal.transitions(task, (1e-3, 1e-3), ends, num_points=2, tolerance=0.02)
    y_minus = transition.class_targets[0, 1]
    assert 0.46 < y_minus < 0.49
    assert sigmoidal.solve(task, 1e-3, class_targets=one_hot(y_minus - 0.01)).occupancy([1, 1, 1]) < 0.01
    assert sigmoidal.solve(task, 1e-3, class_targets=one_hot(y_minus + 0.01)).occupancy([1, 1, 1]) > 0.01


@pytest.mark.parametrize(
    ("solver", "task"),
    [
        (sigmoidal, tasks.toy(40, (0.5, 0.5), y_minus=0.5)),
        (clustered, tasks.clustered(40, (0.5, 0.5), overlap=0.5)),
    ],
    ids=["sigmoidal", "clustered"],
)
def test_newton_steps_of_all_levels_are_counted(solver, task, monkeypatch):
    steps, minimum = [], _convex_dual.minimum

    def counted(*arguments):
        found = minimum(*arguments)
        steps.append(found[2])
        return found

    for module in (_convex_dual, sigmoidal):
        monkeypatch.setattr(module, "minimum", counted)
    assert solver.solve(task, 0.01).num_steps == sum(steps)
    assert np.count_nonzero(steps) > 3
