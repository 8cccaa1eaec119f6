"""SBUF, PSUM and HBM: their sizes, and which tensors share bytes."""

import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from published_machines import PUBLISHED

from neuroncore.base.errors import (
    CapacityError,
    OutOfBoundsError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
)
from neuroncore.base.units import either

KIB = 1024
SBUF_BYTES = {name: row.sbuf * KIB for name, row in PUBLISHED.items()}
PSUM_BYTES = {name: row.psum * KIB for name, row in PUBLISHED.items()}


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_memories_have_their_published_sizes(target):
    machine = Device(target).core.machine
    assert (machine.sbuf.partitions, machine.psum.partitions) == (128, 128)
    assert machine.sbuf.partition_bytes == SBUF_BYTES[target]
    assert machine.psum.partition_bytes == PSUM_BYTES[target]
    assert (machine.psum.banks, machine.psum.bank_bytes) == (
        PSUM_BYTES[target] // (2 * KIB),
        2 * KIB,
    )


@for_all("target", TARGETS)
@for_all("buffer", ["sbuf", "psum"])
@for_all("dtype, size", [("float32", 4), ("bfloat16", 2), ("uint8", 1)])
def test_a_tensor_may_fill_a_partition_but_not_more(target, buffer, dtype, size):
    device = Device(target)
    most = (SBUF_BYTES[target] if buffer == "sbuf" else PSUM_BYTES[target]) // size
    assert device.empty((2, most), dtype, buffer).storage.row_bytes == most * size
    assert device.empty((2, 2, most // 2), dtype, buffer).storage.row_bytes == most * size
    with pytest.raises(CapacityError) as refused:
        device.empty((2, most + 1), dtype, buffer)
    message = str(refused.value)
    assert f"{(most + 1) * size:,} bytes per partition" in message and target in message
    assert f"at most {most * size:,} bytes" in message


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_on_chip_tensors_have_at_most_128_partitions(buffer):
    device = Device()
    assert device.empty((128, 3), buffer=buffer).shape == (128, 3)
    with pytest.raises(PartitionLimitError) as refused:
        device.empty((129, 3), buffer=buffer)
    assert "129 partitions" in str(refused.value)
    assert "err_num_partition_exceed_arch_limit" in refused.value.also
    assert device.empty((129, 3), buffer="hbm").shape == (129, 3)


@pytest.mark.parametrize("shape", [(), (2, -1), (2.0, 3), "ab", None])
def test_shapes_must_be_integers(shape):
    with pytest.raises(SignatureError, match="is not a shape"):
        Device().empty(shape)


@for_all("buffer", ["sbuf", "psum", "hbm"])
@for_all("shape", [(0, 3), (3, 0), (2, 0, 4)])
def test_a_tensor_may_have_no_elements_and_instructions_that_write_it_are_omitted(shape, buffer):
    device = Device()
    tensor, full = device.empty(shape, buffer=buffer), device.zeros((2, 3))
    assert tensor.shape == shape
    for part in (tensor, tensor[...]):
        device.issue("dma_copy", part, full)
    assert set(device.findings) == {"NO_ELEMENTS"}
    with pytest.raises(ShapeError, match="has no elements"):
        device.issue("dma_copy", full, tensor)
    assert not device.opcodes and (full.numpy() == 0).all()


def test_one_axis_becomes_two_on_the_chip_only():
    device = Device()
    assert device.empty((5,)).shape == (5, 1)
    assert device.empty((5,), buffer="psum").shape == (5, 1)
    assert device.empty((5,), buffer="hbm").shape == (5,)
    assert device.empty([np.int64(5), 2]).shape == (5, 2)


def test_the_buffer_must_be_a_memory():
    device = Device()
    with pytest.raises(SignatureError, match=r"nl\.sbuf"):
        device.call(nl.ndarray, (2, 2), nl.float32, buffer="somewhere")
    with pytest.raises(SignatureError, match="number format"):
        device.call(nl.ndarray, (2, 2), "float33")


# --- addresses that the kernel chooses ------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_tensors_at_one_address_share_bytes(buffer):
    device = Device()
    values = np.arange(4 * 8, dtype=np.float32).reshape(4, 8)
    one = device.empty((4, 8), buffer=buffer, address=(32, 4096))
    two = device.empty((4, 16), "bfloat16", buffer, address=(32, 4096))
    one.codes()[...] = values
    assert np.array_equal(two.numpy().view(np.float32), values)


@given(data=st.data())
def test_overlaps_follow_from_the_addresses(data):
    """A byte image of a few partitions is written and read through tensors at random addresses."""
    device = Device()
    image = np.zeros((8, 64), np.uint8)
    everything = device.empty((8, 64), "uint8", address=(0, 128))
    device.issue("memset", everything, 0)
    for step in range(data.draw(st.integers(1, 6))):
        dtype = data.draw(st.sampled_from(["uint8", "uint16", "int32"]))
        size = np.dtype(dtype).itemsize
        rows, columns = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 64 // size))
        byte = data.draw(st.integers(0, 64 - columns * size))
        tile = device.empty((rows, columns), dtype, address=(0, 128 + byte))
        seen = image[:rows, byte : byte + columns * size]
        assert np.array_equal(tile.numpy(), np.ascontiguousarray(seen).view(dtype))
        device.issue("memset", tile, step + 1)
        seen[...] = np.full((rows, columns), step + 1, dtype).view(np.uint8)
        assert np.array_equal(everything.numpy(), image)


def test_partitions_overlap_where_they_are_the_same():
    device = Device()
    upper = device.empty((64, 4), address=(64, 0))
    quadrant = device.empty((32, 4), address=(96, 8))
    device.issue("memset", upper, 1.0)
    device.issue("memset", quadrant, 2.0)
    expected = np.ones((64, 4), np.float32)
    expected[32:, 2:] = 2
    assert np.array_equal(upper.numpy(), expected)


def test_sbuf_and_psum_are_different_memories():
    device = Device()
    sbuf, psum = (device.empty((4, 4), buffer=b, address=(0, 0)) for b in ("sbuf", "psum"))
    device.issue("memset", sbuf, 1.0)
    device.issue("memset", psum, 2.0)
    assert (sbuf.numpy() == 1).all() and (psum.numpy() == 2).all()


def test_cores_have_separate_memories():
    one, two = Device(), Device()
    for device, value in ((one, 1.0), (two, 2.0)):
        device.issue("memset", device.empty((4, 4), address=(0, 0)), value)
    assert (one.empty((4, 4), address=(0, 0)).numpy() == 1).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3), (128, 8192)])
def test_tensors_that_the_system_places_never_overlap(shape):
    device = Device()
    placed = device.empty(shape, address=(0, 0))
    tiles = [placed, *(device.empty(shape) for _ in range(4))]
    for value, tile in enumerate(tiles):
        device.issue("memset", tile, float(value))
    for value, tile in enumerate(tiles):
        assert (tile.numpy() == value).all()


def test_bytes_are_recycled_only_when_no_view_is_left():
    device = Device()
    kept = device.empty((128, 8192))
    device.issue("memset", kept, 7.0)
    part = kept[3:4, :5]
    del kept
    for _ in range(10):
        device.issue("memset", device.empty((128, 8192)), 1.0)
    assert (part.numpy() == 7).all()


@pytest.mark.parametrize(
    ("partitions", "starts"),
    [(1, (0, 32, 64, 96)), (32, (0, 32, 64, 96)), (33, (0, 64)), (64, (0, 64)), (65, (0,))],
)
@pytest.mark.parametrize("target", TARGETS)
def test_tensors_start_at_partitions_where_engines_can_start(target, partitions, starts):
    device = Device(target)
    for start in range(129):
        if start in starts:
            assert device.empty((partitions, 2), address=(start, 0)).start_partition == start
            continue
        with pytest.raises(StartPartitionError) as refused:
            device.empty((partitions, 2), address=(start, 0))
        assert f"starts at partition {start}" in str(refused.value)
        assert f"partition of {either(starts)}, because" in refused.value.expected


@for_all(
    ("start", "rows", "legal"),
    [
        *((32, 32, True), (96, 32, True), (64, 64, True), (0, 128, True)),
        *((7, 1, False), (32, 33, False), (32, 64, False), (32, 65, False), (33, 31, False)),
    ],
)
@for_all("buffer", ["sbuf", "psum"])
def test_instructions_start_at_partitions_where_engines_can_start(buffer, start, rows, legal):
    device = Device()
    tile = device.tile(np.zeros((128, 3), np.float32), buffer=buffer)
    part = tile[start : start + rows]
    if legal:
        device.issue("memset", part, 1.0)
        assert tile.numpy().sum() == 3 * rows
        return
    words = ["dst", f"partition {start}", f"{rows} partition"]
    device.refuses(StartPartitionError, "memset", part, 1.0, words=words)


@for_all("buffer", ["sbuf", "psum"])
@for_all("past", [0, 1, 8])
def test_addresses_stay_inside_the_partition(buffer, past):
    device = Device()
    columns = 10 if buffer == "sbuf" else 512
    end = (SBUF_BYTES["trn2"] if buffer == "sbuf" else PSUM_BYTES["trn2"]) - 4 * columns
    if not past:
        tile = device.empty((4, columns), buffer=buffer, address=(0, end))
        device.issue("memset", tile, 1.0)
        assert (tile.numpy() == 1).all()
        return
    for byte in (end + past, -past):
        with pytest.raises(OutOfBoundsError) as refused:
            device.empty((4, columns), buffer=buffer, address=(0, byte))
        assert f"bytes {byte:,} to {byte + 4 * columns - 1:,}" in str(refused.value)


@pytest.mark.parametrize("target", TARGETS)
def test_addresses_have_the_alignment_of_tile_size(target):
    """Two tensors whose addresses differ by one step share all bytes except those of the step."""
    device = Device(target)
    step = device.call(getattr, nl.tile_size, "sbuf_min_align")
    values = np.arange(64, dtype=np.uint8).reshape(4, 16)
    later = device.zeros((4, 16), "uint8", address=(0, 64 + step))
    device.tile(values, address=(0, 64))
    assert np.array_equal(later.numpy()[:, :-step], values[:, step:])


@pytest.mark.parametrize("byte", [1, 4, 1024, 2044, 2049])
def test_a_tensor_in_psum_starts_at_a_bank(byte):
    with pytest.raises(SignatureError, match="starts at one of 8 banks") as refused:
        Device().empty((4, 4), "uint8", "psum", address=(0, byte))
    assert f"byte {byte}" in str(refused.value) and "multiple of 2048" in str(refused.value)
    Device().empty((4, 4), "uint8", "sbuf", address=(0, byte))
    Device().empty((4, 4), "uint8", "psum", address=(0, byte // 2048 * 2048))


@pytest.mark.parametrize("address", [5, (0,), (0, 1, 2), (0.5, 0), (0, "x")])
def test_an_address_is_a_partition_and_a_byte(address):
    with pytest.raises(SignatureError, match=r"\(partition, byte within the partition\)"):
        Device().empty((4, 4), address=address)


def test_an_address_inside_a_bank_counts_for_matmul():
    device = Device()
    ones = device.tile(np.ones((4, 4), np.float32))
    wide = device.tile(np.ones((4, 512), np.float32))
    fits = device.empty((4, 512), buffer="psum", address=(0, 2 * KIB))
    device.issue("nc_matmul", fits, ones, wide)
    assert (fits.numpy() == 4).all()
    crosses = device.empty((4, 513), buffer="psum", address=(0, 2 * KIB))[:, 1:]
    with pytest.raises(ValueError, match="crosses a PSUM bank"):
        device.issue("nc_matmul", crosses, ones, wide)


def test_renewed_storage_is_a_new_tensor_in_the_same_memory():
    device = Device()
    tile, other = device.tile(np.ones((4, 8), np.float32)), device.empty((4, 8))
    storage, data, version = tile.storage, tile.storage.data, tile.storage.version
    device.core.memory.renew(storage, "again")
    assert storage.id == other.storage.id + 1 and storage.name == "again"
    assert storage.data is data and storage.version > version
    assert tile.unwritten().all() and device.empty((4, 8)).storage.id == storage.id + 1
