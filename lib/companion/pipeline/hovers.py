"""Symbols and terms explained where a page first uses them: a link to the glossary that shows its entry."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GLOSSARY = "book/glossary.html"
_EXPLAINED = ("notebooks/*.html", "book/primer.html", "book/samplers.html")
_OF_ONE_CHAPTER = {"adaptive-kernels-paper-b": "adaptive_kernels", "two-points-paper-c": "universality"}
_ALONE = {"universality"}  # chapters in which symbols are their own section's
_OTHERWISE = {"dynamics": {"t"}}  # symbols that mean something else there
_MATH = re.compile(r'<span class="math notranslate nohighlight">\\\((.*?)\\\)</span>', re.DOTALL)
_SHOWN_MATH = r'<div class="math\b.*?</div>'
_TOKEN = re.compile(rf"{_MATH.pattern}|{_SHOWN_MATH}|<!--.*?-->|<[^>]*>|[^<]+", re.DOTALL)
_NOT_IN = {"a", "h1", "h2", "h3", "h4", "code", "pre", "table", "summary", "details", "script", "style"}
_NOT_IN |= {"noscript", "figcaption", "dt", "button", "nav", "svg", "strong"}


class Entry(NamedTuple):
    """What the glossary says of a symbol or a term.

    Attributes:
        name: TeX of the symbol, or the term in lower case.
        section: anchor of its section.
        meaning: HTML without links.
    """

    name: str
    section: str
    meaning: str


def write(pages: Path) -> None:
    """Explain symbols and terms at their first use on every page that is to be read from top to bottom."""
    glossary = pages / GLOSSARY
    if not glossary.is_file():
        return
    found = list(entries(glossary.read_text(encoding="utf-8")))
    for page in sorted(path for pattern in _EXPLAINED for path in pages.glob(pattern)):
        text = page.read_text(encoding="utf-8")
        page.write_text(explained(text, _of(found, page.stem)), encoding="utf-8")


def _of(found: list[Entry], page: str) -> dict[str, Entry]:
    """What holds on a page; several meanings of one symbol together."""
    here: dict[str, Entry] = {}
    for entry in found:
        owner = _OF_ONE_CHAPTER.get(entry.section)
        foreign = owner not in (None, page) or (page in _ALONE and owner != page and entry.section != "words")
        if foreign or entry.name in _OTHERWISE.get(page, ()):
            continue
        known = here.get(entry.name)
        meaning = f"{known.meaning}; or {entry.meaning}" if known else entry.meaning
        here[entry.name] = entry._replace(meaning=meaning)
    return here


def entries(glossary: str) -> Iterator[Entry]:
    """Symbols of the glossary's tables and terms of its list, from the built page."""
    for section, content in re.findall(
        r'<section id="([\w-]+)">(.*?)(?=<section|</article)', glossary, re.DOTALL
    ):
        columns = re.findall(r'<th class="head"><p>(.*?)</p>', content)
        for row in re.findall(r"<tr class=\"row-\w+\"><td>(.*?)</tr>", content, re.DOTALL):
            cells = [re.sub(r"</?(?:td|p|a)\b[^>]*>", "", cell).strip() for cell in row.split("<td>")]
            told = [text for name, text in zip(columns[1:], cells[1:]) if text and name != "definition"]
            note = re.sub(r".*</span>", "", cells[0], flags=re.DOTALL).strip()
            for symbol in _MATH.findall(cells[0]):
                yield Entry(
                    symbol, section, " · ".join([note.strip("()"), *told] if note.startswith("(") else told)
                )
        for names, meaning in re.findall(
            r"<dt><strong>(.*?)</strong></dt><dd><p>(.*?)</p>", content, re.DOTALL
        ):
            for name in names.split(", "):
                yield Entry(name.lower(), section, re.sub(r"</?a\b[^>]*>", "", meaning))


def explained(page: str, known: dict[str, Entry]) -> str:
    """A page whose article explains what is known at its first use, outside of headings, links and code."""
    before, start, rest = page.partition("<article")
    article, end, after = rest.partition("</article>")
    left, depth, parts = dict(known), 0, []
    words = sorted((name for name, entry in known.items() if entry.section == "words"), key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})(?=s?\b)", re.IGNORECASE) if words else None

    def link(entry: Entry, shown: str) -> str:
        spoken = ""
        if shown.startswith("<"):  # an equation, which is no name for a link
            plain = re.sub(r"<[^>]*>|\\[()]", "", f"{entry.name}: {entry.meaning}").replace('"', "&quot;")
            spoken = f' aria-label="{plain}"'
        return (
            f'<a class="term" href="../{GLOSSARY}#{entry.section}"{spoken}>{shown}'
            f'<span class="term-meaning">{entry.meaning}</span></a>'
        )

    for token in _TOKEN.finditer(article):
        text = token[0]
        name = re.fullmatch(r"</?(\w+)[^>]*>", text)
        if token[1] is not None:
            if not depth and (entry := left.pop(token[1].strip(), None)):
                text = link(entry, text)
        elif name:
            depth += name[1] in _NOT_IN and not text.endswith("/>") and (-1 if text.startswith("</") else 1)
        elif pattern and not depth and not text.startswith("<"):

            def replaced(word: re.Match[str]) -> str:
                entry = left.pop(word[0].lower(), None)
                return link(entry, word[0]) if entry else word[0]

            text = pattern.sub(replaced, text)
        parts.append(text)
    return before + start + "".join(parts) + end + after
