r"""Gaussian-process theory: what infinitely wide lazy networks predict.

With readout scale 1/√N the outputs of an infinitely wide network are, under the prior, a Gaussian process
with covariance σ_a² K_L, the same for every output, and K_L follows from layer to layer,

    K_0(x, x') = x·x'/N0,    K_ℓ(x, x') = E φ(u) φ(v),  (u, v) ~ N(0, K_{ℓ−1} on {x, x'}).     (*)

Learning conditions the process on the data and leaves the kernels as they are. At temperature T

    f(x) = σ_a² k_L(x)ᵀ t,   t = (σ_a² K_L + T)⁻¹ Y,
    Var f(x) = σ_a² K_L(x, x) − σ_a² k_L(x)ᵀ (σ_a² K_L + T)⁻¹ k_L(x) σ_a² .

**Closed forms** of (*), with q = K(x, x), q' = K(x', x'), k = K(x, x') and cos θ = k/√(qq'):

    linear         k
    erf            (2/π) arcsin[2k / √((1 + 2q)(1 + 2q'))]
    sigmoidal      ¼ + (1/2π) arcsin[πk / √((2 + πq)(2 + πq'))]
    relu           √(qq') [sin θ + (π − θ) cos θ] / 2π
    relu_squared   qq' [3 sin θ cos θ + (π − θ)(1 + 2 cos²θ)] / 2π

Source: erf: C. Williams, "Computing with infinite networks" (1996); ReLU: Y. Cho and L. Saul, "Kernel
methods for deep learning" (2009); the sigmoidal one follows from erf by φ(z) = ½ + ½ erf(√π z/2) and
⟨erf⟩ = 0. The use as the lazy reference is paper A's, Fig. 6d.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coding_schemes.tasks import Task

RESIDUAL_TOLERANCE = (
    1e-8  # of the linear solve, relative to the targets; it lands near 1e-14 where K_L is regular
)


def _linear(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    return k


def _erf(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    return 2 / np.pi * np.arcsin(2 * k / np.sqrt((1 + 2 * q) * (1 + 2 * r)))


def _sigmoidal(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    return 0.25 + np.arcsin(np.pi * k / np.sqrt((2 + np.pi * q) * (2 + np.pi * r))) / (2 * np.pi)


def _relu(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    norm, cosine, angle = _angle(k, q, r)
    return norm / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * cosine)


def _relu_squared(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    norm, cosine, angle = _angle(k, q, r)
    bracket = 3 * np.sin(angle) * cosine + (np.pi - angle) * (1 + 2 * cosine**2)
    return norm**2 / (2 * np.pi) * bracket


def _angle(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    norm = np.sqrt(q * r)
    cosine = np.clip(np.divide(k, norm, out=np.zeros_like(norm), where=norm > 0), -1, 1)
    return norm, cosine, np.arccos(cosine)


_CLOSED_FORMS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "linear": _linear,
    "erf": _erf,
    "sigmoidal": _sigmoidal,
    "relu": _relu,
    "relu_squared": _relu_squared,
}


def prior_kernels(
    inputs: np.ndarray, other_inputs: np.ndarray | None = None, nonlinearity: str = "relu", depth: int = 1
) -> np.ndarray:
    """Kernels K_0 … K_L between two sets of inputs, recursion (*) of the module docstring.

    Args:
        inputs: shape (N0, P).
        other_inputs: shape (N0, P'); the same inputs again unless given.
        nonlinearity: "linear", "erf", "sigmoidal", "relu" or "relu_squared".
        depth: number of hidden layers, L.

    Returns:
        Kernels, shape (L + 1, P, P').

    Raises:
        ValueError: no closed form is known for the nonlinearity, depth < 1, or the dimensions differ.
    """
    closed_form = _closed_form(nonlinearity)
    if int(depth) != depth or depth < 1:
        raise ValueError(f"depth: got {depth}, needs a whole number of at least 1")
    inputs = np.asarray(inputs, dtype=float)
    others = inputs if other_inputs is None else np.asarray(other_inputs, dtype=float)
    if inputs.ndim != 2 or others.ndim != 2 or inputs.shape[0] != others.shape[0]:
        raise ValueError(
            f"inputs, other_inputs: got shapes {inputs.shape} and {others.shape}, need (N0, P) and (N0, P')"
        )
    kernels = [inputs.T @ others / inputs.shape[0]]
    variance, other_variance = (np.square(x).mean(axis=0) for x in (inputs, others))
    for _ in range(depth):
        kernels.append(closed_form(kernels[-1], variance[:, None], other_variance[None, :]))
        variance, other_variance = (closed_form(v, v, v) for v in (variance, other_variance))
    return np.stack(kernels)


@dataclass(frozen=True, eq=False)
class Solution:
    """Gaussian-process posterior for a task.

    Attributes:
        task: the task that was learned.
        nonlinearity: name of φ.
        depth: L.
        kernels: K_0 … K_L on the training inputs, shape (L + 1, P, P); learning does not change them.
        dual_field: t, shape (P, m); the mean predictor's training residual is T t.
        readout_variance: σ_a².
        temperature: T.
        residual: ‖(σ_a² K_L + T) t − Y‖ / ‖Y‖.
        num_steps: 0, there is nothing to iterate.
        converged: whether the residual is below RESIDUAL_TOLERANCE.
    """

    task: Task
    nonlinearity: str
    depth: int
    kernels: np.ndarray
    dual_field: np.ndarray
    readout_variance: float
    temperature: float
    residual: float
    num_steps: int
    converged: bool

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor ⟨f(x)⟩ on inputs of shape (N0, P*); shape (P*, m)."""
        return self.readout_variance * self._cross_kernel(inputs) @ self.dual_field

    def predictor_variance(self, inputs: np.ndarray) -> np.ndarray:
        """Variance of one network's output, the same for every output: shape (P*,) for inputs (N0, P*).

        It is that of f itself, without observation noise T.
        """
        cross = self._cross_kernel(inputs)
        variance = np.square(np.asarray(inputs, dtype=float)).mean(axis=0)
        for _ in range(self.depth):
            variance = _closed_form(self.nonlinearity)(variance, variance, variance)
        eigenvalues, basis = _spectrum(self.kernels[-1])
        inverse = _inverse(self.readout_variance * eigenvalues + self.temperature)
        explained = self.readout_variance**2 * np.square(cross @ basis) @ inverse
        return np.maximum(self.readout_variance * variance - explained, 0.0)

    def _cross_kernel(self, inputs: np.ndarray) -> np.ndarray:
        return prior_kernels(inputs, self.task.inputs, self.nonlinearity, self.depth)[-1]


def solve(
    task: Task,
    nonlinearity: str = "relu",
    depth: int = 1,
    temperature: float = 0.0,
    readout_variance: float = 1.0,
) -> Solution:
    """Condition the Gaussian process of an infinitely wide lazy network on a task.

    Args:
        task: any task.
        nonlinearity: "linear", "erf", "sigmoidal", "relu" or "relu_squared".
        depth: L.
        temperature: T ≥ 0, unscaled, as in the lazy posterior.
        readout_variance: σ_a²; 1 in lazy networks.

    Returns:
        A Solution; `converged` says whether to trust it.

    Raises:
        ValueError: an argument is out of range, or T = 0 where a singular K_L cannot produce the targets.

    Source: paper A, Fig. 6d and "GP theory" there (Lee et al. 2018, Matthews et al. 2018).
    """
    if not (np.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature: got {temperature}, needs a finite T ≥ 0")
    if not (np.isfinite(readout_variance) and readout_variance > 0):
        raise ValueError(f"readout_variance: got {readout_variance}, needs a finite σ_a² > 0")
    kernels = prior_kernels(task.inputs, None, nonlinearity, depth)
    eigenvalues, basis = _spectrum(kernels[-1])
    inverse = _inverse(readout_variance * eigenvalues + temperature)
    dual_field = basis @ (inverse[:, None] * (basis.T @ task.targets))
    violation = readout_variance * kernels[-1] @ dual_field + temperature * dual_field - task.targets
    residual = float(np.linalg.norm(violation) / np.linalg.norm(task.targets))
    if temperature == 0 and not np.all(eigenvalues > 0) and residual > RESIDUAL_TOLERANCE:
        raise ValueError(
            f"task: K_L has rank {np.count_nonzero(eigenvalues)} < P = {task.num_inputs} and the targets "
            "leave its span, so the process cannot pass through them; give a temperature above 0"
        )
    converged = residual < RESIDUAL_TOLERANCE
    if not converged:
        warnings.warn(f"Gaussian process: relative residual {residual:.1e} of the linear solve", stacklevel=2)
    return Solution(
        task, nonlinearity, depth, kernels, dual_field, readout_variance, temperature, residual, 0, converged
    )


class GeneralizationError(NamedTuple):
    """Expected squared test error of one network, output by output.

    Attributes:
        mean_error: squared error of the mean predictor, shape (m,).
        variance: variance of the predictor, shape (m,).
        total: their sum, shape (m,).
    """

    mean_error: np.ndarray
    variance: np.ndarray
    total: np.ndarray


def generalization_error(
    mean: np.ndarray, variance: np.ndarray | float, targets: np.ndarray
) -> GeneralizationError:
    """Class-wise generalisation error, averaged over test inputs.

        ε_r = (1/P*) Σ_μ { [y_μ^r − ⟨f_r(x_μ)⟩]² + Var f_r(x_μ) }

    Args:
        mean: mean predictor ⟨f⟩, shape (P*, m), from a theory or averaged over samples.
        variance: its variance, shape (P*, m), (P*,) if the same for all outputs, or a number.
        targets: y, shape (P*, m).

    Returns:
        A GeneralizationError.

    Raises:
        ValueError: the shapes do not fit, or a variance is negative.

    Source: paper A, "Generalization", bias–variance decomposition and ε_r.
    """
    mean, targets = np.asarray(mean, dtype=float), np.asarray(targets, dtype=float)
    variances = np.asarray(variance, dtype=float)
    if mean.ndim != 2 or mean.shape != targets.shape:
        raise ValueError(f"mean, targets: got shapes {mean.shape} and {targets.shape}, need (P*, m) twice")
    if variances.shape not in ((), mean.shape[:1], mean.shape):
        raise ValueError(
            f"variance: got shape {variances.shape}, needs {mean.shape}, {mean.shape[:1]} or a number"
        )
    if np.any(variances < 0):
        raise ValueError(f"variance: got {variances.min():g}, needs values of at least 0")
    if variances.ndim == 1:
        variances = variances[:, None]
    mean_error = np.square(mean - targets).mean(axis=0)
    average_variance = np.broadcast_to(variances, mean.shape).mean(axis=0)
    return GeneralizationError(mean_error, average_variance, mean_error + average_variance)


def _closed_form(nonlinearity: str) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    if nonlinearity not in _CLOSED_FORMS:
        raise ValueError(
            f"nonlinearity: got {nonlinearity!r}, a closed form is known for {', '.join(_CLOSED_FORMS)}"
        )
    return _CLOSED_FORMS[nonlinearity]


def _spectrum(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, rounding noise set to zero, and eigenvectors."""
    eigenvalues, basis = np.linalg.eigh(kernel)
    return np.where(eigenvalues > eigenvalues[-1] * 1e-12, eigenvalues, 0.0), basis


def _inverse(values: np.ndarray) -> np.ndarray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
