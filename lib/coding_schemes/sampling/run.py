"""Chains: annealing, step-size adaptation, thinned storage, progress, checkpoints, devices.

`sample` makes plans, block by block, and has the compiled program (`program`) carry them out, on whatever
devices and processes there are; each block is checked, and kept where a checkpoint is asked for.
"""

import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tqdm.auto import tqdm

from coding_schemes import validation
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import methods, program, results
from coding_schemes.sampling import moves as _moves
from coding_schemes.sampling.checkpoint import Checkpoint, digest
from coding_schemes.sampling.kernel import ADAPT, ANNEAL, SAMPLE, Kernel
from coding_schemes.sampling.program import Plan, State, Static
from coding_schemes.sampling.results import Samples

STORABLE = ("readouts", "preactivations", "weights", "outputs", "mean_outputs", "kernels", "test_kernel")
#: Samples, or transitions of the warm-up, per call of the compiled program and per checkpoint; one where a
#: network has more than LARGE preactivations.
BLOCK, LARGE = 16, 10_000_000
#: How random keys are dealt out and states laid out; a checkpoint of another arrangement is another run's.
ARRANGEMENT = "kernels, moves keyed by name"


def sample(
    posterior: Posterior,
    key: Array,
    num_samples: int,
    *,
    num_chains: int = 4,
    num_warmup: int | tuple[int, int] = 400,
    thinning: int = 1,
    method: str | Kernel = "hmc",
    moves: str | tuple[str, ...] = "auto",
    init: Weights | str = "prior",
    anneal_from: float | None = None,
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
    kernel = methods.chosen(method, posterior, num_warmup, isinstance(init, str))
    moves = _checked_moves(moves, posterior, kernel)
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
    static = Static(num_chains, len(target), block, moves, tuple(store))
    state = _start(posterior, key, init, static, kernel, new)
    record = {}
    if checkpoint is not None:
        record = _record(posterior, key, new, state, static, target, hot) | {
            "num_samples": num_samples,
            "num_warmup": phases,
            "thinning": thinning,
            "method": repr(kernel),
        }
    anneals = kernel.adapts and bool(np.any(hot != target))
    num_anneal = phases[0] if len(phases) == 2 else num_warmup // 2 if anneals else 0
    plans = _plans(num_anneal, num_warmup - num_anneal, num_samples, thinning, block, hot, target)
    saved = Checkpoint(checkpoint, record)
    streams = program.streams(key, static.chains, static.replicas)

    def block_like():
        advance = functools.partial(program.block, static=static)
        out = jax.eval_shape(advance, posterior, new, kernel, streams=streams, state=state, plan=plans[0])
        return out[1], 0.0

    state, outputs = saved.load(state, block_like)
    placed, put = spread(posterior, num_chains)
    parts = {"weights": put(state.weights, None, "chains"), "means": put(state.means, "chains")}
    state = put(state)._replace(**parts)
    advance = program.compiled(kernel.compiler_options)
    bar = tqdm(
        total=num_warmup + num_samples * thinning,
        disable=not (sys.stderr.isatty() if progress is None else progress),
        unit="transition",
    )
    for index, plan in enumerate(plans):
        if index >= len(outputs):
            started = time.perf_counter()
            state, out = advance(placed, new, kernel, static, streams, state, plan)
            out = fetched(out)
            out = jax.tree.map(lambda array, n=plan.used: np.swapaxes(array, 0, 1)[:, :n], out)
            results.check_finite(out["info"], int(state.iteration), plan.thinning)
            outputs.append((out, np.asarray(time.perf_counter() - started)))
            if checkpoint is not None:
                saved.save(fetched(state), outputs[-1])
        bar.update(plan.used * plan.thinning)
    bar.close()
    num_blocks = sum(plan.phase == SAMPLE for plan in plans)
    samples = results.gather(posterior, fetched(state), outputs, num_blocks)
    if kernel.adapts:
        results.warn_of_trouble(samples.info, thinning)
    return samples


def _record(posterior, key, new, start, static: Static, target, hot) -> dict[str, Any]:
    """What determines a run's numbers, for its checkpoint; φ by its values, which outlive a process."""
    network = posterior.network
    return {
        "arrangement": ARRANGEMENT,
        "num_chains": static.chains,
        "block": static.block,
        "moves": static.moves,
        "store": static.store,
        "temperatures": [float(T) for T in target],
        "annealed from": [float(T) for T in hot],
        "network": [network.depth, network.width, network.scaling],
        "nonlinearity": digest(network.phi(jnp.linspace(-5, 5, 101))),
        "posterior": digest(posterior),
        "new inputs": digest(new),
        "start": digest(start),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
    }


def _plans(num_anneal, num_adapt, num_samples, thinning, block, hot, target) -> list[Plan]:
    """The blocks of a run, in order."""
    plans, done = [], 0
    phases = (ANNEAL, num_anneal, 1), (ADAPT, num_adapt, 1), (SAMPLE, num_samples, thinning)
    for phase, length, each in phases:
        for first in range(0, length, block):
            count = min(block, length - first)
            plans.append(Plan(phase, done, length, count, each, hot, target))
        done += length * each
    return plans


def _start(posterior, key, init, static: Static, kernel: Kernel, new) -> State:
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
        zeros = np.zeros((static.chains, size, size), accumulator)
        means["kernels"] = (zeros,) * posterior.network.depth
    if new is not None and "test_kernel" in static.store:
        means["test_kernel"] = np.zeros((static.chains, *[new.projection.shape[1]] * 2), accumulator)
    assert kernel.step_size is not None  # `methods.chosen` gives it one
    log_step_size = np.full(static.replicas, np.log(kernel.step_size), np.float32)
    adaptation = jax.eval_shape(jax.vmap(kernel.init), log_step_size)  # made anew where a phase begins
    adaptation = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), adaptation)
    adaptation = adaptation._replace(log_step_size=log_step_size)
    return State(weights, adaptation, means, np.zeros((), np.int32))


def spread(posterior: Posterior, num_chains: int = 1) -> tuple[Posterior, Callable]:
    """The posterior for chains on as many devices as divide their number, inputs on as many of the others.

    With it comes a function that puts other arrays beside it. Called with a pytree and axes it splits the
    leading axes by "chains" and "inputs", and without axes it puts all of the tree everywhere.
    """
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
        return posterior, lambda tree, *axes: tree
    mesh = Mesh(np.array(used).reshape(rows, columns), ("chains", "inputs"))

    def put(tree, *axes):
        return jax.device_put(jax.tree.map(np.asarray, tree), NamedSharding(mesh, PartitionSpec(*axes)))

    (root, targets, *rest), network = posterior.tree_flatten()
    leaves = None if root is None else put(root, "inputs"), put(targets, "inputs"), *put(rest)
    return Posterior.tree_unflatten(network, leaves), put


def fetched(tree: Any) -> Any:
    """Arrays in NumPy, wherever they lie; also their parts on other processes' devices."""
    if jax.process_count() > 1:
        return multihost_utils.process_allgather(tree, tiled=True)
    return jax.tree.map(np.asarray, tree)


def _checked_moves(moves, posterior, kernel: Kernel) -> tuple[str, ...]:
    if isinstance(moves, str):
        validation.choice("moves", moves, ("auto",))
        return _moves.auto(posterior) if kernel.adapts else ()
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
