"""Damage copies of saved runs at random. Each copy must be refused with a sentence, or be replayed
without an access outside its tensors.

    python bench/damaged_records.py [COUNT] [SEED]

A mutation changes bytes of a file's content, values of its JSON, or numbers of its columns. A copy
that can be read is replayed, with guard bytes around the memory of each tensor. The script prints
how many copies were refused when they were read, stopped while they were replayed, and replayed to
the end.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl

from neuroncore.base import buffers
from neuroncore.base.errors import NeuronError, UsageError

GUARD = 1 << 12  # guard bytes before and after the memory of a tensor
PATTERN = 0xA5
VALUES = (
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    1 << 31,
    -(1 << 63),
    1 << 70,
    0.5,
    "",
    "number",
    [],
    {},
    [[0]],
)


@nki.jit
def sample(x, table, index):
    """A kernel with all kinds of data in its record: formats, strides, addresses, sums, registers,
    indices, constants."""
    out = nl.ndarray((64, 32), nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((64, 32), nl.bfloat16)
    nisa.dma_copy(a, x[:, 0:64:2])
    placed = nl.ndarray((32, 32), nl.float32, buffer=nl.sbuf, address=(0, 1024))
    total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum, address=(0, 0))
    for _ in range(2):
        nisa.nc_matmul(total, a, a)
    nisa.activation(placed, nl.exp, total, scale=-0.01)
    rows = nl.ndarray((2, 1), nl.int32)
    nisa.dma_copy(rows, index)
    register = nisa.register_alloc()
    nisa.register_load(register, rows[0:1])
    for _ in nl.dynamic_range(register + 1):
        nisa.tensor_scalar(placed, placed, nl.multiply, 0.5, op1=nl.add, operand1=-0.0)
    picked = nl.ndarray((2, 32), nl.float32)
    nisa.dma_copy(picked, table.ap([[32, 2], [1, 32]], vector_offset=rows, indirect_dim=0))
    nisa.tensor_tensor(placed[0:2], placed[0:2], picked, nl.add)
    nisa.dma_copy(picked[0:1], table[nl.ds(register * 2, 1)])
    constant = nl.ndarray((32, 32), nl.float32)
    nisa.dma_copy(constant, nl.shared_constant(np.eye(32, dtype=np.float32)))
    nisa.tensor_tensor(constant, constant, placed, nl.maximum)
    nisa.dma_copy(out[0:32], placed)
    nisa.dma_copy(out[32:64], constant)
    return out


def saved(path: Path) -> bytes:
    """Run the sample, save the run to a file, and return the decompressed content of the file."""
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
    table = np.ones((8, 32), np.float32)
    run = neuroncore.run(sample, x, table, np.array([[1], [3]], np.int32), target="trn2")
    run.save(path)
    return zlib.decompress(path.read_bytes().partition(b"\n")[2])


# --- mutations ------------------------------------------------------------------------------------


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with one mutation."""
    text, _, numbers = content.partition(b"\n")
    kind = rng.integers(3)
    if kind == 0:
        other = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            other[rng.integers(len(other))] = rng.integers(256)
        return bytes(other)
    head = json.loads(text)
    if kind == 1:
        for _ in range(rng.integers(1, 3)):
            _change(head, rng)
        return json.dumps(head).encode() + b"\n" + numbers
    return text + b"\n" + _with_other_number(head, numbers, rng)


def _change(head: Any, rng: np.random.Generator) -> None:
    """Replace a value in a JSON document by another value, by a slightly larger or smaller number,
    or by a value from another place in the document."""
    places = list(_places(head))
    home, key = places[rng.integers(len(places))]
    if rng.random() < 0.4:
        other, at = places[rng.integers(len(places))]
        home[key] = copy.deepcopy(other[at])
    elif isinstance(home[key], int) and rng.random() < 0.7:
        home[key] += int(rng.choice([-64, -2, -1, 1, 2, 64]))
    else:
        home[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _with_other_number(head: Any, numbers: bytes, rng: np.random.Generator) -> bytes:
    """Return `numbers`, the bytes of the columns, with one number changed: by 1, or to another
    number of its column."""
    filled = [n for n, (_, count) in enumerate(head["columns"]) if count]
    chosen = filled[rng.integers(len(filled))]
    sizes = [int(kind[1:]) * count for kind, count in head["columns"]]
    start, (kind, count) = sum(sizes[:chosen]), head["columns"][chosen]
    column = np.frombuffer(numbers, f"<{kind}", count, start).astype(np.int64)
    at = rng.integers(count)
    column[at] = (
        column[rng.integers(count)] if rng.random() < 0.5 else column[at] + rng.choice([-1, 1])
    )
    return numbers[:start] + column.astype(f"<{kind}").tobytes() + numbers[start + sizes[chosen] :]


# --- outcomes -------------------------------------------------------------------------------------


@contextmanager
def guarded() -> Iterator[None]:
    """A context manager: memory for tensors is allocated between guard bytes. Raises AssertionError
    at the end if a guard byte has changed."""
    taken: list[np.ndarray] = []
    before = buffers.take, buffers.fresh

    def take(nbytes: int) -> np.ndarray:
        raw = np.full(nbytes + 2 * GUARD, PATTERN, np.uint8)
        taken.append(raw)
        return raw[GUARD : GUARD + nbytes]

    buffers.take = buffers.fresh = take
    try:
        yield
    finally:
        buffers.take, buffers.fresh = before
    for raw in taken:
        assert (raw[:GUARD] == PATTERN).all() and (raw[-GUARD:] == PATTERN).all(), "out of bounds"


def outcome(path: Path, content: bytes) -> str:
    """Return the outcome for a file with this content: "refused" if reading it fails, "stopped" if
    an error ends the replay, or "replayed". Other exceptions are not caught."""
    mark = path.read_bytes().partition(b"\n")[0]
    other = path.with_suffix(".mutated")
    other.write_bytes(mark + b"\n" + zlib.compress(content, 1))
    try:
        run = neuroncore.load(other)
    except UsageError as error:
        assert str(error).strip(), "a refusal without a sentence"
        return "refused"
    try:
        with guarded():
            run.replay()
    except NeuronError as error:
        assert str(error).strip(), "a refusal without a sentence"
        return "stopped"
    return "replayed"


def outcomes(folder: Path, count: int, seed: int) -> Counter[str]:
    """Return how many of `count` mutations have each outcome."""
    path = folder / "sample.run"
    content, rng = saved(path), np.random.default_rng(seed)
    assert outcome(path, content) == "replayed"
    return Counter(outcome(path, mutated(content, rng)) for _ in range(count))


def main() -> None:
    count, seed = (int(given) for given in (*sys.argv[1:], *("10000", "0")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        for what, number in sorted(outcomes(Path(folder), count, seed).items()):
            print(f"{what}: {number}")


if __name__ == "__main__":
    main()
