"""Statements of the Tensor engine."""

from __future__ import annotations

from typing import Any

from bench.programs import picks, repeats
from bench.programs.draws import ON_CHIP
from bench.programs.maker import Maker
from bench.programs.program import EDGES
from bench.programs.views import SIZES, View

NARROW = ("bfloat16", "float16", "float8_e5m2", "float8_e4m3")
EIGHT_BITS = ("float8_e5m2", "float8_e4m3")
PACKED = ("float8_e5m2_x4", "float8_e4m3fn_x4")
COLUMNS, WEIGHTS = 512, 128  # the largest numbers of columns of the moving and the stationary tile
SPARSE = ((4, 16), (4, 12), (4, 8), (2, 8), (2, 4), (1, 4), (1, 2))


def _formats(maker: Maker) -> tuple[str, ...]:
    """Return formats that may be multiplied with each other."""
    return ("float32",) if maker.chance(0.2) else NARROW


def _rows(maker: Maker) -> int:
    return min(maker.lanes(), maker.choose((16, 32, 48, 64, 128)))


def _sum(maker: Maker, rows: int, columns: int, **how: bool) -> View | None:
    """Return a view in PSUM for sums, or None if there is no room."""
    forms = (
        ("float32", "bfloat16") if maker.target == "trn3" and maker.chance(0.3) else ("float32",)
    )
    known = any(
        p.region == "psum" and p.shape[0] >= rows and p.row // SIZES[forms[0]] >= columns
        for p in maker.tensors
    )
    if not known and not maker.room_in_psum(columns, forms[0]):
        return None
    made = maker.to_write(rows, columns, forms, ("psum",), **how)
    return made if made.tensor.row <= 2048 else None


def _factors(maker: Maker, forms: tuple[str, ...]) -> View:
    """Return a stationary tile, often one that was used before."""
    known = _used(maker, forms, WEIGHTS)
    if known and maker.chance(0.5):
        return maker.choose(known)
    flat = maker.chance(0.8)
    return maker.to_read(_rows(maker), min(maker.columns(), WEIGHTS), forms, flat=flat)


def _used(maker: Maker, forms: tuple[str, ...], most: int, rows: int | None = None) -> list[View]:
    """Return the views that were used before and may be operands of products, with at most `most`
    columns and, if given, this number of rows."""
    return [
        one for one in maker.used
        if one.form in forms and one.free <= most and rows in (None, one.lanes) and not one.moved
        and one.tensor.region == "sbuf" and one.starts_well and one.is_written()
    ]  # fmt: skip


def _moving(maker: Maker, rows: int, forms: tuple[str, ...]) -> View:
    """Return a moving tile, sometimes one that was used before."""
    known = _used(maker, forms, COLUMNS, rows)
    if known and maker.chance(0.3):
        return maker.choose(known)
    columns = min(maker.columns(), COLUMNS)
    return maker.to_read(rows, columns, forms, flat=maker.chance(0.8))


def nc_matmul(maker: Maker) -> None:
    """Issue products of one stationary tile with moving tiles of several widths."""
    forms = _formats(maker)
    stationary = _factors(maker, forms)
    widths: list[int] = []
    for _ in range(maker.choose((1, 1, 2, 3, 3))):
        moving = _moving(maker, stationary.lanes, forms)
        columns = moving.free
        dst = _sum(maker, stationary.free, columns)
        if dst is None:
            return
        given: dict[str, Any] = {"dst": dst, "stationary": stationary, "moving": moving}
        given |= _tiled(maker, stationary, dst)
        given |= _accumulates(maker, dst) | _onezero(maker)
        ragged = columns <= 17 and any(wide > 17 for wide in widths)
        kinds = ["accumulation"] * (given.get("accumulate") == "True")
        kinds += ["ragged end of a product"] * ragged
        maker.issue("nisa.nc_matmul", **given, kinds=kinds)
        widths.append(columns)


def _accumulates(maker: Maker, dst: View) -> dict[str, str]:
    """Return the argument `accumulate` of a product, or usually no argument."""
    if dst.is_written() and maker.chance(0.5):
        return {"accumulate": maker.choose(("True", "False"))}
    return {}


def _onezero(maker: Maker) -> dict[str, str]:
    """Return an argument that promises zeros and ones, which changes no result; usually none."""
    name = maker.choose(("is_stationary_onezero", "is_moving_onezero"))
    return {name: "True"} if maker.chance(0.05) else {}


def _tiled(maker: Maker, stationary: View, dst: View) -> dict[str, str]:
    """Return the arguments that place small tiles in a part of the array, or usually no
    arguments."""
    if stationary.lanes > 64 or stationary.free > 64 or maker.chance(0.85):
        return {}
    row, column = (one.first_lane // 64 * 64 for one in (stationary, dst))
    return {"tile_position": str((row, column)), "tile_size": "(64, 64)"}


def groups(maker: Maker) -> None:
    """Alternately add products to several sums."""
    forms, count = _formats(maker), maker.between(2, 3)
    rows, weights = _rows(maker), min(maker.columns(), 64)
    sums = (_parts if maker.chance(0.4) else _apart)(maker, weights, count)
    for number in range(maker.between(2, 3)):
        stationary = maker.to_read(rows, weights, forms, flat=True)
        for dst in sums:
            moving = maker.to_read(rows, dst.free, forms, flat=True)
            given = {"accumulate": str(number > 0)} if maker.chance(0.7) else {}
            maker.issue(
                "nisa.nc_matmul", dst=dst, stationary=stationary, moving=moving, **given,
                kinds=["interleaved groups", "accumulation"],
            )  # fmt: skip


def _apart(maker: Maker, weights: int, count: int) -> list[View]:
    """Return a tensor for each sum, as many as there is room for."""
    sums: list[View] = []
    for _ in range(count):
        columns = min(maker.columns(), 128)
        if maker.room_in_psum(columns, "float32"):
            sums.append(maker.new("psum", (weights, columns), "float32"))
    return sums


def _parts(maker: Maker, weights: int, count: int) -> list[View]:
    """Return columns of one tensor for each sum, or an empty list if there is no room."""
    columns = min(maker.columns(), 128)
    if not maker.room_in_psum(count * columns, "float32"):
        return []
    whole = maker.new("psum", (weights, count * columns), "float32")
    pieces = (slice(n * columns, (n + 1) * columns) for n in range(count))
    return [whole.index(slice(None), piece) for piece in pieces]


def rows_of_one(maker: Maker) -> None:
    """Multiply several rows of two tensors. Then write to one of the tensors, and multiply
    again."""
    forms, rows = _formats(maker), maker.choose((1, 16, 32, 32))
    weights, columns = min(maker.columns(), 64), min(maker.columns(), 128)
    lanes = maker.choose((64, 96, 128))
    if not maker.room_in_psum(columns, "float32"):
        return
    tiles = [
        maker.fill(maker.new("sbuf", (lanes, free), maker.choose(forms)))
        for free in (weights, columns)
    ]
    starts = maker.random.sample([n for n in (0, 32, 64) if n + rows <= lanes], 2)
    dst = maker.new("psum", (weights, columns), "float32")
    for turn in range(2):
        for first in starts:
            one, other = (tile.index(slice(first, first + rows)) for tile in tiles)
            maker.issue("nisa.nc_matmul", dst=dst, stationary=one, moving=other)
        if not turn:
            repeats.touch(maker, maker.choose(tiles), 0.7)


def double_row(maker: Maker) -> None:
    """Issue a product of 8-bit operands in double_row mode. In some programs, the same stationary
    tile is then used without this mode."""
    if maker.target == "trn1":
        return
    rows, weights, columns = _rows(maker), min(maker.columns(), 64), min(maker.columns(), 128)
    tiles = [_pairs(maker, rows, n) for n in (weights, columns)]
    dst = _sum(maker, tiles[0].shape[2], tiles[1].shape[2])
    if dst is None:
        return
    given = {"dst": dst, "stationary": tiles[0], "moving": tiles[1]}
    mode = "nisa.matmul_perf_mode.double_row"
    maker.issue("nisa.nc_matmul", **given, perf_mode=mode, kinds=["double row"])
    if tiles[0].free <= WEIGHTS and maker.chance(0.3):
        moving = _moving(maker, rows, EIGHT_BITS)
        if (other := _sum(maker, tiles[0].free, moving.free)) is not None:
            maker.issue("nisa.nc_matmul", dst=other, stationary=tiles[0], moving=moving)


def _pairs(maker: Maker, rows: int, columns: int) -> View:
    """Return a tile [rows, 2, columns] for double_row mode, sometimes one that was used before."""
    known = [one for one in _used(maker, EIGHT_BITS, 128, rows) if one.shape[1:2] == (2,)]
    known = [one for one in known if len(one.shape) == 3]
    if known and maker.chance(0.4):
        return maker.choose(known)
    return maker.fill(maker.new("sbuf", (rows, 2, columns), maker.choose(EIGHT_BITS)))


def nc_transpose(maker: Maker) -> None:
    if maker.chance(0.4):
        lanes, free = maker.between(1, 32), maker.between(1, 32)
        form = (maker.form(),)
        data, dst = maker.to_read(lanes, free, form, ON_CHIP), maker.to_write(free, lanes, form)
        maker.issue("nisa.nc_transpose", dst=dst, data=data, engine="nisa.engine.vector")
        return
    lanes, free = maker.lanes(), min(maker.columns(), WEIGHTS)
    form = maker.form()
    if not maker.room_in_psum(lanes, form):
        return
    data, dst = maker.to_read(lanes, free, (form,)), maker.new("psum", (free, lanes), form)
    given = {"engine": "nisa.engine.tensor"} if maker.chance(0.3) else {}
    maker.issue("nisa.nc_transpose", dst=dst, data=data, **given)


def transpose_mode(maker: Maker) -> None:
    """Transpose a tile by a product with an identity matrix in transpose mode."""
    if maker.target == "trn1":
        return
    rows, weights, form = _rows(maker), min(maker.columns(), 64), maker.choose(NARROW[:2])
    if not maker.room_in_psum(rows, form):
        return
    data, dst = maker.to_read(rows, weights, (form,)), maker.new("psum", (weights, rows), form)
    identity = maker.new("sbuf", (rows, rows), form)
    maker.issue("nisa.dma_copy", dst=identity, src=maker.given((rows, rows), form, "identity"))
    maker.issue("nisa.nc_matmul", dst=dst, stationary=data, moving=identity, is_transpose="True")


def sparse(maker: Maker) -> None:
    """Issue a product with structured sparsity."""
    if maker.target == "trn1":
        return
    kept, among = maker.choose(SPARSE)
    form, columns = maker.choose(NARROW[:2]), min(maker.columns(), 60)
    rows, four = kept * maker.between(1, 32 // kept), maker.between(1, 6)
    dst = _sum(maker, 4 * four, columns)
    if dst is None or dst.form != "float32":
        return
    stationary = maker.to_read(rows, 4 * four, (form,))
    moving = maker.fill(maker.new("sbuf", (rows, among // kept, columns), form))
    tags, _ = maker.known(rows, four, 65535 if among == 16 else among - 1, "uint16")
    maker.options["experimental"] = True
    given: dict[str, Any] = {"dst": dst, "stationary": stationary, "moving": moving, "tags": tags}
    places = maker.choose(("partition", "slot"))
    given |= _accumulates(maker, dst)
    maker.issue("nisa.nc_matmul_sparse", **given, pattern=str((kept, among)), places=repr(places))


def picked(maker: Maker) -> None:
    """Issue a product of operands whose elements an index in SBUF may select."""
    if maker.target != "trn3":
        return
    rows, free = maker.choose((32, 64, 96, 128, 17)), maker.between(1, 64)
    sizes = [min(n, rows % 32 or n) for n in (free, maker.between(1, 64))]
    if not maker.room_in_psum(sizes[1], "float32"):
        return
    tiles = [
        picks.picked(maker, rows, n, NARROW, picks.GROUP_OF_PRODUCTS)
        if maker.chance(0.7) else maker.to_read(rows, n, NARROW, flat=True)
        for n in sizes
    ]  # fmt: skip
    dst = maker.new("psum", sizes, "float32")
    maker.issue("nisa.nc_matmul", dst=dst, stationary=tiles[0], moving=tiles[1])


# --- microscaling ---------------------------------------------------------------------------------


def scale_rows(lanes: int) -> int:
    """Return the number of partitions of a scale tile for data with `lanes` partitions: 4 in its
    last quadrant, and 32 for each quadrant before."""
    return (lanes - 1) // 32 * 32 + 4


def quantized(maker: Maker, lanes: int, free: int) -> tuple[View, View]:
    """Quantize a tile. Return the tile of packed elements, and its scales. In some programs, the
    scales are not those of the elements, but random codes, or the smallest and largest codes, 1 and
    NaN. Whole groups of elements may be zeros, from before the quantization or from after it."""
    src = maker.to_read(lanes, 4 * free, ("bfloat16", "float16"), flat=True)
    dst = maker.new("sbuf", (lanes, free), maker.choose(PACKED))
    scales = maker.new("sbuf", (scale_rows(lanes), free), "uint8")
    if lanes > 32:
        maker.issue("nisa.memset", dst=scales, value="127")
    if src.is_free() and maker.chance(0.25):
        _zeros(maker, src)
    writes = ("dst", "dst_scale")
    maker.issue("nisa.quantize_mx", writes, dst=dst, src=src, dst_scale=scales)
    if maker.chance(0.4):
        _zeros(maker, dst.view("uint32"))
    if maker.chance(0.4):
        kind = maker.choose(("known", EDGES))
        codes = maker.known_input(scales.shape, 255, "uint8", kind)
        maker.issue("nisa.dma_copy", dst=scales, src=codes)
    return dst, scales


def _zeros(maker: Maker, tile: View) -> None:
    """Set some columns of a tile to zeros."""
    first = maker.between(0, tile.free - 1)
    part = tile.index(slice(None), slice(first, maker.between(first + 1, tile.free)))
    maker.issue("nisa.memset", dst=part, value="0")


def mx(maker: Maker) -> None:
    """Issue a product of packed elements."""
    if maker.target != "trn3":
        return
    lanes, weights, columns = (
        maker.choose((32, 32, 64)),
        2 * maker.between(1, 8),
        maker.between(1, 20),
    )
    dst = _sum(maker, weights, columns)
    if dst is None:
        return
    stationary, scales = quantized(maker, lanes, weights)
    moving, others = quantized(maker, lanes, columns)
    maker.issue(
        "nisa.nc_matmul_mx", dst=dst, stationary=stationary, moving=moving,
        stationary_scale=scales, moving_scale=others, **_accumulates(maker, dst),
    )  # fmt: skip


STEPS = (
    *((nc_matmul, 5), (groups, 1), (double_row, 1.8), (nc_transpose, 1), (transpose_mode, 0.4)),
    *((sparse, 0.4), (mx, 1.3), (picked, 0.4), (rows_of_one, 0.6)),
)
