import numpy as np
import pytest
from companion import figures
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

pytestmark = pytest.mark.usefixtures("close_figures")
LABELS = np.array([2, 0, 1, 0, 1, 0])


def texts(figure):
    """What the legend says."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def area(patch):
    """Of a histogram's outline."""
    x, y = patch.get_xy().T
    return abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def test_class_colors_differ_also_without_red_green_vision():
    # Viénot's projection for deuteranopes, on linear RGB
    linear = np.array([to_rgb(color) for color in figures.CLASS_COLORS[:4]]) ** 2.2
    seen = (linear @ np.array([[0.29, 0.71, 0.0], [0.29, 0.71, 0.0], [-0.02, 0.02, 1.0]]).T).clip(0) ** (
        1 / 2.2
    )
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(4, 1)]
    assert gaps.min() > 0.15


@pytest.mark.parametrize("names", [(0, 1, 2), (3, 5, 8), ("cat", "dog", "eel")], ids=str)
def test_activation_matrix_sorts_inputs_by_class_and_keeps_neurons(names):
    """Whatever classes are called: three inputs of the first, two of the next, one of the last."""
    activations = LABELS + 10.0 * np.arange(3)[:, None]
    figure = figures.activation_matrix(activations, np.array(names)[LABELS])
    (axis, *_), shown = figure.axes, figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, np.sort(LABELS) + 10.0 * np.arange(3)[:, None])
    assert [text.get_text() for text in axis.get_xticklabels()] == [str(name) for name in names]
    np.testing.assert_allclose(axis.get_xticks(), [1.0, 3.5, 5.0])
    np.testing.assert_allclose(axis.get_xticks(minor=True), [2.5, 4.5])
    (borders,) = axis.collections
    np.testing.assert_allclose([segment[:, 0] for segment in borders.get_segments()], [[2.5] * 2, [4.5] * 2])


@pytest.mark.parametrize(("signs", "lowest"), [((1.0, 1.0), 0.0), ((1.0, -1.0), -1.0)])
def test_color_scale_is_white_at_zero(signs, lowest):
    activations = np.outer(signs, np.ones(6))
    figure = figures.activation_matrix(np.stack([activations, activations]), LABELS, titles=["train", "test"])
    assert {axis.images[0].get_clim() for axis in figure.axes[:2]} == {(lowest, 1.0)}


def test_kernel_matrices_share_one_scale_and_sort_both_axes():
    kernels = np.stack([np.equal.outer(LABELS, LABELS) * scale for scale in (1.0, 2.0, 3.0, 4.0)])
    figure = figures.kernel_matrices(kernels, LABELS, titles=["0", "1", "2", "3"])
    images = [axis.images[0] for axis in figure.axes if axis.images]
    assert len({image.get_clim() for image in images[:4]}) == 1
    np.testing.assert_array_equal(
        images[1].get_array(), 2.0 * np.equal.outer(np.sort(LABELS), np.sort(LABELS))
    )


def test_kernels_above_neurons_share_one_scale():
    kernels, neurons = np.eye(4) * np.array([1.0, 3.0])[:, None, None], np.ones((2, 5, 4))
    figure = figures.kernels_and_neurons(kernels, neurons, [0, 0, 1, 1], ["a", "b"])
    first, second = (axis.images[0].norm for axis in figure.axes[:2])
    assert (first.vmin, first.vmax) == (second.vmin, second.vmax)
    assert first.vmax >= 3


def test_sparse_population_marks_theory_and_draws_the_bulk():
    bulk = np.random.default_rng(0).standard_normal(500)
    figure = figures.sparse_population(
        bulk, [-1.0, 1.0], [0.2, 0.3], [[7.0, 7.1], [-4.0, -4.1]], [7.05, -4.0]
    )
    left, right = figure.axes
    assert tuple(left.lines[0].get_ydata()) == (0.2, 0.3)
    assert [line.get_xdata()[0] for line in right.lines] == [7.05, -4.0]


@pytest.mark.parametrize("outliers", [[7.0, 7.1], [-7.0, -7.1], [0.1, 0.2]], ids=["above", "below", "within"])
def test_sparse_population_counts_every_neuron_wherever_the_outliers_lie(outliers):
    bulk = np.random.default_rng(0).standard_normal(500)
    right = figures.sparse_population(bulk, [-1.0, 1.0], [0.2, 0.3], [outliers], [outliers[0]]).axes[1]
    for patch, count in zip(right.patches, (500, 2), strict=True):
        np.testing.assert_allclose(area(patch) / np.ptp(patch.get_xy()[:, 0]) * 89, count)  # bins


def test_fit_panels_draw_each_network_over_its_own_theory_until_its_training_ended():
    times = np.arange(100)
    network = np.random.default_rng(0).random((3, 2, 100))  # panels, curves, times
    stops = [5, 10, 60]
    figure = figures.fit_panels(times, network, network + 1, [*"abc"], stops, ["H", "Q"], columns=2)
    assert [axis.get_title() for axis in figure.axes if axis.get_visible()] == [*"abc"]
    for axis, dots, stop in zip(figure.axes, network, stops):
        ends = np.floor(1.3 * stop)
        for k, color in enumerate(figures.VARIABLE_COLORS[:2]):
            line, marked = axis.lines[2 * k : 2 * k + 2]
            assert line.get_color() == marked.get_color() == color
            np.testing.assert_array_equal(line.get_xdata(), np.arange(ends + 1))
            np.testing.assert_array_equal(line.get_ydata(), dots[k, line.get_xdata()] + 1)
            np.testing.assert_array_equal(marked.get_ydata(), dots[k, marked.get_xdata()])
    assert texts(figure) == ["H", "Q"]


def test_trace_panels_draw_series_and_levels():
    values = np.arange(24.0).reshape(2, 3, 4)
    figure = figures.trace_panels(np.tile(np.arange(4), (2, 1)), values, ["a", "b"], levels=[[1.0], [2.0]])
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]
    np.testing.assert_array_equal(figure.axes[1].lines[2].get_ydata(), values[1, 2])
    assert list(figure.axes[1].lines[3].get_ydata()) == [2.0, 2.0]


def test_curves_draw_each_with_its_band():
    figure = figures.curves([1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], ["a", "b"], [[0.1, 0.1]] * 2, levels=[0.5])
    axis = figure.axes[0]
    assert len(axis.collections) == 2
    assert [tuple(line.get_ydata()) for line in axis.lines[:2]] == [(1.0, 2.0), (3.0, 4.0)]


def test_code_raster_names_the_codes():
    figure = figures.code_raster([0.0, 1.0], [[[0, 1], [1, 1]]], ["1-0", "0-1"], ["layer 1"])
    assert texts(figure) == ["1-0", "0-1"]
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), [[0, 1], [1, 1]])


def test_a_code_has_its_color_also_in_a_layer_that_lacks_others():
    names = ["1-0-0", "1-1-0", "0-1-1", "1-0-1", "0-0-1"]  # no layer has the first or the last
    layers = np.array([[[2, 2]], [[1, 2]], [[3, 2]], [[1, 3]]])
    figure = figures.code_raster([0.0, 1.0], layers, names, [*"abcd"])
    for axis, (codes,) in zip(figure.axes, layers, strict=True):
        (image,) = axis.images
        drawn = image.to_rgba(image.get_array())[0, :, :3]
        np.testing.assert_allclose(drawn, [to_rgb(figures.CODE_COLORS[names[code]]) for code in codes])


def test_code_has_one_color_wherever_it_is_drawn():
    raster = figures.code_raster([0.0, 1.0], [[[0, 1], [1, 1]]], ["1-1-0", "0-1-1"], ["layer 1"])
    colors = [to_rgb(patch.get_facecolor()) for patch in raster.legends[0].get_patches()]
    line = figures.curves([0.0, 1.0], [[0.2, 0.6], [0.8, 0.4]], ["0-1-1", "1-1-0"]).axes[0].lines
    bar = figures.bars([[[0.25, 0.75]]], ["all"], ["0-1-1", "1-1-0"], stacked=True).axes[0].patches
    expected = [to_rgb(figures.CODE_COLORS[name]) for name in ("0-1-1", "1-1-0")]
    assert colors == expected[::-1]
    assert [to_rgb(one.get_color()) for one in line] == expected
    assert [to_rgb(one.get_facecolor()) for one in bar] == expected


def test_codes_of_more_classes_have_colors_of_their_own_and_keep_them():
    names = ["1-1-0-0", "1-0-1-0", "0-1-1-0", "0-0-1-1", "1-1-1-0"]
    colors = [figures.CODE_COLORS[name] for name in names]
    assert len(set(colors)) == len(names)
    assert colors == [type(figures.CODE_COLORS)()[name] for name in names]
    with pytest.raises(KeyError):
        figures.CODE_COLORS["class 0"]


def test_densities_have_histogram_and_theory_per_panel():
    grid = np.linspace(-3, 3, 50)
    samples = np.random.default_rng(0).standard_normal((2, 1000))
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    figure = figures.densities(samples, grid, density, names=["class 0", "class 1"], panels=True)
    assert [axis.get_title() for axis in figure.axes] == ["class 0", "class 1"]
    for axis in figure.axes:
        (outline,) = axis.patches
        np.testing.assert_allclose(area(outline), 1.0)
        np.testing.assert_array_equal(axis.lines[0].get_xdata(), grid)


def test_a_sample_far_off_does_not_make_the_bins_countless():
    samples = np.append(np.random.default_rng(0).standard_normal(500), 1e4)
    (outline,) = figures.densities(samples, [0.0, 1.0], [0.4, 0.2]).axes[0].patches
    assert len(outline.get_xy()) < 4 * 120 + 5  # an outline, there and back


def test_densities_accept_one_quantity_that_never_varies():
    figure = figures.densities(np.zeros(10), np.linspace(-1, 1, 5), np.ones(5))
    assert len(figure.axes[0].lines) == 1


@pytest.mark.parametrize("alone", [True, False])
def test_network_sample_draws_outputs_and_targets_of_each_output(alone):
    targets = np.eye(3)[LABELS]
    neurons = ((), ()) if alone else (np.ones((4, 3)), np.ones((4, 6)))
    figure = figures.network_sample(*neurons, targets + 0.1, targets, LABELS, theory=targets - 0.1)
    rows = [axis for axis in figure.axes if axis.lines]
    assert len(rows) == 3
    for r, axis in enumerate(rows):
        outputs, target, theory = (line.get_ydata() for line in axis.lines)
        np.testing.assert_allclose(outputs - target, 0.1)
        np.testing.assert_allclose(target - theory, 0.1)
        np.testing.assert_array_equal(target, np.eye(3)[np.sort(LABELS)][:, r])


def test_network_sample_shows_neurons_in_their_order_and_inputs_by_class():
    activations = LABELS + 10.0 * np.arange(3)[:, None]
    targets = np.eye(3)[LABELS]
    figure = figures.network_sample(np.arange(9.0).reshape(3, 3), activations, targets, targets, LABELS)
    readouts, shown = (axis.images[0].get_array() for axis in figure.axes[:2])
    np.testing.assert_array_equal(readouts, np.arange(9.0).reshape(3, 3))
    np.testing.assert_array_equal(shown, np.sort(LABELS) + 10.0 * np.arange(3)[:, None])


def test_bars_hold_errors_and_other_predictions():
    figure = figures.bars(
        [0.1, 0.2], ["a", "b"], errors=[0.01, 0.02], points=[[0.11, 0.19], [0.2, 0.3]], names=["sampling"]
    )
    axis = figure.axes[0]
    assert [bar.get_height() for bar in axis.patches] == [0.1, 0.2]
    drawn = [tuple(line.get_ydata()) for line in axis.lines]
    assert (0.11, 0.19) in drawn
    assert (0.2, 0.3) in drawn
    assert texts(figure) == ["theory", "Gaussian process", "sampling"]
    (bars,) = axis.collections
    np.testing.assert_allclose([piece[:, 1] for piece in bars.get_segments()], [[0.09, 0.11], [0.18, 0.22]])


@pytest.mark.parametrize("stacked", [False, True])
def test_every_panel_has_its_own_heights_errors_and_points(stacked):
    heights, errors, points = np.random.default_rng(0).random((3, 2, 3, 2))  # panels, groups, bars
    points = points.swapaxes(1, 2)
    figure = figures.bars(heights, [*"abc"], [*"xy"], [*"pq"], errors, points, [*"uv"], stacked=stacked)
    for axis, height, error, rows in zip(figure.axes, heights, errors, points, strict=True):
        ends = height.cumsum(1) if stacked else height
        for bars, size, end, spread in zip(axis.containers[1::2], height.T, ends.T, error.T, strict=True):
            np.testing.assert_allclose([bar.get_height() for bar in bars], size)
            (pieces,) = bars.errorbar.lines[2]
            drawn = [piece[:, 1] for piece in pieces.get_segments()]
            np.testing.assert_allclose(drawn, np.transpose([end - spread, end + spread]))
        drawn = [line.get_ydata() for line in axis.lines if line.get_label() in "uv"]
        np.testing.assert_array_equal(drawn, rows)


def test_points_stand_on_the_bar_they_belong_to():
    heights = [[[1.0, 2.0], [3.0, 4.0]]]
    axis = figures.bars(heights, ["a", "b"], ["x", "y"], points=[[1.0, 3.0], [2.0, 4.0]], on=[0, -1]).axes[0]
    for line, bars in zip(axis.lines, axis.containers):
        np.testing.assert_allclose(line.get_xydata(), [(b.get_center()[0], b.get_height()) for b in bars])


def test_the_name_of_a_row_stands_beside_its_codes():
    codes = ["1-1-0"] * 3 + ["0-1-1"] * 3
    figure = figures.activation_matrix(np.eye(6), LABELS, row_names=["layer 1"], codes=codes)
    figure.canvas.draw()
    strip = figure.axes[0].child_axes[0]
    name, ticks = strip.yaxis.label.get_window_extent(), strip.get_yticklabels()
    assert strip.get_ylabel() == "layer 1"
    assert [tick.get_text() for tick in ticks] == ["1-1-0", "0-1-1"]
    assert all(0 <= name.x0 < name.x1 < tick.get_window_extent().x0 for tick in ticks)


def test_scaling_plot_draws_the_power_law_and_states_the_exponent():
    sizes = np.array([50.0, 100.0, 200.0])
    figure = figures.scaling_plot(sizes, sizes**-0.5, [-0.5], [1.0], ["lazy"], errors=0.1 * sizes**-0.5)
    assert texts(figure) == ["lazy: −0.50"]
    assert figure.legends[0].get_title().get_text() == "exponents"
    law, markers = figure.axes[0].lines[:2]
    np.testing.assert_allclose(law.get_ydata(), sizes**-0.5)
    np.testing.assert_allclose(markers.get_ydata(), sizes**-0.5)
    (pieces,) = figure.axes[0].containers[0][2]
    drawn = [piece[:, 1] for piece in pieces.get_segments()]
    np.testing.assert_allclose(drawn, np.outer(sizes**-0.5, [0.9, 1.1]))
    figure = figures.scaling_plot(sizes, sizes, [-0.001], [1.0], ["rich"], theory=[2 * sizes])
    assert texts(figure) == ["rich: 0.00"]
    law, theory = figure.axes[0].lines[:2]
    np.testing.assert_allclose(theory.get_ydata(), 2 * sizes)
    assert (theory.get_linestyle(), theory.get_color()) == ("--", law.get_color())


def test_curves_draw_samples_in_the_color_of_their_theory():
    figure = figures.curves(
        [0.0, 1.0],
        [[3.0, 2.0], [1.0, 1.0]],
        ["n", "k"],
        sampled_x=[0.5],
        sampled=[[2.5]],
        sampled_errors=[[0.1]],
    )
    first, second, marker = figure.axes[0].lines[:3]
    assert tuple(first.get_ydata()) == (3.0, 2.0)
    assert tuple(marker.get_ydata()) == (2.5,)
    assert first.get_color() == marker.get_color() != second.get_color()
    (bar,) = figure.axes[0].containers[0][2]
    np.testing.assert_allclose(bar.get_segments()[0][:, 1], [2.4, 2.6])


def test_curves_of_one_name_are_drawn_alike_with_their_marks():
    times, counts = np.tile(np.arange(1, 5), (3, 1)), np.tile([9, 5, 4, 3], (3, 1))
    figure = figures.curves(
        times, counts, ["plain", "plain", "moves"], styles=["steps-post"], marks=[1.0, 2.0, 3.0], levels=[3]
    )
    lines = figure.axes[0].lines
    assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()
    assert lines[0].get_drawstyle() == "steps-post"
    assert [line.get_xdata()[0] for line in lines[4:]] == [1.0, 2.0, 3.0]
    assert texts(figure) == ["plain", "moves"]


def test_legend_breaks_into_rows_before_it_is_wider_than_the_figure():
    cases = ("short", 4, 1), ("by no means short", 4, 2), ("no long name", 5, 2), ("no long name", 7, 3)
    for word, count, rows in cases:
        names = [f"{word} {k}" for k in range(count)]
        figure = figures.curves(np.arange(3.0), np.ones((count, 3)), names)
        figure.draw_without_rendering()
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width
        heights = {round(text.get_window_extent().y0) for text in legend.get_texts()}
        assert len(heights) == rows, word
        assert sorted(texts(figure)) == names


def test_panel_keeps_its_height_under_a_legend_of_many_rows():
    heights = {}
    for count in (2, 8):
        names = [f"a name that fills half of a row, number {k}" for k in range(count)]
        figure = figures.curves(np.arange(3.0), np.ones((count, 3)), names)
        figure.draw_without_rendering()
        heights[count] = figure.axes[0].get_window_extent().height
    assert heights[8] > 0.9 * heights[2]


def test_grid_of_activations_sorts_the_inputs_of_every_panel_and_names_the_rows():
    panels = np.broadcast_to(np.asarray(LABELS, dtype=float), (2, 3, 4, len(LABELS)))
    figure = figures.activation_matrix(panels, LABELS, ["0", "1", "2"], ["layer 1", "layer 2"])
    images = [axis.images[0].get_array() for axis in figure.axes if axis.images]
    assert len(images) >= 6
    for image in images[:6]:
        np.testing.assert_array_equal(image[0], np.sort(LABELS))
    assert [figure.axes[k].get_ylabel() for k in (0, 3)] == ["layer 1\nneuron", "layer 2\nneuron"]


def test_phase_map_shows_samples_in_the_colors_of_the_theory():
    figure = figures.phase_map([0, 1], [0.1, 1], [[1, 3], [2, 4]], [0.5, 0.5], [[0.5, 0.3]], [2.0])
    mesh, points = figure.axes[0].collections
    assert mesh.get_clim() == points.get_clim() == (1.0, 4.0)
    assert np.allclose(points.get_offsets(), [[0.5, 0.3]])


def test_sampler_traces_show_both_ends_and_the_diagnostics():
    ends = np.arange(12.0).reshape(2, 2, 3)
    figure = figures.sampler_traces(
        ["energy", "readouts² of output 0"], prior=ends, planted=ends + 100, verdict="agree"
    )
    lines = [line.get_ydata() for line in figure.axes[1].lines if len(line.get_ydata())]
    np.testing.assert_array_equal(lines, [*ends[1], *(ends[1] + 100)])
    assert figure.axes[1].get_ylabel() == "readouts² of output 0"
    figure = figures.sampler_traces(["energy"], ends[:1], rhat=[1.234], ess=[99.6])
    assert [axis.get_title() for axis in figure.axes] == ["R-hat 1.234, ESS 100"]
    assert isinstance(figure, Figure)


def test_stacked_bars_stand_on_all_before():
    heights = np.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
    figure = figures.bars(heights, ["a", "b"], names=["x", "y", "z"], stacked=True)
    drawn = [(patch.get_y(), patch.get_height()) for patch in figure.axes[0].patches]
    assert drawn == [(0, 1), (0, 4), (1, 2), (4, 5), (3, 3), (9, 6)]
