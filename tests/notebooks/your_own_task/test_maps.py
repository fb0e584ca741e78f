"""Where schemes stop: maps that go on where they were broken off, and what is read off them."""

from types import SimpleNamespace

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from your_own_task import maps

SMALL = {"inputs": (6, 12), "widths": (4, 8), "temperatures": np.array([0.01, 1.0]), "num_networks": 2}


def test_maps_go_on_where_they_were_broken_off(tmp_path, monkeypatch):
    """In the middle of writing, with the same numbers as without a break: every place has its own key."""
    made, whole_file = [], np.savez_compressed

    def cut(file, **arrays):
        whole_file(file, **arrays)
        if len(made) == 10:  # the fifth time
            file.truncate(100)
            raise KeyboardInterrupt

    def drawn(key, posterior, scheme, num_networks):
        made.append(
            (
                posterior.network.width,
                posterior.task.num_inputs,
                round(float(posterior.temperature), 6),
                scheme,
            )
        )
        return np.asarray(jax.random.uniform(key, (2,)))

    monkeypatch.setattr(maps, "shares", drawn)
    monkeypatch.setattr(np, "savez_compressed", cut)
    with pytest.raises(KeyboardInterrupt):
        maps.compute(tmp_path / "broken.npz", **SMALL)
    found = maps.compute(tmp_path / "broken.npz", **SMALL)
    assert len(made) == 10 + 24 - 8  # nothing that was kept is made again
    whole = maps.compute(tmp_path / "whole.npz", **SMALL)
    np.testing.assert_array_equal(found["shares"], whole["shares"])
    assert len(np.unique(whole["shares"])) == whole["shares"].size
    assert {(name, T) for _, _, T, name in made} == {
        (name, T) for name in maps.SCHEMES.values() for T in (0.01, 1.0)
    }
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []
    with pytest.raises(ValueError, match="output: .* has maps with widths"):
        maps.compute(tmp_path / "whole.npz", **(SMALL | {"widths": (4, 9)}))


def test_the_end_of_a_scheme_lies_where_half_have_lost_it():
    shares = np.full((3, 1, 4, 3, 2), np.nan)
    shares[0, 0] = np.array([[1, 0.75, 0.25], [1, 1, 1], [0.4, 0.2, 0], [1, 0.5, 0]])[..., None]
    shares[0, 0, 1, :, 1] = [1, 1, 0.5]  # both starts count
    found = maps.ends({"shares": shares, "temperatures": np.array([0.01, 0.1, 1.0])}, "linear")
    np.testing.assert_allclose(found[0, [0, 3]], [10**-0.5, 0.1])
    assert found[0, 1] == np.inf
    assert np.isnan(found[0, 2])


def test_ends_lie_between_two_temperatures_of_the_map():
    temperatures = np.array([0.01, 0.1, 1.0, 10.0])
    assert maps.bracket(temperatures, np.array([0.05, np.nan, 0.7])) == (0.01, 1.0)
    assert maps.bracket(temperatures, np.array([0.3])) == (0.1, 1.0)


def test_the_reader_stands_in_the_map_of_her_nonlinearity_and_the_nearest_number_of_inputs():
    stored = maps.stored()
    leaves = [stored[name] for name in ("shares", "widths", "inputs", "temperatures")]
    figure = maps.panels(*leaves, list(maps.SCHEMES), [50, 45, 0.02], [1])
    rings = [[line.get_xydata().tolist() for line in axis.lines] for axis in figure.axes[:9]]
    plt.close(figure)
    assert rings == [[]] * 4 + [[[[50, 0.02]]]] + [[]] * 4


def test_the_stored_maps_are_whole_and_each_scheme_has_an_end():
    stored = maps.stored()
    assert stored["shares"].shape == (3, len(maps.INPUTS), len(maps.WIDTHS), len(maps.TEMPERATURES), 2)
    assert np.all((stored["shares"][..., 0] >= 0) & (stored["shares"][..., 0] <= 1))
    assert stored["networks"] == 8
    for name in maps.SCHEMES:
        last = maps.ends(stored, name)[-1, -1]
        assert maps.TEMPERATURES[0] < last < maps.TEMPERATURES[-1]


@pytest.mark.slow
def test_linear_networks_are_analog_until_it_is_too_hot():
    posterior = Posterior(tasks.toy(12), Network(1, 24, "linear"), 0.01)
    for temperature, least, most in ((0.01, 0.7, 1.0), (10.0, 0.0, 0.3)):
        found = maps.shares(jax.random.key(0), posterior.at_temperature(temperature), "analog", 8)
        assert np.all((found >= least) & (found <= most))


def test_shares_are_of_last_samples_from_the_prior_and_from_theory(monkeypatch):
    """Three of four networks cooled from the prior are sparse in the end, and one of those planted."""
    begun = []

    def sample(posterior, key, *, init, num_chains, **_):
        begun.append((init, str(jax.random.key_data(key))))
        sparse = np.array([[0, 1], [0, 1], [0, 1], [1, 0]] if init == "prior" else [[1, 1]] + [[1, 0]] * 3)
        return SimpleNamespace(activations=lambda: sparse)

    monkeypatch.setattr(maps, "sample", sample)
    monkeypatch.setattr(maps, "solved", lambda solve, *_: solve)
    monkeypatch.setattr(maps.planting, "planted", lambda keys, solution, _: (len(keys), solution))
    monkeypatch.setattr(
        maps, "diagnose", lambda phi, _: SimpleNamespace(scheme="sparse" if phi else "analog")
    )
    for name, solver in (("relu", maps.theory.relu.solve), ("sigmoidal", maps.theory.solve)):
        posterior = Posterior(tasks.toy(12), Network(1, 6, name), 0.1)
        assert maps.shares(jax.random.key(0), posterior, "sparse", 4).tolist() == [0.75, 0.25]
        (first, key), (second, other) = begun[-2:]
        assert (first, second, key == other) == ("prior", (4, solver), False)
