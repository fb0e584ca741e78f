# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Generalization: do the codes survive new inputs?
#
# **Question.** On the toy task there is nothing to generalise to. What happens to the coding schemes of a
# network that has learned handwritten digits, when it is shown digits it has never seen? And does it
# predict them better than a network that never learned any features?
#
# **Answer, before the details.** On digits all three schemes, analog, redundant and sparse, carry over to
# test images {cite:p}`vanmeegen2025`. The error of each class is well below that of the Gaussian process
# with the same kernel, but for one main reason: learning features removes the *variance* of the predictor.
# Its mean is nearly that of the Gaussian process. On natural images with few examples the training images
# are coded as sharply, and the code is lost on test images.

# %% tags=["parameters"]
preset = "quick"  # quick, paper or full; full makes the run on all of CIFAR-10 and wants a GPU
seed = 0
num_inputs: int | None = None  # P, training images; None: the preset's
width: int | None = None  # N
num_draws: int | None = None  # independent draws of the training images
num_test: int | None = None  # test images
temperature: float | None = None  # T, rescaled as in the primer
dataset = "mnist"  # your own task, last section: mnist, fashion_mnist or cifar10
classes: tuple[int, ...] = (0, 1, 2)  # its classes
nonlinearity = "erf"  # its network: sigmoidal, relu, linear or erf
y_plus: float = 1.0  # its targets: of an image's own class
y_minus: float = 0.0  # and of the others

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import json
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, paths, planting, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.theory import gaussian_process, mean_field
from companion import claims, figures, presets
from experiments import generalization, large_run
from myst_nb import glue

given = {
    "num_inputs": num_inputs,
    "width": width,
    "num_draws": num_draws,
    "num_test": num_test,
    "temperature": temperature,
}
quick = {"num_inputs": 60, "width": 60, "num_draws": 2, "num_test": 300, "temperature": 0.01}
quick |= {"num_scaled_draws": 1, "width_factors": (0.5, 1, 2)}
paper = {"num_inputs": 100, "width": 100, "num_draws": 5, "num_test": 1000, "temperature": 0.01}
paper |= {"num_scaled_draws": 3, "width_factors": (0.5, 1, 2, 4)}
settings = presets.choose(preset, quick=quick, paper=paper, full={}, given=given)
P, N, T = settings.num_inputs, settings.width, settings.temperature
if settings.num_draws < 2:
    raise ValueError(f"num_draws: got {settings.num_draws}, error bars need at least 2")
key = jax.random.key(seed)
NAMES = ("linear", "sigmoidal", "relu")
TITLES = ("linear", "sigmoidal", "ReLU")
for name, value in vars(settings).items():
    glue(name, value, display=False)
FOLDER = paths.repository_root() / "data" / "results"


def check(id, quantity, computed, passes, tolerance, control, reason, **options):
    """Record a claim: one test, applied to the computed value and to the control's."""
    passed = bool(passes(computed))
    wrong = claims.Control(control[0], control[1], bool(passes(control[1])))
    options |= {"tolerance": tolerance, "passed": passed, "note": "" if passed else reason, "control": wrong}
    claims.record(id, quantity, computed, **options)


# %% tags=["hide-input"]
# Your own task, for the last section, comes first: what is misspelt or missing shows at once.
constructors = {"mnist": tasks.mnist, "fashion_mnist": tasks.fashion_mnist, "cifar10": tasks.cifar10}
if dataset not in constructors:
    raise ValueError(f"dataset: got {dataset!r}, allowed are {sorted(constructors)}")
own = constructors[dataset](P, settings.num_test, tuple(classes), y_plus, y_minus, seed)
own_process = generalization.gaussian_process_error(own, nonlinearity, T)

# %% [markdown]
# ## Theory
#
# Write $K_0$ for the kernel of the training inputs. On the toy task $K_0 = 1$ and everything decouples;
# images are correlated, and the preactivations of a neuron, $z \in \mathbb R^P$, are coupled through $K_0$.
# The saddle point of the [primer](../book/primer.md) still says that neurons are independent in a common
# field $t$,
#
# $$
# P(a, z) \;\propto\; \mathcal N(a;\,0,\sigma_a^2)\;\mathcal N(z;\,0,K_0)\;e^{a^\top t^\top \phi(z)},
# \qquad Y - \langle \phi(z)\,a^\top\rangle = T\,t .
# $$ (eq-gen-saddle)
#
# For linear networks this is Gaussian and solved exactly in the chapter on analog coding. Otherwise paper A
# neglects how $z$ fluctuates around its most likely value given $a$: a neuron of kind $\gamma$ then *has*
# preactivations $z_\gamma = K_0\,[\phi'(z_\gamma)\circ t\,a_\gamma]$ and readout $a_\gamma = \sigma_a^2\,
# t^\top\phi(z_\gamma)$. Eliminating the readouts turns this into a convex problem over the shares
# $P_\gamma$ and the preactivations of the kinds,
#
# $$
# \min\; \tfrac12\,\mathrm{tr}\,Y^\top (K+T)^{-1} Y
# + \tfrac12\sum_\gamma P_\gamma\, z_\gamma^\top K_0^{-1} z_\gamma
# + \sum_\gamma P_\gamma\log P_\gamma, \qquad
# K = \sigma_a^2 \sum_\gamma P_\gamma\,\phi(z_\gamma)\phi(z_\gamma)^\top ,
# $$ (eq-gen-convex)
#
# with $t = (K+T)^{-1}Y$. Whether a code is missing can be *checked*: a kind that is not in the list but
# would lower {eq}`eq-gen-convex` shows up in the gap between this minimum and its dual. For the ReLU, cost
# and gain are of the same degree in $z$, so a few neurons of size $\sqrt N$ do all the work: the sum runs
# over these outliers, without shares and entropy.
#
# On a new input, $z_\gamma(x) = k_0(x)^\top K_0^{-1} z_\gamma$ and $f(x) = \sum_\gamma P_\gamma\,
# \phi(z_\gamma(x))\, a_\gamma$.
#
# The comparison is the **Gaussian process** of the infinitely wide lazy network. One lazy network has the
# error
#
# $$
# \varepsilon_r = \frac1{P_*}\sum_\mu
# \Bigl\{ \bigl[y^r_\mu - \langle f_r(x_\mu)\rangle\bigr]^2 + \mathrm{Var}\, f_r(x_\mu) \Bigr\} ,
# $$ (eq-gen-error)
#
# and the second term vanishes as $1/N$ in a network that learns features.

# %% [markdown]
# ## Experiment: three digits
#
# We draw {glue:text}`num_inputs` images of the digits 0, 1 and 2, learn them with {glue:text}`width`
# neurons at $T =$ {glue:text}`temperature` and targets $1$ and $-\tfrac12$, and repeat this for
# {glue:text}`num_draws` draws of the training images. Pixels are standardised over the training set; paper
# A does not say what it did, so we repeat it all with images scaled to unit norm.

# %% tags=["hide-input"]
# Three experiments of later sections need nothing from this one; they run beside it.
digits = [tasks.mnist(P, settings.num_test, seed=seed + draw) for draw in range(settings.num_draws)]
narrow = [tasks.projected(task, P // 2, seed=seed + draw) for draw, task in enumerate(digits)]
widths = (N * np.array(settings.width_factors)).astype(int)


def predictor_variance(width, scaling):
    """Variance of the outputs over one chain's samples, averaged over test images."""
    network, stream = Network(1, int(width), "sigmoidal", scaling), jax.random.fold_in(key, 400 + int(width))
    return generalization.sampled(digits[0], network, T, stream).variance.mean()


def on_narrow(scaling):
    """Networks sampled on the projected digits, one per draw."""
    network = Network(1, N, "sigmoidal", scaling)
    keys = jax.random.split(jax.random.fold_in(key, 500), len(narrow))
    return [generalization.sampled(one, network, T, k) for one, k in zip(narrow, keys, strict=True)]


# %% tags=["hide-input"]
def over_widths():
    """Variance of learned and of lazy networks at every width."""
    return {scaling: [predictor_variance(w, scaling) for w in widths] for scaling in ("non-lazy", "lazy")}


def on_projections():
    """Learned and lazy networks, errors of the theory, and the Gaussian process, on projected digits."""
    theory = np.array([generalization.predicted(one, "sigmoidal", T).error for one in narrow])
    process = [generalization.gaussian_process_error(one, "sigmoidal", T) for one in narrow]
    return on_narrow("non-lazy"), on_narrow("lazy"), theory, process


def on_own_task():
    """A network and the theory on the task of the last section."""
    stream = jax.random.fold_in(key, 600)
    theory = generalization.predicted(own, nonlinearity, T)
    return generalization.sampled(own, Network(1, N, nonlinearity), T, stream), theory


background = ThreadPoolExecutor(1)
later = {run: background.submit(run) for run in (over_widths, on_projections, on_own_task)}


# %%
def experiment(name, draw, normalization="standardize", **options):
    """One draw of the images: sampled network, theory and Gaussian process."""
    task = tasks.mnist(P, settings.num_test, seed=seed + draw, normalization=normalization)
    stream = jax.random.fold_in(jax.random.fold_in(key, NAMES.index(name)), draw)
    sampled = generalization.sampled(task, Network(1, N, name), T, stream, **options)
    theory = generalization.predicted(task, name, T)
    return task, sampled, theory, generalization.gaussian_process_error(task, name, T)


runs = {name: [experiment(name, draw) for draw in range(settings.num_draws)] for name in NAMES}
task = runs["linear"][0][0]

# %% tags=["hide-input"]
solutions = [run[2].solution for name in NAMES[1:] for run in runs[name]]
glue("worst_gap_sigmoidal", max(run[2].solution.residual for run in runs["sigmoidal"]), display=False)
glue("worst_gap_relu", max(run[2].solution.residual for run in runs["relu"]), display=False)
glue("num_outliers", len(runs["relu"][0][2].solution.readouts), display=False)
glue("num_kinds", len(runs["sigmoidal"][0][2].solution.readouts), display=False)
assert all(solution.converged for solution in solutions)

# %% [markdown]
# The theory finds {glue:text}`num_kinds` kinds of sigmoidal neurons and {glue:text}`num_outliers` ReLU
# outliers on the first draw; the energy is within a fraction {glue:text}`worst_gap_sigmoidal:.0e` and
# {glue:text}`worst_gap_relu:.0e` of its minimum on every draw.
#
# ### Test images activate the code of their class


# %% tags=["hide-input"]
def test_activations(linear, sigmoidal, relu, labels):
    """Activations of sampled networks on test images, neurons sorted; for ReLU the ten most active."""
    figure, axes = plt.subplots(1, 3, figsize=(figures.WIDTH, 3.2))
    for axis, panel, title in zip(
        axes, (linear, sigmoidal, relu), ("linear", "sigmoidal", "ReLU"), strict=True
    ):
        scale = {"vmin": -np.abs(panel).max(), "vmax": np.abs(panel).max(), "cmap": "RdBu_r"}
        scale = scale if title == "linear" else {"vmin": 0, "vmax": panel.max(), "cmap": "viridis"}
        image = axis.imshow(panel, aspect="auto", **scale)
        edges = np.flatnonzero(np.diff(labels)) + 0.5
        axis.vlines(edges, -0.5, len(panel) - 0.5, color="white" if title != "linear" else "black", lw=0.8)
        axis.set(title=title, xlabel="test image, by digit", xticks=[])
        figure.colorbar(image, ax=axis, location="bottom", label=r"$\phi(z)$", fraction=0.06)
    axes[0].set_ylabel("neuron")
    return figure


shown = np.linspace(0, settings.num_test - 1, 100).astype(int)
panels = {name: runs[name][0][1].test_activations[:, shown] for name in NAMES}
codes = coding.codes(runs["sigmoidal"][0][1].training_activations, task.labels)
panels["sigmoidal"] = panels["sigmoidal"][coding.sort_by_code(codes, panels["sigmoidal"])]
for name in ("linear", "relu"):
    panels[name] = panels[name][coding.sort_by_activity(panels[name])]
panels["relu"] = panels["relu"][:10]
figures.publish(test_activations, "test_activations", labels=task.test_labels[shown], **panels)

# %% [markdown]
# The linear network answers in graded mixtures, the sigmoidal one in codes shared by groups of neurons, the
# ReLU network with a few very active neurons. To put a number on it we ask how much of the variance of
# single responses is explained by *the neuron's mean response to the class on training images*: once on the
# training images themselves, once on test images. A lazy sigmoidal network of the same size is the control.

# %%
lazy_network = Network(1, N, "sigmoidal", "lazy")
lazy = [
    generalization.sampled(run[0], lazy_network, T, jax.random.fold_in(key, 50)) for run in runs["sigmoidal"]
]


def transfer(task, sampled):
    """R² of the training code on training and on test images."""
    return generalization.code_transfer(
        sampled.training_activations, task.labels, sampled.test_activations, task.test_labels
    )


explained = {name: np.array([transfer(*run[:2]) for run in runs[name]]) for name in NAMES}
lazy_explained = np.array([transfer(run[0], one) for run, one in zip(runs["linear"], lazy, strict=True)])

# %%
for name in NAMES:
    train, test = explained[name].mean(axis=0)
    check(
        "A28",
        f"variance of test responses explained by the training code, {name} (of training ones: {train:.2f})",
        test,
        lambda value: value > 0.4,
        "at least 0.4",
        ("lazy sigmoidal network", lazy_explained[:, 1].mean()),
        "the code of single neurons blurs on unseen images at this number of images",
        uncertainty=explained[name][:, 1].std(ddof=1) / np.sqrt(settings.num_draws),
    )


# %%
def neuron_codes(name, task, sampled):
    """Codes on training and on test images: all neurons (sigmoidal), or the three most active (ReLU)."""
    pairs = (sampled.training_activations, task.labels), (sampled.test_activations, task.test_labels)
    if name == "sigmoidal":
        return [coding.codes(*pair) for pair in pairs]
    means = [coding.class_means(*pair) for pair in pairs]
    largest = np.argsort(-means[0].max(axis=1))[:3]
    return [m[largest] > 0.5 * m[largest].max(axis=1, keepdims=True) for m in means]


for name in NAMES[1:]:
    found = [coding.code_agreement(*neuron_codes(name, *run[:2])) for run in runs[name]]
    agree, chance = (np.mean([getattr(one, field) for one in found]) for field in ("neurons", "chance"))
    quantity = f"fraction of neurons with one code on training and test images, {name}"
    control = ("codes matched at random", chance)
    check("A28", quantity, agree, lambda v: v > 0.9, "at least 0.9", control, "codes of some neurons change")

# %% [markdown]
# ### The kernel on test images
#
# The kernel $\langle\phi(x)^\top\phi(x')\rangle/N$ shows the classes as blocks. One subtlety: for a
# balanced task with targets that sum to zero, a sigmoidal neuron with code 1-0-0 and readout $a$ does the
# work of one with code 0-1-1 and readout $-a$. Only entropy decides between them, at relative order $1/P$,
# and a sampler started at the prior does not reach that balance (see the chapter on redundant coding).
# Swapping a code for its complement changes the kernel by terms that are constant along rows or along
# columns; so we show kernels as they are, and compare them after centring.


# %% tags=["hide-input"]
def test_kernels(sampled, theory, names, labels):
    """Feature-layer kernels on test images: sampled above, theory below."""
    figure, axes = plt.subplots(2, 3, figsize=(figures.WIDTH, 4.6), layout="compressed")
    for column, name in enumerate(names):
        scale = {"vmin": min(0, sampled[column].min()), "vmax": np.quantile(sampled[column], 0.99)}
        for row, kernels in enumerate((sampled, theory)):
            image = axes[row, column].imshow(kernels[column], cmap="viridis", **scale)
            axes[row, column].set(xticks=[], yticks=[], title=f"{name}, {('sampled', 'theory')[row]}")
        figure.colorbar(image, ax=axes[:, column], location="bottom", label="kernel", fraction=0.05)
    for axis in axes[:, 0]:
        axis.set_ylabel("test image")
    return figure


kernels = [np.stack([runs[name][0][k].kernel[np.ix_(shown, shown)] for name in NAMES]) for k in (1, 2)]
figures.publish(
    test_kernels,
    "test_kernels",
    sampled=kernels[0],
    theory=kernels[1],
    names=TITLES,
    labels=task.test_labels[shown],
)


# %%
def alignment(name, other):
    """Centred alignment of the sampled kernel with another, mean over draws."""
    pairs = [(run[1].kernel, other(run)) for run in runs[name]]
    return float(np.mean([coding.kernel_alignment(*pair, centered=True) for pair in pairs]))


def prior_kernel(name):
    """The kernel before learning, as a function of a run."""
    return lambda run: gaussian_process.prior_kernels(run[0].test_inputs, nonlinearity=name)[-1]


for name in NAMES[1:]:
    check(
        "A26",
        f"alignment of the test kernel with theory, {name}",
        alignment(name, lambda run: run[2].kernel),
        lambda value: value > 0.95,
        "at least 0.95",
        ("with the kernel of the prior", alignment(name, prior_kernel(name))),
        "the theory's shares of the codes are not those of the chains",
        expected=1.0,
    )

# %% [markdown]
# ### The mean predictor


# %% tags=["hide-input"]
def mean_predictors(sampled, theory, names, labels, colors):
    """Mean predictor for digit 0 on test images: samples as dots, theory as a line."""
    figure, axes = plt.subplots(3, 1, figsize=(figures.WIDTH, 4.8), sharex=True, sharey=True)
    position = np.arange(len(labels))
    for axis, one, other, name, color in zip(axes, sampled, theory, names, colors, strict=True):
        axis.plot(position, one, "o", color=color, markersize=3.5, label="sampled")
        axis.plot(position, other, color="#1A1A1A", linewidth=0.9, label="theory")
        axis.set(ylabel=r"$\langle f_0 \rangle$", title=name)
        axis.vlines(np.flatnonzero(np.diff(labels)) + 0.5, -0.8, 1.3, color="#B0B0B0", linewidth=0.8)
    axes[0].legend(ncols=2, loc="upper right")
    axes[-1].set_xlabel("test image, sorted by digit")
    return figure


figures.publish(
    mean_predictors,
    "mean_predictor",
    sampled=np.stack([runs[name][0][1].predictor[shown, 0] for name in NAMES]),
    theory=np.stack([runs[name][0][2].predictor[shown, 0] for name in NAMES]),
    names=TITLES,
    labels=task.test_labels[shown],
    colors=[figures.COLORS[name] for name in NAMES],
)


# %%
def distance(predictor, reference):
    """Relative root-mean-square distance between two predictors."""
    return float(np.linalg.norm(predictor - reference) / np.linalg.norm(reference))


def process_mean(task, name):
    return gaussian_process.solve(task, name, temperature=T).predict(task.test_inputs)


to_process = {n: np.mean([distance(r[1].predictor, process_mean(r[0], n)) for r in runs[n]]) for n in NAMES}
check(
    "A25",
    "relative distance between the linear mean predictor and the Gaussian process's",
    to_process["linear"],
    lambda value: value < 0.02,
    0.02,
    ("sigmoidal network and sigmoidal process", to_process["sigmoidal"]),
    "both are at finite T, which enters the two predictors differently",
    expected=0.0,
)

# %% [markdown]
# ### Errors class by class


# %% tags=["hide-input"]
def class_errors(sampled, theory, process, names, colors, classes):
    """Error of each class, mean and standard error over draws: bars, circles, triangles."""
    figure, grid = plt.subplots(1, len(names), figsize=(figures.WIDTH, 3.2), sharey=True, squeeze=False)
    axes, position = grid[0], np.arange(sampled.shape[2])

    def mean_and_error(errors):
        draws = errors.shape[0]
        return errors.mean(axis=0), errors.std(axis=0, ddof=1) / draws**0.5 if draws > 1 else None

    for k, axis in enumerate(axes):
        mean, error = mean_and_error(sampled[k])
        axis.bar(position, mean, 0.6, yerr=error, color=colors[k], alpha=0.75, capsize=5, label="sampled")
        for errors, marker, color, shift, label in (
            (theory[k], "o", "#1A1A1A", -0.15, "theory"),
            (process[k], "^", "#8C6BB1", 0.15, "Gaussian process"),
        ):
            mean, error = mean_and_error(errors)
            axis.errorbar(position + shift, mean, error, fmt=marker, color=color, capsize=2, label=label)
        axis.set(title=names[k], xlabel="class")
        axis.set_xticks(position, classes)
    axes[0].set_ylabel(r"generalization error $\varepsilon_r$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def errors(runs):
    """Sampled, theory and process errors of all draws: (names, draws, m) each."""
    take = lambda f: np.array([[f(run) for run in runs[name]] for name in runs])  # noqa: E731
    return take(lambda r: r[1].error), take(lambda r: r[2].error), take(lambda r: r[3].total)


sampled, theory, process = errors(runs)
figures.publish(
    class_errors,
    "class_errors",
    sampled=sampled,
    theory=theory,
    process=process,
    names=TITLES,
    colors=[figures.COLORS[name] for name in NAMES],
    classes=task.class_names,
)


# %%
def saved(name):
    """Error saved by learning, over the variance of the Gaussian process."""
    gain = np.mean([(run[3].total - run[1].error).mean() for run in runs[name]])
    return gain / np.mean([run[3].variance.mean() for run in runs[name]])


check(
    "A25",
    "error saved by the linear network, over the variance of the Gaussian process",
    saved("linear"),
    lambda value: abs(value - 1) < 0.05,
    0.05,
    ("sigmoidal network and sigmoidal process", saved("sigmoidal")),
    "the network's own variance at this width",
    expected=1.0,
)

# %%
for k, name in enumerate(NAMES):
    relative = sampled[k].mean(axis=0) / theory[k].mean(axis=0) - 1
    against = process[k].mean(axis=0) / theory[k].mean(axis=0) - 1
    check(
        "A26",
        f"largest relative difference of class errors between sampling and theory, {name}",
        np.abs(relative).max(),
        lambda value: value < 0.1,
        0.1,
        ("Gaussian process in place of sampling", np.abs(against).max()),
        "chains from the prior freeze in other shares of the codes; see the planted ones below",
        expected=0.0,
    )

# %%
worst_ratio = (sampled / process).max(axis=(1, 2))
lazy_ratio = np.max([one.error / run[3].total for one, run in zip(lazy, runs["sigmoidal"], strict=True)])
for k, name in enumerate(NAMES):
    check(
        "A26",
        f"error over the Gaussian process's, largest of all classes and draws, {name}",
        worst_ratio[k],
        lambda value: value < 0.95,
        "below 0.95",
        ("lazy sigmoidal network", lazy_ratio),
        "one class of one draw is no better than the Gaussian process",
    )

# %% [markdown]
# Where does the gain come from? Against the *mean* of the Gaussian process alone, there is little left of
# it.

# %%
mean_ratio = np.array(
    [np.mean([run[1].mean_error.mean() / run[3].mean_error.mean() for run in runs[name]]) for name in NAMES]
)
total_ratio = (sampled.mean(axis=2) / process.mean(axis=2)).mean(axis=1)


def share_of_variance(name):
    """Part of the gain over the Gaussian process that is absent variance."""
    less = np.mean([(run[3].variance - run[1].variance.mean()).mean() for run in runs[name]])
    return less / np.mean([(run[3].total - run[1].error).mean() for run in runs[name]])


# %%
for k, name in enumerate(NAMES):
    check(
        "A33",
        f"error of the mean predictor over that of the Gaussian process's mean, {name}",
        mean_ratio[k],
        lambda value: value > 0.75,
        "a gain below 25 %",
        ("the same with the variances included", total_ratio[k]),
        "the mean itself is clearly better where codes saturate and the images are few; still "
        f"{share_of_variance(name):.0%} of this network's gain is the absent variance",
        expected=1.0,
    )

# %% [markdown]
# ### From the prior, and from the theory
#
# Neurons hardly ever change their code once the network has learned, so a chain keeps what it found on the
# way down from the prior. A second chain starts at the theory's solution, with $P_\gamma N$ neurons of each
# kind; it has nothing to anneal and half of the warm-up. If the two disagree, the first is not in
# equilibrium.


# %%
def from_theory(name, draw):
    """A chain started at the mean-field solution of a draw."""
    task, _, theory, _ = runs[name][draw]
    start = planting.planted(key, theory.solution, Posterior(task, Network(1, N, name), T))
    stream = jax.random.fold_in(key, 200 + 10 * NAMES.index(name) + draw)
    return generalization.sampled(task, Network(1, N, name), T, stream, init=start, num_warmup=150)


planted = {name: [from_theory(name, draw) for draw in range(settings.num_draws)] for name in NAMES[1:]}
for name in NAMES[1:]:
    energies = [
        np.mean([one.energy.mean() for one in ones]) for ones in ([r[1] for r in runs[name]], planted[name])
    ]
    glue(f"energy_prior_{name}", energies[0], display=False)
    glue(f"energy_planted_{name}", energies[1], display=False)
    worst = np.abs(
        np.mean([p.error for p in planted[name]], axis=0) / theory[NAMES.index(name)].mean(axis=0) - 1
    ).max()
    glue(f"planted_difference_{name}", 100 * worst, display=False)

# %% [markdown]
# The energy per neuron and image is {glue:text}`energy_prior_sigmoidal:.3f` from the prior and
# {glue:text}`energy_planted_sigmoidal:.3f` from the theory for sigmoidal networks: the state reached from
# the prior is *metastable*, with other shares of the same codes. For ReLU networks the two are
# {glue:text}`energy_prior_relu:.3f` and {glue:text}`energy_planted_relu:.3f`. Planted chains have class
# errors within {glue:text}`planted_difference_sigmoidal:.1f` % (sigmoidal) and
# {glue:text}`planted_difference_relu:.1f` % (ReLU) of the theory. The predictor hardly notices; the shares
# of the codes do.
#
# ### Where the theory's approximation fails
#
# What is neglected is the scatter of $z$ given $a$. An ensemble of neurons that samples {eq}`eq-gen-saddle`
# in a self-consistent field keeps it. On images it matters little, because a handful of strong directions
# of $K_0$ carry the signal; on the orthogonal inputs of the toy task, where every input fluctuates by
# itself, it matters much.


# %%
def neglected(solution, stream):
    """Largest change of a code's class-mean activation when fluctuations are kept."""
    ensemble = mean_field.neuron_ensemble(
        solution, jax.random.fold_in(key, stream), num_neurons=120, num_steps=120
    )
    changes = []
    for code, activations in zip(solution.codes, solution.activations, strict=True):
        same = (ensemble.codes == code).all(axis=1)
        changes.append(
            np.abs(ensemble.activations[same].mean(axis=0) - activations).max() if same.any() else 0
        )
    return max(changes)


toy = mean_field.solve(tasks.toy(P, y_minus=0.5, seed=seed), "sigmoidal", T)
glue("neglected_digits", neglected(runs["sigmoidal"][0][2].solution, 301), display=False)
glue("neglected_toy", neglected(toy, 302), display=False)

# %% [markdown]
# On digits the class means of the activations move by at most {glue:text}`neglected_digits:.3f`, on the toy
# task by {glue:text}`neglected_toy:.3f`.
#
# ## The predictor's variance falls with the width
#
# Neurons keep their codes within a chain, so this is the variance around one chain's own mean.

# %%
variances = later[over_widths].result()
fits = {scaling: statistics.fit_power_law(widths, values) for scaling, values in variances.items()}

# %%
check(
    "A27",
    "exponent of the predictor's variance in the width, sigmoidal",
    fits["non-lazy"].exponent,
    lambda value: abs(value + 1) < 0.3,
    0.3,
    ("lazy network", fits["lazy"].exponent),
    "corrections of higher order at small widths",
    expected=-1.0,
    uncertainty=fits["non-lazy"].standard_error,
)


# %% tags=["hide-input"]
def variance_scaling(widths, learned, lazy, exponents):
    """Predictor variance against the width, for networks that learn features and for lazy ones."""
    figure, axis = plt.subplots(figsize=(figures.WIDTH, 3.2))
    for values, color, label, exponent in (
        (learned, "#882255", "non-lazy", exponents[0]),
        (lazy, "#999999", "lazy", exponents[1]),
    ):
        line = np.exp(np.polyval(np.polyfit(np.log(widths), np.log(values), 1), np.log(widths)))
        axis.loglog(widths, values, "o", color=color, label=f"{label}, exponent {exponent:.2f}")
        axis.loglog(widths, line, color=color, linewidth=1)
    axis.set(xlabel="width $N$", ylabel="variance of $f$ on test images")
    axis.set_xticks(widths, [str(int(w)) for w in widths], minor=False)
    axis.minorticks_off()
    axis.legend()
    return figure


figures.publish(
    variance_scaling,
    "predictor_variance",
    widths=widths,
    learned=variances["non-lazy"],
    lazy=variances["lazy"],
    exponents=[fits["non-lazy"].exponent, fits["lazy"].exponent],
)

# %% [markdown]
# ## Another input normalisation
#
# The same with every image scaled to $|x|^2 = N_0$ and not centred.

# %%
draws = range(settings.num_scaled_draws)
scaled = {n: [experiment(n, draw, normalization="unit_norm") for draw in draws] for n in NAMES}
scaled_errors = errors(scaled)
below = (scaled_errors[0] / scaled_errors[2]).max(axis=(1, 2))
off = np.abs(scaled_errors[0].mean(axis=1) / scaled_errors[1].mean(axis=1) - 1).max(axis=1)
for k, name in enumerate(NAMES):
    check(
        "A26",
        f"unit norm, {name}: error over the Gaussian process's, worst class (theory: {100 * off[k]:.0f} %)",
        below[k],
        lambda value: value < 0.95,
        "below 0.95",
        ("lazy sigmoidal network, standardised", lazy_ratio),
        "one class is no better than the Gaussian process",
    )

# %% [markdown]
# ## More inputs than dimensions
#
# With a random projection of the images to half as many dimensions as there are images, $K_0$ is singular
# and not every set of preactivations is possible. The scheme stays redundant, and it still generalises.

# %%
squeezed, squeezed_lazy, squeezed_theory, squeezed_process = later[on_projections].result()

# %%
kept, lazy_kept = (
    np.array([transfer(*pair) for pair in zip(narrow, ones, strict=True)])
    for ones in (squeezed, squeezed_lazy)
)
shared = [
    int(np.sum(coding.occupancy(coding.codes(one.training_activations, task.labels)).fractions > 1.5 / N))
    for task, one in zip(narrow, squeezed, strict=True)
]
narrow_errors = np.array([one.error for one in squeezed])
narrow_lazy_errors = np.array([one.error for one in squeezed_lazy])
narrow_process = np.mean([one.total for one in squeezed_process], axis=0)
variances_saved = [
    np.mean([one.variance.mean() / one.total.mean() for one in ones])
    for ones in (squeezed_process, [run[3] for run in runs["sigmoidal"]])
]

# %%
check(
    "A29",
    f"projected digits, P = 2 N0: test responses explained by the code (training: {kept[:, 0].mean():.2f})",
    kept[:, 1].mean(),
    lambda value: value > 0.4,
    "at least 0.4",
    ("lazy network on the same projections", lazy_kept[:, 1].mean()),
    "the projection removes half of what is known of an image",
    uncertainty=kept[:, 1].std(ddof=1) / np.sqrt(len(kept)),
)

# %%
right = [
    np.mean(one.predictor.argmax(axis=1) == task.test_labels)
    for task, one in zip(narrow, squeezed, strict=True)
]
check(
    "A29",
    f"fraction of test images in the right class; codes shared by two neurons or more: {min(shared)}",
    np.mean(right),
    lambda value: value > 0.8 and min(shared) >= 2,
    "above 0.8, with shared codes in every draw",
    ("guessing", 1 / 3),
    "the projection removes half of what is known of an image",
    uncertainty=np.std(right, ddof=1) / np.sqrt(len(right)),
)
lazy_over_process = (narrow_lazy_errors.mean(axis=0) / narrow_process).max()
check(
    "A29",
    "error over the Gaussian process's, worst class of the mean over draws",
    (narrow_errors.mean(axis=0) / narrow_process).max(),
    lambda value: value < 0.95,
    "below 0.95",
    ("predicting the mean target", (narrow[0].test_targets.var(axis=0) / narrow_process).max()),
    f"little to save: variance is {variances_saved[0]:.0%} of the process's error here, and "
    f"{variances_saved[1]:.0%} without the projection; a lazy network of this width has "
    f"{lazy_over_process:.2f}",
)

# %% [markdown]
# The sampled class errors are {glue:text}`projected_errors` and the theory's {glue:text}`projected_theory`,
# means over the draws. There is less to gain than before: new images lie in the space that the training
# images span, so the Gaussian process is surer of itself, and its variance makes
# {glue:text}`projected_variance:.0f` % of its error instead of {glue:text}`unprojected_variance:.0f` %. And a
# lazy network as narrow as ours is no longer a Gaussian process: its error in the worst class is
# {glue:text}`projected_lazy:.2f` of the process's.

# %% tags=["hide-input"]
as_text = lambda values: ", ".join(f"{value:.3f}" for value in values)  # noqa: E731
glue("projected_errors", as_text(narrow_errors.mean(axis=0)), display=False)
glue("projected_theory", as_text(squeezed_theory.mean(axis=0)), display=False)
glue("projected_lazy", lazy_over_process, display=False)
glue("projected_variance", 100 * variances_saved[0], display=False)
glue("unprojected_variance", 100 * variances_saved[1], display=False)

# %% [markdown]
# ## Natural images: the code is learned, and lost
#
# CIFAR-10 does not come with this book, so this section draws stored results. They are made by `python -m
# experiments.generalization cifar --output data/results/cifar10-three-classes.npz` from exact CIFAR-10
# pixels, with the same number of digits beside them: $N = P = 100$, airplanes, automobiles and birds,
# sigmoidal.


# %% tags=["hide-input"]
def stored(name):
    """Arrays that a long job left in the repository."""
    return generalization.stored(FOLDER / name)


def digits_and_pictures(digits_train, digits_test, pictures_train, pictures_test):
    """Sigmoidal activations on training and test images, of digits and of natural images."""
    figure, axes = plt.subplots(2, 2, figsize=(figures.WIDTH, 4.8), sharey=True)
    rows = ((digits_train, digits_test), (pictures_train, pictures_test))
    for row, (pair, name) in enumerate(zip(rows, ("MNIST", "CIFAR-10"), strict=True)):
        for axis, panel, split in zip(axes[row], pair, ("training", "test"), strict=True):
            image = axis.imshow(panel, aspect="auto", vmin=0, vmax=1, cmap="viridis")
            axis.set(title=f"{name}, {split} images", xticks=[])
        axes[row, 0].set_ylabel("neuron")
    axes[1, 0].set_xlabel("image, by class")
    axes[1, 1].set_xlabel("image, by class")
    figure.colorbar(image, ax=axes, label=r"$\phi(z)$", fraction=0.03)
    return figure


pictures = stored("cifar10-three-classes.npz")
arranged = {}
for source, name in (("mnist", "digits"), ("cifar", "pictures")):
    train = pictures[f"{source}_training_activations"].astype(float)
    order = coding.sort_by_code(coding.codes(train, pictures[f"{source}_training_labels"]), train)
    arranged |= {f"{name}_train": train[order], f"{name}_test": pictures[f"{source}_test_activations"][order]}
figures.publish(digits_and_pictures, "digits_and_pictures", **arranged)

# %%
kept, lost = pictures["mnist_transfer"], pictures["cifar_transfer"]
check(
    "A30",
    "variance of responses explained by the training code, training and test images of CIFAR-10",
    lost.mean(axis=0),
    lambda value: value[0] > 0.9 and value[1] < 0.3,
    "above 0.9 on training, below 0.3 on test images",
    ("digits", kept.mean(axis=0)),
    "part of the code survives on test images",
    uncertainty=lost.std(axis=0, ddof=1) / np.sqrt(len(lost)),
)
guess = 0.5  # variance of the targets: the error of predicting their mean
check(
    "A30",
    "class error on CIFAR-10 over that of predicting the mean target",
    pictures["cifar_error"].mean() / guess,
    lambda value: value > 0.7,
    "above 0.7",
    ("digits", pictures["mnist_error"].mean() / guess),
    "better than the paper's figure suggests",
)

# %% tags=["hide-input"]
glue("cifar_wrong", 100 * pictures["cifar_misclassified"].mean(), display=False)
glue("mnist_wrong", 100 * pictures["mnist_misclassified"].mean(), display=False)
glue("cifar_theory", as_text(pictures["cifar_theory_error"].mean(axis=0)), display=False)
glue("cifar_sampled", as_text(pictures["cifar_error"].mean(axis=0)), display=False)

# %% [markdown]
# The mean predictor puts {glue:text}`cifar_wrong:.0f` % of the natural test images into the wrong class,
# against {glue:text}`mnist_wrong:.0f` % of the digits (guessing: 67 %). The theory sees it too: class
# errors {glue:text}`cifar_sampled` sampled, {glue:text}`cifar_theory` predicted.
#
# ## All ten classes
#
# Paper A goes on to all 50,000 training images and two hidden layers of 1,000 neurons, where the accuracy
# reaches 0.45. That run is this chapter's preset `full`, or `python -m experiments.large_run full --output
# …`; it writes a checkpoint after every block, resumes from it, refuses one of another configuration, and
# splits the images among the GPUs it finds. It needs a GPU and the complete data set. What is stored with
# the book is a scaled version on one core of a processor: width {glue:text}`ten_width`, $P$ up to
# {glue:text}`ten_largest` exact images, same depth and targets ($1$ and $-\tfrac1{10}$), $T =$
# {glue:text}`ten_temperature`.

# %% tags=["hide-input"]
files = sorted(FOLDER.glob("cifar10-P*.npz"), key=lambda path: int(path.stem.split("-P")[1]))
ten = [stored(path.name) for path in files]
if preset == "full":
    checkpoint = FOLDER.parents[1] / "_build" / "cifar10-full.checkpoint"
    ten.append(large_run.run(large_run.FULL, checkpoint=checkpoint, verbose=True))
manifests = [json.loads(str(result["manifest"])) for result in ten]
sizes = np.array([manifest["settings"]["num_inputs"] for manifest in manifests])
accuracy = np.array([float(result["accuracy"]) for result in ten])
num_tested = np.array([len(result["predictor"]) for result in ten])
accuracy_error = np.sqrt(accuracy * (1 - accuracy) / num_tested)
training = np.array([result["history"][-1, 1:3] for result in ten])
per_neuron = sizes * np.array([manifest["settings"]["width"] for manifest in manifests])
energies = np.array([result["history"][-1, 5] for result in ten]) / per_neuron

# %% tags=["hide-input"]
glue("ten_width", manifests[-1]["settings"]["width"], display=False)
glue("ten_largest", int(sizes[-1]), display=False)
glue("ten_temperature", manifests[-1]["settings"]["temperature"], display=False)
glue("ten_rate", manifests[-1]["gradient_rate"] / 1e12, display=False)
glue("ten_gemm", manifests[-1]["matrix_product_rate"] / 1e12, display=False)
glue("ten_training", training[:, 1].min(), display=False)
glue("ten_residual", training[-1, 0], display=False)
glue("ten_energies", ", ".join(f"{energy:.0f}" for energy in energies), display=False)


# %% tags=["hide-input"]
def all_of_cifar(activations, labels, readouts, predictor, targets, names):
    """Fig. 7: both layers on training and test images; readouts; one output on test images."""
    figure, grid = plt.subplots(2, 3, figsize=(figures.WIDTH, 5.4), layout="compressed")
    panels = zip(grid[:, :2].ravel(), activations, labels, names, strict=True)
    for axis, panel, classes, name in panels:
        image = axis.imshow(panel, aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
        edges = np.flatnonzero(np.diff(classes)) + 0.5
        axis.vlines(edges, -0.5, len(panel) - 0.5, color="white", linewidth=0.5)
        axis.set(title=name, xlabel="image, by class", ylabel="neuron", xticks=[])
    figure.colorbar(image, ax=grid[1, :2], location="bottom", label=r"$\phi(z)$", fraction=0.05)
    scale = np.quantile(np.abs(readouts), 0.99)
    image = grid[0, 2].imshow(readouts, aspect="auto", cmap="RdBu_r", vmin=-scale, vmax=scale)
    grid[0, 2].set(title="readouts", xlabel="class", xticks=range(0, readouts.shape[1], 3))
    figure.colorbar(image, ax=grid[0, 2], label="$a$", fraction=0.06)
    grid[1, 2].plot(predictor, ".", color="#5B7C99", markersize=3)
    grid[1, 2].plot(targets, color="#1A1A1A", linewidth=1)
    grid[1, 2].set(title="output and target", xlabel="test image, by class", ylabel=r"$\langle f_0 \rangle$")
    return figure


# %% tags=["hide-input"]
def by_class(result, layer):
    """100 neurons sorted by their training code, on training and on test images sorted by class."""
    pairs = [(result[f"{split}_activations_{layer}"], result[f"{split}_labels"]) for split in KEPT]
    count = min(len(labels) for _, labels in pairs)  # of images shown, the same in all panels
    kept = [np.argsort(x, kind="stable")[np.linspace(0, len(x) - 1, count).astype(int)] for _, x in pairs]
    panels = [panel[:, rows].astype(float) for (panel, _), rows in zip(pairs, kept, strict=True)]
    labels = [x[rows] for (_, x), rows in zip(pairs, kept, strict=True)]
    order = coding.sort_by_code(coding.codes(panels[0], labels[0]), panels[0])
    return [panel[order] for panel in panels], labels, order


KEPT, largest = ("training", "test"), ten[-1]
(first, labels, _), (feature, _, order) = (by_class(largest, layer) for layer in (1, 2))
sorted_test = np.argsort(largest["test_targets"].argmax(axis=1), kind="stable")
figures.publish(
    all_of_cifar,
    "ten_classes",
    activations=[first[0], feature[0], first[1], feature[1]],
    labels=[labels[0], labels[0], labels[1], labels[1]],
    readouts=largest["readouts"][:100][order],
    predictor=largest["predictor"][sorted_test, 0],
    targets=largest["test_targets"][sorted_test, 0],
    names=[f"layer {k}, {split}" for split in KEPT for k in (1, 2)],
)


# %%
def layer_transfer(result, layer):
    """R² of the training code on training and test images, one layer of a stored run."""
    keys = ("training_activations_{}", "training_labels", "test_activations_{}", "test_labels")
    return generalization.code_transfer(*(result[key.format(layer)] for key in keys))


def entries_kept(result, layer):
    """Share of (neuron, class) entries of the code that class means on test images keep; and by chance."""
    codes = [result[f"{split}_class_means_{layer}"] > 0.5 for split in KEPT]
    active = [code.mean(axis=0) for code in codes]
    chance = np.mean(active[0] * active[1] + (1 - active[0]) * (1 - active[1]))
    return coding.code_agreement(*codes).entries, chance


layers = (1, 2)
transfers = np.array([[layer_transfer(result, layer) for layer in layers] for result in ten])
entries = np.array([[entries_kept(result, layer) for layer in layers] for result in ten])


# %% tags=["hide-input"]
def trend(sizes, accuracy, error, explained, kept):
    """Against P: test accuracy; training responses explained by the code; entries that test images keep."""
    figure, axes = plt.subplots(1, 3, figsize=(figures.WIDTH, 3.2))
    axes[0].errorbar(sizes, accuracy, error, fmt="o-", color="#CC6677", capsize=3)
    axes[0].axhline(0.1, color="#B0B0B0", linestyle=":", label="chance")
    axes[0].set(title="test accuracy", ylim=(0, None))
    for layer, marker in ((0, "s"), (1, "o")):
        name = ("layer 1", "layer 2")[layer]
        axes[1].plot(sizes, explained[:, layer], marker + "-", color="#332288", label=name)
        axes[2].plot(sizes, kept[:, layer, 0], marker + "-", color="#CC6677", label=name)
    axes[1].set(title="training responses explained", ylim=(0, 1.05))
    axes[2].plot(sizes, kept[:, 1, 1], ":", color="#B0B0B0", label="chance, layer 2")
    axes[2].set(title="code kept on test images", ylim=(0, 1.05))
    for axis in axes:
        axis.set(xscale="log", xlabel="training images $P$")
        axis.title.set_fontsize(10)
        axis.set_xticks(sizes, [str(size) for size in sizes], rotation=60)
        axis.minorticks_off()
        axis.legend(fontsize=8, loc="center right" if axis is axes[1] else "lower right")
    return figure


figures.publish(
    trend,
    "ten_classes_trend",
    sizes=sizes,
    accuracy=accuracy,
    error=accuracy_error,
    explained=transfers[:, :, 0],
    kept=entries,
)

# %%
rise = (accuracy[-1] - accuracy[0]) / np.hypot(accuracy_error[-1], accuracy_error[0])
check(
    "A31",
    f"rise of the test accuracy from P = {sizes[0]} to {sizes[-1]}, in standard errors",
    rise,
    lambda value: value > 5,
    "above 5",
    ("from P to the same P", 0.0),
    f"accuracies {', '.join(f'{value:.3f}' for value in accuracy)}: the larger the set, the farther from "
    f"equilibrium its chain ended (energy per neuron and image {', '.join(f'{e:.0f}' for e in energies)})",
)
at_scale = sizes[-1] == 50_000
check(
    "A31",
    f"test accuracy, largest P at hand: {sizes[-1]} (training accuracy {training[-1, 1]:.2f})",
    accuracy[-1],
    lambda value: at_scale and abs(value - 0.45) < 0.03,
    "0.45 ± 0.03, at P = 50,000 alone",
    ("chance", 0.1),
    f"needs the preset full: this run has {sizes[-1] / 50_000:.0%} of the images and width "
    f"{manifests[-1]['settings']['width']}",
    expected=0.45,
    uncertainty=accuracy_error[-1],
)

# %%
sharp = [transfers[-1, layer, 0] for layer in (0, 1)]
kept_entries = [entries[-1, layer, 0] for layer in (0, 1)]
check(
    "A31",
    "feature layer, largest stored P: training responses explained by the code; entries kept on test images",
    np.array([sharp[1], kept_entries[1]]),
    lambda value: value[0] > 0.9 and 0.6 < value[1] < 0.99,
    f"above 0.9; partly, between 0.6 and 0.99 (chance: {entries[-1, 1, 1]:.2f})",
    ("first layer", np.array([sharp[0], kept_entries[0]])),
    "at this P the feature layer is not coded sharply, or all or nothing of the code is kept",
)

# %% [markdown]
# The feature layer's code is sharp on training images, the first layer's is not. On test images single
# responses do not always follow it: a neuron is as decided as before, but often for the wrong class; on
# average over a class, most neurons still lean to the right side. The training set is fitted at every size
# (training accuracy {glue:text}`ten_training:.3f` or more, mean square residual {glue:text}`ten_residual:.1e`
# at the largest). What these runs do *not* show is equilibrium: the energies per neuron and image at
# their ends are {glue:text}`ten_energies`: the two smallest agree, the others are still on their way down.
# Above $P = 1000$ the temperature was lowered by minibatches in far fewer epochs. Their noise does not fall
# with $T$, so that the last part of the way is a quench, and a quench leaves other codes, silent neurons
# among them. The largest run's gradients went at
# {glue:text}`ten_rate:.3f` TFLOP/s on one core that it shared with other work, where a plain matrix product
# made {glue:text}`ten_gemm:.3f` right after it.

# %% [markdown]
# ## Reuse: new classes on old features
#
# Features that do not help the task itself may help another one. Networks that learned the digits 0, 1 and
# 2 see the digits 3 to 9; a ridge readout is fitted to a few examples of each and tested on the rest.
# Beside the learned features stand those of a lazy network trained on the same digits, and of a random one.
# (Stored results, as digits 3 to 9 do not come with the book: `python -m experiments.generalization
# reuse --output data/results/reuse-digits.npz`.)


# %% tags=["hide-input"]
def reuse_curves(shots, accuracy, pixels, names, kinds):
    """Few-shot accuracy on seven digits never trained on, against the examples per digit."""
    figure, axes = plt.subplots(1, len(names), figsize=(figures.WIDTH, 3.2), sharey=True)
    colors = ("#882255", "#999999", "#DDAA33")
    for axis, name, curves in zip(axes, names, accuracy, strict=True):
        for kind, values, color, marker in zip(kinds, curves, colors, "osv", strict=True):
            error = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
            axis.errorbar(
                shots, values.mean(axis=1), error, fmt=marker + "-", color=color, capsize=2, label=kind
            )
        axis.plot(shots, pixels.mean(axis=1), "k:", label="pixels")
        axis.set(xscale="log", title=name, xlabel="examples per digit", xticks=shots)
        axis.set_xticks(shots, [str(s) for s in shots])
        axis.minorticks_off()
    axes[0].set_ylabel("accuracy, digits 3 to 9")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


reuse = stored("reuse-digits.npz")
curves = {k: reuse[k] for k in ("shots", "accuracy", "pixels", "kinds")}
figures.publish(reuse_curves, "reuse", names=TITLES, **curves)


# %%
def directions(ones):
    """Directions that responses to test digits 0, 1 and 2 vary along, mean over draws."""
    return np.mean([generalization.effective_dimension(one.test_activations) for one in ones])


ten_shots = int(np.flatnonzero(reuse["shots"] == 10)[0])
for k, name in enumerate(NAMES):
    learned, lazily, random = reuse["accuracy"][k, :, ten_shots]
    difference = learned - lazily
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    check(
        "A33",
        f"few-shot accuracy on new digits, learned minus lazy features, 10 examples each, {name}",
        difference.mean(),
        lambda value, error=error: value > 3 * error,
        "more than 3 standard errors above 0",
        ("random features minus lazy ones", (random - lazily).mean()),
        "saturated codes tell 0, 1 and 2 apart and little else: already on those digits responses vary along "
        f"{directions([run[1] for run in runs[name]]):.1f} directions ({directions(lazy):.1f} in a lazy "
        "sigmoidal network); the paper leaves the question open",
        uncertainty=error,
    )

# %% [markdown]
# ## Another data set: clothes
#
# Nothing above is about digits. Trousers, sandals and boots of Fashion-MNIST, {glue:text}`fashion_draws`
# draws with $N = P = 100$ and 1,000 test images each, go through the same three functions. (Stored results:
# `python -m experiments.generalization fashion --output data/results/fashion-mnist.npz`; Fashion-MNIST is
# not bundled.)

# %% tags=["hide-input"]
clothes, CLOTHES = stored("fashion-mnist.npz"), ("sigmoidal", "relu")
glue("fashion_draws", len(clothes["sigmoidal_error"]), display=False)
of_clothes = {
    kind: np.array([clothes[f"{name}_{field}"] for name in CLOTHES])
    for kind, field in (("sampled", "error"), ("theory", "theory_error"), ("process", "process_error"))
}
colors = [figures.COLORS[name] for name in CLOTHES]
of_figure = {"names": TITLES[1:], "colors": colors, "classes": ("trousers", "sandals", "boots")}
figures.publish(class_errors, "fashion_errors", **of_clothes, **of_figure)
active = [clothes[f"{name}_test_activations"].astype(float) for name in CLOTHES]
codes = coding.codes(active[0], clothes["sigmoidal_test_labels"])
figures.publish(
    figures.activation_matrix,
    "fashion_activations",
    activations=active[0][coding.sort_by_code(codes, active[0])],
    labels=clothes["sigmoidal_test_labels"],
    titles=["Fashion-MNIST, sigmoidal: test images"],
)

# %%
for k, name in enumerate(CLOTHES):
    ours, ideal, against = (of_clothes[kind][k].mean(axis=0) for kind in ("sampled", "theory", "process"))
    below = f"{(ours / against).max():.2f} of the Gaussian process's or less"
    test_r2 = clothes[f"{name}_transfer"][:, 1].mean()
    check(
        "D5",
        f"clothes, {name}: largest relative difference of class errors from theory (errors {below}; "
        f"code explains {test_r2:.2f} of test responses)",
        np.abs(ours / ideal - 1).max(),
        lambda value: value < 0.1,
        0.1,
        ("Gaussian process in place of sampling", np.abs(against / ideal - 1).max()),
        "chains from the prior freeze in other shares of the codes",
        expected=0.0,
    )

# %% [markdown]
# ## Your own task
#
# All of this takes other data, classes, targets and nonlinearities. Set the parameters at the top, or type
#
#     make chapter NAME=generalization dataset=fashion_mnist classes=1,5,9 nonlinearity=sigmoidal y_minus=-0.5
#
# For Fashion-MNIST the library looks for its four files in `fashion-mnist/` of the folder named by
# `CODING_SCHEMES_DATA`, then in its download cache, then fetches them and checks their SHA-256 (files that a
# package compressed anew will do); without a connection it says which files to put where. The default below
# needs no download: the same digits with *another nonlinearity*, the odd and bounded error function, and
# other targets.

# %%
found, own_theory = later[on_own_task].result()

# %% tags=["hide-input"]
own_name = f"{own.name}, {nonlinearity}"
figures.publish(
    class_errors,
    "own_task_errors",
    sampled=found.error[None, None],
    theory=own_theory.error[None, None],
    process=own_process.total[None, None],
    names=[own_name],
    colors=["#56B4E9"],
    classes=own.class_names,
)
middle = 0.5 * (found.training_activations.min() + found.training_activations.max())
own_codes = coding.class_means(found.training_activations, own.labels) > middle
figures.publish(
    figures.activation_matrix,
    "own_task_activations",
    activations=found.test_activations[coding.sort_by_code(own_codes, found.test_activations)],
    labels=own.test_labels,
    titles=[f"{own_name}: test images"],
)

# %%
shuffled = np.random.default_rng(seed).permutation(own.test_targets)
shuffled_error = np.square(shuffled - found.predictor).mean(axis=0)
train_r2, test_r2 = transfer(own, found)
check(
    "D5",
    f"{own_name}: largest relative difference of class errors from theory "
    f"(code on training images {train_r2:.2f}, on test images {test_r2:.2f})",
    np.abs(found.error / own_theory.error - 1).max(),
    lambda value: value < 0.15,
    0.15,
    ("test labels shuffled", np.abs(shuffled_error / own_theory.error - 1).max()),
    "a single chain from the prior on a single draw",
    expected=0.0,
)

# %% [markdown]
# ## Takeaway
#
# - Analog, redundant and sparse codes carry over to unseen digits; the test kernel has their blocks.
# - A theory that neglects the fluctuations of single preactivations predicts the mean predictor of
#   sigmoidal and ReLU networks. Linear networks predict precisely what the Gaussian process does.
# - The lower error is mostly the absent variance, which falls with the width.
# - With 100 natural images the code is sharp on what was trained and gone on what was not.
# - The features serve the task they were learned on; whether they serve others, the last figure shows.
#
# **Limits.** One hidden layer except for CIFAR-10's ten classes; small $N$, so shares of codes fluctuate;
# chains from the prior are metastable in those shares; the theory's ReLU optimum has more and smaller
# outliers than the three the paper shows, and its duality gap closes to a per cent, not to machine
# precision. The full CIFAR-10 run of the paper needs the preset `full`.
