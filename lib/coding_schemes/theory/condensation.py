r"""Coding neurons as a condensate: how many share a class in a network of N neurons, at finite N and P.

One hidden layer of ReLU or softplus, inputs of a class alike by ρ, those of different classes orthogonal
(`tasks.clustered`) or, for ReLU, alike by a ρ_b < ρ of their own (`tasks.tree` of one super-class); each
class with a readout direction on which all other classes are silent. At the
field t where the integral over readouts of `theory.clustered` diverges along t_c, |t_c|² = 1/(σ_a² n_c
κ_c) with κ_c = K0_μμ − ρ + n_c ρ, neurons of readout r t̂_c have the same density for all large r. That
density, over the bulk's mass and per unit of r, is

    w_c = (2πσ_a²)^{−½} e^{−C_c},  C_c = log Z_b − Σ_{d≠c} log q_d,  q_d = E_v [Φ(−√ρ v/√(K0_μμ−ρ))]^{n_d} .

Z_b is the bulk's integral over a, q_d the chance that a neuron of the prior is silent on class d. The bulk
leaves to these neurons the amount B_c of the outputs, (1/N) Σ_i r_i² = B_c:

    n_c (y_c − T t_c) − ⟨a G_c'⟩_bulk = n_c κ_c B_c t_c .

**Free energy of k coding neurons.** −log W_k, with

    W_k = (N^k/k!) ∫ Π_i w(r_i) dr_i δ(Σ r_i² − N B)  ∝  x^k / (k! Γ(k/2)),   x = ½ N w √(π N B) .

The last form holds for constant w: the r_i are then uniform on a sphere's orthant. There is no k = 0. For
N ≫ N* the number is N p with

    p = (π w² B/2)^{1/3} = (B/(4σ_a²))^{1/3} e^{−2C/3},   participation N p/3 = N/N*,   N* = 3/p,

and for N ≪ N* it is one: the condensate. On a flat branch N/N* = (√2 x)^{2/3}/3 alone matters
(`universal`). Three things matter besides, and `Solution.neurons` has them: w(r) is larger at moderate r,
the bulk has its own share of a class's activity, and at finite N the outputs of single inputs hold the
neurons down, the bulk's (`Solution.at_width`) and what coding neurons leak to other classes
(`Solution.held`). This counts where P/N or 1/(NT) is of order one.

**Softplus** is never silent: w(r) falls about like e^{−(log r)²}, so that a population of coding neurons
holds a finite amount (`Solution.branch_amount`) even at the edge. Where B exceeds it, the dual's minimum
lies on the edge of its domain, and one neuron takes the excess however large N is.

**Overlap between classes** (`_shared_overlap`). What all inputs share pulls those of the silent classes
up, the more, the larger a coding neuron is. So w(r) falls, ever more steeply and in the end like
r^{−(P − n_c)}: a silent input is left a range ∝ 1/r. A branch holds a finite amount here, too. Beyond a
critical ρ_b it is less than B, and one neuron takes the rest at any N (`Solution.condensed_share`): the
condensation of zero-range processes, whose weights fall like a power.

**What is neglected**: that the field moves with the fluctuations of k, and fluctuations of the bulk's
contribution to B; what holds the bulk down is taken to first order. Bulk and branch are taken to lie apart:
where the bulk has more of a class's activity than coding neurons have (`bulk_squares` above `amounts`, as at
y₋ = 0), participation comes out too high, by 10 % without overlap between classes and by up to a half with.

Source: the book's own; the condensate at ρ = 0 and N, P → ∞ is paper A's sparse scheme.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, root
from scipy.special import gammaln, log_ndtr

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory import _shared_overlap, clustered
from coding_schemes.theory._drawn import Drawn
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solvers import check_training_inputs, class_kernel
from coding_schemes.theory._tilted import normalized

MOST_FIELD = 1000.0  # of the bulk's neurons on a class; along a branch it grows without limit
TOLERANCE = 1e-8
LEAST_BULK = 0.05  # of the neurons, while the numbers of the others are searched for
BULK_RADIUS = 7.0  # σ_a around the bulk's maximum that are integrated over
NUM_CELLS = 2**12  # of Σ r²
LEAST_WEIGHT = 1e-6  # numbers k that are rarer are left out
NUM_LARGEST = 64  # values of the largest r² at which its distribution is taken
MAX_ROUNDS = 30
LARGEST_FIELD = 300.0  # that tables are made for
FARTHEST = 20.0  # times the bulk's radius: nothing is left there of a branch that falls
_FEW_RADII = 18
MOST_COMMON = 20.0  # nats, that doubles resolve in sums over neurons


class Neurons(NamedTuple):
    """How many neurons carry a class in networks of N neurons.

    Attributes:
        numbers: k of the coding neurons, shape (K,).
        probabilities: of each k, shape (K,).
        participation: 1/⟨1/PR⟩ of the class.
    """

    numbers: np.ndarray
    probabilities: np.ndarray
    participation: float

    @property
    def mean(self) -> float:
        """⟨k⟩."""
        return float(self.probabilities @ self.numbers)


class _Sums(NamedTuple):
    """Sums of r² over the coding neurons of a class, on a lattice, and what comes of them."""

    neurons: Neurons
    mass: np.ndarray  # of one neuron in the cells of r²; the total is at NUM_CELLS
    scale: float  # of its Fourier transform
    weights: np.ndarray  # that so many neurons make the total, for the numbers of `neurons`
    coding_share: float  # of the class's squared activity

    @property
    def largest(self) -> float:
        """⟨max r²⟩ over the class's squared activity in the same units."""
        places = np.linspace(1, 0, NUM_LARGEST + 1)  # closer together near the total, where one has all
        cells = np.rint(NUM_CELLS * (1 - places**2)).astype(int)
        below = np.zeros(len(cells))
        for j, cell in enumerate(cells[:-1]):
            single = np.fft.rfft(np.where(np.arange(len(self.mass)) < cell, self.mass, 0)) / self.scale
            (weights,) = _at_total(self.neurons.numbers[-1], single)
            ratio = np.clip(weights[self.neurons.numbers - 1] / self.weights, 0, 1)
            below[j] = self.neurons.probabilities @ ratio
        below[-1] = 1
        return float(self.coding_share * (1 - np.trapezoid(below, cells) / NUM_CELLS))


def universal(ratio: float) -> Neurons:
    r"""The law of a flat branch, at any P, ρ and targets: x^k/(k! Γ(k/2)), x = (3 N/N*)^{3/2}/√2.

    Given k the r_i are uniform on an orthant of a sphere, and ⟨1/PR⟩ = ⟨3/(k + 2)⟩.

    Args:
        ratio: N/N*, above 0.

    Raises:
        ValueError: the ratio is not positive.
    """
    validation.positive(ratio=ratio)
    k = np.arange(1, int(9 * ratio + 10 * np.sqrt(ratio)) + 20)
    log_x = 1.5 * np.log(3 * ratio) - 0.5 * np.log(2)
    k, p = _likely(k, k * log_x - gammaln(k + 1) - gammaln(k / 2))
    return Neurons(k, p, float(1 / (p @ (3 / (k + 2)))))


def _likely(k, log_weights):
    p = np.exp(log_weights - log_weights.max())
    kept = p > LEAST_WEIGHT * p.sum()
    return k[kept], p[kept] / p[kept].sum()


def log_silence(num_inputs: int, overlap: float, diagonal: float = 1.0) -> float:
    """Log q: that n preactivations which overlap by ρ are all negative under the prior; −n log 2 at ρ = 0."""
    if overlap == 0:
        return float(-num_inputs * np.log(2))
    v = np.linspace(-40, 12, 20801)
    exponent = num_inputs * log_ndtr(-np.sqrt(overlap / (diagonal - overlap)) * v) - 0.5 * v**2
    peak = exponent.max()
    return float(peak + np.log(np.exp(exponent - peak).sum() * (v[1] - v[0]) / np.sqrt(2 * np.pi)))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WithOutliers(clustered.ByNeurons, Solved):
    """Bulk and outliers on inputs alike within a class: kernel, predictor, networks drawn from them.

    Attributes:
        task: what was learned.
        nonlinearity: "relu" or "softplus".
        temperature: T.
        readouts: of the outliers in units of √N, then of the bulk, shape (n + k, m).
        activations: theirs per class in the same units, shape (n + k, C).
        dual_field: t, shape (C, m); T t is the training residual.
        costs: C of every outlier in nats, shape (n,).
        kernel_block: K_μν for μ ≠ ν in classes c, c', shape (C, C).
        kernel_diagonal: what is added on the diagonal, shape (C,).
        problem: as in `theory.clustered`.
        ensemble: the bulk's readouts and their weights.
    """

    task: Task
    nonlinearity: str
    temperature: float
    readouts: np.ndarray
    activations: np.ndarray
    dual_field: np.ndarray
    costs: np.ndarray
    kernel_block: np.ndarray
    kernel_diagonal: np.ndarray
    problem: clustered.Problem
    ensemble: Any

    @property
    def num_outliers(self) -> int:  # type: ignore[override]
        """n; of a condensed solution one for each class."""
        return len(self.costs)

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Feature kernel on the training inputs, shape (P, P)."""
        check_training_inputs(inputs)
        return class_kernel(self.kernel_block, self.kernel_diagonal, self.task.labels)

    def draw(self, rng: np.random.Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P) and readouts (N, m) of N = width neurons, outliers first, the bulk by chance.

        Inputs are in the classes `labels` (P,).
        """
        if self.num_outliers >= width:
            raise ValueError(f"width: got {width}, needs more neurons than the {self.num_outliers} outliers")
        outliers = np.sqrt(width) * self.outlier_readouts
        bulk = clustered.sample_readouts(self, width - self.num_outliers, rng)
        readouts = np.concatenate([outliers, rng.permutation(bulk)])
        return clustered.preactivations(self, readouts, labels, rng), readouts


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution(WithOutliers):
    """The condensed solution: bulk, and one branch of coding neurons for each class.

    Attributes are those of `WithOutliers`, and:

    Attributes:
        readouts: of one coding neuron for each class in units of √N, then the bulk's mean, shape (C + 1, m).
        activations: theirs per class in the same units, then the bulk's mean, shape (C + 1, C).
        dual_field: t at the edge, shape (C, m); T t is the training residual.
        amounts: B_c = (1/N) Σ r² of the coding neurons, shape (C,).
        costs: C_c in nats, shape (C,); infinite for softplus, and where classes overlap.
        densities: w_c at r → ∞, per neuron and unit of r, shape (C,); 0 where classes overlap.
        kernel_block: K_μν for μ ≠ ν in classes c, c', whoever carries it, shape (C, C); between
            classes without what coding neurons leak there (8 % of it at P = 60, ρ = ½).
        bulk_fraction: share of the bulk, 1 at N → ∞.
        bulk_squares: ⟨m²⟩ and ⟨m⁴⟩ of the bulk's class means, over those of coding neurons of r = 1, (2, C).
        bulk_amounts: what it does, were it all neurons, in units of B, shape (C,).
        bulk_noise: its ⟨Var φ a aᵀ⟩ for an input of every class, shape (C, m, m).
        log_bulk: log Z_b.
        within: ρ of every class, shape (C,).
        diagonal: K0_μμ of every class, shape (C,).
        jacobian: of the equations for t and B where the search ended, from which it goes on at other widths.
    """

    amounts: np.ndarray
    jacobian: np.ndarray
    densities: np.ndarray
    bulk_fraction: float
    bulk_squares: np.ndarray
    bulk_amounts: np.ndarray
    bulk_noise: np.ndarray
    log_bulk: float
    within: np.ndarray
    diagonal: np.ndarray
    method = "quadrature"

    @property
    def approximation(self) -> str:
        """What the theory neglects, and below which width networks have one coding neuron per class."""
        if self.bulk_fraction < 1:
            return "the bulk at finite N, to first order in 1/N"
        if np.all(np.isinf(self.population_width)):
            return f"N → ∞ with one coding neuron per class at any N{self.problem.neglected}"
        told = clustered.width_range(self.population_width)
        told += "" if np.all(self.population_width < self.crossover_width) else ", at most"
        return f"N → ∞ with N ≪ N*, one coding neuron per class{self.problem.neglected}: {told}"

    @property
    def probabilities(self) -> np.ndarray:
        """1 for each outlier and for the bulk, shape (C + 1,)."""
        return np.ones(len(self.readouts))

    @property
    def codes(self) -> np.ndarray:
        """One class for each outlier, none for the bulk, shape (C + 1, C)."""
        return np.eye(len(self.readouts), self.num_outliers, dtype=bool)

    @property
    def bulk_activity(self) -> np.ndarray:
        """⟨m²⟩ of the bulk's class means, shape (C,)."""
        problem = self.problem
        return self.bulk_squares[0] * problem.stiffness / (problem.readout_variance * problem.counts)

    @property
    def fraction(self) -> np.ndarray:
        """Fraction p of the neurons that code for a class at N → ∞, shape (C,)."""
        return np.cbrt(0.5 * np.pi * self.densities**2 * self.amounts)

    @property
    def crossover_width(self) -> np.ndarray:
        """N* = 3/p of every class on a flat branch, infinite where it falls, shape (C,)."""
        with np.errstate(divide="ignore"):
            return 3 / self.fraction

    @cached_property
    def population_width(self) -> np.ndarray:
        """N* = N/PR of every class by counting (`class_participation`), as `clustered` has it, shape (C,).

        By the flat branch where the population is too near its edge to be counted: an upper bound. Infinite
        where a branch cannot hold what its class needs.
        """
        return np.where(np.isnan(found := 1 / self.class_participation), self.crossover_width, found)

    def log_density(self, class_index: int, radii: np.ndarray) -> np.ndarray:
        """Log w(r) of a class at radii r (k,): the branch's density over the directions across it.

        By Gauss–Hermite nodes in each direction; what is near the bulk is no branch.
        """
        radii = np.asarray(radii, float)
        if self.problem.between:  # tables are for fields of about the same size
            return np.concatenate([self._log_density(class_index, each[None]) for each in radii])
        return self._log_density(class_index, radii)

    def _smoothly(self, c, r, few=60):
        """Log w(r) at many ascending radii of the branch: exact to 1e-4 between a few of them."""
        nodes = np.geomspace(r[0], r[-1], _FEW_RADII if self.problem.between else few)
        return CubicSpline(np.log(nodes), self.log_density(c, nodes))(np.log(r))

    def _log_density(self, class_index, radii):
        t, problem = self.dual_field, self.problem
        unit = t[class_index] / np.linalg.norm(t[class_index])
        across = np.linalg.svd(unit[None])[2][1:]
        num = 5 if problem.between else 9
        nodes, weights = np.polynomial.hermite_e.hermegauss(num)
        places = np.array(list(np.ndindex(*(num,) * len(across))), int)  # one, where no direction is left
        grid, mass = nodes[places], np.prod(weights[places] / weights.sum(), axis=1)
        offsets = np.sqrt(problem.readout_variance) * grid @ across
        points = (radii[:, None, None] * unit + offsets).reshape(-1, t.shape[1])
        log_g = problem.site.along_branch(class_index, points @ t.T)
        value = (log_g - 0.5 * (points @ unit) ** 2 / problem.readout_variance).reshape(len(radii), -1)
        shift = value.max(axis=1)
        prior = -0.5 * np.log(2 * np.pi * problem.readout_variance) - self.log_bulk
        return np.log(np.exp(value - shift[:, None]) @ mass) + shift + prior

    def noise(self, num_neurons: int, counts: np.ndarray) -> np.ndarray:
        r"""M_c: what temperature, bulk and coding neurons leave open in the outputs of an input, (C, m, m).

            M_d = T + ⟨Var φ a aᵀ⟩_bulk + (K0_μμ − ρ) B_d t̂_d t̂_dᵀ + Σ_{c≠d} B_c ⟨φ²⟩_cd t̂_c t̂_cᵀ

        ⟨φ²⟩_cd is the leak on class d of a coding neuron of class c, itself held down by M; solved by
        iteration.

        Args:
            num_neurons: N.
            counts: numbers of coding neurons, shape (C,); they set r.
        """
        unit = self._directions
        dyads = self.amounts[:, None, None] * unit[:, :, None] * unit[:, None, :]
        base = self.temperature * np.eye(unit.shape[1]) + self.bulk_noise
        base = base + (self.diagonal - self.within)[:, None, None] * dyads
        radii, leak = np.sqrt(num_neurons * self.amounts / counts), np.zeros((len(unit), len(unit)))
        for _ in range(MAX_ROUNDS):
            found = base + np.einsum("dc,crq->drq", leak, dyads)
            previous, leak = leak, 0.5 * leak
            for c, own in enumerate(np.eye(len(unit), dtype=bool)):
                stiff = np.array([unit[c] @ np.linalg.solve(each, unit[c]) for each in found[~own]])
                firm = radii[c] ** 2 * stiff / num_neurons
                b = np.zeros((2, len(firm), len(unit)))
                b[..., ~own] = np.array([0.99, 1.01])[:, None, None] * np.diag(firm)
                held = self._log_held(c, np.full(2 * len(firm), radii[c]), b.reshape(-1, len(unit)))
                low, high = held.reshape(2, -1)
                leak[~own, c] += (low - high) / (0.02 * firm * self.problem.counts[~own])
            if np.abs(leak - previous).max() < 1e-2 * leak.max():
                break
        return found

    def at_width(self, num_neurons: int, counts: np.ndarray, noise: np.ndarray | None = None) -> "Solution":
        r"""The bulk of a network of N neurons, some of which code: its field, amounts and averages.

        Fluctuations of the fields of single inputs multiply a neuron's weight by e^{−½ Σ_μ φ_μ²
        aᵀM⁻¹a/N}. The class means stay as the equations for t want them. For the rest, to first order in
        b_c = aᵀM_c⁻¹a/N, with V_c the variance of φ between the inputs of a class at the readouts a,

            log weight  − ½ Σ_c (n_c − 1) V_c b_c ,   ⟨m_c⟩  − ½ (1 − 1/n_c) b_c ∂V_c/∂s_c ,

        and the equations are those of `solve` with the share 1 − Σk/N of this bulk.

        Args:
            num_neurons: N.
            counts: numbers of coding neurons, shape (C,).
            noise: M; of this solution unless given. With that of what is returned, M is its own.

        Returns:
            A Solution; converged=False, with a warning, where the equations are not met.

        Raises:
            ValueError: N < 2, or numbers of another shape.
        """
        validation.count("num_neurons", num_neurons, 2)
        counts = validation.array("counts", counts, "C", C=len(self.amounts))
        firm = np.linalg.inv(self.noise(num_neurons, counts) if noise is None else noise) / num_neurons
        share = max(1 - counts.sum() / num_neurons, LEAST_BULK)
        start = self._start
        found = _solve(self.task, self.problem, start, firm, share, self.jacobian)
        if not found.converged:
            found = _solve(self.task, self.problem, start, firm, share)
        return found.reported(f"condensation theory at N = {num_neurons}")

    def held(self, class_index: int, radii: np.ndarray, num_neurons: int, noise: np.ndarray) -> np.ndarray:
        r"""What finite N adds to log w(r): the outputs hold down what a coding neuron leaks to other classes.

        As in `at_width`, but in all orders: on a silent class log E_v (E_ξ e^{sφ − ½bφ²})^n − G_d(s) with
        b = r² t̂ᵀM_d⁻¹t̂/N. Across the branch, on its own class, it is of first order in 1/(NT).

        Args:
            class_index: c.
            radii: r, shape (k,).
            num_neurons: N.
            noise: M, of `noise`.
        """
        c, unit, problem = class_index, self._directions, self.problem
        stiff = np.linalg.inv(noise) / num_neurons
        across = np.trace(stiff[c]) - unit[c] @ stiff[c] @ unit[c]
        own = (
            0.5 * problem.counts[c] * (self.diagonal[c] - self.within[c]) * across * problem.readout_variance
        )
        b = np.outer(radii**2, np.einsum("r,drq,q->d", unit[c], stiff, unit[c]))
        b[:, c] = 0
        return self._log_held(c, radii, b) - own

    @property
    def _start(self) -> np.ndarray:
        """The field and the amounts in one, (C m + C,): where a search nearby begins."""
        return np.concatenate([self.dual_field.ravel(), self.amounts])

    @property
    def _directions(self):
        """The branches' directions t̂, shape (C, m)."""
        return self.dual_field / np.linalg.norm(self.dual_field, axis=1, keepdims=True)

    def _log_held(self, c, radii, firmness):
        """Log ⟨e^{−½ Σ_d b_d Σ_μ φ_μ²}⟩ of coding neurons of class c at r (k,), for b (k, C) on others."""
        fields = np.outer(radii, self.dual_field @ self._directions[c])
        if self.problem.between:
            return self.problem.site.log_held(c, fields, firmness)
        change = np.zeros(len(radii))
        for d in np.flatnonzero(firmness.any(axis=0)):
            s, b = fields[:, d], firmness[:, d]
            change += self._log_average_on(d, s, b) - self._log_average_on(d, s, 0 * b)
        return change

    def _log_average_on(self, d, s, firmness):
        """Log E_v (E_ξ e^{sφ − ½bφ²})^n on class d, for s and b of shape (k,)."""
        s, b = s[:, None], firmness[:, None]
        v = np.linspace(-12, 8, 401) if self.within[d] > 0 else np.zeros(1)
        sigma, u = np.sqrt(self.diagonal[d] - self.within[d]), np.sqrt(self.within[d]) * v
        if self.nonlinearity == "relu":
            narrow = 1 + b * sigma**2
            gain = 0.5 * ((u + s * sigma**2) ** 2 / narrow - u**2) / sigma**2
            active = gain - 0.5 * np.log(narrow) + log_ndtr((u + s * sigma**2) / (sigma * np.sqrt(narrow)))
            log_g = np.logaddexp(log_ndtr(-u / sigma), active)
        else:
            xi = np.linspace(-8, 8, 65)
            phi = np.logaddexp(0, u[:, None] + sigma * xi)
            exponent = s[..., None] * phi - 0.5 * b[..., None] * phi**2 - 0.5 * xi**2
            log_g = normalized(exponent)[0] + np.log((xi[1] - xi[0]) / np.sqrt(2 * np.pi))
        return normalized(self.problem.counts[d] * log_g - 0.5 * v**2)[0]

    def sharing(self, class_index: int, angles: np.ndarray, num_neurons: int) -> np.ndarray:
        """Free energy of two neurons that share what a class needs, at fixed output.

            F(θ) = −log w(r cos θ) − log w(r sin θ) ,  r² = N B_c ,

        with w of networks of N neurons (`at_width`, `held`) in which one neuron codes for each class. At θ
        near 0 the second is of the bulk, at π/4 both carry one half, at π/2 it has taken over.

        Args:
            class_index: c.
            angles: θ, shape (k,).
            num_neurons: N.

        Returns:
            F less its least value, in units of kT, shape (k,); NaN, with a warning, where N is not solved.

        Raises:
            ValueError: no such class, angles of another shape, or N < 2.
        """
        validation.count("class_index", class_index, 0, len(self.amounts) - 1)
        angles = validation.array("angles", angles, "k")
        alone = np.ones(len(self.amounts))
        there = self.at_width(num_neurons, alone)
        if not there.converged:
            return np.full(len(angles), np.nan)
        noise, radius = there.noise(num_neurons, alone), np.sqrt(num_neurons * there.amounts[class_index])
        free = np.zeros(len(angles))
        for radii in (radius * np.cos(angles), radius * np.sin(angles)):
            free -= there.log_density(class_index, radii)
            free -= there.held(class_index, radii, num_neurons, noise)
        return free - free.min()

    def branch_amount(self, class_index: int) -> float:
        """∫ w(r) r² dr: what a population of coding neurons holds at most; infinite for a flat branch."""
        if self.densities[class_index] > 0:
            return np.inf
        r = self._branch_radii(class_index, 600)
        return float(np.trapezoid(np.exp(self._smoothly(class_index, r)) * r**2, r))

    def _branch_radii(self, class_index, count):
        """From the bulk to where a branch that falls is empty, or to where tables end on one that is flat."""
        least = BULK_RADIUS * np.sqrt(self.problem.readout_variance)
        largest = LARGEST_FIELD if self.densities[class_index] > 0 else 19
        most = largest / np.linalg.norm(self.dual_field[class_index])
        return np.geomspace(least, min(most, FARTHEST * least) if self.problem.between else most, count)

    def neurons(self, num_neurons: int) -> list[Neurons]:
        """How many neurons carry each class at finite N: W_k with w(r) as it is, and the bulk's own activity.

        Every class's number is found with those of the others at their means, and the bulk that these
        leave (`at_width`), until they stay. Where it is not found, participation is NaN.

        Args:
            num_neurons: N.
        """
        unknown = [Neurons(np.ones(1, int), np.ones(1), np.nan) for _ in self.amounts]
        found = self._sums(num_neurons)
        return [each.neurons for each in found] if found else unknown

    def largest_share(self, num_neurons: int) -> np.ndarray:
        """⟨max m²/Σ m²⟩ of every class: what its largest neuron has of its squared activity, shape (C,).

        Over the numbers of coding neurons and their sizes, as in `neurons`; m is the class mean. The order
        parameter of the condensate: as N → ∞ it tends to zero where a population carries the class. NaN where
        the numbers are not found.

        Args:
            num_neurons: N.
        """
        found = self._sums(num_neurons)
        return np.array([each.largest for each in found]) if found else np.full(len(self.amounts), np.nan)

    def _sums(self, num_neurons: int) -> "list[_Sums]":
        """Of every class, each with the bulk and the numbers that the others leave; none where not found."""
        validation.count("num_neurons", num_neurons, 2)
        classes = range(len(self.amounts))
        counts, solution = np.ones(len(classes)), self
        for _ in range(MAX_ROUNDS):
            solution = solution.at_width(num_neurons, counts, solution.noise(num_neurons, counts))
            if not solution.converged:
                return []
            noise = solution.noise(num_neurons, counts)
            found = [solution._sums_of(c, num_neurons, counts, noise) for c in classes]
            previous, counts = counts, np.array([each.neurons.mean for each in found])
            if np.abs(counts - previous).max() < 1e-3 * counts.max():
                return found
        solver, detail = f"condensation theory at N = {num_neurons}", "numbers of coding neurons still change"
        replace(solution, converged=False).reported(solver, detail)
        return []

    def _radii(self, c, total):
        """Where coding neurons are: beyond the bulk, and what is more common by e^20 than the largest."""
        least = BULK_RADIUS * np.sqrt(self.problem.readout_variance)
        r = np.geomspace(min(least, 0.5 * total**0.5), total**0.5 * 1.01, 300)
        if self.problem.between:
            return r
        log_w = self._smoothly(c, r)
        return np.geomspace(r[np.argmax(log_w < log_w[-1] + MOST_COMMON)], r[-1], 400)

    @property
    def class_participation(self) -> np.ndarray:
        """PR/N at N → ∞, shape (C,), by counting with w(r) as it is; as `clustered.Solution` has it.

        Every class's w(r) e^{−λr²} holds B, with λ of its own. NaN where a branch cannot hold it, and where
        there is nothing to hold, as in a solution that has not converged.
        """
        nothing = np.full(len(self.amounts), np.nan)
        if np.any(self.condensed_share > 0):
            return nothing
        masses, tilts = np.zeros(len(self.amounts)), self._least_tilts.copy()
        for _ in range(100):
            bulk, previous = 1 / (1 + masses.sum()), masses
            for c, aim in enumerate(self._aims(masses)):
                least, most = self._least_tilts[c], 1e6
                if not self._moment(c, 2, most) < aim <= self._moment(c, 2, least):
                    return nothing
                tilts[c] = brentq(lambda tilt, c=c, aim=aim: self._moment(c, 2, tilt) - aim, least, most)
            masses = self._moments(0, tilts)
            if np.abs(masses - previous).max() < 1e-8:
                break
        second, fourth = (self._moments(k, tilts) for k in (2, 4))
        return bulk * (second + self.bulk_squares[0]) ** 2 / (fourth + self.bulk_squares[1])

    @cached_property
    def condensed_share(self) -> np.ndarray:
        """Share of what coding neurons do at N → ∞ that one of them does, shape (C,).

            1 − p ⟨r²⟩/B at the edge, p ⟨r²⟩ the most that a population holds

        Where it is below 0 a population does everything. Above, the field stands at the edge, and one neuron
        takes what is left at any N, as one site of a zero-range process does.
        """
        edge = self._least_tilts
        return 1 - self._moments(2, edge) / self._aims(self._moments(0, edge))

    @property
    def condensate_share(self) -> np.ndarray:
        """Limit of `largest_share` as N → ∞, shape (C,): the condensate's, zero where there is none."""
        coding = self._aims(self._moments(0, self._least_tilts))
        return np.maximum(self.condensed_share, 0) * coding / (coding + self.bulk_squares[0])

    @cached_property
    def _branches(self):
        """Radii and w(r) of every class, exact to 1e-7 on a flat branch."""
        each = [(c, self._branch_radii(c, 1000)) for c in range(len(self.amounts))]
        return [(r, np.exp(self._smoothly(c, r, len(r) // 7))) for c, r in each]

    @cached_property
    def _least_tilts(self):
        """λ at the edge: 0, but on a flat branch, where the last radius would be felt."""
        flat = self.densities > 0
        return np.array([9 / r[-1] ** 2 if each else 0.0 for (r, _), each in zip(self._branches, flat)])

    def _aims(self, masses):
        """Σ r² that branches of these masses should hold, per neuron of the bulk."""
        bulk = 1 / (1 + masses.sum())
        return (self.amounts + (1 - bulk) * self.bulk_amounts) / bulk

    def _moment(self, c, power, tilt):
        r, density = self._branches[c]
        return np.trapezoid(density * r**power * np.exp(-tilt * r**2), r)

    def _moments(self, power, tilts):
        return np.array([self._moment(c, power, tilt) for c, tilt in enumerate(tilts)])

    def participation(self, num_neurons: int) -> np.ndarray:
        """1/⟨1/PR⟩ of every class in networks of N neurons, shape (C,)."""
        return np.array([each.participation for each in self.neurons(num_neurons)])

    def _sums_of(self, c, num_neurons, counts, noise) -> _Sums:
        """The sums of h = r² over k neurons, by Fourier transforms on a lattice of h."""
        coding = counts.sum()
        bulk = max(1 - coding / num_neurons, LEAST_BULK)
        total = num_neurons * (self.amounts[c] + (self.bulk_fraction - bulk) * self.bulk_amounts[c])
        others = 1 + (coding - counts[c]) / (num_neurons * bulk)  # bulk and others, over the bulk
        cell = total / NUM_CELLS
        h = cell * (np.arange(4 * NUM_CELLS) + 0.5)
        r = self._radii(c, total)
        few = np.geomspace(r[0], r[-1], _FEW_RADII if self.problem.between else 40)
        change = np.interp(np.log(r), np.log(few), self.held(c, few, num_neurons, noise))
        log_w = self._smoothly(c, r) + change - np.log(others)
        peak = log_w.max()  # may be no double: hundreds of nats below the bulk

        def lattice(raised):
            """Mass in the cells of h, with w(r) e^{raised r²}."""
            density = np.exp(log_w - peak + raised * r**2)
            passed = np.concatenate([[0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(r))])
            return np.diff(np.interp(np.sqrt(cell * np.arange(len(h) + 1)), r, passed))

        mass = lattice(0.0)
        tilt = _tilt(h, mass * np.exp(peak), num_neurons, total)
        if self.problem.between and not tilt and log_w[-1] < peak - MOST_COMMON:
            # one neuron beside a population, rarer by far: raised, or rounding would hide it
            tilt = (log_w[-1] - peak + MOST_COMMON) / total
            mass = lattice(-tilt) * np.exp(tilt * total / num_neurons)
        else:
            tilt = max(tilt, 4 / total)  # sums beyond 4 · total come back faintly
            mass = mass * np.exp(-tilt * (h - total / num_neurons))
        single, square = np.fft.rfft(mass), np.fft.rfft(mass * h**2)
        # scaled by the largest entry, so that no power leaves the range of doubles
        largest = np.abs(single).max()
        k = np.arange(1, min(num_neurons, int(6 * counts[c] + 60)))
        weights, squares = _at_total(len(k), single / largest, square / largest)
        log_binomial = gammaln(num_neurons + 1) - gammaln(k + 1) - gammaln(num_neurons - k + 1)
        found, of_squares = np.maximum(weights, 1e-300), k * squares
        log_weights = log_binomial + k * (peak + np.log(largest)) + np.log(found)
        log_weights -= tilt * total / num_neurons * k
        second, fourth = num_neurons * bulk * self.bulk_squares[:, c]
        inverse = (fourth + of_squares / found) / (total + second) ** 2
        kept, p = _likely(k, log_weights)
        neurons = Neurons(kept, p, float(1 / (p @ inverse[kept - 1])))
        return _Sums(neurons, mass, largest, found[kept - 1], total / (total + second))


def _at_total(most, single, *others):
    """Densities at the total of sums over k = 1 … `most` neurons, and with one of them in the others' place.

    Of shape (1 + others, most), from Fourier transforms on the lattice, whose inverse is wanted at one place
    for each k. A sum of k midpoints lies k/2 cells from the lattice, so that odd k fall between two places.
    """
    last = len(single) - 1
    turn = np.exp(-1j * np.pi * np.arange(last + 1) / last)  # by one cell
    power = turn**-NUM_CELLS / last  # of all frequencies, of which half are held, each for two
    power[[0, -1]] /= 2
    found = []
    for k in range(1, most + 1):
        power = power * turn if k % 2 else power
        at = 0.5 * (1 + 1 / turn) * power if k % 2 else power
        found.append([(at * each).real.sum() for each in (single, *others)])
        power = power * single
    return np.transpose(found)


def _tilt(h, mass, num_neurons, total):
    """λ at which the population would make the total by itself; 0 where it makes less without."""
    h, mass = h.reshape(-1, 8).mean(1), mass.reshape(-1, 8).sum(1)  # any λ near it will do

    def excess(tilt):
        weights = mass * np.exp(-tilt * h)
        return num_neurons * (weights @ h) / (1 + weights.sum()) - total

    if excess(0) <= 0:
        return 0.0
    high = 1 / h[0]
    return float(brentq(excess, 0, high, rtol=1e-3)) if excess(high) < 0 else high  # it cancels


def solve(
    task: Task,
    temperature: float,
    *,
    nonlinearity: str = "relu",
    readout_variance: float | None = None,
) -> Solution:
    """The condensed solution of a network of one hidden layer.

    Args:
        task: inputs alike within a class, as for `theory.clustered`, ρ = 0 included; for ReLU, all inputs of
            different classes may overlap by one ρ_b < ρ.
        temperature: T ≥ 0, of paper A's scaling.
        nonlinearity: "relu" or "softplus".
        readout_variance: σ_a²; 1/P unless given.

    Returns:
        A Solution; converged=False, with a warning, where the equations are not met, a class needs no coding
        neurons (B < 0), or the branches are not silent on all other classes.

    Raises:
        ValueError: another nonlinearity, and as `clustered.solve`.
        FloatingPointError: the search leaves all tables, as where coding neurons answer to several classes.
    """
    validation.choice("nonlinearity", nonlinearity, ("relu", "softplus"))
    solution = _from_targets(task, _problem(task, temperature, nonlinearity, readout_variance))
    detail = "" if _alone(solution.dual_field) else "a branch answers to several classes"
    return solution.reported("condensation theory", detail)


def continued(task: Task, temperature: float, readout_variance: float, last: Solution | None) -> Solution:
    """`solve` of a ReLU network in a search over tasks: from the last solution, without a warning."""
    problem = _problem(task, temperature, "relu", readout_variance)
    if last is not None:
        found = _solve(task, problem, last._start, jacobian=last.jacobian)
        if found.converged:
            return found
    return _from_targets(task, problem)


def _problem(task, temperature, nonlinearity, readout_variance):
    if nonlinearity == "relu" and isinstance(task, Task) and _shared_overlap.overlaps(task) is not None:
        return _shared_overlap.make_problem(task, temperature, readout_variance)
    return clustered.make_problem(task, temperature, nonlinearity, readout_variance)


def _from_targets(task, problem) -> Solution:
    """From fields along the targets on."""
    # where classes overlap, neurons active on all of them grow along what all targets share
    pulls = (0.0, 0.5, 1.0) if problem.between else (0.0,)
    for pull in pulls:
        try:
            solution = _searched(task, problem, problem.targets - pull * problem.targets.mean(axis=0))
        except FloatingPointError:
            if pull == pulls[-1]:
                raise
            continue
        if solution.converged:
            break
    return solution


def _searched(task, problem, directions) -> Solution:
    """From fields along these directions (C, m) on."""
    lengths, norms = _edge(problem), np.linalg.norm(directions, axis=1)
    field = (lengths / norms)[:, None] * directions
    near = _solve(task, problem, np.concatenate([field.ravel(), norms / (problem.stiffness * lengths)]))
    return _solve(task, problem, near._start)  # on readouts around its own bulk


def _edge(problem):
    """|t_c| where a branch ceases to fall, shape (C,)."""
    return (problem.readout_variance * problem.counts * problem.stiffness) ** -0.5


def _alone(field):
    """Whether each class has a branch that all others are silent on."""
    return bool(np.all((field @ field.T)[~np.eye(len(field), dtype=bool)] <= 0))


def _solve(task, problem, start, firm=None, share=1.0, jacobian=None) -> Solution:
    """Field and amounts with a share of the bulk, held down by firm = M⁻¹/N (C, m, m) or not.

    By Powell's method from a start, with the Jacobian there if it is known.
    """
    temperature, lengths = problem.temperature, _edge(problem)
    counts, targets, stiffness = problem.counts, problem.targets, problem.stiffness
    # softplus is never silent, and what classes share costs the more, the larger a neuron is
    silences = np.full(len(counts), -np.inf)
    if problem.nonlinearity == "relu" and not problem.between:
        each = zip(counts, problem.within, problem.diagonal)
        silences = np.array([log_silence(int(n), float(rho), float(one)) for n, rho, one in each])

    def parts(x):
        return x[: targets.size].reshape(targets.shape), x[targets.size :]

    def equations(x):
        field, amounts = parts(x)
        weights, means = _bulk_means(field, problem, places, firm)
        carried = (stiffness * amounts)[:, None] * field
        left = targets - temperature * field - share * (weights * means.T) @ places - carried
        return np.concatenate([left.ravel(), np.square(field).sum(1) / lengths**2 - 1])

    places = _places(start[: targets.size].reshape(targets.shape), problem)
    known = None if jacobian is None else lambda _: jacobian
    found = root(equations, start, jac=known, tol=1e-12)
    upper = np.zeros((start.size, start.size))
    upper[np.triu_indices(start.size)] = found.r
    field, amounts = parts(found.x)
    bulk = _bulk(field, problem, places, firm)
    residual = float(np.abs(found.fun).max())
    weights, points, means = bulk.weights, bulk.points, bulk.means
    unit = stiffness * lengths  # m of a coding neuron of r = 1
    mean = (weights * means.T) @ points
    block = share * np.tensordot(weights, bulk.products, 1)
    np.fill_diagonal(block, share * weights @ bulk.shared + amounts * unit**2)
    squares = weights @ (bulk.shared + bulk.spreads / counts)
    costs = np.array([bulk.log_value - np.delete(silences, c).sum() for c in range(len(counts))])
    root_amounts = np.sqrt(np.maximum(amounts, 0))
    return Solution(
        task=task,
        nonlinearity=problem.nonlinearity,
        temperature=temperature,
        readouts=np.vstack([(root_amounts / lengths)[:, None] * field, weights @ points]),
        activations=np.vstack([np.diag(root_amounts * unit), weights @ means]),
        dual_field=field,
        amounts=amounts,
        jacobian=found.fjac.T @ upper,
        costs=costs,
        densities=(2 * np.pi * problem.readout_variance) ** -0.5 * np.exp(-costs),
        kernel_block=block,
        kernel_diagonal=share * weights @ bulk.spreads,
        bulk_fraction=share,
        bulk_squares=np.array([squares / unit**2, weights @ bulk.fourth / unit**4]),
        bulk_amounts=np.sum(mean * field, 1) / (stiffness * lengths**2),
        bulk_noise=share * np.einsum("k,kc,kr,kq->crq", weights, bulk.spreads, points, points),
        log_bulk=float(bulk.log_value),
        within=problem.within,
        diagonal=problem.diagonal,
        problem=problem,
        ensemble=bulk,
        residual=residual,
        num_steps=int(found.nfev),
        converged=bool(residual < TOLERANCE and np.all(amounts > 0) and _alone(field)),
    )


class _Bulk(NamedTuple):
    """The bulk's integral over readouts, on a lattice."""

    log_value: float
    points: np.ndarray  # a, shape (n, m)
    weights: np.ndarray  # normalized, shape (n,)
    means: np.ndarray  # per class, shape (n, C)
    shared: np.ndarray  # mean product of two inputs of a class, shape (n, C)
    products: np.ndarray  # of inputs of two classes, shape (n, C, C)
    spreads: np.ndarray  # V, mean square less that, shape (n, C)
    fourth: np.ndarray  # ⟨m⁴⟩ of the class mean, shape (n, C)


def _places(field, problem):
    """A lattice of readouts around the bulk's maximum, which equations keep, for it moves by leaps."""
    scale, readout = np.sqrt(problem.readout_variance), np.zeros(field.shape[1])
    for _ in range(40):  # never decreases the density
        on_classes, last = field @ readout, readout
        if not np.abs(on_classes).max() < MOST_FIELD:
            raise FloatingPointError("the bulk's maximum has left along a branch: the search diverged")
        means = problem.site.means(on_classes[None])[1][0]
        readout = problem.readout_variance * (problem.counts * means) @ field
        if np.abs(readout - last).max() <= 1e-12 * scale:
            break
    reach = int(BULK_RADIUS)
    cube = np.indices((2 * reach + 1,) * len(readout)).reshape(len(readout), -1).T - reach
    cube = cube[np.square(cube).sum(1) <= BULK_RADIUS**2]
    return np.asfortranarray(scale * (cube + np.round(readout / scale)))


def _bulk_means(field, problem, points, firm=None) -> tuple[np.ndarray, np.ndarray]:
    """Weights and means of `_bulk`, which the equations ask for again and again."""
    if firm is not None:
        bulk = _bulk(field, problem, points, firm)
        return bulk.weights, bulk.means
    log_g, means = problem.site.means(points @ field.T)
    return normalized(log_g - _cost(points, problem))[1], means


def _cost(points, problem):
    """½|a|²/σ_a²."""
    return np.square(points).sum(axis=1) * (0.5 / problem.readout_variance)


def _bulk(field, problem, points, firm=None) -> _Bulk:
    """The integral over these readouts, held down by firm = M⁻¹/N as in `at_width`."""
    on_classes, counts = points @ field.T, problem.counts
    free = problem.site.averages(on_classes, slopes=firm is not None)
    exponent = free.log_g - _cost(points, problem)
    means, shared, products, spreads = free.means, free.shared, free.products, free.squares - free.shared
    if firm is not None:
        b = np.einsum("kr,crq,kq->kc", points, firm, points) * (counts - 1)
        exponent -= 0.5 * np.sum(b * spreads, axis=1)
        change = -0.5 * np.einsum("kd,kdc->kc", b, free.slopes) / counts
        means = means + change
        shared = shared + means**2 - free.means**2
        products = (
            products + means[:, :, None] * means[:, None] - free.means[:, :, None] * free.means[:, None]
        )
    log_value, weights = normalized(exponent)
    log_value -= 0.5 * points.shape[1] * np.log(2 * np.pi)  # σ_a cancels against the prior's norm
    return _Bulk(float(log_value), points, weights, means, shared, products, spreads, free.fourths)
