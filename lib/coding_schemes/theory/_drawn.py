"""What solutions share that draw networks: their `draw` gives the weights of `planting.planted`."""

from typing import Any

import numpy as np
from numpy.random import Generator

Drawn = tuple[Any, ...]  # z¹ (N, P), readouts (N, m) and, of deeper networks, (W² … W^L)

GRID = np.linspace(-7.0, 7.0, 701)  # preactivations are drawn by inverting their distribution on it
SMALLEST_NORM = 1e-6  # relative; feature directions below are left to the prior


def dealt(probabilities: np.ndarray, width: int) -> np.ndarray:
    """Row of every neuron, shape (width,), rows in proportion to their probabilities."""
    ends = np.rint(width * np.cumsum(probabilities) / np.sum(probabilities)).astype(int)
    return np.searchsorted(ends, np.arange(width), side="right")


def systematic(weights: np.ndarray, count: int, rng: Generator) -> np.ndarray:
    """Rows (count,), in order, in proportion to weights that sum to one; one random number for all."""
    levels = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), levels), len(weights) - 1)


def matrix_given_response(rng: Generator, features: np.ndarray, aim: np.ndarray) -> np.ndarray:
    """W (N, N) from its prior given W · features = aim, both of shape (N, k)."""
    free = rng.standard_normal((len(aim), len(features)))
    return free + (aim - free @ features) @ np.linalg.pinv(features, rcond=SMALLEST_NORM)
