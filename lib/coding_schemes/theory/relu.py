r"""Sparse coding schemes: the dual saddle point of one-hidden-layer rectified networks on the toy task.

One neuron of readout a, σ_a² = 1/P, on orthogonal inputs in classes of weight w_c = n_c/P has

    P(a) ∝ exp(P·E(a)),  E(a) = −|a|²/2 + Σ_c w_c log g(a·t_c),  g(s) = ⟨exp(s φ(z))⟩, z ~ N(0, 1),

with the class fields t, (C, m), that minimize the convex dual

    D(t)/P = max_a E(a) − Σ_c w_c t_c·y_c + (T/2) Σ_c w_c |t_c|².

For φ(z) → z at large z, log g(s) → s²/2 at large s, so that E stays bounded only if

    h(â) = Σ_c w_c [â·t_c]₊² ≤ 1  for every unit â.

Its active constraints are the outliers, a = √N ā and z = √N z̄; a finite maximum of E is the bulk:

    ā = Σ_c w_c t_c z̄_c,   z̄_c = [ā·t_c]₊,   a0 = Σ_c w_c t_c ⟨φ⟩_c,
    y_c = a0 ⟨φ⟩_c + Σ_i ā_i z̄_ic + T t_c.

Another σ_a² comes by the readouts' scale, a = λ a' with λ² = P σ_a²: y = λ y', t = t'/λ and T = λ² T'.

Nothing is assumed of the outliers: constraints enter as the search over all directions finds them
violated, and a solution counts as converged only once no direction violates one and no readout has
a larger E than the bulk. As the dual is convex, such a solution is the global optimum.

Kinds of neurons: the outliers, of which there is one each, and the bulk's populations. In the units of each,
f = Σ_γ P_γ φ_γ a_γ with P = 1 for an outlier.

`solve` takes the limit N, P → ∞, where an outlier is one neuron; `theory.solve` goes by N and P, see
`theory.condensation`. `finite_size` adds the corrections of relative order 1/N and 1/P.
max(0, z)² scales otherwise: see `coding_schemes.theory.relu_squared`.

Source: paper A, "Sparse coding scheme" (its supplement C derives the same saddle for T → 0).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.optimize import minimize, nnls

from coding_schemes import validation
from coding_schemes.networks import Nonlinearity, canonical
from coding_schemes.tasks import Task
from coding_schemes.theory._drawn import Drawn
from coding_schemes.theory._kinds import OrthogonalKinds
from coding_schemes.theory._solvers import check_orthogonal, jacobian, pack, solve_equations, unpack
from coding_schemes.theory._tilted import RECTIFIED, central_moments, normalized

_SPHERE_STARTS = 64  # random directions each search starts from, besides those the fields suggest
_MAX_ENUMERATED_CLASSES = 8  # up to here the search also starts from every active set's eigenvectors
_FLOOR_TEMPERATURE = 1e-9  # keeps B_c invertible at T = 0, where its null space does not matter
_NUM_ROUNDS = 200  # of `_held`, at most; ten to twenty are enough where there is a solution
_SILENT = 1e-6  # z̄ below this counts as silent
_LEGENDRE = np.polynomial.legendre.leggauss(96)  # on either side of the kink
_ZERO = 1e-6  # outliers of amplitude² and bulk populations of probability below this are dropped


class _Kinds(OrthogonalKinds):
    """What both solutions tell; the outliers come first among the kinds, the largest |ā| first."""

    approximation = "exact at N, P → ∞, outliers of one neuron each"

    @property
    def bulk_readouts(self) -> np.ndarray:
        """Readouts of the bulk's populations, shape (k, m)."""
        return self.readouts[self.num_outliers :]

    @property
    def bulk_probabilities(self) -> np.ndarray:
        """Their fractions of the bulk, shape (k,)."""
        fractions = self.probabilities[self.num_outliers :]
        return fractions / fractions.sum()

    @property
    def bulk_readout(self) -> np.ndarray:
        """Readout a0 of the bulk (of its largest population), shape (m,)."""
        return self.bulk_readouts[np.argmax(self.bulk_probabilities)]

    @property
    def bulk_activations(self) -> np.ndarray:
        """⟨φ⟩ per class of the same neurons, shape (C,)."""
        return self.activations[self.num_outliers + np.argmax(self.bulk_probabilities)]

    @property
    def class_weights(self) -> np.ndarray:
        """w_c = n_c/P, shape (C,)."""
        return self.task.class_counts / self.task.num_inputs


@dataclass(frozen=True, eq=False, repr=False)
class Solution(_Kinds):
    """Saddle point of the single-neuron posterior at N, P → ∞.

    Attributes:
        task: what was learned.
        nonlinearity: "relu" or "softplus".
        probabilities: 1 for an outlier, then the fractions of the bulk's populations, shape (n + k,).
        readouts: ā of the outliers in units of √N, then the bulk's, shape (n + k, m).
        activations: z̄ per class of the outliers in units of √N, 0 where they are silent, then ⟨φ⟩ of the
            bulk's populations (one, but for special tasks), shape (n + k, C).
        codes: the classes an outlier answers to; none in the bulk, shape (n + k, C).
        num_outliers: n.
        dual_field: t, (C, m). T t is the training residual of every class.
        residual: largest absolute error of the saddle-point equations.
        num_steps: iterations of the searches for active constraints and evaluations of the equations.
        converged: whether residual and constraint violation are below the tolerance.
        outlier_entropy_costs: E(a0) + log 2 Σ_{silent c} w_c, (n,): what turning one bulk neuron into
            a second outlier parallel to this one costs, in nats per input. It is of order P where
            energies are of order N P: parallel outliers split at no leading-order cost, and this
            is what merges them in the end.
        num_free_directions: dimension of the family of outliers that solve the task equally well.
            0: the outliers are unique. Above: they can be rotated into each other, and the ones
            returned are the fewest, with the fewest silent classes.
        energy: U/(N P) at the saddle: Σ_c w_c t_c·y_c − E(a0) − (T/2) Σ_c w_c |t_c|².
        temperature: T.
        readout_scale: λ = √(P σ_a²).
    """

    outlier_entropy_costs: np.ndarray
    num_free_directions: int
    energy: float
    temperature: float
    readout_scale: float = 1.0

    def draw(self, rng: Generator, labels: np.ndarray, width: int) -> Drawn:
        """As `FiniteSize.draw`, with the corrections of N = width."""
        return self._corrected(width).draw(rng, labels, width)

    @cached_property
    def _corrected(self) -> Callable[[int], "FiniteSize"]:
        """`finite_size` at N, solved once however many networks are drawn."""
        return cache(partial(finite_size, self))

    @property
    def outlier_preactivations(self) -> np.ndarray:
        """z̄ per class, shape (n, C), in units of √N."""
        return self.activations[: self.num_outliers]

    @property
    def class_targets(self) -> np.ndarray:
        """y, shape (C, m)."""
        return self.task.class_targets


@dataclass(frozen=True, eq=False, repr=False)
class FiniteSize(_Kinds):
    """Saddle point with its corrections of relative order 1/N and 1/P.

    Attributes and their shapes are those of `Solution`, but: the bulk's populations hold the fractions
    (1 − n/N) p_k of all neurons; readouts and activations of outliers are means, in units of √N, those
    of the bulk are taken at its maximum of E; the dual field is the mean t.

    Attributes:
        outlier_preactivations: mean preactivation per class, (n, C), in units of √N. Unlike the leading
            order's it is negative, O(1/√N), on the classes where the outlier is silent.
        outlier_preactivation_variances: variance over the inputs of a class, (n, C), of z itself.
        bulk_readout_covariance: covariance of a over the neurons of the largest population, (m, m), of
            order σ_a².
        noise_precision: Λ_c, shape (C, m, m): inverse covariance, times 1/N, of the outputs' noise on an
            input of class c before the likelihood holds it, (B_c + Σ_i V_i ā_i ā_iᵀ)⁻¹ of `finite_size`. A
            neuron whose φ is off its mean is pulled back by exp(−aᵀ Λ_c a (φ − ⟨φ⟩)²/2N): the others have to
            make up for it.
        num_neurons: N.
        temperature: T.
        readout_scale: λ = √(P σ_a²).
    """

    outlier_preactivations: np.ndarray
    outlier_preactivation_variances: np.ndarray
    bulk_readout_covariance: np.ndarray
    noise_precision: np.ndarray
    num_neurons: int
    temperature: float
    readout_scale: float = 1.0
    approximation = "to relative order 1/N and 1/P"

    def draw(self, rng: Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P) and readouts (N, m) of N = width neurons: outliers, then a random bulk."""
        if self.num_neurons != width:
            raise ValueError(f"solution: is for N = {self.num_neurons}, the posterior's network has {width}")
        count = self.num_outliers
        grid = np.linspace(-8.0, 8.0, 1601)
        z = np.empty((width, len(labels)))
        for c in range(len(self.class_weights)):
            field = np.array(float(self.bulk_readout @ self.dual_field[c]))
            cumulative = np.cumsum(RECTIFIED[self.nonlinearity].density(grid, field))
            members = np.flatnonzero(labels == c)
            z[:, members] = np.interp(rng.random((width, len(members))), cumulative / cumulative[-1], grid)
        a = rng.multivariate_normal(self.bulk_readout, self.bulk_readout_covariance, width)
        a[:count] = np.sqrt(width) * self.outlier_readouts
        z[:count] = np.sqrt(width) * self.outlier_preactivations[:, labels]
        noise = rng.standard_normal((count, len(labels)))
        z[:count] += np.sqrt(self.outlier_preactivation_variances)[:, labels] * noise
        return z, a


def solve(
    task: Task,
    temperature: float = 0.0,
    *,
    nonlinearity: str | Nonlinearity = "relu",
    readout_variance: float | None = None,
    tolerance: float = 1e-9,
    max_rounds: int = 60,
) -> Solution:
    """Outliers and bulk of a rectified network on a toy task, at any temperature T ≥ 0, for N, P → ∞.

    Solves the dual of the module's header: active constraints by exchange (the dual on a finite
    set of directions, enlarged by those found violated), then Newton on all equations at once. A finite
    solution exists for every target, as outliers that answer to one class each can always produce it.

    Args:
        task: a task with orthogonal inputs; any number of classes, ratios and targets.
        temperature: T in paper A's scaling (the posterior's energy is N/(2T) times the squared error).
        nonlinearity: "relu" or "softplus", by name or as a function. Softplus outliers obey the same
            constraint, since log(1 + eᶻ) − z vanishes at z = O(√N); only its bulk averages differ.
        readout_variance: σ_a²; 1/P unless given.
        tolerance: largest error allowed in the equations, and in the constraints. Near a point
            where an outlier appears the problem is soft, and 1e-9 there still means 1e-6 in ā.
        max_rounds: exchanges before giving up.

    Raises:
        ValueError: T < 0 or not finite, σ_a² ≤ 0, inputs not orthogonal, or a nonlinearity without this
            theory.

    Source: paper A, supplement C (T → 0); the finite-T dual is worked out in the header.
    """
    validation.number("temperature", temperature, least=0)
    validation.positive(tolerance=tolerance, **validation.given(readout_variance=readout_variance))
    validation.counts(max_rounds=max_rounds)
    nonlinearity = _checked(nonlinearity)
    weights, targets = check_orthogonal(task)
    scale = 1.0 if readout_variance is None else float(np.sqrt(readout_variance * task.num_inputs))
    problem = _Problem(weights, targets / scale, float(temperature) / scale**2, RECTIFIED[nonlinearity])
    best, error, violation, num_steps = _optimum(problem, tolerance, max_rounds)
    converged = max(error, violation) <= tolerance
    found = _as_solution(problem, best, task, nonlinearity, error, num_steps, converged)
    found = _scaled(found, scale, task, float(temperature))
    return found.reported("theory.relu.solve", f"constraints violated by {violation:.1e}")


def finite_size(
    solution: Solution, num_neurons: int, *, tolerance: float = 1e-8, max_steps: int = 100
) -> FiniteSize:
    r"""Saddle of a network of N neurons on P inputs: corrections of relative order 1/N and 1/P.

    With n outliers kept explicitly, at a_i = √N ā_i, and the fields t and the other N − n neurons
    integrated, the log posterior is N P times the stationary value, over t, a_i, the outliers' mean
    activities μ and the bulk's density ρ(a), of

        S = Σ_c w_c ((T/2) |t_c|² − t_c·y_c) − (1/2N) Σ_i |a_i|² + (1 − n/N) ∫ da ρ(a) [E(a) − (1/P) log ρ(a)]
            + (1/N) Σ_c w_c (log Z_c − ½ log det B_c),
        B_c = T + (1 − n/N) ∫ da ρ(a) V_c(a) a aᵀ,
        Z_c = ∫ Π_i Dz_i exp(Σ_i φ(z_i) a_i·t_c − ½ xᵀ B_c⁻¹ x),   x = Σ_i (φ(z_i) − μ_ic) ā_i,

    V_c(a) the variance of φ at the field a·t_c. ρ ∝ exp(P E(a)) to leading order: bulk readouts spread
    by O(1/√P) about a0. B_c and Z_c come from integrating t input by input: each input has its own noise
    in the preactivations of outliers and bulk, and the likelihood holds m combinations of it, the outputs.
    Of the many bulk neurons this noise is Gaussian. A silent outlier's is not, being one rectified number
    that the outputs hold more firmly than a linear field does, as B_c is small: it is integrated as it
    is, by expectation propagation. Within a class all outliers vary less than under the prior.

    Where the outliers form a family (`num_free_directions` > 0), those close to silence on some class
    feel a further force at finite N, along the family: the iteration need not converge then, and says so.

    Args:
        solution: what `solve` returned for this task and temperature.
        num_neurons: N, above the number of outliers.
        tolerance: largest error allowed in the stationarity equations.
        max_steps: iterations before giving up; the error falls by about 1/N in each.

    Returns:
        A FiniteSize. Averages of the bulk include the spread of a0 over neurons.

    Raises:
        FloatingPointError: not even the solution at N → ∞ has an answer here, as at very low T.

    Source: not in paper A, whose theory of ReLU networks is for N, P → ∞ and T → 0.
    """
    validation.instance("solution", solution, Solution)
    task, temperature, scale = solution.task, solution.temperature, solution.readout_scale
    solution, num_outliers = unscaled(solution), solution.num_outliers
    validation.count("num_neurons", num_neurons, num_outliers + 1)
    validation.positive(tolerance=tolerance)
    validation.counts(max_steps=max_steps)
    bulk, outliers = solution.bulk_readouts, solution.outlier_readouts
    point = _Point(solution.dual_field, bulk, solution.bulk_probabilities, outliers)
    site = RECTIFIED[solution.nonlinearity]
    problem = _Problem(solution.class_weights, solution.class_targets, solution.temperature, site)
    slope = problem.slope(point)  # of the leading order: a chord method
    best, error, num_steps = point, np.inf, 0
    while num_steps < max_steps and error > tolerance:
        try:
            residual = _finite_equations(point, solution, num_neurons).residual
        except np.linalg.LinAlgError as failed:  # the bulk's readout is no maximum, or noise does not settle
            if not num_steps:
                where = f"T = {solution.temperature:g} and N = {num_neurons}"
                raise FloatingPointError(f"theory.relu.finite_size: at {where} {failed}") from failed
            break
        if np.abs(residual).max() < error:
            best, error = point, float(np.abs(residual).max())
        step = np.linalg.lstsq(slope, residual, rcond=1e-10)[0]
        point = unpack(pack(point) - step, point)
        point = point._replace(probabilities=np.maximum(point.probabilities, 1e-12))
        num_steps += 1
    at_best = _finite_equations(best, solution, num_neurons)
    held = at_best.held
    t, bulk, p, outliers = best
    found = FiniteSize(
        task=solution.task,
        nonlinearity=solution.nonlinearity,
        probabilities=np.append(np.ones(num_outliers), (1 - num_outliers / num_neurons) * p),
        readouts=np.vstack([outliers, bulk]),
        activations=np.vstack([held.mean / np.sqrt(num_neurons), at_best.activations]),
        codes=solution.codes,
        num_outliers=num_outliers,
        dual_field=t,
        residual=error,
        num_steps=num_steps,
        converged=error <= tolerance,
        outlier_preactivations=held.preactivation_mean / np.sqrt(num_neurons),
        outlier_preactivation_variances=held.preactivation_variance,
        bulk_readout_covariance=at_best.covariance[np.argmax(p)],
        noise_precision=at_best.precision,
        num_neurons=num_neurons,
        temperature=solution.temperature,
    )
    found = _scaled(found, scale, task, temperature)
    return found.reported("theory.relu.finite_size")


def unscaled(solution: Solution) -> Solution:
    """The same neurons with readouts of variance σ_a² = 1/P, for targets y/λ at the temperature T/λ²."""
    scale, task = solution.readout_scale, solution.task
    task = task if scale == 1 else replace(task, targets=task.targets / scale)
    return _scaled(solution, 1 / scale, task, solution.temperature / scale**2)


def _scaled(found: Any, scale: float, task: Task, temperature: float) -> Any:
    """A solution in readouts `scale` times as large, which learned the task at the temperature."""
    scaled = {"readouts": scale * found.readouts, "dual_field": found.dual_field / scale}
    if isinstance(found, FiniteSize):
        scaled["bulk_readout_covariance"] = scale**2 * found.bulk_readout_covariance
        scaled["noise_precision"] = found.noise_precision / scale**2
    total = scale * found.readout_scale
    return replace(found, task=task, temperature=temperature, readout_scale=total, **scaled)


def bulk_density(solution: Solution | FiniteSize, preactivations: np.ndarray, label: int) -> np.ndarray:
    """Density of a bulk neuron's preactivations z on an input of class `label`.

        p(z | a) ∝ N(z; 0, 1) exp(φ(z) a·t_c − g (φ(z) − ⟨φ⟩)²/2),   g = aᵀ Λ_c a/N

    It is normalized, has the shape of z, and is that of the largest of the bulk's populations: at its readout
    a0 and g = 0 for a `Solution`, averaged over the spread of the readouts for a `FiniteSize`. There g is the
    others' answer: they would have to make up for what one neuron does.

    Raises:
        ValueError: no solution, no such class, preactivations that are not finite real numbers.

    Source: paper A, "Sparse coding scheme", the non-Gaussian bulk posterior of Fig. 4c; g is the book's own.
    """
    validation.instance("solution", solution, Solution, FiniteSize)
    validation.count("label", label, 0, len(solution.class_weights) - 1)
    z = validation.array("preactivations", preactivations, "…")
    if isinstance(solution, Solution):
        field = float(solution.bulk_readout @ solution.dual_field[label])
        return RECTIFIED[solution.nonlinearity].density(z, np.array(field))
    points, weights = _gaussian_nodes(len(solution.bulk_readout))
    a = solution.bulk_readout + points @ np.linalg.cholesky(solution.bulk_readout_covariance).T
    field = (a @ solution.dual_field[label])[:, None]
    held = np.einsum("kr,rq,kq->k", a, solution.noise_precision[label], a)[:, None] / solution.num_neurons
    fine = np.linspace(-9, 9, 1201)
    phi = solution.phi(fine)
    plain = np.exp(phi * field - fine**2 / 2)
    mean = (plain @ phi / plain.sum(1))[:, None]

    def tilted(z, phi):
        return np.exp(phi * field - held * (phi - mean) ** 2 / 2 - z**2 / 2)

    density = weights / np.trapezoid(tilted(fine, phi), fine) @ tilted(z.ravel(), solution.phi(z.ravel()))
    return density.reshape(z.shape)


def _checked(nonlinearity: str | Nonlinearity) -> str:
    known = canonical(nonlinearity)
    if known == "relu_squared":
        raise ValueError(
            "nonlinearity: max(0, z)² has no finite saddle at a, z = O(√N), as ⟨exp(s φ)⟩ diverges for "
            "s ≥ 1/2; theory.relu_squared solves it at its own scale, N^(1/3)"
        )
    if not isinstance(known, str) or known not in RECTIFIED:
        raise ValueError(
            f"nonlinearity: got {nonlinearity!r}, this theory is for {' and '.join(map(repr, RECTIFIED))}"
        )
    return known


# --- the saddle-point equations -----------------------------------------------------------------


class _Point(NamedTuple):
    """Unknowns of the saddle: fields (C, m), bulk readouts (k, m) and probabilities (k,), outliers (n, m).

    Any number of points may be held side by side along leading axes.
    """

    t: np.ndarray
    bulk: np.ndarray
    probabilities: np.ndarray
    outliers: np.ndarray


class _Problem(NamedTuple):
    """One task's dual: class weights w (C,), targets y (C, m), T, and averages over the nonlinearity.

    T is one number, or one for each class (C, 1), with averages of a class's own, see `_alike_outliers`.
    """

    weights: np.ndarray
    targets: np.ndarray
    temperature: Any
    site: Any

    def free_energy(self, a, t):
        """E(a), shape (…,), of readouts (…, m)."""
        return -np.sum(a**2, -1) / 2 + self.site.cumulants(a @ t.T, 0)[0] @ self.weights

    def load(self, directions, t):
        """h(â), shape (…,), of unit directions (…, m)."""
        return np.maximum(directions @ t.T, 0) ** 2 @ self.weights

    def equations(self, point: _Point) -> np.ndarray:
        """Residuals: fields (times w_c), bulk readouts, equal E of bulk populations, Σ p = 1, outliers."""
        (t, bulk, p, outliers), w = point, self.weights
        transposed = np.swapaxes(t, -1, -2)
        (log_g, mean), z = self.site.cumulants(bulk @ transposed, 1), np.maximum(outliers @ transposed, 0)
        output = np.swapaxes(p[..., None] * mean, -1, -2) @ bulk + np.swapaxes(z, -1, -2) @ outliers
        free_energy = -np.sum(bulk**2, -1) / 2 + log_g @ w
        parts = [
            w[:, None] * (output + self.temperature * t - self.targets),
            (w * mean) @ t - bulk,
            free_energy[..., 1:] - free_energy[..., :1],
            p.sum(-1, keepdims=True) - 1,
            (w * z) @ t - outliers,
        ]
        return np.concatenate([part.reshape(*p.shape[:-1], -1) for part in parts], axis=-1)

    def slope(self, point: _Point) -> np.ndarray:
        """Jacobian of the equations."""
        return jacobian(lambda x: self.equations(unpack(x, point)), pack(point))

    def residual(self, point: _Point) -> float:
        """Largest error of the equations, the fields' in units of the targets."""
        errors = self.equations(point)
        errors[: self.targets.size] /= np.repeat(self.weights, self.targets.shape[1])
        return float(np.abs(errors).max())

    def judged(self, point: _Point) -> tuple[_Point, float, float]:
        """The point, its residual, and its violation of the constraints."""
        return point, self.residual(point), self.violation(point)

    def violation(self, point: _Point) -> float:
        """By how much a direction violates h ≤ 1, or a readout has a larger E than the bulk."""
        if np.any(point.probabilities < 0):
            return np.inf
        sphere = _sphere(self.targets.shape[1])
        load = _heaviest_directions(self, point.t, np.vstack([sphere, point.outliers]))[1][0]
        if not load <= 1 + 1e-6:
            return float(np.nan_to_num(load - 1, nan=np.inf))  # E is unbounded
        highest = _highest_readouts(self, point.t, point.bulk)[1][0]
        return float(max(load - 1, highest - self.free_energy(point.bulk, point.t).min(), 0.0))


def _polish(problem: _Problem, point: _Point) -> tuple[_Point, int]:
    """All equations at once, also where the outliers form a family."""
    return solve_equations(lambda x: problem.equations(unpack(x, point)), point)


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


@cache
def _sphere(num_outputs):
    starts = np.random.default_rng(0).standard_normal((_SPHERE_STARTS, num_outputs))
    return _distinct(_unit(np.vstack([np.eye(num_outputs), -np.eye(num_outputs), starts])), 1e-3)


def _heaviest_directions(problem, t, starts, num_iterations=200):
    """Local maxima of h: â ← Σ_c w_c t_c [â·t_c]₊, normalized, never lowers the convex h."""
    weights, num_classes = problem.weights, len(t)
    if num_classes <= _MAX_ENUMERATED_CLASSES:
        sets = np.array(list(product([0.0, 1.0], repeat=num_classes)))[1:]
        moments = np.einsum("sc,c,cr,cq->srq", sets, weights, t, t)
        vectors = np.linalg.eigh(moments)[1].transpose(0, 2, 1).reshape(-1, t.shape[1])
        starts = np.vstack([starts, vectors, -vectors])
    a = _unit(np.vstack([starts, t]))
    for _ in range(num_iterations):
        pull = (weights * np.maximum(a @ t.T, 0)) @ t
        a = np.where(np.linalg.norm(pull, axis=1, keepdims=True) > 1e-12, _unit(pull), a)
    load = problem.load(a, t)
    return a[np.argsort(-load, kind="stable")], np.sort(load)[::-1]


def _highest_readouts(problem, t, known, num_iterations=60):
    """Readouts of large E: a ← Σ_c w_c t_c ⟨φ⟩_c never lowers E; from those known, and from everywhere."""
    around = [radius * _sphere(t.shape[1]) for radius in (0.5, 2.0, 5.0)]
    a = np.vstack([*around, known, 2 * t, np.zeros((1, t.shape[1]))])
    for _ in range(num_iterations):
        a = (problem.weights * problem.site.cumulants(a @ t.T, 1)[1]) @ t
    free_energy = problem.free_energy(a, t)
    order = np.argsort(-free_energy, kind="stable")
    return a[order], free_energy[order]


# --- active constraints by exchange -------------------------------------------------------------


def _optimum(problem: _Problem, tolerance: float, max_rounds: int) -> tuple[_Point, float, float, int]:
    """The saddle, its residual, its violation of the constraints, and the number of steps."""
    search, tried, num_steps, round_tolerance = _Search(problem), [], 0, 1e-2
    for _ in range(max_rounds):
        num_steps += search.exchange()
        if search.violation > round_tolerance:
            continue
        candidate, evaluations = _polish(problem, search.candidate())
        num_steps += evaluations
        tried.append(problem.judged(candidate))
        if max(tried[-1][1:]) <= tolerance:
            break
        round_tolerance = max(1e-6, min(round_tolerance, search.violation) / 4)
    tried = tried or [problem.judged(search.candidate())]
    best, error, violation = min(tried, key=lambda one: max(one[1:]))
    if max(error, violation) <= tolerance:
        best = _fewest_outliers(problem, best)
        error = problem.residual(best)
    return best, error, violation, num_steps


class _Search:
    """The dual on a finite set of directions and bulk readouts, enlarged round by round.

    Each round is one call of SciPy's SLSQP. t = 0 is strictly feasible, and h is homogeneous, so that
    shrinking t restores feasibility after every exchange.
    """

    def __init__(self, problem: _Problem):
        self.problem, num_outputs = problem, problem.targets.shape[1]
        self.directions = _sphere(num_outputs)
        self.readouts = np.zeros((1, num_outputs))
        self.maxima = np.zeros((0, num_outputs))
        self.t, self.violation = np.zeros_like(problem.targets), np.inf

    def exchange(self) -> int:
        """Minimize the dual under the present constraints, then add those its optimum violates."""
        problem = self.problem
        t, num_steps = self._optimum()
        found, load = _heaviest_directions(problem, t, self.directions)
        self.t = t / np.sqrt(max(load[0], 1.0))  # feasible, so that E is bounded
        readouts, free_energy = _highest_readouts(problem, self.t, self.readouts)
        level = problem.free_energy(self.readouts, self.t).max()
        # a readout whose E is above the bulk's is added below, and judged once the point is polished
        self.violation = float(max(load[0] - 1, 0.0))
        self.maxima = _distinct(found[load > 0.9], 1e-3)
        new = _distinct(found[load > 1], 1e-5)
        self.directions = np.vstack([self.directions, new[: 4 * len(t)]])
        new = _distinct(readouts[free_energy > level], 1e-5)
        self.readouts = np.vstack([self.readouts, new[: 2 * len(t)]])
        return num_steps

    def _optimum(self) -> tuple[np.ndarray, int]:
        """The dual's minimum over t and the level v: h ≤ 1 for the directions, w|t|² ≤ 1, E ≤ v."""
        problem, w, shape = self.problem, self.problem.weights[:, None], self.t.shape

        def dual(x):
            t = x[:-1].reshape(shape)
            force = problem.temperature * t - problem.targets
            return x[-1] + np.sum(w * t * (force - problem.targets)) / 2, np.append(w * force, 1.0)

        def slack(x):
            t = x[:-1].reshape(shape)
            bound = x[-1] - problem.free_energy(self.readouts, t)
            return np.concatenate([1 - problem.load(self.directions, t), 1 - (w * t**2).sum(1), bound])

        def slack_slope(x):
            t = x[:-1].reshape(shape)
            z, mean = np.maximum(self.directions @ t.T, 0), problem.site.cumulants(self.readouts @ t.T, 1)[1]
            rows = [
                -2 * np.einsum("c,kc,kr->kcr", problem.weights, z, self.directions),
                -2 * np.einsum("c,cd,cr->cdr", problem.weights, np.eye(len(t)), t),
                -np.einsum("c,kc,kr->kcr", problem.weights, mean, self.readouts),
            ]
            of_level = np.repeat([0.0, 1.0], [len(z) + len(t), len(mean)])
            return np.column_stack([np.concatenate(rows).reshape(len(of_level), -1), of_level])

        heaviest = max(problem.load(self.directions, self.t).max(), (w * self.t**2).sum(1).max())
        t = self.t * min(1.0, 0.99 / np.sqrt(max(heaviest, 1e-300)))
        start = np.append(t, problem.free_energy(self.readouts, t).max())
        constraints = {"type": "ineq", "fun": slack, "jac": slack_slope}
        options = {"ftol": 1e-14, "maxiter": 200}
        fit = minimize(dual, start, jac=True, method="SLSQP", constraints=constraints, options=options)
        return fit.x[:-1].reshape(shape), fit.nit

    def candidate(self) -> _Point:
        """Multipliers by non-negative least squares on the near-active constraints: outliers and bulk."""
        problem, t, near, root = self.problem, self.t, self.maxima, np.sqrt(self.problem.weights)
        level = problem.free_energy(self.readouts, t)
        order = np.argsort(-level, kind="stable")
        starts = _distinct(self.readouts[order[level[order] > level.max() - 1e-2]], 0.05)[:12]
        bulk = np.array([self._climb(a) for a in starts])
        bulk = _distinct(bulk[np.argsort(-problem.free_energy(bulk, t), kind="stable")], 1e-2)
        responses = (problem.site.cumulants(bulk @ t.T, 1)[1], bulk), (np.maximum(near @ t.T, 0), near)
        columns = [np.einsum("c,kc,kr->kcr", root, z, a).reshape(len(a), t.size) for z, a in responses]
        stress = 100.0  # holds Σ p = 1 against the fit
        of_sum = np.repeat([stress, 0.0], [len(bulk), len(near)])
        wanted = root[:, None] * (problem.targets - problem.temperature * t)
        matrix = np.column_stack([np.vstack(columns), of_sum]).T
        multipliers = nnls(matrix, np.append(wanted, stress))[0]
        p, strength = multipliers[: len(bulk)], multipliers[len(bulk) :]
        kept = p > _ZERO if np.any(p > _ZERO) else np.arange(len(p)) == 0
        used = strength > _ZERO
        outliers = np.sqrt(strength[used])[:, None] * near[used]
        return _Point(t, bulk[kept], p[kept] / p[kept].sum() if p[kept].sum() else np.ones(1), outliers)

    def _climb(self, a):
        """The local maximum of E uphill of a."""

        def negative(x):
            (log_g, mean), w = self.problem.site.cumulants(x @ self.t.T, 1), self.problem.weights
            return x @ x / 2 - log_g @ w, x - (w * mean) @ self.t

        return minimize(negative, a, jac=True, method="BFGS", options={"gtol": 1e-9}).x


# --- which outliers, where several sets solve the task ------------------------------------------


def _free_directions(problem: _Problem, point: _Point) -> int:
    """Dimension of the family of solutions through this one."""
    values = np.linalg.svd(problem.slope(point), compute_uv=False)
    return int(np.sum(values < 1e-7 * values[0]))


def _fewest_outliers(problem: _Problem, point: _Point, num_starts: int = 24) -> _Point:
    """Of all outliers with this output at the optimal t: fewest, least silent, farthest from silence."""
    if not len(point.outliers) or not _free_directions(problem, point):
        return point
    rotated = _rotated_inwards(point.outliers, point.t)
    if rotated is not None:
        return _polish(problem, point._replace(outliers=rotated))[0]
    t, weights = point.t, problem.weights
    num_given, m = point.outliers.shape
    output = np.maximum(point.outliers @ t.T, 0).T @ point.outliers

    def errors(x):
        a = x.reshape(*x.shape[:-1], -1, m)
        z = np.maximum(a @ t.T, 0)
        parts = np.sqrt(weights)[:, None] * (np.swapaxes(z, -1, -2) @ a - output), (weights * z) @ t - a
        return np.concatenate([part.reshape(*x.shape[:-1], -1) for part in parts], axis=-1)

    rng = np.random.default_rng(0)
    for num_outliers in range(np.linalg.matrix_rank(output, tol=1e-6), num_given):
        best, best_rank = None, (np.inf, 0.0)
        for _ in range(num_starts):
            mixing = np.abs(rng.standard_normal((num_outliers, num_given))) / np.sqrt(num_outliers)
            start = (mixing @ point.outliers).ravel()
            a = solve_equations(errors, (start,))[0][0].reshape(-1, m)
            z = np.maximum(a @ t.T, 0)
            answers = z > _SILENT
            rank = (float((~answers @ weights).sum().round(9)), -z[answers].min(initial=np.inf))
            if np.abs(errors(a.ravel())).max() < 1e-9 and rank < best_rank:
                best, best_rank = point._replace(outliers=a), rank
        if best is not None:
            return _polish(problem, best)[0]
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


def _as_solution(problem, point, task, nonlinearity, error, steps, converged) -> Solution:
    point = point._replace(outliers=point.outliers[np.sum(point.outliers**2, 1) > _ZERO])
    bulk, t, w = point.bulk[np.argsort(-point.probabilities, kind="stable")], point.t, problem.weights
    squares = np.sum(point.outliers**2, 1)
    larger = np.sum(squares > squares[:, None] + 1e-6, 1)  # those of classes alike are as large: by class
    outliers = point.outliers[np.lexsort((np.argmax(point.outliers @ t.T, 1), larger))]
    answers = outliers @ t.T > _SILENT
    level = float(problem.free_energy(bulk, t)[0])
    return Solution(
        task=task,
        nonlinearity=nonlinearity,
        probabilities=np.append(np.ones(len(outliers)), np.sort(point.probabilities)[::-1]),
        readouts=np.vstack([outliers, bulk]),
        activations=np.vstack(
            [np.where(answers, outliers @ t.T, 0.0), problem.site.cumulants(bulk @ t.T, 1)[1]]
        ),
        codes=np.vstack([answers, np.zeros((len(bulk), len(w)), dtype=bool)]),
        num_outliers=len(outliers),
        dual_field=t,
        residual=error,
        num_steps=steps,
        converged=converged,
        outlier_entropy_costs=level + np.log(2) * (~answers @ w),
        num_free_directions=_free_directions(problem, point),
        energy=float(np.sum(w[:, None] * t * (problem.targets - problem.temperature * t / 2)) - level),
        temperature=problem.temperature,
    )


# --- finite N and P -----------------------------------------------------------------------------


class _Finite(NamedTuple):
    """Residuals in the order of `_Problem.equations`, and averages at a point of `finite_size`."""

    residual: np.ndarray
    activations: np.ndarray  # ⟨φ⟩ of every bulk population (k, C)
    covariance: np.ndarray  # of its readouts (k, m, m)
    held: "_Held"  # the outliers' moments
    precision: np.ndarray  # of the outputs' noise (C, m, m)


def _finite_equations(point: _Point, solution: Solution, num_neurons: int) -> _Finite:
    """Stationarity of S in `finite_size`."""
    t, bulk, p, outliers = point
    w, site = solution.class_weights, RECTIFIED[solution.nonlinearity]
    num_inputs, eye = solution.task.num_inputs, np.eye(t.shape[1])
    share, root = 1 - len(outliers) / num_neurons, np.sqrt(num_neurons)
    temperature = max(solution.temperature, _FLOOR_TEMPERATURE)

    stiffness = eye - np.einsum("c,kc,cr,cq->krq", w, site.cumulants(bulk @ t.T, 2)[2], t, t)
    nodes, node_weights = _gaussian_nodes(t.shape[1])
    width = np.linalg.cholesky(np.linalg.inv(stiffness) / num_inputs)
    a = bulk[:, None] + np.einsum("krq,xq->kxr", width, nodes)
    log_g, phi_mean, phi_variance, phi_third = site.cumulants(a @ t.T, 3)
    log_density = num_inputs * (log_g @ w - np.sum(a**2, -1) / 2) + np.sum(nodes**2, 1) / 2

    fields, load = root * outliers @ t.T, np.zeros((*a.shape[:2], len(w)))
    out = _Held(np.maximum(fields, 0.1), *np.ones((3, *fields.shape)))
    for _ in range(_NUM_ROUNDS):
        noise = num_inputs / (2 * num_neurons) * (phi_variance * load) @ w
        log_mass, density = normalized(log_density - noise, node_weights)
        scatter = np.einsum("k,kx,kxc,kxr,kxq->crq", p, density, phi_variance, a, a, optimize=True)
        last, last_load = out, load
        out, inverse = _held(solution.phi, fields, outliers, temperature * eye + share * scatter, last)
        load = np.einsum("kxr,crq,kxq->kxc", a, inverse, a, optimize=True)
        if np.abs(load - last_load).max() + np.abs(out.mean - last.mean).max(initial=0) < 1e-9:
            break
    else:
        raise np.linalg.LinAlgError("the noise of bulk and outliers does not settle")
    phi = phi_mean - phi_third * load / (2 * num_neurons)
    noise_out = np.einsum("crq,kq->kcr", inverse, outliers)
    z = out.mean / root

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
    residual = np.concatenate([part.ravel() for part in parts])
    return _Finite(residual, activations, covariance, out, inverse)


class _Held(NamedTuple):
    """Moments of the outliers' φ and z per class, (n, C); the variance of φ before the outputs hold it."""

    mean: np.ndarray
    variance: np.ndarray
    preactivation_mean: np.ndarray
    preactivation_variance: np.ndarray


def _held(phi, fields, outliers, noise, last):
    """Outliers under Z_c of `finite_size`, a round of expectation propagation.

    One outlier, at the field s, has the density exp(s φ − κ (φ − μ)²/2) over the prior's, with its mean μ
    and the stiffness κ = ā_iᵀ (B_c + Σ_{j≠i} V_j ā_j ā_jᵀ)⁻¹ ā_i. V_j is the variance with which a Gaussian
    φ_j would come out with its true one. Exact for a ReLU if at most one outlier is not Gaussian.

    Returns, from the fields s (n, C), the noise B_c (C, m, m) and the last round's result, a _Held, and the
    inverse of B_c + Σ_i V_i ā_i ā_iᵀ at the last V.
    """
    x, weights = _LEGENDRE
    inverse = np.linalg.inv(noise + np.einsum("ic,ir,iq->crq", last.variance, outliers, outliers))
    load = np.einsum("ir,crq,iq->ic", outliers, inverse, outliers)
    stiffness = load / (1 - last.variance * load)
    center = np.maximum((fields + stiffness * last.mean) / (1 + stiffness), 0)
    reach = 10 / np.sqrt(1 + stiffness)
    low = np.stack([np.full_like(fields, -10), np.maximum(center - reach, 0)], -1)[..., None]
    half = (np.stack([np.zeros_like(fields), center + reach], -1)[..., None] - low) / 2
    z = (low + half + half * x).reshape(*fields.shape, 2 * len(x))
    f, (s, k, m) = phi(z), np.stack([fields, stiffness, last.mean])[..., None]
    rule = (half * weights).reshape(z.shape)
    _, density = normalized(s * f - k * (f - m) ** 2 / 2 - z**2 / 2, rule)
    mean, variance = central_moments(f, density, 2)
    mean = last.mean + (mean - last.mean) / (1 - stiffness * variance)  # Newton's step
    free = 1 / (1 / variance - stiffness)
    return _Held(np.maximum(mean, 0), free, *central_moments(z, density, 2)), inverse


@cache
def _gaussian_nodes(dim):
    """Nodes and weights for averages over N(0, 1) in `dim` dimensions.

    Gauss–Hermite to three dimensions. Above, the rule of degree 5 with 2 dim² + 1 nodes, which is
    what averages over a posterior of width 1/√P need for an error of order 1/P².
    """
    if dim <= 3:
        x, weight = np.polynomial.hermite_e.hermegauss(7)
        nodes, weights = (np.stack(np.meshgrid(*[v] * dim, indexing="ij"), -1) for v in (x, weight))
        return nodes.reshape(-1, dim), weights.reshape(-1, dim).prod(axis=1) / weight.sum() ** dim
    axes, radius = np.eye(dim), np.sqrt(dim + 2)
    signs = list(product((1, -1), repeat=2))
    pairs = np.array([s * axes[i] + r * axes[j] for i in range(dim) for j in range(i) for s, r in signs])
    nodes = radius * np.vstack([np.zeros((1, dim)), axes, -axes, pairs / np.sqrt(2)])
    of_axis, of_pair = (4 - dim) / (2 * (dim + 2) ** 2), 1 / (dim + 2) ** 2
    weights = np.concatenate([[2 / (dim + 2)], np.full(2 * dim, of_axis), np.full(len(pairs), of_pair)])
    return nodes, weights
