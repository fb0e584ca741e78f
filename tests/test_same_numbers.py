"""Numbers of samplers, training, measures and formulas, kept as they are: see `kept_numbers`.

Few steps of each, in double precision, so that they are the same on every processor.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes import barriers, coding, planting, sampling, statistics, tasks, theory, training
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, Langevin, PlainLangevin, diagnostics, moves, recoding
from coding_schemes.theory import (
    adaptive_kernel,
    clustered,
    condensation,
    deep_condensation,
    dmft,
    dynamics,
    finite_width,
    outliers,
    relu,
    sigmoidal,
    two_point,
)

THREE = tasks.toy(8, (0.5, 0.25, 0.25), y_minus=0.2)
GENERAL = tasks.Task(
    np.random.default_rng(0).standard_normal((5, 7)),
    np.array([0, 0, 0, 1, 1, 2, 2]),
    np.random.default_rng(1).standard_normal((7, 2)),
    np.random.default_rng(2).standard_normal((5, 3)),
    np.array([0, 1, 2]),
    np.random.default_rng(3).standard_normal((3, 2)),
)
LABELS = np.repeat([0, 1, 2], [5, 3, 2])


def posterior(task, depth, phi, scaling="non-lazy"):
    return Posterior(task, Network(depth, 9, phi, scaling), 0.1, dtype=jnp.float64)


@pytest.mark.parametrize("scaling", ["non-lazy", "lazy"])
@pytest.mark.parametrize(("depth", "phi"), [(1, "relu"), (2, "sigmoidal"), (3, "tanh")])
def test_posterior(depth, phi, scaling, same_as_kept):
    found = posterior(GENERAL, depth, phi, scaling)
    weights = found.prior(jax.random.key(1))
    energy, slope = jax.value_and_grad(found.energy)(weights)
    same_as_kept(
        [
            weights,
            energy,
            slope,
            found.outputs(weights),
            found.preactivations(weights),
            found.readouts(weights),
            found.predict(jax.random.key(2), weights, GENERAL.test_inputs),
        ]
    )


@pytest.mark.parametrize("task", [THREE, GENERAL], ids=["orthogonal", "general"])
@pytest.mark.parametrize("phi", ["sigmoidal", "relu"])
@pytest.mark.parametrize("name", sorted(moves.MOVES))
def test_moves(name, phi, task, same_as_kept, monkeypatch):
    """Of sixteen networks each, most of which accept or refuse by a wide margin."""
    monkeypatch.setattr(recoding, "SHARE", 0.5)
    found = posterior(task, 1, phi)
    try:
        moves.check(name, found)
    except ValueError:
        pytest.skip("no move for this network")
    weights = jax.vmap(found.prior)(jax.random.split(jax.random.key(1), 16))

    def move(key, weights):
        return moves.MOVES[name](key, weights, found)

    same_as_kept(jax.jit(jax.vmap(move))(jax.random.split(jax.random.key(2), 16), weights))


METHODS = {
    "hmc": HMC(0.2, 4, step_size=0.05),
    "langevin": Langevin(3, 0.02),
    "plain": PlainLangevin(0.001, 3),
    "unit": PlainLangevin(0.001, 3, mobility="unit"),
    "minibatch": PlainLangevin(0.001, 3, batch_size=2),
}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_samplers(method, depth, same_as_kept):
    found = posterior(GENERAL, depth, "tanh")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = sampling.sample(
            found,
            jax.random.key(3),
            num_samples=4,
            num_chains=2,
            num_warmup=2 if method in ("hmc", "langevin") else 0,
            thinning=2,
            moves=(),
            method=METHODS[method],
            predict_inputs=GENERAL.test_inputs,
            progress=False,
        )
    shown = [samples.weights, samples.info, samples.predictions, samples.activations()]
    same_as_kept([*shown, samples.codes(), diagnostics.observables(samples, found)])


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("kind", ["dense", "skip", "dropout", "convolution"])
def test_training(kind, adam, same_as_kept):
    size = {"width": 35, "depth": 2} if kind == "convolution" else {"width": 9, "depth": 3}
    model = training.Architecture("tanh", gain=1.1, kind=kind, **size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = training.train(
            model,
            jax.random.key(3),
            np.array([[-1.0, 0.0, 0.4], [0.5, 1.0, 0.2]]),
            np.array([[0.6], [1.3], [0.1]]),
            learning_rate=0.01,
            num_steps=12,
            adam=adam,
            weight_decay=0.3,
            batch_size=2,
            repeats=2,
            record_every=4,
        )
    same_as_kept(run, rtol=1e-4)


def test_measures_of_neurons(same_as_kept):
    rng = np.random.default_rng(0)
    activations = np.maximum(rng.standard_normal((4, 6, 12, 10)) + 3 * (rng.random((12, 1)) > 0.7), 0)
    readouts, z = rng.standard_normal((4, 6, 12, 3)), rng.standard_normal((4, 6, 12, 10))
    codes = coding.codes(activations, LABELS, 0.8)
    test_codes = coding.codes(activations + 0.2 * z, LABELS, 0.8)
    means, kernels = coding.class_means(activations, LABELS), coding.kernels(activations)
    sparse = coding.sparse_measures(readouts, z, activations, LABELS)
    same_as_kept(
        {
            "means": means,
            "deviations": coding.class_deviations(activations, LABELS),
            "codes": codes,
            "occupancy": coding.occupancy(codes),
            "participation": coding.participation(activations, LABELS),
            "of classes": coding.class_participation(activations, LABELS),
            "by activity": coding.sort_by_activity(activations[0, 0]),
            "by code": coding.sort_by_code(codes[0, 0], activations[0, 0]),
            "kernels": kernels,
            "alignment": coding.kernel_alignment(kernels, np.eye(10) + 0.1, centered=True),
            "outliers": coding.outliers(activations, LABELS),
            "sparse": sparse,
            "settled": coding.settled_codes(means),
            "switches": coding.switch_rate(codes, 0.5),
            "collapse": coding.neural_collapse(activations, LABELS),
            "gram": coding.class_gram(activations, LABELS),
            "agreement": coding.code_agreement(codes, test_codes),
            "error": coding.generalization_error(readouts[0, 0], readouts[0, 0] ** 2, readouts[0, 1]),
            "strengths": outliers.measured_strengths(sparse),
            "variation": outliers.measured_variation(sparse),
        }
    )


def test_statistics(same_as_kept):
    rng = np.random.default_rng(0)
    series = np.cumsum(rng.standard_normal((4, 40, 5)), axis=1) * 0.3 + rng.standard_normal((4, 40, 5))
    sizes, values = np.array([50, 100, 200, 400]), np.array([3.0, 2.2, 1.4, 1.1])
    same_as_kept(
        {
            "ess": statistics.effective_sample_size(series),
            "bulk": statistics.effective_sample_size(series, "bulk"),
            "rhat": statistics.rhat(series),
            "time": statistics.autocorrelation_time(series),
            "mean": statistics.mean_and_error(series),
            "autocorrelation": statistics.autocorrelation(series[..., None], 12),
            "order": statistics.permutation_order(series[..., None]),
            "infinite": statistics.infinite_width(sizes, values[:, None] * [1.0, 2.0], 0.1 * np.ones((4, 2))),
            "share": statistics.share_of_way(series, series[0, :, :], series[1, :, :]),
            "law": statistics.fit_power_law(sizes, values, 0.05 * values),
            "law alone": statistics.fit_power_law(sizes, values),
            "variance": statistics.variance_in_time(series),
            "barrier": statistics.fit_barrier_scale(
                [np.array([0.1, 0.2]), np.array([0.15])],
                [np.array([20, 5]), np.array([3])],
                [np.array([1e3, 1e3]), np.array([1e4])],
            ),
        }
    )


CLUSTERED = tasks.clustered(24, (0.5, 0.25, 0.25), overlap=0.4, y_minus=-0.5)
PAIR = tasks.Task(np.array([[1.3, 0.4], [0.2, 1.1]]), np.array([0, 1]), np.array([[1.0], [-1.0]]))


@functools.cache
def condensate():
    return condensation.solve(CLUSTERED, 0.02)


def formulas():
    """Theories that no network is given to, and what is computed from solutions."""
    yield "condensate", condensate
    yield "condensate at a width", lambda: condensate().at_width(200, np.ones(3))
    yield "its neurons", lambda: condensate().neurons(60)
    yield "its largest", lambda: condensate().largest_share(60)
    yield "its density", lambda: condensate().log_density(1, np.linspace(0.5, 9, 8))
    yield "silence", lambda: [condensation.log_silence(n, 0.3, 1.2) for n in (2, 5, 40)]
    yield "two layers", lambda: deep_condensation.solve(tasks.toy(24, (0.5, 0.5), y_minus=-0.5), 0.05)
    for phi in ("sigmoidal", "relu"):
        yield f"clustered {phi}", lambda phi=phi: clustered.solve(CLUSTERED, 0.05, nonlinearity=phi)
    for phi in ("erf", "relu", "sigmoidal"):
        yield (
            f"adaptive {phi}",
            lambda phi=phi: adaptive_kernel.solve(PAIR, Network(1, 9, phi), 0.8, 0.1, method="quadrature"),
        )
    yield "overlaps", lambda: [adaptive_kernel.overlaps(n, 1.3, 0.1) for n in (1, 2, 4)]
    yield "transitions", lambda: sigmoidal.scan(THREE, [0.01, 0.2, 0.5])
    yield "critical", lambda: sigmoidal.critical_temperature(tasks.toy(16, y_minus=0.0))
    yield "outliers", lambda: outlier_numbers(tasks.toy(40, y_minus=-0.5))
    yield "neuron counts", lambda: numbers_of_codes(sigmoidal.solve(tasks.toy(20, y_minus=0.1), 0.05))
    yield "memory", lambda: memory(theory.linear.solve(tasks.toy(20, y_minus=0.0), 1, 0.05))
    yield "outlier variances", lambda: dynamics.outlier_variances(tasks.toy(40, y_minus=-0.5), 0.02, 40, 0.01)
    yield "two points", two_points
    yield "flow", lambda: dmft.population(GENERAL, "tanh", 1.0, 0.1, duration=3, num_neurons=20)
    yield "planted", planted


def outlier_numbers(task):
    solved = relu.solve(task, 0.02)
    finite = relu.finite_size(solved, 40)
    return [
        finite,
        outliers.strengths(solved, 40),
        outliers.variation(finite),
        outliers.overlaps(solved),
        outliers.spare_outliers(solved, 40),
    ]


def numbers_of_codes(solution):
    codes = solution.codes[solution.probabilities > 0.02]
    return [
        finite_width.numbers(solution, codes, 20),
        finite_width.number_moments(solution, codes, 20),
        finite_width.readout_moments(solution, codes[0], 0, 20),
        sigmoidal.occupancy_covariance(solution, codes),
        sigmoidal.readout_density(solution, 0, np.linspace(-3, 3, 9)),
    ]


def memory(solution):
    lags = np.linspace(0, 20, 6)
    return [dynamics.linear_memory(solution, lags, n, m) for n, m in ((None, 1.0), (None, 20.0), (40, 1.0))]


def two_points():
    solved = two_point.solve(0.2, 0.5, 1.0, 0.8, 1.3, 1.0, 0.5, np.linspace(0, 8, 30))
    return [
        solved,
        two_point.fixed_points(0.2, 0.5, 0.8, 1.3, 1.0, 0.5),
        two_point.loss_curve(solved, 1.1, 0.4, 0.5),
    ]


def planted():
    found = posterior(THREE, 1, "sigmoidal")
    solution = theory.solve(THREE, found.network, 0.1)
    weights = planting.planted(jax.random.key(4), solution, found)
    networks = jax.tree.map(lambda w: np.asarray(w)[None], weights)
    merged = planting.merged(networks, np.random.default_rng(0).random((1, 9, 3)) > 0.5)
    # the signs of neurons that are not the merged one are free
    return [weights, np.abs(merged.readout), np.einsum("kna,knd->ad", merged.readout, merged.first)]


@pytest.mark.parametrize("formula", [pytest.param(make, id=name) for name, make in formulas()])
def test_formulas(formula, same_as_kept):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_as_kept(formula())


def test_paths_between_minima(same_as_kept):
    def energy(x):
        return (x[..., 0] ** 2 - 1) ** 2 + 0.5 * (x[..., 1] - 0.3 * x[..., 0] ** 2) ** 2

    ends = [np.array([-1.0, 0.3]), np.array([1.0, 0.3])]
    same_as_kept(barriers.minimum_energy_path(energy, ends, step_size=0.05), rtol=1e-3)
