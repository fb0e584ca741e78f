r"""Overdamped Langevin dynamics as paper A writes it, Metropolis-adjusted and plain.

    dw = −M ∇U(w) dt + √(2M) dB,        w' = w − M dt ∇U(w) + √(2 M dt) ξ

Adjusted steps have ξ ~ N(0, 1). Plain ones have four values with the first five moments of a normal number,
which is all that averages to second order in dt depend on (the noise of weak schemes, Kloeden and Platen
1992, § 14.2): so their bias, which is of first order, is that of normal noise, too. To draw normal numbers
would take several times as long as all else in a step.

The mobility M changes the pace, not the posterior. Paper A has M = 1 for every weight. In the coordinates
(u, W^ℓ, ã) of `posterior` one step for all is M = 1 for W¹ (its part in the data span, exactly) and W^ℓ, and
M = σ_a² for a = σ_a ã: da = −σ_a² ∂U/∂a dt + σ_a √2 dB, so that one unit of time is one relaxation time of
the prior for every weight. Against hidden weights, paper A's readouts are faster by 1/σ_a², a factor of P in
bounded networks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from blackjax.mcmc.hmc import HMCState
from jax import Array

from coding_schemes import validation
from coding_schemes.compiler import fusion_emitters
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling.hmc import drawn_like, transition
from coding_schemes.sampling.kernel import Adaptation, Info, Kernel, Stage

#: Mobilities M of plain dynamics: every weight's prior variance, or one for all as in paper A.
MOBILITIES = ("prior variance", "unit")
#: |ξ| of plain steps, the smaller in three cases of four: ⟨ξ²⟩ = 1, ⟨ξ⁴⟩ = 3.
SMALL, LARGE = (1 - (2 / 3) ** 0.5) ** 0.5, (1 + 6**0.5) ** 0.5
STEPS = 10  # that the 32 bits of a random word serve, by three each
#: Of settings that a program is compiled for.
STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Langevin(Kernel):
    """Metropolis-adjusted Langevin dynamics, with mobilities that are the prior's variances.

    Attributes:
        num_steps: steps per transition.
        step_size: ε = √(2 dt) where adaptation starts, or without a warm-up the step itself.
        target_acceptance: of the adaptation.
    """

    num_steps: int = 50
    step_size: float | None = None
    target_acceptance: float = 0.574
    first_step: ClassVar[float] = 0.09

    def step(self, key, weights, posterior, step_size, shared) -> tuple[Weights, Info]:
        """As many steps as are set."""
        return adjusted_steps(key, weights, posterior.value_and_gradient, step_size, self.num_steps)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PlainLangevin(Kernel):
    """Langevin dynamics without acceptance: for dynamics, with an O(dt) bias.

    Attributes:
        step_size: ε = √(2 dt), never adapted.
        num_steps: steps per transition.
        batch_size: training inputs per gradient; all of them unless given.
        mobility: "prior variance", so σ_a² for readouts and one for hidden weights; or "unit" for all, paper
            A's equation in plain weights: readouts move 1/σ_a² times faster, so that ε has to be shorter.
            Time is that of hidden weights in both, and the posterior is the same.
    """

    step_size: float | None = None
    num_steps: int = 50
    batch_size: int | None = field(default=None, metadata=STATIC)
    mobility: str = field(default="prior variance", metadata=STATIC)
    adapts: ClassVar[bool] = False
    #: It is elementwise work and long: vector code pays, whatever XLA_FLAGS say of shorter programs.
    compiler_options: ClassVar[tuple[tuple[str, Any], ...]] = tuple(fusion_emitters(True).items())

    def check(self, posterior: Posterior) -> None:
        """Raise ValueError where a setting is out of range."""
        super().check(posterior)
        validation.choice("mobility", self.mobility, MOBILITIES)

    def init(self, log_step_size: Array) -> Adaptation:
        """The step size, which is never adapted."""
        return Adaptation(log_step_size)

    def step(self, key, weights, posterior, step_size, shared) -> tuple[Weights, Info]:
        """As many steps as are set, with ε√M in place of ε: of ã, √M is 1 or 1/σ_a."""
        if self.batch_size is None:
            gradient = lambda _, position: posterior.value_and_gradient(position)[1]  # noqa: E731
        else:
            gradient = minibatch_gradient(posterior, self.batch_size)
        sizes = jax.tree.map(lambda _: step_size, weights)  # of hidden weights first: ε itself
        if self.mobility == "unit":
            sizes = sizes.stretched(1 / posterior.readout_std)
        return plain_steps(key, weights, gradient, sizes, self.num_steps)

    def adapt(self, adaptation: Adaptation, info: Info, stage: Stage) -> Adaptation:
        """No change."""
        return adaptation


def adjusted_steps(
    key: Array, weights: Any, value_and_gradient: Callable, step_size: Array, num_steps: Array | int
) -> tuple[Any, Info]:
    """`num_steps` Metropolis-adjusted Langevin steps (MALA) with dt = ε²/2; the next position and its Info.

    MALA is HMC with one leapfrog step: w' = w − (ε²/2)∇U + ε p, and its acceptance probability
    min(1, e^{−ΔH}) is MALA's. So the HMC kernel, whose energies are accumulated right, is used; Info is
    averaged over the steps. Arguments as for `hmc.hmc_step`.
    """

    def body(step, carry):
        state, acceptance, divergent = carry
        state, info = transition(jax.random.fold_in(key, step), state, value_and_gradient, step_size, 1)
        return state, acceptance + info.acceptance_rate, divergent | info.is_divergent

    start = HMCState(weights, *value_and_gradient(weights))
    start = start, jnp.zeros((), jnp.result_type(float)), jnp.zeros((), bool)
    state, acceptance, divergent = jax.lax.fori_loop(0, num_steps, body, start)
    num_gradients = jnp.asarray(num_steps + 1, jnp.int32)
    return state.position, Info(acceptance / num_steps, divergent, num_gradients, jnp.asarray(step_size))


def plain_steps(
    key: Array, weights: Any, gradient: Callable, step_sizes: Any, num_steps: Array | int
) -> tuple[Any, Info]:
    """`num_steps` weak Euler steps with dt = ε²/2, unadjusted: for dynamics, with an O(dt) bias.

    `gradient` is that of the log target density, (key, position) → pytree; an unbiased estimate (a minibatch)
    uses its key. `step_sizes` are one ε, or ε√M of every array in the structure of the weights. Returns the
    next position and an Info with acceptance 1.
    """
    step_sizes = jax.tree.broadcast(step_sizes, weights)
    noise_key, batch_key = jax.random.split(key)

    def noise(word, step):
        bits = word >> (3 * (step % STEPS)).astype(jnp.uint32)
        value = jnp.where(bits & 3, jnp.float32(SMALL), jnp.float32(LARGE))
        return jnp.where(bits & 4, value, -value)

    def block(index, position):
        """As many steps as a random word of every weight serves."""
        block_key = jax.random.fold_in(noise_key, index)
        words = drawn_like(position, lambda count: jax.random.bits(block_key, (count,), jnp.uint32))

        def body(step, position):
            return jax.tree.map(
                lambda w, slope, word, size: w + 0.5 * size**2 * slope + size * noise(word, step),
                position,
                gradient(jax.random.fold_in(batch_key, step), position),
                words,
                step_sizes,
            )

        first, last = STEPS * index, jnp.minimum(STEPS * (index + 1), num_steps)
        return jax.lax.fori_loop(first, last, body, position)

    position = jax.lax.fori_loop(0, -(-num_steps // STEPS), block, weights)
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(position)]).all()
    step_size = jax.tree.leaves(step_sizes)[0]
    return position, Info(jnp.ones(()), ~finite, jnp.asarray(num_steps, jnp.int32), jnp.asarray(step_size))


def minibatch_gradient(posterior: Posterior, batch_size: int) -> Callable:
    r"""Unbiased estimate of ∇ log posterior from `batch_size` training inputs drawn without replacement.

        −∇Û = −(P/B) (β/2) ∇ Σ_{μ∈batch} ‖Y_μ − f(x_μ)‖² − w

    Its noise adds to the bath's: the stationary law is the posterior's only as dt → 0, with an
    O(dt) excess temperature along the likelihood's stiff directions.
    """

    def gradient(key, weights):
        batch = jax.random.choice(key, len(posterior.targets), (batch_size,), replace=False)

        def estimate(weights):
            residual = posterior.targets[batch] - posterior.outputs_on(weights, batch)
            scale = len(posterior.targets) / batch_size
            return -0.5 * posterior.likelihood_precision * scale * jnp.sum(residual**2)

        return jax.tree.map(lambda slope, w: slope - w, jax.grad(estimate)(weights), weights)

    return gradient
