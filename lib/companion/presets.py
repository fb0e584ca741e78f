"""One place where a chapter's sizes are chosen: the preset, then whatever the reader sets by hand."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

PRESETS = ("quick", "paper", "full")


def choose(
    preset: str,
    *,
    quick: Mapping[str, Any],
    paper: Mapping[str, Any],
    full: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
) -> SimpleNamespace:
    """Settle a chapter's settings: the preset's values, overridden by the ones given.

    Args:
        preset: "quick", "paper" or, where a chapter offers it, "full".
        quick: Every setting of the chapter, at sizes for a laptop's minute.
        paper: The same settings at the papers' sizes; exactly the keys of `quick`.
        full: Settings of the large runs that differ from `paper`; None where a chapter has no such run.
        given: Values of the chapter's parameters cell. None stands for "the preset's own value".

    Returns:
        A namespace with one attribute per setting.

    Raises:
        ValueError: If the preset is unknown or not offered, the presets disagree on their keys, or `given`
            names a setting that no preset has.
    """
    if set(quick) != set(paper):
        difference = sorted(set(quick) ^ set(paper))
        raise ValueError(
            f"presets quick and paper must name the same settings; only one of them has {difference}"
        )
    offered = PRESETS if full is not None else PRESETS[:2]
    if preset not in offered:
        raise ValueError(f"preset must be one of {', '.join(offered)} in this chapter; got {preset!r}")
    given = given or {}
    for argument, settings in (("full", full or {}), ("given", given)):
        unknown = sorted(set(settings) - set(quick))
        if unknown:
            raise ValueError(f"{argument} names unknown settings {unknown}; allowed are {sorted(quick)}")
    settings = dict(quick if preset == "quick" else paper)
    if preset == "full":
        settings |= full or {}
    return SimpleNamespace(**(settings | {key: value for key, value in given.items() if value is not None}))
