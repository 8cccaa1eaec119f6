"""Tiles of a run, as text and as a heat map."""

import base64
import re
import struct
import zlib

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.errors import UsageError

X = np.arange(32, dtype=np.float32).reshape(4, 8)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:4], src=x[:, 0:4])
    nisa.memset(tile[:, 4:8], float("nan"))
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.fixture
def run():
    return neuroncore.run(kernel, X)


def test_a_tile_is_an_array_and_prints_its_shape_format_and_corners(run):
    tile = run.tile(0, "src")
    assert (np.asarray(tile) == X[:, :4]).all()
    told = repr(run.tile(2, "src"))
    assert told.startswith("src of instruction 2 of core 0, before it: 4 x 8 bfloat16\n")
    assert "[[ 0.  1. ... nan nan]" in told and "[24. 25. ... nan nan]]" in told


def test_elements_that_were_never_written_are_marked(run):
    before, after = run.tile(0, "dst"), run.tile(0, "dst", after=True)
    assert "--" in repr(before) and "--" not in repr(after)
    assert "unwritten 16" in before._repr_html_() and "unwritten" not in after._repr_html_()


def test_the_heat_map_has_a_pixel_for_each_element(run):
    shown = run.tile(2, "src")._repr_html_()
    assert "from 0 (dark) to 27 (bright), nan 16" in shown
    content = base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1])
    assert struct.unpack(">II", content[16:24]) == (8, 4)
    data = content[content.index(b"IDAT") + 4 : content.index(b"IEND") - 8]
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(4, 1 + 8 * 3)
    pixels = lines[:, 1:].reshape(4, 8, 3)
    assert pixels[0, 0].tolist() == [68, 1, 84] and pixels[3, 3].tolist() == [253, 231, 37]
    assert (pixels[:, 4:] == [255, 0, 0]).all()


def test_a_tile_that_does_not_exist_is_refused(run):
    with pytest.raises(UsageError, match="no tile 'data'"):
        run.tile(0, "data")
