"""Corners of what tasks and networks can be: whatever takes them has to converge there.

One output, three, five; classes of unequal sizes, and ties; widths other than the number of inputs; up to
three layers; T = 0 and above.
"""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from test_posterior import in_input_space

TASKS = {
    "one output": tasks.toy(15, (0.6, 0.4), targets=[[1.0], [-0.7]]),
    "three outputs": tasks.toy(20, (0.5, 0.3, 0.2), y_minus=-0.3),
    "five outputs": tasks.toy(20, (0.35, 0.25, 0.2, 0.1, 0.1), y_minus=0.2),
    "more classes than outputs": tasks.toy(
        20, (0.4, 0.3, 0.2, 0.1), targets=[[1, 0], [0, 1], [1, 1], [-1, 0.5]]
    ),
    "ties": tasks.toy(18, (1 / 3, 1 / 3, 1 / 3), y_minus=-0.5),
}
KINDS = [("linear", 1), ("linear", 3), ("sigmoidal", 1), ("erf", 1), ("sigmoidal", 2), ("sigmoidal", 3)]
KINDS += [("relu", 1), ("softplus", 1), ("relu_squared", 1)]
T = 0.05
LONG = {
    ("ties", "sigmoidal", 3),
    ("more classes than outputs", "softplus", 1),
}


def cases():
    for (name, task), (phi, depth), temperature in itertools.product(TASKS.items(), KINDS, (0.0, T)):
        deep = phi == "sigmoidal" and depth > 1
        if deep and task.num_classes > 3:
            continue  # out of that theory's reach
        if (name == "three outputs" and deep) or (name == "ties" and (phi, depth) == ("sigmoidal", 2)):
            continue  # they take longest
        if (name, phi, temperature) == ("five outputs", "softplus", 0.0):
            continue
        weekly = temperature and (name, phi, depth) in LONG  # at T = 0 always
        marks = [pytest.mark.weekly] if weekly else []
        id = f"{name}-{phi}-{depth}-T={temperature}"
        yield pytest.param(task, phi, depth, temperature, id=id, marks=marks)


def told_apart(task):
    """Whether classes differ in size: kinds that classes of one size exchange come in any order."""
    return len(np.unique(task.class_counts)) == task.num_classes


@pytest.mark.parametrize(("task", "phi", "depth", "temperature"), cases())
def test_every_theory_converges_in_every_corner(task, phi, depth, temperature, same_as_kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "theory.solve: N = 33 is not far")  # so few inputs
        s = theory.solve(task, Network(depth, 33, phi), temperature)
    assert s.converged
    dual_field = s.dual_field if len(s.dual_field) == task.num_inputs else s.dual_field[task.labels]
    vanishing = phi == "relu_squared"
    residual = 0.0 if vanishing else temperature * dual_field
    accuracy = 3e-4 if phi == "sigmoidal" and depth > 1 else 1e-6
    np.testing.assert_allclose(task.targets - s.predict(task.inputs), residual, atol=accuracy)
    kernel = s.kernel()
    np.testing.assert_allclose(kernel, kernel.T, atol=1e-9 * np.abs(kernel).max())
    assert np.linalg.eigvalsh(kernel)[0] > -1e-7 * np.abs(kernel).max()
    assert np.all(s.probabilities > 0)
    if phi == "linear":
        assert s.readout_covariance.shape == 2 * (task.num_targets,)
    else:
        # readouts and dual field are conjugate, a_γ = Σ_c w_c t_c φ̄_γc: where peaks are wide, on average
        weights = task.class_counts / task.num_inputs
        pulled, readouts = (s.activations * weights) @ s.dual_field, s.readouts
        if hasattr(s, "mean_readouts"):
            pulled, readouts = s.probabilities @ pulled, s.probabilities @ s.mean_readouts
        # a bulk at finite P ends where its branches begin
        atol = 0.02 if phi in ("sigmoidal", "erf") else 2e-3 if hasattr(s, "ensemble") else 1e-6
        np.testing.assert_allclose(pulled, readouts, atol=atol)
    if told_apart(task) and not getattr(s, "num_free_directions", 0):  # of a family any member will do
        same_as_kept(s)


@pytest.mark.parametrize("num_neurons", [12, 50])
@pytest.mark.parametrize("name", ["one output", "three outputs", "ties"])
@pytest.mark.parametrize("phi", ["linear", "relu_squared"])
def test_finite_widths_on_either_side_of_the_number_of_inputs(phi, name, num_neurons, same_as_kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = theory.solve(TASKS[name], Network(1, num_neurons, phi), T, finite_width=True)
    assert s.converged
    if told_apart(TASKS[name]):
        same_as_kept(s)


@pytest.mark.parametrize("name", ["one output", "three outputs", "five outputs"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_lazy_networks_and_chains_of_gram_matrices(name, depth, same_as_kept):
    """The process at depth L, and linear networks of few neurons."""
    task = TASKS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = theory.solve(task, Network(depth, 33, "erf", "lazy"), T)
        assert s.converged
        np.testing.assert_allclose(task.targets - s.predict(task.inputs), T * s.dual_field, atol=1e-9)
    same_as_kept(s)
    if depth < 3 and name != "five outputs":
        narrow = theory.wishart_chain.solve(task, depth, 0.5, 30)
        wide = theory.linear.solve(task, depth, 0.5, width=30)
        assert narrow.converged
        np.testing.assert_allclose(narrow.readout_covariance, wide.readout_covariance, rtol=0.25, atol=0.03)


@pytest.mark.parametrize("name", ["one output", "three outputs"])
@pytest.mark.parametrize("phi", ["linear", "sigmoidal", "relu"])
def test_renaming_the_classes_renames_the_solution(name, phi):
    """Classes in the opposite order, at their own sizes and targets."""
    task = TASKS[name]
    last = task.num_classes - 1
    order = np.argsort(last - task.labels, kind="stable")
    other = tasks.Task(task.inputs[:, order], (last - task.labels)[order], task.targets[order])
    one, two = (theory.solve(each, Network(1, 33, phi), T) for each in (task, other))
    fields = [s.dual_field for s in (one, two)]
    expected = fields[0][order] if phi == "linear" else fields[0][::-1]
    np.testing.assert_allclose(fields[1], expected, atol=1e-6)
    np.testing.assert_allclose(two.kernel(), one.kernel()[np.ix_(order, order)], atol=1e-5)
    for row in two.codes:
        assert two.codes.tolist().count(row.tolist()) == one.codes[:, ::-1].tolist().count(row.tolist())


# --- posteriors, samplers and training --------------------------------------------------------------


def general(num_inputs, input_dim, num_targets):
    rng = np.random.default_rng(num_targets)
    labels = np.sort(np.append(rng.integers(0, 2, num_inputs - 2), [0, 1]))
    return tasks.Task(
        rng.standard_normal((input_dim, num_inputs)), labels, rng.standard_normal((num_inputs, num_targets))
    )


@pytest.mark.parametrize("scaling", ["lazy", "non-lazy"])
@pytest.mark.parametrize(("num_inputs", "input_dim"), [(4, 9), (9, 4)])
@pytest.mark.parametrize(("num_targets", "depth"), [(1, 1), (1, 3), (3, 2), (5, 1), (5, 3)])
def test_energies_and_gradients_of_posteriors(num_targets, depth, num_inputs, input_dim, scaling):
    """U from the weights in input space, by NumPy; its slope along one direction by differences."""
    task = general(num_inputs, input_dim, num_targets)
    given = Posterior(task, Network(depth, 6, "erf", scaling), 0.3, 0.7, dtype=np.float64)
    weights = given.prior(jax.random.key(0))
    assert float(given.energy(weights)) == pytest.approx(in_input_space(given, weights)[0])
    value, slope = given.value_and_gradient(weights)
    assert float(value) == pytest.approx(-float(given.energy(weights)))
    step = given.prior(jax.random.key(2))

    def at(shift):
        return float(given.energy(jax.tree.map(lambda w, d: w + shift * d, weights, step)))

    along = sum(float(jnp.sum(g * d)) for g, d in zip(jax.tree.leaves(slope), jax.tree.leaves(step)))
    assert along == pytest.approx(-(at(1e-5) - at(-1e-5)) / 2e-5, rel=1e-5)
