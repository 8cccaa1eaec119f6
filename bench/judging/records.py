"""Judge damaged and hostile records. They must not cost the judge much time, or change a later
verdict.

    python bench/judging/records.py [COUNT] [SEED]

COUNT records of honest kernels, 10,000 by default, are changed at random. Then the script judges
bombs, which are records that are made to cost as much time or memory as possible. Some bombs only
contain data that no instruction uses, and pass. Each record is judged in a process with limits, as
by a Worker. The script prints how often each code came, the time of the slowest record, and the
cost of each bomb. A record that passes must not have a lower latency than the honest one. The
verdict on the honest record must be the same at the end as at the beginning. The exit code is 1 if
the judge has a fault.
"""

from __future__ import annotations

import copy
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import neuroncore

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")]

from damaged_records import mutated
from specs import PROBLEMS

from neuroncore.eval import answers, child, judge
from neuroncore.eval.court import Court, Judged
from neuroncore.eval.isolation import ProcessLimits
from neuroncore.record import saved

LIMITS = ProcessLimits(judge_seconds=5, judge_memory=3 << 30)
MOST = 1e3 * (LIMITS.judge_seconds + 1)  # ms; Linux limits CPU time in whole seconds
HEAD = saved.MARK + b"%d\n" % saved.FORMAT
Head = dict[str, Any]


class Subject(NamedTuple):
    """A problem with one shape, the content of its honest record, and the verdict on that
    record."""

    court: Court
    content: bytes
    honest: dict[str, Any]

    def judged(self, record: bytes) -> Judged:
        """Return the verdict on a record, and the milliseconds of CPU that the judge used."""
        return self.court.judged(None, [record])


def subject(name: str) -> Subject:
    spec = PROBLEMS[name].spec()
    those = judge.cases(spec)[:1]
    task = child.Task.of(spec, [those[0].public])
    with neuroncore.activated():
        content = bytes(answers.ISOLATION.size) + child.answer(PROBLEMS[name].honest, task, ())
    (record,) = answers.records(content)

    def judging(_: Any, parts: list[bytes]) -> dict[str, Any]:
        if spec.dynamic:
            return judge.one_seed(parts, spec, those[0], 0)
        return judge.judged(parts, spec, those)

    court = Court(judging, LIMITS)
    content = zlib.decompress(record.partition(b"\n")[2])
    return Subject(court, content, court.judged(None, [record]).entries)


def packed(content: bytes) -> bytes:
    return HEAD + zlib.compress(content, 1)


def complaint(found: dict[str, Any], honest: dict[str, Any]) -> str:
    """Return the fault of a verdict on a changed record; "" if the verdict is acceptable. `honest`
    is the verdict on the honest record."""
    if found.get("passed"):
        made, wanted = (one["shapes"][0]["latency_us"] for one in (found, honest))
        return "" if made >= wanted else f"passed with {made} us, the honest one has {wanted}"
    error = found.get("error") or {"code": "another path", "message": ""}
    return error["message"] if error["code"] == "JUDGE_FAULT" else ""


def fuzzed(one: Subject, count: int, seed: int, codes: Counter[str]) -> Iterator[float]:
    """Judge `count` records, each changed at random. Yield the milliseconds of CPU of each, and
    print complaints. `codes` counts the codes of the verdicts."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        found, cpu = one.judged(packed(mutated(one.content, rng)))
        error = found.get("error")
        codes[error["code"] if error else "passed" if found["passed"] else "another path"] += 1
        if said := complaint(found, one.honest):
            codes["WRONG"] += 1
            print(f"change {number} of seed {seed}: {said:.300}", flush=True)
        yield cpu


# --- bombs ----------------------------------------------------------------------------------------


def bombs(content: bytes) -> Iterator[tuple[str, bytes]]:
    text, _, numbers = content.partition(b"\n")

    def changed(change: Callable[[Head, Head], None], more: bytes = b"") -> bytes:
        head = json.loads(text)
        change(head, head["programs"][0])
        return packed(json.dumps(head).encode() + b"\n" + numbers + more)

    def longer(name: str, times: int) -> bytes:
        return changed(lambda head, program: program.update({name: program[name] * times}))

    def extended(name: str, values: list[Any]) -> bytes:
        return changed(lambda head, program: program[name].extend(copy.copy(values)))

    first = json.loads(text)["programs"][0]["geometries"][0]
    shapes = [[first[0], [128, 1 + i % 500], *first[2:]] for i in range(20000)]
    yield "20,000 geometries", extended("geometries", shapes)
    yield "two million lines", longer("lines", 400_000)
    yield "a million values", extended("values", [[i] for i in range(1_000_000)])
    yield "60,000 calls", longer("calls", 20_000)
    yield "a million iterations", extended("iterations", [0, 0, 0] * 1_000_000)
    yield "five million blobs", changed(lambda head, _: head["blobs"].extend([0] * 5_000_000))
    yield "300 MB of notes", changed(lambda head, _: head["about"].update(x="y" * 300_000_000))
    yield "an integer of a million digits", packed(b'{"about":' + b"9" * 1_000_000 + b"}\n")
    yield "lists in lists", packed(b'{"about":' + b"[" * 50_000_000 + b"\n")
    zeros = zlib.compressobj(1)
    parts = [zeros.compress(bytes(1 << 24)) for _ in range(160)]
    yield "2.5 GiB of zeros", HEAD + b"".join(parts) + zeros.flush()
    long = [["i1", 100_000_000]]
    yield "a column of 100 million", changed(lambda head, _: head["columns"].extend(long))
    wide = {"tensor": [0, 0, 1 << 62]}
    yield "a result far away", changed(lambda head, program: program.update(results=wide))


def main() -> int:
    count, seed = (int(given) for given in (*sys.argv[1:], *("10000", "0")[len(sys.argv) - 1 :]))
    neuroncore.warm()
    subjects = [subject(name) for name in ("sums", "product", "loop")]
    codes, slowest = Counter[str](), 0.0
    for number, one in enumerate(subjects):
        share = count // len(subjects)
        slowest = max(slowest, *fuzzed(one, share, seed + number, codes))
    print(", ".join(f"{code} {times}" for code, times in codes.most_common()))
    print(f"the slowest took {slowest:.0f} ms of CPU")
    for name, record in bombs(subjects[0].content):
        found, cpu = subjects[0].judged(record)
        error = found["error"] or {"code": "PASSED", "message": ""}
        codes["WRONG"] += bool(complaint(found, subjects[0].honest)) or cpu > MOST
        print(
            f"{name}: {len(record):,} bytes, {cpu:.0f} ms, {error['code']} {error['message']:.90}"
        )
    for one in subjects:
        assert one.judged(packed(one.content)).entries == one.honest, "another verdict"
    return int(codes["WRONG"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
