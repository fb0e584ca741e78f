"""The atlas of redundant schemes."""

import matplotlib.pyplot as plt
import numpy as np
from phases import atlas


def test_the_atlas_holds_solutions():
    leaf = atlas.compute(20, np.array([0.3]), np.array([0.01, 1.0]))
    assert 0.01 < leaf["critical_temperatures"][0] < 1.0
    assert np.allclose(leaf["occupancies"].sum(-1), 1, atol=1e-4)
    assert leaf["occupancies"][0, 0].max() < 0.5 < leaf["occupancies"][0, 1].max()
    step = leaf["readouts"][1] - leaf["readouts"][0]
    assert np.allclose(leaf["densities"].sum(-1) * step, 1, atol=0.02)


def test_the_atlas_on_one_sheet():
    """Eight equal shares are eight codes in effect; below those of the nearest y₋ that any neurons have."""
    shares = np.zeros((3, 2, 8))
    shares[0], shares[1, :, 5:7], shares[2, :, 3] = 1 / 8, 0.5, 1
    leaf = {"occupancies": shares, "temperatures": np.array([0.01, 0.1]), "targets": np.array([0, 0.4, 0.9])}
    leaf |= {"critical_temperatures": np.full(3, 0.05), "codes": np.array(list(np.ndindex(2, 2, 2)))}
    above, below, _ = atlas.still(leaf).axes
    mesh = np.asarray(above.collections[0].get_array()).reshape(2, 3)
    np.testing.assert_allclose(mesh, [[8, 2, 1]] * 2, rtol=1e-6)
    assert {line.get_label() for line in below.lines} == {"1-0-1", "1-1-0"}
    assert all(line.get_ydata().tolist() == [0.5, 0.5] for line in below.lines)
    assert below.get_title() == "$y_- = 0.4$"
    plt.close("all")
