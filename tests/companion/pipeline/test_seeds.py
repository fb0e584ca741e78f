"""The ledger of seeds, on records whose fate is known."""

import json

import nbformat
import numpy as np
import pytest
import small_book
from companion.pipeline import __main__ as commands
from companion.pipeline import scoreboard, seeds
from companion.pipeline.project import BuildError, Project

RECORD = small_book.NUMBERS
OFF = RECORD | {"computed": [18.5, 5.6], "passed": False, "because": "1/N"}
SIDE = RECORD | {
    "quantity": "share",
    "headline": False,
    "predicate": "> 0.9",
    "computed": 1.0,
    "expected": None,
}


TABLE = [scoreboard.Row(claim, "", [], True) for claim in ({"id": "A8", "published": "Fig. 4"}, {"id": "D8"})]


def test_how_often_verdicts_and_findings_held_and_how_far_numbers_lay():
    found = seeds.ledger([[RECORD, SIDE], [RECORD, SIDE | {"passed": False}], [OFF, SIDE]])
    assert found["seeds"] == 3
    assert found["claims"] == {"A8": {"reproduced": 1, "in part": 1, "refuted": 1}}
    assert found["findings"]["A8 numbers"] == {"passed": 2, "failed": 1}
    assert found["distances"] == {"count": 6, "beyond": 2, "squares": pytest.approx(5 + 5 + 25 + 16)}
    assert found["headlines"] == {"A8": [-2.0, -2.0, 5.0]}  # of the farthest number, in its direction
    told = "reproduced 1, in part 1, refuted 1 of 3 seeds at quick"
    assert seeds.held({"quick": {"one": found}}, TABLE) == {"A8": told}
    found["claims"]["A8"].pop("refuted")  # its check changed after that run
    told = "reproduced 1, in part 1 of 2 seeds at quick"
    assert seeds.held({"quick": {"one": found}}, TABLE) == {"A8": told}
    found["claims"] = {"D8": {"reproduced": 2}}
    assert seeds.held({"quick": {"one": found}}, TABLE) == {"D8": "holds 2 of 2 seeds at quick"}


BARE = RECORD | {"computed": None, "expected": None, "uncertainty": None, "passed": False}  # not finite


@pytest.mark.parametrize("without", [[BARE], [SIDE], [RECORD | {"uncertainty": None}], []])
@pytest.mark.parametrize("place", range(3))
def test_a_seed_whose_headline_has_no_distance_keeps_its_place(without, place):
    runs, expected = [[RECORD], [OFF]], [-2.0, 5.0]
    runs.insert(place, without)
    expected.insert(place, None)
    assert seeds.ledger(runs)["headlines"] == {"A8": expected}


def test_numbers_that_no_seed_found_right_are_no_test_of_errors():
    """Of a finding that theory fails at every seed; of one that it holds in part they count."""
    assert seeds.ledger([[OFF], [OFF]])["distances"]["count"] == 0
    assert seeds.ledger([[OFF], [RECORD | {"apart": 9.0}]])["distances"]["count"] == 4


def test_a_number_without_scatter_has_no_distance():
    record = RECORD | {"computed": [18.0, 5.8], "uncertainty": [0.0, 0.1]}
    assert seeds.ledger([[record]])["distances"] == {"count": 1, "beyond": 0, "squares": pytest.approx(4)}


def test_a_standard_normal_is_called_one():
    draws = np.random.default_rng(0).standard_normal((50, 40))
    runs = [[RECORD | {"computed": row.tolist(), "expected": 0.0, "uncertainty": 1.0}] for row in draws]
    found = seeds.ledger(runs)
    assert found["distances"]["squares"] / found["distances"]["count"] == pytest.approx(1, abs=0.1)
    said = seeds.summary({"quick": {"one": found}})
    assert "100.0% of 50 verdicts are the same" in said
    assert "over the 2000 numbers of findings that held at least once, with limits in standard" in said
    wide = found | {"distances": {"count": 100, "beyond": 9, "squares": 225.0}}
    assert "has a root mean square of 1.50, and 9.00% lie" in seeds.summary({"quick": {"one": wide}})


def test_nothing_is_said_of_an_empty_ledger(tmp_path):
    project = Project(tmp_path)
    assert seeds.read(project) == {}
    assert seeds.ledgers(project) == {}
    assert seeds.summary({}) == seeds.summary({"quick": {}}) == ""
    assert seeds.summary({"quick": {"one": seeds.ledger([[SIDE]])}}) == ""


@pytest.mark.parametrize("lost", ["claims", "distances", "count", "squares"])
def test_a_spoiled_ledger_is_refused_where_it_is_read(tmp_path, lost):
    row = seeds.ledger([[RECORD]])
    del (row if lost in row else row["distances"])[lost]
    for project in (Project(tmp_path, "quick"), Project(tmp_path, "paper")):
        seeds.path(project).parent.mkdir(exist_ok=True)
        seeds.path(project).write_text(json.dumps({"one": row}))
        for read in (seeds.read, seeds.ledgers):
            with pytest.raises(
                BuildError, match=rf"seeds-{project.preset}.json is spoiled .*make seeds again"
            ):
                read(project)


def test_rows_of_other_chapters_stay(tmp_path):
    (tmp_path / "book").mkdir()
    notebook = tmp_path / "one.ipynb"
    nbformat.write(small_book.notebook([RECORD]), notebook)
    project = Project(tmp_path, "paper")
    seeds.keep(project, "two", [notebook])
    seeds.keep(project, "one", [notebook])  # which a later run replaces
    seeds.keep(project, "one", [notebook, notebook])
    kept = json.loads((tmp_path / "book/seeds-paper.json").read_text())
    assert {name: row["seeds"] for name, row in kept.items()} == {"one": 2, "two": 1}


@pytest.mark.parametrize(("asked", "names"), [([], ["even", "loud"]), (["--name", "loud"], ["loud"])])
def test_a_chapters_row_counts_its_own_notebooks_one_for_each_seed(tmp_path, monkeypatch, asked, names):
    ran, kept = [], []

    def keep(project, name, notebooks):
        kept.append((name, notebooks))
        return {"claims": {}}

    monkeypatch.chdir(small_book.write(tmp_path / "book"))
    monkeypatch.setattr(commands, "_run_once", lambda _, run, parameters, *__: ran.append((run, parameters)))
    monkeypatch.setattr(seeds, "keep", keep)
    monkeypatch.setattr("sys.argv", ["pipeline", "seeds", "--seeds", "2", *asked])
    assert commands.main() == 0
    seen = [(run.name, parameters["seed"]) for run, parameters in ran]
    assert seen == [(name, seed) for name in names for seed in (0, 1)]
    notebooks = [run.notebook for run, _ in ran]
    assert len(set(notebooks)) == 2 * len(names)
    assert kept == [(name, notebooks[2 * k : 2 * k + 2]) for k, name in enumerate(names)]


def test_all_presets_are_told_this_builds_first(tmp_path):
    (tmp_path / "book").mkdir()
    rows = {preset: {"one": seeds.ledger([[RECORD]] * n)} for n, preset in ((3, "paper"), (8, "quick"))}
    for preset, row in rows.items():
        (tmp_path / f"book/seeds-{preset}.json").write_text(json.dumps(row))
    assert [*seeds.ledgers(Project(tmp_path, "quick"))] == ["quick", "paper"]
    found = seeds.ledgers(Project(tmp_path, "paper"))
    assert found == rows
    assert seeds.held(found, TABLE) == {"A8": "reproduced 3 of 3 seeds at paper; reproduced 8 of 8 at quick"}
    first, second = seeds.summary(found).split("Over seeds at preset ")[1:]
    assert "paper 100.0% of 3 verdicts" in first
    assert "quick 100.0% of 8 verdicts" in second
