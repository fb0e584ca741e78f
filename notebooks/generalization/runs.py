"""What the chapter on generalization runs and measures: networks on digits that they have not learned."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from companion.findings import Estimate, less, spread, stacked
from companion.held_out import (
    Draw,
    Learned,
    Predicted,
    bars_over_draws,
    codes,
    experiment,
    learn,
    process,
    realized,
)
from companion.workbench import Equilibrium, titled

SCHEMES = ("linear", "sigmoidal", "relu")
TITLES = tuple(map(titled, SCHEMES))
KINDS = ("samples", "theory")
PUBLISHED = (100, 100)  # N and P of paper A's Fig. 6


def draws(
    key: Any,
    name: str,
    temperature: float,
    *,
    width: int,
    num_inputs: int,
    num_test: int,
    num_draws: int,
    seed: int,
    first: int = 0,
    scaling: str = "non-lazy",
    normalization: str = "standardize",
    **counts: Any,
) -> list[Draw]:
    """Networks of one nonlinearity on independent draws of the images, with theory and process.

    The draws are those from the first up to num_draws.
    """
    network, found = Network(1, width, name, scaling), []
    for draw in range(first, num_draws):
        task = tasks.mnist(num_inputs, num_test, seed=seed + draw, normalization=normalization)
        stream = jax.random.fold_in(jax.random.fold_in(key, SCHEMES.index(name)), draw)
        found.append(experiment(task, network, temperature, stream, **counts))
    return found


def distance(one: Any, other: Any) -> float:
    """Root-mean-square distance of two predictors, relative to the second."""
    return float(np.linalg.norm(np.subtract(one, other)) / np.linalg.norm(other))


def aligned(one: np.ndarray, other: np.ndarray) -> float:
    """Alignment of two centered kernels."""
    return float(coding.kernel_alignment(one, other, centered=True))


# ---- errors -----------------------------------------------------------------------------------------


def of_lazy(learned: dict[str, list[Draw]], lazy: dict[str, list[Draw]]) -> Estimate:
    """`held_out.realized` of lazy networks on the first draw of each nonlinearity, once for each draw."""
    found = [
        realized(lazy[name][0]._replace(theory=draws[0].theory))
        for name, draws in learned.items()
        for _ in draws
    ]
    return stacked(found)


def gain(draw: Draw) -> float:
    """What the networks of a draw gain over the process, mean over outputs."""
    return float(np.mean(draw.process.error.total - draw.learned.error.value))


def gain_in_theory(draw: Draw) -> float:
    """The same of theory, which can be next to nothing on a single draw."""
    return float(np.mean(draw.process.error.total - draw.theory.error.total))


def realized_on_average(draws: Sequence[Draw]) -> Estimate:
    """Mean gain of networks over that of theory; its error is from what draws differ in."""
    theory = np.array([gain_in_theory(draw) for draw in draws])
    missed = spread(theory - [gain(draw) for draw in draws])
    return Estimate(1 - missed.value / theory.mean(), missed.error / abs(theory.mean()))


def _by_network(learned: Learned) -> tuple[np.ndarray, np.ndarray]:
    """What every network adds to the error of the mean predictor, to first order, and to the variance."""
    off = learned.predictor - learned.task.held_out[2]
    own = learned.outputs.mean(1, dtype=float) - learned.predictor
    mean = np.square(off).mean() + 2 * (off * own).mean((1, 2))
    return mean, np.square(learned.outputs - learned.predictor).mean((1, 2, 3), dtype=float)


def saved(draw: Draw) -> Estimate:
    """Error saved against the process, over the process's variance, averaged over outputs."""
    ours, scale = spread(sum(_by_network(draw.learned))), draw.process.error.variance.mean()
    return Estimate((draw.process.error.total.mean() - ours.value) / scale, ours.error / scale)


def saved_in_theory(draw: Draw) -> float:
    """The same of theory."""
    return float(gain_in_theory(draw) / draw.process.error.variance.mean())


class Gains(NamedTuple):
    """What two parts of the error gain over a process, as fractions of the process's error.

    Attributes:
        mean: of the mean predictor.
        variance: of the predictor's variance.
        difference: mean less variance.
    """

    mean: Estimate
    variance: Estimate
    difference: Estimate


def gains(draw: Draw, other: Predicted | None = None) -> Gains:
    """Gains of a draw's networks over its process, or another one."""
    against = (other or draw.process).error
    scale, parts = against.total.mean(), _by_network(draw.learned)
    theirs = against.mean_error.mean(), against.variance.mean()
    mean, variance = ((their - part) / scale for their, part in zip(theirs, parts, strict=True))
    return Gains(spread(mean), spread(variance), spread(mean - variance))


def weak_process(draw: Draw, temperature: float) -> Predicted:
    """The process whose readouts have the variance 1/P of networks that learn features."""
    name = draw.learned.posterior.network.nonlinearity
    return process(draw.task, name, temperature, 1 / draw.task.num_inputs)


def variance_share(draws: Sequence[Draw]) -> float:
    """Part of the process's error that is its variance."""
    return float(np.mean([d.process.error.variance.mean() / d.process.error.total.mean() for d in draws]))


def right(draw: Draw, shuffled: bool = False) -> Estimate:
    """Fraction of test images in the right class, by the mean predictor, with its binomial error."""
    answers, labels = draw.learned.predictor.argmax(axis=1), draw.task.held_out[1]
    answers = np.random.default_rng(0).permutation(answers) if shuffled else answers
    share = np.mean(answers == labels)
    return Estimate(share, np.sqrt(share * (1 - share) / len(labels)))


# ---- codes ------------------------------------------------------------------------------------------


def explained_beyond(networks: Sequence[np.ndarray], lazy: Sequence[np.ndarray]) -> Estimate:
    """R² of test responses, networks less lazy ones: mean over all, (networks, 2) for each draw."""
    return less(*(spread(np.concatenate(each)[:, 1]) for each in (networks, lazy)))


def _untrained(key: Any, draw: Draw, num_networks: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Activations of networks from the prior, on training and on test images."""
    posterior, phi = draw.learned.posterior, draw.learned.posterior.network.phi
    for one in jax.random.split(key, num_networks):
        weights = posterior.prior(one)
        answer = posterior.predict(jax.random.fold_in(one, 1), weights, draw.task.held_out[0])
        first, second = posterior.preactivations(weights)[-1], answer.preactivations[-1]
        yield np.asarray(phi(first)), np.asarray(phi(second))


def without_learning(key: Any, draw: Draw, num_networks: int = 8) -> np.ndarray:
    """`transfer` of networks from the prior."""
    labels = draw.task.labels, draw.task.held_out[1]
    pairs = _untrained(key, draw, num_networks)
    return np.array([coding.code_transfer(first, labels[0], second, labels[1]) for first, second in pairs])


def same_code_untrained(key: Any, draw: Draw, num_networks: int = 8) -> np.floating:
    """`same_code` of sigmoidal networks from the prior, mean over them."""
    first, second = map(np.array, zip(*_untrained(key, draw, num_networks), strict=True))
    middle = coding.threshold(draw.learned.posterior.network.phi)
    own = coding.codes(first, draw.task.labels, middle), coding.codes(second, draw.task.held_out[1], middle)
    return np.mean(coding.code_agreement(*own).neurons)


def explained_more(networks: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> Estimate:
    """R² of test responses, mean over networks, less that of others on the same draws; mean over draws.

    Of either, `transfer` by draw.
    """
    own, theirs = (np.array([each[:, 1].mean() for each in one]) for one in (networks, others))
    return spread(own - theirs)


def same_code(draw: Draw) -> np.ndarray:
    """Fraction of neurons with one code on training and test images."""
    return np.array(coding.code_agreement(*codes(draw)).neurons)


class Outliers(NamedTuple):
    """Outliers among ReLU neurons on test images: network by network, in theory, and without learning."""

    sampled: np.ndarray
    theory: float
    untrained: np.ndarray


def outliers(draw: Draw, seed: int = 0, num_networks: int = 20) -> Outliers:
    """Neurons that carry more than 1/√N of a class's squared activity on test images.

    Theory's are its outliers in front of a bulk drawn from the prior, counted in the same way.
    """
    inputs, labels, _ = draw.task.held_out
    found, width = draw.learned.test_activations, draw.learned.posterior.network.width
    solution, rng = draw.theory.solution, np.random.default_rng(seed)
    weights = rng.standard_normal((num_networks, width, len(inputs)))
    noise = np.maximum(weights @ inputs / len(inputs) ** 0.5, 0)
    planted = noise.copy()
    strong = np.maximum(solution.preactivations_on(inputs), 0) * width**0.5
    planted[:, : len(strong)] = strong[:width]
    counts = [coding.outliers(phi, labels).counts for phi in (found, planted, noise)]
    return Outliers(counts[0], float(counts[1].mean()), counts[2])


class Counted(NamedTuple):
    """Outliers on test images, and those beyond theory's: means over draws, which differ from each other."""

    number: Estimate
    beyond: Estimate


def counted(found: Sequence[Outliers], kind: str = "sampled") -> Counted:
    """Outliers of every draw's learned networks, or of its `untrained` ones."""
    numbers = np.array([np.mean(getattr(each, kind)) for each in found])
    return Counted(spread(numbers), spread(numbers - [each.theory for each in found]))


def of_outliers(draw: Draw, others: bool = False) -> np.ndarray:
    """Share of a ReLU network's outputs on test images that its outliers alone make, for each network.

    The share is R² = 1 − |f − f_outliers|²/|f|². With `others`, as many of the strongest other neurons.
    """
    shares, learned = [], draw.learned
    for phi, a in zip(learned.test_activations.astype(float), learned.readouts, strict=True):
        chosen = coding.outliers(phi, draw.task.held_out[1]).mask
        if others:
            strength = np.where(chosen, -1.0, np.square(phi).mean(1))
            chosen = strength >= np.sort(strength)[-chosen.sum()]
        whole, part = phi.T @ a, phi[chosen].T @ a[chosen]
        shares.append(1 - np.square(whole - part).sum() / np.square(whole).sum())
    return np.array(shares)


def kernel_formula(draw: Draw, power: int = 1) -> float:
    """Coefficient of f U⁻¹ fᵀ in what a linear network's kernel on test images has learned; 1 if it is that.

    f is the sampled mean predictor and U the readouts' sampled covariance; the diagonal is left out.
    """
    learned, inputs = draw.learned, draw.task.held_out[0]
    covariance = np.einsum("nir,nis->rs", learned.readouts, learned.readouts)
    covariance = covariance / (learned.readouts.shape[0] * learned.readouts.shape[1])
    f = learned.predictor
    formula = f @ np.linalg.matrix_power(np.linalg.inv(covariance), power) @ f.T
    change = learned.kernel - inputs.T @ inputs / len(inputs)
    apart = ~np.eye(len(f), dtype=bool)
    return float(change[apart] @ formula[apart] / np.square(formula[apart]).sum())


# ---- widths -----------------------------------------------------------------------------------------


class Variances(NamedTuple):
    """Predictor variance on the test images over widths.

    Attributes:
        widths: N, shape (W,).
        learned: of networks that learn features, shape (W,).
        starts: the same of either start.
        lazy: of lazy networks.
        meetings: of the networks that learn features.
    """

    widths: np.ndarray
    learned: Estimate
    starts: tuple[Estimate, ...]
    lazy: Estimate
    meetings: list[Equilibrium]

    def exponent(self, values: Estimate) -> Estimate:
        """Exponent of a power law in the width; one relative error for all widths, their root mean square.

        Where the variance is c/N, outputs fluctuate with one covariance in units of 1/N, so that variances of
        all widths are known equally well; the few networks of a single width do not know their own error.
        """
        relative = np.sqrt(np.mean(np.square(values.error / values.value)))
        law = statistics.fit_power_law(self.widths, values.value, relative * values.value)
        return Estimate(np.float64(law.exponent), np.float64(law.standard_error))


def over_widths(
    key: Any, draw: Draw, lazy: Draw, widths: Sequence[int], temperature: float, **counts: Any
) -> Variances:
    """Sigmoidal networks over widths on one draw; those of one width, learned and lazy, are there already."""

    def at(width: int, known: Draw, scaling: str) -> Learned:
        if width == known.learned.posterior.network.width:
            return known.learned
        solution = None if scaling == "lazy" else draw.theory.solution
        network, stream = Network(1, width, "sigmoidal", scaling), jax.random.fold_in(key, width)
        return learn(draw.task, network, temperature, stream, solution, **counts)

    found = [at(width, draw, "non-lazy") for width in widths]
    halves = zip(*(one.starts for one in found), strict=True)
    return Variances(
        np.array(widths),
        stacked([one.variance for one in found]),
        tuple(stacked([start.variance for start in half]) for half in halves),
        stacked([at(width, lazy, "lazy").variance for width in widths]),
        [one.meeting for one in found],
    )


# ---- figures ----------------------------------------------------------------------------------------


def evenly(labels: np.ndarray, count: int) -> np.ndarray:
    """Places of so many images, evenly spread over the classes' blocks."""
    return np.linspace(0, len(labels) - 1, count).astype(int)


def unit(kernel: np.ndarray) -> np.ndarray:
    """In units of its largest entries, so that kernels of several nonlinearities share a color scale."""
    return kernel / np.quantile(np.abs(kernel), 0.99)


def answers(first: dict[str, Draw], num_neurons: int = 30, num_images: int = 90) -> dict[str, Any]:
    """For `figures.kernels_and_neurons`: test kernels, and activations of one network of each kind.

    Linear neurons by activity and sigmoidal ones by code, evenly taken; of the ReLU the most active.
    """
    kernels, rows, labels = [], [], first["linear"].task.held_out[1]
    images = evenly(labels, num_images)
    for name, draw in first.items():
        phi = draw.learned.test_activations[0]
        order = coding.sort_by_activity(phi)
        if name == "sigmoidal":
            order = coding.sort_by_code(codes(draw)[0][0], phi)
        taken = np.arange(num_neurons) if name == "relu" else np.linspace(0, len(phi) - 1, num_neurons)
        rows.append(phi[order[np.minimum(taken, len(phi) - 1).astype(int)]][:, images])
        kernels.append(unit(draw.learned.kernel)[np.ix_(images, images)])
    return {"kernels": kernels, "activations": rows, "labels": labels[images], "titles": TITLES}


def kernel_panels(first: dict[str, Draw], num_images: int = 90) -> dict[str, Any]:
    """For `figures.kernel_matrices`: sampled and predicted kernels on test images."""
    labels = first["linear"].task.held_out[1]
    images = evenly(labels, num_images)
    kernels = [[d.learned.kernel for d in first.values()], [d.theory.kernel for d in first.values()]]
    return {
        "kernels": [unit(kernel)[np.ix_(images, images)] for row in kernels for kernel in row],
        "labels": labels[images],
        "titles": [f"{name}, {kind}" for kind in KINDS for name in TITLES],
    }


def mean_predictors(first: dict[str, Draw], num_images: int = 100) -> dict[str, Any]:
    """For `figures.network_sample`: mean output for the first class on test images, a row per network."""
    _, labels, targets = first["linear"].task.held_out
    images = evenly(labels, num_images)
    return {
        "names": [rf"$\langle f_0 \rangle$, {title}" for title in TITLES],
        "readouts": (),
        "activations": (),
        "outputs": np.stack([draw.learned.predictor[images, 0] for draw in first.values()], axis=1),
        "theory": np.stack([draw.theory.predictor[images, 0] for draw in first.values()], axis=1),
        "targets": np.repeat(targets[images, :1], len(first), axis=1),
        "labels": labels[images],
    }


def class_errors(found: dict[str, list[Draw]]) -> dict[str, Any]:
    """For `figures.bars`: class errors, mean and standard error over draws, beside theory and process."""
    errors = np.array([[d.learned.error.value for d in draws] for draws in found.values()])
    others = [
        np.array([[getattr(d, kind).error.total for d in draws] for draws in found.values()]).mean(1)
        for kind in ("theory", "process")
    ]
    return bars_over_draws(errors, *others) | {"titles": TITLES}
