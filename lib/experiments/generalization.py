"""Learned networks on new inputs: sampled, predicted by theory, and by a Gaussian process, draw by draw."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, planting, statistics
from coding_schemes.coding import GeneralizationError
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, Predictions, Samples, compare_ends, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear, mean_field
from companion.checks import above, absolute, below, check, relative
from jax import Array
from numpy.typing import ArrayLike

#: Trajectories of up to 30 steps: the inputs' large eigenvalues ask for small ones.
METHOD = HMC(max_num_steps=30)
STORE = ("readouts", "preactivations")
SCHEMES = ("linear", "sigmoidal", "relu")
CLOSE = relative(0.1)


class Equilibrium(NamedTuple):
    """Whether what a chapter measures on test images is in equilibrium.

    Attributes:
        agree: the test errors of networks from the two ends, prior and theory, meet.
        verdict: one line, on the test errors and on all other observables.
    """

    agree: bool
    verdict: str


class Learned(NamedTuple):
    """Networks drawn from a posterior, and their answers to the test inputs.

    Attributes:
        error: ε_r of the mean predictor and of its variance over samples and networks.
        spread: its standard error, from the spread between networks, shape (m,).
        predictor: mean predictor on the test inputs, shape (P*, m).
        variance: its variance, shape (P*, m).
        kernel: mean kernel of the feature layer on the test inputs, shape (P*, P*).
        training_activations: φ(z^L) of every chain's last network, shape (chains, N, P).
        test_activations: of the same networks, shape (chains, N, P*).
        energy: per neuron and training input, mean of every chain, shape (chains,).
        equilibrium: of the test errors.
        network: what was sampled.
    """

    error: GeneralizationError
    spread: np.ndarray
    predictor: np.ndarray
    variance: np.ndarray
    kernel: np.ndarray
    training_activations: np.ndarray
    test_activations: np.ndarray
    energy: np.ndarray
    equilibrium: Equilibrium
    network: Network


class Predicted(NamedTuple):
    """What a theory says on the test inputs.

    Attributes:
        error: ε_r; the variance is zero where the theory is for infinite width.
        predictor: predicted mean, shape (P*, m).
        kernel: predicted feature-layer kernel, shape (P*, P*).
        solution: of the theory used, None for a Gaussian process.
    """

    error: GeneralizationError
    predictor: np.ndarray
    kernel: np.ndarray
    solution: linear.Solution | mean_field.Solution | None = None


class Draw(NamedTuple):
    """One draw of the images: what was learned from it, and what theory and Gaussian process say."""

    task: Task
    learned: Learned
    theory: Predicted
    process: Predicted


def measure(posterior: Posterior, *ends: Samples) -> Learned:
    """Errors, activations and diagnostics of sampled networks on the test inputs.

    Args:
        posterior: with a task that has a test split.
        ends: samples with predictions on the test inputs, readouts and preactivations: of networks from the
            prior and, to show equilibrium, of as many from the theory's solution.

    Returns:
        Learned, of all networks together.
    """
    assert posterior.task is not None
    inputs, _, targets = held_out(posterior.task)
    found = [_there(one.predictions) for one in ends]
    outputs = np.concatenate([one.outputs for one in found])
    mean, variance = outputs.mean((0, 1), dtype=float), outputs.var((0, 1), dtype=float)
    squared = [np.square(one.outputs - targets).mean(2, dtype=float) for one in found]
    chains = np.concatenate(squared).mean(axis=1)
    finals = [
        jax.tree.map(lambda leaf, c=c: leaf[c], e.final) for e in ends for c in range(len(e.info.energy))
    ]
    answers = [posterior.predict(jax.random.key(0), one, inputs).preactivations[-1] for one in finals]
    return Learned(
        coding.generalization_error(mean, variance, targets),
        chains.std(axis=0, ddof=1) / len(chains) ** 0.5,
        mean,
        variance,
        np.mean([one.kernel for one in found], axis=0),
        np.concatenate([one.activations()[:, -1] for one in ends]),
        np.asarray(posterior.network.phi(jnp.stack(answers))),
        np.concatenate([one.info.energy.mean(axis=1) for one in ends])
        / (posterior.network.width * posterior.task.num_inputs),
        _two_ended(posterior, ends, squared) if len(ends) == 2 else Equilibrium(False, "one end only"),
        posterior.network,
    )


def _two_ended(posterior: Posterior, ends: tuple[Samples, ...], errors: list[np.ndarray]) -> Equilibrium:
    """Whether test errors agree as `sampling.compare_ends` asks: within 4 standard errors or 2 %."""
    means, bars = zip(*(statistics.mean_and_error(one) for one in errors), strict=True)
    gap = np.abs(means[0] - means[1])
    fraction, scores = gap / np.maximum(*means), gap / np.hypot(*bars)
    agree = bool(np.all((fraction <= 0.02) | (scores <= 4)))
    worst = int(fraction.argmax())
    verdict = f"test errors from the prior and from the theory's solution {'meet' if agree else 'differ'}: "
    verdict += f"at most {fraction[worst]:.1%} apart ({scores[worst]:.1f} standard errors)"
    return Equilibrium(agree, f"{verdict}; all else: {compare_ends(ends[0], ends[1], posterior).verdict}")


def learn(
    task: Task, network: Network, temperature: float, key: Array, solution: Any = None, **options: Any
) -> Learned:
    """Sample a network's posterior from the prior, and from a theory's solution if given; and `measure` it.

    Args:
        task: what is learned, with a test split.
        network: what learns it.
        temperature: T.
        key: of the chains.
        solution: of a theory, to plant.
        **options: of `sampling.sample`.
    """
    posterior = posterior_of(task, network, temperature)
    defaults: dict[str, Any] = {"method": METHOD, "store": STORE, "predict_inputs": held_out(task)[0]}
    options = defaults | options
    ends = [sample(posterior, key, **options)]
    if solution is not None:
        start = planting.planted(key, solution, posterior)
        ends.append(sample(posterior, jax.random.fold_in(key, 1), init=start, **options))
    return measure(posterior, *ends)


def _there(predictions: Predictions | None) -> Predictions:
    if predictions is None:
        raise ValueError("samples: hold no predictions; ask for them by `predict_inputs`")
    return predictions


def posterior_of(task: Task, network: Network, temperature: float) -> Posterior:
    """The posterior of a network; of a lazy one as a non-lazy network with readouts √N times as large.

    With f = (1/N) Σ a φ, σ_a² = N and N T in place of T, prior and likelihood of the outputs are the lazy
    network's, so both kinds of networks share one compiled sampler.
    """
    if network.scaling == "non-lazy":
        return Posterior(task, network, temperature)
    wide = replace(network, scaling="non-lazy")
    return Posterior(task, wide, network.width * temperature, readout_variance=network.width)


def predicted(task: Task, nonlinearity: str, temperature: float) -> Predicted:
    """The theory of one hidden layer that fits the nonlinearity.

    Linear networks have the exact saddle point; bounded ones and the ReLU the mean-field theory. The scatter
    of test preactivations that training leaves untouched is averaged over for bounded nonlinearities. The
    ReLU's kernel is the outliers' part and the prior's for the bulk.

    Args:
        task: a task with a test split.
        nonlinearity: "linear", "relu" or the name of a bounded nonlinearity.
        temperature: T > 0.

    Returns:
        Predicted.

    Raises:
        ValueError: there is no theory for the nonlinearity.
    """
    inputs, _, targets = held_out(task)
    solution: linear.Solution | mean_field.Solution
    if nonlinearity == "linear":
        solution = linear.solve(task, depth=1, temperature=temperature)
        predictor, kernel = solution.predict(inputs), solution.kernel(inputs)
    else:
        solution = mean_field.solve(task, nonlinearity, temperature)
        predictor = solution.predict(inputs, fluctuations=True)
        kernel = solution.kernel(inputs, fluctuations=True)
        if solution.outliers:
            kernel = kernel + gaussian_process.prior_kernels(inputs, nonlinearity=nonlinearity)[-1]
    return Predicted(coding.generalization_error(predictor, 0.0, targets), predictor, kernel, solution)


def process(task: Task, nonlinearity: str, temperature: float) -> Predicted:
    """The infinitely wide lazy network: its mean, its variance, and the kernel before learning."""
    inputs, _, targets = held_out(task)
    found = gaussian_process.solve(task, nonlinearity, temperature=temperature)
    mean = found.predict(inputs)
    error = coding.generalization_error(mean, found.predictor_variance(inputs), targets)
    return Predicted(error, mean, gaussian_process.prior_kernels(inputs, nonlinearity=nonlinearity)[-1])


def experiment(
    task: Task, network: Network, temperature: float, key: Array, theory: bool = True, **options: Any
) -> Draw:
    """Networks from both ends, theory and process on one task; without `theory` from the prior alone."""
    name = str(network.nonlinearity)
    against = process(task, name, temperature)
    expected = predicted(task, name, temperature) if theory else against
    learned = learn(task, network, temperature, key, expected.solution, **options)
    return Draw(task, learned, expected, against)


def held_out(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test inputs, labels and targets of a task that has them.

    Raises:
        ValueError: it has none.
    """
    if task.test_inputs is None or task.test_labels is None or task.test_targets is None:
        raise ValueError("task: has no test split; give the constructor num_test > 0")
    return task.test_inputs, task.test_labels, task.test_targets


def code_transfer(
    training_activations: ArrayLike,
    training_labels: ArrayLike,
    test_activations: ArrayLike,
    test_labels: ArrayLike,
) -> np.ndarray:
    """How much of the neurons' code on training inputs is found on test inputs.

    The training code of a neuron is its mean response to each class; analog, redundant and sparse schemes
    are measured alike.

    Args:
        training_activations: φ, shape (…, N, P).
        training_labels: shape (P,).
        test_activations: φ, shape (…, N, P*).
        test_labels: shape (P*,).

    Returns:
        Fraction of the variance of single responses, over neurons and inputs, that the training code of
        the input's class explains (R², 1 at best, 0 or below for none), on training and on test inputs:
        shape (2,), averaged over leading axes.
    """
    training, test = np.asarray(training_activations, dtype=float), np.asarray(test_activations, dtype=float)
    code = coding.class_means(training, training_labels)
    center = training.mean(axis=-1, keepdims=True)

    def explained(activations: np.ndarray, labels: ArrayLike) -> float:
        missed = np.square(activations - code[..., np.asarray(labels)]).sum((-2, -1))
        return float(np.mean(1 - missed / np.square(activations - center).sum((-2, -1))))

    return np.array([explained(training, training_labels), explained(test, test_labels)])


def transfer(draw: Draw) -> np.ndarray:
    """`code_transfer` of a draw's networks: R² on training and on test images."""
    learned = draw.learned
    labels = draw.task.labels, held_out(draw.task)[1]
    return code_transfer(learned.training_activations, labels[0], learned.test_activations, labels[1])


def codes(draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """Codes of every network's sigmoidal neurons on training and on test images."""
    learned, middle = draw.learned, coding.threshold(draw.learned.network.phi)
    first = coding.codes(learned.training_activations, draw.task.labels, middle)
    return first, coding.codes(learned.test_activations, held_out(draw.task)[1], middle)


def distance(one: ArrayLike, other: ArrayLike) -> float:
    """Root-mean-square distance between two predictors, relative to the second."""
    return float(np.linalg.norm(np.subtract(one, other)) / np.linalg.norm(other))


def training_like(task: Task) -> np.ndarray:
    """Which test images the training images span best: half of them, by the share of |x|² left over."""
    inputs = held_out(task)[0]
    overlap = task.inputs.T @ inputs / task.input_dim
    own = np.square(inputs).mean(axis=0)
    spanned = np.sum(overlap * np.linalg.lstsq(task.input_kernel, overlap, rcond=None)[0], axis=0)
    left = 1 - spanned / own
    return left <= np.median(left)


def mean_ratio(draw: Draw, images: np.ndarray | slice = slice(None), variance: bool = False) -> float:
    """Error of the mean predictor over that of the Gaussian process's mean, on some of the test images.

    Args:
        draw: networks and Gaussian process.
        images: which test images.
        variance: whether to count the variances in.
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
        lazy: of lazy networks, shape (W,).
        equilibrium: of the networks that learn features.
    """

    widths: np.ndarray
    learned: np.ndarray
    lazy: np.ndarray
    equilibrium: list[Equilibrium]

    def fit(self, scaling: str) -> statistics.PowerLaw:
        """Power law of "learned" or "lazy"."""
        return statistics.fit_power_law(self.widths, getattr(self, scaling))


def over_widths(draw: Draw, widths: Any, temperature: float, key: Array, **options: Any) -> Variances:
    """Variance of the outputs of sigmoidal networks on the test images, over samples and networks."""
    learned, lazy = (
        [
            learn(
                draw.task,
                Network(1, int(width), "sigmoidal", scaling),
                temperature,
                jax.random.fold_in(key, int(width)),
                draw.theory.solution if scaling == "non-lazy" else None,
                **options,
            )
            for width in widths
        ]
        for scaling in ("non-lazy", "lazy")
    )
    values = [np.array([one.error.variance.mean() for one in ones]) for ones in (learned, lazy)]
    return Variances(np.asarray(widths), values[0], values[1], [one.equilibrium for one in learned])


def answers(draws: dict[str, Draw], num_neurons: int = 30, num_images: int = 90) -> dict[str, Any]:
    """Kernels and activations on test images of one network of each kind, for `figures.kernels_and_neurons`.

    Linear neurons by activity and sigmoidal ones by code, evenly taken; of the ReLU the most active.
    """
    kernels, rows, titles = [], [], {"linear": "linear", "sigmoidal": "sigmoidal", "relu": "ReLU"}
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
        "kernels": kernels,
        "activations": rows,
        "labels": labels[images],
        "titles": [titles[name] for name in draws],
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


def error_bars(runs: dict[str, list[Draw]]) -> dict[str, Any]:
    """Class errors, mean and standard error over draws, beside theory and process, for `figures.bars`."""
    errors = {
        kind: np.array([[getattr(d, kind).error.total for d in draws] for draws in runs.values()])
        for kind in ("learned", "theory", "process")
    }
    number = errors["learned"].shape[1]
    return {
        "values": errors["learned"].mean(axis=1)[..., None],
        "errors": errors["learned"].std(axis=1, ddof=min(1, number - 1))[..., None] / number**0.5,
        "points": np.stack([errors["theory"].mean(axis=1), errors["process"].mean(axis=1)], axis=1),
    }


def check_predictions(runs: dict[str, list[Draw]], lazy: Draw) -> None:
    """Claim A26: class errors, mean predictors and kernels of every draw against theory and process."""
    for name, draws in runs.items():
        ours, theory, rival = (
            np.array([getattr(d, kind).error.total for d in draws])
            for kind in ("learned", "theory", "process")
        )
        errors = np.array([d.learned.spread for d in draws])
        sampler = [d.learned.equilibrium for d in draws]
        check(
            "A26",
            f"class errors of every draw, {name}",
            ours,
            theory,
            errors,
            CLOSE,
            control=("the Gaussian process in place of samples", rival),
            sampler=sampler,
            because="single preactivations fluctuate, which the theory neglects",
        )
        if name != "linear":
            check(
                "A26",
                f"distance of mean predictors from theory, every draw, {name}",
                np.array([distance(d.learned.predictor, d.theory.predictor) for d in draws]),
                below(0.05),
                control=(
                    "the Gaussian process's mean",
                    np.array([distance(d.process.predictor, d.theory.predictor) for d in draws]),
                ),
                sampler=sampler,
                because="single preactivations fluctuate, which the theory neglects",
            )
            check(
                "A26",
                f"alignment of centered test kernels with theory, every draw, {name}",
                np.array([_aligned(d.learned.kernel, d.theory.kernel) for d in draws]),
                above(0.95),
                control=(
                    "the kernel before learning",
                    np.array([_aligned(d.process.kernel, d.theory.kernel) for d in draws]),
                ),
                sampler=sampler,
                because="the theory's shares of the codes are not those of the networks",
            )
        check(
            "A26",
            f"class errors over the Gaussian process's, every draw, {name}",
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
    for name, draws in runs.items():
        found = np.array([transfer(d) for d in draws])
        sampler = [d.learned.equilibrium for d in draws]
        check(
            claim,
            f"variance of test responses that the training code explains, every draw, {name}",
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
        others = [(first, np.roll(second, 1, axis=1)) for first, second in pairs]
        agree, chance = (
            np.array([coding.code_agreement(*pair).neurons for pair in which]) for which in (pairs, others)
        )
        check(
            claim,
            f"fraction of neurons with one code on training and test images, every draw, {name}",
            agree,
            above(0.9),
            control=("codes of another neuron", chance),
            sampler=sampler,
            because="codes of some neurons change",
        )


def training_and_test(draw: Draw) -> dict[str, Any]:
    """One network's activations on training and on as many test images of each class, sorted by code."""
    labels, test_labels = draw.task.labels, held_out(draw.task)[1]
    first, second = draw.learned.training_activations[0], draw.learned.test_activations[0]
    test = np.concatenate(
        [np.flatnonzero(test_labels == c)[:n] for c, n in enumerate(draw.task.class_counts)]
    )
    order = coding.sort_by_code(codes(draw)[0][0], first)
    by_class = np.argsort(labels, kind="stable")
    return {
        "activations": [first[order][:, by_class], second[order][:, test]],
        "labels": labels[by_class],
    }


def check_linear(draws: list[Draw], sigmoidal: list[Draw]) -> None:
    """Claim A25: mean predictors equal the Gaussian process's, errors are lower by its variance."""
    sampler = [d.learned.equilibrium for d in draws]
    means, others = (
        np.array([distance(d.learned.predictor, d.process.predictor) for d in ones])
        for ones in (draws, sigmoidal)
    )
    check(
        "A25",
        "distance of linear mean predictors from the Gaussian process's, every draw",
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
        "error saved by linear networks, over the variance of the Gaussian process, every draw",
        saved,
        1.0,
        absolute(0.05),
        control=("sigmoidal networks and their process", others),
        sampler=sampler,
        because="the networks' own variance at this width",
    )


def check_scaled(runs: dict[str, list[Draw]], lazy: Draw) -> None:
    """Claim A26 on images scaled to unit norm: class errors against theory and process."""
    for name, draws in runs.items():
        ours, theory, rival = (
            np.array([getattr(d, kind).error.total for d in draws])
            for kind in ("learned", "theory", "process")
        )
        check(
            "A26",
            f"class errors, images of unit norm, {name}",
            ours,
            theory,
            CLOSE,
            control=("the Gaussian process in place of samples", rival),
            note=f"at most {np.max(ours / rival):.2f} of the Gaussian process's",
            sampler=[d.learned.equilibrium for d in draws],
            because="single preactivations fluctuate, which the theory neglects",
        )


def check_projected(draws: list[Draw], lazy: Draw) -> None:
    """Claim A29: projected images, class errors against theory and process, and images classified."""
    sampler = [d.learned.equilibrium for d in draws]
    ours, theory, rival = (
        np.array([getattr(d, kind).error.total for d in draws]) for kind in ("learned", "theory", "process")
    )
    check(
        "A29",
        "class errors with more images than dimensions, every draw",
        ours,
        theory,
        CLOSE,
        control=("the Gaussian process in place of samples", rival),
        sampler=sampler,
        because="single preactivations fluctuate, which the theory neglects",
    )
    check(
        "A29",
        "class errors over the Gaussian process's, every draw",
        ours / rival,
        below(0.95),
        control=("lazy sigmoidal networks", lazy.learned.error.total / lazy.process.error.total),
        sampler=sampler,
        because="there is little variance to save: new images lie in the span of the training images",
    )
    right, guessed = (
        np.array(
            [np.mean(one.argmax(axis=1) == held_out(d.task)[1]) for d, one in zip(draws, ones, strict=True)]
        )
        for ones in (
            [d.learned.predictor for d in draws],
            [np.roll(d.learned.predictor, 1, axis=0) for d in draws],
        )
    )
    check(
        "A29",
        "fraction of test images in the right class, every draw",
        right,
        above(0.8),
        control=("the outputs on another image", guessed),
        sampler=sampler,
        because="the projection removes half of what is known of an image",
    )
