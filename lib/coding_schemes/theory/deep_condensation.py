r"""Two hidden layers of ReLU: how alike the layer below makes the inputs of a class, and what follows.

Inputs overlap by ρ_c within class c and not between classes, K0_μμ = ρ_c + σ_c²; or not at all.

    (1/N) log Z = −½ tr K̂K + log Z_1(K̂) + log Z_2(t; K) − Σ_μ t_μ·y_μ + (T/2) Σ_μ |t_μ|² ,
    Z_1 = ⟨exp(½ φ(z)ᵀK̂φ(z))⟩, z ~ N(0, K0),   Z_2 = ⟨exp(Σ_μ a·t_μ φ(z_μ))⟩, z ~ N(0, K), a ~ N(0, σ_a²) ,

stationary in the kernel K of the layer below, its dual kernel K̂ (the primer's K̃), and t. Both depend on
classes alone, but for the diagonal:

    K = ⟨φφᵀ⟩_1 ,    K̂ = 2 ∂ log Z_2/∂K .

**Feature layer.** A network of one hidden layer on inputs of kernel K: `theory.condensation`, with the mean
overlap between classes for all of them. For Gaussian x of variance v, ∂ log⟨f⟩/∂v = (⟨x²⟩_f/v − 1)/2v; so
K̂ takes the second moments of what a neuron's preactivations share (`_shared_overlap.Site.variance_slopes`).
Coding neurons add those of their load, ½ B_c |t_c|² n_c κ_c.

**Layer below.** A neuron is known by its sums S_c = Σ_{μ∈c} φ_μ and Q_c = Σ φ_μ²,

    log weight = ½ Σ_c [(K̂_μμ − K̂_c) Q_c + K̂_c S_c²] + K̂_b Σ_{c<d} S_c S_d .

Given the part √ρ_c v of z that its inputs share, sums of a class lie on a lattice, by convolution; classes
are joined one after another, by what all before have in sum. Of a neuron that is active on all of class c,
with mean x, and silent elsewhere, the logarithms of weight and prior are ½ n_c x² [K̂_μμ + (n_c − 1) K̂_c] and
−½ n_c x²/κ_c, κ_c = σ_c² + n_c ρ_c. Where the bracket is 1/κ_c the branch is flat, with the density per x

    w_c = √(n_c/2πκ_c) (1 − σ_c² (K̂_μμ − K̂_c))^{−(n_c−1)/2} Π_{d≠c} Prob(z < 0 on class d) / Z_b .

As in `theory.condensation`, N* = 3 (π w_c² β_c/2)^{−1/3}, and N ≪ N* has one neuron per class, with
(1/N) x² = β_c = K_c − ⟨φφ⟩_bulk. (N → ∞ at fixed P has a crowd, and the same K.) Inputs of other classes are
silent at log 2 each if they are unrelated, and at the whole cost where x |K̂_b| n_c ≫ 1; at moderate N the
cost, and N* with it, is less.

**Bulk and branch.** The bulk's sums end at n_c + 5√n_c, where the branch is flat already. With few or alike
inputs in the other classes it is not far below the bulk, and β depends on the end, while K does not.
`amounts_error` is what another end changes.

**What is neglected**: 1/N in the layer below, its scatter within a class among it; how overlaps differ
between pairs of classes, unless all are of one kind; what `theory.condensation` neglects.

Source: the book's own; the joint saddle point is paper A's and B's (Eqs. 6–8).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import root
from scipy.special import log_ndtr, ndtr

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory import clustered, condensation
from coding_schemes.theory._alike_outliers import flat_width
from coding_schemes.theory._solution import Solved
from coding_schemes.theory.gaussian_process import prior_kernels

TOLERANCE = 1e-6  # relative, of every equation
_STEP = 0.1  # of the lattice of sums
_SPACING = 0.7  # of nodes of what inputs share, in its standard deviations given all of them
_REACH = 8.0  # standard deviations of it that are integrated over
_PRIOR = 1 / (2 * np.pi)  # ⟨φ⟩²
_TOO_FAR = 1e3  # error where the feature layer has no solution, so that the search steps back
_GREGORY = np.array([3 / 8, 7 / 6, 23 / 24])  # first nodes of the trapezoid rule, to fourth order there


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution(Solved):
    """The layer below, and the feature layer on it.

    Attributes:
        task: what was learned.
        temperature: T.
        within: K_μν of the layer below for μ ≠ ν in a class, shape (C,).
        between: the same of two classes.
        diagonal: K_μμ, shape (C,).
        amounts: β_c, what one neuron adds to `within`, shape (C,).
        amounts_error: by how much they depend on where the bulk ends, shape (C,).
        crossover_width: N* of the layer below, an upper bound; NaN where β_c is below its error, so that bulk
            and branch are not told apart; shape (C,).
        features: the feature layer, as of inputs with this kernel; `couplings` has its K̂.
    """

    task: Task
    temperature: float
    within: np.ndarray
    between: float
    diagonal: np.ndarray
    amounts: np.ndarray
    amounts_error: np.ndarray
    crossover_width: np.ndarray
    features: condensation.Solution

    @property
    def approximation(self) -> str:
        """What the theory neglects."""
        known = self.crossover_width[np.isfinite(self.crossover_width)]
        least = f" = {known.min():.2g}" if known.size else ""
        told = f"one neuron per class below, as for N ≪ N*{least}, without 1/N"
        return f"{told}; one overlap between all classes"

    @property
    def kernel_below(self) -> np.ndarray:
        """K on the training inputs, shape (P, P)."""
        return self.features.task.input_kernel

    def participation(self, num_neurons: int) -> np.ndarray:
        """1/⟨1/PR⟩ of every class in the feature layer, for N neurons there, shape (C,)."""
        return self.features.participation(num_neurons)


def solve(task: Task, temperature: float, *, readout_variance: float | None = None) -> Solution:
    """Two hidden layers of ReLU, whose layer below has one neuron for each class.

    Args:
        task: inputs that overlap evenly within each class and not between classes, or not at all; one target
            per class, at least two inputs in each.
        temperature: T ≥ 0, of paper A's scaling.
        readout_variance: σ_a²; 1/√P unless given.

    Returns:
        A Solution; converged=False, with a warning, where the equations are not met, the feature layer's
        solution has not converged, or a class has no neuron of its own below (β_c ≤ 0, K̂_c ≤ 0, or K̂_b ≥ 0).

    Raises:
        ValueError: other inputs, and as `condensation.solve`.
        FloatingPointError: the search leaves all tables.
    """
    overlaps, diagonal = clustered.required_overlaps(task)
    scatter = diagonal - overlaps
    validation.positive(**validation.given(readout_variance=readout_variance))
    variance = task.num_inputs**-0.5 if readout_variance is None else float(readout_variance)
    counts = task.class_counts
    if counts.min() < 2:
        raise ValueError(f"task: got a class of one input in {task.name!r}; each needs at least 2 here")
    stiffness = scatter + counts * overlaps
    known: list[condensation.Solution] = []

    def parts(x):
        """Noise, what a class has of its own, ρ_b; the feature layer, couplings, and the bulk below."""
        noise, own, between = np.exp(x[: len(counts)]), np.exp(x[len(counts) : -1]), np.exp(x[-1])
        kernel = clustered.kernel_of_form(own + between, noise + own + between, task.labels, between)
        like = clustered.with_kernel(task, kernel)
        features = condensation.continued(like, temperature, variance, known[-1] if known else None)
        known[:] = [features] if features.converged else known
        hat = couplings(features)
        # at the edge, where a solution lies; beyond, the bulk's averages would be those of the branch
        below = bulk(counts, hat.rest, (1 / stiffness - hat.rest) / counts, hat.between, overlaps, scatter)
        return noise, own, between, features, hat, below

    def equations(x):
        try:
            noise, _, between, _, hat, below = parts(x)
        except FloatingPointError:
            if not known:
                raise
            return np.full(x.size, _TOO_FAR)
        edge = (hat.diagonal + (counts - 1) * hat.within) * stiffness
        return np.concatenate([below.rest / noise - 1, edge - 1, [below.between / between - 1]])

    of_prior, of_one = clustered.with_kernel(task, prior_kernels(task.inputs)[-1]).mean_overlaps
    own = 1.6 * task.num_inputs**-0.5 * (1 + 8 * overlaps)  # about as much as comes out
    between = _PRIOR * (1 + 2 * overlaps.mean())
    start = np.concatenate([of_one - np.diag(of_prior), own, [between]])
    found = root(equations, np.log(start), tol=0.01 * TOLERANCE, options={"eps": 1e-8})
    noise, own, between, features, hat, below = parts(found.x)
    residual, amounts = float(np.abs(found.fun).max()), own + between - below.within
    farther = bulk(counts, hat.rest, hat.within, hat.between, overlaps, scatter, 8.0)
    error = np.abs(farther.within - below.within)
    silent = _log_silent(counts, overlaps, scatter)
    costs = below.log_value - (silent.sum() - silent) + 0.5 * (counts - 1) * np.log(1 - scatter * hat.rest)
    apart = bool(np.all(amounts > 0) and np.all(hat.within > 0) and hat.between < 0)
    solution = Solution(
        task=task,
        temperature=float(temperature),
        within=own + between,
        between=float(between),
        diagonal=noise + own + between,
        amounts=amounts,
        amounts_error=error,
        crossover_width=flat_width(np.where(amounts > error, counts * amounts / stiffness, np.nan), costs),
        features=features,
        residual=residual,
        num_steps=int(found.nfev),
        converged=bool(residual < TOLERANCE and features.converged and apart),
    )
    detail = "" if apart else "a class has no neuron of its own in the layer below"
    return solution.reported("theory of two layers", detail)


@dataclass(frozen=True)
class ByClasses:
    """A symmetric matrix (P, P) by classes: its diagonal (C,), within a class (C,), between any two.

    Of an average, with the log of what its weights sum to.
    """

    diagonal: np.ndarray
    within: np.ndarray
    between: float
    log_value: float = 0.0

    @property
    def rest(self) -> np.ndarray:
        """By how much the diagonal is above the entries within a class, (C,)."""
        return self.diagonal - self.within


def couplings(features: condensation.Solution) -> ByClasses:
    """K̂ = 2 ∂ log Z_2/∂K at the feature layer's field, of its bulk and its coding neurons."""
    problem, field, counts = features.problem, features.dual_field, features.problem.counts
    ensemble = features.ensemble
    shared, own, noise = problem.site.variance_slopes(ensemble.points @ field.T, ensemble.weights)
    loads = 0.5 * features.amounts * np.square(field).sum(1) * counts
    for c, load in enumerate(loads):  # of κ_c = noise + n V_c
        pull = problem.site.along[c]
        own = own + load * counts[c] * pull**2
        shared += load * counts[c] * pull.sum() ** 2
        noise = noise + load * np.where(np.arange(len(counts)) == c, 1, counts[c] * pull**2 / counts)
    # own = K_c − K_b and noise = K_μμ − K_c
    pairs = np.maximum(counts * (counts - 1), 1)
    others = counts.sum() ** 2 - np.sum(counts**2)
    return ByClasses(2 * noise / counts, 2 * (own - noise) / pairs, float(2 * (shared - own.sum()) / others))


def bulk(
    counts: np.ndarray,
    rest: np.ndarray,
    within: np.ndarray,
    between: float,
    overlaps: np.ndarray,
    scatter: np.ndarray,
    reach: float = 5.0,
) -> ByClasses:
    """⟨φφᵀ⟩ by classes of neurons of the layer below that do not code.

    Args:
        counts: n_c, shape (C,).
        rest: K̂_μμ − K̂_c < 1/σ_c², shape (C,).
        within: K̂_c, shape (C,).
        between: K̂_b.
        overlaps: ρ_c of the inputs, shape (C,).
        scatter: σ_c² > 0, what each input has of its own, shape (C,).
        reach: sums of a class end at n_c + reach √n_c.
    """
    sites = [_sums(*of_class, reach) for of_class in zip(counts, rest, within, overlaps, scatter)]
    forward: list[np.ndarray] = [np.ones(1)]  # weights of the sum over the first classes
    for x, weights, _ in sites:
        before = _STEP * np.arange(len(forward[-1]))
        joint = forward[-1][:, None] * weights * np.exp(between * np.outer(before, x))
        places = np.add.outer(np.arange(len(before)), np.arange(len(x)))
        forward.append(np.bincount(places.ravel(), joint.ravel()))
    total = forward[-1].sum()
    of_all = forward[-1] @ (_STEP * np.arange(len(forward[-1]))) ** 2 / total
    after, squares, powers = np.ones(len(forward[-1])), [], []
    for before, (x, weights, of_squares) in zip(forward[-2::-1], sites[::-1]):
        rest_of = np.lib.stride_tricks.sliding_window_view(after, len(x))[: len(before)]
        joint = rest_of * np.exp(between * _STEP * np.outer(np.arange(len(before)), x))
        given = before @ joint / total
        squares.append(given @ (weights * x**2))
        powers.append(given @ of_squares)
        after = joint @ weights
    second, power = np.array(squares[::-1]), np.array(powers[::-1])
    pairs = counts.sum() ** 2 - np.sum(counts**2)
    return ByClasses(
        power / counts,
        (second - power) / np.maximum(counts * (counts - 1), 1),
        float((of_all - second.sum()) / pairs),
        float(np.log(total)),
    )


def _sums(count, rest, within, overlap, scatter, reach):
    """Lattice of S; the weight of a class's sum there, by itself; the same times ⟨Q⟩."""
    x = np.arange(0, count + reach * np.sqrt(count), _STEP)
    # where the largest sums come from
    farthest = np.sqrt(overlap) * x[-1] / (scatter + count * overlap)
    found = np.zeros((2, len(x)))
    for mean, share in zip(*_shared_parts(count, overlap, scatter, farthest)):
        one = np.exp(0.5 * rest * x**2 - 0.5 * (x - mean) ** 2 / scatter)
        one *= _STEP / np.sqrt(2 * np.pi * scatter)
        one[: len(_GREGORY)] *= _GREGORY
        one[0] += ndtr(-mean / np.sqrt(scatter))
        fewer = _power(one, int(count) - 1)
        found += [share * np.convolve(fewer, each)[: len(x)] for each in (one, count * one * x**2)]
    return x, *(np.exp(0.5 * within * x**2) * found)


def _power(one, count):
    """Weights of a sum of so many, on the lattice of one."""
    found = np.ones(1)
    for bit in f"{count:b}":
        found = np.convolve(found, found)[: len(one)]
        if bit == "1":
            found = np.convolve(found, one)[: len(one)]
    return found


def _shared_parts(count, overlap, scatter, farthest=0.0):
    """Nodes √ρ v of what the inputs of a class share, to 8 standard deviations of v and farther; weights."""
    if overlap == 0:
        return np.zeros(1), np.ones(1)
    step = _SPACING / np.sqrt(1 + count * overlap / scatter)
    v = np.arange(-_REACH, _REACH + farthest, step)
    return np.sqrt(overlap) * v, step * np.exp(-0.5 * v**2) / np.sqrt(2 * np.pi)


def _log_silent(counts, overlaps, scatter):
    """Log of the prior probability that a neuron is silent on all inputs of a class, (C,)."""
    found = []
    for count, overlap, own in zip(counts, overlaps, scatter):
        means, shares = _shared_parts(count, overlap, own)
        found.append(np.log(shares @ np.exp(count * log_ndtr(-means / np.sqrt(own)))))
    return np.array(found)
