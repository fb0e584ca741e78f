"""Adaptive kernels: tables, limits, brute force, and small sampled networks."""

import jax
import numpy as np
import pytest
from coding_schemes import sampling, tasks
from coding_schemes.networks import Network, nonlinearity
from coding_schemes.posterior import Posterior
from coding_schemes.theory import (
    _deep_population,
    _population,
    _sampled,
    adaptive_kernel,
    gaussian_process,
    linear,
    sigmoidal,
)
from coding_schemes.theory._population import Neurons
from coding_schemes.theory.features import NewInputs
from scipy.special import erf

K0 = np.array([[1.0, 0.3], [0.3, 0.8]])


@pytest.fixture(scope="module")
def pair():
    """Two inputs with the kernel K0 and opposite targets."""
    inputs = np.sqrt(2) * np.linalg.cholesky(K0).T
    return tasks.Task(inputs, np.array([0, 1]), np.array([[1.0], [-1.0]]))


@pytest.fixture(scope="module")
def two_classes():
    """Twenty orthogonal inputs in two classes with targets ±1."""
    return tasks.toy(20, (0.5, 0.5), targets=[[1.0], [-1.0]])


def random_task(num_inputs, input_dim, num_test=20, seed=0):
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(input_dim)
    inputs, test = rng.standard_normal((input_dim, num_inputs)), rng.standard_normal((input_dim, num_test))
    inputs = inputs[:, np.argsort(-(teacher @ inputs))]
    splits = []
    for x in (inputs, test):
        y = np.sign(teacher @ x)
        splits += [x, (y < 0).astype(int), y[:, None]]
    return tasks.Task(*splits)


@pytest.mark.parametrize(
    ("phi", "richness", "expected"),
    [
        ("erf", 0.5, (0.59233, 0.06238, -0.06238, 0.48298)),
        ("erf", 20**0.5, (0.09300, 0.53026, -0.53026, 0.65780)),
        ("sigmoidal", 2, (0.42473, 0.36495, 0.13505, 0.40044)),
        ("relu", 0.5, (0.61815, 0.28475, 0.16317, 0.66661)),
        ("relu", 2, (0.15789, 0.75509, 0.16303, 1.14792)),
        ("relu", 20**0.5, (0.07067, 1.5357, 0.1621, 1.9302)),
    ],
)
def test_orthogonal_inputs(two_classes, phi, richness, expected):
    """Values of an independent implementation; sampled networks of width 1,000 agree with them."""
    s = adaptive_kernel.solve(two_classes, Network(1, 1, phi), richness, 1 / 50)
    kernel = s.kernels[1]
    assert s.converged
    np.testing.assert_allclose(
        (s.dual_field[0, 0], kernel[0, 1], kernel[0, 11], kernel[0, 0]), expected, rtol=0, atol=6e-5
    )
    violation = kernel @ s.dual_field + s.dual_field / 50 - two_classes.targets
    np.testing.assert_allclose(violation, 0, atol=1e-8)


@pytest.mark.parametrize("num_inputs", [20, 30])
def test_neurons_of_the_lattice_carry_its_kernel(num_inputs):
    """The tails reach neurons some hundred times longer than the prior's, some far below their kink."""
    task = tasks.toy(num_inputs, (0.5, 0.5), targets=[[1.0], [-1.0]])
    s = adaptive_kernel.solve(task, Network(1, 1, "relu"), num_inputs**0.5, 1 / 50, num_neurons=512)
    h, weights = s.preactivations()
    activations = np.maximum(h[:, 0], 0)
    kernel = (activations * weights[:, None]).T @ activations
    for block in (np.s_[:10, :10], np.s_[:10, -10:]):
        assert kernel[block].mean() == pytest.approx(s.kernels[1][block].mean(), rel=0.02)
    assert np.abs(h).max() > 20  # what makes it hard


@pytest.mark.parametrize(("phi", "worst"), [(lambda z: jax.numpy.tanh(z), 1), (lambda z: z * abs(z), 0)])
def test_weight_on_any_edge_of_the_quadrature_counts_as_outside(pair, phi, worst, monkeypatch):
    """Two layers on a lattice too small for either (functions of its own: programs are kept by them)."""
    monkeypatch.setattr(_deep_population, "REACH", 3.0)
    root = np.linalg.cholesky(K0)
    layers = _deep_population.quadrature(root, pair.targets, phi, 2, 1.0, 0.1)
    outside = [one.weights @ np.any(np.abs(one.u) > 2.999, axis=1) for one in layers.neurons]
    assert 0.001 < max(outside) < 0.1
    assert np.argmax(outside) == worst
    assert layers.effective == pytest.approx(1 - max(outside))
    assert layers.residual == pytest.approx(max(outside))


def test_other_theories_where_they_are_the_answer(two_classes):
    richness, ridge = 1.3, 0.05
    temperature, variance = ridge / richness**2, 1 / richness**2
    bounded = adaptive_kernel.solve(two_classes, Network(1, 1, "sigmoidal"), richness, ridge)
    paper_a = sigmoidal.solve(two_classes, temperature, readout_variance=variance)
    assert np.array_equal(bounded.kernels[1], paper_a.kernel(two_classes.labels))
    assert np.array_equal(bounded.dual_field * richness**2, paper_a.dual_field[two_classes.labels])
    task = random_task(8, 12)
    deep = adaptive_kernel.solve(task, Network(3, 1, "linear"), richness, ridge)
    exact = linear.solve(task, 3, temperature, readout_variance=variance)
    assert np.array_equal(deep.kernels, exact.kernels)
    assert np.array_equal(deep.predict(task.test_inputs), exact.predict(task.test_inputs))
    np.testing.assert_allclose(
        (deep.kernels[3] + ridge * np.eye(8)) @ deep.dual_field, task.targets, atol=1e-8
    )
    for layer, dual in enumerate(deep.dual_kernels[:-1]):  # paper B's Eq. 35
        above, here = deep.kernels[layer + 2], np.linalg.inv(deep.kernels[layer + 1])
        np.testing.assert_allclose(dual, here @ above @ here - here, atol=1e-6)
    three = tasks.toy(24, (1 / 3, 1 / 3, 1 / 3))
    s = adaptive_kernel.solve(three, Network(2, 1, "sigmoidal"), 1.0, 0.1)
    assert s.method == "deep_sigmoidal"
    np.testing.assert_allclose(s.kernels[2] @ s.dual_field + 0.1 * s.dual_field, three.targets, atol=2e-3)


def test_overlaps_of_deep_linear_networks():
    for depth, x, expected in ((3, 0.25, 1.561365), (3, 25, 16.288007), (1, 1, 1.618034), (2, 4, 4.0)):
        assert adaptive_kernel.overlaps(depth, x).overlaps[-1] == pytest.approx(expected, rel=1e-6)
    s = adaptive_kernel.overlaps(3, 0.25 * 20, 1 / 50)
    np.testing.assert_allclose(s.overlaps, [1, 1.82167, 3.31847, 6.04513], rtol=1e-5)
    np.testing.assert_allclose(s.overlaps[1:] * s.duals, s.ratio - 1, rtol=1e-10)  # conserved
    task = tasks.toy(20, (0.5, 0.5), targets=[[1.0], [-1.0]])
    kernels = adaptive_kernel.solve(task, Network(3, 1, "linear"), 0.5, 1 / 50).kernels
    y = task.targets[:, 0] / 20**0.5
    np.testing.assert_allclose([y @ k @ y for k in kernels], s.overlaps, rtol=1e-7)


def test_limits_of_the_overlaps():
    lazy = adaptive_kernel.overlaps(4, 1e-5)
    assert lazy.overlaps[-1] - 1 == pytest.approx(lazy.lazy - 1, rel=1e-3)
    rich = [adaptive_kernel.overlaps(2, x) for x in (1e6, 1e9)]
    for s, x in zip(rich, (1e6, 1e9)):
        assert s.overlaps[-1] / s.rich - 1 == pytest.approx(2 / 3 * x ** (-1 / 3), rel=0.05)
    deep = [adaptive_kernel.overlaps(depth, 1.0) for depth in (100, 1000)]
    np.testing.assert_allclose([s.overlaps[-1] for s in deep], [29.15369, 190.0711], rtol=1e-6)
    np.testing.assert_allclose([s.deep for s in deep], [29.5366, 190.4906], rtol=1e-5)


def test_quadrature_satisfies_the_conditions(pair):
    s = adaptive_kernel.solve(pair, Network(2, 1, "erf"), 0.5, 0.1, method="quadrature")
    assert s.converged
    np.testing.assert_allclose(s.dual_kernels[0], [[0.432179, -0.718133], [-0.718133, 0.503104]], atol=2e-6)
    np.testing.assert_allclose(s.dual_kernels[1], 0.25 * s.dual_field @ s.dual_field.T, atol=1e-12)
    np.testing.assert_allclose(s.predict(pair.inputs), pair.targets - 0.1 * s.dual_field, atol=1e-5)
    h, weights = s.preactivations(1)
    second = np.einsum("n,nap,naq->pq", weights, h, h)
    inverse = np.linalg.inv(s.kernels[1])
    np.testing.assert_allclose(s.dual_kernels[0], inverse @ second @ inverse - inverse, atol=1e-6)


def test_lazy_limit_is_the_prior_kernel(pair):
    s = adaptive_kernel.solve(pair, Network(2, 1, "erf"), 1e-3, 0.1, method="quadrature")
    lazy = gaussian_process.solve(pair, "erf", 2, temperature=0.1)
    np.testing.assert_allclose(s.kernels, lazy.kernels, atol=2e-5)
    np.testing.assert_allclose(s.dual_field, lazy.dual_field, atol=5e-4)


def test_population_against_quadrature_and_linear_theory(pair):
    brute = adaptive_kernel.solve(pair, Network(1, 1, "erf"), 2.0, 0.1, method="quadrature")
    small = {"num_neurons": 512, "num_rounds": 100, "method": "population"}
    s = adaptive_kernel.solve(pair, Network(1, 1, "erf"), 2.0, 0.1, **small)
    assert s.converged
    np.testing.assert_allclose(s.kernels, brute.kernels, atol=0.006)
    np.testing.assert_allclose(s.predict(pair.inputs), pair.targets - 0.1 * s.dual_field, atol=1e-4)
    new = np.array([[1.0, -0.5], [0.2, 2.0]])
    np.testing.assert_allclose(s.predict(new), brute.predict(new), atol=0.006)
    np.testing.assert_allclose(
        s.predictor_variance(new, 10), brute.predictor_variance(new, 10), rtol=0.1, atol=1e-4
    )
    task = random_task(6, 9)
    s = adaptive_kernel.solve(task, Network(1, 1, "linear"), 0.7, 0.2, **small)
    exact = adaptive_kernel.solve(task, Network(1, 1, "linear"), 0.7, 0.2)
    assert exact.method == "linear"
    np.testing.assert_allclose(s.kernels, exact.kernels, atol=0.08)
    np.testing.assert_allclose(s.predict(task.test_inputs), exact.predict(task.test_inputs), atol=0.03)
    variances = [found.predictor_variance(task.test_inputs, 50) for found in (s, exact)]
    np.testing.assert_allclose(variances[0], variances[1], rtol=0.1)


@pytest.mark.parametrize("num_neurons", [40, 64, 150])
def test_moments_on_new_inputs_are_sums_over_weighted_neurons(num_neurons, monkeypatch):
    """Of two positions each, at inputs that leave nothing free; the last of the chunks of 64 is not full."""
    monkeypatch.setattr(_population, "CHUNK", 1)
    rng = np.random.default_rng(0)
    u, weights = rng.standard_normal((num_neurons, 3)), rng.dirichlet(np.ones(num_neurons))
    root, there, field = (rng.standard_normal(shape) for shape in ((2, 4, 3), (2, 5, 3), (4, 2)))
    new = NewInputs(there, np.zeros((2, 5, 1)))
    found = _population.moments_on(Neurons(u, weights), root, new, field, nonlinearity("sigmoidal"))
    expected = [0.0, 0.0, 0.0, 0.0]
    for w, neuron in zip(weights, u):
        own, other = (0.5 * (1 + erf(0.5 * np.pi**0.5 * r @ neuron)) / 2**0.5 for r in (root, there))
        here, pulled = own.T @ (own @ field), other.T @ (own @ field)
        terms = other.T @ own, np.square(other).sum(0), pulled**2, np.multiply.outer(pulled, here.ravel())
        expected = [total + w * term for total, term in zip(expected, terms)]
    for name, moment, exact in zip(found._fields, found, expected, strict=True):
        np.testing.assert_allclose(moment, exact, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_sampled_networks(pair):
    """The finite network is the library's own posterior; its corrections are of order 1/N."""
    richness, ridge, width = 1.0, 0.1, 100
    posterior = Posterior(pair, Network(2, width, "erf"), ridge / richness**2, 1 / richness**2)
    samples = sampling.sample(
        posterior, jax.random.key(0), num_samples=100, num_chains=2, num_warmup=60,
        store=("kernels", "mean_outputs"), progress=False,
    )  # fmt: skip
    theory = adaptive_kernel.solve(pair, Network(2, width, "erf"), richness, ridge, method="quadrature")
    for layer, kernels in enumerate(samples.kernels, 1):
        spread = np.abs(kernels[0] - kernels[1]).max()
        np.testing.assert_allclose(kernels.mean(0), theory.kernels[layer], atol=0.015 + spread)
    np.testing.assert_allclose(np.mean(samples.mean_outputs, 0), theory.predict(pair.inputs), atol=0.02)
    lazy = gaussian_process.prior_kernels(pair.inputs, None, "erf", 2)[-1]
    assert np.abs(lazy - theory.kernels[-1]).max() > 0.15  # the control


def test_populations_that_disagree_say_so(pair, monkeypatch):
    monkeypatch.setattr(adaptive_kernel, "MAX_DISAGREEMENT", 1e-6)
    with pytest.warns(UserWarning, match="did not converge.*populations differ"):
        s = adaptive_kernel.solve(
            pair, Network(1, 1, "erf"), 2.0, 0.1, method="population", num_neurons=512, num_rounds=2
        )
    assert not s.converged


def test_expansion_in_the_richness(pair):
    """Second order in γ0: coefficients, and an error of fourth order against quadrature."""
    first = adaptive_kernel.expansion(pair, Network(1, 1, "erf"), 0.1)
    upper = np.triu_indices(2)
    np.testing.assert_allclose(first.kernels[0][upper], [0.46456, 0.13784, 0.42200], atol=1e-5)
    np.testing.assert_allclose(first.kernel_changes[0][upper], [0.10688, -0.86314, 0.12012], atol=1e-5)
    np.testing.assert_allclose(first.dual_field[:, 0], [2.39334, -2.54772], atol=1e-5)
    np.testing.assert_allclose(first.dual_field_change[:, 0], [-5.83374, 6.08421], atol=1e-5)
    second = adaptive_kernel.expansion(pair, Network(2, 1, "erf"), 0.1)
    np.testing.assert_allclose(second.kernel_changes[1][upper], [0.15713, -1.35916, 0.16573], atol=1e-5)
    np.testing.assert_allclose(second.dual_field_change[:, 0], [-14.9024, 15.2156], rtol=1e-5)
    errors = []
    for richness, expected in ((0.05, 5.951), (0.1, 5.699)):
        s = adaptive_kernel.solve(pair, Network(2, 1, "erf"), richness, 0.1, method="quadrature")
        missed = s.kernels[2] - second.kernels[1] - richness**2 * second.kernel_changes[1]
        errors.append(np.abs(missed).max() / richness**4)
        assert errors[-1] == pytest.approx(expected, rel=1e-3)
    new = np.array([[0.3], [-1.0]])
    lazy, moved = second.predict(new, 0.0), second.predict(new, 0.05)
    exact = adaptive_kernel.solve(pair, Network(2, 1, "erf"), 0.05, 0.1, method="quadrature").predict(new)
    assert np.abs(moved - exact).max() < 0.1 * np.abs(lazy - exact).max()
    with pytest.raises(ValueError, match="network"):
        adaptive_kernel.expansion(pair, Network(1, 1, "tanh"), 0.1)


@pytest.mark.parametrize("phi", ["erf", "sigmoidal"])
def test_expansion_of_three_layers(pair, phi):
    """Every lower dual is that of the layer above, pulled back: differences of the saddle by quadrature."""
    network, richness = Network(3, 1, phi), 0.02
    found = adaptive_kernel.expansion(pair, network, 0.1)
    s = adaptive_kernel.solve(pair, network, richness, 0.1, method="quadrature")
    for changes, exact in (
        (found.dual_changes, s.dual_kernels),
        (found.kernel_changes, s.kernels[1:] - found.kernels),
        (found.dual_field_change, s.dual_field - found.dual_field),
    ):
        for change, expected in zip(changes, exact / richness**2, strict=True):
            np.testing.assert_allclose(change, expected, atol=0.02 * np.abs(expected).max())


def test_kernel_maps_are_the_priors():
    task = random_task(5, 7)
    for phi in ("linear", "erf", "sigmoidal", "relu"):
        found = adaptive_kernel.expansion(task, Network(2, 1, phi), 0.1)
        np.testing.assert_allclose(
            found.kernels, gaussian_process.prior_kernels(task.inputs, None, phi, 2)[1:], rtol=1e-9
        )


@pytest.mark.slow
def test_nested_populations_against_quadrature(pair):
    network = Network(2, 1, "erf")
    brute = adaptive_kernel.solve(pair, network, 1.0, 0.1, method="quadrature")
    s = adaptive_kernel.solve(pair, network, 1.0, 0.1, method="nested", num_neurons=512, num_rounds=60)
    assert s.converged
    np.testing.assert_allclose(s.kernels, brute.kernels, atol=0.02)
    np.testing.assert_allclose(s.dual_kernels[0], brute.dual_kernels[0], rtol=0.15, atol=0.05)
    new = np.array([[1.0], [-0.5]])
    np.testing.assert_allclose(s.predict(new), brute.predict(new), atol=0.03)


@pytest.fixture
def recorded(monkeypatch):
    """Numbers of the calls of `move` and the step sizes given to it, where it only adds 1 to these."""
    calls, steps = [], []

    def move(key, call, u, log_step, *_):
        calls.append(call)
        steps.append(float(log_step))
        return u, log_step + np.float32(1)

    monkeypatch.setattr(_population, "move", move)
    return calls, steps


@pytest.mark.parametrize("held", [True, False], ids=["held", "solved"])
def test_populations_go_on_with_the_step_size_that_their_last_move_left(pair, held, recorded):
    """And with random numbers of their own."""
    calls, steps = recorded
    root, phi, key = np.linalg.cholesky(K0)[None], Network(1, 1, "erf").phi, jax.random.key(0)
    if held:
        _population.hold(key, root, 4 * K0, phi, 64, 10)
    else:
        _population._one_population(root, pair.targets, (phi, False), 2.0, 0.1, key, 64, 10)
    assert len(calls) > 10
    assert calls == list(range(len(calls)))
    np.testing.assert_allclose(np.diff(steps), 1, rtol=1e-5)


def test_nested_populations_go_on_so_and_settle_while_they_are_averaged(pair, recorded, monkeypatch):
    """Each layer has a step size of its own; the gain of what is averaged falls as 1/t."""
    (calls, steps), gains = recorded, []
    phi, key = Network(2, 1, "erf").phi, jax.random.key(0)
    nest = _deep_population._Nest(np.linalg.cholesky(K0), pair.targets, phi, 2, 0.1, key, 64)
    for _ in range(3):
        nest._outer_step(1.0, 1.0)
    assert calls == list(range(6))
    np.testing.assert_allclose(np.diff(np.reshape(steps, (3, 2)), axis=0), 1, rtol=1e-5)

    def numbered(self, richness, gain):
        gains.append((richness, gain))
        self.kernels, self.duals = [len(gains) * np.eye(2)], [-len(gains) * np.eye(2)]

    monkeypatch.setattr(_deep_population._Nest, "_outer_step", numbered)
    kernels, duals, num_steps = nest.solve(2.0, 200)
    levels, gain = np.transpose(gains)
    assert (len(gains), levels[-1]) == (num_steps, 2.0)
    assert np.all(np.diff(levels) >= 0)
    last = np.arange(num_steps - 200, num_steps) + 1
    np.testing.assert_allclose(kernels, last.mean() * np.eye(2)[None])  # of the last 200 steps alone
    np.testing.assert_allclose(duals, -last.mean() * np.eye(2)[None])
    assert np.all(gain[:-200] == 1)
    assert gain[-1] / gain[-101] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_residual_of_nested_populations_is_the_largest_of_all_layers(pair, monkeypatch, wrong):
    """Three layers whose kernels are the prior's, but for one that is half as large again."""
    phi = Network(3, 1, "erf").phi
    roots, kernels, none = [np.linalg.cholesky(K0)], [], np.zeros((2, 2))
    for layer in range(2):
        kernel = np.asarray(_deep_population._measure(roots[-1], none, phi)[0])
        kernels.append(1.5 * kernel if layer == wrong else kernel)
        roots.append(np.linalg.cholesky(kernels[-1]))
    monkeypatch.setattr(_deep_population._Nest, "solve", lambda *_: (kernels, [none, none], 1))
    lazy = (1e-3, 0.1, jax.random.key(0), 256, 20)  # γ0, 1/β, and the size of populations
    found = _deep_population.nested(roots[0], pair.targets, phi, 3, *lazy)
    expected = 0.0 if wrong is None else 1 / 3
    noise = 2 * (2 / (256 * 20)) ** 0.5  # of a sampled kernel, of which the expected one is left out already
    assert found.residual == pytest.approx(expected, abs=2 * noise)


def test_second_moments_are_of_the_upper_layers(pair):
    given = Posterior(pair, Network(3, 6, "erf"), 0.1)
    weights = jax.vmap(given.prior)(jax.random.split(jax.random.key(0), 5))
    found = _sampled._second_moments(given, weights)
    _, *upper = jax.vmap(given.preactivations)(weights)
    assert len(found) == 2
    for moment, z in zip(found, upper, strict=True):
        np.testing.assert_allclose(moment, np.einsum("kip,kiq->pq", z, z) / (5 * 6), rtol=1e-5)


@pytest.mark.slow
def test_sampled_networks_extrapolated_in_width(pair, monkeypatch):
    monkeypatch.setattr(_sampled, "WIDTHS", (20, 60))
    monkeypatch.setattr(_sampled, "NUM_WARMUP", 60)
    monkeypatch.setattr(_sampled, "NUM_SAMPLES", 100)
    s = adaptive_kernel.solve(pair, Network(2, 1, "linear"), 1.0, 0.2, method="sampling")
    exact = adaptive_kernel.solve(pair, Network(2, 1, "linear"), 1.0, 0.2)
    for found, expected in zip(s.kernels, exact.kernels):
        assert np.linalg.norm(found - expected) < 0.15 * np.linalg.norm(expected)
    both = [jax.vmap(p.preactivations)(w) for p, w in zip(s._networks.posteriors, s._networks.weights)]
    narrow, wide = (np.array([np.einsum("sip,siq->pq", z, z) / z[..., 0].size for z in zs]) for zs in both)
    np.testing.assert_allclose(s.kernels[1:], (60 * wide - 20 * narrow) / 40, rtol=1e-4)
    inverse = np.linalg.inv(s.kernels[1])
    np.testing.assert_allclose(s.dual_kernels[0], inverse @ s.kernels[2] @ inverse - inverse, rtol=1e-3)
    new = np.array([[1.0], [-0.5]])
    np.testing.assert_allclose(s.predict(new), exact.predict(new), atol=0.05)
    assert s.method == "sampling"
    missed = pair.targets - s.predict(pair.inputs) - 0.2 * s.dual_field  # of the networks' own outputs
    assert s.residual == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(pair.targets), abs=1e-4)
    assert s.residual > 1e-3  # error bars, as networks and the kernel's regression are not the same
    with pytest.raises(ValueError, match="solution"):
        s.test_kernel(new)
