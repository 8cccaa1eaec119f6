"""Options of a run: a frozen dataclass with a default for every field, and named profiles for
numerics that are not published. The text below a field describes it, and gives the reason for its
default. Also the folder of the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from neuroncore.base.errors import UsageError, did_you_mean

Order = Literal["in-order", "scheduled", "standalone", "compiled"]
LaunchPath = Literal["framework", "standalone"]
HarnessName = Literal["neuron-profile", "neuron-explorer", "nki.benchmark"]
ASSUMPTIONS = "slices", "loop-drains", "slow-strides", "copies-in-turn"  # of `Options.assume`
PATHS: dict[LaunchPath, Order] = {"framework": "scheduled", "standalone": "standalone"}
# a flag of the older API's compiler: descriptors are written before the kernel runs
DISABLE_DGE = "--disable-dge"


@dataclass(frozen=True, kw_only=True)
class Options:
    matmul: Literal["chain", "blas"] = "chain"
    """`chain` adds products from PE row 0 to the last with fused multiply-adds: the same bits on
    every machine. `blas` uses numpy's BLAS, whose last bits depend on processor, thread count and
    tile shape."""

    fp32_matmul: Literal["chain", "four_pass"] = "chain"
    """How float32 operands are multiplied. `chain` is the method of every other format: each
    product is in one fused multiply-add. `four_pass` interprets the published rate, a quarter of
    bfloat16's, as four passes through the array. Each number is split into its upper 12 significant
    bits (high) and the lower 12 (low), so that a product of two halves is exact. The chains low x
    low, low x high, high x low and high x high (stationary x moving) are added in this order, in
    float32, before the result is stored. The split and the order are not published, so the default
    is the method of the other formats."""

    tf32_read: Literal["round", "truncate"] = "round"
    """A TF32 number has 32 bits, of which the Tensor engine multiplies the upper 19. The engine
    rounds the number to nearest even, or truncates it. Not published; the default is to nearest
    even, as in all other conversions."""

    subnormals: Literal["keep", "flush"] = "keep"
    """How nc_matmul treats operands that are subnormal in their format: it keeps them, or replaces
    them by a zero with the same sign. No flush is documented. Transposes that move bits keep them
    in any case, and so do packed formats, whose small numbers are subnormal by design."""

    mx_order: Literal["group", "chain"] = "group"
    """How the four products of a packed element join the sum over rows. `group` first adds them to
    each other, from the left, because one element of the array computes all four at a time; `chain`
    adds them to the sum one by one. Not published."""

    mx_scale: Literal["ocp_x2", "ocp"] = "ocp_x2"
    """How `quantize_mx` chooses the scale of a group. `amax` is the largest magnitude of the group,
    and `emax` the largest exponent of the format. `ocp` is 2^(floor(log2 amax) - emax), the example
    of the OCP specification. Older releases used it, and the vendor's published reference results
    still do. `ocp_x2` is twice this scale, as documented since NKI 0.5.0, so that the largest
    numbers are rounded and not saturated."""

    storage: Literal["own", "float32"] = "own"
    """How floats narrower than float32 are stored in every memory. `own` is their own format.
    `float32` rounds nothing, like the vendor's simulator with NKI_PRECISE_FP=0 ("Precise
    Floating-Point Mode" in its guide). An error that remains with `float32` is an error of the
    program, not of its precision. Results are then float32 arrays, and tensors cannot be viewed as
    another format. Packed formats keep their own format."""

    stochastic: bool = False
    """Round casts from float32 to narrower floats stochastically, on every engine and in DMA, like
    NEURON_RT_STOCHASTIC_ROUNDING_EN=1; off by default, as on the device. Casts to float32 and to
    integers, constants, and the reads of the Tensor engine and quantize_mx round to nearest even in
    any case."""

    stochastic_seed: int = 0
    """The seed of stochastic rounding, 32 bits (NEURON_RT_STOCHASTIC_ROUNDING_SEED, whose default
    is 0). Launches with the same seed have the same bits."""

    stochastic_bits: int = 32
    """The number of random bits for each rounding, 1 to 32. The device's number is not published;
    with few bits numbers round up too rarely, by a probability of at most 2^-bits."""

    rng: Literal["philox", "hardware"] = "philox"
    """The random numbers of rng, rand2 and dropout. `philox`: Philox4x32-10, numbers that do not
    depend on how many are drawn at a time. `hardware`: generators of the documented kind, XORWOW on
    v4 and in the GpSimd engine, and shift registers in the Vector engine of v2 and v3. Their
    constants, seeding and word order are not published, so these are placeholders and not the
    device's bits (see neuroncore.numerics.generator)."""

    rng_seed: int = 0
    """The initial seed (32 bits) of the generators of all lanes. nisa.set_rng_seed sets another
    seed for one engine. The initial seed of a device is not published."""

    precision: bool = False
    """Also compute in float64, and report the lines that introduce errors
    (`neuroncore.core.precision`). The results of the kernel do not change."""

    precision_bound: float | None = None
    """The relative error against float64 above which a result is reported. The default, None, is
    1e-5 for float32, and the gap between 1 and the next number for narrower floats."""

    fn_overflow: Literal["nan", "saturate"] = "nan"
    """The result of converting an infinity, or a number beyond the largest number of the format, to
    float8_e4m3fn. `nan`: NaN, as in ml_dtypes, which the vendor's simulator uses for its narrow
    formats. `saturate`: the largest number, which the OCP specification of 8-bit floats allows too.
    Not published for the device. quantize_mx saturates in any case, like the vendor's reference
    results."""

    nan_minmax: Literal["propagate", "number"] = "propagate"
    """The result of nl.maximum and nl.minimum for NaN and a number, as operators of an instruction
    and in reductions. `propagate`: NaN, as in numpy; nl.max8 sorts NaN above all numbers. `number`:
    the number; nl.max8 sorts NaN below all numbers. Not published; by default NaN is not lost."""

    simulator_operators: bool = False
    """Accept nl.divide, nl.mod and nl.fmod as operators of instructions, like the vendor's
    simulator. No engine has them and the compiler refuses them (NKI 0.3.0 and 0.4.0 release notes),
    so by default they are refused here too."""

    experimental: bool = False
    """Accept features of no released API: products with structured sparsity, `nc_matmul_sparse`,
    whose semantics are an interpretation of published documents."""

    order: Order | None = None
    """The order of instructions for the estimate. `in-order`: the order of the kernel. `scheduled`
    and `standalone`: the order of today's compiler, in a framework and for a kernel that is
    launched alone. `compiled`: the order of the older API's compiler, which also distributes copies
    among engines, computes repeated work in loops once, and writes descriptors of transfers before
    the kernel runs. None selects the order that follows from the kernel's API and from `launch`."""

    launch: LaunchPath = "framework"
    """How a kernel of today's API is launched, for the estimate. `framework`: as a part of a graph
    of torch or jax, or with instruction scheduling enabled; the compiler reorders its instructions.
    `standalone`: compiled alone, without the optimizations of the backend; every engine keeps the
    order of the source. `order` has precedence."""

    descriptors: Literal["hardware", "software"] = "hardware"
    """For the estimate: whether hardware or software writes the descriptors of DMAs of today's API
    that have no dge_mode. Profiles of NKI 0.5 and later show `software`: GpSimd writes the
    descriptors one after the other. Earlier releases have `hardware`, which is the default, because
    nearly all kernels that the estimates were fitted to are of earlier releases."""

    loads: Literal["ahead", "single", "limited", "once"] = "ahead"
    """The order and the number of loads, for the estimate. `ahead`: loads run ahead while there is
    space. `single`: a load of an operand of a matmul waits until the tile of the previous load at
    the same source line has been read for the last time; such a load is executed even if SBUF still
    has the same bytes. `limited`: every load waits in this way if tiles that DMA writes take more
    than 88 KiB of a partition. `once`: a kernel of today's API loads the same bytes only once while
    they fit into SBUF, as the older API's compiler does. Only one source reports each of the last
    three rules, and no other source has shown them yet."""

    assume: str = ""
    """Rules that the estimate also uses, separated by commas. Only one source reports each of them,
    so none is in use by default. `slices`: a tile in SBUF is divided into slices so that each
    access is inside one slice, and the space of a slice is free after the slice's last use, not
    only when the whole tile is dead. `loop-drains`: each iteration of a loop that the device runs
    ends with a wait of all engines for all DMA queues and for each other. `slow-strides`: a DMA has
    half the bandwidth if the partitions' rows in HBM begin a power of two bytes apart and are not
    adjacent. `copies-in-turn`: with the older API's compiler, a copy out of PSUM begins after all
    earlier work on its engine."""

    clock_phase: float | None = None
    """For the estimate: the phase of the Tensor engine's clock when the first product begins. The
    clock changes its rate at the ends of windows of 3,413 ns; the phase is the part of a window
    that has passed, from 0 to less than 1. On a device the phase differs from run to run, because
    the windows do not depend on the program. None selects the phase that the machine file assumes,
    which gives about the mean over all phases. trn1 has no such windows."""

    collective_rounding: Literal["chain", "ring", "mesh"] = "chain"
    """The order in which ranks are added, and where the sum is rounded to the tensor's format.
    `chain`: in the order of the group, in float32, rounded once. `ring`: the partial sum
    for a rank travels around the group to that rank. Every hop writes it to memory, and so rounds
    it. `mesh`: first the ranks of each chip, rounded once, and then the chips. Not published; it
    depends on the algorithm that the runtime selects, which depends on the size."""

    rings: int = 0
    """The seed of the order of ranks in the rings of nki.collectives.collective_permute_implicit, 0
    for the order of the group. The API does not define this order, so a kernel has to query which
    rank's data it has received."""

    turns: int = 0
    """The seed of the order in which cores that run together take turns, 0 for the order of their
    numbers. The results of a kernel without a race do not depend on it."""

    record: bool = True
    """Keep the record of the instructions, which the schedule, the checks and the reports read."""

    record_limit: int = 4_000_000
    """The largest number of instructions in a record. An instruction takes 60 to 80 bytes, and in
    records of more than 262,144 instructions, in a loop, about 10 bytes. A kernel with more
    instructions continues without a record. A finding (RECORD_LIMIT) reports this, and every
    estimate, report and saved profile states that it covers only the beginning."""

    stacks: bool = False
    """Record the call stack of each instruction, with the variables of loops, for the HTML
    page of a run (docs/view.md). It takes some microseconds per instruction; a saved record keeps
    only the line."""

    uninitialized: Literal["report", "zeros", "raise"] = "report"
    """The value of uninitialized memory: poison (NaN; 4 for integers), or 0. A read of it is
    reported in a finding; with `raise` it is an error. On a device such memory has its previous
    contents, which are nearly always finite, and which published kernels multiply by weights of 0.
    Therefore products with an identity matrix, and transposes on v2, do not spread the poison to
    other elements."""

    @property
    def zeros_as_leftovers(self) -> bool:
        """Return whether uninitialized memory reads as 0."""
        return self.uninitialized == "zeros"

    def __post_init__(self) -> None:
        """Raise UsageError for an illegal value of a field."""
        for name, legal in choices().items():
            if (value := getattr(self, name)) not in legal:
                known = " or ".join(map(repr, legal))
                raise UsageError(f"{name} is {value!r}; it must be {known}")
        if not 0 <= self.rng_seed < 1 << 32:
            raise UsageError(f"rng_seed is {self.rng_seed}; it must be from 0 to 2^32 - 1")
        bound = self.precision_bound
        if bound is not None and not bound >= 0:
            raise UsageError(f"precision_bound is {bound!r}; it must be 0 or more")
        if self.clock_phase is not None:
            phase(self.clock_phase)
        assumptions(self.assume)


def assumptions(text: Any) -> tuple[str, ...]:
    """Return the rules in `text`, a value of `Options.assume`: names of rules, separated by commas.
    Raise UsageError for anything else and for unknown rules."""
    rules = tuple(text.split(",") if text else ()) if isinstance(text, str) else (repr(text),)
    if unknown := [rule for rule in rules if rule not in ASSUMPTIONS]:
        known = ", ".join(ASSUMPTIONS)
        raise UsageError(f"assume has {unknown[0]!r}; it may have {known}, separated by commas")
    return rules


def phase(value_given: Any) -> float:
    """Return a phase of the Tensor engine's clock as a float, from 0 to less than 1: the part of a
    clock window that has passed (see `Options.clock_phase`). Raises UsageError for anything
    else."""
    try:
        value = float(value_given)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value < 1:
        raise UsageError(f"clock_phase is {value_given!r}; it must be from 0 to less than 1")
    return value


@cache
def choices() -> dict[str, tuple[Any, ...]]:
    """Return the legal values of each field that has a fixed set of values."""
    legal_values: dict[str, tuple[Any, ...]] = {}
    for name, kind in get_type_hints(Options).items():
        parts = (kind,) if get_origin(kind) is Literal else get_args(kind)
        if kind is bool:
            legal_values[name] = (False, True)
        elif literals := [part for part in parts if get_origin(part) is Literal]:
            legal_values[name] = get_args(literals[0]) + (None,) * (type(None) in parts)
    return legal_values


documented = Options()
"""The documented behavior; where nothing is documented, the defaults of the fields."""

ideal = Options(storage="float32")
"""No intermediate result is rounded more than to float32."""

vendor_sim = Options(matmul="blas", simulator_operators=True)
"""The numerics of the vendor's simulator, according to its guide ("Numerical Precision"): narrow
formats are computed in their own precision, sums have an unspecified order, and operators exist
that no engine has."""

PROFILES = {"documented": documented, "ideal": ideal, "vendor-sim": vendor_sim}


def profile(name: str) -> Options:
    """Return a profile by name. Raises UsageError, with the most similar name, if there is none."""
    try:
        return PROFILES[name]
    except KeyError:
        meant = did_you_mean(name, PROFILES) or f"profiles are {', '.join(PROFILES)}"
        raise UsageError(f"there is no numerics profile {name!r}; {meant}") from None


def cache_folder() -> Path:
    """Return the cache folder, below $XDG_CACHE_HOME or ~/.cache. It may not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "neuroncore"


def order_of(order: Order, path: LaunchPath) -> Order:
    """Return the order of instructions for a kernel that is launched on this path. PATHS has the
    orders of today's compiler: if `order` is one of them, return the order that PATHS has for the
    path. Any other order is returned unchanged."""
    return PATHS[path] if order in PATHS.values() else order
