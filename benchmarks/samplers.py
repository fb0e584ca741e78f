"""The book's sampler, NumPyro, BlackJAX and repriorised weights on the same posteriors; costs against limits.

    python benchmarks/samplers.py [--parts cost growth profile peers scheme] [--cases ...] [--resume]

Writes samplers.json, samplers.md and samplers.svg into benchmarks/results, a row as soon as it is measured;
with --resume what is there is not measured again. book/samplers.md includes the tables. Times are
CPU seconds of one thread: the cost of the arithmetic, whatever else the machine does meanwhile; part
`scheme` gives wall times, too, and is meant for NPROC=2.

Every seed is a round: our sampler, then each peer from the equilibrium state that ours reached, all with the
same CPU seconds of sampling, one after the other, so that a busy machine slows all of them. ESS is that of
the whole run of each. Peers adapt step size and diagonal mass matrix by their own rules; compilation and
warm-up are not charged to anyone but are on record. Where a peer drew fewer than 20 samples, its ESS is taken
to be their number; where its run did not end within `--limit` CPU seconds, or its warm-up could not with
trajectories as long as ours, to be one per such trajectory, at the cost of the peer's own gradient: bounds
from above.

Peers: NUTS of NumPyro and of BlackJAX over all of W¹ and ã (paper A's weights with a = σ_a ã, so that scales
are fair); and google/wide_bnn_sampling's idea (Hron et al. 2022), ported: BlackJAX's NUTS over W¹ and what is
left of ã when its Gaussian law given the features is transformed to N(0, 1). `make bench` installs NumPyro.
"""
# ruff: noqa: E402 -- threads and float types are settled before JAX starts

import argparse
import dataclasses
import functools
import importlib.util
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if os.environ.setdefault("NPROC", "1") == "1":
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[_name] = "1"

import blackjax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from arviz_stats.base import array_stats

jax.config.update("jax_enable_x64", True)

from _machine import RESULTS, measured, processor
from coding_schemes import coding, networks, planting, posterior, sampling, tasks, theory
from coding_schemes.sampling import moves
from coding_schemes.sampling.hmc import standard_normal
from companion.figures import COLORS
from companion.publish import theme

RATIOS = (0.5, 0.25, 0.25)


def toy(size, y_minus):
    """The toy task with as many inputs as neurons."""
    return tasks.toy(size, RATIOS, y_minus=y_minus)


#: Label, task, width, nonlinearity, settings, and transitions from the planted state or the prior before a
#: measurement.
CASES = {
    "mnist": (
        "MNIST N=P=100",
        lambda: tasks.mnist(100, 0, y_minus=0.5),
        100,
        "sigmoidal",
        {"method": sampling.HMC(0.8)},
        4000,  # single neurons change their codes late, at 20 of energy each
    ),
    "linear": ("linear N=P=200", lambda: toy(200, -0.5), 200, "linear", {}, 400),
    "relu": (  # short steps, for the kinks
        "ReLU N=P=500",
        lambda: toy(500, -0.5),
        500,
        "relu",
        {"method": sampling.HMC(max_num_steps=600, target_acceptance=0.65)},
        300,
    ),
    "sigmoidal": (
        "sigmoidal N=P=500",
        lambda: toy(500, 0.5),
        500,
        "sigmoidal",
        {"method": sampling.HMC(1.0)},
        300,
    ),
}
#: Warm-up transitions of the peers; few for ReLU, where each is a tree of 1,023 steps and takes 4 s.
WARMUP = {"mnist": 500, "linear": 300, "relu": 20, "sigmoidal": 150}
CHUNK = 200  # of our samples at a time
OBSERVABLES = ("energy", "training error", "readouts' second moment")


def effective(series):
    """ESS of each observable; series (observables, samples) or with chains in between."""
    return np.array(
        [
            float(array_stats.ess(np.atleast_2d(np.asarray(s, dtype=float)), chain_axis=0, draw_axis=1))
            for s in series
        ]
    )


def equilibrium(given, more, length, seed):
    """Samples after `length` warm-up transitions, from the theory's state if any."""
    task, phi = given.task, given.network.nonlinearity
    init = planted_shallow(given) if task.is_orthogonal and phi != "linear" else "prior"
    arguments = settings_of(more) | {"num_samples": 20, "num_warmup": length, "init": init}
    return sampling.sample(given, jax.random.fold_in(jax.random.key(0), seed), **arguments)


def settings_of(more):
    return {"num_chains": 1, "store": ("readouts",), "progress": False} | more


def ours(given, more, length, seconds, seed):
    """ESS per CPU second, also of windows of the run, and the state that the run started from."""
    warm = equilibrium(given, more, length, seed)
    step = float(warm.info.step_size[0, 0])
    method = dataclasses.replace(more.get("method", sampling.HMC()), step_size=step)
    arguments = settings_of(more) | {"num_warmup": 0, "method": method, "num_samples": CHUNK}
    keys = jax.random.split(jax.random.fold_in(jax.random.key(2), seed), 10_000)
    times = []
    for _ in range(2):
        start = time.process_time()
        sampling.sample(given, keys[-1], init=warm.final, **arguments)
        times.append(time.process_time() - start)
    parts, infos, spent, final = [], [], 0.0, warm.final
    while spent < seconds:
        start = time.process_time()
        samples = sampling.sample(given, keys[len(parts)], init=final, **arguments)
        spent += time.process_time() - start
        final = samples.final
        moments = np.square(samples.readouts, dtype=float).mean((2, 3))
        parts.append(np.stack([samples.info.energy, samples.info.squared_error, moments])[:, 0])
        infos.append(samples.info)
    series = np.concatenate(parts, axis=1)
    result = {
        "ess_per_second": (effective(series) / spent).tolist(),
        "windows": windows(series, spent),
        "samples": series.shape[1],
        "seconds": spent,
        "compilation": times[0] - times[1],
        "step_size": step,
        "gradients_per_sample": float(np.mean([info.num_gradients for info in infos])),
        "acceptance": float(np.mean([info.acceptance for info in infos])),
        "moves": {
            name: float(np.mean([info.move_acceptance[name] for info in infos]))
            for name in infos[0].move_acceptance
        },
    }
    return result, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), warm.final)


def windows(series, spent):
    """ESS per second as runs of 25, 50, 100 … samples would give it, by length; the mean over all of them."""
    total = series.shape[1]
    lengths = [25 * 2**k for k in range(20) if 25 * 2**k < total] + [total]
    found = {}
    for length in lengths:
        pieces = [series[:, i : i + length] for i in range(0, total - length + 1, length)]
        mean = np.mean([effective(piece) for piece in pieces], axis=0)
        found[str(length)] = (mean / length * total / spent).tolist()
    return found


def weight_space(given, weights):
    """Log density over (W¹, ã) in full weight space, a start in equilibrium, and the observables."""
    inputs = jnp.asarray(given.task.inputs / given.task.input_dim**0.5, given.dtype)
    start = {"W": given.first_layer(jax.random.key(5), weights), "a": weights.readout}

    def error(position):
        f = given.network.outputs(position["W"] @ inputs, given.readout_std * position["a"])
        return posterior.sum_of_squares(given.targets - f)

    def potential(position):
        prior = sum(posterior.sum_of_squares(leaf) for leaf in position.values())
        return 0.5 * given.likelihood_precision * error(position) + 0.5 * prior

    def observe(position):
        readout_sq = jnp.mean(jnp.square(given.readout_std * position["a"]))
        return jnp.stack([potential(position), error(position), readout_sq])

    return potential, start, observe


def repriorised(given, weights):
    """As `weight_space`, with φ = Cᵀã − C⁻¹A√βY ~ N(0, 1) in place of ã; A = √β s σ_a φ(z), CCᵀ = 1 + AAᵀ.

    Of the potential there is left ½ ‖W‖² + ½ ‖φ‖² + ½ tr βYᵀ(1 + AᵀA)⁻¹Y + (m/2) log det(1 + AAᵀ).
    """
    _, start, observe = weight_space(given, weights)
    wide = functools.partial(jnp.asarray, dtype=jnp.float64)  # condition numbers are O(1/T)
    inputs = wide(given.task.inputs / given.task.input_dim**0.5)
    root = wide(given.likelihood_precision) ** 0.5
    data = root * wide(given.targets)
    scale = root * given.network.readout_scale * wide(given.readout_std)
    triangular = jax.scipy.linalg.solve_triangular

    def parts(matrix):
        design = scale * given.network.phi(matrix @ inputs)
        factor = jnp.linalg.cholesky(jnp.eye(len(design)) + design @ design.T)
        return factor, triangular(factor, design @ data, lower=True)

    def potential(position):
        factor, mean = parts(position["W"])
        prior = sum(posterior.sum_of_squares(leaf) for leaf in position.values())
        fit = jnp.sum(jnp.square(data)) - jnp.sum(jnp.square(mean))
        return 0.5 * (prior + fit) + data.shape[1] * jnp.sum(jnp.log(jnp.diag(factor)))

    def readout(position):
        factor, mean = parts(position["W"])
        return {"W": position["W"], "a": triangular(factor.T, mean + position["a"], lower=False)}

    factor, mean = parts(wide(start["W"]))
    moved = {"W": wide(start["W"]), "a": factor.T @ wide(start["a"]) - mean}
    return potential, moved, lambda position: observe(readout(position))


def timed(step, state, observe, seconds, seed, most=20_000):
    """Repeats step until the budget is spent: observables, steps per sample, seconds, those of compiling."""
    key, times = jax.random.fold_in(jax.random.key(100), seed), []
    for _ in range(2):
        start = time.process_time()
        state, position, _ = step(jax.random.fold_in(key, most), state)
        jax.block_until_ready(observe(position))
        times.append(time.process_time() - start)
    series, steps, start = [], [], time.process_time()
    while time.process_time() - start < seconds and len(series) < most:
        state, position, count = step(jax.random.fold_in(key, len(series)), state)
        series.append(np.asarray(observe(position)))
        steps.append(int(count))
    return np.array(series).T, np.mean(steps), time.process_time() - start, times[0] - times[1]


def rate(series, steps, spent, compilation):
    count = series.shape[1]
    ess = effective(series) if count >= 20 else np.full(3, float(count))
    return {
        "ess_per_second": (ess / spent).tolist(),
        "samples": count,
        "seconds": spent,
        "compilation": compilation,
        "gradients_per_sample": steps,
        "bound": count < 20,
    }


def blackjax_nuts(given, weights, seconds, warmup, seed, space=weight_space):
    potential, start, observe = space(given, weights)

    def logdensity(position):
        return -potential(position)

    begun = time.process_time()
    adapt = blackjax.window_adaptation(blackjax.nuts, logdensity, adaptation_info_fn=lambda *_: None)
    key = jax.random.fold_in(jax.random.key(3), seed)
    (state, parameters), _ = jax.block_until_ready(jax.jit(lambda k, p: adapt.run(k, p, warmup))(key, start))
    begun = time.process_time() - begun
    kernel = blackjax.nuts(logdensity, **parameters)

    @jax.jit
    def step(key, state):
        state, info = kernel.step(key, state)
        return state, state.position, info.num_integration_steps

    return rate(*timed(step, state, jax.jit(observe), seconds, seed)) | {"warmup_seconds": begun}


def repriorised_nuts(given, weights, seconds, warmup, seed):
    with jax.enable_x64(True):
        return blackjax_nuts(given, weights, seconds, warmup, seed, repriorised)


def numpyro_nuts(given, weights, seconds, warmup, seed):
    from numpyro.infer import NUTS

    potential, start, observe = weight_space(given, weights)
    begun = time.process_time()
    kernel = NUTS(potential_fn=potential)
    state = kernel.init(jax.random.PRNGKey(seed), warmup, start, (), {})
    sample = jax.jit(lambda state: kernel.sample(state, (), {}))
    for _ in range(warmup):
        state = sample(state)
    jax.block_until_ready(state)
    begun = time.process_time() - begun

    def step(key, state):
        state = sample(state)
        return state, state.z, state.num_steps

    return rate(*timed(step, state, jax.jit(observe), seconds, seed)) | {"warmup_seconds": begun}


def leapfrog_seconds(given, weights, space):
    """CPU seconds of one gradient in a peer's coordinates, inside a compiled loop as NUTS has it."""
    potential, start, _ = space(given, weights)

    def body(_, position):
        slope = jax.grad(potential)(position)
        return jax.tree.map(lambda w, g: w - 1e-9 * g, position, slope)

    loop = jax.jit(lambda position: jax.lax.fori_loop(0, 20, body, position))
    return cpu_time(loop, start, repeats=3) / 20


PEERS = {"repriorised": repriorised_nuts, "blackjax_nuts": blackjax_nuts, "numpyro_nuts": numpyro_nuts}


def case(name, temperature):
    """Label, posterior, settings and equilibration of a row."""
    label, make, width, phi, more, length = CASES[name]
    return label, posterior.Posterior(make(), networks.Network(1, width, phi), temperature), more, length


def peer_process(name, case_name, temperature, state, seed, options):
    """A peer's run in a process of its own, which is killed at the limit of CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        start, result = Path(folder) / "start.npz", Path(folder) / "result.json"
        np.savez(start, first=state.first, readout=state.readout)
        arguments = [name, case_name, temperature, start, result, options.seconds, seed, options.limit]
        done = subprocess.run(
            [sys.executable, __file__, "--peer", *map(str, arguments)], capture_output=True, text=True
        )
        if result.exists():
            return json.loads(result.read_text())
        return {"error": "limit" if done.returncode < 0 else done.stderr[-200:]}


def run_peer(name, case_name, temperature, start, result, seconds, seed, limit):
    """Inside the peer's process."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(float(limit)), int(float(limit)) + 5))
    _, given, _, _ = case(case_name, float(temperature))
    with np.load(start) as file:
        weights = posterior.Weights(jnp.asarray(file["first"]), (), jnp.asarray(file["readout"]))
    with jax.enable_x64(False):  # both packages want one float type throughout
        row = PEERS[name](given, weights, float(seconds), WARMUP[case_name], int(seed))
    Path(result).write_text(json.dumps(row))


def compare(results, options, save):
    """Rows of the comparison with peers, round by round; what is there is kept."""
    rows = results.setdefault("peers", [])
    missing = {"numpyro_nuts"} if importlib.util.find_spec("numpyro") is None else set()
    for seed, name, temperature in itertools.product(
        range(options.seeds), options.cases, options.temperatures
    ):
        label, given, more, length = case(name, temperature)
        row = next((r for r in rows if (r["case"], r["temperature"]) == (label, temperature)), None)
        if row is None:
            row = {"case": label, "temperature": temperature, "rounds": []}
            rows.append(row)
            order = [known[0] for known in CASES.values()]
            rows.sort(key=lambda r: (order.index(r["case"]), -r["temperature"]))
        if seed < len(row["rounds"]):
            continue
        found, state = ours(given, more, length, options.seconds, seed)
        one = {"machine": processor(), "ours": found}
        steps = found["gradients_per_sample"] - 1
        for peer in [peer for peer in PEERS if peer not in missing]:
            space = repriorised if peer == "repriorised" else weight_space
            trajectory = steps * leapfrog_seconds(given, state, space)
            one[peer] = {"error": "limit"}
            if WARMUP[name] * trajectory < options.limit:
                one[peer] = peer_process(peer, name, temperature, state, seed, options)
            if one[peer].get("error") == "limit":
                bound = {"ess_per_second": [1 / trajectory] * 3, "bound": True, "samples": 0}
                one[peer] = bound | {"limit": options.limit}
        row["rounds"].append(one)
        print(json.dumps(row["rounds"][-1]), flush=True)
        save()


# ---- cost of a gradient ---------------------------------------------------------------------


def cpu_time(function, *arguments, repeats=4):
    """Shortest CPU seconds of a call."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        count, start = 0, time.process_time()
        while time.process_time() - start < 0.1:
            jax.block_until_ready(function(*arguments))
            count += 1
        times.append((time.process_time() - start) / count)
    return min(times)


REPEATS = 20  # of an operation inside one compiled loop, as in a trajectory: no buffer is allocated anew


def looped(function, array):
    """CPU seconds of an elementwise function of an array that stays in cache, inside a compiled loop."""

    def body(_, carry):
        return function(carry)

    loop = jax.jit(lambda start: jax.lax.fori_loop(0, REPEATS, body, start))
    return cpu_time(loop, array) / REPEATS


def gradient_seconds(given, weights, count=REPEATS):
    """CPU seconds of one gradient and w ← w − η ∇U, inside a compiled loop."""

    def body(_, w):
        return jax.tree.map(lambda x, slope: x + 1e-9 * slope, w, given.value_and_gradient(w)[1])

    loop = jax.jit(lambda w: jax.lax.fori_loop(0, count, body, w))
    return cpu_time(loop, weights) / count


def cost(results, options, save, sizes=((1, 500), (3, 200), (3, 500))):
    """Gradient against max(flops/GEMM rate, bytes/bandwidth) plus φ and φ' at their rates."""
    square = jnp.ones((1000, 1000), jnp.float32)
    gemm = 2 * 1000**3 / cpu_time(jax.jit(lambda x: x @ x), square)
    block = jax.random.normal(jax.random.key(0), (500, 500), jnp.float32)  # a layer's size; fits in cache
    bandwidth = 2 * block.nbytes / looped(lambda x: x * jnp.float32(1.0001), block)
    rows = []
    for depth, width in sizes:
        for phi in ("linear", "relu", "sigmoidal"):
            task = toy(width, 0.5)
            given = posterior.Posterior(task, networks.Network(depth, width, phi), 0.01)
            weights = given.prior(jax.random.key(0))
            apply = given.network.phi
            elementwise = 0.0
            if phi != "linear":
                slope = jax.vmap(jax.vmap(jax.grad(apply)))
                elementwise = depth * (looped(apply, weights.first) + looped(slope, weights.first))
            num_outputs = task.num_targets
            flops = (depth - 1) * 6 * width**3 + 6 * width * width * num_outputs
            bytes_moved = 4 * width * width * (2 * depth + 3 * (depth - 1))  # z, W read, gradients written
            limit = max(flops / gemm, bytes_moved / bandwidth) + elementwise
            spent = gradient_seconds(given, weights)
            rows.append(
                {
                    "depth": depth,
                    "width": width,
                    "nonlinearity": phi,
                    "milliseconds": spent * 1e3,
                    "limit_milliseconds": limit * 1e3,
                    "fraction_of_limit": limit / spent,
                }
            )
            print(rows[-1], flush=True)
    results["cost"] = {"gemm_gflops": gemm / 1e9, "bandwidth_gb": bandwidth / 1e9, "rows": rows}
    save()


def growth(results, options, save, sizes=(100, 200, 500, 1000, 2000)):
    """Cost per gradient over N = P against N·P·(r + N(L − 1)) (r → 3 outputs on the toy task), and memory."""
    rows = []
    for depth in (1, 2):
        for size in sizes:
            given = posterior.Posterior(toy(size, 0.5), networks.Network(depth, size, "sigmoidal"), 0.01)
            weights = given.prior(jax.random.key(0))
            count = REPEATS if depth == 1 or size < 1000 else 2
            memory = jax.jit(given.value_and_gradient).lower(weights).compile().memory_analysis()
            rows.append(
                {
                    "depth": depth,
                    "size": size,
                    "milliseconds": gradient_seconds(given, weights, count) * 1e3,
                    "temporary_mb": memory.temp_size_in_bytes / 1e6,
                    "weights_mb": memory.argument_size_in_bytes / 1e6,
                }
            )
            print(rows[-1], flush=True)
    for depth in (1, 2):
        chosen = [row for row in rows if row["depth"] == depth]
        slope = np.polyfit(
            np.log([r["size"] for r in chosen[-3:]]), np.log([r["milliseconds"] for r in chosen[-3:]]), 1
        )
        for row in chosen:
            row["exponent"] = float(slope[0])
    results["growth"] = rows
    save()


def profile(results, options, save):
    """Milliseconds of a transition's parts."""
    rows = []
    for name in ("mnist", "relu", "sigmoidal"):
        label, given, _, _ = case(name, 0.01)
        weights = given.prior(jax.random.key(0))
        found, gradients = {}, {}
        for steps in (2, 42):
            arguments = {"num_samples": 100, "num_chains": 1, "num_warmup": 0, "moves": ()}
            arguments |= {"method": sampling.HMC(1e-3 * steps, step_size=1e-3)}
            arguments |= {"store": (), "progress": False}
            run = functools.partial(sampling.sample, given, jax.random.key(0), **arguments)
            gradients[steps] = run().info.num_gradients.mean()
            found[steps] = 1e3 * cpu_time(lambda run=run: run().info.energy, repeats=3) / 100
        step = (found[42] - found[2]) / (gradients[42] - gradients[2])
        momentum = 1e3 * cpu_time(jax.jit(standard_normal), jax.random.key(0), weights)
        draw = jax.jit(lambda key, weights, given=given: moves.gibbs(key, weights, given)[0])
        row = {"case": label, "step": step, "momentum": momentum}
        row["gibbs"] = 1e3 * cpu_time(draw, jax.random.key(0), weights)
        row["rest"] = found[2] - gradients[2] * step - momentum
        rows.append(row)
        print(row, flush=True)
    results["profile"] = rows
    save()


# ---- time to the scheme ---------------------------------------------------------------------


def planted_shallow(given):
    """One network as the theory of its nonlinearity has it."""
    solve = {"sigmoidal": theory.sigmoidal.solve, "relu": theory.relu.solve}[given.network.nonlinearity]
    return planting.planted(jax.random.key(0), solve(given.task, temperature=float(given.temperature)), given)


def planted_deep(given):
    """A deep network with half of its neurons on for each class in every layer, W^ℓ by ridge regression."""
    rng = np.random.default_rng(0)
    task, network = given.task, given.network
    width, size = network.width, task.num_inputs
    patterns = np.concatenate([np.eye(task.num_targets), 1 - np.eye(task.num_targets)])
    levels = 2.0 * patterns[rng.permutation(np.resize(np.arange(len(patterns)), width))] - 1.0
    aim = levels[:, task.labels] + 0.3 * rng.standard_normal((width, size))
    hidden, z = [], aim
    for _ in range(network.depth - 1):
        features = np.asarray(network.phi(jnp.asarray(z)), dtype=float) / width**0.5
        start = rng.standard_normal((width, width))
        missing = levels[rng.permutation(width)][:, task.labels] - start @ features
        gram = features @ features.T + 0.3 * np.eye(width)
        matrix = start + np.linalg.solve(gram, features @ missing.T).T
        hidden.append(jnp.asarray(matrix, given.dtype))
        z = matrix @ features
    weights = given.planted(aim, np.zeros((width, task.num_targets)), tuple(hidden))
    return moves.gibbs(jax.random.key(1), weights, given)[0]


#: Of every run to a scheme, from either end.
SCHEME_RUN = {"num_samples": 20, "num_chains": 2, "thinning": 5, "progress": False}
#: Label, depth, width, nonlinearity, y₋, T, settings, planted state, seconds aimed for.
SCHEMES = (
    (
        "sigmoidal N=P=500",
        1,
        500,
        "sigmoidal",
        0.5,
        0.01,
        {"num_warmup": 150, "moves": ("imitate",)},
        planted_shallow,
        60,
    ),
    (
        "ReLU N=P=500",
        1,
        500,
        "relu",
        -0.5,
        0.01,
        {
            "num_warmup": 300,
            "anneal_from": 0.01,
            "method": sampling.HMC(0.6),
            "moves": ("rotations", "split_merge"),
        },
        planted_shallow,
        180,
    ),
    (
        "sigmoidal L=3 N=P=200",
        3,
        200,
        "sigmoidal",
        -0.5,
        0.001,
        {"num_warmup": 60, "anneal_from": 0.001, "moves": ("imitate",)},  # annealed, it learns one class
        planted_deep,
        120,
    ),
)


def one_end(given, key, init, arguments):
    """Samples from one start, and the wall and CPU seconds of warm-up and sampling."""
    wall, cpu = time.perf_counter(), time.process_time()
    samples = sampling.sample(given, key, init=init, **arguments)
    return samples, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def schemes(results, options, save):
    """Seconds from the prior to the scheme, with and without compilation, and the two-ended check."""
    rows = results.setdefault("scheme", [])
    for label, depth, width, phi, y_minus, temperature, more, plant, asked in SCHEMES:
        if any(row["case"] == label for row in rows):
            continue
        task = toy(width, y_minus)
        given = posterior.Posterior(task, networks.Network(depth, width, phi), temperature)
        arguments = SCHEME_RUN | more
        key = jax.random.key(0)
        planted = plant(given)
        _, cold = one_end(given, jax.random.fold_in(key, 0), "prior", arguments)
        samples, warm = one_end(given, jax.random.fold_in(key, 0), "prior", arguments)  # the same run
        other, other_end = one_end(given, jax.random.fold_in(key, 1), planted, arguments)
        ends = sampling.compare_ends(samples, other, given)
        activations = np.asarray(given.network.phi(jnp.asarray(samples.preactivations[-1])))
        if phi == "relu":
            counts = coding.outliers(activations, task.labels).counts
            found = (
                f"outliers in a sample {counts.min()} to {counts.max()}, at the end {counts[:, -1].tolist()}"
            )
        else:
            used = coding.occupancy(coding.codes(activations[:, -1], task.labels))
            found = ", ".join(f"{coding.code_name(c)} {f:.3f}" for c, f in zip(used.codes, used.fractions))
        rows.append(
            {
                "case": label,
                "temperature": temperature,
                "y_minus": y_minus,
                "settings": {name: value for name, value in arguments.items() if name != "progress"},
                "asked_seconds": asked,
                "prior_with_compilation": cold,
                "prior": warm,
                "planted": other_end,
                "threads": int(os.environ["NPROC"]),
                "squared_error_per_input": float(samples.info.squared_error.mean() / task.num_inputs),
                "acceptance": float(samples.info.acceptance.mean()),
                "found": found,
                "agree": ends.agree,
                "verdict": ends.verdict,
                "difference": ends.difference,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        save()


# ---- tables ---------------------------------------------------------------------------------


def table(header, rows):
    lines = [" | ".join(header), " | ".join("---" for _ in header)]
    return "\n".join(f"| {line} |" for line in [*lines, *(" | ".join(row) for row in rows)])


def short(value):
    """Two significant digits, without an exponent."""
    return f"{float(f'{value:.2g}'):g}"


def rates(row, who):
    """ESS per CPU second of every round, (rounds, observables); None where there is none."""
    found = [one.get(who) for one in row["rounds"]]
    if any(one is None or "error" in one for one in found):
        return None
    return np.array([one["ess_per_second"] for one in found])


def bounded(row, who):
    """Whether a rate is only a bound from above."""
    return any(one[who].get("bound", False) for one in row["rounds"])


def worst_ratios(row):
    """Of every observable: ratio to the best peer, its standard error over rounds, and whether it is a bound.

    The geometric mean of the rounds' ratios, each of runs side by side; the error is that of its logarithm.
    """
    there = [peer for peer in PEERS if rates(row, peer) is not None]
    ratios, errors, bounds = np.full(3, np.nan), np.full(3, np.nan), np.zeros(3, bool)
    for index in range(3):
        best = max(there, key=lambda peer: np.log(rates(row, peer)[:, index]).mean())
        logs = np.log(rates(row, "ours")[:, index] / rates(row, best)[:, index])
        ratios[index], bounds[index] = np.exp(logs.mean()), bounded(row, best)
        if len(logs) > 1:
            errors[index] = ratios[index] * logs.std(ddof=1) / len(logs) ** 0.5
    return ratios, errors, bounds


def with_error(value, error):
    return short(value) + ("" if np.isnan(error) else f" ± {short(error)}")


def rate_cell(row, who, index):
    found = rates(row, who)
    if found is None:
        return "–" if all(one.get(who) is None for one in row["rounds"]) else "failed"
    values = found[:, index]
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return ("≤ " if bounded(row, who) else "") + with_error(values.mean(), error)


def label_of(row):
    count = len(row["rounds"])
    return f"{row['case']}, T={row['temperature']:g}, {count} seed{'s' * (count > 1)}"


def peers_markdown(rows):
    parts, names = [], ("this book", "repriorised", "BlackJAX", "NumPyro")
    for index, name in enumerate(OBSERVABLES):
        lines = []
        for row in rows:
            ratios, errors, bounds = worst_ratios(row)
            ratio = ("≥ " if bounds[index] else "") + with_error(ratios[index], errors[index])
            cells = [rate_cell(row, who, index) for who in ("ours", *PEERS)]
            lines.append([label_of(row), *cells, ratio])
        parts += [
            f"**Effective samples of the {name} per CPU second**, whole runs; ± standard errors over seeds\n",
            table(("case", *names, "ratio to the best"), lines) + "\n",
        ]
    lines = [[label_of(row), *(run_cell(row, who) for who in ("ours", *PEERS))] for row in rows]
    parts += [
        "**Length of these runs**, samples × gradients per sample of the first seed; CPU seconds of "
        "compilation and of the warm-up, which has a compilation of its own\n",
        table(("case", *names), lines) + "\n",
    ]
    machines: dict[str, list[str]] = {}
    for row in rows:
        machines.setdefault(row["rounds"][0]["machine"], []).append(label_of(row).rpartition(",")[0])
    if len(machines) > 1:
        where = (f"{machine}: {'; '.join(labels)}" for machine, labels in machines.items())
        parts += [f"Processors, one for all runs of a row. {'. '.join(where)}.\n"]
    drift = [row for row in rows if "MNIST" in row["case"]]
    lines = [
        [
            f"T={row['temperature']:g}",
            length,
            *(short(value) for value in row["rounds"][0]["ours"]["windows"][length]),
        ]
        for row in drift
        for length in row["rounds"][0]["ours"]["windows"]
    ]
    if lines:
        accepted = "; ".join(
            f"T={row['temperature']:g}: "
            + ", ".join(f"`{move}` {short(rate)}" for move, rate in row["rounds"][0]["ours"]["moves"].items())
            for row in drift
        )
        parts += [
            "**Drift on MNIST**: our effective samples per CPU second as runs of so many samples would "
            f"give it; where it falls with their length, something is slow. Moves accepted: {accepted}\n",
            table(("T", "samples", *OBSERVABLES), lines) + "\n",
        ]
    return parts


def run_cell(row, who):
    found = row["rounds"][0].get(who)
    if found is None or "error" in found:
        return "–"
    if not found["samples"]:
        return f"none in {found['limit']:.0f} s"
    cell = f"{found['samples']} × {found['gradients_per_sample']:.0f}"
    if "compilation" in found:
        cell += f"; {max(found['compilation'], 0.0):.0f} s"
    if "warmup_seconds" in found:
        cell += f", {found['warmup_seconds']:.0f} s"
    return cell


def cost_markdown(found):
    rows = [
        [
            f"{r['depth']}, {r['width']}",
            r["nonlinearity"],
            f"{r['milliseconds']:.2f}",
            f"{r['limit_milliseconds']:.2f}",
            f"{100 * r['fraction_of_limit']:.0f} %",
        ]
        for r in found["rows"]
    ]
    return [
        "**One gradient against the machine's limit**: matrix products at "
        f"{found['gemm_gflops']:.0f} Gflop/s, arrays of a layer's size at "
        f"{found['bandwidth_gb']:.0f} GB/s, φ and φ′ at their measured rates\n",
        table(("L, N = P", "φ", "ms", "limit", "share"), rows) + "\n",
    ]


def temporary_mb(depth, size, num_outputs=3):
    """Features and errors of the lower layers and a few thin arrays; the rest is in the gradient's own."""
    return (8 * (depth - 1) * size**2 + 12 * 2 * size * num_outputs) / 1e6


def growth_markdown(found):
    rows = [
        [
            f"{r['depth']}, {r['size']}",
            short(r["milliseconds"]),
            f"{r['exponent']:.2f}",
            short(r["temporary_mb"]),
            short(temporary_mb(r["depth"], r["size"])),
        ]
        for r in found
    ]
    return [
        "**Growth with size**: ms per gradient and its exponent between the three largest sizes (the law is "
        "2 at L = 1, where products are thin, and 3 at L = 2); MB of temporaries beside weights and "
        "gradient, and their formula, 8 (L − 1) N P + 12 (N + P) m bytes\n",
        table(("L, N = P", "ms", "exponent", "MB", "formula"), rows) + "\n",
    ]


def profile_markdown(found):
    rows = [[r["case"], *(short(r[key]) for key in ("step", "momentum", "gibbs", "rest"))] for r in found]
    return [
        "**Where a transition's time goes**, ms: a leapfrog step, the draw of momenta, of all readouts, and "
        "the rest (two energies, acceptance, records)\n",
        table(("case", "step", "momenta", "readouts", "rest"), rows) + "\n",
    ]


def scheme_markdown(rows):
    alone = all(r["threads"] == 1 for r in rows)
    lines = [
        [
            f"{r['case']}, T = {r['temperature']:g}, y₋ = {r['y_minus']:g}",
            *(f"{r[run]['cpu' if alone else 'wall']:.0f}" for run in SCHEME_TIMES),
            str(r["asked_seconds"]),
        ]
        for r in rows
    ]
    found = [f"- {r['case']}: {r['found']}. Two-ended check: {r['verdict']}." for r in rows]
    clock = "CPU seconds of one thread" if alone else "wall seconds on all cores"
    return [
        f"**From the prior to the scheme**, {clock}, two chains together, warm-up and 100 transitions each; "
        "the aim is in wall seconds on 2 cores\n",
        table(("case", *SCHEME_TIMES.values(), "aim"), lines) + "\n",
        "\n".join(found) + "\n",
    ]


SCHEME_TIMES = {
    "prior_with_compilation": "from the prior, compilation included",
    "prior": "compiled",
    "planted": "from the planted state",
}


def markdown(results):
    parts = [
        f"Measured on {results['date']}: {results['machine']}, {results['cores']} cores, "
        f"{results['versions']}; one thread where nothing else is said.\n"
    ]
    sections = {
        "peers": peers_markdown,
        "cost": cost_markdown,
        "profile": profile_markdown,
        "growth": growth_markdown,
        "scheme": scheme_markdown,
    }
    for name, section in sections.items():
        if results.get(name):
            parts += section(results[name])
    return "\n".join(parts)


def plot_ratios(labels, ratios, bounds, targets):
    """Our effective samples per second over the best peer's; open markers are lower bounds."""
    figure, axis = plt.subplots(figsize=(6.4, 0.45 * len(labels) + 1.6), layout="constrained")
    heights = np.arange(len(labels))[::-1]
    colors = (COLORS["non-lazy"], COLORS["relu"], COLORS["linear"])
    for values, low, name, marker, color in zip(ratios.T, bounds.T, OBSERVABLES, "osD", colors):
        axis.plot([], [], marker, color=color, label=name)
        for value, height, bound in zip(values, heights, low):
            axis.plot(value, height, marker, color=color, markerfacecolor="none" if bound else color)
    axis.plot(targets, heights, "|", color=COLORS["theory"], markersize=16, label="aim")
    axis.axvline(1, color=COLORS["control"], linewidth=1)
    axis.set(xscale="log", yticks=heights, ylim=(-0.6, len(labels) - 0.4), xlabel="ratio to the best peer")
    axis.set_yticklabels(labels)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def draw(results):
    """benchmarks/results/samplers.svg."""
    rows = results.get("peers", [])
    if not rows:
        return
    ratios, _, bounds = (np.array(part) for part in zip(*map(worst_ratios, rows)))
    labels = [f"{row['case']}, T={row['temperature']:g}" for row in rows]
    targets = [30 if "MNIST" in row["case"] else 10 for row in rows]
    with theme():
        figure = plot_ratios(labels, ratios, bounds, targets)
        figure.savefig(RESULTS / "samplers.svg", metadata={"Date": None})


def main():
    if sys.argv[1:2] == ["--peer"]:
        run_peer(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds of every sampling")
    parser.add_argument("--seeds", type=int, default=3, help="rounds")
    parser.add_argument("--limit", type=float, default=1200.0, help="CPU seconds of a peer, all in all")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.01, 0.001])
    jobs = {"cost": cost, "growth": growth, "profile": profile, "peers": compare, "scheme": schemes}
    parser.add_argument("--parts", nargs="*", default=list(jobs), choices=list(jobs))
    parser.add_argument("--resume", action="store_true", help="keep what has been measured")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / "samplers.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    versions = f"JAX {jax.__version__}, BlackJAX {blackjax.__version__}"
    if importlib.util.find_spec("numpyro"):
        import numpyro

        versions += f", NumPyro {numpyro.__version__}"
    if options.parts and not (options.resume and "machine" in results):  # else from what is there
        results |= measured(versions=versions)

    def save():
        target.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        (RESULTS / "samplers.md").write_text(markdown(results))
        draw(results)

    for name in options.parts:
        if not options.resume:
            results.pop(name, None)
        if name in ("peers", "scheme") or name not in results:
            jobs[name](results, options, save)
    save()


if __name__ == "__main__":
    main()
