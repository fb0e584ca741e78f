"""Linear networks: slopes and residuals of activations on readouts, norms and kernels over sizes."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.tasks import Task
from coding_schemes.theory import linear, wishart_chain
from companion.workbench import Run, Scan, measured, over_sizes

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


def regress(run: Run) -> Regression:
    """Slopes of z on a and the covariance of what they leave, over the neurons of each sample."""
    readouts = run.readouts
    z = run.preactivations[0].astype(float)
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


def grow(
    key: Any, depth: int, sizes: Any, temperature: float, seed: int, y_minus: float = 0.0, **options: Any
) -> list[Run]:
    """Networks of a depth over sizes N = P, deeper ones at a higher temperature; options are `draw`'s."""
    task, network = partial(tasks.toy, y_minus=y_minus, seed=seed), Network(depth, 1, "linear")
    return over_sizes(key, sizes, task, network, DEEPER_IS_WARMER[depth] * temperature, **options)


def readout_norms(runs: list[Run]) -> Scan:
    """Squared readout norm per neuron, ⟨|a_i|²⟩, over sizes."""
    return measured(runs, lambda run: np.square(run.readouts).sum(-1).mean(-1))


def strengths(run: Run) -> np.ndarray:
    """eᵀ K_ℓ e, e the normalized indicator of class 0, of every sample: (chains, samples, L)."""
    e = _indicator(run.task)
    return np.stack([np.square(z @ e).mean(-1) for z in run.preactivations], axis=-1)


@dataclass(frozen=True)
class Strengths:
    """Strength of class 0 in every layer's kernel over sizes, sampled and predicted.

    Attributes:
        scan: of the samples, a column for each layer.
        exact: at the same N, P and T, by the chain of Wishart matrices, shape (sizes, L).
        saddle: the limit of large N, with its first correction, shape (sizes, L).
    """

    scan: Scan
    exact: np.ndarray
    saddle: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """Inputs of class 0, shape (sizes, 1)."""
        return np.array([[run.task.class_counts[0]] for run in self.scan.runs])

    def exponents(self, strengths: np.ndarray) -> np.ndarray:
        """Exponents in P of one entry of the learned part, (strength − 1)/n_c, layer by layer."""
        entries = (strengths - 1) / self.counts
        return np.array([statistics.fit_power_law(self.scan.sizes, column).exponent for column in entries.T])


def _indicator(task: Task) -> np.ndarray:
    return (task.labels == 0) / np.sqrt(task.class_counts[0])


def learned_strengths(runs: list[Run]) -> Strengths:
    """How strongly each layer's kernel learned, over sizes, beside theory at the same N, P and T."""

    def predicted(run: Run) -> list[list[float]]:
        e, depth, size = _indicator(run.task), run.posterior.network.depth, run.task.num_inputs
        exact = wishart_chain.solve(run.task, depth, run.samples.temperature, size)
        saddle = linear.solve(run.task, depth, run.samples.temperature, width=size)
        return [[e @ kernel @ e for kernel in theory.kernels[1:]] for theory in (exact, saddle)]

    theories = np.swapaxes([predicted(run) for run in runs], 0, 1)
    return Strengths(measured(runs, strengths), *theories)


def saddle_exponents(scan: Scan, temperature: float, readout_variance: float) -> np.ndarray:
    """Exponents as `Strengths.exponents` has them, of the saddle point at another readout variance."""
    entries = []
    for run in scan.runs:
        task, network = run.task, run.posterior.network
        solution = linear.solve(task, network.depth, temperature, readout_variance, width=network.width)
        first, second = np.flatnonzero(task.labels == 0)[:2]
        entries.append(solution.kernels[1:, first, second])
    return np.array([statistics.fit_power_law(scan.sizes, one).exponent for one in np.transpose(entries)])
