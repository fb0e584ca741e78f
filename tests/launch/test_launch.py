"""Chapters opened from elsewhere, as on Colab: a Python that has nothing, the install cell, the chapter.

`make test-launch` runs it, not `make test`: it downloads JAX and the rest of what chapters import.
"""

import json
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from companion.pipeline import execution, manifest, site
from companion.pipeline.project import Project
from small_book import REPOSITORY, git

ADDRESS = "https://github.com/owner/name"
FIRST = ("structure", 4)  # a chapter, and how many of its cells are run: up to its first results

# Cells as a kernel runs them: one after the other, in one namespace. The first of them installs IPython
RUN = """
import json, sys
install, *cells = json.load(open(sys.argv[1]))
exec(install)
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in cells:
    shell.run_cell(cell).raise_error()
print("whole")
"""
IMPORTS = """
import ast, json, sys
install, *chapters = json.load(open(sys.argv[1]))
exec(install)
for cells in chapters:
    for cell in cells:
        nodes = [node for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(nodes, []), "cell", "exec"), {})
print("whole")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The branch that is launched, from this checkout; chapters stand for themselves executed."""
    root, target = tmp_path_factory.mktemp("here") / "source", tmp_path_factory.mktemp("there") / "launch"
    root.mkdir()
    files = git(REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, files.split("\0")):
        if (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, root / name)
    git(root, "init", "-q")
    git(root, "remote", "add", "origin", ADDRESS)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "x")
    project = Project(root, "paper")
    for chapter in project.chapters:
        chapter.artifacts.mkdir(parents=True)
        nbformat.write(execution.prepare(chapter, {"preset": "paper"}), chapter.notebook)
        manifest.seal(chapter.manifest, chapter.folder, chapter.made_from)
    site.write_launch_tree(project, target)
    git(target, "init", "-q", "-b", "launch")
    git(target, "add", "--force", ".")
    git(target, "commit", "-qm", "x")
    return target


@pytest.fixture(scope="module")
def bare(tree, tmp_path_factory):
    """Runs a program on cells, by a Python that has had nothing but pip, in a folder of its own."""
    place = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    instead = {"COUNT": "1", "KEY_0": f"url.file://{tree}.insteadOf", "VALUE_0": ADDRESS}
    clone = {f"GIT_CONFIG_{name}": value for name, value in instead.items()}
    unset = ("PYTHONPATH", "XLA_FLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | clone

    def run(program, cells):
        (place / "cells.json").write_text(json.dumps(cells))
        command = [place / "venv/bin/python", "-c", program, place / "cells.json"]
        (place / "content").mkdir(exist_ok=True)
        done = subprocess.run(
            command, cwd=place / "content", env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout.endswith("whole\n"), done.stdout[-3000:] + done.stderr[-3000:]

    return run


def code(tree, name):
    """Code cells of a launched notebook."""
    notebook = nbformat.read(tree / "notebooks" / f"{name}.ipynb", as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
def test_every_chapter_finds_what_it_imports(tree, bare):
    chapters = [code(tree, name) for name in Project(REPOSITORY).names]
    (install,) = {cells[0] for cells in chapters}
    bare(IMPORTS, [install, *(cells[1:] for cells in chapters)])


@pytest.mark.slow
def test_a_chapter_begins_to_run(tree, bare):
    """In a kernel that was started anew, too: the tree is there, and is not taken again."""
    name, count = FIRST
    cells = code(tree, name)
    assert 'preset = "quick"' in cells[1]
    bare(RUN, cells[: count + 1])
