"""Kinds of neurons on orthogonal inputs: what every theory of the toy task says about inputs."""

import numpy as np

from coding_schemes.networks import Nonlinearity
from coding_schemes.networks import nonlinearity as resolve
from coding_schemes.tasks import Task
from coding_schemes.theory._solvers import evaluate, overlaps


class OrthogonalKinds:
    task: Task
    nonlinearity: str | Nonlinearity

    def phi(self, z):
        return evaluate(resolve(self.nonlinearity), np.asarray(z, float))
