"""What findings are made of: two starts, runs over sizes."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import planting, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.theory import adaptive_kernel, dmft
from companion import findings, workbench
from test_calibration import assert_calibrated

FEW = {"num_chains": 2, "num_samples": 4, "num_warmup": 4}
LINEAR = Network(1, 12, "linear")


def test_both_starts_are_sampled_from_streams_of_their_own():
    task = tasks.toy(12)
    posterior, solution = Posterior(task, LINEAR, 0.1), theory.solve(task, LINEAR, 0.1)
    one, other, *plants = jax.random.split(jax.random.key(0), 4)
    streams = one, other, jax.numpy.stack(plants)
    found = workbench.both_starts(streams, posterior, solution, prior_warmup=6, **FEW)
    first, second = found.halves
    assert [half.warmup_info.energy.shape for half in found.halves] == [(2, 6), (2, 4)]
    assert first.readouts.shape == second.readouts.shape == (2, 4, 12, 3)
    assert found.width == found.task.num_inputs == 12
    assert found.equilibrium.agree == found.meeting.agree  # four networks are too few to judge starts apart


@pytest.mark.parametrize(("networks", "state"), [(7, "not shown"), (8, "each")])
def test_networks_of_both_starts_are_enough_to_be_judged_apart(networks, state):
    """Whether they are from one start or the other."""
    halves = [SimpleNamespace(info=SimpleNamespace(energy=np.zeros((n, 3)))) for n in (networks - 4, 4)]
    meeting = SimpleNamespace(prior=halves[0], planted=halves[1], agree=False, verdict="they differ")
    assert workbench.Starts(None, None, meeting).equilibrium.state == state


def test_each_start_has_its_own_key():
    """Halves that shared random numbers would agree by themselves."""
    task = tasks.toy(12)
    posterior, solution = Posterior(task, LINEAR, 0.1), theory.solve(task, LINEAR, 0.1)
    one, other, *plants = jax.random.split(jax.random.key(0), 4)
    streams = one, other, jax.numpy.stack(plants)
    found = workbench.both_starts(streams, posterior, solution, **FEW)
    from_prior = sample(posterior, one, **FEW)
    start = planting.planted(streams[2], solution, posterior)
    from_theory = sample(posterior, other, init=start, **FEW)
    for half, alone in zip(found.halves, (from_prior, from_theory), strict=True):
        np.testing.assert_array_equal(half.readouts, alone.readouts)


def test_untrained_networks_of_a_linear_layer_have_the_inputs_kernel():
    posterior = Posterior(tasks.toy(12), Network(2, 400, "linear"), 0.1)
    first, second = workbench.untrained(jax.random.split(jax.random.key(0), 3), posterior)
    assert first.shape == second.shape == (3, 400, 12)
    np.testing.assert_allclose(first[0].T @ first[0] / 400, np.eye(12), atol=0.3)


def test_gram_matrices_of_readouts_are_means_over_neurons():
    readouts = np.random.default_rng(0).standard_normal((2, 3, 7, 2))
    found = workbench.Run(None, SimpleNamespace(readouts=readouts), None).readout_gram
    expected = [
        [a[:, r] @ a[:, s] / 7 for r, s in ((0, 0), (0, 1), (1, 1))] for a in readouts.reshape(-1, 7, 2)
    ]
    np.testing.assert_allclose(found.reshape(-1, 3), expected)


@pytest.mark.parametrize("name", ["task", "readouts", "preactivations"])
def test_what_a_run_does_not_hold_is_asked_for_by_its_name(name):
    posterior, samples = SimpleNamespace(task=None), SimpleNamespace(readouts=None, preactivations=None)
    with pytest.raises(ValueError, match=f"^{name}: the run does not hold it; ask for it by `store`$"):
        getattr(workbench.Run(posterior, samples, None), name)


def test_sizes_differ_however_small_the_largest():
    assert workbench.sizes_over(200, (0.25, 0.5, 1.0)) == [50, 100, 200]
    small = workbench.sizes_over(6, (0.4, 0.55, 0.75, 1.0))
    assert len(set(small)) == 4
    assert min(small) >= 8


def test_runs_over_sizes_have_a_task_each_and_are_measured_together():
    drawn = workbench.over_sizes(jax.random.key(0), (6, 8, 12), tasks.toy, LINEAR, 0.1, **FEW)
    alone = workbench.draw(
        jax.random.fold_in(jax.random.key(0), 1), tasks.toy(8), Network(1, 8, "linear"), 0.1, **FEW
    )
    np.testing.assert_array_equal(drawn[1].readouts, alone.readouts)
    scan = workbench.measured(drawn, lambda run: np.full((2, 4), run.task.num_inputs**2.0))
    assert scan.sizes.tolist() == [6, 8, 12]
    assert scan.mean[:, 0].tolist() == [36, 64, 144]


@pytest.mark.parametrize(("met", "networks", "agree"), [(True, 2, True), (False, 7, False), (False, 8, True)])
def test_networks_enough_to_check_each_end_by_itself(met, networks, agree):
    found = workbench.Equilibrium.of(met, networks, "as seen", 0.3)
    assert (found.agree, found.apart) == (agree, 0.3)
    assert "as seen" in found.verdict
    assert found.state == ("met" if met else "each" if agree else "not shown")


def test_mean_of_networks_from_their_spread():
    rng = np.random.default_rng(0)
    mean, error = findings.spread(2 + rng.standard_normal((9, 2000)))
    assert_calibrated(mean, 2, error, 8 / 6)
    np.testing.assert_allclose(np.mean(error**2), 1 / 9, rtol=0.05)
    rows = np.outer([1.0, 2.0], [1.0, 2.0, 6.0])
    np.testing.assert_allclose(findings.spread(rows, axis=1).value, [3, 6])
    assert findings.spread(np.array([[1.0, 5.0], [3.0, 5.0]])).error.tolist() == [1.0, 0.0]


def test_what_has_not_converged_is_not_shown(monkeypatch):
    task = tasks.toy(6, (0.5, 0.5), targets=[[1.0], [-1.0]])
    options = {"method": "population", "num_neurons": 256, "num_rounds": 4}
    arguments = (adaptive_kernel.solve, task, Network(1, 1, "erf"), 1.0, 0.1)
    assert workbench.solved(*arguments, **options).converged
    monkeypatch.setattr(adaptive_kernel, "MAX_DISAGREEMENT", 1e-6)
    with pytest.raises(FloatingPointError, match="not solved: adaptive kernel .* populations differ"):
        workbench.solved(*arguments, **options)
    with pytest.raises(FloatingPointError, match="not solved: fixed_point"):
        workbench.solved(dmft.fixed_point, task, "relu", 1.0, 0.1, num_neurons=8, max_steps=3)
    path = dmft.population(task, "relu", 1.0, 0.1, duration=1.0, num_neurons=8)
    with pytest.raises(FloatingPointError, match="not solved: aNTK"):
        workbench.solved(dmft.antk, path)
