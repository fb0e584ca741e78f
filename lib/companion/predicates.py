"""Conditions that decide a finding: each says what it asks for, and how far inside its limit a value lies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from companion import formats

EXACTLY = "exactly"


@dataclass(frozen=True)
class Predicate:
    """A condition that decides a check, says what it is, and says how far inside a value lies.

    Attributes:
        text: What it asks for, as shown.
        margin: (computed, expected, error) → distance from the edge, elementwise, negative outside.
        needs: Which of "expected" and "error" it reads.
    """

    text: str
    margin: Callable[[Any, Any, Any], Any]
    needs: tuple[str, ...] = ()

    def __call__(self, computed: ArrayLike, expected: Any = None, error: Any = None) -> bool:
        """Whether every element lies inside."""
        return bool(np.all(np.asarray(self.margin(computed, expected, error)) >= 0))

    def __or__(self, other: "Predicate") -> "Predicate":
        """Elementwise the one or the other."""
        return Predicate(
            f"{self.text} or {other.text}",
            lambda *given: np.maximum(self.margin(*given), other.margin(*given)),
            tuple(dict.fromkeys((*self.needs, *other.needs))),
        )


def standard_errors(k: float) -> Predicate:
    """Within k standard errors: |computed − expected| ≤ k · error; where that is 0, the expected value."""
    k = _limit("k", k)

    def margin(c: Any, e: Any, s: Any) -> Any:
        apart = np.abs(np.subtract(c, e))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(apart > 0, k - apart / s, k)

    return Predicate(f"within {formats.number(k)} s.e.", margin, ("expected", "error"))


def relative(r: float) -> Predicate:
    """Within a fraction: |computed − expected| ≤ r · |expected|."""
    r = _limit("r", r)
    return Predicate(
        f"within {formats.number(100 * r)} %",
        lambda c, e, s: r * np.abs(e) - np.abs(np.subtract(c, e)),
        ("expected",),
    )


def absolute(d: float) -> Predicate:
    """Within a distance: |computed − expected| ≤ d."""
    d = _limit("d", d)
    return Predicate(
        f"within {formats.number(d)}", lambda c, e, s: d - np.abs(np.subtract(c, e)), ("expected",)
    )


def above(x: ArrayLike, k: float = 0.0) -> Predicate:
    """Larger than x, one limit or one for each element; by more than k standard errors."""
    return _beyond(">", x, k)


def below(x: ArrayLike, k: float = 0.0) -> Predicate:
    """Smaller than x, one limit or one for each element; by more than k standard errors."""
    return _beyond("<", x, k)


def _beyond(side: str, x: ArrayLike, k: float) -> Predicate:
    sign = 1 if side == ">" else -1
    text = f"{side} {_shown('x', x)}"
    if not k:
        return Predicate(text, lambda c, e, s: _strictly(sign * np.subtract(c, x)))
    k = _limit("k", k)
    return Predicate(
        f"{text} by {formats.number(k)} s.e.",
        lambda c, e, s: _strictly(sign * np.subtract(c, x) / s - k),
        ("error",),
    )


def between(a: float, b: float) -> Predicate:
    """From a to b, both included."""
    text = f"between {_shown('a', a)} and {_shown('b', b)}"
    if not a < b:
        raise ValueError(f"a must be smaller than b; got {a} and {b}")
    return Predicate(text, lambda c, e, s: np.minimum(np.subtract(c, a), np.subtract(b, c)))


def p_value(p: float) -> Predicate:
    """A test that does not reject: every computed p-value is larger than p."""
    if not 0 < _limit("p", p) < 1:
        raise ValueError(f"p must lie between 0 and 1; got {p!r}")
    return Predicate(f"p > {formats.number(p)}", lambda c, e, s: _strictly(np.subtract(_probabilities(c), p)))


def equal() -> Predicate:
    """Exactly the expected number, array, text or list of texts."""
    return Predicate(EXACTLY, lambda c, e, s: 0.0 if same(c, e) else -1.0, ("expected",))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in every element, the other broadcast to the shape of the one."""
    first, second = np.asarray(one), np.asarray(other)
    try:
        return bool(np.array_equal(first, np.broadcast_to(second, first.shape)))
    except ValueError:
        return False


def _limit(name: str, value: float) -> float:
    if np.asarray(value).dtype.kind not in "iuf" or not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}")
    return float(value)


def _shown(name: str, value: ArrayLike) -> str:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not array.size or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite numbers; got {value!r}")
    return formats.values(np.asarray(value, dtype=float).tolist())


def _strictly(margin: Any) -> Any:
    """A margin of which the edge itself is outside."""
    return np.where(np.asarray(margin) > 0, margin, np.minimum(margin, -np.finfo(float).tiny))


def _probabilities(value: Any) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if np.any((array < 0) | (array > 1)):
        raise ValueError(f"computed must be p-values, between 0 and 1; got {value!r}")
    return array
