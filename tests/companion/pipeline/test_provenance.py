"""Each figure says where it comes from, and the pages are a research object that tells programs the same."""

import hashlib
import json
import re

import nbformat
import pytest
import yaml
from companion import formats
from companion.pipeline import crate, execution, front, manifest, provenance
from companion.pipeline.project import Project

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("pipeline")]


def lines(built_book):
    page = (built_book / "_build/quick/html/notebooks/even.html").read_text(encoding="utf-8")
    return re.findall(r'<p class="figure-made">(.*?)</p>', page, re.DOTALL)


def test_each_figure_has_one_line_that_says_what_made_it(built_book):
    source = (built_book / "notebooks/even.py").read_text().splitlines()
    downloads = built_book / "_build/quick/html/downloads/even"
    told = lines(built_book)
    assert len(told) == 3
    for name, line in zip(("line", "matrix", "film"), told, strict=True):
        text = re.sub("<[^>]*>", "", line)
        place, preset, seed, machine, took, arrays = text.split(" · ")
        row = int(re.fullmatch(r"even\.py, line (\d+)", place)[1])
        assert f'"{name}"' in source[row - 1]
        assert (preset, seed) == ("preset quick", "seed 0")
        assert re.fullmatch(r"\w+ \w+, Python 3\.\d+", machine)
        state = json.loads((built_book / "_build/quick/progress/even.json").read_text())
        assert took == f"run in {round(state['ended'] - state['started'])} s"
        digest = hashlib.sha256((downloads / f"{name}.npz").read_bytes()).hexdigest()
        assert arrays == f"arrays {digest[:12]}"


def test_what_is_handed_to_a_chapter_is_said_and_not_its_default():
    """On the line under its figures, and in the records of its findings."""
    cell, output = nbformat.v4.new_code_cell, nbformat.v4.new_output
    cells = [
        cell('preset = "quick"  # or paper\nseed: int = 0', metadata={"tags": ["parameters"]}),
        cell('# Parameters\npreset = "paper"\nseed = 3', metadata={"tags": ["injected-parameters"]}),
        cell("seed = 9", outputs=[output("display_data", {formats.CHECK_TYPE: {"id": "A1"}})]),
    ]
    for given, preset, seed in ((cells, "paper", 3), ([cells[0], cells[2]], "quick", 0)):
        notebook = nbformat.v4.new_notebook(cells=given)
        assert provenance.settings(notebook) == {"preset": preset, "seed": str(seed)}
        execution._stamp(notebook)
        (shown,) = given[-1].outputs
        assert shown.data[formats.CHECK_TYPE] == {"id": "A1", "preset": preset, "seed": seed}


def test_the_machine_is_that_of_the_manifest(built_book, tmp_path, monkeypatch):
    """A restored chapter may be another's."""
    chapter = Project(built_book).chapters[0]
    spoiled = tmp_path / "not/yet/manifest.json"
    monkeypatch.setattr(type(chapter), "manifest", spoiled)
    assert provenance.machine(chapter) == ""
    manifest.write(spoiled, {"made_from": {"Python": "(3, 14) Darwin arm64"}})
    assert provenance.machine(chapter) == "Darwin arm64, Python 3.14"


def test_the_time_is_that_of_the_run_that_left_the_results(built_book, tmp_path, monkeypatch):
    """They may be another's, or of an earlier state of the sources."""
    project = Project(built_book)
    chapter = project.chapters[0]
    assert provenance.seconds(project, chapter)
    monkeypatch.setattr(Project, "build", tmp_path)
    assert provenance.seconds(project, chapter) is None
    finished = chapter.manifest.stat().st_mtime
    for started, ended, said in ((-63, 1, 64), (1, 2, None), (-2, -1, None), ("then", 1, None)):
        state = {"started": finished + started if started != "then" else started, "ended": finished + ended}
        manifest.write(tmp_path / "progress/even.json", state)
        assert provenance.seconds(project, chapter) == said


@pytest.fixture
def graph(built_book):
    described = json.loads((built_book / "_build/quick/html" / crate.FILE).read_text(encoding="utf-8"))
    entities = {entity["@id"]: entity for entity in described["@graph"]}
    assert len(entities) == len(described["@graph"])
    return entities


def references(value):
    """What an entity points to, however deep."""
    if isinstance(value, dict) and set(value) == {"@id"}:
        return [value["@id"]]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for one in values for found in references(one)]


def test_the_crate_holds_what_its_specification_asks_for(graph):
    """RO-Crate 1.1; `rocrate-validator` looks at the whole book every week."""
    about, root = graph[crate.FILE], graph["./"]
    assert about["@type"] == "CreativeWork"
    assert about["about"] == {"@id": "./"}
    assert about["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["@type"] == "Dataset"
    assert root["name"].startswith("Coding schemes")
    assert root["description"]
    assert re.match(r"\d{4}", root["datePublished"])
    assert [graph[id["@id"]]["name"] for id in root["license"]] == ["MIT", "CC-BY-4.0"]
    assert all(entity["@type"] and entity.get("name", about is entity) for entity in graph.values())
    outside = {"https://w3id.org/ro/crate/1.1"}
    assert {id for entity in graph.values() for id in references(entity)} - set(graph) == outside


def test_every_file_of_the_crate_is_there_with_the_digest_of_its_manifest(graph, built_book):
    pages = built_book / "_build/quick/html"
    files = {id: entity for id, entity in graph.items() if entity["@type"] == "File"}
    assert {"downloads/even.ipynb", "downloads/even.json", "downloads/even/line.npz"} <= files.keys()
    assert sorted(references(graph["./"]["hasPart"])) == sorted(files)
    for name, entity in files.items():
        content = (pages / name).read_bytes()
        assert entity["contentSize"] == str(len(content))
        if name.startswith("downloads"):
            assert entity["sha256"] == hashlib.sha256(content).hexdigest()


def test_the_pages_say_how_to_cite_this_build(built_book, monkeypatch):
    cited = yaml.safe_load((built_book / "_build/quick/html/CITATION.cff").read_text(encoding="utf-8"))
    own = yaml.safe_load((built_book / "CITATION.cff").read_text(encoding="utf-8"))
    assert {name: cited[name] for name in own} == own
    assert "repository-code" not in own
    known = {"repository": "https://github.com/owner/name", "commit": "ab12c3d-dirty"}
    for name, value in (known | {"commit_date": "2026-11-26"}).items():
        monkeypatch.setattr(Project, name, value)
    added = {name: value for name, value in front.citation(Project(built_book)).items() if name not in own}
    assert added == {
        "repository-code": "https://github.com/owner/name",
        "url": "https://owner.github.io/name",
        "commit": "ab12c3d",
        "date-released": "2026-11-26",
    }


def test_each_run_says_what_was_run_with_what_and_what_came(graph):
    runs = {entity["name"]: entity for entity in graph.values() if entity["@type"] == "CreateAction"}
    assert set(runs) == {"Run of the chapter even", "Run of the chapter loud"}
    assert sorted(references(graph["./"]["mentions"])) == sorted(run["@id"] for run in runs.values())
    run = runs["Run of the chapter even"]
    assert graph[run["instrument"]["@id"]]["name"] == "notebooks/even.py"
    given = {graph[id]["name"]: graph[id]["value"] for id in references(run["object"])}
    assert given == {"preset": "quick", "seed": "0"}
    made = references(run["result"])
    assert "downloads/even/film.npz" in made
    assert all(name.startswith("downloads/even") for name in made)
