"""Networks sampled for the explorer: the command that stores them, and the stored ones against theory."""

import json
import sys

import numpy as np
import pytest
from coding_schemes import coding, paths, tasks
from coding_schemes.theory import sigmoidal
from redundant import explorer_samples
from scipy.stats import norm
from test_calibration import assert_calibrated

FILE = paths.repository_root() / "book/_static/explorer-samples.js"
STORED = explorer_samples.read(FILE)


def test_histograms_integrate_to_one_and_know_their_scatter():
    rng = np.random.default_rng(0)
    readouts = rng.normal(size=(4, 50, 100, 2))
    for component, found in zip(
        np.moveaxis(readouts, -1, 0), explorer_samples.histograms(readouts, 0.1), strict=True
    ):
        at, density, error = (np.array(found[name]) for name in ("at", "density", "error"))
        assert 0.1 * density.sum() == pytest.approx(1, abs=1e-3)
        assert 0.1 * (density @ at) == pytest.approx(component.mean(), abs=2e-3)
        expected = np.sqrt(density * (1 - 0.1 * density) / (0.1 * component.size))
        assert np.mean(error) == pytest.approx(np.mean(expected), rel=0.2)


@pytest.mark.slow
def test_the_command_leaves_a_script_with_a_manifest(tmp_path, monkeypatch):
    output = tmp_path / "samples.js"
    small = ["--num_inputs=12", "--num_networks=4", "--num_samples=4", "--num_warmup=4"]
    monkeypatch.setattr(sys, "argv", ["explorer_samples", f"--output={output}", *small])
    explorer_samples.main()
    found = explorer_samples.read(output)
    assert found["manifest"]["num_networks"] == 4
    assert {"seed", "commit", "versions", "date"} <= found["manifest"].keys()
    assert found["presets"].keys() == explorer_samples.PRESETS.keys()
    for one in found["presets"].values():
        assert (one["width"], one["networks"], one["state"]["P"]) == (12, 4, 12)
        assert sum(share for share, _ in one["shares"].values()) == pytest.approx(1, abs=1e-3)


def test_every_preset_is_sampled_at_its_own_task(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        explorer_samples.runs, "networks", lambda _, *task, **more: drawn.append((task, more))
    )
    monkeypatch.setattr(explorer_samples, "describe", lambda _: {"shares": {}, "verdict": ""})
    explorer_samples.compute(explorer_samples.PRESETS, 0)
    tasks_wanted = [((p, p, T), {"y_minus": y_minus}) for p, y_minus, T in explorer_samples.PRESETS.values()]
    assert drawn == tasks_wanted


def test_stored_tasks_are_those_of_the_command():
    for name, preset in explorer_samples.PRESETS.items():
        state = STORED["presets"][name]["state"]
        assert state == {"r": [0.5, 0.25, 0.25], "yp": 1, "ym": preset.y_minus, "T": preset.temperature} | {
            "P": preset.num_inputs
        }


IN_EQUILIBRIUM = [name for name, one in STORED["presets"].items() if one["agree"]]


def test_only_where_codes_come_in_pairs_two_starts_do_not_meet():
    """At y₋ = −½ a code and its complement trade places slowly; the page says so of these networks."""
    assert set(STORED["presets"]) - set(IN_EQUILIBRIUM) == {"sparse"}


def solved(preset, shift=0.0):
    task = tasks.toy(preset.num_inputs, y_minus=preset.y_minus + shift)
    return sigmoidal.solve(task, preset.temperature)


def misfit(theory, one, output):
    """Area between sampled density and theory's, over what its errors and four neurons allow."""
    at, density, error = (np.array(one["readouts"][output][key]) for key in ("at", "density", "error"))
    width = 0.5 / one["width"] ** 0.5
    gap = np.abs(density - sigmoidal.readout_density(theory, output, at))
    return width * gap.sum() / (2 * width * error.sum() + 4 / one["width"])


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_EQUILIBRIUM)
def test_stored_networks_are_the_theorys(name):
    """Shares to three standard errors and a neuron, by which a finite width may shift them; readouts too."""
    one, preset = STORED["presets"][name], explorer_samples.PRESETS[name]
    theory = solved(preset)
    for code in np.ndindex(2, 2, 2):
        share, error = one["shares"].get(coding.code_name(code).replace("-", ""), (0, 0))
        assert abs(share - theory.occupancy(code)) < 3 * error + 1 / one["width"], code
    assert max(misfit(theory, one, output) for output in range(3)) < 1
    assert misfit(solved(preset, shift=0.05), one, 0) > 1  # a neighbor's theory is not theirs


def test_the_file_is_small_and_one_script():
    text = FILE.read_text(encoding="utf-8")
    assert len(text) < 40_000
    json.loads(text.removeprefix(explorer_samples.PREFIX).removesuffix(explorer_samples.SUFFIX))


def test_densities_of_readouts():
    """Bins of a known law, from networks that differ: density and error in the units of the axis."""
    rng, found = np.random.default_rng(11), []
    for _ in range(150):
        readouts = 0.5 * rng.standard_normal((8, 1, 1, 1)) + rng.standard_normal((8, 5, 20, 1))
        (row,) = explorer_samples.histograms(readouts, 0.5)
        k = int(np.argmin(np.abs(np.array(row["at"]) - 0.5)))
        assert row["at"][k] == 0.5
        found.append([row["density"][k], row["error"][k]])
    densities, errors = np.array(found).T
    edges = np.array([0.25, 0.75]) / 1.25**0.5
    expected = np.diff(norm.cdf(edges))[0] / 0.5
    assert_calibrated(densities, expected, errors, 7 / 5, slack=0.15)
