"""Published traces of devices next to ours: what chips did, and what we estimate.

    python bench/traces.py CLONES

For each trace of `bench/traces.csv` it prints the time of the kernel, and as parts of that two
estimates: of the compiled program's own instructions, and of the kernel's source. Then, for each
kind of instruction, it prints how many the chip has and how many ours. CLONES is a folder of
clones, OWNER+NAME each; files are those of the commit that is named.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import neuroncore
from neuroncore import machine
from neuroncore.capture import joining, neff, run
from neuroncore.capture.estimate import estimate
from neuroncore.capture.measured import MeasuredCore
from neuroncore.hosts.api import Run

HERE = Path(__file__).resolve().parent
FORMATS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
KINDS = ("product", "transpose", "load", "store", "DMA", "compute")


def fetched(clones: Path, row: dict[str, str], path: str, folder: Path) -> Path:
    """A file of a clone, at the row's commit, written to a folder."""
    clone = clones / row["repository"].replace("/", "+")
    command = ["git", "-C", str(clone), "show", f"{row['commit']}:{path}"]
    done = subprocess.run(command, capture_output=True, check=True)
    target = folder / Path(path).name
    target.write_bytes(done.stdout)
    return target


def source_run(row: dict[str, str], source: Path) -> Run:
    """The kernel of a row, run on arrays of its shapes."""
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
    """float32[128,512], or a number."""
    form, _, sizes = text.partition("[")
    if not sizes:
        return int(text)
    shape = [int(size) for size in sizes.rstrip("]").split(",")]
    return rng.standard_normal(shape, np.float32).astype(FORMATS[form])


def compared(clones: Path, row: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace, program = (fetched(clones, row, row[kind], folder) for kind in ("trace", "neff"))
        measured, made = run.load(trace, program), neff.load(program)
        core = measured.capture.busiest
        own = estimate(made, machine.load(made.target)).busiest
        found = {"window": core.window_ns, "own": own.window_ns, "chip": counts(core)}
        if row["source"]:
            kernel = source_run(row, fetched(clones, row, row["source"], folder))
            timeline = max(kernel.timelines, key=lambda one: one.total_ns)
            found |= {"ours": timeline.total_ns}
            found |= {"kinds": Counter(work.kind for work in joining.ours(timeline))}
        return found


def counts(core: MeasuredCore) -> Counter[str]:
    return Counter(work.kind for _, work in joining.of_core(core))


def main(clones: Path) -> None:
    with (HERE / "traces.csv").open() as file:
        rows = list(csv.DictReader(file))
    ratios: dict[str, list[float]] = {"own": [], "ours": []}
    print(f"{'trace':<52}{'window us':>10}{'own':>7}{'ours':>7}  chip/ours: " + ", ".join(KINDS))
    for row in rows:
        found = compared(clones, row)
        cells = ""
        for name, values in ratios.items():
            if name in found:
                values.append(found[name] / found["window"])
            cells += f"{values[-1]:>7.3f}" if name in found else f"{'-':>7}"
        kinds = found.get("kinds", Counter())
        both = ", ".join(f"{found['chip'][kind]}/{kinds[kind]}" for kind in KINDS)
        label = f"{row['repository'].split('/')[0]} {'/'.join(row['trace'].split('/')[-2:])}"
        print(f"{label[:51]:<52}{found['window'] / 1e3:>10.1f}{cells}  {both}", flush=True)
    for name, values in ratios.items():
        off = np.abs(np.array(values) - 1)
        print(
            f"{name}: median error {np.median(off):.1%}, worst {off.max():.1%}, "
            f"{(off <= 0.1).sum()} of {len(off)} within 10 %, {(off <= 0.2).sum()} within 20 %"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
