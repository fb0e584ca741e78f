"""What the book is made of: its chapters, what each depends on, and where results lie.

Every result lies in a place named by a digest of everything it was made from, so that content alone
decides what is run again: touching a file changes nothing, undoing an edit finds the old result.
"""

import ast
import functools
import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from companion.presets import PRESETS

BUILD = "_build"
_PIPELINE = Path(__file__).parent


class BuildError(Exception):
    """A failure that the reader can act on; its text is all that is shown."""


@dataclass(frozen=True)
class Chapter:
    """One chapter's source and the place of its executed notebook.

    Attributes:
        name: File name without its ending.
        source: The py:percent file.
        dependencies: The modules and data files it uses, itself included.
        folder: Where its results lie, named by the digest of all it is made from.
    """

    name: str
    source: Path
    dependencies: tuple[Path, ...]
    folder: Path

    @property
    def notebook(self) -> Path:
        """The executed notebook; it appears last, so where it exists the rest does too."""
        return self.folder / f"{self.name}.ipynb"

    @property
    def artifacts(self) -> Path:
        """The arrays and drawing codes that the chapter published."""
        return self.folder / "artifacts"


@dataclass(frozen=True)
class Project:
    """The book's repository at one preset.

    Attributes:
        root: The repository's root.
        preset: Problem sizes of every chapter.
    """

    root: Path
    preset: str = "quick"

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise BuildError(f"PRESET must be one of {', '.join(PRESETS)}; got {self.preset!r}")

    @property
    def build(self) -> Path:
        """Folder of everything built at this preset."""
        return self.root / BUILD / self.preset

    @property
    def html(self) -> Path:
        """Folder of the built pages."""
        return self.build / "html"

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the chapters present, sorted."""
        return sorted(path.stem for path in (self.root / "notebooks").glob("*.py"))

    @functools.cached_property
    def chapters(self) -> list[Chapter]:
        """Every chapter at this preset, with its default parameters."""
        return [self.chapter(name, {"preset": self.preset}, self.build / "chapters") for name in self.names]

    def source(self, name: str) -> Path:
        """A chapter's py:percent file."""
        if name not in self.names:
            raise BuildError(f"NAME must be one of the chapters {', '.join(self.names)}; got {name!r}")
        return self.root / "notebooks" / f"{name}.py"

    def chapter(self, name: str, parameters: dict[str, Any], parent: Path) -> Chapter:
        """One chapter run with given parameters; its results lie in a folder of `parent`."""
        source = self.source(name)
        dependencies = (source, *self.imported(source))
        digest = self.digest(
            dependencies, json.dumps(parameters, sort_keys=True), (_PIPELINE / "execution.py").read_text()
        )
        return Chapter(name, source, dependencies, parent / f"{name}-{digest}")

    @functools.cached_property
    def pages_digest(self) -> str:
        """Digest of everything the pages are made from."""
        written = [*(self.root / "book").rglob("*"), *(self.root / "benchmarks/results").rglob("*")]
        prose = [path for path in written if path.is_file()]
        config = [self.root / "_config.yml", self.root / "_toc.yml"]
        library = (self.root / "lib").rglob("*.py")
        notebooks = "".join(chapter.folder.name for chapter in self.chapters)
        return self.digest(sorted({*prose, *config, *library, *_PIPELINE.glob("*.py")}), notebooks)

    @property
    def pages_stamp(self) -> Path:
        """Exists when the pages in `html` are made from exactly the present sources."""
        return self.build / f"html-{self.pages_digest}.done"

    def digest(self, files: Iterable[Path], *texts: str) -> str:
        """Digest of files (names and contents), texts, the lock and the Python version."""
        state = hashlib.sha256()
        interpreter = f"{sys.version_info[:2]} {platform.system()} {platform.machine()}"
        for text in (interpreter, *texts):
            state.update(text.encode() + b"\0")
        for path in (*files, self.root / "requirements.lock"):
            state.update(f"{self._relative(path)}\0{self._content(path)}\0".encode())
        return state.hexdigest()[:12]

    def imported(self, source: Path) -> list[Path]:
        """Library files that a Python file imports, directly or not, and the data they read."""
        found: set[Path] = set()
        waiting = [source]
        while waiting:
            for path in self._imports(waiting.pop()) - found:
                found.add(path)
                waiting.append(path)
        packages = {self.root / "lib" / path.relative_to(self.root / "lib").parts[0] for path in found}
        for package in packages:  # style sheets and other files that a module reads
            found.update(p for p in package.rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"})
            if package / "data.py" in found:
                found.update(path for path in (self.root / "data").rglob("*") if path.is_file())
        return sorted(found)

    def _imports(self, path: Path) -> set[Path]:
        lib = self.root / "lib"
        names: set[str] = set()
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    package = path.relative_to(lib).parts[: -node.level]
                    base = ".".join((*package, base) if base else package)
                names.update({base, *(f"{base}.{alias.name}" for alias in node.names)})
        found: set[Path] = set()
        for name in names:
            parts = name.split(".")
            for depth in range(1, len(parts) + 1):  # importing a.b runs a/__init__.py first
                place = lib.joinpath(*parts[:depth])
                found.update(p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file())
        return found

    @functools.cached_property
    def _contents(self) -> dict[Path, str]:
        return {}

    def _content(self, path: Path) -> str:
        if path not in self._contents:
            self._contents[path] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        return self._contents[path]

    def _relative(self, path: Path) -> Path:
        return path.relative_to(self.root) if path.is_relative_to(self.root) else Path(path.name)


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        raise BuildError(f"{path}, line {error.lineno}: {error.msg}") from error
