"""Checks of the chapter on two points in deep networks."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from coding_schemes import statistics
from coding_schemes.theory import two_point
from companion import figures
from companion.checks import above, absolute, below, check
from numpy.typing import ArrayLike
from scipy import stats

from experiments.two_point import (
    DESCRIBED,
    LARGE_GAIN,
    Layers,
    Pairs,
    Spreads,
    Trained,
    carried_over,
    remaining,
    waiting,
)
from experiments.two_point_figures import fit_errors

PRINTED_LOSSES = (
    22.12, 20.30, 17.32, 13.35, 9.777, 7.702, 5.057, 3.078, 1.847, 0.8573,
    0.3582, 0.09402, 0.1002, 0.2350, 0.5230, 0.9208, 1.491, 3.036, 2.061, 1.623,
)  # fmt: skip
"""Fit losses of layers 1 to 20, as the notebook 2_points_depth of paper C's authors prints them."""

# From small to large weights
SHADES = ("#440154", "#443983", "#31688E", "#21918C", "#35B779", "#90D743", "#E0C51A")


def check_closed_forms(rates: dict[str, Any], times: np.ndarray) -> None:
    """The differential equation against the final distance (C4) and both closed solutions (C5)."""
    H0, dy2 = np.geomspace(1e-3, 3, 7), 0.5
    paths = [
        two_point.solve(H, 0.3 * H**2, 0.3 * H**2 - 0.1 * H, **rates, dy2=dy2, times=[0, 1e5]) for H in H0
    ]
    end = np.array([path.H[-1] for path in paths])
    check(
        "C4",
        "H at the end of the differential equation over H*, seven initial weights",
        end / two_point.final_distance(H0, 0.3 * H0**2, **rates, dy2=dy2),
        1.0,
        absolute(1e-6),
        control=("the rich limit in place of H*", end / two_point.rich_distance(**rates, dy2=dy2)),
        because="the solver stopped before the end",
    )
    points = two_point.fixed_points(0.05, 1e-3, **rates, dy2=dy2)
    growth = np.array([p.growth_rates.real.max() for p in points])
    check(
        "C4",
        "largest growth rate at the fixed point H*, in units of η_y",
        growth[0] / rates["eta_y"],
        below(0),
        control=("the fixed point at the origin", growth[2] / rates["eta_y"]),
        because="H* is not stable",
    )
    closed = two_point.identical_outputs(0.8, 0.4, **rates, times=times)
    same, different = (
        two_point.solve(0.8, 0.4, 0.4, **rates, dy2=value, times=times) for value in (0.0, dy2)
    )
    check(
        "C5",
        "identical targets: largest deviation of H from the closed solution, in units of H0",
        np.max(np.abs(same.H - closed.H)) / 0.8,
        below(1e-6),
        control=("different targets", np.max(np.abs(different.H - closed.H)) / 0.8),
        because="accuracy of the solver",
    )
    gains = np.array([30, 100, 300, 1000])
    slopes = [statistics.fit_power_law(gains, _off_closed(gains, dy2, rates, times, s)) for s in (1, 0)]
    check(
        "C5",
        "large weights: exponent of the deviation from the closed solution in the gain g",
        slopes[0].exponent,
        -1.0,
        absolute(0.1),
        control=("targets that grow with the outputs", np.float64(slopes[1].exponent)),
        because="gains not large enough",
    )


def _off_closed(
    gains: ArrayLike, dy2: float, rates: dict[str, Any], times: np.ndarray, scaled: int
) -> list[float]:
    """Largest deviation of H from the closed solution, in units of H0; targets fixed, or growing with g."""
    result = []
    for g in np.asarray(gains):
        H, Q, span = 0.4 * g, 0.2 * g**2, times / g
        w = Q - 0.3 * (g if scaled else g**2)
        path = two_point.solve(H, Q, w, **rates, dy2=dy2 if scaled else dy2 * g**2, times=span)
        result.append(np.max(np.abs(path.H - two_point.identical_outputs(H, Q, **rates, times=span).H)) / H)
    return result


def check_architectures(networks: dict[str, Trained], fits: dict[str, two_point.Fit]) -> None:
    """Fit errors of all architectures (C1), with the default network's rates as control."""
    errors = np.array([fit.error for fit in fits.values()])
    foreign = np.array([carried_over(t, fits["default"]) for n, t in networks.items() if n != "default"])
    worse = ", ".join(f"{n} {f.error:.0%}" for n, f in fits.items() if f.error >= DESCRIBED)
    late = ", ".join(f"{n} {t.run.loss[0, -1]:.0e}" for n, t in networks.items() if not t.done)
    again = ", ".join(f"{n} {t.draws - 1}" for n, t in networks.items() if t.draws > 1)
    check(
        "C1",
        f"fit error with two rates, {len(fits)} architectures",
        errors,
        below(DESCRIBED),
        control=("the default network's rates", foreign[:, 0]),
        because=f"not described: {worse or 'none'}; not trained to the end, last loss: {late or 'none'}",
        note=f"initial weights that stayed on a plateau and were drawn again: {again or 'none'}",
    )
    separate = np.array([fit.errors for fit in fits.values()])
    check(
        "C1",
        "the same with each of H, Q and w in units of its own variance, mean of the three",
        separate.mean(axis=1),
        below(DESCRIBED),
        control=("the default network's rates", foreign[:, 1]),
        because="where w varies little it counts little in the fit, and follows less well: "
        f"its own error is up to {separate[:, 2].max():.0%}",
    )


def altered_errors(networks: Sequence[Trained]) -> np.ndarray:
    """Fit errors of the theory and of its alterations, shape (1 + alterations, networks)."""
    equations = (two_point.UNALTERED, *two_point.ALTERED.values())
    return np.array([[network.fit(factors=f).error for network in networks] for f in equations])


def fit_error_figure(fits: dict[str, Any], altered: np.ndarray) -> dict[str, Any]:
    """Figure: fit errors of architectures, and of altered equations."""
    return {
        "plot_function": fit_errors,
        "name": "errors",
        "caption": "Most architectures are described to a few per cent (above). On the default network "
        "altered equations fit worse, but for a factor in the first, which matters little (below; theory in "
        f"blue, a marker per network). Dashed: {DESCRIBED:.0%}. Paper C, Fig. 2 and its authors' "
        "alternative equations.",
        "names": list(fits),
        "errors": [fit.error for fit in fits.values()],
        "altered": ["theory", *two_point.ALTERED],
        "altered_errors": altered,
    }


def check_altered(errors: np.ndarray) -> None:
    """The theory's fit error over that of each alteration (C1), means over networks."""
    mean = errors.mean(axis=1)
    worst = mean[1:].max()
    for k, name in enumerate(two_point.ALTERED, 1):
        check(
            "C1",
            f"default network: fit error of the theory over that of altered equations ({name})",
            mean[0] / mean[k],
            below(1),
            control=(
                "the worst alteration in the theory's place",
                worst / (mean[k] if mean[k] < worst else mean[0]),
            ),
            note=f"mean over {errors.shape[1]} networks; smaller in {np.mean(errors[0] < errors[k]):.0%}",
            because="the two rates nearly absorb a factor in the first equation",
        )


def plateaus(gains: Sequence[float], networks: Sequence[Trained], large: Trained) -> dict[str, Any]:
    """Figure: the difference's loss over time in units of its own, from small to large weights."""
    curves = [remaining(*network.trajectory()) for network in (*networks, large)]
    share = np.linspace(0, 1.2, 121)
    shown = [np.interp(share * np.argmax(left < 0.1), np.arange(len(left)), left) for left in curves]
    return {
        "plot_function": figures.curves,
        "name": "plateaus",
        "caption": "The plateau goes when outputs start farther apart than the targets: what is left of the "
        "difference's loss over time, in units of the time at which a tenth is left. Up to gain "
        f"{gains[-1]:g} outputs begin near zero, and the loss waits; at {LARGE_GAIN:g}, paper C's large "
        "weights on another task, it decays at once, as an exponential (dotted) does. One network each. "
        "Paper C, A.5.",
        "x": share,
        "values": [*shown, 0.1**share],
        "names": [*(f"gain {gain}" for gain in (*gains, LARGE_GAIN)), "exponential"],
        "colors": [*(SHADES[k * 6 // len(networks)] for k in range(len(curves))), "#606060"],
        "styles": ["-"] * len(curves) + [":"],
        "xlabel": "time over the time to 1/10",
        "ylabel": "loss of the difference",
    }


def check_gains(
    gains: Sequence[float], networks: Sequence[Trained], fits: Sequence[two_point.Fit], large: Trained
) -> None:
    """Plateau at small weights, decay at large, breakdown beyond (C2)."""
    waits = np.array([waiting(remaining(*network.trajectory())) for network in networks])
    errors, H0 = np.array([fit.error for fit in fits]), fits[-1].solution.H[0]
    times = np.linspace(0, 4, 401)
    huge = two_point.solve(400.0, 2e4, 2e4 - 90, 0.002, 0.006, 1.0, 0.5, times)
    check_c2 = partial(check, "C2")
    check_c2(
        f"loss: time to 9/10 over time to 1/10 (0.046 if exponential), gain {gains[0]}",
        waits[0],
        above(0.25),
        control=(
            "theory at weights a thousand times larger",
            np.float64(waiting(remaining(huge.H, huge.Q, huge.w))),
        ),
        because="no plateau at this width",
    )
    check_c2(
        f"the same at gains {', '.join(map(str, gains[1:]))}, the shortest: no plateau",
        waits[1:].min(),
        below(0.1),
        control=(f"gain {gains[0]}", waits[0]),
        because="the wait shortens but does not vanish up to this gain",
    )
    *Q0, large_Q0 = (network.trajectory()[1, 0] for network in (*networks, large))
    check_c2(
        f"the same at gain {LARGE_GAIN:g}: no plateau",
        waiting(remaining(*large.trajectory())),
        below(0.1),
        control=(f"gain {gains[0]}", waits[0]),
        note=f"Q0 is {large_Q0:.2g} here, at most {max(Q0):.1g} at the other gains; |dy|² = 0.5",
        because="the loss did not fall to a tenth, or weights are not large enough",
    )
    check_c2(
        f"breakdown: fit error at the largest gain (H0 = {H0:.2g}) over the largest at smaller ones",
        errors[-1] / errors[:-1].max(),
        above(2),
        control=("the smallest gain over the others", errors[0] / errors[1:].max()),
        because="the breakdown begins before the largest gain",
    )


def check_losses(names: Sequence[str], networks: Sequence[Trained], fits: Sequence[two_point.Fit]) -> None:
    """Loss curves with one more rate (C3), run backwards as control."""
    errors = np.array([network.fit_loss(fit).error for network, fit in zip(networks, fits, strict=True)])
    backwards = [
        two_point.fit_loss(network.run.loss[0][::-1], fit.solution, 0.5, network.dy2).error
        for network, fit in zip(networks, fits, strict=True)
    ]
    check(
        "C3",
        f"median fit error of the loss over {len(names)} architectures that the theory describes",
        np.median(errors),
        below(DESCRIBED),
        control=("loss curves run backwards", np.median(backwards)),
        note=f"largest {errors.max():.3f} ({names[int(np.argmax(errors))]})",
        because="the mean output does not decay exponentially",
    )


def check_layers(found: Layers, gain: float) -> None:
    """Fits over depth (C10) against the authors' printed losses, and the rates and distances over layers."""
    layers, loss = np.arange(found.loss.shape[1]), np.log(found.loss).mean(axis=0)
    rank = stats.spearmanr(loss, PRINTED_LOSSES).statistic
    check_c10 = partial(check, "C10")
    check_c10(
        "rank correlation of the fit loss over layers with the authors' printed losses",
        rank,
        above(0.8),
        control=("layers counted from the output", stats.spearmanr(loss[::-1], PRINTED_LOSSES).statistic),
        because="the turn lies at another layer",
        note=f"with depth {stats.spearmanr(loss, layers).statistic:.2f} "
        f"(printed {stats.spearmanr(PRINTED_LOSSES, layers).statistic:.2f}); {len(found.loss)} networks",
        source="published",
    )
    check_c10(
        "layer of the smallest fit loss",
        np.argmin(loss) + 1.0,
        1.0 + int(np.argmin(PRINTED_LOSSES)),
        absolute(2),
        control=("the layer where representations start closest", np.argmin(found.start.mean(axis=0)) + 1.0),
        because="it depends on the width and on the draw",
        source="published",
    )
    late, early = slice(10, None), slice(None, 10)
    trends = {
        part: np.array([_trend(found.eta_h, half), _trend(found.eta_y, half)])
        for part, half in (("late", late), ("early", early))
    }
    check_c10(
        "rank correlation with depth of encoder and decoder rate, layers 11 to 20",
        trends["late"],
        np.array([1.0, -1.0]),
        absolute(0.2),
        control=("layers 1 to 10", trends["early"]),
        because="the trends turn at the last layers",
    )
    factor = np.diff(np.log(found.start)).mean(axis=1)
    check_c10(
        "factor by which the initial distance falls per layer (Eq. 14)",
        np.exp(factor.mean()),
        gain**2 * (1 + 0.01**2) / 2,
        np.exp(factor.mean()) * factor.std(ddof=1) / len(factor) ** 0.5,
        absolute(0.03),
        control=("linear neurons", None, None, np.float64(gain**2)),
        because="corrections in one over the width",
    )


def _trend(rates: np.ndarray, layers: slice) -> float:
    rows = rates[:, layers]
    return float(np.mean([stats.spearmanr(np.arange(rows.shape[1]), row).statistic for row in rows]))


def check_pairs(found: dict[str, Pairs], seed: int) -> None:
    """Final distances against the closed form (C4), predictions of other pairs as control."""
    for name, pairs in found.items():
        done = np.isfinite(pairs.network)
        network, theory = pairs.network[done], pairs.theory[done]
        network_growth, theory_growth = (_growth(pairs.dx, H) for H in (pairs.network, pairs.theory))
        explained, shuffled = (
            np.array([_explained(network, t), stats.spearmanr(t, network).statistic])
            for t in (theory, np.random.default_rng(seed).permutation(theory))
        )
        check(
            "C4",
            f"{name}: share of the variance of H(∞) predicted, rank correlation, {done.sum()} of 25 pairs",
            explained,
            above([0.8, 0.9]),
            control=("predictions of other pairs", shuffled),
            note=f"networks per pair: {pairs.repeats}; not trained to the end {pairs.left_out} of "
            f"{25 * pairs.repeats}; log η_h/η_y varies by {pairs.rate_spread:.2f} between networks; "
            f"H(∞) grows as |dx|^{network_growth:.2f}, in theory as |dx|^{theory_growth:.2f}",
            because="deep networks' final distance depends less on |dx| than with one ratio of rates",
        )


def _growth(dx: np.ndarray, distance: np.ndarray) -> float:
    """Exponent of the distance in |dx|, mean over the targets that differ; pairs as in `final_distances`."""
    x, slopes = np.log(dx.reshape(5, 5)[:, 0]), []
    for column in distance.reshape(5, 5).T[1:]:
        known = np.isfinite(column)
        if known.sum() > 2:
            slopes.append(np.polyfit(x[known], np.log(column[known]), 1)[0])
    return float(np.mean(slopes)) if slopes else np.nan


def _explained(network: np.ndarray, theory: np.ndarray) -> float:
    return float(1 - np.sum((network - theory) ** 2) / np.sum((network - network.mean()) ** 2))


def check_spreads(found: Spreads) -> None:
    """Randomness at small weights (C6): in theory, over the gain, and what is left over the width."""
    widest = int(np.argmax(found.widths))
    check_c6 = partial(check, "C6")
    check_c6(
        f"relative spread of H* over initial weights, gain {found.gains[0]}, one ratio of rates for all",
        found.theory[:, 0],
        below(0.02),
        control=("the initial distances", found.start[:, 0]),
        because="weights not small enough",
        note=f"widths {found.widths.tolist()}",
    )
    check_c6(
        f"networks: spread of the final distances at gain {found.gains[0]} over that at {found.gains[-1]}",
        found.final[widest, 0] / found.final[widest, -1],
        below(0.75),
        control=("the initial distances", found.start[widest, 0] / found.start[widest, -1]),
        note=f"width {found.widths[widest]}",
        because="the effective rates differ from network to network at any gain",
    )
    small, mean = (statistics.fit_power_law(found.widths, row[:, 0]) for row in (found.final, found.mean))
    x = np.log(found.widths) - np.log(found.widths).mean()
    error = np.linalg.norm(x / np.sqrt(2 * found.networks[:, 0])) / np.square(x).sum()
    check_c6(
        f"what is left at gain {found.gains[0]}: exponent of its spread in the width",
        small.exponent,
        -0.5,
        error,
        absolute(0.2),
        control=("the mean final distance", np.float64(mean.exponent)),
        note=f"{found.networks.min():.0f} networks or more at each width",
        because="too few networks to tell: see the error",
    )


def spread_curves(found: Spreads) -> dict[str, Any]:
    """Arrays for `figures.curves`: spreads of initial and final distances and of the theory over the gain."""
    widest = int(np.argmax(found.widths))
    names = ["initial distances", "theory", *(f"$N$ = {n}" for n in found.widths)]
    return {
        "x": found.gains,
        "values": [found.start[widest], found.theory[widest], *found.final],
        "names": names,
        "colors": ["#B0B0B0", "#1A1A1A", "#88CCEE", "#44AA99", "#332288", "#882255"],
        "styles": [":", "-", *["-"] * len(found.widths)],
        "errors": np.concatenate(
            [np.zeros((2, len(found.gains))), found.final / np.sqrt(2 * found.networks)]
        ),
        "scales": ("linear", "log"),
        "xlabel": "gain of the initial weights",
        "ylabel": "relative spread over networks",
    }


def theory_arrays(paths: Sequence[two_point.Solution], H_star: np.ndarray, dy2: float) -> dict[str, Any]:
    """Arrays for `figures.trace_panels`: distances with their ends, and the loss of the difference."""
    loss = np.array([two_point.loss_curve(path, 1.0, 0.0, dy2) for path in paths])
    return {
        "times": [path.times for path in paths[:2]],
        "values": [[path.H for path in paths], loss / loss[0, 0]],
        "titles": ["squared distance $H$", "loss of the difference"],
        "colors": SHADES,
        "levels": [H_star, np.full(len(H_star), np.nan)],
        "xlabel": "steps $t$",
        "ylabel": "",
    }


def gain_arrays(
    gains: Sequence[float], networks: Sequence[Trained], fits: Sequence[two_point.Fit]
) -> dict[str, Any]:
    """Arrays for `fit_panels`: H of every gain above, its loss below."""
    losses = [network.fit_loss(fit) for network, fit in zip(networks, fits, strict=True)]
    return {
        "times": networks[0].run.times,
        "network": [*(n.trajectory()[:1] for n in networks), *(n.run.loss for n in networks)],
        "theory": [*([fit.solution.H] for fit in fits), *([fit.loss] for fit in losses)],
        "titles": [f"{name}, {g}" for name in ("$H$", "loss") for g in gains],
        "stops": [n.run.num_steps[0] for n in networks] * 2,
        "names": [""],
        "columns": len(networks),
    }


def layer_arrays(found: Layers, gain: float) -> dict[str, Any]:
    """Arrays for `depth_panels`; the printed losses are scaled to ours in the middle of the network."""
    middle, printed = slice(9, 12), np.array(PRINTED_LOSSES)
    return {
        "loss": found.loss,
        "printed": printed * found.loss[:, middle].mean() / printed[middle].mean(),
        "eta_h": found.eta_h,
        "eta_y": found.eta_y,
        "start": found.start,
        "law": found.start[:, 0].mean() * (gain**2 / 2) ** np.arange(len(printed)),
    }


def pair_arrays(found: dict[str, Pairs]) -> dict[str, Any]:
    """Arrays for `scatter_panels`."""
    rows = {name: [getattr(p, name) for p in found.values()] for name in ("theory", "network")}
    dx = next(iter(found.values())).dx
    return {**rows, "errors": [p.error for p in found.values()], "dx": dx, "titles": list(found)}
