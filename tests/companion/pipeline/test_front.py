"""The cards of the landing page, and the papers' panels beside their counterparts."""

import html
import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import nbformat
import numpy as np
import pytest
import small_book
import yaml
from companion import formats
from companion.pipeline import front, manifest, provenance, scoreboard, sections, site
from companion.pipeline.progress import Progress, cost
from companion.pipeline.project import BuildError, Chapter, Project
from small_book import RECORD, REPOSITORY

ROW = {"panel": "A 2b", "shows": "activations", "claims": ["A1"]}


@pytest.fixture
def book(tmp_path):
    """Make a project with one executed chapter and one figure, whose caption is given."""

    def make(caption="Paper A, Fig. 2b.", chapters=None, panels=(ROW,)):
        claim = {"id": "A1", "chapter": "even", "claim": "c", "published": "p", "check": "k"}
        texts = {
            "book/claims.yml": yaml.safe_dump([claim]),
            "book/chapters.yml": yaml.safe_dump(chapters or {}),
            "book/panels.yml": yaml.safe_dump(list(panels), allow_unicode=True),
            "notebooks/even.py": "# %% [markdown]\n# # Even <numbers>\n#\n# *Reading:* 9\n# minutes.\n",
        }
        for name, content in texts.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
        project = Project(tmp_path)
        (chapter,) = project.chapters
        chapter.artifacts.mkdir(parents=True)
        matplotlib.image.imsave(chapter.artifacts / "wide_one.png", np.zeros((100, 2 * front.THUMBNAIL)))
        shown = {"name": "wide_one", "file": "wide_one.png", "caption": caption}
        small_book.finish(chapter, figures=[shown])
        return project

    return make


def test_a_card_counts_what_is_published_and_what_is_new_apart():
    claims = [{"id": "A1", "published": "p"}, {"id": "A2", "published": "p"}, {"id": "D1"}]
    rows = [scoreboard.Row(claim, "even", [RECORD], True) for claim in claims]
    told = front._tally(rows, {"A1": "in part", "A2": "reproduced", "D1": "reproduced"})
    assert told == [("published:", [(1, "reproduced"), (1, "in part")]), ("new:", [(1, "holds")])]
    two = [scoreboard.Row({"id": id}, "even", [RECORD], True) for id in ("D1", "D2")]
    assert front._tally(two, dict.fromkeys(("D1", "D2"), "reproduced")) == [("new:", [(2, "holds")])]
    here = scoreboard.said(claims[2], rows[2].verdict)
    assert front._tally(rows[2:], {}) == [("new in this build:", [(1, here)])]
    assert front._tally([], {}) == []


def test_a_card_counts_no_verdict_of_this_build_among_those_at_paper_size():
    rows = [scoreboard.Row({"id": id, "published": "p"}, "even", [RECORD], True) for id in ("A1", "A2")]
    at_paper = {"A2": "in part", "B1": "refuted"}  # B1 is another chapter's
    assert front._tally(rows, at_paper) == [("published:", [(1, "in part")])]
    assert front._tally(rows, {"B1": "refuted"}) == [("published in this build:", [(2, "reproduced")])]


def test_pages_of_the_contents_are_listed_in_their_order_at_every_depth():
    deep = {"file": "d", "sections": [{"file": "e", "sections": [{"file": "f"}]}, {"file": "g"}]}
    parts = [{"caption": "one", "chapters": [{"file": "c"}, deep]}, {"chapters": [{"file": "h"}]}]
    assert front.listed_pages({"format": "jb-book", "root": "b", "parts": parts}) == [*"bcdefgh"]
    assert front.listed_pages({"root": "b", "chapters": [{"file": "c"}, deep]}) == [*"bcdefg"]


def test_what_a_card_shows_of_a_figure_has_a_file_of_its_own():
    whole = front.Figure("even", "one", Path("one.png"), "")
    assert whole._replace(part=(0.0, 0.0, 0.5, 1.0)).thumbnail != whole.thumbnail


@pytest.fixture
def written(tmp_path):
    """Write the front of a project; returns its cards, its panels, and the folder of pictures."""

    def write(project):
        site = tmp_path / "site"
        for folder in ("_generated", "_static"):
            (site / "book" / folder).mkdir(parents=True)
        front.write(project, scoreboard.rows(project), site)
        pages = [
            (site / f"book/_generated/{name}.md").read_text(encoding="utf-8")
            for name in ("chapters", "panels")
        ]
        return *pages, site / "book/_static/thumbnails"

    return write


def test_a_card_has_title_finding_time_and_picture(book, written):
    cards, _, pictures = written(book(chapters={"even": {"finding": "Half of <all>."}}))
    assert "Even &lt;numbers&gt;" in cards
    assert "Half of &lt;all&gt;." in cards
    assert "9 min" in cards
    (thumbnail,) = pictures.iterdir()
    assert f'width="{front.THUMBNAIL}" height="50" src="../_static/thumbnails/{thumbnail.name}"' in cards
    assert matplotlib.image.imread(thumbnail).shape[:2] == (50, front.THUMBNAIL)


def test_the_page_of_exercises_links_each_of_them(book, written, tmp_path):
    project = book()
    (chapter,) = project.chapters
    with chapter.source.open("a") as source:
        source.write("#\n# ## Exercises\n#\n# **1.** What if $y_- < \\frac{1}{2}$,\n# and `a`?\n")
    written(project)
    page = (tmp_path / "site/book/_generated/exercises.md").read_text(encoding="utf-8")
    assert "## Even &lt;numbers&gt;" in page
    assert (
        '<a href="../notebooks/even.html#exercise-1">Exercise 1</a>: What if $y_- < \\frac{1}{2}$, and `a`?'
        in page
    )


def test_the_thumbnail_of_a_line_plot_is_the_small_picture_beside_it(book, written):
    project = book(chapters={"even": {}})
    (chapter,) = project.chapters
    (chapter.artifacts / "wide_one.png").rename(chapter.artifacts / "wide_one-thumbnail.png")
    (chapter.artifacts / "wide_one.svg").write_text("<svg/>")
    chapter.notebook.write_text(chapter.notebook.read_text().replace("wide_one.png", "wide_one.svg"))
    manifest.seal(chapter.manifest, chapter.folder, chapter.made_from)
    cards, _, pictures = written(project)
    (thumbnail,) = pictures.iterdir()
    assert thumbnail.name in cards
    assert matplotlib.image.imread(thumbnail).shape[:2] == (50, front.THUMBNAIL)


@pytest.mark.parametrize("caption", ["Paper A, Fig. 2b.", "Paper A, Fig. 2."])
def test_a_panel_stands_beside_the_figure_that_names_it(book, written, caption):
    _, panels, _ = written(book(caption))
    assert 'href="../notebooks/even.html#fig-even-wide-one"' in panels
    assert "1 of 1 panels" in panels
    assert "A1 not run" in panels


def test_a_panel_without_counterpart_gives_its_reason(book, written):
    _, panels, _ = written(book("Paper A, Fig. 2c.", panels=[ROW | {"why": "a <sketch>"}]))
    assert "No counterpart: a &lt;sketch&gt;" in panels
    assert "0 of 1 panels" in panels


def test_panels_of_one_published_figure_share_its_picture(book, written, tmp_path):
    others = [ROW | {"panel": "A 2c", "claims": []}, ROW | {"panel": "A 3", "claims": [], "why": "a sketch"}]
    others += [ROW | {"panel": f"A supplement E, {place}", "claims": []} for place in ("heat", "digits")]
    _, panels, _ = written(book("Paper A, Fig. 2b, c.", panels=[ROW, ROW | {"panel": "A 2a"}, *others]))
    headings = re.findall(r"^### (.*)$", panels, re.MULTILINE)
    assert headings == ["A, Fig. 2", "A, Fig. 3", "A, supplement E"]
    assert "<b>heat</b>" in panels
    assert panels.count("<img") == 1
    assert "<small>b, c</small>" in panels
    assert panels.count("A1 not run") == 1
    landing = (tmp_path / "site/book/_generated/reproduced.md").read_text(encoding="utf-8")
    assert "1 not run" in landing
    assert 'href="panels.html#fig-a-2" title="A1 not run">Fig. 2<' in landing
    assert 'href="panels.html#fig-a-3">Fig. 3: a sketch<' in landing  # of which nothing is claimed


def test_a_claim_stands_beside_the_figure_of_its_headline_or_else_of_its_panels():
    figures = [front.Figure("even", name, Path(f"{name}.png"), "", (f"A {name}",)) for name in ("1", "2")]
    figures.insert(0, front.Figure("odd", "1", Path("1.png"), "", ("A 1", "A 2")))

    def chosen(records, panels=()):
        return front.of_claim(scoreboard.Row({"id": "A1"}, "even", records, True), figures, panels)

    beside = [{"figure": "1"}, {"figure": "2", "headline": True}]
    assert chosen(beside, {"A 1"}) == figures[2]
    assert chosen(beside[:1], {"A 1"}) == figures[1]
    assert chosen(beside[:1]) is None


def test_places_without_a_number_name_their_figures_themselves(book, written):
    row = {"panel": "A supplement E, heat", "shows": "s", "figures": ["even/wide_one"]}
    assert "fig-even-wide-one" in written(book("Nothing.", panels=[row]))[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"chapters": {"odd": {}}}, "odd"),
        ({"chapters": {"even": {"figure": "lost"}}}, "no figure 'lost'"),
        ({"panels": [ROW, ROW]}, "listed twice"),
        ({"panels": [ROW | {"claims": ["A9"]}]}, "A9"),
        ({"panels": [ROW | {"figures": ["even/lost"]}]}, "even/lost"),
    ],
)
def test_what_does_not_exist_stops_the_build(book, written, given, message):
    with pytest.raises(BuildError, match=message):
        written(book(**given))


@pytest.mark.pipeline
@pytest.mark.xdist_group("pipeline")
def test_language_models_are_told_every_page_and_where_the_data_are(built_book):
    pages = built_book / "_build/quick/html"
    told = (pages / "llms.txt").read_text(encoding="utf-8")
    assert re.match(r"# Coding schemes in neural networks\n\n> A book that runs.*\n\n- \[", told)
    links = dict(re.findall(r"^- \[(.+?)\]\((\S+)\)", told, re.MULTILINE))
    assert list(links)[:4] == ["A small book", "Even numbers", "Loud words", "Scoreboard"]
    assert "scoreboard.json" in links
    assert [link for link in links.values() if not (pages / link).is_file()] == []


WIDGET = {"chapter": "even", "widget": "network", "sliders": "N=60", "label": "<Sample>"}


def test_a_widget_stands_under_its_figure(book, monkeypatch):
    monkeypatch.setattr(provenance, "line", lambda *arguments: "")  # has tests of its own
    project = book()
    shown = {"figure": "wide_one", "options": {"nonlinearity": "relu"}}
    (project.root / "book/widgets.yml").write_text(yaml.safe_dump([WIDGET | shown]), encoding="utf-8")
    (chapter,) = project.chapters
    notebook = nbformat.read(chapter.notebook, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.data[formats.FIGURE_TYPE] |= {
                "description": "",
                "width": 1,
                "height": 1,
                "page": "",
                "tail": "",
            }
    (cell, *_) = site._with_figures(notebook, project, chapter, None, site._widgets(project)).cells
    page = cell.outputs[0].data["text/markdown"]
    (place,) = re.findall('<div class="widget-place".*?</div>', page)
    assert 'data-figure="fig-even-wide-one"' in place
    assert "&lt;Sample&gt;" in place
    assert json.loads(html.unescape(re.findall('data-options="(.*?)"', place)[0])) == {"nonlinearity": "relu"}
    assert page.count("widgets.js") == 1
    (project.root / "book/widgets.yml").write_text(
        yaml.safe_dump([WIDGET | {"figure": "lost"}]), encoding="utf-8"
    )
    with pytest.raises(BuildError, match=r"book/widgets.yml: no figure even/lost"):
        site._widgets(project)


def test_codecheck_lists_every_figure_and_says_where_the_repository_is(tmp_path, monkeypatch):
    shutil.copy(REPOSITORY / "codecheck.yml", tmp_path)
    (tmp_path / "_config.yml").write_text("repository: {url: https://github.com/owner/name}")
    figure = front.Figure("even", "wide_one", tmp_path / "wide_one.png", "Paper A, Fig. 2b.", ("A 2b",))
    monkeypatch.setattr(front, "figures", lambda _: [figure])
    made = front.codecheck(Project(tmp_path))
    assert made["manifest"] == [{"file": "downloads/even/wide_one.png", "comment": "A 2b"}]
    assert made["repository"] == "https://github.com/owner/name"


def test_code_keeps_its_text_and_the_marks_that_have_a_color(tmp_path):
    marked = '<pre><span class="k">if</span><span class="w"> </span><span class="n">a</span>'
    (tmp_path / "page.html").write_text(marked + '<span class="o">&lt;</span><span class="p">(</span></pre>')
    site.unmark_code(tmp_path)
    kept = '<pre><span class="k">if</span> a<span class="o">&lt;</span>(</pre>'
    assert (tmp_path / "page.html").read_text() == kept


def test_a_full_stop_stays_on_the_line_of_its_formula(tmp_path):
    formula = '<span class="math notranslate nohighlight">\\(t\\)</span>'
    (tmp_path / "page.html").write_text(f"<p>the field {formula}. One, {formula} two, ({formula}).</p>")
    site.unmark_code(tmp_path)
    assert (tmp_path / "page.html").read_text() == (
        f'<p>the field <span class="bound">{formula}.</span> One, {formula} two, '
        f'(<span class="bound">{formula}).</span></p>'
    )


def test_styles_of_what_no_page_names_are_left_out(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "page.html").write_text('<p class="kept alone"></p>')
    (tmp_path / "book/page.html").write_text('<p class="deep"></p>')
    (tmp_path / "book/page.js").write_text("element.classList.add('later', `output-${k}`)")
    (tmp_path / "book/page.css").write_text(".deep { left: 0 } .gone { left: 0 }")
    (tmp_path / "theme.css").write_text(
        '@import "a.css"; /* } */ p, .kept:not(.no), .gone { color: red } .gone { content: "}" } '
        "@media print { .later { left: 0 } .gone { left: 0 } .output-3 { left: 0 } } "
        "@media screen { .gone b { left: 0 } } "
        "@font-face { src: url(x) } :is(.kept, .gone) p { top: 0 } .output-2 { left: 0 } .input-2 { left: 0 }"
    )
    site.prune_styles(tmp_path)
    assert (tmp_path / "theme.css").read_text().split("\n") == [
        '@import "a.css";',
        "p,.kept:not(.no){ color: red }",
        "@media print{.later{ left: 0 }",
        ".output-3{ left: 0 }}",
        "@font-face { src: url(x) }",
        ":is(.kept, .gone) p{ top: 0 }",
        ".output-2{ left: 0 }",
    ]
    assert (tmp_path / "book/page.css").read_text() == ".deep{ left: 0 }"


def test_costs_are_those_of_the_latest_run(book, written, tmp_path):
    project = book()
    progress = Progress(project.build, "even")
    progress.begin([])
    progress.end()
    written(project)
    page = (tmp_path / "site/book/_generated/costs.md").read_text(encoding="utf-8")
    assert "<td>even</td><td>0 s</td>" in page


@pytest.mark.parametrize("state", [None, "{", '{"state": "running", "started": 1}'])
def test_a_run_that_did_not_end_here_has_no_cost(tmp_path, state):
    if state:
        (tmp_path / "progress").mkdir()
        (tmp_path / "progress/even.json").write_text(state)
    assert cost(tmp_path, "even") is None


@pytest.mark.parametrize(
    ("source", "tags", "prompt"),
    [
        ("preset = 'quick'", ["parameters", "hide-input"], "Code: parameters"),
        (
            "import jax\nN = 3\nglue('N', N)",
            ["hide-input"],
            "Code: imports and sizes, numbers in the text",
        ),
        ("publish(**one())\nnumbers.judge(x)", ["hide-input"], "Code: figure, checks"),
        ("numbers.bars(x)\nnumbers.judge(y)", ["hide-input"], "Code: figure, checks"),
        ("x = 1", ["hide-input"], "Code: runs"),
        ("x = 1", ["solution"], "Solution"),
        ("import jax", [], None),
    ],
)
def test_toggles_say_what_they_hold(source, tags, prompt):
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": tags})
    sections.with_prompts(nbformat.v4.new_notebook(cells=[cell]))
    assert cell.metadata.get("mystnb", {}).get("code_prompt_show") == prompt


def test_the_latest_earlier_runs_of_a_chapter_are_kept(tmp_path):
    """And those of a chapter whose name begins alike, which are older."""
    chapters = tmp_path / "chapters"
    runs = [f"even-{k:012x}" for k in range(6)]
    for age, name in enumerate([*runs, ".even-begun", "even-more-0123456789ab"]):
        (chapters / name).mkdir(parents=True)
        os.utime(chapters / name, (1e9 - age, 1e9 - age))
    even = Chapter("even", Path("even.py"), (), {}, chapters / runs[0])
    site._forget_old_runs(SimpleNamespace(build=tmp_path, chapters=[even]))
    assert {path.name for path in chapters.iterdir()} == {*runs[:4], "even-more-0123456789ab"}
