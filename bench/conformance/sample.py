"""Run a sample of published kernels of all kinds, each at a small size.

    python bench/conformance/sample.py [--refs FOLDER] [--verify] [--part PART ...] [-k SUBSTR]
        [--jobs 2] [--to FOLDER]
    python bench/conformance/sample.py --last

FOLDER (--refs, or NC_REFS in the environment) has clones of the repositories that PARTS names, each
named OWNER+NAME. A part without its clones is skipped. The cases of a part run in the same way as
by the part's own runner in this folder. With --verify, each launch is also compared with the plain
reading of its record (docs/verify.md), and fails if they differ. Run the sample before you push a
change of a refusal, because kernels that have run on devices must not be refused.

The script prints a table with a row for each part, with seconds of CPU. The folder of `--to` gets
results.jsonl, with a line of JSON for each case, and verified.PART.jsonl, with a line for each
launch that was compared. The results of parts that ran completely are written to sample.json, which
`--last` prints.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import everyone
import nki_library
import nkibench
import scripts
import sdk_examples
import sdk_guides
from outcome import WELL, Outcome, together

HERE = Path(__file__).resolve().parent
LAST = HERE / "sample.json"
MINUTES = {False: 12, True: 60}  # allowed minutes of CPU, without and with --verify
SAMPLES = "aws-neuron/nki-samples"
OLDER_SAMPLES = "7af4e4dd"  # the commit before the tutorials of the older API were removed
# all of its test modules can be imported
LIBRARY, RELEASE = "aws-neuron/nki-library", "origin/2.29_release"
STRANGERS = 40  # the number of kernels from other repositories
# Tests of the library whose failure is not a fault of neuroncore, with the message and the reason
# (docs/conformance/nki_library.md).
LARGE = ("MemoryError: ", "its inputs don't fit in the memory that a case gets")
NOT_OURS = {
    "test_llama4_maverick_fast": LARGE,
    "test_qwen3_8b_fast": LARGE,
    "test_attn_blk_model": ("RuntimeError: ", "the suite's reference fails: tensor sizes differ"),
}


class Clones:
    """The clones in a folder, and a scratch folder for copies of their files."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch = folder, scratch

    def home(self, repository: str) -> Path:
        return self.folder / repository.replace("/", "+")

    def at(self, repository: str, commit: str, name: str) -> Path:
        """Return a folder with the files of a clone at a commit or branch. The folder is removed
        after the run."""
        place = self.scratch / name
        if not place.is_dir():
            place.mkdir()
            command = ["git", "-C", str(self.home(repository)), "archive", commit]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as packing:
                subprocess.run(["tar", "-x", "-C", place], stdin=packing.stdout, check=True)
        return place

    def has(self, repository: str, commit: str) -> bool:
        """Return whether a clone has a commit. A shallow clone lacks older commits."""
        command = ["git", "-C", str(self.home(repository)), "cat-file", "-e", commit]
        return subprocess.run(command, capture_output=True).returncode == 0

    def link(self, repository: str, name: str) -> None:
        if not (place := self.scratch / name).exists():
            place.symlink_to(self.home(repository).resolve())


Run = Callable[[Clones, argparse.Namespace], Iterator[Outcome]]


@dataclass(frozen=True)
class Part:
    """A part of the sample. It is skipped if one of the repositories `needs` is not cloned."""

    name: str
    needs: tuple[str, ...]
    run: Run


def of_scripts(prefix: str) -> Run:
    """Return a function that runs the scripts of scripts.py whose names begin with `prefix`."""

    def ran(clones: Clones, given: argparse.Namespace) -> Iterator[Outcome]:
        clones.link(SAMPLES, "nki-samples")
        if prefix == "samples" and clones.has(SAMPLES, OLDER_SAMPLES):
            clones.at(SAMPLES, OLDER_SAMPLES, "nki-samples-legacy")
        for name in ("asst4-trainium", "asst4-trainium2"):
            clones.link(f"stanford-cs149/{name}", name)
        listed = scripts.tasks(clones.scratch, given.k, given.timeout, given.memory)
        return together([task for task in listed if task.name.startswith(prefix)], given.jobs)

    return ran


def of_nkibench(clones: Clones, given: argparse.Namespace) -> Iterator[Outcome]:
    given.checkout = clones.home("zhang677/AccelOpt")
    given.target, given.seeds, given.small, given.replay = ["trn2"], [0], True, False
    given.workers = given.jobs
    return nkibench.outcomes(given)


def of_guides(clones: Clones, given: argparse.Namespace) -> Iterator[Outcome]:
    given.checkout, given.target = clones.home("aws-neuron/aws-neuron-sdk"), ""
    given.nkilib = clones.home(LIBRARY)
    tasks = [*sdk_examples.tasks(given), *sdk_guides.tasks(given)]
    return together(tasks, given.jobs)


def of_library(clones: Clones, given: argparse.Namespace) -> Iterator[Outcome]:
    """Run one test of each test function of nki-library: the one with the smallest numbers in its
    name."""
    given.checkout, given.python = clones.at(LIBRARY, RELEASE, "nki-library"), sys.executable
    given.platform, given.within, given.uninitialized = "trn2", "", "report"
    given.only = given.log = given.resume = None
    given.all, given.replay, given.smallest = False, False, True
    given.workers = given.jobs
    if names := nki_library.lacking(given):
        yield Outcome("(the suite)", "skipped", f"{given.python} lacks {', '.join(names)}")
        return
    yield from map(explained, nki_library.outcomes(given, clones.scratch))


def explained(outcome: Outcome) -> Outcome:
    """Return the outcome of a test of nki-library, with the verdict `theirs` if the test fails in a
    known way."""
    function = outcome.name.partition("[")[0].rpartition("::")[2]
    cause, reason = NOT_OURS.get(function, ("", ""))
    if cause and outcome.verdict == "failed" and outcome.cause.startswith(cause):
        return replace(outcome, verdict="theirs", cause=reason)
    return outcome


def of_strangers(clones: Clones, given: argparse.Namespace) -> Iterator[Outcome]:
    """Run the first variant of each driver, for the first STRANGERS drivers."""
    given.checkouts = clones.folder
    runs = everyone.Runs(given)
    return together(islice(runs.first_of_each(), STRANGERS), given.jobs)


PARTS = (
    Part("nki-library", (LIBRARY,), of_library),
    Part("strangers", (), of_strangers),
    Part("samples", (SAMPLES,), of_scripts("samples")),
    Part(
        "cs149",
        ("stanford-cs149/asst4-trainium", "stanford-cs149/asst4-trainium2"),
        of_scripts("cs149"),
    ),
    Part("nkibench", ("zhang677/AccelOpt",), of_nkibench),
    Part("guides", ("aws-neuron/aws-neuron-sdk", LIBRARY), of_guides),
)


# ---- what came of a part -------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """The results of a part: its cases by verdict, and seconds of CPU. The other figures are about
    launches that were compared with the plain reading: their number, their instructions, how many
    instructions were equal bit by bit (`compared`) and how many approximately (`taken_over`), and
    the number of launches that differ. `not_verified` launches could not be compared. `not_passed`
    has the verdict and the cause of each case that did not pass."""

    part: str
    run: int
    passed: int
    failed: int
    refused: int
    seconds: float
    launches: int = 0
    instructions: int = 0
    compared: int = 0
    taken_over: int = 0
    differ: int = 0
    not_verified: int = 0
    not_passed: dict[str, str] = field(default_factory=dict)


def row(part: str, outcomes: list[Outcome], seconds: float, launches: list[dict[str, Any]]) -> Row:
    counts = Counter(o.verdict for o in outcomes)
    run = len(outcomes) - counts["skipped"] - counts["theirs"]
    held = [launch for launch in launches if "not_verified" not in launch]
    return Row(
        part,
        run,
        counts["passed"],
        run - counts["passed"] - counts["refused"],
        counts["refused"],
        round(seconds, 1),
        len(held),
        *(sum(one[name] for one in held) for name in ("instructions", "compared", "taken_over")),
        sum(one["difference"] is not None for one in held),
        len(launches) - len(held),
        {o.name.partition("[")[0]: f"{o.verdict}: {o.cause}" for o in outcomes if not passed(o)},
    )


def passed(outcome: Outcome) -> bool:
    return outcome.verdict == "passed"


def held_in(file: Path) -> list[dict[str, Any]]:
    """Return the launches in a file that were compared with the plain reading."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def seconds_of_cpu() -> float:
    """Return the seconds of CPU of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ran(part: Part, clones: Clones, given: argparse.Namespace) -> Row:
    """Run a part. Print each outcome, and write it to a file. Return the row of the part."""
    verified = given.to / f"verified.{part.name}.jsonl"
    verified.unlink(missing_ok=True)
    os.environ["NEURONCORE_VERIFY"] = str(verified) if given.verify else "0"
    begun, kept = seconds_of_cpu(), []
    with (given.to / "results.jsonl").open("a") as results:
        for outcome in part.run(clones, given):
            kept.append(outcome)
            results.write(json.dumps({"part": part.name, **asdict(outcome)}) + "\n")
            results.flush()
            said = f"{outcome.verdict:9} {outcome.seconds:7.1f} s  {part.name}: {outcome.name}"
            print(said + (f"  {outcome.cause}" if outcome.cause else ""), flush=True)
            if outcome.verdict not in WELL:
                print("".join(f"{'':22}{line}\n" for line in outcome.details), end="", flush=True)
    return row(part.name, kept, seconds_of_cpu() - begun, held_in(verified))


def table(rows: list[Row], verify: bool) -> list[str]:
    """Return the lines of a table of the rows, with their sums at the end."""
    figures = [name for name in Row.__annotations__ if name != "not_passed"]
    names = figures if verify else ["part", "run", "passed", "failed", "refused"]
    names += [] if verify else ["seconds"]
    sums = {n: sum(getattr(one, n) for one in rows) for n in names[1:]} | {"part": "all"}
    lines = [names, *([f"{getattr(one, n)}" for n in names] for one in rows)]
    lines.append([f"{round(sums[n], 1) if n == 'seconds' else sums[n]}" for n in names])
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    return [
        "  ".join(
            f"{text:{width}}" if at == 0 else f"{text:>{width}}"
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]


# ---- when it last ran ----------------------------------------------------------------------------


def noted(rows: list[Row], verify: bool, file: Path = LAST) -> None:
    """Write the rows of parts that ran completely to a file, with the commit and the date."""
    kept = json.loads(file.read_text()) if file.is_file() else {}
    asked = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    date = datetime.now(UTC).date().isoformat()
    for one in filter(lambda one: one.run, rows):
        figures = {"commit": commit, "date": date, **asdict(one)}
        del figures["part"]
        kept.setdefault("verified" if verify else "plain", {})[one.part] = figures
    file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def last(file: Path = LAST) -> Iterator[str]:
    """Yield the date of the last run, and how many cases passed: one line for runs without
    --verify, and one for runs with it."""
    kept = json.loads(file.read_text()) if file.is_file() else {}
    for kind, how in (("plain", ""), ("verified", ", compared with the plain reading")):
        parts = kept.get(kind, {})
        if not parts:
            yield f"sample of published kernels{how}: has not run"
            continue
        when = sorted({(one["date"], one["commit"]) for one in parts.values()})
        dates = " to ".join(
            dict.fromkeys(f"{commit} ({date})" for date, commit in (when[0], when[-1]))
        )
        passed, run = (sum(one[n] for one in parts.values()) for n in ("passed", "run"))
        missing = [part.name for part in PARTS if part.name not in parts]
        lacks = f"; not run: {', '.join(missing)}" if missing else ""
        yield f"sample of published kernels{how}: last ran at {dates}, {passed} of {run}{lacks}"


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    refs = os.environ.get("NC_REFS")
    parser.add_argument("--refs", type=Path, default=Path(refs) if refs else None, metavar="FOLDER")
    parser.add_argument(
        "--verify", action="store_true", help="compare launches with the plain reading"
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--part", nargs="+", choices=names, default=names)
    parser.add_argument(
        "-k", default="", metavar="SUBSTR", help="only cases whose names contain SUBSTR"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="number of cases that run at the same time",
    )
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="keep the results in this folder")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="per case")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GIB", help="per case")
    parser.add_argument("--last", action="store_true", help="only print when the sample last ran")
    return parser


def main() -> int:
    parser = options()
    given = parser.parse_args()
    if given.last:
        print("\n".join(last()))
        return 0
    if given.refs is None or not given.refs.is_dir():
        parser.error("name the folder with the clones, by --refs or by NC_REFS in the environment")
    given.timeout = given.timeout or (1800.0 if given.verify else 300.0)
    with tempfile.TemporaryDirectory() as scratch:
        given.to = given.to or Path(scratch, "results")
        given.to.mkdir(parents=True, exist_ok=True)
        return sampled(given, Path(scratch))


def sampled(given: argparse.Namespace, scratch: Path) -> int:
    """Run the requested parts, and return the exit code."""
    rows = []
    for part in PARTS:
        if part.name not in given.part:
            continue
        folder = scratch / part.name
        folder.mkdir()
        clones = Clones(given.refs, folder)
        if missing := [needed for needed in part.needs if not clones.home(needed).is_dir()]:
            print(f"skipped  {part.name}: {', '.join(missing)} not in {given.refs}")
            continue
        rows.append(ran(part, clones, given))
    print("\n".join(["", *table(rows, given.verify)]))
    minutes = sum(one.seconds for one in rows) / 60
    if minutes > MINUTES[given.verify]:
        print(f"{minutes:.0f} minutes of CPU; {MINUTES[given.verify]} are allowed")
    if not given.k:
        noted(rows, given.verify)
    return int(not rows or any(one.passed < one.run or one.differ for one in rows))


if __name__ == "__main__":
    raise SystemExit(main())
