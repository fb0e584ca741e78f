"""Coding measures: what a population's activations say about the classes.

Activations φ have shape (…, N, P): neurons before inputs, with any leading axes such as (chains, samples).
Labels are the inputs' classes 0 … C − 1, shape (P,), and each has an input; ValueError where they do not fit.
A code is the set of classes that activate a neuron, kept as booleans (…, N, C) and written "1-1-0".
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from coding_schemes import validation

ACTIVE_THRESHOLD = 0.5  # half-way up the sigmoidal nonlinearity


def class_means(activations: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Mean activation (…, N, C) of neurons (…, N, P) on classes (P,), ⟨φ_i⟩_c = Σ_{μ∈c} φ_iμ / n_c."""
    activations, labels = _checked(activations, labels)
    members = labels[:, None] == np.arange(labels.max() + 1)
    return activations @ (members / members.sum(0)).astype(activations.dtype)


def class_deviations(activations: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Standard deviation (…, N, C) of every neuron's activation across the inputs of each class.

    Over the class mean it is the coefficient of variation, which vanishes for ReLU outliers.
    """
    activations, labels = _checked(activations, labels)
    return np.stack([activations[..., labels == c].std(axis=-1) for c in range(labels.max() + 1)], axis=-1)


def codes(activations: ArrayLike, labels: ArrayLike, threshold: float = ACTIVE_THRESHOLD) -> np.ndarray:
    """Codes (…, N, C) of all neurons, as booleans: the classes with ⟨φ_i⟩_c above the threshold.

    ½ suits the sigmoidal nonlinearity, `coding.threshold` gives that of others; for ReLU see `outliers`.

    Source: paper A, "Coding schemes in sigmoidal networks"; the threshold is this book's.
    """
    return class_means(activations, labels) > validation.number("threshold", threshold)


def threshold(phi: Callable[..., ArrayLike]) -> float:
    """The mean activation above which a class is in a neuron's code: (inf φ + sup φ)/2 of a bounded φ.

    ½ for the sigmoidal nonlinearity, 0 for tanh and erf; ValueError where φ is not bounded, see `outliers`.
    """
    values = np.asarray(phi(np.concatenate([[-1e6, -1e4], np.linspace(-20, 20, 2001), [1e4, 1e6]])))
    if not np.max(np.abs(values)) < 1e3:
        raise ValueError(f"phi: got {phi}, which is not bounded, so it has no middle; see coding.outliers")
    return 0.5 * float(values.min()) + 0.5 * float(values.max())


def code_name(code: ArrayLike) -> str:
    """A code as the paper writes it, "1-1-0"."""
    return "-".join(str(int(active)) for active in validation.array("code", code, "C"))


def shares_text(codes: ArrayLike, fractions: ArrayLike, errors: ArrayLike | None = None) -> str:
    """The first four codes with their shares, and in brackets the standard error of the last digit.

    >>> shares_text([[1, 1, 0], [0, 1, 1]], [0.304, 0.696], [0.021, 0.004])
    '1-1-0 30(2) %, 0-1-1 69.6(4) %'
    >>> shares_text(np.eye(6), np.full(6, 1 / 6))[-29:]
    '0-0-0-1-0-0 16.7 % and 2 more'
    """
    codes, percent = np.asarray(codes), 100 * np.asarray(fractions)
    errors = np.zeros(len(codes)) if errors is None else 100 * np.asarray(errors)
    parts = []
    for code, share, error in zip(codes[:4], percent, errors):
        digits = max(0, -int(np.floor(np.log10(error)))) if error > 0 else 1
        bracket = f"({error * 10**digits:.0f})" if error > 0 else ""
        parts.append(f"{code_name(code)} {share:.{digits}f}{bracket} %")
    return ", ".join(parts) + (f" and {len(codes) - 4} more" if len(codes) > 4 else "")


class Occupancy(NamedTuple):
    """How many neurons use which code.

    Attributes:
        codes: the codes in use, most frequent first, shape (n, C).
        fractions: fraction of the neurons with each of them, shape (n,).
        binomial_errors: standard errors of the fractions for independent neurons and frozen codes, so with
            chains × N draws however many samples there are, shape (n,).
        chain_errors: standard errors from the spread between chains, shape (n,); NaN for one chain.
    """

    codes: np.ndarray
    fractions: np.ndarray
    binomial_errors: np.ndarray
    chain_errors: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """The codes in use as text."""
        return tuple(code_name(code) for code in self.codes)

    @property
    def standard_errors(self) -> np.ndarray:
        """The larger of the two standard errors, shape (n,)."""
        return np.fmax(self.binomial_errors, self.chain_errors)

    def __repr__(self) -> str:
        return f"<Occupancy: {shares_text(self.codes, self.fractions, self.standard_errors)}>"

    def fraction(self, code: ArrayLike | str) -> float:
        """Fraction of the neurons with this code ("1-1-0", or booleans); 0 if none has it."""
        name = code if isinstance(code, str) else code_name(code)
        return dict(zip(self.names, self.fractions.tolist())).get(name, 0.0)


def occupancy(neuron_codes: ArrayLike) -> Occupancy:
    """Fractions of the neurons that use each code, with standard errors.

    Args:
        neuron_codes: booleans, shape (N, C), (samples, N, C) or (chains, samples, N, C), else ValueError.
    """
    neuron_codes = _checked_codes(neuron_codes)
    if neuron_codes.ndim > 4:
        raise ValueError(
            f"neuron_codes: got shape {neuron_codes.shape}, needs (chains, samples, N, C) at most"
        )
    chains = neuron_codes.reshape((1,) * (4 - neuron_codes.ndim) + neuron_codes.shape)
    used, which = np.unique(chains.reshape(-1, chains.shape[-1]), axis=0, return_inverse=True)
    which = which.reshape(chains.shape[:-1])
    per_chain = np.stack([np.mean(which == g, axis=(1, 2)) for g in range(len(used))])  # (n, chains)
    fractions = per_chain.mean(axis=1)
    order = np.argsort(-fractions, kind="stable")
    num_chains, num_neurons = chains.shape[0], chains.shape[2]
    binomial = np.sqrt(fractions * (1 - fractions) / (num_chains * num_neurons))
    several = num_chains > 1
    between = per_chain.std(axis=1, ddof=1) / num_chains**0.5 if several else np.full(len(used), np.nan)
    return Occupancy(used[order], fractions[order], binomial[order], between[order])


def participation(activations: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Fraction ρ (…) of the neurons that carry the difference between the classes (participation ratio).

        ρ = (Σ_i s_i)² / (N Σ_i s_i²),   s_i = Σ_c (⟨φ_i⟩_c − mean over classes)²

    For two classes it is 1 if all neurons tell them apart equally well (redundant), 1/3 if the differences
    are Gaussian (analog, and random features), and n/N if n neurons alone do (sparse). NaN where none does.
    """
    means = class_means(activations, labels).astype(float)
    strength = means.var(axis=-1)
    with np.errstate(invalid="ignore"):
        return strength.sum(axis=-1) ** 2 / (strength.shape[-1] * np.square(strength).sum(axis=-1))


def class_participation(activations: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Number of neurons that carry each class, a participation ratio of class-mean activities, shape (…, C).

        PR_c = (Σ_i m_ic²)² / Σ_i m_ic⁴,   m_ic = ⟨φ_i⟩_c

    1 where a single neuron answers to a class, N where all do alike, N/3 for Gaussian class means; NaN where
    none answers. Not to be confused with `participation`, the fraction of neurons that tell classes apart.
    """
    squares = np.square(class_means(activations, labels).astype(float))
    with np.errstate(invalid="ignore"):
        return squares.sum(axis=-2) ** 2 / np.square(squares).sum(axis=-2)


def sort_by_activity(activations: ArrayLike) -> np.ndarray:
    """Indices (…, N) of the neurons of φ (…, N, P) in order of falling mean squared activity.

    As in the paper's figures of analog codes.
    """
    activations = validation.array("activations", activations, "…, N, P", dtype=None)
    return np.argsort(-np.square(activations).mean(axis=-1), axis=-1, kind="stable")


def sort_by_code(neuron_codes: ArrayLike, activations: ArrayLike) -> np.ndarray:
    """Neurons (N,) of one sample grouped by code, most frequent code first; in a group by falling activity.

    Codes are booleans (N, C), activations (N, P).
    """
    neuron_codes = _checked_codes(neuron_codes)
    if neuron_codes.ndim != 2:
        raise ValueError(f"neuron_codes: got shape {neuron_codes.shape}, needs (N, C): one sample")
    _, which, counts = np.unique(neuron_codes, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    activations = validation.array("activations", activations, "N, P", N=len(neuron_codes))
    activity = np.square(activations).mean(axis=-1)
    return np.lexsort((-activity, which, -counts[which]))


def kernels(activations: ArrayLike) -> np.ndarray:
    """Kernel of every sample, K = φᵀφ/N: shape (…, P, P) for φ of shape (…, N, P)."""
    activations = validation.array("activations", activations, "…, N, P", dtype=None)
    return np.swapaxes(activations, -1, -2) @ activations / activations.shape[-2]


def kernel_alignment(kernel: ArrayLike, other: ArrayLike, centered: bool = False) -> np.ndarray:
    """Cosine between two symmetric kernels (…, P, P) as vectors, tr(K K') / (‖K‖ ‖K'‖), shape (…).

    With Y Yᵀ the alignment to the task; `centered` removes the mean over inputs first, K → H K H with
    H = 1 − 11ᵀ/P (known as CKA).
    """
    kernel = validation.array("kernel", kernel, "…, P, P", dtype=None)
    other = validation.array("other", other, "…, P, P", dtype=None, P=kernel.shape[-1])
    if centered:
        kernel, other = _doubly_centered(kernel), _doubly_centered(other)
    return np.sum(kernel * other, axis=(-2, -1)) / (
        np.linalg.norm(kernel, axis=(-2, -1)) * np.linalg.norm(other, axis=(-2, -1))
    )


class Outliers(NamedTuple):
    """Neurons whose activity stands out of the bulk's.

    Attributes:
        codes: the classes on which a neuron stands out, all False in the bulk, shape (…, N, C).
        mask: whether a neuron is an outlier, shape (…, N).
        counts: number of outliers, shape (…).
    """

    codes: np.ndarray
    mask: np.ndarray
    counts: np.ndarray


def outliers(activations: ArrayLike, labels: ArrayLike, share: float | None = None) -> Outliers:
    """Outlier neurons of a sparse coding scheme, and the classes they code for.

    An outlier carries a share of O(1) of the population's squared activity on its classes,
    s_ic = ⟨φ_i²⟩_c / Σ_j ⟨φ_j²⟩_c, and a neuron of the bulk one of O(1/N). The default threshold `share`,
    between 0 and 1, lies between them, 1/√N, so that up to about √N parallel outliers that share one code are
    still told from the bulk; each of them counts. Where K0 has a few large eigenvalues, as on images, the
    strongest of a hundred neurons of an untrained network may pass it: raise `share`, or compare with prior
    draws.

    Source: paper A, "Coding schemes in ReLU networks"; the criterion is this book's.
    """
    activations, labels = _checked(activations, labels)
    per_class = class_means(np.square(activations), labels)
    if share is None:
        share = per_class.shape[-2] ** -0.5
    validation.number("share", share, above=0, below=1)
    standing_out = per_class > share * per_class.sum(axis=-2, keepdims=True)
    mask = standing_out.any(axis=-1)
    return Outliers(standing_out, mask, mask.sum(axis=-1))


class SparseMeasures(NamedTuple):
    """A sparse scheme in numbers: the strongest neuron of every class, and the average over all others.

    Attributes:
        neurons: index of the neuron that is most active on class c, shape (…, C).
        readouts: its readout weights, shape (…, C, m).
        preactivations: its mean preactivation on every class, shape (…, C, C).
        variation: standard deviation over mean of its activation across the inputs of class c, shape (…, C).
        bulk_readouts: mean readout of all other neurons, shape (…, m).
        bulk_activations: mean activation of all other neurons on every class, shape (…, C).
    """

    neurons: np.ndarray
    readouts: np.ndarray
    preactivations: np.ndarray
    variation: np.ndarray
    bulk_readouts: np.ndarray
    bulk_activations: np.ndarray


def sparse_measures(
    readouts: ArrayLike, preactivations: ArrayLike, activations: ArrayLike, labels: ArrayLike
) -> SparseMeasures:
    """Readouts and activity of each class's strongest neuron, and of the bulk that the others make up.

    Where one neuron is the strongest on two classes it stands in two rows. The bulk leaves out all
    neurons that `outliers` finds, not only the strongest. Shapes: a (…, N, m), z and φ(z) (…, N, P).

    Source: paper A, "Coding schemes in ReLU networks" and Fig. 4a,c.
    """
    means = class_means(activations, labels)
    readouts = validation.array("readouts", readouts, "…, N, m", N=means.shape[-2], dtype=None)
    num_classes = means.shape[-1]
    neurons = class_means(np.square(np.asarray(activations, float)), labels).argmax(axis=-2)
    rows = neurons[..., None]
    own = np.take_along_axis(means, rows, axis=-2)
    spread = np.take_along_axis(class_deviations(activations, labels), rows, axis=-2)
    variation = np.diagonal(spread, axis1=-2, axis2=-1) / np.diagonal(own, axis1=-2, axis2=-1)
    bulk = ~outliers(activations, labels).mask[..., None]
    return SparseMeasures(
        neurons,
        np.take_along_axis(readouts, rows, axis=-2),
        np.take_along_axis(class_means(preactivations, labels), rows, axis=-2),
        variation.reshape(*neurons.shape[:-1], num_classes),
        np.sum(readouts * bulk, axis=-2) / bulk.sum(axis=-2),
        np.sum(means * bulk, axis=-2) / bulk.sum(axis=-2),
    )


def settled_codes(means: ArrayLike, lower: float = 0.4, upper: float = 0.6) -> np.ndarray:
    """Codes along a run with a memory, so that a mean near the threshold does not count as many switches.

    A class enters a neuron's code when its mean activation rises above `upper`, leaves it when the mean
    falls below `lower`, and stays as it was in between. The first sample is judged by the middle. Class means
    ⟨φ_i⟩_c along time and codes have the shape (…, samples, N, C).
    """
    means = validation.array("means", means, "…, samples, N, C", dtype=None)
    validation.number("lower", lower, most=validation.number("upper", upper))
    settled = means > upper
    settled[..., 0, :, :] = means[..., 0, :, :] > 0.5 * (lower + upper)
    for step in range(1, means.shape[-3]):
        held = settled[..., step - 1, :, :] & (means[..., step, :, :] >= lower)
        settled[..., step, :, :] |= held
    return settled


class SwitchRate(NamedTuple):
    """How often neurons change code.

    Attributes:
        rate: switches per neuron and unit of time.
        lower, upper: exact (Clopper–Pearson) confidence bounds of the rate for independent steps; `upper` is
            positive also where no switch was seen.
        num_switches: switches seen.
        num_steps: neuron-steps watched.
        fraction_moved: fraction of the neurons whose last code differs from their first.
    """

    rate: float
    lower: float
    upper: float
    num_switches: int
    num_steps: int
    fraction_moved: float


def switch_rate(neuron_codes: ArrayLike, interval: float = 1.0, confidence: float = 0.95) -> SwitchRate:
    """Rate at which neurons change code between successive samples.

    Args:
        neuron_codes: booleans, shape (…, samples, N, C), two or more samples.
        interval: time between two samples, the unit of the rate.
        confidence: of the two-sided bounds.
    """
    neuron_codes = _checked_codes(neuron_codes)
    if neuron_codes.ndim < 3 or neuron_codes.shape[-3] < 2:
        raise ValueError(f"neuron_codes: got shape {neuron_codes.shape}, needs (…, 2 or more samples, N, C)")
    validation.positive(interval=interval)
    validation.number("confidence", confidence, above=0, below=1)
    switched = np.any(neuron_codes[..., 1:, :, :] != neuron_codes[..., :-1, :, :], axis=-1)
    moved = np.any(neuron_codes[..., -1, :, :] != neuron_codes[..., 0, :, :], axis=-1)
    bounds = binomtest(int(switched.sum()), switched.size).proportion_ci(confidence, method="exact")
    return SwitchRate(
        float(switched.mean() / interval),
        float(bounds.low / interval),
        float(bounds.high / interval),
        int(switched.sum()),
        switched.size,
        float(moved.mean()),
    )


class NeuralCollapse(NamedTuple):
    """Measures of neural collapse; all vanish where it is complete.

    Attributes:
        within_class: NC1, tr(Σ_W Σ_B⁺)/C, within-class over between-class variability, shape (…). It counts
            only fluctuations in the C − 1 directions of the means, and is O(1/N) if neurons fluctuate
            independently.
        variability: tr Σ_W / tr Σ_B, the same ratio with the fluctuations of all neurons, shape (…).
        norm_variation: NC2, standard deviation over mean of the centered class means' norms, shape (…).
        angle_deviation: NC2, mean |cos ∠(μ_c, μ_c') + 1/(C−1)| over pairs of classes, shape (…).
    """

    within_class: np.ndarray
    variability: np.ndarray
    norm_variation: np.ndarray
    angle_deviation: np.ndarray


def neural_collapse(activations: ArrayLike, labels: ArrayLike) -> NeuralCollapse:
    """Neural-collapse measures of the feature layer's activations on two classes or more.

    Class means are centered by their own mean, each class counting the same; Σ_W averages over all inputs.
    Use activations averaged over samples to judge the mean activations alone.

    Source: paper A, Discussion, "Neural collapse"; measures of Papyan, Han & Donoho, PNAS 117 (2020).
    """
    # Double precision tells the centered means' null direction from small differences between classes
    activations, labels = _checked(activations, labels)
    activations = activations.astype(float)
    num_classes = labels.max() + 1
    if num_classes < 2:
        raise ValueError("labels: got one class, neural collapse needs at least two")
    means = class_means(activations, labels)
    within = activations - means[..., labels]
    centered = means - means.mean(axis=-1, keepdims=True)
    # With Σ_B = M Mᵀ/C, tr(Σ_W Σ_B⁺)/C is the mean squared length of M⁺ (φ_μ − mean of its class).
    in_frame = np.linalg.pinv(centered, rcond=1e-9) @ within
    norms = np.linalg.norm(centered, axis=-2)
    cosines = np.swapaxes(centered, -1, -2) @ centered / (norms[..., :, None] * norms[..., None, :])
    first, second = np.triu_indices(num_classes, 1)
    return NeuralCollapse(
        np.square(in_frame).sum(axis=(-2, -1)) / labels.size,
        np.square(within).mean(axis=-1).sum(axis=-1) / np.square(norms).mean(axis=-1),
        norms.std(axis=-1) / norms.mean(axis=-1),
        np.abs(cosines[..., first, second] + 1 / (num_classes - 1)).mean(axis=-1),
    )


def class_gram(activations: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Inner products of the centered mean activations of the classes, without the noise of these means.

        G = C g C,   g_cc' = mean of φ_μ·φ_ν / N over inputs μ ≠ ν of classes c and c',   C = 1 − 11ᵀ/C

    In an equiangular tight frame G is proportional to C: equal lengths, cosines −1/(C − 1). Class means over
    finitely many inputs contain noise, in an untrained network nothing else, and noise of equal size is a
    frame, too; pairs of one input with itself, which hold the noise, are left out. Each class needs two
    inputs. Shape (…, C, C).
    """
    activations, labels = _checked(activations, labels)
    counts = np.bincount(labels)
    if counts.min() < 2:
        raise ValueError(f"labels: class {counts.argmin()} has {counts.min()} input; a pair needs two")
    means = class_means(activations, labels).astype(float)
    gram = np.swapaxes(means, -1, -2) @ means / means.shape[-2]
    own = class_means(np.square(activations), labels).astype(float).mean(axis=-2)  # mean of |φ_μ|²/N
    same = np.diagonal(gram, axis1=-2, axis2=-1)
    gram = gram + np.eye(len(counts)) * ((same - own) / (counts - 1))[..., None, :]
    return _doubly_centered(gram)


class CodeAgreement(NamedTuple):
    """How far codes on test inputs are those on training inputs.

    Attributes:
        neurons: fraction of the neurons with the same code on both.
        entries: fraction of (neuron, class) entries that agree.
        chance: what `neurons` would be if codes were matched at random, Σ_γ p_γ q_γ.
    """

    neurons: float
    entries: float
    chance: float


def code_agreement(training_codes: ArrayLike, test_codes: ArrayLike) -> CodeAgreement:
    """Agreement of codes (…, N, C) on training and on test inputs, averaged over all leading axes."""
    training_codes = _checked_codes(training_codes, "training_codes")
    test_codes = _checked_codes(test_codes, "test_codes")
    if training_codes.shape != test_codes.shape:
        raise ValueError(
            f"test_codes: got shape {test_codes.shape}, the training codes have {training_codes.shape}"
        )
    agree = training_codes == test_codes
    num_classes = training_codes.shape[-1]
    both = np.stack([training_codes, test_codes]).reshape(-1, num_classes)
    _, which = np.unique(both, axis=0, return_inverse=True)
    training, test = which.reshape(2, -1)
    length = which.max() + 1
    chance = np.bincount(training, minlength=length) @ np.bincount(test, minlength=length) / training.size**2
    return CodeAgreement(float(agree.all(axis=-1).mean()), float(agree.mean()), float(chance))


def code_transfer(
    training_activations: ArrayLike,
    training_labels: ArrayLike,
    test_activations: ArrayLike,
    test_labels: ArrayLike,
) -> np.ndarray:
    """How much of the neurons' code on training inputs is found on test inputs.

    The training code of a neuron is its mean response to each class, so that analog, redundant and sparse
    schemes are measured alike.

        R² = 1 − Σ_iμ (φ_iμ − ⟨φ_i⟩_c(μ))² / Σ_iμ (φ_iμ − ⟨φ_i⟩)²

    with both averages over training inputs, and the sums over all neurons and one split's inputs.

    Args:
        training_activations: φ, shape (…, N, P).
        training_labels: shape (P,).
        test_activations: φ of the same neurons, shape (…, N, P*).
        test_labels: shape (P*,).

    Returns:
        R² on training and on test inputs, shape (…, 2). It is 1 at best, 0 or below for none.

    Raises:
        ValueError: shapes disagree, or a value is not finite.
    """
    training = validation.array("training_activations", training_activations, "…, N, P")
    labels = validation.labels("training_labels", training_labels, training.shape[-1])
    test = validation.array("test_activations", test_activations, "…, N, P*")
    if test.shape[:-1] != training.shape[:-1]:
        raise ValueError(
            f"test_activations: got shape {test.shape}, the training activations have {training.shape}"
        )
    classes = int(labels.max()) + 1
    new = validation.labels("test_labels", test_labels, test.shape[-1], classes)
    code, center = class_means(training, labels), training.mean(axis=-1, keepdims=True)

    def explained(activations: np.ndarray, own: np.ndarray) -> np.ndarray:
        missed = np.square(activations - code[..., own]).sum((-2, -1))
        return 1 - missed / np.square(activations - center).sum((-2, -1))

    return np.stack([explained(training, labels), explained(test, new)], axis=-1)


class GeneralizationError(NamedTuple):
    """Expected squared test error of one network, output by output.

    Attributes:
        mean_error: squared error of the mean predictor, shape (m,).
        variance: variance of the predictor, shape (m,).
        total: their sum ε_r, shape (m,).
    """

    mean_error: np.ndarray
    variance: np.ndarray
    total: np.ndarray


def generalization_error(mean: ArrayLike, variance: ArrayLike, targets: ArrayLike) -> GeneralizationError:
    """Generalization error of every output, averaged over test inputs: the book's one definition.

        ε_r = (1/P*) Σ_μ { [y_μ^r − ⟨f_r(x_μ)⟩]² + Var f_r(x_μ) }

    There is no factor ½. For the error on one class of inputs, pass that class's rows. The mean predictor,
    from a theory or averaged over samples, and the targets are (P*, m); its variance is (P*, m), (P*,) if the
    same for all outputs, or a number.

    Source: paper A, "Generalization", bias–variance decomposition and ε_r.
    """
    mean = validation.array("mean", mean, "P*, m")
    targets = validation.array("targets", targets, "{}, {}".format(*mean.shape))
    variances = validation.array("variance", variance, "…")
    if variances.shape not in ((), mean.shape[:1], mean.shape):
        raise ValueError(
            f"variance: got shape {variances.shape}, needs {mean.shape}, {mean.shape[:1]} or a number"
        )
    if np.any(variances < 0):
        raise ValueError(f"variance: got {variances.min():g}, needs values of at least 0")
    if variances.ndim == 1:
        variances = variances[:, None]
    mean_error = np.square(mean - targets).mean(axis=0)
    average_variance = np.broadcast_to(variances, mean.shape).mean(axis=0)
    return GeneralizationError(mean_error, average_variance, mean_error + average_variance)


def _doubly_centered(kernel: np.ndarray) -> np.ndarray:
    rows = kernel.mean(axis=-1, keepdims=True)
    return kernel - rows - kernel.mean(axis=-2, keepdims=True) + rows.mean(axis=-2, keepdims=True)


def _checked(activations: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    activations = validation.array("activations", activations, "…, N, P", dtype=None)
    return activations, validation.labels("labels", labels, activations.shape[-1])


def _checked_codes(neuron_codes: ArrayLike, argument: str = "neuron_codes") -> np.ndarray:
    neuron_codes = np.asarray(neuron_codes)
    if neuron_codes.dtype != bool or neuron_codes.ndim < 2 or neuron_codes.size == 0:
        raise ValueError(
            f"{argument}: got shape {neuron_codes.shape} of {neuron_codes.dtype}; needs booleans (…, N, C)"
        )
    return neuron_codes
