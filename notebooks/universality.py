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
# # Universality: two points in a deep network
#
# **At a glance.** Networks of very different architecture learn alike, and for two nearby inputs there is a
# theory in which the architecture does not appear {cite:p}`vanrossem2024`: three numbers, namely how far
# apart the representations are, how far apart the outputs are, and how well the outputs' difference is
# aligned with the targets', obey closed equations with two effective rates. We train the networks of the
# paper's Table 1 and fit: the three numbers are the right ones, and the order of final distances follows from
# them; the equations themselves are pinned down less well than the fits suggest.
#
# *Did not come out:* that the fit singles out the equations (doubling one of them changes little), that the
# third number is followed as well as the others, that the loss falls at once from weights that paper C calls
# large, that final distances of *narrow* networks are predicted, and that networks lose their randomness at
# small weights (part of it is their width). *Needs:* gradient descent; none of the other chapters. *Reading:*
# 12 minutes.

# %% tags=["parameters", "hide-input"]
preset = "quick"  # quick or paper
seed = 0
width: int | None = None  # units per hidden layer of the wide networks; None: the preset's
num_networks: int | None = None  # independent networks per pair of points
num_repeats: int | None = None  # networks per gain and width, for the randomness of the final distance

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes.theory import two_point
from companion import figures, presets
from experiments import two_point as experiment
from experiments import universality
from experiments.two_point import learn
from experiments.two_point_figures import depth_panels, fit_panels, scatter_panels
from myst_nb import glue

quick = {"width": 100, "rows": ("default", "shallow", "tanh"), "gains": (0.9, 1.0, 1.3), "num_seeds": 2}
quick |= {"pairs": {"shallow": (50, 2)}, "num_networks": 2}
quick |= {"narrow_gains": (0.9, 1.3), "widths": (25, 50, 100), "num_repeats": 8}
rows = ("default", "convolution", "skip", "shallow", "narrow", "dropout", "linear", "relu", "elu", "tanh")
paper = {"width": 500, "rows": (*rows, "swish"), "gains": (0.9, 1.0, 1.1, 1.3, 1.4), "num_seeds": 3}
paper |= {"pairs": {"default": (500, 1), "narrow": (50, 10), "shallow": (500, 4)}, "num_networks": 10}
paper |= {"narrow_gains": (0.9, 1.05, 1.3), "widths": (25, 50, 100), "num_repeats": 20}
given = {"width": width, "num_networks": num_networks, "num_repeats": num_repeats}
settings = presets.choose(preset, quick=quick, paper=paper, given=given)
key = jax.random.key(seed)
table = experiment.table(settings.width)
units = {name: min(most, settings.width) for name, (most, _) in settings.pairs.items()}

# %%
networks = {
    name: learn(jax.random.fold_in(key, k), table[name], draws=3)
    for k, name in enumerate((*settings.rows, "gain 0.9"))
    if name in table
}
fits = {name: network.fit() for name, network in networks.items()}

# %% tags=["hide-input"]
figures.publish(
    fit_panels,
    "architectures",
    caption="Two rates describe how two points move apart, whatever the architecture. Squared distance of "
    "the representations halfway through the network, H, of the outputs, Q, and w = Q − dy·dŷ, which is "
    "zero where the outputs' difference meets the targets'. Markers: one network each; lines: theory with "
    "its two fitted rates; above: fit error in units of the curves' variance. "
    f"{settings.width} units per layer (narrow: 50), rates and gains of paper C's Table 1. Paper C, Fig. 2.",
    **experiment.fit_arrays(networks, fits),
)

# %% [markdown]
# ## A theory without an architecture
#
# **Question.** What can be said about learning if nothing is said about the network?
#
# Split a network at a hidden layer into an encoder $x \to h$ and a decoder $h \to \hat y$. Around the mean
# of two nearby inputs both are linear, $dh = D_h\,dx$ and $d\hat y = D_y\,dh$. The modeling assumption is
# that training does gradient descent on $D_h$ and $D_y$ themselves, at effective rates $\eta_h$ and
# $\eta_y$ that hold all that is left of the architecture. If the representations move together or apart
# without rotating, three scalar quantities close,
#
# $$
# \begin{gathered}
# H = |dh|^2, \qquad Q = |d\hat y|^2, \\
# w = Q - dy\cdot d\hat y ,
# \end{gathered}
# $$ (eq-two-point-variables)
#
# $$
# \begin{aligned}
# \dot H &= -\eta_h |dx|^2\, w \\
# \dot Q &= -w\,\bigl(\eta_y H + \eta_h |dx|^2\, Q/H\bigr) \\
# \dot w &= -\tfrac12 \eta_y\, (3w - Q + |dy|^2)\, H \\
# &\quad - \tfrac12 \eta_h |dx|^2\, (Q + w)\, w/H .
# \end{aligned}
# $$ (eq-two-point)
#
# The loss is $L = \tfrac12\langle |f-y|^2\rangle$, with a mean over the inputs, and time counts steps, so
# that $\eta_h$ and $\eta_y$ contain the learning rate.
#
# Dividing the second line by the first gives an invariant, and with it everything about the end:
#
# $$
# \begin{gathered}
# Q = \rho H^2 + C H, \\
# \rho = \frac{\eta_y}{\eta_h |dx|^2}, \qquad C = \frac{Q_0}{H_0} - \rho H_0 ,
# \end{gathered}
# $$ (eq-two-point-invariant)
#
# $$
# H^* = \frac{-C + \sqrt{C^2 + 4\rho |dy|^2}}{2\rho} .
# $$ (eq-two-point-final)
#
# Of the three fixed points on the curve {eq}`eq-two-point-invariant` this is the only one that is stable
# and can be reached; another has negative $H$, and the third is the origin, a saddle, at which a network
# with small weights waits. Small weights end at $H^* \to \sqrt{\eta_h/\eta_y}\,|dx||dy|$, set by the data
# (*rich*); large ones stay at $H^* \to H_0 - Q_0/(\rho H_0)$, set by the draw of the weights (*lazy*).

# %%
rates = {"eta_h": 0.002, "eta_y": 0.006, "dx2": 1.0}
times = np.linspace(0, 4000, 401)
initial_H = np.geomspace(1e-3, 3, 7)
paths = [
    two_point.solve(H, 0.3 * H**2, 0.3 * H**2 - 0.1 * H, **rates, dy2=0.5, times=times) for H in initial_H
]
H_star = two_point.final_distance(initial_H, 0.3 * initial_H**2, **rates, dy2=0.5)

# %% tags=["hide-input"]
figures.publish(
    figures.trace_panels,
    "theory",
    caption="Small initial weights wait and then end where the data say; large ones decay at once and stay "
    "near where they began. Solutions of the three equations for seven initial distances, "
    "dashed: the final distance in closed form. Right: the part of the loss that the difference contributes.",
    **universality.theory_arrays(paths, H_star, dy2=0.5),
)
universality.check_closed_forms(rates, times)

# %% [markdown]
# Two cases close altogether. For identical targets, $w = Q$, and the first line is a Bernoulli equation,
#
# $$
# \frac1{H(t)} = \frac{e^{kt}}{H_0} + \eta_y\,\frac{e^{kt}-1}{k}, \qquad k = \eta_h|dx|^2 C .
# $$ (eq-two-point-closed)
#
# And $H\to gH$, $(Q,w)\to g^2(Q,w)$, $t\to t/g$ leaves {eq}`eq-two-point` as it is, but for
# $|dy|^2\to|dy|^2/g^2$: at large weights any pair behaves as if its targets were the same.
#
# ## Two rates for every architecture
#
# The points of {numref}`fig-universality-architectures` are single numbers with one target each, $|dx|^2 = 1$
# and $|dy|^2 = 1/2$. Every network has its own gain of the Xavier-normal initialization and its own learning
# rate. The fit error is the squared deviation over the network's squared deviation from its time average,
# summed over the three curves, so that 1 is no better than a constant; below 5 % a network counts as
# described. With the default network's rates hardly any other one is.
#
# The fits say that the *variables* are the right ones. Are the *equations*? We alter them in one place, as
# the authors do, and fit again, on {glue:text}`num_seeds` default networks. Doubling the second equation, or
# dropping or turning a term of the encoder, makes the fit several times worse; a factor of two in the first
# changes it by less than a factor of two, in either direction. Yet even altered equations mostly stay below
# 5 %: that mark tells the right variables, not the right equations.

# %% tags=["hide-input"]
seeds = [networks["default"]]
seeds += [learn(jax.random.fold_in(key, 50 + k), table["default"]) for k in range(1, settings.num_seeds)]
glue("num_seeds", len(seeds), display=False)
altered = universality.altered_errors(seeds)
figures.publish(**universality.fit_error_figure(fits, altered))
universality.check_architectures(networks, fits)
universality.check_altered(altered)

# %% [markdown]
# Where fits are worst the pattern is the same: the network waits longer and then moves faster than the
# fitted curve. In a product of many matrices the rates grow with the weights; the theory takes them as
# constant.
#
# ## Initial weights, and the loss
#
# The default network again, from small to large initial weights. The loss brings one more rate, that of the
# outputs' mean,
#
# $$
# L(t) = \tfrac12 e^{-2\bar\eta t}\,|\bar e_0|^2 + \tfrac18\,\bigl(2w - Q + |dy|^2\bigr) ,
# $$ (eq-two-point-loss)
#
# with $\bar e_0$ the outputs' mean error at the start; its rate $\bar\eta$ is fitted to the loss after the
# other two were fitted to the distances. The wait ends only where outputs start farther apart than the
# targets, $Q_0 > |dy|^2$, which the gains of Table 1 do not reach in networks of this depth; by the theory's
# scaling above, any pair then behaves as if its targets were the same, and decays at once. Of the three
# numbers $H$ is by then far outside of what the fit can follow.

# %% tags=["hide-input"]
known = {table[name]: network for name, network in networks.items()}
series = [known.get(row) or learn(key, row) for row in (table[f"gain {gain}"] for gain in settings.gains)]
series_fits = [network.fit() for network in series]
figures.publish(
    fit_panels,
    "gains",
    caption="The plateau shortens as initial weights grow, until the theory breaks down: the same network at "
    "growing gain (above each column), and falling learning rate, so compare shapes, not steps. Markers: "
    f"one network of 20 × {settings.width} units each; lines: theory, with two rates fitted to the distances "
    "(above: H) and one more to the loss (below). Paper C, Fig. 3.",
    **universality.gain_arrays(settings.gains, series, series_fits),
)
large = learn(key, table[f"gain {experiment.LARGE_GAIN}"], steps=1800, record_every=1)
figures.publish(**universality.plateaus(settings.gains, series, large))
universality.check_gains(settings.gains, series, series_fits, large)
described = [name for name, fit in fits.items() if fit.error < experiment.DESCRIBED]
universality.check_losses(described, [networks[n] for n in described], [fits[n] for n in described])

# %% [markdown]
# ## Which layer?
#
# The theory speaks of "some hidden layer". For the approximation around the mean the representations must
# start close. With small weights the initial distance falls by a constant factor per layer, $H_0 \propto
# (g^2/2)^\ell$ for (leaky) ReLU neurons at gain $g$, so the theory should improve with depth. It does, up to
# the middle of the network; and the deeper the split, the more parameters in the encoder, the fewer in
# the decoder, which the fitted rates follow from the middle on.

# %%
layers = experiment.over_layers(seeds)

# %% tags=["hide-input"]
figures.publish(
    depth_panels,
    "depth",
    caption="The fit is best near the middle (left: summed squared deviation); beyond it the encoder's rate "
    "grows and the decoder's falls (center); the initial distance shrinks with depth (right). Small markers: "
    f"{len(seeds)} default networks of 20 × {settings.width} units; large: their geometric mean; dashed: the "
    "losses printed by paper C's authors, scaled; line: paper C's Eq. 14. Paper C, Fig. 10.",
    **universality.layer_arrays(layers, gain=1.0),
)
universality.check_layers(layers, gain=1.0)

# %% [markdown]
# ## Where training ends
#
# Now take one ratio of rates per architecture, the mean over networks trained at $|dx|^2 = 1$, $|dy|^2 =
# 1/2$, and predict the final distance at 25 other pairs: $|dx|$ from 0.5 to 1.5, $|dy|$ from 0 to 1. The
# only further input to {eq}`eq-two-point-final` are the networks' initial distances.

# %%
chosen = {name: experiment.table(units[name])[name] for name in units}
repeats = {name: min(most, settings.num_networks) for name, (_, most) in settings.pairs.items()}
pairs = experiment.final_distances(key, chosen, repeats, settings.num_networks, {table["default"]: seeds})

# %% tags=["hide-input"]
figures.publish(
    scatter_panels,
    "final_distance",
    caption="Rates fitted at one pair predict the final distance at 25 others, the better the wider the "
    "network. Markers: means over networks with standard errors, a color for each distance of the inputs; "
    "line: equality. Units per layer, and networks per pair: "
    + "; ".join(f"{name} {units[name]}, {found.repeats}" for name, found in pairs.items())
    + ". Paper C, Fig. 5, which has one network per pair.",
    **universality.pair_arrays(pairs),
)
universality.check_pairs(pairs, seed)

# %% [markdown]
# ## Does randomness vanish at small weights?
#
# In the theory it does: as $H_0 \to 0$, $H^*$ forgets the draw of the weights. But the theory takes the
# rates as given, and the rates of two networks differ. So the spread over networks is measured three times:
# of the initial distances, of {eq}`eq-two-point-final` with one ratio of rates for all, and of the final
# distances the networks reach. What the theory leaves out is a matter of width.

# %%
spreads = experiment.spreads(key, settings.widths, settings.narrow_gains, settings.num_repeats)

# %% tags=["hide-input"]
figures.publish(
    figures.curves,
    "spread",
    caption="Smaller initial weights make final distances less random (right to left), but not nearly as "
    "much as theory says: effective rates differ between networks, the less the wider these are. Standard "
    f"deviation over mean of squared distances, 20 layers, {settings.num_repeats} networks per width and "
    f"gain; bands: its standard error; initial distances and theory at N = {max(settings.widths)}. Claim of "
    "paper C's appendix A.6 (Eq. 48).",
    **universality.spread_curves(spreads),
)
universality.check_spreads(spreads)

# %% [markdown]
# ## What to take away
#
# - Three numbers and two rates describe how two nearby points move apart in nearly all architectures tried;
#   the third, $w$, is followed less well in some. That is strong evidence for the variables, weaker
#   evidence for the equations.
# - The theory needs representations that start close: it degrades at large weights and in early layers, and
#   best describes layers near the middle.
# - Final distances follow the closed form over pairs of inputs and targets in wide networks; in all of them
#   they grow more slowly with the inputs' distance: the ratio of rates is not one constant. At small weights
#   they are set by the data, up to a spread between networks that falls with their width.
#
# What this says about representations of more than two points is the [next chapter](structure.ipynb).
#
# **Limits.** Rates are averaged over fewer networks than the paper's fifty. The 25 pairs are run for up to
# three of its architectures. Fits weigh the three
# curves as the paper does, so that $w$ counts little where it varies little.
