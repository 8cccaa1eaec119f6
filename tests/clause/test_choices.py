"""Loops that copy selected elements of large arrays: widths, gaps between rows, overlap."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.alu import OPERATORS

SHAPE = 33, 71  # more elements than numpy copies itself


def numbers(kind, seed):
    return np.random.default_rng(seed).integers(0, 200, SHAPE).astype(kind)


@for_all("kind", ["uint8", "int16", "float16", "int32", "float32", "float64"])
@for_all("gaps", [False, True])
def test_only_the_selected_elements_are_copied(kind, gaps):
    chosen, source, before = numbers(int, 0) % 3 == 0, numbers(kind, 1), numbers(kind, 2)
    room = np.zeros((SHAPE[0], SHAPE[1] + gaps), kind)
    out = room[:, : SHAPE[1]]
    for codes in (source, np.asfortranarray(source), source[3, 4]):
        out[...] = before
        numeric.choose(chosen, codes, out)
        assert np.array_equal(out, np.where(chosen, codes, before))
    assert not room[:, SHAPE[1] :].any()


def test_a_source_that_overlaps_the_result_is_read_first():
    room = np.arange(2 * SHAPE[0] * SHAPE[1], dtype=np.int32)
    size = SHAPE[0] * SHAPE[1]
    out, source = room[7 : 7 + size].reshape(SHAPE), room[:size].reshape(SHAPE)
    chosen = numbers(int, 3) % 2 == 0
    expected = np.where(chosen, source, out)
    numeric.choose(chosen, source, out)
    assert np.array_equal(out, expected)


def test_values_are_selected_with_one_alternative_for_each_lane():
    chosen, values = numbers(int, 4) % 2 == 0, numbers(np.float32, 5)
    lanes = np.arange(SHAPE[0], dtype=np.float32)[:, np.newaxis]
    assert np.array_equal(numeric.where(chosen, values, lanes), np.where(chosen, values, lanes))


def test_powers_of_minus_zero_and_minus_infinity_equal_those_of_C():
    a, out = np.array([[-0.0, -np.inf, 4, -4]], np.float32), np.empty((1, 4), np.float32)
    OPERATORS["power"].apply(a, np.float32(0.5), out)
    assert out.tolist()[0][:3] == [0, np.inf, 2] and not np.signbit(out[0, 0])
    assert np.isnan(out[0, 3])


@nki.jit
def compared(a, b, op, form):
    out, tile = (nl.ndarray(a.shape, form, buffer=m) for m in (nl.shared_hbm, nl.sbuf))
    nisa.tensor_tensor(dst=tile[:, 1:], data1=nl.load(a)[:, 1:], data2=nl.load(b)[:, 1:], op=op)
    nisa.tensor_scalar(dst=tile[:, 0:1], data=nl.load(a)[:, 0:1], op0=op, operand0=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("form", [nl.uint8, nl.int8, nl.bool_, nl.bfloat16])
def test_comparisons_write_0_and_1_to_any_format(form):
    edges = np.array([0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan], np.float32)
    a, b = (np.ascontiguousarray(m, np.float32) for m in np.meshgrid(edges, edges))
    for op, of_numpy in ((nl.less, np.less), (nl.not_equal, np.not_equal), (nl.logical_and, None)):
        expected = np.logical_and(a, b) if of_numpy is None else of_numpy(a, b)
        other = np.logical_and(a, 0.5) if of_numpy is None else of_numpy(a, 0.5)
        expected[:, 0] = other[:, 0]
        assert np.array_equal(np.asarray(compared(a, b, op, form), np.float32), expected)
