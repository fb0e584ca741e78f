"""Chains: annealing, step-size adaptation, thinned storage, progress, checkpoints, devices.

Warm-up and sampling are one compiled program, called block by block: what a transition belongs to, how many
there are and all temperatures and step sizes are its data (`Plan`), so that other settings, temperatures and
seeds compile nothing.
"""

import functools
import math
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.step_size import dual_averaging_adaptation
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tqdm.auto import tqdm

from coding_schemes.compiler import fusion_emitters
from coding_schemes import validation
from coding_schemes.posterior import NewInputs, Posterior, Weights
from coding_schemes.sampling import moves as _moves
from coding_schemes.sampling.checkpoint import Checkpoint, digest
from coding_schemes.sampling.hmc import HMC, JITTER, Info, hmc_step
from coding_schemes.sampling.langevin import (
    FIRST_STEP,
    Langevin,
    Minibatches,
    PlainLangevin,
    adjusted_steps,
    minibatch_epochs,
    minibatch_gradient,
    plain_steps,
)
from coding_schemes.sampling.results import FROZEN, Predictions, SampleInfo, Samples

Method = HMC | Langevin | PlainLangevin
METHODS: dict[str, Any] = {"hmc": HMC, "langevin": Langevin, "plain_langevin": PlainLangevin}
STORABLE = ("readouts", "preactivations", "weights", "outputs", "mean_outputs", "kernels", "test_kernel")
#: Samples, or transitions of the warm-up, per call of the compiled program and per checkpoint; one where a
#: network has more than LARGE preactivations.
BLOCK, LARGE = 16, 10_000_000
#: Gain of the step-size correction while annealing, one full rejection costs 16 % of the step.
ANNEAL_GAIN = 0.2
#: Numbers per chain above which a CPU takes chains one after the other: several do not fit in its cache.
CACHED = 100_000
ANNEAL, ADAPT, SAMPLE = range(3)


class Static(NamedTuple):
    """What the compiled program is made for; everything else is data."""

    chains: int
    replicas: int
    block: int  # slots of a block
    moves: tuple[str, ...]  # after every transition
    store: tuple[str, ...]  # what is kept of every sample
    anneal_by: Minibatches | None = None  # what lowers T, if not the method itself


class Plan(NamedTuple):
    """What a block does."""

    phase: int  # ANNEAL, ADAPT or SAMPLE
    begins: bool  # whether the phase begins with this block
    adapted: bool  # whether a step size was adapted before the phase
    first: int  # transitions made when the phase began
    length: int  # transitions of the phase
    used: int  # slots that are filled
    thinning: int  # transitions per slot
    hot: np.ndarray  # temperatures where annealing starts, shape (replicas,)
    target: np.ndarray  # and where it ends


class State(NamedTuple):
    """Everything a run needs to go on."""

    weights: Weights  # leading axes (replicas, chains)
    log_step_size: Any  # log ε, shape (replicas,)
    averaging: Any  # BlackJAX's dual-averaging state per replica
    means: dict[str, Any]  # streaming sums over samples, per chain
    iteration: Any  # transitions made so far


class Tally(NamedTuple):
    """What the transitions of a slot reported: sums, and the last log ε and T of the coldest replica."""

    sums: dict[str, Any]
    log_step_size: Array
    temperature: Array


class Streams(NamedTuple):
    """Random streams of a run, each folded with the iteration where it is used."""

    chains: Array  # one key per replica and chain, shape (replicas, chains)
    predictions: Array  # one key per chain
    exchange: Array  # one key per chain, for exchange between its replicas
    shared: Array  # one key for what all chains share, the trajectory's jitter


def sample(
    posterior: Posterior,
    key: Array,
    num_samples: int,
    *,
    num_chains: int = 4,
    num_warmup: int | tuple[int, int] = 400,
    thinning: int = 1,
    method: str | Method = "hmc",
    moves: str | tuple[str, ...] = "auto",
    init: Weights | str = "prior",
    anneal_from: float | None = None,
    anneal_by: Minibatches | None = None,
    temperatures: tuple[float, ...] = (),
    store: tuple[str, ...] = ("readouts", "preactivations", "test_kernel"),
    predict_inputs: np.ndarray | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Samples:
    """Draw samples from the weight posterior, `sample(posterior, key, num_samples=200)`.

    Warm-up: the first half anneals T geometrically from `anneal_from` to the target, the second half
    adapts the step size at the target by dual averaging. Adapting at once from the prior would
    freeze the chain: the energy there is orders of magnitude above equilibrium. A start that is
    given ("planted") is not annealed.

    Args:
        posterior: what to sample.
        key: random key; chain c draws from fold_in(key, c), transition i from fold_in(·, i).
        num_samples: stored samples per chain.
        num_chains: independent chains.
        num_warmup: warm-up transitions, 0 for none (then give the method a step size); or a pair, how many
            anneal and how many adapt.
        thinning: transitions per stored sample.
        method: "hmc", "langevin" (Metropolis-adjusted), or with settings of its own HMC(…), Langevin(…) or
            PlainLangevin(step_size=…), without acceptance, for dynamics.
        moves: posterior-invariant moves made after every transition, names from `moves.MOVES`; "auto" takes
            those of `moves.auto`, and none with plain Langevin dynamics.
        init: "prior", or Weights to start from: one network's, used by all chains, or with a
            leading axis (chains,).
        anneal_from: first temperature of the warm-up; max(1, T) unless given, T for no annealing.
        anneal_by: Minibatches(…) lower T, and the method takes over at the target; by itself unless given.
        temperatures: ladder of higher temperatures for replica exchange, ascending; each chain
            then carries 1 + len(temperatures) replicas, of which the coldest is stored.
        store: what to keep of every sample, from "readouts", "preactivations", "weights",
            "outputs"; "mean_outputs" and "kernels" keep each chain's mean only, "test_kernel" that of all.
        predict_inputs: new inputs (N0, P*) to respond to; only outputs and, in "test_kernel", means are kept.
        progress: show a progress bar; by default only on a terminal.
        checkpoint: folder in which the state is saved after every block; a run that finds its
            own checkpoint there goes on from it, with bitwise the same result.

    Chains run on as many devices as divide their number, and training inputs are split among as many of the
    others as divide theirs. With several processes (`jax.distributed.initialize`) each calls this with the
    same arguments and gets the same samples; the first writes the checkpoint, into a folder that all read.

    Raises:
        ValueError: an argument is out of range or does not fit the others, or the checkpoint is another run's
            or damaged.
        FloatingPointError: a chain's energy is not finite; the message names step and step size.
    """
    validation.instance("posterior", posterior, Posterior)
    validation.key(key)
    validation.counts(num_samples=num_samples, num_chains=num_chains, thinning=thinning)
    phases = num_warmup if isinstance(num_warmup, tuple) and len(num_warmup) == 2 else (num_warmup,)
    num_warmup = sum(validation.count("num_warmup", number, 0) for number in phases)
    if isinstance(init, str):
        validation.choice("init", init, ("prior",))
    method = _checked_method(method, posterior, num_warmup, isinstance(init, str))
    _checked_minibatches(anneal_by, posterior, method)
    moves = _checked_moves(moves, posterior, method)
    target, hot = _checked_ladder(posterior, temperatures, anneal_from, isinstance(init, str))
    for name in validation.several("store", store):
        validation.choice("store", name, STORABLE)
    new = None
    if predict_inputs is not None:
        sizes = {} if posterior.task is None else {"N0": posterior.task.input_dim}
        new = posterior.new_inputs(validation.array("predict_inputs", predict_inputs, "N0, P*", **sizes))
    longest = max(num_samples, num_warmup)
    size = posterior.network.width * posterior.network.depth * len(posterior.targets)
    block = min(1 if size > LARGE else BLOCK, 1 << (longest - 1).bit_length())
    static = Static(num_chains, len(target), block, moves, tuple(store), anneal_by)
    state = _start(posterior, key, init, static, method.step_size, new)
    record = {}
    if checkpoint is not None:
        record = _record(posterior, key, new, state, static, target, hot) | {
            "num_samples": num_samples,
            "num_warmup": phases,
            "thinning": thinning,
            "method": repr(method),
        }
    saved = Checkpoint(checkpoint, record)
    anneals = not isinstance(method, PlainLangevin) and bool(np.any(hot != target))
    num_anneal = phases[0] if len(phases) == 2 else num_warmup // 2 if anneals else 0
    plans = _plans(num_anneal, num_warmup - num_anneal, num_samples, thinning, block, hot, target)

    advance = _advance_plain if isinstance(method, PlainLangevin) else _advance

    def block_like():
        return jax.eval_shape(_advance, posterior, new, method, static, key, state, plans[0])[1], 0.0

    state, outputs = saved.load(state, block_like)
    placed, state = _spread(posterior, state, num_chains)
    progress = sys.stderr.isatty() if progress is None else progress
    bar = tqdm(total=num_warmup + num_samples * thinning, disable=not progress, unit="transition")
    for index, plan in enumerate(plans):
        if index >= len(outputs):
            started = time.perf_counter()
            state, out = advance(placed, new, method, static, key, state, plan)
            out = jax.tree.map(lambda array, n=plan.used: np.swapaxes(array, 0, 1)[:, :n], _fetched(out))
            _check_finite(out["info"], int(state.iteration), plan.thinning)
            outputs.append((out, np.asarray(time.perf_counter() - started)))
            if checkpoint is not None:
                saved.save(_fetched(state), outputs[-1])
        bar.update(plan.used * plan.thinning)
    bar.close()
    num_blocks = sum(plan.phase == SAMPLE for plan in plans)
    return _gather(posterior, static, method, _fetched(state), outputs, num_blocks, thinning)


def _record(posterior, key, new, start, static: Static, target, hot) -> dict[str, Any]:
    """What determines a run's numbers, for its checkpoint; φ by its values, which outlive a process."""
    network = posterior.network
    return {
        "num_chains": static.chains,
        "block": static.block,
        "moves": static.moves,
        "store": static.store,
        "annealed by": repr(static.anneal_by),
        "temperatures": [float(T) for T in target],
        "annealed from": [float(T) for T in hot],
        "network": [network.depth, network.width, network.scaling],
        "nonlinearity": digest(network.phi(jnp.linspace(-5, 5, 101))),
        "posterior": digest(posterior),
        "new inputs": digest(new),
        "start": digest(start),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
    }


def _fetched(tree):
    """Arrays in NumPy, wherever they lie; also their parts on other processes' devices."""
    if jax.process_count() > 1:
        return multihost_utils.process_allgather(tree, tiled=True)
    return jax.tree.map(np.asarray, tree)


def _plans(num_anneal, num_adapt, num_samples, thinning, block, hot, target) -> list[Plan]:
    """The blocks of a run, in order."""
    plans, done = [], 0
    phases = (ANNEAL, num_anneal, 1), (ADAPT, num_adapt, 1), (SAMPLE, num_samples, thinning)
    for phase, length, each in phases:
        for first in range(0, length, block):
            count = min(block, length - first)
            plans.append(Plan(phase, first == 0, num_adapt > 0, done, length, count, each, hot, target))
        done += length * each
    return plans


# ---- the compiled program -------------------------------------------------------------------


def _block(posterior, new, method, static, key, state, plan):
    """One block: the state after it, and what it gave, with leading axes (slots, chains)."""
    streams = _streams(key, static.chains, static.replicas)
    state = _begin_phase(method, state, plan)
    step = functools.partial(_step, posterior, method, static, streams, plan)
    observe = functools.partial(_observe, posterior, new, static)

    def slot(state, index):
        used = index < plan.used
        transitions = jnp.where(used, plan.thinning, 0)
        state, tally = jax.lax.fori_loop(0, transitions, step, (state, _empty_tally(posterior, static)))
        info = _report(posterior, method, state, tally, transitions)
        cold = _first(state.weights)
        keys = _folded(streams.predictions, state.iteration)
        empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(observe, keys, cold))
        kept, sums = jax.lax.cond(used & (plan.phase == SAMPLE), lambda: observe(keys, cold), lambda: empty)
        return state._replace(means=_added(state.means, sums)), {"info": info} | kept

    return jax.lax.scan(slot, state, jnp.arange(static.block))


_advance = jax.jit(_block, static_argnames=("static",))
#: Plain dynamics is elementwise work and long: vector code pays, whatever XLA_FLAGS say of shorter programs.
_advance_plain = jax.jit(
    _block, static_argnames=("static",), compiler_options=fusion_emitters(True)
)


def _folded(keys, iteration):
    return jax.vmap(lambda key: jax.random.fold_in(key, iteration))(keys)


def _added(total, term):
    return jax.tree.map(lambda one, other: one + other.astype(one.dtype), total, term)


def _first(weights):
    """Those of the first replica, the coldest."""
    return jax.tree.map(lambda leaf: leaf[0], weights)


def _streams(key, num_chains, num_replicas) -> Streams:
    """A chain's keys depend on its index alone, not on how many chains there are."""

    def per_chain(chain):
        own = jax.random.fold_in(key, chain)
        replicas, predictions, exchange = (jax.random.fold_in(own, use) for use in range(3))
        return jax.random.split(replicas, num_replicas), predictions, exchange

    chains, predictions, exchange = jax.vmap(per_chain, out_axes=(1, 0, 0))(jnp.arange(num_chains))
    return Streams(chains, predictions, exchange, jax.random.fold_in(key, jnp.iinfo(jnp.int32).max))


def _begin_phase(method, state: State, plan: Plan) -> State:
    """Where a phase begins: the averaged step size is taken for sampling, and averaging starts anew there."""
    if isinstance(method, PlainLangevin):
        return state
    averaged = plan.begins & (plan.phase == SAMPLE) & plan.adapted
    log_step_size = jnp.where(averaged, state.averaging.log_step_size_avg, state.log_step_size)
    fresh = jax.vmap(_averaging)(log_step_size)
    averaging = jax.tree.map(lambda new, old: jnp.where(plan.begins, new, old), fresh, state.averaging)
    return state._replace(log_step_size=log_step_size, averaging=averaging)


def _averaging(log_step_size):
    """Dual averaging that starts at a step size and shrinks towards it."""
    init, _, _ = dual_averaging_adaptation(0.8)
    averaging = init(jnp.exp(log_step_size))._replace(mu=log_step_size)
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.int32 if isinstance(a, int) else jnp.float32), averaging)


def _step(posterior, method, static, streams, plan, _, carry):
    """One transition of all chains and replicas at the phase's temperatures, and the step size after it."""
    state, tally = carry
    done = state.iteration - plan.first

    def temperatures_at(transition):
        fraction = jnp.where(plan.phase == ANNEAL, transition / plan.length, 1.0).astype(posterior.dtype)
        return plan.hot ** (1 - fraction) * plan.target**fraction

    temperatures, previous = temperatures_at(done + 1), temperatures_at(jnp.maximum(done, 1))
    if not isinstance(method, PlainLangevin):
        # ε follows √T, the scale of the stiffest direction; the acceptance corrects it below
        stiffness = jnp.log1p(1 / previous) - jnp.log1p(1 / temperatures)
        state = state._replace(log_step_size=state.log_step_size + (0.5 * stiffness).astype(jnp.float32))
    weights, info, accepted, used = _transitions(
        posterior, method, static, streams, state, plan, temperatures
    )
    state = state._replace(weights=weights, iteration=state.iteration + 1)
    if not isinstance(method, PlainLangevin):
        _, update, _ = dual_averaging_adaptation(method.target_acceptance)
        acceptance = jnp.where(jnp.isnan(info.acceptance), 0.0, info.acceptance).mean(1).astype(jnp.float32)
        averaging = jax.vmap(update)(state.averaging, acceptance)
        gain = ANNEAL_GAIN if static.anneal_by is None else 0.0  # the dynamics on minibatches knows the step
        corrected = (used + gain * (acceptance - method.target_acceptance)).astype(jnp.float32)
        adapted = averaging.log_step_size.astype(jnp.float32)
        averaging = jax.tree.map(lambda new, old: new.astype(old.dtype), averaging, state.averaging)
        state = state._replace(
            log_step_size=jnp.select([plan.phase == ANNEAL, plan.phase == ADAPT], [corrected, adapted], used),
            averaging=averaging,
        )
    report = {
        "acceptance": info.acceptance[0],
        "divergences": info.divergent[0],
        "num_gradients": info.num_gradients[0],
        "move_acceptance": accepted,
    }
    return state, Tally(_added(tally.sums, report), used[0], temperatures[0])


def _transitions(posterior, method, static, streams, state, plan, temperatures):
    """One transition of all chains and replicas, then exchange between replicas; and log ε of each."""
    jitter_key = jax.random.fold_in(streams.shared, state.iteration)
    jitter = jax.random.uniform(jitter_key, (), posterior.dtype, *JITTER)
    step_sizes = jnp.exp(state.log_step_size).astype(posterior.dtype)

    def replica(arguments):
        keys, weights, step_size, log_step_size, temperature = arguments
        given = posterior.at_temperature(temperature)
        one = functools.partial(_transition, given, method, static, step_size, jitter)
        keys = _folded(keys, state.iteration)
        if static.anneal_by is None:
            return *_over_chains(one, keys, weights), log_step_size
        epochs = functools.partial(_epochs, given, method, static)
        return jax.lax.cond(
            plan.phase == ANNEAL,
            lambda: epochs(keys, weights),
            lambda: (*_over_chains(one, keys, weights), log_step_size),
        )

    arguments = streams.chains, state.weights, step_sizes, state.log_step_size, temperatures
    weights, info, accepted, log_step_sizes = jax.lax.map(replica, arguments)
    accepted = {name: value[0] for name, value in accepted.items()}
    if static.replicas > 1:
        exchange = functools.partial(_moves.exchange, posterior=posterior, temperatures=temperatures)
        keys = _folded(streams.exchange, state.iteration)
        weights, accepted["exchange"] = jax.vmap(exchange, (0, 1, None), (1, 0))(
            keys, weights, state.iteration % 2
        )
    return weights, info, accepted, log_step_sizes


def _transition(posterior, method, static, step_size, jitter, key, weights):
    """One transition of one chain, followed by the moves. Returns weights, Info, move acceptances."""
    kernel_key, move_key = jax.random.split(key)
    value_and_gradient = posterior.value_and_gradient
    if isinstance(method, HMC):
        unit = method.stretch

        def stretched(position):
            value, gradient = posterior.value_and_gradient(position.stretched(unit))
            return value, gradient.stretched(unit)

        if unit is not None:
            value_and_gradient, weights = stretched, weights.stretched(1 / unit)
        wanted = jnp.asarray(method.trajectory_length, step_size.dtype) / step_size
        steps = jnp.ceil(jitter * jnp.minimum(wanted, method.max_num_steps / JITTER[1]))
        steps = jnp.maximum(steps, 1).astype(jnp.int32)
        weights, info = hmc_step(kernel_key, weights, value_and_gradient, step_size, steps)
        weights = weights if unit is None else weights.stretched(unit)
    elif isinstance(method, Langevin):
        weights, info = adjusted_steps(kernel_key, weights, value_and_gradient, step_size, method.num_steps)
    else:
        if method.batch_size is None:
            gradient = lambda _, position: value_and_gradient(position)[1]  # noqa: E731
        else:
            gradient = minibatch_gradient(posterior, method.batch_size)
        weights, info = plain_steps(kernel_key, weights, gradient, step_size, method.num_steps)
    accepted = {}
    for index, name in enumerate(static.moves):
        weights, accepted[name] = _moves.MOVES[name](jax.random.fold_in(move_key, index), weights, posterior)
    return weights, info, accepted


def _epochs(posterior, method, static, keys, weights):
    """As `_transition`, of all chains, on minibatches, without moves; and log ε with which HMC may go on."""
    stretch = 1.0 if method.stretch is None else method.stretch
    one = functools.partial(minibatch_epochs, posterior=posterior, settings=static.anneal_by, stretch=stretch)
    weights, frequency = _over_chains(one, keys, weights)
    chains = len(frequency)
    nothing = jnp.full(chains, jnp.nan, jnp.result_type(float))  # nothing is accepted or rejected
    count = jnp.full(chains, static.anneal_by.num_epochs, jnp.int32)
    info = Info(nothing, jnp.zeros(chains, bool), count)
    step_size = (FIRST_STEP / frequency.max()).astype(jnp.float32)
    return weights, info, dict.fromkeys(static.moves, nothing), jnp.log(step_size)


def _over_chains(function, *arguments):
    """A function of every chain: all at once, or one after the other where several crowd a CPU's cache."""
    leaves = jax.tree.leaves(arguments)
    per_chain = sum(math.prod(leaf.shape[1:]) for leaf in leaves)
    one_cpu = jax.default_backend() == "cpu" and len(jax.devices()) == 1
    if len(leaves[0]) == 1 or (one_cpu and per_chain > CACHED):
        return jax.lax.map(lambda one: function(*one), arguments)
    return jax.vmap(function)(*arguments)


def _empty_tally(posterior, static: Static) -> Tally:
    zeros = jnp.zeros(static.chains, jnp.result_type(float))
    counts = jnp.zeros(static.chains, jnp.int32)
    names = (*static.moves, *(("exchange",) if static.replicas > 1 else ()))
    sums: dict[str, Any] = {"acceptance": zeros, "divergences": counts, "num_gradients": counts}
    sums |= {"move_acceptance": dict.fromkeys(names, zeros)}
    return Tally(sums, jnp.zeros((), jnp.float32), jnp.ones((), posterior.dtype))


def _report(posterior, method, state, tally: Tally, transitions):
    """SampleInfo of the coldest replica of every chain, as a dict of (chains,) arrays."""
    batch_size = method.batch_size if isinstance(method, PlainLangevin) else None
    now = posterior.at_temperature(tally.temperature)

    def errors(weights):
        return now.energy(weights, batch_size), now.squared_error(weights, batch_size)

    energy, squared_error = _over_chains(errors, _first(state.weights))
    mean = functools.partial(jax.tree.map, lambda total: total / jnp.maximum(transitions, 1))
    return tally.sums | {
        "acceptance": mean(tally.sums["acceptance"]),
        "move_acceptance": mean(tally.sums["move_acceptance"]),
        "energy": energy,
        "squared_error": squared_error,
        "step_size": jnp.broadcast_to(jnp.exp(tally.log_step_size), energy.shape),
    }


def _observe(posterior, new: NewInputs | None, static: Static, keys, weights):
    """What is kept of a sample of every chain, and what is added to the streaming sums."""

    def one(key, weights):
        layers = posterior.preactivations(weights)
        available = {
            "readouts": posterior.readouts(weights),
            "preactivations": layers,
            "weights": weights,
            "outputs": posterior.network.outputs(layers[-1], posterior.readouts(weights)),
        }
        kept = {name: available[name] for name in static.store if name in available}
        sums: dict[str, Any] = {}
        if "mean_outputs" in static.store:
            sums["mean_outputs"] = available["outputs"]
        if "kernels" in static.store:
            sums["kernels"] = tuple(posterior.network.kernel(z) for z in layers)
        if new is not None:
            prediction = posterior.respond(key, weights, new)
            kept["predicted"] = prediction.outputs
        if new is not None and "test_kernel" in static.store:
            sums["test_kernel"] = posterior.network.kernel(prediction.preactivations[-1])
        return kept, sums

    return _over_chains(one, keys, weights)


# ---- start, storage and checks --------------------------------------------------------------


def _start(posterior, key, init, static: Static, step_size, new) -> State:
    """Initial state of all chains, in NumPy: nothing is compiled for it."""
    template = jax.eval_shape(posterior.prior, jax.random.key(0))
    shape = static.replicas, static.chains
    if isinstance(init, str):
        seed = np.asarray(jax.random.key_data(key)).tolist()
        generators = [np.random.default_rng([*seed, *place]) for place in np.ndindex(*shape)]

        def draw(leaf):  # in coordinates with unit-variance priors
            dtype = np.promote_types(leaf.dtype, np.float32)
            draws = np.stack([rng.standard_normal(leaf.shape, dtype) for rng in generators])
            return draws.astype(leaf.dtype).reshape(*shape, *leaf.shape)

        weights = jax.tree.map(draw, template)
    else:
        structure: Any = jax.tree.structure(template)
        if structure != jax.tree.structure(init):
            raise ValueError(f"init: got {jax.tree.structure(init)}, needs {structure}")

        def spread(want, got):
            got = validation.array("init", got, "…", dtype=posterior.dtype)
            if got.shape not in (want.shape, (static.chains, *want.shape)):
                raise ValueError(
                    f"init: got an array of shape {got.shape}, needs {want.shape}, or with a leading axis of "
                    f"{static.chains} chains"
                )
            return np.array(np.broadcast_to(got, (*shape, *want.shape)))

        weights = jax.tree.map(spread, template, init)
    means: dict[str, Any] = {}
    accumulator = jnp.result_type(float)
    size = posterior.targets.shape[0]
    if "mean_outputs" in static.store:
        means["mean_outputs"] = np.zeros((static.chains, *posterior.targets.shape), accumulator)
    if "kernels" in static.store:
        kernel = np.zeros((static.chains, size, size), accumulator)
        means["kernels"] = (kernel,) * posterior.network.depth
    if new is not None and "test_kernel" in static.store:
        means["test_kernel"] = np.zeros((static.chains, *[new.projection.shape[1]] * 2), accumulator)
    log_step_size = np.full(static.replicas, np.log(step_size), np.float32)
    averaging = jax.eval_shape(jax.vmap(_averaging), log_step_size)  # made anew where a phase begins
    averaging = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), averaging)
    return State(weights, log_step_size, averaging, means, np.zeros((), np.int32))


def _spread(posterior: Posterior, state: State, num_chains: int) -> tuple[Posterior, State]:
    """Chains on as many devices as divide their number, inputs on as many of the others as divide theirs."""
    devices = jax.devices()
    rows = math.gcd(len(devices), num_chains)
    columns = 1 if posterior.root is None else math.gcd(len(devices) // rows, len(posterior.targets))
    used = devices[: rows * columns]
    if len({device.process_index for device in used}) < jax.process_count():
        raise ValueError(
            f"num_chains: {num_chains} chains of {len(posterior.targets)} inputs fit on {len(used)} of "
            f"{len(devices)} devices, too few for {jax.process_count()} processes"
        )
    if len(used) == 1:
        return posterior, state
    mesh = Mesh(np.array(used).reshape(rows, columns), ("chains", "inputs"))

    def put(tree, *axes):
        return jax.device_put(jax.tree.map(np.asarray, tree), NamedSharding(mesh, PartitionSpec(*axes)))

    (root, targets, *rest), network = posterior.tree_flatten()
    leaves = None if root is None else put(root, "inputs"), put(targets, "inputs"), *put(rest)
    weights, log_step_size, averaging, means, iteration = state
    log_step_size, averaging, iteration = put((log_step_size, averaging, iteration))
    weights, means = put(weights, None, "chains"), put(means, "chains")
    state = State(weights, log_step_size, averaging, means, iteration)
    return Posterior.tree_unflatten(network, leaves), state


def _gather(posterior, static, method, state, outputs, num_blocks, thinning) -> Samples:
    def join(blocks):
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *blocks)

    found, seconds = zip(*outputs)
    num_warmup_blocks = len(outputs) - num_blocks
    warmup = [SampleInfo(**out["info"]) for out in found[:num_warmup_blocks]]
    out = join(found[num_warmup_blocks:])
    info = SampleInfo(**out["info"])
    num_samples = info.energy.shape[1]
    means = jax.tree.map(lambda total: total / num_samples, state.means)
    predictions = None
    if "predicted" in out:
        kernel = means["test_kernel"].mean(0) if "test_kernel" in means else None
        predictions = Predictions(out["predicted"], kernel)
    if not isinstance(method, PlainLangevin):
        _warn_of_trouble(info, thinning)
    seconds_of = {"warmup": seconds[:num_warmup_blocks], "sampling": seconds[num_warmup_blocks:]}
    return Samples(
        **{name: out.get(name) for name in ("readouts", "preactivations", "weights", "outputs")},
        **{name: means.get(name) for name in ("mean_outputs", "kernels")},
        predictions=predictions,
        info=info,
        warmup_info=join(warmup) if warmup else None,
        final=_first(state.weights),
        temperature=float(posterior.temperature),
        seconds={phase: float(sum(blocks)) for phase, blocks in seconds_of.items()},
        network=posterior.network,
        labels=None if posterior.task is None else posterior.task.labels,
    )


def _check_finite(info, iteration: int, thinning: int) -> None:
    bad = ~np.isfinite(info["energy"])
    if bad.any():
        chain, index = np.argwhere(bad)[0]
        step = iteration - (bad.shape[1] - 1 - index) * thinning
        raise FloatingPointError(
            f"chain {chain}: energy {info['energy'][chain, index]} at transition {step} with step size "
            f"{info['step_size'][chain, index]:.3g}; take a smaller step size or start nearer to equilibrium"
        )


def _warn_of_trouble(info: SampleInfo, thinning: int) -> None:
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
    if acceptance.min() < FROZEN:
        frozen = np.flatnonzero(acceptance < FROZEN).tolist()
        names = frozen if len(frozen) <= 8 else f"{len(frozen)} of {len(acceptance)}"
        trouble.append(
            f"frozen chains {names} (acceptance below {FROZEN}), step size {info.step_size[0, -1]:.3g}"
        )
    if trouble:
        warnings.warn(f"sampling: {'; '.join(trouble)}", stacklevel=4)


def _checked_method(method, posterior, num_warmup: int, from_prior: bool) -> Method:
    """The method with its settings, all of them in range and with a step size."""
    if isinstance(method, str):
        validation.choice("method", method, METHODS)
        method = METHODS[method]()
    if not isinstance(method, Method):
        raise ValueError(
            f"method: got {method!r}, needs one of {tuple(METHODS)}, HMC(…), Langevin(…) or PlainLangevin(…)"
        )
    settings = vars(method)
    validation.counts(**{n: settings.get(n) for n in ("max_num_steps", "num_steps")})
    if settings.get("batch_size") is not None:
        validation.count("batch_size", settings["batch_size"], most=len(posterior.targets))
    validation.positive(**{n: settings.get(n) for n in ("trajectory_length", "step_size", "stretch")})
    validation.number("target_acceptance", settings.get("target_acceptance", 0.5), above=0, below=1)
    if method.step_size is not None:
        return method
    if num_warmup == 0 or isinstance(method, PlainLangevin):
        raise ValueError("step_size: got None; plain Langevin and runs without warm-up need one")
    temperature = float(posterior.temperature)
    step_size = 0.3 if from_prior else 0.3 * (temperature / (1 + temperature)) ** 0.5
    return replace(method, step_size=step_size * (0.3 if isinstance(method, Langevin) else 1.0))


def _checked_minibatches(anneal_by, posterior, method) -> None:
    """Nothing, or minibatches of a size that divides the number of inputs, before HMC."""
    if anneal_by is None:
        return
    validation.instance("anneal_by", anneal_by, Minibatches)
    if not isinstance(method, HMC):
        raise ValueError(f"anneal_by: got {anneal_by} and {method}, needs HMC to go on with")
    validation.counts(**vars(anneal_by))
    num_inputs = len(posterior.targets)
    if num_inputs % anneal_by.batch_size:
        raise ValueError(f"batch_size: got {anneal_by.batch_size}, must divide the {num_inputs} inputs")


def _checked_moves(moves, posterior, method) -> tuple[str, ...]:
    if isinstance(moves, str):
        validation.choice("moves", moves, ("auto",))
        return () if isinstance(method, PlainLangevin) else _moves.auto(posterior)
    for name in validation.several("moves", moves):
        _moves.check(name, posterior)
    return tuple(moves)


def _checked_ladder(posterior, temperatures, anneal_from, from_prior: bool) -> tuple[np.ndarray, np.ndarray]:
    """Temperatures of all replicas, and those where annealing starts."""
    ladder = [float(posterior.temperature)]
    for temperature in validation.several("temperatures", temperatures):
        ladder.append(validation.number("temperatures", temperature, above=ladder[-1]))
    if anneal_from is None:
        anneal_from = 1.0 if from_prior else 0.0
    validation.number("anneal_from", anneal_from, least=0)
    hot = np.maximum(ladder, anneal_from if from_prior else 0.0)
    return np.asarray(ladder, posterior.dtype), hot.astype(posterior.dtype)
