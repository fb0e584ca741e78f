"""Assemble executed chapters and prose into one tree, and build the pages from it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import nbformat
import tinycss2
import yaml
from fontTools.subset import Subsetter
from fontTools.ttLib import TTFont
from markupsafe import Markup
from PIL import Image

from companion.formats import FIGURE_TYPE, INJECTED
from companion.pipeline import (
    accepted,
    claims,
    crate,
    dark,
    front,
    kept,
    manifest,
    plain,
    provenance,
    restore,
    scoreboard,
    sections,
    seeds,
)
from companion.pipeline.project import BuildError, Chapter, Project
from companion.pipeline.rendering import TEMPLATES, render
from companion.pipeline.sections import FENCE

_NUMPY_SCALAR = re.compile(r"^np\.(?:float|int)\d+\((.*)\)$")
_PLACES = re.compile(r'(?<= d=")[^"]+|(?<= [xy]=")[^"]+|(?<=translate\()[^)]+')  # in an SVG, not its scales
_FORMULA = re.compile(r'<span class="math notranslate nohighlight">[^<]*</span>[.,;:)?’]+')
_UNSEEN = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<!DOCTYPE[^>]*>|(?<=>)\s+(?=<)", re.DOTALL)
_LAUNCH_BRANCH = "launch"  # where publishing puts the chapters as notebooks, for Binder and Colab
_INSTALL = """\
# Only where the library is not installed: takes it, and what chapters import, from the folder above
# where that is a checkout, else from the repository, as on Colab
import importlib.util
import os
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore", "IProgress")  # bars of progress are text where there are no widgets
folder = ".." if os.path.isdir("../lib/companion") else "coding-schemes"
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
    """Build the pages from executed chapters, and return the one to open.

    The old pages stay until the new ones are whole. Where a verdict differs from the one on record, they are
    made all the same, to be looked at; they are not called finished.

    Raises:
        BuildError: If a chapter's results are damaged, a verdict differs from the one on record, or the book
            has a warning.
    """
    for chapter in project.chapters:
        if not chapter.finished:
            raise BuildError(f"the results of {chapter.name} are missing or damaged; run make book")
    table = scoreboard.rows(project)
    refused = None
    try:
        accepted.check(project, table)
    except BuildError as error:
        refused = error
    site = assemble(project, table)
    fresh = _sphinx(project, site)
    dark.add(fresh)
    shrink_pictures(fresh)
    unmark_code(fresh)
    prune_styles(fresh)
    prune_icons(fresh)
    for chapter in project.chapters:
        restore.publish(chapter, fresh)
    scoreboard.export(project, table, fresh / "scoreboard.json")
    figures = scoreboard.about(project, "figures") | {"figures": front.index(project)}
    manifest.write_readable(fresh / "figures.json", figures)
    for schema in TEMPLATES.glob("*.schema.json"):
        shutil.copy(schema, fresh / schema.name)
    check = yaml.safe_dump(front.codecheck(project), sort_keys=False, allow_unicode=True, explicit_start=True)
    (fresh / "codecheck.yml").write_text(check, encoding="utf-8")
    if cited := front.citation(project):
        told = yaml.safe_dump(cited, sort_keys=False, allow_unicode=True)
        (fresh / "CITATION.cff").write_text(told, encoding="utf-8")
    crate.write(project, fresh)
    (fresh / "llms.txt").write_text(front.llms(project, fresh), encoding="utf-8")
    for stamp in project.build.glob("html-*.json"):  # first, so that a death from here on is noticed
        stamp.unlink()
    shutil.rmtree(project.html, ignore_errors=True)
    fresh.rename(project.html)
    shutil.rmtree(project.build / "pages")
    _forget_old_runs(project)
    if refused:
        raise BuildError(f"{refused}\nThe pages with what was found: {project.html / 'index.html'}")
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
    at_paper = kept.beside(project)
    changed: set[str] = set()
    history = site / "book" / "changed_checks.md"
    if history.is_file():
        linked, changed = scoreboard.link_history(history.read_text(encoding="utf-8"))
        history.write_text(linked, encoding="utf-8")
    ledgers = seeds.ledgers(project)
    known = scoreboard.standings(project, table)
    page = scoreboard.page(
        known.values(),
        project.preset,
        changed,
        seeds.held(ledgers, table),
        seeds.summary(ledgers),
        front.panels(project),
    )
    (generated / "scoreboard.md").write_text(page, encoding="utf-8")
    front.write(project, table, site)
    if (site / "book" / "claims.yml").is_file():
        folder = site / "book" / "claims"
        claims.write(project, table, front.figures(project), ledgers, folder)
    for path in (site / "book" / name for name in ("changed_checks.md", "faults.inc")):
        if path.is_file():
            path.write_text(folded(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in (site / "book").glob("*.md"):
        prose = path.read_text(encoding="utf-8")
        if (quoted := claims.quoted(project, known, prose)) != prose:
            path.write_text(quoted, encoding="utf-8")
    (site / "notebooks").mkdir()
    widgets = _widgets(project)
    for chapter in project.chapters:
        own = at_paper.get(chapter.name)
        images = site / "notebooks" / "figures" / chapter.name
        shutil.copytree(chapter.artifacts, images, ignore=shutil.ignore_patterns("*.npz", "*.py", "*-frames"))
        notebook = _with_figures(sections.with_present_text(chapter), project, chapter, own, widgets)
        notebook = sections.with_setup(sections.with_checks(sections.with_prompts(notebook), own))
        notebook = _plain_numbers(_with_links(notebook, chapter.name, project))
        nbformat.write(notebook, site / "notebooks" / f"{chapter.name}.ipynb")
    return site


def folded(page: str) -> str:
    """A long page with its sections closed; ``folds.js`` opens them for a link, or to print."""
    head, *parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    for part in parts:
        title, _, body = part.partition("\n")
        rows = len(re.findall(r"^\|", body, re.MULTILINE)) - 2
        opening = f'{FENCE}{{raw}} html\n<details class="fold"><summary>{rows} rows</summary>\n{FENCE}'
        head += f"{title}\n\n{opening}\n\n{body.strip()}\n\n{FENCE}{{raw}} html\n</details>\n{FENCE}\n\n"
    return head


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
    made = [f"version {project.version}"] if project.version else []
    if commit := project.commit:
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
        notebook = to_launch(sections.with_present_text(chapter), project.repository)
        nbformat.write(notebook, target / "notebooks" / f"{chapter.name}.ipynb")


def to_launch(notebook: Any, address: str) -> Any:
    """An executed chapter as it is opened elsewhere: outputs as they are, at preset `quick` when it is run.

    The repository is cloned from the address.
    """
    cells = [cell for cell in notebook.cells if INJECTED not in cell.metadata.get("tags", ())]
    for cell in cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = re.sub(r'^preset = "\w+"', 'preset = "quick"', cell.source, flags=re.MULTILINE)
    source = _INSTALL.format(branch=_LAUNCH_BRANCH, address=address)
    notebook.cells = [*cells[:1], nbformat.v4.new_code_cell(source, id="install"), *cells[1:]]
    return notebook


def _widgets(project: Project) -> dict[tuple[str, str], dict[str, Any]]:
    """The widgets of ``book/widgets.yml``, by chapter and figure.

    Raises:
        BuildError: If one names a figure that its chapter does not publish.
    """
    found = {(one["chapter"], one["figure"]): one for one in project.told("book/widgets.yml", ())}
    published = {(figure.chapter, figure.name) for figure in front.figures(project)}
    if missing := ["/".join(place) for place in found if place not in published]:
        raise BuildError(f"book/widgets.yml: no figure {', '.join(missing)}")
    return found


def _with_figures(
    notebook: Any,
    project: Project,
    chapter: Chapter,
    at_paper: kept.Kept | None,
    widgets: Mapping[tuple[str, str], dict[str, Any]],
) -> Any:
    """The notebook with its published figures as the page's own: numbered, images as files beside it."""
    settings = provenance.settings(notebook)
    scripts = True  # that all widgets of a page share, with the first of them
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if figure := output.get("data", {}).get(FIGURE_TYPE):
                shown = render(
                    "figure.md",
                    figure=figure,
                    chapter=chapter.name,
                    kept=at_paper,
                    made=Markup(provenance.line(project, chapter, figure["name"], cell.source, settings)),
                    widget=widgets.get((chapter.name, figure["name"])),
                    scripts=scripts,
                )
                scripts = scripts and (chapter.name, figure["name"]) not in widgets
                output.data = nbformat.NotebookNode({"text/markdown": shown})
    return notebook


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
    address = urllib.parse.urlsplit(project.repository or "")
    elsewhere = {}
    if address.hostname == "github.com":  # both open what lies there
        place, path = address.path.strip("/"), f"notebooks/{name}.ipynb"
        binder = f"{place}/{_LAUNCH_BRANCH}?labpath={urllib.parse.quote(path, safe='')}"
        elsewhere = {
            "Run on Binder": f"https://mybinder.org/v2/gh/{binder}",
            "Run on Colab": f"https://colab.research.google.com/github/{place}/blob/{_LAUNCH_BRANCH}/{path}",
        }
    return render("links.html", name=name, elsewhere=elsewhere)


def _sphinx(project: Project, site: Path) -> Path:
    """Run the book's builder with warnings as errors; returns the folder of the fresh pages."""
    output = project.build / "pages"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    fresh = output / "_build" / "html"
    strict = ["-W", "-n", "--keep-going"]
    if project.builder == "sphinx":
        plain.write(Project(site).config, site)
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-d", str(output / "_build/.doctrees")]
        command += [*strict, str(site), str(fresh)]
    else:
        command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(site), *strict]
        command += ["--path-output", str(output)]
    settings = {"PYTHONPATH": project.python_path, "SOURCE_DATE_EPOCH": "0", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, cwd=project.root, env=os.environ | settings, capture_output=True, text=True
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
    return fresh


def shrink_pictures(pages: Path) -> None:
    """Make the pages' pictures small: PNG with a palette, SVG without spaces, places to hundredths.

    Downloads stay as they are.
    """
    for path in (pages / "_images").glob("*.svg"):
        drawn = _PLACES.sub(_short, path.read_text(encoding="utf-8"))
        path.write_text(_UNSEEN.sub("", drawn), encoding="utf-8")
    for folder, colors in (("_images", 256), ("_static/thumbnails", 64)):
        for path in (pages / folder).glob("*.png"):
            with Image.open(path) as picture:  # the method that keeps what is transparent
                small = picture.convert("RGBA").quantize(colors, Image.Quantize.FASTOCTREE)
            small.save(path, optimize=True)


def _short(place: re.Match[str]) -> str:
    """Numbers with two decimals, and no spaces around a path's letters."""
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", re.sub(r"(\.\d\d)\d+", r"\1", place[0])).strip()


def unmark_code(pages: Path) -> None:
    """Take the marks off names and punctuation, a third of a page with code: they have the text's color.

    And bind what follows a formula to it: a browser would begin a line with the full stop.
    """
    for path in pages.rglob("*.html"):
        page = re.sub(r'<span class="(?:n|nn|p|w)">([^<]*)</span>', r"\1", path.read_text(encoding="utf-8"))
        page = _FORMULA.sub(r'<span class="bound">\g<0></span>', page)
        path.write_text(page, encoding="utf-8")


def prune_styles(pages: Path) -> None:
    """Leave of the style sheets, half a megabyte, the rules whose classes some page or script names.

    A script may put a class together, `output-${k}`: what begins like this is kept.
    """
    named: set[str] = set()
    begun: set[str] = set()
    for path in (path for ending in ("html", "js") for path in pages.rglob(f"*.{ending}")):
        if path.name not in ("fontawesome.js", "mathjax.js"):
            text = path.read_text(encoding="utf-8")
            named.update(re.findall(r"[\w-]+", text))
            begun.update(re.findall(r"([A-Za-z][\w-]*-)\$\{", text) if path.suffix == ".js" else ())
    for sheet in pages.rglob("*.css"):
        rules = tinycss2.parse_stylesheet(sheet.read_text(encoding="utf-8"), True, True)
        sheet.write_text(_pruned(rules, named, tuple(begun)), encoding="utf-8")


def _pruned(rules: list[Any], named: set[str], begun: tuple[str, ...]) -> str:
    """Rules without the selectors that need a class that is not named."""

    def met(selector: list[Any]) -> bool:
        """Whether its classes are named, outside of :not(…) and its like, which are one token each."""
        classes = [name.value for dot, name in pairwise(selector) if dot == "." and name.type == "ident"]
        return all(name in named or name.startswith(begun) for name in classes)

    kept = []
    for rule in (rule for rule in rules if rule.type != "error"):
        head = tinycss2.serialize(rule.prelude).strip()
        body = None if rule.content is None else tinycss2.serialize(rule.content)
        if rule.type == "qualified-rule":
            parts = [
                list(part) for comma, part in groupby(rule.prelude, lambda token: token == ",") if not comma
            ]
            head = ",".join(tinycss2.serialize(part).strip() for part in parts if met(part))
        else:
            if rule.lower_at_keyword in ("media", "supports", "container"):
                body = _pruned(tinycss2.parse_rule_list(rule.content, True, True), named, begun)
            head = f"@{rule.at_keyword} {head}"
        if body is None:
            kept.append(f"{head};")
        elif head and body:
            kept.append(f"{head}{{{body}}}")
    return "\n".join(kept)


def prune_icons(pages: Path) -> None:
    """Make small fonts of the theme's icons, those that its pruned styles name; ``book.css`` loads them."""
    styles = "".join(sheet.read_text(encoding="utf-8") for sheet in pages.rglob("*.css"))
    for path in pages.glob("_static/vendor/fontawesome/webfonts/*.ttf"):
        font = TTFont(path, recalcTimestamp=False)
        subset = Subsetter()
        subset.populate(text=styles)
        subset.subset(font)
        font.flavor = "woff"
        font.save(path.with_suffix(".woff"))


def _forget_old_runs(project: Project, keep: int = 3) -> None:
    """Delete what killed runs left, and results of earlier sources but for each chapter's latest few."""
    for begun in (project.build / "chapters").glob(".*"):
        shutil.rmtree(begun)
    current = {chapter.folder for chapter in project.chapters}
    for chapter in project.chapters:
        earlier = [path for path in chapter.folder.parent.glob(chapter.any_folder) if path not in current]
        for path in sorted(earlier, key=lambda p: p.stat().st_mtime, reverse=True)[keep:]:
            shutil.rmtree(path)
