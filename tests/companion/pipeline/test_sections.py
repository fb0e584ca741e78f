"""What a page shows of a chapter: a line of checks per section, the set-up at the end, solutions closed."""

from types import SimpleNamespace

import nbformat
from companion import formats
from companion.pipeline import sections, theme
from companion.pipeline.project import Project
from docutils import nodes
from docutils.utils import new_document
from small_book import RECORD, lay


def test_pages_that_no_contents_list_share_a_sidebar_within_a_folder_and_of_one_form():
    """Its links are relative to the folder; a listed page is marked in its own."""
    made, app = [], SimpleNamespace(config=SimpleNamespace(root_doc="intro"))
    make = lambda name, collapse=True, **options: made.append(name) or f"{name} {collapse} {options}"  # noqa: E731
    app.builder, app.env = SimpleNamespace(_get_local_toctree=make), SimpleNamespace()
    app.env.toctree_includes = {"intro": ["a/listed"]}
    theme._one_sidebar_for_all_outside(app)
    sidebar = app.builder._get_local_toctree
    names = ["a/x", "a/listed", "a/y", "b/x", "x", "intro", "b/y", "a/b/x"]
    shown = ["a/x", "a/listed", "a/x", "b/x", "x", "intro", "b/x", "a/b/x"]
    for collapse, options in ((True, {}), (False, {}), (True, {"maxdepth": 1}), (True, {"maxdepth": 2})):
        assert [sidebar(name, collapse, **options) for name in names] == [
            f"{name} {collapse} {options}" for name in shown
        ]
    assert len(made) == 4 * 6
    theme._one_sidebar_for_all_outside(SimpleNamespace(builder=SimpleNamespace()))  # of other builders


def code(*records, source="x = 1", tags=()):
    outputs = [
        nbformat.v4.new_output("display_data", {formats.CHECK_TYPE: record, "text/html": f"<p>{k}</p>"})
        for k, record in enumerate(records)
    ]
    outputs.append(nbformat.v4.new_output("stream", text="said"))
    return nbformat.v4.new_code_cell(source, outputs=outputs, metadata={"tags": list(tags)})


def markdown(text):
    return nbformat.v4.new_markdown_cell(text)


def test_checks_of_a_section_are_one_closed_line_at_its_end():
    failed = RECORD | {"passed": False, "quantity": "their scatter", "because": "small"}
    cells = [markdown("# T"), code(RECORD), markdown("more"), code(failed), markdown("## Next"), code(RECORD)]
    notebook = sections.with_checks(nbformat.v4.new_notebook(cells=cells))
    sources = [cell.source for cell in notebook.cells]
    lines = [source for source in sources if "<details" in source]
    assert len(lines) == 2
    assert "1 of 2 checks passed, 1 failed: ✓ numbers &lt;of&gt; neurons; ✗ their scatter" in lines[0]
    assert lines[0].count("<p>") == 2
    assert 'class="checks checks-failed"' in lines[0]
    assert 'class="checks checks-passed"' in lines[1]
    assert "1 check passed: ✓" in lines[1]
    assert sources.index(lines[0]) < sources.index("## Next") < sources.index(lines[1])
    assert sum('<span id="recorded-a8"></span>' in source for source in sources) == 1
    kept = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output.output_type for output in kept] == ["stream"] * 3
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


def test_set_up_goes_to_the_end_and_solutions_are_closed():
    cells = [
        markdown("# T"),
        code(source="a = 1", tags=["parameters", "setup"]),
        code(source="b = 2", tags=["setup"]),
    ]
    cells.append(code(source="c = 3", tags=["solution"]))
    notebook = sections.with_setup(sections.with_prompts(nbformat.v4.new_notebook(cells=cells)))
    *_, solution, end = notebook.cells
    assert "a = 1\n\nb = 2" in end.source
    assert [("remove-input" in cell.metadata.get("tags", [])) for cell in cells[1:4]] == [True, True, False]
    assert "hide-cell" in solution.metadata.tags
    assert solution.metadata.mystnb.code_prompt_show == "Solution"
    assert len(sections.with_setup(nbformat.v4.new_notebook(cells=cells[:1])).cells) == 1


def test_exercises_are_found_and_get_anchors():
    asked = "## Exercises\n\n**1.** Predict first: what\nof $y_-$?"
    cells = [markdown("# T\n\n**3.** no exercise"), markdown(asked), code(tags=["solution"])]
    notebook = nbformat.v4.new_notebook(cells=[*cells, markdown("Nothing.\n\n**2.** And why?\n\nBecause.")])
    found = sections.exercises(notebook)
    assert found == [("1", "Predict first: what\nof $y_-$?"), ("2", "And why?")]
    spans = [f'<span id="exercise-{number}"></span>**{number}.** {question}' for number, question in found]
    assert all(span in cell.source for span, cell in zip(spans, notebook.cells[1::2]))
    assert "span" not in notebook.cells[0].source


def test_answers_in_words_are_folded_with_the_solution():
    page, section = new_document("page"), nodes.section()
    page += section

    def question(number):
        return nodes.paragraph(
            "", "", nodes.raw("", f'<span id="exercise-{number}"></span>'), nodes.Text("Why?")
        )

    solutions = [nodes.container(classes=["cell", "tag_solution"]) for _ in range(2)]
    formula, shown = nodes.math_block("", "x"), nodes.container(classes=["cell"])
    section += [question(1), solutions[0], nodes.paragraph("", "Because."), formula]
    section += [question(2), solutions[1], nodes.paragraph("", "So."), shown, nodes.paragraph("", "The end.")]
    theme.fold_answers(page)
    assert [cell.astext() for cell in solutions] == ["Because.\n\nx", "So."]
    assert [child.astext().split(">")[-1] for child in section] == [
        "Why?", "Because.\n\nx", "Why?", "So.", "", "The end.",
    ]  # fmt: skip


def test_a_chapter_may_be_a_folder_and_depends_on_what_it_reads_of_it(tmp_path):
    files = {
        "notebooks/old.py": "from one import runs\n",
        "notebooks/one/chapter.py": "from one import runs\nfrom lib_a import b\n",
        "notebooks/one/runs.py": "import one.more\n",
        "notebooks/one/more.py": "sizes = 'sizes.toml'\n",
        "notebooks/one/unused.py": "",
        "notebooks/shared/no_chapter.py": "",
        "notebooks/one/sizes.toml": "[quick]\n",
        "lib/lib_a/b.py": "x = 1\n",
    }
    project = Project(lay(tmp_path, files))
    assert project.names == ["old", "one"]

    def used(chapter):
        return {str(path.relative_to(tmp_path)) for path in chapter.dependencies}

    old, one = project.chapters
    own = {f"notebooks/one/{name}" for name in ("runs.py", "more.py", "sizes.toml")}
    assert used(one) == own | {"notebooks/one/chapter.py", "lib/lib_a/b.py"}
    assert used(old) == own | {"notebooks/old.py"}
    assert (one.name, one.notebook.name) == ("one", "one.ipynb")
    (tmp_path / "notebooks/one/sizes.toml").write_text("[quick]\nN = 3\n")
    again = Project(tmp_path).chapters
    assert [chapter.folder for chapter in again] != [chapter.folder for chapter in project.chapters]
