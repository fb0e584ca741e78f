"""Planted schemes, noise-free descent and the atlas."""

import jax
import numpy as np
import pytest
from coding_schemes import coding, networks, posterior, schemes, tasks
from coding_schemes.theory import sigmoidal
from experiments import atlas


def _posterior(size=40, depth=1, **options):
    task = tasks.toy(size, (0.5, 0.25, 0.25), y_minus=0.2)
    return posterior.Posterior(task, networks.Network(depth, size, "sigmoidal"), 0.01, **options)


def test_planted_networks_have_the_scheme_they_were_planted_with():
    given = _posterior(200)
    solution = sigmoidal.solve(given.task, 0.01)
    weights = schemes.planted(given, solution, seed=0)
    activations = np.asarray(given.network.phi(weights.first))
    used = coding.occupancy(coding.codes(activations, given.task.labels))
    assert all(abs(used.fraction(c) - solution.occupancy(c)) < 0.02 for c in solution.codes)
    outputs = np.asarray(given.outputs(weights))
    fluctuation = np.abs(outputs - given.task.targets + solution.training_residual[given.task.labels])
    assert fluctuation.mean() < 0.1  # of order |a| sd(φ)/√N = 0.04, from drawing neurons independently


def test_planting_needs_one_hidden_layer():
    given = _posterior(8, depth=2)
    solution = sigmoidal.solve(given.task, 0.01)
    with pytest.raises(ValueError, match="posterior: needs"):
        schemes.planted(given, solution, seed=0)


def test_descent_reaches_a_stationary_point_of_the_energy():
    given = _posterior(12, readout_variance=1.0)
    weights, error = schemes.descend(given, jax.random.key(0), num_steps=8_000, repeats=2)
    slope = jax.vmap(jax.grad(given.energy))(weights)
    start = jax.grad(given.energy)(given.prior(jax.random.key(1)))
    assert np.abs(slope.readout).max() < 1e-3 * np.abs(start.readout).max()
    assert error.shape == (2,)
    assert error.max() < 0.1
    with pytest.raises(FloatingPointError, match="diverged"):
        schemes.descend(given, jax.random.key(0), num_steps=200, learning_rate=1e4)


def test_the_atlas_holds_solutions():
    leaf = atlas.compute(20, np.array([0.3]), np.array([0.01, 1.0]))
    assert 0.01 < leaf["critical_temperatures"][0] < 1.0
    assert np.allclose(leaf["occupancies"].sum(-1), 1, atol=1e-4)
    assert leaf["occupancies"][0, 0].max() < 0.5 < leaf["occupancies"][0, 1].max()
    step = leaf["readouts"][1] - leaf["readouts"][0]
    assert np.allclose(leaf["densities"].sum(-1) * step, 1, atol=0.02)
