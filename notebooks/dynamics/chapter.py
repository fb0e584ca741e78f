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
# Recordings from brains show single cells that change their responses over weeks, while the message of the
# population stays. Which networks drift in this way, and which cannot? Here a network has learned and is
# left alone with its noise: its weights go on wandering through all solutions of the task. In a linear
# network the readouts of a neuron wander through their whole distribution. A sigmoidal or a ReLU neuron
# keeps its role, because a barrier that grows with the number of inputs stands in the way: *permutation
# symmetry is broken* {cite:p}`vanmeegen2025`.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P of the sigmoidal and ReLU networks; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # snapshots per chain

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import statistics
from coding_schemes.sampling import HMC
from coding_schemes.theory import dynamics as single_neurons
from companion import figures, films, presets
from companion.findings import Control, Estimate, Finding, stacked
from companion.predicates import above, absolute, below, equal, p_value, standard_errors
from companion.publish import publish
from companion.workbench import draw
from dynamics import runs
from dynamics.runs import NAMES
from myst_nb import glue

sizes = presets.sizes(
    runs,
    preset,
    temperature=temperature,
    num_samples=num_samples,
    sigmoidal={"num_neurons": num_neurons},
    relu={"num_neurons": num_neurons},
    linear={"num_samples": num_samples},
)
T, key = sizes.temperature, jax.random.key(seed)
counts = {"num_samples": sizes.num_samples, "num_chains": sizes.num_chains}
networks = {name: vars(getattr(sizes, name)) for name in NAMES}
theories = {name: runs.solve(name, own["num_neurons"], T) for name, own in networks.items()}
motions = {
    name: runs.one_layer(
        jax.random.fold_in(key, k), name, temperature=T, plant_key=key, **(counts | networks[name])
    )
    for k, name in enumerate(NAMES)
}
glue("excess", f"{100 * max(motion.excess for motion in motions.values()):.0f}", display=False)
SMALL_P = "at this P the barrier is low enough to be crossed now and then, as the last section computes"
together = {"N": [own["num_neurons"] for own in networks.values()]}
together |= {"P": together["N"], "T": T}
each_size = ", ".join(f"{own['num_neurons']} ({NAMES[name]})" for name, own in networks.items())

# %% tags=["hide-input"]
analog, branches, sparse = theories.values()
levels = np.full((3, 4), np.nan)
levels[0, :2] = analog.readout_covariance[0, 0] ** 0.5 * np.array([-1, 1])
levels[1, : len(branches.readouts[:4])] = branches.readouts[:4, 0]
levels[2] = [sparse.bulk_readout[0], *sparse.num_neurons**0.5 * sparse.outlier_readouts[:3, 0]]
chosen = {name: runs.shown_neurons(motion) for name, motion in motions.items()}
publish(
    figures.trace_panels,
    "readouts_in_time",
    caption="Linear neurons wander; sigmoidal and ReLU neurons mostly stay where they are. Readout weight "
    "for class 0 of six neurons of each network, over the same time. Dashed: one standard deviation "
    "(linear), maxima of the readout posterior (sigmoidal), outliers and bulk (ReLU) in theory. Two codes "
    "share the highest of the sigmoidal values, so that a change from one to the other would not show.",
    tail=f"N = P = {each_size}, T = {T:g}. Paper A, Fig. 4b.",
    counterparts=["A 4b"],
    levels=levels,
    ylabel="readout weight $a_i^0$",
    **runs.on_one_axis(
        motions, {name: motion.run.readouts[0, :, chosen[name], 0] for name, motion in motions.items()}
    ),
)

# %% [markdown]
# *Needs:* the [primer](../book/primer.md) and the three schemes, [analog](analog.ipynb),
# [redundant](redundant.ipynb) and [sparse](sparse.ipynb). *Reading:* 20 minutes.
#
# Try it: a few lines start networks in theory's scheme, let them go, and count the neurons that end with
# another code.

# %%
import jax
import numpy as np
from coding_schemes import planting, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import PlainLangevin, sample

task = tasks.toy(60, y_minus=0.5)  # 60 orthogonal inputs: a half in class 0, a quarter in each of the others
posterior = Posterior(task, Network(depth=1, width=60, nonlinearity="sigmoidal"), temperature=0.01)
start = planting.planted(jax.random.key(0), theory.sigmoidal.solve(task, 0.01), posterior)
free = {"method": PlainLangevin(step_size=0.1, num_steps=40), "moves": (), "num_warmup": 0}
samples = sample(posterior, jax.random.key(1), num_samples=60, init=start, **free)
moved = np.any(samples.codes()[:, 0] != samples.codes()[:, -1], axis=-1)
print("neurons of each chain that end with another code:", moved.sum(-1))

# %% [markdown]
# ## One hidden layer
#
# **Question.** Do neurons trade places while a network wanders through its solutions?
#
# To the posterior all neurons of a layer are equal: renaming them changes nothing. In a single sample of a
# nonlinear network they are not equal, since each has its {term}`code`. The dynamics could restore the
# equality, if every neuron had every code in turn. To see whether it does we let the weights follow the
# gradient of the loss and of the {term}`prior`, with noise,
#
# $$
# \mathrm d w = -\nabla \mathcal{H}(w)\, \mathrm d t + \sqrt 2\, \mathrm d B ,
# $$ (eq-dynamics-langevin)
#
# whose stationary law is the {term}`posterior` $e^{-\mathcal{H}}$. All weights are in units in which their
# priors have variance one. The unit of time is that in which a weight that feels nothing but its prior
# falls to $1/e$ of its value.
#
# **Two dynamics.** Paper A writes this equation for the weights themselves, not in units of their priors.
# For hidden weights, whose prior has variance one anyway, this changes only the unit of time,
# $t = (T/N)\, t_{\rm A}$. A readout $a = \sigma_a w$ is slower here than in the paper: its *mobility*, the
# speed that a force gives it, is $\sigma_a^2 = 1/P$ times the paper's. The posterior and its barriers are
# the same, the times are not. All runs of this chapter follow {eq}`eq-dynamics-langevin`, and what depends on
# the mobility is measured with "the paper's mobility" as well.
#
# Other chapters reach {term}`equilibrium` by moves that exchange the roles of neurons at one stroke. This
# chapter makes none, since it asks whether the roles change by themselves. Networks start from the theory's
# scheme and pass a few trajectories of Hamiltonian Monte Carlo. Then we follow the dynamics in finite time
# steps, without a Metropolis test. Where codes last, networks can be in equilibrium only within their codes;
# energy and training error tell whether they are. The tasks are paper A's: $y_- = 0$ for linear, $1/2$ for
# sigmoidal and $-1/2$ for ReLU networks. The finite step raises the mean squared
# training error by at most {glue:text}`excess` %.
#
# ### Linear neurons forget
#
# A linear neuron in the mean field of the others has a readout and a preactivation that pull on each other
# and relax like damped springs in noise. Let $\kappa$ be the strength of this pull. It sets the variance of
# the readouts, $V = \sigma_a^2/(1 - \kappa^2)$, and their autocorrelation over a time $s$ is
#
# $$
# C(s) = \tfrac{1 + \kappa}{2}\, e^{-(1 - \kappa)\, s} + \tfrac{1 - \kappa}{2}\, e^{-(1 + \kappa)\, s} .
# $$ (eq-dynamics-memory)
#
# Since $V$ is of order one and $\sigma_a^2 = 1/P$, the pull $\kappa$ is close to one. Then the first term
# is almost all of $C(s)$, and its slow rate is $1 - \kappa \approx 1/(2PV)$: roles are traded slowly, in a
# time of order $P$, but they are traded.
#
# In a finite network memory lasts longer. The neurons together have to keep the outputs on the targets. For
# small $T$ these are $P m$ constraints on the step of all weights, and a step is projected on the directions
# that they leave free. Each neuron thus loses a share of its step that is of order $1/N$. The slow rate is
# multiplied by $1 - \varepsilon$, where
#
# $$
# \varepsilon = \frac1N \Bigl[1 + \sum_{r' \ne r} \frac{V_{r'}}{V_r + V_{r'}} + \frac{P - m}{P\, V_r}\Bigr] ,
# $$ (eq-dynamics-slower)
#
# and $V_r$ is the variance of the readouts of output $r$. The first two terms are lost to the $m^2$
# constraints within the span of the targets; readouts of two outputs share such a loss in proportion to their
# variances. The last term is lost to the $P - m$ directions in which the outputs must vanish.
#
# As a measure that needs no theory, cut the distribution of the readouts into ten equally probable parts, and
# count how many of them a neuron visits within the run. The check holds this count against the one of a
# Gaussian process with theory's memory.

# %% tags=["hide-input"]
wandering, still = motions["linear"], motions["sigmoidal"]
size = networks["linear"]["num_neurons"]
snapshots = len(wandering.times)
lags = wandering.interval * np.arange(snapshots)
seen = Finding(
    "A20",
    "share of the readout distribution's deciles that a linear neuron visits within the run",
    headline=True,
    sampled=runs.coverage(wandering.run.readouts),
    theory=runs.gaussian_coverage(single_neurons.linear_memory(analog, lags, num_neurons=size)),
    size=wandering.size,
    sampler=wandering.run.convergence,
    panel="Paper A, Fig. 4b",
    control=Control("sigmoidal network", sampled=runs.coverage(still.run.readouts)),
)
seen.judge(standard_errors(3), because="corrections of second order in 1/N")
expected = runs.linear_memory(analog, lags, num_neurons=size)
levels_at = (0.8, 0.6, 0.4)
at = np.array([int(np.argmin(np.abs(expected - level))) for level in levels_at])
at = np.minimum(at, snapshots // 2)
correlation = {
    name: runs.autocorrelations(each.run.readouts, len(each.times) // 2) for name, each in motions.items()
}
some = {name: np.linspace(1, len(each.times) // 2, 50).astype(int) for name, each in motions.items()}
half = runs.solve("linear", size // 2, T)
memory = Finding(
    "A20",
    f"autocorrelation of linear readouts at the lags {', '.join(f'{lag:.0f}' for lag in lags[at])}",
    sampled=Estimate(*(part[at] for part in correlation["linear"])),
    theory=expected[at],
    over=[f"theory's {level:g}" for level in levels_at],
    size=wandering.size,
    sampler=wandering.run.convergence,
    figure="autocorrelation",
    panel="Paper A, Fig. 4b",
    control=Control(
        "theory at half the size",
        theory=runs.linear_memory(half, lags[at], num_neurons=size // 2),
    ),
)
memory.draw(
    figures.curves,
    "Readouts of linear neurons forget at the rate of theory (dashed); sigmoidal and ReLU ones do not, over "
    "the time that they were followed. Bands: standard errors over chains. The sizes below are the linear "
    f"network's; the sigmoidal one has N = P = {networks['sigmoidal']['num_neurons']} and is followed for "
    f"{networks['sigmoidal']['span']:g} units of time, the ReLU one {networks['relu']['num_neurons']} and "
    f"{networks['relu']['span']:g}.",
    x=[lags[some["linear"]], *(motions[name].interval * some[name] for name in NAMES)],
    values=[expected[some["linear"]], *(correlation[name].value[some[name]] for name in NAMES)],
    errors=[np.zeros(50), *(correlation[name].error[some[name]] for name in NAMES)],
    names=["theory, linear", *NAMES.values()],
    colors=[figures.COLORS[name] for name in ("theory", *NAMES)],
    styles=["--", "-", "-", "-"],
    widths=[1.2, 1.6, 4.0, 1.4],
    scales=("log", "linear"),
    xlabel="time lag $s$",
    ylabel="autocorrelation of readouts $C(s)$",
)
memory.judge(standard_errors(3), because="corrections of second order in 1/N")

# %% [markdown]
# With the paper's mobility a readout follows its preactivations at once. The slow rate is then $1 - \kappa^2$
# in place of $1 - \kappa$, about twice as fast, however large $P$ is. That is all that the mobility changes
# for linear neurons.

# %% tags=["hide-input"]
unit = vars(sizes.unit)
beside = {"num_samples": sizes.num_samples, "num_chains": 8, "temperature": T, "span": unit["span"]}
faster, ours = (
    runs.one_layer(
        jax.random.fold_in(key, 80), "linear", num_neurons=unit["num_linear"], mobility=mobility, **beside
    )
    for mobility in ("unit", "prior variance")
)
solved = runs.solve("linear", unit["num_linear"], T)
steps = faster.interval * np.arange(sizes.num_samples)
times = [runs.decay_times(each.run.readouts, each.interval, level=0.6) for each in (ours, faster)]
ratio = runs.ratio(*times)
in_theory = [
    runs.decay_time(runs.linear_memory(solved, steps, mobility=mobility), faster.interval, level=0.6)
    for mobility in (1.0, float(unit["num_linear"]))
]
Finding(
    "A20",
    "how many times faster linear readouts forget at the paper's mobility",
    sampled=ratio,
    theory=np.float64(in_theory[0] / in_theory[1]),
    size=faster.size,
    sampler=faster.run.convergence,
    panel="Paper A, Fig. 4b",
    control=Control("no change", theory=np.float64(1)),
).judge(
    absolute(0.5),
    note="half way to no change; that readouts are faster by P would be told apart, too",
    because="corrections of order 1/N, which are large in a network this small",
)

# %% [markdown]
# ### Sigmoidal and ReLU neurons keep their codes
#
# A sigmoidal neuron's code is the set of classes on which it is active, a ReLU neuron's the set for which
# it is an outlier. Do the differences between neurons last? We ask whether a neuron differs from the others
# in the second half of a run as it did in the first. Let $x_i(t)$ be the readouts of neuron $i$, or its
# mean activations on the classes, and $\delta x_i$ their deviation from the mean over neurons. With its
# averages $\delta \bar x_i^{(1)}$ and $\delta \bar x_i^{(2)}$ over the two halves, the *permutation order*
#
# $$
# q = \bigl\langle \delta \bar x_i^{(1)} \cdot \delta \bar x_i^{(2)} \bigr\rangle_i \Big/
#     \bigl\langle |\delta x_i(t)|^2 \bigr\rangle_{i,t}
# $$ (eq-dynamics-order)
#
# is near 0 where every neuron takes every role within each half of the run. It is near 1 where all are frozen
# and fluctuate little about their roles. In a short run it is close to 1 whatever neurons do. So each network
# is held against a linear one of the same size, followed for the same time: the order has to lie nearer to 1
# than to the order that theory gives to the linear network.

# %% tags=["hide-input"]
frozen = [motions["sigmoidal"], motions["relu"]]
sized = [{name: networks[kind][name] for name in ("num_neurons", "span")} for kind in ("sigmoidal", "relu")]
rivals = [
    runs.one_layer(jax.random.fold_in(key, 90 + k), "linear", temperature=T, **(counts | own))
    for k, own in enumerate(sized)
]
of_frozen = {
    "size": together | {"N": together["N"][1:], "P": together["N"][1:], "chains": sizes.num_chains},
    "sampler": [motion.local for motion in frozen],
}
lasting, wandered = runs.orders(frozen), runs.orders(rivals)
Finding(
    "A21",
    "permutation order of the readouts",
    headline=True,
    sampled=lasting,
    over=["sigmoidal", "ReLU"],
    panel="Paper A, Fig. 4b; Paper A, Fig. 4d",
    control=Control("linear networks of the same sizes and times", sampled=wandered),
    **of_frozen,
).judge(above([runs.least_order(own["num_neurons"], T, own["span"]) for own in sized], 3), because=SMALL_P)
orders = {"sigmoidal": lasting.value[:1], "relu": lasting.value[1:], "rivals": wandered.value}
for name, values in orders.items():
    glue(f"order_{name}", " and ".join(f"{value:.2f}" for value in values), display=False)
switched = [motion.switches() for motion in frozen]
for name, count in zip(("sigmoidal", "relu"), switched, strict=True):
    glue(f"switches_{name}", count.num_switches, display=False)
long = [motion.times[-1] * len(motion.means[0]) / motion.correlation_time() for motion in frozen]
Finding(
    "A21",
    "code switches of all neurons",
    sampled=np.array([count.num_switches for count in switched]),
    theory=np.zeros(2),
    over=["sigmoidal", "ReLU"],
    panel="Paper A, Fig. 4b; Paper A, Fig. 4d",
    control=Control(
        "linear networks of the same sizes and times, signs of the class means",
        sampled=np.array([rival.switches().num_switches for rival in rivals]),
    ),
    **of_frozen,
).judge(
    equal(),
    note=f"rates below {switched[0].upper:.2g} and {switched[1].upper:.2g} per neuron and unit of time "
    f"(95 %), from {long[0]:.0f} and {long[1]:.0f} autocorrelation times of the preactivations, all chains "
    "together",
    because=SMALL_P,
)
crossing_over = {
    name: runs.one_layer(
        jax.random.fold_in(key, 81 + k),
        name,
        mobility="unit",
        **(counts | {"num_neurons": unit["num_neurons"], "temperature": T, "span": unit["short_span"]}),
    )
    for k, name in enumerate(("sigmoidal", "relu", "linear"))
}
freely = crossing_over.pop("linear")
limit = runs.least_order(unit["num_neurons"], T, unit["short_span"], mobility=float(unit["num_neurons"]))
Finding(
    "A21",
    "permutation order of the readouts at the paper's mobility",
    sampled=runs.orders(list(crossing_over.values())),
    over=["sigmoidal", "ReLU"],
    size=crossing_over["relu"].size,
    sampler=[motion.local for motion in crossing_over.values()],
    panel="Paper A, Fig. 4b",
    control=Control("linear network of the same size and time", sampled=runs.orders(2 * [freely])),
).judge(above(limit, 3), because=SMALL_P)

# %% [markdown]
# In both kinds of networks almost all of the differences last: the order is {glue:text}`order_sigmoidal` in
# the sigmoidal and {glue:text}`order_relu` in the ReLU network. The linear networks reach
# {glue:text}`order_rivals`. The direct evidence is the count of code switches, of all neurons in all chains:
# {glue:text}`switches_sigmoidal` of sigmoidal neurons and {glue:text}`switches_relu` of ReLU neurons. (For a
# sigmoidal neuron a class counts as switched when the mean activation on it has crossed the band from 0.4 to
# 0.6.) Small sigmoidal networks have low barriers, and a few of their neurons cross.
#
# With the paper's mobility a run of the same length takes $P$ times as many steps. So these networks are
# smaller, and their runs short. Where energy and training error have not settled within them, the check is
# open.
#
# ### What still moves
#
# A neuron whose code is frozen still moves: its preactivations on single inputs fluctuate. A sigmoidal neuron
# sits at one maximum of the readouts' density, with the readouts $a$. (Paper A calls it the neuron's branch;
# in the chapter on condensation this word means something else.) On an input of class $c$ its preactivation
# follows the density $\mathcal N(z; 0, 1)\, e^{(a^\top t_c)\, \phi(z)}$. The check compares the variance in
# time with that of this density, its drive $a^\top t_c$ taken such that the mean activation is the sampled
# one. It corrects for finite $N$, to order $1/N$, and for finite steps, by $\tfrac12 \Delta t$.
#
# A ReLU outlier carries a whole class alone. Its fluctuations do not average out over neurons, and the
# training error would feel every one of them. So it moves least of all.

# %% tags=["hide-input"]
publish(
    figures.trace_panels,
    "preactivations_in_time",
    caption="The ReLU outlier that answers to the input fluctuates least. Preactivations of the neurons of "
    "the first figure, on one input of class 0.",
    tail=f"N = P = {each_size}, T = {T:g}. Paper A, Fig. 4d.",
    counterparts=["A 4d"],
    ylabel=r"preactivation $z_{i\mu}$",
    **runs.on_one_axis(
        motions, {name: each.run.preactivations[0][0, :, chosen[name], 0] for name, each in motions.items()}
    ),
)
fluctuating = runs.sigmoidal_variances(still, branches)
strong = runs.outlier_variances(motions["relu"].run, step=runs.step(motions["relu"]))
bulk = runs.bulk_variance(motions["relu"].run, sparse.num_outliers)
least_moving = fluctuating.sampled.value.min()
Finding(
    "A22",
    "variance in time of a ReLU outlier's preactivations over the least of any sigmoidal neurons'",
    headline=True,
    sampled=Estimate(*(part / least_moving for part in strong["sampled"])),
    over=["class 0", "class 1 or 2"],
    panel="Paper A, Fig. 4d",
    control=Control("the bulk of the ReLU network", sampled=np.full(2, bulk / least_moving)),
    **of_frozen,
).judge(below(0.5, 3), because="the variance falls with T and 1/N only")
values = fluctuating.theory
other = values[np.abs(values[:, None] - values).argmax(1)]
Finding(
    "A22",
    "variance of sigmoidal preactivations in time by code and class, given their mean (prior: 1)",
    sampled=fluctuating.sampled,
    theory=fluctuating.theory,
    over=fluctuating.names,
    size=still.size,
    sampler=still.local,
    panel="Paper A, Fig. 4d",
    control=Control("theory of the code and class farthest from it", theory=other),
).judge(
    standard_errors(3),
    because="at small P readouts run up towards the passes, farther than their Gaussian width",
)

# %% [markdown]
# How much does an outlier still move on the class $c$ that it carries? Its readouts are $\sqrt N \bar a$,
# and its preactivations on the class have the mean $\sqrt N \bar z_c$. With readouts $b$ and activations of
# variance $v_c$ in the bulk, their variance in time is
#
# $$
# \langle \delta z^2 \rangle = \Bigl[1 + \bar a^\top
# \bigl(T + v_c \langle b\, b^\top \rangle\bigr)^{-1} \bar a\Bigr]^{-1} + \frac{1}{4 n_c} .
# $$ (eq-dynamics-outlier)
#
# The first term is the noise on single inputs. It is small because $T$ is small, and it is not zero: the
# temperature allows some of it, and the bulk can make up for some by moving a little. The scatter of the
# bulk's readouts, of order $1/P$, is part of $\langle b\, b^\top\rangle$.
# The second term is a slow breathing of the whole class. If the readout grows by a factor $e^\varepsilon$
# and all preactivations on the class shrink by $e^{-\varepsilon}$, the output stays the same. Only the
# priors hold $\varepsilon$ back, with the energy $2 n_c N \bar z_c^2\, \varepsilon^2$. Both the scatter and
# the breathing vanish as $1/P$, here the same as $1/N$, but at the paper's size they are not small.
#
# We test the formula by exact sampling, where no finite step adds to the variance, and without moves that
# exchange roles. It leaves out terms of order $1/N^2$. So the ratio of samples to formula, plotted against
# $1/N^2$, should lie on a line that reaches one as $N \to \infty$. At the preset `paper` class 0 only just
# passes: its line reaches 1.043 ± 0.015.

# %% tags=["hide-input"]
Finding(
    "A22",
    "variance of outliers' preactivations in time, ReLU, by Langevin steps (prior: 1)",
    sampled=strong["sampled"],
    theory=strong["theory"].stepped,
    over=["class 0", "class 1 or 2"],
    size=motions["relu"].size,
    sampler=motions["relu"].local,
    panel="Paper A, Fig. 4d",
    control=Control("theory at N → ∞", theory=strong["theory"].infinite),
).judge(standard_errors(3), because="corrections of higher order in 1/N")
own = sizes.outliers
main = networks["relu"]["num_neurons"]
widths = [max(20, round(main * fraction)) for fraction in own.fractions]
exact = {
    "method": HMC(0.8, own.most_steps),
    "moves": (),
    "num_chains": own.num_chains,
    "num_warmup": 60,
    "num_samples": own.num_samples,
    "thinning": own.thinning,
}
by_size = []
for k, width in enumerate(widths):
    like = Posterior(runs.toy("relu", width), Network(1, width, "relu"), T)
    planted = planting.planted(key, runs.solve("relu", width, T), like)
    stream = jax.random.fold_in(key, 20 + k)
    by_size.append(draw(stream, like.task, like.network, T, init=planted, **exact))
moving = [runs.outlier_variances(run) for run in by_size]
in_size = {
    name: np.array([getattr(each["theory"], name) for each in moving])
    for name in ("total", "noise", "infinite")
}
measured = stacked([each["sampled"] for each in moving])
freezing = Finding(
    "A22",
    "variance of outliers' preactivations in time over theory's, by exact sampling without moves, on a line "
    "in 1/N²",
    sampled=runs.beyond_first_order(widths, measured, in_size["total"]),
    theory=np.ones(2),
    over=["class 0", "class 1 or 2"],
    size={"N": widths, "P": widths, "T": T, "chains": own.num_chains},
    sampler=[run.convergence for run in by_size],
    figure="outlier_variance",
    panel="Paper A, Fig. 4d",
    control=Control(
        "theory at N → ∞", sampled=runs.beyond_first_order(widths, measured, in_size["infinite"])
    ),
)
freezing.draw(
    figures.curves,
    "Outliers move the less the larger the network, down to what the temperature leaves. Variance in time of "
    "their preactivations on their own class (prior: 1). Markers: samples with standard errors; full lines: "
    "theory with its 1/N; dashed: without the breathing of the class; dotted: "
    "N → ∞.",
    x=widths,
    values=np.concatenate([each.T for each in in_size.values()]),
    names=["class 0", "class 1 or 2"] * 3,
    colors=figures.CLASS_COLORS[:2],
    styles=["-", "-", "--", "--", ":", ":"],
    sampled_x=widths,
    sampled=measured.value.T,
    sampled_errors=measured.error.T,
    xlabel="size $N = P$",
    ylabel="variance in time of $z$",
)
freezing.judge(standard_errors(3), because="the remainder falls more slowly than 1/N²")

# %% [markdown]
# ## Two layers: drift below a frozen layer
#
# **Question.** Does a frozen feature layer freeze the layer below?
#
# In a sigmoidal network with two hidden layers the posterior factorizes: the layers see each other only
# through kernels, not through the names of neurons {cite:p}`vanmeegen2025`. So neurons of the first layer
# could trade their codes without the feature layer noticing. To see whether they do, we start a network
# with $y_- = 1/2$ from the two-layer scheme of the theory, bring it to equilibrium by exact sampling, and
# follow it in several chains.


# %% tags=["hide-input"]
def drift_frame(frame, fixed, sorted_anew, last, codes, edges, times, figure=None):
    """Layer 1 in a fixed order and sorted anew, and layer 2, in one snapshot; a color per code."""
    snapshots = fixed[frame], sorted_anew[frame], last[frame]
    if figure is None:
        figure, axes = plt.subplots(1, 3, figsize=(6.4, 3.2), sharey=True, layout="none")
        figure.subplots_adjust(left=0.09, right=0.99, top=0.83, bottom=0.09, wspace=0.06)
        titles = "layer 1, fixed order", "layer 1, sorted anew", "layer 2, fixed"
        for axis, values, title in zip(axes, snapshots, titles, strict=True):
            axis.imshow(np.ones((*values.shape, 3)), aspect="auto")
            axis.vlines(edges, -0.5, len(values) - 0.5, color="black", linewidth=0.7)
            axis.set(xlabel="input, by class", xticks=[])
            axis.set_title(title, fontsize="medium")
        axes[0].set_ylabel("neuron")
    for axis, values, rows in zip(figure.axes, snapshots, codes[:, frame], strict=True):
        colors = [figures.CODE_COLORS[name] for name in rows]
        inks = np.array([[int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)] for color in colors])
        axis.images[0].set_data(1 - np.clip(values, 0, 1)[..., None] * (1 - inks)[:, None])
    figure.suptitle(f"t = {times[frame]:.1f}")
    return figure


N = networks["sigmoidal"]["num_neurons"]
deep = runs.two_layers(jax.random.fold_in(key, 40), "sigmoidal", num_neurons=N, **(counts | vars(sizes.deep)))
setting = {"tail": f"L = 2, N = P = {N}, T = {sizes.deep.temperature:g}, y₋ = 0.5. Paper A, Fig. 5."}
setting["counterparts"] = ["A 5a", "A 5b", "A 5c", "A 5d"]
films.publish_animation(
    drift_frame,
    "drift_film",
    caption="Neurons of the first layer change their codes one by one, and the scheme stays. Left: some "
    "neurons in the order of their codes at the start; middle: the same, sorted anew in every frame; "
    "right: neurons of the feature layer in a fixed order. A color for each code.",
    description="First-layer neurons change their codes one by one; sorted anew, the scheme stays",
    **runs.film(deep, sizes.film.num_frames),
    **setting,
)

# %% tags=["hide-input"]
history = runs.code_history(deep)
publish(
    figures.code_raster,
    "all_layers_in_time",
    caption="Neurons change their codes in the first layer and keep them in the feature layer. All neurons "
    "of one chain, sorted by their code at the start; a color for each code.",
    times=deep.times,
    which=[
        w[np.argsort(w[:, 0], kind="stable")].astype(np.int16) for w in (each[0].T for each in history.layers)
    ],
    names=history.names,
    titles=["layer 1", "layer 2 (feature layer)"],
    **setting,
)
first, last = deep.switches(0), deep.switches(1)
rate = runs.chain_rates(deep, 0)
drifting = {"size": deep.size, "sampler": deep.run.convergence, "panel": "Paper A, Fig. 5"}
Finding(
    "A23",
    "code switches per neuron and unit of time, first layer, less the feature layer's upper bound",
    headline=True,
    sampled=Estimate(rate.value - last.upper, rate.error),
    control=Control("feature layer", sampled=np.float64(last.rate - last.upper)),
    **drifting,
).judge(
    above(0, 3),
    note=f"rate {rate.value:.3g} ± {rate.error:.2g}, bound {last.upper:.2g}; {first.fraction_moved:.0%} of "
    "the first layer's neurons end with another code",
    because="at this size few neurons cross within the run",
)
Finding(
    "A23",
    "code switches in the feature layer",
    sampled=np.float64(last.num_switches),
    theory=np.float64(0),
    control=Control("first layer", sampled=np.float64(first.num_switches)),
    **drifting,
).judge(equal(), because=SMALL_P)
before, after = (history.layers[0][:, k].ravel() for k in (0, -1))
kinds = len(history.names)
cohorts = [runs.no_net_flux(before[before == kind], after[before == kind], kinds) for kind in range(kinds)]
Finding(
    "A23",
    "no net flux of first-layer neurons into any code",
    sampled=np.float64(runs.no_net_flux(before, after, kinds)),
    control=Control("neurons that began with one code", sampled=np.min(cohorts)),
    **drifting,
).judge(p_value(0.0027), because="the first layer had not reached equilibrium when the run began")
alike = runs.kept(deep, 0)
Finding(
    "A23",
    "similarity of the first layer's kernels in the first and the last tenth of the run, by chain",
    sampled=alike.kernel,
    control=Control("inputs shuffled", sampled=alike.shuffled),
    **drifting,
).judge(
    above(0.9),
    note=f"of its neurons: {alike.neurons.mean():.2f}",
    because="the kernel of one network carries noise of order 1/√N",
)

# %% [markdown]
# It does not. Neurons of the first layer go on changing their codes, as many into each code as out of it,
# while those of the feature layer keep theirs. The kernel of the first layer hardly changes. Neuroscience
# calls this *representational drift*: the responses of single cells change, while what can be read from the
# population stays the same. Here we know what stays: it is the kernel, which does not know the names of the
# neurons.
#
# ### Two ReLU layers
#
# The paper reports that with two ReLU layers the codes of the first are frozen as well. We follow both
# layers of a ReLU network. This one does not start from the theory's scheme. It is cooled from a higher
# temperature to below $T$ and warmed up again.

# %% tags=["hide-input"]
of_relu = vars(sizes.deep_relu)
deep_relu = runs.two_layers(jax.random.fold_in(key, 42), "relu", temperature=T, **(counts | of_relu))
layers = {f"{NAMES[name]} 1/1": (motion, 0) for name, motion in motions.items()}
for name, motion in (("sigmoidal", deep), ("ReLU", deep_relu)):
    layers |= {f"{name} {layer + 1}/2": (motion, layer) for layer in (0, 1)}
both = stacked([deep_relu.order(layer) for layer in (0, 1)])
of_linear = runs.wandering_order(of_relu["num_neurons"], T, of_relu["span"])
order = Finding(
    "A21",
    "permutation order of the class means in both layers of a ReLU network",
    sampled=both,
    over=["layer 1", "layer 2"],
    size=deep_relu.size,
    sampler=deep_relu.local,
    figure="permutation_order",
    panel="Paper A, Discussion",
    control=Control(
        "linear network of one layer, of the same size and time, in theory",
        sampled=np.full(2, of_linear),
    ),
)
order.draw(
    figures.curves,
    "A linear layer looks the more symmetric the longer one watches, and so do two ReLU layers and the first "
    "of two sigmoidal ones. Feature layers of sigmoidal networks and of one ReLU layer do not. Permutation "
    "order of the class means in the first part of each run; 1/2 is the first of two layers; bands: standard "
    "errors. Runs differ in size and in length: the sizes below are those of two ReLU layers.",
    names=list(layers),
    colors=[figures.COLORS[name.split()[0].lower()] for name in layers],
    styles=["-" if "1/1" in name else "--" if "2/2" in name else ":" for name in layers],
    scales=("log", "linear"),
    levels=[0.0, 1.0],
    xlabel="length of the run $t$",
    ylabel="permutation order $q$",
    **runs.order_curves(layers),
)
order.judge(
    above(runs.least_order(of_relu["num_neurons"], T, of_relu["span"]), 3),
    because="in the feature layer a copy of an outlier is cheap; why the first loses its order is not known",
)
feature, of_deep = deep.order(1), (N, sizes.deep.temperature, sizes.deep.span)
Finding(
    "A21",
    "permutation order of the class means in the feature layer of two sigmoidal layers",
    sampled=feature,
    size=deep.size,
    sampler=deep.run.convergence,
    panel="Paper A, Fig. 5",
    control=Control(
        "linear network of one layer, of the same size and time, in theory",
        sampled=np.float64(runs.wandering_order(*of_deep)),
    ),
).judge(above(runs.least_order(*of_deep), 3), because=SMALL_P)
for name, value in zip(("first", "second", "linear"), (*both.value, of_linear), strict=True):
    glue(f"order_{name}", f"{value:.2f}", display=False)

# %% [markdown]
# The order is {glue:text}`order_first` in the first and {glue:text}`order_second` in the second ReLU layer.
# In the second layer roles can change hands because copies of an outlier are cheap there. With one hidden
# layer a second neuron that codes like the outlier has to be silent on every single input of the other
# classes. In a feature layer above another one it has to be silent only on classes as a whole, and so
# copies may come and go ([sparse](sparse.ipynb)). For the first layer we have no explanation. What counts
# as frozen depends on how long one watches. A linear network of this size, followed for this time, has the
# order {glue:text}`order_linear`: neither ReLU layer is shown to be more frozen than that.
#
# ## Barriers
#
# **Question.** What stands in the way?
#
# To leading order neurons are independent, and the readout of one has the density $p(a) \propto e^{P
# E(a)}$. A sigmoidal neuron that changes its code crosses the pass between two maxima, at a rate of order
#
# $$
# k \sim e^{-\Delta F}, \qquad \Delta F = P\,\bigl[E(a_\gamma) - E(a_{\rm pass})\bigr] .
# $$ (eq-dynamics-rate)
#
# Since $P$ stands in the exponent, even a barrier that is low per input becomes insurmountable in a large
# network. To find the passes of the theory's landscape we lay a chain of points from one maximum to the other
# and let it relax onto the ridge between them, its points evenly spaced (the *string method*). Neurons of
# small networks do cross, and tell whether {eq}`eq-dynamics-rate` is right.

# %% tags=["hide-input"]
crossed = runs.crossings(jax.random.fold_in(key, 60), num_samples=100, **vars(sizes.crossing))
lowest = [height.min() for height in crossed.heights]
rates = Finding(
    "A24",
    "β of the rates of code switches, e^−βΔF with the theory's passes ΔF",
    sampled=crossed.slope(),
    theory=np.float64(1),
    size={
        "N": sizes.crossing.num_neurons,
        "P": sizes.crossing.num_neurons,
        "T": list(sizes.crossing.temperatures),
        "chains": sizes.crossing.num_chains,
    },
    sampler=crossed.local,
    figure="crossings",
    panel="Paper A, Discussion",
    control=Control("passes dealt to the ways at random", sampled=crossed.dealt().slope()),
)
rates.draw(
    figures.curves,
    "Neurons change their codes the more rarely the higher theory's pass is. Markers: rate from one code to "
    "another, with the error of the number of events; lines: $e^{-\\Delta F}$ with one fitted attempt rate "
    "for each temperature. Pairs of codes without a change are not drawn, so that markers on the right lie "
    "too high; the fit counts these pairs.",
    scales=("linear", "log"),
    xlabel=r"height of the pass $\Delta F$",
    ylabel="rate per neuron of the code",
    **crossed.curves(),
)
rates.judge(
    standard_errors(3),
    note="diagnosed by energy and training error, within the codes; "
    + "; ".join(
        f"T = {t:g}: lowest pass {low:.1f}, {count.sum()} switches"
        for t, low, count in zip(crossed.temperatures, lowest, crossed.counts, strict=True)
    ),
    because="passes of the order of the thermal energy are no rare events",
)
B = sizes.swaps.temperature
large = np.array([125, 250, 500, 1000])
heights = np.array([runs.passes(int(each), B).lowest for each in large])
hotter = [runs.passes(int(each), B * each / large[1]).lowest for each in large]
grown = statistics.fit_power_law(large, heights)
Finding(
    "A24",
    "exponent in N = P of the lowest pass in theory's free energy, sigmoidal",
    sampled=Estimate(grown.exponent, grown.standard_error),
    theory=np.float64(1),
    size={"N": large.tolist(), "P": large.tolist(), "T": B},
    panel="Paper A, Discussion",
    control=Control(
        "temperature that grows with N", sampled=np.float64(statistics.fit_power_law(large, hotter).exponent)
    ),
).judge(
    absolute(0.25),
    note="half way to the rival √N; passes in units of the thermal energy: "
    + ", ".join(f"{size}: {height:.1f}" for size, height in zip(large, heights, strict=True)),
    because="corrections of relative order log P / P",
)
glue("pass", f"{heights[2]:.0f}", display=False)

# %% [markdown]
# Heights of passes and barriers are in units of the thermal energy. This unit is 1 in the posterior
# $e^{-\mathcal H}$, whatever $T$ is. At the paper's $N = P = 500$ the lowest pass is {glue:text}`pass`
# units high, and a sigmoidal neuron hardly ever crosses it.
#
# The pass sets the rate. It is the lowest one of all pairs of codes, at the temperature $T$, and entropy
# counts. A second computation asks for energy alone, and makes no use of the theory. Its barrier is some ten
# times as high at the same size, for three reasons: the pair of neurons is given and need not be the one with
# the lowest pass, both neurons have to change their codes, and fluctuations do not help. (How much each of
# these makes we have not computed.) We let a network slide down into the nearest minimum of its
# energy {sym}`\mathcal{H}` and exchange two neurons. Then we look for paths of minimal energy between the two
# networks in the space of *all* weights, so that the other neurons are free to make room. We relax several
# first guesses: one neuron follows the other, both move at once, or both go by way of a third code. A path
# may pass deeper minima on its way. Its barrier is its largest climb, and we report the least barrier of all
# paths.

# %% tags=["hide-input"]
shown = sizes.swaps.num_neurons[1]
climbs = {size: runs.sigmoidal_swap(size, B) for size in sizes.swaps.num_neurons}
ways = {
    "other code": climbs[shown],
    "same code": runs.same_code_swap(shown, B),
    "linear": runs.linear_swap(shown, B),
    "ReLU": runs.relu_swap(shown, B),
}
fraction = np.linspace(0, 1, len(ways["linear"].energies))
barriers = np.array([path.barrier for path in climbs.values()])
energy = Finding(
    "A24",
    "least energy barrier of all paths that exchange two sigmoidal neurons (thermal energy: 1)",
    headline=True,
    sampled=barriers,
    over=[f"N = {size}" for size in climbs],
    size={"N": list(climbs), "P": list(climbs), "T": B},
    figure="paths",
    panel="Paper A, Discussion",
    control=Control("two neurons of the same code", sampled=np.full(len(climbs), ways["same code"].barrier)),
)
energy.draw(
    figures.curves,
    "Sigmoidal neurons of different codes climb hills of energy when they are exchanged. Those of the same "
    "code, two neurons of a linear network, and a ReLU outlier and a neuron of the bulk trade places without "
    "energy. The ReLU pair climbs a hill of free energy instead (dotted, theory). One network each.",
    x=fraction,
    values=[
        *(path.energies - path.energies[0] for path in ways.values()),
        runs.handing_on(shown, B, fraction * np.pi / 2),
    ],
    names=[*ways, "ReLU, free energy"],
    colors=[figures.COLORS[name] for name in ("sigmoidal", "control", "linear", "relu", "relu")],
    styles=["-", "-", "-", "-", ":"],
    widths=[1.6, 6.0, 3.6, 1.4, 1.6],  # three of them lie on each other
    xlabel="fraction of the path",
    ylabel=r"$\mathcal{H} - \mathcal{H}_{\rm start}$, or free energy",
)
energy.judge(above(5), because="the barrier is of the order of the thermal energy at the smallest size")
if len(climbs) > 2:
    law = statistics.fit_power_law(list(climbs), barriers)
    cold = [runs.sigmoidal_swap(size, B * size / shown).barrier for size in climbs]
    Finding(
        "A24",
        "exponent in N = P of this barrier",
        sampled=Estimate(law.exponent, law.standard_error),
        theory=np.float64(1),
        size={"N": list(climbs), "P": list(climbs), "T": B},
        panel="Paper A, Discussion",
        control=Control(
            "temperature that grows with N",
            sampled=np.float64(statistics.fit_power_law(list(climbs), cold).exponent),
        ),
    ).judge(absolute(0.25), note="half way to the rival √N", because="a constant adds to what grows with N")

# %% [markdown]
# ### ReLU networks: no energy, only entropy
#
# A ReLU outlier can hand on its role at no cost in energy. A neuron of the bulk grows into an outlier
# parallel to the old one, which shrinks. If one has the readouts $\bar a \cos\theta$ and the preactivations
# $\bar z \cos\theta$ on its class, the other $\bar a \sin\theta$ and $\bar z \sin\theta$, they do together
# what one did, $\bar a\bar z(\cos^2\theta + \sin^2\theta)$, and cost the prior as much, for every $\theta$.
# So there is no barrier in the posterior's *density*. In the same way two outliers can change places, with a
# neuron of the bulk as a go-between.
#
# Paper A states that there is a barrier of energy. The first check below asks for it, as the paper does, and
# does not find it. This refutes the statement for ReLU networks.
#
# What stands in the way is entropy. An outlier is silent on all other classes, and each input on which it
# must be silent costs $\log 2$. Halfway there are two outliers, and the price is paid twice.
#
# None of our runs is long enough to see such an event. *Umbrella sampling* need not wait for it. A spring
# holds $\theta$ near one value after another while all other weights are sampled, and the mean pull on the
# spring gives the slope of the free energy. We compare with the theory of
# [condensation](condensation.ipynb), which gives the free energy of two coding neurons that share the role
# of one, at finite width. So this also tests the density $w(r)$ of a coding neuron, from that chapter.

# %% tags=["hide-input"]
held = {
    size: runs.umbrella(
        jax.random.fold_in(key, 70 + k),
        num_neurons=size,
        temperature=B,
        num_samples=sizes.umbrella.num_samples,
        num_chains=sizes.umbrella.num_chains,
    )
    for k, size in enumerate(sizes.umbrella.num_neurons)
}
Finding(
    "A24",
    "least energy barrier of all paths that exchange a ReLU outlier and a neuron of the bulk",
    sampled=np.float64(ways["ReLU"].barrier),
    size={"N": shown, "P": shown, "T": B},
    panel="Paper A, Discussion",
    control=Control("two neurons of a linear network", sampled=np.float64(ways["linear"].barrier)),
).judge(above(5), because="one outlier hands its part on to another neuron at constant output and energy")
angles = np.linspace(runs.WINDOWS[0], np.pi / 4, 80)
in_theory = [runs.handing_on(size, B, angles) for size in held]
entropy = Finding(
    "A24",
    "free-energy barrier to hand a ReLU outlier on (thermal energy: 1)",
    sampled=stacked([each.barrier for each in held.values()]),
    theory=np.array([free[-1] for free in in_theory]),
    over=[f"N = {size}" for size in held],
    size={"N": list(held), "P": list(held), "T": B, "chains": sizes.umbrella.num_chains},
    figure="umbrella",
    panel="Paper A, Discussion",
    control=Control("the energy alone", theory=np.full(len(held), ways["ReLU"].barrier)),
)
entropy.draw(
    figures.curves,
    "To hand an outlier on costs free energy, the more the larger the network. Markers: umbrella sampling "
    "with standard errors; lines: theory. At zero the second neuron is one of the bulk, at the right end "
    "both share the outlier's part alike.",
    x=angles,
    values=in_theory,
    names=[f"N = {size}" for size in held],
    colors=["#F2B48A", "#E58A50", figures.COLORS["relu"]],
    sampled_x=[each.angles for each in held.values()],
    sampled=[each.free_energy.value for each in held.values()],
    sampled_errors=[each.free_energy.error for each in held.values()],
    xlabel=r"angle $\theta$",
    ylabel="free energy",
)
entropy.judge(
    standard_errors(3),
    note=f"acceptance {min(each.acceptance for each in held.values()):.2f} at the least",
    because="corrections of second order in 1/N",
)

# %% [markdown]
# ## What to take away
#
# - In linear networks each neuron explores the whole posterior, and permutation symmetry is restored. Theory
#   with its $1/N$ correction gives the rate. The paper's mobility makes this twice as fast.
# - In the feature layer of sigmoidal networks, and of ReLU networks with one layer, the symmetry is broken.
#   What stands between the roles is a free-energy barrier proportional to the number of inputs. For sigmoidal
#   neurons it is also a barrier of energy, for ReLU neurons one of entropy alone.
# - Frozen neurons are not still: theory says how far each still moves, to a few per cent.
# - In the layer below, sigmoidal neurons change codes; the scheme and the kernel stay.
#
# **Limits.** A run of finite length bounds rates, it does not prove them zero. The first layer of deep
# networks was followed at one width alone. The deep sigmoidal network starts from the theory's scheme, and
# all its chains start from one network. Their diagnostics say that they agree with each other, not that
# there is no other scheme: in a network quenched from the prior some neurons would sit in other codes, and
# those between two codes would keep crossing. Barriers of energy are the lowest that a few first guesses
# found; lower ones may exist. Runs with the paper's mobility are short and of small networks, since their
# steps have to be $P$ times shorter.
#
# **Reproduced in part.** Neurons of small sigmoidal networks cross their passes now and then. With two ReLU
# layers the order falls within our runs, also in the first layer, which the paper calls frozen; neither layer
# is shown to be more frozen than a linear network.
#
# **Refuted for ReLU networks.** The paper states that a barrier of energy separates solutions that differ
# by a permutation. We find paths without one. What separates the solutions is a barrier of free energy,
# which umbrella sampling measures.
#
# ## Exercises
#
# **1.** Predict first: how does the lowest pass change if the network is twice as large?

# %% tags=["solution"]
for inputs in (60, 120, 240):
    scheme = theory.sigmoidal.solve(tasks.toy(inputs, y_minus=0.5), 0.01)
    print(inputs, f"lowest pass {single_neurons.passes(scheme).lowest:.2f} thermal energies")

# %% [markdown]
# It doubles, and somewhat more while networks are small.
#
# **2.** How long does a linear neuron of a network with $N = P = 360$ remember its readout?

# %% tags=["solution"]
for inputs in (40, 120, 360):
    solution = theory.linear.solve(tasks.toy(inputs, y_minus=0.0), 1, 0.01, width=inputs)
    lag = np.arange(0, 6.0 * inputs)
    left = runs.linear_memory(solution, lag, num_neurons=inputs)
    print(f"N = P = {inputs}: half of it is forgotten after {np.argmax(left < 0.5)}")

# %% [markdown]
# In proportion to $P$.
#
# **3.** Heat the sigmoidal network of the open cell. At which temperature do its neurons stop having codes
# of their own?

# %% tags=["solution"]
for hot in (0.01, 0.05, 0.1, 0.16):
    scheme = theory.sigmoidal.solve(task, hot)
    print(
        hot,
        f"{(scheme.probabilities > 0.01).sum()} codes,",
        f"lowest pass {single_neurons.passes(scheme).lowest:.2f}",
    )

# %% [markdown]
# Above the critical temperature one code is left, and no pass.
