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
# # Adaptive kernels: one saddle point, two papers
#
# **At a glance.** Paper B {cite:p}`lauditi2025` describes feature learning by kernels that adapt to the
# task, paper A by codes of single neurons. Both are the same saddle point, read from two sides: a single
# number, the *richness* $\gamma_0$, leads from the fixed kernel of a lazy network to paper A's coding
# schemes. The adapted kernel predicts what sampled networks put out, and its counterpart for gradient flow
# what trained ones do.
#
# *Did not come out:* rich ReLU networks approach infinite width slowly, their longest neurons last.
# *Needs:* the [primer](../book/primer.md). *Next:* [images and convolutions](adaptive_images.ipynb).
# *Reading:* 11 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_inputs: int | None = None  # P of the orthogonal and of the random task; None: the preset's
widths: tuple | None = None  # N of the sampled networks
num_samples: int | None = None  # posterior samples per chain

# %% tags=["hide-input"]
from functools import partial

import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import statistics
from coding_schemes.networks import Network
from coding_schemes.theory import adaptive_kernel, sigmoidal
from companion import figures, presets
from experiments import adaptive_checks, adaptive_kernels
from myst_nb import glue

quick = {"num_inputs": 20, "widths": (40, 64, 100), "num_samples": 60, "rounds": 50, "neurons": 512}
quick |= {"cases": (("erf", 0.3), ("erf", 1.0), ("relu", 0.3)), "deep_widths": (60,), "repeats": 3}
quick |= {"flow_widths": (50, 200, 800), "decays": (0.1, 0.5, 0.9, 1.2)}
quick |= {"width_samples": 60, "width_neurons": 512, "width_rounds": 40}
quick |= {"thinning": (2, 3, 4)}  # the last for networks that keep their codes for long
paper = quick | {"num_inputs": 30, "widths": (100, 200, 400), "num_samples": 200}
paper |= {"rounds": 300, "neurons": 1024, "width_samples": 400, "width_neurons": 2048, "width_rounds": 100}
paper |= {"cases": (*quick["cases"], ("relu", 1.0)), "deep_widths": (50, 100), "thinning": (2, 3, 3)}
paper |= {"repeats": 8, "decays": (0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3)}
given = {"num_inputs": num_inputs, "widths": widths, "num_samples": num_samples}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
P, N = settings.num_inputs, settings.widths[-1]
counts = {"num_samples": settings.num_samples, "num_chains": 4, "num_warmup": 150}
fast, medium, slow = (counts | {"thinning": each} for each in settings.thinning)
solver = {"num_neurons": settings.neurons, "num_rounds": settings.rounds}
key = jax.random.key(seed)
glue("P", P, display=False)
glue("N", N, display=False)

# %% [markdown]
# We take $P =$ {glue:text}`P` orthogonal inputs, half of them with the target $1$ and half with $-1$, and
# follow two numbers: the kernel between two inputs of one class, and between two of different classes.

# %%
task = adaptive_kernels.two_classes(P)
ridge = 1 / 50  # 1/β, with β the inverse temperature of paper B
rich = np.geomspace(0.1, 10, 13)  # γ0
chosen = np.array([0.5, 2.0, P**0.5])
ends = {
    phi: adaptive_kernels.ends(
        jax.random.fold_in(key, k), task, Network(1, N, phi), ridge, rich, chosen, **options
    )
    for k, (phi, options) in enumerate({"sigmoidal": slow, "relu": medium}.items())
}

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.two_ends(ends, P))

# %% [markdown]
# ## One saddle point
#
# **Question.** What do the two theories have to do with each other?
#
# Paper B writes the output of a network with unit Gaussian priors as $f = \tfrac{1}{\gamma_0 N}\,
# w\cdot\phi(h)$ and takes $N\to\infty$ at fixed $P$. Rename $a = w/\gamma_0$: the readout variance is
# $\sigma_a^2 = 1/\gamma_0^2$, the temperature $T = 1/(\beta\gamma_0^2)$ with paper B's inverse temperature
# $\beta$, the preactivations $h$ are our $z$, and this *is* paper A's network.
# With one hidden layer the posterior is found by minimizing a convex function of one vector $q$ per output,
#
# $$
# D(q) = \log\, \mathbb E_{h\sim \mathcal N(0, K_0)}\; e^{\frac12 |q^\top \phi(h)|^2} - \gamma_0\, q\cdot y +
# \frac{|q|^2}{2\beta},
# $$ (eq-adaptive-dual)
#
# whose minimum gives the kernel $\Phi$, the average of $\phi\phi^\top$ under the tilted density, and the
# predictor
#
# $$
# \begin{gathered}
# f(x) = k(x)^\top \bigl(\Phi + \tfrac1\beta\bigr)^{-1} y, \\
# k_\mu(x) = \langle \phi(h(x))\,\phi(h_\mu)\rangle .
# \end{gathered}
# $$ (eq-adaptive-predictor)
#
# It looks like regression with a kernel. But the tilt pulls on $\phi\phi^\top$ along $q$, so the kernel has
# seen the targets. For $\gamma_0 \to 0$ the tilt vanishes and $\Phi$ is the kernel of random features; at
# $\gamma_0^2 = P$ it is paper A's, codes and all. On the way the kernel changes
# smoothly ({numref}`fig-adaptive-kernels-two-ends`).

# %%
codes = sigmoidal.solve(task, ridge / P, readout_variance=1 / P)  # paper A: a lattice of readouts
adapted = partial(adaptive_kernels.solved, adaptive_kernel.solve, task)  # stops where it does not converge
network = Network(1, N, "sigmoidal")
features = adapted(network, P**0.5, ridge, method="population", **solver)  # paper B: any inputs
half = adapted(network, (P / 2) ** 0.5, ridge)

# %% tags=["hide-input"]
adaptive_checks.check_one_saddle_point(codes.kernel(task.labels), features, half.kernels[1])
adaptive_checks.check_ends(ends, task, ridge)

# %% [markdown]
# ## Predictions, and what a finite width adds
#
# **Question.** Does the adapted kernel predict new inputs, and how wide is wide enough?
#
# Now random inputs, labeled by the sign of a linear teacher. Nothing pulls at a new input: given the
# training inputs its preactivation is Gaussian with the prior's covariance, and {eq}`eq-adaptive-predictor`
# needs one average more. At finite $N$ the predictor's variance over networks is $c/N$. Theory gives $c$ too:
# the variance of one neuron's contribution, reduced because the others respond to what it adds.
#
# Given its neurons a network's readouts are Gaussian. Here we sample the neurons alone and take mean and
# variance over the readouts exactly, which leaves less to chance. For rich ReLU networks on general inputs no
# solver is known to converge. For these preset `paper` compares two extrapolations to $N\to\infty$, of
# networks with their readouts integrated out and of whole networks at other widths. They differ by more than
# their errors, so that terms of order $1/N^2$ matter.

# %%
random = adaptive_kernels.teacher_task(P, 3 * P // 2, 50, seed)
more = fast | {"num_samples": num_samples or settings.width_samples}
crowd = {"num_neurons": settings.width_neurons, "num_rounds": settings.width_rounds}
over = {
    case: adaptive_kernels.over_widths(
        jax.random.fold_in(key, 10 + k), random, *case, 0.05, settings.widths, crowd, **more
    )
    for k, case in enumerate(settings.cases)
}

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.clusters(over))
figures.publish(**adaptive_checks.variance(over))
adaptive_checks.check_widths(over)

# %% [markdown]
# ## Neurons stop being Gaussian
#
# **Question.** What does the tilt do to single neurons?
#
# It weighs each neuron by $e^{|q^\top\phi|^2/2}$. For a bounded nonlinearity that favors neurons far out on
# either side, for the ReLU it draws a long tail. The kernel sees only second moments, and these come out at
# once; in rich ReLU networks the tail itself rests on neurons rarer than one in $N$, and comes out slowly.

# %%
many = {"num_neurons": 4096, "num_rounds": 25}  # at once: neurons of two camps do not change sides
solutions = {phi: [adapted(Network(1, N, phi), g, ridge, **many) for g in chosen] for phi in ends}

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.densities(ends, solutions))
adaptive_checks.check_densities(ends, solutions)

# %% [markdown]
# ## Depth
#
# **Question.** Which layers learn?
#
# For deep linear networks on white inputs the saddle point reduces to one number per layer, the overlap
# $c_\ell = \hat y^\top \Phi^\ell \hat y$ of the kernel with the normalized targets. The duals of two layers
# are tied by a conserved quantity, so the overlaps grow geometrically, $c_\ell = r^\ell$, with
#
# $$
# (r - 1)\, r^{-L}\, (r^L + 1/\beta)^2 = \gamma_0^2\, |y|^2 .
# $$ (eq-adaptive-overlaps)

# %%
depths = {L: adaptive_kernel.overlaps(L, 0.25 * P, ridge) for L in (1, 2, 3, 5)}
first, second = (jax.random.fold_in(key, k) for k in (20, 21))
linear = Network(3, settings.deep_widths[-1], "linear")
deep = adaptive_kernels.sampled(first, task, linear, 0.5, ridge, store=("preactivations",), **slow)

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.overlaps(depths, deep))
adaptive_checks.check_overlaps(depths, deep, 0.5, ridge)

# %% [markdown]
# ReLU networks have no such closed form. Sampled on the random task, their kernels gain alignment with the
# targets over those of random features: more from layer to layer, and more the richer the network.

# %%
deeper = [Network(3, width, "relu") for width in settings.deep_widths]
stored = fast | {"store": ("preactivations",)}
moves = ("gibbs", "scale")  # the second trades a neuron's strength with its readout's
relus = {
    g: [adaptive_kernels.sampled(second, random, each, g, 0.05, moves=moves, **stored) for each in deeper]
    for g in (0.3, 1.0, 3.0)
}

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.alignments(relus))
adaptive_checks.check_alignments(relus, seed)

# %% [markdown]
# ## Little richness
#
# **Question.** Where does feature learning begin?
#
# At small $\gamma_0$ the kernel moves in proportion to $\gamma_0^2$, with a coefficient that needs only
# fourth moments of random features. Against the exact kernel (by quadrature, two inputs, two hidden layers
# of erf) what is left falls as $\gamma_0^4$.

# %%
small, pair = np.geomspace(0.04, 0.16, 4), adaptive_kernels.two_classes(2)
left = adaptive_kernels.expansion_errors(pair, Network(2, 1, "erf"), 0.1, small)
orders = [statistics.fit_power_law(small**2, column).exponent for column in left.T]

# %% tags=["hide-input"]
adaptive_checks.check_orders(*orders)

# %% [markdown]
# ## Gradient flow
#
# **Question.** Networks are trained, not sampled. What is left of the theory?
#
# Under gradient flow from random weights neurons meet only through the residuals $\Delta(t) = y - f(t)$: as
# $N\to\infty$ a two-layer network is a population of independent neurons driven by their common $\Delta$.
# That is the dynamical mean-field theory, and it gives losses over time. With weight decay $\lambda$ and a
# homogeneous nonlinearity (linear, ReLU), every fixed point satisfies
#
# $$
# f(x) = k(x)^\top (K + 2\lambda)^{-1} y,
# $$ (eq-adaptive-antk)
#
# a regression with the network's own *final* tangent kernel $K$, $k(x)$ its row for $x$, at any width:
# multiply the stationary gradient by the weights themselves. Without weight decay nothing enforces this.

# %%
flows = adaptive_kernels.flows(
    random, "relu", 1.0, 0.1, settings.flow_widths, settings.repeats, duration=6.0, num_records=24
)
regression = {
    decay: adaptive_kernels.kernel_regression_error(random, "relu", decay, 200.0 if decay else 60.0, 50)
    for decay in (0.1, 0.0)
}

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.losses(flows, P))
adaptive_checks.check_flows(flows, regression)

# %% [markdown]
# The simplest fixed point is that of one input. There $\langle h^2\rangle = \gamma_0 |y| - \lambda$, and
# beyond $\lambda = \gamma_0|y|$ the network collapses: nothing is learned. In the linear case the flow only
# *rescales* $h_0 + w_0$, the sum of a neuron's first preactivation and readout, so that a start with Laplace
# weights stays non-Gaussian for good, weight decay or not.

# %%
moments = adaptive_kernels.left_over(settings.decays, 512)
laplace, gaussian = (adaptive_kernels.final_kurtosis(start, 4096) for start in ("laplace", "gaussian"))

# %% tags=["hide-input"]
figures.publish(**adaptive_checks.collapsing(settings.decays, moments))
adaptive_checks.check_fixed_points(settings.decays, moments, laplace, gaussian)

# %% [markdown]
# ## What to take away
#
# - Papers A and B solve one saddle point. At $\gamma_0^2 = P$ the adaptive kernel is that of paper A's
#   coding schemes; at $\gamma_0\to0$ that of random features. The kernel changes smoothly in between,
#   and does not show which code its neurons use.
# - It predicts outputs, kernels and variances of sampled networks, once $1/N$ is allowed for, rich ReLU
#   networks excepted. Richer networks vary less.
# - Trained with weight decay, a ReLU network is a regression with the kernel it ends up with, at any width.
#
# **Limits.** $P$ is small here: populations of neurons carry some tens of general inputs, and of rich ReLU
# networks not even these: the library samples such networks instead. Formulas of paper B were derived
# anew; where its conventions could not be read off, ours are in the [glossary](../book/glossary.md).
