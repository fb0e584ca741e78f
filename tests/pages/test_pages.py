"""The built pages in a real browser: they load, whole, from this machine alone, on a desktop and a phone.

Runs on the small book, or on the pages given with --book (`make test-pages`).
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import jsonschema
import pytest
import yaml
from bare_page import DESKTOP, PATIENCE_MS, PHONE, barriers, launched, served
from PIL import Image
from playwright.sync_api import Response, TimeoutError
from small_book import lay

pytestmark = [pytest.mark.pages, pytest.mark.xdist_group("pipeline")]

HEAVIEST = 1_500_000  # bytes of a page with all that it shows
LARGEST_FILM = 1_000_000
TYPESET = """() => [...document.querySelectorAll('span.math, div.math')]
    .every(element => element.querySelector('mjx-container'))"""
BROKEN_IMAGES = """() => Promise.all([...document.images].map(async image => {
    image.loading = 'eager';
    try { await image.decode() } catch { }
    return image.naturalWidth > 0 ? '' : image.src.slice(0, 100)
})).then(found => found.filter(Boolean))"""
# What the theme's font draws for each icon that shows: a glyph of its private range, if it knows the icon
ICONS = """() => Object.fromEntries([...document.querySelectorAll('i[class*="fa-"]')]
    .filter((icon) => icon.checkVisibility()).map((icon) => {
        const { content, fontFamily, fontWeight } = getComputedStyle(icon, '::before');
        const known = /^"[^ -~]"$/u.test(content);
        const plain = (name) => name.replaceAll('"', '');
        const loaded = [...document.fonts].some((face) => face.status === 'loaded'
            && plain(face.family) === plain(fontFamily) && face.weight === fontWeight);
        return [icon.className, known && loaded];
    }))"""
# Of words in listings, rows and list items that look alike, with the same markup but for words and addresses,
# and the same styles from the page's root on, axe reads one, and one of equations in the same styles.
# Long pages have thousands. What scrolled scrolls
ONE_OF_EACH_KIND = """() => {
    const seen = new Set();
    const look = (node) => {
        const { color, backgroundColor, opacity, fontSize, fontWeight, display } = getComputedStyle(node);
        return [color, backgroundColor, opacity, fontSize, fontWeight, display].join();
    };
    const values = / (href|id|src|title|name|for|data-[a-z-]+|aria-controls)="[^"]+"/g;
    const bare = (node) => node.outerHTML.replace(values, ' $1').replace(/>\\s*[^<\\s][^<]*/g, '>x');
    const kinds = new Map();  // numbers of what looks alike from the root on
    const places = new Map();
    const place = (node) => {
        if (!node) return 0;
        if (!places.has(node)) {
            const key = [place(node.parentElement), node.tagName, node.className, look(node)].join();
            kinds.set(key, kinds.get(key) ?? kinds.size + 1);
            places.set(node, kinds.get(key));
        }
        return places.get(node);
    };
    const alike = [];
    const kinds_of_one = 'tr, li, mjx-container, .highlight pre span:not(:has(*))';
    for (const one of document.querySelectorAll(kinds_of_one)) {
        const inside = [...one.querySelectorAll('*')];
        const key = one.localName === 'mjx-container' ? [place(one), ...new Set(inside.map(look))].join(';')
            : [place(one), bare(one), ...inside.map(place)].join();
        if (seen.has(key)) alike.push(one);
        seen.add(key);
    }
    const scroll = ({ scrollWidth, scrollHeight, clientWidth, clientHeight }) =>
        scrollWidth > clientWidth || scrollHeight > clientHeight;
    const scrolled = [...document.querySelectorAll('div, pre, nav')]
        .filter((node) => /auto|scroll/.test(getComputedStyle(node).overflow) && scroll(node))
        .map((node) => [node, node.scrollWidth, node.scrollHeight]);
    alike.forEach((one) => (one.tagName === 'SPAN' ? one.remove() : one.replaceChildren()));
    for (const [node, width, height] of scrolled.filter(([node]) => !scroll(node))) {
        const space = node.appendChild(document.createElement('span'));
        space.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px`;
    }
    return alike.length;
}"""
# Folders whose pages are all made alike, by a program
MOLDS = ("_modules/", "book/api/", "book/claims/")
# An element, its classes and its attributes' names, as they stand in a page's HTML
ELEMENT = re.compile(r"<([a-z][\w-]*)((?:\s[^<>]*)?)>")
CLASS = re.compile(r'class="([^"]*)"')
ATTRIBUTE = re.compile(r'([\w-]+)(?:="[^"]*")?')
# Width of a matplotlib SVG in points, and of its texts the size over 100
WIDTH_OF_SVG = re.compile(r'viewBox="0 0 ([\d.]+) ')
TEXT_SCALE = re.compile(r'<g [^>]*transform="translate\([^)]*\) (?:rotate\([^)]*\) )?scale\(([\d.]+) -')
STILL = "* { transition: none !important }"  # colors on their way from light to dark are neither
# By how much the page is wider than its window, or text that no box scrolls, where the theme cuts it off
OVERFLOW = """() => {
    const page = document.documentElement;
    const scrolled = (node) => node && node !== document.body
        && (['auto', 'scroll'].includes(getComputedStyle(node).overflowX) || scrolled(node.parentElement));
    const texts = document.querySelectorAll('article :is(p, li, a, h1, h2, h3), .prev-next-area *');
    const ends = [...texts].filter((each) => each.checkVisibility() && !scrolled(each.parentElement))
        .map((each) => Math.floor(each.getBoundingClientRect().right) - page.clientWidth);
    return Math.max(page.scrollWidth - page.clientWidth, ...ends);
}"""


# Drawn pictures that a dark page shows as drawn for light ones, and those whose dark picture is missing
ON_CARDS = """async () => {
    const found = [];
    for (const image of document.querySelectorAll('.published-figure img, img.published-figure')) {
        const figure = image.closest('figure'), next = figure?.nextElementSibling;
        const film = figure?.querySelector('.rotation') || next?.matches('.player') || image.matches('.film');
        if (film) {
            if (image.classList.contains('drawn-dark')) found.push(`film ${image.src}`);
            continue;
        }
        if (!/_images|_static.(paper|thumbnails)/.test(image.src)) continue;
        image.loading = 'eager';
        for (let tries = 0; tries < 100 && !image.classList.contains('drawn-dark'); tries++)
            await new Promise((resolve) => setTimeout(resolve, 50));  // the picture is fetched first
        const loads = await image.decode().then(() => true, () => false);
        if (!loads || !image.classList.contains('drawn-dark')) found.push(image.src);
    }
    return found;
}"""


@dataclass
class Visit:
    """What a browser saw on one page."""

    errors: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    equations: int = 0
    bad_equations: list[str] = field(default_factory=list)
    images: int = 0
    icons: dict[str, bool] = field(default_factory=dict)
    broken_images: list[str] = field(default_factory=list)
    overflow: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    barriers: list[str] = field(default_factory=list)
    on_cards: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def pages(request) -> Path:
    """Folder of built pages."""
    given = request.config.getoption("--book")
    if given is None:
        return request.getfixturevalue("built_book") / "_build/quick/html"
    folder = Path(given).resolve()
    assert (folder / "index.html").is_file(), f"no pages in {folder}: build them first"
    return folder


@pytest.fixture(scope="session")
def names(pages) -> list[str]:
    """Every page but the one that only leads to the first."""
    found = (str(path.relative_to(pages)) for path in pages.rglob("*.html") if "_static" not in path.parts)
    return sorted(name for name in found if name != "index.html")


def test_index_leads_to_a_page(pages):
    (target,) = re.findall(r"url=([^\"]+)", (pages / "index.html").read_text(encoding="utf-8"))
    assert (pages / target).is_file()


@pytest.fixture(scope="session")
def address(pages) -> Iterator[str]:
    with served(pages) as found:
        yield found


def audited(pages, names) -> set[str]:
    """The pages that axe looks at: of those of one mold, the largest, and each with what no other one had."""
    found, seen = set(), defaultdict(set)
    for name in sorted(names, key=lambda name: (-(pages / name).stat().st_size, name)):
        mold = next(filter(name.startswith, MOLDS), name)
        elements = ELEMENT.findall((pages / name).read_text(encoding="utf-8"))
        kinds = {(tag, *sorted(ATTRIBUTE.findall(CLASS.sub(in_words, text)))) for tag, text in elements}
        if not kinds <= seen[mold]:
            found.add(name)
            seen[mold] |= kinds
    return found


def in_words(classes) -> str:
    return " ".join(f"class-{name}" for name in classes[1].split())


@pytest.fixture(scope="session")
def visits(executable, pages, names, address) -> dict[str, Visit]:
    """Every page, seen once, by two browsers that take turns, the largest pages first."""
    waiting = sorted(names, key=lambda name: (pages / name).stat().st_size)
    found, for_axe = {}, audited(pages, names)

    def see(_) -> None:
        with launched(executable) as browser:
            while waiting:
                name = waiting.pop()
                found[name] = _visit(browser, address, name, name in for_axe)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(see, range(2)))
    return {name: found[name] for name in names}


def _visit(browser, address, name, audit) -> Visit:
    visit = Visit()
    page = browser.new_page(viewport=DESKTOP)
    page.set_default_timeout(PATIENCE_MS)

    def route(handler):
        url = handler.request.url
        if url.startswith((address, "data:", "blob:")):
            handler.continue_()
        else:
            visit.external.append(url)
            handler.abort()

    page.route("**/*", route)
    page.on("console", lambda message: visit.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("requestfailed", lambda request: visit.errors.append(f"failed: {request.url}"))
    page.on("response", lambda r: visit.errors.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
    loaded: list[Response] = []
    page.on("requestfinished", lambda request: loaded.append(request.response()))
    page.goto(address + name, wait_until="load")
    try:
        page.wait_for_function(TYPESET)
    except TimeoutError:
        visit.bad_equations.append("some equations are not typeset")
    page.evaluate("() => document.fonts.ready.then(() => true)")
    visit.equations = page.locator("mjx-container").count()
    visit.bad_equations = page.locator("mjx-merror").all_inner_texts()
    visit.images = page.locator("article img").count()
    visit.icons = page.evaluate(ICONS)
    visit.broken_images = page.evaluate(BROKEN_IMAGES)
    visit.weights = {found.url: int(found.headers["content-length"]) for found in loaded if found.ok}
    for label, size in (("phone", PHONE), ("desktop", DESKTOP)):
        page.set_viewport_size(size)
        visit.overflow[label] = page.evaluate(OVERFLOW)
    page.add_style_tag(content=STILL)
    if audit:
        page.evaluate(ONE_OF_EACH_KIND)
        visit.barriers = _barriers(page)
    page.emulate_media(color_scheme="dark")
    visit.on_cards = page.evaluate(ON_CARDS)
    page.close()
    return visit


def _barriers(page) -> list[str]:
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found += [f"{scheme} {barrier}" for barrier in barriers(page)]
    return found


def test_of_pages_alike_those_with_something_new_are_audited(tmp_path):
    texts = {
        "book/claims/A1.html": '<p class="b a" title="one">long enough to be the first</p>',
        "book/claims/A2.html": '<p title="two" class="a b">the same</p>',
        "book/claims/A3.html": '<p class="a b">fewer attributes</p>',
        "book/claims/A4.html": '<p class="a" title="3">another</p>',
        "book/one.html": "<p>own</p>",
        "notebooks/two.html": "<p>own</p>",
    }
    assert audited(lay(tmp_path, texts), texts) == set(texts) - {"book/claims/A2.html"}


def faults(visits, attribute):
    return {name: found for name, visit in visits.items() if (found := getattr(visit, attribute))}


def test_no_page_reports_an_error(visits):
    assert faults(visits, "errors") == {}


def test_no_page_asks_for_anything_outside(visits):
    assert faults(visits, "external") == {}


def test_equations_are_typeset(visits):
    assert faults(visits, "bad_equations") == {}
    assert any(visit.equations for name, visit in visits.items() if name.startswith("notebooks/"))


def test_figures_are_shown(visits):
    assert faults(visits, "broken_images") == {}
    assert any(visit.images for name, visit in visits.items() if name.startswith("notebooks/"))


def test_no_page_has_a_barrier(visits):
    """No violation of axe's rules, in light or dark mode."""
    assert faults(visits, "barriers") == {}


def test_dark_pages_show_figures_drawn_for_dark(visits):
    assert faults(visits, "on_cards") == {}


ROW = "<tr><td>word</td><td><a href='#b'>link</a></td></tr>"
FAULTS = {  # rows between two like the others, and what axe says of them
    "<tr><td>word</td><td><a href='#c'></a></td></tr>": ["link-name"],
    "<tr><td>word</td><td><a href='#c'><img src='x.png'></a></td></tr>": ["image-alt", "link-name"],
    "<tr><td style='color: #999'>word</td><td><a href='#d'>link</a></td></tr>": ["color-contrast"],
    "<tr class='pale'><td>word</td><td>word</td></tr>": ["color-contrast"],
    ROW: [],
}


@pytest.mark.parametrize(("fault", "rules"), FAULTS.items(), ids=lambda given: str(given)[:30])
def test_a_barrier_among_many_rows_that_look_alike_is_found(browser, fault, rules):
    page = browser.new_page(viewport=DESKTOP)
    page.set_content(
        "<html lang=en><title>t</title><style>.pale > td { color: #aaa }</style><main><h1>Rows</h1>"
        f"<table>{ROW * 40}{fault}{ROW * 40}</table><pre style='overflow: auto; width: 9em'>"
        f"<code class=highlight>{'<span>word</span> ' * 30}</code></pre></main>"
    )
    before = page.locator("*").count()
    page.evaluate(ONE_OF_EACH_KIND)
    assert page.locator("*").count() < before / 2
    scrolls = ["scrollable-region-focusable"]  # the listing, which nobody can reach by keys
    assert sorted({found.split()[1].rstrip(":") for found in _barriers(page)}) == sorted(rules + scrolls)
    page.close()


def test_no_page_is_heavy(visits):
    """With all its figures and thumbnails; those at paper size are loaded when they are unfolded."""
    loads = {
        name: {url: size for url, size in visit.weights.items() if "/_static/paper/" not in url}
        for name, visit in visits.items()
    }
    heavy = {name: found for name, found in loads.items() if sum(found.values()) > HEAVIEST}
    assert {
        name: dict(sorted(found.items(), key=lambda one: -one[1])[:8]) for name, found in heavy.items()
    } == {}
    assert all(any(url.endswith(name) for url in visit.weights) for name, visit in visits.items())


def test_icons_are_drawn_from_the_few_that_the_pages_name(visits, pages):
    assert all("magnifying-glass" in " ".join(visit.icons) for visit in visits.values())
    drawn = {icon: found for visit in visits.values() for icon, found in visit.icons.items()}
    assert [icon for icon, found in drawn.items() if not found] == []
    assert 0 < sum(font.stat().st_size for font in pages.rglob("fa-*.woff")) < 20_000
    assert not any(url.endswith(("fontawesome.js", ".woff2")) for v in visits.values() for url in v.weights)


def test_scoreboard_shows_only_what_is_asked_for(pages, address, browser):
    claims = json.loads((pages / "scoreboard.json").read_text(encoding="utf-8"))["claims"]
    page = browser.new_page(viewport=DESKTOP)
    page.goto(f"{address}book/scoreboard.html?verdict=reproduced")
    shown = page.locator("table.scoreboard tbody tr:visible")
    reproduced = [claim for claim in claims if claim["stands"]["verdict"] == "reproduced"]
    assert 0 < shown.count() == len(reproduced)
    reasons = page.locator(".scoreboard-reasons > p:visible")
    assert reasons.count() == 0
    page.select_option("select[name=verdict]", "")
    assert shown.count() == len(claims)
    assert reasons.count() == sum(
        claim["stands"]["verdict"] not in ("reproduced", "holds") for claim in claims
    )
    if page.locator("select[name=figure] option").count() > 1:  # a small book has no list of panels
        page.select_option("select[name=figure]", index=1)
        assert 0 < shown.count() < len(claims)
    page.goto(f"{address}book/scoreboard.html#claim-{claims[-1]['id'].lower()}")  # its section unfolds
    assert page.locator("tr:target").is_visible()
    page.locator(".tiles a").last.click()
    assert page.url.endswith(f"claims/{claims[-1]['id']}.html")
    page.close()


def test_rotated_neurons_change_and_kernel_and_outputs_stay(pages, address, browser):
    names = [path for path in (pages / "notebooks").glob("*.html") if 'class="rotation"' in path.read_text()]
    assert len(names) == 1
    page = browser.new_page(viewport=DESKTOP)
    page.goto(f"{address}notebooks/{names[0].name}")
    neurons, kernel, outputs = (page.locator(".rotation canvas").nth(k) for k in range(3))
    before = [canvas.evaluate("canvas => canvas.toDataURL()") for canvas in (neurons, kernel, outputs)]
    page.locator(".rotation input").focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert "α = 30°" in page.locator(".rotation-status").inner_text()
    after = [canvas.evaluate("canvas => canvas.toDataURL()") for canvas in (neurons, kernel, outputs)]
    assert [one == other for one, other in zip(before, after)] == [False, True, True]
    found = page.locator(".rotation").evaluate("place => ({...place.dataset})")
    assert max(float(found["kernel"]), float(found["outputs"])) < 1e-5
    assert page.locator("figure:has(.rotation) img").is_hidden()
    page.close()


def test_a_film_plays_and_stops(pages, address, browser):
    names = [path for path in (pages / "notebooks").glob("*.html") if 'class="player"' in path.read_text()]
    page = browser.new_page(viewport=DESKTOP)
    page.goto(f"{address}notebooks/{names[0].name}")
    player = page.locator(".player").first
    slider, button = player.locator("input"), player.locator("button")
    shown = "player => player.previousElementSibling.querySelector('img').src"
    first = player.evaluate(shown)
    slider.focus()
    page.keyboard.press("ArrowLeft" if int(slider.input_value()) else "ArrowRight")
    assert player.evaluate(shown) != first
    button.click()
    assert button.inner_text() == "Pause"
    before = slider.input_value()
    page.wait_for_function("before => document.querySelector('.player input').value !== before", arg=before)
    button.click()
    assert button.inner_text() == "Play"
    film = page.locator("a", has_text="film (webp)").first.get_attribute("href")
    with Image.open(pages / "notebooks" / film) as image:
        assert image.n_frames == int(slider.get_attribute("max")) + 1
    page.close()


def test_films_are_small(pages, request):
    films = list(pages.glob("downloads/*/*.webp"))
    assert films
    assert [str(film) for film in films if film.stat().st_size > LARGEST_FILM] == []
    if request.config.getoption("--book"):  # the small book's has two frames
        for film in films:
            with Image.open(film) as image:
                assert image.n_frames >= 60, film


@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_no_page_is_wider_than_the_screen(visits, screen):
    assert {
        name: visit.overflow[screen] for name, visit in visits.items() if visit.overflow[screen] > 0
    } == {}


class Links(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text):
        super().__init__()
        self.links = set()
        self.anchors = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        for key in ("href", "src"):
            if attributes.get(key):
                self.links.add(attributes[key])


def test_internal_links_resolve(pages, names):
    parsed = {name: Links((pages / name).read_text(encoding="utf-8")) for name in names}
    dead = []
    for name, page in parsed.items():
        for link in page.links:
            if urlparse(link).scheme or link.startswith("//"):
                continue
            target, anchor = urldefrag(urljoin(f"/{name}", link))
            target = unquote(urlparse(target).path).lstrip("/")
            if not (pages / target).exists():
                dead.append(f"{name}: {link}")
            elif anchor and target in parsed and unquote(anchor) not in parsed[target].anchors:
                dead.append(f"{name}: {link} (no such anchor)")
    assert sorted(dead) == []


def test_every_chapter_offers_its_notebook(pages):
    chapters = sorted((pages / "notebooks").glob("*.html"))
    assert chapters
    for chapter in chapters:
        assert f'href="../downloads/{chapter.stem}.ipynb"' in chapter.read_text(encoding="utf-8")
        assert (pages / "downloads" / f"{chapter.stem}.ipynb").is_file()


class Texts(HTMLParser):
    """What a page says, and the images of its published figures."""

    def __init__(self, text):
        super().__init__()
        self.said = []
        self.images = []
        self._in_figure = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._in_figure += tag == "figure"
        attributes = dict(attrs)
        if tag == "img" and (self._in_figure or "published-figure" in (attributes.get("class") or "")):
            self.images.append(attributes)

    def handle_endtag(self, tag):
        self._in_figure -= tag == "figure"

    def handle_data(self, data):
        self.said.append(data)


MACHINE = re.compile(r"/home/|/root/|/tmp/|/Users/|(?:site|dist)-packages|[A-Z]:\\\\")
WARNING = re.compile(r"\w*Warning: |warnings\.warn\(|Traceback \(most recent")


def test_no_page_shows_a_path_of_the_machine_that_built_it(pages, names):
    root = re.escape(str(pages.parents[2]))
    found = re.compile(f"{MACHINE.pattern}|{root}")
    texts = {name: (pages / name).read_text(encoding="utf-8") for name in names}
    assert {name: hit[0] for name, text in texts.items() if (hit := found.search(text))} == {}


def test_no_chapter_shows_a_warning_of_a_package(pages):
    chapters = {path.stem: path.read_text(encoding="utf-8") for path in (pages / "notebooks").glob("*.html")}
    assert chapters
    said = {name: "".join(Texts(text).said) for name, text in chapters.items()}
    assert {name: hit[0] for name, text in said.items() if (hit := WARNING.search(text))} == {}


def test_images_of_figures_are_files_loaded_when_they_are_looked_at(pages):
    images = [
        image
        for path in sorted((pages / "notebooks").glob("*.html"))
        for image in Texts(path.read_text(encoding="utf-8")).images
    ]
    assert images
    assert [
        image for image in images if image["src"].startswith("data:") or image.get("loading") != "lazy"
    ] == []


def test_text_in_figures_is_legible_on_a_phone(pages):
    """The theme's text is 8.9 pixels high there in a figure as wide as the page's column, 358 pixels."""
    drawn = {image.name: image.read_text(encoding="utf-8") for image in (pages / "_images").glob("*.svg")}
    sizes = {name: [100 * float(size) for size in TEXT_SCALE.findall(svg)] for name, svg in drawn.items()}
    widths = {name: float(WIDTH_OF_SVG.search(svg)[1]) for name, svg in drawn.items()}
    small = {name: min(sizes[name]) * 462 / widths[name] for name in drawn if sizes[name]}
    assert small
    assert {name: size for name, size in small.items() if size < 11.4} == {}


def test_scoreboard_is_also_there_for_programs(pages):
    board = json.loads((pages / "scoreboard.json").read_text(encoding="utf-8"))
    page = (pages / "book/scoreboard.html").read_text(encoding="utf-8")
    listed = yaml.safe_load((pages.parents[2] / "book/claims.yml").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in board["claims"]] == [claim["id"] for claim in listed] != []
    for claim in board["claims"]:
        assert f'<tr id="claim-{claim["id"].lower()}" ' in page
        assert claim["stands"]["verdict"] in page
    assert any(record["control"] for claim in board["claims"] for record in claim["records"])


@pytest.mark.parametrize("name", ["scoreboard", "figures"])
def test_data_of_the_pages_keep_to_their_schema_and_what_does_not_is_refused(pages, name):
    data = json.loads((pages / f"{name}.json").read_text(encoding="utf-8"))
    schema = json.loads((pages / data["$schema"]).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(data)] == []
    ((list_name, listed),) = [(key, value) for key, value in data.items() if isinstance(value, list)]
    first, *others = listed
    for spoiled in ({"commit": "main"}, {"schema": 2}, {"claims": 3, "figures": 3}, {"more": 0}):
        assert not validator.is_valid(data | spoiled)
    for other in (dict([*first.items()][:-1]), first | {"more": 0}):
        assert not validator.is_valid(data | {list_name: [other, *others]})


def test_codecheck_is_whole_and_its_files_are_there(pages, request):
    text = (pages / "codecheck.yml").read_text(encoding="utf-8")
    listed = [pages / entry["file"] for entry in yaml.safe_load(text)["manifest"]]
    if request.config.getoption("--book"):  # the small book has no page of panels
        root = yaml.safe_load((pages.parents[2] / "codecheck.yml").read_text(encoding="utf-8"))
        listed += [pages / entry["file"].removeprefix("_build/paper/html/") for entry in root["manifest"]]
    assert text.startswith("---\n")
    assert listed
    assert [str(path) for path in listed if not path.is_file()] == []
