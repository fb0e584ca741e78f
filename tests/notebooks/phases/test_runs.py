"""What the chapter on the phase diagram measures: schemes, numbers, extrapolations, laws and groups."""

import json
from types import SimpleNamespace

import jax
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from chapter_code import drawing
from coding_schemes.networks import Network
from coding_schemes.sampling import SampleInfo, Samples
from coding_schemes.theory import sigmoidal
from companion import figures, workbench
from phases import runs
from test_calibration import assert_calibrated


def test_a_line_and_a_parabola_end_where_they_should():
    temperatures = np.array([0.02, 0.03, 0.04, 0.05])
    straight = runs.zero(temperatures, np.outer(0.08 - temperatures, [1.0, 1.0]))
    assert np.allclose(straight.temperature, 0.08)
    assert straight.error < 1e-9
    bent = runs.zero(temperatures, ((0.08 - temperatures) ** 2)[:, None] * [[0.9, 1.1]])
    assert 0.05 < bent.temperature < 0.08
    assert bent.extrapolation_error > 0.005
    scatter = np.zeros((4, 2))
    scatter[0] = 0.001, -0.001
    noisy = runs.zero(temperatures, (0.08 - temperatures)[:, None] + scatter)
    assert noisy.network_error > 0


def test_zeros_of_lines_by_the_jackknife():
    """Eight networks, straight to the zero at 0.08: what their noise does, and nothing from the bend."""
    rng, temperatures = np.random.default_rng(2), np.array([0.02, 0.03, 0.04, 0.05, 0.06])
    line = (0.08 - temperatures)[:, None]
    found = [runs.zero(temperatures, line + 2e-4 * rng.standard_normal((5, 8))) for _ in range(300)]
    estimates, errors = np.array([(f.temperature, f.network_error) for f in found]).T
    assert_calibrated(estimates, estimates.mean(), errors, 7 / 5, slack=0.25)
    np.testing.assert_allclose(np.mean(errors**2), estimates.var(), rtol=0.3)
    assert found[0].error == pytest.approx(np.hypot(found[0].network_error, found[0].extrapolation_error))
    gap = np.mean([f.extrapolation_error for f in found])
    assert 0 < gap < 5 * np.std(estimates)


def test_schemes_are_named_by_the_codes_that_hold_enough_neurons():
    rows = np.zeros((2, 8))
    rows[0, :3], rows[1, 0], rows[1, 3] = (0.4, 0.592, 0.008), 0.9, 0.1
    assert runs.schemes(rows) == [runs.NAMES[:2], (runs.NAMES[0], runs.NAMES[3])]
    rows[1] = rows[0]
    rows[1, :3] = 0.4, 0.585, 0.015  # the third code counts from one per cent on
    assert runs.count_schemes(rows).tolist() == [2, 1, 1]
    assert np.allclose(runs.effective_number(np.full((1, 8), 0.125)), 8)


def test_typical_shares_do_not_see_one_odd_network_and_treat_small_classes_alike():
    found = np.tile([30.0, 20, 10, 0, 0, 0, 0, 0], (8, 1))
    found[3] = [0, 0, 0, 0, 0, 0, 0, 60]
    shares = runs.typical(found)
    assert shares[0] == shares[1] == pytest.approx(25 / 60)
    assert shares[7] == 0
    found[:, :2], found[::2, :2] = [50, 10], [10, 50]  # no network has 30 of both
    found[:2, 2] += 15
    found[:2, 3] += 5
    assert runs.typical(found)[0] == pytest.approx(30 / found.sum(axis=1).mean())


@pytest.mark.parametrize(("y_minus", "temperature"), [(0.5, 0.02), (0.1, 0.05), (-0.5, 0.01)])
def test_numbers_of_all_codes_add_up_and_mirror(y_minus, temperature):
    found, variance = runs.numbers(24, y_minus, temperature)
    shared = 24 * runs.shares(runs.solve(24, y_minus, temperature)) > 0.1
    assert found[shared].sum() == pytest.approx(24)
    for each in (found, variance):
        assert each == pytest.approx(each[runs.MIRROR], abs=0.02)
    part = found % 1
    assert np.all(variance >= part * (1 - part) - 1e-9)  # as of any whole numbers with this mean


def test_code_changes_that_nobody_saw_have_an_error():
    codes = np.zeros((4, 11, 25, 3), bool)  # networks, samples, neurons, classes
    still = SimpleNamespace(codes=lambda: codes)
    assert runs.code_changes(still, 60) == (0, pytest.approx(60 / 1000))
    moving = codes.copy()
    moving[0, 5:, 0, 1] = True  # one change in a thousand
    found = runs.code_changes(SimpleNamespace(codes=lambda: moving), 60)
    assert found == (pytest.approx(60 / 1000), pytest.approx(60 / 1000))


def test_covariance_of_averages_is_that_of_shares_where_codes_are_told_by_readouts():
    """Far below T_c a readout settles the code, so that its probabilities are indicators."""
    solution = runs.solve(60, 0.3, 0.01)
    points, _ = sigmoidal.readout_ensemble(solution)
    distance = np.linalg.norm(points[:, None] - solution.readouts, axis=-1)
    nearest = solution.codes[distance.argmin(axis=1)]
    indicator = np.array([np.all(nearest == code, axis=1) for code in runs.CODES[:3]], dtype=float)
    found = sigmoidal.average_covariance(solution, indicator)
    assert found == pytest.approx(sigmoidal.occupancy_covariance(solution, runs.CODES[:3]), abs=1e-3)
    with pytest.raises(ValueError, match="values"):
        sigmoidal.average_covariance(solution, indicator[:, 1:])


def test_the_variance_of_the_readouts_falls_with_temperature():
    cold, warm, hot = (runs.predicted_variance(20, 0.5, t) for t in (0.01, 0.04, 0.5))
    assert cold > warm > 5 * hot
    assert hot == pytest.approx(3 / 20, rel=0.15)  # the prior's: three outputs of variance 1/P
    assert runs.predicted_variance(20, 0.5, 0.04, 1e6) == pytest.approx(warm, rel=1e-4)
    prior = runs.predicted_variance(20, 0.5, 1e3, 5)  # of five independent neurons about their mean
    assert prior == pytest.approx(3 / 20 * (1 - 1 / 5), rel=1e-2)


def test_the_variance_at_finite_width_does_not_depend_on_where_readouts_are_counted_from(monkeypatch):
    """Second moments, means and their corrections all change with the origin; the variance does not."""
    runs.solve(20, 0.5, 0.04)
    found = runs.predicted_variance(20, 0.5, 0.04, 20)
    assert abs(found / runs.predicted_variance(20, 0.5, 0.04) - 1) > 0.01

    def moved(solution):
        points, weights = sigmoidal.readout_ensemble(solution)
        return points + np.array([0.5, -1.0, 2.0]), weights

    monkeypatch.setattr(runs, "sigmoidal", SimpleNamespace(**vars(sigmoidal) | {"readout_ensemble": moved}))
    assert runs.predicted_variance(20, 0.5, 0.04, 20) == pytest.approx(found, rel=1e-5)


def test_strips_name_the_codes_of_the_neurons_beside_them():
    """The chapter's own drawing: every row of a panel has, at its height, the color of its code."""
    codes = [[["1-1-0", "0-1-1", "1-1-1"]], [["1-0-1", "1-0-1", "0-1-1"]]]
    activations = np.random.default_rng(0).random((2, 1, 3, 6))
    figure = drawing(runs, "two_rows")(activations, np.arange(6) // 2, [""], [], codes)
    figure.canvas.draw()
    panels = [axis for axis in figure.axes if axis.get_images()]
    for panel, names in zip(panels, np.reshape(codes, (2, 3)), strict=True):
        (strip,) = panel.child_axes
        for k, (name, patch) in enumerate(zip(names, strip.patches, strict=True)):
            assert mpl.colors.to_hex(patch.get_facecolor(), False) == figures.CODE_COLORS[name].lower()
            middle = strip.transData.transform((0.5, patch.get_y() + patch.get_height() / 2))
            assert panel.transData.inverted().transform(middle)[1] == pytest.approx(k)
    plt.close(figure)


def test_the_explorers_shares_are_held_against_the_atlas_next_to_it_in_temperature(tmp_path, monkeypatch):
    """Codes of the two stand in other orders, and mirrored ones share what either has."""
    rng, folder = np.random.default_rng(0), tmp_path / "data" / "results"
    folder.mkdir(parents=True)
    names = ["".join("01"[int(active)] for active in code) for code in runs.CODES]
    mirror = [names.index(name[0] + name[2] + name[1]) for name in names]
    order, task = rng.permutation(8), {"numInputs": 20, "ratios": [0.5, 0.25, 0.25], "yMinus": 0.1}
    elsewhere = [task | {"temperature": T, "shares": [T] * 8} for T in (0.2, 0.3)]
    share = lambda temperature: SimpleNamespace(occupancy=lambda code: temperature + code[0])  # noqa: E731
    monkeypatch.setattr(runs, "sigmoidal", SimpleNamespace(solve=lambda _, temperature: share(temperature)))
    monkeypatch.chdir(tmp_path)

    def held(stored, grid):
        np.savez(folder / "redundant-atlas.npz", codes=runs.CODES[order], occupancies=stored[..., order])
        given = {"codes": names, "grid": grid.reshape(-1, 8).tolist(), "elsewhere": elsewhere}
        (folder / "explorer.json").write_text(json.dumps(given))
        return runs.explored()

    by_target, by_temperature = rng.random((4, 1, 8)), rng.random((1, 3, 8))
    for rows, alike in ((by_target, True), (by_temperature, False)):
        stored = np.broadcast_to(rows, (4, 3, 8))
        found = held(stored, stored[..., mirror])
        np.testing.assert_allclose(found.off, np.zeros((4, 3)), atol=1e-12)
        assert np.all(np.isclose(found.next_off, 0) == alike)
    stored, grid = rng.random((2, 4, 3, 8))
    found, halves = held(stored, grid), (stored + stored[..., mirror] - grid - grid[..., mirror]) / 2
    np.testing.assert_allclose(found.off, np.abs(halves).max(-1))
    np.testing.assert_allclose(found.elsewhere, [[0.2] * 8, [0.3] * 8])
    np.testing.assert_allclose(found.theory, np.add.outer([0.2, 0.3], runs.CODES[:, 0]))
    np.testing.assert_allclose(found.warmer, np.add.outer([0.4, 0.6], runs.CODES[:, 0]))
    assert found.num_inputs == [20, 20]


def test_between_the_atlas_and_the_critical_temperature_shares_are_the_theorys():
    """Codes of merged maxima go at once there, so that no line may lead across."""
    targets, temperatures = np.array([0.1, 0.4]), np.array([0.001, 0.01, 0.05, 0.3])
    critical = np.array([runs.critical_temperature(60, y) for y in targets])
    task = {"targets": targets, "temperatures": temperatures, "codes": runs.CODES, "num_inputs": np.array(60)}

    def theory(y, temperature):
        return [runs.solve(60, y, temperature).occupancy(code) for code in runs.CODES]

    rows = [[theory(y, t) for t in temperatures] for y in targets]
    atlas = task | {"critical_temperatures": critical, "occupancies": np.array(rows)}
    for k, y in enumerate(targets):
        fine = np.array([0.001, 0.01, 0.7 * critical[k], 0.97 * critical[k], 0.3])
        found = runs._at(*runs._up_to_critical(atlas, k), fine / critical[k])
        expected = [theory(y, t) for t in fine[:4]]
        np.testing.assert_allclose(found[:4], expected, atol=0.1)
        np.testing.assert_allclose(found[4], theory(y, 0.995 * critical[k]), atol=1e-6)


def test_the_map_has_the_codes_of_the_theory_down_to_the_lowest_temperature(tmp_path, monkeypatch):
    """Four as common as each other below T_c/10, two from there on and one above T_c, wherever that is."""
    (folder := tmp_path / "data" / "results").mkdir(parents=True)
    critical, temperatures = np.array([0.02, 0.2, 0.06]), np.array([0.001, 0.3])
    given = {"targets": np.array([0.1, 0.2, 0.3]), "temperatures": temperatures}
    np.savez(folder / "redundant-atlas.npz", critical_temperatures=critical, **given)
    monkeypatch.chdir(tmp_path)
    shares = np.array([[0.25] * 4, [0.25] * 4, [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]])

    def line(atlas, row):
        return np.array([temperatures[0] / critical[row], 0.0999, 0.1001, 0.995]), shares

    monkeypatch.setattr(runs, "_up_to_critical", line)
    found = runs.atlas_map()
    boundary = np.interp(found["horizontal"], given["targets"], critical)
    np.testing.assert_allclose(found["boundary"], boundary)
    reduced = found["vertical"] / boundary[:, None]
    expected = np.where(reduced > 1, 1, np.where(reduced > 0.1, 2, 4))
    edge = np.min(np.abs(np.log(reduced[..., None] / [0.1, 1])), axis=-1) < 0.05
    np.testing.assert_allclose(found["values"][~edge], expected[~edge])


def test_a_power_law_is_found_and_told_from_an_exponential_one():
    rng, times, found = np.random.default_rng(0), 2.0 ** np.arange(6), []
    mean = 0.3 * times[:, None] ** -0.3
    for _ in range(300):
        found.append(runs.law(times, mean + 0.03 * mean**0.5 * rng.standard_normal((6, 8))))
    exponents = np.array([one.exponent for one in found])
    assert_calibrated(exponents[:, 0], -0.3, exponents[:, 1], slack=0.6)
    pvalues = [runs.pvalue([one]) for one in found]
    assert 0.9 < np.mean(np.array(pvalues) > 0.05) <= 1
    noisy = 0.3 * np.exp(-times / 8)[:, None] * (1 + 0.1 * rng.standard_normal((6, 8)))
    assert runs.pvalue([runs.law(times, noisy)]) < 0.01
    assert runs.pvalue([runs.law(times, noisy, exponential=True)] * 2) > 0.01
    assert np.isnan(runs.law(times, np.zeros((6, 8))).exponent.value)
    two = [runs.Law(None, 1.0, chi_sq, 1, 12) for chi_sq in (3.0, 5.0)]
    assert runs.pvalue(two) == pytest.approx((1 + 8 / 24) ** -12)  # F with 2 and d degrees: (1 + 2F/d)^(−d/2)
    assert np.isnan(runs.pvalue([]))


@pytest.mark.parametrize("sizes", [(48, 32), (32, 48)])
def test_groups_are_the_modes_of_the_density(sizes):
    """And each has its own code, whichever is the larger."""
    rng, labels = np.random.default_rng(1), np.repeat([0, 1, 2], 20)
    codes = np.repeat([[1, 1, 0], [0, 0, 1]], sizes, axis=0)
    readouts = (2.0 * codes + 0.1 * rng.standard_normal((4, 80, 3)))[:, None]
    activations = np.repeat(codes[None, :, labels] * 0.8 + 0.1, 4, axis=0)
    task = SimpleNamespace(num_inputs=60, labels=labels)
    found = runs.groups(SimpleNamespace(readouts=readouts, activations=activations, task=task))
    assert found.number == 2
    shares = {tuple(code): share for code, share in zip(runs.CODES, runs.group_shares(found), strict=True)}
    assert [shares[1, 1, 0], shares[0, 0, 1]] == pytest.approx(np.array(sizes) / 80)
    several = runs.Groups(np.array([0.5, 0.3, 0.2]), np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=bool))
    assert sorted(runs.group_shares(several))[-2:] == pytest.approx([0.3, 0.7])  # two groups of one code
    one = runs.groups(SimpleNamespace(readouts=0.05 * readouts, activations=activations, task=task))
    assert one.number == 1


def test_only_codes_with_half_a_neuron_a_network_count():
    codes = np.zeros((8, 10, 2), bool)
    codes[:, :5, 0] = True
    codes[:4, 9] = True  # in four of eight networks
    assert runs.used_codes(codes).tolist() == [[False, False], [True, False]]
    codes[4, 9] = True
    assert len(runs.used_codes(codes)) == 3


def test_networks_quenched_at_once_hold_codes_of_one_class_until_they_may_change_them():
    found = runs.networks(
        jax.random.key(0),
        size=40,
        y_minus=0.1,
        temperature=0.01,
        num_networks=4,
        num_quench=80,
        num_warmup=60,
        num_samples=4,
        at_once=runs.COLD,
    )
    assert found.place == (0.1, 0.01)
    assert found.quenched.posterior.temperature == runs.COLD
    before, after = found.quenched_numbers.mean(0) / 40, found.free_shares.value
    assert before[runs.SINGLE].sum() > 0.25 > 0.1 > after[runs.SINGLE].sum()
    assert np.all(before[runs.SINGLE] > 0.01)
    assert runs.farthest([found])[0] < 4 < found.deviations(found.quenched_numbers).max()
    for half, shift in ((slice(2), 0.0), (slice(2, None), 0.3)):
        n, mean = found.numbers.mean(1)[half], runs.numbers(40, 0.1, 0.01)[0]
        mean = 40 * runs.shares(runs.solve(40, 0.4, 0.01)) if shift else mean
        error = np.maximum(n.std(0, ddof=1), runs.numbers(40, 0.1, 0.01)[1] ** 0.5) / len(n) ** 0.5
        assert runs.farthest([found], shift, half) == pytest.approx(
            [np.max(np.abs(n.mean(0) - mean) / error)]
        )
    assert runs.lost(found.quenched_numbers[0], 0.1, 0.01) > 10


def test_a_slower_cooling_freezes_fewer_neurons():
    options = {"num_neurons": 30, "num_networks": 4, "mobility": "prior variance"}
    found = runs.frozen_share(runs.cooled_in(jax.random.key(1), (1.0, 30.0), **options), 30)
    assert found.shape == (2, 4)
    assert found[0].mean() > 1.3 * found[1].mean()


@pytest.mark.parametrize("mobility", list(runs.STEPS))
def test_a_cooling_takes_the_time_that_it_is_plotted_at(mobility, monkeypatch):
    """A Langevin step of size ε is a time of ε²/2."""
    spent = []

    def sample(*_, num_warmup, method, **__):
        spent.append(num_warmup[0] * method.num_steps * method.step_size**2 / 2)

    monkeypatch.setattr(runs, "sample", sample)
    monkeypatch.setattr(runs, "counted", lambda _: np.zeros((2, 1, 8)))
    runs.cooled_in(jax.random.key(0), (3.0, 40.0), num_neurons=8, num_networks=2, mobility=mobility)
    assert spent == pytest.approx([3, 40], rel=0.05)


def test_classes_that_neurons_answer_to_have_a_neuron_in_their_error():
    codes = np.zeros((4, 20, 3), bool)
    codes[:, :10, 0] = codes[:, :5, 1] = True
    same = runs.answered(codes)
    assert same.value == pytest.approx(0.75)
    assert same.error == pytest.approx(1 / 12**0.5 / 20)
    codes[0, :, 2] = True
    assert runs.answered(codes).error == pytest.approx(np.hypot(0.25, same.error))


def made_up(codes, energy=0.0):
    """Samples of sigmoidal networks whose neurons have given codes (chains, samples, N, C), an input each."""
    chains, samples, width, num_classes = codes.shape
    zeros, energy = np.zeros((chains, samples)), np.broadcast_to(energy, (chains, samples))
    return Samples(
        readouts=np.broadcast_to(np.arange(chains)[:, None, None, None] % 2, codes.shape),
        preactivations=(np.where(codes, 9.0, -9.0),),
        **dict.fromkeys(("weights", "outputs", "mean_outputs", "kernels", "predictions", "warmup_info")),
        info=SampleInfo(zeros, energy, zeros, zeros, zeros, zeros, {}),
        final=None,
        temperature=0.1,
        seconds={},
        network=Network(1, width, "sigmoidal"),
        labels=np.arange(num_classes),
    )


def all_alike(width, others):
    """Codes (2, 200, N, 3): of class 0 alone, but for one neuron that in a share of samples has class 1."""
    codes = np.broadcast_to([True, False, False], (2, 200, width, 3)).copy()
    codes[:, :, 0] = np.where(
        np.random.default_rng(0).random((2, 200, 1)) < others, *np.eye(3, dtype=bool)[[1, 0]]
    )
    return codes


APART = [(0.0, 0.0, True), (0.0, 1.0, False), (0.35, 0.0, True), (0.65, 0.0, False), (1.0, 0.0, False)]


@pytest.mark.parametrize(("others", "energy", "agree"), APART)
def test_starts_meet_up_to_half_a_neuron_and_only_if_their_energies_do(others, energy, agree, monkeypatch):
    """Half of the free networks go on from quenched ones, and half from planted ones."""
    begun = []
    halves = all_alike(20, 0.0), all_alike(20, others)
    found = made_up(np.concatenate(halves), 1 + energy * np.repeat([0, 1], 2)[:, None])

    def sample(*_, init, **__):
        begun.append(init)
        return found

    quenched = SimpleNamespace(samples=SimpleNamespace(final=np.arange(4)))
    given = {"sample": sample, "quench": lambda *_, **__: quenched, "planted": lambda *_: np.array([10, 11])}
    for name, answer in (given | {"solve": lambda *_: None}).items():
        monkeypatch.setattr(runs, name, answer)
    counts = {"num_networks": 4, "num_quench": 8, "num_warmup": 8, "num_samples": 200}
    free = runs.networks(jax.random.key(0), size=20, y_minus=0.5, temperature=0.1, **counts)
    assert [start.tolist() for start in begun] == [[0, 1, 10, 11]]
    assert free.meeting.agree == agree, free.meeting.verdict
    for half, codes in zip(free.halves, halves, strict=True):
        assert half.info.energy.shape == half.readouts.shape[:2] == (2, 200)
        np.testing.assert_array_equal(half.codes(), codes)


@pytest.mark.parametrize(("others", "energy", "agree"), APART)
def test_starts_of_many_classes_meet_up_to_half_a_neuron(others, energy, agree, monkeypatch):
    width, plants = runs.many_task(3).num_inputs, []
    from_prior, from_theory = (
        made_up(all_alike(width, 0.0), 1.0),
        made_up(all_alike(width, others), 1 + energy),
    )

    def planted(keys, *_):
        plants.extend(keys)
        return "planted"

    def sample(*_, init="prior", num_chains, **__):
        assert num_chains == 2
        return {"prior": from_prior, "planted": from_theory}[init]

    monkeypatch.setattr(runs, "many_classes", lambda *_: None)
    monkeypatch.setattr(workbench, "planting", SimpleNamespace(planted=planted))
    monkeypatch.setattr(workbench, "sample", sample)
    counts = {"num_networks": 4, "num_warmup": 1, "num_samples": 200}
    drawn, codes = runs.many_networks(jax.random.key(0), num_classes=3, temperature=0.1, **counts)
    assert len(plants) == 2
    assert drawn.meeting.agree == agree, drawn.meeting.verdict
    np.testing.assert_array_equal(codes, np.concatenate([from_prior.codes(), from_theory.codes()]))


def test_deviations_are_in_the_larger_one_of_both_errors(monkeypatch):
    """Of eight codes: the networks' spread counts for the first, theory's variance for the second."""
    expected, variance = np.array([10.0, 6, 0, 0, 0, 0, 0, 4]), np.array([0.04, 9.0, 0, 0, 0, 0, 0, 0])
    monkeypatch.setattr(runs, "numbers", lambda *_: np.stack([expected, variance]))
    monkeypatch.setattr(
        runs, "solve", lambda size, y, _: {0.5: expected / size, 0.6: expected[::-1] / size}[y]
    )
    monkeypatch.setattr(runs, "shares", lambda solution: solution)
    found = expected + np.array([[2.0, 1], [4, 1], [2, 1], [4, 1]]) @ np.eye(2, 8)
    networks = SimpleNamespace(task=SimpleNamespace(num_inputs=20), place=(0.5, 0.1), theory=expected / 20)
    off = runs.Networks.deviations(networks, found)
    np.testing.assert_allclose(off, [3 / (1 / 3**0.5), 1 / (9 / 4) ** 0.5, *[0] * 6])
    moved = runs.Networks.deviations(networks, found, 0.1)
    np.testing.assert_allclose(moved[:2], [(13 - 4) * 3**0.5, 7 / 1.5])
    assert runs.Networks.change(networks, 0.1) == pytest.approx(6)


def test_what_held_numbers_cost_is_their_gaussian_form():
    """Nothing where theory is, and half a squared distance in its covariance at numbers nearby."""
    theory = runs.solve(60, 0.3, 0.001)  # of three codes
    inverse = np.linalg.inv(60 * sigmoidal.occupancy_covariance(theory, runs.CODES[:2]))
    for step in ([0, 0], [1, 0], [0, -1], [1, -1]):
        held = np.array([20, 20, 20, 0, 0, 0, 0, 0]) + np.array([*step, -sum(step), 0, 0, 0, 0, 0])
        away = (held - 60 * runs.shares(theory))[:2]
        assert runs.lost(held, 0.3, 0.001) == pytest.approx(0.5 * away @ inverse @ away, rel=0.1, abs=1e-4)


def test_variance_of_readouts_and_its_scatter_over_networks():
    """Far above T_c readouts are the prior's, of variance 1/P: their squares add up to χ² of three."""
    assert runs.variance_scatter(20, 0.5, 50.0) == pytest.approx(np.sqrt(2 * 3 / 20) / 20, rel=0.02)
    neurons = np.array([[1.0, 2, 0], [-1, -2, 0], [1, 2, 0], [-1, -2, 0]])
    over_time = np.array([[[0.0]], [[5.0]]]) + np.array([1.0, 3.0])[:, None, None] * neurons
    found = runs.readout_variance(SimpleNamespace(readouts=np.stack([over_time, 2 * over_time])))
    np.testing.assert_allclose(found, [5 * (1 + 9) / 2, 4 * 5 * (1 + 9) / 2])


def test_differences_of_independent_estimates_have_both_errors():
    one, other = np.array([[1.0, 3, 5], [0, 0, 0]]), np.array([[0.0, 2], [1, 5]])
    found = runs.difference(one, other)
    np.testing.assert_allclose(found.value, [2, -3])
    np.testing.assert_allclose(found.error, [np.hypot(2 / 3**0.5, 1), 2])
