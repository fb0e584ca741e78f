"""What catalogs are told of the book: the same in every format."""

import email
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
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
    assert CITED["keywords"] == ZENODO["keywords"] == CODEMETA["keywords"] == PROJECT["keywords"]
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
    assert PROJECT["urls"] == {"Paper": f"https://doi.org/{paper}"}  # none that a fork would have to edit
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


def test_the_packages_own_page_needs_nothing_beside_it_and_its_lines_run():
    text = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://)|^\[.*\]: |<img", text, re.MULTILINE) == []
    names = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    assert names["solution"].readout_covariance.shape == (3, 3)
    assert len(names["solution"].kernels) == 3


IMPORTS = """\
import sys
sys.path[:] = [sys.argv[1], *(place for place in sys.path if place not in sys.argv[2:])]
import coding_schemes
from coding_schemes import tasks
from coding_schemes.theory import linear
assert len(linear.solve(tasks.toy(num_inputs=8), depth=1).kernels) == 2
print(coding_schemes.__file__)
"""


def test_the_wheel_says_what_it_is_and_holds_the_library_alone(tmp_path):
    """Built offline by the environment's own setuptools, from a copy, as it writes beside what it builds."""
    built = tmp_path / "source"
    for name in ("pyproject.toml", "LICENSE", "LICENSE-text", "lib"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, built / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (built / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, built / name)
    command = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    subprocess.run([sys.executable, "-c", command], cwd=built, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "wheel")
    files = {path.relative_to(tmp_path / "wheel") for path in (tmp_path / "wheel").rglob("*.py")}
    assert files == {path.relative_to(ROOT / "lib") for path in (ROOT / "lib/coding_schemes").rglob("*.py")}

    (about,) = (tmp_path / "wheel").glob("*.dist-info/METADATA")
    told = email.message_from_string(about.read_text(encoding="utf-8"))
    assert (told["Name"], told["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert (told["License-Expression"], told["Requires-Python"]) == ("MIT", PROJECT["requires-python"])
    assert told.get_all("License-File") == ["LICENSE", "LICENSE-text"]
    assert told["Keywords"].split(",") == PROJECT["keywords"]
    assert told.get_all("Classifier") == PROJECT["classifiers"]
    assert told.get_all("Project-URL") == [f"Paper, {PROJECT['urls']['Paper']}"]
    assert told["Description-Content-Type"] == "text/markdown"
    assert told.get_payload().strip() == (ROOT / PROJECT["readme"]).read_text(encoding="utf-8").strip()

    here = [str(ROOT / name) for name in ("lib", "notebooks")]
    command = [sys.executable, "-c", IMPORTS, str(tmp_path / "wheel"), *here]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "wheel")


def lacks(text):
    """Rules of CODECHECK's specification 1.0 that a configuration breaks, by their register's identifiers.

    Those that need ORCID, a DOI's registry or the register itself are left out: they ask a network. So does
    CC-BUN-004, that the repository answers; here it is an address, or several.
    """
    about = yaml.safe_load(text)
    paper, manifest = about.get("paper") or {}, about.get("manifest") or []
    authors, checkers = paper.get("authors") or [], about.get("codechecker") or []
    reference, report = str(paper.get("reference", "")), str(about.get("report", ""))
    places = [str(entry.get("file", "")) for entry in manifest]
    repository = about.get("repository") or []
    repositories = repository if isinstance(repository, list) else [repository]
    orcids = [person["ORCID"] for person in (*authors, *checkers) if "ORCID" in person]
    kept = {
        "CC-CFG-002": text.startswith("---\n"),
        "CC-CFG-004": isinstance(manifest, list) and bool(manifest),
        "CC-CFG-005": all(places),
        "CC-CFG-006": not any(re.match(r"/|\w+:|.*\.\./", place) for place in places),
        "CC-CFG-007": all(entry.get("comment") for entry in manifest),
        "CC-CFG-008": bool(checkers),
        "CC-CFG-009": all(person.get("name") for person in checkers),
        "CC-CFG-011": bool(report),
        "CC-CFG-013": "FIXME" not in report,
        "CC-CFG-014": "version" in about,
        "CC-CFG-015": about.get("version") == "https://codecheck.org.uk/spec/config/1.0/",
        "CC-CFG-016": bool(paper),
        "CC-CFG-017": bool(paper.get("title")),
        "CC-CFG-018": isinstance(authors, list) and bool(authors),
        "CC-CFG-019": all(person.get("name") for person in authors),
        "CC-CFG-022": bool(reference) and not reference.endswith(".pdf"),
        "CC-CFG-023": not re.search("FIXME|TODO|XXXXX|template|example", str(about), re.IGNORECASE),
        "CC-CFG-024": bool(about.get("summary")),
        "CC-CFG-025": bool(re.fullmatch(r"\d{4}-\d{3}", str(about.get("certificate", "")))),
        "CC-CFG-028": reference.startswith("https://doi.org/10."),
        "CC-BUN-004": all(re.match(r"https?://[^/]+/.", str(place)) for place in repositories),
        "CC-MET-001": all(re.fullmatch(r"(\d{4}-){3}\d{3}[\dX]", orcid) for orcid in orcids),
    }
    return {rule for rule, holds in kept.items() if not holds}


CHECK = (ROOT / "codecheck.yml").read_text(encoding="utf-8")
OF_THE_CHECKER = {"CC-CFG-008", "CC-CFG-011", "CC-CFG-025"}  # who checked, the report, the certificate
CHECKED = (
    "codechecker: [{name: A. Checker}]\nreport: https://doi.org/10.5281/zenodo.1\ncertificate: 2026-001\n"
)


def test_a_codecheck_lacks_what_only_a_checker_can_give():
    assert lacks(CHECK) == OF_THE_CHECKER
    assert lacks(CHECK + CHECKED) == set()


@pytest.mark.parametrize(
    ("written", "instead", "rule"),
    [
        ("---\n", "", "CC-CFG-002"),
        ("manifest:", "files:", "CC-CFG-004"),
        ("- file: ", "- name: ", "CC-CFG-005"),
        ("- file: ", "- file: /", "CC-CFG-006"),
        ("config/1.0/", "config/0.9/", "CC-CFG-015"),
        ("- name: ", "- called: ", "CC-CFG-019"),
        ("41467-025-58276-6", "a.pdf", "CC-CFG-022"),
        ("summary: ", "summary: TODO ", "CC-CFG-023"),
        ("summary: ", "repository: git@github.com:owner/name.git\nsummary: ", "CC-BUN-004"),
        ("https://doi.org/", "doi:", "CC-CFG-028"),
        ("name: Haim", "ORCID: https://orcid.org/0\n      name: Haim", "CC-MET-001"),
    ],
)
def test_a_codecheck_that_breaks_a_rule_is_noticed(written, instead, rule):
    assert written in CHECK
    assert rule in lacks(CHECK.replace(written, instead))
