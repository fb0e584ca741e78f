"""What the chapter on dynamics measures, on series, codes and networks of known law."""

import operator
from types import SimpleNamespace
from typing import NamedTuple

import jax
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from chapter_code import drawing
from coding_schemes import coding
from coding_schemes.networks import Network
from coding_schemes.posterior import Weights
from coding_schemes.statistics import permutation_order
from companion import figures
from companion.findings import Estimate
from dynamics import runs
from scipy.linalg import toeplitz
from test_calibration import assert_calibrated, autoregressive


def test_net_flux_counts_only_neurons_that_moved():
    before, after = np.array([0] * 50 + [1] * 50), np.array([1] * 16 + [0] * 34 + [0] * 16 + [1] * 34)
    assert runs.no_net_flux(before, after, 2) == 1
    assert runs.no_net_flux(before[:50], after[:50], 2) == pytest.approx(2 * 2 * 0.5**16, rel=1e-3)
    assert runs.no_net_flux(before, before, 2) == 1


def test_net_flux_of_neurons_in_equilibrium_is_found_at_its_rate():
    """Four codes with as many moves either way: p < 0.05 in one of twenty draws, or a little less."""
    rng = np.random.default_rng(0)
    rare = [runs.no_net_flux(*rng.integers(4, size=(2, 300)), 4) < 0.05 for _ in range(1000)]
    assert 0.02 < np.mean(rare) < 0.06


def test_autocorrelations_and_their_errors():
    found = []
    for seed in range(60):
        correlation, error = runs.autocorrelations(autoregressive(0.7, (8, 60, 10, 2), seed), 3)
        assert correlation[0] == 1
        found.append((correlation[1:], error[1:]))
    values, errors = np.moveaxis(np.array(found), 1, 0)
    np.testing.assert_allclose(values.mean(0), 0.7 ** np.arange(1, 4), atol=0.02)
    assert_calibrated(values, values.mean(0), errors, 7 / 5, slack=0.3)


def test_deciles_that_neurons_visit():
    """Independent neurons that stay where they are, or see all."""
    rng = np.random.default_rng(7)
    share, error = runs.coverage(np.repeat(rng.standard_normal((4, 1, 500, 1)), 3, axis=1))
    assert (share, error) == pytest.approx((0.1, 0.0), abs=1e-3)
    found = np.array([runs.coverage(rng.standard_normal((8, 5, 10, 1))) for _ in range(200)])
    assert_calibrated(found[:, 0], 1 - 0.9**5, found[:, 1], slack=0.5)


def test_deciles_that_gaussian_series_visit():
    """Independent draws, and one that stays; slow series visit fewer."""
    still, free = np.ones((2, 5)), np.eye(5)[:1]
    assert runs.gaussian_coverage(still) == pytest.approx(0.1, abs=2e-3)
    assert runs.gaussian_coverage(free) == pytest.approx(1 - 0.9**5, abs=0.01)
    slow = runs.coverage(autoregressive(0.8, (8, 40, 400, 1), 0))
    expected = runs.gaussian_coverage(0.8 ** np.arange(40)[None])
    assert abs(slow.value - expected) < 4 * np.hypot(slow.error, 0.2 / 4000**0.5)


def test_decay_time_is_where_the_curve_crosses():
    assert runs.decay_time(np.exp(-0.1 * np.arange(40)), 0.5, np.exp(-1.05)) == pytest.approx(5.25, abs=0.01)
    assert np.isnan(runs.decay_time(np.ones(4), 1.0, 0.5))
    series = autoregressive(0.9, (8, 300, 40, 1), 0)
    found = runs.decay_times(series, 2.0, 0.6)
    assert found.mean() == pytest.approx(2 * np.log(0.6) / np.log(0.9), rel=0.05)
    value, error = runs.ratio(3 * found, found)
    assert value == pytest.approx(3)
    assert error == pytest.approx(3 * 2**0.5 * found.std(ddof=1) / 8**0.5 / found.mean())


def test_times_of_a_motion_are_in_its_units():
    """Of series with (1 + 0.8)/(1 − 0.8) = 9 intervals of autocorrelation."""
    z = autoregressive(0.8, (4, 3000, 6, 4), 0)
    info = SimpleNamespace(energy=z[..., 0, 0], squared_error=z[..., 0, 0] ** 2 + 2)
    network = SimpleNamespace(width=6, depth=2)
    run = SimpleNamespace(
        preactivations=(None, z), samples=SimpleNamespace(info=info, temperature=0.1),
        posterior=SimpleNamespace(network=network), task=SimpleNamespace(num_inputs=4),
    )  # fmt: skip
    motion = runs.Motion(run, 0.5, 2.0)
    assert motion.correlation_time() == pytest.approx(0.5 * 9, rel=0.1)
    assert motion.correlation_time(2, 2) == pytest.approx(0.5 * 9, rel=0.2)
    np.testing.assert_allclose(motion.times[[0, -1]], [0.5, 1500])
    assert motion.excess == pytest.approx(info.squared_error.mean() / 2 - 1)
    assert motion.size == {"L": 2, "N": 6, "P": 4, "T": 0.1, "chains": 4, "units of time": 1500.0}


def test_a_swap_renames_two_neurons():
    """A renamed network has the same energy; halfway both are alike."""
    found = runs.minimum("linear", 8, 0.05)
    other = runs.exchanged(found.weights, 0, 3)
    assert float(found.posterior.energy(other)) == pytest.approx(float(found.posterior.energy(found.weights)))
    np.testing.assert_array_equal(other.first[[0, 3]], np.asarray(found.weights.first)[[3, 0]])
    middle = runs.halfway(found.weights, 0, 3, 5, 0.5)
    np.testing.assert_allclose(middle.readout[[0, 3]], 0.5 * np.asarray(found.weights.readout)[[5, 5]])
    np.testing.assert_array_equal(middle.first[1], np.asarray(found.weights.first)[1])


def test_ways_are_exposed_while_neurons_hold_the_code_they_leave(monkeypatch):
    """Three neurons, one of which changes its code once, seen four times."""
    codes = np.array([[1, 0]] * 2 + [[0, 1]])[None, None].repeat(4, axis=1)
    codes[0, 3, 0] = [0, 1]
    motion = SimpleNamespace(codes=[codes], interval=2.0, local=0.0)
    theory = SimpleNamespace(codes=np.array([[1, 0], [0, 1]]), heights=np.array([[0.0, 3.0], [5.0, 0.0]]))
    given = {"sample": None, "follow": motion, "solve": None, "passes": theory}
    for name, answer in given.items():
        monkeypatch.setattr(runs, name, lambda *_, answer=answer, **__: answer)
    monkeypatch.setattr(runs.planting, "planted", lambda *_: None)
    sizes = {"num_neurons": 3, "span": 8.0, "num_samples": 4, "num_chains": 1}
    found = runs.crossings(jax.random.key(0), temperatures=[0.1], **sizes)
    assert found.counts[0].tolist() == [1, 0]
    assert found.exposures[0].tolist() == [2.0 * 7, 2.0 * 5]
    assert found.heights[0].tolist() == [3.0, 5.0]


def test_rates_and_curves_of_crossings():
    heights, rng = np.linspace(0.5, 3, 6), np.random.default_rng(0)
    exposures = np.full(6, 4000.0)
    counts = rng.poisson(0.05 * np.exp(-heights) * exposures)
    found = runs.Crossings(np.array([0.01]), [heights], [counts], [exposures], [])
    slope = found.slope()
    assert abs(slope.value - 1) < 3 * slope.error
    drawn = found.curves()
    np.testing.assert_allclose(drawn["sampled"][0] * 4000, counts)
    assert drawn["values"][0][0] == pytest.approx(counts.sum() / (exposures @ np.exp(-heights)))
    assert sorted(found.dealt().heights[0]) == sorted(heights)


def test_series_of_several_networks_share_a_time_axis():
    motions = {
        name: SimpleNamespace(times=step * np.arange(1, 51))
        for name, step in (("linear", 2.0), ("relu", 0.5))
    }
    values = {name: motion.times[None] for name, motion in motions.items()}
    found = runs.on_one_axis(motions, values, points=20)
    assert all(times[-1] >= 25 and times[0] <= 2 for times in found["times"])
    assert max(times[-1] for times in found["times"]) < 27
    np.testing.assert_array_equal(found["times"][0], found["values"][0][0])


def test_a_shared_outlier_keeps_the_output_and_a_silent_partner():
    found = runs.minimum("relu", 40, 0.05)
    weights = jax.tree.map(np.array, found.weights)
    labels = runs.toy("relu", 40).labels
    own = int(coding.class_means(np.maximum(weights.first[1], 0)[None], labels).argmax())
    shared = runs._shared(weights, [1, 39], np.pi / 4, labels != own)
    assert np.all(shared.first[39, labels != own] <= 0)
    on_class = lambda w: (np.maximum(w.first[[1, 39]], 0).T @ w.readout[[1, 39]])[labels == own]  # noqa: E731
    before, after = on_class(weights), on_class(shared)
    scale = np.abs(before).max()
    np.testing.assert_allclose(after / scale, before / scale, atol=0.2)  # but for what the bulk neuron adds
    cos = shared.readout[[1, 39]] @ weights.readout[1]
    assert cos[1] / cos[0] == pytest.approx(1, abs=0.5)


def test_umbrella_on_a_network_that_is_held():
    """The free energy rises from the bulk to equal shares, by about what theory says."""
    found = runs.umbrella(jax.random.key(0), num_neurons=16, temperature=0.05, num_samples=60, num_chains=2)
    theory = runs.handing_on(16, 0.05, runs.WINDOWS)[-1]
    assert found.acceptance > 0.5
    assert found.free_energy.value.min() == 0
    assert found.barrier.value == pytest.approx(theory, abs=max(4 * found.barrier.error, 2.0))


def test_what_theory_leaves_out_in_second_order_is_taken_off():
    widths, theory = [40, 60, 90], np.array([[3.0, 2.0]] * 3) / np.array([[40], [60], [90]])
    second = 1 + 200.0 / np.square(widths)[:, None]
    limit = runs.beyond_first_order(widths, Estimate(theory * second, 0.05 * theory), theory)
    assert limit.value == pytest.approx([1, 1])
    assert np.all((limit.error > 0.05) & (limit.error < 0.1))  # no better than one size, less than twice
    first = runs.beyond_first_order(widths, Estimate(theory * (1 + 20 / 60), 0.05 * theory), theory)
    assert first.value == pytest.approx([4 / 3] * 2)  # what does not fall with N stays


@pytest.mark.parametrize("dt", [0.05, 0.03])
def test_networks_are_followed_for_the_time_that_is_asked_for(dt, monkeypatch):
    """A Langevin step of size ε is a time of ε²/2; where steps do not fit the interval they are shorter."""
    taken = []

    def sample(*_, **given):
        taken.append(given)
        return SimpleNamespace(info=SimpleNamespace(energy=np.zeros((2, given["num_samples"]))))

    monkeypatch.setattr(runs, "sample", sample)
    monkeypatch.setattr(runs, "convergence", lambda *_: None)
    rest = SimpleNamespace(
        final=np.arange(2.0),
        info=SimpleNamespace(energy=np.zeros((2, 1)), squared_error=np.array([3.0, 5.0])),
    )
    motion = runs.follow(jax.random.key(0), None, rest, 8.0, dt=dt, num_samples=40, num_chains=2)
    (given,) = taken
    step = given["method"].step_size ** 2 / 2
    assert given["method"].num_steps * step == pytest.approx(8 / 40)
    assert 0.9 * dt < step < dt + 1e-9
    assert (given["num_samples"], given["num_warmup"], given["moves"]) == (40, 0, ())
    assert motion.times == pytest.approx(np.linspace(0.2, 8, 40))
    assert motion.rest_error == 4


def test_a_curve_of_the_order_ends_where_its_run_does():
    """The shorter one has fewer points, and nothing in their place."""
    rng = np.random.default_rng(0)
    layers = {
        name: (
            SimpleNamespace(times=0.5 * np.arange(1, n + 1), means=(rng.standard_normal((2, n, 9, 3)),)),
            0,
        )
        for name, n in (("short", 5), ("long", 60))
    }
    found, own = runs.order_curves(layers), [runs.order_over_length(*layer) for layer in layers.values()]
    assert [len(row["x"]) for row in own] == [2, 8]
    for name, rows in found.items():
        for row, expected in zip(rows, own, strict=True):
            assert len(row) == 8
            np.testing.assert_array_equal(row[~np.isnan(row)], expected[name])


def test_rows_of_the_drift_keep_the_order_of_the_first_snapshot_but_for_the_one_that_is_sorted_anew():
    """Three neurons that exchange three codes, in both layers; an activation says whose it is."""
    orders = np.array(
        [[[2, 0, 1], [0, 1, 2]], [[1, 2, 0], [2, 1, 0]]]
    )  # (layers, snapshots, neurons by code)
    codes = [np.eye(3, dtype=bool)[np.argsort(layer, axis=1)][None] for layer in orders]
    z = [10.0 * layer + np.broadcast_to(np.arange(3)[:, None], (1, 2, 3, 4)) for layer in range(2)]
    network = SimpleNamespace(phi=lambda z: z)
    run = SimpleNamespace(preactivations=z, posterior=SimpleNamespace(network=network))
    motion = SimpleNamespace(run=run, codes=codes, means=[each.astype(float) for each in codes])
    found = runs.drift_rows(motion, [0, 1], 3)
    who = {name: [shown.activations[:, 0].tolist() for shown in row] for name, row in found.items()}
    assert who == {
        "fixed": [[2, 0, 1], [2, 0, 1]],
        "sorted_anew": [[2, 0, 1], [0, 1, 2]],
        "last": [[11, 12, 10], [11, 12, 10]],
    }
    ranked = ["1-0-0", "0-1-0", "0-0-1"]
    assert found["fixed"][0].codes == found["last"][0].codes == ranked
    assert found["sorted_anew"][1].codes == ranked
    assert found["fixed"][1].codes == [ranked[2], ranked[0], ranked[1]]
    assert found["last"][1].codes == [ranked[1], ranked[0], ranked[2]]


def test_frames_of_the_drift_have_the_colors_of_the_codes_that_neurons_have_then():
    """Neurons that exchange codes of one class; what is drawn of one says by its place what color it has."""
    labels, rng = np.array([0, 0, 1, 2, 2]), np.random.default_rng(0)
    codes = [np.eye(3, dtype=bool)[[rng.permutation(3) for _ in range(9)]][None] for _ in range(2)]
    run = SimpleNamespace(preactivations=[each[..., labels].astype(float) for each in codes])
    run.task, run.posterior = SimpleNamespace(labels=labels), SimpleNamespace(network=None)
    run.posterior.network = SimpleNamespace(phi=lambda z: z)
    means, times = [each.astype(float) for each in codes], np.linspace(0.5, 4.5, 9)
    found = runs.film(SimpleNamespace(run=run, codes=codes, means=means, times=times), 5)
    np.testing.assert_array_equal(found["times"], times[::2])
    assert found["edges"].tolist() == [1.5, 2.5]
    leaves = {k: np.asarray(value) for k, value in found.items() if k not in ("num_frames", "still")}
    frame_of, figure = drawing(runs, "drift_frame"), None
    for frame in range(5):
        figure = frame_of(frame, **leaves, figure=figure)
        assert figure.get_suptitle() == f"t = {times[2 * frame]:.1f}"
        for panel, layer in zip(figure.axes, (0, 0, 1), strict=True):
            rows, seen = np.asarray(panel.images[0].get_array()), set()
            for row in rows:
                active = row.min(1) < 1
                name = "-".join("01"[int(active[labels == c].all())] for c in range(3))
                color = mpl.colors.to_rgb(figures.CODE_COLORS[name])
                np.testing.assert_allclose(row[active], np.broadcast_to(color, (active.sum(), 3)), atol=1e-6)
                seen.add(name)
            assert seen == {coding.code_name(code) for code in codes[layer][0, 2 * frame]}
    plt.close(figure)


class Untrained(NamedTuple):
    """The prior alone."""

    def value_and_gradient(self, weights):
        """Log density, and its gradient."""
        squared = jax.tree.map(lambda leaf: (leaf**2).sum(), weights)
        return -0.5 * jax.tree.reduce(operator.add, squared), jax.tree.map(operator.neg, weights)


def test_networks_are_held_by_the_spring_that_the_mean_force_is_taken_with():
    """Where nothing is learned every θ is as likely, so that the spring alone says how far it strays."""
    rng, held, direction = np.random.default_rng(0), np.linspace(-0.5, 0.5, 64), np.array([0.0, 0.6, 0.8])
    readout = rng.standard_normal((64, 3, 3)).astype(np.float32)
    readout[:, [1, 2]] = np.stack([np.cos(held), np.sin(held)], axis=1)[..., None] * direction
    weights = Weights(rng.standard_normal((64, 3, 1)).astype(np.float32), (), readout)
    fixed = {"held": held, "posterior": Untrained(), "direction": direction, "pair": (1, 2)}
    counts = {"num_samples": 150, "num_steps": 12, "most_samples": 160}
    found = runs._held(jax.random.key(1), weights, step_size=0.02, **fixed, **counts)
    theta, acceptance = (np.asarray(each, float)[:, 20:150] for each in found[1:])
    assert not np.any(np.asarray(found[1])[:, 150:])
    away = theta - held[:, None]
    for series, expected in ((away, 0), (runs.SPRING * np.square(away), 1)):
        own = series.mean(1)
        assert abs(own.mean() - expected) < 4 * own.std() / 8
        assert own.std() / 8 < 0.05
    assert acceptance.mean() > 0.88


def moving(activations, labels, nonlinearity, **info):
    """A motion of one layer with such activations (chains, S, N, P), in intervals of two."""
    samples = SimpleNamespace(activations=lambda _: activations, info=SimpleNamespace(**info))
    posterior = SimpleNamespace(network=Network(1, activations.shape[2], nonlinearity))
    return runs.Motion(runs.Run(posterior, samples, None), 2.0, 5.0), SimpleNamespace(labels=np.array(labels))


def test_switches_are_counted_per_neuron_and_time_and_the_steps_error_over_that_at_rest(monkeypatch):
    """One of three neurons leaves its code, once, in one of two chains, after it was near the threshold."""
    phi = np.full((2, 5, 3, 4), 0.9)
    phi[0, :, 1, 2:] = np.array([0.7, 0.45, 0.55, 0.45, 0.1])[:, None]
    info = {"squared_error": np.array([[5.0, 7.0]]), "step_size": np.array([[0.1, 0.2]])}
    motion, task = moving(phi, [0, 0, 1, 1], "sigmoidal", **info)
    monkeypatch.setattr(type(motion.run), "task", task)
    rate = runs.chain_rates(motion, 0)
    assert rate == pytest.approx((1 / 48, 1 / 48))
    assert motion.switches().rate == pytest.approx(rate.value)
    history = runs.code_history(motion)
    which = history.layers[0]
    assert [history.names[k] for k in which[0, :, 1]] == ["1-1"] * 4 + ["1-0"]
    assert {history.names[k] for k in which[1].ravel()} == {"1-1"}
    assert motion.excess == pytest.approx(0.2)
    assert runs.step(motion) == pytest.approx(0.02)


def test_codes_of_all_layers_have_one_list_of_names():
    codes = [np.full((2, 3, 4, 2), (True, second)) for second in (False, True)]
    history = runs.code_history(SimpleNamespace(codes=codes))
    assert [{history.names[k] for k in layer.ravel()} for layer in history.layers] == [{"1-0"}, {"1-1"}]


def test_a_kernel_is_kept_by_neurons_that_exchange_their_codes():
    """One chain in which neurons stay, one in which they exchange, one in which inputs do; first and last."""
    rng = np.random.default_rng(0)
    first = rng.random((12, 9)) + 5
    phi = rng.random((3, 40, 12, 9))
    phi[:, :4], phi[0, -4:], phi[1, -4:] = first, first, first[np.roll(np.arange(12), 5)]
    phi[2, -4:] = first[:, ::-1]
    run = SimpleNamespace(samples=SimpleNamespace(activations=lambda _: phi))
    swing = np.resize([1, -1, 2, -2], 40)[:, None, None] * rng.random((12, 9))  # none in a tenth's average
    found = runs.kept(SimpleNamespace(run=run, means=[phi + swing]), 0)
    assert found.kernel == pytest.approx([1, 1, found.kernel[2]])
    assert found.neurons[0] == pytest.approx(1)
    assert np.all(np.abs(found.neurons[1:]) < 0.5)
    assert max(found.kernel[2], *found.shuffled[:2]) < 0.9


def swinging(amplitudes):
    """Series (2, 8, …) that differ by twice the amplitudes in half a run: of variance 2 amplitude²."""
    signs = np.repeat([1, -1], 4)
    return np.broadcast_to(
        signs.reshape(8, *[1] * np.ndim(amplitudes)) * amplitudes, (2, 8, *np.shape(amplitudes))
    )


def test_variances_in_time_are_those_of_neurons_that_keep_their_code_class_by_class(monkeypatch):
    labels, codes = np.array([0, 0, 1]), np.zeros((2, 8, 5, 2), bool)
    codes[:, :, [0, 2], 0] = codes[:, :, 1, 1] = codes[:, :, 3, 0] = codes[0, :, 4, 0] = True
    codes[1, 4:, 3, 0] = False  # changes within a chain; the next one is another in each chain
    amplitudes = np.array([[1.0, 1, 2], [3, 3, 4], [1, 1, 2], [90, 90, 90], [80, 80, 80]])
    run = SimpleNamespace(preactivations=[swinging(amplitudes)], task=SimpleNamespace(labels=labels))
    run.samples = SimpleNamespace(info=SimpleNamespace(step_size=np.array([0.1, 0.2])))
    means = np.array([0.9, 0.2, 0.7, 0.0, 0.0])[:, None] * np.array([1.0, 0.1]) * np.ones((2, 8, 1, 1))
    theory = SimpleNamespace(
        codes=np.array([[0, 0], [1, 0], [0, 1]], bool), probabilities=np.array([0.01, 0.6, 0.39])
    )
    asked = []
    expected = lambda _, *given: asked.append(given) or 3.0  # noqa: E731
    monkeypatch.setattr(runs.dynamics, "branch_variance", expected)
    found = runs.sigmoidal_variances(SimpleNamespace(codes=[codes], means=[means], run=run), theory)
    np.testing.assert_allclose(found.sampled.value, 2 * np.array([1, 2, 3, 4]) ** 2)
    assert found.names == [f"{code} on class {c}" for code in ("1-0", "0-1") for c in (0, 1)]
    places = [(1, 0, 0.8), (1, 1, 0.08), (2, 0, 0.2), (2, 1, 0.02)]  # rows of the solution
    np.testing.assert_allclose(asked, [(*place, 0.02) for place in places])


def test_the_order_of_wandering_neurons_is_their_memory_between_the_halves_of_a_run():
    size, span, neurons, steps = 40, 60.0, 40_000, 100
    theory = runs.solve("linear", size, 0.01)
    memory = runs.linear_memory(theory, span / steps * np.arange(steps), num_neurons=size)
    root = np.linalg.cholesky(toeplitz(memory) + 1e-9 * np.eye(steps))
    series = (root @ np.random.default_rng(0).standard_normal((steps, neurons)))[None, ..., None]
    found = permutation_order(series)
    expected = runs.wandering_order(size, 0.01, span)
    assert abs(found.value - expected) < 3 * found.standard_error + 2e-3  # a sum for an integral
    assert runs.least_order(size, 0.01, span) == pytest.approx((1 + expected) / 2)
    faster = runs.wandering_order(size, 0.01, span, mobility=float(size))
    assert faster < expected < runs.wandering_order(2 * size, 0.01, span)
