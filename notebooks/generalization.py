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
# **At a glance.** Networks that have learned handwritten digits answer digits they have never seen with the
# codes of their classes, analog, redundant or sparse as the nonlinearity has it, and theory predicts their
# answers image by image {cite:p}`vanmeegen2025`. Their errors are well below those of the Gaussian process,
# the infinitely wide lazy network with the same nonlinearity: learned features leave the predictor almost no
# *variance*, and those of sigmoidal networks give a better mean as well.
#
# *Did not come out:* that the mean gains little over the Gaussian process's. For sigmoidal networks it gains
# clearly, most on images that resemble the training images. *Needs:* the [primer](../book/primer.md).
# *Reading:* 8 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_inputs: int | None = None  # P, training images; None: the preset's
width: int | None = None  # N
num_draws: int | None = None  # independent draws of the images, each with networks of its own
num_test: int | None = None  # test images
temperature: float | None = None  # T, rescaled as in the primer

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import planting, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from companion import figures, presets
from experiments import digits, generalization
from experiments.generalization import Draw
from myst_nb import glue

quick = {"num_inputs": 50, "width": 50, "num_draws": 2, "num_test": 300, "temperature": 0.01}
quick |= {"num_projected": 1, "width_factors": (0.5, 1, 2), "scaled": ()}
quick |= {"num_chains": 2, "num_warmup": 120, "num_samples": 30}
paper = {"num_inputs": 100, "width": 100, "num_draws": 3, "num_test": 1000, "temperature": 0.01}
paper |= {"num_projected": 2, "width_factors": (0.4, 0.6, 1, 1.6), "scaled": generalization.SCHEMES}
paper |= {"num_chains": 4, "num_warmup": 200, "num_samples": 40}
given = {"num_inputs": num_inputs, "width": width, "num_draws": num_draws, "num_test": num_test}
settings = presets.choose(preset, quick=quick, paper=paper, given=given | {"temperature": temperature})
P, N, T = settings.num_inputs, settings.width, settings.temperature
counts = {name: getattr(settings, name) for name in ("num_chains", "num_samples", "num_warmup")}
counts |= {"thinning": 2, "store": generalization.STORE, "method": generalization.METHOD}
key = jax.random.key(seed)
SCHEMES = generalization.SCHEMES
sizes = f"N = {N}, P = {P}, T = {T}, {settings.num_test} test images"
for name, value in vars(settings).items():
    glue(name, value, display=False)

# %% [markdown]
# We draw {glue:text}`num_inputs` images of the digits 0, 1 and 2, with targets $1$ and $-\tfrac12$, and let
# networks of {glue:text}`width` neurons learn them, from two ends: from the prior, and from the solution of
# the theory. The Gaussian process of the infinitely wide lazy network sees the same images.


# %%
def learn(name, draw, **image_options):
    """Networks, theory and Gaussian process on one draw of the images."""
    task = tasks.mnist(P, settings.num_test, seed=seed + draw, **image_options)
    posterior = Posterior(task, Network(1, N, name), T)
    stream = jax.random.fold_in(jax.random.fold_in(key, SCHEMES.index(name)), draw)
    theory, process = generalization.predicted(task, name, T), generalization.process(task, name, T)
    options = counts | {"predict_inputs": task.test_inputs}
    planted = planting.planted(stream, theory.solution, posterior)
    starts = zip(jax.random.split(stream), ("prior", planted), strict=True)
    ends = [sample(posterior, one, init=start, **options) for one, start in starts]
    return Draw(task, generalization.measure(posterior, *ends), theory, process)


runs = {name: [learn(name, draw) for draw in range(settings.num_draws)] for name in SCHEMES}
first = {name: draws[0] for name, draws in runs.items()}
task = first["linear"].task

# %% tags=["hide-input"]
figures.publish(**digits.answers(first, sizes))

# %% [markdown]
# ## Codes on training images, codes on test images
#
# **Question.** Does a neuron mean the same on images that it was not trained on?
#
# Linear networks answer in graded mixtures, sigmoidal ones in codes shared by groups of neurons, ReLU
# networks with a few very active neurons. One number fits all three: how much of the variance of single
# responses is explained by *the neuron's mean response to the class on training images*, on test images. For
# sigmoidal neurons we also compare the codes themselves. For ReLU we count outliers: neurons that carry more
# than $1/\sqrt N$ of a class's squared activity. We count them in the samples, and in networks made of the
# theory's outliers and an untrained bulk. Lazy and untrained networks of the same size are the controls.

# %%
lazy = generalization.experiment(
    task, Network(1, N, "sigmoidal", "lazy"), T, jax.random.fold_in(key, 50), theory=False, **counts
)

# %% tags=["hide-input"]
digits.check_codes(runs, lazy)
digits.check_outliers(runs["relu"])

# %% [markdown]
# ## What theory predicts
#
# On the toy task inputs are orthogonal and everything decouples. Images are correlated: the preactivations
# of a neuron, $z \in \mathbb R^P$, are coupled through the input kernel $K_0$. Neurons are still independent
# in a common field $t$,
#
# $$
# \begin{gathered}
# P(a, z) \;\propto\; \mathcal N(a;\,0,\sigma_a^2)\;\mathcal N(z;\,0,K_0)\;e^{a^\top t^\top \phi(z)}, \\
# Y - \langle \phi(z)\,a^\top\rangle = T\,t .
# \end{gathered}
# $$ (eq-gen-saddle)
#
# For linear networks this is a Gaussian and [solved exactly](analog.ipynb). Otherwise paper A neglects how
# $z$ fluctuates around its most likely value given $a$: a neuron of kind $\gamma$ *has* preactivations
# $z_\gamma = K_0\,[\phi'(z_\gamma)\circ t\,a_\gamma]$ and readouts $a_\gamma = \sigma_a^2\,
# t^\top\phi(z_\gamma)$. What remains is a problem over the kinds and their shares $P_\gamma$, convex in the
# distribution of neurons over all preactivations,
#
# $$
# \begin{gathered}
# \min\; \tfrac12\,\mathrm{tr}\,Y^\top (K+T)^{-1} Y \\
# + \tfrac12\sum_\gamma P_\gamma\, z_\gamma^\top K_0^{-1} z_\gamma
# + \sum_\gamma P_\gamma\log P_\gamma, \\
# K = \sigma_a^2 \sum_\gamma P_\gamma\,\phi(z_\gamma)\phi(z_\gamma)^\top ,
# \end{gathered}
# $$ (eq-gen-convex)
#
# with $t = (K+T)^{-1}Y$. A kind that is missing shows in the gap to the dual problem, here at most
# {glue:text}`worst_gap_sigmoidal:.0e` (sigmoidal) and {glue:text}`worst_gap_relu:.0e` (ReLU) of the minimum.
# For the ReLU, cost and gain are of the same degree in $z$, so that a few neurons of size $\sqrt N$ do all
# the work: the sum runs over these outliers, without shares and entropy.
#
# On a new input, $z_\gamma(x) = k_0(x)^\top K_0^{-1} z_\gamma$ and $f(x) = \sum_\gamma P_\gamma\,
# \phi(z_\gamma(x))\, a_\gamma$. What the training images leave open in $z(x)$ is averaged over.

# %% tags=["hide-input"]
for name in ("sigmoidal", "relu"):
    glue(f"worst_gap_{name}", max(draw.theory.solution.residual for draw in runs[name]), display=False)
figures.publish(**digits.mean_predictors(first, sizes))

# %% tags=["hide-input"]
figures.publish(
    figures.kernel_matrices,
    "test_kernels",
    caption="The kernel on test images has the blocks of the classes, and those of the theory. Above: "
    "samples; below: theory; in units of the largest entries. For balanced classes, code 1-0-0 with readout "
    "$a$ does the work of 0-1-1 with $-a$; such swaps change the kernel by constants along rows and columns, "
    f"which the checks leave out. {sizes}, 90 shown. Paper A, Fig. 6b.",
    **digits.kernel_panels(first),
)

# %% [markdown]
# ## The error of every class
#
# A single network has the error
#
# $$
# \varepsilon_r = \frac1{P_*}\sum_\mu
# \Bigl\{ \bigl[y^r_\mu - \langle f_r(x_\mu)\rangle\bigr]^2 + \mathrm{Var}\, f_r(x_\mu) \Bigr\} ,
# $$ (eq-gen-error)
#
# whether learned or lazy. All comparisons below hold draw by draw, not only on average.

# %% tags=["hide-input"]
figures.publish(**digits.error_bars(runs, sizes))
digits.check_predictions(runs, lazy)

# %% [markdown]
# For linear networks the story is simple. Their mean predictor *is* the Gaussian process's, and what they
# save is its variance.

# %% tags=["hide-input"]
digits.check_linear(runs["linear"], runs["sigmoidal"])

# %% [markdown]
# Are these networks in equilibrium? Half of them were annealed from the prior, half started at the theory's
# solution. No sigmoidal neuron changes its code alone: on correlated images all others have adapted to what
# it does *within* the classes. The move [`convert`](../book/samplers.md) takes that along. It is accepted
# while networks are cooled, so that the shares of the codes freeze where they are nearly those of
# equilibrium: test errors from the two ends are at most {glue:text}`apart_sigmoidal:.1%` apart (linear
# {glue:text}`apart_linear:.1%`, ReLU {glue:text}`apart_relu:.1%`). All checks of this chapter are made *at
# either end by itself* nevertheless: what passes does not hang on where a network came from.

# %% tags=["hide-input"]
for name, draws in runs.items():
    glue(f"apart_{name}", max(draw.learned.equilibrium.apart for draw in draws), display=False)

# %% [markdown]
# ## The variance falls with the width
#
# **Question.** Why is the variance absent? In a network that learns features, outputs are averages over $N$
# neurons whose law is fixed by the task, so that their variance should be $O(1/N)$. In a lazy network it
# stays of order one.

# %%
widths = (N * np.array(settings.width_factors)).astype(int)
variances = digits.over_widths(first["sigmoidal"], lazy, widths, T, jax.random.fold_in(key, 70), **counts)

# %% tags=["hide-input"]
figures.publish(
    figures.scaling_plot,
    "predictor_variance",
    caption="The predictor's variance falls as 1/N where features are learned. Markers: sigmoidal networks, "
    f"variance over samples and networks, averaged over outputs and test images; lines: power laws. P = {P}, "
    f"T = {T}, first draw. Paper A, text.",
    **digits.variance_scaling(variances),
)
digits.check_variance(variances)

# %% [markdown]
# ## And the mean?
#
# The paper's discussion says that the mean predictor is hardly better than one on random features. We compare
# the means alone, network against Gaussian process: on all test images, and on the half of them that the
# training images span best, where the network knows most.

# %% tags=["hide-input"]
figures.publish(
    figures.bars,
    "means",
    caption="On all test images the mean gains little, sigmoidal networks excepted; on the half that the "
    "training images span best it gains more, linear networks excepted. Errors over the Gaussian process's: "
    "of the mean predictors, and, on all images, with the variances counted in. Bars: means over "
    f"{settings.num_draws} draws with standard errors. {sizes}. Paper A, Discussion.",
    groups=digits.TITLES,
    **digits.mean_bars(runs),
)
digits.check_means(runs)

# %% [markdown]
# ## Other inputs
#
# Paper A does not say how pixels are scaled. Ours are standardized over the training set; with images of
# unit norm, not centered, theory predicts the errors too (checked with the preset `paper`).
#
# With a random projection of the images to half as many dimensions as there are images, $K_0$ is singular
# and not every set of preactivations is possible. The scheme stays redundant, and still generalizes. There
# is less to gain: new images lie in the span of the training images, so that the Gaussian process is surer
# of itself. Its variance makes {glue:text}`projected_variance:.0%` of its error, against
# {glue:text}`unprojected_variance:.0%` without the projection.

# %%
scaled = {name: [learn(name, 0, normalization="unit_norm")] for name in settings.scaled}
projected = [
    tasks.projected(draw.task, P // 2, seed=seed + k)
    for k, draw in enumerate(runs["sigmoidal"][: settings.num_projected])
]
squeezed = [
    generalization.experiment(one, Network(1, N, "sigmoidal"), T, jax.random.fold_in(key, 80 + k), **counts)
    for k, one in enumerate(projected)
]
narrow_lazy = generalization.experiment(
    projected[0], Network(1, N, "sigmoidal", "lazy"), T, jax.random.fold_in(key, 90), theory=False, **counts
)

# %% tags=["hide-input"]
figures.publish(
    figures.activation_matrix,
    "projected",
    caption="With more images than dimensions the code is still redundant, and holds on test images. One "
    f"sigmoidal network, neurons by their code on training images; N = P = {N}, {P // 2} dimensions, "
    f"T = {T}. Paper A, supplement E.",
    titles=["training images", "test images"],
    **generalization.training_and_test(squeezed[0]),
)
digits.check_scaled(scaled)
digits.check_codes({"sigmoidal": squeezed}, narrow_lazy, "A29")
digits.check_projected(squeezed, T)
glue("projected_variance", digits.variance_share(squeezed), display=False)
glue("unprojected_variance", digits.variance_share(runs["sigmoidal"]), display=False)

# %% [markdown]
# ## What to take away
#
# - Analog, redundant and sparse codes carry over to unseen digits; the test kernel has their blocks.
# - A theory that neglects the fluctuations of single preactivations predicts the mean predictor of sigmoidal
#   and ReLU networks, image by image. The mean predictor of linear networks is the Gaussian process's.
# - In linear networks the whole gain, in ReLU networks most of it, is the absent variance, which falls as
#   $1/N$. In sigmoidal networks a better mean counts more still, most on images that resemble the training
#   images.
# - Where codes cease to carry over, and what the features are good for beyond their task, is the subject of
#   [the next chapter](images.ipynb).
#
# **Limits.** One hidden layer, three digits, small $N$. The duality gap of the ReLU's theory closes to about
# one per cent, not to machine precision.
