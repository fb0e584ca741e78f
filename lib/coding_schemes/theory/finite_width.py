r"""Finite width of sigmoidal networks: the 1/N of theory for averages over neurons.

The posterior of N neurons is an integral over fields t_μ (P, m), one for each input, along imaginary axes,

    Z = ∫ Π_μ dt_μ e^{N D(t)},   D(t) = log ⟨e^{Σ_μ a·t_μ φ(z_μ)}⟩ − Σ_μ t_μ·y_μ + (T/2) Σ_μ |t_μ|²,

and theory of a wide network, `sigmoidal`, is its saddle point, where fields are alike on a class. The first
correction is the determinant of the fluctuations about it: with a source h in D for a property x of single
neurons, log⟨e^{… + h x}⟩, N of them have

    N ⟨x⟩ = N ⟨x⟩_theory − ½ d/dh [log det H + Σ_c (n_c − 1) log det M_c],

H the Hessian of D in fields that are alike on a class, M_c = ⟨a aᵀ Var φ_c⟩ + T for those that are not.
For inputs that are alike within a class, `clustered`, Var φ_c is the variance between the inputs of a class.

Source: the book's own; paper A takes N → ∞.
"""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from coding_schemes import validation
from coding_schemes.theory import clustered, sigmoidal
from coding_schemes.theory._tilted import normalized

SOURCE = 0.05  # h, for the derivative
FIELDS = np.linspace(-40, 40, 1601)  # of the tables of preactivations' moments
REACH = 6  # standard deviations of a number of neurons, beyond which none is looked for
MAX_STEPS = 100  # Newton steps from h = 0 to ± SOURCE; some five are needed


Solution = sigmoidal.Solution | clustered.Solution


def correction(
    solution: Solution,
    weight: np.ndarray,
    moment: Callable[..., np.ndarray] | None = None,
    class_index: int = 0,
) -> float:
    """What finite width adds to N⟨x⟩, of order one, for a property x of single neurons.

    By the module's formula, for x = w(a) v(z_μ), v any function of the preactivation on an input of class c.

    Args:
        solution: a scheme in equilibrium, by quadrature.
        weight: w at the readouts of `sigmoidal.readout_ensemble(solution)`, or at `solution.ensemble.points`
            of a `clustered.Solution`, shape (n,).
        moment: moment(s, k), of the shape of s, is the k-th derivative, k = 0 … 2, of the average of v over
            z ∝ N(z; 0, 1) e^{sφ(z)}; None for v = 1, and for inputs that are alike.
        class_index: c.

    Returns:
        N⟨x⟩ at finite N less N⟨x⟩ in theory, up to corrections of order 1/N.

    Raises:
        ValueError: a restricted scheme or one by Laplace's formula, φ that grows, a weight of another shape,
            a moment for inputs that are alike, no such class.
        FloatingPointError: the saddle point with a source was not found.
    """
    _check(solution)
    if moment is not None and isinstance(solution, clustered.Solution):
        raise ValueError(
            "moment: got one for inputs that are alike within classes, which has no formula here"
        )
    points, _ = _readouts(solution)
    weight = validation.array("weight", weight, "n", n=len(points))
    validation.count("class_index", class_index, 0, len(solution.dual_field) - 1)
    up, down = (_log_determinant(solution, weight, moment, class_index, h) for h in (SOURCE, -SOURCE))
    return -0.5 * (up - down) / (2 * SOURCE)


def numbers(solution: Solution, codes: np.ndarray, width: int) -> np.ndarray:
    """Mean number of neurons with each code in a network of N = width, N⟨q⟩ with the 1/N of `correction`.

    q is the probability that a neuron with readouts a is found with the code, as for
    `sigmoidal.measured_occupancies`.

    Args:
        solution: a scheme in equilibrium, by quadrature.
        codes: rows of C booleans, shape (k, C).
        width: N.

    Returns:
        The numbers, shape (k,); of all 2^C codes they add up to N.

    Raises:
        ValueError: a restricted scheme or one by Laplace's formula, codes of another shape, N < 1.
        FloatingPointError: as for `correction`.
    """
    _check(solution)
    validation.count("width", width)
    found, weights = _code_weights(solution, codes)
    return np.array([width * weights @ q + correction(solution, q) for q in found])


def number_moments(solution: Solution, codes: np.ndarray, width: int) -> np.ndarray:
    """Second and fourth central moments of the numbers of neurons with codes that all N = width share.

    A source of 2πi for a code changes nothing where numbers are whole, so that the saddle point has an image
    for each of them. By Poisson's formula their sum is the Gaussian of one saddle point, of mean `numbers`
    and the covariance N `sigmoidal.occupancy_covariance`, taken at whole numbers only.

    Args:
        solution: a scheme in equilibrium, by quadrature.
        codes: at least two rows of C booleans, shape (k, C); what all others hold is left out.
        width: N.

    Returns:
        The moments ⟨(n − ⟨n⟩)²⟩ and ⟨(n − ⟨n⟩)⁴⟩, shape (2, k).

    Raises:
        ValueError: a restricted scheme or one by Laplace's formula, codes of another shape, N < 1.
        FloatingPointError: as for `correction`.
    """
    found, weights = _whole(solution, codes, width)
    weights = weights * np.all(found >= 0, axis=1)  # of a rare code, none at the least
    weights /= weights.sum()
    away = found - weights @ found
    return np.stack([weights @ away**power for power in (2, 4)])


def whole_numbers(solution: Solution, codes: np.ndarray, width: int) -> np.ndarray:
    """Mean numbers of neurons with codes that all N = width share, neurons being whole.

    The mean of the distribution that `number_moments` describes: `numbers`, which it tends to where they
    fluctuate, drawn towards whole numbers where they hardly do.

    Args:
        solution: a scheme in equilibrium, by quadrature.
        codes: at least two rows of C booleans, shape (k, C); what all others hold is left out.
        width: N.

    Returns:
        The means, shape (k,).

    Raises:
        ValueError: as `number_moments`.
        FloatingPointError: as for `correction`.
    """
    found, weights = _whole(solution, codes, width)
    return weights @ found


def _whole(solution, codes, width):
    """Whole numbers of neurons with each code near their mean (n, k), and their probabilities (n,)."""
    codes = validation.array("codes", codes, "k, C").astype(bool)
    if len(codes) < 2:
        raise ValueError("codes: got one code, needs the two or more that all neurons share")
    mean, covariance = numbers(solution, codes, width)[:-1], width * _covariance(solution, codes)[:-1, :-1]
    found, weights = _lattice(mean, np.linalg.cholesky(covariance))
    return np.column_stack([found, width - found.sum(1)]), weights


def _lattice(mean, factor):
    """Whole numbers (n, k) near the mean (k,) of a Gaussian of covariance L Lᵀ, and their probabilities (n,).

    One number after another, near its mean given those before it. All that follow cost at most what rounding
    each to the nearest costs, so that what is worse than the best by more than that is left out.
    """
    spreads = factor.diagonal()
    rounding = np.append(np.cumsum((0.125 / spreads**2)[::-1])[::-1], 0)  # of the numbers from each one on
    found, scaled, cost = np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(1)
    for k, spread in enumerate(spreads):
        center = mean[k] + scaled @ factor[k, :k]
        reach = np.ceil(0.5 + REACH * spread)
        tried = np.rint(center)[:, None] + np.arange(-reach, reach + 1)
        away = (tried - center[:, None]) / spread
        total = cost[:, None] + 0.5 * away**2
        old, new = np.nonzero(total <= total.min() + rounding[k + 1] + 0.5 * REACH**2)
        found, scaled = (np.column_stack([a[old], b[old, new]]) for a, b in ((found, tried), (scaled, away)))
        cost = total[old, new]
    weights = np.exp(cost.min() - cost)
    return found, weights / weights.sum()


def readout_moments(solution: Solution, code: np.ndarray, output: int, width: float) -> np.ndarray:
    """Mean and variance of a readout of a code's neurons.

    ⟨q a^k⟩ / ⟨q⟩, k = 1, 2, both with the 1/N of `correction`; q as for `numbers`.

    Args:
        solution: a scheme in equilibrium, by quadrature.
        code: C booleans, shape (C,).
        output: r.
        width: N; ∞: without the 1/N.

    Returns:
        Mean and variance of a^r, shape (2,).

    Raises:
        ValueError: a restricted scheme or one by Laplace's formula, a code of another shape, no such output,
            N not positive.
        FloatingPointError: as for `correction`.
    """
    _check(solution)
    validation.count("output", output, 0, solution.problem.targets.shape[1] - 1)
    code = validation.array("code", code, "C", C=len(solution.dual_field))
    if width != np.inf:
        validation.positive(width=width)
    (q,), weights = _code_weights(solution, code[None])
    a = _readouts(solution)[0][:, output]
    totals = [weights @ (q * a**power) for power in range(3)]
    if width < np.inf:
        totals = [total + correction(solution, q * a**power) / width for power, total in enumerate(totals)]
    mean = totals[1] / totals[0]
    return np.array([mean, totals[2] / totals[0] - mean**2])


def preactivation_moments(
    solution: sigmoidal.Solution, code: np.ndarray, class_index: int, width: float
) -> np.ndarray:
    """Mean and variance of the preactivations of a code's neurons on an input of a class.

    ⟨q z^k⟩ / ⟨q⟩, both with the 1/N of `correction`; q as for `numbers`.

    Args:
        solution: a scheme in equilibrium, by quadrature.
        code: C booleans, shape (C,).
        class_index: c.
        width: N; ∞: without the 1/N.

    Returns:
        Mean and variance, shape (2,).

    Raises:
        ValueError: a restricted scheme or one by Laplace's formula, a code of another shape, no such class, N
            not positive.
        FloatingPointError: as for `correction`.
    """
    _check(solution)
    validation.instance("solution", solution, sigmoidal.Solution)
    validation.count("class_index", class_index, 0, len(solution.dual_field) - 1)
    code = validation.array("code", code, "C", C=len(solution.dual_field))
    if width != np.inf:
        validation.positive(width=width)
    (q,), weights = _code_weights(solution, code[None])
    s = sigmoidal.readout_ensemble(solution)[0] @ solution.dual_field[class_index]
    z = np.linspace(-9, 9, 901)
    density = solution.problem.site.density(z[:, None], FIELDS) * (z[1] - z[0])
    totals = []
    for power in range(3):
        moment = CubicSpline(FIELDS, z**power @ density)
        totals.append(weights @ (q * moment(s)))
        if width < np.inf:
            totals[-1] += correction(solution, q, moment, class_index) / width
    mean = totals[1] / totals[0]
    return np.array([mean, totals[2] / totals[0] - mean**2])


def _check(solution):
    if isinstance(solution, clustered.Solution):
        if not solution.problem.site.shape.bounded:
            raise ValueError(f"solution: {solution.nonlinearity!r} grows, needs a bounded nonlinearity")
    else:
        sigmoidal._require_equilibrium(solution)
    if solution.method != "quadrature":
        raise ValueError(
            f"solution: got one by {solution.method!r}, whose error is of order 1/P; needs 'quadrature'"
        )


def _readouts(solution):
    """Readouts (n, m) that stand for the neurons, and their weights (n,)."""
    if isinstance(solution, clustered.Solution):
        return solution.ensemble.points, solution.ensemble.weights
    return sigmoidal.readout_ensemble(solution)


def _covariance(solution, codes):
    """N times the covariance of the fractions of neurons with each code (k, k)."""
    if isinstance(solution, sigmoidal.Solution):
        return sigmoidal.occupancy_covariance(solution, codes)
    found, weights = _code_weights(solution, codes)
    free = np.diag(found @ weights)  # indicators, as in `sigmoidal.occupancy_covariance`
    return sigmoidal.fitting_together(solution.problem, solution.ensemble, found.T, free)


def _log_determinant(solution, weight, moment, class_index, h):
    """Of the fluctuations about the saddle point with a source h."""
    problem, points = solution.problem, _readouts(solution)[0]
    alike = isinstance(solution, clustered.Solution)
    counts, temperature, m = problem.counts, problem.temperature, points.shape[1]
    noise, t, step = temperature * np.eye(m), solution.dual_field.copy(), np.inf
    dyads = points[:, :, None] * points[:, None, :]
    for _ in range(MAX_STEPS):
        s = points @ t.T
        log_g, means, variances = problem.site.cumulants(s, 2)
        source = (
            np.ones((1, len(s)))
            if moment is None
            else np.stack([moment(s[:, class_index], k) for k in range(3)])
        )
        source = h * weight * source
        exponent = log_g @ counts - np.square(points).sum(1) / (2 * problem.readout_variance) + source[0]
        for derivative, change in zip((means, variances), source[1:], strict=False):
            derivative[:, class_index] += change / counts[class_index]
        _, p = normalized(exponent)
        statistics = (counts * means)[:, :, None] * points[:, None, :]
        mean = np.tensordot(p, statistics, 1)
        flat = statistics.reshape(len(p), -1) - mean.ravel()
        own = np.tensordot((p[:, None] * variances).T, dyads, 1) + noise
        hessian = (flat * p[:, None]).T @ flat
        for c, block in enumerate(own):
            hessian[c * m : (c + 1) * m, c * m : (c + 1) * m] += counts[c] * block
        if step < 1e-9:
            within = own
            if alike:
                shared, square, *_ = problem.site.shared(s)
                within = np.tensordot((p[:, None] * (square - shared)).T, dyads, 1) + noise
            return np.linalg.slogdet(hessian)[1] + (counts - 1) @ np.linalg.slogdet(within)[1]
        slope = mean + counts[:, None] * (temperature * t - problem.targets)
        change = np.linalg.solve(hessian, slope.ravel()).reshape(t.shape)
        t, step = t - change, np.abs(change).max() / np.abs(t).max()
    raise FloatingPointError(f"finite width: no saddle point with a source {h} after {MAX_STEPS} steps")


def _code_weights(solution, codes):
    """Probability of each code at the readouts of the ensemble, shape (k, n), and their weights."""
    if isinstance(solution, clustered.Solution):
        return solution.code_probabilities(codes), solution.ensemble.weights
    _, weights = sigmoidal.readout_ensemble(solution)
    ensemble, found = sigmoidal.code_probabilities(solution, codes)
    return found[ensemble.weights > 0].T, weights
