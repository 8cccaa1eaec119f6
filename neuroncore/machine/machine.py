"""Machines as data: `isa/machines/<name>.toml`.

Every number has a source, and a grade: documented, measured or assumed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_type_hints

from neuroncore.base.errors import DefinitionError, UsageError
from neuroncore.machine.facts import Fact, FactReader, by_alias, isa


@dataclass(frozen=True)
class Limits:
    """Limits of operands, in elements or partitions."""

    partitions: int
    stationary_free: int
    moving_free_float32: int  # columns of a moving tile, for a float32 destination
    moving_free_bfloat16: int
    array_part: int  # the fewest rows or columns of the array that a product may use
    vector_transpose: int
    quadrant: int  # partitions in a quadrant
    indirect_partitions: int  # partitions that share the offsets of an indirect view
    indirect_partitions_tensor: int  # as above, on the Tensor engine
    free_dims: int
    free_elements_sbuf: int
    free_elements_psum: int
    iota_dims: int
    gpsimd_core_partitions: int  # partitions of each GpSimd processor
    gpsimd_dma_elements: int
    gather_indices: int  # indices of one GpSimd processor
    dma_sources: int  # tensors that one transfer can add up
    transposed_rows: int  # rows that a DMA with run-time descriptors transposes at a time
    search_free: int  # elements for instructions that find eight values
    search_free_dims: int
    bn_stats_free: int
    topk_elements: int
    topk_results: int


@dataclass(frozen=True)
class Sbuf:
    partitions: int
    partition_bytes: int
    usable_bytes: int
    min_align_bytes: int


@dataclass(frozen=True)
class Psum:
    partitions: int
    partition_bytes: int
    banks: int
    bank_bytes: int
    min_align_bytes: int


@dataclass(frozen=True)
class Hbm:
    """One core's share of HBM. A core that runs alone can use the whole bandwidth of its stack."""

    capacity_bytes: int
    gigabytes_per_s: float
    stack_gigabytes_per_s: float
    cores_per_stack: int

    @property
    def stack_bytes(self) -> int:
        return self.capacity_bytes * self.cores_per_stack


@dataclass(frozen=True)
class Engine:
    """Times of an engine.

    `rate` is the number of elements per lane and cycle, by the kind of work; for the Tensor engine
    it is the number of columns per cycle. The rate `strided` is for elements that are each in a
    different sector; if it is missing, `Fixed.sector_cycles` applies.

    An instruction occupies its engine for max(min_interval, overhead + work / rate) cycles. Its
    result is available `latency_ns` later. `overhead_cycles` is for operands in PSUM; an operand in
    SBUF adds `sbuf_access_cycles`, and [P, 1] columns of scalars add `column_cycles`."""

    clock_ghz: float
    min_interval_cycles: int
    overhead_cycles: int
    sbuf_access_cycles: int
    column_cycles: int
    latency_ns: float
    rate: Mapping[str, float]


@dataclass(frozen=True)
class Dma:
    """The 16 DMA engines that serve one core. All times are in nanoseconds.

    A packet is a row of elements, contiguous or with one stride. Each contiguous run in it takes at
    least `run_ns`. An element of HBM that is read repeatedly takes `repeated_read_ns` each time.

    A transfer occupies its queue for `issue_ns`, or for `hardware_issue_ns` if one of
    `hardware_generators` writes its descriptors. Descriptors from software take
    `software_descriptor_ns` each. The `gpsimd` times apply if GpSimd writes the descriptors of a
    transfer without dge_mode. In the older API, they replace all software times."""

    engines: int
    partitions_per_engine: int
    efficient_bytes: int  # the documentation calls fewer contiguous bytes inefficient
    gigabytes_per_s_per_engine: float
    packet_ns: float
    run_ns: float
    repeated_read_ns: float
    transfer_ns: float
    issue_ns: float
    load_latency_ns: float
    store_latency_ns: float
    software_descriptor_ns: float
    software_start_ns: float  # before GpSimd writes descriptors; for bench/instructions.py
    hardware_issue_ns: float
    hardware_generators: int
    gpsimd_issue_ns: float
    gpsimd_descriptor_ns: float
    gpsimd_load_latency_ns: float
    gpsimd_store_latency_ns: float
    transpose_from_hbm: float  # the share of the bandwidth that a transpose gets
    transpose_from_sbuf: float
    accumulate: float  # the share of the bandwidth that sums get
    merged_bytes: int  # size to which the older API's compiler merges transfers; 0: never
    store_wait_ns: float  # each wait for a store, at the end of an older API's program
    ahead_bytes: int  # bytes per partition that early loads may write (`Options.loads`)
    slow_strides: float  # the share of the bandwidth with `slow-strides` (`Options.assume`)


@dataclass(frozen=True)
class Fixed:
    """Costs of single events.

    A port of SBUF or PSUM transfers `sector_bytes` adjacent bytes in `sector_cycles`, even if an
    engine needs only a few of them.

    The clock of the Tensor engine changes in windows of `clock_window_ns`. It has its full rate in
    a window if `clock_rows` rows streamed through the array in the previous window, otherwise
    `cold_clock_share` of this rate. If `clock_window_ns` is 0, it always has its full rate. The
    rows of a matmul on at most half of the array count only in windows at full rate, and each
    counts as half a row. They do not count if the matmul begins more than `half_filled_ns` after
    the start of the last matmul on more than half of the array. The first matmul begins when the
    share `clock_phase` of its window has passed; on a device, the windows do not depend on the
    program.

    If a matmul has to wait for its stationary tile, its result is available `weights_latency_ns`
    later."""

    semaphore_ns: float
    activation_table_ns: float
    accumulator_read_cycles: int
    gpsimd_start_cycles: int
    gpsimd_gather_elements: int  # elements per partition for each start of a gather
    dynamic_address_cycles: int
    register_load_ns: float
    sector_bytes: int
    sector_cycles: int
    float32_passes: int
    weights_columns_per_cycle: float
    float32_weights_cycles: int  # cycles for a float32 column, if a 16-bit column takes one
    weights_by_sectors: bool
    weights_hidden: bool
    weights_latency_ns: float
    weights_bytes_per_cycle: float
    clock_window_ns: float
    clock_rows: float
    clock_phase: float
    half_filled_ns: float
    cold_clock_share: float


@dataclass(frozen=True)
class ReplayTimes:
    """Times that are used only to estimate compiled programs (`capture/estimate.py`).

    Fields `static_...` are for transfers whose descriptors are in memory before the program runs;
    fields `direct_...` are for descriptors that are made on the device. A trigger, which starts a
    transfer, occupies its engine for `..._trigger_ns`. The first byte moves `..._start_ns` after
    the trigger begins. A load takes `..._load_ns` longer than a store. If GpSimd writes the
    descriptors, the trigger begins `gpsimd_start_ns` later. Each element takes `element_ns` of its
    DMA engine, in addition to the time of its bytes at the engine's rate. An engine that waits for
    a transfer continues `done_ns` after the last byte.

    An instruction that only waits takes `order_ns`. Loading weights takes `weights_ns`. A matmul
    may begin `weights_ns` before the array has finished the previous matmul. The next instruction
    begins `product_ns` after a matmul begins."""

    static_trigger_ns: float
    static_start_ns: float
    static_load_ns: float
    direct_trigger_ns: float
    direct_start_ns: float
    direct_load_ns: float
    gpsimd_start_ns: float
    done_ns: float
    element_ns: float
    gigabytes_per_s_per_engine: float
    order_ns: float
    weights_ns: float
    product_ns: float
    range: Sequence[float]  # 80 % of measurements are between the estimate times these factors


@dataclass(frozen=True)
class Machine:
    """One NeuronCore. Other code distinguishes generations only by `has` and by the numbers."""

    name: str
    generation: str
    api_version: str  # the result of get_nc_version(): "gen" and a number
    aliases: tuple[str, ...]
    description: str
    products: tuple[str, ...]
    features: Mapping[str, Fact]
    limits: Limits
    start_partitions: Mapping[str, Any]
    sbuf: Sbuf
    psum: Psum
    hbm: Hbm
    engines: Mapping[str, Engine]
    dma: Dma
    fixed: Fixed
    replay: ReplayTimes
    peak_tflops: Mapping[str, float]
    facts: Mapping[str, Fact]
    sources: Mapping[str, str]  # by the keys that facts use

    def has(self, feature: str) -> bool:
        return feature in self.features

    def starts(self, partitions: int) -> tuple[int, ...]:
        """Return the partitions at which an access to `partitions` partitions may start."""
        fits = (int(most) for most in self.start_partitions if partitions <= int(most))
        return tuple(self.start_partitions[str(min(fits))])

    def shared_by(self, cores: int) -> Machine:
        """Return the machine for one of `cores` cores that run at the same time. Cores fill one HBM
        stack before the next, and share the bandwidth of their stack."""
        sharing = max(1, min(cores, self.hbm.cores_per_stack))
        share = self.hbm.stack_gigabytes_per_s / sharing
        if sharing == 1:
            return self
        return replace(self, hbm=replace(self.hbm, stack_gigabytes_per_s=share))

    @cached_property
    def descriptors_ahead(self) -> Machine:
        """Return the machine for compilers that write DMA descriptors before the kernel runs, if
        hardware could write them."""
        return replace(self, dma=replace(self.dma, hardware_issue_ns=self.dma.issue_ns))

    @cached_property
    def descriptors_by_software(self) -> Machine:
        """Return the machine for compilers that let GpSimd write the descriptors of DMAs without
        dge_mode."""
        fact = Fact(True, "documented", "")
        return replace(self, features={**self.features, SOFTWARE_DGE: fact})

    @cached_property
    def descriptors_by_gpsimd(self) -> Machine:
        """Return the machine for kernels of the older API in which GpSimd writes descriptors."""
        old = self.dma
        dma = replace(
            old,
            issue_ns=old.gpsimd_issue_ns,
            software_descriptor_ns=old.gpsimd_descriptor_ns,
            load_latency_ns=old.gpsimd_load_latency_ns,
            store_latency_ns=old.gpsimd_store_latency_ns,
        )
        return replace(self.descriptors_by_software, dma=dma)

    @cached_property
    def with_slow_strides(self) -> Machine:
        """Return the machine for estimates that assume `slow-strides` (`Options.assume`)."""
        return replace(self, features={**self.features, SLOW_STRIDES: Fact(True, "assumed", "")})

    def figures_for(self, engine: str, moves: bool) -> tuple[Any, ...]:
        """Return all figures on which the cost of a call on an engine may depend, without figures
        of other engines. `moves` is true for instructions that DMA may run."""
        known = self._figures.get((engine, moves))
        if known is None:
            moving = (self.dma, self.hbm) if moves else ()
            unit = self.engines.get(engine)
            figures = self.name, engine, unit, self.features, self.limits, *moving
            known = self._figures[engine, moves] = *figures, *self._fixed_costs
        return known

    @cached_property
    def _figures(self) -> dict[tuple[str, bool], tuple[Any, ...]]:
        return {}

    @cached_property
    def _fixed_costs(self) -> tuple[Any, ...]:
        return tuple(value for name, value in vars(self.fixed).items() if name not in OF_SCHEDULES)

    @property
    def pe_cells(self) -> int:
        """The number of processing elements of the Tensor engine: rows x columns."""
        return self.limits.partitions * self.limits.stationary_free


# The fields of Fixed that only the schedule reads; no cost of a call depends on them.
OF_SCHEDULES = (
    *("semaphore_ns", "activation_table_ns", "clock_window_ns", "clock_rows", "clock_phase"),
    *("half_filled_ns", "cold_clock_share", "weights_hidden"),
)
# Features that no machine file has: of some compiler releases, and of estimates with an assumption.
SOFTWARE_DGE, SLOW_STRIDES = "software_dge", "slow_strides"
SECTIONS = ("limits", "sbuf", "psum", "hbm", "dma", "fixed", "replay")
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


def _folder() -> Path:
    return isa() / "machines"


def names() -> list[str]:
    """Return the names of all machines, sorted."""
    files = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def _text(name: str) -> str:
    return (_folder() / f"{name}.toml").read_text("utf-8")


def having(feature: str) -> str:
    """Return the names of the machines that have a feature: `trn2 or trn3`."""
    return " or ".join(name for name in names() if load(name).has(feature)) or "another machine"


@cache
def load(name: str) -> Machine:
    """Return the machine with this name or alias. Raises UsageError if there is none, and
    DefinitionError if its file is wrong."""
    if name not in names():
        return load(_meant(name))
    where = f"isa/machines/{name}.toml"
    machine = parse(_text(name), where)
    if machine.name != name:
        raise DefinitionError(
            f"{where}: name is {machine.name!r}, but the file has the name {name!r}"
        )
    return machine


def _meant(alias: str) -> str:
    known = aliases()
    if alias not in known:
        others = ", ".join(f"{name} = {machine}" for name, machine in sorted(known.items()))
        raise UsageError(
            f"no machine is called {alias!r}; there are {', '.join(names())}, and other names of "
            f"these: {others}"
        )
    return known[alias]


@cache
def aliases() -> dict[str, str]:
    """Return the name of the machine for each alternative name. Raises DefinitionError if an
    alternative name means two machines."""
    return by_alias("machines", {name: load(name).aliases for name in names()})


def api_versions() -> list[str]:
    """Return the values that get_nc_version() can return, oldest first: the `api_version` of all
    machines. Only the part of a file before its first table is parsed."""
    heads = (tomllib.loads(_text(name).partition("\n[")[0]) for name in names())
    return sorted({head["api_version"] for head in heads}, key=api_number)


def api_number(version: str) -> int:
    return int(version.removeprefix("gen"))


def parse(text: str, where: str) -> Machine:
    """Read a machine from the text of its file; `where` names the file in errors."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"{where}: {error}") from None
    return _MachineReader(raw, where).machine()


class _MachineReader(FactReader):
    def machine(self) -> Machine:
        tables = ("sources", "features", "start_partitions", "engine", "peak_tflops", *SECTIONS)
        keys = ("name", "generation", "api_version", "aliases", "description", "products")
        self.exactly(self.raw, (*keys, *tables), "")
        self.exactly(self.raw["engine"], ENGINES, "engine")
        hints = get_type_hints(Machine)
        features = self.raw["features"]
        return Machine(
            name=self.raw["name"],
            generation=self.raw["generation"],
            api_version=self.api_version(),
            aliases=tuple(self.raw["aliases"]),
            description=self.raw["description"],
            products=tuple(self.raw["products"]),
            features={n: self.fact(v, f"features.{n}") for n, v in features.items()},
            start_partitions=self.numbers("start_partitions", self.raw["start_partitions"]),
            engines={n: self.section(Engine, f"engine.{n}", t) for n, t in self.engines()},
            peak_tflops=self.numbers("peak_tflops", self.raw["peak_tflops"]),
            facts=self.facts,
            sources=self.raw["sources"],
            **{name: self.section(hints[name], name, self.raw[name]) for name in SECTIONS},
        )

    def api_version(self) -> str:
        version: str = self.raw["api_version"]
        if not re.fullmatch(r"gen\d+", version):
            message = f"{self.where}: api_version must be gen and a number: {version!r}"
            raise DefinitionError(message)
        return version

    def engines(self) -> list[tuple[str, Any]]:
        return list(self.raw["engine"].items())
