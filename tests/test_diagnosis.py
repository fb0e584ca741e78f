"""The diagnosis: planted schemes, p-values where they are exact, and what it refuses to say."""

import subprocess
import sys

import coding_schemes
import numpy as np
import pytest
from coding_schemes import diagnosis
from coding_schemes.coding import class_means
from coding_schemes.diagnosis import diagnose
from scipy import stats

LABELS = np.repeat([0, 1, 2], [20, 10, 10])
CODES = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=bool)


def activations(means, labels=LABELS, noise=0.3, seed=0):
    """Class means with independent noise on every input."""
    rng = np.random.default_rng(seed)
    return np.asarray(means, dtype=float)[:, labels] + noise * rng.standard_normal((len(means), len(labels)))


def gaussian(num_neurons, num_classes=3, seed=0):
    return np.random.default_rng(seed).standard_normal((num_neurons, num_classes))


def redundant(num_neurons=60):
    return np.where(CODES[np.arange(num_neurons) % 3], 0.9, 0.1)


def sparse(num_neurons=60):
    means = 0.1 + 0.02 * gaussian(num_neurons)
    means[[5, 17, 30], [0, 1, 2]] += 4
    return means


@pytest.mark.parametrize("means", [gaussian(7) + np.array([0.5, 0, 0]), np.exp(gaussian(7))])
def test_two_levels_against_loops(means):
    """The best cut of all class means among all cuts, and what is left of every neuron within its codes."""
    codes, explained = diagnosis._two_levels(means)
    values = np.sort(means.ravel())
    within = [sum(part.var() * part.size for part in np.split(values, [k])) for k in range(1, values.size)]
    cut = 1 + int(np.argmin(within))
    np.testing.assert_array_equal(codes, means >= values[cut])
    rest, varying = np.empty_like(means), means - means.mean(axis=1, keepdims=True)
    for c in range(3):
        for i in range(7):
            rest[i, c] = means[i, c] - np.mean([means[j, c] for j in range(7) if codes[j, c] == codes[i, c]])
    rest -= rest.mean(axis=1, keepdims=True)
    varying -= varying.mean(axis=0)
    assert explained == pytest.approx(1 - np.sum(rest**2) / np.sum(varying**2))


def test_rotations_keep_the_kernel_and_the_average_neuron():
    """Frames drawn in their place do what an explicit R with R Rᵀ = 1 and R 1 = 1 does."""
    phi = activations(redundant(12))
    means = class_means(phi, LABELS)
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(np.column_stack([np.ones(12), rng.standard_normal((12, 11))]))[0][:, 1:]
    turn = np.linalg.qr(rng.standard_normal((11, 11)))[0]
    explicit = np.full((12, 12), 1 / 12) + basis @ turn @ basis.T
    np.testing.assert_allclose((explicit @ phi).T @ (explicit @ phi), phi.T @ phi, atol=1e-10)
    drawn = np.concatenate(list(diagnosis._rotations(means, 5, rng)))
    assert drawn.shape == (5, 12, 3)
    for rotated in (explicit @ means, *drawn):
        np.testing.assert_allclose(rotated.mean(axis=0), means.mean(axis=0))
        np.testing.assert_allclose(rotated.T @ rotated, means.T @ means)
    assert np.abs(drawn - means).max() > 0.1


def test_p_values_are_exact_for_what_rotations_leave_behind():
    """Isotropic neurons around a common mean, of any covariance between classes: uniform p-values."""
    mixing, mean = np.array([[3.0, 1, 0], [0, 1, 0.5], [0, 0, 0.2]]), np.array([1.0, -2.0, 0.0])
    found = []
    for seed in range(100):
        means = gaussian(12, seed=seed) @ mixing + mean
        evidence = diagnose(means, [0, 1, 2], num_rotations=99, seed=seed).evidence
        found.append((evidence.redundant_p, evidence.sparse_p))
    for values in np.transpose(found):
        assert stats.kstest(values, "uniform").pvalue > 0.01


def test_labels_that_mean_nothing_have_uniform_p_values_and_stay_undecided():
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 40))  # far from independent inputs
    found = [diagnose(factors, rng.permutation(LABELS), num_rotations=99, seed=s) for s in range(100)]
    assert stats.kstest([d.evidence.class_p for d in found], "uniform").pvalue > 0.01
    unclear = [d for d in found if d.evidence.class_p > diagnosis.SIGNIFICANCE]
    assert len(unclear) > 90
    assert all(d.scheme == "undecided" and "random groups" in d.verdict for d in unclear)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e4, 0.0), (1e-6, 0.0), (5.0, -80.0)])
def test_a_redundant_scheme_and_its_codes_whatever_the_range(scale, offset):
    found = diagnose(scale * activations(redundant()) + offset, LABELS)
    assert found.scheme == "redundant"
    np.testing.assert_array_equal(found.codes, CODES[np.arange(60) % 3])
    np.testing.assert_allclose(found.occupancies.fractions, 1 / 3)
    assert set(found.occupancies.names) == {"1-1-0", "1-0-1", "0-1-1"}
    assert found.outliers.counts == 0
    assert found.participation == pytest.approx(1, abs=0.1)
    assert found.evidence.redundant_p == 0.001
    assert found.evidence.two_levels > 0.95 > found.evidence.rotated_two_levels.max()
    assert found.verdict.startswith("redundant: codes explain 0.9")


def test_a_sparse_scheme_and_its_outliers():
    found = diagnose(activations(sparse(), noise=0.1), LABELS)
    assert found.scheme == "sparse"
    np.testing.assert_array_equal(np.flatnonzero(found.outliers.mask), [5, 17, 30])
    np.testing.assert_array_equal(found.codes[[5, 17, 30]], np.eye(3, dtype=bool))
    assert found.codes.sum() == 3
    assert found.participation == pytest.approx(3 / 60, abs=0.01)
    assert found.verdict.startswith("sparse: 3 of 60 neurons hold 1.00")


def test_participation_is_that_of_the_pairwise_differences_between_classes():
    """A neuron that tells one of six classes apart, and one that tells three from three."""
    means = np.zeros((2, 6))
    means[0, 2], means[1, :3] = 1.0, 1.0
    squares = np.square(means[:, :, None] - means[:, None]).sum((1, 2))  # 5 pairs against 9
    found = diagnose(activations(means, np.repeat(range(6), 5), noise=1e-6), np.repeat(range(6), 5))
    assert found.participation == pytest.approx(squares.sum() ** 2 / np.square(squares).sum() / 2, rel=1e-4)


@pytest.mark.parametrize("num_classes", [2, 3, 6])
def test_an_analog_scheme_and_classes_of_any_number_and_size(num_classes):
    labels = np.repeat(np.arange(num_classes), 10 + 5 * np.arange(num_classes))
    found = diagnose(activations(gaussian(80, num_classes), labels), labels)
    assert found.scheme == "analog"
    assert min(found.evidence.redundant_p, found.evidence.sparse_p) > 0.01


def test_two_classes_told_apart_by_signs():
    labels = np.repeat([0, 1], [30, 5])
    signs = np.where(np.arange(50) % 2, 1.0, -1.0)
    found = diagnose(activations(np.column_stack([signs, -signs]), labels), labels)
    assert found.scheme == "redundant"
    assert set(found.occupancies.names) == {"1-0", "0-1"}


def undecided_cases():
    rng = np.random.default_rng(3)
    many = np.arange(10).repeat(8)
    yield "too few", activations(gaussian(4)), LABELS  # rotations look redundant
    yield "too few", activations(gaussian(4, seed=1)), LABELS  # or sparse
    yield "too few", activations(redundant(3)), LABELS
    yield "hardly share", activations(np.sign(gaussian(40, 10)), many), many  # 2¹⁰ codes for 40 neurons
    yield "respond alike", activations(gaussian(80) + np.array([4.0, 0, 0])), LABELS
    yield "nor clearly", activations(rng.uniform(size=(200, 3))), LABELS  # flat, with neither peaks nor tails
    yield "nor clearly", activations(np.maximum(gaussian(200), 0) ** 2), LABELS  # heavy tails are no outliers
    mixed = np.where(np.arange(60)[:, None] % 2, redundant(), 0.3 * gaussian(60))
    yield "nor clearly", activations(mixed), LABELS


@pytest.mark.parametrize(("reason", "phi", "labels"), list(undecided_cases()))
def test_it_says_undecided_rather_than_guess(reason, phi, labels):
    found = diagnose(phi, labels)
    assert found.scheme == "undecided"
    assert reason in found.verdict


def test_twenty_neurons_of_a_sparse_scheme_are_not_called_redundant():
    """Three outliers are as many as a code's share of twenty neurons, and rotations reach their share."""
    found = diagnose(activations(sparse(40)[:31], noise=0.1), LABELS)
    assert found.scheme in ("sparse", "undecided")


def test_readouts_from_the_class_differences_and_from_anywhere():
    phi = activations(redundant())
    means = class_means(phi, LABELS)
    differences = means - means.mean(axis=1, keepdims=True)
    assert diagnose(phi, LABELS, differences @ gaussian(3, 2)).readout_share == pytest.approx(1)
    blind = diagnose(phi, LABELS, gaussian(60, 2000)).readout_share
    assert blind == pytest.approx(2 / 60, rel=0.1)
    assert diagnose(phi, LABELS).readout_share is None


def test_a_diagnosis_can_be_repeated():
    phi = activations(gaussian(30))
    first, second, other = (diagnose(phi, LABELS, seed=seed).evidence for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.rotated_two_levels, second.rotated_two_levels)
    assert np.any(first.rotated_two_levels != other.rotated_two_levels)


PHI = activations(redundant())


def test_whole_numbers_as_floats_lists_and_words_are_labels():
    for labels in (LABELS.astype(float).tolist(), np.array(["cat", "dog", "eel"])[LABELS]):
        found = diagnose(PHI.tolist(), labels)
        assert found.scheme == "redundant"
        assert repr(found) == f"<{found.verdict}>"


def test_dead_neurons_are_left_out_and_counted():
    """Weight decay kills most sigmoidal neurons; the few that live are redundant among themselves."""
    alive = np.arange(80) % 4 == 0
    phi = np.full((80, 40), 0.5) + 1e-5 * np.random.default_rng(4).standard_normal((80, 40))
    phi[alive] = activations(redundant(20))
    found, alone = diagnose(phi, LABELS), diagnose(phi[alive], LABELS)
    np.testing.assert_array_equal(found.live, alive)
    assert found.scheme == alone.scheme == "redundant"
    assert found.verdict == f"{alone.verdict}; dead neurons left out: 60"
    assert found.participation == alone.participation
    np.testing.assert_array_equal(found.codes[alive], alone.codes)
    assert not found.codes[~alive].any()
    assert found.occupancies.names == alone.occupancies.names
    phi[alive] = activations(redundant(20), noise=0.0)
    phi[np.flatnonzero(alive)[1:]] = 0.5
    with pytest.raises(ValueError, match="one neuron responds"):
        diagnose(phi, LABELS)


@pytest.mark.parametrize("num_neurons", [60, 1000, 10_000])
def test_the_silent_neurons_of_a_sparse_scheme_are_alive(num_neurons):
    """Outliers are √N above the others, which fluctuate by order one."""
    means = np.zeros((num_neurons, 3))
    means[[5, 17, 30], [0, 1, 2]] = 2 * num_neurons**0.5
    phi = np.maximum(activations(means, noise=1.0), 0)
    found = diagnose(phi, LABELS, num_rotations=99)
    assert found.live.all()
    assert found.scheme == "sparse"


def test_the_package_offers_it_without_loading_anything():
    assert coding_schemes.diagnose is diagnose
    with pytest.raises(AttributeError, match="nothing"):
        coding_schemes.nothing  # noqa: B018
    code = "import sys, coding_schemes; assert not {'numpy', 'jax', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
