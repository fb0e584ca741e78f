r"""Kinds of neurons on orthogonal inputs: predictions and kernels, the same for every theory of the toy task.

A neuron of kind γ has the readout a_γ, and on inputs of class c preactivations that are independent with
density ∝ N(z; 0, 1) exp(s_γc φ(z)), s_γc = a_γ·t_c. On a new input

    z(x) = Σ_μ k0_μ z_μ + √(κ − |k0|²) ξ,   k0_μ = x·x_μ/N0,  κ = |x|²/N0,  ξ ~ N(0, 1).

The input that x overlaps with most enters with its density, what the others contribute as a Gaussian of
the same mean and variance: exact for training inputs and for those orthogonal to all of them, and to the
accuracy of the central limit theorem between. An outlier's preactivation is Σ_μ k0_μ z̄_μ, in units of √N.
"""

from dataclasses import dataclass

import numpy as np

from coding_schemes.networks import Nonlinearity
from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.tasks import Task
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solvers import check_training_inputs, class_kernel, evaluate, overlaps
from coding_schemes.theory._tilted import normalized

# Gauss–Legendre panels over z, a border at 0 for the kinks there, and a rule for what is Gaussian
_X, _W = np.polynomial.legendre.leggauss(4)
_Z = (np.arange(-9.0, 14.0, 0.5)[:, None] + 0.25 * (1 + _X)).ravel()
_WEIGHTS = np.tile(0.25 * _W, len(_Z) // len(_W))
_XI, _GAUSS = np.polynomial.hermite_e.hermegauss(16)
_GAUSS /= _GAUSS.sum()
_AT_A_TIME = 256  # new inputs


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OrthogonalKinds(Solved):
    """Base of the solutions on orthogonal inputs; f = Σ_γ P_γ φ_γ a_γ with the attributes below.

    Attributes:
        task: what was learned.
        nonlinearity: φ, by name or as a function.
        probabilities: P_γ, and 1 for an outlier, shape (n,).
        readouts: a_γ, shape (n, m).
        activations: mean activation per class, shape (n, C).
        codes: the classes that a kind answers to, shape (n, C).
        num_outliers: how many of the first kinds are outliers, of which there is one neuron each.
        dual_field: t, shape (C, m).
    """

    task: Task
    nonlinearity: str | Nonlinearity
    probabilities: np.ndarray
    readouts: np.ndarray
    activations: np.ndarray
    codes: np.ndarray
    num_outliers: int
    dual_field: np.ndarray

    @property
    def outlier_readouts(self) -> np.ndarray:
        """ā of the outliers in units of their own, shape (n, m)."""
        return self.readouts[: self.num_outliers]

    def phi(self, z: np.ndarray) -> np.ndarray:
        """φ(z) in double precision."""
        return evaluate(resolve(self.nonlinearity), np.asarray(z, dtype=float))

    def activations_on(self, inputs: np.ndarray) -> np.ndarray:
        """Mean activation of every kind on new inputs (N0, P*), shape (n, P*)."""
        overlap, labels = overlaps(self.task, inputs), self.task.labels
        size = np.square(np.asarray(inputs, dtype=float)).mean(axis=0)
        means = np.zeros((len(self.readouts), len(overlap)))
        n = self.num_outliers
        means[:n] = self._of_outliers(overlap @ self._outlier_preactivations()[:, labels].T).T
        density, mean, variance = self._single_inputs()
        for start in range(0, len(overlap), _AT_A_TIME):
            rows = np.arange(start, min(start + _AT_A_TIME, len(overlap)))
            k, first = overlap[rows], np.argmax(np.abs(overlap[rows]), axis=1)
            own, c = k[np.arange(len(rows)), first], labels[first]
            rest = k @ mean[:, labels].T - own[:, None] * mean[:, c].T  # (rows, kinds)
            spread = np.square(k) @ variance[:, labels].T - (own**2)[:, None] * variance[:, c].T
            spread = np.sqrt(np.maximum(spread + (size[rows] - np.square(k).sum(axis=1))[:, None], 0))
            for kind in range(len(density)):
                z = own[:, None, None] * _Z[:, None] + rest[:, kind, None, None]
                answer = self.phi(z + spread[:, kind, None, None] * _XI) @ _GAUSS
                means[n + kind, rows] = np.sum(answer * density[kind, c], axis=1)
        return means

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor on new inputs (N0, P*), shape (P*, m)."""
        return self.activations_on(inputs).T @ (self.probabilities[:, None] * self.readouts)

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Feature-layer kernel on the training inputs, shape (P, P): blocks of classes, and a diagonal.

        Raises:
            ValueError: other inputs are given.
        """
        check_training_inputs(inputs)
        bulk = self.probabilities[self.num_outliers :]
        means, squares = self._single_moments()
        block = (self.activations.T * self.probabilities) @ self.activations
        return class_kernel(block, bulk @ (squares - means**2), self.task.labels)

    def _single_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """⟨φ⟩ and ⟨φ²⟩ per class of the kinds that are no outliers, at the readout a_γ, shape (k, C) each."""
        density, values = self._single_inputs()[0], self.phi(_Z)
        return density @ values, density @ values**2

    def _single_inputs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights of the nodes (k, C, nodes) under the density of the kinds that are no outliers; moments."""
        fields = self.readouts[self.num_outliers :] @ self.dual_field.T
        _, density = normalized(fields[..., None] * self.phi(_Z) - _Z**2 / 2, _WEIGHTS)
        mean = density @ _Z
        return density, mean, density @ _Z**2 - mean**2

    def _outlier_preactivations(self) -> np.ndarray:
        """z̄ per class, shape (n, C)."""
        return self.activations[: self.num_outliers]

    def _of_outliers(self, z: np.ndarray) -> np.ndarray:
        """φ far from the origin, where outliers are."""
        return np.maximum(z, 0.0)


class OneKind(Solved):
    """Base of the solutions in which all neurons are of one kind, without codes."""

    task: Task
    num_outliers = 0

    @property
    def probabilities(self) -> np.ndarray:
        """1, for the one kind of neurons, shape (1,)."""
        return np.ones(1)

    @property
    def readouts(self) -> np.ndarray:
        """Their mean readout, 0, shape (1, m)."""
        return np.zeros((1, self.task.num_targets))

    @property
    def codes(self) -> np.ndarray:
        """None, shape (1, C)."""
        return np.zeros((1, self.task.num_classes), dtype=bool)
