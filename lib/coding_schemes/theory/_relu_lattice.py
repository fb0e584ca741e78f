r"""The ReLU on orthogonal inputs, one hidden layer and one output: an integral over one number per neuron.

With exp(½(qᵀφ)²) = E_g exp(g qᵀφ), g ~ N(0, 1), the inputs decouple given g, γ0 times the readout:

    P(g) ∝ exp(−½g² + Σ_c n_c log G(q_c g)),   G(s) = E_z e^{sφ(z)} = ½ + e^{s²/2} Φ_N(s) .

Its tails have the widths (1 − Σ_{c: q_c g > 0} n_c q_c²)^{−1/2}, some tens where features are learned, so the
lattice is uniform in x = asinh g.
"""

from typing import NamedTuple

import jax
import numpy as np

from coding_schemes.theory._population import Neurons
from coding_schemes.theory._solvers import newton
from coding_schemes.theory._tilted import Relu, normalized

MAX_STEPS = 200
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
        num_steps: Newton steps, the last included, which gains nothing.
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

    def evaluate(q):
        """D, ∞ outside its domain; ∂D/∂q, as sums and their weights; φ's mean and variance given g."""
        if any(counts[side] @ q[side] ** 2 >= 1 - 1e-7 for side in (q > 0, q < 0)):
            return (np.inf,)
        log_g, mean, variance = Relu().cumulants(_G[:, None] * q)
        log_z, weights = normalized(log_g @ counts - 0.5 * _G**2 + _LOG_CELL)
        value = log_z - richness * counts @ (q * targets) + 0.5 * ridge * counts @ q**2
        sums = counts * mean * _G[:, None]
        gradient = weights @ sums - richness * counts * targets + ridge * counts * q
        return value, gradient, sums, weights, mean, variance

    def propose(q, found):
        _, gradient, sums, weights, _, variance = found
        hessian = (sums * weights[:, None]).T @ sums - np.outer(weights @ sums, weights @ sums)
        spread = counts * (weights * _G**2 @ variance + ridge)
        step = -np.linalg.solve(hessian + np.diag(spread), gradient)
        decrement = -gradient @ step
        return (step, decrement, 1.0) if decrement > 1e-24 else None

    start, line = np.zeros(len(counts)), {"shortest": 1e-8, "relative_noise": 1e-13}
    q, found, num_steps = newton(evaluate, propose, start, evaluate(start), MAX_STEPS, **line)
    _, gradient, _, weights, first, variance = found
    block = (first * weights[:, None]).T @ first
    residual = float(np.abs(gradient / (richness * counts)).max())
    diagonal = weights @ (variance + first**2) - np.diag(block)
    return Lattice(q / richness, q, weights, block, diagonal, residual, min(num_steps + 1, MAX_STEPS))


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
    z = Relu().drawn(s, np.asarray(jax.random.uniform(keys[2], s.shape)), uniform)
    return Neurons(np.linalg.lstsq(root, z.T, rcond=None)[0].T, weights / weights.sum())
