r"""Sparse coding schemes: the dual saddle point of one-hidden-layer rectified networks on the toy task.

One neuron of readout a, σ_a² = 1/P, on orthogonal inputs in classes of weight w_c = n_c/P has

    P(a) ∝ exp(P·E(a)),  E(a) = −|a|²/2 + Σ_c w_c log g(a·t_c),  g(s) = ⟨exp(s φ(z))⟩, z ~ N(0, 1),

with the class fields t, (C, m), that minimise the convex dual

    D(t)/P = max_a E(a) − Σ_c w_c t_c·y_c + (T/2) Σ_c w_c |t_c|².

For φ(z) → z at large z, log g(s) → s²/2 at large s, so that E stays bounded only if

    h(â) = Σ_c w_c [â·t_c]₊² ≤ 1  for every unit â.

Its active constraints are the outliers, a = √N ā and z = √N z̄; a finite maximum of E is the bulk:

    ā = Σ_c w_c t_c z̄_c,   z̄_c = [ā·t_c]₊,   a0 = Σ_c w_c t_c ⟨φ⟩_c,
    y_c = a0 ⟨φ⟩_c + Σ_i ā_i z̄_ic + T t_c.

Nothing is assumed of the outliers: constraints enter as the search over all directions finds them
violated, and a solution counts as converged only once no direction violates one and no readout has
a larger E than the bulk. As the dual is convex, such a solution is the global optimum.

`solve` takes the limit N, P → ∞; `finite_size` adds the corrections of relative order 1/N and 1/P.
max(0, z)² scales otherwise: see `coding_schemes.theory.relu_squared`.

Source: paper A, "Sparse coding scheme" (its supplement C derives the same saddle for T → 0).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares, minimize, nnls
from scipy.special import log_ndtr

from coding_schemes.tasks import Task

# z grid on which softplus is averaged. The integrand is analytic for |Im z| < π, so that the trapezoid
# rule is exact to rounding; beyond s = _LARGE_FIELD, log g(s) = s²/2 is, as log(1 + eᶻ) = z at z ≈ s.
_GRID = np.arange(-14.0, 40.0, 0.125)
_LARGE_FIELD = 28.0
_SPHERE_STARTS = 64  # random directions each search starts from, besides those the fields suggest
_MAX_ENUMERATED_CLASSES = 8  # up to here the search also starts from every active set's eigenvectors
_FLOOR_TEMPERATURE = 1e-9  # keeps H_c invertible at T = 0, where its null space does not matter
_SILENT = 1e-6  # z̄ below this counts as silent
_ZERO = 1e-6  # outliers of amplitude² and bulk populations of probability below this are dropped


class Cumulants(NamedTuple):
    """log g(s), the tilted cumulants of φ(z), and mean and variance of z; each of the shape of s."""

    log_normaliser: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    third: np.ndarray
    preactivation_mean: np.ndarray
    preactivation_variance: np.ndarray


@dataclass(frozen=True)
class Solution:
    """Saddle point of the single-neuron posterior at N, P → ∞.

    Attributes:
        outlier_readouts: ā, (n, m), in units of √N; the largest |ā| first.
        outlier_preactivations: z̄ per class, (n, C), in units of √N; 0 where the outlier is silent.
        bulk_readout: a0 of the bulk (of its largest population), (m,).
        bulk_activations: ⟨φ⟩ per class given `bulk_readout`, (C,).
        bulk_readouts: readouts of all bulk populations, (k, m). One, but for special tasks.
        bulk_probabilities: their fractions of the bulk, (k,).
        dual_field: t, (C, m). T t is the training residual of every class.
        outlier_entropy_costs: E(a0) + log 2 Σ_{silent c} w_c, (n,): what turning one bulk neuron into
            a second outlier parallel to this one costs, in nats per input. It is of order P where
            energies are of order N P: parallel outliers split at no leading-order cost, and this
            is what merges them in the end.
        num_free_directions: dimension of the family of outliers that solve the task equally well.
            0: the outliers are unique. Above: they can be rotated into each other, and the ones
            returned are the fewest, with the fewest silent classes.
        energy: U/(N P) at the saddle: Σ_c w_c t_c·y_c − E(a0) − (T/2) Σ_c w_c |t_c|².
        residual: largest absolute error of the saddle-point equations.
        constraint_violation: max_â h(â) − 1 and max_a E(a) − E(a0), whichever is larger.
        num_steps: Newton steps plus the iterations of the search for active constraints.
        converged: whether both are below `tolerance`.
        class_weights: w_c = n_c/P, (C,).
        class_targets: y, (C, m).
        num_inputs: P.
        temperature: T.
        nonlinearity: "relu" or "softplus".
    """

    outlier_readouts: np.ndarray
    outlier_preactivations: np.ndarray
    bulk_readout: np.ndarray
    bulk_activations: np.ndarray
    bulk_readouts: np.ndarray
    bulk_probabilities: np.ndarray
    dual_field: np.ndarray
    outlier_entropy_costs: np.ndarray
    num_free_directions: int
    energy: float
    residual: float
    constraint_violation: float
    num_steps: int
    converged: bool
    class_weights: np.ndarray
    class_targets: np.ndarray
    num_inputs: int
    temperature: float
    nonlinearity: str


@dataclass(frozen=True)
class FiniteSize:
    """Saddle point with its corrections of relative order 1/N and 1/P.

    Attributes:
        outlier_readouts: mean ā, (n, m), in units of √N, in the order of the Solution.
        outlier_preactivations: mean preactivation per class, (n, C), in units of √N. Unlike the leading
            order's it is negative, O(1/√N), on the classes where the outlier is silent.
        outlier_preactivation_variances: variance over the inputs of a class, (n, C), of z itself.
        bulk_readout: mean a0 of the bulk (of its largest population), (m,).
        bulk_readout_covariance: covariance of a over bulk neurons, (m, m), of order 1/P.
        bulk_activations: ⟨φ⟩ per class, averaged over bulk neurons, (C,).
        bulk_readouts: a0 of all bulk populations, (k, m).
        bulk_probabilities: their fractions at this P, (k,).
        dual_field: mean t, (C, m); T t is the mean training residual.
        residual: largest error of the stationarity equations.
        num_steps: iterations.
        converged: whether the residual is below the tolerance.
        num_neurons: N.
        class_weights: w_c = n_c/P, (C,).
        nonlinearity: "relu" or "softplus".
    """

    outlier_readouts: np.ndarray
    outlier_preactivations: np.ndarray
    outlier_preactivation_variances: np.ndarray
    bulk_readout: np.ndarray
    bulk_readout_covariance: np.ndarray
    bulk_activations: np.ndarray
    bulk_readouts: np.ndarray
    bulk_probabilities: np.ndarray
    dual_field: np.ndarray
    residual: float
    num_steps: int
    converged: bool
    num_neurons: int
    class_weights: np.ndarray
    nonlinearity: str


def solve(
    task: Task,
    temperature: float = 0.0,
    *,
    nonlinearity: str = "relu",
    tolerance: float = 1e-9,
    max_rounds: int = 60,
) -> Solution:
    """Outliers and bulk of a rectified network on a toy task, at any temperature T ≥ 0.

    Solves the dual of the module's header: active constraints by exchange (the dual on a finite
    set of directions, enlarged by those found violated), then Newton on all equations at once.

    Args:
        task: a task with orthogonal inputs; any number of classes, ratios and targets.
        temperature: T in paper A's scaling (the posterior's energy is N/(2T) times the squared error).
        nonlinearity: "relu", or "softplus". Softplus outliers obey the same constraint, since
            log(1 + eᶻ) − z vanishes at z = O(√N); only its bulk averages differ.
        tolerance: largest error allowed in the equations, and in the constraints. Near a point
            where an outlier appears the problem is soft, and 1e-9 there still means 1e-6 in ā.
        max_rounds: exchanges before giving up.

    Returns:
        A Solution, in the limit N, P → ∞. A finite one exists for every target, as outliers that answer to
        one class each can always produce it.

    Raises:
        ValueError: T < 0 or not finite, inputs not orthogonal, or a nonlinearity without this theory.

    Source: paper A, supplement C (T → 0); the finite-T dual is worked out in the header.
    """
    cumulants = _cumulants_of(nonlinearity)
    weights, targets = check_task(task, temperature)
    search = _Search(weights, targets, temperature, cumulants)
    state, num_steps, round_tolerance = None, 0, 1e-2
    for _ in range(max_rounds):
        num_steps += search.exchange()
        if search.violation > round_tolerance:
            continue
        candidate, newton_steps = _newton(
            search.candidate(), weights, targets, temperature, cumulants, tolerance
        )
        num_steps += newton_steps
        error = _residual(candidate, weights, targets, temperature, cumulants)
        violation = _violation(candidate, weights, cumulants)
        if state is None or max(error, violation) < max(state[1:]):
            state = (candidate, error, violation)
        if max(error, violation) <= tolerance and _admissible(candidate):
            break
        round_tolerance = max(1e-6, min(round_tolerance, search.violation) / 4)
    if state is None:
        candidate = search.candidate()
        state = (
            candidate,
            _residual(candidate, weights, targets, temperature, cumulants),
            _violation(candidate, weights, cumulants),
        )
    point, error, violation = state
    converged = max(error, violation) <= tolerance and _admissible(point)
    if converged:
        point = _fewest_outliers(point, weights, targets, temperature, cumulants)
        error = _residual(point, weights, targets, temperature, cumulants)
    else:
        warnings.warn(
            f"theory.relu.solve did not converge: equations {error:.1e}, constraints {violation:.1e}, "
            f"tolerance {tolerance:.1e}",
            stacklevel=2,
        )
    return _as_solution(
        point,
        weights,
        targets,
        task.num_inputs,
        temperature,
        nonlinearity,
        error,
        violation,
        num_steps,
        converged,
    )


def finite_size(
    solution: Solution, num_neurons: int, *, tolerance: float = 1e-8, max_steps: int = 100
) -> FiniteSize:
    r"""Saddle of a network of N neurons on P inputs: corrections of relative order 1/N and 1/P.

    With n outliers kept explicitly, at a_i, and the fields t and the other N − n neurons integrated,
    the log posterior is N P times the stationary value, over t, a_i and the bulk's density ρ(a), of

        S = Σ_c w_c ((T/2) |t_c|² − t_c·y_c) + (1/N) Σ_i E(a_i)
            + (1 − n/N) ∫ da ρ(a) [E(a) − (1/P) log ρ(a)] − (1/2N) Σ_c w_c log det H_c,
        H_c = T + (1 − n/N) ∫ da ρ(a) V_c(a) a aᵀ + (1/N) Σ_i V_c(a_i) a_i a_iᵀ,

    V_c(a) the variance of φ at the field a·t_c. ρ ∝ exp(P E(a)) to leading order: bulk readouts spread
    by O(1/√P) about a0. The last term comes from integrating t to one loop, input by input: each
    input has its own Gaussian noise in the preactivations of outliers and bulk, and the likelihood holds m
    combinations of it, the outputs. So within a class the outliers vary less than under the prior:
    Var(z_i) = 1 − ā_iᵀ H_c⁻¹ ā_i. E(a_i) is the exact one, at a_i = O(√N), silent classes included.

    Where the outliers form a family (`num_free_directions` > 0), those close to silence on some class
    feel a further force at finite N, along the family: the iteration need not converge then, and says so.

    Args:
        solution: what `solve` returned for this task and temperature.
        num_neurons: N.
        tolerance: largest error allowed in the stationarity equations.
        max_steps: iterations before giving up; the error falls by about 1/N in each.

    Returns:
        A FiniteSize. Averages of the bulk include the spread of a0 over neurons.

    Raises:
        ValueError: N not above the number of outliers.

    Source: not in paper A, whose theory of ReLU networks is for N, P → ∞ and T → 0.
    """
    num_outliers = len(solution.outlier_readouts)
    if num_neurons <= num_outliers:
        raise ValueError(f"num_neurons: got {num_neurons}, needs more than the {num_outliers} outliers")
    cumulants = _cumulants_of(solution.nonlinearity)
    weights = solution.class_weights
    point = _Point(
        solution.dual_field, solution.bulk_readouts, solution.bulk_probabilities, solution.outlier_readouts
    )
    slope = _jacobian(point, weights, solution.temperature, cumulants)  # of the leading order: a chord method
    best, error, num_steps = point, np.inf, 0
    while num_steps < max_steps and error > tolerance:
        try:
            residual = _finite_equations(point, solution, num_neurons)[0]
        except np.linalg.LinAlgError:  # left the region where the bulk's readout is a maximum
            break
        if np.abs(residual).max() < error:
            best, error = point, float(np.abs(residual).max())
        x = np.concatenate([part.ravel() for part in point])
        point = _unpack(x - np.linalg.lstsq(slope, residual, rcond=1e-10)[0], point)
        point = point._replace(probabilities=np.maximum(point.probabilities, 1e-12))
        num_steps += 1
    _, activations, covariance, noise = _finite_equations(best, solution, num_neurons)
    t, bulk, p, outliers = best
    one = cumulants(np.sqrt(num_neurons) * outliers @ t.T)
    held = np.einsum("ir,crq,iq->ic", outliers, np.linalg.inv(noise), outliers)
    converged = error <= tolerance
    if not converged:
        warnings.warn(f"theory.relu.finite_size did not converge: residual {error:.1e}", stacklevel=2)
    largest = int(np.argmax(p))
    return FiniteSize(
        outlier_readouts=outliers,
        outlier_preactivations=one.preactivation_mean / np.sqrt(num_neurons),
        outlier_preactivation_variances=one.preactivation_variance - one.variance**2 * held,
        bulk_readout=bulk[largest],
        bulk_readout_covariance=covariance[largest],
        bulk_activations=activations[largest],
        bulk_readouts=bulk,
        bulk_probabilities=p,
        dual_field=t,
        residual=error,
        num_steps=num_steps,
        converged=converged,
        num_neurons=num_neurons,
        class_weights=weights,
        nonlinearity=solution.nonlinearity,
    )


def bulk_density(
    solution: Solution | FiniteSize, preactivations: np.ndarray, label: int, population: int = 0
) -> np.ndarray:
    """Density P(z | a0) ∝ N(z; 0, 1) exp(φ(z) a0·t_c) of a bulk neuron's preactivations on one class.

    Args:
        solution: what `solve` (or `finite_size`) returned.
        preactivations: z, any shape.
        label: the class c.
        population: which row of `bulk_readouts`.

    Returns:
        The normalised density at z, of the shape of z.

    Raises:
        ValueError: no such class.

    Source: paper A, "Sparse coding scheme", the non-Gaussian bulk posterior of Fig. 4c.
    """
    num_classes = len(solution.class_weights)
    if not 0 <= label < num_classes:
        raise ValueError(f"label: got {label}, needs 0 … {num_classes - 1}")
    z = np.asarray(preactivations, dtype=float)
    field = float(solution.bulk_readouts[population] @ solution.dual_field[label])
    log_g = _cumulants_of(solution.nonlinearity)(np.array(field)).log_normaliser
    return np.exp(-(z**2) / 2 + field * _activation(solution.nonlinearity)(z) - log_g) / np.sqrt(2 * np.pi)


def draw_network(
    finite: FiniteSize, labels: np.ndarray, rng: np.random.Generator, copies: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """One network of the theory: outliers at their place, every bulk neuron drawn from the bulk's density.

    A chain may start from it, by `Posterior.planted`. Noise in different neurons is independent here, while
    in the posterior the outputs tie it together; a few trajectories repair that.

    Args:
        finite: what `finite_size` returned.
        labels: classes of the inputs, (P,), in any order.
        rng: draws the noise.
        copies: number of parallel neurons that share every outlier, each with a and z smaller by the root
            of it: the same output and, at leading order, the same energy.

    Returns:
        Preactivations z (N, P) and readouts a (N, m), the outliers first.

    Raises:
        ValueError: fewer than one copy, or more outliers than neurons.
    """
    size, outliers = finite.num_neurons, np.repeat(finite.outlier_readouts, copies, axis=0)
    if copies < 1 or len(outliers) >= size:
        raise ValueError(f"copies: got {copies}, needs at least 1 and fewer outliers than N = {size}")
    grid = np.linspace(-8.0, 8.0, 1601)
    z = np.empty((size, len(labels)))
    for c in range(len(finite.class_weights)):
        cumulative = np.cumsum(bulk_density(finite, grid, c))
        members = np.flatnonzero(labels == c)
        z[:, members] = np.interp(rng.random((size, len(members))), cumulative / cumulative[-1], grid)
    a = rng.multivariate_normal(finite.bulk_readout, finite.bulk_readout_covariance, size)
    share = np.sqrt(size / copies)
    a[: len(outliers)] = share * outliers
    noise = np.repeat(np.sqrt(finite.outlier_preactivation_variances), copies, axis=0)[:, labels]
    z[: len(outliers)] = share * np.repeat(finite.outlier_preactivations, copies, axis=0)[:, labels]
    z[: len(outliers)] += noise * rng.standard_normal((len(outliers), len(labels)))
    return z, a


def check_task(task: Task, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Class weights (C,) and targets (C, m) of a toy task, after the checks all toy theories share."""
    if not np.isfinite(temperature) or temperature < 0:
        raise ValueError(f"temperature: got {temperature}, needs a finite T ≥ 0")
    if not task.is_orthogonal:
        raise ValueError(
            f"task: the inputs of {task.name!r} are not orthogonal (XᵀX/N0 ≠ 1); "
            "this theory needs a toy task, theory.mean_field takes general inputs"
        )
    return task.class_counts / task.num_inputs, np.asarray(task.class_targets, dtype=float)


# --- one neuron ---------------------------------------------------------------------------------


def _relu_cumulants(s: np.ndarray) -> Cumulants:
    """G = e^{s²/2} Φ(s): g = ½ + G, G' = s G + 1/√(2π), ⟨φᵏ⟩ = G⁽ᵏ⁾/g; ⟨z⟩ = s ⟨φ'⟩, ⟨z²⟩ = 1 + s ⟨φ⟩."""
    log_positive = s**2 / 2 + log_ndtr(s)
    log_g = np.logaddexp(np.log(0.5), log_positive)
    active, edge = np.exp(log_positive - log_g), np.exp(-log_g) / np.sqrt(2 * np.pi)
    mean = s * active + edge
    square = active + s * mean
    third = 2 * mean + s * square - 3 * square * mean + 2 * mean**3
    z = s * active
    gaussian = s > 12  # up to rounding; the differences of large powers below would lose digits
    variance, third = np.where(gaussian, 1.0, square - mean**2), np.where(gaussian, 0.0, third)
    return Cumulants(log_g, mean, variance, third, z, np.where(gaussian, 1.0, 1 + s * mean - z**2))


def _softplus_cumulants(s: np.ndarray) -> Cumulants:
    """The trapezoid rule on `_GRID`; the Gaussian N(z; s, 1) beyond."""
    phi, step = np.logaddexp(0.0, _GRID), _GRID[1] - _GRID[0]
    exponent = np.minimum(s, _LARGE_FIELD)[..., None] * phi - _GRID**2 / 2 + np.log(step / np.sqrt(2 * np.pi))
    top = exponent.max(-1)
    density = np.exp(exponent - top[..., None])
    total = density.sum(-1)
    density /= total[..., None]
    mean, z = density @ phi, density @ _GRID
    variance, third = density @ phi**2 - mean**2, density @ phi**3
    third = third - 3 * mean * variance - mean**3
    grid = (top + np.log(total), mean, variance, third, z, density @ _GRID**2 - z**2)
    beyond = (s**2 / 2, s, 1.0, 0.0, s, 1.0)
    far = s > _LARGE_FIELD
    return Cumulants(*(np.where(far, np.asarray(b), g) for b, g in zip(beyond, grid, strict=True)))


def _cumulants_of(nonlinearity: str) -> Callable[..., Cumulants]:
    table = {"relu": _relu_cumulants, "softplus": _softplus_cumulants}
    if nonlinearity == "relu_squared":
        raise ValueError(
            "nonlinearity: max(0, z)² has no finite saddle at a, z = O(√N), as ⟨exp(s φ)⟩ diverges for "
            "s ≥ 1/2; theory.relu_squared solves it at its own scale, N^(1/3)"
        )
    if nonlinearity not in table:
        raise ValueError(
            f"nonlinearity: got {nonlinearity!r}, this theory is for {' and '.join(map(repr, table))}"
        )
    return table[nonlinearity]


def _activation(nonlinearity: str) -> Callable[[np.ndarray], np.ndarray]:
    return {"relu": lambda z: np.maximum(z, 0.0), "softplus": lambda z: np.logaddexp(0.0, z)}[nonlinearity]


def _free_energy(a, t, weights, cumulants):
    """E(a), shape (...,), of readouts (..., m)."""
    return -np.sum(a**2, -1) / 2 + cumulants(a @ t.T).log_normaliser @ weights


def _load(directions, t, weights):
    """h(â), shape (...,), of unit directions (..., m)."""
    return np.maximum(directions @ t.T, 0) ** 2 @ weights


# --- global searches ----------------------------------------------------------------------------


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)


def _distinct(x, distance):
    """Rows of x, in order, farther than `distance` from every row kept before."""
    kept = x[:0]
    for row in x:
        if np.all(np.linalg.norm(kept - row, axis=1) > distance):
            kept = np.vstack([kept, row])
    return kept


def _sphere(num_outputs):
    starts = np.random.default_rng(0).standard_normal((_SPHERE_STARTS, num_outputs))
    return _distinct(_unit(np.vstack([np.eye(num_outputs), -np.eye(num_outputs), starts])), 1e-3)


def _heaviest_directions(t, weights, starts, num_iterations=200):
    """Local maxima of h: â ← Σ_c w_c t_c [â·t_c]₊, normalised, never lowers the convex h."""
    num_classes = len(weights)
    if num_classes <= _MAX_ENUMERATED_CLASSES:
        sets = np.array(list(product([0.0, 1.0], repeat=num_classes)))[1:]
        moments = np.einsum("sc,c,cr,cq->srq", sets, weights, t, t)
        vectors = np.linalg.eigh(moments)[1].transpose(0, 2, 1).reshape(-1, t.shape[1])
        starts = np.vstack([starts, vectors, -vectors])
    a = _unit(np.vstack([starts, t]))
    for _ in range(num_iterations):
        pull = (weights * np.maximum(a @ t.T, 0)) @ t
        a = np.where(np.linalg.norm(pull, axis=1, keepdims=True) > 1e-12, _unit(pull), a)
    load = _load(a, t, weights)
    return a[np.argsort(-load, kind="stable")], np.sort(load)[::-1]


def _highest_readouts(t, weights, cumulants, starts, num_iterations=60):
    """Readouts of large E: a ← Σ_c w_c t_c ⟨φ⟩_c never lowers E."""
    a = np.vstack([starts, 2 * t, np.zeros((1, t.shape[1]))])
    for _ in range(num_iterations):
        a = (weights * cumulants(a @ t.T).mean) @ t
    free_energy = _free_energy(a, t, weights, cumulants)
    order = np.argsort(-free_energy, kind="stable")
    return a[order], free_energy[order]


# --- the saddle-point equations -----------------------------------------------------------------


class _Point(NamedTuple):
    """Unknowns of the saddle: fields (C, m), bulk readouts (k, m) and probabilities (k,), outliers (n, m)."""

    t: np.ndarray
    bulk: np.ndarray
    probabilities: np.ndarray
    outliers: np.ndarray


def _equations(point, weights, targets, temperature, cumulants):
    """Residuals: fields (times w_c), bulk readouts, equal E of bulk populations, Σ p = 1, outliers."""
    t, bulk, p, outliers = point
    field = cumulants(bulk @ t.T)
    z = np.maximum(outliers @ t.T, 0)
    output = (p[:, None] * field.mean).T @ bulk + z.T @ outliers
    free_energy = -np.sum(bulk**2, 1) / 2 + field.log_normaliser @ weights
    parts = [
        weights[:, None] * (output + temperature * t - targets),
        (weights * field.mean) @ t - bulk,
        free_energy[1:] - free_energy[:1],
        np.array([p.sum() - 1]),
        (weights * z) @ t - outliers,
    ]
    return np.concatenate([part.ravel() for part in parts])


def _jacobian(point, weights, temperature, cumulants):
    t, bulk, p, outliers = point
    (num_classes, m), k, n = t.shape, len(bulk), len(outliers)
    field = cumulants(bulk @ t.T)
    z, active = np.maximum(outliers @ t.T, 0), (outliers @ t.T > 0).astype(float)
    w, eye = weights, np.eye(m)
    d_t = np.zeros((num_classes, m, num_classes, m))
    d_t[np.arange(num_classes), :, np.arange(num_classes), :] = w[:, None, None] * (
        temperature * eye
        + np.einsum("k,kc,kr,kq->crq", p, field.variance, bulk, bulk)
        + np.einsum("ic,ir,iq->crq", active, outliers, outliers)
    )

    def mixed(mean, slope, readouts):  # ∂(w_c μ_c a)/∂a, (C, m, n, m)
        return np.einsum("c,kc,rq->crkq", w, mean, eye) + np.einsum("c,kc,kr,cq->crkq", w, slope, readouts, t)

    def own(slope):  # ∂(Σ_c w_c μ_c t_c − a)/∂a, (n, m, n, m)
        block = np.einsum("c,kc,cr,cq->krq", w, slope, t, t) - eye
        return np.einsum("kl,krq->krlq", np.eye(len(slope)), block).reshape(len(slope) * m, len(slope) * m)

    t_bulk, t_outliers = mixed(field.mean, field.variance, bulk), mixed(z, active, outliers)
    d_p = np.einsum("c,kc,kr->crk", w, field.mean, bulk).reshape(-1, k)
    bulk_t = t_bulk.reshape(num_classes * m, -1).T
    gap_t = np.einsum("c,kc,kr->kcr", w, field.mean, bulk).reshape(k, -1)
    slope = (w * field.mean) @ t - bulk
    gap_bulk = np.einsum("kl,kr->klr", np.eye(k), slope).reshape(k, -1)

    def zeros(rows, columns):
        return np.zeros((rows, columns))

    return np.block(
        [
            [
                d_t.reshape(num_classes * m, -1),
                (p[:, None] * t_bulk).reshape(num_classes * m, -1),
                d_p,
                t_outliers.reshape(num_classes * m, n * m),
            ],
            [bulk_t, own(field.variance), zeros(k * m, k), zeros(k * m, n * m)],
            [gap_t[1:] - gap_t[:1], gap_bulk[1:] - gap_bulk[:1], zeros(k - 1, k), zeros(k - 1, n * m)],
            [zeros(1, num_classes * m), zeros(1, k * m), np.ones((1, k)), zeros(1, n * m)],
            [t_outliers.reshape(num_classes * m, n * m).T, zeros(n * m, k * m), zeros(n * m, k), own(active)],
        ]
    )


def _unpack(x, like):
    sizes = np.cumsum([part.size for part in like])[:-1]
    return _Point(*(part.reshape(ref.shape) for part, ref in zip(np.split(x, sizes), like, strict=True)))


def _newton(point, weights, targets, temperature, cumulants, tolerance, max_steps=40):
    """Newton with least-squares steps, which also converge where the outliers form a family."""
    error = np.abs(_equations(point, weights, targets, temperature, cumulants)).max()
    for step in range(max_steps):
        if error <= tolerance * 1e-3:
            return point, step
        residual = _equations(point, weights, targets, temperature, cumulants)
        direction = np.linalg.lstsq(
            _jacobian(point, weights, temperature, cumulants), -residual, rcond=1e-10
        )[0]
        x = np.concatenate([part.ravel() for part in point])
        length = 1.0
        while length > 1e-3:
            trial = _unpack(x + length * direction, point)
            trial_error = np.abs(_equations(trial, weights, targets, temperature, cumulants)).max()
            if trial_error < error:
                break
            length /= 2
        else:
            return point, step
        point, error = trial, trial_error
    return point, max_steps


def _residual(point, weights, targets, temperature, cumulants):
    """Largest error of the equations, the fields' in units of the targets."""
    errors = _equations(point, weights, targets, temperature, cumulants)
    errors[: targets.size] /= np.repeat(weights, targets.shape[1])
    return float(np.abs(errors).max())


def _violation(point, weights, cumulants):
    sphere = _sphere(point.t.shape[1])
    load = _heaviest_directions(point.t, weights, np.vstack([sphere, point.outliers]))[1][0]
    if not load <= 1 + 1e-6:
        return float(np.nan_to_num(load - 1, nan=np.inf))  # E is unbounded
    starts = np.vstack([radius * sphere for radius in (0.5, 2.0, 5.0)] + [point.bulk])
    highest = _highest_readouts(point.t, weights, cumulants, starts)[1][0]
    return float(max(load - 1, highest - _free_energy(point.bulk, point.t, weights, cumulants).min(), 0.0))


def _admissible(point):
    return bool(np.all(point.probabilities >= 0))


# --- active constraints by exchange -------------------------------------------------------------


class _Search:
    """The dual on a finite set of directions and bulk readouts, enlarged round by round.

    Each round follows the logarithmic barrier's path to a small barrier weight. t = 0 is strictly
    feasible, and h is homogeneous, so that shrinking t restores feasibility after every exchange.
    """

    def __init__(self, weights, targets, temperature, cumulants):
        self.weights, self.targets, self.temperature, self.cumulants = (
            weights,
            targets,
            temperature,
            cumulants,
        )
        self.sphere = _sphere(targets.shape[1])
        self.directions = self.sphere
        self.readouts = np.zeros((1, targets.shape[1]))
        self.maxima = np.zeros((0, targets.shape[1]))
        self.t = np.zeros_like(targets)
        self.violation = np.inf
        self.start_weight, self.end_weight = 1.0, 1e-4

    def exchange(self) -> int:
        """Minimise the dual under the present constraints, then add those its optimum violates."""
        w = self.weights
        heaviest = max(_load(self.directions, self.t, w).max(), (w * np.sum(self.t**2, 1)).max())
        t = self.t * min(1.0, 0.99 / np.sqrt(max(heaviest, 1e-300)))
        level = _free_energy(self.readouts, t, w, self.cumulants).max() + 0.1 * self.start_weight
        x, num_steps, barrier = np.append(t, level), 0, self.start_weight
        while barrier >= 0.99 * self.end_weight:
            x, steps = self._centre(x, barrier)
            num_steps += steps
            barrier /= 10
        t = x[:-1].reshape(t.shape)
        found, load = _heaviest_directions(t, w, self.directions)
        self.t = t / np.sqrt(max(load[0], 1.0))  # feasible, so that E is bounded
        near = np.vstack([radius * self.sphere for radius in (0.5, 2.0, 5.0)] + [self.readouts])
        readouts, free_energy = _highest_readouts(self.t, w, self.cumulants, near)
        level = _free_energy(self.readouts, self.t, w, self.cumulants).max()
        self.violation = float(max(load[0] - 1, free_energy[0] - level, 10 * self.end_weight))
        self.maxima = _distinct(found[load > 0.99 - 1000 * self.end_weight], 1e-3)
        new = _distinct(found[load > 1 - self.end_weight], 1e-5)
        self.directions = np.vstack([self.directions, new[: 4 * len(w)]])
        new = _distinct(readouts[free_energy > level - self.end_weight], 1e-5)
        self.readouts = np.vstack([self.readouts, new[: 2 * len(w)]])
        if self.violation < 100 * self.end_weight:  # these constraints are settled: look closer
            self.end_weight = max(self.end_weight / 10, 1e-7)
        self.start_weight = 100 * self.end_weight
        return num_steps

    def _slacks(self, x):
        """1 − h for every direction and every class alone, v − E for every readout."""
        t = x[:-1].reshape(self.targets.shape)
        bound = x[-1] - _free_energy(self.readouts, t, self.weights, self.cumulants)
        alone = 1 - self.weights * np.sum(t**2, 1)
        return np.concatenate([1 - _load(self.directions, t, self.weights), alone, bound])

    def _barrier(self, x, barrier):
        """D/P plus the barrier; infinite outside the constraints."""
        slack = self._slacks(x)
        if np.any(slack <= 0):
            return np.inf
        t, w = x[:-1].reshape(self.targets.shape), self.weights[:, None]
        return (
            x[-1] + np.sum(w * t * (self.temperature * t / 2 - self.targets)) - barrier * np.log(slack).sum()
        )

    def _centre(self, x, barrier, max_steps=50):
        """Newton's method on D/P − barrier · Σ log(slack)."""
        w, (num_classes, m) = self.weights, self.targets.shape
        classes, eye = np.arange(num_classes), np.eye(m)
        value = self._barrier(x, barrier)
        for step in range(max_steps):
            t = x[:-1].reshape(num_classes, m)
            z = np.maximum(self.directions @ t.T, 0)
            field = self.cumulants(self.readouts @ t.T)
            force = barrier / self._slacks(x)
            of_load, of_class, of_bound = np.split(force, [len(z), len(z) + num_classes])
            slope = np.zeros((len(force), num_classes, m))  # of −slack
            slope[: len(z)] = 2 * np.einsum("c,kc,kr->kcr", w, z, self.directions)
            slope[len(z) + classes, classes] = 2 * w[:, None] * t
            slope[len(z) + num_classes :] = np.einsum("c,kc,kr->kcr", w, field.mean, self.readouts)
            slope = np.column_stack(
                [
                    slope.reshape(len(force), -1),
                    np.repeat([0.0, -1.0], np.array([len(z) + num_classes, len(of_bound)])),
                ]
            )
            gradient = np.append(w[:, None] * (self.temperature * t - self.targets), 1.0) + force @ slope
            curvature = slope.T @ ((force**2 / barrier)[:, None] * slope)
            own = w[:, None, None] * (
                (self.temperature + 2 * of_class)[:, None, None] * eye
                + 2
                * np.einsum(
                    "k,kc,kr,kq->crq", of_load, z > 0, self.directions, self.directions, optimize=True
                )
                + np.einsum(
                    "k,kc,kr,kq->crq", of_bound, field.variance, self.readouts, self.readouts, optimize=True
                )
            )
            blocks = curvature[:-1, :-1].reshape(num_classes, m, num_classes, m)
            blocks[classes, :, classes, :] += own
            direction = np.linalg.lstsq(curvature, -gradient, rcond=1e-14)[0]
            decrement = -gradient @ direction
            if decrement < 1e-3 * barrier:
                return x, step
            length = 1.0
            while length > 1e-12:
                trial = self._barrier(x + length * direction, barrier)
                if trial < value - 0.1 * length * decrement:
                    break
                length /= 2
            else:
                return x, step
            x, value = x + length * direction, trial
        return x, max_steps

    def candidate(self) -> _Point:
        """Multipliers by non-negative least squares on the near-active constraints: outliers and bulk."""
        w, t = self.weights, self.t
        bulk = np.array([self._climb(a) for a in self._bulk_starts()])
        bulk = _distinct(bulk[np.argsort(-_free_energy(bulk, t, w, self.cumulants), kind="stable")], 1e-2)
        near = self.maxima
        root = np.sqrt(w)
        columns = [
            np.einsum("c,kc,kr->kcr", root, self.cumulants(bulk @ t.T).mean, bulk).reshape(len(bulk), t.size),
            np.einsum("c,kc,kr->kcr", root, np.maximum(near @ t.T, 0), near).reshape(len(near), t.size),
        ]
        stress = 100.0  # holds Σ p = 1 against the fit
        matrix = np.column_stack(
            [np.vstack(columns), np.append(np.full(len(bulk), stress), np.zeros(len(near)))]
        ).T
        wanted = root[:, None] * (self.targets - self.temperature * t)
        multipliers = nnls(matrix, np.append(wanted, stress))[0]
        p, strength = multipliers[: len(bulk)], multipliers[len(bulk) :]
        kept = p > _ZERO if np.any(p > _ZERO) else np.arange(len(p)) == 0
        used = strength > _ZERO
        outliers = np.sqrt(strength[used])[:, None] * near[used]
        return _Point(t, bulk[kept], p[kept] / p[kept].sum() if p[kept].sum() else np.ones(1), outliers)

    def _bulk_starts(self):
        level = _free_energy(self.readouts, self.t, self.weights, self.cumulants)
        near = self.readouts[level > level.max() - 1e-2]
        order = np.argsort(-_free_energy(near, self.t, self.weights, self.cumulants), kind="stable")
        return _distinct(near[order], 0.05)[:12]

    def _climb(self, a):
        """The local maximum of E uphill of a."""

        def negative(x):
            field = self.cumulants(x @ self.t.T)
            return x @ x / 2 - field.log_normaliser @ self.weights, x - (self.weights * field.mean) @ self.t

        return minimize(negative, a, jac=True, method="BFGS", options={"gtol": 1e-9}).x


# --- which outliers, where several sets solve the task ------------------------------------------


def _free_directions(point, weights, temperature, cumulants):
    """Dimension of the family of solutions through this one."""
    values = np.linalg.svd(_jacobian(point, weights, temperature, cumulants), compute_uv=False)
    return int(np.sum(values < 1e-7 * values[0]))


def _fewest_outliers(point, weights, targets, temperature, cumulants, num_starts=24):
    """Of all outliers with this output at the optimal t: fewest, least silent, farthest from silence."""
    if not len(point.outliers) or not _free_directions(point, weights, temperature, cumulants):
        return point
    rotated = _rotated_inwards(point.outliers, point.t)
    if rotated is not None:
        return _newton(point._replace(outliers=rotated), weights, targets, temperature, cumulants, 1e-9)[0]
    t, root = point.t, np.sqrt(weights)[:, None]
    num_given, m = point.outliers.shape
    output = np.maximum(point.outliers @ t.T, 0).T @ point.outliers

    def errors(x):
        a = x.reshape(-1, m)
        z = np.maximum(a @ t.T, 0)
        return np.concatenate([(root * (z.T @ a - output)).ravel(), ((weights * z) @ t - a).ravel()])

    def gradients(x):
        a = x.reshape(-1, m)
        z, active, eye = np.maximum(a @ t.T, 0), (a @ t.T > 0).astype(float), np.eye(m)
        of_output = np.einsum("ic,rq->criq", z, eye) + np.einsum("ic,ir,cq->criq", active, a, t)
        own = np.einsum("c,ic,cr,cq->irq", weights, active, t, t) - eye
        own = np.einsum("ij,irq->irjq", np.eye(len(a)), own)
        return np.vstack([(root[..., None, None] * of_output).reshape(-1, x.size), own.reshape(x.size, -1)])

    rng = np.random.default_rng(0)
    for num_outliers in range(np.linalg.matrix_rank(output, tol=1e-6), num_given):
        best, best_rank = None, (np.inf, 0.0)
        for _ in range(num_starts):
            mixing = np.abs(rng.standard_normal((num_outliers, num_given))) / np.sqrt(num_outliers)
            fit = least_squares(
                errors, (mixing @ point.outliers).ravel(), jac=gradients, method="lm", xtol=1e-15
            )
            a = fit.x.reshape(-1, m)
            z = np.maximum(a @ t.T, 0)
            answers = z > _SILENT
            rank = (float((~answers @ weights).sum().round(9)), -z[answers].min(initial=np.inf))
            if np.abs(fit.fun).max() < 1e-9 and rank < best_rank:
                best, best_rank = point._replace(outliers=a), rank
        if best is not None:
            return _newton(best, weights, targets, temperature, cumulants, 1e-9)[0]
    return point


def _rotated_inwards(outliers, t, num_rotations=1000):
    """Outliers that share classes, rotated until they answer to all of their classes; None if they cannot.

    Where Σ_i ā_i z̄_ic = Λ t_c with Λ = Σ_i ā_i ā_iᵀ over a group, every square root of Λ whose rows
    answer to all the group's classes is a set of outliers too, rank(Λ) of them.
    """
    outliers = outliers[np.sum(outliers**2, 1) > _ZERO]
    answers = _unit(outliers) @ t.T > _SILENT
    linked = (answers.astype(int) @ answers.T.astype(int)) > 0
    group_of = np.arange(len(outliers))
    for _ in outliers:  # the smallest index spreads through each group
        group_of = np.array([group_of[row].min() for row in linked])
    rng, rotated = np.random.default_rng(0), []
    for group in np.unique(group_of):
        members = outliers[group_of == group]
        fields = t[answers[group_of == group].any(0)]
        output = np.maximum(members @ fields.T, 0).T @ members
        if np.abs(fields @ members.T @ members - output).max() > 1e-7:
            return None
        values, vectors = np.linalg.eigh(members.T @ members)
        kept = values > 1e-9 * values[-1]
        square_root = (vectors[:, kept] * np.sqrt(values[kept])).T
        dim = len(square_root)
        best, margin = np.zeros((dim, dim)), -np.inf
        for width in (1.0, 0.3, 0.1, 0.03, 0.01):  # around the best so far, ever closer
            tries = best + width * rng.standard_normal((num_rotations, dim, dim))
            rotations = np.linalg.qr(tries)[0]
            z = rotations @ (square_root @ fields.T)
            rotations *= np.where(z.sum(2, keepdims=True) < 0, -1.0, 1.0)  # rows keep orthogonal
            smallest = (rotations @ (square_root @ fields.T)).min((1, 2))
            if smallest.max() > margin:
                best, margin = rotations[np.argmax(smallest)], smallest.max()
        if margin <= _SILENT:
            return None
        rotated.append(best @ square_root)
    return np.vstack(rotated)


def _as_solution(
    point, weights, targets, num_inputs, temperature, nonlinearity, error, violation, steps, converged
):
    cumulants = _cumulants_of(nonlinearity)
    point = point._replace(outliers=point.outliers[np.sum(point.outliers**2, 1) > _ZERO])
    order = np.argsort(-np.sum(point.outliers**2, 1).round(9), kind="stable")
    outliers, by_size = point.outliers[order], np.argsort(-point.probabilities, kind="stable")
    bulk, t = point.bulk[by_size], point.t
    fields = outliers @ t.T
    level = float(_free_energy(bulk, t, weights, cumulants)[0])
    return Solution(
        outlier_readouts=outliers,
        outlier_preactivations=np.maximum(fields, 0) * (fields > _SILENT),
        bulk_readout=bulk[0],
        bulk_activations=cumulants(bulk @ t.T).mean[0],
        bulk_readouts=bulk,
        bulk_probabilities=point.probabilities[by_size],
        dual_field=t,
        outlier_entropy_costs=level + np.log(2) * ((fields <= _SILENT) @ weights),
        num_free_directions=_free_directions(point, weights, temperature, cumulants),
        energy=float(np.sum(weights[:, None] * t * (targets - temperature * t / 2)) - level),
        residual=error,
        constraint_violation=violation,
        num_steps=steps,
        converged=converged,
        class_weights=weights,
        class_targets=targets,
        num_inputs=num_inputs,
        temperature=float(temperature),
        nonlinearity=nonlinearity,
    )


# --- finite N and P -----------------------------------------------------------------------------


def _finite_equations(point, solution, num_neurons):
    """Stationarity of S in `finite_size`: residuals in the order of `_equations`, and bulk averages.

    Returns:
        Residuals, ⟨φ⟩ of every bulk population (k, C), its covariance of a (k, m, m), H_c (C, m, m).
    """
    t, bulk, p, outliers = point
    w, cumulants = solution.class_weights, _cumulants_of(solution.nonlinearity)
    num_inputs, eye = solution.num_inputs, np.eye(t.shape[1])
    share, root = 1 - len(outliers) / num_neurons, np.sqrt(num_neurons)
    temperature = max(solution.temperature, _FLOOR_TEMPERATURE)

    stiffness = eye - np.einsum("c,kc,cr,cq->krq", w, cumulants(bulk @ t.T).variance, t, t)
    nodes, node_weights = _gaussian_nodes(t.shape[1])
    width = np.linalg.cholesky(np.linalg.inv(stiffness) / num_inputs)
    a = bulk[:, None] + np.einsum("krq,xq->kxr", width, nodes)
    own, out = cumulants(a @ t.T), cumulants(root * outliers @ t.T)
    log_density = num_inputs * (own.log_normaliser @ w - np.sum(a**2, -1) / 2) + np.sum(nodes**2, 1) / 2

    def average(log_density):  # weights of the nodes (k, x), log of the integral (k,)
        top = log_density.max(1, keepdims=True)
        density = node_weights * np.exp(log_density - top)
        total = density.sum(1, keepdims=True)
        return density / total, (top + np.log(total))[:, 0]

    def noise_of(density):
        return (
            temperature * eye
            + share * np.einsum("k,kx,kxc,kxr,kxq->crq", p, density, own.variance, a, a, optimize=True)
            + np.einsum("ic,ir,iq->crq", out.variance, outliers, outliers)
        )

    inverse = np.linalg.inv(noise_of(average(log_density)[0]))
    load = np.einsum("kxr,crq,kxq->kxc", a, inverse, a, optimize=True)
    density, log_mass = average(log_density - num_inputs / (2 * num_neurons) * (own.variance * load) @ w)
    phi = own.mean - own.third * load / (2 * num_neurons)
    noise_out = np.einsum("crq,kq->kcr", inverse, outliers)
    out_load = np.einsum("kcr,kr->kc", noise_out, outliers)
    z = out.mean / root - out.third * out_load / (2 * root)

    output = share * np.einsum("k,kx,kxc,kxr->cr", p, density, phi, a, optimize=True) + z.T @ outliers
    mean = np.einsum("kx,kxr->kr", density, a)
    free_energy = (log_mass - np.linalg.slogdet(stiffness)[1] / 2 - np.log(p)) / num_inputs
    parts = [
        w[:, None] * (output + solution.temperature * t - solution.class_targets),
        np.einsum("krq,kq->kr", stiffness, mean - bulk),
        free_energy[1:] - free_energy[:1],
        np.array([p.sum() - 1]),
        (w * z) @ t - outliers - np.einsum("c,kc,kcr->kr", w, out.variance, noise_out) / num_neurons,
    ]
    offset = a - mean[:, None]
    covariance = np.einsum("kx,kxr,kxq->krq", density, offset, offset)
    activations = np.einsum("kx,kxc->kc", density, phi)
    return np.concatenate([part.ravel() for part in parts]), activations, covariance, noise_of(density)


@cache
def _gaussian_nodes(dim):
    """Nodes and weights for averages over N(0, 1) in `dim` dimensions.

    Gauss–Hermite to three dimensions. Above, the rule of degree 5 with 2 dim² + 1 nodes, which is
    what averages over a posterior of width 1/√P need for an error of order 1/P².
    """
    if dim <= 3:
        x, weight = np.polynomial.hermite_e.hermegauss(7)
        nodes = np.stack(np.meshgrid(*[x] * dim, indexing="ij"), -1).reshape(-1, dim)
        return nodes, np.prod(
            np.meshgrid(*[weight] * dim, indexing="ij"), axis=0
        ).ravel() / weight.sum() ** dim
    axes, radius = np.eye(dim), np.sqrt(dim + 2)
    pairs = np.array(
        [s * axes[i] + r * axes[j] for i in range(dim) for j in range(i) for s in (1, -1) for r in (1, -1)]
    )
    nodes = radius * np.vstack([np.zeros((1, dim)), axes, -axes, pairs / np.sqrt(2)])
    of_axis, of_pair = (4 - dim) / (2 * (dim + 2) ** 2), 1 / (dim + 2) ** 2
    weights = np.concatenate([[2 / (dim + 2)], np.full(2 * dim, of_axis), np.full(len(pairs), of_pair)])
    return nodes, weights
