"""Where the repository is found, and what the pages link to then; what Binder and Colab open."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import warnings

import nbformat
import pytest
import small_book
import yaml
from companion.pipeline import site
from companion.pipeline.project import BuildError, Project, web_address
from faults.builds import edit
from small_book import git

from tests.test_metadata import OF_THE_CHECKER, lacks

OURS = "https://github.com/owner/name"


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("https://github.com/Owner/Name", "https://owner.github.io/Name"),
        ("https://host.org/owner/name", None),
        ("https://github.com.host.org/owner/name", None),
        (None, None),
    ],
)
def test_only_a_repository_on_github_has_githubs_place_for_its_pages(
    repository, address, monkeypatch, tmp_path
):
    monkeypatch.setattr(Project, "repository", repository)
    assert Project(small_book.write(tmp_path / "book")).pages_address == address


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/owner/name.git", OURS),
        ("https://user:token@github.com/owner/name", OURS),
        ("git@github.com:owner/name.git", OURS),
        ("github.com:owner/name", OURS),
        ("ssh://git@github.com:22/owner/name.git", OURS),
        ("git://github.com/owner/name/", OURS),
        ("https://host.org:8443/group/part/name.git", "https://host.org:8443/group/part/name"),
        ("/srv/git/name.git", None),
        ("../name", None),
        ("file:///srv/git/name", None),
        ("C:/git/name", None),
        ("https://github.com", None),
        ("", None),
    ],
)
def test_address_of_a_remote(remote, address):
    assert web_address(remote) == address


@pytest.fixture
def root(tmp_path):
    """A folder with git and a remote, and nothing else that tells an address."""
    (tmp_path / "_config.yml").write_text("repository: {url: ''}\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "remote", "add", "origin", "git@github.com:remote/name.git")
    return tmp_path


def test_address_is_configured_or_that_of_ci_or_the_remote(root, monkeypatch):
    assert Project(root).repository == "https://github.com/remote/name"
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "fork/name")
    assert Project(root).repository == "https://github.com/fork/name"
    (root / "_config.yml").write_text(f"repository: {{url: {OURS}/}}\n")
    assert Project(root).repository == OURS


def test_a_second_working_tree_has_the_address_of_its_repository(root, tmp_path_factory):
    """As of ``git worktree add``, where .git is a file."""
    place = tmp_path_factory.mktemp("trees") / "second"
    git(root, "add", "_config.yml")
    git(root, "commit", "-qm", "x")
    git(root, "worktree", "add", "-q", str(place))
    assert (place / ".git").is_file()
    assert Project(place).repository == "https://github.com/remote/name"


def test_no_address_without_remote_or_in_a_folder_of_another_repository(root):
    inside = root / "inside"
    inside.mkdir()
    (inside / "_config.yml").write_text("")
    assert Project(inside).repository is None
    git(root, "remote", "remove", "origin")
    assert Project(root).repository is None


def test_what_is_configured_must_be_an_address(root):
    (root / "_config.yml").write_text("repository: {url: owner/name}\n")
    with pytest.raises(BuildError, match=r"repository: url must be like .* got 'owner/name'"):
        assert Project(root).repository


def test_pages_are_made_anew_for_another_address(tmp_path):
    root = small_book.write(tmp_path / "book")
    before = Project(root).pages_stamp
    edit(root / "_config.yml", 'url: ""', f"url: {OURS}")
    assert Project(root).pages_made_from["address of the repository"] == OURS
    assert Project(root).pages_stamp != before


@pytest.mark.parametrize(
    ("address", "repository", "issues"),
    [
        (OURS, True, True),
        ("https://gitlab.com/group/part/name", True, True),
        ("https://bitbucket.org/owner/name", True, False),
        ("https://forge.example.org/owner/name", False, False),  # the theme stops at hosts it does not know
        (None, False, False),
    ],
)
def test_buttons_that_the_theme_can_draw_for_a_host(root, tmp_path_factory, address, repository, issues):
    (root / "_config.yml").write_text(f"repository: {{url: '{address or ''}'}}\n")
    git(root, "remote", "remove", "origin")
    made = tmp_path_factory.mktemp("site")
    site._write_config(Project(root), made)
    config = Project(made).config
    assert config["repository"] == ({"url": address} if repository else {})
    assert config["html"]["use_repository_button"] is repository
    assert config["html"]["use_issues_button"] is issues


def test_only_github_is_opened_by_binder_and_colab(root):
    links = site._links("even", Project(root))
    assert "https://mybinder.org/v2/gh/remote/name/launch?labpath=notebooks%2Feven.ipynb" in links
    assert "https://colab.research.google.com/github/remote/name/blob/launch/notebooks/even.ipynb" in links
    (root / "_config.yml").write_text("repository: {url: https://gitlab.com/owner/name}\n")
    assert "Binder" not in site._links("even", Project(root))


@pytest.mark.pipeline
@pytest.mark.xdist_group("pipeline")
def test_every_page_links_to_the_repository_where_it_has_an_address(built_book, tmp_path):
    """The small book in a repository of its own, with nothing of it edited."""
    root = shutil.copytree(built_book, tmp_path / "copy", symlinks=True)
    remote = "remote add origin git@github.com:owner/name.git"
    for command in ("init -q", "add _toc.yml notebooks", "commit -qm x", remote):
        git(root, *command.split())
    small_book.pipeline(root, "build")
    commit = git(root, "rev-parse", "--short", "HEAD")
    for name in ("book/intro", "notebooks/even", "notebooks/loud"):
        path = f"_build/quick/html/{name}.html"
        page, before = ((folder / path).read_text(encoding="utf-8") for folder in (root, built_book))
        assert f'href="{OURS}"' in page
        assert f'href="{OURS}/issues/new' in page
        assert f'<a href="{OURS}/commit/{commit}">' in page
        assert ("Run on Colab" in page) is name.startswith("notebooks")
        assert "github.com" not in before
        assert "Run on" not in before
    even = (root / "_build/quick/html/notebooks/even.html").read_text(encoding="utf-8")
    source = (root / "notebooks/even.py").read_text().splitlines()
    (row,) = [number for number, text in enumerate(source, 1) if 'publish(figures.curves, "line"' in text]
    assert f'<a href="{OURS}/blob/{commit}/notebooks/even.py#L{row}">even.py, line {row}</a>' in even
    assert re.search(rf'{OURS}/commit/{commit}">commit {commit}</a> of \d{{4}}-\d\d-\d\d ·', even)
    crate = json.loads((root / "_build/quick/html/ro-crate-metadata.json").read_text(encoding="utf-8"))
    (program,) = [entity for entity in crate["@graph"] if entity.get("name") == "notebooks/even.py"]
    assert program["@id"] == f"{OURS}/blob/{commit}/notebooks/even.py"
    assert program["codeRepository"] == OURS
    check = (root / "_build/quick/html/codecheck.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(check)["repository"] == OURS
    assert lacks(check) == OF_THE_CHECKER
    target = tmp_path / "launch"
    small_book.pipeline(root, "launch-tree", str(target))
    assert {path.name for path in (target / "notebooks").glob("*.ipynb")} == {"even.ipynb", "loud.ipynb"}


@pytest.mark.pipeline
@pytest.mark.xdist_group("pipeline")
def test_no_address_is_no_failure_of_the_launch_tree_and_a_chapter_not_run_is_one(built_book, tmp_path):
    assert "no address" in small_book.pipeline(built_book, "launch-tree", str(tmp_path / "a")).stdout
    assert not (tmp_path / "a").exists()
    root = small_book.write(tmp_path / "book")
    edit(root / "_config.yml", 'url: ""', f"url: {OURS}")
    done = small_book.pipeline(root, "launch-tree", str(tmp_path / "b"), check=False)
    assert done.returncode == 1
    assert "not run yet: even, loud" in done.stderr


def test_launched_notebook_begins_at_quick_and_keeps_what_paper_put_out():
    output = nbformat.v4.new_output("stream", text="N = 500")
    cell = nbformat.v4.new_code_cell
    cells = [
        nbformat.v4.new_markdown_cell("# Title"),
        cell('preset = "paper"  # quick or paper\nseed = 0', metadata={"tags": ["parameters"]}),
        cell('# Parameters\npreset = "paper"', metadata={"tags": ["injected-parameters", "remove-cell"]}),
        cell("print(N)", outputs=[output]),
    ]
    launched = site.to_launch(nbformat.v4.new_notebook(cells=cells), OURS)
    title, install, parameters, last = launched.cells
    assert title.source == "# Title"
    assert OURS in install.source
    assert parameters.source == 'preset = "quick"  # quick or paper\nseed = 0'
    assert last.outputs == [output]


def test_install_cell_does_nothing_where_the_library_is(tmp_path, monkeypatch):
    launched = site.to_launch(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("#")]), OURS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("ran something"))
    with warnings.catch_warnings(record=True) as told:
        exec(launched.cells[1].source, {})
        warnings.warn("IProgress not found. Please update jupyter and ipywidgets.", stacklevel=1)
    assert list(tmp_path.iterdir()) == []
    assert told == []


def test_install_cell_takes_the_library_from_the_launched_tree(tmp_path, monkeypatch):
    """In a checkout nothing is cloned into it; on Binder the library is installed, too."""
    launched = site.to_launch(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("#")]), OURS)
    (tmp_path / "lib/companion").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    exec(launched.cells[1].source, {})
    assert [command[-2:] for command in commands] == [["--editable", "..[chapters]"]]
    assert sys.path[:2] == [str(tmp_path / "lib"), str(tmp_path / "notebooks")]
