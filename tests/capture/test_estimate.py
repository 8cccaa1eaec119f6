"""Estimates of compiled programs from their instructions: the estimate keeps their order and
semaphores."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import captures
import pytest
from captures import Compiled, archive, word

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.capture import estimate, listing, neff, run

TRN2 = machine.load("trn2")
PRODUCT = {16: ("I3h3H", 0x100, 1, 0, 0, 512, 1, 1), 32: ("B", 6), 38: ("BB", 128, 128),
           48: ("I3h3H", 0x2000000, 1, 0, 0, 512, 1, 1)}  # fmt: skip


def program(**code):
    """A compiled program with these instructions for each engine."""
    rows = {e: [(each, f"I-{n}-0", n) for n, each in enumerate(c)] for e, c in code.items()}
    return neff.read(captures.neff(archive(Compiled(code=rows))))


def copy(free, wait=None, update=None, psum=False):
    address = 0x2000000 if psum else 0x100
    return word(0x46, wait=wait, update=update, at={
        12: ("I4h4H", address, 1, 1, 1, 1, free, 1, 1, 1), 32: ("3B", 10, 10, 128),
        44: ("I4h4H", 0x8000, 1, 1, 1, 1, free, 1, 1, 1),
    })  # fmt: skip


def times(made, phase=0.0):
    """Return begin and end of the instructions, ordered by time."""
    rows = estimate.timed(made, TRN2, phase).busiest.instructions
    return [(float(row["begin_ns"]), float(row["end_ns"])) for row in rows]


def test_times_of_transfers_come_from_the_machine_file():
    made = neff.read(captures.neff(captures._copying()))
    slow = replace(TRN2, replay=replace(TRN2.replay, static_start_ns=2_880.0))
    usual, later = (estimate.timed(made, one).busiest.window_ns for one in (TRN2, slow))
    assert TRN2.replay.static_start_ns == 880
    assert later - usual == pytest.approx(4_000)  # a load and a store


def test_a_load_a_copy_and_a_store_run_one_after_another():
    made = neff.read(captures.neff(captures._copying()))
    core = estimate.timed(made, TRN2).busiest
    load, store = core.moves
    copied = core.instructions[core.instructions["engine"] == 3][0]
    assert load["begin_ns"] == 0 and load["end_ns"] <= copied["begin_ns"]
    assert copied["end_ns"] < store["begin_ns"] < core.window[1]
    assert [core.queues[q] for q in core.moves["queue"]] == ["qSyncIO0", "qSyncIO0"]
    assert core.causes.path[-1] == len(core.instructions) + 1


def test_an_engine_waits_for_another():
    both = program(Vector=[copy(512, update=(0x13, 6))], Scalar=[copy(64, wait=(5, 6, 1))])
    (_, end), (begin, _) = times(both)
    assert begin == pytest.approx(end + TRN2.fixed.semaphore_ns)
    alone = program(Vector=[copy(512, update=(0x13, 6))], Scalar=[copy(64)])
    assert [begin for begin, _ in times(alone)] == [0, 0]


def test_rates_of_the_vector_engine_come_from_the_machine_file():
    (_, sbuf), (_, psum) = (times(program(Vector=[copy(512, psum=p)]))[0] for p in (False, True))
    unit = TRN2.engines["vector"]
    assert psum - sbuf == pytest.approx(512 / 2 / unit.clock_ghz)


def test_the_array_is_slow_until_a_window_was_busy():
    made = program(Tensor=[word(0x02, at=PRODUCT)] * 40)
    begins = [begin for begin, _ in times(made)]
    steps = [b - a for a, b in pairwise(begins[1:])]
    assert steps[0] == pytest.approx(2 * steps[-1]) and steps == sorted(steps, reverse=True)
    later = [begin for begin, _ in times(made, phase=-1700.0)]
    assert later[-1] != begins[-1]


def test_the_range_is_over_all_phases_of_the_clock(tmp_path):
    made = program(Tensor=[word(0x02, at=PRODUCT)] * 40)
    found = estimate.estimate(made, TRN2)
    low, high = found.range_ns
    assert low < found.busiest.window_ns < high and not found.measured
    path = tmp_path / "k.neff"
    path.write_bytes(captures.neff(captures._copying()))
    told = run.load(path)
    assert "80% range" in str(told.why()) and told.summary["is_simulation"]
    assert not told.why().to_dict()["measured"]


@pytest.mark.parametrize("wait", [(5, 6, 1), (5, 9, 16)])
def test_a_program_that_waits_forever_is_refused(wait):
    with pytest.raises(UsageError, match="waits for a semaphore value"):
        times(program(Vector=[copy(64, wait=wait)]))


def test_unknown_opcodes_are_listed(tmp_path):
    """Their times are not known, so that the estimate is too short."""
    unknown = bytes([0x77]) + captures.COPY[1:]
    for name, vector in (("known", captures.COPY), ("unknown", unknown)):
        path = tmp_path / f"{name}.neff"
        path.write_bytes(captures.neff(captures._copying(vector)))
        why = run.load(path).why()
        assert ("unknown opcodes are not known: 1 0x77" in str(why)) == (name == "unknown")
        assert why.to_dict().get("unknown_opcodes") == ({"0x77": 1} if name == "unknown" else None)
    (core,), _ = run.load(tmp_path / "unknown.neff").shown()
    assert "unknown opcodes" in core["sentence"]


def test_other_changes_of_semaphores_are_refused():
    with pytest.raises(UsageError, match="effect of S="):
        times(program(Vector=[copy(64, update=(0x19, 6))]))


def test_damaged_programs_are_estimated_or_refused():
    """The damage is inside the archive's members; damage of the archive itself is found by its
    checksum."""
    whole, dice, outcomes = captures._copying(), random.Random(3), Counter()
    for _ in range(300):
        name = dice.choice(sorted(name for name in whole if whole[name]))
        data = {**whole, name: captures.mutated(whole[name], dice)}
        try:
            made = neff.read(captures.neff(data))
            assert estimate.timed(made, TRN2).cores and list(listing.text(made))
            outcomes["read"] += 1
        except (UsageError, neff.Malformed) as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10


def test_instructions_that_would_never_end_are_refused():
    wide = {**PRODUCT, 16: ("I3h3H", 0x100, 1, 0, 0, 60000, 60000, 60000)}
    with pytest.raises(UsageError, match="columns"):
        times(program(Tensor=[word(0x02, at=wide)]))
