"""Checks of arguments, for all public functions: errors name the argument, what came, and what is allowed.

And warnings, which stand at the line of the caller's that led to them.
"""

import difflib
import math
import numbers
import operator
import reprlib
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

_PACKAGE = __name__.split(".")[0]


def warn(text: str) -> None:
    """A UserWarning at the line outside this package that called it, as Python shows one for each line."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def number(
    argument: str,
    value: Any,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> float:
    """A finite real number within bounds, as a float; no text, complex number, boolean or array."""
    got = _as_array(value)
    if got.shape == () and got.dtype.kind != "b" and np.can_cast(got.dtype, float, "same_kind"):
        found = float(got)
        if math.isfinite(found) and above < found < below and least <= found <= most:
            return found
    bounds = {"above": above, "of at least": least, "below": below, "of at most": most}
    needed = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
    raise ValueError(f"{argument}: got {shown(value)}, needs a finite number {needed}".rstrip())


def positive(**values: float) -> None:
    """Finite numbers above 0."""
    for argument, value in values.items():
        number(argument, value, above=0)


def given(**values: Any) -> dict[str, Any]:
    """Those of optional arguments that are not None, which stands for a default."""
    return {argument: value for argument, value in values.items() if value is not None}


def count(argument: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """A whole number within bounds, as an int; floats and booleans are none."""
    try:
        found = least - 1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        found = least - 1
    if found < least or (most is not None and found > most):
        needed = f"a whole number of at least {least}" if most is None else f"{least} … {most}"
        raise ValueError(f"{argument}: got {shown(value)}, needs {needed}")
    return found


def counts(**values: Any) -> None:
    """Whole numbers of at least 1."""
    for argument, value in values.items():
        count(argument, value)


def choice(argument: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed names; the error says which of them is nearest."""
    allowed = tuple(allowed)
    if not (isinstance(value, str) and value in allowed):
        near = difflib.get_close_matches(str(value), allowed, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{argument}: got {shown(value)}, allowed are {', '.join(map(repr, allowed))}{hint}")
    return value


def several(argument: str, value: Any) -> tuple[Any, ...]:
    """Several values, or none, as a tuple; no single one, and no text."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{argument}: got {shown(value)}, needs a tuple, () for none")
    return tuple(value)


def array(argument: str, value: Any, axes: str, *, dtype: Any = float, **sizes: int) -> np.ndarray:
    """An array of finite real numbers.

    Args:
        argument: its name.
        value: what came.
        axes: names or sizes of its axes, "N0, P" or "2, m"; "…" first stands for any others, or none.
        dtype: of the result; None keeps floats as they are, and makes the others float64.
        **sizes: of named axes, where they are known.

    Returns:
        The array, of at least one number.

    Raises:
        ValueError: it has another shape or none, is empty, masked, or holds what is no finite real number.

    >>> array("targets", [[1, 0]], "P, m", P=3)
    Traceback (most recent call last):
    ValueError: targets: got shape (1, 2), needs (P = 3, m)
    """
    parts = value if isinstance(value, list | tuple) else (value,)  # rows may be masked each for itself
    if masked := sum(int(np.ma.count_masked(part)) for part in parts if np.ma.isMaskedArray(part)):
        raise ValueError(f"{argument}: {masked} values are masked; leave out their rows or columns")
    found = _as_array(value)
    if not np.can_cast(found.dtype, float, "same_kind"):
        raise ValueError(f"{argument}: got {found.dtype} {shown(value)}, needs real numbers")
    names = [name.strip() for name in axes.split(",") if name.strip()]
    last = [name for name in names if name != "…"]
    fits = found.ndim == len(last) or (found.ndim > len(last) and "…" in names)
    pairs = list(zip(last, found.shape[found.ndim - len(last) :])) if fits else []
    known = dict(pairs) | {name: int(name) for name in last if name.isdigit()} | sizes
    # an axis that is named twice has one size
    if not fits or found.size == 0 or any(size != known[name] for name, size in pairs):
        needed = ", ".join(f"{name} = {sizes[name]}" if name in sizes else name for name in names)
        raise ValueError(f"{argument}: got shape {found.shape}, needs ({needed})")
    if dtype is not None or not np.issubdtype(found.dtype, np.floating):
        found = found.astype(float if dtype is None else dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(found.sum()) or np.isfinite(found).all()  # a sum is the quicker test
    if not finite:
        raise ValueError(f"{argument}: {np.count_nonzero(~np.isfinite(found))} values are NaN or infinite")
    return found


def labels(argument: str, value: Any, size: int, num_classes: int | None = None) -> np.ndarray:
    """Classes of `size` inputs, whole numbers 0 … C − 1, each of which has an input unless C is given."""
    found = array(argument, value, "P", P=size)
    if np.any(found != np.floor(found)) or found.min() < 0:
        raise ValueError(f"{argument}: hold negative or broken numbers, need whole numbers 0 … C − 1")
    whole = found.astype(int)
    if num_classes is not None:
        if whole.max() >= num_classes:
            raise ValueError(f"{argument}: got class {whole.max()}, needs classes 0 … {num_classes - 1}")
        return whole
    there = np.unique(whole)
    missing = np.flatnonzero(there != np.arange(len(there)))
    if missing.size:
        raise ValueError(f"{argument}: class {missing[0]} has no input; classes are 0 … C − 1")
    return whole


def instance(argument: str, value: Any, *kinds: type) -> None:
    """An object of one of some classes."""
    if not isinstance(value, kinds):
        needed = " or ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
        raise ValueError(f"{argument}: got {shown(value)}, needs {needed}")


def key(value: Any) -> None:
    """A single random key of JAX, in either form, as the argument `key`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", np.dtype(object))
    new = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    if not (shape == () if new else dtype == np.uint32 and len(shape or ()) == 1):
        raise ValueError(f"key: got {shown(value)}, needs a random key, such as jax.random.key(0)")


def shown(value: Any) -> str:
    """What came, in a message: numbers as they are, everything else shortened."""
    text = str(value) if isinstance(value, numbers.Number) else " ".join(reprlib.repr(value).split())
    return text if len(text) < 80 else f"{text[:60]}…"


def _as_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.asarray(None)
