"""Representations of many points: XOR, blobs in two contexts, digits, and this book's networks."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks, training
from coding_schemes.data import ImageSet
from coding_schemes.networks import Network
from coding_schemes.sampling import Convergence
from coding_schemes.tasks import Task
from coding_schemes.theory import two_point
from coding_schemes.training import Architecture, ScaledNetwork
from companion.workbench import draw, untrained
from scipy import stats
from scipy.spatial.distance import cdist

from experiments.two_point import Trained, learn

LEAKY = jax.nn.leaky_relu
XOR = {  # gain, learning rate, steps, hidden layers
    "small": (0.8, 0.03, 9000, 20),
    "intermediate": (1.25, 0.004, 9000, 20),
    "large": (2.0, 6e-9, 9000, 20),
    "one layer": (0.0015, 0.06, 21000, 1),
}
BLOBS = {  # gain, learning rate, epochs
    "high": (2.0, 0.0015, 750),
    "low": (0.5, 0.015, 1500),
    "very low": (0.275, 0.05, 2000),
}
TRACKED = 100  # digits whose distances are followed


def quietly(*arguments: Any, **options: Any) -> training.Run:
    """`training.train` without its warning: the last loss stands in every record."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return training.train(*arguments, **options)


@dataclass(frozen=True)
class Square:
    """Squared distances between the representations of the four inputs of XOR.

    Attributes:
        start: before training, shape (4, 4).
        theory: the closed form pair by pair, from the distances before training.
        end: after training.
        loss: the last.
    """

    start: np.ndarray
    theory: np.ndarray
    end: np.ndarray
    loss: float

    def merged(self, name: str = "end") -> np.ndarray:
        """Squared distances of 00–11 and 01–10 over the mean of the four pairs with different targets."""
        d = getattr(self, name)
        return np.array([d[0, 1], d[2, 3]]) / d[:2, 2:].mean()


def learn_xor(key: Any, name: str, width: int, rates: two_point.Fit, adam: bool = False) -> Square:
    """Train one of the networks `XOR`, by Adam at a rate of 1/1000 over the width or by gradient descent.

    The prediction takes the rates of the default network on two points.
    """
    gain, rate, steps, depth = XOR[name]
    model, task = Architecture(LEAKY, gain, width, depth), tasks.xor()
    options: dict[str, Any] = {"num_steps": steps, "record_every": steps // 300, "stop_loss": 1e-6}
    options |= {"learning_rate": 1e-3 / width if adam else rate, "adam": adam}
    run = quietly(model, key, task.inputs, task.targets, track=training.outputs_and_distances, **options)
    distances = run.tracked["distances_sq"][0, :, model.middle].astype(float)
    outputs = run.tracked["outputs"][0, 0]
    i, j = np.triu_indices(4, 1)
    of_inputs, of_targets, of_outputs = (
        np.square(cdist(x, x))[i, j] for x in (task.inputs.T, task.targets, outputs)
    )
    theory = np.zeros((4, 4))
    theory[i, j] = two_point.final_distance(
        distances[0][i, j], of_outputs, rates.eta_h, rates.eta_y, of_inputs, of_targets
    )
    return Square(distances[0], theory + theory.T, distances[-1], float(run.loss[0, -1]))


@dataclass(frozen=True)
class Collapse:
    """Representations of blobs in two contexts, halfway through a network.

    Attributes:
        points: activations after training, shape (contexts, x positions, y positions, units).
        loss: the last.
    """

    points: np.ndarray
    loss: float

    @property
    def irrelevant(self) -> float:
        """Variance along the coordinate that is not asked for, over that along the one that is."""
        h = self.points
        across = np.var(h[0], axis=1).sum() + np.var(h[1], axis=0).sum()
        return float(across / (np.var(h[0], axis=0).sum() + np.var(h[1], axis=1).sum()))

    @property
    def contexts(self) -> float:
        """Squared distance of points with one target in both contexts over the spread of a context."""
        h = self.points
        between = np.mean(np.sum((h[0] - np.swapaxes(h[1], 0, 1)) ** 2, axis=-1))
        within = [np.sum(np.var(c.reshape(-1, c.shape[-1]), axis=0)) for c in h]
        return float(between / np.mean(within))

    @property
    def projection(self) -> np.ndarray:
        """On the two leading principal axes, shape (contexts, points, 2)."""
        flat = self.points.reshape(-1, self.points.shape[-1])
        flat = flat - flat.mean(axis=0)
        return (flat @ np.linalg.svd(flat, full_matrices=False)[2][:2].T).reshape(2, -1, 2)


def _halfway(outputs: Any, activations: Any) -> Any:
    return activations[2]


def learn_blobs(
    key: Any, name: str, phi: str | Callable, task: Task, faster: int = 1, adam: bool = False
) -> Collapse:
    """Train a network of 4 × 100 units, as `BLOBS` has it, in batches of 64 of 1,800 images.

    `faster` multiplies the learning rate and divides the epochs; Adam has a rate of 1/1000.
    """
    gain, rate, epochs = BLOBS[name]
    steps = 28 * epochs // faster // 10 * 10
    count, n = task.num_inputs, int((task.num_inputs // 2) ** 0.5)
    options: dict[str, Any] = {"num_steps": steps, "record_every": steps // 10, "adam": adam}
    options |= {"learning_rate": 1e-3 if adam else rate * faster, "batch_size": 64 * count // 1800}
    model = Architecture(phi, gain, 100, 4)
    run = quietly(model, key, task.inputs, task.targets, track=_halfway, **options)
    points = run.tracked[0, -1].T.reshape(2, n, n, -1)
    return Collapse(points, float(run.loss[0, -1]))


@dataclass(frozen=True)
class Digits:
    """A network that learned digits: two of them tracked, and the distances of a hundred.

    Attributes:
        pair: as trained on two points; only its trajectory means something.
        distances: squared distances after training, inputs sorted by digit, shape (100, 100).
        theory: predicted distances of the same inputs.
        labels: their digits, sorted.
        counts: images of each digit among those the prediction averages over.
        loss: the last.
    """

    pair: Trained
    distances: np.ndarray
    theory: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    loss: float

    def rank_correlation(self, theory: np.ndarray | None = None, different: bool = False) -> float:
        """Of the distances of all pairs, or of those of different digits, with a prediction."""
        upper = np.triu_indices(len(self.labels), 1)
        chosen = self.labels[upper[0]] != self.labels[upper[1]]
        chosen |= not different
        predicted = self.theory if theory is None else theory
        return float(stats.spearmanr(predicted[upper][chosen], self.distances[upper][chosen]).statistic)

    @property
    def labels_alone(self) -> np.ndarray:
        """A prediction that knows nothing but whether two digits are the same."""
        return (self.labels[:, None] != self.labels).astype(float)

    @property
    def summed(self) -> np.ndarray:
        """The prediction as in paper C's code, a sum over the images of each digit in place of their mean."""
        many = self.counts[self.labels]
        return self.theory * np.outer(many, many)

    def exchanged(self, rng: np.random.Generator) -> np.ndarray:
        """The prediction with its digits exchanged at random: what labels say stays, the rest goes."""
        digits = np.unique(self.labels)
        first = np.searchsorted(self.labels, digits)  # the prediction is constant for a pair of digits
        blocks = self.theory[np.ix_(first, first)]
        order = rng.permutation(len(digits))
        place = np.searchsorted(digits, self.labels)
        return blocks[np.ix_(order, order)][np.ix_(place, place)]


def weighted_distances(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Predicted distances (n, n) up to a factor: A = |dx||dy|, averaged with weights exp(−A) on both sides.

    Distances of images (n, pixels), from 0 to 255, of different digits are so large that the exponential
    vanishes, and those of one digit are predicted as zero: a constant for each pair of digits comes out.
    Paper C's code has exp(−A) A exp(−A), a sum, which counts the images of a digit.
    """
    products = inputs @ inputs.T  # exact for whole numbers, and faster than cdist
    norms = products.diagonal()
    squares = np.maximum(norms[:, None] + norms - 2 * products, 0.0)
    A = np.sqrt(squares) * np.sqrt(2) * (labels[:, None] != labels)
    near = np.exp(-A)
    total = near.sum(1)
    return near @ A @ near / np.outer(total, total)


def learn_digits(
    key: Any, images: ImageSet, steps: int, records: int, rate: float = 0.004, adam: bool = False
) -> Digits:
    """Train 4 × 100 leaky ReLU units on all images, in batches of 64; the first zero and one are tracked."""
    raw = images.read(np.arange(len(images))).reshape(len(images), -1).astype(np.float32)
    pixels, labels = (raw / 255 - 0.1307) / 0.3081, images.labels
    targets, order = np.eye(labels.max() + 1)[labels], np.argsort(labels[:TRACKED], kind="stable")
    first = [int(np.argmax(labels == 0)), int(np.argmax(labels == 1))]

    def track(outputs, activations):
        kernel = activations[2].T @ activations[2]
        norms = kernel.diagonal()
        squares = norms[:, None] + norms - 2 * kernel
        pair = training.two_points(outputs[:2], activations)
        return pair | {"distances": squares[2:, 2:]}

    options: dict[str, Any] = {"num_steps": steps, "record_every": steps // records, "batch_size": 64}
    options |= {"learning_rate": 1e-3 if adam else rate, "adam": adam, "converged_loss": 0.1}
    options |= {"track": track, "tracked_inputs": pixels[[*first, *order]].T}
    model = Architecture(LEAKY, 0.5, 100, 4)
    run = quietly(model, key, pixels.T, targets, **options)
    two = Task(pixels[first].T, np.arange(2), targets[first], name="two digits")
    count = min(2000, len(images))
    theory = weighted_distances(raw[:count].astype(float), labels[:count])[np.ix_(order, order)]
    return Digits(
        Trained(model, two, run),
        run.tracked["distances"][0, -1],
        theory,
        labels[order],
        np.bincount(labels[:count]),
        float(run.loss[0, -1]),
    )


def descend(key: Any, nonlinearity: str, scaling: str, width: int, seed: int) -> Trained:
    """One of this book's networks under gradient descent from the prior, on two orthogonal inputs."""
    task = tasks.toy(2, (0.5, 0.5), targets=[[-1.0], [1.0]], seed=seed)
    model = ScaledNetwork(Network(1, width, nonlinearity, scaling))
    return learn(key, (model, 0.02), task, steps=3000, stop_loss=1e-8)


@dataclass(frozen=True)
class Sampled:
    """Squared distances in sampled networks over those in the prior.

    Attributes:
        same: of inputs of one class, mean and standard error.
        different: of inputs of two classes, mean and standard error.
        convergence: of the samples.
    """

    same: tuple[float, float]
    different: tuple[float, float]
    convergence: Convergence


def sampled_distances(
    key: Any, nonlinearity: str, size: int, temperature: float, seed: int, **options: Any
) -> Sampled:
    """Sample the posterior on the toy task with three classes, N = P = size, and compare with the prior."""
    task = tasks.toy(size, (0.5, 0.25, 0.25), y_plus=1.0, y_minus=0.0, seed=seed)
    run = draw(key, task, Network(1, size, nonlinearity), temperature, **options)
    (prior,) = untrained(jax.random.split(jax.random.fold_in(key, 1), 16), run.posterior)
    same = task.labels[:, None] == task.labels
    np.fill_diagonal(same, False)
    rows = []
    for pairs in (same, task.labels[:, None] != task.labels):
        reference = _distances(prior.astype(float))[:, pairs].mean()
        mean, error = statistics.mean_and_error(_distances(run.samples.activations())[..., pairs].mean(-1))
        rows.append((float(mean / reference), float(error / reference)))
    return Sampled(rows[0], rows[1], run.convergence)


def _distances(activations: np.ndarray) -> np.ndarray:
    kernels = coding.kernels(activations)
    norms = np.diagonal(kernels, axis1=-2, axis2=-1)
    return norms[..., :, None] + norms[..., None, :] - 2 * kernels
