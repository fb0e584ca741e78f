"""The book's DAG: each chapter is executed, then the pages are built from all of them.

`make book` runs it; `snakemake --profile profiles/slurm` runs the same on a cluster. Every output's
name holds a digest of all it is made from (lib/book_pipeline/project.py), so an output that exists is
up to date, and times of files mean nothing: hence `ancient` around the inputs.
"""

import sys
from pathlib import Path

from book_pipeline.project import Project

project = Project(Path.cwd(), config.get("preset", "quick"))
command = f"{sys.executable} -m book_pipeline"


def relative(path):
    return str(path.relative_to(project.root))


rule book:
    input:
        relative(project.pages_stamp),


for chapter in project.chapters:

    rule:
        name:
            f"chapter_{chapter.name}"
        input:
            [ancient(relative(path)) for path in chapter.dependencies],
        output:
            relative(chapter.notebook),
        params:
            name=chapter.name,
            preset=project.preset,
        threads: 1
        resources:
            mem_mb=4000,
            runtime=240,
        shell:
            command + " execute {params.name} --preset {params.preset}"


rule pages:
    input:
        [ancient(relative(chapter.notebook)) for chapter in project.chapters],
    output:
        relative(project.pages_stamp),
    params:
        preset=project.preset,
    resources:
        mem_mb=2000,
        runtime=30,
    shell:
        command + " pages --preset {params.preset}"
