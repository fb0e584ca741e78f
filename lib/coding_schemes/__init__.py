"""Coding schemes in neural networks: tasks, networks, posteriors, samplers and theory."""

import sys

# xarray, behind ArviZ, looks for a package of this name. In a notebook it would find the chapter
# notebooks/sparse.py and run it, its figures and claims in the midst of another chapter's.
sys.modules.setdefault("sparse", None)  # type: ignore[arg-type]
