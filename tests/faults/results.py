"""Results that come from elsewhere: published sites, other builds, ledgers; what the laboratory is given."""

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import small_book
from bare_page import Quiet, served
from companion.pipeline import difference, restore, seeds
from companion.pipeline.project import BuildError, Project
from faults import files
from faults.builds import BUILT, book, told
from faults.trials import FaultError, refused, trial

# ---- restore --------------------------------------------------------------------------------


def published(folder: Path) -> tuple[Path, Path]:
    """A book that has run nothing, and the pages of the same book as somebody publishes them."""
    root = book(folder)
    pages = shutil.copytree(root / "_build/quick/html", folder / "site")
    shutil.rmtree(root / "_build")
    return root, pages


def altered(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    """Damage of a manifest that stays JSON."""

    def damage(path: Path) -> None:
        content = json.loads(path.read_text())
        content = change(content) or content
        path.write_text(json.dumps(content))

    return damage


def renamed(name: str) -> Callable[[Path], Any]:
    """A manifest that lists a file under another name."""
    return altered(lambda content: content["files"].update({name: content["files"].pop("even.ipynb")}))


MANIFESTS = {
    "cut in half": files.half,
    "empty": files.empty,
    "of other bytes": files.noise,
    "gone": Path.unlink,
    "a list": lambda path: path.write_text("[1]"),
    "without files": altered(lambda content: {"made_from": content["made_from"]}),
    "whose files are a list": altered(lambda content: content | {"files": ["even.ipynb"]}),
    "whose digests are numbers": altered(lambda content: content["files"].update({"even.ipynb": 1})),
    "without ingredients": altered(lambda content: {"files": content["files"]}),
    "of other sources": altered(lambda content: content["made_from"].update({"notebooks/even.py": "0"})),
    "that names ../outside": renamed("../outside"),
    "that names artifacts/../../outside": renamed("artifacts/../../outside"),
    "that names /outside/it": renamed("/outside/it"),
    "that names an empty file": renamed(""),
}
SPOILED = "its manifest there is spoiled ("
SAID = {
    "gone": "not there (404",
    "of other sources": "made from other sources there (notebooks/even.py changed)",
    "whose files are a list": "damaged there (manifest.json)",
    "whose digests are numbers": "damaged there (even.ipynb)",
}
RESULTS = {
    f"{what}: {how}": (name, damage, f"damaged there ({lies})")
    for what, name, lies in (
        ("the notebook", "even.ipynb", "even.ipynb"),
        ("an array", "even/line.npz", "artifacts/line.npz"),
    )
    for how, damage in {
        "cut in half": files.half,
        "one bit changed": files.flip,
        "empty": files.empty,
        "gone": Path.unlink,
        "a folder": lambda path: (path.unlink(), path.mkdir()),
    }.items()
}


@trial(
    "Results",
    "it is not taken, and said; nothing is left behind",
    cases={
        f"fetch-results: a manifest {how}": ("even.json", damage, SAID.get(how, SPOILED))
        for how, damage in MANIFESTS.items()
    }
    | {f"fetch-results: {what}": case for what, case in RESULTS.items()},
)
def restored(folder, case):
    name, damage, says = case
    root, pages = published(folder)
    damage(pages / "downloads" / name)
    before = sorted(path for path in folder.rglob("*") if root not in path.parents)
    chapter = next(chapter for chapter in Project(root).chapters if chapter.name == "even")
    said = restore.restore(chapter, pages.as_uri())
    if not said.startswith(says) or not said.endswith("; to be run here"):
        raise FaultError("silent", said)
    if chapter.folder.exists() or list(chapter.folder.parent.glob(".*")):
        raise FaultError("lost", f"{said}, but something is there")
    if sorted(path for path in folder.rglob("*") if root not in path.parents) != before:
        raise FaultError("lost", "something was written outside")
    return said.replace(pages.as_uri(), "")


class Broken(Quiet):
    """A site that answers, but not with what was asked for."""

    how = ""

    def do_GET(self) -> None:
        """Answer in the way that is tried."""
        if self.how in ("500", "403", "301"):
            self.send_response(int(self.how))
            self.send_header("Location", self.path)
            self.end_headers()
            return
        self.send_response(200)
        content = b"<!doctype html><title>Sign in</title>"
        self.send_header("Content-Length", str(len(content) + 1000 * (self.how == "short")))
        self.end_headers()
        if self.how != "nothing":
            self.wfile.write(content)


@trial(
    "Results",
    "an error or a word that says what came; nothing is left behind",
    cases={
        "fetch-results: every answer is a page to sign in": "page",
        "fetch-results: the connection ends early": "short",
        "fetch-results: an answer without content": "nothing",
        "fetch-results: the site fails (500)": "500",
        "fetch-results: the site refuses (403)": "403",
        "fetch-results: the site sends in circles": "301",
    },
)
def unusable(folder, how):
    root, _ = published(folder)
    chapter = Project(root).chapters[0]
    with served(folder, type("Handler", (Broken,), {"how": how})) as address:
        try:
            said = restore.restore(chapter, address.rstrip("/"))
        except BuildError as error:
            said = str(error)
    if "to be run here" not in said and "cannot be read" not in said:
        raise FaultError("silent", said)
    if chapter.folder.exists() or list(chapter.folder.parent.glob(".*")):
        raise FaultError("lost", f"{said}, but something is there")
    return said.replace(address, "")


@trial(
    "Results",
    "advice, and no traceback",
    cases={
        "fetch-results FROM= a folder that is not there": "nowhere",
        "fetch-results FROM= a file": "_toc.yml",
        "fetch-results without FROM, and no address": "",
        "fetch-results FROM= another kind of address": "ftp://127.0.0.1/book",
        "fetch-results FROM= an address without a host": "http://",
        "fetch-results FROM= nobody's address": "http://127.0.0.1:9",
    },
    outside=True,
)
def from_where(folder, given):
    root, _ = published(folder)
    return told(small_book.pipeline(root, "fetch-results", "--", given, check=False), "FROM|cannot be read")


# ---- diff -----------------------------------------------------------------------------------


def compared(other: Any) -> difference.Difference:
    """The built book held against another build."""
    with (
        difference.opened(str(BUILT[0] / "_build/quick"), "A") as a,
        difference.opened(str(other), "B") as b,
    ):
        return difference.compare(a, b)


def archive(folder: Path, members: dict[str, bytes], kind: str) -> Path:
    """An archive with members of any name."""
    path = folder / f"build.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, content in members.items():
                packed.writestr(name, content)
        return path
    with tarfile.open(path, "w") as packed:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            packed.addfile(about, io.BytesIO(content))
    return path


def _spoiled(name: str, damage: Callable[[Path], Any]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        _, pages = published(folder)
        damage(pages / "downloads" / name)
        return pages

    return make


def _file(damage: Callable[[Path], Any], name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        damage(path)
        return path

    return make


OTHERS: dict[str, Callable[[Path], Any]] = {
    "nothing": lambda folder: "",
    "a folder that is not there": lambda folder: folder / "nowhere",
    "a commit that git does not know": lambda folder: "0" * 40,
    "an empty folder": lambda folder: folder,
    "a file that is no archive": _file(files.noise, "build.txt"),
    "a zip of other bytes": _file(files.noise, "build.zip"),
    "an empty tar": _file(files.empty, "build.tar"),
    "a zip without chapters": lambda folder: archive(folder, {"a.txt": b"a"}, "zip"),
    "a tar that reaches outside": lambda folder: archive(folder, {"../pwned": b"x"}, "tar"),
    "a tar with an absolute name": lambda folder: archive(folder, {"/pwned/x.ipynb": b"x"}, "tar"),
    "a zip that reaches outside": lambda folder: archive(folder, {"../pwned": b"x"}, "zip"),
    "a build whose notebook is cut in half": _spoiled("even.ipynb", files.half),
    "a build whose notebook is empty": _spoiled("even.ipynb", files.empty),
    "a build whose notebook is a list": _spoiled("even.ipynb", lambda path: path.write_text("[]")),
    "a build whose arrays are cut in half": _spoiled("even/line.npz", files.half),
    "a build whose arrays are empty": _spoiled("even/line.npz", files.empty),
}


@trial(
    "Results",
    "an error that names the setting",
    cases={f"diff B= {what}": make for what, make in OTHERS.items()},
)
def other_build(folder, make):
    (folder / "b").mkdir()
    given = make(folder / "b")
    message = refused(lambda: compared(given), "B", BuildError)
    if not message.startswith("B"):
        raise FaultError("obscure", message)
    outside = (Path("/pwned"), Path(tempfile.gettempdir(), "pwned"))
    if list(folder.rglob("pwned")) or any(path.exists() for path in outside):
        raise FaultError("lost", "a file outside was written")
    return message


def _record(**changes: Any) -> Callable[[Path], Any]:
    """A build in which the first record of a chapter is another."""

    def change(path: Path) -> None:
        content = json.loads(path.read_text())
        outputs = [output for cell in content["cells"] for output in cell.get("outputs", [])]
        (record, *_) = [
            o["data"][difference.CHECK_TYPE] for o in outputs if difference.CHECK_TYPE in o.get("data", {})
        ]
        record.update(changes)
        path.write_text(json.dumps(content))

    return change


@trial(
    "Results",
    "it is counted among what moved",
    cases={
        "diff: a finding of another shape": {"computed": [4, 4]},
        "diff: a finding that is a text": {"computed": "four"},
        "diff: a finding that is not finite": {"computed": None},
        "diff: a finding with an error of another shape": {"computed": 5, "uncertainty": [0.1, 0.1]},
        "diff: a finding without an error": {"computed": 5.0},
        "diff: a finding whose error is 0": {"computed": 5, "uncertainty": 0},
        "diff: a list of unequal lists": {"computed": [[1], [1, 2]]},
    },
)
def other_finding(folder, changes):
    _, pages = published(folder)
    _record(**changes)(pages / "downloads/even.ipynb")
    found = compared(pages)
    page = difference.write(found, ("A", "B"), folder)
    if [row.id for row in found.moved] != ["A1"]:
        raise FaultError("silent", f"{len(found.moved)} moved")
    return page.with_suffix(".md").read_text().splitlines()[3][:120]


@trial(
    "Results",
    "it is counted among the figures that differ",
    cases={
        "diff: arrays of another shape": {"x": np.zeros(3), "values": np.zeros((1, 2))},
        "diff: arrays with NaN for numbers": {"x": np.array([np.nan, 1]), "values": np.array([[0, 2]])},
        "diff: arrays that are texts": {"x": np.array(["0", "1"]), "values": np.array([[0, 2]])},
        "diff: arrays under other names": {"y": np.zeros(3)},
        "diff: empty arrays": {"x": np.zeros(0), "values": np.zeros((1, 2))},
    },
)
def other_arrays(folder, arrays):
    _, pages = published(folder)
    np.savez(pages / "downloads/even/line.npz", **arrays)
    found = compared(pages).figures
    if list(found) != ["even/line"]:
        raise FaultError("silent", str(found) or "no difference")
    return found["even/line"]


# ---- ledgers and what is kept ---------------------------------------------------------------

LEDGERS = {
    "cut in half": files.half,
    "empty": files.empty,
    "of other bytes": files.noise,
    "a list": lambda path: path.write_text("[1]"),
    "rows that are numbers": lambda path: path.write_text('{"even": 1}'),
    "rows without claims": lambda path: path.write_text('{"even": {"seeds": 2}}'),
}


@trial(
    "Results",
    "an error that names the file",
    cases={f"the ledger of seeds: {how}": damage for how, damage in LEDGERS.items()},
)
def ledger(folder, damage):
    root = small_book.write(folder / "book")
    project = Project(root)
    seeds.path(project).write_text(json.dumps({"even": seeds.ledger([])}, indent=1) + "\n")
    damage(seeds.path(project))

    def use() -> None:
        rows = seeds.ledgers(project)
        seeds.held(rows, ()), seeds.summary(rows)

    return refused(use, "seeds-quick.json", BuildError)


@trial(
    "Results",
    "an error that says what is allowed",
    cases={
        "make seeds SEEDS=0": ("--seeds=0",),
        "make seeds SEEDS=-1": ("--seeds=-1",),
        "make seeds SEEDS=two": ("--seeds=two",),
        "make seeds SEEDS=1.5": ("--seeds=1.5",),
        "make seeds NAME=odd": ("--name=odd",),
        "make claim ID=A99": None,
    },
    outside=True,
)
def how_many(folder, words):
    root = small_book.write(folder / "book")
    command = ("seeds", *words) if words else ("claim", "A99")
    return told(small_book.pipeline(root, *command, check=False), "must be|SEEDS|invalid int")


# ---- the laboratory -------------------------------------------------------------------------

GOOD = {"nonlinearity": "relu", "numNeurons": 20, "numInputs": 12, "yMinus": 0.5, "temperature": 0.1}
GOOD |= {"ratios": [0.5, 0.25, 0.25]}
NODE = """
const { makeNetwork } = require(process.argv[1]), cases = JSON.parse(process.argv[2]);
const special = { NaN: NaN, Infinity: Infinity };
const told = cases.map(([good, name, value]) => {
    try { makeNetwork({ ...good, [name]: value in special ? special[value] : value }); return "accepted"; }
    catch (error) { return `${error.name}: ${error.message}`; }
});
console.log(JSON.stringify(told));
"""
LABORATORY = {
    "numNeurons": ("N", (0, 1, -5, 2.5, 1e9, "NaN", "twenty", None, [])),
    "numInputs": ("P", (0, 2, -5, 2.5, 1e9, "NaN", "twelve", None)),
    "nonlinearity": ("nonlinearity", ("softmax", "", 3, None)),
    "method": ("method", ("gibbs", "", 3, None)),
    "slope": ("Slope", (0, -1, 100, "NaN", "Infinity", "one")),
    "overlap": ("Overlap", (-0.1, 1, 2, "NaN", "none")),
    "scaling": ("Scaling", (-1, 1.5, "NaN", "lazy")),
    "startTemperature": ("Temperature", (0, -1, 100, "NaN", "Infinity", "hot")),
    "seed": ("seed", (-1, 0.5, 1e10, "NaN", "one", None)),
    "transitions": ("transitions", (0, -1, 0.5, "NaN", "many", None)),
}
CASES = {
    f"laboratory: {name} = {value!r}": (name, says, value)
    for name, (says, values) in LABORATORY.items()
    for value in values
}


@cache
def answers() -> dict[tuple[str, str], str]:
    """What the laboratory says to each value, all asked at once."""
    asked = [[GOOD, name, value] for name, _, value in CASES.values()] + [[GOOD, "seed", 1]]  # a good one
    script = small_book.REPOSITORY / "book/_static/laboratory.js"
    command = ["node", "-e", NODE, str(script), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {(case[1], repr(case[2])): said for case, said in zip(asked, json.loads(done.stdout), strict=True)}


@trial("Laboratory", "a RangeError that says what is allowed", cases=CASES)
def laboratory(folder, case):
    name, says, value = case
    if name == "numNeurons" and answers()["seed", "1"] != "accepted":
        raise FaultError("obscure", answers()["seed", "1"])
    said = answers()[name, repr(value)]
    if said == "accepted":
        raise FaultError("silent", said)
    if not said.startswith("RangeError") or says not in said or "allowed" not in said:
        raise FaultError("obscure", said)
    return said
