"""nc_matmul: what each machine accepts, and what it refuses."""

import numpy as np
import pytest
from device import TARGETS, Device
from nki.isa import matmul_perf_mode

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    FreeSizeError,
    PartitionLimitError,
    PsumBankError,
    ShapeError,
    SignatureError,
    StartPartitionError,
    TargetError,
)

OLDER = ("trn1", "trn2")
WIDE = ("float32", "tfloat32")
NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2")


def operands(device, k=4, m=3, n=5, **forms):
    """dst, stationary and moving; `forms` are their dtypes and memories."""
    s = device.tile(np.ones((k, m)), forms.get("s", "float32"), forms.get("s_in", "sbuf"))
    x = device.tile(np.ones((k, n)), forms.get("x", "float32"), forms.get("x_in", "sbuf"))
    return device.empty((m, n), forms.get("dst", "float32"), forms.get("dst_in", "psum")), s, x


def runs(device, *operands, **options):
    device.issue("nc_matmul", *operands, **options)
    assert (operands[0].numpy().astype(np.float32) == operands[1].shape[0]).all()


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_the_largest_stationary_tile(target):
    device = Device(target)
    runs(device, *operands(device, k=128, m=128, n=1))


@pytest.mark.parametrize("target", TARGETS)
def test_129_columns_of_stationary_are_too_many(target):
    device = Device(target)
    s = device.tile(np.ones((4, 129), np.float32))
    x = device.tile(np.ones((4, 5), np.float32))
    dst = device.empty((128, 5), buffer="psum")
    device.refuses(FreeSizeError, "nc_matmul", dst, s, x, words=["stationary", "129", "128"])


def test_129_rows_do_not_exist():
    device = Device()
    with pytest.raises(PartitionLimitError, match="129"):
        operands(device, k=129)


@pytest.mark.parametrize(
    ("target", "dtype", "most"),
    [
        *((target, "float32", 512) for target in OLDER),
        ("trn3", "float32", 4096),
        ("trn3", "bfloat16", 8192),
    ],
)
def test_moving_has_a_largest_size(target, dtype, most):
    device = Device(target)
    runs(device, *operands(device, k=2, m=2, n=most, dst=dtype))
    _, s, x = operands(device, k=2, m=2, n=1)
    x = device.tile(np.ones((2, most + 1), np.float32))
    narrow = device.empty((2, most), dtype, "psum")
    error = device.refuses(ShapeError, "nc_matmul", narrow, s, x, words=[str(most + 1)])
    assert any(f"takes {most}" in line for line in error.more)


def test_moving_wider_than_a_bank_is_refused_by_name():
    device = Device()
    message = device.refuses(
        FreeSizeError, "nc_matmul", *operands(device, n=513), words=["moving", "513", "512", "trn2"]
    )
    assert "gemm_moving_fmax" in message.hint


def test_dst_may_fill_a_bank_but_not_cross_into_the_next():
    device = Device()
    dst = device.empty((3, 1024), buffer="psum")
    _, s, x = operands(device, n=512)
    for start in (0, 512):
        runs(device, dst[:, start : start + 512], s, x)
    device.refuses(
        PsumBankError, "nc_matmul", dst[:, 1:513], s, x, words=["dst", "bank", "2048", "4 to 2052"]
    )


@pytest.mark.parametrize("column", [0, 511, 512])
def test_an_address_decides_about_banks(column):
    device = Device()
    _, s, x = operands(device)
    dst = device.empty((3, 517), buffer="psum", address=(0, 2048))[:, column : column + 5]
    if column == 511:
        device.refuses(PsumBankError, "nc_matmul", dst, s, x, words=["dst", "bank"])
    else:
        runs(device, dst, s, x)


def test_on_v4_a_result_may_cross_banks():
    device = Device("trn3")
    dst = device.empty((3, 1024), buffer="psum")
    _, s, x = operands(device, n=512)
    runs(device, dst[:, 1:513], s, x)


def test_strides_count_towards_the_bank():
    device = Device()
    dst = device.empty((3, 1024), buffer="psum")
    _, s, x = operands(device, n=65)
    runs(device, dst[:, 7:512:8], s, x[:, :64])
    device.refuses(PsumBankError, "nc_matmul", dst[:, 7:520:8], s, x, words=["dst", "28 to 2080"])


@pytest.mark.parametrize(
    ("dst", "s", "x", "named"),
    [
        ((3, 5), (4, 3), (5, 5), "K differs"),
        ((4, 5), (4, 3), (4, 5), "dst"),
        ((3, 4), (4, 3), (4, 5), "dst"),
        ((5, 3), (4, 3), (4, 5), "dst"),
    ],
)
def test_shapes_must_fit(dst, s, x, named):
    device = Device()
    tiles = [device.tile(np.ones(shape, np.float32)) for shape in (s, x)]
    error = device.refuses(
        ShapeError, "nc_matmul", device.empty(dst, buffer="psum"), *tiles, words=[named]
    )
    assert f"stationary[K={s[0]}, M={s[1]}]" in error.statement
    assert f"moving[K={x[0]}, N={x[1]}]" in error.statement


@pytest.mark.parametrize("name", ["stationary", "moving", "dst"])
def test_start_partitions(name):
    device = Device()
    whole = device.tile(np.ones((64, 6), np.float32))
    psum = device.empty((64, 6), buffer="psum")
    tiles = {"dst": psum[:6, :6], "stationary": whole[:8, :6], "moving": whole[:8, :6]}
    tiles[name] = (psum if name == "dst" else whole)[7 : 7 + tiles[name].shape[0]]
    device.refuses(StartPartitionError, "nc_matmul", words=[name, "partition 7"], **tiles)
    tiles[name] = (psum if name == "dst" else whole)[32 : 32 + tiles[name].shape[0]]
    device.issue("nc_matmul", **tiles)
    assert (tiles["dst"].numpy() == 8).all()


# --- memories and formats -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where", "needed"),
    [
        *(("stationary", w, "sbuf") for w in ("psum", "hbm")),
        *(("moving", w, "sbuf") for w in ("psum", "hbm")),
        *(("dst", w, "psum") for w in ("sbuf", "hbm")),
    ],
)
def test_the_array_reads_sbuf_and_writes_psum(name, where, needed):
    device = Device()
    key = {"stationary": "s_in", "moving": "x_in", "dst": "dst_in"}[name]
    tiles = operands(device, **{key: where})
    device.refuses(BufferKindError, "nc_matmul", *tiles, words=[name, needed, where])


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("narrow", NARROW)
def test_wide_and_narrow_formats_do_not_meet(wide, narrow):
    device = Device()
    for forms in ({"s": wide, "x": narrow}, {"s": narrow, "x": wide}):
        tiles = operands(device, **forms)
        device.refuses(DtypeError, "nc_matmul", *tiles, words=[wide, narrow])


@pytest.mark.parametrize("target", OLDER)
@pytest.mark.parametrize("key", ["s", "x"])
def test_ocp_fp8_is_for_v4(target, key):
    device = Device(target)
    forms = {"s": "float8_e5m2", "x": "float8_e5m2", key: "float8_e4m3fn"}
    tiles = operands(device, **forms)
    device.refuses(TargetError, "nc_matmul", *tiles, words=["float8_e4m3fn", target])
    device = Device("trn3")
    runs(device, *operands(device, **forms))


def test_the_two_kinds_of_e4m3_do_not_meet():
    device = Device("trn3")
    for s, x in (("float8_e4m3", "float8_e4m3fn"), ("float8_e4m3fn", "float8_e4m3")):
        tiles = operands(device, s=s, x=x)
        device.refuses(DtypeError, "nc_matmul", *tiles, words=[s, x])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "bool"])
@pytest.mark.parametrize("key", ["s", "x"])
def test_the_array_multiplies_no_integers(dtype, key):
    device = Device()
    name = {"s": "stationary", "x": "moving"}[key]
    tiles = operands(device, **{key: dtype})
    device.refuses(DtypeError, "nc_matmul", *tiles, words=[name, dtype])


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        *((t, d) for t in OLDER for d in ("bfloat16", "float16", "float8_e4m3", "int32")),
        *(("trn3", d) for d in ("float16", "float8_e5m2", "tfloat32", "int32")),
    ],
)
def test_sums_leave_as_float32(target, dtype):
    device = Device(target)
    tiles = operands(device, s="bfloat16", x="bfloat16", dst=dtype)
    device.refuses(DtypeError, "nc_matmul", *tiles, words=["dst", dtype])


def test_from_v4_on_also_as_bfloat16():
    device = Device("trn3")
    runs(device, *operands(device, dst="bfloat16"))


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize(
    ("data", "dst"),
    [
        *(("bfloat16", "float16"), ("bfloat16", "float32"), ("float32", "bfloat16")),
        *(("float8_e4m3", "float32"), ("float8_e4m3", "float8_e5m2")),
    ],
)
def test_transpose_mode_converts_nothing(target, data, dst):
    device = Device(target)
    tiles = operands(device, k=4, m=4, n=4, s=data, x=data, dst=dst)
    device.refuses(DtypeError, "nc_matmul", *tiles, is_transpose=True, words=[data, dst])


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize(
    ("data", "dst"),
    [
        *(("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "float32")),
        *(("tfloat32", "float32"), ("float8_e4m3", "float8_e4m3"), ("float8_e5m2", "float16")),
    ],
)
def test_transpose_mode_keeps_the_format(target, data, dst):
    device = Device(target)
    tiles = operands(device, k=4, m=4, n=4, s=data, x=data, dst=dst)
    device.issue("nc_matmul", *tiles, is_transpose=True)
    assert device.findings == []


def test_on_v2_transpose_mode_leaves_as_float32():
    device = Device("trn1")
    tiles = operands(device, k=4, m=4, n=4, s="bfloat16", x="bfloat16", dst="bfloat16")
    device.refuses(DtypeError, "nc_matmul", *tiles, is_transpose=True, words=["dst", "bfloat16"])


# --- parts of the array ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "position", "size", "words"),
    [
        ("trn1", (0, 0), (32, 128), ["tile_size", "(32, 128)"]),
        ("trn1", (0, 32), (128, 32), ["tile_size"]),
        ("trn2", (0, 0), (16, 128), ["tile_size", "(16, 128)"]),
        ("trn2", (0, 0), (96, 128), ["tile_size", "(96, 128)"]),
        ("trn2", (32, 0), (64, 128), ["tile_position", "(32, 0)"]),
        ("trn2", (0, 16), (128, 32), ["tile_position", "(0, 16)"]),
        ("trn2", (128, 0), (64, 128), ["tile_position", "(128, 0)"]),
        ("trn2", (-64, 0), (64, 128), ["tile_position", "(-64, 0)"]),
        ("trn2", (0,), (64,), ["tile_position"]),
        ("trn2", (0, 0, 0), (64, 64, 64), ["tile_position"]),
        ("trn2", (64, 0), (), ["tile_position", "tile_size"]),
        ("trn2", (), (64, 128), ["tile_position", "tile_size"]),
    ],
)
def test_the_array_splits_into_equal_parts_only(target, position, size, words):
    device = Device(target)
    tiles = operands(device)
    options = {"tile_position": position, "tile_size": size}
    device.refuses(ShapeError, "nc_matmul", *tiles, words=words, **options)


@pytest.mark.parametrize(("k", "m"), [(33, 64), (32, 65)])
def test_stationary_fits_its_part(k, m):
    device = Device()
    options = {"tile_position": (0, 0), "tile_size": (32, 64)}
    runs(device, *operands(device, k=32, m=64), **options)
    tiles = operands(device, k=k, m=m)
    device.refuses(ShapeError, "nc_matmul", *tiles, words=["stationary", "(32, 64)"], **options)


# --- modes and arguments --------------------------------------------------------------------------


def test_double_row_is_not_on_v2():
    device = Device("trn1")
    tiles = operands(device, s="float8_e4m3", x="float8_e4m3")
    mode = matmul_perf_mode.double_row
    device.refuses(TargetError, "nc_matmul", *tiles, perf_mode=mode, words=["double_row", "trn1"])


@pytest.mark.parametrize("name", ["dst", "stationary", "moving"])
@pytest.mark.parametrize("value", [None, 1.0, np.ones((4, 5), np.float32)])
def test_only_tiles_will_do(name, value):
    device = Device()
    tiles = dict(zip(("dst", "stationary", "moving"), operands(device), strict=True))
    device.refuses(SignatureError, "nc_matmul", words=[name], **{**tiles, name: value})


def test_a_misspelt_argument_is_refused():
    device = Device()
    error = device.refuses(
        SignatureError, "nc_matmul", *operands(device), acumulate=True, words=["acumulate"]
    )
    assert "accumulate" in error.hint


def test_everything_wrong_is_told_at_once():
    device = Device()
    tiles = operands(device, s_in="hbm", dst_in="sbuf", x="int8")
    error = device.refuses(BufferKindError, "nc_matmul", *tiles, words=["dst"])
    assert ["stationary" in line for line in error.more] == [True, False]
    assert "moving" in error.more[1]
