"""Networks trained on two points: rates of the theory are found again, and runs that stay drawn again."""

import time
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import tasks, training, two_points
from coding_schemes.theory import two_point
from coding_schemes.training import Architecture
from coding_schemes.two_points import RECORDS, Trained, learn, side_by_side

TASK = tasks.two_points(1.0, 0.5)
RATES = (0.002, 0.006)


def from_theory(loss_rate: float = 0.001) -> Trained:
    """A run whose curves are the theory's own, its mean error decaying at a rate of its own."""
    times = np.linspace(0, 4000, 201)
    path = two_point.solve(0.01, 1e-4, 1e-4 - 0.005, *RATES, 1.0, 0.5, times)
    dy = np.sqrt(0.5)
    # outputs of two dimensions: one along the targets' difference, one across
    along = (path.Q - path.w) / dy
    across = np.sqrt(np.maximum(path.Q - along**2, 0))
    half = 0.5 * np.stack([along, across], axis=-1)
    mean = np.array([0.6 + dy / 2, 0.0]) * (1 - np.exp(-loss_rate * times))[:, None]
    outputs = np.stack([mean - half, mean + half], axis=1)
    targets = np.column_stack([TASK.targets, [0.0, 0.0]])
    task = SimpleNamespace(inputs=TASK.inputs, targets=targets)
    loss = two_point.loss_curve(path, loss_rate, float((0.6 + dy / 2) ** 2), 0.5)
    tracked = {"H": path.H[None, :, None], "outputs": outputs[None]}
    run = training.Run(times, loss[None], tracked, None, np.array([4000]), np.array([True]))
    return Trained(SimpleNamespace(middle=0), task, run)


def test_rates_of_the_theory_itself_are_found_again():
    network = from_theory()
    fit, loss = network.fit(), network.fit_loss()
    assert [fit.eta_h, fit.eta_y] == pytest.approx(RATES, rel=1e-3)
    assert loss.eta_mean == pytest.approx(0.001, rel=1e-3)
    assert network.fit() is fit  # made once
    doubled = network.fit(factors=(2.0, *two_point.UNALTERED[1:]))
    assert doubled is not fit  # other equations, other rates
    assert abs(doubled.eta_h / fit.eta_h - 1) > 0.01
    whole, each = network.errors_at(*RATES)
    assert whole < 1e-6
    assert each.shape == (3,)
    assert network.errors_at(RATES[1], RATES[0])[0] > 0.1


def test_how_long_a_network_rests_changes_its_fit_but_not_while_it_moves():
    """Curves that are no solution, with the last value held for as long as training took, or three times."""
    given, rng = from_theory(), np.random.default_rng(0)
    bent = {name: rows * (1 + 0.2 * rng.random()) for name, rows in given.run.tracked.items()}
    bent["H"] = bent["H"] ** 1.3
    whole, moving, foreign = [], [], []
    for rest in (0, 200, 600):
        held = {name: np.concatenate([rows, rows[:, -1:].repeat(rest, 1)], 1) for name, rows in bent.items()}
        times = np.linspace(0, 4000 + 20 * rest, 201 + rest)
        run = training.Run(times, given.run.loss, held, None, np.array([4000]), np.array([True]))
        network = Trained(given.model, given.task, run)
        whole.append(network.fit().error)
        own = network.fit(moving=True)
        moving.append(own.error)
        foreign.append(network.errors_at(*RATES, moving=True)[0])
        assert network.errors_at(own.eta_h, own.eta_y, moving=True)[0] == pytest.approx(own.error, rel=1e-4)
    assert np.ptp(whole) > 0.2 * whole[0]
    np.testing.assert_allclose(moving, whole[0], rtol=0.02)  # a line between records
    np.testing.assert_allclose(foreign, network.errors_at(*RATES, moving=True)[0], rtol=0.02)


def test_the_pair_that_is_trained_on_is_the_one_that_is_asked_for():
    network = learn(jax.random.key(0), Architecture("linear", 1.0, 8, 2), 0.1, tasks.two_points(0.25, 2.0))
    assert [network.dx2, network.dy2] == pytest.approx([0.25, 2.0])
    H, Q, w = network.trajectory()
    assert len(H) == RECORDS + 1
    assert Q[-1] == pytest.approx(2.0, abs=0.02)
    assert w[-1] == pytest.approx(0.0, abs=0.02)
    assert network.trajectory(layer=0)[0, 0] != H[0]
    drawn = two_points.panels({"linear": network})
    assert np.shape(drawn["network"]) == np.shape(drawn["theory"]) == (1, 3, RECORDS + 1)
    assert drawn["titles"] == [f"linear: {network.fit().error:.1%}"]


def test_weights_are_drawn_again_only_where_training_stays_on_its_plateau():
    model = Architecture("linear", 1.0, 8, 2)
    found = [learn(jax.random.key(0), model, rate, draws=2) for rate in (0.1, 1e-7)]
    assert [one.draws for one in found] == [1, 2]
    assert [len(one.done) for one in found] == [1, 0]
    alone = learn(jax.random.key(0), model, 1e-7)
    assert not np.allclose(alone.trajectory()[:, 0], found[1].trajectory()[:, 0])  # other weights


def test_of_several_networks_one_that_is_trained_to_the_end_is_enough():
    """Then no weights are drawn again, and the others are left out."""
    model = Architecture("linear", 1.0, 8, 2)
    found = learn(jax.random.key(0), model, 0.002, steps=RECORDS, draws=2, repeats=4)
    assert found.draws == 1
    assert len(found.done) == 2


def test_without_biases_they_stay_at_zero():
    for kind, width in (("dense", 8), ("convolution", 32)):
        model = Architecture("linear", 1.0, width, 1, kind, biases=False)
        run = training.train(
            model, jax.random.key(0), TASK.inputs, TASK.targets, learning_rate=0.01, num_steps=20
        )
        assert all(np.all(bias == 0) for bias in run.parameters.biases)
        assert run.loss[0, -1] < run.loss[0, 0]


def test_runs_side_by_side_come_back_in_their_order():
    def after(seconds):
        time.sleep(seconds)
        return seconds

    assert side_by_side(partial(after, seconds) for seconds in (0.2, 0.0, 0.1)) == [0.2, 0.0, 0.1]
