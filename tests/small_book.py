"""A book of two trivial chapters, for tests of the pipeline and of the pages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from companion import formats
from companion.pipeline import manifest

REPOSITORY = Path(__file__).parents[1]
# What a check leaves, of a chapter that has not moved yet: the fields that every record has
RECORD = {
    "id": "A8",
    "quantity": "numbers <of> neurons",
    "computed": 4.0,
    "expected": 4.0,
    "uncertainty": None,
    "predicate": "exactly",
    "passed": True,
    "worst": None,
    "apart": None,
    "control": None,
    "sampler": None,
    "because": "",
    "note": "",
    "stored": "",
    "lacking": "",
    "size": {},
    "source": "theory",
}
CONTROL = {
    "description": "three",
    "computed": 6.0,
    "uncertainty": None,
    "expected": None,
    "passed": False,
    "spared": [],
}
NUMBERS = RECORD | {
    "quantity": "numbers",
    "computed": [18.1, 5.8],
    "expected": [18.0, 6.0],
    "uncertainty": [0.1, 0.1],
    "predicate": "within 3 s.e.",
    "control": CONTROL,
    "headline": True,
    "size": {"N": 60},
}
SMALL_BOOK = {
    "lib/small/__init__.py": "",
    "lib/small/numbers.py": "from small.constants import TWO\n\n\ndef double(x):\n    return TWO * x\n",
    "lib/small/constants.py": "TWO = 2\n",
    "lib/small/words.py": "def shout(word):\n    return word.upper()\n",
    "notebooks/even.py": """\
# %% [markdown]
# # Even numbers
#
# All of them are $2 x$:
#
# $$
# n = 2 x
# $$ (eq-even)

# %% tags=["parameters"]
preset = "quick"
seed = 0
start: int = 1
scale = 1.0
label: str | None = None

# %%
from small import numbers

print(numbers.double(start), preset)

# %%
object()

# %%
import numpy as np
from companion.findings import Control, Finding
from companion.predicates import equal

Finding(
    "A1",
    "twice two",
    sampled=np.array(numbers.double(2)),
    theory=4,
    size={"N": 2},
    headline=True,
    control=Control("twice three", sampled=np.array(numbers.double(3))),
).judge(equal())
Finding(
    "A1",
    "twice one",
    sampled=np.array(numbers.double(1)),
    theory=2,
    size={"N": 1},
    control=Control("twice two", sampled=np.array(numbers.double(2))),
).judge(equal())

# %%
from companion import figures
from companion.films import publish_animation, rotation
from companion.publish import publish

publish(figures.curves, "line", caption="**Twice** is $2 x$: a line, in `code`.", x=[0, 1], values=[[0, 2]])
publish(
    figures.kernel_matrices,
    "matrix",
    kernels=[[1, 0], [0, 1]],
    labels=[0, 1],
    description="Two by two",
    caption="Two neurons, and their rotation.",
    page=rotation([[[1, 0], [0, 1]], [[0, -1], [1, 0]]], [[1, -1], [1, 1]], [0, 1], [0, 1]),
)


# %%
def growing(frame, heights):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.bar([0, 1], heights[frame])
    return figure


publish_animation(
    growing, "film", num_frames=2, description="Bars", caption="Bars that grow.", heights=[[1, 2], [2, 2]]
)

# %% [markdown]
# Equation {eq}`eq-even` again, and {numref}`fig-even-line`, {numref}`fig-even-film`.
""",
    "notebooks/loud.py": """\
# %% [markdown]
# # Loud words

# %% tags=["parameters"]
preset = "quick"
seed = 0

# %%
import os
import shutil
from pathlib import Path
from pathlib import Path

import matplotlib.pyplot as plt
from small.words import shout

print(shout("quiet"))
Path(os.environ["CODING_SCHEMES_ARTIFACTS"], "curve.py").write_text("# draws the curve")
figure = plt.figure()
figure.gca().plot([0, 1], [0, 1]);
""",
    "_toc.yml": "format: jb-book\nroot: book/intro\nchapters:\n- file: notebooks/even\n"
    "- file: notebooks/loud\n- file: book/scoreboard\n",
    "book/intro.md": "# A small book\n\nRead [the first chapter](../notebooks/even) or {eq}`eq-even`.\n",
    "book/references.bib": "",
    "book/scoreboard.md": "# Scoreboard\n\n```{include} _generated/scoreboard.md\n```\n",
    "book/claims.yml": "- {id: A1, chapter: even, claim: 'two twos: 2^{2}', published: '4', check: count}\n"
    "- {id: B2, chapter: odd, claim: odd numbers exist, published: 'P^{1/2}', check: count}\n",
    "book/verdicts.yml": "quick: {A1: reproduced}\n",
    "book/widgets.yml": "- {chapter: even, figure: line, label: Move T, widget: landscape, panels: relu, "
    "sliders: T=-1 P=2}\n",
}


def write(root):
    """Write the small book's sources; returns the folder."""
    root.mkdir(parents=True)
    for name in ("Snakefile", "_config.yml", "codecheck.yml", "CITATION.cff", "requirements.lock"):
        shutil.copy(REPOSITORY / name, root / name)
    for name in ("profiles/default", "book/_static"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("paper"))
    return lay(root, SMALL_BOOK)


def lay(root, texts):
    """Write files by their names in a folder, with the folders they need; returns the folder."""
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def notebook(records=(), figures=()):
    """A notebook whose one cell has put out records of findings, and figures."""
    shown = [{formats.CHECK_TYPE: each} for each in records] + [
        {formats.FIGURE_TYPE: each} for each in figures
    ]
    outputs = [nbformat.v4.new_output("display_data", each) for each in shown]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("pass", id="one", outputs=outputs)])


def finish(chapter, records=(), figures=()):
    """Leave what the execution of a chapter leaves, beside the artifacts that are there."""
    chapter.artifacts.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook(records, figures), chapter.notebook)
    manifest.seal(chapter.manifest, chapter.folder, chapter.made_from)


def git(root, *words):
    """Run git in a folder, as somebody; returns what it prints."""
    us = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *us, *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def environment():
    """The environment in which a book elsewhere is built by this repository's companion."""
    return os.environ | {"PYTHONPATH": str(REPOSITORY / "lib")}


def pipeline(root, *arguments, check=True):
    """Run one command of the pipeline in a book; returns the finished process."""
    command = [sys.executable, "-m", "companion.pipeline", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment())
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done
