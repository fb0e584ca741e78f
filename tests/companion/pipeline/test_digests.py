"""What results are named by: everything that they are made from, and nothing else."""

from pathlib import Path

import pytest
import small_book
from companion.pipeline import manifest, project
from companion.pipeline.project import Project

DATA = "import pathlib\n\nHERE = pathlib.Path(__file__).with_name('style.mplstyle')\n"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """The small book's sources; the chapter on even numbers reads data, that on loud words does not.

    In a working tree with edits, which stays one whatever is edited.
    """
    monkeypatch.setattr(Project, "commit", "ab12cd3-dirty")
    root = small_book.write(tmp_path / "book")
    texts = {
        "lib/small/data.py": DATA,
        "lib/other/__init__.py": "SPEECH = 1\n",
        "lib/other/words.py": "def shout(word):\n    return word.upper()\n",
        "lib/small/style.mplstyle": "",
        "lib/small/unread.js": "",
        "lib/small/deep/__init__.py": '"""Nothing but words."""\n',
        "lib/other/late/__init__.py": "def __getattr__(name):  # imports _found on first use\n    ...\n",
        "lib/other/late/_found.py": "x = 1",
        "lib/other/late/seen.py": "x = 1",
        "lib/other/late/unused.py": "",
        "lib/small/deep/inner.py": "from ..sums import add\n",
        "lib/small/sums.py": "def add(x, y):\n    return x + y\n",
        "data/table.csv": "1\n",
        "benchmarks/results/times.md": "one second",
    }
    small_book.lay(root, texts)
    even, loud = root / "notebooks/even.py", root / "notebooks/loud.py"
    even.write_text(
        even.read_text().replace("import numbers", "import data, numbers\nfrom small.deep import inner")
    )
    text = loud.read_text().replace("from small.words", "from other.words")
    loud.write_text(text + "\n# %%\nfrom other import late\n\nlate.found(late.seen.x)\n")
    return root


def names(root):
    """Digests of both chapters and of the pages."""
    project = Project(root)
    return *(chapter.folder.name for chapter in project.chapters), project.pages_stamp.name


def renamed(before, after):
    return " ".join(name for name, old, new in zip(("even", "loud", "pages"), before, after) if old != new)


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("_toc.yml", "pages"),
        ("_config.yml", "pages"),
        ("codecheck.yml", "pages"),
        ("CITATION.cff", "pages"),
        ("book/intro.md", "pages"),
        ("book/claims.yml", "pages"),
        ("benchmarks/results/times.md", "pages"),
        ("requirements.lock", "even loud pages"),
        ("data/table.csv", "even pages"),
        ("lib/small/data.py", "even pages"),
        ("lib/small/constants.py", "even pages"),
        ("lib/small/__init__.py", "pages"),  # no code in it
        ("lib/small/deep/__init__.py", "pages"),
        ("lib/other/__init__.py", "loud pages"),
        ("lib/other/late/__init__.py", "loud pages"),
        ("lib/small/unread.js", ""),
        ("lib/small/style.mplstyle", "even pages"),
        ("lib/small/sums.py", "even pages"),
        ("lib/small/words.py", "pages"),
        ("lib/other/late/_found.py", "loud pages"),
        ("lib/other/late/seen.py", "loud pages"),
        ("lib/other/late/unused.py", "pages"),
        ("lib/other/words.py", "loud pages"),
    ],
)
def test_an_edit_renames_what_is_made_from_the_file(book, file, changed):
    before = names(book)
    with (book / file).open("a") as opened:
        opened.write("\n")
    assert renamed(before, names(book)) == changed


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("# # Even numbers", "# # Numbers that are even", "pages"),
        ("object()\n", "object()\n\n# %% [markdown]\n# In between.\n\n", "pages"),
        ("object()", "object()  # a comment", "even pages"),
        ("object()", "object()\n\n# %%\ntuple()", "even pages"),
        ("# %%\nobject()", '# %% tags=["hide-input"]\nobject()', "even pages"),
    ],
)
def test_a_chapter_is_made_from_its_code_and_the_pages_from_its_text_too(book, old, new, changed):
    before, chapter = names(book), book / "notebooks/even.py"
    assert chapter.read_text().count(old) == 1
    chapter.write_text(chapter.read_text().replace(old, new))
    assert renamed(before, names(book)) == changed


def test_a_new_data_file_renames_and_a_touched_one_does_not(book):
    before = names(book)
    (book / "data/table.csv").touch()
    assert names(book) == before
    (book / "data/more.csv").write_text("2")
    assert names(book)[0] != before[0]


def test_parameters_and_preset_are_part_of_the_name(book):
    project = Project(book)
    runs = [{"preset": "quick"}, {"preset": "quick", "seed": 3}, {"preset": "paper"}]
    folders = {project.chapter("even", parameters, book).folder for parameters in runs}
    assert len(folders) == 3


def test_pages_are_made_from_their_templates(book):
    templates = {path.name for path in Path(project.__file__).parent.joinpath("templates").rglob("*.*")}
    assert {"figure.md", "layout.html", "llms.txt"} <= templates
    made_from = Project(book).pages_made_from
    assert templates <= {name.rpartition("/")[2] for name in made_from}
    assert not [name for name in made_from if Path(name).is_absolute()]  # the same digest on any machine


def test_what_became_of_each_ingredient_is_told():
    before, now = (
        {"gone": "1", "same": "2", "lost": "3", "found": ""},
        {"same": "2", "lost": "", "found": "4", "new": "5"},
    )
    told = ["gone is gone", "new is new", "lost changed", "found changed"]
    assert manifest.changes(before, now) == told


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.json"
    manifest.write(path, {"step": 1})
    with pytest.raises(TypeError):
        manifest.write(path, {"step": 2, "by": object()})
    assert manifest.read(path) == {"step": 1}


def test_a_relative_root_gives_the_same_names(monkeypatch):
    """Where the pipeline lies in the repository, as it does in this one and not in the small book."""
    monkeypatch.chdir(small_book.REPOSITORY)
    chapters = [Project(root).chapter("analog", {}, Path("any")) for root in (Path("."), Path.cwd())]
    assert chapters[0].made_from == chapters[1].made_from
