"""The adaptive kernels' chapter: its checks, and the arrays of its figures."""

from typing import Any

import numpy as np
from coding_schemes import statistics
from coding_schemes.networks import Network
from coding_schemes.tasks import Task
from coding_schemes.theory import adaptive_kernel, dmft, gaussian_process, wishart_chain
from coding_schemes.theory.adaptive_kernel import Overlaps, Solution
from companion import figures
from companion.checks import above, absolute, below, between, check, relative, standard_errors
from companion.workbench import Run, titled

from experiments import adaptive_kernels as runs
from experiments.adaptive_kernels import Ends, Flows, Widths


def two_ends(ends: dict[str, Ends], num_inputs: int) -> dict[str, Any]:
    """Figure: kernel entries over γ0²."""
    widths = ", ".join(f"{' and '.join(map(str, found.widths))} ({phi})" for phi, found in ends.items())
    rows = [(found, column) for column in (0, 1) for found in ends.values()]
    first = next(iter(ends.values()))
    return {
        "plot_function": figures.curves,
        "name": "two_ends",
        "caption": "From the lazy kernel to paper A. Kernel between two inputs of one class (solid) and "
        "of two classes (dashed), over the squared richness. Lines: the adaptive kernel; markers: sampled "
        f"networks with standard errors, N = {widths}; two widths are extrapolated in 1/N. On the left stand "
        "the kernels of random features; "
        "the dotted line is paper A's choice, γ₀² = P. One hidden layer, P = "
        f"{num_inputs}, β = 50. No paper has it.",
        "x": first.richness**2,
        "values": [found.theory[:, column] for found, column in rows],
        "names": [titled(phi) for phi in ends] * 2,
        "styles": ["-"] * len(ends) + ["--"] * len(ends),
        "sampled_x": first.sampled_richness**2,
        "sampled": [found.mean[:, column] for found, column in rows],
        "sampled_errors": [found.error[:, column] for found, column in rows],
        "colors": [figures.COLORS[phi] for phi in ends],
        "marks": [num_inputs],
        "scales": ("log", "linear"),
        "xlabel": r"richness $\gamma_0^2$",
        "ylabel": r"kernel entry $\Phi_{\mu\nu}$",
    }


def check_ends(ends: dict[str, Ends], task: Task, ridge: float) -> None:
    """Sampled entries against theory at the same γ0, and theory's lazy end against random features."""
    theory, lazy = [], []
    for phi, found in ends.items():
        prior = gaussian_process.solve(task, phi, 1, temperature=ridge).kernels[-1]
        lazy.append(runs.entries(prior, task.labels))
        at = [0.02, 0.5, *found.sampled_richness]
        theory.append(runs.expected_entries(task, Network(1, 1, phi), at, ridge))
    poor, rich, expected = np.split(np.array(theory), (1, 2), axis=1)
    check(
        "B1",
        f"kernel entries of sampled networks at γ0² = 0.25, 4 and P, {', '.join(map(titled, ends))}",
        np.array([found.mean for found in ends.values()]),
        expected,
        np.array([found.error for found in ends.values()]),
        standard_errors(3) | absolute(0.01),
        control=("lazy kernel", None, None, np.broadcast_to(np.array(lazy)[:, None], np.shape(expected))),
        sampler=[one for found in ends.values() for one in found.convergence],
        because="the kernel of a finite network is off by order 1/N",
    )
    check(
        "B2",
        f"kernel entries at γ0 = 0.02 against random features, {', '.join(map(titled, ends))}",
        poor[:, 0],
        np.array(lazy),
        absolute(1e-3),
        control=("γ0 = 0.5", rich[:, 0]),
        because="order γ0² is not small enough",
    )


def check_one_saddle_point(codes: np.ndarray, kernels: Solution, half: np.ndarray) -> None:
    """Paper A's kernel from its lattice of readouts, against paper B's from a population of neurons."""
    labels = kernels.task.labels
    check(
        "D2",
        "kernel entries at γ0² = P, population of neurons against paper A's lattice of readouts",
        runs.entries(kernels.kernels[1], labels),
        runs.entries(codes, labels),
        absolute(0.01),
        control=("γ0² = P/2", runs.entries(half, labels)),
        because="two populations of neurons differ by some per cent",
        note=f"independent populations differ by {kernels.disagreement:.1%}",
    )


def variance(over: dict[tuple[str, float], Widths]) -> dict[str, Any]:
    """Figure: the predictor's variance over widths."""
    laws = [statistics.fit_power_law(each.widths, each.variance) for each in over.values()]
    first = next(iter(over.values()))
    return {
        "plot_function": figures.scaling_plot,
        "name": "variance",
        "caption": "A finite width adds variance, less of it to rich networks. Variance of the output on "
        "new inputs, mean over 50 of them: samples with standard errors, fitted power laws, and theory "
        f"(dashed; not known for rich ReLU networks). One hidden layer, P = {first.theory.task.num_inputs} "
        "random inputs, 1/β = 0.05. Paper B, Fig. 7.",
        "sizes": first.widths,
        "values": [each.variance for each in over.values()],
        "errors": [each.variance_error for each in over.values()],
        "theory": [each.predicted_variance for each in over.values()],
        "exponents": [law.exponent for law in laws],
        "prefactors": [law.prefactor for law in laws],
        "names": [f"{titled(phi)}, γ₀ = {richness}" for phi, richness in over],
        "colors": [*figures.BLUES[::2], "#FDAE6B", "#A63603"],
        "xlabel": "width $N$",
        "ylabel": "variance of the output",
    }


def _cases(over: dict[tuple[str, float], Widths]) -> str:
    return "; ".join(f"{titled(phi)}, γ0 = {richness}" for phi, richness in over)


def check_widths(over: dict[tuple[str, float], Widths]) -> None:
    """Mean outputs, kernels and variances, all extrapolated in 1/N, against theory."""
    found = [*over.values()]
    errors = [np.sqrt(np.mean(each.outputs[1] ** 2)) for each in found]
    sampled = "; no solver is known for the last: whole networks of two other widths stand for theory"
    sampled = sampled if found[-1].theory.method == "sampling" else ""
    check(
        "B1",
        "rms distance of networks from theory in standard errors, mean output on new inputs and kernel, N = "
        f"{', '.join(map(str, found[0].widths))} extrapolated in 1/N: {_cases(over)}",
        np.array([each.distances(each.theory) for each in found]),
        below(2),
        control=("lazy kernel", np.array([each.distances(each.lazy) for each in found])),
        sampler=[one for each in found for one in each.convergence],
        because="corrections of order 1/N²",
        note=f"standard errors of the outputs: {', '.join(f'{error:.2g}' for error in errors)}{sampled}",
    )
    known = {case: each for case, each in over.items() if np.isfinite(each.predicted_variance).all()}
    values, errors = np.array([each.slope() for each in known.values()]).T
    widths = found[0].widths
    expected, uncertain = (
        widths[-1]
        * np.array([(each.predicted_variance[-1], each.predicted_error[-1]) for each in known.values()]).T
    )
    at_largest = ", ".join(f"{widths[-1] * each.variance[-1]:.3g}" for each in known.values())
    check(
        "B11",
        f"N times the variance of the output on new inputs, N = {', '.join(map(str, widths))} extrapolated "
        f"in 1/N: {_cases(known)}",
        values,
        expected,
        np.hypot(errors, uncertain),
        standard_errors(3),
        control=("half of it", None, None, expected / 2),
        sampler=[one for each in known.values() for one in each.convergence],
        because="corrections of order 1/N²",
        note=f"at N = {widths[-1]} it is {at_largest}; draws of theory's populations leave an error of "
        f"{', '.join(f'{error:.2g}' for error in uncertain)}",
    )


def clusters(over: dict[tuple[str, float], Widths]) -> dict[str, Any]:
    """Figure: kernels of random features and adapted ones."""
    solutions = {richness: each.theory for (phi, richness), each in over.items() if phi == "erf"}
    first = next(iter(over.values()))
    return {
        "plot_function": figures.kernel_matrices,
        "name": "clusters",
        "caption": "Learning sorts the kernel by class. Kernels of random features, and of adapted erf "
        f"networks of growing richness, P = {first.theory.task.num_inputs} random inputs, sorted by target. "
        "Paper B, Fig. 3c.",
        "kernels": [first.lazy.kernels[-1], *(each.kernels[1] for each in solutions.values())],
        "labels": first.theory.task.labels,
        "titles": ["lazy", *(f"γ₀ = {richness}" for richness in solutions)],
    }


def densities(ends: dict[str, Ends], solutions: dict[str, list[Solution]]) -> dict[str, Any]:
    """Figure: preactivations of the richest networks."""
    pairs = [(found.preactivations, solutions[phi][-1]) for phi, found in ends.items()]
    grids, values, heights = zip(*(runs.density(*pair) for pair in pairs), strict=True)
    num_inputs = pairs[0][1].task.num_inputs
    return {
        "plot_function": figures.densities,
        "name": "densities",
        "caption": "Preactivations of rich networks are not Gaussian: two camps in the sigmoidal one, a "
        "tail far beyond the bell for the ReLU. Bars: neurons of the sampled networks on inputs of class 0; "
        f"lines: theory. γ₀² = P = {num_inputs}, N = {pairs[0][0].shape[2]}. Paper B, Figs 3b and 6.",
        "samples": values,
        "grid": grids,
        "density": heights,
        "names": [titled(phi) for phi in solutions],
        "colors": [figures.COLORS[phi] for phi in solutions],
        "panels": True,
        "scale": "log",
        "xlabel": r"preactivation $h$",
    }


def check_densities(ends: dict[str, Ends], solutions: dict[str, list[Solution]]) -> None:
    """Size and shape of the preactivations' densities against theory, at γ0² = 0.25, 4 and P."""
    for phi, found in ends.items():
        values, errors = np.array(found.shapes)  # (γ0, 2)
        gaussian = np.stack([values[:, 0], np.full(len(values), (2 / np.pi) ** 0.5)], axis=-1)
        check(
            "B5",
            f"⟨h²⟩ and ⟨|h|⟩/⟨h²⟩^½ of the preactivations, γ0² = 0.25, 4 and P, {titled(phi)}",
            values,
            np.array([runs.predicted_shape(one) for one in solutions[phi]]),
            errors,
            standard_errors(3) | relative(0.02),
            control=("Gaussian of the same variance", None, None, gaussian),
            sampler=list(found.convergence),
            because="theory's longest ReLU neurons are rarer than one in N: networks approach it slowly",
        )


def overlaps(depths: dict[int, Overlaps], run: Run) -> dict[str, Any]:
    """Figure: overlaps of the kernels with the targets, layer by layer."""
    deepest, sampled = max(depths), run.posterior.network.depth
    rows = [
        np.pad(each.overlaps, (0, deepest - depth), constant_values=np.nan) for depth, each in depths.items()
    ]
    found = statistics.mean_and_error(runs.overlaps(runs.layer_kernels(run), run.task))
    before = np.full((list(depths).index(sampled), sampled), np.nan)  # markers take the color of their line
    mean, error = (np.vstack([before, each]) for each in found)
    return {
        "plot_function": figures.curves,
        "name": "overlaps",
        "caption": "Deep linear networks learn by the same factor from layer to layer. Lines: overlap of "
        f"each layer's kernel with the targets at N → ∞; markers: sampled networks of {sampled} hidden "
        f"layers, N = {run.posterior.network.width}, off the line by the finite width. γ₀ = 0.5, P = "
        f"{run.task.num_inputs}, β = 50. Paper B, "
        "Fig. 2a.",
        "x": np.arange(deepest + 1),
        "values": rows,
        "names": [f"L = {depth}" for depth in depths],
        "sampled_x": np.arange(1, sampled + 1),
        "sampled": mean,
        "sampled_errors": error,
        "scales": ("linear", "log"),
        "xlabel": r"layer $\ell$",
        "ylabel": r"overlap $c_\ell$",
    }


def check_overlaps(depths: dict[int, Overlaps], run: Run, richness: float, ridge: float) -> None:
    """The scalar recursion against the full saddle point, and samples against the exact finite average."""
    task, network = run.task, run.posterior.network
    kernels = runs.solved(adaptive_kernel.solve, task, network, richness, ridge).kernels
    richer = adaptive_kernel.overlaps(network.depth, (1.2 * richness) ** 2 * task.num_inputs, ridge).overlaps
    check(
        "B3",
        f"overlaps of all layers, scalar recursion against the full saddle point, L = {network.depth}",
        depths[network.depth].overlaps,
        runs.overlaps(kernels, task),
        relative(1e-6),
        control=("γ0 larger by a fifth", richer),
    )
    exact = wishart_chain.solve(
        task, network.depth, ridge / richness**2, network.width, readout_variance=1 / richness**2
    )
    mean, error = statistics.mean_and_error(runs.overlaps(runs.layer_kernels(run), task))
    check(
        "B3",
        f"overlaps of sampled networks against the exact average at N = {network.width}",
        mean,
        runs.overlaps(exact.kernels[1:], task),
        error,
        standard_errors(3) | relative(0.01),
        control=("γ0 larger by a fifth", None, None, richer[1:]),
        sampler=run.convergence,
        because="the sampler is slow along the strengths of lower layers",
    )


def alignments(found: dict[float, list[Run]]) -> dict[str, Any]:
    """Figure: alignment of the kernels with the targets, layer by layer, over γ0; runs of every width."""
    wide = [each[-1] for each in found.values()]
    task, targets = wide[0].task, wide[0].task.targets
    widths = [run.posterior.network.width for run in next(iter(found.values()))]
    lazy = _lazy_alignment(wide[0], targets)
    other = f" and extrapolated in 1/N from {' and '.join(map(str, widths))} (lines, with standard errors)"
    sampled = [
        [statistics.mean_and_error(runs.alignment(runs.layer_kernels(run), targets)) for run in each]
        for each in found.values()
    ]
    limits = [runs.infinite_width(widths, *zip(*each, strict=True)) for each in sampled]
    return {
        "plot_function": figures.curves,
        "name": "alignment",
        "caption": "Kernels are better aligned with the targets than those of random features, most in the "
        "last layer and in richer networks. Sampled ReLU networks of three hidden layers, N = "
        f"{widths[-1]} (markers){other if len(widths) > 1 else ''}, P = {task.num_inputs} random inputs; "
        "lazy: random features, exactly. Layer 0 is the input kernel. No solver is known to converge for "
        "deep rich ReLU networks: samples stand for the "
        "theory. Paper B, Fig. 4a.",
        "x": np.arange(len(lazy)),
        "values": [*(np.append(lazy[0], mean) for mean, _ in limits), lazy],
        "errors": [*(np.append(0, error) for _, error in limits), np.zeros_like(lazy)],
        "names": [*(f"γ₀ = {richness}" for richness in found), "lazy"],
        "colors": [*figures.BLUES[: len(found)], figures.COLORS["theory"]],
        "sampled_x": np.arange(1, len(lazy)),
        "sampled": [each[-1][0] for each in sampled],
        "sampled_errors": [each[-1][1] for each in sampled],
        "xticks": range(len(lazy)),
        "xlabel": r"layer $\ell$",
        "ylabel": "alignment with the targets",
    }


def check_alignments(found: dict[float, list[Run]], seed: int) -> None:
    """The gain over random features grows with depth and with γ0; for other targets it does not."""
    wide = {richness: each[-1] for richness, each in found.items()}
    targets = next(iter(wide.values())).task.targets
    other = np.random.default_rng(seed).permutation(targets)
    other = other - targets * np.sum(other * targets) / np.sum(targets**2)
    check(
        "B6",
        "growth of the alignment's gain over random features, in standard errors: from first to last layer, "
        f"mean over γ0 = {', '.join(map(str, wide))}; from the smallest γ0 to the largest, mean over layers",
        _rises(wide, targets),
        above(3),
        control=("targets at right angles to those learned", _rises(wide, other)),
        sampler=[run.convergence for run in wide.values()],
        because="few samples",
    )


def _lazy_alignment(run: Run, targets: np.ndarray) -> np.ndarray:
    """Alignment of random features' kernels, layer by layer."""
    network = run.posterior.network
    kernels = gaussian_process.solve(run.task, network.nonlinearity, network.depth, temperature=1.0).kernels
    return runs.alignment(kernels, targets)


def _rises(found: dict[float, Run], targets: np.ndarray) -> np.ndarray:
    """Growth of the gain with depth, mean over runs, and from the first run to the last, in errors."""
    lazy = _lazy_alignment(next(iter(found.values())), targets)[1:]
    gains = [runs.alignment(runs.layer_kernels(run), targets) - lazy for run in found.values()]
    steps = [statistics.mean_and_error(gain[..., -1] - gain[..., 0]) for gain in gains]
    ends = [statistics.mean_and_error(gain.mean(-1)) for gain in (gains[0], gains[-1])]
    (poor, poor_error), (rich, rich_error) = ends
    mean, error = np.sum([m for m, _ in steps]), np.sqrt(np.sum([e**2 for _, e in steps]))
    return np.array([mean / error, (rich - poor) / np.hypot(poor_error, rich_error)])


def check_orders(zero: float, first: float) -> None:
    """B4: powers of γ0² by which the feature kernel differs from its expansion to order zero and one."""
    check(
        "B4",
        "exponent in γ0² of what the first order leaves of the feature kernel",
        first,
        between(1.8, 2.2),
        control=("what order zero leaves", np.float64(zero)),
        because="higher orders at the largest γ0",
    )


def losses(flows: Flows, num_inputs: int) -> dict[str, Any]:
    """Figure: loss over time."""
    paths = [flows.limit, *(each[0] for each in flows.networks)]
    return {
        "plot_function": figures.curves,
        "name": "losses",
        "caption": "Loss on the training inputs (solid) and on new ones (dashed) over time: networks of "
        "growing width approach the population, N → ∞. One network of each width; ReLU, γ₀ = 1, λ = 0.1, "
        f"P = {num_inputs} random inputs. Paper B, Fig. 8.",
        "x": flows.limit.times,
        "values": [loss for path in paths for loss in (path.train_loss, path.test_loss)],
        "names": np.repeat(["N → ∞", *(f"N = {width}" for width in flows.widths)], 2),
        "colors": [figures.COLORS["theory"], *figures.BLUES],
        "styles": ["-", "--"],
        "xlabel": r"time $t$",
        "ylabel": r"loss $\frac{1}{2} \langle |y - f|^2 \rangle$",
    }


def check_flows(flows: Flows, regression: dict[float, np.floating]) -> None:
    """Networks approach the population as N^(-1/2); with weight decay they are a regression of their own."""
    paths = (flows.limit, flows.lazy)
    slopes = np.array([statistics.fit_power_law(flows.widths, flows.distances(p)).exponent for p in paths])
    check(
        "B9",
        "exponent in N of the distance of networks' outputs from the population, all times and new inputs",
        slopes[0],
        between(-0.6, -0.4),
        control=("distance from the lazy population, γ0 = 0.05", slopes[1]),
        because="few networks at each width",
    )
    decay, none = sorted(regression, reverse=True)
    check(
        "B8",
        "rms distance on new inputs of a trained network from regression with its own final kernel, λ = "
        f"{decay}",
        regression[decay],
        below(0.005),
        control=(f"λ = {none:g}", regression[none]),
        because="the network has not come to rest",
    )


def collapsing(decays: Any, moments: np.ndarray) -> dict[str, Any]:
    """Figure: what is left of one input's preactivations, over weight decay."""
    line = np.linspace(0, 1.4, 141)
    return {
        "plot_function": figures.curves,
        "name": "collapse",
        "caption": "Beyond a threshold of weight decay nothing is learned. Mean squared preactivation at "
        "the end of training on one input with the target 1: populations of neurons (markers) and the "
        "closed form. ReLU, γ₀ = 1. Paper B, Fig. 10.",
        "x": line,
        "values": [np.maximum(1 - line, 0)],
        "names": ["theory"],
        "colors": [figures.COLORS["relu"]],
        "sampled_x": decays,
        "sampled": [moments],
        "xlabel": r"weight decay $\lambda$",
        "ylabel": r"$\langle h^2 \rangle$",
    }


def check_fixed_points(decays: Any, moments: np.ndarray, laplace: Any, gaussian: Any) -> None:
    """The collapse against its closed form, and the shape that a Laplace start leaves behind."""
    expected = [dmft.collapse(runs.ONE_INPUT.targets, 1.0, each).second_moments[0] for each in decays]
    check(
        "B12",
        f"⟨h²⟩ at the end of training, λ = {', '.join(map(str, decays))}",
        moments,
        np.array(expected),
        absolute(0.01),
        control=("weight decay left out of the formula", None, None, np.ones_like(moments)),
        because="slow relaxation near the threshold",
    )
    check(
        "B13",
        "excess kurtosis of the final h, Laplace start, against that of h + w at its start",
        *laplace,
        absolute(0.01),
        control=("Gaussian start", gaussian[0]),
        because="the flow has not come to rest",
        note="1.5 for infinitely many neurons",
    )
