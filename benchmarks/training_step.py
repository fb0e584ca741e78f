"""One training step of paper C's default network (20 × 500): ours, PyTorch's, the memory's limit.

    python benchmarks/training_step.py [--peer PYTHON]

PyTorch is not a dependency of the book: give an interpreter that has it, or install it here. The limit is the
time to read the weights twice (forward, backward) and to read and write them once (update), at the bandwidth
of this machine's memory, measured on an array far larger than its caches. The weights (19 MB) may fit
in the last-level cache, which is faster; so the same limit is also given at the bandwidth measured on
arrays of the weights' own size.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

WIDTH, DEPTH = 500, 20
STEPS = 200


def best_time(function, repeats=9):
    """Shortest of several times, seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def bandwidth(megabytes):
    """Bytes read plus written per second while an array is scaled in place."""
    import jax
    import jax.numpy as jnp

    passes = max(1, 4000 // megabytes)

    def scale(x, factor):
        return jax.lax.fori_loop(0, passes, lambda i, y: y * factor, x)

    scale = jax.jit(scale, donate_argnums=0)
    x = jnp.ones(megabytes * 250_000, jnp.float32)
    factor = jnp.float32(1.0000001)
    x = jax.block_until_ready(scale(x, factor))

    def once():
        nonlocal x
        x = jax.block_until_ready(scale(x, factor))

    return 2 * x.nbytes * passes / best_time(once)


def ours():
    """Seconds per step of training.train; the difference of two lengths takes out start and records."""
    import jax
    from coding_schemes import tasks, training

    task = tasks.two_points()

    def run(steps):
        training.train(
            training.Architecture(width=WIDTH, depth=DEPTH), jax.random.key(0), task.inputs, task.targets,
            learning_rate=0.005, num_steps=steps, record_every=steps, converged_loss=1e9,
        )  # fmt: skip

    run(STEPS)
    return (best_time(lambda: run(2 * STEPS)) - best_time(lambda: run(STEPS))) / STEPS


PEER = f"""
import json, os, time, torch
torch.set_num_threads(len(os.sched_getaffinity(0)))
sizes = [1] + {DEPTH} * [{WIDTH}] + [1]
layers = torch.nn.ModuleList(torch.nn.Linear(i, o) for i, o in zip(sizes[:-1], sizes[1:]))
x, y = torch.tensor([[-1.0], [0.0]]), torch.tensor([[0.6], [1.307]])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.005)
def step():
    optimizer.zero_grad()
    h = x
    for layer in layers[:-1]:
        h = torch.nn.functional.leaky_relu(layer(h))
    (0.5 * torch.nn.functional.mse_loss(layers[-1](h), y)).backward()
    optimizer.step()
best = float("inf")
for _ in range(9):
    start = time.perf_counter()
    for _ in range(50):
        step()
    best = min(best, (time.perf_counter() - start) / 50)
print(json.dumps({{"seconds": best, "version": torch.__version__}}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter with PyTorch")
    arguments = parser.parse_args()
    weights = 4 * WIDTH**2 * (DEPTH - 1)
    step = ours()
    memory, cache = bandwidth(800), bandwidth(round(weights / 1e6))
    print(f"coding_schemes: {1e3 * step:.2f} ms per step, weights {weights / 1e6:.1f} MB")
    for name, speed in (("memory", memory), ("arrays of the weights' size", cache)):
        limit = 4 * weights / speed
        print(f"limit at {speed / 1e9:.1f} GB/s ({name}): {1e3 * limit:.2f} ms, reached {limit / step:.0%}")
    peer = subprocess.run(
        [arguments.peer, "-c", PEER], capture_output=True, text=True, check=False, cwd=Path.home()
    )
    if peer.returncode:
        print("PyTorch: not measured,", peer.stderr.strip().splitlines()[-1])
        return
    result = json.loads(peer.stdout)
    print(
        f"PyTorch {result['version']} eager: {1e3 * result['seconds']:.2f} ms per step, "
        f"{result['seconds'] / step:.1f} times ours"
    )


if __name__ == "__main__":
    main()
