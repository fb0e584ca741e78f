"""Take over chapters that others have run from the same sources: from a folder, or from a published site.

A published site has, below ``downloads/``, each chapter's results and their manifest. They are taken if they
were made from the present sources, and if every file has the digest that the manifest gives it.
"""

import http.client
import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath

from companion.pipeline import manifest
from companion.pipeline.project import MANIFEST, BuildError, Chapter, Project, few, why

DOWNLOADS = "downloads"
_TIMEOUT_S = 60.0
_AT_ONCE = 8  # files


def publish(chapter: Chapter, pages: Path) -> None:
    """Lay a chapter's results and their manifest among the pages, for readers and for `restore`."""
    folder = pages / DOWNLOADS
    folder.mkdir(exist_ok=True)
    shutil.copy(chapter.notebook, folder / chapter.notebook.name)
    shutil.copytree(chapter.artifacts, folder / chapter.name)
    shutil.copy(chapter.manifest, folder / f"{chapter.name}.json")


def source(project: Project, given: str) -> Path | str:
    """Where to take results from: a folder, or the address of a site; by itself the book's own.

    Raises:
        BuildError: there is no such folder, or no address is known.
    """
    if not given:
        if project.pages_address is None:
            raise BuildError(
                "no address of the published book is known (html: baseurl in _config.yml, or a repository on "
                "GitHub); give FROM=folder or FROM=https://..."
            )
        return project.pages_address
    if urllib.parse.urlsplit(given).scheme in ("http", "https"):
        return given.rstrip("/")
    if not Path(given).is_dir():
        raise BuildError(
            "FROM must be a folder of results, such as another checkout's _build, or the address of a "
            f"published book; got {given!r}"
        )
    return Path(given).resolve().as_uri() if (Path(given) / DOWNLOADS).is_dir() else Path(given)


def restore(chapter: Chapter, shared: Path | str) -> str:
    """Take a chapter's results over, if they are of the present sources, and whole; says what came of it.

    They may lie below a shared folder, in one of the same digest, or at the address of a site.
    """
    if chapter.finished:
        return "there already"
    chapter.folder.parent.mkdir(parents=True, exist_ok=True)
    partial = chapter.folder.with_name(f".{chapter.folder.name}-{os.getpid()}")
    try:
        take = _from_folder if isinstance(shared, Path) else _from_site
        found, refused = take(chapter, shared, partial)  # type: ignore[arg-type]
        if refused:
            return f"{refused}; to be run here"
        shutil.rmtree(chapter.folder, ignore_errors=True)
        partial.replace(chapter.folder)
        return f"restored from {found}"
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _from_folder(chapter: Chapter, shared: Path, partial: Path) -> tuple[str, str]:
    lost: list[str] = []
    for found in sorted(shared.glob(f"**/{chapter.folder.name}")):
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(found, partial)
        if not (lost := manifest.damage(partial / MANIFEST, partial)):
            return str(found), ""
    if lost:
        return "", f"damaged there ({few(lost)})"
    return "", f"not there ({why(shared.glob(f'**/{chapter.any_manifest}'), chapter.made_from)})"


def _from_site(chapter: Chapter, address: str, partial: Path) -> tuple[str, str]:
    try:
        content = _read(f"{address}/{DOWNLOADS}/{chapter.name}.json")
        files, made_from = (json.loads(content)[key] for key in ("files", "made_from"))
        places = {name: place(chapter, name) for name in files}
        changed = manifest.changes(made_from, chapter.made_from)
    except urllib.error.HTTPError as error:
        return "", f"not there ({error.code} {error.reason})"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return "", f"its manifest there is spoiled ({type(error).__name__}: {error})"
    if other := [change for change in changed if change != "Python changed"]:
        return "", f"made from other sources there ({few(other, 5)})"

    def take(name: str) -> None:
        path = partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(urllib.error.HTTPError):  # a file that is not there is found missing below
            path.write_bytes(_read(f"{address}/{DOWNLOADS}/{urllib.parse.quote(places[name])}"))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(take, files))
    (partial / MANIFEST).write_bytes(content)
    if lost := manifest.damage(partial / MANIFEST, partial):
        return "", f"damaged there ({few(lost)})"
    return address + (f", made by {made_from['Python']}" if changed else ""), ""


def place(chapter: Chapter, name: str) -> str:
    """Where a site has a file of the results; ValueError where it would lie outside of their folder."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or name.startswith("/") or "\\" in name:
        raise ValueError(f"a file named {name!r}")
    return "/".join((chapter.name, *parts[1:])) if parts[0] == chapter.artifacts.name else name


def _read(address: str) -> bytes:
    """What lies at an address; a missing file of a folder is a missing page."""
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
            return answer.read()
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, FileNotFoundError | IsADirectoryError):
            raise urllib.error.HTTPError(address, 404, "Not Found", None, None) from error  # type: ignore[arg-type]
        raise BuildError(f"{address} cannot be read: {reason}") from error
