"""Samplers of the weight posterior."""

from coding_schemes.sampling.run import Predictions, SampleInfo, Samples, sample

__all__ = ["Predictions", "SampleInfo", "Samples", "sample"]
