"""Minimum-energy paths on landscapes whose saddles are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from coding_schemes.barriers import Path, minimum_energy_path


def double_well(state):
    """Minima at x = ±1, y = 0; saddle at (0, 1), of height 2, between two slopes of height 12."""
    x, y = state["x"], state["y"]
    return 2 * (1 - x**2) ** 2 + 10 * (y - (1 - x**2)) ** 2


def circle(state):
    """A valley on the unit circle, flat along it: a continuous symmetry."""
    return 20 * (jnp.sum(state**2) - 1) ** 2


def at(x, y):
    return {"x": jnp.float64(x), "y": jnp.float64(y)}


def test_finds_the_curved_valley_and_its_saddle():
    path = minimum_energy_path(double_well, [at(-1.1, 0.1), at(0.9, 0)], step_size=5e-3, num_images=41)
    assert path.converged
    assert path.barrier == pytest.approx(2.0, abs=0.02)
    assert path.residual < 0.1
    top = np.argmax(path.energies)
    np.testing.assert_allclose([path.images["x"][top], path.images["y"][top]], [0, 1], atol=0.03)
    np.testing.assert_allclose([path.images["x"][0], path.images["x"][-1]], [-1, 1], atol=1e-3)
    np.testing.assert_allclose(np.diff(path.lengths), path.lengths[-1] / 40, rtol=1e-3)
    # what the straight line between the minima would give: U(0, 0) = 12
    assert float(double_well(at(0.0, 0.0))) == 12


def test_a_symmetry_that_is_not_broken_costs_nothing():
    start, end = jnp.array([1.0, 0.0]), jnp.array([-1.0, 0.0])
    path = minimum_energy_path(
        circle, [start, jnp.array([0.0, 0.5]), end], step_size=5e-3, num_images=41, tolerance=1e-3
    )
    assert path.barrier < 0.01
    assert path.lengths[-1] == pytest.approx(np.pi, rel=0.01)


def test_one_program_serves_all_parameters():
    traces = []

    def scaled(state, height):
        traces.append(height)
        return height * (1 - state**2) ** 2

    ends = [jnp.array(-1.0), jnp.array(1.0)]
    barrier = [minimum_energy_path(scaled, ends, h, step_size=0.02).barrier for h in (1.0, 3.0)]
    np.testing.assert_allclose(barrier, [1.0, 3.0], rtol=1e-3)
    assert len(traces) <= 5


def test_an_unfinished_path_says_so():
    with pytest.warns(UserWarning, match="still moved"):
        path = minimum_energy_path(double_well, [at(-1, 0), at(1, 0)], step_size=1e-3, num_steps=20)
    assert not path.converged
    points = jnp.stack([jnp.asarray(path.images[name]) for name in "xy"], axis=1)
    slopes = jax.vmap(jax.grad(lambda point: double_well({"x": point[0], "y": point[1]})))(points)
    along = points[2:] - points[:-2]
    along /= jnp.linalg.norm(along, axis=1, keepdims=True)
    across = slopes[1:-1] - jnp.sum(slopes[1:-1] * along, axis=1, keepdims=True) * along
    assert path.residual == pytest.approx(float(jnp.linalg.norm(across, axis=1).max()), rel=1e-4)


def test_drift_is_what_the_last_tenth_of_the_steps_changed():
    ends = [at(-1, 0), at(1, 0)]
    with pytest.warns(UserWarning, match="still moved"):
        before, path = (
            minimum_energy_path(double_well, ends, step_size=1e-3, num_steps=n, tolerance=1e-9)
            for n in (45, 50)
        )
    assert path.drift == pytest.approx(path.energies.max() - before.energies.max(), rel=1e-6)


def test_barrier_is_the_largest_rise_from_any_image_before():
    path = Path(
        None,
        np.arange(5.0),
        np.array([0.0, 1.0, -2.0, 2.0, 1.5]),
        0.0,
        residual=0.0,
        num_steps=1,
        converged=True,
    )
    assert path.barrier == 4


def test_reports_divergence():
    with pytest.raises(FloatingPointError, match="step_size 1"):
        minimum_energy_path(double_well, [at(-1.5, 0), at(1, 0)], step_size=1.0, num_steps=50)
