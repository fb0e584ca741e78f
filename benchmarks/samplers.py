"""The book's sampler, NumPyro's NUTS and BlackJAX's NUTS on the same posteriors; costs against limits.

    python benchmarks/samplers.py [--parts peers cost growth scheme] [--seconds 15] [--cases relu mnist ...]

Writes benchmarks/results/samplers.json and samplers.md; book/samplers.md includes the second. Times are CPU
seconds of one thread: the cost of the arithmetic, whatever else the machine does meanwhile. The peers sample
all of W¹ and a (paper A's weights, with a = σ_a ã so that scales are fair), start from an equilibrium state
that our sampler reached, and adapt with their own defaults; compilation and warm-up are not charged to
anyone. Where a peer drew fewer than 20 samples in its budget its ESS is taken to be the number of samples,
the most it can sensibly be. NumPyro is no dependency of the book: install benchmarks/requirements.txt;
without it its column is empty.
"""
# ruff: noqa: E402 -- threads and float types are settled before JAX starts

import argparse
import importlib.util
import json
import os
import platform
import time
from datetime import date
from pathlib import Path

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ.setdefault("NPROC", "1")

import arviz
import blackjax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

from coding_schemes import coding, networks, posterior, sampling, tasks, theory

RESULTS = Path(__file__).parent / "results"
RATIOS = (0.5, 0.25, 0.25)
CASES = {
    "sigmoidal": (
        "sigmoidal N=P=500",
        lambda: tasks.toy(500, RATIOS, y_minus=0.5),
        500,
        "sigmoidal",
        ("gibbs",),
    ),
    "relu": ("ReLU N=P=500", lambda: tasks.toy(500, RATIOS, y_minus=-0.5), 500, "relu", ("gibbs",)),
    "linear": ("linear N=P=200", lambda: tasks.toy(200, RATIOS, y_minus=-0.5), 200, "linear", ("gibbs",)),
    "mnist": (
        "sigmoidal MNIST N=P=100",
        lambda: tasks.mnist(100, 0, y_minus=0.5),
        100,
        "sigmoidal",
        ("gibbs",),
    ),
}
OBSERVABLES = ("energy", "squared error", "readout²")


def effective(series):
    """ESS of each observable; series (observables, samples) or with chains in between."""
    return np.array([float(arviz.ess(np.atleast_2d(np.asarray(s, dtype=float)))) for s in series])


def ours(given, moves, seconds):
    """ESS per CPU second, a state in equilibrium, and the settings."""
    settings = {"num_chains": 1, "moves": moves, "store": ("readouts",), "progress": False}
    warm = sampling.sample(given, jax.random.key(0), num_samples=20, num_warmup=300, **settings)
    step = float(warm.info.step_size[0, 0])
    more = settings | {"num_warmup": 0, "step_size": step, "init": warm.final}
    num_samples = 20
    sampling.sample(given, jax.random.key(1), num_samples=num_samples, **more)  # compiled
    while True:
        start = time.process_time()
        samples = sampling.sample(given, jax.random.key(2), num_samples=num_samples, **more)
        spent = time.process_time() - start
        if spent > seconds / 2:
            break
        num_samples = int(num_samples * min(10, max(1.5, 0.9 * seconds / max(spent, 1e-3)))) // 20 * 20
    moments = np.square(samples.readouts, dtype=float).mean((2, 3))
    ess = effective([samples.info.energy, samples.info.squared_error, moments])
    result = {
        "ess_per_second": (ess / spent).tolist(),
        "samples": num_samples,
        "seconds": spent,
        "step_size": step,
        "gradients_per_sample": float(samples.info.num_gradients.mean()),
        "acceptance": float(samples.info.acceptance.mean()),
    }
    return result, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), samples.final)


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


def timed(step, state, observe, seconds, most=2000):
    """Repeats step until the budget is spent: observables (3, samples) and CPU seconds."""
    state, position = step(jax.random.key(100), state)  # compiled
    series, start = [], time.process_time()
    while time.process_time() - start < seconds and len(series) < most:
        state, position = step(jax.random.fold_in(jax.random.key(101), len(series)), state)
        series.append(np.asarray(observe(position)))
    return np.array(series).T, time.process_time() - start


def rate(series, spent):
    count = series.shape[1]
    ess = effective(series) if count >= 20 else np.full(3, float(count))
    return {"ess_per_second": (ess / spent).tolist(), "samples": count, "seconds": spent, "bound": count < 20}


def blackjax_nuts(given, weights, seconds, warmup):
    potential, start, observe = weight_space(given, weights)
    adapt = blackjax.window_adaptation(blackjax.nuts, lambda position: -potential(position))
    (state, parameters), _ = jax.jit(lambda k, p: adapt.run(k, p, warmup))(jax.random.key(3), start)
    kernel = blackjax.nuts(lambda position: -potential(position), **parameters)

    @jax.jit
    def step(key, state):
        state, _ = kernel.step(key, state)
        return state, state.position

    return rate(*timed(step, state, jax.jit(observe), seconds))


def numpyro_nuts(given, weights, seconds, warmup):
    if importlib.util.find_spec("numpyro") is None:
        return None
    from numpyro.infer import NUTS

    potential, start, observe = weight_space(given, weights)
    kernel = NUTS(potential_fn=potential)
    state = kernel.init(jax.random.PRNGKey(3), warmup, start, (), {})
    sample = jax.jit(lambda state: kernel.sample(state, (), {}))
    for _ in range(warmup):
        state = sample(state)

    def step(key, state):
        state = sample(state)
        return state, state.z

    return rate(*timed(step, state, jax.jit(observe), seconds))


def compare(names, seconds, warmup):
    rows = []
    for name in names:
        label, make, width, phi, moves = CASES[name]
        for temperature in (0.01, 0.001):
            given = posterior.Posterior(make(), networks.Network(1, width, phi), temperature)
            mine, state = ours(given, moves, seconds)
            row = {"case": label, "temperature": temperature, "ours": mine}
            for peer in (blackjax_nuts, numpyro_nuts):
                try:
                    with jax.enable_x64(False):  # both packages want one float type throughout
                        row[peer.__name__] = peer(given, state, seconds, warmup)
                except Exception as error:  # a peer that fails is reported, not hidden
                    row[peer.__name__] = {"error": repr(error)[:200]}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


# ---- cost of a gradient ---------------------------------------------------------------------


def cpu_time(function, *arguments, repeats=5):
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


def cost(sizes=((1, 500), (3, 200), (3, 500))):
    """Value and gradient against max(flops/GEMM rate, bytes/bandwidth) plus φ and φ' at their rates."""
    square = jnp.ones((1000, 1000), jnp.float32)
    gemm = 2 * 1000**3 / cpu_time(jax.jit(lambda x: x @ x), square)
    block = jnp.ones((500, 500), jnp.float32)  # the working set of one layer, which fits in cache
    passes = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, y: y * jnp.float32(1.0001), x))
    bandwidth = 100 * 2 * block.nbytes / cpu_time(passes, block)
    rows = []
    for depth, width in sizes:
        for phi in ("linear", "relu", "sigmoidal"):
            task = tasks.toy(width, RATIOS, y_minus=0.5)
            given = posterior.Posterior(task, networks.Network(depth, width, phi), 0.01)
            weights = given.prior(jax.random.key(0))
            z = weights.first
            apply = given.network.phi
            elementwise = cpu_time(jax.jit(apply), z) + cpu_time(
                jax.jit(lambda x, apply=apply: jax.grad(lambda y: apply(y).sum())(x)), z
            )
            elementwise *= depth if phi != "linear" else 0
            flops = (depth - 1) * 6 * width**3 + 6 * width * width * 3
            bytes_moved = 4 * width * width * (2 * depth + 3 * (depth - 1))  # z, W read, gradients written
            limit = max(flops / gemm, bytes_moved / bandwidth) + elementwise
            spent = cpu_time(jax.jit(jax.value_and_grad(given.logdensity)), weights)
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
    return {"gemm_gflops": gemm / 1e9, "bandwidth_gb": bandwidth / 1e9, "rows": rows}


def growth(sizes=(100, 200, 500, 1000, 2000)):
    """Cost per gradient over N = P against N·P·(r + N(L − 1)) (r → 3 outputs on the toy task), and memory."""
    rows = []
    for depth in (1, 2):
        for size in sizes:
            given = posterior.Posterior(
                tasks.toy(size, RATIOS), networks.Network(depth, size, "sigmoidal"), 0.01
            )
            weights = given.prior(jax.random.key(0))
            function = jax.jit(jax.value_and_grad(given.logdensity)).lower(weights).compile()
            memory = function.memory_analysis()
            rows.append(
                {
                    "depth": depth,
                    "size": size,
                    "milliseconds": cpu_time(function, weights, repeats=3) * 1e3,
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
    return rows


# ---- time to the scheme ---------------------------------------------------------------------


def planted_sigmoidal(given):
    """One network as the theory has it: codes by their probabilities, z about φ⁻¹⟨φ⟩."""
    scheme = theory.sigmoidal.solve(given.task, temperature=float(given.temperature))
    rng = np.random.default_rng(0)
    width = given.network.width
    which = np.repeat(np.arange(len(scheme.probabilities)), run_counts(scheme.probabilities, width))
    grid = np.linspace(-4, 4, 4001)
    levels = np.asarray(networks.sigmoidal(jnp.asarray(grid)))
    centres = np.interp(scheme.activations, levels, grid)[which][:, given.task.labels]
    z = centres + 0.6 * rng.standard_normal(centres.shape)
    return given.planted(z, scheme.readouts[which])


def planted_relu(given):
    """Outliers as the theory has them, the rest of the neurons from the prior about the bulk."""
    scheme = theory.relu.solve(given.task, temperature=float(given.temperature))
    rng = np.random.default_rng(0)
    width, size = given.network.width, given.task.num_inputs
    z = rng.standard_normal((width, size))
    a = scheme.bulk_readout + float(given.readout_std) * rng.standard_normal((width, given.task.num_targets))
    count = len(scheme.outlier_readouts)
    a[:count] = width**0.5 * scheme.outlier_readouts
    on = width**0.5 * scheme.outlier_preactivations[:, given.task.labels]
    z[:count] = np.where(on > 1e-6, on, -np.abs(z[:count]))
    return given.planted(z, a)


def run_counts(probabilities, total):
    exact = np.asarray(probabilities) / np.sum(probabilities) * total
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact)[: total - counts.sum()]] += 1
    return counts


def schemes():
    """CPU seconds from the prior to the scheme, two-ended where the planted state is a shallow one."""
    rows = []
    plan = (
        ("sigmoidal N=P=500", 1, 500, "sigmoidal", 0.5, 0.01, ("gibbs",), 200, planted_sigmoidal),
        (
            "ReLU N=P=500",
            1,
            500,
            "relu",
            -0.5,
            0.01,
            ("gibbs", "rotations", "split_merge"),
            400,
            planted_relu,
        ),
        ("sigmoidal L=3 N=P=200", 3, 200, "sigmoidal", -0.5, 0.001, ("gibbs",), 400, None),
    )
    for label, depth, width, phi, y_minus, temperature, moves, warmup, plant in plan:
        task = tasks.toy(width, RATIOS, y_minus=y_minus)
        given = posterior.Posterior(task, networks.Network(depth, width, phi), temperature)
        arguments = {
            "num_samples": 20,
            "num_chains": 2,
            "num_warmup": warmup,
            "thinning": 5,
            "moves": moves,
            "progress": False,
        }
        start_cpu = time.process_time()
        samples = sampling.sample(given, jax.random.key(0), **arguments)
        spent = time.process_time() - start_cpu
        verdict, agree = "one end only", None
        if plant is not None:
            ends = sampling.two_ended(given, jax.random.key(0), plant(given), **arguments)
            samples, verdict, agree = ends.prior, ends.verdict, ends.agree
        activations = np.asarray(given.network.phi(jnp.asarray(samples.preactivations[-1][:, -1])))
        if phi == "relu":
            found = f"outliers per chain: {coding.outliers(activations, task.labels).count.tolist()}"
        else:
            used = coding.occupancy(coding.codes(activations, task.labels))
            found = ", ".join(f"{coding.code_name(c)} {f:.3f}" for c, f in zip(used.codes, used.fractions))
        rows.append(
            {
                "case": label,
                "temperature": temperature,
                "y_minus": y_minus,
                "warmup": warmup,
                "warmup_seconds": samples.seconds["warmup"],
                "sampling_seconds": samples.seconds["sampling"],
                "cpu_seconds": spent,
                "squared_error_per_input": float(samples.info.squared_error.mean() / task.num_inputs),
                "found": found,
                "agree": agree,
                "verdict": verdict,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


# ---- tables ---------------------------------------------------------------------------------


def table(header, rows):
    lines = [" | ".join(header), " | ".join("---" for _ in header)]
    return "\n".join(f"| {line} |" for line in [*lines, *(" | ".join(row) for row in rows)])


def markdown(results):
    parts = [
        f"Measured on {results['date']}: {results['machine']}, {results['cores']} cores, one thread in use, "
        f"{results['versions']}.\n"
    ]
    if results.get("peers"):
        rows = []
        for row in results["peers"]:
            best = np.zeros(3)
            cells = []
            for peer in ("blackjax_nuts", "numpyro_nuts"):
                found = row[peer]
                if found is None or "error" in found:
                    cells.append("–" if found is None else "failed")
                    continue
                rates = np.array(found["ess_per_second"])
                best = np.maximum(best, rates)
                cells.append(("≤ " if found["bound"] else "") + " / ".join(f"{r:.2g}" for r in rates))
            mine = np.array(row["ours"]["ess_per_second"])
            ratio = " / ".join(f"{r:.0f}×" for r in mine / best) if best.all() else "–"
            rows.append(
                [
                    row["case"],
                    f"{row['temperature']:g}",
                    " / ".join(f"{r:.3g}" for r in mine),
                    *cells,
                    ratio,
                ]
            )
        parts += [
            "**Effective samples per CPU second** of energy / training error / readout second moment.\n",
            table(("case", "T", "this book", "BlackJAX NUTS", "NumPyro NUTS", "ratio to the better"), rows)
            + "\n",
        ]
    if results.get("cost"):
        found = results["cost"]
        rows = [
            [
                str(r["depth"]),
                str(r["width"]),
                r["nonlinearity"],
                f"{r['milliseconds']:.2f}",
                f"{r['limit_milliseconds']:.2f}",
                f"{100 * r['fraction_of_limit']:.0f} %",
            ]
            for r in found["rows"]
        ]
        parts += [
            f"**One gradient against the machine's limit** (GEMM {found['gemm_gflops']:.0f} Gflop/s, arrays "
            f"of a layer's size {found['bandwidth_gb']:.0f} GB/s, φ and φ′ at their measured rates).\n",
            table(("L", "N = P", "φ", "ms", "limit, ms", "share of the limit"), rows) + "\n",
        ]
    if results.get("growth"):
        rows = [
            [
                str(r["depth"]),
                str(r["size"]),
                f"{r['milliseconds']:.3g}",
                f"{r['exponent']:.2f}",
                f"{r['temporary_mb']:.3g}",
                f"{r['weights_mb']:.3g}",
            ]
            for r in results["growth"]
        ]
        parts += [
            "**Growth with size**; the law is N² at L=1 (thin products) and N³ at L=2. Memory: temporaries "
            "of one gradient beside the weights.\n",
            table(
                ("L", "N = P", "ms per gradient", "exponent, three largest", "temporary MB", "weights MB"),
                rows,
            )
            + "\n",
        ]
    if results.get("scheme"):
        rows = [
            [
                r["case"],
                f"{r['temperature']:g}",
                f"{r['cpu_seconds']:.0f}",
                r["found"],
                r["verdict"],
            ]
            for r in results["scheme"]
        ]
        parts += [
            "**From the prior to the scheme**, two chains, CPU seconds of the run from the prior with "
            "compilation.\n",
            table(("case", "T", "CPU s", "scheme found", "two-ended check"), rows) + "\n",
        ]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="CPU seconds of sampling per method and case"
    )
    parser.add_argument("--warmup", type=int, default=60, help="warm-up transitions of the peers")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parts = ("peers", "cost", "growth", "scheme")
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=parts)
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
    jobs = {
        "cost": cost,
        "growth": growth,
        "scheme": schemes,
        "peers": lambda: compare(options.cases, options.seconds, options.warmup),
    }
    for name, job in jobs.items():
        if name in options.parts:
            results[name] = job()
            target.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
            (RESULTS / "samplers.md").write_text(markdown(results))


def processor():
    """Model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
