r"""Adaptive kernels to second order in the richness: what features do first when they start to move.

    Φ^ℓ = Φ0^ℓ + γ0² Φ1^ℓ + O(γ0⁴),   Φ̂^ℓ = γ0² Φ̂1^ℓ + O(γ0⁴),   v = v0 + γ0² v1 + O(γ0⁴),

    v0 = A Y,  A = (Φ0^L + 1/β)⁻¹,     Φ̂1^L = v0 v0ᵀ,     Φ̂1^{ℓ−1} = J_ℓ*[Φ̂1^ℓ],
    Φ1^ℓ = J_ℓ[Φ1^{ℓ−1}] + ½ Cov_0(φφᵀ, φᵀΦ̂1^ℓφ),   Φ1^0 = 0,     v1 = −A Φ1^L v0,
    f(x) = k0(x)ᵀv0 + γ0² [k1(x)ᵀv0 + k0(x)ᵀv1],

with J_ℓ = dΦ0^ℓ/dΦ0^{ℓ−1} the derivative of the prior's kernel map, taken by jvp, and J* its adjoint, by vjp.

Source: paper B, Eqs. 45–53.
"""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes import networks, validation
from coding_schemes.networks import Network
from coding_schemes.tasks import Task
from coding_schemes.theory import _deep_population

MAX_LATTICE = 3  # inputs up to which the fourth moments are integrated rather than drawn
NUM_DRAWS = 2**17


@dataclass(frozen=True, eq=False)
class Expansion:
    """Coefficients of the expansion.

    Attributes:
        task: what is learned.
        network: depth and nonlinearity.
        ridge: 1/β.
        kernels: Φ0^1 … Φ0^L, shape (L, P, P).
        kernel_changes: Φ1^1 … Φ1^L, shape (L, P, P).
        dual_changes: Φ̂1^1 … Φ̂1^L, shape (L, P, P).
        dual_field: v0, shape (P, m).
        dual_field_change: v1, shape (P, m).
    """

    task: Task
    network: Network
    ridge: float
    kernels: np.ndarray
    kernel_changes: np.ndarray
    dual_changes: np.ndarray
    dual_field: np.ndarray
    dual_field_change: np.ndarray

    def predict(self, inputs: np.ndarray, richness: float) -> np.ndarray:
        """Predictor to second order in γ0 on inputs (N0, P*), shape (P*, m)."""
        both = np.concatenate([self.task.inputs, np.asarray(inputs, dtype=float)], axis=1)
        kernels, changes, _, _ = _orders(both, self.task.targets, self.network, self.ridge)
        num = self.task.num_inputs
        rows, moved = kernels[-1][num:, :num], changes[-1][num:, :num]
        lazy = rows @ self.dual_field
        return lazy + richness**2 * (moved @ self.dual_field + rows @ self.dual_field_change)


def expansion(task: Task, network: Network, ridge: float) -> Expansion:
    """Kernels, duals and predictor to second order in γ0.

    Fourth moments are integrated on a lattice for P ≤ 3 and drawn (with one fixed key) beyond. The small
    number is γ0² tr YᵀA Y rather than γ0².

    Args:
        task: any task.
        network: depth and nonlinearity: linear, erf, sigmoidal or relu.
        ridge: 1/β > 0.

    Raises:
        ValueError: 1/β ≤ 0, or no closed form of the kernel map is known for φ.

    Source: paper B, Eqs. 45–53.
    """
    network.check_unit_weights()
    validation.positive(ridge=ridge)
    kernels, changes, duals, field = _orders(task.inputs, task.targets, network, ridge)
    change = -np.linalg.solve(kernels[-1] + ridge * np.eye(task.num_inputs), changes[-1] @ field)
    return Expansion(task, network, ridge, kernels, changes, duals, field, change)


def _orders(inputs, targets, network, ridge):
    """Φ0, Φ1 on all inputs, Φ̂1 and v0 on the first P of them, which are those with targets."""
    with jax.enable_x64(True):
        data = (jnp.asarray(inputs, jnp.float64), jnp.asarray(targets, jnp.float64), jnp.float64(ridge))
        kernels, duals, field = _lazy_order(*data, network.phi, network.depth)
        num, total = len(targets), inputs.shape[1]
        change, changes = jnp.zeros_like(kernels[0]), []
        for below, dual in zip(kernels, duals):
            padded = np.zeros((total, total))
            padded[:num, :num] = dual
            change = _pushed(below, change, network.phi) + 0.5 * _covariance(below, padded, network.phi)
            changes.append(change)
        stacked = (np.stack([np.asarray(a) for a in part]) for part in (kernels[1:], changes, duals))
        return *stacked, np.asarray(field)


@partial(jax.jit, static_argnums=(3, 4))
def _lazy_order(inputs, targets, ridge, phi, depth):
    """Φ0^0 … Φ0^L on all inputs, Φ̂1 and v0 on those with targets."""
    layer_map, num = _kernel_map(phi), len(targets)
    kernels = [inputs.T @ inputs / len(inputs)]
    for _ in range(depth):
        kernels.append(layer_map(kernels[-1]))
    train = [k[:num, :num] for k in kernels]
    field = jnp.linalg.solve(train[-1] + ridge * jnp.eye(num), targets)
    duals = [field @ field.T]
    for below in train[-2:0:-1]:
        pulled = jax.vjp(layer_map, below)[1](duals[0])[0]
        duals.insert(0, 0.5 * (pulled + pulled.T))
    return kernels, duals, field


@partial(jax.jit, static_argnums=2)
def _pushed(below, change, phi):
    """J[change], by jvp."""
    return jax.jvp(_kernel_map(phi), (below,), (change,))[1]


def _covariance(kernel, dual, phi) -> np.ndarray:
    """Cov(φφᵀ, φᵀΦ̂φ) for h ~ N(0, kernel)."""
    values, vectors = np.linalg.eigh(kernel)
    root = vectors * np.sqrt(np.maximum(values, 0))
    if len(values) <= MAX_LATTICE:
        points, log_prior = map(np.asarray, _deep_population.lattice(len(values)))
        weights = np.exp(log_prior) / np.exp(log_prior).sum()
    else:
        half = np.random.default_rng(0).standard_normal((NUM_DRAWS // 2, len(values)))
        points = np.concatenate([half, -half])
        weights = np.full(len(points), 1 / len(points))
    activations = np.asarray(phi(jnp.asarray(points @ root.T)))
    tilt = np.sum(activations * (activations @ np.asarray(dual)), axis=1)
    return (activations * (weights * (tilt - weights @ tilt))[:, None]).T @ activations


def _kernel_map(phi):
    """The prior's kernel map as a JAX function of the kernel below, with derivatives on its diagonal."""

    def linear(kernel):
        return kernel

    def erf(kernel):
        norm = 1 + 2 * jnp.diag(kernel)
        return 2 / math.pi * jnp.arcsin(2 * kernel / jnp.sqrt(jnp.outer(norm, norm)))

    def sigmoidal(kernel):
        norm = 2 + math.pi * jnp.diag(kernel)
        return 0.25 + jnp.arcsin(math.pi * kernel / jnp.sqrt(jnp.outer(norm, norm))) / (2 * math.pi)

    def relu(kernel):
        own = jnp.eye(len(kernel), dtype=bool)
        norm = jnp.sqrt(jnp.outer(jnp.diag(kernel), jnp.diag(kernel)))
        cosine = jnp.where(own, 0.0, kernel) / norm  # the angle has no derivative at 0: the diagonal apart
        angle = jnp.arccos(cosine)
        off = norm / (2 * math.pi) * (jnp.sin(angle) + (math.pi - angle) * cosine)
        return jnp.where(own, 0.5 * kernel, off)

    known = {
        networks.linear: linear,
        networks.NONLINEARITIES["erf"]: erf,
        networks.sigmoidal: sigmoidal,
        jax.nn.relu: relu,
    }
    if phi not in known:
        raise ValueError(
            f"network: got φ = {networks.canonical(phi)}, needs linear, erf, sigmoidal or relu, whose kernel "
            "is known in closed form; use adaptive_kernel.solve at small γ0"
        )
    return known[phi]
