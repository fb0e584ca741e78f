"""How trials are written: a function for each, with a table of its cases; and how they are judged."""

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class FaultError(Exception):
    """A trial that did not end as it must.

    Attributes:
        verdict: "silent" (nothing was said), "obscure" (an error without name or advice), or "lost" (what had
            been finished is gone or wrong).
    """

    def __init__(self, verdict: str, came: str) -> None:
        super().__init__(came)
        self.verdict = verdict


@dataclass(frozen=True)
class Trial:
    """One thing tried.

    Attributes:
        kind: the group it stands in.
        tried: what was done.
        must: what must come.
        run: does it in an empty folder, and says what came; raises FaultError otherwise.
        outside: whether it waits for other programs, so that several may run side by side; `make test` runs
            those that do not.
    """

    kind: str
    tried: str
    must: str
    run: Callable[[Path], str]
    outside: bool = False


TRIALS: list[Trial] = []


def trial(kind: str, must: str, *, cases: dict[str, Any], outside: bool = False) -> Callable:
    """Register a function (folder, case) as one trial for each case, by what was tried.

    Args:
        kind: the group.
        must: what must come.
        cases: the function's second argument, by what was tried.
        outside: as in Trial.
    """

    def register(function: Callable[[Path, Any], str]) -> Callable[[Path, Any], str]:
        for tried, case in cases.items():
            TRIALS.append(Trial(kind, tried, must, lambda f, case=case: function(f, case), outside))
        return function

    return register


def refused(call: Callable[[], Any], says: str, *kinds: type[Exception]) -> str:
    """The message of a call that must raise one of some errors, with a word that it must hold."""
    expected = kinds or (ValueError,)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            call()
    except expected as error:
        text = " ".join(str(error).split())
        if says not in text:
            raise FaultError("obscure", text) from error
        return text
    except Exception as error:
        raise FaultError(
            "obscure", f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        ) from error
    raise FaultError("silent", "accepted")


def judged(trial: Trial, folder: Path) -> tuple[str, str]:
    """What came of a trial, and its verdict."""
    folder.mkdir(parents=True)
    try:
        return trial.run(folder).replace(f"{folder}/", ""), "survived"
    except FaultError as fault:
        return str(fault), fault.verdict
    except Exception as error:  # an assertion of the trial itself, or anything unforeseen
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", "obscure"
