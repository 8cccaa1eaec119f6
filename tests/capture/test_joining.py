"""Instructions of a device are joined with instructions of the estimate, and so with lines of the
kernel."""

import inspect

import captures
import numpy as np
import pytest

import neuroncore
from neuroncore.capture import joining, listing, neff, run, sides
from neuroncore.capture.joining import COMPUTE, LOAD, PRODUCT, STORE, WEIGHTS, JoinedWork
from neuroncore.frontend.nki import language as nl

TRACE, PROGRAM = captures.copied()


def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    again = nl.copy(tile)
    nl.store(out, again)
    return out


@pytest.fixture(scope="module")
def timeline():
    return neuroncore.run(copied, np.ones((128, 64), np.float32), target="trn2").timelines[0]


def line(text):
    """Return the line number of a statement of the kernel above."""
    lines, first = inspect.getsourcelines(copied)
    return f"test_joining.py:{first + next(n for n, one in enumerate(lines) if text in one)}"


def works(kind, sizes, count, statement=-1, engine="Vector", place=""):
    return [JoinedWork(kind, sizes, engine, statement, place)] * count


def placed(theirs, own):
    return [work.place for work in joining.joined(theirs, own)]


def test_a_statement_is_joined_with_the_line_that_has_as_many_instructions():
    own = works(COMPUTE, (128, 64, 64), 4, place="a") + works(COMPUTE, (128, 64, 64), 2, place="b")
    theirs = works(COMPUTE, (128, 64, 64), 2, 7) + works(COMPUTE, (128, 64, 64), 4, 8)
    assert placed(theirs, own) == ["b"] * 2 + ["a"] * 4


def test_several_estimated_instructions_may_be_merged_in_one_of_the_device():
    own = works(STORE, (4096,), 4, engine="DMA", place="a")
    assert placed(works(STORE, (16384,), 1, 3, "DMA"), own) == ["a"]
    assert placed(works(STORE, (16000,), 1, 3, "DMA"), own) == [""]
    assert placed(works(LOAD, (16384,), 1, 3, "DMA"), own) == [""]
    narrow = works(COMPUTE, (128, 64, 1), 2, place="b")
    assert placed(works(COMPUTE, (128, 128, 2), 1, 4), narrow) == ["b"]
    assert placed(works(COMPUTE, (64, 128, 2), 1, 4), narrow) == [""]


def test_copies_of_16_bit_data_may_have_half_as_many_32_bit_elements():
    own = works(COMPUTE, (128, 64, 64), 3, place="a") + works(COMPUTE, (128, 32, 32), 1, place="b")
    theirs = works(COMPUTE, (128, 32, 32), 2, 1) + works(COMPUTE, (128, 32, 32), 2, 2)
    assert placed(theirs, own) == ["b", "b", "a", "a"]
    assert placed(theirs[1:2] + works(COMPUTE, (64, 32, 32), 1), own) == ["b", ""]


def test_instructions_without_a_statement_are_joined_in_order():
    shape = 128, 128, 512
    own = works(PRODUCT, shape, 1, place="a") + works(PRODUCT, shape, 1, place="b")
    weights = works(WEIGHTS, (), 1, engine="Tensor")
    theirs = (weights + works(PRODUCT, shape, 1, engine="Tensor")) * 3
    assert placed(theirs, own) == ["a", "a", "b", "b", "", ""]


def test_remaining_instructions_of_a_statement_get_its_line():
    own = works(COMPUTE, (128, 64, 64), 1, place="a")
    theirs = works(COMPUTE, (128, 64, 64), 1, 5) + works("", (), 1, 5) + works("", (), 1, 6)
    assert placed(theirs, own) == ["a", "a", ""]


def test_a_measured_run_is_listed_by_lines_of_its_kernel(tmp_path, timeline):
    path = tmp_path / "copied.ntff"
    path.write_bytes(TRACE)
    path.with_suffix(".neff").write_bytes(PROGRAM)
    told = run.load(path).at_source(timeline).why().to_dict()
    found = {row["place"]: row["text"] for row in told["lines"]}
    assert found == {
        line("nl.load"): "tile = nl.load(x)",
        line("nl.copy"): "again = nl.copy(tile)",
        line("nl.store"): "nl.store(out, again)",
    }


def test_a_compiled_program_is_compared_with_the_estimate(timeline):
    program = neff.read(PROGRAM)
    rows = {row.place: row for row in sides.side_rows(program, timeline)}
    assert {row.verdict for row in rows.values()} <= {"same", "on another engine"}
    assert rows[line("nl.load")].to_dict()["theirs"] == {"DMA": 1}
    more = sides.rows(
        works(COMPUTE, (1, 2, 2), 2, 1, place="k.py:2"), works(LOAD, (8,), 1, place="k.py:10")
    )
    assert [(row.place, row.verdict) for row in more] == [
        ("k.py:2", "added"),
        ("k.py:10", "missing"),
    ]
    both = works(COMPUTE, (1, 2, 2), 2, place="a"), works(COMPUTE, (1, 2, 2), 3, place="a")
    assert sides.rows(*both)[0].verdict == "another number"
    assert list(sides.text(more))[-1] == "1 added, 1 missing"


def test_a_compiled_program_is_listed():
    program = neff.read(PROGRAM)
    said = "\n".join(listing.text(program))
    for part in (
        "kernel.neff for trn2, compiler 2.23.6484.0, 1 core",
        "input      x float32[128,64]",
        "queue      qSyncIO0: 16 rings, semaphores 8 to 23",
        "kernel.py:8        COPY S[8] (qSyncIO0)>=16",
        "0x100 to 0x200: kernel.py:7, written 1 time",
        "0x200 to 0x300: kernel.py:8, written 1 time",
        "qSPIO0 semaphore 9: 32 KiB in 1 part, SB -> y",
    ):
        assert part in said
    core = listing.document(program)["cores"][0]
    assert core["engines"]["Vector"][0]["opcode"] == "COPY"
    assert core["memory"][0] == {
        "memory": "SBUF", "first": 0x100, "last": 0x200, "statement": 1, "writes": 1
    }  # fmt: skip
    assert core["blocks"]["Sync"][1]["moves"] == [["SB", "y", 32768]]
