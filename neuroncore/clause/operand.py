"""Declarations of an instruction's parameters, and the errors for arguments that violate them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, NamedTuple

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    FreeSizeError,
    KernelError,
    OperatorError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
    TargetError,
    ViewError,
)
from neuroncore.base.units import either, plural
from neuroncore.clause.alu import OPERATORS, Function, Operator
from neuroncore.machine import Machine, having
from neuroncore.memory import access
from neuroncore.memory.geometry import View
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, Format, float8_e4m3fn, float32

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
HBM = (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)


class Participation(NamedTuple):
    """How the cores of a rank take part in one collective.

    `waits`: whether all cores of the rank meet; otherwise a core meets only cores with the same
        number in other ranks
    `once`: whether data is moved once for the rank; otherwise each core exchanges its own data"""

    waits: bool
    once: bool


def participation(tensors: Iterable[Tile | View]) -> Participation:
    """Return how the cores of a rank take part in a collective on these tensors.

    Shared HBM belongs to a rank. SBUF and private HBM belong to a core (nki.language.private_hbm).
    This rule is known for tensors of one kind, from nki-library's kernels. The API (SDK 2.33) also
    allows private sources with shared destinations, and the opposite. For these, it is inferred
    that no data is lost, and that both cores have written a shared source."""
    shared = [tensor.region is MemoryRegion.shared_hbm for tensor in tensors]
    return Participation(any(shared), all(shared))


@dataclass(frozen=True)
class Operand:
    """Declaration of a tile operand. Limits such as `partitions` are names of machine limits, never
    numbers."""

    reads: bool = False
    writes: bool = False
    partial: bool = False  # reads or writes only some elements; the body decides which
    skips: bool = False  # partial only because an index may be out of bounds
    regions: tuple[MemoryRegion, ...] = (SBUF, PSUM)
    dtypes: tuple[Format, ...] | None = None
    widths: tuple[int, ...] | None = None  # the bytes that an element may have
    partitions: str | None = "partitions"
    free_dims: str | None = "free_dims"
    starts: bool = True  # obeys the start-partition rule of compute engines
    column: bool = False  # one element per partition; follows from the clause's shapes
    scalar: bool = False  # a number is accepted instead of a tile
    optional: bool = False  # None is accepted
    many: bool = False  # a list of tiles; a Call has each tile as "name[i]"
    moved: bool = False  # moved without computing, so packed formats and scales are legal
    indirect: bool = False  # an index may choose the elements
    index_of: str | None = None  # the operand for which it is the index
    # a machine with this feature reads float8_e4m3fn here, even if it does so nowhere else
    float8: str = ""
    eight_bits: str = ""  # a machine without this feature accepts no 8-bit floats here

    def violations(self, name: str, view: View, machine: Machine) -> Iterator[KernelError]:
        """Yield the errors with which the hardware would refuse the tile."""
        if view.region not in self.regions:
            yield _wrong_region(name, view, self.regions)
        if self.dtypes is not None and view.dtype not in self.dtypes:
            yield _wrong_dtype(name, view, self.dtypes, self.column)
        elif self.dtypes is None and view.dtype.is_opaque and not self.moved:
            yield _computes_not(name, view)
        if self.widths is not None and view.dtype.itemsize not in self.widths:
            yield _wrong_width(name, view, self.widths)
        if not view.on_chip:
            return
        if view.picked_by is not None and not machine.has("tensor_indirection"):
            yield _lacks_indirection(name, view, machine)
        elif view.picked_by is not None and not self.indirect:
            yield _not_indirect(name, view)
        if self.starts and not self._has_format(view.dtype, machine):
            yield _lacks_format(name, view, machine, self._feature(view.dtype))
        if self.partitions and view.partitions > getattr(machine.limits, self.partitions):
            yield _too_many_partitions(name, view, getattr(machine.limits, self.partitions))
        elif self.starts and view.partition not in machine.starts(view.partitions):
            yield _bad_start(name, view, machine)
        if self.starts and view.stepped:
            yield _stepped(name, view)
        if self.free_dims is None:
            return  # a DMA: its descriptors count bytes, so the access pattern has no limit
        most = _most_free(view, machine)
        # Elements of PSUM that are read repeatedly count once (nki-library, layernorm_tkg).
        count = view.distinct_free_size if view.region is PSUM else view.free_size
        if count > most:
            yield FreeSizeError(
                f"{name} has {view.free_size:,} elements per partition; {machine.name} takes at "
                f"most {most:,}",
                argument=name,
                expected=f"at most {most:,} elements along the free axes",
                got=str(view),
                because="one instruction can't process a larger tile",
                hint=f"loop over pieces of {most:,} columns",
                also="err_size_of_dimension_exceed_arch_limit",
            )
        yield from _too_many_dims(name, view, getattr(machine.limits, self.free_dims))
        if self.column and view.free_size != 1:
            yield ShapeError(
                f"{name} must have one element per partition, not {view.free_size:,}",
                argument=name,
                expected=f"the shape ({view.partitions}, 1)",
                got=str(view),
                because="the instruction takes a single number for each partition",
            )

    def _has_format(self, dtype: Format, machine: Machine) -> bool:
        if dtype is float8_e4m3fn and self.float8 and machine.has(self.float8):
            return True
        feature = self._feature(dtype)
        return not feature or machine.has(feature)

    def _feature(self, dtype: Format) -> str | None:
        """Return the feature that a machine must have for this format, or None."""
        return (self.eight_bits if dtype.is_float and dtype.itemsize == 1 else "") or dtype.feature


def _most_free(view: View, machine: Machine) -> int:
    limits = machine.limits
    return limits.free_elements_psum if view.region is PSUM else limits.free_elements_sbuf


def _too_many_dims(name: str, view: View, most: int) -> Iterator[KernelError]:
    """Yield the error of an access pattern with too many free axes. Contiguous axes count as
    one."""
    merged = access.free_axes(view.shape, view.strides)
    if merged > most:
        yield ShapeError(
            f"the access pattern of {name} has {merged} free axes, but the limit is {most}",
            argument=name,
            expected=f"at most {most} free axes; contiguous axes count as one",
            got=f"{view}, strides {view.strides}",
            because=f"an instruction addresses the partition axis and at most {most} free axes",
            hint="first copy the operand into a contiguous tile",
            also="err_exceed_max_supported_dimension",
        )


def _place(region: MemoryRegion) -> str:
    return "hbm" if region in HBM else region.value


def _wrong_region(name: str, view: View, regions: tuple[MemoryRegion, ...]) -> KernelError:
    places = either(dict.fromkeys(map(_place, regions)))
    copies = {
        SBUF: "use a tile in SBUF; nisa.dma_copy copies between SBUF and HBM, and nisa.tensor_copy "
        "between SBUF and PSUM",
        PSUM: f"allocate {name} with buffer=nl.psum",
    }
    return BufferKindError(
        f"{name} must be in {places}, not in {_place(view.region)}",
        argument=name,
        expected=places,
        got=str(view),
        because=f"the instruction can access this operand only in {places}",
        hint=copies.get(regions[0]),
        also="err_unsupported_memory",
    )


def _wrong_dtype(name: str, view: View, dtypes: tuple[Format, ...], column: bool) -> KernelError:
    in_registers = column and dtypes == (float32,)
    return DtypeError(
        f"{name} can't be {view.dtype}",
        argument=name,
        expected=either(dtypes),
        got=str(view),
        because="the engine takes one number per partition only in float32"
        if in_registers
        else None,
        hint=f"copy {name} into a float32 tile with nisa.tensor_copy" if in_registers else None,
    )


def _wrong_width(name: str, view: View, widths: tuple[int, ...]) -> KernelError:
    units = f"{either(widths)} bytes"
    return DtypeError(
        f"{name} has elements of {plural(view.dtype.itemsize, 'byte')}",
        argument=name,
        expected=f"elements of {units}",
        got=str(view),
        because=f"the engine moves units of {units}",
        also="NCC_ISFV902",
    )


def _computes_not(name: str, view: View) -> KernelError:
    return DtypeError(
        f"{name} is {view.dtype}, and no engine computes with this format",
        argument=name,
        expected="a format that holds one number",
        got=str(view),
        because="microscaling formats can only be quantized, multiplied as matrices, and moved",
        hint=f"access the bits with tensor.view(nl.{view.dtype.code_type})",
    )


def _lacks_format(name: str, view: View, machine: Machine, feature: str | None) -> KernelError:
    older = view.dtype is float8_e4m3fn
    return TargetError(
        f"{name} is {view.dtype}, which {machine.name} does not have"
        + ("" if feature == view.dtype.feature else " for this operand"),
        argument=name,
        expected="float8_e4m3, whose largest number is 240" if older else having(feature or ""),
        got=str(view),
        also="NCC_EVRF051" if older else None,
    )


def _lacks_indirection(name: str, view: View, machine: Machine) -> KernelError:
    return TargetError(
        f"{name} is an indirect view, but {machine.name} has no indirect views",
        argument=name,
        expected=having("tensor_indirection"),
        got=f"{machine.name} ({machine.generation})",
        hint="gather with nisa.nc_n_gather or nisa.local_gather",
    )


def _not_indirect(name: str, view: View) -> KernelError:
    return ViewError(
        f"{name} can't be an indirect view",
        argument=name,
        expected="a tile without an index",
        got=f"{view}, picked by an index",
        because="the instruction can't read an index for this operand",
        hint="first gather the elements into a separate tile with nisa.tensor_copy",
    )


def _too_many_partitions(name: str, view: View, most: int) -> KernelError:
    return PartitionLimitError(
        f"{name} has {view.partitions:,} partitions; the limit is {most:,}",
        argument=name,
        expected=f"at most {most:,} partitions (shape[0])",
        got=str(view),
        because=f"axis 0 is the partition axis, and an instruction works on at most {most} "
        "partitions",
        hint=f"loop over pieces of {most:,} rows",
        also="err_num_partition_exceed_arch_limit",
    )


def _bad_start(name: str, view: View, machine: Machine) -> KernelError:
    starts, count = either(machine.starts(view.partitions)), plural(view.partitions, "partition")
    return StartPartitionError(
        f"{name} starts at partition {view.partition}, but {count} must start at {starts}",
        argument=name,
        expected=f"a first partition of {starts}, because {name} has {count}",
        got=f"partition {view.partition}",
        because="engines access partitions in groups of 32, 64 or 128",
        hint="copy the data to one of these partitions with nisa.dma_copy, or use the free axis "
        "instead",
        also="TEN404",
    )


def _stepped(name: str, view: View) -> KernelError:
    return StartPartitionError(
        f"the partitions of {name} are not consecutive",
        argument=name,
        expected="consecutive partitions",
        got=f"{view}, strides {view.strides}",
        because="an instruction has a first partition and a number of partitions, but no stride",
        hint="first copy the rows to consecutive partitions with nisa.dma_copy",
    )


@dataclass(frozen=True)
class Op:
    """Declaration of a parameter that is an ALU operator."""

    kinds: tuple[str, ...] = ("arithmetic",)
    reduces: bool = False
    names: tuple[str, ...] | None = None
    optional: bool = False

    def violations(self, name: str, value: Any, machine: Machine) -> Iterator[KernelError]:
        if value is None and self.optional:
            return
        if not isinstance(value, Operator):
            yield SignatureError(
                f"{name} must be an operator such as nl.add",
                argument=name,
                got=repr(value),
                hint=f"{value!r} is a function; call it: {value!r}(...)"
                if repr(value).startswith("nl.")
                else None,
            )
            return
        if value.kind not in self.kinds or (self.names and value.name not in self.names):
            yield OperatorError(
                f"{name}={value} is not an operator of this instruction",
                argument=name,
                expected=either(self.names or (f"an {either(self.kinds)} operator",)),
                got=repr(value),
            )
        elif self.reduces and not value.reduces:
            yield OperatorError(
                f"{name}={value} can't be used in a reduction",
                argument=name,
                expected=either(name for name, op in OPERATORS.items() if op.reduces),
                because="a reduction combines its previous result with the next element, and only "
                "some operators can do so",
            )
        if value.feature and not machine.has(value.feature):
            yield TargetError(
                f"{machine.name} does not have the operator {value}",
                argument=name,
                expected=having(value.feature),
                got=f"{machine.name} ({machine.generation})",
            )


@dataclass(frozen=True)
class Act:
    """Declaration of a parameter that is an activation function."""

    def violations(self, name: str, value: Any, machine: Machine) -> Iterator[KernelError]:
        if not isinstance(value, Function):
            yield OperatorError(
                f"{name}={value!r} is not an activation function",
                argument=name,
                expected="a function of the Scalar engine, such as nl.exp",
                got=repr(value),
            )


@dataclass(frozen=True)
class Static:
    """Declares a parameter that is not a tile, and that decides about legality or cost. With
    `sequence`, lists become tuples."""

    sequence: bool = False
    members: type[Enum] | None = None  # the enumeration that it is a member of
    flag: bool = False

    def violations(self, name: str, value: Any, machine: Machine) -> Iterator[KernelError]:
        if self.members is not None and not isinstance(value, self.members):
            yield SignatureError(
                f"{name} must be a member of nisa.{self.members.__name__}",
                argument=name,
                expected=either(map(repr, self.members)),
                got=repr(value),
            )
        if self.flag and not (isinstance(value, int | np.bool_ | None) and value in (None, 0, 1)):
            yield SignatureError(
                f"{name} must be True or False", argument=name, got=f"{value!r:.60}"
            )


def are_tiles(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(tile, Tile) for tile in value)


def spread(name: str, tiles: Sequence[Tile]) -> dict[str, Tile]:
    """Return the tiles of a list by their names in a Call."""
    return {f"{name}[{i}]": tile for i, tile in enumerate(tiles)}


BOTH = ("arithmetic", "bitvec")


def formats(names: str) -> tuple[Format, ...]:
    """Return the formats with these names. If the first word is "but", return all other formats."""
    first_word, *others = names.split()
    if first_word == "but":
        return tuple(form for form in FORMATS.values() if form.name not in others)
    return tuple(FORMATS[name] for name in names.split())


def reads(names: str = "", *regions: MemoryRegion, **more: Any) -> Operand:
    """Declare a tile that is read, in one of these formats and memories. The default is all
    formats, and the memories that compute engines reach. `more` are fields of Operand."""
    return Operand(reads=True, **_where(names, regions), **more)


def writes(names: str = "", *regions: MemoryRegion, **more: Any) -> Operand:
    """Declare a tile that is written. For the parameters see `reads`."""
    return Operand(writes=True, **_where(names, regions), **more)


def _where(names: str, regions: tuple[MemoryRegion, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {"dtypes": formats(names)} if names else {}
    return fields | ({"regions": regions} if regions else {})


# Compute engines read and write SBUF and PSUM.
In = Annotated[Tile, reads()]
Out = Annotated[Tile, writes()]
Gathered = Annotated[Tile, reads(indirect=True)]
Scattered = Annotated[Tile, writes(indirect=True)]
SbufIn = Annotated[Tile, reads("", SBUF)]
SbufOut = Annotated[Tile, writes("", SBUF)]

# One number for each lane, from a tile, or one number of the instruction for all lanes.
Number = Annotated[Tile | float, reads(scalar=True)]
MaybeNumber = Annotated[Tile | float | None, reads(scalar=True, optional=True)]
Single = Annotated[Tile | float, reads("float32", scalar=True)]
MaybeSingle = Annotated[Tile | float | None, reads("float32", scalar=True, optional=True)]
Reduced = Annotated[Tile | None, writes(optional=True)]

AnyOp = Annotated[Operator, Op(BOTH)]
MaybeOp = Annotated[Operator | None, Op(BOTH, optional=True)]
Arithmetic = Annotated[Operator, Op()]
