"""Statistics of correlated samples: means with errors, tests, memory of single neurons, power laws.

Series have shape (chains, samples, …). The effective number of samples and R-hat are ArviZ's.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coding_schemes import validation


def effective_sample_size(series: ArrayLike, method: str = "mean") -> np.ndarray:
    """Number of independent draws that know the mean as well as all chains together.

    Args:
        series: shape (chains, samples, …), at least four samples (else ValueError).
        method: "mean", for the error of a mean, or "bulk", rank-normalized, for convergence.

    Returns:
        ESS, shape (…). Chains that disagree count as few draws. NaN for a series that never changes, and the
        number of chains where each one is frozen at a value of its own.

    Source: Vehtari et al. (2021), by ArviZ.
    """
    from arviz_stats.base import array_stats  # here, because it loads scipy.signal: half a second

    validation.choice("method", method, ("mean", "bulk"))
    flat, frozen, shape = _flat(series)
    ess = np.full(flat.shape[-1], float(len(flat)))
    if not frozen.all():
        ess[~frozen] = array_stats.ess(flat[..., ~frozen], chain_axis=0, draw_axis=1, method=method)
    return np.where(np.ptp(flat, axis=(0, 1)) == 0, np.nan, ess).reshape(shape)


def rhat(series: ArrayLike) -> np.ndarray:
    """Rank-normalized split R-hat (…): how much wider all chains are together than each by itself.

    For series (chains, 4 or more samples, …). It is 1 where chains agree, infinite where each is frozen at a
    value of its own, and NaN for a series that never changes and for a single chain.

    Source: Vehtari et al. (2021), by ArviZ.
    """
    from arviz_stats.base import array_stats

    flat, frozen, shape = _flat(series)
    found = np.full(flat.shape[-1], np.nan)
    if len(flat) > 1:
        found[frozen & (np.ptp(flat, axis=(0, 1)) > 0)] = np.inf
        if not frozen.all():
            with np.errstate(divide="ignore", invalid="ignore"):  # halves of chains, each frozen: infinite
                found[~frozen] = array_stats.rhat(flat[..., ~frozen], chain_axis=0, draw_axis=1)
    return found.reshape(shape)


def autocorrelation_time(series: ArrayLike) -> np.ndarray:
    """Integrated autocorrelation time, τ = (number of draws) / (effective number of draws).

    In units of the sampling interval, shape (…) for a series (chains, samples, …).
    """
    series = _series(series)
    return math.prod(series.shape[:2]) / effective_sample_size(series)


def mean_and_error(series: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Mean over chains and samples, and its standard error: the one the whole book uses; each of shape (…).

    The larger of the error within chains, √(variance / ESS), and of the scatter of the chains' means over
    the root of their number: chains that disagree more than their own samples tell widen it. For series
    (chains, samples, …); the error of one that never changes is 0.
    """
    series = _series(series)
    ess = effective_sample_size(series)
    error = np.where(np.isnan(ess), 0.0, np.sqrt(series.var((0, 1)) / np.fmax(ess, 1.0)))
    if len(series) > 1:
        error = np.maximum(error, series.mean(1).std(axis=0, ddof=1) / len(series) ** 0.5)
    return series.mean((0, 1)), error


def autocorrelation(series: ArrayLike, max_lag: int) -> np.ndarray:
    """Autocorrelation C(0) … C(max_lag) of single neurons around the mean of the whole population.

        C(s) = ⟨δx_i(t) · δx_i(t+s)⟩ / ⟨|δx_i(t)|²⟩,   δx_i = x_i − (mean over chains, time and neurons)

    Neurons that explore the whole posterior lose all memory, C → 0; frozen ones keep C at the part of the
    variance that lies between neurons. Series of readouts or other properties are (chains, samples, N, d).

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
    Series of readouts, class means or other properties of neurons are (chains, 2 or more samples, N, d).

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
    """Whether |computed − expected| ≤ num_standard_errors · uncertainty everywhere.

    The uncertainty is the standard error of the difference, positive; the shapes broadcast.
    """
    computed = validation.array("computed", computed, "…")
    expected = validation.array("expected", expected, "…")
    uncertainty = validation.array("uncertainty", uncertainty, "…")
    validation.number("uncertainty", uncertainty.min(), above=0)
    validation.positive(num_standard_errors=num_standard_errors)
    return bool(np.all(np.abs(computed - expected) <= num_standard_errors * uncertainty))


def infinite_width(
    widths: Sequence[int], means: ArrayLike, errors: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Values at N → ∞ by lines in 1/N through those of n widths, and their standard errors, shape (…) each.

    Args:
        widths: N, shape (n,).
        means: values, shape (n, …); those of a single width are returned as they are.
        errors: their standard errors, of the same shape.
    """
    values, spreads = np.asarray(means, dtype=float), np.asarray(errors, dtype=float)
    if len(widths) == 1:
        return values[0], spreads[0]
    x = np.reshape(1 / np.asarray(widths, dtype=float), (-1, *[1] * (values.ndim - 1)))
    weights = 1 / spreads**2
    center = np.sum(weights * x, 0) / np.sum(weights, 0)
    lever = np.sum(weights * (x - center) ** 2, 0)
    slope = np.sum(weights * (x - center) * values, 0) / lever
    limit = np.sum(weights * values, 0) / np.sum(weights, 0) - slope * center
    return limit, np.sqrt(1 / np.sum(weights, 0) + center**2 / lever)


def share_of_way(values: ArrayLike, start: ArrayLike, end: ArrayLike) -> np.ndarray:
    """How much of the way from `start` to `end`, of shape (a, b), values (…, a, b) go, shape (…).

    (x − start)·(end − start)/|end − start|²: 0 at the start, 1 at the end, whatever lies at right angles.
    """
    way = np.subtract(end, start)
    return np.einsum("...ab,ab->...", np.subtract(values, start), way) / np.sum(way**2)


class PowerLaw(NamedTuple):
    """A fitted law value = prefactor · size^exponent.

    Attributes:
        exponent: of the law.
        standard_error: of the exponent, from the scatter around the line, or from the values' own errors if
            these make it larger.
        prefactor: of the law.
    """

    exponent: float
    standard_error: float
    prefactor: float


def fit_power_law(sizes: ArrayLike, values: ArrayLike, errors: ArrayLike = 0.0) -> PowerLaw:
    """Fit an exponent, log value = log prefactor + exponent · log size, by least squares.

    Sizes (S,), at least three different ones, and values (S,) are positive; errors are the values' own.
    """
    from scipy.stats import linregress  # here, because it takes a second to load

    sizes = validation.array("sizes", sizes, "S")
    values = validation.array("values", values, "S", S=len(sizes))
    validation.number("sizes", sizes.min(), above=0)
    validation.number("values", values.min(), above=0)
    if np.unique(sizes).size < 3:
        raise ValueError(f"sizes: got {sizes.tolist()}, needs at least three different ones for an error")
    x, y = np.log(sizes), np.log(values)
    line, gain = linregress(x, y), (x - x.mean()) / np.square(x - x.mean()).sum()
    own = np.linalg.norm(gain * validation.array("errors", errors, "…") / values)
    return PowerLaw(float(line.slope), float(max(line.stderr, own)), float(np.exp(line.intercept)))


def first_lasting(reached: ArrayLike) -> int | None:
    """Index from which on a condition, booleans (samples,), holds to the end; None if it fails at the end."""
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


def _flat(series: ArrayLike) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Series (chains, samples, n), where no chain moves (n,), and the shape that was made flat."""
    series = _series(series)
    flat = series.reshape(*series.shape[:2], -1)
    return flat, np.all(flat == flat[:, :1], axis=(0, 1)), series.shape[2:]


def _series(series: ArrayLike) -> np.ndarray:
    series = np.asarray(series)  # NaN is allowed: a series may not exist everywhere
    if series.ndim < 2 or series.shape[1] < 4 or not np.can_cast(series.dtype, float, "same_kind"):
        raise ValueError(
            f"series: got shape {series.shape} of {series.dtype}, needs (chains, 4 or more samples, …), real"
        )
    return series.astype(float)


def variance_in_time(series: ArrayLike) -> np.ndarray:
    """½⟨(z(t + S/2) − z(t))²⟩ over all axes but (chains, t): free of the bias of a short window's mean.

    Args:
        series: z, shape (chains, S, …), S ≥ 2.

    Returns:
        The variance of values half a run apart, shape (chains, S // 2).

    Raises:
        ValueError: fewer than two samples, or values that are no finite numbers.
    """
    z = validation.array("series", series, "…", dtype=None)
    if z.ndim < 2 or z.shape[1] < 2:
        raise ValueError(f"series: got shape {z.shape}, needs (chains, samples, …) with two samples or more")
    half = z.shape[1] // 2
    change = np.square(z[:, half : 2 * half].astype(float) - z[:, :half])
    return 0.5 * change.reshape(*change.shape[:2], -1).mean(-1)


def fit_barrier_scale(
    heights: Sequence[ArrayLike], counts: Sequence[ArrayLike], exposures: Sequence[ArrayLike]
) -> tuple[float, float]:
    """β of rates ∝ e^{−βΔF} of passing barriers ΔF, by maximum likelihood over all ways; 1 if ΔF is right.

    One attempt rate for each set of ways: the counts of a set are multinomial given their number, with
    probabilities ∝ exposure e^{−βΔF}. By Newton's method in steps of at most 0.3.

    Args:
        heights: ΔF in units of kT, one array (ways,) for each set, as for one temperature.
        counts: passages seen, of the same shapes.
        exposures: time spent where each way begins, of the same shapes.

    Returns:
        β and its standard error.

    Raises:
        ValueError: sets of different numbers or shapes, negative counts or exposures, or no passage at all
            over ways that differ.
    """
    sets = []
    for height, count, exposure in zip(heights, counts, exposures, strict=True):
        height = validation.array("heights", height, "ways")
        count, exposure = (
            validation.array(name, values, "ways", ways=len(height))
            for name, values in (("counts", count), ("exposures", exposure))
        )
        if count.min() < 0 or exposure.min() < 0:
            raise ValueError("counts, exposures: hold negative numbers")
        if exposure.sum() == 0 or np.any(count[exposure == 0] > 0):
            raise ValueError("exposures: got no time for passages, or for any way of a set")
        sets.append((height, count, exposure))
    if not any(count.sum() > 0 and np.ptp(height[exposure > 0]) > 0 for height, count, exposure in sets):
        raise ValueError("counts: got no passage over ways of different heights, so that β is free")
    beta, information = 0.0, 1.0
    for _ in range(50):
        score = information = 0.0
        for height, count, exposure in sets:
            weight = exposure * np.exp(-beta * height)
            mean = np.average(height, weights=weight)
            score += count.sum() * mean - count @ height
            information += count.sum() * np.average((height - mean) ** 2, weights=weight)
        beta += float(np.clip(score / information, -0.3, 0.3))
    return beta, float(information**-0.5)
