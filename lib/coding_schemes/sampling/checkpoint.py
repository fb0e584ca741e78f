"""A run's blocks in a folder: a killed run goes on where it was, and ends with bitwise the same numbers.

    record.json         what the run is: its settings, and digests of the arrays that it starts from
    block_00000.npz …   what every block gave
    state_00003.npz     what is needed to go on after three blocks; the newest two are kept

Files hold plain arrays, nothing is unpickled. Each is written beside its place, flushed to the disk and then
moved there, and carries a digest of its arrays, its place and its run. A damaged newest block or state costs
one block: the run goes on from the state before.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from coding_schemes import paths, validation
from coding_schemes.data import CorruptDataError


class CheckpointMismatchError(ValueError):
    """The checkpoint belongs to another run; the message names what differs."""


def digest(tree: Any) -> str:
    """SHA-256 of the arrays of a pytree, with their types and shapes."""
    found = hashlib.sha256()
    for leaf in map(np.asarray, jax.tree.leaves(tree)):
        found.update(f"{leaf.dtype.str} {leaf.shape} ".encode())
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()


class Checkpoint:
    """The folder of one run.

    Args:
        folder: made if missing; None keeps nothing.
        record: everything that determines the run's numbers: names and what JSON can hold.

    Raises:
        CheckpointMismatchError: the folder belongs to another run.
        CorruptDataError: its record is missing or damaged.
    """

    def __init__(self, folder: str | Path | None, record: Mapping[str, Any]):
        self.folder = None if folder is None else Path(folder)
        self.count = 0  # blocks that are done
        if self.folder is None:
            return
        self._first = jax.process_index() == 0  # writes; the others find what it wrote
        if not self._first:
            multihost_utils.sync_global_devices("record of a checkpoint")
        versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "blackjax", "numpy")}
        here = {**record, "versions": versions, "x64": jax.config.read("jax_enable_x64")}
        here = json.loads(json.dumps(here))
        self._run = json.dumps(here, sort_keys=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "record.json"
        if not path.exists():
            if any(self.folder.glob("*.npz")):
                raise CorruptDataError(f"{path} is missing; give an empty folder to start anew")
            paths.write_whole(path, lambda file: file.write(json.dumps(here, indent=1).encode()))
        try:
            there = dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise CorruptDataError(
                f"{path} is damaged ({error}); give an empty folder to start anew"
            ) from error
        differing = [
            f"{name} is {there.get(name)} there and {here.get(name)} here"
            for name in sorted({*here, *there})
            if here.get(name) != there.get(name)
        ]
        if differing:
            raise CheckpointMismatchError(
                f"checkpoint {self.folder} belongs to another run: {', '.join(differing)}; "
                "give an empty folder"
            )
        if self._first and jax.process_count() > 1:
            multihost_utils.sync_global_devices("record of a checkpoint")

    def load(self, state: Any, block: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The newest sound state, and what all blocks before it gave.

        Args:
            state: pytree of arrays like the one to find; returned as it is where there is none yet.
            block: makes a pytree with the structure of a block's; called only if there are some.

        Raises:
            CorruptDataError: a file is missing, damaged or stands in another's place, and more than the
                newest block would be lost; the message names it.
        """
        if self.folder is None:
            return state, []
        newest = max((int(path.stem[6:]) for path in self.folder.glob("state_*.npz")), default=0)
        blocks = len(list(self.folder.glob("block_*.npz")))
        if blocks > newest + 1:
            raise CorruptDataError(f"{self._path('state', blocks)} is missing; start anew in an empty folder")
        for number in (newest, newest - 1):
            try:
                leaves = self._read("state", number) if number else jax.tree.leaves(state)
                last = [self._read("block", number - 1)] if number else []
                break
            except CorruptDataError as error:
                if number < newest:
                    raise
                validation.warn(f"checkpoint: {error}; going back by one block")
        outputs = [self._read("block", index) for index in range(number - 1)] + last
        structure = jax.tree.structure(block()) if outputs else None
        self.count = number
        state = jax.tree.unflatten(jax.tree.structure(state), leaves)
        return state, [jax.tree.unflatten(structure, output) for output in outputs]

    def save(self, state: Any, block: Any) -> None:
        """Keep what one more block gave, and the state after it."""
        if self.folder is None:
            return
        if self._first:
            self._save("block", self.count, block)
        self.count += 1
        if not self._first:
            return
        self._save("state", self.count, state)
        self._path("state", self.count - 2).unlink(missing_ok=True)

    def _path(self, kind: str, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{kind}_{number:05d}.npz"

    def _seal(self, kind: str, number: int, leaves: list[np.ndarray]) -> str:
        return hashlib.sha256(f"{self._run} {kind} {number} {digest(leaves)}".encode()).hexdigest()

    def _save(self, kind: str, number: int, tree: Any) -> None:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        seal = self._seal(kind, number, leaves)
        paths.write_whole(self._path(kind, number), lambda file: np.savez(file, *leaves, seal=seal))

    def _read(self, kind: str, number: int) -> list[np.ndarray]:
        path = self._path(kind, number)
        try:
            with np.load(path, allow_pickle=False) as file:
                leaves = [file[f"arr_{index}"] for index in range(len(file.files) - 1)]
                sound = str(file["seal"]) == self._seal(kind, number, leaves)
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise CorruptDataError(f"{path} is missing or damaged ({error})") from error
        if not sound:
            raise CorruptDataError(f"{path} is damaged, or stands in the place of another block")
        return leaves
