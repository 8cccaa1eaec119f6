"""nki.simulator: a function that launches a kernel, which vllm-neuron and nki-library use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from neuroncore.frontend.nki.kernel import simulate

__all__ = ["simulate_kernel"]


def simulate_kernel(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    lnc: int = 1,
    *,
    _lnc: int | None = None,
) -> Any:
    """Launch a kernel on `lnc` physical cores, and return its results. Releases differ in the name
    of the last parameter (vllm-neuron: lnc, nki-library: _lnc)."""
    cores = lnc if _lnc is None else _lnc
    kernel: Any = simulate(func)
    return (kernel if cores == 1 else kernel[cores])(*args, **(kwargs or {}))


def __dir__() -> list[str]:
    return __all__
