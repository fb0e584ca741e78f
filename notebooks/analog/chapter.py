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
# Every neuron of a linear network answers to every class; only the strength and the mixture differ from
# neuron to neuron. The readout weights form one Gaussian cloud. A neuron's mean response to each class is a
# linear function of its readouts, and single inputs scatter about it as in an untrained network. This is the
# **analog** scheme {cite:p}`vanmeegen2025`. It is the one scheme whose theory closes with pen and paper at
# every depth. At finite width exact averages over a few numbers remain.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P, width of every hidden layer and number of inputs; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain
num_chains: int | None = None

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from analog import runs
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.sampling import HMC
from coding_schemes.theory import linear, wishart_chain
from companion import figures, presets
from companion.findings import Control, Estimate, Finding
from companion.predicates import above, below, equal, p_value, standard_errors
from companion.publish import publish
from companion.workbench import draw, estimate, one_network, sizes_over, titled
from myst_nb import glue

given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_samples": num_samples, "num_chains": num_chains}
sizes = presets.sizes(runs, preset, **given)
N, T = sizes.num_neurons, sizes.temperature
counts = {"num_samples": sizes.num_samples, "num_chains": sizes.num_chains, "num_warmup": sizes.num_warmup}
counts["method"] = HMC(0.8)  # half the usual length: half the gradients, three quarters of the ESS
key = jax.random.key(seed)
BLUE = figures.COLORS["linear"]
CLASSES = ("class 0", "class 1", "class 2")
main = draw(
    jax.random.fold_in(key, 1),
    tasks.toy(N, y_minus=0.0, seed=seed),
    Network(depth=1, width=N, nonlinearity="linear"),
    T,
    store=("readouts", "preactivations", "outputs"),
    **counts,
)
solved = linear.solve(main.task, depth=1, temperature=T, width=N)
shared = {"size": runs.size(main), "sampler": main.convergence}
for name, value in (("N", N), ("T", T), ("verdict", main.convergence.verdict)):
    glue(name, value, display=False)

# %% tags=["hide-input"]
activations = main.samples.activations()[0, -1]
order = coding.sort_by_activity(activations)
publish(
    figures.network_sample,
    "one_network",
    caption="No groups, no specialists: neurons fade out gradually. One sampled linear network, neurons "
    "sorted by their mean squared activity. Three blocks of inputs can be told apart in the strong rows and "
    "fade with them, but no line parts neurons that code from neurons that do not. The outputs (below) miss "
    "the targets a little, as they must at a temperature above zero.",
    tail=f"N = P = {N}, T = {T:g}, y₋ = 0. Paper A, Fig. 2.",
    counterparts=["A 2"],
    **one_network(main, activations, order),
)

# %% [markdown]
# *Needs:* the [primer](../book/primer.md). *Reading:* 15 minutes.
#
# Try it: a few lines draw a linear network from the posterior and put theory beside it. This theory is that
# of infinite width; a correction of order $1/N$ follows below.

# %%
import jax
import numpy as np
from coding_schemes import tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import convergence, sample

task = tasks.toy(60, y_minus=0.0)  # 60 orthogonal inputs: a half in class 0, a quarter in each of the others
network = Network(depth=1, width=60, nonlinearity="linear")
posterior = Posterior(task, network, temperature=0.01)
samples = sample(posterior, jax.random.key(0), num_samples=100)
print(convergence(samples, posterior).verdict)
print("variance of the readouts, sampled", np.square(samples.readouts).mean((0, 1, 2)).round(3))
print("theory", np.diag(theory.solve(task, network, temperature=0.01).readout_covariance).round(3))

# %% [markdown]
# ## One Gaussian cloud
#
# The task has {glue:text}`N` orthogonal inputs, a half of them in class 0 and a quarter in each of two
# others. The target is 1 for an input's own class and 0 for the others. How are the readouts distributed,
# and what does a neuron's readout say about its activations?
#
# The [primer](../book/primer.md) shows that the neurons of a wide network are independent of each other once
# a common field is given: the matrix $t$, with a row for each input and a column for each output. The row
# says how hard this input pulls the outputs towards its target. A neuron has readouts $a \in \mathbb{R}^m$ of
# prior variance $\sigma_a^2$ ($1/P$ for now), and preactivations $z \in \mathbb{R}^P$ of prior covariance
# $K_0$, the kernel of the inputs. Given the field, their joint density is
#
# $$
# P(a, z) \;\propto\; \mathcal N(a;\, 0, \sigma_a^2)\; \mathcal N(z;\, 0, K_0)\; e^{a^\top t^\top z} .
# $$ (eq-analog-single)
#
# Without a nonlinearity the exponent is quadratic, so that this is a Gaussian. Completing the square gives
# the covariance $U$ of the readouts, and the activations once the readouts are known:
#
# $$
# \begin{gathered}
# U = \bigl(\sigma_a^{-2} - t^\top K_0\, t\bigr)^{-1}, \\
# z \mid a \;\sim\; \mathcal N\bigl(K_0 t\, a,\; K_0\bigr).
# \end{gathered}
# $$ (eq-analog-conditional)
#
# The mean outputs are $\langle z\, a^\top \rangle = K_0 t\,U$. They miss the targets $Y$ by $T$ times the
# pull. This condition, $Y - K_0 t\,U = T\,t$, fixes the field. For $T \to 0$ it gives $t = K_0^{-1} Y
# U^{-1}$.

# %% tags=["hide-input"]
upper = np.triu_indices(3)
PAIRS = [f"outputs {r} and {s}" if r != s else f"output {r}" for r, s in zip(*upper, strict=True)]
half = linear.solve(tasks.toy(N, y_minus=0.5, seed=seed), depth=1, temperature=T, width=N)
cloud = Finding(
    "A4",
    "covariance of the readouts, one hidden layer",
    headline=True,
    sampled=estimate(main.readout_gram),
    theory=solved.readout_covariance[upper].round(9),
    over=PAIRS,
    figure="readout_posterior",
    panel="Paper A, Figs 2a and 4a",
    control=Control("theory at y₋ = ½", theory=half.readout_covariance[upper]),
    **shared,
)
grid = np.linspace(-4, 4, 201) * np.sqrt(solved.readout_covariance.max())
deviation = np.sqrt(np.diag(solved.readout_covariance))[:, None]
cloud.draw(
    figures.densities,
    "The readouts of each output are one Gaussian, with the width that theory predicts. Histograms: samples; "
    "lines: theory at the same N, P and T.",
    samples=main.readouts[:, ::20].reshape(-1, 3).T,
    grid=grid,
    density=np.exp(-0.5 * (grid / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi)),
    names=[f"output {r}" for r in range(3)],
    colors=[BLUE],
    panels=True,
)
cloud.judge(standard_errors(3), because="corrections of higher order in 1/N")

# %% [markdown]
# A covariance alone does not make a Gaussian. So we also test the whole density, on the last sample of every
# chain. The readouts of a sigmoidal network on the same task fail this test, even against a Gaussian with
# their own mean and covariance: they sit at a few peaks ([redundant coding](redundant.ipynb)). The test sees
# coarse deviations only. With so many readouts one of its three parts rejects a distribution function that
# is {glue:text}`seen:.2f` away from the Gaussian's somewhere.

# %% tags=["hide-input"]
settings = dict(vars(sizes.norms))
DEPTHS = settings.pop("depths")
KINDS = ("linear", "relu", "sigmoidal")
CHOICES = {"paper A's": None, "one": 1.0}
measured = {
    (kind, depth, choice): runs.norms(
        jax.random.fold_in(key, 100 + 10 * k + depth), kind, depth, T, readout_variance=variance, **settings
    )
    for k, kind in enumerate(KINDS)
    for depth in DEPTHS
    for choice, variance in CHOICES.items()
}
last = main.readouts[:, -1]
other = measured["sigmoidal", 1, "paper A's"].readouts.reshape(-1, 3)
Finding(
    "A4",
    "p-value of Gaussian readouts, one hidden layer, three tests combined",
    sampled=runs.gaussian_pvalue(last, solved.readout_covariance),
    panel="Paper A, Figs 2a and 4a",
    control=Control(
        "a sigmoidal network's readouts, about their mean, with their own covariance",
        sampled=runs.gaussian_pvalue(other - other.mean(0), np.cov(other.T)),
    ),
    **shared,
).judge(p_value(0.01), because="readouts of one sample are not independent at this N")
covariance, error = statistics.mean_and_error(main.readout_gram[..., 0])
for name, value in (
    ("closed", linear.solve(main.task, 1).readout_covariance[0, 0]),
    ("saddle", linear.solve(main.task, 1, T).readout_covariance[0, 0]),
    ("finite", solved.readout_covariance[0, 0]),
    ("sampled", float(covariance)),
    ("sampled_error", float(error)),
    ("seen", 1.63 / last[..., 0].size ** 0.5),  # Kolmogorov–Smirnov, at a level of 0.01
):
    glue(name, value, display=False)

# %% [markdown]
# How much do the corrections matter? Take $U_{00}$, the variance of the readouts for class 0. Paper A's
# closed form, $U^2 = \sigma_a^2\, Y^\top K_0^{-1} Y$, neglects $T$ and terms of relative order $1/P$. It
# gives {glue:text}`closed:.3f`. Solving {eq}`eq-analog-conditional` together with $Y - K_0 t\,U = T\,t$ at
# our $T$ and $P$ gives {glue:text}`saddle:.3f`. With the first correction for finite width this becomes
# {glue:text}`finite:.4f`. The samples have {glue:text}`sampled:.4f` ± {glue:text}`sampled_error:.4f`. Theory
# in the figure has this correction.
#
# ## Responses follow readouts
#
# Equation {eq}`eq-analog-conditional` predicts how a single neuron responds. Its activations are a fixed
# linear map of its readouts, plus noise that is as large as in an untrained network. At $T\to0$ and large $P$
# the map is $Y U^{-1}$. On our task a class's target is zero on the inputs of the others, and $U$ is
# diagonal. So a neuron with a large readout for a class answers strongly to this class, and its readouts for
# the other classes do not matter. The figure shows all neurons of one network.
#
# These slopes are no test of their own. In any network the outputs are the overlap of activations and
# readouts. So the slope of a regression follows from two things that are known by now: the outputs fit the
# targets, and the readouts have the covariance $U$. What is left after the regression is the test.


# %% tags=["hide-input"]
def responses(readouts, response, slopes, spreads, titles):
    """A class's mean response over a readout: neurons as points, theory as a line with a band."""
    figure, axes = plt.subplots(1, len(titles), figsize=(figures.WIDTH, 3.0), sharey=True)
    for axis, readout, slope, spread, title in zip(axes, readouts, slopes, spreads, titles, strict=True):
        ends = np.array([-1.1, 1.1]) * np.abs(readouts).max()
        axis.fill_between(ends, slope * ends - spread, slope * ends + spread, color="0.85", linewidth=0)
        axis.plot(ends, slope * ends, color=figures.COLORS["theory"], label="theory")
        axis.plot(readout, response, ".", color=figures.COLORS["linear"], label="neurons")
        axis.set(title=title, xlabel=r"readout weight $a_i^r$")
    axes[0].set_ylabel("mean activation\non class 0")
    figures.legend_above(figure, axes[0])
    return figure


regression = runs.regress(main)
expected = runs.class_slopes(solved.feature_slopes, main.task.labels)
shuffled = solved.feature_slopes[np.random.default_rng(seed).permutation(N)]
slopes = Finding(
    "A5",
    "slopes of activations on readouts, class by output",
    sampled=estimate(regression.slopes),
    theory=expected,
    figure="responses",
    panel="Paper A, text",
    control=Control("labels shuffled over inputs", theory=runs.class_slopes(shuffled, main.task.labels)),
    **shared,
)
in_class = main.task.labels == 0
noise = in_class.sum() ** -0.5
known = np.square(expected[0]) * np.diag(solved.readout_covariance)  # variance by each readout; U is diagonal
slopes.draw(
    responses,
    "A neuron that reads out class 0 strongly answers to class 0 strongly; what it reads out for class 1 "
    "says nothing about it. Every point is a neuron. Lines: theory's mean for neurons of this readout, with "
    "a band of one standard deviation.",
    readouts=main.readouts[0, -1, :, :2].T,
    response=activations[:, in_class].mean(1),
    slopes=expected[0, :2],
    spreads=np.sqrt(noise**2 + known.sum() - known[:2]),
    titles=["readout of class 0", "readout of class 1"],
)
slopes.judge(standard_errors(3), because="the slopes have no finite-width correction of their own in theory")

# %% [markdown]
# The readouts should explain all that is learned: what is left of the activations should be as random as in
# the prior. We subtract the linear map and take the covariance of the rest, along the three classes and in
# all other directions. With the map subtracted all variances are one, as in the prior. Without, the three
# variances along the classes are far larger: this is what is learned. And without, the variance in all other
# directions is slightly smaller than one. There the outputs have to be zero, which holds $m$ of $N$
# combinations of neurons fixed, up to the noise. The variance is $1 - \tfrac1N \mathrm{tr}\, U (U + T)^{-1}$,
# close to $1 - m/N$.

# %% tags=["hide-input"]
ALONG = [f"classes {r} and {s}" if r != s else f"class {r}" for r, s in zip(*upper, strict=True)]
Finding(
    "A5",
    "covariance of activations given readouts",
    headline=True,
    sampled=estimate(regression.residual_covariance),
    theory=np.append(np.eye(3)[upper], 1.0),
    over=[*ALONG, "other directions"],
    panel="Paper A, text",
    control=Control(
        "without the readouts given",
        sampled=estimate(regression.raw_covariance),
        spared=[name for name in ALONG if "and" in name],
        because="nothing that is learned is common to two classes",
    ),
    **shared,
).judge(standard_errors(3), because="the residual covariance has a correction of order T")
U = solved.readout_covariance
Finding(
    "A5",
    "variance of activations in all other directions, readouts not given",
    sampled=estimate(regression.raw_covariance[..., -1]),
    theory=1 - np.trace(U @ np.linalg.inv(U + T * np.eye(3))) / N,
    panel="Paper A, text",
    control=Control("no learning, the prior's", theory=np.float64(1)),
    **shared,
).judge(standard_errors(3), because="corrections of higher order in 1/N")

# %% [markdown]
# ## Why the readout variance shrinks with P
#
# At a fixed prior variance the readouts grow with the number of inputs, and the features learn less. To see
# this, insert the field at $T \to 0$, $t = K_0^{-1} Y U^{-1}$, into {eq}`eq-analog-conditional`: the readouts
# obey $U/\sigma_a^2 - 1 = U^{-1} Y^\top K_0^{-1} Y$. The overlap $Y^\top K_0^{-1} Y$ is of order $P$, because
# every input adds to it. With $\sigma_a = 1$ this makes the readouts grow, $U \sim P^{1/2}$. The readouts
# then fit the targets by growing, and the features need to learn less. With $\sigma_a^2 = 1/P$ they stay of
# order one, and the features learn. For $L$ linear layers the same argument gives $U \sim P^{1/(L+1)}$ at
# $\sigma_a = 1$, and asks for $\sigma_a^2 = P^{-1/L}$.
#
# ReLU networks are homogeneous, as linear ones are: larger weights give the same outputs on a larger scale.
# This suggests the same powers at large $P$. Sigmoidal networks are not homogeneous. Their activations are
# bounded, outputs of order one need readouts of order one at any depth, and $\sigma_a^2 = 1/P$ keeps them
# there. How their readouts grow at $\sigma_a = 1$ is not derived here. We give all exponents in units of
# $1/(L+1)$, the power of linear networks.
#
# We sample all three kinds of networks with the scaled $\sigma_a^2$ and with $\sigma_a = 1$. Half of the
# networks are cooled in steps, half start at $T$ at once. Where the two halves disagree, each has to pass the
# check by itself. Preset `paper` adds $L = 2$ and $L = 3$. There linear and ReLU networks are sampled at
# $10\,T$ and $20\,T$, where their outputs miss the targets by as much as those of one layer at $T$.
#
# At paper size linear networks have the powers. ReLU and sigmoidal networks do not: at $\sigma_a = 1$ their
# exponents are 0.9 of this unit with one layer, and 0.59 to 0.75 with two and three. With the scaled variance
# the norms of linear and sigmoidal networks stay, but those of deep ReLU networks fall: by 0.17 of this unit
# with two layers, and by 0.36 with three. So the check that asks for hardly any change fails there. Whether
# they reach the powers in larger networks is open. (Untrained readouts of linear and ReLU networks would fall
# by two units with one layer, and by 1.3 with three. Those of sigmoidal ones, whose prior variance is $1/P$
# at any depth, would fall by two to four.)


# %% tags=["hide-input"]
def norms(sizes, values, errors, powers, factors, depths, kinds, colors):
    """Squared readout norms over sizes: one panel per kind of network, both choices of the variance."""
    figure, axes = plt.subplots(1, len(kinds), figsize=(figures.WIDTH, 3.4), sharey=True)
    for k, (axis, kind, color) in enumerate(zip(axes, kinds, colors, strict=True)):
        for d, marker in zip(range(len(depths)), "os^", strict=False):
            for c, (fill, style) in enumerate(((color, "-"), ("white", "--"))):
                look = {"fmt": marker, "color": color, "markerfacecolor": fill}
                axis.errorbar(sizes, values[k, d, c], errors[k, d, c], **look)
                axis.plot(sizes, factors[k, d, c] * sizes ** powers[k, d, c], style, color=color, linewidth=1)
        axis.set(title=kind, xscale="log", yscale="log", xlabel="inputs $P = N$")
        axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100) if values.min() / 2 < tick < 2 * values.max()]
        axis.set_yticks(ticks, [f"{tick}" for tick in ticks])
        axis.minorticks_off()
    axes[0].set_ylabel(r"squared readout norm $\langle |a_i|^2 \rangle$")
    gray = {"color": "0.4", "linewidth": 1}
    several = zip(depths, "os^", strict=False) if len(depths) > 1 else ()
    marks = [plt.Line2D([], [], marker=m, ls="", label=f"L = {d}", **gray) for d, m in several]
    marks.append(plt.Line2D([], [], label=r"$\sigma_a^2$ scaled (filled)", **gray))
    marks.append(plt.Line2D([], [], ls="--", label=r"$\sigma_a = 1$ (open)", **gray))
    figures.legend_above(figure, handles=marks)
    return figure


shape = (len(KINDS), len(DEPTHS), len(CHOICES))
value, error = np.moveaxis([each.mean for each in measured.values()], 1, 0).reshape(2, *shape, -1)
fitted, uncertain = np.moveaxis([each.exponent for each in measured.values()], 1, 0).reshape(2, *shape)
either = np.moveaxis([each.exponents_by_start for each in measured.values()], (1, 2), (0, 1)).reshape(
    2, 2, *shape
)
published = np.array([1 / (depth + 1) for depth in DEPTHS])
TITLES = [titled(kind) for kind in KINDS]


def in_units(values, choice):
    """Exponents of one choice, in units of that with σ_a = 1, by kind of network and depth."""
    return (values[..., choice] / published).reshape(*values.shape[:-3], -1)


named = [f"{kind}, L = {depth}" for kind in TITLES for depth in DEPTHS]
networks = {"N": settings["sizes"], "P": settings["sizes"], "L": DEPTHS, "y₋": 0.0}
networks |= {"T": sorted({each.temperature for each in measured.values()})}
networks |= {"networks": settings["num_networks"]}
flat, growing = (
    Estimate(in_units(fitted, choice), in_units(uncertain, choice)) for choice in range(len(CHOICES))
)
stays = Finding(
    "A6",
    "exponent of the squared readout norm in P, in units of 1/(L + 1), σ_a² as in paper A",
    headline=True,
    sampled=flat,
    over=named,
    starts=tuple(Estimate(*(in_units(v, 0) for v in start)) for start in either),
    size=networks,
    sampler=[meeting for (*_, c), each in measured.items() if c != "one" for meeting in each.meetings],
    figure="readout_norm",
    panel="Paper A, text",
    control=Control("σ_a = 1", sampled=growing),
)
stays.draw(
    norms,
    "With the scaled prior variance the readouts do not grow with the number of inputs; with a fixed one "
    "they do, in all three kinds of networks. Markers: means over networks with standard errors, filled "
    "for the scaled variance; lines: fitted power laws.",
    sizes=np.array(settings["sizes"]),
    values=value,
    errors=error,
    powers=fitted,
    factors=np.exp(np.log(value).mean(-1) - fitted * np.log(settings["sizes"]).mean()),
    depths=DEPTHS,
    kinds=TITLES,
    colors=[figures.COLORS[kind] for kind in KINDS],
)
stays.judge(below(0.5, 3), because="nearer to the growth at σ_a = 1 than to none")
falls = [1.0 if kind == "sigmoidal" else 1 / depth for kind in KINDS for depth in DEPTHS]  # σ_a² ∼ P^−falls
Finding(
    "A6",
    "size of this exponent, whether the norm grows or falls",
    sampled=Estimate(np.abs(flat.value), flat.error),
    over=named,
    starts=tuple(Estimate(np.abs(in_units(v, 0)), in_units(e, 0)) for v, e in either),
    size=networks,
    sampler=stays.sampler,
    panel="Paper A, text",
    control=Control("untrained networks", sampled=np.array(falls) / np.tile(published, len(KINDS))),
).judge(
    below(0.25, 3), because="the norm of deep ReLU networks falls at these sizes; no theory of it is at hand"
)
growing_too = Finding(
    "A6",
    "exponent of the squared readout norm in P, in units of 1/(L + 1), σ_a = 1",
    sampled=growing,
    over=named,
    starts=tuple(Estimate(*(in_units(v, 1) for v in start)) for start in either),
    size=networks,
    sampler=[meeting for (*_, c), each in measured.items() if c == "one" for meeting in each.meetings],
    panel="Paper A, text",
    control=Control("σ_a² as in paper A", sampled=flat),
)
growing_too.judge(above(0.25, 3), because="too few sizes, too close to each other")

# %% [markdown]
# The power $1/(L+1)$ is reached at large $P$ only. For linear networks the norms are known exactly at any
# size (the section on kernels says why), and we compare them size by size.

# %% tags=["hide-input"]
for depth in DEPTHS:
    ours = {choice: measured["linear", depth, choice] for choice in CHOICES}
    exact = {choice: runs.exact_norms(ours[choice], depth, CHOICES[choice]) for choice in CHOICES}
    found = Estimate(*np.stack([each.mean for each in ours.values()], axis=1))
    Finding(
        "A6",
        f"squared readout norm of linear networks at every size, scaled and σ_a = 1, L = {depth}",
        sampled=found,
        theory=np.stack(list(exact.values())),
        size=networks | {"L": depth, "T": ours["one"].temperature},
        sampler=[meeting for each in ours.values() for meeting in each.meetings],
        panel="Paper A, text",
        control=Control("the two choices exchanged", theory=np.stack(list(exact.values())[::-1])),
    ).judge(standard_errors(3), because="theory is exact: chance, or an error taken too small")

# %% [markdown]
# ## Depth: a staircase of equal steps
#
# What do the lower layers learn? An output is a weighted sum of the neurons of the last hidden layer, with
# the readouts as weights. In a linear network it is also a weighted sum of the neurons of any layer below,
# $f_r = \tfrac1N \sum_i b^\ell_{ir} z^\ell_i$. The weights $b^\ell$ are the readouts multiplied by all
# weights between layer $\ell$ and them, and $b^L = a$. We call the mean square of an output's weights their
# strength. The strengths of all outputs and the overlaps between different outputs make a small matrix,
# $A_\ell = \tfrac1N\, b^{\ell\top} b^\ell$.
#
# An untrained network passes the strength down unchanged. On average $A_{\ell-1} = A_\ell$, with fluctuations
# of order $1/\sqrt N$, so that all layers have the readouts' prior variance $\sigma_a^2$. In a trained
# network the lowest weights $b^1$ have to make the targets from the first layer's responses to the inputs.
# For that their strength $A_1$ must be far larger than $\sigma_a^2$. So on the way down the strength has to
# grow from $\sigma_a^2$ to $A_1$, in $L$ steps. The first step leads from the prior to the readouts. In a
# step the strength of an output becomes a mean of $N$ squares of Gaussian numbers, and that it grows by a
# factor $h$ has the log-probability $-\tfrac N2 (h - 1 - \log h)$. Write $h = e^u$. Then the $u$ of all steps
# have a given sum, and each costs $\tfrac N2 (e^u - 1 - u)$, which curves upwards. So equal steps cost the
# least. The result is a staircase: on the way down every layer multiplies by the same matrix $H$,
#
# $$
# A_\ell = \sigma_a^2\, H^{L-\ell+1} .
# $$ (eq-analog-chain)
#
# The first step gives the readouts, $U = A_L = \sigma_a^2 H$. The figure shows the task of paper A's Fig. 3.
# There $y_- = -\tfrac12$, and the three targets of every input sum to zero. So nothing is to be learned along
# the sum of the three outputs. Weights along it only add noise to the outputs, and every layer makes them
# smaller.


# %% tags=["hide-input"]
def stairs(exact, sampled, errors, names, colors):
    """Strength of the weights on the way down, from the prior above the readouts to the inputs."""
    figure = figures.curves(
        np.arange(len(exact[0])),
        exact,
        names,
        colors=colors,
        scales=("linear", "log"),
        sampled_x=np.arange(1, len(exact[0])),
        sampled=sampled,
        sampled_errors=errors,
        xlabel="layer, on the way down",
        ylabel=r"strength of the weights $A_\ell$",
    )
    depth = len(exact[0]) - 1
    places = ["prior", *(f"{layer}" for layer in range(depth, 0, -1))]
    places[1], places[-1] = f"{depth}\n(readouts)", "1\n(inputs)"
    figure.axes[0].set_xticks(np.arange(depth + 1), places)
    return figure


grown_over = sizes_over(N, sizes.fractions)
stream = jax.random.fold_in(key, 40)
kept = ("readouts", "preactivations", "weights")
more = counts | {"num_chains": sizes.grown_chains}
(deep,) = runs.grow(stream, 3, grown_over[-1:], T, seed=seed, y_minus=-0.5, store=kept, **more)
chain = wishart_chain.solve(deep.task, 3, deep.samples.temperature, grown_over[-1])
prior = deep.task.num_inputs ** (-1 / 3)
directions = np.linalg.eigh(
    linear.solve(deep.task, 3, deep.samples.temperature, width=grown_over[-1]).readout_covariance
)[1][:, ::-1]
WAYS = ("class 0 against the others", "class 1 against 2", "sum of all, unused")
steps, step_errors = statistics.mean_and_error(runs.along(runs.overlaps(deep), directions))
staircase = Finding(
    "A7",
    "strength A of the weights above layers 1, 2 and 3, by direction of the outputs",
    sampled=Estimate(steps, step_errors),
    theory=runs.along(chain.grams, directions),
    over=WAYS,
    size=runs.size(deep, **{"y₋": -0.5}),
    sampler=deep.convergence,
    figure="staircase",
    panel="Paper A, text",
    control=Control("no learning, the prior's at every layer", theory=np.full((3, 3), prior)),
)
staircase.draw(
    stairs,
    "From the readouts down to the inputs the weights grow by the same factor at every layer, along "
    "outputs that targets use; along the unused one they shrink. Markers: samples; lines: exact averages "
    "at the same N, P and T, from the prior at the left.",
    exact=np.column_stack([np.full(3, prior), staircase.theory[::-1].T]),
    sampled=steps[::-1].T,
    errors=step_errors[::-1].T,
    names=WAYS,
    colors=[*figures.BLUES[:0:-1], figures.COLORS["control"]],
)
staircase.judge(
    standard_errors(3), because="the averages are exact, so this is chance, or chains that have not mixed"
)

# %% [markdown]
# ## What the kernels learn
#
# With the staircase the kernels are known, too. Take the layers below layer $\ell$ as given. The rest is a
# network of one hidden layer: its inputs have the kernel $K_{\ell-1}$, and its readouts are the weights of
# strength $A_\ell$. With {eq}`eq-analog-conditional` its kernel is
#
# $$
# K_\ell = K_{\ell-1} + K_{\ell-1}\, t\, A_\ell\, t^\top K_{\ell-1} .
# $$ (eq-analog-layer)
#
# The mean outputs are the same whichever layer one takes, $K_{\ell-1}\, t\, A_\ell = K_\ell\, t\,
# A_{\ell+1}$. So on the way up every layer multiplies $K_\ell\, t$ by $H$. Layer $\ell$ then adds
# $\sigma_a^2\, K_0\, t\, H^{L+\ell-1}\, t^\top K_0$ to the kernel. The learned part of $K_\ell$ is the sum of
# what layers 1 to $\ell$ add. Where $H$ is large, only the last term counts. For $T \to 0$ the outputs equal
# the targets, $K_0 t = Y A_1^{-1}$. What follows are the formulas of {cite:t}`vanmeegen2025`,
#
# $$
# \begin{gathered}
# U^{L+1} = \sigma_a^{2L}\, Y^\top K_0^{-1} Y, \\
# K_\ell = K_0 + \sigma_a^{2(L-\ell)}\, Y\, U^{-(L-\ell+1)}\, Y^\top .
# \end{gathered}
# $$ (eq-analog-closed)
#
# The learned part of $K_\ell$ has the rank of $Y$, and entries of order $P^{-(1-\ell/L)}$: hardly anything in
# the first layer, order one in the last. These formulas are for $T \to 0$ and large $P$ and $N$. At our sizes
# two equations for $H$ and the field $t$ take their place. The sum in the first one is the first correction
# for finite width. With $\lambda_i$ the eigenvalues of $K_0$ they are
#
# $$
# \begin{aligned}
# \sigma_a^2\, t^\top K_0\, t &= (H-1)\,H^{-L} \\
# &\quad + \frac1N \sum_i \sigma_a^2\lambda_i\,(\lambda_i \sigma_a^2 H^L + T)^{-1}, \\
# Y &= K_0\,t\,\sigma_a^2 H^L + T\,t .
# \end{aligned}
# $$ (eq-analog-saddle)
#
# The matrices $A_\ell$ have only $L\,m(m+1)/2$ different entries, and their joint density is known at any
# width. So averages can be taken exactly at finite $N$, without a saddle point (`theory.wishart_chain`). None
# of the papers does this.

# %% tags=["hide-input"]
LAYERS = ("layer 1", "layer 2", "layer 3")
over_sizes = runs.grow(jax.random.fold_in(key, 13), 3, grown_over, T, seed=seed, **more)
pair = (over_sizes[-1], deep)
averaged = [runs.average_kernels(run) for run in pair]
noise = [runs.untrained_kernels(jax.random.fold_in(key, 41), run) for run in pair]
ranks = [np.linalg.matrix_rank(run.task.targets) for run in pair]
spectra, of_noise = (
    np.array([runs.over_smallest(*each) for each in zip(kernels, pair, strict=True)])
    for kernels in (averaged, noise)
)
learned = Finding(
    "A7",
    "number of directions that the kernels learn, rank of Y, y₋ = 0 and −½",
    sampled=np.sum(spectra > 0.5, axis=-1),
    theory=np.outer(ranks, np.ones(3, int)),
    source="rank of Y",
    over=LAYERS,
    size=runs.size(deep, **{"y₋": [0.0, -0.5]}),
    sampler=[over_sizes[-1].convergence, deep.convergence],
    figure="kernels_by_layer",
    panel="Paper A, Fig. 3d–f",
    control=Control("untrained networks", sampled=np.sum(of_noise > 0.5, axis=-1)),
)
learned.draw(
    figures.kernel_matrices,
    "Class blocks emerge with depth. Kernels of the three hidden layers, averaged over samples (above) and "
    "predicted (below), on the task whose targets sum to zero.",
    kernels=[*averaged[1], *chain.kernels[1:]],
    labels=deep.task.labels,
    titles=[f"{kind}, {layer}" for kind in ("samples", "theory") for layer in LAYERS],
)
further = max(each[:, -rank - 1].max() for each, rank in zip(spectra, ranks, strict=True))
learned.judge(
    equal(),
    note=f"the next eigenvalue is {further:.0%} of theory's smallest at most, "
    f"the largest of untrained networks {of_noise.max():.0%}",
    because="the noise of the averaged kernels reaches half of what they have learned",
)

# %% [markdown]
# The learned part has as many dimensions as the targets, in every layer: three for $y_- = 0$ and two for
# $y_- = -\tfrac12$. How large is it? We follow one entry of each kernel, for two inputs of class 0, over
# sizes $N = P$. The powers of $P$ hold for large $P$ only. So we compare with exact averages at the same
# sizes. Dotted lines in the figure have the powers as slopes.

# %% tags=["hide-input"]
grown = runs.grown(over_sizes)
with_one = np.array([runs.predicted_strengths(run, readout_variance=1.0) for run in over_sizes])
strength = Finding(
    "A7",
    "exponents in P of the learned entry, layers 1 to 3 (−2/3, −1/3, 0 for large P)",
    headline=True,
    sampled=grown.exponents,
    theory=grown.exponents_of(grown.exact),
    over=LAYERS,
    size=runs.size(over_sizes, **{"y₋": 0.0}),
    sampler=grown.scan.convergence,
    figure="learned_strengths",
    panel="Paper A, Fig. 3d–f",
    control=Control("theory with σ_a = 1", theory=grown.exponents_of(with_one)),
)
wide = np.geomspace(min(grown_over), 4 * max(grown_over), 7).round()
entries = runs.learned_entries(wide, 3, T)
powers = entries[:, -1:] * (wide / wide[-1]) ** np.array([[-2 / 3], [-1 / 3], [0]])
strength.draw(
    figures.curves,
    "The first layer hardly learns, and ever less in larger networks; the last one learns nearly as much in "
    "all. Markers: samples with standard errors; lines: the saddle point with its first correction, which "
    "is up to three per cent off the exact averages that the check takes; dotted: the powers, through "
    "theory at the largest size.",
    x=wide,
    values=[*entries, *powers],
    names=[*LAYERS, *LAYERS],
    colors=figures.BLUES,
    styles=["-"] * 3 + [":"] * 3,
    sampled_x=grown_over,
    sampled=grown.entries(grown.scan.mean).T,
    sampled_errors=grown.entries(1 + grown.scan.error).T,
    scales=("log", "log"),
    xticks=np.unique([grown_over[0], *grown_over[-1:], *wide[-1:].astype(int)]),
    xlabel="training inputs $P = N$",
    ylabel="learned entry of the kernel",
)
strength.judge(standard_errors(3), because="corrections of higher order at the smallest sizes")
of_deep, error_of_deep = statistics.mean_and_error(runs.strengths(deep))
exactly = np.vstack([grown.exact, runs.predicted_strengths(deep, exact=True)])
Finding(
    "A7",
    "strength eᵀKe of class 0 in layers 1 to 3, at every size, and for y₋ = −½ at the largest",
    sampled=Estimate(np.vstack([grown.scan.mean, of_deep]), np.vstack([grown.scan.error, error_of_deep])),
    theory=exactly,
    over=LAYERS,
    size=runs.size(over_sizes, **{"y₋": [0.0, -0.5]}),
    sampler=[*grown.scan.convergence, deep.convergence],
    panel="Paper A, Fig. 3d–f",
    control=Control("without learning", theory=np.ones_like(exactly)),
).judge(
    standard_errors(3),
    because="the sampler is slow along the strengths of lower layers",
    note=f"the saddle point is {np.max(np.abs(grown.saddle / grown.exact - 1)):.1%} off at most",
)
(two,) = runs.grow(jax.random.fold_in(key, 12), 2, grown_over[-1:], T, seed=seed, **counts)
warm = two.samples.temperature
of_two = linear.solve(two.task, 2, warm, width=grown_over[-1])
half_of_two = linear.solve(tasks.toy(grown_over[-1], y_minus=0.5, seed=seed), 2, warm, width=grown_over[-1])
Finding(
    "A4",
    "covariance of the readouts, two hidden layers",
    sampled=estimate(two.readout_gram),
    theory=of_two.readout_covariance[upper].round(9),
    over=PAIRS,
    size=runs.size(two),
    sampler=two.convergence,
    panel="Paper A, Fig. 4a",
    control=Control("theory at y₋ = ½", theory=half_of_two.readout_covariance[upper]),
).judge(standard_errors(3), because="corrections of higher order in 1/N")

# %% [markdown]
# ## What to take away
#
# - A linear network codes analog. Its readouts are one Gaussian cloud, a neuron's mean response to each class
#   is a linear function of its readouts, and the rest is as random as in an untrained network.
# - Depth is a staircase. Every layer multiplies the strength of the weights by the same factor, so that
#   kernels learn little in the first layer and much in the last.
# - The readouts' prior variance has to shrink with the number of inputs, else the readouts grow in all three
#   kinds of networks. The powers of $P$ are those of theory in linear networks only.
# - For $T \to 0$ the mean predictor is that of a Gaussian process with the *unlearned* kernel, $f(x) = Y^\top
#   K_0^{-1} k_0(x)$ at every depth, where $k_0(x)$ is the input kernel between $x$ and the training inputs.
#   (On a new input the outputs are $k_0(x)^\top t A_1$, with $t = K_0^{-1} Y A_1^{-1}$, and $A_1$ cancels.) A
#   linear network learns
#   strong features, but its mean predictions are those of a network that learns none. The features only make
#   the variance smaller, which [the chapter on generalization](generalization.ipynb) shows on digits.
#
# **Limits.** Exact averages need $N > m + 1$ and a Gaussian prior. For $L \ge 2$ and small targets or high
# $T$ the saddle-point equation has a second, unlearned solution, and we follow the one that connects to $T
# \to 0$.
#
# **Reproduced in part.** At paper size the readout norms of deep ReLU networks with the scaled variance do
# not stay: they fall with $P$. There is no theory of these networks at finite size in this book.
#
# ## Exercises
#
# **1.** Predict first: what happens to the cloud if $y_-$ comes close to 1?

# %% tags=["solution"]
for y_minus in (0.0, 0.5, 0.9, 0.99):
    found = theory.solve(tasks.toy(60, y_minus=y_minus), network, temperature=0.01)
    print(y_minus, "principal variances", np.linalg.eigvalsh(found.readout_covariance).round(3))

# %% [markdown]
# It becomes a cigar along the sum of the three outputs. Nearly equal targets ask the same of all outputs, and
# in the two other directions the readouts fall back to the prior's variance of $1/60$.
#
# **2.** Add layers. How much does the first of them learn?

# %% tags=["solution"]
for layers in (1, 2, 3, 4):
    found = linear.solve(tasks.toy(60, y_minus=0.0), depth=layers)
    print(layers, "layers, learned entry of each kernel", found.kernels[1:, 0, 1].round(3))

# %% [markdown]
# With more layers above it the first layer learns less and less, while the last layer learns nearly as much
# as before.
#
# **3.** Heat the network. When does it stop learning?

# %% tags=["solution"]
for hot in (0.01, 0.1, 0.3, 1.0, 3.0):
    found = theory.solve(task, network, temperature=hot)
    print(
        hot, "variance of the readouts", np.diag(found.readout_covariance).round(3), "prior", round(1 / 60, 3)
    )

# %% [markdown]
# Between $T = 0.3$ and 3. The learned part of the variance shrinks as the noise grows, and then only the
# prior's $1/60$ is left.
