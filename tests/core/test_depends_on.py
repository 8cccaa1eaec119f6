"""Dependencies that a kernel declares between instructions."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.base.errors import NotEmulated, SignatureError
from neuroncore.base.options import Options
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.time.schedule import schedule

X = np.ones((64, 512), np.float32)


def timeline(function, **options):
    run = launch(function, (X,), tensor=NkiTensor, target="trn2", options=Options(**options))
    return schedule(run.core.program, run.machine)


def test_an_instruction_has_the_published_class():
    seen = []
    timeline(lambda x: independent(x, lambda vector, scalar: seen.append(vector)))
    assert isinstance(seen[0], nisa.NkiInstruction)


def independent(x, wire):
    """Two instructions on two engines without common data: rows 1 and 2 of the record."""
    tile = nl.load(x)
    on_vector = nisa.tensor_scalar(nl.ndarray(x.shape, x.dtype), tile, nl.add, 1.0)
    on_scalar = nisa.activation(nl.ndarray(x.shape, x.dtype), nl.exp, tile)
    wire(on_vector, on_scalar)
    return x


def test_without_a_dependency_both_engines_work_at_once():
    time = timeline(lambda x: independent(x, lambda vector, scalar: None))
    assert time.begin[2] < time.end[1]


@pytest.mark.parametrize("times", [1, 2])
def test_a_consumer_begins_after_its_producer_is_done(times):
    time = timeline(
        lambda x: independent(x, lambda vector, scalar: scalar.depends_on(*[vector] * times))
    )
    assert time.begin[2] >= time.end[1]


def test_dependencies_are_transitive():
    seen = []
    timeline(lambda x: independent(x, lambda v, s: seen.append((s, s.depends_on(v).depends_on(v)))))
    assert seen[0][0] is seen[0][1]


def test_results_do_not_change():
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        first = nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile).depends_on(first)
        return out

    np.testing.assert_array_equal(kernel(X), X + 1)


def test_without_a_record_a_dependency_has_no_effect():
    run = launch(
        lambda x: independent(x, lambda vector, scalar: scalar.depends_on(vector)),
        (X,),
        tensor=NkiTensor,
        options=Options(record=False),
    )
    assert run.core.program is None


def test_waiting_for_a_later_instruction_is_not_emulated():
    with pytest.raises(NotEmulated, match="issued after"):
        timeline(lambda x: independent(x, lambda vector, scalar: vector.depends_on(scalar)))


def test_only_instructions_can_be_waited_for():
    with pytest.raises(SignatureError, match="not str"):
        timeline(lambda x: independent(x, lambda vector, scalar: scalar.depends_on("vector")))


def test_no_instruction_waits_for_itself_or_for_another_launch():
    with pytest.raises(SignatureError, match="can't wait for itself"):
        timeline(lambda x: independent(x, lambda vector, scalar: scalar.depends_on(scalar)))
    seen = []
    timeline(lambda x: independent(x, lambda vector, scalar: seen.append(vector)))
    with pytest.raises(SignatureError, match="an instruction of another core or launch"):
        timeline(lambda x: independent(x, lambda vector, scalar: scalar.depends_on(*seen)))


def test_an_omitted_instruction_has_no_dependencies():
    def kernel(x):
        tile, out = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nothing = nisa.memset(tile[0:0], 0.0)
        first = nisa.tensor_copy(tile, tile)
        nisa.memset(tile[0:0], 0.0).depends_on(first, nothing)
        nisa.dma_copy(out, tile).depends_on(nothing)
        return out

    found = timeline(kernel)
    assert (found.begin >= 0).all() and np.isfinite(found.total_ns)
