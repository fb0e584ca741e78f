"""One sampled posterior with its diagnostics: what every chapter's experiments are made of."""

from typing import Any, NamedTuple

import numpy as np
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import Convergence, Samples, convergence, sample
from coding_schemes.tasks import Task


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


def where(run: Run, size: str = "N = P = ") -> str:
    """Size and temperature of a run, as captions say them."""
    return f"{size}{run.posterior.network.width}, T = {run.samples.temperature:g}."


def _there(name: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{name}: the run does not hold it; ask for it by `store`")
    return value
