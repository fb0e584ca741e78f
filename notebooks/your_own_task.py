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
# **At a glance.** Any inputs, any classes and targets, any elementwise nonlinearity: this page draws a
# network that learned them from the posterior, says whether the samples are in equilibrium, solves the
# theory where there is one, and names the coding scheme. On the page it runs on digits; with your own file
# it is
#
# ```bash
# make chapter NAME=your_own_task data=my.npz nonlinearity=tanh width=200
# ```
#
# with arrays `inputs` (features, inputs), `labels` (inputs) and perhaps `targets` (inputs, outputs), or a
# `.csv` with one line per input, a column `label` and a column for each feature.
#
# *Needs:* nothing but data; start with a few hundred inputs. *Reading:* 4 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
data: str | None = None  # your .npz or .csv file; None: MNIST digits 0, 1, 2
nonlinearity = "sigmoidal"  # a name of the library's, or of jax.nn, such as "gelu"
depth = 1  # hidden layers
width: int | None = None  # N, neurons in each
temperature = 0.01  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import coding_schemes
from coding_schemes import tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import convergence, sample
from companion import figures, presets
from experiments import your_own

quick = {"width": 50, "num_inputs": 45, "num_samples": 60}
paper = quick | {"width": 200, "num_inputs": 200, "num_samples": 200}
given = {"width": width, "num_samples": num_samples}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
N, T = settings.width, temperature

# %% [markdown]
# ## The task and the network

# %%
if data is None:
    task = tasks.mnist(settings.num_inputs, 0, y_minus=-0.5, seed=seed)
else:
    task = your_own.read_task(your_own.located(data))
network = Network(depth, N, your_own.elementwise(nonlinearity))
print(task.num_inputs, "inputs of dimension", task.input_dim, "in classes of", task.class_counts.tolist())

# %% [markdown]
# ## Theory, where there is one

# %%
theory, sentence = your_own.predicted(task, network, T)
print(sentence)

# %% [markdown]
# ## Samples of the posterior
#
# The sampler takes the moves that this network needs to reach equilibrium ([how](../book/samplers.md)), and
# says whether the samples look like it. Where codes hardly change within a chain it says no (R-hat is
# infinite if a number never changed): the scheme below is then that of single networks, and shares of
# codes are no posterior averages. For those, run longer, or from two ends, as the chapters do.

# %%
posterior = Posterior(task, network, T)
samples = sample(
    posterior, jax.random.key(seed), num_samples=settings.num_samples, store=("preactivations", "outputs")
)
print(convergence(samples, posterior).verdict)

# %% [markdown]
# ## The scheme

# %%
activations = samples.activations()[0, -1]
found = coding_schemes.diagnose(activations, task.labels)
print(found.verdict)

# %% tags=["hide-input"]
figures.publish(
    figures.activation_matrix,
    "layer",
    caption="One sampled network that learned the task: activations of its last hidden layer, neurons "
    f"sorted by their code, inputs by class. Diagnosis: {found.scheme}. N = {N}, P = {task.num_inputs}, T "
    f"= {T:g}. Not in the papers.",
    activations=your_own.shown(activations, task.labels, found)["activations"],
    labels=task.labels,
)

# %% [markdown]
# ## How well are the targets met?
#
# At temperature $T$ the mean output misses its target by $T$ times the dual field, {eq}`primer-residual`.

# %%
output = samples.outputs.mean((0, 1), dtype=float)
print(f"rms of target − mean output: {((task.targets - output) ** 2).mean() ** 0.5:.4f}")
if theory is not None:
    print(f"theory: {((task.targets - theory.predict(task.inputs)) ** 2).mean() ** 0.5:.4f}")

# %% [markdown]
# ## What to take away
#
# - Theory takes any inputs for linear and one-layer bounded networks, only orthogonal ones for ReLU and deep
#   sigmoidal networks; samples need nothing.
# - What the diagnosis says of one network, look at in several: `samples.codes()` and
#   `samples.occupancies()` have all of them.
#
# **Limits.** Inputs are scaled to $|x|^2 = N_0$ on average; the temperature decides how exactly targets are
# met, and above a critical one nothing is learned.
