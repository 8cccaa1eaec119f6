"""How to run: one frozen value, each field with its default and its reason, and the named profiles
of what is not published about the numbers. Where what can be made again is kept.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from neuroncore.base.errors import UsageError, did_you_mean
from neuroncore.base.structs import dataclass

Order = Literal["in-order", "scheduled", "compiled"]
DISABLE_DGE = "--disable-dge"  # of the older API: its compiler writes descriptors ahead


@dataclass(frozen=True, kw_only=True)
class Options:
    matmul: Literal["chain", "blas"] = "chain"
    """`chain` adds products from PE row 0 to the last with fused multiply-adds: the same bits on
    every machine. `blas` asks numpy's BLAS instead, whose last bits depend on processor, thread
    count and tile shape."""

    fp32_matmul: Literal["chain", "four_pass"] = "chain"
    """How float32 operands are multiplied. `chain` is that of every format, each product within
    one fused multiply-add. `four_pass` takes the published rate, a quarter of bfloat16's, for
    passes through the array: numbers are split into their upper 12 significant bits and the 12
    below, whose products are exact, and low x low, low x high, high x low, high x high (stationary
    x moving) are chains that are added one after the other, the small ones first. Split and order
    are not published, so the default is what holds for the other formats."""

    tf32_read: Literal["round", "truncate"] = "round"
    """What the Tensor engine takes of a TF32 number, of whose 32 bits it multiplies the upper 19:
    the nearest, ties to even, or without the rest. Not published; to nearest even as all other
    conversions are."""

    subnormals: Literal["keep", "flush"] = "keep"
    """What nc_matmul multiplies where an operand is subnormal in its format: the number, or zero of
    its sign. No flush is documented. Transposes that move bits keep them either way, and so do
    packed formats, whose small numbers are subnormal by design."""

    mx_order: Literal["group", "chain"] = "group"
    """How the four products of a packed element join the sum over rows: `group` adds them to each
    other first, from the left, since one element of the array makes all four at a time; `chain`
    adds them to the sum one by one. Not published."""

    mx_scale: Literal["ocp_x2", "ocp"] = "ocp_x2"
    """How `quantize_mx` chooses the scale of a group. `ocp_x2` is 2^(floor(log2 amax) - emax + 1),
    as documented since NKI 0.5.0: twice the example of the OCP specification, so that the largest
    numbers are rounded and not cut off. `ocp` is that example, 2^(floor(log2 amax) - emax): older
    releases had it, and the vendor's published reference results still have."""

    storage: Literal["own", "float32"] = "own"
    """What floats narrower than float32 are held as, in every memory. `own` is the format itself.
    `float32` rounds nothing, as the vendor's simulator with NKI_PRECISE_FP=0 ("Precise
    Floating-Point Mode" in its guide): it tells an error of the program from one of precision.
    Results then are float32 arrays, and tensors can't be viewed as another format. Packed formats
    keep their own."""

    stochastic: bool = False
    """Round casts from float32 to narrower floats stochastically, on every engine and in DMA, as
    NEURON_RT_STOCHASTIC_ROUNDING_EN=1 asks for; off by default, as there. Casts to float32 and to
    integers, constants, and what the Tensor engine and quantize_mx read stay to nearest even."""

    stochastic_seed: int = 0
    """The seed of stochastic rounding, 32 bits (NEURON_RT_STOCHASTIC_ROUNDING_SEED, whose default
    is 0). A launch that is repeated with the same seed repeats its bits."""

    stochastic_bits: int = 32
    """How many random bits decide, 1 to 32. The device's number is not published; few bits round
    up less often than they should, by at most 2^-bits of a step."""

    rng: Literal["philox", "hardware"] = "philox"
    """The random numbers of rng, rand2 and dropout. `philox`: Philox4x32-10, numbers that do not
    depend on how many are drawn at a time. `hardware`: generators of the kind that is documented,
    XORWOW on v4 and in the GpSimd engine, shift registers in the Vector engine of v2 and v3; but
    their constants, seeding and the order of a state's words are not published, so these are
    placeholders and not the device's bits (see neuroncore.numerics.generator)."""

    rng_seed: int = 0
    """The seed, of 32 bits, that the generators of all lanes start from, as nisa.set_rng_seed sets
    it for one engine. What a device starts from is not published."""

    precision: bool = False
    """Compute in float64 beside the kernel, and tell which lines its errors come from
    (`neuroncore.precision`). What the kernel computes is the same."""

    precision_bound: float | None = None
    """The relative error of a result against float64 that is worth being told of; None for 1e-5 of
    float32, and of narrower floats the gap between 1 and the next number."""

    fn_overflow: Literal["nan", "saturate"] = "nan"
    """What becomes of what is too large for float8_e4m3fn, infinities included, where results are
    rounded to it: NaN, as ml_dtypes casts, which the vendor's simulator takes its narrow formats
    from; or the largest number, as the OCP specification of 8-bit floats allows too. Not published
    for the device. quantize_mx saturates either way, as the vendor's reference results do."""

    nan_minmax: Literal["propagate", "number"] = "propagate"
    """What nl.maximum and nl.minimum make of NaN and a number, as operators of an instruction and
    in its folds: NaN, as numpy, or the number; then nl.max8 puts NaN below all numbers, else above.
    Not published; by default a NaN is not lost."""

    simulator_operators: bool = False
    """Take nl.divide, nl.mod and nl.fmod as operators of instructions, as the vendor's simulator
    does. No engine has them and the compiler refuses them (NKI 0.3.0 and 0.4.0 release notes), so
    that they are refused here too."""

    experimental: bool = False
    """Take what is in no released API: products with structured sparsity, `nc_matmul_sparse`, whose
    semantics here are our reading of what is published."""

    order: Order | None = None
    """What a compiler makes of the order that a kernel issues instructions in, for the estimate of
    its time: nothing (`in-order`), another order (`scheduled`, for kernels of today's API) or more
    (`compiled`, for those of the older one, whose compiler shares copies out among engines, does
    once what a loop repeats and writes descriptors of transfers before the kernel runs, too). None
    is what the kernel's API has."""

    collective_rounding: Literal["chain", "ring", "mesh"] = "chain"
    """In which order ranks are added, and where the sum is rounded to the tensor's format. `chain`:
    in the order of the group, in float32, rounded once. `ring`: each rank's piece goes round the
    group to it, and is rounded at every hop, which writes it to memory. `mesh`: the ranks of each
    chip, rounded once, and then the chips. Not published; it depends on the algorithm that the
    runtime picks, and so on the size."""

    rings: int = 0
    """The seed of the order of ranks in the rings of nki.collectives.collective_permute_implicit,
    0 for that of the group. The API leaves it open, and a kernel has to ask whose data it has."""

    turns: int = 0
    """The seed of the order in which cores that run together take turns, 0 for that of their
    numbers. No result of a kernel without a race depends on it."""

    record: bool = True
    """Keep the Program that the schedule, the checks and the reports read."""

    record_limit: int = 4_000_000
    """Instructions after which the record ends, at about 200 bytes each less than 1 GB. The kernel
    runs on. A finding (RECORD_LIMIT) says so, and every estimate, report and saved profile says
    that it covers only the beginning."""

    stacks: bool = False
    """Let the record keep the call stack of each instruction, with the variables of loops, which a
    page shows (docs/view.md). It takes some microseconds an instruction; what a saved record keeps
    is the line alone."""

    uninitialised: Literal["report", "zeros", "raise"] = "report"
    """What a read of memory nothing has written yields, beside a finding: poison (NaN; 4 for
    integers), or 0. On a device it is whatever was there, nearly always finite, and published
    kernels multiply it by weights of 0. Products with an identity matrix move it alone either way,
    and so do the transposes of v2. `raise` stops there instead."""

    @property
    def zeros_as_leftovers(self) -> bool:
        """Whether what nothing has written reads as 0."""
        return self.uninitialised == "zeros"

    def __post_init__(self) -> None:
        """Raise UsageError for a value that a field doesn't have."""
        for name, choices in _choices().items():
            if (given := getattr(self, name)) not in choices:
                known = " or ".join(map(repr, choices))
                raise UsageError(f"{name} is {given!r}; it must be {known}")
        if not 0 <= self.rng_seed < 1 << 32:
            raise UsageError(f"rng_seed is {self.rng_seed}; it must be from 0 to 2^32 - 1")
        bound = self.precision_bound
        if bound is not None and not bound >= 0:
            raise UsageError(f"precision_bound is {bound!r}; it must be 0 or more")


@cache
def _choices() -> dict[str, tuple[Any, ...]]:
    """The values of the fields that have only some."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, kind in get_type_hints(Options).items():
        parts = (kind,) if get_origin(kind) is Literal else get_args(kind)
        if kind is bool:
            found[name] = (False, True)
        elif literals := [part for part in parts if get_origin(part) is Literal]:
            found[name] = get_args(literals[0]) + (None,) * (type(None) in parts)
    return found


documented = Options()
"""What the documentation says, and where it says nothing what the fields give their reasons for."""

ideal = Options(storage="float32")
"""No format rounds more than float32 does."""

vendor_sim = Options(matmul="blas", simulator_operators=True)
"""What the vendor's simulator says of itself: narrow formats in their own precision, sums in no
particular order ("Numerical Precision" in its guide), and operators that no engine has."""

PROFILES = {"documented": documented, "ideal": ideal, "vendor-sim": vendor_sim}


def profile(name: str) -> Options:
    """The profile of a name. Raises UsageError, with the nearest name."""
    try:
        return PROFILES[name]
    except KeyError:
        meant = did_you_mean(name, PROFILES) or f"there are {', '.join(PROFILES)}"
        raise UsageError(f"there is no numerics profile {name!r}; {meant}") from None


def cache_folder() -> Path:
    """In the user's cache, below $XDG_CACHE_HOME or ~/.cache. It may not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "neuroncore"
