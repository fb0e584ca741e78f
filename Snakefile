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

rule long_cifar10:
    output:
        "data/results/cifar10-P{num_inputs}.npz",
    wildcard_constraints:
        num_inputs=r"\d+",
    resources:
        mem_mb=16000,
        runtime=720,
    shell:
        sys.executable + " -m images.large_run --num_inputs {wildcards.num_inputs} "
        "--checkpoint _build/cifar10-P{wildcards.num_inputs}.checkpoint --output {output}"


rule long_cifar10_full:
    output:
        "data/results/cifar10-full-jpeg.npz",
    resources:
        mem_mb=16000,
        runtime=720,
    shell:
        sys.executable + " -m images.large_run full --jpeg "
        "--checkpoint _build/cifar10-full-jpeg.checkpoint --output {output}"


rule long_three_classes:
    output:
        "data/results/cifar10-three-classes.npz",
    resources:
        runtime=60,
    shell:
        sys.executable + " -m images.stored cifar --output {output}"


rule long_reuse:
    output:
        "data/results/reuse-digits.npz",
    resources:
        runtime=60,
    shell:
        sys.executable + " -m images.stored reuse --num_draws 4 --output {output}"


rule long_fashion_mnist:
    output:
        "data/results/fashion-mnist.npz",
    resources:
        runtime=60,
    shell:
        sys.executable + " -m images.stored fashion --output {output}"


rule long_redundant_atlas:
    output:
        "data/results/redundant-atlas.npz",
    resources:
        runtime=60,
    shell:
        sys.executable + " -m phases.atlas --output {output}"


rule long_adaptive_kernels:
    output:
        "data/results/cifar10-adaptive-{part}.npz",
    wildcard_constraints:
        part="scatter|paths",
    resources:
        runtime=60,
    shell:
        sys.executable + " -m adaptive_kernels.pairs {wildcards.part} --output {output}"


rule long_adaptive_images:
    output:
        "data/results/cifar10-adaptive-curves.npz",
    resources:
        runtime=120,
    shell:
        sys.executable + " -m adaptive_images.pairs --output {output}"
