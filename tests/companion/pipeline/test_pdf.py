"""The whole book in one file: every page, links to places in it, and a clear word where nothing prints."""

import re
import shutil

import pytest
from companion.pipeline import pdf
from companion.pipeline.project import BuildError, Project
from small_book import pipeline

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("pipeline")]


def test_the_joined_page_holds_every_page_and_its_links_lead_to_places_in_it(built_book):
    page = pdf.joined(Project(built_book))
    for title in ("A small book", "Even numbers", "Loud words", "Scoreboard"):
        assert re.search(rf"<h1>{title}", page)
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    files = set(re.findall(r'(?:src|href)="([^"#]+)"', page))
    assert "_images/line.svg" in files
    missing = [file for file in files if not (Project(built_book).html / file.partition("?")[0]).exists()]
    assert [file for file in missing if not file.startswith(("http", "data:"))] == []
    assert 'loading="lazy"' not in page


def test_prints_one_pdf(built_book):
    if not any(map(shutil.which, pdf.BROWSERS)):
        pytest.skip("no Chromium or Chrome found: nothing was printed")
    pages = sorted((built_book / "_build/quick/html").iterdir())
    done = pipeline(built_book, "pdf")
    (path,) = re.findall(r"\S+book\.pdf", done.stdout)
    content = (built_book / path).read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b(?!s)", content)) >= 5
    assert b"/Dest" in content or b"/GoTo" in content  # links inside
    for named in (b"/Outlines", b"/StructTreeRoot", b"/Marked true", b"/Lang"):
        assert named in content, named
    outline = [title.decode() for title in re.findall(rb"/Title \(([^)]*)\)\s*/", content)]
    pages_listed = ["A small book", "Even numbers", "Loud words", "Scoreboard"]
    assert [title for title in outline if title in pages_listed] == pages_listed
    assert sorted((built_book / "_build/quick/html").iterdir()) == pages


def test_says_what_is_missing(built_book, monkeypatch, tmp_path):
    with pytest.raises(BuildError, match="no pages built yet; run make book PRESET=paper"):
        pdf.build(Project(built_book, "paper"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="needs Chromium or Chrome"):
        pdf.build(Project(built_book))
