"""Symbols and terms are explained once, from the glossary's page, and nowhere where a link may not stand."""

import re

from companion.pipeline import hovers

N = r'<span class="math notranslate nohighlight">\(N\)</span>'
T = r'<span class="math notranslate nohighlight">\(t\)</span>'
GLOSSARY = f"""<article><section id="sizes"><h2>Sizes</h2><table><thead><tr class="row-odd">
<th class="head"><p>symbol</p></th><th class="head"><p>name in code</p></th>
<th class="head"><p>definition</p></th>
<th class="head"><p>meaning</p></th></tr></thead><tbody>
<tr class="row-even"><td><p>{N}</p></td>
<td><p><code>width</code></p></td>
<td><p>A, <a href="x">Eq. (1)</a></p></td>
<td><p>neurons of a <a href="y">layer</a></p></td>
</tr>
<tr class="row-odd"><td><p>{T} (field)</p></td>
<td><p><code>dual_field</code></p></td><td><p></p></td><td><p></p></td></tr></tbody></table></section>
<section id="words"><dl>
<dt><strong>Lazy, non-lazy</strong></dt><dd><p>Scaled by {N}.</p></dd></dl></section></article>"""


def test_entries_of_tables_and_of_the_list():
    assert list(hovers.entries(GLOSSARY)) == [
        ("N", "sizes", "<code>width</code> · neurons of a layer"),
        ("t", "sizes", "field · <code>dual_field</code>"),
        ("lazy", "words", f"Scaled by {N}."),
        ("non-lazy", "words", f"Scaled by {N}."),
    ]


def test_first_use_in_the_text_is_explained(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book/glossary.html").write_text(GLOSSARY)
    page = (
        f"<nav>{N}</nav><article><h1>Lazy {N}</h1><p><a href='#'>lazy {N}</a> <code>lazy</code> "
        f'<div class="math notranslate"><span class="eqno">(1)</span>\\[{N} lazy\\]</div> '
        f"Non-lazy {N} and {N}, lazy, {T}<br/> lazyness</p></article>{T}"
    )
    for name in ("analog", "dynamics"):
        (tmp_path / f"notebooks/{name}.html").write_text(page)
    hovers.write(tmp_path)
    assert (tmp_path / "book/glossary.html").read_text() == GLOSSARY
    for name, expected in (("analog", ["Non-lazy", N, "lazy", T]), ("dynamics", ["Non-lazy", N, "lazy"])):
        text = (tmp_path / f"notebooks/{name}.html").read_text()
        link = r'<a class="term" href="../book/glossary.html#\w+"(?: aria-label="[^"<]+")?>'
        terms = link + r'(.*?)<span class="term-meaning">(.*?)</span></a>'
        assert [shown for shown, _ in re.findall(terms, text)] == expected
        assert re.sub(terms, r"\1", text) == page  # nothing else has changed
