"""Fully connected networks: nonlinearities, the two readout scalings, forward pass and kernels.

    f_r(x) = s Σ_i a_i^r φ(z_i^L(x)),   z¹ = W¹ x / √N0,   z^ℓ = W^ℓ φ(z^{ℓ−1}) / √N,

with s = 1/N (non-lazy) or 1/√N (lazy). Preactivations have shape (N, P): neurons first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import erf

from coding_schemes import validation

Nonlinearity = Callable[[Array], Array]


def sigmoidal(z: Array) -> Array:
    """φ(z) = ½ [1 + erf(√π z / 2)], with slope ½ at the origin (paper A)."""
    return 0.5 * (1 + erf(0.5 * math.sqrt(math.pi) * z))


def relu_squared(z: Array) -> Array:
    """φ(z) = max(0, z)², positively homogeneous of degree 2 (paper A, supplement E)."""
    return jnp.square(jax.nn.relu(z))


def linear(z: Array) -> Array:
    """φ(z) = z."""
    return z


NONLINEARITIES: dict[str, Nonlinearity] = {
    "linear": linear,
    "sigmoidal": sigmoidal,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "relu_squared": relu_squared,
    "erf": erf,
    "tanh": jnp.tanh,
}


def nonlinearity(name_or_function: str | Nonlinearity) -> Nonlinearity:
    """The elementwise function behind a name; a function of your own passes through, checked.

    Args:
        name_or_function: a key of NONLINEARITIES, or an elementwise JAX function.

    Raises:
        ValueError: the name is unknown, or the function is not elementwise.
    """
    if isinstance(name_or_function, str):
        if name_or_function not in NONLINEARITIES:
            raise ValueError(
                f"nonlinearity: got {name_or_function!r}, allowed are {sorted(NONLINEARITIES)} "
                "or an elementwise JAX function"
            )
        return NONLINEARITIES[name_or_function]
    _check_elementwise(name_or_function)
    return name_or_function


# Both signs, from where a kink is still sharp to where a bounded function has saturated
_PROBE = np.concatenate([[0.0], np.outer([-1, 1], np.logspace(-4, 4, 33)).ravel()])


def canonical(name_or_function: str | Nonlinearity) -> str | Nonlinearity:
    """The name of a nonlinearity that is one of NONLINEARITIES, however it is written; others as they came.

    `jax.nn.relu` and `lambda z: jnp.maximum(z, 0)` are "relu": functions are compared by their values, in
    double precision, so that what is known of a named nonlinearity holds for every way to write it.
    Argument and errors are those of `nonlinearity`.
    """
    nonlinearity(name_or_function)
    return name_or_function if isinstance(name_or_function, str) else _name(name_or_function)


def _probed(phi: Nonlinearity, factor: float = 1) -> np.ndarray:
    """Values at the probe's points times a factor, in double precision."""
    with jax.enable_x64(True), jax.core.eval_context():
        return np.asarray(phi(jnp.asarray(factor * _PROBE)))


@lru_cache(maxsize=64)
def _name(phi: Nonlinearity) -> str | Nonlinearity:
    values = _probed(phi)
    finite = np.isfinite(values)  # log(1 + eᶻ) is softplus, although eᶻ overflows
    if not finite[np.abs(_PROBE) <= 100].all():
        return phi
    for name, known in NONLINEARITIES.items():
        if np.allclose(values[finite], _probed(known)[finite], rtol=1e-9, atol=1e-12):
            return name
    return phi


def is_bounded(phi: Nonlinearity) -> bool:
    """Whether |φ| grows no more beyond |z| = 100, but by half (decides the readout variance's scaling)."""
    size = np.abs(_probed(phi))
    return bool(np.all(size <= 1.5 * size[np.abs(_PROBE) <= 100].max()))


@lru_cache(maxsize=64)
def homogeneity(phi: Nonlinearity) -> float | None:
    """Degree k of a positively homogeneous nonlinearity, φ(λz) = λᵏ φ(z) for all λ > 0; None for others.

    k is a whole number where it is one to rounding.
    """
    values, doubled, tripled = (_probed(phi, factor) for factor in (1, 2, 3))
    if not np.isfinite([values, doubled, tripled]).all():
        return None
    largest = np.argmax(np.abs(values))
    ratio = doubled[largest] / values[largest] if values[largest] != 0 else 0.0
    if not ratio > 0:
        return None
    degree = float(np.log2(ratio))
    scaled = ((2, doubled), (3, tripled))
    if not all(np.allclose(other, f**degree * values, rtol=1e-9, atol=1e-12) for f, other in scaled):
        return None
    return round(degree) if abs(degree - round(degree)) < 1e-9 else degree


@lru_cache(maxsize=64)
def middle(phi: Nonlinearity) -> float | None:
    """φ(0) of a nonlinearity that is symmetric about this point, φ(z) + φ(−z) = 2φ(0); None for others."""
    values, mirrored = _probed(phi), _probed(phi, -1)
    finite = np.isfinite(values) & np.isfinite(mirrored)  # sinh overflows
    if not finite[np.abs(_PROBE) <= 100].all():
        return None
    symmetric = np.allclose(values[finite] + mirrored[finite], 2 * values[0], rtol=1e-9, atol=1e-9)
    return float(values[0]) if symmetric else None


@lru_cache(maxsize=64)
def _stretched(phi: Nonlinearity, factor: float) -> Nonlinearity:
    """The function φ(σz), one and the same for the same σ."""

    def stretched(z):
        return phi(factor * z)

    stretched.__name__ = stretched.__qualname__ = f"{getattr(phi, '__name__', 'phi')}({factor:g} z)"
    return stretched


@dataclass(frozen=True)
class Network:
    """Architecture of a fully connected network.

    Hidden weights of prior variances σ_ℓ² are kept as σ_ℓ times weights of unit variance, which every sampler
    and theory is for. With preactivations in units of σ_ℓ only φ(σ_ℓ z) changes; where φ(λz) = λᵏφ(z) not
    even that, but readouts are multiplied by the `gain` Π_ℓ σ_ℓ^{k^(L−ℓ+1)}, their variance by its square.
    Outputs and codes are the network's; preactivations are in units of σ_ℓ, kernels those of `phi`.

    Args:
        depth: number of hidden layers, L ≥ 1.
        width: neurons per hidden layer, N ≥ 1.
        nonlinearity: a name from NONLINEARITIES or an elementwise JAX function; one that is a named
            nonlinearity is kept under its name (see `canonical`).
        scaling: "non-lazy" reads out with 1/N, "lazy" with 1/√N.
        weight_std: σ_ℓ > 0, one for all hidden layers or, where φ is homogeneous, L of them; for other φ it
            goes into `nonlinearity`, and is 1 afterwards.

    Raises:
        ValueError: any of these is out of range, or σ_ℓ differ and φ is not homogeneous.

    >>> Network(depth=2, width=100, nonlinearity=lambda z: jnp.maximum(z, 0))
    Network(depth=2, width=100, nonlinearity='relu', scaling='non-lazy', weight_std=1.0)
    >>> Network(depth=2, nonlinearity="relu", weight_std=(2.0, 1.5)).gain
    3.0
    >>> Network(nonlinearity="sigmoid")
    Traceback (most recent call last):
    ValueError: nonlinearity: got 'sigmoid', allowed are [...] or an elementwise JAX function
    """

    depth: int = 1
    width: int = 500
    nonlinearity: str | Nonlinearity = "linear"
    scaling: str = "non-lazy"
    weight_std: float | tuple[float, ...] = 1.0

    def __post_init__(self):
        validation.counts(depth=self.depth, width=self.width)
        validation.choice("scaling", self.scaling, ("lazy", "non-lazy"))
        phi, each = canonical(self.nonlinearity), self._weight_stds()
        std: float | tuple[float, ...] = each[0] if len(set(each)) == 1 else each
        if std != 1 and not homogeneity(nonlinearity(phi)):
            if isinstance(std, tuple):
                raise ValueError(
                    f"weight_std: got {std} for {phi!r}; layers may differ only where φ(λz) = λᵏφ(z), as one "
                    "function φ(σz) serves all of them"
                )
            phi, std = canonical(_stretched(nonlinearity(phi), std)), 1.0
        object.__setattr__(self, "nonlinearity", phi)
        object.__setattr__(self, "weight_std", std)

    def _weight_stds(self) -> tuple[float, ...]:
        """σ_1 … σ_L."""
        given = self.weight_std if isinstance(self.weight_std, tuple | list) else (self.weight_std,)
        each = tuple(validation.number("weight_std", std, above=0) for std in given)
        if len(each) not in (1, self.depth):
            raise ValueError(f"weight_std: got {len(each)} numbers, needs one or one per layer, {self.depth}")
        return each * (self.depth // len(each))

    @property
    def gain(self) -> float:
        """Π_ℓ σ_ℓ^{k^(L−ℓ+1)}, which a homogeneous φ of degree k passes on to the readouts; 1 for others."""
        if self.weight_std == 1:
            return 1.0
        k, powers = homogeneity(self.phi) or 0, range(self.depth, 0, -1)
        return math.prod(std ** (k**n) for std, n in zip(self._weight_stds(), powers))

    def check_unit_weights(self) -> None:
        """Raise ValueError where a richness γ0 stands for the prior variance of the readouts."""
        if self.gain != 1:
            got = f"got weight_std {self.weight_std}, needs 1"
            raise ValueError(f"network: {got}; divide the richness γ0 by the gain instead")

    @property
    def phi(self) -> Nonlinearity:
        """The nonlinearity φ as a function."""
        if isinstance(self.nonlinearity, str):
            return NONLINEARITIES[self.nonlinearity]
        return self.nonlinearity

    @property
    def readout_scale(self) -> float:
        """1/N (non-lazy) or 1/√N (lazy)."""
        return 1 / self.width if self.scaling == "non-lazy" else 1 / self.width**0.5

    def preactivations(self, first: Array, hidden: tuple[Array, ...]) -> tuple[Array, ...]:
        """All layers' preactivations z¹ … z^L, each (N, P), from the first layer's and W² … W^L."""
        layers = [first]
        for weights in hidden:
            layers.append(weights @ self.phi(layers[-1]) / self.width**0.5)
        return tuple(layers)

    def outputs(self, feature_preactivations: Array, readouts: Array) -> Array:
        """Outputs f = s φ(z^L)ᵀ a, shape (P, m), for z^L of shape (N, P) and a of shape (N, m)."""
        # aᵀφ rather than φᵀa: the same numbers, and BLAS reads φ in storage order (ten times faster)
        return self.readout_scale * (readouts.T @ self.phi(feature_preactivations)).T

    def kernel(self, preactivations: Array) -> Array:
        """K = φ(z)ᵀ φ(z) / N for preactivations of shape (N, P): a (P, P) matrix."""
        activations = self.phi(preactivations)
        return activations.T @ activations / activations.shape[0]


def _check_elementwise(phi: Nonlinearity) -> None:
    probe = np.array([-1.3, 0.2, 0.9])
    try:
        with jax.core.eval_context():
            whole = np.asarray(phi(jnp.asarray(probe)))
            alone = np.array([np.asarray(phi(jnp.asarray(probe[i : i + 1])))[0] for i in range(len(probe))])
    except Exception as error:
        raise ValueError(f"nonlinearity: {phi} failed on a vector of three numbers: {error}") from error
    if whole.shape != probe.shape or not np.allclose(whole, alone, rtol=1e-5):
        raise ValueError(
            f"nonlinearity: {phi} is not elementwise; give a function that acts on every entry alone"
        )
    if not np.all(np.isfinite(whole)):
        raise ValueError(f"nonlinearity: {phi} gives NaN or infinite values at {probe}")
