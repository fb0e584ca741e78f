"""Which coding scheme a network uses, judged from its activations alone, wherever they come from.

    found = coding_schemes.diagnose(activations, labels)      # (N, P) and (P,)
    print(found.verdict)

Neurons may be rotated into each other, φ → R φ with R Rᵀ = 1, without a trace in the kernel φᵀφ/N. Analog
schemes are what such rotations leave behind; redundant and sparse ones stand out from them. What is rotated
is the matrix of class means ⟨φ_i⟩_c, shape (N, C), by random R that also keep the average neuron, R 1 = 1:
activations of one sign have an average that any other rotation would mix in, and then every network of
ReLUs would look special. A network with unchanged law under rotations, such as a linear one, gives uniform
p-values, whatever its size and its kernel.

Two numbers are held against rotations, both of the differences between classes d_ic = ⟨φ_i⟩_c − mean over c:

    two levels      1 − Σ_i |e_i|² / Σ_i |d_i − d̄|²,  what neurons' codes explain: e is what is left of d when
                    every ⟨φ_i⟩_c is replaced by its average over the neurons with the same bit for class c
    participation   (Σ_i s_i)² / (N Σ_i s_i²),  s_i = |d_i|²: `coding.participation`

Redundant schemes have two levels and codes that many neurons share, sparse ones few neurons in which all
differences sit. Everything is free of the scale and offset of the activations.

Neurons that do not respond to any input are *dead*, as weight decay leaves them, and are left out: a handful
of live neurons among dead ones is a narrow network. The silent majority of a sparse scheme is not dead: its
preactivations fluctuate from input to input by 1/√N of an outlier's.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coding_schemes import coding, validation

SIGNIFICANCE = 0.01
"""Largest p-value that counts. Analog networks pass for undecided about once in fifty times."""

TWO_LEVELS = 0.9
"""Least share that codes explain in a redundant scheme. Half-normal, uniform and U-shaped laws, as those of
rectified, sigmoidal and saturated random features, reach 0.75, 0.78 and 0.88; Gaussian ones 0.64 to 0.72."""

OUTLIER_SHARE = 0.75
"""Least share of the differences that outliers hold in a sparse scheme; heavy tails, of squared ReLUs of
random features, put 0.3 to 0.6 into neurons that pass for outliers."""

OUTLIER_FRACTION = 0.1
"""Most outliers per neuron, and most participation, of a sparse scheme; Gaussian neurons participate at 1/3
or more, rectified ones at 1/4."""

DEAD = 0.1
"""A neuron is dead where its s.d. over inputs is below this times 1/√N of the most variable neuron's."""

COMMON_SHARE = 0.5
"""Share of the differences that the average neuron has from which on an analog scheme is not called."""

_BLOCK = 2_000_000  # numbers at a time in rotations and regroupings


class Evidence(NamedTuple):
    """What speaks for a scheme, each number beside its values in networks with the same kernel.

    Attributes:
        two_levels: share of the neurons' class differences that their codes explain, at most 1.
        rotated_two_levels: the same of rotated neurons, shape (rotations,).
        participation: participation ratio of the class differences, 1/N to 1.
        rotated_participation: the same of rotated neurons, shape (rotations,).
        outlier_share: share of the class differences that outliers hold.
        common_share: share of the class differences that all neurons have in common, |d̄|² / ⟨|d_i|²⟩.
        redundant_p: fraction of rotations with at least as much of two levels; 1/(rotations + 1) at least.
        sparse_p: fraction of rotations with as little participation.
        class_p: fraction of random groups that differ as much as the classes do.
    """

    two_levels: float
    rotated_two_levels: np.ndarray
    participation: float
    rotated_participation: np.ndarray
    outlier_share: float
    common_share: float
    redundant_p: float
    sparse_p: float
    class_p: float


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """A coding scheme and what speaks for it.

    Attributes:
        scheme: "analog", "redundant", "sparse" or "undecided".
        verdict: the same as one line, with its reason.
        codes: classes on which a neuron is active, shape (N, C): of a sparse scheme those on which an outlier
            stands out; otherwise those on which its mean is above halfway between the two levels that
            describe all ⟨φ_i⟩_c best. In an analog scheme they are a cut through a continuum. Dead neurons
            have none.
        live: neurons that respond to the inputs, shape (N,); N below counts them alone.
        occupancies: how many live neurons use which code.
        outliers: neurons with a larger share Σ_c d_ic² than any has in 99 % of rotations, and their codes.
        participation: fraction of the neurons that carry the differences between classes.
        readout_share: share of the readouts' squared length in the span of the neurons' class differences, 1
            where they read out nothing else and near (C − 1)/N where they do not know of the classes, as
            in untrained networks; between them in lazy ones, whose readouts fit the targets. None without
            readouts. It is no part of the verdict.
        evidence: the numbers behind the verdict.
    """

    scheme: str
    verdict: str
    codes: np.ndarray
    live: np.ndarray
    occupancies: coding.Occupancy
    outliers: coding.Outliers
    participation: float
    readout_share: float | None
    evidence: Evidence

    def __repr__(self) -> str:
        return f"<{self.verdict}>"


def diagnose(
    activations: ArrayLike,
    labels: ArrayLike,
    readouts: ArrayLike | None = None,
    *,
    num_rotations: int = 999,
    seed: int = 0,
) -> Diagnosis:
    """Analog, redundant or sparse: the coding scheme of a layer, or "undecided".

    - sparse: outliers, at most a tenth of the neurons, hold three quarters of the differences between
      classes, and no more than 1 % of rotations have so little participation;
    - redundant: codes explain nine tenths, no more than 1 % of rotations explain as much, neurons are not
      concentrated, and on average share their code with at least one other;
    - analog: rotations explain both numbers (p > 0.01), although either scheme would have shown;
    - undecided: everything else; among it classes that differ no more than random groups of the inputs,
      and so few neurons that rotations themselves come near a redundant or sparse scheme.

    Untrained and lazy networks have a class structure too where inputs of a class are alike: "analog" says
    how neurons share what distinguishes the classes, not that it was learned. Dead neurons are left out.

    Args:
        activations: φ, shape (N, P): neurons before inputs, of any nonlinearity.
        labels: class of every input, C ≥ 2 whole numbers 0 … C − 1 or words, shape (P,).
        readouts: a, shape (N, m), for `readout_share`.
        num_rotations: random rotations, and random groups of the inputs, to compare with; at least 99.
        seed: draws them.

    Raises:
        ValueError: shapes do not fit, values are masked, NaN or infinite, labels are no classes, or no two
            neurons respond.

    Source: the schemes are those of paper A; the test and its thresholds are this book's, calibrated on
    sampled networks in the chapter "Your own activations".
    """
    phi, classes, readout_weights = _checked(activations, labels, readouts)
    validation.count("num_rotations", num_rotations, 99)  # to speak of 1 %
    validation.count("seed", seed, 0)
    all_means = coding.class_means(phi, classes)
    rotation_rng, group_rng = np.random.default_rng(seed).spawn(2)
    if np.ptp(all_means, axis=1).max() <= 1e-6 * np.abs(all_means).max():  # rounding; 0 ≤ 0 in a silent layer
        raise ValueError("activations: no neuron's mean differs between classes")
    deviation = phi.std(axis=1)
    live = deviation * len(phi) ** 0.5 >= DEAD * deviation.max()
    if live.sum() < 2:
        raise ValueError("activations: one neuron responds to the inputs, a coding scheme needs at least two")
    phi, means = phi[live], all_means[live]

    codes, two_levels = _two_levels(means)
    strength = _strength(means)
    measured = [_of_rotated(block) for block in _rotations(means, num_rotations, rotation_rng)]
    rotated_two_levels, rotated_participation, largest = (np.concatenate(x) for x in zip(*measured))
    outliers = _outliers(means, strength > np.quantile(largest, 1 - SIGNIFICANCE))
    difference = np.square(_differences(means)).sum()
    groups = np.concatenate(list(_random_groups(phi, classes, num_rotations, group_rng)))
    evidence = Evidence(
        float(two_levels),
        rotated_two_levels,
        float(_participation(strength)),
        rotated_participation,
        float(strength[outliers.mask].sum()),
        float(len(means) * np.square(_differences(means).mean(axis=0)).sum() / difference),
        _p_value(rotated_two_levels >= two_levels),
        _p_value(rotated_participation <= _participation(strength)),
        _p_value(groups >= difference),
    )
    scheme, reason = _judge(evidence, codes, outliers)
    codes = outliers.codes if scheme == "sparse" else codes
    dead = int(np.sum(~live))
    return Diagnosis(
        scheme,
        f"{scheme}: {reason}" + (f"; dead neurons left out: {dead}" if dead else ""),
        _among_all(codes, live),
        live,
        coding.occupancy(codes),
        coding.Outliers(_among_all(outliers.codes, live), _among_all(outliers.mask, live), outliers.counts),
        evidence.participation,
        None if readout_weights is None else _share_in_span(readout_weights, all_means),
        evidence,
    )


def _among_all(of_live: np.ndarray, live: np.ndarray) -> np.ndarray:
    """What live neurons have, False for the dead."""
    found = np.zeros((len(live), *of_live.shape[1:]), dtype=bool)
    found[live] = of_live
    return found


def _judge(evidence: Evidence, codes: np.ndarray, outliers: coding.Outliers) -> tuple[str, str]:
    """The scheme and its reason."""
    num_neurons, count = len(codes), int(outliers.counts)
    explained = f"codes explain {evidence.two_levels:.2f} of the differences between classes"
    carried = f"participation is {evidence.participation:.2f}"
    if evidence.class_p > SIGNIFICANCE:
        return "undecided", (
            f"classes differ no more than random groups of the inputs (p = {evidence.class_p:.2g})"
        )
    concentrated = evidence.sparse_p <= SIGNIFICANCE
    if (
        concentrated
        and evidence.outlier_share >= OUTLIER_SHARE
        and count <= max(1, OUTLIER_FRACTION * num_neurons)
    ):
        return "sparse", (
            f"{count} of {num_neurons} neurons hold {evidence.outlier_share:.2f} of the differences between "
            f"classes; {carried}, rotations have {evidence.rotated_participation.min():.2f} or more"
        )
    two_levels = evidence.redundant_p <= SIGNIFICANCE
    if two_levels and evidence.two_levels >= TWO_LEVELS and not concentrated:
        _, sizes = np.unique(codes, axis=0, return_counts=True)
        if np.square(sizes).sum() < 2 * num_neurons:
            return "undecided", f"{explained}, but {num_neurons} neurons hardly share {len(sizes)} codes"
        return "redundant", (
            f"{explained}, at most {evidence.rotated_two_levels.max():.2f} in rotations; "
            f"{len(sizes)} codes, {num_neurons} neurons"
        )
    if two_levels or concentrated:
        return "undecided", (
            f"neither analog (p = {min(evidence.redundant_p, evidence.sparse_p):.2g}) nor clearly another "
            f"scheme: {explained}, {carried}, {count} outliers hold {evidence.outlier_share:.2f}"
        )
    chance = np.quantile(evidence.rotated_two_levels, 1 - SIGNIFICANCE)
    least = np.quantile(evidence.rotated_participation, SIGNIFICANCE)
    if chance >= TWO_LEVELS or least <= OUTLIER_FRACTION + 1 / num_neurons:
        return "undecided", f"{num_neurons} neurons are too few: rotations look like other schemes themselves"
    if evidence.common_share > COMMON_SHARE:
        return "undecided", (
            f"all neurons respond alike: {evidence.common_share:.2f} of the differences between classes are "
            "the average neuron's"
        )
    return "analog", (
        f"{explained} and {carried}, as in rotated neurons "
        f"(p = {evidence.redundant_p:.2g} and {evidence.sparse_p:.2g})"
    )


def _two_levels(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (…, N, C), and the share of the variance of class differences that they explain, (…)."""
    *lead, num_neurons, num_classes = means.shape
    values = np.sort(means.reshape(*lead, -1), axis=-1)
    below = np.arange(1, values.shape[-1])
    sums = np.cumsum(values, axis=-1)
    low = sums[..., :-1] / below
    high = (sums[..., -1:] - sums[..., :-1]) / below[::-1]
    best = np.argmax(below * below[::-1] * np.square(high - low), axis=-1)[..., None]  # variance between
    middle = np.take_along_axis(low + high, best, axis=-1)[..., None] / 2
    codes = means > middle

    rest = means.copy()
    for bit in (codes, ~codes):
        count = np.maximum(bit.sum(axis=-2, keepdims=True), 1)
        rest -= bit * ((means * bit).sum(axis=-2, keepdims=True) / count)
    differences = _differences(means)
    varying = differences - differences.mean(axis=-2, keepdims=True)
    with np.errstate(invalid="ignore"):  # 0/0 where all neurons are alike: nothing to explain
        unexplained = _square_sum(_differences(rest)) / _square_sum(varying)
    return codes, 1 - np.nan_to_num(unexplained, nan=1.0)


def _differences(means: np.ndarray) -> np.ndarray:
    return means - means.mean(axis=-1, keepdims=True)


def _square_sum(matrix: np.ndarray) -> np.ndarray:
    return np.square(matrix).sum(axis=(-2, -1))


def _strength(means: np.ndarray) -> np.ndarray:
    """Every neuron's share of the differences between classes, (…, N)."""
    strength = np.square(_differences(means)).sum(axis=-1)
    return strength / strength.sum(axis=-1, keepdims=True)


def _participation(strength: np.ndarray) -> np.ndarray:
    return 1 / (strength.shape[-1] * np.square(strength).sum(axis=-1))


def _of_rotated(means: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two levels, participation and the largest share of a neuron, each of shape (rotations,)."""
    strength = _strength(means)
    return _two_levels(means)[1], _participation(strength), strength.max(axis=-1)


def _rotations(means: np.ndarray, number: int, rng: np.random.Generator):
    """Class means of rotated neurons with the average neuron kept, in blocks of shape (…, N, C).

    What deviates from the average neuron is U S Vᵀ with U orthonormal and orthogonal to 1; a rotation makes
    U any other such frame, so frames are drawn from the invariant measure and N × N matrices never needed.
    """
    num_neurons, num_classes = means.shape
    average = means.mean(axis=0)
    _, scales, directions = np.linalg.svd(means - average, full_matrices=False)
    rank = min(num_neurons - 1, num_classes)
    block = max(1, _BLOCK // means.size)
    for first in range(0, number, block):
        draws = rng.standard_normal((min(block, number - first), num_neurons, rank))
        frames, triangles = np.linalg.qr(draws - draws.mean(axis=1, keepdims=True))
        frames *= np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None]
        yield average + frames * scales[:rank] @ directions[:rank]


def _random_groups(activations: np.ndarray, labels: np.ndarray, number: int, rng: np.random.Generator):
    """Σ_i |d_i|² of random groups of the classes' sizes, in blocks."""
    num_classes = labels.max() + 1
    weights = (labels[:, None] == np.arange(num_classes)) / np.bincount(labels)
    block = max(1, _BLOCK // (max(activations.shape) * num_classes))
    for first in range(0, number, block):
        orders = [rng.permutation(len(labels)) for _ in range(min(block, number - first))]
        grouped = np.concatenate([weights[order] for order in orders], axis=1)
        means = (activations @ grouped).reshape(len(activations), -1, num_classes)
        yield np.square(_differences(means)).sum(axis=(0, 2))


def _outliers(means: np.ndarray, mask: np.ndarray) -> coding.Outliers:
    """Outliers with the classes on which each is closer to its largest class mean than to its smallest."""
    middle = (means.max(axis=1, keepdims=True) + means.min(axis=1, keepdims=True)) / 2
    return coding.Outliers((means > middle) & mask[:, None], mask, mask.sum())


def _share_in_span(readouts: np.ndarray, means: np.ndarray) -> float:
    frame, scales, _ = np.linalg.svd(_differences(means), full_matrices=False)
    frame = frame[:, scales > 1e-9 * scales[0]]
    return float(np.square(frame.T @ readouts).sum() / np.square(readouts).sum())


def _p_value(as_extreme: np.ndarray) -> float:
    """Of a random draw among the draws, itself counted."""
    return float((1 + as_extreme.sum()) / (1 + as_extreme.size))


def _checked(
    activations: ArrayLike, labels: ArrayLike, readouts: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    phi = validation.array("activations", activations, "N, P")
    if len(phi) < 2:
        raise ValueError("activations: got one neuron, a coding scheme needs at least two")
    if np.shape(labels) == phi.shape[:1] != phi.shape[1:]:
        raise ValueError(f"labels: got one for each of {len(phi)} rows of (N, P): transpose activations?")
    if np.asarray(labels).dtype.kind in "SU":
        labels = np.unique(np.asarray(labels), return_inverse=True)[1]
    classes = validation.labels("labels", labels, phi.shape[1])
    if not classes.any():
        raise ValueError("labels: got one class, a coding scheme needs at least two")
    if readouts is not None:
        readouts = validation.array("readouts", readouts, "N, m", N=len(phi))
        if not readouts.any():
            raise ValueError("readouts: are all zero")
    return phi, classes, readouts
