"""The exit from Jupyter Book: the same pages by Sphinx alone, from the same ``_config.yml`` and ``_toc.yml``.

Jupyter Book 1 is a front of Sphinx, which it holds to old versions. `make book BUILDER=sphinx` does without
it: a ``conf.py`` is written from the book's configuration, and ``sphinx-build`` does the rest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_EXCLUDED = ("_build", "Thumbs.db", ".DS_Store", "**.ipynb_checkpoints")
_OF_JUPYTER_BOOK = {"jupyter_book", "sphinx_comments"}  # extensions that nothing here needs


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Sphinx's settings for a book's ``_config.yml``; what that says of running chapters is not read."""
    html, sphinx = config.get("html") or {}, config.get("sphinx") or {}
    own = dict(sphinx.get("config") or {})
    theme = {
        "search_bar_text": "Search this book...",
        "launch_buttons": config.get("launch_buttons") or {},
        "repository_url": (config.get("repository") or {}).get("url", ""),
        "repository_branch": (config.get("repository") or {}).get("branch", "master"),
        "extra_footer": html.get("extra_footer", ""),
        "home_page_in_toc": html.get("home_page_in_navbar", True),
        "use_repository_button": html.get("use_repository_button", False),
        "use_issues_button": html.get("use_issues_button", False),
    }
    parse = {f"{'' if key.startswith('myst_') else 'myst_'}{key}": v for key, v in config["parse"].items()}
    return {
        "html_title": config.get("title", ""),
        "author": config.get("author", ""),
        "copyright": str(config.get("copyright", "")),
        "html_logo": config.get("logo", ""),
        "html_favicon": html.get("favicon", ""),
        "html_baseurl": html.get("baseurl", ""),
        "html_theme": "sphinx_book_theme",
        "html_theme_options": theme,
        "html_sourcelink_suffix": "",
        "pygments_style": "sphinx",
        "numfig": True,
        "suppress_warnings": ["myst.domains"],
        "nb_execution_mode": "off",
        "external_toc_path": "_toc.yml",
        "external_toc_exclude_missing": config.get("only_build_toc_files", False),
        "exclude_patterns": sorted({*_EXCLUDED, *config.get("exclude_patterns", ())}),
        "bibtex_bibfiles": config.get("bibtex_bibfiles", []),
        **parse,
        **own,
        "extensions": [name for name in own["extensions"] if name not in _OF_JUPYTER_BOOK],
    }


def write(config: Mapping[str, Any], site: Path) -> Path:
    """Leave ``conf.py`` in an assembled book, and return it."""
    lines = [f"{name} = {value!r}\n" for name, value in settings(config).items()]
    path = site / "conf.py"
    path.write_text("".join(lines), encoding="utf-8")
    return path
