"""What the chapter on sparse coding measures, on cases that need no sampling."""

from types import SimpleNamespace

import jax
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from chapter_code import drawing
from coding_schemes import coding, planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import relu
from companion import figures
from companion.findings import Estimate
from companion.workbench import estimate
from sparse import runs

LABELS = np.repeat([0, 1, 2], [8, 4, 4])


def test_a_bulk_that_codes_for_a_class_saves_an_outlier():
    assert relu.solve(runs.background_task(100), 0.01).num_outliers == 2


def test_a_split_outlier_does_the_same_on_its_class_and_is_silent_elsewhere():
    task = runs.toy(16)
    posterior = Posterior(task, Network(1, 12, "relu"), 0.01)
    finite = relu.finite_size(relu.solve(task, 0.01), 12)
    weights = planting.planted(jax.random.key(0), finite, posterior)
    on, arrays = task.labels == 1, []
    for each in (weights, runs.split(posterior, weights, 1)):
        phi = np.maximum(posterior.preactivations(each)[0], 0)
        arrays.append((phi, np.asarray(posterior.readouts(each))))
    (phi, a), (divided, others) = arrays
    one = phi[:, on].mean(1).argmax()
    (two,) = set(np.flatnonzero(np.any(a != others, axis=1))) - {one}
    pair = [one, two]
    np.testing.assert_allclose(
        divided[pair][:, on].T @ others[pair], np.outer(phi[one, on], a[one]), rtol=1e-4
    )
    assert np.all(divided[two, ~on] == 0)
    np.testing.assert_allclose(np.square(others[pair]).sum(0), np.square(a[one]), rtol=1e-4)
    kept = np.delete(np.arange(12), pair)
    np.testing.assert_allclose(divided[kept], phi[kept], atol=1e-4)


def test_sizes_are_those_of_class_0_in_networks_and_in_theory():
    """|a| without z, and the bulk on this class only; theory as in a network drawn from it."""
    readouts = np.array([[3.0, -4.0, 0.0], [9.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    preactivations, bulk = np.array([[7.0, -1, -1], [-1, 9, -1], [-1, -1, 9]]), np.array([0.5, 0.1, 0.3])
    made = (np.arange(3), readouts, preactivations, np.ones(3), np.ones(3), bulk)
    found = runs.sizes_of(
        runs.SparseMeasures(*(np.tile(each, (2, 4, *np.ones(each.ndim, int))) for each in made))
    )
    np.testing.assert_allclose(found.value, [5, 7, 0.5])
    task, width = runs.toy(40), 40
    finite = relu.finite_size(relu.solve(task, 0.01), width)
    z, a = finite.draw(np.random.default_rng(0), task.labels, width)
    mean = z[:, task.labels == 0].mean(1)
    strength, size, activation = runs.sizes_in_theory(finite)
    assert strength == pytest.approx(np.linalg.norm(a[mean.argmax()]))
    assert size == pytest.approx(mean.max(), rel=0.05)
    silent = np.maximum(z[finite.num_outliers :, task.labels == 0], 0)
    assert activation == pytest.approx(silent.mean(), abs=4 * silent.std() / silent.size**0.5)


def test_carriers_are_counted_network_by_network_as_a_mean_over_samples():
    """Two networks of three samples: one neuron per class in those of the first, two in the other's."""
    labels, rng = np.array([0, 0, 1]), np.random.default_rng(0)
    one, two = np.eye(4)[:2, labels], np.eye(4)[[0, 0, 1, 1]][:, labels]
    phi = np.tile(np.stack([np.pad(one, ((0, 2), (0, 0))), two])[:, None], (1, 3, 1, 1))
    phi *= rng.uniform(1, 2, (2, 3, 1, 1))
    task = tasks.own(rng.standard_normal((7, 3)), labels)
    run = SimpleNamespace(samples=SimpleNamespace(activations=lambda layer: phi), task=task)
    run.posterior = Posterior(task, Network(3, 4, "relu"), 0.5)
    deep = runs.Deep(*(SimpleNamespace(run=run, counts=np.ones((2, 3))) for _ in range(2)), np.ones((2, 2)))
    for found in deep.carriers(2):
        np.testing.assert_allclose(found, [[1, 1], [2, 2]])
    assert deep.size == {"L": 3, "N": 4, "P": 3, "T": 0.5, "networks": 4}


def test_contrast_is_of_pairs_of_different_inputs():
    """Nothing where every input has neurons of its own; all where a class shares them."""
    assert runs.contrast(np.eye(16), LABELS) == pytest.approx(0)
    assert runs.contrast(np.eye(3)[LABELS].T, LABELS) == pytest.approx(1)


def test_statements_about_depth():
    rng = np.random.default_rng(0)
    classes = np.eye(3)[LABELS].T
    layers = []
    for rows in (classes[1:], classes[[1, 1, 2]], classes):
        phi = 0.1 * rng.random((60, 16))
        phi[: len(rows)] = (2 + len(layers)) * rows
        layers.append(phi[None])
    assert runs.statements(layers, LABELS).tolist() == [[True] * 4]
    assert runs.statements(layers[::-1], LABELS)[0, [0, 2, 3]].tolist() == [False] * 3
    layers[2] = np.concatenate([layers[2], layers[2][:, :1]], axis=1)  # a second outlier of class 0
    assert runs.statements(layers, LABELS)[0, 2]


def test_exponent_of_a_power_law_and_its_error():
    sizes = [30, 100, 60]
    value = 2.0 * np.array(sizes)[:, None] ** np.array([0.5, -0.5])
    found = runs.exponent(sizes, Estimate(value, 0.01 * value))
    np.testing.assert_allclose(found.value, [0.5, -0.5])
    np.testing.assert_allclose(found.error, 0.01 * 2**0.5 / np.log(100 / 30))


@pytest.fixture(scope="module")
def planted():
    """Networks drawn from theory at N = P = 100, as if they were samples."""
    task = runs.toy(100)
    finite = relu.finite_size(relu.solve(task, 0.01), 100)
    posterior = Posterior(task, Network(1, 100, "relu"), 0.01)
    weights = planting.planted(jax.random.split(jax.random.key(1), 48), finite, posterior)
    z = np.asarray(jax.vmap(posterior.preactivations)(weights)[0]).reshape(12, 4, 100, 100)
    readouts = np.asarray(jax.vmap(posterior.readouts)(weights)).reshape(12, 4, 100, 3)
    activations = np.maximum(z, 0)
    samples = SimpleNamespace(
        activations=lambda: activations, codes=lambda: coding.outliers(activations, task.labels).codes
    )
    run = SimpleNamespace(task=task, samples=samples, readouts=readouts, preactivations=(z,))
    return SimpleNamespace(task=task, finite=finite, paths=[runs.Path(run, None)])


def test_likelihood_of_networks_drawn_from_theory(planted):
    found = runs.likelihood(planted)
    value, error = (float(np.mean(part)) for part in found.sampled)
    assert abs(value - found.theory) < 4 * error
    assert found.theory > 0 > found.gaussian
    assert value - found.gaussian > 3 * error
    grid, divergences = np.linspace(-9, 9, 6001), []
    for c in range(3):
        p = relu.bulk_density(planted.finite, grid, c)
        mean = np.trapezoid(p * grid, grid)
        spread = np.trapezoid(p * (grid - mean) ** 2, grid) ** 0.5
        log_q = -0.5 * ((grid - mean) / spread) ** 2 - np.log(spread * np.sqrt(2 * np.pi))
        divergences.append(1000 * np.trapezoid(p * (np.log(p) - log_q), grid))
    assert found.theory == pytest.approx(
        np.array([0.5, 0.25, 0.25]) @ divergences, rel=1e-4
    )  # every input alike


def test_share_that_outliers_carry_in_networks_drawn_from_theory(planted):
    found = estimate(runs.carried(planted))
    expected = runs.carried_in_theory(planted.finite, 0.01)
    assert np.all(np.abs(found.value - expected) < 4 * found.error + 0.02)  # draws fit the targets to 1/√N
    assert expected[0] < 0.97 < 1 < expected[1]


def test_spread_of_the_bulk_is_that_of_the_theory_it_is_drawn_from(planted):
    found = runs.bulk_spread(planted)
    expected = np.sqrt(np.diag(planted.finite.bulk_readout_covariance))
    assert np.all(np.abs(found.value - expected) < 4 * found.error)


def test_figures_of_the_populations_show_the_bulk_without_the_outliers_beside_theory(planted):
    for part in runs.populations(planted):
        assert part["bulk"].shape == (48 * (100 - 3),)
        assert part["outliers"].shape == (3, 48)
        density, grid, own = part["density"], part["grid"], part["outliers"]
        assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-3)
        error = part["bulk"].std() / len(part["bulk"]) ** 0.5
        assert abs(part["bulk"].mean() - np.trapezoid(density * grid, grid)) < 4 * error
        assert np.all(np.abs(own.mean(1) - part["levels"]) < 4 * own.std(1) / 48**0.5 + 0.02)


def test_frames_of_the_coarsening_are_as_many_for_every_factor_of_time_and_show_what_was_then():
    """A neuron whose outlier moves from class to class; a dot has the color of the class it lies at."""
    times = np.cumsum(5 * np.repeat(2 ** np.arange(10), 32))
    codes = np.tile(np.eye(3, dtype=bool)[np.arange(len(times)) % 3][:, None], (1, 2, 1))
    codes[:, 1] = False  # a neuron of the bulk
    counts = np.stack([np.arange(len(times)), np.zeros(len(times))])
    run = SimpleNamespace(times=times, codes=codes, activations=5.0 * codes, counts=counts, losses=counts + 1)
    found = runs.film(run)
    assert found["now"][[0, -1]].tolist() == [times[0], times[-1]]
    assert found["num_frames"] == len(found["now"]) == found["still"] + 1 == 60
    where = np.searchsorted(times, found["now"])
    assert np.ptp(np.histogram(np.log(found["now"]), np.linspace(np.log(200), np.log(times[-1]), 5))[0]) <= 3
    leaves = {name: value for name, value in found.items() if name not in ("num_frames", "still")}
    frame_of, figure = drawing(runs, "coarsening_frame"), None
    for frame in (3, 58, 20):
        figure = frame_of(frame, **leaves, figure=figure)
        plane, *curves = figure.axes
        (dots,) = plane.collections
        angle = np.arctan2(*dots.get_offsets()[0][::-1]) - np.pi / 2
        place = "-".join("01"[k == round(angle / (2 * np.pi / 3)) % 3] for k in range(3))
        assert place == "-".join("01"[int(on)] for on in codes[where[frame], 0])
        colors = [mpl.colors.to_hex(color) for color in dots.get_facecolor()]
        assert colors == [figures.CODE_COLORS[name].lower() for name in (place, "0-0-0")]
        for curve, values in zip(curves, (counts, counts + 1), strict=True):
            shown = curve.lines[-1].get_xydata()
            np.testing.assert_array_equal(shown, np.stack([times, values[0]], 1)[: where[frame] + 1])
    plt.close(figure)


def test_strong_neurons_have_half_of_the_strongest_ones_activity_on_a_class():
    labels, means = np.array([0, 1, 1]), np.array([[4.0, 1.0], [2.0, 0.4], [1.9, 0.6], [0.0, 0.5]])
    phi = means[:, labels] + np.array([0.0, -0.2, 0.2])
    np.testing.assert_array_equal(runs.num_strong(np.stack([phi, 2 * phi]), labels), [[2, 3], [2, 3]])


def test_price_of_a_copy_is_in_nats_per_input_and_counts_are_those_of_split_starts(monkeypatch):
    task, started = runs.toy(16), []

    def sample(posterior, key, *, init, moves, num_chains):
        started.append((init, str(jax.random.key_data(key)), moves))
        codes = np.zeros((num_chains, 3, 12, 3), bool)
        codes[0, :, : len(started), 0] = codes[0, :, 0, 1] = True
        own = np.array([1.0, 2.0, 3.0, 6.0]) * len(started)
        energy = 16 * (100 * len(started) + own[:, None] + [-5, 0, 5])
        return SimpleNamespace(info=SimpleNamespace(energy=energy), codes=lambda: codes)

    monkeypatch.setattr(runs, "sample", sample)
    monkeypatch.setattr(runs, "planted", lambda *_: "whole")
    monkeypatch.setattr(runs, "split", lambda _, weights, c: f"{weights} {c}")
    finite = SimpleNamespace(task=task)
    found, counts = runs.price_of_a_copy(jax.random.key(0), finite, None, num_chains=4)
    assert [start[0] for start in started] == ["whole", "whole 0", "whole 1", "whole 2"]
    assert len({start[1] for start in started}) == 4
    assert {start[2] for start in started} == {()}
    np.testing.assert_allclose(found.value, [103, 206, 309])
    error = np.std([1, 2, 3, 6], ddof=1) / 2
    np.testing.assert_allclose(found.error, error * np.hypot(1, [2, 3, 4]))
    np.testing.assert_array_equal(counts[:, :, 0], [[2, 0, 0, 0], [3, 0, 0, 0], [4, 0, 0, 0]])


def test_coarsening_is_timed_by_when_its_numbers_last(monkeypatch):
    """Steps at which chains lose their loss, have every class, and have one outlier for each for good."""
    now, intervals, methods = [0], [], set()

    def sample(posterior, key, count, *, init, method, **_):
        intervals.append(method.num_steps)
        methods.add((method.mobility, method.step_size))
        at = now[0] + method.num_steps * np.arange(1, count + 1)
        now[0] = at[-1]
        codes = np.zeros((2, count, 12, 3), bool)
        codes[:, :, 0, 0] = codes[:, :, 1, 1] = True
        codes[:, :, 2, 2] = (at > 100) & (at != 120)
        codes[0, at < 3000, 3, 1] = codes[1, :, 3, 1] = True  # the second chain keeps a fourth outlier
        losses = np.where(at < np.array([[200], [400]]), 9.0, 1.0)
        info = SimpleNamespace(squared_error=losses, energy=16 * np.broadcast_to(at, (2, count)))
        phi = codes[..., posterior.task.labels].astype(float)
        return SimpleNamespace(final=None, codes=lambda: codes, info=info, activations=lambda: phi)

    monkeypatch.setattr(runs, "sample", sample)
    posterior = SimpleNamespace(task=runs.toy(16), readout_std=0.25)
    found = runs.coarsen(jax.random.key(0), posterior, num_chains=2, max_steps=20_000)
    runs.coarsen(jax.random.key(0), posterior, num_chains=2, max_steps=100, mobility="unit")
    assert methods == {("prior variance", runs.EPSILON), ("unit", runs.EPSILON / 4)}
    after = lambda step: found.times[found.times >= step][0]  # noqa: E731
    assert intervals[:3] == [5, 10, 20]
    assert found.times[-1] == 32 * sum(intervals[:-1]) >= 20_000
    assert np.all(np.diff(found.times) > 0)
    np.testing.assert_array_equal(found.zero, [after(200), after(400)])
    np.testing.assert_array_equal(found.first_coded, [after(101)] * 2)
    np.testing.assert_array_equal(found.final, [after(3000), found.times[-1]])
    np.testing.assert_array_equal(found.reached, [True, False])
    np.testing.assert_array_equal(found.energies[0], found.times)
    np.testing.assert_array_equal(found.counts[:, [0, -1]], [[3, 3], [3, 4]])
    np.testing.assert_array_equal(found.activations, found.codes)
