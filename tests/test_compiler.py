"""A switch of the compiler is set only where the installed JAX has it: it ends the process otherwise."""

import os
import subprocess
import sys

import pytest
from coding_schemes import compiler


@pytest.mark.parametrize(("version", "known"), [("0.10.2", True), ("0.11.0", False), ("0.12.0.1", False)])
def test_the_switch_is_set_where_the_version_has_it(monkeypatch, version, known):
    monkeypatch.setattr(compiler.metadata, "version", lambda _: version)
    assert compiler.fusion_emitters(False) == ({"xla_cpu_use_fusion_emitters": False} if known else {})


def test_the_installed_compiler_takes_the_flags():
    flags = compiler.as_flags(compiler.fusion_emitters(False) | {"xla_cpu_multi_thread_eigen": False})
    code = "import jax; print(jax.jit(lambda x: x + 1)(1))"
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "2", done.stderr
