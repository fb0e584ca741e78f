"""A Sphinx extension: docstrings keep their equations on the API page.

Docstrings are read in editors first, so equations stand in them as plain text, |dx|² and all. For the page,
an indented block becomes a literal block, which keeps its lines; bars in running text are escaped, as
reStructuredText would take |dx| for a substitution; and of several names described together, the first
heads the entry, as napoleon would take the others for its type. Fields of NamedTuples stand in their class's
docstring, so their own entries are left out.
"""

import re
from typing import Any

_NAMES = re.compile(r"^( +)(\w+), (\w+(?:, \w+)*): ")
_LITERAL = re.compile(r"(``.*?``)")


def setup(app: Any) -> dict[str, bool]:
    """Connect to autodoc, ahead of napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", lambda *arguments: process(arguments[-1]), priority=400)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def process(lines: list[str]) -> None:
    """Rewrite the lines of one docstring in place, dedented, as autodoc hands them over."""
    result: list[str] = []
    literal = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        if line and not indented:
            literal = False
        elif indented and not literal and number and not lines[number - 1] and _after_text(lines[:number]):
            literal = True
            result += ["::", ""]
        result.append(line if literal else _escape_bars(_NAMES.sub(r"\1\2: with \3, ", line)))
    lines[:] = result


def _after_text(before: list[str]) -> bool:
    """Whether the last line that is not blank is running text: not indented, no list, no directive."""
    last = next((line for line in reversed(before) if line), "")
    return bool(last) and not last.startswith((" ", "-", "*", ".."))


def _escape_bars(line: str) -> str:
    parts = _LITERAL.split(line)
    return "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)
