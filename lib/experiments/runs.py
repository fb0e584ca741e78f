"""One sampled posterior with its diagnostics: what every chapter's experiments are made of."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import planting, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import Convergence, Samples, compare_ends, convergence, sample
from coding_schemes.tasks import Task

#: Independent networks that give an error where each of them keeps its shares of the codes.
ENOUGH = 8


@dataclass(frozen=True)
class Equilibrium:
    """Whether what is checked depends on where the networks came from.

    Attributes:
        agree: networks from the two ends, prior and theory, meet; or there are enough of them to check each
            end by itself, with an error from independent ones.
        verdict: one line.
        apart: largest relative difference of the two ends in what was checked.
    """

    agree: bool
    verdict: str
    apart: float = 0.0

    @classmethod
    def of(cls, met: bool, networks: int, verdict: str, apart: float = 0.0) -> "Equilibrium":
        """What to make of so many networks whose two ends have met, or not."""
        if met or networks < ENOUGH:
            return cls(met, verdict, apart)
        return cls(True, f"{networks} independent networks, each end checked by itself; {verdict}", apart)


class Run(NamedTuple):
    """Samples of one posterior, and whether they are in equilibrium.

    Attributes:
        posterior: what was sampled.
        samples: the samples.
        convergence: R-hat, effective sample sizes and their verdict.
    """

    posterior: Posterior
    samples: Samples
    convergence: Convergence

    @property
    def task(self) -> Task:
        """What was learned."""
        return _there("task", self.posterior.task)

    @property
    def readouts(self) -> np.ndarray:
        """Readouts a of every sample, shape (chains, samples, N, m)."""
        return _there("readouts", self.samples.readouts).astype(float)

    @property
    def preactivations(self) -> tuple[np.ndarray, ...]:
        """Preactivations of every layer, each of shape (chains, samples, N, P)."""
        return _there("preactivations", self.samples.preactivations)


def draw(
    key: Any,
    task: Task,
    network: Network,
    temperature: float,
    readout_variance: float | None = None,
    **options: Any,
) -> Run:
    """Sample the posterior of a network that learned a task, and diagnose the samples.

    Args:
        key: random key.
        task: what it learned.
        network: its architecture.
        temperature: T.
        readout_variance: σ_a²; paper A's choice unless given.
        **options: passed to `sample`.

    Returns:
        A Run.
    """
    posterior = Posterior(task, network, temperature, readout_variance)
    samples = sample(posterior, key, **options)
    return Run(posterior, samples, convergence(samples, posterior))


class Ends(NamedTuple):
    """As many networks from the prior as from the theory's solution, of one posterior.

    Attributes:
        prior: annealed from the prior.
        planted: from networks drawn from the theory's solution.
        equilibrium: whether the two meet, or else are enough to be checked apart.
    """

    prior: Run
    planted: Run
    equilibrium: Equilibrium


def both_ends(key: Any, task: Task, network: Network, temperature: float, **options: Any) -> Ends:
    """`draw` from the prior, and again from the solution of the theory that fits."""
    prior = draw(jax.random.fold_in(key, 0), task, network, temperature, **options)
    solution, count = theory.solve(task, network, temperature), len(prior.samples.info.energy)
    start = planting.planted(jax.random.split(jax.random.fold_in(key, 1), count), solution, prior.posterior)
    planted = draw(jax.random.fold_in(key, 2), task, network, temperature, init=start, **options)
    met = compare_ends(prior.samples, planted.samples, prior.posterior)
    return Ends(prior, planted, Equilibrium.of(met.agree, 2 * count, met.verdict))


def where(run: Run, size: str = "N = P = ") -> str:
    """Size and temperature of a run, as captions say them."""
    return f"{size}{run.posterior.network.width}, T = {run.samples.temperature:g}."


def _there(name: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{name}: the run does not hold it; ask for it by `store`")
    return value
