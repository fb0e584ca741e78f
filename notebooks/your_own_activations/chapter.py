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
# # Your own activations: which scheme does a network use?
#
# `diagnose` takes the activations of a layer and the classes of the inputs, from a network of any origin. It
# compares the layer with random rotations of its neurons, which change neither its kernel nor what can be
# read out of it. It answers **redundant**, **sparse**, **analog** or **undecided**, and gives the evidence.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
data: str | None = None  # your .npz or .csv file; None: a sampled network
num_networks: int | None = None  # networks of each known kind; None: the preset's

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import paths, tasks
from coding_schemes.data import read_activations
from coding_schemes.networks import Network
from companion import presets
from companion.findings import Control, Estimate, Finding, spread
from companion.predicates import above, below
from companion.publish import publish
from myst_nb import glue
from your_own_activations import runs

sizes = presets.sizes(runs, preset, num_networks=num_networks)
key = jax.random.key(seed)

# %% tags=["hide-input"]
from coding_schemes import diagnose

if data is None:  # one sampled sigmoidal network that learned three classes
    task = tasks.toy(60, y_minus=0.5, seed=seed)
    layers = runs.drawn(key, task, Network(1, 60, "sigmoidal"), num_networks=1)
    activations, labels, readouts = layers.activations[0], task.labels, layers.readouts[0]
else:
    activations, labels, readouts, names = read_activations(paths.located(data))
found = diagnose(activations, labels, readouts)


def evidence(activations, labels, rotated_two_levels, two_levels, rotated_participation, participation):
    """A layer sorted by its codes, and its two numbers among those of rotated neurons."""
    figure, (layer, *rest) = plt.subplots(1, 3, figsize=(6.4, 2.9), width_ratios=(1.5, 1, 1))
    largest, signed = np.abs(activations).max(), activations.min() < 0
    layer.imshow(
        activations,
        aspect="auto",
        cmap="RdBu" if signed else "Blues",
        vmin=-largest if signed else 0,
        vmax=largest,
    )
    edges = np.flatnonzero(np.diff(labels)) + 0.5
    layer.set(xlabel="input, by class", ylabel="neuron, by code")
    layer.set_xticks(edges, [""] * len(edges))
    pairs = ((rotated_two_levels, two_levels), (rotated_participation, participation))
    for axis, (cloud, value), title in zip(
        rest, pairs, ("explained\nby codes", "participation\nratio"), strict=True
    ):
        axis.hist(cloud, bins=30, color="0.55", edgecolor="none")
        axis.axvline(value, color="#D55E00")
        axis.set(xlabel=title, xticks=[0, 0.5, 1], xticklabels=["0", "½", "1"], yticks=[], xlim=(0, 1.02))
    return figure


publish(
    evidence,
    "evidence",
    caption=f"A layer that is {found.scheme}, and the two numbers that decide (orange) among those of its "
    "rotations (gray): the share of the differences between classes that two levels per class explain, and "
    "the fraction of neurons that carry them. A redundant layer lies far to the right of its rotations in "
    "the first, a sparse one far to the left in the second. Left: the layer, neurons sorted by their code.",
    tail=f"N = {len(found.codes)}, P = {len(labels)}. In none of the papers.",
    **runs.shown(activations, labels, found),
)

# %% [markdown]
# *Needs:* nothing; the schemes are those of [the first chapter](lazy_and_rich.ipynb). *Reading:* 6 minutes.
#
# Try it on a layer that has learned nothing: a linear one with random weights, on digits. It is called
# analog. That says nothing about learning, as we shall see.

# %%
import jax
from coding_schemes import diagnose, tasks

digits = tasks.mnist(60, 0)  # inputs (N0, P) in columns, and the class of each
W = jax.random.normal(jax.random.key(0), (200, digits.input_dim))
phi = W @ digits.inputs / digits.input_dim**0.5  # activations (N, P)
print(diagnose(phi, digits.labels).verdict)

# %% [markdown]
# For activations in a file,
#
# ```bash
# make chapter NAME=your_own_activations data=my.npz
# ```
#
# with arrays `activations` (neurons, inputs), `labels` (inputs) and perhaps `readouts`, or a `.csv` with
# one line per input, a column `label` and a column for each neuron. Labels are whole numbers or words.
#
# ## What is asked of a layer
#
# A rotation replaces each neuron by a mixture of all neurons. It leaves the kernel as it is and dissolves
# codes. We rotate only what differs from the average neuron, since otherwise every ReLU layer would stand
# out. A layer is called *redundant* if codes explain more of it than of its rotations, and *sparse* if fewer
# neurons carry it than carry any of them. It is *analog* if it cannot be told from its rotations although a
# redundant or a sparse layer of this size would stand out. Layers that are too small, and classes that differ
# no more than random groups, are *undecided*, as is everything else. The thresholds are in the docstring of
# {py:func}`~coding_schemes.diagnosis.diagnose`.
#
# Neurons that respond to no input are *dead*. Strong weight decay leaves many of them, and then few neurons
# carry all differences for a dull reason: the network has become narrow. Dead neurons are left out and
# counted.
#
# The verdict's numbers are these. *Codes explain* a share of the differences between class means. To measure
# it, each class gets two levels, on and off, and every neuron is set to one of them; the share is what this
# keeps of the differences. The *participation ratio* is the effective fraction of the neurons that carry the
# differences. Both are compared with those of many rotations. Here $p$ is the share of rotations that are at
# least as extreme as the layer. A layer stands out if $p$ is at most 0.01.

# %%
print(found.verdict)
for name, share in zip(found.occupancies.names[:8], found.occupancies.fractions, strict=False):
    print(f"  code {name}: {share:.0%} of the live neurons")

# %% [markdown]
# ## Can it be trusted?
#
# Linear, sigmoidal and ReLU networks drawn from the posterior are analog, redundant and sparse, as their
# chapters show. We draw some of each that learned the digits 0, 1 and 2. For comparison we take lazy
# networks that learned the same digits, and untrained ones. A lazy network hardly changes its features, so
# it should be called neither redundant nor sparse.

# %% tags=["hide-input"]
places = [
    runs.calls(jax.random.fold_in(key, width), tasks.mnist(P, 0, y_minus=-0.5), width, sizes.num_networks)
    for width, P in sizes.places
]
counts = np.sum([place.counts for place in places], axis=0)  # (nonlinearities, kinds, schemes)
n = counts[0, 0].sum()
named = [counts[1, 0, runs.REDUNDANT], counts[2, 0, runs.SPARSE]]
size = {"N": [width for width, _ in sizes.places], "P": sizes.places[0][1], "T": 0.01}
size |= {"networks of each kind": int(n)}
by_name = Finding(
    "D9",
    "share of sampled networks called by their name, at least (95 % confidence)",
    headline=True,
    sampled=runs.at_least(named, n),
    over=("sigmoidal: redundant", "ReLU: sparse"),
    size=size,
    figure="calls",
    control=Control(
        "lazy networks of the same nonlinearity",
        sampled=runs.at_least([counts[1, 1, runs.REDUNDANT], counts[2, 1, runs.SPARSE]], n),
    ),
)


def table(counts, rows, columns):
    """How many networks of each kind are called by each name."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    axis.imshow(counts, aspect="auto", cmap="Blues", vmax=1.6 * np.max(counts))
    for (row, column), count in np.ndenumerate(counts):
        axis.text(column, row, count, ha="center", va="center", color="0.1" if count else "0.6")
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0)
    axis.set_xlabel("called")
    return figure


by_name.draw(
    table,
    "Redundant and sparse networks are called by their names, and lazy or untrained ones hardly ever are. "
    "Analog is another matter: lazy and untrained linear networks are called so, too, and those of other "
    "nonlinearities are analog or undecided. Rows: how the network was made, all N together; columns: what "
    "it is called.",
    counts=counts.transpose(1, 0, 2).reshape(9, 4),
    rows=[f"{name}, {kind}" for kind in runs.KINDS for name in ("linear", "sigmoidal", "ReLU")],
    columns=runs.SCHEMES,
)
by_name.judge(above(0.75), because="at this size rotations themselves come near a scheme")

# %% tags=["hide-input"]
alarms = counts[..., [runs.REDUNDANT, runs.SPARSE]].sum((0, 2))  # by kind
Finding(
    "D9",
    "share called redundant or sparse, at most (95 % confidence)",
    sampled=runs.at_most(alarms[1:], 3 * n),
    over=("lazy", "untrained"),
    size=size,
    control=Control("sampled networks", sampled=runs.at_most(alarms[[0, 0]], 3 * n)),
).judge(below(0.1), because="lazy ReLU networks of few neurons must learn features")

# %% [markdown]
# "Analog" says how the differences between classes are spread over the neurons. It does not say that the
# network has learned anything. Digits of one class look alike, so the class means of a random layer differ,
# too. A linear layer with random weights has no preferred rotation, so it is called analog almost by
# definition. Lazy and untrained layers of other nonlinearities are called analog or undecided.
#
# Redundant and sparse do not say so either. Where the inputs of a class are nearly the same, a layer of steep
# neurons has codes with random weights. We try two such layers on the task of
# {py:func}`~coding_schemes.tasks.clustered`, one of steep sigmoids, and one of rectified neurons with a high
# threshold.

# %% tags=["hide-input"]
analog = counts[..., runs.ANALOG]
Finding(
    "D9",
    "share of linear networks called analog though lazy or untrained, at least (95 % confidence)",
    sampled=runs.at_least(analog[0, 1:], n),
    over=("lazy", "untrained"),
    size=size,
    control=Control("sampled sigmoidal and ReLU networks", sampled=runs.at_least(analog[1:, 0], n)),
).judge(above(0.5), because="wide random layers differ from their rotations by chance")

# %% tags=["hide-input"]
steep, mild, high = (
    runs.untrained(tasks.clustered(60, overlap=0.99), phi, num_networks=24)
    for phi in (runs.steep, jax.nn.sigmoid, runs.high)
)
Finding(
    "D9",
    "share of untrained layers of steep sigmoids called redundant, at least (95 % confidence)",
    sampled=runs.at_least(steep[runs.REDUNDANT], 24),
    size={"N": 100, "P": 60, "overlap": 0.99, "networks": 24},
    control=Control("the same with sigmoids of gain 1", sampled=runs.at_least(mild[runs.REDUNDANT], 24)),
).judge(above(0.5), because="inputs of a class must be nearly the same")
print(f"a high threshold: {high[runs.SPARSE]} of 24 untrained layers are called sparse")

# %% [markdown]
# The *readouts* of sampled networks tell more. With `readouts` given, `readout_share` is the part of their
# squared length in the directions in which the class means differ. A sampled network that has learned its
# features reads out of hardly anything else. Untrained networks have readouts in all directions, and a small
# share. In lazy networks the share lies between, {glue:text}`lazy_least` to {glue:text}`lazy_most` here:
# their readouts fit the targets, too, and so lean toward the class differences even of random features. Lazy
# networks of few neurons also learn their features a little.

# %% tags=["hide-input"]
share = np.concatenate([place.readout_share for place in places], axis=-1)
lazy = spread(share[:, 1].T)
learned = Finding(
    "D9",
    "share of the readouts in the span of the class differences, sampled networks",
    sampled=spread(share[:, 0].T),
    over=("linear", "sigmoidal", "ReLU"),
    size=size,
    figure="readout_share",
    control=Control("lazy networks", sampled=lazy),
)
learned.bars(
    "Readouts of networks that learned features point along the differences between classes; those of "
    "untrained networks do not. Bars: sampled networks; dots: lazy, triangles: untrained ones.",
    points={"lazy": lazy.value, "untrained": spread(share[:, 2].T).value},
    names=["sampled"],
    ylabel="share of the readouts",
)
learned.judge(above(0.5, 3), because="readouts fluctuate with temperature in directions that carry no class")
glue("lazy_least", f"{lazy.value.min():.2f}", display=False)
glue("lazy_most", f"{lazy.value.max():.2f}", display=False)

# %% [markdown]
# A large share does not prove that features were learned. Readouts may also be *fitted* to a layer that has
# learned nothing, with a penalty on their length (ridge regression). We fit them to the untrained layers
# above. The penalty is the one that the posterior of the sampled networks has. It is strong, and such
# readouts lie along the class differences, too. With a tenth of it they lie there less.

# %% tags=["hide-input"]
fitted = np.concatenate([place.fitted_share for place in places], axis=-1)  # (nonlinearities, networks)
own = spread(share[:, 2].T)
Finding(
    "D9",
    "share of readouts fitted to untrained layers in the span of the class differences",
    sampled=spread(fitted[:, 0].T),
    over=("linear", "sigmoidal", "ReLU"),
    size=size,
    control=Control("these networks' own readouts", sampled=own),
).judge(above(0.5, 3), because="weak penalties fit every input by itself")
for name, weak in zip(("linear", "sigmoidal", "ReLU"), fitted[:, 1].mean(axis=-1), strict=True):
    print(f"{name}, a tenth of the penalty: {weak:.2f}")

# %% [markdown]
# ## Ten classes
#
# With three classes there are six codes that tell classes apart, and many neurons share each. With ten
# classes there are about a thousand. We draw networks that learned ten classes of orthogonal inputs. Codes
# still explain what a sigmoidal network does, but few of its neurons have the same one. Then there is little
# redundancy to see, and the answer is "undecided". Wider networks repeat their codes more: the networks of
# this section are too few and too small to say from which width on ten classes are called redundant. Where
# classes are alike and share neurons they can be, as for the large network on [images](images.ipynb).

# %% tags=["hide-input"]
ten = [runs.of_ten(jax.random.fold_in(key, 3), width, P, sizes.num_of_ten) for width, P in sizes.ten]
size_of_ten = {"N": [width for width, _ in sizes.ten], "P": [P for _, P in sizes.ten], "T": 0.01}
size_of_ten |= {"classes": 10, "networks": sizes.num_of_ten}
shared = spread(places[0].sharing[1])  # of three classes
Finding(
    "D9",
    "neurons with an average neuron's code, sigmoidal networks of ten classes",
    sampled=Estimate(*np.transpose([spread(each.sharing) for each in ten])),
    size=size_of_ten,
    control=Control("three classes", sampled=Estimate(*(np.full(len(ten), each) for each in shared))),
).judge(below(2, 3), because="there are more neurons than codes")
Finding(
    "D9",
    "share of sigmoidal networks of ten classes called undecided, at least (95 % confidence)",
    sampled=runs.at_least(sum(each.undecided for each in ten), len(ten) * sizes.num_of_ten),
    size=size_of_ten,
    control=Control("three classes", sampled=runs.at_least(counts[1, 0, runs.UNDECIDED], n)),
).judge(above(0.5), because="wide networks repeat their codes")
glue("ten_width", sizes.ten[-1][0], display=False)
glue("ten_codes", round(ten[-1].num_codes), display=False)
glue("ten_levels", f"{ten[-1].two_levels:.2f}", display=False)

# %% [markdown]
# The widest of these networks has {glue:text}`ten_width` neurons and, on average, {glue:text}`ten_codes`
# codes, which explain {glue:text}`ten_levels` of the differences between classes. Sparse networks are
# recognized as before, as long as their outliers, one for each class, are no more than a tenth of the
# neurons.

# %% tags=["hide-input"]
Finding(
    "D9",
    "share of ReLU networks of ten classes called sparse, at least (95 % confidence)",
    sampled=runs.at_least(sum(each.sparse for each in ten), len(ten) * sizes.num_of_ten),
    size=size_of_ten,
    control=Control(
        "untrained networks",
        sampled=runs.at_least(sum(each.untrained for each in ten), len(ten) * sizes.num_of_ten),
    ),
).judge(above(0.5), because="outliers have not merged to one for each class yet")

# %% [markdown]
# ## Networks trained elsewhere
#
# What do networks look like that an optimizer trained, without noise? Here are five, on digits. From small
# initial weights features are learned, and groups form. From usual ones, and without weight decay, little of
# the readouts of a network of one hidden layer lies along the class differences: most of their length is
# still that of the random start. The kernel changes all the same, by the fraction that is printed (the length
# of the change over that of the initial kernel). The last two are one with weight decay and a convolutional
# one. The scheme is often undecided.

# %%
task = tasks.mnist(sizes.num_inputs, 0, y_minus=-0.5, seed=seed)
trained = {
    "ReLU": runs.perceptron(task, key),
    "tanh": runs.perceptron(task, key, nonlinearity="tanh"),
    "tanh from small weights": runs.perceptron(task, key, nonlinearity="tanh", gain=0.1),
    "ReLU with weight decay": runs.perceptron(task, key, decay=1.0),
    "convolutional": runs.convolutional(task, key),
}
for name, network in trained.items():
    answer = diagnose(network.activations, task.labels, network.readouts)
    print(
        f"{name}: {network.accuracy:.0%} right, kernel changed by {network.kernel_change:.0%}, "
        f"{answer.readout_share:.2f} of the readouts; {answer.verdict}"
    )

# %% [markdown]
# A network that somebody else trained is given by its weights. With matrices `weights` of the hidden layers
# and inputs in columns, a layer's activations are
#
# ```python
# h = inputs  # (N0, P)
# for W in weights:  # (N, N0), then (N, N) for each further layer
#     h = phi(W @ h / W.shape[1] ** 0.5)  # scikit-learn: phi(coef.T @ h + intercept[:, None])
# diagnose(h, labels, readouts)  # readouts (N, m)
# ```
#
# The authors of the paper on coding schemes {cite:p}`vanmeegen2025` have published the weights that they
# sampled, and their code (figshare, doi
# [10.6084/m9.figshare.26539129](https://doi.org/10.6084/m9.figshare.26539129)). In their paper hidden weights
# have unit prior variance. If the files hold those weights, the lines above apply. The files could not be
# downloaded where this book was made, so we have not seen them.
#
# ## What to take away
#
# - Redundant and sparse coding of a few classes can be read off activations and labels alone. They stand out
#   against rotations that keep the kernel.
# - Whether the layer has *learned* its scheme cannot be read off in this way. A lazy or an untrained layer
#   can be called analog. On inputs that are nearly the same within a class an untrained one can be called
#   redundant or sparse.
# - The readouts of a sampled network tell whether it has learned features. Readouts fitted with a strong
#   penalty do not.
# - Ordinary training on little data, without weight decay, leaves most of the readouts' length where it was.
#   Its networks are often undecided.
#
# **Limits.** A scheme has to show in class *means*; a code within a class is not seen. With ten classes of
# orthogonal inputs we tried widths of 100 (and 300 at the paper's size), and saw no redundancy there. A
# neuron counts as dead if it varies over the inputs by less than a tenth of what silent neurons of a sparse
# scheme do.
#
# ## Exercises
#
# **1.** Predict first: what becomes of the verdict if the sampled layer's neurons are rotated at random?

# %% tags=["solution"]
turn = runs.rotation(len(activations), np.random.default_rng(1))
print(diagnose(turn @ np.asarray(activations, float), labels).verdict)

# %% [markdown]
# The kernel is the same, to the last digit, and the scheme is gone.
#
# **2.** How much noise on the activations hides a redundant scheme?

# %% tags=["solution"]
layer = np.where(np.arange(60)[:, None] % 2 == np.repeat([0, 1], 20), 0.9, 0.1)
for noise in (0.1, 0.3, 1, 3):
    noisy = layer + noise * np.random.default_rng(0).standard_normal(layer.shape)
    print(noise, diagnose(noisy, np.repeat([0, 1], 20)).scheme)

# %% [markdown]
# Noise averages out over the inputs of a class. It hides the code only when it is about as large as the gap
# between the two levels, 0.8. The layer is called undecided first. With more noise it is called analog,
# since little but noise is left, which looks like its rotations.
#
# **3.** Kill nine of ten neurons of that layer. What is it called?

# %% tags=["solution"]
dead = np.where(np.arange(60)[:, None] < 54, 0.5, layer)
print(diagnose(dead, np.repeat([0, 1], 20)).verdict)

# %% [markdown]
# Redundant, but this says little. Six live neurons are a narrow network, and no sparse code. Their codes
# explain all of the differences between classes, but of so few neurons codes explain nearly all in
# rotations, too.
