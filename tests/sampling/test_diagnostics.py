"""Convergence verdicts and the two-ended check."""

import dataclasses
import warnings

import jax
import numpy as np
import pytest
from coding_schemes import networks, posterior, sampling, statistics, tasks
from coding_schemes.sampling import diagnostics, results
from companion import figures


def made_up(energy, acceptance=0.8, squared_error=None, **stored):
    """Samples with given energies (chains, samples) and nothing else stored unless given."""
    ones = np.ones_like(energy)
    squared_error = energy**2 if squared_error is None else squared_error
    acceptance = acceptance * ones if np.ndim(acceptance) == 0 else acceptance
    info = sampling.SampleInfo(acceptance, energy, squared_error, 0.1 * ones, 0 * ones, ones, {})
    empty = sampling.Samples(*[None] * 7, info, None, None, 0.1, {})
    return dataclasses.replace(empty, **stored)


@pytest.fixture(scope="module")
def given():
    return posterior.Posterior(tasks.toy(4, (0.5, 0.5)), networks.Network(1, 6, "sigmoidal"), 0.5)


def test_white_noise_passes_and_drift_fails(given):
    noise = np.random.default_rng(0).standard_normal((4, 200)) + 10
    assert sampling.convergence(made_up(noise), given).converged
    apart = sampling.convergence(made_up(noise + np.arange(4)[:, None]), given)
    assert not apart.converged
    assert "not shown" in apart.verdict
    figure = figures.sampler_traces(**apart.arrays())
    assert [axis.get_ylabel() for axis in figure.axes] == ["energy", "squared error"]
    assert sum(len(line.get_xdata()) > 0 for line in figure.axes[0].lines) == 4  # one empty, for the legend
    assert "not shown" in figure.get_suptitle()
    drift = sampling.convergence(made_up(noise + np.linspace(0, 5, 200)), given)
    assert not drift.converged


@pytest.mark.parametrize(("samples", "thinning", "warned"), [(1, 4, False), (1, 5, True), (3, 2, True)])
def test_a_run_warns_of_chains_that_stand_still_where_it_is_long_enough_to_tell(samples, thinning, warned):
    info = made_up(np.ones((2, samples)), np.array([[0.8], [0.09]]) * np.ones(samples)).info
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results.warn_of_trouble(info, thinning)
    said = ["sampling: frozen chains [1] (acceptance below 0.1), step size 0.1"] if warned else []
    assert [str(each.message) for each in caught] == said


def test_frozen_chains_fail(given):
    noise = np.random.default_rng(0).standard_normal((4, 200)) + 10
    frozen = sampling.convergence(made_up(noise, acceptance=0.01), given)
    assert not frozen.converged
    assert "frozen chains: [0, 1, 2, 3]" in frozen.verdict
    assert repr(frozen) == f"<{frozen.verdict}>"
    stuck = sampling.convergence(made_up(np.repeat(noise[:, :1], 200, axis=1)), given)
    assert not stuck.converged
    assert max(stuck.rhat.values()) == np.inf
    assert "R-hat infinite (" in stuck.verdict


def autoregressive(decay, num_samples, seed, num_chains=4):
    """Stationary AR(1) series of unit variance around 10, shape (chains, samples)."""
    noise = np.random.default_rng(seed).standard_normal((num_chains, num_samples))
    for t in range(1, num_samples):
        noise[:, t] = decay * noise[:, t - 1] + (1 - decay**2) ** 0.5 * noise[:, t]
    return noise + 10


def test_too_few_independent_samples_are_not_convergence(given):
    """R-hat is in order, but a mean over these samples is known only to a fifth of a standard deviation."""
    slow = sampling.convergence(made_up(autoregressive(0.95, 500, seed=5)), given)
    assert max(slow.rhat.values()) < diagnostics.MAX_RHAT
    assert 10 < min(slow.ess.values()) < diagnostics.MIN_ESS
    assert not slow.converged
    assert sampling.convergence(made_up(autoregressive(0.95, 500, seed=5)), given, min_ess=10).converged


def test_two_ends_are_compared_in_standard_errors_of_correlated_chains(given):
    """AR(1) of decay 0.9: errors are √19 times those of independent draws, which would make it 22."""
    first, second = (autoregressive(0.9, 1000, seed=seed) for seed in (2, 3))
    first, second = (10 + x - x.mean(axis=1, keepdims=True) for x in (first, second))  # no scatter of chains
    z = sampling.compare_ends(made_up(first), made_up(second + 0.5), given).z_score["energy"]
    exact = 0.5 / (2 * 19 / 4000) ** 0.5
    assert 0.5 * exact < z < 1.3 * exact


def test_two_ends_are_compared_by_the_scatter_of_their_chains(given):
    """Two chains of each end that disagree: the standard error is that of two draws, not of ESS draws."""
    noise = 0.1 * np.random.default_rng(4).standard_normal((2, 200))
    apart = noise + np.array([[10.0], [14.0]])
    z = sampling.compare_ends(made_up(apart), made_up(apart[:, ::-1] + 3.0), given).z_score["energy"]
    assert z == pytest.approx(3 / np.hypot(2, 2), rel=0.05)


def test_a_small_difference_counts_as_agreement_however_sure_it_is(given):
    noise = 10 + 0.01 * np.random.default_rng(5).standard_normal((4, 200))
    shifted = sampling.compare_ends(made_up(noise), made_up(noise[::-1] + 0.1), given, tolerance=0.05)
    assert shifted.z_score["energy"] > 50
    assert shifted.agree
    assert not sampling.compare_ends(made_up(noise), made_up(noise[::-1] + 0.1), given, tolerance=0.005).agree


def test_chains_that_never_moved_from_one_place_are_told(given):
    stuck = sampling.convergence(made_up(np.full((2, 20), 3.0), acceptance=0.0), given)
    assert not stuck.converged
    assert stuck.verdict == "equilibrium not shown: nothing that is recorded has moved"


def test_too_few_samples_are_refused(given):
    with pytest.raises(ValueError, match="at least 4"):
        sampling.convergence(made_up(np.ones((2, 3))), given)
    with pytest.raises(ValueError, match="got 1 chain"):
        sampling.convergence(made_up(NOISE[:1]), given)


def test_runs_from_two_ends_are_compared(given):
    noise = np.random.default_rng(0).standard_normal((4, 200)) + 10
    assert sampling.compare_ends(made_up(noise), made_up(noise[::-1]), given).agree
    shifted = sampling.compare_ends(made_up(noise), made_up(noise + 1), given)
    assert not shifted.agree
    assert shifted.difference["energy"] == pytest.approx(1 / 11, rel=0.02)
    assert repr(shifted) == f"<{shifted.verdict}>"


STILL = np.full((4, 200), 10.0)
NOISE = np.random.default_rng(1).standard_normal((4, 200))
NOISE -= NOISE.mean(axis=1, keepdims=True)  # no scatter between chains


@pytest.mark.parametrize(("gap", "agree"), [(0.0199, True), (0.0202, False)])
def test_two_ends_may_differ_by_two_per_cent_of_the_larger(given, gap, agree):
    """However small the errors, and whatever the sign: energies of both signs and of either end."""
    for sign in (1.0, -1.0):
        pair = [made_up(sign * f * STILL, squared_error=STILL) for f in (1.0, 1 - gap)]
        for first, second in (pair, pair[::-1]):
            found = sampling.compare_ends(first, second, given)
            assert found.agree == agree
            assert found.difference["energy"] == pytest.approx(gap)
            assert found.z_score["energy"] == np.inf
            assert ("differ in energy:" in found.verdict) != agree
    other = [made_up(STILL, squared_error=f * STILL) for f in (1.0, 1 - gap)]
    assert sampling.compare_ends(*other, given).agree == agree


@pytest.mark.parametrize(("number", "agree"), [(3.9, True), (4.1, False)])
def test_two_ends_may_differ_by_four_standard_errors(given, number, agree):
    """Of both runs together: in all else the same, by a tenth of the mean."""
    error = np.hypot(*2 * [statistics.mean_and_error(NOISE)[1]])
    first = made_up(number * error * 10 + NOISE, squared_error=STILL)
    found = sampling.compare_ends(first, made_up(number * error * 9 + NOISE, squared_error=STILL), given)
    assert found.z_score["energy"] == pytest.approx(number)
    assert found.difference["energy"] > 0.02
    assert found.agree == agree
    assert sampling.compare_ends(first, first, given, tolerance=0.0, max_z=1e-9).agree


def with_codes(present, num_neurons=50):
    """A run in which so many neurons have the code 1-0, some 0-1, and the others 0-0, for good."""
    z = np.full((2, 20, num_neurons, 4), -3.0)
    z[..., :present, :2] = 3.0
    z[..., present : present + 10, 2:] = 3.0
    labels, network = np.array([0, 0, 1, 1]), networks.Network(1, num_neurons, "sigmoidal")
    return made_up(np.full((2, 20), 10.0), preactivations=(z,), labels=labels, network=network)


def test_a_code_that_one_start_alone_has_counts(given):
    """Its occupancy is zero at the other start; what is allowed is a fraction of all neurons."""
    with_, without = with_codes(5), with_codes(0)
    for pair in ((with_, without), (without, with_)):
        found = sampling.compare_ends(*pair, given)
        assert found.difference["occupancy of 1-0"] == pytest.approx(0.1)
        assert not found.agree
        assert "differ in occupancy of 0-0, occupancy of 1-0:" in found.verdict
        arrays = found.arrays(("occupancy of 1-0",))
        assert {float(arrays["prior"].mean()), float(arrays["planted"].mean())} == {0.1, 0.0}
    few = sampling.compare_ends(with_codes(1, 100), with_codes(0, 100), given)
    assert few.difference["occupancy of 1-0"] == pytest.approx(0.01)
    assert few.agree
    series = diagnostics.observables(with_, given)
    assert {name: float(x[0, 0]) for name, x in series.items() if "occupancy" in name} == {
        "occupancy of 0-0": 0.7, "occupancy of 0-1": 0.2, "occupancy of 1-0": 0.1,
    }  # fmt: skip


def test_readouts_are_watched_output_by_output(given):
    readouts = np.where(np.arange(50) % 2, 1.0, -1.0)[:, None] * np.tile([1.0, 2.0, 3.0], (2, 20, 50, 1))
    series = diagnostics.observables(made_up(np.ones((2, 20)), readouts=readouts), given)
    assert [float(series[f"readouts² of output {r}"][1, 2]) for r in range(3)] == [1, 4, 9]
    moved = made_up(np.ones((2, 20)), readouts=readouts * [1.0, 1.0, 1.02])
    found = sampling.compare_ends(made_up(np.ones((2, 20)), readouts=readouts), moved, given)
    assert not found.agree
    assert found.difference["readouts² of output 2"] == pytest.approx(1 - 1 / 1.02**2)
    assert found.arrays()["names"][0] == "readouts² of output 2"  # shown first: what differs most


@pytest.mark.parametrize(("phi", "watched"), [("relu", True), ("softplus", True), ("linear", False)])
def test_outliers_are_counted_where_phi_has_no_bound(phi, watched):
    """Neurons that answer to one class or to both; none are looked for in linear networks."""
    network, labels = networks.Network(1, 50, phi), np.array([0, 0, 1, 1])
    z = np.full((2, 20, 50, 4), 0.1)
    z[0, 3, 0, :2] = z[0, 3, 1] = z[1, 5:, 2, 2:] = 20.0
    run = made_up(np.ones((2, 20)), preactivations=(z,), labels=labels, network=network)
    series = diagnostics.observables(run, posterior.Posterior(tasks.toy(4, (0.5, 0.5)), network, 0.5))
    assert set(series) == {"energy", "squared error"} | ({"num_outliers"} if watched else set())
    expected = np.zeros((2, 20))
    expected[0, 3], expected[1, 5:] = 2, 1
    np.testing.assert_array_equal(series.get("num_outliers", expected), expected)


def test_verdicts_at_their_boundaries(given):
    """R-hat and ESS that just pass and just do not; one frozen chain among four; a single chain."""
    series = {"x": autoregressive(0.5, 400, seed=7), "y": autoregressive(0.0, 400, seed=8)}
    active = np.full(4, 0.8)
    found = diagnostics.judge(series, active)
    assert found.converged
    largest, fewest = max(found.rhat.values()), min(found.ess.values())
    assert diagnostics.judge(series, active, max_rhat=largest, min_ess=fewest).converged
    assert not diagnostics.judge(series, active, max_rhat=largest - 1e-9, min_ess=fewest).converged
    assert not diagnostics.judge(series, active, max_rhat=largest, min_ess=fewest + 1e-9).converged
    for acceptance, frozen in ((0.0999, True), (0.1, False)):
        one = diagnostics.judge(series, np.where(np.arange(4) == 2, acceptance, 0.8))
        assert one.converged != frozen
        assert ("frozen chains: [2]" in one.verdict) == frozen
    assert (diagnostics.MAX_RHAT, diagnostics.MIN_ESS) == (1.05, 100)
    for divergences in (0, 7):
        assert f"{divergences} divergences" in diagnostics.judge(series, active, divergences).verdict
    spoilt = series | {"x": series["x"] + np.array([0, 0, 0, 1.0])[:, None]}
    assert not diagnostics.judge(spoilt, active).converged
    assert "(x)" in diagnostics.judge(spoilt, active).verdict
    assert diagnostics.judge(spoilt, active).arrays()["names"].tolist() == ["x", "y"]  # by R-hat


def test_runs_from_two_ends_draw_numbers_of_their_own(given):
    """Their errors add up only so. At T → ∞ the noise of a step is known, ξ = [w' − (1 − ε²/2) w]/ε."""
    free, step = given.at_temperature(1e8), 0.4
    plain = {"method": sampling.PlainLangevin(step, num_steps=1), "num_warmup": 0, "store": ("readouts",)}
    ends = sampling.two_ended(
        free, jax.random.key(0), free.prior(jax.random.key(7)), num_samples=60, num_chains=3, **plain
    )
    a = np.stack([end.readouts for end in (ends.prior, ends.planted)]) / float(free.readout_std)
    noise = (a[:, :, 1:] - (1 - step**2 / 2) * a[:, :, :-1]) / step
    streams = noise.reshape(6, -1)  # of two ends, three chains each
    products = streams @ streams.T / streams.shape[1]
    np.testing.assert_allclose(products, np.eye(6), atol=4.5 * (2 / streams.shape[1]) ** 0.5)


@pytest.mark.slow
@pytest.mark.key_reuse
@pytest.mark.rank_promotion
def test_two_ends_meet_in_equilibrium_only(given):
    planted = given.prior(jax.random.key(7))
    planted = planted._replace(first=planted.first + 4.0, readout=planted.readout + 4.0)
    arguments = {"num_chains": 4, "num_samples": 40, "num_warmup": 60, "thinning": 10, "progress": False}
    arguments["moves"] = ()
    meet = sampling.two_ended(given, jax.random.key(0), planted, **arguments)
    assert meet.agree, meet.verdict
    assert "occupancy of 0-0" in meet.z_score or "occupancy of 1-0" in meet.z_score
    arguments |= {"num_warmup": 0, "thinning": 1, "method": sampling.HMC(max_num_steps=2, step_size=0.005)}
    apart = sampling.two_ended(given, jax.random.key(0), planted, **arguments)
    assert not apart.agree
    assert "differ" in apart.verdict
    figure = figures.sampler_traces(**apart.arrays(("energy", "squared error", "occupancy of 0-0")))
    assert len(figure.axes) == 3
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), apart.prior.info.energy[0])
    assert "differ" in figure.get_suptitle()
