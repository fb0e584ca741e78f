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
# *Needs:* nothing but data; start with a few hundred inputs. *Reading:* 4 minutes.
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
# orthogonal inputs in a few classes, or for any inputs if there are at most thirty. Deep ReLU networks have
# none here. Samples need no theory.

# %%
solution, sentence = runs.predicted(task, network, T)
print(sentence)

# %% [markdown]
# ## Samples of the posterior
#
# The sampler takes the moves that this network needs to reach equilibrium ([how](../book/samplers.md)), and
# says whether the samples look like it. It says no where codes hardly change within a chain. Then each
# network keeps a set of codes of its own: the schemes below are those of single networks, and shares of
# codes are no averages over the posterior. For averages, run longer, or start from the theory's solution
# too, as the chapters do.

# %%
print(convergence(samples, posterior).verdict)
for scheme in dict.fromkeys(each.scheme for each in found):
    print(f"{scheme}: {sum(each.scheme == scheme for each in found)} of {len(found)} networks")
print(found[0].verdict)

# %% [markdown]
# ## How well are the targets met?
#
# At temperature $T$ the mean output misses its target by $T$ times the dual field, {eq}`primer-residual`.

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
# whether it has the scheme of its nonlinearity. The ring is your network.

# %% tags=["hide-input"]
stored = maps.stored()
rows = [f"{scheme}\n({name})" for name, scheme in maps.SCHEMES.items()]
publish(
    maps.panels,
    "scheme_maps",
    caption="Every scheme ends at a temperature, and sparse coding needs many neurons and inputs, too. "
    "Color: share of networks that have the scheme of their nonlinearity; squares would be small where the "
    "two starts disagreed; ring: the network of this page, at the nearest number of inputs.",
    tail=f"{2 * int(stored['networks'])} networks at each place, toy task. In none of the papers.",
    shares=stored["shares"],
    widths=stored["widths"],
    inputs=stored["inputs"],
    temperatures=stored["temperatures"],
    rows=rows,
    yours=np.array([N, task.num_inputs, T]),
    own=[k for k, name in enumerate(maps.SCHEMES) if name == nonlinearity] or list(range(len(rows))),
)

for name in maps.SCHEMES:
    found_ends = maps.ends(stored, name)
    low, high = np.nanmin(found_ends), np.nanmax(found_ends)
    glue(f"end_{name}", f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g}", display=False)
glue("nowhere", int(np.isnan(maps.ends(stored, "relu")).sum()), display=False)

# %% [markdown]
# A scheme ends at the temperature at which half of the networks have it. We interpolate between the map's
# temperatures, which lie half a decade apart. Analog coding ends at $T =$ {glue:text}`end_linear`. The end
# lies higher the more neurons there are, since an average over neurons has to stand out from the noise of
# single ones. Redundant coding ends at {glue:text}`end_sigmoidal`, where codes melt. With 36 inputs and more
# it ends between the same two temperatures of the map for any $N$. Sparse coding ends at
# {glue:text}`end_relu`, and is not there at any temperature at {glue:text}`nowhere` of nine sizes. Twelve
# neurons are too few to tell a few from many. With twelve inputs a neuron is easily silent on all other
# classes, so that a crowd carries each class ([condensation](condensation.ipynb)). All of this holds for the
# toy task. The task `mine` above, for one, is still redundant at $T = 1$.
#
# ## What to take away
#
# - There is a theory of linear networks and of one hidden layer for any inputs, of deep sigmoidal networks
#   for few or orthogonal ones, and here none of deep ReLU networks. Samples need no theory.
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
print(diagnose(again.activations()[0, -1], mine.labels).verdict)

# %% [markdown]
# None of the three. Inputs of class 1 are alike here, so that a ReLU neuron can easily be silent on all of
# them. A fifth of the neurons do so, which is too many for a sparse scheme
# ([condensation](condensation.ipynb)).
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
learned = sample(Posterior(shuffled, small, temperature=0.01), jax.random.key(3), num_samples=50, **stored)
print(diagnose(learned.activations()[0, -1], shuffled.labels).verdict)
right = learned.outputs.mean((0, 1)).argmax(1) == shuffled.labels
print(f"inputs with the right label: {right.mean():.0%}")

# %% [markdown]
# Yes, although at this temperature it learns the labels only in part. Set `temperature=0.0003`, and it learns
# them all. Any labels of so few inputs can be learned, and a code is a way to learn them. It says nothing
# about new inputs.
