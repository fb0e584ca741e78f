"""Learning curves of lazy and adaptive kernels on two classes of CIFAR-10, whose images do not come with the book.

    cd notebooks
    python -m adaptive_images.pairs curves --output ../data/results/cifar10-adaptive-curves.npz

makes the stored arrays that the chapter draws, in half an hour on one core. It goes on from what is there.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from adaptive_kernels import pairs

from adaptive_images import runs

SIZES = (6, 10, 20, 50, 100, 200, 500, 1000)  # P, classes of equal numbers
CONTROL = 50  # P of targets without features
RIDGES, DECAYS = (1.0, 3.0), (3.0, 10.0)  # 1/β of the aNBK, λ of networks at rest; the first is the fixed one
SEARCH: dict[str, Any] = {"num_neurons": 32, "tolerance": 1e-5, "max_steps": 3000}
CROWD = {"num_neurons": 128, "num_rounds": 100}
