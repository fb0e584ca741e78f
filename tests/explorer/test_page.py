"""The explorer in a real browser, from a file and over HTTP: every control, against the library."""

import functools
import re
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest
from bare_page import BEYOND_THE_SCREEN, PHONE, STATIC, enter, rewrite
from coding_schemes import tasks
from coding_schemes.theory import clustered, relu, sigmoidal
from redundant import explorer_samples

pytestmark = [pytest.mark.pages, pytest.mark.xdist_group("explorer"), pytest.mark.slow]

SMALL = "#r=0.5,0.25,0.25&yp=1&ym=0.5&T=0.01&P=40"  # solved by the library in a moment
PRESETS = explorer_samples.read(STATIC / "explorer-samples.js")["presets"]
CONTROLS = ("r0", "r1", "r2", "ym", "yp", "T", "P")
ELSEWHERE = {"r0": "0.45", "ym": "0.45", "yp": "1.1", "rho": "0.1", "P": "400", "T": "0.02"}  # no presets
ANSWERED = """() => {
    const { asked, answered } = document.getElementById('explorer').dataset;
    return asked === answered;
}"""
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll('svg text')]
    .map(text => parseFloat(getComputedStyle(text).fontSize)))"""
PAGE = "explorer"  # of bare_page
# Centers of dots, and the ends of the lines before them
DOTS = """all => all.map(dot => ['x', 'y'].map(x => [
    dot.getAttribute(`c${x}`), ...[1, 2].map(end => dot.previousSibling.getAttribute(x + end))
].map(Number)))"""
# Columns of the map wait until they are let go, and their answers are counted
HOLD = """window.held = [];
window.answers = 0;
window.Worker = class extends Worker {
    constructor(...given) {
        super(...given);
        this.addEventListener("message", ({ data }) => (window.answers += data.name === "column"));
    }
    postMessage(job) {
        if (job.name === "column") window.held.push(() => super.postMessage(job));
        else super.postMessage(job);
    }
};"""


def settle(page):
    """Wait for the answer to what was asked last; returns the state it belongs to."""
    page.wait_for_function(ANSWERED)
    return page.locator("#explorer").get_attribute("data-answered")


def state_of(text):
    found = {key: values[0] for key, values in parse_qs(text.lstrip("#")).items()}
    ratios = tuple(float(part) for part in found["r"].split(","))
    return ratios, float(found["yp"]), float(found["ym"]), float(found["T"]), int(found["P"])


def shown(page):
    """Numbers of the page's table: code, share, ⟨φ⟩ per class, readouts; NaN where a code does not occur."""
    rows = page.locator("[data-part=table] tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    number = {"–": "nan"}
    return {
        name: np.array([float(number.get(c, c.replace("−", "-"))) for c in cells]) for name, *cells in rows
    }


@functools.cache  # from a file and over HTTP the states are the same
def solved(state):
    ratios, y_plus, y_minus, temperature, num_inputs = state_of(state)
    return sigmoidal.solve(tasks.toy(num_inputs, ratios, y_plus, y_minus), temperature)


def assert_as_library(page, state):
    found, num_inputs = solved(state), state_of(state)[-1]
    assert found.converged
    for name, row in shown(page).items():
        code = np.array([part == "1" for part in name.split("-")])
        assert row[0] == pytest.approx(found.occupancy(code), abs=1e-3), (state, name)
        peaks = np.flatnonzero(np.all(found.codes == code, axis=1))
        if len(peaks) == 1 and found.occupancy(code) > 0.02:
            np.testing.assert_allclose(
                row[1:4], found.activations[peaks[0]], atol=2e-3, err_msg=f"{state} {name}"
            )
            np.testing.assert_allclose(
                row[4:7], found.readouts[peaks[0]], atol=2e-3, err_msg=f"{state} {name}"
            )
    training = np.sum(found.training_residual**2, axis=1) @ found.problem.counts / num_inputs
    text = page.locator("[data-part=error]").inner_text()
    assert float(text) == pytest.approx(training, rel=0.01, abs=1e-9)
    used = int(np.sum([found.occupancy(c) >= 0.01 for c in np.ndindex(2, 2, 2)]))
    status = page.locator("[role=status]").inner_text()
    assert status.startswith(f"{used} codes coexist" if used > 1 else "One code only"), status


@pytest.mark.parametrize("way", ["keyboard", "mouse", "number"])
def test_every_control_leads_to_the_librarys_solution(visit, address, way):
    page = visit(address + SMALL)
    before = settle(page)
    for name in CONTROLS:
        slider = page.locator(f"input[type=range][name={name}]")
        told = slider.get_attribute("aria-valuetext")
        if way == "keyboard":
            slider.focus()
            for _ in range(3):
                page.keyboard.press("ArrowLeft")
        elif way == "mouse":
            box = slider.bounding_box()
            page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + box["height"] / 2, steps=3)
            page.mouse.up()
        else:
            enter(page, name, {"T": "0.03", "P": "53", "ym": "0.1", "yp": "1.2"}.get(name, "0.35"))
        after = settle(page)
        assert after != before, name
        assert slider.get_attribute("aria-valuetext") != told
        ratios, _, _, _, _ = state_of(after)
        assert sum(ratios) == pytest.approx(1, abs=1e-9)
        if way != "mouse" or name in ("r1", "P"):  # each place once, and the library is not quick
            assert_as_library(page, after)
        before = after
    page.wait_for_function("state => location.hash === state", arg=before)


def test_what_is_not_allowed_is_said_and_the_last_state_stays(visit, address):
    page = visit(address + SMALL)
    before, numbers = settle(page), shown(page)
    for name, value, words in [
        ("T", "0", "T: got 0; allowed are numbers from"),
        ("P", "2", "allowed are whole numbers from 3"),
        ("r0", "0.999", "every class needs at least one"),
        ("r2", "0", "allowed are three numbers above 0"),
        ("ym", "1", "allowed is any other"),
    ]:
        field = enter(page, name, value)
        assert words in page.locator("[role=alert]").inner_text()
        assert field.get_attribute("aria-invalid") == "true"
        assert settle(page) == before
        np.testing.assert_equal(shown(page), numbers)
        enter(page, name, {"T": "0.01", "P": "40", "r0": "0.5", "r2": "0.25", "ym": "0.5"}[name])
        assert settle(page) == before
        assert page.locator("[role=alert]").inner_text() == ""
        assert field.get_attribute("aria-invalid") is None


def test_an_address_with_a_bad_task_says_so_and_starts_from_the_default(visit, address):
    page = visit(address + "#T=0&P=40")
    assert state_of(settle(page)) == ((0.5, 0.25, 0.25), 1, 0.5, 0.01, 500)
    assert "T: got 0" in page.locator("[role=alert]").inner_text()


def test_a_failed_solve_says_so_and_draws_nothing(visit, server):
    converged = "const converged = residual <= TOLERANCE"
    change = "explorer.js", f"{converged};", f"{converged} && task.temperature !== 0.02;"
    page = visit(server + "book/explorer.html" + SMALL, lambda page: rewrite(page, *change))
    settle(page)
    page.locator("[data-part=scheme-relu] svg").wait_for()
    enter(page, "T", "0.02")
    settle(page)
    assert page.locator("[role=status]").inner_text().startswith("The solve did not converge")
    for part in ("bars", "density", "activations", "scheme-linear", "scheme-sigmoidal", "scheme-relu"):
        assert page.locator(f"[data-part={part}] svg").count() == 0
    assert page.locator("[data-part=table] tr").count() == 0
    assert page.locator("[data-part=csv]").is_disabled()


def test_figures_show_the_numbers_of_the_table(visit, either_address):
    page = visit(either_address + SMALL)
    settle(page)
    numbers = shown(page)
    bars = dict(
        page.locator("[data-part=bars] rect").evaluate_all(
            "all => all.map(bar => [[...bar.dataset.code].join('-'), Number(bar.getAttribute('width'))])"
        )
    )
    largest = max(numbers, key=lambda name: numbers[name][0])
    for name, row in numbers.items():
        expected = max(bars[largest] * row[0] / numbers[largest][0], 1)
        assert bars[name] == pytest.approx(expected, abs=0.5)
    lines = page.locator("[data-part=density] path.output")
    strokes = lines.evaluate_all("all => all.map(line => getComputedStyle(line).stroke)")
    assert len(set(strokes)) == 3, strokes
    assert "none" not in strokes
    page.locator("[data-part=scheme-relu] svg").wait_for()
    assert "outlier" in page.locator("[data-part=text-relu]").inner_text()
    shares = np.array([row[0] for row in numbers.values()])
    effective = np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-12))))
    assert float(page.locator("[data-part=effective]").inner_text()) == pytest.approx(effective, abs=0.01)


def test_a_preset_shows_its_sampled_networks_over_the_theory(visit, either_address):
    """Dots where the stored file has them, in the figures and in the table; elsewhere there are none."""
    page = visit(either_address + SMALL)
    settle(page)
    dots = page.locator("[data-part=density] circle.sample"), page.locator("[data-part=bars] circle.sample")
    assert [found.count() for found in dots] == [0, 0]
    assert "were sampled" in page.locator("[data-part=samples]").inner_text()
    stored = PRESETS["redundant"]
    page.locator("[data-preset=redundant]").click()
    settle(page)
    assert dots[0].count() == sum(len(one["at"]) for one in stored["readouts"])
    assert dots[1].count() == 8
    assert f"{stored['networks']} networks of N = 500" in page.locator("[data-part=samples]").inner_text()
    for name, row in shown(page).items():
        assert row[7] == pytest.approx(stored["shares"].get(name.replace("-", ""), [0])[0], abs=1e-4)
        assert row[7] == pytest.approx(row[0], abs=0.01)
    for name, value in ELSEWHERE.items():
        page.locator("[data-preset=redundant]").click()
        assert page.locator("[data-preset=redundant]").get_attribute("aria-pressed") == "true"
        enter(page, name, value)
        assert page.locator("[data-preset][aria-pressed=true]").count() == 0, name
        if name in ("rho", "T"):
            settle(page)
            assert [found.count() for found in dots] == [0, 0], name
            assert np.all(np.isnan([row[7] for row in shown(page).values()])), name
    # from the map: a click beside a ring leads to the very task
    ring = page.locator("circle.place").nth(1).bounding_box()
    page.mouse.click(ring["x"] + 6, ring["y"] + 3)
    assert state_of(settle(page)) in {
        (tuple(one["r"]), one["yp"], one["ym"], one["T"], one["P"])
        for one in (preset["state"] for preset in PRESETS.values())
    }


@pytest.mark.parametrize("name", PRESETS)
def test_sampled_dots_have_bars_of_their_errors(visit, address, name):
    """In units of the axis that the dots lie on, to both sides; without an extent along the other."""
    page, stored = visit(address + SMALL), PRESETS[name]
    page.locator(f"[data-preset={name}]").click()
    settle(page)
    codes = page.locator("[data-part=bars] rect").evaluate_all("all => all.map(({dataset}) => dataset.code)")
    shares = [stored["shares"].get(code, [0, 0]) for code in codes]
    rows = zip(*([y for one in stored["readouts"] for y in one[key]] for key in ("density", "error")))
    for part, along, values in (("bars", 0, shares), ("density", 1, [*rows])):
        found = page.locator(f"[data-part={part}] circle.sample")
        places = np.reshape(found.evaluate_all(DOTS), (-1, 2, 3))  # (dots, x and y, center and both ends)
        centers = places[..., 0]
        value, error = np.transpose(values)
        unit = np.polyfit(value, centers[:, along], 1)[0]
        reach = np.zeros_like(centers)
        reach[:, along] = abs(unit) * error
        expected = np.stack([centers - reach, centers + reach], -1)
        np.testing.assert_allclose(places[..., 1:], expected, atol=1e-6, err_msg=part)


def test_phase_diagram_is_walked_on_and_names_the_transitions(visit, address):
    page = visit(address + SMALL)
    settle(page)
    page.wait_for_function(
        "() => document.querySelector('[data-part=legend]').textContent.includes('bright')"
    )
    page.wait_for_function(
        "() => document.querySelector('[data-part=transitions]').textContent.includes('→')"
    )
    critical = page.locator(".critical").get_attribute("d")
    assert critical.count("L") > 10
    box = page.locator("[data-part=map] svg").bounding_box()
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    state = settle(page)
    assert_as_library(page, state)
    cross = page.locator(".cross").evaluate("c => [Number(c.dataset.x), Number(c.dataset.y)]")
    np.testing.assert_allclose(cross, [0.5 * box["width"], 0.5 * box["height"]], atol=4)  # y₋, T are rounded


def test_phase_diagram_is_walked_on_by_keyboard(visit, server):
    page = visit(server + "book/explorer.html" + SMALL)
    settle(page)
    page.locator("[data-part=map] svg").wait_for()
    page.locator("[data-part=map]").focus()
    for keys, y_minus, temperature in [
        (["ArrowRight", "ArrowRight", "ArrowDown"], 0.54, 0.01 * 10**-0.05),
        (["Shift+ArrowLeft", "Shift+ArrowUp"], 0.44, 0.01 * 10**0.2),
        (["Shift+ArrowUp"] * 12, 0.44, 10**0.125),  # the map ends there
    ]:
        for key in keys:
            page.keyboard.press(key)
        state = settle(page)
        assert state_of(state)[2:4] == (pytest.approx(y_minus), pytest.approx(temperature, rel=0.01))
        cross = page.locator(".cross").evaluate("c => [Number(c.dataset.x), Number(c.dataset.y)]")
        assert page.evaluate("document.activeElement.dataset.part") == "map", cross


def test_the_map_is_there_at_once(visit, either_address):
    """Stored for the buttons' ratios and P; elsewhere pale, until it is solved."""
    page = visit(either_address)
    boxes = page.locator("[data-part=map] rect")
    assert boxes.count() == 20 * 13
    assert page.locator("[data-part=legend]").inner_text() == "1 (dark) to 6 (bright)"
    settle(page)
    pale = "document.querySelector('[data-part=map] rect[fill-opacity=\"0.35\"]')"
    for name, value, is_stored in (("rho", "0.2", False), ("rho", "0", True), ("P", "40", False)):
        enter(page, name, value)
        page.wait_for_function(f"() => {'!' * is_stored}{pale}")
    assert boxes.count() == 20 * 13
    page.wait_for_function(f"() => !{pale}")


def test_a_column_that_comes_late_is_not_drawn_for_another_task(visit, address):
    """Neither into a map that waits for its own columns by then, nor over the stored one."""
    page = visit(address + SMALL, lambda page: page.add_init_script(HOLD))
    page.wait_for_function("() => window.held.length === 1")
    boxes, pale = page.locator("[data-part=map] rect"), page.locator("[data-part=map] [fill-opacity='0.35']")
    fills = boxes.evaluate_all("all => all.map(box => box.getAttribute('fill'))")
    for number, (size, left) in enumerate([("50", 20 * 13), ("500", 0)], 1):
        page.evaluate("document.querySelector('[data-part=map] svg').dataset.before = ''")
        enter(page, "P", size)
        page.wait_for_function("() => !('before' in document.querySelector('[data-part=map] svg').dataset)")
        page.evaluate("() => window.held.at(-1)()")
        page.wait_for_function("number => window.answers === number", arg=number)
        if left:
            page.wait_for_function("() => window.held.length === 2")
        assert pale.count() == left, size
    assert boxes.evaluate_all("all => all.map(box => box.getAttribute('fill'))") == fills


def test_tabs_show_each_scheme_and_presets_choose_theirs(visit, address):
    page = visit(address + SMALL)
    settle(page)
    assert page.locator("[data-part=outputs-redundant] circle").count() == 18
    page.locator("[data-part=tab-redundant]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("[data-part=tab-analog]").get_attribute("aria-selected") == "true"
    assert page.locator("[data-part=panel-redundant]").is_hidden()
    page.wait_for_function("() => document.querySelectorAll('[data-part=gaussian] path').length === 3")
    assert page.locator("[data-part=outputs-analog] circle").count() == 18
    page.locator("[data-preset=sparse]").click()
    settle(page)
    page.wait_for_function("() => document.querySelectorAll('[data-part=strong] tr').length === 5")
    theory = relu.solve(tasks.toy(500, y_minus=-0.5), 0.01)
    rows = [row.split("\t") for row in page.locator("[data-part=strong] tr").all_inner_texts()]
    found = np.array([[float(cell.replace("−", "-")) for cell in row[1:]] for row in rows[1:4]])
    np.testing.assert_allclose(found[:, 3:].max(0), theory.outlier_preactivations.max(0), atol=1e-3)
    page.locator("[data-preset=redundant]").click()
    assert page.locator("[data-part=panel-redundant]").is_visible()
    assert page.locator("[data-part=panel-sparse]").is_hidden()


def test_what_to_try_sets_the_task_and_an_overlap_is_solved(visit, address):
    page = visit(address + SMALL)
    settle(page)
    slider = page.locator("input[type=range][name=rho]")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    settle(page)
    page.wait_for_function("() => location.hash.endsWith('&rho=0.2')")
    theory = clustered.solve(tasks.clustered(40, overlap=0.2, y_minus=0.5), 0.01)
    shares = dict.fromkeys(shown(page), 0.0)
    for code, share in zip(theory.codes, theory.probabilities, strict=True):
        shares["-".join(str(int(active)) for active in code)] += share
    for name, row in shown(page).items():
        assert row[0] == pytest.approx(shares[name], abs=2e-4)
    page.wait_for_function("() => document.querySelector('[data-part=text-relu]').textContent.includes('%')")
    crowd = clustered.solve(tasks.clustered(40, overlap=0.2, y_minus=0.5), 0.01, nonlinearity="relu")
    said = page.locator("[data-part=text-relu]").inner_text()
    percent = [float(x) for x in re.findall(r"([\d.]+) %", said)]
    np.testing.assert_allclose(percent, 100 * crowd.class_participation, atol=0.2)
    enter(page, "rho", "0.97")
    assert "Overlap ρ: got 0.97; allowed" in page.locator("[role=alert]").inner_text()
    for button in page.locator("[data-try]").all():
        button.focus()
        page.keyboard.press("Enter")
        asked = parse_qs(settle(page).lstrip("#"))
        given = parse_qs(button.get_attribute("data-try").lstrip("#"))
        assert all(asked[name] == value for name, value in given.items())
    assert page.locator("[data-part=panel-sparse]").is_visible()


def test_presets_reset_link_and_csv(visit, either_address):
    page = visit(either_address + SMALL)
    settle(page)
    with page.expect_download() as download:
        page.locator("[data-part=csv]").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert "T 0.01; P 40" in lines[0]
    for line in lines[3:]:
        name, share, *_ = line.split(",")
        assert float(share) == pytest.approx(shown(page)[name][0], abs=1e-4)
    assert len(lines) == 3 + 8
    for preset in ("three-codes", "analog", "sparse", "hot", "redundant"):
        button = page.locator(f"[data-preset={preset}]")
        button.focus()
        page.keyboard.press("Enter")
        settle(page)
        assert button.get_attribute("aria-pressed") == "true"
    page.locator("[data-preset=sparse]").click()
    settle(page)
    page.locator("[data-part=reset]").click()
    assert state_of(settle(page)) == ((0.5, 0.25, 0.25), 1, 0.5, 0.01, 500)
    page.locator("[data-part=link]").click()
    page.wait_for_function(
        "() => /copied|address line/.test(document.querySelector('[role=status]').textContent)"
    )


def test_every_control_has_a_name_and_nothing_is_wider_than_a_phone(visit, address):
    page = visit(address + SMALL)
    settle(page)
    page.set_viewport_size(PHONE)
    page.wait_for_function("() => document.querySelector('[data-part=bars] svg').clientWidth < 390")
    assert page.evaluate(BEYOND_THE_SCREEN) == 0
    assert page.evaluate(SMALLEST_TEXT) >= 9
    for control in page.locator("#explorer input").all():
        assert control.get_attribute("aria-label")
    assert all(
        page.locator("#explorer svg").evaluate_all("all => all.map(svg => svg.getAttribute('aria-label'))")
    )


def test_works_where_workers_are_not_allowed(visit, either_address):
    page = visit(either_address + SMALL, lambda page: page.add_init_script("delete window.Worker"))
    assert_as_library(page, settle(page))


def test_without_javascript_the_stored_figure_stands_there(visit, either_address):
    page = visit(either_address, java_script_enabled=False)
    assert page.locator("#explorer").is_hidden()
    image = page.locator("noscript img")
    assert image.is_visible()
    assert image.bounding_box()["height"] > 200
