"""One call for every theory: the task and the network decide which solver answers."""

import inspect
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from coding_schemes import validation
from coding_schemes.networks import Network, Nonlinearity, is_bounded
from coding_schemes.posterior import effective_readout_variance
from coding_schemes.tasks import Task
from coding_schemes.theory import (
    _alike_outliers,
    _shared_overlap,
    clustered,
    condensation,
    deep_sigmoidal,
    gaussian_process,
    linear,
    relu,
    relu_squared,
    sigmoidal,
)
from coding_schemes.theory._class_tables import known_shape
from coding_schemes.theory._drawn import Drawn
from coding_schemes.theory._kinds import OrthogonalKinds
from coding_schemes.theory._solution import Solved
from coding_schemes.theory._solvers import (
    check_training_inputs,
    class_means,
    class_sums,
    evaluate,
    has_class_targets,
    overlaps,
)
from coding_schemes.theory._tilted import single_site

_MOST_INDEPENDENT = 0.4  # share of directions in use; 0.07 for a hundred digits, 1 for orthogonal inputs
_NEARLY_A_TREE = 0.05  # rms difference of overlaps within pairs of classes; 0.17 for digits
_POPULATION = {"num_neurons": 1024, "num_rounds": 60, "seed": 0}  # the options of this route, too
_MOST_DIFFERENT = 0.02  # of two populations' kernels, relative; 0.002 where neurons reach all codes
_COLDEST = 1e-5  # T/σ_a² that stands for the limit T → 0; eigenvalues of the kernel are 1e-2 and more
_MOST_COUNTED = 4  # outputs of theory.condensation: a second; half a minute for five
_NEARLY_ALIKE = 0.02  # P times the mean square of overlaps: networks' kernels differ by 1 % within classes
_COHERENT, _UNEVEN = 0.05, 0.1  # n times the mean overlap of two classes; K0_μμ within a class, relative, rms
_BOUND = 30  # N* of a flat branch is too high by no more
_CROSSOVER = 0.5, 2.5  # N/N* where the number that carries a class is off by a quarter in both theories
_MOST_IN_LAYERS = 30  # inputs of deep networks
_MOST_IN_POPULATION, _QUICK = 200, 100  # inputs; above the latter with a warning of how long it takes


def solve(
    task: Task,
    network: Network,
    temperature: float,
    *,
    readout_variance: float | None = None,
    finite_width: bool = False,
    **options: Any,
) -> Any:
    """The posterior of a network that learned a task, by the theory that fits the two.

        lazy, any φ and depth, any inputs           gaussian_process
        linear, any depth, any inputs               linear
        bounded φ, orthogonal inputs                sigmoidal (depth 1), deep_sigmoidal (above)
        max(0, z)², orthogonal inputs               relu_squared (depth 1)
        bounded φ, inputs alike within a class      clustered (depth 1)
        φ that grows like z, the same               clustered (depth 1, at most three outputs)
        ReLU and softplus there, N < N*             condensation (depth 1, at most four outputs)
        the same, outliers of several classes       relu, of orthogonal inputs; its extension to ρ > 0
        ReLU, one overlap between all classes, too  condensation (depth 1, at most four outputs), N < N*
        bounded φ, trees, and nearly independent    adaptive_kernel's population (depth 1, P ≤ 200)
        bounded φ, any other inputs, more classes   adaptive_kernel's nested (above, P ≤ 30)
        leaky ReLU, trees, and nearly independent   the same population, if it converges
        gelu and its like, any other inputs         the same population
        bounded φ, ReLU, leaky, softplus, any other mean_field (depth 1)

    Inputs are recognized by K0 (to 1e-10 of its diagonal), those of one target per class alone: one overlap
    ρ ≥ 0 within every class, none between. Where φ grows, the overlaps' means stand for them if their scatter
    is small (P times its square below 0.02, as for independent inputs of 50 P dimensions).

    There ReLU and softplus have two solutions, which both hold from ρ = 0 on. A population of coding neurons
    is that of networks of N ≫ N* neurons (clustered); below, one neuron carries a class (condensation), or
    each outlier, where outliers answer to several classes or there are more than four outputs (relu, and its
    extension to ρ > 0). N* is part of the solutions: exponential in P for orthogonal inputs (19 for P = 12,
    10⁴ and more for P = 40), a power of P else. The network's width decides, against the geometric mean of
    the classes' N*. Kernel and predictor are the same to a percent, the number of coding neurons is not:
    where N/N* of a class is not far from 1 a warning says so.

    Where mean_field would neglect what matters, K0 a tree's (one overlap for every pair of classes) or
    (tr K0)²/(P tr K0²) > 0.4, with any targets, sampled neurons answer: two populations of 1024, in about
    half a second of a processor per input, to 0.3 % in shares and kernels (options num_neurons, num_rounds,
    seed); not converged if their kernels differ by 2 %. They answer, too, where one of their options is
    given; for bounded φ where no set of kinds solves mean_field's equations, as for tanh on a dozen general
    inputs; and for gelu, of which it does not hold (converged where some per cent of the neurons code: not
    for 24 orthogonal inputs). What a solution neglects is its `approximation`; for T = 0 these and mean_field
    name the temperature that stands for it.

    All solutions have the same face. Neurons come in kinds γ, one or more, each with a fraction P_γ of the
    neurons, a mean readout a_γ and mean activations φ_γ; outliers, kinds of one neuron each, come first, with
    P_γ = 1 and in units of their own in which f = Σ_γ P_γ φ_γ a_γ holds as for the others.

        probabilities (n,)   readouts (n, m)   activations (n, C) per class   codes (n, C) bool
        num_outliers   dual_field t, (C, m) where inputs are orthogonal and (P, m) elsewhere
        predict(inputs) (P*, m) for inputs (N0, P*)   kernel() of the feature layer, (P, P)
        residual   num_steps   converged   approximation

    P_γ of a bounded φ counts neurons in the *basin* of a maximum of the readouts' density where one hidden
    layer is integrated over them (sigmoidal, clustered), by *activity* elsewhere. What one counts in networks
    is by activity, and differs where a class is neither on nor off: `activity_shares(codes)` of each of them.

    Args:
        task: what is learned.
        network: the architecture; its width counts if `finite_width` is asked for, and for ReLU and softplus.
        temperature: T ≥ 0; where scaling is "non-lazy" the rescaled one of paper A.
        readout_variance: σ_a²; as in `Posterior` unless given (relu_squared: 1/P alone). Readouts and
            kernels of a network with a `weight_std` are as in `Posterior`, too (see `Network`).
        finite_width: with the corrections in 1/N that linear, relu and relu_squared have (the first and last
            at any T > 0 and T ≥ 0); N → ∞ otherwise. ReLU and softplus: of outliers of one neuron each.
        **options: of the solver's own `solve`, such as `tolerance`; those of relu's choose it.

    Returns:
        A Solution of the solver that fits; relu's FiniteSize for a finite width.

    Warns:
        UserWarning: the solver did not converge, or what its theory neglects matters here.

    Raises:
        ValueError: no theory fits, or an argument is out of range; the message names what is allowed.

    >>> from coding_schemes import networks, tasks, theory
    >>> task = tasks.toy(num_inputs=100, y_minus=-0.5)
    >>> s = theory.solve(task, networks.Network(nonlinearity="relu"), 0.01)
    >>> s.num_outliers, s.converged
    (3, True)
    >>> [int("".join(str(int(c)) for c in code), 2) for code in s.codes]  # one outlier a class, and the bulk
    [4, 2, 1, 0]
    >>> bool(abs(task.targets - s.predict(task.inputs) - 0.01 * s.dual_field[task.labels]).max() < 1e-6)
    True
    """
    validation.instance("task", task, Task)
    validation.instance("network", network, Network)
    validation.positive(**validation.given(readout_variance=readout_variance))
    if network.gain != 1:
        readout_variance = effective_readout_variance(task, network, readout_variance)
    phi, depth, width = network.nonlinearity, network.depth, network.width if finite_width else None
    with_width = ("linear", "relu", "softplus", "relu_squared")
    if finite_width and (network.scaling == "lazy" or phi not in with_width):
        raise ValueError(
            f"finite_width: got True for a {network.scaling} network with {phi!r}; the theories of non-lazy "
            "linear, ReLU, softplus and relu_squared networks have corrections in 1/N"
        )
    if network.scaling == "lazy":
        variance = 1.0 if readout_variance is None else readout_variance
        return gaussian_process.solve(task, phi, depth, temperature, variance, **options)
    if phi == "linear":
        return linear.solve(task, depth, temperature, readout_variance, width, **options)
    bounded, of_classes = is_bounded(network.phi), has_class_targets(task)
    many = depth > 1 and task.num_classes > deep_sigmoidal.MAX_CLASSES
    if task.is_orthogonal and bounded and of_classes and not many:
        return _bounded(task, depth, phi, temperature, {"readout_variance": readout_variance, **options})
    if depth == 1 and task.is_orthogonal and of_classes:
        of_alike = set(options) <= set(inspect.signature(clustered.solve).parameters) and not finite_width
        if phi == "relu_squared" or (phi in ("relu", "softplus") and not of_alike):
            return _rectified(task, phi, temperature, readout_variance, width, options)
    if depth == 1 and not finite_width:
        found = _alike(task, network, temperature, readout_variance, options) if of_classes else None
        if found is None and of_classes and not bounded:
            found = _nearly_alike(task, network, temperature, readout_variance, options)
        if found is not None:
            return found
        if bounded or _grows_like_z(phi):
            return _any_inputs(task, network, temperature, readout_variance, options)
    if depth > 1 and bounded and task.num_inputs <= _MOST_IN_LAYERS and set(options) <= set(_POPULATION):
        validation.number("temperature", temperature, least=0)
        return _population(task, network, temperature, readout_variance, options)
    inputs = "orthogonal" if task.is_orthogonal else "general"
    raise ValueError(
        f"network: no theory for depth {depth}, {phi!r} (non-lazy) on {inputs} inputs"
        f"{' at finite width' if finite_width else ''}"
        f"{'' if of_classes else ' with targets that differ within a class'}, "
        f"since {_why_not(depth, bounded, phi, finite_width)}. There is one for linear and for lazy networks "
        "of any depth; for bounded nonlinearities at depth 1 on any inputs, deeper on orthogonal ones in at "
        f"most {deep_sigmoidal.MAX_CLASSES} classes with one target each, and on any {_MOST_IN_LAYERS}; for "
        "those that grow like z at depth 1; for 'relu_squared' at depth 1 on orthogonal inputs. "
        "theory.deep_condensation has the kernels of two layers of ReLU on these and on inputs that overlap "
        "evenly within classes, and sampling.sample draws from the posterior of every network"
    )


def _why_not(depth: int, bounded: bool, phi: Any, finite_width: bool) -> str:
    """In plain words."""
    if finite_width:
        return "corrections in 1/N are known where a few numbers per class describe a neuron"
    if depth > 1 and bounded:
        return f"layers of sampled neurons reach {_MOST_IN_LAYERS} inputs"
    if depth > 1:
        return "a few large neurons in every layer carry what is learned where φ has no bound"
    if phi == "relu_squared":
        return "this φ condenses into one neuron per class, known for orthogonal inputs of one target each"
    return "what neurons do that grow large is known for φ that grows like z"


def _fluctuates(task: Task) -> bool:
    """Whether what mean_field neglects matters: each input has a direction of its own, or K0 is a tree's."""
    kernel, labels = task.input_kernel, task.labels
    left = kernel - task.mean_overlaps[0][np.ix_(labels, labels)]
    np.fill_diagonal(left, 0.0)
    independent = np.trace(kernel) ** 2 / (len(kernel) * np.sum(kernel**2))
    return independent > _MOST_INDEPENDENT or bool(np.linalg.norm(left) < _NEARLY_A_TREE * np.trace(kernel))


def _any_inputs(task, network, temperature, readout_variance, options):
    """One hidden layer by mean_field, or by sampled neurons where these are better or the only ones."""
    from coding_schemes.theory import mean_field

    validation.number("temperature", temperature, least=0)
    phi, bounded = network.nonlinearity, is_bounded(network.phi)
    holds, fluctuates = mean_field.reaches(phi), _fluctuates(task)
    condenses = phi in ("relu", "softplus")  # into outliers, which sampled neurons have not
    if phi == "relu" and not options and (found := _sharing(task, network, temperature, readout_variance)):
        return found
    few = task.num_inputs <= _MOST_IN_POPULATION and set(options) <= set(_POPULATION) and not condenses
    by_neurons = partial(_population, task, network, temperature, readout_variance, options)
    by_kinds = partial(mean_field.solve, task, phi, temperature, readout_variance=readout_variance, **options)
    if few and (not holds or set(options) - {"seed"} or (bounded and fluctuates)):
        return by_neurons()
    if not holds:
        raise ValueError(
            f"network: no theory for depth 1, {phi!r} (non-lazy) on these {task.num_inputs} inputs, but by "
            f"sampled neurons for P ≤ {_MOST_IN_POPULATION} with options {', '.join(_POPULATION)}. "
            "sampling.sample draws from the posterior of every network"
        )
    if few and (bounded or fluctuates):
        first, second = (by_neurons, by_kinds) if fluctuates else (by_kinds, by_neurons)
        found = _quietly(first)
        if found is not None and found.converged:
            return found
    else:
        second = by_kinds
    if fluctuates:
        validation.warn(
            "theory.solve: mean_field answers, which neglects fluctuations of the preactivations, but inputs "
            "are nearly independent, or a tree's: shares and kernels may be off by half. sampling.sample has "
            f"them, and for a bounded φ and P ≤ {_MOST_IN_POPULATION} a population of neurons"
        )
    return second()


def _sharing(task, network, temperature, readout_variance):
    """One ReLU neuron per class on inputs that overlap between classes, too; None where many share one."""
    if not (has_class_targets(task) and _has_directions(task)) or _shared_overlap.overlaps(task) is None:
        return None
    found = _quietly(condensation.solve, task, temperature, readout_variance=readout_variance)
    if found is None or not found.converged or network.width > _typical(found.population_width):
        return None
    if network.width > _CROSSOVER[0] * found.population_width.min():
        _warn_of_crossover(network.width, found.population_width, False)
    return found


def _grows_like_z(phi: Any) -> bool:
    """Whether φ does, but is not linear at both ends alike."""
    form = known_shape(phi)
    return form is not None and form.slopes[0] != form.slopes[1]


def _rectified(task, phi, temperature, readout_variance, width, options):
    """Orthogonal inputs: outliers of ReLU and softplus, or max(0, z)², N → ∞ or at this width."""
    if phi == "relu_squared":
        if readout_variance is not None and not np.isclose(readout_variance * task.num_inputs, 1):
            raise ValueError(
                f"readout_variance: got {readout_variance}; this theory is for 1/P = {1 / task.num_inputs:g}"
            )
        return relu_squared.solve(task, temperature, num_neurons=width, **options)
    solution = relu.solve(task, temperature, nonlinearity=phi, readout_variance=readout_variance, **options)
    if width is None:
        return solution
    _warn_of_population(task, phi, temperature, readout_variance, width)
    return relu.finite_size(solution, width)


def _alike(task, network, temperature, readout_variance, options):
    """The exact theory of inputs that are alike within a class; None where it does not reach."""
    phi, known = network.nonlinearity, set(inspect.signature(clustered.solve).parameters)
    if not set(options) <= known or clustered.class_overlaps(task) is None:
        return None
    if phi in ("relu", "softplus"):
        found = _condensing(task, phi, temperature, readout_variance, network.width, options)
    elif clustered.reaches(task, phi):
        arguments = {"nonlinearity": phi, "readout_variance": readout_variance, **options}
        if is_bounded(network.phi):
            return clustered.solve(task, temperature, **arguments)
        found = _quietly(clustered.solve, task, temperature, **arguments)
        if found is not None and found.converged:
            _warn_of_crossover(network.width, found.crossover_width, True)
    else:
        return None
    if found is not None and (found.converged or isinstance(found, relu.Solution)):
        return found.reported("theory.relu")
    why = f"theories of {phi!r} on inputs alike within a class did not converge: too few neurons code"
    if phi != "relu":
        raise ValueError(f"network: {why}. sampling.sample draws from the posterior of every network")
    validation.warn(
        f"theory.solve: {why}. mean_field answers, which neglects fluctuations of the preactivations"
    )
    return None


def _nearly_alike(task, network, temperature, readout_variance, options):
    """The same with the overlaps of every class at their mean; None where what this neglects matters."""
    counts, labels = task.class_counts, task.labels
    means, diagonal = task.mean_overlaps
    within = np.maximum(np.diag(means), 1e-8)  # not orthogonal by chance
    alike = clustered.kernel_of_form(within, diagonal, labels)
    left = task.input_kernel - alike
    scatter = float(np.linalg.norm(left - np.diag(np.diag(left)))) / task.num_inputs
    coherent = np.abs(class_sums(left, task)) / np.sqrt(np.outer(counts, counts))
    uneven = np.sqrt(np.mean(np.square(np.diag(left) / diagonal[labels])))
    if task.num_inputs * scatter**2 > _NEARLY_ALIKE * diagonal.max() ** 2 or np.any(within >= diagonal):
        return None
    if coherent.max() > _COHERENT * diagonal.max() or uneven > _UNEVEN:
        return None
    found = _alike(clustered.with_kernel(task, alike), network, temperature, readout_variance, options)
    return found and replace(found, task=task, problem=found.problem._replace(scatter=scatter))


def _quietly(solver, *arguments, **options):
    """What the solver finds, without its warnings; None where its search diverges."""
    with warnings.catch_warnings(), suppress(FloatingPointError):
        warnings.simplefilter("ignore", UserWarning)
        return solver(*arguments, **options)
    return None


def _condensing(task, phi, temperature, readout_variance, num_neurons, options):
    """One neuron per class or outlier, or a population of them, as N* says; None where neither is found."""
    arguments = {"nonlinearity": phi, "readout_variance": readout_variance}
    alone, counted = None, True
    if task.is_orthogonal and task.num_classes > len(np.unique(task.class_targets, axis=0)) == 1:
        return _rectified(task, phi, temperature, readout_variance, None, {})  # all classes are one
    if _has_directions(task):
        alone = _quietly(condensation.solve, task, temperature, **arguments)
    if alone is None or not alone.converged:
        counted = False
        if task.is_orthogonal:
            alone = _quietly(_rectified, task, phi, temperature, readout_variance, None, {})
        else:
            alone = _quietly(_alike_outliers.solve, task, temperature, **arguments)
    high = np.zeros(0) if alone is None else _population_widths(alone, num_neurons, readout_variance)
    low = high if counted else high / _BOUND
    if clustered.reaches(task, phi) and num_neurons > _typical(low):
        population = _quietly(clustered.solve, task, temperature, **arguments, **options)
        if population is not None and population.converged:
            low = high = population.crossover_width
            if num_neurons > _typical(low):
                _warn_of_crossover(num_neurons, low, True)
                return population
        elif phi == "softplus":  # on the edge of its domain: one neuron at any N
            low = high = np.full(1, np.inf)
    if alone is not None and alone.converged and len(low) and num_neurons > _CROSSOVER[0] * low.min():
        _warn_of_crossover(num_neurons, high, False, "" if counted else ", at most")
    return alone


def _has_directions(task):
    """Whether every class may have neurons of its own, in no more directions than are integrated over."""
    few = task.num_targets <= _MOST_COUNTED and len(np.unique(task.class_targets, axis=0)) > 1
    return few and bool(np.all(np.any(task.class_targets, axis=1)))


def _typical(widths):
    """Geometric mean; 0 of none."""
    return float(np.exp(np.log(widths).mean())) if len(widths) else 0.0


def _population_widths(alone, num_neurons, readout_variance):
    """N* of every class or outlier: by counting, unless what it is at least is far above N, or a bound."""
    if isinstance(alone, relu.Solution):
        variance = 1 / alone.task.num_inputs if readout_variance is None else readout_variance
        squares = np.square(alone.outlier_readouts).sum(axis=1) / variance
        costs = alone.outlier_entropy_costs * alone.task.num_inputs
        return _alike_outliers.flat_width(squares, costs)
    if isinstance(alone, condensation.Solution):
        flat = alone.crossover_width
        return flat if flat.min() > num_neurons * _BOUND / _CROSSOVER[0] else alone.population_width
    return alone.population_width


def _warn_of_population(task, phi, temperature, readout_variance, num_neurons):
    """Where corrections in 1/N are asked for of outliers that are more than one neuron each."""
    if not _has_directions(task):
        return
    arguments = {"nonlinearity": phi, "readout_variance": readout_variance}
    alone = _quietly(condensation.solve, task, temperature, **arguments)
    if alone is None or not alone.converged:
        return
    widths = _population_widths(alone, num_neurons, readout_variance)
    if num_neurons > _CROSSOVER[0] * widths.min():
        _warn_of_crossover(num_neurons, widths, False)


def _warn_of_crossover(num_neurons, widths, is_population, bound=""):
    """Where the number of coding neurons is neither one nor a population's."""
    if is_population and num_neurons >= _CROSSOVER[1] * np.max(widths):
        return
    side = f"not far {'above' if is_population else 'below'}"
    number = "a population's" if is_population else "one per outlier"
    if not is_population and num_neurons > np.max(widths):
        side = "above"  # no theory of the population reaches here
    validation.warn(
        f"theory.solve: N = {num_neurons} is {side} the crossover {clustered.width_range(widths)}{bound}. "
        f"Kernel and predictor are close, but the number of coding neurons is not {number}; for ReLU and "
        "softplus theory.condensation.solve(...).neurons(N) has it where each class has its own"
    )


def _population(task, network, temperature, readout_variance, options):
    """Sampled neurons, sorted into the codes that they are found with."""
    from coding_schemes.theory import adaptive_kernel

    variance = 1 / task.num_inputs if readout_variance is None else readout_variance
    saddle, size = (variance**-0.5, max(temperature / variance, _COLDEST)), {**_POPULATION, **options}
    if task.num_inputs > _QUICK:
        text = f"theory.solve: {size['num_neurons']} neurons, twice, answer for {task.num_inputs} inputs, in"
        validation.warn(f"{text} about {0.6 * task.num_inputs:.0f} s of one processor")
    method = "population" if network.depth == 1 else "nested"
    found = adaptive_kernel.solve(task, network, *saddle, method=method, **size)
    z, weights = found.preactivations()
    values = evaluate(network.phi, z[:, 0])
    means = class_means(values, task)
    middle = single_site(network.nonlinearity).threshold if is_bounded(network.phi) else np.inf
    codes, kind = np.unique(means > middle, axis=0, return_inverse=True)
    average = np.where(kind.ravel() == np.arange(len(codes))[:, None], weights, 0.0)
    mass = average.sum(axis=1)
    order = np.argsort(-mass, kind="stable")
    average /= mass[:, None]
    solution = PopulationSolution(
        task=task,
        temperature=temperature,
        probabilities=mass[order],
        readouts=(average @ values @ found.dual_field)[order],
        activations=(average @ means)[order],
        codes=codes[order],
        dual_field=found.dual_field / variance,
        adapted=found,
        residual=found.residual,
        num_steps=found.num_steps,
        converged=found.converged and found.disagreement < _MOST_DIFFERENT,
    )
    detail = f"two populations differ by {found.disagreement:.1%}"
    return solution.reported("theory.solve (population)", detail) if found.converged else solution


def _bounded(task, depth, phi, temperature, options):
    if depth == 1:
        kind: type = SigmoidalSolution
        found: Any = sigmoidal.solve(task, temperature, nonlinearity=phi, **options)
    else:
        kind = DeepSolution
        found = deep_sigmoidal.solve(task, depth, temperature, nonlinearity=phi, **options)
    return kind(**vars(found), task=task, nonlinearity=phi)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SigmoidalSolution(OrthogonalKinds, sigmoidal.Solution):
    """theory.sigmoidal's Solution with the fields that all theories share."""

    num_outliers: int = 0

    def activity_shares(self, codes: np.ndarray) -> np.ndarray:
        """Fraction of neurons *found* with each code (k, C) by their mean activations, shape (k,)."""
        return sigmoidal.measured_occupancies(self, codes)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor on new inputs (N0, P*), shape (P*, m).

        What the scatter of readouts within a kind adds, of order 1/P, is taken as linear in the overlaps
        with the training inputs, whose outputs come out exact.
        """
        weighted = self.probabilities[:, None] * self.mean_readouts
        missed = self.task.class_targets - self.training_residual - self._single_moments()[0].T @ weighted
        extra = overlaps(self.task, inputs) @ missed[self.task.labels]
        return self.activations_on(inputs).T @ weighted + extra

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Feature-layer kernel on the training inputs, shape (P, P)."""
        check_training_inputs(inputs)
        return sigmoidal.Solution.kernel(self, self.task.labels)


class _ByNeurons:
    """New inputs by sampled neurons; what these miss on the training inputs is taken off, linearly."""

    task: Task
    temperature: float
    dual_field: np.ndarray
    adapted: Any
    probabilities: np.ndarray
    codes: np.ndarray
    num_outliers = 0

    def activity_shares(self, codes: np.ndarray) -> np.ndarray:
        """Fraction of neurons *found* with each code (k, C), shape (k,); `probabilities` are by activity."""
        codes = validation.array("codes", codes, "k, C", C=self.codes.shape[1]).astype(bool)
        return np.all(self.codes == codes[:, None], axis=2) @ self.probabilities

    def test_kernel(self, inputs: np.ndarray) -> np.ndarray:
        """Feature-layer kernel between new inputs (N0, P*) and the training inputs, shape (P*, P)."""
        return self.adapted.test_kernel(inputs)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor on new inputs (N0, P*), shape (P*, m); exact on training inputs."""
        task, overlap, t = self.task, overlaps(self.task, inputs), self.dual_field
        exact = task.targets - self.temperature * (t if len(t) == task.num_inputs else t[task.labels])
        nearest = np.argmax(overlap, axis=1)
        if np.allclose(task.inputs[:, nearest], inputs, atol=1e-6):
            return exact[nearest]
        there = self.adapted.predict(np.concatenate([task.inputs, np.asarray(inputs, float)], axis=1))
        onto = overlap @ np.linalg.pinv(task.input_kernel, rcond=1e-10, hermitian=True)
        return there[task.num_inputs :] + onto @ (exact - there[: task.num_inputs])


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PopulationSolution(_ByNeurons, Solved):
    """The population of theory.adaptive_kernel with the fields that all theories share; kinds are codes.

    Of a φ that grows there is one kind, for all neurons, without codes: `draw` has the neurons.

    Attributes:
        task: what was learned.
        temperature: T.
        probabilities: fraction of the neurons *found* with a code, by mean activations, (n,), most first.
        readouts: their mean readout, shape (n, m).
        activations: their mean activation per class, shape (n, C).
        codes: classes with a mean activation above the middle of φ's range, shape (n, C).
        dual_field: t, shape (P, m).
        adapted: what theory.adaptive_kernel found.
    """

    task: Task
    temperature: float
    probabilities: np.ndarray
    readouts: np.ndarray
    activations: np.ndarray
    codes: np.ndarray
    dual_field: np.ndarray
    adapted: Any

    def activity_shares(self, codes: np.ndarray) -> np.ndarray:
        """Fraction of neurons *found* with each code (k, C) of a bounded φ, shape (k,)."""
        network = self.adapted.network
        if not is_bounded(network.phi):
            raise ValueError(f"solution: {network.nonlinearity!r} has no middle to tell codes by")
        return super().activity_shares(codes)

    @property
    def approximation(self) -> str:
        """What is neglected."""
        limit = "" if self.temperature else f", and T = {_COLDEST:g} σ_a² for the limit T → 0"
        return self.adapted.approximation + limit

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:
        """Feature-layer kernel on the training inputs, shape (P, P); `test_kernel` has new ones."""
        check_training_inputs(inputs)
        return self.adapted.kernels[-1]

    def draw(self, rng: np.random.Generator, labels: np.ndarray, width: int) -> Drawn:
        """Preactivations (N, P) and readouts (N, m) of N = width independent neurons, of one hidden layer."""
        if self.adapted.network.depth > 1:
            raise ValueError("solution: draws one hidden layer; theory.deep_sigmoidal draws deeper networks")
        z, weights = self.adapted.preactivations()
        z = z[rng.choice(len(z), width, p=weights), 0]
        mean = evaluate(self.adapted.network.phi, z) @ self.adapted.dual_field
        return z, mean + rng.standard_normal(mean.shape) / self.adapted.richness


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DeepSolution(_ByNeurons, deep_sigmoidal.Solution):
    """theory.deep_sigmoidal's Solution with the fields that all theories share: the last layer's."""

    task: Task
    nonlinearity: str | Nonlinearity

    @cached_property
    def adapted(self) -> Any:
        """The same in theory.adaptive_kernel, with 40,000 neurons in every layer (seconds)."""
        from coding_schemes.theory import adaptive_kernel

        return adaptive_kernel.of_deep(self, self.task, self.nonlinearity)

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:  # type: ignore[override]
        """Feature-layer kernel on the training inputs, shape (P, P); `test_kernel` has new ones."""
        check_training_inputs(inputs)
        return deep_sigmoidal.Solution.kernel(self, self.task.labels)
