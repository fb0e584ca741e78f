"""Verdicts from records, and what others' text can do to the page."""

import json
import re

import pytest
import small_book
import yaml
from companion.pipeline import accepted, scoreboard
from companion.pipeline.project import BuildError, Project

PAGE = "scoreboard"  # of bare_page
CHAPTERS = {"A1": "images", "A2": "adaptive_images", "A10": "images", "B1": "adaptive"}
PANELS = {
    "A1": ["Paper A, Fig. 1"],
    "A2": ["Paper A, Fig. 10", "Paper A, Fig. 2"],
    "A10": ["Paper A, Fig. 2"],
}
RECORD = small_book.RECORD | {"id": "A1", "quantity": "twice two", "control": small_book.CONTROL}
FAILED = RECORD | {"passed": False, "because": "too few"}
BLIND = RECORD | {"control": RECORD["control"] | {"passed": True}}
FINDING = RECORD | {"size": {"N": 3}, "because": "too few"}
HEADLINE = FINDING | {"headline": True}
VERDICTS = {"A1": "open", "A2": "reproduced", "A10": "in part", "B1": "refuted"}
UNSETTLED_BY = {"sampler": {"state": "not shown", "verdict": "R-hat 1.4"}}
UNSETTLED = RECORD | {"sampler": {"state": "not shown", "verdict": "R-hat 1.4"}}


def written():
    """The page of some claims, as the book's is written."""
    listed = {id: {"id": id, "chapter": chapter, "claim": "c"} for id, chapter in CHAPTERS.items()}
    rows = {id: scoreboard.Row(claim, CHAPTERS[id], [], True) for id, claim in listed.items()}
    table = [scoreboard.Standing(row, [], VERDICTS[id], "in this build", None) for id, row in rows.items()]
    return scoreboard.page(table, "quick", panels=PANELS)


BODY = "".join(re.findall(r"```\{raw\} html\n(.*?)\n```", written(), re.DOTALL))


@pytest.fixture
def executed(tmp_path):
    """Make a project whose only chapter has left some records; at a preset."""

    def make(*records, preset="quick", **claim):
        row = {"id": "A1", "chapter": "even", "claim": "c", "published": "p", "check": "k"} | claim
        for name, text in (("book/claims.yml", yaml.safe_dump([row])), ("notebooks/even.py", "")):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        project = Project(tmp_path, preset)
        (chapter,) = project.chapters
        small_book.finish(chapter, records)
        return project

    return make


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([], "not run"),
        ([RECORD], "reproduced"),
        ([RECORD, RECORD], "reproduced"),
        ([RECORD, FAILED], "in part"),
        ([FAILED], "refuted"),
        ([UNSETTLED], "open"),
        ([RECORD, UNSETTLED], "in part"),
        ([BLIND], "open"),
        ([UNSETTLED, FAILED], "in part"),
        # a headline decides, other findings can only lower it
        ([HEADLINE], "reproduced"),
        ([HEADLINE, FINDING], "reproduced"),
        ([HEADLINE, FINDING | {"passed": False}], "in part"),
        ([HEADLINE, FINDING | UNSETTLED_BY], "in part"),
        ([HEADLINE | {"passed": False}, FINDING], "refuted"),
        ([HEADLINE | UNSETTLED_BY, FINDING], "open"),
        ([HEADLINE | UNSETTLED_BY, FINDING | {"passed": False}], "open"),
        ([HEADLINE | {"apart": 6.0}, FINDING], "in part"),
        ([HEADLINE | {"apart": 5.0}, FINDING], "reproduced"),
        ([HEADLINE | {"lacking": "N = 200"}], "open"),
    ],
)
def test_verdict_is_that_of_all_checks(executed, records, verdict):
    (row,) = scoreboard.rows(executed(*records))
    assert row.verdict == verdict


def shown(table, **options):
    """The scoreboard of a build of which nothing is kept."""
    found = [scoreboard.Standing(row, row.records, row.said, "in this build", None) for row in table]
    return scoreboard.page(found, "quick", **options)


def test_up_to_three_numbers_are_shown_with_their_errors_and_more_as_a_range():
    assert scoreboard.span([1.0, 2.0, 3.0], 0.1) == "(1.00(10), 2.00(10), 3.00(10))"
    assert scoreboard.span([1.0, 2.0, 0.5, 3.0], 0.1) == "0.5 to 3"


@pytest.mark.parametrize("records", [[FINDING], [HEADLINE, HEADLINE]])
def test_a_claim_has_one_headline(executed, records):
    with pytest.raises(BuildError, match="A1 needs one finding as its headline"):
        scoreboard.rows(executed(*records))


def test_one_sentence_says_why_the_headline_first(executed):
    (row,) = scoreboard.rows(executed(FINDING | {"passed": False, "because": "b"}, HEADLINE | UNSETTLED_BY))
    assert row.why == "Equilibrium is not shown: R-hat 1.4; 1 of 2 checks fails"
    page = shown([row])
    assert '<p class="scoreboard-why">Equilibrium is not shown: R-hat 1.4; 1 of 2 checks fails</p>' in page


def test_a_failed_check_is_told_before_an_open_one_and_a_wide_limit(executed):
    """Where the headline holds: what else stands in the way must not cover a failure."""
    failed, wide = FINDING | {"passed": False, "because": "b"}, HEADLINE | {"apart": 6.0, "because": "c"}
    (row,) = scoreboard.rows(executed(wide, FINDING | UNSETTLED_BY, failed))
    assert row.why == "1 of 3 checks fails (twice two): b"
    assert row._replace(records=[wide, failed, failed]).why == "2 of 3 checks fail (twice two): b"
    both = [FINDING, HEADLINE | {"passed": False, "because": "c"}]
    assert row._replace(records=both).why == "1 of 2 checks fails: c"
    assert row._replace(records=[wide, FINDING | UNSETTLED_BY]).why == "Equilibrium is not shown: R-hat 1.4"
    assert row._replace(records=[HEADLINE, FINDING]).why == ""


def test_claim_without_a_control_stops_the_build(executed):
    with pytest.raises(BuildError, match="A1 .* has no control"):
        scoreboard.rows(executed(RECORD | {"control": None}))


def test_text_of_others_stays_in_its_place(executed):
    hostile = "x\n```\n# out\n<script>`"
    records = [RECORD | {"quantity": hostile, "note": hostile, "stored": hostile}]
    records.append(
        FAILED | {"because": hostile, "computed": hostile, "expected": hostile, "predicate": hostile}
    )
    project = executed(*records, claim=hostile, published=hostile, check=hostile)
    page = shown(scoreboard.rows(project))
    assert page.count("```") == 6  # of the summary, the reasons and the table
    assert "<script>" not in page
    (row,) = scoreboard.rows(project)
    page = shown([row._replace(chapter=hostile, records=[])])
    assert page.count("```") == 6
    assert "<script>" not in page


def test_export_holds_claims_verdicts_and_records(executed, tmp_path):
    project = executed(RECORD)
    scoreboard.export(project, scoreboard.rows(project), tmp_path / "scoreboard.json")
    found = json.loads((tmp_path / "scoreboard.json").read_text())
    assert found["preset"] == "quick"
    (claim,) = found["claims"]
    assert (claim["id"], claim["published"], claim["verdict"]) == ("A1", "p", "reproduced")
    assert claim["records"] == [RECORD]
    assert claim["stands"] == {"verdict": "reproduced", "place": "in this build", "why": ""}


def test_tiles_filter_and_reason_are_those_at_paper_size_where_that_is_kept(executed):
    paper = executed(FAILED | {"headline": True, "because": "too few"}, preset="paper")
    accepted.accept(paper)
    table = scoreboard.rows(executed(HEADLINE))
    (one,) = scoreboard.standings(Project(paper.root), table).values()
    assert (one.verdict, one.place, one.why) == ("refuted", "at paper size", "too few")
    page = scoreboard.page([one], "quick")
    assert '<a class="verdict verdict-refuted" href="claims/A1.html" title="c: refuted">A1</a>' in page
    assert 'data-paper="A" data-chapter="even" data-figure="" data-verdict="refuted"' in page
    assert "in this build: reproduced" in page
    assert '<p class="scoreboard-why">too few</p>' in page
    (one,) = scoreboard.standings(paper, scoreboard.rows(paper)).values()
    assert (one.verdict, one.place, one.kept) == ("refuted", "in this build", None)
    assert "in this build: " not in scoreboard.page([one], "paper")


def test_the_controls_value_stands_beside_the_one_found(executed):
    control = RECORD["control"] | {"computed": [0.3, 0.1, 0.2, 0.4]}
    (row,) = scoreboard.rows(executed(HEADLINE | {"control": control}))
    line = re.search('<summary><span class="check-mark".*?</summary>', shown([row]), re.DOTALL)[0]
    assert line.count("· control 0.1 to 0.4") == 1
    assert "control " not in shown([row._replace(records=[HEADLINE | {"control": None}])])


def test_seeds_stand_with_the_verdict_and_the_ledger_above(executed):
    page = shown(scoreboard.rows(executed(RECORD)), held={"A1": "7 of 8 seeds"}, ledger="All <b>")
    assert '<span class="verdict-paper">7 of 8 seeds</span>' in page
    assert "All &lt;b&gt;" in page


def test_changed_checks_and_scoreboard_link_to_each_other(executed):
    history, changed = scoreboard.link_history("A1 in text\n| A1, A2 | before |\n| A1 | later, see A3 |\n")
    assert changed == {"A1", "A2"}
    first = '<a id="changed-a1" href="scoreboard.html#claim-a1">A1</a>'
    second = '<a id="changed-a2" href="scoreboard.html#claim-a2">A2</a>'
    again = '<a href="scoreboard.html#claim-a1">A1</a>'
    assert history == f"A1 in text\n| {first}, {second} | before |\n| {again} | later, see A3 |\n"
    table, link = scoreboard.rows(executed(RECORD)), 'href="changed_checks.html#changed-a1"'
    assert link in shown(table, changed=changed)
    assert link not in shown(table, changed={"A2"})


def test_difference_is_the_largest_in_standard_errors(executed):
    """Not that of the element closest to its limit, which may be nearer to theory."""
    off, none = RECORD | {"apart": 2.0}, RECORD | {"apart": None}
    many = RECORD | {"computed": [4.0, 4.3], "expected": [4.0, 4.0], "uncertainty": [0.1, 0.1], "apart": 3.0}
    many["worst"] = {"of": 2, "computed": 4.0, "expected": 4.0, "uncertainty": 0.1}
    (row,) = scoreboard.rows(executed(off, many, none))
    assert scoreboard.difference(row) == 3
    assert scoreboard.difference(row._replace(records=[none])) is None


def test_what_no_paper_has_holds_and_is_not_reproduced():
    assert scoreboard.said({"published": "Fig. 1"}, "reproduced") == "reproduced"
    assert scoreboard.said({"published": None}, "reproduced") == scoreboard.HOLDS
    assert scoreboard.said({"published": None}, "refuted") == "refuted"


@pytest.mark.pages
@pytest.mark.slow
def test_filters_show_the_claims_that_have_what_is_chosen_and_no_part_of_it(visit, address):
    """Rows and reasons, of every choice alone: images are not adaptive_images, Fig. 1 is not Fig. 10."""
    page = visit(address)
    first = "row.querySelector('a').textContent.split(' ')[0]"
    shown = f"all => all.filter(row => !row.hidden).map(row => {first})"
    values = {
        "paper": {id: [id[0]] for id in CHAPTERS},
        "chapter": {id: [chapter] for id, chapter in CHAPTERS.items()},
        "figure": {id: PANELS.get(id, []) for id in CHAPTERS},
        "verdict": {id: [verdict] for id, verdict in VERDICTS.items()},
    }
    for name, of in values.items():
        select = page.locator(f"select[name={name}]")
        offered = select.locator("option").evaluate_all("all => all.map(({ value }) => value)")
        assert set(offered) == {"", *(one for each in of.values() for one in each)}
        for value in offered:
            select.select_option(value)
            wanted = [id for id in CHAPTERS if not value or value in of[id]]
            rows, reasons = (
                page.locator(part).evaluate_all(shown)
                for part in ("table.scoreboard tbody tr", ".scoreboard-reasons > p")
            )
            assert rows == wanted, value
            assert reasons == [id for id in wanted if VERDICTS[id] != "reproduced"], value
            assert page.locator("output").inner_text() == f"{len(wanted)} of {len(CHAPTERS)} claims"
        select.select_option("")
