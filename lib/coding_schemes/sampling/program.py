"""The compiled program of a run: blocks of transitions of all chains and replicas, and what is kept of them.

Warm-up and sampling are one program, called block by block: what a transition belongs to, how many there are
and all temperatures and step sizes are its data (`Plan`), so that other settings, temperatures and seeds
compile nothing. What a transition is and how its step size follows is its kernel's (`kernel.Kernel`).
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from coding_schemes.posterior import NewInputs, Weights
from coding_schemes.sampling import moves as _moves
from coding_schemes.sampling.kernel import ANNEAL, SAMPLE, Adaptation, Stage

#: Numbers per chain above which a CPU takes chains one after the other: several do not fit in its cache.
CACHED = 100_000


class Static(NamedTuple):
    """What the compiled program is made for; everything else is data."""

    chains: int
    replicas: int
    block: int  # slots of a block
    moves: tuple[str, ...]  # after every transition
    store: tuple[str, ...]  # what is kept of every sample


class Plan(NamedTuple):
    """What a block does."""

    phase: int  # ANNEAL, ADAPT or SAMPLE
    first: int  # transitions made when the phase began
    length: int  # transitions of the phase, or samples
    used: int  # slots that are filled
    thinning: int  # transitions per slot
    hot: np.ndarray  # temperatures where annealing starts, shape (replicas,)
    target: np.ndarray  # and where it ends


class State(NamedTuple):
    """Everything a run needs to go on."""

    weights: Weights  # leading axes (replicas, chains)
    adaptation: Adaptation  # leading axis (replicas,)
    means: dict[str, Any]  # streaming sums over samples, per chain
    iteration: Any  # transitions made so far


class Tally(NamedTuple):
    """What the transitions of a slot reported: sums, and the last ε and T of the coldest replica."""

    sums: dict[str, Any]
    step_size: Array
    temperature: Array


class Streams(NamedTuple):
    """Random streams of a run, each folded with the iteration where it is used."""

    chains: Array  # one key per replica and chain, shape (replicas, chains)
    predictions: Array  # one key per chain
    exchange: Array  # one key per chain, for exchange between its replicas
    shared: Array  # one key for what all chains share, such as the trajectory's jitter


@functools.cache
def compiled(options: tuple[tuple[str, Any], ...] = ()):
    """`block`, compiled with XLA's options."""
    return jax.jit(block, static_argnames=("static",), compiler_options=dict(options) or None)


def block(posterior, new, kernel, static: Static, streams: Streams, state: State, plan: Plan):
    """One block: the state after it, and what it gave, with leading axes (slots, chains)."""
    begins = state.iteration == plan.first  # as the phase does
    fresh = jax.vmap(kernel.init)(state.adaptation.log_step_size)
    begun = jax.tree.map(lambda new, old: jnp.where(begins, new, old), fresh, state.adaptation)
    state = state._replace(adaptation=begun)
    step = functools.partial(_step, posterior, kernel, static, streams, plan)
    observe = functools.partial(_observe, posterior, new, static)

    def slot(state, index):
        used = index < plan.used
        transitions = jnp.where(used, plan.thinning, 0)
        state, tally = jax.lax.fori_loop(0, transitions, step, (state, _empty_tally(posterior, static)))
        info = _report(posterior, kernel.batch_size, state, tally, transitions)
        cold = coldest(state.weights)
        keys = _folded(streams.predictions, state.iteration)
        empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(observe, keys, cold))
        kept, sums = jax.lax.cond(used & (plan.phase == SAMPLE), lambda: observe(keys, cold), lambda: empty)
        return state._replace(means=_added(state.means, sums)), {"info": info} | kept

    return jax.lax.scan(slot, state, jnp.arange(static.block))


def _folded(keys, iteration):
    return jax.vmap(lambda key: jax.random.fold_in(key, iteration))(keys)


def _added(total, term):
    return jax.tree.map(lambda one, other: one + other.astype(one.dtype), total, term)


def coldest(weights):
    """Weights of the first replica, the coldest."""
    return jax.tree.map(lambda leaf: leaf[0], weights)


@functools.partial(jax.jit, static_argnums=(1, 2))
def streams(key: Array, num_chains: int, num_replicas: int) -> Streams:
    """A chain's keys depend on its index alone, not on how many chains there are.

    A program of its own, since runs of all networks share it.
    """

    def per_chain(chain):
        own = jax.random.fold_in(key, chain)
        replicas, predictions, exchange = (jax.random.fold_in(own, use) for use in range(3))
        return jax.random.split(replicas, num_replicas), predictions, exchange

    chains, predictions, exchange = jax.vmap(per_chain, out_axes=(1, 0, 0))(jnp.arange(num_chains))
    return Streams(chains, predictions, exchange, jax.random.fold_in(key, jnp.iinfo(jnp.int32).max))


def _step(posterior, kernel, static, streams, plan, _, carry):
    """One transition of all chains and replicas at the phase's temperatures, and the step size after it."""
    state, tally = carry
    done = state.iteration - plan.first

    def temperatures_at(transition):
        fraction = jnp.where(plan.phase == ANNEAL, transition / plan.length, 1.0).astype(posterior.dtype)
        return plan.hot ** (1 - fraction) * plan.target**fraction

    temperatures, following = temperatures_at(done + 1), temperatures_at(jnp.minimum(done + 2, plan.length))
    stage = Stage(plan.phase, done + 1 == plan.length, temperatures, following)
    weights, adaptation, report, step_size = _transitions(posterior, kernel, static, streams, stage, state)
    if static.replicas > 1:
        exchange = functools.partial(_moves.exchange, posterior=posterior, temperatures=temperatures)
        keys = _folded(streams.exchange, state.iteration)
        weights, report["move_acceptance"]["exchange"] = jax.vmap(exchange, (0, 1, None), (1, 0))(
            keys, weights, state.iteration % 2
        )
    state = state._replace(weights=weights, adaptation=adaptation, iteration=state.iteration + 1)
    return state, Tally(_added(tally.sums, report), step_size, temperatures[0])


def _transitions(posterior, kernel, static, streams, stage: Stage, state: State):
    """One transition of all chains and replicas by a kernel, its adaptation, and what the coldest reports."""
    shared = jax.random.uniform(jax.random.fold_in(streams.shared, state.iteration), (), posterior.dtype)
    step_sizes = jnp.exp(state.adaptation.log_step_size).astype(posterior.dtype)

    def replica(arguments):
        keys, weights, step_size, temperature = arguments
        given = posterior.at_temperature(temperature)
        one = functools.partial(_transition, given, kernel, static, step_size, shared)
        return _over_chains(one, _folded(keys, state.iteration), weights)

    arguments = streams.chains, state.weights, step_sizes, stage.temperature
    weights, info, accepted = jax.lax.map(replica, arguments)
    adaptation = jax.vmap(kernel.adapt, (0, 0, Stage(None, None, 0, 0)))(state.adaptation, info, stage)
    report = {
        "acceptance": info.acceptance[0],
        "divergences": info.divergent[0],
        "num_gradients": info.num_gradients[0],
        "move_acceptance": {name: value[0] for name, value in accepted.items()},
    }
    return weights, adaptation, report, info.step_size[0].min().astype(jnp.float32)


def _transition(posterior, kernel, static, step_size, shared, key, weights):
    """One transition of one chain, followed by the moves. Returns weights, Info, move acceptances."""
    kernel_key, move_key = jax.random.split(key)
    weights, info = kernel.step(kernel_key, weights, posterior, step_size, shared)
    accepted = {}
    for name, stream in zip(static.moves, _moves.streams(static.moves)):
        own = jax.random.fold_in(move_key, np.uint32(stream))
        weights, accepted[name] = _moves.MOVES[name](own, weights, posterior)
    return weights, info, accepted


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


def _report(posterior, batch_size, state, tally: Tally, transitions):
    """SampleInfo of the coldest replica of every chain, as a dict of (chains,) arrays."""
    now = posterior.at_temperature(tally.temperature)

    def errors(weights):
        return now.energy(weights, batch_size), now.squared_error(weights, batch_size)

    energy, squared_error = _over_chains(errors, coldest(state.weights))
    mean = functools.partial(jax.tree.map, lambda total: total / jnp.maximum(transitions, 1))
    return tally.sums | {
        "acceptance": mean(tally.sums["acceptance"]),
        "move_acceptance": mean(tally.sums["move_acceptance"]),
        "energy": energy,
        "squared_error": squared_error,
        "step_size": jnp.broadcast_to(tally.step_size, energy.shape),
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
