"""The trajectory of Hamiltonian Monte Carlo, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc.integrators import IntegratorState
from coding_schemes.sampling import hmc

STEP, NUM_STEPS = 0.2, 7


def logdensity(q):
    """Not Gaussian, and its two coordinates coupled."""
    return -jnp.sum(q**4) / 4 - jnp.sin(q[0] * q[1])


def moved(q, p):
    density = jax.value_and_grad(logdensity)
    return hmc.leapfrog(IntegratorState(q, p, *density(q)), density, STEP, NUM_STEPS)


def test_leapfrog_is_half_a_kick_a_drift_half_a_kick():
    q, p = np.array([0.8, -0.3]), np.array([-0.5, 1.1])
    end = moved(jnp.array(q), jnp.array(p))
    slope = jax.grad(logdensity)
    for _ in range(NUM_STEPS):
        p = p + STEP / 2 * slope(q)
        q = q + STEP * p
        p = p + STEP / 2 * slope(q)
    np.testing.assert_allclose(end.position, q, rtol=1e-10)
    np.testing.assert_allclose(end.momentum, p, rtol=1e-10)
    np.testing.assert_allclose(end.logdensity, logdensity(q), rtol=1e-10)
    np.testing.assert_allclose(end.logdensity_grad, slope(q), rtol=1e-10)


def test_leapfrog_leads_back_when_momenta_are_turned():
    q, p = jnp.array([0.8, -0.3]), jnp.array([-0.5, 1.1])
    end = moved(q, p)
    back = moved(end.position, -end.momentum)
    np.testing.assert_allclose(back.position, q, rtol=1e-10)
    np.testing.assert_allclose(back.momentum, -p, rtol=1e-10)
