"""The book's sampler, NumPyro's NUTS and BlackJAX's NUTS on the same posteriors; costs against limits.

    python benchmarks/samplers.py [--parts cost growth profile peers scheme] [--cases ...] [--resume]

Writes benchmarks/results/samplers.json, samplers.md and samplers.svg, a row as soon as it is measured;
with --resume what is there is not measured again. book/samplers.md includes the tables. Times are
CPU seconds of one thread: the cost of the arithmetic, whatever else the machine does meanwhile; part
`scheme` gives wall times, too, and is meant for NPROC=2.

The peers sample all of W¹ and ã (paper A's weights with a = σ_a ã, so that scales are fair) and start from an
equilibrium state that our sampler reached. Where they can, they adapt step size and diagonal mass matrix as
they do by default; where that would take hours, or did not end within `--limit` CPU seconds, they get the
step size that ours adapted and the unit mass matrix, which suits these coordinates, and no warm-up: better
than they would do alone. Compilation and warm-up are not charged to anyone. ESS depends on how long a run is
where something drifts slowly, so ours is taken in windows of about as many samples as the peer drew. Where a
peer drew fewer than 20 samples, its ESS is taken to be their number, and where it drew none within the limit,
to be one per trajectory of as many leapfrog steps as ours takes. NumPyro is no dependency of the book: `make
bench` installs it beside.
"""
# ruff: noqa: E402 -- threads and float types are settled before JAX starts

import argparse
import dataclasses
import functools
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

if os.environ.setdefault("NPROC", "1") == "1":
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[_name] = "1"

import blackjax
import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from arviz_stats.base import array_stats

jax.config.update("jax_enable_x64", True)

from _machine import processor
from coding_schemes import coding, networks, planting, posterior, sampling, tasks, theory
from coding_schemes.sampling import moves
from coding_schemes.sampling.hmc import standard_normal
from companion.figures import COLORS, theme

RESULTS = Path(__file__).parent / "results"
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
        {"moves": ("imitate",), "method": sampling.HMC(0.8)},
        1000,
    ),
    "linear": ("linear N=P=200", lambda: toy(200, -0.5), 200, "linear", {"moves": ("gibbs",)}, 400),
    "relu": (  # short steps, for the kinks
        "ReLU N=P=500",
        lambda: toy(500, -0.5),
        500,
        "relu",
        {"moves": ("gibbs",), "method": sampling.HMC(max_num_steps=400, target_acceptance=0.65)},
        300,
    ),
    "sigmoidal": (
        "sigmoidal N=P=500",
        lambda: toy(500, 0.5),
        500,
        "sigmoidal",
        {"moves": ("gibbs",), "method": sampling.HMC(1.0)},
        300,
    ),
}
#: Warm-up transitions of the peers, 0 for none, and CPU seconds of sampling.
PEER_RUN = {"mnist": (1000, 60.0), "linear": (200, 45.0), "relu": (0, 140.0), "sigmoidal": (0, 70.0)}
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


def equilibrium(given, more, length):
    """Samples after `length` warm-up transitions from the theory's state if any; their last state."""
    task, phi = given.task, given.network.nonlinearity
    init = "prior"
    if task.is_orthogonal and phi != "linear":
        init = planted_shallow(given)
    warm = sampling.sample(
        given, jax.random.key(0), num_samples=20, num_warmup=length, init=init, **settings_of(more)
    )
    return warm, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), warm.final)


def settings_of(more):
    return {"num_chains": 1, "store": ("readouts",), "progress": False, "moves": ()} | more


def ours(given, more, length, seconds):
    """ESS per CPU second in windows and over the whole, a state in equilibrium, and the settings."""
    warm, _ = equilibrium(given, more, length)
    step = float(warm.info.step_size[0, 0])
    method = dataclasses.replace(more.get("method", sampling.HMC()), step_size=step)
    arguments = settings_of(more) | {"num_warmup": 0, "method": method, "num_samples": CHUNK}
    final = sampling.sample(given, jax.random.key(1), init=warm.final, **arguments).final  # compiled
    parts, gradients, acceptance, spent = [], [], [], 0.0
    while spent < seconds:
        key = jax.random.fold_in(jax.random.key(2), len(parts))
        start = time.process_time()
        samples = sampling.sample(given, key, init=final, **arguments)
        spent += time.process_time() - start
        final = samples.final
        moments = np.square(samples.readouts, dtype=float).mean((2, 3))
        parts.append(np.stack([samples.info.energy, samples.info.squared_error, moments])[:, 0])
        gradients.append(samples.info.num_gradients.mean())
        acceptance.append(samples.info.acceptance.mean())
    series = np.concatenate(parts, axis=1)
    result = {
        "ess_per_second": (effective(series) / spent).tolist(),
        "windows": windows(series, spent),
        "samples": series.shape[1],
        "seconds": spent,
        "step_size": step,
        "gradients_per_sample": float(np.mean(gradients)),
        "acceptance": float(np.mean(acceptance)),
    }
    return result, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), final)


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


def beside(row, peer):
    """Our ESS per second in windows of about as many samples as a peer drew."""
    lengths = row["ours"]["windows"]
    count = max(row[peer]["samples"], 1)
    return np.array(lengths[min(lengths, key=lambda length: abs(np.log(int(length) / count)))])


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


def timed(step, state, observe, seconds, most=4000):
    """Repeats step until the budget is spent: observables (3, samples), steps per sample, CPU seconds."""
    state, position, _ = step(jax.random.key(100), state)  # compiled
    observe(position)
    series, steps, start = [], [], time.process_time()
    while time.process_time() - start < seconds and len(series) < most:
        state, position, count = step(jax.random.fold_in(jax.random.key(101), len(series)), state)
        series.append(np.asarray(observe(position)))
        steps.append(int(count))
    return np.array(series).T, np.mean(steps), time.process_time() - start


def rate(series, steps, spent):
    count = series.shape[1]
    ess = effective(series) if count >= 20 else np.full(3, float(count))
    return {
        "ess_per_second": (ess / spent).tolist(),
        "samples": count,
        "seconds": spent,
        "gradients_per_sample": steps,
        "bound": count < 20,
    }


def blackjax_nuts(given, weights, seconds, warmup, step_size):
    potential, start, observe = weight_space(given, weights)

    def logdensity(position):
        return -potential(position)

    if warmup:
        adapt = blackjax.window_adaptation(blackjax.nuts, logdensity, adaptation_info_fn=lambda *_: None)
        (state, parameters), _ = jax.jit(lambda k, p: adapt.run(k, p, warmup))(jax.random.key(3), start)
        kernel = blackjax.nuts(logdensity, **parameters)
    else:
        size = sum(leaf.size for leaf in jax.tree.leaves(start))
        kernel = blackjax.nuts(logdensity, step_size=step_size, inverse_mass_matrix=jnp.ones(size))
        state = kernel.init(start)

    @jax.jit
    def step(key, state):
        state, info = kernel.step(key, state)
        return state, state.position, info.num_integration_steps

    return rate(*timed(step, state, jax.jit(observe), seconds))


def numpyro_nuts(given, weights, seconds, warmup, step_size):
    from numpyro.infer import NUTS

    potential, start, observe = weight_space(given, weights)
    fixed = {} if warmup else {"adapt_step_size": False, "adapt_mass_matrix": False, "step_size": step_size}
    kernel = NUTS(potential_fn=potential, **fixed)
    state = kernel.init(jax.random.PRNGKey(3), warmup, start, (), {})
    sample = jax.jit(lambda state: kernel.sample(state, (), {}))
    for _ in range(warmup):
        state = sample(state)

    def step(key, state):
        state = sample(state)
        return state, state.z, state.num_steps

    return rate(*timed(step, state, jax.jit(observe), seconds))


def leapfrog_seconds(given, weights):
    """CPU seconds of one gradient in weight space, inside a compiled loop as NUTS has it."""
    potential, start, _ = weight_space(given, weights)

    def body(_, position):
        slope = jax.grad(potential)(position)
        return jax.tree.map(lambda w, g: w - 1e-9 * g, position, slope)

    loop = jax.jit(lambda position: jax.lax.fori_loop(0, 20, body, position))
    return cpu_time(loop, start, repeats=3) / 20


PEERS = {"blackjax_nuts": blackjax_nuts, "numpyro_nuts": numpyro_nuts}


def case(name, temperature):
    """Label, posterior, settings and equilibration of a row."""
    label, make, width, phi, more, length = CASES[name]
    return label, posterior.Posterior(make(), networks.Network(1, width, phi), temperature), more, length


def peer_process(name, case_name, temperature, state, step_size, options):
    """A peer's row from a process of its own, which is killed at the limit of CPU time."""
    if name == "numpyro_nuts" and importlib.util.find_spec("numpyro") is None:
        return None
    warmup, seconds = PEER_RUN[case_name]
    seconds, limit = options.peer_seconds or seconds, options.limit
    with tempfile.TemporaryDirectory() as folder:
        start, result = Path(folder) / "start.npz", Path(folder) / "result.json"
        np.savez(start, first=state.first, readout=state.readout)
        for transitions in dict.fromkeys((warmup, 0)):
            arguments = [name, case_name, temperature, start, result, seconds, transitions, step_size, limit]
            done = subprocess.run(
                [sys.executable, __file__, "--peer", *map(str, arguments)], capture_output=True, text=True
            )
            if result.exists():
                return json.loads(result.read_text()) | {"warmup": transitions}
        return {"error": "limit" if done.returncode < 0 else done.stderr[-200:]}


def run_peer(name, case_name, temperature, start, result, seconds, warmup, step_size, limit):
    """Inside the peer's process."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(float(limit)), int(float(limit)) + 5))
    _, given, _, _ = case(case_name, float(temperature))
    with np.load(start) as file:
        weights = posterior.Weights(jnp.asarray(file["first"]), (), jnp.asarray(file["readout"]))
    with jax.enable_x64(False):  # both packages want one float type throughout
        row = PEERS[name](given, weights, float(seconds), int(warmup), float(step_size))
    Path(result).write_text(json.dumps(row))


def compare(results, options, save):
    """Rows of the comparison with peers; what is there is kept."""
    rows = results.setdefault("peers", [])
    for name in options.cases:
        for temperature in options.temperatures:
            label, given, more, length = case(name, temperature)
            row = next((r for r in rows if (r["case"], r["temperature"]) == (label, temperature)), None)
            if row is None:
                row = {"case": label, "temperature": temperature}
                rows.append(row)
            state = None
            if "ours" not in row:
                row["ours"], state = ours(given, more, length, options.seconds)
                row["peer_gradient_seconds"] = leapfrog_seconds(given, state)
                print(json.dumps(row), flush=True)
                save()
            missing = [peer for peer in PEERS if row.get(peer) is None and peer in options.peers]
            if missing and state is None:
                state = equilibrium(given, more, length)[1]
            for peer in missing:
                step_size = row["ours"]["step_size"]
                row[peer] = peer_process(peer, name, temperature, state, step_size, options)
                if row[peer] is not None and row[peer].get("error") == "limit":
                    steps = row["ours"]["gradients_per_sample"] - 1
                    bound = 1 / (steps * row["peer_gradient_seconds"])
                    row[peer] = {"ess_per_second": [bound] * 3, "bound": True, "samples": 0, "warmup": 0}
                print(json.dumps(row[peer]), flush=True)
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
        found = {}
        for steps in (2, 42):
            arguments = {"num_samples": 100, "num_chains": 1, "num_warmup": 0, "moves": ()}
            arguments |= {"method": sampling.HMC(max_num_steps=steps, step_size=1e-3)}
            arguments |= {"store": (), "progress": False}
            run = functools.partial(sampling.sample, given, jax.random.key(0), **arguments)
            found[steps] = 1e3 * cpu_time(lambda run=run: run().info.energy, repeats=3) / 100
        step = (found[42] - found[2]) / 40
        momentum = 1e3 * cpu_time(jax.jit(standard_normal), jax.random.key(0), weights)
        draw = jax.jit(lambda key, weights, given=given: moves.gibbs(key, weights, given)[0])
        row = {"case": label, "step": step, "momentum": momentum}
        row["gibbs"] = 1e3 * cpu_time(draw, jax.random.key(0), weights)
        row["rest"] = found[2] - 2 * step - momentum
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


def worst_ratios(row):
    """Ratio to the better peer of each observable, that peer's name, and whether it is only a bound."""
    ratios, names, bounds = np.full(3, np.inf), [""] * 3, np.zeros(3, bool)
    for peer in PEERS:
        found = row.get(peer)
        if found is None or "error" in found:
            continue
        for index, ratio in enumerate(beside(row, peer) / np.array(found["ess_per_second"])):
            if ratio < ratios[index]:
                ratios[index], names[index], bounds[index] = ratio, peer, found["bound"]
    return ratios, names, bounds


def peer_cell(found, index):
    if found is None or "error" in found:
        return "–" if found is None else "failed"
    mark = "" if found["warmup"] else " †"
    return ("≤ " if found["bound"] else "") + short(found["ess_per_second"][index]) + mark


def peers_markdown(rows):
    rows = [row for row in rows if "ours" in row]
    parts = []
    for index, name in enumerate(OBSERVABLES):
        lines = []
        for row in rows:
            ratios, names, bounds = worst_ratios(row)
            mine = row["ours"]["ess_per_second"][index]
            window, ratio = "–", "–"
            if names[index]:
                window = short(beside(row, names[index])[index])
                ratio = ("≥ " if bounds[index] else "") + short(ratios[index])
            cells = [peer_cell(row.get(peer), index) for peer in PEERS]
            lines.append([f"{row['case']}, T={row['temperature']:g}", short(mine), window, *cells, ratio])
        header = ("case", "this book, whole run", "in windows", "BlackJAX", "NumPyro", "ratio")
        parts += [
            f"**Effective samples of the {name} per CPU second**\n",
            table(header, lines) + "\n",
        ]
    lines = [
        [
            f"{row['case']}, T={row['temperature']:g}",
            f"{row['ours']['samples']} × {row['ours']['gradients_per_sample']:.0f}",
            *(run_cell(row.get(peer)) for peer in PEERS),
        ]
        for row in rows
    ]
    parts += [
        "**Length of these runs**, samples × gradients per sample; of the peers, warm-up transitions before; "
        "† stands for none, with our step size and the unit mass matrix\n",
        table(("case", "this book", "BlackJAX", "NumPyro"), lines) + "\n",
    ]
    return parts


def run_cell(found):
    if found is None or "error" in found:
        return "–"
    if not found["samples"]:
        return "none"
    warmup = f"after {found['warmup']}" if found["warmup"] else "†"
    return f"{found['samples']} × {found['gradients_per_sample']:.0f}, {warmup}"


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
    """Our effective samples per second over the better peer's; open markers are lower bounds."""
    figure, axis = plt.subplots(figsize=(6.4, 0.45 * len(labels) + 1.6), layout="constrained")
    heights = np.arange(len(labels))[::-1]
    colors = (COLORS["non-lazy"], COLORS["relu"], COLORS["linear"])
    for values, low, name, marker, color in zip(ratios.T, bounds.T, OBSERVABLES, "osD", colors):
        axis.plot([], [], marker, color=color, label=name)
        for value, height, bound in zip(values, heights, low):
            axis.plot(value, height, marker, color=color, markerfacecolor="none" if bound else color)
    axis.plot(targets, heights, "|", color=COLORS["theory"], markersize=16, label="aim")
    axis.axvline(1, color=COLORS["control"], linewidth=1)
    axis.set(xscale="log", yticks=heights, ylim=(-0.6, len(labels) - 0.4), xlabel="ratio to the better peer")
    axis.set_yticklabels(labels)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def draw(results):
    """benchmarks/results/samplers.svg."""
    rows = [row for row in results.get("peers", []) if "ours" in row and all(worst_ratios(row)[1])]
    if not rows:
        return
    ratios, _, bounds = (np.array(part) for part in zip(*map(worst_ratios, rows)))
    labels = [f"{row['case']}, T={row['temperature']:g}" for row in rows]
    targets = [30 if "MNIST" in row["case"] else 10 for row in rows]
    with theme(), matplotlib.rc_context({"svg.hashsalt": "samplers"}):
        figure = plot_ratios(labels, ratios, bounds, targets)
        figure.savefig(RESULTS / "samplers.svg", metadata={"Date": None})


def main():
    if sys.argv[1:2] == ["--peer"]:
        run_peer(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0, help="CPU seconds of our sampling per case")
    parser.add_argument("--limit", type=float, default=300.0, help="CPU seconds of a peer, all in all")
    parser.add_argument("--peer-seconds", type=float, help="CPU seconds of a peer's sampling, for its own")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.01, 0.001])
    jobs = {"cost": cost, "growth": growth, "profile": profile, "peers": compare, "scheme": schemes}
    parser.add_argument("--parts", nargs="+", default=list(jobs), choices=list(jobs))
    parser.add_argument("--resume", action="store_true", help="keep what has been measured")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / "samplers.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    versions = f"JAX {jax.__version__}, BlackJAX {blackjax.__version__}"
    if importlib.util.find_spec("numpyro"):
        import numpyro

        versions += f", NumPyro {numpyro.__version__}"
    results |= {
        "date": date.today().isoformat(),
        "machine": processor(),
        "cores": os.cpu_count(),
        "versions": versions,
    }

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
