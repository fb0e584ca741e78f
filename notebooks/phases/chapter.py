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
# # The phase diagram of coding schemes
#
# Paper A reports that a sigmoidal network uses four different sets of codes, one after the other, as the
# target $y_-$ of the wrong classes rises from 0.1 to 0.5 {cite:p}`vanmeegen2025`. Such a set of codes is
# called a **scheme** in this chapter; all four are redundant. We see these four as well, in networks that are
# cooled to a low temperature at once. But if their neurons are given a way to change their codes, some of the
# codes vanish, above all those of a single class. They were frozen in while the network cooled. In
# equilibrium at low temperature there are fewer schemes, and one convex problem predicts them.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P of the networks that are quenched and shown; None: the preset's
scan_size: int | None = None  # N = P where many networks are compared
temperature: float | None = None  # T of equilibrium, rescaled as in the primer
num_networks: int | None = None  # independent networks at every place, an even number

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import coding
from coding_schemes.theory import sigmoidal
from companion import figures, presets
from companion.findings import Control, Estimate, Finding, less, spread, stacked
from companion.predicates import above, below, equal, p_value, standard_errors
from companion.publish import publish
from myst_nb import glue
from phases import runs
from phases.runs import COLD, NAMES

given = {"num_neurons": num_neurons, "scan_size": scan_size}
given |= {"temperature": temperature, "num_networks": num_networks}
sizes = presets.sizes(runs, preset, **given)
N, S, T, R = sizes.num_neurons, sizes.scan_size, sizes.temperature, sizes.num_networks
key = jax.random.key(seed)
counts = {"num_networks": R, **vars(sizes.counts)}
wide = {
    y: runs.networks(
        jax.random.fold_in(key, 100 + k),
        size=N,
        y_minus=y,
        temperature=T,
        at_once=COLD,
        num_networks=R,
        **vars(sizes.wide),
    )
    for k, y in enumerate((0.1, 0.2, 0.3, 0.4, 0.5))
}
for name, value in {"N": N, "S": S, "T": T, "networks": R, "cold": COLD}.items():
    glue(name, value, display=False)


# %% tags=["hide-input"]
def two_rows(activations, labels, titles, row_names, codes):
    """Activations over targets, networks as quenched above, as they relaxed below; strips name the codes."""
    figure = figures.activation_matrix(activations, labels, titles, row_names)
    names = np.asarray(codes).reshape(-1, np.asarray(codes).shape[-1])
    seen = [name for name in figures.CODE_COLORS if name in names]
    panels = [axis for axis in figure.axes if axis.get_images()]
    for axis, own in zip(panels, names, strict=False):
        strip = axis.inset_axes((-0.09, 0, 0.07, 1))
        for k, name in enumerate(own):
            strip.axhspan(k - 0.5, k + 0.5, color=figures.CODE_COLORS[name], linewidth=0)
        strip.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(len(own) - 0.5, -0.5))
        strip.spines[:].set_visible(False)
        axis.set(yticks=[])
    patches = [plt.Rectangle((0, 0), 1, 1, color=figures.CODE_COLORS[name], label=name) for name in seen]
    figures.legend_above(figure, handles=patches)
    return figure


labels = wide[0.5].task.labels
drawn = [
    [runs.sorted_by_code(found.quenched.samples, labels) for found in wide.values()],
    [runs.sorted_by_code(found.meeting.prior, labels) for found in wide.values()],
]
publish(
    two_rows,
    "panels",
    caption="Four schemes above, fewer below; codes of a few neurons do not count. Activations of all "
    "neurons, sorted by code, which the strip on the left names. Above: a network from the prior, set to "
    f"T = {COLD:g} at once. Below: the same network at T = {T:g}, after its neurons could change their "
    "codes.",
    tail=f"N = P = {N}. Paper A, supplement E; paper A′, Fig. 5A–D.",
    counterparts=["A supplement E, transitions", "A′ 5a", "A′ 5b", "A′ 5c", "A′ 5d"],
    activations=[[phi for phi, _ in row] for row in drawn],
    labels=labels,
    titles=[f"$y_-$ = {y:g}" for y in wide],
    row_names=["quenched", "free to recode"],
    codes=[[names for _, names in row] for row in drawn],
)

# %% [markdown]
# *Needs:* [redundant coding](redundant.ipynb). *Reading:* 15 minutes.
#
# Try it: which codes does theory predict for three targets at three temperatures?

# %%
from coding_schemes import coding, tasks, theory
from coding_schemes.networks import Network

network = Network(depth=1, width=500, nonlinearity="sigmoidal")
for y_minus in (0.1, 0.3, 0.5):
    for warm in (0.01, 0.05, 0.1):
        found = theory.solve(tasks.toy(500, y_minus=y_minus), network, temperature=warm)
        large = found.codes[found.probabilities > 0.01]
        print(f"y₋ = {y_minus}, T = {warm}:", *map(coding.code_name, large))

# %% [markdown]
# ## The evidence: four schemes
#
# The task is that of the [last chapter](redundant.ipynb): orthogonal inputs, a half of them in class 0 and a
# quarter in each of two others. The target is 1 for an input's own class and $y_-$ for the others. A
# neuron's code is the set of classes on which its mean activation is above one half.
#
# We take networks from the prior and set the temperature to $T =$ {glue:text}`cold` at once. Then Hamiltonian
# Monte Carlo runs until the energy no longer falls. This is a **quench**. Its dynamics is local: weights move
# continuously, without jumps from code to code. A network uses a code if at least 1, 2 or 5 % of its neurons
# hold it; we count with each of these three. At small $y_-$ quenched networks use all six codes with one
# or two classes. As $y_-$ grows, first 0-1-0 and 0-0-1 leave, then 1-0-0 leaves, and at $y_- = \tfrac12$
# 1-1-1 joins. Three changes make four schemes, as paper A reports.

# %% tags=["hide-input"]
quenched = np.array([runs.typical(found.quenched_numbers) for found in wide.values()])
equilibrium = np.array([runs.shares(runs.solve(N, y, COLD)) for y in wide])
line = {"N": N, "P": N, "T": COLD, "y₋": list(wide), "networks": 2 * (R // 2)}
seen = zip(wide, runs.schemes(quenched, 0.02), strict=True)
Finding(
    "A11",
    "number of schemes in quenched networks, y₋ from 0.1 to 0.5",
    headline=True,
    sampled=runs.count_schemes(quenched),
    theory=np.full(3, 4),
    over=[f"codes with {100 * least:g} %" for least in runs.LEAST],
    source="published",
    size=line,
    figure="panels",
    panel="Paper A, supplement E, transitions; Paper A′, Fig. 5a–d",
    control=Control(
        "theory's equilibrium at the same temperature and targets", sampled=runs.count_schemes(equilibrium)
    ),
).judge(
    equal(),
    note="; ".join(f"{' '.join(codes)} at {y}" for y, codes in seen),
    because="which codes freeze in depends on the cooling",
)

# %% [markdown]
# Do the four schemes depend on how fast the readouts move? The speed that a force gives to a weight is its
# mobility. In our runs the readouts' mobility is their prior variance, $1/P$. Paper A's Langevin equation
# gives all weights the same mobility, so that its readouts are $P$ times faster. So we repeat the quench in
# the limit of very fast readouts: after every step they are drawn from their equilibrium, with all other
# weights held.
# The count is four again, with one exception: if a code has to hold 5 % of the neurons to count, four of
# eight seeds at preset `paper` find only three schemes.

# %% tags=["hide-input"]
options = {"num_quench": sizes.wide.num_quench, "num_chains": 2 * (R // 2), "num_samples": 4}
fast = [
    runs.quench(
        jax.random.fold_in(key, 150 + k),
        tasks.toy(S, y_minus=y),
        T,
        at_once=COLD,
        moves=("gibbs",),
        **options,
    )
    for k, y in enumerate(wide)
]
with_fast = np.array([runs.typical(runs.counted(found.samples)[:, -1]) for found in fast])
Finding(
    "A11",
    "the same with readouts in equilibrium at every step",
    sampled=runs.count_schemes(with_fast),
    theory=np.full(3, 4),
    over=[f"codes with {100 * least:g} %" for least in runs.LEAST],
    source="published",
    size=line | {"N": S, "P": S},
    panel="Paper A, supplement E, transitions",
    control=Control(
        "theory's equilibrium at the same temperature and targets",
        sampled=runs.count_schemes(np.array([runs.shares(runs.solve(S, y, COLD)) for y in wide])),
    ),
).judge(equal(), because="which codes freeze in depends on the cooling")

# %% [markdown]
# ## The theory: fewer in equilibrium
#
# **Equilibrium** is what remains after an infinitely long time. Theory predicts it. Neurons are independent
# in a common field $t$, one vector per class, with the density $p(a)\propto e^{PE(a)}$ of
# {eq}`eq-redundant-landscape`; every maximum of $E$ has a code. With $y_c$ for the targets of an input of
# class $c$, the field minimizes
#
# $$
# D(t) = \log\!\int\! e^{PE}\,{\rm d}a + \sum_c n_c \bigl(\tfrac T2 |t_c|^2 - t_c\!\cdot y_c\bigr) ,
# $$ (eq-phases-dual)
#
# which is convex: there is *one* solution for every $T$ and $y_-$. It changes continuously with both, and so
# does $p(a)$. Along $y_-$ at low $T$ codes join with shares that grow from zero, and leave with shares that
# fall to zero. Only where two maxima merge does a code lose a finite share at once: its neurons are where
# they were, but count as those of the other maximum. This happens towards the *critical temperature* $T_c$,
# above which all neurons form one group. It has a section of its own below.

# %% tags=["hide-input"]
fine = np.linspace(0.1, 0.5, 21)
temperatures = (COLD, 0.01, 0.03, 0.05)
in_equilibrium = np.array([runs.peak_schemes(500, fine, t) for t in temperatures])
warmer = np.array(runs.peak_schemes(500, fine, 0.1))
for name, value in {
    "num_cold": in_equilibrium[0],
    "num_most": in_equilibrium.max(),
    "num_warm": warmer,
}.items():
    glue(name, int(value), display=False)
Finding(
    "D6",
    "number of schemes in equilibrium, y₋ from 0.1 to 0.5",
    sampled=in_equilibrium,
    over=[f"T = {t:g}" for t in temperatures],
    size={"P": 500, "T": list(temperatures), "y₋": [0.1, 0.5]},
    panel="Paper A, supplement E, transitions",
    control=Control("T = 0.1, above the critical temperature of y₋ = 1/2", sampled=warmer),
).judge(below(4))

# %% [markdown]
# Between $y_- = 0.1$ and 0.5 equilibrium has {glue:text}`num_cold` schemes at $T =$ {glue:text}`cold` and at
# most {glue:text}`num_most` up to $T = 0.05$. The three codes with two classes are always there. Near $y_- =
# \tfrac12$ 1-1-1 joins them, and near $y_- = 0.1$, at higher temperatures, 1-0-0 does. At $T = 0.1$
# equilibrium has {glue:text}`num_warm` schemes, but not those of the quench: at $y_- = \tfrac12$ only 1-1-1
# is left there, since $T_c$ is passed. So some of the four schemes of a quench are
# not those of equilibrium. Is theory right?
#
# ## The test: let the neurons go
#
# Local dynamics cannot tell us what equilibrium is at low $T$. If all other weights are held, a neuron that
# changes its code shifts the outputs on a whole class, and this costs far too much energy. The cost is gone
# if the readouts can adjust. So the move [`recode`](../book/samplers.md) integrates them out and proposes new
# codes. In each transition of the sampler it tries a tenth of the neurons, one after another.
#
# We let the quenched networks go on with this move, at $T =$ {glue:text}`T`. An equal number of networks is
# **planted**: they start from neurons that are drawn from theory. Where the two kinds agree, the start does
# not matter. The check takes all of them together. It also says whether the two kinds agree; where they do
# not, each has to pass by itself.
#
# (These networks are warmer than the quench was, but that is not what removes 1-0-0 at $y_- = 0.1$. In theory
# this code gains neurons with temperature, as the codes printed at the start of the chapter show.)

# %% tags=["hide-input"]
apart, as_quenched, from_prior, from_theory = (
    np.array([found.deviations(which(found)).max() for found in wide.values()])
    for which in (
        lambda found: found.numbers.mean(1),
        lambda found: found.quenched_numbers,
        lambda found: found.numbers.mean(1)[: R // 2],
        lambda found: found.numbers.mean(1)[R // 2 :],
    )
)
for name, own in {
    "theory": runs.numbers(N, 0.1, T)[0],
    "found": wide[0.1].numbers[: R // 2].mean((0, 1)),
}.items():
    glue(f"{name}_pairs", ", ".join(f"{n:.1f}" for n in own[:3]), display=False)
    glue(f"{name}_single", f"{own[4]:.1f}", display=False)
Finding(
    "D6",
    "distance from theory of networks that could change their codes, quenched and planted, in standard "
    "errors, largest of all codes",
    headline=True,
    sampled=apart,
    over=[f"y₋ = {y:g}" for y in wide],
    size=line | {"T": T},
    sampler=[found.meeting for found in wide.values()],
    starts=(from_prior, from_theory),
    figure="panels",
    panel="Paper A, supplement E, transitions",
    control=Control(
        "the same networks as quenched",
        sampled=as_quenched,
        spared=["y₋ = 0.4", "y₋ = 0.5"],
        because="a quench leaves a few neurons too many in 1-1-1 there, which small networks do not show",
    ),
).judge(below(4), because="some neurons had no time to change, or corrections of second order in 1/N")

# %% [markdown]
# The codes that are active on a single class vanish, 1-0-0 above all. For the other codes the numbers of
# neurons become those of theory. Numbers of neurons are whole, and at low $T$ they hardly fluctuate. Theory
# takes this into account, as in [the chapter before](redundant.ipynb). At $y_- = 0.1$ theory expects
# {glue:text}`theory_pairs` neurons with 1-1-0, 1-0-1 and 0-1-1, and {glue:text}`theory_single` with 1-0-0.
# The networks that were quenched have {glue:text}`found_pairs` and {glue:text}`found_single` on average. (The
# last neuron of a network takes about a hundred transitions to leave 1-0-0.) At $y_- = \tfrac12$ the code
# 1-1-1 stays: it belongs to equilibrium. {numref}`fig-phases-transitions` follows the shares over the whole
# range of targets.

# %% tags=["hide-input"]
places = [(y, T) for y in (*sizes.beside, *sizes.targets)] + [*map(tuple, sizes.others)]
scan = {
    place: runs.networks(jax.random.fold_in(key, k), size=S, y_minus=place[0], temperature=place[1], **counts)
    for k, place in enumerate(places)
}
on_line = {y: found for (y, t), found in scan.items() if t == T}
fine = np.linspace(-0.5, 0.7, 49)
curves = np.array([runs.shares(solution) for solution in runs.over_targets(S, fine, T)])
sampled = np.array([found.free_shares for found in on_line.values()])  # y₋, value and error, code
drawn = np.maximum(curves.max(0), sampled[:, 0].max(0)) > 0.015
publish(
    figures.curves,
    "transitions",
    caption="Codes join and leave as the target of the wrong classes rises, each by a share that grows from "
    "zero. Lines: theory (1-1-0 lies under 1-0-1, 0-1-0 under 0-0-1); markers: networks in equilibrium, with "
    "standard errors.",
    tail=f"N = P = {S}, T = {T:g}, {2 * (R // 2)} networks. Paper A, supplement E.",
    counterparts=["A supplement E, transitions"],
    x=fine,
    values=curves.T[drawn],
    names=np.array(NAMES)[drawn],
    sampled_x=[*on_line],
    sampled=sampled[:, 0].T[drawn],
    sampled_errors=sampled[:, 1].T[drawn],
    xlabel=r"target of the other classes $y_-$",
    ylabel="fraction of neurons",
)

# %% [markdown]
# ## The mechanism: what freezes, and when
#
# Neurons take a code while the outputs are still far from the targets, and cannot leave it later. For 1-0-0
# there is more to say. We cool networks at $y_- = 0.1$ in steps and follow their codes. Groups form below a
# critical temperature. Just below it 1-0-0 belongs to the *equilibrium* scheme, since the largest class is
# the first to be told apart. At lower temperatures its share should fall to nearly nothing, but by then
# neurons no longer change their codes. (0-1-0 and 0-0-1 are different: at $y_- = 0.1$ equilibrium uses them
# at no temperature. They appear in networks that are cooled at once.)

# %% tags=["hide-input"]
steps = np.geomspace(runs.HOT, T, sizes.cooling.num_temperatures)
cooled = runs.cool(
    jax.random.fold_in(key, 200),
    size=S,
    temperatures=steps,
    num_networks=R,
    num_transitions=sizes.cooling.num_transitions,
)
fine = np.geomspace(steps.max(), steps.min(), 31)
curves = np.array([runs.shares(runs.solve(S, 0.1, float(t))) for t in fine])
drawn = np.maximum(curves.max(0), cooled.mean(1).max(0)) > 0.015
publish(
    figures.curves,
    "cooling",
    caption="The frozen code 1-0-0 is one of a higher temperature. Networks cooled step by step (markers, "
    "from right to left, with the scatter over networks) follow the equilibrium shares (lines) near the "
    "critical temperature, and then keep 1-0-0, which equilibrium gives up. Far above it the activations of "
    "all neurons lie close to one half, and their codes are chance.",
    tail=f"y₋ = 0.1, N = P = {S}, critical temperature {runs.critical_temperature(S, 0.1):.2f}, "
    f"{R} networks, {sizes.cooling.num_transitions} trajectories at each T. In none of the papers.",
    x=fine,
    values=curves.T[drawn],
    names=np.array(NAMES)[drawn],
    sampled_x=steps,
    sampled=cooled.mean(1).T[drawn],
    sampled_errors=cooled.std(1, ddof=1).T[drawn],
    xlabel="temperature $T$",
    ylabel="fraction of neurons",
    scales=("log", "linear"),
)

# %% [markdown]
# How slowly would one have to cool? We cool networks under Langevin dynamics from $T = 0.3$ to 0.01 within a
# time $\tau$, of which each of 32 temperatures, in a geometric series, takes as much. Then we count the
# neurons that hold a code of one class, beyond those of equilibrium: the *frozen share*. The hidden weights
# have mobility one, which sets the unit of time. Readouts have either their prior variance $1/P$ as mobility,
# or the same mobility as all other weights, as in paper A. We leave out times so short that the share bends
# towards that of a quench.

# %% tags=["hide-input"]
LAWS = {"prior variance": "readouts of mobility 1/P", "unit": "one mobility for all, as in paper A"}
times = {
    "prior variance": np.array(sizes.law.slow_times),
    "unit": np.array(sizes.law.fast_times),
}
all_times = np.union1d(*times.values())
M, count = sizes.law.num_neurons, sizes.law.num_networks
followed = {
    mobility: runs.frozen_share(
        runs.cooled_in(
            jax.random.fold_in(key, 500 + k), each, num_neurons=M, num_networks=count, mobility=mobility
        ),
        M,
    )
    for k, (mobility, each) in enumerate(times.items())
}
at_once = runs.frozen_share(
    runs.cooled_in(
        jax.random.fold_in(key, 510),
        times["prior variance"],
        num_neurons=M,
        num_networks=count,
        mobility="prior variance",
        start=0.01,
    ),
    M,
)
laws = {mobility: runs.law(times[mobility], shares) for mobility, shares in followed.items()}
halves = [
    runs.law(times["prior variance"], at_once[:, half]) for half in (slice(0, None, 2), slice(1, None, 2))
]
stays = runs.law(times["prior variance"], at_once).exponent
exponential = [runs.law(each, followed[mobility], exponential=True) for mobility, each in times.items()]
law_size = {"N": M, "P": M, "T": 0.01, "y₋": 0.1, "networks": count}
power_law = Finding(
    "D13",
    "p-value of power laws of the frozen share in the cooling time, at both mobilities together",
    headline=True,
    sampled=runs.pvalue(list(laws.values())),
    size=law_size,
    figure="quench_law",
    control=Control("exponential laws", sampled=runs.pvalue(exponential)),
)
power_law.draw(
    figures.scaling_plot,
    "The slower the cooling, the fewer neurons are frozen in a code of one class, and ten times the time "
    "buys a factor of two or so. Markers: share of neurons with such a code beyond that of equilibrium, "
    "with standard errors; lines: power laws fitted to them.",
    sizes=all_times,
    values=[runs.at_times(all_times, times[one], spread(f, axis=1).value) for one, f in followed.items()],
    errors=[runs.at_times(all_times, times[one], spread(f, axis=1).error) for one, f in followed.items()],
    exponents=[laws[mobility].exponent.value for mobility in LAWS],
    prefactors=[laws[mobility].prefactor for mobility in LAWS],
    names=list(LAWS.values()),
    xlabel=r"cooling time $\tau$",
    ylabel="frozen share",
)
power_law.judge(
    p_value(0.01), because="the share bends away from a power law at the shortest or longest times"
)
Finding(
    "D13",
    "exponent of the frozen share in the cooling time, less that of networks at T = 0.01 from the start",
    sampled=less(stacked([laws[mobility].exponent for mobility in LAWS]), stays),
    over=list(LAWS.values()),
    size=law_size,
    figure="quench_law",
    control=Control(
        "these networks, one half less the other",
        sampled=less(stacked([halves[0].exponent]), halves[1].exponent),
    ),
).judge(below(0, 3), because="too few neurons to see it")
for name, mobility in {"slow": "prior variance", "unit": "unit"}.items():
    value, error = laws[mobility].exponent
    glue(f"exponent_{name}", f"{value:.2f} ± {error:.2f}".replace("-", "−"), display=False)
glue("exponent_none", f"{stays.value:.2f} ± {stays.error:.2f}".replace("-", "−"), display=False)

# %% [markdown]
# Over the times shown the frozen share falls as a power of the cooling time. (In a trial with times up to
# 3,000 it fell more slowly at the end, so that the law need not go on.) The exponent is
# {glue:text}`exponent_slow` with slow readouts, of mobility $1/P$, and {glue:text}`exponent_unit` with the
# fast ones of paper A. Faster readouts leave fewer frozen neurons within the same time, and the exponent is
# similar. Codes freeze because a neuron changes its code by a jump over a barrier, and jumps stop when their
# waiting time exceeds the time that is left. Why this gives a power we have not derived. Cooling is needed,
# not time alone. Networks that are at $T = 0.01$ from the start are frozen at once, and how long one waits
# then matters little (exponent {glue:text}`exponent_none`). The check asks that with cooling the exponent is
# more negative than this one, and shows the difference.
#
# ## The price
#
# How improbable is a frozen network? Theory has the **free energy** $-N\min D$ also for a network in which
# the number of neurons with each code is held fixed: this is again a convex problem. Numbers with a free
# energy $\Delta F$ above the lowest one are $e^{\Delta F}$ times rarer than the best ones. In equilibrium
# chance makes $\Delta F$ about half a nat for each number that is free to vary, together about one.
#
# We compare four ways to $T =$ {glue:text}`T`:
#
# - *Quenched* networks are cooled fast in this section, though not at once as above.
# - *Slow* ones are cooled several times more slowly.
# - *Planted* ones start in theory's scheme and have local dynamics only.
# - *Recode* networks are sampled with the move that changes codes.

# %% tags=["hide-input"]
WAYS = ("quenched", "slow", "planted", "recode")
reached = {
    y: runs.ways(jax.random.fold_in(key, 300), scan[y, T], num_slow=sizes.slow.num_warmup)
    for y in sizes.targets
}
publish(
    figures.bars,
    "ways",
    caption="Networks that are cooled fast have too many neurons in some codes: those of "
    "one class at low $y_-$, 1-1-1 near one half. Slowly cooled ones have fewer, planted and recoded ones as "
    "many as theory. Shares of the codes, mean over networks.",
    tail=f"N = P = {S}, T = {T:g}, {2 * (R // 2)} networks. In none of the papers.",
    values=[
        [*(by_way.numbers(way).mean(0) / S for way in WAYS), runs.numbers(S, y, T)[0] / S]
        for y, by_way in reached.items()
    ],
    names=NAMES,
    groups=[*WAYS, "theory"],
    titles=[f"$y_-$ = {y:g}" for y in reached],
    stacked=True,
)

# %% tags=["hide-input"]
lost = {
    way: np.array([[runs.lost(own, y, T) for own in one.numbers(way)] for y, one in reached.items()])
    for way in WAYS
}
ways_size = {"N": S, "P": S, "T": T, "y₋": list(sizes.targets), "networks": 2 * (R // 2)}
meetings = [scan[y, T].meeting for y in sizes.targets]
price = Finding(
    "D6",
    "free energy of quenched networks above that of recoded ones, in nats",
    sampled=runs.difference(lost["quenched"], lost["recode"]),
    over=[f"y₋ = {y:g}" for y in sizes.targets],
    size=ways_size,
    sampler=meetings,
    starts=tuple(
        runs.difference(lost["quenched"], lost["recode"][:, half])
        for half in (slice(R // 2), slice(R // 2, None))
    ),
    figure="free_energy",
    control=Control("planted networks", sampled=runs.difference(lost["planted"], lost["recode"]).value),
)
price.draw(
    figures.bars,
    "A quench costs far more than thermal fluctuations do. Free energy of one network above that of "
    "equilibrium, in theory with the numbers of neurons that were found. Ten nats more are a factor of "
    "$e^{-10}$ in probability. Zero is good to about one nat: theory holds codes to leading order in $n_c$, "
    "so that a bar may end below it.",
    values=[[[lost[way][k].mean() for way in WAYS] for k in range(len(reached))]],
    errors=[[[spread(lost[way][k]).error for way in WAYS] for k in range(len(reached))]],
    groups=[f"$y_-$ = {y:g}" for y in sizes.targets],
    names=WAYS,
    colors=["#6E6E6E", "#B0B0B0", "#A5DAC6", figures.COLORS["sigmoidal"]],
    ylabel="free energy lost (nats)",
)
price.judge(above(0, 3), because="at this target and size few neurons are frozen")

# %% [markdown]
# ## The critical temperature
#
# Above which temperature are there no separate groups? In theory it is $T_c$, at which the readouts' density
# loses its second maximum. (A maximum counts if it holds one per cent of the neurons.) For $y_- = \tfrac12$
# and paper A's $P = 500$ it is {glue:text}`critical:.3f`.
#
# Samples show $T_c$ in two ways, without any reference to codes. First, let every neuron climb the density of
# the sampled readouts: below $T_c$ the neurons arrive in several places, above it in one. (Below $T_c$ the
# number of places is only rough: noise makes more groups than theory has.) Second, the variance of
# the readouts over the neurons of a large network falls to almost nothing at $T_c$.

# %% tags=["hide-input"]
W, warm = sizes.warm_size, np.array(sizes.warm)
heated = [
    runs.networks(
        jax.random.fold_in(key, 600 + k),
        size=W,
        y_minus=0.5,
        temperature=float(t),
        num_networks=R,
        **vars(sizes.warm_counts),
    )
    for k, t in enumerate(warm)
]
found_groups = [runs.groups(found) for found in heated]
modes = np.array([one.number for one in found_groups])
critical = runs.critical_temperature(500, 0.5)
glue("critical", float(critical), display=False)
warm_size = {"N": W, "P": W, "y₋": 0.5, "networks": 2 * (R // 2)}
panel = "Paper A, supplement E, critical temperature"
hot, cold = slice(-2, None), slice(0, 2)
Finding(
    "A13",
    "number of groups of neurons above the critical temperature",
    headline=True,
    sampled=modes[hot],
    theory=np.array([runs.solve(W, 0.5, float(t)).num_peaks() for t in warm[hot]]),
    over=[f"T = {t:g}" for t in warm[hot]],
    size=warm_size | {"T": list(warm[hot])},
    sampler=[found.meeting for found in heated[hot]],
    figure="critical_temperature",
    panel=panel,
    control=Control(f"T = {warm[0]:g} and {warm[1]:g}, below it", sampled=modes[cold]),
).judge(equal(), because="groups overlap just above the critical temperature")


# %% tags=["hide-input"]
def critical_plot(extrapolated, **arrays):
    """Variance of the readouts over temperature, theory and samples, and where it would vanish."""
    figure = figures.curves(**arrays)
    axis, (place, error) = figure.axes[0], np.asarray(extrapolated)
    axis.errorbar(place, 0, xerr=error, fmt="D", color=figures.COLORS["theory"], capsize=4, clip_on=False)
    axis.set(ylim=(0, None), xlim=(float(np.min(arrays["x"])), float(np.max(arrays["x"]))))
    return figure


each = np.array([runs.readout_variance(found) for found in heated])  # (T, networks)
measured = spread(each, axis=1)
scatter = np.array([runs.variance_scatter(W, 0.5, float(t)) for t in warm]) / each.shape[1] ** 0.5
predicted, neighbor = (
    np.array([runs.predicted_variance(W, y, float(t), width) for t in warm])
    for y, width in ((0.5, W), (0.4, np.inf))
)
below_it = slice(0, sizes.num_below)
zero, theory_zero = (
    runs.zero(warm[below_it], values) for values in (each[below_it], predicted[below_it, None])
)
variance = Finding(
    "A13",
    "variance of the readouts over the neurons of one network",
    sampled=Estimate(measured.value, np.maximum(measured.error, scatter)),
    theory=predicted,
    over=[f"T = {t:g}" for t in warm],
    size=warm_size | {"T": list(warm)},
    sampler=[found.meeting for found in heated],
    figure="critical_temperature",
    panel=panel,
    control=Control("theory at y₋ = 0.4", theory=neighbor),
)
fine = np.linspace(0.02, 0.11, 19)
variance.draw(
    critical_plot,
    "In a large network the variance of the readouts falls to almost nothing at the critical temperature. "
    "Lines: theory at two sizes, with the $T_c$ of each (dotted); markers: sampled, with standard errors; "
    "diamond: where the colder markers, extrapolated, reach zero.",
    x=fine,
    values=[[runs.predicted_variance(size, 0.5, float(t)) for t in fine] for size in (60, 500)],
    names=[f"theory, P = {size}" for size in (60, 500)],
    colors=[figures.COLORS["lazy"], figures.COLORS["sigmoidal"]],
    marks=[runs.critical_temperature(size, 0.5) for size in (60, 500)],
    sampled_x=warm,
    sampled=[measured.value] if W < 280 else [np.full(len(warm), np.nan), measured.value],
    sampled_errors=[measured.error] if W < 280 else [measured.error, measured.error],
    extrapolated=[zero.temperature, zero.error],
    xlabel="temperature $T$",
    ylabel=r"variance of readouts, tr Cov$(a)$",
)
variance.judge(standard_errors(4), because="corrections of second order in 1/N, large where groups merge")
convention = critical - runs.critical_temperature(500, 0.5, 0.05)
Finding(
    "A13",
    "critical temperature extrapolated from samples; theory at P = 500",
    sampled=Estimate(zero.temperature, float(np.hypot(zero.error, convention))),
    theory=critical,
    size=warm_size | {"T": list(warm[below_it])},
    sampler=[found.meeting for found in heated[below_it]],
    figure="critical_temperature",
    panel=panel,
    control=Control("theory at y₋ = 0.3", theory=np.float64(runs.critical_temperature(500, 0.3))),
).judge(
    standard_errors(2),
    note=f"error: networks {zero.network_error:.2g}, extrapolation {zero.extrapolation_error:.2g}, what "
    f"counts as a peak, 1 or 5 % of the neurons, {convention:.2g}; the same extrapolation of theory at "
    f"N = {W}: {theory_zero.temperature:.4f}",
    because="the variance bends more than a parabola does",
)

# %% [markdown]
# Small networks can tell us the $T_c$ of large ones, to some per cent. They lose their own groups at a lower
# temperature, since their maxima are broader. But extrapolate the variance from colder networks to zero: the
# temperature where it vanishes hardly depends on the size. Theory's own curve, extrapolated in the same way,
# gives a $T_c$ that is 7 % too high for $P = 60$, and 4 % for $P = 500$.
#
# Are codes really frozen at $T =$ {glue:text}`T`? The last check counts how often a neuron would change its
# code within the time of another quench: less than once. The control counts the same just below $T_c$, where
# equilibrium is reached quickly.

# %% tags=["hide-input"]
again = sizes.counts.num_quench  # trajectories of another quench
hottest = heated[sizes.num_below - 1]  # far above T_c all neurons have one code, and keep it
Finding(
    "D6",
    "code changes that a quenched neuron would make within the time of another quench",
    sampled=stacked([runs.code_changes(one.quenched, again) for one in reached.values()]),
    over=[f"y₋ = {y:g}" for y in sizes.targets],
    size=ways_size,
    control=Control(
        f"local dynamics at T = {warm[sizes.num_below - 1]:g}, y₋ = 1/2, N = {W}",
        sampled=runs.code_changes(hottest.quenched.samples, again),
    ),
).judge(below(1, 3), because="at this size and temperature some neurons still cross")

# %% [markdown]
# ## The map
#
# Theory's answers for all targets and temperatures make a map. Near $y_- = -\tfrac12$ six codes coexist: the
# targets sum to nearly zero there, and a code and its opposite serve equally well.

# %% tags=["hide-input"]
warm_places = {found.place: found for found in heated}
everywhere = {place: found for place, found in (scan | warm_places).items() if place[0] >= 0}
many = [*everywhere.values()]
alike = [
    f"y₋ = {y:g}, T = {t:g}" for (y, t), found in everywhere.items() if found.change(0.1) < 1
]  # theory itself hardly changes there
mapped = Finding(
    "D1",
    "distance of sampled numbers of neurons from theory in standard errors, largest of all codes",
    headline=True,
    sampled=runs.farthest(many),
    over=[f"y₋ = {y:g}, T = {t:g}" for y, t in everywhere],
    size={"N": sorted({S, W}), "places": len(many), "networks": 2 * (R // 2)},
    sampler=[found.meeting for found in many],
    starts=tuple(runs.farthest(many, half=half) for half in (slice(R // 2), slice(R // 2, None))),
    figure="phase_diagram",
    panel="Paper A, supplement E, critical temperature",
    control=Control(
        "theory at y₋ + 0.1",
        sampled=runs.farthest(many, 0.1),
        spared=alike,
        because="theory's numbers differ by less than one neuron there",
    ),
)
all_groups = [runs.group_shares(runs.groups(found)) for found in scan.values()]
all_groups += [runs.group_shares(one) for one in found_groups]
mapped.draw(
    figures.phase_map,
    "Six codes at the lowest targets, three or four at higher ones. Their number falls towards the critical "
    "temperature (line), above which all neurons form a single group. Color: effective number of codes, "
    "$\\exp(-\\sum_\\gamma P_\\gamma \\log P_\\gamma)$, each group of neurons in theory taken as one, at P = "
    "100; circles, on the same scale: groups found in sampled networks.",
    points=[*scan, *warm_places],
    point_values=runs.effective_number(np.array(all_groups)),
    **runs.atlas_map(),
)
mapped.judge(below(4), because="corrections of second order in 1/N")
below_zero = {place: found for place, found in scan.items() if place[0] < 0}
if below_zero:
    few = [*below_zero.values()]
    Finding(
        "D1",
        "the same at negative y₋",
        sampled=runs.farthest(few),
        over=[f"y₋ = {y:g}, T = {t:g}" for y, t in below_zero],
        size={"N": S, "P": S, "networks": 2 * (R // 2)},
        sampler=[found.meeting for found in few],
        starts=tuple(runs.farthest(few, half=half) for half in (slice(R // 2), slice(R // 2, None))),
        figure="phase_diagram",
        control=Control(
            "theory at y₋ + 0.1",
            sampled=runs.farthest(few, 0.1),
        ),
    ).judge(below(4), because="six codes coexist there, and their numbers move slowly")

# %% [markdown]
# The circles count groups, as the colors do. The check below counts codes instead: how many neurons are on
# for which classes. Groups and codes differ near $T_c$, where the activations of one group may lie on both
# sides of one half. [The explorer](../book/explorer.md) solves targets, temperatures and class ratios of your
# own in your browser; its solver agrees with this one.

# %% tags=["hide-input"]
explored = runs.explored()
Finding(
    "D4",
    "largest difference of a share between the explorer and the stored atlas",
    headline=True,
    sampled=explored.off.max(),
    size={"P": 100, "tasks": explored.off.size},
    stored="data/results/explorer.json",
    control=Control("the atlas at the next temperature", sampled=explored.next_off.max()),
).judge(
    below(0.01),
    note=f"in {np.sum(explored.off < 1e-3)} tasks below 0.001; elsewhere two peaks share a cell",
    because="the page's lattice is too coarse",
)
Finding(
    "D4",
    "the same at tasks off the grid, with other class ratios, against theory",
    sampled=np.abs(explored.elsewhere - explored.theory).max(1),
    size={"P": explored.num_inputs},
    stored="data/results/explorer.json",
    control=Control(
        "theory at twice the temperature", sampled=np.abs(explored.elsewhere - explored.warmer).max(1)
    ),
).judge(below(1e-3), because="the page's lattice is too coarse")

# %% [markdown]
# ## More classes
#
# Three classes allow seven codes that answer to at least one class, ten classes allow 1,023.
# How many are used? We solve $m$ classes of equal size at $y_- = 0.3$. A code counts if it holds half a
# neuron per network or more. By symmetry, if one code is used, so are all codes that answer to as many
# classes. So the number of codes is a binomial coefficient or the sum of a few. At $T = 0.01$ neurons answer
# to 60 to 70 % of the classes. All sets of that size are used, and for some $m$ those of two neighboring
# sizes. With eight classes these are the sets of five: 56 codes, out of 255.
#
# We sample four classes at $T = 0.03$, and at preset `paper` eight classes at $T = 0.06$. So warm, neurons
# answer to more of them. Theory has the sets of six, of seven and of all eight: $28 + 8 + 1 = 37$ codes.
# Eight classes at $T = 0.01$ are out of reach: fewer than one neuron in a thousand changes its code in twelve
# transitions, although each of them tries a tenth of the neurons. So networks do not forget where they began.
# For many classes theory takes every maximum in Laplace's approximation. Where that does not converge, no
# point is drawn.

# %% tags=["hide-input"]
m, own_T = sizes.classes.num_classes, sizes.classes.temperature
class_numbers = range(2, sizes.classes.most + 1)
used = {t: [runs.in_theory(c, t).number for c in class_numbers] for t in dict.fromkeys((own_T, 0.01))}
drawn_at = {name: value for name, value in vars(sizes.classes).items() if name != "most"}
many, many_codes = runs.many_networks(jax.random.fold_in(key, 700), **drawn_at)
expected = runs.in_theory(m, own_T)
other_T = 0.01 if own_T > 0.03 else 0.06
other = Control(f"theory at T = {other_T:g}", theory=np.float64(runs.in_theory(m, other_T).number))
noise = runs.prior_codes(jax.random.fold_in(key, 710), many, len(many_codes))
number_found = np.array(len(runs.used_codes(many_codes)))
classes = Finding(
    "D12",
    f"number of codes of {m} classes",
    headline=True,
    sampled=number_found,
    theory=np.float64(expected.number),
    size={
        "m": m,
        "N": many.width,
        "P": many.task.num_inputs,
        "T": own_T,
        "y₋": 0.3,
        "networks": len(many_codes),
    },
    sampler=many.meeting,
    starts=tuple(np.array(len(runs.used_codes(half))) for half in np.split(many_codes, 2)),
    figure="many_classes",
    control=other,
)
classes.draw(
    figures.curves,
    "With many classes only a small part of all codes is used. Lines: theory, with a step up where sets of "
    "several sizes are in use; none where it did not converge; marker: sampled.",
    x=[*class_numbers],
    values=[*used.values(), [2**c - 1 for c in class_numbers]],
    names=[*(f"theory, T = {t:g}" for t in used), "all codes"],
    styles=[*["-", "--"][: len(used)], ":"],
    colors=[*[figures.COLORS["sigmoidal"], figures.COLORS["theory"]][: len(used)], figures.COLORS["control"]],
    scales=("linear", "log"),
    sampled_x=[m],
    sampled=[[float(number_found)]],
    xticks=[*class_numbers],
    xlabel="number of classes $m$",
    ylabel="number of codes",
)
classes.judge(equal(), because="some codes hold less than a neuron")
Finding(
    "D12",
    f"number of the {m} classes that a neuron answers to, mean",
    sampled=runs.answered(many_codes),
    theory=np.float64(expected.answered),
    size=classes.size,
    sampler=many.meeting,
    starts=tuple(runs.answered(half) for half in np.split(many_codes, 2)),
    control=Control("networks drawn from the prior", sampled=runs.answered(noise)),
).judge(
    standard_errors(3),
    because="networks from the prior have not given up all the codes that fast cooling left them",
)

# %% [markdown]
# ## What to take away
#
# - One convex problem says which codes a network has in equilibrium, with which shares, over targets and
#   temperatures. Samples in equilibrium agree.
# - Along $y_-$ codes join and leave with shares that grow from zero. Above $T_c$ one group of neurons is
#   left.
# - A quench shows four schemes between $y_- = 0.1$ and 0.5; equilibrium at low temperature has fewer. Codes
#   of one class are frozen in: neurons took them on the way down, and can no longer change. For 1-0-0 this
#   way leads through an equilibrium of higher temperature. Near $y_- = \tfrac12$ networks that are cooled
#   fast also keep too many neurons in 1-1-1. Frozen codes cost free energy, and slower cooling removes them
#   only slowly.
#
# **Limits.** Theory takes $N\to\infty$ at finite $P$, with the $1/N$ correction for numbers of neurons, which
# are whole. The move `recode` needs orthogonal inputs and one hidden layer. Preset `quick` leaves out the
# side of the map below $y_- = 0$. The power law of the frozen share is a fit over one or two decades of
# cooling time. In a trial with cooling times up to 3,000 the share fell more slowly at the end. For eight
# classes at $T = 0.01$ the samples do not decide the number of codes. Theory has 56, and planted networks
# kept these. Networks from the prior kept two or three more, one of which was gone after twice as many
# transitions.
#
# Paper A does not claim equilibrium for its four schemes. The authors' sampled weights are public (figshare,
# doi 10.6084/m9.figshare.26539129). They would show which codes each of the four schemes holds. We could not
# download them.
#
# ## Exercises
#
# **1.** Predict first: at which $y_-$ does 1-1-1 join at $T = 0.01$?

# %% tags=["solution"]
for y_minus in (0.4, 0.45, 0.5, 0.6):
    found = theory.solve(tasks.toy(60, y_minus=y_minus), network, temperature=0.01)
    print(y_minus, f"{found.occupancy([1, 1, 1]):.3f}")

# %% [markdown]
# Between 0.4 and 0.45, with a share that grows from zero.
#
# **2.** At $y_- = 0.1$ and $T = 0.05$ one of the codes answers to a single class, class 0. Is this because
# class 0 is the largest? Make another class the largest.

# %% tags=["solution"]
for class_ratios in ((0.5, 0.25, 0.25), (0.2, 0.6, 0.2)):
    uneven = tasks.toy(60, class_ratios=class_ratios, y_minus=0.1)
    found = theory.solve(uneven, network, temperature=0.05)
    print(class_ratios, {coding.code_name(c): f"{found.occupancy(c):.2f}" for c in found.codes})

# %% [markdown]
# Yes: the largest class is told apart first, whichever it is.
#
# **3.** What does it cost to hold a tenth of the neurons at 1-0-0, at $y_- = 0.1$ and at 0.5?

# %% tags=["solution"]
for y_minus in (0.1, 0.5):
    own = tasks.toy(60, y_minus=y_minus)
    free = sigmoidal.solve(own, 0.01)
    some = [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0]]
    costs = sigmoidal.solve(own, 0.01, codes=some, occupancies=[0.3, 0.3, 0.3, 0.1])
    print(y_minus, f"{60 * (costs.free_energy - free.free_energy):.1f} nats")

# %% [markdown]
# Far more than the one nat or so of thermal fluctuations. It costs less at $y_- = 0.1$, where the code does
# freeze in.
