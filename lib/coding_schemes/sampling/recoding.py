r"""New codes for single neurons, with the readouts of all neurons integrated out.

In a redundant scheme no neuron changes its code by local dynamics: with all other weights held, the outputs
would move by O(1/N) on whole classes, at an energy of O(P/(N T)). Without the readouts nothing is in
the way. With s the variance of an output per unit of feature, ψ = √(βs) φ and A = 1 + Σ_j ψ_j ψ_jᵀ (P, P),

    log p(z) = −½ tr βYᵀA⁻¹Y − (m/2) log det A − ½ Σ_j |z_j|²,

and one neuron's part given the others', B = A₋ᵢ⁻¹, τ = B √β Y, q = ψᵀBψ, is

    log p(z_i | rest) = −½|z|² + ½|τᵀψ|²/(1 + q) − (m/2) log(1 + q),

the marginal of p(ã, z | rest) ∝ exp(−½(1 + q)|ã|² + ã·τᵀψ − ½|z|²): the single-neuron posterior of the
mean-field theory, in the field that the other neurons leave, with its correction q for finite N.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve
from jax.scipy.linalg import cho_factor, cho_solve

from coding_schemes import _roots
from coding_schemes.posterior import Posterior, Weights, normal, uniform

SHARE = 0.1  # of the neurons is tried per move; the others say where readouts are likely
NODES = np.linspace(-6.5, 6.5, 66)  # of the piecewise linear density from which z is proposed
LOWEST = -80.0  # of the logarithm of that density against its maximum, in float32
FIELDS = np.linspace(-60.0, 60.0, 1201)  # of the table of mean activations
COPY = 0.8  # probability to propose a readout like another neuron's; else like one of any code
CODE_VARIANCE = 2.0  # of readouts about a code's, in units of the prior's variance
ASCENT_STEPS = 8  # to each code's readout
IMITATION_WIDTH = 0.5  # of a proposed class mean about the imitated one, in units of the prior's


def recode_features(key: Array, weights: Weights, posterior: Posterior) -> tuple[Array, Array, Array]:
    r"""New preactivations for a tenth of the neurons; the readouts have to be drawn anew.

    For every neuron tried: draw ã from p(ã | z, rest); propose ã' from a mixture (like another neuron's,
    or like that of any code) and z' given ã' input by input from

        h(z_μ) ∝ exp(−½z² + bã'·τ_μ φ − ½b²|ã'|² [2(Br)_μ (φ − r_μ) + B_μμ (φ − r_μ)²]),

    b = √(βs), r_μ the mean activation in the field alone: p's quadratic form without its off-diagonal part
    about the mean. Accept by Metropolis–Hastings. The mixture depends only on neurons not tried. For one
    hidden layer, bounded φ and orthogonal inputs, where preactivations are independent a priori.

    Returns:
        z of shape (N, P), the mean acceptance probability, and A⁻¹ (P, P) of the new features.
    """
    accurate = jnp.result_type(float)
    phi = posterior.network.phi
    width, count = posterior.network.width, max(1, int(SHARE * posterior.network.width))
    order_key, normal_key, uniform_key = jax.random.split(key, 3)
    order = jax.random.permutation(order_key, width)
    b, targets = _scaled(posterior)
    features = b * phi(weights.first).astype(accurate)
    others = features[order[count:]]
    gram = others.T @ others
    identity = jnp.eye(targets.shape[0], dtype=accurate)
    tried = features[order[:count]]
    pair = gram + tried.T @ tried, gram * (width / (width - count))
    inverse = _inverse(identity + pair[0])
    field = _solve(_after(inverse, identity + pair[1]), targets)
    mean_activation = _mean_activation(phi)
    centers = jnp.concatenate([others @ field, _code_readouts(field, b, posterior.targets, mean_activation)])
    num_codes = centers.shape[0] - others.shape[0]
    log_share = jnp.log(jnp.array([COPY / others.shape[0], (1 - COPY) / num_codes], accurate))
    is_copy = jnp.arange(len(centers)) < others.shape[0]
    component = jnp.where(is_copy, *log_share)
    variance = jnp.where(is_copy, 1.0, CODE_VARIANCE)
    # all that is random, drawn at once: normals for two readouts, uniforms for z, component and acceptance
    normals = normal(normal_key, (count, 2, targets.shape[1]), accurate)
    uniforms = uniform(uniform_key, (count, 2 * len(targets) + 2), accurate)

    def log_mixture(readout):
        return _log_mixture(readout, centers, component, variance)

    def attempt(carry, chance):
        z, inverse, full_field = carry
        i, gaussian, uniforms = chance
        pick, accept_at, for_z = uniforms[0], uniforms[1], uniforms[2:].reshape(2, -1).astype(jnp.float32)
        old_z = z[i]
        old = b * phi(old_z).astype(accurate)
        image = inverse @ old
        left = 1 - old @ image  # 1/(1 + q)
        field = full_field + jnp.outer(image, old @ full_field) / left
        diagonal = jnp.diagonal(inverse) + image**2 / left

        def without(x):
            return inverse @ x + image * (image @ x) / left

        def tilt(readout):
            s = b * field @ readout
            reference = mean_activation(s)
            weight = b**2 * (readout @ readout)
            return s, weight * without(reference), 0.5 * weight * diagonal, reference

        old_readout = (old @ field) * left + gaussian[0] * jnp.sqrt(left)
        k = jnp.where(
            pick < COPY,
            pick / COPY * others.shape[0],
            others.shape[0] + (pick - COPY) / (1 - COPY) * num_codes,
        ).astype(int)
        new_readout = centers[k] + jnp.sqrt(variance[k]) * gaussian[1]
        new_z, new_log = _draw(for_z, phi, tilt(new_readout), z.dtype)
        old_log = _log_density(phi, tilt(old_readout), old_z)
        new = b * phi(new_z).astype(accurate)
        new_image = without(new)
        old_q, new_q = 1 / left - 1, new @ new_image

        def log_target(readout, feature, q, z):
            return (
                -0.5 * (1 + q) * (readout @ readout)
                + readout @ (feature @ field)
                - 0.5 * jnp.sum(jnp.square(z), dtype=accurate)
            )

        log_ratio = (
            log_target(new_readout, new, new_q, new_z)
            - log_target(old_readout, old, old_q, old_z)
            + log_mixture(old_readout)
            + old_log
            - log_mixture(new_readout)
            - new_log
        )
        accept = jnp.log(accept_at) < log_ratio
        updated = inverse + jnp.outer(image, image / left) - jnp.outer(new_image, new_image / (1 + new_q))
        inverse = jnp.where(accept, updated, inverse)
        new_field = field - jnp.outer(new_image, new @ field) / (1 + new_q)
        full_field = jnp.where(accept, new_field, full_field)
        z = z.at[i].set(jnp.where(accept, new_z, old_z))
        return (z, inverse, full_field), jnp.exp(jnp.minimum(log_ratio, 0.0))

    start = (weights.first, inverse, inverse @ targets)
    (z, inverse, _), acceptance = jax.lax.scan(attempt, start, (order[:count], normals, uniforms))
    return z, acceptance.mean(), inverse


def imitate_features(key: Array, weights: Weights, posterior: Posterior) -> tuple[Array, Array]:
    r"""Class means of a tenth of the feature neurons made like other neurons'; readouts to be drawn anew.

    A neuron's preactivations are z = wF with w ~ N(0, 1) a priori, and F (d, P) the inputs to its layer.
    With Q (d, C) an orthonormal basis of the classes' mean inputs, v = wQ ~ N(0, 1) sets the neuron's class
    means, and what is left of w does not depend on v. Propose v' ~ Σ_j N(v_j, σ²)/n over the n neurons that
    are not tried in this sweep, and w' = w + (v' − v)Qᵀ; accept with the ratio of

        log p(w | rest) = −½|w|² + ½|τᵀψ|²/(1 + q) − (m/2) log(1 + q)

    and of the proposals' densities, which need no more than the v_j. Neurons are tried one after the other.
    For any task, depth and nonlinearity; a code that no neuron has is only found by chance. Classes are told
    by the largest target, a single one by its mean. Takes O(P³ + N P²) operations.

    Returns:
        The layer's incoming weights, and the mean acceptance probability.
    """

    def proposal(others, sums):
        basis, present = _orthonormal(sums)
        means = others @ basis

        def log_mixture(v):
            return jax.nn.logsumexp(-0.5 * jnp.sum(jnp.square(v[None] - means), axis=1) / IMITATION_WIDTH**2)

        def propose(row, gaussian, pick):
            old = row @ basis
            new = means[(pick * len(means)).astype(int)] + IMITATION_WIDTH * present * gaussian
            return row + (new - old) @ basis.T, log_mixture(old) - log_mixture(new)

        return propose

    return _one_by_one(key, weights, posterior, proposal)


def convert_features(key: Array, weights: Weights, posterior: Posterior) -> tuple[Array, Array]:
    r"""A tenth of the feature neurons taken from their code to another as a whole; readouts to be drawn anew.

    A neuron's code k(w) says for which classes its mean preactivation is positive. With M_k the mean incoming
    weights of the neurons with code k, of those that are not tried in this sweep, propose

        w' = w + M_k' − M_k(w),    k' uniform among the other codes there are,

    which takes along whatever neurons of a code have in common, also what they do within classes. The way
    back is as likely; where k(w') ≠ k' there is none, and w stays. Accepted as in `imitate_features`, for the
    same classes and at the same cost; it makes no code that no neuron has. On images it is accepted while T
    falls, where shares of codes even out, and hardly ever at low T.

    Returns:
        The layer's incoming weights, and the mean acceptance probability.
    """

    def proposal(others, sums):
        bits = 2 ** jnp.arange(sums.shape[1])

        def code(row):
            return (row @ sums > 0).astype(int) @ bits

        owners = jax.nn.one_hot(code(others), 2 ** sums.shape[1], dtype=others.dtype)
        sizes = owners.sum(0)
        centers = (owners.T @ others) / jnp.maximum(sizes, 1)[:, None]
        numbers = jnp.cumsum(sizes > 0)  # of the codes there are, from one

        def propose(row, _, pick):
            old = code(row)
            other = jnp.floor(pick * (numbers[-1] - 1)) + 1
            new = jnp.searchsorted(numbers, other + (other >= numbers[old]))
            moved = row + centers[new] - centers[old]
            there_and_back = (sizes[old] > 0) & (code(moved) == new)
            return moved, jnp.where(there_and_back, 0.0, -jnp.inf)

        return propose

    return _one_by_one(key, weights, posterior, proposal)


def _one_by_one(key, weights: Weights, posterior: Posterior, proposal) -> tuple[Array, Array]:
    """Tries new incoming weights for a tenth of the feature neurons, one after the other.

    `proposal(others, sums)`, from the rows that are not tried and the sums of F over the inputs of each class
    (d, classes), gives a function of a row, normals (classes,) and a uniform number: a new row, and the
    logarithm of the probability of the way back over that of the way there.
    """
    accurate = jnp.result_type(float)
    network = posterior.network
    width, count = network.width, max(1, int(SHARE * network.width))
    order_key, normal_key, uniform_key = jax.random.split(key, 3)
    order = jax.random.permutation(order_key, width)
    kept = (weights.first, *weights.hidden)[-1]
    *below, start = posterior.preactivations(weights)
    if below:
        incoming = network.phi(below[-1]) / network.width**0.5
    else:
        incoming = jnp.eye(posterior.rank) if posterior.root is None else _roots.dense(posterior.root).T
    rows, incoming = kept.astype(accurate), incoming.astype(accurate)
    b, targets = _scaled(posterior)
    if targets.shape[1] > 1:
        labels, num_classes = jnp.argmax(targets, axis=1), targets.shape[1]
    else:
        labels, num_classes = (targets[:, 0] > targets.mean()).astype(int), 2
    sums = incoming @ jax.nn.one_hot(labels, num_classes, dtype=accurate)
    propose = proposal(rows[order[count:]], sums)
    features = b * network.phi(start.astype(accurate))
    inverse = _inverse(jnp.eye(len(targets), dtype=accurate) + features.T @ features)

    def log_target(feature, field, q, row):
        pull = feature @ field
        return 0.5 * (pull @ pull) / (1 + q) - 0.5 * targets.shape[1] * jnp.log1p(q) - 0.5 * (row @ row)

    # all that is random, drawn at once: normals for a proposal, uniforms for its kind and acceptance
    normals = normal(normal_key, (count, num_classes), accurate)
    uniforms = uniform(uniform_key, (count, 2), accurate)

    def attempt(carry, chance):
        inverse, full_field = carry
        i, gaussian, (pick, accept_at) = chance
        old, old_row = features[i], rows[i]
        image = inverse @ old
        left = 1 - old @ image  # 1/(1 + q)
        field = full_field + jnp.outer(image, (old @ full_field) / left)
        new_row, log_back = propose(old_row, gaussian, pick)
        new = b * network.phi(new_row @ incoming)
        new_image = inverse @ new + image * ((image @ new) / left)
        new_q = new @ new_image
        log_ratio = (
            log_target(new, field, new_q, new_row) - log_target(old, field, 1 / left - 1, old_row) + log_back
        )
        accept = jnp.log(accept_at) < log_ratio
        updated = inverse + jnp.outer(image, image / left) - jnp.outer(new_image, new_image / (1 + new_q))
        new_field = field - jnp.outer(new_image, new @ field) / (1 + new_q)
        carry = jnp.where(accept, updated, inverse), jnp.where(accept, new_field, full_field)
        return carry, (jnp.where(accept, new_row, old_row), jnp.exp(jnp.minimum(log_ratio, 0.0)))

    carry = inverse, inverse @ targets
    _, (tried, acceptance) = jax.lax.scan(attempt, carry, (order[:count], normals, uniforms))
    return kept.at[order[:count]].set(tried.astype(kept.dtype)), acceptance.mean()


def reflect_features(key: Array, weights: Weights, posterior: Posterior) -> tuple[Array, Array]:
    r"""Small sets of feature neurons turned into their mirror images, w → −w; readouts to be drawn anew.

    For φ with φ(z) + φ(−z) = 2φ(0), features are ψ_i = o + s_i g_i, with o = b φ(0) on every input,
    g_i = b[φ(z_i) − φ(0)] and a sign s_i = ±1. A reflected neuron has the opposite code; with its readout
    reversed too it adds the same to the outputs, but for a constant. All that the marginal likelihood knows
    of the signs is g = Σ_j s_j g_j: with A₀ = 1 + N ooᵀ + Σ_j g_j g_jᵀ

        A = A₀ + o gᵀ + g oᵀ,   log p(Y | s) = [e v·u − ½d|v|² − ½c|u|²]/r − (m/2) log r + const,
        c = oᵀA₀⁻¹o,  e = 1 + oᵀA₀⁻¹g,  d = gᵀA₀⁻¹g,  r = e² − cd,  v = oᵀA₀⁻¹√βY,  u = gᵀA₀⁻¹√βY.

    N times the signs of one to m neurons, drawn uniformly, are reversed, and accepted with the ratio of
    p(Y | s): the prior of w knows no signs. One neuron shifts outputs, one of every class together do not.
    For any task and depth. Takes O(P³ + N P² + N³) operations.

    Returns:
        The layer's incoming weights, and the mean acceptance probability.
    """
    network = posterior.network
    b, targets = _scaled(posterior)
    width, num_outputs = network.width, targets.shape[1]
    z, rows = posterior.preactivations(weights)[-1], (weights.first, *weights.hidden)[-1]
    middle = b * network.phi(jnp.zeros((), targets.dtype))
    odd = b * network.phi(z.astype(targets.dtype)) - middle
    constant = jnp.full(len(targets), middle)
    identity = jnp.eye(len(targets), dtype=targets.dtype)
    inverse = _inverse(identity + width * jnp.outer(constant, constant) + odd.T @ odd)
    image, images = inverse @ constant, odd @ inverse
    c, v, gram, cross, pull = constant @ image, image @ targets, images @ odd.T, odd @ image, images @ targets

    def log_evidence(signs):
        e, d, u = 1 + cross @ signs, signs @ gram @ signs, signs @ pull
        r = e**2 - c * d
        return (e * (v @ u) - 0.5 * d * (v @ v) - 0.5 * c * (u @ u)) / r - 0.5 * num_outputs * jnp.log(r)

    def attempt(carry, chance):
        signs, log_value = carry
        accept_at, size, *picks = chance
        members = (jnp.stack(picks) * width).astype(int)
        taken = jnp.arange(num_outputs) <= (size * num_outputs).astype(int)
        reflected = signs * jnp.ones(width, signs.dtype).at[members].min(1.0 - 2.0 * taken)
        log_reflected = log_evidence(reflected)
        log_ratio = log_reflected - log_value
        accept = jnp.log(accept_at) < log_ratio
        carry = jnp.where(accept, reflected, signs), jnp.where(accept, log_reflected, log_value)
        return carry, jnp.exp(jnp.minimum(log_ratio, 0.0))

    start = jnp.ones(width, targets.dtype)
    chances = uniform(key, (width, num_outputs + 2), targets.dtype)
    (signs, _), acceptance = jax.lax.scan(attempt, (start, log_evidence(start)), chances)
    return signs[:, None].astype(rows.dtype) * rows, acceptance.mean()


def _scaled(posterior):
    """The factor b = √(βs) of features, and the targets √β Y."""
    accurate = jnp.result_type(float)
    root = jnp.sqrt(posterior.likelihood_precision).astype(accurate)
    b = root * posterior.network.readout_scale * posterior.readout_std.astype(accurate)
    return b, root * posterior.targets.astype(accurate)


def _orthonormal(columns):
    """Gram–Schmidt twice over a few columns, no LAPACK; and which were not zero to begin with."""
    found: list[Array] = []
    for column in columns.T:
        size = jnp.linalg.norm(column)
        for _ in range(2):
            for other in found:
                column = column - other * (other @ column)
        norm = jnp.linalg.norm(column)
        kept = norm > 1e-6 * size
        found.append(jnp.where(kept, column / jnp.where(kept, norm, 1.0), 0.0))
    basis = jnp.stack(found, axis=1)
    return basis, jnp.any(basis != 0, axis=0)


# LAPACK calls side by side can block each other for ever: batches go one by one, and `_after` orders two.


@jax.custom_batching.sequential_vmap
def _inverse(matrix):
    """Of a positive definite matrix: L⁻ᵀL⁻¹ by halves of L, two thirds of the time of a solve for 1."""
    size = len(matrix)
    half = -(-size // 2)
    filled = jnp.eye(2 * half, dtype=matrix.dtype).at[:size, :size].set(matrix)
    factor = jnp.linalg.cholesky(filled)
    first, last = factor[:half, :half], factor[half:, half:]
    identity = jnp.broadcast_to(jnp.eye(half, dtype=matrix.dtype), (2, half, half))
    first, last = triangular_solve(jnp.stack([first, last]), identity, left_side=True, lower=True)
    below = -last @ (factor[half:, :half] @ first)
    corner = below.T @ last
    whole = jnp.block([[first.T @ first + below.T @ below, corner], [corner.T, last.T @ last]])
    return whole[:size, :size]


@jax.custom_batching.sequential_vmap
def _solve(matrix, columns):
    """Of a positive definite matrix, a few columns: without the inverse, which costs six times as much."""
    return cho_solve(cho_factor(matrix), columns)


def _after(first, array):
    """The array, unchanged, but not before the first is there: zero times a float is not optimized away."""
    return array + 0.0 * first.ravel()[0]


def _log_mixture(readout, centers, log_share, variance):
    """Log density of Gaussians about the centers, without the factors of 2π."""
    distance = jnp.sum(jnp.square(readout[None] - centers), axis=1)
    norm = 0.5 * readout.shape[0] * jnp.log(variance)
    return jax.nn.logsumexp(log_share - 0.5 * distance / variance - norm)


def _mean_activation(phi):
    """L'(s) = ⟨φ⟩ in the field s, from a table."""
    nodes, fields = jnp.asarray(NODES), jnp.asarray(FIELDS)  # NumPy's JAX keeps in the precision of first use
    values = phi(nodes)
    weights = jax.nn.softmax(jnp.outer(fields, values) - 0.5 * nodes[None] ** 2, axis=1)
    table = weights @ values

    def interpolated(s):
        position = jnp.clip((s - FIELDS[0]) / (FIELDS[1] - FIELDS[0]), 0.0, len(FIELDS) - 1.001)
        index = position.astype(int)
        return table[index] + (position - index) * (table[index + 1] - table[index])

    return interpolated


def _code_readouts(field, b, targets, mean_activation):
    """Where readouts climb to from each set of classes (told by the largest target), (2^m, m)."""
    num_outputs = targets.shape[1]
    codes = jnp.array(list(itertools.product((0.0, 1.0), repeat=num_outputs)))
    readouts = b * codes[:, jnp.argmax(targets, axis=1)] @ field
    return jax.lax.fori_loop(
        0, ASCENT_STEPS, lambda _, a: b * mean_activation(b * a @ field.T) @ field, readouts
    )


def _nodes(phi, tilt):
    """Values of h at the nodes over the largest, (P, nodes), and the log of the interpolant's integral."""
    s, slope, curvature, reference = (part[:, None].astype(jnp.float32) for part in tilt)
    nodes = jnp.asarray(NODES[None], jnp.float32)
    offset = phi(nodes) - reference
    log_h = s * phi(nodes) - 0.5 * nodes**2 - slope * offset - curvature * offset**2
    h = jnp.exp(jnp.maximum(log_h - jnp.max(log_h, axis=1, keepdims=True), LOWEST))
    return h, jnp.log((NODES[1] - NODES[0]) * (jnp.sum(h, axis=1) - 0.5 * (h[:, 0] + h[:, -1])))


def _log_interpolated(h, log_norm, z):
    """Log of the normalized piecewise linear density at z, summed over inputs; −∞ beyond the nodes."""
    position = (z - NODES[0]) / (NODES[1] - NODES[0])
    index = jnp.clip(jnp.floor(position).astype(int), 0, len(NODES) - 2)
    fraction = position - index
    rows = jnp.arange(len(z))
    inside = (fraction >= 0) & (fraction <= 1)
    fraction = jnp.clip(fraction, 0.0, 1.0)
    log_density = jnp.log((1 - fraction) * h[rows, index] + fraction * h[rows, index + 1]) - log_norm
    return jnp.sum(jnp.where(inside, log_density, -jnp.inf), dtype=jnp.result_type(float))


def _log_density(phi, tilt, z):
    h, log_norm = _nodes(phi, tilt)
    return _log_interpolated(h, log_norm, z)


def _draw(uniforms, phi, tilt, dtype):
    """Draw z from the piecewise linear density, and its log density: uniforms (2, P) for cell and place."""
    h, log_norm = _nodes(phi, tilt)
    running = np.triu(np.ones((h.shape[1] - 1, h.shape[1] - 1), np.float32))
    cumulative = (h[:, 1:] + h[:, :-1]) @ running  # faster than cumsum
    in_cumulative = uniforms[0][:, None] * cumulative[:, -1:]
    index = jnp.minimum(jnp.sum(cumulative < in_cumulative, axis=1), h.shape[1] - 2)
    rows = jnp.arange(len(h))
    ratio = jnp.clip(h[rows, index + 1] / h[rows, index], 1e-13, 1e13)
    # density ∝ 1 + (ratio − 1) x on a cell: invert its cumulative distribution
    u = uniforms[1]
    x = u * (1 + ratio) / (1 + jnp.sqrt(1 + u * (ratio**2 - 1)))
    z = (NODES[0] + (NODES[1] - NODES[0]) * (index + x)).astype(dtype)
    return z, _log_interpolated(h, log_norm, z)
