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
# # Dynamics: drifting representations and broken permutation symmetry
#
# **At a glance.** A network has learned, and is left alone with its noise: its weights go on wandering
# through all solutions of the task. In a linear network every neuron takes every role in turn. In the last
# hidden layer of sigmoidal networks, and of ReLU networks with one layer, every neuron keeps its code for as
# long as we can watch, because a barrier that grows with the number of inputs stands between the roles:
# *permutation symmetry is broken*. One layer below, sigmoidal neurons do change their codes, and the
# population's scheme stays.
#
# *Did not come out:* in ReLU networks no energy stands in the way, only entropy. Small sigmoidal networks
# do cross now and then, and fluctuate a little more than theory has it. *Needs:* the
# [primer](../book/primer.md) and the three schemes, [analog](analog.ipynb),
# [redundant](redundant.ipynb), [sparse](sparse.ipynb). *Reading:* 11 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P of the sigmoidal and ReLU networks; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # snapshots per chain

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
from coding_schemes import planting
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, sample
from companion import figures, films, presets
from companion.workbench import draw
from experiments import dynamics, dynamics_shown, swaps
from myst_nb import glue

quick = {"num_neurons": 120, "num_linear": 40, "temperature": 0.01, "num_samples": 100, "num_chains": 4}
quick |= {"spans": (400.0, 24.0, 50.0), "outlier_fractions": (1 / 3, 1 / 2, 3 / 4), "num_frames": 60}
quick |= {"outlier_steps": (90, 1), "deep": (0.01, 30.0), "small": (), "swap_sizes": (40, 60, 80)}
quick |= {"crossing": (0.01, 0.02, 0.04), "crossing_span": 30.0}
paper = quick | {"num_neurons": 500, "num_linear": 60, "spans": (700.0, 100.0, 75.0), "deep": (0.03, 45.0)}
paper |= {"outlier_fractions": (0.2, 0.4, 0.8), "outlier_steps": (250, 3)}  # of a trajectory; thinning
paper |= {"small": (("linear", 50, 0.03, 150.0), ("relu", 60, 0.03, 40.0))}
paper |= {"crossing": (0.005, 0.01, 0.02, 0.03, 0.04), "crossing_span": 50.0, "swap_sizes": (40, 60, 80, 100)}
given = {"num_neurons": num_neurons, "temperature": temperature, "num_samples": num_samples}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, T, key = settings.num_neurons, settings.temperature, jax.random.key(seed)
sizes = {"linear": settings.num_linear, "sigmoidal": N, "relu": N}
dt, exact = T / 2, {"method": HMC(max_num_steps=75), "moves": (), "num_warmup": 60}
counts = {"num_samples": settings.num_samples, "num_chains": settings.num_chains}
glue("N", N, display=False)

# %%
theories = {scheme: dynamics.solve(scheme, size, T) for scheme, size in sizes.items()}
motions = {}
for k, (scheme, size) in enumerate(sizes.items()):
    posterior = Posterior(dynamics.toy(scheme, size), Network(1, size, scheme), T)
    exact["init"] = planting.planted(key, theories[scheme], posterior)
    stream = jax.random.fold_in(key, k)
    rest = sample(posterior, stream, 20, num_chains=settings.num_chains, **exact)
    motions[scheme] = dynamics.follow(stream, posterior, rest, settings.spans[k], dt=dt, **counts)

# %% tags=["hide-input"]
excess = [100 * (each.squared_error / each.rest_error - 1) for each in motions.values()]
glue("excess", max(excess), display=False)
figures.publish(**dynamics_shown.traces(motions, theories))

# %% [markdown]
# ## One hidden layer
#
# **Question.** Do neurons trade places while a network wanders through its solutions?
#
# All neurons of a layer are equal before the posterior: renaming them changes nothing. A sample of a
# nonlinear network does not show this equality, since its neurons have codes. The dynamics could restore
# it, if every neuron had every code in turn. Paper A lets the weights follow the gradient of the loss and
# of the prior, with noise; in units in which all priors have variance one, and with time measured in the
# relaxation time of a weight that feels nothing but its prior,
#
# $$
# \mathrm d w = -\nabla U(w)\, \mathrm d t + \sqrt 2\, \mathrm d B ,
# $$ (eq-dynamics-langevin)
#
# whose stationary law is the posterior $e^{-U}$ of the [primer](../book/primer.md). For hidden weights
# this is paper A's dynamics with $t = (T/N)\, t_{\rm A}$. A readout $a = \sigma_a w$ has the mobility
# $\sigma_a^2 = 1/P$ here and would be faster there, which changes how fast readouts fluctuate and not
# where they can go.
#
# No moves are made here beyond {eq}`eq-dynamics-langevin`: those that help the book's other chapters into
# equilibrium exchange roles at one stroke. Networks start from the theory's scheme, pass a few
# trajectories of Hamiltonian Monte Carlo, and are then followed in steps $\Delta t = T/2$ without
# Metropolis correction. The tasks are paper A's for each nonlinearity, $y_- = 0$, $1/2$, $-1/2$. The
# finite step raises the mean squared training error by at most {glue:text}`excess:.0f` %.
#
# ### Linear neurons forget
#
# A linear neuron in the mean field of the others is a pair of coupled Ornstein–Uhlenbeck processes,
# readout and preactivation. If its readouts have the variance $V = \sigma_a^2/(1 - \kappa^2)$, their
# autocorrelation is
#
# $$
# C(s) = \tfrac{1 + \kappa}{2}\, e^{-(1 - \kappa)\, s} + \tfrac{1 - \kappa}{2}\, e^{-(1 + \kappa)\, s} .
# $$ (eq-dynamics-memory)
#
# As $V$ is of order one and $\sigma_a^2 = 1/P$, the first rate is $1/(2PV)$: roles are traded slowly, in
# a time of order $P$, but they are traded.

# %% tags=["hide-input"]
figures.publish(
    figures.curves,
    "autocorrelation",
    caption="Readouts of linear neurons forget at the rate of theory (dashed), those of sigmoidal and ReLU "
    f"neurons do not. Bands: standard errors over {settings.num_chains} chains. Sizes as above, T = {T}. "
    "Paper A, Fig. 4b.",
    **dynamics_shown.memory(motions, theories["linear"]),
)
half = dynamics.solve("linear", sizes["linear"] // 2, T)
dynamics_shown.check_exploration(motions, theories["linear"], half)

# %% [markdown]
# ### Sigmoidal and ReLU neurons keep their codes
#
# A code is the set of classes on which a sigmoidal neuron is active, or for which a ReLU neuron is an
# outlier. A sigmoidal neuron's class counts as changed when its mean activation has crossed the band from 0.4
# to 0.6. Where no switch is seen, the rate is below three over the number of neurons times the length of the
# run (95 %). In small sigmoidal networks the barrier is low, and a few neurons do cross.

# %% tags=["hide-input"]
dynamics_shown.check_codes(motions)

# %% [markdown]
# ### What still moves
#
# The neurons' inputs are not frozen with their codes. A sigmoidal neuron's preactivations fluctuate as
# they do in the density $\mathcal N(z; 0, 1)\, e^{(a^\top t_c)\, \phi(z)}$ of its branch; we test their
# variance, with its corrections of order $1/N$ and the $\tfrac12 \Delta t$ that finite steps add, at the
# mean activation that the samples have. A ReLU outlier carries a whole class alone, no one averages its
# fluctuations out, and the training error would feel every one of them.

# %% tags=["hide-input"]
figures.publish(**dynamics_shown.traces(motions, theories, preactivations=True))

# %% [markdown]
# How much does an outlier still move? With its readout $\sqrt N \bar a$, and with readouts $b$ and
# activations of variance $v_c$ in the bulk,
#
# $$
# \langle \delta z^2 \rangle = \Bigl[1 + \bar a^\top
# \bigl(T + v_c \langle b\, b^\top \rangle\bigr)^{-1} \bar a\Bigr]^{-1} + \frac{1}{4 n_c} .
# $$ (eq-dynamics-outlier)
#
# The first term is noise on single inputs: what the temperature allows, and what the bulk, by moving a
# little, undoes. The scatter of the bulk's readouts, of order $1/P$, belongs to $\langle b\,
# b^\top\rangle$. The second is a slow breathing of the whole class: if the readout grows by
# $e^\varepsilon$ and all preactivations shrink by $e^{-\varepsilon}$, the output stays, and only the
# priors hold $\varepsilon$, with the energy $2 n_c N \bar z_c^2\, \varepsilon^2$. Both corrections vanish
# as $1/N$, and at the paper's size they are not small. We test them by exact sampling without moves,
# where no finite step adds to them.

# %%
outliers, (most, thinning) = {}, settings.outlier_steps
exact |= {"method": HMC(0.8, most), "thinning": thinning, "num_samples": 160, "num_chains": 4}
for k, size in enumerate(round(N * fraction) for fraction in settings.outlier_fractions):
    task, network = dynamics.toy("relu", size), Network(1, size, "relu")
    exact["init"] = planting.planted(key, dynamics.solve("relu", size, T), Posterior(task, network, T))
    outliers[size] = draw(jax.random.fold_in(key, 20 + k), task, network, T, **exact)

# %% tags=["hide-input"]
curves = dynamics_shown.over_sizes(outliers, T)
figures.publish(
    figures.curves,
    "outlier_variance",
    caption="Outliers of a ReLU network freeze, and theory knows how far. Variance in time of their "
    "preactivations on their own class (prior: 1). Markers: samples with standard errors; full lines: "
    f"theory; dashed: without the breathing of the class; dotted: N → ∞. T = {T}, four chains.",
    **curves,
)
dynamics_shown.check_sizes(outliers, curves)
dynamics_shown.check_fluctuations(motions, theories, dt)

# %% [markdown]
# ## Two layers: drift below a frozen layer
#
# **Question.** Does a frozen feature layer freeze the layer below?
#
# In a sigmoidal network with two hidden layers the posterior factorizes: the layers see each other only
# through kernels, not through the names of neurons {cite:p}`vanmeegen2025`. A network
# of $N = P =$ {glue:text}`N`, $y_- = 1/2$, starts from the scheme of the layered theory at $T =$
# {glue:text}`T_deep`, comes to rest by exact sampling, and is followed in several chains.

# %%
jobs = ("sigmoidal", N, *settings.deep), *settings.small
counts = {"num_samples": settings.num_samples, "num_chains": settings.num_chains}
layers = [dynamics.two_layers(jax.random.fold_in(key, 40 + k), *job, **counts) for k, job in enumerate(jobs)]
deep = layers[0]

# %% tags=["hide-input"]
glue("T_deep", settings.deep[0], display=False)
figures.publish(**dynamics_shown.drift(deep))
films.publish_animation(**dynamics_shown.film(deep, settings.num_frames))

# %% tags=["hide-input"]
figures.publish(**dynamics_shown.raster(deep))
dynamics_shown.check_drift(deep, seed)

# %% [markdown]
# Neuroscience calls this *representational drift*: over weeks the responses of single cells change, and
# what can be read from the population does not. Here the invariant is known: it is the kernel, which does
# not know the neurons' names.
#
# ### Symmetry over the length of a run
#
# Let $x_i(t)$ be the mean activations of neuron $i$ on the classes, $\delta x$ their deviation from the
# mean over neurons, and $\bar x_i^{(1)}$, $\bar x_i^{(2)}$ the averages over the first and the second
# half of a run. The order
#
# $$
# q = \bigl\langle \delta \bar x_i^{(1)} \cdot \delta \bar x_i^{(2)} \bigr\rangle_i \Big/
#     \bigl\langle |\delta x_i(t)|^2 \bigr\rangle_{i,t}
# $$ (eq-dynamics-order)
#
# is 0 where every neuron takes every role within the run, permutation symmetry being restored, and 1
# where all are frozen.

# %% tags=["hide-input"]
followed = {f"{scheme} 1/1": (motion, 0) for scheme, motion in motions.items()}
for job, motion in zip(jobs, layers, strict=True):
    followed |= {f"{job[0]} {layer + 1}/2": (motion, layer) for layer in (0, 1)}
deeper = ", ".join(f"{name} {size} (T = {t})" for name, size, t, _ in jobs)
figures.publish(
    figures.curves,
    "permutation_order",
    caption="The longer one watches, the more symmetric a linear network looks; feature layers of "
    "nonlinear networks do not, but for the deep ReLU network's, where outliers split and merge. Order of "
    "the class means in layer/depth for the first part of each run; bands: standard errors. Depth 1 as "
    f"above, depth 2, N = P: {deeper}. Paper A, Figs 4 and 5.",
    **dynamics_shown.orders(followed),
)
dynamics_shown.check_order(followed, ["sigmoidal 1/1", "relu 1/1", "sigmoidal 2/2"])

# %% [markdown]
# ## Barriers
#
# **Question.** What stands in the way?
#
# To leading order neurons are independent, and the readout of one has the density $P(a) \propto e^{P
# E(a)}$. A sigmoidal neuron that changes its code crosses the pass between two maxima, at a rate of order
#
# $$
# k \sim e^{-\Delta F}, \qquad \Delta F = P\,\bigl[E(a_\gamma) - E(a_{\rm pass})\bigr] .
# $$ (eq-dynamics-rate)
#
# With $P$ in the exponent, a barrier however low per input becomes insurmountable in a large network. The
# passes of the theory's landscape are found by the string method: a chain of points that slides down
# while it is kept evenly spaced. Small networks do cross, and tell whether {eq}`eq-dynamics-rate` is
# right.

# %%
stream, counts = jax.random.fold_in(key, 60), {"num_samples": 100, "num_chains": 4}
crossings = swaps.crossings(stream, 60, settings.crossing, settings.crossing_span, **counts)

# %% tags=["hide-input"]
figures.publish(
    figures.curves,
    "crossings",
    caption="Neurons change their codes as often as the theory's passes let them. Markers: rate of each "
    "way from code to code, with the error of the number of events; lines: $e^{-\\Delta F}$ with one "
    "attempt rate for each temperature. Sigmoidal, N = P = 60, four chains. Ways on which none was seen are "
    "not drawn, but counted in the check.",
    **swaps.check_crossings(crossings),
)

# %% [markdown]
# The second computation makes no use of the theory. We let a network slide down into the nearest minimum
# of its energy $U$, exchange two neurons, and look for a path of minimal energy between the two networks
# in the space of *all* weights: the others are free to make room. The path may pass deeper minima on its way;
# the barrier is its largest climb.

# %% tags=["hide-input"]
paths = swaps.swap_paths(settings.swap_sizes, 60, T)
figures.publish(
    figures.curves,
    "paths",
    caption="Energy along relaxed paths that exchange two neurons. Sigmoidal neurons of different codes "
    "climb a hill, those of the same code and two neurons of a linear network do not; a ReLU outlier and a "
    "neuron of the bulk trade places without energy, but not without free energy (dotted, theory). N = P = "
    f"60, T = {T}, one network.",
    **swaps.path_curves(paths, T),
)
swaps.check_paths(paths, N, T)

# %% [markdown]
# In ReLU networks a neuron of the bulk can grow into an outlier parallel to an old one, while that one
# shrinks: two outliers with readouts $\bar a \cos\theta$ and $\bar a \sin\theta$ do what one does, at the
# same energy. What stands in the way is entropy. An outlier is silent on all other classes, and each
# input on which it must be costs $\log 2$; halfway there are two of them.
#
# ## What to take away
#
# - In linear networks each neuron explores the whole posterior, at the rate of theory but for a
#   correction of order $1/N$, and permutation symmetry is restored.
# - In the feature layer of sigmoidal networks, and of ReLU networks with one layer, it is broken. What stands
#   between the roles is a free-energy barrier proportional to the number of inputs.
# - Frozen neurons are not still: how far each still moves, theory says to a few percent.
# - In the layer below, sigmoidal neurons change codes; the scheme and the kernel stay.
#
# **Limits.** A run of finite length bounds rates, it does not prove them zero. The first layer's rate
# falls as the network grows, too: barriers stand there as well, only much lower ones. The
# deep network starts from the theory's scheme: quenched from the prior, some of its neurons would sit
# in other codes, and those between two codes keep crossing. Its chains share one
# start, and their diagnostics say that they agree on this branch, not that there is no other. Paths are
# the best in the valley of the first guess, two neurons moving one after the other.
