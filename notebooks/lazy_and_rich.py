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
# # Lazy and rich: when features are learned, and what kernels miss
#
# **At a glance.** Three networks with different nonlinearities solve the same task. Their kernels, which
# say how alike any two inputs look to the network, come out alike; their neurons do not. The neurons of the
# linear network carry the difference between the classes by degrees, all sigmoidal neurons carry it alike,
# and of the ReLU neurons two do it alone. Whether a network learns such features at all is decided by one
# factor in front of its readout.
#
# *Needs:* the [primer](../book/primer.md). *Reading:* 10 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P, neurons and training inputs; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain
num_chains: int | None = None

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from coding_schemes.theory import linear
from companion import figures, presets
from companion.workbench import draw
from experiments import lazy_and_rich, lazy_checks
from experiments.lazy_and_rich import SCALINGS, SCHEMES
from myst_nb import glue

quick = {"num_neurons": 64, "temperature": 0.01, "num_samples": 112, "num_chains": 4}
# warm-up, thinning, length of a trajectory: sigmoidal neurons are moved by `recode`
quick |= {"lengths": {"linear": (96, 1, 1.6), "sigmoidal": (96, 2, 0.8), "relu": (96, 1, 1.6)}}
quick |= {"fractions": (0.25, 0.4), "over_widths": ("linear",)}
paper = quick | {"num_neurons": 500, "num_samples": 64, "fractions": (0.1, 0.2, 0.4), "over_widths": SCHEMES}
paper |= {"lengths": {"linear": (96, 1, 1.6), "sigmoidal": (96, 3, 0.8), "relu": ((60, 60), 3, 1.6)}}
given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_samples": num_samples, "num_chains": num_chains}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, T = settings.num_neurons, settings.temperature
counts = {"num_samples": settings.num_samples, "num_chains": settings.num_chains}
options = {
    (name, scaling): counts | {"num_warmup": warmup, "thinning": thinning, "method": method}
    for name, (warmup, thinning, length) in settings.lengths.items()
    for scaling, method in lazy_and_rich.methods(name, N, length).items()
}
key = jax.random.key(seed)
glue("N", N, display=False)
glue("T", T, display=False)

# %% tags=["hide-input"]
task = lazy_and_rich.binary_task(N, seed)
runs = {
    scaling: {
        scheme: draw(
            jax.random.fold_in(key, 10 * i + j),
            task,
            Network(1, N, scheme, scaling),
            T,
            **options[scheme, scaling],
        )
        for j, scheme in enumerate(SCHEMES)
    }
    for i, scaling in enumerate(SCALINGS)
}
rich = runs["non-lazy"]

# %% tags=["hide-input"]
figures.publish(**lazy_checks.kernels_and_neurons(rich))

# %% [markdown]
# ## Two ways to make an output of order one
#
# **Question.** What makes a network learn features, rather than read out random ones?
#
# The output of a network with one hidden layer is the overlap of two vectors with $N$ components, the
# *feature vector* $\phi(z_{\cdot\mu})$ of the input and the *readout vector* $a$,
#
# $$
# \begin{gathered}
# f_\mu = s \sum_{i=1}^N a_i\, \phi(z_{i\mu}) = s\, |a|\, |\phi_\mu| \cos\theta_\mu, \\
# s = \begin{cases} N^{-1/2} & \text{lazy} \\ N^{-1} & \text{non-lazy.} \end{cases}
# \end{gathered}
# $$ (eq-lazy-output)
#
# If the components of both vectors are of order one, their norms are of order $\sqrt N$. The task wants
# $f_\mu = y_\mu$, of order one. In the lazy case the cosine then has to be of order $1/\sqrt N$: that is
# what two *random* vectors have, and a slight bias among random features suffices. In the non-lazy case it
# has to be of order one: features must be *aligned* with the readout, which means that they were learned.
#
# Everything hinges on "if the components are of order one". With the non-lazy scaling, readout variance
# $\sigma_a^2$ and temperature $T$, the posterior of the [primer](../book/primer.md) has the energy
#
# $$
# U = \frac{N}{2T}\, \Big\lVert y - \frac1N \sum_i a_i \phi_i \Big\rVert^2 + \frac{|a|^2}{2\sigma_a^2}
#     + \frac{\lVert W \rVert^2}{2} .
# $$ (eq-lazy-energy)
#
# Put $a = \sqrt N\, a'$: with $\sigma_a^2 = N$ and the temperature $N T$ this *is* the lazy network with
# $\sigma_{a'} = 1$ at temperature $T$. A network that may grow its readouts by a factor $\sqrt N$ undoes
# the non-lazy scaling; the readout variance $\sigma_a^2 = 1/P$ of our non-lazy networks prevents it.

# %% [markdown]
# ## Experiment: one task, two scalings
#
# Inputs are orthogonal, labels are drawn at random, targets are $\pm1$: nothing but the labels can be
# learned. Networks are drawn from the posterior ([how](../book/samplers.md)) in either scaling and at
# several widths, $N = P$ up to {glue:text}`N`, $T =$ {glue:text}`T`. Of each we keep the mean cosine
# $\langle y_\mu \cos\theta_\mu\rangle$ between features and readout, and how much the kernel $K_{\mu\nu} =
# \frac1N \sum_i \phi(z_{i\mu})\phi(z_{i\nu})$ has learned. Before learning it has the mean $K^{\rm prior}$,
# known in closed form {cite:p}`lee2018deep`; what was learned of the task is the *learned entry*
#
# $$
# c = \frac{1}{P(P-1)} \sum_{\mu \ne \nu} y_\mu y_\nu \big(K - K^{\rm prior}\big)_{\mu\nu} ,
# $$ (eq-lazy-learned)
#
# half of how much more alike two inputs of one class have become than two of different classes.

# %%
sizes = [round(N * fraction) for fraction in settings.fractions]
scans = {
    (scheme, scaling): lazy_and_rich.over_widths(
        jax.random.fold_in(key, 100 + k), runs[scaling][scheme], sizes, seed, **options[scheme, scaling]
    )
    for k, scheme in enumerate(settings.over_widths)
    for scaling in SCALINGS
}

# %% [markdown]
# ### The angle decides
#
# Any network that fits has an overlap of order one after the factor $s$. What distinguishes the scalings is
# the *angle*: the cosine stays where it is in non-lazy networks and falls as $N^{-1/2}$ in lazy ones.

# %% tags=["hide-input"]
figures.publish(**lazy_checks.angles(scans))
lazy_checks.check_angles(scans)

# %% [markdown]
# ### What the kernel learns
#
# The learned entry $c$ stays in non-lazy networks and vanishes as $1/N$ in lazy ones. For linear networks
# the saddle point of the [next chapter](analog.ipynb) predicts its value at every width, without a free
# parameter; the lazy network is the case $\sigma_a^2 = N$ at temperature $NT$.

# %% tags=["hide-input"]
figures.publish(**lazy_checks.learned_kernel(scans, T, seed))
lazy_checks.check_learned_kernel(scans, T, seed)

# %% [markdown]
# ## Same kernel, different neurons
#
# The rich kernels of {numref}`fig-lazy-and-rich-kernels-and-neurons` differ by a factor and a constant,
# which say nothing about classes. So we take the cosine between what two networks have learned, less its
# mean: {glue:text}`alignment_rich:.2f` for the least similar pair, {glue:text}`alignment_lazy:.2f` for lazy
# networks, whose kernels hold little but noise beyond the prior.
#
# The neurons are another matter. With $d_i$ the difference of a neuron's mean activations on the two
# classes, the *participation ratio* is the effective fraction of neurons that carry the difference,
#
# $$
# \rho = \frac{\big(\sum_i d_i^2\big)^2}{N \sum_i d_i^4} =
# \begin{cases} 1/3 & d_i \text{ Gaussian: analog} \\ 1 & d_i = \pm d \text{: redundant} \\
# n/N & n \text{ neurons alone: sparse.} \end{cases}
# $$ (eq-lazy-participation)
#
# In lazy networks it is 1/3 whatever the nonlinearity: their differences are those of random features.

# %%
alignment = {scaling: lazy_and_rich.smallest_alignment(runs[scaling]) for scaling in SCALINGS}

# %% tags=["hide-input"]
glue("alignment_rich", alignment["non-lazy"].mean(), display=False)
glue("alignment_lazy", alignment["lazy"].mean(), display=False)
lazy_checks.check_alike(runs, alignment)

# %% [markdown]
# ## A kernel does not see the code
#
# That the kernels agree is no accident of these three networks. Take the sigmoidal network and rotate
# neuron space, $\phi \to O_\alpha\,\phi$ and $a \to O_\alpha\, a$, by an angle $\alpha$: with a random
# orthogonal matrix $J$ whose square is $-1$, every $O_\alpha = \cos\alpha + J \sin\alpha$ is a rotation.
# Kernel and outputs stay what they were, number by number; the code is gone. The rotated activations are no
# longer values that the nonlinearity could take, and this is the point: *the nonlinearity chooses the axes*,
# and a theory that follows kernels alone has averaged the axes out. The symmetry that remains is that of
# renaming neurons.

# %%
linear_one, redundant = (lazy_and_rich.even(rich[name].samples.activations()[0, -1]) for name in SCHEMES[:2])
readouts = lazy_and_rich.even(rich["sigmoidal"].readouts[0, -1])
rotated, rotated_readouts, rotated_linear = (
    lazy_and_rich.quarter_turn(each, seed) for each in (redundant, readouts, linear_one)
)
change = np.abs(rotated.T @ rotated - redundant.T @ redundant).max() / N

# %% tags=["hide-input"]
both = (redundant, rotated), (readouts, rotated_readouts)
figures.publish(**lazy_checks.rotated(rich["sigmoidal"], *both, change))
lazy_checks.check_rotation(task.labels, (redundant, rotated), (linear_one, rotated_linear), change)

# %% [markdown]
# ## Neural collapse: what is true of it here
#
# Networks trained far beyond zero error often show *neural collapse* {cite:p}`papyan2020prevalence`: all
# inputs of a class end in one point of feature space (NC1), and the means of the $C$ classes, centered, form
# an equiangular tight frame (NC2), the corners of a regular simplex. For the networks of this book the second
# holds and the first does not. Class means always contain noise, and with classes of equal size the means
# of pure noise are equidistant, too: in an *untrained* network they pass for a frame. So we take the means
# of one half of each class against those of the other half, whose noise is independent: in a frame their
# cosines are 1 for one class and $-1/(C-1)$ for two; for noise they are 0. We take $C = 3$ equal classes
# and targets of 1 and $-\tfrac12$. With these targets, sigmoidal neurons hardly change their codes. So we
# start from both *ends*: some networks are annealed from the prior, as many start at the theory's solution,
# and what is said holds from either end.

# %%
EQUAL = (1 / 3, 1 / 3, 1 / 3)
equal = tasks.toy(3 * round(N / 3), EQUAL, y_minus=-0.5, seed=seed)
fewer = {"thinning": 1, "num_samples": (settings.num_samples + 1) // 2}
own = {scheme: options[scheme, "non-lazy"] | fewer for scheme in SCHEMES}
classes = {
    scheme: lazy_and_rich.both_starts(jax.random.fold_in(key, 50 + k), equal, scheme, N, T, **own[scheme])
    for k, scheme in enumerate(SCHEMES)
}
noise = {s: lazy_and_rich.untrained(key, ends.posterior, 8) for s, ends in classes.items()}

# %% tags=["hide-input"]
figures.publish(**lazy_checks.frames(classes, noise))
lazy_checks.check_frames(classes, noise)

# %% [markdown]
# Does the variability within classes vanish? A sigmoidal network of half the size tells: with $\Sigma_W$ and
# $\Sigma_B$ the covariances of activations within classes and of the class means, the ratio
# $\mathrm{tr}\,\Sigma_W / \mathrm{tr}\,\Sigma_B$ stays, as
# every neuron keeps fluctuating across the inputs of a class. (The usual measure, $\mathrm{tr}(\Sigma_W
# \Sigma_B^+)/C$, looks only along the directions of the means, on which the independent fluctuations of $N$
# neurons average out. It falls as $1/N$ although no neuron becomes quieter.)

# %% tags=["hide-input"]
halved = tasks.toy(3 * round(N / 6), EQUAL, y_minus=-0.5, seed=seed)
half = (halved, "sigmoidal", N // 2, T)
smaller = lazy_and_rich.both_starts(jax.random.fold_in(key, 60), *half, **own["sigmoidal"])
lazy_checks.check_variability(classes["sigmoidal"], smaller)
unequal = linear.solve(tasks.toy(N, (0.5, 0.25, 0.25), y_minus=-0.5, seed=seed), 1, T)
root = np.linalg.cholesky(unequal.readout_covariance)
means = coding.neural_collapse((unequal.feature_slopes @ root).T, unequal.task.labels)
glue("unequal_norms", float(means.norm_variation), display=False)
glue("unequal_angles", float(means.angle_deviation), display=False)

# %% [markdown]
# For classes of *unequal* size the frame is not exact: with a half, a quarter and a quarter of the inputs,
# as in the chapters that follow, the linear theory has norms that vary by {glue:text}`unequal_norms:.0%`
# and cosines that miss $-1/2$ by {glue:text}`unequal_angles:.2f`.
#
# ## What to take away
#
# - The factor in front of the readout decides whether features are learned, provided that readouts cannot
#   grow to undo it. The angle between features and readout tells lazy from rich.
# - Lazy kernels stay at their prior up to $1/N$; rich kernels change by an amount of order one, and, up to
#   scale and a constant, to nearly the same kernel for the three nonlinearities.
# - Kernels, angles and the frame of the class means are invariant under rotations of neuron space. Codes
#   are not: they are invariant only under renaming neurons. Who compares representations by kernels will
#   not see the difference between analog, redundant and sparse.
#
# **Limits.** One hidden layer, orthogonal inputs, and $N = P$; the temperature is small but finite, so that
# outputs miss the targets by about a per cent in rich networks, and in lazy ones by $T/(\kappa + T)$
# with $\kappa = K^{\rm prior}_{\mu\mu} - K^{\rm prior}_{\mu\nu}$.
