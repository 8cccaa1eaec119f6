"""Record the kernels of a table of measurements, so that `neuroncore score` can time them.

    python bench/calibration/record.py CSV FOLDER --sources NAME=PATH ... [-k SUBSTR]

FOLDER gets the record of each kernel (neuroncore.record.saved). The name of a record is a hash of
the kernel's file and arguments. FOLDER also gets index.json, which has for each row of the table
the name of its record, or the reason why there is none. Records that exist already are kept. PATH
is a checkout of the repository NAME, which is a name in the table's column `kernel_source`. A PATH
without NAME= is a folder of checkouts, which are named by the last part of their repository's name.
`aws-neuron-sdk@v2.26.0` is the checkout of the SDK's documentation with the tutorials that later
releases lack.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "conformance"))

import cases
from case import Case, Hole, Row
from outcome import Outcome, judged, options, run, told

from neuroncore.record.saved import FORMAT
from neuroncore.report.measurements import INDEX, is_usable, read


def checkouts(given: list[str]) -> dict[str, Path]:
    """Return the checkouts by name. `given` has checkouts as NAME=PATH, and folders of checkouts as
    PATH."""
    found: dict[str, Path] = {}
    for word in given:
        name, equals, path = word.rpartition("=")
        if equals:
            found[name] = Path(path).resolve()
            continue
        for known in cases.FAMILIES:
            folder = Path(path, known.rpartition("/")[2]).resolve()
            if folder.is_dir():
                found.setdefault(known, folder)
    return found


def outcomes(
    rows: list[Row], folder: Path, sources: list[str], seconds: float, gigabytes: float
) -> Iterator[Outcome]:
    named = checkouts(sources)
    for row in rows:
        name = f"{row['id']} {row['kernel']} {row['generation']}"
        try:
            case = cases.case(row, named)
        except Hole as hole:
            note(folder, row, {"missing": str(hole)})
            yield Outcome(name, "skipped", str(hole))
        else:
            outcome = recorded(name, row, case, folder, sources, seconds, gigabytes)
            note(folder, row, entry(case, row, outcome))
            yield outcome


def recorded(
    name: str, row: Row, case: Case, folder: Path, sources: list[str], seconds: float,
    gigabytes: float,
) -> Outcome:  # fmt: skip
    """Make the record of a row in a separate process, unless the record exists."""
    file = folder / f"{case.key(row['generation'], FORMAT)}.record"
    if file.is_file():
        return Outcome(name, "passed")
    # some kernels write files into the current folder
    with tempfile.TemporaryDirectory() as elsewhere:
        finished = run(
            [sys.executable, str(HERE / "one.py"), json.dumps(row), str(file.resolve()), *sources],
            seconds=seconds,
            gigabytes=gigabytes,
            # products are small
            env=dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            cwd=Path(elsewhere),
        )
    # the last line is ours; kernels print lines too
    return judged(name, finished, finished.stdout.splitlines()[-1:])


def entry(case: Case, row: Row, outcome: Outcome) -> dict[str, str]:
    if outcome.verdict == "passed":
        return {"record": f"{case.key(row['generation'], FORMAT)}.record"}
    reason = " | ".join((outcome.verdict, outcome.cause, *outcome.details[-1:]))
    return {"missing": reason}


def note(folder: Path, row: Row, entry: Mapping[str, str]) -> None:
    """Add the entry of a row to the index: the name of its record, or the reason why there is
    none."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / INDEX
    index = json.loads(file.read_text()) if file.is_file() else {}
    unfinished = folder / f"{INDEX}.{os.getpid()}"
    unfinished.write_text(json.dumps({**index, row["id"]: entry}, indent=1))
    unfinished.replace(file)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("table", type=Path, metavar="CSV")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--sources", nargs="+", default=[], metavar="[NAME=]PATH")
    given = parser.parse_args()
    sources = [f"{name}={path}" for name, path in checkouts(given.sources).items()]
    rows = filter(is_usable, read(given.table))
    chosen = [r for r in rows if given.k in f"{r['id']} {r['kernel']} {r['kernel_source']}"]
    ran = outcomes(chosen, given.folder, sources, given.timeout, given.memory)
    return told("records", ran, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
