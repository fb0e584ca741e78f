"""Two points: measures of trained networks, on cases whose answer is known."""

import jax
import numpy as np
import pytest
from coding_schemes.training import Architecture
from experiments import representations, two_point


def test_exponential_decay_does_not_wait():
    t = np.linspace(0, 40, 4001)
    H, Q, w = np.ones_like(t), np.full_like(t, 0.5), 0.5 * np.exp(-t)  # dy² = ½: all of the loss is in w
    left = two_point.remaining(H, Q, w)
    np.testing.assert_allclose(left, np.exp(-t), atol=1e-12)
    assert two_point.waiting(left) == pytest.approx(np.log(10 / 9) / np.log(10), abs=0.01)
    assert np.isnan(two_point.waiting(left[:50]))  # a tenth is not reached


def test_collapse_is_that_of_the_irrelevant_coordinate():
    x, y = np.meshgrid(np.linspace(-1, 1, 7), np.linspace(-1, 1, 7), indexing="ij")
    both = np.stack([np.stack([x, 0.1 * y], -1), np.stack([y, 0.1 * x], -1)])
    found = representations.Collapse(both, 0.0)
    assert found.irrelevant == pytest.approx(0.01)
    assert found.contexts == pytest.approx(0, abs=1e-12)  # a point and its partner coincide
    assert representations.Collapse(both + np.array([0, 3]).reshape(2, 1, 1, 1), 0.0).contexts > 1


def test_pairs_may_have_one_network_each_as_the_paper_has():
    row = Architecture(jax.nn.leaky_relu, 0.35, 50, 2), 0.01
    key, options = jax.random.key(0), {"trials": 3, "steps": 3000}
    one = two_point.final_distances(key, {"": row}, {"": 1}, known={}, **options)[""]
    known = {row: [two_point.learn(jax.random.fold_in(key, 99), row, repeats=3)]}
    same = two_point.final_distances(key, {"": row}, {"": 1}, known=known, **options)[""]
    np.testing.assert_array_equal(same.theory, one.theory)  # networks for the rates are not trained twice
    done = np.isfinite(one.network)
    assert 0 < one.left_out == 25 - done.sum() < 25
    np.testing.assert_array_equal(one.error[done], 0)
    assert np.corrcoef(one.network[done], one.theory[done])[0, 1] > 0.9


def test_pairs_of_one_target_against_the_others():
    d = np.array([[0, 1, 4, 4], [1, 0, 4, 4], [4, 4, 0, 2], [4, 4, 2, 0]])
    assert representations.Square(d, d, d, 0.0).merged() == pytest.approx([0.25, 0.5])


def test_weighting_leaves_the_mean_distance_of_every_pair_of_digits():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [3, 4, 5])
    inputs = 30 * rng.standard_normal((3, 50))[labels] + rng.standard_normal((12, 50))
    found = representations.weighted_distances(inputs, labels)
    for a in range(3):
        for b in range(3):
            block = found[np.ix_(labels == a, labels == b)]
            assert np.ptp(block) <= 1e-9 * found.max()
            assert (block.max() < 1e-9) == (a == b)
            if a != b:
                apart = inputs[labels == a][:, None] - inputs[labels == b]
                assert block[0, 0] == pytest.approx(2**0.5 * np.linalg.norm(apart, axis=-1).mean())


def test_exchanged_digits_keep_what_labels_say():
    labels = np.repeat([0, 1, 4], 2)
    theory = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]])[
        np.ix_(np.repeat(range(3), 2), np.repeat(range(3), 2))
    ]
    found = representations.Digits(None, theory, theory, labels, np.array([2, 2, 0, 0, 2]), 0.0)
    exchanged = found.exchanged(np.random.default_rng(1))
    assert np.array_equal(exchanged > 0, found.labels_alone > 0)
    assert sorted(np.unique(exchanged)) == [0, 1, 2, 3]
    assert found.rank_correlation() == pytest.approx(1)


def test_weights_are_drawn_again_only_where_training_stays_on_its_plateau():
    model = Architecture("linear", 1.0, 8, 2)
    found = [two_point.learn(jax.random.key(0), (model, rate), draws=2) for rate in (0.1, 1e-7)]
    assert [one.draws for one in found] == [1, 2]
    assert [bool(one.done) for one in found] == [True, False]
    alone = two_point.learn(jax.random.key(0), (model, 1e-7))
    assert not np.allclose(alone.trajectory()[:, 0], found[1].trajectory()[:, 0])  # other weights
