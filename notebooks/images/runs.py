"""What the chapter on images measures of the results that long jobs left behind."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coding_schemes import coding, data, diagnose, tasks
from coding_schemes.diagnosis import Diagnosis
from companion.findings import Estimate, spread
from companion.held_out import first_of_each
from companion.workbench import Equilibrium
from images.large_run import HISTORY, STARTS

Arrays = Mapping[str, np.ndarray]
PUBLISHED_ACCURACY, PUBLISHED_SIZE = 0.45, 50_000  # paper A, Fig. 7
SPLITS = ("training", "test")
LEARNED, LAZY, RANDOM = 0, 1, 2  # kinds of features that are reused
INPUT_DIM = 3072  # N0 of CIFAR-10
DATASETS = {"mnist": tasks.mnist, "fashion_mnist": tasks.fashion_mnist, "cifar10": tasks.cifar10}
IN_SUBSET = 70  # test images of a class on average, of the 100 or so that there are: classes are drawn


def sides(responses: np.ndarray, labels: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Share of responses (N, P) on the side of ½ that the code of class means (N, m) names, shape (m, N).

    Row k: the class k places after the image's own, so that row 0 is the code itself and the mean of the
    others is chance.
    """
    on, code, num_classes = responses > 0.5, means > 0.5, means.shape[1]
    return np.array([np.mean(on == code[:, (labels + k) % num_classes], 1) for k in range(num_classes)])


def beyond_chance(found: np.ndarray, shift: int = 0) -> Estimate:
    """Responses on the code's side, 0 by chance and 1 all, of `sides`; error from the neurons' scatter.

    With a shift the code is that of another class.
    """
    chance = found[1:].mean(0)
    return spread((found[shift] - chance) / (1 - chance.mean()))


def in_step(phi: np.ndarray, labels: np.ndarray, responses: np.ndarray, test_labels: np.ndarray) -> float:
    """Squared correlation of test responses with the training code, both less each neuron's mean.

    Over all neurons and test images: the share of variance that the code explains at its best scale.
    """
    code = coding.class_means(phi.astype(float), labels)[:, test_labels]
    one, other = (each - each.mean(1, keepdims=True) for each in (code, responses.astype(float)))
    return float(np.sum(one * other) ** 2 / (np.sum(one**2) * np.sum(other**2)))


def of_one(pictures: Arrays, name: str) -> list[np.ndarray]:
    """Training activations and labels, then those on test images, of a data set's one stored network."""
    return [pictures[f"{name}_{split}_{what}"] for split in SPLITS for what in ("activations", "labels")]


def sides_of_one(pictures: Arrays, name: str) -> np.ndarray:
    """`sides` of that network."""
    phi, labels, responses, test_labels = of_one(pictures, name)
    return sides(responses, test_labels, coding.class_means(phi.astype(float), labels))


def carried_over(pictures: Arrays, name: str) -> Estimate:
    """`beyond_chance` of that network."""
    return beyond_chance(sides_of_one(pictures, name))


def own_task(
    dataset: str,
    num_inputs: int,
    num_test: int | None,
    by_preset: int,
    classes: tuple[int, ...],
    *arguments: Any,
) -> tasks.Task:
    """A task of the reader's choice; without num_test the preset's, or what the subset of CIFAR-10 has."""
    if dataset not in DATASETS:
        raise ValueError(f"dataset: got {dataset!r}, allowed are {sorted(DATASETS)}")
    if num_test is None:
        num_test = min(by_preset, IN_SUBSET * len(classes)) if dataset == "cifar10" else by_preset
    return DATASETS[dataset](num_inputs, num_test, classes, *arguments)


def stored(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays that a long job left behind, with the manifest that says how they were made.

    Args:
        path: an npz file of `data/results`.

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


# ---- networks from two starts on several draws of the images -------------------------------------


def meetings(result: Arrays, name: str) -> list[Equilibrium]:
    """What a stored result says of its samplers, draw by draw; not shown where it says nothing.

    Rows alternate between the starts. Where anything differs between them, they do not meet.
    """
    if f"{name}_verdict" not in result:
        return [Equilibrium(False, "equilibrium not shown: chains from the prior, without moves of codes")]
    # stored in the words of an earlier version
    verdicts = [str(text).replace("two ends", "two starts") for text in result[f"{name}_verdict"][::2]]
    return [Equilibrium("differ" not in verdict, verdict) for verdict in verdicts]


def over_draws(rows: np.ndarray) -> dict[str, Any]:
    """Rows (draws · 2, …) that alternate between two starts, as a Finding takes them: means over draws."""
    draws = np.reshape(rows, (-1, 2, *np.shape(rows)[1:]))
    return {"sampled": spread(draws.mean(1)), "starts": (spread(draws[:, 0]), spread(draws[:, 1]))}


def realized(result: Arrays, name: str, exchanged: bool = False) -> np.ndarray:
    """Gain over the process's error, as a fraction of theory's, class by class; rows as stored.

    With `exchanged` the networks' classes are.
    """
    ours, theory, process = (result[f"{name}_{kind}error"] for kind in ("", "theory_", "process_"))
    return (process - (np.roll(ours, 1, axis=1) if exchanged else ours)) / (process - theory)


def training_and_test(result: Arrays, names: tuple[str, ...]) -> dict[str, Any]:
    """Activations on training and on as many test images, a row for each name, neurons by training code."""
    rows = []
    for name in names:
        first, second = (result[f"{name}_{split}_activations"].astype(float) for split in SPLITS)
        labels, test_labels = (result[f"{name}_{split}_labels"] for split in SPLITS)
        order, kept = _by_code(first, labels), _as_many(labels, test_labels)
        rows.append([first[order][:, kept[0]], second[order][:, kept[1]]])
    return {"activations": rows, "labels": labels[kept[0]]}


def _as_many(*labels: np.ndarray) -> list[np.ndarray]:
    """Places of the first inputs of every class, as many of each class and split as there are in all."""
    counts = [np.bincount(x) for x in labels]
    return [first_of_each(x, np.full_like(counts[0], np.min(counts))) for x in labels]


def _by_code(activations: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return coding.sort_by_code(coding.codes(activations, labels), activations)


def class_errors(result: Arrays, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class errors (names, draws, m), means over the starts, and those of theory and process (names, m)."""
    errors = np.array([result[f"{name}_error"] for name in names])
    errors = errors.reshape(len(names), -1, 2, errors.shape[-1]).mean(2)
    others = (
        np.array([result[f"{name}_{kind}_error"].mean(0) for name in names]) for kind in ("theory", "process")
    )
    theory, process = others
    return errors, theory, process


# ---- ten classes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One stored run on ten classes, as `images.large_run` left it.

    Attributes:
        arrays: what is stored.
        settings: those of the run.
        task: the images' name.
        minutes: that it took.
        device: what it ran on.
    """

    arrays: Arrays
    settings: dict[str, Any]
    task: str
    minutes: float
    device: str

    @classmethod
    def of(cls, arrays: Arrays) -> "Run":
        """From the arrays with their manifest."""
        manifest = json.loads(str(arrays["manifest"]))
        device = manifest["device"].partition(",")[0].removeprefix("1 x ")
        return cls(arrays, manifest["settings"], manifest["task"], manifest["seconds"] / 60, device)

    @property
    def num_inputs(self) -> int:
        """P."""
        return self.settings["num_inputs"]

    @property
    def size(self) -> dict[str, Any]:
        """Sizes, for a finding."""
        one = self.settings
        return {"L": one["depth"], "N": one["width"], "P": one["num_inputs"], "T": one["temperature"]}

    def accuracy(self, shuffled: bool = False) -> Estimate:
        """Of the mean predictor on test images, with its binomial error; or with their labels shuffled."""
        answers, truth = (self.arrays[name].argmax(axis=1) for name in ("predictor", "test_targets"))
        truth = np.random.default_rng(0).permutation(truth) if shuffled else truth
        share = np.mean(answers == truth)
        return Estimate(share, np.sqrt(share * (1 - share) / len(truth)))

    @property
    def history(self) -> dict[str, np.ndarray]:
        """What HISTORY records of the descent that went on, block by block, and of the samples."""
        return dict(zip(HISTORY, self.arrays["history"].T, strict=True))

    @property
    def training_accuracy(self) -> float:
        """At the end."""
        return float(self.history["training_accuracy"][-1])

    @property
    def ends(self) -> dict[str, np.ndarray]:
        """What HISTORY records at the end of descents: (starts, quenched or cooled)."""
        rows = self.arrays["descents"][:, -1].reshape(len(STARTS), -1, len(HISTORY))
        return dict(zip(HISTORY, np.moveaxis(rows, -1, 0), strict=True))

    def from_starts(self, values: np.ndarray) -> tuple[np.float64, ...]:
        """Of the values of all descents those of the lowest from either start."""
        lowest = self.ends["energy"].argmin(axis=1)[:, None]
        return tuple(np.take_along_axis(values.reshape(len(STARTS), -1), lowest, axis=1)[:, 0])

    @property
    def thermal_share(self) -> float:
        """The last sample's energy above the minimum, over the ½ that each weight adds in equilibrium."""
        one = self.settings
        rank = min(one["num_inputs"], INPUT_DIM)
        weights = one["width"] * (rank + (one["depth"] - 1) * one["width"] + one["num_classes"])
        minimum = min(self.ends["energy"].min(), self.arrays["warmup_energy"].min())
        return float((self.arrays["history"][-1, HISTORY.index("energy")] - minimum) / (weights / 2))

    @property
    def code_sizes(self) -> np.ndarray:
        """Neurons of the feature layer with each of the codes in use, class means on training images."""
        codes = self.arrays["training_class_means_2"] > 0.5
        return np.sort(np.unique(codes, axis=0, return_counts=True)[1])[::-1]

    def explained(self, layer: int) -> np.ndarray:
        """Variance of single responses that the training code explains, training and test images: (2,)."""
        pairs = [(self.arrays[f"{s}_activations_{layer}"], self.arrays[f"{s}_labels"]) for s in SPLITS]
        return coding.code_transfer(*pairs[0], *pairs[1])

    @property
    def least_explained(self) -> float:
        """Bound from below on what the feature layer's code explains, over all neurons and training images.

        Responses lie between 0 and 1: at the mean m within a class their variance is at most m (1 − m).
        """
        means = self.arrays["training_class_means_2"].astype(float)
        within = np.mean(means * (1 - means))
        between = np.mean(means.var(axis=1))
        return float(between / (between + within))

    def sides(self, layer: int) -> np.ndarray:
        """`sides` of the stored test responses."""
        responses = self.arrays[f"test_activations_{layer}"]
        means = self.arrays[f"training_class_means_{layer}"][: len(responses)]
        return sides(responses, self.arrays["test_labels"], means)

    def beyond_chance(self, layer: int, shift: int = 0) -> Estimate:
        """`beyond_chance` of the stored test responses."""
        return beyond_chance(self.sides(layer), shift)

    def in_step(self) -> float:
        """`in_step` of the feature layer's stored responses."""
        return in_step(*(self.arrays[f"{s}_{what}"] for s in SPLITS for what in ("activations_2", "labels")))

    def shared(self, layer: int = 2) -> np.ndarray:
        """Correlation over neurons of the sides of ½ on which two classes' means lie, (m, m).

        In the feature layer these are the codes.
        """
        return np.corrcoef((self.arrays[f"training_class_means_{layer}"] > 0.5).astype(float).T)

    @property
    def confusions(self) -> np.ndarray:
        """Share of test images that the mean predictor takes for another class, either way round, (m, m)."""
        answers, truth = (self.arrays[name].argmax(axis=1) for name in ("predictor", "test_targets"))
        classes = np.arange(self.settings["num_classes"])
        taken = np.array([[np.mean(answers[truth == c] == d) for d in classes] for c in classes])
        return 0.5 * (taken + taken.T)

    def diagnosis(self) -> Diagnosis:
        """Of the stored neurons of the feature layer on training images."""
        return diagnose(self.arrays["training_activations_2"].astype(float), self.arrays["training_labels"])

    def order(self, layer: int) -> np.ndarray:
        """Neurons by the training code of their layer."""
        phi = self.arrays[f"training_activations_{layer}"].astype(float)
        return _by_code(phi, self.arrays["training_labels"])

    def layers(self) -> dict[str, Any]:
        """For `figures.activation_matrix`: both layers on training and on test images."""
        labels = [self.arrays[f"{split}_labels"] for split in SPLITS]
        rows = [
            [
                self.arrays[f"{s}_activations_{layer}"][self.order(layer)][:, k].astype(float)
                for layer in (1, 2)
            ]
            for s, k in zip(SPLITS, _as_many(*labels), strict=True)
        ]
        return {"activations": rows, "labels": labels[0][_as_many(*labels)[0]]}

    def outputs(self) -> dict[str, Any]:
        """For `figures.network_sample`: readouts and feature layer on stored test images, and output 0."""
        order, labels = self.order(2), self.arrays["test_labels"]
        rng = np.random.default_rng(self.settings["seed"])  # as `large_run` chooses the stored images
        for total in (self.num_inputs, len(self.arrays["predictor"])):
            shown = np.sort(rng.permutation(total)[: len(labels)])
        return {
            "readouts": self.arrays["readouts"][: len(order)][order],
            "activations": self.arrays["test_activations_2"][order].astype(float),
            "outputs": self.arrays["predictor"][shown, :1],
            "targets": self.arrays["test_targets"][shown, :1],
            "labels": labels,
        }


def chains(runs: Sequence[Run]) -> Equilibrium:
    """What is known of the chains: one for each size, from the lower of two starts."""
    said = []
    for run in runs:
        unit = run.num_inputs * run.settings["width"]
        low = " and ".join(f"{energy / unit:.1f}" for energy in run.from_starts(run.ends["energy"]))
        said.append(f"{low} at P = {run.num_inputs:,}")
    text = (
        "equilibrium not shown: one chain; energies per neuron and image of the two starts' lowest descents "
    )
    return Equilibrium(False, text + ", ".join(said))


def mantel(one: np.ndarray, other: np.ndarray, count: int = 2000) -> tuple[Estimate, np.float64]:
    """Correlation of two matrices over pairs of classes, (m, m) each, as in Mantel's test.

    Its error is the scatter over `count` permutations of the classes of one of them; the first of these is
    returned, too.
    """
    found = _permuted(one, other, count)
    return Estimate(found[0], np.std(found[1:])), found[1]


def nearer(one: np.ndarray, instead: np.ndarray, other: np.ndarray) -> tuple[Estimate, np.float64]:
    """By how much more one matrix is correlated with a third than another is: as `mantel`, in its scatter."""
    found = np.subtract(*(_permuted(other, each, 2000) for each in (one, instead)))
    return Estimate(found[0], np.std(found[1:])), found[1]


def _permuted(one: np.ndarray, other: np.ndarray, count: int) -> np.ndarray:
    """Correlation over pairs of classes as they are, then with the classes of the first permuted."""
    pairs = np.triu_indices(len(one), 1)
    rng = np.random.default_rng(0)
    orders = [np.arange(len(one)), *(rng.permutation(len(one)) for _ in range(count))]
    return np.array([np.corrcoef(one[np.ix_(order, order)][pairs], other[pairs])[0, 1] for order in orders])


def trend(sizes: Any, accuracy: Any) -> tuple[Estimate, float]:
    """Slope per decade of P, with its error from the scatter, and the accuracy the line ends at."""
    x = np.log10(sizes)
    (slope, offset), covariance = np.polyfit(x, accuracy, 1, cov=True)
    return Estimate(slope, covariance[0, 0] ** 0.5), slope * np.log10(PUBLISHED_SIZE) + offset


# ---- reuse -----------------------------------------------------------------------------------------


def gain(reuse: Arrays, start: int | None = None) -> np.ndarray:
    """Accuracy of learned features less that of lazy ones, (names, shots, draws), paired by draw."""
    return of_features(reuse, LEARNED, start) - of_features(reuse, LAZY)


def of_features(reuse: Arrays, kind: int, start: int | None = None) -> np.ndarray:
    """Accuracy (names, shots, draws); of learned features the mean over both starts, or from one of them."""
    accuracy = reuse["accuracy"][:, kind]  # (names, shots, draws, starts)
    return accuracy.mean(-1) if start is None else accuracy[..., start]


def over_last(values: np.ndarray) -> Estimate:
    """Mean over draws, the last axis."""
    return spread(values, axis=-1)


def best(values: np.ndarray) -> Estimate:
    """Mean over draws of the best nonlinearity at every number of examples; values (names, shots, draws)."""
    found = over_last(values)
    chosen = found.value.argmax(0), np.arange(values.shape[1])
    return Estimate(found.value[chosen], found.error[chosen])


def curves(reuse: Arrays, names: Sequence[str]) -> dict[str, Any]:
    """For `figures.curves`: accuracy of learned features, of lazy ones and of pixels over the examples."""
    every = [of_features(reuse, LEARNED), of_features(reuse, LAZY), reuse["pixels"][None]]
    mean, error = over_last(np.concatenate(every))
    return {
        "x": reuse["shots"],
        "values": mean,
        "errors": error,
        "names": [*names, *names, "pixels"],
        "styles": ["-"] * 3 + ["--"] * 3 + [":"],
        "scales": ("log", "linear"),
        "xticks": reuse["shots"],
    }


#: One network from each start on every draw: whether they meet is not asked, each start is judged by itself.
TWO_STARTS = Equilibrium(False, "equilibrium not shown: one network from each start on every draw")
