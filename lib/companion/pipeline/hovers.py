"""A Sphinx extension: symbols and words of the text explained on hover, by their entries in the glossary.

The role ``{sym}`` shows a symbol and its row of the glossary's tables; where it stands in the text otherwise
than there, or two rows have it, the row is named behind it, as in ``{sym}`t_c <t>``` or
``{sym}`U <U (energy)>```. Words have Sphinx's own role, as in ``{term}`annealed <anneal>```.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import ReferenceRole
from sphinx.util.nodes import make_refnode

GLOSSARY = "book/glossary"


class Entry(NamedTuple):
    """What the glossary says of a symbol or a word.

    Attributes:
        place: anchor in its page.
        told: the meaning, then the name in the code, without links.
    """

    place: str
    told: list[nodes.Node]


class Explained(nodes.Inline, nodes.Element):
    """A link to the glossary that shows its entry."""


class Symbol(ReferenceRole):
    """The role ``{sym}``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """An open reference to the symbol's row."""
        node = addnodes.pending_xref("", nodes.math("", self.title), refdomain="", refwarn=True)
        node.update_basic_atts({})
        node["reftype"], node["reftarget"], node["refdoc"] = "sym", self.target, self.env.docname
        self.set_source_info(node)
        return [node], []


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.add_role("sym", Symbol())
    app.add_node(Explained, html=(_open, _close))
    app.connect("doctree-read", _collect)
    app.connect("missing-reference", _symbol)
    app.connect("doctree-resolved", _words)
    return {"parallel_read_safe": False}


def entries(glossary: nodes.document) -> Iterator[tuple[str, Entry]]:
    """Rows of the glossary's tables by their symbols, and words by their anchors.

    A row's first cell holds symbols, and a note in parentheses where another row has the same; the second
    its meaning, the third its name in the code.
    """
    for row in glossary.findall(nodes.row):
        if isinstance(row.parent, nodes.thead):
            continue
        symbols, meaning, name, *_ = row.children
        note = " ".join(part.astext() for part in symbols.findall(nodes.Text) if "(" in part).strip()
        section = next(_around(row, nodes.section))["ids"][0]
        told = _without_links(meaning) + [nodes.Text(" · ")] * bool(name.astext()) + _without_links(name)
        for symbol in symbols.findall(nodes.math):
            yield f"{symbol.astext()} {note}".strip(), Entry(section, told)
    for item in glossary.findall(nodes.definition_list_item):
        for term in item.findall(nodes.term):
            for place in term["ids"]:
                yield place, Entry(place, _without_links(item.children[-1]))


def _around(node: nodes.Element, kind: type) -> Iterator[Any]:
    while node := node.parent:
        if isinstance(node, kind):
            yield node


def _without_links(part: nodes.Node) -> list[nodes.Node]:
    """Text of a cell or a definition, links and references as what they show."""
    found: list[nodes.Node] = []
    for paragraph in part.deepcopy().findall(nodes.paragraph):
        for link in [*paragraph.findall(addnodes.pending_xref), *paragraph.findall(nodes.reference)]:
            link.replace_self(link.children)
        found += paragraph.children
    return found


def _collect(app: Any, doctree: nodes.document) -> None:
    if app.env.docname == GLOSSARY:
        app.env.explained = dict(entries(doctree))


def _symbol(app: Any, env: Any, node: Any, shown: nodes.Element) -> nodes.Element | None:
    entry = getattr(env, "explained", {}).get(node["reftarget"]) if node["reftype"] == "sym" else None
    if entry is None:
        return None
    link = make_refnode(app.builder, node["refdoc"], GLOSSARY, entry.place, shown)
    return _explained(link, entry, f"{shown.astext()}: {''.join(part.astext() for part in entry.told)}")


def _words(app: Any, doctree: nodes.document, docname: str) -> None:
    for link in list(doctree.findall(nodes.reference)):
        place = link.get("refuri", "").partition("#")[2]
        if docname != GLOSSARY and place.startswith("term-") and place in app.env.explained:
            link.replace_self(_explained(link, app.env.explained[place]))


def _explained(link: nodes.Element, entry: Entry, spoken: str = "") -> Explained:
    """A link with its entry; an equation is no name for a link, so that one is given to it."""
    told = nodes.inline("", "", *(part.deepcopy() for part in entry.told), classes=["term-meaning"])
    address = link.get("refuri") or f"#{link['refid']}"
    return Explained("", *link.children, told, address=address, spoken=spoken)


def _open(writer: Any, node: Explained) -> None:
    named = {"aria-label": node["spoken"]} if node["spoken"] else {}
    writer.body.append(writer.starttag(node, "a", "", CLASS="term", href=node["address"], **named))


def _close(writer: Any, node: Explained) -> None:
    writer.body.append("</a>")
