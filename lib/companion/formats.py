"""What parts of the companion agree on: types of what lies in a notebook, and how numbers are written."""

import html
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

CHECK_TYPE = "application/vnd.coding-schemes.claim+json"
"""Type of the mime bundle under which a check's record lies in the executed notebook."""

FIGURE_TYPE = "application/vnd.coding-schemes.figure+json"
"""Type of the mime bundle under which a published figure's caption and name lie beside its image."""

INJECTED = "injected-parameters"
"""Papermill's tag of the cell that it adds, with the parameters of a run."""

THUMBNAIL = 480
"""Pixels across a thumbnail, enough for dense screens."""

SHOWN_AT_ONCE = 6  # numbers of a longer list give way to an ellipsis

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def name_cells(cells: Iterable[Any]) -> None:
    """Give cells the names of their places, the same in every run."""
    for index, cell in enumerate(cells):
        cell["id"] = f"cell-{index:03d}"


def number(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, whole numbers as they are."""
    if value == math.floor(value) and abs(value) < 1e6:
        return f"{value + 0.0:.0f}".replace("-", "−")  # no minus before a zero
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return mantissa.replace("-", "−") + (_power_of_ten(int(exponent)) if exponent else "")


def measured(value: float, error: float | None) -> str:
    """A number with two significant figures of its error in parentheses, as 0.6970(40) for 0.697 ± 0.004."""
    if not error:
        return number(value)
    size = math.floor(math.log10(max(abs(value), error)))
    power = size if not -4 < size < 6 else 0
    value, error = value / 10.0**power, error / 10.0**power
    decimals = 1 - int(f"{error:.1e}".partition("e")[2])
    if decimals < 0:
        value, error = round(value, decimals), round(error, decimals)
    shown = (
        f"{error:.{decimals}f}" if error >= 1 and decimals > 0 else f"{error * 10.0 ** max(decimals, 0):.0f}"
    )
    text = f"{round(value, max(decimals, 0)) + 0.0:.{max(decimals, 0)}f}({shown})".replace("-", "−")
    return text + (_power_of_ten(power) if power else "")


def values(value: Any, error: Any = None) -> str:
    """A number, text, or nested list of them, with errors where there are any.

    Rounding errors, of less than 1e-9 of a list's largest number, are shown as 0.
    """
    if not isinstance(value, list):
        return value if isinstance(value, str) else measured(float(value), error)
    floor = 0.0 if _has_text(value) else 1e-9 * float(np.max(np.abs(value)))
    errors = [None] * len(value) if error is None else np.broadcast_to(error, np.shape(value)).tolist()
    items = [
        values(0.0 if not isinstance(item, list | str) and abs(item) < floor else item, bar)
        for item, bar in zip(value, errors, strict=True)
    ]
    if len(items) == 1:
        return items[0]
    return "(" + ", ".join(items[:SHOWN_AT_ONCE] + ["…"] * (len(items) > SHOWN_AT_ONCE)) + ")"


def text(content: Any) -> str:
    """Escaped for a page, exponents in braces raised; a backquote could end the block around the text."""
    escaped = html.escape(str(content or "")).replace("`", "&#96;")
    return re.sub(r"\^\{([^}]*)\}", r"<sup>\1</sup>", escaped)


def _power_of_ten(exponent: int) -> str:
    return f"×10{str(exponent).translate(_SUPERSCRIPTS)}"


def _has_text(value: Any) -> bool:
    return any(map(_has_text, value)) if isinstance(value, list) else isinstance(value, str)
