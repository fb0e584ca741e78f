"""Linear networks: slopes and residuals of activations on readouts, norms and kernels over sizes."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.statistics import PowerLaw
from coding_schemes.tasks import Task
from coding_schemes.theory import linear, wishart_chain

from experiments.runs import Run, draw

DEEPER_IS_WARMER = {1: 1.0, 2: 10.0, 3: 20.0}  # the gain σ_a² Hᴸ from field to output grows with depth


def readout_gram(run: Run) -> np.ndarray:
    """aᵀa/N of every sample, its upper triangle: shape (chains, samples, m(m + 1)/2)."""
    readouts = run.readouts
    gram = np.swapaxes(readouts, -1, -2) @ readouts / readouts.shape[-2]
    return gram[..., *np.triu_indices(gram.shape[-1])]


@dataclass(frozen=True)
class Regression:
    """Activations regressed on readouts, sample by sample.

    Attributes:
        slopes: averaged over the inputs of a class, shape (chains, samples, C, m).
        residual_covariance: of the residuals along the classes, e_cᵀ Cov e_c' with e_c the normalized
            indicator of class c, upper triangle, and last its trace over all other directions, per direction:
            shape (chains, samples, C(C + 1)/2 + 1).
        raw_covariance: the same of the activations themselves.
    """

    slopes: np.ndarray
    residual_covariance: np.ndarray
    raw_covariance: np.ndarray


def regress(run: Run, layer: int = 0) -> Regression:
    """Slopes of z on a and the covariance of what they leave, over the neurons of each sample.

    Args:
        run: a linear network with readouts and preactivations stored.
        layer: index of the layer.

    Returns:
        A Regression.
    """
    readouts = run.readouts
    z = run.preactivations[layer].astype(float)
    task = run.task
    gram = np.swapaxes(readouts, -1, -2) @ readouts
    slopes = np.linalg.solve(gram, np.swapaxes(readouts, -1, -2) @ z)
    free = z.shape[-2] - readouts.shape[-1]  # degrees of freedom that the regression leaves
    residuals = _along_classes(z - readouts @ slopes, task, free)
    by_class = np.swapaxes(coding.class_means(slopes, task.labels), -1, -2)
    return Regression(by_class, residuals, _along_classes(z, task, z.shape[-2]))


def _along_classes(z: np.ndarray, task: Task, free: int) -> np.ndarray:
    indicators = (task.labels[:, None] == np.arange(task.num_classes)) / np.sqrt(task.class_counts)
    along = z @ indicators
    covariance = np.swapaxes(along, -1, -2) @ along / free
    total = np.square(z).sum((-2, -1)) / free
    others = (total - np.trace(covariance, axis1=-2, axis2=-1)) / (z.shape[-1] - task.num_classes)
    upper = covariance[..., *np.triu_indices(task.num_classes)]
    return np.concatenate([upper, others[..., None]], axis=-1)


@dataclass(frozen=True)
class Norms:
    """Squared readout norm per neuron over sizes.

    Attributes:
        sizes: P = N, shape (S,).
        mean: ⟨|a_i|²⟩, shape (S,).
        error: its standard error.
        runs: the runs.
    """

    sizes: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    runs: list[Run]

    @property
    def power_law(self) -> PowerLaw:
        """Exponent in P."""
        return statistics.fit_power_law(self.sizes, self.mean)


def readout_norms(
    key: Any, depth: int, sizes: Any, scaled: bool, temperature: float, seed: int, **options: Any
) -> Norms:
    """Readout norm of linear networks with N = P over sizes.

    Args:
        key: random key; size k uses fold_in(key, k).
        depth: L.
        sizes: N = P.
        scaled: whether σ_a² = 1/P^{1/L}, otherwise 1.
        temperature: T.
        seed: of the inputs.
        **options: passed to `sample`.

    Returns:
        Norms.
    """
    runs, rows = [], []
    for k, size in enumerate(map(int, sizes)):
        network, variance = Network(depth, size, "linear"), None if scaled else 1.0
        task = tasks.toy(size, seed=seed)
        run = draw(jax.random.fold_in(key, k), task, network, temperature, variance, **options)
        runs.append(run)
        rows.append(statistics.mean_and_error(np.square(run.readouts).sum(-1).mean(-1)))
    mean, error = np.transpose(rows)
    return Norms(np.asarray(sizes), mean, error, runs)


def strengths(run: Run, label: int = 0) -> np.ndarray:
    """e_cᵀ K_ℓ e_c, e_c the normalized indicator of a class, of every sample: (chains, samples, L)."""
    task = run.task
    indicator = (task.labels == label) / np.sqrt(task.class_counts[label])
    return np.stack([np.square(z @ indicator).mean(-1) for z in run.preactivations], axis=-1)


@dataclass(frozen=True)
class Strengths:
    """Strength of class 0 in every layer's kernel over sizes, sampled and predicted.

    Attributes:
        sizes: N = P, shape (S,).
        mean: sampled, shape (S, L).
        error: standard errors, shape (S, L).
        exact: at the same N, P and T, by the chain of Wishart matrices, shape (S, L).
        saddle: the limit of large N, with its first correction, shape (S, L).
        counts: inputs of class 0, shape (S,).
        runs: the runs.
    """

    sizes: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    exact: np.ndarray
    saddle: np.ndarray
    counts: np.ndarray
    runs: list[Run]

    def exponents(self, name: str) -> np.ndarray:
        """Exponents in P of one entry of the learned part, (strength − 1)/n_c, layer by layer."""
        entries = (getattr(self, name) - 1) / self.counts[:, None]
        return np.array([statistics.fit_power_law(self.sizes, column).exponent for column in entries.T])


def learned_strengths(
    key: Any, depth: int, sizes: Any, y_minus: float, temperature: float, seed: int, **options: Any
) -> Strengths:
    """How strongly each layer's kernel learned, over sizes N = P, beside theory at the same N, P and T."""
    runs, rows = [], []
    for k, size in enumerate(map(int, sizes)):
        task = tasks.toy(size, y_minus=y_minus, seed=seed)
        network = Network(depth, size, "linear")
        run = draw(jax.random.fold_in(key, k), task, network, temperature, **options)
        indicator = (task.labels == 0) / np.sqrt(task.class_counts[0])
        theories = (
            wishart_chain.solve(task, depth, temperature, size),
            linear.solve(task, depth, temperature, width=size),
        )
        predicted = [[indicator @ kernel @ indicator for kernel in t.kernels[1:]] for t in theories]
        rows.append([*statistics.mean_and_error(strengths(run)), *predicted, [task.class_counts[0]] * depth])
        runs.append(run)
    mean, error, exact, saddle, counts = np.moveaxis(np.array(rows, dtype=float), 1, 0)
    return Strengths(np.asarray(sizes, int), mean, error, exact, saddle, counts[:, 0], runs)


def saddle_exponents(runs: list[Run], temperature: float, readout_variance: float) -> np.ndarray:
    """Exponents as `Strengths.exponents` has them, of the saddle point at another readout variance."""
    entries = []
    for run in runs:
        task, network = run.task, run.posterior.network
        solution = linear.solve(task, network.depth, temperature, readout_variance, width=network.width)
        first, second = np.flatnonzero(task.labels == 0)[:2]
        entries.append(solution.kernels[1:, first, second])
    sizes = [run.task.num_inputs for run in runs]
    return np.array([statistics.fit_power_law(sizes, column).exponent for column in np.transpose(entries)])
