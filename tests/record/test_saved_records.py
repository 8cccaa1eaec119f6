"""Saved records: a program that was loaded has the same times as the saved one."""

import dataclasses
import json
import zlib
from enum import IntEnum

import neuronxcc.nki as older
import neuronxcc.nki.isa as oldi
import neuronxcc.nki.language as oldl
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS

import neuroncore
from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.memory import geometry
from neuroncore.record.program import Record
from neuroncore.record.saved import FORMAT, load, save
from neuroncore.report import measurements, perfetto
from neuroncore.report.estimate import Kind
from neuroncore.report.measurements import Span
from neuroncore.report.summary import summary
from neuroncore.time.schedule import schedule

TIMES = ("queue", "begin", "busy", "done", "end", "cause")


def mixed(x, w, index):
    """A kernel with all parts of a record: strided accesses, a run-time address, operators,
    functions, tiles at addresses, several formats."""
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    placed = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 4096))
    for i in range(3):
        a = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[:, 0:128:2])
        product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, a, a)
        nisa.activation(placed[0:64], nl.exp, product, scale=0.5)
        nisa.tensor_scalar(placed[64:128, 0:60:3], a[64:128, 1:64:3][:, 0:20], nl.multiply, 2.0 + i)
        nisa.memset(placed[64:128], 0.0)
    rows = nl.ndarray((2, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=index)
    picked = nl.ndarray((2, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=w.ap([[64, 2], [1, 64]], vector_offset=rows, indirect_dim=0))
    nisa.tensor_tensor(placed[0:2], placed[0:2], picked, nl.add)
    nisa.dma_copy(dst=out, src=placed)
    return out


def programs(kernel=mixed, grid=(), target="trn2"):
    x = np.ones((128, 128), nl.bfloat16)
    inputs = x, np.ones((8, 64), np.float32), np.array([[1], [3]], np.int32)
    run = launch(kernel, inputs, tensor=NkiTensor, target=target, grid=grid)
    return [core.program for core in run.cores]


def back(path, *written, **about):
    save(Record(written, about), path)
    return load(path)


@pytest.mark.parametrize("target", TARGETS)
def test_the_schedule_is_the_same_on_every_machine(tmp_path, target):
    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    chip = machine.load(target)
    times = schedule(before, chip), schedule(after, chip)
    assert times[0].total_ns > 0
    for name in TIMES:
        np.testing.assert_array_equal(getattr(times[0], name), getattr(times[1], name), name)
    assert summary(times[0]) == summary(times[1])


def test_a_saved_program_can_be_timed_on_a_changed_machine(tmp_path):
    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    known = machine.load("trn2")
    slower = dataclasses.replace(
        known, dma=dataclasses.replace(known.dma, load_latency_ns=known.dma.load_latency_ns + 5000)
    )
    assert schedule(after, slower).total_ns == schedule(before, slower).total_ns
    assert schedule(after, slower).total_ns > schedule(after, known).total_ns + 4000


def test_source_lines_and_the_trace_are_the_same(tmp_path):
    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    places = [[p.place(i) for i in range(len(p.lines))] for p in (before, after)]
    assert places[0] == places[1] and "nisa.nc_matmul" in {p.text.strip()[:14] for p in places[0]}
    traces = [list(perfetto.events([schedule(p, machine.load("trn2"))])) for p in (before, after)]
    assert traces[0] == traces[1]


def test_both_cores_and_findings_are_saved(tmp_path):
    record = back(tmp_path / "folder/x", *programs(grid=(2,)), kernel="mixed", seconds=1.5)
    assert [len(p) for p in record.programs] == [len(p) for p in programs(grid=(2,))]
    assert record.about == {"kernel": "mixed", "seconds": 1.5}


def test_a_saved_program_can_be_saved_again(tmp_path):
    (once,) = back(tmp_path / "x", *programs()).programs
    (twice,) = back(tmp_path / "y", once).programs
    chip = machine.load("trn2")
    assert summary(schedule(twice, chip)) == summary(schedule(once, chip))
    assert len(twice) == len(once) == twice.issued


def test_equal_geometries_stay_separate_objects(tmp_path, monkeypatch):
    """Two equal objects exist if a table of geometry.py was emptied within a launch."""

    def kernel(x, w, index):
        tile = nl.ndarray((97, 16), nl.float32, buffer=nl.sbuf)  # no other test has made one
        for columns in (8, 16, 8, 12):
            nisa.memset(tile[:, 0:columns], 1.0)

    monkeypatch.setattr(geometry, "MOST", 1)
    (before,) = programs(kernel)
    monkeypatch.undo()
    assert len({lies.arguments for lies in before.geometries}) < len(before.geometries)
    (after,) = back(tmp_path / "x", before).programs
    np.testing.assert_array_equal(after.box_table(), before.box_table())
    chip = machine.load("trn2")
    assert summary(schedule(after, chip)) == summary(schedule(before, chip))


def test_selected_elements_of_a_tile_at_an_address_are_saved(tmp_path):
    def kernel(x, w, index):
        placed = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 1024))
        nisa.memset(placed, 1.0)
        chosen, some = nl.zeros((128, 2), nl.uint32), nl.ndarray((128, 32), nl.float32)
        nisa.tensor_copy(some, placed.indirect(chosen, 32))

    (before,) = programs(kernel, target="trn3")
    (after,) = back(tmp_path / "x", before).programs
    np.testing.assert_array_equal(after.box_table(), before.box_table())


@older.jit
def predicated(x, chosen):
    """One instruction twice, with the tiles of both dialects: nl.where uses tiles of today's."""
    out = oldl.ndarray(x.shape, x.dtype, buffer=oldl.shared_hbm)
    tile, mask = oldl.load(x), oldl.load(chosen)
    either = oldl.where(mask, tile, tile)
    oldi.tensor_copy_predicated(src=tile, dst=either, predicate=mask)
    oldl.store(out, either)
    return out


def test_records_with_the_tiles_of_both_dialects_can_be_loaded(tmp_path):
    given = np.ones((2, 3), np.float32), np.ones((2, 3), np.uint8)
    run = neuroncore.run(predicated, *given)
    save(run.record, tmp_path / "x")
    (program,) = load(tmp_path / "x").programs
    assert program.data.values == run.record.programs[0].data.values


class Factor(IntEnum):
    ONE = 1


@older.jit
def times_loop_variables(x):
    """The same numbers as the variable of a loop, as a member of an IntEnum, and as int."""
    out = oldl.ndarray(x.shape, x.dtype, buffer=oldl.shared_hbm)
    tile = oldl.load(x)
    for i in oldl.sequential_range(3):
        tile[...] = (tile * i + (2 - i)) * Factor.ONE * 1
    oldl.store(out, tile)
    return out


def test_numbers_of_derived_classes_are_saved_as_plain_numbers(tmp_path):
    x = np.ones((128, 8), np.float32)
    run = neuroncore.run(times_loop_variables, x)
    run.save(tmp_path / "record")
    np.testing.assert_array_equal(neuroncore.load(tmp_path / "record").replay(x), run.results)


def test_an_empty_program_and_one_that_ended_early_are_saved(tmp_path):
    from neuroncore.record.program import Program

    short = Program(limit=0)
    short.left_out = 7
    (after,) = back(tmp_path / "x", short).programs
    assert (len(after), after.issued, after.coverage) == (0, 7, short.coverage)
    assert schedule(after, machine.load("trn1")).total_ns == 0


def test_instructions_operators_and_machines_are_the_same_objects_after_loading(tmp_path):
    from neuroncore.clause.instruction import INSTRUCTIONS

    (before,) = programs()
    (after,) = back(tmp_path / "x", before).programs
    for one, other in zip(before.calls, after.calls):
        assert other.instruction is INSTRUCTIONS[one.name]
        assert other.machine is one.machine and other.engine is one.engine
        assert repr(other.arguments) == repr(one.arguments)


def test_the_file_is_json_and_integers(tmp_path):
    save(Record(programs(), {"note": "plain"}), tmp_path / "x")
    head, numbers = parts(tmp_path / "x")
    assert head["about"] == {"note": "plain"}
    sizes = [int(kind[1:]) * count for kind, count in head["columns"]]
    assert sum(sizes) == len(numbers) and max(sizes) < 4 * len(numbers)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not a record"),
        (b"PK\x03\x04", "not a record"),
        (b"neuroncore.record.saved/%d\n" % (FORMAT + 1), "a newer version"),
        (b"neuroncore.record.saved/%d\n" % (FORMAT - 1), "record it again"),
        (b"neuroncore.record.saved/%d\nnothing" % FORMAT, "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, content, word):
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=word):
        load(file)


def parts(path):
    """The JSON of a file, and its columns."""
    text, _, numbers = zlib.decompress(path.read_bytes().partition(b"\n")[2]).partition(b"\n")
    return json.loads(text), numbers


def crafted(path, content):
    path.write_bytes(b"neuroncore.record.saved/%d\n" % FORMAT + zlib.compress(content))
    return path


def changed(path, change):
    """A file whose JSON a function has changed."""
    save(Record(programs()), path)
    head, numbers = parts(path)
    change(head)
    return crafted(path, json.dumps(head).encode() + b"\n" + numbers)


def test_an_unchanged_file_is_read(tmp_path):
    assert len(load(changed(tmp_path / "x", lambda head: None)).programs) == 1


def in_call(**fields):
    return lambda head: head["programs"][0]["calls"][0].update(fields)


def in_arguments(**arguments):
    return lambda head: head["programs"][0]["calls"][0]["arguments"].update(arguments)


def in_order(order):
    return lambda head: head["programs"][0].update(
        calls=[{**head["programs"][0]["calls"][0], "machine": order}]
    )


def in_values(values):
    return lambda head: head["programs"][0].update(values=values)


def in_geometry(head):
    head["programs"][0]["geometries"][0][1][0] *= 1000


def in_birth(head):
    head["programs"][0]["kinds"][0][-1] = 10_000


def in_tile(head):
    head["programs"][0]["calls"][0]["arguments"]["dst"] = 3


def in_shape(head):
    head["programs"][0]["calls"][0]["arguments"]["dst"]["view"][0][0] = 0


def in_indices(head):
    head["programs"][0]["calls"][0]["arguments"]["dst"]["view"][-1] = 1 << 31


def in_area(head):
    head["programs"][0]["kinds"][0][4] = []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (in_call(instruction={"instruction": "os.mkdir"}), "os.mkdir"),
        (in_call(instruction={"machine": "trn2"}), "a call has .* as its machine"),
        (in_call(machine={"machine": "../../secret"}), "no machine is called"),
        (in_order({"enum": ["Path", "x"]}), "Path"),
        (in_arguments(nobody=None), "nobody"),
        (in_arguments(engine={"enum": ["engine", "tensor"]}), "does not run on the tensor engine"),
        (in_arguments(src=None), "src of dma_copy is not a tile"),
        (in_values([[1.0]]), "values that do not exist"),
        (in_call(arguments={}), "lacks"),
        (lambda head: head.update(programs=[]), "longer"),
        (
            lambda head: head["columns"][0].__setitem__(0, "O8"),
            "a column can't have .* of type 'O8'",
        ),
        (lambda head: head["columns"][0].__setitem__(1, 10**12), "buffer"),
        (lambda head: head["programs"][0].update(order="backwards"), "backwards"),
        (lambda head: head["programs"][0].update(lines=[]), "0 lines"),
        (in_geometry, "outside its tensor"),
        (in_birth, "lines"),
        (in_tile, "dst of dma_copy is not a tile"),
        (in_area, "a malformed area"),
        (in_shape, "a view has no elements"),
        (in_indices, "2147483648 indices"),
    ],
)
def test_inconsistent_files_are_refused(tmp_path, change, word):
    with pytest.raises(UsageError, match=f"x is damaged .*{word}"):
        load(changed(tmp_path / "x", change))


@pytest.mark.parametrize("content", [b"", b"[1, 2]\n", b'"text"\n', b"null\n", b"[" * 100_000])
def test_other_json_is_refused_as_a_record(tmp_path, content):
    with pytest.raises(UsageError, match="is damaged"):
        load(crafted(tmp_path / "x", content))


@pytest.mark.parametrize("waits", ["_edges", "_decisions"])
@pytest.mark.parametrize(("pair", "fits"), [((2, 1), True), ((2, 2), False), ((1, 2), False)])
def test_an_instruction_must_wait_for_an_earlier_one(tmp_path, waits, pair, fits):
    made = programs()
    getattr(made[0], waits).extend(pair)
    save(Record(made), tmp_path / "x")
    if fits:
        assert len(load(tmp_path / "x").programs[0]) == len(made[0])
        return
    with pytest.raises(UsageError, match="waits for an instruction that is not before it"):
        load(tmp_path / "x")


@pytest.mark.parametrize("cut", [0, 1, 20, 400, -1])
def test_a_damaged_record_is_refused(tmp_path, cut):
    save(Record(programs()), tmp_path / "x")
    content = zlib.decompress((tmp_path / "x").read_bytes().partition(b"\n")[2])
    with pytest.raises(UsageError, match="is damaged"):
        load(crafted(tmp_path / "x", content[:cut]))


def test_files_with_changed_bytes_are_refused_or_consistent(tmp_path):
    """In a file that is read, every window is inside its tensor, so that all readers can
    continue."""
    save(Record(programs()), tmp_path / "x")
    content = zlib.decompress((tmp_path / "x").read_bytes().partition(b"\n")[2])
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        other = bytearray(content)
        other[rng.integers(len(other))] = rng.integers(256)
        try:
            (program,) = load(crafted(tmp_path / "y", bytes(other))).programs
            program.box_table()
        except UsageError:
            refused += 1
    assert 0 < refused < 300


def test_numbers_of_numpy_may_be_saved_and_objects_may_not(tmp_path):
    assert back(tmp_path / "x", *programs(), seconds=np.float32(1.5)).about == {"seconds": 1.5}
    with pytest.raises(UsageError, match="can't be written: a record can't hold"):
        save(Record([], {"path": tmp_path}), tmp_path / "y")


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        load(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        save(Record([]), tmp_path / "file/x")


def test_the_span_is_from_the_first_dma_to_the_last(tmp_path):
    record = back(tmp_path / "x", *programs())
    timeline = schedule(record.programs[0], machine.load("trn2"))
    moves = [
        (float(b), float(e))
        for b, e, i in zip(timeline.begin, timeline.end, timeline.columns.call)
        if timeline.program.calls[i].name == "dma_copy"
    ]
    span = max(e for _, e in moves) - min(b for b, _ in moves)
    assert measurements.estimate(record, "trn2").us == pytest.approx(span / 1000)
    assert measurements.estimate(Record([]), "trn2") == Span(0.0, Kind("nothing", "", ""))
