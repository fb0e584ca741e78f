r"""Linear networks of any depth: the posterior of readouts, kernels and predictor in closed form.

**Derivation.** Given the readouts, the back-propagated vectors of a linear network are Gaussian
layer by layer, so their m × m Gram matrices A_L = aᵀa/N, …, A_1 form a chain of Wishart draws, and
Y is Gaussian with covariance K0 ⊗ A_1/N + T/N. Up to 1/N corrections of relative order m²/N, the
log posterior of the chain is (A_{L+1} = σ_a²; λ_i, y_i: eigenvalues of K0, Y in their basis)

    N/2 Σ_ℓ [ log|A_ℓ A_{ℓ+1}⁻¹| − tr A_ℓ A_{ℓ+1}⁻¹ ]
        − N/2 Σ_i y_i (λ_i A_1 + T)⁻¹ y_iᵀ − ½ Σ_i log|λ_i A_1 + T| .

Stationarity in A_2 … A_L makes the chain geometric, A_ℓ = σ_a² H^{L−ℓ+1}, with one unknown, the
symmetric m × m matrix H. With the dual field t, whose rows are τ_i = y_i (T + λ_i σ_a² H^L)⁻¹,
stationarity in A_1 reads

    σ_a² tᵀ K0 t = (H − 1) H^{−L} + (1/N) Σ_i σ_a² λ_i (λ_i σ_a² H^L + T)⁻¹ .            (*)

The last term is the finite-width correction; dropping it (width=None) gives the saddle point of
N → ∞ at fixed P. For T → 0 and large P, (*) becomes H^{L+1} = Yᵀ K0⁻¹ Y / σ_a²: paper A's result.
From H everything follows: U = σ_a² H; K_ℓ = K0 + K0 t M_ℓ tᵀ K0 with M_ℓ = σ_a² H^L Σ_{j<ℓ} H^j;
z^L | a ~ N(K_{L−1} t a, K_{L−1}); predictor f(x) = σ_a² H^L tᵀ k0(x).

Source: paper A, "Analog coding scheme" and supplement A; the finite-T, finite-P and finite-N terms
are this book's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.optimize import root as find_root

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory._drawn import Drawn, matrix_given_response
from coding_schemes.theory._kinds import OneKind
from coding_schemes.theory._solvers import inverses, overlaps, spectrum, symmetric_root

RESIDUAL_TOLERANCE = 1e-9  # relative to the size of H; the solve lands near 1e-13 where it converges


@dataclass(frozen=True, eq=False, repr=False)
class Solution(OneKind):
    """Solution of the linear theory.

    All neurons are of one kind: readouts scatter around 0 with covariance U, and so do preactivations.

    Attributes:
        task: what was learned.
        depth: L.
        readout_covariance: U, posterior covariance of one neuron's readouts, shape (m, m).
        kernels: K_0 … K_L on the training inputs, shape (L + 1, P, P).
        dual_field: t, shape (P, m); the mean predictor's training residual is T t.
        learned_factors: M_ℓ for ℓ = 0 … L, shape (L + 1, m, m): K_ℓ = K0 + K0 t M_ℓ tᵀ K0.
        readout_variance: the prior σ_a² that was used.
        temperature: T.
        residual: size of the stationarity condition's violation, relative to H.
        num_steps: function evaluations of the root finder (0 for the closed form).
        converged: whether the residual is below RESIDUAL_TOLERANCE.
    """

    task: Task
    depth: int
    readout_covariance: np.ndarray
    kernels: np.ndarray
    dual_field: np.ndarray
    learned_factors: np.ndarray
    readout_variance: float
    temperature: float

    @property
    def approximation(self) -> str:
        """What is neglected."""
        return "exact at N → ∞" if self.temperature > 0 else "T → 0 of the limit N, P → ∞"

    @property
    def activations(self) -> np.ndarray:
        """Their mean activation per class, 0, shape (1, C)."""
        return np.zeros((1, self.task.num_classes))

    @property
    def feature_slopes(self) -> np.ndarray:
        """Slope of ⟨z^L | a⟩ = (K_{L−1} t) a, shape (P, m); Y U⁻¹ for T → 0 and large P."""
        return self.kernels[self.depth - 1] @ self.dual_field

    def draw(self, rng: Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P), readouts (N, m) and W² … W^L of N = width neurons.

        From their joint Gaussian, W^ℓ from its prior given what layer ℓ is to have.
        """
        roots = [symmetric_root(kernel) for kernel in self.kernels[:-1]]
        readouts = rng.standard_normal((width, len(self.readout_covariance)))
        readouts = readouts @ symmetric_root(self.readout_covariance)
        hidden: list[np.ndarray] = []
        for layer in range(1, self.depth + 1):
            # z^ℓ ~ N(0, K_ℓ) below, z^L | a ~ N(K_{L−1} t a, K_{L−1}) above
            root = roots[layer - (layer == self.depth)]
            aim = rng.standard_normal((width, len(root))) @ root
            if layer == self.depth:
                aim += readouts @ self.feature_slopes.T
            if layer == 1:
                first = z = aim
                continue
            features = z / width**0.5
            hidden.append(matrix_given_response(rng, features, aim))
            z = hidden[-1] @ features
        return first, readouts, tuple(hidden)

    @property
    def _output_gram(self) -> np.ndarray:
        """A_1 = σ_a² H^L."""
        h = self.readout_covariance / self.readout_variance
        return self.readout_variance * np.linalg.matrix_power(h, self.depth)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor f(x) = σ_a² H^L tᵀ k0(x) on inputs (N0, P*), shape (P*, m).

        At T → 0 it is Yᵀ K0⁻¹ k0(x), the Gaussian process's.
        """
        return overlaps(self.task, inputs) @ self.dual_field @ self._output_gram

    def kernel(self, inputs: np.ndarray | None = None, layer: int | None = None) -> np.ndarray:
        """K_ℓ, the feature layer's unless given: (P, P) of the training inputs, or (P*, P*) of new ones."""
        layer = self.depth if layer is None else layer
        if inputs is None:
            return self.kernels[layer]
        factor = self.learned_factors[layer]
        coded = overlaps(self.task, inputs) @ self.dual_field
        return inputs.T @ inputs / self.task.input_dim + coded @ factor @ coded.T

    def predictor_variance(self, inputs: np.ndarray, width: int) -> np.ndarray:
        """Variance (P*, m) of a network's outputs on new inputs (N0, P*) at width N, to leading order in 1/N.

        Var f(x) = diag[A_1 κ0(x, x) − Σ_i k_i(x)² A_1 (λ_i A_1 + T)⁻¹ A_1] / N
        """
        gram = self._output_gram
        eigenvalues, basis = np.linalg.eigh(self.task.input_kernel)
        overlaps_sq = np.square(overlaps(self.task, inputs) @ basis)
        explained = gram @ _ridge_inverses(eigenvalues, gram, self.temperature) @ gram
        prior = np.square(inputs).sum(0)[:, None] / self.task.input_dim * np.diag(gram)
        return (prior - overlaps_sq @ np.einsum("imm->im", explained)) / width


def solve(
    task: Task,
    depth: int = 1,
    temperature: float = 0.0,
    readout_variance: float | None = None,
    width: int | None = None,
) -> Solution:
    """Solve the linear theory for a task.

    At `temperature=0.0` this is paper A's closed form (T → 0, P → ∞),

        U^{L+1} = σ_a^{2L} Yᵀ K0⁻¹ Y,   K_ℓ = K0 + σ_a^{2(L−ℓ)} Y U^{−(L−ℓ+1)} Yᵀ ,

    with pseudo-inverses where targets are linearly dependent (y₊ = 1, y₋ = −1/2 and three classes).
    At `temperature > 0` it is the exact saddle point at that T and finite P, equation (*) of the
    module docstring, with the finite-width term if `width` is given.

    Args:
        task: any task; its input kernel need not be the identity.
        depth: L.
        temperature: T ≥ 0 (rescaled, as in the posterior).
        readout_variance: σ_a²; 1/P^{1/L} unless given.
        width: N, to include the finite-width term (needs temperature > 0).

    Raises:
        ValueError: an argument is out of range, or T = 0 where a singular K0 cannot produce the targets.

    Source: paper A, "Analog coding scheme".
    """
    validation.instance("task", task, Task)
    validation.counts(depth=depth, **validation.given(width=width))
    validation.number("temperature", temperature, least=0)
    validation.positive(**validation.given(readout_variance=readout_variance))
    readout_variance = task.num_inputs ** (-1 / depth) if readout_variance is None else readout_variance
    if width is not None and temperature == 0:
        raise ValueError(f"width: got {width} at T = 0; its corrections need a temperature above 0")

    eigenvalues, basis = spectrum(task.input_kernel)
    rotated = basis.T @ task.targets  # y_i, row by row
    overlap = _task_overlap(eigenvalues, rotated, temperature)
    if temperature == 0:
        values, vectors = spectrum(overlap / readout_variance)
        h = (vectors * values ** (1 / (depth + 1))) @ vectors.T
        residual, num_steps = 0.0, 0
        powers = [np.linalg.matrix_power(h, depth + layer - 1) for layer in range(1, depth + 1)]
        factors = [np.zeros_like(h), *(readout_variance * power for power in powers)]
    else:
        start = _zero_temperature_start(overlap / readout_variance, depth)
        h, residual, num_steps = _saddle(
            eigenvalues, rotated, depth, temperature, readout_variance, width, start
        )
        sums = np.cumsum([np.linalg.matrix_power(h, j) for j in range(depth)], axis=0)
        factors = [np.zeros_like(h), *(readout_variance * np.linalg.matrix_power(h, depth) @ sums)]

    inverse = _ridge_inverses(eigenvalues, readout_variance * np.linalg.matrix_power(h, depth), temperature)
    dual_field = basis @ np.einsum("im,imk->ik", rotated, inverse)
    learned = task.input_kernel @ dual_field
    found = Solution(
        task,
        depth,
        readout_covariance=readout_variance * h,
        kernels=np.stack([task.input_kernel + learned @ factor @ learned.T for factor in factors]),
        dual_field=dual_field,
        learned_factors=np.stack(factors),
        readout_variance=readout_variance,
        temperature=temperature,
        residual=residual,
        num_steps=num_steps,
        converged=residual < RESIDUAL_TOLERANCE,
    )
    return found.reported("theory.linear.solve")


def gram_logdensity(
    task: Task, grams: ArrayLike, width: int, temperature: float, readout_variance: float
) -> np.ndarray:
    """Exact finite-width log density (…) of the Gram matrices' chain for one output (m = 1).

    Density of (A_L, …, A_1) with respect to ∏ dA_ℓ, for N, P and T as they are, up to a constant:

        Σ_ℓ [ (N/2 − 1) log A_ℓ − N/2 log A_{ℓ+1} − N A_ℓ/(2 A_{ℓ+1}) ]
            − N/2 Σ_i y_i²/(λ_i A_1 + T) − ½ Σ_i log(λ_i A_1 + T) .

    No approximation: samplers of deep linear networks are tested against it.

    Args:
        task: a task with m = 1 (else ValueError).
        grams: A_L … A_1 along the last axis, shape (…, L).
        width: N.
        temperature: T > 0.
        readout_variance: σ_a².
    """
    if task.num_targets != 1:
        raise ValueError(f"task: has m = {task.num_targets} outputs, the exact density is for m = 1")
    grams = validation.array("grams", grams, "…, L")
    validation.positive(grams=grams.min(), temperature=temperature, readout_variance=readout_variance)
    validation.counts(width=width)
    eigenvalues, basis = np.linalg.eigh(task.input_kernel)
    targets_sq = np.square(basis.T @ task.targets)[:, 0]
    above = np.concatenate([np.full((*grams.shape[:-1], 1), readout_variance), grams[..., :-1]], axis=-1)
    chain = (width / 2 - 1) * np.log(grams) - width / 2 * (np.log(above) + grams / above)
    variance = np.maximum(eigenvalues, 0) * grams[..., -1:] + temperature
    return chain.sum(-1) - 0.5 * (width * targets_sq / variance + np.log(variance)).sum(-1)


def _saddle(eigenvalues, rotated, depth, temperature, readout_variance, width, start):
    """H of equation (*), symmetric, with its relative residual and the number of evaluations.

    The solution is followed up in temperature where the direct solve fails. Logarithms keep H positive
    definite on the way.
    """
    upper = np.triu_indices(len(start))

    def unpack(log_entries):
        log_h = np.zeros(start.shape)
        log_h[upper] = log_entries
        log_h = log_h + np.triu(log_h, 1).T
        values, vectors = np.linalg.eigh(log_h)
        return (vectors * np.exp(np.clip(values, -50, 50))) @ vectors.T

    def violation(log_entries, temperature):
        h = unpack(log_entries)
        power = np.linalg.matrix_power(h, depth)
        ridge = _ridge_inverses(eigenvalues, readout_variance * power, temperature)
        dual = np.einsum("im,imk->ik", rotated, ridge)
        dual_overlap = readout_variance * (eigenvalues * dual.T) @ dual
        if width is not None:
            dual_overlap -= readout_variance / width * np.einsum("i,imk->mk", eigenvalues, ridge)
        missed = power @ dual_overlap - (h - np.eye(len(h)))
        return (0.5 * (missed + missed.T))[upper]

    def newton(start, temperature):
        values, vectors = np.linalg.eigh(start)
        log_start = ((vectors * np.log(values)) @ vectors.T)[upper]
        result = find_root(violation, log_start, (temperature,), tol=1e-14)
        h = unpack(result.x)
        residual = np.linalg.norm(violation(result.x, temperature)) / np.linalg.norm(h)
        return h, float(residual), int(result.nfev)

    h, residual, num_steps = newton(start, temperature)
    if residual >= RESIDUAL_TOLERANCE:
        h = start
        for between in temperature * np.geomspace(1e-6, 1, 49):
            h, residual, more = newton(h, between)
            num_steps += more
    return h, residual, num_steps


def _task_overlap(eigenvalues: np.ndarray, rotated: np.ndarray, temperature: float) -> np.ndarray:
    """Yᵀ K0⁺ Y, shape (m, m); refuses targets that K0 cannot produce when T = 0."""
    reachable = eigenvalues > 0
    missed = np.linalg.norm(rotated[~reachable])
    if temperature == 0 and missed > 1e-8 * np.linalg.norm(rotated):
        raise ValueError(
            f"task: K0 has rank {reachable.sum()} < P = {len(eigenvalues)} and the targets leave its span, "
            "so no linear network fits them; give a temperature above 0"
        )
    scaled = rotated[reachable] / np.sqrt(eigenvalues[reachable])[:, None]
    return scaled.T @ scaled


def _zero_temperature_start(scaled_overlap: np.ndarray, depth: int) -> np.ndarray:
    """H at T → 0 and finite P: eigenvalue by eigenvalue, h^{L+1} − h^L = eigenvalue."""
    values, vectors = np.linalg.eigh(scaled_overlap)
    roots = [np.max(np.roots([1, -1, *[0] * (depth - 1), -max(value, 0)]).real) for value in values]
    return (vectors * np.array(roots)) @ vectors.T


def _ridge_inverses(eigenvalues: np.ndarray, gram: np.ndarray, temperature: float) -> np.ndarray:
    """(λ_i A + T)⁻¹ for every i, shape (P, m, m); zero where λ_i = T = 0."""
    values, vectors = spectrum(gram)
    inverse = inverses(eigenvalues[:, None] * values + temperature)
    return np.einsum("mk,ik,nk->imn", vectors, inverse, vectors)
