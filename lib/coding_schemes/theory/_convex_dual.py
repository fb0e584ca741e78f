"""The dual of the single-hidden-layer theory, its derivatives, and the peaks of the readout posterior.

The workhorse behind theory.sigmoidal, whose docstring has the formulas and the reasons.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import ndtri
from scipy.stats import qmc

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory._solvers import newton
from coding_schemes.theory._tilted import Nonlinearity, SingleSite, normalized, single_site

MAX_STEPS = 200  # Newton steps per level; a cold solve needs some tens in all
WIDENED = 1.2  # variance of the Gaussians that are drawn from, over that of Laplace's formula
MAX_CLASSES = 12  # maxima are searched from all 2^C combinations of classes
FIRST_TEMPERATURE = 1e-2  # of cold starts, at least: the Hessian is well conditioned there
FIRST_LEVEL = 8.0  # they begin at this value of 1/σ_a² and sharpen the landscape fourfold at a time


class Problem(NamedTuple):
    """What is solved: one task's classes at one temperature."""

    counts: np.ndarray  # inputs per class n_c, shape (C,)
    targets: np.ndarray  # y_c, shape (C, m)
    temperature: float
    readout_variance: float  # σ_a²
    nonlinearity: Nonlinearity

    @property
    def site(self) -> SingleSite:
        """Tables of the nonlinearity."""
        return single_site(self.nonlinearity)


def make_problem(task, temperature, nonlinearity, readout_variance, class_targets) -> Problem:
    """The checked problem behind a task; ValueError names what does not fit."""
    counts, targets, variance = classes(task, temperature, readout_variance, class_targets)
    if not task.is_orthogonal:
        raise ValueError(
            "task: its inputs are not orthogonal (K0 ≠ 1); theory.mean_field treats general inputs"
        )
    if len(counts) > MAX_CLASSES:
        raise ValueError(
            f"task: got {len(counts)} classes; at most {MAX_CLASSES} can be searched for all codes"
        )
    single_site(nonlinearity)
    return Problem(counts, targets, float(temperature), variance, nonlinearity)


def classes(
    task: Task, temperature: float, readout_variance: float | None, class_targets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Numbers n (C,) and targets (C, m) of a checked task, its own unless others are given, and σ_a²."""
    validation.instance("task", task, Task)
    counts = np.asarray(task.class_counts, float)
    class_targets = task.class_targets if class_targets is None else class_targets
    targets = validation.array("class_targets", class_targets, "C, m", C=len(counts))
    if len(targets) > 1 and np.all(targets == targets[0]):
        raise ValueError(f"task: all classes share the target {targets[0]}, so there is no task to learn")
    validation.number("temperature", temperature, least=0)
    validation.positive(**validation.given(readout_variance=readout_variance))
    return counts, targets, 1 / counts.sum() if readout_variance is None else float(readout_variance)


# --- integrals over readouts --------------------------------------------------------------------


class Rule(NamedTuple):
    """How finely e^E is integrated."""

    spacing: float  # of the lattice, in units of σ_a: relative error 2m exp(−2π²/spacing²) at most
    cutoff: float  # lattice points with a density below e^{−cutoff} of the highest are left out
    drift: float  # by which E may move with t until the lattice is laid anew


FINE = Rule(1.0, 25.0, 1.0)  # error 2e-8 if e^E were as narrow as the prior; it is wider, the error smaller
COARSE = Rule(1.3, 18.0, 5.0)  # a quarter of the points, to come near the optimum with


class Ensemble(NamedTuple):
    """Readouts that stand for the neurons: lattice points or maxima, with what was computed there."""

    points: np.ndarray  # a, shape (n, m)
    weights: np.ndarray  # normalized, shape (n,)
    means: np.ndarray  # L'(s_c), shape (n, C)
    variances: np.ndarray  # L''(s_c), shape (n, C)
    log_value: float  # log ∫ e^E


class Integral(NamedTuple):
    """log ∫ e^E over the readouts, and the moments of what t is conjugate to, n_c L'(s_c) a."""

    log_value: float
    mean: np.ndarray  # of the statistics, flattened to (Cm,)
    covariance: Callable[[], np.ndarray]  # returns theirs, (Cm, Cm); takes longer than all the rest
    ensemble: Ensemble  # that the integral was made of


def _cumulants(problem, fields, side, order, num_terms=4):
    """[L, L', …] at every s (n, C), continued by tangents where a class is kept on one side."""
    site = problem.site
    if side is None:
        return site.cumulants(fields, order, num_terms)
    held = kept(fields, side, site)
    values = site.cumulants(held, order, num_terms)
    values[0] += site.threshold * (fields - held)
    return values[:2] + [np.where(fields == held, value, 0.0) for value in values[2:]]


def kept(fields, side, site):
    """Fields s clipped at the critical one, where a class is kept above (side 1) or below (−1) it."""
    critical = site.critical_field
    return np.clip(fields, np.where(side > 0, critical, -np.inf), np.where(side < 0, critical, np.inf))


def _fields(points, field):
    """s_c = a·t_c, shape (n, C), stored class after class, like the points: long loops inside."""
    return (field @ points.T).T


def _exponent(log_g, points, problem):
    """E(a) without its normalization."""
    return log_g @ problem.counts - np.square(points).sum(axis=1) * (0.5 / problem.readout_variance)


def log_density(points, field, problem, side=None):
    """E(a) at points (n, m), to 1e-5 per input."""
    return _exponent(_cumulants(problem, _fields(points, field), side, 0, 1)[0], points, problem)


def support(field, problem, side=None, rule=FINE) -> np.ndarray:
    """Lattice points (n, m) where e^E matters; they lie where P puts ⟨a | z⟩, ± some σ_a.

    As E + |a|²/(2σ_a²) is convex, E exceeds its largest corner value inside a cube of side H by at most
    m H²/(8 σ_a²): no cube that holds a point with a density above e^{−cutoff} of the highest is given up
    while cubes are halved down to four spacings. Points are whole multiples of the spacing, stored one
    coordinate after the other.
    """
    site, variance, m = problem.site, problem.readout_variance, field.shape[1]
    ends = variance * problem.counts[:, None, None] * field[:, :, None] * [site.lower, site.upper]
    margin = np.sqrt(2 * rule.cutoff * variance)
    lower, upper = ends.min(axis=2).sum(axis=0) - margin, ends.max(axis=2).sum(axis=0) + margin
    step = rule.spacing * np.sqrt(variance)
    level = max(2, int(np.ceil(np.log2(np.max((upper - lower) / (8 * step))))))
    ends = zip(np.floor(lower / (step * 2**level)), np.ceil(upper / (step * 2**level)))
    axes = [np.arange(low, max(high, low + 1)) for low, high in ends]
    cubes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, m)
    best = -np.inf
    while level > 2:
        level -= 1
        value = log_density(_refined(cubes, 2, 3) * step * 2**level, field, problem, side)
        best = max(best, value.max())
        bound = value.reshape(-1, *[3] * m)
        for axis in range(1, m + 1):
            bound = np.maximum(np.take(bound, (0, 1), axis), np.take(bound, (1, 2), axis))
        slack = rule.cutoff + m * (rule.spacing * 2**level) ** 2 / 8
        cubes = _refined(cubes, 2, 2)[bound.ravel() >= best - slack]
        if len(cubes) > 50_000:  # three million points
            raise FloatingPointError("the density spreads over too many lattice points")
    points = _refined(cubes, 4, 4) * step
    value = log_density(points, field, problem, side)
    return np.asfortranarray(points[value >= value.max() - rule.cutoff])


def _refined(cubes, factor, width):
    """Lattice points factor · cube + {0 … width − 1}^m, cube after cube."""
    offsets = np.indices((width,) * cubes.shape[1]).reshape(cubes.shape[1], -1)
    return (factor * cubes.T[:, :, None] + offsets[:, None, :]).reshape(cubes.shape[1], -1).T


def lattice_integral(points, field, problem, side=None, spacing=FINE.spacing) -> Integral:
    """The trapezoid rule on lattice points."""
    log_g, means, variances = _cumulants(problem, _fields(points, field), side, 2)
    log_value, weights = normalized(_exponent(log_g, points, problem))
    cell = points.shape[1] * np.log(spacing / np.sqrt(2 * np.pi))  # σ_a cancels against the prior's norm
    ensemble = Ensemble(points, weights, means, variances, float(log_value + cell))
    mean = (weights * means.T * problem.counts[:, None]) @ points
    return Integral(ensemble.log_value, mean.ravel(), lambda: covariance(ensemble, problem), ensemble)


def statistics(ensemble: Ensemble, problem) -> np.ndarray:
    """What t is conjugate to, n_c L'(s_c) a, at every point, flattened to (n, Cm)."""
    products = (ensemble.means * problem.counts).T[:, None, :] * ensemble.points.T
    return products.reshape(-1, len(ensemble.points)).T


def covariance(ensemble: Ensemble, problem) -> np.ndarray:
    """Of Σ_{μ∈c} φ(z_μ) a under the ensemble, (Cm, Cm): between points, and of φ at fixed readout."""
    values, weights = statistics(ensemble, problem), ensemble.weights[:, None]
    mean = ensemble.weights @ values
    result = (values * weights).T @ values - np.outer(mean, mean)
    _add_blocks(result, weights * ensemble.variances * problem.counts, ensemble.points)
    return result


def _add_blocks(matrix, weights, points):
    """Add Σ_n weights_nc a_n a_nᵀ to the c-th diagonal block of a (Cm, Cm) matrix, in place."""
    m = points.shape[1]
    for c, column in enumerate(weights.T):
        matrix[c * m : (c + 1) * m, c * m : (c + 1) * m] += (points * column[:, None]).T @ points


def stiffness_at(variances, field, problem):
    """−∂²E/∂a², shape (n, m, m)."""
    curvature = np.einsum("kc,cr,cq->krq", variances * problem.counts, field, field)
    return np.eye(field.shape[1]) / problem.readout_variance - curvature


def laplace_integral(field, problem, side=None, determinants=True) -> Integral:
    """Laplace's formula at every maximum; the covariance leaves out relative corrections of O(1/P)."""
    maxima, _ = find_maxima(field, problem, side)
    counts, m = problem.counts, field.shape[1]
    log_g, means, variances, thirds = _cumulants(problem, _fields(maxima, field), side, 3)
    energies = _exponent(log_g, maxima, problem)
    stiffness = stiffness_at(variances, field, problem)
    inverse = np.linalg.inv(stiffness)
    # ∂²E/∂a∂t: how the maximum moves with the field, shape (k, m, C, m)
    mixed = counts[:, None] * (
        means[:, None, :, None] * np.eye(m)[None, :, None, :]
        + field.T[None, :, :, None] * (variances[:, :, None] * maxima[:, None, :])[:, None]
    )
    mean = counts[:, None] * means[:, :, None] * maxima[:, None, :]
    if determinants:
        energies -= 0.5 * np.linalg.slogdet(problem.readout_variance * stiffness)[1]
        spread = np.einsum("cr,krq,cq->kc", field, inverse, field)
        pull = 0.5 * (thirds * spread * counts) @ field  # gradient of −½ log det in a
        mean = mean + counts[:, None] * (
            0.5 * (thirds * spread)[:, :, None] * maxima[:, None, :]
            + variances[:, :, None] * np.einsum("krq,cq->kcr", inverse, field)
        )
        mean = mean + np.einsum("kr,krq,kqcp->kcp", pull, inverse, mixed)
    mean, mixed = mean.reshape(len(maxima), -1), mixed.reshape(len(maxima), m, -1)
    log_value = float(np.logaddexp.reduce(energies))
    weights = np.exp(energies - log_value)

    def covariance():
        result = np.einsum("k,kri,krq,kqj->ij", weights, mixed, inverse, mixed, optimize=True)
        result += (weights * (mean - weights @ mean).T) @ (mean - weights @ mean)
        _add_blocks(result, weights[:, None] * variances * counts, maxima)
        return result

    ensemble = Ensemble(maxima, weights, means, variances, log_value)
    return Integral(log_value, weights @ mean, covariance, ensemble)


# --- the dual and its minimum -------------------------------------------------------------------


class Dual:
    """D(t) as a function.

    Args:
        problem: what is solved.
        method: "quadrature" or "laplace".
        sides: per code that neurons are restricted to, −1 or 1 for every class; [None] without restriction.
        occupancies: fractions of neurons with each code where these are frozen, or None.
        rough: integrate on a coarse lattice, or without determinants.
    """

    def __init__(self, problem: Problem, method, sides, occupancies, rough=False):
        self.problem, self.sides, self.occupancies = problem, sides, occupancies
        self.method, self.rough = method, rough
        self._rule = COARSE if rough else FINE
        self._supports: list[np.ndarray] = []
        self._laid_at = np.zeros_like(problem.targets)

    def integrals(self, field: np.ndarray) -> list[Integral]:
        """One Integral per side."""
        problem = self.problem
        if self.method == "laplace":
            return [laplace_integral(field, problem, side, not self.rough) for side in self.sides]
        largest = max(abs(problem.site.lower), abs(problem.site.upper))
        moved = [np.abs(points @ (field - self._laid_at).T) @ problem.counts for points in self._supports]
        if not moved or largest * max(change.max() for change in moved) > self._rule.drift:
            self._supports = [support(field, problem, side, self._rule) for side in self.sides]
            self._laid_at = field
        return [
            lattice_integral(points, field, problem, side, self._rule.spacing)
            for points, side in zip(self._supports, self.sides)
        ]

    def value_and_gradient(self, field: np.ndarray):
        """D(t) and its gradient, flattened over (C, m), with the weights of the integrals it is made of."""
        problem, integrals = self.problem, self.integrals(field)
        log_values = np.array([integral.log_value for integral in integrals])
        if self.occupancies is None:
            value = np.logaddexp.reduce(log_values)
            weights = np.exp(log_values - value)
        else:
            weights = self.occupancies
            value = weights @ log_values - np.sum(weights * np.log(weights))
        scale = np.repeat(problem.counts, field.shape[1])
        flat, targets = field.ravel(), problem.targets.ravel()
        value += scale @ (0.5 * problem.temperature * flat**2 - flat * targets)
        gradient = weights @ np.array([integral.mean for integral in integrals])
        return value, gradient + scale * (problem.temperature * flat - targets), weights, integrals

    def hessian(self, weights, integrals) -> np.ndarray:
        """Second derivatives of D, from what `value_and_gradient` returned."""
        hessian = np.einsum("k,kij->ij", weights, [integral.covariance() for integral in integrals])
        if self.occupancies is None:
            means = np.array([integral.mean for integral in integrals])
            hessian += (weights * (means - weights @ means).T) @ (means - weights @ means)
        scale = np.repeat(self.problem.counts, self.problem.targets.shape[1])
        return hessian + self.problem.temperature * np.diag(scale)


def minimum(dual: Dual, field, tolerance):
    """The minimum of D by Newton's method; returns (t, residual, steps, integrals there).

    SciPy's trust-exact on the same functions takes 1.3 times as long (26 ms for 20 at P = 500, m = 3), but
    stops where D no longer falls by more than its rounding: at residuals of 2e-8 in three of thirteen
    problems. Its hybr takes twice as long, Optimistix's Dogleg through callbacks five times.
    """
    shape, scale = field.shape, np.repeat(dual.problem.counts, field.shape[1])

    def evaluate(flat):
        try:
            value, gradient, *parts = dual.value_and_gradient(flat.reshape(shape))
        except FloatingPointError:
            return np.inf, None, np.nan, None, None
        return value, gradient, float(np.max(np.abs(gradient / scale))), *parts

    def propose(flat, found):
        _, gradient, residual, *parts = found
        if not residual > tolerance:
            return None
        step = _descent_direction(dual.hessian(*parts), gradient)
        return step, -gradient @ step, min(1.0, 0.5 * (1 + np.abs(flat).max()) / np.abs(step).max())

    start, noise = field.ravel(), 1e-6 if dual.rough else 0.0
    flat, found, num_steps = newton(
        evaluate, propose, start, evaluate(start), MAX_STEPS, shortest=1e-8, noise=noise, relative_noise=1e-12
    )
    return flat.reshape(shape), found[2], num_steps, found[4]


def cold_start(problem, dual_of: Callable[..., Dual]):
    """A field (C, m) near the optimum, and the steps to it; `dual_of` gives the dual of a problem."""
    field, num_steps = np.zeros_like(problem.targets), 0
    factor = min(1.0, FIRST_LEVEL * problem.readout_variance)
    while factor < 1:
        level = problem._replace(
            counts=problem.counts * factor,
            readout_variance=problem.readout_variance / factor,
            temperature=max(problem.temperature, FIRST_TEMPERATURE),
        )
        field, _, steps, _ = minimum(dual_of(level), field, 1e-2)
        num_steps += steps
        factor = min(1.0, 4 * factor)
    return field, num_steps


def _descent_direction(hessian, gradient):
    ridge = 0.0
    while True:
        try:
            return -cho_solve(cho_factor(hessian + ridge * np.diag(np.diag(hessian))), gradient)
        except LinAlgError:
            ridge = max(10 * ridge, 1e-14)


# --- maxima of the readout posterior ------------------------------------------------------------


def find_maxima(field, problem, side=None, starts=None):
    """All maxima of E (k, m) found from many starts, highest first, and the one that every start climbs to.

    Starts, unless given: the readouts answering to every combination of inactive, half-active and active
    classes. Ascent by the fixed-point map a ← σ_a² Σ_c n_c t_c L'(a·t_c), which never
    decreases E, then by Newton steps in which the curvature is kept positive; stationary points that
    are not maxima are dropped.
    """
    site, variance, counts = problem.site, problem.readout_variance, problem.counts
    patterns = starts is None
    if patterns:
        num_classes = len(counts)
        levels = (site.lower, site.threshold, site.upper) if num_classes <= 5 else (site.lower, site.upper)
        starts = variance * (np.array(list(itertools.product(levels, repeat=num_classes))) * counts) @ field
    pull = variance * (counts[:, None] * field).T
    climbed = starts
    for _ in range(30):
        fields = _fields(climbed, field)
        climbed = (pull @ site.nearest_mean(fields if side is None else kept(fields, side, site)).T).T
    cubes = np.round(climbed * (2 / np.sqrt(variance)))  # one start from each will do
    numbers = cubes @ np.pi ** np.arange(field.shape[1])  # no two cubes have the same
    points = climbed[np.unique(numbers, return_index=True)[1]]
    for _ in range(100):
        _, means, curvatures = _cumulants(problem, _fields(points, field), side, 2)
        gradient = (means * counts) @ field - points / variance
        values, vectors = np.linalg.eigh(stiffness_at(curvatures, field, problem))
        error, convex = np.abs(gradient).max(axis=1) * np.sqrt(variance), values[:, 0] > 0
        if not np.any((error > 1e-9) & (convex | patterns)):  # cells far from all maxima have no weight
            break
        damped = np.maximum(np.abs(values), 0.01 / variance)
        step = np.einsum("kri,ki,kqi,kq->kr", vectors, 1 / damped, vectors, gradient)
        length, reach = np.linalg.norm(step, axis=1), np.linalg.norm(points, axis=1).max()
        step *= np.minimum(1, reach / np.maximum(length, 1e-30))[:, None]  # not out of the tables
        newton, safe = points + step, points + variance * gradient
        height = log_density(np.concatenate([newton, safe]), field, problem, side)
        better = height[: len(points)] > height[len(points) :]
        close = (error < 1e-2) & convex  # E is flat to its errors here
        points = np.where((better | close)[:, None], newton, safe)
    points = points[(error < 1e-6) & (values[:, 0] * variance > 1e-9)]
    points = points[np.argsort(-log_density(points, field, problem, side), kind="stable")]
    distinct: list[np.ndarray] = []
    for point in points:
        if all(np.linalg.norm(point - other) > 1e-4 * np.sqrt(variance) for other in distinct):
            distinct.append(point)
    if not distinct:
        raise FloatingPointError("no maximum of the readout posterior was found")
    maxima = np.array(distinct)
    distances = np.sum(maxima**2, axis=1)[:, None] - 2 * maxima @ climbed.T
    return maxima, np.argmin(distances, axis=0)


# --- what the solution looks like ---------------------------------------------------------------


class Peaks(NamedTuple):
    """Per peak: log weight, maximum, means of a, φ, φφᵀ, Var φ, |a|² and z² over its neurons."""

    log_weight: np.ndarray
    maximum: np.ndarray
    readout: np.ndarray
    activation: np.ndarray
    product: np.ndarray
    variance: np.ndarray
    norm_sq: np.ndarray
    preactivation_sq: np.ndarray


def peaks(ensemble: Ensemble, method, field, problem, side) -> Peaks:
    """What the neurons at every maximum have in common."""
    points, means, variances = ensemble.points, ensemble.means, ensemble.variances
    norm_sq = np.square(points).sum(axis=1)
    products = (means.T[:, None, :] * means.T).reshape(-1, len(means)).T
    squares = problem.site.preactivation_variance(_fields(points, field))
    if method == "laplace":
        inverse = np.linalg.inv(stiffness_at(variances, field, problem))
        norm_sq += np.trace(inverse, axis1=1, axis2=2)
        with np.errstate(divide="ignore"):
            log_weight = ensemble.log_value + np.log(ensemble.weights)
        maxima, average = points, np.eye(len(points))
    else:
        maxima, owner = assign(ensemble, field, problem, side)
        membership = np.where(owner == np.arange(len(maxima))[:, None], ensemble.weights, 0.0)
        mass = membership.sum(axis=1)
        occupied = mass > 0
        maxima, mass = maxima[occupied], mass[occupied]
        log_weight, average = ensemble.log_value + np.log(mass), membership[occupied] / mass[:, None]
    rows = points, means, products, variances, norm_sq, squares
    readout, activation, product, *rest = (average @ values for values in rows)
    product = product.reshape(len(maxima), *[means.shape[1]] * 2)
    return Peaks(log_weight, maxima, readout, activation, product, *rest)


def assign(ensemble: Ensemble, field, problem, side, spacing=FINE.spacing):
    """The maxima, and for every lattice point the maximum that it climbs to by the fixed-point map."""
    points, scale = ensemble.points, np.sqrt(problem.readout_variance)
    # Neighboring points share their fate: climb from the cells of a lattice twice as coarse.
    cell = 2 * spacing * scale
    index, to_point = _cells(points, cell)
    used = np.flatnonzero(np.bincount(index))
    maxima, owner = find_maxima(field, problem, side, to_point(used))
    lookup = np.zeros(used[-1] + 1, int)
    lookup[used] = owner
    return maxima, lookup[index]


def _cells(points, side):
    """For points (n, m) the number of the cube that each is in, and from numbers back to cubes' centers."""
    cells = np.floor(points.T / side + 1e-6).astype(int)
    lowest, shape = cells.min(axis=1), np.ptp(cells, axis=1) + 1

    def center(index):
        return (np.stack(np.unravel_index(index, shape)) + (lowest[:, None] + 0.5)).T * side

    return np.ravel_multi_index(tuple(cells - lowest[:, None]), shape), center


# --- readouts that stand for the neurons --------------------------------------------------------


def neurons(field, problem, method, side=None, spacing=FINE.spacing):
    """Weighted readouts of neurons, the maxima of E, and for every readout the maximum that it climbs to.

    By quadrature the lattice; by Laplace's formula draws from the Gaussians around the maxima, weighted with
    e^E over their density, so that averages are those at this P, with a relative error of about 1e-3.
    """
    if method == "quadrature":
        points = support(field, problem, side, FINE._replace(spacing=spacing))
        result = lattice_integral(points, field, problem, side, spacing).ensemble
        return result, *assign(result, field, problem, side, spacing)
    laplace = laplace_integral(field, problem, side).ensemble
    likely = laplace.weights > 1e-6
    centers, weights = laplace.points[likely], laplace.weights[likely]
    stiffness = stiffness_at(laplace.variances[likely], field, problem) / WIDENED
    draws = qmc.Sobol(field.shape[1], rng=0).random_base2(max(8, 15 - len(weights).bit_length()))
    roots = np.linalg.inv(np.linalg.cholesky(stiffness))
    points = np.concatenate([center + ndtri(draws) @ root for center, root in zip(centers, roots)])
    points = np.asfortranarray(points)

    def log_gaussian(center, inverse):
        off = points - center
        return 0.5 * np.linalg.slogdet(inverse)[1] - 0.5 * np.sum(off @ inverse * off, axis=1)

    log_proposal = np.logaddexp.reduce([log_gaussian(c, s) for c, s in zip(centers, stiffness)])
    log_g, means, variances = _cumulants(problem, _fields(points, field), side, 2)
    log_ratio = _exponent(log_g, points, problem) - log_proposal  # as many draws from every Gaussian
    result = Ensemble(points, normalized(log_ratio)[1], means, variances, laplace.log_value)
    return result, *find_maxima(field, problem, side, points)
