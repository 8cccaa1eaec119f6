"""The page of a measured run: its document has the contents of the trace."""

import captures
import pytest
import viewed

from neuroncore.capture import run
from neuroncore.capture.encoding import DecodedOperand
from neuroncore.capture.shown import BINS
from neuroncore.view import page

TRACE, PROGRAM = captures.copied()


@pytest.fixture
def measured(tmp_path):
    for name, data in (("k.ntff", TRACE), ("k.neff", PROGRAM)):
        (tmp_path / name).write_bytes(data)
    return run.load(tmp_path / "k.ntff")


def test_rows_are_the_instructions_and_transfers_sorted_by_their_begin(measured):
    (core,), files = measured.shown()
    names = [core["calls"][call]["name"] for call in core["columns"]["call"]]
    assert names == ["WRITE", "DMA", "COPY", "WRITE", "DMA"]
    queues = [core["queues"][queue] for queue in core["columns"]["queue"]]
    assert queues == ["Sync", "qSyncIO0", "Vector", "Sync", "qSyncIO0"]
    times = {name: core["columns"][name] * core["tick_ns"] for name in ("begin", "end")}
    copied = measured.instructions[measured.instructions["opcode"] == "COPY"][0]
    assert times["begin"][0] == 0 and times["end"].max() == pytest.approx(core["total_ns"], abs=0.1)
    assert times["end"][2] - times["begin"][2] == pytest.approx(copied["busy_ns"], abs=0.1)
    assert core["columns"]["cause"].tolist() == [-1, 0, 1, 2, 3]
    assert core["how"] == "measured on a device" and "neuron-profile" in core["verdict"]["text"]
    assert [file["name"] for file in files] == ["statements of kernel.neff", "kernel.py"]


def test_lines_have_their_parts_of_the_critical_path(measured):
    (core,), files = measured.shown()
    spots = [(files[line["file"]]["name"], line["line"]) for line in core["lines"]]
    assert spots == [("kernel.py", 7), ("kernel.py", 8), ("kernel.py", 9)]
    whole = sum(line["critical_ns"] for line in core["lines"])
    assert whole == pytest.approx(core["total_ns"])
    assert [line["count"] for line in core["lines"]] == [2, 1, 2]


def test_operands_are_bytes_of_a_memory(measured):
    (core,), _ = measured.shown()
    assert core["columns"]["boxes"].tolist() == [[0, 0, 128, 0x100, 256], [0, 0, 128, 0x200, 256]]
    backwards = DecodedOperand("src", True, 508, (-1, 0, -32), (32, 1, 4), "fp32", 128)
    assert backwards.before_bytes == 508 and backwards.span_bytes == 512


def test_the_rate_of_transfers_adds_up_to_their_bytes(measured):
    (core,), _ = measured.shown()
    rate = core["counters"][0]
    moved = sum(rate["values"]) * core["total_ns"] / BINS
    assert moved == pytest.approx(2 * 16 * 2052, rel=0.01)


def test_the_page_of_a_compiled_program_states_that_its_times_are_estimates(tmp_path):
    (tmp_path / "k.neff").write_bytes(PROGRAM)
    program = run.load(tmp_path / "k.neff")
    (core,), _ = program.shown()
    assert core["how"] == "an estimate of the program's own instructions"
    text = core["verdict"]["text"]
    assert text.startswith("estimate ") and "80% range" in text and "measured" not in text
    assert core["memories"]["sbuf"]["bytes"] > 0
    # nothing is known about the clock, so that it has no row
    assert [counter["name"] for counter in core["counters"]] == ["DMA Throughput"]
    document = program.why().to_dict()
    assert document["kernel_time_p10"] < document["kernel_time"] < document["kernel_time_p90"]


def test_a_page_without_a_program_has_no_lines(tmp_path):
    (tmp_path / "k.ntff").write_bytes(TRACE)
    (core,), files = run.load(tmp_path / "k.ntff").shown()
    assert core["lines"] == [] and files == [{"name": "statements of kernel.neff", "text": ""}]


def test_columns_are_packed_like_those_of_an_estimate(measured):
    cores, files = measured.shown()
    told = viewed.document(page.of_measured(cores, files))
    (core,) = told["cores"]
    estimate = viewed.document(viewed.run(64).view(values=None))["cores"][0]
    assert core["columns"].keys() == estimate["columns"].keys()
    missing = estimate.keys() - core.keys()
    assert missing <= {"outcome", "precision", "order", "coverage", "bound", "what_if", "covers",
                       "cells", "roofline", "stacks", "suggestions"}  # fmt: skip
