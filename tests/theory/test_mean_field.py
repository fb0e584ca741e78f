"""Mean-field theory on general inputs: stationarity, closed forms, duality, ensemble with fluctuations."""

from types import SimpleNamespace
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import planting, sampling, statistics, tasks
from coding_schemes.networks import Network, sigmoidal
from coding_schemes.posterior import Posterior
from coding_schemes.theory import clustered, linear, mean_field, relu
from scipy.optimize import rosen, rosen_der
from scipy.special import erf

T = 0.01


def correlated_task(num_inputs=24, num_test=15, seed=0):
    """Three clusters of inputs with K0 far from the identity, and a test split."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((40, 3))
    labels, test_labels = np.arange(num_inputs) * 3 // num_inputs, rng.integers(0, 3, num_test)
    draw = lambda which: centers[:, which] + 0.7 * rng.standard_normal((40, len(which)))  # noqa: E731
    targets = tasks.one_hot(3, 1.0, 0.2)
    return tasks.Task(
        draw(labels), labels, targets[labels], draw(test_labels), test_labels, targets[test_labels]
    )


@pytest.fixture(scope="module")
def task():
    return correlated_task()


@pytest.fixture(scope="module")
def bounded(task):
    return mean_field.solve(task, "sigmoidal", T)


@pytest.fixture(scope="module")
def outliers(task):
    return mean_field.solve(task, "relu", T)


def slope(z):
    return 0.5 * np.exp(-np.pi * z**2 / 4)


def phi(z):
    return 0.5 * (1 + erf(0.5 * np.sqrt(np.pi) * z))


def energy(task, z, probabilities, activations, entropy):
    """(*) of the module docstring, written out with K0 itself."""
    num_inputs = task.num_inputs
    kernel = (activations.T * probabilities) @ activations / num_inputs
    fit = 0.5 * np.sum(task.targets * np.linalg.solve(kernel + T * np.eye(num_inputs), task.targets))
    cost = 0.5 * np.einsum("g,gp,pq,gq->", probabilities, z, np.linalg.pinv(task.input_kernel), z)
    return (fit + cost + (probabilities @ np.log(probabilities) if entropy else 0)) / num_inputs


def test_saddle_point_equations_hold(task, bounded):
    assert bounded.converged
    assert bounded.residual < 1e-6
    z, a, t = bounded.preactivations, bounded.readouts, bounded.dual_field
    np.testing.assert_allclose(bounded.probabilities.sum(), 1)
    np.testing.assert_allclose(task.targets - bounded.outputs, T * t, atol=1e-9)
    np.testing.assert_allclose(a, phi(z) @ t / task.num_inputs, atol=1e-9)
    np.testing.assert_allclose(z, (slope(z) * (a @ t.T)) @ task.input_kernel, atol=1e-4)


def test_the_duality_gap_is_never_negative(bounded, outliers):
    """Energy less a lower bound: a bound that is too high closes the gap before the minimum is reached."""
    assert -1e-9 < bounded.residual < 1e-6
    assert 0 < outliers.residual < 2e-2


def test_outliers_solve_their_equations(task, outliers):
    z, a, t = outliers.preactivations, outliers.readouts, outliers.dual_field
    assert outliers.converged
    assert outliers.outliers
    np.testing.assert_allclose(task.targets - outliers.outputs, T * t, atol=1e-9)
    np.testing.assert_allclose(a, np.maximum(z, 0) @ t / task.num_inputs, atol=1e-9)
    # Marginal stability: what an outlier pays in z it pays again in a.
    cost = np.einsum("gp,pq,gq->g", z, np.linalg.pinv(task.input_kernel), z)
    np.testing.assert_allclose(cost, task.num_inputs * np.sum(a**2, axis=1), rtol=0.02)


@pytest.mark.parametrize("name", ["bounded", "outliers"])
def test_no_perturbation_lowers_the_energy(task, name, request):
    s = request.getfixturevalue(name)
    act = (lambda z: np.maximum(z, 0)) if s.outliers else phi
    lowest = energy(task, s.preactivations, s.probabilities, act(s.preactivations), not s.outliers)
    np.testing.assert_allclose(lowest, s.energy, rtol=1e-8)
    rng = np.random.default_rng(0)
    rise = []
    for _ in range(20):
        z = (
            s.preactivations
            + 0.1 * rng.standard_normal((len(s.readouts), task.num_inputs)) @ task.input_kernel
        )
        p = s.probabilities * np.exp(0.1 * rng.standard_normal(len(s.readouts)))
        p = s.probabilities if s.outliers else p / p.sum()
        rise.append(energy(task, z, p, act(z), not s.outliers) - lowest)
    assert min(rise) > 0


def test_of_many_candidates_those_that_gain_most_are_refined(monkeypatch):
    gains, seen = np.random.default_rng(0).permutation(np.arange(1.0, 41)), []

    def search(_, starts, *__, **___):
        seen.append(starts)
        return starts

    problem = SimpleNamespace(has_outliers=True, has_population=False)
    problem.gain = lambda found, *_: found[:, 0] ** 2 * gains[found[:, 1].astype(int)]
    starts = np.stack([np.full(40, 1e3), np.arange(40.0)], axis=1)  # almost all of one length
    monkeypatch.setattr(mean_field, "_search", search)
    mean_field._new_kinds(problem, SimpleNamespace(outliers=starts[:0]), starts, np.ones(1))
    assert sorted(gains[seen[1][:, 1].astype(int)]) == list(range(17, 41))


@pytest.mark.parametrize("num_starts", [1, 24, 25, 50])
def test_every_start_of_a_search_ends_in_its_own_minimum(num_starts):
    """Whatever their number is, over those that are minimized together: u ≠ 0 ends in the sign of u."""
    starts = np.random.default_rng(0).standard_normal((num_starts, 2))
    problem = SimpleNamespace(balance=lambda x: (np.sum((x[0] ** 2 - 1) ** 2) / 4, (x[0] ** 3 - x[0],)))
    found = mean_field._search(problem, starts, max_steps=400)
    np.testing.assert_allclose(found, np.sign(starts), atol=1e-5)


def test_descent_ends_in_known_minima():
    """A curved valley, a quadratic a million times stiffer one way than another, and a kink."""
    valley = mean_field._lbfgs(lambda x: (rosen(x), rosen_der(x)), np.zeros(6), 4000)
    np.testing.assert_allclose(valley, 1, atol=1e-5)
    stiffness, center = np.logspace(-3, 3, 8), np.arange(8.0)

    def quadratic(x):
        return 0.5 * stiffness @ (x - center) ** 2, stiffness * (x - center)

    np.testing.assert_allclose(mean_field._lbfgs(quadratic, np.zeros(8), 4000), center, atol=1e-3)

    def kink(x):
        return abs(x[0]) + x[1] ** 2, np.array([np.sign(x[0]), 2 * x[1]])

    np.testing.assert_allclose(mean_field._lbfgs(kink, np.array([0.7, 0.3]), 4000), 0, atol=1e-6)


def test_fixed_kinds_have_the_shares_of_least_energy(task):
    root = mean_field._kernel_root(task.input_kernel)
    problem = mean_field._Problem(sigmoidal, (0.0, 0.0), True, root, task.targets, T, 1 / task.num_inputs)
    kinds = mean_field._code_starts(task, root)
    start = mean_field._Point(kinds[:0], kinds, np.linspace(-2, 2, len(kinds)))
    found = mean_field._reweigh(problem, start)
    np.testing.assert_array_equal(found.u, kinds)
    lowest, gradient = problem.energy(found)
    np.testing.assert_allclose(gradient.logits, 0, atol=1e-5)
    for shares in np.random.default_rng(0).dirichlet(np.ones(len(kinds)), 50):
        assert problem.energy(found._replace(logits=np.log(shares)))[0] > lowest


def test_found_from_other_starts(task, bounded):
    other = mean_field.solve(task, "sigmoidal", T, seed=5)
    np.testing.assert_allclose(other.probabilities, bounded.probabilities, atol=1e-4)
    np.testing.assert_allclose(other.dual_field, bounded.dual_field, atol=1e-3)


def test_one_round_too_few_is_reported(task):
    with pytest.warns(UserWarning, match="did not converge"):
        s = mean_field.solve(task, "relu", T, tolerance=1e-9, max_rounds=1)
    assert not s.converged
    assert s.residual > 1e-9


def test_relu_closed_form_on_orthogonal_inputs():
    """One outlier per class, z̄|ā| = |y| − T √(P/n), where classes do not excite each other's outliers."""
    task = tasks.toy(40, y_minus=-0.5)
    s = mean_field.solve(task, "relu", T)
    strength = np.linalg.norm(s.readouts, axis=1) * s.activations.max(axis=1)
    counts = task.class_counts[s.activations.argmax(axis=1)]
    np.testing.assert_allclose(
        strength, np.linalg.norm([1, -0.5, -0.5]) - T * np.sqrt(40 / counts), rtol=1e-4
    )
    np.testing.assert_array_equal(np.sort(s.activations.argmax(axis=1)), [0, 1, 2])
    np.testing.assert_allclose(
        np.linalg.norm(s.dual_field, axis=1), np.sqrt(40 / task.class_counts)[task.labels], rtol=1e-3
    )


def leaky(slope):
    return lambda z: jnp.where(z > 0, z, slope * z)


def test_a_leaky_relu_lies_between_relu_and_linear(task, outliers):
    """Without slope it is ReLU; nearly linear, and of large targets, linear but for the bulk's kernel."""
    s = mean_field.solve(task, leaky(0.002), T)
    np.testing.assert_allclose(s.kernel(), outliers.kernel(), atol=5e-3 * s.kernel().max())
    large = tasks.Task(task.inputs, task.labels, 100 * task.targets)
    s, exact = mean_field.solve(large, leaky(0.999), 1.0), linear.solve(large, 1, 1.0)
    np.testing.assert_allclose(s.kernel(), exact.kernel() - task.input_kernel, atol=5e-3 * s.kernel().max())


@pytest.mark.parametrize("nonlinearity", ["softplus", jax.nn.leaky_relu], ids=["softplus", "leaky_relu"])
def test_outliers_are_those_of_inputs_alike_within_a_class(nonlinearity):
    """Of relu.solve for orthogonal inputs, and clustered where many inputs overlap: to the bulk's scatter."""
    if nonlinearity == "softplus":
        task = tasks.toy(40, y_minus=-0.5)
        s, exact = mean_field.solve(task, nonlinearity, T), relu.solve(task, T, nonlinearity=nonlinearity)
        assert (s.num_outliers, len(s.probabilities)) == (3, 4)
        np.testing.assert_allclose(s.probabilities, 1)
        np.testing.assert_array_equal(s.codes.sum(axis=1), [1, 1, 1, 0])
        np.testing.assert_allclose(s.outputs, task.targets - T * s.dual_field, atol=1e-9)
        order, atol = np.argsort(s.codes[:3] @ np.arange(3)), 0.02
        np.testing.assert_allclose(s.readouts[order], exact.outlier_readouts, atol=0.03)
        np.testing.assert_allclose(s.readouts[3], exact.bulk_readout, atol=0.03)
        for drawn, kinds in zip(
            s.draw(np.random.default_rng(0), task.labels, 50), (s.preactivations, s.readouts)
        ):
            np.testing.assert_allclose(drawn[:3], 50**0.5 * kinds[:3])
            np.testing.assert_allclose(drawn[3:], np.tile(kinds[3], (47, 1)))  # the population's one kind
    else:
        task = tasks.clustered(60, overlap=0.5, y_minus=-0.5)
        s = mean_field.solve(task, nonlinearity, T)
        exact = clustered.solve(task, T, nonlinearity=nonlinearity)
        atol, excess = 6e-3, (exact.kernel() - s.kernel())[~np.eye(60, dtype=bool)]
        assert 0.2 < excess.min() < excess.max() < 0.45  # ⟨φφ⟩ of the bulk, in a kernel of 7
    np.testing.assert_allclose(s.dual_field, exact.dual_field[task.labels], atol=atol * s.dual_field.max())


@pytest.mark.parametrize("nonlinearity", ["softplus", jax.nn.leaky_relu], ids=["softplus", "leaky_relu"])
def test_networks_have_the_residual_and_the_kernel_of_outliers(nonlinearity):
    """Twelve general inputs, N = 80: along t what the bulk adds is small."""
    labels = np.repeat([0, 1], 6)
    task = tasks.own(np.random.default_rng(0).standard_normal((6, 12)) + 1, labels)
    s, network = mean_field.solve(task, nonlinearity, T, num_starts=16), Network(1, 80, nonlinearity)
    assert s.converged
    posterior = Posterior(task, network, T)
    samples = sampling.sample(
        posterior,
        jax.random.key(1),
        100,
        num_chains=2,
        num_warmup=160,
        thinning=3,
        init=planting.planted(jax.random.key(0), s, posterior),
        store=("readouts", "preactivations"),
    )
    values, t = samples.activations(), s.dual_field
    residual = task.targets - np.einsum("csnp,csnm->cspm", values, samples.readouts) / 80
    mean, error = statistics.mean_and_error(np.sum(residual * t, axis=(2, 3)))
    assert abs(mean - T * np.sum(t**2)) < 3 * error + 0.02 * mean  # 2 %: bulk, and 1/N
    mean, error = statistics.mean_and_error(np.square(values @ t).sum(axis=(2, 3)) / 80)
    assert abs(mean - np.sum(t * (s.kernel() @ t))) < 3 * error + 0.03 * mean


@pytest.mark.parametrize("phi", [jax.nn.gelu, jax.nn.elu, lambda z: 2 * z, lambda z: jax.nn.relu(z) + 1])
def test_growth_without_outliers_is_refused(phi):
    """Below 0 on the silent side, linear, or with an offset: finite neurons do better than large ones."""
    assert not mean_field.reaches(phi)
    with pytest.raises(ValueError, match="lines from the origin of two slopes"):
        mean_field.solve(tasks.toy(12), phi, T)


def test_no_temperature_is_the_limit_of_low_ones():
    """Outliers carry the whole targets, z̄|ā| = |y|, up to the temperature that stands for the limit."""
    task = tasks.toy(40, y_minus=-0.5)
    s = mean_field.solve(task, "relu", 0.0)
    assert s.converged
    assert s.is_limit
    assert 0 < s.temperature <= 1e-3
    assert s.approximation.endswith(f"T = {s.temperature:g} for the limit T → 0")
    strength = np.linalg.norm(s.readouts, axis=1) * s.activations.max(axis=1)
    np.testing.assert_allclose(strength, np.linalg.norm([1, -0.5, -0.5]), atol=2.5 * s.temperature)
    np.testing.assert_allclose(s.outputs, task.targets, atol=2.5 * s.temperature)
    rescaled = mean_field.solve(task, "relu", 0.0, readout_variance=1.0)
    assert rescaled.temperature == pytest.approx(40 * s.temperature)


def test_a_limit_that_is_not_reached_is_reported(task):
    with (
        mock.patch.object(mean_field, "_COOLING", (1e-2, 3e-3)),
        pytest.warns(UserWarning, match="T → 0 did not converge.*at T = 0.003.*outputs miss"),
    ):
        s = mean_field.solve(task, "sigmoidal", 0.0)
    assert not s.converged


def test_code_and_complement_are_equally_frequent():
    """φ(−z) = 1 − φ(z), balanced classes and targets that sum to zero: flipping all neurons is a symmetry."""
    s = mean_field.solve(tasks.toy(30, (1 / 3, 1 / 3, 1 / 3), y_minus=-0.5), "sigmoidal", T)
    occupancy = {tuple(code): p for code, p in zip(s.codes.astype(int), s.probabilities, strict=True)}
    assert len(occupancy) == 6
    for code, p in occupancy.items():
        np.testing.assert_allclose(p, occupancy[tuple(1 - c for c in code)], rtol=1e-3)


def test_predictions_extend_the_training_outputs(task, bounded, outliers):
    for s in (bounded, outliers):
        np.testing.assert_allclose(s.predict(task.inputs), s.outputs, atol=1e-8)
        np.testing.assert_allclose(s.predict(task.inputs, fluctuations=True), s.outputs, atol=1e-6)
        activations = np.maximum(s.preactivations, 0) if s.outliers else phi(s.preactivations)
        expected = (activations.T * s.probabilities) @ activations
        np.testing.assert_allclose(s.kernel(task.inputs), expected, atol=1e-8)
    correct = bounded.predict(task.test_inputs).argmax(axis=1) == task.test_labels
    assert correct.mean() > 0.8


def test_test_fluctuations_average_over_the_conditional_gaussian(task, bounded):
    x = task.test_inputs
    overlap = task.inputs.T @ x / task.input_dim
    variance = np.sum(x**2, 0) / task.input_dim - np.sum(
        overlap * np.linalg.solve(task.input_kernel, overlap), 0
    )
    mean = bounded.preactivations @ np.linalg.solve(task.input_kernel, overlap)
    expected = phi(mean / np.sqrt(1 + np.pi * variance / 2))  # Gaussian average of an error function
    np.testing.assert_allclose(bounded.activations_on(x, fluctuations=True), expected, atol=1e-7)
    np.testing.assert_allclose(bounded.activations_on(x), phi(mean), atol=1e-9)
    for fluctuations, values in ((True, expected), (False, phi(mean))):
        kernel = np.einsum("n,np,nq->pq", bounded.probabilities, values, values)
        np.testing.assert_allclose(bounded.kernel(x, fluctuations), kernel, atol=1e-6)


def test_inputs_beyond_the_dimension():
    """P > N0: K0 is singular, the preactivations stay in its span."""
    task = tasks.projected(correlated_task(), 10)
    s = mean_field.solve(task, "sigmoidal", T)
    assert s.converged
    values, vectors = np.linalg.eigh(task.input_kernel)
    np.testing.assert_allclose(s.preactivations @ vectors[:, values < 1e-10], 0, atol=1e-8)


def test_root_of_a_kernel_leaves_out_nothing_but_its_null_space():
    """Eigenvalues over eight orders of magnitude, as images have them."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0][:, :5]
    values = np.array([1e-7, 1e-5, 1e-4, 1e-2, 10.0])
    root = mean_field._kernel_root((basis * values) @ basis.T)
    assert root.shape == (6, 5)
    np.testing.assert_allclose(np.square(basis.T @ root).sum(1), values, rtol=1e-5)


def test_float64_whatever_the_global_setting(task, bounded):
    with jax.enable_x64(False):
        s = mean_field.solve(task, "sigmoidal", T)
    assert s.dual_field.dtype == np.float64
    np.testing.assert_allclose(s.probabilities, bounded.probabilities, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("nonlinearity", ["sigmoidal", "relu"])
def test_converges_on_digits(nonlinearity):
    task = tasks.mnist()
    s = mean_field.solve(task, nonlinearity, T)
    assert s.converged
    error = np.square(task.test_targets - s.predict(task.test_inputs)).mean(axis=0).sum()
    assert error < 0.25
    assert s.codes[:3].sum(axis=1).max() <= 2


def test_outliers_of_one_direction_are_one_and_so_are_kinds_of_one_place():
    outliers = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    u = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]])  # of one direction, in two places
    found = mean_field._prune(mean_field._Point(outliers, u, np.log([0.5, 0.3, 0.2])))
    np.testing.assert_allclose(found.outliers, [[10**0.5, 0], [0, 1]])  # squares, the energy, add up
    np.testing.assert_allclose(found.u, [[1, 1], [2, 2]])
    np.testing.assert_allclose(np.exp(found.logits), [0.7, 0.3])
