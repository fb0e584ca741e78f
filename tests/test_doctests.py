"""The examples in docstrings, and on the pages that hold code."""

import doctest
import importlib
import re
from pathlib import Path

import jax
import numpy as np
import pytest

LIB = Path(__file__).parents[1] / "lib"


def module_name(path):
    return ".".join(path.relative_to(LIB).with_suffix("").parts)


WITH_EXAMPLES = [module_name(path) for path in sorted(LIB.rglob("*.py")) if ">>>" in path.read_text("utf-8")]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


#: What sampling decides in a summary, and rounding, which differ between processors
SAMPLED = (
    r"(?<=converged, ).*(?=>)|(?<=acceptance 0)\.\d+(?=,)|(?<=divergences, )R-hat.*(?=>)"
    r"|(?<=R-hat ≤ 1\.0).*(?=, ESS)|(?<=ESS ≥ ).*(?=>)|\d-\d-\d \d+\(\d\)(?= %)|(?<=\) %) and .*(?=>)"
)


@pytest.mark.slow
def test_the_library_in_five_minutes():
    page = Path(__file__).parents[1] / "book" / "five_minutes.md"
    text = re.sub(SAMPLED, "...", page.read_text(encoding="utf-8"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    with jax.enable_x64(True):  # the page sets it for good
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.slow
def test_the_recipe_for_a_nonlinearity():
    """The page's own lines, run: what was sampled has the kernel of the theory."""
    page = Path(__file__).parents[1] / "book" / "contributing.md"
    cell = re.search(r"```python\n(import jax.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[1]
    shown: list = []
    names = {"print": shown.append}
    exec(cell, names)
    phi = names["activations"]
    sampled = np.einsum("csip,csiq->pq", phi, phi) / np.prod(phi.shape[:3])
    diagnosis, kernel = shown
    assert diagnosis.codes.shape == (200, 3)
    assert np.linalg.norm(sampled - kernel) < 0.03 * np.linalg.norm(kernel)


def test_every_public_module_has_a_page():
    root = Path(__file__).parents[1]
    pages = "".join(path.read_text(encoding="utf-8") for path in (root / "book" / "api").glob("*.md"))
    documented = set(re.findall(r"auto(?:module|class|function):: ([\w.]+)", pages))
    modules = {module_name(path) for path in (LIB / "coding_schemes").rglob("[!_]*.py")}
    inside = {f"sampling.{name}" for name in ("checkpoint", "methods", "program")} | {
        "validation",
        "compiler",
    }
    inside |= {f"sampling.{name}" for name in ("hmc", "langevin")}  # their settings have a page
    assert modules - documented == {f"coding_schemes.{name}" for name in inside}
