"""Damaged, swapped, foreign and missing files; checks and parameters that cannot be judged."""

import contextlib
import dataclasses
import itertools
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import numpy as np
from coding_schemes import data, diagnose, networks, posterior, sampling, tasks
from coding_schemes.sampling.checkpoint import Checkpoint, CheckpointMismatchError
from companion import predicates
from companion.findings import Control, Estimate, Finding
from companion.pipeline import execution
from companion.pipeline.project import BuildError
from faults.trials import FaultError, refused, trial
from images import large_run

Damage = Callable[[Path], Any]

# ---- checkpoints of sample ------------------------------------------------------------------

TASK = tasks.toy(4, (0.5, 0.5), seed=1)
GIVEN = posterior.Posterior(TASK, networks.Network(1, 6, "sigmoidal"), 0.1)
ARGUMENTS = {
    "num_samples": 40,
    "num_chains": 2,
    "num_warmup": 20,
    "moves": (),
    "store": ("weights",),
    "progress": False,
}


def sampled(folder: Path | None, given: posterior.Posterior = GIVEN, key: int = 0, **arguments: Any) -> Any:
    """A small run, with a checkpoint."""
    found = sampling.sample(given, jax.random.key(key), **(ARGUMENTS | {"checkpoint": folder} | arguments))
    return found.weights, found.info, found.warmup_info, found.final


@cache
def whole() -> Any:
    """What the run gives that nobody disturbs."""
    return sampled(None)


def stopped(folder: Path, blocks: int = 4, run: Callable[[Path], Any] = sampled) -> Path:
    """The folder of a run that ended after some of its blocks: a copy."""
    return shutil.copytree(_stopped(blocks, run).name, folder)


@cache
def _stopped(blocks: int, run: Callable[[Path], Any]) -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix="faults-")
    kill(lambda: run(Path(made.name)), blocks)
    return made


def kill(run: Callable[[], Any], blocks: int) -> None:
    """Run until so many blocks were kept, and no further."""
    save, kept = Checkpoint.save, itertools.count(1)

    def die(self, state, block):
        save(self, state, block)
        if next(kept) == blocks:
            raise KeyboardInterrupt

    with mock.patch.object(Checkpoint, "save", die), contextlib.suppress(KeyboardInterrupt):
        run()
        raise AssertionError(f"fewer than {blocks} blocks")


def same(found: Any, wanted: Any) -> bool:
    """Bitwise equality of two trees of arrays."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def cut(path: Path) -> None:
    """The end is missing."""
    path.write_bytes(path.read_bytes()[:-200])


def half(path: Path) -> None:
    """One half is missing."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """One bit in the middle is another."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    """Nothing is in it."""
    path.write_bytes(b"")


def noise(path: Path) -> None:
    """Something else is in it."""
    path.write_bytes(b"PK\x03\x04" + np.random.default_rng(0).bytes(5000))


def earlier(path: Path) -> None:
    """The one before stands in its place."""
    shutil.copy(path.with_name(f"{path.stem[:-1]}{int(path.stem[-1]) - 1}.npz"), path)


DAMAGES: dict[str, Damage] = {
    "cut short": cut,
    "half gone": half,
    "one bit changed": flip,
    "empty": empty,
    "of other bytes": noise,
    "the one before in its place": earlier,
    "gone": Path.unlink,
}
NEWEST = ("block_00003.npz", "state_00004.npz")


@trial(
    "Files",
    "the run goes on from the block before, and ends with bitwise the same numbers",
    cases={
        f"sample(checkpoint): newest {name.split('_')[0]} {how}": (name, damage)
        for name in NEWEST
        for how, damage in DAMAGES.items()
    },
)
def newest_block(folder, case):
    import warnings

    name, damage = case
    damage(stopped(folder / "run") / name)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = sampled(folder / "run")
    if not same(found, whole()):
        raise FaultError("lost", "other numbers")
    told = [str(w.message) for w in told if "checkpoint" in str(w.message)]
    # a state gone is a kill between the two; and there are bits on which nothing hangs
    quiet = damage is flip or (damage is Path.unlink and name.startswith("state"))
    if not quiet and not any(name in text and "going back by one block" in text for text in told):
        raise FaultError("silent", f"the same numbers; {told}")
    return f"the same numbers; {told[0].replace(str(folder), '')}" if told else "the same numbers"


@trial(
    "Files",
    "an error that names the file",
    cases={
        f"sample(checkpoint): oldest block {how}": damage
        for how, damage in DAMAGES.items()
        if how[:3] != "the"
    }
    | {"sample(checkpoint): two blocks exchanged": None},
)
def oldest_block(folder, damage):
    run = stopped(folder / "run")
    first, second = run / "block_00000.npz", run / "block_00001.npz"
    if damage is None:
        content = first.read_bytes()
        shutil.copy(second, first)
        second.write_bytes(content)
    else:
        damage(first)
    says = "block_00000.npz is damaged, or stands in the place" if damage is None else "block_00000.npz is"
    return refused(lambda: sampled(folder / "run"), says, data.CorruptDataError)


@trial(
    "Files",
    "an error that names the file",
    cases={
        "sample(checkpoint): record cut short": lambda p: p.write_text(p.read_text()[:50]),
        "sample(checkpoint): record empty": empty,
        "sample(checkpoint): record of other bytes": noise,
        "sample(checkpoint): record is a list": lambda p: p.write_text("[1, 2]"),
        "sample(checkpoint): record gone": Path.unlink,
    },
)
def record(folder, damage):
    damage(stopped(folder / "run") / "record.json")
    return refused(lambda: sampled(folder / "run"), "record.json", data.CorruptDataError)


@trial(
    "Files",
    "an error that names the file",
    cases={"sample(checkpoint): every state gone": None},
)
def states_gone(folder, _):
    for path in stopped(folder / "run").glob("state_*"):
        path.unlink()
    return refused(lambda: sampled(folder / "run"), "state_00004.npz", data.CorruptDataError)


class _Payload:
    ran = False

    def __reduce__(self):
        return (setattr, (_Payload, "ran", True))


@trial(
    "Files",
    "no code of the file runs",
    cases={
        "sample(checkpoint): a block that holds a pickle": "block_00000.npz",
        "sample(checkpoint): a state that holds a pickle": "state_00004.npz",
    },
)
def pickled(folder, name):
    np.savez(stopped(folder / "run") / name, np.array([_Payload()], dtype=object), seal="x")
    assert pickle  # NumPy's, which pickles the object above
    message = "the run goes on from the state before"
    if name.startswith("block"):
        message = refused(lambda: sampled(folder / "run"), name, data.CorruptDataError)
    else:
        sampled(folder / "run")
    if _Payload.ran:
        raise FaultError("lost", "the code ran")
    return message


def _with(**changes: Any) -> posterior.Posterior:
    task = changes.pop("task", TASK)
    network = changes.pop("network", GIVEN.network)
    return posterior.Posterior(task, network, **({"temperature": 0.1} | changes))


_IMAGES = dataclasses.replace(TASK, inputs=TASK.inputs + TASK.inputs[:, :1])
_LABELS = dataclasses.replace(TASK, targets=TASK.targets[::-1].copy())
_START = jax.tree.map(np.asarray, GIVEN.prior(jax.random.key(9)))


@trial(
    "Files",
    "an error that says what differs",
    cases={
        "sample(checkpoint) of other inputs": ({"given": _with(task=_IMAGES)}, {}),
        "sample(checkpoint) of permuted targets": ({"given": _with(task=_LABELS)}, {}),
        "sample(checkpoint) at another temperature": ({"given": _with(temperature=0.2)}, {}),
        "sample(checkpoint) with another readout variance": ({"given": _with(readout_variance=0.5)}, {}),
        "sample(checkpoint) of another width": (
            {"given": _with(network=networks.Network(1, 7, "sigmoidal"))},
            {},
        ),
        "sample(checkpoint) of another φ": ({"given": _with(network=networks.Network(1, 6, "tanh"))}, {}),
        "sample(checkpoint) with another key": ({"key": 1}, {}),
        "sample(checkpoint) with another step size": ({}, {"method": sampling.HMC(step_size=0.1)}),
        "sample(checkpoint) with another method": ({}, {"method": "langevin"}),
        "sample(checkpoint) from another start": ({}, {"init": _START}),
        "sample(checkpoint) annealed from elsewhere": ({}, {"anneal_from": 5.0}),
        "sample(checkpoint) with other moves": ({}, {"moves": ("gibbs",)}),
        "sample(checkpoint) with another store": ({}, {"store": ("readouts",)}),
        "sample(checkpoint) with more samples": ({}, {"num_samples": 41}),
        "sample(checkpoint) with more thinning": ({}, {"thinning": 2}),
        "sample(checkpoint) with a ladder of temperatures": ({}, {"temperatures": (0.2,)}),
        "sample(checkpoint) with new inputs": ({}, {"predict_inputs": TASK.inputs}),
    },
)
def another_run(folder, case):
    others, arguments = case
    stopped(folder / "run", 1)
    message = refused(
        lambda: sampled(folder / "run", **others, **arguments),
        "belongs to another run: ",
        CheckpointMismatchError,
    )
    if " there and " not in message or " here" not in message:
        raise FaultError("obscure", message)
    return message.partition("; give")[0]


# ---- the long run ---------------------------------------------------------------------------

SETTINGS = large_run.Settings(
    num_inputs=24, num_test=10, num_classes=3, width=12, num_steps=20, num_warmup=3, num_samples=2,
    num_trajectories=1, num_leapfrog=4, start_temperature=0.5, temperature=0.1,
)  # fmt: skip


def blobs(seed: int = 0) -> tasks.Task:
    """Three clusters, more inputs than dimensions, as in CIFAR-10's full run."""
    rng = np.random.default_rng(seed)
    centers, targets = 2 * rng.standard_normal((16, 3)), tasks.one_hot(3, 1.0, -0.1)
    labels, test_labels = np.arange(24) % 3, np.arange(10) % 3
    inputs, test_inputs = (
        centers[:, each] + rng.standard_normal((16, len(each))) for each in (labels, test_labels)
    )
    return tasks.Task(
        inputs, labels, targets[labels], test_inputs, test_labels, targets[test_labels], name="blobs"
    )


def long_run(folder: Path | None) -> Any:
    """A small one: four descents, and two blocks of sampling."""
    return large_run.run(SETTINGS, blobs(), folder)


@trial(
    "Files",
    "an error that says what differs",
    cases={
        "large_run's checkpoint of other images": {"task": blobs(1)},
        "large_run's checkpoint at another temperature": {"temperature": 0.2},
        "large_run's checkpoint with another seed": {"seed": 3},
        "large_run's checkpoint at another learning rate": {"learning_rate": 0.2},
    },
)
def another_large_run(folder, change):
    stopped(folder / "run", 1, long_run)
    task, settings = change.get("task", blobs()), {k: v for k, v in change.items() if k != "task"}
    other = dataclasses.replace(SETTINGS, **settings)
    message = refused(
        lambda: large_run.run(other, task, folder / "run"), "another run", CheckpointMismatchError
    )
    return message.partition("; give")[0]


@trial("Files", "an error that names the file", cases={"large_run's checkpoint: both states cut short": None})
def large_states(folder, _):
    long_run(folder / "run")
    for number in (1, 2):
        cut(folder / f"run/samples/state_0000{number}.npz")
    return refused(lambda: long_run(folder / "run"), "state_00001.npz", data.CorruptDataError)


# ---- readers' files -------------------------------------------------------------------------

PHI = np.array([[0.5, -1.0, 2.0], [1.5, 0.0, 1e-3]])  # two neurons, three inputs


def unread(path, says, *kinds):
    """The message with which a reader's file is refused, which has to name it, without its folder."""
    message = refused(lambda: data.read_activations(path), says, *kinds)
    if path.name not in message:
        raise FaultError("obscure", message)
    return message


@trial(
    "Files",
    "an error that names the file and says what is wrong",
    cases={
        "activations.csv: empty": ("", "first line begins []"),
        "activations.csv: no column `label`": ("1.0,2.0\n3.0,4.0\n", "one of them 'label'"),
        "activations.csv: two columns `label`": ("label,label\n0,1\n", "label"),
        "activations.csv: names alone": ("label,n1\n", "lines below"),
        "activations.csv: labels alone": ("label\n0\n", "one of them 'label'"),
        "activations.csv: a line too long": ("label,n1\n0,1\n1,2,3\n", "line 3: 3 cells"),
        "activations.csv: a line too short": ("label,n1\n0,1\n1\n", "line 3"),
        "activations.csv: a word among numbers": (
            "label,n1\n0,one\n",
            "line 2: could not convert string to float: 'one'",
        ),
        "activations.csv: an empty cell": ("label,n1\n0,\n", "line 2"),
        "activations.csv: half a class": ("label,n1\n0.5,1\n1,2\n", "not all whole"),
        "activations.csv: label nan": ("label,n1\nnan,1\n1,2\n", "not all whole"),
        "activations.csv: decimal commas": ("label;n1\n0;0,5\n", "label"),
        "activations.csv: bytes that are no text": (b"\xff\xfe\x00label", "cannot be read as text"),
    },
)
def csv_file(folder, case):
    content, says = case
    path = folder / "activations.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return unread(path, says)


@trial(
    "Files",
    "an error that names the file and says what is wrong",
    cases={
        "activations.npz: no labels": ({"activations": PHI}, "no array labels, only"),
        "activations.npz: no activations": ({"labels": [0, 1, 1]}, "activations"),
        "activations.npz: transposed": ({"activations": PHI.T, "labels": [0, 1, 1]}, "transpose activations"),
        "activations.npz: one axis": ({"activations": PHI[0], "labels": [0, 1, 1]}, "have shape"),
        "activations.npz: texts": ({"activations": PHI.astype(str), "labels": [0, 1, 1]}, "real numbers"),
        "activations.npz: complex": ({"activations": PHI + 1j, "labels": [0, 1, 1]}, "real numbers"),
        "activations.npz: labels are objects": (
            {"activations": PHI, "labels": [0, 1, None]},
            "cannot be read",
        ),
        "activations.npz: labels are broken": ({"activations": PHI, "labels": [0, 1, 0.5]}, "whole"),
        "activations.npz: cut short": (cut, "cannot be read"),
        "activations.npz: empty": (empty, "cannot be read"),
        "activations.npz: of other bytes": (noise, "cannot be read"),
        "activations.npz: one bit changed": (flip, "cannot be read"),
    },
)
def npz_file(folder, case):
    content, says = case
    path = folder / "activations.npz"
    if callable(content):
        np.savez(path, activations=np.ones((50, 40)), labels=np.arange(40) % 2)
        content(path)
    else:
        np.savez(path, **content)
    return unread(path, says)


@trial(
    "Files",
    "an error that names the file",
    cases={"activations.mat": ".mat", "activations without a suffix": "", "a folder": "/"},
)
def other_file(folder, suffix):
    path = folder / f"activations{suffix}"
    path.mkdir() if suffix == "/" else path.write_bytes(b"1 2 3")
    return unread(path, "activations", ValueError, FileNotFoundError)


@trial("Files", "an error that says how many", cases={"activations.csv with NaN, diagnosed": None})
def nan_file(folder, _):
    (folder / "a.csv").write_text("label,n1,n2\n0,nan,1\n1,2,3\n")
    found = data.read_activations(folder / "a.csv")
    return refused(lambda: diagnose(found.activations, found.labels), "NaN")


@trial(
    "Files",
    "an error that names the file and how to get it back",
    cases={f"bundled digits: {how}": d for how, d in DAMAGES.items() if how[:3] != "the"},
)
def bundled(folder, damage):
    kept = Path(shutil.copy(data._bundled(), folder))
    damage(kept)
    with mock.patch.object(data, "_bundled", return_value=kept), mock.patch.dict(os.environ):
        os.environ.pop(data.ENVIRONMENT_VARIABLE, None)
        return refused(lambda: tasks.mnist(9, 3), kept.name, data.CorruptDataError, FileNotFoundError)


STORED = "fashion-mnist.npz"


@trial(
    "Files",
    "an error that names the file and how to get it back",
    cases={f"stored result: {how}": d for how, d in DAMAGES.items() if how[:3] != "the"}
    | {"stored result: another npz file": lambda path: np.savez(path, x=1)},
)
def stored(folder, damage):
    path = folder / STORED
    np.savez(path, manifest=json.dumps({}), values=np.ones((50, 40)))
    damage(path)
    call = lambda: data.arrays(path, "manifest", "restore it (git checkout)")  # noqa: E731
    message = refused(call, STORED, data.CorruptDataError, FileNotFoundError)
    if "restore" not in message:
        raise FaultError("obscure", message)
    return message


# ---- checks ---------------------------------------------------------------------------------

nan, inf = float("nan"), float("inf")
CONTROL = Control("shuffled", sampled=np.array(5.0))
TWO = {"sampled": np.ones(2), "theory": np.ones(2), "over": ("a", "b")}
NEAR, THREE = predicates.absolute(0.1), predicates.standard_errors(3)


@trial(
    "Checks",
    "an error that says what a finding needs",
    cases={
        "sampled is empty": ({"sampled": np.array([])}, "sampled"),
        "sampled is the text “no”": ({"sampled": "no"}, "sampled"),
        "sampled is complex": ({"sampled": 1j}, "sampled"),
        "theory has another shape": (
            {"theory": np.ones(3), "sampled": np.ones(2)},
            "theory must fit sampled, of shape (2,); got (3,)",
        ),
        "the error is negative": (
            TWO | {"sampled": Estimate(np.ones(2), np.array([0.1, -0.1])), "predicate": THREE},
            "error must not be negative",
        ),
        "the error is missing": ({"predicate": THREE}, "needs an Estimate"),
        "a boolean in place of a predicate": ({"predicate": True}, "judge takes a predicate"),
        "“passed” in place of a predicate": ({"predicate": "passed"}, "predicate"),
        "a relative limit without theory": (
            {"theory": None, "predicate": predicates.relative(0.1)},
            "needs a theory",
        ),
        "a sign as limit, beside a theory": ({"predicate": predicates.above(0)}, "a sign is no limit"),
        "the control has no name": ({"control": Control("", sampled=np.array(5.0))}, "says what was altered"),
        "the control alters nothing": ({"control": Control("nothing")}, "must alter sampled or theory"),
        "the control is a tuple": ({"control": ("typed", 3)}, "control must be a Control"),
        "the control was typed": (
            TWO | {"control": Control("typed", theory=[1.0, 2.0])},
            "control must be computed",
        ),
        "the control spares what is not there": (
            TWO | {"control": Control("c", theory=np.ones(2), spared=("c",), because="b")},
            "control spares",
        ),
        "the control spares without a reason": (
            TWO | {"control": Control("c", theory=np.ones(2), spared=("a",))},
            "must say why it spares",
        ),
        "an unknown claim": ({"id": "A99"}, "id must be a claim"),
        "an unknown panel": ({"panel": "Paper A, Fig. 99"}, "panel must be one of book/panels.yml"),
        "an unknown panel of a supplement": (
            {"panel": "Paper A, supplement E, nothing"},
            "panel must be one of book/panels.yml",
        ),
        "no size": ({"size": {}}, "size must say how large"),
        "a number as size": ({"size": 60}, "size must say how large"),
        "nothing is said to be computed": ({"quantity": "  "}, "quantity must say"),
        "the sampler is a text": ({"sampler": "converged"}, "sampler must be a Convergence"),
        "the sampler agrees in words": (
            {"sampler": SimpleNamespace(agree="no")},
            "sampler must be a Convergence",
        ),
        "the sampler's state is unknown": (
            {"sampler": SimpleNamespace(state="perhaps")},
            "sampler must be a Convergence",
        ),
        "sampled is None": ({"sampled": None}, "sampled"),
        "sampled is a list of unequal lists": ({"sampled": [[1.0], [1.0, 2.0]]}, "sampled"),
        "sampled is a dictionary": ({"sampled": {"a": 1.0}}, "sampled"),
        "the control has another shape": (
            {"sampled": np.ones(2), "control": Control("cut", sampled=np.ones(3))},
            "control",
        ),
        "the control is empty": ({"control": Control("none", sampled=np.array([]))}, "control"),
        "the control is complex": ({"control": Control("turned", sampled=np.array(1j))}, "control"),
        "theory is larger than what was sampled": ({"theory": np.ones(3)}, "theory"),
        "the error has another shape": (
            {"sampled": Estimate(np.ones(2), np.ones(3)), "predicate": THREE},
            "error must fit sampled",
        ),
        "names of another number of elements": (
            {"sampled": np.ones(2), "over": ("a", "b", "c")},
            "over must name the last axis",
        ),
    },
)
def bad_finding(folder, case):
    change, says = case
    given = {"id": "A5", "quantity": "a slope", "sampled": np.array(1.0), "theory": np.array(1.0)}
    given |= {"size": {"N": 60}, "control": CONTROL, "predicate": NEAR} | change
    message = refused(lambda: _judge(**given), says)
    unnamed = {"id", "quantity", "sampler"} & set(change) or isinstance(change.get("sampled"), str)
    if not unnamed and "finding A5, a slope" not in message:
        raise FaultError("obscure", message)
    return message


def _judge(*, predicate, **given):
    Finding(given.pop("id"), given.pop("quantity"), **given).judge(predicate)


@trial(
    "Checks",
    "an error that names the limit",
    cases={
        "standard_errors(−1)": lambda: predicates.standard_errors(-1),
        "standard_errors(0)": lambda: predicates.standard_errors(0),
        "standard_errors(nan)": lambda: predicates.standard_errors(nan),
        'standard_errors("3")': lambda: predicates.standard_errors("3"),  # type: ignore[arg-type]
        "relative(0)": lambda: predicates.relative(0),
        "relative(−1)": lambda: predicates.relative(-1),
        "absolute(inf)": lambda: predicates.absolute(inf),
        "above(nan)": lambda: predicates.above(nan),
        "above(inf)": lambda: predicates.above(inf),
        "above(1, −1)": lambda: predicates.above(1, -1),
        "below(1j)": lambda: predicates.below(1j),
        "between(2, 1)": lambda: predicates.between(2, 1),
        "between(1, 1)": lambda: predicates.between(1, 1),
        "between(nan, 1)": lambda: predicates.between(nan, 1),
        'between("a", "b")': lambda: predicates.between("a", "b"),  # type: ignore[arg-type]
        "p_value(0)": lambda: predicates.p_value(0),
        "p_value(1)": lambda: predicates.p_value(1.0),
        "p_value(nan)": lambda: predicates.p_value(nan),
        "p_value(0.01) of 1.5": lambda: predicates.p_value(0.01)(1.5),
    },
)
def bad_limit(folder, call):
    return refused(call, "must")


# ---- parameters of chapters -----------------------------------------------------------------

CHAPTER = """\
# %% tags=["parameters"]
preset = "quick"
seed = 0
scale = 1.0
label: str | None = None
sizes: tuple[int, ...] = (1, 2)
"""


TYPED = (
    "strat=3",
    "seed=1.5",
    "seed=True",
    "seed=",
    "seed=one",
    "seed=[1]",
    "scale=big",
    "scale=1e400",
    "scale=-1e400",
    "scale=nan",
    "scale=1j",
    "scale=(1e400,)",
    "sizes=3",
    "sizes=(1, 1e400)",
    "scale=__import__('os').getcwd()",
    "__class__=1",
)


@trial(
    "Parameters",
    "an error that names the parameter",
    cases={text: text for text in TYPED},
)
def parameter(folder, text):
    source, (name, _, value) = folder / "one.py", text.partition("=")
    source.write_text(CHAPTER)
    return refused(lambda: execution.parse_parameters(source, {name: value}), name, BuildError)
