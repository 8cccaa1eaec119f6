"""The inputs and results of a launch: converts arguments for the kernel and results for the caller,
checks results, and describes the finished launch. Also warns about findings, each code once per
process and line of the user's kernel."""

from __future__ import annotations

import dis
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base import source
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    KernelError,
    SignatureError,
    UsageError,
)
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.core import undefined
from neuroncore.core.core import Core, on
from neuroncore.frontend.arguments import Arguments, is_host_array, leaves, may_overlap
from neuroncore.machine import Machine
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import PACKED, Format, lookup
from neuroncore.numerics.libraries import ArrayLibrary, as_numpy, library
from neuroncore.record.inputs import Input, Setting, like

if TYPE_CHECKING:
    from neuroncore.core.precision.findings import Precision
    from neuroncore.frontend import originals
else:
    originals = Lazy("neuroncore.frontend.originals")


Array = npt.NDArray[Any]


class Inputs:
    """The caller's arguments: converted for a kernel, and updated after it."""

    def __init__(
        self,
        cores: list[Core],
        tensor: type[Tile],
        keeps: bool,
        before: originals.Originals | None = None,
    ) -> None:
        """`keeps`: copy the arrays among the arguments before the kernel runs
        `before`: arrays that are copied when an instruction first writes to them
        `tensor`: the type of the kernel's tensors"""
        self.core, self.tensor, self.keeps = cores[0], tensor, keeps
        self.originals: Mapping[int, originals.OriginalArray] = before.of if before else {}
        self.programs = [core.program for core in cores if core.program is not None]
        shared = len(cores) > 1
        self.region = MemoryRegion.shared_hbm if shared else MemoryRegion.private_hbm
        self.library: ArrayLibrary | None = None  # the library for arrays among the results
        self.given: dict[int, Any] = {}  # the caller's object, by the id of its storage
        # the caller's object and its storage, by the id of the object
        self.adopted: dict[int, tuple[Any, Storage]] = {}
        # Arrays to update, their storages, and the contents before the launch. An array that shares
        # memory with other arrays may have been updated through them, so only the elements that the
        # kernel changed are copied back.
        self.copies: list[tuple[Array, Storage, Array]] = []
        self.used: list[Array] = []  # the arrays whose memory the kernel uses
        self.entered: list[tuple[Input, Any]] = []  # inputs with the caller's objects, in order
        self.copied: list[Array] = []  # copies of the entered arrays, if `keeps`

    def enter(self, value: Any, name: str = "") -> Any:
        """Return the kernel's value for an argument of the caller. Arrays become tensors, also in
        nested lists, tuples and dicts. `name` is the name of the parameter."""
        if isinstance(value, list | tuple):
            return like(value, [self.enter(v, name) for v in value])
        if isinstance(value, dict):
            return {k: self.enter(v, str(k)) for k, v in value.items()}
        if not is_host_array(value) and library(value) is None:
            return value
        if id(value) not in self.adopted:
            self.adopted[id(value)] = value, self._adopt(value, name)
        return self.tensor.of(self.adopted[id(value)][1])

    def _adopt(self, value: Any, name: str) -> Storage:
        """Return a new storage in HBM with the contents of a caller's array."""
        made_by = library(value)
        self.library = self.library or made_by
        form = _format(value, name)
        array = as_numpy(value)
        memory, data = self.core.memory, array
        usable = array.flags.carray and array.dtype.isnative and array.ndim
        # Different inputs are separate tensors on a device and in the record, so an array that
        # overlaps another array is copied.
        if usable and not any(may_overlap(array, other) for other in self.used):
            self.used.append(array)
        else:
            data = np.array(array, array.dtype.newbyteorder("="), order="C", ndmin=1)
        data = memory.widened(data, form)
        storage = memory.adopt(self.region, data, form, name)
        for program in self.programs:
            program.names[storage.id] = name
        memory.hbm.arguments.add(storage.id)
        names = {entry.name for entry, _ in self.entered}
        unique = name if name not in names else f"{name}#{len(names)}"
        self.entered.append((Input(unique, storage.id, storage.shape, form), value))
        if self.keeps:
            self.copied.append(array.copy())
        if (original := self.originals.get(id(value))) is not None:
            original.name, storage.before_write = unique, original.keep
        if data is not array and array.flags.writeable:
            self.copies.append((array, storage, storage.data.copy()))
        if array.flags.writeable and (array is value or made_by is not None):
            self.given[storage.id] = value
        return storage

    @property
    def kept(self) -> tuple[Array, ...] | None:
        return tuple(self.copied) if self.keeps else None

    def leave(self, value: Any) -> Any:
        """Return the caller's value for a result of the kernel: tensors become arrays."""
        if isinstance(value, Tile):
            return self._array(value)
        if isinstance(value, list | tuple):
            return like(value, [self.leave(v) for v in value])
        if isinstance(value, dict):
            return {k: self.leave(v) for k, v in value.items()}
        return value

    def storages(self) -> set[int]:
        """Return the ids of the storages of the arguments."""
        return {storage.id for _, storage in self.adopted.values()}

    def close(self, result: Any) -> Any:
        """Return the kernel's result in the caller's form, and copy changes to the caller's
        arrays."""
        if result is None:
            outputs = None
        else:
            with on(self.core):
                outputs = self.leave(result)
        self.write_back()
        self.core.hbm.tensors.clear()  # removes a reference cycle that would keep gigabytes
        return outputs

    def outputs(self, result: Any) -> list[Tile]:
        """Return the tensors that the kernel returns, followed by the arguments that it changed."""
        returned = [value for value in leaves(result) if isinstance(value, Tile)]
        ids = {tile.storage.id for tile in returned}
        storages = (storage for _, storage in self.adopted.values())
        changed = [s for s in storages if s.version and s.id not in ids]
        return returned + [self.tensor.of(storage) for storage in changed]

    def _array(self, tile: Tile) -> Any:
        """Return the caller's array for a tensor. A tensor that is a whole argument of the kernel
        becomes the array that the caller passed. Raises SignatureError for a tile on the chip."""
        storage = tile.storage
        if storage.on_chip:
            raise SignatureError(
                f"the kernel returns {tile}",
                expected="tensors in hbm",
                because="on-chip memory is lost when the kernel ends",
                hint="copy the tile to an nl.ndarray(..., buffer=nl.shared_hbm), and return that "
                "tensor",
            ).placed(storage.born)
        if storage.id in self.given and tile.is_storage:
            return self.given[storage.id]
        tile = tile.resolved("the result") if tile.dynamic else tile
        missing = undefined.unwritten(tile)
        if missing:
            self._report_undefined(tile, missing)
        codes = undefined.contents(tile, self.core.options.undefined_as_zeros)
        return self.library.from_numpy(codes) if self.library else codes

    def _report_undefined(self, tile: Tile, count: int) -> None:
        self.core.report(
            "OUTPUT_NOT_WRITTEN",
            f"the kernel never wrote {count:,} of the {tile.size:,} elements of its result {tile}; "
            "the caller gets whatever was in the device's memory",
            tile.storage.id,
            site=tile.storage.born,
        )

    def write_back(self) -> None:
        """Copy the elements that the kernel has changed to the caller's arrays. Only the arrays in
        `copies` need this: the kernel could not use their memory directly."""
        for array, storage, before in self.copies:
            changed = storage.changed_since(before)
            values = storage.data.view(storage.held.numpy)
            if storage.held is not storage.dtype:
                values = codec.encode(storage.dtype, values).view(storage.dtype.numpy)
            np.copyto(array, values.reshape(array.shape), where=changed.reshape(array.shape))


def _format(value: Any, name: str) -> Format:
    """Return the format of an argument. Raises DtypeError if no NeuronCore has the format."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    try:
        return lookup(dtype)
    except UsageError:
        made_by = library(value)
        to = made_by.cast if made_by else ".astype(np.{})"
        real = getattr(dtype, "kind", "f") in "iuf"
        hint = f"convert the array with {to.format('float32')} or {to.format('int32')}"
        for packed in PACKED:
            if packed.element == str(dtype):
                hint = f"pack four numbers into each uint{packed.bits}, and view it as nl.{packed}"
        raise DtypeError(
            f"argument {name or 'of the kernel'} has dtype {dtype}",
            expected="a NeuronCore format of at most 32 bits",
            because=f"the engines have no {'64-bit numbers' if real else 'such values'}",
            hint=hint,
        ) from None


RETURNS = ("RETURN_VALUE", "RETURN_CONST")


def check(function: Callable[..., Any], result: Any, cores: Sequence[Core], inputs: Inputs) -> None:
    """Refuse results that no device can return, and report launches without effect.

    A launch has no effect if it issues no instruction, or if the caller can't see its results. A
    kernel may return arguments unchanged. Kernels without an instruction are not refused, because
    guides of the SDK use such kernels to show views and sizes.

    Raises SignatureError for an array of the host, OutsideKernelError for a tensor of an earlier
    launch, and BufferKindError for a tensor that a collective reads or writes."""
    values = leaves(result)
    for value in values:
        if is_host_array(value):
            raise _host_array(function, value)
    tiles = [value for value in values if isinstance(value, Tile)]
    for tile in tiles:
        cores[0].check_launch({"the result": tile})
    _check_exchanged(tiles, cores[0])
    arguments = inputs.storages()
    passed_on = tiles and all(t.storage.id in arguments or not t.size for t in tiles)
    if not passed_on and not any(map(_has_issued, cores)):
        cores[0].report(
            "NO_INSTRUCTIONS",
            f"{name_of(function)} issued no instruction, so there is nothing for the device to run",
            site=_last_return(function),
        )
    written = [s for s in cores[0].hbm.tensors.values() if s.version]
    if written and not inputs.outputs(result):
        where = "" if len(cores) == 1 else "on core 0 it "
        cores[0].report(
            "NOT_RETURNED",
            f"{name_of(function)} writes to this tensor in shared_hbm, but {where}returns no "
            "tensor and writes to none of its arguments",
            site=written[-1].born,
        )


def _check_exchanged(tiles: Sequence[Tile], core: Core) -> None:
    """Raise an error if a result of the kernel is a tensor that a collective reads or writes."""
    for tile in tiles:
        if tile.storage.id in core.hbm.exchanged:
            statement = f"a collective can't access {tile}, a result of the kernel"
            error = exchanged(statement, "dsts", tile)
            raise error.placed(core.hbm.exchanged[tile.storage.id])


def exchanged(statement: str, argument: str, tile: Tile) -> KernelError:
    """Return the error for a collective's tensor that is an argument or a result of the kernel.
    Collectives can't read or write such tensors (nki-library's comments on NKI 0.2 and 0.3)."""
    return BufferKindError(
        statement,
        argument=argument,
        expected="a tensor that the kernel allocates",
        got=repr(tile),
        because="collectives access only tensors that the kernel allocates",
        hint="copy the data with nisa.dma_copy from or to another tensor: nl.ndarray(..., "
        "buffer=nl.shared_hbm, name=...)",
        also="checkCollective",
    )


def check_iterations(cores: Sequence[Core]) -> None:
    """Report a device loop that cores leave after different numbers of iterations. The cores of a
    logical core must run one program (SDK release notes, NKI 0.3)."""
    first, *others = cores
    for rank, core in enumerate(others, 1):
        for site in first.iterations.keys() | core.iterations.keys():
            here, there = first.iterations.get(site, []), core.iterations.get(site, [])
            if here != there:
                first.report(
                    "DIVERGENT_LOOP",
                    f"core 0 runs this loop {_listed(here)}, but core {rank} runs it "
                    f"{_listed(there)}",
                    site=site,
                )


def check_constants(cores: Sequence[Core]) -> None:
    """Report a constant of nl.shared_constant whose value differs between cores. A program has a
    single value for all cores."""
    first, *others = cores
    for rank, core in enumerate(others, 1):
        for site, constants in core.constants.items():
            pairs = enumerate(zip(first.constants.get(site, []), constants, strict=False), 1)
            number = next((n for n, (here, there) in pairs if here != there), None)
            if number is not None:
                first.report(
                    "CONSTANT_DIFFERS",
                    f"constant {number} of this line differs between core 0 and core {rank}",
                    site=site,
                )


def _listed(counts: list[int]) -> str:
    """Return text with the numbers of iterations of a loop, one number for each execution of the
    loop."""
    if not counts:
        return "never"
    shown = ", ".join(map(str, counts[:4])) + (", ..." if len(counts) > 4 else "")
    return f"for {shown} {'iteration' if counts == [1] else 'iterations'}"


def _has_issued(core: Core) -> bool:
    """Return whether a core has reached an instruction. An instruction that was skipped because its
    size is 0 counts too."""
    return bool(core.calls) or any(finding.code == "NO_ELEMENTS" for finding in core.findings)


def at_return(function: Callable[..., Any], error: KernelError) -> KernelError:
    """Place an error at the last return statement of the function, and return it."""
    site = _last_return(function)
    return error if site is None else error.placed(site)


def _last_return(function: Callable[..., Any]) -> tuple[CodeType, int] | None:
    code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    *_, last = (step for step in dis.get_instructions(code) if step.opname in RETURNS)
    return code, last.offset


def _host_array(function: Callable[..., Any], value: Any) -> KernelError:
    error = SignatureError(
        f"{name_of(function)} returns an array of the host, {type(value).__name__} "
        f"{tuple(value.shape)}",
        expected="tensors in hbm",
        because="the host computed this array, not the device",
        hint="compute with instructions, store into an nl.ndarray(..., buffer=nl.shared_hbm), and "
        "return that",
    )
    return at_return(function, error)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "the kernel")


@dataclass(eq=False)
class Launch:
    """A finished launch: its results, and the cores that it ran on, with their records."""

    kernel: str
    outputs: Any
    cores: list[Core]
    programs: Sequence[Sequence[int]]  # by core: programs of the launch grid, in order
    arguments: tuple[Any, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    precision: Precision | None = None  # with Options.precision
    inputs: tuple[tuple[Input, Any], ...] = ()  # each input with the caller's object
    named: dict[str, Any] = field(default_factory=dict)  # arguments passed by name
    # copies of the inputs before the launch; None if the settings do not keep them
    given: tuple[Array, ...] | None = None

    @property
    def core(self) -> Core:
        """Return the first core, which is often the only one."""
        return self.cores[0]

    @property
    def machine(self) -> Machine:
        return self.core.machine


def arrays_of(launch: Launch) -> tuple[Arguments, Arguments | None]:
    """Return two Arguments: the arrays of a launch's arguments after and before the launch. The
    second is None if the launch kept no copies."""
    used: Arguments = tuple(value for _, value in launch.inputs), {}
    return used, None if launch.given is None else (launch.given, {})


def setting(rank: int, launch: Launch, used: Arguments, before: originals.Before | None) -> Setting:
    """Return the Setting of one rank of a launch for the record: machine, options, grid and inputs.

    `used`: the arguments after the launch
    `before`: the arguments before the launch; None for a Setting without arrays"""
    core, several = launch.core, launch.core.world.ranks > 1
    inputs = [(entry.on(rank) if several else entry, value) for entry, value in launch.inputs]
    arrays: Mapping[str, Array] = {}
    if isinstance(before, tuple):
        copies = {id(value): old for value, old in zip(leaves(used), leaves(before), strict=True)}
        kept = ((entry.name, copies.get(id(value))) for entry, value in inputs)
        arrays = {name: as_numpy(array) for name, array in kept if array is not None}
    elif before is not None:
        arrays = originals.OriginalArrays({entry.name: value for entry, value in inputs}, before)
    entries = tuple(entry for entry, _ in inputs)
    return Setting(core.machine, core.options, core.grid, entries, arrays, core.world)


def together(settings: Sequence[Setting]) -> Setting:
    """Combine the Settings of all ranks into one."""
    if len(settings) == 1:
        return settings[0]
    inputs = tuple(entry for setting in settings for entry in setting.inputs)
    arrays = {name: array for setting in settings for name, array in setting.arrays.items()}
    return replace(settings[0], inputs=inputs, arrays=arrays)


class WarnedLine(NamedTuple):
    """The key of a finding that is reported only once: its code, and the file and line of the
    kernel. For a finding without a line, `file` is the message of the finding."""

    code: str
    file: str
    number: int


_warned: set[WarnedLine] = set()


class NeuronWarning(UserWarning):
    """The warning for a finding of a launch, if no observer reports the findings.

    Python's warning filters apply. By default, a warning is shown once per process for each code
    and line of the kernel. Python's own registry compares messages, and would show it again for
    tiles of another size."""


def by_line(findings: Iterable[Finding]) -> dict[WarnedLine, list[Finding]]:
    """Group findings by code and line of a kernel, in their original order. A finding without a
    line is grouped by its message."""
    groups: dict[WarnedLine, list[Finding]] = {}
    for finding in findings:
        place = finding.place
        spot = (place.file, place.line) if place else (finding.message, 0)
        groups.setdefault(WarnedLine(finding.code, *spot), []).append(finding)
    return groups


def likely_wrong(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the errors and warnings among findings. A correct kernel may have notes and advice."""
    return (finding for finding in findings if finding.severity in ("error", "warning"))


def counted(findings: list[Finding]) -> str:
    """Return text for several findings about one line: the first finding, and the number of the
    others."""
    others = f" (and {len(findings) - 1} more on this line)" if len(findings) > 1 else ""
    return f"{findings[0]}{others}"


def warn(findings: Iterable[Finding]) -> None:
    """Show errors and warnings among findings as Python warnings, if they were not shown yet. The
    warnings are placed at the user's line that launched the kernel."""
    for line, same in by_line(likely_wrong(findings)).items():
        text = counted(same)
        if line not in _warned or _is_shown_each_time(text):
            _warned.add(line)
            warnings.warn(text, NeuronWarning, stacklevel=source.user_level())


def _is_shown_each_time(text: str) -> bool:
    """Return whether Python's warning filters show or raise this warning each time. The first
    matching filter that is not limited to a module decides."""
    for action, message, category, module, _ in warnings.filters:
        about = message is None or message.match(text)
        if about and module is None and issubclass(NeuronWarning, category):
            return action in ("always", "all", "error")
    return False
