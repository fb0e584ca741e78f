"""What every solver says of its own work, and the one place that warns where it fell short."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from coding_schemes import coding, validation


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solved:
    """Base of what solvers return.

    >>> Solved(residual=0.1, num_steps=3, converged=False)
    <Solved: NOT converged, residual 0.1>

    Attributes:
        residual: largest error of the conditions that are solved for, in units that every solver names.
        num_steps: of the solver.
        converged: whether the residual, and what else the solver asks for, is within its tolerance.
    """

    residual: float
    num_steps: int
    converged: bool

    def __repr__(self) -> str:
        """Its codes, the numbers among its fields, and whether it converged."""
        shown = {name: value for name, value in vars(self).items() if type(value) is float}
        told = [f"{name.replace('_', ' ')} {shown[name]:.4g}" for name in shown if "residual" not in name]
        codes, outliers = getattr(self, "codes", np.zeros((0, 0))), getattr(self, "num_outliers", 0)
        if outliers:
            told.insert(0, f"outliers {', '.join(map(coding.code_name, codes[:outliers]))}")
        elif np.any(codes):
            told.insert(0, coding.shares_text(codes, self.probabilities))  # type: ignore[attr-defined]
        told.append(f"{'converged' if self.converged else 'NOT converged'}, residual {self.residual:.1g}")
        module = type(self).__module__.split(".")[-1]
        place = "" if module.startswith("_") else f"{module}."
        return f"<{place}{type(self).__name__}: {'; '.join(told)}>"

    @property
    def approximation(self) -> str:
        """What the theory neglects, if anything."""
        return "exact at N → ∞"

    def reported(self, solver: str, detail: str = "") -> Self:
        """This solution; where it did not converge, with a warning at the line that called the solver."""
        if not self.converged:
            text = f"{solver} did not converge: residual {self.residual:.1e} after {self.num_steps} steps"
            validation.warn(f"{text}, {detail}" if detail else text)
        return self


class QuadratureOrLaplace:
    """Beside `Solved`: a solution whose averages over a neuron's readouts were taken in one of two ways."""

    method: str

    @property
    def approximation(self) -> str:
        """What is neglected."""
        return "exact at N → ∞" if self.method == "quadrature" else "N → ∞, to relative order 1/P"
