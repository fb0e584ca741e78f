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
# **Question.** Networks of very different architecture learn similar representations. Is there a
# description of learning in which the architecture does not appear at all?
#
# **Answer, before the details.** For two nearby inputs there is {cite:p}`vanrossem2024`: three numbers, how
# far apart the two hidden representations are, how far apart the two outputs are, and how well the outputs'
# difference is aligned with the targets', obey a closed system of equations. The architecture enters
# through two effective learning rates alone. We derive what follows from it, train the networks of the
# paper's Table 1, fit, look for where it breaks, and then ask whether the Bayesian networks of this book's
# main chapters follow it.

# %% tags=["parameters"]
preset = "quick"  # quick or paper
seed = 0
width: int | None = None  # units per hidden layer of the wide networks
num_trials: int | None = None  # networks over which fitted rates are averaged
num_repeats: int | None = None  # networks per gain for the randomness of the final representation
num_epochs_scale: float | None = None  # fraction of the paper's epochs for MNIST
num_positions: int | None = None  # blob positions along each axis

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import warnings
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np
from coding_schemes import data, statistics, tasks, training
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.theory import two_point
from coding_schemes.training import Architecture
from companion import claims, figures, presets
from myst_nb import glue
from scipy import stats

ALL_ROWS = (
    "default",
    "convolution",
    "skip",
    "shallow",
    "narrow",
    "dropout",
    "linear",
    "relu",
    "elu",
    "tanh",
    "swish",
)
settings = presets.choose(
    preset,
    quick={
        "width": 100,
        "rows": ("default", "shallow", "tanh"),
        "grid_rows": ("shallow",),
        "gains": (0.9, 1.0, 1.3),
        "num_trials": 2,
        "num_repeats": 5,
        "num_epochs_scale": 0.25,
        "num_inputs": 40,
        "num_positions": 15,
        "sampled": ("sigmoidal", "relu"),
        "published_blobs": (),
    },
    paper={
        "width": 500,
        "rows": ALL_ROWS,
        "grid_rows": ("shallow", "narrow", "default"),
        "gains": (0.9, 1.0, 1.1, 1.3, 1.4),
        "num_trials": 6,
        "num_repeats": 20,
        "num_epochs_scale": 1.0,
        "num_inputs": 100,
        "num_positions": 30,
        "sampled": ("linear", "sigmoidal", "relu"),
        "published_blobs": ("low as published", "very low as published"),
    },
    given={
        "width": width,
        "num_trials": num_trials,
        "num_repeats": num_repeats,
        "num_epochs_scale": num_epochs_scale,
        "num_positions": num_positions,
    },
)
key = jax.random.key(seed)


def reason(passed, text):
    """The note of a check: the reason found where it failed."""
    return "" if passed else text


def in_parallel(function, items):
    """Results by item, two at a time: the compiled programs run outside Python's lock."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(items, pool.map(function, items)))


# %% [markdown]
# ## The effective theory
#
# Split a network at a hidden layer into an encoder $x \to h$ and a decoder $h \to \hat y$. Around the mean
# of two inputs both are linear, $dh = D_h\,dx$ and $d\hat y = D_y\,dh$. The modelling assumption is that
# training does gradient descent on $D_h$ and $D_y$ themselves, with effective rates $\eta_h$ and $\eta_y$.
# If the representations move together or apart without rotating, three **squared** quantities close,
#
# $$
# H = |dh|^2, \qquad Q = |d\hat y|^2, \qquad w = Q - dy\cdot d\hat y ,
# $$ (eq-two-point-variables)
#
# $$
# \begin{aligned}
# \dot H &= -\eta_h |dx|^2\, w \\
# \dot Q &= -w\,\bigl(\eta_y H + \eta_h |dx|^2\, Q/H\bigr) \\
# \dot w &= -\tfrac12 \eta_y\, (3w - Q + |dy|^2)\, H - \tfrac12 \eta_h |dx|^2\, (Q + w)\, w/H .
# \end{aligned}
# $$ (eq-two-point)
#
# Conventions, used everywhere below: the loss is $L = \tfrac12\langle |f-y|^2\rangle$ with a mean over the
# inputs; time is counted in steps, so $\eta_h$ and $\eta_y$ contain the learning rate; gradient descent
# with rate $\eta$ on $D_h$ gives $\eta_h = \eta/2$ here. Both factors of two are checked by simulating the
# matrices in the library's tests.

# %% [markdown]
# **What follows.** Dividing the second line by the first gives an invariant, and with it everything about
# the end:
#
# $$
# Q = \rho H^2 + C H, \qquad \rho = \frac{\eta_y}{\eta_h |dx|^2}, \qquad C = \frac{Q_0}{H_0} - \rho H_0 ,
# $$ (eq-two-point-invariant)
#
# $$
# H^* = \frac{-C + \sqrt{C^2 + 4\rho |dy|^2}}{2\rho} .
# $$ (eq-two-point-final)
#
# On the curve {eq}`eq-two-point-invariant` there are three fixed points: $H^*$, stable because its trace
# $-\tfrac32\eta_y H^* - \tfrac12\eta_h|dx|^2|dy|^2/H^*$ is negative and its determinant positive; a
# negative root, out of reach; and the origin, a saddle, at which a network with small weights waits. From
# there small weights end at $H^* \to \sqrt{\eta_h/\eta_y}\,|dx||dy|$, set by the data (*rich*); large ones
# keep $H^* \to H_0 - Q_0/(\rho H_0)$, set by the draw of the weights (*lazy*).

# %%
rates = {"eta_h": 0.002, "eta_y": 0.006, "dx2": 1.0}
times = np.linspace(0, 4000, 401)
initial_H = np.geomspace(1e-3, 3, 7)
paths = [two_point.solve(H, 0.3 * H**2, -0.1 * H, **rates, dy2=0.5, times=times) for H in initial_H]
end = np.array(
    [two_point.solve(H, 0.3 * H**2, -0.1 * H, **rates, dy2=0.5, times=[0, 1e5]).H[-1] for H in initial_H]
)
predicted = two_point.final_distance(initial_H, 0.3 * initial_H**2, **rates, dy2=0.5)
assert all(path.converged for path in paths)


# %% tags=["hide-input"]
def plot_theory(times, H, loss, initial, predicted, rich):
    """Theory: distances from small and large initial weights, and the loss with and without a plateau."""
    figure, axes = plt.subplots(1, 2, figsize=(figures.WIDTH, 3.0))
    for row, curve, start, final, color in zip(
        H, loss, initial, predicted, plt.cm.viridis(np.linspace(0, 0.9, len(H)))
    ):
        axes[0].plot(times, row, color=color, label=f"{start:.2g}")
        axes[0].plot(times[-1] * 1.03, final, "<", color=color, clip_on=False)
        axes[1].plot(times, curve, color=color)
    axes[0].axhline(rich, color="0.6", linestyle=":")
    axes[0].set(xlabel="steps $t$", ylabel=r"squared distance $H = |dh|^2$", yscale="log")
    axes[1].set(xlabel="steps $t$", ylabel="loss of the difference", yscale="log", ylim=(1e-6, None))
    axes[0].legend(title="$H_0$", fontsize=7, ncol=2, loc="lower right")
    return figure


figures.publish(
    plot_theory,
    "theory",
    times=times,
    H=[p.H for p in paths],
    initial=initial_H,
    predicted=predicted,
    loss=[two_point.loss_curve(p, 1.0, 0.0, 0.5) for p in paths],
    rich=two_point.rich_distance(**rates, dy2=0.5),
)

# %% [markdown]
# Lines are solutions of {eq}`eq-two-point`, arrows the prediction {eq}`eq-two-point-final`, dots the rich
# limit. Small weights show a plateau: the loss of the difference waits near the saddle, then falls. Large
# ones decay at once.
#
# Two cases close. For identical targets, $dy = 0$, $w = Q$ and the first line is a Bernoulli equation,
#
# $$
# \frac1{H(t)} = \frac{e^{kt}}{H_0} + \eta_y\,\frac{e^{kt}-1}{k}, \qquad k = \eta_h|dx|^2 C .
# $$ (eq-two-point-closed)
#
# And scaling $H\to gH$, $(Q,w)\to g^2(Q,w)$, $t\to t/g$ leaves {eq}`eq-two-point` as it is, but for
# $|dy|^2\to|dy|^2/g^2$: at large weights any pair behaves as if its targets were the same.

# %% tags=["hide-input"]
fixed = two_point.fixed_points(0.05, 1e-3, **rates, dy2=0.5)
stable = [p for p in fixed if p.stable and p.reachable]
worst = np.max(np.abs(end / predicted - 1))
without = np.max(np.abs(end / two_point.rich_distance(**rates, dy2=0.5) - 1))
claims.record(
    "C4",
    "stable reachable fixed points; largest |H(end)/H* − 1| over seven initial weights",
    computed=[len(stable), worst],
    expected=[1, 0],
    tolerance="one; 1e-6",
    passed=len(stable) == 1 and worst < 1e-6,
    control=claims.Control("H* without the invariant's C", without, bool(without < 1e-6)),
)
same = two_point.solve(0.8, 0.4, 0.4, **rates, dy2=0.0, times=times)
closed = two_point.identical_outputs(0.8, 0.4, **rates, times=times)
error = np.max(np.abs(same.H - closed.H)) / 0.8
different = two_point.solve(0.8, 0.4, 0.4, **rates, dy2=0.5, times=times)
wrong = np.max(np.abs(different.H - closed.H)) / 0.8


# %% tags=["hide-input"]
def distance_from_closed(gain):
    """Largest deviation of a network with large weights from the closed solution, in units of its H0."""
    start = 0.4 * gain, 0.2 * gain**2, 0.2 * gain**2 - 0.3 * gain
    path = two_point.solve(*start, **rates, dy2=0.5, times=times / gain)
    return (
        np.max(np.abs(path.H - two_point.identical_outputs(*start[:2], **rates, times=times / gain).H))
        / start[0]
    )


slope = statistics.fit_power_law(
    [30, 100, 300, 1000], [distance_from_closed(g) for g in (30, 100, 300, 1000)]
)
claims.record(
    "C5",
    "identical outputs: deviation of the ODE from the closed solution, in units of H0",
    computed=error,
    expected=0.0,
    tolerance=1e-6,
    passed=error < 1e-6,
    control=claims.Control("the same formula for different outputs", wrong, wrong < 1e-6),
)
claims.record(
    "C5",
    "large weights: exponent of the deviation from the closed solution in the gain g",
    computed=slope.exponent,
    expected=-1.0,
    uncertainty=slope.standard_error,
    tolerance=0.1,
    passed=abs(slope.exponent + 1) < 0.1,
)

# %% [markdown]
# ## Twelve architectures, two rates
#
# Two inputs, one-dimensional, with $|dx|^2 = 1$ and $|dy|^2 = 1/2$. Every network of the paper's Table 1
# has its own gain of the Xavier-normal initialisation and its own learning rate; all start with biases at
# zero and are observed halfway through. Training stops early once the loss is below $10^{-7}$; from there
# nothing moves. With the gain series below the table has fifteen rows; the twelfth architecture counted
# here is the default one at gain 0.9.

# %%
leaky, W = jax.nn.leaky_relu, settings.width
TABLE = {  # architecture, learning rate
    "default": (Architecture(leaky, 1.0, W, 20), 0.005),
    "skip": (Architecture(leaky, 0.1, W, 20, "skip"), 0.01),
    "shallow": (Architecture(leaky, 0.35, W, 2), 0.01),
    "narrow": (Architecture(leaky, 1.05, 50, 20), 0.005),
    "dropout": (Architecture(leaky, 1.0, W, 10, "dropout"), 0.005),
    "linear": (Architecture("linear", 0.85, W, 20), 0.00125),
    "relu": (Architecture("relu", 1.0, W, 20), 0.005),
    "elu": (Architecture(jax.nn.elu, 0.95, W, 20), 0.00045),
    "tanh": (Architecture("tanh", 0.85, W, 20), 0.00125),
    "swish": (Architecture(jax.nn.swish, 1.7, W, 20), 0.0025),
}
if "convolution" in settings.rows:
    TABLE["convolution"] = Architecture(leaky, 0.95, W, 10, "convolution"), 0.002
GAIN_RATES = {0.9: 0.015, 1.0: 0.005, 1.1: 0.0025, 1.3: 0.00075, 1.4: 0.00025}
for gain in settings.gains:
    if gain != 1.0:
        TABLE[f"gain {gain}"] = Architecture(leaky, gain, W, 20), GAIN_RATES[gain]
rows = [*settings.rows, *(f"gain {g}" for g in settings.gains if g != 1.0)]

# %%
task = tasks.two_points(dx2=1.0, dy2=0.5)


def learn(name, stream=0, task=task, slower=1.0, **options):
    """Train a row of the table on two points; a record every 10 steps unless told otherwise."""
    model, rate = TABLE[name]
    options = {"num_steps": 6000, "record_every": 10, "stop_loss": 1e-7} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unconverged runs are counted below
        return training.train(
            model,
            jax.random.fold_in(key, stream),
            task.inputs,
            task.targets,
            learning_rate=rate / slower,
            **options,
        )


def trajectory(run, layer, repeat=0, targets=task.targets):
    """H, Q and w of one network over time."""
    return two_point.measure(run.tracked["H"][repeat, :, layer], run.tracked["outputs"][repeat], targets)


runs = in_parallel(learn, rows)


# %%
def fit_row(name, factors=two_point.UNALTERED):
    """Both rates fitted to a row's three trajectories."""
    model = TABLE[name][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return two_point.fit(
            runs[name].times, *trajectory(runs[name], model.middle), 1.0, 0.5, factors=factors
        )


fits = {name: fit_row(name) for name in rows}
converged = [name for name in rows if runs[name].converged[0]]
compared = [name for name in rows if name in settings.rows or name == "gain 0.9"]
for name in rows:
    f, run = fits[name], runs[name]
    print(
        f"{name:12s} steps {run.num_steps[0]:5d}  loss {run.loss[0, -1]:.1e}  fit error {f.error:8.4f}  "
        f"H, Q, w: {np.array2string(f.errors, precision=3, suppress_small=True)}  "
        f"rates {f.eta_h:.2e} {f.eta_y:.2e} (log errors {f.log_standard_errors.max():.2f})"
    )


# %% tags=["hide-input"]
def plot_fits(times, network, theory, names, errors, stop):
    """Squared distances H, Q and w of trained networks (markers) over the fitted theory (lines)."""
    num_columns = 4
    num_rows = -(-len(names) // num_columns)
    figure, axes = plt.subplots(
        num_rows, num_columns, figsize=(figures.WIDTH * 1.25, 1.75 * num_rows), squeeze=False
    )
    for axis in axes.ravel()[len(names) :]:
        axis.set_visible(False)
    for k, axis in enumerate(axes.ravel()[: len(names)]):
        shown = times <= 1.3 * stop[k]
        marked = np.flatnonzero(shown)[:: max(1, shown.sum() // 18)]
        for q, (color, label) in enumerate(zip(("#332288", "#CC6677", "#44AA99"), ("$H$", "$Q$", "$w$"))):
            axis.plot(times[marked], network[k, q, marked], ".", color=color, label=label)
            axis.plot(times[shown], theory[k, q, shown], color=color, linewidth=1)
        axis.set_title(f"{names[k]}: {errors[k]:.2%}", fontsize=9)
        axis.tick_params(labelsize=7)
    axes[-1, 0].set_xlabel("steps $t$")
    axes[0, 0].set_ylabel("squared distance")
    axes[0, 0].legend(fontsize=7)
    return figure


def publish_fits(names, figure_name):
    """The figure of some rows."""
    figures.publish(
        plot_fits,
        figure_name,
        times=runs[names[0]].times,
        names=names,
        errors=[fits[n].error for n in names],
        network=[trajectory(runs[n], TABLE[n][0].middle) for n in names],
        stop=[runs[n].num_steps[0] for n in names],
        theory=[[fits[n].solution.H, fits[n].solution.Q, fits[n].solution.w] for n in names],
    )


publish_fits(compared, "architectures")

# %% [markdown]
# Markers are networks, lines the theory with its two fitted rates; the titles give the normalised fit
# error: squared deviation over the network's squared deviation from its own time average, summed over the
# three curves, so 100 % is no better than a constant. A row counts as described below 5 %.
#
# **Controls.** First the rates of the default network are carried over to the others: without its own two
# rates no architecture is described. Then the equations are altered in one place and the fit is repeated,
# first on the default network, as the paper's authors do, then on all. Read the 5 % with care: the fit
# weighs the three curves as the paper does, so that the small $w$ counts little (its own error is printed
# above), and altered equations mostly stay below 5 % too. The threshold tests the description by two rates;
# only the comparison with altered equations tests the equations. This weighting was chosen after a first
# one, each curve normalised by itself and the three averaged, had left several rows above 5 %: the fit error
# of that first version is recorded too.


# %% tags=["hide-input"]
def carried_over(name):
    """Fit error with the default network's rates in place of a row's own."""
    observed = np.array(trajectory(runs[name], TABLE[name][0].middle))
    start, rates = observed[:, 0], fits["default"]
    s = two_point.solve(*start, rates.eta_h, rates.eta_y, 1.0, 0.5, runs[name].times, relative_tolerance=1e-6)
    return np.sum((np.array([s.H, s.Q, s.w]) - observed) ** 2) / np.sum(
        (observed - observed.mean(1, keepdims=True)) ** 2
    )


good = [name for name in compared if name in converged and fits[name].error < 0.05]
typical = np.median([fits[name].error for name in compared if name in converged])
foreign = np.array([carried_over(name) for name in compared if name not in ("default", "gain 0.9")])
described = len(good) / len(compared)
missing = {
    name: f"{fits[name].error:.1%}, last loss {runs[name].loss[0, -1]:.1e}"
    for name in compared
    if name not in good
}
claims.record(
    "C1",
    f"fraction of {len(compared)} architectures with a normalised fit error under 5 %",
    computed=described,
    expected=1.0,
    tolerance="all",
    passed=described == 1.0,
    note=f"w alone is off by up to {max(fits[name].errors[2] for name in good):.0%}; "
    + reason(described == 1.0, f"not described, or not trained to the end: {missing}"),
    control=claims.Control(
        "fraction with the default network's rates", np.mean(foreign < 0.05), bool(np.all(foreign < 0.05))
    ),
)

# %% tags=["hide-input"]
separate = {name: fits[name].errors.mean() for name in compared if name in converged}
above = {name: f"{error:.0%}" for name, error in separate.items() if error >= 0.05}
claims.record(
    "C1",
    "the same with each of the three curves normalised by itself (the threshold first set)",
    computed=1 - (len(above) + len(compared) - len(separate)) / len(compared),
    expected=1.0,
    tolerance="all",
    passed=not above and len(separate) == len(compared),
    note=reason(not above, f"above 5 %: {above}; the excess is in w, which is small and follows less well"),
)

# %% tags=["hide-input"]
altered = {
    label: {name: fit_row(name, factors).error for name in compared if name in converged}
    for label, factors in two_point.ALTERED.items()
}
below = {label: np.mean([e < 0.05 for e in errors.values()]) for label, errors in altered.items()}
print("fraction below 5 % with altered equations:", {label: f"{share:.0%}" for label, share in below.items()})
for label, errors in altered.items():
    better = [name for name in errors if errors[name] < fits[name].error]
    ratio = errors["default"] / fits["default"].error
    claims.record(
        "C1",
        f"default network: fit error of altered equations ({label}) over the theory's",
        computed=ratio,
        tolerance="above 1",
        passed=ratio > 1,
        note="" if ratio > 1 else "not told apart by this network",
    )
    claims.record(
        "C1",
        f"fraction of architectures fitted worse by altered equations ({label})",
        computed=1 - len(better) / len(errors),
        expected=1.0,
        passed=not better,
        note=reason(
            not better,
            f"fitted better: {', '.join(better)}. With two free rates the fit does not single out the "
            "equations in these networks; the theory's residue there is systematic, largest in w",
        ),
    )
glue("typical_error", 100 * typical, display=False)
glue("num_unconverged", len(rows) - len(converged), display=False)

# %% [markdown]
# The median fit error is {glue:text}`typical_error:.1f` %. {glue:text}`num_unconverged` of the runs did not
# converge within the paper's number of steps; they are listed above, not dropped.
#
# ## Initial weights, and the loss
#
# The same network from small to large initial weights. The loss brings a third rate, that of the outputs'
# mean,
#
# $$
# L(t) = \tfrac12 e^{-2\bar\eta t}\,|\bar e_0|^2 + \tfrac18\,\bigl(2w - Q + |dy|^2\bigr) ,
# $$ (eq-two-point-loss)
#
# fitted to the loss after the other two were fitted to the distances.

# %%
series = {g: "default" if g == 1.0 else f"gain {g}" for g in settings.gains}


def fit_loss(name):
    """The third rate, fitted to a row's loss at its fitted trajectory."""
    mean_error = np.mean(runs[name].tracked["outputs"][0, 0] - task.targets, axis=0)
    return two_point.fit_loss(runs[name].loss[0], fits[name].solution, float(mean_error @ mean_error), 0.5)


loss_fits = {name: fit_loss(name) for name in rows}


def waiting(H, Q, w):
    """Time to lose a tenth of the difference's loss over that to lose nine; 0.046 if exponential."""
    left = (2 * w - Q + 0.5) / (2 * w[0] - Q[0] + 0.5)
    return np.argmax(left < 0.9) / np.argmax(left < 0.1)


# %% tags=["hide-input"]
def plot_gains(times, H, H_theory, loss, loss_theory, gains, stop):
    """Distance and loss from small to large initial weights: plateau, immediate decay, breakdown."""
    figure, axes = plt.subplots(2, len(gains), figsize=(figures.WIDTH * 1.25, 3.8), squeeze=False)
    for k, gain in enumerate(gains):
        shown = times <= 1.3 * stop[k]
        marked = np.flatnonzero(shown)[:: max(1, shown.sum() // 18)]
        for row, simulated, predicted, color in (
            (0, H, H_theory, "#332288"),
            (1, loss, loss_theory, "#882255"),
        ):
            axes[row, k].plot(times[marked], simulated[k, marked], ".", color=color)
            axes[row, k].plot(times[shown], predicted[k, shown], color="#1A1A1A", linewidth=1)
            axes[row, k].set_ylim(0, 1.15 * simulated[k].max())
            axes[row, k].tick_params(labelsize=7)
        axes[0, k].set_title(f"gain {gain}", fontsize=9)
    axes[0, 0].set_ylabel("$H$")
    axes[1, 0].set(ylabel="loss $L$", xlabel="steps $t$")
    return figure


names = list(series.values())
figures.publish(
    plot_gains,
    "gains",
    times=runs[names[0]].times,
    gains=list(series),
    stop=[runs[n].num_steps[0] for n in names],
    H=[trajectory(runs[n], TABLE[n][0].middle)[0] for n in names],
    H_theory=[fits[n].solution.H for n in names],
    loss=[runs[n].loss[0] for n in names],
    loss_theory=[loss_fits[n].loss for n in names],
)

# %% tags=["hide-input"]
waits = np.array([waiting(*trajectory(runs[name], TABLE[name][0].middle)) for name in series.values()])
gain_errors = np.array([fits[name].error for name in series.values()])
large = two_point.solve(400.0, 2e4, 2e4 - 90, **rates, dy2=0.5, times=times / 1000)
control = waiting(large.H, large.Q, large.w)
plateau = waits[0] > 0.25
claims.record(
    "C2",
    f"waiting before the drop (time to 10 % over time to 90 %) at the smallest gain, {settings.gains[0]}",
    computed=waits[0],
    expected="a plateau, far above the 0.046 of exponential decay",
    tolerance="above 0.25",
    passed=bool(plateau),
    control=claims.Control("the theory at weights a thousand times larger", control, bool(control > 0.25)),
)
immediate = waits.min() < 0.1
claims.record(
    "C2",
    f"immediate decay at large gains: the same at gains {list(series)[1:]}",
    computed=waits[1:],
    expected="0.046 at large gains",
    tolerance="0.1 at one of them",
    passed=bool(immediate),
    note=reason(immediate, "the wait shortens but does not vanish up to this gain; `paper` goes to 1.4"),
)  # fmt: skip
largest_H0 = fits[series[settings.gains[-1]]].solution.H[0]
broken = bool(gain_errors[-1] > 2 * gain_errors[:-1].max())
claims.record(
    "C2",
    f"fit errors over the gains {list(series)}: breakdown at the largest, where H0 = {largest_H0:.2g}",
    computed=gain_errors,
    expected="largest at the largest gain, by a factor of two (set after the first runs)",
    passed=broken,
    note=reason(
        broken,
        "not yet at this width and gain"
        if gain_errors[-1] < 0.05
        else "the breakdown begins before the largest gain",
    ),
)
fitted = [name for name in good if name in loss_fits]
loss_errors = np.array([loss_fits[name].error for name in fitted])
backwards = [two_point.fit_loss(runs[n].loss[0][::-1], fits[n].solution, 0.5, 0.5).error for n in fitted]
claims.record(
    "C3",
    f"median normalised error of the loss curve over {', '.join(fitted)}",
    computed=np.median(loss_errors),
    expected=0.0,
    tolerance=0.05,
    passed=np.median(loss_errors) < 0.05,
    note=f"largest {loss_errors.max():.3f} ({fitted[np.argmax(loss_errors)]})",
    control=claims.Control("loss curves run backwards", np.median(backwards), np.median(backwards) < 0.05),
)

# %% [markdown]
# ## The final distance over 25 pairs
#
# Rates are fitted at $|dx|^2 = 1$, $|dy|^2 = 1/2$ and averaged over networks; then {eq}`eq-two-point-final`
# predicts the final distance for inputs $|dx|$ from 0.5 to 1.5 and targets $|dy|$ from 0 to 1 apart, with
# each network's own initial distances and no further fit. Learning rates are the table's; the paper's
# code divides them by 2.5 here, which rescales time and was seen to change nothing at `quick`.


# %%
def average_ratio(name):
    """η_h/η_y averaged (geometrically) over networks, and the spread of its logarithm."""
    trials = learn(name, stream=1, repeats=settings.num_trials)
    middle = TABLE[name][0].middle
    done = [
        two_point.fit(trials.times, *trajectory(trials, middle, r), 1.0, 0.5)
        for r in np.flatnonzero(trials.converged)
    ]
    logs = np.log([f.eta_h / f.eta_y for f in done])
    return np.exp(np.mean(logs)), np.std(logs, ddof=1), trials.num_unconverged


def grid(name):
    """Initial and final squared distances over the 25 pairs; rows of dx, dy, H0, Q0, H, converged."""
    middle, table = TABLE[name][0].middle, []
    pairs = [(dx, dy) for dx in np.linspace(0.5, 1.5, 5) for dy in np.linspace(0, 1, 5)]
    for k, (dx, dy) in enumerate(pairs):
        pair = tasks.two_points(dx**2, dy**2)
        run = learn(
            name,
            stream=100 + k,
            task=pair,
            stop_loss=1e-5,
            converged_loss=1e-3,
        )
        H, Q, _ = trajectory(run, middle, targets=pair.targets)
        table.append((dx, dy, H[0], Q[0], H[-1], run.converged[0]))
    return np.array(table)


ratios = in_parallel(average_ratio, settings.grid_rows)
grids = in_parallel(grid, settings.grid_rows)

# %% tags=["hide-input"]
finals = {}
for name, table in grids.items():
    dx, dy, H0, Q0, H, ok = table.T
    theory = two_point.final_distance(H0, Q0, ratios[name][0], 1.0, dx**2, dy**2)
    ok = ok.astype(bool)
    finals[name] = theory, H, ok
    r2 = 1 - np.sum((H - theory)[ok] ** 2) / np.sum((H[ok] - H[ok].mean()) ** 2)
    shuffled = np.random.default_rng(seed).permutation(theory[ok])
    control = 1 - np.sum((H[ok] - shuffled) ** 2) / np.sum((H[ok] - H[ok].mean()) ** 2)
    rank = stats.spearmanr(theory[ok], H[ok]).statistic
    claims.record(
        "C4",
        f"{name}: share of variance of H(∞) predicted, and rank correlation; {ok.sum()} of 25 converged",
        computed=[r2, rank],
        expected=[1, 1],
        tolerance="0.8; 0.9",
        passed=r2 > 0.8 and rank > 0.9,
        note=f"log-ratio of rates varies by {ratios[name][1]:.2f} over networks, {ratios[name][2]} left out",
        control=claims.Control("predictions of other pairs (shuffled)", control, control > 0.8),
    )


# %% tags=["hide-input"]
def plot_finals(names, theory, network, ok):
    """Final squared distance of networks against the theory's prediction, 25 pairs each."""
    figure, axes = plt.subplots(1, len(names), figsize=(max(3.2, 2.6 * len(names)), 2.9), squeeze=False)
    for k, axis in enumerate(axes[0]):
        axis.plot(theory[k, ok[k]], network[k, ok[k]], "o", color="#332288", alpha=0.8, label="converged")
        axis.plot(theory[k, ~ok[k]], network[k, ~ok[k]], "x", color="#CC6677", label="not converged")
        largest = 1.05 * max(theory[k].max(), network[k].max())
        axis.plot([0, largest], [0, largest], color="#1A1A1A", linewidth=1)
        axis.set(title=names[k], xlabel="$H^*$, theory")
    axes[0, 0].set_ylabel(r"$H(\infty)$, network")
    axes[0, 0].legend(fontsize=7)
    return figure


figures.publish(
    plot_finals,
    "final_distance",
    names=list(finals),
    theory=[f[0] for f in finals.values()],
    network=[f[1] for f in finals.values()],
    ok=[f[2] for f in finals.values()],
)

# %% [markdown]
# ## Does the randomness of the representation vanish at small weights?
#
# In the theory it does: as $H_0 \to 0$, $H^*$ forgets the draw of the weights. The rates, though, were
# taken as given. Networks differ in their rates too, so the check is made twice: on
# {eq}`eq-two-point-final` with one ratio of rates for all and the initial distances of trained networks,
# and on the networks' own final distances.

# %% tags=["hide-input"]
NARROW_GAINS = {0.9: 0.015, 1.05: 0.005, 1.3: 0.0015}


def spread(gain):
    """Relative spread over networks of H* (one ratio of rates for all) and of the final H."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = training.train(
            Architecture(leaky, gain, 50, 20),
            jax.random.fold_in(key, 3),
            task.inputs,
            task.targets,
            learning_rate=NARROW_GAINS[gain],
            num_steps=6000,
            record_every=10,
            stop_loss=1e-6,
            repeats=settings.num_repeats,
        )
    H, Q, _ = two_point.measure(
        run.tracked["H"][run.converged, :, 10], run.tracked["outputs"][run.converged], task.targets
    )
    ratio = np.median(H[:, -1]) ** 2 / 0.5
    predicted = two_point.final_distance(H[:, 0], Q[:, 0], ratio, 1.0, 1.0, 0.5)
    return [np.std(x) / np.mean(x) for x in (H[:, 0], predicted, H[:, -1])], run.num_unconverged


spreads = {gain: spread(gain) for gain in NARROW_GAINS}
initial_spread, theory_spread, network_spread = np.array([s[0] for s in spreads.values()]).T
claims.record(
    "C6",
    f"relative spread of H* over initial weights, gains {list(NARROW_GAINS)}, theory with one ratio of rates",
    computed=theory_spread,
    expected="falls to 0 with the gain",
    passed=bool(np.all(np.diff(theory_spread) > 0) and theory_spread[0] < 0.02),
    note=f"20 layers of 50 units; runs left out as unconverged, by gain: {[s[1] for s in spreads.values()]}",
    control=claims.Control(
        "the initial distances, whose spread stays", initial_spread[0], initial_spread[0] < 0.02
    ),
)
vanishing = network_spread[0] < 0.02
claims.record(
    "C6",
    "the same of the networks' final distances",
    computed=network_spread,
    expected="falls to 0 with the gain",
    uncertainty=network_spread / np.sqrt(2 * settings.num_repeats),
    tolerance="0.02 at the smallest",
    passed=bool(vanishing),
    note=""
    if vanishing
    else "the effective rates differ from network to network at this width, at any gain; "
    "the theory takes them as given",
)

# %% [markdown]
# ## Exclusive or
#
# Four points, two targets. Pairs with the same target have $|dy| = 0$, so at small weights the theory
# merges them; at large weights they stay where they started. Loss and epochs follow the authors' code,
# which here uses the mean square without the half: rates are doubled for our loss. At a gain of 0.7 (the
# paper's table) the 20 layers do not leave their plateau in time; 0.8 is used, near the code's own 0.85.

# %%
XOR = {  # architecture, learning rate, steps
    "small": (Architecture(leaky, 0.8, W, 20), 0.03, 9000),
    "intermediate": (Architecture(leaky, 1.25, W, 20), 0.004, 9000),
    "large": (Architecture(leaky, 2.0, W, 20), 6e-9, 9000),
    "one hidden layer": (Architecture(leaky, 0.0015, W, 1), 0.06, 21000),
}
xor = tasks.xor()


def learn_xor(name):
    """Squared distances of the four representations at the start and the end, and the last loss."""
    model, rate, steps = XOR[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = training.train(
            model,
            jax.random.fold_in(key, 4),
            xor.inputs,
            xor.targets,
            learning_rate=rate,
            num_steps=steps,
            record_every=steps // 300,
            stop_loss=1e-6,
            track=training.outputs_and_distances,
        )
    distances = run.tracked["distances_sq"][0, :, model.middle]
    return distances[0], distances[-1], run.loss[0, -1]


xor_runs = in_parallel(learn_xor, XOR)


def pair_ratios(distances_sq):
    """Squared distance of 00–11 and of 01–10 over the mean of the four pairs with different targets."""
    return np.array([distances_sq[0, 1], distances_sq[2, 3]]) / distances_sq[:2, 2:].mean()


xor_ratios = {name: pair_ratios(end) for name, (_, end, _) in xor_runs.items()}
for name, (start, end, last) in xor_runs.items():
    print(
        f"{name:18s} loss {last:.1e}, same-target distances over others: "
        f"start {pair_ratios(start).round(3)}, end {pair_ratios(end).round(3)}"
    )


# %% tags=["hide-input"]
def plot_xor(names, start, end, losses):
    """Squared distances between the representations of the four inputs, before and after training."""
    figure, axes = plt.subplots(2, len(names), figsize=(figures.WIDTH * 1.1, 3.8), squeeze=False)
    for k, name in enumerate(names):
        for row, matrix in enumerate((start[k], end[k])):
            axes[row, k].imshow(matrix / matrix.max(), cmap="viridis", vmin=0)
            axes[row, k].set_xticks(range(4), ("00", "11", "01", "10"), fontsize=7)
            axes[row, k].set_yticks(range(4), ("00", "11", "01", "10"), fontsize=7)
        axes[0, k].set_title(f"{name}\nloss {losses[k]:.0e}", fontsize=9)
    axes[0, 0].set_ylabel("start")
    axes[1, 0].set_ylabel("end")
    return figure


figures.publish(
    plot_xor,
    "xor",
    names=list(XOR),
    start=[r[0] for r in xor_runs.values()],
    end=[r[1] for r in xor_runs.values()],
    losses=[r[2] for r in xor_runs.values()],
)

# %% tags=["hide-input"]
merged = xor_ratios["small"].max() < 0.1 and xor_runs["small"][2] < 1e-2
claims.record(
    "C7",
    "small weights: squared distances of 00–11 and 01–10 over those of the other pairs",
    computed=xor_ratios["small"],
    expected=[0, 0],
    tolerance=0.1,
    passed=bool(merged),
    note="at the start {:.2f}, {:.2f}".format(*pair_ratios(xor_runs["small"][0]))
    + f"; last loss {xor_runs['small'][2]:.1e}"
    + reason(merged, "; the pair that starts farther apart comes closer but does not merge at this gain"),
    control=claims.Control("large weights", xor_ratios["large"], bool(xor_ratios["large"].max() < 0.1)),
)
shallow_pairs = np.sort(xor_ratios["one hidden layer"])
one_pair = shallow_pairs[0] < 0.2 < shallow_pairs[1]
claims.record(
    "C7",
    "one hidden layer: the closer and the farther same-target pair",
    computed=shallow_pairs,
    expected="below and above 0.2: one pair merges",
    passed=bool(one_pair),
    note="" if one_pair else f"last loss {xor_runs['one hidden layer'][2]:.2g}",
)

# %% [markdown]
# ## Feature collapse in two contexts
#
# Images of a blob at $30\times30$ positions; in one context the network reports the blob's $x$, in the
# other its $y$. In either context the other coordinate is irrelevant: moving along it has $|dy| = 0$, and
# at small weights the representation should collapse along it. At *very* low weights the two contexts
# should merge as well, since each point has a partner in the other with the same target. A tanh network of
# 4 hidden layers and 100 units; batches of 64. At the paper's rates and epochs our tanh networks with low
# weights stay on their plateau, where the loss is half the targets' variance. So after the first runs these
# two were given eight times the rate, and the low ones half the epochs; the `paper` preset also runs and
# records the published rates and epochs. The `quick` preset takes 15 positions along each axis, batches of 16
# and as many steps.

# %%
BLOBS = {  # gain, learning rate, epochs
    "high": (2.0, 0.0015, 750),
    "low": (0.5, 0.12, 750),
    "very low": (0.275, 0.4, 2000),
    "low as published": (0.5, 0.015, 1500),
    "very low as published": (0.275, 0.05, 2000),
}
BLOBS = {name: BLOBS[name] for name in ("high", "low", "very low", *settings.published_blobs)}
n = settings.num_positions
blobs = tasks.blobs(n)


def middle_layer(outputs, activations):
    """Track the activations halfway through a network of four hidden layers."""
    return activations[2]


def learn_blobs(name, adam=False):
    """Representations (contexts, x, y, units) at the start and the end, and the last loss."""
    gain, rate, epochs = BLOBS[name]
    steps = 28 * epochs // 10 * 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = training.train(
            Architecture("tanh", gain, 100, 4),
            jax.random.fold_in(key, 5),
            blobs.inputs,
            blobs.targets,
            learning_rate=1e-3 if adam else rate,
            num_steps=steps,
            record_every=steps // 10,
            batch_size=64 * n * n // 900,
            adam=adam,
            track=middle_layer,
        )
    h = np.swapaxes(run.tracked[0], 1, 2).reshape(11, 2, n, n, 100)
    return h[0], h[-1], run.loss[0, -1]


def collapse(h):
    """Variance along irrelevant over relevant coordinate; squared distance of contexts over spread."""
    across = np.var(h[0], axis=1).sum() + np.var(h[1], axis=0).sum()
    along = np.var(h[0], axis=0).sum() + np.var(h[1], axis=1).sum()
    between = np.mean(np.sum((h[0] - np.swapaxes(h[1], 0, 1)) ** 2, axis=-1))
    within = np.mean([np.sum(np.var(c.reshape(n * n, -1), axis=0)) for c in h])
    return across / along, between / within


blob_runs = in_parallel(learn_blobs, BLOBS)
for name, (start, end, last) in blob_runs.items():
    print(
        f"{name:9s} loss {last:.1e}, irrelevant/relevant: "
        f"{collapse(start)[0]:.3f} -> {collapse(end)[0]:.4f}, "
        f"contexts apart: {collapse(start)[1]:.2f} -> {collapse(end)[1]:.3f}"
    )


# %% tags=["hide-input"]
def plot_blobs(names, projections, targets):
    """Representations of both contexts on their two leading principal axes, coloured by the target."""
    figure, axes = plt.subplots(1, len(names), figsize=(figures.WIDTH * 1.1, 2.7))
    for axis, name, points in zip(axes, names, projections):
        for context, marker in ((0, "o"), (1, "s")):
            axis.scatter(*points[context].T, c=targets[context], s=3, marker=marker, cmap="viridis")
        axis.set(title=f"{name} weights", xlabel="principal axis 1")
        axis.set_aspect("equal", adjustable="datalim")
    axes[0].set_ylabel("principal axis 2")
    return figure


def project(h):
    """Both contexts on the two leading principal axes, (contexts, points, 2)."""
    flat = h.reshape(2 * n * n, -1) - h.reshape(2 * n * n, -1).mean(0)
    return (flat @ np.linalg.svd(flat, full_matrices=False)[2][:2].T).reshape(2, n * n, 2)


figures.publish(
    plot_blobs,
    "feature_collapse",
    names=list(BLOBS)[:3],
    targets=blobs.targets[:, 0].reshape(2, n * n),
    projections=[project(r[1]) for r in list(blob_runs.values())[:3]],
)

# %% tags=["hide-input"]
low, high, lowest = (collapse(blob_runs[name][1]) for name in ("low", "high", "very low"))
collapsed = low[0] < 0.1
claims.record(
    "C8",
    "low weights: variance along the irrelevant over the relevant coordinate, end of training",
    computed=low[0],
    expected=0.0,
    tolerance=0.1,
    passed=bool(collapsed),
    note="" if collapsed else f"last loss {blob_runs['low'][2]:.2g}",
    control=claims.Control("high weights", high[0], bool(high[0] < 0.1)),
)
lined = lowest[1] < 0.1 and lowest[1] < low[1] and blob_runs["very low"][2] < 1e-2
claims.record(
    "C8",
    "squared distance of equal-target points of the two contexts over their spread: very low and low weights",
    computed=[lowest[1], low[1]],
    expected="very low: 0, a single line; low: two lines",
    tolerance=0.1,
    passed=bool(lined),
    note=f"last loss of the very low weights {blob_runs['very low'][2]:.2g}",
)
for name in settings.published_blobs:
    ratio, last = collapse(blob_runs[name][1])[0], blob_runs[name][2]
    done = ratio < 0.1 and last < 1e-2
    claims.record(
        "C8",
        f"{name} (rate and epochs of the paper's table): irrelevant over relevant variance, and last loss",
        computed=[ratio, last],
        expected=[0, 0],
        tolerance="0.1; 0.01",
        passed=bool(done),
        note=reason(done, "still on its plateau; whether the authors' loss has our factor ½ is not stated"),
    )  # fmt: skip

# %% [markdown]
# ## Two digits among many
#
# A network of 4 × 100 leaky ReLU units learns MNIST (digits 0, 1 and 2 of the bundled subset, in place of
# all ten and 60,000 images); the first zero and the first one are tracked. Their pair is no longer alone,
# yet the three trajectories may still follow {eq}`eq-two-point`. Across pairs we compare the distances of
# images with the prediction, raw and after the paper's exponential weighting, which mends violations of the
# triangle inequality. The paper leaves open over what distance it smooths; here it is a fifth of the mean
# prediction.

# %%
images = data.mnist_subset()
pixels = (images.read(np.arange(len(images))).reshape(len(images), -1) / 255 - 0.1307) / 0.3081
labels = images.labels
digits = np.eye(3)[labels]
order = np.argsort(labels[:100], kind="stable")
tracked = np.concatenate([[np.argmax(labels == 0), np.argmax(labels == 1)], order])


def tracked_distances(outputs, activations):
    """Track two digits, and all squared distances of the images, halfway through four hidden layers."""
    norms = (activations[2] ** 2).sum(0)
    squares = norms[:, None] + norms[None, :] - 2 * activations[2].T @ activations[2]
    return {"outputs": outputs[:2], "H": squares[0, 1], "distances_sq": squares[2:, 2:]}


steps = 600 * round(settings.num_epochs_scale * 500 * (len(images) // 64) / 600)
mnist_run = training.train(
    Architecture(leaky, 0.5, 100, 4),
    jax.random.fold_in(key, 6),
    pixels.T,
    digits,
    learning_rate=0.002 / 3,
    num_steps=steps,
    record_every=steps // 600,
    batch_size=64,
    track=tracked_distances,
    tracked_inputs=pixels[tracked].T,
    converged_loss=0.1,
)

# %%
pair = tracked[:2]
dx2 = float(np.sum((pixels[pair[0]] - pixels[pair[1]]) ** 2))
H, Q, w = two_point.measure(mnist_run.tracked["H"][0], mnist_run.tracked["outputs"][0], digits[pair])
mnist_fit = two_point.fit(mnist_run.times, H, Q, w, dx2, 2.0)
mnist_wrong = two_point.fit(mnist_run.times, H, Q, w, dx2, 2.0, factors=two_point.ALTERED["Q̇ doubled"])
apart = np.maximum(mnist_run.tracked["distances_sq"][0], 1e-12)
x, y = pixels[order], digits[order]
input_sq = np.maximum(np.sum((x[:, None] - x[None]) ** 2, -1), 1e-9)
target_sq = np.sum((y[:, None] - y[None]) ** 2, -1)
predicted = np.sqrt(two_point.rich_distance(mnist_fit.eta_h, mnist_fit.eta_y, input_sq, target_sq))
weighted = two_point.exponential_weighting(predicted, scale=0.2 * np.mean(predicted))
upper = np.triu_indices(len(order), 1)
correlations = [
    stats.spearmanr(d[upper], apart[-1][upper]).statistic for d in (np.sqrt(input_sq), predicted, weighted)
]
across = target_sq[upper] > 0
between = [
    stats.spearmanr(d[upper][across], apart[-1][upper][across]).statistic for d in (predicted, weighted)
]

# %% tags=["hide-input"]
fine = mnist_fit.error < 0.05
claims.record(
    "C9",
    "two tracked digits: normalised fit error",
    computed=mnist_fit.error,
    tolerance=0.05,
    passed=bool(fine),
    note=f"errors of H, Q, w: {mnist_fit.errors.round(3).tolist()}; last loss {mnist_run.loss[0, -1]:.2g}",
    control=claims.Control("altered equations: Q̇ doubled", mnist_wrong.error, bool(mnist_wrong.error < 0.05)),
)
shuffled = np.random.default_rng(seed).permutation(weighted[upper])
control = stats.spearmanr(shuffled, apart[-1][upper]).statistic
follows, partly = (correlations[k] > max(0.5, correlations[0]) for k in (2, 1))
claims.record(
    "C9",
    "rank correlation of all pairs' distances with the exponentially weighted prediction, and with the "
    "input distance alone",
    computed=[correlations[2], correlations[0]],
    expected="above 0.5 and above the inputs'",
    passed=bool(follows),
    note=f"among pairs of different digits alone {between[1]:.2f}. "
    + reason(follows, "Images of one digit are predicted at distance zero, so the weights average over whole "
    "digits, and differences between their images are lost"),
    control=claims.Control("predictions of other pairs (shuffled)", control, bool(control > 0.5)),
)  # fmt: skip
claims.record(
    "C9",
    "the same without weighting (recorded after the weighted one had been seen)",
    computed=[correlations[1], correlations[0]],
    expected="above 0.5 and above the inputs'",
    passed=bool(partly),
    note=f"among pairs of different digits alone {between[0]:.2f}",
)


# %% tags=["hide-input"]
def plot_mnist(times, network, theory, predicted, measured):
    """Two tracked digits over the fitted theory, and the distances between a hundred images."""
    figure, axes = plt.subplots(1, 3, figsize=(figures.WIDTH * 1.25, 2.7), width_ratios=(1.3, 1, 1))
    for row, line, color, label in zip(
        network, theory, ("#332288", "#CC6677", "#44AA99"), ("$H$", "$Q$", "$w$")
    ):
        axes[0].plot(times[::20], row[::20], ".", color=color, label=label)
        axes[0].plot(times, line, color=color, linewidth=1)
    axes[0].set(xlabel="steps $t$", ylabel="squared distance")
    axes[0].legend(fontsize=7)
    for axis, matrix, title in ((axes[1], predicted, "theory, weighted"), (axes[2], measured, "network")):
        axis.imshow(matrix, cmap="viridis", vmin=0)
        axis.set(title=title, xlabel="image, sorted by digit")
    return figure


figures.publish(
    plot_mnist,
    "mnist",
    times=mnist_run.times,
    network=[H, Q, w],
    predicted=weighted,
    measured=np.sqrt(apart[-1]),
    theory=[mnist_fit.solution.H, mnist_fit.solution.Q, mnist_fit.solution.w],
)

# %% [markdown]
# ## Depth
#
# The default network again, split at each of its 20 layers. Distances start the smaller the deeper the
# layer, so the linear approximation should hold the better; and the deeper the split, the more parameters
# in the encoder, the fewer in the decoder.

# %% tags=["hide-input"]
layers = np.arange(20)
layer_fits = [
    two_point.fit(runs["default"].times, *trajectory(runs["default"], layer), 1.0, 0.5) for layer in layers
]
layer_errors, layer_eta_h, layer_eta_y = np.array([[f.error, f.eta_h, f.eta_y] for f in layer_fits]).T
late = layers >= 10
trends = [stats.spearmanr(layers[late], q[late]).statistic for q in (layer_eta_h, layer_eta_y)]
error_trend = stats.spearmanr(layers, layer_errors).statistic
claims.record(
    "C10",
    "rank correlation of the fit error with depth, all layers",
    computed=error_trend,
    expected=-1,
    tolerance=0.2,
    passed=bool(error_trend < -0.8),
    note=reason(error_trend < -0.8, f"the error falls to layer {1 + np.argmin(layer_errors)}, where it is "
    f"{layer_errors.min():.4f}, and rises again to {layer_errors[-1]:.3f} at the last"),
)  # fmt: skip
halves = np.median(layer_errors[~late]), np.median(layer_errors[late])
improves = bool(halves[1] < 0.5 * halves[0])
parity = np.median(layer_errors[1::2]), np.median(layer_errors[::2])
claims.record(
    "C10",
    "median fit error over the first and the last ten layers (this measure was set after the first runs)",
    computed=halves,
    expected="smaller by half or more in the last",
    passed=improves,
    note=f"smallest at layer {1 + np.argmin(layer_errors)} of 20, {layer_errors[-1]:.3f} at the last",
    control=claims.Control("even against odd layers", parity, bool(min(parity) < 0.5 * max(parity))),
)
passed = trends[0] > 0.8 and trends[1] < -0.8
claims.record(
    "C10",
    "rank correlation of encoder and decoder rate with depth, last ten layers",
    computed=trends,
    expected=[1, -1],
    tolerance=0.2,
    passed=bool(passed),
    note=reason(passed, "the trends hold through most of these layers and turn at the last ones (figure)"),
)


# %% tags=["hide-input"]
def plot_depth(layers, errors, eta_h, eta_y):
    """Fit error and fitted rates at every layer of the default network."""
    figure, axes = plt.subplots(1, 2, figsize=(figures.WIDTH, 2.7))
    axes[0].plot(layers + 1, errors, "o-", color="#882255")
    axes[0].set(xlabel="hidden layer", ylabel="normalised fit error", yscale="log")
    axes[1].plot(layers + 1, eta_h, "o-", color="#332288", label=r"encoder $\eta_h$")
    axes[1].plot(layers + 1, eta_y, "s-", color="#CC6677", label=r"decoder $\eta_y$")
    axes[1].set(xlabel="hidden layer", ylabel="effective rate per step", yscale="log")
    axes[1].legend(fontsize=8)
    return figure


figures.publish(plot_depth, "depth", layers=layers, errors=layer_errors, eta_h=layer_eta_h, eta_y=layer_eta_y)

# %% [markdown]
# ## Adam
#
# The theory is a theory of gradient descent. Adam divides by the gradients' size and so changes the
# dynamics; the final structure is a matter of fixed points and should survive. The first is tested on the
# two points, the second on the blobs at low weights.

# %% tags=["hide-input"]
adam_rate = 1e-3 / W  # a step moves every weight by this much
adam_run = learn("default", stream=8, adam=True, slower=TABLE["default"][1] / adam_rate)
H, Q, w = trajectory(adam_run, 10)
adam_fit = two_point.fit(adam_run.times, H, Q, w, 1.0, 0.5)
adam_collapse = collapse(learn_blobs("low", adam=True)[1])
descent = fits["default"].error
worse = adam_fit.error > 0.05 and adam_run.converged[0]
claims.record(
    "C11",
    "fit error of the default network under Adam",
    computed=adam_fit.error,
    tolerance="above 5 %, where a row of the table counts as not described",
    passed=bool(worse),
    note=f"last loss {adam_run.loss[0, -1]:.1e}",
    control=claims.Control("gradient descent", descent, bool(descent > 0.05)),
)
kept = adam_collapse[0] < 0.1
claims.record(
    "C11",
    "Adam, low weights: variance along the irrelevant over the relevant coordinate",
    computed=adam_collapse[0],
    expected=0.0,
    tolerance=0.1,
    passed=bool(kept),
    note="" if kept else "Adam's larger steps leave more of the irrelevant coordinate",
)

# %% [markdown]
# ## The networks of this book in the two-point measure
#
# Do the networks of the main chapters follow the theory? Two tests, neither in the papers. **Descent**: one
# hidden layer, non-lazy or lazy, weights from the prior, gradient descent on two orthogonal inputs with
# targets $\pm1$; representations are $\phi(z)/\sqrt N$, so that $H$ is made of kernel entries.
# **Sampling**: the posterior on the toy task with three classes. There the theory has a sharp prediction: a
# pair of the same class has $|dy| = 0$ and merges if the weights are small, a pair of different classes
# ends at the rich distance.

# %%
D3 = [(phi, scaling) for phi in ("linear", "sigmoidal", "relu") for scaling in ("non-lazy", "lazy")]
orthogonal = tasks.toy(2, (0.5, 0.5), targets=[[-1.0], [1.0]], seed=seed)


def descend(case):
    """Fit of the two rates to descent from the prior, and final over initial distance."""
    model = training.ScaledNetwork(Network(1, W, *case))
    run = training.train(
        model,
        jax.random.fold_in(key, 9),
        orthogonal.inputs,
        orthogonal.targets,
        learning_rate=0.02,
        num_steps=3000,
        record_every=5,
        stop_loss=1e-8,
    )
    H, Q, w = trajectory(run, 0, targets=orthogonal.targets)
    fit = two_point.fit(run.times, H, Q, w, 2.0, 4.0)
    return fit.error, fit.errors[0], H[-1] / H[0], H[0], run.loss[0, -1]


descents = in_parallel(descend, D3)
for case, (total, of_H, change, H0, last) in descents.items():
    print(
        f"{case[1]:9s} {case[0]:10s} fit error {total:.4f} (H alone {of_H:.3f}), "
        f"H from {H0:.3f} by a factor {change:.3f}, last loss {last:.0e}"
    )

# %%
P = settings.num_inputs
toy = tasks.toy(P, (0.5, 0.25, 0.25), y_plus=1.0, y_minus=0.0, seed=seed)


def sampled_distances(case):
    """Mean squared distance of same-class and other pairs: posterior by Langevin, then the prior."""
    posterior = Posterior(toy, Network(1, P, *case), temperature=0.01)
    options = dict(num_samples=20, num_chains=1, method="langevin", moves=())
    samples = sample(posterior, jax.random.fold_in(key, 10), **options)
    phi = Network(1, P, *case).phi
    same = toy.labels[:, None] == toy.labels[None, :]
    np.fill_diagonal(same, False)
    different = toy.labels[:, None] != toy.labels[None, :]
    result = []
    for z in (samples.preactivations[0][0, -10:], np.random.default_rng(seed).standard_normal((10, P, P))):
        h = np.asarray(phi(z))
        kernel = np.einsum("snp,snq->pq", h, h) / (h.shape[0] * P)
        squares = np.diag(kernel)[:, None] + np.diag(kernel)[None] - 2 * kernel
        result += [squares[same].mean(), squares[different].mean()]
    return np.array([*result, samples.info.squared_error[0, -10:].mean() / P])


sampled = {
    case: sampled_distances(case) for case in D3 if case[1] == "non-lazy" and case[0] in settings.sampled
}
for case, (same, different, prior_same, prior_different, error) in sampled.items():
    print(
        f"{case[0]:10s} posterior: same class {same:.3f}, different {different:.3f}; "
        f"prior {prior_same:.3f}, {prior_different:.3f}; squared error per input {error:.4f}"
    )

# %% tags=["hide-input"]
non_lazy = np.array([descents[c][0] for c in D3 if c[1] == "non-lazy"])
moved = np.array([[abs(descents[c][2] - 1) for c in D3 if c[1] == s] for s in ("non-lazy", "lazy")])
follows = non_lazy.max() < 0.05
claims.record(
    "D3",
    "descent, non-lazy (linear, sigmoidal, ReLU): normalised fit error",
    computed=non_lazy,
    tolerance=0.05,
    passed=bool(follows),
    note=""
    if follows
    else "weights from the prior are not small: H starts at O(1), where the linear "
    "approximation around the mean of the two inputs is not justified",
    control=claims.Control(
        "lazy networks: share by which H changes", moved[1].max(), bool(moved[1].max() > moved[0].min())
    ),
)
merge = np.array([sampled[c][0] / sampled[c][2] for c in sampled])
claims.record(
    "D3",
    f"sampling: same-class squared distance over the prior's ({', '.join(settings.sampled)})",
    computed=merge,
    expected="0 if the pair merged, as two-point descent from small weights would have it",
    passed=bool(merge.max() < 0.1),
    note=reason(
        merge.max() < 0.1,
        "linear and ReLU neurons keep the prior's fluctuations from input to input, since only class "
        "averages are tied to the targets; the codes of sigmoidal neurons saturate and suppress them",
    ),
)

# %% [markdown]
# ## Takeaway
#
# Two rates describe the distances of two nearby points through training in the architectures tried, at a
# typical fit error of {glue:text}`typical_error:.1f` %. That is strong evidence for the variables, weaker
# evidence for the equations: on the default network altered equations do worse (but for a factor in the
# first, which the rates nearly absorb), on many others some of them do better. There the networks wait
# longer and then move faster than the fitted curves, as effective rates would that grow with the weights
# (they do in a product of many matrices; the theory takes them as constant). The theory needs the two
# representations to start close: it degrades at large gains and in early layers. Final distances follow
# {eq}`eq-two-point-final` over pairs of inputs and targets, with a spread between networks that comes from
# their rates, which the theory takes as given.
#
# Non-lazy networks of this book's main chapters follow it too when they are trained by descent on two
# inputs, even from the prior's weights; lazy ones hardly move. The posterior is another matter. There,
# linear and ReLU neurons keep the prior's differences between inputs of one class, as only the class
# averages are tied to the targets, while a saturated sigmoidal code suppresses them: whether a pair merges
# is decided by the coding scheme, which a theory of two points cannot see.
#
# **Limits.** MNIST is reduced to three digits of the bundled subset. Rates are averaged over fewer networks
# than the paper's fifty, and the 25 pairs are run for some architectures only, as the presets list. Where
# the paper's table and its authors' code differ, or its number of epochs was too short for our networks,
# the text says so. With more than two points the theory says which points merge, not where they end.
