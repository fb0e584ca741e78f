"""What the chapter on adaptive kernels runs and measures: networks of any richness γ0, and their theory."""

import contextlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from coding_schemes import coding, paths, statistics, tasks
from coding_schemes.networks import Network, is_bounded
from coding_schemes.sampling import Convergence, integrated
from coding_schemes.statistics import share_of_way
from coding_schemes.tasks import Task
from coding_schemes.theory import adaptive_kernel, dmft, features, gaussian_process, sigmoidal, wishart_chain
from coding_schemes.theory.adaptive_kernel import Solution
from companion.findings import Estimate, extrapolated, spread
from companion.workbench import Equilibrium, Run, draw, estimate, solved
from scipy.stats import kurtosis

ONE_INPUT = tasks.Task(np.ones((1, 1)), np.array([0]), np.ones((1, 1)))
LEVEL = 0.1  # gain in alignment at which a layer counts as risen


def two_classes(num_inputs: int) -> Task:
    """Orthogonal inputs, half of them with the target 1 and half with −1."""
    return tasks.toy(num_inputs, (0.5, 0.5), targets=[[1.0], [-1.0]])


def teacher_task(num_inputs: int, input_dim: int, num_test: int, seed: int) -> Task:
    """Gaussian inputs with the sign of a random linear teacher as target."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(input_dim)
    splits: list[Any] = []
    for number in (num_inputs, num_test):
        x = rng.standard_normal((input_dim, number))
        x = x[:, np.argsort(-np.sign(teacher @ x), kind="stable")]
        y = np.sign(teacher @ x)
        splits += [x, (y < 0).astype(int), y[:, None]]
    return tasks.Task(*splits)


def white_task(targets: Sequence[float]) -> Task:
    """Orthogonal inputs with these targets of one output, the positive ones first."""
    y = np.array(targets, dtype=float)
    return tasks.Task(len(y) ** 0.5 * np.eye(len(y)), (y < 0).astype(int), y[:, None])


def sampled(key: Any, task: Task, network: Network, richness: float, ridge: float, **options: Any) -> Run:
    """Networks of richness γ0 at inverse temperature β: paper A's with σ_a² = 1/γ0² and T = 1/(β γ0²)."""
    return draw(key, task, network, ridge / richness**2, 1 / richness**2, **options)


# ---- measures -----------------------------------------------------------------------------------


def entries(kernel: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean entry of kernels (..., P, P) between different inputs of one class, and of two: (..., 2)."""
    same = labels[:, None] == labels
    other = ~same
    np.fill_diagonal(same, False)
    return np.stack([kernel[..., same].mean(-1), kernel[..., other].mean(-1)], axis=-1)


def alignment(kernel: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """yᵀΦy / (|y|² ‖Φ‖_F) of kernels (..., P, P) with one target, shape (...)."""
    y = targets[:, 0]
    return np.einsum("...pq,p,q->...", kernel, y, y) / (y @ y) / np.linalg.norm(kernel, axis=(-2, -1))


def overlaps(kernels: np.ndarray, task: Task) -> np.ndarray:
    """ŷᵀΦŷ of kernels (..., P, P) with the normalized targets of a task with one output, shape (...)."""
    y = task.targets[:, 0] / np.linalg.norm(task.targets)
    return np.einsum("...pq,p,q->...", kernels, y, y)


def layer_kernels(run: Run) -> np.ndarray:
    """Kernels of all layers of every sample, shape (chains, samples, L, P, P)."""
    depth = run.posterior.network.depth
    return np.stack([coding.kernels(run.samples.activations(layer)) for layer in range(depth)], axis=2)


def rms(values: Any, axis: Any = None) -> Any:
    """Root of the mean square, over all axes unless given."""
    return np.sqrt(np.mean(np.square(values), axis))


# ---- from lazy to rich ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ends:
    """Kernel entries from lazy to rich, by theory and by sampled networks.

    Attributes:
        richness: γ0 of the theory, shape (S,).
        theory: entries inside a class and between classes, shape (S, 2).
        sampled_richness: γ0 of the networks, shape (s,).
        widths: the two N from which entries and shapes are extrapolated in 1/N.
        entries: sampled ones, shape (s, 2).
        shapes: `shape` of the preactivations, shape (s, 2).
        convergence: of all runs.
        preactivations: of the widest and richest networks, shape (chains, samples, N, P).
    """

    richness: np.ndarray
    theory: np.ndarray
    sampled_richness: np.ndarray
    widths: tuple[int, ...]
    entries: Estimate
    shapes: Estimate
    convergence: list[Convergence]
    preactivations: np.ndarray


def ends(
    key: Any, task: Task, network: Network, ridge: float, richness: Any, sampled_richness: Any, **options: Any
) -> Ends:
    """Kernel entries of one nonlinearity over γ0.

    A bounded neuron keeps its code for long, so that these networks are sampled whole, with moves that change
    codes. Others are sampled without their readouts, which is fast.
    """
    rows, convergence, dense = [], [], features.dense(task, network.phi)
    widths = (network.width // 2, network.width)
    for index, g in enumerate(map(float, sampled_richness)):
        own = jax.random.fold_in(key, index)
        if is_bounded(network.phi):
            runs = [
                sampled(each, task, replace(network, width=n), g, ridge, store=("preactivations",), **options)
                for each, n in zip((jax.random.fold_in(own, 1), own), widths, strict=True)
            ]
            kernels = [layer_kernels(run)[:, :, 0] for run in runs]
            preactivations = [run.preactivations[0] for run in runs]
            convergence += [run.convergence for run in runs]
        else:
            found = integrated.sample(own, dense, task.inputs[:, :1], g, ridge, widths, **options)
            kernels = [each.kernels for each in found]
            preactivations = [each.preactivations[..., 0, :] for each in found]
            convergence += [each.convergence for each in found]
        measured = [statistics.mean_and_error(entries(each, task.labels)) for each in kernels]
        rows.append([extrapolated(widths, each) for each in (measured, [*map(shape, preactivations)])])
    (mean, error), (form, form_error) = np.array(rows).transpose(1, 2, 0, 3)
    return Ends(
        np.asarray(richness),
        expected_entries(task, network.nonlinearity, richness, ridge),
        np.asarray(sampled_richness),
        widths,
        Estimate(mean, error),
        Estimate(form, form_error),
        convergence,
        preactivations[-1],
    )


def expected_entries(task: Task, nonlinearity: Any, richness: Any, ridge: float) -> np.ndarray:
    """Theory's kernel entries over γ0, shape (S, 2).

    At small γ0 solvers stop at residuals a little above their own tolerances, far below what entries show.
    """
    rows = []
    for g in map(float, richness):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*did not converge")
            found = adaptive_kernel.solve(task, Network(1, 1, nonlinearity), g, ridge)
        if not found.residual < adaptive_kernel.RESIDUAL_TOLERANCE:
            raise FloatingPointError(f"not solved: γ0 = {g:g}, residual {found.residual:.1e}")
        rows.append(entries(found.kernels[1], task.labels))
    return np.array(rows)


def lazy_entries(task: Task, nonlinearity: str) -> np.ndarray:
    """Entries of the kernel of random features, shape (2,)."""
    return entries(gaussian_process.prior_kernels(task.inputs, None, nonlinearity, 1)[1], task.labels)


def population_entries(
    task: Task, richness: float, ridge: float, sizes: Sequence[int], num_rounds: int, seeds: int = 8
) -> Estimate:
    """Entries of paper B's kernel of a sigmoidal network, from populations of several sizes, extrapolated."""
    arguments = task, Network(1, 1, "sigmoidal"), richness, ridge

    def one(size: int, seed: int) -> np.ndarray:
        own = {"method": "population", "num_neurons": size, "num_rounds": num_rounds, "seed": seed}
        return entries(solved(adaptive_kernel.solve, *arguments, **own).kernels[1], task.labels)

    return extrapolated(sizes, [spread([one(size, seed) for seed in range(seeds)]) for size in sizes])


def shape(preactivations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """⟨h²⟩ and ⟨|h|⟩/⟨h²⟩^½ of preactivations (chains, samples, N, P), with standard errors.

    The second is √(2/π) for a Gaussian. A fourth moment would depend on neurons that networks of this width
    do not have.
    """
    h = preactivations.astype(float)
    second, first = np.square(h).mean((2, 3)), np.abs(h).mean((2, 3))
    return statistics.mean_and_error(np.stack([second, first / np.sqrt(second)], axis=-1))


def predicted_shape(solution: Solution) -> np.ndarray:
    """The same from theory's neurons."""
    h, weights = solution.preactivations()
    share = weights / weights.sum() / h[0].size
    first, second = np.einsum("n,nap->", share, np.abs(h)), np.einsum("n,nap->", share, h**2)
    return np.array([second, first / np.sqrt(second)])


def predicted_shapes(solutions: Sequence[Sequence[Solution]]) -> Estimate:
    """`predicted_shape` of several populations (places, seeds), mean and error over seeds, (places, 2)."""
    return spread([[predicted_shape(one) for one in row] for row in solutions], axis=1)


def exact_shape(task: Task, nonlinearity: str, richness: float, ridge: float) -> np.ndarray:
    """The same of a bounded φ on orthogonal inputs, by quadrature over readouts and preactivations.

    A preactivation on class c has the density ∝ N(h) e^{φ(h) a·t_c} given the readouts a of its neuron.
    """
    variance = richness**-2
    options = {"nonlinearity": nonlinearity, "readout_variance": variance}
    solution = solved(sigmoidal.solve, task, ridge * variance, **options)
    readouts, weights = sigmoidal.readout_ensemble(solution)
    h = np.linspace(-9, 9, 4001)
    activity = np.asarray(Network(1, 1, nonlinearity).phi(jax.numpy.asarray(h)))
    pull = (readouts @ solution.dual_field.T)[..., None] * activity
    density = np.exp(pull - h**2 / 2 - pull.max(axis=-1, keepdims=True))
    density /= density.sum(axis=-1, keepdims=True)
    by_class = np.einsum("n,nch->ch", weights, density)
    average = task.class_counts @ by_class / task.num_inputs
    first, second = average @ np.abs(h), average @ h**2
    return np.array([second, first / np.sqrt(second)])


def crossover_width(solution: Solution) -> float:
    """N* = ⟨m⁴⟩/⟨m²⟩² of the neurons' mean activity m on class 0, the largest of which carry the class.

    In networks far narrower, fewer than one neuron would be of the kind that theory's population has.
    """
    h, weights = solution.preactivations()
    inside = jax.numpy.asarray(h[..., solution.task.labels == 0])
    activity = np.asarray(solution.features.phi(inside)).mean((1, 2))
    share = weights / weights.sum()
    return float(share @ activity**4 / (share @ activity**2) ** 2)


def density(preactivations: np.ndarray, solution: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Grid, 20,000 of the preactivations (chains, samples, N, P) on inputs of class 0, theory's density."""
    inside = solution.task.labels == 0
    values = preactivations[..., inside].ravel()
    h, weights = solution.preactivations()
    low, high = np.quantile(values, [1e-4, 1 - 1e-4])
    edges = np.linspace(low, high, 61)
    pairs = np.broadcast_to(weights[:, None, None], h[..., inside].shape)
    heights, _ = np.histogram(h[..., inside].ravel(), edges, weights=pairs.ravel(), density=True)
    picked = np.random.default_rng(0).choice(values, 20_000)
    return (edges[1:] + edges[:-1]) / 2, picked, heights


# ---- natural images, stored ------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A stored result: its arrays, its file, and how it was made."""

    arrays: Mapping[str, np.ndarray]
    file: str
    manifest: Mapping[str, Any]

    def __getitem__(self, name: str) -> np.ndarray:
        """An array by its name."""
        return self.arrays[name]


def stored(part: str) -> Stored:
    """What `adaptive_kernels.pairs` has left: "scatter" or "paths"."""
    name = f"data/results/cifar10-adaptive-{part}.npz"
    with np.load(paths.located(name)) as file:
        arrays = dict(file)
    manifest = json.loads(str(arrays.pop("manifest")))
    return Stored(arrays, f"{name}, of {manifest['date']}", manifest)


def stored_sampler(scatter: Stored) -> list[Equilibrium]:
    """Whether the stored networks of every width were in equilibrium."""
    return [
        Equilibrium(bool(met), str(verdict))
        for met, verdict in zip(scatter["converged"], scatter["verdicts"], strict=True)
    ]


# ---- predictions and widths -------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths:
    """Networks of one richness over widths, beside the limit of infinite width.

    Attributes:
        theory: the limit.
        lazy: the Gaussian process with the same ridge.
        less_rich: the limit at four fifths of the richness.
        widths: N, shape (n,).
        shares: of the way from lazy to adaptive that mean outputs and kernel go at 1/N → 0, shape (2,); its
            error is that of the networks and of theory's populations.
        variance: predictor's variance, mean over test inputs, shape (n,).
        predicted: theory's N Var f, the mean over several draws of its populations.
        predicted_less_rich: the same at four fifths of the richness.
        convergence: of every width.
    """

    theory: Solution
    lazy: gaussian_process.Solution
    less_rich: Solution
    widths: np.ndarray
    shares: Estimate
    variance: Estimate
    predicted: Estimate
    predicted_less_rich: np.floating
    convergence: list[Convergence]

    @property
    def slope(self) -> Estimate:
        """N Var f for N → ∞, from a line in 1/N, with the error of theory's populations."""
        scaled = [(n * v, n * e) for n, v, e in zip(self.widths, *self.variance, strict=True)]
        value, error = extrapolated(self.widths, scaled)
        return Estimate(value, np.hypot(error, self.predicted.error))

    @property
    def less_rich_shares(self) -> np.ndarray:
        """How far the theory at four fifths of the richness goes, shape (2,)."""
        return np.array(
            [share_of_way(x, *way) for x, way in zip(_both(self.less_rich), self._ways, strict=True)]
        )

    @property
    def _ways(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [*zip(_both(self.lazy), _both(self.theory), strict=True)]


def _both(solution: Any) -> tuple[np.ndarray, np.ndarray]:
    """Outputs on the task's test inputs, and kernel of the feature layer."""
    return solution.predict(solution.task.test_inputs), solution.kernels[-1]


def _shares(solution: Any, lazy: Any, theory: Any) -> np.ndarray:
    """How far a solution's outputs and kernel go on the way from lazy to adaptive, shape (2,)."""
    ways = zip(_both(solution), _both(lazy), _both(theory), strict=True)
    return np.array([share_of_way(*way) for way in ways])


def settled(solve: Callable[..., Solution], seeds: Sequence[int]) -> Solution:
    """The first population that settles: nothing bounds a ReLU neuron, and from one in a hundred one escapes.

    Raises:
        FloatingPointError: none of them does.
    """
    for seed in seeds[:-1]:
        with contextlib.suppress(FloatingPointError):
            return solve(seed=seed)
    return solve(seed=seeds[-1])


def over_widths(
    key: Any,
    task: Task,
    nonlinearity: str,
    richness: float,
    ridge: float,
    widths: Any,
    solver: Mapping[str, Any],
    num_theories: int = 4,
    **options: Any,
) -> Widths:
    """Predictors, kernels and variances of networks, readouts integrated out, over widths, beside theory."""
    inputs: Any = task.test_inputs
    network = Network(1, 1, nonlinearity)

    def theory(richness: float, seed: int) -> Solution:
        solve = partial(solved, adaptive_kernel.solve, task, network, richness, ridge, **solver)
        return settled(solve, range(seed, 4 * num_theories, num_theories))

    first, *others = theories = [theory(richness, seed) for seed in range(num_theories)]
    less_rich = theory(0.8 * richness, 0)
    lazy = gaussian_process.solve(task, nonlinearity, 1, temperature=ridge)
    runs = integrated.sample(key, first.features, inputs, richness, ridge, widths, **options)
    outputs, kernels = zip(_both(lazy), _both(first), strict=True)
    shares = [(share_of_way(run.means, *outputs), share_of_way(run.kernels, *kernels)) for run in runs]
    measured = [statistics.mean_and_error(np.stack(each, axis=-1)) for each in shares]
    value, error = extrapolated(widths, measured)
    again = np.array([_shares(each, lazy, first) for each in others])
    drawn = np.sqrt(np.square(again - 1).mean(0) / 2)  # of one population, from differences of two
    predicted = spread([each.predictor_variance(inputs, 1).mean() for each in theories])
    return Widths(
        first,
        lazy,
        less_rich,
        np.asarray(widths),
        Estimate(value, np.hypot(error, drawn)),
        Estimate(*np.array([run.variance() for run in runs]).T),
        predicted,
        less_rich.predictor_variance(inputs, 1).mean(),
        [run.convergence for run in runs],
    )


# ---- depth ------------------------------------------------------------------------------------------


def sampled_overlaps(runs: Sequence[Run]) -> list[Estimate]:
    """Overlaps of all layers' kernels with the targets, of every run."""
    return [estimate(overlaps(layer_kernels(run), run.task)) for run in runs]


def exact_overlaps(task: Task, depth: int, richness: float, ridge: float, width: int) -> np.ndarray:
    """Their averages at finite width, c_1 … c_L, by the chain of Wishart matrices."""
    found = wishart_chain.solve(task, depth, ridge / richness**2, width, readout_variance=1 / richness**2)
    return overlaps(found.kernels[1:], task)


@dataclass(frozen=True)
class Limits:
    """The last layer's overlap c_L of deep linear networks on the way to one of three limits.

    Attributes:
        over: X = γ0²|y|², or L, on the way to the limit, shape (n,).
        averages: exact averages over networks, extrapolated to N → ∞ from several widths, shape (n,).
        saddle: the saddle point's, shape (n,).
        richer: the saddle point's at a γ0 larger by a tenth.
        limit: the limiting formula's, shape (n,).
        other: another regime's formula, shape (n,).
    """

    over: np.ndarray
    averages: np.ndarray
    saddle: np.ndarray
    richer: np.ndarray
    limit: np.ndarray
    other: np.ndarray


def limits(regimes: Mapping[str, Sequence[tuple[int, float]]], widths: Sequence[int]) -> dict[str, Limits]:
    """c_L over (L, X) of the lazy, rich and deep regimes, two orthogonal inputs, a ridge of c_L/1000."""
    task = two_classes(2)

    def one(depth: int, richness_sq: float, regime: str) -> list[float]:
        limit = getattr(adaptive_kernel.overlaps(depth, richness_sq), regime)
        other = getattr(adaptive_kernel.overlaps(depth, richness_sq), "lazy" if regime == "rich" else "rich")
        ridge, richness = 1e-3 * limit, (richness_sq / np.sum(task.targets**2)) ** 0.5
        last = [exact_overlaps(task, depth, richness, ridge, width)[-1] for width in widths]
        saddle, richer = (
            adaptive_kernel.overlaps(depth, factor * richness_sq, ridge).overlaps[-1] for factor in (1, 1.21)
        )
        average, _ = statistics.infinite_width(widths, last, np.ones(len(widths)))
        return [float(average), saddle, richer, limit, other]

    found = {}
    for regime, places in regimes.items():
        over = np.array([depth if regime == "deep" else x for depth, x in places])
        found[regime] = Limits(over, *np.transpose([one(*place, regime) for place in places]))
    return found


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of any lengths as one array, NaN behind the shorter ones: limits may have places of their own."""
    longest = max(map(len, rows))
    return np.array(
        [np.pad(np.asarray(row, float), (0, longest - len(row)), constant_values=np.nan) for row in rows]
    )


@dataclass(frozen=True)
class Alignments:
    """Alignment of all layers' kernels with targets over γ0.

    Attributes:
        richness: γ0, ascending, shape (S,).
        lazy: of random features, layer 1 … L, shape (L,).
        values: of networks, averaged over samples, shape (S, chains, L).
        convergence: of all runs.
    """

    richness: np.ndarray
    lazy: np.ndarray
    values: np.ndarray
    convergence: list[Convergence]

    @property
    def mean(self) -> Estimate:
        """Mean over chains, shape (S, L)."""
        return spread(self.values, axis=1)

    @property
    def steps(self) -> Estimate:
        """Growth from each γ0 to the next, shape ((S − 1) L,), layers within γ0."""
        value, error = self.mean
        return Estimate(np.diff(value, axis=0).ravel(), np.hypot(error[1:], error[:-1]).ravel())

    @property
    def onsets(self) -> np.ndarray:
        """log γ0 at which the gain over random features reaches LEVEL, shape (chains, L).

        The largest γ0 where it never does.
        """
        gains = np.maximum.accumulate(self.values - self.lazy, axis=0)
        grid = np.log(self.richness)
        return np.array(
            [[_crossing(grid, column) for column in chain.T] for chain in np.swapaxes(gains, 0, 1)]
        )


def _crossing(grid: np.ndarray, gains: np.ndarray) -> float:
    above = np.flatnonzero(gains >= LEVEL)
    if not len(above):
        return grid[-1]
    k = above[0]
    if k == 0:
        return grid[0]
    return float(np.interp(LEVEL, gains[k - 1 : k + 1], grid[k - 1 : k + 1]))


def alignments(
    runs: Mapping[float, Run], targets: np.ndarray, measure: Callable[..., np.ndarray] = alignment
) -> Alignments:
    """Alignment of sampled networks' kernels with targets, or with what is at right angles to them."""
    first = next(iter(runs.values()))
    network = first.posterior.network
    lazy = gaussian_process.prior_kernels(first.task.inputs, None, network.nonlinearity, network.depth)[1:]
    values = [measure(layer_kernels(run), targets).mean(1) for run in runs.values()]
    return Alignments(
        np.array([*runs]),
        measure(lazy, targets),
        np.array(values),
        [run.convergence for run in runs.values()],
    )


def alignment_across(kernel: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Mean `alignment` with all directions at right angles to one target, shape (...)."""
    trace = np.trace(kernel, axis1=-2, axis2=-1) / np.linalg.norm(kernel, axis=(-2, -1))
    return (trace - alignment(kernel, targets)) / (len(targets) - 1)


# ---- little richness --------------------------------------------------------------------------------


def expansion_errors(task: Task, network: Network, ridge: float, richness: Any) -> np.ndarray:
    """Distance of the exact feature kernel from its expansion in γ0², to orders zero and one: (S, 2)."""
    series = adaptive_kernel.expansion(task, network, ridge)
    rows = []
    for g in richness:
        exact = solved(adaptive_kernel.solve, task, network, float(g), ridge, method="quadrature").kernels[-1]
        orders = (series.kernels[-1], series.kernels[-1] + g**2 * series.kernel_changes[-1])
        rows.append([np.linalg.norm(exact - each) for each in orders])
    return np.array(rows)


# ---- gradient flow ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flows:
    """Gradient flow of networks over widths, and of populations at N → ∞.

    Attributes:
        limit: the population.
        lazy: a population with hardly any richness.
        widths: N, shape (n,).
        losses: of the networks on training and new inputs, shape (n, networks, 2, times).
        distances: rms over time and new inputs of every network's outputs from the population's, and from the
            lazy population's, shape (n, networks, 2).
    """

    limit: dmft.Path
    lazy: dmft.Path
    widths: np.ndarray
    losses: np.ndarray
    distances: np.ndarray

    def at(self, places: Any) -> Estimate:
        """Losses at some times, extrapolated in 1/N from the two largest widths, shape (2, places)."""
        rows = [spread(self.losses[k][..., places]) for k in (-2, -1)]
        return extrapolated(self.widths[-2:], rows)

    def exponents(self) -> Estimate:
        """Exponents in N of both distances, shape (2,), with errors over the networks."""
        logs = np.log(self.distances)
        x = np.log(self.widths) - np.log(self.widths).mean()
        return spread(np.einsum("n,nrk->rk", x, logs) / (x @ x))


def losses(path: dmft.Path) -> np.ndarray:
    """On training and on new inputs, shape (2, times)."""
    return np.array([path.train_loss, path.test_loss])


def flows(
    task: Task, richness: float, weight_decay: float, widths: Any, num_networks: int, **options: Any
) -> Flows:
    """Gradient flow of ReLU networks over widths, and their limit."""

    def path(richness: float, **own: Any) -> Any:
        return dmft.population(task, "relu", richness, weight_decay, average_steps=0, **options, **own)

    limit, lazy = path(richness), path(0.05)
    networks = [
        [
            path(richness, num_neurons=width, network=True, seed=seed, step=limit.step)
            for seed in range(num_networks)
        ]
        for width in widths
    ]
    distances = [
        [[rms(each.test_outputs - one.test_outputs) for one in (limit, lazy)] for each in row]
        for row in networks
    ]
    return Flows(
        limit, lazy, np.asarray(widths), np.array([[losses(n) for n in row] for row in networks]),
        np.array(distances),
    )  # fmt: skip


# ---- losses over training time, stored ----------------------------------------------------------------


def time_to(losses: np.ndarray, times: np.ndarray, fraction: float = 0.5) -> np.ndarray:
    """log of the time at which losses (..., times) have fallen to a fraction of those at the start."""
    target = fraction * losses[..., :1]
    first = np.maximum(np.argmax(losses <= target, axis=-1), 1)
    take = lambda k: np.take_along_axis(losses, k[..., None], -1)[..., 0]  # noqa: E731
    before, after = take(first - 1), take(first)
    part = (before - target[..., 0]) / (before - after)
    return np.log(times[first - 1] + part * (times[first] - times[first - 1]))


# ---- what is left at rest ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """Moments of networks at rest on white inputs, over λ.

    Attributes:
        moments: ⟨w²⟩ and ⟨φ(h_μ)²⟩ of every input, mean over networks, shape (λ, 1 + P).
        negative: share of ⟨h²⟩ that lies at h < 0, shape (λ,).
    """

    moments: np.ndarray
    negative: np.ndarray


def fixed_points(task: Task, decays: Sequence[float], num_neurons: int, num_networks: int) -> Fixed:
    """ReLU networks, γ0 = 1, followed until they rest."""
    thresholds = dmft.collapse(task.targets, 1.0, decays[0]).thresholds

    def one(decay: float, seed: int) -> np.ndarray:
        duration = 25 / min(abs(decay - each) for each in (*thresholds, 0.0))
        path = dmft.population(
            task, "relu", 1.0, decay, duration=duration, num_neurons=num_neurons, network=True, seed=seed,
            average_steps=0, num_records=4,
        )  # fmt: skip
        h, w = path.preactivations[:, 0], path.readouts[:, 0, 0]
        below = np.square(np.minimum(h, 0)).mean() / max(np.square(h).mean(), 1e-9)
        return np.array([np.square(w).mean(), *np.square(np.maximum(h, 0)).mean(0), below])

    found = np.array([[one(decay, seed) for seed in range(num_networks)] for decay in decays]).mean(1)
    return Fixed(found[:, :-1], found[:, -1])


def expected_moments(task: Task, decays: Sequence[float], groups: int = 2) -> np.ndarray:
    """The same by closed form: max(γ0Y − λ, 0) of every group of targets, shared as y_μ²/Y²; γ0 = 1.

    With one group, the positive and negative targets would share their neurons, as in a linear network.
    """
    y = task.targets[:, 0]
    sides = [y > 0, y < 0] if groups == 2 else [np.full(len(y), True)]
    norms = [np.linalg.norm(y[side]) for side in sides]
    kind = "relu" if groups == 2 else "linear"
    rows = []
    for decay in decays:
        second = dmft.collapse(task.targets, 1.0, decay, kind).second_moments
        by_input = np.sum(
            [s * (y * side / n) ** 2 for s, side, n in zip(second, sides, norms, strict=True)], 0
        )
        rows.append([np.sum(second), *by_input])
    return np.array(rows)


def second_moment(decay: float, num_neurons: int = 2048) -> np.floating:
    """⟨h²⟩ at the end of training on one input with the target 1, γ0 = 1."""
    duration = 25 / decay if decay else 60.0
    path = dmft.population(
        ONE_INPUT, "relu", 1.0, decay, duration=duration, num_neurons=num_neurons, average_steps=0
    )
    return np.mean(path.preactivations**2, dtype=float)


def final_kurtosis(start: str, num_neurons: int, num_networks: int) -> np.ndarray:
    """Excess kurtosis and variance of h after training linear networks on one input: (networks, 2)."""
    options: dict[str, Any] = {"num_neurons": num_neurons, "average_steps": 0, "dtype": np.float64}
    rows = []
    for seed in range(num_networks):
        path = dmft.population(
            ONE_INPUT, "linear", 1.0, 0.3, duration=60, start=start, network=True, seed=seed, **options
        )
        h = path.preactivations.ravel()
        rows.append([kurtosis(h, bias=False), np.mean(h**2)])
    return np.array(rows)
