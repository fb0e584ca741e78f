"""Learning curves on two classes of CIFAR-10, whose images do not come with the book.

    cd notebooks
    python -m adaptive_images.pairs --output ../data/results/cifar10-adaptive-curves.npz

makes the stored arrays that the chapter draws, in half an hour on one core. It goes on from what is there.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from adaptive_images import runs
from adaptive_kernels.pairs import pair, save

NUM_DRAWS = 10
SIZES = (6, 10, 20, 50, 100, 200, 500, 1000)  # P, classes of equal numbers
CONTROL = 200  # P of targets without features
SEARCH: dict[str, Any] = {"num_neurons": 64, "tolerance": 1e-6, "max_steps": 3000}
CROWD = {"num_neurons": 128, "num_rounds": 40}
#: The largest P at which populations of this size solve for the aNBK, by ridge.
LARGEST = {10.0: 1000, 30.0: 500, 3.0: 200, 1.0: 200}


def curves(found: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Add to `found`, array by array, squared errors by predictor and number of images, see `runs.Curves`."""
    draws, ridges = range(NUM_DRAWS), tuple(LARGEST)
    predictors = runs.dense_predictors(ridges, CROWD, SEARCH, LARGEST)
    found |= {"sizes": np.array(SIZES), "control size": np.array(CONTROL), "ridges": np.array(ridges)}
    for size in SIZES:
        tasks = [pair(size, draw, runs.NUM_TEST) for draw in draws]
        for name, predictor in predictors.items():
            kinds = {f"errors/{name}/{size}": tasks}
            if size == CONTROL:
                kinds[f"controls/{name}"] = [
                    runs.without_features(name, task, ridges[0], draw)
                    for task, draw in zip(tasks, draws, strict=True)
                ]
            for kind, given in kinds.items():
                if kind not in found:
                    found[kind] = runs.measured(predictor, given, draws)
                    print(kind, np.round(np.nanmean(found[kind][:, 1], 0), 3), flush=True)
                    yield found


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
