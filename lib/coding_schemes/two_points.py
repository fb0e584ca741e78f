"""Networks that are trained on two points, seen through the reduced equations of `theory.two_point`.

`learn` trains networks and keeps the squared distances that the theory speaks of; `Trained` fits its rates.
"""

import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax import Array
from jax.random import fold_in

from coding_schemes import tasks, training, validation
from coding_schemes.tasks import Task
from coding_schemes.theory import two_point
from coding_schemes.training import Architecture, ScaledNetwork

RECORDS = 600  # of a run, whatever its length: one compiled program per architecture
DESCRIBED = 0.05  # fit error below which a network counts as described; a constant has 1


@dataclass(frozen=True, eq=False)
class Trained:
    """Networks that were trained on two points.

    Attributes:
        model: their architecture.
        task: the two points.
        run: what training left; `tracked` holds "H" (repeats, n, layers) and "outputs" (repeats, n, 2, m).
        draws: of the initial weights that it took; all but the last stayed on a plateau.
    """

    model: Architecture | ScaledNetwork
    task: Task
    run: training.Run
    draws: int = 1
    _fits: dict[tuple[Any, ...], two_point.Fit] = field(default_factory=dict, repr=False)

    @property
    def done(self) -> np.ndarray:
        """Which of the networks were trained to the end."""
        return np.flatnonzero(self.run.converged)

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
        moving: bool = False,
    ) -> two_point.Fit:
        """Both rates fitted to that trajectory, once, however often they are asked for.

        To all records, or while the network is `moving`: to as many times before training stopped. After that
        it stays where it is, and a long window makes any error small.
        """
        case = repeat, self.model.middle if layer is None else layer, factors, moving
        if case not in self._fits:
            times, rows = self._observed(*case[:2], moving)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit's error says it
                H, Q, w = rows
                self._fits[case] = two_point.fit(times, H, Q, w, self.dx2, self.dy2, factors=factors)
        return self._fits[case]

    def _observed(self, repeat, layer, moving):
        """Times of a fit, and H, Q and w there."""
        times, rows = self.run.times, self.trajectory(repeat, layer)
        if not moving:
            return times, rows
        until = np.linspace(times[0], self.run.num_steps[repeat], len(times))
        return until, np.array([np.interp(until, times, row) for row in rows])

    def fit_loss(self) -> two_point.LossFit:
        """The third rate, fitted to the loss of the first network at the two rates of its fit."""
        mean_error = np.mean(self.run.tracked["outputs"][0, 0] - self.task.targets, axis=0)
        return two_point.fit_loss(
            self.run.loss[0], self.fit().solution, float(mean_error @ mean_error), self.dy2
        )

    def errors_at(self, eta_h: float, eta_y: float, moving: bool = False) -> tuple[float, np.ndarray]:
        """Fit errors of the first network at given rates, as in `two_point.Fit`: of all curves, of each.

        Over the times that `fit` takes.
        """
        times, observed = self._observed(0, None, moving)
        H0, Q0, w0 = observed[:, 0]
        given = eta_h, eta_y, self.dx2, self.dy2, times
        path = two_point.solve(H0, Q0, w0, *given, relative_tolerance=1e-6)
        squares = np.square([path.H, path.Q, path.w] - observed).mean(axis=1)
        variances = observed.var(axis=1)
        return float(squares.sum() / variances.sum()), squares / variances


def panels(networks: dict[str, Trained]) -> dict[str, Any]:
    """For `companion.figures.fit_panels`: H, Q and w of networks, with their fits."""
    fits = {name: network.fit() for name, network in networks.items()}
    return {
        "times": next(iter(networks.values())).run.times,
        "network": [network.trajectory() for network in networks.values()],
        "theory": [[fit.solution.H, fit.solution.Q, fit.solution.w] for fit in fits.values()],
        "titles": [f"{name}: {fit.error:.1%}" for name, fit in fits.items()],
        "stops": [network.run.num_steps[0] for network in networks.values()],
    }


def learn(
    key: Array,
    model: Architecture | ScaledNetwork,
    learning_rate: float,
    task: Task | None = None,
    *,
    steps: int = 6000,
    draws: int = 1,
    **options: Any,
) -> Trained:
    """Train on two points until the loss is below 1e-6, for at most so many steps, a multiple of RECORDS.

    Points have |dx|² = 1 and |dy|² = 1/2 unless a task is given; options are those of `training.train`. If no
    network gets there, weights are drawn again, up to `draws` times in all. Runs that did not converge are
    not warned of: `Trained.done` leaves them out.
    """
    task = task or tasks.two_points()
    given = {"stop_loss": 1e-6, "record_every": steps // RECORDS, "num_steps": steps} | options
    validation.counts(draws=draws)
    for draw in range(draws):
        own = fold_in(key, draw) if draw else key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = training.train(model, own, task.inputs, task.targets, learning_rate=learning_rate, **given)
        if run.converged.any():
            break
    return Trained(model, task, run, draw + 1)


def side_by_side(jobs: Iterable[Callable[[], Any]]) -> list[Any]:
    """Results of runs, two at a time: a wide network waits for its weights, a small one computes."""
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")  # as in `learn`, which cannot say so for the other thread
        return [job.result() for job in [pool.submit(job) for job in jobs]]
