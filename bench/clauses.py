"""Compare single instructions on tiles of 128 x 512 with numpy on arrays. The cases are
instructions that take many times as long as numpy, or once did. Numpy computes its functions of
float32 approximately, in float32; neuroncore computes them in float64, with results within 0.501
units of the last place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from issuing import Line
from measure import least

P, F = SHAPE = 128, 512
TIMES = 20  # calls in one sample
Work = Callable[[], Any]
# neuroncore's work, numpy's work, and the largest allowed ratio of times
Cases = dict[str, tuple[Work, Work, float]]


def lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    # the range in which the function tables are valid
    x = rng.uniform(-1.5, 1.5, SHAPE).astype(np.float32)
    rows = np.ascontiguousarray(rng.permutation(P).reshape(P, 1), np.int32)
    found: list[Line] = []

    @nki.jit
    def kernel(x: Any, rows: Any) -> Any:
        tiles = Tiles(x, rows)
        for cases in (functions(tiles), choices(tiles), moves(tiles)):
            found.extend(compared(cases))
        nl.store(tiles.out, tiles.x)
        return tiles.out

    kernel(x, rows)
    return iter(found)


class Tiles:
    """The operands of all cases: tiles, and arrays with the same contents."""

    def __init__(self, x: Any, rows: Any) -> None:
        self.x, self.index = nl.load(x), nl.load(rows)
        self.positive, self.result = (nl.ndarray(SHAPE, nl.float32) for _ in range(2))
        self.whole, self.flags = nl.ndarray(SHAPE, nl.int32), nl.ndarray(SHAPE, nl.uint8)
        nisa.activation(dst=self.positive, op=nl.abs, data=self.x)
        nisa.tensor_scalar(dst=self.flags, data=self.x, op0=nl.greater, operand0=0.0)
        nisa.memset(dst=self.result, value=0.0)
        self.out = nl.ndarray(SHAPE, nl.float32, buffer=nl.shared_hbm)
        self.table = nl.ndarray(SHAPE, nl.float32, buffer=nl.private_hbm)
        nl.store(self.table, self.x)
        self.array = np.array(x.numpy())
        self.size = np.abs(self.array)
        self.made, self.integers = np.empty(SHAPE, np.float32), np.empty(SHAPE, np.int32)
        self.picked, self.chosen = rows.numpy().reshape(P), self.array > 0


def functions(t: Tiles) -> Cases:
    def ours(op: Any, data: Any) -> Work:
        return lambda: nisa.activation(dst=t.result, op=op, data=data)

    def power(data: Any) -> Work:
        return lambda: nisa.tensor_tensor(dst=t.result, data1=data, data2=t.x, op=nl.power)

    size, x = t.size, t.array
    return {
        "rsqrt": (ours(nl.rsqrt, t.positive), lambda: 1 / np.sqrt(size), 2.2),
        "log": (ours(nl.log, t.positive), lambda: np.log(size), 4.0),
        "arctan": (ours(nl.arctan, t.x), lambda: np.arctan(x), 4.2),
        "tanh": (ours(nl.tanh, t.x), lambda: np.tanh(x), 4.2),
        "power": (power(t.positive), lambda: np.power(size, x), 6.0),
        "power of numbers below 0": (power(t.x), lambda: np.power(size, x), 8.0),
    }


def choices(t: Tiles) -> Cases:
    x, made, chosen = t.array, t.made, t.chosen
    flagged, signs = t.flags, np.empty(SHAPE, np.uint8)
    return {
        "comparison, to bytes": (
            lambda: nisa.tensor_scalar(dst=flagged, data=t.x, op0=nl.greater, operand0=0.0),
            lambda: np.greater(x, 0, out=signs.view(np.bool_)),
            3.0,
        ),
        "predicated copy of half of the elements": (
            lambda: nisa.tensor_copy_predicated(dst=t.result, src=t.x, predicate=flagged),
            lambda: np.copyto(made, x, where=chosen),
            0.3,
        ),
        "nl.where": (
            lambda: nl.where(flagged, t.x, t.positive),
            lambda: np.where(chosen, x, t.size),
            0.8,
        ),
        "dropout": (
            lambda: nisa.dropout(dst=t.result, data=t.x, prob=0.5),
            lambda: x * (np.random.default_rng(0).random(SHAPE, np.float32) > 0.5),
            2.0,
        ),
    }


def moves(t: Tiles) -> Cases:
    x, made, integers, picked = t.array, t.made, t.integers, t.picked

    def rows() -> Any:
        pattern = [[F, P], [1, F]]
        return t.table.ap(pattern, 0, vector_offset=t.index, indirect_dim=0)

    return {
        "float32 to int32": (
            lambda: nisa.tensor_copy(dst=t.whole, src=t.x),
            lambda: np.copyto(integers, x, casting="unsafe"),
            5.0,
        ),
        "iota": (
            lambda: nisa.iota(dst=t.whole, pattern=[[1, F]], offset=0, channel_multiplier=F),
            lambda: np.copyto(integers, np.arange(P * F, dtype=np.int32).reshape(SHAPE)),
            1.6,
        ),
        "gather of rows": (
            lambda: nisa.dma_copy(dst=t.result, src=rows()),
            lambda: np.take(x, picked, 0, made, "clip"),
            8.0,
        ),
        "scatter of rows": (
            lambda: nisa.dma_copy(dst=rows(), src=t.x),
            lambda: made.__setitem__(picked, x),
            8.0,
        ),
    }


def compared(cases: Cases) -> Iterator[Line]:
    def repeated(one: Work) -> Work:
        def work() -> None:
            for _ in range(TIMES):
                one()

        return work

    for name, (ours, theirs, limit) in cases.items():
        mine, other = least(repeated(ours), repeated(theirs), rounds=21)
        remark = f"{mine / TIMES * 1e6:.0f} us; numpy {other / TIMES * 1e6:.0f} us"
        yield f"{name}, of numpy", mine / other, limit, remark
