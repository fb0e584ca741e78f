"""The profile for a cluster, on a real one of a single node: submit, lose the scheduler, go on, fail."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import small_book

PATHS = f"{os.environ['PATH']}:/usr/sbin"
MISSING = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name, path=PATHS)]
if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
    MISSING.append("snakemake-executor-plugin-slurm (profiles/slurm/requirements.txt)")
ROOT = [] if os.geteuid() == 0 else ["sudo", "-n"]
if ROOT and (
    shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode
):
    MISSING.append("the right to start daemons")
pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.slow,
    pytest.mark.xdist_group("pipeline"),
    pytest.mark.skipif(bool(MISSING), reason=f"no cluster was tried: {', '.join(MISSING)} missing"),
]


@pytest.fixture
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    folder.parent.chmod(0o755)
    script = [*ROOT, str(small_book.REPOSITORY / "profiles/slurm/cluster")]
    with (folder / "start.txt").open("w") as said:  # a file: the daemons keep what they inherit open
        begun = subprocess.run([*script, "start", str(folder)], stdout=said, stderr=said, timeout=120)
    if begun.returncode:
        pytest.skip(f"no cluster was tried, none came up: {(folder / 'start.txt').read_text()[-500:]}")
    yield folder
    subprocess.run([*script, "stop", str(folder)], check=True)


def start(book, *targets):
    """Snakemake as a reader of the profile starts it, asking more often how jobs are."""
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/slurm", "--latency-wait", "5"]
    command += ["--slurm-init-seconds-before-status-checks", "3", "--", *targets]
    return subprocess.Popen(
        command, cwd=book, env=small_book.environment(), start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_book_is_built_on_a_cluster(cluster, tmp_path):
    book, hold, kernel = small_book.write(tmp_path / "book"), tmp_path / "hold", tmp_path / "kernel"
    shutil.copytree(small_book.REPOSITORY / "profiles/slurm", book / "profiles/slurm")
    hold.touch()
    waits = f"while os.path.exists({str(hold)!r}): __import__('time').sleep(0.1)\n"
    edit(book / "notebooks/loud.py", "print(", f"Path({str(kernel)!r}).touch()\n{waits}print(")

    first = start(book)
    deadline = time.monotonic() + 600
    while not kernel.exists():
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < deadline, "no job has started"
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)  # the scheduler; its jobs are the cluster's
    first.communicate()
    hold.unlink()

    again = start(book)
    text = again.communicate(timeout=900)[0]
    assert again.returncode == 0, text
    assert "LockException" not in text
    finished = sorted(path.stem for path in book.glob("_build/quick/chapters/*/*.ipynb"))
    assert finished == ["even", "loud"]
    assert (book / "_build/quick/html/notebooks/loud.html").is_file()

    edit(book / "notebooks/even.py", "object()", "raise ArithmeticError('seven is odd')")
    edit(book / "notebooks/loud.py", "quiet", "silent")
    failed = start(book, "chapter_even", "chapter_loud")
    text = failed.communicate(timeout=900)[0]
    assert failed.returncode != 0
    assert "Error in rule chapter_even" in text
    logs = "".join(path.read_text() for path in book.glob(".snakemake/slurm_logs/rule_chapter_even/*.log"))
    assert "ArithmeticError: seven is odd" in logs
    assert len(list(book.glob("_build/quick/chapters/loud-*/loud.ipynb"))) == 2  # not stopped by the other
