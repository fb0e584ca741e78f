"""What the chapter on lazy and rich networks runs and measures: two scalings, three nonlinearities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import coding, statistics, tasks, theory, training
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, relu, wishart_chain
from companion import workbench
from companion.findings import Estimate, extrapolated, spread
from companion.workbench import Run, Scan, Starts, draw, estimate, measured
from scipy.stats import ortho_group

SCHEMES = ("linear", "sigmoidal", "relu")
SCALINGS = ("lazy", "non-lazy")
EQUAL, PAPER = (1 / 3, 1 / 3, 1 / 3), (0.5, 0.25, 0.25)  # class ratios


# ---- two scalings over widths ----------------------------------------------------------------------


def binary_task(size: int, seed: int) -> Task:
    """Two classes with random labels and targets ±1: P = size orthogonal inputs of dimension size + 10."""
    ratios, targets = (0.5, 0.5), [[1.0], [-1.0]]
    return tasks.toy(size, ratios, targets=targets, random_labels=True, input_dim=size + 10, seed=seed)


def sampled(key: Any, size: int, scheme: str, scaling: str, temperature: float, seed: int, **how: Any) -> Run:
    """A posterior on the binary task, N = P = size; `how` has a trajectory's `length` and `sample`'s options.

    Readouts of non-lazy ReLU networks are sampled in the units they grow to.
    """
    stretch = size**0.5 / 2 if (scheme, scaling) == ("relu", "non-lazy") else None
    how["method"] = HMC(how.pop("length"), stretch=stretch)
    return draw(key, binary_task(size, seed), Network(1, size, scheme, scaling), temperature, **how)


def size(run: Run | Starts, networks: int | None = None, **more: Any) -> dict[str, Any]:
    """Sizes, for a finding; in which N = P unless told."""
    width, inputs = run.posterior.network.width, run.task.num_inputs
    given = {"N": width, "P": inputs, "T": float(run.posterior.temperature)}
    return given | ({} if networks is None else {"networks": networks}) | more


def of_averages(*factors: tuple[np.ndarray, float]) -> np.ndarray:
    """A product of powers of averages, Π ⟨x_k⟩^p_k, as a series whose mean it is.

    Fluctuations are those of the first order, x_k/⟨x_k⟩ − 1 times p_k, so that the series' standard error is
    the product's. Averages are taken first, as theory does.

    Args:
        *factors: pairs of a series (chains, samples) and its power.
    """
    values = [(series, series.mean(), power) for series, power in factors]
    product = np.prod([mean**power for _, mean, power in values])
    return product * (1 + sum(power * (series / mean - 1) for series, mean, power in values))


def cosine(run: Run) -> np.ndarray:
    """Cosine of features and readout, y_μ φ_μ·a over the root of |φ_μ|² and |a|², by `of_averages`."""
    activations, readouts = run.samples.activations(), run.readouts[..., 0]
    overlap = np.einsum("csn,csnp,p->cs", readouts, activations, run.task.targets[:, 0])
    lengths = np.square(activations).sum((-2, -1)), np.square(readouts).sum(-1)
    return of_averages(
        (overlap / run.task.num_inputs, 1), (lengths[0] / run.task.num_inputs, -0.5), (lengths[1], -0.5)
    )


def learned_entry(kernels: np.ndarray, task: Task, nonlinearity: Any) -> np.ndarray:
    """Trace of the task in what learning changed in the kernel, off the diagonal.

        c = Σ_{μ≠ν} y_μ y_ν (K − K_prior)_μν / P(P − 1)

    Args:
        kernels: K, shape (…, P, P).
        task: with one output, targets ±1.
        nonlinearity: φ of the prior kernel.

    Returns:
        c, shape (…): half of what two inputs of one class gain in similarity over two of different classes.
    """
    y, num_inputs = task.targets[:, 0], task.num_inputs
    change = kernels - _prior(task, nonlinearity)
    along = np.einsum("m,...mn,n->...", y, change, y) - np.trace(change, axis1=-2, axis2=-1)
    return along / (num_inputs * (num_inputs - 1))


def _prior(task: Task, nonlinearity: Any) -> np.ndarray:
    return gaussian_process.prior_kernels(task.inputs, None, nonlinearity)[1]


def _entry(run: Run) -> np.ndarray:
    kernels = coding.kernels(run.samples.activations())
    return learned_entry(kernels, run.task, run.posterior.network.nonlinearity)


def over_widths(runs: Sequence[Run]) -> Scan:
    """Cosine and learned entry, in this order, of runs that differ in their width N = P."""
    return measured(list(runs), cosine, _entry)


def linear_theory(sizes: Sequence[int], scaling: str, temperature: float, seed: int) -> np.ndarray:
    """Cosine and learned entry of linear networks of N = P, exactly at every width, shape (sizes, 2).

    A lazy network at T is the non-lazy one with σ_a² = N at the temperature N T, so one formula has both. The
    cosine is f / √(U K_μμ) with f = U/(U + T) the outputs over the targets, for orthogonal inputs.
    """
    found = []
    for width in map(int, sizes):
        task, hot, variance = binary_task(width, seed), temperature, None
        if scaling == "lazy":
            hot, variance = width * temperature, float(width)
        solution = wishart_chain.solve(task, 1, hot, width, variance, num_draws=10_000)
        kernel, readout = solution.kernels[1], solution.readout_covariance[0, 0]
        aligned = readout / (readout + hot) / np.sqrt(readout * np.diag(kernel).mean())
        found.append([aligned, learned_entry(kernel, task, "linear")])
    return np.array(found)


def exponents(sizes: Any, values: Estimate) -> Estimate:
    """Exponents of power laws of quantities (sizes, k); errors from scatter and samples together."""
    x = np.log(sizes) - np.log(sizes).mean()
    laws = [statistics.fit_power_law(sizes, column) for column in values.value.T]
    propagated = np.linalg.norm(x[:, None] * values.error / values.value, axis=0) / np.square(x).sum()
    error = np.hypot([law.standard_error for law in laws], propagated)
    return Estimate(np.array([law.exponent for law in laws]), error)


# ---- one kernel, three codes -----------------------------------------------------------------------


def learned_kernel(run: Run, activations: np.ndarray, centered: bool = True) -> np.ndarray:
    """What activations (…, N, P) have learned in the kernel: less the prior, centered, of length one."""
    change = coding.kernels(activations) - _prior(run.task, run.posterior.network.nonlinearity)
    if centered:
        change = change - change.mean(-1, keepdims=True)
        change -= change.mean(-2, keepdims=True)
    return change / np.linalg.norm(change, axis=(-2, -1), keepdims=True)


def alignments(runs: dict[str, Run], centered: bool = True) -> np.ndarray:
    """Cosines between what two nonlinearities learned in the kernel, (chains, samples / 4, pairs)."""
    learned = [learned_kernel(run, run.samples.activations()[:, ::4], centered) for run in runs.values()]
    pairs = [(i, j) for j in range(len(learned)) for i in range(j)]
    return np.stack([np.sum(learned[i] * learned[j], axis=(-2, -1)) for i, j in pairs], axis=-1)


def carriers(task: Task, network: Network, activations: np.ndarray) -> np.ndarray:
    """Share of the neurons that carry what the kernel has learned of the classes, by `of_averages`.

        ρ = (Σ_i c_i)² / (N Σ_i c_i²),   c_i = d_i² − ⟨d²⟩_prior

    with d_i the difference of a neuron's mean activations on the two classes. Shapes: activations
    (chains, samples, N, P), the result (chains, samples).
    """
    means = coding.class_means(activations, task.labels).astype(float)
    weights = np.where(task.labels == 0, 1.0, -1.0) / np.array(task.class_counts)[task.labels]
    before = weights @ _prior(task, network.nonlinearity) @ weights
    learned = np.square(means[..., 0] - means[..., 1]) - before
    return of_averages((learned.mean(-1), 2), (np.square(learned).mean(-1), -1))


def predicted(task: Task, network: Network, temperature: float) -> Any:
    """Theory's solution; of one hidden layer of ReLU in the limit N, P → ∞, the scheme of paper A."""
    if (network.nonlinearity, network.depth) == ("relu", 1):
        return relu.solve(task, temperature)
    return theory.solve(task, network, temperature)


def predicted_carriers(run: Run, seed: int, count: int = 400) -> np.float64:
    """The same of networks of independent neurons, drawn from theory's solution."""
    network, rng = run.posterior.network, np.random.default_rng(seed)
    solution = predicted(run.task, network, run.samples.temperature)
    drawn = [solution.draw(rng, run.task.labels, network.width)[0] for _ in range(count)]
    return carriers(run.task, network, np.asarray(network.phi(jnp.stack(drawn)))[None]).mean()


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
    count = min(count, len(best))
    others = np.random.default_rng(0).choice(best[count // 4 :], count - count // 4, replace=False)
    chosen = np.concatenate([best[: count // 4], others])
    return chosen[np.argsort(-difference[chosen])]


# ---- neural collapse -------------------------------------------------------------------------------


def both_starts(
    key: Any, task: Task, scheme: str, width: int, temperature: float, depth: int = 1, **how: Any
) -> Starts:
    """Networks cooled from the prior, and as many drawn from theory."""
    from_prior, plants, from_theory = (jax.random.fold_in(key, k) for k in range(3))
    network, plants = Network(depth, width, scheme), jax.random.split(plants, how["num_chains"])
    stretch = width**0.5 / 2 if scheme == "relu" else None
    how["method"] = HMC(how.pop("length"), stretch=stretch)
    solution, posterior = predicted(task, network, temperature), Posterior(task, network, temperature)
    return workbench.both_starts((from_prior, from_theory, plants), posterior, solution, **how)


def frame(starts: Starts) -> Estimate:
    """Cosines between centered class means, by pair of classes: average over networks of both starts."""
    activations = np.concatenate([half.activations() for half in starts.halves])
    gram = coding.class_gram(activations, starts.task.labels)
    pairs = zip(*np.triu_indices(gram.shape[-1], 1), strict=True)
    series = [
        of_averages((gram[..., c, d], 1), (gram[..., c, c], -0.5), (gram[..., d, d], -0.5)) for c, d in pairs
    ]
    return estimate(np.stack(series, axis=-1))


def noisy_frame(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The same of untrained networks (networks, N, P), over the lengths of their means with noise."""
    means = coding.class_means(activations, labels).astype(float)
    lengths = np.square(means - means.mean(-1, keepdims=True)).mean((0, -2)) ** 0.5
    gram = coding.class_gram(activations, labels).mean(0) / np.outer(lengths, lengths)
    return gram[np.triu_indices(len(gram), 1)]


def predicted_frame(starts: Starts) -> np.ndarray:
    """The same of theory's solution, (pairs,)."""
    return kernel_cosines(starts.theory.kernel(), starts.task.labels)


def kernel_cosines(kernel: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Cosines between centered class means from a kernel (P, P), its diagonal left out: (pairs,)."""
    members = np.eye(labels.max() + 1)[labels]
    counts = members.sum(0)
    block = members.T @ (kernel - np.diag(np.diag(kernel))) @ members
    block /= np.outer(counts, counts) - np.diag(counts)
    center = np.eye(len(block)) - 1 / len(block)
    gram = center @ block @ center
    lengths = np.sqrt(np.diag(gram))
    return (gram / np.outer(lengths, lengths))[np.triu_indices(len(gram), 1)]


def within_class(activations: Any, labels: np.ndarray) -> Any:
    """Variance of activations over the inputs of a class, mean over neurons: (…, N, P) → (…, C)."""
    members = np.eye(labels.max() + 1)[labels]
    counts = members.sum(0)
    means = activations @ (members / counts)
    return (((activations - means @ members.T) ** 2).mean(-2) @ members) / (counts - 1)


def by_layer(starts: Starts) -> np.ndarray:
    """The same of every network of both starts, mean over its samples: (networks, L, C)."""
    depth = starts.posterior.network.depth
    rows = [
        [within_class(half.activations(layer), starts.task.labels).mean(1) for layer in range(depth)]
        for half in starts.halves
    ]
    return np.moveaxis(np.concatenate(rows, axis=1), 0, 1)


class Variances(NamedTuple):
    """Variance of activations within classes.

    Attributes:
        starts: networks by width.
        at_widths: by width, C numbers each.
        limit: at N → ∞.
    """

    starts: list[Starts]
    at_widths: list[Estimate]
    limit: Estimate


def at_large_width(key: Any, task: Task, widths: Sequence[int], temperature: float, **how: Any) -> Variances:
    """Variance within classes of sigmoidal networks of two widths, and on a line in 1/N at N → ∞."""
    starts = [
        both_starts(jax.random.fold_in(key, k), task, "sigmoidal", width, temperature, **how)
        for k, width in enumerate(widths)
    ]
    found = [spread(by_layer(each)[:, 0]) for each in starts]
    return Variances(starts, found, extrapolated(widths, found))


@dataclass(frozen=True)
class Trained:
    """Networks trained by Adam with weight decay, followed in time.

    Attributes:
        times: steps times learning rate times weight decay, shape (n,).
        within: variance of activations within classes, shape (networks, n, layers, C).
        loss: shape (networks, n).
        width: N.
    """

    times: np.ndarray
    within: np.ndarray
    loss: np.ndarray
    width: int


def trained(
    key: Any,
    task: Task,
    depth: int,
    *,
    num_neurons: int,
    num_networks: int,
    learning_rate: float,
    decay_times: float,
    num_records: int = 40,
) -> Trained:
    """Train sigmoidal networks from the prior by Adam with weight decay 1/P, apart from the gradient.

    Args:
        key: of the initial weights.
        task: what to learn.
        depth: L.
        num_neurons: N.
        num_networks: independent networks.
        learning_rate: η, per step.
        decay_times: how long, in units of the time P/η in which the decay alone shrinks weights by 1/e.
        num_records: how often they are looked at.
    """
    decay = 1 / task.num_inputs
    every = round(decay_times / (learning_rate * decay) / num_records)

    def track(outputs: Any, layers: tuple[Any, ...]) -> Any:
        return jnp.stack([num_neurons * within_class(layer, task.labels) for layer in layers])

    run = training.train(
        training.ScaledNetwork(Network(depth, num_neurons, "sigmoidal")),
        key,
        task.inputs,
        task.targets,
        learning_rate=learning_rate,
        num_steps=every * num_records,
        record_every=every,
        adam=True,
        weight_decay=decay,
        repeats=num_networks,
        track=track,
    )
    return Trained(run.times * learning_rate * decay, run.tracked.astype(float), run.loss, num_neurons)
