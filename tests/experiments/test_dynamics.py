"""Theory of single neurons in time, passes, and measures of drift."""

import numpy as np
import pytest
from experiments import dynamics


def test_net_flux_counts_only_neurons_that_moved():
    before, after = np.array([0] * 50 + [1] * 50), np.array([1] * 16 + [0] * 34 + [0] * 16 + [1] * 34)
    assert np.all(dynamics.net_flux(before, after, 2) == 0)
    assert dynamics.net_flux(before[:50], after[:50], 2) == pytest.approx([-4, 4])
