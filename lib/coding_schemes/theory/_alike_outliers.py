r"""Outliers of rectified networks on inputs alike within a class, for N, P → ∞: `theory.relu` at any overlap.

One neuron at the readout a has Σ_c G_c(a·t_c) of `theory.clustered` in the place of n_c log g(a·t_c), and
G_c(s) → ½ n_c κ_c s² at large s, κ_c = K0_μμ − ρ_c + n_c ρ_c. In the fields u_c = √κ_c t_c the constraint
on outliers and their equations are those of `theory.relu`,

    Σ_c w_c [â·u_c]₊² ≤ 1,   ā = Σ_c w_c u_c [ā·u_c]₊,   z̄_c = √κ_c [ā·u_c]₊,
    y_c/√κ_c = a0 ⟨φ⟩_c/√κ_c + Σ_i ā_i [ā_i·u_c]₊ + (T/κ_c) u_c,

with y_c/√κ_c for the targets, T/κ_c for the temperature of a class, and x ↦ G_c(x/√κ_c)/n_c for log g. So the
same search solves both, for any number of classes and outliers that answer to several; at ρ = 0 it is
`theory.relu`. What is neglected: the scatter of the bulk's readouts, of relative order 1/P, which
`theory.condensation` has where every class has an outlier of its own.

Source: the book's own; ρ = 0 is paper A's sparse scheme.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coding_schemes.tasks import Task
from coding_schemes.theory import clustered, condensation, relu

TOLERANCE, MAX_ROUNDS = 1e-9, 60  # as in theory.relu


class _Site(NamedTuple):
    """Averages of the classes in the fields u: x ↦ G_c(x/√κ_c)/n_c and derivatives."""

    site: Any
    root: np.ndarray

    def cumulants(self, x: np.ndarray, order: int = 2) -> list[np.ndarray]:
        """Up to the given order, each of the shape of x (…, C)."""
        found = self.site.cumulants((x / self.root).reshape(-1, len(self.root)), order)
        return [each.reshape(x.shape) / self.root**k for k, each in enumerate(found)]


class _Bulk(NamedTuple):
    """Its readouts (k, m) and their weights (k,)."""

    points: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution(condensation.WithOutliers):
    """Outliers and the bulk's populations.

    Attributes:
        probabilities: 1 for an outlier, then the fractions of the bulk's populations, shape (n + k,).
        codes: the classes that a kind answers to, shape (n + k, C).
    """

    probabilities: np.ndarray
    codes: np.ndarray
    method = "maxima"

    @property
    def approximation(self) -> str:
        """What the theory neglects."""
        return f"exact at N, P → ∞, outliers of one neuron each{self.problem.neglected}"

    @property
    def population_width(self) -> np.ndarray:
        """N* of every outlier on a flat branch, shape (n,): an upper bound, up to thirty times too high."""
        squares = np.square(self.outlier_readouts).sum(axis=1)
        return flat_width(squares / self.problem.readout_variance, self.costs)


def flat_width(squares: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """N* = 3/p of outliers of |ā|²/σ_a² (n,) and costs C (n,) on flat branches, p = (B/4σ_a²)^⅓ e^{−2C/3}."""
    return 3 * np.cbrt(4 / squares) * np.exp(np.minimum(2 / 3 * costs, 600.0))


def solve(task: Task, temperature: float, nonlinearity: str, readout_variance: float | None) -> Solution:
    """Outliers and bulk on inputs alike within a class, T ≥ 0.

    Raises:
        ValueError: as `clustered.make_problem`.
        FloatingPointError: the search leaves all tables.
    """
    problem = clustered.make_problem(task, temperature, nonlinearity, readout_variance)
    root, num_inputs = np.sqrt(problem.stiffness), problem.counts.sum()
    scale = float(np.sqrt(problem.readout_variance * num_inputs))  # of readouts, as σ_a² = 1/P in relu
    scaled = relu._Problem(
        problem.counts / num_inputs,
        problem.targets / (scale * root[:, None]),
        temperature / (scale * root[:, None]) ** 2,
        _Site(problem.site, root),
    )
    best, error, violation, num_steps = relu._optimum(scaled, TOLERANCE, MAX_ROUNDS)
    converged = max(error, violation) <= TOLERANCE
    found = relu._as_solution(scaled, best, task, nonlinearity, error, num_steps, converged)
    n, field = found.num_outliers, found.dual_field / (scale * root[:, None])
    readouts, activations = scale * found.readouts, root * found.activations
    bulk = _Bulk(readouts[n:], found.probabilities[n:])
    shared, square, _, _ = problem.site.shared(bulk.points @ field.T)
    block = (found.probabilities * activations.T) @ activations
    np.fill_diagonal(block, np.square(activations[:n]).sum(axis=0) + bulk.weights @ shared)
    solution = Solution(
        task=task,
        nonlinearity=nonlinearity,
        temperature=float(temperature),
        probabilities=found.probabilities,
        readouts=readouts,
        activations=activations,
        codes=found.codes,
        dual_field=field,
        costs=_costs(problem, scaled, found),
        kernel_block=block,
        kernel_diagonal=bulk.weights @ (square - shared),
        problem=problem,
        ensemble=bulk,
        residual=float(error),
        num_steps=num_steps,
        converged=converged,
    )
    return solution.reported("theory of outliers", f"constraints violated by {violation:.1e}")


def _costs(problem, scaled, found) -> np.ndarray:
    """Log Z of the bulk to leading order, and the price of silence on the classes that are not coded."""
    each = zip(problem.counts, problem.within, problem.diagonal)
    silence = np.array([condensation.log_silence(int(n), float(rho), float(one)) for n, rho, one in each])
    level = scaled.free_energy(found.readouts[found.num_outliers :], found.dual_field)[0]
    return problem.counts.sum() * level - ~found.codes[: found.num_outliers] @ silence
