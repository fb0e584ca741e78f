"""The front of the book: a card for every chapter, and every panel of the papers beside its counterpart."""

import html
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jupytext
import numpy as np
from markupsafe import Markup
from PIL import Image

from companion import records
from companion.formats import FIGURE_TYPE, THUMBNAIL
from companion.pipeline import crate, manifest, scoreboard
from companion.pipeline.kept import left_behind
from companion.pipeline.progress import cost
from companion.pipeline.project import BuildError, Chapter, Project
from companion.pipeline.rendering import render
from companion.pipeline.sections import exercises

PAPERS = {
    "A": "A. Coding schemes",
    "A′": "A′. Coding schemes, first version",
    "B": "B. Adaptive kernels",
    "C": "C. Universality of two-point dynamics",
}


class Figure(NamedTuple):
    """A published figure of an executed chapter.

    Attributes:
        chapter: The chapter's name.
        name: Its own.
        file: Its image in the chapter's artifacts.
        caption: As published, in MyST.
        named: Panels of the papers that it says to be the counterpart of.
        part: What a card shows of it: left, upper, right and lower edge as shares of its width and height.
    """

    chapter: str
    name: str
    file: Path
    caption: str
    named: tuple[str, ...] = ()
    part: tuple[float, ...] = ()

    @property
    def panels(self) -> set[str]:
        """Panels of the papers: "A 2a", or "C 9" where a figure has no letters; else those in the caption."""
        return set(self.named) or records.cited(self.caption)

    @property
    def thumbnail(self) -> str:
        """Its file among the pages' thumbnails."""
        return f"{self.chapter}-{self.file.stem}{'-part' if self.part else ''}.png"

    @property
    def drawn(self) -> Path:
        """A picture of it that is made of pixels."""
        name = self.file.stem
        return self.file if self.file.suffix == ".png" else self.file.with_name(f"{name}-thumbnail.png")

    @property
    def shown(self) -> tuple[float, float, float, float]:
        """Edges in this picture of what a card shows of it: left, upper, right, lower."""
        left, upper, right, lower = self.part or (0, 0, 1, 1)
        with Image.open(self.drawn) as image:
            wide, high = image.size
        return (left * wide, upper * high, right * wide, lower * high)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of its thumbnail, for which a page keeps the place until it is loaded."""
        left, upper, right, lower = self.shown
        scale = min(1.0, THUMBNAIL / max(right - left, lower - upper))
        return round(scale * (right - left)), round(scale * (lower - upper))

    @property
    def link(self) -> str:
        """Where it stands, seen from a page of ``book/``."""
        anchor = f"fig-{self.chapter}-{self.name}" if self.caption else self.name
        return f"../notebooks/{self.chapter}.html#{anchor.replace('_', '-')}"


def figures(project: Project) -> list[Figure]:
    """Every figure of the executed chapters, in their order."""
    return [
        Figure(
            chapter.name,
            shown["name"],
            chapter.artifacts / shown["file"],
            shown["caption"],
            tuple(shown.get("panels", ())),
        )
        for chapter in _in_order(project)
        for shown in left_behind(chapter.notebook, FIGURE_TYPE)
    ]


def write(project: Project, table: list[scoreboard.Row], site: Path) -> None:
    """Write the parts that prose pages include (cards, panels, costs), and the thumbnails in them.

    Cards and panels need ``book/chapters.yml`` and ``book/panels.yml``.

    Raises:
        BuildError: If one of them names a chapter, figure or claim that does not exist.
    """
    shown = figures(project)
    wanted: set[Figure] = set()
    parts: dict[str, str] = {}
    for name in ("edition", "cite") if (project.root / "CITATION.cff").is_file() else ():
        parts[name] = render(f"{name}.md", **edition(project))
    for name, make in (("chapters", _cards), ("panels", _panels)):
        if (project.root / "book" / f"{name}.yml").is_file():
            made, used = make(project, project.told(f"book/{name}.yml"), shown, table)
            parts |= made
            wanted |= used
    chapters = _in_order(project)
    asked = [(chapter.name, _title(chapter), _exercises(chapter)) for chapter in chapters]
    parts["exercises"] = render("exercises.md", chapters=[row for row in asked if row[2]])
    took = {chapter.name: cost(project.build, chapter.name) for chapter in chapters}
    costs = {name: known for name, known in took.items() if known}
    parts["costs"] = render("costs.md", costs=costs, preset=project.preset, cores=os.cpu_count())
    for name, content in parts.items():
        (site / "book" / "_generated" / f"{name}.md").write_text(content, encoding="utf-8")
    wanted |= {figure for row in table if (figure := of_claim(row, shown)) is not None}
    folder = site / "book" / "_static" / "thumbnails"
    for figure in sorted(wanted):
        _thumbnail(figure, folder)


def of_claim(
    row: scoreboard.Row, shown: Iterable[Figure], panels: Collection[str] = frozenset()
) -> Figure | None:
    """The figure of its chapter that a claim's headline is checked beside, else one that names its panels."""
    own = [figure for figure in shown if figure.chapter == row.chapter]
    checked = [record.get("figure") for record in row.records if record.get("headline")]
    found = [figure for figure in own if figure.name in checked]
    return next(iter(found + [figure for figure in own if figure.panels & set(panels)]), None)


def edition(project: Project) -> dict[str, Any]:
    """What a reader cites the book by: authors, version, date, commit, repository, from files at the root."""
    cited = project.told("CITATION.cff")
    authors = [
        author.get("name") or f"{author['given-names']} {author['family-names']}"
        for author in cited["authors"]
    ]
    return {
        "title": cited["title"],
        "authors": authors,
        "doi": cited.get("doi"),
        "version": project.version,
        "date": project.commit_date,
        "commit": project.commit,
        "repository": project.repository,
    }


def _cards(
    project: Project, listed: dict[str, Any], shown: list[Figure], table: list[scoreboard.Row]
) -> tuple[dict[str, str], set[Figure]]:
    """A card for every chapter, in the order of the table of contents."""
    if unknown := sorted(set(listed) - set(project.names)):
        raise BuildError(f"book/chapters.yml speaks of {', '.join(unknown)}, which are no chapters")
    at_paper = scoreboard.recorded_verdicts(Project(project.root, "paper"))
    cards, used = [], set()
    for chapter in _in_order(project):
        about = listed.get(chapter.name) or {}
        own = [figure for figure in shown if figure.chapter == chapter.name]
        chosen = next((one for one in own if one.name == about.get("figure", one.name)), None)
        if chosen:
            chosen = chosen._replace(part=tuple(about.get("part", ())))
            used.add(chosen)
        elif about.get("figure"):
            raise BuildError(f"book/chapters.yml: {chapter.name} publishes no figure {about['figure']!r}")
        source = chapter.source.read_text(encoding="utf-8")
        minutes = re.search(r"\*Reading:\*\s*(?:#\s*)?(\d+)", source)
        cards.append(
            {
                "name": chapter.name,
                "figure": chosen,
                "title": _title(chapter),
                "finding": about.get("finding", ""),
                "tally": _tally([row for row in table if row.chapter == chapter.name], at_paper),
                "minutes": minutes[1] if minutes else "",
            }
        )
    return {"chapters": render("chapters.md", cards=cards)}, used


def _title(chapter: Chapter) -> str:
    found = re.search(r"^# # (.+)$", chapter.source.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else chapter.name


def _exercises(chapter: Chapter) -> list[tuple[str, Markup]]:
    """Number and question of each, which is Markdown of our own."""
    found = exercises(jupytext.read(chapter.source))
    return [(number, Markup(" ".join(question.split()))) for number, question in found]


def _tally(own: list[scoreboard.Row], at_paper: Mapping[str, str]) -> list[tuple[str, list[tuple[int, str]]]]:
    """How many of a chapter's claims, published and new, have which verdict.

    At paper size where known, else in this build.
    """
    found = {row.claim["id"]: row for row in own if row.records}
    known = {id: at_paper[id] for id in found if id in at_paper}
    place = "" if known else " in this build"
    known = known or {id: row.verdict for id, row in found.items()}
    notes = []
    for published, what in ((True, "published"), (False, "new")):
        told = [found[id].claim for id in known if bool(found[id].claim.get("published")) == published]
        counts = Counter(scoreboard.said(claim, known[claim["id"]]) for claim in told)
        if counts:
            each = [(counts[verdict], verdict) for verdict in sorted(counts, key=scoreboard.SAID.index)]
            notes.append((f"{what}{place}:", each))
    return notes


def _panels(
    project: Project, listed: list[dict[str, Any]], shown: list[Figure], table: list[scoreboard.Row]
) -> tuple[dict[str, str], set[Figure]]:
    """The papers' figures with ours beside them, panel by panel; and which are reproduced, at a glance."""
    known = scoreboard.standings(project, table)
    by_panel: dict[str, list[Figure]] = {}
    for figure in shown:
        for panel in figure.panels:
            by_panel.setdefault(panel, []).append(figure)
    twice = [panel for panel, count in Counter(row["panel"] for row in listed).items() if count > 1]
    unknown = sorted({id for row in listed for id in row.get("claims", ())} - set(known))
    if twice or unknown:
        raise BuildError(f"book/panels.yml: panels listed twice {twice}, claims unknown {unknown}")
    rows = [_panel(row, _counterparts(row, by_panel, shown)) for row in listed]
    blocks = [_block(list(own), known) for _, own in groupby(rows, lambda row: (row["paper"], row["figure"]))]
    papers = {title: [one for one in blocks if one["paper"] == paper] for paper, title in PAPERS.items()}
    papers = {title: own for title, own in papers.items() if own}
    made = {"panels": render("panels.md", papers=papers), "reproduced": _reproduced(papers, known)}
    return made, {figure for row in rows for figure in row["figures"]}


def _block(rows: list[dict[str, Any]], known: Mapping[str, scoreboard.Standing]) -> dict[str, Any]:
    """The panels of one published figure: each picture once, with the letters that it stands for."""
    letters: dict[Figure, list[str]] = {}
    for row in rows:
        for figure in row["figures"]:
            letters.setdefault(figure, []).append(row["letter"])
    claims = {id: known[id] for row in rows for id in row["claims"]}
    return {
        "paper": rows[0]["paper"],
        "figure": rows[0]["figure"],
        "anchor": anchor(f"fig {rows[0]['paper']} {rows[0]['figure'].removeprefix('Fig. ')}"),
        "rows": rows,
        "pictures": {
            figure: ", ".join(own) if len(own) < len(rows) else "" for figure, own in letters.items()
        },
        "claims": claims,
        "verdict": scoreboard.together([one.verdict for one in claims.values()]) if claims else "",
        "said": "; ".join(f"{id} {one.verdict}" for id, one in claims.items()),
    }


def _reproduced(papers: dict[str, list[dict[str, Any]]], known: Mapping[str, scoreboard.Standing]) -> str:
    """How many published statements have which verdict, and each paper's figures with theirs."""
    published = [one for one in known.values() if one.row.claim.get("published")]
    counts = Counter(one.verdict for one in published)
    return render(
        "reproduced.md",
        papers={
            title: own
            for title, own in papers.items()
            if "′" not in title  # the first version of a paper that stands there
        },
        count=len(published),
        counts=[(counts[verdict], verdict) for verdict in scoreboard.VERDICTS if counts[verdict]],
        place="at paper size" if any(one.kept for one in published) else "in this build",
    )


def panels(project: Project) -> dict[str, list[str]]:
    """The papers' figures, as "A, Fig. 2", that each claim belongs to."""
    found: dict[str, list[str]] = {}
    for row in project.told("book/panels.yml", ()):
        paper, _, place = row["panel"].partition(" ")
        figure = re.match(r"\d+", place)
        name = f"{paper}, Fig. {figure[0]}" if figure else row["panel"]
        for id in row.get("claims", ()):
            if name not in found.setdefault(id, []):
                found[id].append(name)
    return found


def _counterparts(
    row: dict[str, Any], by_panel: dict[str, list[Figure]], shown: list[Figure]
) -> list[Figure]:
    """Figures that name a panel in their captions, and those that its row names itself."""
    named = {f"{figure.chapter}/{figure.name}": figure for figure in shown}
    if missing := [name for name in row.get("figures", ()) if name not in named]:
        raise BuildError(f"book/panels.yml: {row['panel']} names {missing}, which no chapter publishes")
    whole = re.sub(r"(\d)[a-z]$", r"\1", row["panel"])  # a caption may name the figure, all panels at once
    citing = [figure for place in dict.fromkeys((row["panel"], whole)) for figure in by_panel.get(place, ())]
    own = [named[name] for name in row.get("figures", ())]
    return list(dict.fromkeys([*citing, *own]))


def _panel(row: dict[str, Any], counterparts: list[Figure]) -> dict[str, Any]:
    """A row of ``book/panels.yml`` as its template takes it."""
    paper, _, place = row["panel"].partition(" ")
    number, part = re.match(r"\d+", place), place.partition(",")[0]
    return {
        "anchor": anchor(row["panel"]),
        "paper": paper,
        "figure": f"Fig. {number[0]}" if number else part,
        "place": f"Fig. {place}" if number else place,
        "letter": place[len(number[0]) :] if number else place.removeprefix(f"{part}, "),
        "shows": row["shows"],
        "claims": row.get("claims", ()),
        "why": row.get("why", "not yet"),
        "figures": counterparts,
    }


def anchor(name: str) -> str:
    """A name as the end of an address."""
    return re.sub(r"\W+", "-", name.replace("′", "1")).lower()


def index(project: Project) -> list[dict[str, Any]]:
    """Every figure with the file of its arrays, their shapes and types, for programs that read them."""
    return [
        {
            "chapter": figure.chapter,
            "figure": figure.name,
            "page": figure.link.removeprefix("../"),
            "panels": sorted(figure.panels),
            "image": f"downloads/{figure.chapter}/{figure.file.name}",
            "arrays": f"downloads/{figure.chapter}/{file.name}",
            "sha256": manifest.digest(file),
            "holds": _held(file),
        }
        for figure in figures(project)
        if (file := figure.file.with_name(f"{figure.name}.npz")).is_file()
    ]


def _held(file: Path) -> dict[str, Any]:
    with np.load(file) as arrays:
        return {
            name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in arrays.items()
        }


def llms(project: Project, pages: Path) -> str:
    """What language models read first, ``llms.txt``: every page of the contents, and the data."""
    contents = project.told("_toc.yml")
    notes = project.told("book/chapters.yml", {})

    def page(name: str) -> dict[str, str]:
        text = (pages / f"{name}.html").read_text(encoding="utf-8")
        title = re.search(r"<h1>(.*?)(<a class=\"headerlink\"|</h1>)", text, re.DOTALL)
        said = html.unescape(re.sub("<[^>]*>", "", title[1])).strip() if title else name
        note = (notes.get(name.removeprefix("notebooks/")) or {}).get("finding", "")
        return {"name": name, "title": said, "note": note}

    groups = [(None, {key: contents[key] for key in contents if key != "parts"})]
    groups += [(part["caption"], part) for part in contents.get("parts", ())]
    return render(
        "llms.txt",
        title=project.config.get("title", ""),
        preset=project.preset,
        commit=project.commit,
        at=f"{project.pages_address}/" if project.pages_address else "",
        parts=[(caption, [page(name) for name in listed_pages(group)]) for caption, group in groups],
        data=crate.PARTS | {crate.FILE: "Which run made which file, with digests (RO-Crate)"},
    )


def listed_pages(contents: Mapping[str, Any]) -> list[str]:
    """Pages of a table of contents, or of a part of it, in their order."""
    names = [contents[key] for key in ("root", "file") if key in contents]
    for key in ("parts", "chapters", "sections"):
        for entry in contents.get(key, ()):
            names += listed_pages(entry)
    return names


def codecheck(project: Project) -> dict[str, Any]:
    """The root's ``codecheck.yml`` for this build: where the repository is, and every figure, as a file."""
    about: dict[str, Any] = project.told("codecheck.yml")
    about["manifest"] = [
        {
            "file": f"downloads/{figure.chapter}/{figure.file.name}",
            "comment": ", ".join(sorted(figure.panels)) or figure.name,
        }
        for figure in figures(project)
    ]
    about["source"] = f"Every chapter run by `make book PRESET={project.preset}`"
    return about | ({"repository": project.repository} if project.repository else {})


def citation(project: Project) -> dict[str, Any]:
    """The root's ``CITATION.cff`` for this build: its repository, pages and commit; or nothing."""
    cited: dict[str, Any] = project.told("CITATION.cff", {})
    places = {
        "repository-code": project.repository,
        "url": project.pages_address,
        "commit": project.commit.removesuffix("-dirty"),
        "date-released": project.commit_date,
    }
    return cited and cited | {name: value for name, value in places.items() if value}


def _in_order(project: Project) -> list[Chapter]:
    """Executed chapters in the order of ``_toc.yml``; those not in it last."""
    listed = [page.removeprefix("notebooks/") for page in listed_pages(project.told("_toc.yml", {}))]
    chapters = [chapter for chapter in project.chapters if chapter.finished]
    return sorted(chapters, key=lambda c: listed.index(c.name) if c.name in listed else len(listed))


def _thumbnail(figure: Figure, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with Image.open(figure.drawn) as image:
        small = image.crop(figure.shown)
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    small.save(folder / figure.thumbnail)  # `site.shrink_pictures` makes it small
