"""Training: gradients in factored form, the loop against a plain one, architectures, and bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from coding_schemes import networks, posterior, tasks, training
from coding_schemes.theory import two_point

INPUTS = np.array([[-1.0, 0.0], [0.5, 1.0]])
TARGETS = np.array([[0.6], [1.3]])
SMALL = {
    "dense": training.Architecture("tanh", gain=1.2, width=9, depth=3),
    "skip": training.Architecture("tanh", gain=0.5, width=9, depth=6, kind="skip"),
    "dropout": training.Architecture("tanh", gain=1.2, width=9, depth=3, kind="dropout"),
    "convolution": training.Architecture("tanh", gain=1.0, width=35, depth=2, kind="convolution"),
}


def test_loss_sums_over_outputs_and_averages_over_inputs():
    outputs, targets = (
        np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]),
        np.array([[0.0, 2.0, 2.0], [0.0, 0.0, 1.0]]),
    )
    assert float(training.loss(outputs, targets)) == pytest.approx(0.5 * (5 + 1) / 2)


def loss_of(model, parameters):
    return training.loss(model.forward(parameters, jnp.float32(INPUTS))[0], jnp.float32(TARGETS))


@pytest.mark.parametrize("kind", ["dense", "skip", "convolution"])
def test_factored_gradients_are_the_gradients(kind):
    model, targets = SMALL[kind], jnp.float32([[0.6, -0.3], [1.3, 0.2]])
    parameters = model.init(jax.random.key(1), 2, 2)
    factored = jax.jit(model.gradients)(parameters, jnp.float32(INPUTS), targets, jax.random.key(2))
    exact = jax.jit(jax.grad(lambda p: training.loss(model.forward(p, jnp.float32(INPUTS))[0], targets)))
    exact = exact(parameters)
    multiplied = training._multiply_out(factored)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), multiplied, exact)


@pytest.mark.parametrize(("adam", "decay"), [(False, 0.0), (True, 0.0), (False, 0.5), (True, 0.5)])
def test_the_compiled_loop_takes_the_same_steps_as_a_plain_one(adam, decay):
    """Weight decay takes learning rate × decay of every weight, and is no part of Adam's own steps."""
    model = SMALL["dense"]
    run = training.train(
        model,
        jax.random.key(3),
        INPUTS,
        TARGETS,
        learning_rate=0.02,
        num_steps=12,
        record_every=4,
        adam=adam,
        weight_decay=decay,
        converged_loss=10,
    )
    key = jax.random.split(jax.random.fold_in(jax.random.key(3), 0), 3)[0]
    parameters = model.init(key, 2, 1)
    optimizer = optax.adam(0.02) if adam else optax.sgd(0.02)
    state, losses = optimizer.init(parameters), []
    loss_and_gradient = jax.jit(jax.value_and_grad(lambda p: loss_of(model, p)))
    for i in range(13):
        value, gradient = loss_and_gradient(parameters)
        if i % 4 == 0:
            losses.append(value)
        if i < 12:
            updates, state = optimizer.update(gradient, state)
            updates = jax.tree.map(lambda u, w: u - 0.02 * decay * w, updates, parameters)
            parameters = optax.apply_updates(parameters, updates)
    np.testing.assert_allclose(run.loss[0], losses, rtol=1e-4)
    assert losses[-1] < 0.9 * losses[0]
    for a, b in zip(run.parameters.weights, parameters.weights):
        np.testing.assert_allclose(a[0], b, atol=1e-5)


def test_few_and_many_inputs_take_the_same_step():
    model = SMALL["dense"]
    doubled = np.tile(INPUTS, 5), np.tile(TARGETS, (5, 1))  # ten inputs go through matrix products
    options = {"learning_rate": 0.05, "num_steps": 6, "record_every": 1, "converged_loss": 10}
    one = training.train(model, jax.random.key(0), INPUTS, TARGETS, **options)
    two = training.train(model, jax.random.key(0), *doubled, **options, track=training.outputs_and_distances)
    np.testing.assert_allclose(one.loss, two.loss, rtol=1e-4)


def test_tracked_quantities_are_those_of_the_network():
    model = SMALL["skip"]
    run = training.train(
        model, jax.random.key(4), INPUTS, TARGETS, learning_rate=0.02, num_steps=4, record_every=2, repeats=3,
        converged_loss=10,
    )  # fmt: skip
    assert run.tracked["H"].shape == (3, 3, model.depth)
    for r in range(3):
        parameters = jax.tree.map(lambda x, r=r: x[r], run.parameters)
        outputs, activations = model.forward(parameters, jnp.float32(INPUTS))
        expected = [float(np.sum((h[:, 1] - h[:, 0]) ** 2)) for h in activations]
        np.testing.assert_allclose(run.tracked["H"][r, -1], expected, rtol=1e-4)
        np.testing.assert_allclose(run.tracked["outputs"][r, -1], outputs, rtol=1e-5)
        distances = training.outputs_and_distances(outputs, activations)["distances_sq"]
        np.testing.assert_allclose(distances[:, 0, 1], expected, rtol=1e-3)
    assert len(np.unique(run.loss[:, 0])) == 3  # repeats differ


@pytest.mark.parametrize(("name", "least", "most"), [("dropout", 0.05, 2.0), ("skip", 0.0, 0.01)])
def test_every_step_silences_units_anew(name, least, most):
    """Small steps with all inputs are alike where nothing is drawn at each."""
    run = training.train(
        SMALL[name], jax.random.key(0), INPUTS, TARGETS, learning_rate=3e-4, num_steps=12, record_every=1,
        track=lambda outputs, activations: {"first": activations[0]}, converged_loss=1e3,
    )  # fmt: skip
    steps = np.diff(np.float64(run.tracked["first"][0]), axis=0)
    scatter = np.linalg.norm(steps.std(axis=0)) / np.linalg.norm(steps.mean(axis=0))
    assert least <= scatter <= most


def test_skip_connections_and_dropout_do_what_they_say():
    skip = SMALL["skip"]
    parameters = skip.init(jax.random.key(0), 2, 1)
    _, h = skip.forward(parameters, jnp.float32(INPUTS))
    np.testing.assert_allclose(h[2], np.tanh(parameters.weights[2] @ h[1]) + h[0], rtol=1e-5)
    dropout = SMALL["dropout"]
    parameters = dropout.init(jax.random.key(0), 2, 1)
    gradients = jax.jit(dropout.gradients)
    draws = [
        gradients(parameters, jnp.float32(INPUTS), jnp.float32(TARGETS), jax.random.key(k)) for k in range(40)
    ]
    for draw in draws:  # what is left is scaled up, so that means stay
        left = np.asarray(draw.weights[0].activations)
        np.testing.assert_allclose(left, np.where(left, INPUTS / (1 - training.DROPOUT), 0), rtol=1e-6)
    silenced = np.mean([np.mean(np.asarray(d.weights[2].activations) == 0) for d in draws])
    assert silenced == pytest.approx(training.DROPOUT, abs=4 * np.sqrt(0.09 / (40 * 18)))


def test_initial_weights_are_xavier_normal():
    dense = training.Architecture(gain=1.5, width=200, depth=2).init(jax.random.key(0), 10, 1)
    assert float(jnp.var(dense.weights[0])) == pytest.approx(2 * 1.5**2 / 210, rel=0.1)
    assert float(jnp.var(dense.weights[1])) == pytest.approx(2 * 1.5**2 / 400, rel=0.05)
    conv = training.Architecture(gain=0.95, width=120, depth=3, kind="convolution").init(
        jax.random.key(0), 1, 1
    )
    assert float(jnp.var(conv.weights[2])) == pytest.approx(0.95**2 / (20 * 11), rel=0.1)
    assert not any(np.any(b) for b in dense.biases)


def test_convolution_is_a_convolution():
    weights = jax.random.normal(jax.random.key(0), (4, 3, 11))
    h = jax.random.normal(jax.random.key(1), (3, 2, 20))
    expected = np.zeros((4, 2, 10))
    for position in range(10):
        expected[..., position] = np.einsum("oik,ipk->op", weights, h[:, :, position : position + 11])
    np.testing.assert_allclose(training._convolution(weights, h), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", SMALL)
def test_an_input_has_the_same_activations_whatever_others_there_are(kind):
    model, inputs = SMALL[kind], jax.random.normal(jax.random.key(0), (2, 3))
    forward = jax.jit(functools.partial(model.forward, model.init(jax.random.key(1), 2, 1)))
    outputs, layers = forward(inputs)
    for p in range(3):
        output, alone = forward(inputs[:, p : p + 1])
        np.testing.assert_allclose(outputs[p], output[0], rtol=1e-4, atol=1e-6)
        for layer, own in zip(layers, alone, strict=True):
            np.testing.assert_allclose(layer[:, p], own[:, 0], rtol=1e-4, atol=1e-6)


def test_batches_visit_every_input_once_per_epoch():
    inputs = np.eye(6)
    linear = training.Architecture("linear", gain=1e-4, width=4, depth=1)
    run = training.train(
        linear, jax.random.key(0), inputs, np.ones((6, 1)), learning_rate=0.01, num_steps=3, record_every=3,
        batch_size=2, converged_loss=10,
    )  # fmt: skip
    full = training.train(
        linear, jax.random.key(0), inputs, np.ones((6, 1)), learning_rate=0.03, num_steps=1, record_every=1,
        converged_loss=10,
    )  # fmt: skip
    np.testing.assert_allclose(run.parameters.biases[1], full.parameters.biases[1], rtol=0.02)


@pytest.mark.parametrize("num_inputs", [12, 13])
def test_every_epoch_has_an_order_of_its_own(num_inputs):
    """A step moves the weights of its own inputs alone; of thirteen, four batches of three leave one out."""
    run = training.train(
        training.Architecture("linear", gain=1.0, width=4, depth=1, biases=False), jax.random.key(0),
        np.eye(num_inputs), np.ones((num_inputs, 1)), learning_rate=0.1, num_steps=20, record_every=1,
        batch_size=3, repeats=2, track=lambda outputs, activations: {"first": activations[0]},
        converged_loss=10,
    )  # fmt: skip
    moved = np.any(np.diff(run.tracked["first"], axis=1) != 0, axis=2)  # of each repeat, step and input
    epochs = moved.reshape(10, 4, num_inputs)
    assert np.all(epochs.sum(axis=2) == 3)
    assert epochs.sum(axis=1).max() == 1
    assert len(np.unique(epochs, axis=0)) == 10


def test_stopping_holds_the_last_record_and_divergence_is_counted():
    options = {"num_steps": 2000, "record_every": 20, "repeats": 2}
    model = training.Architecture("linear", gain=1.0, width=5, depth=1)
    run = training.train(
        model, jax.random.key(0), INPUTS, TARGETS, learning_rate=0.1, stop_loss=1e-4, **options
    )
    assert run.converged.all()
    assert np.all(run.num_steps < 2000)
    for losses, steps in zip(run.loss, run.num_steps):
        assert np.all(losses[steps // 20 :] == losses[-1])
        assert losses[steps // 20 - 1] > 1e-4 > losses[-1]
    with pytest.warns(UserWarning, match="2 of 2 runs diverged"):
        run = training.train(model, jax.random.key(0), INPUTS, TARGETS, learning_rate=50.0, **options)
    assert np.sum(~run.converged) == 2
    assert np.all(run.num_steps < 2000)
    diverged = two_point.measure(run.tracked["H"][0, :, 0], run.tracked["outputs"][0], TARGETS)
    with pytest.raises(ValueError, match="values are NaN or infinite"):
        two_point.fit(run.times, *diverged, 1.0, 0.5)


def test_a_run_that_rose_again_has_not_converged():
    options = {"learning_rate": 0.2, "num_steps": 40, "record_every": 1}
    arguments = SMALL["dropout"], jax.random.key(0), INPUTS, TARGETS
    (losses,) = training.train(*arguments, **options, converged_loss=1e3).loss
    limit = (losses.min() + losses[-1]) / 2
    assert losses.min() < 0.9 * limit
    with pytest.warns(UserWarning, match="1 of 1 runs"):
        assert not training.train(*arguments, **options, converged_loss=limit).converged.any()


def test_scaled_networks_are_paper_a_s():
    network = networks.Network(2, 5, "tanh", "lazy")
    model = training.ScaledNetwork(network)
    parameters = model.init(jax.random.key(0), 3, 2)
    first, hidden, readout = (np.asarray(w, float) for w in parameters.weights)
    inputs = np.random.default_rng(0).standard_normal((3, 4))
    second = hidden @ np.tanh(first @ inputs / 3**0.5) / 5**0.5
    outputs, activations = model.forward(parameters, jnp.float32(inputs))
    np.testing.assert_allclose(outputs, np.tanh(second).T @ readout.T / 5**0.5, atol=1e-5)
    np.testing.assert_allclose(activations[1], np.tanh(second) / 5**0.5, atol=1e-5)


@pytest.mark.parametrize("scaling", ["lazy", "non-lazy"])
def test_scaled_networks_learn_at_a_rate_independent_of_width(scaling):
    losses = []
    for width in (50, 400):
        model = training.ScaledNetwork(networks.Network(1, width, "tanh", scaling))
        assert jax.tree.map(lambda leaf: leaf, model) == model  # what passes through a transformation
        run = training.train(
            model, jax.random.key(1), np.eye(2), np.array([[1.0], [-1.0]]), learning_rate=0.02, num_steps=20,
            record_every=20, repeats=5, converged_loss=10,
        )  # fmt: skip
        losses.append(np.mean(run.loss[:, -1] / run.loss[:, 0]))
    assert losses[0] == pytest.approx(losses[1], rel=0.3)
    assert losses[1] < 0.9


def test_descent_reaches_a_stationary_point_of_the_energy():
    task = tasks.toy(12, (0.5, 0.25, 0.25), y_minus=0.2)
    given = posterior.Posterior(task, networks.Network(1, 12, "sigmoidal"), 0.01, readout_variance=1.0)
    starts = jax.vmap(given.prior)(jax.random.split(jax.random.key(0), 2))
    weights, error = training.descend(given, starts, num_steps=8_000)
    slopes = jax.jit(jax.vmap(jax.grad(given.energy)))
    slope, before = slopes(weights), slopes(starts)
    assert np.abs(slope.readout).max() < 1e-3 * np.abs(before.readout).max()
    assert error.shape == (2,)
    assert error.max() < 0.1
    with pytest.raises(FloatingPointError, match="diverged"):
        training.descend(given, starts, num_steps=200, learning_rate=1e4)
    once, _ = training.descend(given, starts, num_steps=1)  # w − η (T/N) ∇U, of N = 12
    stepped = jax.tree.map(lambda w, slope: w - 1.5 * 0.01 / 12 * slope, starts, before)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), once, stepped)
