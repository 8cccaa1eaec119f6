"""Limits and isolation of a process that runs a candidate. No privileges are needed.

There are two levels:

* `process` limits time, memory, files and processes. It protects from accidents only.
* `linux` adds namespaces without a network and without other processes. It also adds Landlock (the
  process writes no files, and reads a few folders only), and a filter of system calls (no new
  processes, sockets or tracing).

Sources: the manual pages of landlock(7), seccomp(2), unshare(2), prctl(2) and setrlimit(2), and the
kernel's tables of system calls."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from neuroncore.base.lazy import Lazy
from neuroncore.eval.answers import Isolation

if TYPE_CHECKING:
    import resource
else:
    resource = Lazy("resource")  # which Windows lacks

Level = Literal["process", "linux"]

SET_DEATH_SIGNAL, SET_DUMPABLE, SET_SECCOMP, NO_NEW_PRIVILEGES = 1, 4, 22, 38  # options of prctl
KILL = 9
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls of Landlock
RULE_BENEATH, VERSION = 1, 1
EXECUTE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights of each version of Landlock
FILE_RIGHTS_SINCE_5 = 16
NETWORK_SINCE, SCOPES_SINCE = 4, 6
OPEN_FILES, STACK = 256, 1 << 26


class ProcessLimits(NamedTuple):
    """Limits of a candidate's process, and of the process that judges the candidate's records.

    `cpu_seconds`, `seconds`: CPU time and wall time
    `memory`: bytes of address space
    `processes`: the number of the user's processes and threads
    `judge_seconds`, `judge_memory`: CPU time and bytes of address space of the process that judges

    There is also a limit for the bytes of the answer."""

    cpu_seconds: int = 20
    seconds: float = 60.0
    memory: int = 4 << 30
    processes: int = 64
    answer: int = 64 << 20
    judge_seconds: int = 120
    judge_memory: int = 8 << 30


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def supported() -> Level:
    """Return the strongest level of isolation that this operating system supports."""
    return "linux" if sys.platform == "linux" else "process"


def dies_with_parent() -> None:
    """Ask the operating system to end this process when its parent ends. Only Linux does this."""
    if sys.platform == "linux":
        _libc().prctl(SET_DEATH_SIGNAL, KILL, 0, 0, 0)


def hidden_from_others() -> None:
    """Prevent other processes from reading the memory of this process. Only Linux does this."""
    if sys.platform == "linux":
        _libc().prctl(SET_DUMPABLE, 0, 0, 0, 0)


def limit(limits: ProcessLimits) -> None:
    """Set the limits of this process. The process can't raise its limits again."""
    pairs = (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_STACK, STACK),
        (resource.RLIMIT_AS, limits.memory),
    )
    for kind, value in pairs:
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    if hasattr(resource, "RLIMIT_NPROC"):
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))


def unshare() -> bool:
    """Move this process to new namespaces, and return whether the operating system allows it.

    The namespaces have no network, no other processes, and no shared memory of other processes. The
    next child of this process is the first process of the new namespaces. When this child ends, all
    processes there end."""
    leave = getattr(os, "unshare", _unshare)  # os.unshare exists since Python 3.12
    flags = 0x10000000 | 0x40000000 | 0x08000000 | 0x20000000  # user, network, IPC, processes
    try:
        leave(flags)
    except OSError:
        return False
    return True


def _unshare(flags: int) -> None:
    if _libc().unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def restrict(readable: Sequence[str]) -> Isolation:
    """Restrict this process, and return the isolation that the operating system grants.

    The process may then read only files below the folders `readable`, and make only system calls
    that the filter does not deny. The field `namespaces` of the result is 0."""
    return Isolation(0, _landlock(readable), int(_filter_calls()))


def _landlock(readable: Sequence[str]) -> int:
    """Restrict this process with Landlock, so that it can read only files below `readable`. Return
    the version of Landlock, or 0 if this system does not restrict the process."""
    libc = _libc()
    version = int(libc.syscall(CREATE_RULESET, None, 0, VERSION))
    if version < 1:
        return 0
    rights = (1 << FILE_RIGHTS.get(version, FILE_RIGHTS_SINCE_5)) - 1
    fields = [rights, 3 if version >= NETWORK_SINCE else 0, 3 if version >= SCOPES_SINCE else 0]
    count = 3 if version >= SCOPES_SINCE else 2 if version >= NETWORK_SINCE else 1
    attributes = (ctypes.c_uint64 * 3)(*fields)
    rules = int(libc.syscall(CREATE_RULESET, attributes, 8 * count, 0))
    for path in readable:
        _allow(libc, rules, path)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    restricted = libc.syscall(RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return version if restricted else 0


def _allow(libc: Any, rules: int, path: str) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # there is no such folder
    rights = READ_FILE | READ_FOLDER | EXECUTE if os.path.isdir(path) else READ_FILE
    packed = rights.to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
    libc.syscall(ADD_RULE, rules, RULE_BENEATH, ctypes.create_string_buffer(packed, 12), 0)
    os.close(folder)


# --- the filter of system calls -------------------------------------------------------------------


class Calls(NamedTuple):
    """Numbers of system calls on a processor architecture. The first number in `denied` is the
    number of clone3."""

    architecture: int
    denied: tuple[int, ...]
    clone: int
    prctl: int


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


# The denied system calls: fork, vfork, ptrace, process_vm_*, sockets, userfaultfd, bpf, io_uring,
# perf, keys, mounts, unshare, setns, pidfd, kexec, modules, mknod; calls that create a session or a
# process group, in which the process would outlive its judge; signals; memory and queues that
# several processes share; and changes of the modes, owners, times and attributes of files, which
# Landlock does not prevent.
CALLS = {
    "x86_64": Calls(
        0xC000003E,
        _numbers(
            "435 57 58 101 310 311 41 53 321 425 426 427 323 250 248 249 "
            "165 166 272 308 298 438 434 424 133 155 246 175 313 176 "
            "112 109 62 200 234 129 297 29 64 68 240 "
            "90 91 268 452 92 93 94 260 132 235 261 280 188 189 190 197 198 199 463 466 469"
        ),
        56,
        157,
    ),
    "aarch64": Calls(
        0xC00000B7,
        _numbers(
            "435 117 270 271 198 199 280 425 426 427 282 219 217 218 40 39 "
            "97 268 241 438 434 424 33 41 104 105 273 106 "
            "157 154 129 130 131 138 240 194 190 186 180 "
            "52 53 452 54 55 88 5 6 7 14 15 16 463 466 469"
        ),
        220,
        167,
    ),
}
LOAD, EQUAL, AT_LEAST, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of a filter
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NOT_PERMITTED, NOT_THERE = 1, 38
NUMBER_AT, ARCHITECTURE_AT, ARGUMENT_AT = 0, 4, 16
OTHER_TABLE = 0x40000000  # from this number on: x86's system calls with pointers of 32 bits
THREAD = 0x10000  # CLONE_THREAD
FILTER = 2


def _step(code: int, if_true: int, if_false: int, operand: int) -> bytes:
    jumps = bytes((if_true, if_false))
    return code.to_bytes(2, "little") + jumps + operand.to_bytes(4, "little")


def _program(calls: Calls) -> bytes:
    """Return the filter of system calls as bytes, eight for each step. Denied calls fail.

    clone can only make threads. prctl can't change the signal that this process gets when its
    parent ends. The filter can't read the flags of clone3. So clone3 fails with the error for a
    missing system call, and libc then uses clone."""
    steps = [
        _step(LOAD, 0, 0, ARCHITECTURE_AT),
        _step(EQUAL, 1, 0, calls.architecture),
        _step(RETURN, 0, 0, KILL_PROCESS),
        _step(LOAD, 0, 0, NUMBER_AT),
        _step(AT_LEAST, 0, 1, OTHER_TABLE),
        _step(RETURN, 0, 0, ERRNO | NOT_PERMITTED),
    ]
    for number in calls.denied:
        fault = NOT_THERE if number == calls.denied[0] else NOT_PERMITTED
        steps += [_step(EQUAL, 0, 1, number), _step(RETURN, 0, 0, ERRNO | fault)]
    steps += [
        _step(EQUAL, 0, 2, calls.prctl),
        _step(LOAD, 0, 0, ARGUMENT_AT),
        _step(EQUAL, 3, 4, SET_DEATH_SIGNAL),
        _step(EQUAL, 0, 3, calls.clone),
        _step(LOAD, 0, 0, ARGUMENT_AT),
        _step(BITS, 1, 0, THREAD),
        _step(RETURN, 0, 0, ERRNO | NOT_PERMITTED),
        _step(RETURN, 0, 0, ALLOW),
    ]
    return b"".join(steps)


def _filter_calls() -> bool:
    """Install the filter of system calls. Return whether it is active."""
    calls = CALLS.get(platform.machine())
    if calls is None:
        return False
    steps = _program(calls)
    buffer = ctypes.create_string_buffer(steps, len(steps))
    head = (len(steps) // 8).to_bytes(2, "little") + bytes(6)
    at = ctypes.addressof(buffer).to_bytes(8, "little")
    libc = _libc()
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return bool(
        libc.prctl(SET_SECCOMP, FILTER, ctypes.create_string_buffer(head + at, 16), 0, 0) == 0
    )
