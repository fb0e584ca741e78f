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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory._kinds import OrthogonalKinds
from coding_schemes.theory._solvers import check_orthogonal, pack, solve_equations, unpack

_ZERO = 1e-4  # z̄ and ā below this, relative to the largest, belong to silent classes and unused outliers


@dataclass(frozen=True, eq=False, repr=False)
class Solution(OrthogonalKinds):
    """Outliers of a network with max(0, z)², and the weak field they leave.

    Attributes:
        task: what was learned.
        nonlinearity: "relu_squared".
        probabilities: 1 for every outlier, shape (n,). The bulk answers with the prior's activations.
        readouts: ā, (n, m), in units of N^(1/3); the most expensive outlier first.
        activations: z̄² per class, (n, C), in units of N^(2/3).
        codes: the classes an outlier answers to, shape (n, C).
        num_outliers: n.
        outlier_preactivations: z̄ per class, (n, C), in units of N^(1/3).
        dual_field: τ, (C, m); the training residual is T N^(−1/3) τ.
        bulk_readout: a0 in units of N^(−1/3), ½ Σ_c w_c τ_c, (m,).
        energy: Σ_i (|ā_i|² + Σ_c w_c z̄_ic²)/2, in units of N^(2/3) P; where N is given, with what the field
            costs, N^(−1/3) (T Σ_c w_c |τ_c|² + |Σ_c w_c τ_c|²/4)/2.
        local_energies: the distinct energies at which searches ended, ascending: metastable schemes.
        residual: largest error of the stationarity equations.
        num_steps: iterations of all searches.
        converged: whether the residual is below the tolerance and no silent class wants to respond.
    """

    outlier_preactivations: np.ndarray
    bulk_readout: np.ndarray
    energy: float
    local_energies: np.ndarray
    approximation = "leading order in N^(−1/3) and P → ∞, with N given the next"

    def _outlier_preactivations(self) -> np.ndarray:
        return self.outlier_preactivations

    def _of_outliers(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(z, 0.0) ** 2


def solve(
    task: Task,
    temperature: float = 0.0,
    *,
    num_neurons: int | None = None,
    num_starts: int = 12,
    seed: int = 0,
    tolerance: float = 1e-8,
) -> Solution:
    """Outliers of a network with φ(z) = max(0, z)² on a toy task; derived in the module's header.

    Args:
        task: a task with orthogonal inputs.
        temperature: T ≥ 0; without effect at N → ∞.
        num_neurons: N, to include the terms of relative order N^(−1/3); None for N → ∞.
        num_starts: random starts of the search. The energy is not convex; the lowest minimum is returned.
        seed: draws the starts.
        tolerance: largest error allowed in the stationarity equations.
    """
    validation.number("temperature", temperature, least=0)
    weights, targets = check_orthogonal(task)
    validation.counts(num_starts=num_starts, **validation.given(num_neurons=num_neurons))
    validation.count("seed", seed, 0)
    validation.positive(tolerance=tolerance)
    small = 0.0 if num_neurons is None else num_neurons ** (-1 / 3)
    # the output that a field τ costs, besides the outliers': softness[c, d] τ_d
    softness = small * (temperature * np.eye(len(weights)) + 0.25 * weights)
    problem = _Problem(weights, targets, softness)
    rng = np.random.default_rng(seed)
    searches = [_search(problem, rng) for _ in range(num_starts)]
    minima = [(point, *_errors(problem, point), problem.energy(point)) for point, _ in searches if point]
    if not minima:
        raise RuntimeError(f"theory.relu_squared: none of {num_starts} searches satisfied the targets")
    good = [one for one in minima if one[1] <= tolerance and one[2]] or minima
    point, residual, stable, energy = min(good, key=lambda one: one[3])
    energies = np.sort([one[3] for one in good])
    order = np.argsort(-np.sum(point.a**2, 1).round(9), kind="stable")
    z = point.z[order]
    found = Solution(
        task=task,
        nonlinearity="relu_squared",
        probabilities=np.ones(len(order)),
        readouts=point.a[order],
        activations=z**2,
        codes=z > 0,
        num_outliers=len(order),
        outlier_preactivations=z,
        dual_field=point.field,
        bulk_readout=weights @ point.field / 2,
        energy=energy,
        local_energies=energies[np.append(True, np.diff(energies) > 1e-6)],
        residual=residual,
        num_steps=sum(steps for _, steps in searches),
        converged=bool(residual <= tolerance and stable),
    )
    return found.reported("theory.relu_squared.solve")


class _Point(NamedTuple):
    """Outliers ā (n, m) and z̄ (n, C), and τ (C, m); any number of points along leading axes."""

    a: np.ndarray
    z: np.ndarray
    field: np.ndarray


class _Problem(NamedTuple):
    weights: np.ndarray
    targets: np.ndarray
    softness: np.ndarray

    def energy(self, point: _Point) -> float:
        """Outliers' energy plus what the field's output costs, ½ Σ_c w_c τ_c·(softness τ)_c."""
        a, z, field = point
        cost = np.sum(a**2) + np.sum(self.weights * z**2)
        return float(cost + np.sum(field * self._weighted(field))) / 2

    def slope(self, point: _Point) -> np.ndarray:
        """Gradient of the energy."""
        a, z, field = point
        return pack((a, self.weights * z, self._weighted(field)))

    def missed(self, point: _Point) -> np.ndarray:
        """Error of the outputs, shape (…, C, m)."""
        softness = self.softness[:, : point.field.shape[-2]]
        return np.swapaxes(point.z**2, -1, -2) @ point.a + softness @ point.field - self.targets

    def _weighted(self, field: np.ndarray) -> np.ndarray:
        """w_c (softness τ)_c; nothing where a search leaves τ out."""
        return (self.weights[:, None] * self.softness)[: len(field), : len(field)] @ field


def _errors(problem: _Problem, point: _Point) -> tuple[float, bool]:
    """Largest error of the equations, and whether every silent class prefers to stay silent."""
    a, z, field = point
    drive = 2 * a @ field.T
    parts = problem.missed(point), (problem.weights * z**2) @ field - a, z * (drive - 1)
    return float(max(np.abs(part).max() for part in parts)), bool(np.all(drive[z == 0] <= 1 + 1e-6))


def _search(problem: _Problem, rng, max_steps: int = 500) -> tuple[_Point | None, int]:
    """One local minimum: SLSQP in (ā, z̄, τ), then all equations at once on the responding entries."""
    num_classes, m = problem.targets.shape
    n = num_classes + 1
    start = _Point(
        rng.standard_normal((n, m)),
        np.abs(rng.standard_normal((n, num_classes))),
        np.zeros((num_classes if np.any(problem.softness) else 0, m)),  # at N → ∞ the field costs nothing
    )

    by_field = np.kron(problem.softness[:, : len(start.field)], np.eye(m))

    def objective(x):
        point = unpack(x, start)
        return problem.energy(point), problem.slope(point)

    def missed(x):
        return problem.missed(unpack(x, start)).ravel()

    def missed_slope(x):  # by hand: with differences in its place a solve takes 1.6 times as long
        a, z, _ = unpack(x, start)
        by_a = np.einsum("ic,rq->criq", z**2, np.eye(m)).reshape(num_classes * m, -1)
        by_z = np.einsum("ic,ir,cd->crid", 2 * z, a, np.eye(num_classes)).reshape(num_classes * m, -1)
        return np.hstack([by_a, by_z, by_field])

    result = minimize(
        objective,
        pack(start),
        jac=True,
        method="SLSQP",
        constraints={"type": "eq", "fun": missed, "jac": missed_slope},
        options={"maxiter": max_steps, "ftol": 1e-12},
    )
    if not np.all(np.isfinite(result.x)) or np.abs(missed(result.x)).max() > 1e-3:
        return None, result.nit
    found = unpack(result.x, start)
    multipliers = np.linalg.lstsq(missed_slope(result.x).T, problem.slope(found), rcond=None)[0]
    z = np.abs(found.z)
    responds = z > _ZERO * z.max()
    used = responds.any(1) & (np.linalg.norm(found.a, axis=1) > _ZERO)
    field = multipliers.reshape(-1, m) / problem.weights[:, None]
    return _polish(problem, _Point(found.a[used], (z * responds)[used], field)), result.nit


def _polish(problem: _Problem, point: _Point) -> _Point:
    """The stationarity equations by Levenberg and Marquardt; silent entries of z̄ stay 0."""
    responds = point.z > 0

    def equations(x):
        a, z, field = now = unpack(x, point)
        drive = 2 * a @ np.swapaxes(field, -1, -2)
        parts = problem.missed(now), (problem.weights * z**2) @ field - a, np.where(responds, drive - 1, z)
        return np.concatenate([part.reshape(*x.shape[:-1], -1) for part in parts], axis=-1)

    a, z, field = solve_equations(equations, point)[0]
    return _Point(a, np.where(responds, z, 0.0), field)
