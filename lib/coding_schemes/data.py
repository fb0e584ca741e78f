"""Where image files come from: a folder, the bundled subset, or a download, always checked by SHA-256.

Every file is looked for, in this order, in

1. the folder given by the caller (and nowhere else then);
2. the folder named by the environment variable CODING_SCHEMES_DATA;
3. data/ in the book's repository (MNIST digits 0, 1 and 2 among the first 10,000 training images only);
4. the download cache, and then its public address.

A folder holds mnist/, fashion-mnist/ and cifar10/ with the canonical file names. Which images a set consists
of never depends on where they were found.

`read_activations` and `read_inputs` read a reader's own file.
"""

import contextlib
import csv
import functools
import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pooch
from PIL import Image

from coding_schemes import paths, validation

ENVIRONMENT_VARIABLE = "CODING_SCHEMES_DATA"

FASHION_CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

BUNDLED_DIGITS = (0, 1, 2)
MNIST_SUBSET_SIZE = 10_000
CIFAR_SUBSET_POSITIONS = {
    "train": np.r_[0:4000, 10000:11017, 20000:21017, 30000:31017, 40000:41017],
    "test": np.arange(1017),
}

# fmt: off
SHA256 = {
    "mnist-digits-012.npz":
        "5787d3a87a027e932c82eb7e55eec36f7dbb9b34d712b617b4c79eddcadb2a89",
    "mnist/train-images-idx3-ubyte.gz":
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "mnist/train-labels-idx1-ubyte.gz":
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "mnist/t10k-images-idx3-ubyte.gz":
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "mnist/t10k-labels-idx1-ubyte.gz":
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "fashion-mnist/train-images-idx3-ubyte.gz":
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "fashion-mnist/train-labels-idx1-ubyte.gz":
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "fashion-mnist/t10k-images-idx3-ubyte.gz":
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz":
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    "cifar10/cifar-10-binary.tar.gz":
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    "cifar10/cifar10-exact-subset.npz":
        "5481de17483dbc1e9731e45b01aa747618b12f40b6f1509000276364464ce121",
    "cifar10/cifar10-jpeg-streams.npz":
        "106ee636063e09907d3e908bdf4e68ce243b44e46250a1eba277fd5791e38614",
}
"""SHA-256 of every file the library reads, by its place in a data folder."""

CONTENT_SHA256 = {
    "mnist/train-images-idx3-ubyte.gz":
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "mnist/train-labels-idx1-ubyte.gz":
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "mnist/t10k-images-idx3-ubyte.gz":
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "mnist/t10k-labels-idx1-ubyte.gz":
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "fashion-mnist/train-images-idx3-ubyte.gz":
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "fashion-mnist/train-labels-idx1-ubyte.gz":
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "fashion-mnist/t10k-images-idx3-ubyte.gz":
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz":
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
# fmt: on
"""SHA-256 of what is inside the gzipped files, as packages compress the same images anew to other bytes."""

HOSTS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/",),
}
"""Public addresses of the canonical files, tried in turn."""

_NOT_OFFERED = {
    "cifar10/cifar10-exact-subset.npz",
    "cifar10/cifar10-jpeg-streams.npz",
    "mnist-digits-012.npz",
}


class MissingDataError(FileNotFoundError):
    """A data file was found nowhere; the message says how to get it."""


class CorruptDataError(ValueError):
    """A data file's SHA-256, and that of its content, is not the expected one; or a result is damaged."""


def arrays(path: str | Path, description: str, advice: str) -> dict[str, np.ndarray]:
    """All arrays, by name, of an npz file that a run of ours left behind.

    `description` names the array that says in JSON what the file holds; CorruptDataError, with the advice,
    where the file is damaged or of another kind.
    """
    try:
        with np.load(path) as file:
            found = dict(file)
            json.loads(str(found[description]))
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise CorruptDataError(
            f"{path} is damaged or no result file ({type(error).__name__}: {error}); {advice}"
        ) from error
    return found


class Activations(NamedTuple):
    """A layer's responses, as a file has them.

    Attributes:
        activations: φ, shape (N, P): neurons before inputs.
        labels: class of every input, 0 … C − 1, shape (P,).
        readouts: a, shape (N, m), or None.
        class_names: what the file calls the classes, in sorted order.
    """

    activations: np.ndarray
    labels: np.ndarray
    readouts: np.ndarray | None
    class_names: tuple[str, ...]


def read_activations(path: str | Path) -> Activations:
    """A reader's activations and labels, from an .npz or a .csv file, for `coding_schemes.diagnose`.

    An .npz file holds `activations` (N, P), `labels` (P,) and perhaps `readouts` (N, m). A .csv file has one
    line per input and a first line of names: the column `label` and, whatever their names, one column for
    every neuron. Labels may be any whole numbers or words; classes are numbered in sorted order.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is of another kind, something in it is missing, or it holds what is no number.
    """
    return Activations(*_read_labelled(Path(path), "activations", "N", "readouts"))


class Inputs(NamedTuple):
    """Labelled inputs, as a file has them.

    Attributes:
        inputs: X, shape (N0, P): features before inputs.
        labels: class of every input, 0 … C − 1, shape (P,).
        targets: Y, shape (P, m), or None.
        class_names: what the file calls the classes, in sorted order.
    """

    inputs: np.ndarray
    labels: np.ndarray
    targets: np.ndarray | None
    class_names: tuple[str, ...]


def read_inputs(path: str | Path) -> Inputs:
    """A reader's inputs and labels, from an .npz or a .csv file, for `tasks.own`.

    An .npz file holds `inputs` (N0, P), `labels` (P,) and perhaps `targets` (P, m). A .csv file has one line
    per input and a first line of names: the column `label`, and one column for every feature.

    Raises:
        FileNotFoundError, ValueError: as for `read_activations`.
    """
    return Inputs(*_read_labelled(Path(path), "inputs", "N0", "targets"))


def _read_labelled(path: Path, main: str, axis: str, more: str) -> tuple:
    """A matrix with inputs in columns, their classes, what else there may be, and the classes' names."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise ValueError(f"path: got {path}, needs a .npz or .csv file")
    found = readers[path.suffix.lower()](path, main, more)
    matrix, labels = found[main], found["labels"]
    if labels.dtype.kind not in "biuSU" and not (labels.dtype.kind == "f" and np.all(labels % 1 == 0)):
        raise ValueError(f"{path}: labels are {labels.dtype} and not all whole; needs whole numbers or words")
    if matrix.ndim != 2 or labels.shape != matrix.shape[1:]:
        turned = f": transpose {main}?" if labels.shape == matrix.shape[:1] else ""
        raise ValueError(
            f"{path}: {main} have shape {matrix.shape}, labels {labels.shape}; "
            f"needs ({axis}, P) and (P,){turned}"
        )
    names, labels = np.unique(labels.astype(int) if labels.dtype.kind == "f" else labels, return_inverse=True)
    return matrix, labels, found.get(more), tuple(map(str, names))


def _read_npz(path: Path, main: str, more: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as arrays ({type(error).__name__}: {error})") from error
    missing = {main, "labels"} - set(found)
    if missing:
        raise ValueError(f"{path}: has no array {', '.join(sorted(missing))}, only {sorted(found)}")
    for name in {main, more} & set(found):
        if found[name].dtype.kind not in "biuf":
            raise ValueError(f"{path}: {name} are {found[name].dtype}, need real numbers")
    return found


def _read_csv(path: Path, main: str, more: str) -> dict[str, np.ndarray]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte-order mark
            lines = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from error
    header, rows = (lines or [[]])[0], lines[1:]
    names = [name.strip() for name in header]
    if names.count("label") != 1 or len(names) < 2 or not rows:
        raise ValueError(
            f"{path}: its first line begins {names[:4]}; needs names, one of them 'label', and lines below"
        )
    place = names.index("label")
    values = []
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(f"{path}, line {number}: {len(row)} cells, the first line has {len(names)}")
        try:
            values.append([float(cell) for i, cell in enumerate(row) if i != place])
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    labels = np.array([row[place].strip() for row in rows])
    with contextlib.suppress(ValueError):
        labels = labels.astype(float)  # so that 10 comes after 9
    return {main: np.array(values).T, "labels": labels}


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images, read when asked for.

    Args:
        labels: canonical class number of every image, shape (count,).
        positions: place of every image in the canonical training or test set, shape (count,).
        name: what to call the set in figures.
        class_names: names of all its classes.
        read: pixels of the images with the given places in *this* set, uint8, shape (number, height, width)
            or (number, height, width, 3), 0 … 255.
    """

    labels: np.ndarray
    positions: np.ndarray
    name: str
    class_names: tuple[str, ...]
    read: Callable[[np.ndarray], np.ndarray]

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, chosen: np.ndarray, name: str | None = None) -> "ImageSet":
        """The images at the given places of this set, in that order."""
        return ImageSet(
            self.labels[chosen],
            self.positions[chosen],
            name or self.name,
            self.class_names,
            lambda index: self.read(chosen[index]),
        )


def mnist(split: str, folder: str | Path | None = None) -> ImageSet:
    """All of MNIST in canonical order: 60,000 training or 10,000 test images of 28 × 28 pixels.

    Args:
        split: "train" or "test".
        folder: data folder to read from; None searches as the module's docstring says.

    Raises:
        MissingDataError: a file was found nowhere.
        CorruptDataError: a file has the wrong SHA-256, and so has what is inside it.
        ValueError: split is something else.
    """
    return _idx("mnist", split, "MNIST", tuple("0123456789"), folder)


def mnist_subset(classes: Collection[int] = BUNDLED_DIGITS, folder: str | Path | None = None) -> ImageSet:
    """The first 10,000 MNIST training images; their digits 0, 1 and 2 come with the repository.

    Args:
        classes: digits wanted. Only 0, 1 and 2 are bundled; for others the canonical files are needed.
        folder: as for `mnist`.

    Returns:
        An ImageSet with the images of these digits, in canonical order, the same from either source.
    """
    name = "MNIST, from the first 10,000 training images"
    bundled = _bundled()
    canonical = _find("mnist/train-images-idx3-ubyte.gz", folder)
    if folder is None and canonical is None and bundled is not None and set(classes) <= set(BUNDLED_DIGITS):
        members = "images", "labels", "positions"
        images = _packed(_checked(bundled, bundled.name), members, name, tuple("0123456789"))
    else:
        images = mnist("train", folder).subset(np.arange(MNIST_SUBSET_SIZE), name)
    return images.subset(np.flatnonzero(np.isin(images.labels, list(classes))))


def fashion_mnist(split: str, folder: str | Path | None = None) -> ImageSet:
    """Fashion-MNIST: 60,000 training or 10,000 test images of 28 × 28 pixels; all as for `mnist`."""
    return _idx("fashion-mnist", split, "Fashion-MNIST", FASHION_CLASSES, folder)


def cifar10(split: str, jpeg: bool = False, folder: str | Path | None = None) -> ImageSet:
    """All of CIFAR-10: 50,000 training or 10,000 test images of 32 × 32 pixels and three colors.

    Args:
        split: "train" or "test".
        jpeg: read images that went through lossy JPEG compression, from cifar10-jpeg-streams.npz, which only
            a data folder can hold. The set then calls itself "CIFAR-10, JPEG-recompressed".
        folder: as for `mnist`.
    """
    validation.choice("split", split, ("train", "test"))
    if jpeg:
        content = fetch("cifar10/cifar10-jpeg-streams.npz", folder)
        with np.load(io.BytesIO(content)) as arrays:
            labels, offsets, streams = (arrays[f"{part}_{split}"] for part in ("y", "offset", "jpeg"))

        def decode(index: np.ndarray) -> np.ndarray:
            decoded = np.empty((len(index), 32, 32, 3), dtype=np.uint8)
            for place, i in enumerate(index):
                stream = io.BytesIO(streams[offsets[i] : offsets[i + 1]].tobytes())
                decoded[place] = np.asarray(Image.open(stream).convert("RGB"))
            return decoded

        name = "CIFAR-10, JPEG-recompressed"
        return ImageSet(labels.astype(int), np.arange(len(labels)), name, CIFAR_CLASSES, decode)
    members = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
    with tarfile.open(fileobj=io.BytesIO(fetch("cifar10/cifar-10-binary.tar.gz", folder))) as archive:
        batches = [archive.extractfile(f"cifar-10-batches-bin/{member}") for member in members]
        content = b"".join(batch.read() for batch in batches if batch is not None)
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 3073)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return ImageSet(
        records[:, 0].astype(int), np.arange(len(records)), "CIFAR-10", CIFAR_CLASSES, pixels.__getitem__
    )


def cifar10_subset(split: str, jpeg: bool = False, folder: str | Path | None = None) -> ImageSet:
    """8,068 training or 1,017 test images of CIFAR-10, at the positions of CIFAR_SUBSET_POSITIONS.

    They come from cifar10-exact-subset.npz where a data folder holds it, else from the complete set: the same
    images in the same order. Arguments as for `cifar10`.
    """
    validation.choice("split", split, ("train", "test"))
    key = "cifar10/cifar10-exact-subset.npz"
    if jpeg or _find(key, folder) is None:
        images = cifar10(split, jpeg, folder)
        return images.subset(CIFAR_SUBSET_POSITIONS[split], f"{images.name}, subset")
    members = f"x_{split}", f"y_{split}", f"{split}_index"
    return _packed(fetch(key, folder), members, "CIFAR-10, subset", CIFAR_CLASSES)


def _packed(
    content: bytes, members: tuple[str, str, str], name: str, class_names: tuple[str, ...]
) -> ImageSet:
    """Images from an npz file's pixels, labels and positions."""
    with np.load(io.BytesIO(content)) as arrays:
        pixels, labels, positions = (arrays[member] for member in members)
    return ImageSet(labels.astype(int), positions.astype(int), name, class_names, pixels.__getitem__)


def fetch(key: str, folder: str | Path | None = None) -> bytes:
    """Content of a canonical data file, with its SHA-256 checked.

    A gzipped file in a folder may have been compressed anew, as in Debian's package dataset-fashion-mnist; it
    is accepted if what is inside has the SHA-256 of CONTENT_SHA256.

    Args:
        key: the file's place in a data folder, a key of SHA256.
        folder: data folder to read from; None searches as the module's docstring says, and downloads.

    Raises:
        MissingDataError: the file was found nowhere and could not be downloaded.
        CorruptDataError: the file found has the wrong SHA-256, and so has what is inside it.
        ValueError: the key is unknown.
    """
    validation.choice("key", key, SHA256)
    path = _find(key, folder)
    if path is not None:
        return _checked(path, key)
    if folder is not None:
        raise MissingDataError(f"folder: {Path(folder) / key} does not exist. {_how_to_get(key)}")
    if key in _NOT_OFFERED:
        raise MissingDataError(f"{key} was not found, and has no public address. {_how_to_get(key)}")
    return _download(key)


def _find(key: str, folder: str | Path | None) -> Path | None:
    """The file in the caller's folder, or in the one the environment names; None if it is not there."""
    argument = "folder" if folder is not None else ENVIRONMENT_VARIABLE
    named = folder if folder is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if not named:
        return None
    if not Path(named).is_dir():
        raise MissingDataError(f"{argument}: {named} is not a folder")
    path = Path(named) / key
    return path if path.is_file() else None


def _bundled() -> Path | None:
    root = paths.repository_root()
    path = None if root is None else root / "data" / "mnist-digits-012.npz"
    return path if path is not None and path.is_file() else None


def _checked(path: Path, key: str) -> bytes:
    content = path.read_bytes()
    found, expected = hashlib.sha256(content).hexdigest(), SHA256[key]
    if found != expected and not _holds_the_same(content, key):
        raise CorruptDataError(
            f"{path} is damaged or not the file it claims to be: SHA-256 {found}, expected {expected}"
            f"{' (or another compression of the same content)' if key in CONTENT_SHA256 else ''}. "
            "Remove it, and fetch it again or restore it (git checkout, for a file of the repository)."
        )
    return content


def _holds_the_same(compressed: bytes, key: str) -> bool:
    """Whether a gzipped file of another SHA-256 has the canonical content."""
    if key not in CONTENT_SHA256:
        return False
    try:
        content = gzip.decompress(compressed)
    except (OSError, EOFError, zlib.error):
        return False
    return hashlib.sha256(content).hexdigest() == CONTENT_SHA256[key]


def _download(key: str) -> bytes:
    """The file from the cache, else from its hosts in turn; pooch moves it there only once checked."""
    dataset, name = key.split("/")
    cache = Path(pooch.os_cache("coding-schemes")) / dataset
    failures = []
    for host in HOSTS[dataset]:
        try:
            path = pooch.retrieve(host + name, f"sha256:{SHA256[key]}", fname=name, path=cache)
        except (OSError, ValueError) as error:  # no connection or no such file; a wrong checksum
            failures.append(f"{host}{name}: {error}")
        else:
            return Path(path).read_bytes()
    raise MissingDataError(f"{key} could not be downloaded. {_how_to_get(key)} Tried: " + "; ".join(failures))


def _how_to_get(key: str) -> str:
    place = f"<folder>/{key} and set {ENVIRONMENT_VARIABLE}=<folder>"
    if key in _NOT_OFFERED:
        return f"Put it at {place}; or use the complete, exact set."
    dataset, name = key.split("/")
    return f"Fetch {HOSTS[dataset][0]}{name}, put it at {place}."


def _idx(
    dataset: str, split: str, name: str, class_names: tuple[str, ...], folder: str | Path | None
) -> ImageSet:
    validation.choice("split", split, ("train", "test"))
    prefix = "train" if split == "train" else "t10k"
    pixels = _unpacked(fetch(f"{dataset}/{prefix}-images-idx3-ubyte.gz", folder))
    labels = _unpacked(fetch(f"{dataset}/{prefix}-labels-idx1-ubyte.gz", folder))
    images = np.frombuffer(pixels, dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    classes = np.frombuffer(labels, dtype=np.uint8, offset=8).astype(int)
    return ImageSet(classes, np.arange(len(classes)), name, class_names, images.__getitem__)


@functools.lru_cache(maxsize=2)
def _unpacked(compressed: bytes) -> bytes:
    """Images and labels, kept: experiments draw many tasks from one set."""
    return gzip.decompress(compressed)
