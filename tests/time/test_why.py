"""Why a kernel takes as long as it does: what is said, to people and to programs."""

import json
import re
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from neuroncore.kernels import ch05_matmul

from neuroncore import run
from neuroncore.cli import main
from neuroncore.report.why import why


@pytest.fixture(scope="module")
def naive():
    return run(ch05_matmul.naive, *ch05_matmul.inputs(np.random.default_rng(0)), target="trn2")


def test_issue_of_transfers_bounds_naive_products_and_bandwidth_does_not(naive):
    found = naive.why(top=1)
    assert found.answers.sentence == (
        "bound by DMA issue: 272 transfers, one per 550 ns, mostly at ch05_matmul.py:128; use "
        "fewer, larger transfers; more bandwidth would not help"
    )
    gains = {str(one): one.gain for one in found.answers.resources}
    assert gains["DMA issue at no cost"] > 0.5
    assert abs(gains["DMA bandwidth twice as high"]) < 0.01


def test_what_a_run_names_is_what_saves_most(naive):
    answers = naive.why(top=1).answers
    assert naive.summary["bound_by"] == answers.bound.what == answers.resources[0].what
    assert naive.estimate.bound.gain == answers.resources[0].gain
    for one in answers.resources:
        assert one.gain == pytest.approx(1 - one.ns / naive.timelines[0].total_ns)


def test_text_has_the_path_by_line_and_what_would_be(naive):
    text = str(naive.why(top=2))
    assert text == repr(naive.why(top=2))  # what a notebook shows
    first, second, *rest = text.splitlines()
    assert first.startswith("naive on trn2   147 us (80 % range")
    assert second.startswith("bound by DMA issue")
    assert any(line.split()[:3] == ["98%", "ch05_matmul.py:128", "dma_copy"] for line in rest)
    (free,) = (line for line in rest if "DMA issue at no cost" in line)
    assert free.split()[-3:-2] == ["-55%"] and free.endswith("DMA bandwidth")
    (idle,) = (line for line in rest if line.startswith("no difference: "))
    assert "DMA bandwidth twice as high" in idle


def test_every_resource_is_told_of_with_its_sign(naive):
    found = naive.why(top=1)
    text, (first, *others) = str(found), found.answers.resources
    also, idle = (line for line in text.splitlines() if line.startswith(("also: ", "no diff")))
    for one in others:
        assert f"{one} {-one.gain:+.0%}" in also if one.matters else str(one) in idle
    assert str(first) not in also + idle


def test_two_resources_are_named_where_neither_is_enough(naive):
    given = ch05_matmul.inputs(np.random.default_rng(0))
    found = run(ch05_matmul.blocked_free, *given, target="trn2").why(top=1).answers
    assert found.bound.gain < 0.1 < found.pair.gain and naive.why(top=1).answers.pair is None
    assert found.sentence == (
        "bound by Tensor and DMA issue together: more of both saves 16%, more of one at most 8%"
    )


def test_of_a_long_run_the_most_promising_changes_are_told_as_they_are_of_all(naive):
    (timeline,) = naive.timelines
    whole = why("naive", timeline, 3).answers
    told = why("naive", timeline, 3, room=8 * len(timeline.begin))
    some = told.answers
    assert whole.all and not some.all and some.bound == whole.bound
    assert whole.sentence.startswith(some.sentence) and some.overlap.ns == whole.overlap.ns
    known = {str(one): one.ns for one in (*whole.resources, *whole.changes)}
    found = [*some.resources, *some.changes]
    assert 8 <= len(found) < len(known)  # besides the overlap, with those that found the bound
    assert all(known[str(one)] == one.ns for one in found)
    assert str(some.resources[0]) == "DMA issue at no cost" and "naive" in str(told)
    assert str(some.changes[0]) == "ch05_matmul.py:128 at no cost"
    assert "only the changes for the largest parts of the critical path" in str(told)
    assert json.loads(json.dumps(told.to_dict()))["all"] is False


def test_of_a_run_longer_than_its_room_the_bound_is_still_told(naive):
    some = why("naive", naive.timelines[0], room=1).answers
    assert some.bound == naive.estimate.bound and some.overlap is None and some.resources


def ran(capsys, *words):
    code = main(["why", *words])
    return code, capsys.readouterr().out


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import nki, nki.isa as nisa, nki.language as nl\n\n\n"
        "@nki.jit\n"
        "def double(a):\n"
        "    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=tile, src=a)\n"
        "    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)\n"
        "    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=out, src=tile)\n"
        "    return out\n"
    )
    return f"{path}::double"


def test_the_command_prints_it(file, capsys):
    code, out = ran(capsys, file, "--args", "float32[128,64]", "--target", "trn2", "--top", "2")
    assert code == 0
    assert out.startswith("double on trn2") and "bound by DMA latency" in out
    assert "mine.py:7" in out


def test_one_object_for_programs(file, capsys):
    code, out = ran(capsys, file, "--args", "float32[128,64]", "--json")
    (launch,) = json.loads(out)["launches"]
    assert code == 0 and launch["schema"] == "neuroncore.why/1"
    assert launch["bound_by"] == launch["resources"][0]["what"] == "DMA latency"
    assert sum(line["share"] for line in launch["lines"]) == pytest.approx(1)
    for line in launch["lines"]:
        assert sum(line["parts"].values()) == pytest.approx(line["share"])


def test_a_saved_run_is_asked_as_a_kernel_is(file, tmp_path, capsys):
    saved = tmp_path / "double.run"
    words = "--args", "float32[128,64]", "--target", "trn2"
    assert main(["run", file, *words, "--save", str(saved)]) == 0
    capsys.readouterr()
    assert ran(capsys, str(saved), "--target", "trn2") == ran(capsys, file, *words)


def test_rows_are_counted_by_natural_numbers(file, capsys):
    with pytest.raises(SystemExit):
        ran(capsys, file, "--args", "float32[128,64]", "--top", "-1")
    assert "'-1' is not a natural number" in capsys.readouterr().err


@nki.jit
def unequal(x):
    """The second core does ten times as much."""
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for _ in range(100 if nl.program_id(0) else 10):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.engine.vector)
    nisa.dma_copy(out[nl.program_id(0)], tile)
    return out


def test_of_two_cores_the_slower_one_is_told_of():
    both = run(unequal[2], np.zeros((128, 512), np.float32), target="trn2")
    found = both.why(top=1)
    assert found.answers is not None
    slower = max(timeline.total_ns for timeline in both.timelines)
    assert found.estimate.seconds == slower / 1e9 and found.answers.bound.what == "Vector"
    assert sum(line.ns for line in found.lines) == pytest.approx(slower)
    (free,) = (one for one in found.answers.changes if one.how == "at no cost")
    assert free.ns < slower / 2 and "tensor_scalar" in found.lines[0].place.text


@pytest.mark.parametrize("command", ["why", "run"])
def test_answers_are_left_out_for_classes(command, file, capsys):
    words = [command, file, "--args", "float32[128,64]", "--no-answers"]
    assert main(words) == 0
    text = capsys.readouterr().out
    hidden = ("bound by", "DMA latency", "what if", "advice")
    assert not any(word in text for word in hidden)
    assert main([*words, "--json"]) == 0
    assert "bound" not in capsys.readouterr().out.replace("bounded", "")


def test_nothing_bounds_what_does_nothing():
    found = why("nothing", Device().timeline())
    assert found.answers is None and str(found).endswith("no instruction was issued")
    assert found.to_dict()["lines"] == []


def test_the_page_about_it_says_how_to_ask_in_python(capsys):
    page = Path(__file__).parents[2] / "docs/why.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(program, {})
    assert "bound by the Tensor engine" in capsys.readouterr().out
