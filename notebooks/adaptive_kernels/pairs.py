"""Networks and predictors on two classes of CIFAR-10, whose images do not come with the book.

    cd notebooks
    python -m adaptive_kernels.pairs scatter --output ../data/results/cifar10-adaptive-scatter.npz
    python -m adaptive_kernels.pairs paths --output ../data/results/cifar10-adaptive-paths.npz

make the stored arrays that the chapter draws: outputs of networks beside those of both predictors, and losses
over training time. Each takes some minutes on one core.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from coding_schemes import data, paths
from coding_schemes.networks import Network
from coding_schemes.sampling import integrated
from coding_schemes.tasks import Task
from coding_schemes.theory import adaptive_kernel, dmft, gaussian_process
from companion.workbench import solved

CLASSES = (0, 1)  # airplanes and automobiles
NUM_VALIDATION = 160  # images set aside to choose ridges; where none is chosen, test images like the others
RICHNESS, FEW, FEW_TEST = (0.1, 0.3, 1.0, 3.0), 10, 200  # of the losses over time: γ0, images, new images


@cache
def images() -> tuple[np.ndarray, np.ndarray]:
    """All pixels and labels of the two classes among the exact images."""
    both = [data.cifar10_subset(split) for split in ("train", "test")]
    wanted = [np.flatnonzero(np.isin(each.labels, CLASSES)) for each in both]
    pixels = np.concatenate([each.read(where) for each, where in zip(both, wanted, strict=True)])
    labels = np.concatenate([each.labels[where] for each, where in zip(both, wanted, strict=True)])
    return pixels.reshape(len(pixels), -1).astype(float), np.searchsorted(CLASSES, labels)


def pair(num_inputs: int, seed: int, num_test: int) -> Task:
    """Two classes with the targets ±1; a draw has the same test images for every number of inputs."""
    pixels, labels = images()
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(np.flatnonzero(labels == c)) for c in (0, 1)]
    half, other = num_inputs // 2, (NUM_VALIDATION + num_test) // 2
    train, test = (
        np.concatenate([each[part] for each in shuffled]) for part in (np.s_[:half], np.s_[-other:])
    )
    test = rng.permutation(test)
    mean, deviation = pixels[train].mean(), pixels[train].std()
    inputs, new = (((pixels[where] - mean) / deviation).T for where in (train, test))
    targets = np.array([[1.0], [-1.0]])
    own, others = labels[train], labels[test]
    return Task(
        inputs, own, targets[own], new, others, targets[others], class_names=("airplane", "automobile")
    )


def over_time(num_pilot: int = 400, num_draws: int = 600) -> Iterator[dict[str, np.ndarray]]:
    """Losses over time of the population, λ = 0, by richness and draw; after each draw, those of all so far.

    Of a first set of draws the mean test loss alone is kept: it chooses times and a richness for the others.
    """
    drawn = [losses_of(draw) for draw in range(num_pilot)]
    pilot = np.mean([losses[:, 1] for _, losses in drawn], axis=0)
    fresh = []
    for draw in range(num_pilot, num_pilot + num_draws):
        times, losses = losses_of(draw)
        fresh.append(losses)
        yield {
            "num_inputs": np.array(FEW),
            "num_test": np.array(FEW_TEST + NUM_VALIDATION),
            "richness": np.array(RICHNESS),
            "times": times,
            "pilot": pilot,
            "num_pilot": np.array(num_pilot),
            "losses": np.stack(fresh, axis=1),
        }


def losses_of(draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the losses (γ0, training or new, times) of one draw of the images."""
    task, losses = pair(FEW, draw, FEW_TEST), []
    options: dict[str, Any] = {"duration": 15.0, "num_records": 60, "num_neurons": 128, "average_steps": 0}
    for richness in RICHNESS:
        path = dmft.population(task, "relu", richness, 0.0, seed=draw, **options)
        losses.append((path.train_loss, path.test_loss))
    print("paths", draw, flush=True)
    return path.times, np.array(losses)


def scatter(num_networks: int = 8, num_inputs: int = 40) -> Iterator[dict[str, np.ndarray]]:
    """Outputs on new images of networks at rest and without weight decay, and of their predictors."""
    task: Any = pair(num_inputs, 0, num_test=40)
    decay, ridge = 1.0, 0.3
    found = {"targets": task.test_targets[:, 0], "num_inputs": np.array(num_inputs)}
    found |= {"decay": np.array(decay), "ridge": np.array(ridge)}
    for name, richness in (("aNBK", 1.0), ("aNBK, half", 0.5)):
        options: dict[str, Any] = {"method": "population", "num_neurons": 512, "num_rounds": 40}
        theory = solved(adaptive_kernel.solve, task, Network(1, 1, "erf"), richness, ridge, **options)
        found[name] = theory.predict(task.test_inputs)[:, 0]
        print(name, theory.disagreement, flush=True)
    process = gaussian_process.solve(task, "erf", 1, temperature=ridge)
    found["NNGPK"] = process.predict(task.test_inputs)[:, 0]
    widths, counts = (50, 100), {"num_chains": 8, "num_samples": 25, "num_warmup": 75}
    key = jax.random.key(0)
    networks = integrated.sample(key, theory.features, task.test_inputs, 1.0, ridge, widths, **counts)
    found["sampled widths"] = np.array(widths)
    found["sampled"] = np.array([each.means.mean(1)[..., 0] for each in networks])  # (widths, chains, images)
    found["verdicts"] = np.array([each.convergence.verdict for each in networks])
    found["converged"] = np.array([each.convergence.converged for each in networks])
    print("sampled", found["verdicts"], flush=True)
    kernel, rows = (
        gaussian_process.tangent_kernels(x, task.inputs, "relu", 1)[1]
        for x in (task.inputs, task.test_inputs)
    )
    fit = np.linalg.solve(kernel + 2 * decay * np.eye(num_inputs), task.targets)
    found["NTK"] = (rows @ fit)[:, 0]
    trained, final = [], []
    for seed in range(num_networks):
        options = {"duration": 10.0, "num_neurons": 100, "num_records": 10, "seed": seed, "network": True}
        path: Any = dmft.population(task, "relu", 1.0, 0.0, average_steps=0, **options)
        trained.append(path.test_outputs[-1, :, 0])
        final.append(dmft.antk(replace(path, weight_decay=1e-6)).predict()[:, 0])
    found |= {"trained": np.array(trained), "final kernel": np.array(final)}
    print("trained", flush=True)
    convex = solved(dmft.relu_fixed_point, task, 1.0, decay)
    found["solved"] = convex.predict(task.test_inputs)[:, 0]
    print("convex", convex.residual, flush=True)
    at_rest, own = [], []
    for width in (25, 50, 100):
        options = {"num_neurons": width, "average_steps": 2000 if width == 25 else 0, "tolerance": 1e-6}
        rest = [
            solved(dmft.fixed_point, task, "relu", 1.0, decay, seed=seed, **options)
            for seed in range(num_networks)
        ]
        own += [solved(dmft.antk, each).predict()[:, 0] for each in rest if width == 25]
        at_rest.append([each.test_outputs[-1, :, 0] for each in rest])
        print("at rest", width, flush=True)
    found |= {"widths": np.array([25, 50, 100]), "at rest": np.array(at_rest), "own kernel": np.array(own)}
    yield found


def save(found: dict[str, np.ndarray], output: Path, job: str, seconds: float) -> None:
    """Write a result file: arrays in single precision, and how they were made."""
    manifest = {"job": job, **paths.provenance(seconds)}
    small = {k: v.astype(np.float32) if v.dtype == float and v.ndim > 1 else v for k, v in found.items()}
    paths.store(output, {"manifest": json.dumps(manifest)} | small)


JOBS = {"scatter": scatter, "paths": over_time}


def main() -> None:
    """Command line: compute one result file, and keep what there is after every part of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--output", type=Path, required=True, help="npz file for the arrays")
    arguments, start = parser.parse_args(), time.perf_counter()
    with jax.enable_x64(True):
        for found in JOBS[arguments.job]():
            save(found, arguments.output, arguments.job, time.perf_counter() - start)


if __name__ == "__main__":
    main()
