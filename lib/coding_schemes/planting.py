"""From a theory's solution to a network: neurons drawn from the predicted scheme, to start a chain from.

Theories describe one neuron among infinitely many. A planted network has N of them: codes, kinds or outliers
in their predicted numbers, fluctuations drawn independently for every neuron. In the posterior the outputs
tie these together; a few trajectories of Hamiltonian Monte Carlo repair that.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from coding_schemes import validation
from coding_schemes.posterior import Posterior, Weights


def planted(key: Array, solution: Any, posterior: Posterior) -> Weights:
    """A network whose neurons are drawn from a theory's solution.

    How is the solution's own affair, in its `draw`: codes and kinds in proportion to P_γ, outliers at their
    place, everything else by chance from the predicted densities.

    Args:
        key: of the draws; an array of keys draws as many networks.
        solution: of `theory.solve`, or of theory.sigmoidal, deep_sigmoidal, clustered, condensation, relu
            (`solve` or `finite_size`), linear or mean_field.
        posterior: of the task that was solved; gives N, the depth and the coordinates.

    Returns:
        One network's weights, or those of several with a leading axis.

    Raises:
        ValueError: the solution is of none of these kinds, or of another depth, width, task or temperature
            than the posterior; or the posterior has lost its task in a transformation.
    """
    if getattr(key, "shape", ()) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        networks = [planted(one, solution, posterior) for one in key]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)
    validation.key(key)
    validation.instance("posterior", posterior, Posterior)
    if not hasattr(solution, "draw"):
        raise ValueError(
            f"solution: got {type(solution).__module__}.{type(solution).__qualname__}, can plant those of "
            "theory.sigmoidal, deep_sigmoidal, clustered, condensation, relu, linear and mean_field"
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
    _require_own(solution, posterior)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
    return posterior.planted(*solution.draw(rng, posterior.task.labels, posterior.network.width))


def merged(weights: Weights, codes: np.ndarray) -> Weights:
    """Weights in which all feature neurons of one code are rotated into a single one.

    Readouts and incoming weights turn together, by an orthogonal matrix that the prior does not see.

    Args:
        weights: of several networks, with a leading axis.
        codes: classes that each feature neuron codes for, (networks, N, C); those of none stay as they are.
    """
    readout = np.array(weights.readout)
    *lower, incoming = (np.array(layer) for layer in (weights.first, *weights.hidden))
    for network, own in enumerate(codes):
        for code in np.unique(own[own.any(1)], axis=0):
            group = np.flatnonzero((own == code).all(1))
            turn = np.linalg.svd(readout[network, group])[0].T
            turn[0] *= np.sign(turn[0].sum())
            readout[network, group] = turn @ readout[network, group]
            incoming[network, group] = turn @ incoming[network, group]
    first, *hidden = (jnp.asarray(layer) for layer in (*lower, incoming))
    return Weights(first, tuple(hidden), jnp.asarray(readout))


def _require_own(solution: Any, posterior: Posterior) -> None:
    """Refuse a solution of another task or temperature: its network would fit other targets."""
    task, problem = posterior.task, getattr(solution, "problem", None)
    assert task is not None
    if problem is not None:  # of classes alone
        targets = problem.targets[task.labels] if np.array_equal(problem.counts, task.class_counts) else None
        if targets is not None and hasattr(problem, "fits") and not problem.fits(task):
            targets = None  # solved for other inputs
    else:
        own = solution.task
        targets = own.targets if np.array_equal(own.class_counts, task.class_counts) else None
        if len(solution.dual_field) == task.num_inputs and not np.allclose(
            own.input_kernel, task.input_kernel
        ):
            targets = None  # solved for other inputs
    if targets is None or targets.shape != task.targets.shape or not np.allclose(targets, task.targets):
        raise ValueError("solution: is of another task than the posterior; solve the posterior's own task")
    here, there = float(posterior.temperature), solution.temperature
    if not np.isclose(here, there, rtol=1e-6, atol=0):  # the posterior's may be in single precision
        raise ValueError(f"solution: is for T = {there:g}, the posterior is at T = {here:g}")
