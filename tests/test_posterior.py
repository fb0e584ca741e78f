"""Posterior: energy, coordinates, predictions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import _roots, networks, posterior, tasks


def general_task(input_dim, num_inputs, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(num_inputs) % 2
    return tasks.Task(
        rng.standard_normal((input_dim, num_inputs)), np.sort(labels), np.eye(2)[np.sort(labels)]
    )


def classes_alike():
    """Overlaps that depend on the classes, in any order, with other norms and signs, and one input alone."""
    task = tasks.tree(17, (9 / 17, 4 / 17, 3 / 17, 1 / 17), (0, 0, 1, 1), (0.6, 0.2))
    order = np.random.default_rng(5).permutation(17)
    factors = np.array([1.0, -1.3, 0.7, 1.1])[task.labels]
    return tasks.Task((task.inputs * factors)[:, order], task.labels[order], task.targets[order])


TASKS = {
    "orthogonal": tasks.toy(5, (0.4, 0.6)),
    "P < N0": general_task(9, 5),
    "P > N0": general_task(3, 5),
    "classes alike": classes_alike(),
}


def in_input_space(given, weights):
    """The energy from paper A's formula, with W¹, W^ℓ and a, in numpy float64."""
    network, task = given.network, given.task
    first = np.asarray(given.first_layer(jax.random.key(7), weights), dtype=float)
    z = first @ task.inputs / np.sqrt(task.input_dim)
    for hidden in weights.hidden:
        z = np.asarray(hidden, dtype=float) @ np.asarray(network.phi(jnp.asarray(z))) / np.sqrt(network.width)
    a = np.sqrt(float(given.readout_variance)) * np.asarray(weights.readout, dtype=float)
    f = network.readout_scale * np.asarray(network.phi(jnp.asarray(z))).T @ a
    scale = network.width if network.scaling == "non-lazy" else 1
    energy = scale / (2 * float(given.temperature)) * np.sum((task.targets - f) ** 2)
    energy += (
        np.sum(a**2) / (2 * float(given.readout_variance)) + sum(np.sum(w**2) for w in weights.hidden) / 2
    )
    free = first - first @ np.linalg.pinv(task.inputs.T) @ task.inputs.T
    return float(energy + (np.sum(first**2) - np.sum(free**2)) / 2), f


@pytest.mark.parametrize("name", list(TASKS))
@pytest.mark.parametrize("scaling", ["lazy", "non-lazy"])
@pytest.mark.parametrize("depth", [1, 3])
def test_energy_is_paper_a_s(name, scaling, depth):
    network = networks.Network(depth, 4, "sigmoidal", scaling)
    given = posterior.Posterior(TASKS[name], network, 0.3, dtype=jnp.float64)
    weights = given.prior(jax.random.key(0))
    energy, outputs = in_input_space(given, weights)
    assert float(given.energy(weights)) == pytest.approx(energy, rel=1e-10)
    np.testing.assert_allclose(given.outputs(weights), outputs, atol=1e-12)


def test_a_wrong_temperature_scaling_would_show():
    given = posterior.Posterior(TASKS["orthogonal"], networks.Network(1, 4, "relu"), 0.3, dtype=jnp.float64)
    weights = given.prior(jax.random.key(0))
    assert float(given.at_temperature(0.6).energy(weights)) != pytest.approx(
        in_input_space(given, weights)[0]
    )


def test_the_root_as_a_matrix_changes_nothing_but_the_form():
    given = posterior.Posterior(TASKS["orthogonal"], networks.Network(2, 4, "relu"), 0.3, dtype=jnp.float64)
    weights = given.prior(jax.random.key(0))
    explicit = given.with_root()
    np.testing.assert_array_equal(_roots.dense(explicit.root), np.eye(5))
    assert given.root is None
    assert float(explicit.energy(weights)) == pytest.approx(float(given.energy(weights)))
    general = posterior.Posterior(TASKS["P < N0"], given.network, 0.3)
    assert general.with_root().root is general.root


def test_a_root_of_classes_is_a_root_and_acts_as_its_matrix():
    task = classes_alike()
    basis, root = _roots.data_span(task)
    assert isinstance(root, _roots.OfClasses)
    assert root.left.shape == (17, 4)
    matrix = np.asarray(_roots.dense(root))
    np.testing.assert_allclose(matrix @ matrix.T, task.input_kernel, atol=1e-12)
    np.testing.assert_allclose(basis @ basis.T, np.eye(17), atol=1e-10)
    np.testing.assert_allclose(matrix @ basis, task.inputs.T / np.sqrt(task.input_dim), atol=1e-10)
    rows = jnp.asarray(np.random.default_rng(0).standard_normal((6, 17)))
    for given, wanted in ((root, matrix), (root.T, matrix.T)):
        np.testing.assert_allclose(rows @ given, rows @ wanted, atol=1e-12)
        np.testing.assert_allclose(given[np.array([3, 0])], wanted[[3, 0]], atol=1e-12)


@pytest.mark.parametrize("change", ["an overlap", "a norm", "a point", "more classes"])
def test_other_kernels_have_a_matrix_for_a_root(change):
    task = classes_alike()
    inputs = task.inputs.copy()
    if change == "an overlap":
        inputs[:, 0] += 1e-4 * inputs[:, 1]
    if change == "a norm":
        inputs[:, 0] *= 1 + 1e-6
    if change == "a point":
        inputs = inputs[:, np.argmax(task.labels[:, None] == np.arange(4), axis=0)][:, task.labels]
    labels = np.arange(17) % 5 if change == "more classes" else task.labels
    found = _roots.data_span(tasks.Task(inputs, labels, task.targets))[1]
    assert not isinstance(found, _roots.OfClasses)


@pytest.mark.parametrize("name", list(TASKS))
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("nonlinearity", ["sigmoidal", "relu", "linear", lambda z: z + jnp.sin(z)])
def test_gradient_by_hand_is_autodiff_s(name, depth, nonlinearity):
    network = networks.Network(depth, 4, nonlinearity, "lazy" if depth == 2 else "non-lazy")
    given = posterior.Posterior(TASKS[name], network, 0.3, dtype=jnp.float64)
    weights = given.prior(jax.random.key(0))
    value, gradient = given.value_and_gradient(weights)
    expected_value, expected = jax.value_and_grad(given.logdensity)(weights)
    assert float(value) == pytest.approx(float(expected_value), rel=1e-12)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11), gradient, expected)


def test_orthogonal_inputs_skip_the_product():
    given = posterior.Posterior(TASKS["orthogonal"], networks.Network(1, 4), 0.3)
    weights = given.prior(jax.random.key(0))
    assert given.root is None
    assert given.preactivations(weights)[0] is weights.first


@pytest.mark.parametrize("name", list(TASKS))
def test_first_preactivations_have_the_input_kernel(name):
    task = TASKS[name]
    given = posterior.Posterior(task, networks.Network(1, 20_000), 0.3)
    z = np.asarray(given.preactivations(given.prior(jax.random.key(0)))[0], dtype=float)
    kernel = task.input_kernel
    spread = np.sqrt((np.outer(np.diag(kernel), np.diag(kernel)) + kernel**2) / 20_000)
    assert np.all(np.abs(z.T @ z / 20_000 - kernel) < 5 * spread)


@pytest.mark.parametrize("name", list(TASKS))
def test_predictions_on_training_inputs_are_the_outputs(name):
    task = TASKS[name]
    given = posterior.Posterior(task, networks.Network(2, 4, "relu"), 0.3, dtype=jnp.float64)
    weights = given.prior(jax.random.key(0))
    for response in (
        given.predict(jax.random.key(1), weights, task.inputs),
        given.respond(jax.random.key(1), weights, given.new_inputs(task.inputs)),
    ):
        np.testing.assert_allclose(response.outputs, given.outputs(weights), atol=1e-9)


@pytest.mark.parametrize("name", list(TASKS))
def test_new_inputs_have_the_conditional_law(name):
    """Both routes: z* given z has mean K*₀ K₀⁺ z and covariance K** − K*₀ K₀⁺ K₀*."""
    task = TASKS[name]
    given = posterior.Posterior(task, networks.Network(1, 4000), 0.3)
    weights = given.prior(jax.random.key(0))
    other = np.random.default_rng(3).standard_normal((task.input_dim, 3))
    cross = other.T @ task.inputs / task.input_dim
    inverse = np.linalg.pinv(task.input_kernel)
    covariance = other.T @ other / task.input_dim - cross @ inverse @ cross.T
    mean = np.asarray(given.preactivations(weights)[0]) @ inverse @ cross.T
    for response in (
        given.predict(jax.random.key(1), weights, other),
        given.respond(jax.random.key(1), weights, given.new_inputs(other)),
    ):
        rest = np.asarray(response.preactivations[0], dtype=float) - mean
        variance = np.maximum(np.diag(covariance), 0)  # zero where the training inputs span all
        size = np.sqrt(np.outer(variance, variance) * 2 / 4000) + 1e-5
        assert np.all(np.abs(rest.T @ rest / 4000 - covariance) < 5 * size)


def test_planted_weights_return_what_was_planted():
    task = TASKS["P < N0"]
    given = posterior.Posterior(task, networks.Network(1, 4, "relu"), 0.3, dtype=jnp.float64)
    z, a = np.random.default_rng(0).standard_normal((4, 5)), np.ones((4, 2))
    weights = given.planted(z, a)
    np.testing.assert_allclose(given.preactivations(weights)[0], z, atol=1e-10)
    np.testing.assert_allclose(given.readouts(weights), a)


def test_default_readout_variance_is_paper_a_s():
    task = TASKS["orthogonal"]
    for network, expected in (
        (networks.Network(1, 4, "sigmoidal"), 1 / 5),
        (networks.Network(3, 4, "sigmoidal"), 1 / 5),
        (networks.Network(1, 4, "relu"), 1 / 5),
        (networks.Network(2, 4, "linear"), 5 ** (-1 / 2)),
        (networks.Network(3, 4, "relu"), 5 ** (-1 / 3)),
        (networks.Network(3, 4, "relu", "lazy"), 1.0),
    ):
        assert posterior.default_readout_variance(task, network) == pytest.approx(expected)


def test_a_posterior_is_a_pytree():
    given = posterior.Posterior(TASKS["P < N0"], networks.Network(1, 4, "relu"), 0.3)
    weights = given.prior(jax.random.key(0))
    assert float(jax.jit(lambda p, w: p.energy(w))(given, weights)) == pytest.approx(
        float(given.energy(weights))
    )
    with pytest.raises(ValueError, match="transformation"):
        jax.tree.map(lambda leaf: leaf, given).new_inputs(np.zeros((9, 2)))


def test_new_inputs_of_the_wrong_width_are_named():
    given = posterior.Posterior(TASKS["orthogonal"], networks.Network(1, 4), 0.1)
    with pytest.raises(ValueError, match="inputs: got shape"):
        given.predict(jax.random.key(0), given.prior(jax.random.key(1)), np.zeros((3, 2)))


def test_a_lazy_network_is_a_non_lazy_one_with_large_readouts():
    """f = √N a·φ/N: readout variance N and temperature N T in place of 1 and T give the same energy."""
    task, width, temperature = TASKS["orthogonal"], 7, 0.3
    lazy = posterior.Posterior(task, networks.Network(1, width, "relu", "lazy"), temperature)
    rich = posterior.Posterior(task, networks.Network(1, width, "relu"), width * temperature, width)
    weights = lazy.prior(jax.random.key(3))
    np.testing.assert_allclose(lazy.outputs(weights), rich.outputs(weights), rtol=1e-5)
    assert float(lazy.energy(weights)) == pytest.approx(float(rich.energy(weights)), rel=1e-5)
    unscaled = posterior.Posterior(task, networks.Network(1, width, "relu"), temperature)
    assert float(unscaled.energy(weights)) != pytest.approx(float(lazy.energy(weights)), rel=1e-2)


def test_one_call_gives_a_lazy_network_in_non_lazy_form():
    """The same energy, outputs and responses for the same weights in unit-variance coordinates."""
    task, network = tasks.mnist(12, 5), networks.Network(1, 9, "erf", "lazy")
    lazy, other = posterior.Posterior(task, network, 0.1), posterior.non_lazy(task, network, 0.1)
    weights = lazy.prior(jax.random.key(0))
    assert other.network.scaling == "non-lazy"
    np.testing.assert_allclose(other.energy(weights), lazy.energy(weights), rtol=1e-5)
    np.testing.assert_allclose(other.outputs(weights), lazy.outputs(weights), rtol=1e-4, atol=1e-5)
