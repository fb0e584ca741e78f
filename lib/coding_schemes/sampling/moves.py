r"""Posterior-invariant moves for what local dynamics cannot do.

A move maps (key, weights, posterior) to (weights, acceptance probability) and leaves the posterior
e^{−U} invariant; `sample(..., moves=...)` makes them after every transition, each from a key of its own name.
All work on one chain and are vmapped over chains.
"""

import hashlib
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from coding_schemes import validation
from coding_schemes.networks import homogeneity, is_bounded, middle
from coding_schemes.posterior import Posterior, Weights, normal, uniform
from coding_schemes.sampling import recoding


def gibbs(
    key: Array, weights: Weights, posterior: Posterior, inverse: Array | None = None
) -> tuple[Weights, Array]:
    r"""Exact draw of all readouts given the features.

    With Φ = φ(z^L), A = √β s σ_a Φ (N, P), β the likelihood precision and s the readout scale, the
    energy is ½‖√β Y − Aᵀã‖² + ½‖ã‖², so every column of ã is Gaussian:

        ã ~ N(Λ⁻¹ A √β Y, Λ⁻¹),   Λ = 1 + AAᵀ  (N, N).

    N ≤ P: with Λ = CCᵀ, ã = C⁻ᵀ(C⁻¹A√βY + ξ). P < N: draw ã₀ ~ N(0, 1), ε ~ N(0, 1) and correct,
    ã = ã₀ + A(1 + AᵀA)⁻¹(√βY − Aᵀã₀ − ε), which has this mean and covariance (Matheron's rule) and
    factorizes a (P, P) matrix only, and none where `inverse` is its inverse. A conditional draw is always
    accepted. Solved in float64 where JAX has it enabled: Λ's condition number is O(1/T).
    """
    accurate = jnp.result_type(float)
    features = posterior.network.phi(posterior.preactivations(weights)[-1]).astype(accurate)
    root = jnp.sqrt(posterior.likelihood_precision).astype(accurate)
    design = (root * posterior.network.readout_scale * posterior.readout_std).astype(accurate) * features
    data = root * posterior.targets.astype(accurate)
    shape = weights.readout.shape
    if inverse is None and shape[0] <= data.shape[0]:
        factor = jnp.linalg.cholesky(jnp.eye(shape[0], dtype=accurate) + design @ design.T)
        half = solve_triangular(factor, design @ data, lower=True) + normal(key, shape, accurate)
        readout = solve_triangular(factor.T, half, lower=False)
    else:
        first, second = jax.random.split(key)
        start = normal(first, shape, accurate)
        mismatch = data - design.T @ start - normal(second, data.shape, accurate)
        if inverse is None:
            factor = jnp.linalg.cholesky(jnp.eye(data.shape[0], dtype=accurate) + design.T @ design)
            solved = cho_solve((factor, True), mismatch)
        else:
            solved = inverse @ mismatch
        readout = start + design @ solved
    return weights._replace(readout=readout.astype(posterior.dtype)), jnp.ones(())


def scale(key: Array, weights: Weights, posterior: Posterior) -> tuple[Weights, Array]:
    r"""Rescale every neuron's incoming weights by 1/λ and its outgoing ones by λᵏ, layer by layer.

    For φ homogeneous of degree k this leaves the outputs as they are, so a neuron with n incoming
    weights w and m' outgoing weights v is accepted on its own, with its prior and the Jacobian
    λ^{km' − n} of (w, v) → (w/λ, λᵏv):

        log α = (km' − n) log λ − ½(λ^{−2} − 1)‖w‖² − ½(λ^{2k} − 1)‖v‖²,

    log λ ~ N(0, 1/n), symmetric under λ → 1/λ.
    """
    power = homogeneity(posterior.network.phi) or 0.0
    layers = [weights.first, *weights.hidden, weights.readout.T]  # rows: incoming; columns: outgoing
    acceptances = []
    for index in range(len(layers) - 1):
        incoming, outgoing = layers[index], layers[index + 1]
        fan_in, fan_out = incoming.shape[1], outgoing.shape[0]
        size_key, accept_key = jax.random.split(jax.random.fold_in(key, index))
        log_scale = jax.random.normal(size_key, incoming.shape[:1], incoming.dtype) / fan_in**0.5
        # e^{2x} − 1 as e^x (e^x − e^{−x}): two expm1 in one program come out wrong by jaxlib 0.10.2 on CPUs,
        # where chains have more than 4,096 neurons together
        shrunk, grown = jnp.exp(-log_scale), jnp.exp(power * log_scale)
        log_ratio = (
            (power * fan_out - fan_in) * log_scale
            - 0.5 * shrunk * (shrunk - 1 / shrunk) * jnp.square(incoming).sum(1)
            - 0.5 * grown * (grown - 1 / grown) * jnp.square(outgoing).sum(0)
        )
        accept = jnp.log(jax.random.uniform(accept_key, log_ratio.shape)) < log_ratio
        log_scale = jnp.where(accept, log_scale, 0.0)
        layers[index] = incoming * jnp.exp(-log_scale)[:, None]
        layers[index + 1] = outgoing * jnp.exp(power * log_scale)[None, :]
        acceptances.append(jnp.exp(jnp.minimum(log_ratio, 0.0)).mean())
    first, *hidden, readout = layers
    return Weights(first, tuple(hidden), readout.T), jnp.stack(acceptances).mean()


def rotations(key: Array, weights: Weights, posterior: Posterior) -> tuple[Weights, Array]:
    r"""Rotate pairs of feature neurons, (a_i, a_j) and their incoming weights by the same angle θ.

    An orthogonal map: Jacobian 1, and the prior is unchanged. It keeps a linear network's output and
    nearly that of two co-active ReLU neurons, Σ over the pair of a φ(z); what changes is accepted
    by Metropolis with the change of β/2‖Y − f‖² alone. The angle's density is symmetric: uniform on
    the circle or, half of the time, of log-uniform size between 10⁻³ and 1.

    Pairs are drawn with probability ∝ ‖a_i‖² + ‖a_j‖² (first neuron ∝ ‖a_i‖², second uniform). This sum
    and the normaliser (N − 1) Σ_k ‖a_k‖² do not change under the move, so selection needs no
    correction; and pairs that hold an outlier are tried N times more often than others.
    N/2 pairs are tried one after the other.
    """

    def draw(kind, which, size, _):
        small = jnp.where(which < 0.5, -1.0, 1.0) * 10 ** (-3 * size)
        return jnp.where(kind < 0.5, small, jnp.pi * (2 * size - 1))

    return _pair_sweep(key, weights, posterior, draw, lambda angle, pair: (angle, 0.0))


#: Width of the split-or-merge proposal about the merged state, in radians: bulk over outlier readout.
MERGE_WIDTH = 0.02


def split_merge(key: Array, weights: Weights, posterior: Posterior) -> tuple[Weights, Array]:
    r"""Merge two parallel neurons into one, or split one in two: a rotation to a chosen angle.

    The readouts of a pair have a principal angle ψ = ½ atan2(2 a_i·a_j, ‖a_i‖² − ‖a_j‖²): the pair is
    merged at ψ = 0 (all in i) and ψ = π/2 (all in j), evenly split at π/4. Rotating the pair by θ adds θ to
    ψ and leaves the other coordinates of the pair as they are, so Lebesgue measure is dψ times a
    measure that does not change, and an independence proposal with density q(ψ') is accepted with

        log α = −β/2 Δ‖Y − f‖² + log q(ψ) − log q(ψ').

    q is half uniform and half a Laplace law of width MERGE_WIDTH about the merged states. Pairs
    are selected as in `rotations`.
    """

    def angle(pair):
        gram = pair @ pair.T
        return 0.5 * jnp.arctan2(2 * gram[0, 1], gram[0, 0] - gram[1, 1])

    def log_density(psi):
        from_merged = jnp.abs(_wrap(psi, jnp.pi / 2))
        norm = 2 * MERGE_WIDTH * -jnp.expm1(-(jnp.pi / 4) / MERGE_WIDTH)
        return jnp.log(0.5 * 2 / jnp.pi + 0.5 * jnp.exp(-from_merged / MERGE_WIDTH) / norm)

    def draw(kind, which, size, sign):
        reach = -jnp.expm1(-(jnp.pi / 4) / MERGE_WIDTH)
        laplace = -MERGE_WIDTH * jnp.log1p(-size * reach)
        new = jnp.where(sign < 0.5, -1.0, 1.0) * jnp.where(kind < 0.5, laplace, jnp.pi / 4 * size)
        return new + jnp.where(which < 0.5, 0.0, jnp.pi / 2)

    def propose(new, pair):
        old = angle(pair)
        return _wrap(new - old, jnp.pi), log_density(old) - log_density(new)

    return _pair_sweep(key, weights, posterior, draw, propose)


def _with_new_features(features: Callable) -> Callable[..., tuple[Weights, Array]]:
    def move(key: Array, weights: Weights, posterior: Posterior) -> tuple[Weights, Array]:
        feature_key, readout_key = jax.random.split(key)
        # An inverse comes from recode alone: what others know of their features is rounded with the rows
        rows, acceptance, *inverse = features(feature_key, weights, posterior)
        if posterior.network.depth > 1:
            moved = weights._replace(hidden=(*weights.hidden[:-1], rows))
        else:
            moved = weights._replace(first=rows)
        return gibbs(readout_key, moved, posterior, *inverse)[0], acceptance

    move.__doc__ = f"""Incoming weights by `recoding.{features.__name__}`, then all readouts as in `gibbs`."""
    return move


recode = _with_new_features(recoding.recode_features)
imitate = _with_new_features(recoding.imitate_features)
convert = _with_new_features(recoding.convert_features)
reflect = _with_new_features(recoding.reflect_features)


def exchange(
    key: Array, weights: Weights, parity: Array, *, posterior: Posterior, temperatures: Array
) -> tuple[Weights, Array]:
    """Replica exchange: swap the weights at neighboring temperatures.

    On the product of the posteriors at T_1 < T_2 < … a swap of neighbors changes only the likelihood
    terms: log α = ½(β_k − β_{k+1})(‖Y − f_k‖² − ‖Y − f_{k+1}‖²). Pairs (k, k+1) with k ≡ parity (mod 2) are
    disjoint and decided independently; parities alternate. The acceptance probability is a mean over the
    pairs tried, and 0 where none is, as at every second transition of two replicas; weights and temperatures
    have a leading axis (replicas,).
    """
    count = temperatures.shape[0]
    precision = jax.vmap(lambda T: posterior.at_temperature(T).likelihood_precision)(temperatures)
    error = jax.vmap(posterior.squared_error)(weights)
    log_ratio = 0.5 * (precision[:-1] - precision[1:]) * (error[:-1] - error[1:])
    tried = jnp.arange(count - 1) % 2 == parity
    accept = tried & (jnp.log(jax.random.uniform(key, (count - 1,))) < log_ratio)
    up = jnp.concatenate([accept, jnp.array([False])])
    down = jnp.concatenate([jnp.array([False]), accept])
    source = jnp.arange(count) + up - down
    probability = jnp.where(tried, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
    return jax.tree.map(lambda leaf: leaf[source], weights), probability.sum() / jnp.maximum(tried.sum(), 1)


#: Most targets for which `recode` tries all codes, 2^m of them.
FEW_TARGETS = 4
#: Most targets for which `convert` tells codes apart, 2^m of them.
MOST_TARGETS = 10


class Move(NamedTuple):
    """A posterior-invariant move, and where it can be made.

    Attributes:
        function: (key, weights, posterior) → (weights, acceptance probability), of one chain.
        applies: whether to a posterior's network and task.
        needs: the same in words.
    """

    function: Callable[[Array, Weights, Posterior], tuple[Weights, Array]]
    applies: Callable[[Posterior], bool] = lambda posterior: True
    needs: str = "nothing"

    def __call__(self, key: Array, weights: Weights, posterior: Posterior) -> tuple[Weights, Array]:
        """The move, made."""
        return self.function(key, weights, posterior)


def _has_pairs(posterior: Posterior) -> bool:
    return posterior.network.width > 1


def _is_independent(posterior: Posterior) -> bool:
    """Whether preactivations are independent a priori, and bounded features leave them near their prior."""
    network = posterior.network
    return network.depth == 1 and network.width > 1 and posterior.root is None and is_bounded(network.phi)


#: A new move is a function and an entry here; `auto` says which networks need it.
MOVES = {
    "gibbs": Move(gibbs),
    "scale": Move(
        scale,
        lambda posterior: bool(homogeneity(posterior.network.phi)),
        "a homogeneous nonlinearity, such as linear, relu or relu_squared",
    ),
    "rotations": Move(rotations, _has_pairs, "at least two neurons"),
    "split_merge": Move(split_merge, _has_pairs, "at least two neurons"),
    "recode": Move(
        recode,
        _is_independent,
        "one hidden layer of at least two neurons, a bounded nonlinearity and orthogonal inputs",
    ),
    "imitate": Move(imitate, _has_pairs, "at least two neurons"),
    "convert": Move(
        convert,
        lambda posterior: _has_pairs(posterior) and posterior.targets.shape[1] <= MOST_TARGETS,
        f"at least two neurons and at most {MOST_TARGETS} targets",
    ),
    "reflect": Move(
        reflect,
        lambda posterior: middle(posterior.network.phi) is not None,
        "a nonlinearity with φ(z) + φ(−z) = 2φ(0)",
    ),
}


def auto(posterior: Posterior) -> tuple[str, ...]:
    """The moves with which a network reaches equilibrium; where nothing is slow, only `gibbs`.

    - Lazy and linear networks: gibbs. Nothing but their readouts is slow.
    - Bounded φ, whose neurons never change code by local dynamics: recode where it applies, so with one
      layer, orthogonal inputs and up to FEW_TARGETS targets; imitate elsewhere. With it convert, where inputs
      are correlated and targets no more than MOST_TARGETS; and reflect, where networks are deep or inputs
      correlated and φ is symmetric about φ(0) ≠ 0. All end with gibbs' draw.
    - Unbounded φ (ReLU, softplus …), whose outliers share their codes out slowly: gibbs, rotations and
      split_merge, and scale if φ is homogeneous.
    """
    network = posterior.network
    if network.scaling == "lazy" or network.width < 2 or network.nonlinearity == "linear":
        return ("gibbs",)
    if not is_bounded(network.phi):
        names: tuple[str, ...] = ("gibbs", "scale", "rotations", "split_merge")
    elif MOVES["recode"].applies(posterior) and posterior.targets.shape[1] <= FEW_TARGETS:
        names = ("recode",)
    else:
        correlated = posterior.root is not None
        mirrored = (correlated or network.depth > 1) and middle(network.phi)
        names = ("imitate", *(("convert",) if correlated else ()), *(("reflect",) if mirrored else ()))
    return tuple(name for name in names if MOVES[name].applies(posterior))


def check(name: str, posterior: Posterior) -> None:
    """Raise ValueError where a move does not exist or does not apply to the network and its task."""
    move = MOVES[validation.choice("moves", name, MOVES)]
    if not move.applies(posterior):
        network = posterior.network
        raise ValueError(
            f"moves: {name!r} needs {move.needs}; got depth {network.depth}, width {network.width}, "
            f"{network.nonlinearity!r}, {posterior.targets.shape[1]} targets and {len(posterior.targets)} "
            f"{'orthogonal' if posterior.root is None else 'correlated'} inputs"
        )


def streams(names: tuple[str, ...]) -> tuple[int, ...]:
    """What is folded into a transition's key for each move: a digest of its name, and of its name before.

    Its random numbers are then the same whatever other moves are made.
    """
    tags = [f"{name} {names[:place].count(name)}" for place, name in enumerate(names)]
    return tuple(int.from_bytes(hashlib.sha256(tag.encode()).digest()[:4]) for tag in tags)


def _pair_sweep(
    key, weights: Weights, posterior: Posterior, draw: Callable, propose: Callable
) -> tuple[Weights, Array]:
    """N/2 pair rotations; propose(draw(4 uniforms), ã of the pair (2, m)) gives θ, log q(old)/q(new)."""
    network = posterior.network
    width = network.width
    layers = posterior.preactivations(weights)
    shared_rows = network.depth == 1 and posterior.root is None  # z^L is the incoming matrix itself
    incoming = weights.hidden[-1] if network.depth > 1 else weights.first
    if shared_rows:
        incoming = incoming[:, :0]  # one array carried twice would be copied at every attempt
    to_output = network.readout_scale * posterior.readout_std
    accurate = jnp.result_type(float)

    columns = math.isqrt(width - 1) + 1  # of the table of ‖a_i‖²: a sum over its rows, then one over a row

    def squares(readout):
        return jnp.square(readout).sum(1, dtype=accurate)

    def attempt(carry, chance):
        readout, mass, incoming, z, residual = carry
        pick, partner, accept_at, *angle = chance
        i = jnp.minimum(_picked(mass.reshape(-1, columns), pick), width - 1)
        pair = jnp.stack([i, (i + 1 + (partner * (width - 1)).astype(int)) % width])
        theta, log_correction = propose(draw(*angle), readout[pair])
        cos, sin = jnp.cos(theta), jnp.sin(theta)
        turn = jnp.array([[cos, -sin], [sin, cos]]).astype(readout.dtype)
        new_readout, new_z = turn @ readout[pair], turn @ z[pair]
        change = new_readout.T @ network.phi(new_z) - readout[pair].T @ network.phi(z[pair])
        new_residual = residual - to_output * change
        # ‖r'‖² − ‖r‖² as (r' − r)·(r' + r): no cancellation between two large sums
        error_change = jnp.sum((new_residual - residual) * (new_residual + residual), dtype=accurate)
        log_ratio = log_correction - 0.5 * posterior.likelihood_precision * error_change
        accept = jnp.log(accept_at) < log_ratio

        def put(array, rows):
            return array.at[pair].set(jnp.where(accept, rows, array[pair]))

        z = put(z, new_z)
        incoming = put(incoming, turn @ incoming[pair])
        residual = jnp.where(accept, new_residual, residual)
        mass = put(mass, squares(new_readout))
        return (put(readout, new_readout), mass, incoming, z, residual), jnp.exp(jnp.minimum(log_ratio, 0.0))

    residual = (posterior.targets - network.outputs(layers[-1], posterior.readouts(weights))).T
    mass = jnp.pad(squares(weights.readout), (0, -width % columns))
    start = (weights.readout, mass, incoming, layers[-1], residual)
    tries = uniform(key, (max(1, width // 2), 7), accurate)  # all that is random
    (readout, _, incoming, z, _), acceptance = jax.lax.scan(attempt, start, tries)
    incoming = z if shared_rows else incoming
    if network.depth > 1:
        return Weights(weights.first, (*weights.hidden[:-1], incoming), readout), acceptance.mean()
    return Weights(incoming, (), readout), acceptance.mean()


def _picked(table: Array, fraction: Array) -> Array:
    """Index of the first entry, row by row, at which the running sum exceeds a fraction of the total."""
    rows = jnp.cumsum(table.sum(1))
    row = jnp.minimum(jnp.sum(rows <= fraction * rows[-1]), len(table) - 1)
    before = jnp.where(row > 0, rows[row - 1], 0.0)
    return row * table.shape[1] + jnp.sum(before + jnp.cumsum(table[row]) <= fraction * rows[-1])


def _wrap(angle: Array, period: float) -> Array:
    """Angle modulo its period, in (−period/2, period/2]."""
    return period / 2 - jnp.mod(period / 2 - angle, period)
