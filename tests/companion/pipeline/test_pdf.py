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
    joined = pdf.listed_pages(Project(built_book).told("_toc.yml"))
    assert [name for name in joined if f'href="{name}.html' in page] == []
    files = set(re.findall(r'(?:src|href)="([^"#]+)"', page))
    assert "_images/line.svg" in files
    missing = [file for file in files if not (Project(built_book).html / file.partition("?")[0]).exists()]
    assert [file for file in missing if not file.startswith(("http", "data:"))] == []
    assert 'loading="lazy"' not in page


def test_links_to_other_files_lead_online_or_nowhere(built_book, monkeypatch):
    """A relative link would carry the folder of whoever printed the book."""
    project = Project(built_book)
    for online, found in ((None, set()), ("https://a.org/book", {"https://a.org/book/book/claims/A1.html"})):
        monkeypatch.setattr(Project, "pages_address", online)
        linked = set(re.findall(r'<a [^>]*href="([^"#]+)"', pdf.joined(project)))
        assert found <= linked
        assert all(link.startswith("http") for link in linked), linked


prints = pytest.mark.skipif(
    not any(map(shutil.which, pdf.BROWSERS)), reason="no Chromium or Chrome found: nothing is printed"
)


def outline(content):
    return [title.decode() for title in re.findall(rb"/Title \(([^)]*)\)\s*/", content)]


@prints
def test_prints_one_pdf(built_book):
    pages = sorted((built_book / "_build/quick/html").iterdir())
    done = pipeline(built_book, "pdf")
    (path,) = re.findall(r"\S+book\.pdf", done.stdout)
    content = (built_book / path).read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b(?!s)", content)) >= 5
    assert b"/Dest" in content or b"/GoTo" in content  # links inside
    for named in (b"/Outlines", b"/StructTreeRoot", b"/Marked true", b"/Lang"):
        assert named in content, named
    pages_listed = ["A small book", "Even numbers", "Loud words", "Scoreboard"]
    assert [title for title in outline(content) if title in pages_listed] == pages_listed
    told = re.findall(rb"/Alt \(((?:\\.|[^)])*)\)", content)
    assert {b"2 x", rb"\(1\) n = 2 x", b"Two by two"} <= set(told)
    assert sorted((built_book / "_build/quick/html").iterdir()) == pages


@prints
def test_a_heading_on_two_lines_or_on_top_of_a_page_stands_in_the_outline_as_it_is(built_book, tmp_path):
    book = shutil.copytree(built_book, tmp_path / "book")
    page = book / "_build/quick/html/book/scoreboard.html"
    heading = " ".join(["a heading that needs two lines"] * 6)
    top = f'<h2 style="break-before: page">{heading}</h2>'
    article, rest = page.read_text("utf-8").split("</article>")
    page.write_text(f"{article}{top}</article>{rest}", encoding="utf-8")
    assert heading in outline(pdf.build(Project(book)).read_bytes())


def test_says_what_is_missing(built_book, monkeypatch, tmp_path):
    with pytest.raises(BuildError, match="no pages built yet; run make book PRESET=paper"):
        pdf.build(Project(built_book, "paper"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="needs Chromium or Chrome"):
        pdf.build(Project(built_book))
