import json
import re
import runpy
import textwrap
import types

import matplotlib.pyplot as plt
import numpy as np
import pytest
from companion import figures, formats, publish
from matplotlib.colors import to_hex
from PIL import Image

pytestmark = pytest.mark.usefixtures("close_figures")


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


def test_publish_leaves_what_the_page_is_made_of(shown, downloads):
    publish.publish(draw_line, "line", x=np.arange(3.0), description="A <line>", caption="It **rises**.")
    (bundle,) = shown
    assert 'alt="A &lt;line&gt;"' in bundle["text/html"]
    assert "<figcaption>It **rises**.</figcaption>" in bundle["text/html"]
    figure = json.loads(json.dumps(bundle[formats.FIGURE_TYPE]))
    width = figure.pop("width")
    assert 1.5 * publish.PIXELS_PER_INCH < width < 2.5 * publish.PIXELS_PER_INCH
    picture = re.search(
        r'<svg [^>]*width="([\d.]+)pt" height="([\d.]+)pt"', (downloads / "line.svg").read_text()
    )
    assert figure.pop("height") / width == pytest.approx(float(picture[2]) / float(picture[1]), abs=0.01)
    assert figure == {
        "name": "line",
        "file": "line.svg",
        "caption": "It **rises**.",
        "description": "A <line>",
        "tail": "",
        "panels": [],
        "page": "",
        "function": f"{__name__}.draw_line",
    }
    assert (downloads / "line.svg").read_bytes().startswith(b"<?xml")
    with Image.open(downloads / "line-thumbnail.png") as thumbnail:
        assert abs(thumbnail.width - formats.THUMBNAIL) <= 2


@pytest.mark.parametrize("scales", [("linear", "log"), ("log", "linear"), ("log", "log")])
def test_curves_of_nothing_are_published_on_any_scale(shown, downloads, scales):
    """As at a reader's sizes, where a spread over two networks has no error."""
    nothing = np.full((2, 3), np.nan)
    publish.publish(figures.curves, "empty", x=[1.0, 2.0, 3.0], values=nothing, errors=nothing, scales=scales)
    assert (downloads / "empty.svg").is_file()


def test_alternative_text_defaults_to_the_docstring(shown):
    publish.publish(draw_line, "line", x=np.arange(3.0))
    assert 'alt="A line over its index."' in shown[0]["text/html"]


def draw_picture(x):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.imshow(x)
    return figure


def draw_marks(x):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.scatter(x, x)
    return figure


def draw_mesh(x):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.pcolormesh(x)
    return figure


@pytest.mark.parametrize(
    ("draw", "x", "file"),
    [
        (draw_picture, np.ones((3, 3)), "shown.png"),
        (draw_mesh, np.ones((3, 3)), "shown.png"),
        (draw_marks, np.zeros(20_001), "shown.png"),
        (draw_marks, [1], "shown.svg"),
        (draw_line, np.zeros(20_001), "shown.png"),
        (draw_line, [1], "shown.svg"),
    ],
)
def test_pictures_and_clouds_are_png_and_lines_svg(shown, downloads, draw, x, file):
    publish.publish(draw, "shown", x=x)
    assert shown[0][formats.FIGURE_TYPE]["file"] == file
    assert (downloads / file).is_file()


def test_publish_without_a_pipeline_leaves_no_files(shown, monkeypatch, tmp_path):
    monkeypatch.delenv("CODING_SCHEMES_ARTIFACTS", raising=False)
    monkeypatch.chdir(tmp_path)
    publish.publish(draw_line, "line", x=np.arange(3.0))
    assert list(tmp_path.iterdir()) == []


def test_stored_arrays_are_the_drawn_ones(shown, downloads):
    publish.publish(draw_line, "line", x=np.linspace(0, 1, 5), title="ramp")
    with np.load(downloads / "line.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["x"], np.linspace(0, 1, 5))
        assert stored["title"].item() == "ramp"
        assert publish.as_argument(stored["title"]) == "ramp"
    for kept in (np.ones(1), np.ones((1, 1))):  # of one network or class: a plain number is drawn otherwise
        assert publish.as_argument(kept).shape == kept.shape


def test_publish_is_byte_identical(shown, downloads):
    publish.publish(draw_line, "line", x=np.arange(3.0))
    first = {path.name: path.read_bytes() for path in downloads.iterdir()}
    assert len(first) == 4
    publish.publish(draw_line, "line", x=np.arange(3.0))
    assert first == {path.name: path.read_bytes() for path in downloads.iterdir()}
    assert shown[0] == shown[1]


def test_downloaded_code_draws_the_same_figure_again(shown, downloads, tmp_path):
    draw = notebook_function(
        tmp_path,
        """
        import matplotlib.pyplot as plt
        import numpy as np
        from companion import figures
        def draw(x, line_name):
            def shift(x):
                return np.asarray(x) + 2.0
            figure, axis = plt.subplots(figsize=(2, 1))
            axis.plot(shift(x), color=figures.COLORS["linear"], label=line_name)
            lines = [float(level) for level in np.asarray(x)]
            axis.set(xlabel="index", ylim=(min(lines), max(lines) + 3))
            return figure
        """,
    )
    publish.publish(draw, "shifted", x=np.arange(4.0), line_name="a line")
    script = (downloads / "shifted.py").read_text(encoding="utf-8")
    assert "def draw(x, line_name):" in script
    assert "from companion import figures" in script
    with publish.theme():
        runpy.run_path(str(downloads / "shifted.py"))
    again = np.asarray(Image.open(downloads / "shifted.png").convert("L"), dtype=float)
    with publish.theme():
        draw(np.arange(4.0), "a line").savefig(tmp_path / "direct.png", bbox_inches="tight")
        draw(np.arange(4.0)[::-1], "a line").savefig(tmp_path / "other.png", bbox_inches="tight")
    direct, other = (
        np.asarray(Image.open(tmp_path / f).convert("L"), dtype=float) for f in ("direct.png", "other.png")
    )
    np.testing.assert_array_equal(again, direct)
    assert again.shape != other.shape or np.any(again != other)


def test_downloaded_code_of_a_library_function_imports_it(shown, downloads):
    publish.publish(figures.curves, "ramp", x=[0.0, 1.0], values=[[1.0, 2.0]])
    assert "from companion.figures import curves" in (downloads / "ramp.py").read_text(encoding="utf-8")
    runpy.run_path(str(downloads / "ramp.py"))
    assert (downloads / "ramp.png").is_file()


def test_plot_function_may_not_read_results_of_the_notebook(tmp_path, shown):
    draw = notebook_function(tmp_path, "import numpy as np\nz = np.ones(3)\ndef draw(x):\n    return z + x\n")
    with pytest.raises(NameError, match="name 'z' is not defined"):
        publish.publish(draw, "line", x=1.0)


def test_lambda_is_refused(tmp_path, shown):
    draw = notebook_function(tmp_path, "draw = lambda x: x\n")
    with pytest.raises(ValueError, match="defined with def"):
        publish.publish(draw, "line", x=1.0)


@pytest.mark.parametrize("value", [None, object(), [[1.0], [1.0, 2.0]], {"a": 1}])
def test_what_cannot_be_stored_as_an_array_is_refused(shown, value):
    with pytest.raises(ValueError, match="x must be an array"):
        publish.publish(draw_line, "line", x=value)


@pytest.mark.parametrize("name", ["", "a b", "../a", "a.npz"])
def test_name_must_be_a_file_name(shown, name):
    with pytest.raises(ValueError, match="name must be"):
        publish.publish(draw_line, name, x=[1.0])


def test_plot_function_must_return_a_figure(shown):
    with pytest.raises(TypeError, match="must return a matplotlib Figure; got list"):
        publish.publish(list_of_lines, "line", x=[1.0, 2.0])


def list_of_lines(x):
    return plt.figure().add_subplot().plot(x)


def test_theme_is_seaborns_with_changes():
    """Written out, as seaborn takes long to import; what differs is what the book changes."""
    seaborn = pytest.importorskip("seaborn")
    ours = {"font.size", "xtick.labelsize", "ytick.labelsize", "legend.fontsize", "lines.linewidth"}
    ours |= {"lines.markersize", "axes.spines.top", "axes.spines.right", "image.cmap"}
    theirs = seaborn.plotting_context("notebook") | seaborn.axes_style("ticks")
    with publish.theme():
        differ = {name for name, value in theirs.items() if plt.rcParams[name] != value}
        colors = [to_hex(each["color"]) for each in plt.rcParams["axes.prop_cycle"]]
    assert differ <= ours
    assert colors == seaborn.color_palette("colorblind").as_hex()


def test_theme_does_not_outlive_its_block():
    before = plt.rcParams["axes.spines.top"]
    with publish.theme():
        assert plt.rcParams["axes.spines.top"] is False
    assert plt.rcParams["axes.spines.top"] == before
