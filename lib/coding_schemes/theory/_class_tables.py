r"""A class of overlapping inputs, seen by one neuron: tables over the field s = a·t_c.

The n inputs of a class have the preactivations z_μ = √ρ v + √(κ₀−ρ) ξ_μ, v and ξ standard normal,
K0_μμ = κ₀. With g(s, u) = E_ξ e^{sφ(u + √(κ₀−ρ) ξ)},

    G(s) = log E_v g(s, √ρ v)ⁿ,   G' = ⟨Σ_μ φ_μ⟩,   G'' = Var Σ_μ φ_μ .

**Quadrature in v.** Given all z_μ, v is Gaussian of variance (κ₀−ρ)/(κ₀−ρ+nρ), whatever the tilt: its density
is a mixture of such Gaussians, and the trapezoid rule of spacing 0.9 standard deviations is exact to 1e-10.

**Far fields.** Where φ(z) → β± z as z → ±∞, G → ½ n κ β±² s² with κ = κ₀ − ρ + nρ. This part is split off
smoothly, the rest is tabulated over x = asinh(s/s₀) with its first two derivatives and continued by quintic
polynomials. Steps follow the width of a class that switches as a whole, 1/√(n + n²ρ).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr, ndtr

from coding_schemes.networks import Nonlinearity, canonical, homogeneity
from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.theory._solvers import evaluate
from coding_schemes.theory._tilted import normalized

_STEP = 0.25  # of the table near s = 0, in units of 1/(range √(n + n²ρ))
_REACH, _NEAR = 8.5, 13.0  # standard deviations of ξ, and of v, that are integrated over
_FAR_FIELD = 30.0  # beyond it preactivations are so large that φ(z) = βz to rounding
_FAR = 1e4  # where slopes and bounds of φ are read off


class Shape(NamedTuple):
    """φ far from the origin."""

    lower: float
    upper: float
    slopes: tuple[float, float]  # φ(z)/z at z → −∞ and ∞

    @property
    def bounded(self) -> bool:
        """Whether φ is."""
        return self.slopes == (0.0, 0.0)


@lru_cache(maxsize=32)
def shape(nonlinearity: str | Nonlinearity) -> Shape:
    """Bounds and slopes of φ; ValueError where it grows faster than z."""
    z = np.concatenate([np.linspace(-100, 100, 2001), [-2 * _FAR, -_FAR, _FAR, 2 * _FAR]])
    values = evaluate(resolve(nonlinearity), z)
    slopes = values[-4] / z[-4], values[-1] / z[-1]
    nearer = values[-3] / z[-3], values[-2] / z[-2]
    if not np.all(np.isfinite(values)) or not np.allclose(slopes, nearer, atol=1e-3):
        raise ValueError(f"nonlinearity: got {nonlinearity!r}; needs one that is bounded or grows like z")
    low, high = (0.0 if abs(slope) < 1e-3 else float(slope) for slope in slopes)
    near = values if low == high == 0 else values[:-4]
    return Shape(float(near.min()), float(near.max()), (low, high))


def known_shape(nonlinearity: str | Nonlinearity) -> Shape | None:
    """The same; None where φ grows faster than z."""
    try:
        return shape(nonlinearity)
    except ValueError:
        return None


class Moments(NamedTuple):
    """Of φ at fixed s and u: log g, and ⟨φᵏ⟩ for k = 1 … 4."""

    log_g: np.ndarray
    powers: tuple[np.ndarray, ...]


def piecewise_moments(s, u, sigma, slopes) -> Moments:
    """Of φ(z) = β₋ z for z < 0 and β₊ z for z > 0: two truncated Gaussians."""
    parts = []
    for slope, side in zip(slopes, (-1, 1)):
        mean = side * (u + s * slope * sigma**2)  # of |z| before truncation
        x = mean / sigma
        log_weight = s * slope * u + 0.5 * (s * slope * sigma) ** 2 + log_ndtr(x)
        hazard = sigma * np.exp(-0.5 * x**2 - log_ndtr(x)) / np.sqrt(2 * np.pi)
        raw = [np.ones_like(mean), mean + hazard]
        for k in range(2, 5):  # cancels for mean ≪ 0, where the branch matters only if the other is empty too
            raw.append(mean * raw[-1] + (k - 1) * sigma**2 * raw[-2])
        far = x < -30  # z is exponential, of rate |mean|/σ²
        scale = np.where(far, -(sigma**2) / np.where(far, mean, 1.0), 0.0)
        raw = [np.where(far, f * scale**k, r) for k, (f, r) in enumerate(zip((1, 1, 2, 6, 24), raw))]
        parts.append((log_weight, [(side * slope) ** k * raw[k] for k in range(1, 5)]))
    (first, low), (second, high) = parts
    log_g = np.logaddexp(first, second)
    share = np.exp(second - log_g)
    return Moments(log_g, tuple((1 - share) * a + share * b for a, b in zip(low, high)))


def mean_fourth(moments: Moments, count: float) -> np.ndarray:
    """⟨m⁴⟩ of the mean m of φ over n inputs of these moments, at fixed s and u."""
    one, two, three, four = moments.powers
    spread = np.maximum(two - one**2, 0) / count
    third = three - 3 * one * two + 2 * one**3
    fourth = four - 4 * one * three - 3 * two**2 + 12 * one**2 * two - 6 * one**4
    return one**4 + 6 * one**2 * spread + 3 * spread**2 + 4 * one * third / count**2 + fourth / count**3


def _by_quadrature(s, u, sigma, phi, slopes) -> Moments:
    """Of any φ, for s (k, 1), u (k, v): the trapezoid rule in z between all centers that s can shift to."""
    shifts = [s * slope * sigma**2 for slope in slopes]
    low = np.minimum(0, np.minimum(*shifts))
    high = np.maximum(0, np.maximum(*shifts))
    if max(-low.min(), high.max()) > _REACH * sigma:
        # A slope of the other side shifts z no farther than to where φ has flattened
        reach = _flattened(s, u, sigma, phi, max(-low.min(), high.max()))
        low = np.maximum(low, np.where(s * slopes[0] < 0, low, -reach))
        high = np.minimum(high, np.where(s * slopes[1] > 0, high, reach))
    low, high = low - _REACH * sigma, high + _REACH * sigma
    # where a strong field holds z at a minimum of s φ, of curvature s φ'', the peak is narrower than σ
    step = 0.25 * sigma / np.sqrt(1 + 0.1 * np.abs(s).max() * sigma**2 * _bend(phi))
    count = int(np.ceil(np.max(high - low) / step)) + 1
    offset = (low + (high - low) * np.linspace(0, 1, count))[:, None, :]  # (k, 1, nodes)
    cell = np.log((high - low) / (count - 1) / (sigma * np.sqrt(2 * np.pi)))
    values = evaluate(phi, np.ascontiguousarray(u[:, :, None] + offset))
    exponent = s[:, :, None] * values - 0.5 * (offset / sigma) ** 2
    shift = exponent.max(axis=-1, keepdims=True)
    weights = np.exp(exponent - shift)
    norm = weights.sum(axis=-1)
    powers = []
    for _ in range(4):
        weights *= values
        powers.append(weights.sum(axis=-1) / norm)
    return Moments(shift[..., 0] + np.log(norm) + cell, tuple(powers))


@lru_cache(maxsize=64)
def _bend(phi) -> float:
    """Largest |φ''| near 0; at most 1, where φ has a kink."""
    z, h = np.linspace(-10, 10, 401, retstep=True)
    return min(1.0, float(np.abs(np.diff(evaluate(phi, z), 2)).max()) / h**2)


def _flattened(s, u, sigma, phi, farthest):
    """|z| beyond which exp(s φ(u + z) − z²/2σ²) is e⁻⁴⁰ of its largest, if s φ is bounded above."""
    trial = sigma * np.concatenate([[0.0], 2.0 ** np.arange(-1, np.log2(farthest / sigma) + 1)])
    z = np.concatenate([-trial[:0:-1], trial])
    pull = s[:, :, None] * evaluate(phi, np.ascontiguousarray(u[:, :, None] + z))
    least = pull.max(axis=-1) - (pull - 0.5 * (z / sigma) ** 2).max(axis=-1)
    return sigma * np.sqrt(2 * (40 + least)).max(axis=1, keepdims=True)


class ClassTable:
    """G and its derivatives, and what the inputs of a class have in common, over s.

    Args:
        nonlinearity: bounded, or growing like z.
        count: inputs n of the class.
        overlap: ρ, at least 0 and below the diagonal.
        diagonal: κ₀.
        limit: largest |s| of the table.
    """

    def __init__(
        self, nonlinearity: str | Nonlinearity, count: int, overlap: float, diagonal: float, limit: float
    ):
        self.count, self.overlap, self.limit = count, overlap, limit
        self.phi, self.shape = resolve(nonlinearity), shape(nonlinearity)
        self.sigma = float(np.sqrt(diagonal - overlap))
        self.stiffness = diagonal - overlap + count * overlap  # κ
        self.threshold = 0.5 * (self.shape.lower + self.shape.upper) if self.shape.bounded else np.inf
        piecewise = homogeneity(self.phi) == 1
        self._exact = piecewise or nonlinearity == "relu"
        spread = self.shape.upper - self.shape.lower if self.shape.bounded else 1.0
        step = min(0.05, _STEP / (spread * np.sqrt(count + count**2 * overlap)))
        half = np.arange(0, np.arcsinh(limit) + 2 * step, step)
        self._x = np.concatenate([-half[:0:-1], half])
        self._step = step
        self._tabulate(np.sinh(self._x))

    def _moments(self, s, u) -> Moments:
        low, high = self.shape.slopes
        far = (s.min() > _FAR_FIELD and high > 0) or (s.max() < -_FAR_FIELD and low > 0)  # where φ(z) = βz
        if self._exact or far:
            return piecewise_moments(s, u, self.sigma, self.shape.slopes)
        return _by_quadrature(s, u, self.sigma, self.phi, self.shape.slopes)

    def latent(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, Moments]:
        """Nodes v (k, nodes), log of their weights g(s, √ρ v)ⁿ N(v) dv, and the moments of φ there."""
        s = np.asarray(s, float)[:, None]
        if self.overlap == 0:
            v = np.zeros_like(s)
            moments = self._moments(s, v)
            return v, self.count * moments.log_g, moments
        step = max(0.9 * self.sigma / np.sqrt(self.stiffness), 0.25 / np.sqrt(self.count))
        below, above = (np.sqrt(self.overlap) * self.count * s * slope for slope in self.shape.slopes)
        below, above = np.minimum(below, 0), np.maximum(above, 0)  # where v goes with z < 0, and with z > 0
        low = np.where((above > 30) & (below == 0), above - 17, below)  # far from 0 nothing is left around it
        high = np.where((below < -30) & (above == 0), below + 17, above)
        low, high = low - _NEAR, high + _NEAR
        nodes = int(np.ceil(np.max(high - low) / step)) + 1
        v = low + (high - low) * np.linspace(0, 1, nodes)
        moments = self._moments(s, np.sqrt(self.overlap) * v)
        cell = np.log((high - low) / (nodes - 1) / np.sqrt(2 * np.pi))
        return v, self.count * moments.log_g - 0.5 * v**2 + cell, moments

    def _block(self, s):
        """Rows for a stretch of fields: G, G', G'', ⟨m²⟩, ⟨φ²⟩, ⟨m̄⁴⟩ and the share of active neurons."""
        n = self.count
        _, log_weight, moments = self.latent(s)
        log_value, weights = normalized(log_weight)
        one, two, *_ = moments.powers
        variance = np.maximum(two - one**2, 0)
        mean = np.sum(weights * one, axis=1)
        var = n * np.sum(weights * variance, axis=1)
        var += n**2 * np.sum(weights * (one - mean[:, None]) ** 2, axis=1)
        m4 = mean_fourth(moments, n)
        on = np.zeros_like(mean) if np.isinf(self.threshold) else self._active(weights, one, variance)
        averages = (np.sum(weights * values, axis=1) for values in (one**2, two, m4))
        return np.stack([log_value, n * mean, var, *averages, on])

    def _active(self, weights, mean, variance):
        """Share of neurons whose mean over the class's inputs is above the threshold."""
        precision = np.sqrt(self.count / np.maximum(variance, 1e-14))
        return np.sum(weights * ndtr((mean - self.threshold) * precision), axis=1)

    def _tabulate(self, s):
        rows = [self._block(part) for part in np.array_split(s, 1 + len(s) // (60 if self._exact else 20))]
        value, first, second, *extras = np.concatenate(rows, axis=1)
        far = np.stack(self._far(s))
        value, first, second = value - far[0], first - far[1], second - far[2]
        root = np.sqrt(1 + s**2)  # to derivatives in x, s = sinh x
        h = self._step
        nodes = np.stack([value, h * root * first, h**2 * (root**2 * second + s * first)])
        self._polynomials = _quintic(nodes)
        self._extras = CubicSpline(self._x, np.stack(extras, axis=1))

    def _far(self, s, order: int = 2):
        """½ n κ s² [β₋² … β₊²] and its derivatives, with a smooth step around 0."""
        low, high = (slope**2 for slope in self.shape.slopes)
        scale = self.count * self.stiffness
        middle, side = 0.5 * (low + high), 0.5 * (high - low)
        square = s * s
        root = np.sqrt(1 + square)
        parts = [0.5 * scale * square * (middle + side * s / root)]
        if order > 0:
            parts.append(scale * (middle * s + side * square * (1.5 + square) / root**3))
        if order > 1:
            bend = s * (3 + 2.5 * square + square * square)
            parts.append(scale * (middle + side * bend / root**5))
        return parts

    def evaluate(self, s: np.ndarray, order: int = 2) -> list[np.ndarray]:
        """[G(s), G'(s), …], each of the shape of s; FloatingPointError beyond the table."""
        if s.size and not np.abs(s).max() <= self.limit:
            raise FloatingPointError(f"field of size {np.abs(s).max():g} on a class: the solve diverged")
        x = np.arcsinh(s)
        position = x * (1 / self._step) + (len(self._x) - 1) / 2
        index = np.minimum(position.astype(np.intp), len(self._x) - 2)
        offset = position - index
        columns = [column.take(index) for column in self._polynomials]
        polynomial = [columns]
        for _ in range(order):
            polynomial.append([k * column for k, column in enumerate(polynomial[-1])][1:])
        by_x = []
        for part in polynomial:
            value = part[-1]
            for column in part[-2::-1]:
                value = value * offset + column
            by_x.append(value)
        h, root = self._step, np.sqrt(1 + s**2)
        found = [by_x[0]]
        if order > 0:
            found.append(by_x[1] / (h * root))
        if order > 1:
            found.append((by_x[2] / h**2 - s * found[1]) / root**2)
        return found if self.shape.bounded else [a + b for a, b in zip(found, self._far(s, order))]

    def shared(self, s: np.ndarray) -> np.ndarray:
        """⟨m²⟩ between inputs, ⟨φ²⟩, ⟨m̄⁴⟩ of the class mean, share of active neurons: shape (…, 4)."""
        return self._extras(np.arcsinh(s))


def _quintic(nodes):
    """Coefficients (6, k − 1) of the polynomials in 0 … 1 with given values and two derivatives (3, k)."""
    p0, d0, c0 = nodes[:, :-1]
    p1, d1, c1 = nodes[:, 1:]
    jump, slope, bend = p1 - p0 - d0 - 0.5 * c0, d1 - d0 - c0, c1 - c0
    third = 10 * jump - 4 * slope + 0.5 * bend
    fourth = -15 * jump + 7 * slope - bend
    fifth = 6 * jump - 3 * slope + 0.5 * bend
    return np.stack([p0, d0, 0.5 * c0, third, fourth, fifth])


_class_table = lru_cache(maxsize=64)(ClassTable)
_SIZES = 20.0 * 16.0 ** np.arange(4)  # limits of tables: few are built


def class_tables(
    nonlinearity: str | Nonlinearity, counts: np.ndarray, overlaps: np.ndarray, diagonals: np.ndarray
) -> Callable[[float], list[ClassTable]]:
    """For a largest field: the tables of all classes, built once."""
    known = canonical(nonlinearity)

    def up_to(largest: float) -> list[ClassTable]:
        if not largest <= _SIZES[-1]:
            raise FloatingPointError(f"field of size {largest:g} on a class: the solve diverged")
        limit = float(_SIZES[np.searchsorted(_SIZES, largest)])
        return [
            _class_table(known, int(n), *map(float, k), limit) for n, *k in zip(counts, overlaps, diagonals)
        ]

    return up_to
