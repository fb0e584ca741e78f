"""What the chapter on adaptive kernels and images runs and measures: losses over P, and convolutions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from coding_schemes import paths, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.sampling import Convergence, integrated
from coding_schemes.statistics import share_of_way
from coding_schemes.tasks import Task
from coding_schemes.theory import adaptive_kernel, dmft, gaussian_process
from coding_schemes.theory import features as _features
from coding_schemes.theory.features import Features
from companion.findings import Estimate, extrapolated
from companion.workbench import solved

DIGITS = (0, 2)
IMAGE, PATCH, STRIDE = (28, 28, 1), 20, 8  # four overlapping patches of 20 × 20 pixels
NUM_VALIDATION, NUM_TEST = 160, 400
RIDGES = tuple(np.geomspace(1e-2, 30, 8))  # among which those of the lazy kernels are chosen
Predictor = Callable[[Task, int], Iterable[np.ndarray]]


def digits(num_inputs: int, seed: int) -> Task:
    """Two digits with the targets ±1; the test split begins with the images that choose ridges."""
    counts, targets = (num_inputs, NUM_VALIDATION + NUM_TEST), [[1.0], [-1.0]]
    task: Any = tasks.mnist(*counts, DIGITS, targets=targets, seed=seed, balanced=True)
    order = np.random.default_rng(seed).permutation(NUM_VALIDATION + NUM_TEST)
    test = {"test_labels": task.test_labels[order], "test_targets": task.test_targets[order]}
    return replace(task, test_inputs=task.test_inputs[:, order], **test)


def permuted(task: Task, seed: int) -> Task:
    """The same images with their pixels in another order, one for all: dense networks see no difference."""
    order = np.random.default_rng(seed).permutation(task.input_dim)
    images: Any = task.test_inputs
    return replace(task, inputs=task.inputs[order], test_inputs=images[order])


def lazily_labeled(task: Task, nonlinearity: str, tangent: bool, ridge: float, seed: int) -> Task:
    """The same images with targets from the lazy kernel's own Gaussian process.

    Those for training have noise of the ridge's variance on top, and then unit variance. So the lazy kernel
    with this ridge is Bayes' own predictor, and on average no other can have a lower test loss.
    """
    images: Any = np.concatenate([task.inputs, task.test_inputs], axis=1)
    kernel = lazy_kernels(_features.dense(task, nonlinearity), images, images, nonlinearity, tangent)
    values, vectors = np.linalg.eigh(kernel)
    strengths, noise = np.random.default_rng(seed).standard_normal((2, len(values), 1))
    drawn = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * strengths)
    noisy = drawn[: task.num_inputs] + ridge**0.5 * noise[: task.num_inputs]
    scale = noisy.std()
    return replace(task, targets=noisy / scale, test_targets=drawn[task.num_inputs :] / scale)


def lazy_kernels(
    features: Features, inputs: np.ndarray, others: np.ndarray, nonlinearity: str, tangent: bool
) -> np.ndarray:
    """Kernel of random features, or the tangent kernel: the mean over positions of that of the patches."""
    kernel = gaussian_process.tangent_kernels if tangent else gaussian_process.prior_kernels
    patches, other_patches = (features.patches(np.asarray(x, float)) for x in (inputs, others))
    scale = patches.shape[-1] ** 0.5
    pairs = zip(patches, other_patches, strict=True)
    return np.mean([kernel(scale * x.T, scale * z.T, nonlinearity, 1)[1] for x, z in pairs], axis=0)


# ---- predictors: outputs on a task's new images, ridge by ridge ------------------------------------


def lazy_outputs(
    task: Task, features: Features, nonlinearity: str, tangent: bool, ridges: Any
) -> Iterator[np.ndarray]:
    """Outputs of a lazy kernel."""
    images: Any = task.test_inputs
    kernel, rows = (
        lazy_kernels(features, x, task.inputs, nonlinearity, tangent) for x in (task.inputs, images)
    )
    for ridge in ridges:
        yield rows @ np.linalg.solve(kernel + ridge * np.eye(len(kernel)), task.targets)


def rest_outputs(task: Task, features: Features, ridge: float, seed: int, **search: Any) -> np.ndarray:
    """Outputs of a ReLU network at rest, γ0 = 1, λ half the ridge; NaN if it does not come to rest."""
    search |= {"features": features, "seed": seed, "average_steps": 0}
    try:
        return solved(dmft.fixed_point, task, "relu", 1.0, ridge / 2, **search).test_outputs[-1]
    except FloatingPointError:
        return _unknown(task)


def posterior_outputs(task: Task, ridge: float, **solver: Any) -> np.ndarray:
    """Outputs of the adaptive kernel of erf networks, γ0 = 1, by its population; NaN if it is not found."""
    network, solver = Network(1, 1, "erf"), solver | {"method": "population"}
    try:
        return solved(adaptive_kernel.solve, task, network, 1.0, ridge, **solver).predict(task.test_inputs)
    except FloatingPointError:
        return _unknown(task)


def _unknown(task: Any) -> np.ndarray:
    """Outputs in place of those that were not found."""
    return np.full(task.test_targets.shape, np.nan)


# ---- losses over the number of images ---------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """Squared errors over the number of images, draws of the images, and ridges, of several predictors.

    Attributes:
        sizes: P, shape (S,).
        ridges: those that lazy and adaptive kernels share, which stand first; lazy ones go on with RIDGES.
        errors: by predictor, on validation and test images, shape (S, draws, 2, ridges); NaN where unknown.
        controls: the same of altered tasks of `control_size` images, shape (draws, 2, ridges).
        control_size: P of the altered tasks.
        stored: the file that they were read from, if any.
    """

    sizes: np.ndarray
    ridges: np.ndarray
    errors: Mapping[str, np.ndarray]
    controls: Mapping[str, np.ndarray]
    control_size: int
    stored: str = ""

    @property
    def draws(self) -> int:
        """Number of draws of the images."""
        return next(iter(self.errors.values())).shape[1]

    def loss(self, name: str, ridge: int | None, control: bool = False) -> np.ndarray:
        """Test loss ⟨(y − f)²⟩, shape (S, draws) or (draws,), at one of the shared ridges.

        With None it is that of the ridge with which each draw does best on its validation images.
        """
        validation, test = np.moveaxis((self.controls if control else self.errors)[name], -2, 0)
        if ridge is not None:
            return test[..., ridge]
        best = np.where(np.isnan(validation), np.inf, validation).argmin(-1)
        return np.take_along_axis(test, best[..., None], -1)[..., 0]

    def known(self, name: str, ridge: int | None) -> np.ndarray:
        """Whether five draws, or all of fewer, have it, shape (S,); with None, at all shared ridges."""
        shared = range(len(self.ridges)) if ridge is None else [ridge]
        counts = [np.isfinite(self.loss(name, each)).sum(1) for each in shared]
        return np.min(counts, axis=0) >= min(5, self.draws)

    def mean(self, name: str, ridge: int | None) -> Estimate:
        """Mean test loss over draws, shape (S,); NaN where it is not known."""
        return paired(np.where(self.known(name, ridge)[:, None], self.loss(name, ridge), np.nan))

    def over_ridges(self, name: str, size: int) -> Estimate:
        """Mean test loss over draws at one P, shape (ridges,)."""
        return paired(self.errors[name][self.sizes == size][0, :, 1].T)

    def largest(self, pairs: Mapping[str, str], ridge: int | None) -> list[int]:
        """The largest P at which both of a pair are known, else the smallest there is."""
        both = [self.known(better, ridge) & self.known(worse, ridge) for better, worse in pairs.items()]
        return [int(self.sizes[known].max(initial=self.sizes.min())) for known in both]

    def gains(self, pairs: Mapping[str, str], ridge: int | None, sizes: Sequence[int]) -> Estimate:
        """What each key saves of the loss of its value at its own P, paired by draw, shape (pairs,)."""
        rows = [self.loss(worse, ridge) - self.loss(better, ridge) for better, worse in pairs.items()]
        return paired(np.array([row[self.sizes == size][0] for row, size in zip(rows, sizes, strict=True)]))

    def shares(self, pairs: Mapping[str, str], ridge: int | None) -> Estimate:
        """Share of the loss of its value that each key saves, over the number of images, shape (pairs, S).

        The error is that of two with draws of their own. They share them, so that it is rather too large.
        """
        means = [(self.mean(better, ridge), self.mean(worse, ridge)) for better, worse in pairs.items()]
        left = np.array([one.value / other.value for one, other in means])
        errors = [np.hypot(*(each.error / each.value for each in pair)) for pair in means]
        return Estimate(1 - left, left * np.array(errors))

    def control_gains(self, pairs: Mapping[str, str], ridge: int | None, both: bool = True) -> Estimate:
        """The same of the altered tasks; unless `both`, of a loss on the task as it was."""
        where = np.flatnonzero(self.sizes == self.control_size)[0]
        rows = [
            (self.loss(worse, ridge, control=True) if both else self.loss(worse, ridge)[where])
            - self.loss(better, ridge, control=True)
            for better, worse in pairs.items()
        ]
        return paired(np.array(rows))


def paired(difference: np.ndarray) -> Estimate:
    """Mean over draws, on the last axis, and its standard error, NaN left out."""
    count = np.isfinite(difference).sum(-1)
    some = np.where(count[..., None] > 1, difference, np.nan)
    center = np.nansum(some, -1) / np.maximum(count, 1)
    scatter = np.nansum((some - center[..., None]) ** 2, -1) / np.maximum(count - 1, 1)
    return Estimate(np.where(count > 1, center, np.nan), np.sqrt(scatter / np.maximum(count, 1)))


def measured(predictor: Predictor, tasks: Sequence[Task], draws: Sequence[int]) -> np.ndarray:
    """Squared errors on validation and on test images, shape (draws, 2, ridges)."""
    rows = []
    for task, draw in zip(tasks, draws, strict=True):
        errors = np.array([np.square(f - task.test_targets).mean(1) for f in predictor(task, draw)])
        rows.append([errors[:, :NUM_VALIDATION].mean(1), errors[:, NUM_VALIDATION:].mean(1)])
    return np.array(rows)


def dense_predictors(
    ridges: Sequence[float],
    solver: Mapping[str, Any],
    search: Mapping[str, Any],
    largest: Mapping[str, Mapping[float, int]] = MappingProxyType({}),
) -> dict[str, Predictor]:
    """Lazy and adaptive kernels of dense networks at the same ridges; lazy ones have more to choose from.

    Adaptive ones are solved up to so many images at a ridge that `largest` names, the outputs NaN beyond.
    """
    more = (*ridges, *RIDGES)

    def reached(name: str, predictor: Callable[[Task, float, int], np.ndarray]) -> Predictor:
        most = largest.get(name, {})

        def outputs(task: Task, draw: int) -> Iterator[np.ndarray]:
            for ridge in ridges:
                there = task.num_inputs <= most.get(ridge, np.inf)
                yield predictor(task, ridge, draw) if there else _unknown(task)

        return outputs

    return {
        "NTK": lambda t, _: lazy_outputs(t, _features.dense(t, "relu"), "relu", True, more),
        "aNTK": reached("aNTK", lambda t, r, s: rest_outputs(t, _features.dense(t, "relu"), r, s, **search)),
        "random features": lambda t, _: lazy_outputs(t, _features.dense(t, "erf"), "erf", False, more),
        "aNBK": reached("aNBK", lambda t, r, _: posterior_outputs(t, r, **solver)),
    }


def without_features(name: str, task: Task, ridge: float, draw: int) -> Task:
    """Pixels in another order for convolutions; else targets from the lazy kernel's own Gaussian process."""
    if name.endswith("patches"):
        return permuted(task, draw)
    phi, tangent = ("relu", True) if name.endswith("NTK") else ("erf", False)
    return lazily_labeled(task, phi, tangent, ridge, draw)


def stored_curves() -> Curves:
    """What `adaptive_images.pairs` has left; draws that it did not come to are NaN."""
    name = "data/results/cifar10-adaptive-curves.npz"
    with np.load(paths.located(name)) as stored:
        arrays = dict(stored)
    date = json.loads(str(arrays["manifest"]))["date"]
    sizes, controls = arrays["sizes"], {}
    errors: dict[str, np.ndarray] = {}
    shape = len(sizes), max(len(array) for key, array in arrays.items() if key.startswith("errors"))
    for key in [key for key in arrays if "/" in key]:
        (kind, predictor, size), array = key.split("/"), arrays[key]
        if kind == "controls":
            controls[predictor] = array.astype(float)
        else:
            rows = errors.setdefault(predictor, np.full((*shape, *array.shape[1:]), np.nan))
            rows[sizes == int(size), : len(array)] = array
    file = f"{name}, of {date}"
    return Curves(sizes, arrays["ridges"], errors, controls, int(arrays["control size"]), file)


def digit_curves(
    seed: int,
    *,
    sizes: Sequence[int],
    draws: int,
    ridges: Sequence[float],
    neurons: int,
    rounds: int,
    rest_neurons: int,
) -> Curves:
    """Lazy and adaptive kernels of dense and convolutional networks on two digits, in this build."""
    search = {"num_neurons": rest_neurons, "tolerance": 1e-6}  # a tenth of it moves losses by 2 % at most
    solver, more = {"num_neurons": neurons, "num_rounds": rounds}, (*ridges, *RIDGES)
    predictors = dense_predictors(ridges, solver, search)
    predictors["NTK of patches"] = lambda t, _: lazy_outputs(t, convolution(t, "relu"), "relu", True, more)
    predictors["aNTK of patches"] = lambda t, s: (
        rest_outputs(t, convolution(t, "relu"), ridge, s, **search) for ridge in ridges
    )
    seeds = range(seed, seed + draws)
    drawn = [[digits(size, s) for s in seeds] for size in sizes]
    errors, controls = {}, {}
    for name, predictor in predictors.items():
        errors[name] = np.array([measured(predictor, each, seeds) for each in drawn])
        altered = [
            without_features(name, task, ridges[0], s) for task, s in zip(drawn[-1], seeds, strict=True)
        ]
        controls[name] = measured(predictor, altered, seeds)
    return Curves(np.array(sizes), np.array(ridges), errors, controls, sizes[-1])


# ---- convolutions ---------------------------------------------------------------------------------


def convolution(task: Task, nonlinearity: str) -> Features:
    """Overlapping patches, a readout for each position."""
    return _features.convolution(task, nonlinearity, IMAGE, PATCH, STRIDE)


@dataclass(frozen=True)
class Convolutions:
    """Both predictors for convolutional networks, on new images.

    Attributes:
        shares: of the way from the lazy to the adaptive kernel's outputs that sampled networks' mean goes,
            readouts integrated out, at 1/N → 0.
        half: how far the adaptive kernel at half the richness goes.
        convergence: of the sampled networks.
        identity: largest rms distance of networks at rest from regression with their own final kernel, over
            the rms of their outputs.
        dense: smallest such distance from regression with the final kernel of a dense network.
    """

    shares: Estimate
    half: np.ndarray
    convergence: list[Convergence]
    identity: np.floating
    dense: np.floating


def convolutions(
    key: Any,
    seed: int,
    *,
    num_inputs: int,
    widths: Sequence[int],
    rest_width: int,
    networks: int,
    neurons: int,
    rounds: int,
    **counts: Any,
) -> Convolutions:
    """One draw of the digits: the posterior at γ0 = 2, 1/β = 0.1, and networks at rest, λ = 0.1."""
    task, richness, ridge = digits(num_inputs, seed), 2.0, 0.1
    images: Any = task.test_inputs
    erf, relu = (convolution(task, phi) for phi in ("erf", "relu"))

    def theory(richness: float) -> np.ndarray:
        options: dict[str, Any] = {"features": erf, "num_neurons": neurons, "num_rounds": rounds}
        return solved(adaptive_kernel.solve, task, Network(1, 1, "erf"), richness, ridge, **options).predict(
            images
        )

    adapted, (lazy,) = theory(richness), lazy_outputs(task, erf, "erf", False, (ridge,))
    sampled = integrated.sample(key, erf, images, richness, ridge, widths, **counts)
    measured = [statistics.mean_and_error(share_of_way(run.means, lazy, adapted)) for run in sampled]

    def rest(features: Features, network: int) -> Any:
        options: dict[str, Any] = {"num_neurons": rest_width, "features": features, "seed": seed + network}
        return solved(dmft.fixed_point, task, "relu", 1.0, 0.1, **options)

    def away(path: Any, other: np.ndarray) -> np.floating:
        outputs = path.test_outputs[-1]
        return np.sqrt(np.mean((outputs - other) ** 2) / np.mean(outputs**2))

    resting = [rest(relu, k) for k in range(networks)]
    dense = solved(dmft.antk, rest(_features.dense(task, "relu"), 0)).predict()
    return Convolutions(
        extrapolated(widths, measured),
        share_of_way(theory(richness / 2), lazy, adapted),
        [run.convergence for run in sampled],
        max(away(each, solved(dmft.antk, each).predict()) for each in resting),
        min(away(each, dense) for each in resting),
    )
