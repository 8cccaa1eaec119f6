"""Random tensors. All draw from the Vector engine's generators, which `random_seed` seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.errors import SignatureError
from neuroncore.core.core import current
from neuroncore.frontend.limits import fitting
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import in_rows, ndarray
from neuroncore.frontend.nki.language.elementwise import copy, multiply, result, right_shift
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.numerics.formats import uint32

__all__ = ["dropout", "rand", "random_seed"]


def rand(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of numbers uniform in [0, 1), in steps of 2^-24 before they are rounded to
    dtype: rand2 from v4 on, before it rng and two tensor_scalar (and dma_copy, for HBM)."""
    tensor = ndarray(shape, dtype, buffer, name)
    if buffer in ON_CHIP:
        _fill(tensor)
        return tensor
    for part in fitting(tensor, uint32.itemsize):
        rows = in_rows(part)
        tile = ndarray(rows.shape, dtype)
        _fill(tile)
        isa.dma_copy(rows, tile)
    return tensor


def _fill(tile: NkiTensor) -> None:
    if current().machine.has("uniform_random"):
        isa.rand2(tile, 0.0, 1.0)
        return
    bits = ndarray(tile.shape, uint32)
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, right_shift, 8)
    isa.tensor_scalar(tile, bits, multiply, 2.0**-24)


def random_seed(seed: NkiTensor) -> None:
    """Restart the random numbers from a [1, 1] tile of 32 bits: set_rng_seed."""
    if not isinstance(seed, NkiTensor):
        raise SignatureError(
            f"the seed {seed!r} is not a tensor",
            argument="seed",
            position=0,
            expected="a [1, 1] tile of uint32 or int32",
            got=f"{seed!r:.60} ({type(seed).__name__})",
            because="the engine's generators read their seed from memory",
            hint="nl.full((1, 1), 7, nl.uint32) is such a tile",
        )
    core = current()
    if not core.machine.has("uniform_random"):
        core.report(
            "SEED_OF_ANOTHER_ENGINE",
            f"nl.rand on {core.machine.name} uses nisa.rng, which may run on a different engine "
            "than random_seed; the seed may have no effect on it",
        )
    isa.set_rng_seed(seed)


def dropout(x: NkiTensor, rate: Any, dtype: Any = None) -> NkiTensor:
    """x with elements zeroed at random, each with probability `rate`, a number or a [P, 1] tile;
    the others are not scaled: dropout, and tensor_copy for another format."""
    out = result(x)
    isa.dropout(out, x, rate)
    return out if dtype in (None, x.dtype) else copy(out, dtype)
