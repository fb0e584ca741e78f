"""`sample`: exactness against closed forms, planted faults, resume, devices, errors."""

import contextlib
import dataclasses
import functools
import io
import itertools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import coding, networks, posterior, sampling, tasks, theory
from coding_schemes.sampling import (
    HMC,
    Langevin,
    PlainLangevin,
    hmc,
    langevin,
    methods,
    moves,
    program,
    results,
    run,
)
from coding_schemes.sampling.kernel import Info, Kernel
from scipy import stats

NETWORK = networks.Network(1, 6, "sigmoidal")
LINEAR_TASK = tasks.toy(3, (1 / 3, 2 / 3), targets=[[1.0], [-0.5]])


@pytest.fixture(scope="module")
def small():
    return posterior.Posterior(tasks.toy(4, (0.5, 0.5)), NETWORK, 0.1)


def small_sample(given, key=0, **arguments):
    settings = {
        "num_samples": 6,
        "num_chains": 2,
        "num_warmup": 8,
        "moves": (),
        "progress": False,
    } | arguments
    return sampling.sample(given, jax.random.key(key), **settings)


# ---- linear networks: exact at finite width, any depth --------------------------------------


@functools.cache
def exact_gram_cdfs(width, temperature, readout_variance, depth):
    """CDFs of A_L and A_1 on a grid, from theory.linear's exact density."""
    logs = np.linspace(-6.0, 3.5, 600 if depth == 1 else (160 if depth == 2 else 70))
    mesh = np.stack(np.meshgrid(*[logs] * depth, indexing="ij"), axis=-1)
    grams = np.exp(mesh)
    density = theory.linear.gram_logdensity(
        LINEAR_TASK, grams, width, temperature, readout_variance
    ) + mesh.sum(-1)
    mass = np.exp(density - density.max())
    step = logs[1] - logs[0]

    def cdf(kept):
        marginal = mass.sum(tuple(axis for axis in range(depth) if axis != kept))
        cumulative = np.cumsum(marginal) / marginal.sum()
        return lambda value: np.interp(np.log(value), logs + step / 2, cumulative)

    return cdf(0), cdf(depth - 1)


def sampled_grams(given, weights):
    """A_L = ‖a‖²/N and A_1 = ‖v_1‖²/N, v_{ℓ−1} = W^ℓᵀ v_ℓ/√N from v_L = a."""
    effective = np.asarray(weights.readout, dtype=float)[..., 0] * float(given.readout_std)
    width = effective.shape[-1]
    top = np.square(effective).mean(-1)
    for hidden in reversed(weights.hidden):
        effective = np.einsum("...i,...ij->...j", effective, np.asarray(hidden, dtype=float)) / width**0.5
    return top, np.square(effective).mean(-1)


def ks_values(given, weights):
    law = float(given.temperature), float(given.readout_variance), given.network.depth
    cdfs = exact_gram_cdfs(given.network.width, *law)
    return np.array(
        [stats.kstest(v.ravel(), cdf).pvalue for v, cdf in zip(sampled_grams(given, weights), cdfs)]
    )


def linear_posterior(depth, dtype=jnp.float32):
    return posterior.Posterior(LINEAR_TASK, networks.Network(depth, 5, "linear"), 0.2, dtype=dtype)


CHAINS = {"num_chains": 300, "num_samples": 4, "num_warmup": 80, "thinning": 15, "store": ("weights",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "method"), [(1, "hmc"), (2, "hmc"), (3, "hmc"), pytest.param(1, Langevin(20), id="1-langevin")]
)
@pytest.mark.key_reuse
def test_linear_networks_follow_the_exact_law(depth, method):
    given = linear_posterior(depth)
    samples = small_sample(given, method=method, **CHAINS)
    assert np.all(ks_values(given, samples.weights) > 1e-3)


@pytest.mark.slow
@pytest.mark.key_reuse
def test_linear_networks_of_other_weight_variances_follow_their_law():
    """Of σ = (1.6, 0.5): Gram matrices of v_ℓ with the gain, as if σ_a² were times (1.6 · 0.5)²."""
    network = networks.Network(2, 5, "linear", weight_std=(1.6, 0.5))
    given = posterior.Posterior(LINEAR_TASK, network, 0.2, readout_variance=0.7)
    samples = small_sample(given, **CHAINS)
    for values, cdf in zip(sampled_grams(given, samples.weights), exact_gram_cdfs(5, 0.2, 0.7 * 0.8**2, 2)):
        assert stats.kstest(values.ravel(), cdf).pvalue > 1e-3
    outputs = np.asarray(jax.vmap(jax.vmap(given.outputs))(samples.weights), float).mean(1)
    mean = theory.linear.solve(LINEAR_TASK, 2, 0.2, 0.7 * 0.8**2, 5).predict(LINEAR_TASK.inputs)
    error = outputs.std(0, ddof=1) / len(outputs) ** 0.5
    assert np.all(np.abs(outputs.mean(0) - mean) < 4 * error + 0.03)


@pytest.mark.key_reuse
def test_wrong_gradient_is_caught(monkeypatch):
    """HMC with a wrong force still accepts by the true energy: exact, only slower. Plain Langevin is not."""
    given = linear_posterior(1)
    honest = langevin.plain_steps

    def wrong(key, weights, gradient, step_sizes, num_steps):
        def biased(k, w):
            slope = gradient(k, w)
            return slope._replace(readout=0.7 * slope.readout)

        return honest(key, weights, biased, step_sizes, num_steps)

    arguments = CHAINS | {"method": PlainLangevin(0.11), "num_warmup": 0, "num_samples": 9}
    right = small_sample(given, **arguments).weights
    monkeypatch.setattr(langevin, "plain_steps", wrong)
    program.compiled(PlainLangevin.compiler_options).clear_cache()
    faulty = small_sample(given, key=1, **arguments).weights
    monkeypatch.undo()
    program.compiled(PlainLangevin.compiler_options).clear_cache()
    late = jax.tree.map(lambda leaf: leaf[:, 2::3], right), jax.tree.map(lambda leaf: leaf[:, 2::3], faulty)
    assert ks_values(given, late[0]).min() > 1e-3
    assert ks_values(given, late[1]).min() < 1e-4


@pytest.mark.slow
@pytest.mark.key_reuse
def test_mobility_leaves_the_law_as_it_is(monkeypatch):
    """Paper A's equation has the same posterior; with its drift but not its noise readouts would be cold."""
    given, honest = linear_posterior(1), langevin.plain_steps

    def cold(key, weights, gradient, step_sizes, num_steps):
        def faster(k, w):
            slope = gradient(k, w)
            return slope._replace(readout=slope.readout / given.readout_variance)

        return honest(key, weights, faster, step_sizes.first, num_steps)

    method = PlainLangevin(0.08, 50, mobility="unit")
    arguments = CHAINS | {"method": method, "num_warmup": 0, "num_samples": 9, "thinning": 8}
    right = small_sample(given, **arguments).weights
    monkeypatch.setattr(langevin, "plain_steps", cold)
    program.compiled(method.compiler_options).clear_cache()
    faulty = small_sample(given, key=1, **arguments).weights
    monkeypatch.undo()
    program.compiled(method.compiler_options).clear_cache()
    late = jax.tree.map(lambda leaf: leaf[:, 2::3], right), jax.tree.map(lambda leaf: leaf[:, 2::3], faulty)
    assert ks_values(given, late[0]).min() > 1e-3
    assert ks_values(given, late[1]).min() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("mobility", "rate"), [("prior variance", 1.0), ("unit", 1 / 0.2)])
@pytest.mark.key_reuse
def test_readouts_forget_at_the_rate_of_their_mobility(small, mobility, rate):
    """T → ∞: Ornstein–Uhlenbeck, da = −M a/σ_a² dt + √(2M) dB; a step keeps 1 − M dt/σ_a² of a."""
    given = posterior.Posterior(small.task, NETWORK, 1e8, 0.2)
    method = PlainLangevin(0.3, 4, mobility=mobility)
    plan = {"num_warmup": 0, "num_chains": 400, "num_samples": 5, "store": ("weights",)}
    weights = small_sample(given, method=method, **plan).weights
    for leaf, per_time in ((weights.readout, rate), (weights.first, 1.0)):
        now, later = (leaf[:, part].ravel().astype(float) for part in (slice(-1), slice(1, None)))
        slope, _, _, _, error = stats.linregress(now, later)
        assert abs(slope - (1 - per_time * 0.3**2 / 2) ** 4) < 4 * error
        expected = 1 / (1 - per_time * 0.3**2 / 4)  # of the steps at rest, with their bias
        last = leaf[:, -1].ravel()
        assert abs(last.var() - expected) < 4 * expected * (2 / last.size) ** 0.5


def test_noise_of_plain_steps_has_the_moments_of_a_normal_number_for_every_weight_and_step():
    """Where no force acts, on two arrays with ε = 1 and 2, over more steps than a random word serves."""
    weights, sizes = {"a": jnp.zeros((19, 31)), "b": jnp.zeros(411)}, {"a": 1.0, "b": 2.0}
    sizes = jax.tree.map(lambda size, w: jnp.full(w.shape, size), sizes, weights)
    still = lambda _, position: jax.tree.map(jnp.zeros_like, position)  # noqa: E731
    walk = jax.jit(lambda n: langevin.plain_steps(jax.random.key(5), weights, still, sizes, n)[0])
    places = [walk(n) for n in range(70)]
    for name, size in (("a", 1.0), ("b", 2.0)):
        noise = np.diff([np.ravel(place[name]) for place in places], axis=0) / size  # (69 steps, weights)
        values, found = np.unique(noise.round(4), return_counts=True)
        large, small = (1 + 6**0.5) ** 0.5, (1 - (2 / 3) ** 0.5) ** 0.5
        np.testing.assert_allclose(values, [-large, -small, small, large], atol=1e-4)
        expected = np.array([1, 3, 3, 1]) / 8
        assert stats.chisquare(found, expected * noise.size).pvalue > 1e-3
        for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (5, 0)):
            assert abs(expected @ values**power - moment) < 1e-3
        for rows in (noise, noise.T):  # of two steps over all weights, of two weights over all steps
            together = rows @ rows.T / rows.shape[1] ** 0.5
            apart = together[np.triu_indices(len(rows), 1)]
            assert abs(np.mean(apart**2) - 1) < 5 * (2 / apart.size) ** 0.5
            assert abs(apart).max() < 7.5
    other = langevin.plain_steps(jax.random.key(6), weights, still, sizes, 69)[0]
    assert abs(stats.pearsonr(np.ravel(other["a"]), np.ravel(places[-1]["a"])).statistic) < 4 / 589**0.5


def test_plain_steps_err_as_euler_steps_with_normal_noise_do():
    """⟨w²⟩ in a potential w⁴/4 + w²/2, by quadrature of the stationary law of Euler's chain, at dt = 0.06."""
    dt, place = 0.06, jnp.zeros(40_000)
    slope = lambda _, w: -w - w**3  # noqa: E731
    run = jax.jit(lambda key, w: langevin.plain_steps(key, w, slope, (2 * dt) ** 0.5, 50)[0])
    found = []
    for k in range(14):
        place = run(jax.random.key(k), place)
        found.append(float(jnp.mean(place**2)))
    grid = np.linspace(-4, 4, 1601)
    step = stats.norm.pdf(grid[:, None], (grid - dt * (grid + grid**3))[None], (2 * dt) ** 0.5)
    law = np.linalg.matrix_power(step / step.sum(0), 2**10)[:, 800]
    expected, exact = law @ grid**2, np.exp(-(grid**2) / 2 - grid**4 / 4)
    error = np.std(found[2:], ddof=1) / 12**0.5
    assert abs(np.mean(found[2:]) - expected) < 4 * error
    assert abs(exact @ grid**2 / exact.sum() - expected) > 8 * error  # the bias is resolved


@pytest.mark.key_reuse
def test_wrong_acceptance_is_caught(monkeypatch):
    """Right forces, but a potential energy of zero: proposals are accepted by the kinetic energy alone."""
    given = linear_posterior(1)
    honest = hmc.hmc_step

    def careless(key, weights, value_and_gradient, step_size, num_steps):
        def flat(position):
            value, gradient = value_and_gradient(position)
            return jnp.zeros_like(value), gradient

        return honest(key, weights, flat, step_size, num_steps)

    arguments = CHAINS | {"num_warmup": 0, "method": HMC(step_size=0.3), "num_samples": 20, "thinning": 5}
    right = small_sample(given, **arguments).weights
    monkeypatch.setattr(hmc, "hmc_step", careless)
    program.compiled().clear_cache()
    faulty = small_sample(given, key=1, **arguments).weights
    monkeypatch.undo()
    program.compiled().clear_cache()
    late = jax.tree.map(lambda leaf: leaf[:, 8::4], right), jax.tree.map(lambda leaf: leaf[:, 8::4], faulty)
    assert ks_values(given, late[0]).min() > 1e-3
    assert ks_values(given, late[1]).min() < 1e-4


# ---- other exact laws -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["hmc", pytest.param(Langevin(20), id="langevin")])
def test_high_temperature_recovers_the_prior(method):
    given = posterior.Posterior(tasks.toy(4, (0.5, 0.5)), NETWORK, 1e6)
    samples = small_sample(
        given, method=method, num_chains=200, num_samples=2, num_warmup=20, thinning=5, store=("weights",)
    )
    last = np.concatenate([leaf[:, -1].ravel() for leaf in jax.tree.leaves(samples.weights)])
    assert stats.kstest(last, "norm").pvalue > 1e-3


@pytest.mark.parametrize("nonlinearity", ["relu", "sigmoidal"])
@pytest.mark.key_reuse
def test_geweke_joint_law(nonlinearity):
    """w ~ prior, Y ~ p(Y | w), a few HMC transitions given Y: w is still the prior, Y − f still white."""
    base = posterior.Posterior(tasks.toy(3, (1 / 3, 2 / 3)), networks.Network(2, 3, nonlinearity), 0.5, 0.5)
    draws = 4_000

    def one(key):
        prior_key, noise_key, move_key = jax.random.split(key, 3)
        weights = base.prior(prior_key)
        noise = jax.random.normal(noise_key, base.targets.shape, base.dtype) / base.likelihood_precision**0.5
        leaves, structure = jax.tree.flatten(base)
        leaves[0] = base.outputs(weights) + noise
        given = jax.tree.unflatten(structure, leaves)

        def transition(weights, k):
            return hmc.hmc_step(k, weights, given.value_and_gradient, jnp.float32(0.3), 6)[0], None

        weights, _ = jax.lax.scan(transition, weights, jax.random.split(move_key, 5))
        residual = (given.targets - given.outputs(weights)) * base.likelihood_precision**0.5
        return jnp.concatenate([*(leaf.ravel() for leaf in jax.tree.leaves(weights)), residual.ravel()])

    values = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), draws)), dtype=float)
    for statistic in (values, values**2 - 1):
        z = statistic.mean(0) / (statistic.std(0) / draws**0.5)
        assert np.abs(z).max() < 4.5


@pytest.mark.key_reuse
def test_float32_and_float64_agree():
    means, errors = [], []
    for dtype in (jnp.float32, jnp.float64):
        given = posterior.Posterior(
            tasks.toy(6, (0.5, 0.5)), networks.Network(1, 8, "relu"), 0.05, dtype=dtype
        )
        samples = small_sample(given, num_chains=60, num_samples=20, num_warmup=60, thinning=4, store=())
        assert samples.final.readout.dtype == dtype
        per_chain = samples.info.energy.mean(1)
        means.append(per_chain.mean())
        errors.append(per_chain.std(ddof=1) / len(per_chain) ** 0.5)
    assert abs(means[0] - means[1]) < 4 * np.hypot(*errors)


def test_energy_differences_survive_float32_at_paper_size():
    """ΔU between neighboring states at N·P = 250,000: error far below the O(1) that decides acceptance."""
    errors = []
    task = tasks.toy(500, (0.5, 0.25, 0.25), y_minus=0.5)
    network = networks.Network(1, 500, "sigmoidal")
    single = posterior.Posterior(task, network, 0.01)
    double = posterior.Posterior(task, network, 0.01, dtype=jnp.float64)
    prior = single.prior(jax.random.key(0))
    fitted = moves.gibbs(jax.random.key(9), prior, single)[0]
    for index, start in enumerate([prior, prior, fitted]):
        step = single.prior(jax.random.key(index + 1))
        moved = jax.tree.map(lambda w, d: w + 0.01 * d, start, step)
        wide = [jax.tree.map(lambda leaf: leaf.astype(jnp.float64), w) for w in (start, moved)]
        change = single.energy(moved) - single.energy(start)
        errors.append(abs(float(change - (double.energy(wide[1]) - double.energy(wide[0])))))
    assert max(errors) < 0.2  # of U = 1.9e7 at the prior, 2.7e6 fitted


@pytest.mark.key_reuse
def test_plain_langevin_bias_shrinks_with_the_step(small):
    """Excess ⟨u²⟩ of the free Ornstein–Uhlenbeck step, exactly 1/(1 − ε²/4) at T → ∞."""
    given = posterior.Posterior(small.task, NETWORK, 1e8)
    for step in (0.4, 0.8):
        samples = small_sample(
            given,
            method=PlainLangevin(step),
            num_warmup=0,
            num_chains=400,
            num_samples=2,
            thinning=2,
            store=("weights",),
        )
        last = samples.weights.first[:, -1].ravel()
        expected = 1 / (1 - step**2 / 4)
        assert abs(last.var() - expected) < 4 * expected * (2 / last.size) ** 0.5


# ---- what is stored -------------------------------------------------------------------------


def test_stored_arrays_belong_together(small):
    samples = small_sample(small, store=run.STORABLE)
    assert samples.readouts.shape == (2, 6, 6, 2)
    assert samples.preactivations[0].shape == (2, 6, 6, 4)
    one = jax.tree.map(lambda leaf: leaf[1, 3], samples.weights)
    np.testing.assert_allclose(samples.readouts[1, 3], small.readouts(one), rtol=1e-6)
    np.testing.assert_allclose(samples.outputs[1, 3], small.outputs(one), rtol=1e-5)
    assert samples.info.squared_error[1, 3] == pytest.approx(float(small.squared_error(one)), rel=1e-5)
    kernel = np.mean([small.network.kernel(z) for z in samples.preactivations[0][1]], axis=0)
    np.testing.assert_allclose(samples.kernels[0][1], kernel, rtol=1e-5)
    np.testing.assert_allclose(samples.mean_outputs, samples.outputs.mean(1), rtol=1e-5)
    assert samples.info.energy.shape == (2, 6)
    assert samples.warmup_info.energy.shape == (2, 8)


def test_energies_of_the_warm_up_are_those_at_its_temperature(small):
    """Weights that hardly move, from T = 1 to 0.01 in eight transitions."""
    cold, options = small.at_temperature(0.01), {"num_warmup": (8, 0), "anneal_from": 1.0, "moves": ()}
    samples = small_sample(cold, method=PlainLangevin(1e-6), **options)
    still = jax.tree.map(lambda leaf: leaf[0], samples.final)
    found = np.asarray(samples.warmup_info.energy)[0]
    expected = [-small.at_temperature(0.01 ** (k / 8)).logdensity(still) for k in range(1, 9)]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("depth", [1, 2])
def test_predictions_on_the_training_inputs_are_the_outputs(depth, small):
    network = dataclasses.replace(small.network, depth=depth)
    given = posterior.Posterior(small.task, network, 0.1)
    samples = small_sample(
        given, store=("outputs", "kernels", "test_kernel"), predict_inputs=small.task.inputs
    )
    np.testing.assert_allclose(samples.predictions.outputs, samples.outputs, atol=1e-5)
    np.testing.assert_allclose(samples.predictions.kernel, samples.kernels[-1].mean(0), atol=1e-4)
    found = samples.predictions
    errors = coding.generalization_error(found.mean, found.variance, small.task.targets).total
    expected = np.square(small.task.targets - samples.outputs).mean((0, 1, 2))
    np.testing.assert_allclose(errors, expected, rtol=1e-4)


def test_unseen_directions_stay_at_the_prior():
    """New inputs orthogonal to the training ones: z* ~ N(0, K**), independent of what was learned."""
    task = tasks.toy(4, (0.5, 0.5), input_dim=12)
    given = posterior.Posterior(task, networks.Network(1, 400, "linear"), 0.1)
    other = np.linalg.svd(task.inputs.T)[2][4:6].T * np.sqrt(12)
    weights = given.prior(jax.random.key(0))
    z = np.asarray(given.respond(jax.random.key(1), weights, given.new_inputs(other)).preactivations[0])
    assert np.abs(z.T @ z / 400 - np.eye(2)).max() < 4 * (2 / 400) ** 0.5
    assert np.abs(np.asarray(weights.first).T @ z / 400).max() < 4 / 400**0.5


# ---- running --------------------------------------------------------------------------------


def test_same_key_same_samples(small):
    first, second, other = (small_sample(small, key=k) for k in (0, 0, 1))
    np.testing.assert_array_equal(first.readouts, second.readouts)
    assert not np.array_equal(first.readouts, other.readouts)


def test_thinning_keeps_every_third_transition(small):
    """Transition i draws from fold_in(key, i): a thinned run is every third sample of one that is not."""
    method = Langevin(step_size=0.2, num_steps=4)
    settings = {"num_warmup": 0, "method": method, "moves": (), "store": ("readouts",)}
    whole = small_sample(small, num_samples=12, **settings)
    thinned = small_sample(small, num_samples=4, thinning=3, **settings)
    np.testing.assert_allclose(thinned.readouts, whole.readouts[:, 2::3], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(thinned.info.num_gradients, 3 * whole.info.num_gradients[:, 2::3])
    acceptance = whole.info.acceptance.reshape(2, 4, 3).mean(2)
    np.testing.assert_allclose(thinned.info.acceptance, acceptance, rtol=1e-4)


def test_the_step_size_after_warm_up_is_the_averaged_one(small):
    """Nesterov's average of the steps tried, log ε̄ ← t^{−¾} log ε + (1 − t^{−¾}) log ε̄; the last swings."""
    samples = small_sample(small, num_warmup=20)
    average = 0.0
    tried = samples.warmup_info.step_size[0, 10:]  # the first half anneals
    for t, log_step in enumerate(np.log(tried), start=1):
        average = t**-0.75 * log_step + (1 - t**-0.75) * average
    np.testing.assert_allclose(samples.info.step_size, np.exp(average), rtol=1e-4)
    assert np.abs(tried[-1] / np.exp(average) - 1) > 0.01


def test_one_compilation_serves_all_temperatures(small):
    small_sample(small)
    before = program.compiled()._cache_size()
    small_sample(small.at_temperature(0.3), key=3)
    small_sample(small, num_samples=5, num_warmup=7, thinning=3, method=HMC(1.0, 30, target_acceptance=0.7))
    small_sample(small, init=small.prior(jax.random.key(1)), num_warmup=0, method=HMC(step_size=0.1))
    assert program.compiled()._cache_size() == before


def test_a_method_is_a_kernel_and_an_entry(small, monkeypatch):
    """`sample` knows nothing of a random walk; at T → ∞ it comes to the prior, as often accepted as asked."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Walk(Kernel):
        step_size: float | None = None
        target_acceptance: float = 0.4

        def step(self, key, weights, posterior, step_size, shared):
            move_key, accept_key = jax.random.split(key)
            draw = hmc.standard_normal(move_key, weights)
            moved = jax.tree.map(lambda w, xi: w + step_size * xi, weights, draw)
            ratio = posterior.logdensity(moved) - posterior.logdensity(weights)
            accept = jnp.log(jax.random.uniform(accept_key)) < ratio
            weights = jax.tree.map(lambda new, old: jnp.where(accept, new, old), moved, weights)
            return weights, Info(
                jnp.exp(jnp.minimum(ratio, 0)), ~jnp.isfinite(ratio), jnp.int32(0), step_size
            )

    monkeypatch.setitem(methods.METHODS, "walk", Walk)
    given = posterior.Posterior(small.task, NETWORK, 1e6)
    plan = {"num_chains": 100, "num_samples": 2, "num_warmup": 200, "thinning": 100, "store": ("weights",)}
    samples = small_sample(given, method="walk", **plan)
    last = np.concatenate([leaf[:, -1].ravel() for leaf in jax.tree.leaves(samples.weights)])
    assert stats.kstest(last, "norm").pvalue > 1e-3
    assert abs(samples.info.acceptance.mean() - 0.4) < 0.05


def test_nan_is_reported_with_its_step(small):
    with pytest.raises(FloatingPointError, match=r"transition \d+ with step size 50"):
        small_sample(small, method=PlainLangevin(50.0), num_warmup=0)


def test_the_transition_is_named_whose_energy_is_not_finite():
    """A block of four samples, one in three transitions, that ends with the 30th."""
    info = {"energy": np.zeros((2, 4)), "step_size": np.full((2, 4), 0.5)}
    results.check_finite(info, 30, 3)
    for value in (np.nan, np.inf, -np.inf):
        info["energy"][1, 2] = value
        told = f"chain 1: energy {value} at transition 27 with step size 0.5"
        with pytest.raises(FloatingPointError, match=told):
            results.check_finite(info, 30, 3)


def test_a_frozen_chain_is_reported(small):
    with pytest.warns(UserWarning, match="frozen"):
        small_sample(small.at_temperature(1e-6), num_warmup=0, method=HMC(max_num_steps=5, step_size=1.0))


def test_replicas_exchange(small):
    samples = small_sample(small, temperatures=(0.2, 0.5), num_samples=10)
    assert samples.readouts.shape == (2, 10, 6, 2)
    assert 0 < samples.info.move_acceptance["exchange"].mean() <= 1


@pytest.mark.parametrize(
    ("backend", "chains", "cached", "one_by_one"),
    [("cpu", 3, 11, True), ("cpu", 3, 12, False), ("gpu", 3, 11, False), ("cpu", 1, 12, True)],
)
def test_chains_one_after_the_other_have_their_own_arguments(
    backend, chains, cached, one_by_one, monkeypatch
):
    """Where a chain's 1 + 5 + 6 numbers are more than a CPU's cache holds, or it is alone."""
    monkeypatch.setattr(program, "CACHED", cached)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "devices", lambda: ["one"])
    arrays = [np.random.default_rng(0).standard_normal((chains, *shape)) for shape in ((), (5,), (2, 3))]
    function = lambda one, two, three: (one * two, three @ three.T + one)  # noqa: E731
    over = functools.partial(program._over_chains, function)
    assert ("scan" in str(jax.make_jaxpr(over)(*arrays))) == one_by_one
    for found, expected in zip(over(*arrays), zip(*map(function, *arrays))):
        np.testing.assert_allclose(found, expected)


def test_of_replicas_the_coldest_is_reported(small):
    cold = small.at_temperature(1e-6)
    options = {"num_warmup": 0, "num_samples": 20, "method": HMC(max_num_steps=5, step_size=1.0)}
    with pytest.warns(UserWarning, match="frozen"):
        samples = small_sample(cold, temperatures=(1.0,), **options)
    assert samples.info.acceptance.max() < 1e-3
    # it only takes what fits better from the hot one, whose error goes up and down
    assert np.diff(samples.info.squared_error, axis=1).max() < 1e-5


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_minibatch_gradient_is_unbiased(small, batch_size):
    """That of one of all sets of different inputs, each as often; the exact one where all four are taken."""
    weights = small.prior(jax.random.key(0))
    pull = 4 * float(small.likelihood_precision) * float(small.readout_std) * NETWORK.readout_scale
    features, residual = NETWORK.phi(weights.first), small.targets - small.outputs(weights)
    each = pull * np.einsum("np,pm->pnm", features, residual)
    sets = [np.mean(of, axis=0) for of in itertools.combinations(each, batch_size)]
    expected = np.stack(sets) - np.asarray(weights.readout)
    exact = jax.jit(jax.grad(small.logdensity))(weights).readout
    np.testing.assert_allclose(expected.mean(0), exact, rtol=1e-4)

    gradient = langevin.minibatch_gradient(small, batch_size)
    drawn = jax.jit(jax.vmap(lambda k: gradient(k, weights).readout))
    estimates = np.asarray(drawn(jax.random.split(jax.random.key(1), 4000)))
    apart = np.abs(estimates[:, None] - expected).max((2, 3))
    assert apart.min(1).max() < 1e-4 * np.abs(expected).max()  # rounding
    assert len(sets) == 1 or stats.chisquare(np.bincount(apart.argmin(1), minlength=len(sets))).pvalue > 1e-3


def test_minibatch_langevin_draws_from_the_posterior():
    """At a small step the training error is HMC's; with a batch's gradient not scaled up to P it is not."""
    given = linear_posterior(1)
    arguments = {"num_chains": 200, "num_samples": 1, "num_warmup": 0, "store": ()}
    plain = arguments | {"method": PlainLangevin(0.08, 1500, batch_size=2)}
    init = small_sample(given, **CHAINS | {"num_chains": 200, "num_samples": 1}).final
    expected = small_sample(given, **CHAINS | {"num_chains": 200, "num_samples": 10}).info.squared_error
    found = small_sample(given, key=1, init=init, **plain).info.squared_error.ravel()
    gap = abs(found.mean() - expected.mean()) / np.hypot(found.std(), expected.std() / 5) * 200**0.5
    assert gap < 4
    warmer = small_sample(given.at_temperature(0.3), key=1, init=init, **plain).info.squared_error.ravel()
    assert abs(warmer.mean() - expected.mean()) / warmer.std() * 200**0.5 > 5


@pytest.mark.slow
@pytest.mark.key_reuse
def test_stretched_readouts_lead_to_the_exact_law():
    """A wrong force would leave the law, but not the acceptance of a short step."""
    given, stretched = linear_posterior(1), HMC(stretch=2.0)
    assert np.all(ks_values(given, small_sample(given, method=stretched, **CHAINS).weights) > 1e-3)
    short = dataclasses.replace(stretched, step_size=0.02, max_num_steps=10)
    assert small_sample(given, method=short, num_warmup=0).info.acceptance.min() > 0.99


def test_error_of_inputs_in_batches(small):
    weights = small.prior(jax.random.key(0))
    for batch_size in (1, 3, 4):
        assert float(small.energy(weights, batch_size)) == pytest.approx(
            float(small.energy(weights)), rel=1e-6
        )


def test_divergences_are_reported_with_their_place(small):
    with pytest.warns(UserWarning, match=r"in chain \d at transition \d+ to \d+ with step size 3"):
        small_sample(small.at_temperature(0.02), num_warmup=0, method=HMC(step_size=3.0))


def test_trajectories_at_the_limit_keep_their_jitter(small):
    """Cut to one length, they would swing in step with a mode of the energy; 5 to 12 steps here."""
    cut = HMC(max_num_steps=12, step_size=1e-3)
    steps = small_sample(small, num_samples=200, num_warmup=0, method=cut, moves=()).info.num_gradients[0] - 1
    assert set(steps) == set(range(5, 13))
    assert abs(steps.mean() - 8.5) < 3 * 8 / (12 * len(steps)) ** 0.5


def test_divergences_of_a_thinned_sample_are_added_up(small):
    cold, leaping = small.at_temperature(1e-5), HMC(step_size=3.0)
    with pytest.warns(UserWarning, match="divergent"):
        info = small_sample(cold, num_warmup=0, method=leaping, thinning=3).info
    assert info.divergences.max() == 3


def test_new_inputs_are_answered_anew_for_every_sample():
    """What training leaves free of W¹ is drawn each time; here at an input orthogonal to all others."""
    task = tasks.toy(2, (0.5, 0.5), input_dim=6)
    given = posterior.Posterior(task, networks.Network(1, 6, "linear"), 0.5)
    free = np.linalg.svd(task.inputs.T)[2][3:4].T * 6**0.5
    resting = {"num_warmup": 0, "method": HMC(step_size=1e-4), "store": ("readouts",)}
    samples = small_sample(given, num_samples=60, predict_inputs=free, **resting)
    assert np.ptp(samples.readouts[:, :, 0, 0], axis=1).max() < 0.2  # the network itself hardly moves
    outputs = samples.predictions.outputs[:, :, 0, 0]
    expected = np.square(samples.readouts[:, 0, :, 0]).sum(axis=1) ** 0.5 / 6
    np.testing.assert_allclose(outputs.std(axis=1), expected, rtol=4 / 120**0.5)


def test_chains_spread_over_devices():
    script = """
        import jax, numpy as np
        jax.config.update("jax_enable_x64", True)
        from coding_schemes import networks, posterior, sampling, tasks
        given = posterior.Posterior(tasks.toy(4, (0.5, 0.5)), networks.Network(1, 6, "sigmoidal"), 0.1)
        samples = sampling.sample(
            given, jax.random.key(0), num_samples=6, num_chains=2, num_warmup=8, progress=False, moves=()
        )
        placed = sampling.run.spread(given, 2)[1](np.zeros((1, 2)), None, "chains")
        held = 1 if isinstance(placed, np.ndarray) else len(placed.sharding.device_set)
        _, put = sampling.run.spread(given.with_root(), 6)  # six chains in two rows on four devices
        assert np.array_equal(put(np.arange(6), "chains"), np.arange(6))
        inputs = np.random.default_rng(0).standard_normal((3, 4))
        task = tasks.Task(inputs, np.array([0, 0, 1, 1]), np.repeat(np.eye(2), 2, 0))
        single = posterior.Posterior(task, given.network, 0.1)  # one chain: its inputs are split
        plan = dict(num_samples=6, num_chains=1, num_warmup=8, moves=(), progress=False)
        one = sampling.sample(single, jax.random.key(0), **plan)
        rows = sampling.run.spread(single)[0].targets.sharding.device_set
        alike = posterior.Posterior(tasks.clustered(12, (0.5, 0.5), 0.4), given.network, 0.1)
        energy = float(sampling.run.spread(alike)[0].energy(alike.prior(jax.random.key(1))))
        found = (*samples.readouts.ravel()[::7].tolist(), *one.readouts.ravel()[::7].tolist(), energy)
        print(held, len(rows), *found)
    """
    script, here = textwrap.dedent(script), io.StringIO()
    with contextlib.redirect_stdout(here):  # these tests have one device
        exec(script, {})
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    environment = {"XLA_FLAGS": flags, "PYTHONPATH": ":".join(sys.path), "PATH": ""}
    command = [sys.executable, "-c", script]
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    # two chains on four devices: two of them are used
    lines = [np.array(text.split(), dtype=float) for text in (here.getvalue(), there)]
    assert [lines[0][:2].tolist(), lines[1][:2].tolist()] == [[1, 1], [2, 4]]  # devices of chains, of inputs
    np.testing.assert_allclose(lines[0][2:], lines[1][2:], atol=1e-3)


# ---- what the samples offer -----------------------------------------------------------------


def test_codes_are_those_of_the_theory_for_any_bounded_nonlinearity():
    """The threshold is the middle of φ's range: 0 for tanh, where ½ would miss codes that theory finds."""
    task = tasks.toy(12, (0.5, 0.5), y_plus=1.0, y_minus=-1.0)
    for name, middle in (("tanh", 0.0), ("erf", 0.0), ("sigmoidal", 0.5)):
        solution = theory.sigmoidal.solve(task, 0.05, nonlinearity=name)
        assert coding.threshold(networks.NONLINEARITIES[name]) == middle
        made = sampling.Samples(
            np.zeros(1), None, None, None, None, None, None, None, None, None, 0.1, {},
            networks.Network(1, len(solution.codes), name), task.labels,
        )  # fmt: skip
        z = np.linspace(-6, 6, 4001)
        phi = np.asarray(made.network.phi(z))
        rows = np.interp(solution.activations, phi, z)[:, task.labels]
        made = dataclasses.replace(made, preactivations=(rows[None, None],))
        np.testing.assert_array_equal(made.codes()[0, 0], solution.codes)
        assert set(made.occupancies().names) == {coding.code_name(code) for code in solution.codes}


@pytest.mark.parametrize(
    ("phi", "middle"),
    [("sigmoidal", 0.5), ("tanh", 0.0), ("erf", 0.0), (lambda z: 3 - jax.nn.sigmoid(2 * z), 2.5)],
)
def test_codes_are_cut_at_the_middle_of_the_range(phi, middle):
    """A tenth above it on a class or below, in either layer."""
    labels, network = np.array([0, 1, 1]), networks.Network(2, 2, phi)
    side = np.array([[1.0, -1.0], [1.0, 1.0]])
    z = np.linspace(-6, 6, 4001)
    values = np.asarray(network.phi(z))
    order = np.argsort(values)
    layers = [np.interp(middle + 0.1 * s * side[:, labels], values[order], z[order]) for s in (1, -1)]
    made = sampling.Samples(
        None, tuple(layer[None, None] for layer in layers), *[None] * 8, 0.1, {}, network, labels
    )
    np.testing.assert_array_equal(made.codes(0)[0, 0], side > 0)
    np.testing.assert_array_equal(made.codes()[0, 0], side < 0)
    np.testing.assert_array_equal(made.activations()[0, 0], network.phi(layers[1]))
    assert set(made.occupancies(0).names) == {"1-0", "1-1"}
    assert set(made.occupancies().names) == {"0-1", "0-0"}


def test_samples_need_what_they_are_asked_for(small):
    samples = small_sample(small)
    np.testing.assert_array_equal(samples.activations(0), small.network.phi(samples.preactivations[0]))
    with pytest.raises(ValueError, match="preactivations were not kept"):
        small_sample(small, store=()).codes()
    with pytest.raises(ValueError, match="labels"):
        dataclasses.replace(samples, labels=None).occupancies()


def test_relu_codes_are_its_outliers():
    given = posterior.Posterior(tasks.toy(4, (0.5, 0.5)), networks.Network(1, 6, "relu"), 0.1)
    samples = small_sample(given)
    expected = coding.outliers(samples.activations(), given.task.labels).codes
    np.testing.assert_array_equal(samples.codes(), expected)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (networks.Network(1, 6, "sigmoidal"), ("recode",)),
        (networks.Network(2, 6, "tanh"), ("imitate",)),
        (networks.Network(2, 6, "sigmoidal"), ("imitate", "reflect")),
        (networks.Network(1, 6, "relu"), ("gibbs", "scale", "rotations", "split_merge")),
        (networks.Network(1, 6, jax.nn.relu), ("gibbs", "scale", "rotations", "split_merge")),
        (networks.Network(2, 6, "softplus"), ("gibbs", "rotations", "split_merge")),
        (networks.Network(3, 6, "linear"), ("gibbs",)),
        (networks.Network(1, 6, "sigmoidal", "lazy"), ("gibbs",)),
        (networks.Network(1, 1, "sigmoidal"), ("gibbs",)),
    ],
)
def test_moves_that_a_network_needs(network, expected):
    given = posterior.Posterior(tasks.toy(4, (0.5, 0.5)), network, 0.1)
    assert moves.auto(given) == run._checked_moves("auto", given, HMC()) == expected
    assert run._checked_moves("auto", given, PlainLangevin(0.05)) == ()
    for name in expected:
        moves.check(name, given)


def test_recode_is_for_orthogonal_inputs_and_few_targets():
    correlated = posterior.Posterior(tasks.mnist(12), NETWORK, 0.1)
    many = posterior.Posterior(tasks.toy(10, (0.2,) * 5), NETWORK, 0.1)
    assert moves.auto(many) == ("imitate",)
    assert moves.auto(correlated) == ("imitate", "convert", "reflect")
    for given, what in ((many, "5 targets and 10 orthogonal"), (correlated, "3 targets and 12 correlated")):
        with pytest.raises(ValueError, match=f"moves: 'scale' needs .*; got .*, {what} inputs"):
            moves.check("scale", given)


def test_moves_are_made_unless_refused(small):
    assert set(
        sampling.sample(small, jax.random.key(0), 6, num_chains=2, num_warmup=8).info.move_acceptance
    ) == {"recode"}
    plain = sampling.sample(
        small, jax.random.key(0), 6, num_chains=2, num_warmup=0, method=PlainLangevin(0.05)
    )
    assert not plain.info.move_acceptance


@pytest.fixture
def still(monkeypatch):
    """A move that changes nothing, whose acceptance is the first number of its key."""
    monkeypatch.setitem(moves.MOVES, "still", moves.Move(lambda key, w, _: (w, jax.random.uniform(key))))


@pytest.mark.slow
@pytest.mark.usefixtures("still")
def test_a_move_draws_from_its_own_key_whatever_other_moves_there_are(small):
    orders = [("still",), ("still", "gibbs"), ("gibbs", "still"), ("gibbs", "recode", "still")]
    settings = {"method": HMC(step_size=0.1), "num_warmup": 0, "num_samples": 12}
    runs = [small_sample(small, moves=order, **settings) for order in orders]
    for found in runs[1:]:
        np.testing.assert_array_equal(
            found.info.move_acceptance["still"], runs[0].info.move_acceptance["still"]
        )
    gibbs = small_sample(small, moves=("gibbs",), **settings)
    for found in runs[1:3]:  # one that changes nothing leaves the samples as they are
        np.testing.assert_allclose(found.readouts[:, :3], gibbs.readouts[:, :3], rtol=1e-4, atol=1e-5)
    assert not np.allclose(runs[0].readouts[:, :3], gibbs.readouts[:, :3], atol=1e-2)


@pytest.mark.usefixtures("still")
def test_moves_of_a_thinned_sample_report_the_mean_of_their_acceptance(small):
    """As of exchange, over the transitions since the sample before."""
    settings = {"num_warmup": 0, "method": Langevin(step_size=0.2, num_steps=4), "moves": ("still",)}
    settings |= {"temperatures": (0.102, 0.104), "store": ()}
    whole = small_sample(small, num_samples=12, **settings).info.move_acceptance
    thinned = small_sample(small, num_samples=4, thinning=3, **settings).info.move_acceptance
    assert set(thinned) == {"still", "exchange"}
    for name, found in thinned.items():
        assert np.ptp(whole[name]) > 0.1
        np.testing.assert_allclose(found, whole[name].reshape(2, 4, 3).mean(2), atol=1e-3)


def test_a_move_that_is_made_twice_draws_anew():
    assert len(set(moves.streams((*moves.MOVES, "gibbs", "gibbs")))) == len(moves.MOVES) + 2
    assert moves.streams(("gibbs", "scale", "gibbs"))[::2] == moves.streams(("gibbs", "gibbs"))
    # SHA-256 of "gibbs 0": the same in every process and version
    assert moves.streams(("gibbs",)) == (3_931_267_459,)


def test_importing_the_samplers_is_light():
    """ArviZ loads SciPy's signal processing, which only diagnostics need."""
    program = "import sys, coding_schemes.sampling.run; print('scipy.signal' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("phi", "method", "num_warmup", "places", "energies"),
    [  # long trajectories of the first are chaotic, and end elsewhere on another processor
        ("sigmoidal", HMC(step_size=0.05), 3, (0, 1), [[244.727862, 229.929108], [265.681435, 250.986807]]),
        ("linear", Langevin(5, 0.05), 20, (0, 9), [[145.652064, 143.131461], [147.258897, 140.468837]]),
    ],
)
def test_parity_with_the_sampler_of_several_programs(phi, method, num_warmup, places, energies):
    """Energies of two samples, from when warm-up and sampling were compiled apart."""
    given = posterior.Posterior(
        tasks.toy(8, (0.5, 0.25, 0.25), y_minus=0.2), networks.Network(1, 8, phi), 0.05
    )
    init = given.prior(jax.random.key(3))
    arguments = {"num_samples": 20, "thinning": 2, "num_warmup": num_warmup, "method": method, "store": ()}
    found = small_sample(given, key=1, init=init, **arguments)
    np.testing.assert_allclose(found.info.energy[:, list(places)], energies, rtol=1e-4)
