r"""Overdamped Langevin dynamics as paper A writes it, Metropolis-adjusted and plain.

    dw = −∇U(w) dt + √2 dB,        w' = w − dt ∇U(w) + √(2 dt) ξ,  ξ ~ N(0, 1)

in the coordinates (u, W^ℓ, ã) of `posterior`. In paper A's coordinates this is Langevin dynamics of
W¹ (its part in the data span, exactly) and of a = σ_a ã with mobility σ_a²: da = −σ_a² ∂U/∂a dt +
σ_a √2 dB, so one unit of time here is one relaxation time of the prior for every weight.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from blackjax.mcmc.hmc import HMCState
from jax import Array

from coding_schemes.sampling.hmc import Info, standard_normal, transition


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["num_steps", "step_size", "target_acceptance"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Langevin:
    """Metropolis-adjusted Langevin dynamics.

    Attributes:
        num_steps: steps per transition.
        step_size: ε = √(2 dt) where adaptation starts, or without a warm-up the step itself.
        target_acceptance: of the adaptation.
    """

    num_steps: int = 50
    step_size: float | None = None
    target_acceptance: float = 0.574


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["step_size", "num_steps"], meta_fields=["batch_size"]
)
@dataclass(frozen=True)
class PlainLangevin:
    """Langevin dynamics without acceptance: for dynamics, with an O(dt) bias.

    Attributes:
        step_size: ε = √(2 dt), never adapted.
        num_steps: steps per transition.
        batch_size: training inputs per gradient; all of them unless given.
    """

    step_size: float | None = None
    num_steps: int = 50
    batch_size: int | None = None


def adjusted_steps(
    key: Array, weights: Any, value_and_gradient: Callable, step_size: Array, num_steps: Array | int
) -> tuple[Any, Info]:
    """`num_steps` Metropolis-adjusted Langevin steps (MALA) with dt = ε²/2.

    MALA is HMC with one leapfrog step: w' = w − (ε²/2)∇U + ε p, and its acceptance probability
    min(1, e^{−ΔH}) is MALA's. So the HMC kernel, whose energies are accumulated right, is used.

    Args:
        key: random key.
        weights: position.
        value_and_gradient: log target density and its gradient.
        step_size: ε = √(2 dt).
        num_steps: steps taken, at least 1; may be traced.

    Returns:
        The next position and its Info, averaged over the steps.
    """

    def body(step, carry):
        state, acceptance, divergent = carry
        state, info = transition(jax.random.fold_in(key, step), state, value_and_gradient, step_size, 1)
        return state, acceptance + info.acceptance_rate, divergent | info.is_divergent

    start = HMCState(weights, *value_and_gradient(weights))
    start = start, jnp.zeros((), jnp.result_type(float)), jnp.zeros((), bool)
    state, acceptance, divergent = jax.lax.fori_loop(0, num_steps, body, start)
    return state.position, Info(acceptance / num_steps, divergent, jnp.asarray(num_steps + 1, jnp.int32))


def plain_steps(
    key: Array, weights: Any, gradient: Callable, step_size: Array, num_steps: Array | int
) -> tuple[Any, Info]:
    """`num_steps` Euler–Maruyama steps with dt = ε²/2, unadjusted: for dynamics, with an O(dt) bias.

    Args:
        key: random key.
        weights: position.
        gradient: gradient of the log target density, (key, position) → pytree; an unbiased
            estimate (a minibatch) uses its key.
        step_size: ε = √(2 dt).
        num_steps: steps taken; may be traced.

    Returns:
        The next position and an Info with acceptance 1.
    """

    def body(step, position):
        noise_key, batch_key = jax.random.split(jax.random.fold_in(key, step))
        return jax.tree.map(
            lambda w, slope, noise: w + 0.5 * step_size**2 * slope + step_size * noise,
            position,
            gradient(batch_key, position),
            standard_normal(noise_key, position),
        )

    position = jax.lax.fori_loop(0, num_steps, body, weights)
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
