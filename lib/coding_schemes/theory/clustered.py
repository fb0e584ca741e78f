r"""Inputs that are alike within a class, exactly at N → ∞: one hidden layer, φ bounded or growing like z.

Inputs of class c overlap by ρ_c, those of different classes are orthogonal (`tasks.clustered`; ρ = 0 is the
toy task). Given a neuron's readout a, its preactivations are z_μ = √ρ v_c + √(1−ρ) ξ_μ, and the convex dual
of `theory.sigmoidal` keeps its form with another term for a class:

    D(t) = log ∫ N(a; 0, σ_a²) e^{Σ_c G_c(a·t_c)} da − Σ_c n_c t_c·y_c + (T/2) Σ_c n_c |t_c|²,
    G_c(s) = log E_v [E_ξ e^{sφ(√ρ v + √(1−ρ) ξ)}]^{n_c},   ⟨a G_c'(a·t_c)⟩ = n_c (y_c − T t_c) .

Within a class activations are correlated given a, through v: K_μν = ⟨E_v[m(v)²]⟩ for two inputs of a class,
⟨m_c m_d⟩ for those of two classes.

**Integrals over a.** e^E is a mixture of Gaussians of variance σ_a², whatever φ and ρ, and the lattice of
`theory.sigmoidal` serves for all: spacing σ_a, relative error 2e-8.

**φ that grows** (ReLU, gelu, leaky ReLU): G_c(s) → ½ n_c κ_c s², κ_c = 1 − ρ_c + n_c ρ_c, so that the
integral exists only for Σ_c n_c κ_c (â·t_c)₊² < 1/σ_a² in all directions â. At finite P the optimum is
inside, at a distance δ, and the density of a has rays of length ~ σ_a/√δ: a smooth population in which a
finite fraction of the neurons codes. Per ray its mass is p = A δ^{−1/2} and the constraint fixes p⟨r²⟩ = B,
⟨r²⟩ ∝ 1/δ, hence p = A^{2/3} B^{1/3}: the two-thirds power of the bare weight A. Networks of
N ≫ `crossover_width` show this population; in narrower ones it condenses, one neuron per class with an
amplitude of √N, see `theory.condensation`. Softplus is never quite silent, so that its rays hold a finite
amount even on the edge: where the outputs need more, the minimum lies on the edge (δ = 0), one neuron takes
the rest, and `solve` does not converge. It says so where δ would fall below 1e-5.

**Orthogonal inputs.** Where ReLU is silent gelu dips below 0, and G_c rises like 0.17 n_c |s|: the branch has
a maximum of its own, as high as the bulk's, at a finite readout. One neuron in a hundred codes even at
P = 200: no condensate. Leaky ReLU's branch lies below the bulk by a cost ∝ P, as ReLU's: with 60 inputs
N* is 26,000, with more there is no solution here.

**What is neglected**: corrections of relative order 1/N, nothing else.

Source: the book's own; ρ = 0 is paper A's toy task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from coding_schemes import validation
from coding_schemes.networks import Nonlinearity, canonical
from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.tasks import Task
from coding_schemes.theory import _convex_dual
from coding_schemes.theory._class_tables import ClassTable, Shape, class_tables, known_shape, shape
from coding_schemes.theory._drawn import Drawn, systematic
from coding_schemes.theory._solution import QuadratureOrLaplace, Solved
from coding_schemes.theory._solvers import class_kernel, class_sums, evaluate, overlaps

TOLERANCE = 1e-8  # on the largest entry of ⟨φa⟩ + T t − y
MAX_QUADRATURE_OUTPUTS = 3
MIN_PROBABILITY = 1e-6  # peaks with a smaller weight are not listed
FORM_TOLERANCE = 1e-10  # on the entries of K0
_TAIL = _convex_dual.Rule(1.0, 34.0, 0.0)  # rays lie e^{−10} and more below the bulk
_COARSE_TAIL = _convex_dual.Rule(1.3, 24.0, 0.0)
_LEAST_DISTANCE = 1e-5  # from the edge: rays of a thousand σ_a or so, and few neurons in them
_STEP = 0.01  # of fields, for a derivative
_NUM_SAMPLED = 2048  # neurons that stand for the population on new inputs


def class_overlaps(task: Task) -> tuple[np.ndarray, np.ndarray] | None:
    """ρ_c and K0_μμ of every class, shape (C,) each, or None where K0 has another form.

    K0 needs one diagonal and one overlap 0 ≤ ρ_c < K0_μμ within a class, and 0 between classes, to 1e-10 of
    its diagonal.
    """
    means, diagonal = task.mean_overlaps
    within = np.diag(means)
    within = np.where(np.abs(within) < FORM_TOLERANCE * diagonal, 0.0, within)
    fits = is_of_form(task, within, diagonal)
    return (within, diagonal) if fits and np.all((within >= 0) & (within < diagonal)) else None


def required_overlaps(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """As `class_overlaps`; ValueError where K0 has another form."""
    validation.instance("task", task, Task)
    found = class_overlaps(task)
    if found is None:
        raise ValueError(
            f"task: the inputs of {task.name!r} do not overlap by one ρ within and 0 between classes (to "
            f"{FORM_TOLERANCE:g}); theory.solve finds the solver for general inputs"
        )
    return found


def is_of_form(task: Task, within: np.ndarray, diagonal: np.ndarray, between: float = 0.0) -> bool:
    """Whether K0 has these overlaps, to 1e-10 of its diagonal."""
    gap = np.abs(task.input_kernel - kernel_of_form(within, diagonal, task.labels, between)).max()
    return bool(gap <= FORM_TOLERANCE * diagonal.max())


def kernel_of_form(
    within: np.ndarray, diagonal: np.ndarray, labels: np.ndarray, between: float = 0.0
) -> np.ndarray:
    """K0 of one overlap within every class and one between all, shape (P, P)."""
    kernel = np.where(labels[:, None] == labels, within[labels][:, None], between)
    np.fill_diagonal(kernel, diagonal[labels])
    return kernel


def with_kernel(task: Task, kernel: np.ndarray) -> Task:
    """The task on as many inputs that have this K0, (P, P) and positive definite."""
    return replace(task, inputs=np.sqrt(task.num_inputs) * np.linalg.cholesky(kernel).T)


def width_range(widths: np.ndarray) -> str:
    """N* of the classes in words, to two digits."""
    told = [f"{float(f'{width:.2g}'):,.0f}" if width < 1e6 else f"{width:.0e}" for width in np.sort(widths)]
    return f"N* = {' to '.join(dict.fromkeys(told[:: max(len(told) - 1, 1)]))}"


def reaches(task: Task, nonlinearity: str | Nonlinearity) -> bool:
    """Whether `solve` answers: K0 of this form, φ bounded, or growing like z with few outputs."""
    form = known_shape(canonical(nonlinearity))
    if form is None or (not form.bounded and task.num_targets > MAX_QUADRATURE_OUTPUTS):
        return False
    return task.num_classes <= _convex_dual.MAX_CLASSES and class_overlaps(task) is not None


class Averages(NamedTuple):
    """Of one neuron given its fields; k points, C classes."""

    log_g: np.ndarray  # log ⟨e^{Σ s φ}⟩, (k,)
    means: np.ndarray  # ⟨φ⟩, (k, C)
    shared: np.ndarray  # ⟨φ_μ φ_ν⟩ of two inputs of a class, (k, C)
    squares: np.ndarray  # ⟨φ²⟩, (k, C)
    fourths: np.ndarray  # ⟨m⁴⟩ of the class mean m, (k, C)
    products: np.ndarray  # ⟨φ_μ φ_ν⟩ of inputs of two classes, (k, C, C); the diagonal is not used
    slopes: np.ndarray | None = None  # ∂V_d/∂s_c of the variance V between the inputs of a class, (k, C, C)


class _Site(NamedTuple):
    """The classes' tables, with the face of `_tilted.SingleSite`: cumulants per input of every class."""

    tables: Any  # largest field to [ClassTable] * C
    counts: np.ndarray
    shape: Shape
    lower: float
    upper: float

    @property
    def threshold(self) -> float:
        """Halfway up φ."""
        return 0.5 * (self.shape.lower + self.shape.upper)

    def of(self, fields: np.ndarray) -> list[ClassTable]:
        """The tables that reach these fields (n, C)."""
        return self.tables(float(np.abs(fields).max(initial=0.0)))

    def cumulants(self, fields: np.ndarray, order: int = 2, num_terms: int = 4) -> list[np.ndarray]:
        """[G/n, G'/n, …] up to the given order (at most 3: the third by differences), (n, C) each."""
        columns = [t.evaluate(f, min(order, 2)) for t, f in zip(self.of(fields), fields.T)]
        found = [(np.array(rows) / self.counts[:, None]).T for rows in zip(*columns)]
        if order > 2:
            up, down = (self.cumulants(fields + step, 2)[2] for step in (1e-3, -1e-3))
            found.append((up - down) / 2e-3)
        return found

    def means(self, fields: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log ⟨e^{Σ s φ}⟩ (k,) and ⟨φ⟩ (k, C), of `averages`, alone."""
        log_g, means = self.cumulants(fields, 1)
        return log_g @ self.counts, means

    def nearest_mean(self, fields: np.ndarray) -> np.ndarray:
        """G'/n."""
        return self.cumulants(fields, 1)[1]

    def shared(self, fields: np.ndarray) -> np.ndarray:
        """What inputs of a class share (4, n, C), as in ClassTable.shared."""
        return np.stack([t.shared(f).T for t, f in zip(self.of(fields), fields.T)], axis=-1)

    def averages(self, fields: np.ndarray, slopes: bool = False) -> Averages:
        """At fields (k, C); classes are independent."""
        log_g, means = self.means(fields)
        shared, squares, fourths, _ = self.shared(fields)
        products = means[:, :, None] * means[:, None]
        found = Averages(log_g, means, shared, squares, fourths, products)
        if not slopes:
            return found
        both = self.shared(np.concatenate([fields + _STEP, fields - _STEP]))  # of one table
        above, below = np.split(both[1] - both[0], 2)
        return found._replace(slopes=((above - below) / (2 * _STEP))[:, :, None] * np.eye(fields.shape[1]))

    def draw(self, fields: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Preactivations (k, P) at fields (k, C), of inputs with these labels (P,)."""
        found = np.empty((len(fields), len(labels)))
        for c, table in enumerate(self.of(fields)):
            members = np.flatnonzero(labels == c)
            order = np.argsort(fields[:, c])
            for rows in np.array_split(order, 1 + len(fields) // 32):
                found[np.ix_(rows, members)] = _draw(table, fields[rows, c], len(members), rng)
        return found

    def along_branch(self, c: int, fields: np.ndarray) -> np.ndarray:
        """Log ⟨e^{Σ s φ}⟩ (k,), of neurons active on class c."""
        return self.cumulants(fields, 0)[0] @ self.counts


class Problem(NamedTuple):
    """What is solved; stands for `_convex_dual.Problem`, with tables of its own."""

    counts: np.ndarray
    targets: np.ndarray
    temperature: float
    readout_variance: float
    nonlinearity: str | Nonlinearity
    site: Any  # _Site, or that of `_shared_overlap`
    stiffness: np.ndarray  # κ_c = K0_μμ − ρ_c + n_c ρ_c, as far as other classes leave it, shape (C,)
    within: np.ndarray  # ρ_c, shape (C,)
    diagonal: np.ndarray  # K0_μμ, shape (C,)
    scatter: float = 0.0  # root mean square of what K0 has beside, which theory.solve may neglect
    between: float = 0.0  # overlap of inputs of two classes

    @property
    def neglected(self) -> str:
        """The scatter in words, for an `approximation`."""
        if not self.scatter:
            return ""
        return f", overlaps by their means within classes ({self.scatter:.1g} rms neglected)"

    def fits(self, task: Task) -> bool:
        """Whether the sums of a task's K0 over pairs of classes are those of this problem."""
        own = self.counts * (self.diagonal - self.within + self.counts * (self.within - self.between))
        expected = np.diag(own) + self.between * np.outer(self.counts, self.counts)
        atol = (1e-6 + self.scatter) * task.num_inputs
        return np.allclose(class_sums(task.input_kernel, task), expected, atol=atol)


class ByNeurons:
    """New inputs by neurons that are drawn from `ensemble`: readouts, on a lattice or not, and weights."""

    task: Task
    nonlinearity: str | Nonlinearity
    readouts: np.ndarray
    activations: np.ndarray
    num_outliers: int
    dual_field: np.ndarray
    problem: "Problem"
    ensemble: Any
    method: str

    @cached_property
    def sampled(self) -> tuple[np.ndarray, np.ndarray]:
        """Readouts (n, m) and preactivations (n, P) of neurons drawn from the posterior with a fixed seed."""
        return sample_neurons(self, _NUM_SAMPLED, np.random.default_rng(0))

    @property
    def outlier_readouts(self) -> np.ndarray:
        """Of the outliers, in units of √N, shape (n, m)."""
        return self.readouts[: self.num_outliers]

    @property
    def outlier_preactivations(self) -> np.ndarray:
        """Theirs per class in units of √N, 0 where they are silent, shape (n, C)."""
        return self.activations[: self.num_outliers]

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor on new inputs (N0, P*), shape (P*, m).

        By the outliers, if there are any, which are rectified far from 0, and by averages over sampled
        neurons; their error on the training inputs, which is known, is taken off as far as it is linear in
        the overlaps with these. Training inputs come out exact.
        """
        readouts, preactivations = self.sampled
        here = evaluate(resolve(self.nonlinearity), preactivations)
        carried = self.outlier_preactivations[:, self.task.labels]
        exact = (self.task.class_targets - self.problem.temperature * self.dual_field)[self.task.labels]
        missed = exact - carried.T @ self.outlier_readouts - here.T @ readouts / len(readouts)
        onto = self._onto(inputs)
        found = np.maximum(onto @ carried.T, 0) @ self.outlier_readouts + onto @ missed
        return found + self._responses(inputs)[0].T @ readouts / len(readouts)

    def _onto(self, inputs):
        """k0ᵀ K0⁻¹, shape (P*, P)."""
        return np.linalg.solve(self.task.input_kernel, overlaps(self.task, inputs).T).T

    def _responses(self, inputs):
        """⟨φ⟩ and ⟨φ²⟩ of sampled neurons on new inputs, (n, P*) each, over what training leaves free."""
        weights = self._onto(inputs)
        own = np.square(np.asarray(inputs, float)).mean(axis=0)
        free = np.sqrt(np.maximum(own - np.sum(weights * overlaps(self.task, inputs), axis=1), 0))
        mean = self.sampled[1] @ weights.T
        nodes, gauss = np.polynomial.hermite_e.hermegauss(20)
        phi, gauss = resolve(self.nonlinearity), gauss / gauss.sum()
        first, second = np.zeros_like(mean), np.zeros_like(mean)
        for node, weight in zip(nodes, gauss):
            values = evaluate(phi, mean + free * node)
            first, second = first + weight * values, second + weight * values**2
        return first, second


@dataclass(frozen=True, eq=False, repr=False)
class Solution(ByNeurons, QuadratureOrLaplace, Solved):
    """The single-neuron posterior at the optimum of the dual, N → ∞.

    Attributes:
        task: what was learned.
        nonlinearity: φ.
        probabilities: fraction of the neurons in the basin of every maximum of the readouts' density, shape
            (n,), most first. What one counts in networks is `activity_shares`. Of a φ that grows: 1, for the
            population.
        readouts: mean readout of these neurons, shape (n, m).
        maxima: the maxima themselves, shape (n, m).
        activations: their mean activation per class, shape (n, C).
        codes: classes with a mean activation above the middle of φ's range, (n, C); none where φ grows.
        dual_field: t, shape (C, m); T t is the training residual.
        kernel_block: K_μν for μ ≠ ν in classes c, c', shape (C, C).
        kernel_diagonal: what is added on the diagonal, shape (C,).
        class_participation: ⟨m²⟩²/⟨m⁴⟩ of the neurons' class means m, shape (C,): PR/N, the fraction of the
            neurons that carry a class, see `coding.class_participation`.
        free_energy: −min D, −log evidence per neuron.
        residual: largest entry of |⟨φa⟩ + T t − y|.
        num_steps: Newton steps.
        converged: whether the residual is below the tolerance.
        method: "quadrature" or "laplace".
        problem: what was solved.
    """

    task: Task
    nonlinearity: str | Nonlinearity
    probabilities: np.ndarray
    readouts: np.ndarray
    maxima: np.ndarray
    activations: np.ndarray
    codes: np.ndarray
    dual_field: np.ndarray
    kernel_block: np.ndarray
    kernel_diagonal: np.ndarray
    class_participation: np.ndarray
    free_energy: float
    method: str
    problem: Problem
    ensemble: _convex_dual.Ensemble
    num_outliers: int = 0

    @property
    def approximation(self) -> str:
        """What is neglected; of a φ that grows, with the width above which networks have the population."""
        told = super().approximation
        if self.problem.site.shape.bounded:
            return told
        told += f" for a population of coding neurons{self.problem.neglected}"
        return f"{told}: N ≫ {width_range(self.crossover_width)}"

    @property
    def temperature(self) -> float:
        """T."""
        return self.problem.temperature

    @property
    def training_residual(self) -> np.ndarray:
        """Y − f of every class, T t, shape (C, m)."""
        return self.temperature * self.dual_field

    @property
    def crossover_width(self) -> np.ndarray:
        """N* = N/PR of every class (C,); in networks far narrower, fewer than one neuron would carry it."""
        return 1 / self.class_participation

    def occupancy(self, code: Sequence[int] | np.ndarray) -> float:
        """Fraction of neurons in the basins of a code (0 where it does not occur)."""
        return float(self.probabilities[np.all(self.codes == np.asarray(code, bool), axis=1)].sum())

    def activity_shares(self, codes: Sequence[Sequence[int]] | np.ndarray) -> np.ndarray:
        """Fraction of neurons that are *found* with each code (k, C), told from their mean activations.

        A neuron's mean over the n_c inputs of a class, given a and v, is Gaussian to leading order in n_c; v
        is integrated exactly. ValueError where φ grows.
        """
        if not self.problem.site.shape.bounded:
            raise ValueError(f"solution: {self.nonlinearity!r} has no middle to tell codes by")
        return self.code_probabilities(codes) @ self.ensemble.weights

    def code_probabilities(self, codes: Sequence[Sequence[int]] | np.ndarray) -> np.ndarray:
        """That a neuron with the readouts `ensemble.points` is found with each code, (k, n); φ is bounded."""
        codes = validation.array("codes", codes, "k, C", C=len(self.problem.counts)).astype(bool)
        active = self.problem.site.shared(self.ensemble.points @ self.dual_field.T)[3]
        return np.array([np.prod(np.where(code, active, 1 - active), axis=1) for code in codes])

    def draw(self, rng: np.random.Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P) and readouts (N, m) of N = width independent neurons; inputs by `labels`."""
        readouts = sample_readouts(self, width, rng)
        return preactivations(self, readouts, labels, rng), readouts

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Feature kernel ⟨φφ⟩ of the training inputs (P, P), or new ones (N0, P*) by sampled neurons."""
        if inputs is None:
            return class_kernel(self.kernel_block, self.kernel_diagonal, self.task.labels)
        smooth, squares = self._responses(inputs)
        found = smooth.T @ smooth / len(smooth)
        return found + np.diag(squares.mean(axis=0) - np.diag(found))


def solve(
    task: Task,
    temperature: float,
    *,
    nonlinearity: str | Nonlinearity = "sigmoidal",
    readout_variance: float | None = None,
    method: str = "auto",
    start: np.ndarray | None = None,
) -> Solution:
    """The minimum of D(t) for inputs that are alike within a class, by Newton's method.

    Args:
        task: inputs whose K0 has one diagonal and one overlap within every class, and 0 between classes.
        temperature: T ≥ 0, of paper A's scaling.
        nonlinearity: bounded, or growing like z at one or both ends; by name or as a function.
        readout_variance: σ_a²; 1/P unless given.
        method: "quadrature" (at most 3 outputs), "laplace" (bounded φ), or "auto".
        start: dual field (C, m) to start from.

    Returns:
        A Solution; converged=False, with a warning, where the residual stays above the tolerance.

    Raises:
        ValueError: inputs of another kind, a nonlinearity that grows otherwise, too many outputs, one target
            for all classes, or T < 0.
    """
    problem = make_problem(task, temperature, nonlinearity, readout_variance)
    method = _method(method, problem)
    dual = _Dual(problem, method)
    residual, num_steps, integrals = np.inf, 0, None
    if start is not None:
        field = validation.array("start", start, "{}, {}".format(*problem.targets.shape))
        field, residual, num_steps, integrals = _convex_dual.minimum(dual, field, TOLERANCE)
    if not residual <= TOLERANCE:
        field, steps = _convex_dual.cold_start(problem, lambda level: _Dual(level, method, True))
        field, _, near, _ = _convex_dual.minimum(_Dual(problem, method, True), field, 1e-5)
        field, residual, more, integrals = _convex_dual.minimum(dual, field, TOLERANCE)
        num_steps += steps + near + more
    if integrals is None:
        raise FloatingPointError(f"clustered theory: the solve diverged after {num_steps} steps")
    solution = _describe(task, problem, method, field, residual, num_steps, integrals[0])
    near = not problem.site.shape.bounded and edge_distance(field, problem) < 10 * _LEAST_DISTANCE
    reason = "its coding neurons condense: theory.condensation has them" if near else ""
    return solution.reported("clustered theory", reason)


def make_problem(task, temperature, nonlinearity, readout_variance) -> Problem:
    """The checked problem behind a task."""
    counts, targets, variance = _convex_dual.classes(task, temperature, readout_variance)
    within, diagonal = required_overlaps(task)
    known = canonical(nonlinearity)
    form = shape(known)
    tables = class_tables(known, task.class_counts, within, diagonal)
    site = _Site(tables, counts, form, form.lower, form.upper)
    stiffness = diagonal - within + counts * within
    return Problem(counts, targets, float(temperature), variance, known, site, stiffness, within, diagonal)


def _method(method, problem):
    validation.choice("method", method, ("auto", "quadrature", "laplace"))
    few, bounded = problem.targets.shape[1] <= MAX_QUADRATURE_OUTPUTS, problem.site.shape.bounded
    if (method == "quadrature" or not bounded) and not few:
        raise ValueError(
            f"task: got {problem.targets.shape[1]} outputs; quadrature over readouts reaches "
            f"{MAX_QUADRATURE_OUTPUTS}, beyond there is 'laplace' for bounded nonlinearities"
        )
    if method == "laplace" and not bounded:
        raise ValueError(f"method: 'laplace' needs a bounded nonlinearity, got {problem.nonlinearity!r}")
    return ("quadrature" if few else "laplace") if method == "auto" else method


class _Dual(_convex_dual.Dual):
    """The dual with the classes' tables; where φ grows, infinite outside its domain."""

    problem: Any  # a Problem of this module

    def __init__(self, problem, method, rough=False):
        super().__init__(problem, method, [None], None, rough)
        self.distance, self._least = 1.0, _LEAST_DISTANCE

    def integrals(self, field):
        if self.problem.site.shape.bounded:
            return super().integrals(field)
        self.distance = edge_distance(field, self.problem)
        if not self.distance > self._least:
            raise FloatingPointError("the dual field is outside the dual's domain, or too near its edge")
        rule = _COARSE_TAIL if self.rough else _TAIL
        points = tail_support(field, self.distance, self.problem, rule)
        return [_convex_dual.lattice_integral(points, field, self.problem, None, rule.spacing)]

    def hessian(self, weights, integrals):
        # asked for where a step begins: it may not end so near the edge that rays grow before they are felt
        self._least = max(0.25 * self.distance, _LEAST_DISTANCE)
        return super().hessian(weights, integrals)


def edge_distance(field: np.ndarray, problem: Problem) -> float:
    """δ = 1 − σ_a² max_â Σ_c n_c κ_c [β (â·t_c)]²: where φ grows, D is infinite for δ ≤ 0."""
    low, high = problem.site.shape.slopes
    scale = problem.readout_variance * problem.counts * problem.stiffness

    def pull(directions):
        s = directions @ field.T
        return np.where(s > 0, high**2, low**2) * s

    rng = np.random.default_rng(0)
    starts = np.concatenate([field, -field, rng.standard_normal((64, field.shape[1]))])
    lengths = np.linalg.norm(starts, axis=1, keepdims=True)
    directions = starts[lengths[:, 0] > 0] / lengths[lengths[:, 0] > 0]
    for _ in range(60):  # never decreases the convex form
        moved = (pull(directions) * scale) @ field
        size = np.linalg.norm(moved, axis=1, keepdims=True)
        directions = np.where(size > 0, moved / np.maximum(size, 1e-300), directions)
    return float(1 - np.max(np.sum(pull(directions) * (directions @ field.T) * scale, axis=1)))


def tail_support(field: np.ndarray, delta: float, problem: Problem, rule: _convex_dual.Rule) -> np.ndarray:
    """Lattice points where e^E matters, along rays of a length that the distance δ > 0 from the edge sets."""
    reach = np.sqrt(2 * (rule.cutoff + 5) * problem.readout_variance / delta)
    largest = 3 + reach * np.max(problem.stiffness * np.linalg.norm(field, axis=1))
    low, high = problem.site.shape.slopes
    bounds = {
        "lower": min(problem.site.lower, 0) if low == 0 else -abs(low) * largest,
        "upper": max(problem.site.shape.upper if high == 0 else 0, abs(high) * largest),
    }
    return _convex_dual.support(field, problem._replace(site=problem.site._replace(**bounds)), None, rule)


def _describe(task, problem, method, field, residual, num_steps, integral) -> Solution:
    bounded = problem.site.shape.bounded
    if bounded:
        ensemble, maxima, owner = _convex_dual.neurons(field, problem, method)
    else:
        ensemble = integral.ensemble
        maxima, owner = (ensemble.weights @ ensemble.points)[None], np.zeros(len(ensemble.weights), int)
    membership = np.where(owner == np.arange(len(maxima))[:, None], ensemble.weights, 0.0)
    mass = membership.sum(axis=1)
    kept = np.flatnonzero(mass >= MIN_PROBABILITY)
    kept = kept[np.lexsort((*-maxima[kept].T[::-1].round(6), -mass[kept].round(9)))]
    average = membership[kept] / mass[kept, None]
    activations = average @ ensemble.means
    at_maxima = problem.site.nearest_mean(maxima[kept] @ field.T)
    codes = at_maxima > problem.site.threshold if bounded else np.zeros(activations.shape, bool)
    shared, square, fourth, _ = problem.site.shared(ensemble.points @ field.T)
    weights, means = ensemble.weights, ensemble.means
    block = (means.T * weights) @ means
    np.fill_diagonal(block, weights @ shared)
    spread = ensemble.variances / problem.counts  # of the class mean: G''/n²
    participation = (weights @ (means**2 + spread)) ** 2 / (weights @ fourth)
    dual_terms = 0.5 * problem.temperature * field**2 - field * problem.targets
    return Solution(
        task=task,
        nonlinearity=problem.nonlinearity,
        probabilities=mass[kept],
        readouts=average @ ensemble.points,
        maxima=maxima[kept],
        activations=activations,
        codes=codes,
        dual_field=field,
        kernel_block=block,
        kernel_diagonal=weights @ (square - shared),
        class_participation=participation,
        free_energy=-float(integral.log_value + problem.counts @ dual_terms.sum(axis=1)),
        residual=float(residual),
        num_steps=num_steps,
        converged=bool(residual <= TOLERANCE),
        method=method,
        problem=problem,
        ensemble=ensemble,
    )


# --- neurons --------------------------------------------------------------------------------------


def sample_neurons(solution: Any, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Readouts (n, m) and preactivations (n, P) of neurons drawn from `solution.ensemble` at N → ∞."""
    readouts = sample_readouts(solution, count, rng)
    return readouts, preactivations(solution, readouts, solution.task.labels, rng)


def sample_readouts(solution: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    """Readouts (n, m) of these neurons."""
    readouts = solution.ensemble.points[systematic(solution.ensemble.weights, count, rng)]
    if solution.method == "quadrature":  # within the lattice's cells
        readouts = readouts + np.sqrt(solution.problem.readout_variance) * (rng.random(readouts.shape) - 0.5)
    return readouts


def preactivations(
    solution: Any, readouts: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Preactivations (n, P), given the readouts (n, m), of inputs with these labels (P,)."""
    return solution.problem.site.draw(readouts @ solution.dual_field.T, labels, rng)


def _draw(table: ClassTable, s, num_inputs, rng) -> np.ndarray:
    """Preactivations (k, n) of a class given the fields s (k,)."""
    v, log_weight, _ = table.latent(s)
    chosen = quantiles(v, log_weight, rng.random((len(s), 1)))
    levels = rng.random((len(s), num_inputs))
    return given_latent(np.sqrt(table.overlap) * chosen, s, table.sigma, table, levels)


def given_latent(center, s, sigma, nonlinearity, levels) -> np.ndarray:
    """Quantiles z at the levels (k, n) of e^{sφ(z)} N(z; center (k, 1), σ²); φ with its shape."""
    low, high = nonlinearity.shape.slopes
    pulls = s * low, s * high
    shifts = np.minimum(0, np.minimum(*pulls)), np.maximum(0, np.maximum(*pulls))
    start, stop = (sigma**2 * shift[:, None] + side * 8 * sigma for shift, side in zip(shifts, (-1, 1)))
    offset = start + (stop - start) * np.linspace(0, 1, 401)
    z = center + offset
    values = evaluate(nonlinearity.phi, z)
    return quantiles(z, s[:, None] * values - 0.5 * (offset / sigma) ** 2, levels)


def quantiles(nodes, log_density, levels) -> np.ndarray:
    """Quantiles at the levels (k, n) of densities given at equidistant nodes (k, j), row by row."""
    if nodes.shape[1] == 1:
        return np.broadcast_to(nodes, levels.shape)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    reached = np.cumsum(0.5 * (density[:, 1:] + density[:, :-1]), axis=1)
    reached = np.concatenate([np.zeros((len(nodes), 1)), reached / reached[:, -1:]], axis=1)
    return np.array([np.interp(u, c, x) for u, c, x in zip(levels, reached, nodes)])
