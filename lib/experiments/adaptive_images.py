"""Digits: when does learning features help? Adaptive kernels against lazy ones, dense and convolutional."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.sampling import integrated
from coding_schemes.tasks import Task
from coding_schemes.theory import adaptive_kernel, dmft, gaussian_process
from coding_schemes.theory import features as _features
from coding_schemes.theory.features import Features
from companion import figures
from companion.checks import above, below, check
from companion.workbench import solved

DIGITS = (0, 2)
IMAGE, PATCH, STRIDE = (28, 28, 1), 20, 8  # four overlapping patches of 20 × 20 pixels
NUM_VALIDATION, NUM_TEST = 200, 400
REST_TOLERANCE = 1e-6  # a tenth of it moves test losses by 2 % at most, for 3 times the steps
RIDGES = np.geomspace(1e-3, 10, 9)  # of the lazy kernels
COLORS = {"random features": "#6BAED6", "aNBK": "#084594", "NTK": "#FDAE6B", "aNTK": "#A63603"}
PATCH_COLORS = {"NTK of patches": "#A1D99B", "aNTK of patches": "#006D2C"}


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


def lazily_labeled(task: Task, nonlinearity: str, tangent: bool, seed: int) -> Task:
    """The same images with targets drawn from the lazy kernel's own Gaussian process, of unit variance."""
    images: Any = np.concatenate([task.inputs, task.test_inputs], axis=1)
    kernel = lazy_kernels(_features.dense(task, nonlinearity), images, images, nonlinearity, tangent)
    values, vectors = np.linalg.eigh(kernel)
    noise = np.random.default_rng(seed).standard_normal((len(values), 1))
    drawn = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * noise)
    drawn /= drawn.std()
    return replace(task, targets=drawn[: task.num_inputs], test_targets=drawn[task.num_inputs :])


def lazy_kernels(
    features: Features, inputs: np.ndarray, others: np.ndarray, nonlinearity: str, tangent: bool
) -> np.ndarray:
    """Kernel of random features, or the tangent kernel: the mean over positions of that of the patches."""
    kernel = gaussian_process.tangent_kernels if tangent else gaussian_process.prior_kernels
    patches, other_patches = (features.patches(np.asarray(x, float)) for x in (inputs, others))
    scale = patches.shape[-1] ** 0.5
    pairs = zip(patches, other_patches, strict=True)
    return np.mean([kernel(scale * x.T, scale * z.T, nonlinearity, 1)[1] for x, z in pairs], axis=0)


def chosen(task: Task, outputs: Any) -> float:
    """Test loss ⟨(y − f)²⟩ of that of the outputs (settings, P*, m) that does best on validation images."""
    errors = np.square(np.asarray(outputs) - task.test_targets).mean(2)
    best = errors[:, :NUM_VALIDATION].mean(1).argmin()
    return float(errors[best, NUM_VALIDATION:].mean())


def lazy_loss(task: Task, nonlinearity: str, tangent: bool, features: Features | None = None) -> float:
    """Test loss of a lazy kernel, its ridge chosen on the validation images."""
    features = _features.dense(task, nonlinearity) if features is None else features
    images: Any = task.test_inputs
    kernel, rows = (
        lazy_kernels(features, x, task.inputs, nonlinearity, tangent) for x in (task.inputs, images)
    )
    fits = [rows @ np.linalg.solve(kernel + r * np.eye(len(kernel)), task.targets) for r in RIDGES]
    return chosen(task, fits)


def antk_loss(task: Task, decays: Any, features: Features | None = None, **search: Any) -> float:
    """Test loss of ReLU networks at rest, γ0 = 1, their weight decay chosen on the validation images."""
    search |= {"features": features, "average_steps": 0}
    ends = [solved(dmft.fixed_point, task, "relu", 1.0, decay, **search) for decay in decays]
    return chosen(task, [end.test_outputs[-1] for end in ends])


def anbk_loss(task: Task, richness: float, ridges: Any, **solver: Any) -> float:
    """Test loss of the adaptive kernel of erf networks, its ridge chosen on the validation images."""
    network, solver = Network(1, 1, "erf"), solver | {"method": "population"}
    found = [solved(adaptive_kernel.solve, task, network, richness, ridge, **solver) for ridge in ridges]
    return chosen(task, [each.predict(task.test_inputs) for each in found])


def convolution(task: Task, nonlinearity: str) -> Features:
    """Overlapping patches, a readout for each position."""
    return _features.convolution(task, nonlinearity, IMAGE, PATCH, STRIDE)


@dataclass(frozen=True)
class Losses:
    """Test losses over the number of images and over draws of the images.

    Attributes:
        sizes: P, shape (S,).
        losses: by predictor, each of shape (S, draws).
        lazily_labeled: at the largest P with targets from the lazy process, each of shape (draws,).
        permuted: convolutional predictors at the largest P with permuted pixels, each of shape (draws,).
        unsolved: predictor, P and reason of what was not solved; its losses are NaN.
    """

    sizes: tuple[int, ...]
    losses: dict[str, np.ndarray]
    lazily_labeled: dict[str, np.ndarray]
    permuted: dict[str, np.ndarray]
    unsolved: tuple[tuple[str, int, str], ...]

    @property
    def draws(self) -> int:
        """Number of draws."""
        return self.losses["NTK"].shape[1]

    def trouble(self, *names: str) -> SimpleNamespace | None:
        """What was not solved of these predictors, for a check of them, which is then at most "partly"."""
        found = [(f"{name}, P = {size}", reason) for name, size, reason in self.unsolved if name in names]
        if not found:
            return None
        count = f"{len(found)} {'loss' if len(found) == 1 else 'losses'}"
        verdict = f"{count} left out; {found[0][0]}: {found[0][1]}"
        places = "; ".join(dict.fromkeys(place for place, _ in found))
        return SimpleNamespace(converged=False, verdict=verdict, places=places)

    def gains(self, worse: str, better: str) -> np.ndarray:
        """By how many standard errors over draws the one loses more than the other, for every P."""
        return gain(self.losses[worse], self.losses[better])


def gain(worse: np.ndarray, better: np.ndarray) -> np.ndarray:
    """Mean paired difference over its standard error, over draws on the last axis, NaN left out."""
    difference = worse - better
    counts = np.isfinite(difference).sum(-1)
    return np.nanmean(difference, -1) / (np.nanstd(difference, -1, ddof=1) / counts**0.5)


def losses(seed: int, settings: SimpleNamespace) -> Losses:
    """All predictors on every draw of every size; the settings are the chapter's."""
    decays, ridges = settings.image_decays, settings.image_ridges
    solver = {"num_neurons": settings.image_neurons, "num_rounds": settings.image_rounds}
    search = {"num_neurons": settings.rest_neurons, "tolerance": REST_TOLERANCE}
    seeds = range(seed, seed + settings.draws)
    predictors: dict[str, Callable[[Task], float]] = {
        "random features": lambda t: lazy_loss(t, "erf", False),
        "aNBK": lambda t: anbk_loss(t, 1.0, ridges, **solver),
        "NTK": lambda t: lazy_loss(t, "relu", True),
        "aNTK": lambda t: antk_loss(t, decays, **search),
        "NTK of patches": lambda t: lazy_loss(t, "relu", True, convolution(t, "relu")),
        "aNTK of patches": lambda t: antk_loss(t, decays, convolution(t, "relu"), **search),
    }

    unsolved: list[tuple[str, int, str]] = []

    def loss(name: str, task: Task) -> float:
        try:
            return predictors[name](task)
        except FloatingPointError as reason:
            unsolved.append((name, task.num_inputs, str(reason)))
            return np.nan

    def over(drawn: list[Task], *names: str) -> dict[str, np.ndarray]:
        return {name: np.array([loss(name, task) for task in drawn]) for name in names}

    drawn = [[digits(size, s) for s in seeds] for size in settings.image_sizes]
    found = [over(tasks, *predictors) for tasks in drawn]
    largest = [*zip(drawn[-1], seeds, strict=True)]
    bayes, flow = ([lazily_labeled(t, phi, phi == "relu", s) for t, s in largest] for phi in ("erf", "relu"))
    return Losses(
        tuple(settings.image_sizes),
        {name: np.array([each[name] for each in found]) for name in predictors},
        over(bayes, "random features", "aNBK") | over(flow, "NTK", "aNTK"),
        over([permuted(t, s) for t, s in largest], "NTK of patches", "aNTK of patches"),
        tuple(unsolved),
    )


def over_images(found: Losses) -> dict[str, Any]:
    """Figure: test losses of lazy and adaptive kernels over P."""
    caption = (
        f"With enough images of digits {DIGITS[0]} and {DIGITS[1]} learned features lower the test loss. "
        f"Mean squared error on {NUM_TEST} new images over the number of training images: the lazy kernels, "
        "random features and NTK, and the adaptive ones that they become, aNBK (erf, γ₀ = 1) and aNTK (ReLU "
        "with weight decay). Lazy ridges are chosen on other images; bands: standard errors over "
        f"{found.draws} draws. Paper B, Fig. 3a."
    )
    return _curves(found, "images", COLORS, caption)


def over_patches(found: Losses) -> dict[str, Any]:
    """Figure: test losses of dense and convolutional networks over P."""
    caption = (
        "The aNTK serves convolutional networks too. Test loss of dense (brown) and convolutional "
        "(green) ReLU networks, lazy (NTK) and at rest under weight decay, which is the aNTK's "
        f"prediction. Digits {DIGITS[0]} and {DIGITS[1]}; four overlapping patches of {PATCH} × {PATCH} "
        f"pixels, a readout for each; bands: standard errors over {found.draws} draws. Paper B, Fig. 5."
    )
    colors = {name: COLORS[name] for name in ("NTK", "aNTK")}
    return _curves(found, "patches", colors | PATCH_COLORS, caption)


def _curves(found: Losses, name: str, colors: dict[str, str], caption: str) -> dict[str, Any]:
    values, trouble = [found.losses[each] for each in colors], found.trouble(*colors)
    return {
        "plot_function": figures.curves,
        "name": name,
        "caption": f"{caption} Left out, as not solved: draws of {trouble.places}." if trouble else caption,
        "x": found.sizes,
        "values": [np.nanmean(each, 1) for each in values],
        "errors": [np.nanstd(each, 1, ddof=1) / np.isfinite(each).sum(1) ** 0.5 for each in values],
        "names": [*colors],
        "colors": [*colors.values()],
        "scales": ("log", "log"),
        "xticks": found.sizes,
        "xlabel": "training images $P$",
        "ylabel": "test loss",
    }


def check_images(found: Losses) -> None:
    """Adaptive kernels against the lazy ones that they start from, at the largest and the smallest P."""
    small, large = found.sizes[0], found.sizes[-1]
    for lazy, adaptive in (("random features", "aNBK"), ("NTK", "aNTK")):
        gains, control = found.gains(lazy, adaptive), found.lazily_labeled
        check(
            "B7",
            f"test loss of {lazy} above that of {adaptive}, P = {large}, in standard errors over draws",
            gains[-1],
            above(3),
            control=("targets drawn from the lazy process", gain(control[lazy], control[adaptive])),
            sampler=found.trouble(lazy, adaptive),
            because="the draws differ by more than the predictors",
        )
        check(
            "B7",
            f"test loss of {adaptive} above that of {lazy}, P = {small}, in standard errors over draws",
            -gains[0],
            above(3),
            control=(f"P = {large}", -gains[-1]),
            sampler=found.trouble(lazy, adaptive),
            because="even at the smallest P learned features do not hurt significantly; paper B finds its "
            "window with natural images",
        )


class Convolutions(NamedTuple):
    """Both predictors for convolutional networks: rms distances of outputs on new images.

    Attributes:
        identity: of a network at rest from regression with its own final kernel.
        dense: from regression with the final kernel of a dense network.
        adaptive: of sampled networks' mean, readouts integrated out, from the adaptive kernel's.
        lazy: from those of the kernel of random features with the same ridge.
        sampled: the networks.
    """

    identity: np.floating
    dense: np.floating
    adaptive: np.floating
    lazy: np.floating
    sampled: integrated.Networks


def convolutions(
    key: Any, num_inputs: int, width: int, seed: int, solver: Any, **counts: Any
) -> Convolutions:
    """One draw of the digits: gradient flow at rest, and the posterior at γ0 = 2, 1/β = 0.1."""
    task, richness, ridge = digits(num_inputs, seed), 2.0, 0.1
    images: Any = task.test_inputs
    ends = [
        solved(dmft.fixed_point, task, "relu", 1.0, 0.1, num_neurons=32, features=f)
        for f in (convolution(task, "relu"), _features.dense(task, "relu"))
    ]
    patches = convolution(task, "erf")
    solver = solver | {"features": patches}
    theory = solved(adaptive_kernel.solve, task, Network(1, 1, "erf"), richness, ridge, **solver)
    kernel, rows = (
        lazy_kernels(patches, x, task.inputs, "erf", tangent=False) for x in (task.inputs, images)
    )
    sampled = integrated.sample(key, patches, images, richness, ridge, (width,), **counts)[0]
    outputs, mean = ends[0].test_outputs[-1], sampled.means.mean((0, 1))
    return Convolutions(
        rms(outputs - solved(dmft.antk, ends[0]).predict()),
        rms(outputs - solved(dmft.antk, ends[1]).predict()),
        rms(mean - theory.predict(images)),
        rms(mean - rows @ np.linalg.solve(kernel + ridge * np.eye(num_inputs), task.targets)),
        sampled,
    )


def check_convolutions(conv: Convolutions, found: Losses) -> None:
    """Identity and adaptive kernel of convolutional networks, and their test loss against dense ones."""
    check(
        "B10",
        "rms distance on new images of a convolutional network at rest from regression with its own kernel",
        conv.identity,
        below(0.01),
        control=("kernel of a dense network at rest", conv.dense),
        because="gates are averages over a finite time",
    )
    check(
        "B10",
        "rms difference of sampled convolutional networks' mean output from the adaptive kernel's, N = "
        f"{conv.sampled.width}",
        conv.adaptive,
        below(0.03),
        control=("lazy kernel", conv.lazy),
        sampler=conv.sampled.convergence,
        because="the mean of few samples at a finite width",
    )
    for lazy, kind in (("NTK", "lazy"), ("aNTK", "at rest")):
        check(
            "B10",
            f"test loss of dense networks above that of convolutional ones, both {kind}, P = "
            f"{found.sizes[-1]}, in standard errors over draws",
            found.gains(lazy, f"{lazy} of patches")[-1],
            above(3),
            control=(
                "pixels in another order",
                gain(found.losses[lazy][-1], found.permuted[f"{lazy} of patches"]),
            ),
            sampler=found.trouble(lazy, f"{lazy} of patches"),
            because="dense networks that learn features catch up at this number of digits",
        )


def rms(values: Any) -> np.floating:
    """Root of the mean square."""
    return np.sqrt(np.mean(np.square(values)))
