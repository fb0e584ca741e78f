r"""Two nearby points in a deep network: paper C's effective theory of representation learning.

An encoder x → h and a decoder h → ŷ are linear around the mean of two inputs, dh = D_h dx and
dŷ = D_y dh, and gradient descent acts on D_h and D_y directly, with effective rates η_h and η_y.
For representations that move together or apart without rotating, three *squared* quantities close:

    H = |dh|²,   Q = |dŷ|²,   w = Q − dy·dŷ,

    Ḣ = −η_h |dx|² w
    Q̇ = −w (η_y H + η_h |dx|² Q/H)
    ẇ = −½ η_y (3w − Q + |dy|²) H − ½ η_h |dx|² (Q + w) w/H.

Throughout, H, Q, dx2 = |dx|² and dy2 = |dy|² are squares, w is a product of two output differences,
the loss is L = ½ ⟨|f − y|²⟩ with the mean over the two points, and time is counted in training steps,
so that η_h and η_y are per step and contain the network's learning rate. H0, Q0 and w0 are initial values.
ValueError is raised unless dx2, H0 and the rates are positive, and Q0 and dy2 zero or more.

Source: paper C, Eqs. 7-11 and appendix A; the fits follow its Eq. 49.
"""

from dataclasses import dataclass
from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy import optimize

from coding_schemes import validation
from coding_schemes.theory._solution import Solved

UNALTERED = (1.0, 1.0, 1.0, 1.0, 1.0)
"""The theory itself, as factors of the five terms in the order they stand in the equations."""

ALTERED = {
    "Ḣ doubled": (2.0, 1.0, 1.0, 1.0, 1.0),
    "Q̇ doubled": (1.0, 2.0, 2.0, 1.0, 1.0),
    "encoder term of Q̇ dropped": (1.0, 1.0, 0.0, 1.0, 1.0),
    "encoder term of ẇ with the wrong sign": (1.0, 1.0, 1.0, 1.0, -1.0),
}
"""Wrong equations, to be shown fitting worse (paper C's authors test the same kinds)."""

MAX_STEPS = 16384  # of the ODE solver
MAX_STEPS_ON_GRID = 1024  # the grid, solved side by side, waits for its slowest corner, which is no optimum
RECORDS_ON_GRID = 40  # of a trajectory: they choose where to start, and what is fitted is all of it


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Solved):
    """A trajectory of the two-point theory.

    Attributes:
        times: in training steps, shape (n,).
        H: squared distance of the two representations, shape (n,).
        Q: squared distance of the two outputs, shape (n,).
        w: Q − dy·dŷ, shape (n,).
        residual: largest violation of the invariant Q/H − ρH = const, relative to its terms.
        num_steps: steps of the ODE solver.
        converged: whether the solver reached the last time.
    """

    times: np.ndarray
    H: np.ndarray
    Q: np.ndarray
    w: np.ndarray
    approximation = "effective theory of two points (paper C)"


@dataclass(frozen=True)
class FixedPoint:
    """A fixed point of the theory at given initial conditions.

    Attributes:
        H, Q, w: the squared quantities there.
        growth_rates: eigenvalues of the linearized dynamics (per training step), shape (2,).
        stable: both eigenvalues have a negative real part.
        reachable: H ≥ 0; a squared distance can never become negative.
    """

    H: float
    Q: float
    w: float
    growth_rates: np.ndarray
    stable: bool
    reachable: bool


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Solved):
    """Effective rates fitted to a network's trajectory.

    Attributes:
        eta_h, eta_y: encoder and decoder rate, per training step.
        log_standard_errors: of log η_h and log η_y, shape (2,), from the curvature of the fit with the
            residuals' autocorrelation counted; how much the rates vary between networks is another,
            usually larger, uncertainty.
        errors: normalized fit error of H, Q and w, shape (3,): squared deviation of theory from network
            over the network's squared deviation from its own time average (0 perfect, 1 no better
            than a constant).
        error: the same for the three together, sums before the ratio. This is what the fit minimizes.
        solution: the fitted trajectory.
        residual: largest entry of the gradient where the least-squares search ended.
        num_steps: evaluations of that search.
        converged: it ended at an optimum, and the trajectory was solved.
    """

    eta_h: float
    eta_y: float
    log_standard_errors: np.ndarray
    errors: np.ndarray
    error: float
    solution: Solution
    approximation = Solution.approximation


@dataclass(frozen=True, eq=False, repr=False)
class LossFit(Solved):
    """The third rate, fitted to the loss curve.

    Attributes:
        eta_mean: rate at which the mean output error decays, per training step.
        log_standard_error: of log η_mean, from the curvature of the fit.
        error: normalized as in :class:`Fit`.
        loss: the fitted curve, shape (n,).
        residual: largest entry of the gradient where the search ended.
        num_steps: evaluations of that search.
        converged: it ended at an optimum.
    """

    eta_mean: float
    log_standard_error: float
    error: float
    loss: np.ndarray
    approximation = Solution.approximation


def measure(
    H: ArrayLike, outputs: ArrayLike, targets: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three squared quantities H, Q, w of a network at two points, each of shape (...).

    From the squared distance H (...) of the two representations, the outputs f (..., 2, m) and targets (2,
    m).
    """
    targets = validation.array("targets", targets, "2, m")
    H, outputs = (np.asarray(x, dtype=float) for x in (H, outputs))  # not finite where a network diverged
    if outputs.shape[-2:] != targets.shape or H.shape != outputs.shape[:-2]:
        raise ValueError(
            f"H, outputs: got shapes {H.shape}, {outputs.shape}; needs (...), (..., 2, {targets.shape[1]})"
        )
    output_difference = outputs[..., 1, :] - outputs[..., 0, :]
    Q = np.sum(np.square(output_difference), axis=-1)
    return H, Q, Q - output_difference @ (targets[1] - targets[0])


def solve(
    H0: float,
    Q0: float,
    w0: float,
    eta_h: float,
    eta_y: float,
    dx2: float,
    dy2: float,
    times: ArrayLike,
    *,
    factors: tuple[float, ...] = UNALTERED,
    relative_tolerance: float = 1e-9,
) -> Solution:
    """The trajectory of the three squared quantities from their initial values.

    Integrates s = ±√H, Q/H and dy·dŷ/s, in which the equations are polynomial. Where the outputs start
    on the wrong side, w0 > Q0, the representations first meet and pass through each other; H
    touches zero, which the published form cannot cross and this one does.

    Args:
        H0: squared distance of the representations at times[0].
        Q0: squared distance of the outputs at times[0].
        w0: Q − dy·dŷ at times[0].
        eta_h: effective rate of the encoder, per training step.
        eta_y: effective rate of the decoder, per training step.
        dx2: squared distance of the two inputs.
        dy2: squared distance of their targets.
        times: increasing, shape (n,), in training steps; the initial values hold at times[0].
        factors: of the five terms in the order of the module's equations; anything but ones is an
            altered theory, for controls.
        relative_tolerance: of the ODE solver. 1e-9 keeps the invariant to about 1e-7.

    Returns:
        A Solution; converged=False (and a warning) if the solver gave up.

    Source: paper C, Eqs. 7-8 (derived again in A.1); the change of variables is ours.
    """
    _check(H0=H0, Q0=Q0, w0=w0, eta_h=eta_h, eta_y=eta_y, dx2=dx2, dy2=dy2)
    times = validation.array("times", times, "n")
    if len(times) < 2 or np.any(np.diff(times) <= 0):
        raise ValueError(f"times: got {validation.shown(times)}, needs at least two, increasing")
    factors = tuple(validation.array("factors", factors, "5"))
    validation.positive(relative_tolerance=relative_tolerance)
    with jax.enable_x64(True):
        log_rates, start = np.log([eta_h, eta_y]), [H0, Q0, w0]
        arguments = _float64(log_rates, start, dx2, dy2, times, factors, relative_tolerance)
        *path, num_steps, success = _trajectory(*arguments)
    H, Q, w = map(np.asarray, path)
    converged = bool(success) and bool(np.all(np.isfinite(H + Q + w)))
    residual = np.nan
    if converged:
        rho = eta_y / (eta_h * dx2)
        with np.errstate(invalid="ignore", divide="ignore"):
            drift = np.where(H > 0, np.abs(Q / H - rho * H - (Q0 / H0 - rho * H0)), 0.0)
        residual = float(np.max(drift) / (Q0 / H0 + rho * (H0 + np.max(H))))
    path = Solution(times, H, Q, w, residual=residual, num_steps=int(num_steps), converged=converged)
    return path.reported("two_point.solve", "where the ODE solver gave up")


def invariant(H: ArrayLike, Q: ArrayLike, eta_h: float, eta_y: float, dx2: float):
    """C = Q/H − ρH with ρ = η_y / (η_h |dx|²): constant along every trajectory.

    Source: paper C, Eqs. 23-24, where it is written as Q = ρH² + CH.
    """
    return np.asarray(Q) / np.asarray(H) - eta_y / (eta_h * dx2) * np.asarray(H)


def final_distance(H0, Q0, eta_h, eta_y, dx2, dy2):
    """Final squared distance H* of the two representations; all arguments, as for `solve`, broadcast.

    H* = ½ [−C + √(C² + 4ρ|dy|²)] / ρ,  ρ = η_y / (η_h |dx|²),  C = Q0/H0 − ρ H0: of the rates only the
    ratio matters.

    Source: paper C, Eqs. 10-11 and 36, in the form without cancellation.
    """
    _check(H0=H0, Q0=Q0, eta_h=eta_h, eta_y=eta_y, dx2=dx2, dy2=dy2)
    rho = np.asarray(eta_y) / (np.asarray(eta_h) * dx2)
    C = np.asarray(Q0) / H0 - rho * H0
    root = np.sqrt(C**2 + 4 * rho * dy2)
    with np.errstate(invalid="ignore", divide="ignore"):
        positive_C = np.where(C + root > 0, 2 * np.asarray(dy2) / (C + root), 0.0)
    result = np.where(C > 0, positive_C, (root - C) / (2 * rho))
    return float(result) if result.ndim == 0 else result


def rich_distance(eta_h, eta_y, dx2, dy2):
    """H* at small initial weights, √(η_h/η_y) |dx| |dy|: set by the data (paper C, Eq. 13).

    At large ones it is max(0, −C/ρ) of `final_distance`: set by the initial weights (its Eq. 12).
    """
    _check(eta_h=eta_h, eta_y=eta_y, dx2=dx2, dy2=dy2)
    return np.sqrt(np.asarray(eta_h) / eta_y * dx2 * dy2)


def fixed_points(
    H0: float, Q0: float, eta_h: float, eta_y: float, dx2: float, dy2: float
) -> tuple[FixedPoint, ...]:
    """The three fixed points on the initial conditions' invariant curve: stable, negative root, origin.

    On it the dynamics is two-dimensional, in (H, w). With κ = η_h|dx|² the point w = 0, Q = |dy|² has
    trace −(3/2) η_y H* − ½ κ|dy|²/H* < 0 and determinant ½ κ η_y H* (2ρH* + C) > 0: stable. At H = 0 the
    ratio v = w/H obeys κv² − κCv − η_y|dy|² = 0, and H grows at −κv, once up, once down: a saddle.
    Arguments as for `solve`; ValueError also where dy2 = 0 (then the first and last point coincide).

    Source: paper C, A.3; trace and determinant derived again.
    """
    _check(H0=H0, Q0=Q0, eta_h=eta_h, eta_y=eta_y, dx2=dx2, dy2=dy2)
    if dy2 == 0:
        raise ValueError("dy2: got 0, where fixed points merge; use identical_outputs")
    kappa = eta_h * dx2
    rho = eta_y / kappa
    C = invariant(H0, Q0, eta_h, eta_y, dx2)
    stable = final_distance(H0, Q0, eta_h, eta_y, dx2, dy2)
    points = []
    for H in (stable, -dy2 / (rho * stable)):
        jacobian = np.array(
            [[0.0, -kappa], [0.5 * eta_y * H * (2 * rho * H + C), -1.5 * eta_y * H - 0.5 * kappa * dy2 / H]]
        )
        points.append(_fixed_point(H, dy2, np.linalg.eigvals(jacobian)))
    root = np.sqrt(C**2 + 4 * rho * dy2)
    points.append(_fixed_point(0.0, 0.0, -0.5 * kappa * np.array([C + root, C - root])))
    return tuple(points)


def identical_outputs(
    H0: float, Q0: float, eta_h: float, eta_y: float, dx2: float, times: ArrayLike
) -> Solution:
    """The closed solution for identical targets, dy = 0 (then w = Q), exact at all times.

    1/H = e^{kt}/H0 + η_y (e^{kt} − 1)/k,  k = η_h|dx|² C,   Q = w = ρH² + CH.

    It is also the limit of large initial weights for any dy: under H → gH, (Q, w) → g²(Q, w), t → t/g only
    |dy|² changes, to |dy|²/g². The loss then decays smoothly, without a plateau. Arguments as for `solve`,
    but times (n,) are counted from zero.

    Source: paper C, Eqs. 38-40 and A.5.
    """
    _check(H0=H0, Q0=Q0, eta_h=eta_h, eta_y=eta_y, dx2=dx2)
    times = validation.array("times", times, "n")
    C = invariant(H0, Q0, eta_h, eta_y, dx2)
    k = eta_h * dx2 * C
    exponent = np.minimum(k * times, 700.0)
    integral = times if k == 0 else np.expm1(exponent) / k
    H = 1 / (np.exp(exponent) / H0 + eta_y * integral)
    Q = H * (eta_y / (eta_h * dx2) * H + C)
    return Solution(times, H, Q, Q, residual=0.0, num_steps=0, converged=True)


def loss_curve(solution: Solution, eta_mean: float, mean_error_sq: float, dy2: float) -> np.ndarray:
    """Training loss L(t) = ½ e^{−2 η_mean t} |mean error|² + ⅛ (2w − Q + |dy|²) at solution.times (n,).

    η_mean is the rate of the mean output, per training step; its error is that at the start.

    Source: paper C, Eqs. 9 and 22, for the loss ½ ⟨|f − y|²⟩ averaged over the two points.
    """
    _check(eta_mean=eta_mean, mean_error_sq=mean_error_sq, dy2=dy2)
    elapsed = solution.times - solution.times[0]
    difference_part = 0.125 * (2 * solution.w - solution.Q + dy2)
    return 0.5 * mean_error_sq * np.exp(-2 * eta_mean * elapsed) + difference_part


def fit(
    times: ArrayLike,
    H: ArrayLike,
    Q: ArrayLike,
    w: ArrayLike,
    dx2: float,
    dy2: float,
    *,
    factors: tuple[float, ...] = UNALTERED,
    num_starts: int = 4,
) -> Fit:
    """Least-squares fit of η_h and η_y to a network's three trajectories.

    Minimizes Σ_t (ΔH)² + (ΔQ)² + (Δw)² over log η_h and log η_y, from the best points of a grid that
    spans every pair of rates for which something happens within the given times, with
    derivatives through the ODE solver.

    Args:
        times: in training steps, shape (n,).
        H: the network's squared distance of representations, shape (n,).
        Q: its squared distance of outputs, shape (n,).
        w: its Q − dy·dŷ, shape (n,).
        dx2: squared distance of the inputs.
        dy2: squared distance of the targets.
        factors: as for :func:`solve`; ALTERED holds wrong theories.
        num_starts: how many of the grid's best points are refined.

    Returns:
        A Fit; converged=False (and a warning) if no refinement succeeded.

    Raises:
        ValueError: a trajectory is not real and finite (the run diverged), never changes, or has
            a wrong length.

    Source: paper C, Eq. 49.
    """
    times = validation.array("times", times, "n")
    given = {"H": H, "Q": Q, "w": w}
    observed = np.stack([validation.array(name, x, "n", n=len(times)) for name, x in given.items()])
    validation.counts(num_starts=num_starts)
    variances = np.var(observed, axis=1)
    if np.any(variances <= 0):
        raise ValueError("H, Q, w: one of them never changes, so there is nothing to fit")
    _check(H0=observed[0, 0], Q0=observed[1, 0], dx2=dx2, dy2=dy2)

    scale = np.sqrt(np.mean(variances))
    starts = _starting_rates(times, observed, dx2, dy2)
    with jax.enable_x64(True):
        data = _float64(observed, scale, dx2, dy2, times, factors)
        few = np.linspace(0, len(times) - 1, min(len(times), RECORDS_ON_GRID)).round().astype(int)
        coarse = _float64(observed[:, few], scale, dx2, dy2, times[few], factors)
        costs = np.asarray(_grid_costs(jnp.asarray(starts, jnp.float64), *coarse))
        best = starts[np.argsort(np.where(np.isfinite(costs), costs, np.inf))[:num_starts]]
        searches = [_refine(start, data) for start in best]
    search = min(searches, key=lambda s: s.cost)
    eta_h, eta_y = np.exp(search.x)
    H0, Q0, w0 = observed[:, 0]
    solution = solve(H0, Q0, w0, eta_h, eta_y, dx2, dy2, times, factors=factors, relative_tolerance=1e-7)
    residuals = np.stack([solution.H, solution.Q, solution.w]) - observed
    mean_squares = np.mean(residuals**2, axis=1)
    found = Fit(
        eta_h=float(eta_h),
        eta_y=float(eta_y),
        log_standard_errors=_standard_errors(search.jac, residuals / scale),
        errors=mean_squares / variances,
        error=float(np.sum(mean_squares) / np.sum(variances)),
        solution=solution,
        residual=float(search.optimality),
        num_steps=int(search.nfev),
        converged=bool(search.success) and solution.converged,
    )
    return found.reported("two_point.fit", f"normalized error {found.error:.2g}")


def fit_loss(loss: ArrayLike, solution: Solution, mean_error_sq: float, dy2: float) -> LossFit:
    """Least-squares fit of the third rate, η_mean, to a loss curve (n,) at an already fitted trajectory.

    Other arguments as for `loss_curve`.

    Source: paper C, appendix B.1, "Fitting procedure".
    """
    validation.instance("solution", solution, Solution)
    loss = validation.array("loss", loss, "n", n=len(solution.times))
    span = solution.times[-1] - solution.times[0]

    def residuals(log_rate):
        return loss_curve(solution, float(np.exp(log_rate[0])), mean_error_sq, dy2) - loss

    starts = np.log(np.geomspace(0.01 / span, 10 / np.min(np.diff(solution.times)), 60))
    start = starts[np.argmin([np.sum(residuals([s]) ** 2) for s in starts])]
    search = optimize.least_squares(residuals, [start])
    found = LossFit(
        float(np.exp(search.x[0])),
        float(_standard_errors(search.jac / np.sqrt(search.fun.size), search.fun[None])[0]),
        float(np.mean(search.fun**2) / np.var(loss)),
        search.fun + loss,
        residual=float(search.optimality),
        num_steps=int(search.nfev),
        converged=bool(search.success),
    )
    return found.reported("two_point.fit_loss")


_POSITIVE = ("H0", "eta_h", "eta_y", "dx2", "scale", "eta_mean")


def _check(**values) -> None:
    meaning = {
        "dx2": " (two identical inputs have no distance to learn from)",
        "H0": " (representations of zero distance at the start stay together)",
    }
    for argument, value in values.items():
        value = validation.array(argument, value, "…")
        positive = argument in _POSITIVE
        wrong = (value <= 0) if positive else (value < 0) & (argument != "w0")
        if np.any(wrong):
            needed = "a positive number" if positive else "zero or more"
            raise ValueError(
                f"{argument}: got {value[wrong].flat[0]:g}, needs {needed}{meaning.get(argument, '')}"
            )


def _float64(*values) -> list[Array]:
    return [jnp.asarray(np.asarray(value, dtype=np.float64)) for value in values]


def _fixed_point(H: float, Q: float, growth_rates: np.ndarray) -> FixedPoint:
    return FixedPoint(float(H), float(Q), 0.0, growth_rates, bool(np.all(growth_rates.real < 0)), H >= 0)


def _rates_of_change(t, state, args):
    """The equations for s, q, b with H = s², Q = q s², dy·dŷ = b s, and a factor before every term.

    Unaltered, with κ = η_h|dx|² and u = qs − b: ṡ = −½κu, q̇ = −η_y s u, ḃ = −½η_y s (bs − |dy|²).
    """
    del t
    s, q, b = state
    kappa, eta_y, dy2, f = args
    u = q * s - b
    w = s * u

    def over_s(difference, x):  # terms in 1/s, absent from the theory itself
        return jnp.where(difference == 0, 0.0, difference * x / jnp.where(s == 0, 1e-30, s))

    growth = -0.5 * f[0] * kappa * u
    q_rate = -f[1] * eta_y * w + over_s(f[0] - f[2], kappa * q * u)
    decoder = s * (0.5 * f[3] * (3 * w - q * s * s + dy2) - f[1] * w)
    b_rate = eta_y * decoder + (f[4] - f[2]) * kappa * q * u + over_s(f[0] - f[4], 0.5 * kappa * b * u)
    return jnp.stack([growth, q_rate, b_rate])


@partial(jax.jit, static_argnames=("forward_mode", "max_steps"))
def _trajectory(
    log_rates, initial, dx2, dy2, times, factors, relative_tolerance, forward_mode=False, max_steps=MAX_STEPS
):
    H0, Q0, w0 = initial
    eta_h, eta_y = jnp.exp(log_rates)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(_rates_of_change),
        diffrax.Tsit5(),
        t0=times[0],
        t1=times[-1],
        dt0=None,
        y0=jnp.stack([jnp.sqrt(H0), Q0 / H0, (Q0 - w0) / jnp.sqrt(H0)]),
        args=(eta_h * dx2, eta_y, dy2, factors),
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=relative_tolerance, atol=1e-4 * relative_tolerance),
        adjoint=diffrax.ForwardMode() if forward_mode else diffrax.RecursiveCheckpointAdjoint(),
        max_steps=max_steps,
        throw=False,
    )
    length, q, b = solution.ys.T
    success = solution.result == diffrax.RESULTS.successful
    H, Q = length**2, q * length**2
    return H, Q, Q - b * length, solution.stats["num_steps"], success


def _residuals(log_rates, observed, scale, dx2, dy2, times, factors, max_steps=MAX_STEPS):
    H, Q, w, _, success = _trajectory(
        log_rates, observed[:, 0], dx2, dy2, times, factors, 1e-6, forward_mode=True, max_steps=max_steps
    )
    residuals = (jnp.stack([H, Q, w]) - observed) / scale
    solved = success & jnp.all(jnp.isfinite(residuals))
    return jnp.where(solved, residuals, 1e3).ravel() / jnp.sqrt(residuals.size)


@jax.jit
def _residuals_and_jacobian(log_rates, *data):
    def doubled(x):
        residuals = _residuals(x, *data)
        return residuals, residuals

    jacobian, residuals = jax.jacfwd(doubled, has_aux=True)(log_rates)
    return residuals, jnp.nan_to_num(jacobian)


@jax.jit
def _grid_costs(starts, observed, scale, dx2, dy2, times, factors):
    def cost(start):
        residuals = _residuals(start, observed, scale, dx2, dy2, times, factors, MAX_STEPS_ON_GRID)
        return jnp.sum(residuals**2)

    return jax.vmap(cost)(starts)


def _starting_rates(times, observed, dx2, dy2) -> np.ndarray:
    """Pairs of log rates on a grid in natural units: ratios from the distances, sizes from the time."""
    span, largest_H = times[-1] - times[0], np.max(observed[0])
    output_scale = dy2 if dy2 > 0 else np.max(observed[1])
    rho = output_scale / largest_H**2 * np.logspace(-2.5, 2.5, 11)
    eta_y = np.logspace(-1, 4, 16) / (span * largest_H)
    rho, eta_y = (grid.ravel() for grid in np.meshgrid(rho, eta_y))
    return np.log(np.stack([eta_y / (rho * dx2), eta_y], axis=1))


def _refine(start, data):
    at: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # SciPy asks for residuals and Jacobian one by one

    def evaluate(x):
        if x.tobytes() not in at:
            residuals, jacobian = _residuals_and_jacobian(jnp.asarray(x, jnp.float64), *data)
            at[x.tobytes()] = np.asarray(residuals), np.asarray(jacobian)
        return at[x.tobytes()]

    return optimize.least_squares(
        lambda x: evaluate(x)[0],
        start,
        lambda x: evaluate(x)[1],
        bounds=(start - 12, start + 12),
        xtol=1e-8,
        ftol=1e-10,
    )


def _standard_errors(jacobian: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Curvature errors, with the number of independent residuals from their lag-one correlation.

    The Jacobian is that of the residuals over the root of their number, so that JᵀJ is a mean.
    """
    residuals = residuals / np.sqrt(residuals.size)
    lagged = np.sum(residuals[:, 1:] * residuals[:, :-1])
    correlation = np.clip(lagged / max(np.sum(residuals**2), 1e-300), 0, 0.999)
    independent = max(residuals.size * (1 - correlation) / (1 + correlation) - jacobian.shape[1], 1.0)
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * np.sum(residuals**2) / independent
    return np.sqrt(np.diag(covariance))
