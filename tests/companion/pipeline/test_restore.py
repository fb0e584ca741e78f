"""Results of others, taken over by their digests: from a folder, and from a site on the loopback."""

import json
import shutil

import pytest
import small_book
from bare_page import served
from companion.pipeline import manifest, restore
from companion.pipeline.project import MANIFEST, BuildError, Project


@pytest.fixture
def book(tmp_path):
    return small_book.write(tmp_path / "book")


def ran(chapter, place):
    """What an execution leaves, in a folder of `place`."""
    folder = place / chapter.folder.name
    (folder / "artifacts/film-frames").mkdir(parents=True)
    (folder / f"{chapter.name}.ipynb").write_text("{}")
    (folder / "artifacts/line é.npz").write_bytes(b"numbers")
    (folder / "artifacts/film-frames/0.png").write_bytes(b"picture")
    manifest.seal(folder / MANIFEST, folder, chapter.made_from)
    return folder


def test_results_of_others_are_taken_over_by_their_digest(book, tmp_path):
    """Those of the same sources, if whole; a cluster's run then serves every reader."""
    shared = tmp_path / "shared/_build/quick/chapters"
    even, loud = Project(book).chapters
    ran(even, shared)
    (ran(loud, shared) / "loud.ipynb").write_text("{ ")
    assert restore.restore(even, tmp_path / "shared").startswith("restored from")
    assert even.finished
    assert restore.restore(even, tmp_path / "shared") == "there already"
    (even.folder / "even.ipynb").write_text("{ ")
    assert not even.finished
    assert restore.restore(even, tmp_path / "shared").startswith("restored from")  # over what is damaged
    assert even.finished
    assert restore.restore(loud, tmp_path / "shared") == "damaged there (loud.ipynb); to be run here"
    assert not loud.folder.exists()
    edit(book)
    (_, edited) = Project(book).chapters
    assert (
        restore.restore(edited, tmp_path / "shared")
        == "not there (notebooks/loud.py changed); to be run here"
    )
    assert [path.name for path in even.folder.parent.iterdir()] == [even.folder.name]


def edit(book):
    with (book / "notebooks/loud.py").open("a") as file:
        file.write("# edited\n")


@pytest.fixture
def site(book, tmp_path):
    """Pages with the results of both chapters, served at an address; the folder, and the address."""
    pages = tmp_path / "pages"
    pages.mkdir()
    for chapter in Project(book).chapters:
        ran(chapter, chapter.folder.parent)
        restore.publish(chapter, pages)
    shutil.rmtree(Project(book).build)

    with served(pages) as address:
        yield pages, address.rstrip("/")


@pytest.mark.parametrize("way", ["address", "folder"])
def test_a_published_site_gives_its_results_byte_for_byte(book, site, way):
    pages, address = site
    project = Project(book)
    shared = restore.source(project, address if way == "address" else str(pages))
    for chapter in project.chapters:
        assert restore.restore(chapter, shared).startswith("restored from ")
        assert chapter.finished
        again = ran(chapter, book / "again")
        found = {path.relative_to(chapter.folder) for path in chapter.folder.rglob("*")}
        assert found == {path.relative_to(again) for path in again.rglob("*")}
        assert all(
            (again / n).read_bytes() == (chapter.folder / n).read_bytes()
            for n in found
            if (again / n).is_file()
        )
    assert sorted(path.name for path in (project.build / "chapters").iterdir()) == sorted(
        chapter.folder.name for chapter in project.chapters
    )


def test_one_chapter_is_made_anew_after_an_edit(book, site):
    edit(book)
    even, loud = Project(book).chapters
    assert restore.restore(even, site[1]).startswith("restored")
    assert (
        restore.restore(loud, site[1])
        == "made from other sources there (notebooks/loud.py changed); to be run here"
    )
    assert not loud.folder.exists()
    assert "other sources there (parameter preset changed)" in restore.restore(
        Project(book, "paper").chapters[0], site[1]
    )


def test_what_another_python_made_is_taken_and_said(book, site):
    """Its numbers are the published ones, which is what is asked for."""
    even = Project(book).chapters[0]
    told = manifest.read(site[0] / "downloads/even.json")
    told["made_from"]["Python"] = "(3, 99) Elsewhere"
    (site[0] / "downloads/even.json").write_text(json.dumps(told))
    assert restore.restore(even, site[1]).endswith(", made by (3, 99) Elsewhere")


@pytest.mark.parametrize("name", ["../outside", "artifacts/../../outside", "/outside", "a\\outside", ""])
def test_files_outside_of_the_results_folder_are_refused(name, book, site):
    even = Project(book).chapters[0]
    told = manifest.read(site[0] / "downloads/even.json")
    told["files"][name] = told["files"]["even.ipynb"]
    (site[0] / "downloads/even.json").write_text(json.dumps(told))
    assert "its manifest there is spoiled (ValueError: a file named" in restore.restore(even, site[1])
    assert not [*book.rglob("outside")]


def test_where_results_are_taken_from(book, tmp_path):
    project = Project(book)
    with pytest.raises(BuildError, match="no address of the published book is known"):
        restore.source(project, "")
    with pytest.raises(BuildError, match="FROM must be a folder .* or the address"):
        restore.source(project, "nowhere")
    config = book / "_config.yml"
    config.write_text(config.read_text() + "\nrepository: {url: https://github.com/Owner/name}\n")
    assert restore.source(Project(book), "") == "https://owner.github.io/name"
    config.write_text("html: {baseurl: https://book.org/}\n")
    assert restore.source(Project(book), "") == "https://book.org"
    assert restore.source(project, "https://other.org/") == "https://other.org"
    with pytest.raises(BuildError, match="cannot be read"):
        restore.restore(project.chapters[0], "http://127.0.0.1:9")


def test_the_command_ends_with_the_folder_of_the_results(book, site):
    done = small_book.pipeline(book, "fetch-results", "--", site[1])
    assert done.stdout.count("restored from") == 2
    assert done.stdout.splitlines()[-1] == str(book / "_build/quick/chapters")
