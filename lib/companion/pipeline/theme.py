"""A Sphinx extension: sizes of figures, names for screen readers, and a theme without its 1.5 MB of icons.

Files in ``templates/`` that have the names of the theme's override them.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator


def setup(app: Any) -> dict[str, bool]:
    """Put the templates before the theme's, and the writer below its own."""
    app.connect("config-inited", lambda _, config: config.templates_path.append(str(_TEMPLATES)))
    app.set_translator("html", Writer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


_TEMPLATES = Path(__file__).with_name("templates")


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
