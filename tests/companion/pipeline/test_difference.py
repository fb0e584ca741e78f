"""Two made-up builds held against each other, and the report of a rerun."""

import json
import os
import shutil
from pathlib import Path

import nbformat
import numpy as np
import pytest
import small_book
from companion.pipeline import claims, difference, front, kept, manifest, reports, scoreboard
from companion.pipeline.project import MANIFEST, BuildError, Project
from small_book import git

RECORD = small_book.NUMBERS
CODES = RECORD | {"id": "B2", "quantity": "codes", "computed": ["1-0"], "expected": None, "uncertainty": None}


def executed(folder, name, told, arrays):
    """A chapter as its execution leaves it."""
    artifacts = folder / "artifacts"
    artifacts.mkdir(parents=True)
    for figure, each in arrays.items():
        np.savez(artifacts / f"{figure}.npz", **each)
        (artifacts / f"{figure}.svg").write_text("<svg/>")
    caption = "Seen. Paper A, Fig. 2a."
    figures = [{"name": figure, "file": f"{figure}.svg", "caption": caption} for figure in arrays]
    nbformat.write(small_book.notebook(told, figures), folder / f"{name}.ipynb")


@pytest.fixture
def builds(tmp_path):
    """Makes a build's folder of one chapter with given records and arrays, and tells its path."""

    def make(name, told, arrays):
        executed(tmp_path / name / "chapters/even-0123456789ab", "even", told, arrays)
        return str(tmp_path / name)

    return make


def compared(a, b):
    with difference.opened(a, "A") as one, difference.opened(b, "B") as other:
        return difference.compare(one, other)


FIGURES = {"line": {"x": [1.0, 2.0], "names": ["a", "b"]}, "other": {"x": [1, 2, 3]}}


def test_the_same_build_differs_in_nothing(builds):
    a, b = (builds(name, [RECORD, CODES], FIGURES) for name in "ab")
    assert compared(a, b) == difference.Difference(2, [], {}, [], [], {}, 2)


def test_numbers_verdicts_and_arrays_that_moved(builds):
    moved = RECORD | {"computed": [18.1, 6.5], "passed": False, "because": "1/N"}
    new = RECORD | {"id": "C3", "quantity": "new"}
    figures = {"line": {"x": [1.0, 2.5], "names": ["a", "b"]}, "other": {"x": [1, 2]}, "third": {"x": [0]}}
    a = builds("a", [RECORD, CODES], FIGURES)
    b = builds("b", [moved, CODES | {"computed": ["0-1"]}, new], figures)
    found = compared(a, b)
    numbers, codes = found.moved
    assert (numbers.id, numbers.quantity, numbers.states) == ("A8", "numbers", ("passed", "failed"))
    assert numbers.away == pytest.approx(0.7 / (0.1 * 2**0.5))
    assert codes.away is None
    assert found.verdicts == {"A8": ("reproduced", "refuted"), "C3": ("not run", "reproduced")}
    assert found.alone == ["C3 new (only in B)"]
    assert found.figures == {
        "even/line": "x differs by up to 0.25 of its largest value",
        "even/other": "x has shape (3,) and (2,)",
        "even/third": "only in B",
    }
    assert found.num_figures == 2


def test_a_chapter_run_alone_is_held_against_its_own(builds, tmp_path):
    whole, alone = builds("a", [RECORD], FIGURES), builds("b", [RECORD], FIGURES)
    executed(tmp_path / "a/chapters/odd-0123456789ab", "odd", [CODES], {"third": {"x": [1.0]}})
    found = compared(whole, alone)
    assert found == difference.Difference(1, [], {}, [], ["odd (only in A)"], {}, 2)
    page = difference.write(found, ("whole", "alone"), tmp_path / "difference").read_text(encoding="utf-8")
    assert "Chapters in one build only, not compared: odd (only in A)." in page
    assert "A: <code>whole</code>, B: <code>alone</code>." in page


@pytest.mark.parametrize("latest", [0, 1, 2])
def test_of_several_runs_of_a_chapter_the_latest_is_the_builds(tmp_path, latest):
    for run in range(3):
        folder = tmp_path / f"build/chapters/even-{run}123456789ab"
        executed(folder, "even", [RECORD | {"computed": run}], {"line": {"x": [run]}})
        os.utime(folder / "even.ipynb", (1e9, 1e9 + (run == latest)))
    with difference.opened(str(tmp_path / "build"), "A") as build:
        assert [record["computed"] for record in build.records] == [latest]
        assert [np.load(path)["x"] for path in build.figures.values()] == [[latest]]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_in_one_build_alone_is_a_difference(builds, value):
    a, b = (
        builds(name, [RECORD], {"line": {"x": x}}) for name, x in (("a", [1.0, 2.0]), ("b", [1.0, value]))
    )
    assert compared(a, b).figures == {"even/line": "x: not finite in other places"}


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [("x", "xy", "y"), ("xy", "x", "y"), ("xy", "xz", "y, z"), ("xz", "xy", "y, z")],
)
def test_an_array_that_one_build_alone_has_is_a_difference(builds, one, other, said):
    a, b = (
        builds(build, [RECORD], {"line": {name: [1.0] for name in names}})
        for build, names in (("a", one), ("b", other))
    )
    assert compared(a, b).figures == {"even/line": f"other arrays: {said}"}


def test_figures_that_differ_are_drawn_from_both_arrays(builds, tmp_path):
    many = np.arange(5000.0)
    one = {
        "line": {"x": [1.0, 2.0], "y": many, "names": ["a", "b"]},
        "same": {"x": [1]},
        "texts": {"x": ["a"]},
    }
    other = one | {"line": {"x": [1.0, 2.0], "y": many + 1, "names": ["a", "b"]}, "texts": {"x": ["b"]}}
    a, b = builds("a", [RECORD], one), builds("b", [RECORD], other)
    with difference.opened(a, "A") as left, difference.opened(b, "B") as right:
        found = difference.compare(left, right)
        drawn = difference.overdraw(left, right, found, tmp_path / "out")
    assert set(found.figures) == {"even/line", "even/texts"}
    assert drawn == {"even/line": tmp_path / "out/even-line.svg"}
    picture = drawn["even/line"].read_text()
    assert "<!-- y -->" in picture
    assert "<!-- x -->" not in picture
    page = difference.write(found, ("a", "b"), tmp_path / "out", drawn).read_text()
    assert '<img alt="even/line: A gray, B orange" src="even-line.svg">' in page


@pytest.mark.parametrize(
    ("shift", "shown"), [(0.0, False), (2.9, False), (3.1, True)], ids=["none", "little", "far"]
)
def test_numbers_of_one_law_are_not_shown_as_moved(builds, shift, shown):
    """By standard errors of the difference; the state stays passed, as the limit is wide."""
    a = builds("a", [RECORD], {})
    b = builds("b", [RECORD | {"computed": [18.1 + shift * 0.1 * 2**0.5, 5.8]}], {})
    assert bool(compared(a, b).moved) == shown


def test_a_check_that_turned_is_shown_though_its_number_hardly_moved(builds):
    a = builds("a", [RECORD], {})
    b = builds("b", [RECORD | {"passed": False, "because": "1/N"}], {})
    (turned,) = compared(a, b).moved
    assert turned.states == ("passed", "failed")
    assert turned.away == 0


def test_rounding_of_numbers_without_errors_is_no_move(builds):
    exact = RECORD | {"computed": [1.0, 2.0], "uncertainty": None, "predicate": "> 0.5"}
    a = builds("a", [exact], {})
    assert not compared(a, builds("b", [exact | {"computed": [1.0 + 1e-9, 2.0]}], {})).moved
    assert compared(a, builds("c", [exact | {"computed": [1.01, 2.0]}], {})).moved
    assert compared(a, builds("d", [exact | {"computed": None}], {})).moved


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_archives_and_published_pages_are_builds(builds, tmp_path, kind):
    a = builds("a", [RECORD], FIGURES)
    pages = tmp_path / "pages/downloads"
    pages.mkdir(parents=True)
    shutil.copy(next((tmp_path / "a").rglob("*.ipynb")), pages)
    shutil.copytree(next((tmp_path / "a").rglob("artifacts")), pages / "even")
    packed = shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "pages")
    assert (
        compared(a, packed)
        == compared(a, str(tmp_path / "pages"))
        == difference.Difference(1, [], {}, [], [], {}, 2)
    )


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """The small book under git, with a record of its chapter; and how to change it and commit."""
    root = small_book.write(tmp_path / "book")
    monkeypatch.chdir(root)

    def commit(record=None, x=()):
        if record:
            folder = root / kept.FOLDER / "even"
            folder.mkdir(parents=True, exist_ok=True)
            told = {"commit": "0" * 12, "date": "2026-11-27", "records": [record], "figures": {}}
            (folder / kept.FILE).write_text(json.dumps(told))
            np.savez_compressed(folder / "line.npz", x=np.asarray(x, np.float32))
        git(root, "add", "--force", ".")
        git(root, "commit", "--quiet", "--allow-empty", "-m", "one")
        return git(root, "rev-parse", "--short", "HEAD")

    git(root, "init", "--quiet")
    return commit


def test_commits_stand_for_the_record_that_they_keep(commits, builds):
    one = commits(RECORD, [1.0, 0.1])
    other = commits(RECORD | {"computed": [18.1, 6.5], "passed": False, "because": "1/N"}, [1.0, 0.2])
    found = compared(one, other)
    assert found.verdicts == {"A8": ("reproduced", "refuted")}
    assert [(row.id, row.away) for row in found.moved] == [("A8", pytest.approx(0.7 / (0.1 * 2**0.5)))]
    assert found.figures == {"even/line": "x differs by up to 0.1 of its largest value"}
    assert compared(other, "HEAD") == compared(".", other) == difference.Difference(1, [], {}, [], [], {}, 1)
    with difference.opened("HEAD~1", "A") as build:
        assert build.called.startswith(f"record of {one}")
    # A run has all digits of its arrays, a record seven
    run = builds("a", [RECORD], {"line": {"x": np.array([1.0, 0.1])}})
    assert compared(run, one).figures == {}


def test_a_commit_without_a_record_stands_for_a_build_of_it_that_is_here(commits, builds):
    pages = Path("_build/quick/html")
    shutil.copytree(builds("a", [RECORD], FIGURES), pages)
    commit = commits()
    for made in ("", f"{commit}-dirty", "0123456"):
        (pages / "scoreboard.json").write_text(json.dumps({"commit": made}))
        with (
            pytest.raises(BuildError, match=f"^B: commit {commit}.* keeps no results in .*, and no build in"),
            difference.opened(commit, "B"),
        ):
            pass
    (pages / "scoreboard.json").write_text(json.dumps({"commit": commit}))
    with difference.opened("HEAD", "B") as build:
        assert build.records == [RECORD]
        assert build.called == f"_build/quick of {commit}"


@pytest.mark.parametrize("given", ["nothing", "0123456", "-h", "--all", "HEAD:book", "HEAD~9"])
def test_what_is_no_commit_is_refused(commits, given):
    commits(RECORD)
    with (
        pytest.raises(BuildError, match="^A must be a folder.*, or a commit; got"),
        difference.opened(given, "A"),
    ):
        pass


HOSTILE = "x|y\n<script>alert(1)</script> `z` **b**"


def test_page_and_summary_hold_text_as_text(builds, tmp_path):
    a = builds("a", [RECORD | {"quantity": HOSTILE}], {})
    b = builds("b", [RECORD | {"quantity": HOSTILE, "computed": [19.0, 7.0]}], {})
    page = difference.write(compared(a, b), ("a", "b"), tmp_path / "out")
    summary = page.with_suffix(".md").read_text()
    assert "<script>" not in page.read_text() + summary
    (row,) = [line for line in summary.splitlines() if line.startswith("| A8 |")]
    assert row.count("|") == 6
    assert "<td>A8</td>" in page.read_text()


@pytest.fixture
def book(tmp_path):
    root = small_book.write(tmp_path / "book")
    (root / "book/claims.yml").write_text("- {id: A8, chapter: even, claim: c, published: p, check: q}\n")
    return root


def finish(root, preset, told):
    chapter = Project(root, preset).chapters[0]
    executed(chapter.folder, "even", told, FIGURES)
    manifest.seal(chapter.folder / MANIFEST, chapter.folder, chapter.made_from)


def test_a_report_holds_machine_versions_times_and_the_record(book):
    with pytest.raises(BuildError, match="no chapter has run"):
        reports.write(Project(book))
    (book / "book/verdicts.yml").write_text("quick: {A8: refuted}\npaper: {A8: reproduced}\n")
    finish(book, "quick", [RECORD])
    manifest.write(book / "_build/quick/progress/even.json", {"started": 0.0, "ended": 61.0, "peak_bytes": 1})
    text = reports.write(Project(book)).read_text()
    for words in ("| cores |", "Python 3.", "jax 0.", "even 1 min 01 s", "| not run | loud |"):
        assert words in text
    assert "1 of 1 verdicts on record came out differently: A8: refuted on record, reproduced here" in text

    before = {"commit": "ab12cd3", "date": "2026-11-25", "records": [RECORD | {"computed": [19.1, 5.8]}]}
    (book / "book/_static/paper/even").mkdir(parents=True)
    (book / "book/_static/paper/even/kept.json").write_text(json.dumps(before | {"figures": {}}))
    finish(book, "paper", [RECORD])
    text = reports.write(Project(book, "paper")).read_text()
    assert "0 of 1 verdicts" in text
    assert "Of 1 numbers on record 1 moved" in text
    assert "| 7.1 |" in text


def test_reports_are_entered_in_the_ledger_of_machines_and_shown_with_the_claim(book, tmp_path):
    finish(book, "quick", [RECORD])
    project = Project(book)
    left = reports.write(project).with_suffix(".json")
    row = json.loads(left.read_text())
    assert row["claims"] == {"A8": {"verdict": "reproduced", "away": -2.0}}
    assert reports.enter(project, left) == book / "book/machines.json"
    other = row | {
        "machine": row["machine"] | {"processor": "<script>`other`</script>"},
        "date": "2026-11-27",
    }
    other["claims"] = {"A8": {"verdict": "in part", "away": 3.5}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    for _ in range(2):  # the same machine has one row
        reports.enter(project, tmp_path / "other.json")
    assert [one["claims"]["A8"]["away"] for one in reports.read(project)] == [3.5, -2.0]
    versions = [{"versions": other["versions"] | {name: "99"}} for name in ("jax", "Python")]
    for change in (*versions, {"preset": "paper"}):  # a row for each version and preset
        before = reports.read(project)
        (tmp_path / "newer.json").write_text(json.dumps(other | change))
        reports.enter(project, tmp_path / "newer.json")
        found = reports.read(project)
        assert len(found) == len(before) + 1
        assert all(row in found for row in [*before, other | change])
    claims.write(project, scoreboard.rows(project), [], {}, tmp_path / "claims")
    page = (tmp_path / "claims/A8.md").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;other&lt;/script&gt;, Python 3." in page
    assert "left: 93.8%" in page
    assert 'verdict-in-part">in part</span>' in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": {"system": "s"}}, "machine lacks processor"),
        ({"versions": 3}, "versions is 3, no dict"),
        ({"claims": {"Z9": {"verdict": "open", "away": None}}}, "there is no claim Z9"),
        ({"claims": {"A8": {"verdict": "great", "away": None}}}, "claim A8 has"),
        ({"claims": {"A8": {"verdict": "open", "away": "far"}}}, "claim A8 has"),
    ],
)
def test_what_is_no_report_is_not_entered(book, tmp_path, change, words):
    finish(book, "quick", [RECORD])
    row = json.loads(reports.write(Project(book)).with_suffix(".json").read_text())
    (tmp_path / "report.json").write_text(json.dumps(row | change))
    with pytest.raises(BuildError, match=f"FROM must be a report.json of make report; .*{words}"):
        reports.enter(Project(book), tmp_path / "report.json")
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(BuildError, match="FROM must be"):
            reports.enter(Project(book), path)
    (book / "book/machines.json").write_text(json.dumps([row | change]))
    with pytest.raises(BuildError, match="machines.json is spoiled"):
        reports.read(Project(book))


def test_json_files_say_their_schema_and_index_all_arrays(book, tmp_path):
    finish(book, "quick", [RECORD])
    project = Project(book)
    begin = scoreboard.about(project, "figures")
    assert begin.keys() == {"$schema", "schema", "preset", "commit", "date"}
    assert (begin["$schema"], begin["schema"]) == ("figures.schema.json", 1)
    line, other = front.index(project)
    assert (line["chapter"], line["figure"]) == ("even", "line")
    assert line["arrays"] == "downloads/even/line.npz"
    assert line["panels"] == ["A 2a"]
    assert line["holds"] == {
        "x": {"shape": [2], "dtype": "float64"},
        "names": {"shape": [2], "dtype": "<U1"},
    }
    assert other["sha256"] == manifest.digest(project.chapters[0].artifacts / "other.npz")


def test_the_commands_end_with_what_they_made(book, builds):
    finish(book, "quick", [RECORD])
    a, b = (builds(name, [RECORD], FIGURES) for name in "ab")
    done = small_book.pipeline(book, "diff", "--", a, b)
    assert done.stdout.splitlines()[-1] == str(book / "_build/difference/difference.html")
    assert f"A: `{a}`, B: `{b}`." in done.stdout
    done = small_book.pipeline(book, "report")
    assert done.stdout.splitlines()[-1] == str(book / "_build/quick/report.md")
