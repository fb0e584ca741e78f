"""The lock, the conda environment and the table of contents agree with what they are made from."""

import itertools
import re
import tomllib
from pathlib import Path

import yaml
from companion.pipeline import environment
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()
LOCK = (ROOT / "requirements.lock").read_text()


def requirements(lines):
    return {Requirement(line).name.lower(): Requirement(line) for line in lines}


def test_conda_environment_carries_the_pins_of_the_lock():
    described = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [entry["pip"] for entry in described["dependencies"] if isinstance(entry, dict)]
    assert sorted(pip) == sorted([*environment.pins(LOCK), "-e ."])


def test_lock_satisfies_every_direct_dependency():
    project = tomllib.loads(PROJECT)["project"]
    lines = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    locked = requirements(environment.pins(LOCK))
    for wanted in map(Requirement, lines):
        (pin,) = locked[wanted.name.lower()].specifier
        assert wanted.specifier.contains(pin.version), wanted


def test_every_direct_dependency_has_its_reason():
    lines = [line for line in PROJECT.splitlines() if re.match(r'    "[\w.-]+([=<>]=?[^"]*)?",', line)]
    lines = [line for line in lines if not re.match(r'    "[A-Z]+\d+"', line)]  # codes of the linter
    assert len(lines) > 20
    assert [line for line in lines if not re.search(r"# \w", line)] == []


def test_lock_is_hashed_and_names_no_host():
    assert LOCK.count("--hash=sha256:") > len(environment.pins(LOCK))
    assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links", LOCK)
    for block in re.split(r"\n(?=\S)", LOCK.strip()):
        assert "--hash=sha256:" in block, block


def test_contents_list_exactly_the_chapters_present():
    contents = (ROOT / "_toc.yml").read_text()
    listed = re.findall(r"file: notebooks/(\w+)", contents)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))
    assert len(listed) == len(set(listed))
