"""What the pipeline writes into the pages, from ``templates/``."""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from companion import formats

TEMPLATES = Path(__file__).with_name("templates")


def _inert(value: Any) -> Markup:
    """Escaped for a page; a backquote could end the block of Markdown around it."""
    return value if isinstance(value, Markup) else Markup(escape(value).replace("`", "&#96;"))


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("companion.pipeline"),
    autoescape=True,
    finalize=_inert,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def _sentence(content: str) -> Markup:
    """A reason as a sentence: a capital, exponents as they are printed, a full stop."""
    return Markup(formats.text(content[:1].upper() + content[1:] + ("" if content.endswith(".") else ".")))


_ENVIRONMENT.filters["raised"] = lambda content: Markup(formats.text(content))  # exponents in braces
_ENVIRONMENT.filters["sentence"] = _sentence


def render(name: str, /, **data: Any) -> str:
    """A template with its data; texts that are not declared safe in it stay texts."""
    return _ENVIRONMENT.get_template(name).render(data)
