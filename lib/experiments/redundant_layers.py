"""Three hidden layers of sigmoidal neurons: every layer's codes, against untrained networks and theory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import TwoEnded, compare_ends, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import deep_sigmoidal
from companion import figures
from companion.checks import absolute, below, check, equal, relative
from companion.workbench import untrained

from experiments.redundant import mean_and_spread

NUM_SAMPLES = 6  # stored per network; the last one is looked at
RARE = 0.03  # codes with fewer neurons are not counted


@dataclass(frozen=True)
class Deep:
    """Independent networks with three hidden layers, cooled in two ways.

    Attributes:
        posterior: what was sampled.
        ends: networks cooled in steps, and networks started at T at once, held against each other.
        layers: activations of each layer in the networks' last samples, (networks, N, P) each.
        noise: the same of networks drawn from the prior.
    """

    posterior: Posterior
    ends: TwoEnded
    layers: list[np.ndarray]
    noise: list[np.ndarray]

    @property
    def task(self) -> Task:
        """What was learned."""
        assert self.posterior.task is not None
        return self.posterior.task

    def by_layer(self, measure: Callable[[np.ndarray], Any]) -> list[np.ndarray]:
        """A measure of activations (networks, N, P) by network and layer: sampled, and untrained."""
        return [np.stack([measure(phi) for phi in each], axis=1) for each in (self.layers, self.noise)]

    @property
    def within(self) -> list[np.ndarray]:
        """Variance within classes by network and layer, sampled and of untrained networks."""
        labels, share = self.task.labels, np.array(self.task.class_counts) / self.task.num_inputs
        return self.by_layer(lambda phi: np.square(coding.class_deviations(phi, labels)).mean(1) @ share)

    @property
    def sharpness(self) -> list[np.ndarray]:
        """Variance within classes over variance between them, tr Σ_W / tr Σ_B, likewise."""
        return self.by_layer(lambda phi: coding.neural_collapse(phi, self.task.labels).variability)

    @property
    def num_codes(self) -> list[np.ndarray]:
        """Number of codes with more than RARE of the neurons, likewise."""
        return self.by_layer(lambda phi: [_num_codes(own) for own in coding.codes(phi, self.task.labels)])


def _num_codes(codes):
    return int(np.sum(coding.occupancy(codes).fractions > RARE))


def deep_networks(key: Any, size: int, count: int, num_warmup: int, temperature: float) -> Deep:
    """Draw networks with three hidden layers, N = P = size, y₋ = −½: half cooled in steps, half at once."""
    posterior = Posterior(tasks.toy(size, y_minus=-0.5), Network(3, size, "sigmoidal"), temperature)
    first, second, third = jax.random.split(key, 3)
    options: dict[str, Any] = {"num_chains": count // 2, "num_warmup": num_warmup}
    cooled = sample(posterior, first, NUM_SAMPLES, **options)
    quenched = sample(posterior, second, NUM_SAMPLES, anneal_from=temperature, **options)
    return Deep(
        posterior,
        compare_ends(cooled, quenched, posterior),
        [np.concatenate([end.activations(k)[:, -1] for end in (cooled, quenched)]) for k in range(3)],
        untrained(jax.random.split(third, count), posterior),
    )


def one_network(deep: Deep) -> dict[str, Any]:
    """For `figures.kernels_and_neurons`: one network's kernels, and activations sorted by code."""
    labels, layers = deep.task.labels, [phi[0] for phi in deep.layers]
    return {
        "kernels": [phi.T @ phi / len(phi) for phi in layers],
        "activations": [phi[coding.sort_by_code(coding.codes(phi, labels), phi)] for phi in layers],
        "labels": labels,
        "titles": ["layer 1", "layer 2", "layer 3"],
    }


def sharpness_curves(deep: Deep) -> dict[str, Any]:
    """For `figures.curves`: `Deep.sharpness` over the layers, a line per network."""
    trained, noise = deep.sharpness
    names = ["trained"] * len(trained) + ["untrained"] * len(noise)
    return {
        "x": [1, 2, 3],
        "values": np.concatenate([trained, noise]),
        "names": names,
        "colors": [figures.COLORS["sigmoidal"], figures.COLORS["control"]],
        "scales": ("linear", "log"),
        "xlabel": "layer",
        "xticks": [1, 2, 3],
        "ylabel": "within over between",
    }


def check_depth(deep: Deep) -> None:
    """A12: codes in all layers, sharper with depth, and how many; untrained networks must fail."""
    ratios, wrong = deep.sharpness
    counts, many = deep.num_codes
    size = f"L = 3, N = P = {deep.task.num_inputs}, {len(ratios)} networks"
    check(
        "A12",
        f"variance within over variance between classes in layers 1, 2, 3, mean; {size}",
        ratios.mean(0),
        below(1),
        control=("untrained networks", wrong.mean(0)),
        sampler=deep.ends,
        because="the classes' means are closer in layer 1 than the fluctuations about them, in theory too",
    )
    sharper, not_sharper = (np.exp(np.log(r[:, 1:] / r[:, :-1]).mean(0)) for r in (ratios, wrong))
    check(
        "A12",
        f"this ratio in layers 2 and 3 as a multiple of that in the layer below; {size}",
        sharper,
        below(0.5),
        control=("untrained networks", not_sharper),
        sampler=deep.ends,
        because="the layer below is as sharp already",
    )
    check(
        "A12",
        f"number of codes with more than {RARE:.0%} of the neurons in layers 1, 2, 3, median; {size}",
        np.median(counts, axis=0),
        np.array([5, 6, 6]),
        equal(),
        source="published",
        control=("untrained networks", np.median(many, axis=0)),
        sampler=deep.ends,
        note="single networks: " + "; ".join("-".join(map(str, row)) for row in counts),
        because="in equilibrium theory has six codes in every layer; five need another cooling than ours",
    )


def check_theory(deep: Deep, solution: deep_sigmoidal.Solution) -> None:
    """A12: layers in equilibrium, and layers below the last one as sampled, against the layered theory."""
    check_layers(deep, solution)
    check_below(deep, solution)


def check_layers(deep: Deep, solution: deep_sigmoidal.Solution) -> None:
    """A12: numbers of codes and variance within classes in every layer against the layered theory."""
    counts, many = deep.num_codes
    check(
        "A12",
        f"number of codes with more than {RARE:.0%} of the neurons in layers 1, 2, 3, median, against theory",
        np.median(counts, axis=0),
        np.array([layer.num_codes(RARE) for layer in solution.layers]),
        equal(),
        control=("untrained networks", np.median(many, axis=0)),
        sampler=deep.ends,
        because="shares of the codes fluctuate in single networks",
    )
    share = np.array(deep.task.class_counts) / deep.task.num_inputs
    found, wrong = deep.within
    mean, error = mean_and_spread(found)
    expected = np.array([layer.within_class_variance @ share for layer in solution.layers])
    check(
        "A12",
        "variance of activations within classes in layers 1 and 2, against the layered theory",
        mean[:2],
        expected[:2],
        error[:2],
        relative(0.15),
        control=("untrained networks", wrong.mean(0)[:2]),
        sampler=deep.ends,
        note=f"layer 3, where hardly any is left: {mean[2]:.1e}, theory {expected[2]:.1e}",
        because="corrections of order 1/N; and theory takes the scatter within a class to be the prior's",
    )


def check_below(deep: Deep, solution: deep_sigmoidal.Solution) -> None:
    """A12: kernels of layers 1 and 2 against theory that holds each network's shares in the last layer."""
    labels, found, expected, stopped = deep.task.labels, [], [], []
    for network in zip(*deep.layers, strict=True):
        *below_it, held = (deep_sigmoidal.measure(phi, labels) for phi in network)
        some = held.probabilities > 0
        theory = deep_sigmoidal.solve(
            deep.task,
            3,
            solution.problem.temperature,
            start=solution,
            codes=held.codes[some],
            occupancies=held.probabilities[some],
        )
        found.append([layer.kernel_block for layer in below_it])
        expected.append([layer.kernel_block for layer in theory.layers[:2]])
        stopped += [] if theory.converged else [f"theory stopped at a residual of {theory.residual:.1g} nats"]
    _, error = mean_and_spread(np.array(found) - np.array(expected))
    mean = np.mean(found, axis=0)
    check(
        "A12",
        "class blocks of the kernels of layers 1 and 2, mean; theory with these networks' last layers",
        mean,
        np.mean(expected, axis=0),
        error,
        absolute(0.02),
        control=("layer 2 in place of layer 1", mean[[1, 1]]),
        sampler=deep.ends,
        note="; ".join(stopped),
        because="kernels of single networks fluctuate by about as much, in layer 2 by 0.01 to 0.02",
    )
