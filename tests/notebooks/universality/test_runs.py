"""What the chapter on two points measures, on cases whose answer is known."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes.training import Architecture
from universality import runs


def test_exponential_decay_does_not_wait():
    t = np.linspace(0, 40, 4001)
    assert runs.waiting(np.exp(-t)) == pytest.approx(np.log(10 / 9) / np.log(10), abs=0.01)
    assert runs.waiting((t < 20).astype(float)) == 1
    assert np.isnan(runs.waiting(np.exp(-t[:50])))  # a tenth is not reached
    path = np.stack([np.ones_like(t), np.full_like(t, 0.5), 0.5 * np.exp(-t)])  # dy² = ½: all of it is in w
    np.testing.assert_allclose(runs.difference_loss(path), np.exp(-t) / 8, atol=1e-12)
    np.testing.assert_allclose(runs.remaining(3 + 2 * np.exp(-t)), np.exp(-t), atol=1e-12)
    np.testing.assert_allclose(
        runs.remaining(np.array([[4.0, 1, 2], [1, 6, 5]])), [[1, -0.5, 0], [1, -0.25, 0]]
    )


def test_an_exponential_and_a_step_are_found():
    """Of a made-up loss, ½ e^{−t/50} and a sixteenth up to t = 300."""
    times = np.arange(0.0, 1000, 10)
    loss = 0.5 * np.exp(-times / 50) + np.where(times < 300, 1 / 16, 0)
    path = np.zeros((3, len(times)))
    made_up = SimpleNamespace(
        run=SimpleNamespace(loss=loss[None], times=times), trajectory=lambda: path, dy2=0.5
    )
    assert runs.stepped(made_up) < 1e-8
    made_up.run.loss = (loss + 0.3 * np.sin(times / 30))[None]
    assert runs.stepped(made_up) > 0.1


def test_pairs_have_the_same_initial_weights_and_exponents_are_read_from_them():
    row = Architecture(jax.nn.leaky_relu, 0.35, 20, 2), 0.01
    grid = {"networks": 2, "dx": (0.5, 1.0, 1.5), "dy": (0.5, 1.0)}
    found = runs.train_pairs(jax.random.key(0), row, **grid, steps=6000)
    assert found.distances.tolist()[0] == [1.0, runs.HALF]
    assert len(found.distances) == 5
    weights = [each.run.tracked["H"][:, 0, 1] / each.dx2 for each in found.trained]
    assert np.allclose(weights[0], weights[3])  # inputs are the same there
    assert found.found().shape == found.predicted().shape == (len(found.done), 5)
    assert found.exponents(found.predicted()).value == pytest.approx([1, 1], abs=0.1)
    blind = found.exponents(found.predicted(blind=True)).value
    assert blind == pytest.approx([0, 1], abs=0.1)
    law = 0.3 * found.distances[:, 0] ** 0.7 * found.distances[:, 1] ** 1.1
    exponents = found.exponents(np.stack([law, 2 * law, law]))
    assert exponents.value == pytest.approx([0.7, 1.1])
    assert exponents.error == pytest.approx(0, abs=1e-9)


def test_large_initial_weights_leave_every_network_at_its_own_distances():
    """Pair by pair, whatever |dx| and |dy|; a network that did not converge on one of them is left out."""
    distances = np.array([(1.0, runs.HALF), (0.5, runs.HALF), (1.5, runs.HALF), (1.0, 0.5), (1.0, 1.5)])
    starts = np.outer([100, 200, 300], distances[:, 0] ** 2) * (1 + distances[:, 1])

    def trained(H, converged):
        return SimpleNamespace(
            run=SimpleNamespace(converged=np.array(converged)),
            fit=lambda r, layer: SimpleNamespace(eta_h=1.0, eta_y=2.0),
            trajectory=lambda r, layer: np.array([[H[r], 0], [1.0, 0], [0.0, 0]]),
        )

    each = [trained(H, [True, k != 3, True]) for k, H in enumerate(starts.T)]
    found = runs.Ends(distances, each)
    np.testing.assert_allclose(found.predicted(), starts[[0, 2]], rtol=1e-3)
    np.testing.assert_allclose(found.predicted(blind=True), starts[[0, 2]], rtol=1e-3)


@pytest.mark.parametrize("grow", [False, True])
def test_targets_that_grow_with_the_outputs_make_the_same_problem_of_other_scale(grow, monkeypatch):
    """H → gH, Q → g²Q, w → g²w, |dy|² → g²|dy|², t → t/g is a symmetry; fixed targets lose against Q."""
    asked = []

    def solve(H, Q, w, *, dy2, times, **rates):
        asked.append([w / Q, dy2 / H**2, times[-1] * H])
        return SimpleNamespace(H=H * (1 + dy2 / Q))

    closed = SimpleNamespace(solve=solve, identical_outputs=lambda H, Q, **_: SimpleNamespace(H=H))
    monkeypatch.setattr(runs, "two_point", closed)
    found = runs.exponent_off_closed({}, 0.5, np.array([0.0, 4.0]), grow)
    assert found == pytest.approx(0.0 if grow else -2.0, abs=1e-9)
    across, targets, spans = np.transpose(asked)
    np.testing.assert_allclose(spans, 1.6)
    assert (np.ptp(across) < 1e-12) == (np.ptp(targets) < 1e-12) == grow


def test_inputs_around_zero_are_as_far_apart():
    task = runs._points(1.5, 0.5, centered=True)
    assert task.inputs.tolist() == [[-0.75, 0.75]]


def test_spread_over_networks_is_that_of_logs_with_an_error():
    rng, scores = np.random.default_rng(0), []
    for _ in range(300):
        found = runs.log_spread(np.exp(0.2 * rng.standard_normal(40)))
        scores.append((found.value - np.log(0.2)) / found.error)
    assert np.std(scores) == pytest.approx(1, abs=0.15)


def test_slope_has_the_error_of_its_values():
    x = np.log([25, 50, 100, 200])
    found = runs.slope(x, [runs.Estimate(3 - 0.5 * at, 0.1) for at in x])
    assert found.value == pytest.approx(-0.5)
    assert found.error == pytest.approx(0.1 / np.sqrt(np.square(x - x.mean()).sum()))


def test_table_has_the_rows_of_the_paper():
    assert len(runs.table(500)) == 11
    assert "convolution" not in runs.table(100)
    assert runs.table(500)["narrow"][0].width == 50


def test_initial_distance_falls_per_layer_as_the_chapter_says():
    """The mean log of |φ(Wh)|²/|h|² at Var W = 1/N is that of ½(1 + 0.01²) less 5/2N."""
    rng, width = np.random.default_rng(0), 50
    z = rng.standard_normal((40_000, width))  # W h of |h|² = N
    factor = np.log(np.square(np.where(z > 0, z, 0.01 * z)).mean(axis=1))
    expected = np.log((1 + 0.01**2) / 2) - 5 / (2 * width)
    assert factor.mean() == pytest.approx(expected, abs=0.1 * 5 / (2 * width))


def test_fits_of_layers_have_the_sum_of_squares_that_they_minimize():
    """Of the networks that were trained to the end; the fit's error is over the variance of its curves."""
    rng = np.random.default_rng(0)
    observed, off = rng.random((3, 2, 3, 50)) * np.array([1.0, 5, 9])[:, None], rng.random((3, 2, 3, 50))

    def fit(r, layer):
        error = np.square(off[r, layer]).mean(1).sum() / observed[r, layer].var(1).sum()
        return SimpleNamespace(error=error, eta_h=10 * r + layer, eta_y=100 * r + layer)

    run = SimpleNamespace(tracked={"H": np.zeros((3, 50, 2))})
    networks = SimpleNamespace(done=[0, 2], run=run, fit=fit, trajectory=lambda r, layer: observed[r, layer])
    found = runs.over_layers(networks)
    np.testing.assert_allclose(found.loss, np.square(off[[0, 2]]).sum((2, 3)))
    np.testing.assert_array_equal(found.eta_h, [[0, 1], [20, 21]])
    np.testing.assert_array_equal(found.eta_y, [[0, 1], [200, 201]])
    np.testing.assert_array_equal(found.start, observed[[0, 2], :, 0, 0])


def test_rates_rise_with_depth_by_their_ranks_where_half_of_the_layers_are_fitted():
    nan = np.nan
    rates = np.array([[9, 1, 10, 100, 101, 0], [9, nan, 3, 2, nan, 0], [9, nan, 3, nan, nan, 0]])
    np.testing.assert_allclose(runs.with_depth(rates, slice(1, 5)), [1, -1, nan])


def test_draws_of_small_weights_end_in_theory_where_the_median_network_does(monkeypatch):
    """H* = √(η_h/η_y)|dx||dy| there for one ratio of the rates; networks that did not end are left out."""
    ends = np.array([1.0, 2.0, 99.0, 4.0])
    H = np.stack([np.full(4, 1e-5) * [1, 2, 3, 4], ends])  # (records, networks)
    trained = SimpleNamespace(
        done=[0, 1, 3], dy2=0.5, trajectory=lambda r: np.stack([H[:, r], 1e-5 * H[:, r], H[:, r]])
    )
    monkeypatch.setattr(runs, "learn", lambda *_, **__: trained)
    found = runs.draws(jax.random.key(0), 50, 0.9, 4)
    np.testing.assert_allclose(found.start, [1e-5, 2e-5, 4e-5])
    np.testing.assert_array_equal(found.final, [1, 2, 4])
    np.testing.assert_allclose(found.theory, 2, rtol=1e-3)
    trained.done = [0, 1]
    assert np.isnan(runs.draws(jax.random.key(0), 50, 0.9, 4).final).all()


def test_logs_of_networks_have_errors():
    found = runs.log_mean(np.exp([1.0, 2, 6]))
    np.testing.assert_allclose(found, [3, 7**0.5 / 3**0.5])
