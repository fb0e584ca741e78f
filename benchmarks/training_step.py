"""One training step of paper C's default network (20 × 500, two points): ours, PyTorch's, the memory's limit.

    python benchmarks/training_step.py [--peer PYTHON]

PyTorch is not a dependency of the book: give an interpreter that has it, or install it here. Both start from
the same weights and must reach the same loss. The limit is the time to read the weights twice (forward,
backward) and to read and write them once (update). It is given at two bandwidths, each measured by scaling
an array in place: of the memory, on an array far larger than the caches, and of the caches, on an array
of the weights' own size (19 MB, which the last-level cache may hold). Results go to
results/training_step.json and .md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from _machine import leave, measured
from coding_schemes import tasks, training

WIDTH, DEPTH, RATE = 500, 20, 0.005
STEPS, REPEATS = 20, 12  # short runs, of which the fastest counts: a busy machine spoils medians
TOLERANCE = 1e-3  # relative difference of the losses after STEPS steps in single precision
WEIGHTS = 4 * WIDTH**2 * (DEPTH - 1)  # bytes
# Not paper C's inputs −1 and 0: at 0 all units start at 0, where the slope of a leaky ReLU is a convention
# (1 in JAX, 0.01 in PyTorch), and the two would part at the first step
INPUTS, TARGETS = np.float32([[-1.0, 0.5]]), np.float32(tasks.two_points().targets)
MODEL = training.Architecture(width=WIDTH, depth=DEPTH)

PEER = f"""
import json, os, sys, time
import numpy as np
import torch
torch.set_num_threads(len(os.sched_getaffinity(0)))
given = np.load(sys.argv[1])
first, hidden, readout = (torch.from_numpy(given[name]) for name in ("first", "hidden", "readout"))
matrices = [first, *hidden, readout]
layers = torch.nn.ModuleList(torch.nn.Linear(w.shape[1], w.shape[0]) for w in matrices)
x, y = torch.from_numpy(given["inputs"].T.copy()), torch.from_numpy(given["targets"])
optimizer = torch.optim.SGD(layers.parameters(), lr={RATE})

def start():
    with torch.no_grad():
        for layer, weights in zip(layers, matrices):
            layer.weight.copy_(weights)
            layer.bias.zero_()

def step():
    optimizer.zero_grad()
    h = x
    for layer in layers[:-1]:
        h = torch.nn.functional.leaky_relu(layer(h))
    loss = 0.5 * torch.nn.functional.mse_loss(layers[-1](h), y)
    loss.backward()
    optimizer.step()
    return loss

start()
for _ in range({STEPS}):
    step()
last = float(step())
times = []
for _ in range({REPEATS}):
    start_time = time.perf_counter()
    for _ in range({STEPS}):
        step()
    times.append((time.perf_counter() - start_time) / {STEPS})
print(json.dumps({{"seconds": times, "loss": last, "version": torch.__version__}}))
"""


def times_of(function, repeats=REPEATS):
    """Several times, seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return np.array(times)


def bandwidth(num_bytes):
    """Bytes read plus written per second while an array is scaled in place, the best of several runs."""
    passes = max(2, int(2e9 / num_bytes))

    def scale(x, factor):
        return jax.lax.fori_loop(0, passes, lambda i, y: y * factor, x)

    scale = jax.jit(scale, donate_argnums=0)
    x, factor = jnp.ones(num_bytes // 4, jnp.float32), jnp.float32(1.0000001)
    x = jax.block_until_ready(scale(x, factor))

    def once():
        nonlocal x
        x = jax.block_until_ready(scale(x, factor))

    return 2 * x.nbytes * passes / times_of(once).min()


def run(num_steps):
    """Our training; the last loss."""
    return training.train(
        MODEL, jax.random.key(0), INPUTS, TARGETS,
        learning_rate=RATE, num_steps=num_steps, record_every=num_steps, converged_loss=1e9,
    ).loss[0, -1]  # fmt: skip


def ours():
    """Fastest seconds per step, from long and short runs: the difference takes out start and records."""
    short, long = STEPS // 2, STEPS + STEPS // 2
    start = time.perf_counter()
    run(short)
    compilation = time.perf_counter() - start
    run(long)
    times = [times_of(lambda steps=steps: run(steps)).min() for steps in (short, long)]
    return float(times[1] - times[0]) / STEPS, compilation


def peer(interpreter):
    """PyTorch's seconds per step and loss from our initial weights, or the reason why there are none."""
    key = jax.random.split(jax.random.fold_in(jax.random.key(0), 0), 3)[0]
    weights = MODEL.init(key, len(INPUTS), TARGETS.shape[1]).weights
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "start.npz"
        np.savez(path, **dict(zip(("first", "hidden", "readout"), weights)), inputs=INPUTS, targets=TARGETS)
        done = subprocess.run(
            [interpreter, "-c", PEER, str(path)], capture_output=True, text=True, check=False, cwd=folder
        )
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout)


def markdown(results):
    """The results as a table."""
    rows = [("coding_schemes", f"{results['ours_ms']:.2f}", "")]
    for name, limit in results["limits"].items():
        label = f"limit: {name}, {limit['gigabytes_per_second']:.0f} GB/s"
        rows.append((label, f"{limit['ms']:.2f}", f"{limit['reached']:.0%}"))
    if "torch_ms" in results:
        rows.append(
            (
                f"PyTorch {results['torch']}, eager",
                f"{results['torch_ms']:.2f}",
                f"{results['speedup']:.1f} ×",
            )
        )
    lines = [
        f"One step of gradient descent, {DEPTH} × {WIDTH} units, two points, float32; the fastest of "
        f"{REPEATS} runs of {STEPS} steps. Measured on {results['date']}: {results['machine']}, "
        f"{results['cores']} cores, JAX {results['jax']}. Compilation {results['compilation_s']:.1f} s.",
        "",
        "| program or limit | ms per step | share of the limit reached, or PyTorch's time over ours |",
        "| --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter with PyTorch")
    arguments = parser.parse_args()
    step, compilation = ours()
    results = measured(jax=jax.__version__, ours_ms=1e3 * step, compilation_s=compilation, limits={})
    for name, size in (("memory", 400_000_000), ("arrays of the weights' size", WEIGHTS)):
        speed = bandwidth(size)
        limit = 4 * WEIGHTS / speed
        results["limits"][name] = {
            "gigabytes_per_second": speed / 1e9,
            "ms": 1e3 * limit,
            "reached": limit / step,
        }
    other = peer(arguments.peer)
    if "missing" in other:
        print("PyTorch: not measured,", other["missing"])
    else:
        last = run(STEPS)
        difference = abs(other["loss"] / last - 1)
        if difference > TOLERANCE:
            raise SystemExit(
                f"losses differ by {difference:.1e} after {STEPS} steps: {last}, {other['loss']}"
            )
        seconds = min(other["seconds"])
        results |= {
            "torch": other["version"],
            "torch_ms": 1e3 * seconds,
            "speedup": seconds / step,
            "loss_difference": float(difference),
        }
    leave("training_step", results, markdown(results))


if __name__ == "__main__":
    main()
