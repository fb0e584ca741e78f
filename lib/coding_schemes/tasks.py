"""Tasks: inputs, class labels and targets, and the constructors of every task in the book.

Conventions (paper A): the inputs are the columns of X, shape (N0, P); the targets are the rows of
Y, shape (P, m). The input kernel is K0 = XᵀX / N0. Inputs are sorted by class, so that class
structure shows as blocks in every figure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coding_schemes import data, validation


@dataclass(frozen=True, eq=False)
class Task:
    """A supervised classification task, checked on construction.

    Args:
        inputs: training inputs X, shape (N0, P).
        labels: class index of every training input, shape (P,), values 0 … C−1.
        targets: training targets Y, shape (P, m). For one-hot tasks m = C.
        test_inputs: test inputs, shape (N0, P*), or None.
        test_labels: their classes, shape (P*,), or None.
        test_targets: their targets, shape (P*, m), or None.
        name: what figures call the task.
        class_names: what figures call the classes; "0", "1", … unless given.

    Raises:
        ValueError: shapes disagree, a value is masked or not finite, a class has no training input, or the
            inputs of a split are all zero.
    """

    inputs: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    test_inputs: np.ndarray | None = None
    test_labels: np.ndarray | None = None
    test_targets: np.ndarray | None = None
    name: str = "task"
    class_names: tuple[str, ...] = ()

    def __post_init__(self):
        self._check_split("")
        test = (self.test_inputs, self.test_labels, self.test_targets)
        if all(part is not None for part in test):
            self._check_split("test_", N0=self.input_dim, m=self.num_targets)
        elif any(part is not None for part in test):
            raise ValueError("test split: give test_inputs, test_labels and test_targets together, or none")
        if not self.class_names:
            object.__setattr__(self, "class_names", tuple(str(c) for c in range(self.num_classes)))
        if len(self.class_names) != self.num_classes:
            raise ValueError(f"class_names: got {self.class_names}, needs one for each of {self.num_classes}")

    def _check_split(self, prefix: str, **sizes: int) -> None:
        inputs, labels, targets = (f"{prefix}{part}" for part in ("inputs", "labels", "targets"))
        checked = validation.array(inputs, getattr(self, inputs), "N0, P", dtype=None, **sizes)
        if not checked.any():
            raise ValueError(f"{inputs}: are all zero, so that no network can tell them apart")
        size = checked.shape[1]
        classes = validation.labels(labels, getattr(self, labels), size, self.num_classes if prefix else None)
        values = validation.array(targets, getattr(self, targets), "P, m", dtype=None, P=size, **sizes)
        for name, value in ((inputs, checked), (labels, classes), (targets, values)):
            object.__setattr__(self, name, value)

    @property
    def num_inputs(self) -> int:
        """Number of training inputs, P."""
        return self.inputs.shape[1]

    @property
    def input_dim(self) -> int:
        """Input dimension, N0."""
        return self.inputs.shape[0]

    @property
    def num_targets(self) -> int:
        """Number of outputs, m."""
        return self.targets.shape[1]

    @property
    def num_classes(self) -> int:
        """Number of classes, C."""
        return int(self.labels.max()) + 1

    @cached_property
    def class_counts(self) -> np.ndarray:
        """Training inputs per class n_c, shape (C,)."""
        return np.bincount(self.labels, minlength=self.num_classes)

    @cached_property
    def class_targets(self) -> np.ndarray:
        """Target of every class, (C, m); ValueError where two inputs of one class have different targets."""
        first = np.array([np.argmax(self.labels == c) for c in range(self.num_classes)])
        per_class = self.targets[first]
        if not np.array_equal(per_class[self.labels], self.targets):
            raise ValueError("targets: inputs of one class have different targets, so no class target exists")
        return per_class

    @property
    def held_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Test inputs (N0, P*), labels (P*,) and targets (P*, m); ValueError where the task has none."""
        split = self.test_inputs, self.test_labels, self.test_targets
        if any(part is None for part in split):
            raise ValueError("task: has no test split; give the constructor num_test > 0")
        return split  # type: ignore[return-value]

    @cached_property
    def input_kernel(self) -> np.ndarray:
        """K0 = XᵀX / N0, shape (P, P)."""
        return self.inputs.T @ self.inputs / self.input_dim

    @cached_property
    def mean_overlaps(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of K0 over pairs of different inputs of two classes and over its diagonal, (C, C) and (C,).

        The former is 0 for a class of one input.
        """
        counts, members = self.class_counts, np.eye(self.num_classes)[self.labels]
        diagonal = np.diag(self.input_kernel) @ (members / np.maximum(counts, 1))
        sums = members.T @ self.input_kernel @ members - np.diag(counts * diagonal)
        return sums / np.maximum(np.outer(counts, counts) - np.diag(counts), 1), diagonal

    @cached_property
    def is_orthogonal(self) -> bool:
        """Whether K0 = 1, as on the toy task (to 1e-8)."""
        fits = self.num_inputs <= self.input_dim
        return fits and np.allclose(self.input_kernel, np.eye(self.num_inputs), atol=1e-8)


def toy(
    num_inputs: int,
    class_ratios: Sequence[float] = (0.5, 0.25, 0.25),
    y_plus: float = 1.0,
    y_minus: float = 0.0,
    seed: int = 0,
    *,
    input_dim: int | None = None,
    targets: ArrayLike | None = None,
    random_labels: bool = False,
) -> Task:
    """Orthogonal inputs with random class membership: paper A's toy task, without a test split.

    The inputs satisfy XᵀX / N0 = 1 exactly. An input of class c has target y₊ in component c and
    y₋ in all others, unless `targets` gives every class its own.

    Args:
        num_inputs: number of training inputs, P.
        class_ratios: fraction of the inputs in every class; sums to 1.
        y_plus: target of an input's own class.
        y_minus: target of all other classes.
        seed: draws the orthogonal directions (and the labels, with `random_labels`).
        input_dim: N0, at least P; P + 20 unless given, as in paper A.
        targets: (C, m) matrix of class targets in place of the one-hot ones.
        random_labels: draw every label with the probabilities `class_ratios` (paper A's Fig. 1)
            rather than filling the classes with exactly these fractions (all other figures).

    Raises:
        ValueError: ratios negative or not summing to one, a class left empty, N0 < P, targets of
            the wrong shape, or no task at all (all classes share one target).

    Source: paper A, "Main theoretical result" and "Parameters used in Figures".

    >>> task = toy(num_inputs=8, class_ratios=(0.5, 0.25, 0.25), y_minus=-0.5)
    >>> task.inputs.shape, task.class_counts.tolist(), task.is_orthogonal
    ((28, 8), [4, 2, 2], True)
    >>> task.class_targets.tolist()
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    input_dim, ratios = _sizes(num_inputs, class_ratios, input_dim)
    class_targets = _class_targets(len(ratios), y_plus, y_minus, targets)
    rng = _generator(seed)
    directions, rng.bit_generator.state = _orthonormal(input_dim, num_inputs, seed)
    if random_labels:
        labels = np.sort(rng.choice(len(ratios), size=num_inputs, p=ratios))
    else:
        labels = np.repeat(np.arange(len(ratios)), _apportion(ratios, num_inputs))
    _check_no_class_empty(labels, class_ratios)
    return Task(np.sqrt(input_dim) * directions, labels, class_targets[labels], name="toy task")


def clustered(
    num_inputs: int,
    class_ratios: Sequence[float] = (0.5, 0.25, 0.25),
    overlap: float | Sequence[float] = 0.5,
    y_plus: float = 1.0,
    y_minus: float = 0.0,
    seed: int = 0,
    *,
    input_dim: int | None = None,
    targets: ArrayLike | None = None,
) -> Task:
    """Classes that are clouds: inputs of one class overlap by ρ, those of different classes are orthogonal.

        XᵀX / N0 = (1 − ρ) 1 + ρ (ones within every class), exactly

    From the toy task, ρ = 0, to one point per class, ρ → 1.

    Args:
        num_inputs: number of training inputs, P.
        class_ratios: fraction of the inputs in every class; sums to 1.
        overlap: ρ, at least 0 and below 1; one for all classes, or one for each.
        y_plus: target of an input's own class.
        y_minus: target of all other classes.
        seed: draws the directions.
        input_dim: N0, at least P; P + 20 unless given.
        targets: (C, m) matrix of class targets in place of the one-hot ones.

    Raises:
        ValueError: as for `toy`, or an overlap outside [0, 1).

    >>> task = clustered(4, (0.5, 0.5), overlap=0.3)
    >>> abs(task.input_kernel[0]).round(9).tolist()
    [1.0, 0.3, 0.0, 0.0]
    """
    input_dim, ratios = _sizes(num_inputs, class_ratios, input_dim)
    overlaps = validation.array("overlap", overlap, "…")
    if overlaps.shape not in ((), ratios.shape) or np.any(overlaps < 0) or np.any(overlaps >= 1):
        raise ValueError(
            f"overlap: got {validation.shown(overlap)}, needs one number, or one for each of {len(ratios)} "
            "classes, of at least 0 and below 1"
        )
    between = np.diag(np.broadcast_to(overlaps, ratios.shape))
    class_targets = _class_targets(len(ratios), y_plus, y_minus, targets)
    return _block_task(num_inputs, class_ratios, between, class_targets, seed, input_dim, "clustered task")


def tree(
    num_inputs: int,
    class_ratios: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
    groups: Sequence[int] = (0, 0, 1, 1),
    overlaps: tuple[float, float] = (0.5, 0.25),
    y_plus: float = 1.0,
    y_minus: float = 0.0,
    seed: int = 0,
    *,
    input_dim: int | None = None,
    targets: ArrayLike | None = None,
) -> Task:
    """Classes within super-classes: overlap ρ₁ within a class, ρ₂ ≤ ρ₁ between classes of a super-class.

    Args:
        num_inputs: number of training inputs, P.
        class_ratios: fraction of the inputs in every class; sums to 1.
        groups: super-class of every class, whole numbers 0 … S − 1.
        overlaps: (ρ₁, ρ₂) with 0 ≤ ρ₂ ≤ ρ₁ < 1; inputs of different super-classes are orthogonal.
        y_plus: target of an input's own class.
        y_minus: target of all other classes.
        seed: draws the directions.
        input_dim: N0, at least P; P + 20 unless given.
        targets: (C, m) matrix of class targets in place of the one-hot ones.

    Raises:
        ValueError: as for `toy`; the overlaps are not ordered; or not every class has a super-class.

    >>> task = tree(8, overlaps=(0.5, 0.25))
    >>> abs(task.input_kernel[0]).round(9).tolist()
    [1.0, 0.5, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0]
    """
    input_dim, ratios = _sizes(num_inputs, class_ratios, input_dim)
    within, super_class = validation.array("overlaps", overlaps, "2")
    if not 0 <= super_class <= within < 1:
        raise ValueError(
            f"overlaps: got {validation.shown(overlaps)}, needs 0 ≤ ρ₂ ≤ ρ₁ < 1: within a class inputs are "
            "at least as alike as within a super-class"
        )
    group = validation.labels("groups", groups, len(ratios))
    between = super_class * (group[:, None] == group) + (within - super_class) * np.eye(len(ratios))
    class_targets = _class_targets(len(ratios), y_plus, y_minus, targets)
    return _block_task(num_inputs, class_ratios, between, class_targets, seed, input_dim, "tree of classes")


def _sizes(num_inputs: int, class_ratios: Sequence[float], input_dim: int | None) -> tuple[int, np.ndarray]:
    """N0 and the classes' ratios, checked."""
    validation.counts(num_inputs=num_inputs)
    ratios = validation.array("class_ratios", class_ratios, "C")
    if np.any(ratios <= 0) or not np.isclose(ratios.sum(), 1.0):
        raise ValueError(
            f"class_ratios: got {class_ratios} with sum {ratios.sum():g}; "
            "needs positive numbers that sum to 1"
        )
    input_dim = num_inputs + 20 if input_dim is None else input_dim
    # P independent inputs need N0 ≥ P
    return validation.count("input_dim", input_dim, num_inputs), ratios


def _check_no_class_empty(labels: np.ndarray, class_ratios: Sequence[float]) -> None:
    missing = np.setdiff1d(np.arange(len(class_ratios)), labels)
    if missing.size:
        raise ValueError(f"class_ratios: {class_ratios} leave class {missing[0]} empty at P = {len(labels)}")


def _block_task(
    num_inputs: int,
    class_ratios: Sequence[float],
    between: np.ndarray,
    class_targets: np.ndarray,
    seed: int,
    input_dim: int,
    name: str,
) -> Task:
    """Inputs of unit K0_μμ whose overlaps depend on their classes alone, (C, C)."""
    labels = np.repeat(np.arange(len(between)), _apportion(np.asarray(class_ratios), num_inputs))
    _check_no_class_empty(labels, class_ratios)
    kernel = between[np.ix_(labels, labels)]
    np.fill_diagonal(kernel, 1.0)
    directions = _orthonormal(input_dim, num_inputs, validation.count("seed", seed, 0))[0]
    inputs = np.sqrt(input_dim) * directions @ np.linalg.cholesky(kernel).T
    return Task(inputs, labels, class_targets[labels], name=name)


def own(
    inputs: ArrayLike,
    labels: ArrayLike,
    targets: ArrayLike | None = None,
    *,
    y_plus: float = 1.0,
    y_minus: float = -0.5,
    name: str = "own",
) -> Task:
    """A reader's own task: inputs scaled so that the mean of |x|²/N0 is one, and sorted by class.

    Args:
        inputs: shape (N0, P).
        labels: class of every input, whole numbers 0 … C − 1, shape (P,).
        targets: shape (P, m); by itself y₊ for an input's own class and y₋ for the others.
        y_plus: target of an input's own class, where there are no targets.
        y_minus: target of the other classes.
        name: what figures call the task.

    Raises:
        ValueError: as for `Task`.
    """
    x = validation.array("inputs", inputs, "N0, P")
    classes = validation.labels("labels", labels, x.shape[1])
    if targets is None:
        targets = one_hot(int(classes.max()) + 1, y_plus, y_minus)[classes]
    y = validation.array("targets", targets, "P, m", P=x.shape[1])
    order, largest = np.argsort(classes, kind="stable"), np.abs(x).max() or 1.0
    x = x / largest  # squares of very large or small numbers would leave the range of floats
    return Task(x[:, order] / (np.sqrt(np.square(x).mean()) or 1.0), classes[order], y[order], name=name)


def mnist(
    num_inputs: int = 100,
    num_test: int = 1000,
    classes: Sequence[int] = (0, 1, 2),
    y_plus: float = 1.0,
    y_minus: float = -0.5,
    seed: int = 0,
    *,
    targets: ArrayLike | None = None,
    normalization: str = "standardize",
    balanced: bool = False,
    pool: str = "subset",
    folder: str | Path | None = None,
) -> Task:
    """Classification of MNIST digits, with a test split.

    The class of every input is drawn with equal probabilities, as in paper A, then an image of that class
    without replacement. The images depend on the arguments alone, not on where the files come from; the
    test images do not change with `num_inputs`, nor the training images with `num_test`.

    Args:
        num_inputs: number of training images, P.
        num_test: number of test images, P*; 0 for no test split.
        classes: the digits, in the order of the targets' components.
        y_plus: target of an image's own class.
        y_minus: target of all other classes.
        seed: draws the classes and the images.
        targets: (C, m) matrix of class targets in place of the one-hot ones.
        normalization: how pixels become inputs (paper A does not say):
            "standardize": minus the mean, over the standard deviation, of all pixels of all training images
            together, so that tr K0 = P; "pixel": the same for every pixel on its own, pixels that are
            constant over the training images set to zero, which makes the inputs sum to zero and K0 singular
            (rank P − 1 at most: theories at T = 0 may refuse it); "unit_norm": every image, uncentred, scaled
            to |x|² = N0, so that K0_μμ = 1; "unit_range": divided by 255, which leaves
            K0_μμ near 0.1 on digits.
        balanced: equal class sizes (to within one) in place of random ones, in both splits.
        pool: "subset" takes training and test images from the first 10,000 training images (for digits
            0, 1 and 2 these come with the repository); "full" takes them from the 60,000 training and the
            10,000 test images.
        folder: data folder to read from; None searches as in `coding_schemes.data`.

    Returns:
        A Task with N0 = 784, an image's rows one after the other.

    Raises:
        ValueError: a class has too few images or no input, or an argument is out of range.
        data.MissingDataError, data.CorruptDataError: the files are not there, or are not what they should be.

    Source: paper A, Fig. 6 and its parameters in Methods.
    """
    validation.choice("pool", pool, ("subset", "full"))

    def load():
        if pool == "full":
            return data.mnist("train", folder), data.mnist("test", folder)
        return 2 * (data.mnist_subset(classes, folder),)

    class_targets = _class_targets(len(classes), y_plus, y_minus, targets)
    return _image_task(load, num_inputs, num_test, classes, class_targets, seed, normalization, balanced)


def fashion_mnist(
    num_inputs: int = 100,
    num_test: int = 1000,
    classes: Sequence[int] = (0, 1, 2),
    y_plus: float = 1.0,
    y_minus: float = -0.5,
    seed: int = 0,
    *,
    targets: ArrayLike | None = None,
    normalization: str = "standardize",
    balanced: bool = False,
    folder: str | Path | None = None,
) -> Task:
    """Classification of Fashion-MNIST's clothes: 60,000 training and 10,000 test images to draw from.

    All as for `mnist`; the numbers of the classes are those of data.FASHION_CLASSES.
    """

    def load():
        return data.fashion_mnist("train", folder), data.fashion_mnist("test", folder)

    class_targets = _class_targets(len(classes), y_plus, y_minus, targets)
    return _image_task(load, num_inputs, num_test, classes, class_targets, seed, normalization, balanced)


def cifar10(
    num_inputs: int = 100,
    num_test: int = 200,
    classes: Sequence[int] = (0, 1, 2),
    y_plus: float = 1.0,
    y_minus: float = -0.5,
    seed: int = 0,
    *,
    targets: ArrayLike | None = None,
    normalization: str = "standardize",
    balanced: bool = False,
    pool: str = "subset",
    jpeg: bool = False,
    folder: str | Path | None = None,
) -> Task:
    """Classification of CIFAR-10's pictures; N0 = 3072, rows of pixels, three colors for each pixel.

    Arguments, task and errors as for `mnist`, but:

    - `classes` are places of their names in data.CIFAR_CLASSES;
    - "pixel" standardizes every color of every pixel on its own;
    - `pool="full"` draws from the 50,000 training and 10,000 test images, "subset" from 8,068 and 1,017 of
      them, data.CIFAR_SUBSET_POSITIONS, whose exact pixels fit a small file;
    - `jpeg` uses images that went through lossy JPEG compression. The task's name then says
      "CIFAR-10, JPEG-recompressed": never report its results as plain CIFAR-10 results.

    Source: paper A, Fig. 7 and supplement E.
    """
    validation.choice("pool", pool, ("subset", "full"))

    def load():
        read = data.cifar10 if pool == "full" else data.cifar10_subset
        return read("train", jpeg, folder), read("test", jpeg, folder)

    class_targets = _class_targets(len(classes), y_plus, y_minus, targets)
    return _image_task(load, num_inputs, num_test, classes, class_targets, seed, normalization, balanced)


def two_points(dx2: float = 1.0, dy2: float = 0.5) -> Task:
    """Two inputs and two outputs of one dimension each: x = −1, −1 + |dx|; y = 0.6, 0.6 + |dy|.

    dx2 and dy2 are the squared distances |dx|² > 0 of the inputs and |dy|² ≥ 0 of the targets.

    Source: paper C, appendix B.1; its text gives the distances, its authors' code the two offsets.
    """
    validation.positive(dx2=dx2)
    validation.number("dy2", dy2, least=0)
    inputs = np.array([[-1.0, -1.0 + np.sqrt(dx2)]])
    targets = np.array([[0.6], [0.6 + np.sqrt(dy2)]])
    return Task(inputs, np.arange(2), targets, name="two points")


def xor() -> Task:
    """Exclusive or of two bits: 00, 11 (target 0) and 01, 10 (target 1), sorted by class (paper C, B.2)."""
    inputs = np.array([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    labels = np.array([0, 0, 1, 1])
    return Task(inputs, labels, labels[:, None].astype(float), name="exclusive or")


def blobs(num_positions: int = 30, num_pixels: int = 5, blob_width: float = 1.0) -> Task:
    """Images of Gaussian blobs, whose x position is asked for in one context and the y position in the other.

    Images cover [−1, 1]² and their pixels sum to one; two more inputs are a one-hot code of the context.
    P = 2 num_positions², N0 = num_pixels² + 2, m = 1. Labels are the context; within a context y varies
    fastest. Targets are positions, so there are no class targets.

    Args:
        num_positions: blob centers along each axis, equally spaced on [−1, 1], at least two.
        num_pixels: pixels along each axis, at least two.
        blob_width: standard deviation of the blobs.

    Source: paper C, appendix B.3; the blobs' width is its authors' code's.
    """
    validation.count("num_positions", num_positions, 2)
    validation.count("num_pixels", num_pixels, 2)
    validation.positive(blob_width=blob_width)
    x, y = (axis.ravel() for axis in np.meshgrid(*2 * [np.linspace(-1, 1, num_positions)], indexing="ij"))
    columns, rows = np.meshgrid(*2 * [np.linspace(-1, 1, num_pixels)])
    squares = (columns.reshape(-1, 1) - x) ** 2 + (rows.reshape(-1, 1) - y) ** 2
    images = np.exp(-squares / (2 * blob_width**2))
    images /= images.sum(axis=0)
    labels = np.repeat(np.arange(2), len(x))
    inputs = np.concatenate([np.tile(images, 2), one_hot(2, 1.0, 0.0)[:, labels]])
    targets = np.concatenate([x, y])[:, None]
    names = ("x position", "y position")
    return Task(inputs, labels, targets, name="blobs in two contexts", class_names=names)


def one_hot(num_classes: int, y_plus: float, y_minus: float) -> np.ndarray:
    """Class targets with y₊ on the diagonal and y₋ elsewhere, shape (C, C)."""
    validation.counts(num_classes=num_classes)
    y_plus, y_minus = validation.number("y_plus", y_plus), validation.number("y_minus", y_minus)
    return np.full((num_classes, num_classes), y_minus) + (y_plus - y_minus) * np.eye(num_classes)


def projected(task: Task, input_dim: int, seed: int = 0) -> Task:
    """The same task, with its test split, seen through a random projection, x → A x with A_ij ~ N(0, 1/N0).

    Keeps K0 in expectation, and lets P exceed the input dimension (paper A's projected MNIST).
    """
    validation.instance("task", task, Task)
    validation.counts(input_dim=input_dim)
    rng = _generator(seed)
    projection = rng.standard_normal((input_dim, task.input_dim)) / np.sqrt(task.input_dim)
    return replace(
        task,
        inputs=projection @ task.inputs,
        test_inputs=None if task.test_inputs is None else projection @ task.test_inputs,
        name=f"{task.name}, projected to {input_dim} dimensions",
    )


NORMALIZATIONS = ("standardize", "pixel", "unit_norm", "unit_range")


def _image_task(
    load: Callable[[], tuple[data.ImageSet, data.ImageSet]],
    num_inputs: int,
    num_test: int,
    classes: Sequence[int],
    class_targets: np.ndarray,
    seed: int,
    normalization: str,
    balanced: bool,
) -> Task:
    """Draw both splits; from a common set, training images from the front of a shuffle, test from its end."""
    classes = validation.several("classes", classes)
    whole = all(isinstance(each, int | np.integer) for each in classes)
    if not whole or len(set(classes)) != len(classes) or not set(classes) <= set(range(10)):
        raise ValueError(f"classes: got {classes}, needs different whole numbers among 0 … 9")
    validation.counts(num_inputs=num_inputs)
    validation.count("num_test", num_test, 0)
    validation.choice("normalization", normalization, NORMALIZATIONS)

    train_rng, test_rng, train_order, test_order = _generator(seed).spawn(4)
    train, test = load()
    labels = _draw_labels(train_rng, len(classes), num_inputs, balanced)
    test_labels = _draw_labels(test_rng, len(classes), num_test, balanced)
    chosen, test_chosen = [], []
    for c, digit in enumerate(classes):
        wanted, test_wanted = int(np.sum(labels == c)), int(np.sum(test_labels == c))
        if not wanted:
            raise ValueError(
                f"num_inputs: got {num_inputs}, none of which is of class {digit}; take more"
                + ("" if balanced else ", another seed, or balanced=True")
            )
        shuffled = train_order.permutation(np.flatnonzero(train.labels == digit))
        test_shuffled = shuffled
        if test is not train:
            test_shuffled = test_order.permutation(np.flatnonzero(test.labels == digit))
        for argument, needed, there in (
            ("num_inputs", wanted + (test_wanted if test is train else 0), len(shuffled)),
            ("num_test", test_wanted, len(test_shuffled)),
        ):
            if needed > there:
                raise ValueError(
                    f"{argument}: class {digit} needs {needed} images but {train.name} has only {there} "
                    "of it; ask for fewer images, or for pool='full' where that is offered"
                )
        chosen.append(shuffled[:wanted])
        test_chosen.append(test_shuffled[len(test_shuffled) - test_wanted :])

    pixels = _flat_pixels(train, chosen), _flat_pixels(test, test_chosen)
    inputs, test_inputs = _normalize(*pixels, normalization)
    names = tuple(train.class_names[digit] for digit in classes)
    task = Task(inputs.T, labels, class_targets[labels], name=train.name, class_names=names)
    if not num_test:
        return task
    test_targets = class_targets[test_labels]
    return replace(task, test_inputs=test_inputs.T, test_labels=test_labels, test_targets=test_targets)


def _flat_pixels(images: data.ImageSet, places: list[np.ndarray]) -> np.ndarray:
    """Images one a row."""
    pixels = images.read(np.concatenate(places))
    return pixels.reshape(len(pixels), int(np.prod(pixels.shape[1:]))).astype(float)


def _draw_labels(rng: np.random.Generator, num_classes: int, number: int, balanced: bool) -> np.ndarray:
    """Sorted class indices of all inputs."""
    if balanced:
        return np.repeat(np.arange(num_classes), _apportion(np.full(num_classes, 1 / num_classes), number))
    return np.sort(rng.integers(num_classes, size=number))


def _normalize(
    pixels: np.ndarray, test_pixels: np.ndarray, normalization: str
) -> tuple[np.ndarray, np.ndarray]:
    """Both splits, one image a row, normalized by the training split's statistics."""
    if normalization == "unit_range":
        return pixels / 255, test_pixels / 255
    if normalization == "unit_norm":
        return tuple(
            images * np.sqrt(images.shape[1]) / np.linalg.norm(images, axis=1, keepdims=True)
            for images in (pixels, test_pixels)
        )
    axis = None if normalization == "standardize" else 0
    mean, deviation = pixels.mean(axis=axis), pixels.std(axis=axis)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return (pixels - mean) * inverse, (test_pixels - mean) * inverse


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(validation.count("seed", seed, 0))


def _class_targets(num_classes: int, y_plus: float, y_minus: float, targets: ArrayLike | None) -> np.ndarray:
    if targets is None:
        targets = one_hot(num_classes, y_plus, y_minus)
    class_targets = validation.array("targets", targets, "C, m", C=num_classes)
    if num_classes > 1 and np.all(class_targets == class_targets[0]):
        raise ValueError(
            f"targets: all classes share the target {class_targets[0]}, so there is no task to learn"
        )
    return class_targets


@lru_cache(maxsize=4)
def _orthonormal(input_dim: int, num_inputs: int, seed: int) -> tuple[np.ndarray, Any]:
    """Random orthonormal columns, made once for all tasks on them, and where they left the generator."""
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.standard_normal((input_dim, num_inputs)))
    return directions, rng.bit_generator.state


def _apportion(ratios: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers nearest to ratios · total that sum to total (largest remainders)."""
    exact = ratios * total
    counts = np.floor(exact + 1e-9).astype(int)
    most_missing = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[most_missing] += 1
    return counts
