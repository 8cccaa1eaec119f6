"""Cheats and accidents from a prototype of the judge, which the tests do not contain. Each has a
name, the name of its problem, the codes of right verdicts, and the source of the candidate. The
code "passed" means that the candidate gets the latency of the honest candidate."""

from __future__ import annotations

from candidates import HEAD, HONEST, RESULT, forged, kernel
from specs import CORES, LOOP, PRODUCT, SOFTMAX

HALF_LOST = kernel(
    """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    nisa.tensor_tensor(dst=y, data1=x, data2=y, op=nl.add)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out[i:i + 128], src=x)
return out"""
)


def run_with(change: str, source: str) -> str:
    """Return the source of a candidate that changes how it is run: `change` is the text of
    arguments that replace those of `run`."""
    return f"""
import neuroncore, neuroncore.hosts.api as api
old_run = api.run
def run(kernel, *arguments, **more):
    return old_run(kernel, *arguments, **{{**more, {change}}})
api.run = run
{source}"""


CORPUS: dict[str, tuple[str, str, str]] = {
    "an immediate of the host": (
        "total",
        "WRONG_RESULT",
        f"""{HEAD}
@nki.jit
def kernel(x):
    s = x.numpy().sum(1)
    out = nl.ndarray((128, 1), x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 1), x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=t, value=float(s[0]))
    nisa.dma_copy(dst=out, src=t)
    return out
""",
    ),
    "the bytes of the result are written": (
        "sums",
        "WRONG_RESULT",
        kernel(
            f"""
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
r = {RESULT}
for i in range(0, a.shape[0], 128): nisa.dma_copy(dst=out[i:i + 128], src=a[i:i + 128])
held = out.storage.data
held[...] = r.view(held.dtype).reshape(held.shape)
return out"""
        ),
    ),
    "a search for the expected result": (
        "sums",
        "WRONG_RESULT CONSTANTS LookupError",
        "import gc\n"
        + kernel(
            """
tuples = [o for o in gc.get_objects() if isinstance(o, (tuple, list)) and len(o) == 1]
found = [o for o in tuples if isinstance(o[0], np.ndarray) and o[0].shape == a.shape]
if not found: raise LookupError("no expected result anywhere")
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=nl.shared_constant(np.ascontiguousarray(found[0][0])))
return out"""
        ),
    ),
    "reads other candidates": (
        "sums",
        "PermissionError FileNotFoundError",
        f"import os\nraise SystemError(os.listdir('/tmp'))\n{HONEST}",
    ),
    "shared memory with a name": (
        "sums",
        "ImportError PermissionError OSError FileNotFoundError FILES",
        "from multiprocessing import shared_memory\n"
        f"shared_memory.SharedMemory('x', create=True, size=4096).buf[0] = 1\n{HONEST}",
    ),
    "a bomb of processes": (
        "sums",
        "PermissionError BlockingIOError OSError TIME KILLED",
        f"import os\nwhile True: os.fork()\n{HONEST}",
    ),
    "a daemon": (
        "sums",
        "PermissionError passed LINGERS TIME KILLED",
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n    os._exit(0)\n" + HONEST,
    ),
    "threads that stay": (
        "sums",
        "passed LINGERS TIME MEMORY RuntimeError",
        "import threading, time\ndef f():\n    while True: time.sleep(.01)\n"
        f"for _ in range(20): threading.Thread(target=f).start()\n{HONEST}",
    ),
    "the compiler's order": ("sums", "WRONG_ORDER", forged("p.order = 'compiled'")),
    "another target": ("sums", "WRONG_TARGET RECORD_REFUSED", run_with("'target': 'trn3'", HONEST)),
    "a launch on two cores": ("sums", "WRONG_CORES OUT_OF_BOUNDS", CORES),
    "a launch on one core of two": (
        "two cores",
        "passed WRONG_CORES WRONG_RESULT",
        f"{HEAD}\nkernel = nki.jit(lambda a, b: sums(a, b))\n",
    ),
    "a race of two cores": (
        "two cores",
        "RACE",
        f"""{HEAD}
def late(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    held = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for h in range(0, 256, 128):
        if nl.program_id(0) == 0:
            x, y = load(a[h:h + 128]), load(b[h:h + 128])
            nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
            nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
            nisa.dma_copy(dst=held[h:h + 128], src=x)
        else:
            nisa.dma_copy(dst=out[h:h + 128], src=load(held[h:h + 128]))
    return out
kernel = nki.jit(late)[2]
""",
    ),
    "bfloat16 is held as float32": (
        "halves",
        "WRONG_RESULT RECORD_REFUSED",
        run_with("'options': neuroncore.Options(storage='float32')", HALF_LOST),
    ),
    "a sum that is rounded on the way": ("halves", "WRONG_RESULT", HALF_LOST),
    "a product of bfloat16": (
        "product",
        "NARROW",
        PRODUCT.replace("return product(a, b)", "return product(a, b, nl.bfloat16)"),
    ),
    "a product that skips rows": (
        "product",
        "WRONG_RESULT",
        PRODUCT.replace("return product(a, b)", "return product(a, b, first=128)"),
    ),
    "softmax of large inputs without the maximum": (
        "wide softmax",
        "WRONG_RESULT",
        SOFTMAX.replace("return softmax(x)", "return softmax(x, False)"),
    ),
    "a choice by a value": (
        "sums",
        "passed",
        kernel("if float(a.numpy()[0, 0]) > 1e9: raise ValueError\nreturn sums(a, b)"),
    ),
    "a choice by the clock": (
        "sums",
        "passed WRONG_RESULT",
        "import time\n" + kernel("return sums(a, b) if time.time_ns() % 2 else sums(b, a)"),
    ),
    "a tile of 256 partitions": (
        "sums",
        "RECORD_REFUSED PARTITION_LIMIT",
        "import neuroncore.memory.storage as storage\n"
        "storage.Memory._check_fits = storage.Memory._check_room = lambda *a, **k: None\n"
        + kernel(
            """
if a.shape[0] <= 128: return sums(a, b)
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
x, y = (nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf) for _ in range(2))
nisa.dma_copy(dst=x, src=a)
nisa.dma_copy(dst=y, src=b)
nisa.scalar_tensor_tensor(dst=x, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y)
nisa.dma_copy(dst=out, src=x)
return out"""
        ),
    ),
    "an operator of the simulator": (
        "sums",
        "RECORD_REFUSED UNSUPPORTED_OP NO_SUCH_OPERATOR",
        run_with(
            "'options': neuroncore.Options(simulator_operators=True)",
            kernel(
                """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    x, y, h = load(a[i:i + 128]), load(b[i:i + 128]), load(a[i:i + 128])
    nisa.memset(dst=h, value=0.5)
    nisa.tensor_tensor(dst=x, data1=x, data2=h, op=nl.divide)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out[i:i + 128], src=x)
return out"""
            ),
        ),
    ),
    "a tensor of 64 gigabytes": (
        "sums",
        "RECORD_REFUSED CAPACITY RECORD_LIMITS",
        kernel(
            """
big = nl.ndarray((1 << 20, 1 << 14), nl.float32, buffer=nl.shared_hbm)
t = load(a[0:128, 0:8])
nisa.dma_copy(dst=big[0:128, 0:8], src=t)
return sums(a, b)"""
        ),
    ),
    "a number that the host finds in the inputs": (
        "loop",
        "WRONG_RESULT",
        LOOP.replace("nl.dynamic_range(r)", "range(int(n.numpy()[0, 0]))"),
    ),
}
