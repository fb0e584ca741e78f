"""The book's JavaScript by ESLint, at the versions and rules beside this file; its kernel by wabt."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bare_page import REPOSITORY, STATIC, missing

pytestmark = pytest.mark.xdist_group("eslint")

HERE = Path(__file__).parent
SCRIPTS = ("book/_static/*.js", "lib/companion/*.js", "tests/explorer/*.js", "tests/laboratory/*.js")


@pytest.fixture(scope="module")
def modules():
    """Folder of ESLint and wabt, installed as package-lock.json has them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing(f"no {'Node' if node is None else 'npm'} found")
    locked, installed = HERE / "package-lock.json", HERE / "node_modules" / "installed-lock.json"
    if not installed.is_file() or installed.read_bytes() != locked.read_bytes():
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        if done.returncode:
            missing(f"npm could not install them ({done.stderr.strip().splitlines()[-1:]})")
        shutil.copy(locked, installed)
    return HERE / "node_modules"


@pytest.fixture
def eslint(modules):
    script, rules = modules / "eslint" / "bin" / "eslint.js", HERE / "eslint.config.mjs"
    return [shutil.which("node"), str(script), "--max-warnings=0", "--config", str(rules)]


@pytest.mark.slow
def test_scripts_are_clean(eslint):
    done = subprocess.run([*eslint, *SCRIPTS], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["book/_static", "lib/companion", "tests/explorer", "tests/laboratory"])
def test_a_fault_is_found(eslint, folder):
    """The rules hold in every folder of scripts."""
    code = "var a = 1;\nif (a == b) throw new Error(b);\n"
    command = [*eslint, "--stdin", "--stdin-filename", f"{folder}/some.js"]
    done = subprocess.run(command, cwd=REPOSITORY, input=code, capture_output=True, text=True)
    assert done.returncode == 1
    assert all(rule in done.stdout for rule in ("no-var", "eqeqeq", "no-undef"))


ASSEMBLE = """require("wabt")().then(({ parseWat }) => {
  const made = parseWat("", require("fs").readFileSync(process.argv[1], "utf8"), { simd: true });
  made.validate();
  console.log(Buffer.from(made.toBinary({}).buffer).toString("base64"));
});"""


@pytest.mark.slow
def test_the_laboratorys_kernel_is_its_source_assembled(modules):
    command = [shutil.which("node"), "-e", ASSEMBLE, str(STATIC / "laboratory.wat")]
    made = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    script = (STATIC / "laboratory.js").read_text(encoding="utf-8")
    (kernel,) = re.findall(r"const KERNEL =((?:\s*\"[^\"]+\"\s*\+?)+);", script)
    assert "".join(re.findall(r"\"([^\"]+)\"", kernel)) == made, f"KERNEL is to be {made}"
