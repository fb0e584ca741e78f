"""What catalogs are told of the book: the same in every format."""

import json
import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CITED = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
ZENODO = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
CODEMETA = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_titles_versions_and_words_are_the_same():
    assert {CITED["title"], ZENODO["title"], CODEMETA["name"]} == {CITED["title"]}
    assert {PROJECT["version"], CITED["version"], ZENODO["version"], CODEMETA["version"]} == {
        CITED["version"]
    }
    assert CITED["keywords"] == ZENODO["keywords"] == CODEMETA["keywords"]
    assert ZENODO["description"] == CODEMETA["description"]
    assert re.sub(r".*:", "", PROJECT["description"]) == re.sub(r".*:", "", CITED["title"])


def test_authors_are_the_same_everywhere():
    def name(author):
        return author.get("name") or f"{author['family-names']}, {author['given-names']}"

    def described(author):
        return author.get("name") or f"{author['familyName']}, {author['givenName']}"

    authors = [name(author) for author in CITED["authors"]]
    assert [author["name"] for author in ZENODO["creators"]] == authors
    assert [described(author) for author in CODEMETA["author"]] == authors


def test_licenses_are_those_of_the_files():
    licenses = [address.rpartition("/")[2] for address in CODEMETA["license"]]
    assert licenses == CITED["license"]
    assert ZENODO["license"] == PROJECT["license"] == licenses[0]
    assert licenses[1] in ZENODO["notes"]
    assert "MIT License" in (ROOT / "LICENSE").read_text()
    assert "Attribution 4.0" in (ROOT / "LICENSE-text").read_text()


def test_the_paper_is_the_one_that_is_cited():
    (paper,) = [reference["doi"] for reference in CITED["references"] if "doi" in reference]
    assert [related["identifier"] for related in ZENODO["related_identifiers"]] == [paper]
    assert CODEMETA["referencePublication"] == f"https://doi.org/{paper}"
    check = yaml.safe_load((ROOT / "codecheck.yml").read_text(encoding="utf-8"))["paper"]
    assert check["reference"] == f"https://doi.org/{paper}"
    cited = [reference["title"] for reference in CITED["references"]]
    assert check["title"] in cited


def test_each_holds_what_its_format_asks_for():
    assert {"cff-version", "message", "title", "authors"} <= CITED.keys()  # required by CFF 1.2.0
    assert re.fullmatch(r"1\.2\.0", CITED["cff-version"])
    assert {"title", "description", "creators", "upload_type"} <= ZENODO.keys()
    assert ZENODO["upload_type"] == CITED["type"] == "software"
    assert CODEMETA["@context"] == "https://w3id.org/codemeta/3.0"
    assert CODEMETA["@type"] == "SoftwareSourceCode"
    assert [name for name in ("readme", "buildInstructions") if not (ROOT / CODEMETA[name]).is_file()] == []
