r"""One preactivation tilted by a bounded nonlinearity: its log-normaliser and moments.

    L(s) = log E_{z ~ N(0,1)} e^{s φ(z)},   density of z under the field s:  ∝ N(z; 0, 1) e^{s φ(z)}.

L, and its derivatives up to the fourth (the cumulants of φ), are tabulated on a fine grid of s and
continued from the nearest node by their Taylor series: on the grid used, L is exact to 1e-13 and
L' to 1e-10, at the cost of one table look-up.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes import networks

Nonlinearity = str | Callable

FIELD_STEP = 0.01  # spacing of the table in s: the first neglected Taylor term of L is below 1e-13
NODES = np.linspace(-12.0, 12.0, 801)  # e^{-72} of the prior lies outside; the trapezoid rule is spectral
LARGEST_FIELD = 1000.0  # |a·t_c| stays below 100 for targets of order one; beyond lies a diverging solve


class _Tables(NamedTuple):
    """What is tabulated over the fields s = −limit … limit: L and four derivatives (5, k), E[z²] (k,)."""

    limit: float
    derivatives: np.ndarray
    second_moment: np.ndarray


class SingleSite:
    """Tables for one bounded nonlinearity; see the module docstring.

    Attributes:
        lower: infimum of φ.
        upper: supremum of φ.
        threshold: halfway between them; a class whose mean activation is above it is coded.
        critical_field: the s with L'(s) = threshold.
    """

    def __init__(self, nonlinearity: Nonlinearity):
        self._phi = jax.jit(networks.nonlinearity(nonlinearity))
        near, far = np.linspace(-100.0, 100.0, 2001), np.array([-1e8, -1e6, -1e4, 1e4, 1e6, 1e8])
        values = self.phi(np.concatenate([NODES, near, far]))  # at once: every shape is compiled for
        _check_bounded(nonlinearity, values[len(NODES) : -len(far)], values[-len(far) :])
        self.values = values[: len(NODES)]
        ends = np.concatenate([self.values, values[[-5, -2]]])
        self.lower, self.upper = float(ends.min()), float(ends.max())
        self.threshold = 0.5 * (self.lower + self.upper)
        self._log_prior = -0.5 * NODES**2 - np.log(np.sqrt(2 * np.pi) / (NODES[1] - NODES[0]))
        self._tables = self._tables_up_to(40.0)
        self.critical_field = self._critical_field()

    def phi(self, z: np.ndarray) -> np.ndarray:
        """φ(z) in float64."""
        with jax.enable_x64(True):
            return np.asarray(self._phi(jnp.asarray(z, jnp.float64)))

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

    def density(self, z: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Density of z under the field s, broadcast over both."""
        exponent = s * self.phi(z) - self.cumulants(s, 0)[0] - 0.5 * z**2
        return np.exp(exponent) / np.sqrt(2 * np.pi)

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
        exponent += self._log_prior
        shift = exponent.max(axis=1, keepdims=True)
        exponent -= shift
        weights = np.exp(exponent, out=exponent)
        centered = self.values - self.threshold
        columns = np.stack([*(centered**k for k in range(5)), NODES**2], axis=1)
        norm, *moments = (weights @ columns).T
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
