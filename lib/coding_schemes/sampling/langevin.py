r"""Overdamped Langevin dynamics as paper A writes it, Metropolis-adjusted and plain.

    dw = −∇U(w) dt + √2 dB,        w' = w − dt ∇U(w) + √(2 dt) ξ,  ξ ~ N(0, 1)

in the coordinates (u, W^ℓ, ã) of `posterior`. In paper A's coordinates this is Langevin dynamics of
W¹ (its part in the data span, exactly) and of a = σ_a ã with mobility σ_a²: da = −σ_a² ∂U/∂a dt +
σ_a √2 dB, so one unit of time here is one relaxation time of the prior for every weight.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from blackjax.mcmc.hmc import HMCState
from jax import Array

from coding_schemes.sampling.hmc import Info, standard_normal, transition


def adjusted_steps(
    key: Array, weights: Any, value_and_gradient: Callable, step_size: Array, num_steps: int
) -> tuple[Any, Info]:
    """`num_steps` Metropolis-adjusted Langevin steps (MALA) with dt = ε²/2.

    MALA is HMC with one leapfrog step: w' = w − (ε²/2)∇U + ε p, and its acceptance probability
    min(1, e^{−ΔH}) is MALA's. So the HMC kernel, whose energies are accumulated right, is used.

    Args:
        key: random key.
        weights: position.
        value_and_gradient: log target density and its gradient.
        step_size: ε = √(2 dt).
        num_steps: steps taken.

    Returns:
        The next position and its Info, averaged over the steps.
    """

    def body(state, step):
        state, info = transition(jax.random.fold_in(key, step), state, value_and_gradient, step_size, 1)
        return state, (info.acceptance_rate, info.is_divergent)

    start = HMCState(weights, *value_and_gradient(weights))
    state, (acceptance, divergent) = jax.lax.scan(body, start, jnp.arange(num_steps))
    return state.position, Info(acceptance.mean(), divergent.any(), jnp.asarray(num_steps + 1, jnp.int32))


def plain_steps(
    key: Array, weights: Any, gradient: Callable, step_size: Array, num_steps: int
) -> tuple[Any, Info]:
    """`num_steps` Euler–Maruyama steps with dt = ε²/2, unadjusted: for dynamics, with an O(dt) bias.

    Args:
        key: random key.
        weights: position.
        gradient: gradient of the log target density, (key, position) → pytree; an unbiased
            estimate (a minibatch) uses its key.
        step_size: ε = √(2 dt).
        num_steps: steps taken.

    Returns:
        The next position and an Info with acceptance 1.
    """

    def body(position, step):
        noise_key, batch_key = jax.random.split(jax.random.fold_in(key, step))
        moved = jax.tree.map(
            lambda w, slope, noise: w + 0.5 * step_size**2 * slope + step_size * noise,
            position,
            gradient(batch_key, position),
            standard_normal(noise_key, position),
        )
        return moved, None

    position, _ = jax.lax.scan(body, weights, jnp.arange(num_steps))
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(position)]).all()
    return position, Info(jnp.ones(()), ~finite, jnp.asarray(num_steps, jnp.int32))


def minibatch_gradient(posterior, batch_size: int) -> Callable:
    r"""Unbiased estimate of ∇ log posterior from `batch_size` training inputs drawn without replacement.

        −∇Û = −(P/B) (β/2) ∇ Σ_{μ∈batch} ‖Y_μ − f(x_μ)‖² − w

    Its noise adds to the bath's: the stationary law is the posterior's only as dt → 0, with an
    O(dt) excess temperature along the likelihood's stiff directions.
    """
    num_inputs = posterior.targets.shape[0]

    def gradient(key, weights):
        batch = jax.random.choice(key, num_inputs, (batch_size,), replace=False)

        def estimate(weights):
            residual = posterior.targets[batch] - posterior.outputs_on(weights, batch)
            return -0.5 * posterior.likelihood_precision * (num_inputs / batch_size) * jnp.sum(residual**2)

        return jax.tree.map(lambda slope, w: slope - w, jax.grad(estimate)(weights), weights)

    return gradient
