"""Finite width of sigmoidal networks: the 1/N of theory for averages over neurons.

Theory of a wide network is the saddle point of ∫ dt e^{N D(t)}. Its first correction is the determinant of
the fluctuations about it: with a source h in D for a property x of single neurons, N of them have

    N ⟨x⟩ = N ⟨x⟩_theory − ½ d/dh [log det H + Σ_c (n_c − 1) log det M_c],

H the Hessian of D in fields that are alike on a class, M_c = ⟨a aᵀ Var φ_c⟩ + T for those that are not.

Source: the book's own; paper A takes N → ∞.
"""

from collections.abc import Callable

import numpy as np
from coding_schemes.theory import sigmoidal
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

SOURCE = 0.05  # h, for the derivative
FIELDS = np.linspace(-40, 40, 1601)  # of the tables of preactivations' moments


def correction(
    solution: sigmoidal.Solution,
    weight: np.ndarray,
    moment: Callable[..., np.ndarray] | None = None,
    class_index: int = 0,
) -> float:
    """What finite width adds to N⟨x⟩ for x = weight(a) · moment(a·t_c), the module's formula; of order one.

    The weight is that at the readouts of `sigmoidal.readout_ensemble(solution)`, shape (n,); moment(s, k) is
    the k-th derivative of an average over z given the field s of the class c, None for 1.
    """
    up, down = (_log_determinant(solution, weight, moment, class_index, h) for h in (SOURCE, -SOURCE))
    return -0.5 * (up - down) / (2 * SOURCE)


def _log_determinant(solution, weight, moment, class_index, h):
    """Of the fluctuations about the saddle point with a source h."""
    problem, points = solution.problem, sigmoidal.readout_ensemble(solution)[0]
    counts, temperature, m = problem.counts, problem.temperature, points.shape[1]
    noise, t, step = temperature * np.eye(m), solution.dual_field.copy(), np.inf
    while True:
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
        p = np.exp(exponent - exponent.max())
        p /= p.sum()
        statistics = (counts * means)[:, :, None] * points[:, None, :]
        mean = np.tensordot(p, statistics, 1)
        flat = statistics.reshape(len(p), -1) - mean.ravel()
        within = np.einsum("n,nc,nr,nq->crq", p, variances, points, points) + noise
        hessian = (flat * p[:, None]).T @ flat
        for c, block in enumerate(within):
            hessian[c * m : (c + 1) * m, c * m : (c + 1) * m] += counts[c] * block
        if step < 1e-9:
            return np.linalg.slogdet(hessian)[1] + (counts - 1) @ np.linalg.slogdet(within)[1]
        slope = mean + counts[:, None] * (temperature * t - problem.targets)
        change = np.linalg.solve(hessian, slope.ravel()).reshape(t.shape)
        t, step = t - change, np.abs(change).max() / np.abs(t).max()


def _code_weights(solution, codes):
    """Probability of each code at the readouts of the ensemble, shape (k, n), and their weights."""
    points, weights = sigmoidal.readout_ensemble(solution)
    site, counts = solution.problem.site, solution.problem.counts
    _, means, variances = site.cumulants(points @ solution.dual_field.T, 2)
    active = ndtr((means - site.threshold) * np.sqrt(counts / np.maximum(variances, 1e-12)))
    return np.array([np.prod(np.where(code, active, 1 - active), axis=1) for code in codes]), weights


def numbers(solution: sigmoidal.Solution, codes: np.ndarray, width: int) -> np.ndarray:
    """Mean number (k,) of neurons with each code (k, C) that does occur, corrected, in N = width."""
    found, weights = _code_weights(solution, codes)
    return np.array([width * weights @ q + correction(solution, q) for q in found])


def number_moments(solution: sigmoidal.Solution, codes: np.ndarray, width: int) -> np.ndarray:
    """Second and fourth central moments (2, k) of the numbers of neurons with codes that all N = width share.

    A source of 2πi for a code changes nothing where numbers are whole, so that the saddle point has an image
    for each of them. By Poisson's formula their sum is the Gaussian of one saddle point, of mean `numbers`
    and the covariance N `sigmoidal.occupancy_covariance`, taken at whole numbers only.
    """
    mean, covariance = numbers(solution, codes, width)[:-1], sigmoidal.occupancy_covariance(solution, codes)
    inverse = np.linalg.inv(width * covariance[:-1, :-1])
    reach = np.ceil(1 + 6 * np.sqrt(width * covariance.diagonal()[:-1]))
    around = [np.arange(-r, r + 1) + np.rint(n) for r, n in zip(reach, mean, strict=True)]
    found = np.stack(np.meshgrid(*around, indexing="ij"), axis=-1).reshape(-1, len(mean))
    away = found - mean
    weights = np.exp(-0.5 * np.einsum("ni,ij,nj->n", away, inverse, away))
    found = np.column_stack([found, width - found.sum(1)])
    weights *= np.all(found >= 0, axis=1)
    weights /= weights.sum()
    away = found - weights @ found
    return np.stack([weights @ away**power for power in (2, 4)])


def preactivation_moments(
    solution: sigmoidal.Solution, code: np.ndarray, class_index: int, width: float
) -> np.ndarray:
    """Mean and variance of the preactivations of a code's neurons on a class; width = ∞: without the 1/N."""
    (q,), weights = _code_weights(solution, code[None])
    s = sigmoidal.readout_ensemble(solution)[0] @ solution.dual_field[class_index]
    z = np.linspace(-9, 9, 901)
    density = solution.problem.site.density(z[:, None], FIELDS) * (z[1] - z[0])
    totals = []
    for power in range(3):
        moment = CubicSpline(FIELDS, z**power @ density)
        totals.append(weights @ (q * moment(s)))
        if np.isfinite(width):
            totals[-1] += correction(solution, q, moment, class_index) / width
    mean = totals[1] / totals[0]
    return np.array([mean, totals[2] / totals[0] - mean**2])
