"""Learning curves on two classes of CIFAR-10, whose images do not come with the book.

    cd notebooks
    python -m adaptive_images.pairs --output ../data/results/cifar10-adaptive-curves.npz

makes the stored arrays that the chapter draws, in twenty minutes on one core. It goes on from what is there.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from adaptive_images import runs
from adaptive_kernels.pairs import pair, save

NUM_DRAWS = 10
SIZES = (6, 10, 20, 50, 100, 200, 500, 1000)  # P, classes of equal numbers
CONTROL = 100  # P of targets without features
SEARCH: dict[str, Any] = {"num_neurons": 64, "tolerance": 1e-6, "max_steps": 3000}
CROWD = {"num_neurons": 128, "num_rounds": 40}
RIDGES = (10.0, 3.0, 1.0)  # the first is the one that all kernels share
#: The largest P at which it is tried, by ridge: populations do not settle, or networks take too long.
LARGEST = {"aNBK": {10.0: 500, 3.0: 200, 1.0: 200}, "aNTK": {10.0: 1000, 3.0: 500, 1.0: 200}}


def curves(found: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Add to `found`, draw by draw, squared errors by predictor and number of images, see `runs.Curves`."""
    predictors = runs.dense_predictors(RIDGES, CROWD, SEARCH, LARGEST)
    found |= {"sizes": np.array(SIZES), "control size": np.array(CONTROL), "ridges": np.array(RIDGES)}
    for size, name in product(SIZES, predictors):
        for kind in ("errors", "controls")[: 1 + (size == CONTROL)]:
            key = f"{kind}/{name}/{size}"
            for draw in range(len(found.get(key, ())), NUM_DRAWS):
                task = pair(size, draw, runs.NUM_TEST)
                if kind == "controls":
                    task = runs.without_features(name, task, RIDGES[0], draw)
                row = runs.measured(predictors[name], [task], [draw])
                found[key] = np.concatenate([found[key], row]) if draw else row
                yield found
            print(key, np.round(found[key][:, 1].mean(0), 3), flush=True)


def main() -> None:
    """Command line: compute the result file, and keep what there is after every part of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="npz file for the arrays")
    output, start, found = parser.parse_args().output, time.perf_counter(), {}
    if output.exists():
        with np.load(output) as there:
            found = {name: there[name] for name in there.files if name != "manifest"}
    with jax.enable_x64(True):
        for each in curves(found):
            save(each, output, "curves", time.perf_counter() - start)


if __name__ == "__main__":
    main()
