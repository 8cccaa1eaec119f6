"""neuroncore mcp: a server of the Model Context Protocol. Its tools are commands of neuroncore."""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from neuroncore.base.errors import UsageError
from neuroncore.base.lazy import version
from neuroncore.base.source import source_text
from neuroncore.cli.evaluate import add_isolation, limits
from neuroncore.cli.isolated import IsolatedCommands
from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.pool import JudgingSetting, judged_batch
from neuroncore.eval.refusals import Refused
from neuroncore.eval.worker import Candidate

T = TypeVar("T")
MISSING = "`neuroncore mcp` needs the MCP SDK: pip install 'neuroncore[mcp]'"
ANSWER = 4 << 20  # the largest number of bytes that a command may print
INSTRUCTIONS = (
    "neuroncore runs NKI kernels of AWS Trainium on a CPU with the accelerator's numerics, and "
    "estimates their time. Kernels are Python files in {folder}; each runs in an isolated process "
    "that can read this folder and write nothing. Read a kernel's errors with `explain CODE`."
)


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve tools for coding agents over the Model Context Protocol, on standard input and "
        "output: run, check, why, diff, eval, explain, isa and machines. Kernels run in isolated "
        "processes (docs/mcp.md)."
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the folder of the kernels; kernels can read all files in it (default: the current "
        "folder)",
    )
    parser.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="SPEC.py",
        help="a specification that clients may pass to the tool eval; it runs as trusted code, so "
        "name only files that you trust; repeatable",
    )
    add_isolation(parser)
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    """Serve until standard input is closed."""
    if not arguments.folder.is_dir():
        raise UsageError(f"{arguments.folder} is not a folder")
    with tempfile.TemporaryDirectory(prefix="neuroncore-") as sources:
        tools = Tools(arguments, sources)
        server = _server(tools)
        try:
            server.run()
        finally:
            tools.close()
    return 0


def _server(tools: Tools) -> Any:
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise UsageError(MISSING) from None
    server: Any = MCPServer(
        "neuroncore",
        version=version("neuroncore"),
        instructions=INSTRUCTIONS.format(folder=tools.folder),
        log_level="WARNING",
    )
    for tool in tools.all():
        server.add_tool(tool, structured_output=False)
    return server


def _wrong(message: str) -> NoReturn:
    """End a tool with an error message for the client."""
    from mcp.server.mcpserver.exceptions import ToolError

    raise ToolError(message)


class Tools:
    """The tools of the server. One thread executes all tools, one after another.

    This thread must stay alive, because a child process ends with the thread that started it. The
    server's own threads may end after each request."""

    def __init__(self, arguments: argparse.Namespace, sources: str) -> None:
        """`arguments` are the arguments of the command, and `sources` is a folder for files that
        clients send as text."""
        self.folder: Path = arguments.folder.resolve()
        self._sources = Path(sources).resolve()
        self._specs = [str(Path(spec).resolve()) for spec in arguments.spec]
        self._level = arguments.isolation
        self._limits: ProcessLimits = limits(arguments)._replace(answer=ANSWER)
        self._secret = secrets.randbits(63)  # the seed of hidden inputs, which no client learns
        self._thread = futures.ThreadPoolExecutor(1)
        self._commands: IsolatedCommands | None = None
        self._judge: futures.ProcessPoolExecutor | None = None

    def all(self) -> Sequence[Callable[..., str]]:
        """Return the tools of the server."""
        tools = (self.run, self.check, self.why, self.diff, self.eval)
        return (*tools, self.explain, self.isa, self.machines)

    def close(self) -> None:
        """End all processes of the tools."""
        self._in_thread(self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._commands is not None:
            self._commands.close()
        if self._judge is not None:
            self._judge.shutdown(cancel_futures=True)

    def _in_thread(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    # --- the tools; clients read their docstrings -------------------------------------------------

    def run(
        self,
        kernel: str,
        args: list[str] | None = None,
        target: str = "",
        options: list[str] | None = None,
        source: str = "",
    ) -> str:
        """Run an NKI kernel on the emulated NeuronCore; compare it with the file's function
        `reference`, if there is one; estimate its time.

        kernel: FILE.py::KERNEL, relative to the server's folder; FILE.py runs the file as a script.
        args: the kernel's arguments, such as "float32[128,512]" (random) or Python literals;
            without them, the file's function `inputs` returns them.
        target: a machine such as trn1, trn2 or trn3.
        options: more options of `neuroncore run`, such as "--ref", "NAME", "--precision", "--json".
        source: the text of FILE.py; without it, the file is read.
        """
        return self._command("run", [kernel], args, target, options, source)

    def check(
        self,
        kernel: str,
        args: list[str] | None = None,
        target: str = "",
        options: list[str] | None = None,
        source: str = "",
    ) -> str:
        """Find mistakes and slow operations in a kernel, from its source and from a run.

        Parameters are those of the tool run; options are those of `neuroncore check`, such as
        "--static" (execute nothing) or "--json".
        """
        return self._command("check", ["--here", kernel], args, target, options, source)

    def why(
        self,
        kernel: str,
        args: list[str] | None = None,
        target: str = "",
        options: list[str] | None = None,
        source: str = "",
    ) -> str:
        """Report what limits a kernel: its bottleneck, the lines on its critical path, and what
        would make it faster.

        Parameters are those of the tool run; options are those of `neuroncore why`, such as
        "--top", "3" or "--json".
        """
        return self._command("why", [kernel], args, target, options, source)

    def diff(
        self,
        old: str,
        new: str,
        args: list[str] | None = None,
        target: str = "",
        options: list[str] | None = None,
    ) -> str:
        """Compare two kernels on the same arguments: which is faster, how certain that is, and
        what differs.

        old, new: FILE.py::KERNEL, relative to the server's folder. The other parameters are those
        of the tool run.
        """
        return self._command("diff", [old, new], args, target, options)

    def eval(self, candidate: str, spec: str = "", source: str = "") -> str:
        """Judge a candidate that is not trusted against a specification, on hidden inputs. Returns
        a JSON object: status, error, latency_us, and figures for each shape.

        candidate: FILE.py, relative to the server's folder.
        spec: the file name of one of the server's specifications; not needed if there is only one.
        source: the text of FILE.py; without it, the file is read.
        """
        limits = self._limits._replace(answer=ProcessLimits().answer)
        setting = JudgingSetting(self._spec(spec), self._secret, self._level, limits, why=False)
        submission = Candidate(candidate, source or self._read(candidate))
        verdict = self._in_thread(lambda: self._judged(setting, submission))
        return json.dumps({**verdict, "repeat": None}, indent=1)

    def explain(self, code: str = "") -> str:
        """Explain an error or a finding by its code, with an example; without a code, list all."""
        return self._command("explain", [code] if code else [])

    def isa(self, instruction: str = "") -> str:
        """Describe an instruction: parameters, limits and cost; without a name, list all."""
        return self._command("isa", [instruction] if instruction else [])

    def machines(self, name: str = "") -> str:
        """Describe a machine or an instance type; without a name, list all."""
        return self._command("machines", [name] if name else [])

    # --- how the tools work ----------------------------------------------------------------------

    def _command(
        self,
        name: str,
        files: Sequence[str],
        args: Sequence[str] | None = None,
        target: str = "",
        options: Sequence[str] | None = None,
        source: str = "",
    ) -> str:
        more = [*(options or ()), *(["--target", target] if target else [])]
        more += ["--args", *args] if args else []
        if not source:
            return self._printed([name, *files, *more])
        *before, kernel = files
        with tempfile.TemporaryDirectory(dir=self._sources) as folder:
            file, colons, function = kernel.partition("::")
            path = Path(folder, Path(file).name)
            path.write_text(source, "utf-8")
            return self._printed([name, *before, f"{path}{colons}{function}", *more])

    def _printed(self, words: Sequence[str]) -> str:
        try:
            text, code, held = self._in_thread(lambda: self._isolated().printed(words))
        except Refused as refusal:
            _wrong(f"{refusal.code}: {refusal.message}")
        if code > 1:
            _wrong(text)
        granted = ", ".join(f"{name} {value}" for name, value in held._asdict().items())
        return f"{text}isolation  {self._level} ({granted})"

    def _isolated(self) -> IsolatedCommands:
        if self._commands is None:
            folder = str(self.folder)
            self._commands = IsolatedCommands(
                folder, self._level, self._limits, [str(self._sources)]
            )
        return self._commands

    def _read(self, candidate: str) -> str:
        path = (self.folder / candidate).resolve()
        if not path.is_relative_to(self.folder):
            _wrong(f"{candidate} is not in {self.folder}")
        try:
            return source_text(path)
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            _wrong(f"{candidate} can't be read: {error}")

    def _spec(self, name: str) -> str:
        matching = [path for path in self._specs if not name or Path(path).name == Path(name).name]
        if len(matching) != 1:
            names = ", ".join(Path(path).name for path in self._specs)
            name_one = f"name one of the server's specifications: {names}"
            _wrong(name_one if names else "the server has no specification: start it with --spec")
        return matching[0]

    def _judged(self, setting: JudgingSetting, candidate: Candidate) -> dict[str, Any]:
        """Judge a candidate in a process that is kept for later candidates and restarted after a
        fault."""
        for _ in range(2):
            if self._judge is None:
                self._judge = futures.ProcessPoolExecutor(1, get_context("spawn"))
            try:
                return self._judge.submit(judged_batch, setting, (candidate,)).result()[0]
            except BrokenProcessPool:
                self._judge = None
            except UsageError as error:
                _wrong(str(error))
        _wrong("the process that judges candidates was killed")
