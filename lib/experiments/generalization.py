"""Learned networks on new inputs: sampled, predicted by theory, and by a Gaussian process, draw by draw."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, planting, statistics
from coding_schemes.coding import GeneralizationError
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, non_lazy
from coding_schemes.sampling import HMC, Samples, compare_ends, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear, mean_field
from companion.checks import relative
from companion.workbench import Equilibrium
from jax import Array
from numpy.typing import ArrayLike

#: Trajectories of 30 steps on average at most: the inputs' large eigenvalues ask for small ones.
METHOD = HMC(max_num_steps=45)
STORE = ("readouts", "preactivations", "test_kernel")
SCHEMES = ("linear", "sigmoidal", "relu")
CLOSE = relative(0.1)


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
        ends: the same of the networks from the prior and of those from the theory's solution, each by itself.
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
    ends: "tuple[Learned, ...]" = ()


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


def apart(draws: Iterable[Draw]) -> list[Draw]:
    """Every draw once for each of its ends: what passes with these holds wherever networks came from."""
    return [draw._replace(learned=end) for draw in draws for end in draw.learned.ends or (draw.learned,)]


def totals(draws: Iterable[Draw]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class errors of the networks, by theory, and of the Gaussian process, each of shape (draws, m)."""
    rows = [[found.error.total for found in (d.learned, d.theory, d.process)] for d in draws]
    learned, theory, process = np.swapaxes(np.array(rows), 0, 1)
    return learned, theory, process


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
    kernels = [_there(one.kernel) for one in found]
    outputs = np.concatenate([one.outputs for one in found])
    mean, variance = outputs.mean((0, 1), dtype=float), outputs.var((0, 1), dtype=float)
    squared = [np.square(one.outputs - targets).mean(2, dtype=float) for one in found]
    chains = np.concatenate(squared).mean(axis=1)
    finals = [
        jax.tree.map(lambda leaf, c=c: leaf[c], e.final) for e in ends for c in range(len(e.info.energy))
    ]
    answers = [posterior.predict(jax.random.key(0), one, inputs).preactivations[-1] for one in finals]
    pooled = Learned(
        coding.generalization_error(mean, variance, targets),
        chains.std(axis=0, ddof=1) / len(chains) ** 0.5,
        mean,
        variance,
        np.mean(kernels, axis=0),
        np.concatenate([one.activations()[:, -1] for one in ends]),
        np.asarray(posterior.network.phi(jnp.stack(answers))),
        np.concatenate([one.info.energy.mean(axis=1) for one in ends])
        / (posterior.network.width * posterior.task.num_inputs),
        _two_ended(posterior, ends, squared) if len(ends) == 2 else Equilibrium(False, "one end only"),
        posterior.network,
    )
    if len(ends) < 2:
        return pooled
    each = (measure(posterior, end)._replace(equilibrium=pooled.equilibrium) for end in ends)
    return pooled._replace(ends=tuple(each))


def _two_ended(posterior: Posterior, ends: tuple[Samples, ...], errors: list[np.ndarray]) -> Equilibrium:
    """Whether test errors agree as `sampling.compare_ends` asks: within 4 standard errors or 2 %.

    Where the shares of the codes are frozen they need not; then each end has to pass by itself, in networks
    enough for an error.
    """
    means, bars = zip(*(statistics.mean_and_error(one) for one in errors), strict=True)
    gap = np.abs(means[0] - means[1])
    fraction, scores = gap / np.maximum(*means), gap / np.hypot(*bars)
    agree = bool(np.all((fraction <= 0.02) | (scores <= 4)))
    worst = int(fraction.argmax())
    verdict = f"test errors from the prior and from the theory's solution {'meet' if agree else 'differ'}: "
    verdict += f"at most {fraction[worst]:.1%} apart ({scores[worst]:.1f} standard errors)"
    others = compare_ends(ends[0], ends[1], posterior).verdict
    networks = sum(len(one) for one in errors)
    return Equilibrium.of(agree, networks, f"{verdict}; all else: {others}", float(fraction[worst]))


def learn(
    task: Task, network: Network, temperature: float, key: Array, solution: Any = None, **options: Any
) -> Learned:
    """Sample a network's posterior from the prior, and from a theory's solution if given; and `measure` it.

    The task has a test split; options are those of `sampling.sample`.
    """
    posterior = non_lazy(task, network, temperature)
    defaults: dict[str, Any] = {"method": METHOD, "store": STORE, "predict_inputs": held_out(task)[0]}
    options = defaults | options
    ends = [sample(posterior, key, **options)]
    if solution is not None:
        start = planting.planted(key, solution, posterior)
        ends.append(sample(posterior, jax.random.fold_in(key, 1), init=start, **options))
    return measure(posterior, *ends)


def _there(found: Any) -> Any:
    if found is None:
        raise ValueError("samples: hold no predictions with their kernel; ask for them by `predict_inputs`")
    return found


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


def first_of_each(labels: np.ndarray, counts: Iterable[int]) -> np.ndarray:
    """Places of the first so many inputs of each class, class by class."""
    return np.concatenate([np.flatnonzero(labels == c)[:count] for c, count in enumerate(counts)])


def training_and_test(draw: Draw) -> dict[str, Any]:
    """One network's activations on training and on as many test images of each class, sorted by code."""
    labels, test_labels = draw.task.labels, held_out(draw.task)[1]
    first, second = draw.learned.training_activations[0], draw.learned.test_activations[0]
    test = first_of_each(test_labels, draw.task.class_counts)
    order = coding.sort_by_code(codes(draw)[0][0], first)
    by_class = np.argsort(labels, kind="stable")
    return {"activations": [first[order][:, by_class], second[order][:, test]], "labels": labels[by_class]}
