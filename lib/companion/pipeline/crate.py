"""The pages as a research object: an RO-Crate that says which run made which file, from the manifests.

Packaging by the RO-Crate specification 1.1, runs by the profile Process Run Crate 0.5: each chapter is an
action whose instrument is its source, whose objects are its settings, and whose results are its files.
"""

import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from companion.pipeline import manifest, provenance, restore
from companion.pipeline.project import Chapter, Project

FILE = "ro-crate-metadata.json"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_CONTEXT = [f"{_SPECIFICATION}/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}]
PARTS = {  # files at the root of the pages, besides the metadata themselves
    "index.html": "The page to open",
    "scoreboard.json": "Every claim with its verdict and the numbers that led to it",
    "figures.json": "Index of all figures' arrays",
    "scoreboard.schema.json": "JSON Schema of scoreboard.json",
    "figures.schema.json": "JSON Schema of figures.json",
    "codecheck.yml": "CODECHECK manifest",
    "CITATION.cff": "How to cite this build",
}
_FORMATS = {
    ".ipynb": "application/x-ipynb+json",
    ".npz": "application/zip",
    ".yml": "application/yaml",
    ".cff": "application/yaml",
    ".webp": "image/webp",  # not in every system's list
}
Entity = dict[str, Any]


def write(project: Project, pages: Path) -> Path:
    """Lay the metadata of built pages among them; returns the file."""
    cited = project.told("CITATION.cff", {})
    runs = [entity for chapter in project.chapters for entity in _run(project, chapter, pages)]
    parts = [_file(pages, name, what) for name, what in PARTS.items() if (pages / name).is_file()]
    files = [*parts, *(entity for entity in runs if entity["@type"] == "File")]
    authors, licenses = list(_authors(cited)), list(_licenses(cited))
    root = {
        "@id": "./",
        "@type": "Dataset",
        "conformsTo": {"@id": _PROFILE},
        "name": cited.get("title") or project.config.get("title", ""),
        "description": f"The book's pages at preset {project.preset}, with the executed chapters, every "
        "figure's arrays and drawing code, and manifests of what each was made from.",
        "datePublished": project.commit_date or str(project.config.get("copyright", "")),
        "license": _references(licenses),
        "author": _references(authors),
        "hasPart": _references(files),
        "mentions": _references(entity for entity in runs if entity["@type"] == "CreateAction"),
    }
    about = {
        "@id": FILE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _SPECIFICATION},
        "about": {"@id": "./"},
    }
    profile = {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    graph = [about, root, profile, *authors, *licenses, *parts, *runs]
    manifest.write_readable(pages / FILE, {"@context": _CONTEXT, "@graph": graph})
    return pages / FILE


def _references(entities: Iterable[Entity]) -> list[Entity] | Entity:
    """References to entities; to one alone without a list, as the specification wants it."""
    found = [{"@id": entity["@id"]} for entity in entities]
    return found[0] if len(found) == 1 else found


def _run(project: Project, chapter: Chapter, pages: Path) -> Iterator[Entity]:
    """A chapter's run: the action, what it ran, its settings, and its files with their digests."""
    settings = provenance.settings(manifest.read(chapter.notebook))
    path = chapter.source.relative_to(project.root).as_posix()
    program: Entity = {
        "@id": provenance.source_address(project, path) or f"#{path}",
        "@type": "SoftwareSourceCode",
        "name": path,
        "programmingLanguage": provenance.machine(chapter).rpartition(", ")[2] or "Python",
        "sha256": manifest.digest(chapter.source),
    }
    if project.repository:
        program["codeRepository"] = project.repository
    if project.commit:
        program["version"] = project.commit
    values = [
        {"@id": f"#{chapter.name}-{name}", "@type": "PropertyValue", "name": name, "value": value}
        for name, value in settings.items()
    ]
    listed = manifest.read(chapter.manifest)["files"]
    names = [restore.place(chapter, name) for name in listed]
    digests = dict(zip(names, listed.values(), strict=True))
    digests[f"{chapter.name}.json"] = manifest.digest(chapter.manifest)
    results = [
        _file(pages, f"{restore.DOWNLOADS}/{name}", f"Of the chapter {chapter.name}", {"sha256": digest})
        for name, digest in digests.items()
        if "-frames/" not in name and not name.endswith("-thumbnail.png")
    ]
    yield {
        "@id": f"#run-{chapter.folder.name}",
        "@type": "CreateAction",
        "name": f"Run of the chapter {chapter.name}",
        "description": f"On {provenance.machine(chapter) or 'a machine that is not on record'}",
        "instrument": {"@id": program["@id"]},
        "object": _references(values),
        "result": _references(results),
    }
    yield from (program, *values, *results)


def _file(pages: Path, name: str, description: str, more: Mapping[str, str] = {}) -> Entity:
    kind = _FORMATS.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return {
        "@id": name,
        "@type": "File",
        "name": Path(name).name,
        "description": description,
        "encodingFormat": kind,
        "contentSize": str((pages / name).stat().st_size),
        **more,
    }


def _authors(cited: dict[str, Any]) -> Iterator[Entity]:
    for number, author in enumerate(cited.get("authors", ()), 1):
        person = "family-names" in author
        name = " ".join(author[key] for key in ("given-names", "family-names") if key in author)
        yield {
            "@id": author.get("orcid") or f"#author-{number}",
            "@type": "Person" if person else "Organization",
            "name": name if person else author["name"],
        }


def _licenses(cited: dict[str, Any]) -> Iterator[Entity]:
    names = cited.get("license", ())
    for name in [names] if isinstance(names, str) else names:
        yield {"@id": f"https://spdx.org/licenses/{name}", "@type": "CreativeWork", "name": name}
