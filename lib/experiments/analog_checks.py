"""The analog chapter's checks, and the arrays of its figures."""

from typing import Any

import numpy as np
from coding_schemes import coding, statistics
from coding_schemes.theory import linear
from companion import figures
from companion.checks import Control, above, absolute, beside, check, p_value, standard_errors
from companion.workbench import Run, Scan, one_network, power_laws, where
from scipy import stats

from experiments import analog
from experiments.analog import Regression, Strengths

# --- one hidden layer ---------------------------------------------------------------------------


def sample_shown(run: Run) -> dict[str, Any]:
    """Figure: the last sample of the first chain."""
    activations = run.samples.activations()[0, -1]
    return one_network(
        run,
        activations,
        coding.sort_by_activity(activations),
        "One sampled linear network. Neurons, sorted by their mean squared activity, fade out "
        "gradually: the three blocks of inputs can be told apart in the strong rows and fade "
        "with them, but no line parts neurons that code from neurons that do not. Outputs (bottom) sit on "
        f"the targets. {where(run)} Paper A, Fig. 2.",
    )


def readout_posterior(run: Run, theory: linear.Solution) -> dict[str, Any]:
    """Figure: readouts of each output against their Gaussian."""
    U = theory.readout_covariance
    grid = np.linspace(-4, 4, 201) * np.sqrt(U.max())
    return {
        "plot_function": figures.densities,
        "name": "readout_posterior",
        "caption": "Readout weights of each output are Gaussian with the covariance of the theory. Bars: "
        f"samples; lines: theory at the same N, P and T. {where(run)} Paper A, Figs 2a and 4a.",
        "samples": run.readouts[:, ::20].reshape(-1, len(U)).T,
        "grid": grid,
        "density": stats.norm.pdf(grid, scale=np.sqrt(np.diag(U))[:, None]),
        "names": [f"output {r}" for r in range(len(U))],
        "panels": True,
    }


def check_readouts(run: Run, theory: linear.Solution, wrong: np.ndarray, wrong_name: str) -> None:
    """Distribution and covariance of the readouts; the prior, and the covariance `wrong`, must fail."""
    U, label = theory.readout_covariance, f"L = {theory.depth}"
    upper = np.triu_indices(len(U))
    last = np.concatenate(run.readouts[:, -1])
    spreads = np.sqrt([np.diag(U), np.full(len(U), theory.readout_variance)])
    tests = [stats.kstest(last / spread, "norm", axis=0).pvalue.min() for spread in spreads]
    check(
        "A4",
        f"smallest p-value over outputs, Kolmogorov–Smirnov test against N(0, U), {label}",
        tests[0],
        p_value(0.01),
        control=("the prior", tests[1]),
        sampler=run.convergence,
        because="readouts of one sample are not independent at this N",
    )
    check(
        "A4",
        f"covariance of the readouts, {label}",
        *beside(statistics.mean_and_error(analog.readout_gram(run)), U[upper]),
        standard_errors(3),
        control=Control(wrong_name, expected=wrong[upper]),
        sampler=run.convergence,
        because="six numbers at three standard errors: by chance, or for corrections of higher order in 1/N",
    )


def _slopes(theory: linear.Solution, labels: np.ndarray) -> np.ndarray:
    """Theory's slopes of activations on readouts, class by output."""
    return coding.class_means(theory.feature_slopes.T, labels).T


def slopes(run: Run, regression: Regression, theory: linear.Solution) -> dict[str, Any]:
    """Figure: sampled slopes against theory's."""
    expected = _slopes(theory, run.task.labels)
    mean, error = statistics.mean_and_error(regression.slopes)
    return {
        "plot_function": figures.curves,
        "name": "slopes",
        "caption": "Activations follow readouts as the theory says. Each point is the response to one of "
        "the three classes per unit of one of the three readouts (at 0 where the readout is another "
        f"class's): samples with standard errors against theory. {where(run)} Paper A, text.",
        "x": [expected.min(), expected.max()],
        "values": [[expected.min(), expected.max()]],
        "names": ["theory"],
        "colors": [figures.COLORS["linear"]],
        "sampled_x": expected.ravel(),
        "sampled": [mean.ravel()],
        "sampled_errors": [error.ravel()],
        "xlabel": "slope, theory",
        "ylabel": "slope, samples",
    }


def check_slopes(run: Run, regression: Regression, theory: linear.Solution, seed: int) -> None:
    """Slopes of activations on readouts, and the covariance of what they leave."""
    labels = run.task.labels
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    wrong = coding.class_means(theory.feature_slopes[shuffled].T, labels).T
    check(
        "A5",
        "slopes of activations on readouts, class by output",
        *beside(statistics.mean_and_error(regression.slopes), _slopes(theory, labels)),
        standard_errors(3),
        control=Control("labels shuffled over inputs", expected=wrong),
        sampler=run.convergence,
        because="the slope theory has no finite-width correction of its own",
    )
    classes = run.task.num_classes
    expected = np.append(np.eye(classes)[np.triu_indices(classes)], 1.0)
    check(
        "A5",
        "covariance of activations given readouts: between classes, and in all other directions",
        *beside(statistics.mean_and_error(regression.residual_covariance), expected),
        standard_errors(3),
        control=("without the readouts given", *statistics.mean_and_error(regression.raw_covariance)),
        sampler=run.convergence,
        because="the residual covariance has a correction of order T",
    )


def readout_norm(norms: dict[tuple[int, bool], Scan], temperature: float) -> dict[str, Any]:
    """Figure: squared readout norms over sizes."""
    mean, error = ([getattr(each, name)[:, 0] for each in norms.values()] for name in ("mean", "error"))
    deeper = " times 1, 10, 20 at L = 1, 2, 3" if max(depth for depth, _ in norms) > 1 else ""
    return power_laws(next(iter(norms.values())).sizes, mean, error) | {
        "name": "readout_norm",
        "caption": "Squared readout norm per neuron: flat with the prior variance scaled, growing "
        "without. Markers: samples with standard errors, N = P; lines: fitted power laws. T = "
        f"{temperature}{deeper}. Paper A, text.",
        "names": [f"L = {depth}, " + ("scaled" if scaled else r"$\sigma_a = 1$") for depth, scaled in norms],
        "colors": [(figures.BLUES if scaled else figures.GREYS)[depth - 1] for depth, scaled in norms],
        "xlabel": "training inputs $P = N$",
        "ylabel": r"$\langle |a_i|^2 \rangle$",
    }


def check_norms(norms: dict[tuple[int, bool], Scan]) -> None:
    """Exponents of the squared readout norm at every depth."""
    for depth in {depth for depth, _ in norms}:
        (law,), (wrong,) = norms[depth, True].laws, norms[depth, False].laws
        check(
            "A6",
            f"exponent of the squared readout norm in P, L = {depth}",
            law.exponent,
            0.0,
            law.standard_error,
            absolute(0.1),
            control=("σ_a = 1", np.float64(wrong.exponent)),
            sampler=norms[depth, True].convergence,
            because="finite-P corrections of relative order P^(-1/L)",
        )


# --- depth ----------------------------------------------------------------------------------------


def _average_kernels(run: Run) -> list[np.ndarray]:
    """Kernels of all layers, averaged over samples."""
    depth = run.posterior.network.depth
    return [coding.kernels(run.samples.activations(layer)).mean((0, 1)) for layer in range(depth)]


def kernels_by_layer(run: Run) -> dict[str, Any]:
    """Figure: sampled and predicted kernels of all layers."""
    network = run.posterior.network
    theory = linear.solve(run.task, network.depth, run.samples.temperature, width=network.width)
    return {
        "plot_function": figures.kernel_matrices,
        "name": "kernels_by_layer",
        "caption": "Class blocks emerge with depth. Kernels of layers 1 to 3, averaged over samples "
        f"(above) and predicted (below), of a network with three hidden layers, y₋ = −1/2. {where(run)} "
        "Paper A, Fig. 3d–f.",
        "kernels": [*_average_kernels(run), *theory.kernels[1:]],
        "labels": run.task.labels,
        "titles": [f"{kind}, layer {layer}" for kind in ("samples", "theory") for layer in (1, 2, 3)],
    }


def learned_strengths(grown: Strengths) -> dict[str, Any]:
    """Figure: what one entry of the kernel learns, layer by layer, over sizes."""
    scan, counts = grown.scan, grown.counts
    return power_laws(scan.sizes, ((scan.mean - 1) / counts).T, (scan.error / counts).T) | {
        "name": "learned_strengths",
        "caption": "What one entry of the kernel inside a class learns, layer by layer, approaches the "
        "power laws $P^{-(1-\\ell/L)}$. Markers: samples with standard errors; dashed: exact averages at "
        "the same N = P; lines: power laws fitted to the samples. L = 3, y₋ = 0, T = "
        f"{scan.runs[0].samples.temperature:g}. Paper A, Fig. 3d–f.",
        "theory": ((grown.exact - 1) / counts).T,
        "names": [f"layer {layer}" for layer in (1, 2, 3)],
        "colors": figures.BLUES,
        "xlabel": "training inputs $P = N$",
        "ylabel": "learned entry",
    }


def check_strengths(named: dict[str, Strengths], temperature: float) -> None:
    """Strengths of all layers at every size, exponents of the first, and the rank of the learned part."""
    for name, each in named.items():
        scan = each.scan
        check(
            "A7",
            f"eᵀKe in layers 1 to 3, e the unit indicator of class 0, {name}, N = P = "
            f"{', '.join(map(str, scan.sizes))}",
            scan.mean,
            each.exact,
            scan.error,
            standard_errors(3),
            control=Control("without learning", expected=np.ones_like(each.exact)),
            sampler=scan.convergence,
            because="the sampler is slow along the strengths of lower layers",
            note=f"the saddle point is {np.max(np.abs(each.saddle / each.exact - 1)):.1%} off at most",
        )
    grown = next(iter(named.values()))
    wrong = analog.saddle_exponents(grown.scan, temperature, 1.0)
    check(
        "A7",
        "exponents in P of the learned entry, layers 1 to 3 (asymptotically −2/3, −1/3, 0)",
        grown.exponents(grown.scan.mean),
        grown.exponents(grown.exact),
        absolute(0.05),
        control=Control("theory with σ_a = 1", expected=wrong),
        sampler=grown.scan.convergence,
        because="the errors of the smallest sizes",
    )
    for name, each in named.items():
        run = each.scan.runs[-1]
        learned = _average_kernels(run)[-1] - run.task.input_kernel
        eigenvalues = np.linalg.eigvalsh(learned)[::-1]
        rank = int(np.linalg.matrix_rank(run.task.targets))
        check(
            "A7",
            f"eigenvalue {rank} over {rank + 1} of the learned kernel, feature layer, {name}, rank of Y "
            f"{rank}",
            eigenvalues[rank - 1] / eigenvalues[rank],
            above(5),
            control=(f"eigenvalue {rank + 1} over {rank + 2}", eigenvalues[rank] / eigenvalues[rank + 1]),
            sampler=run.convergence,
            because="few samples: the noise of the averaged kernel reaches the learned part",
        )
