"""What the chapter on redundant schemes measures, on cases that are known exactly."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import finite_width, sigmoidal
from companion.findings import Estimate
from redundant import runs
from scipy import stats
from test_calibration import assert_calibrated


def test_whole_numbers_cost_what_the_theory_of_frozen_shares_says():
    """N times the free energy at given whole numbers is the quadratic form that their Gaussian has."""
    size, away = 60, np.array([[1, 0, 0], [0, 0, 1], [1, -1, 0], [0, 0, 2], [-1, -1, 0]])
    theory = runs.solve(size, 0.5, 0.01)
    covariance = size * sigmoidal.occupancy_covariance(theory, runs.CODES)[:3, :3]
    mean = size * sigmoidal.measured_occupancies(theory, runs.CODES)[:3]
    near = np.array([18, 18, 18]) + np.concatenate([np.zeros((1, 3), int), away])
    shares = np.column_stack([near, size - near.sum(1)]) / size
    task = tasks.toy(size, y_minus=0.5)
    frozen = [sigmoidal.solve(task, 0.01, codes=runs.CODES, occupancies=each) for each in shares]
    cost = size * np.array([each.free_energy for each in frozen])
    form = 0.5 * np.einsum("ni,ij,nj->n", near - mean, np.linalg.inv(covariance), near - mean)
    assert cost[1:] - cost[0] == pytest.approx(form[1:] - form[0], rel=0.15)


def test_shift_is_what_finite_width_has_more_of_a_code():
    theory, width = runs.solve(24, 0.5, 0.02), 24
    text = runs.shift(SimpleNamespace(theory=theory, width=width)).replace("−", "-")
    shifts, names = zip(*(each.split(" for ") for each in text.split(", ")))
    assert names == runs.NAMES == tuple(runs.names(runs.CODES))
    assert runs.names(runs.CODES[[2, 0, 2]]) == ["0-1-1", "1-1-0", "0-1-1"]  # neuron by neuron
    shares = sigmoidal.measured_occupancies(theory, runs.CODES)
    total = width * shares + np.array(shifts, float)
    np.testing.assert_allclose(total, finite_width.numbers(theory, runs.CODES, width), atol=0.006)
    assert np.abs(np.array(shifts, float)).max() > 0.02


def test_readouts_drawn_from_theory_pass_its_test_and_shifted_ones_do_not():
    theory = runs.solve(24, 0.5, 0.02)
    points, weights = sigmoidal.readout_ensemble(theory)
    code = runs.CODES[0]
    mean, variance = finite_width.readout_moments(theory, code, 0, np.inf)
    active = np.all((points @ theory.dual_field.T > theory.problem.site.critical_field) == code, axis=1)
    share = weights * active / (weights @ active)
    assert mean == pytest.approx(share @ points[:, 0], abs=0.02)
    assert variance == pytest.approx(share @ (points[:, 0] - mean) ** 2, rel=0.1)
    finite = [finite_width.readout_moments(theory, code, 0, width)[0] for width in (100, 200, 400)]
    assert np.diff(finite)[0] == pytest.approx(2 * np.diff(finite)[1], rel=0.05)  # the shift falls as 1/N


def test_readouts_of_theory_at_finite_width_pass_the_test_and_those_of_infinite_width_do_not():
    theory, width, rng = runs.solve(24, 0.5, 0.02), 24, np.random.default_rng(0)
    grid, codes = np.linspace(-3, 3, 4001), list(filter(theory.occupancy, runs.CODES))
    limit, finite = [], []
    for code in codes:
        for r in range(3):
            density = sigmoidal.readout_density(theory, r, grid, runs._row(theory, code))
            a = np.interp(rng.random(6000), np.cumsum(density) / density.sum(), grid)
            (mean, variance), (lasting, width_free) = (
                finite_width.readout_moments(theory, code, r, n) for n in (width, np.inf)
            )
            limit.append(a)
            finite.append(mean + (a - lasting) * np.sqrt(variance / width_free))

    def pvalues(draws):
        readouts = np.reshape(draws, (len(codes), 3, 6000)).transpose(2, 0, 1)
        held = np.broadcast_to(codes, readouts.shape)
        step = runs.FORGOTTEN  # of which the test takes one sample each
        seen = (np.repeat(each[None], step, axis=1) for each in (readouts, held))
        names = ("readouts", "codes")
        return runs.readout_pvalues(SimpleNamespace(width=width, **dict(zip(names, seen))), theory)

    assert runs.combined(pvalues(finite)) > 0.01
    assert runs.combined(pvalues(limit)) < 1e-6


def test_a_gaussian_code_cut_by_its_sign_explains_two_over_pi():
    gaussian = np.random.default_rng(0).standard_normal((20_000, 1))
    assert runs.between_codes(gaussian, gaussian > 0) == pytest.approx(2 / np.pi, abs=0.01)


def test_perfect_groups_explain_everything():
    codes = np.random.default_rng(0).random((50, 3)) > 0.5
    assert runs.between_codes(codes.astype(float), codes) == pytest.approx(1)


def test_fishers_combination_is_uniform_where_its_tests_are():
    found = [runs.combined(row) for row in np.random.default_rng(0).random((2000, 12))]
    assert np.mean(np.array(found) < 0.1) == pytest.approx(0.1, abs=0.03)
    two = np.array([[1e-9, 0.9], [0.5, 0.8]])  # of one of them the misfit shows
    assert runs.combined(two) == pytest.approx(stats.chi2.sf(-2 * np.log(two).sum(), 8))
    assert 0 < runs.combined(np.array([0.0, 0.5])) < 1e-290


@pytest.mark.parametrize("between", [0.0, 1.0])
def test_variance_of_numbers_within_networks_and_between(between, monkeypatch):
    """Numbers that fluctuate in time and differ for good between networks, with ten of these or with two."""
    rng, variance = np.random.default_rng(1), 4.0
    shape = (10, 60, 300) if between == 0 else (2, 60, 5 * 300)
    own = np.sqrt(between * variance / 2) * rng.standard_normal((shape[0], 1, shape[2]))
    numbers = own + np.sqrt(variance * (1 - between / 2)) * rng.standard_normal(shape)
    monkeypatch.setattr(runs.finite_width, "number_moments", lambda *_: (variance, 3 * variance**2))
    found, error = runs.scatter(SimpleNamespace(numbers=numbers, theory=None, width=0))
    assert abs(found.mean() / variance - 1) < 4 * (found.std() / variance) / shape[2] ** 0.5 + 0.02 / 6
    if between == 0:
        assert_calibrated(found, variance, error, slack=0.2)
        np.testing.assert_allclose(np.median(error), variance * (2 / 600) ** 0.5, rtol=0.1)
    else:  # as many effective draws as networks at least, and hardly more
        assert np.all(error <= variance * (2 / 2) ** 0.5 + 1e-12)
        assert np.median(error) > variance * (2 / 20) ** 0.5
        still = SimpleNamespace(numbers=np.ones((2, 60, 1)), theory=None, width=0)
        np.testing.assert_allclose(runs.scatter(still).error, variance)  # two draws, though none moves


def test_difference_of_two_sets_of_networks():
    rng = np.random.default_rng(12)
    found = runs.difference(3 + rng.standard_normal((20, 2000)), 1 + 2 * rng.standard_normal((15, 2000)))
    assert_calibrated(found.value, 2, found.error, slack=0.2)
    np.testing.assert_allclose(np.mean(found.error**2), 1 / 20 + 4 / 15, rtol=0.05)


def test_codes_of_deep_networks_are_read_at_a_threshold_layer_by_layer():
    """Six neurons of two layers; a class mean of 0.45 is on at 0.4 and off at 0.5."""
    task = tasks.toy(8, class_ratios=(0.5, 0.25, 0.25))
    means = [[0.9, 0.9, 0.1], [0.9, 0.1, 0.9], [0.9, 0.45, 0.1]]
    layer = np.repeat(np.array(means)[:, task.labels], 2, axis=0)
    sharp = np.repeat(np.array([[0.9, 0.1, 0.1]])[:, task.labels], 6, axis=0)
    deep = runs.Deep(
        Posterior(task, Network(2, 6, "sigmoidal"), 0.1), None, [layer[None], sharp[None]], [sharp[None]] * 2
    )
    assert deep.num_codes(0.4)[0].tolist() == [[2, 1]]
    assert deep.num_codes(0.5)[0].tolist() == [[3, 1]]
    assert deep.num_codes(0.5)[1].tolist() == [[1, 1]]
    mixed = np.array([4, 0, 2, 5, 1, 3])
    shown = runs.one_of_each_layer(replace(deep, layers=[layer[None, mixed], sharp[None]]))
    for neurons, names, phi in zip(shown["activations"], shown["codes"], (layer, sharp), strict=True):
        own = [phi[:, task.labels == c].mean(1) > 0.5 for c in range(3)]
        expected = sorted(zip(phi.tolist(), ("-".join(map(str, code)) for code in np.array(own, int).T)))
        assert sorted(zip(neurons.tolist(), names, strict=True)) == expected  # a name for every neuron
        assert [*names] == sorted(names, key=names.index)  # those of a code side by side
    np.testing.assert_allclose(shown["kernels"], [phi.T @ phi / 6 for phi in (layer, sharp)])
    assert shown["titles"] == ["layer 1", "layer 2"]


def test_variance_within_classes_weighs_classes_by_their_inputs():
    task = tasks.toy(8, class_ratios=(0.5, 0.25, 0.25))
    scatter = np.zeros(8)
    scatter[task.labels == 0] = [1, -1, 1, -1]  # variance 1 in half of the inputs, 0 in the others
    layer = np.tile(0.5 + scatter, (6, 1))
    deep = runs.Deep(Posterior(task, Network(1, 6, "sigmoidal"), 0.1), None, [layer[None]], [layer[None]])
    assert deep.within()[0] == pytest.approx(np.array([[0.5]]))


def test_preactivations_are_of_the_neurons_that_have_the_code_when_they_are_seen():
    """Neuron 0 has the code in the first sample, neuron 1 in the last, whose preactivations are taken."""
    task = tasks.toy(4, class_ratios=(0.5, 0.25, 0.25))
    codes = np.zeros((1, 2, 2, 3), bool)
    codes[0, 0, 0], codes[0, 1, 1] = runs.CODES[0], runs.CODES[0]
    z = np.arange(16.0).reshape(1, 2, 2, 4)  # (networks, samples, N, P)
    half = SimpleNamespace(preactivations=[z])
    posterior = Posterior(task, Network(1, 2, "sigmoidal"), 0.1)
    networks = runs.Networks(
        posterior, None, SimpleNamespace(prior=half, planted=SimpleNamespace(preactivations=None))
    )
    networks.__dict__["codes"] = codes
    (found,) = networks.preactivations(runs.CODES[0], 0)
    assert found.tolist() == z[0, 1, 1, task.labels == 0].tolist()


def test_draws_are_moved_to_the_mean_and_variance_of_the_limit():
    draws = np.random.default_rng(0).normal(1.0, 2.0, 50_000)
    moved = runs._moved(draws, np.array([1.0, 4.0]), np.array([3.0, 0.25]))
    assert (moved.mean(), moved.std()) == (pytest.approx(3, abs=0.01), pytest.approx(0.5, rel=0.02))


def test_error_of_the_kernels_is_that_of_the_difference(monkeypatch):
    """Networks that differ as their own theories do leave no error."""
    contrasts = iter([1.0, 2.0, 4.0])

    class Layer:
        def __init__(self, contrast):
            self.kernel_block = contrast * np.eye(3)
            self.probabilities, self.codes = np.ones(1), runs.CODES[:1]

    measured = {}

    def measure(phi, labels):
        return Layer(measured.setdefault(float(phi[0, 0]), float(phi[0, 0])))

    def solve(task, depth, temperature, **held):
        contrast = next(contrasts) - 0.5
        return SimpleNamespace(converged=True, residual=0.0, layers=[Layer(contrast), Layer(contrast)])

    monkeypatch.setattr(runs.deep_sigmoidal, "measure", measure)
    monkeypatch.setattr(runs.deep_sigmoidal, "solve", solve)
    layer = np.array([np.full((2, 4), value) for value in (1.0, 2.0, 4.0)])
    task = tasks.toy(4, class_ratios=(0.5, 0.25, 0.25))
    deep = runs.Deep(Posterior(task, Network(2, 2, "sigmoidal"), 0.1), None, [layer, layer], [])
    problem = SimpleNamespace(problem=SimpleNamespace(temperature=0.1))
    found, expected, stopped = runs.held_below(deep, problem)
    assert found.value - expected == pytest.approx(0.5)
    assert found.error == pytest.approx(0)
    assert not stopped


def test_mean_numbers_are_of_one_start_or_of_both():
    """Two networks of either start at two sizes; numbers rise by two from the first sample to the last."""
    numbers = np.array([[1.0, 0], [3, 0], [7, 4], [9, 4]])[:, None] + np.array([-1.0, 0, 1])[:, None]
    each = [SimpleNamespace(numbers=factor * numbers) for factor in (1, 10)]
    both, prior, theory = (runs.mean_numbers(each, half) for half in (None, 0, 1))
    np.testing.assert_allclose(both.value, [[5, 2], [50, 20]])
    np.testing.assert_allclose(both.error[:, 0], np.array([1, 10]) * np.std([1, 3, 7, 9], ddof=1) / 2)
    np.testing.assert_allclose([prior.value[0], theory.value[0]], [[2, 0], [8, 4]])
    np.testing.assert_allclose([prior.error[0], theory.error[1]], [[1, 0], [10, 0]])


def test_preactivations_of_theory_at_finite_width_pass_the_test_and_those_of_infinite_width_do_not():
    theory, width, rng = runs.solve(24, 0.5, 0.02), 24, np.random.default_rng(3)
    networks, grid = SimpleNamespace(width=width, theory=theory), np.linspace(-6, 6, 4001)
    density = runs.preactivation_density(networks, grid)
    mean, lasting = np.trapezoid(density * grid, grid), runs.preactivation_variance(theory, np.inf)
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-3)
    assert np.trapezoid(density * (grid - mean) ** 2, grid) == pytest.approx(lasting, rel=0.01)
    limit = np.interp(rng.random(20_000), np.cumsum(density) / density.sum(), grid)
    shifted, variance = finite_width.preactivation_moments(theory, runs.CODES[0], 0, width)
    finite = shifted + (limit - mean) * np.sqrt(variance / lasting)
    assert runs.preactivation_pvalue(networks, theory, finite) > 0.01
    assert runs.preactivation_pvalue(networks, theory, limit) < 1e-4


def test_deep_networks_are_seen_last_and_half_of_them_are_cold_from_the_start(monkeypatch):
    begun = []

    def sample(posterior, key, num_samples, **options):
        begun.append(options | {"key": str(jax.random.key_data(key))})
        phi = len(begun) * 100 + np.arange(num_samples)[:, None, None] * np.ones((2, 1, 8, 8))
        return SimpleNamespace(activations=lambda layer: phi + 10 * layer)

    monkeypatch.setattr(runs, "sample", sample)
    monkeypatch.setattr(runs, "untrained", lambda keys, _: [str(jax.random.key_data(k)) for k in keys])
    monkeypatch.setattr(runs, "compare_ends", lambda *halves: None)
    deep = runs.deep_networks(jax.random.key(0), 3, 8, num_networks=4, num_warmup=9, temperature=0.05)
    assert "anneal_from" not in begun[0]
    assert begun[1]["anneal_from"] == 0.05
    assert len({begun[0]["key"], begun[1]["key"], *deep.noise}) == 2 + 4
    last = runs.NUM_SAMPLES - 1
    firsts = np.array([phi[:, 0, 0] for phi in deep.layers])
    np.testing.assert_array_equal(firsts, np.array([100, 100, 200, 200]) + last + np.array([[0], [10], [20]]))


def test_correlated_gaussian_readouts_explain_their_orthants_and_codes_of_perfect_groups_all():
    """Signs of two Gaussians of correlation ρ: ((1 + ρ)²/p + (1 − ρ)²/(½ − p))/4π, p = ¼ + arcsin ρ/2π."""
    labels, rng = np.repeat([0, 1, 2], 4), np.random.default_rng(0)
    codes = rng.random((2, 20_000, 3)) > 0.5
    codes[..., 1], codes[..., 2] = codes[..., 0] ^ (rng.random((2, 20_000)) < 0.1), codes[..., 0]
    task = SimpleNamespace(labels=labels)
    networks = SimpleNamespace(task=task, activations=codes[..., labels] * 0.8, readouts=codes * np.ones(3))
    found, gaussian = runs.readouts_cut(networks)
    assert found == pytest.approx([1, 1])
    p = 0.25 + np.arcsin(0.8) / (2 * np.pi)
    assert gaussian == pytest.approx([(1.8**2 / p + 0.2**2 / (0.5 - p)) / (4 * np.pi)] * 2, abs=0.01)


def test_numbers_of_neurons_with_each_code_wanted():
    codes = np.array([[[1, 1, 0], [1, 1, 0], [0, 0, 1]], [[0, 0, 0], [1, 1, 1], [1, 1, 0]]], bool)
    found = runs.numbers_with(codes, np.array([[1, 1, 0], [1, 1, 1], [0, 1, 0]], bool))
    assert found.tolist() == [[2, 0, 0], [1, 1, 0]]
    shared = {tuple(code) for code in runs.BELOW.tolist()}
    assert shared == {code for code in np.ndindex(2, 2, 2) if 0 < sum(code) < 3}


def test_correlation_of_two_neurons_where_it_is_known():
    """A fixed number of neurons with the code, each neuron for itself, all or none, and none ever."""
    width, mean = 10, np.array([3.0, 3.0, 3.0, 0.0])
    variance = Estimate(np.array([0, 10 * 0.3 * 0.7, 100 * 0.3 * 0.7, 0]), np.array([0.0, 0, 2.1, 0]))
    found = runs.pair_correlation(variance, mean, width)
    np.testing.assert_allclose(found.value, [-1 / 9, 0, 1, np.nan], atol=1e-12)
    np.testing.assert_allclose(found.error, [0, 0, 1 / 9, np.nan])


def test_correlation_of_two_neurons_from_numbers_that_share_a_chance():
    """A chance of the code drawn from a beta law for each network: ρ = 1/(a + b + 1), at every width."""
    rng, networks, repeats = np.random.default_rng(3), 200, 400
    for width in (8, 40):
        numbers = rng.binomial(width, rng.beta(2, 3, (networks, repeats)))
        variance, mean = numbers.var(0, ddof=1), numbers.mean(0)
        fourth, true = np.mean((numbers - 0.4 * width) ** 4), numbers.var()
        error = np.full(repeats, np.sqrt((fourth - true**2) / networks))
        found = runs.pair_correlation(Estimate(variance, error), mean, width)
        kurtosis = 3.0  # of a variance of 200 draws: a Gaussian's
        assert_calibrated(found.value, 1 / 6, found.error, 1.0, slack=0.25)
        assert abs(found.value.mean() - 1 / 6) < 4 * found.value.std() / repeats**0.5 + kurtosis / networks


def test_covariance_of_single_samples_is_that_of_networks_and_of_one_path_that_in_time():
    one, other = np.random.default_rng(2).standard_normal((2, 5, 3))
    cross = np.cov(one.T, other.T)[:3, 3:]  # with n − 1
    np.testing.assert_allclose(runs.covariance(one[:, None], other[:, None]), cross)
    paths = (np.stack([each, each]) for each in (one, other))  # two networks that move alike: n
    np.testing.assert_allclose(runs.covariance(*paths), cross * 4 / 5)


@pytest.mark.parametrize("kept", [0.0, 0.8])
def test_correlation_between_layers_where_it_is_known(kept):
    """Chances of a code in either layer that move together, in time and from network to network.

    Of a neuron's chances ½ + g/4 in the one layer and ½ − g/5 in the other, with ⟨g²⟩ = ⅓, a share `kept` of
    the variance belonging to the network for good: ρ = −(1/4)(1/5)(1/3)/(1/4).
    """
    rng, width, shape = np.random.default_rng(7), 30, (24, 12, 200)
    own, moving = rng.uniform(-1, 1, (24, 1, 200)), rng.uniform(-1, 1, shape)
    shared = np.where(rng.random((24, 1, 200)) < kept, own, moving)
    lower, upper = (rng.binomial(width, 0.5 + share * shared) for share in (0.25, -0.2))
    other = rng.binomial(width, 0.3, shape)  # a code that has nothing to do with them
    rows = [
        runs.layer_correlation(lower[..., k : k + 1], np.stack([upper[..., k], other[..., k]], -1), width)
        for k in range(shape[-1])
    ]
    values, errors = (np.array([row[part][0] for row in rows]) for part in (0, 1))
    for found, error, expected in zip(values.T, errors.T, (-1 / 15, 0.0), strict=True):
        assert abs(found.mean() - expected) < 4 * found.std() / shape[-1] ** 0.5
        assert_calibrated(found, expected, error, 23 / 21, slack=0.25)


def test_layers_are_kept_apart_and_half_of_the_networks_start_from_theory(monkeypatch):
    """One network of either start, one sample: layer 1 has the codes 1-0-0, layer 2 those of its start."""
    begun = {}
    solved = SimpleNamespace(name="theory")
    monkeypatch.setattr(runs.deep_sigmoidal, "solve", lambda task, depth, T: (solved, depth, T))
    monkeypatch.setattr(runs, "both_starts", lambda *given, **options: begun.update(given=given, **options))
    runs.two_layers(jax.random.key(0), 8, num_networks=6, num_samples=2, num_warmup=5, temperature=0.1)
    streams, posterior, theory = begun["given"]
    assert theory == (solved, 2, 0.1)
    assert (posterior.network.depth, posterior.network.width, posterior.task.num_inputs) == (2, 8, 8)
    assert (begun["num_chains"], len(streams[2]), begun["num_warmup"], begun["prior_warmup"]) == (3, 3, 5, 10)
    assert len({str(jax.random.key_data(k)) for k in (*streams[:2], *streams[2])}) == 5
    layers = [np.tile(np.array([1, 0, 0], bool), (1, 1, 4, 1))] * 2
    layers += [np.tile(np.array(code, bool), (1, 1, 4, 1)) for code in runs.CODES[[0, 3]]]
    halves = [SimpleNamespace(codes=lambda k, s=start: layers[2 * k + s]) for start in (0, 1)]
    lower, upper = runs.numbers_by_layer(SimpleNamespace(halves=halves))
    assert lower.tolist() == [[[4, 0, 0, 0, 0, 0]]] * 2
    assert upper.tolist() == [[[4, 0, 0, 0]], [[0, 0, 0, 4]]]
