"""What theory.solve reaches: the table of book/api/theory.md, made by running it.

python tests/theory/test_reach.py     solves every combination and writes the table (minutes)
"""

import itertools
import re
import warnings
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest
from coding_schemes import tasks, theory
from coding_schemes.networks import Network
from coding_schemes.theory import _solve

PAGE = Path(__file__).parents[2] / "book/api/theory.md"
START, STOP = "<!-- reach: begin -->\n", "<!-- reach: end -->\n"
T = 0.01
TOY = tasks.toy(12, (0.5, 0.5), y_minus=-0.5)
TASKS = {
    "orthogonal": TOY,
    "orthogonal, targets differ within a class": tasks.Task(
        TOY.inputs, TOY.labels, TOY.targets + 0.1 * np.eye(12, 2)
    ),
    "clustered": tasks.clustered(12, (0.5, 0.5), overlap=0.5, y_minus=-0.5),
    "clustered, one overlap between classes, too": tasks.tree(
        16, (0.5, 0.5), (0, 0), (0.5, 0.3), y_minus=-0.5
    ),
    "tree": tasks.tree(12, (0.25, 0.25, 0.5), (0, 0, 1)),
    "general": tasks.own(np.random.default_rng(0).standard_normal((6, 12)) + 1, TOY.labels),
}
PHI = ["linear", "sigmoidal", "tanh", "relu", jax.nn.leaky_relu, jax.nn.gelu, "softplus", "relu_squared"]
COLUMNS = [(depth, t) for depth in (1, 2, 3) for t in (T, 0.0)]
NAMES = {
    _solve.SigmoidalSolution: "sigmoidal",
    _solve.DeepSolution: "deep_sigmoidal",
    _solve.PopulationSolution: "population",
}


def name(phi):
    return phi if isinstance(phi, str) else phi.__name__


def cell(task, phi, depth, temperature, scaling="non-lazy"):
    """The solver's name and what it neglects, or a dash and the first clause of the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = theory.solve(task, Network(depth, 50, phi, scaling), temperature)
        except ValueError as error:
            clause = str(error).split(". ")[0].split("; ")[0]
            clause = clause.replace(repr(Network(1, 1, phi).nonlinearity), "φ")
            return "–", re.sub(r"depth [23]", "depth 2 and more", clause)
    solver = NAMES.get(type(found), type(found).__module__.split(".")[-1])
    if solver == "population" and depth > 1:  # whether these converge is a matter of their number
        return "nested", "exact at N → ∞, but for sampled neurons"
    if not found.converged:
        return "–", "the solver does not converge"
    neglected = re.sub(r": (two populations|N).*", "", found.approximation)
    return solver, neglected


def page(table):
    """Markdown of {(task, φ, depth, T): cell}; φ with equal rows share one."""
    letters, neglected, lines = {}, {}, []
    for task in TASKS:
        shared = {}
        for phi in map(name, PHI):
            cells = []
            for column in COLUMNS:
                solver, text = table[task, phi, *column]
                if solver == "–":
                    cells.append(f"– {letters.setdefault(text, len(letters) + 1)}")
                else:
                    cells.append(solver)
                    neglected.setdefault((solver, text.split(",")[0]), text)
            shared.setdefault(tuple(cells), []).append(phi)
        lines += [f"| {task} | {', '.join(phis)} | {' | '.join(cells)} |" for cells, phis in shared.items()]
    head = [f"depth {depth}, T {'> 0' if t else '= 0'}" for depth, t in COLUMNS]
    return "\n".join([
        f"| inputs | φ | {' | '.join(head)} |", "|" + "---|" * (len(head) + 2), *lines, "",
        *(f"{number}. {text}" for text, number in letters.items()), "",
        "| solver | what it neglects |", "|---|---|",
        *(f"| {solver} | {text} |" for (solver, _), text in sorted(neglected.items())), "",
    ])  # fmt: skip


#: Half of the neurons and rounds find the same solver.
smaller = mock.patch.dict(_solve._POPULATION, num_neurons=512, num_rounds=30)


@smaller
def everything():
    return {
        (task, name(phi), *column): cell(TASKS[task], phi, *column)
        for task, phi, column in itertools.product(TASKS, PHI, COLUMNS)
    }


def written():
    return PAGE.read_text().split(START)[1].split(STOP)[0]


def rows():
    """Six cells for every (task, φ) of the page."""
    lines = [[part.strip() for part in line.split("|")[1:-1]] for line in written().splitlines()]
    lines = [line for line in lines if len(line) == len(COLUMNS) + 2 and line[0] in TASKS]
    return {(task, phi): cells for task, phis, *cells in lines for phi in phis.split(", ")}


def test_the_table_has_every_combination():
    assert set(rows()) == set(itertools.product(TASKS, map(name, PHI)))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("phi", ["linear", jax.nn.gelu, "relu_squared"], ids=name)
@smaller
def test_rows_are_what_is_solved(task, phi):
    """Of three φ here, of all in the weekly test."""
    for column, shown in zip(COLUMNS, rows()[task, name(phi)]):
        solver, text = cell(TASKS[task], phi, *column)
        assert shown.split()[0] == solver
        if solver == "–":
            assert f"{shown.split()[1]}. {text}\n" in written()


@pytest.mark.parametrize("phi", PHI, ids=name)
def test_lazy_networks_are_solved_everywhere(phi):
    """But for a linear one at T = 0 with targets that no linear network fits."""
    for task, column in itertools.product(TASKS, COLUMNS):
        fits = (task, phi, column[1]) != ("general", "linear", 0)
        assert (cell(TASKS[task], phi, *column, scaling="lazy")[0] == "gaussian_process") == fits


@pytest.mark.weekly
def test_the_table_is_what_is_solved():
    assert page(everything()) == written()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + page(everything()) + STOP + rest.partition(STOP)[2])
