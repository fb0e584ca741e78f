"""A cluster of one node: the profile (submit, lose the scheduler, go on, fail), and one of two processes."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest
import small_book
from faults.builds import edit
from faults.files import SETTINGS

PATHS = f"{os.environ['PATH']}:/usr/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
MISSING = [name for name in PROGRAMS if not shutil.which(name, path=PATHS)]
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


@pytest.fixture(scope="module")
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


@pytest.mark.skipif(
    importlib.util.find_spec("snakemake_executor_plugin_slurm") is None,
    reason="no book was tried: snakemake-executor-plugin-slurm (profiles/slurm/requirements.txt) missing",
)
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
    finished = sorted(path.stem for path in book.glob("_build/quick/chapters/[!.]*/*.ipynb"))
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


#: The long run's command, on the bundled digits in place of CIFAR-10; each process says which it was.
LONG_RUN = """
import jax
from coding_schemes import tasks
from images import large_run

large_run.make_task = lambda settings: tasks.mnist(settings.num_inputs, settings.num_test)
large_run.main()
print("process", jax.process_index(), "of", jax.process_count(), "with", jax.local_device_count())
"""


def long_run(output, *options, before=(), devices):
    """Which processes took part in a long run, and what it stored."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    settings = [f"--{name}={value}" for name, value in asdict(SETTINGS).items() if value is not False]
    path = os.pathsep.join(str(small_book.REPOSITORY / folder) for folder in ("lib", "notebooks"))
    done = subprocess.run(
        [*before, sys.executable, "-c", LONG_RUN, *settings, "--output", str(output), *options],
        env=os.environ | {"PYTHONPATH": path, "XLA_FLAGS": flags},
        timeout=300, text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("process"))
    with np.load(output) as stored:
        return said, dict(stored)


def test_srun_makes_one_long_run_of_two_processes(cluster, tmp_path):
    """Nothing follows `--distributed`: the processes find each other by what SLURM tells each."""
    who, alone = long_run(tmp_path / "alone.npz", devices=1)
    assert who == ["process 0 of 1 with 1"]
    srun = ("srun", "--ntasks=2", "--overcommit", "--time=4")  # minutes, after which the cluster ends it
    who, found = long_run(tmp_path / "both.npz", "--distributed", before=srun, devices=2)
    assert who == ["process 0 of 2 with 2", "process 1 of 2 with 2"]
    assert found.keys() == alone.keys()
    for name in found.keys() - {"manifest"}:
        rounding = 1e-3 if found[name].dtype == np.float16 else 1e-5
        np.testing.assert_allclose(found[name], alone[name], rtol=rounding, atol=rounding, err_msg=name)
