"""Compare measured counters of kernels with ours: `python bench/counters.py CSV RECORDS`.

CSV is a table of measurements. Its rows with the metric `counter` have a field of the profiler in
the column `unit`. RECORDS is a folder with the records of the kernels, which `neuroncore score
--sources` fills. Times are in microseconds, percentages are fractions. The measured active time of
an engine includes work of the program before and after the kernel. So a time for this work
(counters.toml) is added to the active time in the estimate.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from neuroncore import machine
from neuroncore.record.program import Record
from neuroncore.report.measurements import Row, is_usable, read, recorded
from neuroncore.report.summary import figures
from neuroncore.time.schedule import schedule

KEY = ("generation", "kernel", "shapes", "dtype", "kernel_source")
ACTIVE = re.compile(r"(\w+_engine_active_time)(?:_percent)?$")
AROUND = Path(__file__).with_suffix(".toml")
LEGACY = "compiled"  # the order of instructions for kernels of the older API


def key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)


def compared(table: Path, folder: Path) -> Iterator[tuple[Row, float, float]]:
    """Yield each measured counter of a kernel that has a record: the row, the measured value, and
    our value."""
    rows = read(table)
    usable = [row for row in rows if is_usable(row)]
    records = {
        key(row): record for row, record in recorded(usable, folder) if isinstance(record, Record)
    }
    around_us = tomllib.loads(AROUND.read_text("utf-8"))["around_us"]
    whole = {key(row): float(row["value"]) for row in usable}
    ours: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        if row["metric"] != "counter" or key(row) not in records:
            continue
        if key(row) not in ours:
            ours[key(row)] = estimated(records[key(row)], row["generation"])
        name, _, unit = row["unit"].partition(" ")
        active = ACTIVE.match(name)
        if active and active[1] in ours[key(row)]:
            measured = float(row["value"]) * (1 if unit == "us" else whole[key(row)])
            around = around_us[row["generation"]]["value"]
            yield row, measured, ours[key(row)][active[1]] * 1e6 + around
        elif name in ours[key(row)]:
            yield row, float(row["value"]), ours[key(row)][name] * (1e6 if unit == "us" else 1)


def estimated(record: Record, generation: str) -> dict[str, Any]:
    order = LEGACY if record.about["api"] == "legacy" else None
    return figures(schedule(record.programs[0], machine.load(generation), order))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, metavar="CSV")
    parser.add_argument("records", type=Path, metavar="RECORDS")
    arguments = parser.parse_args()
    last: tuple[str, ...] = ()
    for row, measured, ours in compared(arguments.table, arguments.records):
        if key(row) != last:
            last = key(row)
            print(f"\n{row['generation']} {row['kernel']} {row['shapes']} {row['dtype']}")
        ratio = f"{ours / measured:.4f}" if measured else "equal" if ours == 0 else "-"
        form = ",.0f" if measured > 1000 else ".4g"
        print(f"    {row['unit']:36} {measured:20{form}} {ours:20{form}} {ratio:>10}")


if __name__ == "__main__":
    main()
