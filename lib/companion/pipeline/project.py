"""What the book is made of: its chapters, what each depends on, and where results lie.

Every result lies in a place named by a digest of everything it was made from, so that content alone
decides what is run again: touching a file changes nothing, undoing an edit finds the old result.
"""

import ast
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from companion.pipeline import manifest
from companion.presets import PRESETS

BUILD = "_build"
BUILDERS = ("jupyter-book", "sphinx")
MANIFEST = "manifest.json"
DIGITS = 12  # of a digest in a folder's name
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
        made_from: Digest or value of all it is made from, by name; of the source that of its code alone.
        folder: Where its results lie, named by the digest of all that.
    """

    name: str
    source: Path
    dependencies: tuple[Path, ...]
    made_from: dict[str, str]
    folder: Path

    @property
    def notebook(self) -> Path:
        """The executed notebook; it appears last, so where it exists the rest does too."""
        return self.folder / f"{self.name}.ipynb"

    @property
    def artifacts(self) -> Path:
        """The arrays and drawing codes that the chapter published."""
        return self.folder / "artifacts"

    @property
    def manifest(self) -> Path:
        """What the results were made from, and the digest of each file."""
        return self.folder / MANIFEST

    @property
    def any_manifest(self) -> str:
        """Pattern of the manifests of this chapter's results, whatever they were made from."""
        return f"{self.any_folder}/{MANIFEST}"

    @property
    def any_folder(self) -> str:
        """Pattern of the folders of these results."""
        return f"{self.name}-{'[0-9a-f]' * DIGITS}"

    def row(self, cell: str) -> int | None:
        """Line of the source where a cell begins; None where it is not there."""
        before, found, _ = f"\n{self.source.read_text(encoding='utf-8')}\n".partition(f"\n{cell}\n")
        return before.count("\n") + 1 if cell and found else None

    @property
    def finished(self) -> bool:
        """Whether the results are there, whole."""
        return not manifest.damage(self.manifest, self.folder)

    @property
    def damaged(self) -> list[str]:
        """Files of the results that are missing or altered; none where there are no results at all."""
        some = self.folder.is_dir() and any(self.folder.iterdir())
        return manifest.damage(self.manifest, self.folder) if some else []


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
        object.__setattr__(self, "root", self.root.absolute())  # digests name files by their place in it
        if self.preset not in PRESETS:
            raise BuildError(f"PRESET must be one of {', '.join(PRESETS)}; got {self.preset!r}")

    @property
    def build(self) -> Path:
        """Folder of everything built at this preset."""
        return self.root / BUILD / self.preset

    @property
    def config(self) -> dict[str, Any]:
        """The book's configuration, ``_config.yml``."""
        return self.told("_config.yml") or {}

    def told(self, name: str, otherwise: Any = None) -> Any:
        """What a YAML file of the repository says; `otherwise`, if given, where there is no such file."""
        path = self.root / name
        if otherwise is not None and not path.is_file():
            return otherwise
        return yaml.safe_load(path.read_text(encoding="utf-8"))

    @property
    def version(self) -> str:
        """The library's version, from ``pyproject.toml``; "" where it gives none."""
        about = self.root / "pyproject.toml"
        built = tomllib.loads(about.read_text(encoding="utf-8"))["project"] if about.is_file() else {}
        return built.get("version", "")

    @functools.cached_property
    def repository(self) -> str | None:
        """Address of the repository's page: from ``_config.yml``, else CI's environment, else the git remote.

        None where none of them gives one.

        Raises:
            BuildError: If ``_config.yml`` gives something that is no address.
        """
        if given := (self.config.get("repository") or {}).get("url"):
            if address := web_address(given):
                return address
            raise BuildError(
                f"_config.yml: repository: url must be like https://host/owner/name; got {given!r}"
            )
        server, place = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
        if server and place:
            return web_address(f"{server}/{place}")
        if not (self.root / ".git").exists():  # a folder inside of somebody's repository
            return None
        return web_address(self._git("remote", "get-url", "origin"))

    @property
    def builder(self) -> str:
        """What makes the pages: the environment's ``BUILDER``, by default Jupyter Book."""
        given = os.environ.get("BUILDER") or BUILDERS[0]
        if given not in BUILDERS:
            raise BuildError(f"BUILDER must be one of {', '.join(BUILDERS)}; got {given!r}")
        return given

    @property
    def pages_address(self) -> str | None:
        """Where the book is published: ``html: baseurl`` of ``_config.yml``, else GitHub's place for it."""
        if given := (self.config.get("html") or {}).get("baseurl"):
            return given.rstrip("/")
        address = urllib.parse.urlsplit(self.repository or "")
        owner, _, name = address.path.strip("/").partition("/")
        return f"https://{owner.lower()}.github.io/{name}" if address.hostname == "github.com" else None

    @functools.cached_property
    def commit(self) -> str:
        """Short name of the present commit, with "-dirty" where sources differ from it; "" without git."""
        return self._git("describe", "--always", "--dirty", "--exclude=*")

    @functools.cached_property
    def commit_date(self) -> str:
        """Day of the present commit, so that the same sources give the same pages; "" without git."""
        return self._git("show", "--no-patch", "--format=%cs", "HEAD")

    def _git(self, *arguments: str) -> str:
        found = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True)
        return "" if found.returncode else found.stdout.strip()

    @property
    def html(self) -> Path:
        """Folder of the built pages."""
        return self.build / "html"

    @property
    def python_path(self) -> str:
        """Where its programs find the library, the chapters' own modules, and what builds the book."""
        return os.pathsep.join(dict.fromkeys(map(str, (*self._places, _PIPELINE.parents[1]))))

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the chapters present, sorted."""
        folders = (path.parent.name for path in (self.root / "notebooks").glob("*/chapter.py"))
        return sorted({*folders, *(path.stem for path in (self.root / "notebooks").glob("*.py"))})

    @functools.cached_property
    def chapters(self) -> list[Chapter]:
        """Every chapter at this preset, with its default parameters."""
        return [self.chapter(name, {"preset": self.preset}, self.build / "chapters") for name in self.names]

    def source(self, name: str) -> Path:
        """A chapter's py:percent file: ``notebooks/name/chapter.py``, or ``notebooks/name.py`` alone."""
        if name not in self.names:
            raise BuildError(f"NAME must be one of the chapters {', '.join(self.names)}; got {name!r}")
        folder = self.root / "notebooks" / name
        return folder / "chapter.py" if folder.is_dir() else folder.with_suffix(".py")

    def chapter(self, name: str, parameters: dict[str, Any], parent: Path) -> Chapter:
        """One chapter run with given parameters; its results lie in a folder of `parent`."""
        source = self.source(name)
        imported = self.imported(source)
        values = {f"parameter {key}": repr(value) for key, value in sorted(parameters.items())}
        made_from = {self._relative(source): _code(source)}  # the pages have its text as it is now
        made_from |= self._ingredients([*imported, _PIPELINE / "execution.py"]) | values
        return Chapter(name, source, (source, *imported), made_from, parent / f"{name}-{_digest(made_from)}")

    @functools.cached_property
    def pages_made_from(self) -> dict[str, str]:
        """Digest of everything the pages are made from, by name."""
        written = [*(self.root / "book").rglob("*"), *(self.root / "benchmarks/results").rglob("*")]
        prose = [path for path in written if path.is_file()]
        config = [self.root / name for name in ("_config.yml", "_toc.yml", "codecheck.yml", "CITATION.cff")]
        library = (self.root / "lib").rglob("*.py")
        kinds = {".py", ".html", ".md", ".txt", ".json"}
        pipeline = [path for path in _PIPELINE.rglob("*.*") if path.suffix in kinds]
        notebooks = {f"chapter {chapter.name}": chapter.folder.name for chapter in self.chapters}
        notebooks |= {"address of the repository": self.repository} if self.repository else {}
        notebooks |= {"builder": self.builder} if self.builder != BUILDERS[0] else {}
        text = [chapter.source for chapter in self.chapters]
        return self._ingredients(sorted({*prose, *text, *config, *library, *pipeline})) | notebooks

    @property
    def pages_stamp(self) -> Path:
        """Exists when the pages in `html` are made from exactly the present sources."""
        return self.build / f"html-{_digest(self.pages_made_from)}.json"

    def discard_damaged(self) -> list[str]:
        """Delete results that are not what they were when finished, to be made anew; says what was found."""
        found = []
        for chapter in self.chapters:
            if lost := chapter.damaged:
                shutil.rmtree(chapter.folder)
                found.append(f"{chapter.name}: {few(lost)} damaged; it is run again")
            elif self.pages_stamp.exists() and not chapter.finished:
                found.append(f"{chapter.name}: its results are gone; it is run again")
        if self.pages_stamp.exists():
            lost = manifest.damage(self.pages_stamp, self.html)
            if lost or found:
                self.pages_stamp.unlink()
            if lost:
                found.append(f"pages: {few(lost)} missing or damaged; they are built again")
        return found

    def plan(self) -> dict[str, str]:
        """What a build would make again, and why: a reason by name, empty where nothing is to be done."""
        reasons = {}
        for chapter in self.chapters:
            lost = chapter.damaged
            reasons[chapter.name] = f"{few(lost)} damaged" if lost else ""
            if not lost and not chapter.finished:
                earlier = chapter.folder.parent.glob(chapter.any_manifest)
                reasons[chapter.name] = why(earlier, chapter.made_from)
        if not self.pages_stamp.exists():
            reasons["pages"] = why(self.build.glob("html-*.json"), self.pages_made_from)
        else:
            lost = manifest.damage(self.pages_stamp, self.html)
            again = "a chapter is run again" if any(reasons.values()) else ""
            reasons["pages"] = f"{few(lost)} missing or damaged" if lost else again
        return reasons

    def _ingredients(self, files: Iterable[Path]) -> dict[str, str]:
        """Digests of files, of the lock, and the Python version, by name."""
        found = {"Python": f"{sys.version_info[:2]} {platform.system()} {platform.machine()}"}
        for path in (*files, self.root / "requirements.lock"):
            found[self._relative(path)] = self._content(path)
        return found

    def imported(self, source: Path) -> list[Path]:
        """Files of library and chapters that a Python file imports, directly or not, and their data."""
        found: set[Path] = set()
        waiting = [source]
        while waiting:
            new = self._imported(waiting.pop()) - found
            found |= new
            waiting += new
        modules = {source, *found}
        found = {path for path in found if self._has_code(path)}
        texts = "\n".join(path.read_text("utf-8") for path in modules)
        for folder in {path.parent for path in modules} - {*self._places}:
            # style sheets, sizes and other files that a module reads
            found.update(path for path in _beside(folder) if path.name in texts)
        data = self.root / "data"
        if any(path.name == "data.py" for path in modules):
            found.update(_beside(data))
        if re.search(r"\bdata/results\b|[\"']results[\"']", texts):
            found.update(_beside(data / "results"))
        return sorted(found)

    @property
    def _places(self) -> tuple[Path, Path]:
        """Where modules that chapters import lie: the library's, and the chapters' own."""
        return self.root / "lib", self.root / "notebooks"

    def _place(self, path: Path) -> Path:
        return next(place for place in self._places if path.is_relative_to(place))

    def _imports(self, path: Path) -> set[Path]:
        names: set[str] = set()
        bound: dict[str, str] = {}  # what a name in the file stands for
        nodes = list(ast.walk(_parse(path)))
        for node in nodes:
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
                bound |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    package = path.relative_to(self._place(path)).parts[: -node.level]
                    base = ".".join((*package, base) if base else package)
                names.update({base, *(f"{base}.{alias.name}" for alias in node.names)})
                bound |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
        for node in nodes:  # theory.solve: a package may import on first use, from a module of its own
            match node:
                case ast.Attribute(ast.Name(name), attribute) if name in bound:
                    names.add(f"{bound[name]}.{attribute}")
        found: set[Path] = set()
        for name in names:
            parts = name.split(".")
            for depth in range(1, len(parts) + 1):  # importing a.b runs a/__init__.py first
                for root in self._places if depth > 1 else self._places[:1]:  # no chapter is a module itself
                    place = root.joinpath(*parts[:depth])
                    own, hidden = place.with_suffix(".py"), place.with_name(f"_{place.name}.py")
                    found.update(p for p in (own, hidden, place / "__init__.py") if p.is_file())
        return found

    @functools.cached_property
    def _imported(self) -> Callable[[Path], set[Path]]:
        return functools.cache(self._imports)  # several chapters share most modules

    @functools.cached_property
    def _has_code(self) -> Callable[[Path], bool]:
        return functools.cache(_has_code)

    @functools.cached_property
    def _content(self) -> Callable[[Path], str]:
        return functools.cache(manifest.digest)

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else path.name


def _has_code(module: Path) -> bool:
    """Whether a module is more than a docstring, which many an ``__init__.py`` is not."""
    return not all(isinstance(node, ast.Expr) for node in _parse(module).body)


def _beside(folder: Path) -> Iterator[Path]:
    """Files of a folder that are neither code nor prose."""
    for path in folder.glob("*"):
        if path.is_file() and path.suffix not in {".py", ".pyc", ".md"}:
            yield path


def web_address(remote: str) -> str | None:
    """Address at which a browser finds a git remote, without credentials; None for a folder of this machine.

    >>> web_address("git@host.org:owner/name.git"), web_address("../name")
    ('https://host.org/owner/name', None)
    """
    if scp := re.fullmatch(r"(?:[^@/:]+@)?([^@/:]{2,}):(?!//)(.+)", remote):  # as in git@host:owner/name
        remote = f"ssh://{scp[1]}/{scp[2]}"
    parts = urllib.parse.urlsplit(remote)
    place = parts.path.strip("/").removesuffix(".git")
    if parts.scheme not in {"https", "http", "ssh", "git", "git+ssh"} or not parts.hostname or not place:
        return None
    port = f":{parts.port}" if parts.port and parts.scheme.startswith("http") else ""
    scheme = parts.scheme if parts.scheme.startswith("http") else "https"
    return f"{scheme}://{parts.hostname}{port}/{place}"


def _digest(made_from: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:DIGITS]


def why(earlier: Iterable[Path], now: dict[str, str]) -> str:
    """What changed since the latest of the results made before."""
    latest = max(earlier, key=lambda path: path.stat().st_mtime, default=None)
    if latest is None:
        return "nothing made yet"
    return few(manifest.changes(manifest.made_from(latest), now), 5) or "its result is gone"


def few(names: list[str], shown: int = 3) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _code(source: Path) -> str:
    """Digest of a chapter's code cells, in their order, with their tags."""
    cells = re.split(r"^(?=# %%)", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    code = [cell.strip() for cell in cells if not cell.startswith("# %% [markdown]")]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        raise BuildError(f"{path}, line {error.lineno}: {error.msg}") from error
