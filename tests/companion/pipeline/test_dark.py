"""Pictures for dark pages: what is ink, what is a color, what is a picture inside."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from companion.pipeline import dark
from companion.publish import theme
from PIL import Image


def contrast(color, ground=dark.GROUND):
    def luminance(values):
        values = np.broadcast_to(values, 3)
        linear = np.where(values > 0.04045, ((values + 0.055) / 1.055) ** 2.4, values / 12.92)
        return linear @ [0.2126, 0.7152, 0.0722] + 0.05

    return luminance(color) / luminance(ground)


def test_ink_turns_light_and_the_page_dark():
    ink, gray, white = dark.recolored(np.array([[0.15] * 3, [0.6] * 3, [1.0] * 3]))
    assert contrast(ink) > 10
    assert ink[0] > gray[0] > white[0]
    np.testing.assert_allclose(white, dark.GROUND)


def test_colors_keep_hue_and_order_and_stand_out():
    colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, 40))[:, :3]
    found = dark.recolored(colors)
    before, after = ([contrast(color) for color in each] for each in (colors, found))
    assert min(before) < 1.3
    assert min(after) > 3
    np.testing.assert_array_equal(np.argsort(before), np.argsort(after))
    np.testing.assert_array_equal(found.argmax(-1), colors.argmax(-1))
    bright = np.array([[0.9, 0.6, 0.0]])
    np.testing.assert_allclose(dark.recolored(bright), bright)


def figure():
    """A heat map, white but for a cross, with a white line over it; text and axes around it."""
    drawn, axis = plt.subplots(figsize=(3, 2))
    axis.imshow(np.eye(2), cmap="Blues", aspect="auto")
    axis.axhline(0.3, color="white", linewidth=2)
    axis.set(xlabel="input", title="activation")
    return drawn


@pytest.fixture
def drawn():
    with theme():
        image = io.BytesIO()
        figure().savefig(image, format="png")
        plt.close("all")
        return Image.open(image)


@pytest.mark.parametrize("palette", [False, True])
def test_ink_around_a_heat_map_turns_light_and_the_map_stays(drawn, palette):
    if palette:  # as kept pictures are: what was opaque is nearly so
        drawn = drawn.quantize(256, Image.Quantize.FASTOCTREE)
    before, after = np.array(drawn.convert("RGBA")), np.array(dark.picture(drawn))
    shown = before[..., 3] > 128
    rows, columns = (np.flatnonzero(shown.mean(axis) > 0.5) for axis in (1, 0))
    inside = np.zeros_like(shown)
    inside[rows[4] : rows[-4], columns[6] : columns[-4]] = True
    np.testing.assert_array_equal(before[inside], after[inside])
    around = shown & ~inside
    around[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = False
    assert before[around][:, :3].mean() < 80
    assert after[around][:, :3].mean() > 170
    np.testing.assert_array_equal(before[..., 3], after[..., 3])


def test_a_drawing_of_matplotlib_keeps_its_shapes_and_code_colors():
    with theme():
        drawn, axis = plt.subplots()
        axis.plot([0, 1], color="#d55e00")
        axis.plot([1, 0], color="black")
        axis.text(0.5, 0.5, "black", color="#000000")
        image = io.StringIO()
        drawn.savefig(image, format="svg")
        plt.close(drawn)
    found = dark.drawing(image.getvalue())
    assert "stroke: #d55e00" in found
    assert "#262626" not in found
    assert "stroke: #000000" not in found
    assert '<svg fill="#ededed"' in found  # text without a color of its own
    assert found.count("<path") == image.getvalue().count("<path")
    assert found.count("xlink:href=") == image.getvalue().count("xlink:href=")


def test_text_on_a_light_patch_stays_dark_and_text_beside_it_turns_light():
    with theme():
        drawn, axis = plt.subplots()
        axis.axis("off")
        for x, color in ((0, "#b6d4e9"), (2, "#08306b"), (4, "none")):
            axis.add_patch(plt.Rectangle((x, 0), 1.5, 1, facecolor=color))
            axis.text(x + 0.7, 0.5, "2", color="#123456" if x else "black")
        axis.add_patch(plt.Rectangle((5, -9), 0.5, 9.5, facecolor="#b6d4e9"))  # cut off where the axes end
        axis.text(5.2, -0.05, "beside", color="#262626")
        axis.set(xlim=(0, 6), ylim=(0, 1))
        image = io.StringIO()
        drawn.savefig(image, format="svg")
        plt.close(drawn)
    found = dark.drawing(image.getvalue())
    assert found.count('fill="#000000"') == 1
    assert "fill: #123456" not in found
    assert "fill: #262626" not in found
    assert found.count("!") == image.getvalue().count("!")


def test_the_dark_picture_lies_beside_every_drawn_one(tmp_path, drawn):
    places = ["_images/one.png", "_static/paper/sparse/one.png", "_static/thumbnails/one.png"]
    for place in [*places, "_static/logo.png"]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        drawn.save(tmp_path / place)
    (tmp_path / "_images/two.svg").write_text('<svg><path style="fill: #262626"/></svg>', encoding="utf-8")
    dark.add(tmp_path)
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*-dark.*"))
    assert made == sorted([*(place.replace(".png", "-dark.png") for place in places), "_images/two-dark.svg"])
