"""The lock, the conda environment and the table of contents agree with what they are made from."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import small_book
import yaml
from companion.pipeline import environment
from companion.pipeline.project import Project
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()
LOCK = (ROOT / "requirements.lock").read_text()
TOOLS = (ROOT / "tests/requirements.lock").read_text()
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def versions(lock, python):
    """Version of each package that a lock gives to one Python."""
    where = {"python_version": python, "python_full_version": f"{python}.4", "sys_platform": "linux"}
    lines = map(Requirement, environment.pins(lock))
    return {
        line.name.lower(): Version(str(line.specifier).removeprefix("=="))
        for line in lines
        if line.marker is None or line.marker.evaluate(where)
    }


def test_conda_environment_carries_the_pins_of_the_lock():
    described = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [entry["pip"] for entry in described["dependencies"] if isinstance(entry, dict)]
    assert sorted(pip) == sorted([*environment.pins(LOCK), "-e ."])


@pytest.mark.parametrize("python", PYTHONS)
def test_locks_satisfy_every_direct_dependency(python):
    table = tomllib.loads(PROJECT)
    project = table["project"]
    book = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    for lock, lines in ((LOCK, book), (TOOLS, table["dependency-groups"]["tests"])):
        locked = versions(lock, python)
        for wanted in map(Requirement, lines):
            assert wanted.specifier.contains(locked[wanted.name.lower()]), wanted


def test_newer_pythons_are_not_held_back_by_the_oldest():
    oldest, *newer = [versions(LOCK, python) for python in PYTHONS]
    for name in ("jax", "jaxlib", "numpy", "scipy", "arviz-stats"):
        assert all(found[name] > oldest[name] for found in newer), name


@pytest.mark.parametrize("python", PYTHONS)
def test_tools_of_the_tests_are_no_part_of_the_book_and_agree_with_it(python):
    book, tools = versions(LOCK, python), versions(TOOLS, python)
    assert not {"playwright", "mypy", "ruff", "pytest"} & set(book)
    assert {name for name in set(book) & set(tools) if book[name] != tools[name]} == set()


def test_what_the_book_installs_is_below_a_gigabyte():
    """As it lies here, without the tests' tools; NeuroLibre allows that much."""
    sizes = {}
    for pin in map(Requirement, environment.pins(LOCK)):
        if pin.marker is None or pin.marker.evaluate():
            found = metadata.distribution(pin.name)
            places = {os.path.realpath(found.locate_file(file)) for file in found.files or ()}
            sizes[pin.name] = sum(os.path.getsize(place) for place in places if os.path.isfile(place))
    assert sum(sizes.values()) < 1e9, sorted(sizes, key=sizes.get)[-5:]
    assert sizes["jaxlib"] > 1e8  # the sizes are those of files


def test_every_direct_dependency_is_imported():
    """By lib or a chapter; the others are programs."""
    project = tomllib.loads(PROJECT)["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["chapters"]]
    modules = {"pillow": "PIL", "pyyaml": "yaml", "ipython": "IPython"}
    code = "".join(
        path.read_text() for folder in ("lib", "notebooks") for path in (ROOT / folder).rglob("*.py")
    )
    names = {modules.get(name, name.replace("-", "_")) for name in (Requirement(line).name for line in lines)}
    unused = {name for name in names if not re.search(rf"^\s*(import|from) {name}\b", code, re.MULTILINE)}
    assert unused == {"jaxlib"}  # jax's own half


def test_every_direct_dependency_has_its_reason():
    lines = [line for line in PROJECT.splitlines() if re.match(r'    "[\w.-]+([=<>]=?[^"]*)?",', line)]
    lines = [line for line in lines if not re.match(r'    "[A-Z]+\d+"', line)]  # codes of the linter
    assert len(lines) > 20
    assert [line for line in lines if not re.search(r"# \w", line)] == []


@pytest.mark.parametrize("lock", [LOCK, TOOLS], ids=["book", "tests"])
def test_lock_is_hashed_and_names_no_host(lock):
    assert lock.count("--hash=sha256:") > len(environment.pins(lock))
    assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links", lock)
    for block in re.split(r"\n(?=\S)", lock.strip()):
        assert "--hash=sha256:" in block, block


def test_contents_list_exactly_the_chapters_present():
    contents = (ROOT / "_toc.yml").read_text()
    listed = re.findall(r"file: notebooks/(\w+)", contents)
    assert sorted(listed) == Project(ROOT).names
    assert len(listed) == len(set(listed))


def test_recipes_for_elsewhere_call_what_the_makefile_has():
    """The container, the editor's container, Read the Docs: each sets up by the same few targets."""
    place = ROOT / ".devcontainer"
    editor = json.loads((place / "devcontainer.json").read_text())
    container = (place / editor["build"]["dockerfile"]).read_text()
    assert re.search(rf"^FROM \S+ AS {editor['build']['target']}$", container, re.MULTILINE)
    assert f"--uid 1000 {editor['remoteUser']}" in container
    docs = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert docs["build"]["tools"]["python"] in PYTHONS
    assert docs["build"]["commands"] == ['bash .ci/preview "$READTHEDOCS_OUTPUT/html"']
    commands = [editor["postCreateCommand"], container, (ROOT / ".ci/preview").read_text()]
    called = set(" ".join(re.findall(r"\bmake ([a-z -]+)", " ".join(commands))).split())
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"book", "setup", "setup-tests"} <= called & targets


MAKE = """\
#!/bin/sh
echo "$@" >> calls
case "$1" in
  fetch-results) exit 1 ;;
  plan) PYTHONPATH={lib} exec {python} -m companion.pipeline plan --preset "${{2#PRESET=}}" ;;
  book) mkdir -p "_build/${{2#PRESET=}}/html" && {made}; exit 1 ;;
esac
"""


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_a_preview_takes_over_whole_results_and_shows_pages_with_a_verdict_that_turned(tmp_path, preset):
    """With a make that finds nothing published, and whose builds fail; the plan is that of the small book."""
    root = small_book.write(tmp_path / "book")
    (root / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/preview", root / ".ci")
    for chapter in Project(root, "paper").chapters[: None if preset == "paper" else 1]:
        small_book.finish(chapter)
    make = tmp_path / "make"

    def preview(made):
        make.write_text(MAKE.format(lib=ROOT / "lib", python=sys.executable, made=made))
        make.chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", root / ".ci/preview", "shown/html"]
        return subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}).returncode

    assert preview("true") == 1  # no pages at all
    assert not (tmp_path / "shown").exists()
    assert preview('echo "$2" > "_build/${2#PRESET=}/html/index.html"') == 0
    calls = ["fetch-results PRESET=paper", "plan PRESET=paper", f"book PRESET={preset}"]
    assert (root / "calls").read_text().splitlines() == 2 * calls
    assert (tmp_path / "shown/html/index.html").read_text() == f"PRESET={preset}\n"


@pytest.mark.parametrize("built", ["true", "exit 1"], ids=["built", "turned"])
def test_a_container_shows_pages_with_a_verdict_that_turned(tmp_path, built):
    """By the command that the image runs, with a make and a server that only note what they were asked."""
    recipe = (ROOT / ".devcontainer/Containerfile").read_text()
    (command,) = re.findall(r"^CMD (\[.+\])$", recipe, re.MULTILINE)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >> served\n')
    python.chmod(0o755)
    make = tmp_path / "make"
    make.touch(0o755)

    def run():
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(json.loads(command), cwd=tmp_path, env=os.environ | {"PATH": path}).returncode

    make.write_text("#!/bin/sh\nexit 2\n")  # no pages at all
    assert run() != 0
    assert not (tmp_path / "served").exists()
    pages = "_build/quick/html"
    make.write_text(f"#!/bin/sh\nmkdir -p {pages} && touch {pages}/index.html; {built}\n")
    assert run() == 0
    assert f"--directory {pages} 8000" in (tmp_path / "served").read_text()


def test_no_result_and_no_environment_is_copied_into_the_container():
    left_out = (ROOT / ".dockerignore").read_text().split()
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    assert {".venv", ".venv-bench", "_build", ".snakemake"} <= ignored & set(left_out)
