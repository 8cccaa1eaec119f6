"""Finds places in the user's kernel: file, line, columns and call stack.

`Sites` is a table with a value for each place."""

from __future__ import annotations

import io
import linecache
import os.path
import sys
import tokenize
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
ROOM = 1 << 16  # the most places in a table; a program may create any number of kernels


class Sites(dict[int, T]):
    """A table with a value for each place.

    A place is a code object and the byte offset of an instruction. The key is one number, `id(code)
    + instruction`, because hashing a pair takes twice as long. No two places have the same key:
    since Python 3.11 a code object contains its bytecode, so the key is an address inside the
    object, which the table keeps alive. When the table has `room` places, it is emptied."""

    def __init__(self, room: int = ROOM) -> None:
        super().__init__()
        self.room = room
        self._kept: dict[int, CodeType] = {}

    def keep(self, code: CodeType, instruction: int, value: T) -> T:
        """Store the value of a place, and return the value."""
        if len(self) >= self.room:
            self.clear()
            self._kept.clear()
        self._kept[id(code)] = code
        self[id(code) + instruction] = value
        return value

    def at(self, code: CodeType, instruction: int) -> T | None:
        """Return the value of a place, or None if it has none."""
        return self.get(id(code) + instruction)


@dataclass(frozen=True)
class Place:
    """A span of source text. Columns count characters from 0, and `end_column` is exclusive.
    `function` is the name of the function that contains the span."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).rstrip("\n")

    def __str__(self) -> str:
        return self._spelt(self.file)

    @property
    def short(self) -> str:
        """The place as text, without the folder of the file."""
        return self._spelt(os.path.basename(self.file))

    def _spelt(self, file: str) -> str:
        cell = cell_name(self.file) if cell_name is not None else None
        return f"{file}:{self.line}" if cell is None else f"{cell}, line {self.line}"


# In a notebook, a function that returns the name of the cell for the file name of a cell, and None
# for a real file.
cell_name: Callable[[str], str | None] | None = None


# Code objects by id. The objects are kept, so that no other object can get the same id: torch, for
# example, creates and deletes code objects.
_our_code: dict[int, CodeType] = {}
_users_code: dict[int, CodeType] = {}  # also by id
# The modules whose frames are not the user's. numpy may call the emulator for a kernel, and
# torch.compiler.disable calls kernels from its own code.
OURS = ("neuroncore.", "numpy.", "torch._dynamo.")
MACHINERY = (
    *("runpy", "threading", "importlib._bootstrap", "importlib._bootstrap_external"),
    *("IPython.core.interactiveshell", "_pytest.python"),
)


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs neuroncore, or code that may be called between neuroncore and the
    user's code. The chapters in `neuroncore.kernels` count as the user's code."""
    if id(frame.f_code) in _our_code:
        return True
    name: str = frame.f_globals.get("__name__", "")
    ours = name.startswith(OURS) and not name.startswith("neuroncore.kernels")
    if ours and id(frame.f_code) not in _entry_points:
        _keep_code(_our_code, frame.f_code)
    return ours


def is_users(frame: FrameType) -> bool:
    """Return whether a frame runs the user's code: neither neuroncore, nor libraries that start
    programs, threads or tests, or import modules."""
    return not is_ours(frame) and frame.f_globals.get("__name__", "") not in MACHINERY


# the ids of code objects of functions whose callers are not the user's kernel
_entry_points: set[int] = set()


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as an entry point of neuroncore: its callers are not the user's kernel."""
    _entry_points.add(id(function.__code__))
    return function


def user_frame() -> FrameType | None:
    """Return the innermost frame that runs the user's code, or None."""
    return user_above(sys._getframe(1))


def user_above(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that runs the user's code, from this frame outward. Return None if
    there is no such frame, or if a function that `entry_point` has marked comes first."""
    ours, users = _our_code, _users_code
    while frame is not None:
        code = frame.f_code
        if id(code) not in ours:  # most frames are in `ours`; this test is faster than `is_ours`
            if users.get(id(code)) is code:
                return frame
            if id(code) in _entry_points:
                return None
            if not is_ours(frame):
                _keep_code(users, code)
                return frame
        frame = frame.f_back
    return None


def user_level() -> int:
    """Return the `stacklevel` with which `warnings.warn` attributes a warning to the user's
    code."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_ours(frame):
        frame, level = frame.f_back, level + 1
    return level


# While a delayed call is issued, this is the frame of the call, and the byte offset of the
# instruction that made it. Places then use this instruction, not the frame's current instruction.
resumed: ContextVar[tuple[FrameType, int] | None] = ContextVar("resumed", default=None)


def instruction_of(frame: FrameType) -> int:
    """Return the byte offset of the bytecode instruction that a frame is executing."""
    resumed_at = resumed.get()
    return resumed_at[1] if resumed_at is not None and resumed_at[0] is frame else frame.f_lasti


def site(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """Return the arguments of `place` for a frame: its code and the byte offset of its current
    instruction. Return None if there is no frame."""
    return None if frame is None else (frame.f_code, instruction_of(frame))


def place_of(site: Site) -> Place:
    """Return the place of a site."""
    return site if isinstance(site, Place) else place(*site)


def key_of(site: Site) -> Hashable:
    """Return a key of a site for a dict. As long as the dict contains the key, the caller must keep
    the site. The key uses the id of the code object, because equal code of two functions has the
    same hash."""
    return site if isinstance(site, Place) else (id(site[0]), site[1])


def span(code: CodeType, instruction: int) -> tuple[int | None, ...]:
    """Return the first line, last line, first column and end column of an instruction. Columns
    count bytes."""
    known = _spans.get(id(code))
    if known is None:
        if len(_spans) >= FEW_CODES:
            _spans.clear()
        known = _spans[id(code)] = code, [*code.co_positions()]
    spans = known[1]
    return spans[instruction // 2] if instruction // 2 < len(spans) else (None, None, None, None)


FEW_CODES = 64  # the most entries of `_spans`, which are large: a tuple for each instruction
# the spans of code objects, by the id of the object, which is kept
_spans: dict[int, tuple[CodeType, list[tuple[int | None, ...]]]] = {}
CODES = 4096  # the most code objects that are kept; a program may create any number of kernels
# code objects are not compared by value, because equal objects may come from different files
_places: Sites[Place] = Sites(CODES)

# A site is a place in the user's code: a code object and the offset of an instruction in its
# bytecode. A record that was read from a file has only the place.
Site = tuple[CodeType, int] | Place


def _keep_code(kept: dict[int, CodeType], code: CodeType) -> None:
    """Store a code object under its id, so that no other object can have this id."""
    if len(kept) >= CODES:
        kept.clear()
    kept[id(code)] = code


def place(code: CodeType, instruction: int) -> Place:
    """Return the place of the bytecode instruction at byte offset `instruction`."""
    known = _places.at(code, instruction)
    return known or _places.keep(code, instruction, _place(code, instruction))


def _place(code: CodeType, instruction: int) -> Place:
    line, end_line, column, end_column = span(code, instruction)
    line = line or code.co_firstlineno
    end_line = end_line or line
    start = characters(linecache.getline(code.co_filename, line), column or 0)
    end = characters(linecache.getline(code.co_filename, end_line), end_column or 0)
    return Place(code.co_filename, line, start, end_line, end, code.co_name)


def characters(text: str, column: int) -> int:
    """Return the number of characters before a column of the line `text`. `column` counts bytes of
    UTF-8, as Python does."""
    return len(text.encode()[:column].decode(errors="ignore")) if text else column


Visit = tuple[CodeType, int, dict[str, int]]


def visits() -> list[Visit]:
    """Return the frames of the user's code inside the kernel, innermost first, up to the frame that
    neuroncore called. A frame is given as (code, byte offset of its instruction, integer
    variables)."""
    frames: list[Visit] = []
    frame = user_frame()
    while frame is not None and is_users(frame):
        frames.append((frame.f_code, instruction_of(frame), _variables(frame)))
        frame = frame.f_back
    return frames


Frames = list[tuple[FrameType, int]]


def _through(trace: TracebackType | None) -> Frames:
    """Return the frames of the user's code that an error passed through, innermost first, with the
    byte offsets of their instructions. If the error came out of a kernel, only the frames inside
    the kernel are returned."""
    frames: Frames = []
    links = reversed([(link.tb_frame, link.tb_lasti) for link in _links(trace)])
    for frame, instruction in links:
        if is_users(frame):
            frames.append((frame, instruction))
        elif frames and is_ours(frame):
            break
    return frames


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def innermost(trace: TracebackType | None) -> tuple[FrameType | None, int]:
    """Return the innermost frame of the user's code that an error passed through, and the byte
    offset of its instruction. Return (None, 0) if there is no such frame."""
    frames = _through(trace)
    return frames[0] if frames else (None, 0)


def innermost_place(trace: TracebackType | None) -> Place | None:
    """Return the place of the innermost frame of the user's code that an error passed through, or
    None."""
    frame, instruction = innermost(trace)
    return None if frame is None else place(frame.f_code, instruction)


def visits_of(trace: TracebackType | None) -> list[Visit]:
    """Return the frames of the user's code that an error passed through, in the form of
    `visits`."""
    return [(frame.f_code, at, _variables(frame)) for frame, at in _through(trace)]


def _variables(frame: FrameType) -> dict[str, int]:
    return {} if frame.f_code.co_name == "<module>" else _integers(frame)


def _integers(frame: FrameType) -> dict[str, int]:
    """Return the integer variables of a frame, by name, without booleans and private names."""
    values = frame.f_locals.items()
    numbers = {n: v for n, v in values if isinstance(v, int) and not isinstance(v, bool)}
    return {n: int(v) for n, v in numbers.items() if not n.startswith("_")}


def position(name: str) -> int | None:
    """Return the position of the parameter `name` in the function of neuroncore that the user's
    code has called. Return None if this function has no such parameter."""
    called, frame = None, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame):
        called, frame = frame, frame.f_back
    if called is None:
        return None
    names = called.f_code.co_varnames[: called.f_code.co_argcount]
    return names.index(name) - (names[0] == "self") if name in names else None


def source_text(path: Path, errors: str = "strict") -> str:
    """Return the text of a Python file, in the encoding that its first two lines declare (default
    UTF-8), without a byte order mark. Raises OSError. `errors` is the argument of bytes.decode.
    With "strict", raises UnicodeDecodeError or SyntaxError for a file that can't be decoded;
    otherwise such a file is read as UTF-8."""
    content = path.read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return io.TextIOWrapper(io.BytesIO(content), encoding).read()
    # an unknown encoding, an encoding of other things than text (hex), or bytes that are not in it
    except (SyntaxError, LookupError, UnicodeError) as error:
        if errors != "strict":
            return io.TextIOWrapper(io.BytesIO(content), "utf-8", errors).read()
        if isinstance(error, SyntaxError | UnicodeDecodeError):
            raise
        raise SyntaxError(str(error)) from None


def encoding_error(content: bytes) -> tuple[int, str] | None:
    """Return the line of the first byte that is not UTF-8, and a message in Python's words. Return
    None if there is no such byte, or if the file declares its encoding.

    Python refuses to run such a file. But compile() and ast.parse() accept the byte in a comment.
    """
    try:
        content.decode()
    except UnicodeDecodeError as error:
        first, second, *_ = (*content.splitlines(), b"", b"")
        if _declares_encoding(first) or (
            tokenize.blank_re.match(first) and _declares_encoding(second)
        ):
            return None
        line = content.count(b"\n", 0, error.start) + 1
        return line, (
            f"Non-UTF-8 code starting with '\\x{content[error.start]:02x}', but no encoding "
            "declared; see https://peps.python.org/pep-0263/"
        )
    return None


def _declares_encoding(line: bytes) -> bool:
    return tokenize.cookie_re.match(line.decode("latin-1")) is not None


class _FromSource(SourceFileLoader):
    """Imports a source file without its cached bytecode.

    Python uses the bytecode if the file still has the size and the time, in whole seconds, from its
    compilation. A program that searches for fast kernels may write two variants of a kernel within
    a second."""

    def path_stats(self, path: str) -> NoReturn:
        raise OSError


def imported(name: str, file: Path, **names: object) -> ModuleType:
    """Import a source file as a module, in which `names` are defined before it is executed.

    The module is added to `sys.modules`, unless this has a module of the same name: a user's file
    may have the name of a module of Python. Raises the errors of the file."""
    loader = _FromSource(name, str(file))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    vars(module).update(names)
    sys.modules.setdefault(name, module)
    loader.exec_module(module)
    return module
