"""The whole book as one PDF: its built pages joined into one, printed by a Chromium that is installed."""

import posixpath
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from companion.pipeline.front import listed_pages
from companion.pipeline.project import BuildError, Project
from companion.pipeline.rendering import render

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-pdf-header-footer"),
    # For readers who look for a page, or cannot see
    *("--generate-pdf-document-outline", "--export-tagged-pdf"),
]


def build(project: Project) -> Path:
    """Print the built pages into one file.

    Raises:
        BuildError: If no browser is installed, the pages are not built, or printing fails.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise BuildError(
            f"A PDF needs Chromium or Chrome on the PATH; none of {', '.join(BROWSERS)} was found."
        )
    if not (project.html / "index.html").is_file():
        raise BuildError(f"no pages built yet; run make book PRESET={project.preset} first")
    target = project.build / "book.pdf"
    target.unlink(missing_ok=True)
    page = project.html / "whole-book.html"  # beside the pages, whose images and styles it shows
    try:
        page.write_text(joined(project), encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="book-") as profile:
            places = [f"--user-data-dir={profile}", f"--print-to-pdf={target}", page.as_uri()]
            done = subprocess.run([browser, *_FLAGS, *places], capture_output=True, text=True)
    finally:
        page.unlink(missing_ok=True)
    if done.returncode or not target.is_file():
        raise BuildError(f"{browser} printed no PDF:\n{done.stderr[-2000:]}")
    return target


def joined(project: Project) -> str:
    """All pages of the table of contents in one, links between them pointing to the places in it."""
    names = listed_pages(project.told("_toc.yml"))
    pages = {
        f"{name}.html": BeautifulSoup((project.html / f"{name}.html").read_bytes(), "html.parser")
        for name in names
    }
    first = next(iter(pages))
    head = list(pages[first].find_all("link", rel="stylesheet"))
    head += [
        script
        for script in pages[first].find_all("script")
        if "window.MathJax" in script.get_text() or "mathjax.js" in str(script.get("src"))
    ]
    made = pages[first].find(class_="extra_footer")
    for tag in head:
        _move(tag, first, set(), None)
    online = project.pages_address
    articles = {_anchor(name): _article(name, page, set(pages), online) for name, page in pages.items()}
    return render(
        "whole_book.html",
        title=project.config.get("title", ""),
        head="\n".join(map(str, head)),
        made=made.decode_contents().strip() if made else "",
        contents={anchor: page.h1.get_text() if page.h1 else "" for anchor, page in articles.items()},
        articles="\n".join(map(str, articles.values())),
    )


def _anchor(page: str, place: str = "") -> str:
    return re.sub(r"[^\w-]", "-", f"{page.removesuffix('.html')}--{place}")


def _article(name: str, page: BeautifulSoup, pages: set[str], online: str | None) -> Tag:
    """What a page says, without what only a screen can use."""
    article = page.article
    assert article is not None, name
    for useless in article.select("script, .headerlink"):
        useless.decompose()
    for tag in article("noscript"):
        tag.unwrap()
    for formula in article(class_="math"):  # what is drawn has no letters; a reader is told the TeX
        written = re.sub(r"\\[()\[\]]", " ", formula.get_text())
        formula["role"], formula["aria-label"] = "img", " ".join(written.split())
    for tag in [article, *article(True)]:
        if "id" in tag.attrs:
            tag["id"] = _anchor(name, str(tag["id"]))
        if "loading" in tag.attrs:
            del tag["loading"]
        _move(tag, name, pages, online)
    article["id"], article["class"] = _anchor(name), "bd-article"
    return article


def _move(tag: Tag, name: str, pages: set[str], online: str | None) -> None:
    """Point what a page's tag links to from the root; to joined pages, to places in this one.

    A link to a file beside the pages leads to the published book, or nowhere: relative, it would carry the
    folder of the machine that prints.
    """
    for key in {"href", "src"} & tag.attrs.keys():
        parts = urllib.parse.urlsplit(str(tag[key]))
        if not parts.scheme and not parts.netloc:
            path = posixpath.normpath(posixpath.join(name, "..", parts.path)) if parts.path else name
            if path in pages:
                tag[key] = f"#{_anchor(path, parts.fragment)}"
            elif tag.name != "a":
                tag[key] = path
            elif online:
                tag[key] = urllib.parse.urljoin(online.rstrip("/") + "/", path)
            else:
                del tag[key]
