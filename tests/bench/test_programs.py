"""Random programs: each seed gives one program, its properties are checked, and runs of many
programs count what they cover."""

import json
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench import mutants
from bench.programs import __main__ as command
from bench.programs import checks, functions, hits, loops, picks, records, transfers, translated
from bench.programs.counts import Counts
from bench.programs.draws import FLOATS
from bench.programs.generator import generate
from bench.programs.hazards import Uses, broken, decisions, pairs
from bench.programs.maker import Maker
from bench.programs.masks import Mask
from bench.programs.program import Input, arrays, numbers
from bench.programs.translated import Missing, OlderMaker
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.frontend.neuronxcc.nki.templates import Template
from neuroncore.memory import geometry
from neuroncore.plain.memory import Operand
from neuroncore.record import saved


@cache
def known(seed):
    """The parts of the program of a seed that tests read. The program itself has the bytes of all
    operands, too many to keep."""
    one = generate(seed)
    return SimpleNamespace(
        seed=seed,
        dialect=one.dialect,
        kinds=one.kinds,
        launch=one.launch,
        texts=[statement.text for statement in one.statements],
        source=one.source(),
    )


def test_a_seed_always_gives_the_same_program():
    sources = [generate(seed).source() for seed in (1, 2, 1)]
    assert sources[0] == sources[2] != sources[1]


def test_programs_are_written_in_both_dialects():
    assert {known(seed).dialect for seed in range(40)} == {"today", "older"}


def test_programs_write_to_inputs_and_repeat_instructions_with_other_numbers():
    found = set().union(*(known(seed).kinds for seed in range(200)))
    assert {"an input that changes", "another number"} <= found


def test_options_are_drawn_only_if_they_can_affect_the_program():
    programs = [*map(known, range(1500))]
    for name, words in (
        ("rings", "implicit"),
        ("collective_rounding", "ncc."),
        ("fn_overflow", "e4m3fn"),
    ):
        found = [one for one in programs if name in one.launch.options]
        assert found and all(words in one.source for one in found)
    assert sum("stochastic" in one.launch.options for one in programs) > 0.04 * len(programs)


def test_a_second_launch_and_a_file_have_the_same_record(monkeypatch):
    one, other = (checks.check(generate(3)).record for _ in range(2))
    assert [*records.differences(one, other)] == []
    geometry._layouts.clear()  # as when it is full: equal geometries get other numbers
    assert [*records.differences(one, checks.check(generate(3)).record)] == []
    other.programs[0].data.iterations.extend(bytes(24))
    assert [*records.differences(one, other)] == ["iterations"]
    packed = saved.packed(one)
    assert records.from_file(one)[1] == []
    monkeypatch.setattr(saved, "packed", lambda record: packed)
    assert records.from_file(other)[1] == ["iterations"]


def test_several_programs_of_a_grid_run_a_kernel_of_the_older_api():
    found = [one for one in map(known, range(80)) if one.launch.programs > 1]
    assert {one.dialect for one in found} == {"older"}
    assert checks.check(generate(found[0].seed)).programs == [[*range(found[0].launch.programs)]]


@pytest.mark.parametrize("high", [0, 1, 5, 60])
def test_registers_are_within_their_bound(high):
    for seed in range(200):
        maker = Maker(seed)
        name, number = maker.register(high)
        assert 0 <= number <= high
        assert any(one.makes == name for one in maker.statements)


def test_programs_call_the_functions_of_both_apis():
    called = {"today": set(), "older": set()}
    for one in map(known, range(1500)):
        called[one.dialect] |= {*re.findall(r"\b(?:nisa|nl)\.\w+", one.source)}
    apis = {"today": {"nisa": nisa, "nl": nl}, "older": translated.MODULES}
    for dialect, modules in apis.items():
        functions_of = [
            f"{name}.{each}"
            for name, module in modules.items()
            for each in module.__all__
            if callable(getattr(module, each)) and not isinstance(getattr(module, each), type)
        ]
        there = [each for each in functions_of if each in called[dialect]]
        assert len(there) > 0.9 * len(functions_of)


LACKING = functions.transposed, functions.gathered, functions.constant, functions.in_order


@pytest.mark.parametrize("step", [step for step, _ in functions.STEPS])
def test_functions_of_the_language_pass_all_checks_in_the_older_api(step):
    maker = OlderMaker(8)
    with pytest.raises(Missing) if step in LACKING else nullcontext():
        step(maker)
    maker.returned()
    checks.check(maker.program())


def test_no_other_statement_writes_the_indices_of_a_gather():
    maker = Maker(5)
    functions.gathered(maker)
    given = [given for name, _, given in maker.issued if name == "nisa.nc_n_gather"]
    assert [one["indices"].tensor.constant for one in given] == [True]


def test_an_instruction_may_be_repeated_by_a_loop():
    maker = OlderMaker(3)
    maker.masks, maker.loops = 0, 1
    tile = maker.new("sbuf", (32, 6), "float32")
    maker.issue("nisa.memset", dst=tile, value="2.0")
    assert re.match(r"for k in nl\.\w+\(\d\):\n    t1\[\.\.\.\] = nisa", maker.statements[-1].text)
    maker.returned()
    checks.check(maker.program())


def test_a_statement_of_both_apis_is_written_in_the_older_one():
    maker = OlderMaker(3)
    a, b = (maker.new("sbuf", (4, 6), "float32") for _ in range(2))
    given = {"dst": b, "data": a, "op": "nl.exp"}
    assert maker.call("nisa.activation", given) == (
        f"{b.text}[...] = nisa.activation(data={a.text}, op=nl.exp, dtype=nl.float32)"
    )
    usual = {"data": a, "op0": "nl.add", "operand0": "1.0", "reduce_op": "nl.add", "dst": b}
    for word, lacks in (("reset_reduce", False), ("reduce", True)):
        more = {"reduce_res": b, "reduce_cmd": f"nisa.reduce_cmd.{word}"}
        with pytest.raises(Missing) if lacks else nullcontext():
            assert "reduce_cmd" not in maker.call("nisa.tensor_scalar_reduce", usual | more)
    with pytest.raises(Missing):
        maker.say("nisa.exponential()")


def test_an_instruction_with_a_mask_has_operands_for_each_rectangle():
    maker = OlderMaker(3)
    maker.masks = 1
    a, b = (maker.fill(maker.new("sbuf", (32, 6), "float32")) for _ in range(2))
    maker.issue("nisa.tensor_scalar", dst=b, data=a, op0="nl.add", operand0="1.0")
    (views,) = maker.statements[-1].views.values()
    assert "mask=" in maker.statements[-1].text
    assert all(one["dst"].shape == one["data"].shape for one in views)
    maker.returned()
    checks.check(maker.program())


def test_masks_select_the_same_rectangles_as_numpy():
    i, j = np.ogrid[:3, :6]
    assert list(Mask("", (i < 2) & (j > 1)).boxes()) == [(slice(0, 2), slice(2, 6))]
    assert list(Mask("", np.broadcast_to(j == 7, (3, 6))).boxes()) == []
    both = [(slice(0, 3), slice(0, 2)), (slice(0, 3), slice(3, 6))]
    assert list(Mask("", np.broadcast_to(j != 2, (3, 6))).boxes()) == both
    steps = [(slice(n, n + 1), slice(0, n + 1)) for n in range(3)]
    assert list(Mask("", i >= j).boxes()) == steps


def test_indirect_elements_are_ordered_by_rows_of_the_index_within_each_column():
    maker = Maker(1)
    base = maker.fill(maker.new("sbuf", (32, 40), "float32"))
    view = picks.of(maker, base, 20)
    offsets = maker.last_numbers()
    for lane, place in ((0, 0), (5, 15), (15, 16), (16, 3), (31, 19)):
        first = lane // 16 * 16
        offset = offsets[first + place % 16, place // 16]
        assert view.at[lane, place] == 4 * (40 * lane + offset)


def test_equivalent_keys_select_the_same_elements():
    x, texts, axes = np.arange(96).reshape(8, 3, 4), set(), set()
    nl = SimpleNamespace(ds=lambda start, count: slice(start, start + count))
    for seed in range(80):
        maker = Maker(seed)
        base = maker.new("sbuf", x.shape, "float32")
        view = maker._cut(base, slice(0, 8), slice(1, 3), maker._keys(2, 1, 4))
        texts.add(text := view.text.removeprefix(base.text))
        axes.add(len(view.shape))
        assert np.array_equal(view.at, 4 * eval(f"x{text}", {"x": x, "nl": nl}))
    assert axes == {2, 3} and len(texts) > 10


def test_indices_out_of_bounds_may_be_negative():
    one = Input("x1", (40, 1), "int32", "distinct around", high=60)
    found = np.sort(numbers(one, np.random.default_rng(0)), axis=None)
    assert -20 <= found[0] < 0 and found[-1] <= 40 and (np.diff(found) > 0).all()


@pytest.mark.parametrize(
    "form", ["dynamic_range(0", "dynamic_range(r", "fori_loop", "while r", "while_loop"]
)
def test_each_loop_on_the_device_covers_all_columns(form):
    for seed in range(100):
        maker = Maker(seed)
        transfers.loop(maker)
        if form in maker.statements[-1].text:
            maker.returned()
            checks.check(maker.program())
            return
    raise AssertionError("no program has it")


@pytest.mark.parametrize("step", [loops.body, loops.function])
def test_a_line_has_operands_of_other_sizes_each_time(step):
    for seed in range(4):
        maker = Maker(seed)
        step(maker)
        statement = maker.statements[-1]
        assert all(len(times) > 1 for times in statement.views.values())
        maker.returned()
        checks.check(maker.program())


def test_nothing_uses_a_tensor_that_is_deleted():
    for seed in range(400):
        texts = known(seed).texts
        for line, text in enumerate(texts):
            if text.startswith("del "):
                assert text[4:] not in re.findall(r"\w+", " ".join(texts[line + 1 :]))


def test_a_write_is_not_returned_whose_index_was_deleted():
    maker = Maker(0)
    tile, index = maker.new("sbuf", (4, 4), "float32"), maker.new("sbuf", (1, 1), "int16")
    maker.wrote(replace(tile, at=tile.at[:2], text=f"{tile.text}[{index.text}]"))
    loops.forget(maker, index.text)
    maker.returned()
    assert maker.results == []


def test_arrays_of_either_memory_order_have_the_numbers_of_their_seed():
    inputs = [Input(f"x{n}", (4, 6), "float32") for n in range(60)]
    found = arrays(inputs, 3)
    assert {(one.flags.c_contiguous, one.flags.f_contiguous) for one in found} > {(True, False)}
    one = numbers(inputs[0], np.random.default_rng([3, 0, 1, 0]))
    assert np.array_equal(found[0], one, equal_nan=True)


@pytest.mark.parametrize("seed", range(12))
def test_all_checks_of_a_program_pass(seed):
    checks.check(generate(seed))


@pytest.mark.parametrize("form", FLOATS)
def test_any_nan_equals_another_whatever_its_bits(form):
    """Signaling NaNs, too: for bfloat16, they set the flag of invalid operations."""
    codes = np.arange(2 ** (8 * min(np.dtype(form).itemsize, 2)))
    wide = codes.astype(f"u{np.dtype(form).itemsize}") << (16 * (np.dtype(form).itemsize == 4))
    with np.errstate(invalid="ignore"):
        nans = wide[np.isnan(wide.view(form))]
    assert checks._only_nans(nans, np.roll(nans, 1), np.dtype(form))
    assert not checks._only_nans(nans, np.zeros_like(nans), np.dtype(form))


def used(uses, number, **operands):
    """Note an instruction that reads `data` and writes `dst`, which are bytes of one memory."""
    given = {
        name: Operand(MEMORY, np.array(at), SimpleNamespace(size=2), None, 0, None, False)
        for name, at in operands.items()
    }
    call = SimpleNamespace(reads=["data"], writes=["dst"])
    uses.note(0, number, SimpleNamespace(call=call, values={}), given, [])


MEMORY = SimpleNamespace(data=np.zeros(16, np.uint8), ever=np.zeros(16), places=lambda at: at)


def test_a_schedule_must_keep_the_order_of_instructions_that_use_the_same_bytes():
    uses = Uses()
    used(uses, 0, dst=[0, 4])
    used(uses, 1, data=[2, 6])  # between those
    used(uses, 2, data=[3], dst=[8])  # its second byte is a first one of row 0
    used(uses, 3, data=[8])
    found = pairs(uses.shared(0))
    assert found.tolist() == [[0, 2], [2, 3]]
    timeline = SimpleNamespace(
        queue=np.array([0, 1, 1, 1]), begin=np.array([0, 0, 1, 2]), done=np.array([2, 1, 3, 4])
    )
    assert broken(found, timeline).tolist() == [[0, 2]]


def test_instructions_after_a_decision_wait_for_its_load():
    decided = (one for one in map(known, range(600)) if "a decision about a load" in one.kinds)
    seed = next(one.seed for one in decided if "while r" in one.source)
    record = checks.check(generate(seed)).record.programs[0]
    found = decisions(record)
    loads = {record.calls[call].name for call in record.columns().call[found[:, 0]]}
    assert loads == {"register_load"} and (found[:, 1] > found[:, 0]).all()


def test_an_access_at_a_loaded_offset_waits_for_the_load():
    for one in map(known, range(600)):
        if "dynamic offset" in one.kinds and not DECISIONS & one.kinds:
            record = checks.check(generate(one.seed)).record.programs[0]
            _, later = decisions(record).T
            if len(later):
                assert all(record.calls[call].dynamic for call in record.columns().call[later])
                return
    raise AssertionError("no program has one")


@pytest.mark.parametrize("step", [one for one, _ in functions.STEPS])
def test_functions_of_the_language_equal_their_instructions(step):
    for seed in range(2):
        maker = Maker(seed)
        step(maker)
        assert len(maker.program().equal) == (step not in (functions.called, functions.asked))
        checks.check(maker.program())


@pytest.mark.parametrize("sizes", [(7, 1), (1, 7), (1, 1)])
def test_a_row_or_a_column_may_be_one_number(sizes, monkeypatch):
    monkeypatch.setattr(functions, "_sizes", lambda maker: sizes)
    for seed in range(6):
        maker = Maker(seed)
        functions.binary(maker)
        checks.check(maker.program())


DECISIONS = {"a decision about a load", "a changing number of iterations"}


def test_a_second_launch_does_not_copy_iterations(monkeypatch):
    """So iterations that the first launch copied wrongly differ from those of the second."""
    repeat, repeated = Template.repeat, []

    def noting(self, *given):
        found = repeat(self, *given)
        repeated.append((found, sys.gettrace() is not None))
        return found

    monkeypatch.setattr(Template, "repeat", noting)
    nests = (one.seed for one in map(known, range(200)) if "nest of loops" in one.kinds)
    before = sys.gettrace()
    sys.settrace(None)  # the trace function of a coverage tool
    try:
        while (True, False) not in repeated:
            checks.check(generate(next(nests)))
    finally:
        sys.settrace(before)
    assert (True, True) not in repeated


def test_a_printed_program_is_a_script_that_checks_itself(tmp_path, capsys):
    program = generate(5)
    exec(compile(program.source(), "program.py", "exec"), {})
    assert capsys.readouterr().out == "holds\n"


def test_programs_that_failed_before_pass(capsys):
    assert list(command._failed_again()) == []
    count = len(list(command.FAILED.glob("*.py")))
    assert f"{count} programs that failed once were run first" in capsys.readouterr().out


def test_a_program_that_fails_again_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "FAILED", tmp_path)
    (tmp_path / "wrong.py").write_text("raise SystemExit('FAILS verify: other bits')")
    assert list(command._failed_again()) == ["wrong.py FAILS verify: other bits"]


def _run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["programs", *words])
    monkeypatch.setattr(command, "watch", lambda: None)
    return command.main()


def test_a_run_continues_from_its_saved_state(tmp_path, monkeypatch, capsys):
    kept = ["--state", str(tmp_path / "state.json")]
    assert _run(monkeypatch, "--seed", "40", "--count", "2", *kept) == 0
    assert _run(monkeypatch, "--count", "5", "--jobs", "2", *kept) == 0
    both = Counts.of(json.loads((tmp_path / "state.json").read_text()))
    alone = tmp_path / "alone.json"
    assert _run(monkeypatch, "--seed", "40", "--count", "5", "--state", str(alone)) == 0
    assert "seeds 40 to 44: 5 programs, 0 failures" in capsys.readouterr().out
    once = Counts.of(json.loads(alone.read_text()))
    assert both.groups["instructions"] == once.groups["instructions"]


def test_features_that_occur_too_rarely_are_reported():
    counts = Counts(1)
    counts.programs = 20_000  # of 600 expected 526 may be by chance, of 20 expected 7
    counts.groups["kinds"].update({"slice": 527, "step": 526})
    counts.groups["instructions"].update({name: 7 for name in INSTRUCTIONS} | {"topk": 6})
    assert list(counts.seldom()) == [
        "step is in 2.6% of programs, not in 3%",
        "topk is in 6 programs of 20000, not in one of 1000",
    ]
    counts.programs = 1000
    counts.groups["instructions"]["topk"] = 0
    assert list(counts.seldom()) == ["topk is in 0 programs of 1000, not in one of 1000"]


def test_a_run_that_only_lacks_features_has_a_separate_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(Counts, "seldom", lambda self: iter(["step is in 2.9% of programs"]))
    assert _run(monkeypatch, "--seed", "40", "--count", "2") == command.SELDOM == mutants.SELDOM
    assert "step is in 2.9%" in capsys.readouterr().out


def test_cache_hits_are_counted(monkeypatch):
    for asks, makers in hits.CACHES.values():
        for place in (asks, *makers):
            monkeypatch.setattr(*place, getattr(*place))  # restored after the test
    hits.watch()
    found = [command._checked(seed).found["cache hits"] for seed in range(20)]
    assert set().union(*found) >= {"a packed operand", "a legal call of an earlier program"}
