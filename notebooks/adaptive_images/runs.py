"""What the chapter on adaptive kernels and images runs and measures: losses over P, and convolutions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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
from companion.findings import Estimate
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
    """The same images with targets from the lazy kernel's own Gaussian process, of unit variance.

    Those for training have noise of the ridge's variance on top. So the lazy kernel with this ridge is Bayes'
    own predictor, and on average no other can have a lower test loss.
    """
    images: Any = np.concatenate([task.inputs, task.test_inputs], axis=1)
    kernel = lazy_kernels(_features.dense(task, nonlinearity), images, images, nonlinearity, tangent)
    values, vectors = np.linalg.eigh(kernel)
    strengths, noise = np.random.default_rng(seed).standard_normal((2, len(values), 1))
    drawn = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * strengths)
    noisy = drawn[: task.num_inputs] + ridge**0.5 * noise[: task.num_inputs]
    scale = drawn.std()
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


def rest_outputs(
    task: Task, features: Features, ridges: Any, seed: int, **search: Any
) -> Iterator[np.ndarray]:
    """Outputs of ReLU networks at rest, γ0 = 1, λ half the ridge; NaN of one that did not come to rest."""
    search |= {"features": features, "seed": seed, "average_steps": 0}
    for ridge in ridges:
        try:
            yield solved(dmft.fixed_point, task, "relu", 1.0, ridge / 2, **search).test_outputs[-1]
        except FloatingPointError:
            yield np.full(np.shape(task.test_targets), np.nan)


def posterior_outputs(
    task: Task, ridges: Any, largest: Mapping[float, int], **solver: Any
) -> Iterator[np.ndarray]:
    """Outputs of the adaptive kernel of erf networks, γ0 = 1, by its population; NaN where not found.

    Ridges that are among `largest` are tried up to so many images.
    """
    network, solver = Network(1, 1, "erf"), solver | {"method": "population"}
    for ridge in ridges:
        try:
            if task.num_inputs > largest.get(ridge, np.inf):
                raise FloatingPointError("too many images for a population")
            yield solved(adaptive_kernel.solve, task, network, 1.0, ridge, **solver).predict(task.test_inputs)
        except FloatingPointError:
            yield np.full(np.shape(task.test_targets), np.nan)


# ---- losses over the number of images ---------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """Squared errors over the number of images, draws of the images, and ridges, of several predictors.

    Attributes:
        sizes: P, shape (S,).
        errors: by predictor, on validation and test images, shape (S, draws, 2, ridges); NaN where unknown.
        controls: the same of altered tasks of `control_size` images, shape (draws, 2, ridges).
        control_size: P of the altered tasks.
        stored: the file that they were read from, if any.
    """

    sizes: np.ndarray
    errors: Mapping[str, np.ndarray]
    controls: Mapping[str, np.ndarray]
    control_size: int
    stored: str = ""

    @property
    def draws(self) -> int:
        """Number of draws of the images."""
        return next(iter(self.errors.values())).shape[1]

    def loss(self, name: str, chosen: bool, control: bool = False) -> np.ndarray:
        """Test loss ⟨(y − f)²⟩, shape (S, draws) or (draws,), at the first ridge or at the one chosen."""
        validation, test = np.moveaxis((self.controls if control else self.errors)[name], -2, 0)
        if not chosen:
            return test[..., 0]
        best = np.where(np.isnan(validation), np.inf, validation).argmin(-1)
        return np.take_along_axis(test, best[..., None], -1)[..., 0]

    def mean(self, name: str, chosen: bool) -> Estimate:
        """Mean test loss over draws, shape (S,)."""
        return paired(self.loss(name, chosen))

    def gain(self, worse: str, better: str, chosen: bool, sizes: Sequence[int]) -> Estimate:
        """By how much the one loses more than the other at some P, paired by draw."""
        difference = self.loss(worse, chosen) - self.loss(better, chosen)
        return paired(difference[np.isin(self.sizes, sizes)])

    def control_gain(self, worse: str, better: str, chosen: bool, as_it_is: bool = False) -> Estimate:
        """The same of the altered tasks; with `as_it_is` the worse one on the task before it was altered."""
        losses = self.loss(worse, chosen, control=not as_it_is)
        if as_it_is:
            losses = losses[np.flatnonzero(self.sizes == self.control_size)[0]]
        return paired(losses - self.loss(better, chosen, control=True))

    def known(self, *names: str) -> list[int]:
        """P at which all of these were computed in at least eight draws, or in all of fewer."""
        enough = min(8, self.draws)
        there = [np.isfinite(self.loss(name, False)).sum(1) >= enough for name in names]
        return [int(size) for size in self.sizes[np.all(there, axis=0)]]


def paired(difference: np.ndarray) -> Estimate:
    """Mean over draws, on the last axis, and its standard error, NaN left out."""
    count = np.isfinite(difference).sum(-1)
    some = np.where(count[..., None] > 1, difference, np.nan)
    center = np.nansum(some, -1) / count
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
    largest: Mapping[float, int] = MappingProxyType({}),
) -> dict[str, Predictor]:
    """Lazy and adaptive kernels of dense networks at the same ridges; lazy ones have more to choose from."""
    more = (*ridges, *RIDGES)
    return {
        "random features": lambda t, _: lazy_outputs(t, _features.dense(t, "erf"), "erf", False, more),
        "aNBK": lambda t, _: posterior_outputs(t, ridges, largest, **solver),
        "NTK": lambda t, _: lazy_outputs(t, _features.dense(t, "relu"), "relu", True, more),
        "aNTK": lambda t, s: rest_outputs(t, _features.dense(t, "relu"), ridges, s, **search),
    }


def without_features(name: str, task: Task, ridge: float, draw: int) -> Task:
    """Pixels in another order for convolutions; else targets from the lazy kernel's own Gaussian process."""
    if name.endswith("patches"):
        return permuted(task, draw)
    phi, tangent = ("relu", True) if name.endswith("NTK") else ("erf", False)
    return lazily_labeled(task, phi, tangent, ridge, draw)


def stored_curves(file: Path | None = None) -> Curves:
    """What `adaptive_images.pairs` has left."""
    name = "cifar10-adaptive-curves.npz"
    with np.load(file or (paths.repository_root() or Path()) / "data" / "results" / name) as stored:
        arrays = dict(stored)
    date = json.loads(str(arrays["manifest"]))["date"]
    errors, controls = (
        {key.split("/")[1]: value.astype(float) for key, value in arrays.items() if key.startswith(kind)}
        for kind in ("errors", "controls")
    )
    return Curves(
        arrays["sizes"], errors, controls, int(arrays["control size"]), f"data/results/{name}, of {date}"
    )


def digit_curves(
    seed: int,
    *,
    sizes: Sequence[int],
    draws: int,
    ridges: Sequence[float],
    decays: Sequence[float],
    neurons: int,
    rounds: int,
    rest_neurons: int,
) -> Curves:
    """Lazy and adaptive kernels of dense and convolutional networks on two digits, in this build."""
    search = {"num_neurons": rest_neurons, "tolerance": 1e-6}  # a tenth of it moves losses by 2 % at most
    solver = {"num_neurons": neurons, "num_rounds": rounds}
    predictors = dense_predictors(ridges, decays, solver, search)
    lazy, seeds = (2 * decays[0], *RIDGES), range(seed, seed + draws)
    predictors |= {
        "NTK of patches": lambda t, _: lazy_outputs(t, convolution(t, "relu"), "relu", True, lazy),
        "aNTK of patches": lambda t, s: rest_outputs(t, convolution(t, "relu"), decays, s, **search),
    }
    drawn = [[digits(size, s) for s in seeds] for size in sizes]
    errors, controls = {}, {}
    for name, predictor in predictors.items():
        errors[name] = np.array([measured(predictor, tasks, seeds) for tasks in drawn])
        altered = [without_features(name, task, s) for task, s in zip(drawn[-1], seeds, strict=True)]
        controls[name] = measured(predictor, altered, seeds)
    return Curves(np.array(sizes), errors, controls, sizes[-1])


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
        Estimate(*statistics.infinite_width(widths, *zip(*measured, strict=True))),
        share_of_way(theory(richness / 2), lazy, adapted),
        [run.convergence for run in sampled],
        max(away(each, solved(dmft.antk, each).predict()) for each in resting),
        min(away(each, dense) for each in resting),
    )
