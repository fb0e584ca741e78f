"""Run one chapter with its parameters and leave its executed notebook, whole or not at all."""

import ast
import logging
import math
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
import papermill
from coding_schemes.compiler import as_flags, fusion_emitters
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from papermill.clientwrap import PapermillNotebookClient
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from companion.formats import CHECK_TYPE, INJECTED, name_cells
from companion.pipeline import manifest
from companion.pipeline.progress import Progress
from companion.pipeline.project import BUILD, MANIFEST, BuildError, Chapter, Project

THREADS_PER_CHAPTER = 2  # fixed, whatever the machine: sums over threads must not depend on it

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_IGNORED_WARNINGS = (
    "IProgress not found",  # tqdm would rather have a widget
    "Error reading persistent compilation cache entry",  # cut short by a kill; it is compiled again
    "Error writing persistent compilation cache entry",  # a full disk; it will be compiled again
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def parse_parameters(source: Path, given: dict[str, str]) -> dict[str, Any]:
    """Values by name of parameters given as text; refuses what the chapter's parameters cell does not take.

    Raises:
        BuildError: If a name is not in the parameters cell, or a value has not the type of its default
            or annotation.
    """
    allowed = _parameters(jupytext.read(source), source)
    chapter = source.parent.name if source.name == "chapter.py" else source.stem
    values = {}
    for name, text in given.items():
        if name not in allowed:
            raise BuildError(
                f"{name} is not a parameter of the chapter {chapter}; allowed are {', '.join(allowed)}"
            )
        default, annotation = allowed[name]
        kinds = _kinds(default, annotation)
        value = _read(text, kinds)
        if kinds is not None and not _fits(value, kinds):
            expected = " or ".join(sorted(kinds))
            raise BuildError(f"{name} of the chapter {chapter} must be {expected}; got {text!r}")
        if not all(map(math.isfinite, (v for v in _each(value) if isinstance(v, float)))):
            raise BuildError(f"{name} of the chapter {chapter} must be finite; got {text!r}")
        values[name] = list(value) if isinstance(value, tuple) else value
    return values


class Engine(papermill.engines.Engine):
    """Papermill's engine for chapters: an environment of its own, a kernel on files, progress by cell."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: papermill.engines.NotebookExecutionManager,
        kernel_name: str,
        *,
        folder: Path,
        environment: dict[str, str],
        progress: Progress,
        numbers: dict[str, int],
        **_: Any,
    ) -> None:
        """Run all cells of `nb_man.nb` with `folder` as the working directory; called by papermill."""
        # On ports, two kernels may pick the same one
        with tempfile.TemporaryDirectory(prefix="book-") as sockets:
            PapermillNotebookClient(
                nb_man,
                timeout=None,
                kernel_name=kernel_name,
                record_timing=False,
                coalesce_streams=True,
                config=Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"}),
                resources={"metadata": {"path": str(folder)}},
                on_cell_execute=lambda cell, cell_index: progress.cell(
                    numbers.get(cell["id"], progress.current)
                ),
                on_cell_executed=lambda cell, cell_index, execute_reply: progress.cell_done(),
            ).execute(env=environment)


papermill.engines.papermill_engines.register("chapters", Engine)
logging.getLogger("papermill").setLevel(
    logging.ERROR
)  # it warns of parameters whose annotation it cannot read


def run(project: Project, chapter: Chapter, parameters: dict[str, Any], progress: Progress) -> None:
    """Run a chapter in a fresh kernel and move its results into place when all of it has succeeded.

    Raises:
        BuildError: If a cell fails; names the chapter and the cell and gives the error.
    """
    notebook = prepare(chapter, parameters)
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    chapter.folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{chapter.folder.name}-", dir=chapter.folder.parent))
    (partial / "artifacts").mkdir()
    progress.begin([cell.source for cell in code_cells])
    try:
        executed = papermill.execute_notebook(
            notebook,
            None,  # written below, once it is normalized
            parameters,
            engine_name="chapters",
            progress_bar=False,
            folder=project.root / "notebooks",
            environment=_environment(project, chapter, partial / "artifacts"),
            progress=progress,
            numbers={cell["id"]: index for index, cell in enumerate(code_cells)},
        )
        if any(o.output_type == "error" for cell in executed.cells for o in cell.get("outputs", [])):
            # papermill takes sys.exit() for an end like any other
            raise PapermillExecutionError(0, 0, "", "SystemExit", "a chapter runs to its last cell", [])
        normalize(executed, chapter.name, project.root)
        _stamp(executed)
        nbformat.write(executed, partial / chapter.notebook.name)
        manifest.seal(partial / MANIFEST, partial, chapter.made_from)
        shutil.rmtree(chapter.folder, ignore_errors=True)
        os.replace(partial, chapter.folder)
    except (PapermillExecutionError, RuntimeError) as error:  # the second: the kernel died or did not start
        raise BuildError(_failure(chapter, code_cells, progress.current, error)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    progress.end()


def prepare(chapter: Chapter, parameters: dict[str, Any]) -> nbformat.NotebookNode:
    """The chapter as a notebook, ready for papermill to put the parameters in and run it."""
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
    return notebook


def normalize(notebook: nbformat.NotebookNode, name: str, root: Path) -> None:
    """Take out what differs from run to run or place to place: times, addresses, identifiers, the root."""
    seen: dict[str, str] = {}

    def fixed(match: re.Match[str]) -> str:
        place = f"{name}-{len(seen)}"
        return seen.setdefault(match[0], str(uuid.uuid5(uuid.NAMESPACE_OID, place)))

    def clean(text: str) -> str:
        return _UUID.sub(fixed, _ADDRESS.sub("", text.replace(f"{root}/", "")))

    notebook.metadata.pop("papermill")
    name_cells(notebook.cells)
    for cell in notebook.cells:
        del cell.metadata["papermill"]
        if INJECTED in _tags(cell):
            cell.metadata["tags"].append("remove-cell")
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = clean(output.text)
            for mime_type, content in output.get("data", {}).items():
                if mime_type.startswith("text/") and isinstance(content, str):
                    output.data[mime_type] = clean(content)


def _stamp(notebook: nbformat.NotebookNode) -> None:
    """Write preset and seed of the run into the records of its findings."""
    values = {
        name: ast.literal_eval(default) if default is not None else None
        for cell in notebook.cells
        if {"parameters", INJECTED} & set(_tags(cell))
        for name, (default, _) in _assigned(cell.source).items()
        if name in ("preset", "seed")
    }
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if record := output.get("data", {}).get(CHECK_TYPE):
                record.update(values)


def _tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def _parameters(
    notebook: nbformat.NotebookNode, source: Path
) -> dict[str, tuple[ast.expr | None, ast.expr | None]]:
    """Default and annotation of each name that the parameters cell sets."""
    cells = [cell for cell in notebook.cells if "parameters" in _tags(cell)]
    if len(cells) != 1:
        raise BuildError(f"{source} must have one cell tagged parameters; it has {len(cells)}")
    return _assigned(cells[0].source)


def _assigned(source: str) -> dict[str, tuple[ast.expr | None, ast.expr | None]]:
    """Default and annotation of each name that a cell sets."""
    found: dict[str, tuple[ast.expr | None, ast.expr | None]] = {}
    for node in ast.parse(source).body:
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


def _each(value: Any) -> list[Any]:
    """A value, or the values that it holds."""
    return [one for part in value for one in _each(part)] if isinstance(value, list | tuple) else [value]


def _fits(value: Any, kinds: set[str]) -> bool:
    name = "tuple" if isinstance(value, list) else type(value).__name__
    return name.replace("NoneType", "None") in kinds or (name == "int" and "float" in kinds)


def _environment(project: Project, chapter: Chapter, artifacts: Path) -> dict[str, str]:
    """The environment a chapter runs in: the same for everyone, whatever the user's own settings are."""
    build = project.root / BUILD
    threads = str(THREADS_PER_CHAPTER)
    # At quick sizes a chapter mostly compiles, and these halve it; at paper sizes the code would be too slow.
    faster = as_flags(fusion_emitters(False)) + " --xla_backend_optimization_level=1"
    fast_compilation = faster if project.preset == "quick" else ""
    return os.environ | {
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + fast_compilation,
        "PYTHONPATH": project.python_path,
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONWARNINGS": ",".join(f"ignore:{message}" for message in _IGNORED_WARNINGS),
        "IPYTHONDIR": str(build / "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": str(build / "matplotlib"),
        "SOURCE_DATE_EPOCH": "0",  # no date in a saved figure
        "TQDM_DISABLE": "1",  # its times differ from run to run
        "NPROC": threads,  # size of XLA's thread pool on a CPU
        "OMP_NUM_THREADS": threads,
        # One: its threads would spin for one another at every small product and keep XLA's from the cores
        "OPENBLAS_NUM_THREADS": "1",
        # Programs compiled before are read back, whatever seed they were compiled for
        "JAX_COMPILATION_CACHE_DIR": str(build / "jax-cache" / chapter.name),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # chapters may share a GPU
        "CODING_SCHEMES_CHAPTER": chapter.name,
        "CODING_SCHEMES_ARTIFACTS": str(artifacts),
    }


def _failure(
    chapter: Chapter, code_cells: list[nbformat.NotebookNode], current: int, error: Exception
) -> str:
    source = code_cells[current].source if current >= 0 else ""
    line = chapter.row(source)
    if isinstance(error, PapermillExecutionError):
        reason, detail = f"{error.ename}: {error.evalue}", "\n".join(error.traceback)
    else:
        reason, detail = f"the kernel did not start, or was killed (out of memory?): {error}", source
    place = f"cell {current + 1} of {len(code_cells)}" + (f" (line {line})" if line else "")
    file = chapter.source.relative_to(chapter.source.parents[chapter.source.name == "chapter.py"])
    text = f"{chapter.name}: {place} of {file} failed: {reason}\n\n{detail}"
    return _ANSI.sub("", text).rstrip()
