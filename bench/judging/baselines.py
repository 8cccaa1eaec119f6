"""Measure the cost of judging NKIBench's baselines, and check that none of them is refused.

    python bench/judging/baselines.py CHECKOUT [-k SUBSTR]

CHECKOUT is a clone of AccelOpt. Its 14 baselines are judged as candidates, each with three hidden
seeds. For each baseline the script prints the verdict, and the seconds of CPU of the references, of
the candidate's run, of all replays, of comparisons, and of the rest. It also prints the time of a
replay as a fraction of the time of another run of the kernel. The results of this run and of the
replay must have the same bits.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

SECRET = 1


def seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Timed:
    """Calls a function, and adds up the seconds of CPU that it takes."""

    def __init__(self, function: Any) -> None:
        self.function, self.total = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        begun = seconds()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.total += seconds() - begun


def case(name: str, checkout: Path) -> dict[str, Any]:
    """Judge a baseline in this process, and return its row of the table."""
    from dataclasses import replace

    import neuroncore
    from neuroncore.eval import answers, child, comparison, judge, load_spec
    from neuroncore.eval.adapters import nkibench

    neuroncore.warm()
    spec = replace(load_spec(f"nkibench:{name}@{checkout}"), secret=SECRET)
    source = nkibench.problem(name, checkout).baseline.read_text()
    begun = seconds()
    those = judge.cases(spec)
    references = seconds() - begun
    task = child.Task.of(spec, [one.public for one in those])
    play, compare = Timed(judge.Replay.results), Timed(comparison.errors)
    make, answer = Timed(judge.Replay.__init__), Timed(child.answer)
    with neuroncore.activated():
        content = bytes(answers.ISOLATION.size) + answer(source, task, ())
        parts = answers.records(content)
        begun = seconds()
        with (
            mock.patch.object(judge.Replay, "results", lambda *a: play(*a)),
            mock.patch.object(judge.Replay, "__init__", lambda *a, **k: make(*a, **k)),
            mock.patch.object(comparison, "errors", compare),
        ):
            found = judge.judged(parts, spec, those)
        whole = seconds() - begun
        again, same = rerun(source, spec, those[0], parts[0])
    replays = play.total + make.total
    return {
        "name": name,
        "error": found["error"],
        "references": references,
        "run": answer.total,
        "replays": replays,
        "comparing": compare.total,
        "rest": whole - replays - compare.total,
        "of running": replays / spec.seeds / again,
        "same bits": same,
    }


def rerun(source: str, spec: Any, case: Any, content: bytes) -> tuple[float, bool]:
    """Run the kernel on hidden inputs. Return the seconds of CPU, and whether a replay has results
    with the same bits."""
    from neuroncore.eval import examination, judge
    from neuroncore.hosts import api

    names: dict[str, Any] = {}
    exec(spec.prelude, names)
    exec(compile(source, "candidate.py", "exec"), names)
    kernel = next(names[name] for name in spec.entry if name in names)
    hidden = case.hidden[0]
    record = examination.unpacked(content, spec, len(hidden.arrays))
    replayed = judge.Replay(record, hidden.arrays, snapshots=0).results()
    run = Timed(api.run)
    made = run(kernel, *hidden.arguments, target=spec.target, options=spec.options).results
    pairs = zip(several(made), several(replayed), strict=True)
    return run.total, all(a.tobytes() == b.tobytes() for a, b in pairs)


def several(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def measured(checkout: Path, wanted: str) -> int:
    from neuroncore.eval.adapters import nkibench

    rows = []
    for name in nkibench.problems(checkout):
        if wanted not in name:
            continue
        command = [sys.executable, __file__, "--case", str(checkout), "-k", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(name, done.stderr[-300:])
            continue
        rows.append(row := json.loads(done.stdout.splitlines()[-1]))
        print(text(row), flush=True)
    parts = ("references", "run", "replays", "comparing", "rest")
    print(", ".join(f"{part} {sum(row[part] for row in rows):.0f} s" for part in parts))
    print(f"replay over run: median {statistics.median(row['of running'] for row in rows):.2f}")
    return int(any(row["error"] or not row["same bits"] for row in rows))


def text(row: dict[str, Any]) -> str:
    said = "passed" if row["error"] is None else row["error"]["code"]
    parts = ("references", "run", "replays", "comparing", "rest")
    times = "  ".join(f"{part} {row[part]:6.2f}" for part in parts)
    bits = "same" if row["same bits"] else "OTHER"
    return f"{row['name']:24s} {said}  {times}  replay/run {row['of running']:.2f}  bits {bits}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--case", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-k", default="", metavar="SUBSTR")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(case(given.k, given.checkout)))
        return 0
    return measured(given.checkout, given.k)


if __name__ == "__main__":
    raise SystemExit(main())
