r"""Outliers of sparse schemes, read off from theory and from samples alike: strength, variation, number.

Theory is a solution of `relu` or `relu_squared`; what is measured is a `coding.SparseMeasures`, which has one
row for the strongest neuron of every class.

Source: paper A, "Coding schemes in ReLU networks": strengths grow as √N, variation falls as 1/√N. That of
max(0, z)², overlaps and the room for further outliers are the book's own.
"""

import numpy as np

from coding_schemes import statistics, validation
from coding_schemes.coding import SparseMeasures
from coding_schemes.theory import relu, relu_squared
from coding_schemes.theory._tilted import Relu

Theory = relu.Solution | relu.FiniteSize | relu_squared.Solution


def strengths(solution: Theory, num_neurons: int) -> np.ndarray:
    """Readouts and own preactivation of every class's outlier in a network of N neurons.

    √N (ā, z̄_c), and N^(1/3) (ā, z̄_c) for max(0, z)²; ā and z̄ of the outlier with the largest z̄_c.

    Args:
        solution: of `relu` or `relu_squared`.
        num_neurons: N.

    Returns:
        The strengths, shape (C, m + 1).

    Raises:
        ValueError: another solution, a class without an outlier, or N < 1.
    """
    own, own_z = _own(solution)
    validation.count("num_neurons", num_neurons)
    exponent = 1 / 3 if isinstance(solution, relu_squared.Solution) else 0.5
    return num_neurons**exponent * np.column_stack([solution.outlier_readouts[own], own_z])


def measured_strengths(measures: SparseMeasures) -> np.ndarray:
    """The same of every sample: shape (…, C, m + 1) for measures with leading axes …, else ValueError."""
    validation.instance("measures", measures, SparseMeasures)
    own_z = np.diagonal(measures.preactivations, axis1=-2, axis2=-1)
    return np.concatenate([measures.readouts, own_z[..., None]], axis=-1)


def variation(solution: relu.FiniteSize) -> np.ndarray:
    """Coefficient of variation of each class's outlier about its class mean in the sample.

    √(Var z (1 − 1/n_c)) / (√N z̄_c): of the n_c inputs' variance the mean over them takes its part.

    Args:
        solution: of `relu.finite_size`.

    Returns:
        The coefficients, shape (C,).

    Raises:
        ValueError: another solution, or a class without an outlier.
    """
    validation.instance("solution", solution, relu.FiniteSize)
    own, _ = _own(solution)
    variances = solution.outlier_preactivation_variances[own].diagonal()
    variances = variances * (1 - 1 / solution.task.class_counts)
    return np.sqrt(variances) / strengths(solution, solution.num_neurons)[:, -1]


def variation_squared_relu(
    solution: relu_squared.Solution, num_neurons: int, temperature: float
) -> np.ndarray:
    r"""The same for max(0, z)² at leading order, from the stiffness of the likelihood alone.

        CV_c = √(1 − 1/n_c) / (√N z̄_c² √(ā_cᵀ H⁻¹ ā_c)),    H = T + (5/4) (1/P + a0 a0ᵀ)

    H is the noise that temperature and bulk leave in the outputs; 5/4 is the variance of max(0, z)².

    Args:
        solution: of `relu_squared.solve`; a0, ā and z̄ in its units.
        num_neurons: N.
        temperature: T ≥ 0.

    Returns:
        The coefficients, shape (C,).

    Raises:
        ValueError: another solution, a class without an outlier, N < 1 or T < 0.
    """
    validation.instance("solution", solution, relu_squared.Solution)
    validation.number("temperature", temperature, least=0)
    validation.count("num_neurons", num_neurons)
    own, z = _own(solution)
    a, bulk = solution.outlier_readouts[own], solution.bulk_readout * num_neurons ** (-1 / 3)
    noise = temperature * np.eye(len(bulk)) + 1.25 * np.outer(bulk, bulk)
    noise += 1.25 / solution.task.num_inputs * np.eye(len(bulk))
    held = np.sqrt(num_neurons * np.einsum("cr,rq,cq->c", a, np.linalg.inv(noise), a))
    return np.sqrt(1 - 1 / solution.task.class_counts) / (held * z**2)


def measured_variation(measures: SparseMeasures) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square over samples of each outlier's coefficient of variation, with its standard error.

    Args:
        measures: with leading axes (chains, samples).

    Returns:
        Value and error, each of shape (C,).

    Raises:
        ValueError: no measures, or other axes.
    """
    validation.instance("measures", measures, SparseMeasures)
    validation.array("measures", measures.variation, "chains, samples, C")
    mean, error = statistics.mean_and_error(np.square(measures.variation))
    return np.sqrt(mean), error / (2 * np.sqrt(mean))


def overlaps(solution: relu.Solution) -> np.ndarray:
    r"""Overlaps Σ_i a_i a_iᵀ / N of all readouts at N → ∞, a₀a₀ᵀ + Σ āāᵀ, one for a family of solutions.

    Args:
        solution: of `relu.solve`.

    Returns:
        The upper triangle, shape (m(m + 1)/2,).

    Raises:
        ValueError: another solution.
    """
    validation.instance("solution", solution, relu.Solution)
    readouts = np.vstack([solution.bulk_readout, solution.outlier_readouts])
    return (readouts.T @ readouts)[np.triu_indices(readouts.shape[1])]


def spare_outliers(solution: relu.Solution, size: int) -> float:
    r"""How many further outliers the single-neuron posterior holds at N = P = size, at leading order.

        N ∫_{outliers} da e^{P E(a)} / ∫_{bulk} da e^{P E(a)}

    over readouts up to the largest outlier's, where a neuron of this readout is counted as an outlier. Far
    below 1 their number is the theory's; otherwise it is not fixed at this size. The fields are the theory's,
    so that large values say only that: many.

    Args:
        solution: of `relu.solve`, for ReLU, with three outputs.
        size: N = P.

    Returns:
        The number, as an order of magnitude. A thousand directions of a are drawn; they scatter by some 25 %
        at a size of 100, and by a factor of several at 500, where few of them carry all weight.

    Raises:
        ValueError: another solution or number of outputs, softplus, no outliers, or a size below 1.
    """
    validation.instance("solution", solution, relu.Solution)
    validation.count("size", size)
    if solution.nonlinearity != "relu" or solution.num_outliers == 0 or solution.dual_field.shape[1] != 3:
        raise ValueError(
            f"solution: got {solution.nonlinearity!r}, {solution.num_outliers} outliers, "
            f"{solution.dual_field.shape[1]} outputs; needs 'relu', one or more, and 3"
        )
    solution = relu.unscaled(solution)
    t, w = solution.dual_field, solution.class_weights
    directions = np.random.default_rng(0).standard_normal((1000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = np.linspace(0, np.sqrt(size) * np.linalg.norm(solution.outlier_readouts, axis=1).max(), 150)[1:]

    def free_energy(a):  # E(a)
        return Relu().cumulants(a @ t.T, 0)[0] @ w - np.square(a).sum(-1) / 2

    _, mean, variance = Relu().cumulants(t @ solution.bulk_readout)
    squares = np.square(solution.outlier_preactivations).sum(0) + variance + mean**2
    a = radii[:, None, None] * directions
    counted = (np.square(np.maximum(a @ t.T, 0)) > np.sqrt(size) * squares).any(-1)
    weight = np.where(counted, np.exp(size * (free_energy(a) - free_energy(solution.bulk_readout))), 0).mean(
        1
    )
    mass = 4 * np.pi * (weight @ radii**2) * (radii[1] - radii[0])
    stiffness = np.eye(3) - np.einsum("c,cr,cq->rq", w * variance, t, t)
    return float(size * mass * np.sqrt(np.linalg.det(stiffness) * (size / (2 * np.pi)) ** 3))


def _own(solution):
    """Index of every class's outlier, and its preactivation on the class, each of shape (C,)."""
    validation.instance("solution", solution, relu.Solution, relu.FiniteSize, relu_squared.Solution)
    z = solution.outlier_preactivations
    if len(z) == 0 or np.any(z.max(0) <= 0):
        raise ValueError(f"solution: got {len(z)} outliers, needs one that is active on each class")
    own = z.argmax(0)
    return own, z[own].diagonal()
