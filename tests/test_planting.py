"""Networks planted in a theory's solution have its scheme and fit the task."""

import jax
import numpy as np
import pytest
from coding_schemes import coding, networks, planting, posterior, tasks, theory
from coding_schemes.theory import (
    _drawn,
    clustered,
    condensation,
    deep_sigmoidal,
    linear,
    mean_field,
    relu,
    sigmoidal,
)

KEY = jax.random.key(0)


def _posterior(size=40, depth=1, nonlinearity="sigmoidal", width=None, **options):
    options = {"y_minus": 0.2, "class_ratios": (0.5, 0.25, 0.25)} | options
    task = tasks.toy(size, **options)
    return posterior.Posterior(task, networks.Network(depth, width or size, nonlinearity), 0.01)


def _used(given, weights):
    activations = np.asarray(given.network.phi(given.preactivations(weights)[-1]))
    return coding.occupancy(coding.codes(activations, given.task.labels))


def test_neurons_are_dealt_in_proportion_to_the_probabilities():
    """Numbers of neurons are met exactly where they are whole, and to one where not; some kinds have none."""
    rng = np.random.default_rng(0)
    for numbers in ([2, 2], [4, 2, 2], [0, 3, 0, 5], *rng.integers(0, 9, (20, 5))):
        dealt = _drawn.dealt(np.array(numbers) / np.sum(numbers), np.sum(numbers))
        np.testing.assert_array_equal(dealt, np.repeat(np.arange(len(numbers)), numbers))
        share = 0.7 * np.array(numbers)
        found = np.bincount(_drawn.dealt(share, 101), minlength=len(numbers))
        assert found.sum() == 101
        assert np.abs(found - 101 * share / share.sum()).max() <= 1 + 1e-9


def test_redundant_schemes_have_their_codes_and_outputs():
    given = _posterior(200)
    solution = sigmoidal.solve(given.task, 0.01)
    weights = planting.planted(KEY, solution, given)
    used = _used(given, weights)
    assert all(abs(used.fraction(c) - solution.occupancy(c)) < 0.02 for c in solution.codes)
    outputs = np.asarray(given.outputs(weights))
    fluctuation = np.abs(outputs - given.task.targets + solution.training_residual[given.task.labels])
    assert fluctuation.mean() < 0.1  # of order |a| sd(φ)/√N = 0.04, from drawing neurons independently
    keys = jax.random.split(KEY)
    several = planting.planted(keys, solution, given)
    assert not np.allclose(*several.first)
    for one, key in zip(several.first, keys, strict=True):
        np.testing.assert_array_equal(one, planting.planted(key, solution, given).first)
    others = [planting.planted(jax.random.key(seed), solution, given).first for seed in (0, 1)]
    assert not np.allclose(*others)


def test_four_classes_and_a_nonlinearity_of_ones_own():
    """The task of the page "Rerun it yourself": what `solve` accepts, planting does."""
    options = {"class_ratios": (0.4, 0.3, 0.2, 0.1), "y_minus": 0.25}
    given = _posterior(120, 1, lambda z: jax.nn.sigmoid(3 * z), 400, **options)
    solution = sigmoidal.solve(given.task, 0.01, nonlinearity=given.network.nonlinearity)
    weights = planting.planted(KEY, solution, given)
    outputs = np.asarray(given.outputs(weights))
    wanted = given.task.targets - solution.training_residual[given.task.labels]
    assert np.abs(outputs - wanted).mean() < 0.1
    used = _used(given, weights)
    assert all(abs(used.fraction(c) - solution.occupancy(c)) < 0.03 for c in solution.codes[:6])


def test_deep_schemes_have_the_kernels_of_every_layer():
    given = _posterior(60, 2, width=600, class_ratios=(0.5, 0.5), y_minus=0.0)
    solution = deep_sigmoidal.solve(given.task, 2, 0.01)
    weights = planting.planted(KEY, solution, given)
    for layer, z in zip(solution.layers, given.preactivations(weights), strict=True):
        found = deep_sigmoidal.measure(given.network.phi(z), given.task.labels)
        np.testing.assert_allclose(found.kernel_block, layer.kernel_block, atol=0.03)
        np.testing.assert_allclose(found.kernel_diagonal, layer.kernel_diagonal, atol=0.2 * 0.05)
        np.testing.assert_allclose(found.probabilities, layer.probabilities, atol=0.08)
    outputs = np.asarray(given.outputs(weights))
    assert np.abs(outputs - given.task.targets).mean() < 0.15


@pytest.mark.parametrize("depth", [1, 2])
def test_linear_networks_have_the_kernels_of_theory(depth):
    given = _posterior(20, depth, "linear", 2000, y_minus=-0.5)
    solution = linear.solve(given.task, depth, 0.01)
    weights = planting.planted(KEY, solution, given)
    readouts = np.asarray(given.readouts(weights))
    np.testing.assert_allclose(readouts.T @ readouts / 2000, solution.readout_covariance, atol=0.1)
    for z, kernel in zip(given.preactivations(weights), solution.kernels[1:], strict=True):
        np.testing.assert_allclose(z.T @ z / 2000, kernel, atol=0.2)
    outputs = np.asarray(given.outputs(weights))
    np.testing.assert_allclose(outputs, solution.predict(given.task.inputs), atol=0.25)


def test_sparse_networks_have_their_outliers():
    given = _posterior(60, 1, "relu", y_minus=-0.5)
    solution = relu.solve(given.task, 0.01)
    weights = planting.planted(KEY, solution, given)
    activations = given.network.phi(weights.first)
    assert coding.outliers(activations, given.task.labels).counts == len(solution.outlier_readouts)
    with pytest.raises(ValueError, match=r"N = 70, .* has 60"):
        planting.planted(KEY, relu.finite_size(solution, 70), given)


def test_what_does_not_fit_is_refused():
    given = _posterior(8, depth=2)
    solution = sigmoidal.solve(given.task, 0.01)
    with pytest.raises(ValueError, match="2 hidden layers, the solution is for 1"):
        planting.planted(KEY, solution, given)
    with pytest.raises(ValueError, match="3 rows, the posterior's task 2 classes and 8 inputs"):
        planting.planted(KEY, solution, _posterior(8, class_ratios=(0.5, 0.5)))
    with pytest.raises(ValueError, match="has no task"):
        planting.planted(KEY, solution, jax.tree.map(lambda leaf: leaf, given))


SOLVED = {
    "sigmoidal": lambda task, T: sigmoidal.solve(task, T),
    "relu": lambda task, T: relu.solve(task, T),
    "condensed relu": lambda task, T: condensation.solve(task, T),
    "many relu": lambda task, T: clustered.solve(task, T, nonlinearity="relu"),
    "finite relu": lambda task, T: relu.finite_size(relu.solve(task, T), 8),
    "linear": lambda task, T: linear.solve(task, 1, T),
    "mean_field": lambda task, T: mean_field.solve(task, "sigmoidal", T),
}


@pytest.mark.parametrize("kind", SOLVED)
def test_solutions_of_another_task_or_temperature_are_refused(kind):
    """Their networks would fit other targets, and a chain's two starts would not be of one posterior."""
    given = _posterior(
        8, nonlinearity=kind.split()[-1] if kind != "mean_field" else "sigmoidal", y_minus=-0.5
    )
    planting.planted(KEY, SOLVED[kind](given.task, 0.01), given)
    others = {"targets": {"y_minus": -0.4}, "class sizes": {"class_ratios": (0.25, 0.5, 0.25)}}
    for options in others.values():
        other = tasks.toy(8, **({"class_ratios": (0.5, 0.25, 0.25), "y_minus": -0.5} | options))
        with pytest.raises(ValueError, match="of another task"):
            planting.planted(KEY, SOLVED[kind](other, 0.01), given)
    with pytest.raises(ValueError, match="is for T = 0.02, the posterior is at T = 0.01"):
        planting.planted(KEY, SOLVED[kind](given.task, 0.02), given)


def test_a_solution_for_other_inputs_is_refused():
    labels, rng = np.array([0, 0, 1, 1]), np.random.default_rng(0)
    mine, other = (tasks.own(rng.standard_normal((6, 4)), labels) for _ in range(2))
    given = posterior.Posterior(mine, networks.Network(1, 8, "linear"), 0.01)
    with pytest.raises(ValueError, match="of another task"):
        planting.planted(KEY, linear.solve(other, 1, 0.01), given)


@pytest.mark.parametrize(
    ("kind", "depth", "solver"),
    [("sigmoidal", 1, sigmoidal), ("sigmoidal", 2, deep_sigmoidal), ("relu", 1, condensation)],
)
def test_a_solution_by_the_one_call_is_planted_like_its_solvers_own(kind, depth, solver):
    given = _posterior(60, depth, kind, y_minus=-0.5 if kind == "relu" else 0.2)
    arguments = (given.task, depth, 0.01) if depth > 1 else (given.task, 0.01)
    ours = planting.planted(KEY, theory.solve(given.task, given.network, 0.01), given)
    jax.tree.map(np.testing.assert_array_equal, ours, planting.planted(KEY, solver.solve(*arguments), given))


def test_a_solution_for_inputs_of_another_overlap_is_refused():
    given = posterior.Posterior(tasks.clustered(12, overlap=0.3), networks.Network(1, 20, "relu"), 0.01)
    for solver in (condensation.solve, lambda task, T: clustered.solve(task, T, nonlinearity="relu")):
        planting.planted(KEY, solver(given.task, 0.01), given)
        for overlap in (0.0, 0.4):
            with pytest.raises(ValueError, match="of another task"):
                planting.planted(KEY, solver(tasks.clustered(12, overlap=overlap), 0.01), given)


def test_a_solution_for_the_mean_overlaps_is_planted_for_the_inputs_that_have_them():
    """theory.solve neglects how overlaps scatter about their means, here by 0.006; of 0.1 less is refused."""
    alike, rng = tasks.clustered(12, overlap=0.3, y_minus=-0.5), np.random.default_rng(0)
    near = tasks.Task(
        alike.inputs + 0.03 * rng.standard_normal(alike.inputs.shape), alike.labels, alike.targets
    )
    given = posterior.Posterior(near, networks.Network(1, 5, "relu"), 0.01)
    solution = theory.solve(near, given.network, 0.01)
    assert "rms neglected" in solution.approximation
    planting.planted(KEY, solution, given)
    other = posterior.Posterior(tasks.clustered(12, overlap=0.2, y_minus=-0.5), given.network, 0.01)
    with pytest.raises(ValueError, match="of another task"):
        planting.planted(KEY, solution, other)


def test_merged_outliers_act_like_those_they_come_from():
    rng = np.random.default_rng(0)
    given = posterior.Posterior(tasks.toy(16, y_minus=-0.5), networks.Network(3, 24, "relu"), 0.01)
    weights = jax.vmap(given.prior)(jax.random.split(jax.random.key(0), 2))
    readout, incoming = np.array(weights.readout), np.array(weights.hidden[-1])
    direction, row = rng.standard_normal(3), incoming[0, 0]
    for neuron, strength in enumerate((1.0, 2.0, 2.0)):  # parallel: their product is that of one
        readout[:, neuron], incoming[:, neuron] = strength * direction, strength * row
    weights = weights._replace(readout=readout, hidden=(*weights.hidden[:-1], incoming))
    codes = np.zeros((2, 24, 3), dtype=bool)
    codes[:, :3, 1] = True
    united = planting.merged(weights, codes)
    np.testing.assert_allclose(np.linalg.norm(united.readout[0, :3], axis=1)[1:], 0, atol=1e-6)
    for ours, theirs in ((united.readout, readout), (united.hidden[-1], incoming)):
        costs = np.square(ours).sum(1), np.square(theirs).sum(1)  # what the prior sees
        np.testing.assert_allclose(*costs, rtol=1e-5)
    before, after = (jax.vmap(given.outputs)(each) for each in (weights, united))
    np.testing.assert_allclose(after, before, atol=1e-4 * np.abs(before).max())
    assert np.abs(after).max() > 0.01
