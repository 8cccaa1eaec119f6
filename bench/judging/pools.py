"""Measure the cost of candidates, and check that pools of processes lose no candidate and leave no
process.

    python bench/judging/pools.py [COUNT] [--memory COUNT]

A pool of two processes judges a batch while one of the two is killed: no candidate may be missing.
After a pool is killed, none of its processes may remain. A pool of one process and a pool of two
must write equal lines. Then COUNT small candidates (400 by default) are judged at each level of
isolation. The script prints the CPU time of a candidate, and the memory of the processes after a
quarter of the candidates and at the end.

With `--memory 10000` a pool of two processes judges this number of candidates, and nothing else is
measured. While the pool judges, the script prints several times the memory of the pool's process,
of its workers, of the process that forks candidates, and of the process that judges. None may grow
by more than 20 MiB after the first hundred candidates.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from candidates import HONEST, inputs

from neuroncore.eval import Spec
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.eval.worker import Candidate, Worker

SPEC = """
import numpy as np
from neuroncore.eval import Spec

def inputs(seed, shape):
    return tuple(np.random.default_rng(seed).standard_normal((2, *shape), np.float32))

SPEC = Spec(lambda a, b: 2 * a + b, inputs, [(128, 512)], tol=1e-6)
"""
BATCH = 40
MILESTONES = (100, 1_000, 2_000, 5_000, 10_000)  # candidates
GROWTH = 20  # MiB
Line = dict[str, Any]


def measured(level: Level, count: int) -> None:
    """Print the CPU time of a candidate, and the memory of this process and its children."""
    spec = Spec(lambda a, b: 2 * a + b, inputs, [(128, 512)], tol=1e-6)
    worker = Worker(spec, level, ProcessLimits())
    spent, begun = 0.0, own_cpu()
    for n in range(count):
        verdict = worker.verdict(Candidate("honest", f"{HONEST}# {n}\n"))
        assert verdict["passed"], verdict["error"]
        spent += verdict["cost"]["child_cpu_ms"] + verdict["cost"]["judge_cpu_ms"]
        if n in (count // 4, count - 1):
            print(f"{level}: after {n + 1}: {memory()} MiB", flush=True)
    spent += 1e3 * (own_cpu() - begun)
    worker.close()
    print(f"{level}: {spent / count:.1f} ms of CPU, {1e3 * count / spent:.0f} per second and core")


def growth(folder: Path, count: int) -> bool:
    """Print the memory of a pool's processes several times while it judges a batch. Return whether
    none grows by more than GROWTH."""
    process = pool(folder, "memory.jsonl", "--jobs", "2")
    sizes: list[dict[str, int]] = []
    for milestone in (*(one for one in MILESTONES if one < count), count - BATCH):
        while judged_lines(folder / "memory.jsonl") < milestone and process.poll() is None:
            time.sleep(0.1)
        sizes.append(by_kind(process.pid))
        print(f"after {milestone}: {sizes[-1]}", flush=True)
    assert process.wait() == 0
    grown = {kind: max(one.get(kind, 0) for one in sizes) - size for kind, size in sizes[0].items()}
    print(f"grown by {grown} MiB")
    return max(grown.values()) <= GROWTH


def judged_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def by_kind(process: int) -> dict[str, int]:
    """Return the MiB of the largest process of each kind in a pool."""
    workers = [one for one in children(process) if b"spawn_main" in command(one)]
    helpers = [one for worker in workers for one in children(worker)]
    forking = [one for one in helpers if b"zygote" in command(one)]
    judging = [one for one in helpers if one not in forking]
    kinds = {"pool": [process], "workers": workers, "forking": forking, "judging": judging}
    return {kind: max(map(resident, each), default=0) >> 10 for kind, each in kinds.items()}


def own_cpu() -> float:
    times = os.times()
    return times.user + times.system


def memory() -> list[int]:
    """Return the MiB of this process and of each process that it has started."""
    return [resident(one) >> 10 for one in (os.getpid(), *children(os.getpid()))]


def resident(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def children(process: int) -> list[int]:
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


def offspring(process: int) -> Iterator[int]:
    """Yield all processes that a process and its descendants have started."""
    for child in children(process):
        yield child
        yield from offspring(child)


# --- pools ----------------------------------------------------------------------------------------


def pool(folder: Path, out: str, *options: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "neuroncore", "eval", "--spec", "spec.py", "--batch", "batch"]
    words += ["--jsonl", out, "--secret", "3", *options]
    return subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL)


def lines(file: Path) -> dict[str, Line]:
    """Return the verdicts in a file by candidate, without their costs."""
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    assert len({one["candidate"] for one in found}) == len(found), "a candidate occurs twice"
    return {one["candidate"]: {**one, "cost": None} for one in found}


def begun(folder: Path, out: str, *options: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start a pool, and wait until it has judged a candidate. Return its process, and the numbers
    of all processes that it has started."""
    process = pool(folder, out, *options)
    while not lines(folder / out):
        time.sleep(0.05)
    return process, [*offspring(process.pid)]


def is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def held_together(folder: Path) -> None:
    """Raise AssertionError if pools write different lines, lose candidates, or leave processes."""
    assert pool(folder, "one.jsonl").wait() == 0
    assert pool(folder, "two.jsonl", "--jobs", "2").wait() == 0
    one = lines(folder / "one.jsonl")
    assert len(one) == BATCH and lines(folder / "two.jsonl") == one, "other lines"
    print("one process and two give equal lines")

    process, each = begun(folder, "lost.jsonl", "--jobs", "2")
    workers = [child for child in each if b"spawn_main" in command(child)]
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait() == 0 and lines(folder / "lost.jsonl") == one, "candidates are lost"
    print("a killed worker loses no candidate")

    process, each = begun(folder, "killed.jsonl", "--jobs", "2")
    process.kill()
    process.wait()
    ends = time.monotonic() + 10
    while any(map(is_alive, each)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not any(map(is_alive, each)), "processes are left"
    known = lines(folder / "killed.jsonl")
    assert pool(folder, "killed.jsonl", "--resume").wait() == 0
    assert lines(folder / "killed.jsonl") == one and known, "resumed otherwise"
    print(f"a killed pool leaves no process; {len(known)} of {BATCH} are not judged again")


def command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=400)
    parser.add_argument("--memory", type=int, metavar="COUNT")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.py").write_text(SPEC)
        (folder / "batch").mkdir()
        for n in range(given.memory or BATCH):
            (folder / f"batch/{n}.py").write_text(f"{HONEST}# {n}\n")
        if given.memory:
            return int(not growth(folder, given.memory))
        held_together(folder)
    for level in ("process", "linux"):
        measured(level, given.count)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
