"""Judge cheats and accidents. Each must be refused with the right code, or get the latency of the
honest candidate.

    python bench/judging/cheats.py [-k SUBSTR] [--isolation process]

The cheats are in the tests and in `corpus.py`, `attacks.py` and `intrusions.py`. The script prints
the cheats that are judged wrong. After the cheats of each problem, an honest candidate must get the
same verdict as before them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from attacks import ATTACKS
from candidates import CHEATS
from corpus import CORPUS
from intrusions import INTRUSIONS
from specs import PROBLEMS

from neuroncore.eval.isolation import ProcessLimits, supported
from neuroncore.eval.worker import Candidate, Worker

LIMITS = ProcessLimits(cpu_seconds=2, seconds=8.0, memory=2 << 30, processes=40)


def all_cheats() -> Iterator[tuple[str, str, str, str]]:
    """Yield (problem, name, right codes, source) of each cheat."""
    for name, (codes, source) in CHEATS.items():
        yield "tests", name, codes, source
    for table in (CORPUS, ATTACKS, INTRUSIONS):
        for name, (problem, codes, source) in table.items():
            yield problem, name, codes, source


def judged(worker: Worker, honest: dict[str, Any], name: str, codes: str, source: str) -> str:
    """Judge a cheat. Return a complaint if the verdict is wrong, otherwise ""."""
    verdict = worker.verdict(Candidate(name, source))
    if verdict["passed"]:
        same = verdict["latency_us"] == honest["latency_us"]
        return "" if same and "passed" in codes.split() else f"passed {verdict['latency_us']} us"
    error = verdict["error"]
    return "" if error["code"] in codes.split() else f"{error['code']} {error['message']:.150}"


def problem(name: str, cheats: list[tuple[str, str, str, str]], level: Any) -> int:
    """Judge the cheats of a problem, and return how many are judged wrong."""
    spec, source = PROBLEMS[name].spec(), PROBLEMS[name].honest
    worker, wrong = Worker(spec, level, LIMITS), 0
    try:
        honest = worker.verdict(Candidate("honest", source))
        assert honest["passed"], honest["error"]
        for _, cheat, codes, attack in cheats:
            if said := judged(worker, honest, cheat, codes, attack):
                wrong += 1
                print(f"{name}: {cheat}: {said}; right: {codes}", flush=True)
        again = worker.verdict(Candidate("honest", source))
        assert again["shapes"] == honest["shapes"], again
    finally:
        worker.close()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", metavar="SUBSTR")
    parser.add_argument("--isolation", default=supported())
    given = parser.parse_args()
    chosen = [one for one in all_cheats() if given.k in one[1]]
    names = dict.fromkeys(one[0] for one in chosen)
    wrong = sum(
        problem(name, [one for one in chosen if one[0] == name], given.isolation) for name in names
    )
    print(f"{len(chosen)} cheats, {wrong} judged wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
