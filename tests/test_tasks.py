"""Tasks: what every constructor promises, and that bad input is named."""

import itertools

import numpy as np
import pytest
from coding_schemes import data, tasks


def test_toy_inputs_are_orthogonal_and_classes_have_their_ratios():
    task = tasks.toy(40, (0.5, 0.25, 0.25), y_plus=1.0, y_minus=-0.5, seed=3)
    np.testing.assert_allclose(task.input_kernel, np.eye(40), atol=1e-12)
    assert task.is_orthogonal
    assert tasks.toy(8, input_dim=8).is_orthogonal  # as many as there can be
    assert (task.num_inputs, task.input_dim, task.num_targets, task.num_classes) == (40, 60, 3, 3)
    assert task.class_counts.tolist() == [20, 10, 10]
    assert np.all(np.diff(task.labels) >= 0)
    np.testing.assert_array_equal(task.class_targets, [[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]])
    np.testing.assert_array_equal(task.targets, task.class_targets[task.labels])


def test_toy_is_drawn_by_its_seed():
    first, same, other = (tasks.toy(10, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.inputs, same.inputs)
    assert np.abs(first.inputs - other.inputs).max() > 0.1


def test_toy_counts_sum_to_the_total_where_ratios_do_not_divide_it():
    task = tasks.toy(20, (1 / 3, 1 / 3, 1 / 3))
    assert sorted(task.class_counts.tolist()) == [6, 7, 7]
    assert tasks.toy(10, (0.57, 0.22, 0.21)).class_counts.tolist() == [6, 2, 2]  # to the largest remainder
    random = tasks.toy(400, (0.5, 0.25, 0.25), random_labels=True)
    assert 0 < abs(random.class_counts[0] - 200) < 4 * 100**0.5  # drawn: not exactly half


def test_toy_takes_any_targets():
    targets = [[1.0], [-1.0]]
    task = tasks.toy(10, (0.5, 0.5), targets=targets)
    assert task.num_targets == 1
    np.testing.assert_array_equal(task.class_targets, targets)


def valid():
    return {"inputs": np.eye(4), "labels": np.array([0, 0, 1, 1]), "targets": np.ones((4, 2))}


def test_a_split_comes_whole_and_a_class_with_inputs():
    with pytest.raises(ValueError, match="together, or none"):
        tasks.Task(**valid(), test_inputs=np.eye(4))
    with pytest.raises(ValueError, match="class 0 has no input"):
        tasks.Task(**valid() | {"labels": np.array([1, 1, 2, 2])})


def test_class_targets_refuses_a_task_that_is_not_classification():
    task = tasks.Task(np.eye(3), np.array([0, 0, 1]), np.array([[1.0], [2.0], [3.0]]))
    with pytest.raises(ValueError, match="different targets"):
        task.class_targets  # noqa: B018


def test_projection_keeps_the_kernel_on_average_and_projects_the_test_split_alike():
    task = tasks.mnist(30, 10)
    kernels = np.array([tasks.projected(task, 50, seed).input_kernel for seed in range(40)])
    error = kernels.std(0, ddof=1) / 40**0.5
    deviations = np.abs(kernels.mean(0) - task.input_kernel) / error
    assert np.mean(deviations > 2) < 0.1
    projected = tasks.projected(task, 50)
    assert projected.test_inputs.shape == (50, 10)
    matrix = projected.inputs @ np.linalg.pinv(task.inputs)  # the projection on the span of the inputs
    np.testing.assert_allclose(matrix @ task.inputs, projected.inputs, atol=1e-8)
    repeated = tasks.Task(task.inputs, task.labels, task.targets, task.inputs, task.labels, task.targets)
    same = tasks.projected(repeated, 50)
    np.testing.assert_array_equal(same.inputs, same.test_inputs)


def test_mnist_as_in_paper_a(monkeypatch):
    monkeypatch.delenv(data.ENVIRONMENT_VARIABLE, raising=False)
    task = tasks.mnist()
    assert task.inputs.shape == (784, 100)
    assert task.test_inputs.shape == (784, 1000)
    assert task.class_names == ("0", "1", "2")
    assert task.name == "MNIST, from the first 10,000 training images"
    assert task.targets[0].tolist() == [1, -0.5, -0.5]
    assert np.all(np.diff(task.labels) >= 0)
    assert np.all(np.diff(task.test_labels) >= 0)
    # classes are drawn: about a third each, but not exactly
    assert np.all(np.abs(np.bincount(task.test_labels) - 1000 / 3) < 4 * np.sqrt(1000 * 2 / 9))
    assert tasks.mnist(balanced=True).class_counts.tolist() in ([34, 33, 33], [33, 34, 33], [33, 33, 34])
    # nearest class mean reads most test images: labels belong to their images
    means = np.stack([task.inputs[:, task.labels == c].mean(1) for c in range(3)])
    distances = np.square(task.test_inputs.T[:, None] - means).sum(-1)
    assert np.mean(distances.argmin(1) == task.test_labels) > 0.85


def columns(array):
    """The images of an array as a set."""
    return {column.tobytes() for column in np.ascontiguousarray(array.T)}


def test_images_drawn_at_random_may_miss_a_class_and_the_error_says_what_helps():
    """Of nine images and three classes one is missed every tenth time; balanced, none is from three on."""
    said = []
    for seed in range(40):
        try:
            tasks.mnist(9, seed=seed)
        except ValueError as error:
            said.append(str(error))
    assert 1 <= len(said) <= 10  # 3 (2/3)^9 of them: 3.1 expected
    assert all("num_inputs: got 9, none of which is of class" in text for text in said)
    assert all("balanced=True" in text for text in said)
    assert tasks.mnist(3, balanced=True).num_classes == 3
    with pytest.raises(ValueError, match="classes: got .* needs different whole numbers"):
        tasks.mnist(6, classes=(0.0, 1.0))
    with pytest.raises(ValueError, match=r"num_inputs: got 2, none of which is of class \d; take more$"):
        tasks.mnist(2, balanced=True)


def test_mnist_splits_do_not_overlap_and_do_not_depend_on_each_other():
    def images(**arguments):
        task = tasks.mnist(normalization="unit_norm", **arguments)
        return columns(task.inputs), None if task.test_inputs is None else columns(task.test_inputs)

    train, test = images(num_inputs=200, num_test=300)
    assert (len(train), len(test)) == (200, 300)
    assert not train & test
    assert images(num_inputs=200, num_test=0) == (train, None)
    assert images(num_inputs=50, num_test=300)[1] == test
    assert images(num_inputs=50, num_test=300)[0] < train
    assert images(num_inputs=200, num_test=300, seed=1)[0] != train


def test_normalizations():
    standard, pixel, unit, raw = (
        tasks.mnist(60, 40, normalization=n) for n in ("standardize", "pixel", "unit_norm", "unit_range")
    )
    for images in (raw.inputs, raw.test_inputs):
        assert (images.min(), images.max()) == (0, 1)
    np.testing.assert_allclose(np.corrcoef(raw.inputs.ravel(), standard.inputs.ravel())[0, 1], 1)
    assert standard.inputs.mean() == pytest.approx(0, abs=1e-12)
    assert standard.inputs.std() == pytest.approx(1)
    assert np.trace(standard.input_kernel) == pytest.approx(60)
    np.testing.assert_allclose(pixel.inputs.mean(1), 0, atol=1e-12)
    deviations = pixel.inputs.std(1)
    assert np.all(np.isclose(deviations, 1) | (deviations == 0))
    assert 0.3 < np.trace(pixel.input_kernel) / 60 < 1
    np.testing.assert_allclose(np.diag(unit.input_kernel), 1)
    np.testing.assert_allclose(np.square(unit.test_inputs).sum(0), 784)
    # the test split is normalized by the training split: the same affine map of the same pixels
    assert standard.test_inputs.min() == standard.inputs.min()
    assert abs(standard.test_inputs.mean()) > 1e-6


def test_images_are_those_of_their_class_in_the_order_asked_for():
    forward, backward = tasks.mnist(50, 0, classes=(0, 1)), tasks.mnist(50, 0, classes=(1, 0))
    assert backward.class_names == ("1", "0")
    ink = [task.inputs[:, task.labels == 0].mean() for task in (forward, backward)]
    assert ink[0] > 0.1 > -0.1 > ink[1]  # zeros hold more ink than ones


def labeled_images(per_class, name="images"):
    """An image set whose pixels encode class and place, (4, 4) pixels, ten classes."""
    labels = np.tile(np.arange(10), per_class)
    pixels = np.zeros((len(labels), 4, 4), dtype=np.uint8)
    pixels[:, 0, 0], pixels[:, 1, 1] = 10 + labels, np.arange(len(labels)) % 251
    return data.ImageSet(labels, np.arange(len(labels)), name, tuple("abcdefghij"), pixels.__getitem__)


def test_fashion_and_cifar_take_training_and_test_images_from_their_own_sets(monkeypatch):
    sets = {"train": labeled_images(20, "Fashion-MNIST"), "test": labeled_images(5)}
    monkeypatch.setattr(data, "fashion_mnist", lambda split, folder: sets[split])
    task = tasks.fashion_mnist(60, 15, classes=(4, 7, 9), balanced=True, y_minus=-0.1)
    assert task.name == "Fashion-MNIST"
    assert task.class_names == ("e", "h", "j")
    assert task.class_counts.tolist() == [20, 20, 20]
    with pytest.raises(ValueError, match="num_inputs: class 4 needs 21 images but Fashion-MNIST has only 20"):
        tasks.fashion_mnist(63, 0, classes=(4, 7, 9), balanced=True)
    with pytest.raises(ValueError, match="num_test: class 4 needs 6"):
        tasks.fashion_mnist(6, 18, classes=(4, 7, 9), balanced=True)
    sets["train"] = sets["train"].subset(np.flatnonzero(sets["train"].labels != 7))
    with pytest.raises(ValueError, match="num_inputs: class 7 needs 2 images but Fashion-MNIST has only 0"):
        tasks.fashion_mnist(6, 0, classes=(4, 7, 9), balanced=True)

    calls = []

    def cifar(split, jpeg, folder):
        calls.append((split, jpeg))
        return labeled_images(20, "CIFAR-10, JPEG-recompressed" if jpeg else "CIFAR-10")

    monkeypatch.setattr(data, "cifar10", cifar)
    task = tasks.cifar10(30, 10, pool="full", jpeg=True)
    assert task.name == "CIFAR-10, JPEG-recompressed"
    assert calls == [("train", True), ("test", True)]


@pytest.mark.parametrize("common", [True, False])
def test_splits_hold_as_many_images_of_a_class_as_were_drawn_and_none_twice(monkeypatch, common):
    """Also none of a class: few test images leave classes out, in a set of their own or the training one."""
    classes, train = (4, 7, 9), labeled_images(8)
    sets = {"train": train, "test": labeled_images(8)}
    if common:
        call = tasks.mnist
        monkeypatch.setattr(data, "mnist_subset", lambda classes, folder: train)
    else:
        call = tasks.fashion_mnist
        monkeypatch.setattr(data, "fashion_mnist", lambda split, folder: sets[split])
    for num_test, balanced in itertools.product((1, 2, 3, 9), (False, True)):
        task = call(9, num_test, classes, balanced=balanced, seed=2, normalization="unit_range")
        places = []
        for inputs, labels in ((task.inputs, task.labels), (task.test_inputs, task.test_labels)):
            pixels = np.rint(255 * inputs).astype(int)
            np.testing.assert_array_equal(pixels[0] - 10, np.array(classes)[labels])
            places.append(pixels[5].tolist())
        assert [len(part) for part in places] == [9, num_test]
        assert all(len(set(part)) == len(part) for part in places)
        assert not common or not set(places[0]) & set(places[1])


def test_two_points_have_the_distances_asked_for():
    task = tasks.two_points(dx2=2.25, dy2=0.5)
    assert np.sum(np.diff(task.inputs) ** 2) == pytest.approx(2.25)
    assert np.sum(np.diff(task.targets, axis=0) ** 2) == pytest.approx(0.5)
    assert np.all(tasks.two_points(dy2=0.0).targets == 0.6)


def test_xor_is_exclusive_or():
    task = tasks.xor()
    np.testing.assert_array_equal(task.targets[:, 0], np.logical_xor(*task.inputs.astype(bool)))
    assert len(np.unique(task.inputs, axis=1).T) == 4


def test_blobs_hold_every_position_in_both_contexts():
    task = tasks.blobs(num_positions=4, num_pixels=6)
    images = task.inputs[:-2].reshape(6, 6, 2, 16)  # row, column, context, position
    np.testing.assert_allclose(images.sum((0, 1)), 1.0)
    np.testing.assert_array_equal(images[:, :, 0], images[:, :, 1])
    np.testing.assert_array_equal(task.inputs[-2:].sum(0), 1.0)
    axis = np.linspace(-1, 1, 6)
    center = {
        0: np.einsum("rcp,c->p", images[:, :, 0], axis),
        1: np.einsum("rcp,r->p", images[:, :, 1], axis),
    }
    for context in (0, 1):
        asked = task.targets[task.labels == context, 0]
        assert np.corrcoef(asked, center[context])[0, 1] > 0.99
    for width in (0.5, 1.0):  # a Gaussian: the ratio of two pixels of one row
        corner = tasks.blobs(4, 6, width).inputs[:2, 0]
        np.testing.assert_allclose(corner[1] / corner[0], np.exp(-(0.4**2) / (2 * width**2)))


def test_clustered_and_tree_have_exactly_their_kernels():
    task = tasks.clustered(12, (0.5, 0.25, 0.25), (0.3, 0.0, 0.9), y_minus=-0.5, input_dim=12)
    expected = np.where(task.labels[:, None] == task.labels, np.array([0.3, 0.0, 0.9])[task.labels], 0.0)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(task.input_kernel, expected, atol=1e-12)
    assert task.class_counts.tolist() == [6, 3, 3]
    np.testing.assert_array_equal(tasks.clustered(8, overlap=0).inputs, tasks.toy(8).inputs)
    means, diagonal = task.mean_overlaps
    np.testing.assert_allclose(means, np.diag([0.3, 0.0, 0.9]), atol=1e-12)
    np.testing.assert_allclose(diagonal, np.ones(3))
    tree = tasks.tree(12, (0.5, 0.25, 0.25), (0, 0, 1), (0.6, 0.2))
    c = tree.labels
    between = np.array([[0.6, 0.2, 0.0], [0.2, 0.6, 0.0], [0.0, 0.0, 0.6]])[np.ix_(c, c)]
    np.fill_diagonal(between, 1)
    np.testing.assert_allclose(tree.input_kernel, between, atol=1e-12)
    apart = tasks.tree(12, (0.5, 0.25, 0.25), (0, 1, 2), (0.4, 0.4))
    np.testing.assert_allclose(apart.input_kernel, tasks.clustered(12, overlap=0.4).input_kernel, atol=1e-12)


def test_a_task_of_ones_own_is_scaled_and_sorted():
    inputs, labels = np.random.default_rng(0).standard_normal((5, 6)), np.array([1, 0, 2, 1, 0, 2])
    for scale in (1.0, 1e-200, 1e200):  # squares of which leave the range of floats
        task = tasks.own(scale * inputs, labels, name="mine")
        assert np.mean(task.inputs**2) == pytest.approx(1)
        np.testing.assert_array_equal(task.labels, np.sort(labels))
        np.testing.assert_allclose(task.inputs[:, 2] / task.inputs[0, 2], inputs[:, 0] / inputs[0, 0])
        np.testing.assert_array_equal(task.targets, tasks.one_hot(3, 1.0, -0.5)[np.sort(labels)])
    targets = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(tasks.own(inputs, labels, targets).targets, targets[[1, 4, 0, 3, 2, 5]])


def test_held_out():
    task = tasks.mnist(12, 5)
    for found, expected in zip(
        task.held_out, (task.test_inputs, task.test_labels, task.test_targets), strict=True
    ):
        assert found is expected
    with pytest.raises(ValueError, match="task: has no test split"):
        _ = tasks.toy(12).held_out
