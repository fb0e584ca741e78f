"""The commands of long jobs, `python -m experiments.…`: what they leave, and how it was made."""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from coding_schemes import paths


def run(parser: argparse.ArgumentParser, job: Callable[..., tuple[Mapping, Mapping]]) -> None:
    """Parse a command line, run a job on what it says, in double precision, and leave its arrays.

    Args:
        parser: of the job's options; `--output` is added.
        job: takes the options by name; gives arrays by name, and those of its settings that are no options.
    """
    parser.add_argument("--output", type=Path, required=True, help="npz file for the arrays")
    manifest = vars(parser.parse_args())
    output, start = manifest.pop("output"), time.perf_counter()
    with jax.enable_x64(True):
        results, constants = job(**manifest)
    manifest |= {**constants, **paths.provenance(time.perf_counter() - start)}
    save(output, {"manifest": json.dumps(manifest), **results})


def save(output: Path, arrays: Mapping[str, Any]) -> None:
    """Leave arrays in an npz file, making its folder."""
    output.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(output, **arrays)
