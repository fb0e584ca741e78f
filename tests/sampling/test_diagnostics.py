"""Convergence verdicts and the two-ended check."""

import jax
import numpy as np
import pytest
from coding_schemes import networks, posterior, sampling, tasks
from companion import figures


def made_up(energy, acceptance=0.8):
    """Samples with given energies (chains, samples) and nothing else stored."""
    ones = np.ones_like(energy)
    info = sampling.SampleInfo(acceptance * ones, energy, energy**2, 0.1 * ones, 0 * ones, ones, {})
    return sampling.Samples(*[None] * 7, info, None, None, 0.1, {})


@pytest.fixture(scope="module")
def given():
    return posterior.Posterior(tasks.toy(4, (0.5, 0.5)), networks.Network(1, 6, "sigmoidal"), 0.5)


def test_white_noise_passes_and_drift_fails(given):
    noise = np.random.default_rng(0).standard_normal((4, 200)) + 10
    assert sampling.convergence(made_up(noise), given).converged
    apart = sampling.convergence(made_up(noise + np.arange(4)[:, None]), given)
    assert not apart.converged
    assert "not shown" in apart.verdict
    figure = figures.plot_convergence(**apart.arrays())
    assert [axis.get_ylabel() for axis in figure.axes] == ["energy", "squared error"]
    assert len(figure.axes[0].lines) == 4
    assert "not shown" in figure.get_suptitle()
    drift = sampling.convergence(made_up(noise + np.linspace(0, 5, 200)), given)
    assert not drift.converged


def test_frozen_chains_fail(given):
    noise = np.random.default_rng(0).standard_normal((4, 200)) + 10
    frozen = sampling.convergence(made_up(noise, acceptance=0.01), given)
    assert not frozen.converged
    assert "frozen chains: [0, 1, 2, 3]" in frozen.verdict
    stuck = sampling.convergence(made_up(np.repeat(noise[:, :1], 200, axis=1)), given)
    assert not stuck.converged
    assert max(stuck.rhat.values()) == np.inf


def test_too_few_samples_are_refused(given):
    with pytest.raises(ValueError, match="at least 4"):
        sampling.convergence(made_up(np.ones((2, 3))), given)


def test_runs_from_two_ends_are_compared(given):
    noise = np.random.default_rng(0).standard_normal((4, 200)) + 10
    assert sampling.compare_ends(made_up(noise), made_up(noise[::-1]), given).agree
    shifted = sampling.compare_ends(made_up(noise), made_up(noise + 1), given)
    assert not shifted.agree
    assert shifted.difference["energy"] == pytest.approx(1 / 11, rel=0.02)


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
    assert "occupancy_0-0" in meet.z_score or "occupancy_1-0" in meet.z_score
    arguments |= {"num_warmup": 0, "thinning": 1, "method": sampling.HMC(max_num_steps=2, step_size=0.005)}
    apart = sampling.two_ended(given, jax.random.key(0), planted, **arguments)
    assert not apart.agree
    assert "differ" in apart.verdict
    figure = figures.plot_two_ended(**apart.arrays(("energy", "squared_error", "occupancy_0-0")))
    assert len(figure.axes) == 3
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), apart.prior.info.energy[0])
    assert "differ" in figure.get_suptitle()
