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
# # Your own activations: which scheme does a network use?
#
# **At a glance.** Give the activations of a layer and the classes of the inputs, from a network of any
# origin, and learn whether its neurons share the classes out in an analog, a redundant or a sparse way, or
# that this cannot be decided. In Python it is one line, `coding_schemes.diagnose(activations, labels)`; for
# a file,
#
# ```bash
# make chapter NAME=your_own_activations data=my.npz
# ```
#
# with arrays `activations` (neurons, inputs), `labels` (inputs) and perhaps `readouts`, or a `.csv` with
# one line per input, a column `label` and a column for each neuron.
#
# *Did not come out:* networks trained by Adam on small data are mostly undecided. *Needs:* nothing; the
# schemes are those of [the first chapter](lazy_and_rich.ipynb). *Reading:* 5 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
data: str | None = None  # your .npz or .csv file; None: a sampled network
num_neurons: int | None = None  # N = P of the networks of known scheme

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import coding_schemes
from coding_schemes import tasks
from coding_schemes.data import read_activations
from coding_schemes.networks import Network
from companion import figures, presets
from companion.checks import above, check
from experiments import diagnosis, your_own

quick = {"num_neurons": 40, "num_networks": 8, "num_inputs": 60}
paper = quick | {"num_neurons": 60, "num_networks": 32, "num_inputs": 300}
settings = presets.choose(preset, quick=quick, paper=paper, given={"num_neurons": num_neurons})
N, key = settings.num_neurons, jax.random.key(seed)

# %% [markdown]
# ## A layer, and its diagnosis

# %%
if data is None:  # one sampled sigmoidal network that learned three classes
    task = tasks.toy(N, y_minus=0.5, seed=seed)
    network = Network(1, N, "sigmoidal")
    activations, labels, readouts = (
        diagnosis.drawn(task, network, 0.01, key, num_networks=1)[0],
        task.labels,
        None,
    )
else:
    activations, labels, readouts, names = read_activations(your_own.located(data))
found = coding_schemes.diagnose(activations, labels, readouts)
print(found.verdict)
for name, share in zip(found.occupancies.names[:8], found.occupancies.fractions, strict=False):
    print(f"  code {name}: {share:.0%} of the neurons")


# %% tags=["hide-input"]
figures.publish(
    your_own.evidence,
    "evidence",
    caption=f"What speaks for the verdict, {found.scheme}. Left: the layer, neurons sorted by their code. "
    "Middle: how much of the differences between classes two levels per neuron explain; right: what "
    "fraction of the neurons carries them. Orange: this layer; gray: the same neurons after random "
    "rotations, which change neither kernel nor outputs. No paper has it.",
    **your_own.shown(activations, labels, found),
)

# %% [markdown]
# A rotation of neuron space leaves the kernel as it is and dissolves codes. So a layer is called
# *redundant* if codes explain more of it than of its rotations, *sparse* if fewer neurons carry it, and
# *analog* if it cannot be told from its rotations although either scheme would have shown. Anything else is
# *undecided*; the thresholds are in the docstring of `diagnose`.
#
# ## Can it be trusted?
#
# **Question.** How often is a network of known scheme called by its name?
#
# Linear, sigmoidal and ReLU networks drawn from the posterior are analog, redundant and sparse, as the
# chapters show. We draw some of each and ask. The control rotates their neurons first: nothing that a
# kernel sees has changed.

# %%
calibration = your_own.calibrate(jax.random.fold_in(key, 1), N, settings.num_networks, seed)

# %% tags=["hide-input"]
check(
    "D9",
    f"fraction of sampled networks called by their scheme's name: linear, sigmoidal, ReLU, N = P = {N}",
    calibration.right,
    above(0.8),
    control=("neurons rotated", calibration.rotated),
    because="at this size rotations themselves come near a scheme",
    note=f"called by another scheme's name: {calibration.wrong.max():.0%} at most",
)

# %% [markdown]
# ## Networks trained elsewhere
#
# **Question.** What do networks look like that an optimizer trained, without noise and without a prior?
#
# Four of them, on digits 0 to 2. For a network of scikit-learn, `experiments.diagnosis.perceptron` takes
# its `coefs_` and `intercepts_`.

# %%
others = your_own.trained(jax.random.fold_in(key, 2), settings.num_inputs, seed)
for name, (network, its) in others.items():
    print(f"{name}: {network.accuracy:.0%} right; {its.verdict}")

# %% [markdown]
# ## What to take away
#
# - A coding scheme can be read off activations and labels alone, and stands out against rotations that keep
#   the kernel.
# - Ordinary training on little data hardly leaves the neighborhood of the initial weights. Its networks are
#   often undecided: what distinguishes classes is then shared out as chance had it.
#
# **Limits.** Calibrated at N and P up to 60. A scheme has to show in class *means*; a code within a class
# is not seen.
