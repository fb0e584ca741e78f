"""The chapters' earlier way to record a check, until all of them call `checks.check`; then this file goes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from companion import checks, formats
from companion.checks import _value as _finite


class Control(NamedTuple):
    """The same check applied to something that should fail, shown failing.

    Attributes:
        description: What was altered: a lazy network, shuffled labels, an altered equation.
        computed: The value the check gave there.
        passed: Whether the check passed there, which it must not.
    """

    description: str
    computed: ArrayLike
    passed: bool


def within(
    computed: ArrayLike, expected: ArrayLike, uncertainty: ArrayLike, num_standard_errors: float = 3.0
) -> bool:
    """Whether every computed value lies within so many standard errors of the expected one.

    Args:
        computed: Measured values.
        expected: Values to compare with, of a shape that broadcasts against `computed`.
        uncertainty: Standard error of the difference, positive.
        num_standard_errors: Allowed distance in units of `uncertainty`.

    Returns:
        True if |computed − expected| ≤ num_standard_errors · uncertainty everywhere.

    Raises:
        ValueError: If a value is not finite or an uncertainty is not positive.
    """
    for argument, value in (("computed", computed), ("expected", expected), ("uncertainty", uncertainty)):
        _finite(argument, value)
    if not np.all(np.asarray(uncertainty) > 0):
        raise ValueError(f"uncertainty must be positive; got {uncertainty!r}")
    distance = np.abs(np.asarray(computed) - np.asarray(expected))
    return bool(np.all(distance <= num_standard_errors * np.asarray(uncertainty)))


class PowerLaw(NamedTuple):
    """A fitted law value = prefactor · size^exponent.

    Attributes:
        exponent: The fitted exponent.
        standard_error: Its standard error.
        prefactor: The fitted prefactor.
    """

    exponent: float
    standard_error: float
    prefactor: float


def fit_power_law(sizes: ArrayLike, values: ArrayLike) -> PowerLaw:
    """Fit an exponent, log value = log prefactor + exponent · log size, by least squares.

    Args:
        sizes: Sizes (S,), at least three different ones, positive.
        values: Measured values (S,), positive.

    Returns:
        The fit; its standard error is taken from the scatter around the line.

    Raises:
        ValueError: If there are fewer than three sizes, or a size or value is not positive and finite.
    """
    sizes, values = np.asarray(sizes, dtype=np.float64), np.asarray(values, dtype=np.float64)
    for argument, array in (("sizes", sizes), ("values", values)):
        if array.shape != sizes.shape or not (np.all(np.isfinite(array)) and np.all(array > 0)):
            raise ValueError(f"{argument} must be one positive number per size; got {array.tolist()}")
    if np.unique(sizes).size < 3:
        raise ValueError(
            f"sizes must hold at least three different sizes for an error bar; got {sizes.tolist()}"
        )
    line = stats.linregress(np.log(sizes), np.log(values))
    return PowerLaw(float(line.slope), float(line.stderr), float(np.exp(line.intercept)))


def record(
    id: str,
    quantity: str,
    computed: ArrayLike | str,
    expected: ArrayLike | str | None = None,
    uncertainty: ArrayLike | None = None,
    tolerance: ArrayLike | str | None = None,
    *,
    passed: bool,
    control: Control | None = None,
    note: str = "",
) -> None:
    """Write the record of a check that was decided elsewhere, in the format of `checks.check`.

    Raises:
        ValueError: If a number is not finite, an uncertainty negative, or `passed` no bool.
        AssertionError: If the control passed.
    """
    place = f"claim {id}, {quantity}"
    for name, decided in (("passed", passed), ("control.passed", control.passed if control else False)):
        if not isinstance(decided, bool | np.bool_):
            raise ValueError(f"{name} must be a bool ({place}); got {decided!r}")
    if control is not None and control.passed:
        raise AssertionError(f"{place}: control ({control.description}) did not fail")
    limit = _finite("tolerance", tolerance)
    data: dict[str, Any] = {
        "id": id,
        "quantity": quantity,
        "computed": _finite("computed", computed),
        "expected": _finite("expected", expected),
        "uncertainty": _finite("uncertainty", uncertainty),
        "predicate": limit if isinstance(limit, str) else f"within {formats.values(limit)}" if limit else "",
        "passed": bool(passed),
        "worst": None,
        "control": None,
        "sampler": None,
        "because": "" if passed else note,
        "note": note if passed else "",
        "stored": "",
        "source": "expected",
    }
    if control is not None:
        altered = {
            "computed": _finite("control.computed", control.computed),
            "uncertainty": None,
            "expected": None,
        }
        data["control"] = {"description": control.description, **altered, "passed": False}
    if uncertainty is not None and np.any(np.asarray(uncertainty) < 0):
        raise ValueError(f"uncertainty must not be negative ({place}); got {uncertainty!r}")
    checks.emit(data)
