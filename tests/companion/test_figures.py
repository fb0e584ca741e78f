import runpy
import textwrap
import types

import matplotlib.pyplot as plt
import numpy as np
import pytest
from companion import figures
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

LABELS = np.array([2, 0, 1, 0, 1, 0])


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(figures, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    monkeypatch.setenv("CODING_SCHEMES_ARTIFACTS", str(tmp_path / "downloads"))
    monkeypatch.setenv("CODING_SCHEMES_CHAPTER", "analog")
    return tmp_path / "downloads"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def draw_line(x, title="none"):
    """A line over its index."""
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.plot(x)
    axis.set(xlabel="index", ylabel="value", title=title)
    return figure


def notebook_function(tmp_path, source, name="draw"):
    """A function whose module is `__main__`, as in a notebook, with its source on disk for `inspect`."""
    path = tmp_path / "cell.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    module = types.ModuleType("__main__")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    return getattr(module, name)


def test_publish_shows_the_image_with_alternative_text_and_links(shown, downloads):
    figures.publish(draw_line, "line", x=np.arange(3.0), description="A <line>")
    (bundle,) = shown
    assert 'alt="A &lt;line&gt;"' in bundle["text/html"]
    assert 'href="../downloads/analog/line.npz"' in bundle["text/html"]
    assert 'href="../downloads/analog/line.py"' in bundle["text/html"]
    assert bundle["image/png"] in bundle["text/html"]


def test_alternative_text_defaults_to_the_docstring(shown):
    figures.publish(draw_line, "line", x=np.arange(3.0))
    assert 'alt="A line over its index."' in shown[0]["text/html"]


def test_publish_without_a_pipeline_leaves_no_files_and_no_links(shown, monkeypatch, tmp_path):
    monkeypatch.delenv("CODING_SCHEMES_ARTIFACTS", raising=False)
    monkeypatch.chdir(tmp_path)
    figures.publish(draw_line, "line", x=np.arange(3.0))
    assert "href" not in shown[0]["text/html"]
    assert list(tmp_path.iterdir()) == []


def test_stored_arrays_are_the_drawn_ones(shown, downloads):
    figures.publish(draw_line, "line", x=np.linspace(0, 1, 5), title="ramp")
    with np.load(downloads / "line.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["x"], np.linspace(0, 1, 5))
        assert stored["title"].item() == "ramp"


def test_publish_is_byte_identical(shown, downloads):
    figures.publish(draw_line, "line", x=np.arange(3.0))
    first = [(downloads / f"line.{ending}").read_bytes() for ending in ("npz", "py")]
    figures.publish(draw_line, "line", x=np.arange(3.0))
    assert first == [(downloads / f"line.{ending}").read_bytes() for ending in ("npz", "py")]
    assert shown[0] == shown[1]


def test_downloaded_code_draws_the_same_figure_again(shown, downloads, tmp_path):
    draw = notebook_function(
        tmp_path,
        """
        import matplotlib.pyplot as plt
        import numpy as np
        from companion import figures
        SHIFT = {"by": 2.0}
        def shift(x):
            return np.asarray(x) + SHIFT["by"]
        def draw(x, line_name):
            figure, axis = plt.subplots(figsize=(2, 1))
            axis.plot(shift(x), color=figures.COLORS["linear"], label=line_name)
            lines = [float(level) for level in np.asarray(x)]
            axis.set(xlabel="index", ylim=(min(lines), max(lines) + 3))
            return figure
        """,
    )
    figures.publish(draw, "shifted", x=np.arange(4.0), line_name="a line")
    script = (downloads / "shifted.py").read_text(encoding="utf-8")
    assert "SHIFT = {'by': 2.0}" in script
    assert "from companion import figures" in script
    with figures.theme():
        runpy.run_path(str(downloads / "shifted.py"))
    again = np.asarray(Image.open(downloads / "shifted.png").convert("L"), dtype=float)
    with figures.theme():
        draw(np.arange(4.0), "a line").savefig(tmp_path / "direct.png", bbox_inches="tight")
        draw(np.arange(4.0)[::-1], "a line").savefig(tmp_path / "other.png", bbox_inches="tight")
    direct, other = (
        np.asarray(Image.open(tmp_path / f).convert("L"), dtype=float) for f in ("direct.png", "other.png")
    )
    np.testing.assert_array_equal(again, direct)
    assert again.shape != other.shape or np.any(again != other)


def test_plot_function_may_not_read_results_of_the_notebook(tmp_path, shown):
    draw = notebook_function(tmp_path, "import numpy as np\nz = np.ones(3)\ndef draw(x):\n    return z + x\n")
    with pytest.raises(ValueError, match="reads the variable 'z' of the notebook"):
        figures.publish(draw, "line", x=1.0)


def test_attribute_of_the_same_name_as_a_variable_is_no_use_of_it(tmp_path, shown):
    source = """
    import numpy as np
    import matplotlib.pyplot as plt
    plot = np.ones(3)
    def draw(x):
        figure, axis = plt.subplots(figsize=(1, 1))
        axis.plot(x)
        return figure
    """
    figures.publish(notebook_function(tmp_path, source), "line", x=[1.0, 2.0])
    assert len(shown) == 1


def test_lambda_is_refused(tmp_path, shown):
    draw = notebook_function(tmp_path, "draw = lambda x: x\n")
    with pytest.raises(ValueError, match="defined with def"):
        figures.publish(draw, "line", x=1.0)


@pytest.mark.parametrize("value", [None, object(), [[1.0], [1.0, 2.0]], {"a": 1}])
def test_what_cannot_be_stored_as_an_array_is_refused(shown, value):
    with pytest.raises(ValueError, match="x must be an array"):
        figures.publish(draw_line, "line", x=value)


@pytest.mark.parametrize("name", ["", "a b", "../a", "a.npz"])
def test_name_must_be_a_file_name(shown, name):
    with pytest.raises(ValueError, match="name must be"):
        figures.publish(draw_line, name, x=[1.0])


def test_plot_function_must_return_a_figure(shown):
    with pytest.raises(TypeError, match="must return a matplotlib Figure; got list"):
        figures.publish(list_of_lines, "line", x=[1.0, 2.0])


def list_of_lines(x):
    return plt.figure().add_subplot().plot(x)


def test_theme_does_not_outlive_its_block():
    before = plt.rcParams["axes.spines.top"]
    with figures.theme():
        assert plt.rcParams["axes.spines.top"] is False
    assert plt.rcParams["axes.spines.top"] == before


def test_class_colors_differ_also_without_red_green_vision():
    # Viénot's projection for deuteranopes, on linear RGB
    linear = np.array([to_rgb(color) for color in figures.CLASS_COLORS[:4]]) ** 2.2
    seen = (linear @ np.array([[0.29, 0.71, 0.0], [0.29, 0.71, 0.0], [-0.02, 0.02, 1.0]]).T).clip(0) ** (
        1 / 2.2
    )
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(4, 1)]
    assert gaps.min() > 0.15


def test_readout_histogram_draws_density_and_theory_per_class():
    grid = np.linspace(-3, 3, 50)
    readouts = np.random.default_rng(0).standard_normal((1000, 2))
    figure = figures.readout_histogram(readouts, grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi))
    assert len(figure.axes) == 2
    for axis in figure.axes:
        area = sum(bar.get_width() * bar.get_height() for bar in axis.patches)
        np.testing.assert_allclose(area, 1.0)
        np.testing.assert_array_equal(axis.lines[0].get_xdata(), grid)


def test_density_comparison_accepts_one_quantity_that_never_varies():
    figure = figures.density_comparison(np.zeros(10), np.linspace(-1, 1, 5), np.ones(5))
    assert len(figure.axes[0].lines) == 1


def test_activation_matrix_sorts_inputs_by_class_and_keeps_neurons():
    activations = LABELS + 10.0 * np.arange(3)[:, None]
    figure = figures.activation_matrix(activations, LABELS)
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, np.sort(LABELS) + 10.0 * np.arange(3)[:, None])
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["0", "1", "2"]
    np.testing.assert_allclose(figure.axes[0].get_xticks(), [1.0, 3.5, 5.0])


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


def test_output_traces_draw_outputs_and_targets_of_each_output():
    targets = np.eye(3)[LABELS]
    figure = figures.output_traces(targets + 0.1, targets, LABELS, theory=targets - 0.1)
    for r, axis in enumerate(figure.axes):
        outputs, target, theory = (line.get_ydata() for line in axis.lines)
        np.testing.assert_allclose(outputs - target, 0.1)
        np.testing.assert_allclose(target - theory, 0.1)
        np.testing.assert_array_equal(target, np.eye(3)[np.sort(LABELS)][:, r])


def test_class_error_bars_hold_the_three_kinds():
    figure = figures.class_error_bars([0.1, 0.2], [0.01, 0.02], [0.11, 0.19], [0.2, 0.3])
    axis = figure.axes[0]
    assert [bar.get_height() for bar in axis.patches] == [0.1, 0.2]
    drawn = [tuple(line.get_ydata()) for line in axis.lines]
    assert (0.11, 0.19) in drawn
    assert (0.2, 0.3) in drawn


def test_scaling_plot_draws_the_power_law_and_states_the_exponent():
    sizes = np.array([50.0, 100.0, 200.0])
    figure = figures.scaling_plot(sizes, sizes**-0.5, [-0.5], [1.0], ["lazy"], errors=0.1 * sizes**-0.5)
    assert figure.legends[0].get_texts()[0].get_text() == "lazy, exponent −0.50"
    assert any(np.allclose(line.get_ydata(), sizes**-0.5) for line in figure.axes[0].lines[1:])
    figure = figures.scaling_plot(sizes, sizes, [-0.001], [1.0], ["rich"], theory=[2 * sizes])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["theory", "rich, exponent 0.00"]
    assert any(np.allclose(line.get_ydata(), 2 * sizes) for line in figure.axes[0].lines)


def test_trace_plot_draws_each_neuron_and_each_level():
    values = np.arange(12.0).reshape(3, 4)
    figure = figures.trace_plot(np.arange(4), values, names=["a", "b", "c"], levels=[1.0, 2.0])
    assert len(figure.axes[0].lines) == 5
    assert isinstance(figure, Figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c", "theory"]


def test_sparse_population_marks_theory_and_draws_the_bulk():
    bulk = np.random.default_rng(0).standard_normal(500)
    figure = figures.sparse_population(
        bulk, [-1.0, 1.0], [0.2, 0.3], [[7.0, 7.1], [-4.0, -4.1]], [7.05, -4.0]
    )
    left, right = figure.axes
    assert tuple(left.lines[0].get_ydata()) == (0.2, 0.3)
    assert [line.get_xdata()[0] for line in right.lines] == [7.05, -4.0]


def test_coarsening_draws_runs_of_one_name_alike():
    times, counts = np.tile(np.arange(1, 5), (3, 1)), np.tile([9, 5, 4, 3], (3, 1))
    figure = figures.coarsening(times, counts, [1.0, 2.0, 3.0], ["plain", "plain", "moves"])
    lines = figure.axes[0].lines
    assert lines[0].get_color() == lines[2].get_color() != lines[4].get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["plain", "moves", "one per class"]


def test_layer_counts_say_how_many_seeds():
    figure = figures.layer_counts([[2, 3], [2, 4], [1, 3]])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "2", "1"]


def test_parameter_sweep_draws_theory_and_markers():
    figure = figures.parameter_sweep([0.0, 1.0], [3.0, 2.0], [0.5], [2.5], names=["n"])
    assert tuple(figure.axes[0].lines[0].get_ydata()) == (3.0, 2.0)
    assert len(figure.axes[0].containers) == 1


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


def test_activation_grid_sorts_the_inputs_of_every_panel():
    panels = np.broadcast_to(np.asarray(LABELS, dtype=float), (2, 3, 4, len(LABELS)))
    figure = figures.activation_grid(panels, LABELS, ["layer 1", "layer 2"], ["0", "1", "2"])
    images = [axis.images[0].get_array() for axis in figure.axes if axis.images]
    assert len(images) >= 6
    for image in images[:6]:
        np.testing.assert_array_equal(image[0], np.sort(LABELS))


def test_code_raster_names_the_codes():
    figure = figures.code_raster([0.0, 1.0], [[[0, 1], [1, 1]]], ["1-0", "0-1"], ["layer 1"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["1-0", "0-1"]
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), [[0, 1], [1, 1]])


def test_scheme_figures_show_what_they_are_given():
    """Lines and markers of occupancies, bars that fill up to one, a map with points in its colours."""
    figure = figures.occupancy_lines(
        [0.0, 1.0], [[0.2, 0.6], [0.8, 0.4]], ["1-0", "0-1"], [0.5], [[0.4], [0.6]], [[0.1], [0.1]]
    )
    lines = [line.get_ydata().tolist() for line in figure.axes[0].get_lines()]
    assert [0.2, 0.6] in lines
    assert [0.4] in lines
    figure = figures.occupancy_bars([[[0.25, 0.75], [1.0, 0.0]]], ["a", "b"], ["fast", "slow"], ["task"])
    tops = [bar.get_y() + bar.get_height() for bar in figure.axes[0].patches]
    assert tops == [0.25, 1.0, 1.0, 1.0]
    figure = figures.phase_map([0, 1], [0.1, 1], [[1, 3], [2, 4]], [0.5, 0.5], [[0.5, 0.3]], [2.0])
    mesh, points = figure.axes[0].collections
    assert mesh.get_clim() == points.get_clim() == (1.0, 4.0)
    assert np.allclose(points.get_offsets(), [[0.5, 0.3]])
