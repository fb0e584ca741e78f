"""What runs elsewhere under our name: known actions only, and rights only where nothing of the book runs."""

import re

import pytest
import yaml
from small_book import REPOSITORY

WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text()) for path in REPOSITORY.glob(".github/workflows/*.yml")
}
JOBS = {(file, name): job for file, flow in WORKFLOWS.items() for name, job in flow["jobs"].items()}


def test_workflows_are_found():
    assert set(WORKFLOWS) == {"publish", "test", "weekly"}


@pytest.mark.parametrize("job", JOBS.values(), ids=map("/".join, JOBS))
def test_actions_of_others_are_pinned_by_commit(job):
    used = [step["uses"] for step in [job, *job.get("steps", [])] if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"\./.*|[\w-]+/[\w-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize(("file", "name"), JOBS)
def test_job_that_may_write_runs_nothing_of_the_book(file, name):
    job = JOBS[file, name]
    rights = WORKFLOWS[file]["permissions"] | job.get("permissions", {})
    commands = "".join(step.get("run", "") for step in job.get("steps", []))
    checked_out = "checkout" in str(job.get("steps"))
    assert "write" not in rights.values() or not (checked_out or re.search(r"make|python", commands))


def test_newest_versions_are_tried_on_the_newest_python_and_block_nothing():
    job = JOBS["weekly", "newest"]
    steps = job["steps"]
    assert job["continue-on-error"] is True
    assert "make lock UPGRADE=1 NEWEST=1" in str(steps)
    assert [s["with"]["python-version"] for s in steps if "setup-python" in s.get("uses", "")] == ["3.x"]
    told = steps[-1]["env"]["OUTCOMES"]
    assert all(f"steps.{step['id']}.outcome" in told for step in steps if "id" in step)


def test_pull_requests_and_newer_versions_are_held_against_what_was_before():
    for job in (JOBS["test", "test"], JOBS["weekly", "newest"]):
        (step,) = [step for step in job["steps"] if "make diff" in step.get("run", "")]
        (before,) = re.findall(r"A=(\S+) B=_build/quick", step["run"])
        fetched = [
            s for s in job["steps"] if s.get("with", {}).get("path") == before or f"--dir {before}" in str(s)
        ]
        assert len(fetched) == 1
        assert "GITHUB_STEP_SUMMARY" in step["run"]
    uploads = [step["with"] for step in JOBS["test", "test"]["steps"] if "upload" in step.get("uses", "")]
    assert uploads == [{"name": "book", "path": "_build/quick/html"}]


def test_pages_with_a_verdict_that_turned_are_kept_and_held_against_the_last_whole_build():
    """The build fails then, and leaves its pages; what runs only after success would show nothing."""
    steps = JOBS["test", "test"]["steps"]
    (built,) = [place for place, step in enumerate(steps) if step.get("run") == "bash .ci/run"]
    assert len(steps[built + 1 :]) == 2
    for step in steps[built + 1 :]:
        assert "!cancelled() &&" in step["if"]
        assert "hashFiles('_build/quick/html/index.html') != ''" in step["if"]
    (listed,) = [line for line in steps[-1]["run"].splitlines() if "gh run list" in line]
    assert "--status success" in listed


@pytest.mark.parametrize("file", ["test", "weekly"])
def test_a_command_that_fails_before_a_pipe_fails_its_step(file):
    assert WORKFLOWS[file]["defaults"] == {
        "run": {"shell": "bash"}
    }  # which sets pipefail; none given does not


def test_each_campaign_that_make_test_tries_in_part_runs_whole_every_week():
    job = JOBS["weekly", "campaigns"]
    assert set(job["strategy"]["matrix"]["campaign"]) == {"mutants", "faults", "soak"}
    assert job["steps"][-1]["run"] == "make ${{ matrix.campaign }}"


def test_a_called_workflow_asks_for_no_right_that_its_caller_lacks():
    for (file, _), job in JOBS.items():
        if called := re.fullmatch(r"\./\.github/workflows/(\w+)\.yml", job.get("uses", "")):
            assert WORKFLOWS[called[1]]["permissions"].items() <= WORKFLOWS[file]["permissions"].items()


def test_the_exit_is_tried_on_the_current_sphinx_without_jupyter_book():
    steps = {step["id"]: step["run"] for step in JOBS["weekly", "newest"]["steps"] if "id" in step}
    assert re.search(
        r"uninstall .*jupyter-book\n.*--upgrade sphinx .*\nmake book .*BUILDER=sphinx", steps["sphinx"]
    )
    assert "rocrate-validator" in steps["crate"]


@pytest.mark.parametrize("job", JOBS.values(), ids=map("/".join, JOBS))
def test_actions_run_on_a_node_that_is_still_supported(job):
    """Oldest majors that run on Node 24; each is pinned by commit, with its version behind."""
    oldest = {"checkout": 5, "setup-python": 6, "cache": 5, "upload-artifact": 6, "download-artifact": 7}
    oldest |= {"upload-pages-artifact": 5, "deploy-pages": 5}
    text = "".join(path.read_text() for path in REPOSITORY.glob(".github/workflows/*.yml"))
    for step in job.get("steps", []):
        if name := step.get("uses"):
            (major,) = set(re.findall(rf"{name}  # v(\d+)\.", text))
            assert int(major) >= oldest[name.split("/")[1].split("@")[0]], name


def test_newer_actions_are_proposed():
    dependabot = yaml.safe_load((REPOSITORY / ".github/dependabot.yml").read_text())
    assert [update["package-ecosystem"] for update in dependabot["updates"]] == ["github-actions"]


def test_a_failure_of_the_launch_tree_fails_the_job():
    (step,) = [step for step in JOBS["publish", "build"]["steps"] if step.get("id") == "launch"]
    (line,) = [line for line in step["run"].splitlines() if "launch-tree" in line]
    assert not re.search(r"\bif\b|\|\||continue-on-error", line + str(step.get("continue-on-error", "")))
