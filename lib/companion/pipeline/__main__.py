"""Commands of the pipeline; the Makefile and the Snakefile call them."""

import argparse
import fcntl
import functools
import http.server
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from companion.pipeline.progress import Display, Progress, duration
from companion.pipeline.project import BUILD, BuildError, Project

PAGES = "pages"  # name of the job that builds the pages


def main() -> int:
    """Run one command; a failure that the reader can act on is shown without a traceback."""
    arguments = _parser().parse_args()
    try:
        arguments.command(arguments)
    except BuildError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command to go on", file=sys.stderr)
        return 130
    return 0


def build(arguments: argparse.Namespace) -> None:
    """Bring the whole book up to date: run what changed, build the pages."""
    project = Project(Path.cwd(), arguments.preset)
    page = project.html / "index.html"
    if project.pages_stamp.exists():
        print(f"Nothing has changed.\n{page}")
        return
    started = time.time()
    with _only_one(project.build / ".lock", "Another build of this book"):
        waiting = [chapter.name for chapter in project.chapters if not chapter.notebook.exists()]
        print(f"Chapters to run: {', '.join(waiting) or 'none'}; then the pages.", flush=True)
        cores = os.cpu_count() or 1
        log = project.build / "snakemake.log"
        command = [sys.executable, "-m", "snakemake", "--profile", "profiles/default", "--cores", str(cores)]
        command += ["--nolock", "--config", f"preset={project.preset}"]  # the lock is taken above
        with log.open("w") as output, Display(project.build, [*waiting, PAGES], cores) as display:
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT)
        if done.returncode:
            if Project(project.root, project.preset).pages_digest != project.pages_digest:
                raise BuildError("Sources were edited while the book was being built; run it again.")
            reasons = display.failures() or [log.read_text()[-3000:]]
            raise BuildError("The build has failed.\n\n" + "\n\n".join(reasons))
    print(f"The book is built, in {duration(time.time() - started)}. Open\n{page}")


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
    project = Project(Path.cwd(), given.get("preset", arguments.preset))
    source = project.source(arguments.name)
    parameters = execution.parse_parameters(source, {"preset": project.preset} | given)
    reruns = project.root / BUILD / "reruns"
    run = project.chapter(arguments.name, parameters, reruns)
    with _only_one(reruns / f".{run.folder.name}.lock", f"The chapter {run.name} with these parameters"):
        if not run.notebook.exists():
            with Display(reruns, [run.name], 1), _reported(reruns, run.name) as progress:
                execution.run(project, run, parameters, progress)
    print(f"{run.name} with {', '.join(f'{name}={value!r}' for name, value in parameters.items())}:")
    print(run.notebook)


def accept_verdicts(arguments: argparse.Namespace) -> None:
    """Put the verdicts of the executed chapters on record."""
    from companion.pipeline import scoreboard

    project = Project(Path.cwd(), arguments.preset)
    for chapter in project.chapters:
        if not chapter.notebook.exists():
            print(f"{chapter.name} has not run from the present sources at this preset; its verdicts stay.")
    print(f"Written to {scoreboard.accept_verdicts(project)}; look at the change before committing it.")


def serve(arguments: argparse.Namespace) -> None:
    """Show the built pages on this machine until interrupted."""
    project = Project(Path.cwd(), arguments.preset)
    if not (project.html / "index.html").is_file():
        raise BuildError(f"no pages built yet; run make book PRESET={project.preset} first")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(project.html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        print(f"Serving at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()


def launch_tree(arguments: argparse.Namespace) -> None:
    """Write the tree that Binder and Colab open."""
    from companion.pipeline import site

    site.write_launch_tree(Project(Path.cwd(), arguments.preset), arguments.target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m companion.pipeline", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(function: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        sub = commands.add_parser(function.__name__.replace("_", "-"), help=function.__doc__)
        sub.add_argument("--preset", default="quick")
        sub.set_defaults(command=function)
        return sub

    command(build)
    command(pages)
    command(accept_verdicts)
    command(execute).add_argument("name")
    command(serve).add_argument("--port", type=int, default=8000)
    command(launch_tree).add_argument("target", type=Path)
    rerun = command(chapter)
    rerun.add_argument("name")
    rerun.add_argument("parameters", nargs="*", metavar="name=value")
    return parser


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BuildError(f"a parameter is given as name=value; got {text!r}")
    return name, value


@contextmanager
def _reported(build: Path, name: str) -> Iterator[Progress]:
    """Progress of a job whose failure is left where the build command finds it."""
    progress = Progress(build, name)
    try:
        yield progress
    except BuildError as error:
        progress.fail(str(error))
        raise


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
