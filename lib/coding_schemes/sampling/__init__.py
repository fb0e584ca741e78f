"""Samplers of the weight posterior, and the checks that they are in equilibrium.

    samples = sampling.sample(posterior, key, num_samples=200)      # HMC and what moves the network needs
    samples.readouts           # a, (chains, samples, N, m), paper A's units
    samples.preactivations[l]  # z of layer l + 1, (chains, samples, N, P)
    samples.activations(), samples.codes(), samples.occupancies()      # of the feature layer, or of layer=…
    samples.info               # acceptance, energy, squared_error, step_size … (chains, samples)
    samples.warmup_info        # the same for every warm-up transition
    samples.final              # last weights of every chain; `init=samples.final` goes on

- `method="hmc" | "langevin"`, or with settings of its own, `HMC(trajectory_length=1.0)`,
  `Langevin(num_steps=20)`, `PlainLangevin(step_size=0.01)`; a transition is one trajectory, or `num_steps`
  Langevin steps.
- `moves="auto"` adds what `moves.auto` finds for the network; name your own from ("gibbs", "scale",
  "rotations", "split_merge", "recode", "imitate"), `()` for the dynamics alone. `temperatures=(…)` adds
  replicas that exchange with the stored one.
- `init="prior"` anneals T down in the first half of the warm-up; `init=Weights` (e.g. `posterior.planted`)
  starts there at the target T. `num_warmup=0` with a step size samples at once.
- `store=("readouts", "preactivations", "weights", "outputs", "mean_outputs", "kernels")`: take only what is
  needed; preactivations are chains × samples × N × P numbers, mean_outputs and kernels one mean per chain.
- `predict_inputs=X` gives `samples.predictions`: outputs of every sample, mean, variance, mean test kernel;
  `coding.generalization_error` has their error.
- `found = convergence(samples, posterior)` has `found.verdict`, one line, and arrays for its figure,
  `companion.figures.sampler_traces(**found.arrays())`;
  `two_ended(posterior, key, planted, …)` likewise;
  `compare_ends(prior, planted, posterior)` where both runs are there already.
"""

from coding_schemes.sampling.diagnostics import (
    Convergence,
    TwoEnded,
    compare_ends,
    convergence,
    two_ended,
)
from coding_schemes.sampling.hmc import HMC
from coding_schemes.sampling.langevin import Langevin, Minibatches, PlainLangevin
from coding_schemes.sampling.results import Predictions, SampleInfo, Samples
from coding_schemes.sampling.run import sample

__all__ = [
    "HMC",
    "Convergence",
    "Langevin",
    "Minibatches",
    "PlainLangevin",
    "Predictions",
    "SampleInfo",
    "Samples",
    "TwoEnded",
    "compare_ends",
    "convergence",
    "sample",
    "two_ended",
]
