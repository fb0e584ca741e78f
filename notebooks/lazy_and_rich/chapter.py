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
# Three networks with different nonlinearities learn the same task {cite:p}`vanmeegen2025`. Their kernels,
# which say how alike any two inputs look to the network, learn to tell the classes apart in nearly the same
# way; their neurons do not. Whether a network learns features at all is decided by one factor in front of its
# readout.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P, neurons and training inputs; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain
num_chains: int | None = None

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.theory import sigmoidal
from companion import figures, films, presets
from companion.findings import Control, Estimate, Finding, spread
from companion.predicates import above, absolute, below, relative, standard_errors
from companion.publish import publish
from companion.workbench import estimate, sizes_over, titled, untrained
from lazy_and_rich import runs
from lazy_and_rich.runs import SCALINGS, SCHEMES
from myst_nb import glue

given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_samples": num_samples, "num_chains": num_chains}
sizes = presets.sizes(runs, preset, **given)
N, T = sizes.num_neurons, sizes.temperature
how = {
    scheme: {"num_samples": sizes.num_samples, "num_chains": sizes.num_chains, **vars(getattr(sizes, scheme))}
    for scheme in SCHEMES
}
key = jax.random.key(seed)
TITLES = [titled(scheme) for scheme in SCHEMES]
GREYS = dict(zip(SCHEMES, figures.GREYS[::-1], strict=True))
for name, value in (("N", N), ("T", T)):
    glue(name, value, display=False)
main = {
    scaling: {
        scheme: runs.sampled(jax.random.fold_in(key, 10 * i + j), N, scheme, scaling, T, seed, **how[scheme])
        for j, scheme in enumerate(SCHEMES)
    }
    for i, scaling in enumerate(SCALINGS)
}
rich = main["non-lazy"]
task = rich["linear"].task

# %% tags=["hide-input"]
one_sample = {scheme: run.samples.activations()[0, -1] for scheme, run in rich.items()}
publish(
    figures.kernels_and_neurons,
    "kernels_and_neurons",
    caption="One kernel, three codes. Above: what each network's kernel has learned, centered and scaled to "
    "one length, green where inputs have become more alike than others and purple where less so. Below "
    "(blue above zero, red below): the ten neurons that tell the classes apart best and thirty others, "
    "ordered by what they say about the classes. Linear neurons answer by degrees, sigmoidal ones fully to "
    "one class or the other, and two ReLU neurons do the work.",
    tail=f"One sample of each, inputs sorted by class. N = P = {N}, T = {T:g}. Paper A, Fig. 1e.",
    counterparts=["A 1e"],
    kernels=[runs.learned_kernel(rich[scheme], phi) for scheme, phi in one_sample.items()],
    activations=[phi[runs.telling_neurons(phi, task.labels, 40)] for phi in one_sample.values()],
    labels=task.labels,
    titles=TITLES,
)

# %% [markdown]
# *Needs:* the [primer](../book/primer.md). *Reading:* 15 minutes.
#
# Try it: a few lines sample a sigmoidal network in either scaling, lazy and non-lazy (both are explained
# below), and print which share of its neurons tell three classes apart. The share is a participation ratio,
# also defined below, but without the correction for random features. With three classes random features alone
# reach one half: the two differences between the three means are Gaussian over neurons. So 50 % in a
# sigmoidal network means that nothing was learned.

# %%
import jax
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample

three_classes = tasks.toy(60, y_minus=0.5)  # 60 orthogonal inputs
for scaling in ("lazy", "non-lazy"):
    network = Network(depth=1, width=60, nonlinearity="sigmoidal", scaling=scaling)
    posterior = Posterior(three_classes, network, temperature=0.01)
    phi = sample(posterior, jax.random.key(0), num_samples=20).activations()
    share = coding.participation(phi, three_classes.labels).mean()
    print(f"{scaling}: {share:.0%} of the neurons tell the classes apart")

# %% [markdown]
# ## Two ways to make an output of order one
#
# What makes a network learn features, rather than read out random ones? The output of a network with one
# hidden layer is the overlap of two vectors with {sym}`N` components, the *feature vector*
# $\phi(z_{\cdot\mu})$ of input $\mu$ and the *readout vector* {sym}`a`,
#
# $$
# \begin{gathered}
# f_\mu = s \sum_{i=1}^N a_i\, \phi(z_{i\mu}) = s\, |a|\, |\phi_\mu| \cos\theta_\mu, \\
# s = \begin{cases} N^{-1/2} & \text{lazy} \\ N^{-1} & \text{non-lazy.} \end{cases}
# \end{gathered}
# $$ (eq-lazy-output)
#
# If the components of both vectors are of order one, their lengths are of order $\sqrt N$. The task wants
# outputs of order one. In the lazy case the cosine then has to be of order $1/\sqrt N$. Two *random* vectors
# have such a cosine, so that a slight bias among random features is enough. In the non-lazy case the cosine
# has to be of order one: features must be *aligned* with the readout, and that has to be learned.
#
# The argument has a loophole: it assumes components of order one, but readouts might grow. With the non-lazy
# scaling, readout variance $\sigma_a^2$ and temperature {sym}`T`, the {term}`posterior` has the energy
#
# $$
# \mathcal{H} = \frac{N}{2T}\, \Big\lVert y - \frac1N \sum_i a_i \phi_i \Big\rVert^2
#     + \frac{|a|^2}{2\sigma_a^2} + \frac{\lVert W \rVert^2}{2} .
# $$ (eq-lazy-energy)
#
# Put $a = \sqrt N\, a'$. With $\sigma_a^2 = N$ and the temperature $N T$ this *is* the lazy network with
# $\sigma_{a'} = 1$ at temperature $T$. A network that may grow its readouts by a factor $\sqrt N$ undoes the
# non-lazy scaling. The readout variance $\sigma_a^2 = 1/P$ of our non-lazy networks prevents it.
#
# ## The angle decides
#
# The inputs are orthogonal, their labels are drawn at random and the targets are $\pm1$, so that there is
# nothing to learn but the labels. We draw networks from the posterior ([how](../book/samplers.md)) in both
# scalings. The width and the number of inputs grow together, $N = P$, up to {glue:text}`N`. In every network
# that fits, the overlap times $s$ is of order one. The scalings differ in the *angle*: in non-lazy networks
# the cosine stays the same at all widths, in lazy ones it falls as $N^{-1/2}$. This build follows
# {glue:text}`followed` networks over widths, and the paper-size run all three nonlinearities.

# %% tags=["hide-input"]
smaller = sizes_over(N, sizes.fractions)
scans = {
    (scheme, scaling): runs.over_widths(
        [
            runs.sampled(
                jax.random.fold_in(jax.random.fold_in(key, 100 + 2 * k + i), n),
                width,
                scheme,
                scaling,
                T,
                seed,
                **how[scheme],
            )
            for n, width in enumerate(smaller)
        ]
        + [main[scaling][scheme]]
    )
    for k, scheme in enumerate(sizes.over_widths)
    for i, scaling in enumerate(SCALINGS)
}
widths = [*smaller, N]
glue("followed", " and ".join(sizes.over_widths), display=False)
NAMES = [f"{titled(scheme)}, {scaling}" for scheme, scaling in scans]
OTHER = [2 * (n // 2) + 1 - n % 2 for n in range(len(scans))]  # the same nonlinearity in the other scaling
values, errors = (np.array([getattr(scan, part) for scan in scans.values()]) for part in ("mean", "error"))
exact = {scaling: runs.linear_theory(widths, scaling, T, seed) for scaling in SCALINGS}
networks = {"N": widths, "P": widths, "T": T, "chains": sizes.num_chains}
samplers = [diagnosis for scan in scans.values() for diagnosis in scan.convergence]


def laws(which, limits):
    """Exponents of the cosine (0) or the learned entry (1), beside those of theory or of large N."""
    found = runs.exponents(widths, Estimate(values[..., which].T, errors[..., which].T))
    expected = [
        statistics.fit_power_law(widths, exact[scaling][:, which]).exponent
        if scheme == "linear"
        else limits[scaling]
        for scheme, scaling in scans
    ]
    return found, np.array(expected)


def drawn(which):
    """The same quantity over widths, for `figures.scaling_plot`."""
    found = [statistics.fit_power_law(widths, row) for row in values[..., which]]
    none = np.full(len(widths), np.nan)
    return {
        "sizes": widths,
        "values": values[..., which],
        "errors": errors[..., which],
        "exponents": [law.exponent for law in found],
        "prefactors": [law.prefactor for law in found],
        "names": NAMES,
        "colors": [GREYS[s] if scaling == "lazy" else figures.COLORS[s] for s, scaling in scans],
        "theory": [exact[scaling][:, which] if s == "linear" else none for s, scaling in scans],
        "xlabel": "width $N = P$",
    }


slopes, expected = laws(0, {"lazy": -0.5, "non-lazy": 0.0})
angle = Finding(
    "A1",
    "exponent of the cosine of features and readout in N",
    headline=True,
    sampled=slopes,
    theory=expected,
    over=NAMES,
    size=networks,
    sampler=samplers,
    figure="angles",
    panel="Paper A, Fig. 1b, d",
    control=Control("the other scaling", sampled=Estimate(*(each[OTHER] for each in slopes))),
)
angle.draw(
    figures.scaling_plot,
    "Features and readout stay aligned at any width in non-lazy networks (color). In lazy ones (gray) the "
    "alignment falls with the width: a slight bias among many random features is enough. Markers: samples "
    "with standard errors; lines: fitted power laws; dashed: theory of the linear network.",
    ylabel=r"cosine $\langle y_\mu \cos\theta_\mu \rangle$",
    **drawn(0),
)
# half of the distance between the two scalings' exponents
angle.judge(absolute(0.25), because="corrections of relative order 1/N bend the power law")

# %% [markdown]
# For linear networks we need no power law. The theory of the [next chapter](analog.ipynb) gives the cosine
# exactly at every width. It covers the lazy network, too, as the case $\sigma_a^2 = N$ at temperature $NT$.

# %% tags=["hide-input"]
linear_scans = [scans["linear", scaling] for scaling in SCALINGS]
both = [np.stack([getattr(scan, part) for scan in linear_scans]) for part in ("mean", "error")]
predicted = np.stack(list(exact.values()))
LINES = ("lazy", "non-lazy")
Finding(
    "A1",
    "cosine of features and readout in linear networks at every width",
    sampled=Estimate(*(part[..., 0].T for part in both)),
    theory=predicted[..., 0].T,
    over=LINES,
    size=networks,
    sampler=[diagnosis for scan in linear_scans for diagnosis in scan.convergence],
    panel="Paper A, Fig. 1b, d",
    control=Control("theory of the other scaling", theory=predicted[::-1, :, 0].T),
).judge(standard_errors(3), because="theory is exact: chance, or an error taken too small")

# %% [markdown]
# ## What the kernel learns
#
# The kernel $K_{\mu\nu} = \frac1N \sum_i \phi(z_{i\mu})\phi(z_{i\nu})$ says how alike two inputs look to the
# network. Before learning it has the mean $K^{\rm prior}$, known in closed form {cite:p}`lee2018deep`.
# Learning makes two inputs of one class more alike than two inputs of different classes. The *learned entry*
# measures by how much,
#
# $$
# c = \frac{1}{P(P-1)} \sum_{\mu \ne \nu} y_\mu y_\nu \big(K - K^{\rm prior}\big)_{\mu\nu} .
# $$ (eq-lazy-learned)
#
# It is about half of the difference between the two kinds of entries. The learned entry stays of order one in
# non-lazy networks and vanishes as $1/N$ in lazy ones.

# %% tags=["hide-input"]
slopes, expected = laws(1, {"lazy": -1.0, "non-lazy": 0.0})
entry = Finding(
    "A2",
    "exponent of the learned entry of the kernel in N",
    headline=True,
    sampled=slopes,
    theory=expected,
    over=NAMES,
    size=networks,
    sampler=samplers,
    figure="learned_kernel",
    panel="Paper A, Fig. 1c, e",
    control=Control("the other scaling", sampled=Estimate(*(each[OTHER] for each in slopes))),
)
entry.draw(
    figures.scaling_plot,
    "What the kernel learns stays of order one in non-lazy networks (color) and vanishes as 1/N in lazy ones "
    "(gray). Markers: samples with standard errors; lines: fitted power laws; dashed: theory of the linear "
    "network.",
    ylabel="learned entry $c$",
    **drawn(1),
)
entry.judge(absolute(0.5), because="corrections of relative order 1/N bend the power law")
Finding(
    "A2",
    "learned entry of linear networks at every width",
    sampled=Estimate(*(part[..., 1].T for part in both)),
    theory=predicted[..., 1].T,
    over=LINES,
    size=networks,
    sampler=[diagnosis for scan in linear_scans for diagnosis in scan.convergence],
    panel="Paper A, Fig. 1c, e",
    control=Control("theory of the other scaling", theory=predicted[::-1, :, 1].T),
).judge(standard_errors(3), because="theory is exact: chance, or an error taken too small")

# %% [markdown]
# ## One kernel, three codes
#
# The first figure shows what the kernels of three non-lazy, or *rich*, networks have learned: the kernel
# minus its prior, minus the means of its rows and columns. (Removing the means makes the block of the smaller
# class the darker one.) Up to scale the three matrices are nearly the same. Read as vectors, the least
# similar pair has the cosine {glue:text}`alignment_rich:.2f`. For lazy networks the cosine is
# {glue:text}`alignment_lazy:.2f` at most: what one lazy network has learned is buried in its noise.
#
# How much does this say? With two classes, little more than that all three have learned the labels. Once the
# means are removed, one matrix is left, $yy^{\mathsf T}$ without its mean, whatever the three kinds of
# entries were, those within either class and between the two. So a cosine near one can fail only by noise, as
# it does in lazy networks. The kinds of entries do differ. The kernel of a linear network becomes negative
# between the classes, that of a ReLU network cannot. With the means left in, the least similar pair has the
# cosine {glue:text}`alignment_whole:.2f`.
#
# The neurons are another matter. Let $d_i$ be the difference of a neuron's mean activations on the two
# classes, and $c_i = d_i^2 - \langle d^2\rangle_{\rm prior}$ what the neuron adds to the learned part of the
# kernel. The *participation ratio* is the effective share of the neurons that carry it,
#
# $$
# \rho = \frac{\big\langle \sum_i c_i\big\rangle^2}{N \big\langle\sum_i c_i^2\big\rangle} =
# \begin{cases} 1/3 & d_i \text{ Gaussian: analog} \\ 1 & d_i = \pm d \text{: redundant} \\
# n/N & n \text{ neurons alone: sparse.} \end{cases}
# $$ (eq-lazy-participation)
#
# The value of 1/3 holds where the prior's part is negligible. Lazy linear networks have Gaussian $d_i$, too,
# but about half of their variance is the prior's. With this part subtracted
# {eq}`eq-lazy-participation` gives 1/9.


# %% tags=["hide-input"]
def shares(of_runs):
    """Shares ρ of three nonlinearities with their errors."""
    found = [
        statistics.mean_and_error(runs.carriers(run.task, run.posterior.network, run.samples.activations()))
        for run in of_runs.values()
    ]
    return Estimate(*np.transpose(found))


def log_distance(share):
    """How far a share lies from theory's, as |log ρ/ρ_theory|."""
    return Estimate(np.abs(np.log(share.value / of_theory)), share.error / share.value)


alike = {scaling: estimate(runs.alignments(main[scaling])) for scaling in SCALINGS}
glue("alignment_rich", float(alike["non-lazy"].value.min()), display=False)
whole = estimate(runs.alignments(rich, centered=False))
glue("alignment_whole", float(whole.value.min()), display=False)
glue("alignment_lazy", float(alike["lazy"].value.max()), display=False)
shared = {
    "size": runs.size(rich["linear"], chains=sizes.num_chains),
    "sampler": [run.convergence for run in rich.values()],
    "panel": "Paper A, Fig. 1e",
}
Finding(
    "A3",
    "cosine between what two nonlinearities have learned in the kernel",
    headline=True,
    sampled=alike["non-lazy"],
    over=[f"{TITLES[i]} and {TITLES[j]}" for j in range(3) for i in range(j)],
    control=Control("lazy networks", sampled=alike["lazy"]),
    **shared,
).judge(above(0.85, 3), because="the noise of a single network's kernel at this N")
of_theory = np.array([runs.predicted_carriers(run, seed) for run in rich.values()])
found, of_lazy = shares(rich), shares(main["lazy"])
carried = Finding(
    "A3",
    "share of the neurons that carry what the kernel has learned: distance of its logarithm from theory's",
    sampled=log_distance(found),
    over=TITLES,
    figure="carriers",
    control=Control("lazy networks", sampled=log_distance(of_lazy)),
    **shared,
)
carried.draw(
    figures.bars,
    "All sigmoidal neurons alike, linear ones by degrees (an effective share of a third), and two ReLU "
    "neurons carry what the kernel has learned. Bars: samples with standard errors; dots: theory for "
    "non-lazy networks.",
    values=np.stack([found.value, of_lazy.value], axis=1)[None],
    errors=np.stack([found.error, of_lazy.error], axis=1)[None],
    groups=TITLES,
    names=["non-lazy", "lazy"],
    points=[of_theory],
    on=[0],
    colors=[figures.COLORS["samples"], figures.GREYS[-1]],
    ylabel="share of the neurons",
)
halfway = 0.5 * np.log([3.0, 3.0, max(N, 12) / 6])  # to the nearest other scheme: 1/3, 1, 2/N
carried.judge(below(halfway, 3), because="at this N and T the scheme is not complete")

# %% [markdown]
# ## A kernel does not see the code
#
# A kernel leaves the code open, and not only in these three networks. Take the sigmoidal network and rotate
# neuron space, $\phi \to O_\alpha\,\phi$ and $a \to O_\alpha\, a$, by an angle $\alpha$. (With a random
# orthogonal matrix $J$ whose square is $-1$, every $O_\alpha = \cos\alpha + J \sin\alpha$ is a rotation.)
# Kernel and outputs stay what they were, number by number. After a quarter turn the code is gone. The rotated
# activations are no longer values that the nonlinearity could take, and this is the point: *the nonlinearity
# chooses the axes*. The neurons of a nonlinear network may be renamed, but not rotated. A theory that follows
# kernels alone has averaged the axes out.

# %% tags=["hide-input"]
sharp, blurred = (runs.even(one_sample[scheme]) for scheme in ("sigmoidal", "linear"))
readouts = runs.even(rich["sigmoidal"].readouts[0, -1])
turned, turned_readouts, turned_blurred = (
    runs.quarter_turn(each, seed) for each in (sharp, readouts, blurred)
)
before, after, blurred_before, blurred_after = (
    coding.participation(phi, task.labels) for phi in (sharp, turned, blurred, turned_blurred)
)
dissolved = Finding(
    "A3",
    "change of the share of neurons that tell the classes apart, under a rotation",
    sampled=np.abs(after - before),
    size=runs.size(rich["sigmoidal"]),
    figure="rotated",
    panel="Paper A, Discussion",
    control=Control("the linear network, rotated alike", sampled=np.abs(blurred_after - blurred_before)),
)
neurons = runs.telling_neurons(sharp, task.labels, 40)
each_class = max(1, 8192 // N)  # as many inputs as a page can hold
inputs = np.concatenate([np.flatnonzero(task.labels == c)[:each_class] for c in range(2)])
scale = rich["sigmoidal"].posterior.network.readout_scale
dissolved.draw(
    figures.activation_matrix,
    "A rotation of neuron space dissolves the code and leaves the kernel as it is. Forty sigmoidal neurons "
    "of the first figure; the slider turns them up to a quarter turn.",
    activations=[phi[neurons] for phi in (sharp, turned)],
    labels=task.labels,
    titles=["as sampled", "rotated, same kernel"],
    page=films.rotation(
        [phi[:, inputs] for phi in (sharp, turned)],
        [scale * a[:, 0] for a in (readouts, turned_readouts)],
        task.labels[inputs],
        neurons,
    ),
)
change = np.abs(turned.T @ turned - sharp.T @ sharp).max() / N
dissolved.judge(
    above(1 / 3),
    note=f"half of the way from redundant to analog; largest change of the kernel: {change:.0e}",
    because="at this N and T the code is not sharp",
)

# %% [markdown]
# ## Neural collapse: the class means
#
# Networks trained far beyond zero error often show *neural collapse* {cite:p}`papyan2020prevalence`. All
# inputs of a class end in one point of feature space (NC1), and the class means, centered, form an
# equiangular tight frame (NC2): equal lengths and equal angles, the corners of a regular simplex, with
# cosines of $-\tfrac12$ for three classes. Paper A's Discussion expects that the class means of its networks
# form such a frame, and that the classes do not collapse.
#
# Noise alone would pass this test. Means over a finite class contain noise that is independent from class to
# class. Its vectors are nearly orthogonal, and once centered they form a frame, even in an *untrained*
# network. So we leave the noise out: the inner products of the class means are averages over pairs of
# *different* inputs. The targets are 1 and $-\tfrac12$.
#
# Sigmoidal neurons hardly change their codes while we sample, so the result could depend on the start.
# Therefore half of the networks are cooled from the prior, and half start from neurons drawn from theory's
# solution.

# %% tags=["hide-input"]
options = {name: value for name, value in vars(sizes.frames).items() if name != "num_neurons"}
M = sizes.frames.num_neurons
PAIRS = ("classes 0 and 1", "classes 0 and 2", "classes 1 and 2")
OVER = [f"{title}, {pair}" for title in TITLES for pair in PAIRS]
class_runs = {
    ratios: [
        runs.both_starts(
            jax.random.fold_in(key, stream + k),
            tasks.toy(M, ratios, y_minus=-0.5, seed=seed),
            scheme,
            M,
            T,
            **how[scheme] | {"thinning": 1} | options,
        )
        for k, scheme in enumerate(SCHEMES)
    ]
    for ratios, stream in ((runs.EQUAL, 50), (runs.PAPER, 60))
}


def measured(ratios):
    """Cosines between class means: sampled, of theory, and of untrained networks, nine numbers each."""
    found = [runs.frame(each) for each in class_runs[ratios]]
    keys = jax.random.split(jax.random.fold_in(key, 55), 16)
    noise = [
        runs.noisy_frame(untrained(keys, each.posterior)[0], each.task.labels) for each in class_runs[ratios]
    ]
    predicted = [runs.predicted_frame(each) for each in class_runs[ratios]]
    joined = Estimate(*(np.concatenate(part) for part in zip(*found, strict=True)))
    return joined, np.concatenate(predicted), np.concatenate(noise)


def about(ratios):
    """What findings on these networks share."""
    first = class_runs[ratios][0]
    return {
        "over": OVER,
        "size": runs.size(first, networks=2 * sizes.frames.num_chains),
        "sampler": [each.equilibrium for each in class_runs[ratios]],
        "panel": "Paper A, Discussion",
    }


equal, theory_equal, noise = measured(runs.EQUAL)
unequal, theory_unequal, noise_unequal = measured(runs.PAPER)
simplex = np.full(9, -0.5)
frame = Finding(
    "A32",
    "cosines between class means, equal classes",
    headline=True,
    sampled=equal,
    theory=simplex,
    source="simplex",
    figure="frames",
    control=Control("untrained networks", sampled=noise),
    **about(runs.EQUAL),
)


def cosines(values, errors, points, groups, names, titles, colors):
    """Cosines between class means by nonlinearity and pair of classes: sampled, of theory, of a simplex."""
    figure, axes = plt.subplots(1, len(titles), figsize=(figures.WIDTH, 3.4), sharey=True)
    place = np.arange(len(groups))
    for axis, title, value, error, point in zip(axes, titles, values, errors, points, strict=True):
        axis.axhline(-0.5, color=figures.COLORS["control"], linewidth=1, label="simplex")
        for k, (name, color) in enumerate(zip(names, colors, strict=True)):
            at = place + 0.2 * (k - 1)
            axis.errorbar(at, value[:, k], error[:, k], fmt="o", color=color, capsize=3, label=name)
            label = "theory" if k == 0 else None
            axis.plot(at, point[:, k], "_", color=figures.COLORS["theory"], markersize=14, label=label)
        axis.set_xticks(place, groups)
        axis.set(title=title, xlim=(-0.6, len(groups) - 0.4))
    axes[0].set_ylabel("cosine of two class means")
    figures.legend_above(figure, axes[0])
    return figure


frame.draw(
    cosines,
    "Class means form a regular simplex (gray line) where classes have equal size. Where they do not, those "
    "of linear and ReLU networks are far from it, and those of sigmoidal ones near. Markers: means over "
    "networks with standard errors; dashes: theory.",
    values=np.stack([equal.value, unequal.value]).reshape(2, 3, 3),
    errors=np.stack([equal.error, unequal.error]).reshape(2, 3, 3),
    points=np.stack([theory_equal, theory_unequal]).reshape(2, 3, 3),
    groups=TITLES,
    names=PAIRS,
    titles=["equal classes", "a half and two quarters"],
    colors=figures.CLASS_COLORS[:3],
)
frame.judge(
    standard_errors(3), note="so by symmetry, whatever has been learned", because="corrections of order 1/N"
)
Finding(
    "A32",
    "cosines between class means, a half of the inputs in class 0",
    sampled=unequal,
    theory=simplex,
    source="simplex",
    control=Control("untrained networks", sampled=noise_unequal),
    **about(runs.PAPER),
).judge(
    standard_errors(3),
    because="more inputs ask for the contrast of the large class, and readouts carry more of it: theory, "
    "too, has other angles",
)
off, off_equal = ((each.value - simplex) / (theory_unequal - simplex) for each in (unequal, equal))
Finding(
    "A32",
    "deviation from the simplex over theory's, less one, a half of the inputs in class 0",
    sampled=Estimate(np.abs(off - 1), unequal.error / np.abs(theory_unequal - simplex)),
    theory=np.zeros(9),
    control=Control("networks at equal classes", sampled=np.abs(off_equal - 1)),
    **about(runs.PAPER),
).judge(below(0.5), note="nearer to theory than to the simplex", because="corrections of order 1/N")
glue("frame_off", float(np.abs(off - 1)[3:6].max()), display=False)
for name, pair in (("linear", theory_unequal[:3]), ("sigmoidal", theory_unequal[3:6])):
    for which, cosine in (("large", pair[0]), ("small", pair[2])):
        glue(f"{name}_{which}", f"{cosine:.2f}".replace("-", "−"), display=False)

# %% [markdown]
# With classes of equal size symmetry makes the *average* frame regular: no class differs from another. This
# holds for any network, and so it says nothing about learning. With a half, a quarter and a quarter of the
# inputs, as in paper A's own task, the frame is not regular. In linear networks theory predicts the cosine
# {glue:text}`linear_large` between the large class and a small one, and {glue:text}`linear_small` between the
# small ones; ReLU networks have nearly the same. All inputs pull for the contrast between the large class and
# the others, only a half of them for that between the small ones. So readouts grow most along the former.
# Outputs are readouts times features, and so the features along it can stay smaller. What is left of the
# means of the small classes is mostly the difference between them, and they point further apart. Sigmoidal
# features are bounded, and their frame is almost regular: theory predicts {glue:text}`sigmoidal_large` and
# {glue:text}`sigmoidal_small`. At this width the deviations of sigmoidal networks from $-\tfrac12$ differ
# from theory's by up to {glue:text}`frame_off:.0%`.
#
# ## Neural collapse with a number
#
# Does the variability within classes vanish? In the posterior it does not, and theory says how much of it
# stays. Given its readouts $a$, a neuron's activations on the inputs of class $c$ are independent draws from
# one density. Their variance is $L''(a\cdot t_c)$. Here $L(s)$, $\log g$ in other chapters, is the logarithm
# of the prior's mean of $e^{s\phi(z)}$ ([chapter on redundant coding](redundant.ipynb)), and $t_c$ says how
# hard class $c$ pulls ([primer](../book/primer.md)). $V_c$ is the mean over the neurons' readouts,
#
# $$
# V_c = \big\langle L''(a\cdot t_c) \big\rangle_a .
# $$ (eq-lazy-variance)
#
# In theory this variance does not vanish as the network becomes wider, nor for $T \to 0$ (exercise 1). On the
# three-class task with $y_- = 0$ it is {glue:text}`theory_shares` of its value in an untrained network, for
# classes 0, 1 and 2. We put samples of two widths on a line in $1/N$, and compare where it ends.
#
# The usual measure of collapse is another one, $\mathrm{tr}(\Sigma_W \Sigma_B^+)/C$, with the covariances
# $\Sigma_W$ within and $\Sigma_B$ between the $C$ classes. It looks only along the directions of the class
# means, and averages over neurons there. So in theory it falls as $1/N$ even though no neuron becomes
# quieter: by that measure the classes do collapse in wide networks. We have not checked it here.

# %% tags=["hide-input"]
sizes_of = dict(vars(sizes.collapse))
collapse_widths, inputs_of = sizes_of.pop("num_neurons"), sizes_of.pop("num_inputs")
toy = tasks.toy(inputs_of, y_minus=0.0, seed=seed)
CLASSES = ("class 0", "class 1", "class 2")
variances = runs.at_large_width(jax.random.fold_in(key, 70), toy, collapse_widths, T, **sizes_of)
closed = sigmoidal.solve(toy, T).kernel_diagonal
(phi,) = untrained(jax.random.split(jax.random.fold_in(key, 71), 64), variances.starts[-1].posterior)
before = spread(runs.within_class(phi.astype(float), toy.labels))
glue("theory_shares", ", ".join(f"{share:.3f}" for share in closed / before.value), display=False)
posterior_size = runs.size(variances.starts[-1], networks=2 * sizes.collapse.num_chains)
posterior_size |= {"N": list(collapse_widths), "y₋": 0.0}
Finding(
    "A32",
    "variance of activations within classes, sigmoidal, extrapolated to large N",
    sampled=variances.limit,
    theory=closed,
    over=CLASSES,
    size=posterior_size,
    sampler=[each.equilibrium for each in variances.starts],
    panel="Paper A, Discussion",
    control=Control("untrained networks", sampled=before),
).judge(standard_errors(3), because="corrections of order 1/N²")

# %% [markdown]
# Does depth help the classes to collapse? A second hidden layer sees inputs that the first has already made
# more alike within classes. Theory of deep networks predicts the variance that is left in the second layer.
# It includes what the second layer's weights have learned of the class means, and neglects what they have
# learned of the scatter around them.

# %% tags=["hide-input"]
wide = collapse_widths[-1]
both = runs.both_starts(jax.random.fold_in(key, 90), toy, "sigmoidal", wide, T, depth=2, **sizes_of)
layers = runs.by_layer(both)
in_theory = np.array([layer.kernel_diagonal for layer in both.theory.layers])
noise = [
    runs.within_class(phi.astype(float), toy.labels).mean(0)
    for phi in untrained(jax.random.split(jax.random.fold_in(key, 91), 64), both.posterior)
]
contraction = Finding(
    "D16",
    "variance within classes, second hidden layer over the first",
    headline=True,
    sampled=spread(layers[:, 1] / layers[:, 0]),
    theory=in_theory[1] / in_theory[0],
    over=CLASSES,
    size={"L": 2, "N": wide, "P": inputs_of, "T": T, "y₋": 0.0, "networks": len(layers)},
    sampler=both.meeting,
    figure="contraction",
    control=Control("untrained networks", sampled=noise[1] / noise[0]),
)
contraction.draw(
    figures.curves,
    "Every layer makes the inputs of a class more alike, and learning makes the second one do so far more. "
    "Variance within class 0; markers: sampled networks, from two starts; lines: theory, and networks drawn "
    "from the prior.",
    x=[1, 2],
    values=[in_theory[:, 0], np.array(noise)[:, 0]],
    names=["theory (line), sampled (markers)", "untrained"],
    colors=[figures.COLORS["sigmoidal"], figures.COLORS["control"]],
    sampled_x=[1, 2],
    sampled=[layers[..., 0].mean(0)],
    sampled_errors=[spread(layers[..., 0]).error],
    scales=("linear", "log"),
    xticks=[1, 2],
    xlabel="hidden layer",
    ylabel="variance within class 0",
)
contraction.judge(
    relative(0.2),
    because="theory neglects what the second layer learns of the scatter within a class",
)
glue("contraction", f"{1 / contraction.sampled.value[0]:.0f}", display=False)
glue("contraction_prior", f"{noise[0][0] / noise[1][0]:.0f}", display=False)
off = 100 * (contraction.sampled.value / contraction.theory - 1)
glue("contraction_off", ", ".join(f"{each:+.0f}".replace("-", "−") for each in off), display=False)

# %% [markdown]
# In class 0 the second layer's variance is {glue:text}`contraction` times smaller than the first's, and in
# untrained networks {glue:text}`contraction_prior` times. The ratio of the two layers differs from theory's
# by {glue:text}`contraction_off` % in classes 0, 1 and 2.
#
# Do networks trained *without* noise keep the posterior's variance, too? We train sigmoidal networks with one
# hidden layer by Adam on the mean squared error, with a decoupled weight decay of $1/P$ on all weights: each
# step also takes a share of every weight away, beside Adam's rescaled gradient. (So three things change. The
# noise is gone; the gradient is rescaled, so that the decay is no penalty on a loss; and the decay is much
# stronger than the posterior's prior, which under plain gradient descent on this loss would be a decay of
# $T/(NP)$ for hidden weights and $T/N$ for readouts.) The *decay time*
# is the time in which the decay alone shrinks a weight to $1/e$ of its value. We train for several decay
# times.

# %% tags=["hide-input"]
descent = runs.trained(jax.random.fold_in(key, 81), toy, 1, **vars(sizes.descent))
last = spread(descent.within[:, -1, 0])
collapsed = Finding(
    "D15",
    "variance of activations within classes after training by Adam",
    headline=True,
    sampled=last,
    theory=closed,
    over=CLASSES,
    size={
        "N": descent.width,
        "P": inputs_of,
        "y₋": 0.0,
        "weight decay": "1/P",
        "decay times": sizes.descent.decay_times,
        "networks": sizes.descent.num_networks,
    },
    figure="collapse",
    control=Control("untrained networks", sampled=before),
)
collapsed.draw(
    figures.curves,
    "Trained by Adam, networks have less variance within classes in the end than theory gives for the "
    "posterior (dashed; the upper one is that of class 0). Means over networks.",
    x=descent.times,
    values=descent.within[:, :, 0].mean(0).T,
    names=CLASSES,
    levels=closed[:2],
    scales=("linear", "log"),
    xlabel="training time, in units of the decay time",
    ylabel="variance within a class",
)
collapsed.judge(
    standard_errors(3),
    because="there is no noise, and more weight decay than in the posterior; we have not told them apart",
    note=f"largest training loss {descent.loss[:, -1].max():.0e}",
)
glue("decay_times", f"{sizes.descent.decay_times:g}", display=False)
for name, value in (("left", last.value / closed), ("left_prior", last.value / before.value)):
    glue(name, ", ".join(f"{share:.2g}" for share in value), display=False)

# %% [markdown]
# They do not. Training fits the targets within a fraction of a decay time. Then the variance falls. After
# {glue:text}`decay_times` decay times classes 0, 1 and 2 have {glue:text}`left` of the posterior's variance.
# The small classes lose most of theirs, and the large class keeps more; its variance can even rise again. (By
# symmetry the two small classes keep as much. At preset `paper` their numbers differ by five standard errors,
# which from so few networks are probably too small.) How much is left, and when it is lowest, depends on the
# learning rate of Adam. In the posterior weights decay, too, and noise restores the differences within a
# class. Whether the missing noise or the stronger decay makes the difference here we have not tested: for
# that, the decay would have to be the posterior's.
#
# ## What to take away
#
# - The factor in front of the readout decides whether features are learned, provided that readouts cannot
#   grow to undo it. The angle between features and readout tells lazy from rich.
# - Lazy kernels stay at their prior, on average, up to corrections of order $1/N$. Rich kernels change by an
#   amount of order one. With two classes the change is nearly the same with all three nonlinearities, up to
#   scale and to the means of rows and columns. Linear neurons all carry it, by degrees (an effective share of
#   a third), sigmoidal ones all alike, and two ReLU neurons alone.
# - Kernels, angles and the frame of the class means are invariant under rotations of neuron space. Codes are
# not. Anyone who compares representations by kernels misses the difference between analog, redundant and
# sparse.
# - In the posterior the variance within classes of sigmoidal networks is not zero. Theory predicts its value.
#
# **Limits.** The inputs are orthogonal. All networks have one hidden layer and $N = P$, except where the
# variance within classes is studied. The temperature is small but finite, so that outputs miss the targets by
# about a per cent in rich networks.
#
# **Reproduced in part.** Class means form a regular simplex where classes have equal size, as they must by
# symmetry. At the class ratios of paper A's own task they do not, neither in theory nor in samples: the
# cosines differ from $-\tfrac12$ by up to a tenth in linear and ReLU networks, and by a hundredth in
# sigmoidal ones. In the paper-size run the exponents of the learned entry tell the scalings apart, but that
# of non-lazy ReLU networks is not quite nought: it is 0.007, ten of its standard errors.
#
# **Refuted.** We had expected that networks trained by Adam with weight decay $1/P$ keep the posterior's
# variance within classes. They keep less. The cause is open.
#
# ## Exercises
#
# **1.** Predict first: what becomes of the variance within a class if $T$ goes to zero?

# %% tags=["solution"]
for cold in (0.01, 0.001, 0.0001):
    found = sigmoidal.solve(tasks.toy(60, y_minus=0.0), cold)
    print(cold, "variance within classes", found.kernel_diagonal.round(4))

# %% [markdown]
# It falls by a quarter to a third and then stays: at $T = 0$ the outputs are fixed, but most of the weights
# are not.
#
# **2.** Make one class larger and larger. What happens to the angles between the class means of a linear
# network?

# %% tags=["solution"]
from coding_schemes import theory

for first in (1 / 3, 0.5, 0.8):
    uneven = tasks.toy(60, (first, (1 - first) / 2, (1 - first) / 2), y_minus=-0.5)
    kernel = theory.solve(uneven, Network(1, 60, "linear"), 0.01).kernels[1]
    print(f"{first:.2f}", "cosines", runs.kernel_cosines(kernel, uneven.labels).round(2))

# %% [markdown]
# The two small classes stand further and further apart, more opposite to each other than to the large one.
#
# **3.** Undo the scaling: give a non-lazy linear network the readout variance $\sigma_a^2 = N$ and the
# temperature $NT$. How much of the learned entry is left?

# %% tags=["solution"]
for width in (50, 100, 200):
    kept, undone = (
        runs.linear_theory([width], scaling, 0.01, seed)[0, 1] for scaling in ("non-lazy", "lazy")
    )
    print(f"N = {width}: {kept:.3f} and {undone:.4f}, a ratio of {undone / kept * width:.2f}/N")

# %% [markdown]
# About $1/N$ of what the non-lazy network learns. The readouts grow, and the features stay as they were.
