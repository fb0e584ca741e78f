"""One place where a chapter's sizes are chosen: the preset, then whatever the reader sets by hand."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

PRESETS = ("quick", "paper", "full")


def sizes(chapter: ModuleType, preset: str, **given: Any) -> SimpleNamespace:
    """Settle a chapter's settings: those of the preset in its ``sizes.toml``, overridden by given ones.

    The file has a table ``[quick]`` with every setting, ``[paper]`` with those that differ, and ``[full]``
    with those that differ from `paper`, where a chapter has runs that `paper` leaves out. A table in one of
    them names the sizes of one run: ``[quick.deep]``. A table ``[least]`` says below which value a setting
    leaves nothing to compute; a list there, how many numbers a tuple has to have, and the least of them. A
    table ``[most]`` says above which value a number does, as where a temperature leaves no codes.

    Args:
        chapter: A module of the chapter, beside its ``sizes.toml``.
        preset: "quick", "paper" or, where a chapter offers it, "full".
        **given: Values of the chapter's parameters cell, of a table as a dict. None stands for "the preset's
            own value".

    Returns:
        A namespace with one attribute per setting, tables as namespaces of their own.

    Raises:
        ValueError: If the preset is not offered, a table or `given` names a setting that quick has not, or a
            setting is below the least or above the most that is allowed.
    """
    path = Path(str(chapter.__file__)).with_name("sizes.toml")
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    offered = [name for name in PRESETS if name in tables]
    if preset not in offered:
        raise ValueError(f"preset must be one of {', '.join(offered)} in this chapter; got {preset!r}")
    settings = tables[offered[0]]
    for name in offered[1 : offered.index(preset) + 1]:
        settings = _merged(settings, tables[name], f"{path.parent.name}/sizes.toml, {name}")
    settings = _merged(settings, _chosen(given), "given")
    for end in ("least", "most"):
        _check(settings, tables.get(end, {}), end)
    return _namespace(settings)


def _chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader has set, in tables too."""
    tables = {name: _chosen(value) if isinstance(value, dict) else value for name, value in given.items()}
    return {name: value for name, value in tables.items() if value is not None}


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Settings with some of them changed."""
    if unknown := sorted(set(changes) - set(settings)):
        raise ValueError(f"{where} names unknown settings {unknown}; allowed are {sorted(settings)}")
    merged = dict(settings)
    for name, value in changes.items():
        merged[name] = _merged(merged[name], value, where) if isinstance(value, dict) else value
    return merged


def _check(settings: Mapping[str, Any], limits: Mapping[str, Any], end: str, of: str = "") -> None:
    """ValueError for a setting beyond its limit at an end, "least" or "most"."""
    for name, limit in limits.items():
        value, wanted = settings[name], f"{limit} or {'more' if end == 'least' else 'less'}"
        if isinstance(limit, dict):
            _check(value, limit, end, f"{name}.")
            continue
        if isinstance(limit, list):
            allowed = len(value) >= len(limit) and min(value) >= min(limit)
            wanted = f"{len(limit)} or more numbers, none below {min(limit)}"
        else:
            allowed = value >= limit if end == "least" else value <= limit
        if not allowed:
            raise ValueError(f"{of}{name}: got {value!r}, this chapter needs {wanted}")


def _namespace(settings: Mapping[str, Any]) -> SimpleNamespace:
    fresh = {
        name: _namespace(value) if isinstance(value, dict) else value for name, value in settings.items()
    }
    return SimpleNamespace(**{n: tuple(v) if isinstance(v, list) else v for n, v in fresh.items()})
