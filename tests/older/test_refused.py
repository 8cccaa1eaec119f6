"""The most frequent mistakes of people and language models in the older API: pairs of kernels that
differ in one line, of which one is refused and the other has numpy's result."""

import numpy as np
import pytest

from neuroncore.base import errors
from neuroncore.frontend.launch import NeuronWarning

HEADER = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np

@nki.jit
def kernel(x, y):
    out = nl.ndarray((OUT), dtype=np.float32, buffer=nl.shared_hbm)
"""
RNG = np.random.default_rng(7)
X = RNG.standard_normal((128, 512)).astype(np.float32)
Y = RNG.standard_normal((256, 64)).astype(np.float32)
LEFT, RIGHT = X[:, :128], X

# id: (error, words of its message, shape of out, lines before, refused, right, lines after, numpy)
PAIRS = {
    "more than 128 partitions": (
        *(errors.PartitionLimitError, "256 partitions", (128, 64), ""),
        *("t = nl.load(y)", "t = nl.load(y[0:128, :])", "nl.store(out, t)", lambda: Y[:128]),
    ),
    "a start that no engine reaches": (
        *(errors.StartPartitionError, "partition 7", (2, 512), "t = nl.load(x)"),
        *("t = nl.exp(t[7:9, :])", "t = nl.exp(t[32:34, :])"),
        *("nl.store(out, t)", lambda: np.exp(X[32:34])),
    ),
    "too large for sbuf": (
        *(errors.CapacityError, "240,000 bytes", (128, 8), ""),
        *("t = nl.zeros((128, 60000), dtype=np.float32)", "t = nl.zeros((128, 60), np.float32)"),
        *("nl.store(out, t[:, 0:8])", lambda: np.zeros((128, 8))),
    ),
    "a moving tile of more columns than a bank": (
        *(errors.FreeSizeError, "1024", (128, 1), "t = nl.load(x[:, 0:128])"),
        *("n = nl.ones((128, 1024), np.float32)", "n = nl.ones((128, 512), np.float32)"),
        "nl.store(out, nl.sum(nl.copy(nl.matmul(t, n, transpose_x=True)), axis=1))",
        lambda: 512 * LEFT.sum(axis=0)[:, None],
    ),
    "k differs": (
        *(errors.ShapeError, "K is 64", (128, 512), "t = nl.load(x)"),
        "p = nisa.nc_matmul(t[0:64, 0:128], t)",
        "p = nisa.nc_matmul(t[:, 0:128], t)",
        *("nl.store(out, p)", lambda: LEFT.T @ RIGHT),
    ),
    "x @ y where x.T @ y is meant": (
        *(errors.ShapeError, "stationary", (64, 512), "t = nl.load(x)"),
        *("p = nl.matmul(t[:, 0:64], t)", "p = nl.matmul(t[:, 0:64], t, transpose_x=True)"),
        *("nl.store(out, p)", lambda: X[:, :64].T @ X),
    ),
    "more columns of stationary than the array": (
        *(errors.KernelError, "512", (128, 512), "t = nl.load(x)"),
        *("p = nisa.nc_matmul(t, t)", "p = nisa.nc_matmul(t[:, 0:128], t)"),
        *("nl.store(out, p)", lambda: LEFT.T @ RIGHT),
    ),
    "load of what is on the chip": (
        *(errors.BufferKindError, "hbm", (128, 512), "t = nl.load(x)"),
        *("t = nl.load(t)", "t = nl.copy(t)", "nl.store(out, t)", lambda: X),
    ),
    "no load at all": (
        *(errors.BufferKindError, "not in hbm", (128, 512), ""),
        *("t = nl.exp(x)", "t = nl.exp(nl.load(x))", "nl.store(out, t)", lambda: np.exp(X)),
    ),
    "a dma from psum": (
        *(errors.BufferKindError, "not in psum", (128, 512)),
        "t = nl.load(x)\np = nisa.nc_matmul(t[:, 0:128], t)",
        "nisa.dma_copy(dst=out, src=p)",
        "nisa.dma_copy(dst=out, src=nl.copy(p))",
        *("", lambda: LEFT.T @ RIGHT),
    ),
    "a row that a dma repeats": (
        *(errors.ViewError, "NCC_IBCG901", (128, 512)),
        "i, j = nl.mgrid[0:128, 0:512]\nt = nl.ndarray((128, 512), np.float32)",
        "nisa.dma_copy(dst=t, src=x[7 + i * 0, j])",
        "t[...] = nl.load(x[7:8, :]).broadcast_to((128, 512))",
        *("nl.store(out, t)", lambda: X[7:8].repeat(128, axis=0)),
    ),
    "a row of sbuf that a dma repeats": (
        *(errors.ViewError, "stride 0 along axis 0", (128, 512)),
        "i, j = nl.mgrid[0:128, 0:512]\n"
        "t, r = nl.ndarray((128, 512), np.float32), nl.load(x[7:8, :])",
        "nisa.dma_copy(dst=t, src=r[i * 0, j])",
        "t[...] = r.broadcast_to((128, 512))",
        *("nl.store(out, t)", lambda: X[7:8].repeat(128, axis=0)),
    ),
    "float32 transposed by a dma within sbuf": (
        *(errors.DtypeError, "NCC_ISFV902", (128, 128), "t = nl.load(x[:, 0:128])"),
        "p = nisa.dma_transpose(t)",
        "p = nisa.nc_transpose(t)",
        *("nl.store(out, nl.copy(p))", lambda: LEFT.T),
    ),
    "gpsimd and psum": (
        *(errors.BufferKindError, "gpsimd", (128, 512)),
        "t = nl.load(x)\np = nisa.nc_matmul(t[:, 0:128], t)",
        "t = nisa.tensor_copy(p, engine=nisa.gpsimd_engine)",
        "t = nisa.tensor_copy(p, engine=nisa.vector_engine)",
        *("nl.store(out, t)", lambda: LEFT.T @ RIGHT),
    ),
    "both operands in psum": (
        *(errors.BufferKindError, "psum", (128, 512)),
        "t = nl.load(x)\np = nisa.nc_matmul(t[:, 0:128], t)",
        "t = nisa.tensor_tensor(p, p, op=np.add)",
        "t = nisa.tensor_tensor(p, nl.copy(p), op=np.add)",
        *("nl.store(out, t)", lambda: 2 * (LEFT.T @ RIGHT)),
    ),
    "a fold across partitions": (
        *(errors.KernelError, "axis", (128, 1), "t = nl.load(x)"),
        *("t = nisa.tensor_reduce(np.add, t, axis=(0,))",),
        *("t = nisa.tensor_reduce(np.add, t, axis=(1,))",),
        *("nl.store(out, t)", lambda: X.sum(axis=1, keepdims=True)),
    ),
    "a row for every partition": (
        *(errors.ShapeError, "partitions", (128, 512), "t, r = nl.load(x), nl.load(x[0:1, :])"),
        "t = nisa.tensor_tensor(t, r, op=np.add)",
        "t = nisa.tensor_tensor(t, r.broadcast_to((128, 512)), op=np.add)",
        *("nl.store(out, t)", lambda: X + X[:1]),
    ),
    "dst and src exchanged": (
        *(errors.ImmutableError, "'x'", (128, 512), ""),
        *("nisa.dma_copy(dst=x, src=out)", "nisa.dma_copy(dst=out, src=x)", "", lambda: X),
    ),
    "masks joined by or": (
        *(errors.DynamicControlError, "&", (128, 512)),
        "i, j = nl.mgrid[0:128, 0:512]\nt = nl.load(x)\nnl.store(out, t)",
        "inside = (i < 64) or (j < 256)",
        "inside = (i < 64) & (j < 256)",
        "nl.store(out[i, j], nl.exp(t), mask=inside)",
        lambda: np.where((np.arange(128)[:, None] < 64) & (np.arange(512) < 256), np.exp(X), X),
    ),
    "a mask of what a tile holds": (
        *(errors.SignatureError, "mask", (128, 512), "t = nl.load(x)\nnl.store(out, t)"),
        *("nl.store(out, nl.exp(t), mask=t > 0)", "nl.store(out, nl.where(t > 0, nl.exp(t), t))"),
        *("", lambda: np.where(X > 0, np.exp(X), X)),
    ),
    "the last piece": (
        *(errors.OutOfBoundsError, r"\[384, 575\]", (128, 512)),
        "i, j = nl.mgrid[0:128, 0:192]\nfor n in nl.affine_range(3):",
        "    inside = True",
        "    inside = n * 192 + j < 512",
        "    nl.store(out[i, n * 192 + j], nl.load(x[i, n * 192 + j], mask=inside), mask=inside)",
        lambda: X,
    ),
    "a sum carried through a parallel loop": (
        *(NeuronWarning, "iterations 0 and 1", (128, 128)),
        "s = nl.zeros((128, 128), np.float32)\n"
        "for n in nl.affine_range(4):\n    t = nl.load(x[:, nl.ds(n * 128, 128)])",
        *("    s[...] = nl.add(s, t)", "    s += t"),
        *("nl.store(out, s)", lambda: X.reshape(128, 4, 128).sum(axis=1)),
    ),
    "products of a parallel loop assigned instead of added": (
        *(NeuronWarning, "affine_range", (128, 128)),
        "s = nl.zeros((128, 128), np.float32, buffer=nl.psum)\n"
        "for n in nl.affine_range(4):\n    t = nl.load(x[:, nl.ds(n * 128, 128)])",
        *("    s[...] = nisa.nc_matmul(t, t)", "    s += nisa.nc_matmul(t, t)"),
        "nl.store(out, s)",
        lambda: np.einsum("knm,knp->mp", X.reshape(128, 4, 128), X.reshape(128, 4, 128)),
    ),
    "a result that every iteration overwrites": (
        *(NeuronWarning, "affine_range", (128, 512), "for n in nl.affine_range(4):"),
        "    nl.store(out[:, 0:128], nl.load(x[:, nl.ds(n * 128, 128)]))",
        "    nl.store(out[:, nl.ds(n * 128, 128)], nl.load(x[:, nl.ds(n * 128, 128)]))",
        *("", lambda: X),
    ),
    "a tile of a loop after the loop": (
        *(errors.ScopeError, "iteration that has ended", (128, 128)),
        "t = nl.ndarray((128, 128), np.float32)\nfor n in nl.sequential_range(4):",
        "    t = nl.load(x[:, nl.ds(n * 128, 128)])",
        "    t[...] = nl.load(x[:, nl.ds(n * 128, 128)])",
        *("nl.store(out, t)", lambda: X[:, 384:]),
    ),
    "dst of the current api": (
        *(errors.SignatureError, "no parameter 'dst'", (128, 512), "t = nl.load(x)"),
        "t = nisa.activation(dst=t, op=np.exp, data=t)",
        "t[...] = nisa.activation(op=np.exp, data=t)",
        *("nl.store(out, t)", lambda: np.exp(X)),
    ),
    "a misspelled keyword": (
        *(errors.SignatureError, "did you mean 'scale'", (128, 512), "t = nl.load(x)"),
        "t = nisa.activation(op=np.exp, data=t, scael=0.5)",
        "t = nisa.activation(op=np.exp, data=t, scale=0.5)",
        *("nl.store(out, t)", lambda: np.exp(0.5 * X)),
    ),
    "a keyword of a function of numbers": (
        *(errors.SignatureError, "exp has no parameter 'dtpye'", (128, 512), "t = nl.load(x)"),
        "t = nl.exp(t, dtpye=np.float32)",
        "t = nl.exp(t, dtype=np.float32)",
        *("nl.store(out, t)", lambda: np.exp(X)),
    ),
}


def kernel_of(folder, shape, *parts):
    """Return the kernel whose body consists of the parts, loaded from a separate file."""
    lines = [line for part in parts for line in part.splitlines()]
    body = "".join(f"    {line}\n" for line in [*lines, "return out"])
    path = folder / "mine.py"
    path.write_text(HEADER.replace("OUT", f"{shape[0]}, {shape[1]}") + body, encoding="utf-8")
    scope = {"__name__": "mine"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["kernel"]


@pytest.mark.parametrize("name", PAIRS)
def test_the_mistake_is_refused(name, tmp_path):
    error, words, shape, before, bad, _, after, _ = PAIRS[name]
    with pytest.raises(error, match=words) as caught:
        kernel_of(tmp_path, shape, before, bad, after)(X.copy(), Y.copy())
    if error is NeuronWarning:
        assert str(caught.value).startswith(f"{tmp_path / 'mine.py'}:")
        return
    assert caught.value.place.file == str(tmp_path / "mine.py")
    line = caught.value.place.text.strip()
    assert line in (bad.strip(), *after.splitlines(), *(one.strip() for one in after.splitlines()))


@pytest.mark.parametrize("name", PAIRS)
def test_the_twin_gives_the_numbers_of_numpy(name, tmp_path):
    _, _, shape, before, _, good, after, want = PAIRS[name]
    got = kernel_of(tmp_path, shape, before, good, after)(X.copy(), Y.copy())
    np.testing.assert_allclose(got, want(), rtol=2e-5, atol=2e-4)


def test_uninitialized_reads_of_the_older_api_are_reported(tmp_path):
    kernel = kernel_of(tmp_path, (128, 512), "nl.store(out, nl.ndarray((128, 512), np.float32))")
    with pytest.raises(NeuronWarning, match="UNINIT_READ"):
        kernel(X, Y)
