r"""Single neurons in time, under Langevin dynamics: memory, variances on a branch, passes between codes.

The weights follow dw = −∇U dt + √2 dW with U of the posterior e^{−U}, so that times are those of unit
variance of the prior. A neuron moves in the mean field of the others, on the landscape of its free energy

    F(a) = −P E(a) = |a|²/(2σ_a²) − Σ_c n_c log ⟨e^{(a·t_c) φ(z)}⟩,   in units of kT.

Source: paper A, Discussion and Fig. 4, shows which neurons keep their codes; the formulas are the
book's own.
"""

from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from coding_schemes import barriers, networks, validation
from coding_schemes.tasks import Task
from coding_schemes.theory import linear, relu, sigmoidal
from coding_schemes.theory._tilted import Relu

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)

# --- linear -------------------------------------------------------------------------------------


def linear_memory(
    solution: linear.Solution, lags: np.ndarray, num_neurons: int | None = None, mobility: float = 1.0
) -> np.ndarray:
    r"""Autocorrelation of a linear neuron's readouts in the mean field of the others.

    Readout and activation of one neuron are driven by −M∇ of |ã|²/2 + |u|²/2 − ãᵀκu, with U = σ_a²/(1 − κ²)
    along each eigenvector and the mobilities M of the one and 1 of the other. At M = 1 there are two modes of
    rates 1 ∓ κ, of which the slow one holds (1 + κ)/2 of the variance.

    At N neurons the P m constraints aᵀz/N = y − T t take their part of every step: with J their derivatives
    and Π = 1 − Jᵀ(JJᵀ)⁻¹J, the slow mode p moves by ⟨(Πe_p)²⟩, and readouts, once stiff directions are at
    rest, by ⟨(Πe_a)²⟩. Of them (P − m) m hold outputs at zero and confine readouts, not activations, so that
    ⟨p²⟩ is larger by (P − m)/N than 1/(1 − κ). To order 1/N the slow rate and the first slope are

        (1 − κ_r) [1 − (1 + Σ_{s≠r} U_s/(U_r + U_s) + (P − m)/(P U_r))/N]   and
        σ_a²/U_r  [1 − (½ + Σ_{s≠r} U_s/(U_r + U_s) + (P − m)/(P U_r))/N] .

    Args:
        solution: of one hidden layer.
        lags: times t ≥ 0, shape (k,).
        num_neurons: N, for the rate with its 1/N; by itself N → ∞. The solution's own fields are taken as
            they are: of `linear.solve` with the same width.
        mobility: of readouts in units of hidden weights', for weights of prior variance one; 1/σ_a² for paper
            A's equation.

    Returns:
        The autocorrelation along each eigenvector of U in ascending order, 1 at t = 0, shape (m, k).

    Raises:
        ValueError: another solution, lags that are no finite numbers of at least 0, a mobility that is not
            positive, or N with another mobility than 1.
    """
    validation.instance("solution", solution, linear.Solution)
    if solution.depth != 1:
        raise ValueError(f"solution: got {solution.depth} hidden layers, the formula holds for one")
    lags = validation.array("lags", lags, "k")
    if lags.min() < 0:
        raise ValueError(f"lags: got {lags.min():g}, needs times of at least 0")
    validation.number("mobility", mobility, above=0)
    validation.counts(**validation.given(num_neurons=num_neurons))
    if num_neurons is not None and mobility != 1:
        raise ValueError(f"num_neurons: got {num_neurons} at a mobility of {mobility:g}; its 1/N needs 1")
    variances = np.linalg.eigvalsh(solution.readout_covariance)
    kappa = np.sqrt(1 - solution.readout_variance / variances)
    drift = np.array([[[mobility, -k * mobility**0.5], [-k * mobility**0.5, 1]] for k in kappa])
    rates, modes = np.linalg.eigh(drift)
    shares = modes[:, 0] ** 2 / rates
    shares /= shares.sum(1, keepdims=True)
    if num_neurons is not None:
        count, size = len(variances), solution.task.num_inputs
        pairs = variances / (variances + variances[:, None])  # one half for r itself
        lost = pairs.sum(1) + (size - count) / (size * variances)
        slope = (1 - kappa**2) * (1 - lost / num_neurons)
        rates[:, 0] *= 1 - (lost + 0.5) / num_neurons
        fast = (slope - rates[:, 0]) / (rates[:, 1] - rates[:, 0])
        shares = np.column_stack([1 - fast, fast])
    return np.einsum("rk,rkt->rt", shares, np.exp(-rates[:, :, None] * lags))


# --- sigmoidal ----------------------------------------------------------------------------------


def branch_variance(
    solution: sigmoidal.Solution, row: int, class_index: int, mean: float, step: float = 0.0
) -> float:
    """Variance in time of the preactivations on a branch, for a class on which φ has this mean.

    To order 1/N: the others answer to one neuron's φ, by exp(−½ g φ²) with g = aᵀ H⁻¹ a/N and H the
    covariance of the outputs of all others, T included; and readouts vary on their branch, by 1/P. Euler
    steps Δt add ½Δt, to first order whatever the stiffness Λ: (Λ − ½Δt Λ²)⁻¹ = Λ⁻¹ + ½Δt + O(Δt²).

    Args:
        solution: a scheme in equilibrium, N = P, of the nonlinearity "sigmoidal".
        row: of the solution: which branch.
        class_index: c.
        mean: ⟨φ⟩ on the class, between 0 and 1.
        step: Δt; 0 for exact dynamics.

    Returns:
        The variance of z; that of the prior is 1.

    Raises:
        ValueError: another solution or nonlinearity, no such row or class, a mean outside (0, 1), Δt < 0.
    """
    _sigmoidal(solution)
    validation.count("row", row, 0, len(solution.readouts) - 1)
    validation.count("class_index", class_index, 0, len(solution.dual_field) - 1)
    validation.number("mean", mean, above=0, below=1)
    validation.number("step", step, least=0)
    kept, c = solution.probabilities > 0.01, class_index
    readouts, t, counts = solution.mean_readouts, solution.dual_field, solution.problem.counts
    size, outer = counts.sum(), np.einsum("gi,gj->gij", readouts, readouts)
    spreads = np.array([[_tilted(a @ field).spread for field in t] for a in readouts])
    noise = solution.temperature * np.eye(t.shape[1])
    noise += np.einsum("g,g,gij->ij", solution.probabilities[kept], spreads[kept][:, c], outer[kept])
    g = readouts[row] @ np.linalg.solve(noise, readouts[row]) / size
    stiffness = size * np.eye(t.shape[1]) - np.einsum("c,ci,cj->ij", counts * spreads[row], t, t)
    found = _tilted(brentq(lambda s: _tilted(s, g).mean - mean, -60, 60), g)
    of_readouts = found.covariance**2 * float(t[c] @ np.linalg.solve(stiffness, t[c]))
    return found.variance + of_readouts + 0.5 * step


class _Tilted(NamedTuple):
    """Moments under N(z; 0, 1) exp(sφ(z) − gφ(z)²/2): mean and variance of φ, variance of z, covariance."""

    mean: float
    spread: float
    variance: float
    covariance: float


def _tilted(s: float, g: float = 0.0) -> _Tilted:
    phi = np.asarray(networks.nonlinearity("sigmoidal")(jnp.asarray(NODES)))
    density = NODE_WEIGHTS * np.exp(s * phi - g * phi**2 / 2)
    moments = np.cov(phi, NODES, aweights=density, ddof=0)
    return _Tilted(float(np.average(phi, weights=density)), moments[0, 0], moments[1, 1], moments[0, 1])


class Passes(NamedTuple):
    """Barriers between the codes of a sigmoidal layer.

    Attributes:
        codes: those that at least one neuron in a hundred has, shape (n, C).
        heights: free energy of the pass from code γ to γ′ above that of γ, in units of kT, shape (n, n).
    """

    codes: np.ndarray
    heights: np.ndarray

    @property
    def lowest(self) -> float:
        """The lowest of them; 0 with one code only."""
        off = self.heights[~np.eye(len(self.heights), dtype=bool)]
        return float(off.min()) if off.size else 0.0


def passes(solution: sigmoidal.Solution) -> Passes:
    """Passes of F(a) between all codes that at least one neuron in a hundred has, by the string method.

    Args:
        solution: an unrestricted scheme of the nonlinearity "sigmoidal".

    Returns:
        Passes, ordered like the solution's rows.

    Raises:
        ValueError: another solution, a restricted one, or one of another nonlinearity.
    """
    _sigmoidal(solution)
    kept = solution.probabilities > 0.01
    readouts, problem = solution.readouts[kept], solution.problem
    heights = np.zeros((len(readouts), len(readouts)))
    for i, j in combinations(range(len(readouts)), 2):
        parameters = solution.dual_field, problem.counts, problem.readout_variance
        path = barriers.minimum_energy_path(
            _free_energy,
            (readouts[i], readouts[j]),
            *parameters,
            step_size=0.1 * problem.readout_variance,
            num_images=31,
            num_steps=2000,
        )
        heights[i, j] = path.barrier
        heights[j, i] = replace(path, energies=path.energies[::-1]).barrier
    return Passes(solution.codes[kept], heights)


def _free_energy(readout, field, counts, variance):
    """F(a) of one sigmoidal neuron's readout."""
    log_prior = np.log(NODE_WEIGHTS / NODE_WEIGHTS.sum())
    values = networks.nonlinearity("sigmoidal")(jnp.asarray(NODES))
    tilted = jax.scipy.special.logsumexp((field @ readout)[:, None] * values[None] + log_prior[None], axis=1)
    return 0.5 * jnp.sum(readout**2) / variance - counts @ tilted


def _sigmoidal(solution):
    sigmoidal._require_equilibrium(solution)
    if solution.problem.nonlinearity != "sigmoidal":
        got = validation.shown(solution.problem.nonlinearity)
        raise ValueError(f"solution: got the nonlinearity {got}, needs 'sigmoidal'")


# --- relu ---------------------------------------------------------------------------------------


class OutlierVariances(NamedTuple):
    """Variance in time of outliers' preactivations on their classes, for each pair of both, shape (k,).

    Attributes:
        infinite: at N → ∞, where only noise around the class mean is left.
        noise: the same at finite N, where the bulk's readouts scatter.
        total: and with the exchange of strength between readout and preactivation, 1/(4 n_c).
        stepped: the total as Euler steps of length Δt make it.
    """

    infinite: np.ndarray
    noise: np.ndarray
    total: np.ndarray
    stepped: np.ndarray


def outlier_variances(
    task: Task, temperature: float, num_neurons: int, step: float = 0.0
) -> OutlierVariances:
    """Variances in time of ReLU outliers.

    The output of an outlier does not change when its readout grows by e^ε and its preactivations shrink by
    e^−ε. The priors hold ε with the energy 2 n_c N z̄² ε², so that the class mean breathes with 1/(4 n_c).

    Args:
        task: a toy task whose outliers answer to one class each.
        temperature: T > 0.
        num_neurons: N.
        step: Δt of Euler steps; 0 for exact dynamics.

    Returns:
        OutlierVariances, in the order of the solution's outliers and their classes.

    Raises:
        ValueError: as `relu.solve` and `relu.finite_size`, T = 0 or Δt < 0.
    """
    validation.instance("task", task, Task)
    validation.number("temperature", temperature, above=0)
    validation.count("num_neurons", num_neurons)
    validation.number("step", step, least=0)
    limit = relu.solve(task, temperature)
    finite = relu.finite_size(limit, num_neurons)
    rows = []
    for i, c in np.argwhere(finite.codes):
        values = []
        for theory, scatter in ((limit, 0.0), (finite, finite.bulk_readout_covariance)):
            b, t = theory.bulk_readout, theory.dual_field[c]
            moment, spread = np.outer(b, b) + scatter, float(Relu().cumulants(t @ b)[2])
            values.append(
                [_noise(theory.outlier_readouts[i], moment, spread, temperature, at) for at in (0.0, step)]
            )
        noise = finite.outlier_preactivation_variances[i, c]
        breathing = 1 / (4 * task.class_counts[c])
        stepped = noise * values[1][1] / values[1][0] + breathing
        rows.append([values[0][0], noise, noise + breathing, stepped])
    return OutlierVariances(*np.transpose(rows))


def _noise(readout: np.ndarray, bulk: np.ndarray, spread: float, temperature: float, step: float) -> float:
    """Variance of an outlier's z around its class mean, given ⟨b bᵀ⟩ of the bulk and its variance of φ.

    The training error holds ā z + (the bulk's φ a) to within T: with x = (z, the bulk's part in units of its
    own spread) the energy is ½ xᵀΛx, Λ = 1 + GᵀG/T. Euler steps Δt turn Λ⁻¹ into (Λ − ½Δt Λ²)⁻¹.
    """
    values, vectors = np.linalg.eigh(bulk * spread)
    root = np.column_stack([readout, vectors * np.sqrt(np.maximum(values, 0))])
    stiffness = np.eye(root.shape[1]) + root.T @ root / temperature
    return float(np.linalg.inv(stiffness - 0.5 * step * stiffness @ stiffness)[0, 0])
