"""Lazy and non-lazy networks side by side: over widths, over nonlinearities, over class sizes."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.posterior import Posterior
from coding_schemes.statistics import PowerLaw
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear
from scipy.stats import ortho_group

from experiments.runs import Run, draw

SCHEMES = ("linear", "sigmoidal", "relu")
SCALINGS = ("lazy", "non-lazy")


def binary_task(size: int, seed: int) -> Task:
    """Two classes with random labels and targets ±1: P = size orthogonal inputs of dimension size + 10."""
    ratios, targets = (0.5, 0.5), [[1.0], [-1.0]]
    return tasks.toy(size, ratios, targets=targets, random_labels=True, input_dim=size + 10, seed=seed)


def three_classes(size: int, class_ratios: tuple[float, ...], seed: int) -> Task:
    """Three classes with targets 1 and −1/2."""
    return tasks.toy(size, class_ratios, y_minus=-0.5, seed=seed)


def learned_entry(kernels: np.ndarray, task: Task, nonlinearity: Any) -> np.ndarray:
    """Trace of the task in what learning changed in the kernel, off the diagonal.

        c = Σ_{μ≠ν} y_μ y_ν (K − K_prior)_μν / P(P − 1)

    Args:
        kernels: K, shape (…, P, P).
        task: with one output, targets ±1.
        nonlinearity: φ of the prior kernel.

    Returns:
        c, shape (…): how much more alike inputs of one class are than inputs of two, against the prior.
    """
    y, num_inputs = task.targets[:, 0], task.num_inputs
    change = kernels - gaussian_process.prior_kernels(task.inputs, None, nonlinearity)[1]
    along = np.einsum("m,...mn,n->...", y, change, y) - np.trace(change, axis1=-2, axis2=-1)
    return along / (num_inputs * (num_inputs - 1))


@dataclass(frozen=True)
class Widths:
    """Cosine and learned entry of one kind of network over widths.

    Attributes:
        sizes: N = P, shape (W,).
        cosine: ⟨y_μ cos θ_μ⟩ between features and readout, its mean over inputs and samples, shape (W,).
        cosine_error: its standard error.
        entry: learned entry c of the kernel, shape (W,).
        entry_error: its standard error.
        largest: the run at the largest width.
        converged: whether the runs at all widths passed the sampler's diagnostics.
    """

    sizes: np.ndarray
    cosine: np.ndarray
    cosine_error: np.ndarray
    entry: np.ndarray
    entry_error: np.ndarray
    largest: Run
    converged: bool

    def exponent(self, name: str) -> PowerLaw:
        """Power law in N of "cosine" or "entry"; its error from the scatter and from the samples together."""
        values, errors = getattr(self, name), getattr(self, f"{name}_error")
        fit = statistics.fit_power_law(self.sizes, values)
        x = np.log(self.sizes) - np.log(self.sizes).mean()
        propagated = np.linalg.norm(x * errors / values) / np.square(x).sum()
        return fit._replace(standard_error=float(np.hypot(fit.standard_error, propagated)))


def over_widths(key: Any, largest: Run, smaller: Any, seed: int, **options: Any) -> Widths:
    """One kind of network at several widths, N = P, each on its own random labels.

    Args:
        key: random key; width k uses fold_in(key, k).
        largest: a run at the largest width; the others have its network's kind and its temperature.
        smaller: the other widths, ascending.
        seed: of the labels.
        **options: passed to `sample`.

    Returns:
        Widths.
    """
    runs, like, temperature = [], largest.posterior.network, largest.samples.temperature
    for k, size in enumerate(smaller):
        network = replace(like, width=int(size))
        task = binary_task(int(size), seed)
        runs.append(draw(jax.random.fold_in(key, k), task, network, temperature, **options))
    rows, runs = [], [*runs, largest]
    for run in runs:
        activations, size = run.samples.activations(), run.posterior.network.width
        cosine = coding.readout_cosine(activations, run.readouts)[..., 0] @ run.task.targets[:, 0]
        entry = learned_entry(coding.kernels(activations), run.task, like.nonlinearity)
        rows.append([*statistics.mean_and_error(cosine / size), *statistics.mean_and_error(entry)])
    cosine, cosine_error, entry, entry_error = np.transpose(rows)
    converged = all(run.convergence.converged for run in runs)
    sizes = np.array([*smaller, like.width])
    return Widths(sizes, cosine, cosine_error, entry, entry_error, largest, converged)


def predicted_entry(size: int, scaling: str, temperature: float, seed: int) -> float:
    """C of a linear network of N = P = size from the saddle point with its finite-width term.

    A lazy network at T is the non-lazy one with σ_a² = N at the temperature N T, so one formula has both.
    """
    task, lazy = binary_task(int(size), seed), scaling == "lazy"
    temperature, variance = (size * temperature, size) if lazy else (temperature, None)
    solution = linear.solve(task, 1, temperature, variance, width=int(size))
    return float(learned_entry(solution.kernels[1], task, "linear"))


def smallest_alignment(runs: dict[str, Run]) -> np.ndarray:
    """Least cosine between what two nonlinearities learned: kernels less their priors, centered.

    Args:
        runs: by nonlinearity, of one task.

    Returns:
        The least alignment over the pairs of nonlinearities, of every sample: shape (chains, samples).
    """
    learned = [
        coding.kernels(run.samples.activations())
        - gaussian_process.prior_kernels(run.task.inputs, None, name)[1]
        for name, run in runs.items()
    ]
    pairs = [(i, j) for i in range(len(learned)) for j in range(i)]
    aligned = [coding.kernel_alignment(learned[i], learned[j], centered=True) for i, j in pairs]
    return np.min(aligned, axis=0)


def untrained(key: Any, posterior: Posterior, count: int) -> np.ndarray:
    """Activations of networks drawn from the prior, shape (count, N, P)."""
    weights = jax.lax.map(posterior.prior, jax.random.split(key, count))
    layers = jax.vmap(posterior.preactivations)(weights)
    return np.asarray(posterior.network.phi(layers[-1]), dtype=float)


def even(vectors: np.ndarray) -> np.ndarray:
    """The same with a silent neuron more where their number is odd: shape (N or N + 1, ...)."""
    return np.concatenate([vectors, np.zeros_like(vectors[: len(vectors) % 2])])


def quarter_turn(vectors: np.ndarray, seed: int) -> np.ndarray:
    """J v of vectors in neuron space, J a random orthogonal matrix with J² = −1 and so antisymmetric.

    Every cos θ + J sin θ is then a rotation: a path from the identity, at θ = 0, to J.

    Args:
        vectors: v, shape (N, ...), N even.
        seed: of J.

    Returns:
        Vectors of the same shape.

    Raises:
        ValueError: N is odd.
    """
    if len(vectors) % 2:
        raise ValueError(f"vectors: got {len(vectors)} neurons; allowed are even numbers")
    axes = ortho_group.rvs(len(vectors), random_state=seed)
    first, second = np.split(axes @ vectors, 2)
    return axes.T @ np.concatenate([-second, first])


def telling_neurons(activations: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """A quarter of `count` neurons that tell two classes apart best, the rest drawn from all others.

    Args:
        activations: φ, shape (N, P), N ≥ count.
        labels: classes of the inputs, 0 and 1.
        count: how many.

    Returns:
        Their indices, ordered by the difference between the classes: shape (count,).
    """
    means = coding.class_means(activations, labels)
    difference = means[:, 0] - means[:, 1]
    best = np.argsort(-np.abs(difference))
    others = np.random.default_rng(0).choice(best[count // 4 :], count - count // 4, replace=False)
    chosen = np.concatenate([best[: count // 4], others])
    return chosen[np.argsort(-difference[chosen])]
