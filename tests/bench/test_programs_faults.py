"""Random programs find faults: each test puts a fault into the package, and a program fails."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.programs import checks, repeats, walks, watching
from bench.programs.generator import generate
from bench.programs.maker import Maker
from bench.programs.program import EDGES, Input, numbers
from bench.programs.shrinking import shrink
from neuroncore.checks import orders
from neuroncore.checks import races as check_races
from neuroncore.clause.product import of_scaled
from neuroncore.core import packs, undefined
from neuroncore.frontend.neuronxcc.nki.language import loops as language_loops
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language import elementwise as language_elementwise
from neuroncore.record import boxes, call_json, inputs, saved
from neuroncore.record.program import Program
from neuroncore.replay import cursor, execution, tensors
from neuroncore.time import compiled


def _failure(kind, seeds=range(4000)):
    """Return the first failure of programs that have a feature `kind`, or a word in their source.
    Where earlier seeds would take seconds, `seeds` begins a few programs before the failure."""
    for program in map(generate, seeds):
        if kind in program.kinds or kind in program.source():
            try:
                checks.check(program)
            except checks.Failure as failure:
                return failure.kind
    return None


def test_a_replay_that_writes_to_its_input_arrays_is_found(monkeypatch):
    monkeypatch.setattr(tensors, "written_storages", lambda program: np.empty(0, np.int64))
    maker = Maker(0)
    dst, src = (maker.given((4, 8), "float32") for _ in range(2))
    maker.issue("nisa.dma_copy", dst=dst, src=src)
    with pytest.raises(checks.Failure, match="of input"):
        checks.check(maker.program())


def test_a_replay_that_shows_another_tile_is_found(monkeypatch):
    """The fault: a step back does not restore the registers of a core."""
    seeds = [seed for seed in range(600) if seed % checks.BACK == 3]
    monkeypatch.setattr(walks.Replay, "_return_to", lambda self, step: setattr(self, "step", step))
    with pytest.raises(checks.Failure, match="walk"):
        for seed in seeds:
            checks.check(generate(seed))


def test_boxes_of_a_record_must_overlap_where_instructions_share_bytes(monkeypatch):
    """The fault: only the first bytes of elements are compared."""

    def first_bytes(form):
        steps = np.indices(form.shape).reshape(len(form.shape), -1).T @ np.array(form.steps)
        return np.asarray(steps).reshape(-1)

    monkeypatch.setattr(boxes, "_bytes", first_bytes)
    assert _failure("parts that share bytes", range(1490, 6000)) == "record: boxes"


def test_a_copy_whose_source_is_overwritten_is_not_left_out(monkeypatch):
    given = compiled.forwarding.forwarded

    def without_killers(program, accesses, flow):
        never = np.full_like(flow.killer, len(flow.killer))
        return given(program, accesses, flow._replace(killer=never))

    monkeypatch.setattr(compiled.forwarding, "forwarded", without_killers)
    assert _failure("copies of a tile that changes", range(210, 4000)) == "schedule: left out"


def test_a_carried_value_that_depends_on_uninitialized_memory_is_reported(monkeypatch):
    """The fault: in a scan, uninitialized data affects only its own element."""
    given = undefined._in_lanes
    monkeypatch.setattr(undefined, "_in_lanes", lambda masks, dst, scans: given(masks, dst, False))
    assert _failure("elements that were never written", range(1880, 6000)) == "verify: UNINIT_READ"


NAN = "np.uint64(0x7FF8"


def test_a_file_keeps_the_bits_of_a_constant_nan(monkeypatch):
    given = call_json.plain

    def plain(value):
        nan = isinstance(value, float) and value != value
        return given(float("nan") if nan else value)

    monkeypatch.setattr(call_json, "plain", plain)
    programs = (one for one in map(generate, range(0, 20_000, checks.SAVED)) if NAN in one.source())
    with pytest.raises(checks.Failure, match="values of the record of a file"):
        for program in programs:
            checks.check(program)


def test_zeros_of_numpy_keep_their_signs_in_a_record(monkeypatch):
    """The fault: a record treats both zeros of numpy as equal."""
    monkeypatch.setattr(inputs, "copysign", lambda one, v: 1 if isinstance(v, np.generic) else v)
    programs = (
        one for one in map(generate, range(3600, 12_000)) if "np.float32(0.0)" in one.source()
    )
    with pytest.raises(checks.Failure, match="verify"):
        for program in programs:
            checks.check(program)


def test_iterations_of_parallel_loops_run_in_other_orders(monkeypatch):
    """The fault: instructions that set the accumulator registers are not kept in order."""
    given = orders.Permutations._sharing.func

    def sharing(self):
        calls, of_row = self.program.calls, self.program.columns().call
        return {row: s for row, s in given(self).items() if calls[of_row[row]].adds_to_registers}

    monkeypatch.setattr(orders.Permutations, "_sharing", property(sharing))
    assert _failure("accumulator registers") == "orders: another result"


def test_offsets_reach_the_limits_of_their_integer_type(monkeypatch):
    monkeypatch.setattr(saved, "narrowest", _narrow)
    seeds = range(checks.SAVED * 880, 20_000, checks.SAVED)
    assert _failure("an offset at a limit of integers", seeds).startswith("file")


def _narrow(column):
    """Convert a column to a narrow type. The fault: a column with negative numbers may have the
    largest unsigned number too."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    return column.astype(np.min_scalar_type(high if low >= 0 else min(low, -high)))


def test_scales_that_are_nan_are_met_with_groups_of_zeros(monkeypatch):
    codes = numbers(Input("x1", (4, 60), "uint8", EDGES), np.random.default_rng(0))
    assert {*codes.flat} == {0, 1, 127, 254, 255}

    def neutral(values, scales):
        zeros = (values.reshape(len(scales), -1, values.shape[1]) == 0).all(axis=1)
        return np.where(zeros, np.uint8(127), scales)

    monkeypatch.setitem(of_scaled.__globals__, "neutral", neutral)
    assert _failure("nc_matmul_mx", range(650, 4000)) == "verify: nc_matmul_mx dst differs"


def test_replays_take_the_path_of_a_launch_or_refuse_to(monkeypatch):
    """The fault: the last decisions of a kernel are not compared."""
    monkeypatch.setattr(cursor.Replay, "finish", lambda self: self.to_step(self.steps))
    assert (
        _failure("a changing number of iterations", range(400, 4000))
        == "replay: other bits than a launch"
    )


def test_a_replay_that_refuses_the_path_of_a_launch_is_found(monkeypatch):
    class Refusing(cursor.Replay):
        def finish(self):
            raise execution.OtherPath("another path", ())

    monkeypatch.setattr(checks, "Replay", Refusing)
    assert _failure("a decision about a load") == "replay: refused"


def test_reductions_over_loops_equal_those_by_operators(monkeypatch):
    """The fault: iterations of loops around a reduction share a sum."""
    given = language_loops._sum_so_far

    def first_sum(loops, *more):
        given(loops, *more)
        return next(iter(loops[0].loop.sums.values()))

    monkeypatch.setattr(language_loops, "_sum_so_far", first_sum)
    assert _failure("loop_reduce", range(440, 4000)) == "run: results that differ"


def test_a_function_of_the_language_that_reads_another_element_is_found(monkeypatch):
    """The first partition of a repeated row has another number."""
    given = language_elementwise.in_partitions

    def other_first(x, count):
        out = given(x, count)
        if count > 1:
            isa.memset(out[0:1], 7.0)
        return out

    monkeypatch.setitem(given.__globals__, "in_partitions", other_first)
    assert _failure("a function of the language") == "run: results that differ"


@pytest.mark.parametrize("concurrent", [True, False])
def test_races_of_two_cores_are_held_to_bytes_and_synchronizations(monkeypatch, concurrent):
    """All instructions of two cores are in no order, or all are in some order."""
    monkeypatch.setattr(check_races.HappensBefore, "are_concurrent", lambda *given: concurrent)
    seeds = range(0, 4000, checks.HELD)
    assert _failure("cores that use the same bytes", seeds) == "verify: RACE"


def test_a_record_has_the_order_that_a_kernel_asks_for(monkeypatch):
    monkeypatch.setattr(Program, "wait", lambda *given: None)
    assert _failure("an order that is asked for") == "verify: depends_on"


def test_constants_of_the_record_equal_those_of_the_kernel(monkeypatch):
    changed = dict.fromkeys(("True", "False"), None)
    monkeypatch.setattr(watching, "CONSTANTS", watching.CONSTANTS | changed)
    failure = _failure("another flag")
    assert any(flag in failure for flags in repeats.FLAGS.values() for flag in flags)


def test_a_finding_about_harmless_uninitialized_data_is_a_failure(monkeypatch):
    """The fault: elements that were overwritten still count as uninitialized."""
    given = undefined.UndefinedElements._mark

    def write(self, tile, mask, *more):
        if mask is not None:
            given(self, tile, mask, *more)

    monkeypatch.setattr(undefined.UndefinedElements, "_mark", write)
    assert _failure("a rest that was never written", range(3140, 8000)) == "verify: UNINIT_READ"


def test_some_replays_step_back(monkeypatch):
    """The fault: a step back does not restore inputs that the kernel has changed."""
    given = cursor.Replay._return_to

    def keeping(self, step):
        before = dict(self._tensors.roots)
        given(self, step)
        self._tensors.roots = before | self._tensors.roots

    monkeypatch.setattr(cursor.Replay, "_return_to", keeping)
    seeds = range(2, 4000, checks.BACK)
    assert _failure("an input that changes", seeds) == "replay: other bits than a launch"


def test_a_fault_is_found_and_shrunk(monkeypatch):
    """The fault: the operand cache does not notice that a tile was written."""
    given = packs.Packs.get

    def stale(self, tile, *more, **named):
        version, tile.storage.version = tile.storage.version, 0
        try:
            return given(self, tile, *more, **named)
        finally:
            tile.storage.version = version

    monkeypatch.setattr(packs.Packs, "get", stale)
    for seed in range(1220, 4000):
        program = generate(seed)
        if "again" not in " ".join(program.kinds) or "nc_matmul" not in program.source():
            continue
        try:
            checks.check(program)
        except checks.Failure as failure:
            small = shrink(program, failure.kind)
            assert len(small.source().splitlines()) <= 20
            with pytest.raises(checks.Failure, match="nc_matmul"):
                checks.check(small)
            return
    raise AssertionError("no program found it")
