"""Adaptive kernels: sampled and trained networks at any richness γ0, beside the theory of paper B."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network, is_bounded
from coding_schemes.sampling import Convergence, integrated
from coding_schemes.tasks import Task
from coding_schemes.theory import adaptive_kernel, dmft, features, gaussian_process
from coding_schemes.theory.adaptive_kernel import Solution
from companion.workbench import Run, draw
from scipy.stats import kurtosis, sem

#: Draws of theory's population whose scatter is the error of the variance it predicts.
THEORIES = 4
ONE_INPUT = tasks.Task(np.ones((1, 1)), np.array([0]), np.ones((1, 1)))


def two_classes(num_inputs: int) -> Task:
    """Orthogonal inputs, half of them with the target 1 and half with −1."""
    return tasks.toy(num_inputs, (0.5, 0.5), targets=[[1.0], [-1.0]])


def teacher_task(num_inputs: int, input_dim: int, num_test: int, seed: int) -> Task:
    """Gaussian inputs with the sign of a random linear teacher as target."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(input_dim)
    splits: list[Any] = []
    for number in (num_inputs, num_test):
        x = rng.standard_normal((input_dim, number))
        x = x[:, np.argsort(-np.sign(teacher @ x), kind="stable")]
        y = np.sign(teacher @ x)
        splits += [x, (y < 0).astype(int), y[:, None]]
    return tasks.Task(*splits)


def solved(solve: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a solver of the theory finds, where that is to be shown: what it would only warn of stops it.

    Raises:
        FloatingPointError: it did not converge, its populations differ, or its search is not at rest.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "adaptive kernel|aNTK|fixed_point")
        try:
            return solve(*arguments, **options)
        except UserWarning as reason:
            raise FloatingPointError(f"not solved: {reason}") from reason


def sampled(key: Any, task: Task, network: Network, richness: float, ridge: float, **options: Any) -> Run:
    """Networks of richness γ0 at inverse temperature β: paper A's with σ_a² = 1/γ0² and T = 1/(β γ0²)."""
    return draw(key, task, network, ridge / richness**2, 1 / richness**2, **options)


def entries(kernel: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean entry of kernels (..., P, P) between different inputs of one class, and of two: (..., 2)."""
    same = labels[:, None] == labels
    other = ~same
    np.fill_diagonal(same, False)
    return np.stack([kernel[..., same].mean(-1), kernel[..., other].mean(-1)], axis=-1)


def alignment(kernel: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """yᵀΦy / (|y|² ‖Φ‖_F) of kernels (..., P, P) with one target, shape (...)."""
    y = targets[:, 0]
    return np.einsum("...pq,p,q->...", kernel, y, y) / (y @ y) / np.linalg.norm(kernel, axis=(-2, -1))


def overlaps(kernels: np.ndarray, task: Task) -> np.ndarray:
    """ŷᵀΦŷ of kernels (..., P, P) with the normalized targets of a task with one output, shape (...)."""
    y = task.targets[:, 0] / np.linalg.norm(task.targets)
    return np.einsum("...pq,p,q->...", kernels, y, y)


def layer_kernels(run: Run) -> np.ndarray:
    """Kernels of all layers of every sample, shape (chains, samples, L, P, P)."""
    depth = run.posterior.network.depth
    return np.stack([coding.kernels(run.samples.activations(layer)) for layer in range(depth)], axis=2)


@dataclass(frozen=True)
class Ends:
    """Kernel entries from lazy to rich, by theory and by sampled networks.

    Attributes:
        richness: γ0 of the theory, shape (S,).
        theory: entries inside a class and between classes, shape (S, 2).
        sampled_richness: γ0 of the networks, shape (s,).
        widths: N, one or two; entries of two are extrapolated in 1/N.
        mean: sampled entries, shape (s, 2).
        error: their standard errors.
        shapes: `shape` of the preactivations, and its standard errors, each of shape (s, 2).
        convergence: of all runs.
        preactivations: of the widest and richest networks, shape (chains, samples, N, P).
    """

    richness: np.ndarray
    theory: np.ndarray
    sampled_richness: np.ndarray
    widths: tuple[int, ...]
    mean: np.ndarray
    error: np.ndarray
    shapes: tuple[np.ndarray, np.ndarray]
    convergence: list[Convergence]
    preactivations: np.ndarray


def ends(
    key: Any, task: Task, network: Network, ridge: float, richness: Any, sampled_richness: Any, **options: Any
) -> Ends:
    """Kernel entries of one nonlinearity over γ0.

    A bounded neuron keeps its code for long, so that these networks are sampled whole, with moves that change
    codes. Others are sampled at half the width too, without their readouts, which is fast.
    """
    rows, convergence, dense = [], [], features.dense(task, network.phi)
    whole = is_bounded(network.phi)
    widths = (network.width,) if whole else (network.width // 2, network.width)
    for index, g in enumerate(map(float, sampled_richness)):
        own = jax.random.fold_in(key, index)
        if whole:
            run = sampled(own, task, network, g, ridge, store=("preactivations",), **options)
            kernels, preactivations = [layer_kernels(run)[:, :, 0]], [run.preactivations[0]]
            convergence.append(run.convergence)
        else:
            found = integrated.sample(own, dense, task.inputs[:, :1], g, ridge, widths, **options)
            kernels = [each.kernels for each in found]
            preactivations = [each.preactivations[..., 0, :] for each in found]
            convergence += [each.convergence for each in found]
        measured = [statistics.mean_and_error(entries(each, task.labels)) for each in kernels]
        shapes = map(shape, preactivations)
        rows.append([infinite_width(widths, *zip(*each, strict=True)) for each in (measured, shapes)])
    (mean, error), (form, form_error) = np.array(rows).transpose(1, 2, 0, 3)
    return Ends(
        np.asarray(richness),
        expected_entries(task, network, richness, ridge),
        np.asarray(sampled_richness),
        widths,
        mean,
        error,
        (form, form_error),
        convergence,
        preactivations[-1],
    )


def infinite_width(widths: Any, means: Any, errors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values at N → ∞ from those of n widths (n, ...), by lines in 1/N, with standard errors.

    Values of a single width are returned as they are.
    """
    means, errors = np.asarray(means), np.asarray(errors)
    if len(widths) == 1:
        return means[0], errors[0]
    columns = zip(means.reshape(len(widths), -1).T, errors.reshape(len(widths), -1).T, strict=True)
    fits = [np.polyfit(1 / np.asarray(widths), m, 1, w=1 / e, cov="unscaled") for m, e in columns]
    values, variances = np.array([(line[1], covariance[1, 1]) for line, covariance in fits]).T
    return values.reshape(means.shape[1:]), np.sqrt(variances).reshape(means.shape[1:])


def expected_entries(task: Task, network: Network, richness: Any, ridge: float) -> np.ndarray:
    """Theory's kernel entries over γ0, shape (S, 2)."""
    kernels = [solved(adaptive_kernel.solve, task, network, float(g), ridge).kernels[1] for g in richness]
    return np.array([entries(kernel, task.labels) for kernel in kernels])


@dataclass(frozen=True)
class Widths:
    """Networks of one richness over widths, beside the limit of infinite width.

    Attributes:
        theory: the limit.
        lazy: the Gaussian process with the same ridge.
        widths: N, shape (n,).
        outputs: mean predictor on test inputs at 1/N → 0, shape (P*, m), with its standard error.
        kernel: kernel at 1/N → 0, shape (P, P), with its standard error.
        variance: predictor's variance, mean over test inputs, shape (n,).
        variance_error: its standard error, from the chains, shape (n,).
        predicted_variance: theory's, shape (n,), the mean over several draws of its populations; NaN where no
            solver is known and networks stand for it.
        predicted_error: its standard error, from the scatter over the draws.
        convergence: of every width.
    """

    theory: Solution
    lazy: gaussian_process.Solution
    widths: np.ndarray
    outputs: tuple[np.ndarray, np.ndarray]
    kernel: tuple[np.ndarray, np.ndarray]
    variance: np.ndarray
    variance_error: np.ndarray
    predicted_variance: np.ndarray
    predicted_error: np.ndarray
    convergence: list[Convergence]

    def slope(self) -> tuple[float, float]:
        """N Var f for N → ∞ with its standard error, from a line in 1/N."""
        value, error = infinite_width(
            self.widths, self.widths * self.variance, self.widths * self.variance_error
        )
        return float(value), float(error)

    def distances(self, solution: Solution | gaussian_process.Solution) -> np.ndarray:
        """Rms distance of outputs and of kernels from a solution's, over the rms of their standard errors."""
        expected = solution.predict(self.theory.task.test_inputs), solution.kernels[-1]  # type: ignore[arg-type]
        pairs = zip((self.outputs, self.kernel), expected, strict=True)
        return np.array([rms(mean - value) / rms(error) for (mean, error), value in pairs])


def over_widths(
    key: Any,
    task: Task,
    nonlinearity: str,
    richness: float,
    ridge: float,
    widths: Any,
    solver: Any,
    **options: Any,
) -> Widths:
    """Predictors, kernels and variances of networks, readouts integrated out, over widths, beside theory."""
    saddle = task, Network(1, 1, nonlinearity), richness, ridge
    theory = solved(adaptive_kernel.solve, *saddle, **solver)
    lazy = gaussian_process.solve(task, nonlinearity, 1, temperature=ridge)
    inputs: Any = task.test_inputs
    runs = integrated.sample(key, theory.features, inputs, richness, ridge, widths, **options)
    outputs, kernel = (
        infinite_width(widths, *zip(*map(statistics.mean_and_error, series), strict=True))
        for series in ([run.means for run in runs], [run.kernels for run in runs])
    )
    variance, error = np.array([run.variance() for run in runs]).T
    expected = np.full(2, np.nan)
    if theory.method != "sampling":
        others = (solved(adaptive_kernel.solve, *saddle, seed=seed, **solver) for seed in range(1, THEORIES))
        draws = [each.predictor_variance(inputs, 1).mean() for each in (theory, *others)]
        expected = np.array([np.mean(draws), sem(draws)])
    predicted = np.divide.outer(expected, widths)
    judged = [run.convergence for run in runs]
    return Widths(
        theory, lazy, np.asarray(widths), outputs, kernel, variance, error, predicted[0], predicted[1], judged
    )


def shape(preactivations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """⟨h²⟩ and ⟨|h|⟩/⟨h²⟩^½ of preactivations (chains, samples, N, P), with standard errors.

    The second is √(2/π) for a Gaussian. A fourth moment would hang on neurons that networks of this width do
    not have.
    """
    h = preactivations.astype(float)
    second, first = np.square(h).mean((2, 3)), np.abs(h).mean((2, 3))
    return statistics.mean_and_error(np.stack([second, first / np.sqrt(second)], axis=-1))


def predicted_shape(solution: Solution) -> np.ndarray:
    """The same from theory's neurons."""
    h, weights = solution.preactivations()
    share = weights / weights.sum() / h[0].size
    first, second = np.einsum("n,nap->", share, np.abs(h)), np.einsum("n,nap->", share, h**2)
    return np.array([second, first / np.sqrt(second)])


def density(preactivations: np.ndarray, solution: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Grid, 20,000 of the preactivations (chains, samples, N, P) on inputs of class 0, theory's density."""
    inside = solution.task.labels == 0
    values = preactivations[..., inside].ravel()
    h, weights = solution.preactivations()
    low, high = np.quantile(values, [1e-4, 1 - 1e-4])
    edges = np.linspace(low, high, 61)
    pairs = np.broadcast_to(weights[:, None, None], h[..., inside].shape)
    heights, _ = np.histogram(h[..., inside].ravel(), edges, weights=pairs.ravel(), density=True)
    picked = np.random.default_rng(0).choice(values, 20_000)
    return (edges[1:] + edges[:-1]) / 2, picked, heights


def expansion_errors(task: Task, network: Network, ridge: float, richness: Any) -> np.ndarray:
    """Distance of the exact feature kernel from its expansion in γ0², to orders zero and one: (S, 2)."""
    series = adaptive_kernel.expansion(task, network, ridge)
    rows = []
    for g in richness:
        exact = solved(adaptive_kernel.solve, task, network, float(g), ridge, method="quadrature").kernels[-1]
        orders = (series.kernels[-1], series.kernels[-1] + g**2 * series.kernel_changes[-1])
        rows.append([np.linalg.norm(exact - each) for each in orders])
    return np.array(rows)


@dataclass(frozen=True)
class Flows:
    """Loss over time of the population at N → ∞ and of networks of several widths.

    Attributes:
        limit: the population.
        lazy: a population with hardly any richness.
        networks: paths by width, a list for each.
        widths: N, shape (n,).
    """

    limit: dmft.Path
    lazy: dmft.Path
    networks: list[list[dmft.Path]]
    widths: np.ndarray

    def distances(self, path: dmft.Path) -> np.ndarray:
        """Rms over time and test inputs of the networks' outputs around a path's, shape (n,)."""
        limit: Any = path.test_outputs
        return np.array([rms([n.test_outputs - limit for n in each]) for each in self.networks])


def flows(
    task: Task,
    nonlinearity: str,
    richness: float,
    weight_decay: float,
    widths: Any,
    repeats: int,
    **options: Any,
) -> Flows:
    """Gradient flow of networks over widths, and their limit."""
    common = {"average_steps": 0} | options

    def path(richness: float, **own: Any) -> dmft.Path:
        return dmft.population(task, nonlinearity, richness, weight_decay, **common, **own)

    limit = path(richness)
    common |= {"step": limit.step}
    networks = [
        [path(richness, num_neurons=width, network=True, seed=seed) for seed in range(repeats)]
        for width in widths
    ]
    return Flows(limit, path(0.05), networks, np.asarray(widths))


def kernel_regression_error(
    task: Task, nonlinearity: str, weight_decay: float, duration: float, width: int
) -> np.floating:
    """Rms distance on test inputs of a trained network from regression with its own final tangent kernel."""
    path = dmft.population(
        task,
        nonlinearity,
        1.0,
        weight_decay,
        duration=duration,
        num_neurons=width,
        network=True,
        num_records=24,
    )
    # without weight decay the ridge of the regression vanishes; the kernel is that of the path all the same
    kernel = solved(dmft.antk, path) if weight_decay else dmft.antk(replace(path, weight_decay=1e-6))
    outputs: Any = path.test_outputs
    return rms(kernel.predict() - outputs[-1])


def left_over(decays: Any, num_neurons: int) -> np.ndarray:
    """⟨h²⟩ of ReLU neurons at the end of training on one input with the target 1, γ0 = 1, over λ."""
    options: dict[str, Any] = {"num_neurons": num_neurons, "average_steps": 0}
    paths = [
        dmft.population(ONE_INPUT, "relu", 1.0, decay, duration=25 / abs(1 - decay), **options)
        for decay in decays
    ]
    return np.array([np.mean(path.preactivations**2) for path in paths])


def final_kurtosis(start: str, num_neurons: int) -> tuple[np.floating, np.floating]:
    """Excess kurtosis of h after training a linear network on one input, and of h + w at its start."""
    options: dict[str, Any] = {"num_neurons": num_neurons, "average_steps": 0, "dtype": np.float64}
    path = dmft.population(ONE_INPUT, "linear", 1.0, 0.3, duration=60, start=start, **options)
    start_sum = path.initial[0].ravel() + path.initial[1].ravel() * path.features.root.ravel()
    return kurtosis(path.preactivations.ravel()), kurtosis(start_sum)


def rms(values: Any) -> np.floating:
    """Root of the mean square."""
    return np.sqrt(np.mean(np.square(values)))
