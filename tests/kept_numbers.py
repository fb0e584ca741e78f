"""Numbers kept by the name of the test that computes them: an edit that changes any of them is seen.

The tests beside say why a number is right. This net says that it is still the same, for every field and
property of what a solver, a sampler or a measure returns. What is kept of an array is its size, its norm and
one projection. Where numbers change on purpose: `pytest --keep-numbers` of these tests, and a look at the
diff.
"""

import dataclasses
import functools
import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "kept"
# given, or of the way to the answer, or turned at will: another processor turns them otherwise
NOT_KEPT = {"task", "residual", "num_steps", "posterior", "network", "jacobian", "root", "basis"}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and words within an object, named by the way to them; functions are passed over."""
    if isinstance(value, str | bool):
        yield name, value
    elif dataclasses.is_dataclass(value):
        own = [field.name for field in dataclasses.fields(value)]
        own += [
            each
            for each, member in inspect.getmembers_static(type(value))
            if isinstance(member, property | functools.cached_property)
        ]
        for each in sorted({each for each in own if each[0] != "_"} - NOT_KEPT):
            yield from leaves(getattr(value, each), f"{name}.{each}")
    elif hasattr(value, "_asdict"):
        yield from leaves(value._asdict(), name)
    elif isinstance(value, Mapping):
        for key in value:
            yield from leaves(value[key], f"{name}.{key}")
    elif isinstance(value, list | tuple) and any(
        dataclasses.is_dataclass(each) or not np.isscalar(each) for each in value
    ):
        for index, each in enumerate(value):
            yield from leaves(each, f"{name}[{index}]")
    elif value is not None and not callable(value):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            yield name, np.ravel(array).astype(float)


def summary(value: Any) -> dict[str, Any]:
    """Of every array within an object its size, its norm and one projection, to nine digits."""
    found: dict[str, Any] = {}
    for name, leaf in leaves(value):
        if isinstance(leaf, str | bool):
            found[name] = leaf
            continue
        shown = np.nan_to_num(leaf, nan=3.0, posinf=1e3, neginf=-1e3)
        along = np.cos(1.7 * np.arange(len(leaf)) + 0.3)
        found[name] = [len(leaf), *(float(f"{x:.9g}") for x in (np.linalg.norm(shown), along @ shown))]
    return found


def differences(kept: dict[str, Any], now: dict[str, Any], rtol: float) -> list[str]:
    """What differs, by name; both numbers of an array are held against its norm."""
    told = [f"{name}: {'new' if name in now else 'gone'}" for name in sorted(kept.keys() ^ now.keys())]
    for name in kept.keys() & now.keys():
        one, other = kept[name], now[name]
        if isinstance(one, list) and isinstance(other, list):
            same = one[0] == other[0] and np.allclose(one, other, rtol=0, atol=rtol * one[1] + 1e-7)
        else:
            same = one == other
        if not same:
            told.append(f"{name}: {one} was kept, {other} is found")
    return told


@pytest.fixture
def same_as_kept(request):
    """Hold an object against what was kept of it under this test's name."""

    def hold(value: Any, rtol: float = 1e-5) -> None:
        path, name = FOLDER / f"{request.path.stem}.json", request.node.name
        kept = json.loads(path.read_text()) if path.exists() else {}
        now = summary(value)
        if request.config.getoption("--keep-numbers"):
            kept[name] = now
            rows = [f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept)]
            FOLDER.mkdir(exist_ok=True)
            path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        told = differences(kept[name], now, rtol)
        assert not told, "\n".join(told)

    return hold
