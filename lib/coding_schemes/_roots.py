"""Roots R of the inputs' kernel, K0 = R Rᵀ, with which first preactivations are z¹ = u Rᵀ.

A root is None for R = 1, an array, or `OfClasses` where K0 depends on classes alone.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from coding_schemes.tasks import Task

FORM_TOLERANCE = 1e-10  # on the entries of K0, of its diagonal


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OfClasses:
    """R = diag(d) + V Wᵀ with a column for each class: 2CP multiplications for a neuron in place of P².

    It stands where a matrix does, right of `@` and transposed; `root[inputs]` is an array.

    Attributes:
        diagonal: d, shape (P,).
        left: V, shape (P, C).
        right: W, shape (P, C).
    """

    diagonal: Array
    left: Array
    right: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(P, P)."""
        return (len(self.diagonal), len(self.diagonal))

    @property
    def T(self) -> "OfClasses":
        """The transpose."""
        return replace(self, left=self.right, right=self.left)

    def __rmatmul__(self, rows: Array) -> Array:
        """`rows @ R`."""
        return rows * self.diagonal[None] + (rows @ self.left) @ self.right.T

    def __getitem__(self, inputs) -> Array:
        """Rows of R."""
        return dense(self)[inputs]


def dense(root: "Array | OfClasses") -> Array:
    """R as an array, (P, r)."""
    if isinstance(root, OfClasses):
        return jnp.diag(root.diagonal) + root.left @ root.right.T
    return root


def of_classes(task: Task) -> OfClasses | None:
    """R of K0 = diag(κ) + E B Eᵀ, E (P, C) of ones where an input is in a class; None for another K0.

    With κ one number within a class and n the classes' sizes, U = E n^{−½} has orthonormal columns, and

        R = κ^{½} (1 + U ((1 + M)^{½} − 1) Uᵀ),   M = (nκ^{−1})^{½} B (nκ^{−1})^{½}.
    """
    labels, counts, (means, diagonal) = task.labels, task.class_counts, task.mean_overlaps
    form = means[np.ix_(labels, labels)]
    np.fill_diagonal(form, diagonal[labels])
    own = diagonal - np.diag(means)
    gap = np.abs(task.input_kernel - form).max()
    if gap > FORM_TOLERANCE * diagonal.max() or own.min() <= 1e-9 * diagonal.max():
        return None
    sizes = np.sqrt(counts / own)
    values, vectors = np.linalg.eigh(np.eye(len(counts)) + sizes[:, None] * means * sizes)
    if values[0] <= 1e-9 * values[-1]:
        return None
    grown = vectors * (np.sqrt(values) - 1) @ vectors.T
    modes, scale = (np.eye(len(counts)) / np.sqrt(counts))[labels], np.sqrt(own)[labels]
    return OfClasses(scale, scale[:, None] * (modes @ grown), modes)


def data_span(task: Task) -> tuple[np.ndarray | None, np.ndarray | OfClasses | None]:
    """Basis B (r, N0) and root R (P, r) with X/√N0 = (R B)ᵀ; None stands for the identity."""
    scaled = task.inputs / np.sqrt(task.input_dim)
    if task.is_orthogonal:
        return scaled.T, None
    few = task.num_inputs <= task.input_dim and 4 * task.num_classes <= task.num_inputs
    if few and (root := of_classes(task)) is not None:
        return np.linalg.solve(np.asarray(dense(root)), scaled.T), root
    if task.num_inputs >= task.input_dim:  # many inputs may span their space: seen without their long SVD
        squares = np.linalg.eigvalsh(scaled @ scaled.T)
        if squares[0] > 1e-9 * squares[-1]:
            return None, scaled.T
    left, singular, right = np.linalg.svd(scaled, full_matrices=False)
    rank = int(np.sum(singular > singular[0] * max(scaled.shape) * np.finfo(float).eps))
    if rank == task.input_dim:
        return None, scaled.T
    return left[:, :rank].T, (singular[:rank, None] * right[:rank]).T
