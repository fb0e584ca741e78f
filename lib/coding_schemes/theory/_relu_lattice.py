r"""The ReLU on orthogonal inputs, one hidden layer and one output: an integral over one number per neuron.

With exp(½(qᵀφ)²) = E_g exp(g qᵀφ), g ~ N(0, 1), the inputs decouple given g, γ0 times the readout:

    P(g) ∝ exp(−½g² + Σ_c n_c log G(q_c g)),   G(s) = E_z e^{sφ(z)} = ½ + e^{s²/2} Φ_N(s) .

Its tails have the widths (1 − Σ_{c: q_c g > 0} n_c q_c²)^{−1/2}, some tens where features are learned, so the
lattice is uniform in x = asinh g.
"""

from typing import NamedTuple

import jax
import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from coding_schemes.theory._population import Neurons

LATTICE = np.linspace(-10.0, 10.0, 4001)  # of x: |g| up to 11,000
_G = np.sinh(LATTICE)
_LOG_CELL = np.log(np.cosh(LATTICE) * (LATTICE[1] - LATTICE[0]) / np.sqrt(2 * np.pi))


class Lattice(NamedTuple):
    """Solution.

    Attributes:
        field: v of every class, shape (C,).
        q: γ0 v.
        weights: of the lattice's points g.
        block: kernel between different inputs of two classes, shape (C, C).
        diagonal: what is added on the kernel's diagonal, shape (C,).
        residual: largest entry of |y − f − v/β|.
        num_steps: Newton steps.
    """

    field: np.ndarray
    q: np.ndarray
    weights: np.ndarray
    block: np.ndarray
    diagonal: np.ndarray
    residual: float
    num_steps: int


def solve(counts: np.ndarray, targets: np.ndarray, richness: float, ridge: float) -> Lattice:
    """Minimize the dual over q (C,) by Newton's method, for classes of `counts` inputs."""
    q, steps = np.zeros(len(counts)), 0
    value, weights, first, second = _dual(q, counts, targets, richness, ridge)
    for steps in range(1, 201):  # noqa: B007 (returned)
        sums = counts * first * _G[:, None]
        mean = weights @ sums
        gradient = mean - richness * counts * targets + ridge * counts * q
        hessian = (sums * weights[:, None]).T @ sums - np.outer(mean, mean)
        spread = counts * (weights * _G**2 @ (second - first**2) + ridge)
        step = -np.linalg.solve(hessian + np.diag(spread), gradient)
        decrement = -gradient @ step
        length, found = 1.0, None
        while decrement > 1e-24 and length > 1e-8 and found is None:
            found = _dual(q + length * step, counts, targets, richness, ridge)
            if found is not None and found[0] > value - 1e-4 * length * decrement + 1e-13 * abs(value):
                found = None
            length = length if found is not None else length / 2
        if found is None:
            break
        q, (value, weights, first, second) = q + length * step, found
    block = (first * weights[:, None]).T @ first
    residual = float(np.abs(gradient / (richness * counts)).max())
    return Lattice(q / richness, q, weights, block, weights @ second - np.diag(block), residual, steps)


def neurons(found: Lattice, labels: np.ndarray, root: np.ndarray, key: jax.Array, count: int) -> Neurons:
    """Weighted neurons: g evenly over quantiles of a proposal, then every input's preactivation given g.

    The proposal is half the measure itself and half the measure times g²: few neurons of the tails carry much
    of the kernel, and of the measure alone these would come by chance.
    """
    keys = jax.random.split(key, 3)
    proposal = found.weights * (1 + _G**2 / (found.weights @ _G**2))
    reached = np.cumsum(proposal)
    levels = reached[-1] * (np.arange(count) + float(jax.random.uniform(keys[0]))) / count
    index = np.minimum(np.searchsorted(reached, levels), len(_G) - 1)
    g, weights = _G[index], found.weights[index] / proposal[index]
    s = g[:, None] * found.q[labels]
    uniform = np.asarray(jax.random.uniform(keys[1], s.shape, minval=1e-12))
    log_on = 0.5 * s**2 + log_ndtr(s)
    on = np.log(np.asarray(jax.random.uniform(keys[2], s.shape))) < log_on - np.logaddexp(log_on, np.log(0.5))
    # a neuron may be on though s is far below 0: there the share of the Gaussian underflows, its log does not
    z = np.where(on, s - ndtri_exp(np.log(uniform) + log_ndtr(s)), ndtri(0.5 * uniform))
    return Neurons(np.linalg.lstsq(root, z.T, rcond=None)[0].T, weights / weights.sum())


def _dual(q, counts, targets, richness, ridge):
    """D, the lattice's weights, and ⟨φ⟩ and ⟨φ²⟩ given g, shape (n, C); None outside the domain."""
    for side in (q > 0, q < 0):
        if counts[side] @ q[side] ** 2 >= 1 - 1e-7:
            return None
    s = _G[:, None] * q
    log_on = 0.5 * s**2 + log_ndtr(s)
    log_g = np.logaddexp(log_on, np.log(0.5))
    on, edge = np.exp(log_on - log_g), np.exp(-0.5 * np.log(2 * np.pi) - log_g)
    exponent = log_g @ counts - 0.5 * _G**2 + _LOG_CELL
    shift = exponent.max()
    weights = np.exp(exponent - shift)
    value = shift + np.log(weights.sum()) - richness * counts @ (q * targets) + 0.5 * ridge * counts @ q**2
    return value, weights / weights.sum(), s * on + edge, (1 + s**2) * on + s * edge
