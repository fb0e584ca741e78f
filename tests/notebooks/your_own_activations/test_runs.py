"""The diagnosis on small networks of known scheme, and on networks that an optimizer trained."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.diagnosis import diagnose
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from your_own_activations import runs


def test_bounds_of_a_share_hold_in_nineteen_of_twenty_cases():
    """Over draws of binomial numbers; none and all are at the edge."""
    rng, share = np.random.default_rng(0), 0.8
    found = rng.binomial(24, share, 20_000)
    assert 0.94 < np.mean(runs.at_least(found, 24) <= share) < 0.99  # whole numbers make it more than 0.95
    assert 0.94 < np.mean(runs.at_most(found, 24) >= share) < 0.99
    assert runs.at_least([0, 24], 24) == pytest.approx([0, 0.05 ** (1 / 24)])
    assert runs.at_most([0, 24], 24) == pytest.approx([1 - 0.05 ** (1 / 24), 1])


def test_rotations_keep_the_kernel_and_the_average_neuron():
    rng = np.random.default_rng(0)
    turns = np.array([runs.rotation(7, rng) for _ in range(400)])
    for turn in turns[:5]:
        np.testing.assert_allclose(turn @ turn.T, np.eye(7), atol=1e-12)
        np.testing.assert_allclose(turn @ np.ones(7), np.ones(7), atol=1e-12)
    np.testing.assert_allclose(turns.mean(0), np.full((7, 7), 1 / 7), atol=5 * (1 / 7 / 400) ** 0.5)


@pytest.mark.slow
def test_sampled_networks_are_given_their_scheme_and_no_other():
    found = runs.calls(jax.random.key(0), tasks.toy(24, y_minus=-0.5), 30, 4, num_warmup=60)
    assert found.counts.sum() == 9 * 4
    analog, redundant, sparse, _ = np.moveaxis(found.counts, -1, 0)
    assert redundant[1, 0] == 4
    assert redundant.sum() == 4
    assert sparse.sum() == sparse[2, 0]  # after so few transitions outliers need not have merged
    assert analog[0, 0] >= 3  # two tests at a level of 1 %
    assert found.readout_share[:, 0].mean() > 3 * found.readout_share[:, 2].mean()
    assert (found.fitted_share[:, 0] > found.readout_share[:, 2]).all()


@pytest.mark.slow
def test_sampled_rectified_networks_are_sparse():
    task = tasks.toy(24, y_minus=-0.5)
    network, moves = Network(1, 40, "relu"), ("rotations", "split_merge")
    phi = runs.drawn(
        jax.random.key(1), task, network, num_networks=8, num_warmup=1000, moves=moves
    ).activations
    found = [diagnose(one, task.labels, num_rotations=199).scheme for one in phi]
    assert set(found) <= {"sparse", "undecided"}
    assert found.count("sparse") >= 6  # one in ten has not merged its outliers yet


def test_of_ten_classes_every_answer_is_counted_by_its_name(monkeypatch):
    """Of five networks of each kind; not all that is not redundant is undecided."""
    answers = {
        "sigmoidal": ["redundant", "undecided", "analog", "sparse", "undecided"],
        "relu": ["sparse", "sparse", "sparse", "undecided", "analog"],
        "untrained": ["analog", "redundant", "undecided", "sparse", "analog"],
    }

    def drawn(key, task, network, *, num_networks, trained):
        assert (task.num_classes, num_networks) == (10, 5)
        return SimpleNamespace(activations=answers[network.nonlinearity if trained else "untrained"])

    def diagnose(scheme, labels, **_):
        occupancies = SimpleNamespace(fractions=np.array([0.5, 0.5]), codes=np.eye(2))
        evidence = SimpleNamespace(two_levels=0.5)
        return SimpleNamespace(scheme=scheme, live=np.ones(6), occupancies=occupancies, evidence=evidence)

    monkeypatch.setattr(runs, "drawn", drawn)
    monkeypatch.setattr(runs, "diagnose", diagnose)
    found = runs.of_ten(None, 6, 20, 5)
    assert (found.sparse, found.untrained, found.undecided) == (3, 1, 2)
    assert found.sharing.tolist() == [3.0] * 5
    assert (found[4], found[5]) == (2.0, 0.5)


def test_untrained_networks_on_images_are_never_redundant_or_sparse():
    """Classes of digits differ already in random features."""
    task = tasks.mnist(60, 0)
    for nonlinearity in ("linear", "sigmoidal", "relu", "relu_squared"):
        network = Network(1, 50, nonlinearity)
        phi = runs.drawn(jax.random.key(2), task, network, trained=False, num_networks=6).activations
        found = [diagnose(one, task.labels, num_rotations=199) for one in phi]
        assert all(d.evidence.class_p == 1 / 200 for d in found)
        assert {d.scheme for d in found} <= {"analog", "undecided"}


def test_fitted_readouts_are_the_mean_of_the_posteriors():
    """The gradient of N |Y − φᵀa/N|²/2T + P |a|²/2 vanishes there."""
    rng = np.random.default_rng(0)
    phi, targets, T = rng.standard_normal((7, 5)), rng.standard_normal((5, 2)), 0.3
    readouts = runs.ridge(phi, targets, 5 * T)
    np.testing.assert_allclose(phi @ (targets - phi.T @ readouts / 7) / T, 5 * readouts, rtol=1e-10)


def test_steep_layers_with_random_weights_have_codes_where_classes_are_alike():
    """Where the inputs of a class are nearly the same; on unrelated inputs they have none."""
    alike, unrelated = tasks.clustered(60, overlap=0.99), tasks.toy(60)
    assert runs.untrained(alike, runs.steep, num_networks=4)[runs.REDUNDANT] == 4
    assert runs.untrained(alike, jax.nn.sigmoid, num_networks=4)[runs.REDUNDANT] == 0
    assert runs.untrained(unrelated, runs.steep, num_networks=4)[runs.UNDECIDED] == 4


def test_a_network_that_adam_trained_from_small_weights_is_redundant():
    task = tasks.mnist(60, 0)
    trained = runs.perceptron(
        task, jax.random.key(0), nonlinearity="tanh", width=40, gain=0.1, learning_rate=3e-3, num_steps=500
    )
    assert trained.accuracy == 1
    assert trained.kernel_change > 1  # hardly anything is left of the initial one
    found = diagnose(trained.activations, task.labels, trained.readouts)
    assert found.scheme == "redundant"
    assert found.readout_share > 10 * 2 / 40  # ten times what readouts that know nothing would have


def test_a_small_convolutional_network_learns_and_is_diagnosed(monkeypatch):
    task = tasks.mnist(30, 0)
    trained = runs.convolutional(
        task, jax.random.key(0), channels=(4, 4), width=20, num_steps=60, learning_rate=5e-3
    )
    assert trained.accuracy == 1
    assert trained.activations.shape == (20, 30)
    assert diagnose(trained.activations, task.labels, trained.readouts).scheme in runs.SCHEMES
    six = tasks.own(np.random.default_rng(0).standard_normal((36, 4)), np.array([0, 0, 1, 1]))
    monkeypatch.setattr(runs, "_descended", lambda task, start, forward, *_: forward(start)[1])
    hidden = runs.convolutional(six, jax.random.key(0), channels=(2, 2), width=5)
    assert hidden.shape == (4, 5)  # strides of two leave 3 × 3 of 6 × 6 pixels, and 2 × 2
    with pytest.raises(ValueError, match="side × side"):
        runs.convolutional(tasks.toy(30), jax.random.key(0))


def test_patches_are_a_convolution():
    image = np.random.default_rng(0).standard_normal((2, 7, 7, 3))
    kernel = np.random.default_rng(1).standard_normal((3, 3, 3, 5))
    expected = jax.lax.conv_general_dilated(
        image, kernel, (2, 2), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    patches = runs._patches(jax.numpy.asarray(image))
    np.testing.assert_allclose(patches @ kernel.reshape(27, 5), expected, rtol=1e-10, atol=1e-12)


def test_shown_layers_have_their_dead_neurons_last():
    layer = np.full((8, 6), 0.5)
    layer[[1, 4, 6]] = np.repeat([0.1, 0.9], 3)
    layer[3] = np.repeat([0.9, 0.1], 3)
    found = diagnose(layer, [0, 0, 0, 1, 1, 1], num_rotations=99)
    rows = runs.shown(layer, np.array([0, 0, 0, 1, 1, 1]), found)["activations"]
    assert np.ptp(rows[:4], axis=1).min() > 0.7
    assert np.ptp(rows[4:]) == 0
    np.testing.assert_array_equal(rows[:3], layer[[1, 4, 6]])


def test_the_papers_weights_become_activations_as_the_page_says():
    """The lines of the page, on a sampled network of two layers, against the posterior's own."""
    task = tasks.toy(6)
    posterior = Posterior(task, Network(2, 5, "sigmoidal"), 0.1)
    drawn = posterior.prior(jax.random.key(0))
    h = task.inputs
    for W in (posterior.first_layer(jax.random.key(1), drawn), *drawn.hidden):
        h = posterior.network.phi(W @ h / W.shape[1] ** 0.5)
    expected = posterior.network.phi(posterior.preactivations(drawn)[-1])
    np.testing.assert_allclose(h, expected, rtol=1e-4)


def test_neurons_that_share_a_code_are_live_ones():
    """Codes of two, one and one neuron: an average one of the four shares with ½·2 + ¼ + ¼ neurons."""
    live, occupancies = np.array([1, 1, 0, 1, 0, 1], bool), SimpleNamespace(fractions=[0.5, 0.25, 0.25])
    assert runs.sharing(SimpleNamespace(live=live, occupancies=occupancies)) == 1.5
