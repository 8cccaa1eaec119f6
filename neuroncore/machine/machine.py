"""Machines as data: `isa/machines/<name>.toml`. Every number has a source and a grade."""

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
    """One number of a machine file, with its meaning, grade and source."""

    value: Any
    grade: str
    source: str


@dataclass(frozen=True)
class Limits:
    """Limits of operands. Sizes count elements; partitions count rows of SBUF and PSUM."""

    partitions: int
    stationary_free: int
    moving_free_float32: int  # like moving_free, for a float32 destination
    moving_free_bfloat16: int
    array_part: int  # the fewest rows or columns of the array that a product may use
    vector_transpose: int
    quadrant: int  # partitions in a quadrant, each of which has an index and scales
    indirect_partitions: int  # partitions that share the offsets of an indirect view
    indirect_partitions_tensor: int  # the same for the Tensor engine
    free_dims: int
    free_elements_sbuf: int
    free_elements_psum: int
    iota_dims: int
    gpsimd_core_partitions: int  # partitions of each GpSimd processor
    gpsimd_dma_elements: int
    gather_indices: int  # indices of one GpSimd processor
    dma_sources: int  # tensors that one transfer can add up
    transposed_rows: int  # rows per step if descriptors are made at run time
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
    """Times of an engine. `rate` is the number of elements per lane and cycle, by the kind of work;
    for the Tensor engine it is the number of columns per cycle. The rate `strided` is for elements
    that are each in a different sector (without it, `Fixed.sector_cycles` applies).

    An instruction occupies its engine for max(min_interval, overhead + work / rate) cycles. Its
    result is available `latency_ns` after that. The overhead is that of an access to PSUM; an
    access to SBUF adds `sbuf_access_cycles`, and fetching [P, 1] columns of scalars adds
    `column_cycles`.
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
    """The 16 DMA engines that serve one core. A packet is a row of elements, contiguous or with one
    stride. Each contiguous run in it takes at least `run_ns`. An element of HBM that is read
    repeatedly takes `repeated_read_ns` each time.

    A transfer occupies its queue for `issue_ns` if its descriptors exist. Software needs more time
    for each descriptor; hardware takes `hardware_issue_ns` if one of `hardware_generators` writes
    the descriptors of all engines. The `gpsimd` times hold if GpSimd writes the descriptors
    although the kernel does not request it; for the older API they replace all times of software.
    `software_start_ns` is used only by bench/instructions.py, to predict single DMAs.
    """

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
    software_start_ns: float  # the time until GpSimd begins to write descriptors
    hardware_issue_ns: float
    hardware_generators: int
    gpsimd_issue_ns: float
    gpsimd_descriptor_ns: float
    gpsimd_load_latency_ns: float
    gpsimd_store_latency_ns: float
    transpose_from_hbm: float  # the share of the bandwidth that a transpose gets
    transpose_from_sbuf: float
    accumulate: float  # the share that sums get
    merged_bytes: int  # of loads or stores that the older compiler merges into one; or 0
    ahead_bytes: int  # per partition, that early loads may write (`Options.loads`)


@dataclass(frozen=True)
class Fixed:
    """Costs of single events.

    A port of SBUF or PSUM transfers `sector_bytes` adjacent bytes in `sector_cycles`, even if an
    engine needs only a few of them.

    The clock of the Tensor engine changes in windows of `clock_window_ns`. It has its full rate if
    `clock_rows` rows moved in the previous window, else `cold_clock_share` of it; with windows of 0
    ns it always has its full rate. Rows that use at most half of the array count half at full rate,
    if at most `half_filled_ns` have passed since other rows; at half rate they do not count. The
    first product begins at `clock_phase` of its window; on a device the phase may be anything from
    0 to 1, because windows do not depend on the program.

    If a product has to wait for its stationary tile, its result is `weights_latency_ns` later. A
    machine file may omit a field that has a default.
    """

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

    Fields of static transfers are for descriptors that are in memory before the program runs;
    fields of direct transfers are for descriptors that are made on the device. A trigger occupies
    its engine for the trigger time. The first byte moves the start time after the start of the
    trigger. A load ends the load time later than a store. For its transfers, GpSimd writes the
    descriptors for `gpsimd_start_ns` before the trigger. Each element takes `element_ns` of its DMA
    engine, and in addition its bytes take their time at the engine's rate. An engine that waits for
    a transfer continues `done_ns` after the last byte.

    An instruction that only waits takes `order_ns`. A product begins `weights_ns` after its
    weights, unless it has to wait; the next instruction begins `product_ns` after the product.
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
    range: Sequence[float]  # factors of the estimate: 80 % of measurements are between them


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
        """Return the partitions at which an access to this number of partitions may start."""
        fits = (int(most) for most in self.start_partitions if partitions <= int(most))
        return tuple(self.start_partitions[str(min(fits))])

    def shared_by(self, cores: int) -> Machine:
        """Return the machine as one of `cores` that run at the same time. Cores fill one HBM stack
        before the next, and share the bandwidth of their stack."""
        sharing = max(1, min(cores, self.hbm.cores_per_stack))
        share = self.hbm.stack_gigabytes_per_s / sharing
        if sharing == 1:
            return self
        return replace(self, hbm=replace(self.hbm, stack_gigabytes_per_s=share))

    @cached_property
    def descriptors_ahead(self) -> Machine:
        """Return the machine for kernels whose DMA descriptors are written before the kernel runs,
        if hardware could write them."""
        return replace(self, dma=replace(self.dma, hardware_issue_ns=self.dma.issue_ns))

    @cached_property
    def descriptors_by_software(self) -> Machine:
        """Return the machine for releases in which GpSimd writes the descriptors of DMAs without
        dge_mode."""
        fact = Fact(True, "documented", "")
        return replace(self, features={**self.features, SOFTWARE_DGE: fact})

    @cached_property
    def descriptors_by_gpsimd(self) -> Machine:
        """Return the same machine, with the times of the older API's compiler."""
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
        """Return all figures on which the cost of a call on an engine may depend. `moves` is true
        for instructions that DMA may run. Figures of other engines are left out."""
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
        """The number of processing elements of the Tensor engine: rows x columns."""
        return self.limits.partitions * self.limits.stationary_free


# The fields of Fixed that only the schedule reads; no cost of a call depends on them.
OF_SCHEDULES = (
    *("semaphore_ns", "activation_table_ns", "clock_window_ns", "clock_rows", "clock_phase"),
    *("half_filled_ns", "cold_clock_share", "weights_hidden"),
)
SOFTWARE_DGE = "software_dge"  # a feature of some releases of the compiler, of no machine
SECTIONS = ("limits", "sbuf", "psum", "hbm", "dma", "fixed", "replay")
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


@cache
def isa() -> Path:
    """Return the folder isa/. Its data files are read without importing the instructions."""
    spec = find_spec("neuroncore.isa")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _folder() -> Path:
    return isa() / "machines"


def names() -> list[str]:
    """Return the names of all machines, sorted."""
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
    """Return the alternative names of machines, with the name of each machine.

    Raises DefinitionError if one alternative name means two machines.
    """
    found: dict[str, str] = {}
    for name in names():
        for alias in load(name).aliases:
            other = alias if alias in names() else found.get(alias)
            if other is not None:
                where = f"isa/machines/{name}.toml"
                raise DefinitionError(f"{where}: aliases has {alias!r}, which means {other}")
            found[alias] = name
    return found


def api_versions() -> list[str]:
    """Return the values that get_nc_version() can return, oldest first: `api_version` of each
    machine. Only the part of a file before its first table is parsed."""
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
    """Reads the tables of a file. Every key must be known, and every number must have a grade."""

    def __init__(self, raw: dict[str, Any], where: str) -> None:
        self.raw, self.where = raw, where
        self.facts: dict[str, Fact] = {}

    @classmethod
    def of(cls, file: str) -> Self:
        """Return the reader of a file in isa/."""
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
            message = f"{self.where}: api_version must be gen and a number: {version!r}"
            raise DefinitionError(message)
        return version

    def engines(self) -> list[tuple[str, Any]]:
        return list(self.raw["engine"].items())
