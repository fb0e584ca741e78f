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
# # Analog coding: linear networks
#
# **At a glance.** In a linear network every neuron takes part in coding every class; what differs from
# neuron to neuron is only how strongly and in what mixture. The readout weights are one Gaussian cloud,
# activations are a linear image of them, and there are no groups, no thresholds, no specialists: the
# **analog** scheme {cite:p}`vanmeegen2025`. It is the one scheme whose theory closes with pen and paper at
# every depth, and here also at finite width, so the samplers of this book are held against exact results.
#
# *Did not come out:* nothing of what is asked here, at preset `paper`; in the shorter chains of `quick`
# single numbers may miss by more than their errors. *Needs:* the [primer](../book/primer.md). *Reading:* 9
# minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P, width of every hidden layer and number of inputs; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain
num_chains: int | None = None

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, convergence, sample
from coding_schemes.theory import linear
from companion import figures, presets
from companion.workbench import Run
from experiments import analog, analog_checks
from myst_nb import glue

quick = {"num_neurons": 80, "temperature": 0.01, "num_samples": 128, "num_chains": 4}
quick |= {"norms": (1,), "sizes": (0.5, 0.7, 1.0)}
paper = quick | {"num_neurons": 200, "num_samples": 200, "norms": (1, 2, 3)}
paper |= {"sizes": (0.25, 0.35, 0.5, 0.7, 1.0)}
given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_samples": num_samples, "num_chains": num_chains}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, T = settings.num_neurons, settings.temperature
counts = {"num_samples": settings.num_samples, "num_chains": settings.num_chains, "num_warmup": 150}
counts["method"] = HMC(0.8)  # half the usual length: half the gradients, three quarters of the ESS
key = jax.random.key(seed)
glue("N", N, display=False)
glue("T", T, display=False)

# %% [markdown]
# The toy task has orthogonal inputs and three classes with a half, a quarter and a quarter of them; targets
# are 1 for an input's own class and 0 for the others. We draw the weights of a network with one hidden
# layer from the posterior ([how](../book/samplers.md)), $N = P =$ {glue:text}`N`, $T =$ {glue:text}`T`.

# %%
task = tasks.toy(N, class_ratios=(0.5, 0.25, 0.25), y_plus=1.0, y_minus=0.0, seed=seed)
posterior = Posterior(task, Network(depth=1, width=N, nonlinearity="linear"), T)
samples = sample(
    posterior, jax.random.fold_in(key, 1), store=("readouts", "preactivations", "outputs"), **counts
)
found = convergence(samples, posterior)
theory = linear.solve(task, depth=1, temperature=T, width=N)
print(found.verdict)

# %% tags=["hide-input"]
shallow = Run(posterior, samples, found)
figures.publish(**analog_checks.sample_shown(shallow))

# %% [markdown]
# ## One hidden layer
#
# **Question.** How are readouts and activations distributed, and how do they belong together?
#
# In the notation of the [primer](../book/primer.md), readouts $a_i \in \mathbb{R}^m$ have the prior
# variance $\sigma_a^2 = P^{-1/L}$, preactivations $z_i^\ell \in \mathbb{R}^P$ belong to neuron $i$ of layer
# $\ell$, outputs are $f = \tfrac1N \sum_i z_i^L a_i^\top$, $K_0$ is the input kernel and $Y \in
# \mathbb{R}^{P\times m}$ holds the targets. At the saddle point neurons are independent, each with the
# density
#
# $$
# P(a, z) \;\propto\; \mathcal N(a;\, 0, \sigma_a^2)\; \mathcal N(z;\, 0, K_0)\; e^{a^\top t^\top z},
# $$ (eq-analog-single)
#
# where the $P\times m$ field $t$ is the training residual divided by $T$. For $\phi(z) = z$ this is a
# Gaussian; completing the square gives the covariance $U$ of the readouts, and $z$ given $a$:
#
# $$
# \begin{gathered}
# U = \bigl(\sigma_a^{-2} - t^\top K_0\, t\bigr)^{-1}, \\
# z \mid a \;\sim\; \mathcal N\bigl(K_0 t\, a,\; K_0\bigr).
# \end{gathered}
# $$ (eq-analog-conditional)
#
# The mean predictor has to fit, $Y - K_0 t\,U = T\,t$. For $T \to 0$ this gives $t = K_0^{-1} Y U^{-1}$,
# and with {eq}`eq-analog-conditional` $U/\sigma_a^2 - 1 = U^{-1} Y^\top K_0^{-1} Y$. The overlap $Y^\top
# K_0^{-1} Y$ grows with $P$ while $U$ should not: that is what $\sigma_a^2 = 1/P$ achieves. The 1 is then
# negligible, and $U^2 = \sigma_a^2\, Y^\top K_0^{-1} Y$.
#
# ### The readouts are one Gaussian cloud

# %% tags=["hide-input"]
figures.publish(**analog_checks.readout_posterior(shallow, theory))
analog_checks.check_readouts(shallow, theory, theory.readout_variance * np.eye(3), "the prior")

# %% [markdown]
# Paper A's closed form, $U^2 = \sigma_a^2\, Y^\top K_0^{-1} Y$, neglects $T$ and terms of relative order
# $1/P$: it gives $U_{00} =$ {glue:text}`closed:.3f`. The saddle at our $T$ and $P$ gives
# {glue:text}`saddle:.3f`, with the correction for finite width {glue:text}`finite:.4f`; the samples have
# {glue:text}`sampled:.4f` ± {glue:text}`sampled_error:.4f`.

# %% tags=["hide-input"]
mean, error = statistics.mean_and_error(analog.readout_gram(shallow)[..., 0])
glue("closed", linear.solve(task, 1).readout_covariance[0, 0], display=False)
glue("saddle", linear.solve(task, 1, T).readout_covariance[0, 0], display=False)
glue("finite", theory.readout_covariance[0, 0], display=False)
glue("sampled", float(mean), display=False)
glue("sampled_error", float(error), display=False)

# %% [markdown]
# ### Activations follow the readouts
#
# Equation {eq}`eq-analog-conditional` says that the activations of a neuron are a fixed linear map of its
# readouts plus noise with the *prior's* covariance. At $T\to0$ and large $P$ the map is $Y U^{-1}$: a
# neuron with a large readout for a class responds to this class. We regress sampled activations on sampled
# readouts.

# %%
regression = analog.regress(shallow)

# %% tags=["hide-input"]
figures.publish(**analog_checks.slopes(shallow, regression, theory))
analog_checks.check_slopes(shallow, regression, theory, seed)

# %% [markdown]
# ### Why the readout variance shrinks with P
#
# With $\sigma_a = 1$ the squared norm of the readouts per neuron grows as $P^{1/(L+1)}$: readouts take over
# the job that the non-lazy scaling gives to the features. With $\sigma_a^2 = P^{-1/L}$ it stays.

# %%
sizes, scaled, norms = np.array(settings.sizes) * N, {}, {}
few = counts | {"num_samples": settings.num_samples // 4, "readout_variance": 1.0}
for depth in (1, 2, 3):
    stream, needed = jax.random.fold_in(key, 10 + depth), depth in (*settings.norms, 3)
    scaled[depth] = analog.grow(stream, depth, sizes if needed else sizes[-1:], T, seed, **counts)
    if depth in settings.norms:
        norms[depth, True] = analog.readout_norms(scaled[depth])
        norms[depth, False] = analog.readout_norms(analog.grow(stream, depth, sizes, T, seed, **few))

# %% tags=["hide-input"]
figures.publish(**analog_checks.readout_norm(norms, T))
analog_checks.check_norms(norms)

# %% [markdown]
# ## Depth
#
# **Question.** What do the lower layers learn?
#
# Every output of a deep linear network is a weighted sum of the neurons of layer $\ell$. Let $A_\ell$ be the
# overlaps of these weights between outputs, an $m\times m$ matrix. A priori $A_L = \tfrac1N a^\top a$ has
# mean $\sigma_a^2$, and one layer down, as the weights between are Gaussian, $A_{\ell-1}$ is a Wishart matrix
# with mean $A_\ell$. The targets see only the end of this chain: $Y$ has covariance $\tfrac1N (K_0 \otimes
# A_1 + T)$. *A posteriori* the most probable chain is geometric, each matrix the one above times the same
# $H$: $A_\ell = \sigma_a^2 H^{L-\ell+1}$, so that $A_L = U = \sigma_a^2 H$, and
#
# $$
# \begin{aligned}
# \sigma_a^2\, t^\top K_0\, t &= (H-1)\,H^{-L} \\
# &\quad + \frac1N \sum_i \sigma_a^2\lambda_i\,(\lambda_i \sigma_a^2 H^L + T)^{-1}, \\
# Y &= K_0\,t\,\sigma_a^2 H^L + T\,t ,
# \end{aligned}
# $$ (eq-analog-saddle)
#
# with $\lambda_i$ the eigenvalues of $K_0$. Without the sum, which is of relative order $P^{-1/L}$ at $N =
# P$, and for $T\to0$ and large $P$, these are the formulas of {cite:t}`vanmeegen2025`,
#
# $$
# \begin{gathered}
# U^{L+1} = \sigma_a^{2L}\, Y^\top K_0^{-1} Y, \\
# K_\ell = K_0 + \sigma_a^{2(L-\ell)}\, Y\, U^{-(L-\ell+1)}\, Y^\top .
# \end{gathered}
# $$ (eq-analog-closed)
#
# The learned part of $K_\ell$ has the rank of $Y$ and entries of order $P^{-(1-\ell/L)}$: hardly anything in
# the first layer, order one in the last. The chain itself has only $L m(m+1)/2$ numbers, so that its
# averages can also be taken *exactly* at finite $N$, without a saddle point (`theory.wishart_chain`; the
# papers do not). Deeper networks have a larger gain $\sigma_a^2 H^L$ from field to output, and reach the
# same residual at a higher temperature: we sample $L = 2$ at $10\,T$ and $L = 3$ at $20\,T$.

# %%
two_theory = linear.solve(task, 2, 10 * T, width=N)
grown = analog.learned_strengths(scaled[3])
stream = jax.random.fold_in(key, 40)
figure_three = analog.learned_strengths(analog.grow(stream, 3, [N], T, seed, y_minus=-0.5, **counts))

# %% tags=["hide-input"]
figures.publish(**analog_checks.kernels_by_layer(figure_three.scan.runs[-1]))
figures.publish(**analog_checks.learned_strengths(grown))
analog_checks.check_readouts(scaled[2][-1], two_theory, theory.readout_covariance, "theory of L = 1")
analog_checks.check_strengths({"y₋ = 0": grown, "y₋ = −1/2, the task of Fig. 3": figure_three}, 20 * T)

# %% [markdown]
# The learned part has as many dimensions as the targets: the rank of $Y$ is 3 for $y_- = 0$, and 2 on the
# task of paper A's Fig. 3, where the three columns of $Y$ sum to zero.

# %% [markdown]
# ## What to take away
#
# - A linear network codes analog: one Gaussian cloud of readouts, each neuron's response to the classes a
#   linear image of its readouts. Theory and samples agree within the samples' errors at finite $N$, $P$ and
#   $T$, at every depth.
# - Kernels learn little in the first layer and much in the last, by the same factor from layer to layer.
# - The mean predictor is that of a Gaussian process with the *unlearned* kernel, $f(x) = Y^\top K_0^{-1}
#   k_0(x)$ at every depth: a linear network learns strong features and does not use them to predict
#   differently. What they buy is a smaller variance, which is shown on digits in
#   [the chapter on generalization](generalization.ipynb).
#
# **Limits.** Exact averages need $N > m + 1$ and a Gaussian prior; for $L \ge 2$ and small targets or high
# $T$ the saddle-point equation has a second, unlearned solution, and we follow the one that connects to $T
# \to 0$.
