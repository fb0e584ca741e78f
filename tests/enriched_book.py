"""A made-up book with all that real ones have, as runs would leave it; nothing of it runs."""

import datetime
import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import jupytext
import nbformat
import numpy as np
import small_book
import yaml
from companion import formats, records
from companion.pipeline import crate, front, manifest, reports, site
from companion.pipeline.project import Project
from PIL import Image

# What was found, and what the run at the preset paper found else
RECORDS = yaml.safe_load("""\
- {id: A1, quantity: "shares of <neurons>, |x|^{2}", headline: true, figure: line, panel: "",
  computed: [0.25, 1.5, 0.0, 0.25, 0.25, 0.75, 0.5], expected: [0.25, 1.25, 1.0e-12, 0.25, 0.25, 0.5, 0.5],
  uncertainty: [0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125], predicate: within 3 s.e., apart: 2.0,
  worst: {of: 7, computed: 1.5, expected: 1.25, uncertainty: 0.125}, sampler: {state: met, verdict: R-hat 1},
  size: {N: 60, P: 60, T: 1.0e-5, networks: 1, biases: 1, σ: [1.0, 0.5], γ: [2, 2], code: 1-0},
  paper: {computed: [1.0, 1.5, 0.0, 0.25, 0.25, 0.75, 0.5], apart: 6.0, because: "1/N^{2} is left out"}}
- {id: A1, quantity: codes, computed: [1-0, 0-1], expected: [1-0, 0-1], control: {computed: [1-1, 0-0]},
  source: counting, stored: "data/results/codes.npz, of 2026-01-01", note: at `y` = ½, size: {N: 2},
  paper: {computed: [1-0, 1-1], passed: false}}
- {id: A2, quantity: slope, computed: -0.5, expected: 1.0, uncertainty: 0.125, predicate: within 3 s.e.,
  apart: 12.0, passed: false, because: the law is another, headline: true, size: {P: [5, 10]}}
- {id: A8, quantity: weight, computed: 20000000.0, expected: 25000000.0, uncertainty: 500000.0,
  headline: true, predicate: within 20 %, apart: 10.0, size: {"|dx|²": 4}, sampler: {state: not shown,
  verdict: "equilibrium not shown: R-hat 1.4"}, paper: {sampler: null, apart: 4.0}}
- {id: A10, quantity: parts | of all, computed: [4.0, 3.5, 4.5, 4.0], expected: null, predicate: "> 3",
  uncertainty: [0.5, 0.5, 0.5, 0.5], headline: true, figure: matrix, size: {N: 4}, control: {description: ten,
  computed: [40.0, 4.5, 40.0, 1.0], spared: [two, four], because: ten is theirs}}
- {id: A10, quantity: odd ones, computed: 1.25, expected: 0.0, passed: false, because: one `is`}
- {id: A10, quantity: rows, computed: [[1.0, 2.0], [3.0, 4.0]], expected: [[1.0, 2.0], [3.0, 4.0]],
  control: {computed: 4.0, expected: 5.0, uncertainty: 0.25}}
- {id: A15, quantity: grown, lacking: It needs N of at least 100., computed: null, expected: null}
- {id: C1, quantity: blind, control: {passed: true, computed: null}}
- {id: C1, quantity: not finite, computed: null, expected: null, passed: false}
- {id: D1, quantity: each start, computed: 4.25, uncertainty: 0.25, predicate: within 10 %, apart: 1.0,
  headline: true, sampler: {state: each, verdict: two do not meet}, size: {N: 3}}
- {id: D2, quantity: unexplained, passed: false, computed: 0.001234, expected: 1.0e-9}
- {id: D3, quantity: hidden, computed: 4.5, uncertainty: 0.0625, apart: 8.0, predicate: within 1}
""")
CONTROL = {"description": "thrice `two`", "computed": 6.0, "uncertainty": None, "expected": None}
CONTROL |= {"passed": False, "spared": [], "because": ""}
PLAIN = small_book.RECORD | {"control": {}, "panel": "", "figure": "", "headline": False}
SVG = """<?xml version="1.0"?>
<!DOCTYPE svg>
<svg width="40pt"> <metadata>today</metadata>
<path d="M 0.123456 10 L 20 10 L 20 0 z" clip-path="url(#c)" style="fill: #ece133; stroke: #0173b2"/>
<clipPath id="c">
 <rect x="0" y="0" width="15.5" height="10"/></clipPath>
<g transform="translate(5.678901 5) scale(0.123456)"/> <g style="fill: #262626" transform="translate(6 6)"/>
<g style="fill: #262626" transform="translate(16 6)"/>
</svg>
"""
FIGURES = {  # by chapter: ending of the file, and what is published with it
    "even": {
        "line": ("svg", {"caption": "**Twice** is $2 x$,\nin `code`. Paper A, Fig. 2a.", "tail": "N = 2."}),
        "matrix": ("png", {"caption": "Both.", "panels": ["A 2a", "A 2b", "C 9"], "page": "<p>a page</p>"}),
        "film_one": ("png", {"caption": "Bars. Paper A′, Figs 1 and 3b–d.", "film": True}),
        "bare": ("png", {}),
    },
    "your_own_task": {"scheme_maps": ("png", {"caption": "Paper A, Fig. 2.", "width": 300})},
}
CHAPTERS = {
    "even": """\
# %% [markdown]
# # Even <numbers>
#
# *Reading:*
# 9 minutes.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed: int = 0

# %% tags=["setup"]
import numpy as np

# %% tags=["hide-input"]
from companion.publish import publish
publish(
    figures.curves,
    "line",
)
glue("two", np.float64(2.5))

# %% [markdown]
# ## Shares

# %% tags=["hide-input"]
finding("A1").judge(equal())
publish(draw, "matrix")

# %%
check("A2"), check("A8"), check("A10")

# %% [markdown]
# ## Exercises
#
# **1.** What if $y < 1$,
# and `a`?
#
# **2.** And what else?

# %% tags=["solution"]
publish_animation(grow, "film_one")
draw_bare()
""",
    "odd": """\
# %% [markdown]
# # Odd words

# %% tags=["parameters"]
preset = "quick"
seed = 3

# %% tags=["hide-input"]
check("A15"), check("C1")

# %% [markdown]
# ### More

# %%
check("D1"), check("D2")

# %%
check("D3"), check("A15")
""",
    "your_own_task": '# %% [markdown]\n# # Yours\n\n# %%\npublish(maps, "scheme_maps")\n',
}
TEXTS = {
    "_config.yml": """\
{title: A <made-up> book, author: Nobody, copyright: "2026",
 repository: {url: "git@github.com:Some/small.git"}, exclude_patterns: [drafts], bibtex_bibfiles: [a.bib],
 logo: logo.svg, only_build_toc_files: true,
 parse: {myst_heading_anchors: 3, enable_extensions: [amsmath]}, launch_buttons: {notebook_interface: lab},
 html: {favicon: icon.svg, home_page_in_navbar: false, extra_footer: Text free.},
 sphinx: {config: {extensions: [myst_nb, jupyter_book], html_show_copyright: false}}}
""",
    "_toc.yml": """\
{format: jb-book, root: book/intro, parts: [{caption: Chapters & more, chapters: [{file: notebooks/odd,
 sections: [{file: notebooks/even}]}]}, {caption: Results, chapters: [{file: book/scoreboard}]}]}
""",
    "pyproject.toml": '[project]\nversion = "1.2.3"\n',
    "codecheck.yml": "{version: one, source: old, manifest: [], summary: é}\n",
    "CITATION.cff": """\
{title: A made-up book, version: 1.2.2, license: [MIT, CC-BY-4.0], doi: 10.1/x, authors: [{name: A group},
 {given-names: Ada, family-names: Byron, orcid: "https://orcid.org/0"}]}
""",
    "requirements.lock": "",
    "benchmarks/results/times.csv": "a,b\n",
    "book/_static/book.css": ".verdict, .nowhere { color: red }\n.nowhere { left: 0 }\n",
    "book/claims.yml": """\
- {id: A1, chapter: even, claim: "Shares are <halves>^{2}.", published: "Fig. 2, 2^{-1}",
   check: by `counting`}
- {id: A2, chapter: even, claim: Slopes are one, published: text, check: a slope}
- {id: A8, chapter: even, claim: Weights grow, published: text, check: a weight}
- {id: A10, chapter: even, claim: Parts are parts, published: text, check: four parts}
- {id: A15, chapter: odd, claim: Grown ones grow, published: text, check: growth}
- {id: B1, chapter: odd, claim: Large ones exist, published: text, needs: full}
- {id: B2, chapter: unwritten, claim: Later ones exist, published: text}
- {id: C1, chapter: odd, claim: Blind ones see, published: text, check: sight}
- {id: D1, chapter: odd, claim: Starts are starts, published: null, check: both}
- {id: D2, chapter: odd, claim: Nobody knows}
- {id: D3, chapter: odd, claim: Limits hide, check: a limit}
""",
    "book/verdicts.yml": "quick: {A1: refuted, A2: refuted, A8: open, D1: reproduced, D2: reproduced}\n",
    "book/chapters.yml": """\
even: {figure: matrix, part: [0.25, 0, 1, 0.5], finding: "Half of <all>^{2}."}
odd: {finding: Words are odd.}
""",
    "book/panels.yml": """\
- {panel: A 1, shows: "a sketch of 2^{3}", why: "a <sketch>; no numbers"}
- {panel: A 2a, shows: "shares, <both>", claims: [A1, A2]}
- {panel: A 2b, shows: weights, claims: [A1, A8]}
- {panel: A 2c, shows: nothing yet}
- {panel: "A supplement E, heat", shows: heat, figures: [even/bare], claims: [A10]}
- {panel: "A supplement E, cold", shows: cold, claims: [D1]}
- {panel: A′ 3c, shows: bars, claims: [A10]}
- {panel: C 9, shows: matrices, claims: [C1]}
""",
    "book/changed_checks.md": """\
# Changed checks

A1 is first named in text.

## Even

| claim | before | now | why |
|---|---|---|---|
| A1, A2 | ten | *two* | `ten` was large |
| A1 | one | ten |

## Odd

| claim | before | now | why |
|---|---|---|---|
| D1 | new | one | none |
""",
    "book/faults.inc": "Tried:\n\n## Arguments\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
    "book/widgets.yml": """\
- {chapter: even, figure: line, label: Move <T>, widget: landscape, panels: relu, sliders: T=-1}
- {chapter: even, figure: film_one, label: Sample, widget: network, sliders: N=2, barrier: true,
   options: {a: "<'>"}}
""",
    "book/seeds-paper.json": """\
{"even": {"seeds": 2, "claims": {"A1": {"reproduced": 2}, "D9": {"open": 1}}, "findings": {},
 "distances": {"count": 4, "beyond": 1, "squares": 9.0}, "headlines": {"A1": [0.5, null], "A2": [-5.0, 1.0]}}}
""",
    "book/machines.json": """\
[{"preset": "quick", "commit": "f00", "date": "2026-01-01", "seconds": {"even": 7},
  "machine": {"system": "S", "processor": "A `fast` one"}, "versions": {"Python": "3.9", "jax": "1"},
  "claims": {"A1": {"verdict": "refuted", "away": 12.5}, "D1": {"verdict": "open", "away": null}}}]
""",
    "book/intro.md": "# A book\n\nNo quotes here: {doc}`scoreboard`.\n",
    "book/scoreboard.md": "# Scoreboard\n\n{claim}`D3`\n\n```{include} _generated/scoreboard.md\n```\n",
    "book/whats_new.md": """\
# What is new

{claim}`A1`; {claim}`D1`; {claim}`C1`; {claim}`B1`.

{result}`A1 line; codes`

{result}`A10 matrix; odd; rows`

Values {found}`A1 shares`,
{found}`A1[1] shares`, {altered}`A10 parts`, {altered}`A10 rows`, {found}`C1 not finite`.
""",
}
PAGE = """<h1>Of &amp; <em>{}</em><a class="headerlink" href="#">#</a></h1><p class="verdict">
<span class="math notranslate nohighlight">t</span>. <span class="n">a</span></p>
"""
NOON = datetime.datetime(2026, 1, 3, 12).timestamp()  # of here, so that the day is the same in every zone


def write(root):
    """Write the book's sources; returns the folder."""
    chapters = {f"notebooks/{name}/chapter.py": text for name, text in CHAPTERS.items()}
    return small_book.lay(root, TEXTS | chapters)


def execute(project):
    """Leave of every chapter what a run at this preset would have left, with the cost of all but one."""
    for chapter in project.chapters:
        chapter.artifacts.mkdir(parents=True)
        told = [one for one in RECORDS if f'"{one["id"]}"' in CHAPTERS[chapter.name]]
        figures = {name: _figure(chapter, name) for name in FIGURES.get(chapter.name, ())}
        notebook = jupytext.read(chapter.source)
        for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
            named = re.findall(r'(?:"|draw_)(\w+)', cell.source)
            shown = [_emitted(one, project.preset) for one in told if one["id"] in named]
            shown += [{formats.FIGURE_TYPE: figures[name]} for name in named if name in figures]
            shown += [{"application/papermill.record/text/plain": "np.float64(2.5)"}] * ("two" in named)
            cell.outputs = [nbformat.v4.new_output("display_data", data) for data in shown]
        tagged = {"tags": [formats.INJECTED]}
        injected = nbformat.v4.new_code_cell(f'preset = "{project.preset}"', metadata=tagged)
        notebook.cells[2:2] = [injected] * (chapter.name != "your_own_task")
        nbformat.write(notebook, chapter.notebook)
        manifest.seal(chapter.manifest, chapter.folder, {"Python": "(3, 11) Linux x86_64"})
        for path in (chapter.notebook, chapter.manifest):
            os.utime(path, (NOON, NOON))
        ran = {"started": NOON - 70, "ended": NOON + 2.4, "peak_bytes": 3 * 2**29}
        if chapter.name != "odd":
            manifest.write(project.build / "progress" / f"{chapter.name}.json", ran)


def move_on(root):
    """Of the run on record: a number, a quantity and a figure that later runs do not have."""
    path = root / "book/_static/paper/even/kept.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["records"][0]["computed"][1] = 2.5
    told["records"].append(told["records"][2] | {"quantity": "gone"})
    path.write_text(json.dumps(told), encoding="utf-8")
    np.savez(path.with_name("gone.npz"), x=1)


def impoverish(root):
    """Take out what a book may lack."""
    for name in ("changed_checks.md", "faults.inc", "machines.json", "seeds-quick.json", "seeds-paper.json"):
        (root / "book" / name).unlink()
    for name in ("book/widgets.yml", "pyproject.toml"):
        (root / name).unlink()
    cited = "{title: A made-up book, license: MIT, authors: [{name: A group}]}"
    (root / "CITATION.cff").write_text(cited, encoding="utf-8")
    config = TEXTS["_config.yml"].replace('repository: {url: "git@github.com:Some/small.git"}, ', "")
    (root / "_config.yml").write_text(config, encoding="utf-8")


def pin(monkeypatch, folder):
    """Take a machine, a day, git and a page builder as they are nowhere; returns what git says, and commands.

    Args:
        folder: Where this machine's files lie.
    """
    said, commands = {"describe": "0a1b2c3-dirty", "show": "2026-01-02"}, []

    def run(command, **_):
        commands.append(" ".join(map(str, command[1:])))
        if command[0] == "tar":
            Path(command[-1], "notebooks").mkdir()
        elif "sphinx" in command:
            _lay_pages(Path(command[-2]), Path(command[-1]))
        elif "build" in command:
            _lay_pages(Path(command[2]), Path(command[-1], "_build/html"))
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    (folder / "cpuinfo").write_text("flags\nmodel name\t: Made-up CPU\n", encoding="utf-8")
    system = {"system": "Linux", "release": "6", "machine": "x86_64", "python_version": "3.11.0"}
    cores = SimpleNamespace(cpu_count=lambda: 2, sysconf=lambda name: 2**17)
    pins = {
        (Project, "_git"): lambda self, command, *rest: said.get(command, ""),
        (site, "subprocess"): SimpleNamespace(run=run),
        (crate, "mimetypes"): SimpleNamespace(guess_type=lambda name: (f"of {name[-4:]}", None)),
        (front, "os"): cores,
        (reports, "os"): cores,
        (reports, "Path"): lambda _: folder / "cpuinfo",
        (reports, "date"): SimpleNamespace(today=lambda: datetime.date(2026, 1, 4)),
        (reports, "metadata"): SimpleNamespace(version=lambda name: "1.0"),
        (reports, "platform"): SimpleNamespace(**{k: lambda told=told: told for k, told in system.items()}),
    }
    for (module, name), told in pins.items():
        monkeypatch.setattr(module, name, told)
    for name in ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "BUILDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CODING_SCHEMES_CHAPTER", "even")
    return said, commands


def _lay_pages(laid, pages):
    """Leave what a builder would make of an assembled book: pages of a title, and one chapter's pictures."""
    contents = yaml.safe_load((laid / "_toc.yml").read_text(encoding="utf-8"))
    for name in ("index", *front.listed_pages(contents)):
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / f"{name}.html").write_text(PAGE.format(name), encoding="utf-8")
    shutil.copytree(laid / "book/_static", pages / "_static")
    shutil.copytree(laid / "notebooks/figures/even", pages / "_images")


def _emitted(one, preset):
    """A finding as it is shown under its cell."""
    one = PLAIN | one | (one.get("paper", {}) if preset == "paper" else {})
    one["control"] = CONTROL | one["control"]
    one.pop("paper", None)
    with mock.patch.object(records, "display") as display:
        records.emit(one)
    return display.call_args.args[0]


def _figure(chapter, name):
    """A figure's files among the artifacts, and what is published of it."""
    ending, about = FIGURES[chapter.name][name]
    folder = chapter.artifacts
    size, file = ((960, 240), f"{name}.png") if ending == "png" else ((480, 120), f"{name}-thumbnail.png")
    Image.new("RGB", size, (0, 0, len(name))).save(folder / file)
    if ending == "svg":
        (folder / f"{name}.svg").write_text(SVG, encoding="utf-8")
    at_paper = chapter.folder.parents[1].name == "paper"
    np.savez(folder / f"{name}.npz", x=np.arange(3.0) + at_paper, names=["a", name])
    (folder / f"{name}.py").write_text(f"# draws {name}\n", encoding="utf-8")
    if "film" in about:
        (folder / f"{name}-frames").mkdir()
        for frame in (f"{name}-frames/0.png", f"{name}.webp"):
            (folder / frame).write_text(frame, encoding="utf-8")
    whole = {"name": name, "file": f"{name}.{ending}", "description": f'"{name}" is seen'}
    whole |= {"width": 640, "height": 160, "function": "companion.figures.curves"}
    whole |= {"caption": "", "tail": "", "panels": [], "page": ""}
    return whole | about
