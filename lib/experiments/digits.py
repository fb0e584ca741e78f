"""What the chapter on generalization draws and checks of networks that learned digits."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, statistics
from coding_schemes.networks import Network
from coding_schemes.tasks import Task
from coding_schemes.theory import mean_field
from companion import figures
from companion.checks import above, absolute, below, check
from companion.workbench import Equilibrium, titled
from jax import Array

from experiments.generalization import (
    CLOSE,
    Draw,
    Learned,
    apart,
    codes,
    distance,
    held_out,
    learn,
    process,
    totals,
    transfer,
)

TITLES = ("linear", "sigmoidal", "ReLU")


def training_like(task: Task) -> np.ndarray:
    """Which test images the training images span best: half of them, by the share of |x|² left over."""
    inputs = held_out(task)[0]
    overlap = task.inputs.T @ inputs / task.input_dim
    own = np.square(inputs).mean(axis=0)
    spanned = np.sum(overlap * np.linalg.lstsq(task.input_kernel, overlap, rcond=None)[0], axis=0)
    left = 1 - spanned / own
    return left <= np.median(left)


def mean_ratio(draw: Draw, images: np.ndarray | slice = slice(None), variance: bool = False) -> float:
    """Error of the mean predictor over the Gaussian process's, on some test images.

    With `variance` the variances are counted in.
    """
    targets = held_out(draw.task)[2][images]
    ours, theirs = draw.learned.predictor[images], draw.process.predictor[images]
    errors = [np.square(mean - targets).mean() for mean in (ours, theirs)]
    if variance:
        errors[0] += draw.learned.variance[images].mean()
        errors[1] += draw.process.error.variance.mean()
    return float(errors[0] / errors[1])


class Outliers(NamedTuple):
    """Outliers of ReLU networks on test images, by one criterion.

    Attributes:
        sampled: mean over networks.
        error: its standard error.
        theory: of the predicted outliers in front of a bulk drawn from the prior.
        untrained: mean over networks from the prior.
    """

    sampled: float
    error: float
    theory: float
    untrained: float


def count_outliers(draw: Draw, seed: int = 0, num_networks: int = 20) -> Outliers:
    """Neurons that carry more than 1/√N of a class's squared activity on test images."""
    inputs, labels, _ = held_out(draw.task)
    phi = draw.learned.test_activations
    counts, width = coding.outliers(phi, labels).counts, phi.shape[1]
    solution, rng = draw.theory.solution, np.random.default_rng(seed)
    assert isinstance(solution, mean_field.Solution)
    weights = rng.standard_normal((num_networks, width, len(inputs)))
    untrained = np.maximum(weights @ inputs / len(inputs) ** 0.5, 0)
    planted = untrained.copy()
    planted[:, : len(solution.readouts)] = np.maximum(solution.preactivations_on(inputs), 0) * width**0.5
    return Outliers(
        float(counts.mean()),
        float(counts.std(ddof=1) / len(counts) ** 0.5),
        *(float(coding.outliers(one, labels).counts.mean()) for one in (planted, untrained)),
    )


class Variances(NamedTuple):
    """Predictor variance over widths.

    Attributes:
        widths: N, shape (W,).
        learned: of networks that learn features, shape (W,).
        ends: the same of the networks from the prior and of those from the theory's solution, shape (2, W).
        lazy: of lazy networks, shape (W,).
        equilibrium: of the networks that learn features.
    """

    widths: np.ndarray
    learned: np.ndarray
    ends: np.ndarray
    lazy: np.ndarray
    equilibrium: list[Equilibrium]

    def fit(self, values: np.ndarray) -> statistics.PowerLaw:
        """Power law of one row of variances."""
        return statistics.fit_power_law(self.widths, values)


def over_widths(
    draw: Draw, lazy: Draw, widths: Any, temperature: float, key: Array, **options: Any
) -> Variances:
    """Variance of the outputs of sigmoidal networks on the test images, over samples and networks.

    At one of the widths networks are known, those that learn features and lazy ones on the same images.
    """

    def at(width: int, known: Draw, scaling: str) -> Learned:
        if width == known.learned.network.width:
            return known.learned
        solution = None if scaling == "lazy" else draw.theory.solution
        network, stream = Network(1, width, "sigmoidal", scaling), jax.random.fold_in(key, width)
        return learn(draw.task, network, temperature, stream, solution, **options)

    learned = [at(int(width), draw, "non-lazy") for width in widths]
    values = [one.error.variance.mean() for one in learned]
    ends = [[end.error.variance.mean() for end in one.ends] for one in learned]
    of_lazy = [at(int(width), lazy, "lazy").error.variance.mean() for width in widths]
    equilibrium = [one.equilibrium for one in learned]
    return Variances(np.asarray(widths), np.array(values), np.transpose(ends), np.array(of_lazy), equilibrium)


def answers(
    draws: dict[str, Draw], sizes: str, num_neurons: int = 30, num_images: int = 90
) -> dict[str, Any]:
    """Figure: kernels and activations on test images of one network of each kind.

    Linear neurons by activity and sigmoidal ones by code, evenly taken; of the ReLU the most active.
    """
    kernels, rows = [], []
    labels = held_out(next(iter(draws.values())).task)[1]
    images = np.linspace(0, len(labels) - 1, num_images).astype(int)
    for name, draw in draws.items():
        phi = draw.learned.test_activations[0]
        order = coding.sort_by_activity(phi)
        if name == "sigmoidal":
            order = coding.sort_by_code(codes(draw)[0][0], phi)
        taken = np.arange(num_neurons) if name == "relu" else np.linspace(0, len(phi) - 1, num_neurons)
        rows.append(phi[order[taken.astype(int)]][:, images])
        kernels.append(_unit(draw.learned.kernel)[np.ix_(images, images)])
    return {
        "plot_function": figures.kernels_and_neurons,
        "name": "answers",
        "caption": f"Digits never seen activate the code of their class. Above: kernels on {num_images} test "
        "images, averaged over the posterior, in units of their largest entries. Below: activations of one "
        f"network; linear neurons by activity, sigmoidal ones by code ({num_neurons} of each), and the "
        f"{num_neurons} most active ReLU neurons. {sizes}. Paper A, Fig. 6a, b.",
        "kernels": kernels,
        "activations": rows,
        "labels": labels[images],
        "titles": TITLES,
    }


def kernel_panels(draws: dict[str, Draw], num_images: int = 90) -> dict[str, Any]:
    """Sampled and predicted kernels on test images, for `figures.kernel_matrices`."""
    labels = held_out(next(iter(draws.values())).task)[1]
    images = np.linspace(0, len(labels) - 1, num_images).astype(int)
    shown = np.ix_(images, images)
    kinds = {"samples": [d.learned.kernel for d in draws.values()]}
    kinds["theory"] = [d.theory.kernel for d in draws.values()]
    return {
        "kernels": [_unit(kernel)[shown] for ones in kinds.values() for kernel in ones],
        "labels": labels[images],
        "titles": [f"{name}, {kind}" for kind in kinds for name in ("linear", "sigmoidal", "ReLU")],
    }


def _unit(kernel: np.ndarray) -> np.ndarray:
    """In units of its largest entries, so that kernels of several nonlinearities share a color scale."""
    return kernel / np.quantile(np.abs(kernel), 0.99)


def error_bars(runs: dict[str, list[Draw]], sizes: str) -> dict[str, Any]:
    """Figure: class errors, mean and standard error over draws, beside theory and process."""
    return {
        "name": "class_errors",
        "caption": "Networks that learn features err less than the Gaussian process, as much less as the "
        f"theory says. Bars: samples, means over {len(runs['linear'])} draws of the images with standard "
        f"errors. {sizes}. Paper A, Fig. 6d.",
        "groups": runs["linear"][0].task.class_names,
        "titles": TITLES,
        "xlabel": "digit",
        **over_draws(*(np.array(kind) for kind in zip(*map(totals, runs.values()), strict=True))),
    }


def over_draws(errors: np.ndarray, theory: np.ndarray, process: np.ndarray) -> dict[str, Any]:
    """Class errors (K, draws, m) as bars, means with standard errors over draws, beside both predictions."""
    number = errors.shape[1]
    return {
        "plot_function": figures.bars,
        "names": ("samples",),
        "colors": [figures.COLORS["samples"]],
        "ylabel": r"generalization error $\varepsilon_r$",
        "values": errors.mean(axis=1)[..., None],
        "errors": errors.std(axis=1, ddof=min(1, number - 1))[..., None] / number**0.5,
        "points": np.stack([theory.mean(axis=1), process.mean(axis=1)], axis=1),
    }


def check_errors(
    claim: str,
    quantity: str,
    draws: list[Draw],
    error: np.ndarray | None = None,
    note: str = "",
) -> None:
    """Class errors of single draws and ends against theory, with the process in the networks' place."""
    ours, theory, rival = totals(draws)
    check(
        claim,
        quantity,
        ours,
        theory,
        error,
        CLOSE,
        control=("the Gaussian process in place of samples", rival),
        note=note,
        sampler=[d.learned.equilibrium for d in draws],
        because="single preactivations fluctuate, which the theory neglects",
    )


def check_predictions(runs: dict[str, list[Draw]], lazy: Draw) -> None:
    """Claim A26: class errors, mean predictors and kernels of every draw against theory and process."""
    check_a26 = partial(check, "A26")
    for name, pooled in runs.items():
        draws = apart(pooled)
        ours, _, rival = totals(draws)
        sampler = [d.learned.equilibrium for d in draws]
        errors = np.array([d.learned.spread for d in draws])
        check_errors("A26", f"class errors of every draw and end, {titled(name)}", draws, errors)
        if name != "linear":
            check_a26(
                f"distance of mean predictors from theory, every draw and end, {titled(name)}",
                np.array([distance(d.learned.predictor, d.theory.predictor) for d in draws]),
                below(0.05),
                control=(
                    "the Gaussian process's mean",
                    np.array([distance(d.process.predictor, d.theory.predictor) for d in draws]),
                ),
                sampler=sampler,
                because="single preactivations fluctuate, which the theory neglects",
            )
            check_a26(
                f"alignment of centered test kernels with theory, every draw and end, {titled(name)}",
                np.array([_aligned(d.learned.kernel, d.theory.kernel) for d in draws]),
                above(0.95),
                control=(
                    "the kernel before learning",
                    np.array([_aligned(d.process.kernel, d.theory.kernel) for d in draws]),
                ),
                sampler=sampler,
                because="the theory's shares of the codes are not those of the networks",
            )
        check_a26(
            f"class errors over the Gaussian process's, every draw and end, {titled(name)}",
            ours / rival,
            below(0.95),
            control=("lazy sigmoidal networks", lazy.learned.error.total / lazy.process.error.total),
            sampler=sampler,
            because="one class of one draw is no better than the Gaussian process",
        )


def _aligned(one: np.ndarray, other: np.ndarray) -> float:
    return float(coding.kernel_alignment(one, other, centered=True))


def check_codes(runs: dict[str, list[Draw]], lazy: Draw, claim: str = "A28") -> None:
    """Claims A28 and A29: the code of the training images on test images, draw by draw."""
    for name, pooled in runs.items():
        draws = apart(pooled)
        found = np.array([transfer(d) for d in draws])
        sampler = [d.learned.equilibrium for d in draws]
        check(
            claim,
            f"variance of test responses that the training code explains, every draw and end, {titled(name)}",
            found[:, 1],
            above(0.4),
            control=("lazy sigmoidal networks", transfer(lazy)[1:]),
            sampler=sampler,
            note=f"of training responses {found[:, 0].min():.2f} or more",
            because="the code of single neurons blurs on unseen images at this number of images",
        )
        if name != "sigmoidal":
            continue
        pairs = [codes(d) for d in draws]
        others = [(first, np.roll(second, second.shape[1] // 2, axis=1)) for first, second in pairs]
        agree, chance = (
            np.array([coding.code_agreement(*pair).neurons for pair in which]) for which in (pairs, others)
        )
        check(
            claim,
            "fraction of neurons with one code on training and test images, every draw and end, "
            f"{titled(name)}",
            agree,
            above(0.9),
            control=("codes of another neuron", chance),
            sampler=sampler,
            because="codes of some neurons change",
        )


def check_linear(draws: list[Draw], sigmoidal: list[Draw]) -> None:
    """Claim A25: mean predictors equal the Gaussian process's, errors are lower by its variance."""
    draws, sigmoidal = apart(draws), apart(sigmoidal)
    sampler = [d.learned.equilibrium for d in draws]
    means, others = (
        np.array([distance(d.learned.predictor, d.process.predictor) for d in ones])
        for ones in (draws, sigmoidal)
    )
    check(
        "A25",
        "distance of linear mean predictors from the Gaussian process's, every draw and end",
        means,
        below(0.02),
        control=("sigmoidal networks and their process", others),
        sampler=sampler,
        because="both are at finite T, which enters the two predictors differently",
    )
    saved, others = (
        np.array(
            [
                (d.process.error.total - d.learned.error.total).mean() / d.process.error.variance.mean()
                for d in ones
            ]
        )
        for ones in (draws, sigmoidal)
    )
    check(
        "A25",
        "error saved by linear networks, over the variance of the Gaussian process, every draw and end",
        saved,
        1.0,
        absolute(0.05),
        control=("sigmoidal networks and their process", others),
        sampler=sampler,
        because="the networks' own variance at this width",
    )


def check_scaled(runs: dict[str, list[Draw]]) -> None:
    """Claim A26 on images scaled to unit norm: class errors against theory and process."""
    for name, pooled in runs.items():
        draws = apart(pooled)
        ours, _, rival = totals(draws)
        note = f"at most {np.max(ours / rival):.2f} of the Gaussian process's"
        check_errors("A26", f"class errors, images of unit norm, {titled(name)}", draws, note=note)


def check_projected(draws: list[Draw], temperature: float) -> None:
    """Claim A29: projected images, class errors against theory and process, and images classified."""
    draws = apart(draws)
    sampler = [d.learned.equilibrium for d in draws]
    ours, _, rival = totals(draws)
    check_errors("A29", "class errors with more images than dimensions, every draw and end", draws)
    check(
        "A29",
        "class errors over the Gaussian process's, every draw and end",
        ours / rival,
        below(0.95),
        control=(
            "the Gaussian process of linear networks",
            np.array([process(d.task, "linear", temperature).error.total for d in draws]) / rival,
        ),
        sampler=sampler,
        because="there is little variance to save: new images lie in the span of the training images",
    )
    right, guessed = (
        np.array([np.mean(order(d.learned.predictor).argmax(axis=1) == held_out(d.task)[1]) for d in draws])
        for order in (np.asarray, lambda outputs: np.random.default_rng(0).permutation(outputs))
    )
    check(
        "A29",
        "fraction of test images in the right class, every draw and end",
        right,
        above(0.8),
        control=("the outputs on another image", guessed),
        sampler=sampler,
        because="the projection removes half of what is known of an image",
    )


def check_outliers(draws: list[Draw]) -> None:
    """Claim A28: as many outliers among ReLU neurons on test images as the theory has."""
    draws = apart(draws)
    found = [count_outliers(draw) for draw in draws]
    check(
        "A28",
        "outliers among the ReLU neurons on test images, every draw and end",
        np.array([one.sampled for one in found]),
        np.array([one.theory for one in found]),
        np.array([one.error for one in found]),
        absolute(1),
        control=("untrained networks", np.array([one.untrained for one in found])),
        sampler=[draw.learned.equilibrium for draw in draws],
        because="parallel outliers of one class share its activity in the theory and merge in the networks",
    )


def mean_predictors(draws: dict[str, Draw], sizes: str, num_images: int = 100) -> dict[str, Any]:
    """Figure: mean predictor for the first class on test images, a row for each network."""
    task = next(iter(draws.values())).task
    _, labels, targets = held_out(task)
    images = np.linspace(0, len(labels) - 1, num_images).astype(int)
    return {
        "plot_function": figures.network_sample,
        "name": "mean_predictor",
        "caption": "Theory predicts the mean output image by image, its mistakes included. Mean predictor "
        f"for digit 0 on {num_images} test images by their digit: dots, samples; thin line, theory; steps, "
        f"targets. {sizes}, first draw. Paper A, Fig. 6c.",
        "names": [rf"$\langle f_0 \rangle$, {title}" for title in TITLES],
        "readouts": (),
        "activations": (),
        "outputs": np.stack([draw.learned.predictor[images, 0] for draw in draws.values()], axis=1),
        "theory": np.stack([draw.theory.predictor[images, 0] for draw in draws.values()], axis=1),
        "targets": np.repeat(targets[images, :1], len(draws), axis=1),
        "labels": labels[images],
    }


def variance_scaling(found: Variances) -> dict[str, Any]:
    """Variances over widths with their power laws, for `figures.scaling_plot`."""
    fits = [found.fit(found.learned), found.fit(found.lazy)]
    return {
        "sizes": found.widths,
        "values": [found.learned, found.lazy],
        "exponents": [fit.exponent for fit in fits],
        "prefactors": [fit.prefactor for fit in fits],
        "names": ["non-lazy", "lazy"],
        "colors": [figures.COLORS["non-lazy"], figures.COLORS["lazy"]],
        "ylabel": "variance of $f$ on test images",
    }


def check_variance(found: Variances) -> None:
    """Claim A27: the predictor's variance falls as 1/N where features are learned."""
    fits = [found.fit(values) for values in found.ends]
    check(
        "A27",
        "exponent of the predictor's variance in the width, from the prior and from the theory's solution, "
        f"N = {', '.join(map(str, found.widths))}",
        np.array([fit.exponent for fit in fits]),
        -1.0,
        np.array([fit.standard_error for fit in fits]),
        absolute(0.3),
        control=("lazy networks", np.float64(found.fit(found.lazy).exponent)),
        sampler=found.equilibrium,
        because="corrections of higher order at small widths",
    )


def _mean_ratios(draws: list[Draw]) -> np.ndarray:
    """Error over the process's: mean, mean on training-like images, mean and variance; a row per draw."""
    return np.array(
        [[mean_ratio(d), mean_ratio(d, training_like(d.task)), mean_ratio(d, variance=True)] for d in draws]
    )


def mean_bars(runs: dict[str, list[Draw]]) -> dict[str, Any]:
    """Errors of the means over the Gaussian process's, for `figures.bars`."""
    ratios = [_mean_ratios(draws) for draws in runs.values()]
    return {
        "values": [[each.mean(0) for each in ratios]],
        "errors": [[each.std(0, ddof=min(1, len(each) - 1)) / len(each) ** 0.5 for each in ratios]],
        "names": ["mean", "mean, training-like images", "mean and variance"],
        "colors": [figures.COLORS[name] for name in ("test", "train", "samples")],
        "ylabel": "error / Gaussian process's",
    }


def check_means(runs: dict[str, list[Draw]]) -> None:
    """Claim A33: the mean alone gains little, on all test images and on those like the training images."""
    for column, images in enumerate(("all test images", "training-like images")):
        for name, draws in runs.items():
            ratios = _mean_ratios(apart(draws))
            check(
                "A33",
                f"error of the mean over that of the process's mean, {images}, every draw and end, "
                f"{titled(name)}",
                ratios[:, column],
                above(0.75),
                control=("with the variances, all images", ratios[:, 2]),
                sampler=[draw.learned.equilibrium for draw in draws],
                because="learned codes pull images that resemble the training images to the prototypes of "
                "their classes, which the mean on random features does not",
            )


def variance_share(draws: list[Draw]) -> float:
    """Part of the Gaussian process's error that is its variance."""
    return float(np.mean([d.process.error.variance.mean() / d.process.error.total.mean() for d in draws]))
