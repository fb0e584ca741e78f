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
# # Structure: what two-point dynamics says of representations
#
# **At a glance.** The [theory of two points](universality.ipynb) has one qualitative prediction for many:
# from small initial weights, points with the same target merge and others part; from large ones everything
# stays where it was {cite:p}`vanrossem2024`. Networks do this on XOR and on images with an
# irrelevant coordinate, and on handwritten digits in part. This book's own networks follow the equations
# when they descend from the prior; in the posterior the coding scheme decides who merges.
#
# *Did not come out:* sigmoidal networks sampled from the posterior merge inputs of a class although the
# theory lets them stay; and at very
# small weights the networks of preset `quick` may still be on their plateau. *Needs:* the theory of the [last
# chapter](universality.ipynb). *Reading:* 9 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
width: int | None = None  # units per hidden layer, XOR and two points; None: the preset's
num_positions: int | None = None  # blob positions along each axis
num_steps: int | None = None  # of training on digits

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import data, tasks
from companion import figures, presets
from experiments import representations as networks
from experiments import structure
from experiments.two_point import fit_arrays, learn, table
from experiments.two_point_figures import fit_panels, projections, square_matrices
from myst_nb import glue

quick = {"width": 100, "num_positions": 15, "faster": 4, "digits": "three", "num_steps": 6000}
quick |= {"records": 120, "num_inputs": 40}
quick |= {"schemes": {"sigmoidal": ("gibbs",), "relu": "auto"}}  # codes need not mix: any of them saturates
paper = {"width": 500, "num_positions": 30, "faster": 1, "digits": "ten", "num_steps": 23_400}
paper |= {"records": 60, "num_inputs": 100, "schemes": dict.fromkeys(("linear", "sigmoidal", "relu"), "auto")}
given = {"width": width, "num_positions": num_positions, "num_steps": num_steps}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
key = jax.random.key(seed)

# %%
blobs = tasks.blobs(settings.num_positions)
collapsed = {
    name: {size: networks.learn_blobs(key, size, phi, blobs, settings.faster) for size in networks.BLOBS}
    for name, phi in {"tanh": "tanh", "leaky ReLU": jax.nn.leaky_relu}.items()
}

# %% tags=["hide-input"]
figures.publish(
    projections,
    "feature_collapse",
    caption='From large ("high") weights a network keeps both coordinates in each context (squares, seen '
    "edge-on); from small ones it keeps the coordinate that is asked for; from very small ones both "
    "contexts fall onto one line, once the network has left its plateau. "
    "Representations halfway through 4 × 100 units on two principal axes, colored by the target; circles: "
    f"x asked for, squares: y. {blobs.num_inputs} images. Paper C, Figs 8 and 12, whose text names tanh and "
    "whose program trains leaky ReLU.",
    **structure.collapse_arrays(collapsed, blobs),
)

# %% [markdown]
# ## XOR
#
# **Question.** Which points does a deep network put together when the inputs do not suggest it?
#
# As in the chapter before, $H$, $Q$ and $w$ are the squared distances of representations and outputs of two
# points and how the latter are aligned with the targets; $\eta_h$ and $\eta_y$ are the two fitted rates.
# Two points with the same target have $|dy| = 0$. The final distance of the theory is then $H^* = \max(0,
# -C/\rho)$, with $\rho = \eta_y/(\eta_h|dx|^2)$ and $C = Q_0/H_0 - \rho H_0$: at most
# the initial distance, which is negligible beside the others at small weights, and all there is at large
# ones. In XOR 00 and 11 have one target, 01 and 10 the other. The theory
# is applied pair by pair, with the two rates of the default network on two points and the distances before
# training; it knows nothing of the other points, nor of the gain.

# %%
default = learn(key, table(settings.width)["default"])
rates = default.fit()
xor = {name: networks.learn_xor(key, name, settings.width, rates) for name in networks.XOR}
xor_adam = networks.learn_xor(key, "small", settings.width, rates, adam=True)

# %% tags=["hide-input"]
figures.publish(
    square_matrices,
    "xor",
    caption="Points with the same target merge at small initial weights and stay at large ones; a network "
    "with one hidden layer merges only one of the two pairs. Squared distances between the four "
    "representations halfway through the network, each panel in units of its largest: before training, in "
    f"theory, after training. 20 × {settings.width} leaky ReLU units (one layer: 1 × {settings.width}), one "
    "network each. Paper C, Figs 6 and 14 (theory matrices; Adam).",
    **structure.xor_arrays({**xor, "small, Adam": xor_adam}),
)
structure.check_xor(xor, xor_adam)

# %% [markdown]
# Gains and rates are those of the paper's table, up to two: its gain of 0.7 leaves the 20 layers on their
# plateau for longer than we can wait, and its authors' program has 0.85; we take 0.8. That program's loss
# is the mean square without the factor ½, so rates are doubled for ours.
#
# ## Two contexts, one irrelevant coordinate
#
# Images of a blob on a grid of positions; in one context the network reports the blob's $x$, in the other
# its $y$ (after Flesch et al.). In either the other coordinate is irrelevant: along it $|dy| = 0$, and at
# small weights the representation should collapse, as {numref}`fig-structure-feature-collapse` shows. At
# *very* small weights the contexts should merge too, since every point has a partner with the same target
# in the other; their inputs differ more, so this takes smaller weights. Collapse is measured by the
# variance along the irrelevant coordinate over that along the relevant one, the merging of the contexts by
# the squared distance of partners over the spread of a context.

# %%
blobs_adam = networks.learn_blobs(key, "low", jax.nn.leaky_relu, blobs, settings.faster, adam=True)

# %% tags=["hide-input"]
glue("faster", settings.faster, display=False)
structure.check_blobs(collapsed, blobs_adam, blobs.targets.var())

# %% [markdown]
# Small weights start on a plateau, where the network knows neither coordinate, and how long it takes to
# leave depends on the draw. A network that is still there at the end (its loss says so) has not collapsed
# onto anything, and its check fails. In this build rates are the published ones times {glue:text}`faster`,
# epochs divided by as much.
#
# ## Digits
#
# Among thousands of images no pair is alone. Still, the first zero and the first one of MNIST may follow the
# three equations. For the distances of all pairs the theory says $H^* \propto |dx||dy|$, which cannot hold
# for all at once: two images of one digit should coincide, and yet be at different distances from third ones.
# The paper mends this with $e^{-A} A\, e^{-A}$ (exponentials entry by entry), where $A = |dx||dy|$ for every
# pair. Distances of images are so large that the exponential is 1 within a digit and 0 elsewhere: for a pair
# of digits the *sum* of their images' distances comes out, in which the numbers of images drown what they
# look like. We normalize the weights, and predict the *mean* distance. So the prediction has two parts, *same
# digit or not*, which the labels alone give, and *which digits are far apart*. Only the second is a test.

# %%
images = data.mnist("train") if settings.digits == "ten" else data.mnist_subset()
digits = networks.learn_digits(key, images, settings.num_steps, settings.records)
digits_adam = networks.learn_digits(key, images, settings.num_steps // 6, settings.records // 6, adam=True)

# %% tags=["hide-input"]
glue("num_images", len(images), display=False)
glue("num_digits", len(np.unique(digits.labels)), display=False)
figures.publish(
    fit_panels,
    "two_digits",
    caption="Two digits among many follow the theory of two. Markers: the first zero and the first one of "
    f"{len(images)} images, halfway through 4 × 100 leaky ReLU units; lines: theory with two fitted rates; "
    "above: fit error of each, in units of its own variance; each in units of its largest value. Paper C, "
    "Fig. 4.",
    **structure.digit_arrays(digits),
)
figures.publish(
    square_matrices,
    "digit_distances",
    caption="The theory sees one number per pair of digits; networks see a little of it. Squared distances "
    "of a hundred images, sorted by digit, each panel in units of its largest: prediction with normalized "
    "weights, a network trained by gradient descent, and by Adam. Paper C, Figs 9 and 16.",
    **structure.distance_arrays(digits, digits_adam),
)
structure.check_digits(digits, digits_adam, seed)

# %% [markdown]
# This build trains on {glue:text}`num_images` images of {glue:text}`num_digits` digits. At the preset
# `paper` the learning rate is twenty times the published one (for our loss, which sums over outputs) and the
# epochs are a twentieth, so that the training time is the same.
#
# ## Adam
#
# The equations are those of gradient descent. Adam divides by the size of the gradients and so changes the
# dynamics; where training ends is a matter of fixed points and may survive. On two points the fit fails, as
# it should; what became of XOR, blobs and digits under Adam is checked above, beside gradient
# descent.

# %%
adam = learn(key, (table(settings.width)["default"][0], 1e-3 / settings.width), adam=True)

# %% tags=["hide-input"]
both = {"gradient descent": default, "Adam": adam}
figures.publish(
    fit_panels,
    "adam",
    caption="Adam leaves the theory of two points. Markers: the default network, 20 × "
    f"{settings.width} units; lines: theory with its two fitted rates; above: fit error. Paper C, Fig. 13.",
    columns=2,
    **fit_arrays(both, {name: network.fit() for name, network in both.items()}),
)
structure.check_adam(adam, default)

# %% [markdown]
# ## The networks of this book in the two-point measure
#
# **Question.** Do the networks of the other chapters follow this theory? It is not asked in the papers.
# Their representations are $\phi(z)/\sqrt N$, so that $H$ is made of entries of the kernel. Two tests.
#
# *Descent:* one hidden layer, non-lazy or lazy, weights from the prior, gradient descent on two orthogonal
# inputs with targets $\pm1$. These weights are not small, so the theory predicts no merging, but a final
# distance between the rich and the lazy limit.

# %%
cases = [(phi, scaling) for phi in ("linear", "sigmoidal", "relu") for scaling in ("non-lazy", "lazy")]
descents = {case: networks.descend(key, *case, settings.width, seed) for case in cases}

# %% tags=["hide-input"]
named = {f"{phi}, {scaling}": network for (phi, scaling), network in descents.items()}
figures.publish(
    fit_panels,
    "descents",
    caption="This book's networks follow the two-point theory when they descend from the prior: non-lazy "
    "ones (left) move their representations, lazy ones (right) hardly do. Markers: one network each, "
    f"N = {settings.width}; lines: theory with two fitted rates; above: fit error. Not in the papers.",
    columns=2,
    **fit_arrays(named, {name: network.fit() for name, network in named.items()}),
)
structure.check_descents(descents)

# %% [markdown]
# *Posterior:* the toy task with three classes. Outputs of the prior are of order $1/\sqrt N$, so $Q_0
# \approx 0$ and $C = -\rho H_0$. For a pair of one class, $|dy| = 0$, the theory says $H^* = H_0$, whatever
# the rates. Inputs of a class should stay as far apart as in the prior.

# %%
options = {"num_samples": 60, "thinning": 4, "num_chains": 8, "num_warmup": 100, "seed": seed}
sampled = {
    scheme: networks.sampled_distances(key, scheme, settings.num_inputs, 0.01, moves=moves, **options)
    for scheme, moves in settings.schemes.items()
}

# %% tags=["hide-input"]
figures.publish(
    figures.bars,
    "posterior",
    caption="In the posterior ReLU networks, and at preset paper linear ones, keep the prior's distances "
    "within a class, as the two-point theory has it (circles); sigmoidal codes saturate and take most of "
    "them away. Mean squared distances over the prior's, standard errors over 8 networks, N = P = "
    f"{settings.num_inputs}, T = 0.01. Not in the papers.",
    **structure.posterior_arrays(sampled),
)
structure.check_sampled(sampled)

# %% [markdown]
# ## What to take away
#
# - Small weights merge what has one target, large ones keep what was there: on XOR and on blobs the
#   qualitative prediction holds well beyond two points, under gradient descent and under Adam.
# - Quantitatively it is a theory of pairs. On digits most of its success is the labels' own.
# - Non-lazy networks from the prior follow the equations under descent, though their weights are not small.
#   In the posterior whether a class merges depends on the coding scheme: a saturated code leaves inputs of
#   a class no room to differ; an analog or sparse one leaves it. A theory of two points cannot see this.
#
# **Limits.** One network per case in the sections on XOR, blobs and digits. The preset `quick` has
# narrower networks, fewer blobs, and the three digits that come with the book.
