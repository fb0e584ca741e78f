"""The diagnosis on small networks of known scheme, and on networks that an optimizer trained."""

import json

import jax
import numpy as np
import pytest
from coding_schemes import tasks
from coding_schemes.diagnosis import diagnose
from coding_schemes.networks import Network
from experiments import diagnosis


def test_confusion_matrix_counts():
    truth = ["analog", "analog", "lazy", "redundant", "untrained"]
    scheme = ["analog", "undecided", "analog", "redundant", "undecided"]
    expected = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(diagnosis.confusion_matrix(truth, scheme), expected)


@pytest.mark.slow
def test_sampled_networks_are_given_their_scheme_and_no_other():
    found = diagnosis.calibrate(
        jax.random.key(0),
        sizes=((30, 24),),
        noises=(0.0, 0.5),
        nonlinearities=("linear", "sigmoidal"),
        kinds=("non-lazy", "untrained"),
        num_networks=4,
        num_warmup=60,
        num_rotations=199,
    )
    matrix = diagnosis.confusion_matrix(found["truth"], found["scheme"])
    assert matrix.sum() == len(found["noise"]) == 32
    np.testing.assert_array_equal(matrix[1], [0, 8, 0, 0])
    assert matrix[0, 0] >= 6  # two tests at a level of 1 % on four networks and their noisy copies
    assert matrix[:, 2].sum() == matrix[0, 1] == matrix[4, 1] == 0
    assert np.isnan(found["temperature"][found["truth"] == "untrained"]).all()
    with pytest.raises(ValueError, match="kinds"):
        diagnosis.calibrate(jax.random.key(0), kinds=("rich",))


@pytest.mark.slow
def test_sampled_rectified_networks_are_sparse():
    task = tasks.toy(24, y_minus=-0.5)
    network, moves = Network(1, 40, "relu"), ("rotations", "split_merge")
    phi = diagnosis.drawn(
        task, network, 0.01, jax.random.key(1), num_networks=16, num_warmup=1000, moves=moves
    )
    found = [diagnose(one, task.labels, num_rotations=199).scheme for one in phi]
    assert set(found) <= {"sparse", "undecided"}
    assert found.count("sparse") >= 12  # one in ten has not merged its outliers yet


def test_untrained_networks_on_images_are_never_redundant_or_sparse():
    """Classes of digits differ already in random features."""
    task = tasks.mnist(60, 0)
    for nonlinearity in ("linear", "sigmoidal", "relu", "relu_squared"):
        phi = diagnosis.drawn(task, Network(1, 50, nonlinearity), None, jax.random.key(2), num_networks=6)
        found = [diagnose(one, task.labels, num_rotations=199) for one in phi]
        assert all(d.evidence.class_p == 1 / 200 for d in found)
        assert {d.scheme for d in found} <= {"analog", "undecided"}


def test_noise_is_measured_in_the_activations_own_deviations():
    phi = 7 * np.random.default_rng(0).standard_normal((100, 200))
    np.testing.assert_allclose(diagnosis.noisy(phi, 0.5, 1).std() / phi.std(), 1.25**0.5, rtol=0.02)
    np.testing.assert_array_equal(diagnosis.noisy(phi, 0.0, 1), phi)


def test_a_network_that_adam_trained_from_small_weights_is_redundant():
    task = tasks.mnist(60, 0)
    trained = diagnosis.adam(
        task, jax.random.key(0), nonlinearity="tanh", width=40, gain=0.1, learning_rate=3e-3, num_steps=500
    )
    assert trained.accuracy == 1
    found = diagnose(trained.activations, task.labels, trained.readouts)
    assert found.scheme == "redundant"
    assert found.readout_share > 10 * 2 / 40  # ten times what readouts that know nothing would have


def test_a_small_convolutional_network_learns_and_is_diagnosed():
    task = tasks.mnist(30, 0)
    trained = diagnosis.convolutional(
        task, jax.random.key(0), channels=(4, 4), width=20, num_steps=60, learning_rate=5e-3
    )
    assert trained.accuracy == 1
    assert trained.activations.shape == (20, 30)
    assert diagnose(trained.activations, task.labels, trained.readouts).scheme in diagnosis.SCHEMES
    with pytest.raises(ValueError, match="side × side"):
        diagnosis.convolutional(tasks.toy(30), jax.random.key(0))


def test_patches_are_a_convolution():
    image = np.random.default_rng(0).standard_normal((2, 7, 7, 3))
    kernel = np.random.default_rng(1).standard_normal((3, 3, 3, 5))
    expected = jax.lax.conv_general_dilated(
        image, kernel, (2, 2), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    patches = diagnosis._patches(jax.numpy.asarray(image))
    np.testing.assert_allclose(patches @ kernel.reshape(27, 5), expected, rtol=1e-10, atol=1e-12)


def test_a_perceptron_given_by_its_weights():
    """Layers as scikit-learn keeps them, against loops over inputs and units."""
    rng = np.random.default_rng(0)
    coefs = [rng.standard_normal(shape) for shape in ((3, 4), (4, 5), (5, 2))]
    intercepts = [rng.standard_normal(n) for n in (4, 5, 2)]
    inputs = rng.standard_normal((6, 3))
    phi = diagnosis.perceptron(coefs, intercepts, inputs, "logistic")
    assert phi.shape == (5, 6)
    for p, x in enumerate(inputs):
        h = [1 / (1 + np.exp(-(x @ coefs[0][:, i] + intercepts[0][i]))) for i in range(4)]
        for i in range(5):
            z = sum(h[j] * coefs[1][j, i] for j in range(4)) + intercepts[1][i]
            assert phi[i, p] == pytest.approx(1 / (1 + np.exp(-z)))
    assert diagnosis.perceptron(coefs, intercepts, inputs, "relu").min() == 0
    with pytest.raises(ValueError, match="softmax"):
        diagnosis.perceptron(coefs, intercepts, inputs, "softmax")
    with pytest.raises(ValueError, match="hidden layer"):
        diagnosis.perceptron(coefs[:1], intercepts[:1], inputs, "relu")


def test_the_command_stores_its_columns_and_how_they_were_made(tmp_path, monkeypatch):
    seen = {}

    def calibrate(key, **options):
        seen.update(options)
        return {"noise": np.ones(3)}

    monkeypatch.setattr(diagnosis, "calibrate", calibrate)
    output = tmp_path / "new" / "found.npz"
    command = f"_ --widths 5 6 --num_inputs 7 --temperatures 0.1 --output {output}"
    monkeypatch.setattr("sys.argv", command.split(" "))
    diagnosis.main()
    assert seen["sizes"] == [(5, 7), (6, 7)]
    assert seen["temperatures"] == [0.1]
    with np.load(output) as stored:
        assert stored["noise"].shape == (3,)
        assert {"widths", "on", "versions", "commit", "seconds"} <= set(json.loads(str(stored["manifest"])))
