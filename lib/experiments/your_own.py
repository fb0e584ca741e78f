"""What the two chapters for readers' own tasks and activations run."""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, data, paths, tasks, theory
from coding_schemes.diagnosis import Diagnosis, diagnose
from coding_schemes.networks import NONLINEARITIES, Network
from coding_schemes.tasks import Task
from companion.publish import WIDTH
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.linalg import block_diag
from scipy.stats import ortho_group

from experiments import diagnosis
from experiments.diagnosis import KNOWN


def located(path: str | Path) -> Path:
    """A reader's file: as given, or relative to the repository, as `make chapter` is typed there.

    Chapters run in the folder of notebooks, which is not where a reader names the file from.
    """
    root = paths.repository_root()
    return Path(path) if root is None or Path(path).is_file() else root / path


def read_task(path: str | Path, y_plus: float = 1.0, y_minus: float = -0.5) -> Task:
    """A reader's task, from an .npz or a .csv file.

    An .npz file holds `inputs` (N0, P), `labels` (P,), and perhaps `targets` (P, m). A .csv file has one line
    per input and a first line of names: the column `label`, and one column for every feature. Inputs are
    scaled so that the mean of |x|²/N0 is one, and sorted by class.

    Args:
        path: the file.
        y_plus: target of an input's own class, where the file has none.
        y_minus: target of the other classes.

    Returns:
        A Task.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is of another kind, something in it is missing, or shapes do not fit.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        table = data.read_activations(path)
        inputs, labels, targets = table.activations, table.labels, None
    elif path.suffix.lower() == ".npz":
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist")
        try:
            with np.load(path) as file:
                found = dict(file)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} cannot be read as arrays ({type(error).__name__}: {error})") from error
        if missing := {"inputs", "labels"} - set(found):
            raise ValueError(f"{path}: has no array {', '.join(sorted(missing))}, only {sorted(found)}")
        inputs, targets = found["inputs"].astype(float), found.get("targets")
        labels = np.unique(found["labels"], return_inverse=True)[1]
    else:
        raise ValueError(f"path: got {path}, needs a .npz or .csv file")
    if inputs.ndim != 2 or labels.shape != inputs.shape[1:]:
        raise ValueError(f"{path}: inputs {inputs.shape} and labels {labels.shape} need shapes (N0, P), (P,)")
    if targets is None:
        targets = tasks.one_hot(int(labels.max()) + 1, y_plus, y_minus)[labels]
    if np.shape(targets)[:1] != labels.shape or np.ndim(targets) != 2:
        raise ValueError(f"{path}: targets have shape {np.shape(targets)}, need ({len(labels)}, m)")
    order = np.argsort(labels, kind="stable")
    scale = np.sqrt(np.square(inputs).mean())
    return Task(inputs[:, order] / scale, labels[order], np.asarray(targets, float)[order], name=path.stem)


def elementwise(name: str) -> Any:
    """A nonlinearity by its name: one of the library's, or else a function of jax.nn or jax.numpy.

    Raises:
        ValueError: none has that name.
    """
    if name in NONLINEARITIES:
        return name
    for module in (jax.nn, jax.numpy):
        if callable(getattr(module, name, None)):
            return getattr(module, name)
    raise ValueError(f"nonlinearity: got {name!r}, allowed are {sorted(NONLINEARITIES)} and names of jax.nn")


def predicted(task: Task, network: Network, temperature: float) -> tuple[Any, str]:
    """Theory's solution for a task and network, or None, with a sentence that says which or why not."""
    try:
        found = theory.solve(task, network, temperature)
    except ValueError as error:
        return None, f"There is no theory for this task and network: {error}"
    if not found.converged:
        return None, f"The solver did not converge: residual {found.residual:.1e}."
    return (
        found,
        f"Solved, to a residual of {found.residual:.0e}: {len(found.probabilities)} kinds of neurons.",
    )


def shown(activations: ArrayLike, labels: ArrayLike, found: Diagnosis) -> dict[str, Any]:
    """A diagnosis with its layer, neurons by code, the most frequent first: arguments of `evidence`."""
    phi, classes = np.asarray(activations, float), np.asarray(labels)
    names = [coding.code_name(code) for code in found.codes]
    rank = {name: k for k, name in enumerate(found.occupancies.names)}
    strength = -np.ptp(coding.class_means(phi, classes), axis=1)
    order = np.lexsort((strength, [rank.get(name, len(rank)) for name in names]))
    inputs = np.argsort(classes, kind="stable")
    numbers = ("rotated_two_levels", "two_levels", "rotated_participation", "participation")
    evidence = {name: getattr(found.evidence, name) for name in numbers}
    return {"activations": phi[order][:, inputs], "labels": classes[inputs], **evidence}


def evidence(
    activations: np.ndarray,
    labels: np.ndarray,
    rotated_two_levels: np.ndarray,
    two_levels: float,
    rotated_participation: np.ndarray,
    participation: float,
) -> Figure:
    """A layer (N, P) sorted by its codes, and its two numbers among those of rotated neurons (rotations,)."""
    figure, (layer, *rest) = plt.subplots(1, 3, figsize=(WIDTH, 2.9), width_ratios=(1.5, 1, 1))
    layer.imshow(activations, aspect="auto", cmap="Blues" if activations.min() >= 0 else "RdBu")
    layer.set(xlabel="input, by class", ylabel="neuron, by code")
    layer.set_xticks(np.flatnonzero(np.diff(labels)) + 0.5, [""] * int(np.sum(np.diff(labels) > 0)))
    pairs = ((rotated_two_levels, two_levels), (rotated_participation, participation))
    for axis, (cloud, value), title in zip(
        rest, pairs, ("explained\nby codes", "participation\nratio"), strict=True
    ):
        axis.hist(cloud, bins=30, color="0.55", edgecolor="none")
        axis.axvline(value, color="#D55E00")
        axis.set(xlabel=title, xticks=[0, 0.5, 1], xticklabels=["0", "½", "1"], yticks=[], xlim=(0, 1.02))
    return figure


class Calibration(NamedTuple):
    """How often networks of known scheme are called by its name.

    Attributes:
        right: fraction called right, analog, redundant, sparse, shape (3,).
        rotated: the same after a rotation of the neurons, which keeps the kernel, shape (3,).
        wrong: fraction called by another scheme's name, shape (3,).
    """

    right: np.ndarray
    rotated: np.ndarray
    wrong: np.ndarray


def calibrate(key: Any, size: int, num_networks: int, seed: int) -> Calibration:
    """Diagnose sampled networks of each scheme, N = P = size, as they are and rotated."""
    task = tasks.toy(size, y_minus=-0.5, seed=seed)
    rng = np.random.default_rng(seed)
    rows = []
    for k, (nonlinearity, truth) in enumerate(KNOWN.items()):
        drawn = diagnosis.drawn(
            task, Network(1, size, nonlinearity), 0.01, jax.random.fold_in(key, k), num_networks=num_networks
        )
        called = [diagnose(phi, task.labels).scheme for phi in drawn]
        turned = [diagnose(_rotation(len(phi), rng) @ phi, task.labels).scheme for phi in drawn]
        wrong = [scheme not in (truth, "undecided") for scheme in called]
        rows.append(
            [np.mean([s == truth for s in called]), np.mean([s == truth for s in turned]), np.mean(wrong)]
        )
    return Calibration(*np.array(rows).T)


def trained(key: Any, num_inputs: int, seed: int) -> dict[str, tuple[diagnosis.Trained, Diagnosis]]:
    """Networks that Adam trained on digits, each with its diagnosis."""
    task = tasks.mnist(num_inputs, 0, y_minus=-0.5, seed=seed)
    found = {
        "ReLU, Adam": diagnosis.adam(task, key, nonlinearity="relu"),
        "tanh, Adam": diagnosis.adam(task, key, nonlinearity="tanh"),
        "tanh from small weights, Adam": diagnosis.adam(task, key, nonlinearity="tanh", gain=0.1),
        "convolutional, Adam": diagnosis.convolutional(task, key),
    }
    return {
        name: (each, diagnose(each.activations, task.labels, each.readouts)) for name, each in found.items()
    }


def _rotation(size: int, rng: np.random.Generator) -> np.ndarray:
    """A random rotation that keeps the average neuron, as those that `diagnose` compares with."""
    basis, _ = np.linalg.qr(np.column_stack([np.ones(size), rng.standard_normal((size, size - 1))]))
    turn = block_diag(1.0, ortho_group.rvs(size - 1, random_state=rng))
    return basis @ turn @ basis.T
