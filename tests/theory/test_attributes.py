"""Every documented attribute of the theories' solutions, recomputed from its docstring by other means.

Three outputs and classes of unequal sizes throughout; T > 0, two layers, and correlated inputs.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.theory import (
    adaptive_kernel,
    deep_sigmoidal,
    dmft,
    features,
    gaussian_process,
    linear,
    mean_field,
    relu,
    relu_squared,
    sigmoidal,
    wishart_chain,
)
from scipy.special import erf, expit, logsumexp

T = 0.05
Y = np.array([[1.0, -0.4, 0.1], [-0.2, 0.9, -0.5], [0.3, -0.6, 0.8]])


def correlated(input_dim, counts=(5, 3, 2), seed=0):
    """Random inputs in classes of unequal sizes, three outputs, and four test inputs."""
    rng, labels = np.random.default_rng(seed), np.repeat(np.arange(len(counts)), counts)
    inputs, test = rng.standard_normal((input_dim, len(labels))), rng.standard_normal((input_dim, 4))
    return tasks.Task(inputs, labels, Y[labels], test, labels[[0, 1, -2, -1]], Y[labels[[0, 1, -2, -1]]])


SINGULAR, REGULAR = correlated(7), correlated(15)
TOY = tasks.toy(20, (0.5, 0.3, 0.2), targets=Y)


# --- linear networks --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [None, 40])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_linear(depth, width):
    s = linear.solve(SINGULAR, depth, T, 0.6, width)
    assert s.converged
    assert s.residual < 1e-9
    assert s.num_steps > 0
    k0, t, h = SINGULAR.input_kernel, s.dual_field, s.readout_covariance / 0.6
    gram = 0.6 * np.linalg.matrix_power(h, depth)
    covariance = np.kron(k0, gram) + T * np.eye(30)  # of the outputs of all inputs together, times N
    np.testing.assert_allclose(t, np.linalg.solve(covariance, SINGULAR.targets.ravel()).reshape(10, 3))
    # stationarity (*) in A_1, the sum over eigenvectors as a trace over inputs
    trace = np.einsum("pq,qmpn->mn", k0, np.linalg.inv(covariance).reshape(10, 3, 10, 3))
    dual = 0.6 * (t.T @ k0 @ t - (0.0 if width is None else trace / width))
    np.testing.assert_allclose(dual, (h - np.eye(3)) @ np.linalg.inv(0.6 * gram / 0.36), atol=1e-8)
    new = np.concatenate([SINGULAR.inputs, SINGULAR.test_inputs], axis=1)
    overlap = new.T @ SINGULAR.inputs / 7
    for layer in range(depth + 1):
        factor = gram @ sum((np.linalg.matrix_power(h, j) for j in range(layer)), np.zeros((3, 3)))
        np.testing.assert_allclose(s.learned_factors[layer], factor, atol=1e-10)
        expected = new.T @ new / 7 + overlap @ t @ factor @ t.T @ overlap.T
        np.testing.assert_allclose(s.kernel(new, layer), expected, atol=1e-10)
        np.testing.assert_allclose(s.kernels[layer], expected[:10, :10], atol=1e-10)
        np.testing.assert_allclose(s.kernel(layer=layer), expected[:10, :10], atol=1e-10)
    np.testing.assert_allclose(s.kernel(), s.kernels[-1])
    np.testing.assert_allclose(s.feature_slopes, s.kernels[-2] @ t)
    np.testing.assert_allclose(s.predict(new), overlap @ t @ gram, atol=1e-12)
    np.testing.assert_array_equal((s.temperature, s.readout_variance, s.depth), (T, 0.6, depth))


def test_linear_slopes_at_zero_temperature():
    """⟨z | a⟩ = Y U⁻¹ a: of one layer exactly, and the closed form needs no steps."""
    s = linear.solve(REGULAR)
    np.testing.assert_allclose(s.feature_slopes @ s.readout_covariance, REGULAR.targets, atol=1e-9)
    assert (s.num_steps, s.residual) == (0, 0.0)


def test_wishart_chain_against_weighted_networks():
    """No Gram matrices: two-layer networks of the prior with three outputs, weighted by how well they fit."""
    width, temperature, num_draws, rng = 7, 4.0, 100_000, np.random.default_rng(0)
    task = correlated(4, (3, 1, 1), seed=2)
    found = wishart_chain.solve(task, 2, temperature, width, 1.0, num_draws=40_000)
    assert found.converged
    first = rng.standard_normal((num_draws, width, 4)) @ task.inputs / 2
    second = rng.standard_normal((num_draws, width, width)) @ first / width**0.5
    readouts = rng.standard_normal((num_draws, width, 3))
    missed = task.targets - np.einsum("snp,snm->spm", second, readouts) / width
    weights = np.exp(-width / (2 * temperature) * (np.square(missed).sum((1, 2)) - 5.0))
    weights /= weights.sum()
    effective = 1 / np.square(weights).sum()
    assert min(effective, found.effective_draws) > 2000

    def check(expected, values):
        flat = values.reshape(num_draws, -1)
        mean = weights @ flat
        variance = weights @ np.square(flat - mean)
        error = np.sqrt(variance / effective + variance / found.effective_draws)
        assert np.all(np.abs(expected.ravel() - mean) < 4 * error)

    for kernel, z in zip(found.kernels, (task.inputs[None] / 2 * width**0.5, first, second), strict=True):
        products = np.einsum("snp,snq->spq", z, z) / width
        if len(z) > 1:
            check(kernel, products)
        else:
            np.testing.assert_allclose(kernel, products[0])
    check(found.readout_covariance, np.einsum("snm,snk->smk", readouts, readouts) / width)


# --- Gaussian process -------------------------------------------------------------------------------


def test_gaussian_process_of_two_layers():
    """Kernels by a double Gauss–Hermite rule, everything else from the joint covariance."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(50)
    weights = np.outer(weights, weights) / weights.sum() ** 2
    both = np.concatenate([SINGULAR.inputs, SINGULAR.test_inputs], axis=1)
    kernels = [both.T @ both / 7]
    for _ in range(2):
        size = np.sqrt(np.diag(kernels[-1]))
        cosine = np.clip(kernels[-1] / np.outer(size, size), -1, 1)[..., None, None]
        along = cosine * nodes[:, None] + np.sqrt(1 - cosine**2) * nodes
        other = np.logaddexp(0, size[None, :, None, None] * along)
        own = np.logaddexp(0, size[:, None] * nodes)[:, None, :, None]
        kernels.append(np.sum(own * other * weights, axis=(2, 3)))
    s = gaussian_process.solve(SINGULAR, "softplus", 2, T, 0.7)
    np.testing.assert_allclose(s.kernels, [k[:10, :10] for k in kernels], atol=1e-8)
    np.testing.assert_allclose(s.kernel(both), kernels[-1], atol=1e-8)
    mean = np.logaddexp(0, np.sqrt(np.diag(kernels[1])[:10, None]) * nodes) @ weights.sum(0)
    expected = [mean[SINGULAR.labels == c].mean() for c in range(3)]
    np.testing.assert_allclose(s.activations, [expected], atol=1e-8)
    prior, noise = 0.7 * kernels[-1], T * np.eye(10)
    inverse = np.linalg.inv(prior[:10, :10] + noise)
    np.testing.assert_allclose(s.dual_field, inverse @ SINGULAR.targets, atol=1e-6)
    np.testing.assert_allclose(s.predict(both), prior[:, :10] @ inverse @ SINGULAR.targets, atol=1e-6)
    explained = np.einsum("xp,pq,xq->x", prior[:, :10], inverse, prior[:, :10])
    np.testing.assert_allclose(s.predictor_variance(both), np.diag(prior) - explained, atol=1e-7)
    assert s.converged
    assert s.residual < 1e-12


# --- bounded networks on orthogonal inputs ----------------------------------------------------------


class Grid:
    """The single-neuron posterior of two outputs on a dense grid of readouts, given the field t."""

    def __init__(self, counts, field, num_inputs, step=0.05):
        self.counts, self.field, self.num_inputs = np.asarray(counts, float), field, num_inputs
        nodes, weights = np.polynomial.hermite_e.hermegauss(100)
        phi, weights = 0.5 * (1 + erf(np.sqrt(np.pi) * nodes / 2)), weights / weights.sum()
        self.s = np.linspace(-60, 60, 12001)
        tilted = np.exp(np.outer(self.s, phi)) * weights
        total = tilted.sum(1)
        mean = tilted @ phi / total
        square = tilted @ nodes**2 / total
        self.table = np.log(total), mean, tilted @ phi**2 / total - mean**2, square
        axis = np.arange(-4, 4, step)
        a = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        log_g, *self.moments = self.at(a)
        energy = -num_inputs / 2 * np.square(a).sum(1) + log_g @ self.counts
        self.log_evidence = logsumexp(energy) + np.log(num_inputs / (2 * np.pi) * step**2)
        self.points, self.weights = a, np.exp(energy - logsumexp(energy))

    def at(self, a):
        """log g, ⟨φ⟩, Var φ and ⟨z²⟩ per class."""
        return [np.interp(a @ self.field.T, self.s, one) for one in self.table]

    def climbed(self, a, num_steps):
        for _ in range(num_steps):
            a = (self.at(a)[1] * self.counts) @ self.field / self.num_inputs
        return a


def test_sigmoidal():
    """Two outputs, three classes of unequal sizes, T > 0: sums over a grid of readouts."""
    task = tasks.toy(60, (0.5, 0.3, 0.2), targets=Y[:, :2])
    s = sigmoidal.solve(task, 0.02)
    grid = Grid(task.class_counts, s.dual_field, 60)
    mean, variance, square = grid.moments
    w, n, t = grid.weights, grid.counts, s.dual_field
    residual = (mean * w[:, None]).T @ grid.points + 0.02 * t - task.class_targets
    np.testing.assert_allclose(residual, 0, atol=1e-5)
    np.testing.assert_allclose(s.training_residual, 0.02 * t)
    assert (s.converged, s.temperature, s.method) == (True, 0.02, "quadrature")
    np.testing.assert_allclose(s.kernel_block, (mean * w[:, None]).T @ mean, atol=1e-5)
    np.testing.assert_allclose(s.kernel_diagonal, w @ variance, atol=1e-5)
    evidence = grid.log_evidence + n @ np.sum(0.01 * t**2 - t * task.class_targets, axis=1)
    assert s.free_energy == pytest.approx(-evidence, abs=1e-4)
    cost = 0.02 * n @ np.sum(t**2, 1) + 60 * w @ np.sum(grid.points**2, 1) + w @ square @ n
    assert s.energy == pytest.approx(0.5 * cost, rel=1e-5)
    # peaks, and the neurons that climb to each
    used = w > 1e-9
    tops = grid.climbed(grid.points[used], 300)
    np.testing.assert_allclose(s.readouts, grid.climbed(s.readouts, 300), atol=1e-4)
    distance = np.linalg.norm(tops[:, None] - s.readouts, axis=2)
    assert distance.min(1).max() < 0.02
    for row, own in enumerate(distance.argmin(1) == np.arange(len(s.readouts))[:, None]):
        share = w[used] * own
        assert s.probabilities[row] == pytest.approx(share.sum(), abs=2e-3)
        share /= share.sum()
        np.testing.assert_allclose(s.mean_readouts[row], share @ grid.points[used], atol=0.02)
        np.testing.assert_allclose(s.activations[row], share @ mean[used], atol=0.01)
    np.testing.assert_array_equal(s.codes, grid.at(s.readouts)[1] > 0.5)
    assert len(s.codes) > 2
    assert s.exists.all()
    assert s.num_peaks(0.1) == np.sum(s.probabilities >= 0.1)
    labels = task.labels
    kernel = s.kernel(labels)
    assert kernel[0, 1] == s.kernel_block[0, 0]
    assert kernel[0, 0] == s.kernel_block[0, 0] + s.kernel_diagonal[0]
    assert kernel[-1, 0] == s.kernel_block[2, 0]


def test_sigmoidal_restricted():
    """Occupancies are those asked for; a code exists where its readout is a maximum without restriction."""
    task = tasks.toy(20, (0.5, 0.3, 0.2), targets=Y[:, :2])
    codes = [[0, 1, 0], [1, 0, 1], [1, 0, 0], [1, 1, 1]]
    s = sigmoidal.solve(task, T, codes=codes, occupancies=[0.4, 0.3, 0.2, 0.1])
    assert s.converged
    np.testing.assert_array_equal(s.probabilities, s.occupancies)
    np.testing.assert_array_equal(s.codes, s.restriction)
    for code, share in zip(codes, [0.4, 0.3, 0.2, 0.1]):
        assert s.occupancy(code) == share
    grid = Grid(task.class_counts, s.dual_field, 20)
    at_rest = np.linalg.norm(grid.climbed(s.readouts, 1) - s.readouts, axis=1) < 1e-3
    own = np.all((grid.at(s.readouts)[1] > 0.5) == s.codes, axis=1)
    np.testing.assert_array_equal(s.exists, at_rest)  # a readout forced is none of another code's maxima
    np.testing.assert_array_equal(s.exists, own)
    assert 0 < s.exists.sum() < 4
    # the predictor of the frozen neurons, from the means of each code
    output = np.einsum("g,gc,gm->cm", s.probabilities, s.activations, s.mean_readouts)
    np.testing.assert_allclose(output, task.class_targets - s.training_residual, atol=0.05)


def test_deep_sigmoidal():
    task = tasks.toy(24, (0.6, 0.4), targets=Y[:2])
    s = deep_sigmoidal.solve(task, 2, T)
    n, t, labels = task.class_counts, s.dual_field, task.labels
    assert s.converged
    assert (s.depth, s.temperature) == (2, T)
    assert (
        replace(s, problem=s.problem._replace(readout_variance=0.3)).temperature == T
    )  # not in units of P σ_a²
    np.testing.assert_allclose(s.training_residual, T * t)
    full = s.kernel(labels) @ t[labels] / 24 + T * t[labels] - task.targets
    assert np.abs(full).max() == pytest.approx(s.readout_residual, abs=1e-7)
    assert s.readout_residual < 1e-4
    for index, layer in enumerate(s.layers):
        w, phi = layer.point_weights, layer.point_activations
        assert w.sum() == pytest.approx(1)
        second = (phi * w[:, None]).T @ phi
        assert layer.kernel_block[0, 1] == pytest.approx(second[0, 1])
        # of class means ⟨φ̄²⟩ = k + d/n, and what is left of k + d lies within classes
        np.testing.assert_allclose(np.diag(layer.kernel_block) + layer.kernel_diagonal / n, np.diag(second))
        np.testing.assert_allclose(layer.within_class_variance, layer.kernel_diagonal * (1 - 1 / n))
        for row, code in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
            assert tuple(layer.codes[row]) == code
            own = np.all((phi > 0.5) == np.array(code, bool), axis=1)
            assert layer.probabilities[row] == pytest.approx(w[own].sum())
            if own.any():
                np.testing.assert_allclose(layer.activations[row], w[own] @ phi[own] / w[own].sum())
        np.testing.assert_array_equal(s.kernel(labels, index), layer.kernel(labels))
        assert layer.num_codes(0.05) == np.sum(layer.probabilities >= 0.05)
    last = s.layers[-1]
    np.testing.assert_allclose(last.dual_block, t @ t.T / 24)
    np.testing.assert_array_equal(last.dual_diagonal, 0)
    np.testing.assert_allclose(s.readouts, (s.activations * n) @ t / 24)
    for code, share, activation in zip(s.codes, s.probabilities, s.activations):
        row = int(code @ [2, 1])
        assert share == last.probabilities[row]
        np.testing.assert_array_equal(activation, last.activations[row])
    assert np.all(np.diff(s.probabilities) <= 0)
    # the evidence is stationary in all else: its slope in T is ½‖t‖², in a class's targets −n_c t_c
    up, down = (deep_sigmoidal.solve(task, 2, T * f).free_energy for f in (1.1, 0.9))
    assert (up - down) / (0.2 * T) == pytest.approx(-0.5 * n @ np.sum(t**2, 1), rel=0.01)
    shift = 0.02 * np.array([[1.0, -1, 0.5], [0.3, 0.2, -1]])
    up, down = (
        deep_sigmoidal.solve(task, 2, T, class_targets=Y[:2] + e).free_energy for e in (shift, -shift)
    )
    assert up - down == pytest.approx(2 * n @ np.sum(shift * t, 1), rel=0.01)


# --- rectified networks on orthogonal inputs --------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "softplus"])
def test_rectified(name):
    s = relu.solve(TOY, T, nonlinearity=name)
    assert s.converged
    assert s.nonlinearity == name
    w, n, t = np.array([0.5, 0.3, 0.2]), s.num_outliers, s.dual_field
    np.testing.assert_allclose(s.class_weights, w)
    np.testing.assert_array_equal(s.class_targets, Y)
    z = np.linspace(-14, 14, 4001)
    phi = np.maximum(z, 0) if name == "relu" else np.logaddexp(0, z)

    def bulk(fields):
        density = np.exp((s.bulk_readout @ fields.T)[:, None] * phi - z**2 / 2)
        return np.log(density.sum(1) * (z[1] - z[0]) / np.sqrt(2 * np.pi)), density @ phi / density.sum(1)

    log_g, mean = bulk(t)
    np.testing.assert_allclose(s.bulk_activations, mean, atol=1e-5)
    np.testing.assert_allclose(s.bulk_readout, (w * mean) @ t, atol=1e-5)
    assert s.bulk_probabilities == pytest.approx([1.0])
    np.testing.assert_array_equal(s.bulk_readouts, s.readouts[n:])
    np.testing.assert_array_equal(s.outlier_readouts, s.readouts[:n])
    np.testing.assert_array_equal(s.outlier_preactivations, s.activations[:n])
    np.testing.assert_array_equal(s.probabilities, 1)
    z_bar = np.maximum(s.outlier_readouts @ t.T, 0)
    heard = np.where(z_bar < 1e-6, 0, z_bar)  # what is less counts as silent, and may be rounding
    np.testing.assert_allclose(s.outlier_preactivations, heard, atol=1e-7)
    np.testing.assert_allclose((w * z_bar) @ t, s.outlier_readouts, atol=1e-7)
    np.testing.assert_array_equal(s.codes, np.vstack([z_bar > 1e-6, np.zeros((1, 3))]))
    assert 0 < s.codes.sum() < s.codes[:n].size
    assert np.all(np.diff(np.linalg.norm(s.outlier_readouts, axis=1)) < 1e-6)
    level = w @ log_g - s.bulk_readout @ s.bulk_readout / 2
    np.testing.assert_allclose(s.outlier_entropy_costs, level + np.log(2) * (z_bar < 1e-6) @ w, atol=1e-5)
    output = np.outer(mean, s.bulk_readout) + z_bar.T @ s.outlier_readouts
    np.testing.assert_allclose(Y - output, T * t, atol=1e-5)
    # the energy's slope in a class's targets is w_c t_c, in T −½ Σ_c w_c |t_c|²
    shift = 1e-3 * np.array([[1.0, -1, 0.5], [0.3, 0.2, -1], [-0.6, 0.4, 0.7]])
    ends = [relu.solve(tasks.toy(20, w, targets=Y + e), T, nonlinearity=name) for e in (shift, -shift)]
    assert ends[0].energy - ends[1].energy == pytest.approx(2 * w @ np.sum(shift * t, 1), rel=1e-4)
    ends = [relu.solve(TOY, T * f, nonlinearity=name) for f in (1.01, 0.99)]
    slope = (ends[0].energy - ends[1].energy) / (0.02 * T)
    assert slope == pytest.approx(-0.5 * w @ np.sum(t**2, 1), rel=1e-4)


def test_rectified_at_finite_size():
    """At N = P = 4,000 every correction has its leading form: bulk and outliers held by noisy outputs."""
    task = object.__new__(tasks.Task)  # what the solver reads of it, without drawing its inputs
    w, targets, size, temperature = np.array([0.5, 0.3, 0.2]), tasks.one_hot(3, 1.0, -0.5), 4000, 0.3
    vars(task).update(
        class_counts=w * size, class_targets=targets, is_orthogonal=True,
        inputs=np.zeros((1, size)), labels=np.repeat(np.arange(3), (w * size).astype(int)),
    )  # fmt: skip
    limit = relu.solve(task, temperature)
    s = relu.finite_size(limit, size)
    assert s.converged
    assert s.num_neurons == size
    n, t = s.num_outliers, limit.dual_field
    assert n == 3
    np.testing.assert_allclose(s.probabilities, [1, 1, 1, 1 - 3 / size])
    for name in ("dual_field", "readouts", "activations", "bulk_readout", "bulk_activations"):
        np.testing.assert_allclose(getattr(s, name), getattr(limit, name), atol=0.02)
    np.testing.assert_array_equal(s.codes, limit.codes)
    fields, z = limit.bulk_readout @ t.T, np.linspace(-14, 14, 4001)
    phi = np.maximum(z, 0)
    density = np.exp(fields[:, None] * phi - z**2 / 2)
    density /= density.sum(1, keepdims=True)
    variance = density @ phi**2 - (density @ phi) ** 2
    stiffness = np.eye(3) - np.einsum("c,cr,cq->rq", w * variance, t, t)
    np.testing.assert_allclose(size * s.bulk_readout_covariance, np.linalg.inv(stiffness), rtol=0.02)
    readout = limit.bulk_readout
    for c in range(3):  # one outlier answers to each class: its z is held by the outputs of that class
        (i,) = np.flatnonzero(limit.codes[:n, c])
        noise = temperature * np.eye(3) + variance[c] * np.outer(readout, readout)
        held = 1 / (1 + s.outlier_readouts[i] @ np.linalg.solve(noise, s.outlier_readouts[i]))
        assert s.outlier_preactivation_variances[i, c] == pytest.approx(held, rel=0.02)
        assert s.outlier_preactivations[i, c] == pytest.approx(limit.outlier_preactivations[i, c], rel=0.01)
        for j in {0, 1, 2} - {i}:  # silent: half a Gaussian that the outputs cut off, negative and O(1/√N)
            assert -5 / size**0.5 < s.outlier_preactivations[j, c] < 0.0
            assert s.outlier_preactivation_variances[j, c] < 1.05


@pytest.mark.parametrize("num_neurons", [None, 60])
def test_rectified_squared(num_neurons):
    small, w = 0.0 if num_neurons is None else 60 ** (-1 / 3), np.array([0.5, 0.3, 0.2])

    def solve(targets=Y, temperature=T):
        task = tasks.toy(20, w, targets=targets)
        return relu_squared.solve(task, temperature, num_neurons=num_neurons, num_starts=4)

    s = solve()
    assert s.converged
    a, z, tau = s.outlier_readouts, s.outlier_preactivations, s.dual_field
    np.testing.assert_allclose(z**2 @ (w[:, None] * tau), a, atol=1e-7)
    drive = 2 * a @ tau.T
    np.testing.assert_allclose(drive[z > 0], 1, atol=1e-6)
    assert np.all(drive[z == 0] < 1 + 1e-6)
    # the bulk's readout is where E(a) is largest at a small field, a0 = Σ w t ⟨φ⟩ with ⟨max(0, z)²⟩ = ½
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    half = weights @ np.maximum(nodes, 0) ** 2 / weights.sum()
    np.testing.assert_allclose(s.bulk_readout, half * w @ tau, atol=1e-9)
    bulk = half * s.bulk_readout
    np.testing.assert_allclose((z**2).T @ a + small * (T * tau + bulk), Y, atol=1e-7)
    np.testing.assert_array_equal(s.activations, z**2)
    np.testing.assert_array_equal(s.codes, z > 0)
    np.testing.assert_array_equal(s.readouts, a)
    assert s.num_outliers == len(a)
    assert s.probabilities.tolist() == [1.0] * len(a)
    assert s.local_energies[0] == s.energy
    assert np.all(np.diff(s.local_energies) > 0)
    outliers = 0.5 * (np.sum(a**2) + np.sum(z**2 @ w))
    rest = 0.5 * small * (T * w @ np.sum(tau**2, 1) + (w @ tau) @ (w @ tau) / 4)
    assert s.energy == pytest.approx(outliers + rest, rel=1e-9)
    shift = 1e-3 * np.array([[1.0, -1, 0.5], [0.3, 0.2, -1], [-0.6, 0.4, 0.7]])
    change = solve(Y + shift).energy - solve(Y - shift).energy
    assert change == pytest.approx(2 * w @ np.sum(shift * tau, 1), rel=1e-4)


# --- mean field on any inputs -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sigmoidal", "relu", "own"])
def test_mean_field(name):
    """The own φ has its middle at 1.5, and kinds whose class means are between that and ½."""
    act, middle, nonlinearity = {
        "sigmoidal": (lambda z: 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2)), 0.5, name),
        "relu": (lambda z: np.maximum(z, 0), np.inf, name),
        "own": (lambda z: 3 * expit(2 * z), 1.5, lambda z: 3 * jax.nn.sigmoid(2 * z)),
    }[name]
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], [4, 2, 2])
    centers, which = rng.standard_normal((12, 3)), np.append(labels, [0, 1, 2])
    inputs = centers[:, which] + 0.6 * rng.standard_normal((12, 11))
    targets = Y[which]
    task = tasks.Task(inputs[:, :8], labels, targets[:8], inputs[:, 8:], which[8:], targets[8:])
    s = mean_field.solve(task, nonlinearity, T, readout_variance=0.2)
    assert s.converged
    z, a, t, p = s.preactivations, s.readouts, s.dual_field, s.probabilities
    phi = act(z)
    np.testing.assert_allclose(a, 0.2 * phi @ t, atol=1e-9)
    np.testing.assert_allclose(s.outputs, np.einsum("g,gp,gm->pm", p, phi, a), atol=1e-12)
    np.testing.assert_allclose(task.targets - s.outputs, T * t, atol=1e-9)
    means = np.stack([phi[:, task.labels == c].mean(1) for c in range(3)], axis=1)
    np.testing.assert_allclose(s.activations, means)
    assert s.outliers == (name == "relu")
    if name == "relu":
        assert s.num_outliers == len(p)
        np.testing.assert_array_equal(p, 1)
        np.testing.assert_array_equal(s.codes, means > means.max(1, keepdims=True) / 2)
    else:
        assert s.num_outliers == 0
        assert p.sum() == pytest.approx(1)
        assert np.all(np.diff(p) <= 0)
        np.testing.assert_array_equal(s.codes, means > middle)
        assert np.any((means > 0.5) != s.codes) == (name == "own")
    cost = np.einsum("g,gp,pq,gq->", p, z, np.linalg.inv(task.input_kernel), z) / 2
    entropy = 0.0 if name == "relu" else p @ np.log(p)
    assert s.energy == pytest.approx((np.sum(task.targets * t) / 2 + cost + entropy) / 8, rel=1e-8)
    overlap = np.linalg.solve(task.input_kernel, task.inputs.T @ task.test_inputs / 12)
    there = z @ overlap
    np.testing.assert_allclose(s.preactivations_on(task.test_inputs), there, atol=1e-8)
    there = act(there)
    np.testing.assert_allclose(s.predict(task.test_inputs), there.T @ (p[:, None] * a), atol=1e-8)
    np.testing.assert_allclose(s.kernel(task.test_inputs), (there.T * p) @ there, atol=1e-8)
    np.testing.assert_allclose(s.kernel(), (phi.T * p) @ phi, atol=1e-8)


# --- adaptive kernels and gradient flow -------------------------------------------------------------


def few(seed=1):
    rng = np.random.default_rng(seed)
    return tasks.Task(rng.standard_normal((4, 3)), np.array([0, 0, 1]), Y[[0, 0, 1]])


SIZE = {"num_neurons": 512, "num_rounds": 60}


@pytest.mark.parametrize(
    ("task", "network", "options", "accuracy"),
    [
        (REGULAR, Network(2, 1, "linear"), {"method": "linear"}, 1e-9),
        (few(3), Network(1, 1, "erf"), {"method": "quadrature"}, 1e-5),
        (SINGULAR, Network(1, 1, "erf"), {"method": "population", **SIZE}, 1e-5),
        (TOY, Network(1, 1, "sigmoidal"), {"method": "sigmoidal", **SIZE}, 0.03),
        (TOY, Network(2, 1, "sigmoidal"), {"method": "deep_sigmoidal", **SIZE}, 0.05),
    ],
    ids=["linear", "quadrature", "population", "sigmoidal", "deep"],
)
def test_adaptive_kernel(task, network, options, accuracy):
    """Neurons carry the kernels, and the duals follow from their second moments."""
    richness, ridge = 1.5, 0.4
    s = adaptive_kernel.solve(task, network, richness, ridge, **options)
    assert s.converged
    assert s.method == options["method"]
    assert (s.richness, s.ridge) == (richness, ridge)
    assert s.effective_share > 0.3
    size, v, depth = task.num_inputs, s.dual_field, network.depth
    assert s.kernels.shape == (depth + 1, size, size)
    assert s.dual_kernels.shape == (depth, size, size)
    np.testing.assert_allclose(s.kernels[0], task.input_kernel, atol=1e-12)
    ridged = s.kernels[-1] + ridge * np.eye(size)
    np.testing.assert_allclose(ridged @ v, task.targets, atol=max(1e-6, accuracy / 100))
    np.testing.assert_allclose(s.dual_kernels[-1], richness**2 * v @ v.T)
    scale = np.abs(s.kernels[-1]).max()
    exact = dict(rtol=0, atol=accuracy * scale)  # noqa: C408
    np.testing.assert_allclose(s.test_kernel(task.inputs), s.kernels[-1], **exact)
    new = task.inputs[:, ::2] + 0.3
    np.testing.assert_allclose(s.predict(new), s.test_kernel(new) @ v, atol=1e-8)
    members = task.labels == np.arange(3)[:, None]  # noise of neurons averages out over classes
    for layer in range(1, depth):
        below = np.linalg.inv(s.kernels[layer])
        second = s.kernels[layer + 1]
        if options["method"] != "linear":
            h, weights = s.preactivations(layer)
            second = np.einsum("n,nap,naq->pq", weights, h, h)
        moved = members @ (below @ second @ below - below) @ members.T
        dual = members @ s.dual_kernels[layer - 1] @ members.T
        np.testing.assert_allclose(dual, moved, rtol=0, atol=2 * accuracy * np.abs(moved).max() + 1e-8)
    for layer in range(depth if options["method"] != "linear" else 0):
        h, weights = s.preactivations(layer)
        assert weights.sum() == pytest.approx(1)
        phi = np.asarray(network.phi(jnp.asarray(h)))
        np.testing.assert_allclose(
            np.einsum("n,nap,naq->pq", weights, phi, phi), s.kernels[layer + 1], **exact
        )


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_expansion_of_deep_linear_networks(depth):
    """Coefficients of γ0² as differences of the closed theory, three outputs."""
    task, network, ridge, richness = few(), Network(depth, 1, "linear"), 0.4, 1e-2
    found = adaptive_kernel.expansion(task, network, ridge)
    exact = adaptive_kernel.solve(task, network, richness, ridge)
    np.testing.assert_allclose(found.kernels, np.broadcast_to(task.input_kernel, (depth, 3, 3)), atol=1e-12)
    lazy = np.linalg.solve(task.input_kernel + ridge * np.eye(3), task.targets)
    np.testing.assert_allclose(found.dual_field, lazy)
    close = dict(rtol=2e-3, atol=2e-3)  # noqa: C408
    np.testing.assert_allclose((exact.kernels[1:] - found.kernels) / 1e-4, found.kernel_changes, **close)
    np.testing.assert_allclose(exact.dual_kernels / 1e-4, found.dual_changes, **close)
    np.testing.assert_allclose((exact.dual_field - lazy) / 1e-4, found.dual_field_change, **close)
    new = task.inputs[:, :2] - 0.5
    np.testing.assert_allclose(found.predict(new, richness), exact.predict(new), atol=1e-6)


@pytest.mark.parametrize("pooled", [False, True])
def test_tangent_kernel(pooled):
    """K, Φ and the predictor of a convolutional network with two outputs, from its gradients by loops."""
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1])
    task = tasks.Task(
        rng.standard_normal((8, 3)),
        labels,
        Y[labels, :2],
        rng.standard_normal((8, 2)),
        labels[1:],
        Y[labels[1:], :2],
    )
    conv = features.convolution(task, "relu_squared", (2, 2, 2), kernel_size=1, stride=1, pooled=pooled)
    path = dmft.population(
        task, "relu_squared", 1.3, 0.5, duration=60.0, num_neurons=6, network=True, features=conv,
        average_steps=0, dtype=jnp.float64,
    )  # fmt: skip
    missed = (task.targets - path.outputs, task.test_targets - path.test_outputs)
    for loss, gap in zip((path.train_loss, path.test_loss), missed):
        np.testing.assert_allclose(loss, [0.5 * np.mean([g @ g for g in one]) for one in gap])
    s = dmft.antk(path)
    assert s.converged
    assert s.degree == 3
    w, u, root = path.readouts, path.u, conv.root
    np.testing.assert_allclose(path.preactivations, np.einsum("apr,nr->nap", root, u), atol=1e-12)
    gradients = np.zeros((3, 2, 6, 2 * w.shape[1] + u.shape[1]))
    positions = len(root)
    scale = 1 / positions if pooled else positions**-0.5
    for p in range(3):
        for m in range(2):
            for i in range(6):
                for a in range(positions):
                    h, readout = root[a, p] @ u[i], 0 if pooled else a
                    gradients[p, m, i, 2 * readout + m] += scale * max(h, 0) ** 2
                    own = scale * w[i, readout, m] * 2 * max(h, 0) * root[a, p]
                    gradients[p, m, i, 2 * w.shape[1] :] += own
    flat = gradients.reshape(6, -1)
    np.testing.assert_allclose(s.kernel, flat @ flat.T / 6, atol=1e-10)
    of_readouts = gradients[:, 0, :, : 2 * w.shape[1]].reshape(3, -1)
    np.testing.assert_allclose(s.feature_kernel, of_readouts @ of_readouts.T / 6, atol=1e-10)
    ridge = s.kernel + 3 * 0.5 * np.eye(6)
    np.testing.assert_allclose(ridge @ s.dual_field.ravel(), task.targets.ravel())
    gap = (s.kernel @ s.dual_field.ravel()).reshape(3, 2) - path.outputs[-1]
    assert s.residual == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(task.targets))
    np.testing.assert_allclose(s.predict(task.inputs), path.outputs[-1], atol=1e-5)
