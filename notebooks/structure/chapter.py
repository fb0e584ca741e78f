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
# # Structure: what two-point dynamics says of representations
#
# Show a network images of a blob, and ask in one context for its $x$, in the other for its $y$. If initial
# weights are small, its representation loses the coordinate that is not asked for; if they are large, it
# keeps both. Two blobs that differ only in this coordinate have the same target. The [theory of two
# points](universality.ipynb) predicts that such points merge if weights start small {cite:p}`vanrossem2024`.
# How far does the theory carry beyond two points?

# %% tags=["parameters", "setup"]
preset = "quick"  # quick or paper
seed = 0
width: int | None = None  # units per hidden layer, two points; None: the preset's
num_positions: int | None = None  # blob positions along each axis
num_steps: int | None = None  # of training on digits

# %% tags=["setup"]
import jax

jax.config.update("jax_enable_x64", True)
from functools import partial

import numpy as np
from coding_schemes import data, tasks
from coding_schemes.theory import two_point
from coding_schemes.two_points import DESCRIBED, panels, side_by_side
from companion import figures, presets
from companion.findings import Control, Estimate, Finding, spread
from companion.predicates import above, below, standard_errors
from companion.workbench import titled
from myst_nb import glue
from structure import runs
from structure.runs import LEARNED, MERGED, PAIRS

sizes = presets.sizes(
    runs,
    preset,
    width=width,
    blobs={"num_positions": num_positions},
    digits={"num_steps": num_steps},
)
key = jax.random.key(seed)
blobs = tasks.blobs(sizes.blobs.num_positions)
of_blobs = {"task": blobs, "networks": sizes.blobs.networks, "faster": sizes.blobs.faster}
phis = {"tanh": "tanh", "leaky ReLU": runs.LEAKY}
done = side_by_side(
    partial(runs.learn_blobs, key, size, phi, **of_blobs) for phi in phis.values() for size in runs.BLOBS
)
collapsed = {name: {size: done.pop(0) for size in runs.BLOBS} for name in phis}
kinds = list(collapsed)
ratio = {
    size: runs.median(np.transpose([collapsed[name][size].irrelevant for name in kinds]))
    for size in runs.BLOBS
}
size_of_blobs = {"N": 100, "L": 4, "P": blobs.num_inputs, "networks": sizes.blobs.networks}

# %% tags=["hide-input"]
medians = {size: {name: np.median(collapsed[name][size].loss) for name in kinds} for size in runs.BLOBS}
losses = {size: ", ".join(f"{loss:.0e}" for loss in each.values()) for size, each in medians.items()}
waiting = {size: [name for name in kinds if each[name] > LEARNED] for size, each in medians.items()}
lacking = {
    size: f"Still on their plateau when time was up: {', '.join(each)}." if each else ""
    for size, each in waiting.items()
}
collapse = Finding(
    "C8",
    "low weights: variance along the irrelevant over the relevant coordinate, median over networks",
    headline=True,
    sampled=ratio["low"],
    over=kinds,
    size=size_of_blobs,
    figure="feature_collapse",
    panel="Paper C, Fig. 8; Paper C, Fig. 12",
    control=Control("high weights", sampled=ratio["high"]),
    lacking=lacking["low"],
)
collapse.draw(
    runs.projections,
    'From large ("high") weights a network keeps both coordinates in each context (a plane, seen edge-on); '
    "from small ones it keeps the coordinate that is asked for, once it has left its plateau. "
    "Representations in the middle hidden layer of one network of each kind on two principal axes, colored "
    "by the target; circles: x asked for, squares: y.",
    points=[[each[size].projection for size in each] for each in collapsed.values()],
    targets=blobs.targets[:, 0].reshape(2, -1),
    learned=[[each[size].loss[0] <= LEARNED for size in each] for each in collapsed.values()],
    titles=[f"{size} weights" for size in runs.BLOBS],
    row_names=kinds,
)
collapse.judge(
    below(MERGED, 3),
    note=f"median of the last losses {losses['low']}",
    because="networks stay on their plateau for most of the run",
)

# %% [markdown]
# *Needs:* the theory of the [last chapter](universality.ipynb). *Reading:* 12 minutes.
#
# The *gain* sets the size of the initial weights: their variance is 2 gain² over the sum of the numbers of
# units below and above the layer. "Small" and "large", "low" and "high" weights are small and large gains.
#
# Try it: four points, two targets, six layers. Who merges?

# %%
import jax
from coding_schemes import tasks, training

xor_task = tasks.xor()  # 00, 11 with target 0; 01, 10 with target 1
model = training.Architecture(jax.nn.leaky_relu, gain=0.7, width=60, depth=6)
run = training.train(
    model, jax.random.key(0), xor_task.inputs, xor_task.targets, learning_rate=0.05, num_steps=6000,
    record_every=100, stop_loss=1e-6, track=training.outputs_and_distances,
)  # fmt: skip
print("squared distances of 00, 11, 01, 10 in the last hidden layer, after training:")
print(run.tracked["distances_sq"][0, -1, -1].round(2))

# %% [markdown]
# ## XOR
#
# In XOR, 00 and 11 share one target, 01 and 10 the other. The inputs do not suggest these pairs. Does a
# deep network put them together?
#
# In theory two points with one target end at most as far apart as they began. From small weights this is
# negligible beside the final distances of the other pairs, and so the two points merge. From large weights
# all distances stay near their initial values, and the two points stay apart.
#
# In symbols: $H$ and $Q$ are the squared distances of the representations and of the outputs of two points,
# and a subscript 0 marks the start. For two points with one target theory gives $H^* = \max(0, H_0 -
# Q_0/\rho H_0)$: the distance at the start, less what the outputs differ by then. Here $\rho =
# \eta_y/(\eta_h|dx|^2)$ is the ratio of the two fitted rates, over the squared distance of the inputs.
#
# We apply the theory pair by pair, to the distances before training. The rates are those of the default
# network on two points, which has twenty layers. Rates belong to an architecture, but we take the same ones
# for one hidden layer. Nothing is fitted to XOR, and the other two points do not enter.

# %% tags=["hide-input"]
square = vars(sizes.square)
two_points = runs.default(key, sizes.width, sizes.num_seeds)
rates = two_points.fit(int(two_points.done[0]) if len(two_points.done) else 0)
of_xor = partial(runs.learn_xor, key, **square, rates=rates)
*done, xor_adam = side_by_side(
    [*(partial(of_xor, name) for name in runs.XOR), partial(of_xor, "small", adam=True)]
)
xor = dict(zip(runs.XOR, done, strict=True))
small, large, shallow = (xor[name] for name in ("small", "large", "one layer"))
of_square = {
    "over": PAIRS,
    "size": {"N": square["width"], "L": 20, "networks": square["networks"]},
    "panel": "Paper C, Fig. 6",
}
merged = runs.median(small.merged())
undecided = np.all(merged.value < MERGED) and not below(MERGED, 3)(merged.value, None, merged.error)
merging = Finding(
    "C7",
    "small weights: squared distances of points with one target over those of the other pairs, median over "
    "networks",
    headline=True,
    sampled=merged,
    figure="xor",
    control=Control("large weights", sampled=runs.median(large.merged())),
    lacking="The median's error is too large to decide; it needs more networks." if undecided else "",
    **of_square,
)
shown = {**xor, "small, Adam": xor_adam}
merging.draw(
    runs.square_matrices,
    "Points with the same target merge at small initial weights and stay apart at large ones; a network "
    "with one hidden layer merges only one of the two pairs. Squared distances between the four "
    "representations in the middle hidden layer of one network of each kind, each panel in units of its "
    "largest: before training, in theory, after training.",
    matrices=[[getattr(each, part)[0] for each in shown.values()] for part in ("start", "theory", "end")],
    titles=list(shown),
    row_names=["start", "theory", "end"],
    ticks=["00", "11", "01", "10"],
)
both = np.all(small.merged() < MERGED, axis=1)
merging.judge(
    below(MERGED, 3),
    note=f"both pairs merge in {both.sum()} of {len(both)} networks; at the start "
    f"{small.merged('start').mean(0).round(2).tolist()}, in theory "
    f"{small.merged('theory').mean(0).round(2).tolist()}; largest last loss {small.loss.max():.0e}",
    because="half of the networks leave a pair apart",
)
left = [spread(each.merged() / each.merged("start")) for each in (large, small)]
Finding(
    "C7",
    "large weights: share of these ratios that training leaves, nearer to all than to nothing",
    sampled=left[0],
    control=Control("small weights", sampled=left[1]),
    **of_square,
).judge(
    above(0.5, 3),
    note=f"largest last loss {large.loss.max():.0e}",
    because="these weights are not large enough",
)
of_one_layer = {"panel": of_square["panel"], "size": of_square["size"] | {"L": 1}}
Finding(
    "C7",
    "one hidden layer, small weights: the pair 01–10 stays apart",
    sampled=spread(shallow.merged()[:, 1]),
    control=Control("twenty layers", sampled=spread(small.merged()[:, 1])),
    **of_one_layer,
).judge(above(MERGED, 3), note=f"largest last loss {shallow.loss.max():.0e}", because="both pairs merged")
Finding(
    "C7",
    "one hidden layer, small weights: the pair 00–11 merges",
    sampled=spread(shallow.merged()[:, 0]),
    control=Control("the same networks before training", sampled=spread(shallow.merged("start")[:, 0])),
    **of_one_layer,
).judge(below(MERGED, 3), because="no pair merged")

# %% [markdown]
# At small weights the twenty layers merge both pairs, as theory says, and at large weights the distances
# stay. With one hidden layer theory again says that both pairs merge, but 01 and 10 end apart. In twenty
# layers 01 and 10 are closer than the other pairs before training, so that their merging says less. No check
# asks for
# the column "intermediate": at the preset `paper` the other pairs move farther apart there than in theory,
# and 00 and 11 end closer beside them. In the last column the theory is that of gradient descent.
#
# Gains and learning rates are those of paper C's table, with two exceptions. At the table's gain of 0.7 the
# loss of the twenty layers stays on its initial plateau for longer than we can wait. The authors' program
# has 0.85, and we take 0.8. That program's loss lacks the factor ½, so we double the learning rates. Now
# and then a network of 100 units learns the task and leaves 00 and 11 apart; the first check's note says
# how many merge both pairs.
#
# ## Two contexts, one irrelevant coordinate
#
# The inputs are images of a blob on a grid of positions. In one context the network reports the blob's $x$,
# in the other its $y$ (after Flesch et al.).
#
# *Collapse.* In each context the other coordinate is irrelevant: along it $|dy| = 0$. From small weights
# the representation should collapse along it, from a plane for each context to a line
# ({numref}`fig-structure-feature-collapse`). We measure the variance along the irrelevant coordinate over
# that along the relevant one.
#
# *Merging.* Every point has a partner with the same target in the other context, and so the two lines
# should become one. Inputs of different contexts differ more than inputs of one context, so this takes
# *very* small weights. We measure the squared distance of partners over the variance within a context.
#
# Both are medians over networks, since a few networks stay on their plateau.

# %% tags=["hide-input"]
glue("faster", sizes.blobs.faster, display=False)
apart = {
    size: runs.median(np.transpose([collapsed[name][size].contexts for name in kinds])) for size in runs.BLOBS
}
left_out = [[name in waiting[size] for size in runs.BLOBS] for name in kinds]
line = Finding(
    "C8",
    "very low weights: squared distance between the contexts over their spread, median over networks",
    sampled=apart["very low"],
    over=kinds,
    size=size_of_blobs,
    figure="contexts",
    panel="Paper C, Fig. 12",
    control=Control("high weights", sampled=apart["high"]),
    lacking=lacking["very low"],
)
gains = [runs.BLOBS[size][0] for size in runs.BLOBS]
line.draw(
    figures.curves,
    "Once networks have left their plateau, the two contexts lie the closer the smaller the initial weights "
    "were. Squared distance between the contexts over their spread, median over networks; bands: its error; "
    "dashed: below it they count as one line; networks that are still on their plateau are left out.",
    x=gains,
    values=np.where(left_out, np.nan, np.transpose([apart[size].value for size in runs.BLOBS])),
    errors=np.transpose([apart[size].error for size in runs.BLOBS]),
    names=kinds,
    colors=[figures.COLORS["tanh"], figures.COLORS["relu"]],
    scales=("log", "log"),
    levels=[MERGED],
    xlabel="gain of the initial weights",
    ylabel="distance of the contexts",
)
line.judge(
    below(MERGED, 3),
    note=f"median of the last losses {losses['very low']}",
    because="tanh networks keep more than a tenth of the distance at the smallest published gain",
)
blobs_adam = runs.learn_blobs(key, "low", runs.LEAKY, **of_blobs, adam=True)

# %% [markdown]
# At the preset `paper` the irrelevant coordinate is lost from small weights in tanh and in leaky ReLU
# networks. The two contexts merge in leaky ReLU networks, at the smallest gain, and in tanh networks only to
# about the mark of a tenth. (Paper C's text names tanh, but its authors' program trains leaky ReLU; we show
# both.)
#
# From small weights a network starts on a plateau of the loss, where it knows neither coordinate. There may
# be a second one, where it knows their sum but not which of the two is asked for. How long a network stays
# there depends on the draw of its weights. A network still on a plateau says nothing about merging; the
# checks name the nonlinearities for which this is so. In this build learning rates are the published ones
# times {glue:text}`faster`, and epochs are divided by as much.
#
# ## Digits
#
# Among thousands of images no pair is alone. Does a pair follow the three equations of the last chapter all
# the same? They are for $H$, $Q$ and a third quantity, $w$, which vanishes when the outputs have learned the
# targets' difference. We track the first image of a 0 and the first of a 1 in MNIST.

# %% tags=["hide-input"]
images = data.mnist("train") if sizes.digits.images == "ten" else data.mnist_subset()
steps = {"steps": sizes.digits.num_steps, "records": sizes.digits.records}
digits = runs.learn_digits(key, images, **steps, networks=sizes.digits.networks)
digits_adam = runs.learn_digits(
    key,
    images,
    **{name: value // 6 for name, value in steps.items()},
    networks=sizes.digits.networks,
    adam=True,
)
glue("num_images", len(images), display=False)
glue("num_digits", len(np.unique(digits.labels)), display=False)
size_of_digits = {"N": 100, "L": 4, "P": len(images), "networks": sizes.digits.networks}
fits = [digits.pair.fit(r) for r in range(sizes.digits.networks)]
reversed_errors = [runs.backwards(digits.pair, r) for r in range(sizes.digits.networks)]
of_pair = {
    "sampled": spread([fit.error for fit in fits]),
    "size": size_of_digits,
    "panel": "Paper C, Fig. 4",
    "control": Control("the same curves run backwards", sampled=spread(reversed_errors)),
}
tracked = Finding(
    "C9",
    "two tracked digits: fit error, less than half of a constant's",
    headline=True,
    figure="two_digits",
    **of_pair,
)
tracked.draw(
    figures.fit_panels,
    "Two digits among many roughly follow the theory of two in their distances H and Q, but not in w. "
    "Markers: the first zero and the first one, in the middle hidden layer of one network (the check has "
    "all of them); lines: theory with two fitted rates; above: fit error of each quantity, over its own "
    "variance. Each is drawn in units of its largest value.",
    **runs.digit_arrays(digits),
)
tracked.judge(below(0.5, 3), because="w does not follow; whether the other digits move it was not tested")
Finding("C9", "two tracked digits: fit error, at the mark of 5 % for a pair alone", **of_pair).judge(
    below(DESCRIBED, 3),
    note="H, Q, w: " + ", ".join(f"{e:.3f}" for e in np.mean([fit.errors for fit in fits], axis=0)),
    because="w does not follow; whether the other digits move it was not tested",
)

# %% [markdown]
# The fit error sums over the three curves, and $w$, which is fitted worst, counts little in it; the note has
# all three. At the preset `paper` the network drawn is fitted better than the mean. We have not trained on
# these two images alone, so it is open how much of the error is the other digits' doing.
#
# Does the theory know which digits lie far apart? From small weights it says $H^* \propto |dx||dy|$ for each
# pair, $|dy|$ being the distance of the targets. This cannot hold for all pairs at once: two images of one
# digit should coincide, and yet be at different distances from a third image. So paper C sums over similar
# images. With the matrix $A$ of all $|dx||dy|$ it predicts the matrix product $e^{-A} A\, e^{-A}$, where
# exponentials are taken entry by entry. They are the weights of the sum. For real images a weight is 1 for
# two images of one digit and practically 0 otherwise.
#
# For a pair of digits the formula thus gives the *sum* of their images' distances, which depends mainly on
# how many images there are. We normalize the weights and predict the *mean* distance. Then the prediction
# has two parts: *same digit or not*, which the labels alone give, and *which digits are far apart*. Only
# the second is a test.
#
# Even the second part has two simpler explanations. Images that differ more end farther apart in any
# network, and they are farther apart already in the untrained one. So we first remove what these two
# distances explain, that of the images and that in the untrained network. Then we correlate the ranks of
# the network's distances with those of the prediction, over pairs of different digits. The error is the
# scatter of this correlation when the digits of the prediction are permuted at random. At the preset
# `paper` the correlation is 0.22 ± 0.13 under gradient descent and 0.26 ± 0.15 under Adam: not shown to
# differ from zero, and not shown to be small.

# %% tags=["hide-input"]
few = "" if len(np.unique(digits.labels)) > 5 else "Three digits have too few exchanges to test against."
for claim, name, each, panel in (("C9", "", digits, "9"), ("C11", " under Adam", digits_adam, "16")):
    beyond = Finding(
        claim,
        f"pairs of different digits{name}: rank correlation of their distances with the prediction, beyond "
        "those of images and untrained networks",
        sampled=each.beyond(),
        size=size_of_digits,
        figure="digit_distances",
        panel=f"Paper C, Fig. {panel}",
        control=Control("untrained networks, given the images", sampled=each.beyond(untrained=True)),
        lacking=few,
    )
    if claim == "C9":
        beyond.draw(
            runs.square_matrices,
            "The theory sees one number per pair of digits. Squared distances of a hundred images, sorted "
            "by digit, each panel in units of its largest: prediction with normalized weights, one network "
            "trained by gradient descent, one by Adam.",
            matrices=[[each.theory, each.distances[0], digits_adam.distances[0]]],
            titles=["theory", "gradient descent", "Adam"],
            row_names=["image, by digit"],
            ticks=np.unique(digits.labels),
            edges=np.unique(digits.labels, return_index=True)[1],
        )
    beyond.judge(
        above(0, 3),
        note=f"mean of the last losses {each.loss.mean():.2g}",
        because="what the prediction knows beyond labels, images and untrained networks know too",
    )

# %% [markdown]
# This build trains on {glue:text}`num_images` images of {glue:text}`num_digits` digits. At the preset
# `paper` the learning rate is twenty times the published one (for our loss, which sums over outputs) and the
# epochs are a twentieth, so that the training time is the same.
#
# ## Adam
#
# The equations are those of gradient descent. Adam divides by the size of the gradients and so changes the
# dynamics. The final distances may be the same, since both methods stop where the gradient vanishes.

# %% tags=["hide-input"]
adam = runs.default(key, sizes.width, sizes.num_seeds, adam=True)
both = {"gradient descent": two_points, "Adam": adam}
broken = Finding(
    "C11",
    "default network on two points: logarithm of the fit error under Adam over the mark of 5 %",
    headline=True,
    sampled=spread(np.log(runs.fit_errors(adam) / DESCRIBED)),
    size={"N": sizes.width, "L": 20, "networks": sizes.num_seeds},
    figure="adam",
    panel="Paper C, Fig. 13",
    control=Control("gradient descent", sampled=spread(np.log(runs.fit_errors(two_points) / DESCRIBED))),
)
broken.draw(
    figures.fit_panels,
    "Adam leaves the theory of two points. Markers: a default network under either; lines: theory with its "
    "two fitted rates; above: fit error.",
    columns=2,
    **panels(both),
)
broken.judge(above(0, 3), because="at this rate Adam moves like gradient descent")
Finding(
    "C11",
    "XOR under Adam, small weights: squared distances of points with one target over those of the other "
    "pairs",
    sampled=spread(xor_adam.merged()),
    control=Control("large weights", sampled=spread(large.merged())),
    **of_square | {"panel": "Paper C, Fig. 14"},
).judge(
    below(MERGED, 3),
    note=f"largest last loss {xor_adam.loss.max():.0e}",
    because="Adam's first steps move every weight alike and so enlarge them: they are small no longer",
)
Finding(
    "C11",
    "blobs under Adam, low weights: variance along the irrelevant over the relevant coordinate, leaky ReLU",
    sampled=runs.median(blobs_adam.irrelevant),
    size=size_of_blobs,
    panel="Paper C, Fig. 15",
    control=Control(
        "high weights, gradient descent", sampled=runs.median(collapsed["leaky ReLU"]["high"].irrelevant)
    ),
).judge(
    below(MERGED, 3),
    note=f"median of the last losses {np.median(blobs_adam.loss):.0e}",
    because="Adam's larger steps leave more of the irrelevant coordinate",
)

# %% [markdown]
# Under Adam the fit error on two points lies above 5 %, the mark below which the last chapter counts a
# network as described. So the equations do not hold. From small weights training ends as under gradient
# descent: on XOR points with one target merge, and leaky ReLU networks lose the irrelevant coordinate of the
# blobs. The control is gradient descent from large weights. Whether Adam, too, keeps points apart from
# there, and whether it merges the two contexts, we have not asked.
#
# ## The networks of this book in the two-point measure
#
# Do the networks of the other chapters follow this theory? None of the papers asks. With representations
# $\phi(z)/\sqrt N$ the distance is made of entries of the kernel, $H = K_{11} + K_{22} - 2K_{12}$ for the
# inputs 1 and 2. We make two tests.
#
# *Descent.* Networks with one hidden layer, lazy or not, start with weights from the prior and descend on
# two orthogonal inputs with the targets $\pm1$. These weights are not small. For non-lazy networks the
# theory then gives a final distance above that of small weights, $|dy|/\sqrt\rho$. Both rates are fitted to
# each network's whole curve, its end included. So the final distance tests the fit, and is no prediction.
#
# Nor does a good fit single out the equations. We also fit the four altered ones of the last chapter, each
# wrong in one place. In networks of every kind one of them fits *better* than the right ones; the check's
# note says which, and at the preset `paper` its error is four to nine times smaller. In the last chapter's
# deep default networks of the paper's width all four fit worse. So these fits show that two rates are enough
# to describe the descent, and not that its equations are right.

# %% tags=["hide-input"]
kinds_of_ours = ("linear", "sigmoidal", "relu")
rich, lazy = (
    {phi: runs.descend(key, phi, scaling, sizes.width, networks, seed) for phi in kinds_of_ours}
    for scaling, networks in (("non-lazy", sizes.descents.rich), ("lazy", sizes.descents.lazy))
)
named = {f"{titled(phi)}, {s}": each[phi] for phi in rich for s, each in (("non-lazy", rich), ("lazy", lazy))}
OURS = [titled(phi) for phi in kinds_of_ours]
of_ours = {"over": OURS, "size": {"N": sizes.width, "L": 1, "P": 2, "networks": sizes.descents.rich}}
follows = Finding(
    "D3",
    "descent, non-lazy: fit error with two rates",
    headline=True,
    sampled=runs.each_spread(runs.fit_errors(n) for n in rich.values()),
    figure="descents",
    control=Control(
        "the same curves run backwards", sampled=np.array([runs.backwards(n) for n in rich.values()])
    ),
    **of_ours,
)
follows.draw(
    figures.fit_panels,
    "The two-point theory can be fitted to this book's networks that descend from the prior, though an "
    "altered theory fits even better: non-lazy ones (left) move their representations, lazy ones (right) "
    "hardly do. Markers: one network each; lines: theory with two fitted rates; above: fit error.",
    columns=2,
    **panels(named),
)
follows.judge(below(DESCRIBED, 3), because="H starts at order one, where two inputs are not close")
refitted = 4  # networks of each kind: a fit takes a second
rivals = Estimate(*np.swapaxes([spread(runs.over_right(n, refitted), axis=1) for n in rich.values()], 0, 1))
order = rivals.value.argmin(1), rivals.value.argmax(1)
best, worst = (Estimate(*(rows[range(len(OURS)), k] for rows in rivals)) for k in order)
Finding(
    "D3",
    "descent, non-lazy: logarithm of the fit error of the best altered equations over the right ones'",
    sampled=best,
    control=Control("the alteration that fits worst", sampled=worst),
    **of_ours | {"size": of_ours["size"] | {"networks": refitted}},
).judge(
    below(0, 3),
    note=f"best: {', '.join(list(two_point.ALTERED)[k] for k in order[0])}",
    because="the fit tells the right equations from all of these",
)
where = [runs.ends(n) for n in rich.values()]
Finding(
    "D3",
    "descent, non-lazy: share by which the final distance misses H*",
    sampled=runs.each_spread(np.abs(each.reached / each.predicted - 1) for each in where),
    control=Control(
        "the limit of small weights",
        sampled=runs.each_spread(np.abs(each.reached / each.limit - 1) for each in where),
    ),
    **of_ours,
).judge(below(0.1, 3), because="the fit weighs the outputs more than H")
Finding(
    "D3",
    "descent, lazy: share by which H changes",
    sampled=runs.each_spread(runs.change(n) for n in lazy.values()),
    control=Control("non-lazy", sampled=runs.each_spread(runs.change(n) for n in rich.values())),
    over=OURS,
    size=of_ours["size"] | {"networks": sizes.descents.lazy},
).judge(below(0.1, 3), because="not wide enough to be lazy")

# %% [markdown]
# *Posterior.* How far apart are two inputs of one class in networks sampled from the posterior? In paper
# C's theory they stay as far apart as in the prior. (Outputs under the prior are of order $1/\sqrt N$, so
# $Q_0 \approx 0$, and inputs with one target have $H^* = H_0$, whatever the rates.) In paper
# A's theory their squared distance is twice the mean variance of a neuron's activation within the class.
# Linear neurons keep this variance, so that both theories agree about them. Sigmoidal ones saturate and
# lose most of it. We sample networks of these two kinds on the toy task with three classes and ask how far
# each theory carries to the posterior. Sparse networks we have not tried. Paper C's theory is one of descent,
# with neither prior nor noise.

# %% tags=["hide-input"]
to_sample = partial(runs.sampled_distances, key, temperature=0.01, seed=seed, **vars(sizes.posterior))
done = side_by_side(partial(to_sample, scheme) for scheme in runs.PRIOR)
sampled = dict(zip(runs.PRIOR, done, strict=True))
schemes = [titled(scheme) for scheme in sampled]
same, *each_start = (
    Estimate(*np.transpose(rows))
    for rows in zip(*([each.same, *each.each_start] for each in sampled.values()), strict=True)
)
theory_same = np.array([each.theory for each in sampled.values()])
posterior = Finding(
    "D3",
    "posterior: squared distance of inputs of one class over the prior's, N → ∞",
    sampled=same,
    theory=theory_same,
    over=schemes,
    source="paper A's theory",
    size={"N": sizes.posterior.widths, "P": sizes.posterior.num_inputs, "T": 0.01}
    | {"networks": sizes.posterior.num_networks},
    sampler=[start.equilibrium for each in sampled.values() for start in each.starts],
    starts=tuple(each_start),
    figure="posterior",
    control=Control(
        "paper C's theory: it stays",
        theory=np.ones(len(schemes)),
        spared=[name for name in schemes if name == "linear"],
        because="in linear networks both theories say that distances within a class stay",
    ),
)
posterior.bars(
    "Linear codes keep the distance within a class, sigmoidal ones saturate and take most of it away. That "
    "is paper A's theory (circles), and not paper C's (triangles). Mean squared distances of inputs of one "
    "class over the prior's, on a line in 1/N at N → ∞.",
    points={"paper C's theory": np.ones(len(schemes))},
    colors=[figures.COLORS["samples"]],
    ylabel="squared distance over the prior's",
)
posterior.judge(standard_errors(3), because="corrections of order 1/N²")

# %% [markdown]
# ## What to take away
#
# - From small weights points with one target merge, from large ones distances stay as they were. On XOR this
#   holds for both pairs in deep networks; with one hidden layer it fails for one pair. On blobs the
#   irrelevant coordinate is lost; at the preset `paper` the two contexts merge in leaky ReLU networks, and in
#   tanh networks only nearly. From small weights Adam, too, merges the pairs of XOR, and loses the irrelevant
#   coordinate in leaky ReLU networks.
# - Its numbers hold for two points trained alone. Two digits among many follow them roughly in H and Q, and
#   not in w.
# - Non-lazy networks from the prior can be fitted by the equations under descent, though their weights are
#   not small. Altered equations fit even better, so that the fit does not speak for the right ones.
# - In the posterior it depends on the coding scheme whether a class merges: in a redundant scheme inputs of a
#   class have little room to differ, in an analog one they stay as far apart as in the prior (sparse ones
#   were not tried). A theory of two points does not know the scheme, and says that they stay apart in both.
#   It is a theory of gradient descent without noise or prior, which we have not tried on these classes.
#
# **Limits.** XOR networks have 100 units per layer, not the paper's 500. The preset `quick` has fewer blobs,
# the three digits that come with the book, and too few epochs for some networks to leave their plateau. Lazy
# networks of 100 units still move a little.
#
# **Reproduced in part.** At the preset `paper` the two contexts of tanh networks come together only to
# about a tenth of their spread. The weighted formula is not shown to know which digits lie far apart, beyond
# what images and untrained networks say already; a rank correlation of a half is not excluded.
#
# ## Exercises
#
# **1.** Predict first: what does the theory say of two points with one target, as initial weights grow?

# %% tags=["solution"]
from coding_schemes.theory import two_point

for gain in (0.01, 0.1, 1.0, 10.0):
    print(gain, two_point.final_distance(gain, 0.3 * gain**2, 0.002, 0.006, 1.0, 0.0) / gain)

# %% [markdown]
# With one target the share of the distance that is left is $1 - Q_0/(\rho H_0^2)$. It is the same at every
# scale if $Q_0\propto H_0^2$. The cell sets it so, and it holds halfway through a network, where the
# decoder is as deep as the encoder. So small weights do not shrink such a distance by a larger factor. They
# merge the points because the other distances grow.
#
# **2.** Does a network with one hidden layer merge both pairs of XOR from small weights?

# %% tags=["solution"]
one_layer = training.Architecture(jax.nn.leaky_relu, gain=0.01, width=60, depth=1)
again = training.train(
    one_layer, jax.random.key(0), xor_task.inputs, xor_task.targets, learning_rate=0.2, num_steps=40_000,
    record_every=100, stop_loss=1e-6, track=training.outputs_and_distances,
)  # fmt: skip
print(again.tracked["distances_sq"][0, -1, -1].round(2))

# %% [markdown]
# Only the pair 00–11. The other two, 01 and 10, end farther from each other than from the other class.
#
# **3.** Cool a sigmoidal network further. What becomes of the distance within a class?

# %% tags=["solution"]
from coding_schemes.theory import sigmoidal

for temperature in (0.03, 0.01, 0.003):
    within = sigmoidal.solve(tasks.toy(60, y_minus=0.0), temperature).kernel_diagonal
    print(temperature, (2 * within).round(4), "for the three classes")

# %% [markdown]
# It falls, but not to zero. What is left at low temperature is freedom of the weights that the training
# outputs do not see.
