"""Pages of small kernels."""

import base64
import json
import re
import zlib
from itertools import repeat

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import neuroncore


@nki.jit
def product(a_t, b):
    """Return a_t.T @ b + 1, computed one tile of the result after the other."""
    (depth, rows), columns = a_t.shape, b.shape[1]
    c = nl.ndarray((rows, columns), nl.float32, buffer=nl.shared_hbm)
    for n in range(0, columns, 64):
        left = nl.ndarray((depth, rows), a_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a_t)
        right = nl.ndarray((depth, 64), b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=right, src=b[:, n : n + 64])
        total = nl.ndarray((rows, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
        result = nl.ndarray((rows, 64), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=total, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=c[:, n : n + 64], src=result)
    return c


def operands(columns=256):
    rng = np.random.default_rng(0)
    shapes = (128, 96), (128, columns)
    return [rng.standard_normal(shape).astype(nl.bfloat16) for shape in shapes]


def run(columns=256):
    return neuroncore.run(product, *operands(columns))


def document(page):
    """The document of a page, with its compressed texts as JSON values."""
    made = json.loads(re.search(r'id="document">(.*?)</script>', page.html, re.DOTALL)[1])
    for core in made["cores"]:
        for name in ("calls", "patterns"):
            core[name] = json.loads(zlib.decompress(base64.b64decode(core[name])))
        core["calls"] = filled(**core["calls"])
    return made


def filled(forms, of):
    """The calls of a page, in which numbers fill the gaps in the texts of their forms."""
    rows = []
    for form in forms:
        columns = [form["columns"][c] if isinstance(c, int) else c for c in form["columns"]]
        rows.append(zip(*columns, strict=True) if columns else repeat(()))
    texts = [form["text"].replace("%", "%%").replace("\n", "%d") for form in forms]
    return [json.loads(texts[form] % next(rows[form])) for form in of]


def column(core, name):
    """A column of a document as numbers."""
    packed = core["columns"][name]
    content, kind = zlib.decompress(base64.b64decode(packed["data"])), np.dtype(packed["type"])
    if "planes" in packed:
        planes = np.frombuffer(content, np.uint8).reshape(packed["planes"], -1).astype(np.int64)
        values = (planes << 8 * np.arange(len(planes))[:, None]).sum(axis=0)
        values = signed_order(values) if kind.kind == "i" else values
    else:
        values = np.frombuffer(content, kind).astype(np.int64)
    if packed.get("by_call"):
        return summed_by_call(signed_order(values), column(core, "call"))
    return np.cumsum(values) if packed.get("sums") else values


def signed_order(values):
    """Map 0, 1, 2, 3, 4 to 0, -1, 1, -2, 2."""
    return np.where(values % 2, -(values + 1) // 2, values // 2)


def summed_by_call(values, call):
    """Integers that are relative to the previous ones of the same call."""
    found = np.zeros(len(values), np.int64)
    for c in np.unique(call):
        found[call == c] = np.cumsum(values[call == c])
    return found
