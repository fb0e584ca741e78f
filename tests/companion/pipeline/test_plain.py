"""The exit from Jupyter Book: Sphinx alone gives the same pages, byte for byte."""

import shutil

import pytest
from companion.pipeline import plain
from companion.pipeline.project import BuildError, Project
from small_book import REPOSITORY, pipeline

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("pipeline")]


def pages(root):
    """Every file of the built pages but Sphinx's own record of its settings."""
    html = root / "_build/quick/html"
    found = {path.relative_to(html): path.read_bytes() for path in html.rglob("*") if path.is_file()}
    return {str(name): content for name, content in found.items() if name.name != ".buildinfo"}


def test_sphinx_alone_gives_the_same_pages(built_book, tmp_path, monkeypatch):
    root = shutil.copytree(built_book, tmp_path / "copy", symlinks=True)
    monkeypatch.setenv("BUILDER", "sphinx")
    assert pipeline(root, "plan").stdout.rstrip().endswith("builder is new")
    pipeline(root, "pages")
    ours, theirs = pages(root), pages(built_book)
    assert "notebooks/even.html" in ours
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    log = (root / "_build/quick/pages.log").read_text()
    assert "Running Jupyter-Book" not in log
    assert "Running Jupyter-Book" in (built_book / "_build/quick/pages.log").read_text()
    assert (root / "_build/quick/site/conf.py").is_file()


def test_it_needs_nothing_of_jupyter_book():
    settings = plain.settings(Project(REPOSITORY).config)
    assert "myst_nb" in settings["extensions"]
    assert not [name for name in settings["extensions"] if "jupyter_book" in name or "jupyterbook" in name]


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ("use_repository_button", "use_repository_button"),
        ("use_issues_button", "use_issues_button"),
        ("extra_footer", "extra_footer"),
        ("home_page_in_navbar", "home_page_in_toc"),
    ],
)
def test_a_setting_of_the_pages_changes_the_themes_option_of_it_and_no_other(given, option):
    bare = {"parse": {}, "sphinx": {"config": {"extensions": []}}}
    before, after = (
        plain.settings(bare | {"html": html})["html_theme_options"] for html in ({}, {given: "given"})
    )
    assert after == before | {option: "given"}


@pytest.mark.parametrize("given", [None, "", "jupyter-book"])
def test_jupyter_book_makes_the_pages_unless_told_otherwise(tmp_path, monkeypatch, given):
    monkeypatch.setenv("BUILDER", "sphinx")
    assert Project(tmp_path).builder == "sphinx"
    if given is None:
        monkeypatch.delenv("BUILDER")
    else:
        monkeypatch.setenv("BUILDER", given)  # "" as make hands it on
    assert Project(tmp_path).builder == "jupyter-book"


def test_another_builder_is_refused(built_book, monkeypatch):
    monkeypatch.setenv("BUILDER", "quarto")
    with pytest.raises(BuildError, match="BUILDER must be one of jupyter-book, sphinx; got 'quarto'"):
        assert Project(built_book).pages_stamp
