"""An atlas of redundant coding schemes over targets and temperatures.

    cd notebooks
    python -m phases.atlas --output ../data/results/redundant-atlas.npz

makes the stored atlas (some minutes on one core), the map of the chapter on the phase diagram, and

    python -m phases.atlas --still ../book/_static/explorer-still.svg

draws it for readers of the explorer without JavaScript.
"""

import argparse
import json
from importlib import metadata
from itertools import product
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, paths, tasks
from coding_schemes.theory import sigmoidal
from companion.figures import CODE_COLORS
from companion.publish import theme
from matplotlib.figure import Figure

TARGETS = np.linspace(-0.5, 0.7, 13)
TEMPERATURES = np.geomspace(0.001, 0.3, 11)
READOUTS = np.linspace(-3.0, 3.0, 121)
BRACKET = 0.005, 1.5  # of the critical temperature


def compute(num_inputs: int, targets: np.ndarray, temperatures: np.ndarray) -> dict[str, np.ndarray]:
    """Occupancies of all codes and densities of the readouts on a grid of y₋ and T.

    Args:
        num_inputs: P of the toy task with half, a quarter and a quarter of its inputs in the classes.
        targets: y₋, shape (k,).
        temperatures: T, ascending, shape (j,); each y₋ is solved from its highest T downwards.

    Returns:
        The arguments, codes (8, 3), occupancies (k, j, 8), activations (k, j, 8, 3), densities (k, j, 3, 121)
        at `readouts`, the training error per input, (k, j), and the critical temperature, (k,).
    """
    task = tasks.toy(num_inputs, class_ratios=(0.5, 0.25, 0.25), y_plus=1.0)
    codes = np.array(list(product((False, True), repeat=3)))
    shape = (len(targets), len(temperatures))
    found = {
        "occupancies": np.zeros((*shape, 8)),
        "activations": np.zeros((*shape, 8, 3)),
        "densities": np.zeros((*shape, 3, len(READOUTS))),
        "training_error": np.zeros(shape),
        "critical_temperatures": np.zeros(len(targets)),
    }
    for k, y in enumerate(targets):
        class_targets = [tasks.one_hot(3, 1.0, float(y))] * len(temperatures)
        own = tasks.toy(num_inputs, class_ratios=(0.5, 0.25, 0.25), y_plus=1.0, y_minus=float(y))
        found["critical_temperatures"][k] = sigmoidal.critical_temperature(
            own, *BRACKET, tolerance=0.003
        ).temperature
        line = sigmoidal.scan(task, temperatures[::-1], class_targets)
        for j, solution in enumerate(reversed(line)):
            if not solution.converged:
                raise RuntimeError(f"atlas: no solution at y₋ = {y}, T = {temperatures[j]}")
            for g, code in enumerate(codes):
                rows = np.all(solution.codes == code, axis=1)
                weights = solution.probabilities[rows]
                found["occupancies"][k, j, g] = weights.sum()
                if weights.sum() > 0:
                    found["activations"][k, j, g] = weights @ solution.activations[rows] / weights.sum()
            found["densities"][k, j] = [sigmoidal.readout_density(solution, r, READOUTS) for r in range(3)]
            residual = np.sum(solution.training_residual**2, axis=1)
            found["training_error"][k, j] = task.class_counts @ residual / num_inputs
    return found | {
        "num_inputs": np.asarray(num_inputs),
        "targets": targets,
        "temperatures": temperatures,
        "readouts": READOUTS,
        "codes": codes,
    }


def still(atlas: dict[str, np.ndarray], target: float = 0.5) -> Figure:
    """The atlas on one sheet: effective number of codes over y₋ and T, and the shares over T at one y₋.

    Args:
        atlas: of `compute`.
        target: y₋ of the second panel, the nearest one in the atlas is taken.

    Returns:
        The figure.
    """
    shares, temperatures = atlas["occupancies"], atlas["temperatures"]
    effective = np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-12)), axis=-1))
    row = int(np.argmin(np.abs(atlas["targets"] - target)))
    figure, (above, below) = plt.subplots(2, 1, figsize=(4.8, 6.4))
    mesh = above.pcolormesh(atlas["targets"], temperatures, effective.T, cmap="viridis", edgecolors="face")
    above.plot(atlas["targets"], atlas["critical_temperatures"], color="white")
    above.set(xlabel="target of the other classes $y_-$", ylabel="temperature $T$", yscale="log")
    figure.colorbar(mesh, label="effective number of codes")
    names = [coding.code_name(code) for code in atlas["codes"]]
    shown = [k for k in range(len(names)) if shares[row, :, k].max() >= 0.01]
    shown.sort(key=lambda k: list(CODE_COLORS).index(names[k]))
    for style, k in zip(("-", "--", "-", "-.") * 2, shown):  # equal classes have equal shares
        below.plot(temperatures, shares[row, :, k], style, color=CODE_COLORS[names[k]], label=names[k])
    title = f"$y_- = {atlas['targets'][row]:g}$"
    below.set(
        xlabel="temperature $T$", ylabel="share of the neurons", xscale="log", ylim=(-0.02, 1.02), title=title
    )
    below.legend()
    return figure


def main() -> None:
    """Command line: compute the stored atlas."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--num_inputs", type=int, default=100)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--output", type=Path, help="solve, and store the atlas here")
    target.add_argument("--still", type=Path, help="draw the stored atlas as an SVG")
    arguments = parser.parse_args()
    if arguments.still:
        with np.load(paths.located("data/results/redundant-atlas.npz")) as stored:
            leaves = dict(stored)
        with theme(), mpl.rc_context({"svg.hashsalt": "atlas"}):
            still(leaves).savefig(arguments.still, metadata={"Date": None}, transparent=True)
        return
    found = compute(arguments.num_inputs, TARGETS, TEMPERATURES)
    versions = {name: metadata.version(name) for name in ("jax", "numpy", "scipy")}
    manifest = {"job": "atlas", "num_inputs": arguments.num_inputs, "versions": versions}
    small = {k: v.astype(np.float32) if v.dtype == float and v.ndim > 1 else v for k, v in found.items()}
    paths.store(arguments.output, {"manifest": json.dumps(manifest)} | small)


if __name__ == "__main__":
    main()
