"""The explorer's solvers, JavaScript in Node, against the library and the stored atlas."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from bare_page import REPOSITORY, STATIC
from coding_schemes import coding, tasks
from coding_schemes.theory import clustered, linear, relu, sigmoidal
from companion import figures

HERE = Path(__file__).parent
CODES = list(itertools.product((0, 1), repeat=3))
HALF = (0.5, 0.25, 0.25)

# P, class ratios, y₋ and temperatures from high to low; at P = 20, 100 and 500 around T_c, which is
# 0.0548, 0.0689 and 0.0770 there
LINES = [
    (20, HALF, 0.5, (0.0565, 0.0537, 0.0493, 0.002)),
    (100, HALF, 0.5, (0.0709, 0.0675, 0.062, 0.01)),
    (500, HALF, 0.5, (0.0793, 0.0755, 0.01, 1e-4)),
    (1000, (0.4, 0.35, 0.25), 0.1, (0.1, 0.02, 0.001)),
    (50, (0.3, 0.5, 0.2), -0.3, (0.3, 0.05, 0.002)),
    (200, (0.6, 0.2, 0.2), 0.8, (0.03, 0.001)),
    (300, (0.2, 0.73, 0.07), -0.8, (0.1, 0.01, 5e-4)),
    (500, (0.34, 0.33, 0.33), -0.5, (0.1, 0.01)),
]
RELU = [
    (HALF, -0.5, 1e-4),
    (HALF, -1.0, 0.1),
    (HALF, 0.0, 0.01),
    (HALF, 0.32, 0.01),
    (HALF, 0.5, 0.01),
    ((0.6, 0.3, 0.1), 0.9, 0.001),
    ((0.24, 0.47, 0.29), 0.2, 0.5),
    ((0.15, 0.51, 0.34), -0.16, 0.53),
    ((0.3, 0.16, 0.54), 0.76, 0.7),
    ((0.2, 0.45, 0.35), 0.15, 0.003),
]


def key(code):
    return "".join(str(int(active)) for active in code)


def options(num_inputs, ratios, y_minus, temperature):
    return {
        "ratios": list(ratios),
        "numInputs": num_inputs,
        "yPlus": 1.0,
        "yMinus": y_minus,
        "temperature": temperature,
    }


def of_sigmoidal():
    for num_inputs, ratios, y_minus, temperatures in LINES:
        task = tasks.toy(num_inputs, ratios, 1.0, y_minus)
        line = [tasks.one_hot(3, 1.0, y_minus)] * len(temperatures)
        # nodes of the page's marginals, between which it interpolates, and places halfway
        half_step = 0.25 / num_inputs**0.5
        grid = half_step * np.arange(-round(3 / half_step), round(3 / half_step), 5)
        for temperature, found in zip(temperatures, sigmoidal.scan(task, temperatures, line)):
            assert found.converged
            # of a code's peaks the page shows the strongest's readout, and the average of activations: those
            # of codes with one peak are compared
            peaks = {key(code): np.flatnonzero(np.all(found.codes == code, axis=1)) for code in CODES}
            strongest = {
                code: at[np.argmax(found.probabilities[at])]
                for code, at in peaks.items()
                if len(at) and found.probabilities[at].max() > 0.02
            }
            rows = {code: row for code, row in strongest.items() if len(peaks[code]) == 1}
            error = task.class_counts @ np.sum(found.training_residual**2, axis=1) / num_inputs
            # the last of each line, as the library's densities take a second
            outputs = range(3) if temperature == temperatures[-1] else ()
            yield options(num_inputs, ratios, y_minus, temperature) | {
                "shares": {key(code): found.occupancy(code) for code in CODES},
                "field": found.dual_field.tolist(),
                "trainingError": float(error),
                "numPeaks": found.num_peaks(),
                "readouts": {code: found.readouts[row].tolist() for code, row in strongest.items()},
                "activations": {code: found.activations[row].tolist() for code, row in rows.items()},
                "grid": grid.tolist(),
                "densities": [sigmoidal.readout_density(found, r, grid).tolist() for r in outputs],
            }


def of_relu():
    for ratios, y_minus, temperature in RELU:
        found = relu.solve(tasks.toy(100, ratios, 1.0, y_minus), temperature)
        assert found.converged
        pairs = zip(found.outlier_readouts.tolist(), found.outlier_preactivations.tolist())
        yield options(100, ratios, y_minus, temperature) | {
            "field": found.dual_field.tolist(),
            "bulkReadout": found.bulk_readout.tolist(),
            "bulkActivations": found.bulk_activations.tolist(),
            "outliers": [{"readout": a, "preactivations": z} for a, z in pairs],
            "family": found.num_free_directions > 0,
            "trainingError": float(
                found.class_weights @ np.sum((temperature * found.dual_field) ** 2, axis=1)
            ),
        }


def _error(task, solution):
    """Squared error of the outputs on all training inputs, summed over outputs."""
    return float(np.square(task.targets - solution.predict(task.inputs)).sum(1).mean())


def of_linear():
    for num_inputs, ratios, y_minus, temperature in [
        (20, HALF, 0.0, 0.01),
        (100, (0.6, 0.3, 0.1), 0.5, 0.3),
        (60, (0.4, 0.4, 0.2), -0.5, 1e-3),
        (30, (0.2, 0.3, 0.5), 0.8, 1.5),
        (1000, (0.34, 0.33, 0.33), -0.9, 1e-4),
    ]:
        task = tasks.toy(num_inputs, ratios, 1.0, y_minus)
        found = linear.solve(task, temperature=temperature)
        first = [int(np.argmax(task.labels == c)) for c in range(3)]
        yield options(num_inputs, ratios, y_minus, temperature) | {
            "covariance": found.readout_covariance.tolist(),
            "field": found.dual_field[first].tolist(),
            "spread": np.linalg.eigvalsh(found.readout_covariance).tolist(),
            "trainingError": _error(task, found),
        }


def of_atlas():
    with np.load(REPOSITORY / "data" / "results" / "redundant-atlas.npz") as stored:
        return {
            "targets": stored["targets"].tolist(),
            "temperatures": stored["temperatures"].tolist(),
            "codes": [key(code) for code in stored["codes"]],
            "occupancies": stored["occupancies"].astype(float).tolist(),
            "critical": stored["critical_temperatures"].tolist(),
        }


def of_transitions():
    task, ends = tasks.toy(50, HALF, 1.0, 0.5), (tasks.one_hot(3, 1.0, 0.5), tasks.one_hot(3, 1.0, 0.3))
    (found,) = sigmoidal.transitions(task, (0.01, 0.01), ends, num_points=3, tolerance=2e-3)
    peaks = [solution.num_peaks() for solution in (found.before, found.after)]
    along = {"name": "yMinus", "step": -0.05, "end": -1.0, "value": float(found.class_targets[0, 1])}
    return [along | {"task": options(50, HALF, 0.5, 0.01), "before": peaks[0], "after": peaks[1]}]


@pytest.mark.slow
def test_javascript_agrees_with_the_library(node, tmp_path):
    oracle = tmp_path / "oracle.json"
    oracle.write_text(
        json.dumps(
            {
                "sigmoidal": list(of_sigmoidal()),
                "relu": list(of_relu()),
                "linear": list(of_linear()),
                "atlas": of_atlas(),
                "transitions": of_transitions(),
            }
        )
    )
    said = node("--test", "--test-reporter=tap", HERE / "solver.test.js", ORACLE=str(oracle))
    assert re.search(r"^# pass 12$", said, re.M), said
    assert re.search(r"^# skipped 0$", said, re.M), said


SOLVE = """
const solver = require(process.argv[1]), cases = JSON.parse(process.argv[2]);
console.log(JSON.stringify(cases.map(({ solve, ...options }) => solver[solve](options))));
"""


@pytest.fixture
def solved(of_script):
    return lambda cases: of_script(SOLVE, "explorer.js", cases)


@pytest.mark.slow
def test_bounded_networks_on_inputs_that_overlap(solved):
    """Sigmoidal and tanh, over P, y₋, ρ and T, against the library."""
    cases = [
        (100, 0.5, 0.5, 0.01, "sigmoidal"),
        (60, 0.1, 0.05, 0.02, "sigmoidal"),
        (40, 0.5, 0.9, 0.001, "sigmoidal"),
        (60, -0.5, 0.2, 0.1, "sigmoidal"),
        (200, 0.5, 0.5, 0.01, "sigmoidal"),
        (60, 0.1, 0, 0.01, "tanh"),
        (60, -0.5, 0.5, 0.05, "tanh"),
    ]
    asked = [
        options(num_inputs, HALF, y_minus, temperature)
        | {"overlap": overlap, "nonlinearity": nonlinearity, "solve": "solve"}
        for num_inputs, y_minus, overlap, temperature, nonlinearity in cases
    ]
    for case, found in zip(cases, solved(asked), strict=True):
        num_inputs, y_minus, overlap, temperature, nonlinearity = case
        if overlap:
            task = tasks.clustered(num_inputs, HALF, overlap=overlap, y_minus=y_minus)
            theory = clustered.solve(task, temperature, nonlinearity=nonlinearity)
        else:
            task = tasks.toy(num_inputs, HALF, y_minus=y_minus)
            theory = sigmoidal.solve(task, temperature, nonlinearity=nonlinearity)
        assert found["converged"], case
        np.testing.assert_allclose(found["field"], theory.dual_field, atol=1e-6, err_msg=str(case))
        shares = dict.fromkeys(map(key, CODES), 0.0)
        for code, share in zip(theory.codes, theory.probabilities, strict=True):
            shares[key(code)] += share
        np.testing.assert_allclose(
            [found["occupancies"][code] for code in shares], [*shares.values()], atol=1e-4, err_msg=str(case)
        )


def test_linear_and_relu_networks_on_inputs_that_overlap(solved):
    """The closed form; the crowd of ReLU neurons, its participation and kernel. A thin crowd is refused."""
    cases = [(60, -0.5, 0.5, 0.01), (100, 0.1, 0.9, 0.05), (30, 0.3, 0.3, 0.01), (200, -0.5, 0.8, 1e-3)]
    places = [options(P, HALF, y, T) | {"overlap": overlap} for P, y, overlap, T in cases]
    analog = solved([place | {"solve": "solveLinear"} for place in places])
    crowds = solved([place | {"solve": "solvePopulation"} for place in places])
    for case, line, crowd in zip(cases, analog, crowds, strict=True):
        num_inputs, y_minus, overlap, temperature = case
        task = tasks.clustered(num_inputs, HALF, overlap=overlap, y_minus=y_minus)
        closed = linear.solve(task, temperature=temperature)
        first = np.unique(task.labels, return_index=True)[1]
        np.testing.assert_allclose(line["readoutCovariance"], closed.readout_covariance, atol=1e-8)
        np.testing.assert_allclose(line["field"], closed.dual_field[first], atol=1e-7)
        theory = clustered.solve(task, temperature, nonlinearity="relu")
        assert crowd["converged"], case
        np.testing.assert_allclose(crowd["field"], theory.dual_field, rtol=1e-5, err_msg=str(case))
        np.testing.assert_allclose(crowd["participation"], theory.class_participation, rtol=2e-4)
        np.testing.assert_allclose(crowd["kernel"], theory.kernel_block, rtol=2e-5)
    (thin,) = solved([options(60, HALF, -0.5, 0.01) | {"overlap": 0.1, "solve": "solvePopulation"}])
    assert not thin["converged"]


def test_softplus_networks(solved):
    cases = [(100, -0.5, 0.01), (60, 0.1, 0.01), (100, -1.0, 0.1)]
    asked = [options(P, HALF, y, T) | {"nonlinearity": "softplus", "solve": "solveRelu"} for P, y, T in cases]
    for (num_inputs, y_minus, temperature), found in zip(cases, solved(asked), strict=True):
        task = tasks.toy(num_inputs, HALF, y_minus=y_minus)
        theory = relu.solve(task, temperature, nonlinearity="softplus")
        np.testing.assert_allclose(found["field"], theory.dual_field, atol=1e-7)
        np.testing.assert_allclose(found["bulkActivations"], theory.bulk_activations, atol=1e-7)
        strengths = np.max([one["preactivations"] for one in found["outliers"]], axis=0)
        np.testing.assert_allclose(strengths, theory.outlier_preactivations.max(0), atol=1e-6)


def test_an_overlap_that_is_not_allowed_is_refused(solved):
    case = options(40, HALF, 0.5, 0.01) | {"overlap": 1, "solve": "solve"}
    with pytest.raises(AssertionError, match="ρ: got 1; allowed are numbers from 0 to 0.95"):
        solved([case])


def test_stored_shares_are_those_of_the_solver(node):
    stored = json.loads((REPOSITORY / "data/results/explorer.json").read_text(encoding="utf-8"))
    found = json.loads(node(HERE / "store.js"))
    assert found["codes"] == stored["codes"]
    np.testing.assert_allclose(found["grid"], stored["grid"], atol=2e-4)
    for one, other in zip(found["elsewhere"], stored["elsewhere"], strict=True):
        np.testing.assert_allclose(one.pop("shares"), other.pop("shares"), atol=2e-4)
        assert one == other


def test_stored_map_is_the_solvers(node):
    texts = node(HERE / "store_map.js"), (STATIC / "explorer-map.js").read_text(encoding="utf-8")
    found, stored = (json.loads(text[text.index("{") : text.rindex("}") + 1]) for text in texts)
    assert [found[name] for name in ("of", "targets")] == [stored[name] for name in ("of", "targets")]
    for one, other in zip(found["columns"], stored["columns"], strict=True):
        np.testing.assert_allclose(one["effectiveCodes"], other["effectiveCodes"], atol=2e-3)
        assert one["critical"] == pytest.approx(other["critical"], rel=1e-3)


SCRIPTS = [*STATIC.glob("*.js"), REPOSITORY / "lib" / "companion" / "player.js"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_parse_in_strict_mode(node, script, tmp_path):
    strict = tmp_path / script.name
    strict.write_text(f'"use strict"; {script.read_text(encoding="utf-8")}', encoding="utf-8")
    node("--check", strict)


def test_codes_have_the_colors_of_the_figures():
    sheets = [STATIC / f"{name}.css" for name in ("book", "explorer")]
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    colors = dict(re.findall(r"--code-(\d{3}): (#[0-9a-f]{6})", style))
    assert colors == {key(code): figures.CODE_COLORS[coding.code_name(code)].lower() for code in CODES}
    outputs = re.findall(r"--output-\d: (#[0-9a-f]{6})", style)
    assert outputs[:3] == [color.lower() for color in figures.CLASS_COLORS[:3]]
