"""The workbench: sampled posteriors with diagnostics, from two starts, over sizes; it knows no theory."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from coding_schemes import planting, statistics
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import Convergence, Samples, TwoEnded, compare_ends, convergence, sample
from coding_schemes.tasks import Task

from companion.findings import Estimate

#: Independent networks that give an error where each of them keeps its shares of the codes.
ENOUGH = 8


@dataclass(frozen=True)
class Equilibrium:
    """Whether what was found depends on where the networks started.

    Attributes:
        agree: Networks from the two starts, prior and theory, meet; or there are enough of them to judge each
            start by itself, with an error from independent ones.
        verdict: One line.
        apart: Largest relative difference of the two starts in what was checked.
        each: They do not meet, and each start is judged by itself.
    """

    agree: bool
    verdict: str
    apart: float = 0.0
    each: bool = False

    @property
    def state(self) -> str:
        """One of a record's three states of its sampler."""
        return "not shown" if not self.agree else "each" if self.each else "met"

    @classmethod
    def of(cls, met: bool, networks: int, verdict: str, apart: float = 0.0) -> "Equilibrium":
        """What to make of so many networks whose two starts have met, or not."""
        if met or networks < ENOUGH:
            return cls(met, verdict, apart)
        return cls(True, f"{networks} independent networks from two starts; {verdict}", apart, each=True)


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
        return there("task", self.posterior.task)

    @property
    def readouts(self) -> np.ndarray:
        """Readouts a of every sample, shape (chains, samples, N, m)."""
        return there("readouts", self.samples.readouts).astype(float)

    @property
    def readout_gram(self) -> np.ndarray:
        """Upper triangle of aᵀa/N of every sample, shape (chains, samples, m(m + 1)/2)."""
        readouts = self.readouts
        gram = np.swapaxes(readouts, -1, -2) @ readouts / readouts.shape[-2]
        return gram[..., *np.triu_indices(gram.shape[-1])]

    @property
    def preactivations(self) -> tuple[np.ndarray, ...]:
        """Preactivations of every layer, each of shape (chains, samples, N, P)."""
        return there("preactivations", self.samples.preactivations)


def draw(
    key: Any,
    task: Task,
    network: Network,
    temperature: float,
    readout_variance: float | None = None,
    **options: Any,
) -> Run:
    """Sample a posterior and diagnose the samples; σ_a² is paper A's unless given, options are `sample`'s."""
    posterior = Posterior(task, network, temperature, readout_variance)
    samples = sample(posterior, key, **options)
    return Run(posterior, samples, convergence(samples, posterior))


@dataclass(frozen=True)
class Starts:
    """Independent networks of one posterior: as many started from the prior as from a theory's solution.

    Attributes:
        posterior: what was sampled.
        theory: the solution that half of them were drawn from.
        meeting: both halves, held against each other.
    """

    posterior: Posterior
    theory: Any
    meeting: TwoEnded

    @property
    def task(self) -> Task:
        """What was learned."""
        return there("task", self.posterior.task)

    @property
    def width(self) -> int:
        """N."""
        return self.posterior.network.width

    @property
    def halves(self) -> tuple[Samples, Samples]:
        """Samples from the prior, and from the theory's solution."""
        return self.meeting.prior, self.meeting.planted

    @cached_property
    def activations(self) -> np.ndarray:
        """Activations of the feature layer in every network's last sample, shape (networks, N, P)."""
        return np.concatenate([half.activations()[:, -1] for half in self.halves])

    @property
    def equilibrium(self) -> Equilibrium:
        """Whether the two meet, or else are enough to be judged apart."""
        count = sum(len(half.info.energy) for half in self.halves)
        return Equilibrium.of(self.meeting.agree, count, self.meeting.verdict)


def both_starts(
    streams: tuple[Any, Any, Any],
    posterior: Posterior,
    theory: Any,
    tolerance: float = 0.02,
    prior_warmup: int | None = None,
    **options: Any,
) -> Starts:
    """Sample from the prior, and again from networks that `planting.planted` draws from theory.

    Args:
        streams: keys of the run from the prior, of that from theory, and of each planted network.
        posterior: what to sample.
        theory: a solution for it.
        tolerance: relative difference of the two that counts as none.
        prior_warmup: transitions before the samples from the prior, if other than those of the planted ones.
        **options: passed to `sample`.
    """
    from_prior, from_theory, plants = streams
    start = planting.planted(plants, theory, posterior)
    longer = {} if prior_warmup is None else {"num_warmup": prior_warmup}
    prior = sample(posterior, from_prior, **(options | longer))
    planted = sample(posterior, from_theory, init=start, **options)
    return Starts(posterior, theory, compare_ends(prior, planted, posterior, tolerance=tolerance))


def solved(solve: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a solver of the theory finds; where it would only warn that it did not converge, it stops.

    Raises:
        FloatingPointError: the solver did not converge.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*did not converge")
        try:
            return solve(*arguments, **options)
        except UserWarning as reason:
            raise FloatingPointError(f"not solved: {reason}") from reason


def untrained(keys: Any, posterior: Posterior) -> list[np.ndarray]:
    """Activations of every layer in networks from the prior, one for each key: (networks, N, P) each."""
    layers = jax.vmap(posterior.preactivations)(jax.lax.map(posterior.prior, keys))
    return [np.asarray(posterior.network.phi(z)) for z in layers]


class Scan(NamedTuple):
    """Quantities over sizes N = P, each from a run of its own.

    Attributes:
        runs: by size, ascending.
        mean: over chains and samples, shape (sizes, quantities).
        error: standard errors.
    """

    runs: list[Run]
    mean: np.ndarray
    error: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """N = P, shape (sizes,)."""
        return np.array([run.task.num_inputs for run in self.runs])

    @property
    def convergence(self) -> list[Convergence]:
        """Diagnostics of every run."""
        return [run.convergence for run in self.runs]


def estimate(series: np.ndarray) -> Estimate:
    """Mean of a series (chains, samples, …) and its standard error, `statistics.mean_and_error`."""
    return Estimate(*statistics.mean_and_error(series))


def measured(runs: list[Run], *measures: Callable[[Run], np.ndarray]) -> Scan:
    """A Scan of what each measure says of the samples, (chains, samples) or (chains, samples, quantities)."""

    def row(run: Run) -> np.ndarray:
        return np.hstack([np.reshape(statistics.mean_and_error(of(run)), (2, -1)) for of in measures])

    mean, error = np.swapaxes([row(run) for run in runs], 0, 1)
    return Scan(runs, mean, error)


def sizes_over(largest: int, fractions: Any, smallest: int = 8) -> list[int]:
    """Sizes N = P, fractions of the largest; all different, however small that is."""
    return [max(round(part * largest), smallest + 2 * k) for k, part in enumerate(fractions)]


def over_sizes(
    key: Any, sizes: Any, task: Callable[[int], Task], like: Network, temperature: float, **options: Any
) -> list[Run]:
    """`draw` at sizes N = P with fold_in(key, k) for size k, networks of one kind, a task for each size."""
    return [
        draw(jax.random.fold_in(key, k), task(size), replace(like, width=size), temperature, **options)
        for k, size in enumerate(map(int, sizes))
    ]


def one_network(run: Any, activations: np.ndarray, order: Any) -> dict[str, Any]:
    """For `figures.network_sample`: the last sample of a run's first network, some neurons in an order.

    Activations (N, P) are those of this sample.
    """
    readouts = run.readouts[0, -1]
    return {
        "readouts": readouts[order],
        "activations": activations[order],
        "outputs": activations.T @ readouts / len(readouts),
        "targets": run.task.targets,
        "labels": run.task.labels,
    }


def titled(scheme: str) -> str:
    """A nonlinearity's name as figures and checks spell it."""
    return scheme.replace("relu", "ReLU")


def there(name: str, value: Any) -> Any:
    """A value that a run holds where it was asked to; ValueError where it was not."""
    if value is None:
        raise ValueError(f"{name}: the run does not hold it; ask for it by `store`")
    return value
