r"""Linear networks at finite width, exactly: a chain of m × m Wishart matrices.

Let b^ℓ (N, m) be what multiplies z^ℓ from above, b^L = a, b^ℓ = W^{ℓ+1}ᵀ b^{ℓ+1}/√N, so that the outputs are
f = z^ℓᵀ b^ℓ/N at every layer. Given b^{ℓ+1} the rows of b^ℓ are Gaussian, so the Gram matrices
A_ℓ = b^ℓᵀ b^ℓ/N form a chain of Wishart draws, A_ℓ | A_{ℓ+1} with N degrees of freedom and mean A_{ℓ+1}, from
A_{L+1} = σ_a². The targets see its end alone: along eigenvector i of K0, with eigenvalue λ_i,

    f_i ~ N(0, λ_i A_1/N),   y_i − f_i ~ N(0, T/N).

In the layer above z^{ℓ−1} only the directions b^ℓ have learned, and these give f; the others are prior draws:

    ⟨K_ℓ⟩ = (1 − m/N) ⟨K_{ℓ−1}⟩ + ⟨f A_ℓ⁻¹ fᵀ⟩,   K_0 = XᵀX/N0.

All averages over the posterior of a network with any N, P and T are thus integrals over L m(m + 1)/2 numbers.
They are done by importance sampling around the mode. `linear.solve` is the limit of large N of this.

Source: this book's; the saddle point is paper A's, "Analog coding scheme".
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize
from scipy.stats import multivariate_t

from coding_schemes import validation
from coding_schemes.tasks import Task
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._tilted import normalized

DEGREES_OF_FREEDOM = 8  # of the proposal, a Student t: its tails are heavier than the posterior's


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Solved):
    """Posterior averages of a linear network of finite width.

    Attributes:
        grams: ⟨A_1⟩ … ⟨A_L⟩, shape (L, m, m).
        kernels: ⟨K_0⟩ … ⟨K_L⟩ on the training inputs, shape (L + 1, P, P).
        effective_draws: effective number of importance draws.
        residual: its inverse root, which averages err by, relative to the chain's own spread of O(1/√N).
        num_steps: of the search for the mode.
        converged: whether at least a tenth of the draws count.
    """

    grams: np.ndarray
    kernels: np.ndarray
    effective_draws: float
    approximation = "exact at finite N, but for the error of sampling"

    @property
    def readout_covariance(self) -> np.ndarray:
        """⟨aᵀa⟩/N = ⟨A_L⟩, shape (m, m)."""
        return self.grams[-1]


def solve(
    task: Task,
    depth: int,
    temperature: float,
    width: int,
    readout_variance: float | None = None,
    num_draws: int = 4_000,
    seed: int = 0,
) -> Solution:
    """Average over the posterior of a linear network at finite width.

    Args:
        task: any task.
        depth: L.
        temperature: T > 0, rescaled by N as in the posterior.
        width: N > m + 1.
        readout_variance: σ_a²; 1/P^{1/L} unless given.
        num_draws: importance draws.
        seed: of the draws.

    Raises:
        ValueError: depth < 1, T ≤ 0, or N too small for the Wishart density.
    """
    validation.instance("task", task, Task)
    num_targets = task.num_targets
    validation.counts(depth=depth, num_draws=num_draws)
    validation.positive(temperature=temperature, **validation.given(readout_variance=readout_variance))
    validation.count("width", width, num_targets + 2)  # the Wishart density needs N > m + 1
    validation.count("seed", seed, 0)
    variance = task.num_inputs ** (-1 / depth) if readout_variance is None else float(readout_variance)
    eigenvalues, basis = np.linalg.eigh(task.input_kernel)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    rotated = basis.T @ task.targets
    with jax.enable_x64(True):
        size = num_targets * (num_targets + 1) // 2
        given = jax.tree.map(jnp.asarray, (*_levels(eigenvalues, rotated), width, temperature, variance))
        start = np.tile(_pack(np.eye(num_targets) * variance**0.5), depth)
        found = minimize(_with_gradient, start, (given, depth), jac=True, method="BFGS")
        hessian = np.asarray(_hessian(jnp.asarray(found.x), given, depth))
        scale = np.linalg.inv(0.5 * (hessian + hessian.T))
        proposal = multivariate_t(found.x, scale, DEGREES_OF_FREEDOM, seed=seed)
        draws = proposal.rvs(num_draws)
        log_weights = -np.asarray(_of_each(jnp.asarray(draws), given, depth)) - proposal.logpdf(draws)
        factors = np.asarray(_unpack(jnp.asarray(draws).reshape(-1, depth, size)))
    _, weights = normalized(log_weights)
    effective = float(1 / np.square(weights).sum())
    grams = np.einsum("dlij,dlkj->dlik", factors, factors)
    kernels = _kernels(grams, weights, eigenvalues, rotated, temperature, width)
    solution = Solution(
        np.einsum("d,dlij->lij", weights, grams)[::-1],
        np.einsum("pi,lij,qj->lpq", basis, kernels, basis),
        effective,
        residual=effective**-0.5,
        num_steps=int(found.nit),
        converged=effective > 0.1 * num_draws,
    )
    return solution.reported("theory.wishart_chain.solve", f"{effective:.0f} of {num_draws} draws count")


def _levels(eigenvalues: np.ndarray, rotated: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """λ, how many directions share it, and Σ y yᵀ over these; as many levels as the next power of two.

    Unrelated inputs have one level, and tasks of about the same size run the same compiled program.
    """
    begins = np.diff(eigenvalues, prepend=-np.inf) > 1e-12 * eigenvalues[-1]
    counts = np.diff(np.append(np.flatnonzero(begins), len(eigenvalues)))
    squares = np.add.reduceat(rotated[:, :, None] * rotated[:, None, :], np.flatnonzero(begins))
    missing = (1 << (len(counts) - 1).bit_length()) - len(counts)
    pad = [(0, missing)]
    return np.pad(eigenvalues[begins], pad), np.pad(counts, pad), np.pad(squares, [*pad, (0, 0), (0, 0)])


def _negative(flat: Array, given, depth: int) -> Array:
    """Minus the log density of the chain A_L … A_1 in logarithmic Cholesky coordinates, all in one row."""
    eigenvalues, counts, squares, width, temperature, variance = given
    factors = _unpack(flat.reshape(depth, -1))
    m = factors.shape[-1]
    logs = jnp.log(jnp.diagonal(factors, axis1=-2, axis2=-1))  # (L, m)
    above = jnp.concatenate([jnp.sqrt(variance) * jnp.eye(m)[None], factors[:-1]])
    log_above = jnp.concatenate([jnp.full((1, m), 0.5 * jnp.log(variance)), logs[:-1]])
    whitened = jax.scipy.linalg.solve_triangular(above, factors, lower=True)
    chain = (width - m - 1) * logs.sum() - width * log_above.sum() - 0.5 * width * jnp.square(whitened).sum()
    jacobian = logs.sum(0) @ jnp.arange(
        m + 1.0, 1.0, -1.0
    )  # of A = C Cᵀ and of the logarithms on C's diagonal
    gram, ridge = factors[-1] @ factors[-1].T, temperature * jnp.eye(m)
    root = jnp.linalg.cholesky(eigenvalues[:, None, None] * gram[None] + ridge[None])
    scaled = jax.scipy.linalg.cho_solve((root, True), squares)
    fit = -0.5 * width * jnp.trace(scaled, axis1=1, axis2=2).sum()
    return -(chain + jacobian + fit - counts @ jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum(1))


_with_gradient = jax.jit(jax.value_and_grad(_negative), static_argnums=2)
_hessian = jax.jit(jax.hessian(_negative), static_argnums=2)


@partial(jax.jit, static_argnums=2)
def _of_each(rows: Array, given, depth: int) -> Array:
    return jax.lax.map(lambda flat: _negative(flat, given, depth), rows, batch_size=256)


def _kernels(grams, weights, eigenvalues, rotated, temperature, width):
    """⟨K_ℓ⟩ in the eigenbasis of K0, with f integrated out: its mean is a ridge fit, its scatter O(T/N)."""
    last = grams[:, -1]
    m = last.shape[-1]
    values, vectors = np.linalg.eigh(last)
    scaled = eigenvalues[:, None] * values[:, None, :]  # (draws, P, m)
    shrunk = scaled / (scaled + temperature)
    mean = np.einsum("dmk,dik,dnk,in->dim", vectors, shrunk, vectors, rotated, optimize=True)
    kernels = [np.diag(eigenvalues)]
    for layer in range(grams.shape[1] - 1, -1, -1):
        inverse = np.linalg.inv(grams[:, layer])
        along = np.einsum("dmk,dmn,dnk->dk", vectors, inverse, vectors)  # the scatter's part, on the diagonal
        scatter = temperature / width * np.einsum("d,dik,dk->i", weights, shrunk, along)
        learned = np.einsum("d,dim,dmn,djn->ij", weights, mean, inverse, mean, optimize=True)
        kernels.append((1 - m / width) * kernels[-1] + learned + np.diag(scatter))
    return np.stack(kernels)


def _pack(factor: np.ndarray) -> np.ndarray:
    """Lower triangle of a Cholesky factor, its diagonal as logarithms."""
    packed = factor + np.diag(np.log(np.diag(factor)) - np.diag(factor))
    return packed[np.tril_indices(len(factor))]


def _unpack(packed):
    """Cholesky factors from their packed triangles, shape (…, m, m)."""
    m = round((np.sqrt(8 * packed.shape[-1] + 1) - 1) / 2)
    factors = jnp.zeros((*packed.shape[:-1], m, m)).at[..., *np.tril_indices(m)].set(packed)
    return jnp.where(jnp.eye(m, dtype=bool), jnp.exp(factors), factors)
