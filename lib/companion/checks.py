"""Checks: what a chapter computed for a claim, held against what it should be, with a control that fails.

One predicate decides, prints itself, and judges the control with the same arguments:

    check("A5", "slopes of activations on readouts", slopes, theory, error, standard_errors(3),
          control=("labels shuffled over inputs", shuffled))
"""

import html
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml
from coding_schemes import paths
from IPython.display import display
from numpy.typing import ArrayLike

from companion import formats

State = Literal["passed", "partly", "failed"]
MARKS: dict[State, str] = {"passed": "✓", "partly": "◐", "failed": "✗"}
EXACTLY = "exactly"
_LINE_HOLDS = 3  # longer lists are given by their worst element, the rest unfolds


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
    """Within k standard errors: |computed − expected| ≤ k · error."""
    k = _limit("k", k)
    return Predicate(
        f"within {formats.number(k)} s.e.",
        lambda c, e, s: k - np.abs(np.subtract(c, e)) / s,
        ("expected", "error"),
    )


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


def above(x: ArrayLike) -> Predicate:
    """Larger than x, one limit or one for each element."""
    return Predicate(f"> {_shown('x', x)}", lambda c, e, s: _strictly(np.subtract(c, x)))


def below(x: ArrayLike) -> Predicate:
    """Smaller than x, one limit or one for each element."""
    return Predicate(f"< {_shown('x', x)}", lambda c, e, s: _strictly(np.subtract(x, c)))


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
    return Predicate(EXACTLY, lambda c, e, s: 0.0 if _same(c, e) else -1.0, ("expected",))


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
    """Decide whether a computed quantity is what a claim says, show that in one line, and keep its record.

    A check that fails does not stop the chapter: it becomes the verdict "not reproduced" (or "partly", where
    others of the claim pass), and stands open with its reason. A control that passes does not either, as it
    may with a reader's own seed or sizes: the check is then at most "partly", and says so. The book on record
    is not built from it: a check that cannot fail shows nothing.

    Whether a control was computed cannot be seen from a number. What is required instead: where `computed`
    is no count and no text, the control must come as an array or NumPy number, as results do and typed
    constants do not; and it must differ from what it stands for. A constant put into an array passes unseen.

    Args:
        id: The claim's id in ``book/claims.yml``; a claim may have several checks.
        quantity: What was computed, in a few words.
        computed: Its value: a number, an array, or texts such as a list of codes.
        *against: What it should be, its standard error, and last the predicate: `expected, error, predicate`,
            `expected, predicate`, or `predicate` alone. The error is that of the difference, positive where
            the predicate counts in it.
        control: What was altered, and what was computed there: (description, computed), or (description,
            computed, error), or a `Control` where the expected value is the altered one.
        because: The reason found for a check that does not pass; shown only then. The book on record
            needs one.
        note: Conditions and limits, always shown.
        sampler: A `Convergence` or `TwoEnded` of the samples, or several: if one says that equilibrium is not
            shown, the check is at most "partly".
        stored: The stored result that `computed` was read from, if it was not computed in this build.
        source: Where `expected` comes from: "theory", "published", or in words.

    Raises:
        ValueError: If the id is unknown, a number is not finite, an error is negative, the control is a
            constant or alters nothing.
    """
    place = f"claim {id}, {quantity}"
    expected, error, predicate = _against(against, place)
    judged = _judge(predicate, computed, expected, error, place)
    control = Control(*control)
    _require_altered(control, computed, expected, place)
    altered = [
        new if new is not None else old
        for new, old in zip(control[1:], (computed, error, expected), strict=True)
    ]
    blind = _judge(predicate, altered[0], altered[2], altered[1], f"control of {place}")
    record = {
        "id": id,
        "quantity": quantity,
        "computed": _value("computed", computed),
        "expected": _value("expected", expected),
        "uncertainty": _value("error", error),
        "predicate": predicate.text,
        "passed": judged,
        "worst": _worst(predicate, computed, expected, error),
        "control": {
            "description": control.description,
            "computed": _value("control", altered[0]),
            "uncertainty": _value("control", control.error),
            "expected": _value("control", control.expected),
            "passed": blind,
        },
        "sampler": _equilibrium(sampler),
        "because": because,
        "note": note,
        "stored": stored,
        "source": source,
    }
    emit(record)


def state(record: dict[str, Any]) -> State:
    """Whether a record's check passed, passed without all being shown that it needs ("partly"), or failed.

    It needs equilibrium of the samples, and a control that fails.
    """
    if not record["passed"]:
        return "failed"
    return "partly" if unsettled(record) else "passed"


def unsettled(record: dict[str, Any]) -> str:
    """What is missing for a record's check to count, in a few words; nothing where it does."""
    if (record["control"] or {"passed": False})["passed"]:
        return "its control did not fail"
    return "" if (record.get("sampler") or {"converged": True})["converged"] else "equilibrium not shown"


def emit(record: dict[str, Any]) -> None:
    """Show a record under the cell and leave it there for the scoreboard.

    Raises:
        ValueError: If the id is no claim, or the quantity is empty.
    """
    rows, id = known(), record["id"]
    if rows is not None and id not in rows:
        raise ValueError(f"id must be a claim of book/claims.yml, such as {next(iter(rows))!r}; got {id!r}")
    if not record["quantity"].strip():
        raise ValueError(f"quantity must say what was computed for claim {id}; got {record['quantity']!r}")
    found = state(record)
    plain = f"{MARKS[found]} {id} {record['quantity']}: " + "; ".join(
        f"{name} {value}" for name, value in details(record)
    )
    display({"text/plain": plain, "text/html": _strip_line(record), formats.CHECK_TYPE: record}, raw=True)


def details(record: dict[str, Any]) -> list[tuple[str, str]]:
    """All that a record says, as pairs of a name and a plain text."""
    rows = [("computed", formats.values(record["computed"], record["uncertainty"]))]
    if record["expected"] is not None:
        rows.append((record["source"], formats.values(record["expected"])))
    rows.append(("asked for", record["predicate"]))
    if control := record["control"]:
        value = formats.values(control["computed"], control["uncertainty"])
        if control["expected"] is not None:
            value += f", {record['source']} {formats.values(control['expected'])}"
        fate = "does not fail, as it should" if control["passed"] else "fails as it should"
        rows.append(("control", f"{control['description']}: {value}, {fate}"))
    if sampler := record["sampler"]:
        rows.append(
            ("sampler", sampler["verdict"] or ("converged" if sampler["converged"] else "not converged"))
        )
    rows += [(name, record[name]) for name in ("stored", "note") if record[name]]
    return rows


def details_html(record: dict[str, Any]) -> str:
    """`details` as the body of an unfolding element, the reason of a check that did not pass first."""
    said = "sampler" if unsettled(record) == "equilibrium not shown" else None  # the reason itself
    items = "".join(
        f"<dt>{formats.text(name)}</dt><dd>{formats.text(value)}</dd>"
        for name, value in details(record)
        if name != said
    )
    return f"{_reason(record)}<dl>{items}</dl>"


def headline(record: dict[str, Any]) -> str:
    """The value as one line holds it: of many elements, the one closest to failing."""
    shown, expected, error = record["computed"], record["expected"], record["uncertainty"]
    lead = ""
    if isinstance(shown, list) and np.size(np.asarray(shown, dtype=object)) > _LINE_HOLDS:
        worst = record["worst"]
        if worst is None:
            return ""
        shown, expected, error = worst["computed"], worst["expected"], worst["uncertainty"]
        lead = f"worst of {worst['of']}: "
    line = f"{lead}<b>{formats.text(formats.values(shown, error))}</b>"
    if expected is not None:
        line += f" … {formats.text(record['source'])} {formats.text(formats.values(expected))}"
    return line


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


def _strip_line(record: dict[str, Any]) -> str:
    found, id = state(record), html.escape(record["id"])
    claim = f"<b>{id}</b>"
    if os.environ.get("CODING_SCHEMES_CHAPTER"):  # a page of the book, beside the scoreboard
        claim = f'<a href="../book/scoreboard.html#claim-{id.lower()}">{id}</a>'
    parts = [headline(record), formats.text(record["predicate"])]
    parts += ["stored result"] * bool(record["stored"]) + [unsettled(record)] * (found == "partly")
    shown = " · ".join(filter(None, parts))
    return (
        f'<div class="check-line">{claim}'
        f'<details class="check check-{found}"{" open" * (found == "failed")}><summary>'
        f'<span class="check-mark" title="{found}">{MARKS[found]}</span> '
        f"{formats.text(record['quantity'])}: {shown}</summary>{details_html(record)}</details></div>"
    )


def _reason(record: dict[str, Any]) -> str:
    found = state(record)
    if found == "passed":
        return ""
    reason = record["because"] or "No reason is known: with these settings and this seed nobody has looked"
    if record["passed"] and record["control"] and record["control"]["passed"]:
        reason = "Its control did not fail: here the check cannot tell right from wrong"
    elif found != "failed":
        verdict = record["sampler"]["verdict"].removeprefix("equilibrium not shown: ")
        reason = f"Equilibrium is not shown: {verdict}"
    return f'<p class="check-reason">{formats.text(reason)}</p>'


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


def _judge(predicate: Predicate, computed: Any, expected: Any, error: Any, place: str) -> bool:
    """The predicate's decision, once all it reads is sound."""
    for name, value in (("computed", computed), ("expected", expected), ("error", error)):
        _value(f"{name} ({place})", value)
    if error is not None and (
        np.any(np.asarray(error) < 0) or ("error" in predicate.needs and not np.all(error))
    ):
        raise ValueError(f"error ({place}) must be positive; got {error!r}")
    if predicate.text != EXACTLY and np.asarray(computed).dtype.kind not in "biuf":
        raise ValueError(f"computed ({place}) must be numbers to be {predicate.text!r}; got {computed!r}")
    return predicate(computed, expected, error)


def _require_altered(control: Control, computed: Any, expected: Any, place: str) -> None:
    if not isinstance(control.description, str) or not control.description.strip():
        raise ValueError(f"control of {place} must describe what was altered; got {control.description!r}")
    pairs = [(control.computed, computed), (control.expected, expected)]
    changed = [(new, old) for new, old in pairs if new is not None]
    if all(_same(new, old) for new, old in changed):
        raise ValueError(
            f"control of {place} ({control.description}) must differ from the check; got the same values"
        )
    if np.asarray(computed).dtype.kind == "f" and not all(_carries_dtype(new) for new, _ in changed):
        raise ValueError(
            f"control of {place} must be computed too, and come as an array or NumPy number; "
            f"got the constant {changed[0][0]!r}"
        )


def _carries_dtype(value: Any) -> bool:
    """Whether a value is a result of NumPy or JAX, or a list of such; typed numbers have no dtype."""
    if isinstance(value, list | tuple):
        return all(map(_carries_dtype, value))
    return hasattr(value, "dtype")


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _worst(predicate: Predicate, computed: Any, expected: Any, error: Any) -> dict[str, Any] | None:
    """The element closest to failing; None where the predicate judges the whole."""
    margin = np.asarray(predicate.margin(computed, expected, error))
    if margin.size < 2 or margin.shape != np.shape(computed):
        return None
    index = np.unravel_index(np.argmin(margin), margin.shape)

    def element(value: Any) -> Any:
        value = np.asarray(value)
        return float(np.broadcast_to(value, margin.shape)[index]) if value.dtype.kind in "biuf" else None

    return {
        "of": margin.size,
        "computed": element(computed),
        "expected": None if expected is None else element(expected),
        "uncertainty": None if error is None else element(error),
    }


def _equilibrium(sampler: Any) -> dict[str, Any] | None:
    """What the diagnostics of one run, or of several, say together."""
    if sampler is None:
        return None
    verdicts = []
    for one in sampler if isinstance(sampler, list | tuple) else (sampler,):
        found = getattr(one, "converged", getattr(one, "agree", None))
        if not isinstance(found, bool | np.bool_):
            raise ValueError(f"sampler must be a Convergence or TwoEnded, or several; got {one!r}")
        verdicts.append((bool(found), str(getattr(one, "verdict", ""))))
    return {"converged": all(good for good, _ in verdicts), "verdict": min(verdicts)[1]}


def _value(name: str, value: Any) -> Any:
    """The value as JSON takes it, refused unless finite numbers or texts."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "U" and array.size:
        return array.tolist()
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers; got {value!r}")
    if array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite numbers, at least one; got {value!r}")
    return array.astype(np.float64).tolist()


def _limit(name: str, value: float) -> float:
    if np.asarray(value).dtype.kind not in "iuf" or not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}")
    return float(value)


def _shown(name: str, value: ArrayLike) -> str:
    if np.asarray(value).dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a number; got {value!r}")
    return formats.values(_value(name, value))


def _strictly(margin: Any) -> Any:
    """A margin of which the edge itself is outside."""
    return np.where(np.asarray(margin) > 0, margin, np.minimum(margin, -np.finfo(float).tiny))


def _probabilities(value: Any) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if np.any((array < 0) | (array > 1)):
        raise ValueError(f"computed must be p-values, between 0 and 1; got {value!r}")
    return array
