"""Programs that make the stored results of chapters, which no build runs."""

import sys

import jax
import jax.numpy as jnp
import pytest
from adaptive_images import pairs as curves
from adaptive_kernels import pairs as networks
from images import stored
from redundant import explorer_samples
from your_own_task import maps


@pytest.fixture
def single():
    """JAX as programs find it, in single precision."""
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)  # as tests/conftest.py has it


@pytest.mark.parametrize(
    ("program", "work", "words"),
    [
        (maps, "compute", []),
        (curves, "curves", []),
        (networks, "JOBS", ["scatter"]),
        (stored, "cifar_three_classes", ["cifar"]),
        (explorer_samples, "compute", []),
    ],
)
def test_stored_results_are_made_in_double_precision(program, work, words, single, tmp_path, monkeypatch):
    precision = []

    def worked(*_, **__):
        precision.append(jnp.zeros(()).dtype)
        return {}

    monkeypatch.setattr(program, work, {"scatter": worked} if work == "JOBS" else worked)
    monkeypatch.setattr(sys, "argv", ["program", *words, "--output", str(tmp_path / "found.npz")])
    program.main()
    assert precision == [jnp.float64]
