"""The laboratory's sampler, in Node as in a page: one gradient beside NumPy's, and whole runs.

    python benchmarks/laboratory.py

A gradient is one pass of leapfrog: features, outputs, residuals, forces on preactivations and readouts,
kick and drift. NumPy does the same with matrix products and SciPy's special functions in double precision.
Both start from the same network and must end at the same one, up to the table's error. They take turns; of
each the median counts. A run goes from the prior through 600 transitions, cooling over the first 360; the
time until then, where the scheme stands, is given too. Runs are timed by the clock and in CPU seconds, which
count what V8's compiler does beside.
Results go to results/laboratory.json and .md.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # NumPy on one core, as the script

import numpy as np
from _machine import leave, measured
from scipy import special

SIZES = (60, 100, 200)
ROUNDS, REPEATS, RUNS = 12, 40, 3
TOLERANCE = 1e-5  # of forces; the table errs by 2e-7
SCRIPT = Path(__file__).parents[1] / "book" / "_static" / "laboratory.js"
PHI = {
    "linear": (lambda z: z, np.ones_like),
    "sigmoidal": (
        lambda z: 0.5 + 0.5 * special.erf(0.5 * np.sqrt(np.pi) * z),
        lambda z: 0.5 * np.exp(-0.25 * np.pi * z * z),
    ),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "softplus": (lambda z: np.logaddexp(0, z), special.expit),
    "relu_squared": (lambda z: np.maximum(z, 0) ** 2, lambda z: 2 * np.maximum(z, 0)),
}

# Answers each line: a pass timed, the state after one, or a whole run
NODE = """
const laboratory = require(process.argv[1]), nets = new Map();
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { what, options, repeats } = JSON.parse(line), key = options.nonlinearity + options.numNeurons;
  let answer = {};
  if (what === "run") {
    const net = laboratory.makeNetwork(options), from = process.hrtime.bigint(), cpu = process.cpuUsage();
    const passed = () => {
      const { user, system } = process.cpuUsage(cpu);
      return [(user + system) / 1e6, Number(process.hrtime.bigint() - from) / 1e9];
    };
    const cooled = 0.6 * options.transitions;
    for (let k = 0; k < options.transitions; k++) {
      if (k === cooled) answer.cooled = passed();
      laboratory.advance(net, laboratory.temperatureAt(net.setting, k), k < 0.8 * options.transitions);
    }
    Object.assign(answer, { run: passed(), gradients: net.gradients });
  } else {
    if (!nets.has(key)) nets.set(key, laboratory.makeNetwork(options));
    const net = nets.get(key);
    net.precision = net.N / options.temperature;
    if (what === "state") {
      const { u, a, targets, outputScale: scale, stretch } = net;
      answer = { u: [...u], a: [...a], targets: [...targets], scale, stretch };
      laboratory.sweep(net, 0.01, 0.001);
      Object.assign(answer, { p: [...net.p], pa: [...net.pa] });
    } else {
      const from = process.hrtime.bigint();
      for (let k = 0; k < repeats; k++) laboratory.sweep(net, 1e-7, 1e-7);
      answer = Number(process.hrtime.bigint() - from) / 1e9 / repeats;
    }
  }
  console.log(JSON.stringify(answer));
});
"""


class Numpy:
    """The same pass in NumPy."""

    def __init__(self, nonlinearity, state, precision):
        self.phi, self.slope = PHI[nonlinearity]
        self.a = np.array(state["a"]).reshape(3, -1)
        self.u = np.array(state["u"]).reshape(-1, self.a.shape[1])
        self.targets = np.array(state["targets"]).reshape(-1, 3)
        self.scale, self.stretch, self.precision = state["scale"], state["stretch"], precision
        self.p, self.pa = np.zeros_like(self.u), np.zeros_like(self.a)

    def sweep(self, kick, drift):
        """A kick by the force at the position, then a drift."""
        h = self.phi(self.u)
        residual = self.targets - self.scale * (h @ self.a.T)
        error = self.precision * self.scale * residual
        self.squared_error = np.sum(residual**2)
        force = self.slope(self.u) * (error @ self.a)
        pull = error.T @ h
        self.p += kick * (force - self.u)
        self.u += drift * self.p
        self.pa += kick * self.stretch * (pull - self.a)
        self.a += drift * self.stretch * self.pa


def options(nonlinearity, size, seed=1):
    given = {"nonlinearity": nonlinearity, "numNeurons": size, "numInputs": size, "ratios": [0.5, 0.25, 0.25]}
    return given | {"yMinus": 0.5, "temperature": 0.01, "transitions": 600, "seed": seed}


def measure(ask, nonlinearity, size):
    """Seconds of a pass in the page's script and in NumPy, in turns, and of whole runs."""
    given = options(nonlinearity, size)
    state = ask({"what": "state", "options": given})
    numpy = Numpy(nonlinearity, state, size / given["temperature"])
    numpy.sweep(0.01, 0.001)
    for mine, its in ((numpy.p, state["p"]), (numpy.pa, state["pa"])):
        off = np.max(np.abs(mine.ravel() - its)) / np.max(np.abs(mine))
        if off > TOLERANCE:
            raise SystemExit(f"{nonlinearity}, N = P = {size}: forces differ by {off:.1e} of the largest")
    passes = []
    for _ in range(ROUNDS):
        page = ask({"what": "pass", "options": given, "repeats": REPEATS})
        start = time.perf_counter()
        for _ in range(REPEATS):
            numpy.sweep(1e-7, 1e-7)
        passes.append((page, (time.perf_counter() - start) / REPEATS))
    page, mine = np.median(passes, axis=0)
    runs = [ask({"what": "run", "options": given | {"seed": seed}}) for seed in range(1, RUNS + 1)]
    (run_cpu, run), (cooled_cpu, cooled) = (
        np.median([one[what] for one in runs], axis=0) for what in ("run", "cooled")
    )
    return {
        "nonlinearity": nonlinearity,
        "size": size,
        "page_us": 1e6 * page,
        "numpy_us": 1e6 * mine,
        "ratio": page / mine,
        "run_cpu_s": run_cpu,
        "run_s": run,
        "cooled_cpu_s": cooled_cpu,
        "cooled_s": cooled,
        "gradients": int(np.median([one["gradients"] for one in runs])),
    }


def markdown(results):
    """The results as a table."""
    low, high = results["load"]
    lines = [
        f"Medians of {ROUNDS} rounds of {REPEATS} gradients each, in turns, and of {RUNS} runs of 600 "
        f"transitions, in seconds by the clock (in CPU seconds). Measured on {results['date']}: "
        f"{results['machine']}, one core, load {low:.1f} to {high:.1f}; Node {results['node']}, NumPy "
        f"{results['numpy']}.",
        "",
        "| nonlinearity | N = P | gradient here, μs | in NumPy, μs | ratio | run, s | until cooled, s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        name = {"relu": "ReLU", "relu_squared": "max(0, z)²"}.get(row["nonlinearity"], row["nonlinearity"])
        times = [f"{row['page_us']:.0f}", f"{row['numpy_us']:.0f}", f"{row['ratio']:.2f}"]
        times += [f"{row[f'{what}_s']:.2f} ({row[f'{what}_cpu_s']:.2f})" for what in ("run", "cooled")]
        lines.append(f"| {' | '.join([name, str(row['size']), *times])} |")
    return "\n".join(lines) + "\n"


def main():
    node = shutil.which("node")
    if node is None:
        print("Node: not found, nothing measured")
        return
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    load = [os.getloadavg()[0]]
    with subprocess.Popen([node, "-e", NODE, str(SCRIPT)], stdin=-1, stdout=-1, text=True) as process:

        def ask(question):
            print(json.dumps(question), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        ask({"what": "run", "options": options("tanh", 60)})  # compiled, as after a page's first run
        rows = [measure(ask, nonlinearity, size) for size in SIZES for nonlinearity in PHI]
        process.stdin.close()
    found = {"load": [load[0], os.getloadavg()[0]], "node": version.lstrip("v"), "numpy": np.__version__}
    results = measured(**found, rows=rows)
    leave("laboratory", results, markdown(results))


if __name__ == "__main__":
    main()
