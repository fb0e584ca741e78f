"""Inputs that overlap between classes, too: averages by brute force, limits, sampled networks."""

import jax
import numpy as np
import pytest
from coding_schemes import planting, tasks, theory
from coding_schemes.coding import class_participation
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.theory import _shared_overlap, condensation

T = 0.01
COUNTS, WITHIN, DIAGONAL, BETWEEN = np.array([2.0, 1.0]), np.array([0.6, 0.5]), np.array([1.1, 0.9]), 0.3
FIELDS = np.array([[0.5, -0.8], [0.7, 0.4], [-0.3, 0.6], [0.0, 0.0]])
SMALL = {"class_ratios": (0.5, 0.25, 0.25), "groups": (0, 0, 0), "y_minus": -0.5}


def by_brute_force(fields, firmness=(0.0, 0.0)):
    """On a lattice of the three inputs' preactivations: log g, ⟨φ⟩ per class, φ's products and ⟨m⁴⟩."""
    labels = np.array([0, 0, 1])
    kernel = np.where(labels[:, None] == labels, WITHIN[labels][:, None], BETWEEN)
    np.fill_diagonal(kernel, DIAGONAL[labels])
    axis = np.linspace(-6.5, 9.5, 161)
    z = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    phi = np.maximum(z, 0)
    exponent = -0.5 * np.einsum("ki,ij,kj->k", z, np.linalg.inv(kernel), z)
    exponent += phi @ fields[labels] - 0.5 * phi**2 @ np.asarray(firmness)[labels]
    weights = np.exp(exponent) * (axis[1] - axis[0]) ** 3
    weights /= np.sqrt((2 * np.pi) ** 3 * np.linalg.det(kernel))
    p = weights / weights.sum()
    mean = phi[:, :2].mean(1)
    products = (phi * p[:, None]).T @ phi
    return np.log(weights.sum()), p @ phi, products, p @ mean**4


@pytest.fixture(scope="module")
def site():
    return _shared_overlap.Site(COUNTS, WITHIN, DIAGONAL, BETWEEN)


@pytest.fixture(scope="module")
def condensed():
    return condensation.solve(tasks.tree(40, overlaps=(0.5, 0.25), **SMALL), T)


def test_averages_are_those_of_a_lattice_of_preactivations(site):
    found = site.averages(FIELDS)
    for k, fields in enumerate(FIELDS):
        log_g, mean, products, fourth = by_brute_force(fields)
        kwargs = {"rtol": 2e-3, "atol": 1e-4}  # the lattice's: φ has a kink
        np.testing.assert_allclose(found.log_g[k], log_g, **kwargs)
        np.testing.assert_allclose(found.means[k], mean[[0, 2]], **kwargs)
        np.testing.assert_allclose(found.squares[k], np.diag(products)[[0, 2]], **kwargs)
        np.testing.assert_allclose(found.shared[k, 0], products[0, 1], **kwargs)
        np.testing.assert_allclose(found.products[k, 0, 1], products[0, 2], **kwargs)
        np.testing.assert_allclose(found.fourths[k, 0], fourth, **kwargs)


def test_means_are_derivatives_and_so_are_the_slopes_of_the_scatter(site):
    found, step = site.averages(FIELDS, slopes=True), 1e-4
    for c in range(2):
        above, below = (site.averages(FIELDS + side * step * np.eye(2)[c]) for side in (1, -1))
        slope = (above.log_g - below.log_g) / (2 * step * COUNTS[c])
        np.testing.assert_allclose(slope, found.means[:, c], rtol=1e-4, atol=1e-6)
        change = ((above.squares - above.shared) - (below.squares - below.shared)) / (2 * step)
        np.testing.assert_allclose(change, found.slopes[:, :, c], rtol=2e-3, atol=2e-4)


def test_a_branch_is_what_the_bulk_is_where_both_reach(site):
    fields = np.array([[3.0, -2.0], [3.0, -0.5]])
    along = site.along_branch(0, fields)
    np.testing.assert_allclose(along, site.averages(fields).log_g, atol=1e-4)
    np.testing.assert_allclose(site.log_held(0, fields, np.zeros((2, 2))), 0, atol=1e-4)


def test_silence_that_the_outputs_ask_for_is_that_of_a_lattice(site):
    fields, firmness = np.array([[1.2, -0.5]]), np.array([0.0, 0.8])
    found = site.log_held(0, fields, firmness[None])[0]
    free, held = (by_brute_force(fields[0], b)[0] for b in (np.zeros(2), firmness))
    assert found == pytest.approx(held - free, rel=5e-3)
    assert found < -0.01


def test_far_fields_grow_as_others_leave_them(site):
    """κ = ∂log g/∂s over n s: below K0 − ρ + nρ, since silent inputs hold what all classes share."""
    s = np.array([40.0, 42.0])
    fields = np.stack([s, -s], axis=1)
    slope = np.diff(site.along_branch(0, fields))[0] / 2
    assert slope / (COUNTS[0] * s.mean()) == pytest.approx(site.stiffness[0], rel=0.01)
    assert site.stiffness[0] < 0.95 * (DIAGONAL - WITHIN + COUNTS * WITHIN)[0]


def test_in_the_end_every_silent_input_costs_a_power_of_the_radius():
    for counts, silent in ((COUNTS, 1), (np.array([2.0, 4.0]), 4)):
        other = _shared_overlap.Site(counts, WITHIN, DIAGONAL, BETWEEN)
        s = np.array([80.0, 160.0])
        along = np.array([other.along_branch(0, np.array([[each, -each]]))[0] for each in s])
        left = along - 0.5 * counts[0] * other.stiffness[0] * s**2
        assert np.diff(left)[0] / np.log(2) == pytest.approx(-silent, rel=0.01)


def test_without_overlap_between_classes_it_is_the_theory_of_clusters():
    near = condensation.solve(tasks.tree(40, overlaps=(0.5, 1e-6), **SMALL), T)
    apart = condensation.solve(tasks.clustered(40, overlap=0.5, y_minus=-0.5), T)
    assert near.problem.between > 0
    assert apart.problem.between == 0
    for name in ("dual_field", "amounts", "kernel_block", "kernel_diagonal", "bulk_noise"):
        np.testing.assert_allclose(getattr(near, name), getattr(apart, name), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(near.log_bulk, apart.log_bulk, rtol=1e-4)
    np.testing.assert_allclose(near.bulk_squares, apart.bulk_squares, rtol=1e-3)
    np.testing.assert_allclose(near.participation(60), apart.participation(60), rtol=0.01)


def test_one_neuron_takes_a_share_at_any_width_beyond_a_critical_overlap(condensed):
    below = condensation.solve(tasks.tree(40, overlaps=(0.5, 0.01), **SMALL), T)
    assert np.all(below.condensed_share < 0)
    np.testing.assert_allclose(below.participation(3200) / 3200, below.class_participation, rtol=0.1)
    assert np.all(condensed.condensed_share > 0.8)
    assert np.all(np.isnan(condensed.class_participation))
    wide, wider = condensed.participation(800), condensed.participation(3200)
    np.testing.assert_allclose(wide, wider, rtol=0.03)
    assert "at any N" in condensed.approximation


def test_sampled_networks_have_its_participation_kernel_and_training_error(condensed):
    task, width = condensed.task, 100
    posterior = Posterior(task, Network(1, width, "relu"), T).with_root()
    drawn = sample(posterior, jax.random.key(0), 24, num_chains=16, num_warmup=150, thinning=2)
    activations = drawn.activations()
    inverse = (1 / class_participation(activations, task.labels)).mean((1, 2))
    error = inverse.std(ddof=1) / np.sqrt(len(inverse))
    expected = np.mean(1 / condensed.participation(width))
    assert abs(inverse.mean() - expected) < 0.07 * expected + 3 * error
    clusters = condensation.solve(tasks.clustered(40, overlap=0.5, y_minus=-0.5), T)
    assert np.mean(1 / clusters.participation(width)) < 0.5 * inverse.mean()
    zero = activations[..., task.labels == 0].mean(-1)
    one = activations[..., task.labels == 1].mean(-1)
    diagonal = condensed.kernel_block[0, 0] + condensed.kernel_diagonal[0] / task.class_counts[0]
    assert (zero**2).mean() == pytest.approx(diagonal, rel=0.05)
    assert (zero * one).mean() == pytest.approx(condensed.kernel_block[0, 1], rel=0.1)


def test_networks_drawn_from_it_have_its_outputs_and_kernel(condensed):
    task, rng = condensed.task, np.random.default_rng(0)
    z, a = condensed.draw(rng, task.labels, 4000)
    phi = np.maximum(z, 0)
    outputs = phi.T @ a / len(a)
    wanted = (task.class_targets - T * condensed.dual_field)[task.labels]
    np.testing.assert_allclose(outputs, wanted, atol=0.1)
    block = condensed.kernel()
    same = task.labels[:, None] == task.labels
    np.fill_diagonal(same, False)
    kernel = phi.T @ phi / len(phi)
    assert kernel[same].mean() == pytest.approx(block[same].mean(), rel=0.05)
    apart = task.labels[:, None] != task.labels
    assert kernel[apart].mean() == pytest.approx(block[apart].mean(), rel=0.1)


def test_it_plants_and_predicts_and_theory_solve_finds_it(condensed):
    task = condensed.task
    np.testing.assert_allclose(
        condensed.predict(task.inputs),
        (task.class_targets - T * condensed.dual_field)[task.labels],
        atol=1e-6,
    )
    posterior = Posterior(task, Network(1, 60, "relu"), T)
    weights = planting.planted(jax.random.key(1), condensed, posterior)
    assert np.isfinite(float(posterior.value_and_gradient(weights)[0]))
    found = theory.solve(task, Network(1, 60, "relu"), T)
    assert isinstance(found, condensation.Solution)
    np.testing.assert_allclose(found.amounts, condensed.amounts)
    with pytest.raises(ValueError, match="another task"):
        planting.planted(
            jax.random.key(1),
            condensed,
            Posterior(tasks.tree(40, overlaps=(0.5, 0.2), **SMALL), Network(1, 60, "relu"), T),
        )


def test_softplus_is_refused_there():
    with pytest.raises(ValueError, match="do not overlap by one ρ within and 0 between"):
        condensation.solve(tasks.tree(40, overlaps=(0.5, 0.2), **SMALL), T, nonlinearity="softplus")
