"""What the chapter on the phase diagram shows and checks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from coding_schemes import coding, paths, statistics, tasks
from coding_schemes.theory import sigmoidal
from companion import figures
from companion.checks import Control, above, absolute, below, beside, check, equal, relative, standard_errors
from companion.workbench import Run, where
from matplotlib.figure import Figure

from experiments import phases
from experiments.phases import (
    CODES,
    NAMES,
    SMALL_WAYS,
    Ends,
    Scan,
    Zero,
    occupancies,
    place,
    share_series,
    shares,
    solve,
)


def _sizes(run: Run) -> str:
    """How many networks, and how large, as captions say it."""
    return f"{len(run.readouts)} networks, N = P = {run.task.num_inputs}"


def phase_map(scan: Scan) -> dict[str, Any]:
    """Figure: the stored atlas as colors, sampled networks as points."""
    with np.load((paths.repository_root() or Path()) / "data" / "results" / "redundant-atlas.npz") as stored:
        atlas = dict(stored)
    networks = _sizes(next(iter(scan.values())).run)
    return {
        "plot_function": figures.phase_map,
        "name": "phase_diagram",
        "caption": "Above the critical temperature (white line) one code is left. Color: effective number of "
        "codes, $\\exp(-\\sum_\\gamma P_\\gamma \\log P_\\gamma)$, theory at P = 100 (a stored result of "
        "`python -m experiments.atlas`); points, on the same scale but by the codes of neurons: "
        f"{networks}, each in equilibrium. "
        "Paper A, supplement E, has a critical temperature; the map is the book's own.",
        "horizontal": atlas["targets"],
        "vertical": atlas["temperatures"],
        "values": phases.effective_number(atlas["occupancies"]),
        "boundary": atlas["critical_temperatures"],
        "points": [*scan],
        "point_values": phases.effective_number(share_series([ends.run for ends in scan.values()])[0]),
    }


def transitions(line: np.ndarray, curves: np.ndarray, scan: Scan, temperature: float) -> dict[str, Any]:
    """Figure: shares over y₋, theory as lines and samples as markers."""
    on_line = {y: ends.run for (y, t), ends in scan.items() if t == temperature}
    mean, error = share_series([*on_line.values()])
    return _code_curves(line, curves, [*on_line], mean, error) | {
        "name": "transitions",
        "caption": "Codes join and leave as the target of the wrong classes rises, each by a share that "
        "grows from zero. Lines: theory (1-1-0 lies under 1-0-1, 0-1-0 under 0-0-1); markers: equilibrium, "
        f"with standard errors; {_sizes(next(iter(on_line.values())))}, T = {temperature}. Paper A, text "
        "after Fig. 2 and supplement E.",
        "xlabel": r"target of the other classes $y_-$",
    }


def cooling(
    steps: np.ndarray, cooled: np.ndarray, size: int, y_minus: float, transitions: int
) -> dict[str, Any]:
    """Figure: shares over T, equilibrium as lines and cooled networks as markers."""
    fine = np.geomspace(steps.max(), steps.min(), 31)
    theory = np.array([shares(solve(size, y_minus, float(t))) for t in fine])
    spread = cooled.std(1, ddof=1)
    return _code_curves(fine, theory, steps, cooled.mean(1), spread) | {
        "name": "cooling",
        "caption": "Frozen codes are codes of a higher temperature. Networks cooled step by step (markers, "
        f"from right to left, {transitions} trajectories at each T; mean and scatter of {cooled.shape[1]} "
        "networks) follow the equilibrium shares (lines) near the critical temperature, and then keep "
        "1-0-0, which equilibrium gives up. Above that temperature the neurons of the one peak scatter "
        f"about ½, and so over several codes. y₋ = {y_minus}, N = P = {size}. Not in the papers.",
        "xlabel": "temperature $T$",
        "scales": ("log", "linear"),
    }


def _code_curves(x: Any, theory: Any, sampled_x: Any, mean: Any, error: Any) -> dict[str, Any]:
    drawn = np.maximum(theory.max(0), mean.max(0)) > 0.015
    return {
        "plot_function": figures.curves,
        "x": x,
        "values": theory.T[drawn],
        "names": np.array(NAMES)[drawn],
        "sampled_x": sampled_x,
        "sampled": mean.T[drawn],
        "sampled_errors": error.T[drawn],
        "ylabel": "fraction of neurons",
    }


def panels(wide: dict[float, Ends]) -> dict[str, Any]:
    """Figure: activations as quenched and in equilibrium, over y₋."""
    run = next(iter(wide.values())).run
    return {
        "plot_function": figures.activation_matrix,
        "name": "panels",
        "caption": "A quenched network has codes that equilibrium does not have, such as 1-0-0 (rows on for "
        "class 0 alone), and four schemes where equilibrium has two. Activations of all neurons, sorted by "
        f"code, as put at T = {phases.COLD:g} from the prior at once (above), and after moves between codes "
        f"at T = {place(run)[1]:g} (below). {where(run)} Paper A′, Fig. 5A–D, the preprint of A (its values "
        "of y₋ between 0.1 and 0.5 are not known to us).",
        "activations": [
            [phases.sorted_by_code(run) for run in runs]
            for runs in zip(*((ends.quenched, ends.run) for ends in wide.values()), strict=True)
        ],
        "labels": run.task.labels,
        "titles": [f"$y_-$ = {y:g}" for y in wide],
        "row_names": ("quenched", "in equilibrium"),
    }


def _bars(reached: dict[float, dict[str, Run]]) -> dict[str, Any]:
    """Shares by ways and targets, beside theory."""
    values = [
        [*map(phases.mean_shares, runs.values()), shares(solve(run.task.num_inputs, *place(run)))]
        for runs in reached.values()
        for run in [next(iter(runs.values()))]
    ]
    groups = [*next(iter(reached.values())), "theory"]
    titles = [f"$y_-$ = {y:g}" for y in reached]
    drawn = {"values": values, "names": NAMES, "stacked": True, "groups": groups, "titles": titles}
    return {"plot_function": figures.bars} | drawn


def ways_bars(reached: dict[float, dict[str, Run]]) -> dict[str, Any]:
    """Figure: shares that four ways down lead to."""
    run = next(iter(reached.values()))["recode"]
    return _bars(reached) | {
        "name": "ways",
        "caption": "Quenched and slowly cooled networks differ from theory, planted and recoded ones do not. "
        f"Shares of the codes, mean over {_sizes(run)}, T = {place(run)[1]:g}. Not in the papers.",
    }


def small_bars(small: dict[tuple[str, float], Run], rungs: int, hottest: float) -> dict[str, Any]:
    """Figure: shares in small networks, replica exchange among the ways."""
    targets = dict.fromkeys(y for _, y in small)
    return _bars({y: {way: small[way, y] for way in SMALL_WAYS} for y in targets}) | {
        "name": "ways_small",
        "caption": "Replica exchange agrees with moves between codes. Shares of the codes in networks of "
        f"{where(next(iter(small.values())))[:-1]}, {rungs} temperatures up to {hottest}. Not in the papers.",
    }


def free_energies(reached: dict[float, dict[str, Run]], lost: dict[str, np.ndarray]) -> dict[str, Any]:
    """Figure: what the shares reached cost in free energy."""
    return {
        "plot_function": figures.curves,
        "name": "free_energy",
        "caption": "What frozen shares cost: free energy of one network above that of equilibrium, by theory "
        "held to the shares that were found. A loss of ten means odds of $e^{10}$ against; below a few, the "
        f"construction's own error shows. {where(next(iter(reached.values()))['recode'])} Not in the papers.",
        "x": [*reached],
        "values": [*lost.values()],
        "names": [*lost],
        "scales": ("linear", "symlog"),
        "xlabel": r"target of the other classes $y_-$",
        "ylabel": r"free energy lost, $N \Delta F$",
    }


def variances(scan: Scan, sampled: Zero, y_minus: float, sizes: tuple[int, int]) -> dict[str, Any]:
    """Figure: variance of the readouts over T by theory at two sizes and by samples."""
    at = {t: ends.run for (y, t), ends in scan.items() if y == y_minus and t >= 0.03}
    mean, error = np.transpose(
        [statistics.mean_and_error(phases.readout_variance(run)) for run in at.values()]
    )
    fine = np.linspace(0.02, 0.11, 19)
    return {
        "plot_function": critical_plot,
        "name": "critical_temperature",
        "caption": "The variance of the readouts, extrapolated, vanishes near the critical temperature. "
        "Lines: theory at two sizes, with the $T_c$ at which its second peak goes (dotted); markers: "
        f"{_sizes(next(iter(at.values())))}, with standard errors; diamond: $T_c$ extrapolated from the four "
        f"colder markers, with its error over networks and extrapolation. y₋ = {y_minus}. Paper A, "
        "supplement E.",
        "x": fine,
        "values": [[phases.predicted_variance(size, y_minus, float(t)) for t in fine] for size in sizes],
        "names": [f"theory, P = {size}" for size in sizes],
        "colors": [figures.COLORS["sigmoidal"], figures.COLORS["lazy"]],
        "marks": [phases.critical_temperature(size, y_minus) for size in sizes],
        "sampled_x": [*at],
        "sampled": [mean],
        "sampled_errors": [error],
        "extrapolated": [sampled.temperature, sampled.error],
    }


def check_shares(claim: str, quantity: str, scan: Scan) -> None:
    """Shares in equilibrium against theory at every place; theory for y₋ + 0.1 must fail.

    The error is the larger of the scatter over networks and of what theory lets shares scatter.
    """
    chosen = [*scan.items()]
    size = chosen[0][1].run.task.num_inputs
    mean, error = share_series([ends.run for _, ends in chosen])
    theory = [solve(size, y, t) for (y, t), _ in chosen]
    predicted = np.array([shares(solution) for solution in theory])
    wrong = np.array([shares(solve(size, y + 0.1, t)) for (y, t), _ in chosen])
    networks = len(chosen[0][1].run.readouts)
    fluctuation = np.array([phases.share_errors(solution, size, networks) for solution in theory])
    kept = np.maximum(mean, predicted) > 0.005
    check(
        claim,
        f"{quantity}, {len(chosen)} places, N = P = {size}",
        mean[kept],
        predicted[kept],
        np.maximum(error, fluctuation)[kept],
        standard_errors(3),
        control=Control("theory at y₋ + 0.1", expected=wrong[kept]),
        sampler=[ends.ends for _, ends in chosen],
        because="corrections of order 1/N: theory takes N to infinity",
        note=f"largest deviation {size * np.abs(mean - predicted).max():.1f} neurons",
    )


def check_quenched(wide: dict[float, Ends]) -> None:
    """Schemes that quenched networks pass through over y₋, wherever one counts a code; equilibrium must fail.

    Counted is what holds 1, 2 or 5 % of the neurons, on average over networks and over the exchange of the
    two small classes, which are alike.
    """
    size = next(iter(wide.values())).run.task.num_inputs
    mirror = [NAMES.index(coding.code_name(code)) for code in CODES[:, [0, 2, 1]]]
    quenched = np.array([occupancies(ends.quenched.samples)[:, -1].mean(0) for ends in wide.values()])
    quenched = (quenched + quenched[:, mirror]) / 2
    equilibrium = np.array([shares(solve(size, y, phases.COLD)) for y in wide])
    counts, fewer = (
        np.array([len(set(phases.schemes(rows, least))) for least in (0.01, 0.02, 0.05)])
        for rows in (quenched, equilibrium)
    )
    seen = zip(wide, phases.schemes(quenched), strict=True)
    check(
        "A11",
        f"schemes of networks quenched to T = {phases.COLD:g}, y₋ = {_listed(wide)}, N = P = {size}, by "
        "codes with 1, 2 and 5 % of the neurons",
        counts,
        np.full(len(counts), 4),
        equal(),
        control=("theory's equilibrium at the same temperature and targets", fewer),
        source="published",
        note="; ".join(f"{' '.join(codes)} at {y}" for y, codes in seen),
        because="which codes freeze in depends on the cooling",
    )


def check_relaxed(wide: dict[float, Ends]) -> None:
    """Networks that were quenched, then free to change codes, against theory; as quenched they must fail."""
    rows = []
    for ends in wide.values():
        half, size = len(ends.run.readouts) // 2, ends.run.task.num_inputs
        theory = solve(size, *place(ends.run))
        after, before = (occupancies(run.samples)[:half] for run in (ends.run, ends.quenched))
        error = np.maximum(statistics.mean_and_error(after)[1], phases.share_errors(theory, size, half))
        rows.append([after.mean((0, 1)), before[:, -1].mean(0), shares(theory), error])
    found, quenched, predicted, error = np.moveaxis(np.array(rows), 1, 0)
    kept = np.maximum(predicted, found) > 0.002
    check(
        "D6",
        f"shares of quenched networks once neurons may change codes, y₋ = {_listed(wide)}, N = P = {size}",
        found[kept],
        predicted[kept],
        error[kept],
        standard_errors(4),
        control=("the same networks as quenched", quenched[kept]),
        sampler=[ends.ends for ends in wide.values()],
        because="some neurons had no time to change, or corrections of order 1/N",
    )


def check_frozen(reached: dict[float, dict[str, Run]], lost: dict[str, np.ndarray], warm: Run) -> None:
    """That quenched networks are frozen, lose free energy, and have the energy of their frozen shares.

    Args:
        reached: runs by y₋ and way.
        lost: free energies by way.
        warm: local dynamics just below the critical temperature, where neurons do change their codes.
    """
    quenched, free = ([runs[way] for runs in reached.values()] for way in ("quenched", "recode"))
    at = f"y₋ = {_listed(reached)}, N = P = {quenched[0].task.num_inputs}"
    check(
        "D6",
        f"code changes per neuron and trajectory in quenched networks, {at}",
        np.array([phases.switches(run) for run in quenched]),
        below(0.005),
        control=(f"local dynamics at T = {place(warm)[1]:g}", np.array([phases.switches(warm)])),
        because="at this N and T some neurons still cross",
    )
    check(
        "D6",
        f"free energy lost by a quenched network, {at}",
        lost["quenched"],
        above(5.0),
        control=("planted", lost["planted"]),
        because="a small network has few neurons to lose it with",
    )
    planted = [runs["planted"] for runs in reached.values()]
    energies = [[_energy(run) for run in runs] for runs in (quenched, free, planted)]
    (hot, hot_error), (cold, cold_error), (stays, _) = (np.transpose(each) for each in energies)
    check(
        "D6",
        f"energy per neuron of quenched networks above equilibrium, {at}",
        hot - cold,
        np.array([phases.frozen(run).excess for run in quenched]),
        np.hypot(hot_error, cold_error),
        standard_errors(3),
        control=("planted networks", stays - cold),
        because="corrections of order 1/N: theory takes N to infinity",
    )


def _energy(run: Run) -> tuple[float, float]:
    """U per neuron, averaged over networks and samples, and its standard error."""
    mean, error = statistics.mean_and_error(run.samples.info.energy / run.task.num_inputs)
    return float(mean), float(error)


def check_small(runs: dict[tuple[str, float], Run], targets: Any) -> None:
    """Replica exchange against moves between codes, and the scatter of shares against theory."""
    first = runs["recode", targets[0]]
    size = first.task.num_inputs
    mean, error = _by_way(runs, targets)
    seen = np.maximum(mean["exchange"], mean["recode"]) > 0.005  # a code never seen has no error
    one_neuron_once = 1 / (size * first.samples.info.energy.size)  # where a share never changed
    errors = np.maximum(np.hypot(error["exchange"], error["recode"])[seen], one_neuron_once)
    check(
        "D6",
        f"shares by replica exchange against moves between codes, y₋ = {_listed(targets)}, N = P = {size}",
        mean["exchange"][seen],
        mean["recode"][seen],
        errors,
        standard_errors(3),
        control=("cooled at once", mean["fast"][seen]),
        sampler=[runs["recode", y].convergence for y in targets],
        source="moves",
        because="chance, or a ladder that mixes slowly",
    )
    y, temperature = place(runs["recode", targets[-1]])
    solution = solve(size, y, temperature)
    variance = np.diag(sigmoidal.occupancy_covariance(solution, CODES)) * size
    moving, alone = variance > 0.25, shares(solution) * (1 - shares(solution)) * size
    check(
        "D6",
        f"scatter of the neurons with codes {', '.join(np.array(NAMES)[moving])}, y₋ = {y:g}, N = P = {size}",
        size * occupancies(runs["recode", y].samples).std((0, 1))[moving],
        np.sqrt(variance[moving]),
        relative(0.25),
        control=Control("independent neurons", expected=np.sqrt(alone[moving])),
        sampler=runs["recode", y].convergence,
        because="whole neurons, or corrections of higher order in 1/N",
    )


def _by_way(runs: dict[tuple[str, float], Run], targets: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    series = {way: share_series([runs[way, y] for y in targets]) for way in SMALL_WAYS}
    return {way: each[0] for way, each in series.items()}, {way: each[1] for way, each in series.items()}


def _listed(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in values)


def check_critical(scan: Scan, warm: Any, sampled: Zero, theory: Zero) -> None:
    """The readouts' variance below and the extrapolated T_c; theory at another y₋ must fail both."""
    places = [(0.5, float(t)) for t in warm]
    size = scan[places[0]].run.task.num_inputs
    rows = [statistics.mean_and_error(phases.readout_variance(scan[one].run)) for one in places]
    meetings = [scan[one].ends for one in places]
    predicted, wrong = (
        np.array([phases.predicted_variance(size, y, t) for _, t in places]) for y in (0.5, 0.4)
    )
    check(
        "A13",
        f"variance of the readouts at y₋ = 1/2, T = {_listed(warm)}, N = P = {size}",
        *beside(np.transpose(rows), predicted),
        relative(3 / size),
        control=Control("theory at y₋ = 0.4", expected=wrong),
        sampler=meetings,
        note="the limit, 3/N, is that of corrections of order 1/N",
        because="corrections of order 1/N are larger",
    )
    check(
        "A13",
        f"zero of the extrapolated variance, samples and theory alike, N = P = {size}",
        sampled.temperature,
        theory.temperature,
        sampled.network_error,
        standard_errors(3),
        control=Control(
            "theory at y₋ = 0.4", expected=np.float64(phases.zero(warm, wrong[:, None]).temperature)
        ),
        sampler=meetings,
        because="corrections of order 1/N",
    )
    critical, convention = phases.critical_temperature(500, 0.5), phases.critical_temperature(500, 0.5, 0.05)
    check(
        "A13",
        "critical temperature at y₋ = 1/2, extrapolated from samples, against that of theory at P = 500",
        sampled.temperature,
        critical,
        float(np.hypot(sampled.error, critical - convention)),
        standard_errors(2),
        control=Control("theory at y₋ = 0.3", expected=np.float64(phases.critical_temperature(size, 0.3))),
        sampler=meetings,
        note=f"error: networks {sampled.network_error:.2g}, extrapolation {sampled.extrapolation_error:.2g}, "
        f"what counts as a peak, 1 or 5 % of the neurons, {critical - convention:.2g}",
        because="the variance bends more than a parabola does",
    )


def critical_plot(extrapolated: Any, **arrays: Any) -> Figure:
    """Variance of the readouts over temperature, theory and samples, and where it would vanish."""
    figure = figures.curves(**arrays, xlabel="temperature $T$", ylabel=r"variance of readouts, tr Cov$(a)$")
    axis, (place, error) = figure.axes[0], np.asarray(extrapolated)
    axis.errorbar(place, 0, xerr=error, fmt="D", color=figures.COLORS["theory"], capsize=4, clip_on=False)
    axis.set(ylim=(0, None), xlim=(float(np.min(arrays["x"])), float(np.max(arrays["x"]))))
    return figure


def check_edge(ends: Ends) -> None:
    """Just below T_c: codes of neurons agree with theory's codes of neurons, not with those of its peaks."""
    size, (y_minus, temperature) = ends.run.task.num_inputs, place(ends.run)
    solution = solve(size, y_minus, temperature)
    check(
        "D1",
        f"shares just below the critical temperature, y₋ = {y_minus:g}, T = {temperature:g}, N = P = {size}",
        phases.mean_shares(ends.run),
        shares(solution),
        absolute(0.03),
        control=Control("codes of theory's peaks", expected=phases.peak_shares(solution, 1.0)),
        sampler=ends.ends,
        note=f"the share of a peak is defined to {phases.ambiguity(solution):.2f} there",
        because="activations near one half put neurons on either side by chance",
    )


def check_explorer() -> None:
    """D4: what the explorer's solver found, stored, against the stored atlas and theory off its grid."""
    folder = (paths.repository_root() or Path()) / "data" / "results"
    found = json.loads((folder / "explorer.json").read_text(encoding="utf-8"))
    codes = np.array([[digit == "1" for digit in code] for code in found["codes"]])
    # classes 1 and 2 are alike: a tie between mirrored codes may go to either
    mirror = [found["codes"].index(code[0] + code[2] + code[1]) for code in found["codes"]]
    with np.load(folder / "redundant-atlas.npz") as atlas:
        order = [int(np.flatnonzero((atlas["codes"] == code).all(1))[0]) for code in codes]
        shares = atlas["occupancies"][..., order]
    expected = (shares + shares[..., mirror]) / 2
    computed = np.reshape(found["grid"], shares.shape)
    computed = (computed + computed[..., mirror]) / 2
    off, next_off = (np.abs(computed - each).max(-1) for each in (expected, np.roll(expected, 1, axis=1)))
    stored = "data/results/explorer.json"
    check(
        "D4",
        f"largest difference of a share between the explorer and the stored atlas, {off.size} tasks",
        off.max(),
        below(0.01),
        control=("the atlas at the next temperature", next_off.max()),
        note=f"in {np.sum(off < 1e-3)} of them below 0.001; elsewhere a border of two peaks divides a cell",
        because="the page's lattice is too coarse",
        stored=stored,
    )
    others = found["elsewhere"]
    solved = {
        factor: [
            sigmoidal.solve(tasks.toy(each["numInputs"], each["ratios"], 1.0, each["yMinus"]), T * factor)
            for each in others
            for T in [each["temperature"]]
        ]
        for factor in (1, 2)
    }
    theory, warmer = (
        np.array([[one.occupancy(c) for c in codes] for one in each]) for each in solved.values()
    )
    check(
        "D4",
        f"the same for {len(others)} tasks off the grid, other class ratios at P = 40",
        np.array([each["shares"] for each in others]),
        theory,
        absolute(1e-3),
        control=Control("theory at twice the temperature", expected=warmer),
        because="the page's lattice is too coarse",
        stored=stored,
    )
