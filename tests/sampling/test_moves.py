"""Every move leaves the posterior invariant, and the test sees it when one does not.

The joint law p(w) p(Y | w) is closed-form to draw from. A move that leaves every posterior p(w | Y)
invariant leaves it invariant too: after it, w must still be the prior and the noise Y − f white.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import coding, networks, planting, posterior, tasks
from coding_schemes.sampling import moves, recoding, sample
from coding_schemes.theory import mean_field
from jax.scipy.linalg import cho_solve
from scipy import stats

DRAWS = 8_000
MAX_Z = 4.5


TWO_CLASSES = tasks.toy(3, (1 / 3, 2 / 3), seed=1)
THREE_CLASSES = tasks.toy(4, (0.5, 0.25, 0.25), seed=1)
SIX_INPUTS = tasks.toy(6, (1 / 2, 1 / 3, 1 / 6), seed=1)


def joint_z_scores(move, network, temperature, repeats=3, readout_variance=0.5, task=TWO_CLASSES):
    """z-scores of known moments of (w, Y − f(w)) after w ~ prior, Y ~ p(Y | w) and the move.

    Also of what the move changes, on average nothing, in log det (1 + Σ_j ψ_j ψ_jᵀ) of the features, which
    enters the marginal likelihood to the power −m/2.
    """
    base = posterior.Posterior(task, network, temperature, readout_variance)

    def one(key):
        prior_key, noise_key, move_key = jax.random.split(key, 3)
        weights = base.prior(prior_key)
        noise = jax.random.normal(noise_key, base.targets.shape, base.dtype) / base.likelihood_precision**0.5
        leaves, structure = jax.tree.flatten(base)
        leaves[0] = base.outputs(weights) + noise
        given = jax.tree.unflatten(structure, leaves)
        before = base.preactivations(weights)[-1]

        def again(repeat, weights):
            return move(jax.random.fold_in(move_key, repeat), weights, given)[0]

        weights = jax.lax.fori_loop(0, repeats, again, weights)
        residual = (given.targets - given.outputs(weights)) * base.likelihood_precision**0.5
        flat = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(weights)])
        energy = jnp.array([jnp.mean(weights.first**2), jnp.mean(weights.readout**2), jnp.mean(residual**2)])
        features = network.phi(jnp.stack([before, base.preactivations(weights)[-1]]))
        return flat, residual.ravel(), energy, features

    drawn = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), DRAWS))
    flat, residual, squares, features = (np.asarray(part, dtype=float) for part in drawn)
    statistics = [flat, flat**2 - 1, residual, residual**2 - 1, squares - 1, squares**2]
    num_outputs = base.targets.shape[1]
    sizes = [base.rank * network.width, num_outputs * network.width, base.targets.size]
    expected_square = 1 + 2 / np.array(sizes)
    statistics[-1] = statistics[-1] - expected_square
    ratio = float(base.likelihood_precision) * network.readout_scale**2 * readout_variance
    gram = np.eye(base.targets.shape[0]) + ratio * np.swapaxes(features, -1, -2) @ features
    change = np.diff(np.linalg.slogdet(gram)[1], axis=1)
    if change.std() > 1e-4:  # not where the move leaves it as it is, up to rounding
        statistics.append(change)
    columns = np.concatenate(statistics, axis=1)
    return np.abs(columns.mean(0)) / (columns.std(0) / DRAWS**0.5)


CASES = [
    ("gibbs", networks.Network(1, 2, "sigmoidal"), 0.1),  # N < P: N-dimensional form
    ("gibbs", networks.Network(1, 5, "relu"), 0.1),  # N > P: P-dimensional form
    ("gibbs", networks.Network(2, 4, "tanh", scaling="lazy"), 0.1),
    ("scale", networks.Network(1, 3, "relu"), 0.1),
    ("scale", networks.Network(2, 3, "relu_squared"), 0.5),
    ("rotations", networks.Network(1, 4, "relu"), 1.0),
    ("rotations", networks.Network(2, 3, "sigmoidal"), 1.0),
    ("split_merge", networks.Network(1, 4, "relu"), 1.0),
    ("split_merge", networks.Network(2, 3, "linear"), 1.0),
    ("recode", networks.Network(1, 4, "sigmoidal"), 0.01, THREE_CLASSES),
    ("imitate", networks.Network(1, 4, "sigmoidal"), 0.1, THREE_CLASSES),
    ("imitate", networks.Network(1, 4, "relu"), 0.1),
    ("imitate", networks.Network(2, 4, "sigmoidal"), 0.1),
    ("imitate", networks.Network(1, 4, "tanh"), 0.1, tasks.toy(4, (0.5, 0.5), targets=[[1.0], [-1.0]])),
    ("convert", networks.Network(1, 10, "sigmoidal"), 0.1, THREE_CLASSES),
    ("convert", networks.Network(1, 8, "relu"), 0.1),
    ("convert", networks.Network(1, 8, "tanh"), 0.01, tasks.toy(4, (0.5, 0.5), targets=[[1.0], [-1.0]])),
    ("convert", networks.Network(2, 8, "sigmoidal"), 0.1),
    ("reflect", networks.Network(1, 5, "sigmoidal"), 0.1, THREE_CLASSES),
    ("reflect", networks.Network(2, 4, lambda z: jax.nn.sigmoid(3 * z)), 0.01, SIX_INPUTS),
    ("reflect", networks.Network(3, 4, "sigmoidal"), 0.1, THREE_CLASSES),
]


def _name(case):
    name, network, *_ = case
    return f"{name}-{network.depth}-{getattr(network.nonlinearity, '__name__', network.nonlinearity)}"


@pytest.mark.parametrize("case", CASES, ids=_name)
@pytest.mark.key_reuse
def test_move_leaves_the_posterior_invariant(case, monkeypatch):
    """Where moves try some neurons only, half of them: several, one after the other."""
    monkeypatch.setattr(recoding, "SHARE", 0.5)
    name, network, temperature, *task = case
    z = joint_z_scores(moves.MOVES[name], network, temperature, task=(*task, TWO_CLASSES)[0])
    assert z.max() < MAX_Z


def _gibbs_without_noise(key, weights, given):
    """The conditional mean in place of a draw."""
    features = given.network.phi(given.preactivations(weights)[-1])
    root = given.likelihood_precision**0.5
    design = root * given.network.readout_scale * given.readout_std * features
    factor = jnp.linalg.cholesky(jnp.eye(len(features), dtype=features.dtype) + design @ design.T)
    mean = cho_solve((factor, True), design @ (root * given.targets))
    return weights._replace(readout=mean + jax.random.normal(key, mean.shape, mean.dtype)), 1.0


def _scale_without_jacobian(key, weights, given):
    """As moves.scale at depth 1, the factor λ^{km − n} dropped."""
    size_key, accept_key = jax.random.split(key)
    fan_in = weights.first.shape[1]
    log_scale = jax.random.normal(size_key, weights.first.shape[:1], weights.first.dtype) / fan_in**0.5
    log_ratio = -0.5 * jnp.expm1(-2 * log_scale) * jnp.square(weights.first).sum(1)
    log_ratio -= 0.5 * jnp.expm1(2 * log_scale) * jnp.square(weights.readout).sum(1)
    accept = jnp.log(jax.random.uniform(accept_key, log_ratio.shape)) < log_ratio
    factor = jnp.exp(jnp.where(accept, log_scale, 0.0))[:, None]
    return weights._replace(first=weights.first / factor, readout=weights.readout * factor), 1.0


def _rotations_without_acceptance(key, weights, given):
    """Half of the neurons turned into the other half, whatever the training error says."""
    pairs = given.network.width // 2, 1
    theta = jax.random.uniform(key, pairs, weights.first.dtype, minval=-jnp.pi, maxval=jnp.pi)
    cos, sin = jnp.cos(theta), jnp.sin(theta)

    def turn(rows):
        even, odd = rows[::2], rows[1::2]
        return jnp.stack([cos * even - sin * odd, sin * even + cos * odd], axis=1).reshape(rows.shape)

    return weights._replace(first=turn(weights.first), readout=turn(weights.readout)), 1.0


@pytest.mark.parametrize(
    ("broken", "network", "temperature"),
    [
        (_rotations_without_acceptance, networks.Network(1, 4, "relu"), 1.0),
        (_gibbs_without_noise, networks.Network(1, 2, "sigmoidal"), 0.1),
        (_scale_without_jacobian, networks.Network(1, 3, "relu"), 0.1),
    ],
)
@pytest.mark.key_reuse
def test_the_test_catches_a_broken_move(broken, network, temperature):
    assert joint_z_scores(broken, network, temperature).max() > 2 * MAX_Z


@pytest.mark.key_reuse
def test_recode_needs_its_proposal_density(monkeypatch):
    """Without the reverse proposal's density all proposals are taken, near as they are to the posterior."""
    monkeypatch.setattr(recoding, "_log_density", lambda phi, tilt, z: jnp.zeros(()))
    z = joint_z_scores(functools.partial(moves.recode), networks.Network(1, 4, "sigmoidal"), 0.01)
    assert z.max() > 2 * MAX_Z


@pytest.mark.key_reuse
def test_imitate_needs_its_proposal_density(monkeypatch):
    """With a mixture taken to be flat, neurons gather where others are."""
    monkeypatch.setattr(recoding.jax.nn, "logsumexp", lambda values: jnp.zeros(()))
    z = joint_z_scores(functools.partial(moves.imitate), networks.Network(1, 4, "sigmoidal"), 0.1)
    assert z.max() > 2 * MAX_Z


def test_density_of_the_proposed_readouts_is_normalized():
    """A mixture of Gaussians of two variances over three outputs, summed over a grid."""
    centers = jnp.array([[0.5, -0.2, 0.1], [1.0, 0.3, -0.4], [-0.6, 0.2, 0.9]])
    log_share, variance = jnp.log(jnp.array([0.5, 0.3, 0.2])), jnp.array([1.0, 1.0, 2.0])
    axis = np.linspace(-10, 10, 41)
    grid = jnp.asarray(np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3))
    log_density = jax.vmap(lambda a: recoding._log_mixture(a, centers, log_share, variance))(grid)
    assert float(jnp.exp(log_density).sum()) * 0.5**3 == pytest.approx((2 * np.pi) ** 1.5, rel=1e-6)


def test_readouts_are_proposed_as_often_as_their_density_says():
    """At very high T it alone decides, with all its centers at 0; acceptance by independent draws."""
    given = posterior.Posterior(THREE_CLASSES, networks.Network(1, 40, "sigmoidal"), 1e9)
    move = jax.jit(jax.vmap(lambda keys: recoding.recode_features(keys[0], given.prior(keys[1]), given)[1]))
    found = np.asarray(move(jax.random.split(jax.random.key(0), (2_000, 2))))  # of four neurons each
    rng = np.random.default_rng(0)
    old, new = rng.standard_normal((2, 400_000, 3))
    new *= np.where(rng.random(len(new)) < recoding.COPY, 1.0, recoding.CODE_VARIANCE**0.5)[:, None]

    def ratio(readout):  # of prior and proposal
        square, v = np.sum(readout**2, axis=1), recoding.CODE_VARIANCE
        wide = v**-1.5 * np.exp(0.5 * square * (1 - 1 / v))
        return 1 / (recoding.COPY + (1 - recoding.COPY) * wide)

    expected = np.minimum(1, ratio(new) / ratio(old)).mean()
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / 2_000**0.5 + 2e-3)


def _primitives(program):
    """Names of all operations of a program, those of the functions that it calls included."""
    for equation in program.eqns:
        yield equation.primitive.name
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _primitives(inner)


@pytest.mark.parametrize(
    "features",
    [
        recoding.recode_features,
        recoding.imitate_features,
        recoding.convert_features,
        recoding.reflect_features,
    ],
)
def test_new_codes_take_one_factorization_at_a_time(features):
    """Two batched LAPACK calls that run side by side can block each other's threads (jaxlib 0.10)."""
    given = posterior.Posterior(tasks.toy(8, (0.5, 0.5)), networks.Network(1, 8, "sigmoidal"), 0.1)
    key = jax.random.key(0)
    program = jax.make_jaxpr(functools.partial(features, posterior=given))(key, given.prior(key))
    found = list(_primitives(program.jaxpr))
    assert found.count("cholesky") == (2 if features is recoding.recode_features else 1)
    assert not {"lu", "geqrf", "householder_product", "eigh", "svd"} & set(found)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_inverse_by_halves(size):
    matrix = np.cov(np.random.default_rng(0).normal(size=(size, 20))).reshape(size, size) + np.eye(size)
    np.testing.assert_allclose(recoding._inverse(jnp.asarray(matrix)), np.linalg.inv(matrix), atol=1e-12)


def test_recode_knows_the_inverse_of_the_features_it_made():
    """After twenty neurons tried, of which some are taken, against the features themselves."""
    given = posterior.Posterior(tasks.toy(30, y_minus=0.2), networks.Network(1, 200, "sigmoidal"), 0.01)
    weights = given.prior(jax.random.key(0))
    z, acceptance, inverse = recoding.recode_features(jax.random.key(1), weights, given)
    assert acceptance > 0.05
    scale = given.likelihood_precision**0.5 * given.network.readout_scale * given.readout_std
    features = float(scale) * np.asarray(given.network.phi(z), dtype=float)
    np.testing.assert_allclose(inverse @ (np.eye(30) + features.T @ features), np.eye(30), atol=1e-6)


def test_the_second_factorization_of_recode_waits_for_the_first(monkeypatch):
    """With what the first gives unknown, so is what the second is asked to solve."""
    given = posterior.Posterior(tasks.toy(8, (0.5, 0.5)), networks.Network(1, 8, "sigmoidal"), 0.1)
    matrices = []
    monkeypatch.setattr(recoding, "_inverse", lambda matrix: jnp.full_like(matrix, jnp.nan))
    monkeypatch.setattr(recoding, "_solve", lambda matrix, columns: matrices.append(matrix) or columns)

    def solved(key, weights):
        recoding.recode_features(key, weights, given)
        return matrices

    found = jax.jit(solved)(jax.random.key(1), given.prior(jax.random.key(2)))
    assert found
    assert np.isnan(found).all()


def test_codes_are_drawn_anew_in_a_session_that_changes_precision():
    for precise in (False, True):  # True, as the tests have it, at the end
        jax.config.update("jax_enable_x64", precise)
        given = posterior.Posterior(tasks.toy(4), networks.Network(1, 6, "sigmoidal"), 0.1)
        options = {"num_samples": 2, "num_chains": 2, "num_warmup": 2, "moves": ("recode",)}
        assert sample(given, jax.random.key(0), progress=False, **options).codes().size == 72


@pytest.mark.key_reuse
def test_recode_makes_codes_that_local_dynamics_cannot():
    """From all neurons in two codes, at low T, the moves alone reach the theory's three."""
    task = tasks.toy(40, (0.5, 0.25, 0.25), y_minus=0.2)
    given = posterior.Posterior(task, networks.Network(1, 40, "sigmoidal"), 0.01)
    start = jnp.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])[jnp.arange(40) % 2]
    weights = given.planted(4 * start[:, task.labels] - 2, 2 * start - 1)

    def step(weights, key):
        weights, acceptance = moves.recode(key, weights, given)
        return weights, (weights.first, acceptance)

    _, (first, acceptance) = jax.jit(lambda w, k: jax.lax.scan(step, w, k))(
        weights, jax.random.split(jax.random.key(0), 300)
    )
    used = coding.occupancy(coding.codes(np.asarray(given.network.phi(first[200:])), task.labels))
    assert 0.02 < acceptance[200:].mean() < 0.9
    assert set(used.names[:3]) == {"1-1-0", "1-0-1", "0-1-1"}
    assert min(used.fractions[:3]) > 0.25


@pytest.mark.key_reuse
def test_imitate_evens_out_codes_and_local_dynamics_does_not():
    """From 20, 10 and 10 neurons in the theory's three codes; without the move some of the surplus stays."""
    task = tasks.toy(40, (0.5, 0.25, 0.25), y_minus=0.2)
    given = posterior.Posterior(task, networks.Network(1, 40, "sigmoidal"), 0.01)
    start = jnp.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])[
        jnp.repeat(jnp.arange(3), jnp.array([20, 10, 10]), total_repeat_length=40)
    ]
    weights = moves.gibbs(jax.random.key(1), given.planted(4 * start[:, task.labels] - 2, start), given)[0]
    shares = {}
    for name in ("imitate", "gibbs"):
        key, kept = jax.random.key(0), ("preactivations",)
        found = sample(
            given, key, num_samples=50, num_chains=1, num_warmup=200, init=weights, store=kept, moves=(name,)
        )
        codes = coding.codes(np.asarray(given.network.phi(found.preactivations[0][0])), task.labels)
        shares[name] = [np.all(codes == code, axis=-1).mean() for code in np.asarray(start)[[0, 20, 30]]]
    assert np.ptp(shares["imitate"]) < 0.04
    assert np.ptp(shares["gibbs"]) > 0.06


@pytest.mark.parametrize(
    "name",
    ["gibbs", "scale", "rotations", "split_merge"]
    + [pytest.param(name, marks=pytest.mark.weekly) for name in ("recode", "imitate", "convert", "reflect")],
)
def test_a_chain_among_many_is_the_chain_alone(name):
    """To rounding, where chains have 5,000 neurons together: compilers write other code for large arrays."""
    phi = "relu" if name == "scale" else "sigmoidal"
    given = posterior.Posterior(THREE_CLASSES, networks.Network(1, 1000, phi), 0.1)
    keys, starts = (jax.random.split(jax.random.key(k), 5) for k in (0, 1))
    weights = jax.lax.map(given.prior, starts)
    move = functools.partial(moves.MOVES[name], posterior=given)
    together = jax.jit(jax.vmap(move))(keys, weights)
    alone = jax.lax.map(lambda each: move(*each), (jax.random.clone(keys), weights))
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_what_convert_accepts_it_can_undo(monkeypatch):
    """Also of a neuron whose code no other has: it has no way back, and only such have none. By all picks."""
    monkeypatch.setattr(recoding, "_one_by_one", lambda key, weights, posterior, proposal: proposal)
    proposal = recoding.convert_features(None, None, None)
    rng = np.random.default_rng(0)
    sums = np.eye(3)  # a row's signs are its code
    others = jnp.asarray(
        rng.choice([-1.0, 1.0], (12, 3)) * [1, 1, 0] + [0, 0, 1] + 0.1 * rng.standard_normal((12, 3))
    )
    propose, picks = proposal(others, sums), jnp.linspace(0, 1, 24, endpoint=False)
    by_all_picks = jax.jit(jax.vmap(lambda row: jax.vmap(lambda pick: propose(row, None, pick))(picks)))
    codes = {tuple(row > 0) for row in np.asarray(others)}
    assert len(codes) == 4
    rows = np.array([*np.asarray(others)[:6] + 0.01, [1.0, 1.0, -1.0], [-1.0, 1.0, -1.0]])
    for row, taken, log_ratios in zip(rows, *map(np.asarray, by_all_picks(jnp.asarray(rows))), strict=True):
        ways = taken[log_ratios == 0]
        assert bool(len(ways)) == (tuple(row > 0) in codes)
        for moved, back, log_ratio in zip(
            ways, *map(np.asarray, by_all_picks(jnp.asarray(ways))), strict=True
        ):
            assert tuple(moved > 0) in codes - {tuple(row > 0)}
            assert any(np.allclose(to, row) for to in back[log_ratio == 0])


@pytest.mark.slow
@pytest.mark.key_reuse
def test_convert_brings_networks_on_images_to_equilibrium():
    """Energies from the prior and from the theory's network meet with the move and not without.

    On correlated images neurons rely on what others do within classes, which `imitate` does not take along.
    """
    given = posterior.Posterior(tasks.mnist(24, seed=1), networks.Network(1, 24, "sigmoidal"), 0.01)
    start = planting.planted(jax.random.key(0), mean_field.solve(given.task, "sigmoidal", 0.01), given)
    apart = {}
    for names in (("imitate", "reflect"), ("imitate", "convert", "reflect")):
        ends = [
            sample(
                given, jax.random.key(k), 60, num_chains=32, num_warmup=240, init=init, moves=names, store=()
            )
            for k, init in enumerate(("prior", start))
        ]
        means = np.array([end.info.energy.mean(1) for end in ends])  # of independent chains
        apart[names] = -np.diff(means.mean(1)) / np.sqrt(means.var(1, ddof=1).sum() / means.shape[1])
    without, with_it = apart.values()
    assert without > 5  # standard errors
    assert abs(with_it) < 3


@pytest.mark.key_reuse
def test_reflect_trades_codes_for_their_opposites_and_imitate_does_not():
    """From neurons in three codes only, at a T so low that no imitation is taken; readouts start anywhere."""
    task = tasks.toy(48, (1 / 2, 1 / 4, 1 / 4), y_minus=-0.5)
    given = posterior.Posterior(task, networks.Network(2, 48, "sigmoidal"), 1e-3)
    codes = np.eye(3)[np.arange(48) % 3]
    first = 4 * codes[:, task.labels] - 2
    features = np.asarray(given.network.phi(jnp.asarray(first))) / 48**0.5
    hidden = (4 * codes - 2) @ np.linalg.pinv(coding.class_means(features, task.labels))
    start = given.planted(first, np.zeros((48, 3)), (jnp.asarray(hidden, given.dtype),))
    opposite = {}
    for name in ("reflect", "imitate"):

        def again(weights, key, move=moves.MOVES[name]):
            return move(key, weights, given)[0], given.preactivations(weights)[-1]

        keys = jax.random.split(jax.random.key(0), 40)
        _, z = jax.jit(lambda w, k, again=again: jax.lax.scan(again, w, k))(start, keys)
        found = coding.codes(np.asarray(given.network.phi(z[20:])), task.labels)
        opposite[name] = np.mean(found.sum(-1) == 2, axis=1)
    assert opposite["imitate"].max() < 0.05
    assert abs(opposite["reflect"].mean() - 0.5) < 0.1
    assert opposite["reflect"].std() > 0.02


@pytest.mark.key_reuse
def test_split_merge_needs_its_proposal_density(monkeypatch):
    """Without log q(ψ) − log q(ψ′) merged states are visited too often."""
    sweep = moves._pair_sweep

    def dropped(key, weights, given, draw, propose):
        return sweep(key, weights, given, draw, lambda drawn, pair: (propose(drawn, pair)[0], 0.0))

    monkeypatch.setattr(moves, "_pair_sweep", dropped)
    z = joint_z_scores(functools.partial(moves.split_merge), networks.Network(1, 4, "relu"), 1.0)
    # rotations keep ‖w‖² and all second moments in expectation: the fourth moments show it
    assert _split_excess(moves.split_merge) > 2 * MAX_Z or z.max() > 2 * MAX_Z


@pytest.mark.key_reuse
def test_split_merge_keeps_the_fourth_moments():
    assert _split_excess(moves.split_merge) < MAX_Z
    assert _split_excess(moves.rotations) < MAX_Z


@pytest.mark.key_reuse
@pytest.mark.parametrize("move", ["split_merge", "imitate"])
def test_densities_of_proposals_are_those_drawn_from(move):
    """At very high T only they decide: ψ of a pair is uniform, few pairs are nearly merged, and E z² = 1."""
    base = posterior.Posterior(TWO_CLASSES, networks.Network(1, 2, "relu"), 1e6, 0.5)

    def one(key):
        def again(repeat, weights):
            return moves.MOVES[move](jax.random.fold_in(key, repeat), weights, base)[0]

        weights = jax.lax.fori_loop(0, 12, again, base.prior(key))
        gram = weights.readout @ weights.readout.T
        angle = 0.5 * jnp.arctan2(2 * gram[0, 1], gram[0, 0] - gram[1, 1])
        merged = jnp.abs((angle + jnp.pi / 4) % (jnp.pi / 2) - jnp.pi / 4) < moves.MERGE_WIDTH
        return jnp.append(jnp.mean(weights.first**2) - 1, merged - 4 * moves.MERGE_WIDTH / jnp.pi)

    excess = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), DRAWS)), dtype=float)
    z = np.abs(excess.mean(0)) / (excess.std(0) / DRAWS**0.5)
    assert z.max() < MAX_Z


def _split_excess(move):
    """|z| of E ã⁴ = 3 at very high T, where the posterior is the prior."""
    base = posterior.Posterior(tasks.toy(3, (1 / 3, 2 / 3)), networks.Network(1, 4, "relu"), 1e6, 0.5)

    def one(key):
        prior_key, move_key = jax.random.split(key)

        def again(repeat, weights):
            return move(jax.random.fold_in(move_key, repeat), weights, base)[0]

        return jnp.mean(jax.lax.fori_loop(0, 3, again, base.prior(prior_key)).readout ** 4)

    fourth = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(5), DRAWS)), dtype=float)
    return abs(fourth.mean() - 3) / (fourth.std() / DRAWS**0.5)


def test_gibbs_draws_have_the_closed_form_moments():
    """Readouts given the features of one network: mean and covariance against the normal equations."""
    task = tasks.toy(6, (1 / 3, 2 / 3))
    for width, is_known in ((4, False), (9, False), (4, True)):
        network = networks.Network(1, width, "sigmoidal")
        given = posterior.Posterior(task, network, 0.05)
        weights = given.prior(jax.random.key(0))
        features = np.asarray(network.phi(weights.first), dtype=float)
        scale = float(given.readout_std) * network.readout_scale
        beta = float(given.likelihood_precision)
        inverse = np.linalg.inv(np.eye(6) + beta * scale**2 * features.T @ features) if is_known else None
        keys = jax.random.split(jax.random.key(1), 20_000)
        draw = jax.jit(jax.vmap(moves.gibbs, (0, None, None, None)))
        draws = np.asarray(draw(keys, weights, given, inverse)[0].readout, dtype=float)
        covariance = np.linalg.inv(np.eye(width) + beta * scale**2 * features @ features.T)
        mean = covariance @ (beta * scale * features @ task.targets)
        error = np.sqrt(np.diag(covariance))[:, None] / len(draws) ** 0.5
        assert np.all(np.abs(draws.mean(0) - mean) < MAX_Z * error)
        sampled = np.cov(draws[:, :, 0].T)
        spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) * 2 / len(draws))
        assert np.all(np.abs(sampled - covariance) < MAX_Z * spread)


def test_rotating_a_pair_keeps_a_linear_networks_output():
    task = tasks.toy(5, (0.4, 0.6))
    given = posterior.Posterior(task, networks.Network(2, 6, "linear"), 0.1)
    weights = given.prior(jax.random.key(0))
    moved, acceptance = moves.rotations(jax.random.key(1), weights, given)
    np.testing.assert_allclose(given.outputs(moved), given.outputs(weights), atol=1e-5)
    assert float(acceptance) == pytest.approx(1, abs=1e-4)
    assert not np.allclose(moved.readout, weights.readout)


def _exchange_moments(exchange):
    """⟨U_likelihood⟩ of both replicas of a conjugate model after many exchanges and Gibbs draws."""
    task = tasks.toy(4, (0.5, 0.5))
    network = networks.Network(1, 3, "linear")
    given = posterior.Posterior(task, network, 0.1, 1.0)
    temperatures = jnp.array([0.1, 0.4])
    fixed = given.prior(jax.random.key(0))

    def draw(key, temperature):
        return moves.gibbs(key, fixed, given.at_temperature(temperature))[0]

    def one(key):
        first, second, third = jax.random.split(key, 3)
        pair = jax.tree.map(
            lambda a, b: jnp.stack([a, b]), draw(first, temperatures[0]), draw(second, temperatures[1])
        )
        pair, _ = exchange(third, pair, 0, posterior=given, temperatures=temperatures)
        return jax.vmap(given.squared_error)(pair)

    def reference(key):
        return jnp.stack(
            [given.squared_error(draw(k, T)) for k, T in zip(jax.random.split(key), temperatures)]
        )

    after = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), DRAWS)))
    before = np.asarray(jax.jit(jax.vmap(reference))(jax.random.split(jax.random.key(2), DRAWS)))
    error = np.sqrt((after.var(0) + before.var(0)) / DRAWS)
    return np.abs(after.mean(0) - before.mean(0)) / error


@pytest.mark.key_reuse
def test_exchange_keeps_both_temperatures():
    assert _exchange_moments(moves.exchange).max() < MAX_Z


def test_exchange_swaps_neighbours_with_the_probability_of_its_formula():
    """Three replicas: what comes out is a permutation of what went in, as often as ½ Δβ Δ‖Y − f‖² says."""
    given = posterior.Posterior(tasks.toy(4, (0.5, 0.5)), networks.Network(1, 3, "sigmoidal"), 0.5)
    temperatures, draws = jnp.array([0.5, 0.8, 1.5]), 4_000
    weights = jax.vmap(given.prior)(jax.random.split(jax.random.key(4), 3))
    order = jnp.argsort(jax.vmap(given.squared_error)(weights))  # so that swaps are sometimes refused
    weights = jax.tree.map(lambda leaf: leaf[order], weights)
    error = np.asarray(jax.vmap(given.squared_error)(weights))
    precision = 3 / np.array([0.5, 0.8, 1.5])  # N/T

    def swap(key, parity):
        moved, probability = moves.exchange(key, weights, parity, posterior=given, temperatures=temperatures)
        return moved.first, moved.readout, probability

    swaps = jax.jit(jax.vmap(swap, (0, None)))
    for parity, order in ((0, [1, 0, 2]), (1, [0, 2, 1])):
        k = parity
        expected = np.exp(0.5 * (precision[k] - precision[k + 1]) * (error[k] - error[k + 1]))
        keys = jax.random.split(jax.random.key(parity), draws)
        first, readout, probability = swaps(keys, parity)
        np.testing.assert_allclose(probability, expected, rtol=1e-4)
        swapped = np.all(np.asarray(first) == np.asarray(weights.first)[order], axis=(1, 2, 3))
        kept = np.all(np.asarray(first) == np.asarray(weights.first), axis=(1, 2, 3))
        assert np.all(swapped ^ kept)  # nothing is lost, nothing is there twice
        np.testing.assert_array_equal(readout[swapped][0], weights.readout[np.array(order)])
        assert abs(swapped.mean() - expected) < MAX_Z * (expected * (1 - expected) / draws) ** 0.5


@pytest.mark.key_reuse
def test_exchange_without_its_ratio_is_caught():
    def always(key, weights, parity, *, posterior, temperatures):
        return jax.tree.map(lambda leaf: leaf[::-1], weights), 1.0

    assert _exchange_moments(always).min() > 2 * MAX_Z


def test_a_pair_is_drawn_as_often_before_its_rotation_as_after():
    """With probability (‖a_i‖² + ‖a_j‖²)/((N − 1) Σ‖a_k‖²), which the rotation keeps: detailed balance.

    Three neurons, of which one pair is tried; at this temperature every rotation is accepted.
    """
    task = tasks.toy(3, (1 / 3, 1 / 3, 1 / 3))
    given = posterior.Posterior(task, networks.Network(1, 3, "relu"), 1e9)
    sizes, draws = jnp.array([4.0, 1.0, 0.25], jnp.float32), 6_000
    rotated_often = jax.jit(jax.vmap(lambda key, weights: moves.rotations(key, weights, given)[0], (0, None)))
    weights = given.prior(jax.random.key(0))._replace(readout=jnp.diag(sizes))

    def chosen(seed, weights):
        """Probability of each pair by formula, and by which two rows of readouts moved."""
        squares = np.square(np.asarray(weights.readout, float)).sum(1)
        expected = (squares.sum() - squares) / (2 * squares.sum())  # index: the neuron left out
        keys = jax.random.split(jax.random.key(seed), draws)
        readouts = np.asarray(rotated_often(keys, weights).readout)
        left_out = np.all(readouts == np.asarray(weights.readout), axis=2)
        assert np.all(left_out.sum(1) == 1)
        return expected, left_out.mean(0), readouts[left_out[:, 2]][0]

    expected, found, rotated = chosen(1, weights)
    assert np.all(np.abs(found - expected) < MAX_Z * np.sqrt(expected * (1 - expected) / draws))
    again = chosen(2, weights._replace(readout=jnp.asarray(rotated)))
    assert again[0][2] == pytest.approx(expected[2], rel=1e-5)
    assert abs(again[1][2] - expected[2]) < MAX_Z * (expected[2] * (1 - expected[2]) / draws) ** 0.5


@pytest.mark.parametrize("name", ["rotations", "split_merge"])
def test_angles_of_pairs_are_drawn_from_the_law_of_their_proposal(name, monkeypatch):
    """By Kolmogorov and Smirnov: of either sign, half of them near no change or near the merged states."""
    monkeypatch.setattr(moves, "_pair_sweep", lambda key, weights, posterior, draw, propose: draw)
    uniforms = np.random.default_rng(0).random((4, 20_000))
    angles = np.asarray(moves.MOVES[name](None, None, None)(*uniforms))

    def size_cdf(x):
        if name == "rotations":
            return 0.5 * np.clip(1 + np.log10(x) / 3, 0, 1) + 0.5 * x / np.pi
        laplace = np.expm1(-x / moves.MERGE_WIDTH) / np.expm1(-np.pi / 4 / moves.MERGE_WIDTH)
        return 0.5 * laplace + 0.5 * x / (np.pi / 4)

    if name == "split_merge":
        assert np.mean(angles > np.pi / 4) == pytest.approx(0.5, abs=0.02)
        angles = np.where(angles > np.pi / 4, angles - np.pi / 2, angles)
    assert stats.kstest(angles, lambda x: 0.5 + 0.5 * np.sign(x) * size_cdf(np.abs(x))).pvalue > 1e-3


@pytest.mark.parametrize("width", [1, 2, 7, 16, 37])
def test_a_neuron_is_picked_from_the_table_as_from_the_running_sum(width):
    rng = np.random.default_rng(width)
    masses = rng.exponential(size=width) * (rng.uniform(size=width) < 0.7)
    masses[rng.integers(width)] = 1.0
    columns = int(np.ceil(width**0.5))
    table = jnp.asarray(np.pad(masses, (0, -width % columns)).reshape(-1, columns))
    fractions = np.append(rng.uniform(size=400), 0.0)
    wanted = np.searchsorted(np.cumsum(masses), fractions * masses.sum(), side="right")
    found = jax.vmap(lambda fraction: moves._picked(table, fraction))(jnp.asarray(fractions))
    np.testing.assert_array_equal(found, wanted)


def test_the_next_pair_is_drawn_by_the_readouts_that_the_last_one_left():
    """Two pairs of five neurons, the readouts at first all in one: it is in the second pair, unless it gave
    a part sin²θ of its square away, and that part is drawn with a partner that is another.
    """
    task = tasks.toy(5, (0.4, 0.2, 0.4))
    given = posterior.Posterior(task, networks.Network(1, 5, "relu"), 1e9)
    weights = given.prior(jax.random.key(0))._replace(first=jnp.eye(5, dtype=jnp.float32))
    weights = weights._replace(readout=jnp.zeros((5, 3), jnp.float32).at[3, 0].set(1.0))
    keys = jax.random.split(jax.random.key(1), 4_000)
    rotated = jax.jit(jax.vmap(lambda key: moves.rotations(key, weights, given)[0]))(keys)
    mixed = np.sum(np.asarray(rotated.first) != 0, axis=2)  # rows in each: three in the second pair's
    found = np.mean((mixed[:, 3] == 2) & (mixed.max(1) == 3))
    sizes = np.linspace(0, 1, 10_001)
    given_away = 0.5 * np.mean(np.sin(10 ** (-3 * sizes)) ** 2) + 0.5 * 0.5
    expected = 0.75 * given_away  # of four partners one is the first neuron
    assert abs(found - expected) < MAX_Z * (expected * (1 - expected) / len(keys)) ** 0.5
