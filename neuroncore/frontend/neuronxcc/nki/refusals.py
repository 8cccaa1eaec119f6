"""Errors for operations that the older API's tensors and index expressions don't support."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    DynamicControlError,
    OutOfBoundsError,
    SignatureError,
    ViewError,
)
from neuroncore.base.units import plural
from neuroncore.frontend.limits import beyond
from neuroncore.frontend.tensors import question
from neuroncore.memory.access import Dims
from neuroncore.memory.parts import Affine
from neuroncore.memory.tile import Tile

WRITTEN = "nisa.iota(expression, dtype=nl.int32) makes a tile of the expression's values"


def truth_value(tile: Tile) -> DynamicControlError:
    """Return the error for a `not`, a `while` or a condition that needs the contents of a tile."""
    if isinstance(question().by, ast.While):
        also, hint = "err_while_loop_requires_unconditional_entry", "loop a fixed number of times"
    elif tile.size == 1:
        also, hint = (
            "err_dynamic_control_flow_not_supported",
            "compute both, and select with nl.where",
        )
    else:
        also = "err_ambiguous_tensor_truth_value"
        hint = (
            "combine tiles with &, | and nl.logical_not, select with nl.where; use `is` with None"
        )
    return DynamicControlError(
        f"{tile} has no truth value while the kernel is compiled",
        because="the contents of a tensor are known only on the device",
        hint=hint,
        also=also,
    )


def not_a_tile(value: object, name: str) -> SignatureError:
    """Return the error for a value of the argument `name`, which must be a tile."""
    is_array = isinstance(value, np.ndarray)
    numpy_hint = "pass numpy arrays to the kernel as arguments"
    return SignatureError(
        f"{name} is not a tile",
        argument=name,
        expected="a tensor",
        got=f"{type(value).__name__} {value!r:.60}",
        hint=WRITTEN if isinstance(value, Affine) else numpy_hint if is_array else None,
    )


def assigned_index(index: object) -> SignatureError:
    """Return the error for an assignment to an index expression."""
    return SignatureError(
        f"an index expression can't be assigned to: {index!r}",
        because="an index expression describes addresses, and is not in any memory",
        hint=WRITTEN,
        also="err_cannot_assign_to_index",
    )


def index_along_free_axis(tile: Tile) -> ViewError:
    """Return the error for a tile that indexes the last axis of a tensor."""
    return ViewError(
        f"a tile indexes the last axis of {tile}, and the index of another axis differs between "
        "partitions",
        because="a DMA has one run-time address per partition, for a whole row",
        hint="index the first axis with the tile, and the last with nl.arange(n)[None, :]",
        also="err_indirect_indices_free_dim",
    )


def copied_by_assignment(tile: Tile) -> ViewError:
    """Return the error for an assignment that copies a tile whose address is only known at run
    time."""
    return ViewError(
        f"{tile}, whose address is known only at run time, can't be copied by assignment",
        because="the engine needs an instruction that reads the address from memory",
        hint="write tensor[...] = nisa.tensor_copy_dynamic_src(source[...])",
        also="err_copy_dynamic_indirect_indices_not_natively_supported",
    )


def transposed_indirectly(tile: Tile) -> ViewError:
    """Return the error for a DMA transpose of rows that a tile of indices selects."""
    return ViewError(
        f"{tile}, whose rows are selected by a tile, can't be transposed by the DMA",
        argument="src",
        because="the descriptors of a transposing DMA are written before the kernel runs",
        hint="nl.load the rows, and transpose the tile with nl.transpose",
        also="err_indirect_indices_are_not_supported_with_nki_api",
    )


def transposed_wide(tile: Tile) -> DtypeError:
    """Return the error for a transpose of a float32 tile in SBUF by DMA. The caller checks that
    the machine's DMA engines can transpose. Source: kda-for-trainium, on trn2."""
    return DtypeError(
        f"{tile} can't be transposed by DMA",
        argument="src",
        expected="a format of 2 bytes, or a tensor in hbm",
        got=f"{tile.dtype} in sbuf",
        because="the older API's compiler fails where DMA engines transpose float32 within SBUF",
        hint="the Tensor engine executes nl.transpose and nisa.nc_transpose",
        also="NCC_ISFV902",
    )


def repeated_by_dma(tile: Tile) -> ViewError:
    """Return the error for dma_copy with repeated elements, from HBM or SBUF (kda-for-trainium, on
    trn2)."""
    return ViewError(
        f"{tile} is one row that a DMA would repeat across {tile.shape[0]:,} partitions",
        argument="src",
        expected="an index of src that grows from partition to partition",
        got=f"stride 0 along axis 0 of {tile.shape}",
        because="the older API's compiler does not support broadcast patterns in DMA",
        hint="load the row, and repeat it with .broadcast_to((partitions, columns))",
        also="NCC_IBCG901",
    )


def assigned_in_hbm(slot: Tile) -> BufferKindError:
    """Return the error for the assignment of a tile to a tensor in HBM."""
    return BufferKindError(
        f"{slot} can't be assigned to",
        expected="a tensor in sbuf or psum",
        because="only a DMA writes to HBM",
        hint="use nl.store(tensor[...], value)",
        also="err_unsupported_memory",
    )


NEW_AXIS = "None does not add an axis to a tensor: use tensor.expand_dims(axis)"


def too_many_indices(keys: Sequence[Any], shape: Dims) -> OutOfBoundsError:
    """Return the error for a subscript with more keys than a tensor of this shape has axes."""
    return OutOfBoundsError(
        f"the tensor has {plural(len(shape), 'axis', 'axes')}, but the index has "
        f"{plural(len(keys), 'item')}",
        got=f"a tensor of shape {shape}",
        hint=NEW_AXIS if any(k is None for k in keys) else None,
        also="err_tensor_access_out_of_bound",
    )


def outside(low: int, high: int, axis: int, shape: Dims) -> OutOfBoundsError:
    """Return the error for indices from `low` to `high` of an axis of a tensor."""
    size, ragged = shape[axis], "mask the last piece: mask=(start + i < total)"
    return OutOfBoundsError(
        f"index range [{low}, {high}] exceeds axis {axis} of size {size}",
        expected=f"use indices from 0 to {size - 1}",
        got=f"[{low}, {high}]",
        because="the access would reach the memory of another tensor",
        hint=beyond(low, high, axis, shape, ragged),
        also="err_tensor_access_out_of_bound",
    )
