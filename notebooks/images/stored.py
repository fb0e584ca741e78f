"""Long jobs of the chapter on images, whose images do not come with the book.

Each leaves a small file (in the folder `notebooks`):

    python -m images.stored cifar --output ../data/results/cifar10-three-classes.npz
    python -m images.stored fashion --output ../data/results/fashion-mnist.npz
    python -m images.stored reuse --num_draws 4 --output ../data/results/reuse-digits.npz
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from coding_schemes import paths, planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import non_lazy
from coding_schemes.sampling import sample
from coding_schemes.tasks import Task
from companion import held_out
from companion.held_out import METHOD
from numpy.typing import ArrayLike

TEMPERATURE = 0.01
NAMES = ("linear", "sigmoidal", "relu")
#: Of the networks on three classes: these from the prior, and as many from the theory's solution.
COUNTS: dict[str, Any] = {"num_chains": 4, "num_samples": 40, "num_warmup": (800, 200), "thinning": 2}
#: Of the networks whose features are reused: one sample of one chain from either start.
REUSE_COUNTS: dict[str, Any] = {"num_chains": 1, "num_samples": 1, "num_warmup": 500}


def few_shot_accuracy(
    features: ArrayLike,
    labels: ArrayLike,
    num_shots: int,
    rng: np.random.Generator,
    *,
    num_episodes: int = 50,
    ridge: float = 0.1,
) -> np.ndarray:
    """Accuracy of a new linear readout fitted to a few examples of classes the features never saw.

    Args:
        features: activations, shape (N, n).
        labels: classes 0 … C−1, shape (n,).
        num_shots: examples of each class to fit to; all others are test inputs.
        rng: draws the examples.
        num_episodes: independent draws.
        ridge: penalty, relative to the mean squared norm of the features.

    Returns:
        Accuracy of each episode, shape (num_episodes,).

    Raises:
        ValueError: a class has too few examples.
    """
    features, labels = np.asarray(features, dtype=float), np.asarray(labels)
    counts = np.bincount(labels)
    if not 0 < num_shots < counts.min():
        raise ValueError(
            f"num_shots: got {num_shots}, needs 1 … {counts.min() - 1} with so few examples of a class"
        )
    centered = features - features.mean(axis=1, keepdims=True)
    centered = centered / np.sqrt(np.mean(np.sum(centered**2, axis=0)))
    one_hot = np.eye(len(counts))[labels] - 1 / len(counts)
    accuracy = []
    for _ in range(num_episodes):
        shots = np.concatenate(
            [rng.choice(np.flatnonzero(labels == c), num_shots, replace=False) for c in range(len(counts))]
        )
        rest = np.setdiff1d(np.arange(len(labels)), shots)
        gram = centered[:, shots].T @ centered[:, shots] + ridge * np.eye(len(shots))
        outputs = centered[:, rest].T @ (centered[:, shots] @ np.linalg.solve(gram, one_hot[shots]))
        accuracy.append(np.mean(outputs.argmax(axis=1) == labels[rest]))
    return np.array(accuracy)


def effective_dimension(features: ArrayLike) -> float:
    r"""Number of directions that features vary along, (Σ λ)² / Σ λ² of their covariance's eigenvalues λ.

    Args:
        features: activations, shape (N, n).

    Returns:
        Between 1 and min(N, n − 1); the same for features scaled as a whole.
    """
    features = np.asarray(features, dtype=float)
    variances = np.square(np.linalg.svd(features - features.mean(axis=1, keepdims=True), compute_uv=False))
    return float(variances.sum() ** 2 / np.square(variances).sum())


def cifar_three_classes(num_draws: int = 5, num_inputs: int = 100, width: int = 100) -> dict[str, Any]:
    """Claim A30: three classes of CIFAR-10, sigmoidal, on exact images; MNIST's numbers beside it."""
    rows: dict[str, list] = {}
    for draw in range(num_draws):
        for name, task in (
            ("cifar", tasks.cifar10(num_inputs, 240, pool="subset", seed=draw, balanced=True)),
            ("mnist", tasks.mnist(num_inputs, 240, seed=draw, balanced=True)),
        ):
            _append(rows, name, task, Network(1, width, "sigmoidal"), draw, jax.random.key(draw))
    return _joined(rows)


def fashion_mnist(num_draws: int = 5, num_inputs: int = 100, width: int = 100) -> dict[str, Any]:
    """Claim D5: another data set, trousers, sandals and boots of Fashion-MNIST; sigmoidal and ReLU."""
    rows: dict[str, list] = {}
    for draw in range(num_draws):
        task = tasks.fashion_mnist(num_inputs, 1000, (1, 5, 9), seed=draw)
        for k, name in enumerate(("sigmoidal", "relu")):
            key = jax.random.fold_in(jax.random.key(draw), k)
            _append(rows, name, task, Network(1, width, name), draw, key)
    return _joined(rows)


def _append(rows: dict[str, list], name: str, task: Task, network: Network, draw: int, key: Any) -> None:
    """Sample networks on one draw and add what the chapter reads of them, a row for each start."""
    found = held_out.experiment(task, network, TEMPERATURE, key, **COUNTS)
    labels = task.held_out[1]
    for start in found.starts:
        learned = start.learned
        row = {
            "error": learned.error.value,
            "spread": learned.error.error,
            "theory_error": start.theory.error.total,
            "process_error": start.process.error.total,
            "transfer": held_out.transfer(start).mean(0),
            "misclassified": np.mean(learned.predictor.argmax(axis=1) != labels),
            "energy": learned.energy,
            "agree": learned.meeting.agree,
            "verdict": learned.meeting.verdict,
        }
        if f"{name}_error" not in rows:
            shown = np.linspace(0, len(labels) - 1, min(200, len(labels))).astype(int)
            row |= {
                "training_activations": learned.training_activations[0].astype(np.float16),
                "test_activations": learned.test_activations[0][:, shown].astype(np.float16),
                "training_labels": task.labels,
                "test_labels": labels[shown],
            }
        for field, value in row.items():
            rows.setdefault(f"{name}_{field}", []).append(value)
        gap = (row["error"] / row["theory_error"] - 1).round(3)
        print(name, draw, gap, row["verdict"], flush=True)


def _joined(rows: dict[str, list]) -> dict[str, Any]:
    return {field: np.asarray(value if len(value) > 1 else value[0]) for field, value in rows.items()}


def reuse_digits(num_draws: int = 4, num_inputs: int = 100, width: int = 100) -> dict[str, Any]:
    """Claim D7: digits 0–2 learned, digits 3–9 told apart by a new readout on the same features.

    Accuracies (names, kinds, shots, draws, starts): learned features from either start; lazy and random
    networks have one, whose accuracy stands twice.
    """
    shots, kinds = np.array([1, 2, 5, 10, 20, 50]), ("learned", "lazy", "random")
    accuracy = np.zeros((len(NAMES), len(kinds), len(shots), num_draws, 2))
    dimension, pixels = np.zeros((len(NAMES), len(kinds), num_draws)), np.zeros((len(shots), num_draws))
    for draw in range(num_draws):
        task = tasks.mnist(num_inputs, 10, seed=draw)
        new = tasks.mnist(700, 0, tuple(range(3, 10)), seed=100 + draw, balanced=True)

        def curve(features: np.ndarray, labels: np.ndarray = new.labels, seed: int = draw) -> list[float]:
            rngs = [np.random.default_rng(seed) for _ in shots]
            return [
                few_shot_accuracy(features, labels, int(s), rng, num_episodes=20).mean()
                for s, rng in zip(shots, rngs, strict=True)
            ]

        pixels[:, draw] = curve(new.inputs)
        for i, name in enumerate(NAMES):
            for k, features in enumerate(features_on(task, name, width, new.inputs, draw)):
                accuracy[i, k, :, draw] = np.transpose([curve(each) for each in features])
                dimension[i, k, draw] = np.mean([effective_dimension(each) for each in features])
        print("draw", draw, accuracy[:, :, :, draw].mean(-1).round(3).tolist(), flush=True)
    fields = {"shots": shots, "names": np.array(NAMES), "kinds": np.array(kinds)}
    return fields | {"accuracy": accuracy, "dimension": dimension, "pixels": pixels}


def features_on(task: Task, name: str, width: int, inputs: np.ndarray, seed: int) -> list[list[np.ndarray]]:
    """Feature-layer activations on `inputs` of networks that learned a task from either start.

    Then those of a lazy network and of one from the prior.
    """
    key, features = jax.random.key(seed), []
    theory = held_out.predicted(task, Network(1, width, name), TEMPERATURE).solution
    for scaling in ("non-lazy", "lazy"):
        posterior, weights = non_lazy(task, Network(1, width, name, scaling), TEMPERATURE), []
        starts: list[Any] = ["prior"]
        if scaling == "non-lazy":
            starts.append(planting.planted(key, theory, posterior))
        for k, start in enumerate(starts):
            stream = jax.random.fold_in(key, k)
            run = sample(posterior, stream, method=METHOD, store=(), init=start, **REUSE_COUNTS)
            weights.append(jax.tree.map(lambda leaf: leaf[0], run.final))
        features.append(weights)
    features.append([posterior.prior(jax.random.fold_in(key, 12))])
    phi, noise = posterior.network.phi, jax.random.fold_in(key, 11)
    return [
        [np.asarray(phi(posterior.predict(noise, one, inputs).preactivations[-1])) for one in weights]
        for weights in features
    ]


def main() -> None:
    """Command line: compute one result file, in double precision, with a manifest of how it was made."""
    known = {"cifar": cifar_three_classes, "fashion": fashion_mnist, "reuse": reuse_digits}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", choices=sorted(known))
    parser.add_argument("--num_draws", type=int, default=5, help="draws of the images, with seeds 0, 1, …")
    parser.add_argument("--num_inputs", type=int, default=100)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--output", type=Path, required=True, help="npz file for the arrays")
    given = vars(parser.parse_args())
    output, job, start = given.pop("output"), given["job"], time.perf_counter()
    with jax.enable_x64(True):
        results = known[job](**{name: value for name, value in given.items() if name != "job"})
    sampling = REUSE_COUNTS if job == "reuse" else COUNTS
    manifest = given | {"temperature": TEMPERATURE, "sampling": sampling}
    manifest |= paths.provenance(time.perf_counter() - start)
    paths.store(output, {"manifest": json.dumps(manifest), **results})


if __name__ == "__main__":
    main()
