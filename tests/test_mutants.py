"""The list of planted faults, and what the runner does with a text that is not there, or there twice."""

import pytest
from mutants import run


@pytest.mark.parametrize(
    ("text", "planted"), [("x = 1\n", "x = 2\n"), ("x = 3\n", None), ("x = 1\nx = 1\n", None)]
)
def test_a_fault_is_planted_where_its_text_stands_once(tmp_path, text, planted):
    (tmp_path / "module.py").write_text(text)
    assert run.Mutant("module.py", "x = 1", "x = 2", (), "").planted(tmp_path) == planted
    assert run.Mutant("gone.py", "x = 1", "x = 2", (), "").planted(tmp_path) is None


def test_every_listed_fault_changes_something_and_names_its_tests():
    mutants = run.read()
    assert len({(m.file, m.old, m.new) for m in mutants}) == len(mutants)
    for mutant in mutants:
        assert mutant.old != mutant.new
        assert mutant.reason
        assert mutant.tests
        assert all((run.ROOT / test.partition("::")[0]).is_file() for test in mutant.tests), mutant.tests


def test_every_listed_fault_can_still_be_planted_and_its_tests_are_there():
    """A list that nobody runs every day grows stale with each edit of a text or a name."""
    for mutant in run.read():
        assert mutant.planted(run.ROOT) is not None, f"{mutant.file}: {mutant.old!r}"
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert not name or f"def {name.partition('[')[0]}(" in (run.ROOT / file).read_text(), test
