"""The book's DAG: each chapter is executed, then the pages are built from all of them.

`make book` runs it; `snakemake --profile profiles/slurm` runs the same on a cluster. Every output's
name holds a digest of all it is made from (lib/companion/pipeline/project.py), so an output that exists is
up to date, and times of files mean nothing: hence `ancient` around the inputs.
"""

import sys
from pathlib import Path

from companion.pipeline.project import Project

project = Project(Path.cwd(), config.get("preset", "quick"))
command = f"{sys.executable} -m companion.pipeline"

# Chapters that take longest begin first, so that none runs on alone at the end: the others take less, in any order
LONGEST = (
    "condensation",
    "structure",
    "universality",
    "dynamics",
    "phases",
    "sparse",
    "adaptive_kernels",
    "lazy_and_rich",
    "generalization",
    "redundant",
    "analog",
    "images",
)


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
        priority: LONGEST[::-1].index(chapter.name) + 1 if chapter.name in LONGEST else 0
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


# Long jobs: asked for by name (`snakemake data/results/cifar10-P2000.npz`), never by `make book`. They need images
# that do not come with the book; each goes on from its own checkpoint if it was killed.
LONG = {  # rule: file, program with its arguments, what it needs
    "cifar10": (
        r"cifar10-P{num_inputs,\d+}",
        "images.large_run --num_inputs {num_inputs} --checkpoint _build/cifar10-P{num_inputs}.checkpoint",
        {"mem_mb": 16000, "runtime": 720},
    ),
    "cifar10_full": (
        "cifar10-full-jpeg",
        "images.large_run full --jpeg --checkpoint _build/cifar10-full-jpeg.checkpoint",
        {"mem_mb": 16000, "runtime": 720},
    ),
    "three_classes": ("cifar10-three-classes", "images.stored cifar", {"runtime": 60}),
    "reuse": ("reuse-digits", "images.stored reuse --num_draws 4", {"runtime": 60}),
    "fashion_mnist": ("fashion-mnist", "images.stored fashion", {"runtime": 60}),
    "redundant_atlas": ("redundant-atlas", "phases.atlas", {"runtime": 60}),
    "adaptive_kernels": (
        "cifar10-adaptive-{part,scatter|paths}", "adaptive_kernels.pairs {part}", {"runtime": 60}
    ),
    "adaptive_images": ("cifar10-adaptive-curves", "adaptive_images.pairs", {"runtime": 120}),
}

for name, (file, program, needs) in LONG.items():

    rule:
        name:
            f"long_{name}"
        output:
            f"data/results/{file}.npz",
        params:
            program=program,
        resources:
            **needs,
        shell:
            sys.executable + " -m {params.program} --output {output}"
