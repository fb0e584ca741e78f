"""The numbers printed in the primer's worked example are the ones that follow from its equations."""

import re

import numpy as np
import pytest
from coding_schemes import paths, tasks
from coding_schemes.theory import linear
from scipy.optimize import brentq

NUM_INPUTS = 200


def printed_rows():
    text = (paths.repository_root() / "book" / "primer.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    return [tuple(float(number) for number in row) for row in rows]


def test_the_four_neurons_are_what_the_text_says():
    """The page's own cell, run: outputs 1 and −1, an identity, and 8, for each scheme."""
    text = (paths.repository_root() / "book" / "primer.md").read_text(encoding="utf-8")
    cell = re.search(r"```python\n(import numpy.*?)```", text, re.DOTALL)[1]
    shown = []
    exec(cell, {"print": lambda *values: shown.append(values)})
    assert len(shown) == 3
    for outputs, kernel, length in shown:
        np.testing.assert_allclose(outputs, [1, -1], atol=1e-12)
        np.testing.assert_allclose(kernel, np.eye(2), atol=1e-12)
        assert length == pytest.approx(8)


def test_the_table_is_there():
    assert len(printed_rows()) == 3


@pytest.mark.parametrize(("temperature", "field", "variance", "output"), printed_rows())
def test_worked_example(temperature, field, variance, output):
    tau = brentq(lambda t: t / (1 - t**2) - NUM_INPUTS * (1 - temperature * t), 0, 1 - 1e-12)
    printed = [field, variance, output]
    np.testing.assert_allclose(
        [tau, 1 / NUM_INPUTS / (1 - tau**2), 1 - temperature * tau], printed, atol=0.5e-4, rtol=0
    )
    task = tasks.toy(NUM_INPUTS, (0.5, 0.5), targets=[[1.0], [-1.0]], seed=0)
    solution = linear.solve(task, depth=1, temperature=temperature)
    solved = [solution.dual_field[0, 0], solution.readout_covariance[0, 0]]
    np.testing.assert_allclose(np.abs(solved), printed[:2], atol=0.5e-4, rtol=0)
