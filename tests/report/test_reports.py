"""Reports: figures counted by hand, the trace, the text, and the same bytes twice."""

import json
from itertools import pairwise

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS
from every import for_all

from neuroncore import machine
from neuroncore.base import units
from neuroncore.base.options import Options
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report import estimate as estimates
from neuroncore.report import perfetto
from neuroncore.report import why as reasons
from neuroncore.report.compare import compare
from neuroncore.report.estimate import bound
from neuroncore.report.summary import as_text, bound_by, compared, counted, summary
from neuroncore.time.schedule import schedule

# --- figures --------------------------------------------------------------------------------------

K, M, N = 32, 64, 96


def product(a, b):
    """a.T @ b, and a second product whose operand is transposed first."""
    x, y = nl.load(a), nl.load(b)
    total = nl.ndarray((M, N), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, x, y)
    out = nl.ndarray((M, N), nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(total, nl.bfloat16))
    turned = nl.ndarray((M, K), nl.float32, buffer=nl.psum)
    nisa.nc_transpose(turned, x)
    return out


def nothing(x):
    return x


def timeline(kernel, *args, target="trn2"):
    run = launch(kernel, args, tensor=NkiTensor, target=target)
    return schedule(run.core.program, run.machine)


@pytest.fixture(scope="module")
def products():
    return timeline(product, np.ones((K, M), np.float32), np.ones((K, N), np.float32))


def test_counts_agree_with_the_program(products):
    fields = summary(products)
    pairs = 3  # the weights of the product, which are float32, are loaded in two parts
    opcodes = {"COPY": 1, "DMA_DIRECT2D": 3, "LDWEIGHTS": pairs, "MATMUL": pairs}
    assert fields["opcodes"] == opcodes
    assert fields["instruction_count"] == 6 and fields["dma_transfer_count"] == 3
    assert fields["tensor_engine_instruction_count"] == 6
    assert fields["vector_engine_instruction_count"] == 1
    moved = 4 * K * M + 4 * K * N + 2 * M * N
    assert fields["dma_transfer_total_bytes"] == moved
    assert fields["dma_transfer_average_bytes"] == moved / 3
    assert fields["psum_peak_bytes_per_partition"] == 4 * N  # gone before the transpose
    assert fields["sbuf_peak_bytes_per_partition"] == 4 * M + 4 * N


def sums_by_dma(a, b):
    """a + b by a DMA, and a.T by another."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [a, b], nl.add)
    nisa.dma_transpose(nl.ndarray(a.shape[::-1], a.dtype), a)
    return out


def test_bytes_of_every_transfer_are_counted_whatever_the_instruction():
    a = np.zeros((32, 64), np.float16)
    run = launch(sums_by_dma, (a, a), tensor=NkiTensor, target="trn2")
    fields = summary(schedule(run.core.program, run.machine))
    assert fields["dma_transfer_count"] == 2
    assert fields["dma_transfer_total_bytes"] == 2 * a.nbytes


PROFILER = {  # as the vendor's profiler names them
    *("is_simulation", "total_time", "total_active_time", "total_active_time_percent"),
    *(
        "model_flops",
        "hardware_flops",
        "transpose_flops",
        "adjusted_hardware_flops",
        "adjusted_transpose_flops",
    ),
    *("mfu_estimated_percent", "mfu_inst_estimated_percent", "hfu_estimated_percent"),
    *("mfu_max_achievable_estimated_percent", "mbu_estimated_percent"),
    *("mm_arithmetic_intensity", "peak_flops_bandwidth_ratio", "neuroncore_cycle_count"),
    *("spill_save_bytes", "spill_reload_bytes"),
    *("matmul_instruction_count", "activate_instruction_count"),
    *(f"{m}_{v}_bytes" for m in ("hbm", "sbuf", "psum") for v in ("read", "write")),
    *("dma_transfer_count", "dma_transfer_total_bytes", "dma_transfer_average_bytes"),
    *("dma_transfer_time", "dma_active_time", "dma_active_time_percent", "dma_active_cycles"),
    *("cc_op_count", "cc_op_time", "cc_op_active_time", "cc_op_active_time_percent"),
    *(
        f"{e}_engine_{figure}"
        for e in ("tensor", "vector", "scalar", "gpsimd", "sync")
        for figure in (
            *("instruction_count", "instruction_time"),
            *("active_time", "active_time_percent"),
        )
    ),
}
OURS = {
    *("target", "order", "launch", "descriptors", "instruction_count", "opcodes"),
    *("total_time_p10", "total_time_p90"),
    *("sbuf_peak_bytes_per_partition", "psum_peak_bytes_per_partition"),
}


@pytest.mark.parametrize("target", TARGETS)
def test_fields_have_the_profilers_names_and_a_flag_for_the_simulation(target):
    fields = summary(timeline(many, np.ones((16, 48), np.float32), target=target))
    assert set(fields) == PROFILER | OURS
    assert fields["is_simulation"] is True and fields["target"] == target


def test_times_and_shares_are_within_the_whole(products):
    fields = summary(products)
    assert 0 < fields["total_time"] < 1e-3
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync"):
        share = fields[f"{engine}_engine_active_time_percent"]
        active = fields[f"{engine}_engine_active_time"]
        assert 0 <= share <= 1
        assert share == pytest.approx(active / fields["total_time"])
        assert active <= fields[f"{engine}_engine_instruction_time"]
        assert active <= fields["total_active_time"]
    assert 0 < fields["dma_active_time_percent"] < 1
    assert fields["dma_active_time"] <= fields["dma_transfer_time"]
    assert fields["total_active_time"] + fields["dma_active_time"] < fields["total_time"]
    assert bound_by(products) == {"bound_by": bound(products).what}


def test_figures_and_the_estimate_do_not_look_for_what_bounds_a_run(products, monkeypatch):
    def asked(timeline):
        raise AssertionError("a sweep hasn't asked what would help")

    monkeypatch.setattr(estimates, "bound", asked)
    assert summary(products)["total_time"] == estimates.estimate(products).seconds
    with pytest.raises(AssertionError, match="hasn't asked"):
        bound_by(products)


def test_an_empty_program_has_figures_too():
    fields = summary(timeline(nothing, np.ones((1, 1), np.float32)))
    machines = fields.pop("peak_flops_bandwidth_ratio")
    numbers = [v for v in fields.values() if type(v) in (int, float)]
    assert machines > 0 and not any(numbers) and fields["opcodes"] == {}
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields


# --- the trace ------------------------------------------------------------------------------------


def many(x):
    """Loads, arithmetic on three engines and stores, of many tiles, and an instruction of none."""
    nisa.register_move(nisa.register_alloc(0), 1)
    for i in range(6):
        tile = nl.load(x[:, i * 8 : i * 8 + 8])
        powers = nl.exp(nl.add(tile, tile))
        turned = nl.transpose(powers)
        nisa.iota(tile.view(nl.int32), [[1, 8]], offset=0)
        nl.store(x[0:8, i * 8 : i * 8 + 8], nl.copy(turned[:, 0:8]))
    return x


def events(*timelines):
    return list(perfetto.events(timelines))


@pytest.fixture(scope="module", params=TARGETS)
def trace(request):
    line = timeline(many, np.ones((16, 48), np.float32), target=request.param)
    return line, events(line, line)


def test_a_trace_is_valid_json_with_the_fields_of_chrome(trace, tmp_path):
    line, _ = trace
    perfetto.write([line, line], tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["traceEvents"] == events(line, line)
    assert json.dumps(document, allow_nan=False)
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str) and event["ph"] in "MXCsf" and event["pid"] in (0, 1)
        if event["ph"] == "X":
            assert isinstance(event["tid"], int) and event["ts"] >= 0 and event["dur"] > 0
        if event["ph"] == "C":
            assert event["ts"] >= 0 and min(event["args"].values()) >= 0


def test_every_instruction_is_a_slice_once(trace):
    line, made = trace
    for pid in (0, 1):
        slices = [e for e in made if e["ph"] == "X" and e["pid"] == pid]
        assert sorted(e["args"]["id"] for e in slices) == list(range(len(line.queue)))
        labels = next(e for e in made if e["name"] == "process_labels" and e["pid"] == pid)
        folder = labels["args"]["labels"].removeprefix("sources in ")
        for e in slices:
            i, args = e["args"]["id"], e["args"]
            call = line.program.calls[line.columns.call[i]]
            assert (e["name"], e["cat"]) == (call.name, call.instruction.opcode)
            assert f"{folder}/{args['nki_source_location']}".startswith(__file__)
            assert e["ts"] == pytest.approx(line.begin[i] / 1e3, abs=0.0005001)
            ready = args.get("result_ready_us", e["ts"] + e["dur"])
            assert ready == pytest.approx(line.end[i] / 1e3, abs=0.0005001)


def test_a_slice_has_its_operands_and_unusual_arguments(trace):
    """Equal operands are listed together."""
    slices = {e["name"]: e["args"] for e in trace[1] if e["ph"] == "X"}
    assert slices["tensor_tensor"]["dst, data1, data2"] == "16 x 8 float32 in sbuf"
    assert slices["tensor_tensor"]["op"] == "nl.add" and "engine" not in slices["tensor_tensor"]


def test_a_counter_is_noted_where_it_changes(trace):
    for name in ("State Buffer Usage", "PSUM usage", "Pending DMA Count", "DMA Throughput"):
        counters = [e for e in trace[1] if e["name"] == name and e["pid"] == 0]
        assert counters
        for one, other in pairwise(counters):
            assert one["ts"] < other["ts"] and one["args"] != other["args"]


def test_slices_of_one_row_do_not_overlap(trace):
    rows = {}
    for event in trace[1]:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    assert len(rows) > 10
    for slices in rows.values():
        slices.sort(key=lambda e: e["ts"])
        for first, second in pairwise(slices):
            assert first["ts"] + first["dur"] <= second["ts"] + 1e-6


def test_rows_have_the_profilers_names(trace):
    names = {e["tid"]: e["args"]["name"] for e in trace[1] if e["name"] == "thread_name"}
    assert [names[i] for i in range(5)] == [
        *("TensorMatrix (Matmul)", "Vector", "Scalar", "GpSimd", "Sync")
    ]
    assert all(names[i].startswith("qSyncIO") for i in range(5, len(names)))
    rows = {e["name"]: names[e["tid"]] for e in trace[1] if e["ph"] == "X"}
    assert rows["activation"] == "Scalar" and rows["iota"] == "GpSimd"
    assert rows["nc_transpose"] == "TensorMatrix (Matmul)"


def test_processes_are_launches_and_are_marked_as_estimates(trace):
    line, made = trace
    names = [e["args"]["name"] for e in made if e["name"] == "process_name"]
    target = line.machine.name
    assert names == [f"launch {i}: NeuronCore {target} (estimate)" for i in (0, 1)]


def test_used_space_rises_and_falls_within_the_size_of_the_machine(trace):
    line, made = trace
    sbuf, psum = line.machine.sbuf.usable_bytes, line.machine.psum.partition_bytes
    for name, space in (("State Buffer Usage", sbuf), ("PSUM usage", psum)):
        counters = [e for e in made if e["name"] == name and e["pid"] == 0]
        used = [e["args"]["bytes"] for e in counters]
        assert used[-1] == 0 and 0 < max(used) <= space
        assert counters == sorted(counters, key=lambda e: e["ts"])


def test_transfers_are_pending_until_their_data_arrives(trace):
    line, made = trace
    counters = [e for e in made if e["name"] == "Pending DMA Count" and e["pid"] == 0]
    held = {e["ts"]: e["args"]["transfers"] for e in counters}
    assert counters[-1]["args"]["transfers"] == 0
    for ts, count in held.items():
        under_way = (line.begin / 1e3 <= ts + 0.0005) & (line.end / 1e3 > ts + 0.0005)
        assert abs(int((under_way & line.moves).sum()) - count) <= 1  # times are whole nanoseconds


def test_throughput_over_time_is_the_bytes_that_were_moved(trace):
    line, made = trace
    counters = [e for e in made if e["name"] == "DMA Throughput" and e["pid"] == 0]
    rates = [e["args"]["GB/s"] for e in counters]
    ns = np.diff([e["ts"] * 1e3 for e in counters])
    assert rates[-1] == 0
    assert np.dot(rates[:-1], ns) == pytest.approx(counted(line).transfer_bytes, rel=1e-3)


@pytest.mark.parametrize("flows", ["path", "all"])
def test_arrows_lead_from_slice_to_slice(trace, flows):
    line, _ = trace
    made = [*perfetto.events([line, line], flows)]
    slices = [e for e in made if e["ph"] == "X"]
    begun, ended = ({e["id"]: e for e in made if e["ph"] == phase} for phase in "sf")
    path = line.critical_path
    pairs = [*enumerate(line.cause)] if flows == "all" else [*zip(path[1:], path)]
    wanted = {(cause, i) for i, cause in pairs if cause >= 0}
    assert len(begun) == 2 * len(wanted) and begun.keys() == ended.keys()
    for number, end in ended.items():
        start = begun[number]
        assert start["pid"] == end["pid"] and start["ts"] <= end["ts"]
        (first,) = (e["args"]["id"] for e in slices if _holds(e, start))
        (second,) = (e["args"]["id"] for e in slices if _holds(e, end))
        assert (first, second) in wanted


def test_a_trace_without_arrows_has_everything_else(trace):
    line, made = trace
    bare = [*perfetto.events([line, line], "none")]
    assert bare == [e for e in made if e["ph"] not in "sf"] != made


def _holds(piece, arrow):
    """Return whether an end of an arrow is in a slice."""
    same = all(piece[name] == arrow[name] for name in ("pid", "tid"))
    begin, at, until = (round(us * 1e3) for us in (piece["ts"], arrow["ts"], _until(piece)))
    return same and begin <= at < until


def _until(piece):
    return piece["ts"] + piece["dur"]


# --- the text -------------------------------------------------------------------------------------


@for_all(
    ("ns", "shown"),
    [
        *((0, "0 ns"), (0.5, "0.5 ns"), (999, "999 ns"), (999.9, "1000 ns"), (1000, "1 us")),
        *((12345, "12.3 us"), (1e6, "1 ms"), (1.5e9, "1.5 s"), (5e12, "5000 s")),
    ],
)
def test_durations_have_three_digits_and_a_unit(ns, shown):
    assert units.duration(ns) == shown


@for_all(
    ("count", "shown"),
    [
        *((0, "0 B"), (999, "999 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB")),
        *((1024**2 - 1, "1024 KiB"), (1024**2, "1 MiB"), (3 * 2**40, "3072 GiB")),
    ],
)
def test_sizes_have_three_digits_and_a_unit(count, shown):
    assert units.size(count) == shown


def test_the_text_of_an_estimate_has_its_bound_and_its_part(products):
    lines = list(as_text(products))
    assert [line.split()[0] for line in lines] == [
        "estimate", "order", "clock", "busy", "moved", "used", "peak"
    ]  # fmt: skip
    assert f"bound by {bound(products)}" in lines[0]
    assert lines[4].split(maxsplit=1)[1].startswith("HBM 20 KiB read, 12 KiB written")
    assert "of 224 KiB" in lines[6] and "of 16 KiB" in lines[6]


def test_run_and_why_state_what_is_assumed_about_the_launch():
    """Neither stated the writer of descriptors, and why stated no assumption."""
    x = np.ones((16, 48), np.float32)
    requested = {"launch": "standalone", "loads": "once", "assume": "slices"}
    options = Options(descriptors="software", **requested)
    run = launch(many, (x,), tensor=NkiTensor, target="trn2", options=options)
    found = schedule(run.core.program, run.machine)
    usual = {"order": "scheduled", "launch": "framework", "descriptors": "hardware"}
    asked = {**requested, "order": "standalone", "descriptors": "software"}
    for estimated, fields in ((timeline(many, x), usual), (found, asked)):
        why = reasons.why("many", estimated)
        for document in (summary(estimated), why.to_dict()):
            assert {name: document[name] for name in fields} == fields
    for text, colon in (("\n".join(as_text(found)), ""), (str(why), ":")):
        labels = [line.split()[0] for line in text.splitlines() if line]
        assert {f"{name}{colon}" for name in ("order", "DMA", "loads", "assumes")} <= {*labels}


def test_a_comparison_is_a_line_with_the_worst_place():
    line = next(iter(compared([compare([[1.0, 2.0]], [[1.0, 4.0]])])))
    assert "max abs error 2 " in line and "worst at (0, 1): got 2, expected 4" in line


# --- the same twice -------------------------------------------------------------------------------


def test_two_runs_give_the_same_bytes():
    def report():
        line = timeline(many, np.ones((16, 48), np.float32))
        return json.dumps([summary(line), events(line), list(as_text(line))])

    assert report() == report()


def test_a_program_is_timed_for_another_machine_without_running_again():
    run = launch(many, (np.ones((16, 48), np.float32),), tensor=NkiTensor, target="trn2")
    again = launch(many, (np.ones((16, 48), np.float32),), tensor=NkiTensor, target="trn1")
    moved = summary(schedule(run.core.program, machine.load("trn1")))
    assert moved == summary(schedule(again.core.program, again.machine))
