"""What the chapter on dynamics shows: arrays of its figures, and its checks."""

from functools import partial
from typing import Any

import numpy as np
from coding_schemes import coding, statistics
from coding_schemes.theory import dynamics as theory_dynamics
from coding_schemes.theory import linear
from companion import figures
from companion.checks import above, absolute, below, check, equal, standard_errors
from companion.workbench import Run, titled, where

from experiments import dynamics
from experiments.dynamics import Motion, OutlierVariances

FILM_INPUTS = 64  # shown in the film, at most: one more column costs it ten kilobytes
SMALL_P = "at this P the barrier is low enough to be crossed now and then, as the last section computes"


def traces(
    motions: dict[str, Motion], theories: dict[str, Any], preactivations: bool = False
) -> dict[str, Any]:
    """Figure: readouts, or preactivations on one input, of six neurons of each network in its first chain."""
    linear_size, size = (motions[name].run.task.num_inputs for name in ("linear", "sigmoidal"))
    temperature = motions["sigmoidal"].run.samples.temperature
    sizes = f"Linear N = P = {linear_size}, others {size}; T = {temperature:g}. Paper A, Fig. 4"
    chosen = {}
    for scheme, motion in motions.items():
        first = motion.codes[-1][0, 0]
        if scheme == "sigmoidal":
            chosen[scheme] = coding.sort_by_code(first, motion.means[-1][0, 0])[
                np.linspace(0, len(first) - 1, 6).astype(int)
            ]
        else:  # planted: outliers come first in ReLU networks
            chosen[scheme] = np.arange(6)
    levels = np.full((3, 4), np.nan)
    if not preactivations:
        analog, branches, sparse = theories.values()
        levels[0, :2] = analog.readout_covariance[0, 0] ** 0.5 * np.array([-1, 1])
        levels[1, : len(branches.readouts[:4])] = branches.readouts[:4, 0]
        levels[2] = [sparse.bulk_readout[0], *sparse.num_neurons**0.5 * sparse.outlier_readouts[:3, 0]]
    return {
        "plot_function": figures.trace_panels,
        "name": "preactivations_in_time" if preactivations else "readouts_in_time",
        "caption": "Preactivations of the neurons above on one input of class 0: all fluctuate but the ReLU "
        f"outlier that answers to it. {sizes}d."
        if preactivations
        else "Linear neurons wander through the whole distribution of readouts; sigmoidal and ReLU neurons "
        "stay where they are. Readout weight for class 0 of six neurons each. Dashed: one standard deviation "
        f"(linear), maxima of the readout posterior (sigmoidal), outliers and bulk (ReLU) in theory. "
        f"{sizes}b.",
        "times": [motion.times for motion in motions.values()],
        "values": [
            motion.run.preactivations[0][0][:, chosen[scheme], 0].T
            if preactivations
            else motion.run.readouts[0][:, chosen[scheme], 0].T
            for scheme, motion in motions.items()
        ],
        "titles": [titled(scheme) for scheme in motions],
        "levels": levels,
        "ylabel": r"preactivation $z_{i\mu}$" if preactivations else "readout weight $a_i^0$",
    }


def memory(motions: dict[str, Motion], theory: linear.Solution) -> dict[str, Any]:
    """Autocorrelation of readouts of all networks, and of the linear one the mean field's."""
    rows, times = [], []
    for motion in motions.values():
        lags = np.arange(1, len(motion.times) // 2)
        found = dynamics.autocorrelations(motion.run.readouts, lags[-1])
        rows.append([part[lags] for part in found])
        times.append(motion.interval * lags)
    values, errors = np.swapaxes(np.array(rows), 0, 1)
    return {
        "x": [times[0], *times],
        "values": [theory_dynamics.linear_memory(theory, times[0]), *values],
        "errors": [np.zeros(len(times[0])), *errors],
        "names": ["theory, linear", *map(titled, motions)],
        "colors": [figures.COLORS[name] for name in ("theory", *motions)],
        "styles": ["--", "-", "-", "-"],
        "widths": [1.2, 1.6, 4.0, 1.4],
        "scales": ("log", "linear"),
        "xlabel": "time lag $s$",
        "ylabel": "autocorrelation of readouts $C(s)$",
    }


def orders(networks: dict[str, tuple[Motion, int]]) -> dict[str, Any]:
    """Permutation order of layers against the length of the run."""
    found = [dynamics.order_over_length(motion, layer) for motion, layer in networks.values()]
    length = max(len(times) for times, _, _ in found)
    pad = [[np.pad(part, (0, length - len(part)), constant_values=np.nan) for part in one] for one in found]
    x, values, errors = np.swapaxes(np.array(pad), 0, 1)
    return {
        "x": x,
        "values": values,
        "errors": errors,
        "names": [titled(name) for name in networks],
        "colors": [figures.COLORS[name.split()[0]] for name in networks],
        "styles": ["-" if "1/1" in name else "--" if "2/2" in name else ":" for name in networks],
        "scales": ("log", "linear"),
        "levels": [0.0, 1.0],
        "xlabel": "length of the run $t$",
        "ylabel": "permutation order $q$",
    }


def check_exploration(motions: dict[str, Motion], theory: linear.Solution, half: linear.Solution) -> None:
    """A20: linear neurons cover the distribution, forget, and forget as the mean field says."""
    motion, still = motions["linear"], motions["sigmoidal"]
    series, sampler = motion.run.readouts, motion.run.convergence
    short = "the run is short against the readouts' autocorrelation time"
    share, error = dynamics.coverage(series)
    other = np.array(dynamics.coverage(still.run.readouts)[0])
    question = "share of the readout distribution's deciles that a single linear neuron visits"
    control = ("sigmoidal network", other)
    check_a20 = partial(check, "A20", sampler=sampler)
    check_a20(question, share, 1.0, error, above(0.95), control=control, because=short)
    q, frozen = (statistics.permutation_order(one.run.readouts) for one in (motion, still))
    control = ("sigmoidal network", np.array(frozen.value))
    question = "permutation order of the readouts, linear network"
    against = (0.0, q.standard_error, absolute(0.1))
    check_a20(question, q.value, *against, control=control, because=short)
    expected = theory_dynamics.linear_memory(theory, motion.times)
    lags = [int(np.argmin(np.abs(expected - level))) + 1 for level in (0.8, 0.5, 0.3)]
    found, errors = (part[lags] for part in dynamics.autocorrelations(series, lags[-1]))
    at = motion.interval * np.array(lags)
    check_a20(
        f"autocorrelation of linear readouts at the lags {', '.join(f'{one:.0f}' for one in at)}",
        found,
        theory_dynamics.linear_memory(theory, at),
        errors,
        absolute(2 / series.shape[2]),
        control=("theory at half the size", None, None, theory_dynamics.linear_memory(half, at)),
        note="within 2/N: the mean field that drives a neuron fluctuates, to order 1/N",
        because="corrections of order 1/N are larger than 2/N",
    )


def check_codes(motions: dict[str, Motion]) -> None:
    """A21: no neuron changes its code, and the readouts stay on their branch."""
    moving = motions["linear"]
    for scheme in ("sigmoidal", "relu"):
        motion, name = motions[scheme], titled(scheme)
        found, tau = motion.switches(), motion.correlation_time()
        length = motion.times[-1] * len(motion.means[0]) / tau
        check(
            "A21",
            f"code switches of all neurons, {name}",
            found.num_switches,
            0,
            equal(),
            control=("linear network, signs of the class means", moving.switches().num_switches),
            sampler=motion.run.convergence,
            note=f"rate below {found.upper:.2g} per neuron and unit of time (95 %), from {length:.0f} "
            f"autocorrelation times of the preactivations (τ = {tau:.2f}), all chains together",
            because=SMALL_P,
        )
        check(
            "A21",
            f"variance of the readouts in time over that across neurons, {name}",
            dynamics.variance_ratio(motion.run.readouts).mean(),
            below(0.1),
            control=("linear network", dynamics.variance_ratio(moving.run.readouts).mean()),
            sampler=motion.run.convergence,
            because="fluctuations of order 1/P are not yet small",
        )


def check_order(networks: dict[str, tuple[Motion, int]], frozen: list[str]) -> None:
    """A21: permutation symmetry stays broken in the feature layers of nonlinear networks."""
    q = {
        name: statistics.permutation_order(motion.means[layer]) for name, (motion, layer) in networks.items()
    }
    check(
        "A21",
        f"permutation order of layers {', '.join(map(titled, frozen))}",
        np.array([q[name].value for name in frozen]),
        above(0.9),
        control=("linear 1/1", np.array(q["linear 1/1"].value)),
        note="; ".join(f"{name}: {one.value:.2f} ± {one.standard_error:.2f}" for name, one in q.items()),
        sampler=[networks[name][0].run.convergence for name in frozen],
        because=SMALL_P,
    )


def check_fluctuations(motions: dict[str, Motion], theories: dict[str, Any], step: float) -> None:
    """A22: variances of preactivations in time, of sigmoidal neurons and of ReLU outliers."""
    motion = motions["sigmoidal"]
    sampled, errors, expected = dynamics.sigmoidal_variances(motion, theories["sigmoidal"], step)
    sparse = motions["relu"]
    size = sparse.run.posterior.network.width
    count = theories["relu"].num_outliers
    outliers, outlier_errors = dynamics.sampled_outlier_variances(sparse.run)
    theory = dynamics.outlier_variances(size, float(sparse.run.posterior.temperature), step)
    check_a22 = partial(check, "A22")
    check_a22(
        "variance of preactivations in time by code and class, given their mean, sigmoidal (prior: 1)",
        sampled,
        expected,
        errors,
        standard_errors(3),
        control=("theory of another code", None, None, np.roll(expected, 1, axis=0)),
        sampler=motion.run.convergence,
        note=f"smallest {sampled.min():.2f}: neurons fluctuate on every class",
        because="at small P readouts run up towards the passes, farther than their Gaussian width",
    )
    check_a22(
        f"variance of outliers' preactivations in time, ReLU, N = P = {size}, by Langevin steps (prior: 1)",
        outliers,
        theory.stepped,
        outlier_errors,
        standard_errors(3),
        control=("theory at N → ∞", None, None, theory.infinite),
        sampler=sparse.run.convergence,
        because="corrections of higher order in 1/N",
    )
    bulk = statistics.variance_in_time(sparse.run.preactivations[0][:, :, count:]).mean()
    check_a22(
        "the largest of them: outliers freeze",
        outliers.max(),
        below(0.1),
        control=("the bulk", bulk),
        sampler=sparse.run.convergence,
        because="the variance falls with T and 1/N only",
    )


def over_sizes(runs: dict[int, Run], temperature: float) -> dict[str, Any]:
    """For `figures.curves`: outliers' variances by the exact sampler at several sizes, and theory's."""
    theories: list[OutlierVariances] = [dynamics.outlier_variances(n, temperature, 0.0) for n in runs]
    found = [dynamics.sampled_outlier_variances(run) for run in runs.values()]
    sampled, errors = np.array(found).transpose(1, 2, 0)
    parts = [np.array([getattr(one, name) for one in theories]).T for name in ("total", "noise", "infinite")]
    return {
        "x": list(runs),
        "values": [parts[k][i] for k in range(3) for i in (0, 1)],
        "names": ["class 0", "class 1 or 2"] * 3,
        "colors": figures.CLASS_COLORS[:2],
        "styles": ["-", "-", "--", "--", ":", ":"],
        "sampled_x": list(runs),
        "sampled": sampled,
        "sampled_errors": errors,
        "xlabel": "size $N = P$",
        "ylabel": "variance in time of $z$",
    }


def check_sizes(runs: dict[int, Run], curves: dict[str, Any]) -> None:
    """A22: the samples of `over_sizes` against its full lines; the dotted ones must fail."""
    check(
        "A22",
        "variance of outliers in time, ReLU, by exact sampling without moves, N = P = "
        f"{', '.join(map(str, runs))}",
        curves["sampled"],
        np.array(curves["values"][:2]),
        curves["sampled_errors"],
        standard_errors(3),
        control=("theory at N → ∞", None, None, np.array(curves["values"][4:])),
        sampler=[run.convergence for run in runs.values()],
        because="corrections of higher order in 1/N",
    )


def check_drift(deep: Motion, seed: int) -> None:
    """A23: first-layer neurons change codes in balance, the feature layer's do not, the kernel stays."""
    history, sampler = dynamics.code_history(deep), deep.run.convergence
    first, last = (deep.switches(layer) for layer in (0, 1))
    moved = np.any(deep.codes[0][:, 1:] != deep.codes[0][:, :-1], axis=-1).mean(1) / deep.interval
    error = moved.std(ddof=1) / moved.size**0.5
    check_a23 = partial(check, "A23", sampler=sampler)
    check_a23(
        "rate of code switches per neuron and unit of time, first layer, in its standard errors",
        first.rate / error,
        above(5),
        control=("feature layer", np.array(last.rate / error)),
        note=f"rate {first.rate:.3g} ± {error:.2g}; {first.fraction_moved:.0%} of neurons end on another one",
        because="at this size few neurons cross within the run",
    )
    check_a23(
        "code switches in the feature layer",
        last.num_switches,
        0,
        equal(),
        control=("first layer", first.num_switches),
        note=f"rate below {last.upper:.2g} per neuron and unit of time (95 %)",
        because=SMALL_P,
    )
    before, after = history.layers[0][:, 0].ravel(), history.layers[0][:, -1].ravel()
    kinds = range(len(history.kinds))
    cohorts = [before == kind for kind in kinds]
    fluxes = [dynamics.net_flux(before[one], after[one], len(kinds)) for one in cohorts]
    check_a23(
        "net flux of first-layer neurons into each code, in standard errors",
        np.abs(dynamics.net_flux(before, after, len(kinds))).max(),
        below(3),
        control=("neurons that began with one code", np.abs(fluxes).max()),
        because="the first layer had not reached equilibrium when the run began",
    )
    kernel, shuffled, neurons = dynamics.kept(deep, 0, np.random.default_rng(seed))
    check_a23(
        "similarity of the first layer's kernels in the first and the last tenth of the run",
        kernel,
        above(0.9),
        control=("inputs shuffled", shuffled),
        note=f"of its neurons: {neurons.mean():.2f}",
        because="the kernel of one network carries noise of order 1/√N",
    )


def _some(deep: Motion, count: int) -> np.ndarray:
    return np.linspace(0, deep.means[0].shape[2] - 1, count).astype(int)


def _setting(deep: Motion) -> str:
    return f"{where(deep.run)[:-1]}, y₋ = 1/2. Paper A, Fig. 5."


def drift(deep: Motion, num_times: int = 4, num_neurons: int = 40) -> dict[str, Any]:
    """Figure: a few neurons of both layers at a few times."""
    at = np.linspace(0, len(deep.times) - 1, num_times).astype(int)
    return {
        "plot_function": figures.activation_matrix,
        "name": "drift",
        "caption": "Neurons of the first layer change their codes, the scheme stays. Above: "
        f"{num_neurons} neurons at {num_times} times, ordered by their codes at the start; middle: the same, "
        f"ordered anew each time; below: {num_neurons} neurons of the feature layer in a fixed order. "
        f"{_setting(deep)}",
        "activations": [
            [z for z, _ in row] for row in dynamics.drift_rows(deep, at, _some(deep, num_neurons))
        ],
        "labels": deep.run.task.labels,
        "row_names": ["layer 1, fixed", "layer 1, sorted", "layer 2, fixed"],
        "titles": [f"$t = {deep.times[k]:.1f}$" for k in at],
    }


def film(deep: Motion, num_frames: int, num_neurons: int = 40) -> dict[str, Any]:
    """Film: frames of `dynamics.drift_frame`."""
    labels, snapshots = deep.run.task.labels, np.linspace(0, len(deep.times) - 1, num_frames).astype(int)
    every = -(-len(labels) // FILM_INPUTS)
    rows = dynamics.drift_rows(deep, snapshots, _some(deep, num_neurons))
    names = ("fixed", "sorted_anew", "last")
    arrays = {
        name: np.stack([z for z, _ in row])[..., ::every].astype(np.float32)
        for name, row in zip(names, rows, strict=True)
    }
    arrays["codes"] = np.array([[codes for _, codes in row] for row in rows])
    return arrays | {
        "plot_function": dynamics.drift_frame,
        "name": "drift_film",
        "caption": f"The same as a film, a color per code: play it, or move the slider. {_setting(deep)}",
        "edges": np.cumsum(np.bincount(labels[::every]))[:-1] - 0.5,
        "times": deep.times[snapshots],
        "num_frames": num_frames,
        "still": num_frames - 1,
        "description": "First-layer neurons change their codes one by one; sorted anew, the scheme stays",
    }


def raster(deep: Motion) -> dict[str, Any]:
    """Figure: codes of all neurons of the first chain over time."""
    history = dynamics.code_history(deep)
    which = [layer[0].T for layer in history.layers]
    return {
        "plot_function": figures.code_raster,
        "name": "all_layers_in_time",
        "caption": "Codes mix in the first layer and stay in the feature layer. All neurons of one chain, "
        f"sorted by their code at the start; a color per code. {_setting(deep)}",
        "times": deep.times,
        "which": [w[np.argsort(w[:, 0], kind="stable")].astype(np.int16) for w in which],
        "names": history.names,
        "titles": ["layer 1", "layer 2 (feature layer)"],
    }
