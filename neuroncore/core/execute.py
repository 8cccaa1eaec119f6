"""The functions that execute a legal Call on a core, one for each clause.

Each function first resolves the offsets that are known only at run time. It then reads its
operands, writes its results, and returns the resolved offsets. It returns None if the instruction
has no such offsets, or if the instruction is skipped. `docs/generate/functions.py` writes this file
from the clauses of isa/. Do not edit it.
"""

from __future__ import annotations

from typing import Any

from neuroncore.base.enums import oob_mode as modes
from neuroncore.clause.operand import PSUM, spread
from neuroncore.core.binding import Offsets, arguments, resolve, staged
from neuroncore.core.core import Core

SKIP = modes.skip


def activate2(
    core: Core,
    call: Any,
    dst: Any,
    op: Any,
    data: Any,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any,
    reverse0: Any,
    reverse1: Any,
    reduce_op: Any,
    reduce_res: Any,
    reduce_cmd: Any,
    imm0_is_tile: bool,
    imm1_is_tile: bool,
    relu_param_is_tile: bool,
    reduce_res_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = op((data[p, f] <op0> imm0[p]) <op1> imm1[p]);  reduce_res[p] = the accumulator

    Each step rounds to float32. The accumulator folds results before they are rounded to dst.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        imm0 = offsets.tiles["imm0"]
        imm1 = offsets.tiles["imm1"]
        relu_param = offsets.tiles["relu_param"]
        reduce_res = offsets.tiles["reduce_res"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if imm0_is_tile and imm0.storage.gaps is not None and not imm0.dynamic:
        core.check_written("imm0", imm0, followed=True)
    if imm1_is_tile and imm1.storage.gaps is not None and not imm1.dynamic:
        core.check_written("imm1", imm1, followed=True)
    if relu_param_is_tile and relu_param.storage.gaps is not None and not relu_param.dynamic:
        core.check_written("relu_param", relu_param, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data, imm0, imm1, relu_param, reduce_res)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def activation(
    core: Core,
    call: Any,
    dst: Any,
    op: Any,
    data: Any,
    bias: Any,
    scale: Any,
    reduce_op: Any,
    reduce_res: Any,
    reduce_cmd: Any,
    bias_is_tile: bool,
    scale_is_tile: bool,
    reduce_res_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = the accumulator

    Multiplication and addition round separately. The accumulator adds the float32 results before
    they are rounded to dst.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        bias = offsets.tiles["bias"]
        scale = offsets.tiles["scale"]
        reduce_res = offsets.tiles["reduce_res"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if bias_is_tile and bias.storage.gaps is not None and not bias.dynamic:
        core.check_written("bias", bias, followed=True)
    if scale_is_tile and scale.storage.gaps is not None and not scale.dynamic:
        core.check_written("scale", scale, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data, bias, scale, reduce_res)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def activation_reduce(
    core: Core,
    call: Any,
    dst: Any,
    op: Any,
    data: Any,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any,
    scale: Any,
    reduce_res_is_tile: bool,
    bias_is_tile: bool,
    scale_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = sum over f of op(...)"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        reduce_res = offsets.tiles["reduce_res"]
        bias = offsets.tiles["bias"]
        scale = offsets.tiles["scale"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if bias_is_tile and bias.storage.gaps is not None and not bias.dynamic:
        core.check_written("bias", bias, followed=True)
    if scale_is_tile and scale.storage.gaps is not None and not scale.dynamic:
        core.check_written("scale", scale, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data, reduce_res, bias, scale)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def affine_select(
    core: Core,
    call: Any,
    dst: Any,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: Any,
    on_false_value: Any,
    cmp_op: Any,
    offset: Any,
) -> Offsets | None:
    """dst[p, f] = on_true_tile[p, f] if v[p, f] <cmp_op> 0 else on_false_value

    v has the numbers that iota computes from pattern, offset and channel_multiplier.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        on_true_tile = offsets.tiles["on_true_tile"]
    if on_true_tile.storage.gaps is not None and not on_true_tile.dynamic:
        core.check_written("on_true_tile", on_true_tile, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, channel_multiplier, on_true_tile, on_false_value, offset)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def all_gather(
    core: Core,
    call: Any,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: Any,
    priority: Any,
) -> Offsets | None:
    """dsts[i] = srcs[i] of all ranks of the group, concatenated along collective_dim"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
        if tile.storage.gaps is not None and not tile.dynamic:
            tile.mark_written()
    return offsets


def all_gather_v(
    core: Core,
    call: Any,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: Any,
    has_rdispls: Any,
    priority: Any,
) -> Offsets | None:
    """slot k of dsts[0] = the elements of rank k's srcs[0] that rank k's metadata selects"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
        metadata_tensor = offsets.tiles["metadata_tensor"]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if metadata_tensor.storage.before_write is not None:
        metadata_tensor.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts, metadata_tensor)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
    metadata_tensor.storage.version += 1
    return offsets


def all_reduce(
    core: Core, call: Any, srcs: Any, dsts: Any, replica_group: Any, op: Any, priority: Any
) -> Offsets | None:
    """dsts[i] = srcs[i] of all ranks of the group, reduced by op"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
        if tile.storage.gaps is not None and not tile.dynamic:
            tile.mark_written()
    return offsets


def all_to_all(
    core: Core,
    call: Any,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: Any,
    priority: Any,
) -> Offsets | None:
    """piece k of dsts[i] = the piece for this rank, from rank k's srcs[i]"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
        if tile.storage.gaps is not None and not tile.dynamic:
            tile.mark_written()
    return offsets


def all_to_all_v(
    core: Core,
    call: Any,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: Any,
    has_rdispls: Any,
    priority: Any,
) -> Offsets | None:
    """slot k of dsts[0] = the elements of rank k's srcs[0] that rank k's metadata sends here"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
        metadata_tensor = offsets.tiles["metadata_tensor"]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if metadata_tensor.storage.before_write is not None:
        metadata_tensor.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts, metadata_tensor)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
    metadata_tensor.storage.version += 1
    return offsets


def bn_aggr(core: Core, call: Any, dst: Any, data: Any) -> Offsets | None:
    """dst[p, :] = [m, v];  m = sum n_i m_i / N, v = sum (M_i + n_i (m_i - m)^2) / N, N = sum n_i

    data[p, :] lists the triples (n_i, m_i, M_i), in the form of bn_stats.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def bn_stats(core: Core, call: Any, dst: Any, data: Any) -> Offsets | None:
    """dst[p, :] = [n, mean, sum of (x - mean)^2] of data[p, 0::2], then of data[p, 1::2]

    Each number is rounded once; the order of the engine's sums is unpublished. Without elements,
    all three are 0.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def collective_permute(
    core: Core, call: Any, srcs: Any, dsts: Any, source_target_pairs: Any, priority: Any
) -> Offsets | None:
    """dsts[0] = srcs[0] of this rank's source in the pairs; unchanged if it has no source"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
    return offsets


def collective_permute_implicit(
    core: Core, call: Any, srcs: Any, dsts: Any, replica_group: Any, channel_ids: Any, priority: Any
) -> Offsets | None:
    """dsts[i] = srcs[i] of this rank's predecessor in the ring of channel i"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
        if tile.storage.gaps is not None and not tile.dynamic:
            tile.mark_written()
    return offsets


def collective_permute_implicit_current_processing_rank_id(
    core: Core, call: Any, dst: Any, iteration_id: Any, replica_group: Any, channel_id: Any
) -> Offsets | None:
    """dst = the rank whose data arrives here after iteration_id steps on the channel's ring"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, iteration_id)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    return offsets


def collective_permute_implicit_reduce(
    core: Core,
    call: Any,
    srcs: Any,
    others: Any,
    dsts: Any,
    replica_group: Any,
    op: Any,
    channel_ids: Any,
    priority: Any,
) -> Offsets | None:
    """dsts[i] = op(srcs[i], others[i]), both of this rank's predecessor in the ring of channel i"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        others = [offsets.tiles[n] for n in spread("others", others)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, others, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
        if tile.storage.gaps is not None and not tile.dynamic:
            tile.mark_written()
    return offsets


def core_barrier(core: Core, call: Any, data: Any, cores: Any, engine: Any) -> Offsets | None:
    """no core continues before all `cores` have arrived; then their writes to data are visible"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        data = offsets.tiles["data"]
    if data.storage.before_write is not None:
        data.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    data.storage.version += 1
    return offsets


def dma_compute(
    core: Core,
    call: Any,
    dst: Any,
    srcs: Any,
    reduce_op: Any,
    scales: Any,
    unique_indices: Any,
    oob_mode: Any,
) -> Offsets | None:
    """dst = srcs[0] + srcs[1] + ..., in float32 from the left

    If an index i chooses rows: dst = dst + data[i], or dst[i] = dst[i] + data. If an index occurs
    twice (unique_indices=False), both sums are added to the same row, one after the other.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), oob_mode is SKIP)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
    if dst.storage.before_write is not None:
        dst.storage.before_write()
    for number, tile in enumerate(srcs):
        if tile.storage.gaps is not None and not tile.dynamic:
            core.check_written(f"srcs[{number}]", tile, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, srcs)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    return offsets


def dma_copy(
    core: Core,
    call: Any,
    dst: Any,
    src: Any,
    priority: Any,
    oob_mode: Any,
    dge_mode: Any,
    engine: Any,
) -> Offsets | None:
    """dst = src, element by element in row-major order; different formats are converted through
    float32
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), oob_mode is SKIP)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
    if dst.storage.before_write is not None:
        dst.storage.before_write()
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    return offsets


def dma_transpose(
    core: Core,
    call: Any,
    dst: Any,
    src: Any,
    axes: Any,
    priority: Any,
    dge_mode: Any,
    oob_mode: Any,
) -> Offsets | None:
    """dst[z, x, y, w] = src[w, x, y, z], or dst[y, x, w] = src[w, x, y], or dst[x, w] = src[w, x]

    If src is a gather, its row w is row i[w % P, w // P] of the tensor from which it gathers. i is
    the index, and P is the number of its partitions.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), oob_mode is SKIP)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    return offsets


def dropout(
    core: Core, call: Any, dst: Any, data: Any, prob: Any, prob_is_tile: bool
) -> Offsets | None:
    """dst[p, f] = 0 if u < prob[p] else data[p, f], u uniform in [0, 1)

    Elements that are kept are not scaled: their bits are unchanged.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        prob = offsets.tiles["prob"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if prob_is_tile and prob.storage.gaps is not None and not prob.dynamic:
        core.check_written("prob", prob, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data, prob)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def exponential(
    core: Core,
    call: Any,
    dst: Any,
    src: Any,
    max_value: Any,
    reduce_res: Any,
    reduce_cmd: Any,
    reduce_init: Any,
    max_value_is_tile: bool,
    reduce_res_is_tile: bool,
    reduce_init_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = exp(src[p, f] - max_value[p]);  reduce_res[p] = sum over f of exp(...)

    The sum is of float32 numbers, before they are rounded to dst.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
        max_value = offsets.tiles["max_value"]
        reduce_res = offsets.tiles["reduce_res"]
        reduce_init = offsets.tiles["reduce_init"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if max_value_is_tile and max_value.storage.gaps is not None and not max_value.dynamic:
        core.check_written("max_value", max_value, followed=True)
    if reduce_init_is_tile and reduce_init.storage.gaps is not None and not reduce_init.dynamic:
        core.check_written("reduce_init", reduce_init, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src, max_value, reduce_res, reduce_init)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def iota(
    core: Core, call: Any, dst: Any, pattern: Any, offset: Any, channel_multiplier: Any
) -> Offsets | None:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, offset, channel_multiplier)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def local_gather(
    core: Core,
    call: Any,
    dst: Any,
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: Any,
    num_valid_indices: Any,
) -> Offsets | None:
    """dst[16c + p, n*i + j] = src_buffer[16c + p, index[16c + i % 16, i // 16] + j], j < n

    c is the number of a group of 16 partitions, and p is the number of a partition in its group. n
    is num_elem_per_idx, and i is below num_valid_indices. The numbers in index count elements.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src_buffer = offsets.tiles["src_buffer"]
        index = offsets.tiles["index"]
    if src_buffer.storage.gaps is not None and not src_buffer.dynamic:
        core.check_written("src_buffer", src_buffer, followed=True)
    if index.storage.gaps is not None and not index.dynamic:
        core.check_written("index", index, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src_buffer, index)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def max8(core: Core, call: Any, dst: Any, src: Any) -> Offsets | None:
    """dst[p, i] = the i-th greatest of src[p, :], i = 0...7; equal elements count separately

    NaN is above all numbers (unpublished: `Options.nan_minmax`); +0 is above -0.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def memset(core: Core, call: Any, dst: Any, value: Any, engine: Any) -> Offsets | None:
    """dst[p, f] = value; for packed formats it must be 0"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, value)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def nc_find_index8(core: Core, call: Any, dst: Any, data: Any, vals: Any) -> Offsets | None:
    """dst[p, i] = the first f with data[p, f] == vals[p, i]; if there is none, a number with all
    bits set

    If vals[p, :] has a value several times, the first i gets the value's first position, and so on.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        vals = offsets.tiles["vals"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if vals.storage.gaps is not None and not vals.dynamic:
        core.check_written("vals", vals, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data, vals)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def nc_match_replace8(
    core: Core,
    call: Any,
    dst: Any,
    data: Any,
    vals: Any,
    imm: Any,
    dst_idx: Any,
    dst_idx_is_tile: bool,
) -> Offsets | None:
    """dst[p, :] = data[p, :], but imm at f_i, the first f with data[p, f] == vals[p, i], i = 0...7

    dst_idx[p, i] = f_i; if there is none, a number with all bits set. If vals[p, :] has a value
    several times, the last i gets the value's first position, and so on.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        vals = offsets.tiles["vals"]
        dst_idx = offsets.tiles["dst_idx"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if vals.storage.gaps is not None and not vals.dynamic:
        core.check_written("vals", vals, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data, vals, imm, dst_idx)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if dst_idx_is_tile:
        dst_idx.storage.version += 1
        if dst_idx.storage.gaps is not None and not dst_idx.dynamic:
            dst_idx.mark_written()
        if dst_idx.storage.region is PSUM:
            dst_idx.mark_other_engine(True)
    return offsets


def nc_matmul(
    core: Core,
    call: Any,
    dst: Any,
    stationary: Any,
    moving: Any,
    is_stationary_onezero: Any,
    is_moving_onezero: Any,
    is_transpose: Any,
    accumulate: Any,
    tile_position: Any,
    tile_size: Any,
    perf_mode: Any,
) -> Offsets | None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[k, n]

    The sum is a float32 chain from k = 0. It is added to dst if the instruction accumulates.
    double_row takes [K/2, 2, M] and [K/2, 2, N]: the products of k and k + K/2 are added first.
    `Options` can select other sums for float32, and other ways to read operands.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        stationary = offsets.tiles["stationary"]
        moving = offsets.tiles["moving"]
    if stationary.storage.gaps is not None and not stationary.dynamic:
        core.check_written("stationary", stationary, followed=True)
    if moving.storage.gaps is not None and not moving.dynamic:
        core.check_written("moving", moving, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, stationary, moving)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    return offsets


def nc_matmul_mx(
    core: Core,
    call: Any,
    dst: Any,
    stationary: Any,
    moving: Any,
    stationary_scale: Any,
    moving_scale: Any,
    tile_position: Any,
    tile_size: Any,
    accumulate: Any,
) -> Offsets | None:
    """dst[m, n] (+)= sum_k sum_i stationary[k, m][i] ss[k/8, m] * moving[k, n][i] ms[k/8, n]

    ss and ms are stationary_scale and moving_scale. The four products of i are added first, from
    the left, and scaled once. Everything else is as in nc_matmul. `Options.mx_order` can select
    another order.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        stationary = offsets.tiles["stationary"]
        moving = offsets.tiles["moving"]
        stationary_scale = offsets.tiles["stationary_scale"]
        moving_scale = offsets.tiles["moving_scale"]
    if stationary.storage.gaps is not None and not stationary.dynamic:
        core.check_written("stationary", stationary, followed=True)
    if moving.storage.gaps is not None and not moving.dynamic:
        core.check_written("moving", moving, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, stationary, moving, stationary_scale, moving_scale)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    return offsets


def nc_matmul_sparse(
    core: Core,
    call: Any,
    dst: Any,
    stationary: Any,
    moving: Any,
    tags: Any,
    pattern: Any,
    places: Any,
    accumulate: Any,
) -> Offsets | None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[A * (k // A) + a, c, n]

    `pattern` is (A, N): of each N adjacent weights, A are kept. The N moving numbers of such a
    group are in A partitions, with N / A slots each. The tag of weight [k, m], 4 bits of
    tags[k, m // 4], gives its partition `a` in the group and its slot `c`. The tag is
    a * (N / A) + c, or c * A + a if `places` is "slot". Products are summed as in nc_matmul. No
    released API has this instruction (`Options.experimental`).
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        stationary = offsets.tiles["stationary"]
        moving = offsets.tiles["moving"]
        tags = offsets.tiles["tags"]
    if stationary.storage.gaps is not None and not stationary.dynamic:
        core.check_written("stationary", stationary, followed=True)
    if moving.storage.gaps is not None and not moving.dynamic:
        core.check_written("moving", moving, followed=True)
    if tags.storage.gaps is not None and not tags.dynamic:
        core.check_written("tags", tags, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, stationary, moving, tags)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    return offsets


def nc_n_gather(core: Core, call: Any, dst: Any, data: Any, indices: Any) -> Offsets | None:
    """dst[p, f] = data[p, indices[p, f]], with all free axes of data flattened into one"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        indices = offsets.tiles["indices"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if indices.storage.gaps is not None and not indices.dynamic:
        core.check_written("indices", indices, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data, indices)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def nc_stream_shuffle(
    core: Core, call: Any, dst: Any, src: Any, shuffle_mask: Any
) -> Offsets | None:
    """dst[32q + i, f] = src[32q + shuffle_mask[i], f] in each quadrant q; 255 keeps dst unchanged

    If src has fewer quadrants than dst, they repeat: quadrant q of dst reads quadrant q % n of the
    n quadrants of src.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    return offsets


def nc_transpose(core: Core, call: Any, dst: Any, data: Any, engine: Any) -> Offsets | None:
    """dst[f, p] = data[p, f]

    From v3 on, the bits are unchanged. On these machines, the Tensor engine may write an 8-bit
    float into an element of 16 bits, whose upper 8 bits become 0. On v2 the Tensor engine
    multiplies by an identity matrix: NaN and infinities spread along their row, -0 becomes +0, and
    an uninitialized element counts as finite.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    return offsets


def nonzero_with_count(
    core: Core, call: Any, dst: Any, src: Any, index_offset: Any, padding_val: Any
) -> Offsets | None:
    """dst[p, :] = [f + index_offset where src[p, f] != 0, padding_val ..., count];  p = 0, 16...

    Other partitions of dst are unchanged, and other partitions of src are not read.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src, index_offset, padding_val)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    return offsets


def quantize_mx(core: Core, call: Any, dst: Any, src: Any, dst_scale: Any) -> Offsets | None:
    """dst[p, f][i] = src[p, 4f + i] / X;  dst_scale[p/8, f] = X = 2^(floor(log2 amax) - emax + 1)

    amax is the greatest magnitude of a group, which is 8 partitions times 4 elements. emax is 8 for
    e4m3fn, and 15 for e5m2. Elements are rounded to nearest even, and saturate. The scale of zeros
    is 2^-127. If a group has a NaN or an infinity, its scale and all its elements become NaN
    (unpublished). Other partitions of dst_scale are unchanged. `Options.mx_scale` can select the
    older rule.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
        dst_scale = offsets.tiles["dst_scale"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src, dst_scale)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    dst_scale.storage.version += 1
    return offsets


def rand2(
    core: Core, call: Any, dst: Any, min: Any, max: Any, min_is_tile: bool, max_is_tile: bool
) -> Offsets | None:
    """dst[p, f] = min[p] + u * (max[p] - min[p]), u uniform in [0, 1)

    u is the upper 24 bits of a random number. Each operation rounds to float32, so the result may
    be max itself.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        min = offsets.tiles["min"]
        max = offsets.tiles["max"]
    if min_is_tile and min.storage.gaps is not None and not min.dynamic:
        core.check_written("min", min, followed=True)
    if max_is_tile and max.storage.gaps is not None and not max.dynamic:
        core.check_written("max", max, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, min, max)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def rand_get_state(core: Core, call: Any, dst: Any, engine: Any) -> Offsets | None:
    """dst[p, :] = state[p], 6 words of the GpSimd engine, 4 x 6 of the Vector engine"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def rand_set_state(core: Core, call: Any, src_seeds: Any, engine: Any) -> Offsets | None:
    """state[p] = src_seeds[p, :], 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        src_seeds = offsets.tiles["src_seeds"]
    if src_seeds.storage.gaps is not None and not src_seeds.dynamic:
        core.check_written("src_seeds", src_seeds, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, src_seeds)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    return offsets


def range_select(
    core: Core,
    call: Any,
    dst: Any,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any,
    reduce_res: Any,
    reduce_op: Any,
    range_start: Any,
    on_false_value: Any,
    bound0_is_tile: bool,
    bound1_is_tile: bool,
    reduce_res_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = on_true_tile[p, f] if i <op0> bound0[p] and i <op1> bound1[p] else -3.4e38

    i = range_start + f, compared in float32. reduce_res[p] = the greatest of dst[p, :] before
    rounding. Elements outside of the range get the least float32, which becomes -inf in formats
    with a smaller range.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        on_true_tile = offsets.tiles["on_true_tile"]
        bound0 = offsets.tiles["bound0"]
        bound1 = offsets.tiles["bound1"]
        reduce_res = offsets.tiles["reduce_res"]
    if on_true_tile.storage.gaps is not None and not on_true_tile.dynamic:
        core.check_written("on_true_tile", on_true_tile, followed=True)
    if bound0_is_tile and bound0.storage.gaps is not None and not bound0.dynamic:
        core.check_written("bound0", bound0, followed=True)
    if bound1_is_tile and bound1.storage.gaps is not None and not bound1.dynamic:
        core.check_written("bound1", bound1, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, on_true_tile, bound0, bound1, reduce_res, range_start)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def rank_id(core: Core, call: Any, dst: Any) -> Offsets | None:
    """dst = the number of this rank"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    return offsets


def reciprocal(core: Core, call: Any, dst: Any, data: Any) -> Offsets | None:
    """dst[p, f] = 1 / data[p, f]"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def reduce_scatter(
    core: Core,
    call: Any,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: Any,
    op: Any,
    priority: Any,
) -> Offsets | None:
    """dsts[i] = this rank's piece, along collective_dim, of srcs[i] of all ranks, reduced by op"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        srcs = [offsets.tiles[n] for n in spread("srcs", srcs)]
        dsts = [offsets.tiles[n] for n in spread("dsts", dsts)]
    for tile in dsts:
        if tile.storage.before_write is not None:
            tile.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, srcs, dsts)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    for tile in dsts:
        tile.storage.version += 1
        if tile.storage.gaps is not None and not tile.dynamic:
            tile.mark_written()
    return offsets


def register_load(core: Core, call: Any, dst: Any, src: Any) -> Offsets | None:
    """dst = src[0, 0]"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        src = offsets.tiles["src"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    return offsets


def register_move(core: Core, call: Any, dst: Any, src: Any) -> Offsets | None:
    """dst = src"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    return offsets


def register_store(core: Core, call: Any, dst: Any, src: Any) -> Offsets | None:
    """dst[0, 0] = src"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
    if dst.storage.before_write is not None:
        dst.storage.before_write()
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def rng(core: Core, call: Any, dst: Any, engine: Any) -> Offsets | None:
    """dst[p, f] = the lowest bits of the next 32-bit random number of lane p"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def scalar_tensor_tensor(
    core: Core,
    call: Any,
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: Any,
    reverse1: Any,
    operand0_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p, f]"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        operand0 = offsets.tiles["operand0"]
        operand1 = offsets.tiles["operand1"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if operand0_is_tile and operand0.storage.gaps is not None and not operand0.dynamic:
        core.check_written("operand0", operand0, followed=True)
    if operand1.storage.gaps is not None and not operand1.dynamic:
        core.check_written("operand1", operand1, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data, operand0, operand1)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def select_reduce(
    core: Core,
    call: Any,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any,
    reduce_cmd: Any,
    reduce_op: Any,
    reverse_pred: Any,
    on_false_is_tile: bool,
    reduce_res_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = on_true[p, f] if predicate[p, f] != 0 else on_false[p];  reduce_res[p] = max_f

    max_f is the greatest of dst[p, :] before rounding.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        predicate = offsets.tiles["predicate"]
        on_true = offsets.tiles["on_true"]
        on_false = offsets.tiles["on_false"]
        reduce_res = offsets.tiles["reduce_res"]
    if predicate.storage.gaps is not None and not predicate.dynamic:
        core.check_written("predicate", predicate, followed=True)
    if on_true.storage.gaps is not None and not on_true.dynamic:
        core.check_written("on_true", on_true, followed=True)
    if on_false_is_tile and on_false.storage.gaps is not None and not on_false.dynamic:
        core.check_written("on_false", on_false, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, predicate, on_true, on_false, reduce_res)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def sendrecv(
    core: Core,
    call: Any,
    src: Any,
    dst: Any,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: Any,
) -> Offsets | None:
    """dst = the src that core recv_from_rank sends; this core sends its src to core send_to_rank"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        src = offsets.tiles["src"]
        dst = offsets.tiles["dst"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, src, dst, pipe_id)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def sequence_bounds(core: Core, call: Any, dst: Any, segment_ids: Any) -> Offsets | None:
    """dst[0, :, f] = the start, and the end (exclusive), of the run of equal ids around f

    Padding, which has id 0, gets the number of ids as its start and -1 as its end.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        segment_ids = offsets.tiles["segment_ids"]
    if segment_ids.storage.gaps is not None and not segment_ids.dynamic:
        core.check_written("segment_ids", segment_ids, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, segment_ids)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def set_rng_seed(core: Core, call: Any, src_seeds: Any) -> Offsets | None:
    """all lanes of the Vector engine restart from the seed src_seeds[0, 0]"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        src_seeds = offsets.tiles["src_seeds"]
    if src_seeds.storage.gaps is not None and not src_seeds.dynamic:
        core.check_written("src_seeds", src_seeds, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, src_seeds)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    return offsets


def tensor_copy(core: Core, call: Any, dst: Any, src: Any, engine: Any) -> Offsets | None:
    """dst[p, f] = src[p, f]; equal formats keep their bits, others are converted through float32"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def tensor_copy_predicated(
    core: Core, call: Any, dst: Any, src: Any, predicate: Any, reverse_pred: Any, src_is_tile: bool
) -> Offsets | None:
    """dst[p, f] = src[p, f] if predicate[p, f] != 0, else unchanged"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
        predicate = offsets.tiles["predicate"]
    if src_is_tile and src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if predicate.storage.gaps is not None and not predicate.dynamic:
        core.check_written("predicate", predicate, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, src, predicate)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    return offsets


def tensor_partition_reduce(core: Core, call: Any, dst: Any, op: Any, data: Any) -> Offsets | None:
    """dst[0, f] = data[0, f] <op> data[1, f] <op> ... over the partitions;  average: sum / count"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def tensor_reduce(
    core: Core, call: Any, dst: Any, op: Any, data: Any, axis: Any, negate: Any, keepdims: Any
) -> Offsets | None:
    """dst[p, ...] = data[p, ..., 0] <op> data[p, ..., 1] <op> ... over the last axes"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def tensor_scalar(
    core: Core,
    call: Any,
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: Any,
    op1: Any,
    operand1: Any,
    reverse1: Any,
    engine: Any,
    operand0_is_tile: bool,
    operand1_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p]"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        operand0 = offsets.tiles["operand0"]
        operand1 = offsets.tiles["operand1"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if operand0_is_tile and operand0.storage.gaps is not None and not operand0.dynamic:
        core.check_written("operand0", operand0, followed=True)
    if operand1_is_tile and operand1.storage.gaps is not None and not operand1.dynamic:
        core.check_written("operand1", operand1, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data, operand0, operand1)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def tensor_scalar_cumulative(
    core: Core,
    call: Any,
    dst: Any,
    src: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any,
    reduce_cmd: Any,
    imm0_is_tile: bool,
    imm1_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = r = (src[p, f] <op0> imm0[p]) <op1> r, the accumulator; f = 0, 1, ...

    By default r starts from the number that op1 leaves unchanged (0 for subtract). With
    load_reduce, r starts from imm1[p], and with reduce, from its value after the previous
    instruction. r stays float32 even if dst is narrower.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        src = offsets.tiles["src"]
        imm0 = offsets.tiles["imm0"]
        imm1 = offsets.tiles["imm1"]
    if src.storage.gaps is not None and not src.dynamic:
        core.check_written("src", src, followed=True)
    if imm0_is_tile and imm0.storage.gaps is not None and not imm0.dynamic:
        core.check_written("imm0", imm0, followed=True)
    if imm1_is_tile and imm1.storage.gaps is not None and not imm1.dynamic:
        core.check_written("imm1", imm1, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, src, imm0, imm1)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def tensor_scalar_reduce(
    core: Core,
    call: Any,
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: Any,
    reduce_cmd: Any,
    reduce_init: Any,
    reduce_res_negate: Any,
    operand0_is_tile: bool,
    reduce_res_is_tile: bool,
    reduce_init_is_tile: bool,
) -> Offsets | None:
    """dst[p, f] = data[p, f] <op0> operand0[p];  reduce_res[p] = fold of dst[p, :] by reduce_op"""
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data = offsets.tiles["data"]
        operand0 = offsets.tiles["operand0"]
        reduce_res = offsets.tiles["reduce_res"]
        reduce_init = offsets.tiles["reduce_init"]
    if data.storage.gaps is not None and not data.dynamic:
        core.check_written("data", data, followed=True)
    if operand0_is_tile and operand0.storage.gaps is not None and not operand0.dynamic:
        core.check_written("operand0", operand0, followed=True)
    if reduce_init_is_tile and reduce_init.storage.gaps is not None and not reduce_init.dynamic:
        core.check_written("reduce_init", reduce_init, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, dst, data, operand0, reduce_res, reduce_init)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    if reduce_res_is_tile:
        reduce_res.storage.version += 1
        if reduce_res.storage.gaps is not None and not reduce_res.dynamic:
            reduce_res.mark_written()
        if reduce_res.storage.region is PSUM:
            reduce_res.mark_other_engine(True)
    return offsets


def tensor_tensor(
    core: Core, call: Any, dst: Any, data1: Any, data2: Any, op: Any, engine: Any
) -> Offsets | None:
    """dst[p, f] = data1[p, f] <op> data2[p, f]; on GpSimd, 32-bit integers are exact and wrap
    around
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data1 = offsets.tiles["data1"]
        data2 = offsets.tiles["data2"]
    if data1.storage.gaps is not None and not data1.dynamic:
        core.check_written("data1", data1, followed=True)
    if data2.storage.gaps is not None and not data2.dynamic:
        core.check_written("data2", data2, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data1, data2)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def tensor_tensor_scan(
    core: Core,
    call: Any,
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: Any,
    reverse1: Any,
    initial_is_tile: bool,
) -> Offsets | None:
    """r[p, f] = (data0[p, f] <op0> r[p, f-1]) <op1> data1[p, f];  dst = r, r[p, -1] = initial

    The state stays float32 even if dst is narrower.
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        dst = offsets.tiles["dst"]
        data0 = offsets.tiles["data0"]
        data1 = offsets.tiles["data1"]
        initial = offsets.tiles["initial"]
    if data0.storage.gaps is not None and not data0.dynamic:
        core.check_written("data0", data0, followed=True)
    if data1.storage.gaps is not None and not data1.dynamic:
        core.check_written("data1", data1, followed=True)
    if initial_is_tile and initial.storage.gaps is not None and not initial.dynamic:
        core.check_written("initial", initial, followed=True)
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(dst, data0, data1, initial)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    dst.storage.version += 1
    if dst.storage.gaps is not None and not dst.dynamic:
        dst.mark_written()
    if dst.storage.region is PSUM:
        dst.mark_other_engine(True)
    return offsets


def topk(core: Core, call: Any, val_dst: Any, idx_dst: Any, src: Any, n: Any) -> Offsets | None:
    """val_dst[j] = src[idx_dst[j]], the K greatest of src[0...n-1], ascending; in each group

    A group is 16 partitions. Element j of a group is in its partition j % 16, column j // 16, in
    src and in the results. K is the number of columns of val_dst. The results are in the first K /
    16 columns; other columns are unchanged. Among equal elements, the first ones are chosen
    (unpublished).
    """
    offsets = None
    if call.dynamic:
        offsets = resolve(core, call, arguments(call.instruction, locals()), False)
        if offsets is None:
            return None
        val_dst = offsets.tiles["val_dst"]
        idx_dst = offsets.tiles["idx_dst"]
        src = offsets.tiles["src"]
    if core.rounding is not None:
        core.rounding.begin(core.program_id, call.engine.value)
    run = call.run
    if run is None:
        run = call.run = staged(call, arguments(call.instruction, locals()), core)
    if core.shadow is None:
        run(core, val_dst, idx_dst, src)
    else:
        core.shadow.perform(call, arguments(call.instruction, locals()))
    if core.undefined is not None:
        core.undefined.follow(call, arguments(call.instruction, locals()))
    val_dst.storage.version += 1
    idx_dst.storage.version += 1
    return offsets
