r"""Gradient flow of wide two-layer networks: its path (DMFT), its fixed points (aNTK), and their collapse.

Gradient flow with weight decay λ on ½ Σ_μ |y_μ − f_μ|², f = ⟨Σ_a w_a F_a(u)⟩/γ0 over neurons, Δ = y − f:

    ẇ_a = γ0 Σ_μ Δ_μ F_{aμ}(u) − λ w_a,    u̇ = γ0 Σ_μa Δ_μ w_a ∇_u F_{aμ}(u) − λ u .               (*)

Neurons meet through Δ(t) alone: the dynamical mean-field theory of two layers *is* a population of neurons
drawn from the prior. It is drawn from Sobol's points, every neuron with its mirror image (−w, u), so that
f = 0 at the start as at N → ∞. A network of width N is the same flow from N independent neurons.
Directions of the weights that no training input sees decay as e^{−λt}.

**Fixed points.** If φ is homogeneous of degree k, f is so of degree κ = k + 1 in all weights, θ·∇f = κ f, and
with K = Φ + ⟨w w ∇F·∇F⟩ (the adapted neural tangent kernel, aNTK)

    ḟ(x) = k(x)ᵀΔ − κλ f(x)   ⇒   f(x) = k(x)ᵀ(K + κλ)⁻¹y at every fixed point with λ > 0,           (**)

at every width. A ReLU neuron ends on its kinks, h_μ = 0, where its gate φ'(h_μ) takes the average that holds
it there: gates are averaged over time, a snapshot is wrong by some per cent in all neurons alike. At N → ∞
the ReLU's fixed point is also a convex problem, min_f ½|y − f|² + (λ/γ0)‖f‖ in the variation norm
(`relu_fixed_point`).

Source: paper B, Eqs. 10–14, 59–74 and E.1–E.2; that (**) holds at every width, and the convex problem, are
this book's.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri
from scipy.stats import qmc

from coding_schemes import validation
from coding_schemes.networks import Nonlinearity, canonical, homogeneity
from coding_schemes.tasks import Task
from coding_schemes.theory import features as _features
from coding_schemes.theory import mean_field
from coding_schemes.theory._solution import Solved
from coding_schemes.theory.features import Features, NewInputs

STARTS = ("gaussian", "laplace", "laplace_readouts")
FIXED_POINT_TOLERANCE = 0.02  # rms difference of flow and predictor on the training inputs, over that of y


@dataclass(frozen=True, eq=False, repr=False)
class Path(Solved):
    """The flow (*) of a population or of a network.

    Attributes:
        features: of the neurons.
        richness: γ0.
        weight_decay: λ.
        times: of the records, shape (n,).
        outputs: f on the training inputs, shape (n, P, m).
        test_outputs: f on `test_inputs`, shape (n, P*, m); None without any.
        test_inputs: shape (N0, P*), or None.
        initial: w (neurons, A, m) and u (neurons, r) at the start.
        readouts: w at the end, shape (neurons, A, m).
        u: at the end, shape (neurons, r).
        gates: φ'(h) on the training inputs, averaged over the last steps, shape (neurons, A', P).
        step: dt.
        residual: rms change of the training outputs over the last tenth of the records, over the rms of y.
        num_steps: Euler steps, or those of L-BFGS.
        converged: whether the search of `fixed_point` came to rest; a flow has, at its last record.
    """

    features: Features
    richness: float
    weight_decay: float
    times: np.ndarray
    outputs: np.ndarray
    test_outputs: np.ndarray | None
    test_inputs: np.ndarray | None
    initial: tuple[np.ndarray, np.ndarray]
    readouts: np.ndarray
    u: np.ndarray
    gates: np.ndarray
    step: float
    _new: NewInputs | None = None
    _free: np.ndarray | None = None

    @property
    def train_loss(self) -> np.ndarray:
        """½ ⟨|y − f|²⟩ over training inputs, shape (n,)."""
        return 0.5 * np.square(self.features.task.targets - self.outputs).sum(2).mean(1)

    @property
    def test_loss(self) -> np.ndarray:
        """½ ⟨|y − f|²⟩ over the task's test inputs, shape (n,).

        Raises:
            ValueError: these were not followed.
        """
        task = self.features.task
        if self.test_outputs is None or self.test_inputs is not task.test_inputs:
            raise ValueError("test_inputs: the path did not follow the task's test inputs")
        return 0.5 * np.square(task.test_targets - self.test_outputs).sum(2).mean(1)

    @property
    def preactivations(self) -> np.ndarray:
        """Preactivations on the training inputs at the end, shape (neurons, A', P)."""
        root = jnp.asarray(self.features.root, self.u.dtype)
        return np.asarray(_features.preactivations(jnp.asarray(self.u), root))


def population(
    task: Task,
    nonlinearity: str | Nonlinearity,
    richness: float,
    weight_decay: float = 0.0,
    *,
    duration: float,
    step: float | None = None,
    num_records: int = 50,
    num_neurons: int = 4096,
    network: bool = False,
    start: str = "gaussian",
    features: Features | None = None,
    test_inputs: np.ndarray | None = None,
    average_steps: int = 4000,
    seed: int = 0,
    dtype: Any = jnp.float32,
) -> Path:
    """Follow (*) by explicit steps, which are gradient descent with the learning rate dt.

    Args:
        task: what is learned.
        nonlinearity: as for networks.Network.
        richness: γ0 > 0.
        weight_decay: λ ≥ 0.
        duration: time to the last record.
        step: dt; unless given, half the inverse of the largest eigenvalue that the tangent kernel is
            expected to reach.
        num_records: records after the one at time 0.
        num_neurons: M, an even number in a population; N of a network.
        network: independent neurons, as a network of width N has them, rather than Sobol's and their mirrors.
        start: "gaussian", or unit-variance Laplace coordinates of all weights ("laplace") or of the readouts.
        features: of the neurons where these are not dense, see theory.features.
        test_inputs: inputs to follow, shape (N0, P*); the task's test inputs unless given.
        average_steps: steps after the last record over which gates are averaged, or 0 for those at the end;
            w and u stay as they were.
        seed: of the draw.
        dtype: of the neurons.

    Returns:
        The Path; compare twice the neurons, half the step and another seed to see its errors.

    Raises:
        ValueError: γ0 ≤ 0, λ < 0, or a number out of range.
        FloatingPointError: the outputs are not finite: the step is too long.

    Source: paper B, Eqs. 12–14 and 62, and E.2 for the Laplace start.
    """
    validation.count("average_steps", average_steps, 0)
    validation.positive(duration=duration, **validation.given(step=step))
    validation.counts(num_records=num_records)
    validation.choice("start", start, STARTS)
    features, inputs, new = _setting(
        task, nonlinearity, richness, weight_decay, num_neurons, features, test_inputs, seed
    )
    if num_neurons % 2 and not network:
        raise ValueError(f"num_neurons: got {num_neurons}, needs an even number")
    num_free = 0 if new is None else new.noise_root.shape[-1]
    w, u, free = (jnp.asarray(a, dtype) for a in _draw(features, num_neurons, num_free, network, start, seed))
    if step is None:
        step = _stable_step(features, task, richness)
    per_record = max(1, math.ceil(duration / (num_records * step)))
    step = duration / (num_records * per_record)
    parts = ((features.root, task.targets), (richness, weight_decay, step), new and tuple(new))
    arrays, scalars, tested = jax.tree.map(lambda a: jnp.asarray(a, dtype), parts)
    kind = (features.phi, features.pooled)
    final, outputs, test_outputs = _flow(
        (w, u), free, *arrays, tested, scalars, jnp.int32(per_record), num_records, *kind
    )
    outputs = np.asarray(outputs, float)
    if not np.all(np.isfinite(outputs)):
        raise FloatingPointError(f"step: outputs are not finite with dt = {step:.2g}; give a shorter one")
    if average_steps:
        gates, _ = _averaged_gates(final, *arrays, scalars, jnp.int32(average_steps), *kind)
    else:
        _, gates = _responses_and_slopes(final[1], arrays[0], *kind)
    late = outputs[-1] - outputs[-1 - max(1, num_records // 10)]
    times, residual = np.arange(num_records + 1) * duration / num_records, np.linalg.norm(late)
    return Path(
        features, richness, weight_decay, times, outputs,
        None if new is None else np.asarray(test_outputs, float), inputs, (np.asarray(w), np.asarray(u)),
        np.asarray(final[0]), np.asarray(final[1]), np.asarray(gates), step, new, np.asarray(free),
        residual=float(residual / np.linalg.norm(task.targets)), num_steps=num_records * per_record,
        converged=True,
    )  # fmt: skip


def fixed_point(
    task: Task,
    nonlinearity: str | Nonlinearity,
    richness: float,
    weight_decay: float,
    *,
    num_neurons: int = 64,
    features: Features | None = None,
    test_inputs: np.ndarray | None = None,
    average_steps: int = 2000,
    max_steps: int = 2000,
    tolerance: float = 1e-7,
    seed: int = 0,
) -> Path:
    """Where the flow (*) of a network comes to rest, by L-BFGS on the loss whose gradient it follows.

        E(w, u) = (γ0²/2) |y − f|² + (λ/2N) Σ_i (|w_i|² + |u_i|²)

    It starts from the network's own draw, and gates are averaged over explicit steps from the minimum. Rest
    points of narrow networks depend on the start; the ReLU's function at N → ∞ does not.

    Args:
        task: what is learned.
        nonlinearity: as for networks.Network.
        richness: γ0 > 0.
        weight_decay: λ > 0.
        num_neurons: N.
        features: of the neurons where these are not dense, see theory.features.
        test_inputs: inputs to predict, shape (N0, P*); the task's test inputs unless given.
        average_steps: steps over which gates are averaged; 0 where no kernel is asked for.
        max_steps: of L-BFGS.
        tolerance: relative decrease of E in one step at which L-BFGS stops.
        seed: of the draw.

    Returns:
        A Path with one record, at t = ∞; its residual is the rms change of the training outputs over these
        steps, over the rms of y, and NaN without them. A search that ends before it rests warns.

    Raises:
        ValueError: γ0 ≤ 0 or λ ≤ 0 (follow `population`), or a number out of range.

    Source: this book's.
    """
    validation.counts(max_steps=max_steps)
    features, inputs, new = _setting(
        task, nonlinearity, richness, weight_decay, num_neurons, features, test_inputs, seed
    )
    _require_decay(weight_decay)
    num_free = 0 if new is None else new.noise_root.shape[-1]
    w, u, _ = _draw(features, num_neurons, 0, True, "gaussian", seed)
    kind = (features.phi, features.pooled)
    with jax.enable_x64(True):
        root, targets = (jnp.asarray(a, jnp.float64) for a in (features.root, task.targets))

        def energy(flat):
            value, gradient = _energy(flat, root, targets, richness, weight_decay, w.shape, *kind)
            return float(value), np.asarray(gradient)

        start = w, u
        found = minimize(
            energy, np.concatenate([w.ravel(), u.ravel()]), jac=True, method="L-BFGS-B",
            options={"maxiter": max_steps, "maxfun": 2 * max_steps, "ftol": tolerance, "gtol": 0.0},
        )  # fmt: skip
        w, u = found.x[: w.size].reshape(w.shape), found.x[w.size :].reshape(u.shape)

        def outputs(u, w, projection):
            responses, _ = _responses_and_slopes(jnp.asarray(u), jnp.asarray(projection), *kind)
            return np.einsum("nap,nam->pm", responses, w) / (richness * num_neurons)

        here = outputs(u, w, features.root)
        responses, slopes = map(np.asarray, _responses_and_slopes(jnp.asarray(u), root, *kind))
        path = Path(
            features, richness, weight_decay, np.array([np.inf]), here[None],
            None if new is None else outputs(u, w, new.projection)[None], inputs, start, w, u, slopes, 0.0,
            new, np.zeros((num_neurons, num_free)),
            residual=np.nan, num_steps=int(found.nit), converged=bool(found.success),
        )  # fmt: skip
        if not average_steps:
            return path.reported("fixed_point", f"not at rest: {found.message}")
        kernel, _ = _tangent_kernel(path, responses, slopes, features.root)
        step = 0.5 / (np.linalg.eigvalsh(kernel)[-1] + weight_decay)
        scalars = tuple(jnp.asarray(a, jnp.float64) for a in (richness, weight_decay, step))
        arguments = (root, targets, scalars, jnp.int32(average_steps), *kind)
        gates, (late_w, late_u) = _averaged_gates((jnp.asarray(w), jnp.asarray(u)), *arguments)
        moved = np.linalg.norm(outputs(late_u, late_w, features.root) - here)
        residual = float(moved / np.linalg.norm(task.targets))
        path = replace(path, gates=np.asarray(gates), step=float(step), residual=residual)
        return path.reported("fixed_point", f"not at rest: {found.message}")


@partial(jax.jit, static_argnums=(2, 3))
def _responses_and_slopes(u, root, phi, pooled):
    h = _features.preactivations(u, root)
    return _features.gather(phi(h), pooled), _slope(phi, h)


@partial(jax.jit, static_argnums=(5, 6, 7))
def _energy(flat, root, targets, richness, weight_decay, shape, phi, pooled):
    """E of `fixed_point` and its gradient, in w of the given shape and u, one after the other."""

    def value(flat):
        w, u = flat[: math.prod(shape)].reshape(shape), flat[math.prod(shape) :].reshape(shape[0], -1)
        summed = jnp.einsum("nap,nam->pm", _features.responses(u, root, phi, pooled), w)
        outputs = summed / (richness * len(u))
        decay = weight_decay / len(u) * (jnp.sum(w**2) + jnp.sum(u**2))
        return 0.5 * (richness**2 * jnp.sum((targets - outputs) ** 2) + decay)

    return jax.value_and_grad(value)(flat)


def _require_decay(weight_decay):
    if weight_decay == 0:
        raise ValueError("weight_decay: got 0, the flow rests at λ > 0 only; follow it by dmft.population")


def _setting(task, nonlinearity, richness, weight_decay, num_neurons, features, test_inputs, seed):
    """Features, test inputs and these as neurons see them, once all arguments are sound."""
    features = _features.dense(task, nonlinearity) if features is None else features
    validation.positive(richness=richness)
    validation.number("weight_decay", weight_decay, least=0)
    validation.counts(num_neurons=num_neurons)
    validation.count("seed", seed, 0)
    if features.task is not task:
        raise ValueError("features: belong to another task")
    if test_inputs is not None:
        test_inputs = validation.array("test_inputs", test_inputs, "N0, P*", N0=task.input_dim)
    inputs = task.test_inputs if test_inputs is None else test_inputs
    return features, inputs, None if inputs is None else features.on(inputs)


def _draw(features, num_neurons, num_free, network, start, seed):
    """Readouts (neurons, A, m), u (neurons, r) and the free part (neurons, q), independent or mirrored."""
    num_positions, num_targets = 1 if features.pooled else len(features.root), features.task.num_targets
    cuts = np.cumsum([num_positions * num_targets, features.rank])
    total = cuts[-1] + num_free
    if network:
        uniform = np.random.default_rng(seed).random((num_neurons, total))
    else:
        exponent = math.ceil(math.log2(num_neurons // 2))
        uniform = qmc.Sobol(total, seed=seed).random_base2(exponent)[: num_neurons // 2]
    uniform = np.clip(uniform, 1e-12, 1 - 1e-12)
    w, u, free = np.split(ndtri(uniform), cuts, axis=1)
    laplace = -np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)) / math.sqrt(2)
    heavy_w, heavy_u, _ = np.split(laplace, cuts, axis=1)
    w = w if start == "gaussian" else heavy_w
    u = heavy_u if start == "laplace" else u
    if not network:
        w, u, free = np.concatenate([w, -w]), np.concatenate([u, u]), np.concatenate([free, free])
    return w.reshape(num_neurons, num_positions, num_targets), u, free


def _stable_step(features, task, richness) -> float:
    base = np.einsum("apr,aqr->pq", features.root, features.root) / len(features.root)
    lazy, learned = np.linalg.eigvalsh(base)[-1], richness * np.linalg.norm(task.targets)
    return float(0.5 / (2 * max(lazy, 1.0) + 2 * learned * max(np.diag(base).max(), 1.0)))


def _velocity(state, root, targets, richness, weight_decay, phi, pooled):
    """ẇ and u̇ of (*), and f."""
    w, u = state
    activations, pull_back = jax.vjp(lambda u: _features.responses(u, root, phi, pooled), u)
    outputs = jnp.einsum("nap,nam->pm", activations, w) / (richness * len(u))
    error = richness * (targets - outputs)
    (du,) = pull_back(w @ error.T)
    return (activations @ error - weight_decay * w, du - weight_decay * u), outputs


@partial(jax.jit, static_argnums=(7, 8, 9))
def _flow(state, free, root, targets, tested, scalars, per_record, num_records, phi, pooled):
    richness, weight_decay, step = scalars

    def advance(_, state):
        velocity, _ = _velocity(state, root, targets, richness, weight_decay, phi, pooled)
        return jax.tree.map(lambda x, v: x + step * v, state, velocity)

    def record(state, index):
        w, u = state
        activations = _features.responses(u, root, phi, pooled)
        train = jnp.einsum("nap,nam->pm", activations, w) / (richness * len(u))
        test = jnp.zeros((0, targets.shape[1]), train.dtype)
        if tested is not None:
            projection, noise_root = tested
            left = (1 - weight_decay * step) ** (index * per_record).astype(u.dtype)
            h = _features.preactivations(u, projection) + left * _features.preactivations(free, noise_root)
            test = jnp.einsum("nap,nam->pm", _features.gather(phi(h), pooled), w) / (richness * len(u))
        return train, test

    def block(state, index):
        state = jax.lax.fori_loop(0, per_record, advance, state)
        return state, record(state, index)

    first = record(state, jnp.int32(0))
    final, later = jax.lax.scan(block, state, jnp.arange(1, num_records + 1))
    train, test = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)
    return final, train, test


@partial(jax.jit, static_argnums=(5, 6))
def _averaged_gates(state, root, targets, scalars, num_steps, phi, pooled):
    richness, weight_decay, step = scalars

    def advance(_, carry):
        state, total = carry
        h = _features.preactivations(state[1], root)
        velocity, _ = _velocity(state, root, targets, richness, weight_decay, phi, pooled)
        return jax.tree.map(lambda x, v: x + step * v, state, velocity), total + _slope(phi, h)

    zero = jnp.zeros((len(state[1]), *root.shape[:2]), root.dtype)
    state, total = jax.lax.fori_loop(0, num_steps, advance, (state, zero))
    return total / num_steps, state


def _slope(phi, h):
    return jax.jvp(phi, (h,), (jnp.ones_like(h),))[1]


# --- fixed points ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Antk(Solved):
    """Kernel regression (**) with the adapted neural tangent kernel.

    Attributes:
        path: the flow that ended here.
        kernel: K on the training inputs, rows and columns (input, output), shape (P m, P m).
        feature_kernel: Φ, shape (P, P).
        degree: κ.
        dual_field: (K + κλ)⁻¹ y, shape (P, m).
        residual: rms difference of flow and predictor on the training inputs, over the rms of y.
        num_steps: of the path.
        converged: whether the residual is below FIXED_POINT_TOLERANCE.
    """

    path: Path
    kernel: np.ndarray
    feature_kernel: np.ndarray
    degree: float
    dual_field: np.ndarray

    def predict(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """f(x) = k(x)ᵀ(K + κλ)⁻¹ y, shape (P*, m).

        Args:
            inputs: shape (N0, P*); the inputs that the path followed unless given, with the same free part.
        """
        path, features = self.path, self.path.features
        if inputs is None or inputs is path.test_inputs:
            if path._new is None or path._free is None:
                raise ValueError("inputs: needed, as the path followed none")
            new, free = path._new, path._free
        else:
            new = features.on(inputs)
            free = np.random.default_rng(0).standard_normal((len(path.u), new.noise_root.shape[-1]))
        at_rest = np.isinf(path.times[-1])
        left = 0.0 if at_rest else (1 - path.weight_decay * path.step) ** path.num_steps
        u, drawn = jnp.asarray(path.u), jnp.asarray(free, path.u.dtype)
        projection, noise_root = (jnp.asarray(a, path.u.dtype) for a in new)
        h = _features.preactivations(u, projection) + left * _features.preactivations(drawn, noise_root)
        gates = np.asarray(_slope(features.phi, h))
        responses = np.asarray(_features.gather(features.phi(h), features.pooled))
        rows = _tangent_kernel(path, responses, gates, new.projection)[0]
        return (rows @ self.dual_field.ravel()).reshape(-1, self.dual_field.shape[1])


def antk(path: Path) -> Antk:
    """The predictor (**) at the end of a path.

    Args:
        path: with λ > 0, at its fixed point, of a homogeneous φ.

    Returns:
        An Antk. Where predictor and flow differ the path is too short, and it says converged=False.

    Raises:
        ValueError: φ is not homogeneous, or λ = 0, where the flow is no regression with its final kernel.

    Source: paper B, Eqs. 10–11 and 61–68.
    """
    power = homogeneity(path.features.phi)
    if power is None:
        raise ValueError(
            f"nonlinearity: got {canonical(path.features.phi)}, which is not homogeneous; the aNTK predictor "
            "needs linear, relu, relu_squared or another homogeneous one; use the path's own outputs"
        )
    degree = power + 1
    if not path.weight_decay > 0:
        raise ValueError("weight_decay: got 0, the aNTK predictor needs λ > 0; use the path's own outputs")
    features, targets = path.features, path.features.task.targets
    responses = np.asarray(features(jnp.asarray(path.u)), float)
    kernel, feature_kernel = _tangent_kernel(path, responses, path.gates, features.root)
    ridge = degree * path.weight_decay * np.eye(len(kernel))
    dual_field = np.linalg.solve(kernel + ridge, targets.ravel())
    missed = (kernel @ dual_field).reshape(targets.shape) - path.outputs[-1]
    residual = float(np.linalg.norm(missed) / np.linalg.norm(targets))
    found = Antk(
        path, kernel, feature_kernel, degree, dual_field.reshape(targets.shape),
        residual=residual, num_steps=path.num_steps, converged=residual < FIXED_POINT_TOLERANCE,
    )  # fmt: skip
    return found.reported("aNTK", "so far do predictor and flow differ on training inputs")


def _tangent_kernel(path, responses, gates, coordinates):
    """K and Φ of the training inputs with others, given by F (n, A, P'), φ' (n, A', P') and R (A', P', r)."""
    features = path.features
    own = np.asarray(features(jnp.asarray(path.u)), float)
    num, num_outputs = len(path.u), path.readouts.shape[2]
    phi_part = np.tensordot(responses, own, ((0, 1), (0, 1))) / num
    num_patches = len(features.root)
    scale = 1 / num_patches if features.pooled else num_patches**-0.5

    readouts = np.broadcast_to(path.readouts, (num, num_patches, num_outputs))  # pooled patches share theirs

    def pulls(slopes):  # w_a φ'(h_aμ), one row per position, input and output
        return scale * np.einsum("nam,nap->napm", readouts, slopes)

    there, here = (pulls(s).reshape(num, -1) for s in (gates, path.gates))
    overlap = np.einsum("apr,bqr->apbq", coordinates, features.root)
    moment = (there.T @ here / num).reshape(
        num_patches, -1, num_outputs, num_patches, features.root.shape[1], num_outputs
    )
    weight_part = np.einsum("apmbqk,apbq->pmqk", moment, overlap)
    total = weight_part + np.einsum("pq,mk->pmqk", phi_part, np.eye(num_outputs))
    return total.reshape(total.shape[0] * num_outputs, -1), phi_part


def relu_fixed_point(task: Task, richness: float, weight_decay: float, **options: Any) -> mean_field.Solution:
    """The ReLU's fixed point at N → ∞ as a convex problem: paper A's outliers with T/σ_a = λ/γ0.

        min_f ½|y − f|² + (λ/γ0) Σ_i |w_i||u_i|,   f = Σ_i w_i φ(R u_i)

    Weight decay balances |w_i| = |u_i|; the surviving kinds of neurons are the outliers.

    Args:
        task: what is learned.
        richness: γ0 > 0.
        weight_decay: λ > 0.
        **options: of mean_field.solve.

    Returns:
        The mean-field theory's solution; its `predict` is the fixed point's f.

    Raises:
        ValueError: γ0 ≤ 0 or λ ≤ 0.

    Source: this book's.
    """
    validation.positive(richness=richness)
    validation.number("weight_decay", weight_decay, least=0)
    _require_decay(weight_decay)
    return mean_field.solve(
        task, "relu", temperature=weight_decay / richness, readout_variance=1.0, **options
    )


# --- collapse -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collapse:
    """Fixed point of the flow on white inputs, for each group of targets that shares its neurons.

    Attributes:
        thresholds: weight decay γ0 Y above which a group's neurons and outputs die.
        second_moments: ⟨w²⟩ of each group, max(γ0 Y − λ, 0).
        errors: |Δ| of each group, min(λ/γ0, Y).
    """

    thresholds: np.ndarray
    second_moments: np.ndarray
    errors: np.ndarray


def collapse(
    targets: np.ndarray, richness: float, weight_decay: float, nonlinearity: str = "relu"
) -> Collapse:
    """Moments of the fixed point on white inputs (K0 = 1) and one output.

    The ReLU's positive and negative targets do not share neurons: Y₊ and Y₋ are the norms of either; a linear
    network has one group, Y = |y|. Relaxation is slow near a threshold, at the rate |γ0 Y − λ|.

    Args:
        targets: y, shape (P,) or (P, 1).
        richness: γ0 > 0.
        weight_decay: λ > 0.
        nonlinearity: "relu" or "linear".

    Returns:
        The Collapse; for the ReLU its arrays are (positive, negative targets).

    Raises:
        ValueError: an argument is out of range, or there is more than one output: follow `population`.

    Source: paper B, Eqs. 69–74 for one input; several inputs are this book's.
    """
    y = validation.array("targets", targets, "…")
    if y.shape not in ((y.size,), (y.size, 1)):
        raise ValueError(
            f"targets: got shape {y.shape}, the formulas are for one output; use dmft.population"
        )
    y = y.ravel()
    validation.choice("nonlinearity", nonlinearity, ("relu", "linear"))
    validation.positive(richness=richness, weight_decay=weight_decay)
    groups = [np.maximum(y, 0), np.maximum(-y, 0)] if nonlinearity == "relu" else [y]
    norms = np.array([np.linalg.norm(group) for group in groups])
    return Collapse(
        thresholds=richness * norms,
        second_moments=np.maximum(richness * norms - weight_decay, 0),
        errors=np.minimum(weight_decay / richness, norms),
    )
