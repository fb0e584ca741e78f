r"""Redundant coding schemes in deep networks: codes, occupancies and kernels of every layer.

**Mean-field theory.** In wide networks the layers decouple given their kernels. With K_0 = 1 and
conjugate kernels K̃_ℓ, one neuron of layer ℓ has the density

    P(z) ∝ N(z; 0, K_{ℓ−1}) exp(½ φ(z)ᵀ K̃_ℓ φ(z)),   normaliser Z_ℓ(K_{ℓ−1}, K̃_ℓ),

and the log evidence per neuron is

    G(K_1 … K_{L−1}) = min_t D(t; K_{L−1}) + Σ_{ℓ<L} min_{K̃_ℓ} [log Z_ℓ(K_{ℓ−1}, K̃_ℓ) − ½ tr K̃_ℓ K_ℓ],
    D(t; K_{L−1}) = log Z_L(K_{L−1}, σ_a² t tᵀ) − tr tᵀY + (T/2)‖t‖²,

the readouts being integrated out of the last layer (a | z ~ N(σ_a² tᵀφ(z), σ_a²)). Every inner minimum
is convex, with one solution. A scheme is a maximum of G over the kernels, where
K̃_ℓ = 2 ∂ log Z_{ℓ+1} / ∂K_ℓ.

**Class symmetry.** On orthogonal inputs every K is a class block k (C, C) plus a class-wise diagonal d,
every K̃ a block κ plus a diagonal δ. A neuron of layer ℓ enters through the class sums Φ_c = Σ_{μ∈c} φ(z_μ)
and Q_c = Σ_{μ∈c} φ(z_μ)² alone, with the tilt ½ Φᵀκ Φ + ½ δ·Q:

- First layer: the n_c inputs of a class are independent, and the density of Φ_c is that of a sum of
  n_c terms: the saddle-point (Daniels) formula with its first correction, relative error O(1/n_c²).
- Higher layers: z_μ = v_c + √d_c ξ_μ. The class mean w_c of z_μ has the covariance k + diag(d_c/n_c), and
  the scatter around it is taken to be that of the prior: Φ_c = n_c E φ(w_c + √d_c ξ). What the tilt does to
  the scatter is left out; it is of second order in d_c/n_c against k.

Both leave an integral over C variables, one per class, done by the trapezoid rule on a product lattice:
exponent and statistics only couple pairs of classes. Points far below the highest are never listed. No list
of codes is assumed.

Source: paper A, "Redundant coding scheme" in deep networks and supplement B.1; the solution at finite T
and finite P, as a maximum of the evidence over kernels, is this book's.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.linalg import block_diag
from scipy.special import logsumexp

from coding_schemes import coding, validation
from coding_schemes.tasks import Task
from coding_schemes.theory import sigmoidal
from coding_schemes.theory._convex_dual import Problem, make_problem
from coding_schemes.theory._drawn import GRID, Drawn, matrix_given_response
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solvers import newton
from coding_schemes.theory._tilted import LOG_CELL, NODES, Nonlinearity, central_moments, normalized

TOLERANCE = 1e-4  # on the residual, in nats per neuron
READOUT_TOLERANCE = 1e-4  # on |σ_a² K_L t + T t − y|
MAX_CLASSES = 4  # the lattice has one dimension per class
MAX_STEPS = 80  # of the ascent over kernels
CUTOFF = 28.0  # lattice points with a density below e^{−28} of the highest are left out
CUTOFF_OF_MANY = 21.0  # the same with more classes than FEW: half as many points, which lack less than NOISE
FEW = 3
NOISE = 1e-7  # what that does to log Z, at most; line searches look past it
BLOCK = 2**22  # exponents compared at once
SWEEPS = 6  # of the search for a high point
INNER_TOLERANCE = 1e-6  # nats per neuron, of the inversion from kernel to tilt
WIDTH = 5.0  # the lattice over class means w of higher layers covers −5 … 5, with this
SPACING = 0.14  # spacing, twice the width of the narrowest peaks or less
FIELD_RANGE = 4.7  # first layer: fields s = sinh(x), |x| ≤ 4.7, i.e. |s| ≤ 55
SMALLEST_SCATTER = 1e-7
SCATTER_NODES, _weights = np.polynomial.hermite_e.hermegauss(40)
SCATTER_WEIGHTS = _weights / _weights.sum()


class Kernel(NamedTuple):
    """K of a layer: K_μν = block[c, c'] for μ ≠ ν in classes c, c', and block + diagonal for μ = ν.

    Its conjugate K̃ likewise, of κ and δ.
    """

    block: np.ndarray  # shape (C, C)
    diagonal: np.ndarray  # shape (C,)


class Layer(NamedTuple):
    """One layer's single-neuron density as weighted points."""

    log_value: float  # log Z_ℓ
    weights: np.ndarray  # of the points, shape (n,), summing to one
    group: np.ndarray | None  # row of the code a point belongs to where occupancies are frozen, shape (n,)
    activations: np.ndarray  # mean of φ over each class's inputs, shape (n, C)
    variances: np.ndarray  # variance of φ over each class's inputs, shape (n, C)
    kernel: Kernel  # K_ℓ = ⟨φφᵀ⟩
    covariance: np.ndarray  # of the statistics conjugate to (κ, δ), see _statistics
    below: np.ndarray | None  # ∂ log Z_ℓ / ∂K_{ℓ−1} in the same coordinates; None for the first layer


# --- one class of inputs ------------------------------------------------------------------------


class _Marginal(NamedTuple):
    """Per lattice point of one class: log prior weight, Φ, Q, w, derivatives of Φ and Q in d, Var(Q | Φ)."""

    log_weight: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    mean_field: np.ndarray
    sums_by_scatter: np.ndarray
    squares_by_scatter: np.ndarray
    spread: np.ndarray


def _first_marginal(site, count, tilt) -> _Marginal:
    """Density of Φ = Σ φ(ξ_μ) with weight e^{δφ²/2} per input, on a lattice of fields s with Φ = n Λ'(s)."""
    step = min(0.25, 0.9 / np.sqrt(count))
    x = np.arange(-np.ceil(FIELD_RANGE / step), np.ceil(FIELD_RANGE / step) + 1) * step
    s = np.sinh(x)
    weights, log_density, mean, variance = _sum_density(site, count, tilt, s)
    phi = site.values
    off = phi**2 - (weights @ phi**2)[:, None]
    mixed = np.sum(weights * off * (phi - mean[:, None]), axis=1)
    # E[Q | Φ] = 2 ∂ log p(Φ)/∂δ at fixed Φ, where ∂s/∂δ = −½ Cov(φ, φ²)/Var φ
    shift = 1e-3
    moved = s - 0.5 * shift * mixed / variance, s + 0.5 * shift * mixed / variance
    up, down = (_sum_density(site, count, tilt + e, f)[1] for e, f in zip((shift, -shift), moved))
    spread = count * np.maximum(np.sum(weights * off**2, axis=1) - mixed**2 / variance, 0)
    none = np.zeros_like(s)
    log_weight = log_density + np.log(count * variance * np.cosh(x) * step)
    return _Marginal(log_weight, count * mean, (up - down) / shift, none, none, none, spread)


def _sum_density(site, count, tilt, s):
    """Daniels' log density of Φ at Φ = n Λ'(s), with the tilted weights of φ, its mean and variance."""
    phi = site.values
    log_g, weights = normalized(s[:, None] * phi + 0.5 * tilt * phi**2 - 0.5 * NODES**2 - LOG_CELL)
    mean, variance, third, fourth = central_moments(phi, weights, 4)
    correction = ((fourth / variance**2 - 3) / 8 - 5 * third**2 / variance**3 / 24) / count
    log_density = count * (log_g - s * mean) - 0.5 * np.log(2 * np.pi * count * variance)
    return weights, log_density + np.log1p(np.maximum(correction, -0.5)), mean, variance


def _higher_marginal(site, count, scatter) -> _Marginal:
    """Φ and Q as functions of the class mean w, and their derivatives in d (half their second in w)."""
    w = np.arange(-np.ceil(WIDTH / SPACING), np.ceil(WIDTH / SPACING) + 1) * SPACING
    shift = 0.01
    shifts = shift * np.array([-1, 0, 1])[:, None]
    phi = site.phi(w[:, None, None] + shifts + np.sqrt(scatter) * SCATTER_NODES)
    smooth, square = phi @ SCATTER_WEIGHTS, phi**2 @ SCATTER_WEIGHTS
    curvature = np.array([1.0, -2.0, 1.0]) / shift**2
    return _Marginal(
        np.full_like(w, np.log(SPACING) - 0.5 * np.log(2 * np.pi)),
        count * smooth[:, 1],
        count * square[:, 1],
        w,
        0.5 * count * smooth @ curvature,
        0.5 * count * square @ curvature,
        np.zeros_like(w),
    )


# --- one layer ----------------------------------------------------------------------------------


class _Frozen(NamedTuple):
    """Codes (k, C) that neurons are restricted to, and the fraction of neurons with each (k,)."""

    codes: np.ndarray
    occupancies: np.ndarray


def _layer(problem: Problem, below: Kernel | None, tilt: Kernel, frozen: _Frozen | None = None) -> Layer:
    """The density of a neuron under K̃ = tilt, with K = below (None: the inputs' kernel K_0 = 1)."""
    counts, num_classes = problem.counts, len(problem.counts)
    precision = np.zeros((num_classes, num_classes))
    log_norm = 0.0
    if below is None:
        classes = [_first_marginal(problem.site, n, delta) for n, delta in zip(counts, tilt.diagonal)]
        unary = [one.log_weight for one in classes]
    else:
        scatter = np.maximum(below.diagonal, SMALLEST_SCATTER)
        covariance = below.block + np.diag(scatter / counts)
        precision = np.linalg.inv(covariance)
        sign, log_norm = np.linalg.slogdet(covariance)
        if sign <= 0 or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise FloatingPointError("the kernel below is not positive definite")
        classes = [_higher_marginal(problem.site, n, d) for n, d in zip(counts, scatter)]
        unary = [one.log_weight + 0.5 * delta * one.squares for one, delta in zip(classes, tilt.diagonal)]
    own = [
        one + 0.5 * (tilt.block[c, c] * each.sums**2 - precision[c, c] * each.mean_field**2)
        for c, (one, each) in enumerate(zip(unary, classes))
    ]
    pairs = {
        (c, e): tilt.block[c, e] * np.outer(classes[c].sums, classes[e].sums)
        - precision[c, e] * np.outer(classes[c].mean_field, classes[e].mean_field)
        for c, e in itertools.combinations(range(num_classes), 2)
    }
    offset, group = -0.5 * log_norm, None
    if frozen is None:
        index, exponent = _highest(own, pairs)
    else:
        active = [one.sums > problem.site.threshold * n for one, n in zip(classes, counts)]
        index, exponent, group, entropy = _freeze(own, pairs, active, frozen)
        offset = entropy - 0.5 * log_norm
    log_value, weights = normalized(exponent)

    def gather(name):
        return np.stack([getattr(one, name)[i] for one, i in zip(classes, index)], axis=1)

    sums, squares = gather("sums"), gather("squares")
    activations = sums / counts
    statistics = _statistics(sums, squares)
    mean = weights @ statistics
    covariance_statistics = _covariance(statistics, weights, group)
    squared = np.arange(len(mean) - num_classes, len(mean))
    covariance_statistics[squared, squared] += 0.25 * weights @ gather("spread")
    slope = None
    if below is not None:
        w = gather("mean_field")
        moment = precision @ ((w * weights[:, None]).T @ w) @ precision - precision
        fields = sums @ tilt.block
        by_scatter = fields * gather("sums_by_scatter") + 0.5 * tilt.diagonal * gather("squares_by_scatter")
        slope = _conjugate(0.5 * moment, 0.5 * np.diag(moment) / counts + weights @ by_scatter, counts)
    return Layer(
        float(log_value) + offset,
        weights,
        group,
        activations,
        squares / counts - activations**2,
        _to_kernel(mean, counts),
        covariance_statistics,
        slope,
    )


def _highest(own, pairs):
    """Lattice points with Σ_c own_c + Σ_{c<e} pair_ce near its maximum: indices (C, n), exponents (n,).

    The list grows class by class. A beginning goes on where a bound on all its ends, the best of every class
    that is left and of every pair among these, comes near to a point known to be high.
    """
    cutoff = CUTOFF if len(own) <= FEW else CUTOFF_OF_MANY
    floor = _climb(own, pairs) - cutoff
    index, value = np.zeros((0, 1), dtype=int), np.zeros(1)
    for c in range(len(own)):
        later = range(c + 1, len(own))
        among = sum(pairs[pair].max() for pair in itertools.combinations(later, 2))
        grown = []
        for rows in np.array_split(np.arange(len(value)), 1 + len(value) * len(own[c]) ** 2 // BLOCK):
            field = {
                d: np.atleast_2d(own[d] + sum(pairs[e, d][index[e, rows]] for e in range(c)))
                for d in range(c, len(own))
            }
            exponent = value[rows, None] + field[c]
            ends = sum((field[d][:, None] + pairs[c, d]).max(axis=-1) for d in later)
            row, last = np.nonzero(exponent + ends + among > floor)
            grown.append((np.vstack([index[:, rows[row]], last]), exponent[row, last]))
        index, value = (np.concatenate(each, axis=-1) for each in zip(*grown))
    near = value > value.max() - cutoff
    return index[:, near], value[near]


def _climb(own, pairs):
    """The exponent of a high point: coordinate by coordinate, from the best of every half of the lattice."""
    halves = [(one[: len(one) // 2].argmax(), len(one) // 2 + one[len(one) // 2 :].argmax()) for one in own]
    index, classes = np.array(list(itertools.product(*halves))).T, range(len(own))
    for _ in range(SWEEPS):
        for c in classes:
            others = (
                pairs[e, c][index[e]] if e < c else pairs[c, e][:, index[e]].T for e in classes if e != c
            )
            field = own[c] + sum(others)
            index[c] = np.atleast_2d(field).argmax(axis=-1)
    value = sum(one[i] for one, i in zip(own, index))
    return (value + sum(pair[index[c], index[e]] for (c, e), pair in pairs.items())).max()


def _freeze(own, pairs, active, frozen):
    """Points of every code, rescaled to the given occupancies; rows of codes; Σ_γ p_γ (log Z_γ − log p_γ)."""
    found, entropy = [], 0.0
    for row, (code, fraction) in enumerate(zip(frozen.codes, frozen.occupancies)):
        inside = [np.where(on == bit, one, -np.inf) for one, on, bit in zip(own, active, code)]
        index, exponent = _highest(inside, pairs)
        log_value = logsumexp(exponent)
        entropy += fraction * (log_value - np.log(fraction))
        found.append((index, exponent - log_value + np.log(fraction), np.full(len(exponent), row)))
    return *(np.concatenate(each, axis=-1) for each in zip(*found)), entropy


def _covariance(values, weights, group):
    """Of values (n, k) under the weights; within the groups only, where there are any."""
    scaled = values * weights[:, None]
    covariance = scaled.T @ values
    for g in [None] if group is None else np.unique(group):
        members = slice(None) if g is None else group == g
        mean = scaled[members].sum(axis=0)
        covariance -= np.outer(mean, mean) / weights[members].sum()
    return covariance


def _statistics(sums, squares):
    """What is conjugate to (κ_cc' for c < c'; κ_cc; δ_c): (Φ_cΦ_c'; ½Φ_c²; ½Q_c), along the last axis."""
    c, e = np.triu_indices(sums.shape[-1], 1)
    return np.concatenate([sums[..., c] * sums[..., e], 0.5 * sums**2, 0.5 * squares], axis=-1)


def _to_kernel(statistics, counts) -> Kernel:
    """From the statistics' means: ⟨Φ_cΦ_c'⟩ = n_c n_c' k, plus n_c d if c = c'; ⟨Q_c⟩ = n_c (k + d)."""
    products, own, squares = _parts(statistics, len(counts))
    within = 2 * (own - squares) / np.maximum(counts**2 - counts, 1)
    block = _symmetric(products / _above_diagonal(np.outer(counts, counts)), within)
    return Kernel(block, 2 * squares / counts - within)


def _from_kernel(kernel: Kernel, counts) -> np.ndarray:
    own = np.diag(kernel.block)
    products = _above_diagonal(np.outer(counts, counts)) * _above_diagonal(kernel.block)
    squares = 0.5 * counts * (own + kernel.diagonal)
    return np.concatenate([products, 0.5 * (counts**2 * own + counts * kernel.diagonal), squares])


def _conjugate(by_block, by_diagonal, counts) -> np.ndarray:
    """Derivatives in (k, d) turned into derivatives in the statistics' means."""
    products = 2 * _above_diagonal(by_block) / _above_diagonal(np.outer(counts, counts))
    own = 2 * (np.diag(by_block) - by_diagonal) / np.maximum(counts**2 - counts, 1)
    return np.concatenate([products, own, 2 * by_diagonal / counts - own])


def _to_vector(tilt: Kernel) -> np.ndarray:
    return np.concatenate([_above_diagonal(tilt.block), np.diag(tilt.block), tilt.diagonal])


def _to_tilt(vector, num_classes) -> Kernel:
    products, own, diagonal = _parts(vector, num_classes)
    return Kernel(_symmetric(products, own), diagonal)


def _parts(vector, num_classes):
    """Entries for pairs of classes, for classes, and for their diagonals."""
    return np.split(vector, [-2 * num_classes, -num_classes])


def _above_diagonal(matrix):
    return matrix[np.triu_indices(len(matrix), 1)]


def _symmetric(above_diagonal, diagonal):
    matrix = np.diag(diagonal)
    matrix[np.triu_indices(len(matrix), 1)] = above_diagonal
    return matrix + np.triu(matrix, 1).T


# --- densities given kernels, readouts given a kernel -------------------------------------------


def _invert(problem, below, target, start, max_steps=30, shortest=1e-2):
    """The tilt under which a layer has the statistics' means `target`, by Newton on a convex function."""
    num_classes = len(problem.counts)

    def evaluate(vector):
        try:
            layer = _layer(problem, below, _to_tilt(vector, num_classes))
        except FloatingPointError:
            return np.inf, None
        return layer.log_value - vector @ target, layer

    arrived = False

    def propose(_, found):
        nonlocal arrived
        if (layer := found[1]) is None:
            return None
        slope = _from_kernel(layer.kernel, problem.counts) - target
        covariance = layer.covariance + 1e-10 * np.diag(np.diag(layer.covariance) + 1e-12)
        step = -np.linalg.solve(covariance, slope)
        decrement = -slope @ step
        arrived = decrement < INNER_TOLERANCE
        return None if arrived else (step, decrement, min(1.0, 3 / np.sqrt(decrement)))

    line = {"shortest": shortest, "noise": NOISE}
    vector, (value, layer), _ = newton(evaluate, propose, start, evaluate(start), max_steps, **line)
    if not arrived:
        raise FloatingPointError("no density of this layer has the kernel asked for")
    return vector, layer, value


def _fit_readouts(problem, below, field, frozen=None):
    """The minimum of the convex D(t); returns t, the layer, D and the largest |σ_a² K t + T t − y|."""
    variance, temperature = problem.readout_variance, problem.temperature
    counts, shape = problem.counts, field.shape
    scale = np.repeat(counts, shape[1])

    def evaluate(flat):
        field = flat.reshape(shape)
        tilt = Kernel(variance * field @ field.T, np.zeros(len(field)))
        layer = _layer(problem, below, tilt, frozen)
        value = counts @ np.sum(0.5 * temperature * field**2 - field * problem.targets, axis=1)
        kernel = layer.kernel
        products = kernel.block * np.outer(counts, counts) + np.diag(counts * kernel.diagonal)
        slope = (variance * products @ field).ravel()
        slope += scale * (temperature * field - problem.targets).ravel()
        return layer.log_value + value, layer, products, slope

    def propose(flat, found):
        _, layer, products, slope = found
        sums = layer.activations * counts
        readouts = variance * sums @ flat.reshape(shape)
        moved = (sums[:, :, None] * readouts[:, None, :]).reshape(len(sums), -1)
        hessian = _covariance(moved, layer.weights, layer.group)
        hessian += variance * np.kron(products, np.eye(shape[1])) + temperature * np.diag(scale)
        step = -np.linalg.solve(hessian, slope)
        decrement = -slope @ step
        longest = min(1.0, 0.5 * (1 + np.abs(flat).max()) / np.abs(step).max())
        return None if decrement < 1e-10 else (step, decrement, longest)

    start = field.ravel(), evaluate(field.ravel())
    flat, found, _ = newton(evaluate, propose, *start, 100, shortest=1e-6, noise=NOISE)
    value, layer, _, slope = found
    return flat.reshape(shape), layer, value, float(np.abs(slope / scale).max())


# --- all layers together ------------------------------------------------------------------------


class _State(NamedTuple):
    """At given kernels: G, its slope in the statistics' means, and what the inner minima found."""

    value: float
    slope: np.ndarray
    tilts: list[np.ndarray]
    layers: list[Layer]
    field: np.ndarray
    violation: float


def _evaluate(problem, targets, tilts, field, frozen) -> _State:
    """G and its exact slope; targets: means of the statistics of layers 1 … L−1, shape (L−1, k)."""
    below, value = None, 0.0
    found, layers = [], []
    slope = np.zeros_like(targets)
    for index, target in enumerate(targets):
        tilt, layer, part = _invert(problem, below, target, tilts[index])
        value += part
        slope[index] -= tilt
        if index > 0:
            slope[index - 1] += layer.below
        found.append(tilt)
        layers.append(layer)
        below = _to_kernel(target, problem.counts)
    field, layer, part, violation = _fit_readouts(problem, below, field, frozen)
    if len(targets):
        slope[-1] += layer.below
    return _State(value + part, slope, found, [*layers, layer], field, violation)


def _ascend(problem, state, targets, frozen, tolerance, max_steps):
    """Raise G by quasi-Newton steps (BFGS) in the metric of the layers' own fluctuations."""
    inverse = _metric(state, targets.shape)
    num_steps, fresh = 0, True
    while True:
        slope = state.slope.ravel()
        step = inverse @ slope
        gain = float(slope @ step)
        if (abs(gain) < tolerance and not fresh) or num_steps == max_steps or gain == 0:
            break
        found, length = None, min(1.0, 1 / np.sqrt(abs(gain)))
        while gain > 0 and length > 1e-4:
            trial = targets + length * step.reshape(targets.shape)
            found = _try(problem, trial, state, frozen)
            if found is not None and found.value > state.value + 1e-4 * length * gain - NOISE:
                break
            found, length = None, length / 4
        if found is None:
            if fresh:
                break
            inverse, fresh = _metric(state, targets.shape), True
            continue
        moved, change = length * step, slope - found.slope.ravel()
        if moved @ change > 1e-8 * np.sqrt((moved @ moved) * (change @ change)):
            rate = 1 / (moved @ change)
            project = np.eye(len(moved)) - rate * np.outer(moved, change)
            inverse = project @ inverse @ project.T + rate * np.outer(moved, moved)
        targets, state, fresh = trial, found, False
        num_steps += 1
    return state, abs(gain), num_steps


def _try(problem, targets, state, frozen) -> _State | None:
    """The state at other kernels, None where no density has them."""
    try:
        return _evaluate(problem, targets, state.tilts, state.field, frozen)
    except (FloatingPointError, np.linalg.LinAlgError):
        return None


def _metric(state, shape):
    return block_diag(*(layer.covariance for layer in state.layers[:-1])).reshape((np.prod(shape),) * 2)


# --- the public face ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LayerScheme(sigmoidal.Coded):
    """Codes and kernels of one layer.

    Attributes:
        codes: all 2^C codes in binary order, shape (2^C, C).
        probabilities: fraction of neurons with each code, shape (2^C,).
        activations: mean activation per class of the neurons with a code; NaN where there are
            none, shape (2^C, C).
        kernel_block: K_μν for μ ≠ ν in classes c, c', shape (C, C).
        kernel_diagonal: what is added on the diagonal, shape (C,).
        within_class_variance: variance of φ over the inputs of a class, mean over neurons, shape (C,).
        dual_block: K̃'s class block κ (for the last layer σ_a² t tᵀ), shape (C, C).
        dual_diagonal: K̃'s diagonal δ, shape (C,).
        point_weights: of the points that stand for the layer's neurons, shape (n,).
        point_activations: their mean activations per class, shape (n, C).
    """

    codes: np.ndarray
    probabilities: np.ndarray
    activations: np.ndarray
    kernel_block: np.ndarray
    kernel_diagonal: np.ndarray
    within_class_variance: np.ndarray
    dual_block: np.ndarray
    dual_diagonal: np.ndarray
    point_weights: np.ndarray
    point_activations: np.ndarray

    def num_codes(self, min_probability: float = 0.01) -> int:
        """How many codes hold at least this fraction of the neurons."""
        return int(np.sum(self.probabilities >= min_probability))


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Solved):
    """A coding scheme of a deep network.

    Attributes:
        layers: one LayerScheme per hidden layer, the first layer first.
        probabilities: fraction of the last layer's neurons with each code in use, shape (n,), most first.
        codes: these codes, shape (n, C).
        activations: mean activation per class of the neurons with each, shape (n, C).
        readouts: mean readout of the neurons with each, shape (n, m).
        dual_field: t, shape (C, m).
        training_residual: y − f of the mean predictor per class, T t, shape (C, m).
        free_energy: −log evidence per neuron, −G; lower is better. With frozen occupancies it
            contains their entropy.
        residual: violation of K̃_ℓ = 2 ∂ log Z_{ℓ+1}/∂K_ℓ, as twice the rise of G, in nats per neuron,
            that the quasi-Newton model still expects from removing it.
        readout_residual: largest entry of |σ_a² K_L t + T t − y|.
        num_steps: steps of the ascent.
        converged: whether both residuals are below their tolerances.
        problem: what was solved.
    """

    layers: tuple[LayerScheme, ...]
    probabilities: np.ndarray
    codes: np.ndarray
    activations: np.ndarray
    readouts: np.ndarray
    dual_field: np.ndarray
    training_residual: np.ndarray
    free_energy: float
    readout_residual: float
    problem: Problem
    approximation = "N → ∞, what learning does to scatter within a class neglected above the first layer"

    @property
    def depth(self) -> int:
        """L."""
        return len(self.layers)

    @property
    def temperature(self) -> float:
        """T."""
        return self.problem.temperature

    def draw(self, rng: Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P), readouts (N, m) and W² … W^L of N = width neurons.

        Neurons of a layer are evenly spread over its points; W^ℓ is from its prior given the class means that
        layer ℓ is to have, and a given φ from its posterior.
        """
        problem, hidden = self.problem, list[np.ndarray]()
        for below, layer in zip((None, *self.layers), self.layers):
            ranks = (rng.permutation(width) + rng.random()) / width
            points = np.searchsorted(np.cumsum(layer.point_weights), ranks * layer.point_weights.sum())
            levels = layer.point_activations[points]
            if below is None:
                first = z = _with_class_means(rng, problem.site, levels, labels)
                continue
            spread = np.sqrt(np.maximum(below.kernel_diagonal, 0))
            smooth = problem.site.phi(GRID[:, None, None] + spread[:, None] * SCATTER_NODES) @ SCATTER_WEIGHTS
            aim = np.stack([np.interp(row, s, GRID) for row, s in zip(levels.T, smooth.T)], axis=1)
            features = problem.site.phi(z) / width**0.5
            hidden.append(matrix_given_response(rng, coding.class_means(features, labels), aim))
            z = hidden[-1] @ features
        readouts = problem.readout_variance * (levels * problem.counts) @ self.dual_field
        readouts += problem.readout_variance**0.5 * rng.standard_normal(readouts.shape)
        return first, readouts, tuple(hidden)

    def kernel(self, labels: np.ndarray, layer: int = -1) -> np.ndarray:
        """K of a layer, (P, P), for inputs of the given classes, (P,); the last layer's unless given."""
        return self.layers[layer].kernel(labels)


def solve(
    task: Task,
    depth: int,
    temperature: float,
    *,
    nonlinearity: Nonlinearity = "sigmoidal",
    start: Solution | float = 0.5,
    codes: Sequence[Sequence[int]] | np.ndarray | None = None,
    occupancies: Sequence[float] | np.ndarray | None = None,
    readout_variance: float | None = None,
    class_targets: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
) -> Solution:
    """Coding scheme of every layer of a wide network with bounded nonlinearity on an orthogonal task.

        max over K_1 … K_{L−1}: min_t D(t; K_{L−1}) + Σ_ℓ min_{K̃_ℓ} [log Z_ℓ(K_{ℓ−1}, K̃_ℓ) − ½ tr K̃_ℓ K_ℓ]

    G need not be concave: what is found is a maximum reached from `start`, not certainly the highest.

    Args:
        task: orthogonal inputs in at most 4 classes (4 take a minute at L = 2, seven at L = 3).
        depth: number of hidden layers L ≥ 1.
        temperature: T ≥ 0, the rescaled temperature of paper A.
        nonlinearity: a bounded one, by name or as an elementwise JAX function.
        start: a neighboring Solution of the same depth, or the weight 0 … 1 of the shallow network's
            kernel, against the prior's, in the first layer's first kernel; further layers start without K̃.
        codes: codes of the last layer's neurons where these are frozen, shape (k, C); None: equilibrium.
        occupancies: fraction of the last layer's neurons with each of `codes`, shape (k,); lower layers
            always equilibrate, as their neurons change code.
        readout_variance: σ_a²; 1/P unless given.
        class_targets: (C, m) targets in place of the task's.
        tolerance: on `residual`; a Solution that misses it comes with a warning.
        max_steps: of the ascent.

    Raises:
        ValueError: as theory.sigmoidal.solve; or arguments that do not fit each other.
        FloatingPointError: no layer has a density at the start; try another one.

    Source: paper A, deep networks with the redundant scheme (its Fig. 3); the solution is this book's.
    """
    same: dict[str, Any] = {"readout_variance": readout_variance, "class_targets": class_targets}
    problem = make_problem(task, temperature, nonlinearity, **same)
    counts, num_classes = problem.counts, len(problem.counts)
    if num_classes > MAX_CLASSES:
        raise ValueError(f"task: got {num_classes} classes; the deep theory takes at most {MAX_CLASSES}")
    validation.counts(depth=depth, max_steps=max_steps)
    validation.positive(tolerance=tolerance)
    if (codes is None) != (occupancies is None):
        raise ValueError("codes, occupancies: got only one of them; frozen neurons need both")
    frozen = None if codes is None else _Frozen(*sigmoidal.restricted(codes, occupancies, num_classes))
    size = num_classes * (num_classes + 3) // 2
    if isinstance(start, Solution):
        if len(start.layers) != depth:
            raise ValueError(f"start: got a solution of depth {len(start.layers)}, needs depth {depth}")
        field = start.dual_field
        tilts = [_to_vector(Kernel(layer.dual_block, layer.dual_diagonal)) for layer in start.layers[:-1]]
        first = _layer(problem, None, _to_tilt([*tilts, np.zeros(size)][0], num_classes))
        means = [_from_kernel(first.kernel, counts)]
    else:
        validation.number("start", start, least=0, most=1)
        shallow = sigmoidal.solve(task, temperature, nonlinearity=nonlinearity, **same)
        field = shallow.dual_field
        tilts = [np.zeros(size)] * (depth - 1)
        prior = _layer(problem, None, _to_tilt(np.zeros(size), num_classes))
        learnt = Kernel(shallow.kernel_block, shallow.kernel_diagonal)
        means = [(1 - start) * _from_kernel(prior.kernel, counts) + start * _from_kernel(learnt, counts)]
        if depth > 1:
            tilts[0] = _invert(problem, None, means[0], tilts[0], 300, 1e-6)[0]
    for tilt in tilts[1:]:
        below = _to_kernel(means[-1], counts)
        layer = _layer(problem, below, _to_tilt(tilt, num_classes))
        means.append(_from_kernel(layer.kernel, counts))
    targets = np.array(means[: depth - 1]).reshape(depth - 1, size)
    state = _evaluate(problem, targets, tilts, field, frozen)
    state, residual, num_steps = _ascend(problem, state, targets, frozen, tolerance, max_steps)
    converged = residual <= tolerance and state.violation <= READOUT_TOLERANCE
    last = Kernel(problem.readout_variance * state.field @ state.field.T, np.zeros(num_classes))
    duals = [*(_to_tilt(tilt, num_classes) for tilt in state.tilts), last]
    threshold = problem.site.threshold
    layers = tuple(
        _tabulated(layer.weights, layer.activations, layer.variances, threshold, layer.kernel, dual)
        for layer, dual in zip(state.layers, duals)
    )
    order = np.argsort(-layers[-1].probabilities, kind="stable")
    used = order[layers[-1].probabilities[order] >= sigmoidal.MIN_PROBABILITY]
    activations = layers[-1].activations[used]
    readouts = problem.readout_variance * (activations * counts) @ state.field
    found = Solution(
        layers=layers,
        probabilities=layers[-1].probabilities[used],
        codes=layers[-1].codes[used],
        activations=activations,
        readouts=readouts,
        dual_field=state.field,
        training_residual=problem.temperature * state.field,
        free_energy=-state.value,
        residual=residual,
        readout_residual=state.violation,
        num_steps=num_steps,
        converged=bool(converged),
        problem=problem,
    )
    return found.reported("theory.deep_sigmoidal.solve", f"{state.violation:.1e} of the readouts")


def _with_class_means(rng, site, levels, labels):
    """Preactivations from N(z; 0, 1) e^{sφ(z)}, with the s for which φ has the mean (N, C) asked for."""
    fields = np.linspace(-40, 40, 4001)
    tilts = np.interp(levels, site.cumulants(fields, 1)[1], fields)
    z = np.empty((len(levels), len(labels)))
    for c, column in enumerate(tilts.T):
        cumulative = np.cumsum(site.density(GRID, column[:, None]), axis=1)
        members = np.flatnonzero(labels == c)
        for row, one in enumerate(cumulative):
            z[row, members] = np.interp(rng.random(len(members)), one / one[-1], GRID)
    return z


def _tabulated(weights, activations, variances, threshold, kernel: Kernel, dual: Kernel) -> LayerScheme:
    """Points of weights (n,) and class-wise activations and variances (n, C), sorted into codes."""
    codes = np.array(list(itertools.product((False, True), repeat=activations.shape[1])))
    index = (activations > threshold) @ (2 ** np.arange(activations.shape[1])[::-1])
    mass = np.bincount(index, weights, len(codes))
    sums = np.stack([np.bincount(index, weights * a, len(codes)) for a in activations.T], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / mass[:, None]
    return LayerScheme(codes, mass, means, *kernel, weights @ variances, *dual, weights, activations)


def measure(activations: np.ndarray, labels: np.ndarray, threshold: float = 0.5) -> LayerScheme:
    """The same quantities from sampled activations, for comparison with the theory.

    Args:
        activations: φ(z) of one hidden layer, shape (samples, N, P) or (N, P).
        labels: class of every input, shape (P,), at least two of each class (else ValueError).
        threshold: a class whose mean activation is above it is coded; the middle of φ's range.

    Returns:
        A LayerScheme, averages over neurons and samples; the dual fields are NaN, and the points are
        the sampled neurons.
    """
    activations = validation.array("activations", activations, "…, N, P")
    labels = validation.labels("labels", labels, activations.shape[-1])
    rows = activations.reshape(-1, len(labels))
    members = labels == np.arange(labels.max() + 1)[:, None]
    counts = members.sum(axis=1)
    if counts.min() < 2:
        raise ValueError(f"labels: class {int(np.argmin(counts))} has {counts.min()} inputs, needs two")
    sums, squares = rows @ members.T, rows**2 @ members.T
    means = sums / counts
    kernel = _to_kernel(_statistics(sums, squares).mean(axis=0), counts)
    weights = np.full(len(rows), 1 / len(rows))
    none = Kernel(np.full_like(kernel.block, np.nan), np.full_like(kernel.diagonal, np.nan))
    return _tabulated(weights, means, squares / counts - means**2, threshold, kernel, none)
