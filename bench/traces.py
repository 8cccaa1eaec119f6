"""Compare published traces of devices with our estimates.

    python bench/traces.py CLONES [--json OUT.json] [-k TEXT]

For each trace of `bench/traces.csv` it prints the measured time of the kernel, and two estimates as
fractions of this time: `own` is the estimate for the instructions of the compiled program, and
`ours` is the estimate for the kernel's source. Then it prints, for each kind of instruction, how
many the chip executed and how many our compiled program has. The last figure is about the clock of
the Tensor engine, which has one rate in each window of fixed length: it is the number of windows in
which the model of the clock has the rate of the trace.

`-k` selects traces whose repository or file contains the text. CLONES is a folder of clones, each
named OWNER+NAME. Files are read at the commit that traces.csv names. docs/calibration.md has the
figures (docs/generate/traces.py).
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import neuroncore
from neuroncore import machine
from neuroncore.capture import joining, neff, run
from neuroncore.capture.estimate import Clock, estimate
from neuroncore.capture.measured import MeasuredCore
from neuroncore.capture.trace import TENSOR
from neuroncore.hosts.api import Run
from neuroncore.machine import Machine

HERE = Path(__file__).resolve().parent
FORMATS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
KINDS = ("product", "transpose", "load", "store", "DMA", "compute")
ESTIMATES = ("own", "ours")
FULL = 8  # the full rate of the clock, in eighths


def fetched(clones: Path, row: dict[str, str], path: str, folder: Path) -> Path:
    """Write a file of a clone, at the row's commit, to a folder. Return its path."""
    clone = clones / row["repository"].replace("/", "+")
    command = ["git", "-C", str(clone), "show", f"{row['commit']}:{path}"]
    done = subprocess.run(command, capture_output=True, check=True)
    target = folder / Path(path).name
    target.write_bytes(done.stdout)
    return target


def source_run(row: dict[str, str], source: Path) -> Run:
    """Run the kernel of a row on random arrays with its shapes."""
    neuroncore.activate()
    os.environ["NEURON_CC_FLAGS"] = row["flags"]
    old, arrow, new = row["replace"].partition("->")
    if arrow:
        source.write_text(source.read_text().replace(old, new))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    given = [argument(one, rng) for one in row["arguments"].split(";")]
    kernel = getattr(module, row["kernel"])
    return neuroncore.run(kernel, *given, target=row["target"])


def argument(text: str, rng: np.random.Generator) -> object:
    """Return the argument that a text describes: a random array for a text such as
    float32[128,512], or an integer."""
    form, _, sizes = text.partition("[")
    if not sizes:
        return int(text)
    shape = [int(size) for size in sizes.rstrip("]").split(",")]
    return rng.standard_normal(shape, np.float32).astype(FORMATS[form])


def compared(clones: Path, row: dict[str, str]) -> dict[str, Any]:
    """Return the figures of a trace: times in nanoseconds; for each kind of instruction the chip's
    number and our number; and the result of `clock`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace, program = (fetched(clones, row, row[kind], folder) for kind in ("trace", "neff"))
        measured, made = run.load(trace, program), neff.load(program)
        core, target = measured.capture.busiest, machine.load(made.target)
        kernel = source_run(row, fetched(clones, row, row["source"], folder))
        timeline = max(kernel.timelines, key=lambda one: one.total_ns)
        chip = Counter(work.kind for _, work in joining.of_core(core))
        kinds = Counter(work.kind for work in joining.ours(timeline))
        return {
            "repository": row["repository"],
            "trace": row["trace"],
            "machine": made.target,
            "window": core.window_ns,
            "own": estimate(made, target).busiest.window_ns,
            "ours": timeline.total_ns,
            "counts": {kind: [chip[kind], kinds[kind]] for kind in KINDS},
            "clock": clock(core, target),
        }


def clock(core: MeasuredCore, target: Machine) -> tuple[int, int]:
    """Return two numbers of windows from the first product to the last: those in which the model of
    the Tensor engine's clock has the rate of the trace, and all windows. The model gets the
    measured begin of a window and the measured products."""
    if not len(core.clock):
        return 0, 0
    begins, full = core.clock["ns"], core.clock["eighths"] >= FULL
    law, length = Clock(target, float(begins[0])), target.fixed.clock_window_ns
    moved = [
        (float(done["end_ns"]), core.kinds[int(done["kind"])].operand("src"))
        for done in core.instructions[core.instructions["engine"] == TENSOR]
        if done["own"] and core.kinds[int(done["kind"])].role == "product"
    ]
    peak, spans = target.engines["tensor"].clock_ghz, []
    for end, read in moved:
        rows = read.free * (2 if read.free_bytes == 4 * read.free else 1)
        end -= target.engines["tensor"].latency_ns
        before = np.searchsorted(begins, end, "right") - 1
        share = 1.0 if before >= 0 and full[before] else target.fixed.cold_clock_share
        spans.append((end - rows / peak / share, end))
        law.move(*spans[-1], rows)
    if not spans:
        return 0, 0
    first, last = (int((ns - law.phase) // length) for ns in (spans[0][0], spans[-1][1]))
    middles = law.phase + (np.arange(first, last + 1) + 0.5) * length
    changes = np.searchsorted(begins, middles, "right") - 1
    chip = (changes >= 0) & full[changes]
    ours = np.array([law.slow(ns) == 1.0 for ns in middles])
    return int((ours == chip).sum()), len(chip)


def line(found: dict[str, Any]) -> str:
    """Return a line of the table."""
    label = f"{found['repository'].split('/')[0]} {'/'.join(found['trace'].split('/')[-2:])}"
    shares = "".join(f"{found[name] / found['window']:>7.3f}" for name in ESTIMATES)
    both = ", ".join(f"{chip}/{ours}" for chip, ours in found["counts"].values())
    right, windows = found["clock"]
    return f"{label[:51]:<52}{found['window'] / 1e3:>10.1f}{shares}  {both}, {right}/{windows}"


def totals(rows: list[dict[str, Any]]) -> list[str]:
    """Return lines about all traces together."""
    lines = []
    for name in ESTIMATES:
        off = np.array([abs(found[name] / found["window"] - 1) for found in rows])
        lines.append(
            f"{name}: median error {np.median(off):.1%}, worst {off.max():.1%}, "
            f"{(off <= 0.1).sum()} of {len(off)} within 10 %, {(off <= 0.2).sum()} within 20 %"
        )
    close = sum(is_close(*found["counts"]["compute"]) for found in rows)
    right, windows = (sum(found["clock"][i] for found in rows) for i in (0, 1))
    return [
        *lines,
        f"compute: within 10 % of the chip's instructions, or 3, in {close} of {len(rows)}",
        f"clock: right in {right} of {windows} windows",
    ]


def is_close(chip: int, ours: int) -> bool:
    """Return whether our number of instructions differs from the chip's by at most 10 %, or by at
    most 3."""
    return abs(ours - chip) <= max(3, 0.1 * chip)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path, metavar="CLONES")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("-k", dest="text", default="", metavar="TEXT")
    given = parser.parse_args()
    with (HERE / "traces.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if given.text in f"{r['repository']}/{r['trace']}"]
    print(
        f"{'trace':<52}{'window us':>10}{'own':>7}{'ours':>7}  chip/ours: {', '.join(KINDS)}, clock"
    )
    each = []
    for row in rows:
        each.append(compared(given.clones, row))
        print(line(each[-1]), flush=True)
    print("\n".join(totals(each)))
    if given.json:
        given.json.write_text(json.dumps({"schema": "neuroncore.traces/1", "traces": each}) + "\n")


if __name__ == "__main__":
    main()
