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
# **At a glance.** Which codes a sigmoidal network uses depends on what it is asked for, the target $y_-$ of
# the wrong classes, and on the temperature $T$. In equilibrium codes join and leave one by one, with shares
# that grow from zero, until above a critical temperature a single code is left; theory predicts the whole
# map. A network that is cooled quickly has other codes as well: these are **frozen**, and go as soon as
# neurons are given a way to change their codes.
#
# *Did not come out:* that the four schemes which paper A reports between $y_- = 0.1$ and 0.5 are phases. They
# are what a quench leaves; equilibrium has {glue:text}`num_equilibrium` there. *Needs:* [redundant
# coding](redundant.ipynb). *Reading:* 11 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P of the networks that are quenched and shown; None: the preset's
scan_size: int | None = None  # N = P where many networks are compared
temperature: float | None = None  # T, rescaled as in the primer
num_networks: int | None = None  # independent networks at every point of the scan, an even number

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from companion import figures, presets
from companion.checks import check, equal
from experiments import phase_checks, phases
from experiments.phases import equilibrate
from myst_nb import glue

quick = {"num_neurons": 60, "scan_size": 60, "num_networks": 8, "temperature": 0.01}
quick |= {"targets": (0.1, 0.3, 0.5), "beside": (0.65,), "others": ((0.1, 0.06), (0.25, 0.1))}
quick |= {"counts": (60, 16, 16), "wide": (8, (100, 48, 16)), "cooling": (10, 24), "slow": 360}
quick |= {"warm": (0.03, 0.04, 0.05, 0.06), "exchange": None}
paper = quick | {"num_neurons": 500, "scan_size": 120, "wide": (2, (100, 48, 12))}
paper |= {"targets": (0.1, 0.2, 0.4, 0.5), "counts": (64, 24, 24), "slow": 240}
paper |= {"beside": (-0.5, 0.0, 0.65), "others": ((-0.25, 0.03), (0.1, 0.06), (0.25, 0.1))}
paper |= {"exchange": (16, 40, 0.15, 61)}
given = {"num_neurons": num_neurons, "scan_size": scan_size}
given |= {"temperature": temperature, "num_networks": num_networks}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, S, T, networks = settings.num_neurons, settings.scan_size, settings.temperature, settings.num_networks
targets, key = settings.targets, jax.random.key(seed)
for name, value in {"N": N, "S": S, "T": T, "networks": networks}.items():
    glue(name, value, display=False)

# %% tags=["hide-input"]
HOT = (0.1,)  # above the critical temperature of y₋ = 0.5
places = [(y, T) for y in (*settings.beside, *targets)]
places += [(0.5, t) for t in (*settings.warm, *HOT)] + [*settings.others]
scan = {
    place: equilibrate(jax.random.fold_in(key, k), S, *place, networks, settings.counts)
    for k, place in enumerate(places)
}

# %% tags=["hide-input"]
figures.publish(**phase_checks.phase_map(scan))

# %% [markdown]
# ## What theory says
#
# In the [last chapter](redundant.ipynb) a wide network is a population of independent neurons in a common
# field $t$, one vector $t_c$ per class. With $g(s) = \langle e^{s\phi(z)}\rangle$ over
# $z\sim\mathcal N(0,1)$, and $n_c$ of the $P$ inputs in class $c$,
#
# $$
# \begin{gathered}
# P(a) \propto e^{P E(a)}, \\
# E(a) = -\tfrac 12 |a|^2 + \tfrac1P \sum_c n_c \log g(a\cdot t_c), \\
# D(t) = \log\!\int\! e^{PE}\,{\rm d}a + \sum_c n_c \bigl(\tfrac T2 |t_c|^2 - t_c\!\cdot y_c\bigr) .
# \end{gathered}
# $$ (eq-phases-dual)
#
# Every maximum of $E$ has a code. The field minimizes $D$, which is convex: there is *one* solution for every
# $T$ and $y_-$, so that shares of neurons change continuously, and $-N \min D$ is the free energy of the
# network. The same problem with neurons *held* to given codes in given shares is convex, too; the difference
# of the two free energies is what a network loses by being frozen there.
#
# ## Codes join and leave one by one
#
# **Experiment.** At every circle of the map we sample {glue:text}`networks` networks, $N = P =$
# {glue:text}`S`. First they are *quenched*: annealed from the prior within some eighty trajectories of
# Hamiltonian Monte Carlo, local dynamics alone. Then neurons may change their codes, by the move `recode` of
# [our samplers](../book/samplers.md), half of the networks starting where the quench ended and half planted
# in the theory's scheme. Where the two halves meet we speak of equilibrium. A neuron's code is the set of
# classes on which its mean activation is above ½, in theory and in samples.

# %%
line = np.linspace(-0.5, 0.7, 49)
curves = np.array([phases.shares(solution) for solution in phases.over_targets(S, line, T)])

# %% tags=["hide-input"]
figures.publish(**phase_checks.transitions(line, curves, scan, T))
phase_checks.check_shares("A11", "shares over y₋", {p: e for p, e in scan.items() if p[1] == T and p[0] >= 0})

# %% [markdown]
# Between $y_- = 0.1$ and 0.5, where paper A reports four coding schemes, equilibrium has
# {glue:text}`num_equilibrium` at our temperature: the three codes with two classes, joined by 1-1-1 near $y_-
# = 1/2$, and at higher temperatures or smaller $P$ by 1-0-0 near 0.1. It has as many at $T = 0.001$
# ({glue:text}`num_cold`) and at most {glue:text}`most_schemes` at any temperature that we tried.

# %% tags=["hide-input"]
fine = np.linspace(0.1, 0.5, 21)
counts = {t: phases.count_schemes(N, fine, t) for t in (phases.COLD, T, 0.03, 0.1, 0.12, 0.3)}
glue("num_equilibrium", counts[T], display=False)
glue("num_cold", counts[phases.COLD], display=False)
glue("most_schemes", max(counts.values()), display=False)
check(
    "A11",
    f"schemes in equilibrium for y₋ from 0.1 to 0.5, theory at T = {T}, P = {N}",
    counts[T],
    4,
    equal(),
    control=("above the critical temperature, T = 0.3", counts[0.3]),
    source="published",
    note="schemes at other T: " + ", ".join(f"{n} at {t:g}" for t, n in counts.items()),
    because="the other schemes hold frozen codes: see the next section",
)

# %% [markdown]
# ## Equilibrium or frozen?
#
# **Question.** Where do the other schemes come from? Random networks that are put at a low temperature at
# once, without annealing, pass through four schemes as $y_-$ grows: all codes with one or two classes; of
# those with one only 1-0-0, the code of the largest class; none of them; and then 1-1-1. Four schemes are
# what paper A reports. {numref}`fig-phases-panels` shows such networks at $N = P =$ {glue:text}`N`, and below
# the same networks after neurons were free to change their codes.

# %%
wide_networks, wide_counts = settings.wide
wide = {
    y: equilibrate(jax.random.fold_in(key, 100 + k), N, y, T, wide_networks, wide_counts, phases.COLD)
    for k, y in enumerate((0.1, 0.2, 0.3, 0.4, 0.5))
}

# %% tags=["hide-input"]
figures.publish(**phase_checks.panels(wide))
phase_checks.check_quenched(wide)
phase_checks.check_relaxed(wide)

# %% [markdown]
# Every code beyond the theory's is frozen: those with one class, 1-0-0 above all. What remains, 1-1-1 at
# $y_- = 1/2$, belongs to equilibrium.
#
# **Why these codes?** Follow networks down that are cooled in steps. Just below the critical temperature
# 1-0-0 belongs to the *equilibrium* scheme: the largest class is the first to be told apart. Further down its
# share falls to zero, but by then neurons have ceased to change their codes.

# %%
steps, transitions = settings.cooling
cooling = np.geomspace(0.3, T, steps)
cooled = phases.cool(jax.random.fold_in(key, 200), N, 0.1, cooling, wide_networks, transitions)

# %% tags=["hide-input"]
figures.publish(**phase_checks.cooling(cooling, cooled, N, 0.1, transitions))

# %% [markdown]
# ### Four ways down, and what they cost
#
# Quenched as on the map; cooled several times more *slowly*; *planted* in the theory's scheme, with local
# dynamics; and with `recode`. Slow cooling leaves fewer neurons in a wrong code, planted networks stay,
# recoded ones agree.

# %%
reached = {y: phases.ways(jax.random.fold_in(key, 300), scan[y, T], settings.slow) for y in targets}
lost = {
    way: np.array([phases.frozen(reached[y][way]).lost for y in targets])
    for way in ("quenched", "slow", "planted", "recode")
}

# %% tags=["hide-input"]
figures.publish(**phase_checks.ways_bars(reached))
figures.publish(**phase_checks.free_energies(reached, lost))
phase_checks.check_frozen(reached, lost, scan[0.5, settings.warm[-1]].quenched)

# %% [markdown]
# ### Another cure: replica exchange
#
# The textbook cure for frozen states exchanges networks between temperatures. The number of temperatures it
# needs grows with $N$, so preset `paper` sets it beside the other ways at $N = P = 16$. In so small a
# network theory for $N\to\infty$ is off by a fraction of a neuron; what has to agree is exchange with
# `recode`, two samplers that share nothing but the posterior. Shares fluctuate there within a run, by half a
# neuron to one where four codes coexist: less than if neurons chose independently, as they have to fit the
# targets together (`sigmoidal.occupancy_covariance`).

# %% tags=["hide-input"]
if settings.exchange:
    size, rungs, hottest, count = settings.exchange
    ladder = tuple(np.linspace(T**0.2, hottest**0.2, rungs)[1:] ** 5)  # about equal rates of exchange
    ends = targets[0], targets[-1]
    small = phases.small_networks(jax.random.fold_in(key, 400), size, ends, T, ladder, count)
    figures.publish(**phase_checks.small_bars(small, rungs, hottest))
    phase_checks.check_small(small, ends)

# %% [markdown]
# ## The critical temperature
#
# **Question.** Where does redundancy end? In theory, where $P(a)$ loses its second peak: $T_c =$
# {glue:text}`critical:.4f` at $y_- = 1/2$ and the paper's $P = 500$, with one per cent of the neurons as the
# least that counts ({glue:text}`critical_small:.4f` at $P =$ {glue:text}`S`; peaks overlap there, and which
# neurons belong to a peak is defined to {glue:text}`ambiguity:.2f` only). Samples tell it without any
# reference to codes: the variance of the readouts over neurons is of order one where there are several
# groups, and $O(1/P)$ where there is one. It falls nearly linearly; from four temperatures we extrapolate to
# zero, by a straight line and by a parabola, and take the middle, with half their distance as the error
# of the extrapolation.

# %%
warm = np.array(settings.warm)
sampled = phases.zero(warm, np.array([phases.readout_variance(scan[0.5, t].run).mean(1) for t in warm]))
theory = phases.zero(warm, np.array([[phases.predicted_variance(S, 0.5, t)] for t in warm]))
critical = phases.critical_temperature(500, 0.5)

# %% tags=["hide-input"]
for name, value in {
    "critical": critical,
    "critical_small": phases.critical_temperature(S, 0.5),
    "ambiguity": phases.ambiguity(phases.solve(S, 0.5, 0.06)),
    "extrapolated": theory.temperature,
}.items():
    glue(name, float(value), display=False)
figures.publish(**phase_checks.variances(scan, sampled, 0.5, (S, 500)))
phase_checks.check_critical(scan, warm, sampled, theory)

# %% [markdown]
# The same extrapolation of theory's values at the samples' size ends at {glue:text}`extrapolated:.4f`. In
# small networks the peaks go at a lower temperature, rounded by their width, while the extrapolated value
# hardly depends on $P$.
#
# ## The diagram
#
# Back to {numref}`fig-phases-phase-diagram`. Every point is held against theory at its own $y_-$, $T$ and
# $P$, neurons against neurons. Near $T_c$ the code of a neuron and the code of the peak it belongs to are
# two things: a class may be neither on nor off, and the share of a peak depends by some per cent on how the
# readouts between two peaks are dealt to them. Colors show peaks, comparisons do not.

# %% tags=["hide-input"]
phase_checks.check_shares("D1", "shares over the phase diagram", {p: e for p, e in scan.items() if p[0] >= 0})
below_zero = {p: e for p, e in scan.items() if p[0] < 0}
if below_zero:
    phase_checks.check_shares("D1", "shares at negative y₋", below_zero)
phase_checks.check_edge(scan[0.25, 0.1])
phase_checks.check_explorer()

# %% [markdown]
# Codes, shares, densities and transitions for targets, temperatures and class ratios of your own, solved in
# your browser: [the explorer](../book/explorer.md).
#
# ## What to take away
#
# - The coding scheme is a phase: one convex problem says which codes a network has at given targets and
#   temperature, with which shares, and samples in equilibrium agree.
# - Codes join and leave with shares that grow from zero. Above $T_c$ one code is left; below it their number
#   rises, and at some targets falls again as $T\to0$.
# - Neurons do not change their code by local dynamics far below $T_c$. Quenched networks carry codes of a
#   higher temperature, at a cost in free energy far above one: long-lived, not typical.
#
# **Limits.** Theory takes $N\to\infty$ at finite $P$. At the smaller sizes a share is right to a fraction of
# a neuron. `recode` needs orthogonal inputs and one hidden layer, and takes much longer at negative $y_-$,
# where six codes coexist; preset `quick` leaves that side of the map out. What a quench leaves depends on
# how fast it is; ours is one of many.
