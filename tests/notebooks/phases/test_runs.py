"""Shares, extrapolations and frozen schemes of the phase diagram."""

import jax
import numpy as np
import pytest
from experiments import phases


def test_a_line_and_a_parabola_end_where_they_should():
    temperatures = np.array([0.02, 0.03, 0.04, 0.05])
    straight = phases.zero(temperatures, np.outer(0.08 - temperatures, [1.0, 1.0]))
    assert np.allclose(straight.temperature, 0.08)
    assert straight.error < 1e-9
    bent = phases.zero(temperatures, ((0.08 - temperatures) ** 2)[:, None] * [[0.9, 1.1]])
    assert 0.05 < bent.temperature < 0.08
    assert bent.extrapolation_error > 0.005
    scatter = np.zeros((4, 2))
    scatter[0] = 0.001, -0.001
    noisy = phases.zero(temperatures, (0.08 - temperatures)[:, None] + scatter)
    assert noisy.network_error > 0


def test_schemes_are_named_by_the_codes_that_hold_enough_neurons():
    rows = np.zeros((2, 8))
    rows[0, :3], rows[1, 0], rows[1, 3] = (0.4, 0.592, 0.008), 0.9, 0.1
    assert phases.schemes(rows) == [phases.NAMES[:2], (phases.NAMES[0], phases.NAMES[3])]
    assert np.allclose(phases.effective_number(np.full((1, 8), 0.125)), 8)


def test_shares_of_peaks_and_of_neurons_agree_far_from_the_critical_temperature():
    solution = phases.solve(60, 0.25, 0.01)
    assert np.allclose(phases.peak_shares(solution, 1.0), phases.shares(solution), atol=0.01)
    assert phases.ambiguity(solution) < 0.01


def test_the_variance_of_the_readouts_falls_with_temperature():
    cold, warm, hot = (phases.predicted_variance(20, 0.5, t) for t in (0.01, 0.04, 0.5))
    assert cold > warm > 5 * hot
    assert hot == pytest.approx(3 / 20, rel=0.15)  # the prior's: three outputs of variance 1/P


def test_networks_quenched_at_once_hold_codes_of_one_class_until_they_may_change_them():
    ends = phases.equilibrate(jax.random.key(0), 40, 0.1, 0.01, 4, (80, 60, 4), at_once=phases.COLD)
    assert phases.place(ends.quenched) == (0.1, phases.COLD)
    assert phases.place(ends.run) == (0.1, 0.01)
    alone = phases.CODES.sum(axis=1) == 1
    assert phases.mean_shares(ends.quenched)[alone].sum() > 0.25
    assert phases.mean_shares(ends.run)[alone].sum() < 0.1
    by_name = dict(zip(phases.NAMES, phases.mean_shares(ends.quenched), strict=True))
    assert min(by_name[name] for name in ("1-0-0", "0-1-0", "0-0-1")) > phases.PRESENT
