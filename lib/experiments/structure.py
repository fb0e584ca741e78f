"""Checks of the chapter on what two-point dynamics says of representations."""

from functools import partial
from typing import Any

import numpy as np
from coding_schemes.tasks import Task
from coding_schemes.theory import two_point
from companion.checks import above, absolute, below, between, check
from companion.workbench import titled

from experiments.representations import Collapse, Digits, Sampled, Square
from experiments.two_point import DESCRIBED, Trained, exchanged

MERGED = 0.1  # of a squared distance, below which two points count as one


def check_xor(found: dict[str, Square], adam: Square) -> None:
    """Which pairs merge (C7), and the same under Adam (C11)."""
    small, large, shallow = (found[name] for name in ("small", "large", "one layer"))
    check_c7 = partial(check, "C7")
    check_c7(
        "small weights: squared distances of 00–11 and 01–10 over those of the other pairs",
        small.merged(),
        below(MERGED),
        control=("large weights", large.merged()),
        note=f"at the start {small.merged('start').round(2).tolist()}, in theory "
        f"{small.merged('theory').round(2).tolist()}; last loss {small.loss:.0e}",
        because="the pair that starts farther apart comes closer but does not merge at this width and gain",
    )
    check_c7(
        "large weights: the same over its value at the start",
        large.merged() / large.merged("start"),
        1.0,
        absolute(0.1),
        control=("small weights", small.merged() / small.merged("start")),
        because="these weights are not large enough",
        note=f"last loss {large.loss:.0e}",
    )
    check_c7(
        "one hidden layer, small weights: the pair that stays apart",
        shallow.merged().max(),
        above(2 * MERGED),
        control=("twenty layers, its closer pair", small.merged().min()),
        note=f"the other pair: {shallow.merged().min():.2g}; last loss {shallow.loss:.0e}",
        because="both pairs merged",
    )
    check_c7(
        "one hidden layer, small weights: the pair that merges",
        shallow.merged().min(),
        below(MERGED),
        control=("the same network before training", shallow.merged("start").min()),
        because="no pair merged",
    )
    check(
        "C11",
        "XOR under Adam, small weights: the same ratios as for gradient descent",
        adam.merged(),
        below(MERGED),
        control=("large weights", large.merged()),
        note=f"last loss {adam.loss:.0e}",
        because="Adam's first steps move every weight alike and so enlarge them: they are small no longer",
    )


def check_blobs(found: dict[str, dict[str, Collapse]], adam: Collapse, spread: float) -> None:
    """Collapse along the irrelevant coordinate and onto a line (C8), and the same under Adam (C11).

    Args:
        found: networks by nonlinearity and size of the initial weights.
        adam: leaky ReLU at low weights under Adam.
        spread: variance of the targets.
    """
    names = " and ".join(found)
    ratios = {size: np.array([each[size].irrelevant for each in found.values()]) for size in ("low", "high")}
    losses = {
        size: ", ".join(f"{each[size].loss:.0e}" for each in found.values()) for size in ("low", "very low")
    }
    check_c8 = partial(check, "C8")
    check_c8(
        f"low weights: variance along the irrelevant over the relevant coordinate, {names}",
        ratios["low"],
        below(MERGED),
        control=("high weights", ratios["high"]),
        note=f"last losses {losses['low']}",
        because="the network stays on its plateau for most of the run",
    )
    apart = {size: np.array([each[size].contexts for each in found.values()]) for size in losses}
    wide = np.array([each["high"].contexts for each in found.values()])
    check_c8(
        f"very low weights: squared distance between the contexts over their spread, {names}",
        apart["very low"],
        below(MERGED),
        control=("high weights", wide),
        note=f"low weights {', '.join(f'{a:.2g}' for a in apart['low'])}; last losses {losses['very low']}",
        because="one of the networks stays on its plateau for most of the run",
    )
    check_c8(
        f"last loss at low and very low weights, {names}",
        np.array([[each[size].loss for size in losses] for each in found.values()]),
        below(0.01),
        control=("half the targets' variance, where the plateau lies", spread / 2),
        because="a network is still on its plateau: how long it stays there depends on the draw",
    )
    check(
        "C11",
        "blobs under Adam, low weights: variance along the irrelevant over the relevant coordinate",
        adam.irrelevant,
        below(MERGED),
        control=("high weights, gradient descent", ratios["high"][0]),
        note=f"last loss {adam.loss:.0e}",
        because="Adam's larger steps leave more of the irrelevant coordinate",
    )


def check_digits(found: Digits, adam: Digits, seed: int, draws: int = 1000) -> None:
    """Two tracked digits and the distances of a hundred (C9), and the latter under Adam (C11)."""
    fit = found.pair.fit()
    check(
        "C9",
        "two tracked digits: fit error with two rates",
        fit.error,
        below(DESCRIBED),
        control=("its rates exchanged", np.float64(exchanged(found.pair, fit))),
        note=f"H, Q, w: {', '.join(f'{e:.3f}' for e in fit.errors)}; last loss {found.loss:.2g}",
        because="the pair is not alone: the other digits move it",
    )
    for claim, name, digits in (("C9", "", found), ("C11", " under Adam", adam)):
        rng = np.random.default_rng(seed)
        others = [digits.exchanged(rng) for _ in range(draws)]
        labels = digits.rank_correlation(digits.labels_alone)
        check(
            claim,
            f"all pairs of digits{name}: rank correlation of their distances with the weighted prediction, "
            "beyond that with labels alone",
            digits.rank_correlation() - labels,
            above(0),
            control=(
                "predictions with the digits exchanged",
                np.mean([digits.rank_correlation(t) for t in others[:100]]) - labels,
            ),
            note=f"{digits.rank_correlation():.2f} against {labels:.2f}; last loss {digits.loss:.2g}",
            because="which digits look alike to the eye does not order the distances of the network, or "
            f"these {len(np.unique(digits.labels))} digits are too few to tell",
        )
        if len(np.unique(digits.labels)) < 6:
            continue  # too few exchanges to test against
        here = digits.rank_correlation(different=True)
        by_chance = np.array([digits.rank_correlation(t, different=True) for t in others])
        check(
            claim,
            f"pairs of different digits alone{name}: chance to find their rank correlation with the digits "
            "exchanged",
            np.mean(by_chance >= here),
            below(0.05),
            control=("the median of such predictions", np.mean(by_chance >= np.median(by_chance))),
            note=f"rank correlation {here:.2f}; by chance up to {np.quantile(by_chance, 0.95):.2f}; with the "
            f"authors' sum in place of the mean {digits.rank_correlation(digits.summed, different=True):.2f}",
            because="which digits look alike to the eye does not order the distances of the network",
        )


def check_adam(adam: Trained, descent: Trained) -> None:
    """The default network on two points under Adam (C11)."""
    check(
        "C11",
        "default network on two points: fit error under Adam",
        adam.fit().error,
        above(DESCRIBED),
        control=("gradient descent", np.float64(descent.fit().error)),
        note=f"last loss {adam.run.loss[0, -1]:.0e}",
        because="at this rate Adam moves like gradient descent",
    )


def check_descents(found: dict[tuple[str, str], Trained]) -> None:
    """This book's networks under gradient descent from the prior (D3)."""
    rich = [network for (_, scaling), network in found.items() if scaling == "non-lazy"]
    lazy = [network for (_, scaling), network in found.items() if scaling == "lazy"]
    fits = [network.fit() for network in rich]
    names = ", ".join(titled(name) for name, scaling in found if scaling == "non-lazy")
    check_d3 = partial(check, "D3")
    check_d3(
        f"descent, non-lazy ({names}): fit error with two rates",
        np.array([fit.error for fit in fits]),
        below(DESCRIBED),
        control=(
            "their rates exchanged",
            np.array([exchanged(n, f) for n, f in zip(rich, fits, strict=True)]),
        ),
        because="H starts at order one, where two inputs are not close",
    )
    ends = np.array([network.trajectory()[0, [0, -1]] for network in rich])
    stars, limits = [], []
    for network, fit in zip(rich, fits, strict=True):
        H0, Q0, _ = network.trajectory()[:, 0]
        given = fit.eta_h, fit.eta_y, network.dx2, network.dy2
        stars.append(two_point.final_distance(H0, Q0, *given))
        limits.append(two_point.rich_distance(*given))
    check_d3(
        "descent, non-lazy: final distance over H*",
        ends[:, 1] / stars,
        1.0,
        absolute(0.15),
        control=("the limit of small weights", ends[:, 1] / limits),
        because="the fit weighs the outputs more than H",
    )
    moved = [
        np.array([abs(n.trajectory()[0, -1] / n.trajectory()[0, 0] - 1) for n in some])
        for some in (lazy, rich)
    ]
    check_d3(
        "descent, lazy: share by which H changes",
        moved[0],
        below(0.1),
        control=("non-lazy", moved[1]),
        because="not wide enough to be lazy",
    )


def check_sampled(found: dict[str, Sampled]) -> None:
    """Distances within a class in the posterior (D3): from the prior's weights the theory lets them stay."""
    for name, run in found.items():
        check(
            "D3",
            f"posterior, {titled(name)}: squared distance of inputs of one class over the prior's "
            "(theory: it stays)",
            run.same[0],
            1.0,
            run.same[1],
            between(0.67, 1.5),
            control=("inputs of different classes", np.float64(run.different[0])),
            sampler=run.convergence,
            because="saturated codes leave inputs of one class no room to differ: the coding scheme decides, "
            "which a theory of two points cannot see",
        )


def xor_arrays(found: dict[str, Square]) -> dict[str, Any]:
    """Arrays for `square_matrices`."""
    parts = ("start", "theory", "end")
    matrices = [[getattr(square, part) for square in found.values()] for part in parts]
    return {
        "matrices": matrices,
        "titles": list(found),
        "row_names": parts,
        "ticks": ["00", "11", "01", "10"],
    }


def digit_arrays(found: Digits) -> dict[str, Any]:
    """Arrays for `fit_panels`: H, Q and w of the two tracked digits, a panel each."""
    rows, fit = found.pair.trajectory(), found.pair.fit()
    scale = np.abs(rows).max(axis=1)[:, None]
    theory = np.array([fit.solution.H, fit.solution.Q, fit.solution.w])
    return {
        "times": found.pair.run.times,
        "network": (rows / scale)[:, None],
        "theory": (theory / scale)[:, None],
        "titles": [f"${name}$: {error:.1%}" for name, error in zip("HQw", fit.errors, strict=True)],
        "stops": np.full(3, found.pair.run.times[-1]),
        "names": [""],
    }


def distance_arrays(descent: Digits, adam: Digits) -> dict[str, Any]:
    """Arrays for `square_matrices`: distances of digits in theory and in two networks."""
    digits, edges = np.unique(descent.labels, return_index=True)
    return {
        "matrices": [[descent.theory, descent.distances, adam.distances]],
        "titles": ["theory", "gradient descent", "Adam"],
        "row_names": ["image, by digit"],
        "ticks": digits,
        "edges": edges,
    }


def posterior_arrays(found: dict[str, Sampled]) -> dict[str, Any]:
    """Arrays for `figures.bars`: distances within and between classes over the prior's."""
    means, errors = ([[[run.same[k], run.different[k]] for run in found.values()]] for k in (0, 1))
    return {
        "values": means,
        "errors": errors,
        "groups": list(map(titled, found)),
        "names": ["one class", "two classes"],
        "points": np.ones((1, len(found))),
        "point_names": ["theory, one class"],
        "ylabel": "squared distance over the prior's",
    }


def collapse_arrays(found: dict[str, dict[str, Collapse]], task: Task) -> dict[str, Any]:
    """Arrays for `projections`: nonlinearities in rows, initial weights in columns."""
    sizes = list(next(iter(found.values())))
    return {
        "points": [[each[size].projection for size in sizes] for each in found.values()],
        "targets": task.targets[:, 0].reshape(2, -1),
        "titles": [f"{size} weights" for size in sizes],
        "row_names": list(found),
    }
