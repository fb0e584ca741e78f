"""Sampled networks for the explorer, whose presets show them as dots over the theory.

    cd notebooks
    python -m redundant.explorer_samples --output ../book/_static/explorer-samples.js

samples sigmoidal networks, N = P, at the task of every preset (some minutes on one core). The file is a
classic script, because a page opened from a disk may fetch nothing.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, paths
from redundant import runs

PREFIX, SUFFIX = "const EXPLORER_SAMPLES = ", ";\n"  # around the JSON: a classic script


class Preset(NamedTuple):
    """The task of one of the explorer's presets; ratios ½, ¼, ¼ and y₊ = 1 in all of them."""

    num_inputs: int
    y_minus: float
    temperature: float


#: What the page's buttons offer
PRESETS = {
    "redundant": Preset(500, 0.5, 0.01),
    "three-codes": Preset(500, 0.1, 0.001),
    "analog": Preset(200, 0.0, 0.01),
    "sparse": Preset(500, -0.5, 0.01),
    "hot": Preset(500, 0.5, 0.1),
}
COUNTS = {"num_networks": 8, "num_samples": 32, "num_warmup": 64}


def histograms(readouts: np.ndarray, width: float) -> list[dict[str, list[float]]]:
    """Density of each readout component, with errors from the scatter between networks.

    Args:
        readouts: shape (networks, samples, N, m).
        width: of the bins, which are centered on its whole multiples.

    Returns:
        For each component the centers, densities and standard errors of the bins that hold a readout.
    """
    rows = []
    for component in np.moveaxis(readouts, -1, 0):
        bins = np.rint(component / width).astype(int)
        first, last = bins.min(), bins.max()
        per_network = np.stack(
            [np.bincount(own.ravel() - first, minlength=last - first + 1) / own.size for own in bins]
        )
        mean = per_network.mean(0) / width
        error = per_network.std(0, ddof=1) / np.sqrt(len(bins)) / width
        held = np.flatnonzero(mean)
        columns = {"at": (held + first) * width, "density": mean[held], "error": error[held]}
        rows.append({name: [_short(value) for value in column] for name, column in columns.items()})
    return rows


def describe(drawn: runs.Networks) -> dict[str, Any]:
    """What the explorer shows of sampled networks: shares of the codes and densities of the readouts.

    Args:
        drawn: independent networks, sampled from two starts.

    Returns:
        Numbers, texts and lists of them. A bin of the densities is half of σ_a = 1/√P wide.
    """
    occupancy = coding.occupancy(drawn.codes)
    shares = zip(occupancy.names, occupancy.fractions, occupancy.chain_errors, strict=True)
    return {
        "width": drawn.width,
        "networks": len(drawn.readouts),
        "shares": {name.replace("-", ""): [_short(p), _short(error)] for name, p, error in shares},
        "readouts": histograms(drawn.readouts, 0.5 / drawn.width**0.5),
        "agree": drawn.meeting.agree,
        "verdict": drawn.meeting.verdict,
    }


def compute(presets: Mapping[str, Preset], seed: int, **counts: Any) -> dict[str, Any]:
    """Sample the networks of every preset.

    Args:
        presets: name → task.
        seed: of the random key.
        **counts: of `runs.networks`: networks, samples of each, transitions before.

    Returns:
        name → the task as the page's address has it, and what `describe` says.
    """
    found = {}
    for k, (name, preset) in enumerate(presets.items()):
        key = jax.random.fold_in(jax.random.key(seed), k)
        size, y_minus, temperature = preset
        drawn = runs.networks(key, size, size, temperature, y_minus=y_minus, **counts)
        state = {"r": [0.5, 0.25, 0.25], "yp": 1, "ym": preset.y_minus, "T": preset.temperature}
        found[name] = {"state": state | {"P": preset.num_inputs}} | describe(drawn)
        print(name, found[name]["shares"], found[name]["verdict"], flush=True)
    return found


def read(path: Path) -> dict[str, Any]:
    """What a stored file holds: `manifest` and `presets`."""
    return json.loads(path.read_text(encoding="utf-8").removeprefix(PREFIX).removesuffix(SUFFIX))


def main() -> None:
    """Command line: sample, and store the file that the page loads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num_inputs", type=int, help="N = P of all presets, for a trial")
    for name, value in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    manifest = vars(parser.parse_args())
    output, size = manifest.pop("output"), manifest.pop("num_inputs")
    presets = {name: one._replace(num_inputs=size or one.num_inputs) for name, one in PRESETS.items()}
    start = time.perf_counter()
    with jax.enable_x64(True):
        found = compute(presets, **manifest)
    manifest |= {
        "job": "explorer_samples",
        **paths.provenance(time.perf_counter() - start),
    }
    content = json.dumps({"manifest": manifest, "presets": found}, ensure_ascii=False)
    output.write_text(PREFIX + content + SUFFIX, encoding="utf-8")


def _short(value: float) -> float:
    return float(f"{value:.4g}")


if __name__ == "__main__":
    main()
