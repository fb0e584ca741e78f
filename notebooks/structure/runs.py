"""What the chapter on representations runs and measures: XOR, blobs, digits, and this book's networks."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import tasks, training
from coding_schemes.data import ImageSet
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.tasks import Task
from coding_schemes.theory import linear, sigmoidal, two_point
from coding_schemes.training import Architecture, ScaledNetwork
from coding_schemes.two_points import Trained, learn
from companion.findings import Estimate, extrapolated, spread
from companion.publish import WIDTH
from companion.workbench import Starts, both_starts
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy import stats
from scipy.spatial.distance import cdist

LEAKY = jax.nn.leaky_relu
LEARNED = 0.01  # last loss above which paper C discards a run
MERGED = 0.1  # of a squared distance, below which two points count as one
DEFAULT_RATE = 0.005  # paper C's Table 1, the default network
PAIRS = ("00–11", "01–10")  # of XOR, with one target each


# ---- two points -------------------------------------------------------------------------------------


def default(key: Any, width: int, networks: int, adam: bool = False) -> Trained:
    """The default network of paper C's Table 1 on two points."""
    rate = 1e-3 / width if adam else DEFAULT_RATE
    return learn(key, Architecture(LEAKY, 1.0, width, 20), rate, repeats=networks, adam=adam)


def fit_errors(networks: Trained) -> np.ndarray:
    """Fit errors of the networks that were trained to the end."""
    return np.array([networks.fit(int(r)).error for r in networks.done])


def backwards(networks: Trained, repeat: int = 0) -> float:
    """Fit error of a network's curves, run backwards."""
    H, Q, w = networks.trajectory(repeat)[:, ::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no rates fit them
        return two_point.fit(networks.run.times, H, Q, w, networks.dx2, networks.dy2).error


def over_right(networks: Trained, number: int) -> np.ndarray:
    """Logarithm of the fit error of each altered theory over the right one's, (alterations, number)."""
    equations = (two_point.UNALTERED, *two_point.ALTERED.values())
    errors = [[networks.fit(int(r), factors=f).error for r in networks.done[:number]] for f in equations]
    return np.log(np.array(errors[1:]) / errors[0])


# ---- exclusive or -----------------------------------------------------------------------------------

XOR = {  # gain, learning rate, steps, hidden layers
    "small": (0.8, 0.03, 9000, 20),
    "intermediate": (1.25, 0.004, 9000, 20),
    "large": (2.0, 6e-9, 9000, 20),
    "one layer": (0.0015, 0.06, 21000, 1),
}


@dataclass(frozen=True)
class Square:
    """Squared distances between the representations of the four inputs of XOR, in several networks.

    Attributes:
        start: before training, shape (networks, 4, 4).
        theory: the closed form pair by pair, from the distances before training.
        end: after training.
        loss: the last, shape (networks,).
    """

    start: np.ndarray
    theory: np.ndarray
    end: np.ndarray
    loss: np.ndarray

    def merged(self, name: str = "end") -> np.ndarray:
        """Squared distances of `PAIRS` over the mean of pairs with different targets, (networks, 2)."""
        d = getattr(self, name)
        return np.stack([d[:, 0, 1], d[:, 2, 3]], axis=1) / d[:, :2, 2:].mean((1, 2))[:, None]


def learn_xor(
    key: Any, name: str, width: int, networks: int, rates: two_point.Fit, adam: bool = False
) -> Square:
    """Train networks as `XOR` has them, by Adam at a rate of 1/1000 over the width or by gradient descent.

    The prediction takes the rates of the default network on two points.
    """
    gain, rate, steps, depth = XOR[name]
    model, task = Architecture(LEAKY, gain, width, depth), tasks.xor()
    options: dict[str, Any] = {"num_steps": steps, "record_every": steps // 300, "stop_loss": 1e-6}
    options |= {"learning_rate": 1e-3 / width if adam else rate, "adam": adam, "repeats": networks}
    run = quietly(model, key, task.inputs, task.targets, track=training.outputs_and_distances, **options)
    distances = run.tracked["distances_sq"][:, :, model.middle].astype(float)
    i, j = np.triu_indices(4, 1)
    of_inputs, of_targets = (np.square(cdist(x, x))[i, j] for x in (task.inputs.T, task.targets))
    theory = np.zeros((networks, 4, 4))
    for r, outputs in enumerate(run.tracked["outputs"][:, 0]):
        of_outputs = np.square(cdist(outputs, outputs))[i, j]
        theory[r, i, j] = two_point.final_distance(
            distances[r, 0][i, j], of_outputs, rates.eta_h, rates.eta_y, of_inputs, of_targets
        )
    return Square(distances[:, 0], theory + np.swapaxes(theory, 1, 2), distances[:, -1], run.loss[:, -1])


# ---- blobs in two contexts --------------------------------------------------------------------------

BLOBS = {  # gain, learning rate, epochs
    "high": (2.0, 0.0015, 750),
    "low": (0.5, 0.015, 1500),
    "very low": (0.275, 0.05, 2000),
}


@dataclass(frozen=True)
class Collapse:
    """Representations of blobs in two contexts, halfway through several networks.

    Attributes:
        points: activations after training, shape (networks, contexts, x positions, y positions, units).
        loss: the last, shape (networks,).
    """

    points: np.ndarray
    loss: np.ndarray

    @property
    def irrelevant(self) -> np.ndarray:
        """Variance along the coordinate that is not asked for, over that along the one that is."""
        x_asked, y_asked = self.points[:, 0], self.points[:, 1]
        across = np.var(x_asked, axis=2).sum((1, 2)) + np.var(y_asked, axis=1).sum((1, 2))
        return across / (np.var(x_asked, axis=1).sum((1, 2)) + np.var(y_asked, axis=2).sum((1, 2)))

    @property
    def contexts(self) -> np.ndarray:
        """Squared distance of points with one target in both contexts over the spread of a context."""
        h = self.points
        between = np.square(h[:, 0] - np.swapaxes(h[:, 1], 1, 2)).sum(-1).mean((1, 2))
        return between / np.var(h, axis=(2, 3)).sum(-1).mean(1)

    @property
    def projection(self) -> np.ndarray:
        """The first network on its two leading principal axes, shape (contexts, points, 2)."""
        flat = self.points[0].reshape(-1, self.points.shape[-1])
        flat = flat - flat.mean(axis=0)
        return (flat @ np.linalg.svd(flat, full_matrices=False)[2][:2].T).reshape(2, -1, 2)


def learn_blobs(
    key: Any, name: str, phi: str | Callable, task: Task, networks: int, faster: int = 1, adam: bool = False
) -> Collapse:
    """Train networks of 4 × 100 units, as `BLOBS` has them, in batches of 64 of 1,800 images.

    `faster` multiplies the learning rate and divides the epochs; Adam has a rate of 1/1000.
    """
    gain, rate, epochs = BLOBS[name]
    steps = 28 * epochs // faster // 10 * 10
    count, n = task.num_inputs, int((task.num_inputs // 2) ** 0.5)
    options: dict[str, Any] = {"num_steps": steps, "record_every": steps // 10, "adam": adam}
    options |= {"learning_rate": 1e-3 if adam else rate * faster, "batch_size": max(1, 64 * count // 1800)}
    model = Architecture(phi, gain, 100, 4)
    run = quietly(model, key, task.inputs, task.targets, track=_halfway, repeats=networks, **options)
    points = np.swapaxes(run.tracked[:, -1], 1, 2).reshape(networks, 2, n, n, -1)
    return Collapse(points, run.loss[:, -1])


def _halfway(outputs: Any, activations: Any) -> Any:
    return activations[2]


def quietly(*arguments: Any, **options: Any) -> training.Run:
    """`training.train` without its warning: last losses stand in the records."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return training.train(*arguments, **options)


def median(values: ArrayLike, draws: int = 2000) -> Estimate:
    """Median over networks (first axis), with its error by the bootstrap."""
    rows = np.asarray(values, dtype=float)
    again = rows[np.random.default_rng(0).integers(len(rows), size=(draws, len(rows)))]
    return Estimate(np.median(rows, axis=0), np.median(again, axis=1).std(axis=0))


# ---- digits -----------------------------------------------------------------------------------------

TRACKED = 100  # digits whose distances are followed


@dataclass(frozen=True)
class Digits:
    """Networks that learned digits: two of them tracked, and the distances of a hundred.

    Attributes:
        pair: as trained on two points; only its trajectories mean something.
        distances: squared distances after training, inputs sorted by digit, shape (networks, 100, 100).
        untrained: the same before training.
        inputs: squared distances of the images themselves, shape (100, 100).
        theory: predicted distances of the same inputs.
        labels: their digits, sorted.
        loss: the last, shape (networks,).
    """

    pair: Trained
    distances: np.ndarray
    untrained: np.ndarray
    inputs: np.ndarray
    theory: np.ndarray
    labels: np.ndarray
    loss: np.ndarray

    @property
    def different(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of images of different digits, as indices."""
        i, j = np.triu_indices(len(self.labels), 1)
        chosen = self.labels[i] != self.labels[j]
        return i[chosen], j[chosen]

    def exchanged(self, rng: np.random.Generator) -> np.ndarray:
        """The prediction with its digits exchanged at random: what labels say stays, the rest goes."""
        digits = np.unique(self.labels)
        first = np.searchsorted(self.labels, digits)  # the prediction is constant for a pair of digits
        order, place = rng.permutation(first), np.searchsorted(digits, self.labels)
        return self.theory[np.ix_(order, order)][np.ix_(place, place)]

    def beyond(self, untrained: bool = False, draws: int = 300) -> Estimate:
        """Partial rank correlation of distances with the prediction, given the images and untrained networks.

        Over pairs of different digits, mean over networks. The error is that of predictions with the digits
        exchanged, and of the mean. With `untrained` the networks before training are asked, given the images.
        """
        pairs, rng = self.different, np.random.default_rng(0)
        theories = [self.theory, *(self.exchanged(rng) for _ in range(draws))]
        ranked = stats.rankdata([each[pairs] for each in theories], axis=1)
        images = stats.rankdata(self.inputs[pairs])
        rows = []
        for end, start in zip(self.distances, self.untrained, strict=True):
            asked, given = (start, [images]) if untrained else (end, [images, stats.rankdata(start[pairs])])
            rows.append(partial_correlation(stats.rankdata(asked[pairs]), ranked, np.array(given)))
        found = np.array(rows)  # networks, theories
        by_chance = found[:, 1:].mean(axis=0).std()
        return Estimate(found[:, 0].mean(), np.hypot(by_chance, spread(found[:, 0]).error))


def partial_correlation(values: np.ndarray, others: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Correlation of values (n,) with each row of others (k, n), of what given rows (g, n) do not explain."""
    basis = np.linalg.qr(np.vstack([np.ones(values.shape), given]).T)[0]
    rest = [each - (each @ basis) @ basis.T for each in (values, others)]
    return rest[1] @ rest[0] / np.linalg.norm(rest[0]) / np.linalg.norm(rest[1], axis=1)


def weighted_distances(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Predicted distances (n, n) up to a factor: A = |dx||dy|, averaged with weights exp(−A) on both sides.

    Distances of images (n, pixels), from 0 to 255, of different digits are so large that the exponential
    vanishes, and those of one digit are predicted as zero: a constant for each pair of digits comes out.
    Paper C's code has exp(−A) A exp(−A), a sum, which counts the images of a digit.
    """
    A = np.sqrt(squared_distances(inputs.T)) * np.sqrt(2) * (labels[:, None] != labels)
    near = np.exp(-A)
    total = near.sum(1)
    return near @ A @ near / np.outer(total, total)


def squared_distances(columns: Any) -> Any:
    """Squared distances (..., n, n) of columns (..., units, n)."""
    products, norms = columns.swapaxes(-1, -2) @ columns, (columns**2).sum(-2)
    return (norms[..., :, None] + norms[..., None, :] - 2 * products).clip(0)


def learn_digits(
    key: Any, images: ImageSet, steps: int, records: int, networks: int, rate: float = 0.004,
    adam: bool = False,
) -> Digits:  # fmt: skip
    """Train 4 × 100 leaky ReLU units on all images, in batches of 64; the first zero and one are tracked."""
    raw = images.read(np.arange(len(images))).reshape(len(images), -1).astype(np.float32)
    pixels, labels = (raw / 255 - 0.1307) / 0.3081, images.labels
    targets, order = np.eye(labels.max() + 1)[labels], np.argsort(labels[:TRACKED], kind="stable")
    first = [int(np.argmax(labels == 0)), int(np.argmax(labels == 1))]
    every = max(1, steps // records)
    options: dict[str, Any] = {"num_steps": max(1, steps // every) * every, "record_every": every}
    options |= {"learning_rate": 1e-3 if adam else rate, "adam": adam, "converged_loss": 0.1}
    options |= {"track": _track, "tracked_inputs": pixels[[*first, *order]].T}
    options |= {"batch_size": min(64, len(images)), "repeats": networks}
    model = Architecture(LEAKY, 0.5, 100, 4)
    run = quietly(model, key, pixels.T, targets, **options)
    two = Task(pixels[first].T, np.arange(2), targets[first], name="two digits")
    count = min(2000, len(images))
    theory = weighted_distances(raw[:count].astype(float), labels[:count])[np.ix_(order, order)]
    distances = run.tracked["distances"]
    of_images = squared_distances(pixels[order].T.astype(float))
    return Digits(
        Trained(model, two, run),
        distances[:, -1],
        distances[:, 0],
        of_images,
        theory,
        labels[order],
        run.loss[:, -1],
    )


def _track(outputs: Any, activations: Any) -> dict[str, Any]:
    pair = training.two_points(outputs[:2], activations)
    return pair | {"distances": squared_distances(activations[2][:, 2:])}


def digit_arrays(found: Digits) -> dict[str, Any]:
    """For `figures.fit_panels`: H, Q and w of the two tracked digits in the first network, a panel each."""
    rows, fit = found.pair.trajectory(), found.pair.fit()
    scale = np.abs(rows).max(axis=1)[:, None]
    theory = np.array([fit.solution.H, fit.solution.Q, fit.solution.w])
    return {
        "times": found.pair.run.times,
        "network": (rows / scale)[:, None],
        "theory": (theory / scale)[:, None],
        "titles": [f"${name}$: {error:.1%}" for name, error in zip("HQw", fit.errors, strict=True)],
        "stops": np.full(3, found.pair.run.times[-1]),
        "names": [""],
    }


# ---- this book's networks ---------------------------------------------------------------------------

#: Twice the variance of φ(z), z ~ N(0, 1): the squared distance of two inputs in the prior
PRIOR = {"linear": 2.0, "sigmoidal": np.arcsin(np.pi / (np.pi + 2)) / np.pi}


def descend(key: Any, nonlinearity: str, scaling: str, width: int, networks: int, seed: int) -> Trained:
    """This book's networks under gradient descent from the prior, on two orthogonal inputs."""
    task = tasks.toy(2, (0.5, 0.5), targets=[[-1.0], [1.0]], seed=seed)
    model = ScaledNetwork(Network(1, width, nonlinearity, scaling))
    return learn(key, model, 0.02, task, steps=3000, stop_loss=1e-8, repeats=networks)


class Ends(NamedTuple):
    """Squared distances where training ends, of the networks that were trained to the end, shape (n,) each.

    Attributes:
        reached: H after training.
        predicted: H* with the rates fitted to each network.
        limit: the same at small weights.
    """

    reached: np.ndarray
    predicted: np.ndarray
    limit: np.ndarray


def ends(networks: Trained) -> Ends:
    """Where networks end and where they should."""
    rows = []
    for r in map(int, networks.done):
        (H0, Q0, _), fit = networks.trajectory(r)[:, 0], networks.fit(r)
        given = fit.eta_h, fit.eta_y, networks.dx2, networks.dy2
        predicted, limit = two_point.final_distance(H0, Q0, *given), two_point.rich_distance(*given)
        rows.append([networks.trajectory(r)[0, -1], float(predicted), float(limit)])
    return Ends(*np.transpose(rows))


def change(networks: Trained) -> np.ndarray:
    """Share by which training changes H, in each network that was trained to the end."""
    H = networks.run.tracked["H"][networks.done, :, networks.model.middle]
    return np.abs(H[:, -1] / H[:, 0] - 1)


def each_spread(values: Iterable[np.ndarray]) -> Estimate:
    """Means over networks and their errors, an element for each kind of network."""
    return Estimate(*np.transpose([spread(each) for each in values]))


@dataclass(frozen=True)
class Sampled:
    """Squared distances of inputs of one class in sampled networks of several widths, over the prior's.

    Attributes:
        starts: the networks of each width.
        same: at N → ∞, on a line in 1/N.
        each_start: the same from either start alone.
        theory: paper A's.
    """

    starts: list[Starts]
    same: Estimate
    each_start: tuple[Estimate, Estimate]
    theory: float


def sampled_distances(
    key: Any, nonlinearity: str, num_inputs: int, widths: Sequence[int], temperature: float, *,
    num_networks: int, seed: int, **options: Any,
) -> Sampled:  # fmt: skip
    """Sample the posterior on the toy task with three classes, half of the networks from theory's start."""
    task = tasks.toy(num_inputs, (0.5, 0.25, 0.25), y_plus=1.0, y_minus=0.0, seed=seed)
    solution, theory = within_class(task, nonlinearity, temperature)
    starts, options = [], options | {"num_chains": num_networks // 2}
    for k, width in enumerate(widths):
        posterior = Posterior(task, Network(1, width, nonlinearity), temperature)
        streams = jax.random.split(jax.random.fold_in(key, k), 2 + num_networks // 2)
        starts.append(
            both_starts((streams[0], streams[1], streams[2:]), posterior, solution, 0.5 / width, **options)
        )
    pairs = (task.labels[:, None] == task.labels) & ~np.eye(num_inputs, dtype=bool)
    found = [
        [squared_distances(half.activations())[..., pairs].mean((1, 2)) for half in each.halves]
        for each in starts
    ]

    def limit(chosen: slice) -> Estimate:
        rows = [
            spread(np.concatenate(halves[chosen]) / width / PRIOR[nonlinearity])
            for halves, width in zip(found, widths, strict=True)
        ]
        return extrapolated(widths, rows)

    both, first, second = (limit(slice(*chosen)) for chosen in ((None,), (1,), (1, 2)))
    return Sampled(starts, both, (first, second), theory)


def within_class(task: Task, nonlinearity: str, temperature: float) -> tuple[Any, float]:
    """Paper A's solution, and its 2⟨Var φ⟩, the squared distance within a class, over the prior's."""
    if nonlinearity == "linear":
        solution: Any = linear.solve(task, temperature=temperature)
        kernel, first = solution.kernels[1], np.searchsorted(task.labels, np.arange(len(task.class_counts)))
        within = kernel[first, first] - kernel[first, first + 1]
    else:
        solution = sigmoidal.solve(task, temperature)
        within = solution.kernel_diagonal
    counts = np.array(task.class_counts)
    return solution, float(2 * np.average(within, weights=counts * (counts - 1)) / PRIOR[nonlinearity])


# ---- figures ----------------------------------------------------------------------------------------


def square_matrices(
    matrices: ArrayLike, titles: ArrayLike, row_names: ArrayLike, ticks: ArrayLike, edges: ArrayLike = ()
) -> Figure:
    """Matrices of distances, each on its own scale from zero.

    Args:
        matrices: Rows and columns of panels, (R, K, n, n).
        titles: Of the columns (K,).
        row_names: Of the rows (R,).
        ticks: Names of the points (n,), or of the groups between edges.
        edges: Where groups of points begin; none where every point has a name.

    Returns:
        The figure.
    """
    panels, begin = np.asarray(matrices, dtype=float), np.asarray(edges, dtype=float)
    rows, columns, count = panels.shape[:3]
    place = (begin + np.append(begin[1:], count) - 1) / 2 if begin.size else np.arange(count)
    side = WIDTH / columns
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, 0.3 + rows * side), squeeze=False, sharex=True, sharey=True
    )
    for axis, panel in zip(axes.flat, panels.reshape(-1, count, count), strict=True):
        axis.imshow(panel / max(panel.max(), 1e-30), cmap="Greens", vmin=0, vmax=1)
        for set_ticks in (axis.set_xticks, axis.set_yticks):
            set_ticks(place, [str(t) for t in np.asarray(ticks)])
        axis.tick_params(length=0)
    _name(axes, titles, row_names)
    return figure


def projections(
    points: ArrayLike, targets: ArrayLike, learned: ArrayLike, titles: ArrayLike, row_names: ArrayLike
) -> Figure:
    """Representations of two contexts on two principal axes, colored by target.

    Args:
        points: Rows and columns of panels, (R, K, contexts, n, 2).
        targets: (contexts, n).
        learned: Whether the network of a panel has left its plateau, (R, K).
        titles: Of the columns (K,).
        row_names: Of the rows (R,).

    Returns:
        The figure; circles and squares are the two contexts.
    """
    panels = np.asarray(points)
    rows, columns = panels.shape[:2]
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, 0.4 + 2.0 * rows), squeeze=False)
    flat = panels.reshape(-1, *panels.shape[2:])
    for axis, panel, done in zip(axes.flat, flat, np.ravel(learned), strict=True):
        for xy, colors, marker in zip(panel, np.asarray(targets), "os", strict=True):
            dots = axis.scatter(xy[:, 0], xy[:, 1], c=colors, s=4, marker=marker, cmap="viridis")
        if not done:
            axis.set_xlabel("still on its plateau")
        axis.set_aspect("equal", adjustable="datalim")
        axis.set(xticks=[], yticks=[])
    _name(axes, titles, row_names)
    figure.colorbar(dots, ax=axes, label="target", fraction=0.04, pad=0.02)
    return figure


def _name(axes: np.ndarray, titles: ArrayLike, row_names: ArrayLike) -> None:
    """Titles above the columns of a grid, names beside its rows."""
    for axis, title in zip(axes[0], np.asarray(titles), strict=True):
        axis.set_title(str(title))
    for axis, name in zip(axes[:, 0], np.asarray(row_names), strict=True):
        axis.set_ylabel(str(name))
