"""Specifications and candidates: honest ones, accidents and cheats."""

import os
import signal
from pathlib import Path

import numpy as np

from neuroncore.eval import Spec

HEAD = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np, os, sys

def load(source):
    tile = nl.ndarray(source.shape, source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile

def sums(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in range(0, a.shape[0], 128):
        x, y = load(a[i:i + 128]), load(b[i:i + 128])
        nisa.scalar_tensor_tensor(
            dst=x, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y
        )
        nisa.dma_copy(dst=out[i:i + 128], src=x)
    return out
"""
HONEST = f"{HEAD}\n@nki.jit\ndef kernel(a, b):\n    return sums(a, b)\n"
# n times x, by a loop whose number of turns is in the memory of the device
LOOP = f"""{HEAD}
@nki.jit
def kernel(x, n):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t, c = load(x), load(n)
    s = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=s, value=0.0)
    r = nisa.register_alloc()
    nisa.register_load(r, c)
    for _ in nl.dynamic_range(r):
        nisa.tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)
    nisa.dma_copy(dst=out, src=s)
    return out
"""


def inputs(seed, shape):
    return tuple(np.random.default_rng(seed).standard_normal((2, *shape), np.float32))


def spec(**changed):
    """2 a + b on two shapes."""
    usual = {"shapes": [(128, 64)], "hidden_shapes": [(256, 32)], "tol": 1e-6, "seeds": 2}
    return Spec(lambda a, b: 2 * a + b, inputs, **{**usual, "secret": 0, **changed})


def times(**changed):
    """n x, where n is an input and `LOOP` has n iterations."""

    def inputs(seed, shape):
        random = np.random.default_rng(seed)
        return random.standard_normal(shape, np.float32), random.integers(2, 9, (1, 1), np.int32)

    def reference(x, n):
        return x * np.float32(n[0, 0])

    return Spec(reference, inputs, [(128, 8)], tol=1e-6, secret=0, **changed)


def killed_once(setting, batch):
    """The work of a process of the pool, which is killed when it judges the first candidate."""
    mark = Path(setting.spec)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [one.name for one in batch]


def kernel(body):
    """A candidate whose kernel has this body."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"{HEAD}\n@nki.jit\ndef kernel(a, b):\n{lines}"


def forged(change):
    """An honest candidate that changes its record before returning: `p` is the program."""
    return f"""
import neuroncore.eval.child as child
from dataclasses import replace
old = child.saved.packed
class Saved:
    @staticmethod
    def packed(record, arrays=True):
        p = record.programs[0]
        {change}
        return old(record, arrays)
child.saved = Saved
{HONEST}"""


def written(change, source):
    """A candidate that changes the tables and columns of its record: `t` and `c`."""
    lines = "".join(f"    {line}\n" for line in change.strip().splitlines())
    return f"""
import neuroncore.record.program_json as tables
from neuroncore.record.call_json import plain
old = tables.written
names = ["number", "kind", *tables.COLUMNS, *tables.DATA]
def written(p, blobs):
    t, columns = old(p, blobs)
    c = dict(zip(names, columns))
{lines}
    return t, [tables.np.array(c[name], tables.np.int64) for name in names]
tables.written = written
{source}"""


def on_chip(number):
    """The change by which the result is the last tile in SBUF."""
    return f"""
chip = [n for n, g in enumerate(p.geometries) if g.layout.region.name == "sbuf"]
tiles = zip(c["storage"], c["geometry"], c["offset"])
t["results"] = {{"tensor": [[*map(int, tile)] for tile in tiles if tile[1] in chip][{number}]}}"""


def viewed(strides):
    """The change by which the result is a view with other strides on its tensor."""
    return f"""
storage, lies, _ = t["results"]["tensor"]
lies = p.geometries[lies]
t["geometries"].append(plain((lies.layout.arguments, lies.shape, {strides}, lies.dtype)))
t["results"] = {{"tensor": [storage, len(t["geometries"]) - 1, 0]}}"""


PLACED = kernel(
    """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    def tile():
        return nl.ndarray(x.shape, a.dtype, buffer=nl.sbuf, address=(0, 2048))
    nisa.tensor_scalar(dst=tile(), data=x, op0=nl.multiply, operand0=2.0)
    nisa.tensor_tensor(dst=tile(), data1=tile(), data2=y, op=nl.add)
    nisa.dma_copy(dst=out[i:i + 128], src=tile())
return out"""
)
ANSWER = "import neuroncore.eval.answers as answers\n"
RESULT = "2 * a.numpy() + b.numpy()"
# By name: the expected codes, and the source. "passed" means the honest latency.
CHEATS = {
    "a product declares that it has only zeros and ones": (
        "NOT_ONEZERO",
        kernel(
            """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
two = nl.multiply(nl.shared_identity_matrix(128, nl.float32), 2.0)
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    twice = nl.ndarray(x.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(twice, two, x, is_stationary_onezero=True)
    nisa.tensor_tensor(dst=y, data1=twice, data2=y, op=nl.add)
    nisa.dma_copy(dst=out[i:i + 128], src=y)
return out"""
        ),
    ),
    "Python computes the result": ("SIGNATURE", kernel(f"return {RESULT}")),
    "a constant of the host": (
        "WRONG_RESULT",
        kernel(
            f"""
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=nl.shared_constant({RESULT}))
return out"""
        ),
    ),
    "the result is stored without an instruction": (
        "NO_INSTRUCTIONS",
        kernel(
            f"""
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
out.store({RESULT})
return out"""
        ),
    ),
    "the memory of the result is written": (
        "WRONG_RESULT",
        kernel(
            f"""
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    nisa.dma_copy(dst=out[i:i + 128], src=a[i:i + 128])
out.store({RESULT})
return out"""
        ),
    ),
    "an input is returned": (
        "INPUT_WRITTEN",
        kernel(
            """
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=a[i:i + 128], src=x)
return a"""
        ),
    ),
    "the input itself": ("NO_INSTRUCTIONS RESULT_IS_INPUT", kernel("load(a[0:128])\nreturn a")),
    "only the public shape is right": (
        "WRONG_RESULT",
        kernel(
            "return sums(a, b) if a.shape[0] == 128 else sums(b, a)",
        ),
    ),
    "NaN": (
        "WRONG_RESULT",
        kernel(
            """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
t = nl.ndarray((128, a.shape[1]), a.dtype, buffer=nl.sbuf)
nisa.memset(dst=t, value=float("nan"))
for i in range(0, a.shape[0], 128):
    nisa.dma_copy(dst=out[i:i + 128], src=t)
return out"""
        ),
    ),
    "a part of the result is not written": (
        "OUTPUT_NOT_WRITTEN WRONG_RESULT",
        kernel(
            """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out[0:64], src=a[0:64])
return out"""
        ),
    ),
    "another order": ("WRONG_ORDER", forged("p.order = 'compiled'")),
    "another writer of descriptors": ("WRONG_ORDER", forged("p.software = True")),
    "another machine": (
        "passed",
        f"import neuroncore\nneuroncore.run = None\n{HONEST}",
    ),
    "two cores": (
        "WRONG_CORES",
        f"{HEAD}\nkernel = nki.jit(lambda a, b: sums(a, b))[2]\n",
    ),
    "instructions are dropped": ("RECORD_REFUSED IndexError", forged("p.calls = p.calls[:1]")),
    "the record ends early": ("RECORD_LIMITS RECORD_REFUSED", forged("p.left_out = 7")),
    "a record that is cut short": (
        "RECORD_REFUSED",
        forged("return old(record, arrays)[:-50]"),
    ),
    "a result that stays on the chip": ("RECORD_REFUSED", written(on_chip(-1), HONEST)),
    "an input that is on the chip": (
        "RECORD_REFUSED",
        forged(
            """tile = next(n for n, g in enumerate(p.geometries) if g.layout.on_chip)
        on = int(p.windows().storage[list(p.windows().geometry).index(tile)])
        one, *more = record.setting.inputs
        inputs = one._replace(storage=on), *more
        record = replace(record, setting=replace(record.setting, inputs=inputs))"""
        ),
    ),
    "a result whose axes are swapped": ("RESULT_IS_VIEW", written(viewed((1, 128)), HONEST)),
    "a result that repeats elements": ("RESULT_IS_VIEW", written(viewed((1, 0)), HONEST)),
    "a result that the host begins": (
        "CONSTANTS",
        written(
            """
blobs.append(bytes(a := p.geometries[t["results"]["tensor"][1]].layout.nbytes))
t["constants"].append([t["results"]["tensor"][0], len(blobs) - 1])""",
            HONEST,
        ),
    ),
    "tiles at addresses": ("passed", PLACED),
    "tiles at one address in several memories": (
        "RECORD_REFUSED",
        written(
            """
kinds = [n for n, k in enumerate(c["kind"]) if p.kinds[k].placed]
for n in kinds:
    t["kinds"].append(plain(tuple(p.kinds[c["kind"][n]]._replace(name=str(n)))))
    c["kind"][n] = len(t["kinds"]) - 1""",
            PLACED,
        ),
    ),
    "one memory that is there twice": (
        "RECORD_REFUSED",
        written(
            """
kinds = [n for n, k in enumerate(c["kind"]) if p.kinds[k].placed]
t["kinds"].append(t["kinds"][c["kind"][kinds[0]]])
c["kind"][kinds[0]] = len(t["kinds"]) - 1""",
            PLACED,
        ),
    ),
    "a name of megabytes": (
        "RECORD_REFUSED",
        written('t["calls"][0]["arguments"]["x" * (1 << 24)] = None', HONEST),
    ),
    "an error that says passed": (
        "FAKED",
        f"""
{ANSWER}
import os
answers.write(3, answers.error({{'code': 'FAKED', 'message': 'passed'}}))
os._exit(0)""",
    ),
    "bytes instead of an answer": (
        "BAD_ANSWER",
        "import os\nos.write(3, b'R' + bytes(range(200)))\nos._exit(0)",
    ),
    "a bomb of zeros": (
        "RECORD_REFUSED",
        f"""
{ANSWER}
import os, zlib
from neuroncore.record import MARK
squeezed = zlib.compressobj(1)
zeros = bytes(1 << 24)
first, again = (squeezed.compress(zeros) + squeezed.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
bomb = MARK + b"9\\n" + first + 19 * again
answers.write(3, answers.encoded(b"R", [bomb, bomb]))
os._exit(0)""",
    ),
    "JSON that is nested deep": (
        "RECORD_REFUSED",
        f"""
{ANSWER}
import os, zlib
from neuroncore.record import MARK
deep = MARK + b"9\\n" + zlib.compress(b'{{"about":' + b"[" * 100000 + b"\\n")
answers.write(3, answers.encoded(b"R", [deep, deep]))
os._exit(0)""",
    ),
    "reads a file of the judge": (
        "FileNotFoundError PermissionError",
        "open('/etc/passwd').read()",
    ),
    "writes a file": (
        "PermissionError OSError FILES",
        "open('cheat', 'w').write('x' * 100000)",
    ),
    "leaves its group": ("PermissionError", "import os\nos.setsid()"),
    "sends a signal": ("PermissionError", "import os\nos.kill(0, 9)"),
    "changes the mode of a file": ("PermissionError", "import os\nos.chmod('/usr', 0o755)"),
    "outlives its parent": (
        "ValueError",
        "import ctypes\nraise ValueError(ctypes.CDLL(None).prctl(1, 0, 0, 0, 0))",
    ),
    "takes memory that is shared": (
        "ValueError",
        "import ctypes\nraise ValueError(ctypes.CDLL(None).shmget(0, 4096, 0o1600))",
    ),
    "starts a process": ("PermissionError BlockingIOError OSError", "import os\nos.fork()"),
    "opens a socket": ("PermissionError OSError", "import socket\nsocket.socket()"),
    "ends": ("SystemExit", "import sys\nsys.exit(0)"),
    "ends at once": ("NO_RECORD", "import os\nos._exit(0)"),
    "is no Python": ("SyntaxError", "def kernel(:"),
    "has no kernel": ("LookupError", "x = 1"),
    "runs forever": ("TIME", "while True: pass"),
    "takes all memory": ("MEMORY", "x = bytearray(1 << 40)"),
    "goes on in threads": (
        "passed LINGERS",
        f"""
import threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
{HONEST}""",
    ),
}
