"""From a theory's solution to a network: neurons drawn from the predicted scheme, to start a chain from.

Theories describe one neuron among infinitely many. A planted network has N of them: codes, kinds or outliers
in their predicted numbers, fluctuations drawn independently for every neuron. In the posterior the outputs
tie these together; a few trajectories of Hamiltonian Monte Carlo repair that.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from coding_schemes import coding, validation
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.theory import deep_sigmoidal, linear, mean_field, relu, sigmoidal

GRID = np.linspace(-7.0, 7.0, 701)  # preactivations are drawn by inverting their distribution on it
SMALLEST_NORM = 1e-6  # relative; feature directions below are left to the prior


def planted(key: Array, solution: Any, posterior: Posterior, *, copies: int = 1) -> Weights:
    """A network whose neurons are drawn from a theory's solution.

    Redundant schemes: neurons are dealt to the codes in proportion to P_γ, a neuron has the readout a_γ and
    preactivations from the density given its code. Deeper: W^ℓ is drawn from its prior, given the class means
    that layer ℓ is to have. Sparse ones: outliers at their place, the bulk drawn from its density. Analog
    ones: all preactivations and readouts from their joint Gaussian. General inputs: P_γ N neurons of each
    kind, without fluctuations, or one outlier of each and all other neurons zero.

    Args:
        key: of the draws; an array of keys draws as many networks.
        solution: of `theory.solve`, or of theory.sigmoidal, deep_sigmoidal, relu (`solve` or `finite_size`),
            linear or mean_field.
        posterior: of the task that was solved; gives N, the depth and the coordinates.
        copies: parallel neurons that share every outlier of a theory.relu solution.

    Returns:
        One network's weights, or those of several with a leading axis.

    Raises:
        ValueError: the solution is of none of these kinds or of another depth, class or size than the
            posterior's network and task; or the posterior has lost its task in a transformation.
    """
    if getattr(key, "shape", ()) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        networks = [planted(one, solution, posterior, copies=copies) for one in key]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)
    validation.key(key)
    validation.instance("posterior", posterior, Posterior)
    validation.counts(copies=copies)
    plant = next((_PLANTS[kind] for kind in type(solution).mro() if kind in _PLANTS), None)
    if plant is None:
        raise ValueError(
            f"solution: got {type(solution).__module__}.{type(solution).__qualname__}, can plant those of "
            "theory.sigmoidal, deep_sigmoidal, relu, linear and mean_field"
        )
    if posterior.task is None:
        raise ValueError("posterior: this copy came out of a JAX transformation and has no task")
    depth = getattr(solution, "depth", 1)
    if posterior.network.depth != depth:
        raise ValueError(
            f"posterior: its network has {posterior.network.depth} hidden layers, the solution is for {depth}"
        )
    classes = len(solution.dual_field)
    if classes not in (posterior.task.num_inputs, posterior.task.num_classes):
        raise ValueError(
            f"solution: its dual field has {classes} rows, the posterior's task {posterior.task.num_classes} "
            f"classes and {posterior.task.num_inputs} inputs"
        )
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
    return plant(rng, solution, posterior, **({"copies": copies} if plant is _sparse else {}))


def _dealt(probabilities, width):
    """Row of every neuron, rows in proportion to their probabilities."""
    ends = np.rint(width * np.cumsum(probabilities) / np.sum(probabilities)).astype(int)
    return np.searchsorted(ends, np.arange(width), side="right")


def _redundant(rng, solution, posterior):
    labels = posterior.task.labels
    rows = _dealt(solution.probabilities, posterior.network.width)
    z = np.empty((len(rows), len(labels)))
    for row in np.unique(rows):
        for c in range(labels.max() + 1):
            where = np.ix_(rows == row, labels == c)
            z[where] = np.interp(rng.random(z[where].shape), _cumulative(solution, int(row), c), GRID)
    return posterior.planted(z, solution.readouts[rows])


@lru_cache(maxsize=64)
def _cumulative(solution, row, class_index):
    """Distribution of preactivations on the grid, once for all networks planted from a solution."""
    return sigmoidal.preactivation_cdf(solution, row, class_index, GRID)


def _redundant_layers(rng, solution, posterior):
    problem, labels, width = solution.problem, posterior.task.labels, posterior.network.width
    hidden: list[np.ndarray] = []
    for below, layer in zip((None, *solution.layers), solution.layers):
        ranks = (rng.permutation(width) + rng.random()) / width  # evenly spread over the points' weights
        points = np.searchsorted(np.cumsum(layer.point_weights), ranks * layer.point_weights.sum())
        levels = layer.point_activations[points]
        if below is None:
            first = z = _with_class_means(rng, problem.site, levels, labels)
            continue
        spread = np.sqrt(np.maximum(below.kernel_diagonal, 0))
        smooth = problem.site.phi(GRID[:, None, None] + spread[:, None] * deep_sigmoidal.SCATTER_NODES)
        smooth = smooth @ deep_sigmoidal.SCATTER_WEIGHTS
        aim = np.stack([np.interp(row, s, GRID) for row, s in zip(levels.T, smooth.T)], axis=1)
        features = problem.site.phi(z) / width**0.5
        hidden.append(_matrix_given_response(rng, coding.class_means(features, labels), aim))
        z = hidden[-1] @ features
    readouts = problem.readout_variance * (levels * problem.counts) @ solution.dual_field
    readouts += problem.readout_variance**0.5 * rng.standard_normal(readouts.shape)
    return posterior.planted(first, readouts, tuple(jnp.asarray(w, posterior.dtype) for w in hidden))


def _with_class_means(rng, site, levels, labels):
    """Preactivations from N(z; 0, 1) e^{sφ(z)}, with the s for which φ has the mean (N, C) asked for."""
    fields = np.linspace(-40, 40, 4001)
    tilts = np.interp(levels, site.cumulants(fields, 1)[1], fields)
    z = np.empty((len(levels), len(labels)))
    for c, column in enumerate(tilts.T):
        cumulative = np.cumsum(site.density(GRID, column[:, None]), axis=1)
        members = np.flatnonzero(labels == c)
        for row, one in enumerate(cumulative):
            z[row, members] = np.interp(rng.random(len(members)), one / one[-1], GRID)
    return z


def _matrix_given_response(rng, features, aim):
    """W (N, N) from its prior given W · features = aim, both of shape (N, k)."""
    free = rng.standard_normal((len(aim), len(features)))
    return free + (aim - free @ features) @ np.linalg.pinv(features, rcond=SMALLEST_NORM)


def _analog(rng, solution, posterior):
    width, depth = posterior.network.width, solution.depth
    roots = [_root(kernel) for kernel in solution.kernels[:-1]]
    readouts = rng.standard_normal((width, len(solution.readout_covariance)))
    readouts = readouts @ _root(solution.readout_covariance)
    hidden: list[np.ndarray] = []
    for layer in range(1, depth + 1):
        # z^ℓ ~ N(0, K_ℓ) below, z^L | a ~ N(K_{L−1} t a, K_{L−1}) above
        root = roots[layer - (layer == depth)]
        aim = rng.standard_normal((width, len(root))) @ root
        if layer == depth:
            aim += readouts @ solution.feature_slopes.T
        if layer == 1:
            first = z = aim
            continue
        features = z / width**0.5
        hidden.append(_matrix_given_response(rng, features, aim))
        z = hidden[-1] @ features
    return posterior.planted(first, readouts, tuple(jnp.asarray(w, posterior.dtype) for w in hidden))


def _root(covariance):
    """The symmetric root."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _sparse(rng, solution, posterior, copies):
    width = posterior.network.width
    if isinstance(solution, relu.Solution):
        solution = relu.finite_size(solution, width)
    if solution.num_neurons != width:
        raise ValueError(f"solution: is for N = {solution.num_neurons}, the posterior's network has {width}")
    return posterior.planted(*_outliers_and_bulk(solution, posterior.task.labels, rng, copies))


def _outliers_and_bulk(finite, labels, rng, copies=1):
    """Preactivations (N, P) and readouts (N, m), outliers first; `copies` of one act together like it."""
    size, outliers = finite.num_neurons, np.repeat(finite.outlier_readouts, copies, axis=0)
    if len(outliers) >= size:
        raise ValueError(f"copies: got {copies}, needs fewer outliers than N = {size}")
    grid = np.linspace(-8.0, 8.0, 1601)
    z = np.empty((size, len(labels)))
    for c in range(len(finite.class_weights)):
        cumulative = np.cumsum(relu.bulk_density(finite, grid, c))
        members = np.flatnonzero(labels == c)
        z[:, members] = np.interp(rng.random((size, len(members))), cumulative / cumulative[-1], grid)
    a = rng.multivariate_normal(finite.bulk_readout, finite.bulk_readout_covariance, size)
    share = np.sqrt(size / copies)
    a[: len(outliers)] = share * outliers
    noise = np.repeat(np.sqrt(finite.outlier_preactivation_variances), copies, axis=0)[:, labels]
    z[: len(outliers)] = share * np.repeat(finite.outlier_preactivations, copies, axis=0)[:, labels]
    z[: len(outliers)] += noise * rng.standard_normal((len(outliers), len(labels)))
    return z, a


def _kinds(rng, solution, posterior):
    width = posterior.network.width
    if not solution.outliers:
        rows = _dealt(solution.probabilities, width)
        return posterior.planted(solution.preactivations[rows], solution.readouts[rows])
    kinds = min(len(solution.readouts), width)
    silent = ((0, width - kinds), (0, 0))
    both = solution.preactivations, solution.readouts
    return posterior.planted(*(np.pad(values[:kinds] * width**0.5, silent) for values in both))


_PLANTS: dict[type, Callable[..., Weights]] = {
    sigmoidal.Solution: _redundant,
    deep_sigmoidal.Solution: _redundant_layers,
    linear.Solution: _analog,
    relu.Solution: _sparse,
    relu.FiniteSize: _sparse,
    mean_field.Solution: _kinds,
}
