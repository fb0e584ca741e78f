"""Figures that move: the landscape in Node against the library, and every kind of widget in a browser."""

import re

import numpy as np
import pytest
import yaml
from bare_page import BEYOND_THE_SCREEN, REPOSITORY, barriers
from companion.pipeline.rendering import render
from test_primer_figures import landscape

PAGE = "widgets"  # of bare_page
LISTED = yaml.safe_load((REPOSITORY / "book/widgets.yml").read_text(encoding="utf-8"))
PICTURE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
CASES = [(200, 0.05), (50, 0.3), (1000, 0.001)]
HEIGHT = 250  # of the figures, as low as the book's lowest with a widget
SCRIPTS = "".join(
    f'<script defer src="../_static/{name}.js"></script>' for name in ("explorer", "laboratory", "widgets")
)


LEAST_SHIFT = 2  # pixels: heights are rounded


ENDED = """([name, run]) => Number(document.querySelector(`[data-figure=${name}]`).dataset.done) >= run
    && document.querySelector(`[data-figure=${name}] [role=status]`).textContent.includes('cosine')"""
# of the room kept for it
BEYOND = "place => place.offsetHeight - parseFloat(getComputedStyle(place).minHeight)"
TOPS = """name => [`#${name} figcaption`, `[data-figure=${name}] button`, `[data-figure=${name}] + *`]
    .map((at) => document.querySelector(at).getBoundingClientRect().top + scrollY)"""


def figure(widget):
    """A figure with its widget, as a chapter's page has them."""
    shown = {"name": widget["figure"], "file": "figure.png", "description": "", "caption": "So."}
    shown |= {"width": 690, "height": HEIGHT, "tail": "", "page": ""}
    page = render(
        "figure.md", figure=shown, chapter=widget["chapter"], kept=None, widget=widget, scripts=False, made=""
    )
    (place,) = re.findall("<div class=.*</div>", page)
    (name,) = re.findall(":name: (.*)", page)
    # as the theme has it
    style = f"display: block; width: 690px; max-width: 100%; aspect-ratio: 690/{HEIGHT}"
    image = f'<a href="{PICTURE}"><img alt="a curve" src="{PICTURE}" style="{style}"></a>'
    caption = "<figcaption>So.</figcaption>"
    return f'<figure class="published-figure" id="{name}">{image}{caption}</figure>{place}<p>Below it.</p>'


PRIMER = re.search(
    '<div class="widget-place".*?</div>',
    (REPOSITORY / "book/primer.md").read_text(encoding="utf-8"),
)
STILL = f"""<figure class="published-figure" id="fig-landscape">
<img alt="three curves" src="{PICTURE}" width="690" height="260"></figure>"""
BODY = STILL + PRIMER[0] + "".join(map(figure, LISTED)) + SCRIPTS
NODE = """
const { solve } = require(process.argv[1]), { cases, readouts } = JSON.parse(process.argv[2]);
const all = cases.map(([P, T]) => Object.fromEntries(["linear", "sigmoidal", "relu"].map((name) => {
    const found = solve(name, P, T);
    return [name, { energy: readouts.map(found.energy), readouts: found.readouts }];
})));
console.log(JSON.stringify(all));
"""


@pytest.fixture(scope="module")
def found(of_script):
    """The widget's solutions of all cases, by nonlinearity."""
    return of_script(NODE, "widgets.js", {"cases": CASES, "readouts": np.linspace(-4, 4, 81).tolist()})


def test_energies_are_the_librarys(found):
    readouts = np.linspace(-4, 4, 801)
    for case, curves in zip(CASES, found, strict=True):
        expected = landscape.exponents(*case, readouts)
        for name, curve in curves.items():
            np.testing.assert_allclose(
                curve["energy"], expected[name][::10], atol=2e-4, err_msg=f"{case} {name}"
            )


def test_neurons_lie_where_the_density_is(found):
    for (num_inputs, temperature), curves in zip(CASES, found, strict=True):
        a = {name: np.array(curve["readouts"]) for name, curve in curves.items()}
        assert all(len(each) == 40 for each in a.values())
        for each in a.values():
            assert abs(np.mean(each)) < 0.05
        # forty quantiles of a Gaussian of variance U, (1 − U²) (1/P + …) aside: about one at low T
        assert np.std(a["linear"]) == pytest.approx(1, abs=0.2), (num_inputs, temperature)
        assert np.sort(np.abs(a["relu"]))[-3] < 1.5 < np.sort(np.abs(a["relu"]))[-2]
    assert np.all(np.abs(found[2]["sigmoidal"]["readouts"]) > 2)


def opened(page, place):
    """Presses a widget's button; returns its figure."""
    place.locator("button").first.focus()
    page.keyboard.press("Enter")
    return page.locator(f"#{place.get_attribute('data-figure')}")


@pytest.mark.pages
@pytest.mark.slow
@pytest.mark.xdist_group("laboratory")
def test_the_primers_landscape(visit, either_address):
    page = visit(either_address)
    assert page.locator(".widget").count() == 0
    place = page.locator("[data-figure=fig-landscape]")
    assert place.locator("input").first.is_disabled()
    shown = opened(page, place)
    status = place.locator("[role=status]")
    assert status.inner_text().startswith("linear: one cloud, spread 0.9")
    assert "sigmoidal: two groups at ±2." in status.inner_text()
    assert "ReLU: two outliers at ±5.1, a bulk at 0" in status.inner_text()
    assert shown.locator(".widget circle").count() == 120
    before = shown.locator(".widget").inner_html()
    for _ in range(17):
        page.keyboard.press("ArrowRight")
    assert "sigmoidal: one cloud" in status.inner_text()
    assert shown.locator(".widget").inner_html() != before
    box = place.locator("input[name=P]").bounding_box()
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2)
    assert "inputs" in place.locator("input[name=P]").get_attribute("aria-valuetext")
    assert place.locator("[data-of=P]").inner_text() != "200"


@pytest.mark.pages
@pytest.mark.slow
@pytest.mark.xdist_group("laboratory")
@pytest.mark.parametrize("width", [390, 1280])
def test_every_widget_takes_its_figures_place_and_follows_its_sliders(visit, address, width):
    """What stands below a figure stays where it is, on a phone too; nothing is wider than a phone."""
    page = visit(address, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 844})
    for listed in LISTED:
        name = f"fig-{listed['chapter']}-{listed['figure']}".replace("_", "-")
        place = page.locator(f"[data-figure={name}]")
        assert place.evaluate(BEYOND) < LEAST_SHIFT, name
        before = page.evaluate(TOPS, name)
        shown = opened(page, place)
        status = place.locator("[role=status]")
        assert page.evaluate(TOPS, name) == pytest.approx(before, abs=LEAST_SHIFT), name
        assert shown.locator("img").is_hidden()
        first = None
        for run in (1, 2):
            if listed["widget"] == "network":
                page.wait_for_function(ENDED, arg=[name, run])  # keys pressed slowly ask for more than one
            said = status.inner_text()
            assert said != first
            first = said
            if run == 1:
                slider = place.locator("input").first
                told = slider.get_attribute("aria-valuetext")
                slider.focus()
                for _ in range(4):
                    page.keyboard.press("ArrowRight")
                assert slider.get_attribute("aria-valuetext") != told
        words = {
            "scheme": "Theory, P = 100: 1-1-0",
            "landscape": ":",
            "network": "kernel along the classes: cosine",
        }
        assert words[listed["widget"]] in first
        assert page.evaluate(TOPS, name) == pytest.approx(before, abs=LEAST_SHIFT), f"{name}, with its words"
        if listed["widget"] == "network":
            picture = shown.locator("canvas")
            kernel = picture.evaluate("canvas => canvas.toDataURL()")
            picture.click(position={"x": 60, "y": 20})
            assert re.match(r"Neuron \d+.*: response to the classes .*; readouts ", status.inner_text())
            assert picture.evaluate("canvas => canvas.toDataURL()") != kernel
            neuron = place.get_by_label("Neuron whose weights, response and readouts are shown")
            assert neuron.get_attribute("aria-valuetext") + "." == status.inner_text()
        if listed.get("barrier"):
            assert "PΔE = " in first
        place.locator("button").first.click()
        assert shown.locator("img").is_visible()
        assert place.locator("input").first.is_disabled()
        assert page.evaluate(TOPS, name) == pytest.approx(before, abs=LEAST_SHIFT), f"{name}, closed again"
        opened(page, place)
        assert shown.locator("img").is_hidden()
    assert barriers(page) == []
    assert page.evaluate(BEYOND_THE_SCREEN) == 0


@pytest.mark.pages
@pytest.mark.slow
@pytest.mark.xdist_group("laboratory")
def test_without_javascript_figures_stand(visit, either_address):
    page = visit(either_address, java_script_enabled=False)
    assert page.locator(".widget-place button").first.is_hidden()
    assert page.locator("figure img").first.bounding_box()["height"] > 100
