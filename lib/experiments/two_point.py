"""Two points in deep networks: paper C's architectures trained on them, and fits over layers and pairs."""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from coding_schemes import tasks, training
from coding_schemes.tasks import Task
from coding_schemes.theory import two_point
from coding_schemes.training import Architecture, ScaledNetwork

Row = tuple[Architecture | ScaledNetwork, float]  # and its learning rate

RECORDS = 600  # of a run, whatever its length: one compiled program per architecture
LARGE_GAIN = 2.0  # high weights of paper C's Table 2 (1.3 in Table 1); so small a rate that descent is a flow
GAIN_RATES = {0.9: 0.015, 1.0: 0.005, 1.1: 0.0025, 1.3: 0.00075, 1.4: 0.00025, LARGE_GAIN: 1e-10}
DESCRIBED = 0.05  # fit error below which a network counts as described
NARROW_RATES = {0.9: 0.015, 1.05: 0.005, 1.3: 0.0015}


def table(width: int) -> dict[str, Row]:
    """Paper C's Table 1: architecture and learning rate by name, at another width if need be."""
    leaky = jax.nn.leaky_relu
    rows: dict[str, Row] = {
        "default": (Architecture(leaky, 1.0, width, 20), 0.005),
        "skip": (Architecture(leaky, 0.1, width, 20, "skip"), 0.01),
        "shallow": (Architecture(leaky, 0.35, width, 2), 0.01),
        "narrow": (Architecture(leaky, 1.05, 50, 20), 0.005),
        "dropout": (Architecture(leaky, 1.0, width, 10, "dropout"), 0.005),
        "linear": (Architecture("linear", 0.85, width, 20), 0.00125),
        "relu": (Architecture("relu", 1.0, width, 20), 0.005),
        "elu": (Architecture(jax.nn.elu, 0.95, width, 20), 0.00045),
        "tanh": (Architecture("tanh", 0.85, width, 20), 0.00125),
        "swish": (Architecture(jax.nn.swish, 1.7, width, 20), 0.0025),
    }
    if width > 110:  # eleven convolutions without padding need as much
        rows["convolution"] = Architecture(leaky, 0.95, width, 10, "convolution"), 0.002
    rows |= {f"gain {g}": (Architecture(leaky, g, width, 20), rate) for g, rate in GAIN_RATES.items()}
    return rows


@dataclass(frozen=True)
class Trained:
    """Networks that were trained on two points.

    Attributes:
        model: their architecture.
        task: the two points.
        run: what training left.
        draws: of the initial weights that it took; all but the last stayed on a plateau.
        fits: that were made, by repeat, layer and factors of the equations.
    """

    model: Architecture | ScaledNetwork
    task: Task
    run: training.Run
    draws: int = 1
    fits: dict[tuple[Any, ...], two_point.Fit] = field(default_factory=dict, repr=False)

    @property
    def done(self) -> list[int]:
        """Which of the networks were trained to the end."""
        return [int(r) for r in np.flatnonzero(self.run.converged)]

    @property
    def dx2(self) -> float:
        """Squared distance of the inputs."""
        return float(np.square(np.diff(self.task.inputs)).sum())

    @property
    def dy2(self) -> float:
        """Squared distance of the targets."""
        return float(np.square(np.diff(self.task.targets, axis=0)).sum())

    def trajectory(self, repeat: int = 0, layer: int | None = None) -> np.ndarray:
        """H, Q and w of one network at a layer, halfway through unless given: shape (3, n)."""
        H = self.run.tracked["H"][repeat, :, self.model.middle if layer is None else layer]
        return np.array(two_point.measure(H, self.run.tracked["outputs"][repeat], self.task.targets))

    def fit(
        self,
        repeat: int = 0,
        layer: int | None = None,
        factors: tuple[float, ...] = two_point.UNALTERED,
    ) -> two_point.Fit:
        """Both rates fitted to that trajectory, once, however often they are asked for."""
        case = repeat, self.model.middle if layer is None else layer, factors
        if case not in self.fits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit's error says it
                H, Q, w = self.trajectory(*case[:2])
                self.fits[case] = two_point.fit(self.run.times, H, Q, w, self.dx2, self.dy2, factors=factors)
        return self.fits[case]

    def fit_loss(self, fit: two_point.Fit) -> two_point.LossFit:
        """The third rate, fitted to the loss of the first network."""
        mean_error = np.mean(self.run.tracked["outputs"][0, 0] - self.task.targets, axis=0)
        return two_point.fit_loss(self.run.loss[0], fit.solution, float(mean_error @ mean_error), self.dy2)


def learn(
    key: Any, row: Row, task: Task | None = None, *, steps: int = 6000, draws: int = 1, **options: Any
) -> Trained:
    """Train a row of the table on two points until its loss is below 1e-6, for at most so many steps.

    Points have |dx|² = 1 and |dy|² = 1/2 unless given; steps are a multiple of RECORDS; options are those of
    `training.train`. If no network gets there, weights are drawn again, up to so many times in all.
    """
    task, (model, rate) = task or tasks.two_points(), row
    given = {"stop_loss": 1e-6, "record_every": steps // RECORDS, "num_steps": steps} | options
    for draw in range(draws):
        own = jax.random.fold_in(key, draw) if draw else key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unconverged runs are counted by the caller
            run = training.train(model, own, task.inputs, task.targets, learning_rate=rate, **given)
        if run.converged.any():
            break
    return Trained(model, task, run, draw + 1)


def carried_over(network: Trained, rates: two_point.Fit) -> tuple[float, float]:
    """Fit error with the rates of another network: of the three curves together, and the mean of theirs."""
    observed = network.trajectory()
    H0, Q0, w0 = observed[:, 0]
    s = two_point.solve(
        H0, Q0, w0, rates.eta_h, rates.eta_y, network.dx2, network.dy2, network.run.times,
        relative_tolerance=1e-6,
    )  # fmt: skip
    squares, variances = np.square([s.H, s.Q, s.w] - observed).mean(axis=1), observed.var(axis=1)
    return float(squares.sum() / variances.sum()), float(np.mean(squares / variances))


def exchanged(network: Trained, fit: two_point.Fit) -> float:
    """Fit error with a network's own two rates exchanged: what has to be worse."""
    return carried_over(network, replace(fit, eta_h=fit.eta_y, eta_y=fit.eta_h))[0]


def fit_arrays(networks: dict[str, Trained], fits: dict[str, two_point.Fit]) -> dict[str, Any]:
    """Arrays of a figure of trajectories, a panel per network with its fit error above."""
    return {
        "times": next(iter(networks.values())).run.times,
        "network": [network.trajectory() for network in networks.values()],
        "theory": [[fit.solution.H, fit.solution.Q, fit.solution.w] for fit in fits.values()],
        "titles": [f"{name}: {fit.error:.1%}" for name, fit in fits.items()],
        "stops": [network.run.num_steps[0] for network in networks.values()],
    }


def remaining(H: np.ndarray, Q: np.ndarray, w: np.ndarray, dy2: float = 0.5) -> np.ndarray:
    """What is left of the difference's part of the loss, in units of its first value."""
    loss = 2 * w - Q + dy2
    return loss / loss[0]


def waiting(left: np.ndarray) -> float:
    """Time at which 9/10 of a loss are left over that of 1/10: 0.046 if exponential, NaN if it stays."""
    early, late = (int(np.argmax(left < part)) for part in (0.9, 0.1))
    return early / late if late else np.nan


@dataclass(frozen=True)
class Layers:
    """Fits at every layer of several networks.

    Attributes:
        loss: what the fit minimizes, Σ (ΔH)² + (ΔQ)² + (Δw)² over the records, shape (networks, layers).
        eta_h: encoder rate, of the same shape.
        eta_y: decoder rate.
        start: H at the start.
    """

    loss: np.ndarray
    eta_h: np.ndarray
    eta_y: np.ndarray
    start: np.ndarray


def over_layers(networks: Sequence[Trained]) -> Layers:
    """Both rates fitted at every hidden layer."""
    rows = []
    for network in networks:
        for layer in range(network.run.tracked["H"].shape[-1]):
            fit, observed = network.fit(layer=layer), network.trajectory(layer=layer)
            loss = fit.error * observed.var(axis=1).sum() * observed.shape[1]
            rows.append([loss, fit.eta_h, fit.eta_y, observed[0, 0]])
    return Layers(*np.transpose(rows).reshape(4, len(networks), -1))


@dataclass(frozen=True)
class Pairs:
    """Final squared distances of 25 pairs of points, and their prediction.

    Attributes:
        dx: distance of the inputs, shape (25,).
        repeats: networks per pair.
        network: mean over networks, shape (25,); NaN for a pair at which fewer than two, or none, converged.
        error: its standard error; zero for a single network.
        theory: the closed form at the networks' own initial distances, mean over networks.
        left_out: networks that were not trained to the end, of 25 × networks.
        rate_spread: standard deviation of log η_h/η_y over networks.
    """

    dx: np.ndarray
    repeats: int
    network: np.ndarray
    error: np.ndarray
    theory: np.ndarray
    left_out: int
    rate_spread: float


def final_distances(
    key: Any,
    rows: Mapping[str, Row],
    repeats: Mapping[str, int],
    trials: int,
    known: Mapping[Row, Sequence[Trained]],
    steps: int = 12_000,
) -> dict[str, Pairs]:
    """Train networks on 25 pairs, |dx| from 0.5 to 1.5 and |dy| from 0 to 1, and some for the rates.

    One ratio of rates, fitted at |dx| = 1 and averaged over the trials, predicts all pairs. Networks of a row
    that are known already count among the trials. Two rows are trained at a time: a deep wide network waits
    for its weights, in time that serves a small one.
    """
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")  # as in `learn`, which cannot say so for the other thread
        jobs = {
            name: pool.submit(_final_distances, key, row, repeats[name], trials, known.get(row, ()), steps)
            for name, row in rows.items()
        }
        return {name: job.result() for name, job in jobs.items()}


def _final_distances(key, row, repeats, trials, known, steps):
    new = max(0, trials - sum(len(network.run.loss) for network in known))
    tried = [*known, *([learn(jax.random.fold_in(key, 99), row, repeats=new)] if new else [])]
    fits = [network.fit(r) for network in tried for r in network.done]
    logs = np.log([f.eta_h / f.eta_y for f in fits])
    grid = [(dx, dy) for dx in np.linspace(0.5, 1.5, 5) for dy in np.linspace(0, 1, 5)]
    rows, left_out = [], 0
    for k, (dx, dy) in enumerate(grid):
        points, place = tasks.two_points(dx**2, dy**2), jax.random.fold_in(key, k)
        options: dict[str, Any] = {"repeats": repeats, "stop_loss": 1e-4, "converged_loss": 1e-3}
        trained = learn(place, row, points, steps=steps, **options)
        left_out += repeats - len(trained.done)
        if len(trained.done) < min(2, repeats):
            rows.append([np.nan, np.nan, np.nan])
            continue
        H, Q, _ = np.transpose([trained.trajectory(r) for r in trained.done], (1, 2, 0))
        theory = two_point.final_distance(H[0], Q[0], np.exp(logs.mean()), 1.0, dx**2, dy**2)
        error = H[-1].std(ddof=min(1, repeats - 1)) / len(trained.done) ** 0.5
        rows.append([H[-1].mean(), error, np.mean(theory)])
    network, error, predicted = np.transpose(rows)
    dx = np.array([dx for dx, _ in grid])
    return Pairs(dx, repeats, network, error, predicted, left_out, float(logs.std(ddof=1)))


@dataclass(frozen=True)
class Spreads:
    """Relative spread of squared distances over networks of 20 layers, by width and gain.

    Attributes:
        widths: shape (W,).
        gains: of the initial weights, ascending, shape (G,).
        start: of the initial distances, shape (W, G).
        theory: of the closed form with one ratio of rates for all networks.
        final: of the networks' final distances.
        mean: mean final distance.
        networks: how many were trained to the end.
    """

    widths: np.ndarray
    gains: np.ndarray
    start: np.ndarray
    theory: np.ndarray
    final: np.ndarray
    mean: np.ndarray
    networks: np.ndarray


def spreads(key: Any, widths: Sequence[int], gains: Sequence[float], networks: int) -> Spreads:
    """Train networks that differ in nothing but their draw of the weights."""
    rows = []
    for width in widths:
        for gain in gains:
            row = Architecture(jax.nn.leaky_relu, gain, width, 20), NARROW_RATES[gain]
            trained = learn(jax.random.fold_in(key, width), row, stop_loss=1e-6, repeats=networks)
            H, Q, _ = np.transpose([trained.trajectory(r) for r in trained.done], (1, 2, 0))
            ratio = np.median(H[-1]) ** 2 / trained.dy2
            theory = two_point.final_distance(H[0], Q[0], ratio, 1.0, 1.0, trained.dy2)
            relative = [np.std(x, ddof=1) / np.mean(x) for x in (H[0], theory, H[-1])]
            rows.append([*relative, H[-1].mean(), len(trained.done)])
    start, theory, final, mean, count = np.transpose(rows).reshape(5, len(widths), -1)
    return Spreads(np.asarray(widths), np.array(gains), start, theory, final, mean, count)
