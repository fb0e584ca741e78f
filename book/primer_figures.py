"""Figures of primer and landing page: four neurons, landscapes, from the posterior to codes, three networks.

PYTHONPATH=lib python book/primer_figures.py book/_static
PYTHONPATH=lib:notebooks python book/primer_figures.py book/_static --networks  # minutes: N = P = 500

The networks are sampled as for the first figure of "Lazy and rich" at the preset paper, shorter chains.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, tasks
from coding_schemes.networks import NONLINEARITIES, Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.theory import linear, relu, sigmoidal
from companion.figures import CODE_COLORS, COLORMAPS, COLORS
from companion.publish import WIDTH, theme
from matplotlib.figure import Figure
from PIL import Image
from scipy.special import logsumexp

SOLVERS = {"linear": linear, "sigmoidal": sigmoidal, "relu": relu}
WHAT = {
    "linear": "linear:\none wide hill",
    "sigmoidal": "sigmoidal:\none peak per code",
    "relu": "ReLU:\na peak, two plateaus",
}


FOUR_NEURONS = {  # activations of four neurons on two inputs, and their readouts
    "analog": (
        np.array([[1.6, -0.8], [0.8, 1.6], [0.8, -0.4], [0.4, 0.8]]),
        np.array([2.4, -0.8, 1.2, -0.4]),
    ),
    "redundant": (2**0.5 * np.array([[1, 0], [1, 0], [0, 1], [0, 1]]), 2**0.5 * np.array([1, 1, -1, -1])),
    "sparse": (np.array([[2, 0], [0, 2], [0, 0], [0, 0]]), np.array([2, -2, 0, 0])),
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
    task = two_classes(num_inputs)
    found = {}
    for name, solver in SOLVERS.items():
        field = np.asarray(solver.solve(task, temperature=temperature).dual_field)
        per_class = field[:, 0] if len(field) == 2 else field[[0, -1], 0]
        energy = -(readouts**2) / 2 + log_g(name, np.multiply.outer(readouts, per_class)).mean(1)
        found[name] = energy - energy.max()
    return found


def two_classes(num_inputs: int) -> tasks.Task:
    """The task of both figures."""
    return tasks.toy(num_inputs, (0.5, 0.5), targets=[[1.0], [-1.0]])


def log_g(name: str, fields: np.ndarray) -> np.ndarray:
    """Log ⟨e^{s φ(z)}⟩ over z ~ N(0, 1) by a sum, up to a constant; fields s of any shape."""
    z = np.linspace(-12, 24, 4001)
    phi = np.asarray(NONLINEARITIES[name](jnp.asarray(z)))
    return logsumexp(np.multiply.outer(fields, phi) - z**2 / 2, axis=-1)


def dual(num_inputs: int, temperature: float, fields: np.ndarray) -> np.ndarray:
    """D(t)/P of sigmoidal networks on the same task, less its least value on the grid.

        D(t)/P = (1/P) log ∫ da e^{P [−a²/2 + Σ_c (n_c/P) log g(a t_c)]} + Σ_c (n_c/P) (T t_c²/2 − t_c y_c)

    Args:
        num_inputs: P.
        temperature: T.
        fields: values of t_1 and of t_2, shape (n,).

    Returns:
        Shape (n, n), first index t_1.
    """
    a = np.linspace(-8, 8, 801)
    table = np.linspace(-1, 1, 2001) * 8 * np.abs(fields).max()
    part = np.interp(np.multiply.outer(fields, a), table, log_g("sigmoidal", table)) / 2
    inside = part[:, None] + part[None] - a**2 / 2
    own = [(temperature * fields**2 / 2 - fields * y) / 2 for y in (1.0, -1.0)]
    value = logsumexp(num_inputs * inside, axis=-1) / num_inputs + np.add.outer(*own)
    return value - value.min()


def draw(readouts: np.ndarray, found: dict[str, np.ndarray]) -> Figure:
    """E(a) side by side."""
    figure, axes = plt.subplots(1, len(found), figsize=(WIDTH, 2.6), sharey=True)
    for axis, (name, energy) in zip(axes, found.items(), strict=True):
        axis.plot(readouts, energy, color=COLORS[name])
        axis.set(title=WHAT[name], xlabel="readout $a$", ylim=(-0.72, 0.04))
    axes[0].set_ylabel("$E(a)$")
    return figure


def draw_four_neurons() -> Figure:
    """Three networks of four neurons: activations on input 1 above those on 2, readouts to one output."""
    shares = {"width_ratios": (5.9, 4.1, 4.1)}  # the first has the names of the rows
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.7), layout="constrained", gridspec_kw=shares)
    blues = plt.get_cmap("RdBu")
    for axis, (scheme, (activations, readouts)) in zip(axes, FOUR_NEURONS.items(), strict=True):
        for neuron, (responses, readout) in enumerate(zip(activations, readouts, strict=True)):
            color = blues(0.5 + 0.42 * np.sign(readout)) if readout else "#DDDDDD"
            axis.plot([neuron, 1.5], [1.55, 2.4], color=color, linewidth=0.6 + 2 * abs(readout), zorder=0)
            for bottom, response in zip((0.6, 0), responses, strict=True):
                face = blues(0.5 + response / 4.8)
                axis.add_patch(
                    plt.Rectangle((neuron - 0.46, bottom), 0.92, 0.55, fc=face, ec="#444444", lw=0.7)
                )
                dark = "white" if abs(response) > 1.6 else "#222222"
                axis.text(neuron, bottom + 0.26, _short(response), color=dark, ha="center", va="center")
            axis.text(neuron, 1.35, _short(readout), ha="center", va="center", color="#444444")
        axis.text(1.5, 2.55, "output", ha="center")
        if axis is axes[0]:
            for number, bottom in ((1, 0.6), (2, 0)):
                axis.text(-0.6, bottom + 0.26, f"input {number}", ha="right", va="center")
        axis.text(1.5, 3.15, scheme, ha="center")
        axis.set(xlim=(-2.35 if axis is axes[0] else -0.55, 3.55), ylim=(-0.1, 3.4))
        axis.axis("off")
    for text in (text for axis in axes for text in axis.texts):
        text.set_fontsize(11.5 if text.get_text().startswith("−") else 12)  # within its box
    return figure


def _short(number: float) -> str:
    """A number with at most one decimal."""
    return f"{number:.1f}".replace("-", "−").replace(".0", "")


def draw_steps(num_inputs: int, temperature: float) -> Figure:
    """Neurons of a sampled network, the dual with its minimum, and both sides' readouts by code."""
    task = two_classes(num_inputs)
    posterior = Posterior(task, Network(1, num_inputs, "sigmoidal"), temperature)
    drawn = sample(
        posterior, jax.random.key(0), num_chains=1, num_samples=1, num_warmup=300,
        moves=("gibbs", "recode"), store=("readouts", "preactivations"), progress=False,
    )  # fmt: skip
    readouts, neurons = np.asarray(drawn.readouts)[0, -1], drawn.activations()[0, -1]
    solution = sigmoidal.solve(task, temperature)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(WIDTH, 2.7), layout="constrained")
    by_class = np.argsort(task.labels, kind="stable")
    order = np.ix_(np.argsort(-readouts[:, 0]), by_class)
    left.imshow(
        neurons[order], COLORMAPS["activations"][0], aspect="auto", vmin=0, vmax=1, interpolation="nearest"
    )
    left.set(title="a sample of\nthe posterior", xlabel="input, by class", ylabel="neuron, by readout")
    fields = np.linspace(-8, 8, 161)
    height = dual(num_inputs, temperature, fields)
    middle.contour(
        fields, fields, height.T, np.geomspace(0.01, 10, 9), colors=COLORS["sigmoidal"], linewidths=1
    )
    middle.plot(*solution.dual_field[:, 0], "*", color=COLORS["theory"], markersize=9)
    middle.set(title="one convex\nproblem", xlabel="dual field $t_1$", ylabel="$t_2$")
    a = np.linspace(-3, 3, 601)
    density = sigmoidal.readout_density(solution, 0, a)
    right.hist(
        readouts[:, 0], np.arange(-3, 3, 0.06), density=True, histtype="stepfilled", color=COLORS["control"]
    )
    for code, readout in zip(solution.codes, solution.readouts[:, 0], strict=True):
        name = coding.code_name(code)
        near = np.abs(a - readout) < 1.5
        right.plot(a[near], density[near], color=CODE_COLORS[name])
        right.text(readout, 1.05 * density.max(), name, ha="center", color=CODE_COLORS[name])
    right.set(
        title="each neuron\nhas a code",
        xlabel="readout $a$",
        ylabel="density",
        ylim=(0, 1.25 * density.max()),
    )
    return figure


def three_networks(preset: str = "paper") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What three networks learned in their kernels (3, P, P), forty neurons of each (3, 40, P), labels."""
    from companion import presets
    from lazy_and_rich import runs

    sizes = presets.sizes(runs, preset)
    kernels, neurons = [], []
    for j, scheme in enumerate(runs.SCHEMES):
        key = jax.random.fold_in(jax.random.key(0), 10 * runs.SCALINGS.index("non-lazy") + j)
        how = {"num_samples": 8, "num_chains": 2, **vars(getattr(sizes, scheme))}
        run = runs.sampled(key, sizes.num_neurons, scheme, "non-lazy", sizes.temperature, 0, **how)
        phi = run.samples.activations()[0, -1]
        kernels.append(runs.learned_kernel(run, phi))
        neurons.append(phi[runs.telling_neurons(phi, run.task.labels, 40)])
    return np.array(kernels), np.array(neurons), run.task.labels


def draw_three_networks(kernels: np.ndarray, neurons: np.ndarray, labels: np.ndarray) -> Figure:
    """Kernels above, all on one scale; neurons below, each network's on its own; inputs sorted by class."""
    order = np.argsort(labels, kind="stable")
    edge = np.searchsorted(labels[order], 1)
    middles = [edge / 2, (edge + len(labels)) / 2]
    figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.3), layout="constrained")
    columns = zip(("linear", "sigmoidal", "ReLU"), ("analog", "redundant", "sparse"), axes.T, strict=True)
    for (name, scheme, (above, below)), kernel, phi in zip(columns, kernels, neurons, strict=True):
        top = np.abs(kernels).max()
        learned = above.imshow(kernel[np.ix_(order, order)], COLORMAPS["kernels"][1], vmin=-top, vmax=top)
        # What is never negative has the upper half of the same colors, so that one bar names them all
        phi = phi / np.abs(phi).max()
        active = below.imshow(phi[:, order], COLORMAPS["activations"][1], aspect="auto", vmin=-1, vmax=1)
        above.set_title(f"{name} neurons")
        below.set_xlabel(scheme, fontsize="x-large")
        for axis in (above, below):
            axis.set(xticks=middles, xticklabels=["class 0", "class 1"], yticks=[])
            axis.tick_params(length=0)
            axis.axvline(edge - 0.5, color="#222222", linewidth=0.7)
        above.axhline(edge - 0.5, color="#222222", linewidth=0.7)
        above.set(xticks=[])
    for row, image, names in (
        (axes[0], learned, {-top: "less alike\nthan others", 0: "average", top: "more alike\nthan others"}),
        (axes[1], active, {-1: "negative", 0: "silent", 1: "active"}),
    ):
        bar = figure.colorbar(image, ax=row, aspect=12, pad=0.02)
        bar.set_ticks(list(names), labels=list(names.values()))
        bar.ax.tick_params(length=0)
    axes[0, 0].set_ylabel("pairs of inputs")
    axes[1, 0].set_ylabel("forty neurons")
    return figure


def main() -> None:
    """Command line: draw all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", action="store_true", help="sample the landing page's networks, too")
    folder, networks = (given := parser.parse_args()).folder, given.networks
    readouts = np.linspace(-6, 6, 241)
    with theme(), jax.enable_x64(True):
        figures = {
            "four_neurons.svg": draw_four_neurons(),
            "landscape.svg": draw(readouts, exponents(200, 0.05, readouts)),
            "posterior_to_codes.svg": draw_steps(200, 0.05),
        }
        for name, figure in figures.items():
            figure.savefig(folder / name, metadata={"Date": None, "Creator": None})
        if networks:
            path = folder / "three_networks.png"
            draw_three_networks(*three_networks()).savefig(path, dpi=200)
            with Image.open(path) as picture:
                few = picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            few.save(path, optimize=True)


if __name__ == "__main__":
    main()
