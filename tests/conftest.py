"""Settings of every test: double precision, strict ranks and keys, one thread per worker."""

import collections
import os

from coding_schemes.compiler import as_flags, fusion_emitters

# One thread per worker, as there are as many workers as cores, and a compiler that is fast at small sizes and
# leaves programs that run for moments as they come; before jax starts its thread pool
FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0"
FLAGS += as_flags(fusion_emitters(False))
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.pop("GITHUB_REPOSITORY", None)  # in CI: the small books are nobody's

import jax
import pytest
import small_book

pytest_plugins = ["bare_page", "kept_numbers"]

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True)
def _third_party_allowances(request):
    """Relax one of the strict settings for a test that is marked so."""
    marked = {mark.name for mark in request.node.iter_markers()}
    with (
        jax.numpy_rank_promotion("allow" if "rank_promotion" in marked else "raise"),
        jax.debug_key_reuse("key_reuse" not in marked),
    ):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One worker for a group or file, so that fixtures and programs are made once; the longest first."""
    group, weight = {}, collections.Counter()
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
        (group[item],) = item.get_closest_marker("xdist_group").args
        # a slow one takes as long as some twenty others
        slow = any(item.get_closest_marker(name) for name in ("slow", "pipeline", "pages"))
        weight[group[item]] += 20 if slow else 1
    items.sort(key=lambda item: (-weight[group[item]], group[item]))


def pytest_addoption(parser):
    parser.addoption("--book", default=None, help="folder of built pages to test instead of a small book")
    told = "take what test_snapshot.py finds as what is right; look at it first (git diff)"
    parser.addoption("--accept-snapshot", action="store_true", help=told)
    told = "keep the numbers that tests compute now (tests/kept); look at them first (git diff)"
    parser.addoption("--keep-numbers", action="store_true", help=told)


@pytest.fixture(scope="session")
def built_book(tmp_path_factory):
    """The small book, built; a test that changes it works on a copy."""
    root = small_book.write(tmp_path_factory.mktemp("book") / "built")
    small_book.pipeline(root, "build")
    return root
