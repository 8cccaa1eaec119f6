"""A machine is data: `isa/machines/<name>.toml`, every number with its source and its grade."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from neuroncore.base.errors import DefinitionError, UsageError, did_you_mean

GRADES = ("documented", "measured", "assumed")


@dataclass(frozen=True)
class Fact:
    """One number of a machine file, with its meaning, its grade and its source."""

    value: Any
    grade: str
    source: str


@dataclass(frozen=True)
class Limits:
    """Limits of operands. Sizes count elements; partitions count rows of SBUF and PSUM."""

    partitions: int
    stationary_free: int
    moving_free_float32: int  # by the format of the destination
    moving_free_bfloat16: int
    array_part: int  # the fewest rows or columns of the array that a product may take of it
    vector_transpose: int
    quadrant: int  # partitions, of which each has its index and its scales
    indirect_partitions: int  # that share the offsets of an indirect view
    indirect_partitions_tensor: int  # the same of the Tensor engine
    free_dims: int
    free_elements_sbuf: int
    free_elements_psum: int
    iota_dims: int
    gpsimd_core_partitions: int  # of each of its processors
    gpsimd_dma_elements: int
    gather_indices: int  # of one GpSimd core
    dma_sources: int  # that one transfer adds up
    transposed_rows: int  # at a time, where descriptors are made at run time
    search_free: int  # of the instructions that look for eight values
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
    """`rate` gives elements per lane and cycle (PE: columns per cycle) by kind of work; with
    `strided`, for elements that are each in another sector (otherwise `Fixed.sector_cycles`).

    An instruction keeps its engine for max(min_interval, overhead + work / rate) cycles; its
    result is there `latency_ns` after that. Its overhead is that of setting up an access to PSUM;
    to begin an access to SBUF takes `sbuf_access_cycles` more, and fetching [P, 1] columns of
    scalars first `column_cycles`.
    """

    clock_ghz: float
    min_interval_cycles: int
    overhead_cycles: int
    sbuf_access_cycles: int
    column_cycles: int
    latency_ns: float
    rate: Mapping[str, float]


@dataclass(frozen=True)
class Dma:
    """The 16 engines that serve one core. A packet is a row of elements, contiguous or apart by one
    step; each contiguous run in it takes `run_ns` at least, and an element of HBM that is read
    again and again takes `repeated_read_ns`.

    A queue is kept for `issue_ns` by a transfer whose descriptors are there, by software for each
    descriptor, and for `hardware_issue_ns` where one of `hardware_generators` writes those of all
    engines. For the software of the older API's compiler the `gpsimd` times take their place.
    `software_start_ns` is only what bench/instructions.py predicts for single DMAs.
    """

    engines: int
    partitions_per_engine: int
    efficient_bytes: int  # of neighbors, below which the documentation calls a move inefficient
    gigabytes_per_s_per_engine: float
    packet_ns: float
    run_ns: float
    repeated_read_ns: float
    transfer_ns: float
    issue_ns: float
    load_latency_ns: float
    store_latency_ns: float
    software_descriptor_ns: float
    software_start_ns: float  # what GpSimd takes to begin writing descriptors
    hardware_issue_ns: float
    hardware_generators: int
    gpsimd_issue_ns: float
    gpsimd_descriptor_ns: float
    gpsimd_load_latency_ns: float
    gpsimd_store_latency_ns: float
    transpose_from_hbm: float  # the share of the bandwidth that a transpose gets
    transpose_from_sbuf: float
    accumulate: float  # the share that sums get
    merged_bytes: int  # of loads or stores that the older compiler makes one; 0 for none
    ahead_bytes: int  # of a partition that loads write while they run ahead (`Options.loads`)


@dataclass(frozen=True)
class Fixed:
    """Costs of single events.

    A port of SBUF or PSUM gives an engine `sector_bytes` side by side in `sector_cycles`, however
    few of them it wants. The Tensor engine has its full clock in a window of `clock_window_ns` if
    `clock_rows` moved in the one before, and else `cold_clock_share` of it; always the full clock
    if windows have 0 ns. Rows that use at most half of its array count half at full clock, if no
    more than `half_filled_ns` have passed since other rows, and do not count at half clock. The
    first product begins at `clock_phase` of its window. On a device it may be anything from 0 to 1,
    because windows do not depend on the program. Results are there `weights_latency_ns` later if a
    product has to wait for the stationary tile. A machine file may omit a field with a default.
    """

    semaphore_ns: float
    activation_table_ns: float
    accumulator_read_cycles: int
    gpsimd_start_cycles: int
    gpsimd_gather_elements: int  # per partition, for which a gather starts once
    dynamic_address_cycles: int
    register_load_ns: float
    sector_bytes: int
    sector_cycles: int
    float32_passes: int
    weights_columns_per_cycle: float
    float32_weights_cycles: int  # for one that 16 bits take
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
    """Times that only the estimate of a compiled program needs (`capture/estimate.py`).

    Descriptors of a static transfer are in memory before the program runs, those of a direct one
    are made on the device. A trigger keeps its engine for `trigger_ns`; the first byte moves
    `start_ns` after the trigger begins, and a load ends `load_ns` later than a store. GpSimd writes
    the descriptors of its transfers in `gpsimd_start_ns` before the trigger. An element takes
    `element_ns` of its DMA engine, and its bytes take their time at the engine's rate. An engine
    that waits for a transfer begins `done_ns` after the last byte.

    An instruction that only waits takes `order_ns`. A product begins `weights_ns` after its weights
    unless it has to wait, and the next instruction `product_ns` later.
    """

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
    range: Sequence[float]  # factors of the estimate, between which 80 % of measurements are


@dataclass(frozen=True)
class Machine:
    """One NeuronCore. `has` and the numbers are all that other code may ask about a generation."""

    name: str
    generation: str
    api_version: str  # what get_nc_version() says: gen and a number
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
    sources: Mapping[str, str]  # by the keys that facts name them with

    def has(self, feature: str) -> bool:
        return feature in self.features

    def starts(self, partitions: int) -> tuple[int, ...]:
        """Return the partitions at which an access to this number of partitions may start."""
        fits = (int(most) for most in self.start_partitions if partitions <= int(most))
        return tuple(self.start_partitions[str(min(fits))])

    def beside(self, cores: int) -> Machine:
        """Return the machine for one of this many cores that run at the same time. Cores fill one
        HBM stack before the next, and share the bandwidth of their stack."""
        sharing = max(1, min(cores, self.hbm.cores_per_stack))
        share = self.hbm.stack_gigabytes_per_s / sharing
        if sharing == 1:
            return self
        return replace(self, hbm=replace(self.hbm, stack_gigabytes_per_s=share))

    @cached_property
    def descriptors_ahead(self) -> Machine:
        """Return the machine for kernels whose DMA descriptors, if hardware could write them, are
        written before the kernel runs."""
        return replace(self, dma=replace(self.dma, hardware_issue_ns=self.dma.issue_ns))

    @cached_property
    def descriptors_by_software(self) -> Machine:
        """The machine where GpSimd writes the descriptors of DMAs that name no dge_mode."""
        fact = Fact(True, "documented", "")
        return replace(self, features={**self.features, SOFTWARE_DGE: fact})

    @cached_property
    def descriptors_by_gpsimd(self) -> Machine:
        """The same with the software of the older API's compiler."""
        it = self.dma
        dma = replace(
            it,
            issue_ns=it.gpsimd_issue_ns,
            software_descriptor_ns=it.gpsimd_descriptor_ns,
            load_latency_ns=it.gpsimd_load_latency_ns,
            store_latency_ns=it.gpsimd_store_latency_ns,
        )
        return replace(self.descriptors_by_software, dma=dma)

    def figures_for(self, engine: str, moves: bool) -> tuple[Any, ...]:
        """Return all that the cost of a call on an engine may depend on; `moves` is true for
        instructions that DMA may run. Other engines may have other figures."""
        found = self._figures.get((engine, moves))
        if found is None:
            moving = (self.dma, self.hbm) if moves else ()
            unit = self.engines.get(engine)
            figures = self.name, engine, unit, self.features, self.limits, *moving
            found = self._figures[engine, moves] = *figures, *self._fixed_costs
        return found

    @cached_property
    def _figures(self) -> dict[tuple[str, bool], tuple[Any, ...]]:
        return {}

    @cached_property
    def _fixed_costs(self) -> tuple[Any, ...]:
        return tuple(value for name, value in vars(self.fixed).items() if name not in OF_SCHEDULES)

    @property
    def pe_cells(self) -> int:
        """Processing elements of the Tensor engine: rows x columns."""
        return self.limits.partitions * self.limits.stationary_free


# What only the schedule reads of Fixed, and no cost of a call.
OF_SCHEDULES = (
    *("semaphore_ns", "activation_table_ns", "clock_window_ns", "clock_rows", "clock_phase"),
    *("half_filled_ns", "cold_clock_share", "weights_hidden"),
)
SOFTWARE_DGE = "software_dge"  # no machine has it, but some releases of its compiler
SECTIONS = ("limits", "sbuf", "psum", "hbm", "dma", "fixed", "replay")
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


@cache
def isa() -> Path:
    """The folder of isa/. Its files are read without loading the instructions."""
    spec = find_spec("neuroncore.isa")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _folder() -> Path:
    return isa() / "machines"


def names() -> list[str]:
    """The machines there are, by name."""
    found = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def _text(name: str) -> str:
    return (_folder() / f"{name}.toml").read_text("utf-8")


@cache
def load(name: str) -> Machine:
    """Return the machine with this name or alias. Raises UsageError if there is none, and
    DefinitionError if its file is wrong."""
    if name not in names():
        return load(_meant(name))
    where = f"isa/machines/{name}.toml"
    found = parse(_text(name), where)
    if found.name != name:
        raise DefinitionError(f"{where}: name is {found.name!r}; it must be that of the file")
    return found


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
    """Return the other names of machines, and the machine of each.

    Raises DefinitionError if a name means two machines.
    """
    found: dict[str, str] = {}
    for name in names():
        for alias in load(name).aliases:
            other = alias if alias in names() else found.get(alias)
            if other is not None:
                raise DefinitionError(
                    f"isa/machines/{name}.toml: aliases has {alias!r}, which means {other}"
                )
            found[alias] = name
    return found


def api_versions() -> list[str]:
    """The versions that get_nc_version() may return, oldest first: from the first lines of each
    file."""
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


T = TypeVar("T")


class FactReader:
    """Takes a file apart; every key must be known and every number must say how it is known."""

    def __init__(self, raw: dict[str, Any], where: str) -> None:
        self.raw, self.where = raw, where
        self.facts: dict[str, Fact] = {}

    @classmethod
    def of(cls, file: str) -> Self:
        """The path of a file in isa/."""
        text = (isa() / file).read_text("utf-8")
        return cls(tomllib.loads(text), f"isa/{file}")

    def section(self, cls: type[T], path: str, table: dict[str, Any]) -> T:
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        required = [f.name for f in fields if f.default is dataclasses.MISSING or f.name in table]
        self.exactly(table, required, path)
        values = {name: self.value(f"{path}.{name}", entry) for name, entry in table.items()}
        return cls(**values)

    def value(self, path: str, entry: Any) -> Any:
        if isinstance(entry, dict) and "value" not in entry:
            return self.numbers(path, entry)
        return self.fact(entry, path).value

    def numbers(self, path: str, table: dict[str, Any]) -> dict[str, Any]:
        return {name: self.fact(entry, f"{path}.{name}").value for name, entry in table.items()}

    def fact(self, entry: Any, path: str) -> Fact:
        if not isinstance(entry, dict) or set(entry) != {"value", "grade", "source"}:
            raise DefinitionError(f"{self.where}: {path} must give value, grade and source")
        if entry["grade"] not in GRADES:
            raise DefinitionError(f"{self.where}: {path}: grade must be one of {', '.join(GRADES)}")
        for key in entry["source"].split(","):
            self.known({key.strip(): 0}, self.raw["sources"], "sources")
        self.facts[path] = Fact(**entry)
        return self.facts[path]

    def exactly(self, table: Mapping[str, Any], names: Sequence[str], path: str) -> None:
        """Check that a table has all of these keys and no others."""
        self.known(table, names, path)
        missing = [name for name in names if name not in table]
        if missing:
            raise DefinitionError(f"{self.where}: [{path}] lacks {', '.join(missing)}")

    def known(self, table: Mapping[str, Any], names: Any, path: str) -> None:
        for key in table:
            if key not in names:
                hint = did_you_mean(key, names)
                message = f"{self.where}: [{path}] has the unknown key {key!r}"
                raise DefinitionError(f"{message}; {hint}" if hint else message)


class _MachineReader(FactReader):
    def machine(self) -> Machine:
        tables = ("sources", "features", "start_partitions", "engine", "peak_tflops", *SECTIONS)
        own = ("name", "generation", "api_version", "aliases", "description", "products")
        self.exactly(self.raw, (*own, *tables), "")
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
            raise DefinitionError(
                f"{self.where}: api_version must be gen and a number: {version!r}"
            )
        return version

    def engines(self) -> list[tuple[str, Any]]:
        return list(self.raw["engine"].items())
