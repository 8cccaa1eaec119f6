"""Device traces: the reader returns all events of a trace, and other files are refused."""

import random
import re
import time
from collections import Counter

import captures
import numpy as np
import pytest
from captures import ENGINES, Core, mutated, trace

from neuroncore.base.errors import UsageError
from neuroncore.capture import trace as reader


def words(count):
    """Instructions that differ only in their first bytes."""
    return [bytes([0xA4, number % 256]) + bytes(62) for number in range(count)]


def small():
    """Two engines, one DMA queue and one semaphore, between two instructions of the runtime."""
    core = Core(programs={"Tensor": words(6), "Sync": words(4)}, around=(2, 1), taken_out=1)
    core.queues[64, 3] = "qSyncIO0"
    core.ran("Tensor", 2, 1_000, 3_000)
    core.ran("Tensor", 3, 1_500, 4_000)
    core.ran("Sync", 2, 500, 900)
    core.ran("Sync", 9, 100, 200)  # the runtime's own, after the program
    core.moved(0, 3, 4096, 700, 1_600, 0xBEEF)
    core.moved(0, 3, 2048, 750, 1_700)
    core.set(7, 3, 2_000)
    core.set(7, 0, 2_500, by="Tensor")
    core.clocked(8, 1_200)
    return core


@pytest.fixture
def written(tmp_path):
    def write(data):
        path = tmp_path / "kernel.ntff"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("version", [4, 6])
def test_all_events_are_read(written, version):
    found = reader.load(written(trace(small(), version=version, origin=400)))
    assert (found.instance, found.program) == ("trn2.3xlarge", "kernel.neff")
    assert (found.version, found.runtime, found.origin_ps) == (version, "2.30.51", 400)
    (graph,) = found.graphs
    assert graph.total_ps == 50_000_000 and graph.queues == {(64, 3): "qSyncIO0"}
    tensor, sync = ENGINES.index("Tensor"), ENGINES.index("Sync")
    assert graph.instructions.tolist() == [
        (100, 200, sync, -1, False),
        (500, 900, sync, 2, True),
        (1_000, 3_000, tensor, 2, True),
        (1_500, 4_000, tensor, 3, True),
    ]
    assert graph.transfers.tolist() == [
        (700, 1_600, 0, 3, 4096, 0xBEEF),
        (750, 1_700, 0, 3, 2048, 0),
    ]
    assert graph.updates.tolist() == [(2_000, 7, 3, -1), (2_500, 7, 0, tensor)]
    assert graph.clock.tolist() == [(1_200, 8)]
    assert graph.window_ps == (500, 4_000)


def test_instructions_are_found_at_the_addresses_of_the_compiler(written):
    stream = reader.load(written(trace(small()))).graphs[0].streams[ENGINES.index("Tensor")]
    assert stream.own.tolist() == [False, False, True, True, True, False]
    assert stream.place.tolist() == [-1, -1, 1, 2, 3, -1]  # 0 was removed


def test_without_a_time_origin_a_trace_begins_with_the_first_instruction_of_the_compiler():
    assert reader.read(trace(small())).origin_ps == 500


def test_rates_above_the_full_clock_are_left_out():
    """A trace on trn1 has a record of 64 eighths, which pages showed as 800 %."""
    core = small()
    core.clocked(64, 1_300)
    assert reader.read(trace(core)).graphs[0].clock.tolist() == [(1_200, 8)]


def test_begins_and_ends_of_repeated_instructions_are_paired_in_order():
    core = Core(programs={"Vector": words(3)})
    core.sections[0].append(captures.record(captures.ADDRESS >> 6, 145, 0, 5))  # has no begin
    core.ran("Vector", 0, 10, 20)
    core.ran("Vector", 1, 12, 30, branch=True)
    core.ran("Vector", 0, 25, 28)
    core.sections[0].append(captures.record(captures.ADDRESS >> 6, 144, 0, 90))  # has no end
    found = reader.read(trace(core)).graphs[0].instructions
    assert [tuple(row)[:2] for row in found.tolist()] == [(10, 20), (12, 30), (25, 28)]
    assert found["pc"].tolist() == [0, 1, 0]


def test_separate_clocks_of_engines_are_converted_to_one():
    """trn1 has such clocks. The numbers of clocks are not those of engines: 4 is GpSimd's, 3
    Vector's."""
    core = Core(programs={"Vector": words(1), "GpSimd": words(1)})
    core.clocks = {3: (2_000, 1 << 10, 1 << 11), 4: (5_000, 1 << 10, 1 << 10)}
    core.ran("Vector", 0, 2_000 + 1_024, 2_000 + 3 * 1_024)  # 1 and 3 ticks after the reference
    core.ran("GpSimd", 0, 7_000, 8_000)
    found = reader.read(trace(core)).graphs[0].instructions
    assert [tuple(row)[:2] for row in found.tolist()] == [(2_048, 6_144), (7_000, 8_000)]


NOT_TRACES = {
    "cut short: it ends before its header": b"\6" + bytes(40),
    "the first byte has version 9; the supported versions are 4 to 6": b"\x09" + trace(small())[1:],
    "cut short: its header has": trace(small())[:300],
    "cut short: its": trace(small())[:-16],
    "the header has no graph": trace(),
    "a pointer of Git LFS": captures.LFS,
}


@pytest.mark.parametrize("said", NOT_TRACES)
def test_other_files_are_refused_as_traces_in_one_sentence(written, said):
    with pytest.raises(UsageError, match=said) as refused:
        reader.load(written(NOT_TRACES[said]))
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_file_that_is_too_large_are_refused(written, tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        reader.load(tmp_path / "none.ntff")
    with pytest.raises(UsageError, match="more than 10 bytes"):
        reader.content(written(trace(small())), 10)


@pytest.mark.parametrize("version", [4, 6])
def test_damaged_traces_are_read_or_refused(version):
    data, dice, outcomes = trace(small(), version=version), random.Random(version), Counter()
    for _ in range(500):
        try:
            reader.read(mutated(data, dice))
            outcomes["read"] += 1
        except reader.Malformed as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20  # some damaged traces are read, others are refused


# --- against the profiler's own tables ------------------------------------------------------------


@pytest.mark.parametrize("folder", captures.ATTENTION)
def test_published_traces_are_read_like_in_the_profiler(folder):
    found, told = (
        reader.read(captures.attention(folder, "ntff")),
        captures.attention(folder, "json"),
    )
    origin, graphs = found.origin_ps, {graph.name: graph for graph in found.graphs}
    total = max(graph.total_ps for graph in found.graphs)
    assert total == round(told["summary"][0]["total_time"] * 1e12)
    for name, graph in graphs.items():
        rows = {}
        for row in graph.instructions:
            key = ENGINES[row["engine"]], int(row["pc"])
            rows.setdefault(key, []).append((row["begin_ps"] - origin, row["end_ps"]))
        for one in told["instruction"]:
            if one["subgraph"] == name:
                engine = one["subgroup"].replace("TensorMatrix", "Tensor")
                near = [
                    (begin // 1000, (end - origin - begin) // 1000)
                    for begin, end in rows[engine, one["pc"]]
                ]
                assert any(
                    abs(begin - one["timestamp"]) <= 1 and abs(took - one["duration"]) <= 1
                    for begin, took in near
                ), one
        _same_transfers(graph, origin, [row for row in told["dma"] if row["subgraph"] == name])
        _same_updates(graph, origin, told, name)
        clock = {(int(ps) - origin) // 1000 for ps in graph.clock["ps"]}
        listed = [row["timestamp"] for row in told["ham"] if row["subgraph"] == name]
        assert all(clock & {at - 1, at, at + 1} for at in listed)


def _same_transfers(graph, origin, listed):
    """Assert that each transfer of the profiler is one of the reader's, to the nanosecond."""
    found = Counter(
        (int(row["engine"]), int(row["queue"]), int(row["bytes"]), int(row["checksum"]))
        for row in graph.transfers
    )
    told = Counter(
        (int(row["dma_engine"]), int(row["dma_queue"]), row["transfer_size"], row["crc"])
        for row in listed
    )
    assert told - found == Counter()
    begins = {
        (int(row["engine"]), (int(row["begin_ps"]) - origin) // 1000) for row in graph.transfers
    }
    for row in listed:
        engine, at = int(row["dma_engine"]), row["timestamp"]
        assert begins & {(engine, at - 1), (engine, at), (engine, at + 1)}, row


def _same_updates(graph, origin, told, name):
    """Assert that updates agree, without those of S[1], some of which another record sets to 0."""
    found = {
        ((int(row["ps"]) - origin) // 1000, int(row["semaphore"]), int(row["value"]))
        for row in graph.updates
    }
    for row in told["semaphore_update"]:
        number = int(re.search(r"\d+", row["id"])[0])
        if row["subgraph"] == name and number != 1:
            at, value = row["timestamp"], row["value"]
            assert found & {(at + k, number, value) for k in (-1, 0, 1)}, row


def test_a_long_trace_is_read_quickly():
    """The trace has the size that the acceptance names. bench/traces.py measures the time."""
    core = Core(programs={"Tensor": words(15_000)})
    for number in range(15_000):
        core.ran("Tensor", number, number * 100, number * 100 + 150)
    for number in range(36_000):
        core.moved(number % 16, 0, 512, number * 40 + 1, number * 40 + 61)
    begun = time.process_time()
    graph = reader.read(trace(core)).graphs[0]
    assert time.process_time() - begun < 60  # a hang, not a measurement
    assert (len(graph.instructions), len(graph.transfers)) == (15_000, 36_000)
    assert np.array_equal(graph.instructions["pc"], np.arange(15_000))
