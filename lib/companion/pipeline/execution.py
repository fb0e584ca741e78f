"""Run one chapter with its parameters and leave its executed notebook, whole or not at all."""

import ast
import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # this environment's kernel before any other of the user's

import jupytext
import nbformat
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from papermill.parameterize import parameterize_notebook
from traitlets.config import Config

from companion.pipeline.progress import Progress
from companion.pipeline.project import BUILD, BuildError, Chapter, Project

THREADS_PER_CHAPTER = 2  # fixed, whatever the machine: sums over threads must not depend on it

_INJECTED = "injected-parameters"  # papermill's tag of the cell it adds
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_LIB = Path(__file__).parents[2]
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def parse_parameters(source: Path, given: dict[str, str]) -> dict[str, Any]:
    """Read parameter values given as text, and refuse what the chapter's parameters cell does not take.

    Args:
        source: The chapter.
        given: Text of each value by name, as typed on a command line.

    Returns:
        The values by name.

    Raises:
        BuildError: If a name is not in the parameters cell, or a value has not the type of its default
            or annotation.
    """
    allowed = _parameters(jupytext.read(source), source)
    values = {}
    for name, text in given.items():
        if name not in allowed:
            raise BuildError(
                f"{name} is not a parameter of the chapter {source.stem}; allowed are {', '.join(allowed)}"
            )
        default, annotation = allowed[name]
        kinds = _kinds(default, annotation)
        value = _read(text, kinds)
        if kinds is not None and not _fits(value, kinds):
            expected = " or ".join(sorted(kinds))
            raise BuildError(f"{name} of the chapter {source.stem} must be {expected}; got {text!r}")
        values[name] = list(value) if isinstance(value, tuple) else value
    return values


def run(project: Project, chapter: Chapter, parameters: dict[str, Any], progress: Progress) -> None:
    """Run a chapter in a fresh kernel and move its results into place when all of it has succeeded.

    Raises:
        BuildError: If a cell fails; names the chapter and the cell and gives the error.
    """
    notebook = prepare(chapter, parameters)
    code_cells = [
        cell for cell in notebook.cells if cell.cell_type == "code" and _INJECTED not in _tags(cell)
    ]
    number = {cell["id"]: index for index, cell in enumerate(code_cells)}
    chapter.folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{chapter.folder.name}-", dir=chapter.folder.parent))
    (partial / "artifacts").mkdir()
    progress.begin([cell.source for cell in code_cells])
    sockets = tempfile.TemporaryDirectory(prefix="book-")  # on ports, two kernels may pick the same one
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name=NATIVE_KERNEL_NAME,
        record_timing=False,
        coalesce_streams=True,
        config=Config(KernelManager={"transport": "ipc", "ip": f"{sockets.name}/kernel"}),
        resources={"metadata": {"path": str(chapter.source.parent)}},
        on_cell_execute=lambda cell, cell_index: progress.cell(number.get(cell["id"], progress.current)),
        on_cell_executed=lambda cell, cell_index, execute_reply: progress.cell_done(),
    )
    try:
        with sockets:
            client.execute(env=_environment(project, chapter, partial / "artifacts"))
        normalise(notebook, chapter.name, project.root)
        nbformat.write(notebook, partial / chapter.notebook.name)
        shutil.rmtree(chapter.folder, ignore_errors=True)
        os.replace(partial, chapter.folder)
    except (CellExecutionError, RuntimeError) as error:  # the second: the kernel died or did not start
        raise BuildError(_failure(chapter, code_cells, progress.current, error)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    progress.end()


def prepare(chapter: Chapter, parameters: dict[str, Any]) -> nbformat.NotebookNode:
    """The chapter as a notebook, its parameters put in, ready to run."""
    notebook = jupytext.read(chapter.source)
    unknown = sorted(set(parameters) - set(_parameters(notebook, chapter.source)))
    if unknown:
        raise BuildError(f"the parameters cell of {chapter.source} does not set {', '.join(unknown)}")
    notebook.metadata["kernelspec"] = {
        "name": NATIVE_KERNEL_NAME,
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.metadata.pop("jupytext", None)
    notebook.metadata["papermill"] = {}
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])  # papermill looks for them
    notebook = parameterize_notebook(notebook, parameters)
    del notebook.metadata["papermill"]
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:03d}"
        if _INJECTED in _tags(cell):
            cell.metadata["tags"].append("remove-cell")
    return notebook


def normalise(notebook: nbformat.NotebookNode, name: str, root: Path) -> None:
    """Take out what differs from run to run or place to place: addresses, random identifiers, the root."""
    seen: dict[str, str] = {}

    def fixed(match: re.Match[str]) -> str:
        place = f"{name}-{len(seen)}"
        return seen.setdefault(match[0], str(uuid.uuid5(uuid.NAMESPACE_OID, place)))

    def clean(text: str) -> str:
        return _UUID.sub(fixed, _ADDRESS.sub("", text.replace(f"{root}/", "")))

    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = clean(output.text)
            for mime_type, content in output.get("data", {}).items():
                if mime_type.startswith("text/") and isinstance(content, str):
                    output.data[mime_type] = clean(content)


def _tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def _parameters(
    notebook: nbformat.NotebookNode, source: Path
) -> dict[str, tuple[ast.expr | None, ast.expr | None]]:
    """Default and annotation of each name that the parameters cell sets."""
    cells = [cell for cell in notebook.cells if "parameters" in _tags(cell)]
    if len(cells) != 1:
        raise BuildError(f"{source} must have one cell tagged parameters; it has {len(cells)}")
    found: dict[str, tuple[ast.expr | None, ast.expr | None]] = {}
    for node in ast.parse(cells[0].source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = (node.value, node.annotation)
        elif isinstance(node, ast.Assign):
            found.update({t.id: (node.value, None) for t in node.targets if isinstance(t, ast.Name)})
    return found


def _kinds(default: ast.expr | None, annotation: ast.expr | None) -> set[str] | None:
    """Names of the types a parameter takes; None where nothing says which."""
    if annotation is not None:
        names = {part.strip().partition("[")[0] for part in ast.unparse(annotation).split("|")}
        return {"tuple" if name == "list" else name for name in names}
    value = None if default is None else ast.literal_eval(default)
    return None if value is None else {"tuple" if isinstance(value, list) else type(value).__name__}


def _read(text: str, kinds: set[str] | None) -> Any:
    if kinds == {"str"}:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _fits(value: Any, kinds: set[str]) -> bool:
    name = "tuple" if isinstance(value, list) else type(value).__name__
    return name.replace("NoneType", "None") in kinds or (name == "int" and "float" in kinds)


def _environment(project: Project, chapter: Chapter, artifacts: Path) -> dict[str, str]:
    """The environment a chapter runs in: the same for everyone, whatever the user's own settings are."""
    build = project.root / BUILD
    threads = str(THREADS_PER_CHAPTER)
    # At quick sizes a chapter mostly compiles, and this halves it; at paper sizes the code would be too slow.
    fast_compilation = " --xla_cpu_use_fusion_emitters=false" if project.preset == "quick" else ""
    return os.environ | {
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + fast_compilation,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(project.root / "lib"), str(_LIB)))),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm would rather have a widget
        "IPYTHONDIR": str(build / "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": str(build / "matplotlib"),
        "SOURCE_DATE_EPOCH": "0",  # no date in a saved figure
        "TQDM_DISABLE": "1",  # its times differ from run to run
        "NPROC": threads,  # size of XLA's thread pool on a CPU
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # chapters may share a GPU
        "CODING_SCHEMES_CHAPTER": chapter.name,
        "CODING_SCHEMES_ARTIFACTS": str(artifacts),
    }


def _failure(
    chapter: Chapter, code_cells: list[nbformat.NotebookNode], current: int, error: Exception
) -> str:
    source = code_cells[current].source if current >= 0 else ""
    first = next((line for line in source.splitlines() if line.strip()), "")
    lines = chapter.source.read_text(encoding="utf-8").splitlines()
    line = next((number for number, text in enumerate(lines, 1) if text == first), None)
    if isinstance(error, CellExecutionError):
        reason = f"{error.ename}: {error.evalue}"
        outputs = code_cells[current].outputs
        detail = "\n".join(line for o in outputs if o.output_type == "error" for line in o.traceback)
    else:
        reason = f"the kernel did not start, or was killed (out of memory?): {error}"
        detail = source
    place = f"cell {current + 1} of {len(code_cells)}" + (f" (line {line})" if line else "")
    text = f"{chapter.name}: {place} of {chapter.source.name} failed: {reason}\n\n{detail}"
    return _ANSI.sub("", text).rstrip()
