r"""What one first-layer neuron shows of its inputs: dense, convolutional and pooled, behind one function.

A neuron with weights w sees A' patches of every input, x_{μa} ∈ R^d (a dense one the whole input: A' = 1),

    h_{μa} = w·x_{μa}/√d,    F_{aμ}(w) = φ(h_{μa})/√A      (a readout per position, A = A'),
                             F_{0μ}(w) = Σ_a φ(h_{μa})/A'   (pooled, A = 1),

so that the network is f(x_μ) = (1/(γ0 N)) Σ_i Σ_a w_ia F_{aμ}(i) and its kernel Φ = Σ_a ⟨F_a F_aᵀ⟩. Only the
projection u ∈ R^r of w on the span of the training patches meets the data; it has the prior N(0, 1), and
h_{μa} = R_{aμ}·u. On new inputs h = M u + C ξ with ξ ~ N(0, 1), as training leaves the rest of w alone.

Source: paper B, Eqs. 54–58; that the 1/√A goes with the readouts is this book's choice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import erf
from jax.scipy.stats import norm

from coding_schemes import networks, validation
from coding_schemes.networks import Nonlinearity
from coding_schemes.tasks import Task

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


class NewInputs(NamedTuple):
    """New inputs as neurons see them: h_{aμ} = M_{aμ}·u + C_{aμ}·ξ.

    Attributes:
        projection: M, shape (A', P*, r).
        noise_root: C, shape (A', P*, q).
    """

    projection: np.ndarray
    noise_root: np.ndarray


@dataclass(frozen=True, eq=False)
class Features:
    """F(u) of the module docstring on a task's training inputs.

    Attributes:
        task: gives the inputs.
        root: R, shape (A', P, r).
        basis: orthonormal directions of the patches' span, shape (r, d).
        patches: function from inputs (N0, P*) to patches x_{μa}/√d, shape (A', P*, d).
        phi: the nonlinearity.
        pooled: one readout for the mean over positions, rather than one per position.
    """

    task: Task
    root: np.ndarray
    basis: np.ndarray
    patches: Callable[[np.ndarray], np.ndarray]
    phi: Nonlinearity
    pooled: bool = False

    @property
    def rank(self) -> int:
        """r, the dimension of u."""
        return self.root.shape[-1]

    def __call__(self, u: Array) -> Array:
        """F of neurons u (n, r), shape (n, A, P)."""
        return responses(u, jnp.asarray(self.root, u.dtype), self.phi, self.pooled)

    def on(self, inputs: np.ndarray) -> NewInputs:
        """New inputs (N0, P*), prepared.

        Raises:
            ValueError: they have another dimension than the task's.
        """
        inputs = validation.array("inputs", inputs, "N0, P*", N0=self.task.input_dim)
        patches = self.patches(inputs)
        projection = patches @ self.basis.T
        rest = patches - projection @ self.basis
        flat = rest.reshape(-1, rest.shape[-1])
        if len(flat) < flat.shape[1]:
            flat = np.asarray(np.linalg.qr(flat.T, mode="r")).T
        return NewInputs(projection, flat.reshape(*rest.shape[:2], -1))


def dense(task: Task, nonlinearity: str | Nonlinearity) -> Features:
    """Neurons that see the whole input, A = 1 and R Rᵀ = K0; the nonlinearity is as for networks.Network."""
    validation.instance("task", task, Task)

    def patches(inputs):
        return inputs.T[None] / math.sqrt(len(inputs))

    return _features(task, patches, networks.nonlinearity(nonlinearity), False)


def convolution(
    task: Task,
    nonlinearity: str | Nonlinearity,
    image_shape: tuple[int, int, int] = (32, 32, 3),
    kernel_size: int = 8,
    stride: int = 8,
    pooled: bool = False,
) -> Features:
    """Neurons that slide over an image, without padding.

    Args:
        task: its inputs are images, rows of pixels one after the other and colors within a pixel.
        nonlinearity: as for networks.Network.
        image_shape: height, width and colors.
        kernel_size: k, patches are k × k pixels of all colors, d = k² · colors.
        stride: pixels from one patch to the next.
        pooled: one readout for the mean over positions, rather than one per position.

    Raises:
        ValueError: the image's shape does not fit the inputs, or no patch fits into it.
    """
    validation.instance("task", task, Task)
    height, width, colors = validation.array("image_shape", image_shape, "3").astype(int).tolist()
    if height * width * colors != task.input_dim:
        raise ValueError(f"image_shape: got {image_shape}, but the inputs have dimension {task.input_dim}")
    validation.count("kernel_size", kernel_size, most=min(height, width))
    validation.counts(stride=stride)

    def patches(inputs):
        images = inputs.T.reshape(-1, height, width, colors)
        windows = np.lib.stride_tricks.sliding_window_view(images, (kernel_size, kernel_size), axis=(1, 2))
        windows = windows[:, ::stride, ::stride]  # (P, rows, columns, colors, k, k)
        flat = windows.reshape(len(images), -1, colors * kernel_size**2)
        return np.swapaxes(flat, 0, 1) / math.sqrt(flat.shape[-1])

    return _features(task, patches, networks.nonlinearity(nonlinearity), pooled)


def responses(u: Array, root: Array, phi: Nonlinearity, pooled: bool) -> Array:
    """F of neurons u (n, r) for R (A', P, r), shape (n, A, P)."""
    return gather(phi(preactivations(u, root)), pooled)


def preactivations(u: Array, root: Array) -> Array:
    """Preactivations R u of neurons u (n, r), shape (n, A', P)."""
    return (u @ root.reshape(-1, root.shape[-1]).T).reshape(len(u), *root.shape[:2])


def gather(activations: Array, pooled: bool) -> Array:
    """From φ(h), shape (n, A', P), to F, shape (n, A, P)."""
    if activations.shape[1] == 1:
        return activations
    if pooled:
        return activations.mean(axis=1, keepdims=True)
    return activations / math.sqrt(activations.shape[1])


def averaged(phi: Nonlinearity, mean: Array, std: Array) -> Array:
    """E φ(mean + std ξ), ξ ~ N(0, 1): in closed form where there is one, else by Gauss–Hermite."""
    if phi is networks.linear:
        return mean
    if phi is jax.nn.relu:
        ratio = mean / jnp.maximum(std, 1e-12)
        return jnp.where(std > 1e-12, mean * norm.cdf(ratio) + std * norm.pdf(ratio), phi(mean))
    if phi is erf:
        return erf(mean / jnp.sqrt(1 + 2 * std**2))
    if phi is networks.sigmoidal:
        return networks.sigmoidal(mean / jnp.sqrt(1 + 0.5 * math.pi * std**2))
    nodes = jnp.asarray(_NODES, mean.dtype).reshape((1,) * mean.ndim + (-1,))
    return phi(mean[..., None] + std[..., None] * nodes) @ jnp.asarray(_WEIGHTS / _WEIGHTS.sum(), mean.dtype)


def _features(task, patches, phi, pooled) -> Features:
    scaled = patches(np.asarray(task.inputs, dtype=float))
    flat = scaled.reshape(-1, scaled.shape[-1])
    _, singular, right = np.linalg.svd(flat, full_matrices=False)
    rank = int(np.sum(singular > singular[0] * max(flat.shape) * np.finfo(float).eps))
    return Features(task, scaled @ right[:rank].T, right[:rank], patches, phi, pooled)
