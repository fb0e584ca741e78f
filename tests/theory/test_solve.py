"""theory.solve: which solver answers, one face for all, and predictions on orthogonal inputs."""

import inspect
import itertools
import subprocess
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import coding, planting, statistics, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, sample
from coding_schemes.theory import _alike_outliers, _population, _solve, mean_field
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solve import PopulationSolution

T = 0.01
FORMULAS = ("features", "finite_width", "outliers", "dynamics")  # of solutions that others find
TOY = tasks.toy(40, y_minus=-0.5)
SHARED = tasks.toy(40, y_minus=0.3)
CLUSTERED = tasks.clustered(40, overlap=0.5, y_minus=-0.5)
TWO = tasks.toy(20, (0.5, 0.5), y_minus=-0.5)


def general():
    rng = np.random.default_rng(0)
    labels = np.arange(12) * 3 // 12
    centers = rng.standard_normal((20, 3))
    inputs = centers[:, labels] + 0.7 * rng.standard_normal((20, 12))
    return tasks.Task(inputs, labels, tasks.one_hot(3, 1.0, 0.0)[labels])


GENERAL = general()
ONE_OUTPUT = replace(GENERAL, targets=GENERAL.targets @ [[1.0], [-0.5], [0.0]], name="one output")
OWN = tasks.Task(TWO.inputs, TWO.labels, tasks.toy(20, (0.5, 0.5)).targets + 0.1 * np.eye(20, 2))
TREE = tasks.tree(16)


def own(z):
    return jnp.arctan(z)


CASES = [
    (TOY, Network(1, 50, "linear"), theory.linear.Solution),
    (TOY, Network(3, 50, "linear"), theory.linear.Solution),
    (TOY, Network(1, 50, "sigmoidal"), theory.sigmoidal.Solution),
    (TOY, Network(1, 50, own), theory.sigmoidal.Solution),
    (TWO, Network(2, 50, "sigmoidal"), theory.deep_sigmoidal.Solution),
    (TOY, Network(1, 50, jax.nn.relu), theory.condensation.Solution),
    (TOY, Network(1, 50, "softplus"), theory.condensation.Solution),
    (SHARED, Network(1, 50, "relu"), theory.relu.Solution),  # outliers of two classes
    (tasks.clustered(40, overlap=0.01, y_minus=0.3), Network(1, 50, "relu"), _alike_outliers.Solution),
    (TOY, Network(1, 50, "relu_squared"), theory.relu_squared.Solution),
    (CLUSTERED, Network(1, 50, "sigmoidal"), theory.clustered.Solution),
    (CLUSTERED, Network(1, 50, "relu"), theory.clustered.Solution),
    (CLUSTERED, Network(1, 50, jax.nn.leaky_relu), theory.clustered.Solution),
    (TWO, Network(1, 50, jax.nn.gelu), theory.clustered.Solution),
    (TWO, Network(1, 50, jax.nn.leaky_relu), theory.clustered.Solution),
    (OWN, Network(1, 50, "sigmoidal"), PopulationSolution),  # targets differ within a class
    (TREE, Network(1, 50, "erf"), PopulationSolution),
    (ONE_OUTPUT, Network(2, 50, "linear"), theory.linear.Solution),
    (GENERAL, Network(1, 50, jnp.tanh), theory.mean_field.Solution),
    (GENERAL, Network(1, 50, jax.nn.leaky_relu), theory.mean_field.Solution),
    (GENERAL, Network(1, 50, "softplus"), theory.mean_field.Solution),
    (GENERAL, Network(1, 50, lambda z: jnp.maximum(z, 0)), theory.mean_field.Solution),
    (TOY, Network(2, 50, jax.nn.gelu, "lazy"), theory.gaussian_process.Solution),
    (ONE_OUTPUT, Network(1, 50, "relu", "lazy"), theory.gaussian_process.Solution),
]


def name(case):
    task, network, _ = case
    phi = network.nonlinearity if isinstance(network.nonlinearity, str) else "own"
    where = "general" if task is GENERAL else task.name.replace(" ", "-")
    return f"{where}-{network.scaling}-{phi}-{network.depth}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_network_finds_its_theory_and_all_have_one_face(case):
    task, network, kind = case
    s = theory.solve(task, network, T)
    assert isinstance(s, kind)
    assert s.converged
    assert s.residual < 0.02
    assert s.num_steps >= 0
    n = len(s.probabilities)
    assert s.readouts.shape == (n, task.num_targets)
    assert s.activations.shape == s.codes.shape == (n, task.num_classes)
    assert s.codes.dtype == bool
    np.testing.assert_array_equal(s.probabilities[: s.num_outliers], 1)
    if s.num_outliers < n:
        np.testing.assert_allclose(s.probabilities[s.num_outliers :].sum(), 1)
    if task is TOY and network.scaling == "non-lazy":
        assert s.num_outliers == (3 if network.nonlinearity in ("relu", "softplus", "relu_squared") else 0)
    # the training residual of the mean predictor is T t
    dual_field = s.dual_field if len(s.dual_field) == task.num_inputs else s.dual_field[task.labels]
    residual = 0.0 if kind is theory.relu_squared.Solution else T * dual_field
    np.testing.assert_allclose(task.targets - s.predict(task.inputs), residual, atol=2e-8)
    kernel = s.kernel()
    assert kernel.shape == (task.num_inputs, task.num_inputs)
    np.testing.assert_allclose(kernel, kernel.T, atol=1e-9 * np.abs(kernel).max())
    with pytest.raises(ValueError, match="inputs"):
        s.predict(np.ones((3, 2)))


@pytest.mark.parametrize("phi", ["sigmoidal", "relu", "relu_squared"])
def test_outputs_are_made_of_the_kinds(phi):
    """f = Σ_γ P_γ φ_γ a_γ, whatever the units of the kinds; to order 1/P where readouts scatter."""
    s = theory.solve(TOY, Network(1, 50, phi), T)
    outputs = s.activations.T @ (s.probabilities[:, None] * s.readouts)
    atol = {"sigmoidal": 0.03, "relu": 0.05, "relu_squared": 1e-7}[phi]
    np.testing.assert_allclose(outputs[TOY.labels], s.predict(TOY.inputs), atol=atol)


def test_what_mean_field_neglects_is_warned_of(monkeypatch):
    """There mean_field has .17 for a share that is .10 in networks."""
    monkeypatch.setattr(_solve, "_MOST_IN_POPULATION", 39)
    with pytest.warns(UserWarning, match="mean_field answers.*nearly independent"):
        s = theory.solve(nearly(TOY), Network(1, 40, "sigmoidal"), T)
    assert "neglected" in s.approximation
    assert theory.solve(CLUSTERED, Network(1, 40, "sigmoidal"), T).approximation == "exact at N → ∞"


def nearly(task, distance=1e-5):
    """The task with a kernel that is off by 1e-5, beyond what is recognized."""
    noise = np.random.default_rng(0).standard_normal(task.inputs.shape)
    return tasks.Task(task.inputs + distance * noise, task.labels, task.targets)


@pytest.mark.slow
@pytest.mark.parametrize("task", [tasks.toy(24, y_minus=0.5), tasks.clustered(24, overlap=0.5, y_minus=0.5)])
def test_population_continues_the_exact_theories(task):
    """Inputs that are nearly of a known form: shares by activity, kernels and predictions go on."""
    network, codes = Network(1, 40, "sigmoidal"), np.array(list(itertools.product((0, 1), repeat=3)))
    s, exact = theory.solve(nearly(task), network, T), theory.solve(task, network, T)
    assert isinstance(s, PopulationSolution)
    np.testing.assert_allclose(s.activity_shares(codes), exact.activity_shares(codes), atol=0.015)
    np.testing.assert_allclose(s.kernel(), exact.kernel(), atol=0.015)
    np.testing.assert_allclose(s.dual_field, exact.dual_field[task.labels], atol=0.25)
    new = task.inputs[:, :3] + 0.5 * task.inputs[:, 3:6]
    np.testing.assert_allclose(s.predict(new), exact.predict(new), atol=0.03)
    z, a = s.draw(np.random.default_rng(0), task.labels, 20_000)
    outputs = s.adapted.network.phi(z).T @ a / len(a)
    np.testing.assert_allclose(outputs, s.predict(task.inputs), atol=0.03)


@pytest.mark.filterwarnings("ignore:theory.solve")
def test_readouts_scatter_about_their_mean_with_their_variance():
    """a = σ_a² φ·t + σ_a ξ, of populations too small to have converged."""
    network = Network(1, 40, "sigmoidal")
    few = {"num_neurons": 128, "num_rounds": 4, "readout_variance": 0.4}
    s = theory.solve(nearly(tasks.toy(20)), network, T, **few)
    z, a = s.draw(np.random.default_rng(0), s.task.labels, 20_000)
    scatter = a - 0.4 * np.asarray(network.phi(z)) @ s.dual_field
    assert scatter.var() == pytest.approx(0.4, abs=4 * 0.4 * (2 / scatter.size) ** 0.5)


@pytest.mark.filterwarnings("ignore:adaptive kernel")
def test_sampled_neurons_are_as_many_as_are_asked_for():
    """And another seed draws others: of populations too small to have converged."""
    task, network = nearly(tasks.toy(12, (0.5, 0.5))), Network(1, 40, "sigmoidal")
    few = {"num_neurons": 32, "num_rounds": 2}
    one, other = (theory.solve(task, network, T, **few, seed=seed) for seed in (0, 1))
    direct = theory.adaptive_kernel.solve(task, network, 12**0.5, 12 * T, method="population", **few, seed=1)
    np.testing.assert_allclose(other.kernel(), direct.kernels[-1], rtol=1e-6)
    assert len(other.adapted.preactivations()[0]) == len(direct.preactivations()[0])
    assert np.abs(one.kernel() - other.kernel()).max() > 1e-3
    np.testing.assert_allclose(one.test_kernel(task.inputs[:, 7:]), one.kernel()[7:], atol=1e-6)


def test_kernels_add_positions_with_the_weight_of_their_neuron():
    rng = np.random.default_rng(0)
    activations, weights = rng.standard_normal((5, 3, 4)), rng.dirichlet(np.ones(5))
    dual = _population._Dual(activations, np.zeros(5), np.zeros((4, 2)), 1.0, 0.1)
    expected = np.einsum("n,nap,naq->pq", weights, activations, activations)
    np.testing.assert_allclose(dual.kernel(weights), expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("ratios", [(0.5, 0.25, 0.25), (1 / 3, 1 / 3, 1 / 3)], ids=["half", "thirds"])
def test_population_balances_codes_and_their_complements(ratios):
    """Targets that sum to 0 in a class leave this balance free; no neuron crosses from one to the other."""
    task, network = tasks.toy(36, ratios, y_minus=-0.5), Network(1, 40, "sigmoidal")
    s, exact = theory.solve(nearly(task), network, T, num_neurons=512), theory.solve(task, network, T)
    assert s.converged
    np.testing.assert_allclose(s.kernel(), exact.kernel(), atol=0.012)
    codes = np.array(list(itertools.product((0, 1), repeat=3)))
    np.testing.assert_allclose(s.activity_shares(codes), exact.activity_shares(codes), atol=0.006)


@pytest.mark.parametrize("depth", [1, 2])
def test_shares_by_activity_are_those_of_measured_neurons(depth):
    """Of neurons drawn from theory, counted; those of one layer's basins are others at this temperature."""
    task, codes = tasks.toy(40, (0.5, 0.5), y_minus=-0.5), np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    s = theory.solve(task, Network(depth, 40, "sigmoidal"), 0.2)
    first, *rest = s.draw(np.random.default_rng(0), task.labels, 4000)
    network = Network(depth, 4000, "sigmoidal")
    layers = network.preactivations(first, rest[1] if rest[1:] else ())
    means = coding.class_means(network.phi(np.asarray(layers[-1])), task.labels)
    found = np.array([np.all((means > 0.5) == code, axis=1).mean() for code in codes])
    np.testing.assert_allclose(s.activity_shares(codes), found, atol=0.035)
    np.testing.assert_allclose(s.activity_shares(codes).sum(), 1, atol=1e-6)


def test_neurons_cross_to_the_mirror_image_of_their_code():
    """All begin in one of two wells 17 nats deep; the mass of the other is an integral over both inputs."""
    q, axis = 14.0 * np.array([1.0, -0.995]), np.linspace(-7, 7, 1401)
    one, other = np.meshgrid(axis, axis, indexing="ij")
    phi = lambda z: theory._solvers.evaluate(Network(nonlinearity="sigmoidal").phi, z)  # noqa: E731
    log_density = 0.5 * (q[0] * phi(one) + q[1] * phi(other)) ** 2 - 0.5 * (one**2 + other**2)
    density = np.exp(log_density - log_density.max())
    expected = density[one < other].sum() / density.sum()
    assert 0.2 < expected < 0.45
    u = np.tile(np.float32([2.0, -2.0]), (20_000, 1))
    root, log_step = np.eye(2, dtype=np.float32)[None], np.float32(-2.0)
    for call in range(30):
        tilt = np.outer(q, q).astype(np.float32)
        arguments = (u, log_step, tilt, root, 1, Network(nonlinearity="sigmoidal").phi)
        u, log_step = _population.move(jax.random.key(1), call, *arguments)
    found = np.mean(np.asarray(u)[:, 0] < np.asarray(u)[:, 1])
    assert abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / len(u))


@pytest.mark.slow
def test_population_with_targets_of_their_own_against_quadrature():
    """Three orthogonal inputs, two of one class with different targets: an integral over z."""
    task = tasks.Task(np.sqrt(3) * np.eye(3), [0, 0, 1], [[1.0], [0.2], [-0.5]])
    s = theory.solve(task, Network(1, 40, "sigmoidal"), 0.05)
    exact = theory.adaptive_kernel.solve(task, Network(1, 1, "sigmoidal"), 3**0.5, 0.15, method="quadrature")
    np.testing.assert_allclose(s.kernel(), exact.kernels[-1], atol=0.01)
    np.testing.assert_allclose(s.dual_field, 3 * exact.dual_field, atol=0.05)


@pytest.mark.slow
def test_population_at_zero_temperature_is_the_limit():
    """The task above: outputs are met exactly, and kernels are the quadrature's at T = 1e-6."""
    task = tasks.Task(np.sqrt(3) * np.eye(3), [0, 0, 1], [[1.0], [0.2], [-0.5]])
    s = theory.solve(task, Network(1, 40, "sigmoidal"), 0.0)
    assert s.converged
    assert "limit T → 0" in s.approximation
    np.testing.assert_allclose(s.predict(task.inputs), task.targets, atol=1e-12)
    exact = theory.adaptive_kernel.solve(task, Network(1, 1, "sigmoidal"), 3**0.5, 3e-6, method="quadrature")
    np.testing.assert_allclose(s.kernel(), exact.kernels[-1], atol=0.005)
    np.testing.assert_allclose(s.dual_field, 3 * exact.dual_field, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("phi", [jax.nn.gelu, jax.nn.leaky_relu], ids=["gelu", "leaky_relu"])
def test_sampled_neurons_of_what_grows_agree_with_the_exact_theory(phi):
    """Where a tenth of the neurons code; `theory.solve` takes them where targets differ within a class."""
    task = tasks.clustered(12, overlap=0.5, y_minus=-0.5)
    exact = theory.clustered.solve(task, T, nonlinearity=phi)
    s = _solve._population(task, Network(1, 50, phi), T, None, {"num_neurons": 512, "num_rounds": 30})
    assert s.converged
    assert not s.codes.any()
    np.testing.assert_allclose(s.kernel(), exact.kernel(), atol=0.01 * exact.kernel().max())
    field = coding.class_means(s.dual_field.T, task.labels).T  # of single inputs it scatters by 0.02
    np.testing.assert_allclose(field, exact.dual_field, atol=0.015)
    with pytest.raises(ValueError, match="no middle to tell codes by"):
        s.activity_shares([[1, 0, 0]])


def test_networks_have_the_kernel_of_gelus_population():
    """A tree of twelve inputs, which no other theory reaches: sampled networks of N = 80."""
    task, network = tasks.tree(12, (0.25, 0.25, 0.5), (0, 0, 1)), Network(1, 80, jax.nn.gelu)
    s, posterior = theory.solve(task, network, T), Posterior(task, network, T)
    assert isinstance(s, PopulationSolution)
    assert s.converged
    start = planting.planted(jax.random.key(0), s, posterior)
    samples = sample(
        posterior, jax.random.key(1), 120, num_chains=2, num_warmup=200, thinning=3, init=start,
        store=("readouts", "preactivations"),
    )  # fmt: skip
    values, t, kernel = samples.activations(), s.dual_field, s.kernel()
    residual = task.targets - np.einsum("csnp,csnm->cspm", values, samples.readouts) / 80
    for series, expected in (
        (np.sum(residual * t, axis=(2, 3)), T * np.sum(t**2)),
        (np.square(values @ t).sum(axis=(2, 3)) / 80, np.sum(t * (kernel @ t))),
        (np.square(values).sum(axis=(2, 3)) / 80, np.trace(kernel)),
    ):
        mean, error = statistics.mean_and_error(series)
        assert abs(mean - expected) < 3 * error + expected / 80


@pytest.mark.slow
def test_where_mean_field_has_no_kinds_sampled_neurons_answer(monkeypatch):
    """Tanh on twelve general inputs: on some processors a kind that mean_field ends with is a saddle of e."""
    task = tasks.own(np.random.default_rng(0).standard_normal((6, 12)) + 1, np.repeat([0, 1], 6))
    monkeypatch.setattr(mean_field, "solve", lambda *_, **__: SimpleNamespace(converged=False))
    monkeypatch.setitem(_solve._POPULATION, "num_neurons", 512)
    monkeypatch.setitem(_solve._POPULATION, "num_rounds", 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = theory.solve(task, Network(1, 50, "tanh"), T)
        asked = theory.solve(task, Network(1, 50, "tanh"), T, num_neurons=512, num_rounds=30)
    assert isinstance(s, PopulationSolution)
    np.testing.assert_array_equal(asked.dual_field, s.dual_field)  # their options ask for them
    assert s.converged
    np.testing.assert_allclose(s.predict(task.inputs), task.targets - T * s.dual_field, atol=1e-6)


def test_nested_populations_continue_the_deep_theory():
    """Inputs that are nearly orthogonal; theory.deep_sigmoidal neglects what learning does to scatter."""
    task, network = tasks.toy(12, (0.5, 0.5), y_minus=-0.5), Network(2, 40, "sigmoidal")
    s, exact = (
        theory.solve(nearly(task), network, T, num_neurons=512, num_rounds=40),
        theory.solve(task, network, T),
    )
    assert isinstance(s, PopulationSolution)
    assert s.converged
    np.testing.assert_allclose(s.kernel(), exact.kernel(), atol=0.015)
    np.testing.assert_allclose(s.adapted.kernels[1], exact.layers[0].kernel(task.labels), atol=0.015)
    codes = np.array([[1, 0], [0, 1]])
    np.testing.assert_allclose(s.activity_shares(codes), exact.activity_shares(codes), atol=0.02)
    np.testing.assert_allclose(s.predict(s.task.inputs), task.targets - T * s.dual_field, atol=1e-9)
    with pytest.raises(ValueError, match="draws one hidden layer"):
        s.draw(np.random.default_rng(0), task.labels, 10)


@pytest.mark.slow
def test_sampled_neurons_of_a_deep_theory_have_its_shares_code_by_code():
    task, network = tasks.toy(20, (0.6, 0.3, 0.1), y_minus=-0.2), Network(1, 50, "sigmoidal")
    one = theory.deep_sigmoidal.solve(task, 1, T)
    deep = _solve.DeepSolution(**vars(one), task=task, nonlinearity=network.nonlinearity)
    z, weights = deep.adapted.preactivations()
    means = coding.class_means(np.asarray(network.phi(z[:, 0])), task.labels)
    for code, share in zip(one.layers[-1].codes, one.layers[-1].probabilities, strict=True):
        found = weights[np.all((means > 0.5) == code, axis=1)].sum()
        assert found == pytest.approx(share, abs=2e-3)  # a rare code may have no neuron


@pytest.mark.slow
def test_deep_networks_on_new_inputs():
    """One layer by these neurons, against the quadrature of one layer; two layers where symmetry decides."""
    shallow, network = theory.solve(TWO, Network(1, 50, "sigmoidal"), T), Network(1, 50, "sigmoidal")
    one = theory.deep_sigmoidal.solve(TWO, 1, T)
    deep = _solve.DeepSolution(**vars(one), task=TWO, nonlinearity=network.nonlinearity)
    new = np.column_stack([TWO.inputs[:, 0] + 0.5 * TWO.inputs[:, 1], TWO.inputs @ np.full(20, 0.2)])
    np.testing.assert_allclose(deep.predict(new), shallow.predict(new), atol=0.02)
    odd = theory.solve(TWO, Network(2, 50, "erf"), T)
    outside = np.linalg.svd(TWO.inputs.T)[2][-1:].T * 40**0.5  # orthogonal to all, so of either sign
    np.testing.assert_allclose(odd.predict(outside), 0, atol=0.02)
    np.testing.assert_allclose(odd.test_kernel(TWO.inputs), odd.kernel(), atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "network"),
    [
        (TWO, Network(1, 100, jax.nn.gelu)),
        (TREE, Network(1, 100, "erf")),
        (TWO, Network(2, 100, "sigmoidal")),
        (nearly(tasks.toy(24, y_minus=-0.5), 0.05), Network(1, 100, "relu")),
        (tasks.clustered(40, (0.2,) * 5, overlap=0.1, y_minus=-0.5), Network(1, 100, "relu")),
    ],
    ids=["gelu", "tree", "deep", "nearly", "five"],
)
def test_networks_have_the_kernels_and_predictions(task, network):
    """Four chains of N = 100, on training and on new inputs: four standard errors, and 3/N.

    What outliers have where they are silent is not in their predictions, and of relative order 1/√N.
    """
    allowed = 0.06 if network.nonlinearity == "relu" else 0.03
    new = task.inputs[:, :2] + 0.5 * task.inputs[:, -2:]
    drawn = sample(
        Posterior(task, network, T), jax.random.key(0), num_samples=20, num_chains=4, num_warmup=150,
        thinning=2, method=HMC(), predict_inputs=new,
    )  # fmt: skip
    s = theory.solve(task, network, T)

    def classes(kernel):
        return coding.class_means(np.swapaxes(coding.class_means(kernel, task.labels), -1, -2), task.labels)

    kernels = classes(np.asarray(coding.kernels(drawn.activations(-1)), float).mean(axis=1))
    outputs = np.asarray(drawn.predictions.outputs, float).mean(axis=1)
    for found, expected in ((kernels, classes(s.kernel())), (outputs, s.predict(new))):
        error = found.std(axis=0, ddof=1) / 2
        assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * error + allowed * np.abs(expected).max())
        assert np.all(error < 0.1 * np.abs(expected).max())


def test_deep_networks_at_zero_temperature():
    cold, zero = (theory.solve(TWO, Network(2, 50, "sigmoidal"), t) for t in (1e-6, 0.0))
    assert zero.converged
    np.testing.assert_allclose(zero.predict(TWO.inputs), TWO.targets, atol=1e-12)
    np.testing.assert_allclose(zero.dual_field, cold.dual_field, rtol=1e-3)
    np.testing.assert_allclose(zero.kernel(), cold.kernel(), atol=1e-4)


def test_solvers_keep_the_parts_they_need():
    """What theory.solve returns is what the solver itself returns."""
    network = Network(1, 60, "relu")
    through, direct = theory.solve(TOY, network, T), theory.condensation.solve(TOY, T)
    np.testing.assert_array_equal(through.readouts, direct.readouts)
    direct = theory.relu.solve(TOY, T)
    chosen = theory.solve(TOY, network, T, max_rounds=50)  # by an option of its own
    np.testing.assert_array_equal(chosen.readouts, direct.readouts)
    soft, options = theory.relu.solve(TOY, T, nonlinearity="softplus"), {"max_rounds": 50}
    np.testing.assert_array_equal(
        theory.solve(TOY, Network(1, 60, "softplus"), T, **options).kernel(), soft.kernel()
    )
    finite = theory.solve(TOY, network, T, finite_width=True)
    np.testing.assert_array_equal(finite.readouts, theory.relu.finite_size(direct, 60).readouts)
    np.testing.assert_allclose(finite.probabilities.sum(), 3 + 57 / 60)
    wide = theory.solve(TOY, Network(2, 60, "linear"), T, finite_width=True, readout_variance=0.2)
    expected = theory.linear.solve(TOY, 2, T, 0.2, 60)
    np.testing.assert_array_equal(wide.readout_covariance, expected.readout_covariance)
    squared = theory.solve(TOY, Network(1, 60, "relu_squared"), T, finite_width=True, num_starts=2)
    assert squared.energy == theory.relu_squared.solve(TOY, T, num_neurons=60, num_starts=2).energy
    variance = theory.solve(TOY, Network(1, 60, "tanh"), T, readout_variance=0.05)
    assert variance.problem.readout_variance == 0.05


def test_a_rectified_network_of_any_readout_variance():
    """a = λ a' turns σ_a² into 1/P, y into y/λ: the outliers' equations hold with σ_a² in place of 1/P."""
    variance, network = 0.1, Network(1, 50, "relu")
    one = theory.solve(TOY, network, T, readout_variance=variance)
    s = theory.solve(TOY, network, T, readout_variance=variance, tolerance=1e-9)  # relu's
    for each in (one, s):
        z = each.outlier_preactivations
        pull = variance * (z * TOY.class_counts) @ each.dual_field
        np.testing.assert_allclose(each.outlier_readouts, pull, atol=1e-8)
    factor = (variance * TOY.num_inputs) ** 0.5
    scaled = theory.solve(replace(TOY, targets=TOY.targets / factor), network, T / factor**2)
    np.testing.assert_allclose(one.readouts, factor * scaled.readouts, atol=1e-8)
    np.testing.assert_allclose(one.kernel(), scaled.kernel(), atol=1e-8)
    z = s.outlier_preactivations
    outputs = s.activations.T @ (s.probabilities[:, None] * s.readouts)
    np.testing.assert_allclose(outputs, TOY.class_targets - T * s.dual_field, atol=1e-8)
    np.testing.assert_allclose(z, np.maximum(s.outlier_readouts @ s.dual_field.T, 0), atol=1e-8)


def test_the_bulk_of_a_finite_rectified_network_of_any_readout_variance():
    """Its readouts' covariance scales as λ², with y/λ and T/λ² in their place it is the network's of 1/P."""
    factor = 2.5
    variance = factor**2 / TOY.num_inputs
    s = theory.solve(TOY, Network(1, 60, "relu"), T, readout_variance=variance, finite_width=True)
    scaled = replace(TOY, targets=TOY.targets / factor)
    plain = theory.solve(scaled, Network(1, 60, "relu"), T / factor**2, finite_width=True)
    expected = factor**2 * plain.bulk_readout_covariance
    np.testing.assert_allclose(s.bulk_readout_covariance, expected, rtol=1e-9)
    np.testing.assert_allclose(s.readouts, factor * plain.readouts, rtol=1e-9)
    np.testing.assert_allclose(s.dual_field, plain.dual_field / factor, rtol=1e-9)
    assert s.temperature == T
    # the limit of wide networks draws the same neurons
    limit = theory.solve(TOY, Network(1, 60, "relu"), T, readout_variance=variance, tolerance=1e-9)
    drawn = [each.draw(np.random.default_rng(0), TOY.labels, 60) for each in (limit, s)]
    for one, other in zip(*drawn):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    assert theory.outliers.spare_outliers(limit, 60) == pytest.approx(
        theory.outliers.spare_outliers(theory.relu.solve(scaled, T / factor**2), 60), rel=1e-5
    )
    # a neuron of the bulk has the prior's readouts but for what its outputs are held to
    assert np.trace(s.bulk_readout_covariance) == pytest.approx(3 * variance, rel=0.5)


def test_a_linear_network_of_any_weight_variance():
    """U² = σ_a² YᵀK0⁻¹Y/σ² of paper A with K0 → σ²K0; readouts come with the gain."""
    network, variance = Network(1, 50, "linear", weight_std=1.7), 0.02
    s = theory.solve(GENERAL, network, 0.0, readout_variance=variance)
    overlap = GENERAL.targets.T @ np.linalg.solve(1.7**2 * GENERAL.input_kernel, GENERAL.targets)
    true = s.readout_covariance / network.gain**2
    np.testing.assert_allclose(true @ true, variance * overlap, atol=1e-10)
    scaled = tasks.Task(1.7 * GENERAL.inputs, GENERAL.labels, GENERAL.targets)
    same = theory.linear.solve(scaled, 1, T, variance)
    deep = Network(3, 50, "linear", weight_std=(1.7, 2.0, 0.5))
    for one, other, new in (
        (theory.solve(GENERAL, network, T, readout_variance=variance), same, 1.7),
        (theory.solve(GENERAL, deep, T), theory.linear.solve(scaled, 3, T), 1.7),
    ):
        inputs = GENERAL.inputs[:, :3] + 1
        np.testing.assert_allclose(one.predict(inputs), other.predict(new * inputs), rtol=1e-8)
        np.testing.assert_allclose(one.dual_field, other.dual_field, rtol=1e-8)
    np.testing.assert_allclose(1.7**2 * s.kernel(), theory.linear.solve(scaled, 1, 0.0, variance).kernel())


@pytest.mark.parametrize(("phi", "stds"), [("erf", 1.6), ("relu", (1.6, 0.7))])
def test_the_gaussian_process_of_other_weight_variances(phi, stds):
    """The recursion by hand, with σ_ℓ² K_{ℓ−1} in its layers."""
    inputs = np.concatenate([GENERAL.inputs, GENERAL.inputs[:, :3] + 0.5], axis=1)
    kernel = inputs.T @ inputs / len(inputs)
    for std in np.broadcast_to(stds, 2):
        k = std**2 * kernel
        q = np.diag(k)
        if phi == "erf":
            kernel = 2 / np.pi * np.arcsin(2 * k / np.sqrt(np.outer(1 + 2 * q, 1 + 2 * q)))
        else:
            angle = np.arccos(np.clip(k / np.sqrt(np.outer(q, q)), -1, 1))
            kernel = np.sqrt(np.outer(q, q)) / (2 * np.pi)
            kernel *= np.sin(angle) + (np.pi - angle) * np.cos(angle)
    expected = kernel[12:, :12] @ np.linalg.solve(kernel[:12, :12] + T * np.eye(12), GENERAL.targets)
    s = theory.solve(GENERAL, Network(2, 50, phi, "lazy", weight_std=stds), T)
    np.testing.assert_allclose(s.predict(inputs[:, 12:]), expected, atol=1e-6)


def test_a_sigmoidal_network_of_other_weight_variances():
    """The same as a function that is written out, and not what σ = 1 gives."""
    s = theory.solve(TWO, Network(1, 50, "sigmoidal", weight_std=1.5), T)
    assert s.converged
    by_name = theory.solve(
        TWO, Network(1, 50, lambda z: 0.5 + 0.5 * jax.lax.erf(0.75 * jnp.sqrt(jnp.pi) * z)), T
    )
    np.testing.assert_allclose(s.dual_field, by_name.dual_field, rtol=1e-6)
    assert np.abs(s.dual_field - theory.solve(TWO, Network(1, 50, "sigmoidal"), T).dual_field).max() > 0.1


def test_new_inputs_on_an_orthogonal_task():
    """Averages over a million draws of independent z_μ and of what training leaves free."""
    task, rng = tasks.toy(20, y_minus=-0.5), np.random.default_rng(0)
    inputs = task.inputs @ (0.3 * rng.standard_normal((20, 2))) + rng.standard_normal((40, 2))
    overlap = inputs.T @ task.inputs / 40
    free = np.sqrt(np.square(inputs).mean(0) - np.square(overlap).sum(1))
    grid = np.linspace(-8, 8, 3201)
    for phi, density, act in (
        ("relu", theory.relu.bulk_density, lambda z: np.maximum(z, 0)),
        ("sigmoidal", lambda s, z, c: theory.sigmoidal.preactivation_density(s, 0, c, z), None),
    ):
        s = theory.relu.solve(task, T) if phi == "relu" else theory.solve(task, Network(1, 50, phi), T)
        z = np.empty((200_000, 20))
        for c in range(3):
            cumulative = np.cumsum(density(s, grid, c))
            members = np.flatnonzero(task.labels == c)
            z[:, members] = np.interp(rng.random((len(z), len(members))), cumulative / cumulative[-1], grid)
        z = z @ overlap.T + free * rng.standard_normal((len(z), 2))
        values = (act or s.phi)(z)
        kind = s.num_outliers  # the bulk, or the first code
        error = values.std(0) / len(z) ** 0.5
        assert np.all(np.abs(s.activations_on(inputs)[kind] - values.mean(0)) < 4.5 * error + 2e-3)
    outlier = theory.relu.solve(task, T)
    z_bar = overlap @ outlier.outlier_preactivations[:, task.labels].T
    np.testing.assert_allclose(outlier.activations_on(inputs)[:3], np.maximum(z_bar, 0).T)


@pytest.mark.parametrize("phi", ["sigmoidal", "tanh", "relu"])
@pytest.mark.parametrize("factor", [1.0, -1.0, -2.5])
def test_new_inputs_along_a_training_input_have_its_density(phi, factor):
    """x = b x_μ has z = b z_μ: ⟨φ(b z)⟩ under exp(a·t φ(z) − z²/2), also where x is opposite to x_μ."""
    task, z = tasks.toy(20, (0.5, 0.3, 0.2), y_minus=-0.5), np.linspace(-12, 14, 26_001)
    s = theory.relu.solve(task, T) if phi == "relu" else theory.solve(task, Network(1, 50, phi), T)
    found = s.activations_on(factor * task.inputs)[s.num_outliers :]
    for row, readout in zip(found, s.readouts[s.num_outliers :], strict=True):
        for c, t in enumerate(s.dual_field):
            exponent = (readout @ t) * s.phi(z) - z**2 / 2
            density = np.exp(exponent - exponent.max())
            expected = density @ s.phi(factor * z) / density.sum()
            np.testing.assert_allclose(row[task.labels == c], expected, atol=1e-5)


def test_kernel_on_an_orthogonal_task_is_the_networks():
    """K of networks drawn from the theory at finite width, to relative corrections of order 1/N."""
    task = tasks.toy(40, y_minus=-0.5)
    finite = theory.solve(task, Network(1, 400, "relu"), T, finite_width=True)
    rng, kernels = np.random.default_rng(0), []
    for _ in range(20):
        z, _ = finite.draw(rng, task.labels, finite.num_neurons)
        kernels.append(np.maximum(z, 0).T @ np.maximum(z, 0) / 400)
    error = np.std(kernels, axis=0) / 20**0.5
    gap = np.abs(np.mean(kernels, axis=0) - finite.kernel())
    assert np.all(gap < 4.5 * error + 10 / 400)


# --- ReLU and softplus from ρ = 0 on: one neuron per class, or a population


def joined(num_inputs, width, y_minus=-0.5, ratios=(0.5, 0.25, 0.25), phi="relu", overlap=1e-6, **more):
    """Solutions at ρ = 0 and at an overlap."""
    network = Network(1, width, phi)
    options = {"class_ratios": ratios, "y_minus": y_minus}
    orthogonal, alike = (tasks.clustered(num_inputs, overlap=rho, **options) for rho in (0.0, overlap))
    assert orthogonal.is_orthogonal
    assert not alike.is_orthogonal
    return theory.solve(orthogonal, network, T, **more), theory.solve(alike, network, T, **more)


@pytest.mark.parametrize(
    ("arguments", "outliers"),
    [
        ({"num_inputs": 12, "width": 200}, 0),  # N* = 19 to 55
        ({"num_inputs": 12, "width": 200, "readout_variance": 0.2}, 0),
        ({"num_inputs": 20, "width": 100, "y_minus": 0.3}, 0),  # N* = 11 to 16, on a flat branch 1300
        ({"num_inputs": 20, "width": 30}, 3),  # N* = 93 to 1600
        ({"num_inputs": 28, "width": 100}, 3),
        ({"num_inputs": 40, "width": 100, "ratios": (0.5, 0.5)}, 2),
        ({"num_inputs": 40, "width": 100, "phi": "softplus"}, 3),
        ({"num_inputs": 40, "width": 100, "y_minus": 0.3}, 3),  # outliers of two classes
        pytest.param({"num_inputs": 40, "width": 100, "ratios": (0.25,) * 4}, 4, marks=pytest.mark.slow),
        ({"num_inputs": 40, "width": 100, "ratios": (0.2,) * 5}, 5),
        ({"num_inputs": 40, "width": 100, "ratios": (0.2,) * 5, "readout_variance": 0.1}, 5),
    ],
    ids=str,
)
def test_rectified_theories_are_continuous_at_orthogonal_inputs(arguments, outliers):
    """At ρ = 1e-6, where one or the other theory had left off: kernels, fields, outputs, numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero, near = joined(**arguments)
    assert zero.converged
    assert near.converged
    assert zero.num_outliers == near.num_outliers == outliers
    np.testing.assert_allclose(near.kernel(), zero.kernel(), atol=2e-4)
    np.testing.assert_allclose(near.dual_field, zero.dual_field, atol=1e-4)
    np.testing.assert_allclose(near.predict(near.task.inputs), zero.predict(zero.task.inputs), atol=1e-6)
    if outliers:
        order = [np.lexsort(s.activations[:outliers].round(2).T) for s in (zero, near)]
        for name in ("activations", "readouts"):
            one, two = (getattr(s, name)[:outliers][k] for s, k in zip((zero, near), order))
            np.testing.assert_allclose(two, one, atol=2e-3, err_msg=name)
    else:
        np.testing.assert_allclose(near.class_participation, zero.class_participation, rtol=1e-3)
        assert "population" in zero.approximation
    new = zero.task.inputs[:, :2] + 0.5 * zero.task.inputs[:, -2:]
    there = near.task.inputs[:, :2] + 0.5 * near.task.inputs[:, -2:]
    np.testing.assert_allclose(near.predict(there), zero.predict(new), atol=0.03)


@pytest.mark.parametrize(
    ("task", "phi", "width"),
    [
        (tasks.toy(24, y_minus=-0.5), "relu", 60),
        (tasks.toy(24, y_minus=-0.5), "softplus", 60),
        (tasks.toy(24, y_minus=0.3), "relu", 30),
        (tasks.clustered(12, overlap=0.3, y_minus=-0.5), jax.nn.gelu, 200),
    ],
)
def test_theories_of_what_grows_go_on_to_inputs_nearly_of_their_form(task, phi, width):
    """Overlaps that scatter about their means by 0.007: mean_field had no kernel between classes there."""
    network, near = Network(1, width, phi), nearly(task, 0.05)
    exact, s = theory.solve(task, network, T), theory.solve(near, network, T)
    assert s.converged
    assert s.task is near
    assert "rms neglected" in s.approximation
    assert "neglected" not in exact.approximation
    np.testing.assert_allclose(s.kernel(), exact.kernel(), atol=0.08)
    residual = near.targets - s.predict(near.inputs)
    np.testing.assert_allclose(residual, T * s.dual_field[task.labels], atol=1e-8)


def test_population_and_condensate_of_orthogonal_inputs_have_one_kernel():
    """On either side of N* what carries a class differs, what it does hardly: two derivations."""
    task = tasks.toy(12, y_minus=-0.5)
    few, many = (theory.solve(task, Network(1, width, "relu"), T) for width in (8, 200))
    assert isinstance(few, theory.condensation.Solution)
    assert isinstance(many, theory.clustered.Solution)
    np.testing.assert_allclose(many.kernel(), few.kernel(), atol=0.015)
    np.testing.assert_allclose(many.dual_field, few.dual_field, atol=0.01)
    np.testing.assert_allclose(few.population_width, many.crossover_width, rtol=0.04)
    new = task.inputs[:, :3] + 0.5 * task.inputs[:, 3:6]
    np.testing.assert_allclose(many.predict(new), few.predict(new), atol=0.03)
    assert "one coding neuron per class" in few.approximation
    assert "population" in many.approximation


@pytest.mark.parametrize("targets", [[[1.0], [1.0]], [[1.0], [0.0]]])
@pytest.mark.parametrize("num_inputs", [12, 60])
def test_classes_without_a_direction_of_their_own_are_solved(targets, num_inputs):
    """Targets that are all the same, or zero: no branch for each class."""
    inputs, labels = np.sqrt(num_inputs) * np.eye(num_inputs), np.arange(num_inputs) * 2 // num_inputs
    task = tasks.Task(inputs, labels, np.array(targets)[labels])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = theory.solve(task, Network(1, 100, "relu"), T)
    assert s.converged
    residual = task.targets - s.predict(task.inputs)
    np.testing.assert_allclose(residual, T * s.dual_field[labels], atol=1e-7)


@pytest.mark.parametrize(("width", "side"), [(25, "below"), (60, "above")])
def test_widths_near_the_crossover_are_warned_of(width, side):
    """P = 12: N* is 19 for the large class, 55 for the others, 38 in their geometric mean."""
    task = tasks.toy(12, y_minus=-0.5)
    with pytest.warns(UserWarning, match=rf"N = {width} is not far {side} the crossover N\* = 1[89]"):
        s = theory.solve(task, Network(1, width, "relu"), T)
    assert s.num_outliers == (3 if side == "below" else 0)


def test_corrections_in_the_width_are_warned_of_where_outliers_are_several_neurons():
    task = tasks.toy(12, y_minus=-0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = theory.solve(task, Network(1, 8, "relu"), T, finite_width=True)
    with pytest.warns(UserWarning, match=r"N = 100 is above the crossover N\*.*not one per outlier"):
        many = theory.solve(task, Network(1, 100, "relu"), T, finite_width=True)
    assert few.num_outliers == many.num_outliers == 3


def test_networks_drawn_from_either_side_solve_the_task():
    """Means of drawn neurons are the solution's."""
    task = tasks.clustered(16, (0.5, 0.5), overlap=0.2, y_minus=-0.5)
    condensed = theory.condensation.solve(task, T)
    population = theory.clustered.solve(task, T, nonlinearity="relu")
    outputs = task.class_targets - T * condensed.dual_field
    for s, width in ((condensed, 4000), (population, 20_000)):
        z, a = s.draw(np.random.default_rng(0), task.labels, width)
        assert z.shape == (width, 16)
        phi = np.maximum(z, 0)
        np.testing.assert_allclose(coding.class_means(a.T @ phi / width, task.labels).T, outputs, atol=0.06)
        found, kernel = phi.T @ phi / width, s.kernel()
        np.testing.assert_allclose(found, kernel, atol=0.08 * kernel.max())
    with pytest.raises(ValueError, match="width: got 2, needs more neurons than the 2 outliers"):
        condensed.draw(np.random.default_rng(0), task.labels, 2)


def test_all_solvers_are_importable_alike_and_ask_in_one_order():
    others = {"solve", "two_point", "adaptive_kernel", "dmft", *FORMULAS}  # no temperature, or no one solve
    for module in sorted(set(theory.__all__) - others):
        parameters = list(inspect.signature(getattr(theory, module).solve).parameters)
        assert parameters[0] == "task"
        parts = parameters[1 : parameters.index("temperature")]
        assert set(parts) <= {"network", "depth", "width", "nonlinearity"}, module
    assert all(hasattr(theory, module) for module in others)
    with pytest.raises(AttributeError, match="spline"):
        _ = theory.spline


def test_importing_the_theory_stays_light():
    heavy = "blackjax", "diffrax", "optimistix", "matplotlib", "pandas", "IPython"
    code = f"import coding_schemes.theory, sys; print([m for m in {heavy} if m in sys.modules])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"


def test_every_solver_says_how_it_went():
    modules = [getattr(theory, name) for name in theory.__all__ if name not in ("solve", *FORMULAS)]
    for module in modules:
        kind = getattr(module, "Solution", getattr(module, "Path", None))
        assert issubclass(kind, Solved), module
    found = Solved(residual=0.1, num_steps=3, converged=False)
    with pytest.warns(UserWarning, match="a solver did not converge: residual 1.0e-01 after 3 steps, why"):
        assert found.reported("a solver", "why") is found


FAILING = {
    "relu": lambda: theory.relu.solve(TOY, tolerance=1e-300, max_rounds=3),
    "mean field": lambda: theory.mean_field.solve(TOY, "relu", T, tolerance=1e-9, max_rounds=1),
    "relu by solve": lambda: theory.solve(TOY, Network(1, 50, "relu"), T, tolerance=1e-300, max_rounds=3),
    "deep by solve": lambda: theory.solve(TWO, Network(2, 50, "erf"), T, max_steps=1),
    "fixed point": lambda: theory.dmft.fixed_point(GENERAL, "relu", 1.0, 0.3, max_steps=3, average_steps=0),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_warning_of_no_convergence_is_at_the_line_that_called(name):
    """Python's default filter shows it once for every line, so that it must not be the solver's own."""
    with pytest.warns(UserWarning, match="did not converge") as caught:
        found = FAILING[name]()
    assert not found.converged
    line = FAILING[name].__code__.co_firstlineno
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}
