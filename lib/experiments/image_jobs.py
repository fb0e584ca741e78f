"""Long jobs of the images chapter, whose images do not come with the book.

Each leaves a small file:

    python -m experiments.image_jobs cifar --output data/results/cifar10-three-classes.npz
    python -m experiments.image_jobs fashion --output data/results/fashion-mnist.npz
    python -m experiments.image_jobs reuse --output data/results/reuse-digits.npz
"""

import argparse
from typing import Any

import jax
import numpy as np
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.tasks import Task
from numpy.typing import ArrayLike

from experiments import generalization, jobs
from experiments.generalization import METHOD, held_out

TEMPERATURE = 0.01
#: Of the networks on three classes: these from the prior, and as many from the theory's solution.
COUNTS: dict[str, Any] = {"num_chains": 4, "num_samples": 40, "num_warmup": (800, 200), "thinning": 2}
#: Of the networks whose features are reused: one sample of one chain, by Hamiltonian dynamics alone.
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
    """Sample networks on one draw and add what the chapter reads of them, a row for each of their ends."""
    found = generalization.experiment(task, network, TEMPERATURE, key, **COUNTS)
    labels = held_out(task)[1]
    for end in generalization.apart([found]):
        learned = end.learned
        row = {
            "error": learned.error.total,
            "spread": learned.spread,
            "variance": learned.error.variance,
            "theory_error": end.theory.error.total,
            "process_error": end.process.error.total,
            "transfer": generalization.transfer(end),
            "misclassified": np.mean(learned.predictor.argmax(axis=1) != labels),
            "energy": learned.energy,
            "agree": learned.equilibrium.agree,
            "verdict": learned.equilibrium.verdict,
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


def reuse_digits(num_draws: int = 5, num_inputs: int = 100, width: int = 100) -> dict[str, Any]:
    """Claim D7: digits 0–2 learned, digits 3–9 told apart by a new readout on the same features."""
    shots, names, kinds = np.array([1, 2, 5, 10, 20]), generalization.SCHEMES, ("learned", "lazy", "random")
    accuracy = np.zeros((len(names), len(kinds), len(shots), num_draws))
    dimension, pixels = np.zeros((len(names), len(kinds), num_draws)), np.zeros((len(shots), num_draws))
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
        for i, name in enumerate(names):
            learned, random = features_on(task, Network(1, width, name), new.inputs, draw)
            lazy, _ = features_on(task, Network(1, width, name, "lazy"), new.inputs, draw)
            for k, features in enumerate((learned, lazy, random)):
                accuracy[i, k, :, draw] = curve(features)
                dimension[i, k, draw] = effective_dimension(features)
    fields = {"shots": shots, "names": np.array(names), "kinds": np.array(kinds)}
    return fields | {"accuracy": accuracy, "dimension": dimension, "pixels": pixels}


def features_on(task: Task, network: Network, inputs: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Feature-layer activations on `inputs` of a network sampled on a task, and of a random one."""
    posterior, key = Posterior(task, network, TEMPERATURE), jax.random.key(seed)
    samples = sample(posterior, key, method=METHOD, moves=(), store=(), **REUSE_COUNTS)
    learned = jax.tree.map(lambda leaf: leaf[0], samples.final)
    weights = learned, posterior.prior(jax.random.fold_in(key, 2))
    answers = [posterior.predict(jax.random.fold_in(key, 1), one, inputs) for one in weights]
    first, second = (np.asarray(network.phi(one.preactivations[-1])) for one in answers)
    return first, second


def main() -> None:
    """Command line: compute one result file."""
    known = {"cifar": cifar_three_classes, "fashion": fashion_mnist, "reuse": reuse_digits}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", choices=sorted(known))
    parser.add_argument("--num_draws", type=int, default=5, help="draws of the images, with seeds 0, 1, …")
    parser.add_argument("--num_inputs", type=int, default=100)
    parser.add_argument("--width", type=int, default=100)

    def run(job: str, **sizes: int) -> tuple[dict, dict]:
        sampling = REUSE_COUNTS if job == "reuse" else COUNTS
        return known[job](**sizes), {"temperature": TEMPERATURE, "sampling": sampling}

    jobs.run(parser, run)


if __name__ == "__main__":
    main()
