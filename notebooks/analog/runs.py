"""What the chapter on analog coding runs and measures: linear networks, and readout norms of all kinds."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, compare_ends, sample
from coding_schemes.tasks import Task
from coding_schemes.theory import linear, wishart_chain
from companion.findings import Estimate
from companion.workbench import Equilibrium, Run, Scan, measured, over_sizes, untrained
from scipy import stats

# T over that of one hidden layer. In linear and ReLU networks the gain from field to output grows with
# depth, so that they reach the same residual at a higher T
DEEPER_IS_WARMER = {1: 1.0, 2: 10.0, 3: 20.0}


def grow(
    key: Any, depth: int, sizes: Any, temperature: float, *, seed: int, y_minus: float = 0.0, **options: Any
) -> list[Run]:
    """Linear networks of a depth over sizes N = P, deeper ones at a higher T; options are `draw`'s."""
    task, network = partial(tasks.toy, y_minus=y_minus, seed=seed), Network(depth, 1, "linear")
    return over_sizes(key, sizes, task, network, DEEPER_IS_WARMER[depth] * temperature, **options)


def size(run: Run | list[Run], **more: Any) -> dict[str, Any]:
    """Sizes of a run, or of one over sizes, for a finding."""
    runs = run if isinstance(run, list) else [run]
    several = [each.task.num_inputs for each in runs]
    shared: dict[str, Any] = {"L": runs[0].posterior.network.depth}
    shared |= {name: several if isinstance(run, list) else several[0] for name in ("N", "P")}
    chains = {"T": runs[0].samples.temperature, "chains": len(runs[0].readouts)}
    return shared | more | chains


# ---- one hidden layer ---------------------------------------------------------------------------


def gaussian_pvalue(readouts: np.ndarray, covariance: np.ndarray) -> np.float64:
    """Whether readouts are Gaussian with a covariance: Kolmogorov–Smirnov tests, by Fisher's method.

    One test for each direction in which the covariance is diagonal.

    Args:
        readouts: independent ones, shape (…, m).
        covariance: shape (m, m).
    """
    values, vectors = np.linalg.eigh(covariance)
    white = readouts.reshape(-1, len(values)) @ vectors / np.sqrt(values)
    pvalues = np.fmax(stats.kstest(white, "norm", axis=0).pvalue, 1e-300)
    return np.float64(stats.combine_pvalues(pvalues).pvalue)


@dataclass(frozen=True)
class Regression:
    """Activations regressed on readouts, sample by sample.

    Attributes:
        slopes: averaged over the inputs of a class, shape (chains, samples, C, m).
        residual_covariance: of the residuals along the classes, e_cᵀ Cov e_c' with e_c the normalized
            indicator of class c, upper triangle, and last its trace over all other directions, per direction:
            shape (chains, samples, C(C + 1)/2 + 1).
        raw_covariance: the same of the activations themselves.
    """

    slopes: np.ndarray
    residual_covariance: np.ndarray
    raw_covariance: np.ndarray


def regress(run: Run) -> Regression:
    """Slopes of z on a and the covariance of what they leave, over the neurons of each sample."""
    readouts = run.readouts
    z = run.preactivations[0].astype(float)
    task = run.task
    gram = np.swapaxes(readouts, -1, -2) @ readouts
    slopes = np.linalg.solve(gram, np.swapaxes(readouts, -1, -2) @ z)
    free = z.shape[-2] - readouts.shape[-1]  # degrees of freedom that the regression leaves
    residuals = _along_classes(z - readouts @ slopes, task, free)
    by_class = np.swapaxes(coding.class_means(slopes, task.labels), -1, -2)
    return Regression(by_class, residuals, _along_classes(z, task, z.shape[-2]))


def _along_classes(z: np.ndarray, task: Task, free: int) -> np.ndarray:
    indicators = (task.labels[:, None] == np.arange(task.num_classes)) / np.sqrt(task.class_counts)
    along = z @ indicators
    covariance = np.swapaxes(along, -1, -2) @ along / free
    total = np.square(z).sum((-2, -1)) / free
    others = (total - np.trace(covariance, axis1=-2, axis2=-1)) / (z.shape[-1] - task.num_classes)
    upper = covariance[..., *np.triu_indices(task.num_classes)]
    return np.concatenate([upper, others[..., None]], axis=-1)


def class_slopes(slopes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Slopes (P, m) of activations on readouts, averaged over the inputs of a class: (C, m).

    Rounded to nine digits, so that what is zero by symmetry is shown as zero.
    """
    return coding.class_means(slopes.T, labels).T.round(9) + 0.0


# ---- readout norms of three nonlinearities --------------------------------------------------------


@dataclass(frozen=True)
class Norms:
    """Squared readout norms per neuron, ⟨|a_i|²⟩, over sizes N = P.

    Attributes:
        sizes: N = P.
        temperature: T.
        mean: over all networks, shape (sizes,).
        by_start: of those cooled in steps, and of those started at T at once.
        readouts: of the largest networks in their last samples, (networks, N, m).
        meetings: whether networks from the two starts meet, by size.
    """

    sizes: tuple[int, ...]
    temperature: float
    mean: Estimate
    by_start: tuple[Estimate, ...]
    readouts: np.ndarray
    meetings: list[Equilibrium]

    @property
    def exponent(self) -> Estimate:
        """Exponent of the norm in P."""
        return exponent(self.sizes, self.mean)

    @property
    def exponents_by_start(self) -> list[Estimate]:
        """The same of either start."""
        return [exponent(self.sizes, each) for each in self.by_start]


def norms(
    key: Any,
    nonlinearity: str,
    depth: int,
    temperature: float,
    *,
    readout_variance: float | None,
    sizes: tuple[int, ...],
    num_networks: int,
    num_samples: int,
    num_warmup: int,
) -> Norms:
    """Networks of a nonlinearity and depth over sizes; σ_a² is paper A's unless given."""
    factor = 1.0 if nonlinearity == "sigmoidal" else DEEPER_IS_WARMER[depth]
    options: dict[str, Any] = {"num_chains": num_networks // 2, "num_warmup": num_warmup, "thinning": 2}
    options |= {"method": HMC(1.0), "moves": ("gibbs",), "store": ("readouts", "preactivations")}
    meetings, found, last = [], [], np.empty(0)
    for k, number in enumerate(sizes):
        first, second = jax.random.split(jax.random.fold_in(key, k))
        network = Network(depth, number, nonlinearity)
        posterior = Posterior(tasks.toy(number, y_minus=0.0), network, factor * temperature, readout_variance)
        cooled = sample(posterior, first, num_samples, **options)
        at_once = sample(posterior, second, num_samples, anneal_from=factor * temperature, **options)
        met = compare_ends(cooled, at_once, posterior)
        meetings.append(Equilibrium(met.agree, met.verdict))
        readouts = [np.asarray(each.readouts, float) for each in (cooled, at_once)]
        halves = [np.square(each).sum(-1).mean(-1) for each in readouts]
        found.append([statistics.mean_and_error(each) for each in (np.concatenate(halves), *halves)])
        last = np.concatenate([each[:, -1] for each in readouts])
    mean, *by_start = (Estimate(*np.transpose(each)) for each in zip(*found, strict=True))
    return Norms(tuple(sizes), factor * temperature, mean, tuple(by_start), last, meetings)


def exact_norms(found: Norms, depth: int, readout_variance: float | None) -> np.ndarray:
    """The same of linear networks, exactly, at these N, P and T: shape (sizes,)."""
    theories = [
        wishart_chain.solve(
            tasks.toy(number, y_minus=0.0), depth, found.temperature, number, readout_variance
        )
        for number in found.sizes
    ]
    return np.array([np.trace(theory.readout_covariance) for theory in theories])


def exponent(sizes: Any, values: Estimate) -> Estimate:
    """Exponent of a power law in the sizes, fitted to values (sizes,) or (sizes, k).

    Its error is the larger of what the values' own errors make of it and of the scatter about the law.
    """
    value, error = (np.reshape(each, (len(sizes), -1)) for each in values)
    laws = [statistics.fit_power_law(sizes, *columns) for columns in zip(value.T, error.T, strict=True)]
    slopes, errors = np.transpose([(law.exponent, law.standard_error) for law in laws])
    shape = np.shape(values.value)[1:]
    return Estimate(slopes.reshape(shape), errors.reshape(shape))


# ---- depth ----------------------------------------------------------------------------------------


def overlaps(run: Run) -> np.ndarray:
    """Overlaps A_1 … A_L between outputs of the weights with which they sum the neurons of layer ℓ.

    A_ℓ = bᵀb/N with b^L = a and b^ℓ = (W^{ℓ+1})ᵀ b^{ℓ+1}/√N, of every sample: (chains, samples, L, m, m).
    The run has to store its weights.
    """
    weights = run.samples.weights
    if weights is None:
        raise ValueError('the run does not hold its weights; store=("weights", …) keeps them')
    back = run.readouts
    found = [_gram(back)]
    for hidden in reversed(weights.hidden):
        back = np.swapaxes(hidden, -1, -2) @ back / back.shape[-2] ** 0.5
        found.append(_gram(back))
    return np.stack(found[::-1], axis=2)


def _gram(back: np.ndarray) -> np.ndarray:
    return np.swapaxes(back, -1, -2) @ back / back.shape[-2]


def along(matrices: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Diagonal of matrices (…, m, m) in a basis, columns of (m, m): shape (…, m)."""
    return np.einsum("ik,...ij,jk->...k", directions, matrices, directions)


@dataclass(frozen=True)
class Grown:
    """How strongly every layer's kernel has learned, over sizes.

    Attributes:
        scan: eᵀ K_ℓ e, e the normalized indicator of class 0, a column for each layer.
        exact: the same at these N, P and T, by the chain of Wishart matrices, shape (sizes, L).
        saddle: the limit of large N, with its first correction, shape (sizes, L).
    """

    scan: Scan
    exact: np.ndarray
    saddle: np.ndarray

    def entries(self, strengths: np.ndarray) -> np.ndarray:
        """What one entry of the kernel inside class 0 has learned, (eᵀ K_ℓ e − 1)/n_0."""
        return (strengths - 1) / np.array([[run.task.class_counts[0]] for run in self.scan.runs])

    @property
    def exponents(self) -> Estimate:
        """Exponents in P of the sampled entries, shape (L,)."""
        errors = self.entries(1 + self.scan.error)
        return exponent(self.scan.sizes, Estimate(self.entries(self.scan.mean), errors))

    def exponents_of(self, strengths: np.ndarray) -> np.ndarray:
        """Exponents of entries that have no errors, shape (L,)."""
        columns = self.entries(strengths).T
        return np.array([statistics.fit_power_law(self.scan.sizes, column).exponent for column in columns])


def _indicator(task: Task) -> np.ndarray:
    return (task.labels == 0) / np.sqrt(task.class_counts[0])


def strengths(run: Run) -> np.ndarray:
    """eᵀ K_ℓ e, e the normalized indicator of class 0, of every sample: (chains, samples, L)."""
    e = _indicator(run.task)
    return np.stack([np.square(z @ e).mean(-1) for z in run.preactivations], axis=-1)


def predicted_strengths(run: Run, readout_variance: float | None = None, exact: bool = False) -> list[float]:
    """eᵀ K_ℓ e of every layer, from the saddle point with its first correction in 1/N, or exactly."""
    task, network, temperature = run.task, run.posterior.network, run.samples.temperature
    if exact:
        kernels = wishart_chain.solve(
            task, network.depth, temperature, network.width, readout_variance
        ).kernels
    else:
        kernels = linear.solve(
            task, network.depth, temperature, readout_variance, width=network.width
        ).kernels
    e = _indicator(task)
    return [e @ kernel @ e for kernel in kernels[1:]]


def grown(runs: list[Run]) -> Grown:
    """How strongly each layer's kernel has learned, over sizes, beside theory at the same N, P and T."""
    exact = np.array([predicted_strengths(run, exact=True) for run in runs])
    return Grown(measured(runs, strengths), exact, np.array([predicted_strengths(run) for run in runs]))


def learned_entries(sizes: Any, depth: int, temperature: float) -> np.ndarray:
    """What an entry of K_ℓ inside class 0 learns, of the saddle point with N = P: shape (L, sizes)."""
    found = []
    for number in sizes:
        task = tasks.toy(int(number), y_minus=0.0)
        kernels = linear.solve(task, depth, DEEPER_IS_WARMER[depth] * temperature, width=int(number)).kernels
        first, second = np.flatnonzero(task.labels == 0)[:2]
        found.append(kernels[1:, first, second])
    return np.transpose(found)


def average_kernels(run: Run) -> list[np.ndarray]:
    """Kernels of all layers, averaged over samples."""
    depth = run.posterior.network.depth
    return [coding.kernels(run.samples.activations(layer)).mean((0, 1)) for layer in range(depth)]


def untrained_kernels(key: Any, run: Run, num_networks: int = 64) -> list[np.ndarray]:
    """The same of networks from the prior."""
    layers = untrained(jax.random.split(key, num_networks), run.posterior)
    return [coding.kernels(phi).mean(0) for phi in layers]


def over_smallest(kernels: Any, run: Run) -> np.ndarray:
    """Eigenvalues of each layer's K_ℓ − K_0 over the smallest that theory has there, (L, P), ascending."""
    rank = int(np.linalg.matrix_rank(run.task.targets))
    theory = wishart_chain.solve(
        run.task, run.posterior.network.depth, run.samples.temperature, run.posterior.network.width
    )
    found = []
    for kernel, predicted in zip(kernels, theory.kernels[1:], strict=True):
        smallest = np.linalg.eigvalsh(predicted - run.task.input_kernel)[-rank]
        found.append(np.linalg.eigvalsh(kernel - run.task.input_kernel) / smallest)
    return np.array(found)
