"""Statements that find elements, select them by position, or draw random numbers."""

from __future__ import annotations

from typing import Any

from bench.programs import folds
from bench.programs.elementwise import OF_32_BITS
from bench.programs.maker import Maker
from bench.programs.views import View

COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
ORDERED = ("equal", "less", "less_equal", "greater", "greater_equal")
EVERY_FLOAT = ("float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3")


def pattern(maker: Maker, free: int) -> str:
    """Return the text of [step, count] pairs. The product of the counts is `free`, the number of
    elements per partition."""
    counts = [free] if maker.chance(0.4) else [*maker.parts(free)]
    if len(counts) > 1 and maker.chance(0.5):
        counts = [*maker.parts(counts[0]), counts[1]]
    return str([[maker.between(-3, 4), count] for count in counts])


def iota(maker: Maker) -> None:
    lanes, free = maker.size()
    dst = maker.to_write(lanes, free, OF_32_BITS if maker.chance(0.4) else maker.forms)
    given = {"pattern": pattern(maker, free), "offset": str(maker.between(-9, 9))}
    maker.issue("nisa.iota", dst=dst, **given, channel_multiplier=str(maker.between(-2, 3)))


def affine_select(maker: Maker) -> None:
    lanes, free = maker.size()
    src, dst = maker.to_read(lanes, free, maker.forms), maker.to_write(lanes, free, maker.forms)
    given = {"pattern": pattern(maker, free), "channel_multiplier": str(maker.between(-2, 3))}
    given |= {"offset": str(maker.between(-9, 9)), "cmp_op": f"nl.{maker.choose(COMPARISONS)}"}
    filling = str(maker.between(0, 9)) if dst.form.startswith(("u", "i")) else maker.number()
    maker.issue("nisa.affine_select", dst=dst, on_true_tile=src, on_false_value=filling, **given)


def range_select(maker: Maker) -> None:
    if maker.target == "trn1":
        return
    lanes, free = maker.size()
    src = maker.to_read(lanes, free, EVERY_FLOAT, maker.regions())
    dst = maker.to_write(lanes, free, maker.floats, maker.regions())
    first, bounds = str(maker.between(-3, 5)), [maker.column(lanes) for _ in range(2)]
    if maker.chance(0.5):
        first, bounds = _far(maker, lanes, free)
    given: dict[str, Any] = dict(zip(("bound0", "bound1"), bounds, strict=True))
    given |= {f"comp_op{i}": f"nl.{maker.choose(ORDERED)}" for i in (0, 1)}
    given |= {"reduce_res": maker.to_write(lanes, 1, ("float32",), apart=dst, flat=True)}
    given |= {"range_start": first}
    folds.going_on(maker, "nisa.range_select", {"dst": dst, "on_true_tile": src, **given})


def _far(maker: Maker, lanes: int, free: int) -> tuple[str, list[View]]:
    """Return the start of a range beyond 2^24, where float32 does not have all integers, and two
    bounds near this start."""
    start, bounds = maker.choose((-1, 1)) * (FAR + maker.between(-free, 9)), []
    for _ in range(2):
        near, _ = maker.known(lanes, 1, free, "float32")
        bounds.append(maker.new("sbuf", (lanes, 1), "float32"))
        given = {"dst": bounds[-1], "data": near, "op0": "nl.add", "operand0": f"{start}.0"}
        maker.issue("nisa.tensor_scalar", **given)
    return str(start), bounds


FAR = 1 << 24


def eight(maker: Maker) -> None:
    """Find the eight greatest elements of each partition and their positions, and replace them."""
    lanes, free = maker.lanes(), max(8, maker.columns(200))
    form = (maker.form(),)
    data = maker.to_read(lanes, free, form, flat=True)
    vals = maker.to_write(lanes, 8, form, flat=True)
    maker.issue("nisa.max8", dst=vals, src=data)
    if maker.chance(0.6):
        index = maker.to_write(lanes, 8, ("uint16", "uint32"), flat=True)
        maker.issue("nisa.nc_find_index8", dst=index, data=data, vals=vals)
    if maker.chance(0.6):
        dst = maker.to_write(lanes, free, form, flat=True)
        given: dict[str, Any] = {"dst": dst, "data": data, "vals": vals}
        if maker.chance(0.7):
            forms = ("uint16", "uint32")
            given["dst_idx"] = maker.to_write(lanes, 8, forms, apart=dst, flat=True)
        writes = [key for key in ("dst", "dst_idx") if key in given]
        imm = maker.choose(("0", "1", "2"))
        maker.issue("nisa.nc_match_replace8", writes, **given, imm=imm)


def nc_n_gather(maker: Maker) -> None:
    lanes, free = maker.size()
    form, wanted = (maker.form(),), maker.columns(40)
    data, dst = maker.to_read(lanes, free, form), maker.to_write(lanes, wanted, form)
    indices, _ = maker.known(lanes, wanted, free - 1, "uint32")
    maker.issue("nisa.nc_n_gather", dst=dst, data=data, indices=indices)


def local_gather(maker: Maker) -> None:
    lanes, run = 16 * maker.between(1, 8), maker.choose((1, 1, 2, 4))
    form, free = (maker.form(),), run + maker.columns(40)
    columns = maker.between(1, 3)
    count = maker.between(1, 16 * columns)
    src = maker.to_read(lanes, free, form)
    if maker.dialect == "older":  # where the result has more axes
        axes = (count,) if count % 16 else (count // 16, 16)
        dst = maker.new("sbuf", (lanes, *axes, run), *form)
    else:
        dst = maker.to_write(lanes, count * run, form)
    index, _ = maker.known(lanes, columns, free - run, "uint16")
    given = {"num_elem_per_idx": str(run), "num_valid_indices": str(count)}
    maker.issue("nisa.local_gather", dst=dst, src_buffer=src, index=index, **given)


def topk(maker: Maker) -> None:
    lanes, free = 16 * maker.between(1, 8), maker.between(1, 12)
    count = maker.between(8, 16 * free)
    kept = maker.between(1, min(count, 20))
    src = maker.to_read(lanes, free, ("bfloat16",), flat=True)
    best = maker.to_write(lanes, kept, ("bfloat16",), flat=True, written=True)
    index = maker.to_write(lanes, kept, ("uint32",), written=True, apart=best, flat=True)
    given = {"val_dst": best, "idx_dst": index, "src": src}
    maker.issue("nisa.topk", ("val_dst", "idx_dst"), **given, n=str(count))


def nonzero_with_count(maker: Maker) -> None:
    if maker.target == "trn1":
        return
    lanes, free = maker.lanes(), maker.columns(60)
    src = maker.to_read(lanes, free, ("float32", "int32"))
    dst = maker.to_write(lanes, free + 1, ("int32",), written=True)
    given = {"index_offset": str(maker.between(0, 9))} if maker.chance(0.5) else {}
    maker.issue("nisa.nonzero_with_count", dst=dst, src=src, **given)


def sequence_bounds(maker: Maker) -> None:
    free = maker.columns(60)
    form = maker.choose(("int32", "float32"))
    ids, _ = maker.known(1, free, 2, form)
    dst = maker.new("sbuf", (1, 2, free), maker.choose(("int32", "float32")))
    maker.issue("nisa.sequence_bounds", dst=dst, segment_ids=ids)


# --- random numbers -------------------------------------------------------------------------------


def rng(maker: Maker) -> None:
    lanes, free = maker.size()
    gpsimd = maker.target != "trn1" and maker.chance(0.4)
    whole = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
    dst = maker.to_write(lanes, free, whole, ("sbuf",) if gpsimd else maker.regions())
    given = {"engine": "nisa.engine.gpsimd"} if gpsimd else {}
    maker.issue("nisa.rng", dst=dst, **given)


def rand2(maker: Maker) -> None:
    if maker.target != "trn3":
        return
    lanes, free = maker.size()
    forms = (*EVERY_FLOAT, "int8", "int16", "int32", "uint8", "uint16", "uint32")
    dst = maker.to_write(lanes, free, forms, maker.regions())
    least: View | str = maker.column(lanes) if maker.chance(0.5) else "-1.0"
    most: View | str = maker.column(lanes) if maker.chance(0.3) else "2.0"
    maker.issue("nisa.rand2", dst=dst, min=least, max=most)


def dropout(maker: Maker) -> None:
    lanes, free = maker.size()
    form = (maker.form(),)
    data = maker.to_read(lanes, free, form, maker.regions())
    dst = maker.to_write(lanes, free, form, maker.regions())
    forms = maker.floats if data.form in maker.floats else ("float32",)
    prob: View | str = maker.column(lanes, forms) if maker.chance(0.5) else "0.5"
    maker.issue("nisa.dropout", dst=dst, data=data, prob=prob)


def set_rng_seed(maker: Maker) -> None:
    seed, _ = maker.known(1, 1, 99, maker.choose(("int32", "uint32", "float32")))
    maker.issue("nisa.set_rng_seed", (), src_seeds=seed)
    rng(maker)


def states(maker: Maker) -> None:
    """Set the states of random number generators, use them, and read them."""
    if maker.target == "trn1":
        return
    vector = maker.target == "trn3" and maker.chance(0.4)
    lanes, words = maker.lanes(), 24 if vector else 6
    given = {"engine": "nisa.engine.vector"} if vector else {}
    if maker.chance(0.7):
        words_of, _ = maker.known(lanes, words, (1 << 32) - 1, "uint32")
        maker.issue("nisa.rand_set_state", (), src_seeds=words_of, **given)
        rng(maker)
    dst = maker.new("sbuf", (lanes, words), "uint32")
    maker.issue("nisa.rand_get_state", dst=dst, **given)


STEPS = (
    *((iota, 0.8), (affine_select, 0.5), (range_select, 0.5), (eight, 0.6), (nc_n_gather, 0.4)),
    *((local_gather, 0.4), (topk, 0.3), (nonzero_with_count, 0.45), (sequence_bounds, 0.3)),
    *((rng, 0.3), (rand2, 0.8), (dropout, 0.4), (set_rng_seed, 0.25), (states, 0.4)),
)
