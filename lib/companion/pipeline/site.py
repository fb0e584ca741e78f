"""Assemble executed chapters and prose into one tree, and build the pages from it."""

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.parse
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import yaml
from PIL import Image

from companion.formats import FIGURE_TYPE
from companion.pipeline import front, hovers, manifest, scoreboard, sections
from companion.pipeline.project import BuildError, Project

_NUMPY_SCALAR = re.compile(r"^np\.(?:float|int)\d+\((.*)\)$")
_ICON = re.compile(
    r'(?:"(?P<quoted>[\w-]+)"|\b(?P<bare>\w+)):'  # its name
    r'\[\d+,\d+,\[(?P<aliases>[^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\["[^]]*"\])\],?'  # size, aliases, code, path
)
_CSS_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|[{};]', re.DOTALL)
_CSS_CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
_FIGURE = re.compile(r'<img [^>]*src="(?P<src>[^"]*_images/[^"]+)" style="width: (?P<width>\d+)px;"')
_SVG_SIZE = re.compile(r'<svg [^>]*\bwidth="([\d.]+)pt" height="([\d.]+)pt"')
_NAMELESS = (
    ('role="doc-biblioentry"', 'role="listitem"'),
    ('<div id="pst-primary-sidebar"', '<div id="pst-primary-sidebar" role="region" aria-label="Contents"'),
    (
        '<summary><span class="toctree-toggle"',
        '<summary aria-label="pages below"><span class="toctree-toggle"',
    ),
)
_LAUNCH_BRANCH = "launch"  # where publishing puts the chapters as notebooks, for Binder and Colab
_INSTALL = """\
# Only where the library is not installed, as on Colab: takes the repository, and what its chapters import
import importlib.util
import os
import subprocess
import sys

folder = "coding-schemes"
if importlib.util.find_spec("companion") is None or os.path.isdir(folder):
    if not os.path.isdir(folder):
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}", "{address}", folder]
        subprocess.run(clone, check=True)
    if importlib.util.find_spec("companion") is None:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--editable", folder + "[chapters]"]
        subprocess.run(install, check=True)
    os.chdir(folder + "/notebooks")
    sys.path[:0] = [os.path.abspath("../lib"), os.getcwd()]  # this Python has started already"""


def build(project: Project) -> Path:
    """Build the pages from executed chapters; the old pages stay until the new ones are whole.

    Returns:
        The page to open.

    Raises:
        BuildError: If a chapter's results are damaged, a verdict differs from the one on record, or the book
            has a warning.
    """
    for chapter in project.chapters:
        if not chapter.finished:
            raise BuildError(f"the results of {chapter.name} are missing or damaged; run make book")
    table = scoreboard.rows(project)
    scoreboard.check_verdicts(project, table)
    site = assemble(project, table)
    fresh = _sphinx(project, site)
    _name_parts(fresh)
    size_figures(fresh)
    hovers.write(fresh)
    prune_icons(fresh)
    shrink_pictures(fresh)
    prune_styles(fresh)
    _add_downloads(project, fresh)
    scoreboard.export(project, table, fresh / "scoreboard.json")
    (fresh / "codecheck.yml").write_text(
        yaml.safe_dump(front.codecheck(project), sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    for stamp in project.build.glob("html-*.json"):  # first, so that a death from here on is noticed
        stamp.unlink()
    shutil.rmtree(project.html, ignore_errors=True)
    fresh.rename(project.html)
    shutil.rmtree(project.build / "pages")
    _forget_old_runs(project)
    manifest.seal(project.pages_stamp, project.html, project.pages_made_from)
    return project.html / "index.html"


def assemble(project: Project, table: list[scoreboard.Row]) -> Path:
    """Lay prose, executed chapters and generated parts where the book's configuration expects them."""
    site = project.build / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(project.root / "book", site / "book")
    if (tables := project.root / "benchmarks" / "results").is_dir():
        shutil.copytree(tables, site / "benchmarks" / "results")
    shutil.copy(project.root / "_toc.yml", site / "_toc.yml")
    _write_config(project, site)
    generated = site / "book" / "_generated"
    generated.mkdir()
    at_paper = scoreboard.recorded_verdicts(Project(project.root, "paper"))
    changed: set[str] = set()
    history = site / "book" / "changed_checks.md"
    if history.is_file():
        linked, changed = scoreboard.link_history(history.read_text(encoding="utf-8"))
        history.write_text(linked, encoding="utf-8")
    page = scoreboard.page(table, project.preset, at_paper, changed)
    (generated / "scoreboard.md").write_text(page, encoding="utf-8")
    front.write(project, table, site)
    (site / "notebooks").mkdir()
    for chapter in project.chapters:
        text = chapter.notebook.read_text(encoding="utf-8")
        images = site / "notebooks" / "figures" / chapter.name
        shutil.copytree(chapter.artifacts, images, ignore=shutil.ignore_patterns("*.npz", "*.py", "*-frames"))
        notebook = _with_figures(nbformat.reads(text, as_version=4), chapter.name)
        notebook = sections.with_setup(sections.with_checks(sections.with_prompts(notebook)))
        notebook = _plain_numbers(_with_links(notebook, chapter.name, project))
        nbformat.write(notebook, site / "notebooks" / f"{chapter.name}.ipynb")
    return site


def _write_config(project: Project, site: Path) -> None:
    """The book's configuration: links to the repository, the version and commit that the pages are made from.

    The theme knows the pages of three hosts, and where to open an issue on two of them.
    """
    config = project.config
    address = project.repository or ""
    config["repository"] = {"url": address} if re.search("github|gitlab|bitbucket", address) else {}
    html = config.setdefault("html", {})
    html["use_repository_button"] = bool(config["repository"])
    html["use_issues_button"] = bool(config["repository"]) and "bitbucket" not in address
    about = project.root / "pyproject.toml"
    version = (
        tomllib.loads(about.read_text(encoding="utf-8"))["project"]["version"] if about.is_file() else ""
    )
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, cwd=project.root, capture_output=True, text=True)
    made = [f"version {version}"] if version else []
    if not found.returncode:
        commit = found.stdout.strip()
        link = f'<a href="{address}/commit/{commit.removesuffix("-dirty")}">{commit}</a>'
        made.append(f"commit {link if address else commit}")
    if made:
        note = f"Made from {', '.join(made)}."
        html["extra_footer"] = " ".join(filter(None, [html.get("extra_footer", ""), note]))
    (site / "_config.yml").write_text(
        yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )


def write_launch_tree(project: Project, target: Path) -> None:
    """Write the repository with its chapters as notebooks, for the branch that Binder and Colab open.

    Raises:
        BuildError: If the repository has no address to open it from, or a chapter has not run.
    """
    if project.repository is None:
        raise BuildError("the repository has no address, so there is nowhere to launch from")
    if waiting := [chapter.name for chapter in project.chapters if not chapter.finished]:
        raise BuildError(f"not run yet: {', '.join(waiting)}; run make book PRESET={project.preset}")
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=project.root, check=True, capture_output=True)
    target.mkdir(parents=True)
    subprocess.run(["tar", "x", "-C", str(target)], input=archive.stdout, check=True)
    for chapter in project.chapters:
        notebook = to_launch(nbformat.read(chapter.notebook, as_version=4), project.repository)
        nbformat.write(notebook, target / "notebooks" / f"{chapter.name}.ipynb")


def to_launch(notebook: Any, address: str) -> Any:
    """An executed chapter as it is opened elsewhere: outputs as they are, at preset `quick` when it is run.

    Args:
        notebook: The executed chapter.
        address: Where the repository is cloned from.
    """
    cells = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", ())]
    for cell in cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = re.sub(r'^preset = "\w+"', 'preset = "quick"', cell.source, flags=re.MULTILINE)
    source = _INSTALL.format(branch=_LAUNCH_BRANCH, address=address)
    notebook.cells = [*cells[:1], nbformat.v4.new_code_cell(source, id="install"), *cells[1:]]
    return notebook


def _with_figures(notebook: Any, chapter: str) -> Any:
    """The notebook with its published figures as the page's own: numbered, images as files beside it."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if figure := output.get("data", {}).get(FIGURE_TYPE):
                output.data = nbformat.NotebookNode({"text/markdown": _figure(figure, chapter)})
    return notebook


def _figure(figure: dict[str, Any], chapter: str) -> str:
    """A published figure in MyST; one without a caption has no number."""
    name = figure["name"]
    files = f"../downloads/{chapter}/{name}"
    links = (
        f'<p class="figure-downloads">Download: <a href="{files}.npz" download>arrays (npz)</a>, '
        f'<a href="{files}.py" download>drawing code (py)</a>'
        + (f', <a href="{files}.webp" download>film (webp)</a>' if figure.get("film") else "")
        + "</p>"
    )
    caption = " ".join(figure["caption"].split())
    if caption and figure["tail"]:
        caption += f' <span class="figure-sizes">{html.escape(figure["tail"])}</span>'
    directive = "figure" if caption else "image"
    options = {
        "alt": json.dumps(figure["description"], ensure_ascii=False),
        "width": f"{figure['width']}px",
        "loading": "lazy",
        "class" if directive == "image" else "figclass": "published-figure",
        **({"name": f"fig-{chapter}-{name}".replace("_", "-")} if caption else {}),
    }
    lines = [f":{key}: {value}" for key, value in options.items()]
    inside, outside = ([caption, "", links], []) if caption else ([], ["", links])
    fence = "`" * 12  # longer than any in a caption
    block = [
        f"{fence}{{{directive}}} figures/{chapter}/{figure['file']}",
        *lines,
        "",
        *inside,
        fence,
        *outside,
    ]
    player = [f"{fence}{{raw}} html", figure["page"], fence] if figure["page"] else []
    return "\n".join([*block, "", *player])


def _plain_numbers(notebook: Any) -> Any:
    """The notebook with NumPy's scalars as bare numbers: the page formats glued values from their text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            for kind, text in data.items():
                if kind.endswith("text/plain"):  # with a prefix where glue does not show the value
                    data[kind] = _NUMPY_SCALAR.sub(r"\1", text)
    return notebook


def _with_links(notebook: Any, name: str, project: Project) -> Any:
    """The notebook with links under its title."""
    title = notebook.cells[0] if notebook.cells else None
    if title is None or title.cell_type != "markdown" or not title.source.lstrip().startswith("# "):
        raise BuildError(f"notebooks/{name}.py must begin with a markdown cell whose first line is its title")
    heading, _, rest = title.source.lstrip().partition("\n")
    title.source = f"{heading}\n\n{_links(name, project)}\n\n{rest.lstrip()}"
    return notebook


def _links(name: str, project: Project) -> str:
    links = [f'<a href="../downloads/{name}.ipynb" download>Download the executed notebook</a>']
    address = urllib.parse.urlsplit(project.repository or "")
    if address.hostname == "github.com":  # both open what lies there
        place, path = address.path.strip("/"), f"notebooks/{name}.ipynb"
        binder = (
            f"https://mybinder.org/v2/gh/{place}/{_LAUNCH_BRANCH}?labpath={urllib.parse.quote(path, safe='')}"
        )
        colab = f"https://colab.research.google.com/github/{place}/blob/{_LAUNCH_BRANCH}/{path}"
        links += [f'<a href="{binder}">Run on Binder</a>', f'<a href="{colab}">Run on Colab</a>']
    return f'<p class="chapter-links">{" ".join(links)}</p>'


def _sphinx(project: Project, site: Path) -> Path:
    """Run Jupyter Book with warnings as errors; returns the folder of the fresh pages."""
    output = project.build / "pages"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        "build",
        str(site),
        "-W",
        "-n",
        "--keep-going",
    ]
    done = subprocess.run(
        [*command, "--path-output", str(output)],
        cwd=project.root,
        env=os.environ
        | {"PYTHONPATH": project.python_path, "SOURCE_DATE_EPOCH": "0", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    (project.build / "pages.log").write_text(log, encoding="utf-8")
    if done.returncode < 0:
        raise BuildError(
            f"the page builder was killed by {signal.Signals(-done.returncode).name} (out of memory?)"
        )
    if done.returncode:
        lines = [line.replace(f"{site}/", "") for line in log.splitlines()]
        reasons = [line for line in lines if re.search(r"WARNING|ERROR|Error:|CRITICAL", line)] or lines[-30:]
        raise BuildError("the pages have warnings or errors:\n" + "\n".join(f"  {line}" for line in reasons))
    return output / "_build" / "html"


def prune_icons(pages: Path) -> None:
    """Leave of the theme's icons, 1.5 MB on every page, those that some page or script names."""
    scripts = list(pages.rglob("fontawesome.js"))
    files = [path for ending in ("html", "js") for path in pages.rglob(f"*.{ending}") if path not in scripts]
    named = {
        name for path in files for name in re.findall(r"\bfa-([\w-]+)", path.read_text(encoding="utf-8"))
    }

    def keep(icon: re.Match[str]) -> str:
        names = {icon["quoted"] or icon["bare"], *re.findall(r"[\w-]+", icon["aliases"])}
        return icon[0] if names & named else ""

    for script in scripts:
        script.write_text(_ICON.sub(keep, script.read_text(encoding="utf-8")), encoding="utf-8")


def shrink_pictures(pages: Path) -> None:
    """Save the pages' PNG pictures with a palette, at a third of their size; downloads stay as they are."""
    for folder, colors in (("_images", 256), ("_static/thumbnails", 64)):
        for path in (pages / folder).glob("*.png"):
            with Image.open(path) as picture:  # the method that keeps what is transparent
                small = picture.convert("RGBA").quantize(colors, Image.Quantize.FASTOCTREE)
            small.save(path, optimize=True)


def _name_parts(pages: Path) -> None:
    """Name what the theme leaves without a name for screen readers."""
    for page in pages.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, named in _NAMELESS:
            text = text.replace(found, named)
        page.write_text(text, encoding="utf-8")


def size_figures(pages: Path) -> None:
    """Give each figure its height, so that it has its place before it comes into view and is loaded."""
    for page in pages.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_FIGURE.sub(partial(_sized, page.parent), text), encoding="utf-8")


def _sized(folder: Path, figure: re.Match[str]) -> str:
    path, width = folder / figure["src"], int(figure["width"])
    if path.suffix == ".svg":
        size = _SVG_SIZE.search(path.read_text(encoding="utf-8")[:2000])
        across, down = map(float, size.groups()) if size else (0.0, 0.0)
    else:
        with Image.open(path) as picture:
            across, down = picture.size
    return f'{figure[0]} width="{width}" height="{round(width * down / across)}"' if across else figure[0]


def prune_styles(pages: Path) -> None:
    """Leave of the style sheets, half a megabyte, the rules whose classes some page or script names.

    A script may put a class together, `output-${k}`: what begins like this is kept.
    """
    files = [path for ending in ("html", "js") for path in pages.rglob(f"*.{ending}")]
    named, begun = set(), set()
    for path in files:
        if path.name in ("fontawesome.js", "mathjax.js"):
            continue
        text = path.read_text(encoding="utf-8")
        # fa-: a font of icons, which are drawn by a script
        named |= {name for name in re.findall(r"[\w-]+", text) if not name.startswith("fa-")}
        begun |= set(re.findall(r"([A-Za-z][\w-]*-)\$\{", text)) if path.suffix == ".js" else set()
    for sheet in pages.rglob("*.css"):
        css = sheet.read_text(encoding="utf-8")
        made = {name for name in _CSS_CLASS.findall(css) if name.startswith(tuple(begun))}
        sheet.write_text(_pruned(css, named | made), encoding="utf-8")


def _pruned(css: str, named: set[str]) -> str:
    """A style sheet without comments, and without the selectors that need a class that is not named."""
    kept, depth, start, head = [], 0, 0, ""
    css = _CSS_TOKEN.sub(lambda token: "" if token[0].startswith("/*") else token[0], css)
    for token in _CSS_TOKEN.finditer(css):
        if token[0] == ";" and depth == 0:
            kept.append(css[start : token.end()])
            start = token.end()
        elif token[0] == "{":
            if depth == 0:
                head, start = css[start : token.start()].strip(), token.end()
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                body, start = css[start : token.start()], token.end()
                if re.match(r"@(media|supports|container)", head):
                    body = _pruned(body, named)
                elif not head.startswith("@"):
                    parts = re.split(r",(?![^()]*\))", head)
                    head = ",".join(part for part in parts if _classes(part) <= named)
                if head and body:
                    kept.append(f"{head}{{{body}}}\n")
    return "".join(kept)


def _classes(selector: str) -> set[str]:
    """Classes that an element must have, or one around it: those outside of parentheses."""
    while (simpler := re.sub(r"\([^()]*\)", "", selector)) != selector:
        selector = simpler
    return set(_CSS_CLASS.findall(selector))


def _add_downloads(project: Project, pages: Path) -> None:
    downloads = pages / "downloads"
    downloads.mkdir()
    for chapter in project.chapters:
        shutil.copy(chapter.notebook, downloads / f"{chapter.name}.ipynb")
        shutil.copytree(chapter.artifacts, downloads / chapter.name)


def _forget_old_runs(project: Project, keep: int = 3) -> None:
    """Delete what killed runs left, and results of earlier sources but for each chapter's latest few."""
    for begun in (project.build / "chapters").glob(".*"):
        shutil.rmtree(begun)
    current = {chapter.folder for chapter in project.chapters}
    for chapter in project.chapters:
        earlier = [path for path in chapter.folder.parent.glob(f"{chapter.name}-*") if path not in current]
        for path in sorted(earlier, key=lambda p: p.stat().st_mtime, reverse=True)[keep:]:
            shutil.rmtree(path)
