"""Counters of the profiler compared with counts by hand of small programs."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore import machine
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report.summary import counted, figures
from neuroncore.time.queues import QUEUES, TENSOR
from neuroncore.time.schedule import schedule

K, M, N = 48, 96, 320
VECTOR = QUEUES.index("Vector")


def counts(device, order=None):
    """The counters that are not zero."""
    found = counted(schedule(device.core.program, device.core.machine, order))
    return {name: n for name, n in {**found.bytes, **found.flops}.items() if n}


def opcodes(device):
    return dict(counted(device.timeline()).opcodes)


def multiply(device, dtype, **options):
    stationary, moving = device.zeros((K, M), dtype), device.zeros((K, N), dtype)
    dst = device.empty((M, N), buffer="psum")
    device.issue("nc_matmul", dst, stationary, moving, **options)


# --- the Tensor engine ----------------------------------------------------------------------------


@for_all("target", ["trn1", "trn2", "trn3"])
@for_all(
    ("dtype", "size", "pairs", "passes"),
    [("float32", 4, 2, 4), ("bfloat16", 2, 1, 1), ("float16", 2, 1, 1)],
)
def test_a_product_is_pairs_of_instructions_that_read_and_write_all_elements(
    target, dtype, size, pairs, passes
):
    device = Device(target)
    multiply(device, dtype)
    work = 2 * K * M * N
    assert counts(device) == {
        "sbuf_read_bytes": pairs * (M + N) * size,
        "psum_write_bytes": pairs * N * 4,
        "model_flops": work,
        "hardware_flops": pairs * work,
        "adjusted_hardware_flops": passes * work,
    }
    assert opcodes(device) == {(TENSOR, "LDWEIGHTS"): pairs, (TENSOR, "MATMUL"): pairs}


def test_weights_of_zeros_and_ones_are_one_instruction_and_a_moving_tile_of_them_saves_none():
    for option, pairs in (("is_stationary_onezero", 1), ("is_moving_onezero", 2)):
        device = Device("trn1")
        multiply(device, "float32", **{option: True})
        assert opcodes(device)[TENSOR, "MATMUL"] == pairs


@pytest.mark.parametrize(
    ("target", "dtype", "pairs"),
    [("trn1", "float32", 2), ("trn1", "bfloat16", 1), ("trn2", "float32", 1)],
)
def test_a_transpose_is_a_product_with_an_identity_that_moves(target, dtype, pairs):
    """On trn1 it is a normal product; later machines have a mode for it."""
    device, size = Device(target), np.zeros((), dtype).itemsize
    form = "float32" if target == "trn1" else dtype
    data, dst = device.zeros((K, M), dtype), device.empty((M, K), form, "psum")
    device.issue("nc_transpose", dst, data, engine=nisa.engine.tensor)
    found, work = counts(device), pairs * 2 * K * M * K
    assert found["transpose_flops"] == found["hardware_flops"] == work
    assert "model_flops" not in found
    assert found["sbuf_read_bytes"] == pairs * (M + K) * size
    assert found["psum_write_bytes"] == pairs * K * 4


def test_a_product_that_transposes_counts_as_a_transpose():
    device = Device()
    data, identity = device.zeros((K, M)), device.tile(np.eye(K, dtype=np.float32))
    dst = device.empty((M, K), buffer="psum")
    device.issue("nc_matmul", dst, data, identity, is_transpose=True)
    assert counts(device)["transpose_flops"] == counts(device)["hardware_flops"] == 2 * K * M * K
    assert opcodes(device)[TENSOR, "MATMUL"] == 1


def test_other_engines_transpose_without_multiplying():
    device = Device()
    device.issue("nc_transpose", device.empty((32, 32)), device.zeros((32, 32)))
    assert opcodes(device) == {(VECTOR, "TRANSPOSE"): 1}
    assert counts(device) == {"sbuf_read_bytes": 32 * 4, "sbuf_write_bytes": 32 * 4}


# --- the other engines: bytes of one partition ----------------------------------------------------


def test_psum_is_read_and_sbuf_written():
    device = Device()
    source, dst = device.zeros((100, 40), buffer="psum"), device.empty((100, 40), "bfloat16")
    device.issue("tensor_copy", dst, source)
    assert counts(device) == {"psum_read_bytes": 40 * 4, "sbuf_write_bytes": 40 * 2}


def test_columns_of_scalars_are_not_counted():
    device = Device()
    data, bias = device.zeros((128, 50)), device.zeros((128, 1))
    device.issue("activation", device.empty((128, 50)), nl.exp, data, bias=bias)
    assert counts(device) == {"sbuf_read_bytes": 50 * 4, "sbuf_write_bytes": 50 * 4}


def test_operands_that_are_columns_are_counted():
    device = Device()
    device.issue("tensor_reduce", device.empty((128, 1)), nl.add, device.zeros((128, 50)), axis=1)
    device.issue("reciprocal", device.empty((128, 1)), device.zeros((128, 1)))
    assert counts(device) == {"sbuf_read_bytes": 50 * 4 + 4, "sbuf_write_bytes": 4 + 4}


def test_tensor_tensor_is_in_no_counter_of_bytes():
    device = Device()
    a, b, dst = device.zeros((128, 50)), device.zeros((128, 50)), device.empty((128, 50))
    device.issue("tensor_tensor", dst, a, b, nl.add)
    assert counts(device) == {}
    assert opcodes(device) == {(VECTOR, "TENSOR_TENSOR"): 1}


# --- DMA: all bytes -------------------------------------------------------------------------------


def test_parts_of_rows():
    device = Device()
    source, tile = device.zeros((100, 60), buffer="hbm"), device.zeros((100, 60))
    device.issue("dma_copy", tile[3:50, 5:17], source[3:50, 5:17])
    device.issue("dma_copy", source[0:1, 0:7], tile[0:1, 0:7])
    part, rest = 47 * 12 * 4, 7 * 4
    assert counts(device) == {
        "hbm_read_bytes": part,
        "sbuf_write_bytes": part,
        "sbuf_read_bytes": rest,
        "hbm_write_bytes": rest,
    }
    fields = figures(device.timeline())
    assert fields["dma_transfer_count"] == 2
    assert fields["dma_transfer_total_bytes"] == part + rest
    assert fields["dma_transfer_average_bytes"] == (part + rest) / 2


def test_each_side_of_a_transfer_is_counted_in_its_own_format():
    device = Device()
    source = device.zeros((100, 60), buffer="hbm")
    device.issue("dma_copy", device.empty((100, 60), "bfloat16"), source)
    assert counts(device) == {"hbm_read_bytes": 100 * 60 * 4, "sbuf_write_bytes": 100 * 60 * 2}


# --- what the older API's compiler adds and leaves out --------------------------------------------


def transposes(*dtypes):
    device = Device()
    for dtype in dtypes:
        data, dst = device.zeros((K, M), dtype), device.empty((M, K), dtype, "psum")
        device.issue("nc_transpose", dst, data, engine=nisa.engine.tensor)
    return device


def test_the_older_compiler_loads_an_identity_for_every_format_that_is_transposed():
    device = transposes("float32", "bfloat16", "float32")
    identities = 128 * 128 * (4 + 2)
    today, older = counts(device), counts(device, "compiled")
    assert "hbm_read_bytes" not in today
    assert older == {**today, "hbm_read_bytes": identities, "sbuf_write_bytes": identities}


def test_the_older_compiler_loads_once():
    device = Device()
    source = device.zeros((128, 64), buffer="hbm")
    for _ in range(3):
        tile = device.empty((128, 64))
        device.issue("dma_copy", tile, source)
        device.issue("activation", device.empty((128, 64)), nl.exp, tile)
    once = 128 * 64 * 4
    assert counts(device)["hbm_read_bytes"] == 3 * once
    assert counts(device, "compiled")["hbm_read_bytes"] == once
    assert counted(schedule(device.core.program, device.core.machine, "compiled")).transfers == 1


@pytest.mark.parametrize(("order", "known"), [("compiled", True), ("scheduled", False)])
def test_spilled_bytes_are_part_of_all_bytes(order, known):
    """SBUF has space for two of the three tiles."""
    device = Device("trn1")
    width = machine.load("trn1").sbuf.usable_bytes // 2 // 4
    tiles = [device.empty((128, width)) for _ in range(3)]
    for tile in tiles:
        device.issue("memset", tile, 0.0)
    for tile in tiles:
        device.issue("reciprocal", tile[:, 0:1], tile[:, 0:1])
    fields = figures(schedule(device.core.program, device.core.machine, order))
    if not known:
        assert not {"spill_save_bytes", "spill_reload_bytes"} & set(fields)
        return
    each = 128 * width * 4
    assert fields["spill_save_bytes"] == fields["hbm_write_bytes"] == 2 * each
    assert fields["spill_reload_bytes"] == fields["hbm_read_bytes"] == 2 * each
    assert fields["sbuf_read_bytes"] == 2 * each + 3 * 4
    assert fields["sbuf_write_bytes"] == 2 * each + 3 * (width * 4 + 4)


# --- two cores ------------------------------------------------------------------------------------


def halves(x):
    """The second core has two more loads."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    for _ in range(1 + 2 * own):
        tile = nl.load(x[own])
    nl.store(out[own], tile)
    return out


def test_each_core_of_a_logical_core_has_separate_counters():
    run = launch(halves, (np.zeros((2, 128, 30), np.float32),), tensor=NkiTensor, grid=(2,))
    size = 128 * 30 * 4
    for loads, core in zip((1, 3), run.cores, strict=True):
        found = counted(schedule(core.program, core.machine))
        assert found.bytes["hbm_read_bytes"] == loads * size
        assert found.bytes["hbm_write_bytes"] == size
        assert found.transfers == loads + 1
