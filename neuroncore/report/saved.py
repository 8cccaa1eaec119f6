"""Saved runs for scripts that expect a NEFF and an NTFF, in neuroncore's own format.

Both files are JSON objects, compressed with gzip. They are not compatible with the vendor's
formats. They have

* `format`: "neuroncore.neff/1" or "neuroncore.ntff/1";
* `neuroncore`: the version that wrote the file;
* `id`: a hash of the program, the same in the two files of one run;
* `kernel` and `target`: names of the kernel and of the machine;
* `profile`: `cores`, the figures of each core (`summary.figures`), the slowest first;
  `instructions`, how many instructions were recorded; `trace`, the timeline of the instructions as
  Chrome Trace Events, or null if there are more than TRACED. If a core issued more instructions
  than its record holds, the figures say how many are missing. Everything else is then about the
  instructions that were recorded.

The neff also has

* `instructions`: rows of `core`, `engine`, `name`, `opcode`, `count` and `instruction_time`
  (estimated seconds until the results were available);
* `lines`: rows of source lines with `place`, `text`, `count` and `instruction_time`, the longest
  first, at most LINES of them; `lines_left_out` is the number of other lines;
* `record`: the programs in base64, packed by `record.saved`, from which the HTML page is made; null
  if they cannot be packed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from neuroncore.base.errors import UsageError, writing
from neuroncore.base.lazy import version
from neuroncore.core.core import Core
from neuroncore.machine import load
from neuroncore.machine.harness import BENCHMARK, PROFILE, HarnessTime, harness_time
from neuroncore.record import saved as records
from neuroncore.record.program import Record
from neuroncore.report import perfetto
from neuroncore.report.summary import bound_by, figures
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline, schedule_cores

TIMES = ("total_time", "total_time_p10", "total_time_p90")
UTILIZATION = tuple(f"{name}_estimated_percent" for name in ("mfu", "mfu_inst", "hfu", "mbu"))


def profiled(figures: dict[str, Any], machine: str) -> dict[str, Any]:
    """Return figures of `summary.figures`, changed to match the vendor's profiler.

    `total_time` includes the time that the profiler adds, and `kernel_time` does not. Shares and
    cycles are relative to `total_time`, as in published profiles."""
    kernel = figures["total_time"]
    time = harness_time(PROFILE, machine, 1e9 * kernel)
    added = time.total_ns / 1e9 - kernel
    share = kernel / ((kernel + added) or 1.0) or 1.0  # without instructions figures stay 0
    changed = {name: figures[name] + added for name in TIMES if name in figures}
    changed |= {name: value * share for name, value in figures.items() if _is_share(name)}
    cycles = round(figures["neuroncore_cycle_count"] / share)
    return {
        "neuroncore_total_time": time.parts,
        **figures,
        **changed,
        "kernel_time": kernel,
        "neuroncore_cycle_count": cycles,
    }


def _is_share(field: str) -> bool:
    """Return whether a field is a share of the total time."""
    return field.endswith("_active_time_percent") or field in UTILIZATION


TRACED = 20_000  # instructions, whose timeline takes about 0.3 MB compressed
LINES = 1000
FORMATS = {"neff": "neuroncore.neff/1", "ntff": "neuroncore.ntff/1"}
FIELDS = {"neuroncore": str, "id": str, "kernel": str, "target": str, "profile": dict}
MORE = {"instructions": list, "lines": list, "lines_left_out": int}  # of a neff
GZIP = b"\x1f\x8b"

Kind = Literal["neff", "ntff"]
Document = dict[str, Any]


class Finished(Protocol):
    """A finished launch: the name of the kernel, and its cores."""

    @property
    def kernel(self) -> str: ...
    @property
    def cores(self) -> Sequence[Core]: ...


def save(run: Finished, neff: Path | None, trace: Path | None) -> None:
    """Write the program to `neff` and its estimated profile to `trace`, and create missing folders.

    Raises UsageError if the run has no record or a file cannot be written.
    """
    if neff is None and trace is None:
        return
    document = _document(run)
    if neff is not None:
        _write(neff, document)
    if trace is not None:
        _write(trace, _profile_of(document))


def benchmarked(run: Finished) -> HarnessTime:
    """Return the estimated time of the slowest core, and the time that the vendor's benchmark adds.

    Raises UsageError if the run has no record."""
    slowest = max(timeline.total_ns for timeline in _timelines(run))
    return harness_time(BENCHMARK, run.cores[0].machine.name, slowest)


def timelines(neff: Path) -> list[Timeline]:
    """Return the timelines of a saved run, core by core, scheduled again.

    Raise UsageError like `read`, or if the file has no record."""
    document = read(neff, "neff")
    if document.get("record") is None:
        raise UsageError(f"{neff} has no record: run the kernel again")
    try:
        packed = base64.b64decode(document["record"])
    except (TypeError, ValueError):
        raise UsageError(f"{neff} is damaged: run the kernel again") from None
    record = records.unpacked(packed, neff)
    return schedule_cores(record.programs, load(document["target"]), world=record.world)


def capture(neff: Path, trace: Path, executions: int = 1, nth: int = 1) -> list[Path]:
    """Write the profile of a saved run once for each profiled execution, and return the file names.

    The names come from `traces`. All executions take the same time, so all files are equal. Raises
    UsageError like `read`, or if a file cannot be written."""
    profile = _profile_of(read(neff, "neff"))
    files = traces(trace, executions, nth)
    for path in files:
        _write(path, profile)
    return files


def report(trace: Path, folder: Path) -> None:
    """Write the figures (`summaries`) of the saved profile NAME.ntff to NAME.json in a folder.

    Raises UsageError like `read`, or if the file cannot be written."""
    figures_by_name = summaries(read(trace, "ntff"))
    path = folder / f"{trace.stem}.json"
    _put(path, _json(figures_by_name))


def traces(trace: Path, executions: int = 1, nth: int = 1) -> list[Path]:
    """Return the file names that the vendor's tools give to the profiles of several executions.

    These are the executions nth, 2 * nth, ... up to `executions`. If `nth` is larger than
    `executions`, return the name for execution `nth`. The name for execution 1 is `trace`, such as
    NAME.ntff; for execution n it is NAME_exec_n.ntff."""
    executions_kept = range(nth, executions + 1, nth) or [nth]
    return [
        trace if n == 1 else trace.with_name(f"{trace.stem}_exec_{n}{trace.suffix}")
        for n in executions_kept
    ]


def read(path: Path, kind: Kind) -> Document:
    """Read a file that `save` wrote.

    Raise UsageError if the file does not exist, or has other contents."""
    try:
        with path.open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
        text = gzip.decompress(path.read_bytes()) if packed else b""
        document = json.loads(text)
        format_name = document["format"]
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError, TypeError, KeyError):
        raise UsageError(
            f"{path} was not written by neuroncore; for files of a device use `neuroncore neff "
            "X.neff` and `neuroncore profile import X.ntff`"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    if format_name == FORMATS[kind]:
        fields = {**FIELDS, **MORE} if kind == "neff" else FIELDS
        if not all(
            isinstance(document.get(name), field_type) for name, field_type in fields.items()
        ):
            raise UsageError(f"{path} is damaged: run the kernel again")
        return dict(document)
    if format_name in FORMATS.values():
        other = next(k for k, name in FORMATS.items() if name == format_name)
        raise UsageError(f"{path} is not the {kind} of a run but its {other}")
    raise UsageError(
        f"{path} has format {format_name!r}, but this version of neuroncore reads {FORMATS[kind]}; "
        "run the kernel again"
    )


def summaries(document: Document) -> dict[str, Document]:
    """Return the figures of each core by the name of its program, as the vendor's summary-json
    does.

    The slowest core comes first, because scripts read the first one. `total_time` is `kernel_time`
    plus the time that neuron-profile adds (`profiled`)."""
    cores = document["profile"]["cores"]
    note = {
        "kernel": document["kernel"],
        "neuroncore_version": document["neuroncore"],
        "neuroncore_estimate": "times and utilizations are estimates, not measurements",
    }
    beginning = {"neuroncore_coverage": "the beginning of the run, until its record ends"}
    names = (
        [document["id"]] if len(cores) == 1 else [f"{document['id']}_nc{c['core']}" for c in cores]
    )
    return {
        name: {
            **note,
            **(beginning if "instructions_left_out" in core["figures"] else {}),
            **profiled(core["figures"], document["target"]),
        }
        for name, core in zip(names, cores, strict=True)
    }


# --- writing --------------------------------------------------------------------------------------


def _document(run: Finished) -> Document:
    timelines = _timelines(run)
    lines = sorted(_lines(timelines), key=lambda row: (-row["instruction_time"], row["place"]))
    count = sum(len(timeline.queue) for timeline in timelines)
    slowest_first = sorted(enumerate(timelines), key=lambda item: -item[1].total_ns)
    content = {
        "neuroncore": version("neuroncore"),
        "kernel": run.kernel,
        "target": timelines[0].machine.name,
        "instructions": [
            row for core, timeline in enumerate(timelines) for row in _instructions(core, timeline)
        ],
        "lines": lines[:LINES],
        "lines_left_out": max(0, len(lines) - LINES),
        "profile": {
            "cores": [
                {"core": core, "figures": {**figures(t), **bound_by(t)}}
                for core, t in slowest_first
            ],
            "instructions": count,
            "trace": list(perfetto.events(timelines)) if count <= TRACED else None,
        },
    }
    digest = hashlib.sha1(_json(content), usedforsecurity=False).hexdigest()
    return {"format": FORMATS["neff"], "id": f"n_{digest}", **content, "record": _record(run)}


def _record(run: Finished) -> str | None:
    programs = [core.program for core in run.cores if core.program is not None]
    try:
        packed = records.packed(Record(programs, {"kernel": run.kernel}))
    except (TypeError, UsageError):
        return None
    return base64.b64encode(packed).decode("ascii")


def _profile_of(document: Document) -> Document:
    names = ("neuroncore", "id", "kernel", "target", "profile")
    return {"format": FORMATS["ntff"], **{name: document[name] for name in names}}


def _timelines(run: Finished) -> list[Timeline]:
    programs = [core.program for core in run.cores if core.program is not None]
    if len(programs) < len(run.cores):
        raise UsageError(f"{run.kernel} ran without a record: Options(record=False)")
    return schedule_cores(programs, run.cores[0].machine, world=run.cores[0].world)


def _instructions(core: int, timeline: Timeline) -> Iterator[Document]:
    """Yield a row for each engine and instruction of a core: `instructions` in a saved file."""
    calls = timeline.program.calls
    counts = np.bincount(timeline.columns.call, minlength=len(calls))
    total_ns = np.bincount(timeline.columns.call, timeline.end - timeline.begin, len(calls))
    queues = np.zeros(len(calls), np.int64)
    queues[timeline.columns.call] = timeline.queue
    rows: dict[tuple[int, str], Document] = {}
    for call, count, ns, queue in zip(calls, counts, total_ns, queues, strict=True):
        if count:
            row = rows.setdefault(
                (int(queue), call.name),
                {
                    "core": core,
                    "engine": QUEUES[queue],
                    "name": call.name,
                    "opcode": call.instruction.opcode,
                    "count": 0,
                    "instruction_time": 0.0,
                },
            )
            row["count"] += int(count)
            row["instruction_time"] += float(ns) / 1e9
    yield from (rows[key] for key in sorted(rows))


def _lines(timelines: Sequence[Timeline]) -> list[Document]:
    """Return a row for each source line, for all cores together: `lines` in a saved file."""
    rows: dict[str, Document] = {}
    for timeline in timelines:
        places = len(timeline.program.lines)
        counts = np.bincount(timeline.columns.line, minlength=places)
        total_ns = np.bincount(timeline.columns.line, timeline.end - timeline.begin, places)
        for index in np.flatnonzero(counts).tolist():
            place = timeline.program.place(index)
            empty = {
                "place": str(place),
                "text": place.text.strip(),
                "count": 0,
                "instruction_time": 0.0,
            }
            row = rows.setdefault(str(place), empty)
            row["count"] += int(counts[index])
            row["instruction_time"] += float(total_ns[index]) / 1e9
    return list(rows.values())


def _json(document: Document) -> bytes:
    return json.dumps(document, allow_nan=False).encode()


def _write(path: Path, document: Document) -> None:
    _put(path, gzip.compress(_json(document), 6, mtime=0))


def _put(path: Path, content: bytes) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
