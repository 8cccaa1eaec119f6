"""Statements of the DMA engines, with registers and tiles that determine the addresses."""

from __future__ import annotations

from typing import Any, NamedTuple

from bench.programs.maker import Maker
from bench.programs.program import ALWAYS, APART, AROUND
from bench.programs.views import View

ANYWHERE = ("sbuf", "hbm")
ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_copy(maker: Maker) -> None:
    lanes, free = maker.size()
    src = maker.to_read(lanes, free, maker.forms, ANYWHERE, anywhere=True, moves=True)
    dst = maker.to_write(lanes, free, maker.forms, ANYWHERE, anywhere=True, moves=True)
    by_index = "indirect DMA" in src.kinds | dst.kinds
    given = {} if by_index else _descriptors(maker, dst.form == src.form)
    maker.issue("nisa.dma_copy", dst=dst, src=src, **given)


def _descriptors(maker: Maker, same: bool) -> dict[str, str]:
    """Return the arguments that state what writes the descriptors of a DMA; usually there are none.
    `same` is true if the DMA converts nothing."""
    if maker.chance(0.8):
        return {}
    if same and maker.target != "trn1" and maker.chance(0.5):
        given = {"dge_mode": "nisa.dge_mode.hwdge"}
        engine = maker.choose(("sync", "scalar"))
        return given | ({"engine": f"nisa.engine.{engine}"} if maker.chance(0.5) else {})
    return {"dge_mode": f"nisa.dge_mode.{maker.choose(('swdge', 'none'))}"}


def dma_transpose(maker: Maker) -> None:
    axes, form = maker.choose((2, 2, 3, 4)), maker.choose(("float32", "bfloat16", "int32", "int16"))
    shape = [maker.between(1, 40), *(maker.between(1, 4) for _ in range(axes - 2))]
    shape.append(maker.between(1, 40))
    region = maker.choose(ANYWHERE)
    if maker.dialect == "older" and form == "float32":
        region = "hbm"  # the older API's compiler can't transpose float32 from SBUF
    src = (
        maker.given(shape, form) if region == "hbm" else maker.fill(maker.new("sbuf", shape, form))
    )
    dst = maker.new("sbuf", [shape[axis] for axis in ORDERS[axes]], form)
    maker.issue("nisa.dma_transpose", dst=dst, src=src)


def dma_compute(maker: Maker) -> None:
    lanes, free = maker.size()
    count = maker.between(1, 3)
    srcs = [maker.to_read(lanes, free, maker.forms, ANYWHERE, anywhere=True) for _ in range(count)]
    dst = maker.to_write(lanes, free, maker.forms, ANYWHERE, anywhere=True)
    maker.issue("nisa.dma_compute", dst=dst, srcs=srcs, reduce_op="nl.add")


def _table(maker: Maker, rows: int, free: int, form: str, changes: bool = False) -> View:
    """Return a tensor in HBM whose rows an index can select: an input, or a tensor that is written
    first. In a program of two cores, a table that `changes` is never an input."""
    if maker.chance(0.5) and not (changes and maker.cores > 1):
        return maker.given((rows, free), form)
    table = maker.new("hbm", (rows, free), form)
    maker.issue("nisa.dma_copy", dst=table, src=maker.given((rows, free), form))
    return table


def _picked(maker: Maker, table: View, index: View, rows: list[int], columns: slice) -> View:
    """Return the rows of a table that an index selects, with some of their columns. `rows` are the
    numbers in the index."""
    at = table.at[rows][:, columns]
    width, first = at.shape[1], columns.start
    if maker.chance(0.5):
        pattern = [[table.free, len(rows)], [1, width]]
        text = f".ap({pattern}, offset={first}, vector_offset={index.text}, indirect_dim=0)"
    else:
        text = f"[:, {first}:{columns.stop}].vector_select(0, {index.text})"
    return table.with_rows(text, at)


def gather(maker: Maker) -> None:
    """Read rows that an index selects."""
    rows, form = maker.between(2, 60), maker.form()
    lanes, free = min(maker.lanes(), 64), maker.columns(40)
    table = _table(maker, rows, free + maker.choose((0, 0, 3)), form)
    index, picks = maker.known(lanes, 1, rows - 1, maker.choose(("int32", "uint32")))
    first = maker.between(0, table.free - free)
    src = _picked(maker, table, index, picks[:, 0].tolist(), slice(first, first + free))
    adds = maker.chance(0.3)
    dst = maker.to_write(lanes, free, (form,) if adds else maker.forms, written=True, anywhere=True)
    given: dict[str, Any] = {"dst": dst, "src": src}
    if adds:
        given = {"dst": dst, "srcs": [dst, src], "reduce_op": "nl.add"}
    if maker.chance(0.3):
        most = rows + maker.between(0, rows)
        beyond, _ = maker.known(lanes, 1, most, "int32", "known" + AROUND)
        found = src.text.replace(index.text, beyond.text)
        given = _skipping(given, src, found)
    maker.issue("nisa.dma_compute" if adds else "nisa.dma_copy", **given)


def _skipping(given: dict[str, Any], rows: View, text: str) -> dict[str, Any]:
    """Return arguments in which the view `text` replaces `rows`. Rows of this view that don't exist
    are skipped. Its positions are not compared with the record."""
    other = {"srcs": [text if one is rows else one.text for one in given.get("srcs", [])]}
    other |= {key: text for key, one in given.items() if one is rows}
    made = given | {key: one for key, one in other.items() if key in given}
    if "srcs" in given:
        made["srcs"] = f"[{', '.join(other['srcs'])}]"
    return made | {"oob_mode": "nisa.oob_mode.skip"}


def gather_transpose(maker: Maker) -> None:
    """Read and transpose rows that an index selects. If an index selects more than 128 rows, it is
    a tile with several columns."""
    if maker.target == "trn1":
        return
    rows, free, form = maker.between(2, 60), maker.between(1, 64), maker.choose(NARROW)
    lanes = 16 * maker.between(1, 8) if maker.chance(0.6) else 128 * maker.between(1, 3)
    shape = (lanes, 1) if lanes <= 128 and maker.chance(0.7) else (128, -(-lanes // 128))
    table = _table(maker, rows, free, form)
    index, numbers = maker.known(*shape, rows - 1, "uint32")
    picks = numbers.T.reshape(-1)[:lanes].tolist()
    text = f".ap([[{free}, {lanes}], [1, {free}]], vector_offset={index.text}, indirect_dim=0)"
    src = table.with_rows(text, table.at[picks])
    dst = maker.new("sbuf", (free, lanes), form)
    maker.issue("nisa.dma_transpose", dst=dst, src=src)


NARROW = ("bfloat16", "float16", "int16", "uint16")


def scatter(maker: Maker) -> None:
    """Write rows that an index selects."""
    rows, form = maker.between(2, 60), maker.form()
    lanes, free = maker.between(1, min(rows, 40)), maker.columns(40)
    table = _table(maker, rows, free, form, changes=True)
    adds = maker.chance(0.3)
    twice = not adds and maker.chance(0.3)  # if a row occurs twice, the last write remains
    kind = "known" if twice else "distinct"
    index, picks = maker.known(lanes, 1, rows - 1, "int32", kind)
    dst = _picked(maker, table, index, picks[:, 0].tolist(), slice(0, free))
    src = maker.to_read(lanes, free, (form,), anywhere=True)
    given: dict[str, Any] = {"dst": dst, "src": src}
    if adds:
        given = {"dst": dst, "srcs": [dst, src], "reduce_op": "nl.add"}
    if maker.chance(0.3):
        most = rows + maker.between(0, rows)
        beyond, _ = maker.known(lanes, 1, most, "int32", kind + AROUND)
        given = _skipping(given, dst, dst.text.replace(index.text, beyond.text))
    maker.issue("nisa.dma_compute" if adds else "nisa.dma_copy", **given)
    again = maker.to_write(rows, free, maker.forms, anywhere=True)
    maker.issue("nisa.dma_copy", dst=again, src=table.tensor.whole())


def interleaved(maker: Maker) -> None:
    """Alternately write and read patterns of a tensor in HBM. The rows of a pattern are as far
    apart as the rows of the tensor, but may continue from one row of the tensor in the next one."""
    lanes, wide, form = maker.between(1, 20), maker.between(6, 40), maker.form()
    rows = lanes + maker.between(1, 3)
    table, first = _table(maker, rows, wide, form, changes=True), maker.between(0, 1)
    for turn in range(first, first + maker.between(2, 4)):
        step = maker.choose((1, 2, 2, 3))
        free = maker.between(1, (wide - 1) // step + 1)
        last = (rows - lanes + 1) * wide - 1 - step * (free - 1)
        there = table.tensor.whole().ap([[wide, lanes], [step, free]], maker.between(0, last))
        chosen = maker.to_write if turn % 2 else maker.to_read
        tile = chosen(lanes, free, maker.forms, anywhere=True)
        dst, src = (tile, there) if turn % 2 else (there, tile)
        maker.issue("nisa.dma_copy", dst=dst, src=src, kinds=["interleaved rows"])


# --- registers and loops --------------------------------------------------------------------------


def register_store(maker: Maker) -> None:
    name, _ = maker.register(100)
    dst = maker.to_write(1, 1, maker.forms, flat=True, anywhere=True)
    maker.issue("nisa.register_store", dst=dst, src=name)


class Turns(NamedTuple):
    """The `text` of a loop, with the word `call` in place of an instruction, and the index `at` of
    the columns of an iteration. A `backward` loop begins with the last columns."""

    text: str
    at: str
    backward: bool = False


def loop(maker: Maker) -> None:
    """Copy columns in a loop of Python or of the device."""
    lanes, width, turns = maker.lanes(), maker.between(1, 6), maker.between(2, 5)
    src = maker.to_read(lanes, width * turns, maker.forms, flat=True)
    dst = maker.to_write(lanes, width * turns, maker.forms, flat=True)
    kind = maker.choose(("loop", "loop of the device"))
    made = (_of_python if kind == "loop" else _of_the_device)(maker, width, turns)
    pieces = [slice(i * width, (i + 1) * width) for i in range(turns)]
    views = [
        {
            key: one.with_register(f"[:, {made.at}]", one.at[:, piece])
            for key, one in (("dst", dst), ("src", src))
        }
        for piece in (pieces[::-1] if made.backward else pieces)
    ]
    name = "nisa.tensor_copy" if maker.chance(0.5) else "nisa.dma_copy"
    call = f"{name}(dst={dst.text}[:, {made.at}], src={src.text}[:, {made.at}])"
    line = made.text.partition("call")[0].count("\n")
    kinds = [kind] + [APART] * (kind == "loop" and not dst.tensor.shares(src.tensor))
    maker.say(made.text.replace("call", call, 1), None, kinds, views, line)
    maker.wrote(dst)


def _of_python(maker: Maker, width: int, turns: int) -> Turns:
    name = maker.choose(("affine_range", "sequential_range", "static_range"))
    return Turns(f"for i in nl.{name}({turns}):\n    call", f"nl.ds(i * {width}, {width})")


def _loaded(maker: Maker, end: int) -> str:
    """Return the text of a bound that is computed from a number in memory. Its value, `end`, is the
    same in every run, because the kernel branches on it."""
    name = maker.name("r")
    source = maker.known_input((1, 1), end, "int32", ALWAYS)
    maker.say(f"{name} = nisa.register_alloc()", makes=name)
    kinds = ["a decision about a load"]
    maker.issue("nisa.register_load", (), dst=name, src=source, kinds=kinds)
    return f"{name} + {end - int(maker.last_numbers()[0, 0])}"


def _of_the_device(maker: Maker, width: int, turns: int) -> Turns:
    """Return a loop whose variable is a register that counts columns up or down."""
    end, at = width * turns, f"nl.ds(i, {width})"
    last, before = maker.name("r"), f"nl.ds({{}} - {width}, {width})"
    held = _loaded(maker, end) if maker.chance(0.9) else f"nisa.register_alloc({end})"
    begin = f"{last} = {held}\n"
    upward = (
        f"{begin}for i in nl.dynamic_range(0, {last}, {width}):\n    call",
        f"for i in nl.dynamic_range(0, {end}, {width}):\n    call",
        f"nl.fori_loop(0, {end}, lambda i: call, {width})",
        f"{begin}for i in nl.dynamic_range({last} - {end}, {last}, {width}):\n    call",
        f"{begin}nl.fori_loop({last} - {end}, {last}, lambda i: call, step={width})",
    )
    body, move = maker.name("f"), f"nisa.register_move({last}, {last} - {width})"
    downward = (
        Turns(f"{begin}while {last}:\n    call\n    {move}", before.format(last), True),
        Turns(
            f"def {body}(i):\n    call\n    return i - {width}\n"
            f"{begin}nl.while_loop({last}, {body})",
            before.format("i"),
            True,
        ),
    )
    return maker.choose([*(Turns(text, at) for text in upward), *downward])


STEPS = (
    *((dma_copy, 2), (dma_transpose, 0.5), (dma_compute, 0.4), (gather, 0.8), (scatter, 0.6)),
    *((gather_transpose, 0.3), (interleaved, 1.1)),
    *((register_store, 0.3), (loop, 2.4)),
)
