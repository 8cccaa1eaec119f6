"""Running a kernel: arguments in, one core or several, results out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.core import results
from neuroncore.core.core import Core, on
from neuroncore.core.meeting import cores_together
from neuroncore.core.system import System
from neuroncore.enums import MemoryRegion
from neuroncore.errors import (
    DtypeError,
    NeuronError,
    SignatureError,
    UsageError,
)
from neuroncore.findings import Finding
from neuroncore.frontend import ending, misuse
from neuroncore.frontend.arrays import Library, as_numpy, library
from neuroncore.frontend.outcome import Launch as Launch
from neuroncore.frontend.settings import current_settings, environment_options, target_machine
from neuroncore.frontend.warning import NeuronWarning as NeuronWarning
from neuroncore.frontend.warning import warn
from neuroncore.machine import Machine
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.native.lazy import Lazy
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, lookup
from neuroncore.options import Options
from neuroncore.record.data import Input, like
from neuroncore.record.program import Order

if TYPE_CHECKING:
    from neuroncore.precision.findings import Precision

doubles: Any = Lazy("neuroncore.precision.doubles")
findings: Any = Lazy("neuroncore.precision.findings")
shadows: Any = Lazy("neuroncore.precision.shadow")
Array = npt.NDArray[Any]


def launch(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    tensor: type[Tile],
    order: Order = "scheduled",
    grid: tuple[int, ...] = (),
    target: str | None = None,
    options: Options | None = None,
    programs: Sequence[Sequence[int]] | None = None,
    finished: Callable[[], None] | None = None,
) -> Launch:
    """Run a kernel function on one core, or the programs of a grid on one core or several.

    `programs` are those of the grid that each core runs, one after the other; by default each has
    a core of its own (nki/get-started/about/lnc.rst). Two cores are a logical core where the
    machine has such, and can meet; programs on more run one after the other. `finished` is called
    at the end of each. `order` is what the dialect's compiler makes of that of instructions, unless
    the options have another.

    Arrays become tensors of the dialect's type `tensor` in HBM, without a copy where they are
    contiguous; what the kernel writes into them shows in the caller's arrays afterwards. Returned
    tensors become arrays of numpy, or of torch or jax if an argument was one of theirs.
    """
    current = current_settings()
    shares = [[rank] for rank in range(prod(grid))] if programs is None else programs
    chosen = options or current.options or environment_options()
    cores = _cores(target_machine(target), chosen, grid, len(shares))
    _set_order(cores, chosen.order or order)
    if programs is None:
        _check_cores(cores)
    precision = _precision(cores)
    if current.observer is not None:
        current.observer.begun(cores[0])
    inputs = _Inputs(cores, tensor)
    names = _names(function, args)

    def programs_of(core: Core) -> Any:
        first, *_ = [one_program(core, rank) for rank in shares[cores.index(core)]]
        core.packs.clear()
        return core.returns(first)

    def one_program(core: Core, rank: int) -> Any:
        core.begin(rank)
        tensors = [inputs.enter(v, n) for v, n in zip(args, names, strict=True)]
        named = {name: inputs.enter(value, name) for name, value in (kwargs or {}).items()}
        result = _called(function, tensors, named)
        if finished is not None:
            finished()
        return result

    result = _on_all(cores, programs_of)
    ending.check(function, result, cores, inputs.storages())
    if precision is not None:
        precision.close(inputs.left(result), _findings(cores))
    outputs = inputs.close(result)
    name = getattr(function, "__name__", "kernel")
    found = _findings(cores), precision, tuple(inputs.entered)
    return Launch(name, outputs, cores, shares, tuple(args), *found)


def _set_order(cores: list[Core], order: Order) -> None:
    for core in cores:
        if core.program is not None:
            core.program.order = order


def _check_cores(cores: list[Core]) -> None:
    """Report a launch on more cores than a logical core has, which the device refuses
    (nki/get-started/about/lnc.rst)."""
    machine, most = cores[0].machine, cores_together(cores[0].machine)
    if len(cores) > most:
        cores[0].report(
            "GRID_SIZE",
            f"a launch grid of {cores[0].grid} asks for {len(cores)} cores; {machine.name} runs a "
            f"kernel on at most {most}. Here its programs run one after the other, each on a core "
            "of its own; the device refuses the launch",
        )


def _on_all(cores: list[Core], programs_of: Callable[[Core], Any]) -> Any:
    """What the first of the cores returns, with what the others wrote of it."""
    if 1 < len(cores) <= cores_together(cores[0].machine):
        result, *others = System(cores).run(programs_of)
    else:
        result, *others = [_on_one(core, programs_of) for core in cores]
    for other in others:
        _complete(result, other)
    return result


def _on_one(core: Core, programs_of: Callable[[Core], Any]) -> Any:
    with on(core):
        return programs_of(core)


def _called(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a kernel returns. What Python refuses of a call of ours is told in our form."""
    try:
        return function(*args, **kwargs)
    except misuse.WRONG as error:
        if not isinstance(error, NeuronError) and (told := misuse.told(error)) is not None:
            raise told from told.__cause__
        raise


def _findings(cores: list[Core]) -> list[Finding]:
    return [finding for core in cores for finding in core.findings]


def _cores(machine: Machine, options: Options, grid: tuple[int, ...], count: int) -> list[Core]:
    """The cores of a launch; they share HBM."""
    first = Core(machine, options, 0, grid)
    cores = [first, *(Core(machine, options, n, grid, first.hbm) for n in range(1, count))]
    for core in cores:
        core.keeps_back = True
    return cores


def _precision(cores: list[Core]) -> Precision | None:
    """What will be found about the errors of a launch, if that is asked for."""
    options = cores[0].options
    if not options.precision:
        return None
    found: Precision = findings.Precision(options.precision_bound)
    for core in cores:
        core.beside = shadows.Shadow(core, found)
    return found


def finish(run: Launch) -> Any:
    """Report a run to whoever observes, or warn of its findings; its outputs."""
    observer = current_settings().observer
    if observer is not None:
        observer.done(run)
    else:
        warn(run.findings)
    return run.outputs


def _names(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """What the function calls its positional arguments."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names, *[""] * len(args)][: len(args)]


class _Inputs:
    """The caller's values on their way into a kernel and out of it."""

    def __init__(self, cores: list[Core], tensor: type[Tile]) -> None:
        self.core, self.tensor = cores[0], tensor
        shared = len(cores) > 1
        self.region = MemoryRegion.shared_hbm if shared else MemoryRegion.private_hbm
        self.library: Library | None = None  # whose arrays the results become
        self.given: dict[int, Any] = {}  # id of a storage -> the caller's object it came from
        self.adopted: dict[int, tuple[Any, Storage]] = {}  # id of a caller's object -> both
        # arrays to update, from which storage, and what that was before: a change shows in an array
        # that shares memory with it, and isn't undone by what another copy still has there
        self.copies: list[tuple[Array, Storage, Array]] = []
        self.entered: list[tuple[Input, Any]] = []  # with the caller's objects, in their order

    def enter(self, value: Any, name: str = "") -> Any:
        if isinstance(value, list | tuple):
            return like(value, [self.enter(v, name) for v in value])
        if isinstance(value, dict):
            return {k: self.enter(v, str(k)) for k, v in value.items()}
        if not ending.is_host_array(value) and library(value) is None:
            return value
        if id(value) not in self.adopted:
            self.adopted[id(value)] = value, self._adopt(value, name)
        return self._tensor(self.adopted[id(value)][1])

    def _tensor(self, storage: Storage) -> Tile:
        return self.tensor.of(storage)

    def _adopt(self, value: Any, name: str) -> Storage:
        made_by = library(value)
        self.library = self.library or made_by
        form = _format(value, name)
        array = as_numpy(value)
        memory, data = self.core.memory, array
        if not (array.flags.carray and array.dtype.isnative and array.ndim):
            data = np.array(array, array.dtype.newbyteorder("="), order="C", ndmin=1)
        data = memory.widened(data, form)
        storage = memory.adopt(self.region, data, form, name)
        names = {one.name for one, _ in self.entered}
        unique = name if name not in names else f"{name}#{len(names)}"
        self.entered.append((Input(unique, storage.id, storage.shape, form), value))
        if data is not array and array.flags.writeable:
            self.copies.append((array, storage, storage.data.copy()))
        if array.flags.writeable and (array is value or made_by is not None):
            self.given[storage.id] = value
        return storage

    def leave(self, value: Any) -> Any:
        if isinstance(value, Tile):
            return self._array(value)
        if isinstance(value, list | tuple):
            return like(value, [self.leave(v) for v in value])
        if isinstance(value, dict):
            return {k: self.leave(v) for k, v in value.items()}
        return value

    def storages(self) -> set[int]:
        """Those of the arguments."""
        return {storage.id for _, storage in self.adopted.values()}

    def close(self, result: Any) -> Any:
        """What the caller gets for a kernel's result; the caller's arrays are as it left them."""
        with on(self.core):
            outputs = self.leave(result)
        self.write_back()
        self.core.hbm.tensors.clear()  # each knows its launch: a circle that would keep gigabytes
        return outputs

    def left(self, result: Any) -> list[Tile]:
        """The tensors that the kernel returns, and then those it was given and has changed."""
        returned = [value for value in ending.leaves(result) if isinstance(value, Tile)]
        ids = {tile.storage.id for tile in returned}
        given = (storage for _, storage in self.adopted.values())
        changed = [s for s in given if s.version and s.id not in ids]
        return returned + [self._tensor(storage) for storage in changed]

    def _array(self, tile: Tile) -> Any:
        storage = tile.storage
        if storage.on_chip:
            raise SignatureError(
                f"the kernel returns {tile!r}",
                expected="tensors in hbm",
                because="on-chip memory doesn't outlive the kernel",
                hint="store it into an nl.ndarray(..., buffer=nl.shared_hbm)",
            ).placed(storage.born)
        if tile.covers_storage and storage.id in self.given and tile.shape == storage.shape:
            return self.given[storage.id]
        tile = tile.resolved("the result") if tile.dynamic else tile
        missing = results.unwritten(tile)
        if missing:
            self._report_leftovers(tile, missing)
        codes = results.contents(tile, self.core.options.zeros_as_leftovers)
        return self.library.given(codes) if self.library else codes

    def _report_leftovers(self, tile: Tile, count: int) -> None:
        self.core.report(
            "OUTPUT_NOT_WRITTEN",
            f"the kernel returns {tile!r}, of which {count} of {tile.size} elements "
            "were never written; the caller gets leftovers of the device's memory there",
            tile.storage.id,
            site=tile.storage.born,
        )

    def write_back(self) -> None:
        for array, storage, before in self.copies:
            bits = f"u{storage.held.itemsize}"
            changed = storage.data.view(bits) != before.view(bits)
            values = storage.data.view(storage.held.numpy)
            if storage.held is not storage.dtype:
                values = codec.encode(storage.dtype, values).view(storage.dtype.numpy)
            np.copyto(array, values.reshape(array.shape), where=changed.reshape(array.shape))


def _complete(result: Any, other: Any) -> None:
    for mine, theirs, brought in results.complete(result, other):
        own, double = mine.storage.double, theirs.storage.double
        if own is not None and double is not None:
            exact = doubles.on(double.storage, theirs).codes()
            doubles.on(own.storage, mine).codes()[brought] = exact[brought]
            findings.add(own.energy, double.energy)


def _format(value: Any, name: str) -> Format:
    """The format of an argument. Raises DtypeError if no NeuronCore has it."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    try:
        return lookup(dtype)
    except UsageError as unknown:
        made_by = library(value)
        to = made_by.cast if made_by else ".astype(np.{})"
        raise DtypeError(
            f"argument {name or 'of the kernel'} has dtype {dtype}",
            expected="a NeuronCore format of at most 32 bits",
            because="the engines have no 64-bit numbers",
            hint=f"convert it with {to.format('float32')} or {to.format('int32')}",
            also=str(unknown),
        ) from None
