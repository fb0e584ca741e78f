"""Networks on inputs they have not learned: sampled from two starts, beside theory and Gaussian process."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, planting, statistics
from coding_schemes.networks import Network, is_bounded
from coding_schemes.posterior import Posterior, non_lazy
from coding_schemes.sampling import HMC, Samples, compare_ends, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear, mean_field

from companion.findings import Estimate, spread
from companion.workbench import Equilibrium, there

#: Trajectories of 30 steps on average at most: the inputs' large eigenvalues ask for small ones.
METHOD = HMC(max_num_steps=45)
STORE = ("readouts", "preactivations", "test_kernel")


@dataclass(frozen=True)
class Learned:
    """Independent networks of one posterior, as many from either start, and their answers to the test inputs.

    Attributes:
        posterior: what was sampled.
        outputs: on the test inputs, shape (networks, samples, P*, m).
        kernels: mean kernel of the feature layer on the test inputs, from each start, (starts, P*, P*).
        readouts: of every network's last sample, shape (networks, N, m).
        training_activations: φ(z^L) of the same, shape (networks, N, P).
        test_activations: of the same, shape (networks, N, P*).
        energy: per neuron and training input, mean of every network, shape (networks,).
        meeting: whether test errors from the two starts meet.
    """

    posterior: Posterior
    outputs: np.ndarray
    kernels: np.ndarray
    readouts: np.ndarray
    training_activations: np.ndarray
    test_activations: np.ndarray
    energy: np.ndarray
    meeting: Equilibrium

    @property
    def task(self) -> Task:
        """What was learned."""
        assert self.posterior.task is not None
        return self.posterior.task

    @property
    def starts(self) -> "list[Learned]":
        """The networks from the prior alone, and those from theory's solution."""
        names = ("outputs", "kernels", "readouts", "training_activations", "test_activations", "energy")
        parts = zip(*(np.split(getattr(self, name), len(self.kernels)) for name in names), strict=True)
        return [replace(self, **dict(zip(names, part, strict=True))) for part in parts]

    @cached_property
    def predictor(self) -> np.ndarray:
        """Mean predictor, shape (P*, m)."""
        return self.outputs.mean((0, 1), dtype=float)

    @cached_property
    def kernel(self) -> np.ndarray:
        """Mean kernel on the test inputs, shape (P*, P*)."""
        return self.kernels.mean(0)

    @property
    def error(self) -> Estimate:
        """ε_r of one network, shape (m,), with its error from the networks' spread."""
        squared = np.square(self.outputs - self.task.held_out[2])
        return spread(squared.mean((1, 2), dtype=float))

    @property
    def mean_error(self) -> np.ndarray:
        """Squared error of the mean predictor, shape (m,)."""
        return np.square(self.predictor - self.task.held_out[2]).mean(0)

    @property
    def variance(self) -> Estimate:
        """Variance of the predictor over samples and networks, averaged over outputs and test inputs."""
        return spread(np.square(self.outputs - self.predictor).mean((1, 2, 3), dtype=float))


class Predicted(NamedTuple):
    """What a theory says on the test inputs.

    Attributes:
        error: ε_r; the variance is zero where the theory is for infinite width.
        predictor: predicted mean, shape (P*, m).
        kernel: predicted feature-layer kernel, shape (P*, P*).
        solution: of the theory used.
    """

    error: coding.GeneralizationError
    predictor: np.ndarray
    kernel: np.ndarray
    solution: Any


class Draw(NamedTuple):
    """One draw of the inputs: what was learned from it, and what theory and Gaussian process say."""

    task: Task
    learned: Learned
    theory: Predicted
    process: Predicted

    @property
    def starts(self) -> "list[Draw]":
        """The same for each start by itself."""
        return [self._replace(learned=start) for start in self.learned.starts]


def judged(
    draws: Sequence[Draw], measure: Callable[[Draw], Any], over: Callable[[Any], Any] = np.array
) -> dict[str, Any]:
    """A measure of every draw as a Finding takes it: of all networks, of either start, and if they meet.

    Args:
        draws: of the inputs, each with networks from two starts.
        measure: a number or an array.
        over: what to make of the measures of all draws: an array of them, or `findings.spread`.
    """
    starts = zip(*(draw.starts for draw in draws), strict=True)
    return {
        "sampled": over([measure(draw) for draw in draws]),
        "starts": tuple(over([measure(draw) for draw in ones]) for ones in starts),
        "sampler": [draw.learned.meeting for draw in draws],
    }


def realized(draw: Draw) -> Estimate:
    """Gain over the process's error, as a fraction of the gain that theory predicts, output by output."""
    gain = draw.process.error.total - draw.theory.error.total
    found = draw.learned.error
    return Estimate((draw.process.error.total - found.value) / gain, found.error / np.abs(gain))


def measured(posterior: Posterior, *runs: Samples) -> Learned:
    """Answers of sampled networks to the test inputs, and their diagnostics.

    Args:
        posterior: with a task that has a test split.
        runs: samples that hold STORE and predictions on the test inputs: of networks from the prior and, to
            show equilibrium, of as many from theory's solution.
    """
    assert posterior.task is not None
    inputs, _, targets = posterior.task.held_out
    predictions = [there("predictions", run.predictions) for run in runs]
    outputs = [found.outputs for found in predictions]
    finals = [
        jax.tree.map(lambda leaf, c=c: leaf[c], r.final) for r in runs for c in range(len(r.info.energy))
    ]
    answers = [posterior.predict(jax.random.key(0), final, inputs).preactivations[-1] for final in finals]
    energies = np.concatenate([run.info.energy.mean(axis=1) for run in runs])
    return Learned(
        posterior,
        np.concatenate(outputs),
        np.array([there("test_kernel", found.kernel) for found in predictions]),
        np.concatenate([there("readouts", run.readouts)[:, -1] for run in runs]).astype(float),
        np.concatenate([run.activations()[:, -1] for run in runs]),
        np.array([posterior.network.phi(z) for z in answers]),
        energies / (posterior.network.width * posterior.task.num_inputs),
        _meeting(posterior, runs, [np.square(each - targets).mean(2, dtype=float) for each in outputs]),
    )


def _meeting(posterior: Posterior, runs: Sequence[Samples], errors: list[np.ndarray]) -> Equilibrium:
    """Whether the starts meet, in their test errors as in all else that `sampling.compare_ends` looks at.

    Within 4 standard errors or 2 %.
    """
    if len(runs) != 2:
        return Equilibrium(False, "one start only")
    means, bars = zip(*map(statistics.mean_and_error, errors), strict=True)
    gap = np.abs(means[0] - means[1])
    fraction, scores = gap / np.maximum(*means), gap / np.hypot(*bars)
    agree = bool(np.all((fraction <= 0.02) | (scores <= 4)))
    worst = int(fraction.argmax())
    verdict = f"test errors from the prior and from theory's solution {'meet' if agree else 'differ'}: "
    verdict += f"at most {fraction[worst]:.1%} apart ({scores[worst]:.1f} standard errors)"
    others = compare_ends(runs[0], runs[1], posterior)
    said = f"{verdict}; all else: {others.verdict}"
    return Equilibrium(agree and others.agree, said, float(fraction[worst]))


def predicted(task: Task, network: Network, temperature: float) -> Predicted:
    """The theory of one hidden layer that fits the nonlinearity, on the test inputs.

    Linear networks have the exact saddle point, and their predictor's variance at width N. Bounded ones and
    the ReLU have the mean-field theory, without a variance. The scatter of test preactivations that training
    leaves untouched is averaged over for bounded nonlinearities. The ReLU's kernel is the outliers' part and
    the prior's for the bulk.

    Raises:
        ValueError: there is no theory for the nonlinearity, or the task has no test split.
    """
    inputs, _, targets = task.held_out
    name = network.nonlinearity
    if name == "linear":
        exact = linear.solve(task, depth=1, temperature=temperature)
        predictor, kernel = exact.predict(inputs), exact.kernel(inputs)
        variance = exact.predictor_variance(inputs, network.width)
        error = coding.generalization_error(predictor, variance, targets)
        return Predicted(error, predictor, kernel, exact)
    solution = mean_field.solve(task, name, temperature)
    predictor = solution.predict(inputs, fluctuations=True)
    kernel = solution.kernel(inputs, fluctuations=True)
    if solution.outliers:
        kernel = kernel + gaussian_process.prior_kernels(inputs, nonlinearity=name)[-1]
    return Predicted(coding.generalization_error(predictor, 0.0, targets), predictor, kernel, solution)


def process(task: Task, nonlinearity: Any, temperature: float, readout_variance: float = 1.0) -> Predicted:
    """The infinitely wide lazy network: its mean, its variance, and the kernel before learning."""
    inputs, _, targets = task.held_out
    found = gaussian_process.solve(task, nonlinearity, 1, temperature, readout_variance)
    mean = found.predict(inputs)
    error = coding.generalization_error(mean, found.predictor_variance(inputs), targets)
    return Predicted(error, mean, found.kernel(inputs), found)


def learn(
    task: Task, network: Network, temperature: float, key: Any, solution: Any = None, **options: Any
) -> Learned:
    """Sample a posterior from the prior, and from theory's solution if given; options: those of `sample`."""
    posterior = non_lazy(task, network, temperature)
    defaults: dict[str, Any] = {"method": METHOD, "store": STORE, "predict_inputs": task.held_out[0]}
    options = defaults | options
    runs = [sample(posterior, key, **options)]
    if solution is not None:
        start = planting.planted(key, solution, posterior)
        runs.append(sample(posterior, jax.random.fold_in(key, 1), init=start, **options))
    return measured(posterior, *runs)


def experiment(task: Task, network: Network, temperature: float, key: Any, **options: Any) -> Draw:
    """Networks, theory and process on one task; lazy networks from the prior alone, with no theory."""
    against = process(task, network.nonlinearity, temperature)
    if network.scaling == "lazy":
        return Draw(task, learn(task, network, temperature, key, **options), against, against)
    expected = predicted(task, network, temperature)
    learned = learn(task, network, temperature, key, expected.solution, **options)
    return Draw(task, learned, expected, against)


def transfer(draw: Draw) -> np.ndarray:
    """`coding.code_transfer` of a draw's networks: R² on training and on test inputs, (networks, 2)."""
    learned = draw.learned
    labels = draw.task.labels, draw.task.held_out[1]
    return coding.code_transfer(learned.training_activations, labels[0], learned.test_activations, labels[1])


def codes(draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """Codes of every network's neurons, of a bounded nonlinearity, on training and on test inputs."""
    learned = draw.learned
    middle = coding.threshold(learned.posterior.network.phi)
    first = coding.codes(learned.training_activations, draw.task.labels, middle)
    return first, coding.codes(learned.test_activations, draw.task.held_out[1], middle)


def first_of_each(labels: np.ndarray, counts: Iterable[int]) -> np.ndarray:
    """Places of the first so many inputs of each class, class by class."""
    return np.concatenate([np.flatnonzero(labels == c)[:count] for c, count in enumerate(counts)])


def training_and_test(draw: Draw) -> dict[str, Any]:
    """One network's activations on training inputs and on as many test inputs of each class.

    Sorted by code, and with its names; by activity where φ is not bounded. Of a class with fewer test inputs
    fewer training inputs are shown.
    """
    labels, test_labels = draw.task.labels, draw.task.held_out[1]
    first, second = draw.learned.training_activations[0], draw.learned.test_activations[0]
    counts = np.minimum(
        *(np.bincount(each, minlength=draw.task.num_classes) for each in (labels, test_labels))
    )
    shown, test = (first_of_each(each, counts) for each in (labels, test_labels))
    if is_bounded(draw.learned.posterior.network.phi):
        own = codes(draw)[0][0]
        order = coding.sort_by_code(own, first)
        named = {"codes": [coding.code_name(code) for code in own[order]]}
    else:
        order, named = coding.sort_by_activity(first), {}
    activations = [first[order][:, shown], second[order][:, test]]
    return {"activations": activations, "labels": labels[shown]} | named


def bars_over_draws(errors: np.ndarray, theory: np.ndarray, process: np.ndarray) -> dict[str, Any]:
    """For `figures.bars`: class errors (K, draws, m) as bars, theory's and the process's (K, m) as marks."""
    number = errors.shape[1]
    return {
        "names": ("samples",),
        "ylabel": r"generalization error $\varepsilon_r$",
        "values": errors.mean(axis=1)[..., None],
        "errors": errors.std(axis=1, ddof=min(1, number - 1))[..., None] / number**0.5,
        "points": np.stack([theory, process], axis=1),
    }
