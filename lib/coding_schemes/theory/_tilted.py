r"""One preactivation tilted by its nonlinearity, and averages over it.

    density ∝ N(z; 0, 1) e^{s φ(z)},   L(s) = log E_{z ~ N(0,1)} e^{s φ(z)},

whose derivatives are the cumulants of φ at the field s. All theories of orthogonal inputs average over it:

- bounded φ (`SingleSite`): L and four derivatives are tabulated on a fine grid of s and continued from the
  nearest node by their Taylor series: on the grid used, L is exact to 1e-13 and L' to 1e-10, at the cost of
  one table look-up.
- ReLU (`Relu`): in closed form.
- softplus (`Softplus`): by the trapezoid rule.

What has a further tilt of its own is weighted by `normalized` on nodes of its own, for `central_moments`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from coding_schemes import networks
from coding_schemes.theory._solvers import evaluate

Nonlinearity = str | Callable

FIELD_STEP = 0.01  # spacing of the table in s: the first neglected Taylor term of L is below 1e-13
NODES = np.linspace(-12.0, 12.0, 801)  # e^{-72} of the prior lies outside; the trapezoid rule is spectral
LOG_CELL = np.log(np.sqrt(2 * np.pi) / (NODES[1] - NODES[0]))  # minus the log of the rule's weight of ½z²
LARGEST_FIELD = 1000.0  # |a·t_c| stays below 100 for targets of order one; beyond lies a diverging solve


def normalized(exponent: np.ndarray, rule: np.ndarray | float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Log Σ w eˣ along the last axis, for a rule's weights w, and w eˣ over that sum, in the place of x."""
    shift = exponent.max(axis=-1, keepdims=True)
    exponent -= shift
    weights = np.exp(exponent, out=exponent)
    weights *= rule
    total = weights.sum(axis=-1, keepdims=True)
    weights /= total
    return (shift + np.log(total))[..., 0], weights


def central_moments(values: np.ndarray, weights: np.ndarray, order: int) -> list[np.ndarray]:
    """Mean, and central moments from the second to the order, at most 4, of values (…, n) or (n,).

    Weights (…, n) sum to one. Powers are products: NumPy's take ten times as long.
    """
    mean = np.sum(weights * values, axis=-1) if values.ndim > 1 else weights @ values
    centered = values - mean[..., None]
    squares = centered**2
    powers = [squares, squares * centered, squares**2][: order - 1]
    return [mean, *(np.sum(weights * power, axis=-1) for power in powers)]


class Tilted(ABC):
    """One nonlinearity's averages; see the module docstring."""

    nonlinearity: Nonlinearity

    def phi(self, z: np.ndarray) -> np.ndarray:
        """φ(z) in float64."""
        return evaluate(networks.nonlinearity(self.nonlinearity), np.asarray(z, dtype=float))

    @abstractmethod
    def cumulants(self, s: np.ndarray, order: int = 2) -> list[np.ndarray]:
        """[L(s), L'(s), …] up to the given order, at most the third, each of the shape of s."""

    def density(self, z: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Density of z under the field s, broadcast over both."""
        exponent = s * self.phi(z) - self.cumulants(s, 0)[0] - 0.5 * z**2
        return np.exp(exponent) / np.sqrt(2 * np.pi)


class Relu(Tilted):
    """max(0, z): with G = e^{s²/2} Φ(s), g = ½ + G, G' = s G + 1/√(2π) and ⟨φᵏ⟩ = G⁽ᵏ⁾/g."""

    nonlinearity = "relu"

    def cumulants(self, s: np.ndarray, order: int = 2) -> list[np.ndarray]:
        """As in `Tilted`."""
        log_g, log_active = self._log_parts(s)
        active, edge = np.exp(log_active), np.exp(-log_g) / np.sqrt(2 * np.pi)
        mean = s * active + edge
        square = active + s * mean
        third = 2 * mean + s * square - 3 * square * mean + 2 * mean**3
        gaussian = s > 12  # up to rounding; the differences of large powers below would lose digits
        variance, third = np.where(gaussian, 1.0, square - mean**2), np.where(gaussian, 0.0, third)
        return [log_g, mean, variance, third][: order + 1]

    def drawn(self, s: np.ndarray, side: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Preactivations under the fields s from two uniform numbers each: which side of 0, and where there.

        A neuron may be on though s is far below 0: there the Gaussian's share underflows, its log does not.
        """
        on = np.log(side) < self._log_parts(s)[1]
        return np.where(on, s - ndtri_exp(np.log(place) + log_ndtr(s)), ndtri(0.5 * place))

    @staticmethod
    def _log_parts(s):
        """Log g, and the log of the probability that z > 0."""
        log_positive = s**2 / 2 + log_ndtr(s)
        log_g = np.logaddexp(np.log(0.5), log_positive)
        return log_g, log_positive - log_g


class Softplus(Tilted):
    """log(1 + eᶻ): the trapezoid rule to s = 28; beyond, log(1 + eᶻ) = z at z ≈ s, and so L(s) = s²/2.

    The integrand is analytic for |Im z| < π, so that the rule is exact to rounding.
    """

    nonlinearity = "softplus"
    nodes = np.arange(-14.0, 40.0, 0.125)
    largest_field = 28.0

    def cumulants(self, s: np.ndarray, order: int = 2) -> list[np.ndarray]:
        """As in `Tilted`."""
        values, cell = np.logaddexp(0.0, self.nodes), (self.nodes[1] - self.nodes[0]) / np.sqrt(2 * np.pi)
        exponent = np.minimum(s, self.largest_field)[..., None] * values - self.nodes**2 / 2
        log_g, weights = normalized(exponent + np.log(cell))
        found = [log_g, *central_moments(values, weights, max(order, 1))][: order + 1]
        far, beyond = s > self.largest_field, (s**2 / 2, s, np.ones_like(s), np.zeros_like(s))
        return [np.where(far, there, here) for here, there in zip(found, beyond)]


RECTIFIED: dict[Any, Tilted] = {"relu": Relu(), "softplus": Softplus()}


class _Tables(NamedTuple):
    """What is tabulated over the fields s = −limit … limit: L and four derivatives (5, k), E[z²] (k,)."""

    limit: float
    derivatives: np.ndarray
    second_moment: np.ndarray


class SingleSite(Tilted):
    """Tables for one bounded nonlinearity.

    Attributes:
        lower: infimum of φ.
        upper: supremum of φ.
        threshold: halfway between them; a class whose mean activation is above it is coded.
        critical_field: the s with L'(s) = threshold.
    """

    def __init__(self, nonlinearity: Nonlinearity):
        self.nonlinearity = nonlinearity
        near, far = np.linspace(-100.0, 100.0, 2001), np.array([-1e8, -1e6, -1e4, 1e4, 1e6, 1e8])
        values = self.phi(np.concatenate([NODES, near, far]))  # at once: every shape is compiled for
        _check_bounded(nonlinearity, values[len(NODES) : -len(far)], values[-len(far) :])
        self.values = values[: len(NODES)]
        ends = np.concatenate([self.values, values[[-5, -2]]])
        self.lower, self.upper = float(ends.min()), float(ends.max())
        self.threshold = 0.5 * (self.lower + self.upper)
        self._tables = self._tables_up_to(40.0)
        self.critical_field = self._critical_field()

    def cumulants(self, s: np.ndarray, order: int = 2, num_terms: int = 4) -> list[np.ndarray]:
        """[L(s), L'(s), …] up to the given order (at most 4), each of the shape of s.

        With num_terms < 4 the Taylor series uses derivatives up to that one only: L is good to 1e-5 with one
        term, at a third of the cost.
        """
        tables, nearest, offset = self._nearest(s)
        offset *= FIELD_STEP
        columns = [_take(tables.derivatives[k], nearest) for k in range(num_terms + 1)]
        factors = [offset, *(offset * (1 / k) for k in range(2, num_terms + 1))]
        derivatives = []
        for k in range(order + 1):  # Horner in place: L_k + δ (L_{k+1} + δ/2 (L_{k+2} + δ/3 (…)))
            value = columns[num_terms] * factors[num_terms - 1 - k] if k < num_terms else columns[k]
            for j in range(num_terms - 1, k, -1):
                value += columns[j]
                value *= factors[j - 1 - k]
            derivatives.append(np.add(value, columns[k], out=value) if k < num_terms else value)
        return derivatives

    def nearest_mean(self, s: np.ndarray) -> np.ndarray:
        """L'(s) at the nearest node of the table, good to 2e-3 of φ's range squared; fast, to climb along."""
        tables = self._tables
        nearest = (s + (tables.limit + 0.5 * FIELD_STEP)) * (1 / FIELD_STEP)
        return _take(tables.derivatives[1], nearest.astype(np.intp))

    def preactivation_variance(self, s: np.ndarray) -> np.ndarray:
        """E[z²] under the field s, linearly interpolated (error below 1e-5)."""
        tables, nearest, offset = self._nearest(s)
        ends = nearest, nearest + np.where(offset < 0, -1, 1)
        here, there = (_take(tables.second_moment, n) for n in ends)
        return here + np.abs(offset) * (there - here)

    def _nearest(self, s: np.ndarray) -> tuple["_Tables", np.ndarray, np.ndarray]:
        """Tables that reach every s, indices of the nearest nodes, and what is left, in steps of the table.

        Longer tables replace the old in one step, so threads may share them.
        """
        largest = max(float(np.max(s, initial=0.0)), -float(np.min(s, initial=0.0)))
        if not largest <= LARGEST_FIELD:
            raise FloatingPointError(
                f"field of size {largest:g} on a single preactivation: the solve diverged"
            )
        tables = self._tables
        if largest >= tables.limit:
            tables = self._tables = self._tables_up_to(min(2 * largest, LARGEST_FIELD) + 1)
        offset = np.add(s, tables.limit)
        offset *= 1 / FIELD_STEP
        nearest = np.asarray(offset + 0.5).astype(np.intp)
        offset -= nearest
        return tables, nearest, offset

    def _tables_up_to(self, limit: float) -> "_Tables":
        count = int(np.ceil(limit / FIELD_STEP))
        fields = np.arange(-count - 1, count + 2) * FIELD_STEP  # one beyond, for interpolation
        parts = [self._tabulate(block) for block in np.array_split(fields, 1 + count // 500)]
        derivatives, second_moment = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        return _Tables((count + 1) * FIELD_STEP, derivatives, second_moment)

    def _tabulate(self, s):
        exponent = s[:, None] * self.values
        exponent += -0.5 * NODES**2 - LOG_CELL
        shift = exponent.max(axis=1, keepdims=True)
        exponent -= shift
        weights = np.exp(exponent, out=exponent)
        centered = self.values - self.threshold
        columns = np.stack([*(centered**k for k in range(5)), NODES**2], axis=1)
        norm, *moments = (weights @ columns).T  # all at once: 0.9 ms, against 7 ms by `central_moments`
        first, second, third, fourth, square = (moment / norm for moment in moments)
        cumulants = [
            shift[:, 0] + np.log(norm),
            self.threshold + first,
            second - first**2,
            third - 3 * first * second + 2 * first**3,
            fourth - 4 * first * third - 3 * second**2 + 12 * first**2 * second - 6 * first**4,
        ]
        return np.stack(cumulants), square

    def _critical_field(self) -> float:
        tables = self._tables
        means = tables.derivatives[1]
        index = int(np.searchsorted(means, self.threshold))
        if not 0 < index < len(means):
            return float(np.sign(self.threshold - means[0]) * tables.limit)
        fraction = (self.threshold - means[index - 1]) / (means[index] - means[index - 1])
        return float((index - 1 + fraction) * FIELD_STEP - tables.limit)


def _take(column, index):
    """Entries of a column in the memory layout of `index`, Fortran's, which all arrays over readouts have."""
    return column.take(index.T, mode="clip").T


@lru_cache(maxsize=16)
def single_site(nonlinearity: Nonlinearity) -> SingleSite:
    """The tables of a nonlinearity, built once.

    Raises:
        ValueError: the nonlinearity is unknown, not elementwise, gives NaN, is constant or unbounded.
    """
    return SingleSite(nonlinearity)


def _check_bounded(nonlinearity, near, far):
    """Of the values at moderate and at far preactivations."""
    if not (np.all(np.isfinite(near)) and np.all(np.isfinite(far[1:-1]))):
        raise ValueError(
            f"nonlinearity: {nonlinearity!r} gives NaN or infinite values; needs a bounded function"
        )
    if np.abs(far).max() > 2 * np.abs(near).max():
        raise ValueError(
            f"nonlinearity: {nonlinearity!r} is not bounded (|φ| reaches {np.abs(far).max():.3g}); "
            "the redundant scheme needs a bounded one, theory.relu treats max(0, z)"
        )
    if np.ptp(near) == 0:
        raise ValueError(f"nonlinearity: {nonlinearity!r} is constant, so the network cannot learn")
