"""The module torch_neuronx.nki_hop: it makes operators of torch from kernels. The module belongs to
torch's native backend (torch 2.11 and later)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from neuroncore.frontend.settings import unobserved
from neuroncore.hosts import devices
from neuroncore.hosts.devices import writing


def wrap_nki(nki_kernel: Callable[..., Any], **_: Any) -> Any:
    """Return a kernel that torch.compile treats as one operation: `wrap_nki(kernel)[grid](...)`."""
    return writing(nki_kernel)


class TorchNeuronNKIKernel:
    """A kernel and the grid of its launches, as in torch's native backend.

    If `kernel_return` is False, the kernel writes its results to arguments, and a call returns None
    (source: open-lm-engine's kernels of swiglu). `return_tensor_overrides` names these arguments
    for torch's compiler. It has no effect here, because a kernel may write to any argument."""

    def __init__(
        self,
        func: Callable[..., Any],
        grid: int | tuple[int, ...] = (),
        kernel_return: bool = True,
        return_tensor_overrides: object = (),
        **_: Any,
    ) -> None:
        self._launch = writing(func)[grid] if grid != () else writing(func)
        self._returns = kernel_return

    def __call__(self, *args: Any, **named: Any) -> Any:
        results = self._launch(*args, **named)
        return results if self._returns else None


def nki_op(
    name: str, fn: Callable[..., Any] | None = None, mutates_args: str | Iterable[str] = ()
) -> Any:
    """Return an operator of torch that launches kernels. `name` is "library::name", and
    `mutates_args` are the parameters to which the operator writes. Raises UsageError if torch is
    not installed."""
    if fn is None:
        return lambda function: nki_op(name, function, mutates_args)
    torch = devices.framework("torch", "nki_op")
    each = torch.utils._pytree.tree_map

    @wraps(fn)
    def run(*args: Any, **named: Any) -> Any:
        results = fn(*args, **named)
        return each(lambda result: _copied_argument(result, args), results)

    def shapes(*args: Any, **named: Any) -> Any:
        """Return empty tensors with the shapes of the results, which torch.compile needs. A launch
        on zeros finds the shapes."""
        with torch._subclasses.fake_tensor.unset_fake_temporarily(), unobserved():
            results = run(*(_zeros(torch, arg) for arg in args), **named)
        return each(lambda result: torch.empty(result.shape, dtype=result.dtype), results)

    operator = torch.library.custom_op(name, run, mutates_args=mutates_args)
    operator.register_fake(shapes)
    return operator


def _zeros(torch: Any, arg: Any) -> Any:
    return torch.zeros(arg.shape, dtype=arg.dtype) if isinstance(arg, torch.Tensor) else arg


def _copied_argument(result: Any, args: tuple[Any, ...]) -> Any:
    """Return a result, or a copy of it if it is an argument: torch forbids operators that return an
    argument."""
    return result.clone() if any(result is arg for arg in args) else result
