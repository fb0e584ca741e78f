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
# # Your own task: inputs, classes, nonlinearity
#
# This page takes any inputs, any classes and targets, and any elementwise nonlinearity. It draws networks
# that have learned the task from the {term}`posterior`, says whether the samples are in {term}`equilibrium`,
# solves the theory where there is one, and names the coding scheme. Here it runs on digits; how to run it on
# a file of your own is shown below.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
data: str | None = None  # your .npz or .csv file; None: MNIST digits 0, 1, 2
nonlinearity = "sigmoidal"  # a name of the library's, or of jax.nn, such as "gelu"
depth = 1  # hidden layers
width: int | None = None  # N, neurons in each
temperature = 0.01  # T, rescaled as in the primer
num_networks: int | None = None  # independent chains
num_samples: int | None = None  # posterior samples of each

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import coding, diagnose, paths, tasks
from coding_schemes.data import read_inputs
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import convergence, sample
from companion import figures, presets
from companion.publish import publish
from myst_nb import glue
from your_own_task import maps, runs

given = {"width": width, "num_networks": num_networks, "num_samples": num_samples}
sizes = presets.sizes(runs, preset, **given)
N, T = sizes.width, temperature

# %% tags=["hide-input"]
if data is None:
    task = tasks.mnist(sizes.num_inputs, 0, y_minus=-0.5, seed=seed)
else:
    inputs, labels, targets, names = read_inputs(paths.located(data))
    task = tasks.own(inputs, labels, targets, name="own")
network = Network(depth, N, runs.elementwise(nonlinearity))
posterior = Posterior(task, network, T)
samples = sample(
    posterior,
    jax.random.key(seed),
    num_samples=sizes.num_samples,
    num_chains=sizes.num_networks,
    store=("preactivations", "outputs"),
)
layers = samples.activations()[:, -1]  # of the last sample of every chain
found = [diagnose(phi, task.labels) for phi in layers]
order = coding.sort_by_code(found[0].codes, layers[0])
publish(
    figures.activation_matrix,
    "layer",
    caption=f"A network that learned the task, and is {found[0].scheme}: activations of its last hidden "
    "layer, neurons sorted by their code, inputs by class.",
    tail=f"N = {N}, P = {task.num_inputs}, T = {T:g}. In none of the papers.",
    activations=layers[0][order],
    labels=task.labels,
)

# %% [markdown]
# *Needs:* nothing but data; a few dozen inputs will do, and a few hundred are no burden. Begin at $T = 0.01$,
# and lower it if the targets are missed by much (below). *Reading:* 4 minutes.
#
# Try it: from arrays to a coding scheme, with a task of two features.

# %%
import jax
import numpy as np
from coding_schemes import diagnose, tasks, theory
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import convergence, sample

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 40)  # of 40 inputs
X = rng.standard_normal((2, 40)) + 2 * labels  # (features, inputs)
mine = tasks.own(X, labels)  # targets 1 and −1/2, inputs scaled to |x|² = N0 on average
small = Network(depth=1, width=20, nonlinearity="tanh")
learner = Posterior(mine, small, temperature=1.0)
drawn = sample(learner, jax.random.key(0), num_samples=400, num_chains=4)
print(convergence(drawn, learner))
print(diagnose(drawn.activations()[0, -1], mine.labels))
print(f"theory: {len(theory.solve(mine, small, temperature=1.0).probabilities)} kinds of neurons")

# %% [markdown]
# The printed lines say whether the samples look like equilibrium, which scheme one of the networks has, and
# how many kinds of neurons theory has. A kind is a group of neurons that are alike in readouts and
# activations.
#
# For arrays in a file,
#
# ```bash
# make chapter NAME=your_own_task data=my.npz nonlinearity=tanh width=200
# ```
#
# with arrays `inputs` (features, inputs), `labels` (inputs) and perhaps `targets` (inputs, outputs), or a
# `.csv` with one line per input, a column `label` and a column for each feature. A file that does not fit is
# refused. The message names the array and says what was expected of it.

# %%
print(task.num_inputs, "inputs of dimension", task.input_dim, "in classes of", task.class_counts.tolist())

# %% [markdown]
# ## Theory, where there is one
#
# Linear networks of any depth have a theory for any inputs. So do networks with one hidden layer, if their
# nonlinearity is bounded or grows like $z$. Deeper networks with a bounded nonlinearity have one for
# orthogonal inputs in a few classes, or for any inputs if there are at most thirty. `theory.solve` has none
# for deep ReLU networks; two layers on special inputs are in the chapter on
# [condensation](condensation.ipynb). Samples need no theory.

# %%
solution, sentence = runs.predicted(task, network, T)
print(sentence)

# %% [markdown]
# ## Samples of the posterior
#
# The sampler takes the moves that this network needs to reach equilibrium ([how](../book/samplers.md)), and
# says whether the samples look like it. If codes hardly change within a chain, it says no. Then the schemes
# and shares below are those of single networks, not of the posterior. For averages, run longer, or start
# from the theory's solution too, as the chapters do. The last lines compare the shares of neurons with each
# code with theory's, where there is one for sigmoidal networks.

# %%
print(convergence(samples, posterior).verdict)
for scheme in dict.fromkeys(each.scheme for each in found):
    print(f"{scheme}: {sum(each.scheme == scheme for each in found)} of {len(found)} networks")
print(found[0].verdict)
if solution is not None and nonlinearity == "sigmoidal":
    print("\n".join(runs.code_shares(samples.codes(), solution)))

# %% [markdown]
# ## How well are the targets met?
#
# At temperature $T$ the mean output misses each target by $T$ times the pull of that input, the dual field of
# {eq}`primer-residual`. A miss is small if it is small beside the distance of the targets of two classes.

# %%
output = samples.outputs.mean((0, 1), dtype=float)
print(f"rms of target − mean output: {((task.targets - output) ** 2).mean() ** 0.5:.4f}")
if solution is not None:
    print(f"theory: {((task.targets - solution.predict(task.inputs)) ** 2).mean() ** 0.5:.4f}")

# %% [markdown]
# ## Where do the schemes stop?
#
# A scheme is a statement about wide networks, many inputs and low temperatures. How wide, how many, how low?
# We sampled small networks that learned the toy task, at several widths, numbers of inputs and temperatures.
# Half of them were cooled from the prior, half started in theory's solution. The diagnosis of each says
# whether it has the scheme of its nonlinearity. All have one hidden layer, and targets as in the paper:
# $y_- = 0$ for linear networks, ½ for sigmoidal and −½ for ReLU ones. The ring marks your $N$ and
# $T$ in the panel of the nearest $P$, on a map of another task.

# %% tags=["hide-input"]
stored = maps.stored()
rows = [f"{scheme}\n({name})" for name, scheme in maps.SCHEMES.items()]
own = [k for k, name in enumerate(maps.SCHEMES) if name == nonlinearity and depth == 1]
ring = "; ring: size and temperature of this page's network, whose task is another one" * bool(own)
publish(
    maps.panels,
    "scheme_maps",
    caption="Above some temperature the diagnosis no longer finds the scheme. With few inputs, or fewer than "
    "thirty neurons, it calls hardly any network sparse. "
    f"Color: share of networks that have the scheme of their nonlinearity{ring}.",
    tail=f"{2 * int(stored['networks'])} networks at each place, toy task. In none of the papers.",
    shares=stored["shares"],
    widths=stored["widths"],
    inputs=stored["inputs"],
    temperatures=stored["temperatures"],
    rows=rows,
    yours=np.array([N, task.num_inputs, T]),
    own=own,
)

for name in maps.SCHEMES:
    low, high = maps.bracket(stored["temperatures"], maps.ends(stored, name))
    glue(f"end_{name}", f"{low:.2g} and {high:.2g}", display=False)
low, high = maps.bracket(stored["temperatures"], maps.ends(stored, "sigmoidal")[1:])
glue("end_of_many", f"{low:.2g} and {high:.2g}", display=False)
glue("nowhere", int(np.isnan(maps.ends(stored, "relu")).sum()), display=False)

# %% [markdown]
# A scheme ends at the temperature at which half of the networks have it. The map's temperatures lie half a
# decade apart, and we give those between which the ends of all sizes lie. Analog coding ends between $T =$
# {glue:text}`end_linear`. There the test ends and not the scheme: the law of a linear network is the same
# under rotations at any temperature, but single networks no longer show the classes. They show them the
# longer the more neurons there are, since an average over neurons has to stand out from the noise of single
# ones.
#
# Redundant coding ends between {glue:text}`end_sigmoidal`, where codes melt
# ([theory](phases.ipynb) has a critical temperature). With 36 inputs and more it ends between
# {glue:text}`end_of_many` for any $N$.
#
# Sparse coding ends between {glue:text}`end_relu`, and most networks never have it at {glue:text}`nowhere` of
# nine sizes. Three of these have twelve neurons. That is the diagnosis's doing: outliers may be no more than
# a tenth of the neurons, so three outliers need thirty. The others have twelve inputs. There a neuron is
# easily silent on all other classes, and a crowd may carry each class, as in the chapter on
# [condensation](condensation.ipynb); on this map we have not counted it.
#
# All of this holds for the toy task. The task `mine` above, for one, is still redundant at $T = 1$.
#
# ## What to take away
#
# - `theory.solve` has a theory of linear networks and of one hidden layer for any inputs, of deep sigmoidal
#   networks for few or orthogonal ones, and none of deep ReLU networks. Samples need no theory.
# - Do not rely on the diagnosis of one network: look at several. `samples.codes()` and
#   `samples.occupancies()` have all of them.
#
# **Limits.** Inputs are scaled to $|x|^2 = N_0$ on average. The temperature decides how exactly targets are
# met, and above a critical one nothing is learned.
#
# ## Exercises
#
# **1.** Predict first: which scheme does a ReLU network have that has learned the task `mine` of the first
# cell?

# %% tags=["solution"]
rectified = Network(depth=1, width=60, nonlinearity="relu")
again = sample(Posterior(mine, rectified, temperature=0.01), jax.random.key(1), num_samples=50)
for phi in again.activations()[:, -1]:
    print(diagnose(phi, mine.labels).verdict)

# %% [markdown]
# None of the three, as a rule. Few neurons carry the classes, as the participation says. But hardly any of
# them stands out so far that it counts as an outlier, and outliers hold less than the three quarters of the
# differences that a sparse scheme needs. Inputs of one class are alike here, so that a ReLU neuron can easily
# be silent on all of them ([condensation](condensation.ipynb)). The samples are too few to show equilibrium.
#
# **2.** Heat the network until it no longer learns. What is the layer called then?

# %% tags=["solution"]
for hot in (0.1, 1.0, 10.0):
    heated = sample(Posterior(mine, small, temperature=hot), jax.random.key(2), num_samples=20)
    print(hot, diagnose(heated.activations()[0, -1], mine.labels).verdict)

# %% [markdown]
# Undecided, at $T = 10$. At $T = 1$ it is still redundant.
#
# **3.** Shuffle the labels. Does the network still find a code?

# %% tags=["solution"]
shuffled = tasks.own(X, rng.permutation(labels))
stored = {"store": ("preactivations", "outputs")}
print(f"in the larger class: {max(np.bincount(shuffled.labels)) / 40:.0%}")
for cold in (0.01, 0.0003):
    hopeless = Posterior(shuffled, small, temperature=cold)
    learned = sample(hopeless, jax.random.key(3), num_samples=50, **stored)
    right = learned.outputs.mean((0, 1)).argmax(1) == shuffled.labels
    schemes = [diagnose(phi, shuffled.labels).scheme for phi in learned.activations()[:, -1]]
    print(f"T = {cold}: {right.mean():.0%} with the right label; {', '.join(schemes)}")

# %% [markdown]
# Not reliably. At the higher temperature it learns the labels only in part. At the lower one it learns all or
# nearly all of them, since any labels of so few inputs can be learned. But networks of the same posterior are
# called by different names: these labels are learned input by input, and class means, which the diagnosis
# looks at, show little of that. None of it says anything about new inputs.
