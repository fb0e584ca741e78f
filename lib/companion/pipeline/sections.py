"""What a page shows of a chapter's code and checks: folded cells, a line of checks per section, one set-up.

Cells carry tags: "hide-input" folds what draws and judges, "setup" moves to one closed bar at the end of the
page, "solution" is an exercise's answer, closed until it is asked for.
"""

import re
from collections.abc import Iterator
from typing import Any

import jupytext
import nbformat

from companion import records
from companion.formats import CHECK_TYPE, INJECTED, name_cells
from companion.pipeline import kept
from companion.pipeline.project import Chapter
from companion.pipeline.rendering import render

_HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
_EXERCISE = re.compile(r"^\*\*(\d+)\.\*\* (.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
FENCE = "`" * 12  # longer than any inside


def with_present_text(chapter: Chapter) -> Any:
    """A chapter's executed cells between the text that its source has now, which runs nothing again."""
    notebook = nbformat.read(chapter.notebook, as_version=4)
    injected = [cell for cell in notebook.cells if INJECTED in cell.metadata.get("tags", ())]
    executed = (cell for cell in notebook.cells if cell.cell_type == "code" and cell not in injected)
    cells = []
    for cell in jupytext.read(chapter.source).cells:
        cells.append(next(executed) if cell.cell_type == "code" else cell)
        if "parameters" in cell.metadata.get("tags", ()):
            cells += injected
    name_cells(cells)
    notebook.cells = cells
    return notebook


def with_prompts(notebook: Any) -> Any:
    """The notebook whose folded cells say on their toggle what they hold, and with anchors at exercises."""
    exercises(notebook)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "setup" in tags:
            tags.append("remove-input")
        elif "solution" in tags:
            tags.append("hide-cell")
            _prompt(cell, "Solution")
        elif "hide-input" in tags:
            found = {
                "parameters": "parameters" in tags,
                "imports and sizes": re.search(r"^(import|from) ", cell.source, re.MULTILINE),
                "figure": re.search(r"\bpublish(_animation)?\(|\.(draw|bars)\(", cell.source),
                "checks": re.search(r"\.judge\(", cell.source),
                "numbers in the text": re.search(r"^\s*glue\(", cell.source, re.MULTILINE),
            }
            _prompt(cell, f"Code: {', '.join(name for name, holds in found.items() if holds) or 'runs'}")
    return notebook


def _prompt(cell: Any, title: str) -> None:
    cell.metadata["mystnb"] = {"code_prompt_show": title, "code_prompt_hide": title}


def with_setup(notebook: Any) -> Any:
    """The notebook with its set-up cells, as text, in one closed bar at the end."""
    code = [cell.source for cell in notebook.cells if "setup" in cell.metadata.get("tags", [])]
    if code:
        block = [f"{FENCE}{{code-block}} python", "\n\n".join(code), FENCE]
        title = ":::::{dropdown} Set-up of this chapter: parameters, sizes, imports"
        bar = "\n".join([title, *block, ":::::"])
        notebook.cells.append(nbformat.v4.new_markdown_cell(bar, id="setup-shown"))
    return notebook


def exercises(notebook: Any) -> list[tuple[str, str]]:
    """A chapter's exercises: number and question, in Markdown; after this, each has an anchor.

    They are paragraphs that begin with ``**1.**`` in the section "Exercises".
    """
    found: list[tuple[str, str]] = []
    cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    first = next((k for k, cell in enumerate(cells) if "## Exercises\n" in cell.source), len(cells))
    for cell in cells[first:]:
        found += _EXERCISE.findall(cell.source)
        cell.source = _EXERCISE.sub(r'<span id="exercise-\1"></span>\g<0>', cell.source)
    return found


def with_checks(notebook: Any, at_paper: kept.Kept | None = None) -> Any:
    """The notebook with a closed line for the checks of each section, and anchors where claims are judged.

    What is kept of the chapter at the preset paper is shown under each check.
    """
    seen: set[str] = set()
    cells: list[Any] = []
    waiting: list[tuple[dict[str, Any], str]] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and _HEADING.search(cell.source):
            cells += _line_of(waiting, len(cells))
            waiting = []
        found = [(record, _with(line, kept.line(at_paper, record))) for record, line in _taken(cell)]
        fresh = dict.fromkeys(record["id"] for record, _ in found if record["id"] not in seen)
        seen.update(fresh)
        if fresh:
            anchors = "".join(f'<span id="{anchor(id)}"></span>' for id in fresh)
            cells.append(nbformat.v4.new_markdown_cell(anchors, id="-".join(["anchor", *fresh])))
        waiting += found
        cells.append(cell)
    notebook.cells = cells + list(_line_of(waiting, len(cells)))
    return notebook


def anchor(claim_id: str) -> str:
    """The place in a chapter's page where a claim is first judged."""
    return f"recorded-{claim_id.lower()}"


def _taken(cell: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Records of a code cell with their lines, taken out of its outputs."""
    left = []
    for output in cell.get("outputs", []):
        if record := output.get("data", {}).get(CHECK_TYPE):
            yield record, output["data"]["text/html"]
        else:
            left.append(output)
    if cell.cell_type == "code":
        cell.outputs = left


def _with(line: str, more: str) -> str:
    """A check's line with more in what it unfolds."""
    head, end, rest = line.rpartition("</details>")
    return f"{head}{more}{end}{rest}"


def _tally(states: list[records.State]) -> str:
    """How many checks came out how: "1 of 3 checks passed, 2 failed"."""
    words = {"passed": "passed", "partly": "passed in part", "open": "open", "failed": "failed"}
    (number, word), *others = [(states.count(s), word) for s, word in words.items() if s in states]
    total = "check" if len(states) == 1 else f"of {len(states)} checks"
    return ", ".join([f"{number} {total} {word}", *(f"{n} {word}" for n, word in others)])


def _line_of(found: list[tuple[dict[str, Any], str]], place: int) -> Iterator[Any]:
    """One closed element that holds the lines of some records; its place among the cells names it."""
    if not found:
        return
    states = [records.state(record) for record, _ in found]
    lines = [line for _, line in found]
    named = [f"{records.MARKS[s]} {r['quantity']}" for s, (r, _) in zip(states, found, strict=True)]
    block = render(
        "checks.md",
        worst=max(states, key=list(records.MARKS).index),
        tally=_tally(states),
        marks=records.MARKS,
        quantities=dict.fromkeys(named),
        lines=lines,
    )
    yield nbformat.v4.new_markdown_cell(block, id=f"checks-{place}")
