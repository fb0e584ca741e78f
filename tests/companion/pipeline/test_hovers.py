"""Symbols and words are explained from the glossary where the text asks for it; figures keep their place."""

import pytest
from bs4 import BeautifulSoup
from sphinx.testing.util import SphinxTestApp

GLOSSARY = """# Glossary

## Sizes

| symbol | meaning | name in code |
|---|---|---|
| $N$ | neurons of a [layer](x.md) | `width` |
| $U$ (energy) | weighed by $N$ | |

## Words

```{glossary}
lazy
idle
  Scaled by {sym}`N`.
```
"""
PAGE = r"""# Page

A network of {sym}`N` neurons, $N$ again,
{sym}`N_\ell <N>`, {sym}`U <U (energy)>` is {term}`lazily <lazy>` found, {term}`idle`.

```{figure} picture.png
:width: 600px
:height: 300px
:loading: lazy
```
"""


@pytest.fixture
def built(tmp_path):
    """Build a page beside a glossary; returns its article, and what Sphinx warned of."""

    def build(page):
        texts = {"conf.py": "", "index.md": "# I\n\n```{toctree}\nx\nbook/glossary\n```\n", "x.md": page}
        for name, text in (texts | {"book/glossary.md": GLOSSARY.replace("x.md", "../x.md")}).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        (tmp_path / "picture.png").write_bytes(b"")
        extensions = ["myst_parser", "companion.pipeline.hovers", "companion.pipeline.theme"]
        settings = {"extensions": extensions, "myst_enable_extensions": ["dollarmath"], "nitpicky": True}
        app = SphinxTestApp("html", tmp_path, confoverrides=settings, warningiserror=False)
        app.build()
        soup = BeautifulSoup((tmp_path / "_build/html/x.html").read_bytes(), "html.parser")
        found = app.warning.getvalue()
        app.cleanup()
        return soup, found

    return build


def test_a_symbol_and_a_word_show_their_entries_meaning_first_and_link_to_them(built):
    page, warnings = built(PAGE)
    assert warnings == ""
    shown = [(link["href"], link.get("aria-label")) for link in page("a", class_="term")]
    assert shown == [
        ("book/glossary.html#sizes", "N: neurons of a layer · width"),
        ("book/glossary.html#sizes", r"N_\ell: neurons of a layer · width"),
        ("book/glossary.html#sizes", "U: weighed by N"),
        ("book/glossary.html#term-lazy", None),
        ("book/glossary.html#term-idle", None),
    ]
    first, other, _, word, again = page("a", class_="term")
    assert first.find("code").get_text() == "width"
    assert not first("a")  # the meaning's own links are left out
    assert other.span.get_text() == r"\(N_\ell\)"
    assert word.get_text() == r"lazilyScaled by \(N\)." == again.get_text().replace("idle", "lazily")


@pytest.mark.parametrize("text", ["{sym}`U`", "{sym}`M`", "{term}`busy`"])
def test_what_the_glossary_does_not_explain_is_a_warning(built, text):
    page, warnings = built(f"# Page\n\n{text}\n")
    assert "WARNING" in warnings
    assert not page("a", class_="term")


def test_a_figure_that_is_not_loaded_yet_has_its_place(built):
    page, _ = built(PAGE)
    assert page.figure.img["style"] == "width: 600px; aspect-ratio: 600 / 300;"
    assert page.figure.img["loading"] == "lazy"
