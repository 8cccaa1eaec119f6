"""The command line: programs of seeds in a row, counted, and their failures shrunk."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from bench.programs.checks import Failure, check
from bench.programs.generator import generate
from bench.programs.shrinking import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.programs")
    parser.add_argument("--seed", type=int, default=time.time_ns() % (1 << 31))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--print", action="store_true", help="print the programs")
    asked = parser.parse_args()
    begun, kinds, instructions, failures, done = time.process_time(), Counter(), Counter(), 0, 0
    for seed in range(asked.seed, asked.seed + asked.count):
        if time.process_time() - begun > asked.seconds:
            break
        program = generate(seed)
        if asked.print:
            print(program.source())
        done += 1
        kinds.update(program.kinds)
        try:
            run = check(program)
        except Failure as failure:
            failures += 1
            small = shrink(program, failure.kind)
            print(f"seed {seed} {failure}\n{small.source()}", flush=True)
            continue
        for one in run.record.programs:
            instructions.update({call.instruction.name for call in one.calls})
    spent = time.process_time() - begun
    said = f"{done} programs, {failures} failures, {spent:.1f} CPU s"
    print(f"seeds {asked.seed} to {asked.seed + done - 1}: {said}")
    for name, count in [*kinds.most_common(), *instructions.most_common()]:
        print(f"  {count / done:6.1%} {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
