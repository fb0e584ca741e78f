"""Animations: the page holds every frame and asks for nothing from outside."""

import base64
import html
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from companion import films, formats
from PIL import Image


def bars(frame, heights):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.bar(range(len(heights[frame])), heights[frame])
    return figure


HEIGHTS = np.array([[1.0, 2.0], [2.0, 1.0], [1.5, 1.5]])


def test_page_holds_all_frames_and_a_still(shown):
    films.publish_animation(bars, "bars", num_frames=3, still=1, description="two <bars>", heights=HEIGHTS)
    (bundle,) = shown
    page = html.unescape(bundle["text/html"])
    frames = re.findall(r'"data:image/png;base64,(iVBOR[^"]*)"', page.partition("data-frames")[2])
    assert len(set(frames)) == 3
    assert all(base64.b64decode(frame).startswith(b"\x89PNG") for frame in frames)
    assert f"base64,{frames[1]}" in page
    assert 'alt="two <bars>"' in page
    assert "<button" in page
    assert 'max="2"' in page
    assert not re.search(r"https?:|src=\"(?!data:)|@import|<link", page)


def test_arrays_and_code_draw_the_still(shown, downloads):
    films.publish_animation(bars, "bars", num_frames=2, still=1, description="bars", heights=HEIGHTS)
    with np.load(downloads / "bars.npz") as stored:
        assert stored["frame"] == 1
        np.testing.assert_array_equal(stored["heights"], HEIGHTS)
    frames = sorted(path.name for path in downloads.glob("bars-frames/*"))
    assert frames == ["000.png", "001.png"]
    with Image.open(downloads / "bars.webp") as film:
        assert film.n_frames == 2
        film.seek(1)
        film.load()
        assert film.info["duration"] == films.INTERVAL_MS  # of a frame
    assert (downloads / "bars.png").read_bytes() == (downloads / "bars-frames/001.png").read_bytes()


def test_page_of_the_book_takes_the_frames_from_files_beside_it(shown, downloads):
    films.publish_animation(bars, "bars", num_frames=2, description="", caption="Bars.", heights=HEIGHTS)
    figure = shown[0][formats.FIGURE_TYPE]
    assert (figure["file"], figure["caption"]) == ("bars.png", "Bars.")
    assert (
        '["../downloads/analog/bars-frames/000.png", "../downloads/analog/bars-frames/001.png"]'
        in html.unescape(figure["page"])
    )
    assert "base64" not in figure["page"]


@pytest.mark.parametrize(("change", "name"), [({"name": "a b"}, "name"), ({"still": 3}, "still")])
def test_refuses(change, name):
    options = {"name": "bars", "num_frames": 3, "description": "", "heights": HEIGHTS} | change
    with pytest.raises(ValueError, match=name):
        films.publish_animation(bars, **options)
