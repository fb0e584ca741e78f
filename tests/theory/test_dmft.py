"""Gradient flow of two layers: against networks, its fixed points, collapse, and Laplace starts."""

import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import networks, tasks, training
from coding_schemes.theory import dmft
from scipy.stats import kurtosis


@pytest.fixture(scope="module")
def task():
    """Twelve random inputs labeled by a teacher, and fifty test inputs."""
    rng = np.random.default_rng(0)
    inputs, teacher, test = (
        rng.standard_normal((16, 12)),
        rng.standard_normal(16),
        rng.standard_normal((16, 50)),
    )
    inputs = inputs[:, np.argsort(-np.sign(teacher @ inputs))]
    splits = []
    for x in (inputs, test):
        y = np.sign(teacher @ x)
        splits += [x, (y < 0).astype(int), y[:, None]]
    return tasks.Task(*splits)


@pytest.fixture(scope="module")
def one():
    """One input and the target 1."""
    return tasks.Task(np.ones((1, 1)), np.array([0]), np.ones((1, 1)))


@pytest.mark.parametrize(
    ("phi", "duration", "dtype", "tolerance"),
    [("relu", 400, jnp.float32, 1e-3), ("relu_squared", 400, jnp.float64, 1e-5)],
)
def test_identity_at_width_fifty(task, phi, duration, dtype, tolerance):
    """The fixed point is a regression with the final kernel, at every width."""
    options = {"duration": duration, "num_neurons": 50, "network": True, "dtype": dtype}
    path = dmft.population(task, phi, 1.0, 0.1 if phi == "relu" else 0.3, **options)
    antk = dmft.antk(path)
    assert antk.converged
    assert antk.degree == (2 if phi == "relu" else 3)
    assert np.sqrt(np.mean((antk.predict() - path.test_outputs[-1]) ** 2)) < tolerance
    without_average = dmft.antk(dmft.population(task, phi, 1.0, 0.1 if phi == "relu" else 0.3, **options,
                                                average_steps=1)) if phi == "relu" else None  # fmt: skip
    if without_average is not None:  # a snapshot of the gates is worse
        assert without_average.residual > 3 * antk.residual


def test_identity_with_several_outputs(task):
    targets = np.concatenate([task.targets, np.cos(np.arange(12))[:, None]], axis=1)
    two = tasks.Task(task.inputs, task.labels, targets)
    path = dmft.population(
        two, "relu_squared", 1.0, 0.5, duration=200, num_neurons=20, network=True, dtype=jnp.float64
    )
    antk = dmft.antk(path)
    assert antk.residual < 1e-6
    new = np.eye(16)[:, :3]  # directions mostly outside the training span, where the weights have died
    h = path.u @ two_projection(path, new)
    np.testing.assert_allclose(
        antk.predict(new), (np.maximum(h, 0) ** 2).T @ path.readouts[:, 0] / 20, atol=1e-6
    )


def two_projection(path, inputs):
    return path.features.on(inputs).projection[0].T


def test_only_decay_over_richness_matters(task):
    """Degree one: (γ0, λ) and (c γ0, c λ) have the same fixed point."""
    first = dmft.population(task, "relu", 1.0, 0.3, duration=100, num_neurons=128)
    second = dmft.population(task, "relu", 0.5, 0.15, duration=200, num_neurons=128)
    np.testing.assert_allclose(first.outputs[-1], second.outputs[-1], atol=5e-3)


def test_convex_problem_of_the_relu(task):
    path = dmft.population(task, "relu", 1.0, 0.3, duration=150, num_neurons=512)
    convex = dmft.relu_fixed_point(task, 1.0, 0.3)
    loss = 12 * 0.5 * np.mean((task.targets - convex.outputs) ** 2)
    assert 12 * path.train_loss[-1] == pytest.approx(loss, rel=0.03)
    assert np.sqrt(np.mean((convex.predict(task.test_inputs) - path.test_outputs[-1]) ** 2)) < 0.1


@pytest.mark.parametrize(("phi", "tolerance"), [("relu", 5e-3), ("relu_squared", 1e-4)])
def test_fixed_point_is_where_the_flow_ends(task, phi, tolerance):
    """L-BFGS ends in a rest point of the flow, which the regression with its final kernel says again."""
    rest = dmft.fixed_point(task, phi, 1.0, 0.3, num_neurons=50, tolerance=1e-12)
    assert rest.residual < 5e-3
    antk = dmft.antk(rest)
    assert antk.converged
    assert np.sqrt(np.mean((antk.predict() - rest.test_outputs[-1]) ** 2)) < tolerance
    np.testing.assert_allclose(antk.predict(task.test_inputs + 0.0), antk.predict(), atol=1e-9)
    other = dmft.antk(dmft.fixed_point(task, phi, 2.0, 0.3, num_neurons=50))
    assert np.abs(other.predict() - rest.test_outputs[-1]).max() > 0.02  # the control: another richness


def test_fixed_point_of_the_relu_is_the_convex_problems(task):
    rest = dmft.fixed_point(task, "relu", 1.0, 0.3, num_neurons=256, average_steps=0)
    convex = dmft.relu_fixed_point(task, 1.0, 0.3)
    assert np.sqrt(np.mean((convex.predict(task.test_inputs) - rest.test_outputs[-1]) ** 2)) < 0.1
    assert 12 * rest.train_loss[-1] == pytest.approx(
        0.5 * np.sum((task.targets - convex.outputs) ** 2), rel=0.05
    )


def test_a_search_that_does_not_come_to_rest_says_so(task):
    with pytest.warns(UserWarning, match="fixed_point did not converge: .* after 3 steps, not at rest"):
        path = dmft.fixed_point(task, "relu", 1.0, 0.3, max_steps=3, average_steps=0)
    assert np.isnan(path.residual)  # nothing was measured


def test_population_is_the_limit_of_networks(task):
    """A network's distance from the population falls as N^-1/2; the training loop takes the same steps."""
    options = {"duration": 4.0, "num_records": 4, "average_steps": 1}
    limit = dmft.population(task, "erf", 1.0, 0.1, num_neurons=4096, **options)
    np.testing.assert_allclose(limit.outputs[0], 0, atol=1e-6)  # mirror images cancel
    distances = []
    for width in (100, 1600):
        nets = [
            dmft.population(task, "erf", 1.0, 0.1, num_neurons=width, network=True, seed=s, **options)
            for s in range(4)
        ]
        off = [np.mean((net.test_outputs - limit.test_outputs) ** 2) for net in nets]
        distances.append(np.sqrt(np.mean(off)))
    assert distances[0] / distances[1] == pytest.approx(4, rel=0.5)
    half = dmft.population(task, "erf", 1.0, 0.1, num_neurons=2048, step=limit.step / 2, seed=1, **options)
    assert np.sqrt(np.mean((half.test_outputs - limit.test_outputs) ** 2)) < 0.03


@pytest.mark.parametrize(("richness", "decay"), [(1.0, 0.1), (1.0, 0.9), (2.0, 1.0), (0.5, 0.7)])
def test_collapse_of_one_input(one, richness, decay):
    path = dmft.population(
        one, "relu", richness, decay, duration=25 / abs(richness - decay), num_neurons=256, average_steps=1
    )
    expected = dmft.collapse(one.targets, richness, decay)
    assert np.mean(path.readouts**2) == pytest.approx(expected.second_moments[0], abs=5e-3)
    assert np.mean(path.preactivations**2) == pytest.approx(expected.second_moments[0], abs=5e-3)
    assert 1 - path.outputs[-1, 0, 0] == pytest.approx(expected.errors[0], abs=1e-4)
    assert (expected.second_moments[0] == 0) == (decay > richness)


@pytest.mark.parametrize("decay", [1.2, 1.6])
def test_collapse_of_one_sign(decay):
    """Six white inputs, four with the target 1 and two with −1: two thresholds."""
    white = tasks.toy(6, (4 / 6, 2 / 6), targets=[[1.0], [-1.0]])
    path = dmft.population(white, "relu", 1.0, decay, duration=120, num_neurons=256, average_steps=1)
    expected = dmft.collapse(white.targets, 1.0, decay)
    np.testing.assert_allclose(expected.thresholds, [2, 2**0.5])
    w = path.readouts[:, 0, 0]
    for sign, moment in zip((1, -1), expected.second_moments):
        assert np.sum(w[w * sign > 0] ** 2) / len(w) == pytest.approx(moment, abs=5e-3)
    errors = white.targets[:, 0] - path.outputs[-1, :, 0]
    np.testing.assert_allclose(
        [np.linalg.norm(errors[:4]), np.linalg.norm(errors[4:])], expected.errors, atol=5e-3
    )


@pytest.mark.parametrize(
    ("start", "excess"), [("laplace", 1.5), ("laplace_readouts", 0.75), ("gaussian", 0.0)]
)
def test_laplace_start_is_rescaled(one, start, excess):
    """Linear network, one input: the final h is C (h0 + z0), so its shape is that of the start's sum."""
    path = dmft.population(
        one,
        "linear",
        1.0,
        0.3,
        duration=60,
        num_neurons=4096,
        start=start,
        average_steps=1,
        dtype=jnp.float64,
    )
    h = path.preactivations.ravel()
    start_sum = path.initial[0].ravel() + path.initial[1].ravel() * path.features.root.ravel()
    assert np.corrcoef(h, start_sum)[0, 1] == pytest.approx(1, abs=1e-9)
    assert kurtosis(h) == pytest.approx(excess, abs=0.15)
    assert np.mean(h**2) == pytest.approx(0.7, abs=1e-4)


def test_training_takes_the_same_steps(task):
    """training.train with richness and weight decay is this flow: learning rate P dt, decay λ dt per step."""
    network = networks.Network(1, 2000, "tanh")
    steps, dt = 60, 0.02
    path = dmft.population(
        task, "tanh", 0.7, 0.2, duration=steps * dt, step=dt, num_records=3, num_neurons=4096, average_steps=1
    )
    model = training.ScaledNetwork(network, richness=0.7)
    runs = training.train(
        model, training.jax.random.key(0), task.inputs, task.targets, learning_rate=12 * dt,
        weight_decay=0.2 / 12, num_steps=steps, record_every=20, repeats=6, converged_loss=10,
        track=lambda outputs, activations: outputs,
    )  # fmt: skip
    assert runs.tracked.mean(0) == pytest.approx(path.outputs, abs=0.05)
    assert np.abs(path.outputs[-1]).max() > 0.5


def test_what_a_flow_does_not_give(task):
    with pytest.raises(FloatingPointError, match="step"):
        dmft.population(task, "relu", 1.0, 0.1, duration=2000.0, step=5.0, num_neurons=8, average_steps=1)
    short = {"duration": 0.5, "num_neurons": 8, "average_steps": 1}
    with pytest.raises(ValueError, match="weight_decay"):
        dmft.antk(dmft.population(task, "relu", 1.0, 0.0, **short))
    with pytest.raises(
        ValueError, match="nonlinearity: got erf, which is not homogeneous.*path's own outputs"
    ):
        dmft.antk(dmft.population(task, "erf", 1.0, 0.1, **short))
    with pytest.warns(UserWarning, match="differ"):
        assert not dmft.antk(dmft.population(task, "relu", 1.0, 0.1, **short)).converged


@pytest.mark.filterwarnings("ignore:aNTK did not converge")
def test_predictor_of_a_short_path_keeps_what_decay_has_left_of_the_start(one):
    """At x ⊥ the training input: h* = (1 − λ dt)^n z, and f* = ⟨φ(h*)⟩⟨φ(h)⟩ α, as z is Gaussian."""
    one = tasks.Task(np.sqrt([[2.0], [0.0]]), one.labels, one.targets)
    options = {"duration": 1.0, "num_neurons": 40_000, "average_steps": 1, "test_inputs": [[0.0], [3.0]]}
    path = dmft.population(one, "relu", 1.0, 0.3, num_records=1, **options)
    antk, left = dmft.antk(path), (1 - 0.3 * path.step) ** path.num_steps
    assert 0.6 < left < 0.8
    scale = left * 3 / 2**0.5 / (2 * np.pi) ** 0.5
    expected = scale * np.maximum(path.preactivations, 0).mean() * antk.dual_field
    for inputs in (None, np.array([[0.0], [3.0]])):
        np.testing.assert_allclose(antk.predict(inputs), expected, rtol=0.03)


def test_records_lie_at_their_times_whatever_the_step(task):
    """A step that does not divide the time between two records is taken a little shorter."""
    given = {"duration": 1.0, "num_records": 3, "num_neurons": 8, "average_steps": 0}
    uneven, even = (dmft.population(task, "relu", 1.0, 0.1, step=dt, **given) for dt in (0.07, 1 / 15))
    np.testing.assert_array_equal(uneven.outputs, even.outputs)
    np.testing.assert_allclose(uneven.times, [0, 1 / 3, 2 / 3, 1])


def test_inputs_to_follow_are_those_given_or_the_tasks(task):
    given = {"duration": 0.1, "num_records": 1, "num_neurons": 8, "average_steps": 0}
    own, same = (dmft.population(task, "relu", 1.0, 0.1, test_inputs=x, **given) for x in (None, task.inputs))
    assert own.test_outputs.shape == (2, 50, 1)
    np.testing.assert_allclose(same.test_outputs, same.outputs, atol=1e-5)
