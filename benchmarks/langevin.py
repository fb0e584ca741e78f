"""A step of plain Langevin dynamics: ours, BlackJAX's SGLD kernel, and the gradient alone, their limit.

    python benchmarks/langevin.py

Both kernels run the same number of steps from the same networks, with the same gradient over all inputs and
the same compiler options; BlackJAX's draws normal noise. The mean training error of both has to agree within
its scatter. Results go to results/langevin.json and .md.
"""

import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from _machine import leave, measured
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import PlainLangevin, langevin, sample

SIZE, TEMPERATURE, STEP_SIZE = 60, 0.01, 0.05  # N = P, T, ε
CHAINS, STEPS, REPEATS = 20, 400, 9
RECORDS = 40  # runs of STEPS steps over which the training error is averaged


def programs(posterior):
    """Compiled functions (keys, networks) → networks after STEPS steps, by name."""
    size, dt = jnp.float32(STEP_SIZE), jnp.float32(STEP_SIZE**2 / 2)

    def gradient(weights, _=None):
        return posterior.value_and_gradient(weights)[1]

    peer = blackjax.sgld(gradient)

    def ours(key, weights):
        return langevin.plain_steps(key, weights, lambda _, w: gradient(w), size, STEPS)[0]

    def theirs(key, weights):
        return jax.lax.fori_loop(
            0, STEPS, lambda k, w: peer.step(jax.random.fold_in(key, k), w, None, dt), weights
        )

    def drift(_, weights):
        return jax.lax.fori_loop(
            0, STEPS, lambda _, w: jax.tree.map(lambda w, slope: w + dt * slope, w, gradient(w)), weights
        )

    options = dict(PlainLangevin.compiler_options)
    named = {"coding_schemes": ours, "BlackJAX": theirs, "limit": drift}
    return {name: jax.jit(jax.vmap(run), compiler_options=options) for name, run in named.items()}


def training_error(run, posterior, weights, key):
    """Mean training error of every chain over further runs, shape (CHAINS,)."""
    error = jax.jit(jax.vmap(lambda w: jnp.sum((posterior.outputs(w) - posterior.targets) ** 2)))
    found = []
    for k in range(RECORDS):
        weights = run(jax.random.split(jax.random.fold_in(key, k), CHAINS), weights)
        found.append(error(weights))
    return np.mean(found, axis=0)


def measure(phi):
    """Fastest nanoseconds per weight and step of every program, which take turns."""
    posterior = Posterior(tasks.toy(SIZE, y_minus=0.1), Network(1, SIZE, phi), TEMPERATURE)
    start = sample(posterior, jax.random.key(0), 1, num_chains=CHAINS, num_warmup=200).final
    compiled = programs(posterior)
    keys = jax.random.split(jax.random.key(1), CHAINS)
    times = {name: [] for name in compiled}
    for repeat in range(REPEATS + 1):
        for name, run in compiled.items():
            begun = time.perf_counter()
            jax.block_until_ready(run(keys, start))
            if repeat:  # the first compiles
                times[name].append(time.perf_counter() - begun)
    number = sum(leaf.size for leaf in jax.tree.leaves(start))
    found = {name: 1e9 * min(each) / STEPS / number for name, each in times.items()}
    errors = [
        training_error(compiled[name], posterior, start, jax.random.key(2 + k))
        for k, name in enumerate(("coding_schemes", "BlackJAX"))
    ]
    apart = errors[0].mean() - errors[1].mean()
    scatter = float(np.hypot(*(each.std(ddof=1) for each in errors)) / CHAINS**0.5)
    if abs(apart) > 4 * scatter:
        raise SystemExit(f"{phi}: training errors differ by {apart:.2g}, scatter {scatter:.2g}")
    return found | {"error": float(errors[0].mean()), "difference": float(apart), "scatter": scatter}


def markdown(results):
    """The results as a table."""
    rows = [
        f"| {phi} | {row['coding_schemes']:.2f} | {row['BlackJAX'] / row['coding_schemes']:.1f} × | "
        f"{row['limit'] / row['coding_schemes']:.0%} | {row['difference']:+.1e} ± {row['scatter']:.0e} |"
        for phi, row in results["rows"].items()
    ]
    lines = [
        f"A step of plain Langevin dynamics in {CHAINS} networks, N = P = {SIZE}, T = {TEMPERATURE:g}, ε = "
        f"{STEP_SIZE:g}, in single precision; the fastest of {REPEATS} runs of {STEPS} steps. BlackJAX's is "
        "its SGLD kernel with the same gradient, which takes turns with ours; the limit is the gradient "
        f"alone. Measured on {results['date']}: {results['machine']}, {results['cores']} cores, JAX "
        f"{results['jax']}.",
        "",
        "| φ | ns per weight and step | BlackJAX's time over ours | share of the limit reached | "
        "difference of the mean training error |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def main():
    rows = {phi: measure(phi) for phi in ("linear", "sigmoidal", "relu")}
    results = measured(jax=jax.__version__, rows=rows)
    leave("langevin", results, markdown(results))


if __name__ == "__main__":
    main()
