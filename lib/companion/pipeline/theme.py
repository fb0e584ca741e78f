"""A Sphinx extension: sizes of figures, folded answers, and a theme without its 1.5 MB of icons.

Files in ``templates/`` that have the names of the theme's override them. Pages are written by two processes
where there are two cores, and sidebars are not made more often than they differ.
"""

import os
import posixpath
from typing import Any

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

from companion.pipeline.rendering import TEMPLATES


def setup(app: Any) -> dict[str, bool]:
    """Put the templates before the theme's, and the writer below its own."""
    app.connect("config-inited", lambda _, config: config.templates_path.append(str(TEMPLATES)))
    app.set_translator("html", Writer)
    app.connect("builder-inited", _one_sidebar_for_all_outside)
    app.connect("doctree-read", lambda _, page: fold_answers(page))
    app.connect("env-updated", _write_side_by_side)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fold_answers(page: nodes.document) -> None:
    """Put an exercise's answer in words into the fold of its solution, so that it can be predicted first.

    The answer is the text behind the solution's code, up to the next question (`sections.exercises`).
    """
    text = nodes.paragraph, nodes.bullet_list, nodes.enumerated_list, nodes.math_block
    for cell in [*page.findall(nodes.container)]:
        if "tag_solution" not in cell["classes"]:
            continue
        behind = cell.next_node(descend=False, siblings=True)
        while isinstance(behind, text) and not any(
            "exercise-" in raw.astext() for raw in behind.findall(nodes.raw)
        ):
            behind.parent.remove(behind)
            cell.append(behind)
            behind = cell.next_node(descend=False, siblings=True)


def _one_sidebar_for_all_outside(app: Any) -> None:
    """Pages that the table of contents does not list (claims, source code) have one sidebar in each folder.

    Sphinx makes it anew for each of them, from a copy of the whole tree: a fifth of the time of a build.
    """
    if not hasattr(app.builder, "_get_local_toctree"):  # of other builders
        return
    made: dict[Any, str] = {}
    make = app.builder._get_local_toctree

    def sidebar(name: str, collapse: bool = True, **options: Any) -> str:
        listed = {app.config.root_doc}.union(*app.env.toctree_includes.values())
        if name in listed:
            return make(name, collapse, **options)
        key = (posixpath.dirname(name), collapse, *sorted(options.items()))
        if key not in made:
            made[key] = make(name, collapse, **options)
        return made[key]

    app.builder._get_local_toctree = sidebar


def _write_side_by_side(app: Any, *_: Any) -> None:
    """Write pages in two processes. They are read in one: its order numbers pictures of the same name."""
    app.parallel = max(app.parallel, min(2, os.cpu_count() or 1))


class Writer(HTML5Translator):
    """Sphinx's writer with a change."""

    def image_size(self, node: nodes.image) -> Any:
        """Width and proportions: a figure has its place before it comes into view and is loaded."""
        usual = super().image_size(node)
        if "width" not in node or "height" not in node:
            return usual
        width, height = (node[name].removesuffix("px") for name in ("width", "height"))
        style = f"width: {width}px; aspect-ratio: {width} / {height};"
        return style if isinstance(usual, str) else {"style": style}  # docutils 0.22 wants attributes
