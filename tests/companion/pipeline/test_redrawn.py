"""Kept figures are what the code of now draws from their arrays: a net under every drawing function."""

import argparse
import importlib.metadata
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from companion.pipeline import __main__ as commands
from companion.pipeline import kept, redrawn
from companion.pipeline.project import Project
from small_book import REPOSITORY

LOCKED = re.search(r"^matplotlib==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)[1]


def kept_figures():
    """Of every drawing function the figure with the most arguments; all others in the weekly test."""
    found, seen = [], set()
    for chapter, run in kept.read(Project(REPOSITORY, "paper")).items():
        for name, figure in run.figures.items():
            if figure.get("function") and "arrays" in figure:
                with np.load(REPOSITORY / kept.FOLDER / chapter / figure["arrays"]) as arrays:
                    found.append((-len(arrays.files), chapter, name, figure))
    for _, chapter, name, figure in sorted(found, key=lambda one: one[:3]):
        own = chapter if figure["function"].startswith("__main__") else ""
        marks = [pytest.mark.weekly] if (own, figure["function"]) in seen else []
        yield pytest.param(chapter, name, figure, id=f"{chapter}-{name}", marks=marks)
        seen.add((own, figure["function"]))


PLOT = """\
# %%
def heights(x):
    return 2 * x

def draw(x, title):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.plot(x)
    axis.set_title(title)
    return figure
"""


@pytest.mark.skipif(importlib.metadata.version("matplotlib") != LOCKED, reason="drawn by another matplotlib")
@pytest.mark.parametrize(("chapter", "name", "figure"), list(kept_figures()))
def test_kept_figures_are_what_is_drawn_now(chapter, name, figure):
    """Where one looks otherwise on purpose: make redraw, and a look at it."""
    drawn = redrawn.anew(Project(REPOSITORY, "paper"), chapter, name, figure)
    assert redrawn.same(REPOSITORY / kept.FOLDER / chapter / figure["file"], drawn)
    assert (figure["width"], figure["height"]) == pytest.approx((drawn.width, drawn.height), abs=1)
    plt.close("all")


@pytest.fixture
def project(tmp_path):
    """A project with a figure that was kept of `PLOT`, a film, and a figure whose arrays were too large."""
    folder = tmp_path / kept.FOLDER / "even"
    folder.mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/even.py").write_text(PLOT)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: intro\nchapters:\n- file: notebooks/even\n")
    np.savez(folder / "line.npz", x=np.float32([0.1, 0.2]), title="t")
    figures = {
        "line": {
            "file": "line.svg",
            "function": "__main__.draw",
            "arrays": "line.npz",
            "width": 1,
            "height": 1,
        },
        "film": {"file": "film.png", "function": None, "arrays": "line.npz"},
        "large": {"file": "large.png", "function": "__main__.draw"},
    }
    (folder / "line.svg").write_text("<svg/>")
    told = {"commit": "c", "date": "2026-11-30", "records": [], "figures": figures}
    (folder / kept.FILE).write_text(json.dumps(told))
    return Project(tmp_path, "paper")


def test_what_looks_otherwise_is_drawn_again_and_nothing_else(project):
    folder = project.root / kept.FOLDER / "even"
    assert redrawn.redraw(project) == ["even/line.svg"]
    told = kept.read(project)["even"].figures["line"]
    assert told["width"] > 100
    assert redrawn.redraw(project) == []
    text = (folder / "line.svg").read_text()
    (folder / "line.svg").write_text(text.replace('id="text_1"', 'id="text_9"'))
    assert redrawn.redraw(project) == []  # a name within the file is not seen
    for edit, fresh, seen in (
        ("2 * x", "3 * x", []),
        ("axis.plot(x)", "axis.plot(2 * x)", ["even/line.svg"]),
        ("set_title(title)", "set_title(title + title)", ["even/line.svg"]),
    ):
        (project.root / "notebooks/even.py").write_text(PLOT.replace(edit, fresh))
        assert redrawn.redraw(project) == seen, edit


@pytest.mark.parametrize("changed", [["even/a.svg", "odd/b.png"], ["even/a.svg"], []])
def test_make_redraw_names_every_changed_figure_on_a_line(changed, monkeypatch, capsys):
    monkeypatch.setattr(redrawn, "redraw", lambda project: changed)
    commands.redraw(argparse.Namespace())
    told = capsys.readouterr().out.splitlines()
    assert told == (changed or ["All kept figures are what is drawn now."])


def test_digits_are_those_that_were_written():
    np.testing.assert_array_equal(redrawn.as_written(np.float32([0.1, np.nan, 3e-9])), [0.1, np.nan, 3e-9])
    assert redrawn.as_written(np.array([[1, 2]])).dtype.kind == "i"
