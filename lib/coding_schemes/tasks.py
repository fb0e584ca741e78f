"""Tasks: inputs, class labels and targets, and the constructors of every task in the book.

Conventions (paper A): the inputs are the columns of X, shape (N0, P); the targets are the rows of
Y, shape (P, m). The input kernel is K0 = XᵀX / N0. Inputs are sorted by class, so that class
structure shows as blocks in every figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike


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
        ValueError: shapes disagree, a value is not finite, or a class has no training input.
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
        _check_split("", self.inputs, self.labels, self.targets)
        counts = np.bincount(self.labels)
        if np.any(counts == 0):
            raise ValueError(
                f"labels: class {int(np.argmin(counts))} has no training input; "
                f"every class 0 … {len(counts) - 1} needs at least one"
            )
        if self.test_inputs is not None and self.test_labels is not None and self.test_targets is not None:
            _check_split("test_", self.test_inputs, self.test_labels, self.test_targets)
            if self.test_inputs.shape[0] != self.input_dim:
                raise ValueError(
                    f"test_inputs: dimension {self.test_inputs.shape[0]} but the training inputs "
                    f"have {self.input_dim}"
                )
        elif any(part is not None for part in (self.test_inputs, self.test_labels, self.test_targets)):
            raise ValueError("test split: give test_inputs, test_labels and test_targets together, or none")
        if not self.class_names:
            object.__setattr__(self, "class_names", tuple(str(c) for c in range(self.num_classes)))

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
        """Target of every class, shape (C, m).

        Raises:
            ValueError: two inputs of one class have different targets.
        """
        first = np.array([np.argmax(self.labels == c) for c in range(self.num_classes)])
        per_class = self.targets[first]
        if not np.array_equal(per_class[self.labels], self.targets):
            raise ValueError("targets: inputs of one class have different targets, so no class target exists")
        return per_class

    @cached_property
    def input_kernel(self) -> np.ndarray:
        """K0 = XᵀX / N0, shape (P, P)."""
        return self.inputs.T @ self.inputs / self.input_dim

    @cached_property
    def is_orthogonal(self) -> bool:
        """Whether K0 = 1, as on the toy task (to 1e-8)."""
        return self.num_inputs <= self.input_dim and np.allclose(
            self.input_kernel, np.eye(self.num_inputs), atol=1e-8
        )


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
    """Orthogonal inputs with random class membership: paper A's toy task.

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

    Returns:
        A Task without a test split; there is nothing to generalise to.

    Raises:
        ValueError: ratios negative or not summing to one, a class left empty, N0 < P, targets of
            the wrong shape, or no task at all (all classes share one target).

    Source: paper A, "Main theoretical result" and "Parameters used in Figures".
    """
    ratios = np.asarray(class_ratios, dtype=float)
    if num_inputs < 1:
        raise ValueError(f"num_inputs: got {num_inputs}, needs at least 1")
    if ratios.ndim != 1 or np.any(ratios <= 0) or not np.isclose(ratios.sum(), 1.0):
        raise ValueError(
            f"class_ratios: got {class_ratios} with sum {ratios.sum():g}; "
            "needs positive numbers that sum to 1"
        )
    input_dim = num_inputs + 20 if input_dim is None else input_dim
    if input_dim < num_inputs:
        raise ValueError(f"input_dim: got N0 = {input_dim} < P = {num_inputs}; orthogonal inputs need N0 ≥ P")
    class_targets = (
        one_hot(len(ratios), y_plus, y_minus) if targets is None else np.asarray(targets, dtype=float)
    )
    if class_targets.ndim != 2 or len(class_targets) != len(ratios):
        raise ValueError(
            f"targets: got shape {class_targets.shape}, needs (number of classes {len(ratios)}, m)"
        )
    if len(ratios) > 1 and np.all(class_targets == class_targets[0]):
        raise ValueError(
            f"targets: all classes share the target {class_targets[0]}, so there is no task to learn"
        )

    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.standard_normal((input_dim, num_inputs)))
    if random_labels:
        labels = np.sort(rng.choice(len(ratios), size=num_inputs, p=ratios))
    else:
        labels = np.repeat(np.arange(len(ratios)), _apportion(ratios, num_inputs))
    missing = set(range(len(ratios))) - set(labels.tolist())
    if missing:
        raise ValueError(f"class_ratios: {class_ratios} leave class {min(missing)} empty at P = {num_inputs}")
    return Task(np.sqrt(input_dim) * directions, labels, class_targets[labels], name="toy task")


def one_hot(num_classes: int, y_plus: float, y_minus: float) -> np.ndarray:
    """Class targets with y₊ on the diagonal and y₋ elsewhere, shape (C, C)."""
    return np.full((num_classes, num_classes), float(y_minus)) + (y_plus - y_minus) * np.eye(num_classes)


def projected(task: Task, input_dim: int, seed: int = 0) -> Task:
    """The same task seen through a random projection, x → A x with A_ij ~ N(0, 1/N0).

    Keeps K0 in expectation, and lets P exceed the input dimension (paper A's projected MNIST).

    Args:
        task: the task to project; its test split is projected by the same matrix.
        input_dim: dimension after the projection.
        seed: draws the projection.

    Returns:
        A Task with inputs of shape (input_dim, P).

    Raises:
        ValueError: input_dim < 1.
    """
    if input_dim < 1:
        raise ValueError(f"input_dim: got {input_dim}, needs at least 1")
    rng = np.random.default_rng(seed)
    projection = rng.standard_normal((input_dim, task.input_dim)) / np.sqrt(task.input_dim)
    return Task(
        projection @ task.inputs,
        task.labels,
        task.targets,
        None if task.test_inputs is None else projection @ task.test_inputs,
        task.test_labels,
        task.test_targets,
        name=f"{task.name}, projected to {input_dim} dimensions",
        class_names=task.class_names,
    )


def _apportion(ratios: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers nearest to ratios · total that sum to total (largest remainders)."""
    exact = ratios * total
    counts = np.floor(exact + 1e-9).astype(int)
    most_missing = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[most_missing] += 1
    return counts


def _check_split(prefix: str, inputs: np.ndarray, labels: np.ndarray, targets: np.ndarray) -> None:
    if inputs.ndim != 2:
        raise ValueError(f"{prefix}inputs: got shape {inputs.shape}, needs (N0, P)")
    num_inputs = inputs.shape[1]
    if labels.shape != (num_inputs,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{prefix}labels: got shape {labels.shape} and dtype {labels.dtype}, "
            f"needs one whole number for each of the {num_inputs} inputs"
        )
    if targets.ndim != 2 or targets.shape[0] != num_inputs:
        raise ValueError(f"{prefix}targets: got shape {targets.shape}, needs ({num_inputs}, m)")
    for argument, array in ((f"{prefix}inputs", inputs), (f"{prefix}targets", targets)):
        if not np.all(np.isfinite(array)):
            raise ValueError(
                f"{argument}: {np.count_nonzero(~np.isfinite(array))} values are NaN or infinite"
            )
