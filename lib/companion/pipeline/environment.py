"""Write ``environment.yml``, the lock's pins for conda users and Binder."""

import re
from pathlib import Path

PYTHON = "3.13"  # every package of the lock has a wheel for it

_HEAD = f"""\
# The pins of requirements.lock for conda users and Binder; written by `make lock`, held by a test.
#     conda env create -f environment.yml && conda activate coding-schemes
name: coding-schemes
channels:
  - conda-forge
dependencies:
  - python={PYTHON}
  - pip
  - pip:
"""


def pins(lock: str) -> list[str]:
    """Requirements of a lock, hashes left out, markers kept."""
    return [pin.strip() for pin in re.findall(r"^[A-Za-z0-9][^\\\n]*==[^\\\n]*", lock, re.MULTILINE)]


def environment(lock: str) -> str:
    """Content of ``environment.yml`` for a lock."""
    quoted = [f'"{pin}"' if ";" in pin else pin for pin in pins(lock)]
    return _HEAD + "".join(f"    - {pin}\n" for pin in quoted) + "    - -e .\n"


if __name__ == "__main__":
    Path("environment.yml").write_text(environment(Path("requirements.lock").read_text()))
