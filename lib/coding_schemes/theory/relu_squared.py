r"""Sparse coding schemes for φ(z) = max(0, z)²: why they scale as N^(1/3), and what replaces the dual.

A neuron's output a φ(z)/N is now of degree three. In the dual of `coding_schemes.theory.relu`,
g(s) = ⟨exp(s max(0, z)²)⟩ = ½ + ½ (1 − 2s)^(−1/2) diverges for s ≥ ½: with any t ≠ 0 the energy E(a) is
infinite for large a, so that D is finite at t = 0 alone. There is no saddle with a, z = O(√N).

Instead, a neuron reaches an output of order one with a = N^(1/3) ā, z = N^(1/3) z̄, at a cost of
N^(2/3) P (|ā|² + Σ_c w_c z̄_c²)/2, far below the N P that bulk neurons would pay. So outliers learn the
whole task; t = N^(−1/3) τ, the residual T t and the bulk's readout a0 = ½ Σ_c w_c t_c all vanish as
N^(−1/3), and the posterior at N → ∞ sits, at every T = O(1), on the minimum of

    Σ_i (|ā_i|² + Σ_c w_c z̄_ic²)/2   subject to   Σ_i ā_i z̄_ic² = y_c,   z̄ ≥ 0,
    ā_i = Σ_c w_c τ_c z̄_ic²,   2 ā_i·τ_c = 1 where z̄_ic > 0  (≤ 1 where z̄_ic = 0).

Eliminating each outlier's scale leaves (3/2) 2^(−2/3) Σ_i M_i^(2/3), with M_i = |ā_i| Σ_c w_c z̄_ic². This
is concave in the M_i: unlike for ReLU, splitting an outlier into k parallel ones costs a factor k^(1/3)
at leading order, so parallel outliers merge fast; and there may be several local minima, so that
no dual certifies the global one. We search from many starts. A finite solution always exists: one
outlier for each class produces any target.

The corrections are of relative order N^(−1/3) (0.13 at N = 500), too large to drop: with N given the
constraint becomes Σ_i ā_i z̄_ic² + N^(−1/3) (T τ_c + ¼ Σ_d w_d τ_d) = y_c, the last term being the bulk's
output. The error is then of relative order N^(−2/3), up to a logarithm.

Source: paper A states the sparse scheme for max(0, z)² from sampling only (supplement E).
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from coding_schemes.tasks import Task
from coding_schemes.theory.relu import check_task

_ZERO = 1e-4  # z̄ and ā below this, relative to the largest, belong to silent classes and unused outliers


@dataclass(frozen=True)
class Solution:
    """Outliers of a network with max(0, z)², and the weak field they leave.

    Attributes:
        outlier_readouts: ā, (n, m), in units of N^(1/3); the most expensive outlier first.
        outlier_preactivations: z̄ per class, (n, C), in units of N^(1/3).
        dual_field: τ, (C, m); the training residual is T N^(−1/3) τ.
        bulk_readout: a0 in units of N^(−1/3), ½ Σ_c w_c τ_c, (m,).
        energy: Σ_i (|ā_i|² + Σ_c w_c z̄_ic²)/2, in units of N^(2/3) P.
        local_energies: the distinct energies at which searches ended, ascending: metastable schemes.
        residual: largest error of the stationarity equations.
        num_steps: iterations of all searches.
        converged: whether the residual is below the tolerance and no silent class wants to respond.
    """

    outlier_readouts: np.ndarray
    outlier_preactivations: np.ndarray
    dual_field: np.ndarray
    bulk_readout: np.ndarray
    energy: float
    local_energies: np.ndarray
    residual: float
    num_steps: int
    converged: bool


def solve(
    task: Task,
    temperature: float = 0.0,
    *,
    num_neurons: int | None = None,
    num_starts: int = 12,
    seed: int = 0,
    tolerance: float = 1e-8,
) -> Solution:
    """Outliers of a network with φ(z) = max(0, z)² on a toy task.

    Args:
        task: a task with orthogonal inputs.
        temperature: T; without effect at N → ∞.
        num_neurons: N, to include the terms of relative order N^(−1/3); None for N → ∞.
        num_starts: random starts of the search. The energy is not convex; the lowest minimum is returned.
        seed: draws the starts.
        tolerance: largest error allowed in the stationarity equations.

    Returns:
        A Solution.

    Raises:
        ValueError: T < 0 or not finite, inputs not orthogonal, or N or the number of starts below 1.

    Source: derived in the module's header.
    """
    weights, targets = check_task(task, temperature)
    if num_neurons is not None and num_neurons < 1:
        raise ValueError(f"num_neurons: got {num_neurons}, needs at least 1, or None for N → ∞")
    if num_starts < 1:
        raise ValueError(f"num_starts: got {num_starts}, needs at least 1")
    small = 0.0 if num_neurons is None else num_neurons ** (-1 / 3)
    # the output that a field τ costs, besides the outliers': softness[c, d] τ_d
    softness = small * (temperature * np.eye(len(weights)) + 0.25 * weights)
    rng = np.random.default_rng(seed)
    minima, num_steps = [], 0
    for _ in range(num_starts):
        point, steps = _search(weights, targets, softness, rng)
        num_steps += steps
        if point is not None:
            minima.append((*point, *_errors(point, weights, targets, softness)))
    if not minima:
        raise RuntimeError(f"theory.relu_squared: none of {num_starts} searches satisfied the targets")
    good = [x for x in minima if x[3] <= tolerance and x[4]] or minima
    outliers, z, field, residual, stable = min(
        good, key=lambda x: _energy(x[0], x[1], x[2], weights, softness)
    )
    energies = np.array(sorted(_energy(x[0], x[1], x[2], weights, softness) for x in good))
    converged = residual <= tolerance and stable
    if not converged:
        warnings.warn(f"theory.relu_squared.solve did not converge: residual {residual:.1e}", stacklevel=2)
    order = np.argsort(-np.sum(outliers**2, 1).round(9), kind="stable")
    return Solution(
        outlier_readouts=outliers[order],
        outlier_preactivations=z[order],
        dual_field=field,
        bulk_readout=weights @ field / 2,
        energy=float(energies[0]),
        local_energies=energies[np.append(True, np.diff(energies) > 1e-6)],
        residual=residual,
        num_steps=num_steps,
        converged=bool(converged),
    )


def _energy(outliers, z, field, weights, softness):
    """Outliers' energy plus what the field's output costs, ½ Σ_c w_c τ_c·(softness τ)_c."""
    return float(
        (np.sum(outliers**2) + np.sum(weights * z**2) + np.sum(weights @ (field * (softness @ field)))) / 2
    )


def _errors(point, weights, targets, softness):
    """Largest error of the equations, and whether every silent class prefers to stay silent."""
    outliers, z, field = point
    drive = 2 * outliers @ field.T
    parts = (
        (z**2).T @ outliers + softness @ field - targets,
        (weights * z**2) @ field - outliers,
        z * (drive - 1),
    )
    return float(max(np.abs(part).max() for part in parts)), bool(np.all(drive[z == 0] <= 1 + 1e-6))


def _search(weights, targets, softness, rng, max_steps=500):
    """One local minimum: SLSQP in (ā, z̄, τ), then Newton on the responding entries."""
    num_classes, m = targets.shape
    n = num_classes + 1
    sizes = np.cumsum([n * m, n * num_classes])
    with_field = bool(np.any(softness))

    def split(x):
        a, z, field = np.split(x, sizes)
        return (
            a.reshape(n, m),
            z.reshape(n, -1),
            field.reshape(-1, m) if with_field else np.zeros_like(targets),
        )

    def objective(x):
        a, z, field = split(x)
        slope = [a.ravel(), (weights * z).ravel()]
        if with_field:
            slope.append((weights[:, None] * (softness @ field)).ravel())
        return _energy(a, z, field, weights, softness), np.concatenate(slope)

    def constraint(x):
        a, z, field = split(x)
        return ((z**2).T @ a + softness @ field - targets).ravel()

    def constraint_slope(x):
        a, z, _ = split(x)
        by_a = np.einsum("ic,rq->criq", z**2, np.eye(m)).reshape(targets.size, -1)
        by_z = np.einsum("ic,ir,cd->crid", 2 * z, a, np.eye(num_classes)).reshape(targets.size, -1)
        return np.hstack([by_a, by_z] + ([np.kron(softness, np.eye(m))] if with_field else []))

    start = [rng.standard_normal(n * m), np.abs(rng.standard_normal(n * num_classes))]
    start += [np.zeros(targets.size)] if with_field else []
    result = minimize(
        objective,
        np.concatenate(start),
        jac=True,
        method="SLSQP",
        constraints={"type": "eq", "fun": constraint, "jac": constraint_slope},
        options={"maxiter": max_steps, "ftol": 1e-12},
    )
    if not np.all(np.isfinite(result.x)) or np.abs(constraint(result.x)).max() > 1e-3:
        return None, result.nit
    a, z, _ = split(result.x)
    slope = constraint_slope(result.x)
    multipliers = np.linalg.lstsq(slope.T, objective(result.x)[1], rcond=None)[0]
    field = multipliers.reshape(-1, m) / weights[:, None]
    z = np.abs(z)
    responds = z > _ZERO * z.max()
    used = responds.any(1) & (np.linalg.norm(a, axis=1) > _ZERO)
    return _polish(a[used], np.where(responds, z, 0.0)[used], field, weights, targets, softness), result.nit


def _polish(a, z, field, weights, targets, softness, num_steps=20):
    """Newton on ā, the responding z̄ and τ, with least-squares steps."""
    (n, m), responds, num_classes = a.shape, z > 0, len(weights)
    eye = np.eye(m)
    for _ in range(num_steps):
        errors = np.concatenate(
            [
                ((z**2).T @ a + softness @ field - targets).ravel(),
                ((weights * z**2) @ field - a).ravel(),
                (2 * a @ field.T - 1)[responds],
            ]
        )
        i, c = np.nonzero(responds)
        k = np.arange(len(i))
        of_targets = np.zeros((num_classes, m, len(i)))
        of_targets[c, :, k] = 2 * z[i, c, None] * a[i]
        of_readouts = np.zeros((n, m, len(i)))
        of_readouts[i, :, k] = (2 * weights[c] * z[i, c])[:, None] * field[c]
        gap_a, gap_field = np.zeros((len(i), n, m)), np.zeros((len(i), num_classes, m))
        gap_a[k, i], gap_field[k, c] = 2 * field[c], 2 * a[i]
        jacobian = np.block(
            [
                [
                    np.einsum("ic,rq->criq", z**2, eye).reshape(num_classes * m, -1),
                    of_targets.reshape(num_classes * m, -1),
                    np.kron(softness, eye),
                ],
                [
                    -np.eye(n * m),
                    of_readouts.reshape(n * m, -1),
                    np.einsum("c,ic,rq->ircq", weights, z**2, eye).reshape(n * m, -1),
                ],
                [gap_a.reshape(len(i), -1), np.zeros((len(i), len(i))), gap_field.reshape(len(i), -1)],
            ]
        )
        step = np.linalg.lstsq(jacobian, -errors, rcond=1e-11)[0]
        of_a, of_z, of_field = np.split(step, [n * m, n * m + len(i)])
        a, field = a + of_a.reshape(n, m), field + of_field.reshape(num_classes, m)
        z = z.copy()
        z[responds] += of_z
        if np.abs(step).max() < 1e-13 or not np.all(np.isfinite(step)):
            break
    return a, z, field
