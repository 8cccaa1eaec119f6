"""The compiler's changes to a kernel, line by line."""

import json

import numpy as np
import pytest
from device import Device

from neuroncore.base.units import size
from neuroncore.cli import main
from neuroncore.report.listing import listing
from neuroncore.report.summary import counted
from neuroncore.time.compiled import ISSUED, compiled
from neuroncore.time.schedule import schedule

KERNEL = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

@nki.jit
def rounded(x, w):
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        rows = nl.load(w)
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        total = nisa.tensor_tensor(tile, rows, nl.add)
        nl.store(out[i * 128 : (i + 1) * 128, :], nisa.tensor_copy(total, dtype=nl.bfloat16))
    return out
"""
LISTED = [
    ("kernel.py:9", "dma_copy", "1 on DMA ring 1, 3 omitted: already available"),
    ("kernel.py:10", "dma_copy", "4 on DMA ring 1, merged into 1"),
    ("kernel.py:11", "tensor_tensor", "4 on Vector, merged into 1"),
    ("kernel.py:12", "tensor_copy", "4 on Scalar, merged into 1"),
    ("kernel.py:12", "dma_copy", "4 on DMA ring 2, merged into 1"),
]

NAMES = "loaded", "first", "last"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_run_lists_the_remaining_instructions_of_each_line(monkeypatch, tmp_path, capsys, form):
    monkeypatch.setenv("NEURON_CC_FLAGS", "--disable-dge --lnc=1")
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    shapes = "float32[512,64]", "float32[128,64]"
    more = ["--json"] * (form == "json")
    arguments = ["--compiled", "--target", "trn2", "--args", *shapes]
    assert main(["run", f"{file}::rounded", *arguments, *more]) == 0
    told = capsys.readouterr().out
    if form == "json":
        (launch,) = json.loads(told)["launches"]
        lines, flags = launch["compiled"], launch["flags"]
    else:
        lines = told.splitlines()
        flags = next(line for line in lines if "flags   " in line).split(maxsplit=1)[1].split("   ")
        lines = lines[next(k for k, line in enumerate(lines) if "compiled   " in line) :]
    found = [tuple(line.split(maxsplit=2)) for line in lines[1 : 1 + len(LISTED)]]
    assert found == LISTED
    written = "--disable-dge: descriptors are written before the kernel runs"
    assert flags == [written, "--lnc=1: no effect known"]


def loads(times):
    device = Device()
    source = device.zeros((128, 64), buffer="hbm")
    for _ in range(times):
        device.issue("dma_copy", device.empty((128, 64)), source)
    return device.core


def test_time_and_bytes_are_of_the_same_program():
    """Five loads of the same bytes are one, in the transfers, the bytes and the timeline."""
    core = loads(5)
    timeline = schedule(core.program, core.machine, "compiled")
    assert (timeline.compiled.fate == ISSUED).tolist() == [True] + [False] * 4
    assert counted(timeline).transfers == (timeline.transfer_ns > 0).sum() == 1
    assert counted(timeline).bytes["hbm_read_bytes"] == 128 * 64 * 4
    assert np.all(timeline.end == timeline.end[0])


@pytest.mark.parametrize("order", ["in-order", "scheduled"])
def test_the_current_compiler_omits_nothing(order):
    core = loads(5)
    form = compiled(core.program, core.machine, order)
    assert (form.fate == ISSUED).all() and len(list(listing(form))) == 1


@pytest.mark.parametrize(
    ("room", "load_first", "wanted"),
    [(2, False, ["spill_save", "spill_reload"]), (2, True, ["load again"]), (3, False, [])],
)
def test_spilled_tiles_are_listed_as_transfers(room, load_first, wanted):
    """SBUF has space for two of three tiles, so the first tile is spilled. The list, the bytes and
    the time have the same transfers."""
    device = Device("trn1")
    width = device.core.machine.sbuf.usable_bytes // room // 4 - 1
    loaded, first, last = tiles = [device.empty((128, width)) for _ in range(3)]
    device.core.program.names.update((t.storage.id, n) for t, n in zip(tiles, NAMES, strict=True))
    steps = [("dma_copy", loaded, device.zeros((128, width), buffer="hbm")), ("memset", first, 0.0)]
    for step in (*(steps if load_first else reversed(steps)), ("memset", last, 0.0)):
        device.issue(*step)
    for tile in (last, first, loaded):
        device.issue("reciprocal", device.empty((128, 1)), tile[:, 0:1])
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    listed = (line for line in listing(timeline.compiled) if "by DMA" in line)
    found = [line.partition(" ")[2].strip().rpartition(" of ")[0] for line in listed]
    each = size(128 * width * 4)
    moved = NAMES[0 if load_first else 1]
    told = [f"{what:22} 1 of {each} by DMA: {moved}" for what in wanted]
    assert found == told
    total = sum(counted(timeline).bytes[f"spill_{verb}_bytes"] for verb in ("save", "reload"))
    assert total == 128 * width * 4 * len([what for what in wanted if what.startswith("spill")])
    assert (timeline.spill_ns > 0) is (total > 0)


def test_an_empty_program_has_an_empty_list():
    core = Device().core
    assert list(listing(compiled(core.program, core.machine, "compiled"))) == []
