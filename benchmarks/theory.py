"""Theory solvers: seconds of a solve, beside SciPy's general minimiser on the same convex dual.

    python benchmarks/theory.py

Sizes are those of the chapters. Every solve must reach its stated residual. The peer, SciPy's
`trust-exact` with the same value, gradient and Hessian, must reach the same free energy. Results go to
results/theory.json and .md.
"""

import json
import os
import time
from datetime import date
from pathlib import Path

import jax
import numpy as np
from _machine import processor
from coding_schemes import tasks
from coding_schemes.theory import deep_sigmoidal, mean_field, relu, sigmoidal
from coding_schemes.theory._convex_dual import Dual, make_problem
from scipy.optimize import minimize

RATIOS = (0.5, 0.25, 0.25)
RESULTS = Path(__file__).parent / "results"
TOLERANCE = 1e-6  # of the free energy per neuron, ours against SciPy's


def timed(function):
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def scipy_solve(task, temperature, start):
    """The dual at finite P by SciPy; gives up where a trial point leaves the table of fields."""
    problem = make_problem(task, temperature, "sigmoidal", None, None)
    shape, dual = problem.targets.shape, Dual(problem, "quadrature", [None], None)

    def value(flat):
        return dual.value_and_gradient(flat.reshape(shape))

    return minimize(
        lambda flat: value(flat)[0],
        start.ravel(),
        jac=lambda flat: value(flat)[1],
        hess=lambda flat: dual.hessian(*value(flat)[2:]),
        method="trust-exact",
        options={"gtol": 1e-7 * task.num_inputs},
    )


def main():
    task = tasks.toy(500, RATIOS, y_minus=0.5)
    rows = []

    def record(name, asked, residual, seconds, peer=None):
        rows.append(
            {"name": name, "asked": asked, "residual": float(residual), "seconds": seconds, "peer": peer}
        )
        print(rows[-1], flush=True)

    seconds, solution = timed(lambda: sigmoidal.solve(task, 0.01))  # with tables and compilation
    name = "sigmoidal, N → ∞, P = 500, three outputs, first call of a process"
    record(name, None, solution.residual, seconds)
    seconds, solution = timed(lambda: sigmoidal.solve(task, 0.01))
    start = sigmoidal.solve(task, 0.02).dual_field
    peer, found = timed(lambda: scipy_solve(task, 0.01, start))
    difference = abs(-solution.free_energy - found.fun)
    if difference > TOLERANCE:
        raise SystemExit(f"free energies differ by {difference:.1e}: SciPy says {found.message}")
    record("the same, no start given", "1 s", solution.residual, seconds)
    warm, solution = timed(lambda: sigmoidal.solve(task, 0.01, start=start))
    record("the same from the solution at twice the temperature", "0.02 s", solution.residual, warm, peer)
    targets = [tasks.one_hot(3, 1.0, y) for y in np.linspace(-0.5, 0.7, 100)]
    seconds, line = timed(lambda: sigmoidal.scan(task, 0.01, targets))
    record("a line of 100 values of y₋", "2 s", max(point.residual for point in line), seconds)
    temperatures = np.geomspace(0.3, 0.001, 100)
    seconds, line = timed(lambda: sigmoidal.scan(task, temperatures, [task.class_targets] * 100))
    record("a line of 100 temperatures", "2 s", max(point.residual for point in line), seconds)
    seconds, solution = timed(lambda: sigmoidal.solve(task, 0.01, method="laplace"))
    record("by Laplace's formula at every maximum", None, solution.residual, seconds)
    five = tasks.toy(500, (0.2,) * 5, y_minus=0.2)
    seconds, solution = timed(lambda: sigmoidal.solve(five, 0.01))
    record("five outputs (Laplace)", None, solution.residual, seconds)
    seconds, solution = timed(lambda: relu.solve(tasks.toy(500, RATIOS, y_minus=-0.5), temperature=0.01))
    record("ReLU, P = 500", None, solution.residual, seconds)
    deep = tasks.toy(200, RATIOS, y_minus=-0.5)
    seconds, solution = timed(lambda: deep_sigmoidal.solve(deep, 3, 0.001))
    record("sigmoidal, three layers, P = 200", None, solution.residual, seconds)
    digits = tasks.mnist(100, 0)
    for name in ("sigmoidal", "relu"):
        seconds, solution = timed(lambda name=name: mean_field.solve(digits, name, 0.01))
        assert solution.converged
        record(f"general inputs: {name}, MNIST, P = 100", "30 s", solution.residual, seconds)
    results = {
        "date": date.today().isoformat(),
        "machine": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "jax": jax.__version__,
        "load": round(os.getloadavg()[0], 1),
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "theory.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "theory.md").write_text(markdown(results))
    print(markdown(results))


def markdown(results):
    """The table of the results."""
    lines = [
        f"Seconds of wall time, compilation included. Measured on {results['date']}: {results['machine']}, "
        f"{results['cores']} cores, load average {results['load']}, JAX {results['jax']}.",
        "",
        "| solve | asked | seconds | residual | SciPy trust-exact |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        peer = (
            ""
            if row["peer"] is None
            else f"{row['peer']:.2f} s, {row['peer'] / row['seconds']:.1f} times ours"
        )
        cells = row["name"], row["asked"] or "", f"{row['seconds']:.2f}", f"{row['residual']:.0e}", peer
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
