"""All that a made-up book's pages are made of, word for word, held against what somebody has looked at."""

import difflib
import json
import re
import shutil
from pathlib import Path

import enriched_book
import nbformat
import pytest
import yaml
from companion.pipeline import accepted, difference, manifest, reports, seeds, site
from companion.pipeline.project import BuildError, Project
from PIL import Image

FOLDER = Path(__file__).with_name("snapshot")
LEFT = re.compile(r"(site|html|difference\w*)/|report")  # of a build, besides its chapters
TOLD = re.compile(
    r"report|difference\w*/.*d$|(site|html)/[^/]+(?<!schema.json)$|html/_images/|site/(book|notebooks)/[^/]+$|"
    r"site/book/(_generated|claims)/|site/launch/.*odd|site/book/_static/paper/odd/"
)
POOR = re.compile(  # what may differ in a book that lacks what a book may lack
    r"said|commands|files|report.md|html/ro-crate.*|site/([^/]+|book/claims/[AD]1.md|book/_generated/[cer].*|.*new.md|.*task.ipynb)$"
)
GROUPS = {".ipynb": "notebooks.txt", ".md": "pages.txt", ".inc": "pages.txt"}


def text_of(path):
    """A picture's size, a notebook's cells, JSON in few lines, other files as they are."""
    if path.suffix == ".png":
        return "{}x{}".format(*Image.open(path).size)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        style = {"sort_keys": False, "allow_unicode": True, "width": 10**6, "default_flow_style": None}
        return yaml.safe_dump(json.loads(text), **style)
    if path.suffix != ".ipynb":
        return text
    lines = []
    for cell in nbformat.reads(text, as_version=4).cells:
        lines += [f"--- {cell.cell_type} {cell.id} {json.dumps(cell.metadata, sort_keys=True)}", cell.source]
        shown = [pair for output in cell.get("outputs", []) for pair in output.data.items()]
        lines += [f"-> {kind}\n{content}" for kind, content in shown if not re.search("json|html", kind)]
    return "\n".join(lines)


def left(project, **more):
    """What was written of a build but for copies of sources, by name: digests named, places left out."""
    root = project.root
    paths = {path: manifest.digest(path) for path in sorted(root.rglob("*")) if path.is_file()}
    known = {digest[:12]: f"(digest of {path.name})" for path, digest in paths.items()}
    projects = [Project(root, preset) for preset in ("quick", "paper")]
    known |= {one.folder.name[-12:]: "(digest)" for project in projects for one in project.chapters}
    named = {
        path.relative_to(project.build).as_posix(): path for path in paths if project.build in path.parents
    }
    named = {name: path for name, path in named.items() if LEFT.match(name)}
    sources = {f"site/{name}": text.encode() for name, text in enriched_book.TEXTS.items()}
    told = {name: path for name, path in named.items() if TOLD.match(name)}
    texts = {name: text_of(path) for name, path in told.items() if path.read_bytes() != sources.get(name)}
    found = {}
    for name, text in (more | {"files": "\n".join(named)} | texts).items():
        text = re.sub(r"contentSize: '\d+'", "contentSize: some", text.replace(str(root), "BOOK"))
        digest = r"(?<![0-9a-f])([0-9a-f]{12})(?:[0-9a-f]{52})?(?![0-9a-f])"
        found[name] = re.sub(digest, lambda at: known.get(at[1], at[0]), text).rstrip("\n") + "\n"
    return found


def built(project):
    """Build the pages; returns what is said at the end."""
    try:
        return str(site.build(project))
    except BuildError as error:
        return str(error)


def test_pages_are_what_they_were(tmp_path, monkeypatch, request):
    (git, commands), root = enriched_book.pin(monkeypatch, tmp_path), tmp_path / "book"
    quick, paper = Project(enriched_book.write(root)), Project(root, "paper")
    for project in (paper, quick):
        enriched_book.execute(project)
    accepted.accept(paper)
    seeds.keep(quick, "even", [project.chapters[0].notebook for project in (quick, paper)])
    reports.enter(quick, reports.write(quick).with_suffix(".json"))
    enriched_book.move_on(root)
    said = built(quick)
    site.write_launch_tree(quick, quick.build / "site/launch")
    for name in ("", "even"):  # all that is on record, and of one chapter
        place, folder = f"book/_static/paper/{name}", quick.build / f"difference{name}"
        shutil.copytree(root / place, tmp_path / f"record{name}" / place)
        with (
            difference.opened(str(tmp_path / f"record{name}"), "A") as a,
            difference.opened(str(quick.html), "B") as b,
        ):
            found = difference.compare(a, b)
            difference.write(found, ("record", "quick"), folder, difference.overdraw(a, b, found, folder))
    rich = left(quick, said=said)
    git.clear()
    monkeypatch.setenv("BUILDER", "sphinx")
    enriched_book.impoverish(root)
    paper = Project(root, "paper")
    reports.write(paper)
    poor = left(paper, said=built(paper), commands="\n".join(commands))
    now = {"paper.diff": {}}
    for name in filter(POOR.match, sorted(rich | poor)):
        sides = [files.get(name, "").splitlines() for files in (rich, poor)]
        lines = [line for line in [*difflib.unified_diff(*sides, n=0, lineterm="")][2:] if line[0] != "@"]
        now["paper.diff"] |= {name: "\n".join([*lines, ""])} if lines else {}
    for name, text in rich.items():
        group = "claims.txt" if "/claims/" in name else GROUPS.get(Path(name).suffix, "data.txt")
        now.setdefault(group, {})[name] = text
    if request.config.getoption("--accept-snapshot"):
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        for group, files in now.items():
            text = "".join(f"==> {name} <==\n{text}" for name, text in files.items())
            (FOLDER / group).write_text(text, encoding="utf-8")
    kept = {}
    for path in FOLDER.glob("*"):
        parts = re.split(r"^==> (.+) <==\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        kept[path.name] = dict(zip(parts[::2], parts[1::2], strict=True))
    both = [
        {(group, name): text for group in side for name, text in side[group].items()} for side in (kept, now)
    ]
    lines = [
        "If the new text is right: pytest -n0 --accept-snapshot tests/companion/pipeline/test_snapshot.py"
    ]
    for group, name in sorted(both[0].keys() | both[1].keys()):
        sides = [side.get((group, name), "").splitlines() for side in both]
        lines += difflib.unified_diff(*sides, f"snapshot/{group}: {name}", "now", n=1, lineterm="")
    if kept != now:
        pytest.fail("\n".join(lines), pytrace=False)
