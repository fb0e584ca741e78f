"""The examples in the docstrings of the public face."""

import doctest

import pytest
from coding_schemes import networks, tasks
from coding_schemes.theory import _solve
from companion.pipeline import front


@pytest.mark.parametrize("module", [networks, tasks, _solve, front])
def test_examples(module):
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
