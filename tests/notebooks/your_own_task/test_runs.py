"""Readers' tasks: a nonlinearity by its name, theory where there is one, and tasks of any shape."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import diagnose, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import convergence, sample
from your_own_task import runs


def test_nonlinearities_by_name():
    assert runs.elementwise("relu") == "relu"
    assert runs.elementwise("gelu") is jax.nn.gelu
    with pytest.raises(ValueError, match="nonlinearity: got 'wiggle'"):
        runs.elementwise("wiggle")


@pytest.mark.parametrize("name", ["add", "sum", "softmax", "zeros", "linalg", "reshape"])
def test_names_of_what_is_no_nonlinearity_are_refused(name):
    with pytest.raises(ValueError, match="nonlinearity"):
        Network(1, 10, runs.elementwise(name))


def test_what_has_not_converged_is_no_prediction(monkeypatch):
    unfinished = SimpleNamespace(converged=False, residual=0.02, probabilities=np.ones(1))
    monkeypatch.setattr(runs.theory, "solve", lambda *_: unfinished)
    assert runs.predicted(None, None, 0.1) == (None, "The solver did not converge: residual 2.0e-02.")


def test_theory_where_there_is_one():
    task = tasks.toy(40)
    found, sentence = runs.predicted(task, Network(1, 10, "sigmoidal"), 0.05)
    assert found is not None
    assert "4 kinds" in sentence
    found, sentence = runs.predicted(task, Network(3, 10, "relu"), 0.05)
    assert found is None
    assert "no theory" in sentence


def _random(features, inputs, classes):
    rng = np.random.default_rng(0)
    return rng.standard_normal((features, inputs)), np.arange(inputs) % classes


SHAPES = {
    "one feature": _random(1, 6, 2),
    "two inputs": _random(3, 2, 2),
    "each input a class of its own": _random(3, 5, 5),
    "seven classes, more than theory enumerates": _random(10, 14, 7),
    "identical inputs": (np.ones((4, 6)), np.arange(6) % 2),
    "an input of zeros": (np.pad(np.ones((4, 5)), ((0, 0), (1, 0))), np.arange(6) % 2),
    "huge numbers": (1e200 * _random(3, 6, 2)[0], np.arange(6) % 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("nonlinearity", ["sigmoidal", "relu"])
@pytest.mark.filterwarnings("error::RuntimeWarning")  # nothing is divided by zero on the way
def test_tasks_of_any_shape_are_learned_or_refused(name, nonlinearity):
    """Everything that the chapter runs: an answer or a ValueError that names an argument."""
    task = tasks.own(*SHAPES[name])
    network = Network(1, 6, nonlinearity)
    _, sentence = runs.predicted(task, network, 0.01)
    assert sentence
    posterior = Posterior(task, network, 0.01)
    samples = sample(posterior, jax.random.key(0), num_samples=4, num_chains=2, num_warmup=8)
    assert convergence(samples, posterior).verdict
    try:
        found = diagnose(samples.activations()[0, -1], task.labels, num_rotations=99)
    except ValueError as error:
        assert "activations:" in str(error)  # noqa: PT017
    else:
        assert found.scheme in ("analog", "redundant", "sparse", "undecided")


def test_one_class_has_no_scheme():
    task = tasks.own(np.eye(4), np.zeros(4))
    assert runs.predicted(task, Network(1, 6, "sigmoidal"), 0.01)[1]
    with pytest.raises(ValueError, match="labels: got one class"):
        diagnose(np.eye(4), task.labels)


def test_shares_of_codes_stand_beside_theorys():
    """Two chains of two samples of four neurons; two kinds of theory's share a code."""
    kinds = SimpleNamespace(
        codes=np.array([[True, False], [False, True], [True, False]]), probabilities=[0.25, 0.25, 0.5]
    )
    codes = np.zeros((2, 2, 4, 2), bool)
    codes[0, ..., 0] = True  # all neurons of the first chain
    codes[1, :, :2, 0] = True  # half of the second's
    codes[1, :, 2:, 1] = True
    assert runs.code_shares(codes, kinds) == [
        "code 1-0: 0.750 ± 0.250 of the neurons, theory 0.750",
        "code 0-1: 0.250 ± 0.250 of the neurons, theory 0.250",
    ]
