"""Learned networks on new inputs: sampled, predicted by theory, and by a Gaussian process, draw by draw."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.coding import GeneralizationError
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, Samples, convergence, sample
from coding_schemes.sampling.diagnostics import MAX_RHAT, MIN_ESS
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear, mean_field
from companion.checks import above, absolute, below, check, relative
from jax import Array
from numpy.typing import ArrayLike

#: Trajectories of up to 30 steps: the inputs' large eigenvalues ask for small ones.
METHOD = HMC(max_num_steps=30)
STORE = ("readouts", "preactivations")
SCHEMES = ("linear", "sigmoidal", "relu")


class Equilibrium(NamedTuple):
    """Whether what a chapter measures on test images is in equilibrium.

    Attributes:
        converged: R-hat and ESS of every output's test error meet the book's thresholds.
        verdict: one line, on the test errors and on all other observables.
    """

    converged: bool
    verdict: str


class Learned(NamedTuple):
    """Networks drawn from a posterior, and their answers to the test inputs.

    Attributes:
        samples: with predictions, readouts and preactivations.
        error: ε_r of the mean predictor and of its variance over samples and networks.
        training_activations: φ(z^L) of every chain's last network, shape (chains, N, P).
        test_activations: of the same networks, shape (chains, N, P*).
        equilibrium: of the test errors.
    """

    samples: Samples
    error: GeneralizationError
    training_activations: np.ndarray
    test_activations: np.ndarray
    equilibrium: Equilibrium

    @property
    def predictor(self) -> np.ndarray:
        """Mean predictor on the test inputs, shape (P*, m)."""
        return self._predictions.mean

    @property
    def kernel(self) -> np.ndarray:
        """Mean kernel of the feature layer on the test inputs, shape (P*, P*)."""
        return self._predictions.kernel

    @property
    def _predictions(self) -> Any:
        return self.samples.predictions


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


def measure(posterior: Posterior, samples: Samples, key: Any = 0) -> Learned:
    """Errors, activations and diagnostics of sampled networks on the test inputs.

    Args:
        posterior: with a task that has a test split.
        samples: with predictions on the test inputs, readouts and preactivations.
        key: seed of what the training inputs leave open in the answers of a network.

    Returns:
        Learned.
    """
    task, found = posterior.task, samples.predictions
    assert task is not None and found is not None
    inputs, _, targets = held_out(task)
    networks = [jax.tree.map(lambda leaf, c=c: leaf[c], samples.final) for c in range(len(found.outputs))]
    answers = [posterior.predict(jax.random.key(key), one, inputs).preactivations[-1] for one in networks]
    squared = np.square(found.outputs - targets).mean(2, dtype=float)  # (chains, samples, m)
    series = np.moveaxis(squared, -1, 0)
    rhat = max(float(statistics.rhat(one)) for one in series)
    ess = min(float(statistics.effective_sample_size(one, "bulk")) for one in series)
    good = rhat <= MAX_RHAT and ess >= MIN_ESS
    verdict = f"test errors {'consistent with equilibrium' if good else 'not shown to be in equilibrium'}: "
    verdict += (
        f"R-hat ≤ {rhat:.3f}, ESS ≥ {ess:.0f}; all observables, {convergence(samples, posterior).verdict}"
    )
    return Learned(
        samples,
        coding.generalization_error(found.mean, found.variance, targets),
        samples.activations()[:, -1],
        np.asarray(posterior.network.phi(np.stack(answers))),
        Equilibrium(good, verdict),
    )


def learn(task: Task, network: Network, temperature: float, key: Array, **options: Any) -> Learned:
    """Sample a network's posterior and `measure` it; options as of `sampling.sample`."""
    posterior = posterior_of(task, network, temperature)
    options = {"method": METHOD, "store": STORE, "predict_inputs": held_out(task)[0]} | options
    return measure(posterior, sample(posterior, key, **options))


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
    """Networks, theory and Gaussian process on one task; without `theory` the process stands in for it."""
    name = str(network.nonlinearity)
    against = process(task, name, temperature)
    expected = predicted(task, name, temperature) if theory else against
    return Draw(task, learn(task, network, temperature, key, **options), expected, against)


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
    """Codes of every network's neurons on training and on test images; of ReLU neurons the outliers'."""
    pairs = (
        (draw.learned.training_activations, draw.task.labels),
        (
            draw.learned.test_activations,
            held_out(draw.task)[1],
        ),
    )
    if draw.learned.samples.network is not None and draw.learned.samples.network.nonlinearity == "relu":
        first, second = (coding.outliers(*pair).codes for pair in pairs)
        return first, second
    middle = coding.threshold(draw.learned.samples.network.phi)  # type: ignore[union-attr]
    first, second = (coding.codes(*pair, middle) for pair in pairs)
    return first, second
