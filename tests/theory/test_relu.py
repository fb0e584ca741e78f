"""theory.relu and theory.relu_squared: known values, optimality, degeneracies, finite N against HMC."""

import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import _solvers, relu, relu_squared
from coding_schemes.theory._tilted import RECTIFIED, SingleSite, single_site
from scipy.special import log_ndtr

RATIOS = (0.5, 0.25, 0.25)


def toy(targets=None, ratios=RATIOS, num_inputs=100, y_minus=-0.5):
    return tasks.toy(num_inputs, ratios, y_minus=y_minus, targets=targets)


def load(t, weights, directions):
    """h(â) of the constraint, written out again."""
    return sum(w * np.maximum(directions @ field, 0) ** 2 for w, field in zip(weights, t, strict=True))


def free_energy(t, weights, readouts, num_nodes=4001):
    """E(a) by brute-force quadrature over z."""
    z = np.linspace(-12, 40, num_nodes)
    prior = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    g = np.exp(np.maximum(z, 0)[:, None] * (readouts @ t.T).reshape(1, -1)).T @ prior
    return -np.sum(readouts**2, 1) / 2 + np.log(g).reshape(len(readouts), -1) @ weights


def check_optimal(s):
    """Every condition of the convex dual, on dense grids: s is then its global optimum."""
    w, t, rng = s.class_weights, s.dual_field, np.random.default_rng(1)
    directions = rng.standard_normal((20_000, t.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert load(t, w, directions).max() <= 1 + 1e-8
    a, z = s.outlier_readouts, s.outlier_preactivations
    np.testing.assert_allclose(load(t, w, a / np.linalg.norm(a, axis=1, keepdims=True)), 1, atol=1e-7)
    np.testing.assert_allclose((w * z) @ t, a, atol=1e-7)
    np.testing.assert_allclose(z, np.maximum(a @ t.T, 0), atol=1e-6)
    readouts = np.vstack([s.bulk_readouts, rng.standard_normal((300, t.shape[1]))])
    energies = free_energy(t, w, readouts)
    k = len(s.bulk_readouts)
    assert energies[k:].max() <= energies[:k].min() + 1e-6
    np.testing.assert_allclose(energies[:k], energies[0], atol=1e-6)
    mean = np.array([RECTIFIED["relu"].cumulants(b @ t.T)[1] for b in s.bulk_readouts])
    output = (s.bulk_probabilities[:, None] * mean).T @ s.bulk_readouts + z.T @ a
    np.testing.assert_allclose(s.class_targets - output, s.temperature * t, atol=1e-7)
    assert s.converged
    assert s.residual <= 1e-9


def test_published_task():
    task = toy()
    s = relu.solve(task)
    check_optimal(s)
    np.testing.assert_allclose(np.linalg.norm(s.dual_field, axis=1), [np.sqrt(2), 2, 2], atol=1e-8)
    np.testing.assert_allclose(s.bulk_readout, [0.1288, -0.0644, -0.0644], atol=5e-5)
    np.testing.assert_allclose(s.bulk_activations, [0.484, 0.346, 0.346], atol=5e-4)
    for outlier, preactivations in (
        ((0.7358, -0.3679, -0.3679), (1.2744, 0, 0)),
        ((-0.3440, 0.6458, -0.3018), (0, 1.5830, 0)),
        ((-0.3440, -0.3018, 0.6458), (0, 0, 1.5830)),
    ):
        nearest = np.argmin(np.linalg.norm(s.outlier_readouts - outlier, axis=1))
        np.testing.assert_allclose(s.outlier_readouts[nearest], outlier, atol=5e-5)
        np.testing.assert_allclose(s.outlier_preactivations[nearest], preactivations, atol=5e-5)


def test_saturated_bulk_in_closed_form():
    # one class, one output: t = 1, a0 = √(2/π), and the bulk gives 2/π of the output at most
    s = relu.solve(toy(targets=[[1.0]], ratios=(1.0,)))
    np.testing.assert_allclose(s.dual_field, [[1.0]], atol=1e-9)
    np.testing.assert_allclose(s.bulk_readout, [np.sqrt(2 / np.pi)], atol=1e-9)
    np.testing.assert_allclose(s.outlier_readouts, [[np.sqrt(1 - 2 / np.pi)]], atol=1e-9)
    assert len(relu.solve(toy(targets=[[0.63]], ratios=(1.0,))).outlier_readouts) == 0  # below 2/π = 0.637
    assert len(relu.solve(toy(targets=[[0.64]], ratios=(1.0,))).outlier_readouts) == 1


@pytest.mark.parametrize("temperature", [0.0, 0.01, 0.3])
@pytest.mark.parametrize(
    ("targets", "ratios"),
    [
        (tasks.one_hot(2, 1.0, -1.0), (0.5, 0.5)),
        ([[1.0], [-1.0]], (0.7, 0.3)),
        (tasks.one_hot(4, 1.0, 0.0), (0.4, 0.3, 0.2, 0.1)),
        ([[1.0, -0.2], [0.3, 1.0], [-1.0, -1.0]], RATIOS),
        (tasks.one_hot(3, 1.0, 0.5), RATIOS),
    ],
)
def test_optimal(targets, ratios, temperature):
    check_optimal(relu.solve(toy(targets, ratios), temperature))


def test_outlier_for_several_classes():
    # classes 0 and 1 share one target: one outlier answers to both, with no free choice
    s = relu.solve(toy([[1.0, -0.5], [1.0, -0.5], [-0.5, 1.0]], RATIOS))
    check_optimal(s)
    answers = {tuple(row) for row in (s.outlier_preactivations > 1e-6).tolist()}
    assert answers == {(True, True, False), (False, False, True)}
    assert s.num_free_directions == 0


def test_family_of_outliers():
    # y₋ = ½: outliers that answer to all classes can be rotated into each other, three directions
    s = relu.solve(toy(y_minus=0.5), 0.01)
    check_optimal(s)
    assert len(s.outlier_readouts) == 3
    assert s.num_free_directions == 3
    assert np.all(s.outlier_preactivations > 0)
    # where all classes answer, t is that of a linear network: Σ_c w_c t_c t_cᵀ = 1
    np.testing.assert_allclose((s.class_weights * s.dual_field.T) @ s.dual_field, np.eye(3), atol=1e-8)
    # rotating ā and z̄ together changes neither the output nor the energy; a generic task has no such family
    angle = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    output = s.outlier_preactivations.T @ s.outlier_readouts
    np.testing.assert_allclose((angle @ s.outlier_preactivations).T @ (angle @ s.outlier_readouts), output)
    assert relu.solve(toy(), 0.01).num_free_directions == 0
    # rotations of four outputs: six directions, all but lost in the noise of one another's derivatives
    four = toy(tasks.one_hot(4, 1.0, 0.6), (0.4, 0.3, 0.2, 0.1))
    assert relu.solve(four, 0.01).num_free_directions == 6


def test_fewer_outliers_than_outputs():
    # weak targets: the bulk carries one code, and m − 1 outliers do the rest
    numbers = {}
    for scale in (0.05, 1.0):
        s = relu.solve(toy(scale * tasks.one_hot(2, 1.0, 0.0), (0.7, 0.3)))
        check_optimal(s)
        numbers[scale] = len(s.outlier_readouts)
    assert numbers == {0.05: 1, 1.0: 2}


def test_two_bulk_populations():
    # rare classes can put a fraction of the bulk into a second maximum of E; its weight solves the task
    s = relu.solve(
        toy(
            [[0.1158, 0.3272, 1.9061], [0.4488, 1.9008, 0.4205], [0.3863, 0.2349, 0.4138]], (0.05, 0.08, 0.87)
        ),
        0.1,
    )
    check_optimal(s)
    assert len(s.bulk_readouts) == 2
    np.testing.assert_allclose(s.bulk_probabilities.sum(), 1)
    assert s.bulk_probabilities[0] > 0.8


def test_temperature_limits():
    task = toy()
    cold, zero = relu.solve(task, 1e-7), relu.solve(task)
    np.testing.assert_allclose(cold.outlier_readouts, zero.outlier_readouts, atol=1e-6)
    # hot: t = y/T and no outlier
    hot = relu.solve(task, 1e4)
    assert hot.converged
    assert len(hot.outlier_readouts) == 0
    np.testing.assert_allclose(hot.dual_field * 1e4, task.class_targets, atol=1e-3)


def test_energy_is_the_dual_value():
    task, temperature, step = toy(), 0.05, 1e-4
    s = relu.solve(task, temperature)
    # dU/dy_c = w_c t_c, the envelope theorem of the dual
    shifted = []
    for sign in (1, -1):
        targets = task.class_targets.copy()
        targets[1, 0] += sign * step
        shifted.append(relu.solve(toy(targets), temperature).energy)
    slope = (shifted[0] - shifted[1]) / (2 * step)
    np.testing.assert_allclose(slope, s.class_weights[1] * s.dual_field[1, 0], rtol=1e-6)
    # dU/dT = −½ Σ_c w_c |t_c|², its sign turned by U/T: the residual's part of the energy is T/2 |t|²
    warmer, colder = (relu.solve(task, temperature + sign * step).energy for sign in (1, -1))
    expected = -0.5 * s.class_weights @ np.sum(s.dual_field**2, axis=1)
    np.testing.assert_allclose((warmer - colder) / (2 * step), expected, rtol=1e-5)


def test_outliers_entropy_cost_is_what_a_second_one_would_have():
    """E(a0) − E of a parallel outlier of any amplitude: a silent class costs log 2 per input of its own."""
    s = relu.solve(toy(ratios=(0.5, 0.3, 0.2)), 0.01)
    directions = s.outlier_readouts / np.linalg.norm(s.outlier_readouts, axis=1, keepdims=True)
    far = 1e4 * directions @ s.dual_field.T
    log_g = np.logaddexp(np.log(0.5), far**2 / 2 + log_ndtr(far))
    energies = -0.5e8 + log_g @ s.class_weights
    at_bulk = free_energy(s.dual_field, s.class_weights, s.bulk_readouts[:1])[0]
    np.testing.assert_allclose(s.outlier_entropy_costs, at_bulk - energies, atol=2e-3)
    assert np.ptp(s.outlier_entropy_costs) > 0.1  # classes differ in size


def test_bulk_density():
    s = relu.solve(toy(), 0.01)
    z = np.linspace(-10, 10, 20_001)
    for label in range(3):
        density = relu.bulk_density(s, z, label)
        np.testing.assert_allclose(np.trapezoid(density, z), 1, atol=1e-8)
        activation = np.trapezoid(density * np.maximum(z, 0), z)
        np.testing.assert_allclose(activation, s.bulk_activations[label], atol=1e-7)


def test_softplus():
    s = relu.solve(toy(), 0.01, nonlinearity="softplus")
    assert s.converged
    # the constraint on the outliers is ReLU's; the bulk is not
    np.testing.assert_allclose(np.linalg.norm(s.dual_field, axis=1), [np.sqrt(2), 2, 2], atol=1e-6)
    z = np.linspace(-12, 14, 40_001)
    phi = np.logaddexp(0, z)
    for c, (field, mean) in enumerate(zip(s.dual_field @ s.bulk_readout, s.bulk_activations, strict=True)):
        density = np.exp(field * phi - z**2 / 2)
        np.testing.assert_allclose(np.trapezoid(density * phi, z) / np.trapezoid(density, z), mean, atol=1e-9)
        density = relu.bulk_density(s, z, c)
        assert np.trapezoid(density, z) == pytest.approx(1, abs=1e-8)
        assert np.trapezoid(density * phi, z) == pytest.approx(mean, abs=1e-7)


@pytest.mark.parametrize("site", [*RECTIFIED.values(), single_site("erf")])
def test_cumulants_are_derivatives(site):
    s, h = np.linspace(-6, 6, 25), 1e-4
    up, middle, down = (site.cumulants(s + shift, 3) for shift in (h, 0, -h))
    for k in range(3):
        np.testing.assert_allclose((up[k] - down[k]) / (2 * h), middle[k + 1], atol=1e-7)


@pytest.mark.parametrize("largest", [39.0, 61.37123, 99.91717])
def test_tables_that_reach_farther_hold_the_same_averages(largest):
    """The first ends at a field of 40; the quick look-up of a mean has no bias to one side."""
    site, z = SingleSite("sigmoidal"), np.linspace(-9, 9, 4001)
    phi = np.asarray(site.phi(z))
    s = np.array([-largest, -33.3, -0.55, 7.91, largest])
    weights = np.exp(s[:, None] * (phi - (s[:, None] > 0)) - z**2 / 2)
    means = (weights @ phi) / weights.sum(1)
    log_g = np.log(weights.sum(1) * (z[1] - z[0]) / (2 * np.pi) ** 0.5) + np.maximum(s, 0)
    found = site.cumulants(s)
    np.testing.assert_allclose(found[0], log_g, atol=1e-6)
    np.testing.assert_allclose(found[1], means, atol=1e-6)
    np.testing.assert_allclose(site.preactivation_variance(s), (weights @ z**2) / weights.sum(1), atol=1e-3)
    fields = np.linspace(-3, 3, 6007)
    off = site.nearest_mean(fields) - site.cumulants(fields)[1]
    assert abs(off.mean()) < 0.02 * abs(off).max() < 1e-4


def test_tables_reach_fields_of_either_sign():
    """erf is odd: what a site that has met no field above 0 finds far below, another finds far above."""
    s = np.array([45.0, 60.0])
    low, high = SingleSite("erf").cumulants(-s), single_site("erf").cumulants(s)
    np.testing.assert_allclose(low, [high[0], -high[1], high[2]], atol=1e-9)
    for sign in (1, -1):
        with pytest.raises(FloatingPointError, match="field of size 2000"):
            single_site("erf").cumulants(sign * np.array([0.0, 2000.0]))


@pytest.mark.parametrize("site", [*RECTIFIED.values(), single_site("erf")])
def test_density_of_a_preactivation_has_the_cumulants(site):
    s, z = np.array([-5.0, -0.3, 0.0, 2.0, 6.0]), np.linspace(-13, 20, 33_001)
    density = site.density(z, s[:, None])
    np.testing.assert_allclose(np.trapezoid(density, z), 1, atol=1e-6)
    mean, variance = site.cumulants(s)[1:]
    np.testing.assert_allclose(np.trapezoid(density * site.phi(z), z), mean, atol=1e-6)
    off = site.phi(z) - mean[:, None]
    np.testing.assert_allclose(np.trapezoid(density * off**2, z), variance, atol=1e-5)


def test_preactivations_are_drawn_from_their_density():
    relu_neuron, s, count = RECTIFIED["relu"], np.array([[-40.0], [-1.0], [0.5], [4.0]]), 40_000
    side, place = (np.random.default_rng(k).random((4, count)) for k in (0, 1))
    z = relu_neuron.drawn(np.broadcast_to(s, side.shape), side, place)
    mean, variance = (moment[:, 0] for moment in relu_neuron.cumulants(s)[1:])
    error = np.sqrt(variance / count)
    assert np.all(np.abs(np.maximum(z, 0).mean(1) - mean) < 4 * error)


def test_directions_come_with_their_loads_and_none_is_heavier():
    rng = np.random.default_rng(0)
    weights, t = np.array([0.5, 0.3, 0.2]), rng.standard_normal((3, 2))
    problem = SimpleNamespace(weights=weights)
    problem.load = lambda a, t: np.maximum(a @ t.T, 0) ** 2 @ weights
    found, load = relu._heaviest_directions(problem, t, rng.standard_normal((5, 2)))
    np.testing.assert_allclose(load, problem.load(found, t))
    assert np.all(np.diff(load) <= 0)
    angles = np.linspace(0, 2 * np.pi, 2_000)
    around = problem.load(np.stack([np.cos(angles), np.sin(angles)], axis=1), t)
    assert load[0] == pytest.approx(around.max(), rel=1e-5)


def test_differences_are_the_derivative():
    """The equations' Jacobian against their derivative along one direction, extrapolated to step 0."""
    rng = np.random.default_rng(0)
    point = relu._Point(
        rng.standard_normal((3, 2)),
        rng.standard_normal((2, 2)),
        np.array([0.6, 0.4]),
        rng.standard_normal((2, 2)),
    )
    problem = relu._Problem(np.array(RATIOS), rng.standard_normal((3, 2)), 0.1, RECTIFIED["relu"])
    x = _solvers.pack(point)
    direction = rng.standard_normal(len(x))

    def equations(step):
        return problem.equations(_solvers.unpack(x + step * direction, point))

    coarse, fine = ((equations(h) - equations(-h)) / (2 * h) for h in (2e-3, 1e-3))
    np.testing.assert_allclose(problem.slope(point) @ direction, (4 * fine - coarse) / 3, atol=1e-9)
    both = problem.equations(_solvers.unpack(np.stack([x, 2 * x]), point))  # points side by side
    np.testing.assert_allclose(both[1], problem.equations(_solvers.unpack(2 * x, point)), atol=1e-14)


@pytest.mark.parametrize("module", [relu, relu_squared], ids=lambda module: module.__name__.split(".")[-1])
def test_slopes_that_a_search_is_given_are_derivatives(module, monkeypatch):
    """With others it would mostly end at the same place, but later, or at another of a family."""
    rng, asked = np.random.default_rng(0), []

    def stop(function, start, *, constraints, **_):
        asked.append((function, start, constraints))
        raise InterruptedError

    monkeypatch.setattr(module, "minimize", stop)
    weights, targets = np.array(RATIOS), rng.standard_normal((3, 2))
    if module is relu:
        search = relu._Search(relu._Problem(weights, targets, 0.1, RECTIFIED["relu"]))
        search.t, search.readouts = rng.standard_normal((2, 3, 2))
        begun = search._optimum
    else:
        problem = relu_squared._Problem(weights, targets, 0.1 * np.eye(3) + 0.3 * weights)
        begun = partial(relu_squared._search, problem, rng)
    with pytest.raises(InterruptedError):
        begun()
    ((function, start, constraints),) = asked
    x = start + 0.1 * rng.standard_normal(len(start))
    steps = 1e-5 * np.eye(len(x))
    for value, slope in (
        (lambda x: function(x)[0], function(x)[1]),
        (constraints["fun"], constraints["jac"](x)),
    ):
        found = np.array([(value(x + e) - value(x - e)) / 2e-5 for e in steps])
        np.testing.assert_allclose(np.transpose(slope), found, atol=1e-7)


def test_finite_size_has_the_right_limit():
    gaps = []
    for size in (200, 2000):
        s = relu.solve(toy(num_inputs=size), 0.01)
        f = relu.finite_size(s, size)
        assert f.converged
        gaps.append(np.abs(f.outlier_readouts - s.outlier_readouts).max())
    np.testing.assert_allclose(gaps[0] / gaps[1], 10, rtol=0.1)  # corrections of order 1/N


def one_output_action(s, f, num_inputs):
    """S of `relu.finite_size` for one output, of t and the outliers; B and Var a; by sums over grids.

    Stationary over the bulk's density, ρ ∝ exp(P E − P/(2N) Σ_c w_c V_c a² (B_c − ⟨x²⟩)/B_c²), B with it,
    and over the outliers' means; these are integrated together, on a product of grids.
    """
    w, temperature, num_neurons, y = s.class_weights, s.temperature, f.num_neurons, s.class_targets[:, 0]
    a = f.bulk_readout[0] + np.linspace(-8, 8, 801) * f.bulk_readout_covariance[0, 0] ** 0.5
    z = np.linspace(-12, 12, 1201)
    phi, prior = np.maximum(z, 0), np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    nodes, weights = np.polynomial.legendre.leggauss(300)
    active = np.append(0, 15 * (1 + nodes))  # φ of an outlier: 0 with a half, else half a Gaussian
    log_prior = np.append(np.log(0.5), np.log(15 * weights) - active[1:] ** 2 / 2 - np.log(2 * np.pi) / 2)

    def bulk(t):  # E(a) (grid,), V_c (grid, C), both by sums over z
        tilted = np.exp(a[:, None, None] * t[:, None] * phi) * prior
        total = tilted.sum(2)
        mean, square = tilted @ phi / total, tilted @ phi**2 / total
        return -(a**2) / 2 + np.log(total) @ w, square - mean**2

    def of_outliers(t, outliers, noise):  # log Z and ⟨x²⟩ of one class
        if len(outliers) == 0:
            return 0.0, 0.0
        grids = np.meshgrid(*[active] * len(outliers), indexing="ij")
        total = sum(own * grid for own, grid in zip(outliers, grids, strict=True))  # Σ_i ā_i φ_i
        log_density = sum(np.meshgrid(*[log_prior] * len(outliers), indexing="ij"))
        log_density = log_density + np.sqrt(num_neurons) * t * total
        mean = max(np.sqrt(num_neurons) * t * np.sum(np.square(outliers)[outliers * t > 0]), 0)
        for _ in range(60):
            exponent = log_density - (total - mean) ** 2 / (2 * noise)
            density = np.exp(exponent - exponent.max())
            size = density.sum()
            found, square = np.sum(density * total) / size, np.sum(density * (total - mean) ** 2) / size
            step = (found - mean) / (1 - (square - (found - mean) ** 2) / noise)
            mean += step
            if abs(step) < 1e-10:
                return exponent.max() + np.log(size), square
        raise AssertionError("no means of the outliers")

    def action(t, outliers):
        share = 1 - len(outliers) / num_neurons
        energy, variance = bulk(t)
        log_density = num_inputs * (energy - energy.max())
        for _ in range(30):
            density = np.exp(log_density - log_density.max())
            density /= density.sum()
            noise = temperature + share * (density * a**2) @ variance
            log_z, square = np.transpose([of_outliers(t[c], outliers, noise[c]) for c in range(len(t))])
            load = a[:, None] ** 2 * variance * ((noise - square) / noise**2)
            log_density = num_inputs * (energy - energy.max() - load @ w / (2 * num_neurons))
        entropy = -density @ np.log(np.maximum(density, 1e-300)) / num_inputs
        return (
            w @ (temperature * t**2 / 2 - t * y)
            - np.sum(outliers**2) / 2
            + share * (density @ energy + entropy)
            + w @ (log_z - np.log(noise) / 2) / num_neurons
        ), (noise, density @ a**2 - (density @ a) ** 2)

    return action


@pytest.mark.parametrize(("other_target", "temperature", "num_outliers"), [(-1.0, 0.02, 2), (-0.3, 0.6, 0)])
def test_finite_size_is_stationary(other_target, temperature, num_outliers):
    """The action, integrated over both outliers at once, has no slope at the solution."""
    size = 160
    s = relu.solve(toy([[1.0], [other_target]], ratios=(0.7, 0.3), num_inputs=size), temperature)
    assert len(s.outlier_readouts) == num_outliers
    f = relu.finite_size(s, size)
    assert f.converged
    action = one_output_action(s, f, size)
    x, split = np.concatenate([f.dual_field[:, 0], f.outlier_readouts[:, 0]]), len(f.dual_field)
    steps = 1e-4 * np.eye(len(x))
    rise = [action(*np.split(x + e, [split]))[0] - action(*np.split(x - e, [split]))[0] for e in steps]
    assert np.abs(rise).max() / 2e-4 < 2e-5
    noise, variance = action(*np.split(x, [split]))[1]
    assert f.bulk_readout_covariance[0, 0] == pytest.approx(variance, rel=1e-3)
    answers = f.outlier_preactivations > 0.1
    # where an outlier answers, Var z_i = B_c/(B_c + ā_i²), but for what the silent one adds to B_c
    held = (noise / (noise + f.outlier_readouts**2))[answers]
    np.testing.assert_allclose(f.outlier_preactivation_variances[answers], held, rtol=0.01)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 6])
def test_gaussian_nodes(dim):
    nodes, weights = relu._gaussian_nodes(dim)
    np.testing.assert_allclose(weights.sum(), 1)
    np.testing.assert_allclose(np.einsum("x,xi,xj->ij", weights, nodes, nodes), np.eye(dim), atol=1e-12)
    np.testing.assert_allclose(weights @ nodes[:, 0] ** 4, 3)
    if dim > 1:
        np.testing.assert_allclose(weights @ (nodes[:, 0] * nodes[:, 1]) ** 2, 1)


def hmc(
    task, temperature, phi, readouts, preactivations, key, num_samples, step_size, num_steps=40, num_chains=4
):
    """Averages over planted chains: readouts and class-mean z of the outliers, class-mean φ of the bulk."""
    num_neurons, num_inputs, n = task.num_inputs, task.num_inputs, len(readouts)
    targets, by_class = jnp.asarray(task.targets), jnp.asarray(np.eye(task.num_classes)[task.labels])
    by_class = by_class / by_class.sum(0, keepdims=True)

    def energy(state):
        a, z = state
        error = targets - phi(z).T @ a / (num_neurons * np.sqrt(num_inputs))
        return num_neurons / (2 * temperature) * jnp.sum(error**2) + (jnp.sum(a**2) + jnp.sum(z**2)) / 2

    def trajectory(state, key):
        of_a, of_z, of_step, of_accept = (jax.random.fold_in(key, stream) for stream in range(4))
        p = jax.random.normal(of_a, state[0].shape), jax.random.normal(of_z, state[1].shape)
        eps = step_size * jax.random.uniform(of_step, minval=0.8, maxval=1.2)

        def leapfrog(carry, _):
            q, p, force = carry
            p = jax.tree.map(lambda x, g: x - eps / 2 * g, p, force)
            q = jax.tree.map(lambda x, v: x + eps * v, q, p)
            force = jax.grad(energy)(q)
            return (q, jax.tree.map(lambda x, g: x - eps / 2 * g, p, force), force), None

        start = state, p, jax.grad(energy)(state)
        (proposal, p_end, _), _ = jax.lax.scan(leapfrog, start, None, length=num_steps)
        change = energy(proposal) - energy(state) + sum(jnp.sum(y**2 - x**2) / 2 for x, y in zip(p, p_end))
        accept = jnp.log(jax.random.uniform(of_accept)) < -change
        a, z = state = jax.tree.map(lambda x, y: jnp.where(accept, x, y), proposal, state)
        a = a / np.sqrt(num_inputs)
        return state, (a[:n], z[:n] @ by_class, phi(z[n:]).mean(0) @ by_class, accept)

    def chain(key):
        a = jnp.zeros((num_neurons, task.num_targets)).at[:n].set(readouts * np.sqrt(num_inputs))
        z = (
            jax.random.normal(jax.random.fold_in(key, 0), (num_neurons, num_inputs))
            .at[:n]
            .set(preactivations[:, task.labels])
        )
        step = lambda state, i: trajectory(state, jax.random.fold_in(key, i))  # noqa: E731
        return jax.lax.scan(step, (a, z), jnp.arange(1, num_samples + 1))[1]

    *kept, accept = jax.jit(jax.vmap(lambda i: chain(jax.random.fold_in(key, i))))(jnp.arange(num_chains))
    assert 0.4 < float(accept.mean()) < 0.999
    means = [np.asarray(x[:, num_samples // 4 :].mean(1)) for x in kept]
    return [(x.mean(0), x.std(0, ddof=1) / np.sqrt(num_chains)) for x in means]


@pytest.mark.slow
def test_finite_size_against_hmc():
    size, temperature = 60, 0.02
    task = toy(num_inputs=size)
    s = relu.solve(task, temperature)
    f = relu.finite_size(s, size)
    root = np.sqrt(size)
    start = root * f.outlier_readouts, root * f.outlier_preactivations
    a, z, phi = hmc(task, temperature, jax.nn.relu, *start, jax.random.key(0), 500, 0.04)
    for (mean, error), theory in (
        (a, root * f.outlier_readouts),
        (z, root * f.outlier_preactivations),
        (phi, f.bulk_activations),
    ):
        assert np.all(np.abs(mean - theory) <= 5 * error)
    # at leading order, and without the temperature, the same check fails
    bare = relu.solve(task)
    assert np.any(np.abs(z[0] - root * bare.outlier_preactivations) > 5 * z[1])
    assert np.any(np.abs(phi[0] - bare.bulk_activations) > 5 * phi[1])


def test_drawn_network_is_the_theory():
    task = toy(num_inputs=200)
    finite = relu.finite_size(relu.solve(task, 0.01), 200)
    rng = np.random.default_rng(0)
    z, a = finite.draw(rng, task.labels, finite.num_neurons)
    root, means = np.sqrt(200), np.maximum(z, 0) @ (task.labels[:, None] == np.arange(3)) / task.class_counts
    np.testing.assert_allclose(a[:3], root * finite.outlier_readouts)
    np.testing.assert_allclose(np.diag(means[:3]), root * np.diag(finite.outlier_preactivations), rtol=0.02)
    error = 0.6 / np.sqrt(197 * task.class_counts)  # standard deviation of φ(z) is 0.6
    assert np.all(np.abs(means[3:].mean(0) - finite.bulk_activations) < 5 * error)
    output = a.T @ np.maximum(z, 0) / 200
    np.testing.assert_allclose(output, task.targets.T - 0.01 * finite.dual_field[task.labels].T, atol=0.25)
    with pytest.raises(ValueError, match="num_neurons: got 2, needs a whole number of at least 4"):
        relu.solve(task, 0.01).draw(rng, task.labels, 2)
    drawn = np.array([finite.draw(rng, task.labels, 200)[0][:3] for _ in range(40)])
    for c in range(3):  # each outlier answers to one class
        found = drawn[:, c, task.labels == c].var(axis=1, ddof=1).mean()
        error = (2 / (40 * task.class_counts[c])) ** 0.5
        assert found == pytest.approx(finite.outlier_preactivation_variances[c, c], rel=5 * error)


def test_density_of_the_bulk_at_finite_size():
    finite, z = relu.finite_size(relu.solve(toy(num_inputs=60), 0.01), 60), np.linspace(-9, 9, 3603)
    at_readout = np.exp(np.maximum(z, 0) * (finite.dual_field[0] @ finite.bulk_readout) - z**2 / 2)
    at_readout /= np.trapezoid(at_readout, z)
    density = relu.bulk_density(finite, z.reshape(3, -1), 0).ravel()
    assert np.trapezoid(density, z) == pytest.approx(1, abs=1e-5)
    assert np.abs(density - at_readout).max() > 1e-3
    readouts = {"bulk_readout_covariance": 1e-12 * finite.bulk_readout_covariance}
    alone = replace(finite, noise_precision=0 * finite.noise_precision, **readouts)
    np.testing.assert_allclose(relu.bulk_density(alone, z, 0), at_readout, atol=1e-5)


@pytest.mark.parametrize("size", [60, 240])
def test_others_answer_to_a_neuron_of_the_bulk_as_its_mean_activity_says(size):
    """⟨φ⟩ of `finite_size`, which expands the answer to first order; without it nothing of it is there."""
    finite, z = relu.finite_size(relu.solve(toy(num_inputs=size), 0.01), size), np.linspace(-8, 8, 3201)
    free = replace(finite, noise_precision=0 * finite.noise_precision)
    held, not_held = (
        [np.trapezoid(np.maximum(z, 0) * relu.bulk_density(each, z, c), z) for c in range(3)]
        for each in (finite, free)
    )
    np.testing.assert_allclose(held, finite.bulk_activations, rtol=0.012 / size)
    assert np.all(np.subtract(not_held, finite.bulk_activations) > 0.15 / size)


def test_squared_one_outlier_per_class():
    task = toy(y_minus=0.0)
    s = relu_squared.solve(task)
    # alone, a class needs ā = y z̄⁻², 2 ā·τ = 1: |ā|³ = w|y|/2 and z̄² = 2|ā|²/w
    sizes = np.cbrt(np.array(RATIOS) / 2)
    np.testing.assert_allclose(np.sort(np.linalg.norm(s.outlier_readouts, axis=1)), np.sort(sizes), atol=1e-8)
    np.testing.assert_allclose(s.energy, 1.5 * np.sum(sizes**2), atol=1e-8)
    assert s.converged


@pytest.mark.parametrize(("drive", "stays"), [(0.8, True), (1.2, False)])
def test_a_silent_class_that_would_rather_respond_makes_a_solution_unstable(drive, stays):
    """One outlier that answers to the first of two classes, with 2ā·τ = 1 there as its equations ask."""
    problem = relu_squared._Problem(np.full(2, 0.5), np.ones((2, 1)), np.zeros((2, 2)))
    point = relu_squared._Point(np.array([[0.5]]), np.array([[1.0, 0.0]]), np.array([[1.0], [drive]]))
    assert relu_squared._errors(problem, point)[1] == stays


def test_squared_shares_outliers_where_that_is_cheaper():
    task = toy(y_minus=0.5)
    s = relu_squared.solve(task)
    alone = (
        1.5
        * 2 ** (-2 / 3)
        * np.sum((np.array(RATIOS) * np.linalg.norm(task.class_targets, axis=1)) ** (2 / 3))
    )
    assert s.converged
    assert s.energy < alone - 1e-3
    assert np.any((s.outlier_preactivations > 0).sum(1) > 1)
    np.testing.assert_allclose(
        (s.outlier_preactivations**2).T @ s.outlier_readouts, task.class_targets, atol=1e-8
    )
    # by homogeneity the preactivations cost twice what the readouts do
    cost = np.sum(s.outlier_preactivations**2 @ np.array(RATIOS))
    np.testing.assert_allclose(cost, 2 * np.sum(s.outlier_readouts**2), rtol=1e-8)


def test_squared_finite_size():
    task = toy()
    limit = relu_squared.solve(task, 0.5)
    gaps = [
        np.abs(relu_squared.solve(task, 0.5, num_neurons=n).energy - limit.energy) for n in (10**5, 10**8)
    ]
    np.testing.assert_allclose(gaps[0] / gaps[1], 10, rtol=0.1)  # N^(-1/3)


def test_not_converged_is_said():
    with pytest.warns(UserWarning, match="did not converge"):
        s = relu.solve(toy(), tolerance=1e-300)
    assert not s.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert relu.solve(toy()).converged


def test_a_saddle_at_finite_size_without_an_answer_is_named():
    """At very low T outliers near silence settle as a power of the rounds; NumPy's error does not pass."""
    solution = relu.solve(tasks.toy(40, y_minus=-0.5), 0.0005)
    with pytest.raises(FloatingPointError, match=r"finite_size: at T = 0.0005 and N = 40 the noise"):
        relu.finite_size(solution, 40)
