"""Single neurons in time: matrix exponentials, stationary laws of Euler chains, landscapes on grids."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.theory import dynamics, linear, relu, sigmoidal
from scipy.linalg import expm, solve_discrete_lyapunov
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr


def redundant(size, temperature=0.01):
    return sigmoidal.solve(tasks.toy(size, y_minus=0.5), temperature)


@pytest.fixture(scope="module")
def scheme():
    return redundant(60)


def test_linear_memory_is_that_of_two_coupled_processes():
    """Readout and activation along each eigenvector: d(ã, u) = −A (ã, u) dt + noise, C(t) = e^{−At} A⁻¹."""
    solution = linear.solve(tasks.toy(40, y_minus=0.0), 1, 0.01, width=40)
    variances, lags = np.linalg.eigvalsh(solution.readout_covariance), np.array([0.0, 0.3, 2.0, 30.0])
    expected = np.zeros(len(lags))
    for variance in variances:
        kappa = np.sqrt(1 - solution.readout_variance / variance)
        A = np.array([[1, -kappa], [-kappa, 1]])
        still = np.linalg.inv(A)
        assert solution.readout_variance * still[0, 0] == pytest.approx(variance)
        expected += variance * np.array([(expm(-A * t) @ still)[0, 0] for t in lags]) / still[0, 0]
    found = variances @ dynamics.linear_memory(solution, lags)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("mobility", [0.2, 40.0])
def test_mobility_of_readouts_is_that_of_two_processes_of_two_speeds(mobility):
    """d(ã, u) = −M A (ã, u) dt + √(2M) dB with M = diag(mobility, 1)."""
    solution = linear.solve(tasks.toy(40, y_minus=0.0), 1, 0.01, width=40)
    variances, lags = np.linalg.eigvalsh(solution.readout_covariance), np.array([0.0, 0.3, 2.0, 30.0])
    found = dynamics.linear_memory(solution, lags, mobility=mobility)
    for row, variance in zip(found, variances, strict=True):
        kappa = np.sqrt(1 - solution.readout_variance / variance)
        A, M = np.array([[1, -kappa], [-kappa, 1]]), np.diag([mobility, 1.0])
        still = np.linalg.inv(A)
        expected = [(expm(-M @ A * t) @ still)[0, 0] / still[0, 0] for t in lags]
        np.testing.assert_allclose(row, expected, rtol=1e-9)


def test_constraints_take_their_part_of_a_readouts_steps():
    """⟨(Πe_a)²⟩ and ⟨(Πe_p)²⟩ of networks drawn from theory, by the projection itself."""
    size, count, rng = 120, 3, np.random.default_rng(0)
    solution = linear.solve(tasks.toy(size, y_minus=0.0), 1, 0.01, width=size)
    variances = np.linalg.eigvalsh(solution.readout_covariance)
    kept = np.zeros((2, count))  # along readouts, and along the slow mode
    for _ in range(4):
        kappa = np.sqrt(1 - solution.readout_variance / variances)
        slow, fast = (rng.standard_normal((size, count)) / np.sqrt(1 - s * kappa) for s in (1, -1))
        a, z = (slow + fast) / 2**0.5, (slow - fast) / 2**0.5
        z = np.column_stack([z, rng.standard_normal((size, size - count))])
        gram_a, gram_z = a.T @ a, z.T @ z
        metric = np.kron(np.eye(count), gram_z) + np.kron(gram_a, np.eye(size))
        inverse = np.linalg.inv(metric).reshape(count, size, count, size)
        for r in range(count):
            of_z, of_a = np.zeros((2, size, count, size))  # J e of every neuron
            of_z[:, r] = z
            of_a[:, :, r] = a
            for k, own in enumerate((of_z, (of_z + of_a) / 2**0.5)):
                kept[k, r] += np.einsum("nsp,spqt,nqt->", own, inverse, own, optimize=True) / size / 4
    pairs = (variances / (variances + variances[:, None])).sum(1)
    np.testing.assert_allclose(size * kept[0], pairs + (1 - count / size) / variances, rtol=0.06)
    # half of the held directions' part is in ⟨p²⟩
    np.testing.assert_allclose(size * kept[1], pairs + 0.5 + (1 - count / size) / (2 * variances), rtol=0.06)


def test_memory_of_finite_networks():
    """Longer than the mean field's, by 1/N; nothing is left of that at N → ∞, and it begins at one."""
    lags, away = np.array([0.0, 1.0]), []
    for size in (50, 200):
        solution = linear.solve(tasks.toy(size, y_minus=0.0), 1, 0.01, width=size)
        at = np.append(lags, 1.0 * size)
        finite, limit = (dynamics.linear_memory(solution, at, num_neurons=n) for n in (size, None))
        np.testing.assert_allclose(finite[:, 0], 1)
        assert np.all(finite[:, 1:] > limit[:, 1:])
        away.append(np.log(finite[:, 2] / limit[:, 2]))
    assert away[0] / away[1] == pytest.approx(4 * np.ones(3), rel=0.1)
    variances = np.linalg.eigvalsh(solution.readout_covariance)
    kappa = np.sqrt(1 - solution.readout_variance / variances)
    pairs = variances / (variances + variances[:, None])
    lost = 0.5 + pairs.sum(1) + (1 - 3 / 200) / variances
    far = dynamics.linear_memory(solution, [400.0, 500.0], num_neurons=200)
    np.testing.assert_allclose(-np.diff(np.log(far))[:, 0] / 100, (1 - kappa) * (1 - lost / 200), rtol=1e-6)


def test_euler_steps_add_half_a_step_to_the_variance(scheme):
    # the stationary law of the Euler chain itself, on a grid, for one preactivation in a field of 6
    step, field, z = 0.005, 6.0, np.arange(-6, 8, 0.03)
    phi = ndtr(np.sqrt(np.pi / 2) * z)
    slope = z - field * 0.5 * np.exp(-np.pi * z**2 / 4)  # of the energy ½z² − 6φ(z)
    chain = np.exp(-np.square(z[:, None] - (z - step * slope)) / (4 * step))
    density = np.linalg.matrix_power(chain / chain.sum(0), 4096)[:, len(z) // 2]
    mean, variance = density @ phi, density @ z**2 - (density @ z) ** 2
    exact = dynamics._tilted(brentq(lambda s: dynamics._tilted(s).mean - mean, 0, 20)).variance
    added = dynamics.branch_variance(scheme, 0, 0, mean, step) - dynamics.branch_variance(scheme, 0, 0, mean)
    assert added == pytest.approx(variance - exact, rel=0.06)


def test_a_branch_of_a_wide_network_has_the_variance_of_its_tilted_gaussian():
    """At N = P → ∞ readouts stand still and others do not answer; what is left falls as 1/N."""
    z = np.linspace(-9, 9, 3601)
    phi, away = ndtr(np.sqrt(np.pi / 2) * z), []
    for size in (400, 1600):
        solution = redundant(size)
        s = solution.mean_readouts[0] @ solution.dual_field[2]
        weights = np.exp(s * phi - z**2 / 2)
        mean, center = (np.average(x, weights=weights) for x in (phi, z))
        variance = np.average((z - center) ** 2, weights=weights)
        away.append(dynamics.branch_variance(solution, 0, 2, mean) - variance)
    assert abs(away[1]) < 0.02
    assert away[0] / away[1] == pytest.approx(4, rel=0.15)


def test_an_outliers_noise_is_the_stationary_law_of_its_euler_chain():
    """x ← (1 − ΔtΛ)x + √(2Δt) ξ has the covariance C = MCM + 2Δt."""
    rng = np.random.default_rng(0)
    readout, root, temperature, spread = rng.standard_normal(3), rng.standard_normal((3, 3)), 0.3, 0.4
    G = np.column_stack([readout, root * spread**0.5])
    stiffness = np.eye(4) + G.T @ G / temperature
    for step in (1e-6, 0.02):
        move = np.eye(4) - step * stiffness
        law = solve_discrete_lyapunov(move, 2 * step * np.eye(4))
        found = dynamics._noise(readout, root @ root.T, spread, temperature, step)
        assert found == pytest.approx(law[0, 0], rel=1e-6)


def test_outliers_freeze_as_networks_grow():
    small, large = (dynamics.outlier_variances(tasks.toy(n, y_minus=-0.5), 0.01, n, 0.005) for n in (60, 240))
    np.testing.assert_allclose(small.infinite, large.infinite, rtol=1e-5)
    for one, counts in ((small, [30, 15, 15]), (large, [120, 60, 60])):
        assert np.all((one.infinite < one.noise) & (one.noise < one.total) & (one.total < one.stepped))
        np.testing.assert_allclose(np.sort(one.total - one.noise), np.sort(0.25 / np.array(counts)))
    # both corrections are of order 1/N
    ratio = (small.total - small.infinite) / (large.total - large.infinite)
    assert ratio == pytest.approx(4 * np.ones(3), rel=0.15)


@pytest.mark.parametrize(("share", "target"), [(0.5, -1.0), (0.8, -1.0), (0.7, -0.3)])
def test_the_pass_of_one_output_is_the_top_of_its_landscape(share, target):
    """Of readouts on a line the lowest way between two codes goes over the maximum between them."""
    solution = sigmoidal.solve(tasks.toy(60, (share, 1 - share), targets=[[1.0], [target]]), 0.01)
    found = dynamics.passes(solution)
    assert found.codes.tolist() in ([[1, 0], [0, 1]], [[0, 1], [1, 0]])
    a, z = np.linspace(-4, 4, 4001), np.linspace(-9, 9, 901)
    energy = a**2 / (2 * solution.problem.readout_variance)
    for count, (t,) in zip(solution.problem.counts, solution.dual_field, strict=True):
        exponent = np.outer(a, t * ndtr(np.sqrt(np.pi / 2) * z)) - z**2 / 2
        energy -= count * (logsumexp(exponent, axis=1) - logsumexp(-(z**2) / 2))
    low, high = energy[a < 0].argmin(), np.argmax(a >= 0) + energy[a >= 0].argmin()
    top = energy[low:high].max()
    ends = [energy[low if readout < 0 else high] for (readout,) in solution.readouts]
    assert found.heights[0, 1] == pytest.approx(top - ends[0], rel=1e-3)  # the top is between two images
    assert found.heights[1, 0] == pytest.approx(top - ends[1], rel=1e-3)
    assert found.lowest == found.heights[~np.eye(2, dtype=bool)].min()
    assert (abs(ends[0] - ends[1]) > 0.2) == ((share, target) != (0.5, -1.0))


def test_passes_are_extensive_and_end_with_the_scheme(scheme):
    assert 1.5 < dynamics.passes(redundant(120)).lowest / dynamics.passes(scheme).lowest < 3
    assert dynamics.passes(redundant(60, 0.16)).lowest == 0


def test_a_branch_breathes_with_its_readouts():
    """Var z: in the field of the others, and (d⟨z⟩/ds)² Var s with s = a·t and the free energy's Hessian."""
    solution, row, c = redundant(40, 0.02), 0, 1
    t, counts, a = solution.dual_field, solution.problem.counts, solution.mean_readouts
    energy = lambda readout: dynamics._free_energy(readout, t, counts, 1 / 40)  # noqa: E731
    stiffness = jax.hessian(energy)(jnp.asarray(a[row]))
    others = sum(
        p * dynamics._tilted(own @ t[c]).spread * np.outer(own, own)
        for p, own in zip(solution.probabilities, a, strict=True)
        if p > 0.01
    )
    g = a[row] @ np.linalg.inv(others + 0.02 * np.eye(3)) @ a[row] / 40
    s = a[row] @ t[c]
    z = np.linspace(-9, 9, 3601)
    phi = ndtr(np.sqrt(np.pi / 2) * z)

    def moments(s):
        weights = np.exp(s * phi - g * phi**2 / 2 - z**2 / 2)
        return [np.average(x, weights=weights) for x in (phi, z, z**2)]

    mean, center, square = moments(s)
    answer = (moments(s + 1e-4)[1] - moments(s - 1e-4)[1]) / 2e-4
    expected = square - center**2 + answer**2 * t[c] @ np.linalg.solve(stiffness, t[c])
    assert dynamics.branch_variance(solution, row, c, mean) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("ratios", [(0.5, 0.25, 0.25), (0.25, 0.25, 0.5)])
def test_steps_widen_outliers_by_the_noise_at_their_width(ratios):
    """Euler steps have the noise of their stationary law, with the scatter of the bulk's readouts.

    The largest outlier is that of the largest class, whichever it is.
    """
    task, step = tasks.toy(40, ratios, y_minus=-0.5), 0.02
    found = dynamics.outlier_variances(task, 0.01, 40, step)
    finite = relu.finite_size(relu.solve(task, 0.01), 40)
    z = np.linspace(-9, 9, 3601)
    phi = np.maximum(z, 0)
    for k, (i, c) in enumerate(np.argwhere(finite.codes)):
        weights = np.exp(finite.bulk_readout @ finite.dual_field[c] * phi - z**2 / 2)
        spread = np.average(phi**2, weights=weights) - np.average(phi, weights=weights) ** 2
        bulk = np.outer(finite.bulk_readout, finite.bulk_readout) + finite.bulk_readout_covariance
        G = np.column_stack([finite.outlier_readouts[i], np.linalg.cholesky(bulk * spread)])
        stiffness = np.eye(4) + G.T @ G / 0.01
        still, moving = np.linalg.inv(stiffness), np.linalg.inv(stiffness - step / 2 * stiffness @ stiffness)
        breathing = 1 / (4 * task.class_counts[c])
        assert found.total[k] == pytest.approx(found.noise[k] + breathing)
        assert found.stepped[k] == pytest.approx(found.noise[k] * moving[0, 0] / still[0, 0] + breathing)


def test_memory_of_two_layers_is_refused():
    two = linear.solve(tasks.toy(8), depth=2, temperature=0.1)
    with pytest.raises(ValueError, match="solution: got 2 hidden layers"):
        dynamics.linear_memory(two, np.arange(3.0))
