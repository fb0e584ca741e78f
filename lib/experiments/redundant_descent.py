"""Redundant schemes without noise: gradient descent, and what noise needs."""

from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import coding, diagnose, tasks, training
from coding_schemes.diagnosis import TWO_LEVELS
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.tasks import Task
from companion import figures
from companion.checks import above, check
from companion.workbench import Run, draw

from experiments.redundant import OPTIONS, Networks, mean_and_spread

RATE = 6.5  # of the descent; stable below about 8


class Descended(NamedTuple):
    """Networks at the end of noise-free descent.

    Attributes:
        task: what they learned.
        activations: shape (networks, N, P).
        readouts: shape (networks, N, m).
    """

    task: Task
    activations: np.ndarray
    readouts: np.ndarray


def descend(key: Any, size: int, count: int, decay_times: float, strength: float) -> Descended:
    """Noise-free gradient descent with weight decay that knows nothing of P, N = P = size, y₋ = ½.

    From draws of the prior at σ_a = 1 on ½‖Y − f‖² + λ/2N Σ(weights)², λ = strength, for so many times
    N/(rate · λ) over which weight decay alone shrinks a weight.
    """
    task = tasks.toy(size, y_minus=0.5)
    posterior = Posterior(task, Network(1, size, "sigmoidal"), strength, readout_variance=1.0)
    starts = jax.vmap(posterior.prior)(jax.random.split(key, count))
    steps = round(decay_times * size / (RATE * strength))
    weights, _ = training.descend(posterior, starts, num_steps=steps, learning_rate=RATE)
    return Descended(task, np.asarray(posterior.network.phi(weights.first)), np.asarray(weights.readout))


def one_network(networks: Descended) -> dict[str, Any]:
    """For `figures.activation_matrix`: one network, neurons sorted by code."""
    phi, labels = networks.activations[0], networks.task.labels
    return {"activations": phi[coding.sort_by_code(coding.codes(phi, labels), phi)], "labels": labels}


def weak_prior(key: Any, strong: Networks) -> Run:
    """As many networks as either end of `strong` has, at σ_a = 1 and the same temperature."""
    counts = {"num_chains": len(strong.readouts) // 2, "num_samples": 16, "num_warmup": 64}
    network, temperature = strong.posterior.network, strong.theory.temperature
    return draw(key, strong.task, network, temperature, 1.0, **counts, **OPTIONS)


def two_levels(activations: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What codes explain of the differences between classes, per network, and the most after rotations.

    Rotations of neuron space leave the kernel and make the code analog; `diagnose` cuts both alike.
    """
    found = [diagnose(phi, labels, num_rotations=199).evidence for phi in activations]
    return np.array([e.two_levels for e in found]), np.array([e.rotated_two_levels.max() for e in found])


def between_codes(readouts: np.ndarray, codes: np.ndarray) -> float:
    """Share of the readouts' variance that lies between codes, readouts (N, m) and codes (N, C)."""
    _, which = np.unique(codes, axis=0, return_inverse=True)
    members = np.eye(which.max() + 1)[which.ravel()]
    rest = readouts - (members @ (members.T @ readouts / members.sum(0)[:, None]))
    return float(1 - np.square(rest).sum() / np.square(readouts - readouts.mean(0)).sum())


def check_descent(networks: Descended) -> None:
    """A14: networks that descent leaves; rotated activations and Gaussian readouts cut by sign must fail."""
    task, activations, readouts = networks
    levels, rotated = two_levels(activations, task.labels)
    place = f"noise-free descent, N = P = {task.num_inputs}, {len(levels)} seeds"
    check(
        "A14",
        f"share of the differences between classes that codes explain; {place}",
        levels,
        above(TWO_LEVELS),
        control=("rotated neurons, an analog code with the same kernel, at most", rotated),
        because="descent has not come to rest",
    )
    rng, codes = np.random.default_rng(0), coding.codes(activations, task.labels)
    gaussian = [rng.multivariate_normal(np.zeros(3), np.cov(a.T), len(a)) for a in readouts]
    check(
        "A14",
        f"share of the readouts' variance between codes; {place}",
        np.array([between_codes(a, code) for a, code in zip(readouts, codes, strict=True)]),
        above(TWO_LEVELS),
        control=(
            "Gaussian readouts of the same covariance, cut by sign",
            np.array([between_codes(a, a > 0) for a in gaussian]),
        ),
        because="descent has not come to rest",
    )


def noise_bars(least_norm: Descended, strong: Networks, weak: Run) -> dict[str, Any]:
    """For `figures.bars`: what codes explain without noise, and with noise under two priors."""
    labels = weak.task.labels
    found = [two_levels(least_norm.activations, least_norm.task.labels)]
    found.append(two_levels(strong.activations, labels))
    found.append(two_levels(weak.samples.activations()[:, -1], labels))
    return {
        "values": [levels.mean() for levels, _ in found],
        "errors": [mean_and_spread(levels)[1] for levels, _ in found],
        "groups": ["no noise", "noise, σₐ² = 1/P", "noise, σₐ = 1"],
        "points": [[rotated.mean() for _, rotated in found]],
        "point_names": ["rotated neurons"],
        "colors": [figures.COLORS["sigmoidal"]],
        "ylabel": "share that codes explain",
    }


def check_noise(strong: Networks, weak: Run) -> None:
    """A14: with noise the code needs σ_a² = 1/P; the same noise at σ_a = 1 must fail."""
    check(
        "A14",
        f"share that codes explain with noise, σ_a² = 1/P, N = P = {strong.width}",
        two_levels(strong.activations, weak.task.labels)[0],
        above(TWO_LEVELS),
        control=(
            "the same noise at σ_a = 1",
            two_levels(weak.samples.activations()[:, -1], weak.task.labels)[0],
        ),
        sampler=strong.meeting,
        note=f"sampler at σ_a = 1: {weak.convergence.verdict}",
        because="few neurons per code at this N",
    )
