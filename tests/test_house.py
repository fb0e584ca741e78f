"""The house stands as it was drawn: imports run one way, and the science needs neither pictures nor pages."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

LIB = Path(__file__).parents[1] / "lib"
MAY_IMPORT = {
    "coding_schemes": {"coding_schemes"},
    "companion": {"coding_schemes", "companion"},
    "experiments": {"coding_schemes", "companion", "experiments"},
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


def test_the_science_imports_no_pictures_and_no_notebooks():
    code = (
        "import sys, pkgutil, importlib, coding_schemes\n"
        "for module in pkgutil.walk_packages(coding_schemes.__path__, 'coding_schemes.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(*{'matplotlib', 'IPython', 'seaborn', 'companion', 'experiments'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=LIB)
    assert done.stdout.split() == []


@pytest.mark.xdist_group("house")
def test_tests_of_a_group_go_to_one_worker(request):
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process: nothing is dealt out")
    assert request.node.nodeid.endswith("@house")  # what xdist deals by
