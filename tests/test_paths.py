import shutil
from pathlib import Path

import numpy as np
import pytest
from coding_schemes import paths
from small_book import git


def test_repository_root_is_found_from_a_folder_inside(monkeypatch, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "claims.yml").write_text("[]")
    (tmp_path / "notebooks" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notebooks" / "deep")
    assert paths.repository_root() == tmp_path


def test_repository_root_falls_back_on_this_checkout(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    root = paths.repository_root()
    assert root is not None
    assert (root / "lib" / "coding_schemes" / "paths.py").is_file()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit_is_git_s_or_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "repository_root", lambda: tmp_path)
    assert paths.commit() == "unknown"
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    head = (tmp_path / ".git" / "HEAD").read_text().split()[-1]
    assert (tmp_path / ".git" / head).read_text().startswith(paths.commit())
    monkeypatch.setenv("PATH", "")
    assert paths.commit() == "unknown"


def test_artifacts_makes_the_named_folder_or_says_none(monkeypatch, tmp_path):
    monkeypatch.delenv("CODING_SCHEMES_ARTIFACTS", raising=False)
    assert paths.artifacts() is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODING_SCHEMES_ARTIFACTS", "")  # as make hands on what is not set
    assert paths.artifacts() is None
    monkeypatch.setenv("CODING_SCHEMES_ARTIFACTS", str(tmp_path / "a" / "b"))
    assert paths.artifacts() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def test_a_relative_file_is_found_from_the_folder_of_notebooks(tmp_path, monkeypatch):
    for name in ("book/claims.yml", "notebooks/some.py", "my.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path / "notebooks")
    assert paths.located("my.npz") == tmp_path / "my.npz"
    assert paths.located("some.py") == Path("some.py")
    assert paths.located(tmp_path / "my.npz") == tmp_path / "my.npz"
    monkeypatch.setattr(paths, "repository_root", lambda: None)
    assert paths.located("my.npz") == Path("my.npz")


def test_a_stored_result_is_whole_or_as_it_was(tmp_path, monkeypatch):
    output = tmp_path / "results" / "found.npz"
    paths.store(output, {"a": np.arange(3), "manifest": "{}"})

    def full(file, **arrays):
        file.write(b"PK")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        paths.store(output, {"a": np.arange(4)})
    with np.load(output) as kept:
        np.testing.assert_array_equal(kept["a"], np.arange(3))
        assert str(kept["manifest"]) == "{}"
