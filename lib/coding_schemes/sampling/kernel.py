"""What a method of sampling is: a kernel with `init`, `step` and `adapt`, of which `sample` knows no more.

    adaptation = kernel.init(log_step_size)                                       # where a phase begins
    weights, info = kernel.step(key, weights, posterior, step_size, shared)       # a transition of one chain
    adaptation = kernel.adapt(adaptation, info, stage)                            # after it, from all chains

A method is a frozen dataclass, registered with JAX, that derives from `Kernel`, has a `step` of its own and
stands in `methods.METHODS`. Its numbers are data where they can be, so that one compiled program serves all.
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import dual_averaging_adaptation
from jax import Array

from coding_schemes import validation
from coding_schemes.posterior import Posterior, Weights

#: Phases of a run.
ANNEAL, ADAPT, SAMPLE = range(3)
#: Gain of the step-size correction while annealing, one full rejection costs 16 % of the step.
ANNEAL_GAIN = 0.2


class Info(NamedTuple):
    """What one transition reports."""

    acceptance: Array  # acceptance probability, averaged over the proposals of the transition
    divergent: Array  # whether |ΔH| exceeded the divergence threshold or was not finite
    num_gradients: Array  # gradient evaluations spent
    step_size: Array  # ε


class Adaptation(NamedTuple):
    """What a kernel adapts, per replica."""

    log_step_size: Any  # log ε
    averaging: Any = None  # BlackJAX's dual-averaging state, where the step size is adapted


class Stage(NamedTuple):
    """Where in a run a transition was made."""

    phase: Any  # ANNEAL, ADAPT or SAMPLE
    last: Any  # whether it was the last one of its phase
    temperature: Any  # T
    following: Any  # T of the next one


class Kernel(ABC):
    """A method, and the adaptation of its step size to a target acceptance, which most methods share.

    Attributes:
        step_size: ε where adaptation starts, or without a warm-up the step itself.
        target_acceptance: of the adaptation.
        batch_size: training inputs at a time where not all fit into memory; also for the energy.
        first_step: ε where adaptation starts unless given, from the prior at T of 1 or more.
        adapts: whether acceptance tells how good a step size is; without, T is not lowered unless asked for.
        compiler_options: XLA's, by name.
    """

    step_size: float | None = None
    target_acceptance: float = 0.8
    batch_size: int | None = None
    first_step: ClassVar[float] = 0.3
    adapts: ClassVar[bool] = True
    compiler_options: ClassVar[tuple[tuple[str, Any], ...]] = ()

    def check(self, posterior: Posterior) -> None:
        """Raise ValueError where a whole number is below one, any other not positive, a batch too large."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == "target_acceptance":
                validation.number(field.name, value, above=0, below=1)
            elif value is None and field.type in (int | None, float | None):
                continue
            elif field.type in (int, int | None):
                validation.counts(**{field.name: value})
            elif field.type in (float, float | None):
                validation.positive(**{field.name: value})
        if self.batch_size is not None:
            validation.count("batch_size", self.batch_size, most=len(posterior.targets))

    def init(self, log_step_size: Array) -> Adaptation:
        """Dual averaging that starts at a step size and shrinks towards it."""
        start, _, _ = dual_averaging_adaptation(0.8)
        averaging = start(jnp.exp(log_step_size))._replace(mu=log_step_size)
        averaging = jax.tree.map(
            lambda a: jnp.asarray(a, jnp.int32 if isinstance(a, int) else jnp.float32), averaging
        )
        return Adaptation(log_step_size, averaging)

    @abstractmethod
    def step(
        self, key: Array, weights: Weights, posterior: Posterior, step_size: Array, shared: Array
    ) -> tuple[Weights, Info]:
        """One transition of one chain; `shared` is a number uniform in (0, 1), the same for all chains."""

    def adapt(self, adaptation: Adaptation, info: Info, stage: Stage) -> Adaptation:
        """The step size of the next transition, from what this one reported, (chains,) arrays.

        Annealing: log ε ← log ε + ANNEAL_GAIN (ᾱ − α*), then as ½ log T/(1 + T), the scale of the stiffest
        direction. Adapting: dual averaging, at the end the averaged step. Sampling: no change.
        """
        _, update, _ = dual_averaging_adaptation(self.target_acceptance)
        acceptance = jnp.where(jnp.isnan(info.acceptance), 0.0, info.acceptance).mean().astype(jnp.float32)
        averaging = jax.tree.map(
            lambda new, old: new.astype(old.dtype),
            update(adaptation.averaging, acceptance),
            adaptation.averaging,
        )
        adapted = jnp.where(stage.last, averaging.log_step_size_avg, averaging.log_step_size)
        used = adaptation.log_step_size
        corrected = (used + ANNEAL_GAIN * (acceptance - self.target_acceptance)).astype(jnp.float32)
        found = jnp.select([stage.phase == ANNEAL, stage.phase == ADAPT], [corrected, adapted], used)
        stiffness = jnp.log1p(1 / stage.temperature) - jnp.log1p(1 / stage.following)
        return Adaptation(found + (0.5 * stiffness).astype(jnp.float32), averaging)
