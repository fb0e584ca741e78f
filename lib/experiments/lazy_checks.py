"""The checks of the chapter on lazy and rich networks, and the arrays of its figures."""

from typing import Any

import numpy as np
from coding_schemes import coding, statistics
from coding_schemes.sampling import Samples
from companion import figures, films
from companion.checks import Control, above, absolute, below, between, check, standard_errors
from companion.workbench import Run, Starts, power_laws, titled, where

from experiments import lazy_and_rich
from experiments.lazy_and_rich import SCALINGS, SCHEMES, Widths

Scans = dict[tuple[str, str], Widths]
GREYS = dict(zip(SCHEMES, figures.GREYS[::-1], strict=True))
OTHER = {"non-lazy": "lazy", "lazy": "non-lazy"}
SIMPLEX = 1.5 * np.eye(3) - 0.5


def kernels_and_neurons(runs: dict[str, Run]) -> dict[str, Any]:
    """Figure: kernels of three networks above their activations."""
    first = next(iter(runs.values()))
    activations = [run.samples.activations()[0, -1] for run in runs.values()]
    kernels = [coding.kernels(each) for each in activations]
    labels = first.task.labels
    return {
        "plot_function": figures.kernels_and_neurons,
        "name": "kernels_and_neurons",
        "caption": "The kernels of three networks that learned one task are alike (above, each over its mean "
        "diagonal); their neurons are not (below: the ten of each that tell the classes apart best and "
        "thirty at random, ordered by what they say about the classes). One sample of each, "
        f"inputs sorted by class, {where(first)} Paper A, Fig. 1e.",
        "kernels": [K / np.trace(K) * len(labels) for K in kernels],
        "activations": [each[lazy_and_rich.telling_neurons(each, labels, 40)] for each in activations],
        "labels": labels,
        "titles": [titled(name) for name in runs],
    }


# --- over widths ------------------------------------------------------------------------------------


def _over_widths(scans: Scans, k: int) -> dict[str, Any]:
    mean, error = ([getattr(scan, part)[:, k] for scan in scans.values()] for part in ("mean", "error"))
    return power_laws(next(iter(scans.values())).sizes, mean, error) | {
        "names": [f"{titled(scheme)}, {scaling}" for scheme, scaling in scans],
        "colors": [GREYS[scheme] if how == "lazy" else figures.COLORS[scheme] for scheme, how in scans],
        "xlabel": "width $N = P$",
    }


def angles(scans: Scans) -> dict[str, Any]:
    """Figure: cosines between features and readout over widths."""
    return _over_widths(scans, 0) | {
        "name": "angles",
        "caption": "Features and readout stay aligned at any width in non-lazy networks (color), and only "
        "as far as chance goes in lazy ones (gray). Markers: samples with standard errors; lines: fitted "
        "power laws. Paper A, Fig. 1b, d.",
        "ylabel": r"cosine $\langle y_\mu \cos\theta_\mu \rangle$",
    }


def _predicted(scans: Scans, temperature: float, seed: int) -> dict[str, np.ndarray]:
    sizes = next(iter(scans.values())).sizes
    return {
        scaling: np.array([lazy_and_rich.predicted_entry(size, scaling, temperature, seed) for size in sizes])
        for scaling in SCALINGS
    }


def learned_kernel(scans: Scans, temperature: float, seed: int) -> dict[str, Any]:
    """Figure: learned entries of the kernel over widths, with theory of the linear network."""
    predicted = _predicted(scans, temperature, seed)
    none = np.full(len(predicted["lazy"]), np.nan)
    return _over_widths(scans, 1) | {
        "name": "learned_kernel",
        "caption": "What the kernel learns stays of order one in non-lazy networks (color) and vanishes "
        "as 1/N in lazy ones (gray). Markers: samples with standard errors; dashed: theory of the linear "
        "network at finite width; lines: fitted power laws. Paper A, Fig. 1c, e.",
        "theory": [predicted[scaling] if name == "linear" else none for name, scaling in scans],
        "ylabel": "learned entry $c$",
    }


def _check_exponents(
    claim: str, quantity: str, scans: Scans, k: int, expected: dict[str, float], tolerance: float
) -> None:
    """Both scalings' exponents of column k; each is the control of the other."""
    fits = {how: [scan.exponent(k) for (_, own), scan in scans.items() if own == how] for how in SCALINGS}
    rows = {how: np.transpose(each)[:2] for how, each in fits.items()}  # exponents and their errors
    for scaling, other in OTHER.items():
        check(
            claim,
            f"exponent of the {quantity} in N, {scaling}",
            rows[scaling][0],
            expected[scaling],
            rows[scaling][1],
            absolute(tolerance),
            control=(f"{other} networks", *rows[other]),
            sampler=[scan.runs[-1].convergence for (_, how), scan in scans.items() if how == scaling],
            because="corrections of relative order 1/P bend the power law at the smallest width",
        )


def check_angles(scans: Scans) -> None:
    """Exponents of the cosine."""
    _check_exponents("A1", "cosine", scans, 0, {"non-lazy": 0.0, "lazy": -0.5}, 0.1)


def check_learned_kernel(scans: Scans, temperature: float, seed: int) -> None:
    """Exponents of the learned entry, and its value in linear networks."""
    expected = {"non-lazy": 0.0, "lazy": -1.0}
    _check_exponents("A2", "learned entry of the kernel", scans, 1, expected, 0.2)
    predicted = _predicted(scans, temperature, seed)
    for scaling, other in OTHER.items():
        scan = scans["linear", scaling]
        check(
            "A2",
            f"learned entry of the linear network at N = {', '.join(map(str, scan.sizes))}, {scaling}",
            scan.mean[:, 1],
            predicted[scaling],
            scan.error[:, 1],
            standard_errors(3),
            control=Control("theory of the other scaling", expected=predicted[other]),
            sampler=scan.runs[-1].convergence,
            because="corrections of higher order in 1/N",
        )


# --- kernels and neurons --------------------------------------------------------------------------


def check_alike(runs: dict[str, dict[str, Run]], alignment: dict[str, np.ndarray]) -> None:
    """Kernels of three nonlinearities are alike, the fractions of neurons behind them are not."""
    sampler = [run.convergence for run in runs["non-lazy"].values()]
    check(
        "A3",
        "smallest alignment of learned kernels between linear, sigmoidal and ReLU",
        alignment["non-lazy"].mean(),
        above(0.85),
        control=("lazy networks", alignment["lazy"].mean()),
        sampler=sampler,
        because="the noise of a single network's kernel at this N",
    )
    ratios = {
        scaling: [
            statistics.mean_and_error(coding.participation(run.samples.activations(), run.task.labels))[0]
            for run in each.values()
        ]
        for scaling, each in runs.items()
    }
    ranges = (between(0.2, 0.5), above(0.6), below(0.2))
    for k, (scheme, range_) in enumerate(zip(SCHEMES, ranges, strict=True)):
        check(
            "A3",
            f"fraction of neurons that carry the difference between the classes, {titled(scheme)}",
            ratios["non-lazy"][k],
            range_,
            control=("another nonlinearity", ratios["non-lazy"][k - 1]),
            note=f"lazy network: {ratios['lazy'][k]:.2f}",
            sampler=sampler[k],
            because="at this N and T the scheme is not complete",
        )


def rotated(
    run: Run, pair: tuple[np.ndarray, np.ndarray], readouts: tuple[np.ndarray, np.ndarray], change: float
) -> dict[str, Any]:
    """Figure: neurons before and after a rotation, activations (N, P) and readouts (N, 1) each."""
    labels, network = run.task.labels, run.posterior.network
    neurons = lazy_and_rich.telling_neurons(pair[0], labels, 40)
    # as many inputs of either class as a page can hold
    each = max(1, 8192 // network.width)
    inputs = np.concatenate([np.flatnonzero(labels == c)[:each] for c in np.unique(labels)])
    return {
        "plot_function": figures.activation_matrix,
        "name": "rotated",
        "caption": f"A rotation of neuron space leaves the kernel as it is (largest change {change:.0e}) "
        "and dissolves the code. Forty sigmoidal neurons, as in the first figure; the slider turns "
        f"them up to a quarter turn; {where(run)} No paper shows it.",
        "activations": [phi[neurons] for phi in pair],
        "labels": labels,
        "titles": ["as sampled", "rotated, same kernel"],
        "page": films.rotation(
            [phi[:, inputs] for phi in pair],
            [network.readout_scale * a[:, 0] for a in readouts],
            labels[inputs],
            neurons,
        ),
    }


def check_rotation(labels: np.ndarray, code: Any, control: Any, change: float) -> None:
    """Participation changes under a rotation; for the linear network, the pair `control`, it does not."""
    before, after, linear_before, linear_after = (
        coding.participation(phi, labels) for phi in (*code, *control)
    )
    check(
        "A3",
        "change of the fraction of neurons that carry the difference, under a rotation",
        np.abs(after - before),
        above(0.2),
        control=("the linear network, rotated alike", np.abs(linear_after - linear_before)),
        note=f"largest change of the kernel: {change:.0e}",
        because="at this N and T the code is not sharp",
    )


# --- neural collapse ------------------------------------------------------------------------------


def frames(ends: dict[str, Starts], noise: dict[str, np.ndarray]) -> dict[str, Any]:
    """Figure: cosines between class means, trained and untrained."""
    first = next(iter(ends.values()))
    labels = first.task.labels
    return {
        "plot_function": figures.kernel_matrices,
        "name": "frames",
        "caption": "The class means of trained networks form a regular simplex; those of untrained "
        "networks are noise. Cosines between the centered class means of two halves of the inputs, "
        f"averaged over samples; three equal classes, N = {first.width}, P = {len(labels)}, "
        f"T = {first.meeting.prior.temperature:g}. No paper shows it; a claim of paper A's Discussion.",
        "kernels": [
            *(_frame(each.meeting.prior, labels) for each in ends.values()),
            *(coding.class_frame(phi, labels).mean(0) for phi in noise.values()),
        ],
        "labels": np.arange(3),
        "titles": [*(titled(scheme) for scheme in ends), *["untrained"] * len(ends)],
        "label": "cosine",
        "places": "class mean",
    }


def _frame(samples: Samples, labels: np.ndarray) -> np.ndarray:
    """Cosines between the class means of two halves of the inputs, averaged over samples."""
    return coding.class_frame(samples.activations(), labels).mean((0, 1))


def check_frames(ends: dict[str, Starts], noise: dict[str, np.ndarray]) -> None:
    """Class means of two halves of the inputs form a simplex, in networks from either end."""
    for scheme, each in ends.items():
        labels = each.task.labels
        check(
            "A32",
            f"cosines between class means of two halves of the inputs, from either end, {titled(scheme)}",
            np.stack([_frame(half, labels) for half in each.halves]),
            np.stack([SIMPLEX, SIMPLEX]),
            absolute(0.15),
            control=("untrained networks", coding.class_frame(noise[scheme], labels).mean(0)),
            sampler=each.equilibrium,
            because="noise of the class means at this P",
        )


def check_variability(ends: Starts, smaller: Starts) -> None:
    """Within-class variability of a sigmoidal network does not fall with its size, from either end."""
    large, small = (
        [coding.neural_collapse(half.activations(), each.task.labels) for half in each.halves]
        for each in (ends, smaller)
    )
    ratios, usual = (
        np.array(
            [
                getattr(one, name).mean() / getattr(other, name).mean()
                for one, other in zip(large, small, strict=True)
            ]
        )
        for name in ("variability", "within_class")
    )
    check(
        "A32",
        "sigmoidal: within-class over between-class variance at N, as a multiple of that at N/2, either end",
        ratios,
        above(0.75),
        control=("NC1, the usual measure", usual),
        note=f"the ratio itself is {large[0].variability.mean():.3f}",
        sampler=[ends.equilibrium, smaller.equilibrium],
        because="fluctuations of single networks at this N",
    )
