"""What the chapter on representations measures, on cases whose answer is known."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.networks import NONLINEARITIES
from coding_schemes.theory import two_point
from structure import runs


def test_collapse_is_that_of_the_irrelevant_coordinate():
    x, y = np.meshgrid(np.linspace(-1, 1, 7), np.linspace(-1, 1, 7), indexing="ij")
    both = np.stack([np.stack([x, 0.1 * y], -1), np.stack([y, 0.1 * x], -1)])
    found = runs.Collapse(np.stack([both, both + np.array([0, 3]).reshape(2, 1, 1, 1)]), np.zeros(2))
    assert found.irrelevant == pytest.approx([0.01, 0.01])
    assert found.contexts[0] == pytest.approx(0, abs=1e-12)  # a point and its partner coincide
    assert found.contexts[1] > 1
    points = both * np.array([1.0, 0.5]) + np.array([3.0, -2])  # of two units: their plane is only turned
    shown = runs.Collapse(points[None], np.zeros(1)).projection
    assert shown.shape == (2, 49, 2)
    points, shown = points.reshape(-1, 2), shown.reshape(-1, 2)
    np.testing.assert_allclose(shown.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(runs.squared_distances(shown.T), runs.squared_distances(points.T), atol=1e-12)
    (first, across), (_, second) = np.cov(shown.T)
    assert first > 2 * second > 100 * abs(across)


def test_pairs_of_one_target_against_the_others():
    d = np.array([[0, 1, 4, 4], [1, 0, 4, 4], [4, 4, 0, 2], [4, 4, 2, 0]])
    d = np.stack([d, 3 * d])
    assert runs.Square(d, d, d, np.zeros(2)).merged() == pytest.approx(np.array([[0.25, 0.5]] * 2))


def test_weighting_leaves_the_mean_distance_of_every_pair_of_digits():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [3, 4, 5])
    inputs = 30 * rng.standard_normal((3, 50))[labels] + rng.standard_normal((12, 50))
    found = runs.weighted_distances(inputs, labels)
    for a in range(3):
        for b in range(3):
            block = found[np.ix_(labels == a, labels == b)]
            assert np.ptp(block) <= 1e-9 * found.max()
            assert (block.max() < 1e-9) == (a == b)
            if a != b:
                apart = inputs[labels == a][:, None] - inputs[labels == b]
                assert block[0, 0] == pytest.approx(2**0.5 * np.linalg.norm(apart, axis=-1).mean())


def digits(distances, untrained, images, theory, labels):
    return runs.Digits(None, distances, untrained, images, theory, labels, np.zeros(len(distances)))


def test_distances_of_digits_are_those_of_the_layer_halfway():
    """Of the images behind the two that are tracked."""
    h = np.random.default_rng(0).standard_normal((4, 5, 6))
    found = runs._track(np.ones((6, 10)), h)
    middle = h[runs.Architecture(depth=4).middle].T
    apart = np.square(middle[2:, None] - middle[2:]).sum(-1)
    np.testing.assert_allclose(found["distances"], apart, atol=1e-9)
    np.testing.assert_allclose(found["H"], np.square(h[:, :, 0] - h[:, :, 1]).sum(1), rtol=1e-5)
    assert found["outputs"].shape == (2, 10)


def test_exchanged_digits_keep_what_labels_say():
    labels = np.repeat([0, 1, 4], 2)
    place = np.repeat(range(3), 2)
    theory = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]])[np.ix_(place, place)]
    exchanged = digits(theory[None], theory[None], theory, theory, labels).exchanged(np.random.default_rng(1))
    assert np.array_equal(exchanged > 0, labels[:, None] != labels)
    assert sorted(np.unique(exchanged)) == [0, 1, 2, 3]


def test_what_images_explain_is_not_the_predictions_own():
    """Networks whose distances are the images' own have no partial correlation; those of the theory have."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(10), 6)
    centers = rng.standard_normal((10, 20))
    images = runs.squared_distances((centers[labels] + 0.3 * rng.standard_normal((60, 20))).T)
    apart = runs.squared_distances(centers.T)
    theory = apart[np.ix_(labels, labels)]
    other = runs.squared_distances(rng.standard_normal((10, 20)).T)[np.ix_(labels, labels)]
    noise = [runs.squared_distances(rng.standard_normal((5, 60))) for _ in range(8)]
    of_images = np.stack([images + each for each in noise])
    assert abs(digits(of_images, np.stack(noise), images, other, labels).beyond().value) < 0.15
    of_theory = np.stack([other + 0.3 * each for each in noise])
    found = digits(of_theory, np.stack(noise), images, other, labels).beyond()
    assert found.value > 0.5
    assert found.value > 3 * found.error
    assert abs(digits(of_theory, np.stack(noise), images, other, labels).beyond(untrained=True).value) < 0.2
    assert theory.shape == other.shape


def test_what_untrained_networks_have_already_is_not_learned():
    """Distances that are as predicted before training and hardly change are no success of the prediction."""
    rng, labels = np.random.default_rng(1), np.repeat(np.arange(10), 6)
    noise = [[runs.squared_distances(rng.standard_normal((5, 60))) for _ in range(8)] for _ in range(3)]
    theory = runs.squared_distances(rng.standard_normal((10, 20)).T)[np.ix_(labels, labels)]
    start = theory + 0.3 * np.array(noise[0])
    found = digits(start + 0.1 * np.array(noise[1]), start, noise[2][0], theory, labels)
    assert found.beyond(untrained=True).value > 0.8
    assert abs(found.beyond().value) < 0.15


def test_partial_correlation_of_gaussians_has_its_closed_form():
    rng = np.random.default_rng(0)
    common = rng.standard_normal(200_000)
    a, b = (common + rng.standard_normal(common.size) for _ in range(2))
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(0.5, abs=0.01)
    assert runs.partial_correlation(a, b[None], common[None]) == pytest.approx([0], abs=0.01)
    assert runs.partial_correlation(a, (b + a)[None], common[None]) == pytest.approx([0.5**0.5], abs=0.01)


def test_median_has_the_error_of_a_gaussians():
    rng, scores = np.random.default_rng(0), []
    for _ in range(200):
        found = runs.median(rng.standard_normal(25), draws=300)
        scores.append(found.value / found.error)
    assert np.std(scores) == pytest.approx(1, abs=0.2)


def test_distances_within_a_class_are_the_priors_where_nothing_is_learned():
    task = tasks.toy(40, y_minus=0.0)
    for nonlinearity in runs.PRIOR:
        assert runs.within_class(task, nonlinearity, 1e4)[1] == pytest.approx(1, rel=1e-3)
    assert runs.within_class(task, "linear", 0.01)[1] == pytest.approx(1, rel=1e-6)
    z = np.random.default_rng(0).standard_normal(400_000)
    of_noise = 2 * np.var(np.asarray(NONLINEARITIES["sigmoidal"](z)))
    assert runs.PRIOR["sigmoidal"] == pytest.approx(of_noise, rel=0.01)


def test_distances_within_classes_are_means_over_pairs():
    task = tasks.toy(12, (0.5, 0.25, 0.25), y_minus=-0.5)
    solution, found = runs.within_class(task, "sigmoidal", 0.01)
    first, second = np.triu_indices(12, 1)
    alike = task.labels[first] == task.labels[second]
    own = solution.kernel_diagonal[task.labels]
    assert np.ptp(own) > 0.1 * own.mean()
    expected = (own[first] + own[second])[alike].mean() / runs.PRIOR["sigmoidal"]
    assert found == pytest.approx(expected, rel=1e-12)


def test_ends_are_those_of_networks_trained_to_the_end():
    """Of two in three, at |dx|² = 4 and ρ = η_y/(4 η_h): H* = ½ [−C + √(C² + 4ρ|dy|²)]/ρ, C = Q/H − ρH."""
    curves = [np.array([[H, 0, 8.0 + H], [1, 0, 0], [0, 0, 0]]) for H in (2.0, 9.0, 1.0)]
    rates = [SimpleNamespace(eta_h=1.0, eta_y=y, error=y / 10) for y in (4.0, 7.0, 8.0)]
    networks = SimpleNamespace(
        done=[0, 2], dx2=4.0, dy2=0.5, trajectory=curves.__getitem__, fit=rates.__getitem__
    )
    found = runs.ends(networks)
    np.testing.assert_allclose(found.reached, [10, 9])
    np.testing.assert_allclose(found.predicted, [(1.5 + (1.5**2 + 2) ** 0.5) / 2, (1 + 5**0.5) / 4])
    np.testing.assert_allclose(found.limit, [0.5**0.5, 0.5])
    assert runs.fit_errors(networks).tolist() == [0.4, 0.8]
    each = runs.each_spread([np.array([1.0, 3.0]), np.array([5.0, 6.0, 7.0])])
    np.testing.assert_allclose(each, [[2, 6], [1, 3**-0.5]])


def test_equations_are_compared_on_the_first_networks_that_were_trained_to_the_end():
    """Of four the first was not; network r misses the right equations by r, and each altered one by more."""
    alterations = [*two_point.ALTERED.values()]

    def fit(r, factors):
        altered = factors != two_point.UNALTERED
        return SimpleNamespace(error=r * (np.exp(1 + alterations.index(factors)) if altered else 1.0))

    networks = SimpleNamespace(done=np.array([1, 2, 3]), fit=fit)
    expected = np.tile(1.0 + np.arange(len(alterations))[:, None], 2)
    np.testing.assert_allclose(runs.over_right(networks, 2), expected)


def test_distances_of_exclusive_or_are_those_before_training_and_where_theory_ends(monkeypatch):
    """At rates of encoder and decoder; a pair of one target merges from small distances."""
    start, outputs = np.ones((4, 4)) - np.eye(4), np.zeros((1, 2, 4, 1))
    records = np.stack([1e-4 * start, 5 * start])
    distances = np.stack([np.zeros((2, 4, 4))] * 10 + [records] + [np.zeros((2, 4, 4))] * 9, axis=1)[None]
    run = SimpleNamespace(
        tracked={"distances_sq": distances, "outputs": outputs}, loss=np.array([[3.0, 0.5]])
    )
    monkeypatch.setattr(runs, "quietly", lambda *_, **__: run)
    monkeypatch.setattr(runs.Architecture, "middle", 10)
    found = runs.learn_xor(None, "small", 8, 1, SimpleNamespace(eta_h=0.4, eta_y=0.1))
    np.testing.assert_allclose([found.start[0], found.end[0]], records)
    assert found.loss == [0.5]
    np.testing.assert_allclose(found.theory, np.swapaxes(found.theory, 1, 2))
    np.testing.assert_allclose(found.theory[0, :2, 2:], 2, rtol=1e-3)  # √(η_h/η_y) |dx| |dy|, |dx| = |dy| = 1
    assert found.merged("theory").max() < 1e-3


def test_sampled_distances_are_over_the_priors_at_infinite_width_from_either_start(monkeypatch):
    """Neurons that are as far apart within classes as 2 + 4/N in the prior's units, and 3 + 4/N planted."""
    monkeypatch.setattr(runs, "within_class", lambda *_: (None, 0.7))

    def both_starts(streams, posterior, solution, tolerance, num_chains):
        width, labels = posterior.network.width, posterior.task.labels
        assert tolerance == 0.5 / width
        first = np.cumsum(labels[:, None] == np.arange(3), axis=0)[np.arange(12), labels] - 1
        own = np.array([[-0.1, 0.1], [-0.2, 0.2]])[..., None] + [-0.5, 0.5]  # (starts, networks, samples)
        size = np.sqrt(
            (np.array([2, 3])[:, None, None] + own + 4 / width) * runs.PRIOR["sigmoidal"] / 2 * width
        )
        phi = size[..., None, None] * np.eye(width)[: first.max() + 1][first].T + labels
        return SimpleNamespace(halves=[SimpleNamespace(activations=lambda h=half: h) for half in phi])

    monkeypatch.setattr(runs, "both_starts", both_starts)
    plan = {"num_networks": 4, "seed": 0}
    found = runs.sampled_distances(jax.random.key(0), "sigmoidal", 12, (10, 20), 0.1, **plan)
    assert found.same.value == pytest.approx(2.5)
    assert [each.value for each in found.each_start] == pytest.approx([2, 3])
    assert found.each_start[1].error == pytest.approx(2 * found.each_start[0].error)
    assert found.each_start[0].error == pytest.approx(0.1 * np.hypot(2, 1))  # 2 x(20) − x(10)
