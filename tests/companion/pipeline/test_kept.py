"""What is kept of the preset paper, where other builds show it, and the pages of claims."""

import re

import nbformat
import numpy as np
import pytest
import yaml
from companion import formats
from companion.pipeline import accepted, claims, front, kept, scoreboard, sections
from companion.pipeline.project import BuildError
from PIL import Image
from small_book import REPOSITORY, notebook
from your_own_task import maps

from tests.companion.pipeline.test_scoreboard import FAILED, HEADLINE, RECORD, executed  # noqa: F401

HOSTILE = "```\n</pre><script>alert(1)</script> `x`"


@pytest.fixture
def at_paper(executed):  # noqa: F811
    """Make a project at quick whose chapter has been kept at paper with other numbers."""

    def make(record, at_paper, **claim):
        paper = executed(at_paper, preset="paper", **claim)
        accepted.accept(paper)
        return executed(record, preset="quick", **claim)

    return make


def test_a_check_shows_what_it_found_at_paper(at_paper):
    project = at_paper(HEADLINE, HEADLINE | {"computed": 3.875, "size": {"N": 500}})
    line = kept.line(kept.read(project)["even"], HEADLINE)
    assert "At paper size (N = 500): " in line
    assert "3.875" in line
    assert kept.line(kept.read(project)["even"], HEADLINE | {"quantity": "another"}) == ""
    assert kept.line(None, HEADLINE) == ""
    assert kept.line(kept.read(project)["even"], HEADLINE | {"id": "A2"}) == ""
    data = {formats.CHECK_TYPE: HEADLINE, "text/html": "<details>twice</details></div>"}
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data)])
    shown = sections.with_checks(nbformat.v4.new_notebook(cells=[cell]), kept.read(project)["even"])
    (block,) = [cell.source for cell in shown.cells if "checks" in cell.source]
    assert f"<details>twice{line}</details></div>" in block


def test_findings_of_one_figure_are_told_apart_by_their_quantity(executed):  # noqa: F811
    first, second = (
        record | {"figure": "one", "panel": "A", "quantity": name, "computed": value}
        for record, name, value in ((HEADLINE, "twice two", 3.875), (RECORD, "thrice two", 6.125))
    )
    accepted.accept(project := executed(first, second, preset="paper"))
    found = kept.read(project)["even"]
    assert found.of(first) == first
    assert found.of(second) == second
    assert found.of(second | {"quantity": "twice one"}) is None


def test_a_build_at_paper_shows_its_own_numbers_alone(executed):  # noqa: F811
    project = executed(HEADLINE, preset="paper")
    accepted.accept(project)
    assert kept.beside(project) == {}


def test_what_is_kept_says_when_and_from_which_commit(at_paper):
    found = kept.read(at_paper(RECORD, RECORD))["even"]
    assert found.commit == "unknown"  # a folder that is no repository
    assert found.date in found.stamp


def test_the_arrays_of_figures_are_kept_with_seven_digits(executed):  # noqa: F811
    project = executed(RECORD, preset="paper")
    (chapter,) = project.chapters
    (chapter.artifacts / "one.svg").write_text("<svg/>")
    np.savez(chapter.artifacts / "one.npz", x=np.array([np.pi, 1e-9]), names=np.array(["a"]), n=np.arange(3))
    np.savez(chapter.artifacts / "film.npz", x=np.random.default_rng(0).random(300_000))  # 1.2 MB as kept
    shown = [{"name": name, "file": "one.svg", "caption": "c"} for name in ("one", "bare", "film")]
    nbformat.write(notebook(figures=shown), chapter.notebook)
    folder = kept.keep(project, chapter)
    figures = kept.read(project)["even"].figures
    assert figures["one"]["arrays"] == "one.npz"
    assert "arrays" not in figures["bare"]
    assert "arrays" not in figures["film"]
    assert [path.name for path in folder.glob("*.npz")] == ["one.npz"]
    with np.load(folder / "one.npz") as arrays:
        np.testing.assert_allclose(arrays["x"], [np.pi, 1e-9], rtol=1e-7)
        assert {name: array.dtype.kind for name, array in arrays.items()} == {
            "x": "f",
            "names": "U",
            "n": "i",
        }
        assert arrays["x"].itemsize == 4


def test_what_the_last_run_did_not_publish_is_kept_no_longer(executed):  # noqa: F811
    project = executed(RECORD, preset="paper")
    (chapter,) = project.chapters
    for names in (("old", "same"), ("same", "new"), ()):
        for name in names:
            (chapter.artifacts / f"{name}.svg").write_text("<svg/>")
            np.savez(chapter.artifacts / f"{name}.npz", x=np.arange(3))
        shown = [{"name": name, "file": f"{name}.svg", "caption": "c"} for name in names]
        nbformat.write(notebook(figures=shown), chapter.notebook)
        folder = kept.keep(project, chapter)
        files = {f"{name}.{kind}" for name in names for kind in ("svg", "npz")}
        assert {path.name for path in folder.iterdir()} == {kept.FILE} | files
        assert set(kept.read(project)["even"].figures) == set(names)


def test_a_claim_has_a_page_of_its_own(at_paper, tmp_path):
    project = at_paper(FAILED, HEADLINE)
    (project.root / "book/changed_checks.md").write_text(
        "| claim | before | now | why |\n|---|---|---|---|\n"
        "| A1, A2 | ten | $N \\to 20$ | small |\n| A3 | x | y | z |\n"
    )
    folder = tmp_path / "claims"
    (tmp_path / "_config.yml").write_text("title: small\n")
    row = {"seeds": 8, "claims": {"A1": {"reproduced": 7, "in part": 1}}}
    ledgers = {
        "quick": {"even": row | {"headlines": {"A1": [0.5, None, -9.0]}}},
        "paper": {"even": {"seeds": 8, "claims": {"A1": {"reproduced": 7}}, "headlines": {"A1": [1.0]}}},
    }
    claims.write(project, scoreboard.rows(project), [], ledgers, folder)
    page = (folder / "A1.md").read_text()
    assert page.startswith("---\norphan: true\n---\n\n# A1. c\n")
    for shown in (
        "too few",
        ">reproduced</span> at paper size",
        "reproduced 7, in part 1 of 8 seeds at quick; reproduced 7 of 7 at paper",
        "At paper size (N = 3)",
    ):
        assert shown in page
    assert page.count("\n```") == page.count("```") // 4  # each fence begins a line
    assert "\n| ten | $N \\to 20$ | small |\n" in page
    assert "| x |" not in page
    assert "title        = {Claim A1: c}," in page
    rows = re.findall(r'<th scope="row">(.*?)</th>.*?left: (.*?)%.*?<td>(.*?)</td>', page)
    assert rows == [
        ("seed 0, quick", "56.2", "+0.5"),
        ("seed 2, quick", "0.0", "−9.0"),
        ("seed 0, paper", "62.5", "+1.0"),
    ]


def test_a_claim_shows_the_figure_of_its_own_panels(executed, tmp_path):  # noqa: F811
    project = executed(RECORD)
    (tmp_path / "_config.yml").write_text("title: small\n")
    panels = [{"panel": f"A {k}", "shows": "s", "claims": [f"A{k}"]} for k in (1, 2)]
    (tmp_path / "book/panels.yml").write_text(yaml.safe_dump(panels))
    Image.new("RGB", (4, 4)).save(tmp_path / "beside.png")
    for panel in ("A 1", "A 2"):
        figure = front.Figure("even", "beside", tmp_path / "beside.png", "c", (panel,))
        claims.write(project, scoreboard.rows(project), [figure], {}, tmp_path / panel)
        assert ("beside.png" in (tmp_path / panel / "A1.md").read_text()) == (panel == "A 1")


def test_the_claims_of_the_schemes_lead_to_the_maps_of_where_they_stop(executed, tmp_path, monkeypatch):  # noqa: F811
    listed = yaml.safe_load((REPOSITORY / "book/claims.yml").read_text(encoding="utf-8"))
    chapters = {claim["id"]: claim["chapter"] for claim in listed}
    assert {chapters[id]: scheme for id, scheme in claims.MAPPED.items()} == {
        scheme: scheme for scheme in maps.SCHEMES.values()
    }
    assert '"scheme_maps"' in (REPOSITORY / "notebooks/your_own_task/chapter.py").read_text(encoding="utf-8")
    project = executed(RECORD)
    (tmp_path / "_config.yml").write_text("title: small\n")
    monkeypatch.setattr(claims, "MAPPED", {"A1": "analog"})
    figure = front.Figure("your_own_task", "scheme_maps", tmp_path / "scheme_maps.png", "Every scheme ends.")
    for name, figures in (("none", []), ("maps", [figure])):
        claims.write(project, scoreboard.rows(project), figures, {}, tmp_path / name)
    place = "../../notebooks/your_own_task.html#fig-your-own-task-scheme-maps"
    assert f'<dt>Where it stops</dt><dd><a href="{place}">' in (tmp_path / "maps/A1.md").read_text()
    assert "Where it stops" not in (tmp_path / "none/A1.md").read_text()


def quoted(project, prose):
    return claims.quoted(project, scoreboard.standings(project, scoreboard.rows(project)), prose)


def test_prose_quotes_a_claims_headline_at_paper(at_paper):
    project = at_paper(HEADLINE, HEADLINE | {"computed": 3.875, "size": {"N": 500}})
    said = quoted(project, "So it is.\n\n{claim}`A1`\n")
    assert said.startswith(
        "So it is.\n\n[A1](claims/A1.md) · reproduced at paper size · twice two (N = 500): "
    )
    assert "3.875" in said


def test_of_several_quantities_with_a_name_the_first_is_quoted():
    both = [HEADLINE | {"quantity": name} for name in ("twice two", "twice two again", "thrice")]
    found = scoreboard.Standing(scoreboard.Row({"id": "A1"}, "even", [], True), both, "open", "here", None)
    assert [claims._named(found, part)["quantity"] for part in ("twice", "again", "thrice")] == [
        one["quantity"] for one in both
    ]


def test_prose_quotes_the_verdict_at_paper_where_this_build_has_another(at_paper):
    project = at_paper(FAILED, HEADLINE)
    said = quoted(project, "{claim}`A1`\n")
    assert said.startswith("[A1](claims/A1.md) · reproduced at paper size · ")


@pytest.mark.parametrize(
    "quote", ["{claim}`A2`", "{result}`A2 figure; twice`", "{found}`A2 twice`", "{altered}`A2[1] twice`"]
)
def test_a_quote_of_a_claim_that_is_not_listed_is_named_as_it_stands(at_paper, quote):
    project = at_paper(HEADLINE, HEADLINE)
    with pytest.raises(BuildError, match=f"^{re.escape(quote)}: no claim A2 in book/claims.yml$"):
        quoted(project, f"So it is.\n\n{quote}\n")


def test_prose_quotes_a_number_and_what_its_control_makes_of_it(at_paper):
    kept = HEADLINE | {
        "computed": [[3.0, 4.5], [3.5, 4.0]],
        "control": RECORD["control"] | {"computed": [9.0, 8.0]},
    }
    project = at_paper(HEADLINE, kept)
    prose = "{found}`A1 twice`, {found}`A1[1] twice`; {altered}`A1 twice`, {altered}`A1[0] twice`"
    assert quoted(project, prose) == "3 to 4.5, 4 to 4.5; 8 to 9, 9"
    with pytest.raises(BuildError, match="A1 has no quantity 'thrice' at paper size"):
        quoted(project, "{found}`A1 thrice`")
    with pytest.raises(BuildError, match="has no figure 'none'"):
        quoted(project, "{result}`A1 none`")


def test_texts_of_others_stay_texts_on_a_claims_page(executed, tmp_path):  # noqa: F811
    record = RECORD | {"quantity": HOSTILE, "note": HOSTILE}
    project = executed(record, claim=HOSTILE, published=HOSTILE, check=HOSTILE)
    (tmp_path / "_config.yml").write_text("title: small\n")
    claims.write(project, scoreboard.rows(project), [], {}, tmp_path / "claims")
    page = (tmp_path / "claims/A1.md").read_text()
    assert "<script>" not in page
    assert page.count("```") == 3 * 2 * 4


def test_a_claim_that_nobody_has_judged(executed):  # noqa: F811
    project = executed(RECORD)
    assert claims.chapter_of(project, "A1") == "even"
    with pytest.raises(BuildError, match="ID must be a claim of book/claims.yml, A1; got 'a1'"):
        claims.chapter_of(project, "a1")
    (project.root / "book/claims.yml").write_text("[{id: A1, chapter: odd}]")
    with pytest.raises(BuildError, match="the chapter of A1, odd, is not written"):
        claims.chapter_of(project, "A1")
