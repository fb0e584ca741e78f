"""Where things lie: the repository, its data, and the folder a chapter's downloads go to."""

import os
from pathlib import Path

_MARKER = Path("book") / "claims.yml"


def repository_root() -> Path | None:
    """Find the book's repository, or None where the library is used outside of it.

    The search walks up from the working directory first, then from this file, so that a notebook run in a
    second checkout belongs to that checkout.

    Returns:
        The folder that holds ``book/claims.yml``, or None.
    """
    for start in (Path.cwd(), Path(__file__).resolve()):
        for folder in (start, *start.parents):
            if (folder / _MARKER).is_file():
                return folder
    return None


def artifacts() -> Path | None:
    """Folder for the arrays and drawing code of published figures, from ``CODING_SCHEMES_ARTIFACTS``.

    Returns:
        The folder, created if missing; None where the variable is not set, as in a reader's own session.
    """
    folder = os.environ.get("CODING_SCHEMES_ARTIFACTS")
    if not folder:
        return None
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path
