"""Hamiltonian Monte Carlo: BlackJAX's kernel in the posterior's unit-variance coordinates.

    H(w, p) = U(w) + ‖p‖²/2,    p ← p − (ε/2) ∇U(w),  w ← w + ε p,  p ← p − (ε/2) ∇U(w)

BlackJAX's kernel is used but for the trajectory: half kicks that follow each other are made as one, and the
energy is computed at its two ends only. The coordinates already have unit-variance priors, so the mass
matrix is the identity and only the step size is adapted. Positions and momenta keep the posterior's dtype
(float32 unless asked for); both energies are accumulated in float64 where JAX has it enabled, because
accept/reject needs ΔH to O(0.1) out of H = O(N·P).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from blackjax.mcmc import hmc
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import Metric
from blackjax.mcmc.proposal import safe_energy_diff, static_binomial_sampling
from jax import Array

from coding_schemes.posterior import Weights, sum_of_squares
from coding_schemes.sampling.kernel import Info, Kernel

#: ΔH above which a trajectory counts as divergent (BlackJAX's default).
DIVERGENCE_THRESHOLD = 1000.0
#: Range of the factor of a trajectory's length, drawn for every transition.
JITTER = 0.5, 1.5


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HMC(Kernel):
    """Hamiltonian Monte Carlo; numbers are data to the compiled program, which serves them all.

    Attributes:
        trajectory_length: in units of the prior's standard deviation; each transition's is jittered by a
            factor uniform in `JITTER`, shared by the chains.
        max_num_steps: most leapfrog steps of a trajectory; the mean is at most two thirds of it, as the limit
            is met before the jitter.
        step_size: leapfrog step ε where adaptation starts, or without a warm-up the step itself.
        target_acceptance: of the adaptation.
        stretch: readouts move in units of so many standard deviations of their prior; one unless given.
            Learning moves readouts by √P of them, and the energy is P times flatter along readouts than along
            the other weights: in units of √P/2 all are alike, and one step size serves all.
    """

    trajectory_length: float = math.pi / 2
    max_num_steps: int = 150
    step_size: float | None = None
    target_acceptance: float = 0.8
    stretch: float | None = None

    def step(self, key, weights, posterior, step_size, shared) -> tuple[Weights, Info]:
        """One trajectory, its length jittered for all chains alike."""
        unit, value_and_gradient = self.stretch, posterior.value_and_gradient

        def stretched(position):
            value, gradient = posterior.value_and_gradient(position.stretched(unit))
            return value, gradient.stretched(unit)

        if unit is not None:
            value_and_gradient, weights = stretched, weights.stretched(1 / unit)
        jitter = JITTER[0] + (JITTER[1] - JITTER[0]) * shared
        wanted = jnp.asarray(self.trajectory_length, step_size.dtype) / step_size
        steps = jnp.ceil(jitter * jnp.minimum(wanted, self.max_num_steps / JITTER[1]))
        steps = jnp.maximum(steps, 1).astype(jnp.int32)
        weights, info = hmc_step(key, weights, value_and_gradient, step_size, steps)
        return (weights if unit is None else weights.stretched(unit)), info


def unit_metric() -> Metric:
    """BlackJAX's Euclidean metric with M = 1: no raveling, and ‖p‖² accumulated in float64."""

    def kinetic_energy(momentum, position=None):
        return 0.5 * sum(sum_of_squares(leaf) for leaf in jax.tree.leaves(momentum))

    return Metric(standard_normal, kinetic_energy, None, None)  # the rest is for NUTS


def standard_normal(key: Array, like: Any) -> Any:
    """N(0, 1) in the shape of a pytree."""
    dtype = jax.tree.leaves(like)[0].dtype
    return drawn_like(like, lambda size: jax.random.normal(key, (size,), dtype))


def drawn_like(like: Any, draw: Callable[[int], Array]) -> Any:
    """What `draw` gives, in the shape of a pytree; drawn at once, as per leaf it compiles and runs longer."""
    leaves, structure = jax.tree.flatten(like)
    *ends, size = itertools.accumulate(leaf.size for leaf in leaves)
    parts = jnp.split(draw(size), ends)
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves)])


def hmc_step(
    key: Array, weights: Any, value_and_gradient: Callable, step_size: Array, num_steps: Array | int
) -> tuple[Any, Info]:
    """One HMC transition: fresh momentum, leapfrog, accept with probability min(1, e^{−ΔH}).

    Args:
        key: random key.
        weights: position, any pytree of arrays.
        value_and_gradient: log target density of a position and its gradient, such as
            `Posterior.value_and_gradient` or `jax.value_and_grad` of a function.
        step_size: leapfrog step ε, in units where the prior standard deviation is 1.
        num_steps: leapfrog steps, at least 1; may be traced.

    Returns:
        The next position and its Info.
    """
    state = hmc.HMCState(weights, *value_and_gradient(weights))
    state, info = transition(key, state, value_and_gradient, step_size, num_steps)
    cost, step_size = jnp.asarray(num_steps, jnp.int32) + 1, jnp.asarray(step_size)
    return state.position, Info(info.acceptance_rate, info.is_divergent, cost, step_size)


def transition(key, state: hmc.HMCState, value_and_gradient: Callable, step_size, num_steps):
    """BlackJAX's HMC kernel with `leapfrog`; a new HMCState and BlackJAX's HMCInfo."""

    def build_proposal(integrator, kinetic_energy, step_size, num_steps, threshold):
        def generate(key, start: IntegratorState):
            end = leapfrog(start, value_and_gradient, step_size, num_steps)
            before = kinetic_energy(start.momentum) - start.logdensity
            after = kinetic_energy(end.momentum) - end.logdensity
            decrease = safe_energy_diff(before, after)
            taken, (accepted, probability, _) = static_binomial_sampling(key, decrease, start, end)
            divergent = -decrease > threshold
            info = hmc.HMCInfo(start.momentum, probability, accepted, divergent, after, end, num_steps)
            return taken, info, None

        return generate

    kernel = hmc.build_kernel(divergence_threshold=DIVERGENCE_THRESHOLD, build_proposal=build_proposal)
    return kernel(key, state, value_and_gradient, step_size, unit_metric(), num_steps)


def leapfrog(start: IntegratorState, value_and_gradient: Callable, step_size, num_steps) -> IntegratorState:
    """`num_steps` leapfrog steps; between the ends, half kicks are joined and no energy is computed."""

    def kick(momentum, gradient, size):
        return jax.tree.map(lambda p, slope: p + size * slope, momentum, gradient)

    def drift(position, momentum):
        return jax.tree.map(lambda w, p: w + step_size * p, position, momentum)

    def body(_, state):
        position, momentum = state
        position = drift(position, momentum)
        return position, kick(momentum, value_and_gradient(position)[1], step_size)

    momentum = kick(start.momentum, start.logdensity_grad, 0.5 * step_size)
    position, momentum = jax.lax.fori_loop(1, num_steps, body, (start.position, momentum))
    position = drift(position, momentum)
    value, gradient = value_and_gradient(position)
    return IntegratorState(position, kick(momentum, gradient, 0.5 * step_size), value, gradient)
