"""The primer's landscape that moves: JavaScript in Node against the library, and its widget in a browser."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_primer_figures import landscape

PAGE = "primer"  # of bare_page
SCRIPT = Path(__file__).parents[2] / "book" / "_static" / "landscape.js"
CASES = [(200, 0.05), (50, 0.3), (1000, 0.001)]
NODE = """
const { solve } = require(process.argv[1]), { cases, readouts } = JSON.parse(process.argv[2]);
const all = cases.map(([P, T]) => Object.fromEntries(["linear", "sigmoidal", "relu"].map((name) => {
    const found = solve(name, P, T);
    return [name, { energy: readouts.map(found.energy), readouts: found.readouts }];
})));
console.log(JSON.stringify(all));
"""


@pytest.fixture(scope="module")
def found():
    """The widget's solutions of all cases, by nonlinearity."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node found: the widget's numbers were not compared")
    given = {"cases": CASES, "readouts": np.linspace(-4, 4, 81).tolist()}
    command = [node, "-e", NODE, str(SCRIPT), json.dumps(given)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


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


@pytest.mark.pages
@pytest.mark.slow
@pytest.mark.xdist_group("laboratory")
def test_widget(visit, address):
    page = visit(address)
    assert page.locator(".picture svg").count() == 0
    page.locator(".landscape button").focus()
    page.keyboard.press("Enter")
    status = page.locator(".widget [role=status]")
    assert status.inner_text().startswith("linear: one cloud, spread 0.9")
    assert "sigmoidal: two groups at ±2." in status.inner_text()
    assert "ReLU: two outliers at ±5.1, a bulk at 0" in status.inner_text()
    assert page.locator(".picture circle").count() == 120
    before = page.locator(".picture").inner_html()
    for _ in range(17):
        page.keyboard.press("ArrowRight")
    assert "sigmoidal: one cloud" in status.inner_text()
    assert page.locator(".picture").inner_html() != before
    box = page.locator("input[name=P]").bounding_box()
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2)
    assert "inputs" in page.locator("input[name=P]").get_attribute("aria-valuetext")
    assert page.locator("[data-of=P]").inner_text() != "200"
