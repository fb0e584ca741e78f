"""Inputs alike within a class: the toy task, brute force, closed forms, limits and sampled networks."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import coding, tasks, theory
from coding_schemes.networks import Network, nonlinearity
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, sample
from coding_schemes.theory import _class_tables, _solvers, clustered, condensation, linear, sigmoidal
from scipy.interpolate import CubicSpline
from scipy.special import erf, logsumexp, ndtr

T = 0.01


def phi(z):
    return 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2))


@pytest.fixture(scope="module")
def redundant():
    return clustered.solve(tasks.clustered(60, overlap=0.5, y_minus=0.5), T)


@pytest.fixture(scope="module")
def rectified():
    return clustered.solve(tasks.clustered(60, overlap=0.5, y_minus=-0.5), T, nonlinearity="relu")


def test_no_overlap_is_the_toy_task():
    task = tasks.toy(60, y_minus=0.5)
    found, known = clustered.solve(task, T), sigmoidal.solve(task, T)
    assert found.converged
    np.testing.assert_allclose(found.dual_field, known.dual_field, atol=1e-9)
    np.testing.assert_allclose(found.kernel_block, known.kernel_block, atol=1e-7)
    np.testing.assert_allclose(found.kernel_diagonal, known.kernel_diagonal, atol=1e-7)
    np.testing.assert_allclose(found.free_energy, known.free_energy, atol=1e-8)
    for code, share in zip(known.codes, known.probabilities):
        assert found.occupancy(code) == pytest.approx(share, abs=1e-6)
    expected = sigmoidal.measured_occupancies(known, known.codes)
    np.testing.assert_allclose(found.activity_shares(known.codes), expected, atol=1e-6)


@pytest.mark.parametrize(("overlap", "share"), [(1e-6, 0.101), (0.1, 0.198), (0.5, 0.237)])
def test_overlap_lets_neurons_answer_to_all_classes(overlap, share):
    s = clustered.solve(tasks.clustered(60, overlap=overlap, y_minus=0.5), T)
    np.testing.assert_allclose(s.activity_shares([[1, 1, 1]]), share, atol=1e-3)


# --- brute force: a task with one or two inputs per class

TINY = tasks.clustered(3, (2 / 3, 1 / 3), overlap=0.6, targets=[[1.0], [-0.4]])
ORTHOGONAL = tasks.toy(3, (2 / 3, 1 / 3), targets=[[1.0], [-0.4]])


def brute_force(task, field, act, temperature=T, num_nodes=40):
    """D, ⟨φ_μ a⟩, ⟨φ_μ φ_ν⟩ and ⟨m²⟩²/⟨m⁴⟩ by sums over three preactivations, the readout by hand."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    root = np.linalg.cholesky(task.input_kernel)
    grid = np.stack(np.meshgrid(*3 * [nodes], indexing="ij"), -1).reshape(-1, 3)
    log_weight = sum(np.log(w) for w in np.meshgrid(*3 * [weights / weights.sum()], indexing="ij")).ravel()
    values = act(grid @ root.T)
    pull = values @ field[task.labels, 0]  # Σ_μ t_μ φ_μ; the readout is Gaussian about a third of it
    exponent = log_weight + pull**2 / 6
    log_z = logsumexp(exponent)
    p = np.exp(exponent - log_z)
    value = (
        log_z
        - task.targets[:, 0] @ field[task.labels, 0]
        + 0.5 * temperature * np.sum(field[task.labels] ** 2)
    )
    means = coding.class_means(values, task.labels)
    return value, (p * pull / 3) @ values, (values.T * p) @ values, (p @ means**2) ** 2 / (p @ means**4)


@pytest.mark.parametrize(
    ("task", "nonlinearity", "act", "num_nodes", "atol"),
    [
        (TINY, "sigmoidal", phi, 40, 1e-5),
        (TINY, "softplus", lambda z: np.logaddexp(0, z), 60, 1e-3),
        (TINY, lambda z: jnp.sqrt(1 + z**2), lambda z: np.hypot(1, z), 60, 1e-3),  # alike on both sides
        (ORTHOGONAL, partial(jax.nn.gelu, approximate=False), lambda z: z * ndtr(z), 60, 1e-3),
        (ORTHOGONAL, jax.nn.leaky_relu, lambda z: np.where(z > 0, z, 0.01 * z), 60, 5e-3),
    ],
)
def test_tiny_task_agrees_with_brute_force(task, nonlinearity, act, num_nodes, atol):
    """Gauss–Hermite over every preactivation; a φ that grows at a high T, where its tails end."""
    temperature = 0.01 if nonlinearity == "sigmoidal" else 1.0
    s = clustered.solve(task, temperature, nonlinearity=nonlinearity)
    assert s.converged
    value, outputs, kernel, shares = brute_force(task, s.dual_field, act, temperature, num_nodes)
    np.testing.assert_allclose(-s.free_energy, value, atol=atol)
    np.testing.assert_allclose(
        outputs, (task.targets - temperature * s.dual_field[task.labels])[:, 0], atol=atol
    )
    np.testing.assert_allclose(s.kernel(), kernel, atol=10 * atol)
    np.testing.assert_allclose(s.class_participation, shares, rtol=atol)
    step = np.array([[1e-3], [0.0]])
    up, down = (
        brute_force(task, s.dual_field + sign * step, act, temperature, num_nodes)[0] for sign in (1, -1)
    )
    assert min(up, down) > value
    assert abs(up - down) / 2e-3 < 20 * atol


@pytest.mark.parametrize("nonlinearity", ["sigmoidal", "relu", "softplus"])
def test_gradient_and_hessian_are_finite_differences(nonlinearity):
    problem = clustered.make_problem(tasks.clustered(12, overlap=0.4), 0.1, nonlinearity, None)
    dual = clustered._Dual(problem, "quadrature")
    field = 0.3 * np.random.default_rng(0).standard_normal(problem.targets.shape)
    _, gradient, *parts = dual.value_and_gradient(field)
    hessian = dual.hessian(*parts)
    step = 1e-4 * np.random.default_rng(1).standard_normal(field.shape)
    (up, g_up, *_), (down, g_down, *_) = (dual.value_and_gradient(field + s * step) for s in (1, -1))
    np.testing.assert_allclose(up - down, 2 * gradient @ step.ravel(), rtol=1e-5)
    np.testing.assert_allclose(g_up - g_down, 2 * hessian @ step.ravel(), rtol=1e-3, atol=1e-6)


def test_shares_and_kernels_agree_with_an_independent_quadrature(redundant):
    """Gauss–Hermite for ξ, a grid for v, splines over the field, and a cube of readouts."""
    task, s = redundant.task, redundant
    nodes, gauss = np.polynomial.hermite_e.hermegauss(60)
    v = np.linspace(-7, 7, 181)
    values = phi(np.sqrt(0.5) * v[:, None] + np.sqrt(0.5) * nodes)
    axis = np.arange(-1.5, 2.9, 0.1)
    a = np.stack(np.meshgrid(*3 * [axis], indexing="ij"), -1).reshape(-1, 3)
    exponent, means, active = -30 * np.sum(a**2, 1), [], []
    for count, row in zip(task.class_counts, s.dual_field):
        fields = np.linspace((a @ row).min(), (a @ row).max(), 600)
        tilted = np.exp(fields[:, None, None] * values) * gauss / gauss.sum()
        norm = tilted.sum(-1)
        mean = np.sum(tilted * values, -1) / norm
        spread = np.sqrt((np.sum(tilted * values**2, -1) / norm - mean**2) / count)
        log_v = count * np.log(norm) - v**2 / 2
        weight = np.exp(log_v - log_v.max(1, keepdims=True))
        total = weight.sum(1)
        exponent += CubicSpline(fields, np.log(total) + log_v.max(1))(a @ row)
        means.append(CubicSpline(fields, np.sum(weight * mean, 1) / total)(a @ row))
        on = np.sum(weight * ndtr((mean - 0.5) / spread), 1) / total
        active.append(CubicSpline(fields, on)(a @ row))
    weights = np.exp(exponent - exponent.max())
    weights /= weights.sum()
    means = np.array(means)
    block = (means * weights) @ means.T
    np.testing.assert_allclose(block[0, 1:], s.kernel_block[0, 1:], atol=1e-5)
    outputs = (weights * means) @ a
    np.testing.assert_allclose(outputs, task.class_targets - T * s.dual_field, atol=1e-4)
    share = weights @ np.prod(active, axis=0)
    np.testing.assert_allclose(s.activity_shares([[1, 1, 1]]), share, atol=1e-4)


@pytest.mark.parametrize("nonlinearity", ["sigmoidal", "tanh"])
def test_theory_is_continuous_at_orthogonal_inputs(nonlinearity):
    """K0 = 1.001 · 1, which had gone to another theory with other answers."""
    task = tasks.toy(40, y_minus=0.5)
    near = tasks.Task(np.sqrt(1.001) * task.inputs, task.labels, task.targets)
    network = Network(1, 40, nonlinearity)
    exact, found = theory.solve(task, network, T), theory.solve(near, network, T)
    assert isinstance(found, clustered.Solution)
    np.testing.assert_allclose(found.kernel(), exact.kernel(), atol=2e-3)
    np.testing.assert_allclose(found.dual_field, exact.dual_field, atol=0.05)


def test_linear_networks_are_those_of_theory_linear():
    task = tasks.clustered(20, overlap=0.5, y_minus=-0.3)
    s, known = clustered.solve(task, 0.05, nonlinearity="linear"), linear.solve(task, 1, 0.05)
    assert s.converged
    np.testing.assert_allclose(s.dual_field[task.labels], known.dual_field, atol=1e-6)
    np.testing.assert_allclose(s.kernel(), known.kernels[-1], atol=1e-5)
    np.testing.assert_allclose(s.class_participation, 1 / 3, atol=1e-5)  # Gaussian


def test_rectified_population_has_the_known_numbers(rectified):
    """PR/N and kernels of an independent importance sampling, 5 to 10 % and three digits."""
    s, labels = rectified, rectified.task.labels
    assert s.converged
    np.testing.assert_allclose(s.class_participation, [0.056, 0.054, 0.053], rtol=0.07)
    kernel = s.kernel()
    assert kernel[np.ix_(labels == 0, labels == 0)].mean() == pytest.approx(7.133, abs=2e-3)
    assert kernel[np.ix_(labels == 0, labels == 1)].mean() == pytest.approx(0.313, abs=1e-3)
    np.testing.assert_allclose(s.crossover_width, 1 / s.class_participation)
    rare = replace(s, class_participation=np.array([1 / 50, 1 / 2500, 1 / 1000]))
    assert "N ≫ N* = 50 to 2,500" in rare.approximation


def test_participation_is_that_of_drawn_neurons(rectified):
    """Moments of a class's mean over its inputs, neuron by neuron, within four standard errors."""
    preactivations = clustered.sample_neurons(rectified, 6000, np.random.default_rng(1))[1]
    means = coding.class_means(np.maximum(preactivations, 0), rectified.task.labels)
    second, fourth = (means**k for k in (2, 4))
    ratio = coding.class_participation(np.maximum(preactivations, 0), rectified.task.labels) / len(means)
    # d log PR/N = 2 d log ⟨m²⟩ − d log ⟨m⁴⟩
    error = np.std(2 * second / second.mean(0) - fourth / fourth.mean(0), axis=0) / len(means) ** 0.5
    assert np.all(error < 0.15)
    assert np.all(np.abs(np.log(ratio / rectified.class_participation)) < 4 * error)
    labels = rectified.task.labels
    expected = rectified.kernel()[np.ix_(labels == 0, labels == 0)].mean()
    assert abs(second[:, 0].mean() - expected) < 4 * second[:, 0].std() / len(means) ** 0.5


def test_answers_do_not_depend_on_the_lattice(rectified, monkeypatch):
    monkeypatch.setattr(clustered, "_TAIL", clustered._TAIL._replace(spacing=0.8, cutoff=42.0))
    fine = clustered.solve(rectified.task, T, nonlinearity="relu", start=rectified.dual_field)
    np.testing.assert_allclose(fine.class_participation, rectified.class_participation, rtol=1e-5)
    np.testing.assert_allclose(fine.dual_field, rectified.dual_field, atol=1e-7)


def test_a_start_outside_of_the_domain_is_left_for_a_cold_one(rectified):
    """There the integrals are infinite, and Newton's method has no step."""
    start = 1e3 * rectified.dual_field
    found = clustered.solve(rectified.task, T, nonlinearity="relu", start=start)
    assert found.converged
    np.testing.assert_allclose(found.dual_field, rectified.dual_field, atol=1e-7)


@pytest.mark.parametrize("solution", ["redundant", "rectified"])
def test_training_inputs_are_predicted_exactly_and_new_ones_between_them(solution, request):
    s = request.getfixturevalue(solution)
    task = s.task
    expected = task.class_targets - T * s.dual_field
    np.testing.assert_allclose(s.predict(task.inputs), expected[task.labels], atol=1e-9)
    center = task.inputs[:, task.labels == 0].mean(axis=1, keepdims=True)
    assert np.abs(s.predict(center) - expected[0]).max() < 0.3
    np.testing.assert_allclose(s.kernel(task.inputs[:, ::20]), s.kernel()[::20, ::20], rtol=0.15, atol=0.1)


@pytest.mark.slow
def test_networks_have_the_shares_and_kernels(redundant):
    """Chains of N = 100, within three standard errors after corrections of relative order 1/N."""
    task = redundant.task
    posterior = Posterior(task, Network(1, 100, "sigmoidal"), T)
    samples = sample(
        posterior, jax.random.key(0), num_samples=20, num_chains=4, num_warmup=120, thinning=2, method=HMC()
    )
    activations = np.asarray(samples.activations(-1), float)
    codes = coding.codes(activations, task.labels)
    shares = np.all(codes, axis=-1).mean(axis=(1, 2))
    expected = redundant.activity_shares([[1, 1, 1]])[0]
    assert abs(shares.mean() - expected) < 3 * shares.std(ddof=1) / 2 + 2 / 100
    kernels = coding.kernels(activations).mean(axis=1)
    within = np.array([k[np.ix_(task.labels == 0, task.labels == 0)].mean() for k in kernels])
    known = redundant.kernel()[np.ix_(task.labels == 0, task.labels == 0)].mean()
    assert abs(within.mean() - known) < 3 * within.std(ddof=1) / 2 + 2 / 100


@pytest.mark.parametrize(
    ("widths", "said"),
    [([3e6, 123.0, 1000.0], "120 to 3e+06"), ([4567.0, 31.4], "31 to 4,600"), ([124.0, 121.0], "120")],
)
def test_a_range_of_widths_is_told_from_the_smallest_to_the_largest(widths, said):
    assert clustered.width_range(np.array(widths)) == f"N* = {said}"


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("other", [0, 1, -1], ids=["diagonal", "within", "between"])
def test_nearly_of_the_form_is_not_of_the_form(other, sign):
    task = tasks.clustered(12, overlap=0.3)
    np.testing.assert_allclose(clustered.class_overlaps(task), [3 * [0.3], 3 * [1.0]])
    for off, is_of_form in ((1e-12, True), (1e-9, False)):
        kernel = task.input_kernel.copy()
        kernel[0, other] = kernel[other, 0] = kernel[0, other] + sign * off
        assert (clustered.class_overlaps(clustered.with_kernel(task, kernel)) is not None) == is_of_form


@pytest.mark.parametrize(
    ("phi", "sign"),
    [("softplus", 1), (jax.nn.gelu, 1), (lambda z: -jax.nn.softplus(-z), -1)],
    ids=["softplus", "gelu", "mirrored"],
)
@pytest.mark.parametrize("s", [-3000.0, -300.0, -3.0, 25.0, 60.0])
def test_averages_at_fields_of_any_strength(phi, sign, s):
    """log⟨exp(s φ)⟩ and ⟨φ⟩ against a grid of 400,001 nodes; strong fields that silence need few of them.

    Only those that lead to where φ is a line are averages over lines.
    """
    f, sigma, s = nonlinearity(phi), 0.7, sign * s
    table = _class_tables.ClassTable(phi, 3, 0.0, sigma**2, 1.0)
    u = np.array([-2.0, 0.3, 4.0])
    z = np.linspace(-60, 60, 400_001) * sigma
    found = table._moments(np.array([[s]]), u[None])
    for k, each in enumerate(u):
        values = _solvers.evaluate(f, each + z)
        exponent = s * values - 0.5 * (z / sigma) ** 2
        weights = np.exp(exponent - exponent.max())
        log_g = exponent.max() + np.log(weights.mean() * 120 / np.sqrt(2 * np.pi))
        assert found.log_g[0, k] == pytest.approx(log_g, abs=2e-5)
        assert found.powers[0][0, k] == pytest.approx(weights @ values / weights.sum(), abs=1e-6)


def test_a_search_that_leaves_for_ever_larger_fields_is_ended():
    with pytest.raises(FloatingPointError, match="search diverged"):
        condensation.solve(tasks.clustered(24, overlap=0.5, y_minus=0.1), 0.01, nonlinearity="softplus")
