"""The chapters' earlier way to record a check, until all of them call `checks.check`; then this file goes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

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
