r"""Redundant coding schemes: single-hidden-layer networks with a bounded nonlinearity.

On the toy task (orthogonal inputs, n_c of them in class c) the posterior of a wide network is a
product over its neurons. With a dual field t (C, m), one neuron's readout and preactivations have
the density

    P(a, z) ∝ N(a; 0, σ_a² 1) Π_μ N(z_μ; 0, 1) exp(Σ_c a·t_c Σ_{μ∈c} φ(z_μ)),

so that, with L(s) = log E_{z~N(0,1)} e^{sφ(z)},

    P(a) ∝ e^{E(a)},   E(a) = −|a|²/(2σ_a²) + Σ_c n_c L(a·t_c),   F(t) = log ∫ da N-normalized e^{E(a)},

and t minimizes the convex function

    D(t) = F(t) − Σ_c n_c t_c·y_c + (T/2) Σ_c n_c |t_c|² .

Its gradient, n_c [⟨φ_c a⟩ − y_c + T t_c], says that T t is the training residual of the mean
predictor; its Hessian is the covariance of the statistics Σ_{μ∈c} φ(z_μ) a plus T. min D is the
log evidence per neuron.

**Integrals.** e^{E} is a mixture of Gaussians of variance σ_a² (one for every z), so its Fourier
transform falls at least like a Gaussian's and the trapezoid rule on a lattice of spacing
0.9 σ_a is exact to 1e-9, whatever the number, place and shape of the peaks. E + |a|²/(2σ_a²) is
convex, which bounds E inside a cube by its corners: the cubes that matter are found by
subdivision, and no peak can be missed. For more than three outputs, Laplace's formula with
determinants is used at every maximum of E; the maxima are found from many starts by
a ← σ_a² Σ_c n_c t_c L'(a·t_c), which never decreases E.

**Codes and restricted schemes.** A neuron's code is the set of classes whose mean activation is
above the middle of φ's range. Restricting class c's mean activation to one side of it replaces
L(s), beyond the s where L' crosses it, by its tangent there (to leading order in n_c). Every term
stays log-convex in t, so a scheme restricted to some codes, with free or with given occupancies,
is again a convex problem with one optimum: that is how frozen schemes are compared with the
equilibrium one.

Source: paper A, "Redundant coding scheme" and supplement B.1. The convex dual, and with it any
temperature, finite P and restricted schemes, is this book's formulation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicSpline
from scipy.special import ndtr
from scipy.stats import norm

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory._convex_dual import (
    FINE,
    Dual,
    Peaks,
    Problem,
    cold_start,
    covariance,
    kept,
    make_problem,
    minimum,
    neurons,
    peaks,
    statistics,
)
from coding_schemes.theory._drawn import GRID, Drawn, dealt
from coding_schemes.theory._solution import QuadratureOrLaplace, Solved
from coding_schemes.theory._solvers import class_kernel
from coding_schemes.theory._tilted import NODES, Nonlinearity

TOLERANCE = 1e-9  # on the largest entry of ⟨φa⟩ + T t − y; publicly promised: 1e-8
MAX_QUADRATURE_OUTPUTS = 3
MIN_PROBABILITY = 1e-6  # peaks with a smaller weight are not listed


class Coded:
    """What schemes of any layer can say of themselves; see the attributes of Solution."""

    codes: np.ndarray
    probabilities: np.ndarray
    kernel_block: np.ndarray
    kernel_diagonal: np.ndarray

    def occupancy(self, code: Sequence[int] | np.ndarray) -> float:
        """Fraction of neurons with a code (summed over its maxima; 0 where it does not occur)."""
        match = np.all(self.codes == np.asarray(code, bool), axis=1)
        return float(self.probabilities[match].sum())

    def kernel(self, labels: np.ndarray) -> np.ndarray:
        """K_μν = ⟨φ(z_μ) φ(z_ν)⟩ of the layer, (P, P), for inputs of the given classes, (P,)."""
        return class_kernel(self.kernel_block, self.kernel_diagonal, np.asarray(labels))


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Coded, QuadratureOrLaplace, Solved):
    """A coding scheme: the single-neuron posterior at the optimum of the dual.

    Rows γ run over the maxima of the readout posterior (of a restricted scheme: over its codes),
    most occupied first.

    Attributes:
        probabilities: fraction of neurons P_γ in the basin of a_γ, shape (n,). What one counts in networks,
            by activity, is `measured_occupancies`.
        readouts: the maxima a_γ, shape (n, m).
        mean_readouts: mean of a over the neurons of γ at this finite P, shape (n, m).
        activations: mean activation per class ⟨φ⟩ of the neurons of γ, shape (n, C).
        codes: whether the class activates the neuron, shape (n, C).
        exists: whether a_γ is a maximum of the unrestricted landscape too; always so unless
            `codes` was given, shape (n,).
        dual_field: t, shape (C, m).
        training_residual: y − f of the mean predictor per class, T t, shape (C, m).
        kernel_block: K_μν for μ ≠ ν in classes c, c', shape (C, C).
        kernel_diagonal: what is added on the diagonal, K_μμ = block + diagonal, shape (C,).
        free_energy: −log evidence per neuron, −min D (in units of N); lower is better. For given
            occupancies it contains their entropy.
        energy: mean of U/N, the energy per neuron to leading order in N.
        residual: largest entry of |⟨φa⟩ + T t − y|.
        num_steps: Newton steps taken.
        method: "quadrature" or "laplace".
        problem: what was solved.
        restriction: the codes asked for, shape (k, C), or None.
        occupancies: the occupancies asked for, shape (k,), or None.
    """

    probabilities: np.ndarray
    readouts: np.ndarray
    mean_readouts: np.ndarray
    activations: np.ndarray
    codes: np.ndarray
    exists: np.ndarray
    dual_field: np.ndarray
    training_residual: np.ndarray
    kernel_block: np.ndarray
    kernel_diagonal: np.ndarray
    free_energy: float
    energy: float
    method: str
    problem: Problem
    restriction: np.ndarray | None = None
    occupancies: np.ndarray | None = None

    @property
    def temperature(self) -> float:
        """T."""
        return self.problem.temperature

    @cached_property
    def _neurons(self):
        return neurons(self.dual_field, self.problem, self.method)

    def draw(self, rng: Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P) and readouts (N, m) of N = width independent neurons, dealt to the codes."""
        rows = dealt(self.probabilities, width)
        z = np.empty((width, len(labels)))
        for row in np.unique(rows):
            for c in range(labels.max() + 1):
                where = np.ix_(rows == row, labels == c)
                z[where] = np.interp(rng.random(z[where].shape), _cumulative(self, int(row), c), GRID)
        return z, self.readouts[rows]

    def num_peaks(self, min_probability: float = 0.01) -> int:
        """How many maxima of the readout posterior hold at least this fraction of the neurons."""
        return int(np.sum(self.probabilities >= min_probability))


def solve(
    task: Task,
    temperature: float,
    *,
    nonlinearity: Nonlinearity = "sigmoidal",
    method: str = "auto",
    codes: Sequence[Sequence[int]] | np.ndarray | None = None,
    occupancies: Sequence[float] | np.ndarray | None = None,
    start: np.ndarray | None = None,
    readout_variance: float | None = None,
    class_targets: np.ndarray | None = None,
) -> Solution:
    """Coding scheme of a wide single-hidden-layer network on an orthogonal task: the minimum of D(t).

    By Newton's method with the exact Hessian; equations and source stand in the module's docstring.

    Args:
        task: orthogonal inputs, any number of classes, class ratios and class targets.
        temperature: T ≥ 0, the rescaled temperature of paper A. At T = 0 the mean predictor fits exactly.
        nonlinearity: a bounded one, by name or as an elementwise JAX function.
        method: "quadrature" (at most 3 outputs), "laplace", or "auto": quadrature where it can.
        codes: restrict the neurons to these codes, shape (k, C) of 0 and 1; None: free choice.
        occupancies: fraction of neurons with each of `codes`, shape (k,), where these are frozen
            rather than in equilibrium.
        start: dual field (C, m) to start from, e.g. a neighboring solution's.
        readout_variance: σ_a²; 1/P unless given.
        class_targets: (C, m) targets in place of the task's, for sweeps over targets.

    Returns:
        A Solution; converged=False, with a warning, where the residual stays above the tolerance.

    Raises:
        ValueError: inputs not orthogonal, a class without inputs, one target for all classes, T < 0, a
            nonlinearity that is not bounded, elementwise and finite, too many outputs for quadrature, or
            codes and occupancies of the wrong shape.
    """
    problem = make_problem(task, temperature, nonlinearity, readout_variance, class_targets)
    restriction, occupancies = restricted(codes, occupancies, len(problem.counts))
    method = _method(method, problem)
    if start is not None:
        start = validation.array("start", start, "{}, {}".format(*problem.targets.shape))
    return _solve(problem, method, restriction, occupancies, start).reported("theory.sigmoidal.solve")


def scan(
    task: Task,
    temperatures: float | Sequence[float] | np.ndarray,
    class_targets: Iterable[np.ndarray] | None = None,
    **options,
) -> list[Solution]:
    """Solutions along a line of temperatures, of targets, or of both, each started from those before.

    Args:
        task: gives the classes' sizes, and the targets unless `class_targets` are given.
        temperatures: one T, or one per point.
        class_targets: k matrices (C, m), or None for the task's own.
        **options: as for `solve`, whose errors it raises; or the two lines have different lengths.

    Returns:
        One Solution per point, in order.
    """
    targets = None if class_targets is None else [np.asarray(y, float) for y in class_targets]
    temperatures = validation.array("temperatures", temperatures, "…")
    count = len(targets) if targets is not None else temperatures.size
    if temperatures.ndim > 1 or (temperatures.ndim == 1 and len(temperatures) != count):
        raise ValueError(f"temperatures: got shape {temperatures.shape}, needs one number or {count} of them")
    start = options.pop("start", None)
    solutions: list[Solution] = []
    for index, temperature in enumerate(np.broadcast_to(temperatures, count)):
        point = None if targets is None else targets[index]
        solution = solve(task, float(temperature), class_targets=point, start=start, **options)
        solutions.append(solution)
        start = solution.dual_field if solution.converged else None
        if index > 0 and solution.converged and solutions[-2].converged:  # straight on: fewer steps in all
            start = 2 * solution.dual_field - solutions[-2].dual_field
    return solutions


def _solve(problem, method, restriction, occupancies, start) -> Solution:
    sides = [None] if restriction is None else [np.where(code, 1, -1) for code in restriction]

    def dual_of(problem, rough=True):
        return Dual(problem, method, sides, occupancies, rough)

    def descend(field):
        """Newton's method, first on a coarse lattice; without determinants the optimum would not be near."""
        steps = 0
        if method == "quadrature":
            field, _, steps, _ = minimum(dual_of(problem), field, 3e-6)
        field, residual, more, integrals = minimum(dual_of(problem, False), field, TOLERANCE)
        return field, residual, steps + more, integrals

    residual, num_steps = np.inf, 0
    if start is not None:
        field, residual, num_steps, integrals = descend(start)
    if not residual <= TOLERANCE:
        field, steps = cold_start(problem, dual_of)
        field, residual, more, integrals = descend(field)
        num_steps += steps + more
    if integrals is None:
        raise FloatingPointError(f"sigmoidal theory: the solve diverged after {num_steps} steps")
    return _describe(problem, method, sides, occupancies, restriction, field, residual, num_steps, integrals)


class Transition(NamedTuple):
    """Where the number of peaks of the readout posterior changes along a line.

    Attributes:
        temperature: T at the transition.
        class_targets: (C, m) at the transition.
        position: on the line, 0 at its start and 1 at its stop.
        before: the scheme just before it.
        after: the scheme just after it.
        weight: fraction of neurons that the peak with fewest holds just before, or after, it; a small weight
            says that codes come and go continuously in number of neurons.
        distance: from that peak's readout to the nearest other one; finite: codes do not merge.
    """

    temperature: float
    class_targets: np.ndarray
    position: float
    before: Solution
    after: Solution
    weight: float
    distance: float


def _without_start(options):
    if given := {"start", "class_targets"} & options.keys():
        raise ValueError(f"{min(given)}: is found along the way here, and cannot be given")


def transitions(
    task: Task,
    temperatures: tuple[float, float],
    class_targets: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    num_points: int = 21,
    min_probability: float = 0.01,
    tolerance: float = 1e-3,
    **options,
) -> list[Transition]:
    """All changes in the number of occupied peaks on a straight line in T and targets.

    The line is scanned at `num_points` points and every change found is bisected.

    Args:
        task: gives the classes' sizes, and the targets unless given.
        temperatures: T at the line's start and stop.
        class_targets: (C, m) targets at its start and stop; None: the task's at both.
        num_points: of the first scan; two changes that cancel between two points are missed.
        min_probability: a peak counts when it holds at least this fraction of the neurons.
        tolerance: on the position, as a fraction of the line.
        **options: as for `solve`, whose errors it raises; every solve starts from the one before.

    Returns:
        The transitions in order along the line.
    """
    validation.instance("task", task, Task)
    _without_start(options)
    validation.array("temperatures", temperatures, "2")
    validation.count("num_points", num_points, 2)
    validation.number("min_probability", min_probability, above=0, below=1)
    validation.number("tolerance", tolerance, above=0, below=1)
    ends = (task.class_targets,) * 2 if class_targets is None else class_targets
    first, last = (np.asarray(end, float) for end in ends)

    def at(position, start=None):
        temperature = (1 - position) * temperatures[0] + position * temperatures[1]
        target = (1 - position) * first + position * last
        return solve(task, temperature, class_targets=target, start=start, **options)

    def peaks_of(solution):
        return solution.num_peaks(min_probability)

    positions = np.linspace(0, 1, num_points)
    line = [at(positions[0])]
    for position in positions[1:]:
        line.append(at(position, line[-1].dual_field))
    found = []
    for low, high, before, after in zip(positions, positions[1:], line, line[1:]):
        if peaks_of(before) == peaks_of(after):
            continue
        while high - low > tolerance:
            middle = at(0.5 * (low + high), before.dual_field)
            if peaks_of(middle) == peaks_of(before):
                low, before = 0.5 * (low + high), middle
            else:
                high, after = 0.5 * (low + high), middle
        larger = max(before, after, key=peaks_of)
        occupied = larger.probabilities >= min_probability
        smallest = np.flatnonzero(occupied)[np.argmin(larger.probabilities[occupied])]
        gaps = np.linalg.norm(larger.readouts[occupied] - larger.readouts[smallest], axis=1)
        position = 0.5 * (low + high)
        found.append(
            Transition(
                temperature=(1 - position) * temperatures[0] + position * temperatures[1],
                class_targets=(1 - position) * first + position * last,
                position=position,
                before=before,
                after=after,
                weight=float(larger.probabilities[smallest]),
                distance=float(np.sort(gaps)[1]) if len(gaps) > 1 else 0.0,
            )
        )
    return found


def critical_temperature(
    task: Task, low: float = 0.01, high: float = 1.0, *, tolerance: float = 1e-3, **options
) -> Transition:
    """The temperature above which the readout posterior has a single peak: the end of redundancy.

    Convention: at finite P the posterior is smooth in T, so T_c is the highest temperature at which a second
    peak holds at least min_probability (1 %) of the neurons. D is strictly convex, so occupancies never jump;
    the coding scheme ends either because a peak far from the first loses its neurons (`distance` of order
    one) or because peaks merge (`distance` near zero). T_c depends weakly on P and, in the first case, on
    min_probability.

    Args:
        task: orthogonal inputs.
        low: a temperature with a redundant scheme.
        high: a temperature without one.
        tolerance: relative, on T_c.
        **options: as for `solve`; and min_probability as for `transitions`.

    Returns:
        The Transition at T_c, searched downwards from `high`.

    Raises:
        ValueError: the scheme is not redundant at `low`, or still is at `high`; or as `solve`.
    """
    min_probability = options.pop("min_probability", 0.01)
    _without_start(options)
    validation.number("low", low, above=0, below=validation.number("high", high))
    before, after = (solve(task, temperature, **options) for temperature in (low, high))
    peaks_low, peaks_high = before.num_peaks(min_probability), after.num_peaks(min_probability)
    if peaks_low < 2 or peaks_high > 1:
        raise ValueError(
            f"low, high: the scheme has {peaks_low} peaks at T = {low} and {peaks_high} at T = {high}; needs "
            "several at low and one at high"
        )
    while high / low > 1.2:
        middle = np.sqrt(low * high)
        solution = solve(task, middle, start=after.dual_field, **options)
        if solution.num_peaks(min_probability) > 1:
            low = middle
        else:
            high, after = middle, solution
    options |= {"min_probability": min_probability, "tolerance": tolerance * high / (high - low)}
    return transitions(task, (high, low), num_points=2, **options)[0]


# --- what the solution looks like ---------------------------------------------------------------


def _describe(problem, method, sides, occupancies, restriction, field, residual, num_steps, integrals):
    counts, site = problem.counts, problem.site
    parts = [peaks(one.ensemble, method, field, problem, side) for one, side in zip(integrals, sides)]
    if restriction is None:
        found = parts[0]
    else:  # one row per code, with its highest maximum and averages over all of the code's neurons
        found = Peaks(*(np.array(rows) for rows in zip(*(_merged(part) for part in parts))))
    if occupancies is None:
        log_evidence = float(np.logaddexp.reduce(found.log_weight))
        probabilities = np.exp(found.log_weight - log_evidence)
    else:
        probabilities = occupancies
        log_evidence = float(probabilities @ found.log_weight - np.sum(probabilities * np.log(probabilities)))
    dual_terms = 0.5 * problem.temperature * field**2 - field * problem.targets
    log_evidence += float(counts @ np.sum(dual_terms, axis=1))
    energy = (
        0.5 * problem.temperature * counts @ np.sum(field**2, axis=1)
        + 0.5 * probabilities @ found.norm_sq / problem.readout_variance
        + 0.5 * probabilities @ (found.preactivation_sq @ counts)
    )
    order = np.lexsort((*-found.maximum.T[::-1].round(6), -probabilities.round(9)))
    active = found.maximum @ field.T > site.critical_field
    codes = active if restriction is None else restriction
    shown = order[probabilities[order] >= MIN_PROBABILITY] if restriction is None else order
    return Solution(
        probabilities=probabilities[shown],
        readouts=found.maximum[shown],
        mean_readouts=found.readout[shown],
        activations=found.activation[shown],
        codes=codes[shown],
        exists=np.all(active == codes, axis=1)[shown],
        dual_field=field,
        training_residual=problem.temperature * field,
        kernel_block=np.tensordot(probabilities, found.product, axes=1),
        kernel_diagonal=probabilities @ found.variance,
        free_energy=-log_evidence,
        energy=float(energy),
        residual=residual,
        num_steps=num_steps,
        converged=residual <= TOLERANCE,
        method=method,
        problem=problem,
        restriction=None if restriction is None else restriction[shown],
        occupancies=None if occupancies is None else occupancies[shown],
    )


def _merged(peaks: Peaks) -> Peaks:
    weights = np.exp(peaks.log_weight - np.logaddexp.reduce(peaks.log_weight))
    averages = (np.tensordot(weights, values, axes=1) for values in peaks[2:])
    return Peaks(np.logaddexp.reduce(peaks.log_weight), peaks.maximum[np.argmax(weights)], *averages)


def measured_occupancies(solution: Solution, codes: np.ndarray) -> np.ndarray:
    """Fractions of neurons that will be *found* with each code, told from their mean activations.

    A peak's code is that of its maximum. A single neuron is told by its mean over the n_c inputs of a
    class, whose distribution given its readout is to leading order in n_c

        φ̄_c | a ~ N(L'(s_c), L''(s_c)/n_c),   s_c = a·t_c,

    independent over classes, so that P(code) = ∫ da P(a) Π_c Φ(± (L'(s_c) − threshold) √(n_c/L''(s_c))). The
    two differ only where a class is neither on nor off, as below the critical temperature.

    Args:
        solution: a solved scheme, unrestricted (else ValueError); one by Laplace's formula is sampled around
            its maxima, which adds a relative error of some 1e-3.
        codes: rows of C booleans, shape (k, C).

    Returns:
        The fractions, shape (k,).

    Source: the book's own; paper A assigns codes to peaks.
    """
    ensemble, found = code_probabilities(solution, codes)
    return ensemble.weights @ found


def occupancy_covariance(solution: Solution, codes: np.ndarray) -> np.ndarray:
    """N times the covariance, (k, k), of the fractions of neurons with each code in one network of N neurons.

    That of averages over neurons, `average_covariance`, for indicators of the codes. Arguments and errors are
    those of `measured_occupancies`.

    Source: the book's own; independent neurons are paper A's picture.
    """
    ensemble, found = code_probabilities(solution, codes)
    free = np.diag(ensemble.weights @ found)  # indicators: q² = q, and two codes exclude each other
    return fitting_together(solution.problem, ensemble, found, free)


def average_covariance(solution: Solution, values: np.ndarray) -> np.ndarray:
    """N times the covariance, (k, k), of averages over the neurons of one network of N neurons.

    Neurons are not independent at finite N: together they have to fit the targets. With the statistics
    S_c = a Σ_{μ∈c} φ(z_μ) of a neuron, whose means the dual field t is conjugate to, and the Hessian of the
    dual, H = Cov(S) + T diag(n), averages fluctuate to leading order as those of independent neurons less
    what the common field takes back,

        N Cov(x̄) = Cov(x) − Cov(x, S) H⁻¹ Cov(S, x),   x: a property of single neurons.

    Args:
        solution: a solved scheme, unrestricted (else ValueError).
        values: x at the readouts of `readout_ensemble(solution)`, shape (k, n).

    Source: the book's own.
    """
    _require_equilibrium(solution)
    ensemble, _, _ = solution._neurons
    used = ensemble.weights > 0
    values = validation.array("values", values, "k, n", n=int(used.sum()))
    found = np.zeros((len(used), len(values)))
    found[used] = values.T
    return fitting_together(solution.problem, ensemble, found, (found * ensemble.weights[:, None]).T @ found)


def fitting_together(problem, ensemble, found, second):
    """Cov(x) − Cov(x, S) H⁻¹ Cov(S, x) of properties (n, k) with second moments (k, k)."""
    hessian = covariance(ensemble, problem)
    hessian += problem.temperature * np.diag(np.repeat(problem.counts, problem.targets.shape[1]))
    values, weights = statistics(ensemble, problem), ensemble.weights
    mean = weights @ found
    mixed = (found * weights[:, None]).T @ values - np.outer(mean, weights @ values)
    return second - np.outer(mean, mean) - mixed @ np.linalg.solve(hessian, mixed.T)


def _require_equilibrium(solution):
    validation.instance("solution", solution, Solution)
    if solution.restriction is not None:
        raise ValueError("solution: got a scheme restricted to some codes, needs one in equilibrium")


def code_probabilities(solution, codes):
    """Readouts of neurons, and for every one the probability of each code (n, k)."""
    _require_equilibrium(solution)
    problem, site = solution.problem, solution.problem.site
    codes = validation.array("codes", codes, "k, C", C=len(problem.counts)).astype(bool)
    ensemble, _, _ = solution._neurons
    precision = np.sqrt(problem.counts / np.maximum(ensemble.variances, 1e-12))
    active = ndtr((ensemble.means - site.threshold) * precision)
    return ensemble, np.stack([np.prod(np.where(code, active, 1 - active), axis=1) for code in codes], axis=1)


def readout_density(
    solution: Solution, component: int, values: np.ndarray, row: int | None = None
) -> np.ndarray:
    """Posterior density of one of the m readout components at finite P, as paper A's Fig. 4a.

    It has the shape of the values and integrates to one; `row` selects the neurons of this row of the
    solution, None all of them.
    """
    nodes, density = _readout_marginal(solution, component, row)
    spline = CubicSpline(nodes, np.log(np.maximum(density, density.max() * np.exp(-FINE.cutoff))))
    values = validation.array("values", values, "…")
    inside = (values >= nodes[0]) & (values <= nodes[-1])
    return np.where(inside, np.exp(spline(np.clip(values, nodes[0], nodes[-1]))), 0.0)


def preactivation_density(
    solution: Solution, row: int | None, class_index: int, values: np.ndarray
) -> np.ndarray:
    """Density of a neuron's preactivation on an input of class c, given its code (Fig. 4c).

    ∫ da P(a | γ) N(z; 0, 1) e^{(a·t_c) φ(z) − L(a·t_c)}, exact at finite P by quadrature, with the shape of
    the values z. `row` is that of the solution, i.e. the code; None: all neurons.
    """
    validation.instance("solution", solution, Solution)
    validation.count("class_index", class_index, 0, len(solution.dual_field) - 1)
    codes = solution.restriction
    if row is None and codes is not None:
        each = [preactivation_density(solution, own, class_index, values) for own in range(len(codes))]
        return np.average(each, axis=0, weights=solution.probabilities)
    points, weights = readout_ensemble(solution, row)
    fields = points @ solution.dual_field[class_index]
    if codes is not None:  # a code is held by the field at the threshold
        fields = kept(fields, 1 if codes[row, class_index] else -1, solution.problem.site)
    nodes = np.arange(np.floor(fields.min() / 0.02), np.ceil(fields.max() / 0.02) + 2) * 0.02
    below = ((fields - nodes[0]) / 0.02).astype(int)
    above = (fields - nodes[below]) / 0.02
    binned = np.bincount(below, weights * (1 - above), len(nodes))
    binned += np.bincount(below + 1, weights * above, len(nodes))
    likely = binned > 1e-9
    values = validation.array("values", values, "…")
    density = solution.problem.site.density(values.reshape(-1, 1), nodes[likely])
    return (density @ binned[likely] / binned[likely].sum()).reshape(values.shape)


def preactivation_cdf(
    solution: Solution, row: int | None, class_index: int, values: np.ndarray
) -> np.ndarray:
    """Cumulative distribution belonging to `preactivation_density`; same arguments."""
    density = preactivation_density(solution, row, class_index, NODES)
    cumulated = cumulative_trapezoid(density, NODES, initial=0)
    return np.interp(np.asarray(values, float), NODES, cumulated / cumulated[-1])


@lru_cache(maxsize=64)
def _cumulative(solution, row, class_index):
    """Distribution of preactivations on the grid, once for all networks drawn from a solution."""
    return preactivation_cdf(solution, row, class_index, GRID)


def _readout_marginal(solution, component, row):
    """Nodes of one readout component, half a σ_a apart, and the marginal density on them."""
    validation.instance("solution", solution, Solution)
    validation.count("component", component, 0, solution.readouts.shape[1] - 1)
    problem, step = solution.problem, 0.5 * np.sqrt(solution.problem.readout_variance)
    points, weights = readout_ensemble(solution, row, 0.5)
    if solution.method == "quadrature":
        index = np.rint(points[:, component] / step).astype(int)
        marginal = np.bincount(index - index.min(), weights) / step
        return (index.min() + np.arange(len(marginal))) * step, marginal
    # given the preactivations a readout is Gaussian about σ_a² Σ_c t_c Φ_c, Φ_c = Σ_{μ∈c} φ(z_μ)
    means, variances = problem.site.cumulants(points @ solution.dual_field.T, 2)[1:]
    pull = problem.readout_variance * solution.dual_field[:, component]
    center = means @ (problem.counts * pull)
    width = np.sqrt(problem.readout_variance + variances @ (problem.counts * pull**2))
    nodes = np.arange((center - 6 * width).min(), (center + 6 * width).max() + step, step)
    return nodes, np.array([weights @ norm.pdf(node, center, width) for node in nodes])


def readout_ensemble(
    solution: Solution, row: int | None = None, spacing: float = FINE.spacing
) -> tuple[np.ndarray, np.ndarray]:
    """Readouts (k, m) that stand for the neurons at this finite P, and their weights (k,), which sum to one.

    Of the neurons of one row of the solution; None: of all of them. `spacing` is that of the lattice of
    readouts, in units of σ_a, where the solution is one by quadrature.
    """
    if row is not None:
        validation.count("row", row, 0, len(solution.readouts) - 1)
    validation.positive(spacing=spacing)
    problem, field, method = solution.problem, solution.dual_field, solution.method
    if solution.restriction is None:
        own = spacing == FINE.spacing
        ensemble, maxima, owner = solution._neurons if own else neurons(field, problem, method, None, spacing)
        weights = ensemble.weights
        if row is not None:
            weights = weights * (owner == np.argmin(np.sum((maxima - solution.readouts[row]) ** 2, axis=1)))
        used = weights > 0
        return ensemble.points[used], weights[used] / weights.sum()
    rows = list(range(len(solution.restriction))) if row is None else [row]
    sides = [np.where(solution.restriction[r], 1, -1) for r in rows]
    parts = [neurons(field, problem, method, side, spacing)[0] for side in sides]
    fractions = solution.probabilities[rows] / solution.probabilities[rows].sum()
    return (
        np.concatenate([part.points for part in parts]),
        np.concatenate([fraction * part.weights for fraction, part in zip(fractions, parts)]),
    )


# --- checking the arguments ---------------------------------------------------------------------


def restricted(codes, occupancies, num_classes):
    """Codes (k, C) that neurons are restricted to and their fractions (k,), checked; None where not given."""
    if codes is None:
        if occupancies is not None:
            raise ValueError("occupancies: given without codes; say which codes the fractions belong to")
        return None, None
    codes = validation.array("codes", codes, "k, C", C=num_classes)
    if not np.isin(codes, (0, 1)).all():
        raise ValueError(f"codes: got {codes.tolist()}, needs rows of {num_classes} zeros and ones")
    codes = codes.astype(bool)
    if len(np.unique(codes, axis=0)) < len(codes):
        raise ValueError("codes: a code is listed twice")
    if occupancies is None:
        return codes, None
    occupancies = validation.array("occupancies", occupancies, "k", k=len(codes))
    if np.any(occupancies <= 0) or not np.isclose(occupancies.sum(), 1):
        raise ValueError(
            f"occupancies: got {occupancies}, needs {len(codes)} positive fractions that sum to 1"
        )
    return codes, occupancies


def _method(method, problem):
    validation.choice("method", method, ("auto", "quadrature", "laplace"))
    few = problem.targets.shape[1] <= MAX_QUADRATURE_OUTPUTS
    if method == "quadrature" and not few:
        raise ValueError(
            f"method: quadrature over {problem.targets.shape[1]} outputs is out of reach "
            f"(at most {MAX_QUADRATURE_OUTPUTS}); use 'laplace'"
        )
    return ("quadrature" if few else "laplace") if method == "auto" else method
