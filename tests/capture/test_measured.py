"""Measured runs: the figures of a trace alone, and of a trace with the kernel's program."""

import json
import random
from collections import Counter

import captures
import numpy as np
import pytest

from neuroncore.base.errors import UsageError
from neuroncore.capture import printed, run
from neuroncore.cli import main

TRACE, PROGRAM = captures.copied()


@pytest.fixture
def files(tmp_path):
    """A trace, and its program under another name."""
    trace, program = tmp_path / "copied.ntff", tmp_path / "program.neff"
    trace.write_bytes(TRACE)
    program.write_bytes(PROGRAM)
    return trace, program


def test_transfers_are_found_from_the_trace_alone_as_with_the_program(files):
    trace, program = files
    alone, named = run.load(trace).capture.busiest, run.load(trace, program).capture.busiest
    for name in ("begin_ns", "end_ns", "trigger", "queue", "semaphore", "bytes"):
        assert alone.moves[name].tolist() == named.moves[name].tolist()
    assert named.moves["bytes"].tolist() == [32768, 32768]
    assert np.allclose(named.moves["end_ns"] - named.moves["begin_ns"], (2001.5, 1500))
    assert {alone.queues[q] for q in alone.moves["queue"]} == {"qSyncIO0"}


def test_setup_by_the_runtime_is_not_counted_as_the_kernel_s(files):
    core = run.load(files[0]).capture.busiest
    assert len(core.kernel) == 3 and core.window == (100, 4240)  # from the runtime's first


def test_the_path_leads_from_the_end_back_through_the_waits(files):
    rows = run.load(*files).instructions
    path = rows[rows["critical"]]
    assert path["opcode"].tolist() == ["WRITE", "COPY", "WRITE", "DMA", "DMA"]
    assert path["queue"].tolist() == ["Sync", "Vector", "Sync", "qSyncIO0", "qSyncIO0"]
    copy, load = (int(np.flatnonzero(rows["opcode"] == name)[0]) for name in ("COPY", "DMA"))
    assert rows["waited_for"][copy] == load


def test_why_names_the_statement_and_its_operands(files):
    trace, program = files
    told = run.load(trace, program).why().to_dict()
    assert told["measured"] and told["kernel_time"] == pytest.approx(4.14e-6)
    assert [row["place"] for row in told["lines"]] == ["kernel.py:7", "kernel.py:9", "kernel.py:8"]
    assert told["lines"][0]["parts"]["qSyncIO0"] > 0.4
    waits = [(row["engine"], row["for"]) for row in told["waits"]]
    assert waits == [("Sync", "Vector"), ("Vector", "qSyncIO0")]
    alone = run.load(trace).why().to_dict()["lines"]
    assert [row["place"] for row in alone] == ["qSyncIO0", "Vector", "Sync"]
    assert "of neuron-profile" in str(run.load(trace).why())


def test_a_program_next_to_a_trace_is_read_if_its_name_matches(files):
    trace, program = files
    assert not any(run.load(trace).capture.busiest.names)
    program.rename(trace.with_suffix(".neff"))
    assert "I-2-0" in run.load(trace).capture.busiest.names


def test_a_program_of_another_trace_is_refused(files):
    trace, program = files
    whole = captures.archive(captures.Compiled(code={"Vector": []}))
    program.write_bytes(captures.neff(whole))
    with pytest.raises(UsageError, match="is not the program of"):
        run.load(trace, program)
    program.rename(trace.with_suffix(".neff"))
    assert not any(run.load(trace).capture.busiest.names)  # not the trace's


def test_a_program_with_other_instructions_is_refused(files):
    """A program with enough instructions gave its names to the trace of another one."""
    trace, program = files
    narrower = bytearray(captures.COPY)
    narrower[24] = narrower[56] = 32  # columns
    assert captures.COPY[24] == captures.COPY[56] == 64
    program.write_bytes(captures.neff(captures._copying(bytes(narrower))))
    with pytest.raises(UsageError, match=r"is not the program of .*: their instructions differ"):
        run.load(trace, program)


def test_figures_have_the_profiler_s_names(files):
    trace, program = files
    found = run.load(trace, program).summary
    assert not found["is_simulation"] and found["total_time"] == pytest.approx(50e-6)
    assert found["kernel_time"] == pytest.approx(4.14e-6)
    assert found["opcodes"] == {"COPY": 1, "WRITE": 2}
    assert (found["hbm_read_bytes"], found["hbm_write_bytes"]) == (32768, 32768)
    assert (found["sbuf_read_bytes"], found["sbuf_write_bytes"]) == (33024, 33024)
    assert found["vector_engine_active_time"] == pytest.approx(0.5e-6)
    assert found["dma_transfer_count"] == 2 and found["static_dma_packet_count"] == 32
    assert "hbm_read_bytes" not in run.load(trace).summary  # a trace does not have it


def test_a_product_occupies_the_array_while_weights_are_loaded(tmp_path):
    """The next weights are loaded 2 ns after a product begins, so that products took 2 ns."""
    core = captures.Core(programs={"Tensor": [captures.word(0x01), captures.word(0x02)] * 2})
    spans = ((0, 100), (100, 950), (102, 300), (800, 1_500))
    for pc, (begin, end) in enumerate(spans):
        core.ran("Tensor", pc, 1_000 * (1_000 + begin), 1_000 * (1_000 + end))
    path = tmp_path / "k.ntff"
    path.write_bytes(captures.trace(core))
    found = run.load(path)
    assert found.instructions["busy_ns"].tolist() == [100, 700, 198, 700]
    kinds = found.side.kinds
    assert [(key, kind.count, kind.ns) for key, kind in kinds.items()] == [
        (("Tensor", "MATMUL"), 2, 1_400)
    ]
    (shown,), _ = found.shown()
    rows = [shown["queues"][queue] for queue in shown["columns"]["queue"]]
    assert rows == ["Tensor (LdWeights)", "Tensor"] * 2


def test_differences_are_by_engine_and_statement(files):
    trace, program = files
    one = run.load(trace, program)
    assert one.diff(one).opcodes == [] and one.diff(one).lines == []
    slower = captures.Core(programs={"Vector": [captures.COPY]})
    slower.ran("Vector", 0, 1_000_000, 3_000_000)
    trace.write_bytes(captures.trace(slower))
    found = one.diff(run.load(trace)).to_dict()
    copies = next(row for row in found["opcodes"] if row["what"] == "COPY")
    assert copies["new"]["time"] == pytest.approx(2e-6)
    assert found["transfers"] == [2, 0] and found["how"] == ["measured", "measured"]


def test_the_timeline_has_engines_queues_and_semaphores(files, tmp_path):
    out = tmp_path / "timeline.json"
    run.load(*files).trace(out)
    told = json.loads(out.read_text())["traceEvents"]
    rows = {one["args"]["name"] for one in told if one["name"] == "thread_name"}
    assert {"Vector", "Sync", "qSyncIO0 0", "DMA engine 15"} <= rows
    copy = next(one for one in told if one["name"] == "COPY")
    assert copy["dur"] == 0.5 and copy["args"]["place"] == "kernel.py:8"
    assert {"S[8] qSyncIO0", "Tensor clock"} <= {one["name"] for one in told if one["ph"] == "C"}


# --- the profiler's JSON --------------------------------------------------------------------------


def profile():
    """JSON that the profiler prints for a copy that waits for a load."""
    common = {"subgraph": "sg00", "instruction_type": "REGULAR"}
    load = (
        " semaphore=8 sem_increment=16  src_elem_size=256 dst_elem_size=256 "
        "src_pattern=[256,1][128,1] dst_pattern=[262144,1][128,1] src_table_offset_imm=0x0 "
        "src_table_index=1 dst_addr_imm=0x802000000100 in_dtype=fp32 out_dtype=fp32"
    )
    copy = (
        "S[8] (qSyncDynamicHW)>=16 S[6] (Vector)++@complete src=fp32@0x100[1,1,1,1][64,1,1,1] "
        "dst=fp32@0x200[1,1,1,1][64,1,1,1] channels=128"
    )
    rows = [
        ("DMA_DIRECT2D", "Sync", load, 100, 500),
        ("COPY", "Vector", copy, 2100, 180),
        ("ACT_TABLE_LOAD", "Scalar", "", 2270, 5),
    ]
    updates = [("S[8] (qSyncDynamicHW)", n + 1, 2000 + 4 * n) for n in range(16)]
    updates.append(("S[6] (Vector)", 1, 2290))
    return {
        "summary": [{"total_time": 2e-5, "instance_type": "trn2.3xlarge"}],
        "instruction": [
            {
                **common, "opcode": opcode, "subgroup": engine, "operands": text,
                "timestamp": begin, "duration": took, "compiler_pc": 0, "raw_penguin_id": n,
                "bir_instruction_name": f"I-{n}-0",
            }
            for n, (opcode, engine, text, begin, took) in enumerate(rows)
        ],
        "dma_queues_info": [
            {"subgraph": "sg00", "q_name": "qSyncDynamicHW", "q_eng_idx": 64, "q_idx": 0}
        ],
        "dma": [
            {
                "subgraph": "sg00", "dma_engine": "64", "dma_queue": "0", "transfer_size": 256,
                "timestamp": 1500, "duration": 15,
            }
        ],
        "semaphore_update": [
            {"subgraph": "sg00", "id": name, "value": value, "timestamp": at}
            for name, value, at in updates
        ],
        "ham": [{"subgraph": "sg00", "timestamp": 50, "k": 4, "n": 8}],
    }  # fmt: skip


def test_the_profiler_s_json_is_read_as_a_capture(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile()))
    found = run.load(path)
    core = found.capture.busiest
    assert (core.window, core.clock["eighths"].tolist()) == ((100, 2280), [4])
    assert core.moves["bytes"].tolist() == [32768] and core.moves["end_ns"].tolist() == [2060]
    copy = core.kind(1)
    assert (copy.role, copy.operand("dst").free, copy.waits[0].number) == ("compute", 64, 8)
    assert found.summary["hbm_read_bytes"] == 32768
    assert [row["place"] for row in found.why().to_dict()["lines"]] == [
        "statement 0",
        "statement 1",
    ]
    page = tmp_path / "page.html"
    assert main(["view", str(path), "-o", str(page)]) == 0 and "ACT_TABLE_LOAD" in page.read_text()
    assert main(["view", str(path), "--serve"]) == 2


@pytest.mark.parametrize("data", [b"[]", b"{}", b"{", b'{"summary": [], "instruction": []}'])
def test_other_json_is_refused(tmp_path, data):
    path = tmp_path / "profile.json"
    path.write_bytes(data)
    with pytest.raises(UsageError):
        run.load(path)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "a row has no field 'duration'"),
        ("x", "a field has an unexpected value"),
    ],
)
def test_a_damaged_profile_is_refused_with_the_reason(value, said):
    document = profile()
    row = document["instruction"][0]
    if value is None:
        del row["duration"]
    else:
        row["duration"] = value
    with pytest.raises(UsageError, match=f"is not a profile that can be read: {said}"):
        printed.read(document, "a profile")


def test_damaged_profiles_are_read_or_refused():
    text, dice, outcomes = json.dumps(profile()), random.Random(7), Counter()
    for _ in range(1000):
        data = captures.mutated(text.encode(), dice)
        try:
            made = run.Measured(printed.read(json.loads(data), "a profile"))
            assert str(made.why()) and made.summary and len(made.instructions) and made.shown()
            outcomes["read"] += 1
        except (UsageError, ValueError) as error:  # of json.loads
            assert isinstance(error, UsageError | json.JSONDecodeError | UnicodeDecodeError)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


def test_damaged_traces_are_read_or_refused_by_all_their_readers(tmp_path):
    dice, outcomes, path = random.Random(11), Counter(), tmp_path / "damaged.ntff"
    for _ in range(1000):
        path.write_bytes(captures.mutated(TRACE, dice))
        try:
            found = run.load(path)
            assert str(found.why()) and found.summary and str(found.diff(found))
            outcomes["read", len(found.instructions) > 0] += 1
        except UsageError as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
    assert len(outcomes) == 3


# --- against the profiler -------------------------------------------------------------------------

EXACT = [
    *(f"{m}_{verb}_bytes" for m in ("hbm", "sbuf", "psum") for verb in ("read", "write")),
    *("hardware_flops", "transpose_flops", "matmul_instruction_count"),
    *("software_dynamic_dma_size", "hardware_dynamic_dma_size"),
    *(f"{e}_engine_instruction_count" for e in ("tensor", "scalar", "vector", "gpsimd", "sync")),
]


@pytest.mark.parametrize("folder", captures.ATTENTION)
def test_figures_of_published_traces_equal_those_of_the_profiler(tmp_path, folder):
    path = tmp_path / "published.ntff"
    path.write_bytes(captures.attention(folder, "ntff"))
    found, told = run.load(path), captures.attention(folder, "json")
    summary = told["summary"][0]
    assert {n: found.summary[n] for n in EXACT} == {n: summary[n] for n in EXACT}
    for name in ("tensor_engine_active_time", "mfu_inst_estimated_percent", "total_time"):
        assert found.summary[name] == pytest.approx(summary[name], rel=0.05)
    both = run.Measured(printed.read(told, folder)), found
    paths = [one.instructions[one.instructions["critical"]] for one in both]
    assert paths[0]["opcode"].tolist() == paths[1]["opcode"].tolist()
