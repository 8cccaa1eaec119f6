"""The options of a run: a frozen dataclass with a default for every field, and named profiles for
numerics that are not published.

The text below a field describes the field, and gives the reason for its default. This module also
defines the folder of the cache."""

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
ASSUMPTIONS = "slices", "loop-drains", "slow-strides", "copies-in-turn"  # rules in `Options.assume`
PATHS: dict[LaunchPath, Order] = {"framework": "scheduled", "standalone": "standalone"}
# a flag of the older API's compiler, with which descriptors are written before the kernel runs
DISABLE_DGE = "--disable-dge"


@dataclass(frozen=True, kw_only=True)
class Options:
    matmul: Literal["chain", "blas"] = "chain"
    """How nc_matmul adds products. `chain` adds them with fused multiply-adds, from row 0 of the
    array of processing elements (PE) to the last row; the bits are the same on every computer.
    `blas` uses numpy's BLAS. The last bits of its results depend on the processor, the number of
    threads, and the shape of the tile."""

    fp32_matmul: Literal["chain", "four_pass"] = "chain"
    """How float32 operands are multiplied. `chain` is the method for every other format: each
    product is one fused multiply-add. `four_pass` assumes that float32 needs four passes through
    the array, because its published rate is a quarter of the rate of bfloat16. Each number is split
    into its upper 12 significant bits (high) and its lower 12 (low), so that a product of two
    halves is exact. The sums of low x low, low x high, high x low and high x high (stationary x
    moving) are added in this order, in float32, before the result is stored. The split and the
    order are not published, so the default is the method of the other formats."""

    tf32_read: Literal["round", "truncate"] = "round"
    """A TF32 number has 32 bits, but the Tensor engine multiplies only the upper 19 bits. This
    option decides whether the engine rounds the number to nearest even, or truncates it. The
    device's method is not published. The default is to nearest even, as in all other
    conversions."""

    subnormals: Literal["keep", "flush"] = "keep"
    """How nc_matmul treats operands that are subnormal in their format. `keep` uses them unchanged.
    `flush` replaces them by a zero with the same sign. `keep` is the default because no document
    mentions a flush. Transposes that move bits always keep subnormals. Packed formats keep them
    too, because their small numbers are subnormal by design."""

    mx_order: Literal["group", "chain"] = "group"
    """How the four products of a packed element are added to the sum over rows. `group` first adds
    the four products to each other, from the left, because one element of the array computes all
    four at a time. `chain` adds them to the sum one by one. The device's method is not
    published."""

    mx_scale: Literal["ocp_x2", "ocp"] = "ocp_x2"
    """How `quantize_mx` chooses the scale of a group. `amax` is the largest magnitude in the group,
    and `emax` the largest exponent of the format. `ocp` is 2^(floor(log2 amax) - emax), the example
    in the OCP specification. Older releases used this scale, and AWS's published reference results
    still use it. `ocp_x2` is twice this scale, as documented since NKI 0.5.0, so that the largest
    numbers are rounded and not saturated."""

    storage: Literal["own", "float32"] = "own"
    """How every memory stores floats that are narrower than float32. `own` stores them in their own
    format. `float32` stores them in float32 and so does not round them, like AWS's simulator with
    NKI_PRECISE_FP=0 ("Precise Floating-Point Mode" in its guide). An error that remains with
    `float32` comes from the program, not from the rounding of narrow formats. With `float32`,
    results are float32 arrays, and tensors can't be viewed as another format. Packed formats keep
    their own format."""

    stochastic: bool = False
    """Round stochastically in casts from float32 to narrower floats, on every engine and in DMA,
    like NEURON_RT_STOCHASTIC_ROUNDING_EN=1. It is off by default, as on the device. These are
    always rounded to nearest even: casts to float32, casts to integers, constants, and the numbers
    that the Tensor engine and quantize_mx read."""

    stochastic_seed: int = 0
    """The seed of stochastic rounding, 32 bits (NEURON_RT_STOCHASTIC_ROUNDING_SEED, whose default
    is 0). Launches with the same seed have the same bits."""

    stochastic_bits: int = 32
    """The number of random bits for each rounding, from 1 to 32. The device's number is not
    published. With few bits, numbers are rounded up too rarely: the probability is too small by at
    most 2^-bits."""

    rng: Literal["philox", "hardware"] = "philox"
    """The generators of random numbers for rng, rand2 and dropout. `philox` is Philox4x32-10, whose
    numbers do not depend on how many are drawn at a time. `hardware` has generators of the
    documented kinds: XORWOW on v4 and in the GpSimd engine, and shift registers in the Vector
    engine of v2 and v3. Their constants, their seeds and the order of their words are not
    published. So the numbers differ from the device's numbers (see
    neuroncore.numerics.generator)."""

    rng_seed: int = 0
    """The initial seed (32 bits) of the random number generators of all lanes, in each launch.
    nisa.set_rng_seed sets another seed for one engine. The initial seed of a device is not
    published."""

    precision: bool = False
    """Also compute in float64, and report the lines that introduce errors
    (`neuroncore.core.precision`). The results of the kernel do not change."""

    precision_bound: float | None = None
    """The relative error against float64 above which a result is reported. The default, None, is
    1e-5 for float32, and the gap between 1 and the next number for narrower floats."""

    fn_overflow: Literal["nan", "saturate"] = "nan"
    """The result of converting an infinity, or a number beyond the largest number of the format, to
    float8_e4m3fn. `nan`: NaN, as in ml_dtypes, which AWS's simulator uses for narrow formats.
    `saturate`: the largest number of the format; the OCP specification of 8-bit floats allows this
    too. The device's result is not published. quantize_mx always saturates, like AWS's reference
    results."""

    nan_minmax: Literal["propagate", "number"] = "propagate"
    """The result of nl.maximum and nl.minimum for NaN and a number, as operators of an instruction
    and in reductions. `propagate`: NaN, as in numpy; nl.max8 sorts NaN above all numbers. `number`:
    the number; nl.max8 sorts NaN below all numbers. The device's result is not published. The
    default does not hide NaN."""

    simulator_operators: bool = False
    """Accept nl.divide, nl.mod and nl.fmod as operators of instructions, like AWS's simulator. No
    engine has these operators, and the compiler refuses them (NKI 0.3.0 and 0.4.0 release notes).
    So neuroncore refuses them by default."""

    experimental: bool = False
    """Accept features that no released API has. At present, these are products with structured
    sparsity (`nc_matmul_sparse`), whose semantics are an interpretation of published documents."""

    order: Order | None = None
    """The order of instructions for the estimate. `in-order`: the order of the kernel. `scheduled`:
    the order of today's compiler in a framework. `standalone`: the order of today's compiler for a
    kernel that is launched alone. `compiled`: the order of the older API's compiler, which also
    distributes copies among engines, computes repeated work in loops once, and writes descriptors
    of transfers before the kernel runs. None selects the order that follows from the kernel's API
    and from `launch`."""

    launch: LaunchPath = "framework"
    """How a kernel of today's API is launched, for the estimate. `framework`: as a part of a graph
    of torch or jax, or with instruction scheduling enabled; the compiler reorders the kernel's
    instructions. `standalone`: compiled alone, without the optimizations of the backend; every
    engine keeps the order of the source. The option `order` has precedence."""

    descriptors: Literal["hardware", "software"] = "hardware"
    """For the estimate: whether hardware or software writes the descriptors of DMAs, for DMAs of
    today's API that have no dge_mode. Profiles of NKI 0.5 and later show `software`: GpSimd writes
    the descriptors one after the other. Earlier releases have `hardware`. This is the default,
    because the estimates were fitted to measurements of kernels, nearly all from earlier
    releases."""

    loads: Literal["ahead", "single", "limited", "once"] = "ahead"
    """The order and the number of loads, for the estimate. `ahead`: loads run ahead of the
    instructions that need them while SBUF has space. `single`: a load of an operand of a matmul
    waits until the tile of the previous load at the same source line has been read for the last
    time; such a load is executed even if SBUF still has the same bytes. `limited`: every load waits
    in this way if the tiles that DMA writes take more than 88 KiB of a partition. `once`: a kernel
    of today's API loads the same bytes only once while they fit into SBUF; the older API's compiler
    does the same. Each of the last three rules is reported by only one source, and no other source
    has confirmed it yet."""

    assume: str = ""
    """Further rules for the estimate, separated by commas. Each rule is reported by only one
    source, so none is in use by default. `slices`: a tile in SBUF is divided into slices so that
    each access is inside one slice. The space of a slice is free after the slice's last use, not
    only when the whole tile is dead. `loop-drains`: at the end of each iteration of a loop that the
    device runs, all engines wait for all DMA queues and for each other. `slow-strides`: a DMA has
    half the bandwidth if the rows of the partitions in HBM begin a power of two bytes apart and are
    not adjacent. `copies-in-turn`: with the older API's compiler, a copy out of PSUM begins after
    all earlier work on its engine."""

    clock_phase: float | None = None
    """For the estimate: the phase of the Tensor engine's clock when the first product begins. The
    clock changes its rate at the ends of windows of 3,413 ns. The phase is the part of a window
    that has passed, from 0 to less than 1. On a device, the phase differs from run to run, because
    the windows do not depend on the program. None selects the phase that the machine file assumes,
    with which the estimate is about the mean over all phases. trn1 has no such windows."""

    collective_rounding: Literal["chain", "ring", "mesh"] = "chain"
    """The order in which collectives add the tensors of ranks, and where they round the sum to the
    tensor's format. `chain`: in the order of the group, in float32, rounded once. `ring`: the
    partial sum for a rank travels around the group to this rank. Every hop writes the sum to
    memory, and so rounds it. `mesh`: the tensors of the ranks of each chip are added first, and
    each of these sums is rounded once. Then the sums of the chips are added, and the result is
    rounded. The device's order is not published. This order depends on the algorithm that the
    runtime selects, and so on the size of the tensor."""

    rings: int = 0
    """The seed of the order of ranks in the rings of nki.collectives.collective_permute_implicit.
    With 0, this is the order of the group. The API does not define the order, so a kernel has to
    ask which rank's data it has received."""

    turns: int = 0
    """The seed of the order in which cores that run together take turns. With 0, this is the order
    of their numbers. The results of a kernel without races do not depend on the seed."""

    record: bool = True
    """Keep a record of the instructions. The schedule, the checks and the reports need this
    record."""

    record_limit: int = 4_000_000
    """The largest number of instructions in a record. An instruction takes 60 to 80 bytes. In a
    record of more than 262,144 instructions, an instruction of a loop takes about 10 bytes. If a
    kernel has more instructions than the limit, it continues without being recorded. A finding
    (RECORD_LIMIT) reports this, and every estimate, report and saved profile states that it covers
    only the beginning."""

    stacks: bool = False
    """Record the call stack of each instruction, with the variables of loops, for the HTML page of
    a run (docs/view.md). This takes some microseconds per instruction. A saved record has only the
    line of each instruction, not the call stack."""

    uninitialized: Literal["report", "zeros", "raise"] = "report"
    """The value of uninitialized memory, and the reaction to an instruction that reads it. With
    `report` and `raise`, the value is poison: NaN, or 4 for integers. With `zeros`, it is 0. A read
    is reported as a finding; with `raise`, it is an error. On a device, uninitialized memory has
    its previous contents. These numbers are nearly always finite, and published kernels multiply
    them by weights of 0. So products with an identity matrix, and transposes on v2, do not spread
    the poison to other elements."""

    @property
    def undefined_as_zeros(self) -> bool:
        """True if uninitialized memory reads as 0."""
        return self.uninitialized == "zeros"

    def __post_init__(self) -> None:
        """Raise UsageError if a field has an illegal value."""
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
    """Return the rules in `text`, a value of `Options.assume`: names separated by commas. Raise
    UsageError for an unknown rule, and for a value that is not a string."""
    rules = tuple(text.split(",") if text else ()) if isinstance(text, str) else (repr(text),)
    if unknown := [rule for rule in rules if rule not in ASSUMPTIONS]:
        known = ", ".join(ASSUMPTIONS)
        raise UsageError(
            f"assume contains an unknown rule, {unknown[0]!r}; known rules are {known} (separated "
            "by commas)"
        )
    return rules


def phase(value_given: Any) -> float:
    """Return a phase of the Tensor engine's clock (`Options.clock_phase`) as a float. Raise
    UsageError unless it is a number from 0 to less than 1."""
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
"""The documented behavior. Where the behavior is not documented, the fields have their defaults."""

ideal = Options(storage="float32")
"""Intermediate results are rounded only to float32, never to a narrower format."""

vendor_sim = Options(matmul="blas", simulator_operators=True)
"""The numerics of AWS's simulator, according to its guide ("Numerical Precision"): narrow formats
are computed in their own precision, the order of sums is not specified, and there are operators
that no engine has."""

PROFILES = {"documented": documented, "ideal": ideal, "vendor-sim": vendor_sim}


def profile(name: str) -> Options:
    """Return the profile with this name. Raise UsageError, with the most similar name, if there is
    none."""
    try:
        return PROFILES[name]
    except KeyError:
        meant = did_you_mean(name, PROFILES) or f"profiles are {', '.join(PROFILES)}"
        raise UsageError(f"there is no numerics profile {name!r}; {meant}") from None


def cache_folder() -> Path:
    """Return the folder of neuroncore's cache, below $XDG_CACHE_HOME or ~/.cache. It may not exist
    yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "neuroncore"


def order_of(order: Order, path: LaunchPath) -> Order:
    """Return the order of instructions for a kernel that is launched in the way `path`.

    If `order` is an order of today's compiler (a value of PATHS), return the order in PATHS for
    this way. Return any other order unchanged."""
    return PATHS[path] if order in PATHS.values() else order
