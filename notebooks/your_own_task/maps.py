"""Where the three schemes stop: shares of networks that have them, over widths, inputs and temperatures.

    cd notebooks
    python -m your_own_task.maps --output ../data/results/scheme-maps.npz

samples the networks of the stored maps, some thirty minutes on one core; what was done when it is broken off
is kept, and the same command goes on from there.
"""

import argparse
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import diagnose, paths, planting, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import sample
from companion.workbench import solved
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

SCHEMES = {"linear": "analog", "sigmoidal": "redundant", "relu": "sparse"}
TARGETS = {"linear": 0.0, "sigmoidal": 0.5, "relu": -0.5}  # y₋, as in paper A
INPUTS = (12, 36, 108)
WIDTHS = (12, 40, 130)
TEMPERATURES = np.geomspace(1e-3, 10.0, 9)
NUM_NETWORKS = 8  # from either start


def shares(key: Any, posterior: Posterior, scheme: str, num_networks: int = NUM_NETWORKS) -> np.ndarray:
    """Shares of networks with a scheme, cooled from the prior and drawn from theory's solution, (2,).

    Raises:
        FloatingPointError: theory is not solved.
    """
    task, network, temperature = posterior.task, posterior.network, float(posterior.temperature)
    assert task is not None
    keys = jax.random.split(jax.random.fold_in(key, 2), num_networks)
    if network.nonlinearity == "relu":  # outliers, as in the limit N, P → ∞, at any size
        solution = solved(theory.relu.solve, task, temperature)
    else:
        solution = solved(theory.solve, task, network, temperature)
    planted = planting.planted(keys, solution, posterior)
    starts: list[Weights | str] = ["prior", planted]
    found = []
    for k, init in enumerate(starts):
        with warnings.catch_warnings():  # far from equilibrium the first trajectories diverge
            warnings.filterwarnings("ignore", "sampling: ")
            samples = sample(
                posterior,
                jax.random.fold_in(key, k),
                num_samples=4,
                num_chains=num_networks,
                num_warmup=120,
                thinning=10,
                init=init,
            )
        last = samples.activations()[:, -1]
        found.append(np.mean([diagnose(phi, task.labels).scheme == scheme for phi in last]))
    return np.array(found)


def compute(
    output: Path,
    inputs: tuple[int, ...] = INPUTS,
    widths: tuple[int, ...] = WIDTHS,
    temperatures: np.ndarray = TEMPERATURES,
    num_networks: int = NUM_NETWORKS,
) -> dict[str, np.ndarray]:
    """Fill the maps, or go on with those in a file.

    Args:
        output: where they are kept, after every width and number of inputs.
        inputs: P.
        widths: N.
        temperatures: T.
        num_networks: from either start.

    Returns:
        ``shares`` (3, P, N, T, 2) of networks from either start that have the scheme of SCHEMES, and the
        arguments.

    Raises:
        ValueError: the file holds maps of other sizes.
    """
    settings = {"inputs": inputs, "widths": widths, "temperatures": temperatures, "networks": num_networks}
    found = {name: np.asarray(value) for name, value in settings.items()}
    shape = (len(SCHEMES), len(inputs), len(widths), len(temperatures), 2)
    done = np.full(shape, np.nan)
    if output.exists():
        with np.load(output) as stored:
            for name, value in found.items():
                if not np.array_equal(stored[name], value):
                    raise ValueError(f"output: {output} has maps with {name} {stored[name]}, not {value}")
            done = stored["shares"].copy()
    began = perf_counter()
    for place in np.ndindex(shape[:3]):
        if np.isfinite(done[place]).all():
            continue
        name, (P, N) = list(SCHEMES)[place[0]], (inputs[place[1]], widths[place[2]])
        posterior = Posterior(tasks.toy(P, y_minus=TARGETS[name]), Network(1, N, name), temperatures[0])
        for k, T in enumerate(temperatures):
            key = jax.random.fold_in(jax.random.key(0), int(np.ravel_multi_index((*place, k), shape[:4])))
            done[(*place, k)] = shares(key, posterior.at_temperature(float(T)), SCHEMES[name], num_networks)
        print(f"{name}, P = {P}, N = {N}: {done[place].mean(-1).round(2)}", flush=True)
        manifest = json.dumps({"job": "maps"} | paths.provenance(perf_counter() - began))
        paths.store(output, {"manifest": manifest, "shares": done} | found)
    return found | {"shares": done}


def stored() -> dict[str, np.ndarray]:
    """The maps that come with the book."""
    with np.load(paths.located("data/results/scheme-maps.npz")) as kept:
        return dict(kept)


def ends(maps: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Temperature at which half of the networks have lost a nonlinearity's scheme, (P, N).

    Between two temperatures of the map, on a logarithmic scale; NaN where half never have it, ∞ where half
    have it at the highest.
    """
    have = maps["shares"][list(SCHEMES).index(name)].mean(-1)
    logs = np.log(maps["temperatures"])
    found = np.full(have.shape[:2], np.nan)
    for place in np.ndindex(found.shape):
        over = np.flatnonzero(have[place] >= 0.5)
        if over.size and over[-1] == len(logs) - 1:
            found[place] = np.inf
        elif over.size:
            k = over[-1]
            part = (have[place][k] - 0.5) / (have[place][k] - have[place][k + 1])
            found[place] = np.exp(logs[k] + part * (logs[k + 1] - logs[k]))
    return found


def bracket(temperatures: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """The two temperatures of a map between which all ends lie that there are."""
    low, high = np.nanmin(found), np.nanmax(found)
    return float(temperatures[temperatures <= low][-1]), float(temperatures[temperatures >= high][0])


def panels(
    shares: ArrayLike,
    widths: ArrayLike,
    inputs: ArrayLike,
    temperatures: ArrayLike,
    rows: ArrayLike,
    yours: ArrayLike,
    own: ArrayLike,
) -> Figure:
    """Shares of networks with the scheme of each row (rows, P, N, T, 2), a panel for each row and P.

    Squares are small where networks from either start differ by more than half of them. A ring at `yours`,
    (N, P, T), in the column of the nearest P and the rows `own`, if any.
    """
    every, N, P, T = (np.asarray(x, float) for x in (shares, widths, inputs, temperatures))
    place = np.asarray(yours, float)
    near = int(np.abs(np.log(P / place[1])).argmin())
    figure, axes = plt.subplots(
        len(every), len(P), figsize=(6.4, 5.2), sharex=True, sharey=True, squeeze=False
    )
    across, up = np.meshgrid(N, T, indexing="ij")
    colors = {"cmap": "viridis", "vmin": 0, "vmax": 1, "edgecolors": "0.5", "linewidths": 0.3}
    for row, name in enumerate(np.atleast_1d(rows)):
        for column, axis in enumerate(axes[row]):
            starts = every[row, column]
            size = np.where(np.ptp(starts, axis=-1) <= 0.5, 60, 14)
            drawn = axis.scatter(across, up, size, starts.mean(-1), marker="s", **colors)
            if column == near and row in np.atleast_1d(own):
                ring = {"color": "none", "markeredgecolor": "C3", "markersize": 12, "markeredgewidth": 2}
                axis.plot(place[0], place[2], "o", **ring)
            axis.set(xscale="log", yscale="log", title="" if row else f"$P$ = {P[column]:g}")
            axis.set_xticks(N, [f"{n:g}" for n in N])
            axis.set_xlim(min(N[0], place[0]) / 1.6, max(N[-1], place[0]) * 1.6)
            axis.minorticks_off()
        axes[row, 0].set_ylabel(str(name))
    figure.supxlabel("neurons $N$")
    figure.supylabel("temperature $T$")
    figure.colorbar(drawn, ax=axes, label="share of networks with the scheme")
    return figure


def main() -> None:
    """Command line: sample the stored maps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="where they are kept")
    output = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_enable_x64", True)
    compute(output)


if __name__ == "__main__":
    main()
