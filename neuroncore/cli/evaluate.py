"""neuroncore eval: judge untrusted kernels against a specification."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from neuroncore.base.errors import UsageError, writing
from neuroncore.base.progress import progress
from neuroncore.base.units import duration, plural
from neuroncore.cli.usage import SECONDS, add_output, excludes, gib, needs
from neuroncore.eval import blindness, isolation, trace
from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Dask, Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

LEVELS = ("process", "linux")


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Judge candidates: Python files of kernels that are not trusted. Each runs in an isolated "
        "process on public inputs. The instructions that it issues are recorded, and replayed on "
        "hidden inputs. The results are compared with those of the specification's reference, and "
        "the time is estimated. Prints one JSON object per candidate (docs/eval.md). "
        "Exit codes: 0 all candidates passed, 1 not all, 2 wrong usage."
    )
    add_spec(parser)
    parser.add_argument(
        "--candidate", nargs="+", default=[], metavar="FILE.py", help="candidates to judge"
    )
    parser.add_argument("--batch", type=Path, metavar="DIR", help="judge all DIR/*.py")
    add_pool(parser)
    add_output(parser, "--jsonl", metavar="OUT", help="write the verdicts to this file")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="skip candidates whose verdicts are already in the file of --jsonl",
    )
    parser.add_argument(
        "--rank", action="store_true", help="print the fastest candidates at the end"
    )
    parser.add_argument(
        "--why",
        action="store_true",
        help="add to each verdict the bottleneck and the three changes that would save the most "
        "time (docs/eval.md)",
    )
    add_output(
        parser,
        "--trace",
        metavar="OUT",
        help="also write traces in the format of flashinfer-bench",
    )
    parser.add_argument(
        "--trace-hacks",
        action="store_true",
        help="in traces, candidates that cheat get the status REWARD_HACK of SOL-ExecBench, which "
        "flashinfer-bench does not have",
    )
    parser.add_argument(
        "--examine",
        action="store_true",
        help="examine only the first candidate, and report the instructions on which its verdict "
        "does not depend: it still passes if such an instruction writes zeros",
    )
    needs(parser, resume="jsonl", trace_hacks="trace")
    excludes(parser, "examine", "jsonl", "rank", "why", "trace")
    parser.set_defaults(command=command)


def add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spec",
        required=True,
        metavar="SPEC.py",
        help="a file that defines SPEC, or a problem of a benchmark, such as nkibench:silu@FOLDER",
    )
    parser.add_argument(
        "--secret",
        type=int,
        metavar="N",
        help="the number that determines the hidden seeds; give the secret of a verdict to repeat "
        "that verdict (default: a random number)",
    )


def spec(arguments: argparse.Namespace) -> Spec:
    """Return the specification that the options name. Raises the errors of `load_spec`."""
    return with_secret(load_spec(arguments.spec), arguments)


def with_secret(judged: Spec, arguments: argparse.Namespace) -> Spec:
    """Return the specification. The number of --secret, if passed, becomes its secret."""
    return judged if arguments.secret is None else replace(judged, secret=arguments.secret)


def add_pool(parser: argparse.ArgumentParser) -> None:
    """Add the options of `eval.pool.Pool`: its workers, its cache and the isolation of
    candidates."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="number of candidates that are judged at the same time, each in a separate process "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="judge on the workers of the Dask scheduler at ADDRESS"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="keep verdicts in this folder, and use them again for equal candidates",
    )
    add_isolation(parser)


def add_isolation(parser: argparse.ArgumentParser) -> None:
    """Add the options of the isolated process in which a candidate runs."""
    defaults = ProcessLimits()
    parser.add_argument(
        "--isolation",
        choices=LEVELS,
        default=isolation.supported(),
        help="how kernels are isolated. process: limits on time and memory only; linux: also no "
        "network, no writing, and no access to other processes and to files outside of the "
        "folders of Python and of the system (default on this system: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=defaults.cpu_seconds,
        help="limit on the CPU time of each kernel, in seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        type=gib,
        default=defaults.memory / 2**30,
        metavar="GIB",
        help="limit on the address space of each kernel, in GiB (default: %(default)g)",
    )


def pool(arguments: argparse.Namespace) -> Pool:
    """Return the Pool that the options describe. Raises UsageError for values that are out of
    range."""
    if arguments.jobs < 1:
        raise UsageError("--jobs must be positive")
    executor = Dask(arguments.dask) if arguments.dask else None
    return Pool(
        jobs=arguments.jobs,
        level=arguments.isolation,
        limits=limits(arguments),
        cache=arguments.cache,
        executor=executor,
        why=getattr(arguments, "why", False),
    )


def limits(arguments: argparse.Namespace) -> ProcessLimits:
    """Return the limits of a process. Raises UsageError for values that are out of range."""
    if not 1 <= arguments.seconds < SECONDS:
        raise UsageError("--seconds must be from 1 to 10^9")
    return ProcessLimits(
        cpu_seconds=arguments.seconds,
        seconds=3.0 * arguments.seconds,
        memory=int(arguments.memory * 2**30),
    )


def command(arguments: argparse.Namespace) -> int:
    wanted = spec(arguments)
    files = [*map(Path, arguments.candidate), *_in(arguments.batch)]
    if not files:
        raise UsageError("no candidates: give --candidate or --batch")
    if arguments.examine:
        return _examine(wanted, files[0], pool(arguments))
    return _judge(wanted, files, arguments)


def _in(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    return sorted(file for file in folder.glob("*.py") if file.is_file())


def _judge(wanted: Spec, files: Iterable[Path], arguments: argparse.Namespace) -> int:
    begun = time.perf_counter()
    old = _done(arguments.jsonl) if arguments.resume else {}
    candidates = [*map(Candidate.of_file, files)]
    keys = {candidate: candidate.key(wanted) for candidate in candidates}
    pending = [candidate for candidate in candidates if keys[candidate] not in old]
    known = [old[keys[candidate]] for candidate in candidates if keys[candidate] in old]
    verdicts: list[dict[str, Any]] = []
    secret = ""
    shown_progress = progress(lambda: f"{len(verdicts)} of {plural(len(candidates), 'candidate')}")
    with _files(arguments) as (output, traces), shown_progress:
        for verdict in itertools.chain(known, evaluate(wanted, pending, pool(arguments))):
            if len(verdicts) >= len(known):
                _write(output, verdict)
                secret = _secret(verdict)
            if traces is not None:
                _write(traces, trace.trace(verdict, wanted, hacks=arguments.trace_hacks))
            verdicts.append(brief(verdict))
    took = duration((time.perf_counter() - begun) * 1e9)
    return _end(verdicts, f"{took}{secret}", ranked=arguments.rank)


def brief(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a verdict that are needed for counting and ranking.

    The whole verdicts of thousands of candidates would take too much memory."""
    names = ("candidate", "passed", "latency_us")
    times = ("latency_us", "busy_ns")
    shapes = [{name: shape[name] for name in times} for shape in verdict["shapes"]]
    error = verdict["error"] and {"code": verdict["error"]["code"]}
    return {**{name: verdict[name] for name in names}, "error": error, "shapes": shapes[:1]}


def _write(file: TextIO, content: dict[str, Any]) -> None:
    file.write(json.dumps(content) + "\n")
    file.flush()


def _end(verdicts: Sequence[dict[str, Any]], remark: str, *, ranked: bool) -> int:
    """Print the number of candidates that passed, a remark, and the errors of the other candidates.

    With `ranked`, also print a ranking. Return the exit code: 1 if a candidate failed, else 0."""
    passed = sum(verdict["passed"] for verdict in verdicts)
    counted = plural(len(verdicts), "candidate")
    print(f"neuroncore: {counted}, {passed} passed, {remark}", file=sys.stderr)
    if passed < len(verdicts):
        print(f"neuroncore: errors of the other candidates: {_codes(verdicts)}", file=sys.stderr)
    if ranked:
        print("\n".join(ranking(verdicts)), file=sys.stderr)
    return int(passed < len(verdicts))


def _codes(verdicts: Iterable[dict[str, Any]]) -> str:
    """Return the codes of errors with their counts, the most frequent first."""
    counts = Counter(verdict["error"]["code"] for verdict in verdicts if not verdict["passed"])
    return ", ".join(f"{count} {code}" for code, count in counts.most_common())


def _secret(verdict: dict[str, Any]) -> str:
    return f"; --secret {verdict['repeat']['secret']} gives the same hidden inputs again"


def _done(file: Path) -> dict[str, dict[str, Any]]:
    """Return the verdicts in a file, by key. If the last line is incomplete, remove it from the
    file."""
    verdicts = {}
    content = file.read_bytes() if file.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        file.write_bytes(whole)
    for line in whole.decode("utf-8").splitlines():
        try:
            verdict = json.loads(line)
            verdicts[verdict["key"]] = verdict
        except (ValueError, LookupError, TypeError):
            continue
    return verdicts


@contextmanager
def _files(arguments: argparse.Namespace) -> Iterator[tuple[TextIO, TextIO | None]]:
    """Open the files for verdicts and for traces."""
    with ExitStack() as stack:
        output, traces = sys.stdout, None
        if arguments.jsonl is not None:
            output = stack.enter_context(_opened(arguments.jsonl, arguments.resume))
        if arguments.trace is not None:
            traces = stack.enter_context(_opened(arguments.trace))
        yield output, traces


def _opened(path: Path, append: bool = False) -> TextIO:
    with writing(path):
        return path.open("a" if append else "w", encoding="utf-8")


def ranking(verdicts: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table: place, latency, candidate, and probability.

    The probability says how likely it is that the order is right."""
    for place in rank(verdicts):
        probability = place["faster"]
        figures = f"{place['place']:4}  {place['latency_us']:10.2f} us  {place['candidate']}"
        comparison = f"   faster than the next with probability {probability or 0:.0%}"
        yield figures if probability is None else figures + comparison


def _examine(wanted: Spec, file: Path, settings: Pool) -> int:
    report = blindness.examined(wanted, Candidate.of_file(file), settings)
    for line in report.lines():
        print(line)
    return int(bool(report.unseen or report.idle_inputs or report.weak_results))
