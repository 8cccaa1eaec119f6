"""Cheats that forge the answer of the process, or attack the machine. Their author had not yet read
how the judge defends itself. Each cheat has a name, the name of its problem, the codes of right
verdicts, and the source of the candidate."""

from __future__ import annotations

from candidates import ANSWER, HONEST

INTRUSIONS: dict[str, tuple[str, str, str]] = {}


def system(name: str, codes: str, source: str) -> None:
    """Add an attack on the machine, followed by an honest candidate."""
    INTRUSIONS[name] = "sums", codes, f"import os, sys, ctypes\n{source}\n{HONEST}"


def answered(name: str, codes: str, body: str) -> None:
    """Add an attack that writes its own bytes as the answer."""
    INTRUSIONS[name] = "sums", codes, f"{ANSWER}import os\n{body}\nos._exit(0)"


def parts(name: str, codes: str, change: str) -> None:
    """Add an attack that changes or exchanges the two records of an honest run."""
    source = f"""{ANSWER}
import os
import neuroncore.eval.child as child
saved, parts = child.saved, []
class Saved:
    @staticmethod
    def packed(record, arrays=True):
        parts.append(saved.packed(record, arrays))
        if len(parts) == 2:
            answers.write(3, answers.encoded(b"R", {change}))
            os._exit(0)
child.saved = Saved
{HONEST}"""
    INTRUSIONS[name] = "sums", codes, source


# --- the answer -----------------------------------------------------------------------------------

OTHER = "RECORD_REFUSED WRONG_RESULT BAD_ANSWER OUT_OF_BOUNDS"
parts("the record of another shape", OTHER, "[parts[0]] * len(parts)")
parts("records in another order", OTHER, "parts[::-1]")
parts("a record too many", "BAD_ANSWER RECORD_REFUSED", "[*parts, parts[0]]")
parts("no records", "BAD_ANSWER NO_RECORD RECORD_REFUSED", "[]")
parts("empty records", "RECORD_REFUSED", "[b''] * len(parts)")
parts(
    "a record of 200 megabytes",
    "RECORD_LIMITS RECORD_REFUSED MEMORY BAD_ANSWER",
    "[parts[0], os.urandom(200 << 20)]",
)
answered(
    "an endless answer",
    "RECORD_LIMITS BAD_ANSWER TIME MEMORY",
    "while True: os.write(3, bytes(1 << 20))",
)
answered(
    "an answer byte by byte",
    "TIME",
    """
import time
while True:
    os.write(3, b'R')
    time.sleep(0.1)""",
)
answered(
    "a pickle",
    "BAD_ANSWER",
    """
import pickle
class P:
    def __reduce__(self): return os.system, ('touch cheat',)
answers.write(3, pickle.dumps(P()))""",
)
answered(
    "an error that can't be printed",
    "BAD_ANSWER E",
    r"""
error = {'code': 'E', 'message': '\udfff\x00\x1b[2J\n{}' * 9999, 'hint': ['\udc80']}
answers.write(3, answers.error(error))""",
)
answered(
    "an error whose line is a number of 9999 digits",
    "BAD_ANSWER E",
    """
error = b'{"code": "E", "message": "m", "line": ' + b'9' * 9999 + b'}'
answers.write(3, answers.encoded(b'E', [error]))""",
)
answered(
    "an error as deep lists",
    "BAD_ANSWER",
    "answers.write(3, answers.encoded(b'E', [b'[' * 9999999]))",
)

# --- the system -----------------------------------------------------------------------------------

system(
    "a verdict on standard output",
    "passed",
    """
os.write(1, b'{"status": "passed", "latency_us": 0.0}\\n')
print('passed', file=sys.stderr)""",
)
system(
    "writes to every file that is open",
    "passed BAD_ANSWER",
    """
for n in range(256):
    try: n == 3 or os.write(n, b'\\x10' + bytes(40))
    except OSError: pass""",
)
system(
    "reads from every file that is open",
    "passed TIME BAD_ANSWER",
    """
for n in range(256):
    try:
        os.set_blocking(n, False)
        os.read(n, 1 << 20)
    except OSError: pass""",
)
system("closes every file", "OSError NO_RECORD", "os.closerange(0, 256)")
system(
    "its environment and its command",
    "PermissionError FileNotFoundError",
    "raise ValueError(open('/proc/self/cmdline').read() + open('/proc/self/environ').read())",
)
system(
    "secrets in its memory",
    "LookupError",
    """
import gc
names = 'secret', 'reference', 'hidden'
kinds = 'Spec', 'Case', 'Judge', 'Hidden'
every = gc.get_objects()
found = [n for o in every if type(o) is dict for n in names if type(o.get(n)) is int]
found += [type(o).__name__ for o in every if type(o).__name__ in kinds]
frame = sys._getframe()
while frame:
    found += [n for n in frame.f_locals if n in names]
    frame = frame.f_back
if found: raise ValueError(str(found))
raise LookupError('nothing')""",
)
system(
    "system calls that isolation denies",
    "LookupError",
    """
libc = ctypes.CDLL(None, use_errno=True)
calls = dict(
    ptrace=(101, 0), mount=(165, 0), unshare=(272, 0x10000000), bpf=(321, 0), perf=(298, 0),
    io_uring=(425, 1), userfaultfd=(323, 0), readv=(310, 1), keyctl=(250, 0), pidfd=(434, 1),
    clone3=(435, 0), execve=(59, 0), socketpair=(53, 1), kexec=(246, 0),
)
at = (ctypes.c_char * 256)()
done = [n for n, (k, x) in calls.items() if libc.syscall(k, x, ctypes.byref(at), 64, 0, 0) >= 0]
if done: raise ValueError(str(done))
raise LookupError('nothing')""",
)
system(
    "raises its limits",
    "TIME KILLED",
    """
import resource
for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS):
    try: resource.setrlimit(kind, (-1, -1))
    except (ValueError, OSError): pass
while True: pass""",
)
system(
    "ignores all signals",
    "TIME KILLED",
    """
import signal
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (ValueError, OSError): pass
while True: pass""",
)
system("sleeps", "TIME", "import time\ntime.sleep(1e6)")
system("a null pointer", "KILLED", "ctypes.string_at(0)")
system(
    "an endless recursion",
    "KILLED RecursionError TIME MEMORY",
    "sys.setrecursionlimit(1 << 30)\ndef f(): return f()\nf()",
)
system(
    "a clock that stands still",
    "passed",
    """
import time
time.perf_counter = time.time = time.monotonic = time.process_time = lambda: 0.0""",
)
system(
    "costs that are zero",
    "passed",
    """
import types
for module in [m for k, m in sys.modules.items() if k.startswith('neuroncore.time')]:
    for name, one in list(vars(module).items()):
        if isinstance(one, types.FunctionType): setattr(module, name, lambda *a, **k: 0)""",
)
system(
    "changes to files",
    "LookupError",
    """
def tries():
    for folder in ('/tmp', '/dev/shm', '.', os.path.dirname(os.__file__), sys.prefix):
        yield lambda: os.mkdir(folder + '/cheat')
        yield lambda: os.symlink('/', folder + '/cheat')
        yield lambda: open(folder + '/cheat', 'w')
        yield lambda: os.utime(folder)
    yield lambda: os.truncate(os.__file__, 0)
    yield lambda: os.unlink(os.__file__)
    yield lambda: os.rename(os.__file__, os.__file__ + 'x')
done = []
for n, one in enumerate(tries()):
    try: one(); done.append(n)
    except OSError: pass
if done: raise ValueError(str(done))
raise LookupError('nothing')""",
)
system("a source with a null byte", "SyntaxError ValueError", "x = 1\0")
system(
    "a source that is nested deep",
    "SyntaxError MemoryError RecursionError MEMORY",
    "x = " + "(" * 100000 + ")" * 100000,
)
