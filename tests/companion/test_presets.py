from pathlib import Path
from types import SimpleNamespace

import pytest
from companion import presets

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def chapter(tmp_path):
    """A chapter's module beside its sizes."""

    def make(text):
        (tmp_path / "sizes.toml").write_text(text)
        return SimpleNamespace(__file__=str(tmp_path / "runs.py"))

    return make


SIZES = (
    "[quick]\nN = 60\nsizes = [30]\n[quick.deep]\nN = 40\nT = 0.1\n[paper]\nN = 500\n[paper.deep]\nN = 200\n"
)


def test_named_sizes_of_a_chapter(chapter):
    runs = chapter(SIZES)
    quick, paper = (presets.sizes(runs, preset) for preset in ("quick", "paper"))
    assert (quick.N, quick.sizes, quick.deep.N, quick.deep.T) == (60, (30,), 40, 0.1)
    assert (paper.N, paper.sizes, paper.deep.N, paper.deep.T) == (500, (30,), 200, 0.1)
    given = presets.sizes(runs, "paper", N=80, sizes=None)
    assert (given.N, given.sizes) == (80, (30,))


def test_given_values_reach_into_tables(chapter):
    module = chapter("[quick]\n[quick.deep]\nwidth = 5\nsteps = 7\n[paper]\n")
    found = presets.sizes(module, "paper", deep={"width": 9, "steps": None})
    assert vars(found.deep) == {"width": 9, "steps": 7}
    with pytest.raises(ValueError, match="height"):
        presets.sizes(module, "quick", deep={"height": 1})


@pytest.mark.parametrize(
    ("text", "preset", "given", "complaint"),
    [
        (SIZES, "full", {}, "preset must be one of quick, paper in this chapter; got 'full'"),
        (SIZES, "fast", {}, "preset must be one of quick, paper"),
        (SIZES, "quick", {"M": 3}, r"given names unknown settings \['M'\]"),
        (SIZES + "[least]\nN = 12\n", "quick", {"N": 11}, "N: got 11, this chapter needs 12 or more"),
        (
            SIZES + "[least]\nsizes = [5]\n",
            "paper",
            {"sizes": (5, 4)},
            r"sizes: got \(5, 4\), .* none below 5",
        ),
        (SIZES + "[least]\nsizes = [5, 5]\n", "quick", {}, r"sizes: got \[30\], .* 2 or more numbers"),
        (SIZES + "[most]\nN = 70\n", "quick", {"N": 71}, "N: got 71, this chapter needs 70 or less"),
        (
            SIZES + "[most]\nN = 70\n",
            "quick",
            {"N": float("nan")},
            "N: got nan, this chapter needs 70 or less",
        ),
        (SIZES + "[least.deep]\nT = 0.2\n", "quick", {}, r"deep\.T: got 0\.1, .* 0\.2 or more"),
        (
            SIZES + "[quick.wide]\nN = 9\n[least.deep]\nT = 0.1\n[least.wide]\nN = 10\n",
            "quick",
            {},
            r"wide\.N: got 9, .* 10 or more",
        ),
        (SIZES + "M = 3\n", "paper", {}, r"sizes.toml, paper names unknown settings \['M'\]"),
    ],
)
def test_sizes_that_no_preset_has_are_refused(chapter, text, preset, given, complaint):
    with pytest.raises(ValueError, match=complaint):
        presets.sizes(chapter(text), preset, **given)


def test_full_builds_on_paper_and_a_given_zero_counts(chapter):
    runs = chapter(SIZES + "[full]\nsizes = [7]\n")
    full = presets.sizes(runs, "full")
    assert (full.N, full.sizes, full.deep.N) == (500, (7,), 200)
    assert presets.sizes(runs, "full", N=0).N == 0
    assert presets.sizes(chapter("[quick]\ntheory = true\n"), "quick", theory=False).theory is False


def test_the_least_value_itself_is_allowed_and_every_chapter_keeps_to_its_own(chapter):
    """Whatever the preset; and every least value of a chapter is of a setting that it has."""
    text = SIZES + "[least]\nN = 12\nsizes = [5]\n[least.deep]\nT = 0.1\n[most]\nN = 12\n"
    assert presets.sizes(chapter(text), "quick", N=12, sizes=(5, 9), deep={"T": 0.1}).N == 12
    for path in sorted((REPOSITORY / "notebooks").glob("*/sizes.toml")):
        for preset in ("quick", "paper"):
            presets.sizes(SimpleNamespace(__file__=str(path.with_name("runs.py"))), preset)
