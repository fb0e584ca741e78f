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
# # Analog coding: linear networks
#
# **Question.** A wide linear network has learned to tell three classes apart, and its features carry the
# task. How do the single neurons share this knowledge among them?
#
# **Answer, before the details.** Every neuron responds to every class. What differs from neuron to neuron
# is only *how strongly* and in what mixture, and that is set by the neuron's readout weights, which are
# Gaussian: there are no groups of neurons, no thresholds, no specialists. This is the **analog** coding
# scheme {cite:p}`vanmeegen2025`. It is the one scheme whose theory closes with pen and paper, at every
# depth, so this chapter is also the place where the samplers of this book are held against exact results.

# %% tags=["parameters"]
preset = "quick"  # quick or paper
seed = 0
num_neurons: int | None = None  # N, width of every hidden layer; None: the preset's
num_inputs: int | None = None  # P, training inputs of the toy task
temperature: float | None = None  # T, rescaled as in the primer
num_samples: int | None = None  # posterior samples per chain
num_chains: int | None = None

# %% tags=["hide-input"]
import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from coding_schemes import coding, statistics, tasks
from coding_schemes.networks import Network
from coding_schemes.posterior import Posterior
from coding_schemes.sampling import sample
from coding_schemes.theory import gaussian_process, linear
from companion import claims, figures, presets
from myst_nb import glue
from scipy import stats

settings = presets.choose(
    preset,
    quick=dict(
        num_neurons=80,
        num_inputs=80,
        temperature=0.01,
        num_samples=100,
        num_chains=4,
        num_test=300,
        widths=(25, 50, 100),
    ),
    paper=dict(
        num_neurons=200,
        num_inputs=200,
        temperature=0.01,
        num_samples=250,
        num_chains=4,
        num_test=1000,
        widths=(25, 50, 100, 200, 400),
    ),
    given=dict(
        num_neurons=num_neurons,
        num_inputs=num_inputs,
        temperature=temperature,
        num_samples=num_samples,
        num_chains=num_chains,
    ),
)
N, P, T = settings.num_neurons, settings.num_inputs, settings.temperature
key = jax.random.key(seed)

# %% [markdown]
# ## Theory
#
# We use the model and the notation of the [primer](../book/primer.md): readouts $a_i \in \mathbb{R}^m$ with
# prior variance $\sigma_a^2 = P^{-1/L}$, preactivations $z_i^\ell \in \mathbb{R}^P$ of neuron $i$ in layer
# $\ell$, outputs $f = \tfrac1N \sum_i z_i^L a_i^\top$, input kernel $K_0$, targets $Y \in
# \mathbb{R}^{P\times m}$.
#
# ### One hidden layer
#
# The saddle point of the primer says that the neurons are independent, each with the density
#
# $$
# P(a, z) \;\propto\; \mathcal N(a;\, 0, \sigma_a^2)\; \mathcal N(z;\, 0, K_0)\; e^{a^\top t^\top z},
# $$ (eq-analog-single)
#
# where the $P\times m$ field $t$ is the training residual divided by the temperature. With $\phi(z) = z$
# this is a Gaussian. Its readout covariance $U$ and the mean of $z$ given $a$ are read off by completing
# the square:
#
# $$
# U = \bigl(\sigma_a^{-2} - t^\top K_0\, t\bigr)^{-1}, \qquad
# z \mid a \;\sim\; \mathcal N\bigl(K_0 t\, a,\; K_0\bigr).
# $$ (eq-analog-conditional)
#
# The field has to make the mean predictor fit, $Y - \langle z a^\top\rangle = T\,t$ with
# $\langle z a^\top \rangle = K_0 t\,U$. For $T \to 0$ this gives $t = K_0^{-1} Y U^{-1}$; put back into
# {eq}`eq-analog-conditional`, $U/\sigma_a^2 - 1 = U^{-1} Y^\top K_0^{-1} Y$. The overlap
# $Y^\top K_0^{-1} Y$ grows with $P$ while $U$ should not, which is what $\sigma_a^2 = 1/P$ achieves; the
# 1 is then negligible, and $U^2 = \sigma_a^2\, Y^\top K_0^{-1} Y$.

# %% [markdown]
# ### Any depth
#
# For deeper linear networks it is easier to walk down from the readout. Given the readouts, the vector that
# multiplies layer $\ell$ from above is Gaussian, so the $m\times m$ matrices $A_L = \tfrac1N a^\top a$,
# $A_{L-1}$, …, $A_1$ form a chain in which each is a Wishart draw around the one above it, and the targets
# see only the last: $Y$ has covariance $\tfrac1N K_0 \otimes A_1$. Making the chain's posterior stationary
# forces it to be geometric, $A_\ell = \sigma_a^2 H^{L-\ell+1}$ with a single unknown matrix $H$, for which
#
# $$
# \begin{aligned}
# \sigma_a^2\, t^\top K_0\, t &= (H-1)\,H^{-L}
# + \frac1N \sum_i \sigma_a^2\lambda_i\,(\lambda_i \sigma_a^2 H^L + T)^{-1}, \\
# Y &= K_0\,t\,\sigma_a^2 H^L + T\,t .
# \end{aligned}
# $$ (eq-analog-saddle)
#
# Here $\lambda_i$ are the eigenvalues of $K_0$. The sum is the correction for finite width: it is of relative
# order $1/P$ at $N = P$, small but visible below. Without it, for $T\to0$ and large $P$,
#
# $$
# U^{L+1} = \sigma_a^{2L}\, Y^\top K_0^{-1} Y, \qquad
# K_\ell = K_0 + \sigma_a^{2(L-\ell)}\, Y\, U^{-(L-\ell+1)}\, Y^\top ,
# $$ (eq-analog-closed)
#
# which are the formulas of {cite:t}`vanmeegen2025`. The learned part of $K_\ell$ has rank $m$ and strength
# $P^{-(1-\ell/L)}$: hardly anything in the first layer, order one in the last. The mean predictor is the
# same at every depth, $f(x) = Y^\top K_0^{-1} k_0(x)$: precisely what a Gaussian process with the
# *unlearned* kernel predicts. A linear network learns strong features and then does not use them to predict
# differently.

# %% [markdown]
# ## Experiment: one hidden layer
#
# The toy task has orthogonal inputs and three classes with a half, a quarter and a quarter of them; targets
# are 1 for an input's own class and 0 for the others. We draw weights from the posterior with Hamiltonian
# Monte Carlo ([how the samplers work](../book/samplers.md)) at $N =$ {glue:text}`N`, $P =$ {glue:text}`P`
# and $T =$ {glue:text}`T`, and hold them against {eq}`eq-analog-saddle` at the same $N$, $P$ and $T$.

# %%
for name, value in dict(N=N, P=P, T=T).items():
    glue(name, value, display=False)
task = tasks.toy(P, class_ratios=(0.5, 0.25, 0.25), y_plus=1.0, y_minus=0.0, seed=seed)


def draw(task, depth, stream, network=None, **options):
    """Equilibrium samples of a linear network, with the chapter's settings unless told otherwise."""
    network = network or Network(depth, N, "linear")
    variance = options.pop("readout_variance", None)
    posterior = Posterior(task, network, options.pop("temperature", T), variance)
    counts = dict(num_samples=settings.num_samples, num_chains=settings.num_chains, num_warmup=150)
    counts |= dict(moves=())
    return sample(posterior, jax.random.fold_in(key, stream), **(counts | options))


# %%
shallow = draw(task, depth=1, stream=1, store=("readouts", "preactivations", "outputs"))
theory = linear.solve(task, depth=1, temperature=T, width=N)
assert theory.converged

# %% [markdown]
# ### One network drawn from the posterior
#
# The outputs sit on the targets (bottom). The neurons, sorted by their mean squared activity, fade out
# gradually from top to bottom: the three blocks of inputs can be told apart in each row, more clearly the
# stronger the row, but there is no line above which neurons code and below which they do not. The readout
# weights of neighbours show no groups either.

# %% tags=["hide-input"]
readouts, activations = shallow.readouts[0, -1], shallow.preactivations[0][0, -1]
order = coding.sort_by_activity(activations)
figures.publish(
    figures.network_sample,
    "one_network",
    description="Readouts, activations and outputs of one sampled linear network: a graded, analog code",
    readouts=readouts[order],
    activations=activations[order],
    outputs=shallow.outputs[0, -1],
    targets=task.targets,
    labels=task.labels,
)

# %% [markdown]
# ### The readouts are Gaussian with covariance U
#
# Two checks. First the distribution: all neurons of each chain's last sample are independent draws, to
# leading order in $1/N$, and a Kolmogorov–Smirnov test holds them against $\mathcal N(0, U_{rr})$. Its
# control asks the same of the prior, which is where a lazy network would stay. Second the covariance
# $a^\top a/N$, averaged over all samples, with its error from their spread and autocorrelation.


# %% tags=["hide-input"]
def check_readouts(samples, theory, label, wrong):
    """Distribution and covariance of the readouts against theory; `wrong` is a covariance that must fail."""
    U = theory.readout_covariance
    last = np.concatenate(samples.readouts[:, -1])
    test, control = (
        stats.kstest(last / np.sqrt(np.diag(c)), "norm", axis=0).pvalue.min() for c in (U, wrong)
    )
    claims.record(
        "A4",
        f"smallest p-value over outputs, Kolmogorov–Smirnov test against N(0, U), {label}",
        computed=test,
        tolerance="p > 0.01",
        passed=test > 0.01,
        note="" if test > 0.01 else "readouts of one sample are not independent at this N",
        control=claims.Control("the same test against the prior", control, control > 0.01),
    )


# %% tags=["hide-input"]
def check_covariance(samples, theory, label, wrong):
    """Covariance of the readouts against theory, element by element."""
    upper = np.triu_indices(task.num_targets)
    gram = np.einsum("csim,csik->csmk", samples.readouts, samples.readouts)[..., *upper] / N
    mean, error = statistics.mean_and_error(gram)
    expected = theory.readout_covariance[upper]
    passed = statistics.within(mean, expected, error)
    claims.record(
        "A4",
        f"covariance of the readouts (upper triangle), {label}",
        mean,
        expected,
        error,
        "3 standard errors",
        passed=passed,
        note="" if passed else "corrections of higher order in 1/N",
        control=claims.Control("the prior's", wrong[upper], statistics.within(mean, wrong[upper], error)),
    )


# %% tags=["hide-input"]
prior = theory.readout_variance * np.eye(3)
check_readouts(shallow, theory, "L = 1", wrong=prior)
check_covariance(shallow, theory, "L = 1", wrong=prior)


# %% tags=["hide-input"]
def normal_density(variances, num_points=201):
    """Densities of N(0, v) for several v on one grid, for the figures."""
    grid = np.linspace(-4, 4, num_points) * np.sqrt(np.max(variances))
    return grid, stats.norm.pdf(grid, scale=np.sqrt(np.asarray(variances))[:, None])


grid, density = normal_density(np.diag(theory.readout_covariance))
figures.publish(
    figures.densities,
    "readout_posterior",
    description="Sampled readout weights of each output as histograms under the Gaussian of the theory",
    samples=shallow.readouts[:, ::20].reshape(-1, 3).T,
    grid=grid,
    density=density,
    names=[f"class {r}" for r in range(3)],
    panels=True,
    colors=[figures.COLORS["linear"]],
)

# %% [markdown]
# How far is paper A's closed form {eq}`eq-analog-closed` from this? It neglects terms of relative order
# $P^{-1/L}$: here it gives $U_{00} =$ {glue:text}`closed:.3f`, the exact saddle at our $T$ and $P$ gives
# {glue:text}`saddle:.3f`, the finite width brings it to {glue:text}`finite:.4f`, and the samples have
# {glue:text}`sampled:.4f` ± {glue:text}`sampled_error:.4f`.

# %% tags=["hide-input"]
mean, error = statistics.mean_and_error(np.square(shallow.readouts[..., 0]).mean(-1))
glue("closed", linear.solve(task, 1).readout_covariance[0, 0], display=False)
glue("saddle", linear.solve(task, 1, T).readout_covariance[0, 0], display=False)
glue("finite", theory.readout_covariance[0, 0], display=False)
glue("sampled", float(mean), display=False)
glue("sampled_error", float(error), display=False)

# %% [markdown]
# ### Activations follow the readouts
#
# Equation {eq}`eq-analog-conditional` says more than "the neurons code": the activation of neuron $i$ on
# input $\mu$ is a fixed linear map of its readouts plus noise with the *prior's* covariance. At $T\to0$ and
# large $P$ the map is $Y U^{-1}$, so a neuron with a large readout for a class is a neuron that responds to
# this class. We regress sampled activations on sampled readouts, average the slopes over the inputs of a
# class, and compare.


# %%
def class_slopes(readouts, activations):
    """Regression of activations on readouts, slopes averaged per class (samples, C, m), and the residuals."""
    gram = np.einsum("sim,sik->smk", readouts, readouts)
    slopes = np.linalg.solve(gram, np.einsum("sim,sip->smp", readouts, activations))
    residuals = activations - np.einsum("sim,smp->sip", readouts, slopes)
    return coding.class_means(slopes, task.labels).swapaxes(1, 2), residuals


slopes, residuals = zip(*map(class_slopes, shallow.readouts, shallow.preactivations[0]), strict=True)
mean, error = statistics.mean_and_error(np.stack(slopes))
expected = coding.class_means(theory.feature_slopes.T, task.labels).T

# %% tags=["hide-input"]
shuffled = np.random.default_rng(seed).permutation(task.num_inputs)
control = coding.class_means(theory.feature_slopes[shuffled].T, task.labels).T
passed = statistics.within(mean, expected, error)
claims.record(
    "A5",
    "slopes of activations on readouts, class by output",
    mean,
    expected,
    error,
    "3 standard errors",
    passed=passed,
    note="" if passed else "the slope theory has no finite-width correction of its own",
    control=claims.Control("labels shuffled over inputs", control, statistics.within(mean, control, error)),
)

# %% tags=["hide-input"]
noise = np.square(np.stack(residuals)).sum((2, 3)) / (P * (N - 3))  # three regression slopes per input
mean, error = statistics.mean_and_error(noise)
passed = statistics.within(mean, 1.0, error)
untied = float(np.square(shallow.preactivations[0]).mean())
claims.record(
    "A5",
    "variance of activations around their conditional mean",
    mean,
    1.0,
    error,
    "3 standard errors",
    passed=passed,
    note="" if passed else "the residual variance has a correction of order T",
    control=claims.Control(
        "without conditioning on the readouts", untied, statistics.within(untied, 1.0, error)
    ),
)

# %% [markdown]
# ### Why the readout variance shrinks with P
#
# The prior variance $\sigma_a^2 = P^{-1/L}$ looks arbitrary; it is what keeps the readouts' norm per neuron
# fixed as the training set grows. With $\sigma_a = 1$ the norm grows as $P^{1/(L+1)}$ by
# {eq}`eq-analog-closed`: the readouts would take over the job that the non-lazy scaling gives to the
# features. The fit below is to samples, over four sizes with $N = P$.

# %%
sizes = P * np.array([0.25, 0.5, 0.75, 1.0])


def readout_norm(size, readout_variance, stream):
    """Mean squared readout norm per neuron at N = P = size, with its error."""
    network = Network(1, int(size), "linear")
    options = dict(store=("readouts",), readout_variance=readout_variance)
    few = dict(num_samples=50, num_chains=2)
    small = draw(tasks.toy(int(size), seed=seed), 1, stream, network, **options, **few)
    return statistics.mean_and_error(np.square(small.readouts).sum(-1).mean(-1))


norms = np.array(
    [[readout_norm(n, v, 10 + k) for k, n in enumerate(sizes)] for v in (None, 1.0)]
)  # (scaling, size, [mean, error])
fits = [statistics.fit_power_law(sizes, norms[k, :, 0]) for k in range(2)]

# %% tags=["hide-input"]
flat = abs(fits[0].exponent) < 0.1
claims.record(
    "A6",
    "exponent of the squared readout norm in P, with σ_a² = 1/P",
    fits[0].exponent,
    0.0,
    fits[0].standard_error,
    0.1,
    passed=flat,
    note="" if flat else "finite-P corrections of relative order 1/P",
    control=claims.Control("σ_a = 1: grows as P^(1/2)", fits[1].exponent, abs(fits[1].exponent) < 0.1),
)

# %% tags=["hide-input"]
figures.publish(
    figures.scaling_plot,
    "readout_norm",
    description="Squared readout norm per neuron against P: flat with scaled prior variance, growing without",
    sizes=sizes,
    values=norms[:, :, 0],
    errors=norms[:, :, 1],
    exponents=[fit.exponent for fit in fits],
    prefactors=[fit.prefactor for fit in fits],
    names=[r"$\sigma_a^2 = 1/P$", r"$\sigma_a^2 = 1$"],
    colors=[figures.COLORS["non-lazy"], figures.COLORS["control"]],
    xlabel="training inputs $P = N$",
    ylabel=r"$\langle |a_i|^2 \rangle$",
)

# %% [markdown]
# ## Experiment: depth
#
# In deeper networks the same residual $T\,t$ is reached at a higher temperature, because the gain
# $\sigma_a^2 H^L$ between field and output grows with depth: we sample $L=2$ at $10\,T$ and $L=3$ at
# $20\,T$, and the theory is evaluated there too.

# %% tags=["hide-input"]
depths = {2: 10 * T, 3: 20 * T}
deep, deep_theory = {}, {}
for depth, warmer in depths.items():
    half = dict(num_samples=max(settings.num_samples // 2, 50), num_chains=min(settings.num_chains, 2))
    kept = ("readouts", "preactivations", "kernels") if depth == 3 else ("readouts",)
    deep[depth] = draw(task, depth, 20 + depth, temperature=warmer, store=kept, **half)
    deep_theory[depth] = linear.solve(task, depth, warmer, width=N)

check_readouts(deep[2], deep_theory[2], "L = 2", wrong=deep_theory[2].readout_variance * np.eye(3))
check_covariance(deep[2], deep_theory[2], "L = 2", wrong=theory.readout_covariance)

# %% [markdown]
# The control of the covariance for two layers is the theory for one: the check can tell the depths apart.
#
# ### How the kernels learn, layer by layer
#
# The strength of class $c$ in layer $\ell$ is $e_c^\top K_\ell\, e_c$ with $e_c$ the normalised indicator
# vector of the class; it is 1 in the prior. Equation {eq}`eq-analog-closed` has it grow as a power law in
# depth, $P^{\ell/L}$: from barely above 1 to order $P$.


# %% tags=["hide-input"]
def class_strength(preactivations, task):
    """e_c' K_l e_c of every sample, shape (chains, samples, class, layer)."""
    indicators = (task.labels[:, None] == np.arange(3)) / np.sqrt(task.class_counts)
    return np.stack([np.square(z @ indicators).mean(2) for z in preactivations], axis=-1), indicators


strength, indicators = class_strength(deep[3].preactivations, task)
mean, error = statistics.mean_and_error(strength)  # (class, layer)
expected = np.einsum("pc,lpq,qc->cl", indicators, deep_theory[3].kernels[1:], indicators)
passed = statistics.within(mean, expected, error)
claims.record(
    "A7",
    "strength of every class in layers 1 to 3 of a network with L = 3 (rows: classes)",
    mean,
    expected,
    error,
    "3 standard errors",
    passed=passed,
    note=""
    if passed
    else "the Gram chain fluctuates around its saddle, which moves cubes of H by a relative O(1/N)",
    control=claims.Control("kernels without learning", 1.0, statistics.within(mean, 1.0, error)),
)


# %% [markdown]
# Divided by the size of the class this is the strength of one entry of the learned part, for which the
# papers' asymptotics is $P^{-(1-\ell/L)}$. At the sizes we can sample the approach to it is still under way
# (corrections are of relative order $P^{-1/3}$), so the exponents fitted to samples are compared with those
# of the exact saddle point at the same sizes, and we quote the asymptotic ones beside them.


# %%
def learned_entry(size, stream):
    """Learned part of the kernel inside class 0, per layer, at N = P = size: samples and saddle point."""
    small, few = tasks.toy(int(size), seed=seed), dict(num_samples=50, num_chains=2)
    samples = draw(small, 3, stream, Network(3, int(size), "linear"), temperature=20 * T, **few)
    measured = class_strength(samples.preactivations, small)[0].mean((0, 1))
    saddle = linear.solve(small, 3, 20 * T, width=int(size))
    return (measured[0] - 1) / small.class_counts[0], [k[0, 1] for k in saddle.kernels[1:]]


smaller = P * np.array([0.25, 0.5])
entries = np.array([learned_entry(size, 30 + k) for k, size in enumerate(smaller)])
largest = np.array([(mean[0] - 1) / task.class_counts[0], (expected[0] - 1) / task.class_counts[0]])
entries = np.concatenate([entries, largest[None]])  # (size, [samples, saddle], layer)
all_sizes = np.array([*smaller, P])

# %% tags=["hide-input"]
fits = [[statistics.fit_power_law(all_sizes, entries[:, k, layer]) for layer in range(3)] for k in range(2)]
sampled_exponents, saddle_exponents = (np.array([fit.exponent for fit in row]) for row in fits)
passed = statistics.within(sampled_exponents, saddle_exponents, 0.1, 1)
claims.record(
    "A7",
    "exponents in P of the learned kernel, layers 1 to 3 (asymptotically −2/3, −1/3, 0)",
    sampled_exponents,
    saddle_exponents,
    np.array([fit.standard_error for fit in fits[0]]),
    0.1,
    passed=passed,
    note="" if passed else "three sizes do not pin the exponents down to 0.1",
    control=claims.Control(
        "strength alike in all layers", 0.0, statistics.within(sampled_exponents, 0.0, 0.1, 1)
    ),
)

# %% tags=["hide-input"]
figures.publish(
    figures.kernel_matrices,
    "kernels_by_layer",
    description="Kernels of layers 1 to 3, sampled above theory: class blocks emerge with depth",
    kernels=np.concatenate([[k.mean(0) for k in deep[3].kernels], deep_theory[3].kernels[1:]]),
    labels=task.labels,
    titles=[f"{kind}, layer {layer}" for kind in ("samples", "theory") for layer in (1, 2, 3)],
)

# %% tags=["hide-input"]
activations = np.stack([z[0, -1] for z in deep[3].preactivations])
activations = np.stack([z[coding.sort_by_activity(z)] / z.std() for z in activations])
figures.publish(
    figures.activation_matrix,
    "activations_by_layer",
    description="Activations in layers 1 to 3 of one sample: the class blocks stand out only in the last",
    activations=activations,
    labels=task.labels,
    titles=["layer 1", "layer 2", "layer 3"],
    colorbar_label="activation / its standard deviation",
)

# %% [markdown]
# The learned part has as many dimensions as there are classes to tell apart: three eigenvalues of the last
# layer's kernel stand out, the fourth belongs to the noise.

# %% tags=["hide-input"]
learned = np.mean(deep[3].kernels[2], axis=0) - task.input_kernel
eigenvalues = np.linalg.eigvalsh(learned)[::-1]
gap = eigenvalues[2] / eigenvalues[3]
claims.record(
    "A7",
    "third over fourth eigenvalue of the learned kernel, feature layer (rank m = 3)",
    gap,
    tolerance="> 5",
    passed=gap > 5,
    note="" if gap > 5 else "few samples: the noise of the averaged kernel reaches the learned part",
    control=claims.Control(
        "fourth over fifth", eigenvalues[3] / eigenvalues[4], eigenvalues[3] > 5 * eigenvalues[4]
    ),
)

# %% [markdown]
# ## Every neuron explores the whole posterior
#
# Nothing separates strong neurons from weak ones but a Gaussian's bulk from its tail, so nothing should
# keep a neuron where it is. We measure by how much neurons keep their identity: the part of the variance of
# readouts that lies between neurons rather than along each one's path, 0 where each explores everything, 1
# where all are frozen. The control is a sigmoidal network on a similar task, whose neurons are frozen (that
# is the subject of the chapters that follow).

# %% tags=["hide-input"]
long = draw(task, 1, 40, thinning=8, num_chains=2, store=("readouts",))
q = statistics.permutation_order(long.readouts)
frozen_task = tasks.toy(60, y_minus=0.5, seed=seed)
frozen = draw(frozen_task, 1, 41, Network(1, 60, "sigmoidal"), num_chains=2, store=("readouts",))
q_frozen = statistics.permutation_order(frozen.readouts)
restored = q.value < 0.05 + 3 * q.standard_error
claims.record(
    "A20",
    "permutation order of the readouts, linear network (0: every neuron explores the whole posterior)",
    q.value,
    0.0,
    q.standard_error,
    "0.05 + 3 standard errors",
    passed=restored,
    note="" if restored else "the run is short against the readouts' autocorrelation time",
    control=claims.Control(
        "sigmoidal network", q_frozen.value, q_frozen.value < 0.05 + 3 * q_frozen.standard_error
    ),
)

# %% tags=["hide-input"]
figures.publish(
    figures.curves,
    "readout_paths",
    description="Readouts of three neurons over the run, each wandering through the whole Gaussian",
    x=np.arange(long.readouts.shape[1]),
    values=long.readouts[0, :, :3, 0].T,
    names=[f"neuron {i}" for i in range(3)],
    levels=theory.readout_covariance[0, 0] ** 0.5 * np.array([-1.0, 1.0]),
    xlabel="stored sample",
    ylabel="readout weight $a$",
)

# %% [markdown]
# Horizontal lines mark one standard deviation, $\pm\sqrt{U_{00}}$.
#
# ## MNIST: strong features, an unchanged prediction
#
# Handwritten digits 0, 1 and 2, 100 images to learn from and {glue:text}`num_test` to be tested on; targets
# 1 and $-1/2$, inputs standardised to mean 0 and variance 1 over the training set. Images are correlated,
# so $K_0$ is far from the identity; the theory above does not care.

# %%
glue("num_test", settings.num_test, display=False)
digits = tasks.mnist(num_inputs=100, num_test=settings.num_test, seed=seed)
digit_theory = linear.solve(digits, 1, T, width=100)
network = Network(1, 100, "linear")
kept = dict(store=("readouts",), predict_inputs=digits.test_inputs)
on_digits = draw(digits, 1, 50, network, **kept)
gp = gaussian_process.solve(digits, "linear", temperature=T)

# %% [markdown]
# ### The mean predictor is the Gaussian process's
#
# The mean over posterior samples of the network's output equals kernel regression with the unlearned kernel
# $K_0$. The samples themselves scatter very little around it: their variance is of order $1/N$, while a
# lazy network's, the Gaussian process's, is of order one. That is the whole gain of feature learning here.

# %% tags=["hide-input"]
sampled_mean, sampled_variance = on_digits.predictions.mean, on_digits.predictions.variance
gp_mean = gp.predict(digits.test_inputs)
difference = np.linalg.norm(sampled_mean - gp_mean) / np.linalg.norm(gp_mean)
mixed = np.random.default_rng(seed).permutation(digits.num_inputs)
wrong_labels = tasks.Task(digits.inputs, digits.labels, digits.targets[mixed])
wrong = linear.solve(wrong_labels, 1, T).predict(digits.test_inputs)
wrong_difference = np.linalg.norm(wrong - gp_mean) / np.linalg.norm(gp_mean)
claims.record(
    "A25",
    "relative difference of the sampled mean predictor and the Gaussian process's, MNIST test images",
    difference,
    0.0,
    tolerance=0.02,
    passed=difference < 0.02,
    note="" if difference < 0.02 else "too few samples: the mean over samples is still noisy",
    control=claims.Control("trained on shuffled labels", wrong_difference, wrong_difference < 0.02),
)

# %%
errors = {
    "sampled": coding.generalization_error(sampled_mean, sampled_variance, digits.test_targets),
    "theory": coding.generalization_error(
        digit_theory.predict(digits.test_inputs),
        digit_theory.predictor_variance(digits.test_inputs, 100),
        digits.test_targets,
    ),
    "gp": coding.generalization_error(
        gp_mean, gp.predictor_variance(digits.test_inputs), digits.test_targets
    ),
}
total = {name: error.total for name, error in errors.items()}

# %% tags=["hide-input"]
per_chain = np.square(digits.test_targets - on_digits.predictions.outputs).mean((1, 2))
chain_error = per_chain.std(0, ddof=1) / np.sqrt(len(per_chain))
reduction = total["gp"] - total["sampled"]
share = (errors["gp"].variance - errors["sampled"].variance) / reduction
wrong_total = coding.generalization_error(wrong, 0.0, digits.test_targets).total
wrong_share = (errors["gp"].variance - 0.0) / (total["gp"] - wrong_total)
passed = bool(np.all(reduction > 0)) and statistics.within(share, 1.0, 0.05, 1)
claims.record(
    "A25",
    "share of the variance in the reduction of the generalisation error, per class",
    share,
    1.0,
    chain_error / reduction,
    0.05,
    passed=passed,
    note=""
    if passed
    else "the ridge T acts on the mean predictors of lazy and non-lazy networks differently",
    control=claims.Control(
        "trained on shuffled labels", wrong_share, statistics.within(wrong_share, 1.0, 0.05, 1)
    ),
)

# %% tags=["hide-input"]
figures.publish(
    figures.bars,
    "generalization_error",
    description="Generalisation error per class: samples and theory agree, the Gaussian process is above",
    values=total["sampled"],
    errors=chain_error,
    points=[total["theory"], total["gp"]],
    groups=[f"digit {name}" for name in digits.class_names],
    names=["sampling"],
    colors=[figures.COLORS["linear"]],
    xlabel="class",
    ylabel="generalization error",
)

# %% tags=["hide-input"]
shown = np.sort(np.random.default_rng(seed).choice(settings.num_test, 100, replace=False))
shown = shown[np.argsort(digits.test_labels[shown], kind="stable")]
figures.publish(
    figures.network_sample,
    "mean_predictor",
    description="Mean predictor on 100 test images: samples on the theory's line",
    readouts=(),
    activations=(),
    outputs=sampled_mean[shown],
    targets=digits.test_targets[shown],
    labels=digits.test_labels[shown],
    theory=digit_theory.predict(digits.test_inputs)[shown],
)

# %% [markdown]
# ### The variance falls as 1/N
#
# The theory gives the variance in closed form; samples at four widths confirm law and prefactor.

# %%
widths = np.array(settings.widths)
by_width = [
    draw(digits, 1, 60 + k, Network(1, int(width), "linear"), num_samples=60, **kept)
    for k, width in enumerate(widths)
]
variances = np.array([run.predictions.variance.mean() for run in by_width])
predicted = np.array(
    [
        linear.solve(digits, 1, T, width=int(w)).predictor_variance(digits.test_inputs, int(w)).mean()
        for w in widths
    ]
)
fit = statistics.fit_power_law(widths, variances)

# %% tags=["hide-input"]
passed = abs(fit.exponent + 1) < 0.1
claims.record(
    "A27",
    "exponent of the predictor variance in N, linear network on MNIST",
    fit.exponent,
    -1.0,
    fit.standard_error,
    0.1,
    passed=passed,
    note="" if passed else "widths too small for the leading order in 1/N",
    control=claims.Control("exponent 0, as of a lazy network", fit.exponent, abs(fit.exponent) < 0.1),
)
figures.publish(
    figures.scaling_plot,
    "predictor_variance",
    description="Predictor variance against width, samples and theory, falling as 1/N",
    sizes=widths,
    values=np.stack([variances, predicted]),
    exponents=[fit.exponent, statistics.fit_power_law(widths, predicted).exponent],
    prefactors=[fit.prefactor, statistics.fit_power_law(widths, predicted).prefactor],
    names=["samples", "theory"],
    colors=[figures.COLORS["linear"], figures.COLORS["theory"]],
    ylabel="predictor variance",
)

# %% [markdown]
# ### Test activations carry the same code
#
# The kernel on test images is that on training images with targets replaced by the predictor. Where the
# predictor is right the block structure of the classes continues.

# %% tags=["hide-input"]
test_kernel = on_digits.predictions.kernel
theory_kernel = digit_theory.kernel(digits.test_inputs)
alignment = float(coding.kernel_alignment(test_kernel, theory_kernel))
unlearned = float(coding.kernel_alignment(test_kernel, digit_theory.kernel(digits.test_inputs, layer=0)))
claims.record(
    "A28",
    "alignment of the sampled test kernel with the theory's, linear network",
    alignment,
    1.0,
    tolerance="> 0.99",
    passed=alignment > 0.99,
    note="" if alignment > 0.99 else "the averaged kernel is still noisy",
    control=claims.Control("the unlearned kernel K0", unlearned, unlearned > 0.99),
)
figures.publish(
    figures.kernel_matrices,
    "test_kernel",
    description="Feature kernel on 100 test images, sampled and predicted",
    kernels=[test_kernel[np.ix_(shown, shown)], theory_kernel[np.ix_(shown, shown)]],
    labels=digits.test_labels[shown],
    titles=["samples", "theory"],
)

# %% [markdown]
# ## Takeaway
#
# - A linear network codes analog: one Gaussian cloud of readouts, each neuron's response to the classes a
#   linear image of its readouts. Theory and samples agree to the precision of the samples at finite $N$,
#   $P$ and $T$, at every depth.
# - Kernels learn little in the first layer and much in the last, exactly geometrically: $K_\ell$ grows by the
#   same factor from layer to layer.
# - The mean predictor is that of a Gaussian process with the unlearned kernel. What feature learning buys
#   is a predictor variance of order $1/N$ in place of order one.
#
# **Limits.** The finite-width term in {eq}`eq-analog-saddle` is the leading one; at $N \ll m^2$ the chain
# of Wishart matrices fluctuates too strongly for a saddle point. For $L \ge 2$ and small targets or high
# $T$ the saddle-point equation has a second, unlearned solution; we follow the one that connects to $T \to
# 0$. And the agreement of the mean predictor with the Gaussian process is special to linear networks.
