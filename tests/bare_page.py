"""Fixtures: one page of the book that lives by its script, alone in a bare page, in a real browser."""

import functools
import http.server
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from companion.pipeline import site
from playwright.sync_api import sync_playwright

REPOSITORY = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE_MS = 120_000  # a busy machine is slow, not wrong
BARE = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{0}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../_static/book.css">
</head>
<body><main><h1>{0}</h1>{1}</main></body>
</html>"""


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """The own part of the page that the tests' module names: its BODY, or what the book's source has."""
    name = request.module.PAGE
    root = tmp_path_factory.mktemp(Path(name).name)
    if (body := getattr(request.module, "BODY", None)) is None:
        source = (REPOSITORY / "book" / f"{name}.md").read_text(encoding="utf-8")
        (body,) = re.findall(r"```\{raw\} html\n(.*?)\n```", source, re.DOTALL)
    place = root / "book" / f"{name}.html"
    place.parent.mkdir(parents=True)
    up = "../" * (1 + name.count("/"))
    place.write_text(
        BARE.format(name, body).replace("../_static/book.css", f"{up}_static/book.css"), encoding="utf-8"
    )
    static = REPOSITORY / "book" / "_static"
    shutil.copytree(static, root / "_static", ignore=shutil.ignore_patterns("mathjax"))
    site.prune_styles(root)  # as the book's pages have them
    return root


@pytest.fixture(scope="module")
def server(folder):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}/"
        found.shutdown()


@pytest.fixture(scope="module")
def browser():
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium or Chrome found, and CI may not skip the page tests")
        pytest.skip("no Chromium or Chrome found: pages were not opened in a browser")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=executable, args=FLAGS, timeout=PATIENCE_MS)
        yield found
        found.close()


@pytest.fixture
def address(request, server):
    """The page as readers open it, over HTTP."""
    return f"{server}book/{request.module.PAGE}.html"


@pytest.fixture(params=["file", "http"])
def either_address(request, folder, server):
    """Over HTTP and from a file: for tests of what a file may not do (fetch, start workers, copy a link)."""
    return f"{server if request.param == 'http' else folder.as_uri() + '/'}book/{request.module.PAGE}.html"


@pytest.fixture
def visit(browser):
    """Opens an address; whatever the page complains of or asks for outside fails the test at its end."""
    contexts, errors = [], []

    def go(address, prepare=lambda page: None, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        base = address.split("book/")[0]
        page.on(
            "request", lambda r: None if r.url.startswith((base, "data:", "blob:")) else errors.append(r.url)
        )
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: errors.append(f"failed: {request.url}"))
        prepare(page)
        page.goto(address)
        return page

    yield go
    for context in contexts:
        context.close()
    assert errors == []
