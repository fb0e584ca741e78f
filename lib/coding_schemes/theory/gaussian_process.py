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

**Any other φ** by quadrature: with the normalized Hermite polynomials h_n and ρ = cos θ, Mehler's formula
turns the double integral into single ones,

    E φ(u) φ(v) = Σ_n c_n(q) c_n(q') ρⁿ,   c_n(q) = E φ(√q ξ) h_n(ξ),  ξ ~ N(0, 1),

so a layer costs a few matrix products however φ looks, and stays positive definite. What the first
NUM_TERMS terms leave of E φ² enters as the next power of ρ, even and odd part apart: the diagonal is
exact. Errors, relative to the largest entry, at input variances up to 3: below 1e-10 for smooth φ such as
tanh and softplus, 1e-5 where φ has a kink at 0, 1e-4 where it has one elsewhere, 1e-2 where it jumps.

Source: erf: C. Williams, "Computing with infinite networks" (1996); ReLU: Y. Cho and L. Saul, "Kernel
methods for deep learning" (2009); the sigmoidal one follows from erf by φ(z) = ½ + ½ erf(√π z/2) and
⟨erf⟩ = 0. The use as the lazy reference is paper A's, Fig. 6d.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes import validation
from coding_schemes.networks import Nonlinearity, canonical
from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.tasks import Task
from coding_schemes.theory._kinds import OneKind
from coding_schemes.theory._solvers import class_means, evaluate, inverses, overlaps, spectrum

RESIDUAL_TOLERANCE = 1e-8  # of the linear solve, relative to the targets; near 1e-14 where K_L is regular
NUM_TERMS = 200  # of Mehler's series; even, so that the remainder's even part takes the next power
_PANELS = np.linspace(-13.0, 13.0, 209)  # of the rule for c_n: one border at 0, where kinks usually are
_NODES_PER_PANEL = 8


def _relu(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    norm, cosine = _angle(k, q, r)
    angle = np.arccos(cosine)
    return norm / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * cosine)


def _relu_squared(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    norm, cosine = _angle(k, q, r)
    angle = np.arccos(cosine)
    bracket = 3 * np.sin(angle) * cosine + (np.pi - angle) * (1 + 2 * cosine**2)
    return norm**2 / (2 * np.pi) * bracket


def _angle(k: np.ndarray, q: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """√(qq') and cos θ; ±1 where it is so to rounding, since θ would have half the digits there."""
    norm = np.sqrt(q * r)
    cosine = np.divide(k, norm, out=np.zeros_like(norm), where=norm > 0)
    return norm, np.where(np.abs(cosine) > 1 - 32 * np.finfo(float).eps, np.sign(cosine), cosine)


_Layer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
_CLOSED_FORMS: dict[str, _Layer] = {
    "linear": lambda k, q, r: k,
    "erf": lambda k, q, r: 2 / np.pi * np.arcsin(2 * k / np.sqrt((1 + 2 * q) * (1 + 2 * r))),
    "sigmoidal": lambda k, q, r: (
        0.25 + np.arcsin(np.pi * k / np.sqrt((2 + np.pi * q) * (2 + np.pi * r))) / (2 * np.pi)
    ),
    "relu": _relu,
    "relu_squared": _relu_squared,
}


@cache
def _hermite() -> tuple[np.ndarray, np.ndarray]:
    """Nodes ξ of the rule, and h_n(ξ) times the Gaussian's weights, shape (nodes, NUM_TERMS)."""
    x, w = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
    half = np.diff(_PANELS)[:, None] / 2
    nodes = (_PANELS[:-1, None] + half * (1 + x)).ravel()
    weights = (half * w).ravel() * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    columns = [np.ones_like(nodes), nodes]
    for n in range(1, NUM_TERMS - 1):
        columns.append((nodes * columns[n] - np.sqrt(n) * columns[n - 1]) / np.sqrt(n + 1))
    return nodes, np.stack(columns, axis=1) * weights[:, None]


def _series(phi: Nonlinearity, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """c_n for every variance, (P, NUM_TERMS), and what they leave of E φ², even and odd part, (2, P)."""
    nodes, polynomials = _hermite()
    distinct, where = np.unique(variances, return_inverse=True)
    values = evaluate(phi, np.sqrt(distinct)[:, None] * nodes)
    coefficients = values @ polynomials
    parts = 0.5 * np.stack([values + values[:, ::-1], values - values[:, ::-1]])
    squares = np.square(parts) @ polynomials[:, 0]
    known = np.stack([np.square(coefficients[:, parity::2]).sum(axis=1) for parity in (0, 1)])
    return coefficients[where], np.maximum(squares - known, 0.0)[:, where]


def _by_quadrature(phi: Nonlinearity) -> _Layer:
    def layer(k, q, r):
        _, cosine = _angle(k, q, r)
        (left, left_rest), (right, right_rest) = (_series(phi, x.ravel()) for x in (q, r))
        if k.ndim == 1:  # the diagonal: q = r = k
            return np.square(left).sum(axis=1) + left_rest.sum(axis=0)
        even, odd = (np.sqrt(np.outer(*rest)) for rest in zip(left_rest, right_rest))
        result = even + odd * cosine
        for n in range(NUM_TERMS - 1, -1, -1):
            result *= cosine
            result += np.outer(left[:, n], right[:, n])
        return result

    return layer


def _layer(nonlinearity: str | Nonlinearity) -> _Layer:
    """E φ(u) φ(v) as a function of k, q and q'."""
    known = canonical(nonlinearity)
    if isinstance(known, str) and known in _CLOSED_FORMS:
        return _CLOSED_FORMS[known]
    return _by_quadrature(resolve(known))


def prior_kernels(
    inputs: np.ndarray,
    other_inputs: np.ndarray | None = None,
    nonlinearity: str | Nonlinearity = "relu",
    depth: int = 1,
) -> np.ndarray:
    """Kernels K_0 … K_L between two sets of inputs, recursion (*) of the module docstring.

    Args:
        inputs: shape (N0, P).
        other_inputs: shape (N0, P'); the same inputs again unless given.
        nonlinearity: a name from networks.NONLINEARITIES or an elementwise JAX function.
        depth: number of hidden layers, L.

    Returns:
        Kernels, shape (L + 1, P, P').
    """
    layer = _layer(nonlinearity)
    validation.counts(depth=depth)
    inputs = validation.array("inputs", inputs, "N0, P")
    others = inputs if other_inputs is None else other_inputs
    others = validation.array("other_inputs", others, "N0, P'", N0=len(inputs))
    kernels = [inputs.T @ others / inputs.shape[0]]
    variance, other_variance = (np.square(x).mean(axis=0) for x in (inputs, others))
    for _ in range(depth):
        kernels.append(layer(kernels[-1], variance[:, None], other_variance[None, :]))
        variance, other_variance = (layer(v, v, v) for v in (variance, other_variance))
    return np.stack(kernels)


_SLOPES: dict[str, _Layer] = {  # E φ'(u) φ'(v), which is the closed form's derivative in k
    "linear": lambda k, q, r: np.ones_like(k * q * r),
    "erf": lambda k, q, r: 4 / np.pi / np.sqrt((1 + 2 * q) * (1 + 2 * r) - 4 * k**2),
    "sigmoidal": lambda k, q, r: 0.5 / np.sqrt((2 + np.pi * q) * (2 + np.pi * r) - (np.pi * k) ** 2),
    "relu": lambda k, q, r: 0.5 - np.arccos(_angle(k, q, r)[1]) / (2 * np.pi),
    "relu_squared": lambda k, q, r: 4 * _relu(k, q, r),
}


def tangent_kernels(
    inputs: np.ndarray,
    other_inputs: np.ndarray | None = None,
    nonlinearity: str | Nonlinearity = "relu",
    depth: int = 1,
) -> np.ndarray:
    """Neural tangent kernels Θ_0 … Θ_L of random features, all weights trained; the last is the network's.

        Θ_0 = K_0,    Θ_ℓ = K_ℓ + Θ_{ℓ−1} ∘ E φ'(u) φ'(v),  (u, v) ~ N(0, K_{ℓ−1} on {x, x'}).

    Arguments and shape are those of `prior_kernels`; a nonlinearity without a closed form must be smooth.

    Source: A. Jacot, F. Gabriel and C. Hongler, "Neural tangent kernel" (2018).
    """
    kernels = prior_kernels(inputs, other_inputs, nonlinearity, depth)
    layer, known, phi = _layer(nonlinearity), canonical(nonlinearity), resolve(nonlinearity)
    slopes = _SLOPES.get(known) if isinstance(known, str) else None
    slopes = slopes or _by_quadrature(lambda z: jax.jvp(phi, (z,), (jnp.ones_like(z),))[1])
    others = inputs if other_inputs is None else other_inputs
    variance, other_variance = (np.square(np.asarray(x, dtype=float)).mean(axis=0) for x in (inputs, others))
    tangent = [kernels[0]]
    for below, here in itertools.pairwise(kernels):
        tangent.append(here + tangent[-1] * slopes(below, variance[:, None], other_variance[None, :]))
        variance, other_variance = (layer(v, v, v) for v in (variance, other_variance))
    return np.stack(tangent)


@dataclass(frozen=True, eq=False, repr=False)
class Solution(OneKind):
    """Gaussian-process posterior for a task.

    Attributes:
        task: the task that was learned.
        nonlinearity: φ, by name or as a function.
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
    nonlinearity: str | Nonlinearity
    depth: int
    kernels: np.ndarray
    dual_field: np.ndarray
    readout_variance: float
    temperature: float

    @cached_property
    def activations(self) -> np.ndarray:
        """Mean activation of the neurons per class, the prior's, shape (1, C)."""
        mean = _series(resolve(self.nonlinearity), np.diag(self.kernels[-2]))[0][:, 0]
        return class_means(mean[None], self.task)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor ⟨f(x)⟩ on inputs of shape (N0, P*); shape (P*, m)."""
        return self.readout_variance * self._cross_kernel(inputs) @ self.dual_field

    def predictor_variance(self, inputs: np.ndarray) -> np.ndarray:
        """Variance of one network's output, the same for every output: shape (P*,) for inputs (N0, P*).

        It is that of f itself, without observation noise T.
        """
        cross = self._cross_kernel(inputs)
        variance, layer = np.square(np.asarray(inputs, dtype=float)).mean(axis=0), _layer(self.nonlinearity)
        for _ in range(self.depth):
            variance = layer(variance, variance, variance)
        eigenvalues, basis = spectrum(self.kernels[-1])
        inverse = inverses(self.readout_variance * eigenvalues + self.temperature)
        explained = self.readout_variance**2 * np.square(cross @ basis) @ inverse
        return np.maximum(self.readout_variance * variance - explained, 0.0)

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Feature-layer kernel K_L on the training inputs, or on new ones (N0, P*): (P*, P*)."""
        if inputs is None:
            return self.kernels[-1]
        return prior_kernels(inputs, None, self.nonlinearity, self.depth)[-1]

    def _cross_kernel(self, inputs: np.ndarray) -> np.ndarray:
        overlaps(self.task, inputs)  # refuses inputs of the wrong dimension
        return prior_kernels(inputs, self.task.inputs, self.nonlinearity, self.depth)[-1]


def solve(
    task: Task,
    nonlinearity: str | Nonlinearity = "relu",
    depth: int = 1,
    temperature: float = 0.0,
    readout_variance: float = 1.0,
) -> Solution:
    """Condition the Gaussian process of an infinitely wide lazy network on a task.

    Args:
        task: any task.
        nonlinearity: a name from networks.NONLINEARITIES or an elementwise JAX function.
        depth: L.
        temperature: T ≥ 0, unscaled, as in the lazy posterior.
        readout_variance: σ_a²; 1 in lazy networks.

    Raises:
        ValueError: an argument is out of range, or T = 0 where a singular K_L cannot produce the targets.

    Source: paper A, Fig. 6d and "GP theory" there (Lee et al. 2018, Matthews et al. 2018).
    """
    validation.instance("task", task, Task)
    validation.number("temperature", temperature, least=0)
    validation.positive(readout_variance=readout_variance)
    kernels = prior_kernels(task.inputs, None, nonlinearity, depth)
    eigenvalues, basis = spectrum(kernels[-1])
    inverse = inverses(readout_variance * eigenvalues + temperature)
    dual_field = basis @ (inverse[:, None] * (basis.T @ task.targets))
    violation = readout_variance * kernels[-1] @ dual_field + temperature * dual_field - task.targets
    residual = float(np.linalg.norm(violation) / np.linalg.norm(task.targets))
    if temperature == 0 and not np.all(eigenvalues > 0) and residual > RESIDUAL_TOLERANCE:
        raise ValueError(
            f"task: K_L has rank {np.count_nonzero(eigenvalues)} < P = {task.num_inputs} and the targets "
            "leave its span, so the process cannot pass through them; give a temperature above 0"
        )
    found = Solution(
        task=task,
        nonlinearity=canonical(nonlinearity),
        depth=depth,
        kernels=kernels,
        dual_field=dual_field,
        readout_variance=readout_variance,
        temperature=temperature,
        residual=residual,
        num_steps=0,
        converged=residual < RESIDUAL_TOLERANCE,
    )
    return found.reported("theory.gaussian_process.solve")
