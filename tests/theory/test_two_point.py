"""The two-point theory: conservation, limits, closed forms, and the matrices it was reduced from."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from coding_schemes.theory import two_point
from scipy.integrate import solve_ivp

RATES = {"eta_h": 0.002, "eta_y": 0.006, "dx2": 1.0}
START = (0.01, 0.002, -0.01)
TIMES = np.linspace(0.0, 6000.0, 301)


@pytest.fixture(scope="module")
def trajectory():
    return two_point.solve(*START, **RATES, dy2=0.5, times=TIMES)


def test_invariant_is_kept_and_altered_equations_break_it(trajectory):
    assert trajectory.converged
    assert trajectory.residual < 1e-6
    values = two_point.invariant(trajectory.H, trajectory.Q, **RATES)
    np.testing.assert_allclose(values, values[0], rtol=1e-6)
    for factors in two_point.ALTERED.values():
        if factors[3:] == (1.0, 1.0):  # those that change Ḣ or Q̇
            altered = two_point.solve(*START, **RATES, dy2=0.5, times=TIMES, factors=factors)
            assert np.ptp(two_point.invariant(altered.H, altered.Q, **RATES)) > 0.1 * abs(values[0])


def test_gradient_flow_on_encoder_and_decoder_gives_the_reduced_system():
    """Descend ½⟨|f − y|²⟩ on D_h dx (3 units) and an aligned D_y (1 output): rates twice the theory's."""
    eta_h, eta_y, dx2, dy = 0.004, 0.012, 1.3, 0.7
    dh0 = np.array([0.2, -0.1, 0.3])
    decoder0 = 0.4 * dh0

    def flow(t, state):
        dh, decoder = state[:3], state[3:]
        error = 0.25 * (decoder @ dh - dy)
        return np.concatenate([-eta_h * dx2 * error * decoder, -eta_y * error * dh])

    times = np.linspace(0, 3000, 50)
    flow = solve_ivp(flow, (0, 3000), np.concatenate([dh0, decoder0]), t_eval=times, rtol=1e-10, atol=1e-12).y
    dh, outputs = flow[:3], np.sum(flow[:3] * flow[3:], axis=0)
    points = np.stack([np.zeros(50), outputs], axis=1)[..., None]
    H, Q, w = two_point.measure(np.sum(dh**2, axis=0), points, np.array([[0.0], [dy]]))
    s = two_point.solve(float(H[0]), float(Q[0]), float(w[0]), eta_h / 2, eta_y / 2, dx2, dy**2, times)
    np.testing.assert_allclose(s.H, H, rtol=2e-5)
    np.testing.assert_allclose(s.Q, Q, rtol=2e-5)
    np.testing.assert_allclose(s.w, w, atol=2e-6)
    wrong = two_point.solve(float(H[0]), float(Q[0]), float(w[0]), eta_h, eta_y, dx2, dy**2, times)
    assert np.max(np.abs(wrong.H - H)) > 0.05


def test_representations_that_start_on_the_wrong_side_pass_through_each_other():
    """Gradient flow on one hidden unit and one output, from dh > 0 with a negative decoder."""

    def flow(t, state):
        error = state[1] * state[0] - 0.7
        return [-0.001 * state[1] * error, -0.003 * state[0] * error]

    times = np.linspace(0, 6000, 60)
    dh, decoder = solve_ivp(flow, (0, 6000), [0.1, -0.4], t_eval=times, rtol=1e-10, atol=1e-12).y
    assert dh[0] > 0 > dh[-1]
    Q0 = (0.1 * 0.4) ** 2
    s = two_point.solve(0.01, Q0, Q0 + 0.7 * 0.04, 0.002, 0.006, 1.0, 0.49, times)
    assert s.converged
    np.testing.assert_allclose(s.H, dh**2, atol=1e-6)
    np.testing.assert_allclose(s.w, (decoder * dh) ** 2 - 0.7 * decoder * dh, atol=1e-6)


@pytest.mark.parametrize("precise", [True, False], ids=["double", "single"])
def test_solutions_compose(trajectory, precise):
    """To more digits than single precision has, whatever that of the session is."""
    half = trajectory.H[150], trajectory.Q[150], trajectory.w[150]
    with jax.enable_x64(precise):
        rest = two_point.solve(*half, **RATES, dy2=0.5, times=TIMES[150:])
    np.testing.assert_allclose(rest.H, trajectory.H[150:], rtol=3e-9)
    np.testing.assert_allclose(rest.w, trajectory.w[150:], atol=5e-10)


@pytest.mark.parametrize(("H0", "Q0", "w0"), [(0.01, 0.002, -0.01), (2.0, 0.3, 0.1), (0.3, 3.0, 2.0)])
def test_trajectories_end_at_the_final_distance(H0, Q0, w0):
    s = two_point.solve(H0, Q0, w0, **RATES, dy2=0.5, times=[0.0, 1e5])
    assert s.H[-1] == pytest.approx(two_point.final_distance(H0, Q0, **RATES, dy2=0.5), rel=1e-7)
    assert s.Q[-1] == pytest.approx(0.5, rel=1e-7)
    assert s.w[-1] == pytest.approx(0.0, abs=1e-7)


def test_rich_and_lazy_limits():
    rich = two_point.rich_distance(**RATES, dy2=0.5)
    gains = np.array([1e-1, 1e-2, 1e-3])
    small = two_point.final_distance(gains * 0.5, gains**2 * 0.2, **RATES, dy2=0.5)
    np.testing.assert_array_less(np.abs(small / rich - 1), 2 * gains)
    large = two_point.final_distance(0.5 / gains, 0.2 / gains**2, **RATES, dy2=0.5)
    rho = RATES["eta_y"] / RATES["eta_h"]
    lazy = 0.5 / gains - 0.2 / gains**2 / (rho * 0.5 / gains)  # −C/ρ, positive here
    np.testing.assert_array_less(0, lazy)
    np.testing.assert_array_less(np.abs(large / lazy - 1), 10 * gains**2)
    assert abs(large[-1] / rich - 1) > 1


def test_final_distance_of_nearly_equal_targets_keeps_its_digits():
    """H* → |dy|²/C for C > 0, also where 4ρ|dy|² is lost beside C²."""
    dy2, (H0, Q0) = 1e-13, (0.1, 0.05)
    C = Q0 / H0 - RATES["eta_y"] / (RATES["eta_h"] * RATES["dx2"]) * H0
    assert 0 < C < 1
    assert two_point.final_distance(H0, Q0, **RATES, dy2=dy2) == pytest.approx(dy2 / C, rel=1e-9, abs=0)


@pytest.mark.parametrize(("H0", "Q0"), [(2.0, 0.3), (0.1, 0.9), (0.5, 0.75)])  # C < 0, C > 0, C = 0
def test_identical_outputs_in_closed_form(H0, Q0):
    times = np.linspace(0, 2000, 40)
    exact = two_point.identical_outputs(H0, Q0, **RATES, times=times)
    s = two_point.solve(H0, Q0, Q0, **RATES, dy2=0.0, times=times)
    np.testing.assert_allclose(s.H, exact.H, rtol=1e-5)
    np.testing.assert_allclose(s.Q, exact.Q, rtol=1e-5, atol=1e-9)
    end = two_point.identical_outputs(H0, Q0, **RATES, times=[1e7])
    assert end.H[0] == pytest.approx(two_point.final_distance(H0, Q0, **RATES, dy2=0.0), abs=1e-4)


def test_large_weights_follow_the_identical_output_solution_at_first_order():
    times = np.linspace(0, 2000, 40)
    exact = two_point.identical_outputs(0.4, 0.2, **RATES, times=times)
    distance = []
    for g in (30.0, 300.0):
        w0 = 0.2 * g**2 - 0.3 * g
        s = two_point.solve(0.4 * g, 0.2 * g**2, w0, **RATES, dy2=0.5, times=times / g)
        distance.append(np.max(np.abs(s.H / g - exact.H)))
    assert distance[1] < 0.02
    assert distance[0] / distance[1] == pytest.approx(10, rel=0.3)


def test_fixed_points_and_their_stability():
    H0, Q0, dy2 = 0.3, 0.1, 0.5
    points = two_point.fixed_points(H0, Q0, **RATES, dy2=dy2)
    assert [p.stable for p in points if p.reachable] == [True, False]
    assert [p.reachable for p in points] == [True, False, True]
    rho, C = 3.0, two_point.invariant(H0, Q0, **RATES)
    for p in points:
        assert pytest.approx(rho * p.H**2 + C * p.H) == p.Q

    def rates(H, w):  # the reduced two-dimensional system
        Q = rho * H**2 + C * H
        return np.array([-0.002 * w, -0.003 * (3 * w - Q + dy2) * H - 0.001 * (Q + w) * w / H])

    stable, step = points[0], 1e-5
    jacobian = np.stack(
        [
            (rates(stable.H + step, 0) - rates(stable.H - step, 0)) / (2 * step),
            (rates(stable.H, step) - rates(stable.H, -step)) / (2 * step),
        ],
        axis=1,
    )
    np.testing.assert_allclose(np.sort(stable.growth_rates), np.sort(np.linalg.eigvals(jacobian)), rtol=1e-5)
    small = {"H0": 1e-8, "Q0": 1e-9, **RATES, "dy2": dy2}
    plateau = two_point.solve(**small, w0=-1e-6, times=[0.0, 2000.0, 2500.0])
    growth = np.log(plateau.H[2] / plateau.H[1]) / 500
    assert growth == pytest.approx(max(two_point.fixed_points(**small)[2].growth_rates), rel=1e-3)


def test_loss_of_any_two_outputs_follows_from_the_three_quantities():
    outputs, targets = np.random.default_rng(0).standard_normal((2, 2, 3))
    H, Q, w = two_point.measure(1.0, outputs, targets)
    point = two_point.Solution(np.zeros(1), H, Q, w, residual=0.0, num_steps=0, converged=True)
    mean_error_sq = np.sum((outputs - targets).mean(axis=0) ** 2)
    curve = two_point.loss_curve(point, 0.1, mean_error_sq, np.sum((targets[1] - targets[0]) ** 2))
    np.testing.assert_allclose(curve, 0.5 * np.mean(np.sum((outputs - targets) ** 2, axis=1)))


def test_loss_curve_is_the_loss_of_the_two_outputs(trajectory):
    targets = np.array([0.6, 0.6 + np.sqrt(0.5)])
    dyh = (trajectory.Q - trajectory.w) / np.sqrt(0.5)  # one output: dŷ·dy / |dy|
    mean_error = 0.3 * np.exp(-0.001 * TIMES)
    outputs = (
        targets.mean() + mean_error + 0.5 * np.array([-1, 1])[:, None] * np.sqrt(trajectory.Q) * np.sign(dyh)
    )
    squares = np.mean((outputs - targets[:, None]) ** 2, axis=0) / 2
    aligned = np.isclose(np.abs(dyh), np.sqrt(trajectory.Q), rtol=0.05)
    curve = two_point.loss_curve(trajectory, 0.001, 0.09, 0.5)
    np.testing.assert_allclose(curve[aligned], squares[aligned], atol=0.01)
    assert curve[-1] == pytest.approx(0, abs=1e-6)
    later = replace(trajectory, times=trajectory.times + 500)  # times may begin anywhere
    np.testing.assert_allclose(two_point.loss_curve(later, 0.001, 0.09, 0.5), curve)
    fitted = two_point.fit_loss(curve, trajectory, 0.09, 0.5)
    assert fitted.eta_mean == pytest.approx(0.001, rel=1e-4)
    assert fitted.error < 1e-8


def test_errors_of_a_rate_count_the_residuals_autocorrelation(trajectory):
    """AR(1) residuals around a loss curve: fitted rates scatter by as much as their standard errors say."""
    curve, decay, repeats = two_point.loss_curve(trajectory, 0.001, 0.09, 0.5), 0.8, 60
    noise = 1e-3 * np.random.default_rng(0).standard_normal((repeats, len(TIMES)))
    for i in range(1, len(TIMES)):
        noise[:, i] = decay * noise[:, i - 1] + (1 - decay**2) ** 0.5 * noise[:, i]
    fits = [two_point.fit_loss(curve + one, trajectory, 0.09, 0.5) for one in noise]
    z = np.array([np.log(f.eta_mean / 0.001) / f.log_standard_error for f in fits])
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4  # independent residuals would make it three


def test_measure_by_hand():
    H, Q, w = two_point.measure(25.0, [[1.0], [3.0]], [[0.0], [0.5]])
    assert (H, Q, w) == (25.0, 4.0, 3.0)


def test_errors_of_rates_are_those_of_least_squares_on_white_noise():
    """σ² (JᵀJ)⁻¹, with J by differences of solutions; and the fit's own measures of misfit."""
    times, rng = TIMES / 4, np.random.default_rng(8)

    def series(log_rates):
        eta_h, eta_y = np.array([0.002, 0.006]) * np.exp(log_rates)
        path = two_point.solve(0.01, 0.002, -0.1, eta_h, eta_y, 1.0, 0.5, times)
        return np.array([path.H, path.Q, path.w])

    slopes = np.array([(series(e) - series(-e)).ravel() / 2e-3 for e in 1e-3 * np.eye(2)])
    exact = 0.02 * np.sqrt(np.diag(np.linalg.inv(slopes @ slopes.T)))
    assert exact.max() > 1.5 * exact.min()
    noisy = series(np.zeros(2)) + 0.02 * rng.standard_normal((3, len(times))) * (times > 0)
    f = two_point.fit(times, *noisy, 1.0, 0.5)
    assert f.converged
    np.testing.assert_allclose(f.log_standard_errors, exact, rtol=0.3)
    assert np.all(np.abs(np.log([f.eta_h / 0.002, f.eta_y / 0.006])) < 4 * exact)
    gaps = np.square(noisy - np.array([f.solution.H, f.solution.Q, f.solution.w])).mean(1)
    np.testing.assert_allclose(f.errors, gaps / noisy.var(1), rtol=1e-6)
    assert f.error == pytest.approx(gaps.sum() / noisy.var(1).sum(), rel=1e-6)


@pytest.mark.slow
def test_fit_recovers_rates_and_rejects_altered_equations(trajectory):
    exact = two_point.fit(TIMES, trajectory.H, trajectory.Q, trajectory.w, 1.0, 0.5)
    assert exact.error < 1e-8
    np.testing.assert_allclose([exact.eta_h, exact.eta_y], [0.002, 0.006], rtol=1e-4)
    for factors in two_point.ALTERED.values():
        altered = two_point.fit(TIMES, trajectory.H, trajectory.Q, trajectory.w, 1.0, 0.5, factors=factors)
        assert altered.error > 1e-4


@pytest.mark.parametrize("name", two_point.ALTERED)
def test_altered_equations_fit_their_own_trajectories(name):
    times, factors = TIMES[::6], two_point.ALTERED[name]
    path = two_point.solve(*START, **RATES, dy2=0.5, times=times, factors=factors)
    f = two_point.fit(times, path.H, path.Q, path.w, 1.0, 0.5, factors=factors)
    np.testing.assert_allclose([f.eta_h, f.eta_y], [0.002, 0.006], rtol=1e-4)
    for curve in ("H", "Q", "w"):
        np.testing.assert_allclose(getattr(f.solution, curve), getattr(path, curve), atol=1e-4)
    assert f.error < 1e-8
    assert f.errors.max() < 1e-8


def test_searches_for_rates_start_on_all_sides_of_the_rates_where_both_points_have_one_target():
    """There the scale of outputs is that of the outputs themselves."""
    path = two_point.identical_outputs(0.4, 0.3, **RATES, times=TIMES)
    starts = two_point._starting_rates(TIMES, np.array([path.H, path.Q, path.w]), 1.0, 0.0)
    off = starts - np.log([0.002, 0.006])
    assert {tuple(row) for row in np.sign(off)} == {(1, 1), (1, -1), (-1, 1), (-1, -1)}
    assert np.abs(off).max(1).min() < np.log(4)


@pytest.mark.filterwarnings("error")
def test_representations_that_start_together_have_no_trajectory(trajectory):
    merged = np.concatenate([[0.0], trajectory.H[1:]])
    with pytest.raises(ValueError, match="H0: got 0.*zero distance at the start"):
        two_point.fit(TIMES, merged, trajectory.Q, trajectory.w, 1.0, 0.5)
