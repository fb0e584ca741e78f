"""Is it equilibrium? R-hat and ESS of what the book measures, and the two-ended check."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

from coding_schemes import coding, statistics
from coding_schemes.networks import is_bounded
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling.results import FROZEN, Samples
from coding_schemes.sampling.run import sample

#: Thresholds of the verdict: R-hat as Vehtari et al. (2021) advise for rank-normalized R-hat, with room
#: for the few hundred samples of a chapter; ESS so that a mean is known to a tenth of a standard deviation.
MAX_RHAT = 1.05
MIN_ESS = 100


@dataclass(frozen=True)
class Convergence:
    """R-hat and ESS of every observable of one run.

    Attributes:
        observables: name → series, shape (chains, samples).
        rhat: rank-normalized split R-hat by name; NaN where an observable never changes anywhere.
        ess: bulk effective sample size by name, over all chains.
        acceptance: mean acceptance probability of each chain.
        divergences: number of divergent transitions.
        converged: whether all observables meet the thresholds and no chain is frozen.
        verdict: one line.
    """

    observables: dict[str, np.ndarray]
    rhat: dict[str, float]
    ess: dict[str, float]
    acceptance: np.ndarray
    divergences: int
    converged: bool
    verdict: str

    def __repr__(self) -> str:
        return f"<{self.verdict}>"

    def arrays(self, names: tuple[str, ...] | None = None) -> dict[str, Any]:
        """For `companion.figures.sampler_traces`: of the named observables, or the four of largest R-hat."""
        names = names or _most(self.rhat)
        return {
            "names": np.array(names),
            "series": np.stack([np.asarray(self.observables[name], dtype=float) for name in names]),
            "rhat": np.array([self.rhat[name] for name in names]),
            "ess": np.array([self.ess[name] for name in names]),
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class TwoEnded:
    """Runs from the prior and from a planted state, held against each other.

    Attributes:
        prior: samples of the run from the prior.
        planted: samples of the run from the planted state.
        difference: relative difference of the two means by observable.
        z_score: the same in standard errors.
        agree: whether every observable agrees within the standard errors or the tolerance.
        verdict: one line.
    """

    prior: Samples
    planted: Samples
    prior_observables: dict[str, np.ndarray]
    planted_observables: dict[str, np.ndarray]
    difference: dict[str, float]
    z_score: dict[str, float]
    agree: bool
    verdict: str

    def __repr__(self) -> str:
        return f"<{self.verdict}>"

    def arrays(self, names: tuple[str, ...] | None = None) -> dict[str, Any]:
        """For `companion.figures.sampler_traces`: of the named observables, or the four that differ most."""
        names = names or _most(self.difference)
        zeros = np.zeros_like(self.prior.info.energy)
        return {
            "names": np.array(names),
            "prior": np.stack([self.prior_observables.get(name, zeros) for name in names]),
            "planted": np.stack([self.planted_observables.get(name, zeros) for name in names]),
            "verdict": self.verdict,
        }


def observables(samples: Samples, posterior: Posterior) -> dict[str, np.ndarray]:
    """What convergence is judged by, each of shape (chains, samples).

    Energy U, training error ‖Y − f‖², second moments ⟨a_r²⟩ over neurons, and from the feature layer's
    preactivations the fraction of neurons with each code (bounded φ) or the number of outliers
    (unbounded φ, not linear). What was not stored is left out.
    """
    series = {"energy": samples.info.energy, "squared error": samples.info.squared_error}
    if samples.readouts is not None:
        moments = np.square(samples.readouts, dtype=float).mean(2)
        series |= {f"readouts² of output {r}": moments[..., r] for r in range(moments.shape[-1])}
    if samples.preactivations is None or samples.labels is None or posterior.network.nonlinearity == "linear":
        return series
    neuron_codes = samples.codes()
    if is_bounded(posterior.network.phi):
        for code in np.unique(neuron_codes.reshape(-1, neuron_codes.shape[-1]), axis=0):
            fraction = np.all(neuron_codes == code, axis=-1).mean(-1)
            series[f"occupancy of {coding.code_name(code)}"] = fraction
    else:
        series["num_outliers"] = neuron_codes.any(-1).sum(-1, dtype=float)
    return series


def convergence(
    samples: Samples, posterior: Posterior, max_rhat: float = MAX_RHAT, min_ess: float = MIN_ESS
) -> Convergence:
    """R-hat and ESS of `sample`'s chains through ArviZ, and a one-line verdict.

    Of at least two chains, or R-hat says nothing, and four samples (else ValueError). The largest R-hat that
    passes is `max_rhat`, the smallest ESS `min_ess`.
    """
    series = observables(samples, posterior)
    if (num_samples := samples.info.energy.shape[1]) < 4:
        raise ValueError(f"samples: got {num_samples} per chain, R-hat and ESS need at least 4")
    divergences = int(samples.info.divergences.sum())
    return judge(series, samples.info.acceptance.mean(1), divergences, max_rhat, min_ess)


def judge(
    series: dict[str, np.ndarray],
    acceptance: np.ndarray,
    divergences: int = 0,
    max_rhat: float = MAX_RHAT,
    min_ess: float = MIN_ESS,
) -> Convergence:
    """Convergence of any named series (chains, samples); `convergence` has those of `sample`.

    `acceptance` is the mean acceptance probability of each chain, (chains,). ValueError for a single chain.
    """
    num_chains, num_samples = next(iter(series.values())).shape
    if num_chains < 2:
        raise ValueError(f"samples: got {num_chains} chain, R-hat needs at least 2")
    rhat = {name: float(statistics.rhat(values)) for name, values in series.items()}
    ess = {name: float(statistics.effective_sample_size(values, "bulk")) for name, values in series.items()}
    frozen = np.flatnonzero(acceptance < FROZEN)
    if all(map(np.isnan, rhat.values())):
        verdict = "equilibrium not shown: nothing that is recorded has moved"
        return Convergence(series, rhat, ess, acceptance, divergences, False, verdict)
    worst = max((name for name in rhat if not np.isnan(rhat[name])), key=lambda name: rhat[name])
    fewest = min((name for name in ess if not np.isnan(ess[name])), key=lambda name: ess[name])
    converged = rhat[worst] <= max_rhat and ess[fewest] >= min_ess and not len(frozen)
    bound = f"R-hat ≤ {rhat[worst]:.3f}" if np.isfinite(rhat[worst]) else "R-hat infinite"
    numbers = (
        f"{bound} ({worst}), ESS ≥ {ess[fewest]:.0f} ({fewest}), acceptance "
        f"{acceptance.mean():.2f}, {divergences} divergences, {num_chains} chains × {num_samples} samples"
    )
    verdict = ("consistent with equilibrium: " if converged else "equilibrium not shown: ") + numbers
    if len(frozen):
        verdict += f"; frozen chains: {frozen.tolist()}"
    return Convergence(series, rhat, ess, acceptance, divergences, converged, verdict)


def two_ended(
    posterior: Posterior,
    key: Array,
    planted: Weights,
    *,
    tolerance: float = 0.02,
    max_z: float = 4.0,
    **sample_arguments: Any,
) -> TwoEnded:
    """Sample from the prior and from a planted state; equilibrium is where the two meet.

    Both runs use the key, in streams of their own. Weights of a planted network are, e.g., from
    `Posterior.planted` and a theory's solution; tolerance and max_z are those of `compare_ends`, the rest is
    passed to `sample`.
    """
    first = sample(posterior, jax.random.fold_in(key, 0), init="prior", **sample_arguments)
    second = sample(posterior, jax.random.fold_in(key, 1), init=planted, **sample_arguments)
    return compare_ends(first, second, posterior, tolerance=tolerance, max_z=max_z)


def compare_ends(
    prior: Samples, planted: Samples, posterior: Posterior, *, tolerance: float = 0.02, max_z: float = 4.0
) -> TwoEnded:
    """Whether two runs of one posterior from different starts meet.

    An observable agrees if its two means differ by at most `max_z` standard errors or by the fraction
    `tolerance`. Standard errors are the larger of the within-chain one (from the ESS) and the scatter
    between chains, so that chains which disagree among themselves widen them; and chains frozen at two
    different values fail.

    Args:
        prior: run from the prior.
        planted: run from a planted state, with as many chains and samples.
        posterior: what was sampled.
        tolerance: relative difference that is accepted however small the error.
        max_z: difference that is accepted, in standard errors.
    """
    first, second = observables(prior, posterior), observables(planted, posterior)
    difference, z_score = {}, {}
    for name in sorted(first.keys() | second.keys()):
        zeros = np.zeros_like(prior.info.energy)
        a, b = first.get(name, zeros), second.get(name, zeros)
        gap = abs(a.mean() - b.mean())
        scale = 1.0 if name.startswith("occupancy") else max(abs(a.mean()), abs(b.mean()), 1e-300)
        difference[name] = float(gap / scale)
        error = np.hypot(statistics.mean_and_error(a)[1], statistics.mean_and_error(b)[1])
        z_score[name] = float(gap / error) if error > 0 else (0.0 if gap == 0 else np.inf)
    failing = [n for n in z_score if z_score[n] > max_z and difference[n] > tolerance]
    worst = max(difference, key=lambda n: difference[n])
    numbers = f"largest difference {difference[worst]:.1%} ({worst}, {z_score[worst]:.1f} standard errors)"
    found = f"differ in {', '.join(failing)}" if failing else "meet"
    verdict = f"the two starts {found}: {numbers}"
    return TwoEnded(prior, planted, first, second, difference, z_score, not failing, verdict)


def _most(values: dict[str, float]) -> tuple[str, ...]:
    """Names with the four largest finite values."""
    finite = [name for name in values if np.isfinite(values[name])]
    return tuple(sorted(finite, key=lambda name: -values[name])[:4])
