"""Lazy and non-lazy networks side by side: over widths, over nonlinearities, over class sizes."""

from typing import Any

import jax
import numpy as np
from coding_schemes import coding, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC
from coding_schemes.statistics import PowerLaw
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear
from companion import workbench as runs
from companion.workbench import Run, Scan, Starts, measured, over_sizes
from scipy.stats import ortho_group

SCHEMES = ("linear", "sigmoidal", "relu")
SCALINGS = ("lazy", "non-lazy")


def binary_task(size: int, seed: int) -> Task:
    """Two classes with random labels and targets ±1: P = size orthogonal inputs of dimension size + 10."""
    ratios, targets = (0.5, 0.5), [[1.0], [-1.0]]
    return tasks.toy(size, ratios, targets=targets, random_labels=True, input_dim=size + 10, seed=seed)


def methods(scheme: str, size: int, length: float) -> dict[str, HMC]:
    """How to sample in either scaling: readouts of non-lazy ReLU networks in the units they grow to."""
    grown = {"non-lazy": size**0.5 / 2} if scheme == "relu" else {}
    return {scaling: HMC(length, stretch=grown.get(scaling)) for scaling in SCALINGS}


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


class Widths(Scan):
    """Mean cosine ⟨y_μ cos θ_μ⟩ of features and readout, and the kernel's learned entry c, over widths."""

    def exponent(self, k: int) -> PowerLaw:
        """Power law in N of column k; its error from the scatter and from the samples together."""
        fit, x = self.laws[k], np.log(self.sizes) - np.log(self.sizes).mean()
        propagated = np.linalg.norm(x * self.error[:, k] / self.mean[:, k]) / np.square(x).sum()
        return fit._replace(standard_error=float(np.hypot(fit.standard_error, propagated)))


def over_widths(key: Any, largest: Run, smaller: Any, seed: int, **options: Any) -> Widths:
    """The kind of network of a run also at smaller widths N = P, each on random labels of its own."""
    network, temperature = largest.posterior.network, largest.samples.temperature
    others = over_sizes(key, smaller, lambda size: binary_task(size, seed), network, temperature, **options)
    return Widths(*measured([*others, largest], _cosine, _entry))


def _cosine(run: Run) -> np.ndarray:
    cosine = coding.readout_cosine(run.samples.activations(), run.readouts)[..., 0]
    return cosine @ run.task.targets[:, 0] / run.task.num_inputs


def _entry(run: Run) -> np.ndarray:
    kernels = coding.kernels(run.samples.activations())
    return learned_entry(kernels, run.task, run.posterior.network.nonlinearity)


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

    One number for every fourth sample of runs by nonlinearity, of one task: shape (chains, samples / 4).
    """
    learned = [
        coding.kernels(run.samples.activations()[:, ::4])
        - gaussian_process.prior_kernels(run.task.inputs, None, name)[1]
        for name, run in runs.items()
    ]
    pairs = [(i, j) for i in range(len(learned)) for j in range(i)]
    aligned = [coding.kernel_alignment(learned[i], learned[j], centered=True) for i, j in pairs]
    return np.min(aligned, axis=0)


def both_starts(key: Any, task: Task, scheme: str, width: int, temperature: float, **options: Any) -> Starts:
    """Networks of one hidden layer from the prior, and as many from theory: `runs.both_starts`."""
    from_prior, plants, from_theory = (jax.random.fold_in(key, k) for k in range(3))
    network, plants = Network(1, width, scheme), jax.random.split(plants, options["num_chains"])
    solution, posterior = theory.solve(task, network, temperature), Posterior(task, network, temperature)
    return runs.both_starts((from_prior, from_theory, plants), posterior, solution, **options)


def untrained(key: Any, posterior: Posterior, count: int) -> np.ndarray:
    """Activations of networks of one hidden layer drawn from the prior, shape (count, N, P)."""
    (layer,) = runs.untrained(jax.random.split(key, count), posterior)
    return layer.astype(float)


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

    Their indices, ordered by the difference between the classes, from activations of shape (N, P).
    """
    means = coding.class_means(activations, labels)
    difference = means[:, 0] - means[:, 1]
    best = np.argsort(-np.abs(difference))
    others = np.random.default_rng(0).choice(best[count // 4 :], count - count // 4, replace=False)
    chosen = np.concatenate([best[: count // 4], others])
    return chosen[np.argsort(-difference[chosen])]
