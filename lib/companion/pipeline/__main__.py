"""Commands of the pipeline; the Makefile and the Snakefile call them."""

import argparse
import errno
import fcntl
import functools
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from companion.pipeline.progress import Display, Progress, duration, step_times
from companion.pipeline.project import BUILD, BuildError, Chapter, Project

PAGES = "pages"  # name of the job that builds the pages
_SCRATCH = ".scratch"  # names the folder of a build's temporary files
_BUILDER = "CODING_SCHEMES_BUILDER"  # process that started this job; its end is the job's


def main() -> int:
    """Run one command; a failure that the reader can act on is shown without a traceback."""
    arguments = _parser().parse_args()
    try:
        arguments.command(arguments)
    except (BuildError, OSError) as error:
        print(f"\n{_message(error)}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"\n{error}: the environment is damaged; delete .venv, and run it again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command to go on", file=sys.stderr)
        return 130
    return 0


def build(arguments: argparse.Namespace) -> None:
    """Bring the whole book up to date: run what changed, build the pages."""
    project = Project(Path.cwd(), arguments.preset)
    page = project.html / "index.html"
    started = time.time()
    with _only_one(project.build / ".lock", "Another build of this book"):
        _sweep(project.build)
        for finding in project.discard_damaged():
            print(finding)
        if project.pages_stamp.exists():
            print(f"Nothing has changed.\n{page}")
            return
        waiting = [chapter.name for chapter in project.chapters if not chapter.finished]
        print(f"Chapters to run: {', '.join(waiting) or 'none'}; then the pages.", flush=True)
        cores = os.cpu_count() or 1
        log = project.build / "snakemake.log"
        command = [sys.executable, "-m", "snakemake", "--profile", "profiles/default", "--cores", str(cores)]
        command += ["--nolock", "--config", f"preset={project.preset}"]  # the lock is taken above
        with (
            _scratch(project.build) as scratch,
            log.open("w") as output,
            Display(project.build, [*waiting, PAGES], cores) as display,
        ):
            environment = os.environ | {_BUILDER: str(os.getpid()), "TMPDIR": scratch}
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        if done.returncode < 0:
            killed = signal.Signals(-done.returncode).name
            raise BuildError(
                f"The scheduler was killed by {killed}. Run it again; finished chapters are kept."
            )
        if done.returncode:
            if Project(project.root, project.preset).pages_made_from != project.pages_made_from:
                raise BuildError("Sources were edited while the book was being built; run it again.")
            reasons = display.failures() or [f"Snakemake stopped; the end of {log}:", log.read_text()[-3000:]]
            raise BuildError("The build has failed.\n\n" + "\n\n".join(reasons))
    print(f"The book is built, in {duration(time.time() - started)}. Open\n{page}")


def plan(arguments: argparse.Namespace) -> None:
    """Say what a build would make again, and why."""
    project = Project(Path.cwd(), arguments.preset)
    reasons = project.plan()
    width = max(map(len, reasons))
    for name, reason in reasons.items():
        times = step_times(project.build / "durations" / f"{name}.json").values()
        took = f" ({duration(sum(times))} last time)" if reason and times else ""
        print(f"{name:{width}}  {'again' + took + ': ' + reason if reason else 'up to date'}")


def fetch_results(arguments: argparse.Namespace) -> None:
    """Take over the chapters that others have run from the same sources: the published book, or a cluster."""
    from companion.pipeline import restore

    project = Project(Path.cwd(), arguments.preset)
    shared = restore.source(project, arguments.shared)
    with _only_one(project.build / ".lock", "A build of this book"):
        for chapter in project.chapters:
            print(f"{chapter.name}: {restore.restore(chapter, shared)}", flush=True)
    print(project.build / "chapters")


def execute(arguments: argparse.Namespace) -> None:
    """Run one chapter of the book."""
    from companion.pipeline import execution

    project = Project(Path.cwd(), arguments.preset)
    (chapter,) = [c for c in project.chapters if c.name == arguments.name]
    with _reported(project.build, chapter.name) as progress:
        execution.run(project, chapter, {"preset": project.preset}, progress)


def pages(arguments: argparse.Namespace) -> None:
    """Build the pages from executed chapters."""
    from companion.pipeline import site

    project = Project(Path.cwd(), arguments.preset)
    with _reported(project.build, PAGES) as progress:
        progress.begin([PAGES])
        progress.cell(0)
        site.build(project)
        progress.cell_done()
        progress.end()


def chapter(arguments: argparse.Namespace) -> None:
    """Run one chapter with the reader's own parameters."""
    from companion.pipeline import execution

    given = dict(_assignment(text) for text in arguments.parameters)
    if arguments.typed:
        given |= _typed(os.environ)
    project = Project(Path.cwd(), given.get("preset", arguments.preset))
    source = project.source(arguments.name)
    parameters = execution.parse_parameters(source, {"preset": project.preset} | given)
    reruns = project.root / BUILD / "reruns"
    run = project.chapter(arguments.name, parameters, reruns)
    lock, job = reruns / f".{run.folder.name}.lock", f"The chapter {run.name} with these parameters"
    _run_once(project, run, parameters, lock, job)
    print(f"{run.name} with {', '.join(f'{name}={value!r}' for name, value in parameters.items())}:")
    print(run.notebook)


def claim(arguments: argparse.Namespace) -> None:
    """Run the one chapter that judges a claim, if it has not run, and show what it found."""
    from companion import records
    from companion.formats import CHECK_TYPE
    from companion.pipeline import claims, kept

    project = Project(Path.cwd(), arguments.preset)
    name = claims.chapter_of(project, arguments.id)
    (run,) = [c for c in project.chapters if c.name == name]
    _run_once(project, run, {"preset": project.preset}, project.build / ".lock", "A build of this book")
    for record in kept.left_behind(run.notebook, CHECK_TYPE):
        if record["id"] == arguments.id:
            print(f"{records.MARKS[records.state(record)]} {record['quantity']}")
            print(*(f"    {title}: {said}" for title, said in records.details(record)), sep="\n")
    print(run.notebook)


def seeds(arguments: argparse.Namespace) -> None:
    """Run chapters with several seeds, and keep a ledger of what held."""
    from companion.pipeline import seeds as book

    project = Project(Path.cwd(), arguments.preset)
    if arguments.seeds < 1:
        raise BuildError(f"SEEDS must be 1 or more; got {arguments.seeds}")
    reruns = project.root / BUILD / "reruns"
    for name in [arguments.name] if arguments.name else project.names:
        notebooks = []
        for seed in range(arguments.seeds):
            parameters = {"preset": project.preset, "seed": seed}
            run = project.chapter(name, parameters, reruns)
            _run_once(project, run, parameters, reruns / f".{run.folder.name}.lock", f"{name}, seed {seed}")
            notebooks.append(run.notebook)
        found = book.keep(project, name, notebooks)
        for id, counted in found["claims"].items():
            print(f"{name} {id}: {', '.join(f'{verdict} {n}' for verdict, n in counted.items())}")
    print(book.summary({project.preset: book.read(project)}))
    print(book.path(project))


def diff(arguments: argparse.Namespace) -> None:
    """Hold two builds against each other: numbers in standard errors, verdicts, figures' arrays."""
    from companion.pipeline import difference

    folder = Path.cwd() / BUILD / "difference"
    with difference.opened(arguments.a, "A") as a, difference.opened(arguments.b, "B") as b:
        found = difference.compare(a, b)
        drawn = difference.overdraw(a, b, found, folder)
        page = difference.write(found, (a.called, b.called), folder, drawn)
    print(page.with_suffix(".md").read_text(encoding="utf-8"))
    print(page)


def report(arguments: argparse.Namespace) -> None:
    """What a reviewer sends: machine, versions, times, and differences to the record, ready to paste."""
    from companion.pipeline import reports

    project = Project(Path.cwd(), arguments.preset)
    if arguments.entered:
        print(reports.enter(project, Path(arguments.entered)))
        return
    path = reports.write(project)
    print(path.read_text(encoding="utf-8"))
    print(path)


def accept_verdicts(arguments: argparse.Namespace) -> None:
    """Put the verdicts and numbers of the executed chapters on record."""
    from companion.pipeline import accepted

    project = Project(Path.cwd(), arguments.preset)
    for chapter in project.chapters:
        if not chapter.finished:
            print(f"{chapter.name} has not run from the present sources at this preset; its record stays.")
    print(f"Written to {accepted.accept(project)}; look at the change before committing it.")


def redraw(arguments: argparse.Namespace) -> None:
    """Draw the kept figures of the preset paper again from their arrays, where they look otherwise now."""
    from companion.pipeline import redrawn

    print(
        *redrawn.redraw(Project(Path.cwd(), "paper")) or ["All kept figures are what is drawn now."], sep="\n"
    )


def serve(arguments: argparse.Namespace) -> None:
    """Show the built pages on this machine until interrupted."""
    project = Project(Path.cwd(), arguments.preset)
    if not (project.html / "index.html").is_file():
        raise BuildError(f"no pages built yet; run make book PRESET={project.preset} first")
    if not 0 <= arguments.port < 2**16:
        raise BuildError(f"PORT must be 0 … {2**16 - 1}; got {arguments.port}")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(project.html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        print(f"Serving at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()


def pdf(arguments: argparse.Namespace) -> None:
    """Print the built pages into one PDF."""
    from companion.pipeline import pdf as printer

    print(printer.build(Project(Path.cwd(), arguments.preset)))


def launch_tree(arguments: argparse.Namespace) -> None:
    """Write the tree that Binder and Colab open; none where the repository has no address."""
    from companion.pipeline import site

    project = Project(Path.cwd(), arguments.preset)
    if project.repository is None:
        print("Nothing to launch from: no address in _config.yml, CI's environment or the git remote.")
        return
    site.write_launch_tree(project, arguments.target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m companion.pipeline", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(function: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        sub = commands.add_parser(function.__name__.replace("_", "-"), help=function.__doc__)
        sub.add_argument("--preset", default="quick")
        sub.set_defaults(command=function)
        return sub

    command(build)
    command(plan)
    command(pages)
    command(accept_verdicts)
    command(redraw)
    command(execute).add_argument("name")
    command(pdf)
    command(serve).add_argument("--port", type=int, default=8000)
    command(fetch_results).add_argument("shared", nargs="?", default="")
    command(launch_tree).add_argument("target", type=Path)
    command(claim).add_argument("id")
    command(report).add_argument("entered", nargs="?", default="")
    two = command(diff)
    two.add_argument("a")
    two.add_argument("b")
    several = command(seeds)
    several.add_argument("--name", default="")
    several.add_argument("--seeds", type=int, default=8)
    rerun = command(chapter)
    rerun.add_argument("name")
    rerun.add_argument("parameters", nargs="*", metavar="name=value")
    rerun.add_argument("--typed", action="store_true", help="take parameters typed after make, too")
    return parser


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BuildError(f"a parameter is given as name=value; got {text!r}")
    return name, value


def _typed(environment: Mapping[str, str]) -> dict[str, str]:
    """Parameters typed after `make`, which hands them on in MAKEFLAGS, escaped, and through no shell.

    Settings of the Makefile itself are none; it names them in OWN.
    """
    own = environment["OWN"].split()
    words = re.findall(r"(?:\\.|\S)+", environment.get("MAKEFLAGS", ""))
    pairs = [word.partition("=") for word in words if re.match(r"[A-Za-z_]\w*=", word)]
    given = {name: re.sub(r"\\(.)", r"\1", value).replace("$$", "$") for name, _, value in pairs}
    seed = {"seed": environment["SEED"]} if environment.get("SEED") else {}
    return seed | {name: value for name, value in given.items() if name not in own}


def _message(error: Exception) -> str:
    """What the reader can do about it."""
    if not isinstance(error, OSError):
        return str(error)
    advice = {
        errno.ENOSPC: "The disk is full. Nothing that was finished is lost; make room and run it again.",
        errno.EROFS: "This folder cannot be written to; use a copy of the repository that can.",
        errno.EACCES: "This may not be written or read by you; use a copy of the repository of your own.",
        errno.EADDRINUSE: "The port is in use; choose another: make serve PORT=8001",
    }
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}. " + advice.get(
        error.errno or 0, "Run the same command again once that is mended."
    )


@contextmanager
def _reported(build: Path, name: str) -> Iterator[Progress]:
    """Progress of a job whose failure is left where the build command finds it."""
    _end_with_the_build()
    progress = Progress(build, name)
    try:
        yield progress
    except (BuildError, OSError) as error:
        with suppress(OSError):
            progress.fail(f"{name}: {_message(error)}" if isinstance(error, OSError) else str(error))
        raise


def _run_once(project: Project, run: Chapter, parameters: dict[str, Any], lock: Path, job: str) -> None:
    """Run a chapter that has not run yet, by itself; its progress is shown, and left beside the lock."""
    from companion.pipeline import execution

    with _only_one(lock, job):
        if not run.finished:
            with Display(lock.parent, [run.name], 1), _reported(lock.parent, run.name) as progress:
                execution.run(project, run, parameters, progress)


def _end_with_the_build() -> None:
    """End this job when the build that started it is gone, killed perhaps: another may take its place."""
    builder = int(os.environ.get(_BUILDER, 0))

    def watch() -> None:
        with suppress(ProcessLookupError):
            while True:
                os.kill(builder, 0)
                time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does: takes the kernel down and cleans up
        time.sleep(20)
        os._exit(1)

    if builder:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _scratch(build: Path) -> Iterator[str]:
    """A folder for temporary files of a build's programs, on record for `_sweep`."""
    with tempfile.TemporaryDirectory(prefix="book-", ignore_cleanup_errors=True) as folder:
        (build / _SCRATCH).write_text(folder, encoding="utf-8")
        yield folder
    (build / _SCRATCH).unlink(missing_ok=True)


def _sweep(build: Path) -> None:
    """Delete the temporary files of a build that was killed."""
    known = build / _SCRATCH
    with suppress(OSError):
        left = Path(known.read_text(encoding="utf-8"))
        if left.parent == Path(tempfile.gettempdir()) and left.name.startswith("book-"):
            shutil.rmtree(left, ignore_errors=True)
        known.unlink()


@contextmanager
def _only_one(path: Path, job: str) -> Iterator[None]:
    """Wait until nobody else holds the lock file; a killed job leaves no lock behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{job} is running here; waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
