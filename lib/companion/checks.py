"""Checks of the chapters that `companion.findings` does not write yet; goes when the last of them has moved.

check("A5", "slopes of activations on readouts", slopes, theory, error, standard_errors(3),
      control=("labels shuffled over inputs", shuffled))
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from companion import findings, records
from companion.findings import Estimate, Finding
from companion.predicates import (  # noqa: F401 (chapters import them from here)
    Predicate,
    above,
    absolute,
    below,
    between,
    equal,
    p_value,
    relative,
    standard_errors,
)


class Control(NamedTuple):
    """The same check applied to something that should fail: what is given here takes the check's place.

    Attributes:
        description: What was altered: a lazy network, shuffled labels, an altered equation.
        computed: What was computed there.
        error: Its standard error.
        expected: An altered theory's value, for the same computed one.
    """

    description: str
    computed: Any = None
    error: Any = None
    expected: Any = None


def beside(estimate: Any, expected: Any) -> tuple[Any, Any, Any]:
    """A mean with its standard error, and what it should be: the first three arguments of a `check`."""
    computed, error = estimate
    return computed, expected, error


def check(
    id: str,
    quantity: str,
    computed: ArrayLike | str | Sequence[str],
    *against: Any,
    control: Control | tuple[Any, ...],
    because: str = "",
    note: str = "",
    sampler: Any = None,
    stored: str = "",
    source: str = "theory",
) -> None:
    """Judge one quantity of a claim, as `Finding.judge` does, but for two rules that it does not keep.

    It names no headline and no sizes, and its control need not fail in every element.

    Args:
        id: The claim's id in ``book/claims.yml``; a claim may have several checks.
        quantity: What was computed, in a few words.
        computed: Its value: a number, an array, or texts such as a list of codes.
        *against: What it should be, its standard error, and last the predicate: `expected, error, predicate`,
            `expected, predicate`, or `predicate` alone.
        control: What was altered, and what was computed there: (description, computed), or (description,
            computed, error), or a `Control` where the expected value is the altered one.
        because: The reason found for a check that does not pass; the book on record needs one.
        note: Conditions and limits, always shown.
        sampler: As in `Finding`.
        stored: As in `Finding`.
        source: As in `Finding`.

    Raises:
        ValueError: As `Finding`; or an error is negative.
    """
    place = f"claim {id}, {quantity}"
    expected, error, predicate = _against(against, place)
    if error is not None and np.any(np.asarray(error) < 0):
        raise ValueError(f"error ({place}) must be positive; got {error!r}")
    control = Control(*control)
    altered = control.computed
    if altered is not None and control.error is not None:
        altered = Estimate(altered, control.error)
    finding = Finding(
        id,
        quantity,
        sampled=computed if error is None else Estimate(computed, error),
        theory=expected,
        size={"networks": "not said"},
        control=findings.Control(control.description, sampled=altered, theory=control.expected),
        sampler=sampler,
        stored=stored,
        source=source,
    )
    record = finding.record(predicate, because, note, every=False)
    records.emit(record | {"size": {}, "figure": "", "panel": ""})


def _against(given: tuple[Any, ...], place: str) -> tuple[Any, Any, Predicate]:
    """Expected value, error and predicate."""
    if not 1 <= len(given) <= 3 or not isinstance(given[-1], Predicate):
        raise ValueError(
            f"against ({place}) must be [expected, [error,]] predicate, "
            f"such as standard_errors(3); got {given!r}"
        )
    expected, error = (*given[:-1], None, None)[:2]
    for name, value in (("expected", expected), ("error", error)):
        if name in given[-1].needs and value is None:
            raise ValueError(f"{name} is needed by {given[-1].text!r} ({place}); got none")
    return expected, error, given[-1]
