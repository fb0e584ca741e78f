"""Where things lie: the repository and its commit, its data, and the folder a chapter's downloads go to."""

import os
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

_MARKER = Path("book") / "claims.yml"


def repository_root() -> Path | None:
    """The book's repository, the folder that holds ``book/claims.yml``; None where there is none.

    The search walks up from the working directory first, then from this file, so that a notebook run in a
    second checkout belongs to that checkout.
    """
    for start in (Path.cwd(), Path(__file__).resolve()):
        for folder in (start, *start.parents):
            if (folder / _MARKER).is_file():
                return folder
    return None


def located(path: str | Path) -> Path:
    """A reader's file: as given, or relative to the repository, where `make chapter` is typed.

    Chapters run in the folder of notebooks, which is not where a reader names the file from.
    """
    root = repository_root()
    return Path(path) if root is None or Path(path).is_file() else root / path


def commit() -> str:
    """Short name of the repository's present commit, for manifests of stored results.

    "unknown" outside of a repository and where there is no git.
    """
    command = ["git", "-C", str(repository_root()), "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"


def provenance(seconds: float) -> dict[str, Any]:
    """How a stored result was made, for its manifest: seconds that it took, date, versions and commit."""
    packages = ("jax", "jaxlib", "blackjax", "numpy", "scipy")
    return {
        "seconds": round(seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: metadata.version(name) for name in packages},
        "commit": commit(),
    }


def write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    """A file that is there as a whole or not at all, also if the machine stops; until then what was there."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def store(output: Path, arrays: Mapping[str, Any]) -> None:
    """Leave arrays in an npz file, making its folder."""
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, lambda file: np.savez_compressed(file, **arrays))


def artifacts() -> Path | None:
    """Folder for the arrays and drawing code of published figures, from ``CODING_SCHEMES_ARTIFACTS``.

    Created if missing; None where the variable is not set, as in a reader's own session.
    """
    folder = os.environ.get("CODING_SCHEMES_ARTIFACTS")
    if not folder:
        return None
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path
