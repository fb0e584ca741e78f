"""The atlas of redundant schemes."""

import numpy as np
from phases import atlas


def test_the_atlas_holds_solutions():
    leaf = atlas.compute(20, np.array([0.3]), np.array([0.01, 1.0]))
    assert 0.01 < leaf["critical_temperatures"][0] < 1.0
    assert np.allclose(leaf["occupancies"].sum(-1), 1, atol=1e-4)
    assert leaf["occupancies"][0, 0].max() < 0.5 < leaf["occupancies"][0, 1].max()
    step = leaf["readouts"][1] - leaf["readouts"][0]
    assert np.allclose(leaf["densities"].sum(-1) * step, 1, atol=0.02)
