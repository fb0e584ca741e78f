"""A Sphinx extension: symbols and words of the text explained on hover, by their entries in the glossary.

The role ``{sym}`` shows a symbol and its row of the glossary's tables. Where it is written otherwise than
there, or two rows have it, the row is named behind it: ``{sym}`t_c <t>```. Words
have Sphinx's own role: ``{term}`annealed <anneal>```.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import ReferenceRole
from sphinx.util.nodes import make_refnode

GLOSSARY = "book/glossary"
# Anchor in its page; the meaning, then the name in the code, without links
Entry = tuple[str, list[nodes.Node]]


class Explained(nodes.Inline, nodes.Element):
    """A link to the glossary that shows its entry."""


class Symbol(ReferenceRole):
    """The role ``{sym}``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """A reference to the symbol's row, still open."""
        target = {"refdomain": "", "reftype": "sym", "reftarget": self.target, "refdoc": self.env.docname}
        node = addnodes.pending_xref("", nodes.math("", self.title), refwarn=True, **target)
        self.set_source_info(node)
        return [node], []


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.add_role("sym", Symbol())
    app.add_node(Explained, html=(_open, lambda writer, node: writer.body.append("</a>")))
    app.connect("doctree-read", _collect)
    app.connect("missing-reference", _symbol)
    app.connect("doctree-resolved", _words)
    return {"parallel_read_safe": False}


def entries(glossary: nodes.document) -> Iterator[tuple[str, Entry]]:
    """Rows of the glossary's tables by their symbols, and words by their anchors.

    A row's first cell holds symbols, or one with a note in parentheses where another row has the same; the
    second its meaning, the third its name in the code.
    """
    for section in glossary.findall(nodes.section):  # inner ones last, whose anchors are kept
        for row in (row for body in section.findall(nodes.tbody) for row in body.children):
            symbols, meaning, name, *_ = row.children
            note = " ".join(part.astext() for part in symbols.findall(nodes.Text) if "(" in part).strip()
            between = [nodes.Text(" · ")] * bool(name.astext())
            told = [*_without_links(meaning), *between, *_without_links(name)]
            for symbol in symbols.findall(nodes.math):
                yield f"{symbol.astext()} {note}".strip(), (section["ids"][0], told)
    for item in glossary.findall(nodes.definition_list_item):
        for place in (place for term in item.findall(nodes.term) for place in term["ids"]):
            yield place, (place, _without_links(item.children[-1]))


def _without_links(part: nodes.Node) -> list[nodes.Node]:
    """Text of a cell or a definition, links and references as what they show."""
    paragraphs = list(part.deepcopy().findall(nodes.paragraph))
    for paragraph in paragraphs:
        for link in [*paragraph.findall(addnodes.pending_xref), *paragraph.findall(nodes.reference)]:
            link.replace_self(link.children)
    return [node for paragraph in paragraphs for node in paragraph.children]


def _collect(app: Any, doctree: nodes.document) -> None:
    if app.env.docname == GLOSSARY:
        app.env.explained = dict(entries(doctree))


def _symbol(app: Any, env: Any, node: Any, shown: nodes.Element) -> nodes.Element | None:
    entry = getattr(env, "explained", {}).get(node["reftarget"]) if node["reftype"] == "sym" else None
    return entry and _explained(make_refnode(app.builder, node["refdoc"], GLOSSARY, entry[0], shown), entry)


def _words(app: Any, doctree: nodes.document, docname: str) -> None:
    for link in list(doctree.findall(nodes.reference)):
        place = link.get("refuri", "").partition("#")[2]
        if place.startswith("term-") and place in app.env.explained:
            link.replace_self(_explained(link, app.env.explained[place]))


def _explained(link: nodes.Element, entry: Entry) -> Explained:
    """A link with its entry."""
    told = nodes.inline("", "", *(part.deepcopy() for part in entry[1]), classes=["term-meaning"])
    return Explained("", *link.children, told, address=link.get("refuri") or f"#{link['refid']}")


def _open(writer: Any, node: Explained) -> None:
    shown, told = node.children
    # an equation is no name for a link, so that one is given to it
    named = {"aria-label": f"{shown.astext()}: {told.astext()}"} if isinstance(shown, nodes.math) else {}
    writer.body.append(writer.starttag(node, "a", "", CLASS="term", href=node["address"], **named))
