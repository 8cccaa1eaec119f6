"""Judge records of kernels that a run refuses. The records come from a process in which the checks
are off; the judge must accept none of them.

    python bench/judging/unlawful.py FOLDER [-k SUBSTR]

FOLDER and the folders in it contain scripts named *_bad.py. Each launches a kernel with a mistake.
The first line of a script may name its machine, as in `# target: trn1`. A script whose launch is
not refused is left out. The records that are accepted are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import runpy
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import neuroncore

neuroncore.activate()

from neuroncore.base.errors import NeuronError
from neuroncore.clause import legality
from neuroncore.eval import Spec, examination, judge
from neuroncore.eval.refusals import Refused
from neuroncore.frontend import instructions
from neuroncore.frontend.settings import settings
from neuroncore.hosts.api import of
from neuroncore.memory.storage import Memory
from neuroncore.record import saved
from neuroncore.replay.cursor import Replay
from neuroncore.time.schedule import schedule_cores

SECONDS = 40


def switch_off() -> None:
    """Turn off the checks of calls and of tiles in this process."""
    for name in ("of_argument", "picking_violations", "together", "disagreements", "out_of_reach"):
        setattr(legality, name, lambda *given, **more: iter(()))
    for name in ("_check_fits", "_check_room", "_check_address"):
        setattr(Memory, name, lambda *given, **more: None)
    instructions.misused = lambda *given, **more: None


class Launches:
    """Collects the launches of a script."""

    def __init__(self) -> None:
        self.finished: list[Any] = []

    def begun(self, core: Any) -> None:
        pass

    def done(self, *ranks: Any) -> None:
        self.finished.append(of(*ranks))


def launched(file: Path, target: str, unchecked: bool) -> dict[str, Any]:
    """Run a script. Return its error, and, if `unchecked`, the record of its last launch in
    hexadecimal."""
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = target
    if unchecked:
        switch_off()
    seen, error = Launches(), None
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        try:
            with settings(observer=seen, keeps=True):
                runpy.run_path(str(file), run_name="__main__")
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"[:200]
    found: dict[str, Any] = {"error": error}
    if unchecked and seen.finished:
        with contextlib.suppress(Exception):
            record = seen.finished[-1].record
            content = saved.packed(replace(record, outcome=None, about={}))
            found["record"] = content.hex()
    return found


def looked_at(content: bytes) -> dict[str, Any]:
    """Return the outcome of judging a record: the step that refuses it and the message, or
    "accepted"."""
    try:
        own = saved.unpacked(content, Path("the record"))
    except NeuronError as error:
        return {"by": "reading", "said": str(error)[:160]}
    assert own.setting is not None
    arrays = [own.setting.arrays[one.name] for one in own.setting.inputs]
    order, cores = own.programs[0].order, own.world.cores
    target = own.setting.machine.name
    spec = Spec(lambda: None, lambda *_: (), [0], target=target, order=order, cores=cores)
    try:
        record = examination.unpacked(content, spec, len(arrays))
        examination.examined(record, spec)
        replay = Replay(record, arrays, snapshots=0)
        replay.results()
        judge.refuse([one for core in replay.cores for one in core.findings])
        timelines = schedule_cores(record.programs, own.setting.machine, world=record.world)
        judge.allowed(record, timelines)
    except Refused as refusal:
        return {"by": "examination", "said": f"{refusal.code} {refusal.message}"[:160]}
    except NeuronError as error:
        return {"by": "replay", "said": str(error)[:160]}
    return {"by": "accepted", "said": ""}


def apart(function: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """Return the result of a function that is called in a fork of this process."""
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reads)
        signal.alarm(SECONDS)
        try:
            with os.fdopen(writes, "w") as file:
                json.dump(function(*given), file)
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        text = file.read()
    os.waitpid(process, 0)
    found: dict[str, Any] = json.loads(text) if text else {"error": "it crashed", "by": "a crash"}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-k", default="", metavar="SUBSTR")
    given = parser.parse_args()
    neuroncore.warm()
    refused, counts = 0, Counter[str]()
    for file in sorted(given.folder.glob("**/*_bad.py")):
        if given.k not in str(file):
            continue
        named = re.search(r"target: (\w+)", file.open().readline())
        target = named[1] if named else "trn2"
        error = apart(launched, file, target, False)["error"]
        if not error or error.startswith("SystemExit"):
            continue
        refused += 1
        made = apart(launched, file, target, True)
        if "record" in made:
            found = apart(looked_at, bytes.fromhex(made["record"]))
            counts[found["by"]] += 1
            if found["by"] in ("accepted", "a crash"):
                print(f"{found['by']}: {file.stem}: {error}", flush=True)
    each = ", ".join(f"{number} by {by}" for by, number in sorted(counts.items()))
    print(f"{refused} refused in a run; {counts.total()} records without checks: {each}")
    return int(counts["accepted"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
