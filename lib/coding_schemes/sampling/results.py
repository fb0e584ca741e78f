"""What a run leaves: samples, diagnostics of every sample, response to new inputs."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coding_schemes import coding, statistics, validation
from coding_schemes.networks import Network, is_bounded
from coding_schemes.posterior import Weights
from coding_schemes.sampling.program import coldest

#: Mean acceptance below which a chain counts as frozen.
FROZEN = 0.1
_ENOUGH = 5  # transitions to say so: a single one is refused now and then in any chain


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
        kernel: mean test kernel ⟨φ(z*)ᵀφ(z*)⟩/N of the feature layer, shape (P*, P*), or None if not stored.
    """

    outputs: np.ndarray
    kernel: np.ndarray | None

    @property
    def mean(self) -> np.ndarray:
        """Mean predictor ⟨f*⟩, shape (P*, m)."""
        return self.outputs.mean((0, 1), dtype=float)

    @property
    def variance(self) -> np.ndarray:
        """Predictor variance ⟨f*²⟩ − ⟨f*⟩², shape (P*, m)."""
        return self.outputs.var((0, 1), dtype=float)


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
        seconds: wall-clock seconds of warm-up and of sampling, also before a kill, compilation included.
        network: what was sampled; None for samples made by hand.
        labels: classes of the training inputs, shape (P,); None where the posterior had lost its task.
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
    network: Network | None = None
    labels: np.ndarray | None = None

    def __repr__(self) -> str:
        (chains, samples), network = self.info.energy.shape, self.network
        of = f" of {network.nonlinearity} networks, N = {network.width}" if network else ""
        told = f"acceptance {self.info.acceptance.mean():.2f}, {self.info.divergences.sum():.0f} divergences"
        if chains > 1 and samples > 3:
            told += f", R-hat of the energy {statistics.rhat(self.info.energy):.2f}"
        return f"<Samples: {chains} chains × {samples} samples{of}, T = {self.temperature:g}; {told}>"

    def activations(self, layer: int = -1) -> np.ndarray:
        """φ(z) of a layer (0 … L−1, or −1 for the feature layer), shape (chains, samples, N, P).

        ValueError where the preactivations were not stored.
        """
        if self.preactivations is None or self.network is None:
            raise ValueError(
                'store: preactivations were not kept; activations need store=("preactivations", …)'
            )
        depth = len(self.preactivations)
        validation.count("layer", layer, -depth, depth - 1)
        return np.asarray(self.network.phi(jnp.asarray(self.preactivations[layer])))

    def codes(self, layer: int = -1) -> np.ndarray:
        """The classes that every neuron codes for, booleans, shape (chains, samples, N, C).

        Bounded φ: classes with a mean activation above the middle of φ's range. Others: classes on which a
        neuron is an outlier, so none for neurons of the bulk. ValueError as `activations`, and without
        labels.
        """
        activations = self.activations(layer)
        if self.labels is None or self.network is None:
            raise ValueError(
                "labels: the posterior came out of a JAX transformation and has no task to tell them"
            )
        if is_bounded(self.network.phi):
            return coding.codes(activations, self.labels, coding.threshold(self.network.phi))
        return coding.outliers(activations, self.labels).codes

    def occupancies(self, layer: int = -1) -> coding.Occupancy:
        """How many neurons use which code, with standard errors; raises as `codes`."""
        return coding.occupancy(self.codes(layer))


def gather(posterior, state, outputs, num_blocks: int) -> Samples:
    """Samples from what all blocks gave and the state after the last; the last `num_blocks` hold samples."""

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
    seconds_of = {"warmup": seconds[:num_warmup_blocks], "sampling": seconds[num_warmup_blocks:]}
    return Samples(
        **{name: out.get(name) for name in ("readouts", "preactivations", "weights", "outputs")},
        **{name: means.get(name) for name in ("mean_outputs", "kernels")},
        predictions=predictions,
        info=info,
        warmup_info=join(warmup) if warmup else None,
        final=coldest(state.weights),
        temperature=float(posterior.temperature),
        seconds={phase: float(sum(blocks)) for phase, blocks in seconds_of.items()},
        network=posterior.network,
        labels=None if posterior.task is None else posterior.task.labels,
    )


def check_finite(info, iteration: int, thinning: int) -> None:
    """Raise FloatingPointError where the energies of a block are not finite."""
    bad = ~np.isfinite(info["energy"])
    if bad.any():
        chain, index = np.argwhere(bad)[0]
        step = iteration - (bad.shape[1] - 1 - index) * thinning
        raise FloatingPointError(
            f"chain {chain}: energy {info['energy'][chain, index]} at transition {step} with step size "
            f"{info['step_size'][chain, index]:.3g}; take a smaller step size or start nearer to equilibrium"
        )


def warn_of_trouble(info: SampleInfo, thinning: int) -> None:
    """Warn of divergent transitions after warm-up, with the first's place, and of chains that do not move.

    Of the latter where there are enough transitions to tell.
    """
    trouble = []
    if info.divergences.any():
        chain, index = np.argwhere(info.divergences)[0]
        trouble.append(
            f"{int(info.divergences.sum())} divergent transitions after warm-up, the first in chain {chain} "
            f"at transition {index * thinning + 1} to {(index + 1) * thinning} with step size "
            f"{info.step_size[chain, index]:.3g}"
        )
    acceptance = info.acceptance.mean(1)
    if info.acceptance.shape[1] * thinning >= _ENOUGH and acceptance.min() < FROZEN:
        frozen = np.flatnonzero(acceptance < FROZEN).tolist()
        names = frozen if len(frozen) <= 8 else f"{len(frozen)} of {len(acceptance)}"
        trouble.append(
            f"frozen chains {names} (acceptance below {FROZEN}), step size {info.step_size[0, -1]:.3g}"
        )
    if trouble:
        validation.warn(f"sampling: {'; '.join(trouble)}")
