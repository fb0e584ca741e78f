"""What findings are made of: two starts, runs over sizes."""

import jax
import numpy as np
import pytest
from coding_schemes import tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from companion import workbench

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


def test_untrained_networks_of_a_linear_layer_have_the_inputs_kernel():
    posterior = Posterior(tasks.toy(12), Network(2, 400, "linear"), 0.1)
    first, second = workbench.untrained(jax.random.split(jax.random.key(0), 3), posterior)
    assert first.shape == second.shape == (3, 400, 12)
    np.testing.assert_allclose(first[0].T @ first[0] / 400, np.eye(12), atol=0.3)


def test_runs_over_sizes_have_a_task_each_and_are_measured_together():
    drawn = workbench.over_sizes(jax.random.key(0), (6, 8, 12), tasks.toy, LINEAR, 0.1, **FEW)
    alone = workbench.draw(
        jax.random.fold_in(jax.random.key(0), 1), tasks.toy(8), Network(1, 8, "linear"), 0.1, **FEW
    )
    np.testing.assert_array_equal(drawn[1].readouts, alone.readouts)
    scan = workbench.measured(drawn, lambda run: np.full((2, 4), run.task.num_inputs**2.0))
    assert scan.sizes.tolist() == [6, 8, 12]
    assert scan.laws[0].exponent == pytest.approx(2)
    assert workbench.power_laws(scan.sizes, scan.mean.T, scan.error.T)["prefactors"] == pytest.approx([1])
