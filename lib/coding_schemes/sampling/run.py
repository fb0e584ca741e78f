"""Chains: annealing, step-size adaptation, thinned storage, progress, checkpoints, devices."""

import functools
import json
import math
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.step_size import dual_averaging_adaptation
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tqdm.auto import tqdm

from coding_schemes.posterior import NewInputs, Posterior, Weights
from coding_schemes.sampling import moves as _moves
from coding_schemes.sampling.hmc import Info, hmc_step, nuts_step
from coding_schemes.sampling.langevin import adjusted_steps, minibatch_gradient, plain_steps

METHODS = ("hmc", "nuts", "langevin", "plain_langevin")
STORABLE = ("readouts", "preactivations", "weights", "outputs", "mean_outputs", "kernels")
TARGET_ACCEPTANCE = {"hmc": 0.8, "nuts": 0.8, "langevin": 0.574, "plain_langevin": 1.0}


@dataclass(frozen=True)
class Settings:
    """How a transition is made; static under jit. Fields are arguments of `sample`."""

    method: str
    trajectory_length: float
    max_num_steps: int
    max_doublings: int
    langevin_steps: int
    batch_size: int | None
    moves: tuple[str, ...]
    target_acceptance: float
    store: tuple[str, ...]


class State(NamedTuple):
    """Everything a run needs to go on; leading axes (chains, replicas) on the weights.

    Attributes:
        weights: positions of all chains and replicas.
        log_step_size: log ε per replica, shape (replicas,).
        averaging: BlackJAX dual-averaging state per replica.
        means: streaming sums over samples, per chain.
        iteration: transitions made so far.
    """

    weights: Weights
    log_step_size: Array
    averaging: Any
    means: dict[str, Any]
    iteration: Array


class Streams(NamedTuple):
    """Random streams of a run, each folded with the iteration where it is used.

    Attributes:
        chains: one key per chain and replica, shape (chains, replicas).
        predictions: one key per chain.
        exchange: one key per chain, for exchange between its replicas.
        shared: one key for what all chains share, the trajectory's jitter.
    """

    chains: Array
    predictions: Array
    exchange: Array
    shared: Array


class SampleInfo(NamedTuple):
    """Diagnostics of every stored sample (or, in warm-up, of every transition).

    All have shape (chains, samples); during warm-up the samples are transitions.

    Attributes:
        acceptance: acceptance probability, averaged over the transitions since the last sample.
        energy: U at the sample.
        squared_error: ‖Y − f‖² at the sample, summed over inputs and outputs.
        step_size: ε.
        divergences: divergent transitions since the last sample.
        num_gradients: gradients evaluated since the last sample.
        move_acceptance: acceptance of each posterior-invariant move, by name.
    """

    acceptance: np.ndarray
    energy: np.ndarray
    squared_error: np.ndarray
    step_size: np.ndarray
    divergences: np.ndarray
    num_gradients: np.ndarray
    move_acceptance: dict[str, np.ndarray]


class Predictions(NamedTuple):
    """Response to new inputs, averaged over samples as they were drawn.

    Attributes:
        outputs: f* of every sample, shape (chains, samples, P*, m).
        kernel: mean test kernel ⟨φ(z*)ᵀφ(z*)⟩/N of the feature layer, shape (P*, P*).
    """

    outputs: np.ndarray
    kernel: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean predictor ⟨f*⟩, shape (P*, m)."""
        return self.outputs.mean((0, 1), dtype=float)

    @property
    def variance(self) -> np.ndarray:
        """Predictor variance ⟨f*²⟩ − ⟨f*⟩², shape (P*, m)."""
        return self.outputs.var((0, 1), dtype=float)

    def class_error(self, labels: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Generalisation error ⟨‖y − f*‖²⟩/2 = (bias² + variance)/2, averaged per class: shape (C,)."""
        per_input = 0.5 * (np.square(targets - self.mean) + self.variance).sum(1)
        return np.array([per_input[labels == c].mean() for c in range(labels.max() + 1)])

    def class_misclassified(self, labels: np.ndarray) -> np.ndarray:
        """Fraction of each class that the mean predictor's largest output gets wrong: shape (C,)."""
        wrong = self.mean.argmax(1) != labels
        return np.array([wrong[labels == c].mean() for c in range(labels.max() + 1)])


@dataclass(frozen=True)
class Samples:
    """Posterior samples; leading axes (chains, samples).

    Attributes:
        readouts: a in paper A's units, shape (chains, samples, N, m), or None if not stored.
        preactivations: z¹ … z^L on the training inputs, each (chains, samples, N, P), or None.
        weights: the weights themselves in the posterior's coordinates, or None.
        outputs: f on the training inputs, shape (chains, samples, P, m), or None.
        mean_outputs: f averaged over each chain's samples, shape (chains, P, m), or None.
        kernels: K_1 … K_L averaged over each chain's samples, each (chains, P, P), or None.
        predictions: response to `predict_inputs`, or None.
        info: diagnostics of every sample.
        warmup_info: the same for every transition of the warm-up, or None if there was none.
        final: every chain's last weights, leading axis (chains,); pass as `init` to go on.
        temperature: T of the samples.
        seconds: wall-clock seconds of warm-up and of sampling, compilation included.
    """

    readouts: np.ndarray | None
    preactivations: tuple[np.ndarray, ...] | None
    weights: Weights | None
    outputs: np.ndarray | None
    mean_outputs: np.ndarray | None
    kernels: tuple[np.ndarray, ...] | None
    predictions: Predictions | None
    info: SampleInfo
    warmup_info: SampleInfo | None
    final: Weights
    temperature: float
    seconds: dict[str, float]


def sample(
    posterior: Posterior,
    key: Array,
    *,
    num_samples: int,
    num_chains: int = 4,
    method: str = "hmc",
    num_warmup: int = 400,
    thinning: int = 1,
    init: Weights | str = "prior",
    moves: tuple[str, ...] = (),
    store: tuple[str, ...] = ("readouts", "preactivations"),
    predict_inputs: np.ndarray | None = None,
    temperatures: tuple[float, ...] = (),
    anneal_from: float | None = None,
    step_size: float | None = None,
    target_acceptance: float | None = None,
    trajectory_length: float = np.pi / 2,
    max_num_steps: int = 100,
    max_doublings: int = 8,
    langevin_steps: int = 50,
    batch_size: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Samples:
    """Draw samples from the weight posterior.

    Warm-up: the first half anneals T geometrically from `anneal_from` to the target, the second half
    adapts the step size at the target by dual averaging. Adapting at once from the prior would
    freeze the chain: the energy there is orders of magnitude above equilibrium. A start that is
    given ("planted") is not annealed.

    Args:
        posterior: what to sample.
        key: random key; chain c draws from fold_in(key, c), transition i from fold_in(·, i).
        num_samples: stored samples per chain.
        num_chains: independent chains, vmapped, and sharded over as many devices as divide them.
        method: "hmc", "nuts", "langevin" (Metropolis-adjusted) or "plain_langevin" (unadjusted,
            for dynamics; needs `step_size`).
        num_warmup: warm-up transitions, 0 for none (then give `step_size`).
        thinning: transitions per stored sample.
        init: "prior", or Weights to start from: one network's, used by all chains, or with a
            leading axis (chains,).
        moves: posterior-invariant moves made after every transition, names from `moves.MOVES`.
        store: what to keep of every sample, from "readouts", "preactivations", "weights",
            "outputs"; "mean_outputs" and "kernels" keep each chain's mean only.
        predict_inputs: new inputs (N0, P*) to respond to; only outputs and means are kept.
        temperatures: ladder of higher temperatures for replica exchange, ascending; each chain
            then carries 1 + len(temperatures) replicas, of which the coldest is stored.
        anneal_from: first temperature of the warm-up; max(1, T) unless given, T for no annealing.
        step_size: ε; the start of adaptation, or with `num_warmup=0` the step size itself.
        target_acceptance: of the adaptation; 0.8 for HMC and NUTS, 0.574 for Langevin.
        trajectory_length: of HMC in units of the prior's standard deviation; each transition's is
            jittered by a factor uniform in [½, 3/2], shared by the chains.
        max_num_steps: most leapfrog steps of an HMC trajectory.
        max_doublings: most doublings of a NUTS trajectory.
        langevin_steps: Langevin steps per transition.
        batch_size: training inputs per gradient, for plain Langevin only.
        progress: show a progress bar; by default only on a terminal.
        checkpoint: folder in which the state is saved after every block; a run that finds its
            own checkpoint there goes on from it, with bitwise the same result.

    Returns:
        Samples.

    Raises:
        ValueError: an argument is out of range or does not fit the others.
        FloatingPointError: a chain's energy is not finite; the message names step and step size.
    """
    started = time.perf_counter()
    settings = Settings(
        method,
        float(trajectory_length),
        int(max_num_steps),
        int(max_doublings),
        int(langevin_steps),
        batch_size,
        tuple(moves),
        TARGET_ACCEPTANCE.get(method, 0.8) if target_acceptance is None else float(target_acceptance),
        tuple(store),
    )
    _check(posterior, settings, num_samples, num_chains, num_warmup, thinning, temperatures, step_size)
    progress = sys.stderr.isatty() if progress is None else progress
    new = None if predict_inputs is None else posterior.new_inputs(predict_inputs)
    target = jnp.asarray([float(posterior.temperature), *temperatures], posterior.dtype)
    planted = not isinstance(init, str)
    if anneal_from is None:
        anneal_from = 0.0 if planted else 1.0
    hot = jnp.maximum(target, anneal_from)
    num_anneal = (
        0 if planted or method == "plain_langevin" or bool(jnp.all(hot == target)) else num_warmup // 2
    )

    state = _start(posterior, key, init, num_chains, len(target), step_size, float(target[0]), settings, new)
    state = _shard(state, num_chains)
    streams = _streams(key, num_chains, len(target))
    store_dir = _Checkpoint(
        checkpoint, posterior, key, (settings, num_samples, num_chains, num_warmup, thinning)
    )
    bar = tqdm(total=num_warmup + num_samples * thinning, disable=not progress, unit="transition")

    warmup: list[Any] = []
    collected: list[Any] = []
    seconds: dict[str, float] = {}
    phases = (("anneal", num_anneal), ("adapt", num_warmup - num_anneal), ("sample", num_samples))
    for phase, length in phases:
        block = _block_length(length)
        for first in range(0, length, block):
            saved = store_dir.load(state)
            if saved is not None:
                state, out = saved
            else:
                if phase == "sample":
                    state, out = _sample_block(
                        posterior, new, settings, streams, state, target, block, thinning
                    )
                else:
                    fractions = (
                        (first + jnp.arange(1, block + 1)) / length if phase == "anneal" else jnp.ones(block)
                    )
                    state, out = _warmup_block(
                        posterior,
                        settings,
                        streams,
                        state,
                        hot,
                        target,
                        fractions.astype(posterior.dtype),
                        phase == "anneal",
                    )
                out = jax.tree.map(np.asarray, out)
                _check_finite(out["info"], state, thinning if phase == "sample" else 1)
                store_dir.save(state, out)
            (collected if phase == "sample" else warmup).append(out)
            bar.update(block * (thinning if phase == "sample" else 1))
        if phase == "anneal" and length:
            state = _begin_averaging(state)
        if phase == "adapt":
            if length and method != "plain_langevin":
                state = state._replace(log_step_size=state.averaging.log_step_size_avg)
            seconds["warmup"] = time.perf_counter() - started
    bar.close()
    seconds["sampling"] = time.perf_counter() - started - seconds["warmup"]
    return _gather(posterior, settings, state, collected, warmup, new, num_samples, thinning, seconds)


# ---- one transition -------------------------------------------------------------------------


def _transition(posterior, settings, chain_key, shared_key, weights, step_size, iteration):
    """One transition of one replica, followed by the moves. Returns weights, Info, move acceptances."""
    key = jax.random.fold_in(chain_key, iteration)
    kernel_key, move_key = jax.random.split(key)
    value_and_gradient = posterior.value_and_gradient
    if settings.method == "hmc":
        jitter = jax.random.uniform(shared_key, (), step_size.dtype, 0.5, 1.5)
        steps = jnp.ceil(jitter * settings.trajectory_length / step_size)
        steps = jnp.clip(steps, 1, settings.max_num_steps).astype(jnp.int32)
        weights, info = hmc_step(kernel_key, weights, value_and_gradient, step_size, steps)
    elif settings.method == "nuts":
        weights, info = nuts_step(
            kernel_key, weights, posterior.logdensity, step_size, settings.max_doublings
        )
    elif settings.method == "langevin":
        weights, info = adjusted_steps(
            kernel_key, weights, value_and_gradient, step_size, settings.langevin_steps
        )
    else:
        if settings.batch_size is None:
            gradient = lambda _, position: value_and_gradient(position)[1]  # noqa: E731
        else:
            gradient = minibatch_gradient(posterior, settings.batch_size)
        weights, info = plain_steps(kernel_key, weights, gradient, step_size, settings.langevin_steps)
    accepted = {}
    for index, name in enumerate(settings.moves):
        weights, accepted[name] = _moves.MOVES[name](jax.random.fold_in(move_key, index), weights, posterior)
    return weights, info, accepted


def _iterate(posterior, settings, streams, state, temperatures):
    """One transition of all chains and replicas, then exchange between replicas."""
    shared_key = jax.random.fold_in(streams.shared, state.iteration)
    step_sizes = jnp.exp(state.log_step_size).astype(posterior.dtype)

    def one(chain_key, weights, step_size, temperature):
        return _transition(
            posterior.at_temperature(temperature),
            settings,
            chain_key,
            shared_key,
            weights,
            step_size,
            state.iteration,
        )

    shape = streams.chains.shape
    spread = [jnp.broadcast_to(values, shape) for values in (step_sizes, temperatures)]
    flat = jax.tree.map(
        lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (streams.chains, state.weights, *spread)
    )
    if math.prod(shape) > 1 and _one_after_the_other(state.weights):
        moved = jax.lax.map(lambda arguments: one(*arguments), flat)
    else:
        moved = _over_chains(one, *flat)
    weights, info, accepted = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), moved)
    if len(temperatures) > 1:
        exchange = functools.partial(_moves.exchange, posterior=posterior, temperatures=temperatures)
        keys = jax.vmap(lambda k: jax.random.fold_in(k, state.iteration))(streams.exchange)
        weights, accepted["exchange"] = jax.vmap(exchange, (0, 0, None))(keys, weights, state.iteration % 2)
    return state._replace(weights=weights, iteration=state.iteration + 1), info, accepted


#: Numbers per chain above which a CPU takes chains one after the other: several do not fit in its cache.
CACHED = 100_000


def _one_after_the_other(weights: Weights) -> bool:
    per_chain = sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(weights))
    return jax.default_backend() == "cpu" and len(jax.devices()) == 1 and per_chain > CACHED


@functools.partial(jax.jit, static_argnums=(1, 2))
def _streams(key, num_chains, num_replicas) -> Streams:
    """A chain's keys depend on its index alone, not on how many chains there are."""

    def per_chain(chain):
        own = jax.random.fold_in(key, chain)
        replicas, predictions, exchange = (jax.random.fold_in(own, use) for use in range(3))
        return jax.random.split(replicas, num_replicas), predictions, exchange

    chains, predictions, exchange = jax.vmap(per_chain)(jnp.arange(num_chains))
    return Streams(chains, predictions, exchange, jax.random.fold_in(key, jnp.iinfo(jnp.int32).max))


def _report(posterior, settings, state, info: Info, accepted, step_size):
    """SampleInfo of the coldest replica of every chain, as a dict of (chains,) arrays."""
    cold = jax.tree.map(lambda leaf: leaf[:, 0], state.weights)
    return {
        "acceptance": info.acceptance[:, 0],
        "energy": jax.vmap(lambda weights: posterior.energy(weights, settings.batch_size))(cold),
        "squared_error": jax.vmap(lambda weights: posterior.squared_error(weights, settings.batch_size))(
            cold
        ),
        "step_size": jnp.broadcast_to(step_size, (cold.readout.shape[0],)),
        "divergences": info.divergent[:, 0].astype(jnp.int32),
        "num_gradients": info.num_gradients[:, 0],
        "move_acceptance": {
            name: value if name == "exchange" else value[:, 0] for name, value in accepted.items()
        },
    }


# ---- compiled blocks ------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("settings",))
def _warmup_block(posterior, settings, streams, state, hot, target, fractions, annealing):
    """Warm-up transitions; one program for annealing and adaptation, `annealing` (bool) is traced."""
    _, update, _ = dual_averaging_adaptation(settings.target_acceptance)

    def step(carry, fraction):
        state, previous = carry
        temperatures = hot ** (1 - fraction) * target**fraction
        # ε follows √T, the scale of the stiffest direction; the acceptance corrects it below
        state = state._replace(
            log_step_size=state.log_step_size + 0.5 * _log_stiffness(temperatures, previous)
        )
        used = jnp.exp(state.log_step_size[0])
        state, info, accepted = _iterate(posterior, settings, streams, state, temperatures)
        if settings.method != "plain_langevin":
            acceptance = (
                jnp.where(jnp.isnan(info.acceptance), 0.0, info.acceptance).mean(0).astype(jnp.float32)
            )
            corrected = state.log_step_size + ANNEAL_GAIN * (acceptance - settings.target_acceptance)
            averaging = jax.vmap(update)(state.averaging, acceptance)
            adapted = averaging.log_step_size.astype(jnp.float32)
            state = state._replace(
                averaging=averaging, log_step_size=jnp.where(annealing, corrected, adapted)
            )
        return (state, temperatures), _report(
            posterior.at_temperature(temperatures[0]), settings, state, info, accepted, used
        )

    start = hot ** (1 - fractions[0]) * target ** fractions[0]
    (state, _), info = jax.lax.scan(step, (state, start), fractions)
    return state, {"info": jax.tree.map(_chains_first, info)}


#: Gain of the step-size correction while annealing, one full rejection costs 16 % of the step.
ANNEAL_GAIN = 0.2


def _log_stiffness(temperatures, previous):
    """Log of the ratio of stiffnesses 1 + 1/T at two temperatures, as seen by ε²."""
    return (jnp.log1p(1 / previous) - jnp.log1p(1 / temperatures)).astype(jnp.float32)


@functools.partial(jax.jit, static_argnames=("settings", "block", "thinning"))
def _sample_block(posterior, new, settings, streams, state, target, block, thinning):

    def transition(state, _):
        state, info, accepted = _iterate(posterior, settings, streams, state, target)
        return state, (info, accepted)

    def one_sample(state, _):
        state, (info, accepted) = jax.lax.scan(transition, state, length=thinning)
        info = Info(info.acceptance.mean(0), info.divergent.sum(0), info.num_gradients.sum(0))
        accepted = jax.tree.map(lambda a: a.mean(0), accepted)
        out = {"info": _report(posterior, settings, state, info, accepted, jnp.exp(state.log_step_size[0]))}
        cold = jax.tree.map(lambda leaf: leaf[:, 0], state.weights)
        keys = streams.predictions
        if new is not None:
            keys = jax.vmap(lambda k: jax.random.fold_in(k, state.iteration))(keys)
        kept, sums = _over_chains(functools.partial(_observe, posterior, new, settings), keys, cold)
        means = jax.tree.map(lambda total, term: total + term.astype(total.dtype), state.means, sums)
        return state._replace(means=means), out | kept

    state, out = jax.lax.scan(one_sample, state, length=block)
    return state, jax.tree.map(_chains_first, out)


def _observe(posterior, new: NewInputs | None, settings, key, weights):
    """What is kept of one chain's sample, and what is added to its streaming sums."""
    layers = posterior.preactivations(weights)
    available = {
        "readouts": posterior.readouts(weights),
        "preactivations": layers,
        "weights": weights,
        "outputs": posterior.network.outputs(layers[-1], posterior.readouts(weights)),
    }
    kept = {name: available[name] for name in settings.store if name in available}
    sums: dict[str, Any] = {}
    if "mean_outputs" in settings.store:
        sums["mean_outputs"] = available["outputs"]
    if "kernels" in settings.store:
        sums["kernels"] = tuple(posterior.network.kernel(z) for z in layers)
    if new is not None:
        prediction = posterior.respond(key, weights, new)
        kept["predicted"] = prediction.outputs
        sums["test_kernel"] = posterior.network.kernel(prediction.preactivations[-1])
    return kept, sums


def _over_chains(function, *arguments):
    """The function vmapped over the leading axis; one chain is passed as it is, which compiles faster."""
    if len(jax.tree.leaves(arguments)[0]) > 1:
        return jax.vmap(function)(*arguments)
    result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
    return jax.tree.map(lambda leaf: leaf[None], result)


def _chains_first(array):
    return jnp.swapaxes(array, 0, 1)


# ---- start, storage and checks --------------------------------------------------------------


def _start(posterior, key, init, num_chains, num_replicas, step_size, temperature, settings, new) -> State:
    """Initial state of all chains."""
    if isinstance(init, str):
        start_key = jax.random.fold_in(key, jnp.iinfo(jnp.int32).max - 1)
        weights = _prior_draws(posterior, start_key, num_chains, num_replicas)
    else:
        template = jax.eval_shape(posterior.prior, key)
        structure: Any = jax.tree.structure(template)
        if structure != jax.tree.structure(init):
            raise ValueError(f"init: got {jax.tree.structure(init)}, needs {structure}")
        spread = []
        for got, want in zip(jax.tree.leaves(init), jax.tree.leaves(template)):
            got = jnp.asarray(got, posterior.dtype)
            if got.shape not in (want.shape, (num_chains, *want.shape)):
                raise ValueError(
                    f"init: got an array of shape {got.shape}, needs {want.shape}, or with a leading axis of "
                    f"{num_chains} chains"
                )
            got = got if got.ndim > len(want.shape) else got[None]
            spread.append(jnp.broadcast_to(got[:, None], (num_chains, num_replicas, *want.shape)))
        weights = jax.tree.unflatten(jax.tree.structure(template), spread)
    if step_size is None:
        step_size = 0.3 if isinstance(init, str) else 0.3 * (temperature / (1 + temperature)) ** 0.5
        step_size *= 0.3 if settings.method == "langevin" else 1.0
    log_step_size = jnp.full(num_replicas, np.log(step_size), jnp.float32)
    means: dict[str, Any] = {}
    accumulator = jnp.result_type(float)
    if "mean_outputs" in settings.store:
        means["mean_outputs"] = jnp.zeros((num_chains, *posterior.targets.shape), accumulator)
    if "kernels" in settings.store:
        size = posterior.targets.shape[0]
        means["kernels"] = tuple(
            jnp.zeros((num_chains, size, size), accumulator) for _ in range(posterior.network.depth)
        )
    if new is not None:
        size = new.projection.shape[1]
        means["test_kernel"] = jnp.zeros((num_chains, size, size), accumulator)
    state = State(weights, log_step_size, None, means, jnp.zeros((), jnp.int32))
    return _begin_averaging(state)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _prior_draws(posterior, key, num_chains, num_replicas) -> Weights:
    keys = jax.random.split(key, (num_chains, num_replicas))
    draws = jax.lax.map(posterior.prior, keys.reshape(-1))  # compiles faster than vmap
    return jax.tree.map(lambda leaf: leaf.reshape(*keys.shape, *leaf.shape[1:]), draws)


@jax.jit
def _begin_averaging(state: State) -> State:
    """Dual averaging restarted at the present step size, shrinking towards it."""
    init, _, _ = dual_averaging_adaptation(0.8)

    def begin(log_step_size):
        averaging = init(jnp.exp(log_step_size))._replace(mu=log_step_size)
        # explicit dtypes: the compiled blocks then see one type before and after
        return jax.tree.map(
            lambda a: jnp.asarray(a, jnp.int32 if isinstance(a, int) else jnp.float32), averaging
        )

    return state._replace(averaging=jax.vmap(begin)(state.log_step_size))


def _shard(state: State, num_chains: int) -> State:
    """Chains spread over as many devices as divide their number."""
    count = math.gcd(len(jax.devices()), num_chains)
    if count == 1:
        return state
    mesh = Mesh(np.array(jax.devices()[:count]), ("chains",))
    split, whole = NamedSharding(mesh, PartitionSpec("chains")), NamedSharding(mesh, PartitionSpec())
    put = functools.partial(jax.tree.map, lambda leaf: jax.device_put(leaf, split))
    weights, step_size, averaging, means, iteration = state
    step_size, averaging, iteration = jax.tree.map(
        lambda leaf: jax.device_put(leaf, whole), (step_size, averaging, iteration)
    )
    return State(put(weights), step_size, averaging, put(means), iteration)


def _block_length(length: int, num_blocks: int = 20) -> int:
    """Largest divisor of length that makes at least num_blocks blocks, so all compile to one program."""
    most = max(1, -(-length // num_blocks))
    return next(size for size in range(most, 0, -1) if length % size == 0) if length else 1


def _check_finite(info, state: State, thinning: int) -> None:
    bad = ~np.isfinite(info["energy"])
    if bad.any():
        chain, index = np.argwhere(bad)[0]
        step = int(state.iteration) - (bad.shape[1] - 1 - index) * thinning
        raise FloatingPointError(
            f"chain {chain}: energy {info['energy'][chain, index]} at transition {step} with step size "
            f"{info['step_size'][chain, index]:.3g}; take a smaller step size or start nearer to equilibrium"
        )


def _warn_of_trouble(info: SampleInfo, settings: Settings, thinning: int) -> None:
    """Divergent transitions after warm-up, with the first one's place, and chains that do not move."""
    trouble = []
    if info.divergences.any():
        chain, index = np.argwhere(info.divergences)[0]
        trouble.append(
            f"{int(info.divergences.sum())} divergent transitions after warm-up, the first in chain {chain} "
            f"at transition {index * thinning + 1} to {(index + 1) * thinning} with step size "
            f"{info.step_size[chain, index]:.3g}"
        )
    acceptance = info.acceptance.mean(1)
    if acceptance.min() < FROZEN and settings.method != "plain_langevin":
        frozen = np.flatnonzero(acceptance < FROZEN).tolist()
        names = frozen if len(frozen) <= 8 else f"{len(frozen)} of {len(acceptance)}"
        trouble.append(
            f"frozen chains {names} (acceptance below {FROZEN}), step size {info.step_size[0, -1]:.3g}"
        )
    if trouble:
        warnings.warn(f"sampling: {'; '.join(trouble)}", stacklevel=4)


#: Mean acceptance below which a chain counts as frozen.
FROZEN = 0.1


def _check(posterior, settings, num_samples, num_chains, num_warmup, thinning, temperatures, step_size):
    for name, value, least in (
        ("num_samples", num_samples, 1),
        ("num_chains", num_chains, 1),
        ("num_warmup", num_warmup, 0),
        ("thinning", thinning, 1),
        ("max_num_steps", settings.max_num_steps, 1),
        ("langevin_steps", settings.langevin_steps, 1),
    ):
        if int(value) != value or value < least:
            raise ValueError(f"{name}: got {value}, needs a whole number of at least {least}")
    if settings.method not in METHODS:
        raise ValueError(f"method: got {settings.method!r}, allowed are {METHODS}")
    for name, given, allowed in (
        ("moves", settings.moves, tuple(_moves.MOVES)),
        ("store", settings.store, STORABLE),
    ):
        unknown = [entry for entry in given if entry not in allowed]
        if unknown:
            raise ValueError(f"{name}: got {unknown[0]!r}, allowed are {allowed}")
    for name in settings.moves:
        _moves.check(name, posterior)
    if step_size is None and (num_warmup == 0 or settings.method == "plain_langevin"):
        raise ValueError("step_size: got None; plain Langevin and runs without warm-up need one")
    if step_size is not None and not (np.isfinite(step_size) and step_size > 0):
        raise ValueError(f"step_size: got {step_size}, needs a finite number above 0")
    if settings.batch_size is not None:
        if settings.method != "plain_langevin":
            raise ValueError(
                f"batch_size: got {settings.batch_size} with method {settings.method!r}; "
                "only plain_langevin takes minibatches"
            )
        if not 1 <= settings.batch_size <= posterior.targets.shape[0]:
            raise ValueError(
                f"batch_size: got {settings.batch_size}, needs 1 … P = {posterior.targets.shape[0]}"
            )
    ladder = np.array([float(posterior.temperature), *temperatures])
    if np.any(np.diff(ladder) <= 0):
        raise ValueError(
            f"temperatures: got {temperatures}, needs an ascending ladder above T = {ladder[0]:g}"
        )


def _gather(posterior, settings, state, collected, warmup, new, num_samples, thinning, seconds) -> Samples:
    def join(blocks):
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *blocks)

    out = join(collected)
    info = SampleInfo(**out["info"])
    warmup_info = None
    if warmup:
        warmup_info = SampleInfo(**join([block["info"] for block in warmup]))
    predictions = None
    if new is not None:
        kernel = np.asarray(state.means["test_kernel"]).mean(0) / num_samples
        predictions = Predictions(out["predicted"], kernel)
    mean_outputs = kernels = None
    if "mean_outputs" in settings.store:
        mean_outputs = np.asarray(state.means["mean_outputs"]) / num_samples
    if "kernels" in settings.store:
        kernels = tuple(np.asarray(total) / num_samples for total in state.means["kernels"])
    _warn_of_trouble(info, settings, thinning)
    return Samples(
        out.get("readouts"),
        out.get("preactivations"),
        out.get("weights"),
        out.get("outputs"),
        mean_outputs,
        kernels,
        predictions,
        info,
        warmup_info,
        jax.tree.map(lambda leaf: np.asarray(leaf[:, 0]), state.weights),
        float(posterior.temperature),
        seconds,
    )


class _Checkpoint:
    """Blocks of a run in a folder: block_00000.npz, …, each with its output and the state after it."""

    def __init__(self, folder, posterior, key, settings):
        self.folder = None if folder is None else Path(folder)
        self.index = 0
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        description = {
            "settings": repr(settings),
            "network": repr(posterior.network),
            "temperature": float(posterior.temperature),
            "targets": [float(posterior.targets.sum()), *posterior.targets.shape],
            "key": np.asarray(jax.random.key_data(key)).tolist(),
        }
        record = self.folder / "run.json"
        if record.exists() and json.loads(record.read_text()) != description:
            raise ValueError(f"checkpoint: {self.folder} holds another run; give an empty folder")
        record.write_text(json.dumps(description))

    def load(self, template: State):
        """The next block's (state, output) if it is there, else None."""
        path = self._path()
        if path is None or not path.exists():
            return None
        self.index += 1
        with np.load(path, allow_pickle=True) as file:
            out = file["output"].item()
            leaves = [file[f"state_{i}"] for i in range(len(jax.tree.leaves(template)))]
        placed = [jax.device_put(a, t.sharding) for a, t in zip(leaves, jax.tree.leaves(template))]
        return jax.tree.unflatten(jax.tree.structure(template), placed), out

    def save(self, state: State, out) -> None:
        """Write a block, to a temporary file first."""
        path = self._path()
        if path is None:
            return
        self.index += 1
        partial = path.with_suffix(".partial")
        arrays = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        holder = np.empty((), object)
        holder[()] = out
        with partial.open("wb") as file:
            np.savez(file, output=holder, **arrays)  # type: ignore[arg-type]
        partial.replace(path)

    def _path(self):
        return None if self.folder is None else self.folder / f"block_{self.index:05d}.npz"
