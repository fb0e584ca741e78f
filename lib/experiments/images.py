"""What the images chapter draws and checks of the results that long jobs left behind."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from coding_schemes import coding, data
from companion import figures
from companion.checks import above, absolute, below, between, check
from companion.workbench import Equilibrium

from experiments.digits import over_draws
from experiments.generalization import CLOSE, SCHEMES, Draw, apart, code_transfer, first_of_each, transfer
from experiments.image_jobs import COUNTS as COUNTS

Arrays = dict[str, np.ndarray]
PUBLISHED_ACCURACY, PUBLISHED_SIZE = 0.45, 50_000  # paper A, Fig. 7


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


def source(result: Arrays, file: str) -> str:
    """Where a stored result comes from, for the records."""
    manifest = json.loads(str(result["manifest"]))
    made = manifest.get("date") or f"commit {manifest.get('commit', 'unknown')}"
    return f"data/results/{file}, {made}; made anew by snakemake data/results/{file}"


def equilibrium(result: Arrays, name: str) -> list[Equilibrium]:
    """What a stored result says of its samplers, row by row; not shown where it says nothing."""
    if f"{name}_agree" not in result:
        return [Equilibrium(False, "equilibrium not shown: chains from the prior, without moves of codes")]
    pairs = zip(result[f"{name}_agree"], result[f"{name}_verdict"], strict=True)
    return [Equilibrium(bool(agree), str(verdict)) for agree, verdict in pairs]


def training_and_test(result: Arrays, names: tuple[str, ...]) -> dict[str, Any]:
    """Activations on training and on as many test images, a row for each name, neurons by training code."""
    rows = []
    for name in names:
        first, second = (
            result[f"{name}_{split}_activations"].astype(float) for split in ("training", "test")
        )
        labels, test_labels = (result[f"{name}_{split}_labels"] for split in ("training", "test"))
        order, kept = _by_code(first, labels), _as_many(labels, test_labels)
        rows.append([first[order][:, kept[0]], second[order][:, kept[1]]])
    return {"activations": rows, "labels": labels[kept[0]]}


def _as_many(*labels: np.ndarray) -> list[np.ndarray]:
    """Places of the first inputs of every class, as many of each class and split as there are in all."""
    counts = [np.bincount(x) for x in labels]
    return [first_of_each(x, np.full_like(counts[0], np.min(counts))) for x in labels]


def _by_code(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return coding.sort_by_code(coding.codes(activations, labels), activations)


def check_three_classes(result: Arrays) -> None:
    """Claim A30: the code sharp on training images, lost on test images; errors high, as theory says."""
    kept, of_digits = result["cifar_transfer"], result["mnist_transfer"]
    file, sampler = source(result, "cifar10-three-classes.npz"), equilibrium(result, "cifar")
    check_a30 = partial(check, "A30", stored=file, sampler=sampler)
    check_a30(
        "variance of training responses that the code explains, every draw and end",
        kept[:, 0],
        above(0.9),
        control=("of test responses", kept[:, 1]),
        because="the code is not sharp at this temperature",
    )
    check_a30(
        "variance of test responses that the training code explains, every draw and end",
        kept[:, 1],
        below(0.3),
        control=("digits", of_digits[:, 1]),
        because="part of the code survives on test images",
    )
    check_a30(
        "fraction of test images in the wrong class, every draw and end",
        result["cifar_misclassified"],
        above(0.25),
        control=("digits", result["mnist_misclassified"]),
        because="better than the paper's figure suggests",
    )
    check_a30(
        "class errors against theory, every draw and end",
        result["cifar_error"],
        result["cifar_theory_error"],
        CLOSE,
        control=("the Gaussian process in place of samples", result["cifar_process_error"]),
        because="single preactivations fluctuate, which the theory neglects",
    )


@dataclass(frozen=True)
class Sizes:
    """The runs on ten classes over the number of images.

    Attributes:
        task: the images of the largest.
        sizes: P, shape (S,).
        width: N of the largest.
        temperature: T of the largest.
        minutes: that it took.
        num_test: test images of the largest.
        accuracy: of the mean predictor on test images, shape (S,).
        shuffled: the same with the test images' labels shuffled, shape (S,).
        training: training accuracy at the end, shape (S,).
        energies: per neuron and training image at the end, shape (S,).
        explained: variance of responses that the training code explains, (S, layers, 2): training, test.
        kept: fraction of the code's entries that class means on test images keep, shape (S, layers).
        permuted: the same with the classes of the test images permuted, shape (S, layers).
    """

    task: str
    sizes: np.ndarray
    width: int
    temperature: float
    minutes: float
    num_test: int
    accuracy: np.ndarray
    shuffled: np.ndarray
    training: np.ndarray
    energies: np.ndarray
    explained: np.ndarray
    kept: np.ndarray
    permuted: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Binomial standard error of the accuracy."""
        return np.sqrt(self.accuracy * (1 - self.accuracy) / self.num_test)

    def summary(self) -> dict[str, Any]:
        """Numbers of the text."""
        return {
            "width": self.width,
            "temperature": self.temperature,
            "minutes": round(self.minutes),
            "smallest": int(self.sizes[0]),
            "largest": f"{self.sizes[-1]:,}",
            "lowest": float(self.accuracy[0]),
            "accuracy": float(self.accuracy[-1]),
            "training": float(self.training.min()),
            "energies": ", ".join(f"{energy:.0f}" for energy in self.energies),
        }


def over_sizes(results: list[Arrays]) -> Sizes:
    """What the runs on ten classes have in common, ascending in P."""
    manifests = [json.loads(str(result["manifest"])) for result in results]
    settings = [manifest["settings"] for manifest in manifests]
    rows: dict[str, list] = {
        name: [] for name in ("accuracy", "shuffled", "training", "energies", "explained", "kept", "permuted")
    }
    for one, result in zip(settings, results, strict=True):
        answers, truth = result["predictor"].argmax(axis=1), result["test_targets"].argmax(axis=1)
        rows["accuracy"].append(np.mean(answers == truth))
        rows["shuffled"].append(np.mean(answers == np.random.default_rng(0).permutation(truth)))
        rows["training"].append(result["history"][-1, 2])
        rows["energies"].append(result["history"][-1, 5] / (one["num_inputs"] * one["width"]))
        rows["explained"].append([_transfer(result, layer) for layer in (1, 2)])
        for name, shift in (("kept", 0), ("permuted", 1)):
            rows[name].append([_kept(result, layer, shift) for layer in (1, 2)])
    return Sizes(
        manifests[-1]["task"],
        np.array([one["num_inputs"] for one in settings]),
        settings[-1]["width"],
        settings[-1]["temperature"],
        manifests[-1]["seconds"] / 60,
        len(results[-1]["predictor"]),
        **{name: np.array(values) for name, values in rows.items()},
    )


def _transfer(result: Arrays, layer: int) -> np.ndarray:
    pairs = [(result[f"{s}_activations_{layer}"], result[f"{s}_labels"]) for s in ("training", "test")]
    return code_transfer(*pairs[0], *pairs[1])


def _kept(result: Arrays, layer: int, shift: int) -> float:
    first, second = (result[f"{split}_class_means_{layer}"] > 0.5 for split in ("training", "test"))
    return coding.code_agreement(first, np.roll(second, shift, axis=1)).entries


def ten_classes(result: Arrays) -> dict[str, Any]:
    """Both layers on training and on test images, neurons by the training code of their layer."""
    splits = ("training", "test")
    labels = [result[f"{split}_labels"] for split in splits]
    kept = _as_many(*labels)
    rows = [
        [result[f"{s}_activations_{layer}"][_order(result, layer)][:, k].astype(float) for layer in (1, 2)]
        for s, k in zip(splits, kept, strict=True)
    ]
    return {"activations": rows, "labels": labels[0][kept[0]]}


def outputs(result: Arrays) -> dict[str, Any]:
    """Readouts and feature layer on test images, and output 0, for `figures.network_sample`."""
    order, labels = _order(result, 2), result["test_labels"]
    return {
        "readouts": result["readouts"][: len(order)][order],
        "activations": result["test_activations_2"][order].astype(float),
        "outputs": result["predictor"][:, :1],
        "targets": result["test_targets"][:, :1],
        "labels": labels,
    }


def _order(result: Arrays, layer: int) -> np.ndarray:
    return _by_code(result[f"training_activations_{layer}"].astype(float), result["training_labels"])


def trend(sizes: np.ndarray, accuracy: np.ndarray) -> tuple[float, float, float]:
    """Slope per decade of P, its standard error from the scatter, and the accuracy the line ends at."""
    x = np.log10(sizes)
    (slope, offset), covariance = np.polyfit(x, accuracy, 1, cov=True)
    return slope, float(covariance[0, 0] ** 0.5), slope * np.log10(PUBLISHED_SIZE) + offset


def accuracy_curve(ten: Sizes, whole: Sizes) -> dict[str, Any]:
    """Accuracy over P with its trend, the run of the paper's size, and the published point."""
    x = np.append(ten.sizes, PUBLISHED_SIZE)
    slope, _, end = trend(ten.sizes, ten.accuracy)
    rows, errors = np.full((2, 3, len(x)), np.nan)
    rows[0, :-1], errors[0, :-1] = ten.accuracy, ten.error
    rows[1:, -1], errors[1, -1] = (whole.accuracy[0], PUBLISHED_ACCURACY), whole.error[0]
    return {
        "x": x,
        "values": [end + slope * np.log10(x / PUBLISHED_SIZE), rows[2] * np.nan, rows[2] * np.nan],
        "names": [f"exact images, N = {ten.width}", f"{whole.task}, N = {whole.width}", "paper A, N = 1000"],
        "colors": [figures.COLORS[name] for name in ("test", "train", "theory")],
        "scales": ("log", "linear"),
        "levels": [0.1],
        "sampled_x": x,
        "sampled": rows,
        "sampled_errors": errors,
        "xticks": x,
        "xlabel": "training images $P$",
        "ylabel": "test accuracy",
    }


def code_curves(ten: Sizes) -> dict[str, Any]:
    """Entries kept on test images and training responses explained, layer by layer, over P."""
    rows = [ten.kept[:, 0], ten.kept[:, 1], ten.explained[:, 0, 0], ten.explained[:, 1, 0]]
    names = [f"{kind}, layer {k}" for kind in ("kept", "explained") for k in (1, 2)]
    return {
        "x": ten.sizes,
        "values": [*rows, ten.permuted[:, 0], ten.permuted[:, 1]],
        "names": [*names, *names[:2]],
        "styles": ["-"] * 4 + [":"] * 2,
        "colors": ["#E8A0AB", figures.COLORS["test"], "#A9A0D6", figures.COLORS["train"]],
        "scales": ("log", "linear"),
        "sampled_x": ten.sizes,
        "sampled": rows,
        "xticks": ten.sizes,
        "xlabel": "training images $P$",
        "ylabel": "fraction",
    }


def check_ten_classes(ten: Sizes, whole: Sizes) -> None:
    """Claim A31: accuracy and code over the number of images, and at the paper's size."""
    energies = ", ".join(f"{energy:.1f}" for energy in (*ten.energies, *whole.energies))
    chains = "equilibrium not shown: one annealed chain per size, energies per neuron and image at the end "
    check_a31 = partial(
        check,
        "A31",
        stored="data/results/cifar10-*.npz; made anew by snakemake data/results/cifar10-….npz",
        sampler=Equilibrium(False, chains + energies),
    )
    slope, error, end = trend(ten.sizes, ten.accuracy)
    other, other_error, _ = trend(ten.sizes, ten.shuffled)
    check_a31(
        f"gain of accuracy per decade of images, in standard errors, P = {ten.sizes[0]} to {ten.sizes[-1]}",
        np.float64(slope / error),
        above(3),
        control=("test labels shuffled", np.float64(other / other_error)),
        note=f"the line ends at {end:.2f} for P = {PUBLISHED_SIZE}, where the paper has {PUBLISHED_ACCURACY}",
        because="above 1,000 images the chains end far from equilibrium",
    )
    check_a31(
        f"test accuracy, {whole.task}, P = {whole.sizes[0]}, N = {whole.width}",
        np.float64(whole.accuracy[0]),
        PUBLISHED_ACCURACY,
        np.float64(whole.error[0]),
        absolute(0.03),
        control=("test labels shuffled", np.float64(whole.shuffled[0])),
        source="published",
        because="one chain, cooled fast",
        note=f"training accuracy {whole.training[0]:.2f}: the chain has not learned all of its images yet",
    )
    check_a31(
        f"variance of training responses that the code explains, feature layer, P = {ten.sizes[-1]}",
        np.float64(ten.explained[-1, 1, 0]),
        above(0.9),
        control=("first layer", np.float64(ten.explained[-1, 0, 0])),
        because="the chain is not in equilibrium",
    )
    check_a31(
        "fraction of the code that class means on test images keep, feature layer, every P",
        ten.kept[:, 1],
        between(0.75, 0.99),
        control=("classes of the test images permuted", ten.permuted[:, 1]),
        because="too few images for class means to be told apart on test images",
    )


def reuse_curves(reuse: Arrays) -> dict[str, Any]:
    """Few-shot accuracy over the examples per digit: learned features, lazy ones, pixels."""
    accuracy = np.concatenate([reuse["accuracy"][:, 0], reuse["accuracy"][:, 1], reuse["pixels"][None]])
    return {
        "x": reuse["shots"],
        "values": accuracy.mean(-1),
        "errors": accuracy.std(-1, ddof=1) / accuracy.shape[-1] ** 0.5,
        "names": ["linear", "sigmoidal", "ReLU"] * 2 + ["pixels"],
        "colors": [figures.COLORS[name] for name in SCHEMES] + [figures.COLORS["theory"]],
        "styles": ["-"] * 3 + ["--"] * 3 + [":"],
        "scales": ("log", "linear"),
        "xticks": reuse["shots"],
        "xlabel": "examples of each digit",
        "ylabel": "accuracy, digits 3 to 9",
    }


def check_reuse(reuse: Arrays) -> None:
    """Claim D7: learned features against lazy ones and against pixels, paired draw by draw."""
    sampler = Equilibrium(
        False, "equilibrium not shown: one sample of one chain per draw, without moves of codes"
    )
    check_d7 = partial(check, "D7", stored=source(reuse, "reuse-digits.npz"), sampler=sampler)
    shots, lazy = reuse["shots"], reuse["accuracy"][:, 1]
    gains = {kind: _in_errors(reuse["accuracy"][:, k] - lazy) for kind, k in (("learned", 0), ("random", 2))}
    for which, rows, name in (
        (shots >= 10, [0], "linear"),
        (shots >= 10, [2], "ReLU"),
        (shots >= 10, [1], "sigmoidal"),
        (shots <= 2, [0, 1, 2], "all three"),
    ):
        check_d7(
            f"learned minus lazy features, {name}, {', '.join(map(str, shots[which]))} examples, in s.e.",
            gains["learned"][rows][:, which],
            above(3),
            control=("random minus lazy features", gains["random"][rows][:, which]),
            because="features learned on three classes keep few directions to tell new ones apart by",
        )
    best = _in_errors(reuse["accuracy"][:, 0] - reuse["pixels"])
    check_d7(
        "learned features minus pixels, the best nonlinearity at each number of examples, in s.e.",
        best.max(axis=0),
        above(3),
        control=("lazy features minus pixels", _in_errors(lazy - reuse["pixels"]).max(axis=0)),
        because="digits are nearly linear in their pixels, and features learned on three of them drop some",
    )


def _in_errors(differences: np.ndarray) -> np.ndarray:
    """Mean over the last axis in units of its standard error."""
    return differences.mean(-1) / (differences.std(-1, ddof=1) / differences.shape[-1] ** 0.5)


def clothes_errors(result: Arrays) -> dict[str, Any]:
    """Figure: class errors on clothes beside theory and process."""
    errors, theory, process = (
        np.array([result[f"{name}_{kind}error"] for name in ("sigmoidal", "relu")])
        for kind in ("", "theory_", "process_")
    )
    errors = errors.reshape(len(errors), -1, 2, errors.shape[-1]).mean(axis=2)  # over the ends of a draw
    return {
        "name": "clothes",
        "caption": "On clothes, too, networks that learn features err less than the Gaussian process, and as "
        f"theory says. Bars: samples, means over {errors.shape[1]} draws with standard errors. N = P = 100, "
        "T = 0.01, 1,000 test images, stored. Not in the papers.",
        "groups": ("trousers", "sandals", "boots"),
        "titles": ("sigmoidal", "ReLU"),
        **over_draws(errors, theory, process),
    }


def check_clothes(result: Arrays) -> None:
    """Claim D5: class errors of every draw against theory and process, and the code on test images."""
    for name in ("sigmoidal", "relu"):
        ours, rival = result[f"{name}_error"], result[f"{name}_process_error"]
        check(
            "D5",
            f"class errors on clothes, every draw and end, {name}",
            ours,
            result[f"{name}_theory_error"],
            CLOSE,
            control=("the Gaussian process in place of samples", rival),
            stored=source(result, "fashion-mnist.npz"),
            sampler=equilibrium(result, name),
            note=f"at most {np.max(ours / rival):.2f} of the Gaussian process's; the training code explains "
            f"{result[f'{name}_transfer'][:, 1].min():.2f} of test responses or more",
            because="chains from the prior freeze in other shares of the codes: trousers, whose error is a "
            "hundredth, are off most",
        )


def check_own_task(draw: Draw, name: str) -> None:
    """Claim D5: class errors of a task of the reader's choice against theory."""
    ends = [end.learned for end in apart([draw])]
    check(
        "D5",
        f"class errors from either end, {name}",
        np.array([one.error.total for one in ends]),
        np.array([draw.theory.error.total for _ in ends]),
        np.array([one.spread for one in ends]),
        CLOSE,
        control=("the Gaussian process in place of samples", draw.process.error.total),
        sampler=draw.learned.equilibrium,
        note=f"the training code explains {transfer(draw)[1]:.2f} of test responses",
        because="single preactivations fluctuate, which the theory neglects",
    )
