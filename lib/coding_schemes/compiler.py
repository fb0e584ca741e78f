"""What the installed JAX's compiler can be told; a switch that it does not know ends the process."""

from importlib import metadata


def fusion_emitters(wanted: bool) -> dict[str, bool]:
    """XLA's switch between its two ways of writing vector code on CPUs, as a compiler option.

    Empty from JAX 0.11 on, which has one way and no switch.
    """
    version = tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2])
    return {"xla_cpu_use_fusion_emitters": wanted} if version < (0, 11) else {}


def as_flags(options: dict[str, bool]) -> str:
    """Compiler options as ``XLA_FLAGS`` takes them, each with a space before it."""
    return "".join(f" --{name}={str(value).lower()}" for name, value in options.items())
