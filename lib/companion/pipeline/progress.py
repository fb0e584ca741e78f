"""How far each job has come: jobs write it, the build command shows it."""

import hashlib
import resource
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from companion.pipeline import manifest

LOOK_EVERY_S = 0.5
LINE_EVERY_S = 10.0  # between two lines where output is not a terminal


class Progress:
    """The state of one job, kept in a small file that another process can read.

    The times its steps took are kept in a second file, by what each step was, so that the next run can say
    how long is left. (Snakemake knows nothing of steps, and looks at memory every half minute.)

    Attributes:
        current: Index of the step that runs, −1 before the first.
    """

    def __init__(self, build: Path, name: str) -> None:
        """Progress of the job `name` of the build folder `build`."""
        self._path = build / "progress" / f"{name}.json"
        self._times_path = build / "durations" / f"{name}.json"
        self.current = -1
        self._steps: list[str] = []
        self._times: dict[str, float] = {}
        self._state: dict[str, Any] = {}

    def begin(self, sources: Iterable[str]) -> None:
        """Start, with the sources of all steps to come."""
        self._steps = [hashlib.sha256(source.encode()).hexdigest()[:16] for source in sources]
        steps = [*map(step_times(self._times_path).get, self._steps)]
        now = time.time()
        self._write(state="running", started=now, steps=steps, current=-1, step_started=now)

    def cell(self, index: int) -> None:
        """Step `index` starts."""
        self.current = index
        self._write(current=index, step_started=time.time())

    def cell_done(self) -> None:
        """The current step has ended."""
        self._times[self._steps[self.current]] = round(time.time() - self._state["step_started"], 3)

    def end(self) -> None:
        """All has succeeded."""
        manifest.write(self._times_path, self._times)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # the kernel, which has ended
        self._write(state="done", ended=time.time(), peak_bytes=peak)

    def fail(self, message: str) -> None:
        """The job has failed; the message is for the reader."""
        self._write(state="failed", message=message)

    def _write(self, **changes: Any) -> None:
        self._state |= changes
        manifest.write(self._path, self._state)


class Display:
    """Shows the jobs of a build while they run: one changing line on a terminal, else a line now and then."""

    def __init__(self, build: Path, names: list[str], concurrent: int) -> None:
        """Display of the jobs `names`, of which at most `concurrent` run at once."""
        self._build = build
        self._names = names
        self._concurrent = concurrent
        self._terminal = sys.stdout.isatty()
        self._finished: set[str] = set()
        self._shown_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        for name in names:
            (build / "progress" / f"{name}.json").unlink(missing_ok=True)

    def __enter__(self) -> "Display":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._update()
        if self._terminal:
            self._say("", end="")

    def failures(self) -> list[str]:
        """Messages of the jobs that failed, or ended without a word; for when all have ended."""
        return [
            state.get("message") or f"{name}: killed while it ran (out of memory?)"
            for name, state in self._states().items()
            if state.get("state") in ("failed", "running")
        ]

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self._update()

    def _states(self) -> dict[str, dict[str, Any]]:
        return {name: manifest.read(self._build / "progress" / f"{name}.json") for name in self._names}

    def _update(self) -> None:
        states = self._states()
        for name, state in states.items():
            if state.get("state") == "done" and name not in self._finished:
                self._finished.add(name)
                self._say(f"{name}: done in {duration(state['ended'] - state['started'])}")
        running = [
            _describe(name, state) for name, state in states.items() if state.get("state") == "running"
        ]
        if running and (self._terminal or time.time() - self._shown_at >= LINE_EVERY_S):
            self._shown_at = time.time()
            left = self._left(states)
            about = "" if left is None else f", {duration(left)} left"
            done = f" [{len(self._finished)} of {len(self._names)} done{about}]"
            self._say("; ".join(running) + done, end="" if self._terminal else "\n")

    def _say(self, text: str, end: str = "\n") -> None:
        print(f"\r\x1b[2K{text}" if self._terminal else text, end=end, flush=True)

    def _left(self, states: dict[str, dict[str, Any]]) -> float | None:
        """Seconds left, from the previous run's times; None where a job has never run."""
        left = []
        for name, state in states.items():
            times = step_times(self._build / "durations" / f"{name}.json")
            waits = sum(times.values()) if times else None
            left.append(_job_left(state) if state.get("state") == "running" else 0.0 if state else waits)
        known = [seconds for seconds in left if seconds is not None]
        return max(*known, sum(known) / self._concurrent) if len(known) == len(left) else None


def duration(seconds: float) -> str:
    """A time as a person writes it."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _describe(name: str, state: dict[str, Any]) -> str:
    total = len(state["steps"])
    elapsed = duration(time.time() - state["started"])
    if total == 1:
        return f"{name}: {elapsed}"
    left = _job_left(state)
    about = f", about {duration(left)} left" if left is not None else ""
    return f"{name}: cell {max(state['current'], 0) + 1}/{total}, {elapsed}{about}"


def _job_left(state: dict[str, Any]) -> float | None:
    """Seconds left of a running job; steps that have not run before count as the mean of those that have."""
    known = [seconds for seconds in state["steps"] if seconds is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    times = [mean if seconds is None else seconds for seconds in state["steps"]]
    current = max(state["current"], 0)
    in_step = time.time() - state["step_started"]
    return max(times[current] - in_step, 0.0) + sum(times[current + 1 :])


class Cost(NamedTuple):
    """What a finished job took: seconds of wall time, and the most memory at once, in bytes."""

    seconds: float
    peak_bytes: int


def cost(build: Path, name: str) -> Cost | None:
    """What the latest run of a job took; None where it was not run here to its end."""
    try:
        state = manifest.read(build / "progress" / f"{name}.json")
        return Cost(state["ended"] - state["started"], state["peak_bytes"])
    except (KeyError, TypeError):
        return None


def step_times(path: Path) -> dict[str, float]:
    """Seconds that each step of a job took; steps whose entry is spoiled are left out."""
    found = manifest.read(path).items()
    return {step: seconds for step, seconds in found if isinstance(seconds, int | float) and seconds >= 0}
