"""The laboratory's sampler, JavaScript in Node, against the library's theory and its sampled networks."""

import itertools
import json
from pathlib import Path

import numpy as np
from coding_schemes import tasks
from coding_schemes.theory import finite_width, linear, relu, sigmoidal

HERE = Path(__file__).parent
HALF = (0.5, 0.25, 0.25)
CODES = np.array(list(itertools.product((False, True), repeat=3)))
# Of the library's ReLU networks, N = 60 on P = 60 inputs, overlap ½, y₋ = −½, T = 0.01: eight chains by
# sample(…, num_samples=300, thinning=3, num_warmup=1200), class_participation averaged over classes
PARTICIPATION = 3.935, 0.051
# Of its sigmoidal networks, N = P = 60, y₋ = ½, T = 0.02: neurons with each code, with standard errors, by
# sample(…, jax.random.key(1), num_samples=200, num_chains=32, thinning=3, num_warmup=1200)
NUMBERS = {"110": (16.868, 0.018), "101": (16.861, 0.015), "011": (16.305, 0.020), "111": (9.967, 0.035)}


def options(num_neurons, num_inputs, y_minus, temperature, **others):
    return {
        "numNeurons": num_neurons,
        "numInputs": num_inputs,
        "ratios": HALF,
        "yMinus": y_minus,
        "temperature": temperature,
    } | others


def of_linear():
    """On orthogonal inputs, and on those that are alike within a class."""
    for overlap in (0.0, 0.5):
        found = linear.solve(tasks.clustered(12, HALF, overlap, 1.0, -0.5), temperature=0.1)
        yield {
            "options": options(60, 12, -0.5, 0.1, overlap=overlap),
            "covariance": found.readout_covariance.tolist(),
        }


def of_codes():
    """At T = 0.02, where a cooled network is in equilibrium; by 0.01 codes have frozen on the way."""
    found = sigmoidal.solve(tasks.toy(60, HALF, 1.0, 0.5), 0.02)
    numbers = finite_width.whole_numbers(found, CODES, 60)
    names = ["".join(str(int(active)) for active in code) for code in CODES]
    theory = dict(zip(names, numbers.tolist(), strict=True))
    return {"options": options(60, 60, 0.5, 0.02), "numbers": theory, "sampled": NUMBERS}


def of_outliers():
    """Of each class's own outlier the mean preactivation on it, over √N."""
    found = relu.solve(tasks.toy(100, HALF, 1.0, -0.5), 0.01)
    strengths = found.outlier_preactivations.max(axis=0)
    return {"options": options(100, 100, -0.5, 0.01), "preactivations": strengths.tolist()}


def test_sampler(node, tmp_path):
    """All of sampler.test.js, with the library's numbers at hand."""
    oracle = tmp_path / "oracle.json"
    mean, error = PARTICIPATION
    spread = {"options": options(60, 60, -0.5, 0.01, overlap=0.5), "participation": mean, "error": error}
    numbers = {
        "linear": list(of_linear()),
        "codes": of_codes(),
        "outliers": of_outliers(),
        "participation": spread,
    }
    oracle.write_text(json.dumps(numbers), encoding="utf-8")
    assert "skipped 0" in node("--test", HERE / "sampler.test.js", ORACLE=str(oracle))
