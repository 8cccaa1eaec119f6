"""The functions that issue instructions, one for each clause. Both dialects call them.

A Call represents all uses of an instruction with equal keys. Each function binds its arguments, and
finds the Call with their key. If no Call has this key, the function checks the arguments, and makes
a new Call. Then it executes the Call and records it.
`docs/generate/functions.py` writes this file from the clauses of isa/. Do not edit it.
"""

from __future__ import annotations

import sys
from typing import Any

from neuroncore.base.enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    oob_mode,
    reduce_cmd,
)
from neuroncore.base.errors import KernelError, NeuronError
from neuroncore.clause.alu import OPERATORS
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.operand import are_tiles
from neuroncore.core import execute
from neuroncore.core.binding import (
    MISSING,
    NOT_OURS,
    MaybeTile,
    NkiInstruction,
    Real,
    TileOrNumber,
    Tiles,
    arguments,
    kinds,
    member,
    numbered,
    settle,
    unexpected,
)
from neuroncore.core.core import current, running
from neuroncore.core.legality import misused
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.record.inputs import zero

__all__ = [
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "dropout",
    "exponential",
    "iota",
    "local_gather",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_matmul_sparse",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nonzero_with_count",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
]  # the API's module nki.isa

frame_at = sys._getframe
new = object.__new__  # takes half as long as a call of the class

DGE_MODE_UNKNOWN = dge_mode.unknown
DMA_ENGINE_DMA = dma_engine.dma
ENGINE_GPSIMD = engine.gpsimd
ENGINE_UNKNOWN = engine.unknown
ENGINE_VECTOR = engine.vector
MATMUL_PERF_MODE_NONE = matmul_perf_mode.none
OOB_MODE_ERROR = oob_mode.error
REDUCE_CMD_IDLE = reduce_cmd.idle
REDUCE_CMD_RESET_REDUCE = reduce_cmd.reset_reduce
ACTIVATE2 = INSTRUCTIONS["activate2"]


def activate2(
    dst: Tile = MISSING,
    op: Any = MISSING,
    data: Tile = MISSING,
    imm0: TileOrNumber = MISSING,
    imm1: TileOrNumber = MISSING,
    op0: Any = MISSING,
    op1: Any = MISSING,
    relu_param: TileOrNumber = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: MaybeTile = None,
    reduce_cmd: reduce_cmd | int = reduce_cmd.idle,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = op((data[p, f] <op0> imm0[p]) <op1> imm1[p]);  reduce_res[p] = the accumulator

    Each step rounds to float32. The accumulator folds results before they are rounded to dst.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or op is MISSING
        or data is MISSING
        or imm0 is MISSING
        or imm1 is MISSING
        or op0 is MISSING
        or op1 is MISSING
    ):
        settle(ACTIVATE2, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        imm0_is_tile = isinstance(imm0, Tile)
        imm1_is_tile = isinstance(imm1, Tile)
        relu_param_is_tile = isinstance(relu_param, Tile)
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        try:
            op = op.function
            op0 = op0.operator
            op1 = op1.operator
            reduce_op = reduce_op.operator if reduce_op is not None else None
            special: Any = None
            if reverse0 is not False or reverse1 is not False or reduce_cmd is not REDUCE_CMD_IDLE:
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_IDLE, reduce_cmd)
                special = (
                    type(reverse0),
                    reverse0,
                    type(reverse1),
                    reverse1,
                    reduce_cmd,
                )
            key = (
                ACTIVATE2,
                (dst._signature or dst.signature()),
                op,
                (data._signature or data.signature()),
                (imm0._signature or imm0.signature()) if imm0_is_tile else type(imm0),
                (imm1._signature or imm1.signature()) if imm1_is_tile else type(imm1),
                op0,
                op1,
                (relu_param._signature or relu_param.signature())
                if relu_param_is_tile
                else type(relu_param),
                reduce_op,
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ACTIVATE2, arguments(ACTIVATE2, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ACTIVATE2, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ACTIVATE2, key, arguments(ACTIVATE2, locals()))
        try:
            offsets = execute.activate2(
                core,
                call,
                dst,
                op,
                data,
                imm0,
                imm1,
                op0,
                op1,
                relu_param,
                reverse0,
                reverse1,
                reduce_op,
                reduce_res,
                reduce_cmd,
                imm0_is_tile,
                imm1_is_tile,
                relu_param_is_tile,
                reduce_res_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if imm0_is_tile else imm0 or zero(imm0),
                    Tile if imm0_is_tile else type(imm0),
                    None if imm1_is_tile else imm1 or zero(imm1),
                    Tile if imm1_is_tile else type(imm1),
                    None if relu_param_is_tile else relu_param or zero(relu_param),
                    Tile if relu_param_is_tile else type(relu_param),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (imm0.storage.id, numbers[imm0.geometry], imm0.offset)
                        if imm0_is_tile
                        else ()
                    ),
                    *(
                        (imm1.storage.id, numbers[imm1.geometry], imm1.offset)
                        if imm1_is_tile
                        else ()
                    ),
                    *(
                        (relu_param.storage.id, numbers[relu_param.geometry], relu_param.offset)
                        if relu_param_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if imm0_is_tile else imm0 or zero(imm0),
                            Tile if imm0_is_tile else type(imm0),
                            None if imm1_is_tile else imm1 or zero(imm1),
                            Tile if imm1_is_tile else type(imm1),
                            None if relu_param_is_tile else relu_param or zero(relu_param),
                            Tile if relu_param_is_tile else type(relu_param),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ACTIVATE2, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ACTIVATION = INSTRUCTIONS["activation"]


def activation(
    dst: Tile = MISSING,
    op: Any = MISSING,
    data: Tile = MISSING,
    bias: TileOrNumber = None,
    scale: TileOrNumber = 1.0,
    reduce_op: Any = None,
    reduce_res: MaybeTile = None,
    reduce_cmd: reduce_cmd | int = reduce_cmd.idle,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = the accumulator

    Multiplication and addition round separately. The accumulator adds the float32 results before
    they are rounded to dst.
    """
    if extra or unknown or dst is MISSING or op is MISSING or data is MISSING:
        settle(ACTIVATION, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        bias_is_tile = isinstance(bias, Tile)
        scale_is_tile = isinstance(scale, Tile)
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        try:
            op = op.function
            reduce_op = reduce_op.operator if reduce_op is not None else None
            special: Any = None
            if reduce_cmd is not REDUCE_CMD_IDLE:
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_IDLE, reduce_cmd)
                special = (reduce_cmd,)
            key = (
                ACTIVATION,
                (dst._signature or dst.signature()),
                op,
                (data._signature or data.signature()),
                (bias._signature or bias.signature()) if bias_is_tile else type(bias),
                (scale._signature or scale.signature()) if scale_is_tile else type(scale),
                reduce_op,
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ACTIVATION, arguments(ACTIVATION, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ACTIVATION, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ACTIVATION, key, arguments(ACTIVATION, locals()))
        try:
            offsets = execute.activation(
                core,
                call,
                dst,
                op,
                data,
                bias,
                scale,
                reduce_op,
                reduce_res,
                reduce_cmd,
                bias_is_tile,
                scale_is_tile,
                reduce_res_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if bias_is_tile else bias or zero(bias),
                    Tile if bias_is_tile else type(bias),
                    None if scale_is_tile else scale or zero(scale),
                    Tile if scale_is_tile else type(scale),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (bias.storage.id, numbers[bias.geometry], bias.offset)
                        if bias_is_tile
                        else ()
                    ),
                    *(
                        (scale.storage.id, numbers[scale.geometry], scale.offset)
                        if scale_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if bias_is_tile else bias or zero(bias),
                            Tile if bias_is_tile else type(bias),
                            None if scale_is_tile else scale or zero(scale),
                            Tile if scale_is_tile else type(scale),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ACTIVATION, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ACTIVATION_REDUCE = INSTRUCTIONS["activation_reduce"]


def activation_reduce(
    dst: Tile = MISSING,
    op: Any = MISSING,
    data: Tile = MISSING,
    reduce_op: Any = MISSING,
    reduce_res: MaybeTile = MISSING,
    bias: TileOrNumber = None,
    scale: TileOrNumber = 1.0,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = sum over f of op(...)"""
    if (
        extra
        or unknown
        or dst is MISSING
        or op is MISSING
        or data is MISSING
        or reduce_op is MISSING
        or reduce_res is MISSING
    ):
        settle(ACTIVATION_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        bias_is_tile = isinstance(bias, Tile)
        scale_is_tile = isinstance(scale, Tile)
        try:
            op = op.function
            reduce_op = reduce_op.operator
            key = (
                ACTIVATION_REDUCE,
                (dst._signature or dst.signature()),
                op,
                (data._signature or data.signature()),
                reduce_op,
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                (bias._signature or bias.signature()) if bias_is_tile else type(bias),
                (scale._signature or scale.signature()) if scale_is_tile else type(scale),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ACTIVATION_REDUCE, arguments(ACTIVATION_REDUCE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ACTIVATION_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ACTIVATION_REDUCE, key, arguments(ACTIVATION_REDUCE, locals()))
        try:
            offsets = execute.activation_reduce(
                core,
                call,
                dst,
                op,
                data,
                reduce_op,
                reduce_res,
                bias,
                scale,
                reduce_res_is_tile,
                bias_is_tile,
                scale_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if bias_is_tile else bias or zero(bias),
                    Tile if bias_is_tile else type(bias),
                    None if scale_is_tile else scale or zero(scale),
                    Tile if scale_is_tile else type(scale),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (bias.storage.id, numbers[bias.geometry], bias.offset)
                        if bias_is_tile
                        else ()
                    ),
                    *(
                        (scale.storage.id, numbers[scale.geometry], scale.offset)
                        if scale_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if bias_is_tile else bias or zero(bias),
                            Tile if bias_is_tile else type(bias),
                            None if scale_is_tile else scale or zero(scale),
                            Tile if scale_is_tile else type(scale),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ACTIVATION_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


AFFINE_SELECT = INSTRUCTIONS["affine_select"]


def affine_select(
    dst: Tile = MISSING,
    pattern: Any = MISSING,
    channel_multiplier: int = MISSING,
    on_true_tile: Tile = MISSING,
    on_false_value: Real = MISSING,
    cmp_op: Any = OPERATORS["equal"],
    offset: Any = 0,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = on_true_tile[p, f] if v[p, f] <cmp_op> 0 else on_false_value

    v has the numbers that iota computes from pattern, offset and channel_multiplier.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or pattern is MISSING
        or channel_multiplier is MISSING
        or on_true_tile is MISSING
        or on_false_value is MISSING
    ):
        settle(AFFINE_SELECT, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(pattern) is tuple and not pattern):
                pattern = AFFINE_SELECT.declared["pattern"].take(
                    "affine_select", "pattern", pattern
                )
            if not (
                type(channel_multiplier) is int and -2147483648 <= channel_multiplier <= 2147483647
            ):
                channel_multiplier = AFFINE_SELECT.declared["channel_multiplier"].take(
                    "affine_select", "channel_multiplier", channel_multiplier
                )
            if not (type(on_false_value) is float or type(on_false_value) is int):
                on_false_value = AFFINE_SELECT.declared["on_false_value"].take(
                    "affine_select", "on_false_value", on_false_value
                )
            cmp_op = cmp_op.operator
            if not (
                type(offset) is VirtualRegister
                or type(offset) is int
                and -2147483648 <= offset <= 2147483647
            ):
                offset = AFFINE_SELECT.declared["offset"].take("affine_select", "offset", offset)
            key = (
                AFFINE_SELECT,
                (dst._signature or dst.signature()),
                pattern,
                (on_true_tile._signature or on_true_tile.signature()),
                cmp_op,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(AFFINE_SELECT, arguments(AFFINE_SELECT, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(AFFINE_SELECT, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(AFFINE_SELECT, key, arguments(AFFINE_SELECT, locals()))
        try:
            offsets = execute.affine_select(
                core,
                call,
                dst,
                pattern,
                channel_multiplier,
                on_true_tile,
                on_false_value,
                cmp_op,
                offset,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    channel_multiplier or zero(channel_multiplier),
                    type(channel_multiplier),
                    on_false_value or zero(on_false_value),
                    type(on_false_value),
                    numbered(core.program, offset)
                    if type(offset) is VirtualRegister
                    else offset or zero(offset),
                    type(offset),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    on_true_tile.storage.id,
                    numbers[on_true_tile.geometry],
                    on_true_tile.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            channel_multiplier or zero(channel_multiplier),
                            type(channel_multiplier),
                            on_false_value or zero(on_false_value),
                            type(on_false_value),
                            numbered(core.program, offset)
                            if type(offset) is VirtualRegister
                            else offset or zero(offset),
                            type(offset),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(AFFINE_SELECT, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ALL_GATHER = INSTRUCTIONS["all_gather"]


def all_gather(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    collective_dim: int = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dsts[i] = srcs[i] of all ranks of the group, concatenated along collective_dim"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or collective_dim is MISSING
    ):
        settle(ALL_GATHER, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = ALL_GATHER.declared["replica_group"].take(
                    "all_gather", "replica_group", replica_group
                )
            if not (type(collective_dim) is int):
                collective_dim = ALL_GATHER.declared["collective_dim"].take(
                    "all_gather", "collective_dim", collective_dim
                )
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = ALL_GATHER.declared["priority"].take(
                        "all_gather", "priority", priority
                    )
                special = (priority,)
            key = (
                ALL_GATHER,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                collective_dim,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ALL_GATHER, arguments(ALL_GATHER, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ALL_GATHER, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ALL_GATHER, key, arguments(ALL_GATHER, locals()))
        try:
            offsets = execute.all_gather(
                core, call, srcs, dsts, replica_group, collective_dim, priority
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ALL_GATHER, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ALL_GATHER_V = INSTRUCTIONS["all_gather_v"]


def all_gather_v(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    metadata_tensor: Tile = MISSING,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """slot k of dsts[0] = the elements of rank k's srcs[0] that rank k's metadata selects"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or metadata_tensor is MISSING
    ):
        settle(ALL_GATHER_V, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = ALL_GATHER_V.declared["replica_group"].take(
                    "all_gather_v", "replica_group", replica_group
                )
            special: Any = None
            if recv_counts_known is not False or has_rdispls is not False or priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = ALL_GATHER_V.declared["priority"].take(
                        "all_gather_v", "priority", priority
                    )
                special = (
                    type(recv_counts_known),
                    recv_counts_known,
                    type(has_rdispls),
                    has_rdispls,
                    priority,
                )
            key = (
                ALL_GATHER_V,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                (metadata_tensor._signature or metadata_tensor.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ALL_GATHER_V, arguments(ALL_GATHER_V, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ALL_GATHER_V, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ALL_GATHER_V, key, arguments(ALL_GATHER_V, locals()))
        try:
            offsets = execute.all_gather_v(
                core,
                call,
                srcs,
                dsts,
                replica_group,
                metadata_tensor,
                recv_counts_known,
                has_rdispls,
                priority,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    metadata_tensor.storage.id,
                    numbers[metadata_tensor.geometry],
                    metadata_tensor.offset,
                    *[number for tile in dsts for number in program.window(tile)],
                    metadata_tensor.storage.id,
                    numbers[metadata_tensor.geometry],
                    metadata_tensor.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ALL_GATHER_V, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ALL_REDUCE = INSTRUCTIONS["all_reduce"]


def all_reduce(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    op: Any = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dsts[i] = srcs[i] of all ranks of the group, reduced by op"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or op is MISSING
    ):
        settle(ALL_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = ALL_REDUCE.declared["replica_group"].take(
                    "all_reduce", "replica_group", replica_group
                )
            op = op.operator
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = ALL_REDUCE.declared["priority"].take(
                        "all_reduce", "priority", priority
                    )
                special = (priority,)
            key = (
                ALL_REDUCE,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                op,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ALL_REDUCE, arguments(ALL_REDUCE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ALL_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ALL_REDUCE, key, arguments(ALL_REDUCE, locals()))
        try:
            offsets = execute.all_reduce(core, call, srcs, dsts, replica_group, op, priority)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ALL_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ALL_TO_ALL = INSTRUCTIONS["all_to_all"]


def all_to_all(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    collective_dim: int = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """piece k of dsts[i] = the piece for this rank, from rank k's srcs[i]"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or collective_dim is MISSING
    ):
        settle(ALL_TO_ALL, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = ALL_TO_ALL.declared["replica_group"].take(
                    "all_to_all", "replica_group", replica_group
                )
            if not (type(collective_dim) is int):
                collective_dim = ALL_TO_ALL.declared["collective_dim"].take(
                    "all_to_all", "collective_dim", collective_dim
                )
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = ALL_TO_ALL.declared["priority"].take(
                        "all_to_all", "priority", priority
                    )
                special = (priority,)
            key = (
                ALL_TO_ALL,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                collective_dim,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ALL_TO_ALL, arguments(ALL_TO_ALL, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ALL_TO_ALL, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ALL_TO_ALL, key, arguments(ALL_TO_ALL, locals()))
        try:
            offsets = execute.all_to_all(
                core, call, srcs, dsts, replica_group, collective_dim, priority
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ALL_TO_ALL, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


ALL_TO_ALL_V = INSTRUCTIONS["all_to_all_v"]


def all_to_all_v(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    metadata_tensor: Tile = MISSING,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """slot k of dsts[0] = the elements of rank k's srcs[0] that rank k's metadata sends here"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or metadata_tensor is MISSING
    ):
        settle(ALL_TO_ALL_V, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = ALL_TO_ALL_V.declared["replica_group"].take(
                    "all_to_all_v", "replica_group", replica_group
                )
            special: Any = None
            if recv_counts_known is not False or has_rdispls is not False or priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = ALL_TO_ALL_V.declared["priority"].take(
                        "all_to_all_v", "priority", priority
                    )
                special = (
                    type(recv_counts_known),
                    recv_counts_known,
                    type(has_rdispls),
                    has_rdispls,
                    priority,
                )
            key = (
                ALL_TO_ALL_V,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                (metadata_tensor._signature or metadata_tensor.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(ALL_TO_ALL_V, arguments(ALL_TO_ALL_V, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(ALL_TO_ALL_V, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(ALL_TO_ALL_V, key, arguments(ALL_TO_ALL_V, locals()))
        try:
            offsets = execute.all_to_all_v(
                core,
                call,
                srcs,
                dsts,
                replica_group,
                metadata_tensor,
                recv_counts_known,
                has_rdispls,
                priority,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    metadata_tensor.storage.id,
                    numbers[metadata_tensor.geometry],
                    metadata_tensor.offset,
                    *[number for tile in dsts for number in program.window(tile)],
                    metadata_tensor.storage.id,
                    numbers[metadata_tensor.geometry],
                    metadata_tensor.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(ALL_TO_ALL_V, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


BN_AGGR = INSTRUCTIONS["bn_aggr"]


def bn_aggr(
    dst: Tile = MISSING, data: Tile = MISSING, name: Any = None, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst[p, :] = [m, v];  m = sum n_i m_i / N, v = sum (M_i + n_i (m_i - m)^2) / N, N = sum n_i

    data[p, :] lists the triples (n_i, m_i, M_i), in the form of bn_stats.
    """
    if extra or unknown or dst is MISSING or data is MISSING:
        settle(BN_AGGR, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                BN_AGGR,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(BN_AGGR, arguments(BN_AGGR, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(BN_AGGR, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(BN_AGGR, key, arguments(BN_AGGR, locals()))
        try:
            offsets = execute.bn_aggr(core, call, dst, data)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(BN_AGGR, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


BN_STATS = INSTRUCTIONS["bn_stats"]


def bn_stats(
    dst: Tile = MISSING, data: Tile = MISSING, name: Any = None, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst[p, :] = [n, mean, sum of (x - mean)^2] of data[p, 0::2], then of data[p, 1::2]

    Each number is rounded once; the order of the engine's sums is unpublished. Without elements,
    all three are 0.
    """
    if extra or unknown or dst is MISSING or data is MISSING:
        settle(BN_STATS, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                BN_STATS,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(BN_STATS, arguments(BN_STATS, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(BN_STATS, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(BN_STATS, key, arguments(BN_STATS, locals()))
        try:
            offsets = execute.bn_stats(core, call, dst, data)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(BN_STATS, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


COLLECTIVE_PERMUTE = INSTRUCTIONS["collective_permute"]


def collective_permute(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    source_target_pairs: Any = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dsts[0] = srcs[0] of this rank's source in the pairs; unchanged if it has no source"""
    if extra or unknown or srcs is MISSING or dsts is MISSING or source_target_pairs is MISSING:
        settle(COLLECTIVE_PERMUTE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(source_target_pairs) is tuple and not source_target_pairs):
                source_target_pairs = COLLECTIVE_PERMUTE.declared["source_target_pairs"].take(
                    "collective_permute", "source_target_pairs", source_target_pairs
                )
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = COLLECTIVE_PERMUTE.declared["priority"].take(
                        "collective_permute", "priority", priority
                    )
                special = (priority,)
            key = (
                COLLECTIVE_PERMUTE,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                source_target_pairs,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(COLLECTIVE_PERMUTE, arguments(COLLECTIVE_PERMUTE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(COLLECTIVE_PERMUTE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(COLLECTIVE_PERMUTE, key, arguments(COLLECTIVE_PERMUTE, locals()))
        try:
            offsets = execute.collective_permute(
                core, call, srcs, dsts, source_target_pairs, priority
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(COLLECTIVE_PERMUTE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


COLLECTIVE_PERMUTE_IMPLICIT = INSTRUCTIONS["collective_permute_implicit"]


def collective_permute_implicit(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    channel_ids: Any = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dsts[i] = srcs[i] of this rank's predecessor in the ring of channel i"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or channel_ids is MISSING
    ):
        settle(COLLECTIVE_PERMUTE_IMPLICIT, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = COLLECTIVE_PERMUTE_IMPLICIT.declared["replica_group"].take(
                    "collective_permute_implicit", "replica_group", replica_group
                )
            if not (type(channel_ids) is tuple and not channel_ids):
                channel_ids = COLLECTIVE_PERMUTE_IMPLICIT.declared["channel_ids"].take(
                    "collective_permute_implicit", "channel_ids", channel_ids
                )
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = COLLECTIVE_PERMUTE_IMPLICIT.declared["priority"].take(
                        "collective_permute_implicit", "priority", priority
                    )
                special = (priority,)
            key = (
                COLLECTIVE_PERMUTE_IMPLICIT,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                channel_ids,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(
                COLLECTIVE_PERMUTE_IMPLICIT, arguments(COLLECTIVE_PERMUTE_IMPLICIT, locals()), fault
            )
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(COLLECTIVE_PERMUTE_IMPLICIT, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                COLLECTIVE_PERMUTE_IMPLICIT, key, arguments(COLLECTIVE_PERMUTE_IMPLICIT, locals())
            )
        try:
            offsets = execute.collective_permute_implicit(
                core, call, srcs, dsts, replica_group, channel_ids, priority
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(COLLECTIVE_PERMUTE_IMPLICIT, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID = INSTRUCTIONS[
    "collective_permute_implicit_current_processing_rank_id"
]
COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID_CHANNEL_ID = 0


def collective_permute_implicit_current_processing_rank_id(
    dst: Any = MISSING,
    iteration_id: Any = MISSING,
    replica_group: Any = MISSING,
    channel_id: int = 0,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst = the rank whose data arrives here after iteration_id steps on the channel's ring"""
    if extra or unknown or dst is MISSING or iteration_id is MISSING or replica_group is MISSING:
        settle(COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(dst) is VirtualRegister and not dst.frozen):
                dst = COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID.declared["dst"].take(
                    "collective_permute_implicit_current_processing_rank_id", "dst", dst
                )
            if not (type(iteration_id) is VirtualRegister or type(iteration_id) is int):
                iteration_id = COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID.declared[
                    "iteration_id"
                ].take(
                    "collective_permute_implicit_current_processing_rank_id",
                    "iteration_id",
                    iteration_id,
                )
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID.declared[
                    "replica_group"
                ].take(
                    "collective_permute_implicit_current_processing_rank_id",
                    "replica_group",
                    replica_group,
                )
            special: Any = None
            if channel_id is not COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID_CHANNEL_ID:
                if not (type(channel_id) is int):
                    channel_id = COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID.declared[
                        "channel_id"
                    ].take(
                        "collective_permute_implicit_current_processing_rank_id",
                        "channel_id",
                        channel_id,
                    )
                special = (channel_id,)
            key = (
                COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID,
                replica_group,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(
                COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID,
                arguments(COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID, locals()),
                fault,
            )
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(
                COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID, locals(), core.machine
            )
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID,
                key,
                arguments(COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID, locals()),
            )
        try:
            offsets = execute.collective_permute_implicit_current_processing_rank_id(
                core, call, dst, iteration_id, replica_group, channel_id
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    numbered(core.program, iteration_id)
                    if type(iteration_id) is VirtualRegister
                    else iteration_id or zero(iteration_id),
                    type(iteration_id),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    program.data.value(
                        (
                            numbered(core.program, iteration_id)
                            if type(iteration_id) is VirtualRegister
                            else iteration_id or zero(iteration_id),
                            type(iteration_id),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(
            COLLECTIVE_PERMUTE_IMPLICIT_CURRENT_PROCESSING_RANK_ID, core, error, locals()
        ) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


COLLECTIVE_PERMUTE_IMPLICIT_REDUCE = INSTRUCTIONS["collective_permute_implicit_reduce"]


def collective_permute_implicit_reduce(
    srcs: Tiles = MISSING,
    others: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    op: Any = MISSING,
    channel_ids: Any = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dsts[i] = op(srcs[i], others[i]), both of this rank's predecessor in the ring of channel i"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or others is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or op is MISSING
        or channel_ids is MISSING
    ):
        settle(COLLECTIVE_PERMUTE_IMPLICIT_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(others):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = COLLECTIVE_PERMUTE_IMPLICIT_REDUCE.declared["replica_group"].take(
                    "collective_permute_implicit_reduce", "replica_group", replica_group
                )
            op = op.operator
            if not (type(channel_ids) is tuple and not channel_ids):
                channel_ids = COLLECTIVE_PERMUTE_IMPLICIT_REDUCE.declared["channel_ids"].take(
                    "collective_permute_implicit_reduce", "channel_ids", channel_ids
                )
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = COLLECTIVE_PERMUTE_IMPLICIT_REDUCE.declared["priority"].take(
                        "collective_permute_implicit_reduce", "priority", priority
                    )
                special = (priority,)
            key = (
                COLLECTIVE_PERMUTE_IMPLICIT_REDUCE,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in others]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                op,
                channel_ids,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(
                COLLECTIVE_PERMUTE_IMPLICIT_REDUCE,
                arguments(COLLECTIVE_PERMUTE_IMPLICIT_REDUCE, locals()),
                fault,
            )
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(COLLECTIVE_PERMUTE_IMPLICIT_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                COLLECTIVE_PERMUTE_IMPLICIT_REDUCE,
                key,
                arguments(COLLECTIVE_PERMUTE_IMPLICIT_REDUCE, locals()),
            )
        try:
            offsets = execute.collective_permute_implicit_reduce(
                core, call, srcs, others, dsts, replica_group, op, channel_ids, priority
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in others for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(COLLECTIVE_PERMUTE_IMPLICIT_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


CORE_BARRIER = INSTRUCTIONS["core_barrier"]


def core_barrier(
    data: Tile = MISSING,
    cores: Any = MISSING,
    engine: engine | int = engine.gpsimd,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """no core continues before all `cores` have arrived; then their writes to data are visible"""
    if extra or unknown or data is MISSING or cores is MISSING:
        settle(CORE_BARRIER, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(cores) is tuple and not cores):
                cores = CORE_BARRIER.declared["cores"].take("core_barrier", "cores", cores)
            special: Any = None
            if engine is not ENGINE_GPSIMD:
                if type(engine) is int:
                    engine = member(ENGINE_GPSIMD, engine)
                special = (engine,)
            key = (
                CORE_BARRIER,
                (data._signature or data.signature()),
                cores,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(CORE_BARRIER, arguments(CORE_BARRIER, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(CORE_BARRIER, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(CORE_BARRIER, key, arguments(CORE_BARRIER, locals()))
        try:
            offsets = execute.core_barrier(core, call, data, cores, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(line, ~call.index, data.storage.id, numbers[data.geometry], data.offset)
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(CORE_BARRIER, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


DMA_COMPUTE = INSTRUCTIONS["dma_compute"]


def dma_compute(
    dst: Tile = MISSING,
    srcs: Tiles = MISSING,
    reduce_op: Any = MISSING,
    scales: Any = None,
    unique_indices: bool = True,
    oob_mode: oob_mode | int = oob_mode.error,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst = srcs[0] + srcs[1] + ..., in float32 from the left

    If an index i chooses rows: dst = dst + data[i], or dst[i] = dst[i] + data. If an index occurs
    twice (unique_indices=False), both sums are added to the same row, one after the other.
    """
    if extra or unknown or dst is MISSING or srcs is MISSING or reduce_op is MISSING:
        settle(DMA_COMPUTE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            reduce_op = reduce_op.operator
            special: Any = None
            if scales is not None or unique_indices is not True or oob_mode is not OOB_MODE_ERROR:
                if not (scales is None or type(scales) is tuple and not scales):
                    scales = DMA_COMPUTE.declared["scales"].take("dma_compute", "scales", scales)
                if type(oob_mode) is int:
                    oob_mode = member(OOB_MODE_ERROR, oob_mode)
                special = (
                    scales,
                    type(unique_indices),
                    unique_indices,
                    oob_mode,
                )
            key = (
                DMA_COMPUTE,
                (dst._signature or dst.signature()),
                tuple([tile.signature() for tile in srcs]),
                reduce_op,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(DMA_COMPUTE, arguments(DMA_COMPUTE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(DMA_COMPUTE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(DMA_COMPUTE, key, arguments(DMA_COMPUTE, locals()))
        try:
            offsets = execute.dma_compute(
                core, call, dst, srcs, reduce_op, scales, unique_indices, oob_mode
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(DMA_COMPUTE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


DMA_COPY = INSTRUCTIONS["dma_copy"]


def dma_copy(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    priority: int | None = None,
    oob_mode: oob_mode | int = oob_mode.error,
    dge_mode: dge_mode | int = dge_mode.unknown,
    engine: engine | int = engine.unknown,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst = src, element by element in row-major order; different formats are converted through
    float32
    """
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(DMA_COPY, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if (
                priority is not None
                or oob_mode is not OOB_MODE_ERROR
                or dge_mode is not DGE_MODE_UNKNOWN
                or engine is not ENGINE_UNKNOWN
            ):
                if not (priority is None or type(priority) is int):
                    priority = DMA_COPY.declared["priority"].take("dma_copy", "priority", priority)
                if type(oob_mode) is int:
                    oob_mode = member(OOB_MODE_ERROR, oob_mode)
                if type(dge_mode) is int:
                    dge_mode = member(DGE_MODE_UNKNOWN, dge_mode)
                if type(engine) is int:
                    engine = member(ENGINE_UNKNOWN, engine)
                special = (
                    priority,
                    oob_mode,
                    dge_mode,
                    engine,
                )
            key = (
                DMA_COPY,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(DMA_COPY, arguments(DMA_COPY, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(DMA_COPY, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(DMA_COPY, key, arguments(DMA_COPY, locals()))
        try:
            offsets = execute.dma_copy(core, call, dst, src, priority, oob_mode, dge_mode, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(DMA_COPY, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


DMA_TRANSPOSE = INSTRUCTIONS["dma_transpose"]


def dma_transpose(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    axes: Any = None,
    priority: int | None = None,
    dge_mode: dge_mode | int = dge_mode.unknown,
    oob_mode: oob_mode | int = oob_mode.error,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[z, x, y, w] = src[w, x, y, z], or dst[y, x, w] = src[w, x, y], or dst[x, w] = src[w, x]

    If src is a gather, its row w is row i[w % P, w // P] of the tensor from which it gathers. i is
    the index, and P is the number of its partitions.
    """
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(DMA_TRANSPOSE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if (
                axes is not None
                or priority is not None
                or dge_mode is not DGE_MODE_UNKNOWN
                or oob_mode is not OOB_MODE_ERROR
            ):
                if not (axes is None or type(axes) is tuple and not axes):
                    axes = DMA_TRANSPOSE.declared["axes"].take("dma_transpose", "axes", axes)
                if not (priority is None or type(priority) is int):
                    priority = DMA_TRANSPOSE.declared["priority"].take(
                        "dma_transpose", "priority", priority
                    )
                if type(dge_mode) is int:
                    dge_mode = member(DGE_MODE_UNKNOWN, dge_mode)
                if type(oob_mode) is int:
                    oob_mode = member(OOB_MODE_ERROR, oob_mode)
                special = (
                    axes,
                    priority,
                    dge_mode,
                    oob_mode,
                )
            key = (
                DMA_TRANSPOSE,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(DMA_TRANSPOSE, arguments(DMA_TRANSPOSE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(DMA_TRANSPOSE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(DMA_TRANSPOSE, key, arguments(DMA_TRANSPOSE, locals()))
        try:
            offsets = execute.dma_transpose(
                core, call, dst, src, axes, priority, dge_mode, oob_mode
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(DMA_TRANSPOSE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


DROPOUT = INSTRUCTIONS["dropout"]


def dropout(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    prob: TileOrNumber = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = 0 if u < prob[p] else data[p, f], u uniform in [0, 1)

    Elements that are kept are not scaled: their bits are unchanged.
    """
    if extra or unknown or dst is MISSING or data is MISSING or prob is MISSING:
        settle(DROPOUT, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        prob_is_tile = isinstance(prob, Tile)
        try:
            key = (
                DROPOUT,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                (prob._signature or prob.signature()) if prob_is_tile else type(prob),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(DROPOUT, arguments(DROPOUT, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(DROPOUT, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(DROPOUT, key, arguments(DROPOUT, locals()))
        try:
            offsets = execute.dropout(core, call, dst, data, prob, prob_is_tile)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if prob_is_tile else prob or zero(prob),
                    Tile if prob_is_tile else type(prob),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (prob.storage.id, numbers[prob.geometry], prob.offset)
                        if prob_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if prob_is_tile else prob or zero(prob),
                            Tile if prob_is_tile else type(prob),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(DROPOUT, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


EXPONENTIAL = INSTRUCTIONS["exponential"]


def exponential(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    max_value: TileOrNumber = 0.0,
    reduce_res: MaybeTile = None,
    reduce_cmd: reduce_cmd | int = reduce_cmd.idle,
    reduce_init: TileOrNumber = 0.0,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = exp(src[p, f] - max_value[p]);  reduce_res[p] = sum over f of exp(...)

    The sum is of float32 numbers, before they are rounded to dst.
    """
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(EXPONENTIAL, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        max_value_is_tile = isinstance(max_value, Tile)
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        reduce_init_is_tile = isinstance(reduce_init, Tile)
        try:
            special: Any = None
            if reduce_cmd is not REDUCE_CMD_IDLE:
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_IDLE, reduce_cmd)
                special = (reduce_cmd,)
            key = (
                EXPONENTIAL,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                (max_value._signature or max_value.signature())
                if max_value_is_tile
                else type(max_value),
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                (reduce_init._signature or reduce_init.signature())
                if reduce_init_is_tile
                else type(reduce_init),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(EXPONENTIAL, arguments(EXPONENTIAL, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(EXPONENTIAL, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(EXPONENTIAL, key, arguments(EXPONENTIAL, locals()))
        try:
            offsets = execute.exponential(
                core,
                call,
                dst,
                src,
                max_value,
                reduce_res,
                reduce_cmd,
                reduce_init,
                max_value_is_tile,
                reduce_res_is_tile,
                reduce_init_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if max_value_is_tile else max_value or zero(max_value),
                    Tile if max_value_is_tile else type(max_value),
                    None if reduce_init_is_tile else reduce_init or zero(reduce_init),
                    Tile if reduce_init_is_tile else type(reduce_init),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    *(
                        (max_value.storage.id, numbers[max_value.geometry], max_value.offset)
                        if max_value_is_tile
                        else ()
                    ),
                    *(
                        (reduce_init.storage.id, numbers[reduce_init.geometry], reduce_init.offset)
                        if reduce_init_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if max_value_is_tile else max_value or zero(max_value),
                            Tile if max_value_is_tile else type(max_value),
                            None if reduce_init_is_tile else reduce_init or zero(reduce_init),
                            Tile if reduce_init_is_tile else type(reduce_init),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(EXPONENTIAL, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


IOTA = INSTRUCTIONS["iota"]


def iota(
    dst: Tile = MISSING,
    pattern: Any = MISSING,
    offset: Any = 0,
    channel_multiplier: int = 0,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x"""
    if extra or unknown or dst is MISSING or pattern is MISSING:
        settle(IOTA, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(pattern) is tuple and not pattern):
                pattern = IOTA.declared["pattern"].take("iota", "pattern", pattern)
            if not (
                type(offset) is VirtualRegister
                or type(offset) is int
                and -2147483648 <= offset <= 2147483647
            ):
                offset = IOTA.declared["offset"].take("iota", "offset", offset)
            if not (
                type(channel_multiplier) is int and -2147483648 <= channel_multiplier <= 2147483647
            ):
                channel_multiplier = IOTA.declared["channel_multiplier"].take(
                    "iota", "channel_multiplier", channel_multiplier
                )
            key = (
                IOTA,
                (dst._signature or dst.signature()),
                pattern,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(IOTA, arguments(IOTA, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(IOTA, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(IOTA, key, arguments(IOTA, locals()))
        try:
            offsets = execute.iota(core, call, dst, pattern, offset, channel_multiplier)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    numbered(core.program, offset)
                    if type(offset) is VirtualRegister
                    else offset or zero(offset),
                    type(offset),
                    channel_multiplier or zero(channel_multiplier),
                    type(channel_multiplier),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            numbered(core.program, offset)
                            if type(offset) is VirtualRegister
                            else offset or zero(offset),
                            type(offset),
                            channel_multiplier or zero(channel_multiplier),
                            type(channel_multiplier),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(IOTA, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


LOCAL_GATHER = INSTRUCTIONS["local_gather"]
LOCAL_GATHER_NUM_ELEM_PER_IDX = 1


def local_gather(
    dst: Tile = MISSING,
    src_buffer: Tile = MISSING,
    index: Tile = MISSING,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[16c + p, n*i + j] = src_buffer[16c + p, index[16c + i % 16, i // 16] + j], j < n

    c is the number of a group of 16 partitions, and p is the number of a partition in its group. n
    is num_elem_per_idx, and i is below num_valid_indices. The numbers in index count elements.
    """
    if extra or unknown or dst is MISSING or src_buffer is MISSING or index is MISSING:
        settle(LOCAL_GATHER, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if (
                num_elem_per_idx is not LOCAL_GATHER_NUM_ELEM_PER_IDX
                or num_valid_indices is not None
            ):
                if not (type(num_elem_per_idx) is int):
                    num_elem_per_idx = LOCAL_GATHER.declared["num_elem_per_idx"].take(
                        "local_gather", "num_elem_per_idx", num_elem_per_idx
                    )
                if not (num_valid_indices is None or type(num_valid_indices) is int):
                    num_valid_indices = LOCAL_GATHER.declared["num_valid_indices"].take(
                        "local_gather", "num_valid_indices", num_valid_indices
                    )
                special = (
                    num_elem_per_idx,
                    num_valid_indices,
                )
            key = (
                LOCAL_GATHER,
                (dst._signature or dst.signature()),
                (src_buffer._signature or src_buffer.signature()),
                (index._signature or index.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(LOCAL_GATHER, arguments(LOCAL_GATHER, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(LOCAL_GATHER, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(LOCAL_GATHER, key, arguments(LOCAL_GATHER, locals()))
        try:
            offsets = execute.local_gather(
                core, call, dst, src_buffer, index, num_elem_per_idx, num_valid_indices
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src_buffer.storage.id,
                    numbers[src_buffer.geometry],
                    src_buffer.offset,
                    index.storage.id,
                    numbers[index.geometry],
                    index.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(LOCAL_GATHER, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


MAX8 = INSTRUCTIONS["max8"]


def max8(
    dst: Tile = MISSING, src: Tile = MISSING, name: Any = None, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst[p, i] = the i-th greatest of src[p, :], i = 0...7; equal elements count separately

    NaN is above all numbers (unpublished: `Options.nan_minmax`); +0 is above -0.
    """
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(MAX8, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                MAX8,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(MAX8, arguments(MAX8, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(MAX8, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(MAX8, key, arguments(MAX8, locals()))
        try:
            offsets = execute.max8(core, call, dst, src)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(MAX8, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


MEMSET = INSTRUCTIONS["memset"]


def memset(
    dst: Tile = MISSING,
    value: Real = MISSING,
    engine: engine | int = engine.unknown,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = value; for packed formats it must be 0"""
    if extra or unknown or dst is MISSING or value is MISSING:
        settle(MEMSET, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(value) is float or type(value) is int):
                value = MEMSET.declared["value"].take("memset", "value", value)
            special: Any = None
            if engine is not ENGINE_UNKNOWN:
                if type(engine) is int:
                    engine = member(ENGINE_UNKNOWN, engine)
                special = (engine,)
            key = (
                MEMSET,
                (dst._signature or dst.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(MEMSET, arguments(MEMSET, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(MEMSET, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(MEMSET, key, arguments(MEMSET, locals()))
        try:
            offsets = execute.memset(core, call, dst, value, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    value or zero(value),
                    type(value),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            value or zero(value),
                            type(value),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(MEMSET, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_FIND_INDEX8 = INSTRUCTIONS["nc_find_index8"]


def nc_find_index8(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    vals: Tile = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, i] = the first f with data[p, f] == vals[p, i]; if there is none, a number with all
    bits set

    If vals[p, :] has a value several times, the first i gets the value's first position, and so on.
    """
    if extra or unknown or dst is MISSING or data is MISSING or vals is MISSING:
        settle(NC_FIND_INDEX8, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                NC_FIND_INDEX8,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                (vals._signature or vals.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_FIND_INDEX8, arguments(NC_FIND_INDEX8, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_FIND_INDEX8, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_FIND_INDEX8, key, arguments(NC_FIND_INDEX8, locals()))
        try:
            offsets = execute.nc_find_index8(core, call, dst, data, vals)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    vals.storage.id,
                    numbers[vals.geometry],
                    vals.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_FIND_INDEX8, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_MATCH_REPLACE8 = INSTRUCTIONS["nc_match_replace8"]


def nc_match_replace8(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    vals: Tile = MISSING,
    imm: Real = MISSING,
    dst_idx: MaybeTile = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, :] = data[p, :], but imm at f_i, the first f with data[p, f] == vals[p, i], i = 0...7

    dst_idx[p, i] = f_i; if there is none, a number with all bits set. If vals[p, :] has a value
    several times, the last i gets the value's first position, and so on.
    """
    if extra or unknown or dst is MISSING or data is MISSING or vals is MISSING or imm is MISSING:
        settle(NC_MATCH_REPLACE8, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        dst_idx_is_tile = isinstance(dst_idx, Tile)
        try:
            if not (type(imm) is float or type(imm) is int):
                imm = NC_MATCH_REPLACE8.declared["imm"].take("nc_match_replace8", "imm", imm)
            key = (
                NC_MATCH_REPLACE8,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                (vals._signature or vals.signature()),
                (dst_idx._signature or dst_idx.signature()) if dst_idx_is_tile else type(dst_idx),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_MATCH_REPLACE8, arguments(NC_MATCH_REPLACE8, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_MATCH_REPLACE8, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_MATCH_REPLACE8, key, arguments(NC_MATCH_REPLACE8, locals()))
        try:
            offsets = execute.nc_match_replace8(
                core, call, dst, data, vals, imm, dst_idx, dst_idx_is_tile
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    imm or zero(imm),
                    type(imm),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    vals.storage.id,
                    numbers[vals.geometry],
                    vals.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (dst_idx.storage.id, numbers[dst_idx.geometry], dst_idx.offset)
                        if dst_idx_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            imm or zero(imm),
                            type(imm),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_MATCH_REPLACE8, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_MATMUL = INSTRUCTIONS["nc_matmul"]
NC_MATMUL_TILE_POSITION = ()
NC_MATMUL_TILE_SIZE = ()


def nc_matmul(
    dst: Tile = MISSING,
    stationary: Tile = MISSING,
    moving: Tile = MISSING,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: matmul_perf_mode | int = matmul_perf_mode.none,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[k, n]

    The sum is a float32 chain from k = 0. It is added to dst if the instruction accumulates.
    double_row takes [K/2, 2, M] and [K/2, 2, N]: the products of k and k + K/2 are added first.
    `Options` can select other sums for float32, and other ways to read operands.
    """
    if extra or unknown or dst is MISSING or stationary is MISSING or moving is MISSING:
        settle(NC_MATMUL, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if (
                is_stationary_onezero is not False
                or is_moving_onezero is not False
                or is_transpose is not False
                or accumulate is not None
                or tile_position is not NC_MATMUL_TILE_POSITION
                or tile_size is not NC_MATMUL_TILE_SIZE
                or perf_mode is not MATMUL_PERF_MODE_NONE
            ):
                if not (
                    tile_position is None or type(tile_position) is tuple and not tile_position
                ):
                    tile_position = NC_MATMUL.declared["tile_position"].take(
                        "nc_matmul", "tile_position", tile_position
                    )
                if not (tile_size is None or type(tile_size) is tuple and not tile_size):
                    tile_size = NC_MATMUL.declared["tile_size"].take(
                        "nc_matmul", "tile_size", tile_size
                    )
                if type(perf_mode) is int:
                    perf_mode = member(MATMUL_PERF_MODE_NONE, perf_mode)
                special = (
                    type(is_stationary_onezero),
                    is_stationary_onezero,
                    type(is_moving_onezero),
                    is_moving_onezero,
                    type(is_transpose),
                    is_transpose,
                    type(accumulate),
                    accumulate,
                    tile_position,
                    tile_size,
                    perf_mode,
                )
            key = (
                NC_MATMUL,
                (dst._signature or dst.signature()),
                (stationary._signature or stationary.signature()),
                (moving._signature or moving.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_MATMUL, arguments(NC_MATMUL, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_MATMUL, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_MATMUL, key, arguments(NC_MATMUL, locals()))
        try:
            offsets = execute.nc_matmul(
                core,
                call,
                dst,
                stationary,
                moving,
                is_stationary_onezero,
                is_moving_onezero,
                is_transpose,
                accumulate,
                tile_position,
                tile_size,
                perf_mode,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    stationary.storage.id,
                    numbers[stationary.geometry],
                    stationary.offset,
                    moving.storage.id,
                    numbers[moving.geometry],
                    moving.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_MATMUL, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_MATMUL_MX = INSTRUCTIONS["nc_matmul_mx"]


def nc_matmul_mx(
    dst: Tile = MISSING,
    stationary: Tile = MISSING,
    moving: Tile = MISSING,
    stationary_scale: Tile = MISSING,
    moving_scale: Tile = MISSING,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: bool | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[m, n] (+)= sum_k sum_i stationary[k, m][i] ss[k/8, m] * moving[k, n][i] ms[k/8, n]

    ss and ms are stationary_scale and moving_scale. The four products of i are added first, from
    the left, and scaled once. Everything else is as in nc_matmul. `Options.mx_order` can select
    another order.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or stationary is MISSING
        or moving is MISSING
        or stationary_scale is MISSING
        or moving_scale is MISSING
    ):
        settle(NC_MATMUL_MX, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if tile_position is not None or tile_size is not None or accumulate is not None:
                if not (
                    tile_position is None or type(tile_position) is tuple and not tile_position
                ):
                    tile_position = NC_MATMUL_MX.declared["tile_position"].take(
                        "nc_matmul_mx", "tile_position", tile_position
                    )
                if not (tile_size is None or type(tile_size) is tuple and not tile_size):
                    tile_size = NC_MATMUL_MX.declared["tile_size"].take(
                        "nc_matmul_mx", "tile_size", tile_size
                    )
                special = (
                    tile_position,
                    tile_size,
                    type(accumulate),
                    accumulate,
                )
            key = (
                NC_MATMUL_MX,
                (dst._signature or dst.signature()),
                (stationary._signature or stationary.signature()),
                (moving._signature or moving.signature()),
                (stationary_scale._signature or stationary_scale.signature()),
                (moving_scale._signature or moving_scale.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_MATMUL_MX, arguments(NC_MATMUL_MX, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_MATMUL_MX, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_MATMUL_MX, key, arguments(NC_MATMUL_MX, locals()))
        try:
            offsets = execute.nc_matmul_mx(
                core,
                call,
                dst,
                stationary,
                moving,
                stationary_scale,
                moving_scale,
                tile_position,
                tile_size,
                accumulate,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    stationary.storage.id,
                    numbers[stationary.geometry],
                    stationary.offset,
                    moving.storage.id,
                    numbers[moving.geometry],
                    moving.offset,
                    stationary_scale.storage.id,
                    numbers[stationary_scale.geometry],
                    stationary_scale.offset,
                    moving_scale.storage.id,
                    numbers[moving_scale.geometry],
                    moving_scale.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_MATMUL_MX, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_MATMUL_SPARSE = INSTRUCTIONS["nc_matmul_sparse"]
NC_MATMUL_SPARSE_PATTERN = (4, 16)
NC_MATMUL_SPARSE_PLACES = "partition"


def nc_matmul_sparse(
    dst: Tile = MISSING,
    stationary: Tile = MISSING,
    moving: Tile = MISSING,
    tags: Tile = MISSING,
    pattern: Any = (4, 16),
    places: Any = "partition",
    accumulate: bool | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[A * (k // A) + a, c, n]

    `pattern` is (A, N): of each N adjacent weights, A are kept. The N moving numbers of such a
    group are in A partitions, with N / A slots each. The tag of weight [k, m], 4 bits of
    tags[k, m // 4], gives its partition `a` in the group and its slot `c`. The tag is
    a * (N / A) + c, or c * A + a if `places` is "slot". Products are summed as in nc_matmul. No
    released API has this instruction (`Options.experimental`).
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or stationary is MISSING
        or moving is MISSING
        or tags is MISSING
    ):
        settle(NC_MATMUL_SPARSE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if (
                pattern is not NC_MATMUL_SPARSE_PATTERN
                or places is not NC_MATMUL_SPARSE_PLACES
                or accumulate is not None
            ):
                if not (type(pattern) is tuple and not pattern):
                    pattern = NC_MATMUL_SPARSE.declared["pattern"].take(
                        "nc_matmul_sparse", "pattern", pattern
                    )
                special = (
                    pattern,
                    places if type(places) is int else (kinds(places), places),
                    type(accumulate),
                    accumulate,
                )
            key = (
                NC_MATMUL_SPARSE,
                (dst._signature or dst.signature()),
                (stationary._signature or stationary.signature()),
                (moving._signature or moving.signature()),
                (tags._signature or tags.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_MATMUL_SPARSE, arguments(NC_MATMUL_SPARSE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_MATMUL_SPARSE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_MATMUL_SPARSE, key, arguments(NC_MATMUL_SPARSE, locals()))
        try:
            offsets = execute.nc_matmul_sparse(
                core, call, dst, stationary, moving, tags, pattern, places, accumulate
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    stationary.storage.id,
                    numbers[stationary.geometry],
                    stationary.offset,
                    moving.storage.id,
                    numbers[moving.geometry],
                    moving.offset,
                    tags.storage.id,
                    numbers[tags.geometry],
                    tags.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_MATMUL_SPARSE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_N_GATHER = INSTRUCTIONS["nc_n_gather"]


def nc_n_gather(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    indices: Tile = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = data[p, indices[p, f]], with all free axes of data flattened into one"""
    if extra or unknown or dst is MISSING or data is MISSING or indices is MISSING:
        settle(NC_N_GATHER, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                NC_N_GATHER,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                (indices._signature or indices.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_N_GATHER, arguments(NC_N_GATHER, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_N_GATHER, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_N_GATHER, key, arguments(NC_N_GATHER, locals()))
        try:
            offsets = execute.nc_n_gather(core, call, dst, data, indices)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    indices.storage.id,
                    numbers[indices.geometry],
                    indices.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_N_GATHER, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_STREAM_SHUFFLE = INSTRUCTIONS["nc_stream_shuffle"]


def nc_stream_shuffle(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    shuffle_mask: Any = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[32q + i, f] = src[32q + shuffle_mask[i], f] in each quadrant q; 255 keeps dst unchanged

    If src has fewer quadrants than dst, they repeat: quadrant q of dst reads quadrant q % n of the
    n quadrants of src.
    """
    if extra or unknown or dst is MISSING or src is MISSING or shuffle_mask is MISSING:
        settle(NC_STREAM_SHUFFLE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(shuffle_mask) is tuple and not shuffle_mask):
                shuffle_mask = NC_STREAM_SHUFFLE.declared["shuffle_mask"].take(
                    "nc_stream_shuffle", "shuffle_mask", shuffle_mask
                )
            key = (
                NC_STREAM_SHUFFLE,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                shuffle_mask,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_STREAM_SHUFFLE, arguments(NC_STREAM_SHUFFLE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_STREAM_SHUFFLE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_STREAM_SHUFFLE, key, arguments(NC_STREAM_SHUFFLE, locals()))
        try:
            offsets = execute.nc_stream_shuffle(core, call, dst, src, shuffle_mask)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_STREAM_SHUFFLE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NC_TRANSPOSE = INSTRUCTIONS["nc_transpose"]


def nc_transpose(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    engine: engine | int = engine.unknown,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[f, p] = data[p, f]

    From v3 on, the bits are unchanged. On these machines, the Tensor engine may write an 8-bit
    float into an element of 16 bits, whose upper 8 bits become 0. On v2 the Tensor engine
    multiplies by an identity matrix: NaN and infinities spread along their row, -0 becomes +0, and
    an uninitialized element counts as finite.
    """
    if extra or unknown or dst is MISSING or data is MISSING:
        settle(NC_TRANSPOSE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if engine is not ENGINE_UNKNOWN:
                if type(engine) is int:
                    engine = member(ENGINE_UNKNOWN, engine)
                special = (engine,)
            key = (
                NC_TRANSPOSE,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NC_TRANSPOSE, arguments(NC_TRANSPOSE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NC_TRANSPOSE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NC_TRANSPOSE, key, arguments(NC_TRANSPOSE, locals()))
        try:
            offsets = execute.nc_transpose(core, call, dst, data, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NC_TRANSPOSE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


NONZERO_WITH_COUNT = INSTRUCTIONS["nonzero_with_count"]


def nonzero_with_count(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    index_offset: int = 0,
    padding_val: int = -1,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, :] = [f + index_offset where src[p, f] != 0, padding_val ..., count];  p = 0, 16...

    Other partitions of dst are unchanged, and other partitions of src are not read.
    """
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(NONZERO_WITH_COUNT, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(index_offset) is int and -2147483648 <= index_offset <= 2147483647):
                index_offset = NONZERO_WITH_COUNT.declared["index_offset"].take(
                    "nonzero_with_count", "index_offset", index_offset
                )
            if not (type(padding_val) is int and -2147483648 <= padding_val <= 2147483647):
                padding_val = NONZERO_WITH_COUNT.declared["padding_val"].take(
                    "nonzero_with_count", "padding_val", padding_val
                )
            key = (
                NONZERO_WITH_COUNT,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(NONZERO_WITH_COUNT, arguments(NONZERO_WITH_COUNT, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(NONZERO_WITH_COUNT, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(NONZERO_WITH_COUNT, key, arguments(NONZERO_WITH_COUNT, locals()))
        try:
            offsets = execute.nonzero_with_count(core, call, dst, src, index_offset, padding_val)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    index_offset or zero(index_offset),
                    type(index_offset),
                    padding_val or zero(padding_val),
                    type(padding_val),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            index_offset or zero(index_offset),
                            type(index_offset),
                            padding_val or zero(padding_val),
                            type(padding_val),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(NONZERO_WITH_COUNT, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


QUANTIZE_MX = INSTRUCTIONS["quantize_mx"]


def quantize_mx(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    dst_scale: Tile = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f][i] = src[p, 4f + i] / X;  dst_scale[p/8, f] = X = 2^(floor(log2 amax) - emax + 1)

    amax is the greatest magnitude of a group, which is 8 partitions times 4 elements. emax is 8 for
    e4m3fn, and 15 for e5m2. Elements are rounded to nearest even, and saturate. The scale of zeros
    is 2^-127. If a group has a NaN or an infinity, its scale and all its elements become NaN
    (unpublished). Other partitions of dst_scale are unchanged. `Options.mx_scale` can select the
    older rule.
    """
    if extra or unknown or dst is MISSING or src is MISSING or dst_scale is MISSING:
        settle(QUANTIZE_MX, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                QUANTIZE_MX,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                (dst_scale._signature or dst_scale.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(QUANTIZE_MX, arguments(QUANTIZE_MX, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(QUANTIZE_MX, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(QUANTIZE_MX, key, arguments(QUANTIZE_MX, locals()))
        try:
            offsets = execute.quantize_mx(core, call, dst, src, dst_scale)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    dst_scale.storage.id,
                    numbers[dst_scale.geometry],
                    dst_scale.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(QUANTIZE_MX, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RAND2 = INSTRUCTIONS["rand2"]


def rand2(
    dst: Tile = MISSING,
    min: TileOrNumber = MISSING,
    max: TileOrNumber = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = min[p] + u * (max[p] - min[p]), u uniform in [0, 1)

    u is the upper 24 bits of a random number. Each operation rounds to float32, so the result may
    be max itself.
    """
    if extra or unknown or dst is MISSING or min is MISSING or max is MISSING:
        settle(RAND2, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        min_is_tile = isinstance(min, Tile)
        max_is_tile = isinstance(max, Tile)
        try:
            key = (
                RAND2,
                (dst._signature or dst.signature()),
                (min._signature or min.signature()) if min_is_tile else type(min),
                (max._signature or max.signature()) if max_is_tile else type(max),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RAND2, arguments(RAND2, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RAND2, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RAND2, key, arguments(RAND2, locals()))
        try:
            offsets = execute.rand2(core, call, dst, min, max, min_is_tile, max_is_tile)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if min_is_tile else min or zero(min),
                    Tile if min_is_tile else type(min),
                    None if max_is_tile else max or zero(max),
                    Tile if max_is_tile else type(max),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *((min.storage.id, numbers[min.geometry], min.offset) if min_is_tile else ()),
                    *((max.storage.id, numbers[max.geometry], max.offset) if max_is_tile else ()),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if min_is_tile else min or zero(min),
                            Tile if min_is_tile else type(min),
                            None if max_is_tile else max or zero(max),
                            Tile if max_is_tile else type(max),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RAND2, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RAND_GET_STATE = INSTRUCTIONS["rand_get_state"]


def rand_get_state(
    dst: Tile = MISSING,
    engine: engine | int = engine.gpsimd,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, :] = state[p], 6 words of the GpSimd engine, 4 x 6 of the Vector engine"""
    if extra or unknown or dst is MISSING:
        settle(RAND_GET_STATE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if engine is not ENGINE_GPSIMD:
                if type(engine) is int:
                    engine = member(ENGINE_GPSIMD, engine)
                special = (engine,)
            key = (
                RAND_GET_STATE,
                (dst._signature or dst.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RAND_GET_STATE, arguments(RAND_GET_STATE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RAND_GET_STATE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RAND_GET_STATE, key, arguments(RAND_GET_STATE, locals()))
        try:
            offsets = execute.rand_get_state(core, call, dst, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(line, ~call.index, dst.storage.id, numbers[dst.geometry], dst.offset)
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RAND_GET_STATE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RAND_SET_STATE = INSTRUCTIONS["rand_set_state"]


def rand_set_state(
    src_seeds: Tile = MISSING,
    engine: engine | int = engine.gpsimd,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """state[p] = src_seeds[p, :], 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    if extra or unknown or src_seeds is MISSING:
        settle(RAND_SET_STATE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if engine is not ENGINE_GPSIMD:
                if type(engine) is int:
                    engine = member(ENGINE_GPSIMD, engine)
                special = (engine,)
            key = (
                RAND_SET_STATE,
                (src_seeds._signature or src_seeds.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RAND_SET_STATE, arguments(RAND_SET_STATE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RAND_SET_STATE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RAND_SET_STATE, key, arguments(RAND_SET_STATE, locals()))
        try:
            offsets = execute.rand_set_state(core, call, src_seeds, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src_seeds.storage.id,
                    numbers[src_seeds.geometry],
                    src_seeds.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RAND_SET_STATE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RANGE_SELECT = INSTRUCTIONS["range_select"]
RANGE_SELECT_ON_FALSE_VALUE = -3.4028234663852886e38


def range_select(
    dst: Tile = MISSING,
    on_true_tile: Tile = MISSING,
    comp_op0: Any = MISSING,
    comp_op1: Any = MISSING,
    bound0: TileOrNumber = MISSING,
    bound1: TileOrNumber = MISSING,
    reduce_cmd: reduce_cmd | int = reduce_cmd.reset_reduce,
    reduce_res: MaybeTile = None,
    reduce_op: Any = OPERATORS["maximum"],
    range_start: int = 0,
    on_false_value: Real = -3.4028234663852886e38,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = on_true_tile[p, f] if i <op0> bound0[p] and i <op1> bound1[p] else -3.4e38

    i = range_start + f, compared in float32. reduce_res[p] = the greatest of dst[p, :] before
    rounding. Elements outside of the range get the least float32, which becomes -inf in formats
    with a smaller range.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or on_true_tile is MISSING
        or comp_op0 is MISSING
        or comp_op1 is MISSING
        or bound0 is MISSING
        or bound1 is MISSING
    ):
        settle(RANGE_SELECT, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        bound0_is_tile = isinstance(bound0, Tile)
        bound1_is_tile = isinstance(bound1, Tile)
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        try:
            comp_op0 = comp_op0.operator
            comp_op1 = comp_op1.operator
            reduce_op = reduce_op.operator
            if not (type(range_start) is int and -2147483648 <= range_start <= 2147483647):
                range_start = RANGE_SELECT.declared["range_start"].take(
                    "range_select", "range_start", range_start
                )
            special: Any = None
            if (
                reduce_cmd is not REDUCE_CMD_RESET_REDUCE
                or on_false_value is not RANGE_SELECT_ON_FALSE_VALUE
            ):
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_RESET_REDUCE, reduce_cmd)
                if not (type(on_false_value) is float or type(on_false_value) is int):
                    on_false_value = RANGE_SELECT.declared["on_false_value"].take(
                        "range_select", "on_false_value", on_false_value
                    )
                special = (
                    reduce_cmd,
                    on_false_value,
                )
            key = (
                RANGE_SELECT,
                (dst._signature or dst.signature()),
                (on_true_tile._signature or on_true_tile.signature()),
                comp_op0,
                comp_op1,
                (bound0._signature or bound0.signature()) if bound0_is_tile else type(bound0),
                (bound1._signature or bound1.signature()) if bound1_is_tile else type(bound1),
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                reduce_op,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RANGE_SELECT, arguments(RANGE_SELECT, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RANGE_SELECT, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RANGE_SELECT, key, arguments(RANGE_SELECT, locals()))
        try:
            offsets = execute.range_select(
                core,
                call,
                dst,
                on_true_tile,
                comp_op0,
                comp_op1,
                bound0,
                bound1,
                reduce_cmd,
                reduce_res,
                reduce_op,
                range_start,
                on_false_value,
                bound0_is_tile,
                bound1_is_tile,
                reduce_res_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if bound0_is_tile else bound0 or zero(bound0),
                    Tile if bound0_is_tile else type(bound0),
                    None if bound1_is_tile else bound1 or zero(bound1),
                    Tile if bound1_is_tile else type(bound1),
                    range_start or zero(range_start),
                    type(range_start),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    on_true_tile.storage.id,
                    numbers[on_true_tile.geometry],
                    on_true_tile.offset,
                    *(
                        (bound0.storage.id, numbers[bound0.geometry], bound0.offset)
                        if bound0_is_tile
                        else ()
                    ),
                    *(
                        (bound1.storage.id, numbers[bound1.geometry], bound1.offset)
                        if bound1_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if bound0_is_tile else bound0 or zero(bound0),
                            Tile if bound0_is_tile else type(bound0),
                            None if bound1_is_tile else bound1 or zero(bound1),
                            Tile if bound1_is_tile else type(bound1),
                            range_start or zero(range_start),
                            type(range_start),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RANGE_SELECT, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RANK_ID = INSTRUCTIONS["rank_id"]


def rank_id(dst: Any = MISSING, *extra: Any, **unknown: Any) -> NkiInstruction:
    """dst = the number of this rank"""
    if extra or unknown or dst is MISSING:
        settle(RANK_ID, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(dst) is VirtualRegister and not dst.frozen):
                dst = RANK_ID.declared["dst"].take("rank_id", "dst", dst)
            key = (RANK_ID,)
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RANK_ID, arguments(RANK_ID, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RANK_ID, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RANK_ID, key, arguments(RANK_ID, locals()))
        try:
            offsets = execute.rank_id(core, call, dst)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(call.pack(line, ~call.index))
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RANK_ID, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RECIPROCAL = INSTRUCTIONS["reciprocal"]


def reciprocal(
    dst: Tile = MISSING, data: Tile = MISSING, name: Any = None, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst[p, f] = 1 / data[p, f]"""
    if extra or unknown or dst is MISSING or data is MISSING:
        settle(RECIPROCAL, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                RECIPROCAL,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RECIPROCAL, arguments(RECIPROCAL, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RECIPROCAL, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RECIPROCAL, key, arguments(RECIPROCAL, locals()))
        try:
            offsets = execute.reciprocal(core, call, dst, data)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RECIPROCAL, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


REDUCE_SCATTER = INSTRUCTIONS["reduce_scatter"]


def reduce_scatter(
    srcs: Tiles = MISSING,
    dsts: Tiles = MISSING,
    replica_group: Any = MISSING,
    collective_dim: int = MISSING,
    op: Any = MISSING,
    priority: int | None = None,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dsts[i] = this rank's piece, along collective_dim, of srcs[i] of all ranks, reduced by op"""
    if (
        extra
        or unknown
        or srcs is MISSING
        or dsts is MISSING
        or replica_group is MISSING
        or collective_dim is MISSING
        or op is MISSING
    ):
        settle(REDUCE_SCATTER, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not are_tiles(srcs):
                raise TypeError
            if not are_tiles(dsts):
                raise TypeError
            if not (type(replica_group) is tuple and not replica_group):
                replica_group = REDUCE_SCATTER.declared["replica_group"].take(
                    "reduce_scatter", "replica_group", replica_group
                )
            if not (type(collective_dim) is int):
                collective_dim = REDUCE_SCATTER.declared["collective_dim"].take(
                    "reduce_scatter", "collective_dim", collective_dim
                )
            op = op.operator
            special: Any = None
            if priority is not None:
                if not (priority is None or type(priority) is int):
                    priority = REDUCE_SCATTER.declared["priority"].take(
                        "reduce_scatter", "priority", priority
                    )
                special = (priority,)
            key = (
                REDUCE_SCATTER,
                tuple([tile.signature() for tile in srcs]),
                tuple([tile.signature() for tile in dsts]),
                replica_group,
                collective_dim,
                op,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(REDUCE_SCATTER, arguments(REDUCE_SCATTER, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(REDUCE_SCATTER, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(REDUCE_SCATTER, key, arguments(REDUCE_SCATTER, locals()))
        try:
            offsets = execute.reduce_scatter(
                core, call, srcs, dsts, replica_group, collective_dim, op, priority
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *[number for tile in srcs for number in program.window(tile)],
                    *[number for tile in dsts for number in program.window(tile)],
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(REDUCE_SCATTER, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


REGISTER_LOAD = INSTRUCTIONS["register_load"]


def register_load(
    dst: Any = MISSING, src: Tile = MISSING, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst = src[0, 0]"""
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(REGISTER_LOAD, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(dst) is VirtualRegister and not dst.frozen):
                dst = REGISTER_LOAD.declared["dst"].take("register_load", "dst", dst)
            key = (
                REGISTER_LOAD,
                (src._signature or src.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(REGISTER_LOAD, arguments(REGISTER_LOAD, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(REGISTER_LOAD, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(REGISTER_LOAD, key, arguments(REGISTER_LOAD, locals()))
        try:
            offsets = execute.register_load(core, call, dst, src)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(line, ~call.index, src.storage.id, numbers[src.geometry], src.offset)
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(REGISTER_LOAD, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


REGISTER_MOVE = INSTRUCTIONS["register_move"]


def register_move(
    dst: Any = MISSING, src: Any = MISSING, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst = src"""
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(REGISTER_MOVE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(dst) is VirtualRegister and not dst.frozen):
                dst = REGISTER_MOVE.declared["dst"].take("register_move", "dst", dst)
            if not (type(src) is VirtualRegister or type(src) is int):
                src = REGISTER_MOVE.declared["src"].take("register_move", "src", src)
            key = (REGISTER_MOVE,)
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(REGISTER_MOVE, arguments(REGISTER_MOVE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(REGISTER_MOVE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(REGISTER_MOVE, key, arguments(REGISTER_MOVE, locals()))
        try:
            offsets = execute.register_move(core, call, dst, src)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    numbered(core.program, src)
                    if type(src) is VirtualRegister
                    else src or zero(src),
                    type(src),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    program.data.value(
                        (
                            numbered(core.program, src)
                            if type(src) is VirtualRegister
                            else src or zero(src),
                            type(src),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(REGISTER_MOVE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


REGISTER_STORE = INSTRUCTIONS["register_store"]


def register_store(
    dst: Tile = MISSING, src: Any = MISSING, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst[0, 0] = src"""
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(REGISTER_STORE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(src) is VirtualRegister):
                src = REGISTER_STORE.declared["src"].take("register_store", "src", src)
            key = (
                REGISTER_STORE,
                (dst._signature or dst.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(REGISTER_STORE, arguments(REGISTER_STORE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(REGISTER_STORE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(REGISTER_STORE, key, arguments(REGISTER_STORE, locals()))
        try:
            offsets = execute.register_store(core, call, dst, src)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    numbered(core.program, src)
                    if type(src) is VirtualRegister
                    else src or zero(src),
                    type(src),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            numbered(core.program, src)
                            if type(src) is VirtualRegister
                            else src or zero(src),
                            type(src),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(REGISTER_STORE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


RNG = INSTRUCTIONS["rng"]


def rng(
    dst: Tile = MISSING,
    engine: engine | int = engine.vector,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = the lowest bits of the next 32-bit random number of lane p"""
    if extra or unknown or dst is MISSING:
        settle(RNG, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if engine is not ENGINE_VECTOR:
                if type(engine) is int:
                    engine = member(ENGINE_VECTOR, engine)
                special = (engine,)
            key = (
                RNG,
                (dst._signature or dst.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(RNG, arguments(RNG, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(RNG, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(RNG, key, arguments(RNG, locals()))
        try:
            offsets = execute.rng(core, call, dst, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(line, ~call.index, dst.storage.id, numbers[dst.geometry], dst.offset)
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(RNG, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


SCALAR_TENSOR_TENSOR = INSTRUCTIONS["scalar_tensor_tensor"]


def scalar_tensor_tensor(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    op0: Any = MISSING,
    operand0: TileOrNumber = MISSING,
    op1: Any = MISSING,
    operand1: Tile = MISSING,
    reverse0: bool = False,
    reverse1: bool = False,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p, f]"""
    if (
        extra
        or unknown
        or dst is MISSING
        or data is MISSING
        or op0 is MISSING
        or operand0 is MISSING
        or op1 is MISSING
        or operand1 is MISSING
    ):
        settle(SCALAR_TENSOR_TENSOR, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        operand0_is_tile = isinstance(operand0, Tile)
        try:
            op0 = op0.operator
            op1 = op1.operator
            special: Any = None
            if reverse0 is not False or reverse1 is not False:
                special = (
                    type(reverse0),
                    reverse0,
                    type(reverse1),
                    reverse1,
                )
            key = (
                SCALAR_TENSOR_TENSOR,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                op0,
                (operand0._signature or operand0.signature())
                if operand0_is_tile
                else type(operand0),
                op1,
                (operand1._signature or operand1.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(SCALAR_TENSOR_TENSOR, arguments(SCALAR_TENSOR_TENSOR, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(SCALAR_TENSOR_TENSOR, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                SCALAR_TENSOR_TENSOR, key, arguments(SCALAR_TENSOR_TENSOR, locals())
            )
        try:
            offsets = execute.scalar_tensor_tensor(
                core,
                call,
                dst,
                data,
                op0,
                operand0,
                op1,
                operand1,
                reverse0,
                reverse1,
                operand0_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if operand0_is_tile else operand0 or zero(operand0),
                    Tile if operand0_is_tile else type(operand0),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (operand0.storage.id, numbers[operand0.geometry], operand0.offset)
                        if operand0_is_tile
                        else ()
                    ),
                    operand1.storage.id,
                    numbers[operand1.geometry],
                    operand1.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if operand0_is_tile else operand0 or zero(operand0),
                            Tile if operand0_is_tile else type(operand0),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(SCALAR_TENSOR_TENSOR, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


SELECT_REDUCE = INSTRUCTIONS["select_reduce"]


def select_reduce(
    dst: Tile = MISSING,
    predicate: Tile = MISSING,
    on_true: Tile = MISSING,
    on_false: TileOrNumber = MISSING,
    reduce_res: MaybeTile = None,
    reduce_cmd: reduce_cmd | int = reduce_cmd.idle,
    reduce_op: Any = OPERATORS["maximum"],
    reverse_pred: bool = False,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p];  reduce_res[p] = max_f

    max_f is the greatest of dst[p, :] before rounding.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or predicate is MISSING
        or on_true is MISSING
        or on_false is MISSING
    ):
        settle(SELECT_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        on_false_is_tile = isinstance(on_false, Tile)
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        try:
            reduce_op = reduce_op.operator
            special: Any = None
            if reduce_cmd is not REDUCE_CMD_IDLE or reverse_pred is not False:
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_IDLE, reduce_cmd)
                special = (
                    reduce_cmd,
                    type(reverse_pred),
                    reverse_pred,
                )
            key = (
                SELECT_REDUCE,
                (dst._signature or dst.signature()),
                (predicate._signature or predicate.signature()),
                (on_true._signature or on_true.signature()),
                (on_false._signature or on_false.signature())
                if on_false_is_tile
                else type(on_false),
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                reduce_op,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(SELECT_REDUCE, arguments(SELECT_REDUCE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(SELECT_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(SELECT_REDUCE, key, arguments(SELECT_REDUCE, locals()))
        try:
            offsets = execute.select_reduce(
                core,
                call,
                dst,
                predicate,
                on_true,
                on_false,
                reduce_res,
                reduce_cmd,
                reduce_op,
                reverse_pred,
                on_false_is_tile,
                reduce_res_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if on_false_is_tile else on_false or zero(on_false),
                    Tile if on_false_is_tile else type(on_false),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    predicate.storage.id,
                    numbers[predicate.geometry],
                    predicate.offset,
                    on_true.storage.id,
                    numbers[on_true.geometry],
                    on_true.offset,
                    *(
                        (on_false.storage.id, numbers[on_false.geometry], on_false.offset)
                        if on_false_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if on_false_is_tile else on_false or zero(on_false),
                            Tile if on_false_is_tile else type(on_false),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(SELECT_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


SENDRECV = INSTRUCTIONS["sendrecv"]


def sendrecv(
    src: Tile = MISSING,
    dst: Tile = MISSING,
    send_to_rank: int = MISSING,
    recv_from_rank: int = MISSING,
    pipe_id: int = MISSING,
    dma_engine: dma_engine | int = dma_engine.dma,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst = the src that core recv_from_rank sends; this core sends its src to core send_to_rank"""
    if (
        extra
        or unknown
        or src is MISSING
        or dst is MISSING
        or send_to_rank is MISSING
        or recv_from_rank is MISSING
        or pipe_id is MISSING
    ):
        settle(SENDRECV, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(send_to_rank) is int):
                send_to_rank = SENDRECV.declared["send_to_rank"].take(
                    "sendrecv", "send_to_rank", send_to_rank
                )
            if not (type(recv_from_rank) is int):
                recv_from_rank = SENDRECV.declared["recv_from_rank"].take(
                    "sendrecv", "recv_from_rank", recv_from_rank
                )
            if not (type(pipe_id) is int and -2147483648 <= pipe_id <= 2147483647):
                pipe_id = SENDRECV.declared["pipe_id"].take("sendrecv", "pipe_id", pipe_id)
            special: Any = None
            if dma_engine is not DMA_ENGINE_DMA:
                if type(dma_engine) is int:
                    dma_engine = member(DMA_ENGINE_DMA, dma_engine)
                special = (dma_engine,)
            key = (
                SENDRECV,
                (src._signature or src.signature()),
                (dst._signature or dst.signature()),
                send_to_rank,
                recv_from_rank,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(SENDRECV, arguments(SENDRECV, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(SENDRECV, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(SENDRECV, key, arguments(SENDRECV, locals()))
        try:
            offsets = execute.sendrecv(
                core, call, src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    pipe_id or zero(pipe_id),
                    type(pipe_id),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            pipe_id or zero(pipe_id),
                            type(pipe_id),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(SENDRECV, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


SEQUENCE_BOUNDS = INSTRUCTIONS["sequence_bounds"]


def sequence_bounds(
    dst: Tile = MISSING, segment_ids: Tile = MISSING, name: Any = None, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """dst[0, :, f] = the start, and the end (exclusive), of the run of equal ids around f

    Padding, which has id 0, gets the number of ids as its start and -1 as its end.
    """
    if extra or unknown or dst is MISSING or segment_ids is MISSING:
        settle(SEQUENCE_BOUNDS, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                SEQUENCE_BOUNDS,
                (dst._signature or dst.signature()),
                (segment_ids._signature or segment_ids.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(SEQUENCE_BOUNDS, arguments(SEQUENCE_BOUNDS, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(SEQUENCE_BOUNDS, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(SEQUENCE_BOUNDS, key, arguments(SEQUENCE_BOUNDS, locals()))
        try:
            offsets = execute.sequence_bounds(core, call, dst, segment_ids)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    segment_ids.storage.id,
                    numbers[segment_ids.geometry],
                    segment_ids.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(SEQUENCE_BOUNDS, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


SET_RNG_SEED = INSTRUCTIONS["set_rng_seed"]


def set_rng_seed(
    src_seeds: Tile = MISSING, name: Any = None, *extra: Any, **unknown: Any
) -> NkiInstruction:
    """all lanes of the Vector engine restart from the seed src_seeds[0, 0]"""
    if extra or unknown or src_seeds is MISSING:
        settle(SET_RNG_SEED, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            key = (
                SET_RNG_SEED,
                (src_seeds._signature or src_seeds.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(SET_RNG_SEED, arguments(SET_RNG_SEED, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(SET_RNG_SEED, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(SET_RNG_SEED, key, arguments(SET_RNG_SEED, locals()))
        try:
            offsets = execute.set_rng_seed(core, call, src_seeds)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src_seeds.storage.id,
                    numbers[src_seeds.geometry],
                    src_seeds.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(SET_RNG_SEED, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_COPY = INSTRUCTIONS["tensor_copy"]


def tensor_copy(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    engine: engine | int = engine.unknown,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = src[p, f]; equal formats keep their bits, others are converted through float32"""
    if extra or unknown or dst is MISSING or src is MISSING:
        settle(TENSOR_COPY, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            special: Any = None
            if engine is not ENGINE_UNKNOWN:
                if type(engine) is int:
                    engine = member(ENGINE_UNKNOWN, engine)
                special = (engine,)
            key = (
                TENSOR_COPY,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TENSOR_COPY, arguments(TENSOR_COPY, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_COPY, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(TENSOR_COPY, key, arguments(TENSOR_COPY, locals()))
        try:
            offsets = execute.tensor_copy(core, call, dst, src, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_COPY, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_COPY_PREDICATED = INSTRUCTIONS["tensor_copy_predicated"]


def tensor_copy_predicated(
    dst: Tile = MISSING,
    src: TileOrNumber = MISSING,
    predicate: Tile = MISSING,
    reverse_pred: bool = False,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = src[p, f] if predicate[p, f] != 0, else unchanged"""
    if extra or unknown or dst is MISSING or src is MISSING or predicate is MISSING:
        settle(TENSOR_COPY_PREDICATED, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        src_is_tile = isinstance(src, Tile)
        try:
            special: Any = None
            if reverse_pred is not False:
                special = (
                    type(reverse_pred),
                    reverse_pred,
                )
            key = (
                TENSOR_COPY_PREDICATED,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()) if src_is_tile else type(src),
                (predicate._signature or predicate.signature()),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(
                TENSOR_COPY_PREDICATED, arguments(TENSOR_COPY_PREDICATED, locals()), fault
            )
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_COPY_PREDICATED, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                TENSOR_COPY_PREDICATED, key, arguments(TENSOR_COPY_PREDICATED, locals())
            )
        try:
            offsets = execute.tensor_copy_predicated(
                core, call, dst, src, predicate, reverse_pred, src_is_tile
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if src_is_tile else src or zero(src),
                    Tile if src_is_tile else type(src),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    *((src.storage.id, numbers[src.geometry], src.offset) if src_is_tile else ()),
                    predicate.storage.id,
                    numbers[predicate.geometry],
                    predicate.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if src_is_tile else src or zero(src),
                            Tile if src_is_tile else type(src),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_COPY_PREDICATED, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_PARTITION_REDUCE = INSTRUCTIONS["tensor_partition_reduce"]


def tensor_partition_reduce(
    dst: Tile = MISSING,
    op: Any = MISSING,
    data: Tile = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[0, f] = data[0, f] <op> data[1, f] <op> ... over the partitions;  average: sum / count"""
    if extra or unknown or dst is MISSING or op is MISSING or data is MISSING:
        settle(TENSOR_PARTITION_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            op = op.operator
            key = (
                TENSOR_PARTITION_REDUCE,
                (dst._signature or dst.signature()),
                op,
                (data._signature or data.signature()),
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(
                TENSOR_PARTITION_REDUCE, arguments(TENSOR_PARTITION_REDUCE, locals()), fault
            )
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_PARTITION_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                TENSOR_PARTITION_REDUCE, key, arguments(TENSOR_PARTITION_REDUCE, locals())
            )
        try:
            offsets = execute.tensor_partition_reduce(core, call, dst, op, data)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_PARTITION_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_REDUCE = INSTRUCTIONS["tensor_reduce"]


def tensor_reduce(
    dst: Tile = MISSING,
    op: Any = MISSING,
    data: Tile = MISSING,
    axis: Any = MISSING,
    negate: bool = False,
    keepdims: bool = False,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    if extra or unknown or dst is MISSING or op is MISSING or data is MISSING or axis is MISSING:
        settle(TENSOR_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            op = op.operator
            if type(axis) is list:
                axis = tuple(axis)
            special: Any = None
            if negate is not False or keepdims is not False:
                special = (
                    type(negate),
                    negate,
                    type(keepdims),
                    keepdims,
                )
            key = (
                TENSOR_REDUCE,
                (dst._signature or dst.signature()),
                op,
                (data._signature or data.signature()),
                axis if type(axis) is int else (kinds(axis), axis),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TENSOR_REDUCE, arguments(TENSOR_REDUCE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(TENSOR_REDUCE, key, arguments(TENSOR_REDUCE, locals()))
        try:
            offsets = execute.tensor_reduce(core, call, dst, op, data, axis, negate, keepdims)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_SCALAR = INSTRUCTIONS["tensor_scalar"]


def tensor_scalar(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    op0: Any = MISSING,
    operand0: TileOrNumber = MISSING,
    reverse0: bool = False,
    op1: Any = None,
    operand1: TileOrNumber = None,
    reverse1: bool = False,
    engine: engine | int = engine.unknown,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p]"""
    if (
        extra
        or unknown
        or dst is MISSING
        or data is MISSING
        or op0 is MISSING
        or operand0 is MISSING
    ):
        settle(TENSOR_SCALAR, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        operand0_is_tile = isinstance(operand0, Tile)
        operand1_is_tile = isinstance(operand1, Tile)
        try:
            op0 = op0.operator
            op1 = op1.operator if op1 is not None else None
            special: Any = None
            if reverse0 is not False or reverse1 is not False or engine is not ENGINE_UNKNOWN:
                if type(engine) is int:
                    engine = member(ENGINE_UNKNOWN, engine)
                special = (
                    type(reverse0),
                    reverse0,
                    type(reverse1),
                    reverse1,
                    engine,
                )
            key = (
                TENSOR_SCALAR,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                op0,
                (operand0._signature or operand0.signature())
                if operand0_is_tile
                else type(operand0),
                op1,
                (operand1._signature or operand1.signature())
                if operand1_is_tile
                else type(operand1),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TENSOR_SCALAR, arguments(TENSOR_SCALAR, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_SCALAR, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(TENSOR_SCALAR, key, arguments(TENSOR_SCALAR, locals()))
        try:
            offsets = execute.tensor_scalar(
                core,
                call,
                dst,
                data,
                op0,
                operand0,
                reverse0,
                op1,
                operand1,
                reverse1,
                engine,
                operand0_is_tile,
                operand1_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if operand0_is_tile else operand0 or zero(operand0),
                    Tile if operand0_is_tile else type(operand0),
                    None if operand1_is_tile else operand1 or zero(operand1),
                    Tile if operand1_is_tile else type(operand1),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (operand0.storage.id, numbers[operand0.geometry], operand0.offset)
                        if operand0_is_tile
                        else ()
                    ),
                    *(
                        (operand1.storage.id, numbers[operand1.geometry], operand1.offset)
                        if operand1_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if operand0_is_tile else operand0 or zero(operand0),
                            Tile if operand0_is_tile else type(operand0),
                            None if operand1_is_tile else operand1 or zero(operand1),
                            Tile if operand1_is_tile else type(operand1),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_SCALAR, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_SCALAR_CUMULATIVE = INSTRUCTIONS["tensor_scalar_cumulative"]


def tensor_scalar_cumulative(
    dst: Tile = MISSING,
    src: Tile = MISSING,
    op0: Any = MISSING,
    op1: Any = MISSING,
    imm0: TileOrNumber = MISSING,
    imm1: TileOrNumber = None,
    reduce_cmd: reduce_cmd | int = reduce_cmd.reset_reduce,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = r = (src[p, f] <op0> imm0[p]) <op1> r, the accumulator; f = 0, 1, ...

    By default r starts from the number that op1 leaves unchanged (0 for subtract). With
    load_reduce, r starts from imm1[p], and with reduce, from its value after the previous
    instruction. r stays float32 even if dst is narrower.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or src is MISSING
        or op0 is MISSING
        or op1 is MISSING
        or imm0 is MISSING
    ):
        settle(TENSOR_SCALAR_CUMULATIVE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        imm0_is_tile = isinstance(imm0, Tile)
        imm1_is_tile = isinstance(imm1, Tile)
        try:
            op0 = op0.operator
            op1 = op1.operator
            special: Any = None
            if reduce_cmd is not REDUCE_CMD_RESET_REDUCE:
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_RESET_REDUCE, reduce_cmd)
                special = (reduce_cmd,)
            key = (
                TENSOR_SCALAR_CUMULATIVE,
                (dst._signature or dst.signature()),
                (src._signature or src.signature()),
                op0,
                op1,
                (imm0._signature or imm0.signature()) if imm0_is_tile else type(imm0),
                (imm1._signature or imm1.signature()) if imm1_is_tile else type(imm1),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(
                TENSOR_SCALAR_CUMULATIVE, arguments(TENSOR_SCALAR_CUMULATIVE, locals()), fault
            )
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_SCALAR_CUMULATIVE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                TENSOR_SCALAR_CUMULATIVE, key, arguments(TENSOR_SCALAR_CUMULATIVE, locals())
            )
        try:
            offsets = execute.tensor_scalar_cumulative(
                core, call, dst, src, op0, op1, imm0, imm1, reduce_cmd, imm0_is_tile, imm1_is_tile
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if imm0_is_tile else imm0 or zero(imm0),
                    Tile if imm0_is_tile else type(imm0),
                    None if imm1_is_tile else imm1 or zero(imm1),
                    Tile if imm1_is_tile else type(imm1),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    *(
                        (imm0.storage.id, numbers[imm0.geometry], imm0.offset)
                        if imm0_is_tile
                        else ()
                    ),
                    *(
                        (imm1.storage.id, numbers[imm1.geometry], imm1.offset)
                        if imm1_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if imm0_is_tile else imm0 or zero(imm0),
                            Tile if imm0_is_tile else type(imm0),
                            None if imm1_is_tile else imm1 or zero(imm1),
                            Tile if imm1_is_tile else type(imm1),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_SCALAR_CUMULATIVE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_SCALAR_REDUCE = INSTRUCTIONS["tensor_scalar_reduce"]


def tensor_scalar_reduce(
    dst: Tile = MISSING,
    data: Tile = MISSING,
    op0: Any = MISSING,
    operand0: TileOrNumber = MISSING,
    reduce_op: Any = MISSING,
    reduce_res: MaybeTile = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd | int = reduce_cmd.reset_reduce,
    reduce_init: TileOrNumber = None,
    reduce_res_negate: bool = False,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = data[p, f] <op0> operand0[p];  reduce_res[p] = fold of dst[p, :] by reduce_op"""
    if (
        extra
        or unknown
        or dst is MISSING
        or data is MISSING
        or op0 is MISSING
        or operand0 is MISSING
        or reduce_op is MISSING
    ):
        settle(TENSOR_SCALAR_REDUCE, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        operand0_is_tile = isinstance(operand0, Tile)
        reduce_res_is_tile = isinstance(reduce_res, Tile)
        reduce_init_is_tile = isinstance(reduce_init, Tile)
        try:
            op0 = op0.operator
            reduce_op = reduce_op.operator
            special: Any = None
            if (
                reverse0 is not False
                or reduce_cmd is not REDUCE_CMD_RESET_REDUCE
                or reduce_res_negate is not False
            ):
                if type(reduce_cmd) is int:
                    reduce_cmd = member(REDUCE_CMD_RESET_REDUCE, reduce_cmd)
                special = (
                    type(reverse0),
                    reverse0,
                    reduce_cmd,
                    type(reduce_res_negate),
                    reduce_res_negate,
                )
            key = (
                TENSOR_SCALAR_REDUCE,
                (dst._signature or dst.signature()),
                (data._signature or data.signature()),
                op0,
                (operand0._signature or operand0.signature())
                if operand0_is_tile
                else type(operand0),
                reduce_op,
                (reduce_res._signature or reduce_res.signature())
                if reduce_res_is_tile
                else type(reduce_res),
                (reduce_init._signature or reduce_init.signature())
                if reduce_init_is_tile
                else type(reduce_init),
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TENSOR_SCALAR_REDUCE, arguments(TENSOR_SCALAR_REDUCE, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_SCALAR_REDUCE, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(
                TENSOR_SCALAR_REDUCE, key, arguments(TENSOR_SCALAR_REDUCE, locals())
            )
        try:
            offsets = execute.tensor_scalar_reduce(
                core,
                call,
                dst,
                data,
                op0,
                operand0,
                reduce_op,
                reduce_res,
                reverse0,
                reduce_cmd,
                reduce_init,
                reduce_res_negate,
                operand0_is_tile,
                reduce_res_is_tile,
                reduce_init_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if operand0_is_tile else operand0 or zero(operand0),
                    Tile if operand0_is_tile else type(operand0),
                    None if reduce_init_is_tile else reduce_init or zero(reduce_init),
                    Tile if reduce_init_is_tile else type(reduce_init),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data.storage.id,
                    numbers[data.geometry],
                    data.offset,
                    *(
                        (operand0.storage.id, numbers[operand0.geometry], operand0.offset)
                        if operand0_is_tile
                        else ()
                    ),
                    *(
                        (reduce_init.storage.id, numbers[reduce_init.geometry], reduce_init.offset)
                        if reduce_init_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    *(
                        (reduce_res.storage.id, numbers[reduce_res.geometry], reduce_res.offset)
                        if reduce_res_is_tile
                        else ()
                    ),
                    program.data.value(
                        (
                            None if operand0_is_tile else operand0 or zero(operand0),
                            Tile if operand0_is_tile else type(operand0),
                            None if reduce_init_is_tile else reduce_init or zero(reduce_init),
                            Tile if reduce_init_is_tile else type(reduce_init),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_SCALAR_REDUCE, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_TENSOR = INSTRUCTIONS["tensor_tensor"]


def tensor_tensor(
    dst: Tile = MISSING,
    data1: Tile = MISSING,
    data2: Tile = MISSING,
    op: Any = MISSING,
    engine: engine | int = engine.unknown,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """dst[p, f] = data1[p, f] <op> data2[p, f]; on GpSimd, 32-bit integers are exact and wrap
    around
    """
    if extra or unknown or dst is MISSING or data1 is MISSING or data2 is MISSING or op is MISSING:
        settle(TENSOR_TENSOR, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            op = op.operator
            special: Any = None
            if engine is not ENGINE_UNKNOWN:
                if type(engine) is int:
                    engine = member(ENGINE_UNKNOWN, engine)
                special = (engine,)
            key = (
                TENSOR_TENSOR,
                (dst._signature or dst.signature()),
                (data1._signature or data1.signature()),
                (data2._signature or data2.signature()),
                op,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TENSOR_TENSOR, arguments(TENSOR_TENSOR, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_TENSOR, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(TENSOR_TENSOR, key, arguments(TENSOR_TENSOR, locals()))
        try:
            offsets = execute.tensor_tensor(core, call, dst, data1, data2, op, engine)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data1.storage.id,
                    numbers[data1.geometry],
                    data1.offset,
                    data2.storage.id,
                    numbers[data2.geometry],
                    data2.offset,
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_TENSOR, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TENSOR_TENSOR_SCAN = INSTRUCTIONS["tensor_tensor_scan"]


def tensor_tensor_scan(
    dst: Tile = MISSING,
    data0: Tile = MISSING,
    data1: Tile = MISSING,
    initial: TileOrNumber = MISSING,
    op0: Any = MISSING,
    op1: Any = MISSING,
    reverse0: bool = False,
    reverse1: bool = False,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """r[p, f] = (data0[p, f] <op0> r[p, f-1]) <op1> data1[p, f];  dst = r, r[p, -1] = initial

    The state stays float32 even if dst is narrower.
    """
    if (
        extra
        or unknown
        or dst is MISSING
        or data0 is MISSING
        or data1 is MISSING
        or initial is MISSING
        or op0 is MISSING
        or op1 is MISSING
    ):
        settle(TENSOR_TENSOR_SCAN, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        initial_is_tile = isinstance(initial, Tile)
        try:
            op0 = op0.operator
            op1 = op1.operator
            special: Any = None
            if reverse0 is not False or reverse1 is not False:
                special = (
                    type(reverse0),
                    reverse0,
                    type(reverse1),
                    reverse1,
                )
            key = (
                TENSOR_TENSOR_SCAN,
                (dst._signature or dst.signature()),
                (data0._signature or data0.signature()),
                (data1._signature or data1.signature()),
                (initial._signature or initial.signature()) if initial_is_tile else type(initial),
                op0,
                op1,
                special,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TENSOR_TENSOR_SCAN, arguments(TENSOR_TENSOR_SCAN, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TENSOR_TENSOR_SCAN, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(TENSOR_TENSOR_SCAN, key, arguments(TENSOR_TENSOR_SCAN, locals()))
        try:
            offsets = execute.tensor_tensor_scan(
                core,
                call,
                dst,
                data0,
                data1,
                initial,
                op0,
                op1,
                reverse0,
                reverse1,
                initial_is_tile,
            )
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(
                frame_at(1),
                (
                    None if initial_is_tile else initial or zero(initial),
                    Tile if initial_is_tile else type(initial),
                ),
            )
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    data0.storage.id,
                    numbers[data0.geometry],
                    data0.offset,
                    data1.storage.id,
                    numbers[data1.geometry],
                    data1.offset,
                    *(
                        (initial.storage.id, numbers[initial.geometry], initial.offset)
                        if initial_is_tile
                        else ()
                    ),
                    dst.storage.id,
                    numbers[dst.geometry],
                    dst.offset,
                    program.data.value(
                        (
                            None if initial_is_tile else initial or zero(initial),
                            Tile if initial_is_tile else type(initial),
                        )
                    ),
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TENSOR_TENSOR_SCAN, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued


TOPK = INSTRUCTIONS["topk"]


def topk(
    val_dst: Tile = MISSING,
    idx_dst: Tile = MISSING,
    src: Tile = MISSING,
    n: int = MISSING,
    name: Any = None,
    *extra: Any,
    **unknown: Any,
) -> NkiInstruction:
    """val_dst[j] = src[idx_dst[j]], the K greatest of src[0...n-1], ascending; in each group

    A group is 16 partitions. Element j of a group is in its partition j % 16, column j // 16, in
    src and in the results. K is the number of columns of val_dst. The results are in the first K /
    16 columns; other columns are unchanged. Among equal elements, the first ones are chosen
    (unpublished).
    """
    if (
        extra
        or unknown
        or val_dst is MISSING
        or idx_dst is MISSING
        or src is MISSING
        or n is MISSING
    ):
        settle(TOPK, locals(), extra, unknown)
    core: Any = running() or current()
    try:
        try:
            if not (type(n) is int):
                n = TOPK.declared["n"].take("topk", "n", n)
            key = (
                TOPK,
                (val_dst._signature or val_dst.signature()),
                (idx_dst._signature or idx_dst.signature()),
                (src._signature or src.signature()),
                n,
            )
            call = core.calls.get(key)
        except KernelError as fault:
            core.leave_out(TOPK, arguments(TOPK, locals()), fault)
            return NkiInstruction(core.program, core.last_row)
        except (AttributeError, TypeError):
            wrong = misused(TOPK, locals(), core.machine)
            if wrong is None:
                raise
            raise wrong from None
        if call is None:
            call = core.prepare(TOPK, key, arguments(TOPK, locals()))
        try:
            offsets = execute.topk(core, call, val_dst, idx_dst, src, n)
        except NeuronError:
            if core.undefined is not None:
                core.undefined.refused()
            raise
        program = core.program
        if call.dynamic:
            if offsets is None:
                return NkiInstruction(program, core.last_row)
            row = offsets.note(frame_at(1), ())
        elif program is None:
            row = -1
        elif program.count >= program.room and not program.make_room():
            row = core.leave_row_out()
        else:
            frame, numbers = frame_at(1), program.numbers
            line = core.lines.get(id(frame.f_code) + frame.f_lasti)
            if line is None:
                line = core.line(frame)
            program.rows.extend(
                call.pack(
                    line,
                    ~call.index,
                    src.storage.id,
                    numbers[src.geometry],
                    src.offset,
                    val_dst.storage.id,
                    numbers[val_dst.geometry],
                    val_dst.offset,
                    idx_dst.storage.id,
                    numbers[idx_dst.geometry],
                    idx_dst.offset,
                )
            )
            row = program.count
            program.count = row + 1
    except NOT_OURS:
        raise
    except Exception as error:
        raise unexpected(TOPK, core, error, locals()) from error
    issued = new(NkiInstruction)
    issued.program, issued.row = program, row
    return issued
