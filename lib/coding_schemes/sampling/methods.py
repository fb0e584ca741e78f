"""The methods by name: a new method is a kernel and an entry here."""

from dataclasses import replace

from coding_schemes import validation
from coding_schemes.posterior import Posterior
from coding_schemes.sampling.hmc import HMC
from coding_schemes.sampling.kernel import Kernel
from coding_schemes.sampling.langevin import Langevin, PlainLangevin

METHODS: dict[str, type[Kernel]] = {"hmc": HMC, "langevin": Langevin, "plain_langevin": PlainLangevin}


def chosen(method: str | Kernel, posterior: Posterior, num_warmup: int, from_prior: bool) -> Kernel:
    """The method with its settings, all of them in range and with a step size."""
    if isinstance(method, str):
        method = METHODS[validation.choice("method", method, METHODS)]()
    if not isinstance(method, tuple(METHODS.values())):
        kinds = ", ".join(f"{kind.__name__}(…)" for kind in METHODS.values())
        raise ValueError(f"method: got {method!r}, needs one of {tuple(METHODS)}, or {kinds}")
    method.check(posterior)
    if method.step_size is not None:
        return method
    if num_warmup == 0 or not method.adapts:
        raise ValueError("step_size: got None; plain Langevin and runs without warm-up need one")
    temperature = float(posterior.temperature)
    cold = 1.0 if from_prior else (temperature / (1 + temperature)) ** 0.5
    return replace(method, step_size=method.first_step * cold)  # type: ignore[type-var]
