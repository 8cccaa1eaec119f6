"""The enumerations of the API, with the names and values of `nki.isa` in NKI 0.3 and later."""

from __future__ import annotations

from enum import Enum


class ApiEnum(Enum):
    """An enumeration whose members are fast keys of dictionaries."""

    # Enum's __hash__ is slow, because it is written in Python. Members are singletons, so the hash
    # of their identity is sufficient.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class engine(ApiEnum):
    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0


class reduce_cmd(ApiEnum):
    """The command of an instruction to the accumulator registers of its engine. Each lane has one
    register."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(ApiEnum):
    """The unit that writes the descriptors of a DMA transfer: software, hardware, or none."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(ApiEnum):
    error = 0
    skip = 1


class matmul_perf_mode(ApiEnum):
    none = "none"
    double_row = "double_row"


class Version(ApiEnum):
    """The generation of a machine, with the API's name. `frontend.limits.nc_version` has a member
    for each machine. Versions are ordered, because published kernels write `get_nc_version() >=
    nc_version.gen3`."""

    def __lt__(self, other: Version) -> bool:
        return int(self.value) < int(other.value)

    def __le__(self, other: Version) -> bool:
        return int(self.value) <= int(other.value)

    def __gt__(self, other: Version) -> bool:
        return int(self.value) > int(other.value)

    def __ge__(self, other: Version) -> bool:
        return int(self.value) >= int(other.value)


class MemoryRegion(ApiEnum):
    """The memory of a tensor. Private HBM belongs to one program; shared HBM belongs to all
    programs of a launch."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"


ON_CHIP = (MemoryRegion.sbuf, MemoryRegion.psum)


class dma_engine(ApiEnum):
    """The DMA engines that a core-to-core transfer uses."""

    dma = 1
    gpsimd_dma = 2
