"""Learned networks on new inputs: sampled, predicted by theory, and by a Gaussian process.

Also the reuse of features on classes never trained on, and the small result files that the generalisation
chapter draws where the images they need do not come with the book:

    python -m experiments.generalization cifar --output data/results/cifar10-three-classes.npz
    python -m experiments.generalization reuse --output data/results/reuse-digits.npz
    python -m experiments.generalization fashion --output data/results/fashion-mnist.npz
"""

import argparse
import json
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from coding_schemes import coding, data, paths, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior, Weights
from coding_schemes.sampling import HMC, Samples, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import gaussian_process, linear, mean_field
from jax import Array
from numpy.typing import ArrayLike

TEMPERATURE = 0.01  # of the stored results, as in the chapter


class Sampled(NamedTuple):
    """A network drawn from the posterior, and the posterior's mean and variance on the test inputs.

    Attributes:
        error: ε_r = ⟨(y_r − f_r)²⟩ averaged over samples and test inputs, shape (m,).
        mean_error: the same of the mean predictor, shape (m,).
        variance: variance of the predictor over samples, averaged over test inputs, shape (m,).
        predictor: mean predictor, shape (P*, m).
        kernel: feature-layer kernel averaged over samples, shape (P*, P*).
        training_activations: φ(z^L) of the last sample of the first chain, shape (N, P).
        test_activations: the same network's on the test inputs, shape (N, P*).
        readouts: its readouts, shape (N, m).
        energy: energy per neuron and training input, mean of every chain, shape (chains,).
        training_error: mean square of Y − f, over all samples.
    """

    error: np.ndarray
    mean_error: np.ndarray
    variance: np.ndarray
    predictor: np.ndarray
    kernel: np.ndarray
    training_activations: np.ndarray
    test_activations: np.ndarray
    readouts: np.ndarray
    energy: np.ndarray
    training_error: float


def sampled(
    task: Task,
    network: Network,
    temperature: float,
    key: Array,
    *,
    num_samples: int = 40,
    num_chains: int = 1,
    num_warmup: int = 300,
    thinning: int = 2,
    init: Weights | str = "prior",
) -> Sampled:
    """Draw from the posterior and look at the test inputs.

    Args:
        task: a task with a test split.
        network: what learns it.
        temperature: T.
        key: drives the chains.
        num_samples: samples per chain, as all that follow an argument of `sampling.sample`.
        num_chains: independent chains.
        num_warmup: transitions of the warm-up.
        thinning: transitions per sample.
        init: where the chains start.

    Returns:
        Sampled.

    Raises:
        ValueError: the task has no test split.
    """
    test_inputs, _, test_targets = held_out(task)
    posterior = posterior_of(task, network, temperature)
    samples: Samples = sample(
        posterior,
        key,
        num_samples=num_samples,
        num_chains=num_chains,
        num_warmup=num_warmup,
        thinning=thinning,
        init=init,
        store=(),
        predict_inputs=test_inputs,
        method=HMC(max_num_steps=30),
        moves=(),
    )
    predictions = samples.predictions
    assert predictions is not None
    last = jax.tree.map(lambda leaf: leaf[0], samples.final)
    phi = network.phi
    error = coding.generalization_error(predictions.mean, predictions.variance, test_targets)
    response = posterior.predict(jax.random.fold_in(key, 1), last, test_inputs)
    return Sampled(
        error=error.total,
        mean_error=error.mean_error,
        variance=error.variance,
        predictor=predictions.mean,
        kernel=np.asarray(predictions.kernel),
        training_activations=np.asarray(phi(posterior.preactivations(last)[-1])),
        test_activations=np.asarray(phi(response.preactivations[-1])),
        readouts=np.asarray(Posterior(task, network, temperature).readouts(last)),
        energy=samples.info.energy.mean(axis=1) / (network.width * task.num_inputs),
        training_error=float(samples.info.squared_error.mean() / task.targets.size),
    )


def posterior_of(task: Task, network: Network, temperature: float) -> Posterior:
    """The posterior of a network; of a lazy one as a non-lazy network with readouts √N times as large.

    With f = (1/N) Σ a φ, σ_a² = N and N T in place of T, prior and likelihood of the outputs are the lazy
    network's, so both kinds of networks share one compiled sampler.
    """
    if network.scaling == "non-lazy":
        return Posterior(task, network, temperature)
    wide = replace(network, scaling="non-lazy")
    return Posterior(task, wide, network.width * temperature, readout_variance=network.width)


class Predicted(NamedTuple):
    """What theory says on the test inputs.

    Attributes:
        error: squared error of the predicted mean, shape (m,); the variance vanishes at large N.
        predictor: predicted mean, shape (P*, m).
        kernel: predicted feature-layer kernel, shape (P*, P*).
        solution: of the theory used.
    """

    error: np.ndarray
    predictor: np.ndarray
    kernel: np.ndarray
    solution: linear.Solution | mean_field.Solution


def predicted(task: Task, nonlinearity: str, temperature: float) -> Predicted:
    """The theory of one hidden layer that fits the nonlinearity.

    Linear networks have the exact saddle point; bounded ones and the ReLU the mean-field theory. The scatter
    of test preactivations that training leaves untouched is averaged over for bounded nonlinearities. The
    ReLU's kernel is the outliers' part and the prior's for the bulk.

    Args:
        task: a task with a test split.
        nonlinearity: "linear", "relu" or the name of a bounded nonlinearity.
        temperature: T > 0.

    Returns:
        Predicted.

    Raises:
        ValueError: there is no theory for the nonlinearity.
    """
    inputs, _, targets = held_out(task)
    solution: linear.Solution | mean_field.Solution
    if nonlinearity == "linear":
        solution = linear.solve(task, depth=1, temperature=temperature)
        predictor, kernel = solution.predict(inputs), solution.kernel(inputs)
    else:
        solution = mean_field.solve(task, nonlinearity, temperature)
        predictor = solution.predict(inputs, fluctuations=True)
        kernel = solution.kernel(inputs, fluctuations=True)
        if solution.outliers:
            kernel = kernel + gaussian_process.prior_kernels(inputs, nonlinearity=nonlinearity)[-1]
    return Predicted(np.square(targets - predictor).mean(axis=0), predictor, kernel, solution)


def gaussian_process_error(task: Task, nonlinearity: str, temperature: float) -> coding.GeneralizationError:
    """Error of the infinitely wide lazy network: squared error of its mean, and its variance."""
    inputs, _, targets = held_out(task)
    process = gaussian_process.solve(task, nonlinearity, temperature=temperature)
    return coding.generalization_error(process.predict(inputs), process.predictor_variance(inputs), targets)


def code_transfer(
    training_activations: ArrayLike,
    training_labels: ArrayLike,
    test_activations: ArrayLike,
    test_labels: ArrayLike,
) -> tuple[float, float]:
    """How much of the neurons' code on training inputs is found on test inputs.

    The training code of a neuron is its mean response to each class; analog, redundant and sparse schemes
    are measured alike.

    Args:
        training_activations: φ, shape (N, P).
        training_labels: shape (P,).
        test_activations: φ, shape (N, P*).
        test_labels: shape (P*,).

    Returns:
        Fraction of the variance of single responses, over neurons and inputs, that the training code of
        the input's class explains (R², 1 at best, 0 or below for none): on training inputs, on test inputs.
    """
    training, test = np.asarray(training_activations, dtype=float), np.asarray(test_activations, dtype=float)
    code = coding.class_means(training, training_labels)
    centre = training.mean(axis=1, keepdims=True)

    def explained(activations, labels):
        missed = np.square(activations - code[:, np.asarray(labels)]).sum()
        return float(1 - missed / np.square(activations - centre).sum())

    return explained(training, training_labels), explained(test, test_labels)


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
    centred = features - features.mean(axis=1, keepdims=True)
    centred = centred / np.sqrt(np.mean(np.sum(centred**2, axis=0)))
    one_hot = np.eye(len(counts))[labels] - 1 / len(counts)
    accuracy = []
    for _ in range(num_episodes):
        shots = np.concatenate(
            [rng.choice(np.flatnonzero(labels == c), num_shots, replace=False) for c in range(len(counts))]
        )
        rest = np.setdiff1d(np.arange(len(labels)), shots)
        gram = centred[:, shots].T @ centred[:, shots] + ridge * np.eye(len(shots))
        outputs = centred[:, rest].T @ (centred[:, shots] @ np.linalg.solve(gram, one_hot[shots]))
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


def features_on(task: Task, network: Network, temperature: float, key: Array, inputs: np.ndarray, **options):
    """Feature-layer activations, on any inputs, of one network sampled on a task; and of one from the prior.

    Returns:
        Two arrays of shape (N, number of inputs): learned and random features.
    """
    posterior = Posterior(task, network, temperature)
    method = HMC(max_num_steps=30)
    samples = sample(posterior, key, 1, num_chains=1, method=method, moves=(), store=(), **options)
    networks = (
        jax.tree.map(lambda leaf: leaf[0], samples.final),
        posterior.prior(jax.random.fold_in(key, 2)),
    )
    answer_key = jax.random.fold_in(key, 1)
    phi = network.phi
    return tuple(
        np.asarray(phi(posterior.predict(answer_key, weights, inputs).preactivations[-1]))
        for weights in networks
    )


def held_out(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test inputs, labels and targets of a task that has them.

    Raises:
        ValueError: it has none.
    """
    if task.test_inputs is None or task.test_labels is None or task.test_targets is None:
        raise ValueError("task: has no test split; give the constructor num_test > 0")
    return task.test_inputs, task.test_labels, task.test_targets


def cifar_three_classes(num_draws: int = 5, num_inputs: int = 100, width: int = 100) -> dict[str, np.ndarray]:
    """Claim A30: three classes of CIFAR-10, sigmoidal, on exact images; MNIST's numbers beside it."""
    network, temperature = Network(1, width, "sigmoidal"), TEMPERATURE
    results: dict[str, list] = {}
    for draw in range(num_draws):
        for name in ("cifar", "mnist"):
            task = (
                tasks.cifar10(num_inputs, 240, pool="subset", seed=draw, balanced=True)
                if name == "cifar"
                else tasks.mnist(num_inputs, 240, seed=draw, balanced=True)
            )
            one = sampled(task, network, temperature, jax.random.key(draw), num_warmup=600, num_chains=2)
            theory = predicted(task, "sigmoidal", temperature)
            process = gaussian_process_error(task, "sigmoidal", temperature)
            labels = task.labels, held_out(task)[1]
            transfer = code_transfer(one.training_activations, labels[0], one.test_activations, labels[1])
            wrong = np.mean(one.predictor.argmax(axis=1) != labels[1])
            row = {
                "error": one.error,
                "variance": one.variance,
                "theory_error": theory.error,
                "process_error": process.total,
                "transfer": transfer,
                "misclassified": wrong,
                "training_error": one.training_error,
            }
            if draw == 0:
                row |= {
                    "training_activations": one.training_activations.astype(np.float16),
                    "test_activations": one.test_activations.astype(np.float16),
                    "training_labels": labels[0],
                    "test_labels": labels[1],
                }
            for key, value in row.items():
                results.setdefault(f"{name}_{key}", []).append(value)
    return {key: np.asarray(value if len(value) > 1 else value[0]) for key, value in results.items()}


def fashion_mnist(num_draws: int = 5, num_inputs: int = 100, width: int = 100) -> dict[str, np.ndarray]:
    """Claim D5: another data set, trousers, sandals and boots of Fashion-MNIST; sigmoidal and ReLU."""
    names, temperature, classes = ("sigmoidal", "relu"), TEMPERATURE, (1, 5, 9)
    results: dict[str, list] = {}
    for draw in range(num_draws):
        task = tasks.fashion_mnist(num_inputs, 1000, classes, seed=draw)
        for name in names:
            key = jax.random.fold_in(jax.random.key(draw), names.index(name))
            one = sampled(task, Network(1, width, name), temperature, key)
            labels = task.labels, held_out(task)[1]
            row = {
                "error": one.error,
                "theory_error": predicted(task, name, temperature).error,
                "process_error": gaussian_process_error(task, name, temperature).total,
                "transfer": code_transfer(
                    one.training_activations, labels[0], one.test_activations, labels[1]
                ),
            }
            if draw == 0:
                shown = np.linspace(0, len(labels[1]) - 1, 200).astype(int)
                row |= {
                    "test_activations": one.test_activations[:, shown].astype(np.float16),
                    "test_labels": labels[1][shown],
                }
            for field, value in row.items():
                results.setdefault(f"{name}_{field}", []).append(value)
    return {field: np.asarray(value if len(value) > 1 else value[0]) for field, value in results.items()}


def reuse_digits(num_draws: int = 5, num_inputs: int = 100, width: int = 100) -> dict[str, np.ndarray]:
    """Claim A33: digits 0–2 learned, digits 3–9 told apart by a new readout on the same features."""
    shots = np.array([1, 2, 5, 10, 20])
    names = ("linear", "sigmoidal", "relu")
    kinds = ("learned", "lazy", "random")
    accuracy = np.zeros((len(names), len(kinds), len(shots), num_draws))
    dimension = np.zeros((len(names), len(kinds), num_draws))
    pixels = np.zeros((len(shots), num_draws))
    for draw in range(num_draws):
        task = tasks.mnist(num_inputs, 10, seed=draw)
        new = tasks.mnist(700, 0, tuple(range(3, 10)), seed=100 + draw, balanced=True)
        for i, name in enumerate(names):
            found = {}
            for scaling in ("non-lazy", "lazy"):
                network = Network(1, width, name, scaling)
                key = jax.random.key(draw)
                learned, random = features_on(task, network, TEMPERATURE, key, new.inputs, num_warmup=500)
                found["learned" if scaling == "non-lazy" else "lazy"] = learned
                found["random"] = random
            for k, kind in enumerate(kinds):
                dimension[i, k, draw] = effective_dimension(found[kind])
                for s, num_shots in enumerate(shots):
                    rng = np.random.default_rng(draw)
                    episodes = few_shot_accuracy(
                        found[kind], new.labels, int(num_shots), rng, num_episodes=20
                    )
                    accuracy[i, k, s, draw] = episodes.mean()
        for s, num_shots in enumerate(shots):
            rng = np.random.default_rng(draw)
            pixels[s, draw] = few_shot_accuracy(
                new.inputs, new.labels, int(num_shots), rng, num_episodes=20
            ).mean()
    return {
        "shots": shots,
        "names": np.array(names),
        "kinds": np.array(kinds),
        "accuracy": accuracy,
        "dimension": dimension,
        "pixels": pixels,
    }


def stored(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays that a long job left behind, with the manifest that says how they were made.

    Args:
        path: an npz file of `data/results`.

    Returns:
        The arrays by name.

    Raises:
        FileNotFoundError: there is no such file.
        data.CorruptDataError: it is damaged, or no result file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; it comes with the book's repository (git checkout), and "
            f"`snakemake data/results/{path.name}` makes it anew"
        )
    return data.arrays(path, "manifest", "restore it (git checkout, for a file of the repository)")


def main() -> None:
    """Command line: compute one result file."""
    jobs = {"cifar": cifar_three_classes, "fashion": fashion_mnist, "reuse": reuse_digits}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", choices=sorted(jobs))
    parser.add_argument("--num_draws", type=int, default=5, help="draws of the images, with seeds 0, 1, …")
    parser.add_argument("--num_inputs", type=int, default=100)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--output", type=Path, required=True)
    manifest = vars(parser.parse_args())
    job, output = manifest["job"], manifest.pop("output")
    start = time.perf_counter()
    with jax.enable_x64(True):
        results = jobs[job](*(manifest[name] for name in ("num_draws", "num_inputs", "width")))
    manifest |= {
        "temperature": TEMPERATURE,
        "seconds": round(time.perf_counter() - start, 1),
        "versions": {
            name: metadata.version(name) for name in ("jax", "jaxlib", "blackjax", "numpy", "scipy")
        },
        "commit": paths.commit(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(output, manifest=json.dumps(manifest), **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
