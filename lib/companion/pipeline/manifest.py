"""What a result was made from and consists of, kept beside it: damage shows, and changes have names."""

import hashlib
import json
from pathlib import Path
from typing import Any


def seal(path: Path, folder: Path, made_from: dict[str, str]) -> None:
    """Write down what a finished folder was made from, and the digest of every file in it.

    Args:
        path: The manifest; it may lie in the folder.
        folder: Where the results lie.
        made_from: Digest or value of every ingredient, by name.
    """
    files = {
        str(f.relative_to(folder)): digest(f) for f in sorted(folder.rglob("*")) if f.is_file() and f != path
    }
    write(path, {"made_from": made_from, "files": files}, indent=1)


def damage(path: Path, folder: Path) -> list[str]:
    """Files of a sealed folder that are missing or not what they were; the manifest itself if spoiled."""
    files = read(path).get("files")
    if not isinstance(files, dict):
        return [path.name]
    return [name for name, known in files.items() if digest(folder / name) != known]


def made_from(path: Path) -> dict[str, str]:
    """Ingredients that a manifest names; none where it is missing or spoiled."""
    found = read(path).get("made_from")
    return found if isinstance(found, dict) else {}


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names of the ingredients that differ, each with what became of it."""
    found = [f"{name} is gone" for name in before if name not in now]
    found += [f"{name} is new" for name in now if name not in before]
    return found + [f"{name} changed" for name in now if name in before and now[name] != before[name]]


def digest(path: Path) -> str:
    """SHA-256 of a file's content; empty where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""


def write(path: Path, content: dict[str, Any] | list[Any], indent: int | None = None) -> None:
    """Write a JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(content, indent=indent), encoding="utf-8")
    fresh.replace(path)


def write_readable(path: Path, content: Any) -> None:
    """Write a JSON file for readers."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing where it is missing or spoiled."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
