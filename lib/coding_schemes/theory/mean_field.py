r"""Mean-field theory of one hidden layer on arbitrary inputs, such as images: bounded φ, ReLU and its like.

On general inputs nothing decouples, so paper A neglects the fluctuations of a neuron's preactivations
given its readout: a neuron of kind γ has *the* readout a_γ (m,) and *the* preactivations z_γ (P,),

    z_γ = K0 [φ'(z_γ) ∘ (t a_γ)],   a_γ = σ_a² tᵀ φ(z_γ),   Y − Σ_γ P_γ φ(z_γ) a_γᵀ = T t .

With z = R u (K0 = R Rᵀ) and the readouts, in which everything is quadratic, eliminated, this is a
convex problem over distributions of u,

    minimize   L = ½ tr Yᵀ (K + T)⁻¹ Y + ½ Σ_γ P_γ |u_γ|² + Σ_γ P_γ log P_γ,
               K = σ_a² Σ_γ P_γ φ(R u_γ) φ(R u_γ)ᵀ,                                    (*)

whose multiplier is t = (K + T)⁻¹ Y. A neuron pays ½|u|² and earns ½ σ_a² |tᵀφ(Ru)|².

* **Bounded φ** (sigmoidal, erf, tanh): Σ_γ P_γ = 1, and the dual is −log Σ_γ e^{−e(u_γ)} over the minima of
  e(u) = ½|u|² − ½ σ_a² |tᵀ φ(R u)|²: the kinds in use are degenerate up to O(1) in a balance e of O(P).
  The last term of (*) is all that is kept of the entropy. It is 1/P of the others, but decides the
  occupancies where they leave a choice: a code and its complement serve equally well if
  φ(−z) = const − φ(z) and the targets sum to zero, as they do for three balanced classes and y₋ = −1/2.
* **ReLU, leaky ReLU** (any φ(λz) = λφ(z)): cost and gain are both of second degree in u, so a handful of
  neurons with preactivations of order √N does best. The sum runs over these outliers with P_γ = 1 (u and a
  in units of √N), the normalization and the entropy drop out, and optimal means σ_a² |tᵀ φ(R u)|² ≤ |u|² for
  all u. The other neurons have u = 0, e = 0, and add nothing.
* **Softplus** (far from 0, φ is ψ, lines from the origin): both. Outliers see ψ alone, φ(√N z) = √N ψ(z) but
  for e^{−√N|z|}, and add ½|u_i|² to L and σ_a² ψψᵀ to K; kinds of order one see φ and share all other
  neurons. Outliers are optimal at σ_a² |tᵀψ(R u)|² = |u|². There −e(λu) is λ σ_a² Σ_μ g·t_μ r(z_μ) to first
  order in λ, with r = φ − ψ and g = tᵀψ(R u), and z_μ is free where ψ = 0, g·t_μ < 0: finite neurons do
  better unless r vanishes far from 0 and r ≥ 0 where ψ = 0, as for softplus. For gelu r = −0.17: kinds of
  a population take the outliers' place, each a quarter of the neurons in (*). What (*) neglects decides of
  their number (one neuron in thirty and less for 40 orthogonal inputs, `theory.clustered`): no theory here.

The minimum is found by column generation: minimize (*) over the kinds at hand, search for a kind with
a better balance from many starting points, add what is found, until the duality gap is closed.

Without its last term (*) is weight decay's loss in an infinitely wide network: what is neglected is entropy,
and with it the scatter of all neurons. Of φ that grows that is the bulk's kernel, of order one where that of
outliers grows with targets and P.

Source: paper A, "Generalization" and supplement C (restated). The kernel form (*)
and the certificate are this book's.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product, takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax, logsumexp, softmax

from coding_schemes import validation
from coding_schemes.networks import Nonlinearity, canonical, homogeneity
from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.tasks import Task
from coding_schemes.theory._class_tables import known_shape, shape
from coding_schemes.theory._drawn import Drawn, dealt
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solvers import (
    Parts,
    class_means,
    evaluate,
    evaluate_with_slope,
    overlaps,
    pack,
    unpack,
)

_NEGLIGIBLE = 1e-5  # occupancy (or share of the outliers' cost) below which a kind is dropped
_AT_A_TIME = 24  # starts of a search that are minimized together
_MEMORY = 20  # steps that L-BFGS remembers
_MAX_TRIALS = 40  # evaluations of one line search
_GRADIENT_TOLERANCE, _VALUE_TOLERANCE = 1e-7, 1e-15  # largest entry; relative decrease in one step
#: Widths of the ReLU's rounded kink in units of typical |z|: to minimize with, and to search for kinds with.
_SMOOTHING = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_SEARCH_SMOOTHING = (0.03, 0.003)
_INSIDE = 0.999  # of the dual field's largest length: kinds of a population stay finite
#: Temperatures on the way to T = 0, in units of P σ_a²; colder, few kinds fit the outputs ever more exactly,
#: and the search for the last of them costs more and more.
_COOLING = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
_MOST_MISSED = 0.02  # of the largest target, T t, where a low temperature counts as the limit T → 0


class _Point(NamedTuple):
    """Kinds of neurons: outliers, and a population's."""

    outliers: np.ndarray  # u, shape (k, r), in units of √N
    u: np.ndarray  # shape (n, r)
    logits: np.ndarray  # of their shares, shape (n,)

    @property
    def all(self) -> np.ndarray:
        """Those of all kinds, shape (k + n, r)."""
        return np.concatenate([self.outliers, self.u])


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Solved):
    """Kinds of neurons of the mean-field solution.

    Attributes:
        task: what was learned; its inputs are needed for predictions.
        phi: the nonlinearity.
        probabilities: P_γ, shape (n,): 1 for outliers, which come first, then shares, descending.
        readouts: a_γ, shape (n, m); in units of √N for outliers.
        preactivations: z_γ on the training inputs, shape (n, P); in units of √N for outliers.
        activations: class means of φ(z_γ), shape (n, C).
        codes: the classes that activate a kind, shape (n, C): class means above half of φ's range
            (bounded φ), or above half of the kind's strongest class (outliers); none of other kinds then.
        num_outliers: how many of the kinds are outliers; the others are shares of a population.
        dual_field: t, shape (P, m).
        temperature: T of this solution.
        is_limit: whether it stands for T → 0.
        readout_variance: σ_a².
        energy: the minimum of (*), divided by P.
        residual: duality gap relative to the energy; bounds how far the energy is from its minimum.
        num_steps: rounds of column generation.
    """

    task: Task
    phi: Nonlinearity
    probabilities: np.ndarray
    readouts: np.ndarray
    preactivations: np.ndarray
    activations: np.ndarray
    codes: np.ndarray
    num_outliers: int
    dual_field: np.ndarray
    temperature: float
    readout_variance: float
    energy: float
    is_limit: bool = False

    @property
    def approximation(self) -> str:
        """What is neglected."""
        limit = f", and T = {self.temperature:g} for the limit T → 0" if self.is_limit else ""
        return f"N → ∞, fluctuations of the preactivations given the readout neglected{limit}"

    def draw(self, rng: Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P) and readouts (N, m) of N = width neurons: the kinds' own, without chance.

        One outlier of each, and P_γ of the other neurons of each kind of a population, or zero without one.
        """
        first, kept = self.num_outliers, min(self.num_outliers, width)
        both, shares = (self.preactivations, self.readouts), self.probabilities[first:]
        if len(shares):
            rows = first + dealt(shares, width - kept)
            rest = [v[rows] for v in both]
        else:
            rest = [np.zeros((width - kept, v.shape[1])) for v in both]
        z, a = (np.concatenate([v[:kept] * width**0.5, more]) for v, more in zip(both, rest))
        return z, a

    @property
    def outliers(self) -> bool:
        """Whether there are outliers among the kinds."""
        return self.num_outliers > 0

    @property
    def outputs(self) -> np.ndarray:
        """Mean predictor on the training inputs, f = Σ_γ P_γ φ(z_γ) a_γᵀ, shape (P, m)."""
        return self._responses(self.preactivations).T @ (self.probabilities[:, None] * self.readouts)

    def preactivations_on(self, inputs: ArrayLike) -> np.ndarray:
        """z_γ(x) = k0(x)ᵀ K0⁺ z_γ on new inputs (N0, P*), shape (n, P*)."""
        return self._coordinates @ self._span(inputs)

    def activations_on(self, inputs: ArrayLike, fluctuations: bool = False) -> np.ndarray:
        """Activations φ(z_γ(x)) of every kind on new inputs (N0, P*), shape (n, P*).

        Args:
            inputs: new inputs, shape (N0, P*).
            fluctuations: average φ over the Gaussian scatter of z(x) given the training inputs,
                whose variance K** − k0ᵀ K0⁺ k0 training leaves untouched. Paper A neglects it with
                all other fluctuations; it is no smaller than the signal on images far from all
                training images. Without effect on outliers, which it misses by a factor √N.
        """
        inputs = np.asarray(inputs, dtype=float)
        mean, first = self.preactivations_on(inputs), self.num_outliers
        found = self._responses(mean)
        if not fluctuations or first == len(mean):
            return found
        own, overlap = np.sum(inputs**2, axis=0) / len(inputs), self._span(inputs)
        variance = np.maximum(own - np.sum(overlap**2, axis=0), 0)
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        shifted = mean[first:, :, None] + np.sqrt(variance)[:, None] * nodes
        found[first:] = evaluate(self.phi, shifted) @ (weights / weights.sum())
        return found

    def _responses(self, z: np.ndarray) -> np.ndarray:
        """φ of all kinds, (n, …); of outliers the lines that it approaches."""
        values, first = evaluate(self.phi, z).copy(), self.num_outliers
        low, high = shape(self.phi).slopes
        values[:first] = np.where(z[:first] > 0, high, low) * z[:first]
        return values

    def predict(self, inputs: ArrayLike, fluctuations: bool = False) -> np.ndarray:
        """Mean predictor on new inputs (N0, P*), shape (P*, m); see `activations_on`."""
        return self.activations_on(inputs, fluctuations).T @ (self.probabilities[:, None] * self.readouts)

    def kernel(self, inputs: ArrayLike | None = None, fluctuations: bool = False) -> np.ndarray:
        """Feature-layer kernel Σ_γ P_γ φ(z_γ(x)) φ(z_γ(x')), of the training inputs or new ones: (P*, P*).

        For ReLU and its like this is the outliers' part; the bulk adds a task-agnostic kernel, close to the
        prior's. Of softplus it has the part of the bulk's mean preactivations.
        """
        inputs = self.task.inputs if inputs is None else inputs
        activations = self.activations_on(inputs, fluctuations)
        return (activations.T * self.probabilities) @ activations

    @cached_property
    def _root(self) -> np.ndarray:
        return _kernel_root(self.task.input_kernel)

    @cached_property
    def _coordinates(self) -> np.ndarray:
        return np.linalg.lstsq(self._root, self.preactivations.T, rcond=None)[0].T

    def _span(self, inputs: ArrayLike) -> np.ndarray:
        """The coordinates R⁺ k0(x) of new inputs, shape (r, P*)."""
        norms_sq = np.sum(self._root**2, axis=0)  # the columns of R are orthogonal
        return (self._root.T @ overlaps(self.task, np.asarray(inputs)).T) / norms_sq[:, None]


def solve(
    task: Task,
    nonlinearity: str | Nonlinearity = "sigmoidal",
    temperature: float = 0.01,
    *,
    readout_variance: float | None = None,
    tolerance: float | None = None,
    num_starts: int | None = None,
    max_rounds: int = 12,
    seed: int = 0,
) -> Solution:
    """Minimize (*) of the module docstring on any task.

    Args:
        task: the task; any K0, any number of classes and targets.
        nonlinearity: bounded (sigmoidal, erf, tanh, your own), "relu", "softplus" or leaky; by name or as a
            function.
        temperature: T ≥ 0 of the non-lazy posterior. T = 0 is a limit: the solution is that of the lowest
            temperature, 1e-4 P σ_a² if all higher ones on the way are solved. It says which, and counts as
            converged if its outputs, f = Y − T t, miss no target by more than 2 % of the largest.
        readout_variance: σ_a², 1/P unless given.
        tolerance: largest duality gap, relative to the energy, that counts as converged; unless
            given, 1e-6 for bounded φ, and 2e-2 with outliers: their kinks make the optimum nonsmooth, and
            the bound loose (from 2 % to 1 % the energy itself moves by less than a thousandth).
        num_starts: random starting points of each search for better kinds, besides the class codes; unless
            given, 120 for bounded φ, whose rare kinds take as many to be found, and 48 with outliers.
        max_rounds: column-generation rounds at most.
        seed: draws the starting points.

    Returns:
        The kinds in use, most frequent first; `converged` is False, with a warning, if the gap stays open
        (bounded φ: a weak kind that is a minimum of e only as long as it is not used leaves it open, as for
        tanh on a dozen inputs: no set of kinds solves (*) then, whatever the starts).

    Raises:
        ValueError: φ grows but not by outliers, see the docstring of the module; an argument is out of range.

    Source: paper A, supplement C. Deviation: T stays finite (T = 0: see temperature).
    """
    known = canonical(nonlinearity)
    phi, slopes = resolve(known), shape(known).slopes
    outliers = slopes != (0.0, 0.0)
    population = homogeneity(phi) != 1
    if outliers and not reaches(known):
        raise ValueError(
            f"nonlinearity: got {nonlinearity!r}; needs a bounded function, or one like 'relu' and "
            "'softplus', far from 0 on lines from the origin of two slopes, above one of slope 0 "
            "(linear: theory.linear)"
        )
    validation.instance("task", task, Task)
    validation.number("temperature", temperature, least=0)
    validation.positive(**validation.given(readout_variance=readout_variance, tolerance=tolerance))
    validation.counts(max_rounds=max_rounds, **validation.given(num_starts=num_starts))
    validation.count("seed", seed, 0)
    readout_variance = 1 / task.num_inputs if readout_variance is None else readout_variance
    tolerance = (2e-2 if outliers else 1e-6) if tolerance is None else tolerance
    num_starts = (48 if outliers else 120) if num_starts is None else num_starts
    root, targets = _kernel_root(task.input_kernel), np.asarray(task.targets, dtype=float)

    def at(temperature):
        problem = _Problem(phi, slopes, population, root, targets, temperature, readout_variance)
        rng = np.random.default_rng(seed)
        return _column_generation(problem, task, tolerance, num_starts, max_rounds, rng)

    if temperature > 0:
        return at(temperature).reported("theory.mean_field.solve", f"tolerance {tolerance:.1e}")
    unit = task.num_inputs * readout_variance
    colder = (at(level * unit) for level in _COOLING)
    solution = next(colder)
    for found in takewhile(lambda found: found.converged, colder):
        solution = found
    missed = float(solution.temperature * np.abs(solution.dual_field).max() / np.abs(targets).max())
    solution = replace(solution, is_limit=True, converged=solution.converged and missed <= _MOST_MISSED)
    where = f"at T = {solution.temperature:g} outputs miss up to {missed:.1%}"
    return solution.reported("theory.mean_field.solve, T → 0", where)


def reaches(nonlinearity: str | Nonlinearity) -> bool:
    """Whether φ is bounded, or grows so that outliers are optimal: see the docstring of the module."""
    phi, form = resolve(nonlinearity), known_shape(nonlinearity)
    if form is None or form.slopes[0] == form.slopes[1]:
        return form is not None and form.bounded
    low, high = form.slopes
    z = np.linspace(-100.0, 100.0, 2001)
    line = np.where(z > 0, high, low) * z
    excess = (evaluate(phi, z) - line) * np.sign(high - low)  # ψ ≥ 0 for the one sign, ≤ 0 for the other
    flat = (z < 0 if low == 0 else z > 0) if low * high == 0 else np.zeros(z.shape, dtype=bool)
    return bool(np.abs(excess[[0, -1]]).max() < 1e-6 and excess[flat].min(initial=0.0) > -1e-9)


@dataclass(frozen=True)
class _Problem:
    """(*) with its ingredients, and the two functions that are minimized, each with its gradient.

    What tells outliers from kinds of a population is `far`.
    """

    phi: Nonlinearity
    slopes: tuple[float, float]  # φ(z)/z far below and above 0
    has_population: bool
    root: np.ndarray
    targets: np.ndarray
    temperature: float
    readout_variance: float

    @property
    def has_outliers(self) -> bool:
        return self.slopes != (0.0, 0.0)

    def activations(self, u: np.ndarray, far: bool, width: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """φ(R u) and its slope φ'(R u); of outliers ψ, its kink rounded over `width`."""
        z = u @ self.root.T
        if not far:
            return evaluate_with_slope(self.phi, z)
        low, high = self.slopes
        mean, half = 0.5 * (high + low), 0.5 * (high - low)
        distance = np.sqrt(z**2 + width**2)
        side = np.divide(z, distance, out=np.zeros_like(z), where=distance > 0)
        return mean * z + half * distance, mean + half * side

    def responses(self, x: _Point, width: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """The same of all kinds, outliers first."""
        if not len(x.u):
            return self.activations(x.outliers, True, width)
        parts = self.activations(x.outliers, True, width), self.activations(x.u, False)
        activations, slope = (np.concatenate(part) for part in zip(*parts))
        return activations, slope

    def probabilities(self, x: _Point) -> np.ndarray:
        return np.concatenate([np.ones(len(x.outliers)), _shares(x)])

    def dual_field(self, x: _Point, width: float = 0.0) -> np.ndarray:
        return self._dual_field(self.responses(x, width)[0], self.probabilities(x))

    def _dual_field(self, activations: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        kernel = self.readout_variance * (activations.T * probabilities) @ activations
        kernel[np.diag_indices_from(kernel)] += self.temperature
        return cho_solve(cho_factor(kernel), self.targets)

    def energy(self, x: _Point, width: float = 0.0) -> tuple[float, _Point]:
        """(*) and its gradient."""
        u, weights, first = x.all, self.probabilities(x), len(x.outliers)
        activations, slope = self.responses(x, width)
        dual_field = self._dual_field(activations, weights)
        signal = activations @ dual_field
        pull = self.readout_variance * ((signal @ dual_field.T) * slope) @ self.root
        cost = 0.5 * np.sum(u**2, axis=1)
        energy = 0.5 * np.sum(self.targets * dual_field) + weights @ cost
        force = weights[:, None] * (u - pull)
        gradient = _Point(force[:first], force[first:], x.logits)
        if self.has_population:
            logs, shares = log_softmax(x.logits), weights[first:]
            energy += shares @ logs
            balance = cost[first:] - 0.5 * self.readout_variance * np.sum(signal[first:] ** 2, axis=1) + logs
            gradient = gradient._replace(logits=shares * (balance - shares @ balance))
        return float(energy), gradient

    def gain(self, u: np.ndarray, dual_field: np.ndarray, far: bool) -> np.ndarray:
        """½ σ_a² |tᵀ φ(R u)|² of every row of u."""
        return 0.5 * self.readout_variance * np.sum((self.activations(u, far)[0] @ dual_field) ** 2, axis=1)

    def balance(
        self, x: tuple[np.ndarray], dual_field: np.ndarray, far: bool, width: float
    ) -> tuple[float, tuple]:
        """e(u) summed over the rows of u, and its gradient.

        For outliers −log(gain/cost) of rows stretched to |u|² = r: their length is of no consequence.
        """
        (u,) = x
        norm = np.linalg.norm(u, axis=1, keepdims=True)
        if far:
            norm = np.where(norm > 0, norm, 1.0)  # silence has no direction
        stretch = u.shape[1] ** 0.5 / norm if far else np.ones_like(norm)
        activations, slope = self.activations(stretch * u, far, width)
        signal = activations @ dual_field
        gain = 0.5 * self.readout_variance * np.sum(signal**2, axis=1)
        pull = self.readout_variance * ((signal @ dual_field.T) * slope) @ self.root
        if not far:
            return float(np.sum(0.5 * norm[:, 0] ** 2 - gain)), (u - pull,)
        direction = u / norm
        across = pull - direction * np.sum(direction * pull, axis=1, keepdims=True)
        return float(-np.sum(np.log(gain + 1e-12))), (-stretch * across / (gain[:, None] + 1e-12),)

    def inside(self, outliers: np.ndarray, dual_field: np.ndarray) -> float:
        """The largest factor with which gain ≤ cost for all these outliers (n, r)."""
        cost = 0.5 * np.sum(outliers**2, axis=1)
        ratio = cost / np.maximum(self.gain(outliers, dual_field, True), 1e-300)
        return float(np.sqrt(np.min(ratio, initial=np.inf)))

    def gap(self, x: _Point, dual_field: np.ndarray, candidates: _Point) -> float:
        """Energy minus a lower bound on its minimum, valid if no kind is missing from the candidates.

        A bound for every t with gain ≤ cost of all outliers; ours is scaled to be one.
        """
        linear, quadratic = np.sum(dual_field * self.targets), self.temperature * np.sum(dual_field**2)
        scale = 1.0 if self.has_population else linear / quadratic  # at which the bound is highest
        if self.has_outliers:
            scale = min(scale, self.inside(candidates.outliers, dual_field))
        lower = scale * linear - 0.5 * scale**2 * quadratic
        if self.has_population:
            gain = scale**2 * self.gain(candidates.u, dual_field, False)
            lower -= logsumexp(gain - 0.5 * np.sum(candidates.u**2, axis=1))
        return float(self.energy(x)[0] - lower)


def _column_generation(
    problem: _Problem, task: Task, tolerance: float, num_starts: int, max_rounds: int, rng: Any
) -> Solution:
    widths = _SMOOTHING if problem.has_outliers else (0.0,)
    codes = _code_starts(task, problem.root)
    population = codes if problem.has_population else codes[:0]
    x = _Point(codes if problem.has_outliers else codes[:0], population, np.zeros(len(population)))
    closest: tuple[float, int, _Point] = (np.inf, 0, x)
    for num_rounds in range(1, max_rounds + 1):
        for width in widths if num_rounds == 1 else widths[-2:]:
            x = _minimize(problem.energy, x, width)
        x = _minimize(problem.energy, _prune(x), widths[-1])
        dual_field = problem.dual_field(x, widths[-1])
        lengths = rng.choice([0.3, 1.0, 3.0], size=(num_starts, 1))
        random = lengths * rng.standard_normal((num_starts, codes.shape[1]))
        new = _new_kinds(problem, x, np.concatenate([codes, random]), dual_field)
        candidates = _Point(np.concatenate([x.outliers, new[0]]), np.concatenate([x.u, new[1]]), x.logits)
        gap = problem.gap(x, dual_field, candidates) / problem.energy(x)[0]
        closest = min(closest, (gap, num_rounds, x), key=lambda one: one[0])
        if gap <= tolerance:
            break
        x = _enlarge(problem, x, *new, dual_field)
        if not problem.has_outliers:
            x = _reweigh(problem, x)
    return _solution(problem, task, closest[2], closest[0], num_rounds, closest[0] <= tolerance)


def _search(problem: _Problem, starts: np.ndarray, *arguments: Any, max_steps: int) -> np.ndarray:
    """Kinds of low e, one from every start; some starts at a time, as BLAS would split larger products."""
    parts = np.array_split(starts, -(-len(starts) // _AT_A_TIME))
    found = [_minimize(problem.balance, (part,), *arguments, max_steps=max_steps)[0] for part in parts]
    return np.concatenate(found)


def _minimize(function: Callable, start: Parts, *arguments: Any, max_steps: int = 4000) -> Parts:
    """L-BFGS over all arrays of a point at once; `function` returns the value and the gradient."""

    def fun(vector):
        value, gradient = function(unpack(vector, start), *arguments)
        return value, pack(gradient)

    return unpack(_lbfgs(fun, pack(start), max_steps), start)


def _lbfgs(fun: Callable, x: np.ndarray, max_steps: int) -> np.ndarray:
    """Unconstrained L-BFGS with weak Wolfe steps (Lewis and Overton 2013, made for functions with kinks).

    Hand-written, as SciPy's L-BFGS-B (1.17) spends its time on a subspace problem that only bounds need: 24
    inputs in three clusters take 1.0 s of CPU time with this one and 3.2 s with SciPy's, 100 digits 1.1 s and
    1.1 s (sigmoidal), 15.0 s and 17.6 s (ReLU, whose energy it also ends above).
    """
    value, gradient = fun(x)
    memory: deque = deque(maxlen=_MEMORY)
    for _ in range(max_steps):
        if np.abs(gradient).max() <= _GRADIENT_TOLERANCE:
            break
        direction = _quasi_newton(memory, gradient)
        slope = direction @ gradient
        if slope >= 0:  # rounding has spoilt the memory
            memory.clear()
            direction = -gradient
            slope = direction @ gradient
        step = 1.0 if memory else min(1.0, 1 / float(np.linalg.norm(direction)))
        lowest, highest = 0.0, np.inf
        for _ in range(_MAX_TRIALS):
            new = x + step * direction
            new_value, new_gradient = fun(new)
            if not new_value <= value + 1e-4 * step * slope:
                highest = step
            elif new_gradient @ direction < 0.9 * slope:
                lowest = step
            else:
                break
            step = 0.5 * (lowest + highest) if highest < np.inf else 2 * lowest
        if not new_value < value:  # no lower place within rounding
            if not memory:
                break
            memory.clear()
            continue
        change, bend = new - x, new_gradient - gradient
        if change @ bend > 1e-14 * (bend @ bend):
            memory.append((change, bend, 1 / (change @ bend)))
        decrease = value - new_value
        x, value, gradient = new, new_value, new_gradient
        if decrease <= _VALUE_TOLERANCE * max(abs(value), 1.0):
            break
    return x


def _quasi_newton(memory: deque, gradient: np.ndarray) -> np.ndarray:
    """Minus the inverse Hessian of the last steps times the gradient, by the two-loop recursion."""
    direction = -gradient
    shares = []
    for change, bend, curvature in reversed(memory):
        share = curvature * (change @ direction)
        direction -= share * bend
        shares.append(share)
    if memory:
        _, bend, curvature = memory[-1]
        direction /= curvature * (bend @ bend)
    for (change, bend, curvature), share in zip(memory, reversed(shares), strict=True):
        direction += (share - curvature * (bend @ direction)) * change
    return direction


def _reweigh(problem: _Problem, x: _Point) -> _Point:
    """Minimize over the shares of fixed kinds, a convex problem, before the descent over everything goes on.

    It lowers the energy if one of the kinds is new and better. Lengths of outliers gain nothing by it.
    """

    def energy(shares: tuple[np.ndarray]) -> tuple[float, tuple]:
        value, gradient = problem.energy(x._replace(logits=shares[0]))
        return value, (gradient.logits,)

    return x._replace(logits=_minimize(energy, (x.logits,))[0])


def _prune(x: _Point) -> _Point:
    """Merge kinds that have become the same and drop those not in use."""
    shares = _shares(x)
    cost = np.sum(x.outliers**2, axis=1)
    cost /= cost.sum() + shares @ np.sum(x.u**2, axis=1)
    keep, share = _merged(x.outliers, cost, True)
    stretch = np.sqrt(share / cost[keep])
    kept, shares = _merged(x.u, shares, False)
    return _Point(x.outliers[keep] * stretch[:, None], x.u[kept], np.log(shares))


def _shares(x: _Point) -> np.ndarray:
    """P_γ of the population's kinds, shape (n,)."""
    return softmax(x.logits) if len(x.logits) else x.logits


def _merged(u: np.ndarray, share: np.ndarray, far: bool) -> tuple[list[int], np.ndarray]:
    """Which rows of u to keep, and their shares with those of the rows that they stand for."""
    keep: list[int] = []
    share = share.copy()
    for i in np.argsort(-share):
        same = [j for j in keep if _same_kind(u[i], u[j], far)]
        if same:
            share[same[0]] += share[i]
        elif share[i] > _NEGLIGIBLE:
            keep.append(int(i))
    return keep, share[keep]


def _same_kind(first: np.ndarray, second: np.ndarray, direction_only: bool) -> bool:
    """Whether two kinds agree to a per cent (in direction, for outliers)."""
    lengths = np.linalg.norm(first), np.linalg.norm(second)
    if direction_only:
        return bool(first @ second > 0.9995 * lengths[0] * lengths[1])
    return bool(np.linalg.norm(first - second) < 1e-2 * sum(lengths) + 1e-6)


def _new_kinds(
    problem: _Problem, x: _Point, starts: np.ndarray, dual_field: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outliers and kinds of the population, found from many starts, that are not in use yet."""
    outliers, population = starts[:0], starts[:0]
    if problem.has_outliers:
        found = _search(problem, starts, dual_field, True, _SEARCH_SMOOTHING[0], max_steps=400)
        gain = problem.gain(found, dual_field, True) / np.sum(found**2, axis=1)
        best = found[np.argsort(-gain)[:24]]  # once more, with a sharper kink
        found = _search(problem, best, dual_field, True, _SEARCH_SMOOTHING[1], max_steps=1000)
        score = np.sum(found**2, axis=1) / np.maximum(problem.gain(found, dual_field, True), 1e-300)
        outliers = _distinct(found, score, x.outliers, True)
    if problem.has_population:
        field = dual_field
        if problem.has_outliers:  # where outliers gain more than they cost, e has no minimum
            field = min(1.0, _INSIDE * problem.inside(np.concatenate([x.outliers, outliers]), field)) * field
        found = _search(problem, starts, field, False, 0.0, max_steps=400)
        score = 0.5 * np.sum(found**2, axis=1) - problem.gain(found, field, False)
        population = _distinct(found, score, x.u, False)
    return outliers, population


def _distinct(found: np.ndarray, score: np.ndarray, known: np.ndarray, far: bool) -> np.ndarray:
    """Those found that are not known, the lowest score first, each once."""
    new: list[np.ndarray] = []
    for i in np.argsort(score):
        if not any(_same_kind(found[i], u, far) for u in (*known, *new)):
            new.append(found[i])
    return np.array(new).reshape(-1, found.shape[1])


def _enlarge(
    problem: _Problem, x: _Point, outliers: np.ndarray, population: np.ndarray, dual_field: np.ndarray
) -> _Point:
    """The kinds in use and the best eight new ones that would lower the energy."""
    if len(outliers):
        gain, cost = problem.gain(outliers, dual_field, True), 0.5 * np.sum(outliers**2, axis=1)
        better = outliers[gain > cost][:8]
        total = np.sum(x.outliers**2) + _shares(x) @ np.sum(x.u**2, axis=1)
        stretch = 0.1 * np.sqrt(total) / np.linalg.norm(better, axis=1)
        x = x._replace(outliers=np.concatenate([x.outliers, better * stretch[:, None]]))
    if len(population):
        gain, cost = problem.gain(population, dual_field, False), 0.5 * np.sum(population**2, axis=1)
        used = problem.gain(x.u, dual_field, False) - 0.5 * np.sum(x.u**2, axis=1)
        # e + log P is the same for all kinds in use
        logits = gain - cost - used.max() + x.logits[np.argmax(used)]
        entering = np.flatnonzero(logits > np.log(_NEGLIGIBLE) + x.logits.max())[:8]
        entered = np.minimum(logits[entering], x.logits.max())
        x = x._replace(
            u=np.concatenate([x.u, population[entering]]), logits=np.concatenate([x.logits, entered])
        )
    return x


def _solution(
    problem: _Problem, task: Task, x: _Point, gap: float, num_rounds: int, converged: bool
) -> Solution:
    dual_field, first = problem.dual_field(x), len(x.outliers)
    cost, shares = np.sum(x.outliers**2, axis=1), _shares(x)
    order = np.concatenate([np.argsort(-cost), first + np.argsort(-shares)])
    activations = problem.responses(x)[0][order]
    per_class = class_means(activations, task)
    threshold = 0.5 * per_class.max(axis=1, keepdims=True)
    if not problem.has_outliers:
        threshold[:] = evaluate(problem.phi, np.array([-1e4, 1e4])).mean()
    elif first:
        threshold[first:] = np.inf
    return Solution(
        task=task,
        phi=problem.phi,
        probabilities=problem.probabilities(x)[order],
        readouts=problem.readout_variance * activations @ dual_field,
        preactivations=x.all[order] @ problem.root.T,
        activations=per_class,
        codes=per_class > threshold,
        dual_field=dual_field,
        num_outliers=first,
        temperature=problem.temperature,
        readout_variance=problem.readout_variance,
        energy=problem.energy(x)[0] / task.num_inputs,
        residual=float(gap),
        num_steps=num_rounds,
        converged=bool(converged),
    )


def _kernel_root(kernel: np.ndarray) -> np.ndarray:
    """R (P, r) with K0 = R Rᵀ and orthogonal columns, r the rank of K0."""
    values, vectors = np.linalg.eigh(kernel)
    keep = values > 1e-10 * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])


def _code_starts(task: Task, root: np.ndarray) -> np.ndarray:
    """Coordinates of preactivations near ±2 in the pattern of every code; only the simplest if C > 5."""
    num_classes, single = task.num_classes, np.eye(task.num_classes, dtype=int)
    if num_classes <= 5:
        patterns = np.array(list(product([0, 1], repeat=num_classes)))
    else:
        pairs = [single[i] + single[j] for i in range(num_classes) for j in range(i)]
        patterns = np.concatenate([single, pairs, 1 - single])
    wanted = (4.0 * patterns - 2.0)[:, task.labels]
    ridge = 0.1 * np.eye(root.shape[1])
    return np.linalg.solve(root.T @ root + ridge, root.T @ wanted.T).T
