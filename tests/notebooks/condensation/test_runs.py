"""What the chapter on condensation measures, on cases that need little sampling."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from condensation import runs

LABELS = np.repeat([0, 1, 2], [8, 4, 4])


def made(width, inverse):
    """Networks of a width whose chains have these 1/PR of every class."""
    inverse = np.asarray(inverse, float)[:, None] * np.ones(3)
    half = len(inverse) // 2
    size, rest = {"N": width, "P": 16, "L": 1}, (np.ones(2), np.ones(2), np.eye(16))
    return runs.Networks(size, inverse[:half], inverse[half:], inverse, *rest)


def test_participation_is_harmonic_over_chains_and_classes():
    found = made(40, [0.5, 0.25, 0.5, 0.25])
    assert found.participation.value == pytest.approx(1 / 0.375)
    step = 1e-6
    slope = (1 / (0.375 + step) - 1 / 0.375) / step
    assert found.participation.error == pytest.approx(-slope * np.std([0.5, 0.25] * 2, ddof=1) / 2, rel=1e-4)


def test_classes_that_differ_have_one_participation_in_networks_and_in_theory():
    """Harmonic, too: 1, 3 and 3 neurons are 9/5."""
    each = np.array([1.0, 3, 3])
    assert runs.per_class(SimpleNamespace(participation=lambda num_neurons: each), 40) == pytest.approx(9 / 5)
    inverse = np.tile(1 / each, (2, 1))
    found = replace(made(40, [1.0] * 4), cooled=inverse, restarted=inverse)
    for participation in (*found.starts, found.participation):
        assert participation.value == pytest.approx(9 / 5)


def test_participation_is_harmonic_over_samples():
    """One chain that has one coding neuron in one sample and two alike in the other: 4/3, not 3/2."""
    phi = np.zeros((1, 2, 4, 16))
    phi[0, 0, 0] = phi[0, 1, 0] = phi[0, 1, 1] = 2.0
    np.testing.assert_allclose(1 / runs._inverse(phi, LABELS), np.full((1, 3), 4 / 3))


def test_starts_that_differ_are_told_apart():
    assert made(40, [0.5, 0.51, 0.5, 0.51]).equilibrium.agree
    assert not made(40, [0.5, 0.51, 0.1, 0.11]).equilibrium.agree


def test_growth_is_an_exponent():
    found = runs.growth([made(40, [0.5, 0.51, 0.5, 0.49]), made(160, [0.25, 0.255, 0.25, 0.245])])
    assert found.value == pytest.approx(0.5)
    assert found.error > 0
    assert runs.exponent(lambda width: width**0.3, (10, 1000)) == pytest.approx(0.3)


def test_overlaps_within_and_between_classes_are_read_off_a_kernel():
    given = runs.task(16, 0.3, 0.1)
    assert runs.within(given.input_kernel, given.labels) == pytest.approx(0.3)
    assert runs.between(given.input_kernel, given.labels) == pytest.approx(0.1)
    assert runs.between(2 * runs.task(16, 0.3).input_kernel, given.labels) == pytest.approx(0)


def test_theory_by_mean_overlaps_is_that_of_inputs_that_have_them():
    given = runs.task(20, 0.5, 0.2)
    both, within = runs.by_mean_overlaps(given), runs.by_mean_overlaps(given, shared=False)
    np.testing.assert_allclose(both.amounts, runs.condensate(20, 0.5, shared=0.2).amounts, rtol=1e-6)
    np.testing.assert_allclose(within.amounts, runs.condensate(20, 0.5).amounts, rtol=1e-6)
    assert runs.per_class(both, 60) < runs.per_class(within, 60)


def test_beyond_the_critical_overlap_one_neuron_takes_a_share():
    edge = runs.critical(20, 0.5)
    below, above = (runs.condensate(20, 0.5, shared=side * edge).condensed_share[0] for side in (0.9, 1.1))
    assert below < 0 < above < 0.2


def test_kernel_largest_share_and_bulk_of_class_means():
    """Four neurons, of which the first has the largest readouts, in one sample of two chains."""
    means, readouts = np.zeros((2, 1, 4, 3)), np.zeros((2, 1, 4, 3))
    means[..., 0, :], means[..., 1, :] = [2.0, 3.0, 0.0], [1.0, 0.0, 4.0]
    means[1, 0, 2] = 3.0
    theory = runs.condensate(24, 0.0)
    readouts[..., 0, 0] = 1.7  # beyond 7 σ_a from the bulk's maximum; the others are nearer
    readouts[..., 1, 0] = 1.5
    found = runs.Networks({}, *np.zeros((3, 2, 3)), means, readouts, np.zeros((0, 4, 24)))
    each = np.array([(4 + 1) / 4, (4 + 1 + 9) / 4])
    np.testing.assert_allclose(found.kernel, (each.mean(), each.std(ddof=1) / 2**0.5))
    shares = np.array([[4 / 5, 1, 1], [9 / 14, 1 / 2, 16 / 25]]).mean(1)
    np.testing.assert_allclose(found.largest, (shares.mean(), shares.std(ddof=1) / 2**0.5))
    rest = np.array([(1 + 16) / 9, (1 + 16 + 27) / 9])
    np.testing.assert_allclose(found.bulk(theory), (rest.mean(), rest.std(ddof=1) / 2**0.5))


def test_overlaps_by_class():
    block = np.array([[0.5, 0.1, 0.1], [0.1, 0.6, 0.1], [0.1, 0.1, 0.2]])
    kernel = block[np.ix_(LABELS, LABELS)]
    np.fill_diagonal(kernel, np.array([1.0, 2.0, 0.5])[LABELS])
    counts = np.bincount(LABELS)
    mean = counts @ [1.0, 2.0, 0.5] / len(LABELS)
    np.testing.assert_allclose(runs.overlaps(kernel, LABELS), [0.5, 0.3, 0.4, 0.1 / mean])


def test_two_layers_from_theory_and_of_the_prior():
    found = runs.two_layers(24)
    assert found.converged
    assert found.task.num_inputs == 24
    prior = runs.untrained_by_rank(jax.random.key(0), found.task, 50, 3)
    assert prior.shape == (3, 50, 3)
    assert np.all(np.diff(prior, axis=1) <= 0)
    both = prior[:, 0] + prior[:, 1]
    np.testing.assert_allclose(runs.two_largest(prior).value, [both[:, 0].mean(), both[:, 1:].mean()])
    expected = np.pi**-1 / 2 + (0.5 - np.pi**-1 / 2) / found.task.class_counts  # ⟨m²⟩ of a class mean
    np.testing.assert_allclose(prior.sum(1).mean(0), expected, rtol=0.15)


def test_networks_start_again_with_fewer_coding_neurons():
    options = {"num_chains": 2, "num_warmup": 20, "num_samples": 4}
    found = runs.networks(jax.random.key(0), runs.task(12, 0.9), 24, **options)
    assert found.cooled.shape == found.restarted.shape == (2, 3)
    assert found.means.shape == found.readouts.shape == (4, 4, 24, 3)
    assert np.all(found.at_start > 0)
    assert len(found.below) == 0
    given = runs.task(12, 0.0)
    deep = runs.networks(jax.random.key(0), given, 24, depth=2, **options)
    assert deep.below.shape == (4, 24, 12)
    assert 0 < runs.within(deep.kernel_below, given.labels) < 1
    each = np.array([runs.overlaps(phi.T @ phi, given.labels) for phi in deep.below.astype(float)])
    np.testing.assert_allclose(deep.overlaps_below(given.labels).value, each.mean(0), rtol=1e-5)
    squares = np.square(deep.below[0][:, given.labels == 1].mean(1)) / 24
    np.testing.assert_allclose(deep.by_rank_below(given.labels)[0, :, 1], np.sort(squares)[::-1], rtol=1e-5)
    assert deep.by_rank_below(given.labels).shape == (4, 24, 3)  # of both starts
    alone = runs.networks(jax.random.key(0), given, 24, readout_variance=0.5, **options)
    usual = runs.networks(jax.random.key(0), given, 24, **options)
    assert np.abs(alone.cooled - usual.cooled).max() > 0.1  # another prior


@pytest.mark.parametrize("together", [False, True])
def test_averaged_inputs_have_a_kernels_means_over_classes(together):
    given, rng = runs.task(16, 0.0), np.random.default_rng(0)
    half = rng.standard_normal((16, 40))
    kernel, labels = half @ half.T / 40 + 0.3, given.labels
    found = runs.averaged(given, kernel, together).input_kernel
    apart = [(c, d) for c in range(3) for d in range(3) if c != d]
    own = [kernel[np.ix_(labels == c, labels == d)] for c, d in apart]
    for c in range(3):
        mine = labels == c
        block, others = kernel[np.ix_(mine, mine)], ~np.eye(mine.sum(), dtype=bool)
        assert found[mine, mine] == pytest.approx(np.diag(block).mean())
        assert found[np.ix_(mine, mine)][others] == pytest.approx(block[others].mean())
    every = np.concatenate([each.ravel() for each in own]).mean()
    for (c, d), each in zip(apart, own):
        wanted = every if together else each.mean()
        assert found[np.ix_(labels == c, labels == d)] == pytest.approx(wanted)


def test_one_layer_is_sampled_on_the_means_below_and_two_are_held_against_it(monkeypatch):
    rng, given = np.random.default_rng(0), runs.task(16, 0.5)
    deep = replace(made(40, [0.5, 0.51, 0.5, 0.49]), below=rng.standard_normal((4, 40, 16)))
    monkeypatch.setattr(runs, "networks", lambda *places, **options: (*places, options))
    key, like, width, options = runs.on_means_below(None, given, deep, 0.3, num_chains=2)
    np.testing.assert_allclose(like.input_kernel, runs.averaged(given, deep.kernel_below).input_kernel)
    assert (key, width, options) == (None, 40, {"readout_variance": 0.3, "num_chains": 2})
    flat = made(40, [0.25, 0.26, 0.25, 0.24])
    found = runs.against_one_layer([deep, flat], [flat, flat])
    np.testing.assert_allclose(found["sampled"].value, [-np.log(2), 0])  # the deep ones have half as many
    assert found["theory"].tolist() == [0, 0]
    assert len(found["sampler"]) == 4


def test_theory_is_asked_with_the_prior_variance_of_the_readouts_and_may_have_no_answer():
    given, usual = runs.task(24, 0.5, 0.1), runs.predicted(24, 0.5, 40, shared=0.1)
    assert runs.by_theory(given, 40, 1 / 24) == pytest.approx(usual)
    assert runs.by_theory(given, 40, 0.2) > 1.1 * usual
    uneven = runs.averaged(given, given.input_kernel + np.diag(np.arange(24.0)))
    assert runs.by_theory(uneven, 40, 0.2) > 1
    assert np.isnan(runs.by_theory(replace(given, inputs=given.inputs[::-1] + given.inputs), 40, 0.2))


def test_crossovers_are_those_of_the_exact_population():
    exact = runs.population(60, 0.5).crossover_width
    assert runs.crossover(60, 0.5) == pytest.approx(exact.mean(), rel=0.02)
    assert runs.predicted(60, 0.5, 800) == pytest.approx(800 / exact.mean(), rel=0.1)
    assert runs.crossover(40, 0.0) == pytest.approx(runs.condensate(40, 0.0).crossover_width.mean())


def test_shapes_say_where_more_or_fewer_networks_are_sampled(monkeypatch):
    def asked(key, given, width, **options):
        return (*jax.random.key_data(key).tolist(), given.num_inputs, width, options)

    monkeypatch.setattr(runs, "networks", asked)
    shapes = [
        {"num_inputs": 12, "num_neurons": [10, 20], "chains": 2},
        {"num_inputs": 16, "num_neurons": [30], "overlaps": [0.9], "chains": 0.25},
        {"num_inputs": 16, "num_neurons": [40], "overlaps": [0.5]},
    ]
    found = runs.over_shapes(jax.random.key(3), shapes, [0.0, 0.5], num_chains=4, thinning=2)
    assert [*found] == [(12, 0, 10), (12, 0.5, 10), (12, 0, 20), (12, 0.5, 20), (16, 0.9, 30), (16, 0.5, 40)]
    assert [options["num_chains"] for *_, options in found.values()] == [8, 8, 8, 8, 2, 4]
    assert {options["thinning"] for *_, options in found.values()} == {2}
    assert all(place[0] == P and place[2] == N for place, (*_, P, N, _) in found.items())
    own = [jax.random.key_data(jax.random.fold_in(jax.random.key(3), k)).tolist() for k in range(6)]
    assert [each[:2] for each in found.values()] == [tuple(data) for data in own]


def test_starts_meet_within_three_errors_or_a_twentieth():
    """Harmonic participations of 2 and 2.09 with small errors, of 2 and 3 with large ones, and beyond."""
    cases = [(2, 2.09, 0.001, True), (2, 2.12, 0.001, False), (2, 3, 0.35, True), (2, 3, 0.2, False)]
    for first, second, error, met in cases:
        inverse = [1 / first + s * error / first**2 for s in (-1, 1)]
        found = made(40, [*inverse, *(1 / second + s * error / second**2 for s in (-1, 1))])
        assert found.starts[1] == pytest.approx((second, error))
        assert found.equilibrium.agree == met


def test_growth_has_the_errors_of_both_widths():
    first, last = made(40, [0.5, 0.52] * 2), made(160, [0.25, 0.29] * 2)
    each = [one.participation.error / one.participation.value for one in (first, last)]
    assert runs.growth([first, made(80, [1.0, 0.9] * 2), last]).error == pytest.approx(
        np.hypot(*each) / np.log(4)
    )


def test_shares_of_codes_in_networks_and_in_theory(monkeypatch):
    codes = np.array(runs.CODES, bool)[[[[0, 3, 3, 3], [0, 0, 3, 3]], [[1, 2, 3, 3], [1, 1, 1, 1]]]]
    monkeypatch.setattr(runs, "sample", lambda *_, **__: SimpleNamespace(codes=lambda: codes))
    found = runs.shares(None, 12, 0.5, 4)
    np.testing.assert_allclose(found, np.array([[3, 0, 0, 5], [0, 5, 1, 2]]) / 8)
    monkeypatch.setattr(
        runs, "sigmoidal", lambda *_: SimpleNamespace(activity_shares=lambda _: [0.4, 0.3, 0.2, 0.1])
    )
    monkeypatch.setattr(runs.finite_width, "whole_numbers", lambda *_: np.array([4, 3, 2, 11]))
    monkeypatch.setattr(
        runs.finite_width, "number_moments", lambda *_: (np.array([1.0, 1, 1, 9]), np.zeros(4))
    )
    np.testing.assert_allclose(runs.share_of_all(12, 0.5, 20), [11 / 20, 0.1, 3 / 20])
