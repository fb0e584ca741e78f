"""What a reader is told when the machine fails, and what a chapter's environment is."""

import errno
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from companion.pipeline import __main__ as commands
from companion.pipeline import execution, manifest, site
from companion.pipeline.project import BuildError, Chapter, Project


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room and run it again"),
        (errno.EROFS, "cannot be written to"),
        (errno.EACCES, "a copy of the repository of your own"),
        (errno.EADDRINUSE, "make serve PORT=8001"),
        (errno.EIO, "Run the same command again"),
    ],
)
def test_error_of_the_system_is_told_without_a_traceback(monkeypatch, capsys, number, advice):
    def fail(*_):
        raise OSError(number, "something", "_build/x")

    monkeypatch.setattr(commands, "Project", fail)
    monkeypatch.setattr("sys.argv", ["pipeline", "build"])
    assert commands.main() == 1
    told = capsys.readouterr().err
    assert "something: _build/x. " in told
    assert advice in told


def test_a_file_that_a_full_disk_takes_half_of_stays_as_it_was(tmp_path, monkeypatch):
    path, write = tmp_path / "even.json", Path.write_text
    manifest.write(path, {"kept": [1, 2]})

    def full(self, text, **options):
        write(self, text[:6], **options)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="full"):
        manifest.write(path, {"kept": [3]})
    monkeypatch.setattr(Path, "write_text", write)
    assert manifest.read(path) == {"kept": [1, 2]}
    manifest.write(path, {"kept": [3]})
    assert manifest.read(path) == {"kept": [3]}
    assert [*tmp_path.iterdir()] == [path]


def test_error_of_the_system_without_a_number_is_told_in_its_own_words():
    told = commands._message(OSError("the archive ends early"))
    assert told == "the archive ends early. Run the same command again once that is mended."


@pytest.mark.parametrize(
    "command",
    [
        *("build", "plan", "pages", "accept-verdicts", "pdf", "serve", "fetch-results", "report", "seeds"),
        *("execute even", "chapter even", "claim A1", "report left.json", "launch-tree tree"),
    ],
)
def test_every_command_is_of_the_preset_given(monkeypatch, capsys, command):
    def stop(root, preset="quick"):
        raise BuildError(f"at {preset}")

    monkeypatch.setattr(commands, "Project", stop)
    for given, preset in (([], "quick"), (["--preset", "paper"], "paper")):
        monkeypatch.setattr("sys.argv", ["pipeline", *command.split(), *given])
        assert commands.main() == 1
        assert capsys.readouterr().err == f"\nat {preset}\n"


@pytest.mark.parametrize("given", ["", "preset", "preset seed"])
def test_a_parameter_that_the_chapter_does_not_set_is_refused_beside_any_that_it_does(tmp_path, given):
    source = tmp_path / "even.py"
    source.write_text('# %% tags=["parameters"]\npreset = "quick"\nseed = 0\n')
    chapter, known = Chapter("even", source, (), {}, tmp_path), dict.fromkeys(given.split(), 0)
    assert len(execution.prepare(chapter, known).cells) == 1
    with pytest.raises(BuildError, match=r"parameters cell of .*even\.py does not set sead, sede$"):
        execution.prepare(chapter, {"sede": 0} | known | {"sead": 0})


def test_what_differs_from_run_to_run_or_place_to_place_is_taken_out_of_every_kind_of_text(tmp_path):
    """And nothing else, nor from what is no text; identifiers that are alike stay alike, others apart."""
    found = []
    for place, address, (one, other) in (("a", "0x7f3a", "12"), ("b/c", "0x01Ef", "34")):
        root, cell = tmp_path / place, nbformat.v4.new_code_cell("x", metadata={"papermill": {"duration": 1}})
        one, other = (f"{digit * 8}-aaaa-4aaa-8aaa-{digit * 12}" for digit in (one, other))
        text = f"<object at {address}> {one} {other} {one} {root}/lib/x.py 0x10 1.5"
        kinds = dict.fromkeys(("text/plain", "text/html", "text/latex"), text)
        others = {"image/svg+xml": "at 0x1", "application/json": {"at": 1}}
        data = nbformat.v4.new_output("display_data", kinds | others)
        cell.outputs = [nbformat.v4.new_output("stream", text=text), data]
        notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"papermill": {"start_time": place}})
        execution.normalize(notebook, "even", root)
        found.append(notebook)
    assert found[0] == found[1]
    stream, shown = found[0].cells[0].outputs
    assert {stream.text} == {shown.data[kind] for kind in kinds}
    object_, one, other, again, *rest = stream.text.split(" ")
    assert (object_, rest) == ("<object>", ["lib/x.py", "0x10", "1.5"])
    assert one == again != other
    assert {kind: shown.data[kind] for kind in others} == others


@pytest.mark.parametrize("number", [0, 2])
def test_a_chapter_has_one_cell_of_parameters(tmp_path, number):
    source = tmp_path / "even.py"
    source.write_text("# %%\nx = 1\n" + number * '\n# %% tags=["parameters"]\nseed = 0\n')
    needed = rf"even\.py must have one cell tagged parameters; it has {number}$"
    with pytest.raises(BuildError, match=needed):
        execution.prepare(Chapter("even", source, (), {}, tmp_path), {})


def test_injected_parameters_count_as_the_cell_that_they_stand_below(monkeypatch, tmp_path):
    """Of a notebook whose parameters are not in its first cell."""

    def client(nb_man, **options):
        def execute(env):
            for cell in nb_man:
                options["on_cell_execute"](cell=cell, cell_index=0)
                options["on_cell_executed"](cell=cell, cell_index=0, execute_reply={})

        return SimpleNamespace(execute=execute)

    monkeypatch.setattr(execution, "PapermillNotebookClient", client)
    said: list[int | str] = []
    progress = SimpleNamespace(current=-1, cell_done=lambda: said.append("done"))
    progress.cell = lambda index: (vars(progress).update(current=index), said.append(index))
    cells = [{"id": name} for name in ("imports", "parameters", "injected", "run")]
    execution.Engine.execute_managed_notebook(
        cells, "python3", folder=tmp_path, environment={}, progress=progress,
        numbers={"imports": 0, "parameters": 1, "run": 2},
    )  # fmt: skip
    assert said == [0, "done", 1, "done", 1, "done", 2, "done"]


@pytest.mark.parametrize(
    ("cell", "text", "value"),
    [
        ("x: str | None = 'a'", "None", None),
        ("x: str | None = None", "a b", "a b"),
        ("x: str = 'a'", "None", "None"),
        ("x = 'a'", "3", "3"),
        ("x: int | None = 1", "None", None),
        ("x = 1.0", "2", 2),
        ("x = True", "False", False),
        ("x: list[float] = [1.0]", "(1, 2)", [1, 2]),
        ("x = None", "a", "a"),
    ],
)
def test_a_typed_parameter_is_read_as_its_default_or_annotation_says(tmp_path, cell, text, value):
    (tmp_path / "even.py").write_text(f'# %% tags=["parameters"]\n{cell}\n')
    found = execution.parse_parameters(tmp_path / "even.py", {"x": text})
    assert found == {"x": value}
    assert type(found["x"]) is type(value)


def test_killed_page_builder_is_named(monkeypatch, tmp_path):
    killed = subprocess.CompletedProcess([], -signal.SIGKILL, "", "")
    monkeypatch.setattr(site.subprocess, "run", lambda *_, **__: killed)
    (tmp_path / "_build/quick").mkdir(parents=True)
    with pytest.raises(BuildError, match="page builder was killed by SIGKILL"):
        site._sphinx(Project(tmp_path), tmp_path / "site")


def test_programs_compiled_once_are_kept_for_every_seed_and_preset(tmp_path):
    folders = set()
    for preset, digest in (("quick", "a"), ("paper", "b")):
        chapter = Chapter("even", tmp_path / "even.py", (), {}, tmp_path / f"even-{digest}")
        found = execution._environment(Project(tmp_path, preset), chapter, tmp_path / "artifacts")
        folders.add(found["JAX_COMPILATION_CACHE_DIR"])
    assert {Path(folder).relative_to(tmp_path) for folder in folders} == {Path("_build/jax-cache/even")}


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("", {}),
        ("w -- NAME=even SEED=3 start=21", {"start": "21"}),
        (r" -j2 --jobserver-auth=3,4 -- label=a\ b\\c$$(x) PRESET=paper", {"label": r"a b\c$(x)"}),
        ("NAME=even scale=2", {"scale": "2"}),  # before make 4
    ],
)
def test_typed_parameters_are_read_from_what_make_hands_on(flags, found):
    made = {"MAKEFLAGS": flags, "OWN": "PRESET SEED NAME"}
    assert commands._typed(made) == found
    assert commands._typed(made | {"SEED": "3"}) == {"seed": "3"} | found


def test_temporary_files_of_a_killed_build_are_deleted_and_no_other_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(commands.tempfile, "tempdir", str(tmp_path))
    build, left = tmp_path / "build", tmp_path / "book-left"
    foreign = tmp_path / "elsewhere", tmp_path / "elsewhere/book-foreign"
    for folder in (build, left, *foreign):
        folder.mkdir()
        (folder / "file").touch()
    for earlier in (left, *foreign):
        (build / ".scratch").write_text(str(earlier))
        commands._sweep(build)
        assert not left.exists()
        with commands._scratch(build) as scratch:
            assert (build / ".scratch").read_text() == scratch
        assert not (build / ".scratch").exists()
        assert not list(tmp_path.glob("book-*"))
    assert all((folder / "file").exists() for folder in foreign)
