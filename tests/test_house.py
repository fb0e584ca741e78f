"""The house stands as it was drawn: imports run one way, and the science needs neither pictures nor pages."""

import ast
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from companion.pipeline.project import Project

LIB = Path(__file__).parents[1] / "lib"
MAY_IMPORT = {
    "coding_schemes": {"coding_schemes"},
    "companion": {"coding_schemes", "companion"},
}


@pytest.mark.parametrize(
    "package", sorted(path.name for path in LIB.iterdir() if (path / "__init__.py").is_file())
)
def test_imports_run_one_way(package):
    found = {}
    for path in (LIB / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            ours = {name.split(".")[0] for name in names} & set(MAY_IMPORT)
            if wrong := ours - MAY_IMPORT[package]:
                found[str(path.relative_to(LIB))] = wrong
    assert found == {}


CHAPTERS = sorted((LIB.parent / "notebooks").glob("*/chapter.py"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.parent.name)
def test_the_first_open_cell_runs_by_itself(chapter):
    """A reader pastes it: it uses no name that it does not define or import."""
    cells = [cell for cell in jupytext.read(chapter).cells if cell.cell_type == "code"]
    source = next(cell.source for cell in cells if not cell.metadata.get("tags"))
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
    assert subprocess.run(command, input=source, text=True, capture_output=True).returncode == 0


def test_no_random_generator_is_without_its_seed():
    """Otherwise no build gives the numbers of another."""
    modules = [path for folder in (LIB, LIB.parent / "notebooks") for path in folder.rglob("*.py")]
    assert [path for path in modules if "default_rng()" in path.read_text(encoding="utf-8")] == []


def test_the_science_imports_no_pictures_and_no_notebooks():
    code = (
        "import sys, pkgutil, importlib, coding_schemes\n"
        "for module in pkgutil.walk_packages(coding_schemes.__path__, 'coding_schemes.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(*{'matplotlib', 'IPython', 'seaborn', 'companion'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=LIB)
    assert done.stdout.split() == []


COMMON = ("coding", "diagnosis", "planting", "posterior", "sampling/__init__", "statistics", "training")


@pytest.mark.parametrize("module", COMMON)
def test_what_all_chapters_use_imports_no_theory(module):
    """Otherwise an edit of one theory would run all chapters again."""
    imported = Project(LIB.parent).imported(LIB / "coding_schemes" / f"{module}.py")
    assert imported
    assert not [path for path in imported if "theory" in path.relative_to(LIB.parent).parts]


def test_one_place_in_theory_warns_of_what_did_not_converge():
    """And one more says what the solver that `theory.solve` chose neglects."""
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in (LIB / "coding_schemes/theory").glob("*.py")
    }
    assert sorted(
        name for name, text in texts.items() if "validation.warn(" in text or "warnings.warn(" in text
    ) == [
        "_solution.py",
        "_solve.py",
    ]


@pytest.mark.xdist_group("house")
def test_tests_of_a_group_go_to_one_worker(request):
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process: nothing is dealt out")
    assert request.node.nodeid.endswith("@house")  # what xdist deals by
