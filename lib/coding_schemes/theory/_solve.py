"""One call for every theory: the task and the network decide which solver answers."""

import inspect
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coding_schemes import validation
from coding_schemes.networks import Network, Nonlinearity, is_bounded
from coding_schemes.tasks import Task
from coding_schemes.theory import (
    clustered,
    condensation,
    deep_sigmoidal,
    gaussian_process,
    linear,
    relu,
    relu_squared,
    sigmoidal,
)
from coding_schemes.theory._kinds import OrthogonalKinds
from coding_schemes.theory._solvers import check_training_inputs, overlaps

_MOST_INDEPENDENT = 0.4  # share of directions in use; 0.07 for a hundred digits, 1 for orthogonal inputs


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
        ReLU and softplus, orthogonal inputs        relu (depth 1)
        max(0, z)², orthogonal inputs               relu_squared (depth 1)
        bounded φ, inputs alike within a class      clustered (depth 1)
        φ that grows like z, the same               clustered (depth 1, at most three outputs)
        ReLU and softplus there that condense       condensation
        bounded φ and ReLU, any other inputs        mean_field (depth 1, T > 0)

    Inputs are recognized by K0 (to 1e-10 of its diagonal), those of one target per class alone: one overlap
    within every class, none between. mean_field neglects the fluctuations of a neuron's preactivations, all
    others are exact at N → ∞ (relu and relu_squared: and P → ∞; condensation: N ≪ N*); each solution's own
    docstring says so.

    All solutions have the same face. Neurons come in kinds γ, one or more, each with a fraction P_γ of the
    neurons, a mean readout a_γ and mean activations φ_γ; outliers, kinds of one neuron each, come first, with
    P_γ = 1 and in units of their own in which f = Σ_γ P_γ φ_γ a_γ holds as for the others.

        probabilities (n,)   readouts (n, m)   activations (n, C) per class   codes (n, C) bool
        num_outliers   dual_field t, (C, m) where inputs are orthogonal and (P, m) elsewhere
        predict(inputs) (P*, m) for inputs (N0, P*)   kernel() of the feature layer, (P, P)
        residual   num_steps   converged

    Args:
        task: what is learned.
        network: the architecture; its width counts only if `finite_width` is asked for.
        temperature: T ≥ 0; where scaling is "non-lazy" the rescaled one of paper A.
        readout_variance: σ_a²; as in `Posterior` unless given (relu_squared: 1/P alone).
        finite_width: with the corrections in 1/N that linear, relu and relu_squared have (the first and last
            at any T > 0 and T ≥ 0); N → ∞ otherwise.
        **options: of the solver's own `solve`, such as `tolerance`.

    Returns:
        A Solution of the solver that fits; relu's FiniteSize for a finite width.

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
    validation.positive(readout_variance=readout_variance)
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
    bounded, has_class_targets = is_bounded(network.phi), _has_class_targets(task)
    if task.is_orthogonal and bounded and has_class_targets:
        return _bounded(task, depth, phi, temperature, {"readout_variance": readout_variance, **options})
    if (
        depth == 1
        and task.is_orthogonal
        and has_class_targets
        and phi in ("relu", "softplus", "relu_squared")
    ):
        return _rectified(task, phi, temperature, readout_variance, width, options)
    if depth == 1 and not finite_width:
        found = _alike(task, phi, temperature, readout_variance, options) if has_class_targets else None
        if found is not None:
            return found
        if bounded or phi == "relu":
            from coding_schemes.theory import mean_field

            _warn_of_fluctuations(task, bounded)
            return mean_field.solve(task, phi, temperature, readout_variance=readout_variance, **options)
    inputs = "orthogonal" if task.is_orthogonal else "general"
    raise ValueError(
        f"network: no theory for depth {depth}, {phi!r} (non-lazy) on {inputs} inputs"
        f"{' at finite width' if finite_width else ''}. There is one for linear and for lazy networks of any "
        "depth; for bounded nonlinearities on orthogonal inputs at any depth, on others at depth 1; for "
        "'relu' at depth 1; for 'softplus' and 'relu_squared' at depth 1 on orthogonal inputs. "
        "sampling.sample draws from the posterior of every network"
    )


def _has_class_targets(task: Task) -> bool:
    """Whether all inputs of a class share one target."""
    first = np.unique(task.labels, return_index=True)[1]
    return np.array_equal(task.targets[first][task.labels], task.targets)


def _warn_of_fluctuations(task: Task, bounded: bool) -> None:
    """What mean_field neglects is of order one where each input has a direction of its own."""
    kernel = task.input_kernel
    independent = np.trace(kernel) ** 2 / (len(kernel) * np.sum(kernel**2))
    if bounded and independent > _MOST_INDEPENDENT:
        warnings.warn(
            "theory.solve: mean_field answers, which neglects fluctuations of the preactivations, but inputs "
            f"are nearly independent ((tr K0)²/(P tr K0²) = {independent:.2f}): shares and kernels may be "
            "off by half. sampling.sample, or adaptive_kernel.solve(method='population'), has them",
            stacklevel=3,
        )


def _rectified(task, phi, temperature, readout_variance, width, options):
    """ReLU's theories are for σ_a² = 1/P; others come by the readouts' scale, a = λ a', λ² = P σ_a²."""
    scale = 1.0 if readout_variance is None else float(np.sqrt(readout_variance * task.num_inputs))
    if phi == "relu_squared":
        if not np.isclose(scale, 1):
            raise ValueError(
                f"readout_variance: got {readout_variance}; this theory is for 1/P = {1 / task.num_inputs:g}"
            )
        return relu_squared.solve(task, temperature, num_neurons=width, **options)
    scaled = task if np.isclose(scale, 1) else replace(task, targets=task.targets / scale)
    validation.number("temperature", temperature, least=0)
    solution: Any = relu.solve(scaled, temperature / scale**2, nonlinearity=phi, **options)
    parts = {"temperature": temperature}
    if width is not None:
        solution = relu.finite_size(solution, width)
        parts = {"bulk_readout_covariance": scale**2 * solution.bulk_readout_covariance}
    if scaled is task:
        return solution
    return replace(
        solution,
        task=task,
        readouts=scale * solution.readouts,
        dual_field=solution.dual_field / scale,
        **parts,
    )


def _alike(task, phi, temperature, readout_variance, options):
    """The exact theory of inputs that are alike within a class; None where it does not reach."""
    known = set(inspect.signature(clustered.solve).parameters)
    if not set(options) <= known or not clustered.reaches(task, phi):
        return None
    arguments = {"nonlinearity": phi, "readout_variance": readout_variance, **options}
    if phi not in ("relu", "softplus"):
        return clustered.solve(task, temperature, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            condensed: Any = condensation.solve(
                task, temperature, nonlinearity=phi, readout_variance=readout_variance
            )
        except FloatingPointError:
            condensed = None
        if condensed is not None and condensed.converged and condensed.is_beyond_reach:
            return condensed
        found = clustered.solve(task, temperature, **arguments)
    if found.converged:
        return found
    if phi == "relu":
        warnings.warn(
            f"theory.solve: clustered theory did not converge (residual {found.residual:.1e}), and its "
            "neurons do not condense class by class. mean_field answers, which neglects fluctuations of the "
            "preactivations",
            stacklevel=3,
        )
    return None


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


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DeepSolution(deep_sigmoidal.Solution):
    """theory.deep_sigmoidal's Solution with the fields that all theories share: the last layer's."""

    task: Task
    nonlinearity: str | Nonlinearity
    num_outliers: int = 0

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Mean predictor on training inputs (N0, P*), shape (P*, m); ValueError where one is none of them."""
        overlap = overlaps(self.task, inputs)
        nearest = np.argmax(overlap, axis=1)
        if not np.allclose(self.task.inputs[:, nearest], inputs, atol=1e-6):
            raise ValueError(
                "inputs: this theory predicts its training inputs only; sampling.sample does new ones"
            )
        return (self.task.class_targets - self.training_residual)[self.task.labels[nearest]]

    def kernel(self, inputs: np.ndarray | None = None) -> np.ndarray:  # type: ignore[override]
        """Feature-layer kernel on the training inputs, shape (P, P)."""
        check_training_inputs(inputs)
        return deep_sigmoidal.Solution.kernel(self, self.task.labels)
