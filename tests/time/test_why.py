"""Why a kernel takes as long as it does: the answer for people and for programs."""

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
    found = naive.why(top=1).answers
    assert found.sentence == (
        "bound by DMA issue (writing the descriptors of a transfer takes 550 ns): 272 transfers, "
        "mostly at ch05_matmul.py:128; use fewer, larger transfers; more bandwidth would not help; "
        "best edit: at ch05_matmul.py:128, load each tile once and keep it (-67%)"
    )
    gains = {str(one): one.gain for one in found.limits}
    assert gains["DMA issue at no cost"] > 0.5
    assert abs(gains.get("DMA bandwidth twice as high", 0.0)) < 0.01


def test_edits_save_the_reported_time_within_their_range(naive):
    edits = naive.why().answers.edits
    assert [one.how for one in edits] == [
        *("load each tile once and keep it", "move 4 tiles per transfer"),
        "move 2 tiles per transfer",
    ]
    for one in edits:
        assert one.gain == pytest.approx(1 - one.ns / naive.timelines[0].total_ns)
        assert one.low < one.gain < one.high and one.sbuf > 0 and one.what == "ch05_matmul.py:128"


def test_a_run_names_the_edit_that_saves_most(naive):
    answers = naive.why(top=1).answers
    assert naive.summary["bound_by"] == answers.bound.what == answers.limits[0].what
    assert naive.estimate.bound.gain == answers.limits[0].gain


def test_text_has_the_path_by_line_the_edits_and_the_limits(naive):
    text = str(naive.why(top=2))
    assert text == repr(naive.why(top=2))  # the text in a notebook
    first, second, *rest = text.splitlines()
    assert first.startswith("naive on trn2   147 us (80% range")
    assert second.startswith("bound by DMA issue")
    assert any(line.split()[:3] == ["98%", "ch05_matmul.py:128", "dma_copy"] for line in rest)
    (edit,) = (line for line in rest if "move 4 tiles" in line)
    assert "-53%" in edit and "+3.75 KiB SBUF" in edit and edit.endswith("DMA bandwidth")
    limits = rest[rest.index("limits: what ideal hardware would save") :]
    assert "DMA issue at no cost" in limits[1] and limits[1].endswith("%")


def test_a_long_run_is_scheduled_only_a_few_times(naive):
    (timeline,) = naive.timelines
    whole, some = why("naive", timeline).answers, why("naive", timeline, room=1).answers
    assert whole.all and not some.all and some.bound == whole.bound
    assert some.edits[0] == whole.edits[0] and len(some.edits) + len(some.limits) <= 12
    told = why("naive", timeline, room=1)
    assert "only the changes for the largest parts of the critical path" in str(told)
    assert json.loads(json.dumps(told.to_dict()))["all"] is False


@nki.jit
def one_buffer(x):
    """Every load waits until the tile has been read."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0]):
        nisa.dma_copy(tile, x[i])
        made = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(made, tile, nl.add, 1.0, engine=nisa.engine.vector)
        nisa.dma_copy(out[i], made)
    return out


@nki.jit
def two_buffers(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf) for _ in range(2)]
    for i in range(x.shape[0]):
        nisa.dma_copy(tiles[i % 2], x[i])
        made = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(made, tiles[i % 2], nl.add, 1.0, engine=nisa.engine.vector)
        nisa.dma_copy(out[i], made)
    return out


def test_a_second_buffer_saves_the_time_that_why_reports():
    x = np.zeros((12, 128, 512), np.float32)
    one, two = (run(kernel, x, target="trn2") for kernel in (one_buffer, two_buffers))
    answers = one.why().answers
    (edit,) = (each for each in answers.edits if each.how == "double-buffer `tile` (SBUF)")
    assert edit.ns == pytest.approx(two.timelines[0].total_ns) and edit.sbuf == 2048
    assert "until the contents of `tile` (SBUF) are read" in answers.sentence
    assert answers.bound.what == "serial chain" and len(answers.chain) == 3


@nki.jit
def loaded_at_two_lines(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0]):
        if i % 2:
            nisa.dma_copy(tile, x[i])
        else:
            nisa.dma_copy(tile, x[i])
        made = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(made, tile, nl.add, 1.0, engine=nisa.engine.vector)
        nisa.dma_copy(out[i], made)
    return out


def test_a_buffer_that_two_lines_wait_for_is_doubled_once():
    x = np.zeros((12, 128, 512), np.float32)
    edits = run(loaded_at_two_lines, x, target="trn2").why().answers.edits
    assert [one.how for one in edits].count("double-buffer `tile` (SBUF)") == 1


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


def test_the_command_prints_the_answer(file, capsys):
    code, out = ran(capsys, file, "--args", "float32[128,64]", "--target", "trn2", "--top", "2")
    assert code == 0
    assert (
        out.startswith("double on trn2")
        and "each instruction waits for the previous one, mine.py:7 -> 8 -> 10" in out
    )
    assert "mine.py:7" in out


def test_the_answer_is_one_json_object_for_programs(file, capsys):
    code, out = ran(capsys, file, "--args", "float32[128,64]", "--json")
    (launch,) = json.loads(out)["launches"]
    assert code == 0 and launch["schema"] == "neuroncore.why/2"
    assert launch["bound_by"] == "serial chain" and launch["limits"][0]["gain"] > 0
    assert [place.rpartition(":")[2] for place in launch["chain"]] == ["7", "8", "10"]
    assert sum(line["share"] for line in launch["lines"]) == pytest.approx(1)
    for line in launch["lines"]:
        assert sum(line["parts"].values()) == pytest.approx(line["share"])


def test_why_accepts_a_saved_run(file, tmp_path, capsys):
    saved = tmp_path / "double.run"
    words = "--args", "float32[128,64]", "--target", "trn2"
    assert main(["run", file, *words, "--save", str(saved)]) == 0
    capsys.readouterr()
    assert ran(capsys, str(saved), "--target", "trn2") == ran(capsys, file, *words)


def test_the_number_of_rows_must_be_a_natural_number(file, capsys):
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


def test_the_slower_of_two_cores_is_reported():
    both = run(unequal[2], np.zeros((128, 512), np.float32), target="trn2")
    found = both.why(top=1)
    assert found.answers is not None
    slower = max(timeline.total_ns for timeline in both.timelines)
    assert found.estimate.seconds == slower / 1e9 and found.answers.bound.what == "serial chain"
    assert sum(line.ns for line in found.lines) == pytest.approx(slower)
    assert "tensor_scalar" in found.lines[0].place.text


@pytest.mark.parametrize("command", ["why", "run"])
def test_answers_are_omitted_for_classes(command, file, capsys):
    words = [command, file, "--args", "float32[128,64]", "--no-answers"]
    assert main(words) == 0
    text = capsys.readouterr().out
    hidden = ("bound by", "DMA latency", "edit", "limits", "advice")
    assert not any(word in text for word in hidden)
    assert main([*words, "--json"]) == 0
    assert "bound" not in capsys.readouterr().out.replace("bounded", "")


def test_a_kernel_without_instructions_has_no_bound():
    found = why("nothing", Device().timeline())
    assert found.answers is None and str(found).endswith("no instruction was issued")
    assert found.to_dict()["lines"] == []


def test_the_program_of_the_page_on_why_runs(capsys):
    page = Path(__file__).parents[2] / "docs/why.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(program, {})
    assert "bound by the Tensor engine" in capsys.readouterr().out
