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
# **Question.** Linear networks spread a task over all their neurons. What do rectified neurons do, which are
# silent on one side of a threshold and unbounded on the other?
#
# **Answer, before the details.** They let a handful of neurons do everything. On a task with three classes,
# three neurons out of hundreds grow to be of order $\sqrt N$ in both their activity and their readout
# weight, one for each class; they alone carry the task. All others, the **bulk**, stay close to where the
# prior had them and hardly tell the classes apart. This is the **sparse** coding scheme
# {cite:p}`vanmeegen2025`. It takes far longer to form than the training error takes to vanish, and the
# chapter measures how much longer.

# %% tags=["parameters"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N
num_inputs: int | None = None  # P, training inputs of the toy task
temperature: float | None = None  # T, rescaled as in the primer
num_seeds: int | None = None  # deep networks sampled
num_langevin: int | None = None  # thousands of Langevin steps in the coarsening

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from coding_schemes import coding, planting, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import HMC, PlainLangevin, compare_ends, sample
from coding_schemes.theory import relu, relu_squared
from companion import claims, figures, presets
from myst_nb import glue

# runs start at the prior, far from equilibrium, with the step size of equilibrium: the first few diverge
warnings.filterwarnings("ignore", "sampling: .* divergent")

settings = presets.choose(
    preset,
    quick=dict(
        num_neurons=100,
        num_inputs=100,
        temperature=0.01,
        step_size=0.01,
        num_segments=2,
        small_segments=2,
        tolerance=0.04,
        widths=(30, 60, 100),
        sweep=(0.1, 0.3, 0.6),
        num_langevin=15,
        num_seeds=10,
        deep_size=40,
        deep_segments=2,
    ),
    paper=dict(
        num_neurons=500,
        num_inputs=500,
        temperature=0.01,
        step_size=0.006,
        num_segments=3,
        small_segments=3,
        tolerance=0.02,
        widths=(50, 100, 200),
        sweep=(-0.2, 0.1, 0.3, 0.5, 0.7, 0.9),
        num_langevin=500,
        num_seeds=10,
        deep_size=100,
        deep_segments=4,
    ),
    given=dict(
        num_neurons=num_neurons,
        num_inputs=num_inputs,
        temperature=temperature,
        num_seeds=num_seeds,
        num_langevin=num_langevin,
    ),
)
N, P, T = settings.num_neurons, settings.num_inputs, settings.temperature
SMALL = 100  # neurons and inputs of the sections that need many runs
RATIOS = (0.5, 0.25, 0.25)
key = jax.random.key(seed)

# %% [markdown]
# ## Theory
#
# We use the model and the notation of the [primer](../book/primer.md), with one hidden layer and the toy
# task: orthogonal inputs, a fraction $w_c$ of them in class $c$, targets $y_c$, readout variance
# $\sigma_a^2 = 1/P$. At the saddle point neurons are independent. Integrated over the preactivations, a
# single neuron's readout has the density
#
# $$
# P(a) \;\propto\; e^{P\,E(a)}, \qquad
# E(a) = -\tfrac12 |a|^2 + \sum_c w_c \log g(a\cdot t_c), \qquad
# g(s) = \bigl\langle e^{s\,\phi(z)} \bigr\rangle_{z\sim\mathcal N(0,1)},
# $$ (eq-sparse-single)
#
# with one field $t_c$ per class, the training residual divided by $T$. For large $P$ the readouts sit at the
# maximum of $E$.
#
# ### Why a few neurons run away
#
# For ReLU, $g(s) = \tfrac12 + e^{s^2/2}\,\Phi(s)$ with the normal distribution function $\Phi$: a neuron
# driven by a positive $s$ has the option to grow its activity in proportion to $s$ and gains $s^2/2$. Both
# terms of $E$ are then quadratic at large $a$, and along the direction $\hat a$
#
# $$
# E \;\simeq\; \tfrac12 |a|^2 \bigl( h(\hat a) - 1 \bigr), \qquad
# h(\hat a) = \sum_c w_c\, [\hat a \cdot t_c]_+^2 .
# $$ (eq-sparse-load)
#
# If $h$ exceeded 1 anywhere, $E$ would have no maximum. So the field grows, while the network learns, until
# $h = 1$ is reached in some directions, and there it has to stop: in those directions a neuron of *any* size
# costs the same at leading order. These are the **outliers**. With $a = \sqrt N\, \bar a$ and
# $z = \sqrt N\, \bar z$ a single one of $N$ neurons contributes $\bar a\,\bar z$ to the output, which is of
# order one, and it obeys
#
# $$
# \bar a = \sum_c w_c\, t_c\, \bar z_c, \qquad \bar z_c = [\bar a\cdot t_c]_+ ,
# $$ (eq-sparse-outlier)
#
# with no variation from input to input within a class. The rest of the neurons sits at the finite maximum
# $a_0 = \sum_c w_c t_c \langle\phi\rangle_c$ of $E$, with $z$ from
# $P(z\mid a_0) \propto e^{-z^2/2 + a_0\cdot t_c\,\phi(z)}$, and together they have to produce the targets,
#
# $$
# y_c = a_0\,\langle \phi\rangle_c + \sum_i \bar a_i\, \bar z_{ic} + T\,t_c .
# $$ (eq-sparse-targets)
#
# The directions and the sizes of the outliers are not guessed. The field minimises a convex function under
# the constraint $h(\hat a) \le 1$ for all $\hat a$; outliers are the constraints that are active at the
# minimum, and their sizes are the Lagrange multipliers. An outlier that answers to class $c$ alone points
# along $t_c$, and $|t_c|^2 = 1/w_c$.

# %%
for name, value in dict(N=N, P=P, T=T, small=SMALL, tolerance=settings.tolerance).items():
    glue(name, value, display=False)
task = tasks.toy(P, class_ratios=RATIOS, y_plus=1.0, y_minus=-0.5, seed=seed)
leading = relu.solve(task, T)
theory = relu.finite_size(leading, N)
assert leading.converged
assert theory.converged
print(f"outliers of the theory, in units of √N (residual {leading.residual:.0e}):")
for a, z in zip(leading.outlier_readouts, leading.outlier_preactivations, strict=True):
    print("  readout", a.round(4), "  preactivation per class", z.round(4))
print("bulk: readout", leading.bulk_readout.round(4), "  ⟨φ⟩ per class", leading.bulk_activations.round(4))

# %% [markdown]
# Three outliers, one for each class: positive readout for their own class, negative for the others. The bulk
# is active on all classes. Its three mean activations are not equal, but what they add to the output,
# $a_0\langle\phi\rangle_c$, is a few per cent of the targets.
#
# At finite $N$ and $P$ corrections of relative order $1/N$ and $1/P$ appear: bulk readouts have a width
# $1/\sqrt P$, outliers fluctuate, and the noise of the outputs costs free energy. `relu.finite_size` works
# them out to that order, and it is what samples are held against. (This step is ours;
# {cite:t}`vanmeegen2025` take $N, P\to\infty$ and $T\to0$.)
#
# ## Experiment: one hidden layer
#
# $N =$ {glue:text}`N` neurons, $P =$ {glue:text}`P` inputs with classes of a half, a quarter and a quarter,
# targets $1$ for the own class and $-1/2$ for others, $T =$ {glue:text}`T`. Local dynamics from the prior
# does not reach equilibrium in feasible time, as a later section shows. We therefore add to Hamiltonian
# Monte Carlo moves that rotate pairs of neurons into each other and leave the posterior exactly invariant
# ([how the samplers work](../book/samplers.md)). And we sample from two ends: from the prior, and from a
# network planted at the theory's solution. Only where both meet is it equilibrium.


# %%
MOVES = ("rotations", "split_merge")


def draw(task, stream, network, init="prior", variance=None, temperature=T, step_size=None, **options):
    """A segment of two chains from `init`, and the posterior that was sampled."""
    posterior = Posterior(task, network, temperature, variance)
    if callable(init):  # a theory's network, planted in this posterior
        init = init(posterior)
    plan = dict(num_samples=100, thinning=2, num_chains=2, num_warmup=0, moves=MOVES)
    step_size = step_size or (settings.step_size if network.width > SMALL else 0.01)
    plan |= dict(method=HMC(options.pop("length", 0.6), 150, step_size))
    return sample(posterior, jax.random.fold_in(key, stream), init=init, **(plan | options))


def measure(samples, task, network, half=True):
    """Outliers and bulk of the feature layer, in the second half of a segment unless told otherwise."""
    start = samples.readouts.shape[1] // 2 if half else 0
    readouts, z = samples.readouts[:, start:], samples.preactivations[-1][:, start:]
    activations = np.asarray(network.phi(z))
    counts = coding.outliers(activations, task.labels).counts
    return counts, coding.sparse_measures(readouts, z, activations, task.labels)


# %%
def from_prior(task, stream, network, num_segments, **options):
    """Segments one after the other from the prior: number of outliers, squared errors, last segment."""
    init, counts, errors = "prior", [], []
    for segment in range(num_segments):
        samples = draw(task, stream + segment, network, init, **options)
        counts.append(measure(samples, task, network, half=False)[0])
        errors.append(samples.info.squared_error)
        init = samples.final
    return np.concatenate(counts, 1), np.concatenate(errors, 1), samples


# %%
def merge_parallel(weights, activations, labels):
    """Every chain's outliers of one code in the feature layer rotated into a single one."""
    readout, incoming = np.array(weights.readout), np.array(weights.hidden[-1])
    for chain, codes in enumerate(coding.outliers(activations, labels).codes):
        for code in np.unique(codes[codes.any(1)], axis=0):
            group = np.flatnonzero((codes == code).all(1))
            turn = np.linalg.svd(readout[chain, group])[0].T  # orthogonal, so the prior does not see it
            turn[0] *= np.sign(turn[0].sum())
            readout[chain, group] = turn @ readout[chain, group]
            incoming[chain, group] = turn @ incoming[chain, group]
    return weights._replace(readout=readout, hidden=(*weights.hidden[:-1], incoming))


# %%
def deep_chains(task, network):
    """One chain per seed from the prior, first with short trajectories; then on from merged outliers."""
    plan = dict(num_chains=settings.num_seeds, num_samples=20, length=1.0)
    init = draw(task, 1100, network, step_size=0.002, **plan).final  # long trajectories would be refused

    def go_on(init, streams):
        for stream in streams:
            samples = draw(task, stream, network, init, step_size=0.007, **plan)
            init = samples.final
        return samples

    samples = go_on(init, range(1101, 1101 + settings.deep_segments))
    activations = np.maximum(samples.preactivations[-1][:, -1], 0)
    return samples, go_on(merge_parallel(samples.final, activations, task.labels), (1200, 1201))


# %% [markdown]
# The chapter's runs are started here, two at a time; the sections below collect their results.

# %%
pool, pending = ThreadPoolExecutor(2), {}
network, small = Network(1, N, "relu"), Network(1, SMALL, "relu")
small_task = tasks.toy(SMALL, class_ratios=RATIOS, y_minus=-0.5, seed=seed)
lazy_scale = dict(variance=float(SMALL), temperature=T * SMALL)  # a lazy network in our parameters
pending["prior"] = pool.submit(from_prior, task, 100, network, settings.num_segments)
M = settings.deep_size
deep_task, deep_network = tasks.toy(M, class_ratios=RATIOS, y_minus=-0.5, seed=seed), Network(3, M, "relu")
pending["deep"] = pool.submit(deep_chains, deep_task, deep_network)
others = {"softplus": (0.012, 1), "relu_squared": (0.007, 2)}  # step size, and how many times the segments
for index, (name, (step, longer)) in enumerate(others.items()):
    other, segments = Network(1, SMALL, name), longer * settings.small_segments
    pending[name] = pool.submit(from_prior, small_task, 1000 + 10 * index, other, segments, step_size=step)
pending["moves"] = pool.submit(from_prior, small_task, 700, small, settings.small_segments)
pending["lazy"] = pool.submit(draw, small_task, 300, small, **lazy_scale)
plain = dict(moves=(), thinning=1)
early = draw(small_task, 600, small, method=PlainLangevin(0.06, 5), **plain)  # plain dynamics from the prior
longer = dict(method=PlainLangevin(0.06, 1000), num_samples=settings.num_langevin)
pending["late"] = pool.submit(draw, small_task, 601, small, early.final, **(plain | longer))

# %%
history, errors, samples = pending["prior"].result()
planted = draw(task, 200, network, partial(planting.planted, key, theory))

# %% [markdown]
# ### One network drawn from the posterior
#
# The nine most active neurons of one sample. Three rows stand out; each is active on one class, as evenly as
# if painted, and silent on the others. Below them the bulk begins. The outputs sit on the targets.

# %% tags=["hide-input"]
last = samples.readouts[0, -1], np.maximum(samples.preactivations[0][0, -1], 0)
order = coding.sort_by_activity(last[1])[:9]
figures.publish(
    figures.network_sample,
    "one_network",
    description="Nine most active neurons of a sampled ReLU network: three outliers, one per class",
    readouts=last[0][order],
    activations=last[1][order],
    outputs=last[1].T @ last[0] / N,
    targets=task.targets,
    labels=task.labels,
)

# %% [markdown]
# ### Exactly three outliers
#
# We count a neuron as an outlier if it carries more than a share $1/\sqrt N$ of the population's squared
# activity on some class: an outlier's share is of order one, a bulk neuron's of order $1/N$. In equilibrium
# there must be three in every sample of every chain, from both ends. The control is a lazy network on the
# same task: it is the same posterior with $\sigma_a^2 = N$ in place of $1/P$ and $T$ multiplied by $N$.

# %% tags=["hide-input"]
ends = {"prior": samples, "planted": planted}
measured = {end: measure(run, task, network) for end, run in ends.items()}
counts = np.concatenate([measured[end][0] for end in ends])  # (chains of both ends, samples)
lazy_counts = measure(pending["lazy"].result(), small_task, small)[0]
claims.record(
    "A15",
    "fewest and most outliers in any sample of any chain, from the prior and from theory",
    np.array([counts.min(), counts.max()]),
    np.array([3, 3]),
    tolerance="exact",
    passed=bool(np.all(counts == 3)),
    note="" if np.all(counts == 3) else "chains from the prior have not merged all parallel outliers yet",
    control=claims.Control("lazy network", lazy_counts.mean(), bool(np.all(lazy_counts == 3))),
)

# %% [markdown]
# ### Both ends meet
#
# Counting is not enough: the two runs also have to agree in their energy, training error and readouts.
# `sampling.compare_ends` asks whether the means of each differ by less than four standard errors or 2 %. The
# control holds the equilibrium of the small network against its first 500 steps of Langevin dynamics from
# the prior.

# %%
moved_counts, moved_errors, moved = pending["moves"].result()
both = compare_ends(samples, planted, Posterior(task, network, T))
apart = compare_ends(early, moved, Posterior(small_task, small, T))

# %% tags=["hide-input"]
claims.record(
    "A15",
    "largest relative difference between samples from the prior and from the theory's network",
    max(both.difference.values()),
    0.0,
    tolerance="4 standard errors or 2 %, of every observable",
    passed=both.agree,
    note=both.verdict,
    control=claims.Control("500 Langevin steps", max(apart.difference.values()), apart.agree),
)
figures.publish(
    figures.sampler_traces,
    "two_ends",
    description="Energy, training error, readouts and outliers along the runs from both ends",
    **both.arrays(("energy", "squared_error", "readout_sq_0", "num_outliers")),
)

# %% [markdown]
# ### Their size, and the bulk
#
# Readouts of the three outliers and their preactivations on their own class, averaged over samples, against
# the theory at this $N$, $P$ and $T$. The tolerance is {glue:text}`tolerance` of each number. Its control is
# the theory of another task, with $y_- = 0$.


# %%
def strengths(finite):
    """Outliers of a theory in the order of their classes: readouts (C, m), own preactivations (C,)."""
    root, own = np.sqrt(finite.num_neurons), finite.outlier_preactivations.argmax(0)
    return root * finite.outlier_readouts[own], root * finite.outlier_preactivations[own].diagonal()


def as_row(readouts, preactivations):
    """All numbers that describe the outliers, in one row."""
    return np.concatenate([np.ravel(readouts), np.ravel(preactivations)])


own = {end: np.diagonal(m.preactivations, axis1=-2, axis2=-1) for end, (_, m) in measured.items()}
found = {end: as_row(m.readouts.mean((0, 1)), own[end].mean((0, 1))) for end, (_, m) in measured.items()}
expected = as_row(*strengths(theory))
wrong_task = tasks.toy(P, class_ratios=RATIOS, y_minus=0.0, seed=seed)
wrong = relu.finite_size(relu.solve(wrong_task, T), N)

# %% tags=["hide-input"]
deviation = {end: np.abs(row / expected - 1).max() for end, row in found.items()}
wrong_deviation = np.abs(found["prior"] / as_row(*strengths(wrong)) - 1).max()
for end, description in (("prior", "from the prior"), ("planted", "from the theory's network")):
    passed = deviation[end] < settings.tolerance
    claims.record(
        "A15",
        f"readouts (three by three) and preactivations of the outliers, {description}",
        found[end],
        expected,
        tolerance=f"{settings.tolerance} of each",
        passed=passed,
        note="" if passed else f"largest deviation {deviation[end]:.3f}; not yet in equilibrium",
        control=claims.Control(
            "theory for y₋ = 0, largest deviation", wrong_deviation, wrong_deviation < settings.tolerance
        ),
    )

# %% tags=["hide-input"]
bulk = np.concatenate([measured[end][1].bulk_activations for end in ends])
mean, error = statistics.mean_and_error(bulk)
passed = statistics.within(mean, theory.bulk_activations, error)
claims.record(
    "A15",
    "mean activation of the bulk on every class",
    mean,
    theory.bulk_activations,
    error,
    "3 standard errors",
    passed=passed,
    note="" if passed else "corrections of second order in 1/N and 1/P, or chains too short",
    control=claims.Control(
        "theory for y₋ = 0", wrong.bulk_activations, statistics.within(mean, wrong.bulk_activations, error)
    ),
)

# %% [markdown]
# The readouts of the first output over all neurons (left: the bulk; right: the whole range on a logarithmic
# scale), and the same for preactivations on the first class. Lines are the theory: the bulk's densities, and
# the places of the outliers.

# %% tags=["hide-input"]
_, sparse = measured["prior"]
half = samples.readouts[:, 50:]
is_bulk = ~coding.outliers(np.maximum(samples.preactivations[0][:, 50:], 0), task.labels).mask
width = np.sqrt(theory.bulk_readout_covariance[0, 0])
grid = theory.bulk_readout[0] + width * np.linspace(-4.5, 4.5, 200)
figures.publish(
    figures.sparse_population,
    "readout_posterior",
    description="Readouts of the first output: a narrow bulk on its density, three outliers on theirs",
    bulk=half[..., 0][is_bulk][:: max(1, is_bulk.sum() // 20_000)],
    grid=grid,
    density=np.exp(-(((grid - theory.bulk_readout[0]) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width),
    outliers=sparse.readouts[..., 0].reshape(-1, 3).T,
    levels=strengths(theory)[0][:, 0],
)

# %% tags=["hide-input"]
first = samples.preactivations[0][:, 50:][..., 0]  # on one input of class 0
grid = np.linspace(-4, 4, 200)
figures.publish(
    figures.sparse_population,
    "preactivation_posterior",
    description="Preactivations on class 0: the bulk's density, one outlier far beyond it",
    bulk=first[is_bulk][:: max(1, is_bulk.sum() // 20_000)],
    grid=grid,
    density=relu.bulk_density(theory, grid, 0),
    outliers=sparse.preactivations[..., 0].reshape(-1, 3).T,
    levels=np.sqrt(N) * theory.outlier_preactivations[theory.outlier_preactivations.argmax(0), 0],
    xlabel=r"preactivation $z$ on class 0",
)

# %% [markdown]
# ### No fluctuation within a class
#
# An outlier's activity on the inputs of its class is the same but for noise of order one on top of order
# $\sqrt N$. Its coefficient of variation (standard deviation over mean across the class) should then be
# small, and fall as $1/\sqrt N$; the theory at finite $N$ gives a value. The bulk, whose coefficient is of
# order one, is the control.

# %% tags=["hide-input"]
own = theory.outlier_preactivations.argmax(0)
spread = np.sqrt(theory.outlier_preactivation_variances[own].diagonal()) / strengths(theory)[1]
variation = np.concatenate([measured[end][1].variation for end in ends])
mean, error = statistics.mean_and_error(variation)
limit = 0.02 * np.sqrt(500 / N)  # 2 % at the paper's size
activations = np.maximum(samples.preactivations[0][:, -1], 0)[is_bulk[:, -1]]
deviations = coding.class_deviations(activations, task.labels)
bulk_variation = np.median(deviations / coding.class_means(activations, task.labels))
claims.record(
    "A16",
    "coefficient of variation of each outlier within its class",
    mean,
    spread,
    error,
    f"below {limit:.3f}",
    passed=bool(np.all(mean < limit)),
    note="" if np.all(mean < limit) else "above the limit",
    control=claims.Control("neurons of the bulk (median)", bulk_variation, bulk_variation < limit),
)

# %% [markdown]
# ## Both grow as the square root of the width
#
# The theory lives on readouts and preactivations of order $\sqrt N$. The same at several widths $N = P$,
# each chain started from the theory's network at its size and left to Hamiltonian Monte Carlo. Solid lines
# are fitted power laws, dashed ones the theory at each width. The control is the bulk, which does not grow.


# %%
def at_width(size, stream):
    """Strength of the outliers and of the bulk at N = P = size: |a| and z of class 0, bulk activation."""
    own_task = tasks.toy(int(size), class_ratios=RATIOS, y_minus=-0.5, seed=seed)
    finite = relu.finite_size(relu.solve(own_task, T), int(size))
    start = partial(planting.planted, jax.random.key(int(size)), finite)
    wide = Network(1, int(size), "relu")
    _, m = measure(draw(own_task, stream, wide, start, moves=()), own_task, wide)
    values = np.linalg.norm(m.readouts[..., 0, :], axis=-1), m.preactivations[..., 0, 0]
    predicted = strengths(finite)
    own_row = [v.mean() for v in values] + [m.bulk_activations[..., 0].mean()]
    return own_row, [np.linalg.norm(predicted[0][0]), predicted[1][0], finite.bulk_activations[0]]


widths = np.array(settings.widths)
rows = pool.map(at_width, widths, 400 + np.arange(len(widths)))
table = np.array(list(rows))  # (width, [run, theory], 3)
glue("width_deviation", float(100 * np.abs(table[:, 0] / table[:, 1] - 1).max()), display=False)
fits = [statistics.fit_power_law(widths, column) for column in table[:, 0].T]
exponents = np.array([fit.exponent for fit in fits])

# %% tags=["hide-input"]
passed = statistics.within(exponents[:2], 0.5, 0.03, 1)
claims.record(
    "A15",
    "exponents in N of the first outlier's readout and preactivation",
    exponents[:2],
    0.5,
    np.array([fit.standard_error for fit in fits[:2]]),
    0.03,
    passed=passed,
    note="" if passed else "corrections of relative order 1/N bend the power law at the smallest widths",
    control=claims.Control(
        "activation of the bulk", exponents[2], statistics.within(exponents[2], 0.5, 0.03, 1)
    ),
)
figures.publish(
    figures.scaling_plot,
    "outlier_scaling",
    description="Readout and preactivation of an outlier grow as the root of the width, the bulk does not",
    sizes=widths,
    values=table[:, 0].T,
    exponents=exponents,
    prefactors=[fit.prefactor for fit in fits],
    names=["outlier readout |a|", "outlier preactivation z", "bulk activation"],
    colors=[figures.COLORS["relu"], figures.COLORS["non-lazy"], figures.COLORS["prior"]],
    theory=table[:, 1].T,
    ylabel="size on class 0",
)

# %% [markdown]
# No number is further from the theory at its width than {glue:text}`width_deviation:.1f` %.
#
# ## Coarsening: long after the loss is zero
#
# Nothing in {eq}`eq-sparse-load` prefers one outlier to several parallel ones: $k$ neurons with $a$ and $z$
# divided by $\sqrt k$ have the same output and the same prior cost. What they take from the posterior is
# entropy: each has to leave the bulk. The theory prices an outlier's second copy at


# %%
costs = leading.outlier_entropy_costs * P
glue("cost", float(costs[0]), display=False)
glue("cost_second", float(costs[1]), display=False)

# %% [markdown]
# {glue:text}`cost:.0f` nats for class 0 and {glue:text}`cost_second:.0f` for the others at $P =$
# {glue:text}`P`: of order $P$, where the energy of the network is of order $NP$. So extra outliers must
# disappear in equilibrium, but no force of leading order drives them together: along the line between one
# outlier and two, the energy is flat. First the flatness. We plant networks with every outlier split into
# $k$ parallel copies, let them settle by Hamiltonian Monte Carlo without moves, and compare their mean
# energies.

# %%
finite_small = relu.finite_size(relu.solve(small_task, T), SMALL)
copies = np.array([1, 2, 4])
split_energies, split_counts = [], []
for k in copies:
    start = partial(planting.planted, jax.random.fold_in(key, k), finite_small, copies=int(k))
    run = draw(small_task, 500 + k, small, start, moves=())
    split_counts.append(measure(run, small_task, small)[0].mean())
    split_energies.append(statistics.mean_and_error(run.info.energy[:, 50:] / SMALL**2))
energy, error = np.transpose(split_energies)
squared_cost = relu_squared.solve(small_task).energy * (copies ** (1 / 3) - 1) / SMALL ** (1 / 3)

# %% tags=["hide-input"]
change, scatter = energy[-1] - energy[0], np.hypot(error[0], error[-1])
flat = 2 * (split_counts[-1] - split_counts[0]) / SMALL  # two nats per extra outlier and input
passed = abs(change) < flat
claims.record(
    "A19",
    "energy of the state split fourfold above the merged one, per neuron and input",
    change,
    0.0,
    scatter,
    f"{flat:.3f}: two nats per extra outlier and input, vanishing as 1/N",
    passed=passed,
    note="" if passed else "splitting costs energy at leading order",
    control=claims.Control(
        "max(0, z)², where splitting costs at leading order (theory)",
        squared_cost[-1],
        squared_cost[-1] < flat,
    ),
)

# %% [markdown]
# Now the dynamics. Plain Langevin dynamics from the prior, the dynamics of {cite:t}`vanmeegen2025`, at
# $N = P =$ {glue:text}`small`; and Hamiltonian Monte Carlo with the moves. The common clock is the number of
# gradient evaluations; for Langevin dynamics it is time in units of the step. **Zero loss** is the first
# time at which the squared error is within twice its mean in equilibrium. **The final scheme** is reached
# when the number of outliers has become three and stays so to the end of the run.


# %%
def outliers_of(run):
    """Number of outliers in every sample of a run on the small task."""
    return measure(run, small_task, small, half=False)[0]


late = pending["late"].result()
plain_times = np.concatenate([5 * np.arange(1, 101), 500 + 1000 * np.arange(1, settings.num_langevin + 1)])
plain_counts = np.concatenate([outliers_of(early), outliers_of(late)], axis=1)
plain_errors = np.concatenate([early.info.squared_error, late.info.squared_error], axis=1)


# %%
def clock(run, num_samples):
    """Gradient evaluations up to every stored sample of runs made of segments like `run`."""
    return run.info.num_gradients.mean() * np.arange(1, num_samples + 1)


def two_times(times, counts, errors, equilibrium):
    """Time of zero loss and of the final scheme per chain; the run's length where it is not reached."""
    zero = [times[np.argmax(error < 2 * equilibrium)] for error in errors]
    lasting = [statistics.first_lasting(count == 3) for count in counts]
    final = [times[-1] if index is None else times[index] for index in lasting]
    return np.array(zero), np.array(final), all(index is not None for index in lasting)


moved_times, equilibrium = clock(moved, moved_counts.shape[1]), moved.info.squared_error.mean()
zero, final, reached = two_times(plain_times, plain_counts, plain_errors, equilibrium)
moved_zero, moved_final, _ = two_times(moved_times, moved_counts, moved_errors, equilibrium)
wide_times = clock(samples, history.shape[1])
wide_zero = two_times(wide_times, history, errors, samples.info.squared_error.mean())[0]

# %% tags=["hide-input"]
ratio, moved_ratio = (final / zero).min(), (moved_final / moved_zero).max()
for name, value in dict(zero=zero.mean(), final=final.min(), ratio=ratio, moved_ratio=moved_ratio).items():
    glue(name, float(value), display=False)
remark = "" if reached else "lower bound, as not all outliers have merged by the end of the run; "
claims.record(
    "A19",
    "time of the final scheme over time of zero loss, plain Langevin dynamics (smallest of the chains)",
    ratio,
    tolerance="at least 100",
    passed=bool(ratio >= 100),
    note=f"{remark}zero loss after {zero.round().tolist()} steps, final scheme after {final.tolist()}",
    control=claims.Control("with the posterior-invariant moves", moved_ratio, bool(moved_ratio >= 100)),
)

# %% tags=["hide-input"]
runs = [(f"Langevin, N = {SMALL}", plain_times, count) for count in plain_counts]
runs += [(f"moves, N = {SMALL}", moved_times, count) for count in moved_counts]
runs += [(f"moves, N = {N}", wide_times, count) for count in history]
longest = max(len(times) for _, times, _ in runs)
times, numbers = (
    np.stack([np.pad(run[k], (0, longest - len(run[k])), mode="edge") for run in runs]) for k in (1, 2)
)
figures.publish(
    figures.curves,
    "coarsening",
    description="Outliers merging over logarithmic time, long after zero loss, and far sooner with moves",
    x=times,
    values=numbers,
    marks=np.concatenate([zero, moved_zero, wide_zero]),
    names=[name for name, _, _ in runs],
    colors=[figures.COLORS["relu"], figures.COLORS["samples"], figures.COLORS["non-lazy"]],
    styles=["steps-post"],
    scales=("log", "log"),
    levels=[3],
    xlabel="gradient evaluations",
    ylabel="number of outliers",
)

# %% [markdown]
# Dotted lines mark zero loss; "moves" is Hamiltonian Monte Carlo with them. Plain dynamics fits the data
# after {glue:text}`zero:.0f` steps and needs {glue:text}`final:.0f` or more to find its final scheme, at
# least {glue:text}`ratio:.0f` times as long; with moves the ratio is {glue:text}`moved_ratio:.0f`.

# %% [markdown]
# ## What decides the number of outliers
#
# Nothing said so far fixes the number to one per class. We let the theory say how it depends on the target
# of the other classes, $y_-$. It reports the fewest outliers that solve the task, and the dimension of the
# family of equivalent solutions: where an outlier answers to several classes at once, two of them can be
# rotated into each other at no cost, and only what the rotation leaves alone can be compared with samples.
# That is the bulk. We measure it by the median over all neurons, which a few outliers do not move.

# %%
y_grid = np.concatenate([np.arange(-0.5, 0.95, 0.05), [1.1, 1.2]]).round(2)


def predict(y_minus, ratios=RATIOS):
    """The leading-order theory of the small task at another target or other class ratios."""
    return relu.solve(tasks.toy(SMALL, class_ratios=ratios, y_minus=float(y_minus), seed=seed), T)


scan = [predict(y) for y in y_grid]
fewest = np.array([len(s.outlier_readouts) for s in scan])
classes_each = np.array([(s.outlier_preactivations > 1e-6).sum(1).max() for s in scan])
free = np.array([s.num_free_directions for s in scan])


# %%
def sample_at(y_minus, stream, ratios=RATIOS):
    """Samples from the prior at another target: counts, bulk activations with errors, and the theory."""
    other = tasks.toy(SMALL, class_ratios=ratios, y_minus=float(y_minus), seed=seed)
    _, _, run = from_prior(other, stream, small, settings.small_segments)
    means = coding.class_means(np.maximum(run.preactivations[0][:, 50:], 0), other.labels)
    bulk = np.median(means, axis=-2)  # over neurons; outliers too weak to be counted do not move it
    return measure(run, other, small)[0], *statistics.mean_and_error(bulk), predict(y_minus, ratios)


ratio_cases = [(0.34, 0.33, 0.33), (0.6, 0.3, 0.1)]
cases = [(y, 800 + 10 * k, RATIOS) for k, y in enumerate(settings.sweep)]
cases += [(-0.5, 900 + 10 * k, ratios) for k, ratios in enumerate(ratio_cases)]
results = list(pool.map(sample_at, *zip(*cases, strict=True)))
swept, swept_ratios = results[: len(settings.sweep)], results[len(settings.sweep) :]

# %%
rows = [(f"y₋ = {y}", row) for y, row in zip(settings.sweep, swept, strict=True)]
rows += [(f"ratios {r}", row) for r, row in zip(ratio_cases, swept_ratios, strict=True)]
for name, (number, mean, error, solution) in rows:
    codes = [coding.code_name(z > 1e-6) for z in solution.outlier_preactivations]
    print(f"{name}: theory {codes}, free directions {solution.num_free_directions};", end=" ")
    print(f"sampled {number.min()}–{number.max()} outliers, bulk {mean.round(3)}", end=" ")
    print(f"± {error.max():.3f}, theory {solution.bulk_activations.round(3)}")

# %% tags=["hide-input"]
unique = [row for _, row in rows if row[3].num_free_directions == 0]
families = [row for _, row in rows if row[3].num_free_directions > 0]
agree = [bool(np.all(number == len(s.outlier_readouts))) for number, _, _, s in unique]
gaps = [[np.abs(row[1] - row[3].bulk_activations).max() for row in group] for group in (unique, families)]
wrong_gap = max(np.abs(row[1] - leading.bulk_activations).max() for row in unique)
glue("family_gap", float(max(gaps[1])), display=False)
passed = all(agree) and max(gaps[0]) < 0.05
claims.record(
    "A15",
    "other targets and ratios with unique outliers: number as predicted, and the bulk's activation off by",
    max(gaps[0]),
    0.0,
    tolerance="0.05, several times 1/N; and the predicted number of outliers in every sample",
    passed=passed,
    note=f"number of outliers as predicted in {sum(agree)} of {len(agree)} cases",
    control=claims.Control("the theory for y₋ = −1/2 throughout", wrong_gap, wrong_gap < 0.05),
)

# %% [markdown]
# Where outliers form families the number in a sample is no fixed quantity: the moves turn them into each
# other, and some fall below the threshold. The bulk of these networks is off the leading order by up to
# {glue:text}`family_gap:.2f` at $N =$ {glue:text}`small`, more than elsewhere. The check above was to hold
# for all targets; it is limited to unique outliers since it failed on the families. Outliers that are
# nearly silent on a class feel a further force of order $1/N$ along the family, for which we have no closed
# theory; this part is a prediction of the leading order that our sizes do not settle.

# %% tags=["hide-input"]
sampled_number = np.array([number.mean() for number, *_ in swept])
figures.publish(
    figures.curves,
    "number_of_outliers",
    description="Number of outliers, classes of each, and free directions over the target of other classes",
    x=y_grid,
    values=[fewest, classes_each, free],
    sampled_x=settings.sweep,
    sampled=[sampled_number, np.full(len(swept), np.nan), np.full(len(swept), np.nan)],
    sampled_errors=[[number.std() for number, *_ in swept], np.zeros(len(swept)), np.zeros(len(swept))],
    names=["number of outliers", "most classes of one", "free directions"],
    widths=(4.5, 2.5, 1.2),  # they lie on each other in places
    xlabel=r"target of other classes $y_-$",
    ylabel="number",
)

# %% tags=["hide-input"]
figures.publish(
    figures.curves,
    "bulk_activations",
    description="Mean activation of the bulk on each class over the target: samples and leading-order theory",
    x=y_grid,
    values=np.transpose([s.bulk_activations for s in scan])[:2],
    sampled_x=settings.sweep,
    sampled=np.transpose([mean for _, mean, _, _ in swept])[:2],
    sampled_errors=np.transpose([error for _, _, error, _ in swept])[:2],
    names=["class 0", "classes 1 and 2"],
    xlabel=r"target of other classes $y_-$",
    ylabel="bulk activation",
)

# %% [markdown]
# ## Neither the kink nor homogeneity is needed
#
# **Softplus**, $\log(1+e^z)$, differs from ReLU by an amount that vanishes at large $|z|$. Outliers, which
# live at large $z$, obey the same equations; only the bulk's averages change. The theory carries over
# unchanged.
#
# **Squared ReLU**, $\max(0, z)^2$, does not: $g(s)$ diverges at $s = \tfrac12$, the energy
# {eq}`eq-sparse-single` is unbounded for any field, and $\sqrt N$ is the wrong scale. A neuron's
# contribution is now of third degree, so $a, z \sim N^{1/3}$ suffice for one of order one, and the posterior
# minimises
#
# $$
# \sum_i \tfrac12\Bigl(|\bar a_i|^2 + \sum_c w_c\,\bar z_{ic}^2\Bigr)
# \quad\text{subject to}\quad \sum_i \bar a_i\,\bar z_{ic}^2 = y_c .
# $$ (eq-sparse-squared)
#
# Splitting an outlier into $k$ now costs a factor $k^{1/3}$ at leading order; there is a force that merges.
# Corrections are of relative order $N^{-1/3}$, the leading one is included, and the tolerance is wider. For
# the variation within a class the limit is the one of ReLU networks. (Earlier versions of this chapter had a
# wider one here, chosen after a run that was too short; it is not needed.)

# %%
other_runs = {
    name: measure(pending[name].result()[2], small_task, Network(1, SMALL, name)) for name in others
}
soft = relu.finite_size(relu.solve(small_task, T, nonlinearity="softplus"), SMALL)
square = relu_squared.solve(small_task, T, num_neurons=SMALL)
cube_root = SMALL ** (1 / 3)
by_class = square.outlier_preactivations.argmax(0)
predictions = {
    "softplus": strengths(soft),
    "relu_squared": (
        cube_root * square.outlier_readouts[by_class],
        cube_root * square.outlier_preactivations[by_class].diagonal(),
    ),
}

# %% tags=["hide-input"]
for name, (number, m) in other_runs.items():
    values = as_row(m.readouts.mean((0, 1)), np.diagonal(m.preactivations.mean((0, 1))))
    target, allowed = as_row(*predictions[name]), dict(softplus=0.04, relu_squared=0.1)[name]
    worst = np.abs(values / target - 1).max()
    three = bool(np.all(number == 3))
    claims.record(
        "A18",
        f"{name}: readouts and preactivations of the outliers, of which there are three in every sample",
        values,
        target,
        tolerance=f"{allowed} of each, and three outliers",
        passed=three and worst < allowed,
        note=f"{number.min()} to {number.max()} outliers, largest deviation {worst:.3f}",
        control=claims.Control(
            "a lazy ReLU network, outliers", lazy_counts.mean(), bool(np.all(lazy_counts == 3))
        ),
    )

# %% tags=["hide-input"]
for name, (_, m) in other_runs.items():
    mean, error = statistics.mean_and_error(m.variation)
    limit = 0.02 * np.sqrt(500 / SMALL)  # as for ReLU
    claims.record(
        "A18",
        f"{name}: coefficient of variation of each outlier within its class",
        mean,
        limit,
        error,
        f"below {limit:.3f}",
        passed=bool(np.all(mean < limit)),
        note="" if np.all(mean < limit) else "outliers that still share a class are weaker, so vary more",
        control=claims.Control(
            "neurons of a ReLU network's bulk", bulk_variation, bool(np.all(bulk_variation < limit))
        ),
    )

# %% [markdown]
# ## Three hidden layers
#
# For deeper ReLU networks there is no theory yet; we look at samples. {cite:t}`vanmeegen2025` show one
# network with $L = 3$, $N = P = 100$: two outliers in the first layer, for the two small classes, several
# that share classes in the second, and three in the feature layer. We draw {glue:text}`num_seeds` chains
# from different starts at $N = P =$ {glue:text}`deep_size` and count in every layer of their last sample.
# Hidden layers leave the prior slowly, so trajectories are long, about one unit of the prior's standard
# deviation. The moves act on the feature layer only.

# %%
seeds = settings.num_seeds
glue("num_seeds", seeds, display=False)
glue("deep_size", M, display=False)
deep, restarted = pending["deep"].result()
layers = [np.asarray(deep_network.phi(z[:, -1])) for z in deep.preactivations]
found = [coding.outliers(activations, deep_task.labels) for activations in layers]
layer_counts = np.stack([f.counts for f in found], axis=1)  # (seeds, layer)
most_shared = np.stack([f.codes.sum(1).max(-1) for f in found], axis=1)  # outliers of one class

# %%
at_prior = Posterior(deep_task, deep_network, T)
untrained = [at_prior.preactivations(at_prior.prior(jax.random.fold_in(key, k))) for k in range(seeds)]
prior_counts = np.array(
    [[coding.outliers(np.maximum(z, 0), deep_task.labels).counts for z in zs] for zs in untrained]
)
median, prior_median = np.median(layer_counts, axis=0), np.median(prior_counts, axis=0)
quartiles = np.subtract(*np.percentile(layer_counts, [75, 25], axis=0))
shared = np.median(most_shared[:, 1])
num_codes = np.array([len(np.unique(c[m], axis=0)) for c, m in zip(found[2].codes, found[2].mask)])
checks = (
    ("layer 1: number of outliers", median[0], 2, quartiles[0], median[0] == 2, prior_median[0]),
    ("layer 2: outliers that share a class", shared, "2 or more", None, shared >= 2, prior_median[1]),
    ("feature layer: number of outliers", median[2], 3, quartiles[2], median[2] == 3, prior_median[2]),
    ("feature layer: codes in use", np.median(num_codes), 3, None, np.all(num_codes == 3), prior_median[2]),
)

# %%
for layer, (codes, mask) in enumerate(zip((f.codes for f in found), (f.mask for f in found)), 1):
    sets = [" ".join(map(coding.code_name, np.unique(c[m], axis=0))) for c, m in zip(codes, mask)]
    print(f"layer {layer}, codes in use:", {kind: sets.count(kind) for kind in sorted(set(sets))})

# %% tags=["hide-input"]
for name, value, published, spread, passed, control in checks:
    claims.record(
        "A17",
        f"{name}, median over seeds and interquartile range",
        value,
        published,
        spread,
        "the median as published",
        passed=bool(passed),
        note=f"outliers in layers 1 to 3, seed by seed: {layer_counts.tolist()}",
        control=claims.Control("networks drawn from the prior", control, bool(control >= 2)),
    )

# %% [markdown]
# (These statements were one check at first; they are apart since it failed because of the feature layer.)
#
# In the feature layer most classes have several parallel outliers. Is the run too short for them to merge? We
# rotate the outliers of each code into a single one, and go on from there.


# %%
def feature_counts(run):
    """Number of outliers in the feature layer of every sample."""
    return coding.outliers(np.maximum(run.preactivations[-1], 0), deep_task.labels).counts


before, after = feature_counts(deep), feature_counts(restarted)
merged = merge_parallel(deep.final, layers[2], deep_task.labels)
merged_z = np.asarray(jax.vmap(at_prior.preactivations)(merged)[-1])
merged_count = coding.outliers(np.maximum(merged_z, 0), deep_task.labels).counts.mean()
deviations = np.hypot(before.mean(1).std(ddof=1), after.mean(1).std(ddof=1))
error = deviations / np.sqrt(seeds)
for name, value in dict(before=before.mean(), after=after.mean(), merged=merged_count).items():
    glue(f"deep_{name}", float(value), display=False)

# %% tags=["hide-input"]
passed = statistics.within(after.mean(), before.mean(), error)
claims.record(
    "A17",
    "feature layer: mean number of outliers, 40 to 80 trajectories after a restart with merged ones",
    after.mean(),
    before.mean(),
    error,
    "3 standard errors of the number before",
    passed=passed,
    note="" if passed else "the two ends have not met: one of the runs is too short",
    control=claims.Control(
        "the merged networks", merged_count, statistics.within(merged_count, before.mean(), error)
    ),
)

# %% [markdown]
# From {glue:text}`deep_merged:.1f` outliers the restarted chains are back at {glue:text}`deep_after:.1f`,
# where they had been {glue:text}`deep_before:.1f`: outliers that have just been merged split again. With one
# hidden layer a second copy of an outlier has to be silent on every single input of the other classes, at a
# cost in entropy of order $P$. In the feature layer of a deep network preactivations follow the few outliers
# of the layer below, and a copy is silent on a class as a whole. We think that this is why splitting is
# cheap here. What is fixed are the codes, one for each class. How many neurons share each is not, at this
# size and by our count; the published network is one sample of many.

# %% tags=["hide-input"]
figures.publish(
    figures.bars,
    "deep_counts",
    description="Number of outliers in each layer over the seeds",
    values=[[[np.mean(layer == n) for n in np.unique(layer_counts)] for layer in np.transpose(layer_counts)]],
    groups=[f"layer {k}" for k in (1, 2, 3)],
    names=[f"{n} outliers" for n in np.unique(layer_counts)],
    stacked=True,
    ylabel="share of the seeds",
)

# %% tags=["hide-input"]
shown = [activations[0][coding.sort_by_activity(activations[0])[:12]] for activations in layers]
figures.publish(
    figures.activation_matrix,
    "deep_activations",
    description="Twelve most active neurons of each layer of one network: outliers in all of them",
    activations=np.stack([phi / np.sqrt(np.square(phi).mean()) for phi in shown]),
    labels=deep_task.labels,
    titles=["layer 1", "layer 2", "layer 3"],
    colorbar_label="activation / its root mean square",
)

# %% [markdown]
# ## Takeaway
#
# - A wide ReLU network solves the task with one outlier neuron for each class, whose readouts, activities
#   and number follow from a convex problem without assumptions on them. The bulk stays near the prior.
# - Outliers do not fluctuate within a class and grow as $\sqrt N$; for $\max(0,z)^2$ as $N^{1/3}$.
# - The scheme is the last thing to appear: the loss is zero long before parallel outliers have merged,
#   because at leading order nothing pays for merging. What is seen after training for a while is therefore a
#   set of outliers with the right codes, but more of them.
# - With three hidden layers there are outliers in all of them; in the feature layer a class may have several.
# - How many outliers there are depends on the targets. Where classes are alike enough, outliers answer to
#   several classes at once and can be rotated into each other; the bulk's code is then all that is fixed.
#
# **Limits.** The theory is for one hidden layer and orthogonal inputs. In the families of rotated outliers
# only the leading order in $1/N$ is at hand, and which member of the family is preferred at finite $N$ is
# left open. Times of coarsening are measured at one size, and for the dynamics in coordinates in which all
# weights have the same prior variance.
