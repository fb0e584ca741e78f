"""Statistics of correlated samples: means with errors, tests, memory of single neurons, power laws.

Series have shape (chains, samples, …). The effective number of samples and R-hat are ArviZ's.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import linregress

from coding_schemes import validation


def effective_sample_size(series: ArrayLike, method: str = "mean") -> np.ndarray:
    """Number of independent draws that know the mean as well as all chains together.

    Args:
        series: shape (chains, samples, …).
        method: "mean", for the error of a mean, or "bulk", rank-normalized, for convergence.

    Returns:
        ESS, shape (…). Chains that disagree count as few draws. NaN for a series that never changes, and the
        number of chains where each one is frozen at a value of its own.

    Raises:
        ValueError: fewer than two axes, or fewer than four samples.

    Source: Vehtari et al. (2021), by ArviZ.
    """
    from arviz_stats.base import array_stats  # here, because it loads scipy.signal: half a second

    series = _series(series)
    validation.choice("method", method, ("mean", "bulk"))
    flat = series.reshape(*series.shape[:2], -1)
    frozen = np.all(flat == flat[:, :1], axis=(0, 1))
    ess = np.full(flat.shape[-1], float(len(flat)))
    if not frozen.all():
        ess[~frozen] = array_stats.ess(flat[..., ~frozen], chain_axis=0, draw_axis=1, method=method)
    return np.where(np.ptp(flat, axis=(0, 1)) == 0, np.nan, ess).reshape(series.shape[2:])


def rhat(series: ArrayLike) -> np.ndarray:
    """Rank-normalized split R-hat: how much wider all chains are together than each by itself.

    Args:
        series: shape (chains, samples, …), at least four samples.

    Returns:
        R-hat, of shape (…). It is 1 where chains agree, infinite where each is frozen at a value of its own,
        and NaN for a series that never changes and for a single chain.

    Source: Vehtari et al. (2021), by ArviZ.
    """
    from arviz_stats.base import array_stats

    series = _series(series)
    flat = series.reshape(*series.shape[:2], -1)
    found = np.full(flat.shape[-1], np.nan)
    frozen = np.all(flat == flat[:, :1], axis=(0, 1))
    if len(flat) > 1:
        found[frozen & (np.ptp(flat, axis=(0, 1)) > 0)] = np.inf
        if not frozen.all():
            with np.errstate(divide="ignore", invalid="ignore"):  # halves of chains, each frozen: infinite
                found[~frozen] = array_stats.rhat(flat[..., ~frozen], chain_axis=0, draw_axis=1)
    return found.reshape(series.shape[2:])


def autocorrelation_time(series: ArrayLike) -> np.ndarray:
    """Integrated autocorrelation time, τ = (number of draws) / (effective number of draws).

    Args:
        series: shape (chains, samples, …).

    Returns:
        τ in units of the sampling interval, shape (…), as `effective_sample_size` finds it.

    Raises:
        ValueError: fewer than two axes, or fewer than four samples.
    """
    series = _series(series)
    return math.prod(series.shape[:2]) / effective_sample_size(series)


def mean_and_error(series: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Mean over chains and samples, and its standard error: the one the whole book uses.

    The larger of the error within chains, √(variance / ESS), and of the scatter of the chains' means over
    the root of their number: chains that disagree more than their own samples tell widen it.

    Args:
        series: shape (chains, samples, …).

    Returns:
        Mean and standard error, each of shape (…); the error of a series that never changes is 0.

    Raises:
        ValueError: fewer than two axes, or fewer than four samples.
    """
    series = _series(series)
    ess = effective_sample_size(series)
    error = np.where(np.isnan(ess), 0.0, np.sqrt(series.var((0, 1)) / np.fmax(ess, 1.0)))
    if len(series) > 1:
        error = np.maximum(error, series.mean(1).std(axis=0, ddof=1) / len(series) ** 0.5)
    return series.mean((0, 1)), error


def autocorrelation(series: ArrayLike, max_lag: int) -> np.ndarray:
    """Autocorrelation of single neurons around the mean of the whole population.

        C(s) = ⟨δx_i(t) · δx_i(t+s)⟩ / ⟨|δx_i(t)|²⟩,   δx_i = x_i − (mean over chains, time and neurons)

    Neurons that explore the whole posterior lose all memory, C → 0; frozen ones keep C at the part of the
    variance that lies between neurons.

    Args:
        series: readouts or other properties of neurons, shape (chains, samples, N, d).
        max_lag: largest lag s, in samples.

    Returns:
        C(0) … C(max_lag), shape (max_lag + 1,).

    Raises:
        ValueError: wrong number of axes, or a lag out of range.

    Source: paper A, Fig. 4b.
    """
    deviation, variance = _population_deviation(series)
    num_samples = deviation.shape[1]
    validation.count("max_lag", max_lag, 0, num_samples - 1)
    products = [
        np.sum(deviation[:, : num_samples - lag] * deviation[:, lag:], axis=-1).mean()
        for lag in range(max_lag + 1)
    ]
    return np.array(products) / variance


class PermutationOrder(NamedTuple):
    """Order parameter of permutation symmetry.

    Attributes:
        value: 0 where it is restored (every neuron explores the whole posterior), 1 where it is frozen.
        standard_error: of the ratio, from the spread over neurons.
    """

    value: float
    standard_error: float


def permutation_order(series: ArrayLike) -> PermutationOrder:
    """Whether neurons keep their identity in time: the part of the variance that lies between neurons.

        q = ⟨δx̄_i¹ · δx̄_i²⟩ / ⟨|δx_i|²⟩

    with x̄¹, x̄² a neuron's averages over the first and the second half of the samples, δ the deviation from
    the population's mean. With two halves the noise of the averages drops out; what is left where symmetry
    is restored is the memory across the border, of order (τ/n)² for n samples and autocorrelation time τ.

    Args:
        series: readouts, class means or other properties of neurons, shape (chains, samples, N, d).

    Returns:
        A PermutationOrder.

    Raises:
        ValueError: wrong number of axes, or fewer than two samples.

    Source: paper A, "Permutation symmetry breaking" (in words); the estimator is this book's.
    """
    deviation, variance = _population_deviation(series)
    half = deviation.shape[1] // 2
    if half < 1:
        raise ValueError(f"series: got {deviation.shape[1]} sample, needs at least 2")
    products = np.sum(deviation[:, :half].mean(axis=1) * deviation[:, half:].mean(axis=1), axis=-1)
    value = products.mean() / variance
    own = np.square(deviation).sum(axis=-1).mean(axis=1)  # a neuron's share of the denominator
    spread = np.std(products - value * own) / variance
    return PermutationOrder(float(value), float(spread / products.size**0.5))


def within(
    computed: ArrayLike, expected: ArrayLike, uncertainty: ArrayLike, num_standard_errors: float = 3.0
) -> bool:
    """Whether every computed value lies within so many standard errors of the expected one.

    Args:
        computed: Measured values.
        expected: Values to compare with, of a shape that broadcasts against `computed`.
        uncertainty: Standard error of the difference, positive.
        num_standard_errors: Allowed distance in units of `uncertainty`.

    Returns:
        True if |computed − expected| ≤ num_standard_errors · uncertainty everywhere.

    Raises:
        ValueError: If a value is not finite or an uncertainty is not positive.
    """
    computed, expected = (
        validation.array(name, value, "…") for name, value in (("computed", computed), ("expected", expected))
    )
    uncertainty = validation.array("uncertainty", uncertainty, "…")
    validation.number("uncertainty", uncertainty.min(), above=0)
    validation.positive(num_standard_errors=num_standard_errors)
    return bool(np.all(np.abs(computed - expected) <= num_standard_errors * uncertainty))


class PowerLaw(NamedTuple):
    """A fitted law value = prefactor · size^exponent.

    Attributes:
        exponent: The fitted exponent.
        standard_error: Its standard error.
        prefactor: The fitted prefactor.
    """

    exponent: float
    standard_error: float
    prefactor: float


def fit_power_law(sizes: ArrayLike, values: ArrayLike) -> PowerLaw:
    """Fit an exponent, log value = log prefactor + exponent · log size, by least squares.

    Args:
        sizes: Sizes (S,), at least three different ones, positive.
        values: Measured values (S,), positive.

    Returns:
        The fit; its standard error is taken from the scatter around the line.

    Raises:
        ValueError: If there are fewer than three sizes, or a size or value is not positive and finite.
    """
    sizes = validation.array("sizes", sizes, "S")
    values = validation.array("values", values, "S", S=len(sizes))
    validation.number("sizes", sizes.min(), above=0)
    validation.number("values", values.min(), above=0)
    if np.unique(sizes).size < 3:
        raise ValueError(f"sizes: got {sizes.tolist()}, needs at least three different ones for an error")
    line = linregress(np.log(sizes), np.log(values))
    return PowerLaw(float(line.slope), float(line.stderr), float(np.exp(line.intercept)))


def first_lasting(reached: ArrayLike) -> int | None:
    """Index from which on a condition holds to the end of a series; None where it fails at the end.

    Args:
        reached: whether the condition holds, booleans, shape (samples,).

    Returns:
        The index, or None.
    """
    reached = validation.array("reached", reached, "samples").astype(bool)
    if not reached[-1]:
        return None
    failed = np.flatnonzero(~reached)
    return int(failed[-1] + 1) if failed.size else 0


def _population_deviation(series: ArrayLike) -> tuple[np.ndarray, float]:
    """Deviation from the mean over chains, samples and neurons, and its mean square."""
    series = validation.array("series", series, "chains, samples, N, d")
    deviation = series - series.mean(axis=(0, 1, 2))
    return deviation, float(np.square(deviation).sum(axis=-1).mean())


def _series(series: ArrayLike) -> np.ndarray:
    series = np.asarray(series)  # NaN is allowed: a series may not exist everywhere
    if series.ndim < 2 or series.shape[1] < 4 or not np.can_cast(series.dtype, float, "same_kind"):
        raise ValueError(
            f"series: got shape {series.shape} of {series.dtype}, needs (chains, 4 or more samples, …), real"
        )
    return series.astype(float)
