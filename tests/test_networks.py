"""Networks: nonlinearities, scalings, forward pass."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import networks, tasks
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import moves
from scipy.special import erf


def test_sigmoidal_is_paper_a_s():
    z = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(
        networks.sigmoidal(jnp.asarray(z)), 0.5 * (1 + erf(np.sqrt(np.pi) * z / 2)), atol=1e-12
    )
    assert float(jax.grad(networks.sigmoidal)(0.0)) == pytest.approx(0.5)


@pytest.mark.parametrize("name", list(networks.NONLINEARITIES))
def test_nonlinearities_keep_float32(name):
    """A promotion to float64 would make sampling ten times slower."""
    assert networks.nonlinearity(name)(jnp.ones(3, jnp.float32)).dtype == jnp.float32


@pytest.mark.parametrize("name", list(networks.NONLINEARITIES))
def test_a_named_nonlinearity_is_known_however_it_is_written(name):
    """What one part of the library accepts, all accept: a function stands for its name."""
    written = {
        "linear": lambda z: 1.0 * z,
        "sigmoidal": lambda z: 0.5 + 0.5 * jax.lax.erf(jnp.sqrt(jnp.pi / 4) * z),
        "relu": lambda z: jnp.maximum(z, 0.0),
        "softplus": lambda z: jnp.logaddexp(z, 0.0),
        "relu_squared": lambda z: jnp.where(z > 0, z * z, 0.0),
        "erf": jax.lax.erf,
        "tanh": jnp.tanh,
    }
    for way in (name, networks.NONLINEARITIES[name], written[name]):
        assert networks.canonical(way) == name
        assert networks.Network(nonlinearity=way).nonlinearity == name


def test_a_function_that_overflows_is_known_by_its_finite_values(recwarn):
    """log(1 + eᶻ) is infinite from z = 710 on, where softplus is z; as itself no theory would take it."""
    assert networks.Network(nonlinearity=lambda z: jnp.log1p(jnp.exp(z))).nonlinearity == "softplus"
    assert networks.homogeneity(lambda z: jnp.log1p(jnp.exp(z))) is None
    for other in (
        lambda z: jnp.log1p(jnp.exp(1.001 * z)),
        jnp.exp,
        lambda z: jnp.where(jnp.abs(z) < 50, z, jnp.nan),
    ):
        assert networks.canonical(other) is other
    assert not recwarn.list


def test_rescaling_moves_take_a_function_for_its_name():
    posterior = Posterior(tasks.toy(4), networks.Network(1, 5, jax.nn.relu), 0.1)
    moves.check("scale", posterior)


@pytest.mark.parametrize(
    "other", [jax.nn.leaky_relu, jax.nn.relu6, jax.nn.gelu, lambda z: jnp.tanh(1.001 * z), jnp.sin]
)
def test_other_functions_stay_themselves(other):
    assert networks.canonical(other) is other


def test_middle_of_symmetric_nonlinearities():
    middles = {name: networks.middle(phi) for name, phi in networks.NONLINEARITIES.items()}
    expected = dict.fromkeys(middles) | {"linear": 0.0, "erf": 0.0, "tanh": 0.0, "sigmoidal": 0.5}
    assert middles == expected
    assert networks.middle(lambda z: 3 - jax.nn.sigmoid(2 * z)) == 2.5
    assert networks.middle(lambda z: jnp.exp(-(z**2))) is None


def test_middle_of_functions_that_overflow():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert networks.middle(jnp.sinh) == 0.0
        assert networks.middle(jnp.cosh) is None
        assert networks.middle(jnp.log) is None


def test_degree_of_homogeneity():
    degrees = {name: networks.homogeneity(phi) for name, phi in networks.NONLINEARITIES.items()}
    assert degrees == {
        "linear": 1,
        "relu": 1,
        "relu_squared": 2,
        **dict.fromkeys(("sigmoidal", "softplus", "erf", "tanh")),
    }
    assert networks.homogeneity(jax.nn.leaky_relu) == networks.homogeneity(lambda z: -jax.nn.relu(z)) == 1
    assert networks.homogeneity(lambda z: jnp.abs(z) ** 1.5) == pytest.approx(1.5)
    assert networks.homogeneity(lambda z: jax.nn.relu(z) + 1e-3 * z**2) is None
    assert networks.homogeneity(lambda z: 0 * z) is None
    doubled_alike = lambda z: z * (2 + jnp.cos(2 * jnp.pi * jnp.log2(jnp.abs(z) + (z == 0))))  # noqa: E731
    assert networks.homogeneity(doubled_alike) is None  # φ(2z) = 2φ(z)


def test_functions_are_told_apart_inside_a_transformation():
    def degree(x):
        assert networks.canonical(lambda z: jnp.maximum(z, 0)) == "relu"  # new each time: nothing is cached
        assert networks.is_bounded(lambda z: jnp.sin(z))
        return x * networks.homogeneity(lambda z: z * jnp.abs(z))

    np.testing.assert_array_equal(jax.vmap(degree)(jnp.ones(3)), 2.0)
    assert jax.jit(degree)(1.0) == 2.0


def test_bounded_nonlinearities():
    bounded = {name for name, phi in networks.NONLINEARITIES.items() if networks.is_bounded(phi)}
    assert bounded == {"sigmoidal", "erf", "tanh"}
    assert not networks.is_bounded(lambda z: jax.nn.relu(-z))  # on one side only
    assert networks.is_bounded(lambda z: 1500 * jnp.tanh(z))
    assert not networks.is_bounded(lambda z: jnp.log1p(jnp.abs(z)))  # small, and grows for ever


def test_forward_pass_by_hand():
    rng = np.random.default_rng(0)
    first, hidden, readouts = (
        rng.standard_normal((3, 5)),
        rng.standard_normal((3, 3)),
        rng.standard_normal((3, 2)),
    )
    for scaling, scale in (("non-lazy", 1 / 3), ("lazy", 3**-0.5)):
        network = networks.Network(2, 3, "tanh", scaling)
        layers = network.preactivations(jnp.asarray(first), (jnp.asarray(hidden),))
        second = hidden @ np.tanh(first) / np.sqrt(3)
        np.testing.assert_allclose(layers[1], second, atol=1e-12)
        np.testing.assert_allclose(
            network.outputs(layers[1], jnp.asarray(readouts)),
            scale * np.tanh(second).T @ readouts,
            atol=1e-12,
        )
        np.testing.assert_allclose(
            network.kernel(layers[1]), np.tanh(second).T @ np.tanh(second) / 3, atol=1e-12
        )


def test_own_function_as_nonlinearity():
    assert networks.Network(1, 2, jnp.sin).phi is jnp.sin


STDS = [("tanh", 1, 1.7), ("tanh", 3, 0.6), ("linear", 3, (2.0, 0.5, 1.5)), ("relu_squared", 2, (0.8, 1.3))]


@pytest.mark.parametrize("scaling", ["lazy", "non-lazy"])
@pytest.mark.parametrize(("phi", "depth", "stds"), STDS, ids=[f"{phi}-{depth}" for phi, depth, _ in STDS])
def test_weights_of_any_prior_variance_are_weights_of_variance_one(phi, depth, stds, scaling):
    """The energy of paper A with Σ‖W^ℓ‖²/2σ_ℓ², written out in the weights, at drawn weights."""
    task = tasks.toy(6, (0.5, 0.5))
    network = networks.Network(depth, 5, phi, scaling, weight_std=stds)
    given = Posterior(task, network, 0.3, readout_variance=0.4, dtype=jnp.float64)
    weights = given.prior(jax.random.key(0))
    first = given.first_layer(jax.random.key(1), weights) @ task.inputs @ np.linalg.pinv(task.inputs)
    each, act = np.broadcast_to(stds, depth), networks.NONLINEARITIES[phi]
    hidden = [s * np.asarray(matrix) for s, matrix in zip(each, (first, *weights.hidden))]
    a, h, num = np.asarray(given.readouts(weights)) / network.gain, task.inputs / task.input_dim**0.5, 5
    for matrix in hidden:
        h = np.asarray(act(matrix @ h)) / num**0.5
    outputs = h.T @ a / (1 if scaling == "lazy" else num**0.5)
    np.testing.assert_allclose(given.outputs(weights), outputs, rtol=1e-10)
    energy = (1 if scaling == "lazy" else num) / 0.6 * np.sum((task.targets - outputs) ** 2)
    energy += np.sum(a**2) / 0.8 + sum(np.sum(w**2) / (2 * s**2) for s, w in zip(each, hidden))
    assert float(given.energy(weights)) == pytest.approx(energy)


def test_networks_of_other_weights_are_made_once():
    one, two = (networks.Network(nonlinearity="erf", weight_std=2.0) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)  # or every network would be compiled anew
    assert one.gain == one.weight_std == 1
    assert float(one.phi(0.5)) == pytest.approx(erf(1.0), rel=1e-6)
    assert networks.Network(nonlinearity="erf", weight_std=1.0).nonlinearity == "erf"
    assert networks.Network(2, nonlinearity="relu", weight_std=(2.0, 2.0)).weight_std == 2.0
