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
# # Sparse coding: ReLU networks
#
# **At a glance.** On a task with three classes, three ReLU neurons out of hundreds grow to be of order
# $\sqrt N$ in both activity and readout, one for each class, and carry the task alone; all others, the
# **bulk**, stay small. This **sparse** scheme {cite:p}`vanmeegen2025` follows
# from a convex problem, and is the last thing to appear: the loss has long been zero by then.
#
# *Did not come out:* in the feature layer of a deep network several outliers share a class, not one as
# published. *None of the papers has:* where targets of different classes are alike, the number of outliers
# is not fixed, but what they do together is. *Needs:* the [primer](../book/primer.md). *Reading:* 12
# minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N = P, neurons and training inputs; None: the preset's
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain and segment
max_steps: int | None = None  # Langevin steps at most

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC
from coding_schemes.theory import outliers, relu
from companion import figures, films, presets
from companion.workbench import untrained
from experiments import sparse, sparse_checks
from myst_nb import glue

given = {"num_neurons": num_neurons, "temperature": temperature}
given |= {"num_samples": num_samples, "max_steps": max_steps}
settings = presets.choose(preset, quick=sparse.QUICK, paper=sparse.PAPER, given=given)
N, T, SMALL = settings.num_neurons, settings.temperature, 100  # SMALL: where many tasks are sampled
key = jax.random.key(seed)
glue("N", N, display=False)
glue("T", T, display=False)

# %% [markdown]
# The task has orthogonal inputs, a fraction $w_c$ = a half, a quarter and a quarter of them in class $c$;
# targets are 1 for an input's own class and $-1/2$ for the others. We draw networks with one hidden layer
# from the posterior, $N = P =$ {glue:text}`N`, $T =$ {glue:text}`T`, starting from two ends: from the
# prior, and from a network built after the theory below. Hamiltonian Monte Carlo alone would not get from
# one to the other in feasible time; between trajectories, pairs of neurons are rotated into each other,
# which leaves the posterior exactly invariant ([how](../book/samplers.md)).

# %%
task = tasks.toy(N, class_ratios=(0.5, 0.25, 0.25), y_plus=1.0, y_minus=-0.5, seed=seed)
options = {name: getattr(settings, name) for name in ("num_samples", "num_chains", "moves")}
options |= {"thinning": 2, "method": HMC(settings.length, 225, step_size=settings.step_size)}
ends = sparse.both_ends(jax.random.fold_in(key, 1), task, "relu", T, settings.num_segments, **options)
print(ends.meeting.verdict)

# %% tags=["hide-input"]
figures.publish(**sparse_checks.sample_shown(ends.prior.run))

# %% [markdown]
# ## Why a few neurons run away
#
# **Question.** What makes three neurons leave the others behind, and why three?
#
# In the notation of the [primer](../book/primer.md), with readout variance $\sigma_a^2 = 1/P$, neurons are
# independent at the saddle point. Integrated over the preactivations, one neuron's readout has the density
#
# $$
# \begin{gathered}
# P(a) \;\propto\; e^{P\,E(a)}, \\
# E(a) = -\tfrac12 |a|^2 + \sum_c w_c \log g(a\cdot t_c), \\
# g(s) = \bigl\langle e^{s\,\phi(z)} \bigr\rangle_{z\sim\mathcal N(0,1)},
# \end{gathered}
# $$ (eq-sparse-single)
#
# with one field $t_c$ per class, the training residual divided by $T$. For a ReLU, $g(s) = \tfrac12 +
# e^{s^2/2}\,\Phi(s)$ with the normal distribution function $\Phi$: a neuron driven by a positive $s$ can grow
# its activity in proportion, and gains $s^2/2$. Both terms of $E$ are then quadratic, and along $\hat a$
#
# $$
# E \;\simeq\; \tfrac12 |a|^2 \bigl( h(\hat a) - 1 \bigr), \qquad
# h(\hat a) = \sum_c w_c\, [\hat a \cdot t_c]_+^2 .
# $$ (eq-sparse-load)
#
# If $h$ exceeded 1 anywhere, $E$ would have no maximum. So while the network learns, the field grows until
# $h = 1$ is reached in some directions, and has to stop: there a neuron of *any* size costs the same at
# leading order. These are the **outliers**. With $a = \sqrt N\, \bar a$ and $z = \sqrt N\, \bar z$ a single
# neuron contributes $\bar a\,\bar z$, of order one, to the output. The rest, the bulk, sits at the finite
# maximum $a_0$ of $E$; together,
#
# $$
# \begin{gathered}
# \bar a = \sum_c w_c\, t_c\, \bar z_c, \qquad \bar z_c = [\bar a\cdot t_c]_+, \\
# y_c = a_0\,\langle \phi\rangle_c + \sum_i \bar a_i\, \bar z_{ic} + T\,t_c .
# \end{gathered}
# $$ (eq-sparse-outlier)
#
# Nothing about the outliers is guessed. The field minimizes a convex function under the constraint
# $h(\hat a) \le 1$ for all $\hat a$; outliers are the constraints that are active at the minimum, their
# squared sizes the Lagrange multipliers. Corrections of relative order $1/N$ and $1/P$ are worked out by
# `relu.finite_size` (this step is ours; {cite:t}`vanmeegen2025` take $N, P\to\infty$, $T\to0$).

# %%
theory = relu.finite_size(relu.solve(task, T), N)
for a, z in zip(theory.outlier_readouts, theory.outlier_preactivations, strict=True):
    print("outlier, over √N: readout", a.round(3), "  preactivation per class", z.round(3))
print("bulk: readout", theory.bulk_readout.round(3), "  ⟨φ⟩ per class", theory.bulk_activations.round(3))

# %% [markdown]
# Three outliers, one for each class ({numref}`fig-sparse-readout-posterior`): readout positive for their
# own class, negative for the others. What the bulk adds to the outputs, $a_0\langle\phi\rangle_c$, is a
# few per cent of the targets.

# %% tags=["hide-input"]
figures.publish(**sparse_checks.bulk_and_outliers(ends, "readout"))
figures.publish(**sparse_checks.bulk_and_outliers(ends, "preactivation"))

# %% [markdown]
# We count a neuron as an outlier if it carries more than a share $1/\sqrt N$ of the population's squared
# activity on some class: an outlier's share is of order one, a bulk neuron's of order $1/N$. The control is
# a lazy network on the same task, the same posterior with $\sigma_a^2 = N$ and the temperature $NT$.

# %% tags=["hide-input"]
small_options = {"num_samples": 32, "num_chains": 4, "moves": ("split_merge",)}
small_options |= {"method": HMC(1.5, 225, step_size=0.015)}
lazy = Posterior(sparse.toy(SMALL, seed=seed), Network(1, SMALL, "relu"), T * SMALL, float(SMALL))
lazy = sparse.follow(jax.random.fold_in(key, 2), lazy, 1, **(small_options | {"moves": settings.moves}))
neighbor = relu.finite_size(relu.solve(sparse.toy(N, 0.0, seed=seed), T), N)
sparse_checks.check_scheme(ends, neighbor, lazy)

# %% [markdown]
# ## Size, and variation within a class
#
# The theory lives on readouts and preactivations of order $\sqrt N$. An outlier's activity on the inputs of
# its class is the same but for noise of order one on top, so that its coefficient of variation (standard
# deviation over mean) should fall as $1/\sqrt N$, at small widths still faster; the theory at finite $N$ has
# its value.

# %%
found = {
    size: sparse.both_ends(jax.random.fold_in(key, size), sparse.toy(size), "relu", T, 3, **small_options)
    for size in settings.widths
} | {N: ends}
warmer = relu.finite_size(relu.solve(task, 2 * T), N)

# %% tags=["hide-input"]
figures.publish(**sparse_checks.scaling(found))
sparse_checks.check_widths(found, warmer)

# %% [markdown]
# ## Long after the loss is zero
#
# Nothing in {eq}`eq-sparse-load` prefers one outlier to several parallel ones: $k$ neurons with $a$ and $z$
# divided by $\sqrt k$ have the same output at the same cost. What a second copy takes is entropy, as it has
# to leave the bulk and be silent on every single input of the other classes: $P\,[E(a_0) + \log 2 \sum_{\rm
# silent} w_c]$, here {glue:text}`cost:.0f` nats for class 0, where energies are of order $NP$. So copies must
# disappear in equilibrium, but no force drives them together.
#
# {numref}`fig-sparse-coarsening-film` follows plain Langevin dynamics from the prior, the dynamics of
# {cite:t}`vanmeegen2025`. **Zero loss** is the first time at which the squared error is within twice its
# later mean; the **final scheme** is there when the number of outliers has become three for good.

# %%
glue("cost", float(N * ends.theory.outlier_entropy_costs[0]), display=False)
M = settings.coarsening_size
posterior = Posterior(sparse.toy(M, seed=seed), Network(1, M, "relu"), T)
coarse = sparse.coarsen(jax.random.fold_in(key, 3), posterior, settings.max_steps)

# %% tags=["hide-input"]
films.publish_animation(**sparse_checks.film(coarse, M, T, num_frames=60))
for name, value in sparse_checks.check_coarsening(coarse, M).items():
    glue(name, float(value), display=False)

# %% [markdown]
# The data are fitted after {glue:text}`zero:.0f` steps, the final scheme takes {glue:text}`final:.0f`. What
# one sees in between are outliers of the right classes, but more of them or shared ones: also where there
# are just three early on, they are not yet one for each class.
#
# ## What decides their number
#
# Nothing said so far fixes the number to one per class. If the bulk itself represents a class, one outlier
# less is enough: we shrink the targets of class 0 to a twentieth, and the theory has $m - 1 = 2$. And if the
# target $y_-$ of the other classes is raised, there comes a point where outliers answer to several classes at
# once. Two of these can be rotated into each other at no cost: a family of solutions of equal energy. They
# are silent nowhere, and silence is what made copies expensive. How many more fit in? Weigh the readouts that
# would count as an outlier against the bulk in {eq}`eq-sparse-single`,
#
# $$
# n_{\rm more} = N \int_{\rm outlier} e^{P E(a)}\,{\rm d}a \Big/ \int_{\rm bulk} e^{P E(a)}\,{\rm d}a .
# $$ (eq-sparse-room)
#
# At $N = P = 100$ this is far below one for $y_- = 0.1$, {glue:text}`room_some:.1f` at $0.3$ and
# {glue:text}`room_many:.0f` at $0.6$; there it vanishes only with the size ({glue:text}`room_large:.3f` at $N
# = P = 500$). Below one, the number should be the theory's; far above, outliers and bulk are hardly told
# apart: the count depends on sample and threshold, and networks wander about their family slowly. What
# outliers do together theory has all the same: the overlaps $\tfrac1N \sum_i a_i a_i^\top$ of all readouts
# are those of the whole family.

# %%
cases = {f"y₋ = {y}": sparse.toy(SMALL, y, seed=seed) for y in settings.targets}
cases |= {f"class ratios {r}": sparse.toy(SMALL, class_ratios=r, seed=seed) for r in settings.ratios}
cases["background"] = sparse.background_task(SMALL, seed=seed)
segments, samples, thinning, length = settings.target_runs
both_moves = small_options | {"moves": settings.moves, "num_samples": samples, "thinning": thinning}
both_moves["method"] = HMC(length, 225, step_size=0.015)
sampled = {
    name: sparse.both_ends(jax.random.fold_in(key, 50 + k), each, "relu", T, segments, **both_moves)
    for k, (name, each) in enumerate(cases.items())
}

# %% tags=["hide-input"]
by_target = {y: sampled[f"y₋ = {y}"] for y in settings.targets}
figures.publish(**sparse_checks.numbers(SMALL, T, by_target))
for name, y, size in (("some", 0.3, SMALL), ("many", 0.6, SMALL), ("large", 0.6, 500)):
    spare = outliers.spare_outliers(relu.solve(sparse.toy(size, y, seed=seed), T), size)
    glue(f"room_{name}", spare, display=False)
background = sampled.pop("background")
sparse_checks.check_targets(sampled, background, lazy)

# %% [markdown]
# ## Neither the kink nor homogeneity is needed
#
# **Softplus**, $\log(1+e^z)$, differs from a ReLU by what vanishes at large $|z|$, where outliers live: the
# theory carries over, with other averages in the bulk. For **squared ReLU**, $\max(0, z)^2$, it does not:
# $g(s)$ diverges at $s = \tfrac12$. A neuron's contribution is of third degree, so $a, z \sim N^{1/3}$
# suffice for one of order one, and the posterior minimizes
#
# $$
# \begin{gathered}
# \sum_i \tfrac12\Bigl(|\bar a_i|^2 + \sum_c w_c\,\bar z_{ic}^2\Bigr) \\
# \text{subject to}\quad \sum_i \bar a_i\,\bar z_{ic}^2 = y_c .
# \end{gathered}
# $$ (eq-sparse-squared)
#
# Splitting an outlier into $k$ costs a factor $k^{1/3}$ at leading order: here a force merges. The control
# is a sigmoidal network that learned the same task.

# %% tags=["hide-input"]
M, length = settings.other
other_task, other = sparse.toy(M, seed=seed), small_options | {"moves": settings.moves}
methods = {name: {"method": HMC(length, 225, step_size=s)} for name, s in settings.other_steps.items()}
soft = other | methods["softplus"]
softplus = sparse.both_ends(jax.random.fold_in(key, 4), other_task, "softplus", T, 4, **soft)
segments, chains, samples = settings.squared
longer = other | {"num_samples": samples, "num_chains": chains, "thinning": 2}
square, sigmoidal = (
    sparse.follow(
        jax.random.fold_in(key, stream),
        Posterior(other_task, Network(1, M, name), T),
        count,
        **own | methods[name],
    )
    for stream, name, count, own in (
        (5, "relu_squared", segments, longer),
        (6, "sigmoidal", 2, other | {"moves": ()}),
    )
)

# %% tags=["hide-input"]
figures.publish(**sparse_checks.nonlinearities([softplus.prior.run, square.run, sigmoidal.run]))
sparse_checks.check_nonlinearities(softplus, square, sigmoidal, T)

# %% [markdown]
# ## Three hidden layers
#
# For deeper ReLU networks there is no theory yet; we look at samples. {cite:t}`vanmeegen2025` show one
# network with $L = 3$, $N = P = 100$: two outliers in the first layer, for the two small classes, several
# that share classes in the second, and three in the feature layer. We draw eight networks at $N = P =$
# {glue:text}`deep_size`, with long trajectories, as hidden layers leave the prior slowly; the moves act on
# the feature layer alone.

# %%
eight = {"num_samples": 16, "num_chains": 8, "thinning": 2, "moves": ("split_merge",)}
deep = {
    (size, at): run
    for size, factors in settings.deep.items()
    for at, run in sparse.deep_runs(
        jax.random.fold_in(key, 7), size, [T * x for x in factors], settings.deep_segments, seed, **eight
    ).items()
}
size = max(settings.deep)
run = deep[size, T]
glue("deep_size", size, display=False)

# %% tags=["hide-input"]
figures.publish(**sparse_checks.deep_layers(run))
figures.publish(**sparse_checks.thresholds(deep))

# %% tags=["hide-input"]
start, merged_counts = sparse.merged(run)
restart = {"method": HMC(1.0, 225, 0.07 * T**0.5)} | eight
after = sparse.follow(jax.random.fold_in(key, 8), run.posterior, 2, start, **restart).run
streams = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, 9), jax.numpy.arange(8))
prior = untrained(streams, run.posterior)
sparse_checks.check_depth(run, after, merged_counts, prior)

# %% [markdown]
# The sampler does not show that these networks are in equilibrium: a few dozen trajectories are too few for
# its diagnostics. In the feature layer the *codes* are fixed, one for each class; how many neurons share each
# is not. Rotated into a single outlier per code, they split again at once, so this is no lack of
# patience. With one hidden layer a copy has to be silent on each of the $P - n_c$ inputs of other classes,
# which costs entropy of order $P$. In the feature layer of a deep network preactivations follow the few
# outliers of the layer below, so a copy is silent on a class as a whole; and readouts have the variance
# $P^{-1/3}$, which makes what a neuron loses by leaving the bulk of order $P^{1/3}$ at most. We think that
# this is why copies are cheap here; a theory of it is missing.
#
# ## What to take away
#
# - A wide ReLU network solves the task with one outlier neuron for each class, whose readouts, activities
#   and number follow from a convex problem. The bulk stays small.
# - Outliers hardly vary within a class and grow as $\sqrt N$; for $\max(0,z)^2$ as $N^{1/3}$.
# - The scheme is the last thing to appear, because at leading order nothing pays for merging.
# - How many outliers there are depends on the targets: one less where the bulk codes for a class; no fixed
#   number, at our sizes, where they answer to several classes at once. What they do together is fixed.
#
# **Limits.** The theory is for one hidden layer and orthogonal inputs. In families of rotated outliers only
# the leading order in $1/N$ is at hand. Times of coarsening are measured at one size, for dynamics in
# coordinates in which all weights have the same prior variance.
