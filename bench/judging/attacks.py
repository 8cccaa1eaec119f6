"""Cheats that change the record or the kernel. Their author had not yet read how the judge defends
itself. Each cheat has a name, the name of its problem, the codes of right verdicts, and the source
of the candidate. The code "passed" means that the candidate gets the latency of the honest
candidate."""

from __future__ import annotations

from candidates import HONEST, RESULT, forged, kernel, written
from specs import HALVES, LOOP, PRODUCT, TABLE

Attack = tuple[str, str, str]
ATTACKS: dict[str, Attack] = {}


def attack(name: str, codes: str, source: str, problem: str = "sums") -> None:
    ATTACKS[name] = problem, codes, source


def tables(name: str, codes: str, change: str, source: str = HONEST, problem: str = "sums") -> None:
    attack(name, codes, written(change, source), problem)


# --- tables of the record -------------------------------------------------------------------------

REFUSED = "RECORD_REFUSED"
tables("descriptors that cost nothing", "WRONG_ORDER", "t['dge'] = True")
tables("descriptors of software", "WRONG_ORDER", "t['software'] = True")
tables("flags of a compiler", "WRONG_ORDER", "t['flags'] = ['--fast', '-O9']")
tables("the order of an emulator", "WRONG_ORDER", "t['order'] = 'in-order'")
tables(
    "every row is an iteration of a parallel loop",
    "passed RECORD_REFUSED LOOP_CARRIED_READ",
    "c['iterations'] = []\n"
    "t['iterations'] = [n for row in range(8) for n in (row, 0, row)]\n"
    "t['carried'] = sorted({int(n) for n in c['number']})",
)
tables(
    "every row is a program of the grid",
    "passed RECORD_REFUSED WRONG_CORES",
    "c['programs'] = [n for row in range(8) for n in (row, row)]",
)
tables(
    "calls of small views on large windows",
    REFUSED,
    """
for call in t["calls"]:
    for given in call["arguments"].values():
        if isinstance(given, dict) and "view" in given:
            given["view"][0] = [128, 1]""",
)
tables(
    "a table that is in SBUF from the start",
    "RECORD_REFUSED CONSTANTS",
    """
sbuf = [n for n, s in enumerate(c["number"]) if p.kinds[c["kind"][n]].region.name == "sbuf"]
blob = t["constants"][0][1]
t["constants"] = [[int(c["number"][sbuf[1]]), blob]]""",
    TABLE,
    "table",
)
tables(
    "a DMA of the table that writes nothing",
    "WRONG_RESULT RECORD_REFUSED UNINIT_READ CONSTANTS",
    """
starts = [0, *np.cumsum(c["widths"])]
rows = [list(c["rows"][a:b]) for a, b in zip(starts, starts[1:])]
del rows[1]
c["rows"] = [n for row in rows for n in row]
c["widths"] = [len(row) for row in rows]""".replace("np.", "tables.np."),
    TABLE,
    "table",
)
tables(
    "the result is on the storage of an input",
    "RECORD_REFUSED RESULT_IS_INPUT INPUT_WRITTEN",
    "t['results'] = {'tensor': [0, 0, 0]}",
)
tables(
    "storages with one number",
    REFUSED,
    "c['number'] = [0 if n == 1 else n for n in c['number']]",
)
tables(
    "windows that move",
    "RECORD_REFUSED DYNAMIC WRONG_RESULT",
    "c['moving'] = [0 for _ in c['moving']]\nc['places'] = [0, 0]\nc['moves'] = [0, 0, 64, 2, 0]",
)
tables(
    "numbers of rows that are negative",
    REFUSED,
    "c['rows'] = [-n for n in c['rows']]",
)
tables(
    "an instruction waits for itself",
    REFUSED,
    "c['edges'] = [3, 3]",
)
tables(
    "a bfloat16 tensor that keeps float32",
    "RECORD_REFUSED WRONG_RESULT",
    """
for geometry in t["geometries"]:
    geometry[0][2] = {"format": "float32"}""",
    HALVES,
    "halves",
)
LARGE = kernel(
    """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
kept = [nl.ndarray((128, 16384), a.dtype, buffer=nl.sbuf) for _ in range(4)]
for t in kept:
    nisa.memset(dst=t, value=0.0)
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    for t in kept:
        nisa.tensor_tensor(dst=x, data1=x, data2=t[:, :a.shape[1]], op=nl.add)
    nisa.scalar_tensor_tensor(dst=x, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y)
    nisa.dma_copy(dst=out[i:i + 128], src=x)
return out"""
)
UNCHECKED = """
import neuroncore.memory.storage as storage
for name in ("_check_fits", "_check_room", "_check_address"):
    setattr(storage.Memory, name, lambda *a, **k: None)
"""
tables(
    "tiles that do not fit, whose areas say one byte",
    "RECORD_REFUSED CAPACITY CapacityError",
    "t['kinds'] = [[*kind[:2], 1, 1, *kind[4:]] for kind in t['kinds']]",
    f"{UNCHECKED}{LARGE}",
)
attack("tiles that do not fit", "CAPACITY RECORD_REFUSED", f"{UNCHECKED}{LARGE}")
attack(
    "a tile past the end of SBUF",
    "RECORD_REFUSED CAPACITY EmulatorError",
    UNCHECKED
    + kernel(
        """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    t = nl.ndarray(x.shape, a.dtype, buffer=nl.sbuf, address=(0, 1 << 20))
    nisa.scalar_tensor_tensor(dst=t, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y)
    nisa.dma_copy(dst=out[i:i + 128], src=t)
return out"""
    ),
)

# --- settings of the record -----------------------------------------------------------------------


def setting(name: str, codes: str, change: str) -> None:
    attack(
        name,
        codes,
        forged(
            f"""s = record.setting
        {change}
        record = replace(record, setting=s)"""
        ),
    )


setting(
    "two inputs that are one tensor",
    "WRONG_INPUTS",
    "s = replace(s, inputs=(s.inputs[0], s.inputs[1]._replace(storage=s.inputs[0].storage)))",
)
setting(
    "inputs in another order",
    "RECORD_REFUSED WRONG_RESULT",
    "s = replace(s, inputs=s.inputs[::-1])",
)
setting(
    "an input that is smaller",
    "RECORD_REFUSED WRONG_RESULT",
    "s = replace(s, inputs=(s.inputs[0]._replace(shape=(1, 1)), s.inputs[1]))",
)
setting(
    "an input of another rank",
    "passed RECORD_REFUSED WRONG_CORES",
    "s = replace(s, inputs=tuple(one.on(1) for one in s.inputs))",
)
setting("no input", "WRONG_INPUTS", "s = replace(s, inputs=())")
setting(
    "other options",
    "passed RECORD_REFUSED",
    "on = {name: not one for name, one in vars(s.options).items() if type(one) is bool}\n"
    "        s = replace(s, options=replace(s.options, **on))",
)
setting(
    "a world of two ranks",
    "RECORD_REFUSED WRONG_CORES",
    "from neuroncore.machine.world import World\n        s = replace(s, world=World(1, 2))\n"
    "        record = replace(record, programs=[p, p])",
)
setting("a record without a setting", "RECORD_REFUSED", "s = None")
attack(
    "the record brings its inputs and results along",
    "passed RECORD_REFUSED BAD_ANSWER RECORD_LIMITS",
    forged("arrays = True"),
)

# --- numbers --------------------------------------------------------------------------------------

attack(
    "a product that begins with what PSUM held",
    "UNINIT_READ WRONG_RESULT",
    PRODUCT.replace("return product(a, b)", "return product(a, b, clear=False)"),
    "product",
)
attack(
    "a sum with memory that nothing wrote",
    "UNINIT_READ WRONG_RESULT",
    kernel(
        """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
held = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    x, y, z = load(a[i:i + 128]), load(b[i:i + 128]), load(held[i:i + 128])
    nisa.scalar_tensor_tensor(dst=x, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y)
    nisa.tensor_tensor(dst=x, data1=x, data2=z, op=nl.add)
    nisa.dma_copy(dst=out[i:i + 128], src=x)
return out"""
    ),
)
attack(
    "an input is the scratch memory",
    "INPUT_WRITTEN",
    kernel("out = sums(a, b)\nnisa.dma_copy(dst=b[0:128], src=load(out[0:128]))\nreturn out"),
)
attack(
    "a result of another shape",
    "WRONG_RESULT WRONG_SHAPE",
    kernel(
        """
out = nl.ndarray((1, *a.shape), a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    nisa.dma_copy(dst=out[0, i:i + 128], src=load(sums(a, b)[i:i + 128]))
return out"""
    ),
)
attack(
    "a result that would be broadcast",
    "WRONG_RESULT WRONG_SHAPE",
    kernel(
        """
out = nl.ndarray((a.shape[0], 1), a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    nisa.dma_copy(dst=out[i:i + 128], src=load(a[i:i + 128, 0:1]))
return out"""
    ),
)
attack(
    "a result of another format",
    "WRONG_DTYPE",
    kernel(
        """
out = nl.ndarray(a.shape, nl.bfloat16, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    t = nl.ndarray((128, a.shape[1]), nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=t, src=load(sums(a, b)[i:i + 128]))
    nisa.dma_copy(dst=out[i:i + 128], src=t)
return out"""
    ),
)
attack("a result too many", "WRONG_RESULT", kernel("out = sums(a, b)\nreturn out, out"))
attack(
    "the result of the first shape is kept for the second",
    "WRONG_RESULT CONSTANTS RECORD_REFUSED",
    HONEST
    + f"""
kept = []
@nki.jit
def kernel(a, b):
    kept.append({RESULT})
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.shared_constant(np.resize(kept[0], a.shape)))
    return out
""",
)
COUNTED = LOOP.replace(
    "        nisa.tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)",
    "        turns += 1\n"
    "    nisa.tensor_scalar(dst=s, data=t, op0=nl.multiply, operand0=float(turns))",
).replace("    for _ in", "    turns = 0\n    for _ in")
attack("Python counts the iterations of a loop", "DYNAMIC CONSTANTS WRONG_RESULT", COUNTED, "loop")
tables("nothing waits for a decision", "passed RECORD_REFUSED", "c['decisions'] = []", LOOP, "loop")
tables(
    "a decision that is another",
    "RECORD_REFUSED WRONG_RESULT DYNAMIC",
    "c['branches'] = [3 if n % 4 == 2 else b for n, b in enumerate(c['branches'])]",
    LOOP,
    "loop",
)
tables(
    "decisions that are left out",
    "RECORD_REFUSED WRONG_RESULT DYNAMIC",
    "c['branches'] = []\nc['decisions'] = []",
    LOOP,
    "loop",
)
attack(
    "a decision for each element",
    "DYNAMIC DYNAMIC_CTRL",
    LOOP.replace(
        "nl.dynamic_range(r):",
        "range(100):\n        r = nisa.register_alloc()\n        nisa.register_load(r, c)\n"
        "        if r > 1: pass",
    ),
    "loop",
)


attack(
    "an object that is not a kernel",
    "passed UsageError SIGNATURE",
    "class Kernel:\n    def __call__(self, a, b): return 2 * a + b\nkernel = Kernel()",
)
attack(
    "a million instructions",
    "TIME MEMORY RECORD_LIMITS RECORD_REFUSED",
    kernel(
        """
out = sums(a, b)
x = load(a[0:128])
for i in range(1000000):
    nisa.memset(dst=x, value=float(i))
return out"""
    ),
)
