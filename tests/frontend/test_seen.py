"""A debugger and a notebook show the contents of a tile inside a kernel."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki as older_nki
from neuronxcc.nki import language as older_nl

import neuroncore

X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.fixture
def seen():
    """Return the tile texts that a kernel has collected."""
    return []


def test_a_tile_shows_its_corners_and_uninitialized_elements(seen):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
        seen.append(repr(tile))
        nisa.dma_copy(dst=tile[:, 0:4], src=x[:, 0:4])
        seen.extend([repr(tile), repr(tile[1:3, 2:4]), repr(x), str(x), tile[:, 0:4]._repr_html_()])
        nisa.dma_copy(dst=tile[:, 4:8], src=x[:, 4:8])
        nisa.dma_copy(dst=out, src=tile)
        return out

    kernel(X)
    never, half, part, given, said, picture = seen
    assert never.startswith("NkiTensor")
    assert never.endswith("(4 x 8 bfloat16 in sbuf) [[-- .. --] .. [-- .. --]]")
    assert half.endswith("(4 x 8 bfloat16 in sbuf) [[0 .. --] .. [24 .. --]]")
    assert part.endswith("(2 x 2 bfloat16 in sbuf) [[10 11] [18 19]]")
    assert given.endswith("(4 x 8 float32 in private_hbm) [[0 .. 7] .. [24 .. 31]]")
    assert said == given.partition(" [")[0]
    assert picture.startswith("<div><b>NkiTensor") and "from 0 (dark) to 27 (bright)" in picture


def test_integers_are_exact_and_packed_elements_are_bits(seen):
    @nki.jit
    def kernel(x):
        tile = nl.ndarray((32, 3), nl.int32, buffer=nl.sbuf)
        nisa.iota(tile, [[1, 3]], 2**25 + 1, -(2**22))
        source, scales = nl.load(x), nl.ndarray((32, 3), nl.uint8, buffer=nl.sbuf)
        quantized = nl.ndarray((32, 3), nl.float8_e5m2_x4, buffer=nl.sbuf)
        nisa.quantize_mx(quantized, source, scales)
        shown = [tile, tile.view(nl.uint8), quantized, nl.ndarray((1, 2), nl.float8_e5m2_x4)]
        seen.extend(repr(one).partition(") ")[2] for one in shown)
        return x

    neuroncore.run(kernel, np.ones((32, 12), np.float16), target="trn3")
    assert seen == [
        "[[33554433 .. 33554435] .. [-96468991 .. -96468989]]",
        "[[1 .. 2] .. [1 .. 250]]",
        "[[0x74747474 .. 0x74747474] .. [0x74747474 .. 0x74747474]]",
        "[[-- --]]",
    ]


def test_a_tile_of_the_older_api_shows_its_contents_too(seen):
    @older_nki.jit
    def kernel(x):
        out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
        tile = older_nl.load(x)
        seen.append(repr(tile))
        older_nl.store(out, tile)
        return out

    kernel(X)
    assert seen[0].endswith("(4 x 8 float32 in sbuf) [[0 .. 7] .. [24 .. 31]]")


def test_showing_a_tile_changes_nothing(seen):
    @nki.jit
    def kernel(x, looks):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        if looks:
            seen.extend([repr(tile), tile._repr_html_()])
        nisa.dma_copy(dst=tile[:, 0:4], src=x[:, 0:4])
        nisa.dma_copy(dst=out, src=tile)
        return out

    plain, looked = (neuroncore.run(kernel, X, looks) for looks in (False, True))
    assert seen and [str(f) for f in plain.findings] == [str(f) for f in looked.findings]
    assert plain.results.tobytes() == looked.results.tobytes()
    assert plain.estimate == looked.estimate


def test_rows_that_an_index_selects_are_not_shown(seen):
    @nki.jit
    def kernel(x, rows):
        index, tile = nl.load(rows), nl.ndarray((2, 8), x.dtype, buffer=nl.sbuf)
        view = x.ap([[8, 2], [1, 8]], vector_offset=index, indirect_dim=0)
        seen.extend([repr(view), view._repr_html_()])
        nisa.dma_copy(dst=tile, src=view)
        out = nl.ndarray((2, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert np.array_equal(kernel(X, np.array([[3], [1]], np.int32)), X[[3, 1]])
    text, picture = seen
    assert text.endswith("(2 x 8 float32 in private_hbm)") and picture is None
