"""Samplers of the weight posterior, and the checks that they are in equilibrium.

    samples = sampling.sample(posterior, key, num_samples=200)      # HMC and what moves the network needs
    samples.readouts           # a, (chains, samples, N, m), paper A's units
    samples.preactivations[l]  # z of layer l + 1, (chains, samples, N, P)
    samples.activations(), samples.codes(), samples.occupancies()      # of the feature layer, or of layer=…
    samples.info               # acceptance, energy, squared_error, step_size … (chains, samples)
    samples.warmup_info        # the same for every warm-up transition
    samples.final              # last weights of every chain; `init=samples.final` goes on
    samples.predictions        # with `predict_inputs`: outputs, mean, variance, mean test kernel

`found = convergence(samples, posterior)` has `found.verdict`, one line, and arrays for its figure,
`companion.figures.sampler_traces(**found.arrays())`; `two_ended(posterior, key, planted, …)` likewise;
`compare_ends(prior, planted, posterior)` where both runs are there already.
"""

from coding_schemes.sampling.diagnostics import Convergence, TwoEnded, compare_ends, convergence, two_ended
from coding_schemes.sampling.hmc import HMC
from coding_schemes.sampling.langevin import Langevin, PlainLangevin
from coding_schemes.sampling.results import Predictions, SampleInfo, Samples
from coding_schemes.sampling.run import sample

__all__ = [
    "HMC",
    "Convergence",
    "Langevin",
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
