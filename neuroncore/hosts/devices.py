"""Imports torch and jax, which are optional, when they are needed; emulates the device for torch;
and makes kernels of either API that may write to their arguments.

Tensors that were moved to the device "xla:0", and tensors that are computed from them, report this
device. Their data is always in the CPU's memory."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.frontend import vendor
from neuroncore.frontend.arguments import leaves
from neuroncore.frontend.dialects import dialect
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as OlderKernel
from neuroncore.frontend.neuronxcc.nki.kernel import trace
from neuroncore.frontend.nki.kernel import Kernel, jit


def framework(name: str, caller: str) -> Any:
    """Import torch or jax, and return the module. Raises UsageError if it is not installed. The
    message names `caller`, the function that needs the module."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(
            f"{caller} needs {name}, which is not installed: pip install 'neuroncore[{name}]'"
        ) from None


def device(caller: str) -> Any:
    """Return the torch device that tensors on the emulated device report. Raises UsageError if
    torch is not installed. The message names `caller`, the function that needs torch."""
    return framework("torch", caller).device(NAME)


def prepare_torch() -> None:
    """Prepare torch, if it is installed. Then torch accepts the devices "xla" and "neuron", and
    torch.compile calls kernels without tracing into them. torch.compile's backend "neuron" executes
    graphs as they are."""
    if find_spec("torch") is None:
        return
    torch = import_module("torch")
    stand_in(torch)
    prepare_launches(torch)


@functools.cache
def prepare_launches(torch: Any) -> None:
    """Prepare kernels for tensors on the device and for torch.compile. This imports torch's
    compiler, which takes a second."""
    for kind in (Kernel, OlderKernel):
        call = torch.compiler.disable(on_device(kind.__call__))
        kind.__call__ = call  # type: ignore[method-assign]
    if "neuron" not in torch._dynamo.list_backends(None):
        torch._dynamo.register_backend(lambda graph, inputs, **_: graph.forward, name="neuron")


NAME = "xla:0"
OURS = re.compile(r"(xla|neuron|privateuseone)(:\d+)?")
MARK = "_is_on_neuron_device"  # the attribute that marks tensors on the device
LACKED = "not implemented for 'UInt"  # in torch's message if a format lacks an operation
# Operations that only move elements. So signed integers can replace unsigned integers.
MOVES = {
    *("gather", "take_along_dim", "index_select", "take", "scatter", "scatter_", "masked_select"),
    *("__getitem__", "__setitem__", "flip", "roll", "cat", "stack", "where", "repeat_interleave"),
}


@functools.cache
def stand_in(torch: Any) -> None:
    """Make torch accept the devices "xla" and "neuron" everywhere, and add the module
    torch.neuron. The first use of a device or of torch.compile prepares launches."""
    tensor = torch.Tensor
    answers = {
        tensor.device.__get__: torch.device(NAME),
        tensor.is_xla.__get__: True,
        tensor.is_cpu.__get__: False,
    }
    named_by = torch.device, torch._C._nn._parse_to  # functions that convert names to devices
    # the positions of the devices among the arguments of functions
    positions = {torch.device: 0, torch._C._nn._parse_to: 0, tensor.to: 1}
    mode = import_module("torch.overrides").TorchFunctionMode

    class OnCPU(mode):  # type: ignore[misc, valid-type]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            args, named = _with_names(positions.get(function), args, kwargs or {})
            if torch.compiler.is_compiling():  # compiled graphs do not support the device
                here = [_here(torch, argument) for argument in args]
                return function(*here, **{n: _here(torch, value) for n, value in named.items()})
            if function in named_by:  # the device is the first argument, or has a name
                if any(_is_ours(torch, value) for value in [*args, *named.values()]):
                    prepare_launches(torch)
                first = map(_as_xla, args[:1])
                return function(*first, *args[1:], **{n: _as_xla(x) for n, x in named.items()})
            if function in answers and is_marked(args[0]):
                return answers[function]
            return _called(torch, function, args, named)

    compiled = torch.compile

    @functools.wraps(compiled)
    def compile(*args: Any, **named: Any) -> Any:
        prepare_launches(torch)
        return compiled(*args, **named)

    torch.compile = compile
    OnCPU().__enter__()
    # published code uses this name in annotations
    torch.classes.neuron = vendor.PlaceholderModule("torch.classes.neuron")
    if not hasattr(torch, "neuron"):
        torch.neuron = vendor.PlaceholderModule("torch.neuron")
        vars(torch.neuron).update(NATIVE)


class DeviceIndex(int):
    """The number of a device. torch accepts it where it takes a device (`_with_names`)."""


NATIVE: dict[str, Callable[..., Any]] = {  # functions of torch.neuron, for one device
    "current_device": lambda: DeviceIndex(0),
    "device_count": lambda: 1,
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "set_device": lambda device: None,
    "synchronize": lambda device=None: None,  # no work is pending
}


def is_marked(value: Any) -> bool:
    """Return whether a value is a tensor that is marked as on the device."""
    return bool(getattr(value, MARK, False))


def on_device(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a kernel. If an argument is on the device, the function marks
    the results as tensors on the device."""

    @functools.wraps(call)
    def called(*args: Any, **named: Any) -> Any:
        result = call(*args, **named)
        if any(map(is_marked, leaves([args, named]))):
            _mark(leaves(result))
        return result

    return called


def _called(torch: Any, function: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Call a torch function, and return its result. If the function moves a tensor between the CPU
    and the device, the result is a copy, so that the original and the moved tensor both exist."""
    values = [*args, *named.values()]
    if there := any(_is_ours(torch, value) for value in values):
        prepare_launches(torch)
    back = function is torch.Tensor.cpu or any(_is_cpu(torch, value) for value in values)
    here = [_here(torch, value) for value in args]
    result = _moved(torch, function, here, {n: _here(torch, value) for n, value in named.items()})
    if function == torch.Tensor.data.__set__:
        _mark(args[:1], is_marked(args[1]))
        return result
    before = [value for value in leaves(values) if isinstance(value, torch.Tensor)]
    if back or not (there or any(map(is_marked, before))):
        return result.clone() if back and is_marked(result) else result
    if there and any(result is value for value in before) and not is_marked(result):
        result = result.clone()
    _mark(leaves(result))
    return result


def _moved(torch: Any, function: Any, args: Iterable[Any], named: Mapping[str, Any]) -> Any:
    """Call a torch function, and return its result. If torch lacks the function for unsigned
    integers, compute the result with signed integers of the same size."""
    args = list(args)
    try:
        return function(*args, **named)
    except NotImplementedError as error:
        if LACKED not in str(error) or getattr(function, "__name__", "") not in MOVES:
            raise
    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}

    def seen(value: Any) -> Any:
        is_unsigned = isinstance(value, torch.Tensor) and value.dtype in signed
        return value.view(signed[value.dtype]) if is_unsigned else value

    result = function(*map(seen, args), **{name: seen(value) for name, value in named.items()})
    form = next(value.dtype for value in [*args, *named.values()] if seen(value) is not value)
    if isinstance(result, torch.Tensor) and result.dtype == signed[form]:
        return result.view(form)
    return result


def _mark(values: Iterable[Any], marked: bool = True) -> None:
    """Mark the tensors among the values as on the device, or as not on the device if `marked` is
    False."""
    for value in values:
        if isinstance(value, sys.modules["torch"].Tensor):
            setattr(value, MARK, marked)


def _kind(torch: Any, value: Any) -> str:
    kind = value.type if isinstance(value, torch.device) else value
    return kind if isinstance(kind, str) else ""


def _is_ours(torch: Any, value: Any) -> bool:
    return bool(OURS.fullmatch(_kind(torch, value)))


def _is_cpu(torch: Any, value: Any) -> bool:
    return _kind(torch, value).partition(":")[0] == "cpu"


def _as_xla(value: Any) -> Any:
    """Replace "neuron" and "privateuseone" by "xla" in the name of a device, because torch.device
    and Module.to accept only "xla". Return any other value unchanged."""
    return OURS.sub(r"xla\2", value) if isinstance(value, str) else value


def _with_names(
    at: int | None, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a torch function with the name of the device instead of a DeviceIndex
    where torch takes a device: the argument `device`, and the argument at position `at`. Elsewhere
    it is a number."""
    if isinstance(named.get("device"), DeviceIndex):
        named = {**named, "device": NAME}
    if at is not None and at < len(args) and isinstance(args[at], DeviceIndex):
        args = (*args[:at], NAME, *args[at + 1 :])
    return args, named


def _here(torch: Any, value: Any) -> Any:
    return "cpu" if _is_ours(torch, value) else value


def writing(function: Callable[..., Any], **options: Any) -> Any:
    """Return a kernel that may write to its arguments. A function without a decorator becomes a
    kernel of the API that it uses, by default today's API. A decorated function keeps its API and
    its grid."""
    if isinstance(function, Kernel):
        return function
    if isinstance(function, OlderKernel) or dialect(function) == "neuronxcc.nki":
        return trace(function, **options)
    return jit(function, **options)
