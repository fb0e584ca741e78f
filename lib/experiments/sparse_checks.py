"""The sparse chapter's checks, and the arrays of its figures."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, statistics
from coding_schemes.theory import outliers, relu, relu_squared
from companion import figures
from companion.checks import Control, above, absolute, below, beside, check, equal, relative, standard_errors
from companion.workbench import Run, one_network, power_laws, where
from matplotlib.figure import Figure

from experiments import sparse
from experiments.sparse import Coarsening, Ends, Path

BULK = 20_000  # neurons of a histogram
CLASSES = ("class 0", "class 1", "class 2")


def extremes(counts: np.ndarray) -> np.ndarray:
    """Fewest and most."""
    return np.array([counts.min(), counts.max()])


# --- one hidden layer ---------------------------------------------------------------------------


def bulk_and_outliers(ends: Ends, quantity: str) -> dict[str, Any]:
    """Figure: bulk and outliers, "readout" of output 0, or "preactivation" on class 0."""
    run, finite, found = ends.prior.run, ends.finite, sparse.measures(ends.prior.run)
    in_bulk = ~run.samples.codes().any(-1)
    if quantity == "readout":
        values, outliers, column = run.readouts[..., 0], found.readouts[..., 0], 0
        width = np.sqrt(finite.bulk_readout_covariance[0, 0])
        grid = finite.bulk_readout[0] + width * np.linspace(-4.5, 4.5, 200)
        density = np.exp(-(((grid - finite.bulk_readout[0]) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width)
        levels = finite.outlier_readouts
    else:
        values, outliers, column = run.preactivations[0][..., 0], found.preactivations[..., 0], 0
        grid = np.linspace(-4, 4, 200)
        density, levels = relu.bulk_density(finite, grid, 0), finite.outlier_preactivations
    by_class = finite.outlier_preactivations.argmax(0)
    caption = {
        "readout": "Readouts of the first output: a narrow bulk (left) and, far from it, three outliers "
        "(right, logarithmic; two of them coincide). Bars: samples; line: the bulk's density in theory; "
        "dashed: its outliers. {} Paper A, Fig. 4a.",
        "preactivation": "Preactivations on class 0: one outlier stands far beyond the bulk. Bars: samples; "
        "lines: theory. {} Paper A, Fig. 4c.",
    }[quantity].format(where(run))
    return {
        "plot_function": figures.sparse_population,
        "name": f"{quantity}_posterior",
        "caption": caption,
        "xlabel": "readout weight $a$" if quantity == "readout" else "preactivation $z$ on class 0",
        "bulk": values[in_bulk][:: max(1, in_bulk.sum() // BULK)],
        "grid": grid,
        "density": density,
        "outliers": outliers.reshape(-1, len(by_class)).T,
        "levels": np.sqrt(finite.num_neurons) * levels[by_class, column],
    }


def sample_shown(run: Run) -> dict[str, Any]:
    """Figure: the nine most active neurons of the last sample."""
    activations = run.samples.activations()[0, -1]
    return one_network(
        run,
        activations,
        coding.sort_by_activity(activations)[:9],
        "Three neurons do everything. The nine most active neurons of one sampled ReLU network: "
        "three are active on one class each, evenly, and silent on the others; below them the bulk begins. "
        f"Outputs (bottom) sit on the targets. {where(run)} Paper A, Fig. 2.",
    )


def check_number(id: str, quantity: str, counts: np.ndarray, expected: int, **options: Any) -> None:
    """Fewest and most outliers in any sample, and one expected number; `options` are those of `check`."""
    check(id, quantity, extremes(counts), np.full(2, expected), equal(), **options)


def check_scheme(ends: Ends, other: relu.FiniteSize, lazy: Path) -> None:
    """Three outliers of the theory's sizes above the theory's bulk; `other` is a neighboring task's."""
    finite, found = ends.finite, ends.measures()
    check_number(
        "A15",
        "fewest and most outliers in any sample of any chain, from the prior and from the theory's network",
        ends.counts,
        finite.num_outliers,
        control=("lazy networks", extremes(lazy.settled)),
        sampler=ends.meeting,
        because="chains from the prior have not merged all parallel outliers yet",
    )
    expected, wrong = (outliers.strengths(each, finite.num_neurons) for each in (finite, other))
    check(
        "A15",
        "readouts and preactivation of each class's outlier",
        *beside(statistics.mean_and_error(outliers.measured_strengths(found)), expected),
        relative(0.01),
        control=Control("theory for y₋ = 0", expected=wrong),
        sampler=ends.meeting,
        because="corrections of second order in 1/N",
    )
    check(
        "A15",
        "mean activation of the bulk on every class",
        *beside(statistics.mean_and_error(found.bulk_activations), finite.bulk_activations),
        standard_errors(3),
        control=Control("theory for y₋ = 0", expected=other.bulk_activations),
        sampler=ends.meeting,
        because="corrections of second order in 1/N and 1/P",
    )


# --- widths -------------------------------------------------------------------------------------


def over_widths(found: dict[int, Ends]) -> dict[str, Any]:
    """|a| and z of class 0's outlier, its coefficient of variation, and the bulk's activation over widths.

    Returns:
        As `power_laws`, rows in this order, and "theory" of the same shape.
    """
    rows = []
    for size, ends in found.items():
        m = ends.measures()
        strength = outliers.strengths(ends.finite, size)[0]
        series = np.linalg.norm(m.readouts[..., 0, :], axis=-1), m.preactivations[..., 0, 0]
        pairs = [statistics.mean_and_error(each) for each in series]
        pairs.append(tuple(part[0] for part in outliers.measured_variation(m)))
        pairs.append(statistics.mean_and_error(m.bulk_activations[..., 0]))
        theory = (np.linalg.norm(strength[:-1]), strength[-1], outliers.variation(ends.finite)[0])
        rows.append([*zip(*pairs, strict=True), (*theory, ends.finite.bulk_activations[0])])
    values, errors, theory = np.transpose(rows, (1, 2, 0))
    return power_laws(np.array(list(found)), values, errors) | {"theory": theory}


def scaling(found: dict[int, Ends]) -> dict[str, Any]:
    """Figure: an outlier's size and variation over widths."""
    return over_widths(found) | {
        "name": "outlier_scaling",
        "caption": "An outlier's readout |a| and preactivation z grow as the root of the width, the "
        "coefficient of variation (CV) of its activity falls; the bulk does not change. On class "
        "0; markers: samples from both ends; solid: fitted power laws; dashed: theory at each N = P. "
        f"T = {found[max(found)].theory.temperature:g}. Paper A, text.",
        "names": ["|a|", "z", "CV", "bulk"],
        "colors": [figures.COLORS[name] for name in ("relu", "non-lazy", "samples", "prior")],
        "ylabel": "value on class 0",
    }


def check_widths(found: dict[int, Ends], warmer: relu.FiniteSize) -> None:
    """Exponents of outliers, and their variation within a class.

    `warmer` is the theory at twice the temperature, at the largest width.
    """
    rows, sizes = over_widths(found), np.array(list(found))
    fits = [statistics.fit_power_law(sizes, row) for row in rows["values"]]
    exponents, errors, _ = np.transpose(fits)
    sampler = [ends.meeting for ends in found.values()]
    check(
        "A15",
        "exponents in N of an outlier's readout and preactivation",
        exponents[:2],
        np.full(2, 0.5),
        errors[:2],
        absolute(0.03),
        control=("activation of the bulk", exponents[3:]),
        sampler=sampler,
        because="corrections of relative order 1/N bend the power law at the smallest widths",
    )
    check(
        "A16",
        "exponent in N of an outlier's coefficient of variation within its class",
        exponents[2],
        statistics.fit_power_law(sizes, rows["theory"][2]).exponent,
        errors[2],
        absolute(0.1),
        control=("activation of the bulk", exponents[3]),
        sampler=sampler,
        note="theory fitted at the same widths; −1/2 for N → ∞",
        because="corrections of relative order 1/N at the smallest widths",
    )
    largest = found[max(found)]
    estimate, theory = outliers.measured_variation(largest.measures()), outliers.variation(largest.finite)
    check(
        "A16",
        f"coefficient of variation of each outlier within its class, N = P = {max(found)}",
        *beside(estimate, theory),
        standard_errors(3),
        control=Control("theory at twice the temperature", expected=outliers.variation(warmer)),
        sampler=largest.meeting,
        because=f"{np.max(np.abs(estimate[0] / theory - 1)):.1%} off, by corrections of relative order 1/N; "
        "one is that the outliers of other classes, active on rare inputs only, are no Gaussian noise",
    )


# --- coarsening ---------------------------------------------------------------------------------


def check_coarsening(run: Coarsening, size: int) -> dict[str, float]:
    """Both times of one trajectory, and that splitting is free; numbers for the text."""
    ratio, coded = (run.final / run.zero).min(), (run.first_coded / run.zero).max()
    steps = [", ".join(f"{t:,}" for t in times) for times in (run.zero, run.final)]
    verdict = "the final scheme is reached in every chain" if run.reached else "the run ends before: a bound"
    check(
        "A19",
        "time of the final scheme over time of zero loss, plain Langevin dynamics, smallest of the chains",
        ratio,
        above(100),
        control=("time at which every class has an outlier", coded),
        sampler=SimpleNamespace(converged=run.reached, verdict=verdict),
        note=f"N = P = {size}; zero loss after {steps[0]} steps, the final scheme after {steps[1]}",
        because="at this size outliers merge sooner",
    )
    price, error = sparse.price_of_splitting(run)
    square = relu_squared.solve(sparse.toy(size)).energy * size ** (2 / 3) * (2 ** (1 / 3) - 1) / 3
    check(
        "A19",
        "energy of one further outlier after zero loss, in nats per input",
        np.abs(price),
        below(1.0),
        control=("max(0, z)², where splitting costs at leading order (theory)", np.float64(square)),
        note=f"slope {price:.3f} ± {error:.3f} of the energy over the number of outliers, same trajectory",
        because="splitting costs energy",
    )
    return {"zero": run.zero.mean(), "final": run.final.mean(), "ratio": ratio, "price": price}


def film(run: Coarsening, size: int, temperature: float, num_frames: int) -> dict[str, Any]:
    """Film: every neuron of the first chain while outliers merge, beside their number and the loss."""
    spread = np.searchsorted(run.times, np.geomspace(run.times[0], run.times[-1], 4 * num_frames))
    there = np.unique(np.minimum(spread, len(run.times) - 1))  # early samples are too few for every place
    at = there[np.linspace(0, len(there) - 1, num_frames).astype(int)]
    return {
        "plot_function": coarsening_frame,
        "name": "coarsening_film",
        "caption": "Long after the loss is zero neurons drift and merge, until each class has one outlier. "
        "Left: every neuron of one network, at the sum of three arrows, one for each class, as long as its "
        "mean activation on the class; colors: classes on which it is an outlier; gray: bulk. Right: number "
        "of outliers (dashed: three) and squared error (dashed: its later mean) of this network; thin gray: "
        f"{len(run.counts) - 1} more. N = P = {size}, T = {temperature:g}. Paper A, Discussion; the film is "
        "in no paper.",
        "description": "Dots of several colors drift outwards, and merge into one on each of three rays",
        "activations": run.activations[at].astype(np.float32),
        "codes": run.codes[at],
        "times": run.times,
        "counts": run.counts,
        "losses": run.losses,
        "now": run.times[at],
        "num_frames": len(at),
        "still": len(at) - 1,
    }


def coarsening_frame(
    frame: int,
    activations: np.ndarray,
    codes: np.ndarray,
    times: np.ndarray,
    counts: np.ndarray,
    losses: np.ndarray,
    now: np.ndarray,
    figure: Figure | None = None,
) -> Figure:
    """Neurons in the plane of three classes, and the number of outliers and the loss so far."""
    angles = np.pi / 2 + 2 * np.pi / 3 * np.arange(3)
    rays, reach = np.stack([np.cos(angles), np.sin(angles)], 1), activations.max()
    if figure is None:
        figure = plt.figure(figsize=(6.4, 3.4), layout="none")
        grid = figure.add_gridspec(2, 2, width_ratios=(6, 5), left=0.01, right=0.98, top=0.92, bottom=0.18)
        grid.update(wspace=0.2, hspace=0.5)
        plane = figure.add_subplot(grid[:, 0])
        for c, (x, y) in enumerate(reach * rays):
            plane.plot([0, x], [0, y], color="0.8", zorder=0)
            plane.annotate(f"class {c}", (1.2 * x, 1.2 * y), ha="center", va="center")
        plane.scatter([], [], linewidths=0.5, edgecolors="white")
        plane.set(xlim=(-1.35 * reach, 1.35 * reach), ylim=(-0.8 * reach, 1.35 * reach), aspect="equal")
        plane.axis("off")
        later = losses[:, -len(times) // 4 :].mean()
        panels = (counts, 3, "number of outliers"), (losses, later, "squared error")
        for row, (values, level, title) in enumerate(panels):
            panel = figure.add_subplot(grid[row, 1])
            panel.plot(times, values.T, color="0.85", linewidth=0.6)
            panel.axhline(level, color=figures.COLORS["theory"], linestyle="--", linewidth=1, zorder=3)
            panel.plot([], [], color=figures.COLORS["relu"])
            panel.set(xscale="log", title=title, xticks=[1e1, 1e3, 1e5])
            if row == 0:
                panel.set(ylim=(0, counts.max() + 1), yticks=[0, 3, counts.max()], xticklabels=[])
            else:
                panel.set(yscale="log", xlabel="Langevin steps")
            panel.minorticks_off()
    plane, *curves = figure.axes
    (dots,) = plane.collections
    dots.set(
        offsets=activations[frame] @ rays,
        sizes=np.where(codes[frame].any(-1), 60, 14),
        facecolor=[figures.CODE_COLORS[coding.code_name(code)] for code in codes[frame]],
    )
    seen = times <= now[frame]
    for panel, values in zip(curves, (counts, losses), strict=True):
        panel.lines[-1].set_data(times[seen], values[0, seen])
    return figure


# --- targets ------------------------------------------------------------------------------------


def check_targets(found: dict[str, Ends], background: Ends, lazy: Path) -> None:
    """Outliers of every sampled task: number and bulk where unique, overlaps of readouts in families."""
    unique = [ends for ends in found.values() if ends.theory.num_free_directions == 0]
    for name, ends in found.items():
        spare = outliers.spare_outliers(ends.theory, ends.finite.num_neurons)
        fewest, most = extremes(ends.counts)
        options: dict[str, Any] = {
            "sampler": ends.meeting,
            "note": f"{fewest} to {most} outliers; theory: {ends.theory.num_outliers} at least, "
            f"{ends.theory.num_free_directions} free directions, room for {spare:.1g} more",
        }
        if ends.theory.num_free_directions == 0:
            check_number(
                "A15",
                f"fewest and most outliers, {name}",
                ends.counts,
                ends.theory.num_outliers,
                control=("lazy networks", extremes(lazy.settled)),
                because="the chains have not merged all parallel outliers",
                **options,
            )
        else:
            measured = [path.run.readout_gram for path in (ends.prior, ends.planted)]
            check(
                "A15",
                f"overlaps of all readouts, {name}, where theory does not fix the number of outliers",
                *beside(statistics.mean_and_error(np.concatenate(measured)), outliers.overlaps(ends.theory)),
                absolute(1 / ends.finite.num_neurons),
                control=Control("theory of the first task", expected=outliers.overlaps(unique[0].theory)),
                because="corrections of order 1/N",
                **options,
            )
    check_number(
        "A15",
        "fewest and most outliers where the bulk alone codes for class 0, a task with m − 1 outliers",
        background.counts,
        background.theory.num_outliers,
        control=Control("theory for class 0's full targets", expected=np.full(2, 3)),
        sampler=background.meeting,
        because="not all parallel outliers have merged",
    )
    unique.append(background)
    expected = np.array([ends.finite.bulk_activations for ends in unique])
    check(
        "A15",
        "the bulk's activation on every class, all tasks with unique outliers",
        *beside(_bulk(unique), expected),
        standard_errors(3),
        control=Control("theory of the first task", expected=np.broadcast_to(expected[0], expected.shape)),
        sampler=[ends.meeting for ends in unique],
        because="errors from few samples are uncertain themselves; or corrections of second order",
    )


def _bulk(found: Iterable[Ends]) -> np.ndarray:
    """The bulk's mean activation on every class and its error, each of shape (tasks, C)."""
    pairs = [statistics.mean_and_error(ends.measures().bulk_activations) for ends in found]
    return np.swapaxes(pairs, 0, 1)


def numbers(size: int, temperature: float, found: dict[float, Ends]) -> dict[str, Any]:
    """Figure: outliers of theory and of samples, and free directions, over y₋."""
    grid = np.array([-0.5, -0.2, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.6, 0.9])
    scan = [relu.solve(sparse.toy(size, y), temperature) for y in grid]
    fewest = [s.num_outliers for s in scan]
    ends = [[e.prior.settled for e in found.values()], [e.planted.settled for e in found.values()]]
    return {
        "plot_function": figures.curves,
        "name": "number_of_outliers",
        "caption": "The number of outliers is the theory's where they are unique, and is not fixed where "
        "they form families. Lines: fewest outliers and dimension of the family in theory; markers: mean and "
        "standard deviation over samples from two ends, fewer where some are too small to be counted. N = "
        f"P = {size}, T = {temperature:g}. Paper A, text, has y₋ = −1/2.",
        "x": grid,
        "values": [fewest, np.full(len(grid), np.nan), [s.num_free_directions for s in scan]],
        "names": [
            "theory (line), samples from the prior (markers)",
            "samples from theory's network",
            "free directions, theory",
        ],
        "colors": [figures.COLORS[name] for name in ("relu", "non-lazy", "control")],
        "widths": (3.5, 1.6, 1.6),
        "sampled_x": list(found),
        "sampled": [[counts.mean() for counts in end] for end in ends],
        "sampled_errors": [[counts.std() for counts in end] for end in ends],
        "xlabel": r"target of other classes $y_-$",
        "ylabel": "number of outliers",
    }


# --- other nonlinearities -----------------------------------------------------------------------


def check_nonlinearities(softplus: Ends, square: Path, sigmoidal: Path, temperature: float) -> None:
    """Number, sizes and variation of the outliers; a sigmoidal network by the same measures must fail."""
    size, control, name = softplus.finite.num_neurons, sparse.measures(sigmoidal.run), "sigmoidal network"
    theory = relu_squared.solve(square.run.task, temperature, num_neurons=size)
    cases = {
        "softplus": (softplus.counts, softplus.measures(), softplus.meeting),
        "max(0, z)²": (square.settled, sparse.measures(square.run), square.run.convergence),
    }
    strengths = outliers.strengths(softplus.finite, size), outliers.strengths(theory, size)
    variations = (
        outliers.variation(softplus.finite),
        outliers.variation_squared_relu(theory, size, temperature),
    )
    for (phi, (counts, found, sampler)), strength, variation in zip(
        cases.items(), strengths, variations, strict=True
    ):
        given: dict[str, Any] = {"sampler": sampler, "because": "corrections of higher order"}
        check_number(
            "A18",
            f"{phi}: fewest and most outliers",
            counts,
            3,
            control=(name, extremes(sigmoidal.settled)),
            sampler=sampler,
            because="not all parallel outliers have merged",
        )
        check(
            "A18",
            f"{phi}: readouts and preactivation of each class's outlier",
            *beside(statistics.mean_and_error(outliers.measured_strengths(found)), strength),
            relative(0.04),
            control=(name, outliers.measured_strengths(control).mean((0, 1))),
            **given,
        )
        check(
            "A18",
            f"{phi}: coefficient of variation of each outlier within its class",
            *beside(outliers.measured_variation(found), variation),
            relative(0.1),
            control=(name, outliers.measured_variation(control)[0]),
            **given,
        )


def nonlinearities(runs: list[Run]) -> dict[str, Any]:
    """Figure: the most active neurons of softplus, squared ReLU and sigmoidal networks."""
    shown = []
    for run in runs:
        phi = run.samples.activations()[0, -1]
        phi = phi[coding.sort_by_activity(phi)[:10]]
        shown.append(phi / np.sqrt(np.square(phi).mean()))
    return {
        "plot_function": figures.activation_matrix,
        "name": "nonlinearities",
        "caption": "Softplus and squared ReLU make three outliers, too; a sigmoidal network does not. The "
        f"ten most active neurons of one sample each, over their root mean square. {where(runs[0])} Paper A, "
        "supplement E.",
        "activations": np.stack(shown),
        "labels": runs[0].task.labels,
        "titles": ("softplus", "squared ReLU", "sigmoidal"),
        "colorbar_label": "activation / its root mean square",
    }


# --- depth --------------------------------------------------------------------------------------


def check_depth(run: Run, after: Run, merged: np.ndarray, untrained: list[np.ndarray]) -> None:
    """Each statement's share of the networks, and that merged outliers split again."""
    labels, activations = run.task.labels, sparse.last_activations(run)
    holds, controls = sparse.statements(activations, labels), sparse.statements(untrained, labels)
    numbers = np.transpose([o.counts for o in sparse.layers_of(activations, labels)]).tolist()
    feature = np.transpose(numbers)[2]
    check(
        "A17",
        f"feature layer: number of outliers in the last sample, mean of {len(holds)} networks",
        feature.mean(),
        3.0,
        max(feature.std(ddof=1), 0.5) / np.sqrt(len(holds)),  # counts, of eight networks
        standard_errors(3),
        control=("networks drawn from the prior", sparse.layers_of(untrained, labels)[2].counts.mean()),
        sampler=run.convergence,
        source="published",
        note=f"exactly three, one for each class, in {holds[:, 2].mean():.0%} of the networks",
        because="several outliers share a class; how many are counted depends on the threshold, hardly on N "
        "and T",
    )
    for k in (0, 1, 3, 4):
        name = sparse.STATEMENTS[k]
        check(
            "A17",
            f"{name}: share of {len(holds)} networks",
            holds[:, k].mean(),
            above(0.5),
            control=("networks drawn from the prior", controls[:, k].mean()),
            sampler=run.convergence,
            note=f"outliers in layers 1 to 3, network by network: {numbers}",
            because="the networks differ",
        )
    series = [each.samples.codes().any(-1).sum(-1).mean(1) for each in (run, after)]
    error = np.hypot(*(one.std(ddof=1) for one in series)) / np.sqrt(len(holds))
    check(
        "A17",
        "feature layer: number of outliers, mean over samples, after a restart with merged ones",
        series[1].mean(),
        series[0].mean(),
        error,
        standard_errors(3),
        control=("the merged networks", merged.mean()),
        sampler=after.convergence,
        source="before",
        because="the two ends have not met: one of the runs is too short",
    )


def deep_layers(run: Run) -> dict[str, Any]:
    """Figure: kernels of all layers, averaged over the networks, and the most active neurons of one."""
    layers, size = sparse.last_activations(run), run.task.num_inputs
    return {
        "plot_function": figures.kernels_and_neurons,
        "name": "deep_layers",
        "caption": "Outliers in all layers, and class blocks that grow with depth. Above: kernels over their "
        "mean diagonal, averaged over eight networks; below: the twelve most active neurons of one of them. "
        f"L = 3, {where(run)} Paper A, Fig. 3.",
        "kernels": [K / np.trace(K) * size for K in (coding.kernels(phi).mean(0) for phi in layers)],
        "activations": [phi[0][coding.sort_by_activity(phi[0])[:12]] for phi in layers],
        "labels": run.task.labels,
        "titles": [f"layer {k}" for k in (1, 2, 3)],
    }


def thresholds(runs: dict[tuple[int, float], Run]) -> dict[str, Any]:
    """Figure: outliers of the feature layer over the share that makes one."""
    shares = np.array([0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5])
    numbers = []
    for run in runs.values():
        phi, labels = run.samples.activations(), run.task.labels
        numbers.append([coding.outliers(phi, labels, share).counts.mean(1) for share in shares])
    series = np.array(numbers)
    return {
        "plot_function": figures.curves,
        "name": "threshold",
        "caption": "How many outliers the feature layer has is a matter of where one draws the line. Mean "
        "number of neurons above a share, with standard errors over eight networks; dashed: three; dotted: "
        "1/√N, where the book draws it. L = 3, N = P. Not in the papers.",
        "x": shares,
        "values": series.mean(-1),
        "errors": series.std(-1, ddof=1) / np.sqrt(series.shape[-1]),
        "names": [f"N = {size}, T = {temperature:g}" for size, temperature in runs],
        "levels": [3],
        "marks": [size**-0.5 for size, _ in runs],
        "xlabel": "share of a class's squared activity that makes an outlier",
        "ylabel": "outliers, feature layer",
    }
