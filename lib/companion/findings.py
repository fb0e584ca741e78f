"""Findings: one value, computed once, that is drawn, captioned, judged, placed and kept.

In a chapter:

    numbers = Finding(
        "A8", "number of neurons with each code", figure="numbers", panel="Paper A, Fig. 4a", headline=True,
        sampled=spread(main.numbers), theory=finite_width.numbers(theory, CODES, N), over=NAMES,
        sampler=main.meeting, size={"N": N, "P": N, "T": T, "networks": R},
        control=Control("theory at y₋ + 0.1", theory=finite_width.numbers(beside, CODES, N)),
    )
    numbers.bars("Three large groups and a rare fourth.", ylabel="number of neurons")
    numbers.judge(standard_errors(3), because="corrections of second order in 1/N")
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from coding_schemes import statistics
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from companion import figures, records
from companion.predicates import EXACTLY, Predicate
from companion.publish import publish


class Estimate(NamedTuple):
    """A computed quantity with its standard error.

    Attributes:
        value: a number or an array.
        error: its standard error, of the same shape.
    """

    value: Any
    error: Any


def spread(values: ArrayLike, axis: int = 0) -> Estimate:
    """Mean over independent networks, and its standard error from their spread.

    Args:
        values: one value, or array of values, for each network along `axis`.
        axis: that of the networks.

    Returns:
        mean and s/√n, s² the variance between networks with n − 1.
    """
    array = np.asarray(values, dtype=float)
    return Estimate(array.mean(axis), array.std(axis, ddof=1) / array.shape[axis] ** 0.5)


def less(one: Estimate, other: Estimate) -> Estimate:
    """One estimate less another of other networks."""
    return Estimate(one.value - other.value, np.hypot(one.error, other.error))


def extrapolated(widths: Any, estimates: Sequence[tuple[Any, Any]]) -> Estimate:
    """What estimates at several widths tend to at N → ∞, by a line in 1/N: `statistics.infinite_width`."""
    return Estimate(*statistics.infinite_width(widths, *zip(*estimates, strict=True)))


def stacked(estimates: Sequence[Estimate]) -> Estimate:
    """Several as one, along a new first axis."""
    return Estimate(*map(np.array, zip(*estimates, strict=True)))


@dataclass(frozen=True)
class Control:
    """What should fail where the finding passes: the same comparison with one side replaced.

    Attributes:
        description: what was altered: "untrained networks", "theory at y₋ + 0.1".
        sampled: what takes the sampled value's place, an array or an Estimate; by itself the finding's own.
        theory: what takes the theory's place; by itself the finding's own.
        spared: elements, by their names in `over`, in which it need not fail.
        because: why not, said beforehand.
    """

    description: str
    sampled: Any = None
    theory: Any = None
    spared: Sequence[str] = ()
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One value that is drawn and judged.

    Attributes:
        id: the claim's, a row of ``book/claims.yml``.
        quantity: what was computed, in a few words.
        sampled: its value: a number, an array, an Estimate, or texts such as a list of codes.
        theory: what it should be, of a shape that broadcasts; None where the limit says it all.
        over: names of the elements along the last axis, for bars and for the control.
        size: N, P, L, T, number of networks and what else says how large this was; the tail of its caption.
        control: what should fail, in every element that it does not spare.
        sampler: a `Convergence`, `TwoEnded` or `workbench.Equilibrium` of the samples, or several of them.
        starts: the value from either start, an Estimate each: where chains from two starts do not meet, both
            have to pass by themselves.
        headline: whether this is the published statement; it alone decides whether the claim is reproduced.
        figure: name of the figure that shows it.
        panel: the place in a paper it is the counterpart of, "Paper A, Fig. 4a"; several with "; " between.
        source: where `theory` comes from: "theory", "published", or in words.
        stored: the stored result that `sampled` was read from, if it was not computed in this build.
        lacking: what these sizes lack for the claim to be decided, if anything: it is then open.

    Raises:
        ValueError: the claim or panel is unknown, shapes do not fit, there is no size, or the control alters
            nothing; the message names the finding.
    """

    id: str = field(kw_only=False)
    quantity: str = field(kw_only=False)
    sampled: Any
    theory: Any = None
    over: Sequence[str] = ()
    size: Mapping[str, Any]
    control: Control
    sampler: Any = None
    starts: tuple[Any, Any] | None = None
    headline: bool = False
    figure: str = ""
    panel: str = ""
    source: str = "theory"
    stored: str = ""
    lacking: str = ""

    def __post_init__(self) -> None:
        claims, require = records.known(), self._require
        known = claims is None or self.id in claims
        require(known, f"id must be a claim of book/claims.yml; got {self.id!r}")
        require(str(self.quantity).strip(), f"quantity must say what was computed; got {self.quantity!r}")
        sized = isinstance(self.size, Mapping) and self.size
        require(sized, f"size must say how large this was, as {{'N': 60, 'T': 0.01}}; got {self.size!r}")
        try:
            records.placed(self.panel)
        except ValueError as error:
            require(False, str(error))
        require(_is_real(self._value), f"sampled must be real numbers or texts; got {self._value!r}")
        shape = np.shape(self._value)
        negative = self.error is not None and np.any(np.asarray(self.error) < 0)
        require(not negative, f"error must not be negative; got {self.error!r}")
        for name, given in (("theory", self.theory), ("error", self.error)):
            fits = given is None or _fits(given, shape)
            require(fits, f"{name} must fit sampled, of shape {shape}; got {np.shape(given)}")
        named = not len(self.over) or (shape and len(self.over) == shape[-1])
        require(named, f"over must name the last axis of sampled, of shape {shape}; got {list(self.over)}")
        self._require_control(self.control)

    def _require_control(self, control: Control) -> None:
        require = self._require
        described = isinstance(control, Control) and str(control.description).strip()
        require(described, f"control must be a Control that says what was altered; got {control!r}")
        altered = [value for value in (control.sampled, control.theory) if value is not None]
        require(altered, f"control ({control.description}) must alter sampled or theory; got neither")
        shape = np.shape(self._value)
        values = list(map(_value, altered))
        real = [np.shape(value) for value in values if _is_real(value)]
        fit = len(real) == len(values) and all(_fits(value, shape) for value in values)
        wanted = f"must be real and fit sampled, of shape {shape}"
        require(fit, f"control ({control.description}) {wanted}; got {real}")
        computed = np.asarray(self._value).dtype.kind != "f" or _carries_dtype(values)
        constant = f"got the constant {altered[0]!r}"
        require(computed, f"control must be computed, an array or NumPy number; {constant}")
        strange = sorted(set(control.spared) - set(self.over))
        require(not strange, f"control spares {strange}; over names {list(self.over)}")
        said = control.because or not len(control.spared)
        require(said, "control must say why it spares elements (because=…)")

    def _require(self, holds: Any, message: str) -> None:
        if not holds:
            raise ValueError(f"finding {self.id}, {self.quantity}: {message}")

    @property
    def _value(self) -> Any:
        return _value(self.sampled)

    @property
    def error(self) -> Any:
        """Standard error of the sampled value; None where there is none."""
        return _error(self.sampled)

    # ---- drawn --------------------------------------------------------------------------------

    def draw(self, plot_function: Callable[..., Figure], caption: str, **arrays: Any) -> None:
        """Publish the finding's figure; sizes and panel follow the caption by themselves.

        Args:
            plot_function: as in `publish.publish`; draws the arrays.
            caption: what is to be seen, then what is shown; no sizes.
            **arrays: what is drawn, and `description`, as in `publish.publish`.
        """
        tail = f"{records.sizes(dict(self.size))}. {self.panel or 'In none of the papers'}."
        publish(
            plot_function,
            self.figure or self.id.lower(),
            caption=caption,
            tail=tail,
            counterparts=records.placed(self.panel),
            **arrays,
        )

    def bars(self, caption: str, *, points: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Draw the sampled value as bars over `over`, theory and other `points` as markers on them."""
        others = {self.source: self.theory} if self.theory is not None else {}
        others |= points or {}
        given = {"values": self._value, "groups": list(self.over)}
        given |= {"errors": self.error} if self.error is not None else {}
        given |= {"points": list(others.values()), "point_names": list(others)} if others else {}
        self.draw(figures.bars, caption, **(given | more))

    # ---- judged -------------------------------------------------------------------------------

    def judge(self, predicate: Predicate, *, because: str = "", note: str = "") -> None:
        """Decide whether the sampled value is what the claim says, show it in one line, and keep its record.

        Nothing stops the chapter: what fails is refuted with its reason, and what lacks equilibrium, finite
        numbers or a control that fails, as it may at a reader's sizes, is open.

        Args:
            predicate: the limit, in standard errors, or as the distance to a rival that is tested too.
            because: the reason found where it fails, or lies many standard errors inside a limit of another
                unit; the book on record needs one there.
            note: conditions, always shown.

        Raises:
            ValueError: no predicate, it needs a theory or an error that is not there, or it is a bare sign.
        """
        given = isinstance(predicate, Predicate)
        self._require(given, f"judge takes a predicate, such as standard_errors(3); got {predicate!r}")
        for name, value, what in (
            ("expected", self.theory, "a theory"),
            ("error", self.error, "an Estimate"),
        ):
            there = name not in predicate.needs or value is not None
            self._require(there, f"{predicate.text!r} needs {what}; got none")
        bare = predicate.text in ("> 0", "< 0")
        self._require(not bare, "a sign is no limit: say by how many standard errors, as above(0, 3)")
        records.emit(self.record(predicate, because, note))

    def record(self, predicate: Predicate, because: str, note: str) -> dict[str, Any]:
        """What is kept; ``computed`` is None where something is not finite, and then nothing was judged."""
        control = self.control
        there = _margins(predicate, self._value, self.theory, self.error)
        sampled = self.sampled if control.sampled is None else control.sampled
        theory = self.theory if control.theory is None else control.theory
        error = _error(sampled)
        scatter = self.error if error is None else error
        against = _margins(predicate, _value(sampled), theory, scatter, control=True)
        return {
            "id": self.id,
            "quantity": self.quantity,
            "computed": None if there is None else _plain(self._value),
            "expected": None if there is None else _plain(self.theory),
            "uncertainty": None if there is None else _plain(self.error),
            "predicate": predicate.text,
            "passed": there is not None and bool(np.all(there >= 0)),
            "worst": self._worst(there),
            "apart": self._apart() if there is not None else None,
            "control": {
                "description": control.description,
                "computed": None if against is None else _plain(_value(sampled)),
                "uncertainty": None if against is None else _plain(error),
                "expected": None if against is None else _plain(control.theory),
                "passed": against is None or bool(np.any(self._asked(against) >= 0)),
                "spared": list(control.spared),
                "because": control.because,
            },
            "sampler": self._sampled_how(predicate),
            "because": because,
            "note": note,
            "stored": self.stored,
            "lacking": self.lacking,
            "source": self.source,
            "headline": self.headline,
            "size": {name: _plain(value) for name, value in self.size.items()},
            "panel": self.panel,
            "figure": self.figure,
        }

    def _asked(self, margins: np.ndarray) -> np.ndarray:
        """Those of the control's margins in which it has to fail."""
        if not len(self.control.spared) or margins.ndim == 0:
            return margins
        return margins[..., [name not in self.control.spared for name in self.over]]

    def _apart(self) -> float | None:
        """Largest distance to theory in standard errors."""
        if self.theory is None or self.error is None or not np.all(np.asarray(self.error) > 0):
            return None
        return float(np.max(np.abs(np.subtract(self._value, self.theory)) / self.error))

    def _worst(self, margins: np.ndarray | None) -> dict[str, Any] | None:
        """The element closest to failing; None where the predicate judges the whole."""
        if margins is None or margins.size < 2 or margins.shape != np.shape(self._value):
            return None
        index = np.unravel_index(np.argmin(margins), margins.shape)

        def element(value: Any) -> Any:
            return None if value is None else float(np.broadcast_to(value, margins.shape)[index])

        return {
            "of": margins.size,
            "computed": element(self._value),
            "expected": element(self.theory),
            "uncertainty": element(self.error),
        }

    def _sampled_how(self, predicate: Predicate) -> dict[str, str] | None:
        """Whether starts have met, or else each passes by itself: the worst of several samplers decides."""
        if self.sampler is None:
            return None
        samplers = self.sampler if isinstance(self.sampler, list | tuple) else [self.sampler]
        shown = max(map(_equilibrium, samplers), key=lambda state: _STATES.index(state["state"]))
        if shown["state"] == "not shown" and self.starts is not None:
            each = [_margins(predicate, _value(start), self.theory, _error(start)) for start in self.starts]
            if all(margins is not None and np.all(margins >= 0) for margins in each):
                return shown | {"state": "each"}
        return shown


_STATES = ("met", "each", "not shown")


def _value(sampled: Any) -> Any:
    return sampled.value if isinstance(sampled, Estimate) else sampled


def _error(sampled: Any) -> Any:
    return sampled.error if isinstance(sampled, Estimate) else None


def _fits(given: Any, shape: tuple[int, ...]) -> bool:
    try:
        return _is_text(given) or np.broadcast_shapes(np.shape(given), shape) == shape
    except ValueError:
        return False


def _is_real(value: Any) -> bool:
    """Whether a value is real numbers or texts, and at least one."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        return False
    return array.size > 0 and array.dtype.kind in "biufU"


def _carries_dtype(value: Any) -> bool:
    """Whether a value is a result of NumPy or JAX, or a list of such; typed numbers have no dtype."""
    if isinstance(value, list | tuple):
        return all(map(_carries_dtype, value))
    return hasattr(value, "dtype")


def _is_text(value: Any) -> bool:
    return np.asarray(value).dtype.kind == "U"


def _margins(
    predicate: Predicate, sampled: Any, theory: Any, error: Any, control: bool = False
) -> np.ndarray | None:
    """Distance of every element from the limit, negative outside; None where something is not finite.

    Networks without scatter have no error. They may meet theory exactly, and a control may miss its limit
    by any number of errors; what else lacks an error is not judged.
    """
    for value in (sampled, theory, error):
        if value is None or _is_text(value):
            continue
        array = np.asarray(value, dtype=float)
        if not array.size or not np.all(np.isfinite(array)):
            return None
    if predicate.text != EXACTLY and _is_text(sampled):
        raise ValueError(f"sampled must be numbers to be {predicate.text!r}; got {sampled!r}")
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = np.asarray(predicate.margin(sampled, theory, error))
    if "error" in predicate.needs:
        met = "expected" in predicate.needs and np.equal(sampled, theory)
        if not np.all((np.asarray(error) > 0) | met | (control & (margins < 0))):
            return None
    return margins


def _plain(value: Any) -> Any:
    """A value as JSON takes it."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind in "biU" else array.astype(np.float64).tolist()


def _equilibrium(sampler: Any) -> dict[str, str]:
    """State and verdict of one run's diagnostics."""
    found = getattr(sampler, "state", None)
    if found is None:
        said = getattr(sampler, "converged", getattr(sampler, "agree", None))
        if isinstance(said, bool | np.bool_):
            found = "met" if said else "not shown"
    if found not in _STATES:
        raise ValueError(
            f"sampler must be a Convergence, TwoEnded or Equilibrium, or several; got {sampler!r}"
        )
    return {"state": found, "verdict": str(getattr(sampler, "verdict", ""))}
