"""Pages in a real browser, those that live by a script alone in a bare page; the book's scripts in Node."""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import axe_playwright_python
import pytest
from companion.pipeline import site
from playwright.sync_api import sync_playwright

REPOSITORY = Path(__file__).parents[1]
STATIC = REPOSITORY / "book" / "_static"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
PATIENCE_MS = 120_000  # a busy machine is slow, not wrong
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
BEYOND_THE_SCREEN = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
BARRIERS = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ['violations'], preload: false });
    return violations.flatMap(({ id, nodes }) =>
        nodes.slice(0, 3).map(({ target, html }) => `${id}: ${target.at(-1)} ${html.slice(0, 150)}`));
}"""
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
    shutil.copytree(STATIC, root / "_static", ignore=shutil.ignore_patterns("mathjax"))
    site.prune_styles(root)  # as the book's pages have them
    return root


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Answers, and says nothing of it here."""

    def log_message(self, *_):
        pass


@contextmanager
def served(folder, handler=Quiet):
    """Address of a folder over HTTP, on this machine."""
    handler = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}/"
        found.shutdown()


@pytest.fixture(scope="module")
def server(folder):
    with served(folder) as found:
        yield found


def missing(reason):
    """Skip what needs a program that is not here; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI may not skip what needs it")
    pytest.skip(f"{reason}: what needs it was not tried")


@pytest.fixture(scope="session")
def executable():
    return next(filter(None, map(shutil.which, BROWSERS)), None) or missing("no Chromium or Chrome found")


@contextmanager
def launched(executable):
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=executable, args=FLAGS, timeout=PATIENCE_MS)
        yield found
        found.close()


@pytest.fixture(scope="module")  # one in a process at a time: other modules have their own
def browser(executable):
    with launched(executable) as found:
        yield found


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
        context = browser.new_context(viewport=DESKTOP, **options)
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


def barriers(page):
    """Where a page breaks axe's rules."""
    page.evaluate(AXE)
    return page.evaluate(BARRIERS)


def rewrite(page, script, old, new, times=1):
    """Serve one of the book's scripts with another text in place of one that stands there so many times."""
    text = (STATIC / script).read_text(encoding="utf-8")
    assert text.count(old) == times
    changed = text.replace(old, new)
    page.route(f"**/{script}", lambda route: route.fulfill(body=changed, content_type="text/javascript"))


def enter(page, name, value):
    """Type a value into a number's field; returns the field."""
    field = page.locator(f"input[type=number][name={name}]")
    field.fill(value)
    field.press("Enter")
    return field


@pytest.fixture(scope="session")
def node():
    """Runs Node with arguments, and settings of its environment; returns what it prints."""
    executable = shutil.which("node") or missing("no Node found")

    def run(*arguments, **environment):
        command = [executable, *map(str, arguments)]
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def of_script(node):
    """Runs a program on one of the book's scripts and values; returns the value that it prints."""

    def run(program, script, *values):
        return json.loads(node("-e", program, STATIC / script, *map(json.dumps, values)))

    return run
