"""The primer's figure: what a readout costs, for three nonlinearities on one task.

python -m experiments.landscape book/_static/landscape.svg
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import tasks
from coding_schemes.networks import NONLINEARITIES
from coding_schemes.theory import linear, relu, sigmoidal
from companion.figures import COLORS
from companion.publish import WIDTH, theme
from matplotlib.figure import Figure

SOLVERS = {"linear": linear, "sigmoidal": sigmoidal, "relu": relu}
WHAT = {
    "linear": "linear:\none wide hill",
    "sigmoidal": "sigmoidal:\none peak per code",
    "relu": "ReLU:\na peak, two plateaus",
}


def exponents(num_inputs: int, temperature: float, readouts: np.ndarray) -> dict[str, np.ndarray]:
    """E(a) of the primer, less its maximum, by nonlinearity: one output, two equal classes, y = ±1.

        E(a) = −a²/2 + Σ_c (n_c/P) log ⟨e^{a t_c φ(z)}⟩,   P(a) ∝ e^{P E(a)},

    Args:
        num_inputs: P.
        temperature: T.
        readouts: where, shape (n,).

    Returns:
        E − max E by name, each of shape (n,).
    """
    task = tasks.toy(num_inputs, (0.5, 0.5), targets=[[1.0], [-1.0]])
    z = np.linspace(-12, 24, 4001)
    found = {}
    for name, solver in SOLVERS.items():
        field = np.asarray(solver.solve(task, temperature=temperature).dual_field)
        per_class = field[:, 0] if len(field) == 2 else field[[0, -1], 0]
        inside = np.multiply.outer(
            np.multiply.outer(readouts, per_class), np.asarray(NONLINEARITIES[name](jnp.asarray(z)))
        )
        inside -= z**2 / 2
        peak = inside.max(-1, keepdims=True)
        log_g = peak[..., 0] + np.log(np.exp(inside - peak).sum(-1))  # up to a constant
        energy = -(readouts**2) / 2 + log_g.mean(1)
        found[name] = energy - energy.max()
    return found


def draw(readouts: np.ndarray, found: dict[str, np.ndarray]) -> Figure:
    """E(a) side by side."""
    figure, axes = plt.subplots(1, len(found), figsize=(WIDTH, 2.6), sharey=True)
    for axis, (name, energy) in zip(axes, found.items(), strict=True):
        axis.plot(readouts, energy, color=COLORS[name])
        axis.set(title=WHAT[name], xlabel="readout $a$", ylim=(-0.72, 0.04))
    axes[0].set_ylabel("$E(a)$")
    return figure


def main() -> None:
    """Command line: draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    readouts = np.linspace(-6, 6, 241)
    with theme():
        draw(readouts, exponents(200, 0.05, readouts)).savefig(
            output, metadata={"Date": None, "Creator": None}
        )


if __name__ == "__main__":
    main()
