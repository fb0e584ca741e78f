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


def test_newest_versions_are_tried_and_block_nothing():
    assert JOBS["weekly", "newest"]["continue-on-error"] is True
    assert "UPGRADE=1" in str(JOBS["weekly", "newest"]["steps"])
