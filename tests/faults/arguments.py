"""Bad arguments of the public functions of coding_schemes: a row for each argument, with all that was tried.

What must come is a ValueError that names the argument, before anything is computed; where a value stands in
`Says`, it has to say that, too.
"""

import re
import signal
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from coding_schemes import (
    barriers,
    coding,
    diagnose,
    networks,
    planting,
    posterior,
    sampling,
    statistics,
    tasks,
    theory,
    training,
)
from coding_schemes.sampling import integrated
from coding_schemes.theory import condensation, dynamics, features, finite_width, outliers, wishart_chain

SECONDS = 10  # after which an argument counts as accepted

nan, inf = float("nan"), float("inf")
COUNT = (0, -1, 2.0, 1.5, True, "3", nan)
INDEX = (-1, 99, 1.0, "0")
POSITIVE = (0.0, -1.0, nan, inf, "1", 1j, True)
AT_LEAST_0 = (-1.0, nan, inf, "1", 1j)
FRACTION = (-0.5, 2.0, nan, "0.5")
FINITE = (nan, inf, "1", 1j)
NAME = ("plantd", "", 3, None)
OBJECT = (None, 3, "toy")
SEED = (-1, 1.5, "1")
KEY = (0, None, "key", 1.5)
RAGGED = [[1.0], [1.0, 2.0]]


def arrays(good: Any) -> tuple[Any, ...]:
    """An array spoiled in every way that keeps it an array, or nearly one."""
    good = np.asarray(good)
    return (
        np.where(np.arange(good.size).reshape(good.shape) == 0, nan, good),
        np.where(np.arange(good.size).reshape(good.shape) == 0, inf, good),
        good + 1j,
        good.astype(str),
        good[..., None, None, None, None, None],  # the fifth: fine where leading axes are free
        np.zeros((0, *good.shape[1:])),
        np.ma.masked_where(np.arange(good.size).reshape(good.shape) == 0, good),
        list(np.ma.masked_where(np.arange(good.size).reshape(good.shape) == 0, good)),
        RAGGED,
        None,
    )


def leading(good: Any) -> tuple[Any, ...]:
    """As `arrays`, for an argument with any leading axes."""
    values = arrays(good)
    return values[:4] + values[5:]


class Says(NamedTuple):
    """A value, and what its refusal has to say beside the argument's name: a regular expression."""

    value: Any
    words: str


class Row(NamedTuple):
    """One argument of one function, and what was tried for it."""

    function: str
    argument: str
    call: Callable[..., Any]
    values: tuple[Any, ...]


@cache
def toy(m: int = 3) -> tasks.Task:
    return tasks.toy(num_inputs=12, class_ratios=(0.5, 0.25, 0.25) if m == 3 else (0.5, 0.5), y_minus=-0.5)


@cache
def redundant() -> Any:
    return theory.sigmoidal.solve(toy(2), 0.01)


@cache
def frozen() -> Any:
    return Says(theory.sigmoidal.solve(toy(2), 0.01, codes=[[1, 0], [0, 1]]), "restricted to some codes")


@cache
def sparse() -> Any:
    return theory.relu.solve(toy(), 0.01)


LABELS = np.repeat(np.arange(3), 4)
PHI = np.random.default_rng(0).random((2, 5, 6, 12))  # chains, samples, N, P
READOUTS = np.random.default_rng(1).standard_normal((2, 5, 6, 3))
CODES = PHI[..., ::4] > 0.5
LABELS_BAD = (
    LABELS - 1,
    LABELS + 0.5,
    LABELS + 1j,
    LABELS[1:],
    2 * LABELS,
    LABELS * 10**12,
    LABELS.astype(str),
    np.where(LABELS == 2, nan, LABELS),
    LABELS[None],
    None,
)
CODES_BAD = (CODES.astype(float), CODES[0, 0, 0], CODES[:0], "1-1-0", None)


@cache
def rows() -> tuple[Row, ...]:
    """The table."""
    return tuple(
        Row(name[0] if name else _name(function), argument, partial(_call, function, good, argument), values)
        for *name, function, good, bad in _table()
        for argument, values in bad.items()
    )


def _name(function: Callable[..., Any]) -> str:
    """Where a reader finds it."""
    return f"{function.__module__.removeprefix('coding_schemes.')}.{function.__name__}"


def _call(function: Callable[..., Any], good: Callable[[], dict[str, Any]], argument: str, value: Any) -> Any:
    return function(**{**good(), argument: value})


def attempt(row: Row, value: Any) -> tuple[str, str]:
    """What came of one value, and "survived", "obscure" or "silent"."""
    value, words = value if isinstance(value, Says) else (value, "")

    def stop(*_):
        raise TimeoutError(f"still running after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        row.call(value)
    except ValueError as error:
        text = " ".join(str(error).split())
        named = text.partition(":")[0].replace(",", " ").split()
        return text, "survived" if row.argument in named and re.search(words, text) else "obscure"
    except TimeoutError as error:
        return str(error), "silent"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}", "obscure"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return "accepted", "silent"


def _table() -> Iterator[tuple[Any, ...]]:
    """A name, where `_name` has another; function, good arguments, and bad values of each that is tried."""
    yield from _of_tasks()
    yield from _of_networks()
    yield from _of_sampling()
    yield from _of_codes()
    yield from _of_statistics()
    yield from _of_theory()
    yield from _of_training()


def _of_tasks():
    ratios = (nan, (0.5, 0.6), (-0.5, 1.5), (), "half", (0.5, nan), (1, 1j))
    ratios += (Says((0.5, 0.4), "with sum 0.9"), Says((0.99, 0.01), "class 1 empty"))
    targets = arrays(np.eye(3))
    number = {"y_plus": FINITE, "y_minus": FINITE, "seed": SEED}
    yield (
        tasks.toy,
        lambda: {"num_inputs": 12},
        {
            "num_inputs": COUNT,
            "class_ratios": ratios,
            "input_dim": (Says(3, "at least 12"), 2.5, "40"),
            **number,
        },
    )
    yield (
        tasks.toy,
        lambda: {"num_inputs": 12},
        {"targets": (*targets[:-1], Says(np.tile([1.0, 0.0], (3, 1)), "no task to learn"))},
    )
    images = {
        "num_inputs": COUNT,
        "num_test": (-1, 1.5, "3"),
        "classes": ((0, 0), (0, 11), (-1, 1), (0.5, 1), "01"),
        "normalization": (Says("whiten", "allowed are 'standardize'"), *NAME),
        "targets": targets[:-1],
        **number,
    }
    few = {"num_inputs": (Says(4000, "class 0 needs .* only"),)}
    yield tasks.mnist, dict, few
    few = {"num_inputs": (Says(1500, "class . needs .* only"),)}  # each of the two alone would fit
    yield tasks.mnist, lambda: {"num_test": 2000}, few
    yield tasks.mnist, lambda: {"num_inputs": 9, "num_test": 3}, {**images, "pool": NAME}
    yield tasks.cifar10, lambda: {"num_inputs": 9}, {**images, "pool": NAME}
    yield tasks.fashion_mnist, dict, {"num_inputs": COUNT, "normalization": NAME}
    yield tasks.two_points, dict, {"dx2": POSITIVE, "dy2": AT_LEAST_0}
    yield (
        tasks.blobs,
        lambda: {"num_positions": 3},
        {"num_positions": (1, *COUNT), "num_pixels": (1, *COUNT), "blob_width": POSITIVE},
    )
    one_hot = {"num_classes": COUNT, "y_plus": FINITE, "y_minus": FINITE}
    yield tasks.one_hot, lambda: {"num_classes": 3, "y_plus": 1, "y_minus": 0}, one_hot
    overlap = (Says(1.0, "below 1"), -0.1, Says((0.1, 0.2), "one for each of 3"), nan)
    clustered = {"overlap": overlap, "input_dim": (9,)}
    yield tasks.clustered, lambda: {"num_inputs": 12}, clustered
    tree = {"overlaps": ((0.2, 0.5),), "groups": (Says((0, 0, 2, 2), "class 1"), Says((0, 1), "got shape"))}
    yield tasks.tree, lambda: {"num_inputs": 12}, tree
    projected = {"task": OBJECT, "input_dim": COUNT, "seed": SEED}
    yield tasks.projected, lambda: {"task": toy(), "input_dim": 4}, projected
    X, Y = np.random.default_rng(0).random((4, 12)), np.eye(3)[LABELS]
    split = {"test_inputs": X, "test_labels": LABELS, "test_targets": Y}
    yield (
        tasks.Task,
        lambda: {"inputs": X, "labels": LABELS, "targets": Y, **split},
        {
            "inputs": arrays(X),
            "labels": LABELS_BAD,
            "targets": (*arrays(Y), Y[1:]),
            "test_inputs": (*arrays(X)[:-1], Says(X[1:], "N0 = 4"), Says(0 * X, "are all zero")),
            "test_labels": (LABELS - 1, LABELS + 1, LABELS + 0.5, LABELS[1:], LABELS.astype(str)),
            "test_targets": (*arrays(Y)[:-1], Y[:, 1:]),
            "class_names": (("a",), "ab"),
        },
    )
    masked = Says(np.ma.masked_equal(LABELS, 1), "4 values are masked")
    zero = Says(0 * X, "are all zero, so that no network can tell them apart")
    bad = {"inputs": (*arrays(X)[:4], *arrays(X)[5:], zero, X[0], X[None], X[:, :0])}
    bad |= {"labels": (masked, LABELS[1:], Says(2 * LABELS, "class 1 has no input"))}
    bad |= {"targets": (*arrays(Y)[:-1], Y[1:], Y[:, 0])}
    yield tasks.own, lambda: {"inputs": X, "labels": LABELS, "targets": Y}, bad


def _of_networks():
    yield (
        networks.Network,
        dict,
        {
            "depth": COUNT,
            "width": COUNT,
            "nonlinearity": (
                "sigmoid",
                Says("ReLU", "allowed are"),
                3,
                None,
                np.sum,
                Says(lambda z: z / 0, "NaN or infinite"),
                lambda z: z[::-1],
                Says(jnp.cumsum, "not elementwise"),
                Says(lambda z: z.missing, "failed on a vector"),
            ),
            "scaling": NAME,
            "weight_std": (*POSITIVE, (), (1.0, 2.0), (1.0, 0.0), [None]),
        },
    )
    bad = {"weight_std": (Says((1.0, 2.0, 3.0), "per layer, 2"), Says((1.0, 2.0), "may differ only where"))}
    yield networks.Network, lambda: {"depth": 2, "nonlinearity": "tanh"}, bad
    yield (
        posterior.Posterior,
        lambda: {"task": toy(), "network": networks.Network(1, 8, "relu"), "temperature": 0.1},
        {
            "task": OBJECT,
            "network": OBJECT,
            "temperature": (*POSITIVE, Says(1e-300, "in float32"), 1e-45),
            "readout_variance": POSITIVE,
            "dtype": (int, "int32", complex),
        },
    )


@cache
def small() -> posterior.Posterior:
    return posterior.Posterior(toy(), networks.Network(1, 8, "relu"), temperature=0.1)


def _of_sampling():
    key = jax.random.key(0)
    weights = posterior.Weights(np.zeros((8, 12)), (), np.zeros((8, 3)))
    bad_weights = (
        weights._replace(first=np.full((8, 12), nan)),
        weights._replace(first=np.zeros((7, 12))),
        weights._replace(readout=np.zeros((8, 3)) + 1j),
        weights._replace(hidden=(np.zeros((8, 8)),)),
        None,
        "plantd",
    )
    yield (
        "sampling.sample",
        sampling.sample,
        lambda: {"posterior": small(), "key": key, "num_samples": 2, "num_chains": 1, "num_warmup": 2},
        {
            "posterior": OBJECT,
            "key": KEY,
            "num_samples": COUNT,
            "num_chains": COUNT,
            "num_warmup": (-1, 1.5, True, "3", (2, -1), (2, 2, 2)),
            "thinning": COUNT,
            "method": (Says("hcm", "did you mean 'hmc'"), 3, None),
            "moves": ("gibs", Says(("gibs",), "did you mean 'gibbs'"), 3, None, ("recode",)),
            "init": bad_weights,
            "anneal_from": AT_LEAST_0,
            "temperatures": ((0.05,), (0.3, 0.2), (nan,), (inf,), ("hot",), 0.5),
            "store": (("weight",), Says(("redouts",), "did you mean 'readouts'"), (3,), "weights", None),
            "predict_inputs": (*arrays(toy().inputs)[:-1], toy().inputs[1:]),
        },
    )

    for phi, depth, move, words in (
        ("sigmoidal", 1, "scale", "homogeneous"),
        ("relu", 1, "reflect", "2φ"),
        ("sigmoidal", 2, "recode", "one hidden layer"),
    ):
        given = posterior.Posterior(toy(), networks.Network(depth, 8, phi), 0.1)
        good = lambda given=given: {"posterior": given, "key": key, "num_samples": 2}  # noqa: E731
        yield "sampling.sample", sampling.sample, good, {"moves": (Says((move,), words),)}
    whole = {"features": features.dense(toy(), "tanh"), "richness": 1.0, "ridge": 0.1, "widths": (4,)}
    whole |= {"key": key, "inputs": toy().inputs}
    bad = {
        "key": KEY,
        "features": OBJECT,
        "inputs": (*arrays(toy().inputs), toy().inputs[1:]),
        "richness": POSITIVE,
        "ridge": POSITIVE,
        "widths": ((), 3, "3", *((each,) for each in COUNT)),
        "num_samples": COUNT,
        "num_chains": COUNT,
        "num_warmup": (-1, 1.5, True, "3"),
        "thinning": COUNT,
    }
    yield integrated.sample, lambda: whole, bad

    def settings(kind, name, value):
        given = {"step_size": 0.1} if kind is sampling.PlainLangevin else {}
        options = {"num_chains": 1, "num_warmup": 2, "method": kind(**{**given, name: value})}
        return sampling.sample(small(), key, 2, **options)

    for kind, bad in (
        (sampling.HMC, {"trajectory_length": POSITIVE, "max_num_steps": COUNT, "step_size": POSITIVE}),
        (sampling.HMC, {"target_acceptance": (0, 1, *FRACTION), "stretch": POSITIVE}),
        (sampling.Langevin, {"num_steps": COUNT, "step_size": POSITIVE, "target_acceptance": FRACTION}),
        (
            sampling.PlainLangevin,
            {"num_steps": COUNT, "step_size": (*POSITIVE, None), "batch_size": (99, *COUNT)},
        ),
        (sampling.PlainLangevin, {"mobility": (Says("units", "did you mean 'unit'"), 3, None)}),
    ):
        for name, values in bad.items():
            call = partial(settings, kind, name)
            yield f"sampling.{kind.__name__}", lambda call=call, **a: call(*a.values()), dict, {name: values}
    cold = lambda **size: sampling.sample(small(), key, 2, num_warmup=0, method=sampling.HMC(**size))  # noqa: E731
    yield "sampling.HMC without warm-up", cold, dict, {"step_size": (None,)}
    yield (
        "Posterior.new_inputs",
        small().new_inputs,
        lambda: {"inputs": toy().inputs},
        {"inputs": (*arrays(toy().inputs), toy().inputs[1:])},
    )


def _of_codes():
    with_labels = {"activations": (*leading(PHI[0, 0]), PHI[0, 0, 0]), "labels": LABELS_BAD}
    good = {"activations": PHI[0, 0], "labels": LABELS}
    for function in (
        coding.class_means,
        coding.class_deviations,
        coding.codes,
        coding.participation,
        coding.outliers,
        coding.neural_collapse,
        coding.class_gram,
    ):
        extra = {"threshold": FINITE} if function is coding.codes else {}
        extra |= {"share": (0, 1, *FRACTION)} if function is coding.outliers else {}
        one = (*LABELS_BAD, Says(0 * LABELS, "at least two"))
        extra |= {"labels": one} if function is coding.neural_collapse else {}
        yield function, lambda: good, with_labels | extra
    activations = {"activations": (*leading(PHI[0, 0]), PHI[0, 0, 0])}
    for function in (coding.sort_by_activity, coding.kernels):
        yield function, dict, activations
    for function in (coding.occupancy, coding.switch_rate):
        yield function, dict, {"neuron_codes": CODES_BAD}
    rate = {
        "neuron_codes": (Says(CODES[:, :1], "2 or more samples"),),
        "interval": POSITIVE,
        "confidence": (0, 1, *FRACTION),
    }
    yield coding.switch_rate, lambda: {"neuron_codes": CODES}, rate
    kernel = np.eye(4)
    bad = {"kernel": (*leading(kernel), np.ones((3, 4))), "other": (*leading(kernel), np.eye(3))}
    align = lambda: {"kernel": kernel, "other": kernel}  # noqa: E731
    yield coding.kernel_alignment, align, bad
    means = PHI[0, :, :, :3]
    bad = {"means": (*arrays(means)[:4], RAGGED, None, means[0, 0]), "lower": (0.9, nan), "upper": (nan, "1")}
    yield coding.settled_codes, lambda: {"means": means}, bad
    codes = {"training_codes": CODES_BAD, "test_codes": (*CODES_BAD, CODES[:1])}
    yield (coding.code_agreement, lambda: {"training_codes": CODES, "test_codes": CODES}, codes)
    phi, labels = good["activations"], good["labels"]
    splits = ("training", "test")
    both = {f"{s}_{kind}": v for s in splits for kind, v in (("activations", phi), ("labels", labels))}
    bad = {f"{split}_activations": leading(phi) for split in splits}
    bad["test_activations"] += (phi[1:],)
    bad["test_labels"] = (labels[1:], labels + 9, labels - 1, None)
    yield coding.code_transfer, lambda: both, bad
    f = np.ones((4, 2))
    yield (
        coding.generalization_error,
        lambda: {"mean": f, "variance": 1.0, "targets": f},
        {
            "mean": arrays(f),
            "variance": (-1.0, nan, 1j, "1", np.ones(3), np.ones((2, 4))),
            "targets": (*arrays(f), f.T),
        },
    )
    yield (
        "diagnose",
        diagnose,
        lambda: {**good, "readouts": READOUTS[0, 0], "num_rotations": 99},
        {
            "activations": (
                *with_labels["activations"],
                Says(phi[:1], "got one neuron"),
                Says(np.ones((6, 12)), "no neuron's mean differs"),
                Says(0 * phi, "no neuron's mean differs"),
            ),
            "labels": (
                *(bad for bad in LABELS_BAD if np.asarray(bad).dtype.kind != "U"),  # words are fine
                Says(np.arange(6) % 3, "transpose activations"),
                Says(0 * LABELS, "one class"),
            ),
            "readouts": (
                *arrays(READOUTS[0, 0])[:-1],
                READOUTS[0, 0, 1:],
                Says(0 * READOUTS[0, 0], "all zero"),
            ),
            "num_rotations": (98, *COUNT),
            "seed": SEED,
        },
    )


def _of_statistics():
    series = PHI[..., 0]
    bad = (series + 1j, series.astype(str), series[:, :3], 1.0, None)
    for function in (
        statistics.effective_sample_size,
        statistics.rhat,
        statistics.autocorrelation_time,
        statistics.mean_and_error,
    ):
        yield function, dict, {"series": bad}
    deep = {"series": (*arrays(PHI), PHI[0])}
    lag = {**deep, "max_lag": (-1, 5, 1.5, "2")}
    yield statistics.autocorrelation, lambda: {"series": PHI, "max_lag": 2}, lag
    yield statistics.permutation_order, dict, deep
    within = lambda: {"computed": 1.0, "expected": 1.0, "uncertainty": 0.1}  # noqa: E731
    numbers = (nan, inf, 1j, "1", None, [], [1, nan])
    bad = {
        "computed": numbers,
        "expected": numbers,
        "uncertainty": (0.0, -0.1, *numbers),
        "num_standard_errors": POSITIVE,
    }
    yield statistics.within, within, bad
    sizes = np.array([1.0, 2, 4])
    bad = (*arrays(sizes), -sizes, sizes[1:], 0 * sizes)
    law = lambda: {"sizes": sizes, "values": sizes}  # noqa: E731
    yield (
        statistics.fit_power_law,
        law,
        {"sizes": (*bad[:-2], 0 * sizes, Says([1.0, 2, 2], "at least three different")), "values": bad},
    )
    ways = np.array([[1.0, 2.0]])
    passes = lambda: {"heights": ways, "counts": [[1, 2]], "exposures": ways}  # noqa: E731
    bad = {"counts": (Says([[0, 0]], "got no passage"), [[1]])}
    yield statistics.fit_barrier_scale, passes, bad
    bad = {"series": (Says(np.ones((3, 1)), "two samples or more"),)}
    yield statistics.variance_in_time, dict, bad


def _of_theory():
    relu = networks.Network(1, 50, "relu")
    common = {"task": OBJECT, "temperature": AT_LEAST_0, "readout_variance": POSITIVE}
    solve = lambda **more: lambda: {"task": toy(), "temperature": 0.1, **more}  # noqa: E731
    bad = {**common, "network": (None, "relu", 3), "readout_variance": POSITIVE}
    yield "theory.solve", theory.solve, solve(network=relu), bad
    yield from _of_routes()
    bad = {**common, "depth": COUNT, "width": COUNT}
    yield theory.linear.solve, solve(depth=1), bad
    bad = {"width": (Says(10, "T = 0"),)}
    yield theory.linear.solve, lambda: {"task": toy(), "temperature": 0.0}, bad
    grams = np.ones((5, 2))
    yield (
        theory.linear.gram_logdensity,
        lambda: {
            "task": tasks.toy(4, (0.5, 0.5), targets=[[1], [-1]]),
            "grams": grams,
            "width": 9,
            "temperature": 0.1,
            "readout_variance": 1.0,
        },
        {
            "task": (toy(),),
            "grams": (*arrays(grams)[:4], -grams, 0 * grams),
            "width": COUNT,
            "temperature": POSITIVE,
            "readout_variance": POSITIVE,
        },
    )
    bad = {
        **common,
        "temperature": POSITIVE,
        "depth": COUNT,
        "width": (4, *COUNT),
        "num_draws": COUNT,
        "seed": SEED,
    }
    yield wishart_chain.solve, solve(depth=1, width=20), bad
    names = (Says("sigmoid", "'relu'"), 3, np.sum, Says(jnp.cumsum, "not elementwise"))
    bad = {**common, "depth": COUNT, "nonlinearity": names}
    yield theory.gaussian_process.solve, solve(), bad
    X = toy().inputs
    bad = {"inputs": arrays(X), "other_inputs": (*arrays(X)[:-1], X[1:]), "depth": COUNT}
    yield (theory.gaussian_process.prior_kernels, lambda: {"inputs": X}, bad)
    bad = {"task": OBJECT, "temperature": AT_LEAST_0, "tolerance": POSITIVE, "max_rounds": COUNT}
    bad["task"] += (Says(tasks.clustered(12), "not orthogonal"),)
    bad["nonlinearity"] = (Says("relu_squared", "no finite saddle"), "tanh", 3)
    yield theory.relu.solve, solve(), bad
    bad = {"solution": OBJECT, "num_neurons": (3, *COUNT), "tolerance": POSITIVE, "max_steps": COUNT}
    yield (theory.relu.finite_size, lambda: {"solution": sparse(), "num_neurons": 50}, bad)
    z = np.linspace(-1, 1, 3)
    bad = {"solution": OBJECT, "preactivations": arrays(z)[:4], "label": INDEX}
    yield (theory.relu.bulk_density, lambda: {"solution": sparse(), "preactivations": z, "label": 0}, bad)
    bad = {
        "task": OBJECT,
        "temperature": AT_LEAST_0,
        "num_neurons": COUNT,
        "num_starts": COUNT,
        "seed": SEED,
        "tolerance": POSITIVE,
    }
    yield theory.relu_squared.solve, solve(), bad
    bad = {
        **common,
        "temperature": AT_LEAST_0,
        "tolerance": POSITIVE,
        "num_starts": COUNT,
        "max_rounds": COUNT,
        "seed": SEED,
        "nonlinearity": (Says(jax.nn.gelu, "one of slope 0"), "linear", "relu_squared", "sigmoid", 3),
    }
    yield theory.mean_field.solve, solve(), bad
    two = lambda **more: lambda: {"task": toy(2), "temperature": 0.01, **more}  # noqa: E731
    bad = {
        **common,
        "nonlinearity": ("relu", "sigmoid", 3),
        "method": ("laplac", "", 3, None),
        "codes": ([[0, 2]], [[1]], [], "11", [[0, nan]], [[1, 0], [1, 0]]),
        "occupancies": ([1.0],),
        "start": (*arrays(np.eye(2))[:-1], np.eye(3)),
        "class_targets": (*arrays(np.eye(2))[:-1], np.eye(3)),
    }
    bad["task"] += (Says(tasks.clustered(12), "not orthogonal"),)
    same = np.tile([1.0, 0.0], (12, 1))
    bad["task"] += (Says(tasks.Task(toy(2).inputs, toy(2).labels, same), "no task to learn"),)
    bad["codes"] += (Says([[1, 0], [1, 0]], "twice"),)
    bad["nonlinearity"] += (
        Says("relu", "not bounded"),
        Says(lambda z: jnp.tanh(z - z.mean()), "not elementwise"),
        Says(lambda z: jnp.where(z > 5, nan, jnp.tanh(z)), "NaN or infinite"),
        Says(lambda z: 0 * z + 1.0, "is constant"),
    )
    yield theory.sigmoidal.solve, two(), bad
    four = lambda: {"task": tasks.toy(12, 4 * (0.25,)), "temperature": 0.01}  # noqa: E731
    bad = {"method": (Says("quadrature", "out of reach"),)}
    yield theory.sigmoidal.solve, four, bad
    bad = {"occupancies": ([1.0], [0.5, 0.6], [-0.5, 1.5], [nan, 1], [1, 1j], "half")}
    yield theory.sigmoidal.solve, two(codes=[[1, 0], [0, 1]]), bad
    bad = {"task": OBJECT, "temperatures": ((0.01, nan), (0.1,), "hot", 0.1, (0.1, 1j)), "num_points": COUNT}
    line = lambda: {"task": toy(2), "temperatures": (0.01, 1.0)}  # noqa: E731
    bad |= {"min_probability": (0, *FRACTION), "tolerance": (0, *FRACTION)}
    yield theory.sigmoidal.transitions, line, bad
    bad = {"low": (0.0, 2.0, nan, "1"), "high": (nan, "1")}
    yield (theory.sigmoidal.critical_temperature, lambda: {"task": toy(2)}, bad)
    one = lambda **more: lambda: {"solution": redundant(), **more}  # noqa: E731
    values = arrays(z)[:4]
    bad = {"solution": OBJECT, "component": INDEX, "values": values, "row": INDEX}
    yield (theory.sigmoidal.readout_density, one(component=0, values=z), bad)
    bad = {"solution": OBJECT, "row": INDEX, "class_index": INDEX, "values": values}
    yield (theory.sigmoidal.preactivation_density, one(row=0, class_index=0, values=z), bad)
    bad = {"solution": (*OBJECT, frozen()), "codes": ([[1]], [1, 0], [[nan, 1]], "10", [])}
    for function in (theory.sigmoidal.measured_occupancies, theory.sigmoidal.occupancy_covariance):
        yield function, one(codes=[[1, 0]]), bad
    weight = np.ones(len(theory.sigmoidal.readout_ensemble(redundant())[0]))
    each = {"solution": bad["solution"], "values": (*arrays(weight[None]), weight, weight[None, :-1])}
    yield theory.sigmoidal.average_covariance, one(values=weight[None]), each
    bad |= {"width": COUNT}
    bad["solution"] += (
        Says(theory.sigmoidal.solve(toy(2), 0.01, method="laplace"), "got one by 'laplace'"),
        Says(alike("relu"), "'relu' grows"),
    )
    both = one(codes=[[1, 0], [0, 1]], width=12)
    single = {"codes": (Says([[1, 0]], "got one code"),)}
    yield finite_width.number_moments, both, single
    for function in (finite_width.numbers, finite_width.number_moments):
        yield function, both, bad
    bad = {
        "solution": (*OBJECT, alike(), frozen()),
        "code": ([1], [[1, 0]], [nan, 1], "10"),
        "class_index": INDEX,
    }
    bad |= {"width": (*POSITIVE[:3], *POSITIVE[4:])}  # infinite width is fine
    of_a_code = one(code=[1, 0], class_index=0, width=12)
    yield finite_width.preactivation_moments, of_a_code, bad
    bad = {"solution": (*OBJECT, frozen()), "code": bad["code"], "output": INDEX, "width": bad["width"]}
    yield finite_width.readout_moments, one(code=[1, 0], output=0, width=12), bad
    bad = {"solution": (*OBJECT, frozen()), "weight": (*arrays(weight), weight[:-1]), "class_index": INDEX}
    yield finite_width.correction, one(weight=weight), bad
    weighted = lambda: {"solution": alike(), "weight": np.ones(len(alike().ensemble.points))}  # noqa: E731
    bad = {"moment": (Says(lambda s, k: s, "no formula here"),)}
    yield finite_width.correction, weighted, bad
    bad = {
        **common,
        "depth": COUNT,
        "start": (-0.1, 1.1, nan, "1", None),
        "tolerance": POSITIVE,
        "max_steps": COUNT,
        "nonlinearity": (Says("relu", "not bounded"),),
        "codes": (Says([[1, 0]], "only one of them"),),
    }
    bad["task"] += (Says(tasks.toy(15, 5 * (0.2,)), "at most 4"),)
    yield theory.deep_sigmoidal.solve, two(depth=2), bad
    kinds = {"codes": [[1, 0], [0, 1]], "occupancies": [0.5, 0.5]}
    bad = {"codes": (Says([[1, 0], [1, 2]], "zeros and ones"),), "occupancies": ([0.5, 0.6],)}
    yield theory.deep_sigmoidal.solve, two(depth=2, **kinds), bad
    bad = {"activations": arrays(PHI[0])[:4], "labels": LABELS_BAD}
    yield (theory.deep_sigmoidal.measure, lambda: {"activations": PHI[0], "labels": LABELS}, bad)
    yield from _of_two_points()
    yield from _of_adaptive_kernels()
    yield from _of_single_neurons()
    bad = {"inputs": (np.zeros((3, 2)),)}
    yield "theory.features.Features.on", features.dense(toy(), "relu").on, dict, bad
    bad = {"task": OBJECT, "nonlinearity": ("sigmoid", 3)}
    yield features.dense, lambda: {"task": toy(), "nonlinearity": "relu"}, bad
    image = lambda: {  # noqa: E731
        "task": toy(),
        "nonlinearity": "relu",
        "image_shape": (8, 4, 1),
        "kernel_size": 2,
        "stride": 2,
    }
    bad = {"image_shape": ((8, 4), (8, 4, 2), "8", (8, 4, nan)), "kernel_size": (5, *COUNT), "stride": COUNT}
    yield features.convolution, image, bad
    bad = {"solution": OBJECT, "posterior": OBJECT, "key": KEY}
    yield (
        planting.planted,
        lambda: {"key": jax.random.key(0), "solution": sparse(), "posterior": small()},
        bad,
    )


@cache
def alike(nonlinearity: str = "tanh") -> Any:
    """Inputs that overlap within classes, solved."""
    clustered = tasks.clustered(12, (0.5, 0.5), overlap=0.9, targets=[[1.0], [-1.0]])
    return theory.clustered.solve(clustered, 0.02, nonlinearity=nonlinearity)


def _of_routes():
    """What theory.solve has no theory for, and the theories of inputs that are alike."""
    network, leaky = networks.Network, jax.nn.leaky_relu
    rng = np.random.default_rng(0)
    general = tasks.own(rng.standard_normal((6, 9)), [0, 1, 1] * 3)
    noisy = tasks.Task(toy().inputs, toy().labels, toy().targets + 0.1 * np.eye(12, 3))
    for task, values, options in (
        (toy(), (Says(network(2, 9, "relu"), "depth 2, 'relu'.*orthogonal.*sampling.sample"),), {}),
        (general, (Says(network(1, 9, lambda z: z**3), "depth 1.*general inputs.*grows like z"),), {}),
        (tasks.tree(40), (Says(network(2, 9, "tanh"), "depth 2, 'tanh'.*reach 30 inputs"),), {}),
        (noisy, (Says(network(1, 9, "relu_squared"), "no theory for depth 1"),), {}),
        (
            general,
            (Says(network(1, 9, jax.nn.gelu), "depth 1.*these 9 inputs, but by sampled neurons"),),
            {"max_rounds": 3},
        ),
        (
            tasks.toy(300, (0.5, 0.5), y_minus=-0.5),
            (Says(network(1, 9, leaky), "did not converge: too few"),),
            {},
        ),
        (general, (Says(network(1, 9, "relu"), "general inputs at finite width"),), {"finite_width": True}),
    ):
        good = lambda task=task, options=options: {"task": task, "temperature": 0.01, **options}  # noqa: E731
        yield "theory.solve", theory.solve, good, {"network": values}
    for task, phi, bad in (
        (toy(), "relu_squared", {"readout_variance": (Says(2.0, "is for 1/P"),)}),
        (toy(), "tanh", {"finite_width": (Says(True, "got True for a non-lazy network with 'tanh'"),)}),
        (general, "relu", {"temperature": (-1.0,)}),
        (tasks.tree(16), "erf", {"temperature": (-1.0,)}),
    ):
        good = lambda task=task, phi=phi: {"task": task, "network": network(1, 9, phi), "temperature": 0.01}  # noqa: E731
        yield "theory.solve", theory.solve, good, bad
    kernel = theory.solve(toy(), network(1, 9, "relu"), 0.01).kernel
    yield "theory.solve(…).kernel", kernel, dict, {"inputs": (Says(toy().inputs, "mean_field"),)}
    clustered = lambda: {"task": tasks.clustered(20), "temperature": 0.02}  # noqa: E731
    bad = {
        "task": (Says(tasks.mnist(20, 0), "one ρ within"),),
        "temperature": AT_LEAST_0,
        "nonlinearity": (Says("relu_squared", "grows like z"),),
    }
    yield theory.clustered.solve, clustered, bad
    growing = lambda: {**clustered(), "nonlinearity": "relu"}  # noqa: E731
    four = tasks.clustered(20, 4 * (0.25,))
    bad = {"method": (Says("laplace", "bounded"),), "task": (Says(four, "got 4 outputs"),)}
    yield theory.clustered.solve, growing, bad
    bad = {"nonlinearity": (Says("sigmoidal", "'relu', 'softplus'"),)}
    yield condensation.solve, clustered, bad
    yield condensation.universal, dict, {"ratio": POSITIVE}


def _of_single_neurons():
    """Formulas on top of solutions: outliers, and how neurons move."""
    condensed = condensation.solve(tasks.clustered(60, overlap=0.5, y_minus=-0.5), 0.01)
    bad = {"num_neurons": (1,), "counts": (np.ones(2),)}
    good = {"num_neurons": 50, "counts": np.ones(3)}
    yield "theory.condensation.Solution.at_width", condensed.at_width, lambda: good, bad
    bad = {"class_index": (3,), "angles": ([[0.0]],), "num_neurons": (1,)}
    share = {"class_index": 0, "angles": [0.0], "num_neurons": 40}
    yield "theory.condensation.Solution.sharing", condensed.sharing, lambda: share, bad
    lone = {"solution": sparse(), "num_neurons": 12}
    bad = {"solution": OBJECT, "num_neurons": COUNT}
    yield outliers.strengths, lambda: lone, bad
    yield outliers.variation, dict, {"solution": (*OBJECT, sparse())}
    bad = {"size": COUNT}
    yield outliers.spare_outliers, lambda: {"solution": sparse()}, bad
    yield outliers.measured_strengths, dict, {"measures": OBJECT}
    analog = theory.linear.solve(tasks.toy(20, y_minus=0.0), 1, 0.01, width=20)
    lags = lambda **more: lambda: {"solution": analog, "lags": [1.0], **more}  # noqa: E731
    bad = {"solution": (redundant(),), "mobility": POSITIVE}
    yield dynamics.linear_memory, lags(), bad
    bad = {"num_neurons": (Says(9, "mobility of 2"),)}
    yield dynamics.linear_memory, lags(mobility=2.0), bad
    branch = {"solution": redundant(), "row": 0, "class_index": 0, "mean": 0.5}
    other = Says(theory.sigmoidal.solve(toy(2), 0.01, nonlinearity="erf"), "needs 'sigmoidal'")
    codes = {"solution": (*OBJECT, frozen(), other)}
    bad = {"row": INDEX, "class_index": INDEX, "mean": (0.0, 1.0, 1.5, nan), "step": AT_LEAST_0}
    yield dynamics.branch_variance, lambda: branch, bad | codes
    yield dynamics.passes, dict, codes
    outlying = {"temperature": 0.01, "num_neurons": 9}
    yield dynamics.outlier_variances, lambda: outlying, {"task": OBJECT}


def _of_two_points():
    times = np.linspace(0, 10, 5)
    H = np.linspace(1, 2, 5)
    good = {"H0": 1.0, "Q0": 0.5, "eta_h": 1.0, "eta_y": 1.0, "dx2": 1.0, "dy2": 0.5}
    bad = {
        "H0": POSITIVE[:-1],
        "Q0": AT_LEAST_0,
        "eta_h": POSITIVE[:-1],
        "eta_y": POSITIVE[:-1],
        "dx2": POSITIVE[:-1],
        "dy2": AT_LEAST_0,
    }
    line = {"times": (*arrays(times)[:6], times[::-1], times[:1])}
    two = theory.two_point
    more = {"w0": FINITE, "factors": ((1.0,), (1, 1, 1, 1, nan), "11111"), "relative_tolerance": POSITIVE}
    yield (two.solve, lambda: {**good, "w0": 0.1, "times": times}, {**bad, **line, **more})
    yield two.final_distance, lambda: good, bad
    yield two.fixed_points, lambda: good, {**bad, "dy2": (0, *AT_LEAST_0)}
    rates = ("eta_h", "eta_y", "dx2", "dy2")
    rich = {name: (*bad[name], Says(np.array([1.0, -2.0]), "got -2")) for name in rates}
    yield (two.rich_distance, lambda: {name: good[name] for name in rates}, rich)
    no_dy2 = {name: value for name, value in good.items() if name != "dy2"}
    closed = {name: values for name, values in bad.items() if name != "dy2"}
    yield (two.identical_outputs, lambda: {**no_dy2, "times": times}, {**closed, "times": arrays(times)[:4]})
    curve = {"H": H, "Q": H, "w": H}
    spoiled = {name: (*arrays(H)[:6], H[1:], 0 * H) for name in curve}
    spoiled["H"] += (Says(0 * H + 1, "never changes"),)
    yield (
        two.fit,
        lambda: {"times": times, **curve, "dx2": 1.0, "dy2": 0.5},
        {**spoiled, "times": arrays(times)[:4], "num_starts": COUNT, "dx2": POSITIVE[:-1], "dy2": AT_LEAST_0},
    )
    outputs, targets = np.ones((5, 2, 1)), np.ones((2, 1))
    yield (
        two.measure,
        lambda: {"H": H, "outputs": outputs, "targets": targets},
        {"H": (H[1:],), "outputs": (outputs[:, :1],), "targets": (*arrays(targets)[:4], np.ones((3, 1)))},
    )


def _of_adaptive_kernels():
    task, relu = toy(), networks.Network(1, 50, "relu")
    wide = networks.Network(1, 50, "relu", weight_std=2.0)
    bad = {
        "task": OBJECT,
        "network": (*OBJECT, Says(wide, "needs 1; divide")),
        "richness": (Says(0.0, "gaussian_process.solve"), *POSITIVE),
        "ridge": POSITIVE,
        "method": (Says("magic", "allowed"), *NAME),
        "seed": SEED,
        "num_neurons": COUNT,
        "num_rounds": COUNT,
    }
    adaptive, dmft = theory.adaptive_kernel, theory.dmft
    good = lambda: {"task": task, "network": relu, "richness": 1.0, "ridge": 1.0}  # noqa: E731
    yield adaptive.solve, good, bad
    rng = np.random.default_rng(0)
    few, many = (tasks.own(rng.standard_normal((40, P)), np.arange(P) % 2, np.ones((P, 1))) for P in (5, 31))
    for given, phi, depth, method, words in (
        (few, "erf", 1, "quadrature", "at most 3 inputs; got 5 general inputs.*use 'population'"),
        (few, "erf", 2, "quadrature", "at most 3 inputs.*use 'nested'"),
        (few, "erf", 1, "lattice", "use 'sampling'"),
        (few, "erf", 2, "population", "use 'nested' or 'sampling'"),
        (few, "relu", 2, "nested", "use 'sampling'"),
        (many, "erf", 2, "nested", "at most 30 inputs; got 31.*use 'sampling'"),
        (
            tasks.toy(4, (0.5, 0.5)),
            "relu",
            1,
            "lattice",
            "one output; got 4 orthogonal inputs, 2 outputs, φ = relu, L = 1; use 'sampling'",
        ),
        (
            tasks.toy(10, 5 * (0.2,)),
            "erf",
            2,
            "deep_sigmoidal",
            "at most 4 classes; got 10 orthogonal inputs, 5 outputs.*use 'nested'",
        ),
    ):
        these = {"task": given, "network": networks.Network(depth, 1, phi), "richness": 1.0, "ridge": 0.1}
        yield (adaptive.solve, lambda these=these: these, {"method": (Says(method, words),)})
    patches = features.convolution(task, "relu", (8, 4, 1), 2, 2)
    deep = {"task": task, "network": networks.Network(2, 1, "relu"), "richness": 1.0, "ridge": 0.1}
    bad = {"features": (Says(patches, "one hidden layer"),)}
    yield adaptive.solve, lambda: deep, bad
    expand = {"task": task, "network": networks.Network(1, 1, "erf")}
    bad = {"ridge": POSITIVE, "network": (Says(networks.Network(1, 1, "tanh"), "in closed form"),)}
    yield "theory.adaptive_kernel.expansion", adaptive.expansion, lambda: {**expand, "ridge": 0.1}, bad
    bad = {"depth": COUNT, "richness_sq": POSITIVE, "ridge": AT_LEAST_0}
    yield (adaptive.overlaps, lambda: {"depth": 2, "richness_sq": 1.0}, bad)
    bad = {
        "task": OBJECT,
        "nonlinearity": ("sigmoid", 3),
        "richness": POSITIVE,
        "weight_decay": AT_LEAST_0,
        "duration": POSITIVE,
        "step": POSITIVE,
        "num_records": COUNT,
        "num_neurons": (5, *COUNT),
        "start": NAME,
        "test_inputs": (*arrays(task.inputs)[:-1], task.inputs[1:]),
        "average_steps": SEED,
        "seed": SEED,
    }
    flow = lambda: {  # noqa: E731
        "task": task,
        "nonlinearity": "relu",
        "richness": 1.0,
        "weight_decay": 0.1,
        "duration": 1.0,
        "num_neurons": 16,
        "num_records": 2,
    }
    yield dmft.population, flow, bad
    y = task.targets[:, 0]
    bad = {
        "targets": (*arrays(y), Says(task.targets, "one output; use dmft.population")),
        "richness": POSITIVE,
        "weight_decay": POSITIVE,
    }
    bad |= {"nonlinearity": ("tanh", 3)}
    yield (dmft.collapse, lambda: {"targets": y, "richness": 1.0, "weight_decay": 0.1}, bad)
    rest = {"task": task, "richness": 1.0, "weight_decay": 0.1}
    bad = {"richness": POSITIVE, "weight_decay": (Says(0.0, "dmft.population"), *AT_LEAST_0)}
    yield dmft.fixed_point, lambda: {**rest, "nonlinearity": "relu"}, bad
    yield dmft.relu_fixed_point, lambda: rest, bad


def _of_training():
    X, Y = np.random.default_rng(0).random((4, 6)), np.eye(2)[[0, 0, 0, 1, 1, 1]]
    model = training.Architecture(width=8, depth=2)
    yield (
        training.train,
        lambda: {
            "model": model,
            "key": jax.random.key(0),
            "inputs": X,
            "targets": Y,
            "learning_rate": 0.1,
            "num_steps": 10,
        },
        {
            "model": OBJECT,
            "key": KEY,
            "inputs": arrays(X),
            "targets": (*arrays(Y), Y[1:]),
            "learning_rate": POSITIVE,
            "num_steps": (7, *COUNT),
            "weight_decay": AT_LEAST_0,
            "batch_size": (99, *COUNT),
            "repeats": COUNT,
            "record_every": COUNT,
            "stop_loss": AT_LEAST_0,
            "converged_loss": POSITIVE,
            "tracked_inputs": (*arrays(X)[:-1], X[1:]),
        },
    )
    yield (
        training.Architecture,
        dict,
        {"nonlinearity": ("sigmoid", 3), "gain": POSITIVE, "width": COUNT, "depth": COUNT, "kind": NAME},
    )
    deep = lambda: {"depth": 4, "kind": "convolution"}  # noqa: E731
    bad = {"width": (Says(30, "more than 50 for 5 convolutions"),)}
    yield training.Architecture, deep, bad
    scaled = {"network": OBJECT, "richness": POSITIVE}
    yield (training.ScaledNetwork, lambda: {"network": networks.Network(1, 8, "relu")}, scaled)
    starts = posterior.Weights(np.zeros((1, 8, 12)), (), np.zeros((1, 8, 3)))
    descend = {"posterior": OBJECT, "num_steps": COUNT, "learning_rate": POSITIVE}
    yield (training.descend, lambda: {"posterior": small(), "starts": starts, "num_steps": 2}, descend)
    points = [np.zeros(2), np.ones(2)]
    path = {"waypoints": (points[:1], [], None), "step_size": POSITIVE, "num_images": (2, *COUNT)}
    path |= {"num_steps": COUNT, "tolerance": POSITIVE}
    yield (
        barriers.minimum_energy_path,
        lambda: {"energy": lambda x: (x**2).sum(), "waypoints": points, "step_size": 0.1, "num_steps": 5},
        path,
    )


def shown(value: Any) -> str:
    """A value as the table shows it: what is wrong with an array rather than its numbers."""
    value = value.value if isinstance(value, Says) else value
    if isinstance(value, np.ndarray) and value.ndim:
        if value.dtype.kind in "cUO":
            return {"c": "complex", "U": "texts", "O": "objects"}[value.dtype.kind]
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return "with NaN" if np.isnan(value).any() else "with ∞"
        return f"shape {value.shape}"
    if callable(value):
        return getattr(value, "__name__", str(value)).replace("<lambda>", "a function")
    text = " ".join(repr(value).split())
    return text if len(text) < 40 else f"{type(value).__name__} …"
