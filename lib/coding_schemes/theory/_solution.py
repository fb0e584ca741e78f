"""What every solver says of its own work, and the one place that warns where it fell short."""

import warnings
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, eq=False, kw_only=True)
class Solved:
    """Base of what solvers return.

    Attributes:
        residual: largest error of the conditions that are solved for, in units that every solver names.
        num_steps: of the solver.
        converged: whether the residual, and what else the solver asks for, is within its tolerance.
    """

    residual: float
    num_steps: int
    converged: bool

    @property
    def approximation(self) -> str:
        """What the theory neglects, if anything."""
        return "exact at N → ∞"

    def reported(self, solver: str, detail: str = "") -> Self:
        """This solution; where it did not converge, with a warning at the line that called the solver."""
        if not self.converged:
            text = f"{solver} did not converge: residual {self.residual:.1e} after {self.num_steps} steps"
            warnings.warn(f"{text}, {detail}" if detail else text, stacklevel=3)
        return self
