"""The dual of the single-hidden-layer theory, its derivatives, and the peaks of the readout posterior.

The workhorse behind theory.sigmoidal, whose docstring has the formulas and the reasons.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import logsumexp

from coding_schemes.theory._single_site import Nonlinearity, SingleSite, single_site

MAX_STEPS = 200  # Newton steps per level; a cold solve needs some tens in all
SPACING = 0.9  # of the lattice, in units of σ_a: quadrature error 2m exp(−2π²/0.81) = 2e-10
MAX_CLASSES = 12  # maxima are searched from all 2^C combinations of classes
CUTOFF = 33.0  # lattice points with a density below e^{−33} of the highest are left out


class Problem(NamedTuple):
    """What is solved: one task's classes at one temperature.

    Attributes:
        counts: inputs per class n_c, shape (C,).
        targets: class targets y_c, shape (C, m).
        temperature: T.
        readout_variance: σ_a².
        nonlinearity: φ.
    """

    counts: np.ndarray
    targets: np.ndarray
    temperature: float
    readout_variance: float
    nonlinearity: Nonlinearity

    @property
    def site(self) -> SingleSite:
        """Tables of the nonlinearity."""
        return single_site(self.nonlinearity)


def make_problem(task, temperature, nonlinearity, readout_variance, class_targets) -> Problem:
    """The checked problem behind a task; ValueError names what does not fit."""
    counts = np.asarray(task.class_counts, float)
    targets = np.asarray(task.class_targets if class_targets is None else class_targets, float)
    if not task.is_orthogonal:
        raise ValueError(
            "task: its inputs are not orthogonal (K0 ≠ 1); theory.mean_field treats general inputs"
        )
    if np.any(counts <= 0):
        raise ValueError(f"task: class {int(np.argmin(counts))} has no input; every class needs at least one")
    if targets.ndim != 2 or len(targets) != len(counts) or not np.all(np.isfinite(targets)):
        raise ValueError(
            f"class_targets: got shape {targets.shape}, needs finite numbers of shape ({len(counts)}, m)"
        )
    if len(targets) > 1 and np.all(targets == targets[0]):
        raise ValueError(f"task: all classes share the target {targets[0]}, so there is no task to learn")
    if len(counts) > MAX_CLASSES:
        raise ValueError(
            f"task: got {len(counts)} classes; at most {MAX_CLASSES} can be searched for all codes"
        )
    if not (np.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature: got {temperature}, needs a finite T ≥ 0")
    variance = 1 / counts.sum() if readout_variance is None else float(readout_variance)
    if not (np.isfinite(variance) and variance > 0):
        raise ValueError(f"readout_variance: got {readout_variance}, needs a finite σ_a² > 0")
    single_site(nonlinearity)
    return Problem(counts, targets, float(temperature), variance, nonlinearity)


# --- the dual and its derivatives ---------------------------------------------------------------


class Integral(NamedTuple):
    """log ∫ e^E, mean of the statistics n_c L'(s_c) a (flattened, Cm) and their covariance (Cm, Cm)."""

    log_value: float
    mean: np.ndarray
    covariance: np.ndarray


def newton(problem, method, sides, occupancies, field, tolerance):
    """Damped Newton descent of D; returns (t, residual, steps, converged)."""
    scale = np.repeat(problem.counts, problem.targets.shape[1])

    def evaluate(flat):
        try:
            return dual(flat.reshape(problem.targets.shape), problem, method, sides, occupancies)
        except FloatingPointError:
            return np.inf, np.full_like(flat, np.nan), np.full((flat.size, flat.size), np.nan)

    flat = field.ravel()
    value, gradient, hessian = evaluate(flat)
    residual = float(np.max(np.abs(gradient / scale)))
    num_steps = 0
    while residual > tolerance and num_steps < MAX_STEPS:
        direction = _descent_direction(hessian, gradient)
        decrement = -gradient @ direction
        length = min(1.0, 0.5 * (1 + np.abs(flat).max()) / np.abs(direction).max())
        noise = 1e-12 * abs(value)
        found = backtrack(evaluate, flat, value, direction, decrement, length, 1e-8, noise)
        if found is None:
            break
        flat, (value, gradient, hessian) = found
        residual = float(np.max(np.abs(gradient / scale)))
        num_steps += 1
    return flat.reshape(field.shape), residual, num_steps, residual <= tolerance


def backtrack(evaluate, start, value, direction, decrement, length, shortest, noise):
    """The first point start + length · direction, length halving, whose value falls enough (Armijo's rule).

    Args:
        evaluate: of a point; returns a tuple that begins with its value.
        start: point where the search begins.
        value: at `start`.
        direction: in which the value falls, shaped like `start`.
        decrement: −slope · direction, positive.
        length: tried first.
        shortest: length at which the search gives up.
        noise: error of the values, by which they may rise.

    Returns:
        The point and what `evaluate` gave there, or None.
    """
    while length > shortest:
        point = start + length * direction
        found = evaluate(point)
        if found[0] <= value - 1e-4 * length * decrement + noise:
            return point, found
        length /= 2
    return None


def _descent_direction(hessian, gradient):
    ridge = 0.0
    while True:
        try:
            return -cho_solve(cho_factor(hessian + ridge * np.diag(np.diag(hessian))), gradient)
        except LinAlgError:
            ridge = max(10 * ridge, 1e-14)


def dual(field, problem, method, sides, occupancies):
    """D(t), its gradient and its Hessian, flattened over (C, m)."""
    integrals = [INTEGRALS[method](field, problem, side) for side in sides]
    log_values = np.array([integral.log_value for integral in integrals])
    means = np.array([integral.mean for integral in integrals])
    if occupancies is None:
        value = logsumexp(log_values)
        weights = np.exp(log_values - value)
    else:
        weights = occupancies
        value = weights @ log_values - np.sum(weights * np.log(weights))
    mean = weights @ means
    hessian = np.einsum("k,kij->ij", weights, [integral.covariance for integral in integrals])
    if occupancies is None:
        hessian += (weights * (means - mean).T) @ (means - mean)
    scale = np.repeat(problem.counts, field.shape[1])
    flat, targets = field.ravel(), problem.targets.ravel()
    value += scale @ (0.5 * problem.temperature * flat**2 - flat * targets)
    gradient = mean + scale * (problem.temperature * flat - targets)
    return value, gradient, hessian + problem.temperature * np.diag(scale)


def _cumulants(problem, fields, side, order):
    """[L, L', …] at every s (n, C), continued by tangents where a class is kept on one side."""
    site = problem.site
    values = site.cumulants(fields, order)
    if side is None:
        return values
    beyond = side * (fields - site.critical_field) < 0
    at_threshold = float(site.cumulants(np.array(site.critical_field), 0)[0])
    tangent = at_threshold + site.threshold * (fields - site.critical_field)
    continued = [tangent, np.full_like(fields, site.threshold)] + [np.zeros_like(fields)] * (order - 1)
    return [np.where(beyond, new, old) for new, old in zip(continued, values)]


def _landscape(points, field, problem, side):
    """E(a) without its normalisation, at points of shape (..., m)."""
    log_g = _cumulants(problem, points @ field.T, side, 0)[0]
    return log_g @ problem.counts - 0.5 * np.sum(points**2, axis=-1) / problem.readout_variance


class Lattice(NamedTuple):
    """Lattice points (n, m) where e^E matters, their normalised weights, L' and L'' (n, C), log ∫ e^E."""

    points: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    log_value: float


def lattice_rule(field, problem, side, spacing=SPACING) -> Lattice:
    """Adaptive trapezoid rule on the lattice of the given spacing (in units of σ_a)."""
    points = _significant_points(field, problem, side, spacing)
    log_g, means, variances = _cumulants(problem, points @ field.T, side, 2)
    exponent = log_g @ problem.counts - 0.5 * np.sum(points**2, axis=1) / problem.readout_variance
    keep = exponent >= exponent.max() - CUTOFF
    exponent = exponent[keep]
    shift = exponent.max()
    weights = np.exp(exponent - shift)
    total = weights.sum()
    cell = points.shape[1] * np.log(spacing / np.sqrt(2 * np.pi))  # σ_a cancels against the prior's norm
    return Lattice(
        points[keep], weights / total, means[keep], variances[keep], float(shift + np.log(total) + cell)
    )


def _significant_points(field, problem, side, spacing):
    """Lattice points of `adaptive_lattice` for the readouts; they lie where P puts ⟨a | z⟩, ± some σ_a."""
    site, variance = problem.site, problem.readout_variance
    ends = variance * problem.counts[:, None, None] * field[:, :, None] * [site.lower, site.upper]
    margin = np.sqrt(2 * CUTOFF * variance)
    return adaptive_lattice(
        lambda points: _landscape(points, field, problem, side),
        ends.min(axis=2).sum(axis=0) - margin,
        ends.max(axis=2).sum(axis=0) + margin,
        np.full(field.shape[1], np.sqrt(variance)),
        spacing,
    )


def adaptive_lattice(log_density, lower, upper, scale, spacing=SPACING, cutoff=CUTOFF):
    """Lattice points of all cubes that may hold a density above e^{−cutoff} of the highest.

    If log_density + Σ_r u_r²/(2 scale_r²) is convex, then inside a box of sides H_r the log density
    exceeds its largest corner value by at most Σ_r H_r²/(8 scale_r²), and no such point is missed.

    Args:
        log_density: function of points (..., m).
        lower: lower ends of the region, shape (m,).
        upper: upper ends, shape (m,).
        scale: widths, shape (m,).
        spacing: of the lattice, in units of `scale`.
        cutoff: see above.

    Returns:
        Points, shape (n, m), at whole multiples of spacing · scale.
    """
    m = len(scale)
    step = spacing * scale
    level = max(1, int(np.ceil(np.log2(np.max((upper - lower) / (8 * step))))))
    ends = zip(np.floor(lower / (step * 2**level)), np.ceil(upper / (step * 2**level)))
    axes = [np.arange(low, max(high, low + 1)) for low, high in ends]
    cubes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, m)
    corners = np.array(list(itertools.product((0, 1), repeat=m)), float)
    vertices = np.array(list(itertools.product((0, 1, 2), repeat=m)), float)
    best = -np.inf
    while level > 1:
        level -= 1
        value = log_density((2 * cubes[:, None, :] + vertices) * step * 2**level)
        best = max(best, value.max())
        bound = value.reshape(-1, *[3] * m)
        for axis in range(1, m + 1):
            bound = np.maximum(np.take(bound, (0, 1), axis), np.take(bound, (1, 2), axis))
        slack = cutoff + m * (spacing * 2**level) ** 2 / 8
        children = 2 * cubes[:, None, :] + corners
        cubes = children[bound.reshape(len(cubes), -1) >= best - slack]
        if len(cubes) > 2_000_000:
            raise FloatingPointError("the density spreads over too many lattice points")
    return ((2 * cubes[:, None, :] + corners) * step).reshape(-1, m)


def lattice_statistics(lattice: Lattice, problem) -> np.ndarray:
    """What t is conjugate to, n_c L'(s_c) a, at every lattice point, flattened to (n, Cm)."""
    products = lattice.means[:, :, None] * lattice.points[:, None, :] * problem.counts[:, None]
    return products.reshape(len(products), -1)


def _quadrature_integral(field, problem, side) -> Integral:
    lattice = lattice_rule(field, problem, side)
    statistics = lattice_statistics(lattice, problem)
    mean = lattice.weights @ statistics
    covariance = (statistics * lattice.weights[:, None]).T @ statistics - np.outer(mean, mean)
    within = lattice.weights[:, None] * lattice.variances * problem.counts
    blocks = [(lattice.points * column[:, None]).T @ lattice.points for column in within.T]
    add_blocks(covariance, np.array(blocks))
    return Integral(lattice.log_value, mean, covariance)


def _laplace_integral(field, problem, side, determinants=True) -> Integral:
    """Laplace's formula at every maximum; the covariance leaves out relative corrections of O(1/P)."""
    maxima = find_maxima(field, problem, side)
    counts, m = problem.counts, field.shape[1]
    log_g, means, variances, thirds = _cumulants(problem, maxima @ field.T, side, 3)
    energies = log_g @ counts - 0.5 * np.sum(maxima**2, axis=1) / problem.readout_variance
    stiffness = np.eye(m) / problem.readout_variance - np.einsum(
        "kc,cr,cq->krq", variances * counts, field, field
    )
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
    mean = mean.reshape(len(maxima), -1)
    log_value = float(logsumexp(energies))
    weights = np.exp(energies - log_value)
    mixed = mixed.reshape(len(maxima), m, -1)
    average = weights @ mean
    covariance = np.einsum("k,kri,krq,kqj->ij", weights, mixed, inverse, mixed, optimize=True)
    covariance += (weights * (mean - average).T) @ (mean - average)
    within = weights[:, None] * variances * counts
    add_blocks(covariance, np.einsum("kc,kr,kq->crq", within, maxima, maxima))
    return Integral(log_value, average, covariance)


def _leading_integral(field, problem, side) -> Integral:
    return _laplace_integral(field, problem, side, determinants=False)


INTEGRALS = {"quadrature": _quadrature_integral, "laplace": _laplace_integral, "leading": _leading_integral}


def add_blocks(matrix, blocks):
    """Add (C, m, m) blocks on the diagonal of a (Cm, Cm) matrix, in place."""
    m = blocks.shape[1]
    for c, block in enumerate(blocks):
        matrix[c * m : (c + 1) * m, c * m : (c + 1) * m] += block


# --- maxima of the readout posterior ------------------------------------------------------------


def _ascend(points, field, problem, side, num_steps):
    """Climb E from every row by a ← σ_a² Σ_c n_c t_c L'(a·t_c), which never decreases it."""
    weights = problem.readout_variance * problem.counts[:, None] * field
    for _ in range(num_steps):
        points = _cumulants(problem, points @ field.T, side, 1)[1] @ weights
    return points


def find_maxima(field, problem, side=None, more_starts=None) -> np.ndarray:
    """All maxima of E found from many starts, shape (k, m), highest first.

    Starts: the readouts answering to every combination of inactive, half-active and active
    classes, and those given. Ascent by the fixed-point map, then by Newton steps in which the
    curvature is kept positive; stationary points that are not maxima are dropped.
    """
    site, variance, counts = problem.site, problem.readout_variance, problem.counts
    num_classes, m = field.shape
    levels = (site.lower, site.threshold, site.upper) if num_classes <= 5 else (site.lower, site.upper)
    patterns = np.array(list(itertools.product(levels, repeat=num_classes)))
    starts = variance * (patterns * counts) @ field
    if more_starts is not None:
        starts = np.concatenate([starts, more_starts])
    points = _ascend(starts, field, problem, side, 10)
    points = points[np.unique(np.round(points / np.sqrt(variance), 3), axis=0, return_index=True)[1]]
    for _ in range(100):
        _, means, curvatures = _cumulants(problem, points @ field.T, side, 2)
        gradient = (means * counts) @ field - points / variance
        stiffness = np.eye(m) / variance - np.einsum("kc,cr,cq->krq", curvatures * counts, field, field)
        values, vectors = np.linalg.eigh(stiffness)
        if np.abs(gradient).max() * np.sqrt(variance) < 1e-9:
            break
        damped = np.maximum(np.abs(values), 0.01 / variance)
        step = np.einsum("kri,ki,kqi,kq->kr", vectors, 1 / damped, vectors, gradient)
        newton, safe = points + step, points + variance * gradient
        better = _landscape(newton, field, problem, side) > _landscape(safe, field, problem, side)
        close = np.abs(gradient).max(axis=1) * np.sqrt(variance) < 1e-4  # E is flat to rounding here
        points = np.where((better | (close & (values[:, 0] > 0)))[:, None], newton, safe)
    settled = np.abs(gradient).max(axis=1) * np.sqrt(variance) < 1e-6
    points = points[settled & (values[:, 0] * variance > 1e-9)]
    points = points[np.argsort(-_landscape(points, field, problem, side), kind="stable")]
    distinct: list[np.ndarray] = []
    for point in points:
        if all(np.linalg.norm(point - other) > 1e-4 * np.sqrt(variance) for other in distinct):
            distinct.append(point)
    if not distinct:
        raise FloatingPointError("no maximum of the readout posterior was found")
    return np.array(distinct)


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


def _quadrature_peaks(field, problem, side) -> Peaks:
    lattice, maxima, owner = assigned_lattice(field, problem, side, SPACING)
    membership = lattice.weights[:, None] * (owner[:, None] == np.arange(len(maxima)))
    mass = membership.sum(axis=0)
    occupied = mass > 0
    membership, mass, maxima = membership[:, occupied] / mass[occupied], mass[occupied], maxima[occupied]

    def average(values):
        return np.tensordot(membership, values, axes=(0, 0))

    squares = problem.site.preactivation_variance(lattice.points @ field.T)
    return Peaks(
        lattice.log_value + np.log(mass),
        maxima,
        average(lattice.points),
        average(lattice.means),
        average(lattice.means[:, :, None] * lattice.means[:, None, :]),
        average(lattice.variances),
        average(np.sum(lattice.points**2, axis=1)),
        average(squares),
    )


def _laplace_peaks(field, problem, side) -> Peaks:
    maxima = find_maxima(field, problem, side)
    log_g, means, variances = _cumulants(problem, maxima @ field.T, side, 2)
    stiffness = np.eye(field.shape[1]) / problem.readout_variance - np.einsum(
        "kc,cr,cq->krq", variances * problem.counts, field, field
    )
    energies = log_g @ problem.counts - 0.5 * np.sum(maxima**2, axis=1) / problem.readout_variance
    energies -= 0.5 * np.linalg.slogdet(problem.readout_variance * stiffness)[1]
    return Peaks(
        energies,
        maxima,
        maxima,
        means,
        means[:, :, None] * means[:, None, :],
        variances,
        np.sum(maxima**2, axis=1) + np.trace(np.linalg.inv(stiffness), axis1=1, axis2=2),
        problem.site.preactivation_variance(maxima @ field.T),
    )


def assigned_lattice(field, problem, side, spacing):
    """The lattice, the maxima, and for every lattice point the maximum it climbs to."""
    lattice = lattice_rule(field, problem, side, spacing)
    highest = np.argsort(-lattice.weights)[:: max(1, len(lattice.weights) // 200)]
    maxima = find_maxima(field, problem, side, lattice.points[highest])
    if len(maxima) == 1:
        return lattice, maxima, np.zeros(len(lattice.points), int)
    # Neighbouring points share their fate: climb from the cells of a lattice twice as coarse.
    cell = 2 * spacing * np.sqrt(problem.readout_variance)
    cells = np.floor(lattice.points / cell + 1e-6).astype(int)
    index = np.ravel_multi_index((cells - cells.min(axis=0)).T, np.ptp(cells, axis=0) + 1)
    _, first, of_point = np.unique(index, return_index=True, return_inverse=True)
    cells = cells[first]
    climbed = _ascend((cells + 0.5) * cell, field, problem, side, 30)
    nearest = np.argmin(np.sum((climbed[:, None, :] - maxima) ** 2, axis=2), axis=1)
    return lattice, maxima, nearest[of_point]


PEAKS = {"quadrature": _quadrature_peaks, "laplace": _laplace_peaks}
