"""The page for contributors gives a reason for each direct dependency, and for no other."""

import re

from coding_schemes import paths


def test_every_direct_dependency_has_its_reason():
    root = paths.repository_root()
    requirements = (root / "requirements.in").read_text(encoding="utf-8")
    required = set(re.findall(r"^([a-z][\w.-]*)", requirements, re.MULTILINE))
    page = (root / "book" / "contributing.md").read_text(encoding="utf-8")
    table = page[page.index("| package | reason |") :]
    reasoned = set()
    for names, reason in re.findall(r"^\| (`.*`) \| (.+) \|$", table, re.MULTILINE):
        assert reason.strip()
        reasoned |= set(re.findall(r"`([^`]+)`", names))
    assert required
    assert reasoned == required
