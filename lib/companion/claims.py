"""Record what a chapter computed for a claim, next to what the paper published, for the scoreboard."""

import html
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from coding_schemes import paths
from IPython.display import display
from numpy.typing import ArrayLike

MIME_TYPE = "application/vnd.coding-schemes.claim+json"
"""Type of the mime bundle under which a record lies in the executed notebook."""


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


def known() -> dict[str, dict[str, Any]] | None:
    """Read the book's list of claims.

    Returns:
        The rows of ``book/claims.yml`` by claim id; None outside the book's repository.
    """
    root = paths.repository_root()
    return None if root is None else _rows(root / "book" / "claims.yml")


@cache
def _rows(path: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in yaml.safe_load(path.read_text(encoding="utf-8"))}


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
    """Show one computed quantity of a claim under the cell, and leave it there for the scoreboard.

    A check that fails does not stop the chapter: it becomes the verdict "not reproduced" (or "partly", where
    other quantities of the claim pass), and must say why. A control that passes stops it: a check
    that cannot fail shows nothing.

    Args:
        id: The claim's id in ``book/claims.yml``; a claim may record several quantities.
        quantity: What was computed, in a few words.
        computed: Its value: a number, an array, or a short text such as a list of codes.
        expected: The value it should have, from the theory or the paper.
        uncertainty: Standard error of `computed`.
        tolerance: Allowed deviation, as a number or in words ("3 standard errors").
        passed: Whether the check passed.
        control: The altered case and what the check gave there; each claim needs one, on any quantity.
        note: The reason found, required where `passed` is False; conditions and limits otherwise.

    Raises:
        ValueError: If the id is unknown, a number is not finite, or a failed check has no note.
        AssertionError: If the control passed.
    """
    rows = known()
    if rows is not None and id not in rows:
        raise ValueError(f"id must be a claim of book/claims.yml, such as {next(iter(rows))!r}; got {id!r}")
    if not quantity.strip():
        raise ValueError(f"quantity must say what was computed for claim {id}; got {quantity!r}")
    if control is not None:
        _check_control(control, f"claim {id}, {quantity}")
    if not passed and not note.strip():
        raise ValueError(
            f"note must give the reason found where a check fails (claim {id}, {quantity}); got none"
        )
    data = {
        "id": id,
        "quantity": quantity,
        "computed": _value("computed", computed),
        "expected": _value("expected", expected),
        "uncertainty": _value("uncertainty", uncertainty),
        "tolerance": _value("tolerance", tolerance),
        "passed": bool(passed),
        "control": None
        if control is None
        else {**control._asdict(), "computed": _value("control.computed", control.computed), "passed": False},
        "note": note,
    }
    cells = _cells(data)
    display(
        {
            "text/plain": f"claim {id}: " + "; ".join(f"{name}: {value}" for name, value in cells),
            "text/html": _html(data["id"], cells),
            MIME_TYPE: data,
        },
        raw=True,
    )


def _check_control(control: Control, place: str) -> None:
    if not control.description.strip():
        raise ValueError(f"control of {place} must describe what was altered; got {control.description!r}")
    if bool(control.passed):
        computed = _text(_value("control.computed", control.computed))
        raise AssertionError(
            f"{place}: control ({control.description}) did not fail; the check gave {computed}"
        )


def _value(argument: str, value: ArrayLike | str | None) -> Any:
    return value if value is None or isinstance(value, str) else _number(argument, value)


def _number(argument: str, value: ArrayLike) -> float | list[Any]:
    """The value as a float or nested list of floats, refused unless numeric and finite."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{argument} must be numbers; got {value!r}")
    if array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError(f"{argument} must be finite numbers, at least one; got {value!r}")
    return array.astype(np.float64).tolist()


def _text(value: Any, floor: float = 0.0) -> str:
    """A number, or a list with its rounding errors, of less than 1e-9 of its largest number, shown as 0."""
    if isinstance(value, list):
        if len(value) == 1:
            return _text(value[0])
        floor = floor or 1e-9 * float(np.max(np.abs(value)))
        return "(" + ", ".join(_text(item, floor) for item in value) + ")"
    if isinstance(value, float):
        if abs(value) < floor:
            return "0"
        return f"{value:.0f}" if value == math.floor(value) and abs(value) < 1e6 else f"{value:.4g}"
    return str(value)


def _cells(data: dict[str, Any]) -> list[tuple[str, str]]:
    computed = _text(data["computed"])
    if data["uncertainty"] is not None:
        computed += f" ± {_text(data['uncertainty'])}"
    cells = [("quantity", data["quantity"]), ("computed", computed)]
    cells += [(name, _text(data[name])) for name in ("expected", "tolerance") if data[name] is not None]
    cells += [("check", "passed" if data["passed"] else "failed")]
    if data["control"] is not None:
        value = _text(data["control"]["computed"])
        cells.append(("control", f"{data['control']['description']}: {value}, fails as it should"))
    return cells + ([("note", data["note"])] if data["note"] else [])


def _html(claim_id: str, cells: list[tuple[str, str]]) -> str:
    state = "passed" if ("check", "passed") in cells else "failed"
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
        for name, value in cells
    )
    caption = f"<caption>Claim {html.escape(claim_id)}</caption>"
    return f'<table class="claim-record claim-{state}">{caption}{rows}</table>'
