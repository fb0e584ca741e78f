"""Theory solvers: seconds of a solve, beside other programs that solve the same.

    python benchmarks/theory.py

Sizes are those of the chapters. Every solve must reach its stated residual. Peers: SciPy's `trust-exact` with
value, gradient and Hessian of the same convex dual must reach the same free energy; deepbays (Pacelli et al.
2023, one hidden layer of a width proportional to P) on a linear network with one output, where its theory and
the finite-width one of this book are one, the same order parameter and predictor; there the times are of
tenth calls. Results go to results/theory.json and .md.
"""

import importlib.util
import os
import time

import jax
import numpy as np
from _machine import leave, measured
from coding_schemes import tasks
from coding_schemes.theory import deep_sigmoidal, linear, mean_field, relu, sigmoidal
from coding_schemes.theory._convex_dual import Dual, make_problem
from scipy.optimize import minimize

RATIOS = (0.5, 0.25, 0.25)
TOLERANCE = 1e-6  # of the free energy per neuron, ours against SciPy's
AGREEMENT = 1e-4  # relative, of order parameter and predictor; deepbays' minimiser has a tolerance of its own


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


def deepbays_solve(task, temperature, width, variance):
    """Order parameter Q and predictor on the training inputs; its outputs are √N times ours."""
    from deepbays.kernels.kernels import kernel_id
    from deepbays.rkgp import FC_1HL

    model = FC_1HL(width, temperature, 1.0, 1 / variance)
    model.kernel = kernel_id  # which the package has and does not offer by name
    model.preprocess(task.inputs.T, width**0.5 * task.targets)
    model.optimize()
    return model.optQ, np.ravel(model.predict(task.inputs.T)) / width**0.5


def against_deepbays(width=200, temperature=0.1):
    """Name, residual, seconds of ours and of deepbays, on digits 0 and 1 told apart by one output."""
    digits = tasks.mnist(200, 0, (0, 1))
    task = tasks.Task(
        digits.inputs, digits.labels, np.where(digits.labels, -1.0, 1.0)[:, None], name="digits"
    )
    variance = 1 / task.num_inputs
    times = {}
    for name, solve in (
        ("ours", lambda: linear.solve(task, 1, temperature, variance, width)),
        ("deepbays", lambda: deepbays_solve(task, temperature, width, variance)),
    ):
        times[name] = [timed(solve) for _ in range(10)]
    (seconds, solution), (peer, (order, predictor)) = times["ours"][-1], times["deepbays"][-1]
    mine = float(solution.readout_covariance[0, 0] / variance), solution.predict(task.inputs)[:, 0]
    gap = max(abs(mine[0] / order - 1), np.abs(mine[1] - predictor).max() / np.abs(predictor).max())
    if gap > AGREEMENT:
        raise SystemExit(f"linear theory and deepbays differ by {gap:.1e}: Q = {mine[0]} and {order}")
    return solution.residual, seconds, peer


def main():
    task = tasks.toy(500, RATIOS, y_minus=0.5)
    rows = []

    def record(name, asked, residual, seconds, peer=None, by="SciPy trust-exact"):
        row = {"name": name, "asked": asked, "residual": float(residual), "seconds": seconds}
        rows.append(row | {"peer": peer, "by": by})
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
    if importlib.util.find_spec("deepbays"):
        name = "linear with finite-width term, MNIST, P = N = 200, one output, warm"
        record(name, None, *against_deepbays(), by="deepbays")
    results = measured(jax=jax.__version__, load=round(os.getloadavg()[0], 1), rows=rows)
    leave("theory", results, markdown(results))


def markdown(results):
    """The table of the results."""
    lines = [
        f"Seconds of wall time, compilation included. Measured on {results['date']}: {results['machine']}, "
        f"{results['cores']} cores, load average {results['load']}, JAX {results['jax']}.",
        "",
        "| solve | aim | seconds | residual | another program |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        peer = (
            ""
            if row["peer"] is None
            else f"{row['by']}: {row['peer']:.2g} s, {row['peer'] / row['seconds']:.1f} times ours"
        )
        cells = row["name"], row["asked"] or "", f"{row['seconds']:.2g}", f"{row['residual']:.0e}", peer
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
