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
# # Adaptive kernels on images
#
# **At a glance.** Does it pay to learn features? On two classes of digits both adaptive kernels of paper B
# {cite:p}`lauditi2025` reach a lower test loss than the lazy ones that they start from, by little, and only
# if the targets have features to learn. Both carry over to convolutional networks; learning gives dense ones
# part of what these have built in.
#
# *Did not come out:* that lazy kernels win where data are few, as on paper B's natural images; and
# whether convolutional networks keep their lead where features are learned hangs on the number of images.
# *Needs:* [adaptive kernels](adaptive_kernels.ipynb). *Reading:* 5 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
num_inputs: int | None = None  # P of the convolutional networks that are sampled; None: the preset's
image_sizes: tuple | None = None  # P of the learning curves
draws: int | None = None  # draws of the images for each of these

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
from companion import figures, presets
from experiments import adaptive_images

quick = {"image_sizes": (10, 40), "draws": 10, "image_neurons": 128, "image_rounds": 15}
quick |= {"image_ridges": (0.1,), "image_decays": (0.3,), "rest_neurons": 24}
quick |= {"num_inputs": 20, "width": 60, "neurons": 512, "rounds": 50, "num_samples": 60, "thinning": 2}
paper = quick | {"image_sizes": (5, 10, 20, 40, 80), "image_neurons": 256, "image_rounds": 40}
paper |= {"image_ridges": (0.03, 0.3), "image_decays": (0.1, 0.3), "rest_neurons": 32}
paper |= {"num_inputs": 30, "width": 100, "neurons": 1024, "rounds": 300, "num_samples": 200, "thinning": 3}
given = {"num_inputs": num_inputs, "image_sizes": image_sizes, "draws": draws}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)

# %% [markdown]
# In the tasks of the [chapter before](adaptive_kernels.ipynb) one sees features being learned. Part of what
# adapted kernels gain can be had for less: a lazy kernel with a well chosen ridge also keeps what is large in
# the data and drops the rest. So we choose every lazy ridge on images that are neither trained nor tested on.
# And learning features must not help where there are none to learn: that is the control, targets drawn from
# the lazy kernel's own Gaussian process, which no other predictor can beat.
#
# We hold each adaptive kernel against the lazy one that it starts from: the posterior's (aNBK) against
# random features, that of gradient flow with weight decay (aNTK) against the tangent kernel (NTK).

# %%
images = adaptive_images.losses(seed, settings)

# %% tags=["hide-input"]
figures.publish(**adaptive_images.over_images(images))
adaptive_images.check_images(images)

# %% [markdown]
# With enough images both adaptive kernels have a lower test loss, by little: most of what a digit is
# can be read off fixed features. On targets without features the advantage is gone. Where images are few,
# hardly anything is gained over random features, but still something over the tangent kernel. Paper B finds a
# window there in which features fitted to few examples mislead, with two classes of natural images; these
# digits do not show it.
#
# ## Convolutions
#
# **Question.** Is any of this special to dense networks?
#
# Neither predictor asks how a neuron came by its response. Let a neuron with weights $u$ answer an input
# with $F_{a\mu}(u)$, one number for each of its readouts $a$: a single one in a dense network, one for each
# position of a patch in a convolutional one, their mean with pooling. Then
#
# $$
# \begin{gathered}
# \Phi_{\mu\nu} = \sum_a \langle F_{a\mu} F_{a\nu} \rangle, \\
# D(q) = \log\, \mathbb E_u\; e^{\frac12 \sum_a (F_a^\top q)^2} - \gamma_0\, q\cdot y + \frac{|q|^2}{2\beta},
# \end{gathered}
# $$ (eq-adaptive-features)
#
# and the chapter before's {eq}`eq-adaptive-predictor` and {eq}`eq-adaptive-antk` stand as they are. In the
# library one argument, `features`, makes the difference in every solver. What a neuron gains is that it
# meets several patches of every image; what it loses is the view of the whole image. We compare
# dense and convolutional networks twice, lazy and at rest: an advantage that only the lazy kernel has is one
# that dense networks make up for by learning features.

# %%
solver = {"num_neurons": settings.neurons, "num_rounds": settings.rounds}
counts = {"num_samples": settings.num_samples, "num_chains": 4, "num_warmup": 150}
counts |= {"thinning": settings.thinning}
key = jax.random.fold_in(jax.random.key(seed), 30)
patches = adaptive_images.convolutions(key, settings.num_inputs, settings.width, seed, solver, **counts)

# %% tags=["hide-input"]
figures.publish(**adaptive_images.over_patches(images))
adaptive_images.check_convolutions(patches, images)

# %% [markdown]
# Lazily, patches win. At rest their lead is smaller at the largest $P$: dense networks learn on their own
# part of what patches are given. At the most images of preset `quick`, and with its one weight decay, the
# lead is lost in the scatter over draws; with twice as many images and a choice of decays, at `paper`, it is
# seen.
#
# ## What to take away
#
# - On digits learned features lower the test loss a little, as long as the targets have features to learn.
# - Neither predictor is special to dense networks: with a neuron's responses at all positions in place of
#   one, they predict convolutional networks as well.
#
# **Limits.** Digits fill the image, so patches must be large; paper B's natural images are harder and need
# more of them. Its convolutional flow over time (Fig. 9) is in the library, but not shown.
