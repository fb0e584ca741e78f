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
# Paper B {cite:p}`lauditi2025` describes feature learning by a kernel that adapts to the task. Paper A
# describes it by the codes of single neurons. Both theories are the same saddle point: one number, the
# *richness* $\gamma_0$, leads from the fixed kernel of a lazy network to paper A's coding schemes.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
num_inputs: int | None = None  # P of most tasks; None: the preset's
relu_inputs: int | None = None  # P of the ReLU's orthogonal task
widths: tuple | None = None  # N of the sampled networks
num_samples: int | None = None  # posterior samples per chain

# %% tags=["setup"]
from functools import partial
from itertools import pairwise

import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from adaptive_kernels import runs
from coding_schemes import statistics
from coding_schemes.networks import Network
from coding_schemes.statistics import share_of_way
from coding_schemes.theory import adaptive_kernel, dmft, sigmoidal
from companion import figures, presets
from companion.findings import Control, Estimate, Finding, extrapolated, spread
from companion.predicates import above, absolute, below, between, relative, standard_errors
from companion.publish import publish
from companion.workbench import solved, titled
from myst_nb import glue

given = {"num_inputs": num_inputs, "relu_inputs": relu_inputs, "widths": widths, "num_samples": num_samples}
sizes = presets.sizes(runs, preset, **given)
P, N, S = sizes.num_inputs, sizes.widths[-1], sizes.num_samples
counts = {"num_samples": S, "num_chains": 4, "num_warmup": 150}
fast, medium, slow = (counts | {"thinning": each} for each in sizes.thinning)
long = counts | {"num_samples": 2 * S, "thinning": 3}
slow |= {"num_chains": 8, "num_samples": S // 2}  # codes are kept for long: the error is that between chains
solver = {"num_neurons": sizes.neurons, "num_rounds": sizes.rounds}
key = jax.random.key(seed)
ridge = 1 / 50  # 1/β, with β the inverse temperature of paper B
toys = {"sigmoidal": runs.two_classes(P), "relu": runs.two_classes(sizes.relu_inputs)}
task = toys["sigmoidal"]
chosen = {phi: np.array([0.5, 2.0, each.num_inputs**0.5]) for phi, each in toys.items()}
rich = np.geomspace(0.1, 10, 13)  # γ0
ends = {
    phi: runs.ends(
        jax.random.fold_in(key, k), toys[phi], Network(1, N, phi), ridge, rich, chosen[phi], **options
    )
    for k, (phi, options) in enumerate({"sigmoidal": slow, "relu": medium}.items())
}
NAMES = [titled(phi) for phi in ends]
chains = [each["num_chains"] for each in (slow, medium)]
toy_size = {"P": [P, sizes.relu_inputs], "N": [N // 2, N], "L": 1, "1/β": ridge, "chains": chains}
for name, value in (("P", P), ("N", N)):
    glue(name, value, display=False)


# %% tags=["hide-input"]
def from_lazy_to_rich(richness, theory, sampled_richness, sampled, errors, names, colors, marks):
    """Kernel entries over the squared richness, a panel for each nonlinearity."""
    figure, axes = plt.subplots(1, len(names), figsize=(figures.WIDTH, 3.2))
    for k, axis in enumerate(axes):
        for c, (style, fill, label) in enumerate(
            (("-", colors[k], "one class"), ("--", "white", "two classes"))
        ):
            axis.plot(richness**2, theory[k, :, c], style, color=colors[k], label=f"inputs of {label}")
            look = {"fmt": "o", "color": colors[k], "markerfacecolor": fill}
            axis.errorbar(sampled_richness[k] ** 2, sampled[k, :, c], errors[k, :, c], **look)
        axis.axvline(marks[k], color="0.5", linestyle=":", linewidth=1.2)
        axis.set(title=names[k], xscale="log", xlabel=r"richness $\gamma_0^2$", ylim=(0, None))
    axes[0].set_ylabel(r"kernel entry $\Phi_{\mu\nu}$")
    figures.legend_above(figure, axes[0])
    return figure


at = {phi: runs.expected_entries(toys[phi], phi, chosen[phi], ridge) for phi in ends}
lazy = {phi: runs.lazy_entries(toys[phi], phi) for phi in ends}
found = [np.array(each) for each in zip(*(each.entries for each in ends.values()), strict=True)]
adapted_entries = Finding(
    "B1",
    "kernel entries of sampled networks at γ0² = 1/4, 4 and P, sigmoidal and ReLU",
    sampled=Estimate(*found),
    theory=np.array([*at.values()]),
    over=("one class", "two classes"),
    size=toy_size,
    sampler=[one for each in ends.values() for one in each.convergence],
    figure="two_ends",
    control=Control(
        "lazy kernel",
        theory=np.array([*lazy.values()])[:, None] * np.ones((1, 3, 1)),
        spared=("two classes",),
        because="between classes the ReLU's kernel hardly moves",
    ),
)
adapted_entries.draw(
    from_lazy_to_rich,
    "One number leads from a lazy network to paper A's. The kernel between two inputs of one class grows "
    "with the richness; between two classes the sigmoidal one falls, and the ReLU's stays. Lines: the "
    "adaptive kernel; markers: sampled networks, extrapolated in 1/N; dotted: paper A's choice, γ₀² = P. "
    "To the left the lines approach the kernels of random features.",
    richness=rich,
    theory=[each.theory for each in ends.values()],
    sampled_richness=[*chosen.values()],
    sampled=found[0],
    errors=found[1],
    names=NAMES,
    colors=[figures.COLORS[phi] for phi in ends],
    marks=[each.num_inputs for each in toys.values()],
)
adapted_entries.judge(standard_errors(3), because="corrections of order 1/N²")

# %% [markdown]
# *Needs:* the [primer](../book/primer.md). *Reading:* 20 minutes.
#
# Try it: a few lines solve for the adaptive kernel, from lazy to rich.

# %%
from coding_schemes import tasks, theory
from coding_schemes.networks import Network

toy = tasks.toy(20, (0.5, 0.5), targets=[[1.0], [-1.0]])  # 20 orthogonal inputs, half of them with y = 1
network = Network(depth=1, width=100, nonlinearity="sigmoidal")
for richness in (0.1, 0.5, 2.0, 20**0.5):
    adapted = theory.adaptive_kernel.solve(toy, network, richness=richness, ridge=0.02)
    kernel = adapted.kernels[-1]
    print(f"γ0 = {richness:.1f}: one class {kernel[0, 1]:.3f}, two classes {kernel[0, -1]:.3f}")

# %% [markdown]
# ## One saddle point
#
# Paper B writes the output of a network as $f = \tfrac{1}{\gamma_0 N} \sum_i w_i\,\phi(h_i)$, where neuron
# $i$ has the preactivation $h_i$ and the readout weight $w_i$. All weights have unit Gaussian priors, and
# $N\to\infty$ at fixed $P$. Now rename: $a = w/\gamma_0$, and $z$ for $h$. The readouts then have the prior
# variance $\sigma_a^2 = 1/\gamma_0^2$. The temperature is $T = 1/(\beta\gamma_0^2)$, where $\beta$ is paper
# B's inverse temperature. This *is* paper A's network.
#
# For one hidden layer take the convex function {eq}`primer-dual` of the primer and average over the Gaussian
# readouts. Its argument, the field $t$, says how hard each input pulls on the neurons. We write it as
# $t = \gamma_0\, q$, with one vector $q$ per output. From here on $h$ is
# the vector of *one* neuron's preactivations on the $P$ training inputs. The result is
#
# $$
# D(q) = \log\, \mathbb E_{h\sim \mathcal N(0, K_0)}\; e^{\frac12 |q^\top \phi(h)|^2} - \gamma_0\, q\cdot y +
# \frac{|q|^2}{2\beta}.
# $$ (eq-adaptive-dual)
#
# Let $q$ be the vector at which $D$ is smallest. A neuron then has the density of the prior, tilted by the
# factor $e^{\frac12 |q^\top \phi(h)|^2}$. The average of $\phi\phi^\top$ under the tilted density is the
# kernel $\Phi$. Setting the gradient of $D$ to zero gives $q = \gamma_0\, (\Phi + \tfrac1\beta)^{-1} y$. The
# predictor, with $\langle\cdot\rangle$ the average over neurons and over their preactivation $h(x)$ on the
# new input, is
#
# $$
# \begin{gathered}
# f(x) = k(x)^\top \bigl(\Phi + \tfrac1\beta\bigr)^{-1} y, \\
# k_\mu(x) = \langle \phi(h(x))\,\phi(h_\mu)\rangle .
# \end{gathered}
# $$ (eq-adaptive-predictor)
#
# This looks like regression with a fixed kernel and the *ridge* $1/\beta$. But the kernel is not fixed. The
# tilt enlarges it along $q$, and $q$ depends on the targets. For $\gamma_0 \to 0$ the tilt vanishes, and
# $\Phi$ is the kernel of random
# features. At $\gamma_0^2 = P$ it is the kernel of paper A's networks, whose neurons use codes. In between
# the kernel changes smoothly ({numref}`fig-adaptive-kernels-two-ends`). It does not show which codes the
# neurons use. The two checks that follow compare theory with theory: two solvers at $\gamma_0^2 = P$, and the
# adaptive kernel with the lazy one at small $\gamma_0$. No network is sampled for them.

# %% tags=["hide-input"]
adapted_to = partial(solved, adaptive_kernel.solve, task)
codes = sigmoidal.solve(task, ridge / P, readout_variance=1 / P)  # paper A: a lattice of readouts
half = adapted_to(Network(1, 1, "sigmoidal"), (P / 2) ** 0.5, ridge)
Finding(
    "D2",
    "kernel entries at γ0² = P, paper B's population of neurons against paper A's lattice of readouts",
    headline=True,
    sampled=runs.population_entries(task, P**0.5, ridge, sizes.crowds, sizes.rounds),
    theory=runs.entries(codes.kernel(task.labels), task.labels),
    over=("one class", "two classes"),
    size={"P": P, "L": 1, "neurons": sizes.crowds, "populations": 8},
    control=Control("γ0² = P/2", theory=runs.entries(half.kernels[1], task.labels)),
).judge(standard_errors(3), because="populations of few neurons are biased")
small = np.geomspace(0.01, 0.05, 4)
poor = {phi: runs.expected_entries(toys[phi], phi, small, ridge)[:, 0] for phi in ends}
away = [statistics.fit_power_law(small**2, np.abs(poor[phi] - lazy[phi][0])).exponent for phi in ends]
other = [statistics.fit_power_law(small**2, np.abs(poor[phi] - at[phi][0, 0])).exponent for phi in ends]
Finding(
    "B2",
    "exponent in γ0² with which the kernel inside a class approaches that of random features",
    headline=True,
    sampled=np.array(away),
    over=NAMES,
    size={"P": [P, sizes.relu_inputs], "L": 1, "γ0": [0.01, 0.05]},
    panel="Paper B, text",
    control=Control("distance from the kernel at γ0 = ½", sampled=np.array(other)),
).judge(between(0.9, 1.1), because="γ0 is not small enough")

# %% [markdown]
# ## Natural images: networks against their predictors
#
# Paper B's first figure compares the outputs of networks with predictors, on images. Ours does so on
# airplanes and automobiles of CIFAR-10, with three kinds of networks. The first are sampled from the
# posterior. {eq}`eq-adaptive-predictor` predicts their mean output; its kernel is called the adaptive
# Bayesian kernel, aNBK. The others are trained by gradient flow on the squared error, with weight decay
# $\lambda$ or without. For all weights $\theta$ together the flow is $\dot\theta = \gamma_0^2 N \sum_\mu
# (y_\mu - f(x_\mu))\, \nabla f(x_\mu) - \lambda\theta$. We say that a network is *at rest* when training with
# weight decay has ended. With weight decay and a homogeneous nonlinearity (linear, ReLU) a network with one
# hidden layer has, at every fixed point, the outputs
#
# $$
# f(x) = k(x)^\top (K + 2\lambda)^{-1} y,
# $$ (eq-adaptive-antk)
#
# with the network's own *final* tangent kernel $K_{\mu\nu} = \gamma_0^2 N\,\nabla f(x_\mu)\cdot\nabla
# f(x_\nu)$, the adaptive tangent kernel or aNTK, and its row $k(x)$; the gradients are those with respect to
# the weights. The reason is a balance. At rest, $\lambda\theta$ is $\gamma_0^2 N$ times the sum of $\nabla
# f(x_\mu)$ over the training inputs, each times its residual. Take the scalar product with $\nabla f(x)$. One
# side becomes $2\lambda f(x)$, since $f$ is of degree two in the weights, and the other $k(x)$ times the
# residuals. Solving for $f$ gives {eq}`eq-adaptive-antk`. Width plays no part in the
# argument, so it holds for networks of any width. But it is a prediction only when $K$ is known beforehand.
#
# In the limit of many neurons a ReLU network needs no kernel. Its fixed point solves a convex problem for the
# function $f$ itself. We call its solution the *solved predictor*:
#
# $$
# \min_f\; \tfrac12 |y - f|^2 + \tfrac{\lambda}{\gamma_0} \|f\|, \qquad
# \|f\| = \min \sum_i |w_i||u_i| \;\text{ over all } f = \sum_i w_i\, \phi(u_i\cdot x) .
# $$ (eq-adaptive-convex)
#
# The same problem determines the outliers of paper A's [sparse networks](sparse.ipynb), with $T/\sigma_a$ in
# place of $\lambda/\gamma_0$. Without weight decay nothing enforces {eq}`eq-adaptive-antk`, and the outputs
# still depend on the weights that training began with.


# %% tags=["hide-input"]
def networks_and_predictors(predicted, network, lazy, titles, colors):
    """Outputs of networks over those of adaptive and of lazy predictors, a panel for each kind."""
    figure, axes = plt.subplots(1, len(titles), figsize=(figures.WIDTH, 2.9), sharex=True, sharey=True)
    points = {"markersize": 3, "rasterized": True}  # a thousand of them would be most of the page
    line = np.array([-1.0, 1.0]) * np.abs(network).max()
    for k, axis in enumerate(axes):
        axis.plot(line, line, color=figures.COLORS["theory"], linewidth=1)
        axis.plot(lazy[k], network[k], ".", color="0.75", label="lazy predictor", **points)
        axis.plot(predicted[k], network[k], ".", color=colors[k], label="adaptive predictor", **points)
        axis.set(title=titles[k], xlabel="predictor")
    axes[0].set_ylabel("output of networks")
    figures.legend_above(figure, axes[0])
    return figure


images = runs.stored("scatter")
Q, decay = int(images["num_inputs"]), float(images["decay"])
column = lambda name: images[name].astype(float)[..., None]  # noqa: E731
way = column("NNGPK"), column("aNBK")
bayes = [spread(row) for row in share_of_way(column("sampled"), *way)]
image_size = {"P": Q, "L": 1, "γ0": 1}
posterior = Finding(
    "B1",
    "share of the way from the lazy to the adaptive predictor that sampled networks go, new images",
    headline=True,
    sampled=extrapolated(images["sampled widths"], bayes),
    theory=np.float64(1.0),
    size=image_size | {"N": images["sampled widths"].tolist(), "1/β": float(images["ridge"]), "chains": 8},
    sampler=runs.stored_sampler(images),
    stored=images.file,
    figure="images",
    panel="Paper B, Fig. 1",
    control=Control(
        "adaptive predictor at half the richness", theory=share_of_way(column("aNBK, half"), *way)
    ),
)
posterior.draw(
    networks_and_predictors,
    "Networks put out what the adaptive kernels (color) predict, and not what the lazy ones do. Trained "
    "without weight decay (right) they follow neither of the predictors with it. Outputs on new images of "
    "airplanes and automobiles over predictors. Left: mean of sampled erf networks over the aNBK. Middle: "
    "ReLU networks at rest under weight decay, over the solution of the convex problem. Right: ReLU networks "
    "trained without weight decay, over the same solution. Gray: the lazy predictors with the ridge of the "
    "colored ones.",
    predicted=[images["aNBK"], images["solved"], images["solved"]],
    network=[images["sampled"][-1].mean(0), images["at rest"][-1, 0], images["trained"][0]],
    lazy=[images["NNGPK"], images["NTK"], images["NTK"]],
    titles=["posterior", rf"at rest, $\lambda = {decay:g}$", r"$\lambda = 0$"],
    colors=[
        figures.COLORS["erf"] if "erf" in figures.COLORS else figures.BLUES[1],
        *[figures.COLORS["relu"]] * 2,
    ],
)
posterior.judge(standard_errors(3), because="corrections of order 1/N²")
lead = runs.rms(images["NTK"] - images["solved"])
away = runs.rms(images["at rest"] - images["solved"], axis=-1) / lead  # (widths, networks)
astray = spread(runs.rms(images["trained"] - images["solved"], axis=-1) / lead)
Finding(
    "B8",
    "rms distance of networks at rest from the solved predictor, over that of the lazy one, by width",
    headline=True,
    sampled=spread(away, axis=1),
    over=[f"N = {n}" for n in images["widths"]],
    size=image_size | {"N": images["widths"].tolist(), "λ": decay, "networks": away.shape[1]},
    stored=images.file,
    panel="Paper B, Fig. 1",
    control=Control(
        "networks without weight decay",
        sampled=Estimate(*(each * np.ones(len(away)) for each in astray)),
    ),
).judge(below(0.5, 3), because="narrow networks rest at places of their own, and the solver has an error")
apart = [
    np.array([runs.rms(a - b) / runs.rms(a) for a, b in zip(net, own, strict=True)])
    for net, own in (
        (images["at rest"][0], images["own kernel"]),
        (images["trained"], images["final kernel"]),
    )
]
Finding(
    "B8",
    "largest rms distance of networks from regression with their own final kernel, over rms outputs",
    sampled=apart[0].max(),
    size=image_size | {"N": int(images["widths"][0]), "λ": decay, "networks": len(apart[0])},
    stored=images.file,
    panel="Paper B, Fig. 1",
    control=Control("networks without weight decay, the smallest", sampled=apart[1].min()),
).judge(below(0.02), because="the slopes φ' on the way, which enter K, are averages over a finite time")
among = runs.rms(images["at rest"] - images["at rest"].mean(1, keepdims=True), axis=(1, 2)) / lead
numbers = {"relative": apart[0].max(), "without": apart[1].mean(), "nearest": away[-1].mean()}
numbers |= {"narrowest": among[0], "widest": among[-1], "lost": astray.value}
for name, value in numbers.items():
    glue(name, float(value), display=False)

# %% [markdown]
# We measure in units of the solved predictor's distance from the lazy one. The widest networks at rest end
# {glue:text}`nearest:.2f` away from the solved predictor, networks without weight decay
# {glue:text}`lost:.2f`. Networks at rest differ from each other by {glue:text}`narrowest:.2f` at the smallest
# width and by {glue:text}`widest:.2f` at the largest. We have not tested how much of the distance that is
# left at the largest width is the error of the convex solver. Regression with its *own* final kernel misses
# the outputs of a network at rest by {glue:text}`relative:.1%` at most, and those of a network without weight
# decay by {glue:text}`without:.0%` on average.
#
# ## What a finite width adds
#
# What is the mean output on a new input, and how far do networks scatter about it? The mean is that of
# {eq}`eq-adaptive-predictor`. A new input has no target, so nothing pulls on it: given a neuron's
# preactivations on the training inputs, its preactivation $h(x)$ on the new one is Gaussian, as in the prior.
# The average of $\phi(h(x))\,\phi(h_\mu)$ over $h(x)$ and over the neurons is $k_\mu(x)$.
#
# At finite $N$ the output varies from network to network with the variance $c/N$. Theory gives $c$ as well:
# it is the variance of one neuron's contribution, reduced because the other neurons respond to it
# ({numref}`fig-adaptive-kernels-variance`). It falls with $\gamma_0$, because readouts are smaller then. That
# is no effect of learning: an untrained network has $c = \langle\phi^2\rangle/\gamma_0^2$, which falls as
# well. At the same $\gamma_0$ the learned networks here vary *more* than untrained ones. We test mean and
# variance on random inputs, labeled by the sign of a linear teacher. A network's readouts are Gaussian once
# its preactivations are given, so we integrate the readouts out and sample the preactivations alone.

# %% tags=["hide-input"]
random = runs.teacher_task(P, 3 * P // 2, 50, seed)
over = {
    tuple(case): runs.over_widths(
        jax.random.fold_in(key, 10 + k), random, *case, 0.05, sizes.widths, solver, sizes.populations, **long
    )
    for k, case in enumerate(sizes.cases)
}
CASES = [f"{titled(phi)}, γ₀ = {richness}" for phi, richness in over]
on_random = {
    "size": {"P": P, "N": sizes.widths, "L": 1, "1/β": 0.05, "chains": 4},
    "sampler": [one for each in over.values() for one in each.convergence],
}
publish(
    figures.kernel_matrices,
    "clusters",
    caption="Learning sorts the kernel by class. Kernel of random features, and adaptive kernels of growing "
    "richness, inputs sorted by target.",
    tail=f"P = {P}, erf, 1/β = 0.05. Paper B, Fig. 3c.",
    kernels=[
        over["erf", 0.3].lazy.kernels[-1],
        *(over[case].theory.kernels[1] for case in over if case[0] == "erf"),
    ],
    labels=random.labels,
    titles=["lazy", *(f"γ₀ = {richness}" for phi, richness in over if phi == "erf")],
)
controls = (
    Control("lazy theory", theory=np.zeros(len(over))),
    Control(
        "theory at four fifths of the richness",
        theory=np.array([each.less_rich_shares[1] for each in over.values()]),
    ),
)
for k, (what, control) in enumerate(zip(("mean outputs on new inputs", "kernel"), controls, strict=True)):
    Finding(
        "B1",
        f"share of the way from lazy to adaptive that sampled networks go, {what}",
        sampled=Estimate(*(np.array([each.shares[part][k] for each in over.values()]) for part in (0, 1))),
        theory=np.float64(1.0),
        over=CASES,
        control=control,
        **on_random,
    ).judge(standard_errors(3), because="corrections of order 1/N²")
laws = [statistics.fit_power_law(each.widths, each.variance.value) for each in over.values()]
added = Finding(
    "B11",
    "N times the variance of the output on new inputs, extrapolated in 1/N",
    headline=True,
    sampled=Estimate(*np.transpose([each.slope for each in over.values()])),
    theory=np.array([each.predicted.value for each in over.values()]),
    over=CASES,
    figure="variance",
    panel="Paper B, Fig. 7",
    control=Control(
        "theory at four fifths of the richness",
        theory=np.array([each.predicted_less_rich for each in over.values()]),
    ),
    lacking=""
    if sizes.widths[0] >= 100
    else "At other seeds a line in 1/N through networks of some tens of neurons misses by up to five per "
    "cent, so that these widths do not decide.",
    **on_random,
)
added.draw(
    figures.scaling_plot,
    "A finite width adds variance, which falls as 1/N. Variance of the output, mean over new "
    "inputs: samples with standard errors, fitted power laws, and theory (dashed).",
    sizes=np.array(sizes.widths),
    values=[each.variance.value for each in over.values()],
    errors=[each.variance.error for each in over.values()],
    theory=[each.predicted.value / each.widths for each in over.values()],
    exponents=[law.exponent for law in laws],
    prefactors=[law.prefactor for law in laws],
    names=CASES,
    colors=[*figures.BLUES[::2], "#A63603"],
    xlabel="width $N$",
    ylabel="variance of the output",
)
added.judge(standard_errors(3), because="corrections of order 1/N²")

# %% [markdown]
# ## Neurons stop being Gaussian
#
# The tilt makes a neuron more probable by the factor $e^{|q^\top\phi|^2/2}$. For a bounded nonlinearity this
# favors neurons far out on either side, so that the density splits into two camps. For the ReLU it gives the
# density a long tail ({numref}`fig-adaptive-kernels-densities`).
#
# The neurons far out in this tail are the rarest, and they carry the outputs. Depending on the task, a
# network of $N$ neurons may have fewer than one of them. The right panel shows the width $N^*$ at which a
# network has about one. Far below this width the network is in another phase, in which a single neuron takes
# over what the tail would contribute. This is the sparse scheme of paper A, a condensate ([sparse
# coding](sparse.ipynb), [condensation](condensation.ipynb)). With $P = 10$ inputs all networks here lie above
# $N^*$. With $P = 30$ and $\gamma_0 \ge 3$, $N^*$ is more than a thousand. This may be too few: it is
# estimated from 2,048 neurons, and so cannot exceed their number.


# %% tags=["hide-input"]
def tails(samples, grid, density, names, colors, richness, crossovers, inputs, width):
    """Densities of the preactivations, and the width that the ReLU's population needs, over the richness."""
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(figures.WIDTH, 2.9))
    for k, axis in enumerate(axes[:-1]):
        axis.hist(samples[k], 60, density=True, log=True, color=colors[k], alpha=0.6, histtype="stepfilled")
        axis.plot(grid[k], density[k], color=figures.COLORS["theory"])
        axis.set(title=names[k], xlabel="preactivation $h$", ylim=(1 / len(samples[k]), None))
    for line, number, shade in zip(crossovers, inputs, figures.BLUES, strict=True):
        axes[-1].plot(richness**2, line, color=shade)
        axes[-1].text(richness[-1] ** 2, line[-1], f"P = {number}", ha="right", va="bottom")
    axes[-1].margins(y=0.15)  # room for the highest label
    axes[-1].axhline(width, color="0.5", linestyle=":")
    axes[-1].set(xscale="log", yscale="log", xlabel=r"richness $\gamma_0^2$", title="width $N^*$, ReLU")
    axes[0].set_ylabel("density")
    return figure


many = {"num_neurons": 2048, "num_rounds": 25}  # at once: neurons of two camps do not change sides
solutions = {
    phi: [
        [
            solved(adaptive_kernel.solve, toys[phi], Network(1, N, phi), g, ridge, seed=k, **many)
            for k in range(4)
        ]
        for g in chosen[phi]
    ]
    for phi in ends
}
inputs, places = (sizes.relu_inputs, 20, 30), np.geomspace(0.25, 5, 7)
crossovers = [
    [
        runs.crossover_width(
            solved(adaptive_kernel.solve, runs.two_classes(number), Network(1, 1, "relu"), g, ridge, **many)
        )
        for g in places
    ]
    for number in inputs
]
shapes = [np.array(each) for each in zip(*(each.shapes for each in ends.values()), strict=True)]
predicted, uncertain = np.moveaxis([runs.predicted_shapes(solutions[phi]) for phi in ends], 1, 0)
exact = list(ends).index("sigmoidal")  # its theory is known without a population's scatter
predicted[exact] = [runs.exact_shape(toys["sigmoidal"], "sigmoidal", g, ridge) for g in chosen["sigmoidal"]]
uncertain[exact] = 0.0
both_errors = np.hypot(shapes[1], uncertain)
picked = [runs.density(each.preactivations, solutions[phi][-1][0]) for phi, each in ends.items()]
on_toys = {"size": toy_size, "sampler": adapted_entries.sampler}
PLACES = ("γ0² = 1/4", "γ0² = 4", "γ0² = P")
tilted = Finding(
    "B5",
    "⟨|h|⟩/⟨h²⟩^½ of the preactivations, sigmoidal and ReLU",
    headline=True,
    sampled=Estimate(shapes[0][..., 1], both_errors[..., 1]),
    theory=predicted[..., 1],
    over=PLACES,
    figure="densities",
    panel="Paper B, Figs 3b and 6",
    control=Control("Gaussians", theory=np.full(predicted[..., 1].shape, (2 / np.pi) ** 0.5)),
    **on_toys,
)
tilted.draw(
    tails,
    "Preactivations of rich networks are not Gaussian: the sigmoidal ones form two camps, and the ReLU's "
    "have a tail. Left and middle: neurons of sampled networks on inputs of class 0 (areas), and theory "
    "(lines), γ₀² = P. Right: the width that a network needs to have one neuron of the ReLU's tail; "
    "dotted, that of the networks.",
    samples=[values for _, values, _ in picked],
    grid=[grid for grid, *_ in picked],
    density=[heights for *_, heights in picked],
    names=NAMES,
    colors=[figures.COLORS[phi] for phi in ends],
    richness=places,
    crossovers=crossovers,
    inputs=inputs,
    width=N,
)
tilted.judge(standard_errors(3), because="corrections of order 1/N²")
Finding(
    "B5",
    "⟨h²⟩ of the preactivations, sigmoidal and ReLU",
    sampled=Estimate(shapes[0][..., 0], both_errors[..., 0]),
    theory=predicted[..., 0],
    over=PLACES,
    panel="Paper B, Figs 3b and 6",
    control=Control("random features", theory=np.ones(predicted[..., 0].shape)),
    **on_toys,
).judge(standard_errors(3), because="corrections of order 1/N²")

# %% [markdown]
# ## Depth: the last layer needs the least richness
#
# In deep linear networks every layer enlarges the kernel's overlap with the targets by the same factor. On
# white inputs (orthogonal, $K_0 = \mathbb 1$) their saddle point reduces to one number per layer, the overlap
# $c_\ell = \hat y^\top \Phi^\ell \hat y$ of the layer's kernel with the normalized targets $\hat y = y/|y|$.
# At the saddle point every layer multiplies it by the same factor, so that $c_\ell = r^\ell$. The factor
# solves
#
# $$
# (r - 1)\, r^{-L}\, (r^L + 1/\beta)^2 = X, \qquad X = \gamma_0^2\, |y|^2 .
# $$ (eq-adaptive-overlaps)
#
# At zero ridge, $1/\beta \to 0$, the last layer's overlap has three limits. It is $c_L = 1 + LX$ in lazy
# networks ($X \to 0$), $c_L = X^{L/(L+1)}$ in rich ones ($X \to \infty$), and $c_L = e^{W(LX)}$ in very deep
# ones ($L \to \infty$ at fixed $X$), with Lambert's function $W$. The formulas can be tested without the
# saddle point: at finite $N$ all averages of deep linear networks are known exactly (`theory.wishart_chain`,
# [analog coding](analog.ipynb)), and we extrapolate them to $N \to \infty$. The limits are only approached:
# $c_L$ is 8 % above the rich limit at $X = 10^4$, and 4 % below the deep one at $L = 16$.


# %% tags=["hide-input"]
def depth_and_limits(layers, lines, sampled, errors, names, colors, over, ratios, saddles, regimes):
    """Overlaps over layers, and the last layer's on the way to the three limits."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(figures.WIDTH, 3.2))
    for line, name, color in zip(lines, names, colors, strict=True):
        left.plot(np.arange(len(line)), line, color=color, label=name)
    left.errorbar(layers, sampled, errors, fmt="o", color=colors[2])
    left.set(yscale="log", xlabel=r"layer $\ell$", ylabel=r"overlap $c_\ell$")
    for k, regime in enumerate(regimes):
        color = figures.CLASS_COLORS[k]
        right.plot(over[k], saddles[k], color=color, label=regime)
        right.plot(over[k], ratios[k], "o", color=color)
    right.axhline(1, color=figures.COLORS["theory"], linestyle="--", linewidth=0.8)
    right.set(xscale="log", xlabel=r"$X$ (lazy, rich) or $L$ (deep)", ylabel=r"$c_L$ over its limit")
    left.legend()
    right.legend()
    return figure


depths = {L: adaptive_kernel.overlaps(L, 0.25 * P, ridge) for L in (1, 2, 3, 5)}
first, second = (jax.random.fold_in(key, k) for k in (20, 21))
deep = [
    runs.sampled(
        jax.random.fold_in(first, n),
        task,
        Network(3, n, "linear"),
        0.5,
        ridge,
        store=("preactivations",),
        **slow,
    )
    for n in sizes.deep_widths
]
at_widths = runs.sampled_overlaps(deep)
LAYERS = ("layer 1", "layer 2", "layer 3")
regimes = {
    "lazy": [(3, x) for x in sizes.lazy_places],
    "rich": [(3, x) for x in sizes.rich_places],
    "deep": [(L, 1.0) for L in sizes.deep_places],
}
toward = runs.limits(regimes, sizes.limit_widths)
linear_growth = 1 + (depths[3].overlaps[-1] - 1) * np.arange(1, 4) / 3
growth = Finding(
    "B3",
    "overlaps of sampled deep linear networks, extrapolated in 1/N, against r^ℓ",
    headline=True,
    sampled=extrapolated(sizes.deep_widths, at_widths),
    theory=depths[3].overlaps[1:],
    over=LAYERS,
    size={"P": P, "N": sizes.deep_widths, "L": 3, "γ0": 0.5, "1/β": ridge, "chains": 4},
    sampler=[run.convergence for run in deep],
    figure="overlaps",
    panel="Paper B, Fig. 2a; Paper B, Fig. 2b",
    control=Control(
        "the same growth in equal steps",
        theory=linear_growth,
        spared=("layer 3",),
        because="there both growths end at the same overlap",
    ),
)
growth.draw(
    depth_and_limits,
    "Deep linear networks learn by the same factor from layer to layer. Left: overlap of each layer's kernel "
    "with the targets for several depths (lines), and sampled networks of three hidden layers, extrapolated "
    "in 1/N (markers). Right: the last layer's overlap, over its lazy, rich and deep limit: saddle point "
    "(lines), and exact averages over networks, extrapolated in 1/N (markers).",
    layers=np.arange(1, 4),
    lines=runs.padded([each.overlaps for each in depths.values()]),
    sampled=growth.sampled.value,
    errors=growth.sampled.error,
    names=[f"L = {L}" for L in depths],
    colors=[*figures.BLUES, figures.COLORS["theory"]],
    over=runs.padded([each.over for each in toward.values()]),
    ratios=runs.padded([each.averages / each.limit for each in toward.values()]),
    saddles=runs.padded([each.saddle / each.limit for each in toward.values()]),
    regimes=list(toward),
)
growth.judge(standard_errors(3), because="corrections of order 1/N²")
exact = [runs.exact_overlaps(task, 3, 0.5, ridge, n) for n in sizes.deep_widths]
richer = [runs.exact_overlaps(task, 3, 0.6, ridge, n) for n in sizes.deep_widths]
Finding(
    "B3",
    "overlaps of sampled deep linear networks against exact averages at the same N",
    sampled=Estimate(*(np.array([each[part] for each in at_widths]) for part in (0, 1))),
    theory=np.array(exact),
    over=LAYERS,
    size=growth.size,
    sampler=growth.sampler,
    panel="Paper B, Fig. 2a",
    control=Control("γ0 larger by a fifth", theory=np.array(richer)),
).judge(standard_errors(3), because="the sampler is slow along the strengths of lower layers")
far = {"L": [3, 3, sizes.deep_places[-1]], "X": [sizes.lazy_places[-1], sizes.rich_places[-1], 1.0]}
last = [
    np.array([getattr(each, name)[-1] for each in toward.values()])
    for name in ("averages", "saddle", "richer")
]
Finding(
    "B3",
    "last layer's overlap farthest on the way to the three limits, averages extrapolated in 1/N, over r^L",
    sampled=last[0] / last[1],
    theory=np.ones(3),
    over=tuple(toward),
    size=far | {"N": sizes.limit_widths},
    panel="Paper B, Fig. 2b",
    control=Control("γ0 larger by a tenth", theory=last[2] / last[1]),
).judge(relative(0.005), because="corrections of order 1/N²")


def approach(formula):
    """Distance of log c_L from a formula farthest on the way, over that at the first place."""
    away = [np.abs(np.log(each.averages / getattr(each, formula))) for each in toward.values()]
    return np.array([each[-1] / each[0] for each in away])


Finding(
    "B3",
    "distance of log c_L from its lazy, rich and deep limit farthest on the way, over that at the start",
    sampled=approach("limit"),
    over=tuple(toward),
    size=far | {"N": sizes.limit_widths},
    panel="Paper B, Fig. 2b",
    control=Control("another regime's limit", sampled=approach("other")),
).judge(below(1.0), because="the limit is not approached")

# %% [markdown]
# For ReLU networks there is no such closed form, so we sample them, on the random inputs with a teacher's
# labels. We measure the *alignment* of each layer's kernel $K$ with the targets, $y^\top K y\,/\,(|y|^2\,
# \lVert K\rVert)$ with the Frobenius norm. It grows with $\gamma_0$ in all layers. Random features have some
# alignment already, so what counts is the gain over theirs. The last layer is the first to gain a given
# amount.

# %% tags=["hide-input"]
stored_layers = fast | {"num_chains": 8, "store": ("preactivations",)}  # with four some do not mix
moves = ("gibbs", "scale")  # the second trades a neuron's strength with its readout's
relu_network = Network(3, sizes.align_width, "relu")
deep_relu = {
    g: runs.sampled(
        jax.random.fold_in(second, k), random, relu_network, g, 0.05, moves=moves, **stored_layers
    )
    for k, g in enumerate(sizes.align_richness)
}
aligned = runs.alignments(deep_relu, random.targets)
across = runs.alignments(deep_relu, random.targets, runs.alignment_across)
layers_size = {"P": P, "N": sizes.align_width, "L": 3, "1/β": 0.05, "chains": 8}
elements = [f"{name}, γ₀ to {g}" for g in sizes.align_richness[1:] for name in LAYERS]
rise = Finding(
    "B6",
    "growth of every layer's alignment with the targets from each γ0 to the next",
    headline=True,
    sampled=aligned.steps,
    over=elements,
    size=layers_size | {"γ0": sizes.align_richness},
    sampler=aligned.convergence,
    figure="alignment",
    panel="Paper B, Fig. 4a",
    control=Control("all directions at right angles to the targets", sampled=across.steps),
)
rise.draw(
    figures.curves,
    "Every layer's kernel aligns with the targets as networks grow richer, the last layer's first. Lines: "
    "sampled ReLU networks of three hidden layers, with standard errors; dashed: random features.",
    x=aligned.richness,
    values=[*aligned.mean.value.T, *np.repeat(aligned.lazy[:, None], len(aligned.richness), 1)],
    errors=[*aligned.mean.error.T, *np.zeros((3, len(aligned.richness)))],
    names=[*LAYERS, *LAYERS],
    colors=figures.BLUES,
    styles=["-"] * 3 + ["--"] * 3,
    scales=("log", "linear"),
    xticks=aligned.richness,
    xlabel=r"richness $\gamma_0$",
    ylabel="alignment with the targets",
)
rise.judge(above(0, 3), because="few samples")
onsets = -np.diff(aligned.onsets, axis=1)
exchanged = aligned.onsets.copy()
exchanged[::2] = exchanged[::2, ::-1]
Finding(
    "B6",
    "by how much later in log γ0 a layer's alignment has gained 0.1 than that of the layer above",
    sampled=spread(onsets),
    over=("layer 1 after 2", "layer 2 after 3"),
    size=layers_size,
    sampler=aligned.convergence,
    panel="Paper B, Fig. 4a",
    control=Control(
        "layers in reverse order in every second network", sampled=spread(-np.diff(exchanged, axis=1))
    ),
).judge(above(0, 3), because="few samples")
for k, name in enumerate(("onset_one", "onset_two", "onset_three")):
    glue(name, float(np.exp(aligned.onsets.mean(0)[k])), display=False)

# %% [markdown]
# The alignments of layers 1, 2 and 3 have gained 0.1 at $\gamma_0 =$ {glue:text}`onset_one:.2f`,
# {glue:text}`onset_two:.2f` and {glue:text}`onset_three:.2f`.
#
# What happens at small richness? The kernel moves in proportion to $\gamma_0^2$. The coefficient
# needs only fourth moments of random features. To test it we subtract this first order from the exact kernel
# of a small case (two inputs, two hidden layers of erf neurons, by quadrature). What is left falls as
# $\gamma_0^4$, the next order.

# %% tags=["hide-input"]
few, two = np.geomspace(0.04, 0.16, 4), runs.two_classes(2)
remainder = runs.expansion_errors(two, Network(2, 1, "erf"), 0.1, few)
orders = [statistics.fit_power_law(few**2, each).exponent for each in remainder.T]
Finding(
    "B4",
    "exponent in γ0² of what the first order leaves of the feature kernel",
    headline=True,
    sampled=np.float64(orders[1]),
    size={"P": 2, "L": 2, "1/β": 0.1},
    panel="Paper B, text",
    control=Control("what order zero leaves", sampled=np.float64(orders[0])),
).judge(between(1.8, 2.2), because="higher orders at the largest γ0")

# %% [markdown]
# ## Gradient flow
#
# Under gradient flow from random weights the neurons interact only through the residuals $\Delta(t) = y -
# f(t)$. As $N\to\infty$ a network with one hidden layer becomes a population of independent neurons, all
# driven by the same $\Delta$. This is dynamical mean-field theory. It predicts losses over time. The loss on
# training inputs is the test of it here. The loss on new inputs falls so little on this task that the
# population of $\gamma_0 = 0.8$ in place of 1 passes this check, too: it only tells that something
# was learned.

# %% tags=["hide-input"]
flow = runs.flows(random, 1.0, 0.1, sizes.flow_widths, sizes.num_networks, duration=6.0, num_records=24)
shown = [2, 4, 8, 24]  # records at which losses are compared
means = spread(flow.losses, axis=1)
rows, limits = flow.at(shown), runs.losses(flow.limit)
of_losses = {
    "size": {"P": P, "N": sizes.flow_widths[-2:], "γ0": 1, "λ": 0.1, "networks": sizes.num_networks},
    "panel": "Paper B, Fig. 8",
}
times = [f"t = {flow.limit.times[k]:g}" for k in shown]
followed = Finding(
    "B9",
    "loss on training inputs at t = 0.5, 1, 2 and 6, extrapolated in 1/N",
    headline=True,
    sampled=Estimate(rows.value[0], rows.error[0]),
    theory=limits[0, shown],
    over=times,
    figure="losses",
    control=Control("a lazy population, γ0 = 0.05", theory=runs.losses(flow.lazy)[0, shown]),
    **of_losses,
)
followed.draw(
    figures.curves,
    "Losses of networks follow those of the population. Loss on training inputs (solid) and on new ones "
    "(dashed) over time; networks with bands of one standard error. The line of the population, N → ∞, is "
    "drawn beneath those of the networks.",
    x=flow.limit.times,
    values=[*runs.losses(flow.limit), *means.value.reshape(-1, 25)],
    errors=[*np.zeros((2, 25)), *means.error.reshape(-1, 25)],
    names=np.repeat(["N → ∞", *(f"N = {width}" for width in flow.widths)], 2),
    colors=[figures.COLORS["theory"], *figures.BLUES],
    styles=["-", "--"],
    scales=("linear", "log"),
    xlabel=r"time $t$",
    ylabel=r"loss $\frac{1}{2} \langle |y - f|^2 \rangle$",
)
followed.judge(standard_errors(3), because="corrections of order 1/N²")
Finding(
    "B9",
    "loss on new inputs at t = 0.5, 1, 2 and 6, extrapolated in 1/N",
    sampled=Estimate(rows.value[1], rows.error[1]),
    theory=limits[1, shown],
    over=times,
    control=Control(
        "before training",
        theory=np.full(len(shown), limits[1, 0]),
        spared=times[:1],
        because="little of what helps on new inputs has been learned by then",
    ),
    **of_losses,
).judge(standard_errors(3), because="corrections of order 1/N²")
exponents = flow.exponents()
Finding(
    "B9",
    "exponent in N of the distance of networks' outputs from the population, all times and new inputs",
    sampled=Estimate(exponents.value[0], exponents.error[0]),
    theory=np.float64(-0.5),
    source="1/√N",
    size=followed.size | {"N": sizes.flow_widths},
    panel="Paper B, Fig. 8",
    control=Control(
        "distance from the lazy population", sampled=Estimate(exponents.value[1], exponents.error[1])
    ),
).judge(standard_errors(3), because="corrections of higher order at the smallest width")

# %% [markdown]
# ## How rich, how long?
#
# Paper B finds that richer networks learn faster, that one richness is best, and that with few images it pays
# to stop early. The first and the last hold here. The second holds only if all networks train to our last
# time. We follow ReLU populations ($N\to\infty$) of four richnesses without weight decay, on ten images of
# airplanes and automobiles.


# %% tags=["hide-input"]
def losses_over_time(times, new, training, errors, names, colors):
    """Losses over time on new and on training inputs, a color for each richness."""
    figure, axes = plt.subplots(1, 2, figsize=(figures.WIDTH, 3.2))
    for g, (name, color) in enumerate(zip(names, colors, strict=True)):
        axes[0].plot(times[1:], new[g, 1:], color=color, label=name)
        axes[0].fill_between(
            times[1:], (new - errors)[g, 1:], (new + errors)[g, 1:], color=color, alpha=0.15, linewidth=0
        )
        axes[1].plot(times[1:], training[g, 1:], color=color)
    axes[0].set(title="new images", ylabel=r"loss $\frac{1}{2} \langle |y - f|^2 \rangle$")
    axes[1].set(title="training images", yscale="log", ylim=(1e-6, 1))
    for axis in axes:
        axis.set(xscale="log", xlabel=r"time $t$")
    figures.legend_above(figure, axes[0])
    return figure


movies = runs.stored("paths")
paths, times, richness = (movies[name].astype(float) for name in ("losses", "times", "richness"))
averaged, final = spread(paths, axis=1), paths[:, :, :, -1]  # paths: (γ0, draws, training or new, times)
GAMMAS = [f"γ0 = {g:g}" for g in richness]
on_paths = {
    "size": {
        "P": int(movies["num_inputs"]),
        "new images": int(movies["num_test"]),
        "γ0": richness.tolist(),
        "λ": 0,
        "draws": paths.shape[1],
    },
    "stored": movies.file,
}
pilot = movies["pilot"].astype(float)  # mean test loss over other draws, (γ0, times): it chooses
stop = pilot.argmin(axis=1)
stopped = np.stack([one[..., k] for one, k in zip(paths, stop, strict=True)])
best, best_stopped = (1 + each[1:-1].argmin() for each in (pilot[:, -1], pilot.min(axis=1)))
at_random = np.random.default_rng(seed).permuted(stopped[..., 1], axis=0)


def excess(losses, best):
    """Losses (γ0, draws) at the smallest and the largest richness above that at the best one between."""
    return spread(losses[[0, -1]] - losses[best], axis=1)


optimum = Finding(
    "B14",
    f"test loss at t = {times[-1]:g}: smallest and largest richness above the best one between",
    headline=True,
    sampled=excess(final[..., 1], best),
    over=("smallest", "largest"),
    figure="paths",
    panel="Paper B, Fig. 8",
    control=Control(
        "training loss",
        sampled=excess(final[..., 0], best),
        spared=("smallest",),
        because="lazy networks have not come to rest",
    ),
    **on_paths,
)
optimum.draw(
    losses_over_time,
    "Richer networks learn faster, and the mean loss on new images turns up again. Left: new images of "
    "airplanes and automobiles, mean over draws of the images with standard errors; right: training images. "
    "ReLU populations of four richnesses. All have the same draws, so that differences between them are "
    "surer than the bands.",
    times=times,
    new=averaged.value[:, 1],
    training=averaged.value[:, 0],
    errors=averaged.error[:, 1],
    names=[f"γ₀ = {g:g}" for g in richness],
    colors=list(plt.get_cmap("viridis")(np.linspace(0, 0.9, len(richness)))),
)
optimum.judge(above(0, 3), because="the draws scatter by more than the richnesses differ")
in_time = Finding(
    "B14",
    "the same with training of each richness stopped at its best time",
    sampled=excess(stopped[..., 1], best_stopped),
    over=("smallest", "largest"),
    panel="Paper B, Fig. 8",
    control=Control("richness exchanged at random", sampled=excess(at_random, best_stopped)),
    **on_paths,
)
in_time.judge(above(0, 3), because="stopped in time, the laziest networks are as good as any")
saved = spread(final[..., 1] - stopped[..., 1], axis=1)
Finding(
    "B14",
    "test loss that stopping early saves, the time chosen on other draws",
    sampled=saved,
    over=GAMMAS,
    panel="Paper B, Fig. 9",
    control=Control("training loss", sampled=spread(final[..., 0] - stopped[..., 0], axis=1)),
    **on_paths,
).judge(above(0, 3), because="the draws differ by more than is saved")
half_time = runs.time_to(paths[:, :, 0], times)  # (γ0, draws)
mixed = np.random.default_rng(seed).permuted(half_time, axis=0)
Finding(
    "B14",
    "fall of the log time at which the training loss is halved, from each richness to the next",
    sampled=spread(-np.diff(half_time, axis=0), axis=1),
    over=[f"{a:g} to {b:g}" for a, b in pairwise(richness)],
    panel="Paper B, Fig. 8",
    control=Control("richness exchanged at random", sampled=spread(-np.diff(mixed, axis=0), axis=1)),
    **on_paths,
).judge(above(0, 3), because="lazy networks all learn at the same speed")
gap, gap_stopped = optimum.sampled, in_time.sampled
for name, value in (
    ("best_richness", richness[best]),
    ("last_time", times[-1]),
    ("stopped", saved.value.mean()),
    ("gap_small", gap.value[0]),
    ("gap_small_error", gap.error[0]),
    ("gap_large", gap.value[1]),
    ("gap_large_error", gap.error[1]),
    ("gap_stopped", gap_stopped.value[0]),
    ("gap_stopped_error", gap_stopped.error[0]),
    ("rich_stopped", gap_stopped.value[1]),
    ("rich_stopped_error", gap_stopped.error[1]),
    ("faster", 100 * np.expm1(-np.diff(half_time, axis=0).mean(1)[0])),
):
    glue(name, float(value), display=False)
moments = np.array([runs.second_moment(each) for each in (0.4, 0.2, 0.1, 0.05)])
limit_last = np.polyfit((0.4, 0.2, 0.1, 0.05), moments, 2)[-1]
Finding(
    "B14",
    "⟨h²⟩ of one input for λ → 0 after t → ∞",
    sampled=np.float64(limit_last),
    theory=np.float64(1.0),
    size={"P": 1, "γ0": 1, "λ": [0.05, 0.4]},
    panel="Paper B, text",
    control=Control("λ = 0 first", sampled=runs.second_moment(0.0)),
).judge(absolute(0.01), because="the flow has not come to rest")
for name, value in (("limit_last", limit_last), ("limit_first", runs.second_moment(0.0))):
    glue(name, float(value), display=False)

# %% [markdown]
# At the last time, $t =$ {glue:text}`last_time:.0f`, the test loss is lowest at the richness $\gamma_0 =$
# {glue:text}`best_richness:.1f`. That of the smallest richness is higher by {glue:text}`gap_small:.4f` ±
# {glue:text}`gap_small_error:.4f`, and that of the largest by {glue:text}`gap_large:.4f` ±
# {glue:text}`gap_large_error:.4f`. So shallow an optimum takes hundreds of draws of the images to see. Lazy
# networks have not come to rest at this time; we have not followed them longer.
#
# Stopping early lowers the test loss by more than that, {glue:text}`stopped:.3f` on average. Let each
# richness be stopped at its best time. Then the smallest is as good as the better of the two middle ones: its
# test loss lies {glue:text}`gap_stopped:.4f` ± {glue:text}`gap_stopped_error:.4f` above. That of the largest
# lies {glue:text}`rich_stopped:.4f` ± {glue:text}`rich_stopped_error:.4f` above. (It is at its best so early,
# at the first recorded times, that a finer record might lower it.) So there is no optimum between the two,
# only a richness beyond which it gets worse. Errors are over draws from the 1,785 images of the two classes
# that we have.
#
# Richer networks learn faster: even between the two smallest richnesses the time in which the training loss
# is halved falls by {glue:text}`faster:.1f` %.
#
# A vanishing weight decay is not the same as none. Take one input with the target 1. Let training end, and
# then take $\lambda \to 0$: the result is $\langle h^2\rangle =$ {glue:text}`limit_last:.3f`. Without weight
# decay from the start it is {glue:text}`limit_first:.3f`, and depends on where the network began. The two
# limits do not commute.
#
# ## What is left at rest
#
# Beyond a threshold of weight decay nothing is learned. On white inputs the fixed point is known in closed
# form. A ReLU network splits into neurons for the positive targets and neurons for the negative ones. Let $Y$
# be the norm of one group's targets. Averaged over all neurons, the group contributes $\gamma_0 Y - \lambda$
# to $\langle w^2\rangle$. At $\lambda = \gamma_0 Y$ the group dies, and beyond that nothing of its targets is
# learned ({numref}`fig-adaptive-kernels-collapse`).
#
# Linear networks remember how their initial weights were distributed. Under weight decay the flow in the end
# only *rescales* $h_0 + w_0$, the sum of a neuron's initial preactivation and readout. So networks that start
# with Laplace weights stay non-Gaussian for good. We run this with weight decay.

# %% tags=["hide-input"]
white = runs.white_task((1.0, 1.0, 1.0, -1.0))
fixed = runs.fixed_points(white, sizes.decays, 256, sizes.num_networks)
thin = np.linspace(0.05, 2.1, 83)
expected = runs.expected_moments(white, sizes.decays)
MOMENTS = ("⟨w²⟩", *(f"⟨φ(h)²⟩, y = {y:+g}" for y in white.targets[:, 0]))
white_size = {"P": 4, "N": 256, "γ0": 1, "λ": sizes.decays, "networks": sizes.num_networks}
collapse = Finding(
    "B12",
    "moments at rest on four white inputs, over λ",
    headline=True,
    sampled=fixed.moments,
    theory=expected,
    over=MOMENTS,
    size=white_size,
    figure="collapse",
    panel="Paper B, Fig. 10",
    control=Control("one group for all targets", theory=runs.expected_moments(white, sizes.decays, groups=1)),
)
curve = runs.expected_moments(white, thin)
collapse.draw(
    figures.curves,
    "Beyond a threshold of weight decay nothing is learned, and every group of targets has its own. Second "
    "moments of ReLU networks at the end of training on three inputs with the target 1 and one with −1: "
    "networks (markers) and the closed form (lines).",
    x=thin,
    values=curve[:, [0, 1, 4]].T,
    names=["readouts", "activations, y = 1", "activations, y = −1"],
    colors=[figures.COLORS["theory"], figures.COLORS["relu"], figures.BLUES[1]],
    sampled_x=np.array(sizes.decays),
    sampled=fixed.moments[:, [0, 1, 4]].T,
    xlabel=r"weight decay $\lambda$",
    ylabel="second moment",
)
collapse.judge(absolute(0.01), because="slow relaxation near the thresholds")
Finding(
    "B12",
    "share of ⟨h²⟩ that lies at h < 0 at rest",
    sampled=fixed.negative.max(),
    size=white_size,
    panel="Paper B, Fig. 10",
    control=Control("at the start", sampled=np.float64(0.5)),
).judge(below(0.01), because="slow relaxation near the thresholds")
heavy, normal = (runs.final_kurtosis(start, 4096, sizes.num_networks) for start in ("laplace", "gaussian"))
Finding(
    "B13",
    "excess kurtosis of h at rest, linear networks that start with Laplace weights",
    headline=True,
    sampled=spread(heavy[:, 0]),
    theory=np.float64(1.5),
    size={"P": 1, "N": 4096, "γ0": 1, "λ": 0.3, "networks": sizes.num_networks},
    panel="Paper B, Fig. 11",
    control=Control("Gaussian weights", sampled=spread(normal[:, 0])),
).judge(standard_errors(3), because="the flow has not come to rest")
Finding(
    "B13",
    "⟨h²⟩ at rest with Laplace weights, and γ0 − λ",
    sampled=np.float64(heavy[:, 1].mean()),
    theory=np.float64(0.7),
    size={"P": 1, "N": 4096, "γ0": 1, "λ": 0.3, "networks": sizes.num_networks},
    panel="Paper B, Fig. 11",
    control=Control("⟨h²⟩ for λ → 0 after t → ∞, γ0", theory=np.float64(1.0)),
).judge(absolute(0.01), because="the flow has not come to rest")

# %% [markdown]
# ## What to take away
#
# - Papers A and B solve one saddle point. At $\gamma_0^2 = P$ the adaptive kernel is that of paper A's coding
#   schemes; at $\gamma_0\to0$ it is that of random features.
# - The adaptive kernel predicts the mean outputs, kernels and variances of sampled networks.
# - Trained with weight decay, a ReLU network ends near the solution of a convex problem, and the nearer the
#   wider it is.
# - Depth multiplies: every layer of a deep linear network multiplies the overlap with the targets by the
#   same factor. In deep ReLU networks the last layer is the first to align.
#
# **Limits.** $P$ is small: the solver represents the tilted density by a population of neurons. At the ridges
# here this works for some tens of general inputs, and in rich ReLU networks for fewer; at larger ridges it
# goes farther ([adaptive kernels on images](adaptive_images.ipynb)). Formulas of paper B were derived
# anew; where its conventions could not be read off, ours are in the [glossary](../book/glossary.md). Paper
# B's deep networks have four layers, ours three. Losses of
# convolutional networks over time (its Fig. 9) are not shown.
#
# **Reproduced in part.** The widths of preset `quick` do not decide on the variance: at other seeds a line in
# $1/N$ through them misses by up to five per cent. One richness is best at the last time that we follow. If
# each is stopped in time, the two laziest are equally good, and the two richest are worse.
#
# ## Exercises
#
# **1.** Predict first: at which richness does the sigmoidal kernel leave its lazy value, if $P$ is doubled?

# %% tags=["solution"]
for number in (10, 20, 40):
    doubled = tasks.toy(number, (0.5, 0.5), targets=[[1.0], [-1.0]])
    found_kernels = [
        adaptive_kernel.solve(doubled, network, g, 0.02).kernels[-1][0, 1] for g in (0.05, 0.2, 1.0)
    ]
    print(number, "inputs:", np.round(found_kernels, 4), "at γ0 = 0.05, 0.2, 1; lazy 0.25")

# %% [markdown]
# At nearly the same richness, but from there on the kernel changes less. At small $\gamma_0$ every entry
# changes as if it were alone, by an amount of order $\gamma_0^2$. Once the targets are fitted, more entries
# share the work, so each changes less: in a linear network by $\gamma_0/\sqrt P$. Paper A's choice
# $\gamma_0^2 = P$ makes up for it.
#
# **2.** A deep linear network has the overlap $c_L$. How many layers double it?

# %% tags=["solution"]
for L in (1, 2, 4, 8, 16):
    print(L, "layers:", round(adaptive_kernel.overlaps(L, 1.0).overlaps[-1], 2))

# %% [markdown]
# More and more: from one layer it takes four further ones, from four about eight. At fixed richness
# $c_L$ grows more slowly than $L$.
#
# **3.** At which weight decay does a ReLU network forget a single rare input with the target 1 among nine?

# %% tags=["solution"]
rare = np.array([-1.0] * 9 + [1.0])
print("thresholds of positive and negative targets:", dmft.collapse(rare, 1.0, 0.1).thresholds)

# %% [markdown]
# At 1. The nine others are forgotten at 3. A threshold is the length of the vector of targets of its sign:
# 1 for one input, $\sqrt9$ for nine.
