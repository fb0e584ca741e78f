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
# say how alike any two inputs look to the network, come out alike; their neurons do not. All neurons of the
# linear network carry the difference between the classes a little, all sigmoidal neurons carry it alike,
# and of the ReLU neurons two do it alone. Whether a network learns such features at all is decided by one
# factor in front of its readout.
#
# *Did not come out:* for the sigmoidal network of the last section the sampler does not show that the shares
# of its codes are in equilibrium. *Needs:* the [primer](../book/primer.md). *Reading:* 10 minutes.

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
from coding_schemes import coding, statistics
from coding_schemes.networks import Network
from coding_schemes.theory import linear
from companion import figures, presets
from companion.checks import above, absolute, below, between, check, standard_errors
from experiments import lazy_and_rich
from experiments.lazy_and_rich import SCALINGS, SCHEMES
from experiments.runs import draw
from myst_nb import glue
from scipy import stats

quick = {"num_neurons": 64, "temperature": 0.01, "num_samples": 100, "num_chains": 4}
quick |= {"num_warmup": 160, "fractions": (0.25, 0.4, 0.625, 1.0), "over_widths": ("linear",)}
paper = quick | {"num_neurons": 500, "num_samples": 40, "num_warmup": 200}
paper |= {"fractions": (0.1, 0.2, 0.4, 1.0), "over_widths": SCHEMES}
given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_samples": num_samples, "num_chains": num_chains}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, T = settings.num_neurons, settings.temperature
options = {name: getattr(settings, name) for name in ("num_samples", "num_chains", "num_warmup")}
key = jax.random.key(seed)
glue("N", N, display=False)
glue("T", T, display=False)

# %% tags=["hide-input"]
task = lazy_and_rich.binary_task(N, seed)
runs = {
    scaling: {
        scheme: draw(jax.random.fold_in(key, 10 * i + j), task, Network(1, N, scheme, scaling), T, **options)
        for j, scheme in enumerate(SCHEMES)
    }
    for i, scaling in enumerate(SCALINGS)
}
phi = {s: {name: run.samples.activations() for name, run in each.items()} for s, each in runs.items()}
rich = phi["non-lazy"]

# %% tags=["hide-input"]
figures.publish(
    figures.kernels_and_neurons,
    "kernels_and_neurons",
    caption=f"The kernels of three networks that learned one task are alike (above); their neurons are not "
    f"(below, forty of each, ordered by what they say about the classes). One sample of each, inputs sorted "
    f"by class, N = P = {N}, T = {T}. Paper A, Fig. 1e.",
    kernels=[K / np.trace(K) * N for K in (coding.kernels(each[0, -1]) for each in rich.values())],
    activations=[lazy_and_rich.telling_neurons(each[0, -1], task.labels, 40) for each in rich.values()],
    labels=task.labels,
    titles=SCHEMES,
)

# %% [markdown]
# ## Two ways to make an output of order one
#
# **Question.** What makes a network learn features, rather than read out random ones?
#
# The output of a network with one hidden layer is the overlap of two vectors with $N$ components, the
# *feature vector* $\phi(z_{\cdot\mu})$ of the input and the *readout vector* $a$,
#
# $$
# f_\mu = s \sum_{i=1}^N a_i\, \phi(z_{i\mu}) = s\, |a|\, |\phi_\mu| \cos\theta_\mu, \qquad
# s = \begin{cases} N^{-1/2} & \text{lazy} \\ N^{-1} & \text{non-lazy.} \end{cases}
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
# known in closed form {cite:p}`lee2018deep`; with targets $\pm 1$ the task's trace in it is
#
# $$
# c = \frac{1}{P(P-1)} \sum_{\mu \ne \nu} y_\mu y_\nu \big(K - K^{\rm prior}\big)_{\mu\nu} ,
# $$ (eq-lazy-learned)
#
# how much more alike two inputs of one class have become than two of different classes.

# %%
sizes = [round(N * fraction) for fraction in settings.fractions]
scans = {
    (scheme, scaling): lazy_and_rich.over_widths(
        jax.random.fold_in(key, 100 + k), scheme, scaling, sizes, T, seed, **options
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
figures_of = {"sizes": sizes, "names": [f"{scheme}, {scaling}" for scheme, scaling in scans]}
GREYS = dict(zip(SCHEMES, ("#6E6E6E", "#999999", "#C4C4C4"), strict=True))
figures_of |= {"colors": [GREYS[s] if how == "lazy" else figures.COLORS[s] for s, how in scans]}
figures_of |= {"xlabel": "width $N = P$"}
cosine = {pair: scan.exponent("cosine") for pair, scan in scans.items()}
figures.publish(
    figures.scaling_plot,
    "angles",
    caption="Features and readout stay aligned at any width in non-lazy networks (color), and only as far as "
    "chance goes in lazy ones (grey). Markers: samples with standard errors; lines: fitted power laws. "
    "Paper A, Fig. 1b, d.",
    values=[scan.cosine for scan in scans.values()],
    errors=[scan.cosine_error for scan in scans.values()],
    exponents=[fit.exponent for fit in cosine.values()],
    prefactors=[fit.prefactor for fit in cosine.values()],
    ylabel=r"cosine $\langle y_\mu \cos\theta_\mu \rangle$",
    **figures_of,
)


# %% tags=["hide-input"]
def exponents(fits, scaling):
    """Fitted exponents of one scaling and their errors, over the nonlinearities."""
    chosen = [fit for (_, other), fit in fits.items() if other == scaling]
    return np.array([f.exponent for f in chosen]), np.array([f.standard_error for f in chosen])


def compare(claim, quantity, fits, expected, tolerance):
    """Both scalings' exponents; each is the control of the other."""
    for scaling, other in (("non-lazy", "lazy"), ("lazy", "non-lazy")):
        check(
            claim,
            f"exponent of the {quantity} in N, {scaling}",
            exponents(fits, scaling)[0],
            expected[scaling],
            exponents(fits, scaling)[1],
            absolute(tolerance),
            control=(f"{other} networks", *exponents(fits, other)),
            sampler=[scan.largest.convergence for (_, each), scan in scans.items() if each == scaling],
            because="corrections of relative order 1/P bend the power law at the smallest width",
        )


compare("A1", "cosine", cosine, {"non-lazy": 0.0, "lazy": -0.5}, 0.1)

# %% [markdown]
# ### What the kernel learns
#
# The learned entry $c$ stays in non-lazy networks and vanishes as $1/N$ in lazy ones. For linear networks
# the saddle point of the [next chapter](analog.ipynb) predicts its value at every width, without a free
# parameter; lazy and non-lazy are two cases of one formula.

# %% tags=["hide-input"]
entry = {pair: scan.exponent("entry") for pair, scan in scans.items()}
predicted = {
    scaling: np.array([lazy_and_rich.predicted_entry(size, scaling, T, seed) for size in sizes])
    for scaling in SCALINGS
}
figures.publish(
    figures.scaling_plot,
    "learned_kernel",
    caption="What the kernel learns stays of order one in non-lazy networks (color) and vanishes as 1/N in "
    "lazy ones (grey). Markers: samples with standard errors; dashed: theory of the linear network at finite "
    "width; thin lines: fitted power laws. Paper A, Fig. 1c, e.",
    values=[scan.entry for scan in scans.values()],
    errors=[scan.entry_error for scan in scans.values()],
    exponents=[fit.exponent for fit in entry.values()],
    prefactors=[fit.prefactor for fit in entry.values()],
    theory=[predicted[s] if name == "linear" else np.full(len(sizes), np.nan) for name, s in scans],
    ylabel="learned entry $c$",
    **figures_of,
)

# %% tags=["hide-input"]
compare("A2", "learned entry of the kernel", entry, {"non-lazy": 0.0, "lazy": -1.0}, 0.2)
for scaling, other in (("non-lazy", "lazy"), ("lazy", "non-lazy")):
    scan = scans["linear", scaling]
    check(
        "A2",
        f"learned entry of the linear network at N = {', '.join(map(str, sizes))}, {scaling}",
        scan.entry,
        predicted[scaling],
        scan.entry_error,
        standard_errors(3),
        control=("theory of the other scaling", None, None, predicted[other]),
        sampler=scan.largest.convergence,
        because="corrections of higher order in 1/N",
    )

# %% [markdown]
# ## Same kernel, different neurons
#
# The rich kernels of {numref}`fig-lazy-and-rich-kernels-and-neurons` differ by a constant, which says
# nothing about classes. Remove it, subtract the prior, and measure the cosine between what two networks
# have learned: {glue:text}`alignment_rich:.2f` for the least similar pair, {glue:text}`alignment_lazy:.2f`
# for lazy networks, whose kernels hold little but noise beyond the prior.
#
# The neurons are another matter. With $d_i$ the difference of a neuron's mean activations on the two
# classes, the *participation ratio* is the fraction of neurons that carry the difference,
#
# $$
# \rho = \frac{\big(\sum_i d_i^2\big)^2}{N \sum_i d_i^4} =
# \begin{cases} 1/3 & d_i \text{ Gaussian: analog} \\ 1 & d_i = \pm d \text{: redundant} \\
# n/N & n \text{ neurons alone: sparse.} \end{cases}
# $$ (eq-lazy-participation)
#
# In lazy networks it is 1/3 whatever the nonlinearity: their differences are those of random features.

# %%
participation = {
    scaling: [coding.participation(each, task.labels) for each in phi[scaling].values()]
    for scaling in SCALINGS
}
alignment = {scaling: lazy_and_rich.smallest_alignment(runs[scaling]) for scaling in SCALINGS}

# %% tags=["hide-input"]
glue("alignment_rich", alignment["non-lazy"].mean(), display=False)
glue("alignment_lazy", alignment["lazy"].mean(), display=False)
sampler = [run.convergence for run in runs["non-lazy"].values()]
check(
    "A3",
    "smallest alignment of learned kernels between linear, sigmoidal and ReLU",
    alignment["non-lazy"].mean(),
    above(0.85),
    control=("lazy networks", alignment["lazy"].mean()),
    sampler=sampler,
    because="the noise of a single network's kernel at this N",
)
ratios = {
    name: np.array([statistics.mean_and_error(r) for r in rows]) for name, rows in participation.items()
}
for k, (scheme, range_) in enumerate(zip(SCHEMES, (between(0.2, 0.5), above(0.6), below(0.2)), strict=True)):
    check(
        "A3",
        f"fraction of neurons that carry the difference between the classes, {scheme}",
        *ratios["non-lazy"][k, :1],
        range_,
        control=("another nonlinearity", ratios["non-lazy"][k - 1, 0]),
        note=f"lazy network: {ratios['lazy'][k, 0]:.2f}",
        sampler=sampler[k],
        because="at this N and T the scheme is not complete",
    )

# %% [markdown]
# ## A kernel does not see the code
#
# That the kernels agree is no accident of these three networks. Take the sigmoidal network and rotate
# neuron space, $\phi \to O\phi$ and $a \to O a$ with a random orthogonal matrix $O$. Kernel and outputs
# stay what they were, number by number; the code is gone. The rotated activations are no longer values that
# the nonlinearity could take, and this is the point: *the nonlinearity chooses the axes*, and a theory that
# follows kernels alone has averaged the axes out. The symmetry that remains is that of renaming neurons.

# %%
redundant = rich["sigmoidal"][0, -1]
rotation = stats.ortho_group.rvs(N, random_state=seed)
rotated, linear_one = rotation @ redundant, rich["linear"][0, -1]
change = np.abs(rotated.T @ rotated - redundant.T @ redundant).max() / N

# %% tags=["hide-input"]
share = [
    coding.participation(phi, task.labels) for phi in (redundant, rotated, linear_one, rotation @ linear_one)
]
figures.publish(
    figures.activation_matrix,
    "rotated",
    caption=f"A rotation of neuron space leaves the kernel as it is (largest change {change:.0e}) and "
    f"dissolves the code. Forty sigmoidal neurons, as in the first figure; N = P = {N}, T = {T}.",
    activations=[lazy_and_rich.telling_neurons(phi, task.labels, 40) for phi in (redundant, rotated)],
    labels=task.labels,
    titles=["as sampled", "rotated, same kernel"],
)
check(
    "A3",
    "change of the fraction of neurons that carry the difference, under a rotation",
    np.abs(share[1] - share[0]),
    above(0.2),
    control=("the linear network, rotated alike", np.abs(share[3] - share[2])),
    note=f"largest change of the kernel: {change:.0e}",
    because="at this N and T the code is not sharp",
)

# %% [markdown]
# ## Neural collapse: what is true of it here
#
# Networks trained far beyond zero error often show *neural collapse* {cite:p}`papyan2020prevalence`: all
# inputs of a class end in one point of feature space (NC1), and the class means, centered, form an
# equiangular tight frame (NC2), the corners of a regular simplex. For the networks of this book the second
# holds and the first does not. Class means always contain noise, and with classes of equal size the means
# of pure noise are equidistant, too: in an *untrained* network they pass for a frame. So we take the means
# of one half of each class against those of the other half, whose noise is independent: in a frame their
# cosines are 1 for one class and $-1/(C-1)$ for two; for noise they are 0.

# %%
equal = lazy_and_rich.three_classes(3 * round(N / 3), (1 / 3, 1 / 3, 1 / 3), seed)
classes = {
    scheme: draw(jax.random.fold_in(key, 50 + k), equal, Network(1, N, scheme), T, **options)
    for k, scheme in enumerate(SCHEMES)
}
frames = {s: coding.class_frame(run.samples.activations(), equal.labels) for s, run in classes.items()}
simplex = 1.5 * np.eye(3) - 0.5
noise = {s: lazy_and_rich.untrained(key, run.posterior, 8) for s, run in classes.items()}

# %% tags=["hide-input"]
figures.publish(
    figures.kernel_matrices,
    "frames",
    caption="The class means of trained networks form a regular simplex; those of untrained networks are "
    "noise. Cosines between the centered class means of two halves of the inputs, averaged over samples; "
    f"three equal classes, N = {N}, P = {equal.num_inputs}, T = {T}. Not in the papers; claim of paper A's "
    "Discussion.",
    kernels=[*(f.mean((0, 1)) for f in frames.values())]
    + [coding.class_frame(phi, equal.labels).mean(0) for phi in noise.values()],
    labels=np.arange(3),
    titles=[f"{s}, {kind}" for kind in ("trained", "untrained") for s in SCHEMES],
)
for scheme in SCHEMES:
    check(
        "A32",
        f"cosines between class means of two halves of the inputs, {scheme}",
        frames[scheme].mean((0, 1)),
        simplex,
        absolute(0.15),
        control=("untrained networks", coding.class_frame(noise[scheme], equal.labels).mean(0)),
        sampler=classes[scheme].convergence,
        because="noise of the class means at this P",
    )

# %% [markdown]
# Does the variability within classes vanish? A sigmoidal network of half the size tells: the ratio
# $\mathrm{tr}\,\Sigma_W / \mathrm{tr}\,\Sigma_B$ of the variances within and between classes stays, as
# every neuron keeps fluctuating across the inputs of a class. (The usual measure, $\mathrm{tr}(\Sigma_W
# \Sigma_B^+)/C$, looks only along the directions of the means, on which the independent fluctuations of $N$
# neurons average out. It falls as $1/N$ although no neuron becomes quieter.)

# %% tags=["hide-input"]
halved = lazy_and_rich.three_classes(3 * round(N / 6), (1 / 3, 1 / 3, 1 / 3), seed)
smaller = draw(jax.random.fold_in(key, 60), halved, Network(1, N // 2, "sigmoidal"), T, **options)
large = coding.neural_collapse(classes["sigmoidal"].samples.activations(), equal.labels)
small = coding.neural_collapse(smaller.samples.activations(), halved.labels)
check(
    "A32",
    "sigmoidal: within-class over between-class variance at N, as a multiple of that at N/2",
    large.variability.mean() / small.variability.mean(),
    above(0.75),
    control=("NC1, the usual measure", large.within_class.mean() / small.within_class.mean()),
    note=f"the ratio itself is {large.variability.mean():.3f}",
    sampler=[classes["sigmoidal"].convergence, smaller.convergence],
    because="fluctuations of single networks at this N",
)
unequal = linear.solve(lazy_and_rich.three_classes(N, (0.5, 0.25, 0.25), seed), 1, T)
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
# - Lazy kernels stay at their prior up to $1/N$; rich kernels change by an amount of order one, and to
#   nearly the same kernel for the three nonlinearities.
# - Kernels, angles and the frame of the class means are invariant under rotations of neuron space. Codes
#   are not: they are invariant only under renaming neurons. Who compares representations by kernels will
#   not see the difference between analog, redundant and sparse.
#
# **Limits.** One hidden layer, orthogonal inputs, and $N = P$; the temperature is small but finite, so that
# outputs miss the targets by about a per cent in rich networks, and in lazy ones by $T/(\kappa + T)$,
# $\kappa$ being the part of the prior kernel's diagonal that tells inputs apart.
