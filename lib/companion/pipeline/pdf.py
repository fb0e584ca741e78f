"""The whole book as one PDF: its built pages joined into one, printed by a Chromium that is installed."""

import html
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

import yaml

from companion.pipeline.project import BuildError, Project

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-pdf-header-footer"),
]
_PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>{title}</title>
{head}</head><body class="whole-book"><main class="bd-content">
<header class="title-page"><h1>{title}</h1><p>{made}</p><ol>{contents}</ol></header>
{articles}</main></body></html>"""


def build(project: Project) -> Path:
    """Print the built pages into one file.

    Returns:
        The PDF.

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
            command = [
                browser,
                *_FLAGS,
                f"--user-data-dir={profile}",
                f"--print-to-pdf={target}",
                page.as_uri(),
            ]
            done = subprocess.run(command, capture_output=True, text=True)
    finally:
        page.unlink(missing_ok=True)
    if done.returncode or not target.is_file():
        raise BuildError(f"{browser} printed no PDF:\n{done.stderr[-2000:]}")
    return target


def joined(project: Project) -> str:
    """All pages of the table of contents in one, links between them pointing to the places in it."""
    names = _names(yaml.safe_load((project.root / "_toc.yml").read_text(encoding="utf-8")))
    texts = {f"{name}.html": (project.html / f"{name}.html").read_text(encoding="utf-8") for name in names}
    first = next(iter(texts))
    head = re.findall(
        r'<link [^>]*rel="stylesheet"[^>]*>'
        r"|<script>window\.MathJax.*?</script>|<script [^>]*mathjax\.js[^>]*></script>",
        texts[first],
        re.DOTALL,
    )
    made = re.search(r'<div class="extra_footer">(.*?)</div>', texts[first], re.DOTALL)
    articles = {name: _article(name, text, set(texts)) for name, text in texts.items()}
    contents = "".join(
        f'<li><a href="#{_anchor(name)}">{_title(article)}</a></li>' for name, article in articles.items()
    )
    return _PAGE.format(
        title=html.escape(project.config.get("title", "")),
        head="\n".join(_moved(tag, first, set()) for tag in head),
        made=made[1].strip() if made else "",
        contents=contents,
        articles="\n".join(articles.values()),
    )


def _names(contents: dict) -> list[str]:
    """Pages of a table of contents, in their order."""
    names = [contents[key] for key in ("root", "file") if key in contents]
    for key in ("parts", "chapters", "sections"):
        for entry in contents.get(key, ()):
            names += _names(entry)
    return names


def _title(article: str) -> str:
    found = re.search(r"<h1>(.*?)(?:<a class=\"headerlink\"|</h1>)", article, re.DOTALL)
    return re.sub(r"<[^>]*>", "", found[1]) if found else ""


def _anchor(page: str, place: str = "") -> str:
    return re.sub(r"[^\w-]", "-", f"{page.removesuffix('.html')}--{place}")


def _article(name: str, text: str, pages: set[str]) -> str:
    """What a page says, without what only a screen can use."""
    content = text.partition("<article")[2].partition(">")[2].partition("</article>")[0]
    content = re.sub(r"<script\b.*?</script>|<noscript>|</noscript>", "", content, flags=re.DOTALL)
    content = re.sub(r'\bid="([^"]*)"', lambda id: f'id="{_anchor(name, id[1])}"', content)
    content = content.replace(' loading="lazy"', "")
    return f'<article class="bd-article" id="{_anchor(name)}">{_moved(content, name, pages)}</article>'


def _moved(content: str, name: str, pages: set[str]) -> str:
    """Links of a page as they are seen from the root; those to joined pages lead to places in this one."""

    def moved(link: re.Match[str]) -> str:
        address = html.unescape(link[2])
        parts = urllib.parse.urlsplit(address)
        if parts.scheme or address.startswith("//"):
            return link[0]
        path = posixpath.normpath(posixpath.join(os.path.dirname(name), parts.path)) if parts.path else name
        place = f"#{_anchor(path, parts.fragment)}" if path in pages else path
        return f'{link[1]}="{html.escape(place)}"'

    return re.sub(r'\b(href|src)="([^"]*)"', moved, content)
