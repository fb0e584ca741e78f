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
# # Redundant coding: sigmoidal networks
#
# **At a glance.** The neurons of a sigmoidal network that has learned three classes fall into a few large
# groups. All neurons of a group answer to the same set of classes, their **code**, and have the same readout
# weights up to small fluctuations: the scheme is **redundant** {cite:p}`vanmeegen2025`. Theory predicts how
# many neurons have each code to a fraction of one neuron, in networks of any size.
#
# *Did not come out:* paper A's five codes in the first of three layers; samples and theory have six in each.
# At the small widths of preset `quick` readouts may sit beside their peaks by a correction of order $1/N$.
# *Needs:* the [primer](../book/primer.md). *Reading:* 11 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P, neurons and training inputs; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_networks: int | None = None  # independent networks, an even number
num_samples: int | None = None  # posterior samples of each

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import convergence
from coding_schemes.theory import deep_sigmoidal, sigmoidal
from companion import figures, presets
from experiments import redundant, redundant_descent, redundant_layers
from myst_nb import glue

quick = {"num_neurons": 60, "temperature": 0.01, "num_networks": 16, "num_samples": 16, "num_warmup": 32}
quick |= {"sizes": (30,), "deep": (40, 8, 64), "deep_theory": False, "descent": (100, 3, 30.0)}
paper = quick | {"num_neurons": 500, "num_networks": 32, "num_warmup": 64}
paper |= {"sizes": (60, 160), "deep": (200, 4, 64), "deep_theory": True, "descent": (500, 3, 30.0)}
given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_networks": num_networks, "num_samples": num_samples}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, T, R = settings.num_neurons, settings.temperature, settings.num_networks
key = jax.random.key(seed)
for name, value in (("N", N), ("T", T), ("R", R)):
    glue(name, value, display=False)

# %% [markdown]
# The toy task has orthogonal inputs, a half of them in class 0 and a quarter in each of the others; targets
# are 1 for an input's own class and $y_- = \tfrac12$ for the others. We draw {glue:text}`R` independent
# networks with one hidden layer from the posterior, $N = P =$ {glue:text}`N`, $T =$ {glue:text}`T`: half are
# cooled down from the prior, half start from neurons drawn from the theory's solution.

# %%
counts = {"count": R, "num_samples": settings.num_samples, "num_warmup": settings.num_warmup}
task = tasks.toy(N, y_plus=1.0, y_minus=0.5)
posterior = Posterior(task, Network(depth=1, width=N, nonlinearity="sigmoidal"), T)
theory = sigmoidal.solve(task, T)  # N → ∞ at finite P
main = redundant.networks(jax.random.fold_in(key, 1), posterior, theory, **counts)

# %% tags=["hide-input"]
figures.publish(**redundant.sample_shown(main))

# %% [markdown]
# ## Why groups
#
# **Question.** Which neurons know what, and how many of them?
#
# In the notation of the [primer](../book/primer.md), $\phi(z) = \tfrac12[1+\mathrm{erf}(\sqrt\pi z/2)]$ and
# $\sigma_a^2 = 1/P$. In a wide network neurons are independent of each other in a common field $t$, one
# vector $t_c$ per class:
#
# $$
# \begin{gathered}
# P(a, z) \;\propto\; \mathcal N(a;\, 0, \sigma_a^2)\, \prod_\mu \mathcal N(z_\mu;\, 0, 1)\,
# e^{\,a\cdot t_{c(\mu)}\,\phi(z_\mu)}, \\
# y_c - \langle \phi_c\, a\rangle = T\,t_c .
# \end{gathered}
# $$ (eq-redundant-single)
#
# The second equation, the mean predictor's residual, fixes $t$. It is the stationarity condition of a
# *convex* function, the log evidence: there is one solution, and nothing has to be assumed about codes.
# Given the readout $a$ the inputs are independent and can be integrated out one by one. With $g(s) =
# \langle e^{s\phi(z)} \rangle_{z\sim\mathcal N(0,1)}$,
#
# $$
# \begin{gathered}
# P(a) \;\propto\; e^{P\,E(a)}, \\
# E(a) = -\tfrac12 |a|^2 + \sum_c \tfrac{n_c}{P}\, \log g(a\cdot t_c).
# \end{gathered}
# $$ (eq-redundant-landscape)
#
# For a linear network $\log g = s^2/2$, and $P(a)$ is a Gaussian. For a bounded $\phi$, $\log g$ is linear
# in $s$ far from the origin, with another slope on either side: every class is a hinge, $E$ has several
# maxima $a_\gamma$, and the factor $P$ makes them sharp. Around $a_\gamma$ a class is either on,
# $\langle\phi\rangle > \tfrac12$, or off. That is the code of the neurons there, written 1-1-0 if classes 0
# and 1 are on. Which fraction $P_\gamma$ of the neurons sits at which maximum is decided by differences of
# $E$ of order $1/P$; we keep $P$ finite and integrate {eq}`eq-redundant-landscape` numerically.
#
# ## How many neurons have each code
#
# A neuron that changes its code alone changes the outputs on a whole class, and the energy by far more than
# one: local dynamics never do this at low $T$. After every trajectory of Hamiltonian Monte Carlo the sampler
# therefore proposes new codes to a tenth of the neurons, in the field that the others leave and with all
# readouts integrated out (`moves="recode"`, [how](../book/samplers.md)). Even so a network's numbers move by
# a neuron or two only, so that the usual diagnostics of a single run say: {glue:text}`verdict`. What shows
# equilibrium are the two starts, {glue:text}`ends`; and errors are taken from the spread of the independent
# networks.
#
# At this precision $N \to \infty$ is not enough. Theory is the saddle point of an integral over fields, and
# the fluctuations of the fields shift the number $n_\gamma$ of neurons with a code by a fraction of one
# neuron, whatever $N$. With a weight $e^h$ given to every neuron with the code,
#
# $$
# \begin{gathered}
# \langle n_\gamma \rangle = N P_\gamma - \tfrac12 \frac{d}{dh} \Big[ \log\det H \\
# \qquad\qquad + \sum_c (n_c - 1) \log\det M_c \Big]_{h=0} ,
# \end{gathered}
# $$ (eq-redundant-finite)
#
# $H = \mathrm{Cov}(S) + T\, \mathrm{diag}(n_c)$, with $S_c = a\sum_{\mu\in c} \phi(z_\mu)$, being the
# stiffness of fields that are alike on a class, and $M_c = \langle a\,a^\top\, \mathrm{Var}\,\phi_c\rangle +
# T$ of those that are not: here {glue:text}`shift`.

# %% tags=["hide-input"]
verdict = convergence(main.meeting.prior, main.posterior).verdict
words = {"verdict": verdict, "ends": main.meeting.verdict}
for name, value in (words | {"shift": redundant.shift(main)}).items():
    glue(name, value, display=False)
figures.publish(**redundant.number_bars(main))
redundant.check_numbers(main)

# %% [markdown]
# How far may these numbers fluctuate from network to network? Neurons that choose their codes independently
# would scatter by the square root of the number. But they have to fit the targets *together*: with
# $q_\gamma$ the indicator of a code, the common field takes back most of it,
#
# $$
# \begin{gathered}
# N\, \mathrm{Cov}(P_\gamma, P_\delta) = \mathrm{Cov}(q_\gamma, q_\delta) \\
# \qquad - \mathrm{Cov}(q_\gamma, S)\, H^{-1}\, \mathrm{Cov}(S, q_\delta) ,
# \end{gathered}
# $$ (eq-redundant-covariance)
#
# and leaves about one neuron, in small and in large networks alike. Of numbers so sharp it matters that they
# are whole: their distribution is the Gaussian of {eq}`eq-redundant-covariance` taken at whole numbers only.
# Where the mean is half way between two of them they scatter more than the formula says, where it is close to
# a whole number, less.

# %% tags=["hide-input"]
counts["count"] = 2 * R  # small networks are cheap
others = [
    redundant.networks(jax.random.fold_in(key, size), *redundant.posed(size, 0.5, T), **counts)
    for size in settings.sizes
]
over_sizes = [*others, main]
figures.publish(**redundant.scatter_bars(over_sizes))
for networks in over_sizes:
    redundant.check_scatter(networks)

# %% [markdown]
# ## The readouts, peak by peak
#
# The density {eq}`eq-redundant-landscape` at our $P$, one marginal per output. Code by code and output by
# output these are twelve Kolmogorov–Smirnov tests, each at a level of 1 % over twelve, on samples so far
# apart that a neuron has forgotten where about its peak it was. The readouts of one code depend little on
# the targets; there are enough draws to tell our task from its neighbors at $y_- \pm 0.1$ all the same.

# %% tags=["hide-input"]
figures.publish(**redundant.readout_densities(main))
redundant.check_readouts(main)

# %% [markdown]
# ## Preactivations keep fluctuating
#
# Given its code, a neuron's preactivation on an input of class $c$ has a density in proportion to
# $\mathcal N(z;0,1)\, e^{a_\gamma\cdot t_c\,\phi(z)}$: shifted against the prior, somewhat
# narrower, and independent from input to input. Here for code 1-1-0 on class 0.

# %% tags=["hide-input"]
figures.publish(
    figures.densities,
    "preactivations",
    caption="Preactivations of neurons with code 1-1-0 on inputs of class 0: a width of order one. "
    f"Histogram: last samples of {R} networks; line: theory. N = P = {N}, T = {T}, y₋ = ½. Paper A, Fig. 4c.",
    **redundant.preactivation_density(main),
)
redundant.check_preactivations(main)

# %% tags=["hide-input"]
curves = redundant.variance_curves(over_sizes)
figures.publish(
    redundant.over_width,
    "variance_over_sizes",
    caption="These fluctuations survive in wide networks: their variance tends to that of the theory as 1/N. "
    f"Markers: {2 * R} networks of each size, {R} of the largest, with the standard error from their "
    "spread; dashed: theory for "
    f"N → ∞ at the same P; line: with its 1/N correction. N = P, T = {T}, y₋ = ½. Paper A, text.",
    **curves,
)
redundant.check_variances(over_sizes, curves)

# %% [markdown]
# How the scheme changes with the targets and with $T$, what is frozen after fast cooling, and at which
# temperature the groups end, is the subject of [the next chapter](phases.ipynb); [the
# explorer](../book/explorer.md) solves class ratios, targets and temperatures of your own.
#
# ## Three hidden layers
#
# **Question.** Where in a deep network are the codes?
#
# Layers decouple given their kernels $K_\ell$. A neuron of a lower layer has the density $\propto \mathcal
# N(z; 0, K_{\ell-1})\, e^{\frac12 \phi(z)^\top \tilde K_\ell\, \phi(z)}$, with $\tilde K_\ell$ what the
# layers above ask of it. All kernels have the classes' block structure, so that this, too, is solved without
# assuming codes (`theory.deep_sigmoidal`, at preset `paper`). We sample the task of paper A's Fig. 3, $y_- =
# -\tfrac12$, at $T = 0.001$. Neurons of the lower layers change their codes by themselves. Those of the last
# layer can take over each other's class means (`moves="imitate"`), without which networks stop at higher
# energies, and turn into their mirror images, 1-0-0 into 0-1-1 (`"reflect"`): these targets sum to zero, so
# that a code and its opposite serve them equally well, and without this move a network keeps the shares of
# either that it was cooled into. Half of the networks are cooled in steps and half start at $T$ at once:
# {glue:text}`deep`.

# %%
stream = jax.random.fold_in(key, 900)
deep = redundant_layers.deep_networks(stream, *settings.deep, temperature=0.001)
glue("deep", deep.ends.verdict, display=False)

# %% tags=["hide-input"]
figures.publish(
    figures.kernels_and_neurons,
    "three_layers",
    caption="Codes in all three layers, sharper in later ones, and so are the class blocks of the kernels. "
    "One network: kernels (above), activations (below), neurons sorted by code in each layer. L = 3, N = P = "
    f"{settings.deep[0]}, T = 0.001, y₋ = −½. Paper A, Fig. 3.",
    **redundant_layers.one_network(deep),
)

# %% [markdown]
# Activations alone become more alike with depth in any network of this kind, also in an untrained one. What
# counts is their variance within classes *over* that between classes. In untrained networks this ratio stays
# the same from layer to layer; in trained ones it falls by more than an order of magnitude per layer.

# %% tags=["hide-input"]
figures.publish(
    figures.curves,
    "sharpness",
    caption="Depth sharpens the codes of trained networks only. Variance of the activations within over "
    f"between classes, one line per network. L = 3, N = P = {settings.deep[0]}, T = 0.001, y₋ = −½. Paper A, "
    "text.",
    **redundant_layers.sharpness_curves(deep),
)
redundant_layers.check_depth(deep)
if settings.deep_theory:
    redundant_layers.check_theory(deep, deep_sigmoidal.solve(deep.task, 3, 0.001))

# %% [markdown]
# ## Without noise
#
# **Question.** Do groups need noise, or a prior that shrinks with $P$?
#
# Gradient descent on $\tfrac12\lVert Y-f\rVert^2 + \tfrac{\lambda}{2N}\sum(\text{weights})^2$ from the prior
# at $\sigma_a = 1$, $\lambda = 0.1$, without noise, tends to the solution of least norm. How two-valued are
# its neurons? For each class sort the neurons into on and off, and replace a neuron's class mean by the
# average of its side: the share of the differences between classes that survives is 1 for perfect groups. A
# Gaussian cloud can be cut in two as well, and about two thirds survive. So the share is held against
# rotations of neuron space, which leave the kernel as it is and make the code analog
# ([diagnosis](../book/api.md)).

# %%
stream = jax.random.fold_in(key, 901)
least_norm = redundant_descent.descend(stream, *settings.descent, strength=0.1)

# %% tags=["hide-input"]
figures.publish(
    figures.activation_matrix,
    "descent",
    caption="Noise-free descent ends in groups too: a few levels per class, and more codes than equilibrium "
    f"has. Activations of one of {settings.descent[1]} networks, neurons sorted by code. N = P = "
    f"{settings.descent[0]}, y₋ = ½, λ = 0.1. Paper A, supplement E.",
    **redundant_descent.one_network(least_norm),
)
redundant_descent.check_descent(least_norm)

# %% [markdown]
# With noise it is different. At $\sigma_a = 1$ readouts grow instead of features: fields $a\cdot t_c$ become
# small, the landscape {eq}`eq-redundant-landscape` loses its sharp maxima, and noise blurs the groups. The
# same noise at $\sigma_a^2 = 1/P$ leaves them sharp. So it is *noise* that needs the stronger regularization.

# %% tags=["hide-input"]
strong = over_sizes[1]
weak = redundant_descent.weak_prior(jax.random.fold_in(key, 902), strong)
figures.publish(
    figures.bars,
    "noise",
    caption="Groups survive without noise, or with noise and the stronger prior, but not with noise alone. "
    "Bars: share of the differences between classes that codes explain, mean over networks; dots: the most "
    f"that rotated neurons reach. N = P = {settings.descent[0]} without noise, {strong.width} with noise at "
    f"T = {T}, y₋ = ½. Paper A, Discussion.",
    **redundant_descent.noise_bars(least_norm, strong, weak),
)
redundant_descent.check_noise(strong, weak)

# %% [markdown]
# ## What to take away
#
# - In a sigmoidal network neurons form a few large groups with one code each. One convex problem predicts the
#   codes, how many neurons have each, and the densities of readouts and preactivations.
# - The numbers are sharp to about one neuron, in small and large networks alike, because the neurons have to
#   fit the targets together; with its $1/N$ correction theory has them to a fraction of a neuron.
# - Every layer of a deep network has codes, and depth sharpens them.
# - Descent without noise finds groups as well; descent with noise needs a readout variance of $1/P$.
#
# **Limits.** Theory's corrections beyond the first order in $1/N$ are left out. Moves to codes that no neuron
# has yet need orthogonal inputs and one hidden layer; in deep networks only the last layer has moves of its
# own, to codes in use and to opposite ones.
