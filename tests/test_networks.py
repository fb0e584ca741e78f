"""Networks: nonlinearities, scalings, forward pass."""

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


@pytest.mark.parametrize(("name", "degree"), [("linear", 1), ("relu", 1), ("relu_squared", 2)])
def test_homogeneity(name, degree):
    z = jnp.linspace(-2, 2, 9)
    phi = networks.nonlinearity(name)
    np.testing.assert_allclose(phi(3.0 * z), 3.0**degree * phi(z), atol=1e-12)


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


def test_rescaling_moves_take_a_function_for_its_name():
    posterior = Posterior(tasks.toy(4), networks.Network(1, 5, jax.nn.relu), 0.1)
    moves.check("scale", posterior)
    with pytest.raises(ValueError, match="homogeneous"):
        moves.check("scale", Posterior(tasks.toy(4), networks.Network(1, 5, jnp.tanh), 0.1))


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


def test_degree_of_homogeneity():
    degrees = {name: networks.homogeneity(phi) for name, phi in networks.NONLINEARITIES.items()}
    assert degrees == {
        "linear": 1,
        "relu": 1,
        "relu_squared": 2,
        **dict.fromkeys(("sigmoidal", "softplus", "erf", "tanh")),
    }
    assert networks.homogeneity(jax.nn.leaky_relu) == 1
    assert networks.homogeneity(lambda z: jnp.abs(z) ** 1.5) == pytest.approx(1.5)
    assert networks.homogeneity(lambda z: jax.nn.relu(z) + 1e-3 * z**2) is None
    assert networks.homogeneity(lambda z: 0 * z) is None


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nonlinearity": "sigmoid"}, "nonlinearity: got 'sigmoid'"),
        ({"nonlinearity": jnp.cumsum}, "not elementwise"),
        ({"nonlinearity": jnp.sum}, "nonlinearity"),
        ({"nonlinearity": lambda z: z / 0.0}, "NaN or infinite"),
        ({"nonlinearity": lambda z: z.missing}, "failed on a vector"),
        ({"depth": 0}, "depth: got 0"),
        ({"width": 1.5}, "width: got 1.5"),
        ({"scaling": "rich"}, "scaling: got 'rich'"),
    ],
)
def test_bad_networks_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        networks.Network(**arguments)
