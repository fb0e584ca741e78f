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
# # Images, and reuse of features
#
# A code learned on a hundred natural images is almost as sharp as one learned on digits, but new images
# seldom call it up {cite:p}`vanmeegen2025`. With all ten classes and more images, they do so more and more
# often. But features that serve one task need not serve another. Sigmoidal networks that have learned three
# digits tell new digits apart less well than lazy networks do.

# %% tags=["parameters", "setup"]
preset = "quick"  # quick, paper or full; full runs all of CIFAR-10: minutes on a GPU, days without
seed = 0
num_inputs: int | None = None  # P, of your own task, last section
width: int | None = None  # N
num_test: int | None = None  # test images
temperature: float | None = None  # T, rescaled as in the primer
dataset = "mnist"  # mnist, fashion_mnist or cifar10
classes: tuple[int, ...] = (0, 1, 2)  # its classes
nonlinearity = "erf"  # sigmoidal, relu, linear or erf
y_plus: float = 1.0  # targets: of an image's own class
y_minus: float = 0.0  # and of the others

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import data, paths
from coding_schemes.networks import Network
from companion import figures, held_out, presets
from companion.findings import Control, Finding, less, stacked
from companion.held_out import judged, realized
from companion.predicates import above, absolute, below, standard_errors
from companion.publish import publish
from companion.workbench import titled
from images import large_run, runs
from images.runs import LAZY, LEARNED, RANDOM, best, over_draws, over_last
from myst_nb import glue

given = {"num_inputs": num_inputs, "width": width, "num_test": num_test, "temperature": temperature}
sizes = presets.sizes(runs, preset, **given)
P, N, T = sizes.num_inputs, sizes.width, sizes.temperature
own = runs.own_task(dataset, P, num_test, sizes.num_test, tuple(classes), y_plus, y_minus, seed)
results = paths.repository_root() / "data" / "results"
NAMES = ("linear", "sigmoidal", "relu")
UNALIKE = (
    5  # so many places on stands a class that is not alike: an animal for most vehicles, and the reverse
)
TITLES = tuple(map(titled, NAMES))
pictures = runs.stored(results / "cifar10-three-classes.npz")

# %% tags=["hide-input"]
publish(
    figures.activation_matrix,
    "digits_and_pictures",
    caption="The code of natural images is almost as sharp as that of digits where it was trained, and does "
    "not predict the responses to new images. Activations of one network each, neurons by their code on "
    "training images.",
    tail="N = P = 100, T = 0.01, stored result. Paper A, supplement E.",
    counterparts=["A supplement E, three classes of images"],
    row_names=["MNIST", "CIFAR-10"],
    titles=["training images", "test images"],
    **runs.training_and_test(pictures, ("mnist", "cifar")),
)

# %% [markdown]
# *Needs:* [generalization](generalization.ipynb). *Reading:* 15 minutes.
#
# Try it: a few lines draw a network that learned 50 digits, and ask how much of its code new digits show.

# %%
import jax
from coding_schemes import coding, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample

task = tasks.mnist(num_inputs=50, num_test=300)  # or tasks.cifar10, where its files are at hand
network = Network(depth=1, width=50, nonlinearity="sigmoidal")
posterior = Posterior(task, network, temperature=0.01)
samples = sample(posterior, jax.random.key(0), num_samples=1, num_chains=1)
phi, weights = samples.activations()[0, -1], jax.tree.map(lambda leaf: leaf[0], samples.final)
answer = posterior.predict(jax.random.key(1), weights, task.test_inputs)
new = network.phi(answer.preactivations[-1])
print("explained by the code", coding.code_transfer(phi, task.labels, new, task.test_labels).round(2))

# %% [markdown]
# ## Three classes, a hundred images
#
# When does a code cease to carry over? Networks of 100 sigmoidal neurons learn airplanes, automobiles and
# birds of CIFAR-10, and, for comparison, as many digits. Natural images do not come with this book. All
# sections but the last show **stored results** of long jobs; their records name the files, and `snakemake
# data/results/…` makes each anew.
#
# Take a neuron's mean response to each class of training images, its class profile. As in the
# [last chapter](generalization.ipynb) we ask how much of the variance of single responses it explains, and
# how often the mean predictor takes an image for another class. Where a profile explains nearly all of the
# training responses of a layer, we call it the layer's code.

# %% tags=["hide-input"]
stored = {
    "size": {"N": 100, "P": 100, "T": 0.01, "draws": len(pictures["cifar_error"]) // 2, "networks each": 8},
    "stored": runs.source(pictures, "cifar10-three-classes.npz"),
    "sampler": runs.meetings(pictures, "cifar"),
    "panel": "Paper A, supplement E, three classes of images",
}
explained, of_digits = pictures["cifar_transfer"], pictures["mnist_transfer"]
Finding(
    "A30",
    "variance of responses to test images that the training code explains, mean over draws",
    headline=True,
    **over_draws(explained[:, 1]),
    figure="digits_and_pictures",
    control=Control("digits", sampled=over_draws(of_digits[:, 1])["sampled"]),
    **stored,
).judge(below(0, 3), because="part of the code survives on test images")
Finding(
    "A30",
    "variance of responses to training images that the code explains, mean over draws",
    **over_draws(explained[:, 0]),
    control=Control("responses to test images", sampled=over_draws(explained[:, 1])["sampled"]),
    **stored,
).judge(above(0.9, 3), because="the code is not sharp at this temperature")
Finding(
    "A30",
    "fraction of test images in the wrong class, mean over draws; two thirds by guessing",
    **over_draws(pictures["cifar_misclassified"]),
    control=Control("digits", sampled=over_draws(pictures["mnist_misclassified"])["sampled"]),
    **stored,
).judge(above(0.25, 3), because="better than the paper's figure suggests")
Finding(
    "A30",
    "responses to test images on the side that the training code names, 0 by chance, 1 all; one network",
    sampled=runs.carried_over(pictures, "cifar"),
    theory=np.float64(0.0),
    control=Control("digits", sampled=runs.carried_over(pictures, "mnist")),
    **stored | {"size": {"N": 100, "P": 100, "T": 0.01, "networks": 1}},
).judge(
    standard_errors(3),
    because="part of the responses stay on the side of the code, though the code predicts none of them",
)
for name in ("cifar", "mnist"):
    glue(f"{name}_wrong", float(pictures[f"{name}_misclassified"].mean()), display=False)
    glue(f"{name}_kept", float(pictures[f"{name}_transfer"][:, 1].mean()), display=False)
    glue(f"{name}_in_step", runs.in_step(*runs.of_one(pictures, name)), display=False)
named = runs.sides_of_one(pictures, "cifar").mean(1)
glue("cifar_named", float(named[0]), display=False)
glue("cifar_by_chance", float(named[1:].mean()), display=False)
glue("cifar_beyond", float(runs.carried_over(pictures, "cifar").value), display=False)

# %% [markdown]
# The code of the training images explains {glue:text}`mnist_kept:.2f` of the variance of responses to test
# digits, and {glue:text}`cifar_kept:.2f` of the variance of responses to natural test images. A negative
# value says that the code predicts worse than one mean response for all classes. It does not say that nothing
# is left: saturated responses on the wrong side count by their full range. So take the squared correlation of
# code and response, in the one network of each kind that is stored. It is {glue:text}`cifar_in_step:.2f` for
# natural images and {glue:text}`mnist_in_step:.2f` for digits. Or ask for the side of ½ alone that the code
# names. The codes of the other two classes name {glue:text}`cifar_by_chance:.0%` of the natural responses
# rightly: that is chance. The right code names {glue:text}`cifar_named:.0%`, which is
# {glue:text}`cifar_beyond:.0%` of the way from chance to all. (All errors of such shares are the scatter over
# neurons. All neurons see the same test images, and these have a scatter of their own.) The mean predictor
# puts {glue:text}`cifar_wrong:.0%` of the natural test images into the wrong class, and
# {glue:text}`mnist_wrong:.0%` of the digits; by guessing it would be 67 %.
#
# ## All ten classes
#
# Paper A goes on to all 50,000 training images and two hidden layers of 1,000 neurons. There it finds a code
# on training images, part of it on test images, and a test accuracy of 0.45. We have stored runs of this
# width and depth: on 250 to {glue:text}`ten_largest` images with their exact pixels, and on all 50,000 (data
# set: {glue:text}`whole_task`). Targets are $1$ and $-\tfrac1{10}$, and $T =$ {glue:text}`ten_temperature`;
# paper A does not give its temperature.
#
# The network has four million weights. Its energy is the negative logarithm of the posterior. Because $T$ is
# low, most of the energy of a typical network is that of a nearby minimum, so we look for minima first. Adam
# descends the energy from two starts. In one, weights are drawn from the prior. In the other, each neuron
# has a strong readout to one class drawn at random. From either start there are two descents: at the final
# temperature throughout (a *quench*), and with $T$ falling to it from 0.05 (*cooled*). From the lowest of
# the four ends a chain of Hamiltonian Monte Carlo samples, in double precision. The run on 50,000 images
# took {glue:text}`whole_minutes:.0f` minutes on one {glue:text}`whole_device`.

# %% tags=["hide-input"]
files = sorted(results.glob("cifar10-P*.npz"), key=lambda path: int(path.stem.split("-P")[1]))
ten = [runs.Run.of(runs.stored(path)) for path in files]
if preset == "full":
    checkpoint = results.parents[1] / "_build" / "cifar10-full.checkpoint"
    whole = runs.Run.of(large_run.run(large_run.FULL, checkpoint=checkpoint, progress=True))
else:
    whole = runs.Run.of(runs.stored(results / "cifar10-full-jpeg.npz"))
everything = [*ten, whole]
SIZES = [run.num_inputs for run in ten]
for name, value in (
    ("ten_temperature", ten[-1].settings["temperature"]),
    ("ten_largest", f"{SIZES[-1]:,}"),
    ("ten_smallest", SIZES[0]),
    ("ten_in_step", ten[0].in_step()),
    ("whole_in_step", whole.in_step()),
    ("whole_minutes", whole.minutes),
    ("whole_device", whole.device),
    ("whole_accuracy", whole.accuracy().value),
    ("whole_wrong", round((1 - whole.training_accuracy) * whole.num_inputs)),
    ("whole_explained", whole.explained(2)[0]),
    ("whole_first_layer", whole.explained(1)[0]),
    ("whole_on_test", whole.explained(2)[1]),
    ("whole_right", whole.sides(2)[0].mean()),
    ("whole_chance", whole.sides(2)[1:].mean()),
    ("whole_task", whole.task),
    ("whole_scheme", whole.diagnosis().scheme),
    ("whole_codes", len(whole.code_sizes)),
    ("whole_common", whole.code_sizes[:20].sum() / whole.code_sizes.sum()),
):
    glue(name, value if isinstance(value, str | int) else float(value), display=False)
publish(
    figures.activation_matrix,
    "ten_classes",
    caption="At the paper's size the feature layer has a redundant code on training images: nearly every "
    "neuron is fully on for some classes and off for the others, and many share a code. The first layer has "
    "none. On test images part of the code is left. 100 neurons by their code, images by class.",
    tail=f"{whole.task}, N = {whole.settings['width']}, P = {whole.num_inputs:,}, stored result. Paper A, "
    "Fig. 7a, b, d, e.",
    counterparts=["A 7a", "A 7b", "A 7d", "A 7e"],
    row_names=["training images", "test images"],
    titles=["layer 1", "layer 2"],
    **whole.layers(),
)
publish(
    figures.network_sample,
    "ten_classes_outputs",
    caption="The mean output for airplanes (class 0) rises on airplanes and on many other images. Readouts "
    "and feature layer of 100 neurons of the last sample on test images; below, output 0, mean over samples.",
    tail=f"{whole.task}, N = {whole.settings['width']}, P = {whole.num_inputs:,}, stored result. Paper A, "
    "Fig. 7c, f.",
    counterparts=["A 7c", "A 7f"],
    **whole.outputs(),
)

# %% [markdown]
# The feature layer has a redundant code, as published: the class profiles explain
# {glue:text}`whole_explained:.3f` of the variance of responses to training images. In the first layer they
# explain {glue:text}`whole_first_layer:.2f`, so that it has no code. The thousand neurons of the feature
# layer have {glue:text}`whole_codes` different codes, and {glue:text}`whole_common:.0%` of the neurons have
# one of the twenty commonest. The [diagnosis](your_own_activations.ipynb) of a hundred of them is:
# {glue:text}`whole_scheme`. The network misclassifies {glue:text}`whole_wrong` of 50,000 training images.
#
# Part of the code carries over. A share of {glue:text}`whole_right:.2f` of the responses to test images lies
# on the side of ½ that the code names. The codes of other classes reach {glue:text}`whole_chance:.2f`, which
# we call chance. As a prediction of the size of each response the code is still worse than the neuron's mean
# over all classes. It explains {glue:text}`whole_on_test:.2f` of the variance, since a saturated response on
# the wrong side misses by the full range. The squared correlation of code and response is
# {glue:text}`whole_in_step:.2f`; with {glue:text}`ten_smallest` images it is {glue:text}`ten_in_step:.2f`, as
# little as for three classes. The mean predictor classifies {glue:text}`whole_accuracy:.2f` of
# test images correctly.

# %% tags=["hide-input"]
both_accuracies = whole.from_starts(whole.ends["test_accuracy"])
at_size = {
    "size": whole.size,
    "sampler": runs.chains([whole]),
    "stored": "" if preset == "full" else runs.source(whole.arrays, "cifar10-full-jpeg.npz"),
}
Finding(
    "A31",
    f"variance of responses to training images that the feature layer's code explains, {whole.task}",
    headline=True,
    sampled=np.float64(whole.explained(2)[0]),
    starts=whole.from_starts(whole.arrays["explained"][:, 0]),
    figure="ten_classes",
    panel="Paper A, Fig. 7b",
    control=Control("first layer", sampled=np.float64(whole.explained(1)[0])),
    **at_size,
).judge(
    above(0.9),
    note=f"at least {whole.least_explained:.3f} of all neurons and images",
    because="the chain has not learned all of its images",
)
Finding(
    "A31",
    "responses to test images on the side that the feature layer's code names, 0 by chance, 1 all",
    sampled=whole.beyond_chance(2),
    panel="Paper A, Fig. 7e",
    control=Control(f"the code of the class {UNALIKE} places on", sampled=whole.beyond_chance(2, UNALIKE)),
    **at_size,
).judge(
    above(0, 3),
    note=f"{whole.sides(2)[0].mean():.2f} of responses, {whole.sides(2)[1:].mean():.2f} by chance",
    because="the code is not that of the training images",
)
Finding(
    "A31",
    f"test accuracy, {whole.task}",
    sampled=whole.accuracy(),
    theory=np.float64(runs.PUBLISHED_ACCURACY),
    source="published",
    starts=both_accuracies,
    panel="Paper A, Fig. 7f",
    control=Control("test labels shuffled", sampled=whole.accuracy(shuffled=True)),
    **at_size,
).judge(
    absolute(0.03),
    note=f"of the network from the other start {min(both_accuracies):.3f}",
    because="images that are not quite the paper's, another temperature, and a network from the other start "
    "that lies beyond the limit",
)

# %% [markdown]
# **Does it matter where a network starts, and how it is cooled?** For the energy yes; for the sharpness of
# the code hardly. Up to 2,000 images all energies lie within 8 % of the lowest, except that of one quench at
# 500 images. The two quenches start apart and end up to 15 % apart, at 500 and at 7,500 images, but only
# {glue:text}`whole_apart:.0%` apart at 50,000. There it is the cooled descents that end far higher: they had
# no time to arrive. Even the lowest has not reached its minimum: the chain that continues it falls further by
# {glue:text}`whole_fall:.0%`. Still, the networks at all four ends have a sharp code
# ({glue:text}`whole_least:.3f` to {glue:text}`whole_most:.3f` of the variance explained). The test accuracies
# of the two quenches differ by {glue:text}`whole_between:.2f`.


# %% tags=["hide-input"]
def minima(sizes, energy, accuracy, names):
    """Energies of the descents' ends over the lowest, and their test accuracy, over the number of images."""
    figure, axes = plt.subplots(1, 2, figsize=(figures.WIDTH, 3.4))
    for k, name in enumerate(names):
        style = {"marker": "os"[k // 2], "linestyle": ("-", "--")[k % 2], "color": f"C{k // 2}"}
        axes[0].plot(sizes, energy[k], label=name, **style)
        axes[1].plot(sizes, accuracy[k], **style)
    axes[0].set(ylabel="energy over the lowest", yscale="log")
    axes[0].set_yticks([1, 1.2, 1.5, 2], ["1", "1.2", "1.5", "2"], minor=False)
    axes[0].set_yticks([], minor=True)
    axes[1].set(ylabel="test accuracy", ylim=(0, None))
    for axis in axes:
        axis.set(xscale="log", xlabel="training images $P$")
    figures.legend_above(figure, axes[0])
    return figure


ends = [run.ends for run in everything]
lowest = [run.from_starts(end["energy"]) for run, end in zip(everything, ends, strict=True)]
glue("whole_apart", max(lowest[-1]) / min(lowest[-1]) - 1, display=False)
glue("whole_between", float(np.ptp(both_accuracies)), display=False)
glue("whole_fall", 1 - whole.history["energy"][-1] / min(lowest[-1]), display=False)
glue("whole_least", float(whole.arrays["explained"][:, 0].min()), display=False)
glue("whole_most", float(whole.arrays["explained"][:, 0].max()), display=False)
glue("ten_thermal", ", ".join(f"{run.thermal_share:.0%}" for run in ten[:4]), display=False)
publish(
    minima,
    "minima",
    caption="Up to 2,000 images the four descents end at about one energy, but for one at 500; with more "
    "they have not arrived. Left: energy at the end of each descent, over the lowest at that number of "
    "images. Right: test accuracy of these networks.",
    tail=f"N = {whole.settings['width']}, T = 0.001, stored results; {whole.task} at the largest P.",
    sizes=[run.num_inputs for run in everything],
    energy=np.transpose([(end["energy"] / end["energy"].min()).ravel() for end in ends]),
    accuracy=np.transpose([end["test_accuracy"].ravel() for end in ends]),
    names=[f"{start}, {how}" for start in large_run.STARTS for how in ("quenched", "cooled")],
)

# %% [markdown]
# How do code and accuracy change with the number of images? Even the code of a wrong class names the right
# side of ½ for half of the responses or more. So we rescale the share of responses on the side that the code
# names: 0 is what the codes of other classes reach, and 1 is all responses. The first layer has no code, but
# its class means name sides, too, and what they reach tells how much of this a code is needed for.

# %% tags=["hide-input"]
gain, end = runs.trend(SIZES, [run.accuracy().value for run in ten])
shuffled, _ = runs.trend(SIZES, [run.accuracy(shuffled=True).value for run in ten])
from_starts = np.array([run.from_starts(run.ends["test_accuracy"]) for run in ten])
over_sizes = {
    "size": ten[-1].size | {"P": SIZES},
    "sampler": runs.chains(ten),
    "stored": "data/results/cifar10-P….npz; made anew by snakemake data/results/cifar10-P….npz",
}
rises = Finding(
    "A31",
    "gain of test accuracy per decade of images",
    sampled=gain,
    starts=tuple(runs.trend(SIZES, accuracy)[0] for accuracy in from_starts.T),
    figure="accuracy",
    panel="Paper A, Fig. 7f",
    control=Control("test labels shuffled", sampled=shuffled),
    **over_sizes,
)
x = np.append(SIZES, runs.PUBLISHED_SIZE)
marks, bars_of = np.full((2, 3, len(x)), np.nan)
accuracies = [run.accuracy() for run in ten]
marks[0, :-1], bars_of[0, :-1] = np.transpose(accuracies)
marks[1:, -1], bars_of[1, -1] = (whole.accuracy().value, runs.PUBLISHED_ACCURACY), whole.accuracy().error
rises.draw(
    figures.curves,
    "Test accuracy rises with the number of images. Markers: mean predictor on test images with binomial "
    "errors; line: straight in the logarithm of P; dashed: chance.",
    x=x,
    values=[end + gain.value * np.log10(x / runs.PUBLISHED_SIZE), np.nan * x, np.nan * x],
    names=["exact images", str(whole.task), "paper A"],
    colors=[figures.COLORS[name] for name in ("test", "train", "theory")],
    scales=("log", "linear"),
    levels=[0.1],
    sampled_x=x,
    sampled=marks,
    sampled_errors=bars_of,
    xticks=x,
    xlabel="training images $P$",
    ylabel="test accuracy",
)
rises.judge(
    above(0, 3),
    note=f"the line ends at {end:.2f} for P = {runs.PUBLISHED_SIZE:,}, where the paper has "
    f"{runs.PUBLISHED_ACCURACY}",
    because="too few sizes for a line",
)
every = [run.num_inputs for run in everything]
on_side = [[run.beyond_chance(layer) for run in everything] for layer in (1, 2)]
rows = [
    *([each.value for each in layer] for layer in on_side),
    *([run.explained(layer)[0] for run in everything] for layer in (1, 2)),
]
on_every = over_sizes | {"size": whole.size | {"P": every}, "sampler": runs.chains(everything)}
kept = Finding(
    "A31",
    "responses to test images on the side that the feature layer's code names, beyond chance, every P",
    sampled=stacked(on_side[1]),
    over=[f"P = {number}" for number in every],
    figure="code_kept",
    panel="Paper A, Fig. 7e",
    control=Control(
        f"the code of the class {UNALIKE} places on",
        sampled=stacked([run.beyond_chance(2, UNALIKE) for run in everything]),
    ),
    **on_every,
)
kept.draw(
    figures.curves,
    "The feature layer's code explains the training responses at any number of images, the first layer's "
    "less and less. With more images test images show more of it. With few images the class means of the "
    "first layer show about as much. On its side: responses to test images on the side of ½ that the code "
    "names, 0 by chance and 1 all.",
    x=every,
    values=rows,
    names=[f"{kind}, layer {layer}" for kind in ("on its side", "explained") for layer in (1, 2)],
    colors=["#E8A0AB", figures.COLORS["test"], "#A9A0D6", figures.COLORS["train"]],
    scales=("log", "linear"),
    sampled_x=every,
    sampled=rows,
    xticks=every,
    xlabel="training images $P$",
    ylabel="fraction",
)
kept.judge(above(0, 3), because="too few images for a code that new ones show")
Finding(
    "A31",
    "responses to test images on the side that the feature layer's code names, less those of the first layer",
    sampled=stacked([less(second, one) for one, second in zip(*on_side, strict=True)]),
    over=[f"P = {number}" for number in every],
    figure="code_kept",
    panel="Paper A, Fig. 7e",
    control=Control(
        f"the code of the class {UNALIKE} places on",
        sampled=stacked(
            [less(run.beyond_chance(2, UNALIKE), run.beyond_chance(1, UNALIKE)) for run in everything]
        ),
    ),
    **on_every,
).judge(
    above(0, 3),
    because="with few images the class means of the first layer, which has no code, show about as much",
)
by_start = np.array([run.from_starts(run.arrays["explained"][:, 0]) for run in everything])
Finding(
    "A31",
    "variance of responses to training images that the feature layer's code explains, every P",
    sampled=np.array(rows[3]),
    starts=tuple(by_start.T),
    over=[f"P = {number}" for number in every],
    panel="Paper A, Fig. 7b",
    control=Control("first layer", sampled=np.array(rows[2])),
    **on_every,
).judge(above(0.9), because="descents that end too early")

# %% [markdown]
# Are these networks in equilibrium? At 250 and 500 images they nearly are, each around its own minimum. The
# test is the energy. In equilibrium it lies above that of the minimum by ½ for every weight. The last
# samples at 250, 500, 1,000 and 2,000 images have {glue:text}`ten_thermal` of this excess. At 7,500 and
# 50,000 images the chain still goes downhill, so its samples only continue the descent.
#
# ## Which classes share neurons?
#
# A neuron of a redundant code answers to several classes. Which classes go together? For every pair of
# classes we take two numbers: the correlation of their codes over the neurons, and how often the mean
# predictor takes test images of one for the other. The first tells whether they share neurons, the second
# whether they look alike to the network. Images that look alike move any neuron alike, with or without a
# code. So we do the same with the class means of the first layer.


# %% tags=["hide-input"]
def shared_neurons(panels, titles, names):
    """Correlation of codes between classes, and (last) the confusions of the predictor, pair by pair."""
    figure, axes = plt.subplots(2, 2, figsize=(figures.WIDTH, figures.WIDTH), sharex=True, sharey=True)
    scales = [*[np.abs(panels[:-1]).max()] * len(panels[:-1]), np.abs(panels[-1]).max()]
    for axis, panel, title, largest in zip(axes.flat, panels, titles, scales, strict=True):
        shown = axis.imshow(panel, cmap="PRGn", vmin=-largest, vmax=largest)
        figure.colorbar(shown, ax=axis, shrink=0.7)
        axis.set_title(title)
        axis.set_xticks(range(len(names)), names, rotation=90)
        axis.set_yticks(range(len(names)), names)
    return figure


alike = [runs.mantel(run.shared(), run.confusions) for run in everything]
at_first = [runs.mantel(run.shared(1), run.confusions)[0].value for run in everything]
more_alike = [runs.nearer(run.shared(), run.shared(1), run.confusions) for run in everything]
apart_of = lambda matrix: np.where(np.eye(len(matrix)) > 0, 0, matrix)  # noqa: E731
publish(
    shared_neurons,
    "shared_neurons",
    caption="With many images classes that are confused share neurons. Correlation of the codes of two "
    "classes over the neurons of the feature layer, and (last panel) how often test images of one are taken "
    "for the other; green: above zero, purple: below; the diagonal is left out.",
    tail=f"N = {whole.settings['width']}, stored results; {whole.task} at P = 50,000.",
    panels=[*(apart_of(run.shared()) for run in everything[-3:]), apart_of(whole.confusions)],
    titles=[*(f"P = {run.num_inputs:,}" for run in everything[-3:]), "confused"],
    names=list(data.CIFAR_CLASSES),
)
many = np.searchsorted(every, 7500)  # the first of them
of_pairs = {
    "size": on_every["size"] | {"pairs": 45},
    "stored": over_sizes["stored"],
}
with_many = of_pairs | {"over": [f"P = {number}" for number in every[many:]], "figure": "shared_neurons"}
Finding(
    "D17",
    "correlation over pairs of classes of their codes with their confusions, 7,500 images and more",
    headline=True,
    sampled=stacked([found for found, _ in alike[many:]]),
    control=Control("classes of the code permuted", sampled=np.array([other for _, other in alike[many:]])),
    **with_many,
).judge(above(0, 3), because="codes do not know which classes are alike")
slope, _ = runs.trend(every, [found.value for found, _ in alike])
Finding(
    "D17",
    "rise of this correlation per decade of images, 250 to 50,000",
    sampled=slope,
    control=Control(
        "classes of the code permuted", sampled=runs.trend(every, [other for _, other in alike])[0]
    ),
    **of_pairs,
).judge(above(0, 3), because="as clear with few images as with many")
Finding(
    "D17",
    "correlation of the feature layer's codes with the confusions less that of the first layer, 7,500 images "
    "and more",
    sampled=stacked([found for found, _ in more_alike[many:]]),
    control=Control(
        "classes of the confusions permuted", sampled=np.array([other for _, other in more_alike[many:]])
    ),
    **with_many,
).judge(above(0, 3), because="classes that look alike are alike in the first layer, too, which has no code")
for name, index in (("few_alike", 0), ("many_alike", -1)):
    glue(name, float(alike[index][0].value), display=False)
    glue(f"{name}_at_first", float(at_first[index]), display=False)
every_alike = ", ".join(f"{found.value:.2f}" for found, _ in alike)
glue("every_alike", every_alike, display=False)

# %% [markdown]
# With many images the animals form a block; ships go with airplanes, and automobiles with trucks. Cats and
# dogs share most. Over all pairs of classes, the two numbers have the correlations {glue:text}`every_alike`
# from 250 to 50,000 images: weak and uneven at first, clear from 7,500 on. In the first layer the correlation
# is {glue:text}`few_alike_at_first:.2f` with 250 images and {glue:text}`many_alike_at_first:.2f` with 50,000,
# not shown to differ from the code's. So the likeness of classes is there a layer below the code, at any
# number of images, and with many images the code shows it as well. (The first layer is trained, too; we have
# not compared it with an untrained one.) A likely reason is this. A few images lie far apart,
# and a network can switch a neuron on for any set of classes. With many images, weights that switch a neuron
# on for all cats switch it on for many dogs, too. The runs on 7,500 and 50,000 images began at the same
# weights, so they are not independent evidence.
#
# ## Reuse: new classes on old features
#
# Features learned on one task may help another. Networks that learned the digits 0, 1 and 2 are shown the
# digits 3 to 9. A new readout of the hidden neurons is fitted by ridge regression to a few examples of each
# new digit, and tested on the rest. The strength of the ridge is the same for all features. For comparison we
# do the same with the pixels themselves, and with the features of lazy networks. These were trained on the
# same three digits, but have learned next to nothing: at every number of examples their accuracy differs from
# that of *untrained* networks by {glue:text}`lazy_less_random:.2f` at most.

# %% tags=["hide-input"]
reuse = runs.stored(results / "reuse-digits.npz")
shots, few, many = reuse["shots"], reuse["shots"] <= 2, reuse["shots"] >= 10
starts = [runs.gain(reuse, start) for start in (0, 1)]
of_reuse = {
    "size": {"N": 100, "P": 100, "T": 0.01, "draws": reuse["pixels"].shape[1], "networks each": 2},
    "stored": runs.source(reuse, "reuse-digits.npz"),
    "sampler": runs.TWO_STARTS,
}
learned, pixels = runs.gain(reuse), reuse["pixels"]
better = {
    "sigmoidal features less lazy ones": np.broadcast_to(learned[1], learned.shape),
    "pixels less lazy features": pixels - runs.of_features(reuse, LAZY),
}


def gained(rows, which, instead):
    """Accuracy beyond lazy features, of learned ones from both starts and from either, and of others."""
    chosen = lambda values: over_last(values[rows][:, which])  # noqa: E731
    return {
        "sampled": chosen(learned),
        "starts": tuple(map(chosen, starts)),
        "over": [f"{number} examples" for number in shots[which]],
        "control": Control(instead, sampled=chosen(better[instead])),
        **of_reuse,
    }


first = Finding(
    "D7",
    "accuracy on new digits, features of linear and of ReLU networks less lazy ones, ten examples or more",
    headline=True,
    figure="reuse",
    **gained([0, 2], many, "sigmoidal features less lazy ones"),
)
first.draw(
    figures.curves,
    "Features learned on other digits tell new ones apart no better than pixels do; sigmoidal ones are "
    "worse than lazy ones. Full lines: learned features; dashed: lazy networks; bands: standard errors "
    "over draws of the images, with 20 sets of examples each.",
    colors=[figures.COLORS[name] for name in NAMES] + [figures.COLORS["theory"]],
    **runs.curves(reuse, TITLES),
    xlabel="examples of each digit",
    ylabel="accuracy, digits 3 to 9",
)
first.judge(
    above(0, 3), because="features learned on three classes keep few directions to tell new ones apart"
)
Finding(
    "D7",
    "accuracy on new digits, sigmoidal features less lazy ones, every number of examples",
    **gained([1], shots > 0, "pixels less lazy features"),
).judge(below(0, 3), because="saturated codes keep enough to tell new digits apart")
Finding(
    "D7",
    "accuracy on new digits, learned features of all three less lazy ones, one or two examples",
    **gained([0, 1, 2], few, "pixels less lazy features"),
).judge(below(0, 3), because="with two examples learned ReLU features do nearly as well as lazy ones")
Finding(
    "D7",
    "accuracy on new digits, learned features less pixels, the best nonlinearity at every number of examples",
    sampled=best(runs.of_features(reuse, LEARNED) - pixels),
    starts=tuple(best(runs.of_features(reuse, LEARNED, start) - pixels) for start in (0, 1)),
    over=[f"{number} examples" for number in shots],
    control=Control("pixels less lazy features", sampled=best(pixels - runs.of_features(reuse, LAZY))),
    **of_reuse,
).judge(below(0, 3), because="with fifty examples learned features come close to pixels")
beyond_random = runs.of_features(reuse, LAZY) - runs.of_features(reuse, RANDOM)
glue("lazy_less_random", float(np.abs(beyond_random.mean(-1)).max()), display=False)
dimension = reuse["dimension"].mean(-1)
for name, own_dimension in zip(NAMES, dimension[:, LEARNED], strict=True):
    glue(f"dimension_{name}", float(own_dimension), display=False)
glue("dimension_lazy", float(dimension[1, LAZY]), display=False)

# %% [markdown]
# Each nonlinearity is compared with its own lazy features, over four draws of the images. Sigmoidal features
# are worse than lazy ones at every number of examples. Linear and ReLU features are better than lazy ones
# from ten examples on; for ReLU features this is the weakest of the comparisons, since lazy ReLU features are
# the poorest of the lazy ones. With one or two examples
# lazy features are better, except that ReLU features catch up at two. Pixels are better than any of them;
# with fifty examples learned features come close.
#
# Why are sigmoidal features the worst? We do not know. They have the fewest directions, but this cannot be
# the whole reason. Responses to the new digits vary along {glue:text}`dimension_sigmoidal:.1f` directions in
# sigmoidal networks, {glue:text}`dimension_linear:.1f` in linear and {glue:text}`dimension_relu:.1f` in ReLU
# networks, against {glue:text}`dimension_lazy:.0f` in lazy sigmoidal ones. (The number of directions is the
# participation ratio of the eigenvalues of the responses' covariance.) Linear and ReLU networks have few
# directions, too, and beat lazy ones from ten examples on.
#
# ## Another data set: clothes
#
# Nothing in the theory is special to digits. We repeat the experiment of the [last
# chapter](generalization.ipynb) on trousers, sandals and boots of Fashion-MNIST. In this stored run the
# codes froze: how many neurons use each code depends on the start of the chain. So each start has to pass
# the check by itself. The errors hardly depend on these shares.

# %% tags=["hide-input"]
clothes = runs.stored(results / "fashion-mnist.npz")
TWO, CLOTHES = ("sigmoidal", "relu"), ("trousers", "sandals", "boots")
gains_of = {name: over_draws(runs.realized(clothes, name)) for name in TWO}
dressed = Finding(
    "D5",
    "gain over the process on clothes, as a fraction of theory's, sigmoidal and ReLU by class, mean over "
    "draws",
    sampled=stacked([gains_of[name]["sampled"] for name in TWO]),
    starts=tuple(stacked([gains_of[name]["starts"][k] for name in TWO]) for k in (0, 1)),
    theory=np.ones((2, 3)),
    over=CLOTHES,
    size={"N": 100, "P": 100, "T": 0.01, "draws": len(clothes["relu_error"]) // 2, "networks each": 8},
    stored=runs.source(clothes, "fashion-mnist.npz"),
    sampler=[met for name in TWO for met in runs.meetings(clothes, name)],
    figure="clothes",
    control=Control(
        "classes of the networks exchanged",
        sampled=stacked(
            [over_draws(runs.realized(clothes, name, exchanged=True))["sampled"] for name in TWO]
        ),
        spared=["boots"],
        because="boots then have the error of sandals, which is nearly theirs",
    ),
)
dressed.draw(
    figures.bars,
    "On clothes, too, networks that learn features err less than the Gaussian process, by about as much as "
    "theory says. Bars: samples, means over draws with standard errors.",
    groups=CLOTHES,
    titles=TITLES[1:],
    colors=[figures.COLORS["samples"]],
    **held_out.bars_over_draws(*runs.class_errors(clothes, TWO)),
)
dressed.judge(absolute(0.1), because="theory neglects how single preactivations fluctuate")

# %% [markdown]
# ## Your own task
#
# This last section takes other data, classes, targets and nonlinearities. Set the parameters (on this page in
# the set-up at the very end), or type
#
#     make chapter NAME=images dataset=fashion_mnist classes=1,5,9 nonlinearity=sigmoidal y_minus=-0.5
#
# For Fashion-MNIST the library looks for its four files in `fashion-mnist/` of the folder named by
# `CODING_SCHEMES_DATA`, then in its download cache, then fetches and checks them; without a connection it
# says which files to put where. The default needs no download: the same digits with *another nonlinearity*,
# the odd and bounded error function, and other targets.

# %% tags=["hide-input"]
counts = vars(sizes.counts)
found = held_out.experiment(own, Network(1, N, nonlinearity), T, jax.random.key(seed), **counts)
lazy = held_out.experiment(own, Network(1, N, nonlinearity, "lazy"), T, jax.random.key(seed), **counts)
another = Finding(
    "D5",
    f"gain over the process, as a fraction of theory's, class by class, {own.name}, {nonlinearity}",
    headline=True,
    **judged([found], realized, stacked),
    theory=np.ones((1, own.num_targets)),
    size={"N": N, "P": P, "T": T, "test images": own.held_out[1].size, "networks": 2 * counts["num_chains"]},
    figure="own_task",
    control=Control(
        "lazy networks of the same size", sampled=stacked([realized(lazy._replace(theory=found.theory))])
    ),
)
another.draw(
    figures.activation_matrix,
    "A task of your choice: neurons by their code on training images.",
    titles=["training images", "test images"],
    **held_out.training_and_test(found),
)
another.judge(
    absolute(0.1),
    note=f"the training code explains {held_out.transfer(found)[:, 1].mean():.2f} of test responses",
    because="theory neglects how single preactivations fluctuate",
)

# %% [markdown]
# ## What to take away
#
# - With 100 natural images the code is sharp on the training images, but new ones seldom call it up. With all
#   ten classes new images show more of the code after 50,000 images than after 250.
#   With few images the class means of the first layer, which has no code, show about as much.
# - At the paper's size, 50,000 images and 1,000 neurons a layer, the code is as sharp as on a hundred
#   images, and it is redundant. Networks from both starts have a sharp code. Classes that look alike share
#   neurons there, and they are alike in the first layer, too.
# - Features serve the task they were learned on. For new classes the features of sigmoidal networks are worse
#   than lazy features, which are hardly more than random ones, and nothing learned here beats pixels.
# - Theory and method are not special to digits: they also work on another data set, with other targets and
#   with another nonlinearity.
#
# **Limits.** One hidden layer except for the ten classes; exact images of CIFAR-10 only up to 7,500, and
# lossy ones above. For the ten classes one temperature and one seed, and above 500 images no equilibrium.
#
# **Open.** It is not known which codes the posterior prefers at the paper's size. How much of the code test
# images show was recorded only for the start whose energy came out lower. The authors' sampled weights are
# public (figshare, doi 10.6084/m9.figshare.26539129) and could be compared code by code; they could not be
# downloaded here.
#
# ## Exercises
#
# **1.** Predict first: does the code of digits survive if there are only ten of them?

# %% tags=["solution"]
for number in (10, 25, 50):
    small = tasks.mnist(num_inputs=number, num_test=300, balanced=True)
    drawn = held_out.learn(small, network, 0.01, jax.random.key(seed), num_samples=1, num_chains=2)
    labels = small.labels, small.test_labels
    kept_by = coding.code_transfer(drawn.training_activations, labels[0], drawn.test_activations, labels[1])
    print(number, "images: explained on training and test images", kept_by.mean(0).round(2))

# %% [markdown]
# Only in part. On training images the code explains all of the variance at any of these numbers of images.
# On new images it explains less than half with ten images for three digits, and more than three quarters
# with fifty.
#
# **2.** How many directions do features leave for new classes? Count the kinds of neurons in theory.

# %% tags=["solution"]
from coding_schemes.theory import mean_field

zero = tasks.mnist(num_inputs=50, num_test=300, y_minus=0.0)
for name in ("sigmoidal", "erf"):
    kinds = mean_field.solve(zero, name, 0.01)
    print(name, len(kinds.probabilities), "kinds; a feature layer of so many directions at most")

# %% [markdown]
# In theory all neurons of a kind are alike, and three kinds of sigmoidal neurons leave three directions at
# most. In samples they differ on new images, which adds directions. The {glue:text}`dimension_sigmoidal:.1f`
# directions measured above are for other targets. Those sum to zero, and codes come in opposite pairs.
#
# **3.** Which of the ten classes does the large run confuse? Read the stored predictor.

# %% tags=["solution"]
answers, truth = (whole.arrays[name].argmax(axis=1) for name in ("predictor", "test_targets"))
confused = np.array([[np.mean(answers[truth == c] == d) for d in range(10)] for c in range(10)])
for c, row in enumerate(confused):
    print(c, f"right {row[c]:.0%}, most often taken for {np.argsort(row)[-2 if row.argmax() == c else -1]}")

# %% [markdown]
# It confuses classes that look alike, such as cats with dogs (3 and 5) and deer with birds (4 and 2). All
# ten are told from the others far more often than by chance.
