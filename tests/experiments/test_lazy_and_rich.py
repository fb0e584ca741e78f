"""Rotations of neuron space."""

import numpy as np
import pytest
from experiments import lazy_and_rich


def test_a_quarter_turn_is_orthogonal_and_squares_to_minus_one():
    vectors = np.random.default_rng(0).normal(size=(8, 3))
    turned = lazy_and_rich.quarter_turn(vectors, 1)
    np.testing.assert_allclose(turned.T @ turned, vectors.T @ vectors, atol=1e-12)
    np.testing.assert_allclose(np.sum(turned * vectors, axis=0), 0, atol=1e-12)  # v · Jv, J antisymmetric
    np.testing.assert_allclose(lazy_and_rich.quarter_turn(turned, 1), -vectors, atol=1e-12)


def test_an_odd_number_of_neurons_gets_a_silent_one():
    vectors = np.ones((3, 2))
    with pytest.raises(ValueError, match="3 neurons"):
        lazy_and_rich.quarter_turn(vectors, 0)
    np.testing.assert_array_equal(lazy_and_rich.even(vectors), [[1, 1], [1, 1], [1, 1], [0, 0]])
    assert lazy_and_rich.even(np.ones((4, 2))).shape == (4, 2)
