"""HBM has a limit, and a result that was never written takes no memory of the host, however large
it is."""

import nki
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl
from published_machines import PUBLISHED

from neuroncore import machine
from neuroncore.base.errors import CapacityError, NotEmulated, OutputError
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.memory import storage

GIB = 1 << 30
STACKS = {name: row.stack * GIB for name, row in PUBLISHED.items()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("buffer", [nl.shared_hbm, nl.private_hbm])
def test_a_tensor_may_fill_a_stack_but_not_more(target, buffer, monkeypatch):
    monkeypatch.setattr(storage.buffers, "take", np.empty_like)  # this computer may have less
    device = Device(target)
    assert device.core.machine.hbm.stack_bytes == STACKS[target]
    rows = STACKS[target] >> 22
    assert device.call(nl.ndarray, (rows, 1 << 20), nl.float32, buffer=buffer).shape[0] == rows
    device = Device(target)
    with pytest.raises(CapacityError) as refused:
        device.call(nl.ndarray, (rows + 1, 1 << 20), nl.float32, buffer=buffer)
    message = str(refused.value)
    assert f"{(rows + 1) << 22:,} bytes" in message and f"{STACKS[target]:,}" in message


def test_tensors_with_overlapping_lifetimes_are_counted_together(monkeypatch):
    """Arguments and shared tensors live for the whole launch; private tensors of a core may reuse
    memory."""
    monkeypatch.setattr(storage.buffers, "take", np.empty_like)
    device = Device("trn2")
    for _ in range(3):
        device.call(nl.ndarray, (4096, 1 << 20), nl.float32, buffer=nl.private_hbm)
    device.call(nl.ndarray, (4096, 1 << 20), nl.float32, buffer=nl.shared_hbm)
    with pytest.raises(CapacityError, match=f"in addition to {16 * GIB:,} bytes of other tensors"):
        device.call(nl.ndarray, (4096, 1 << 20), nl.float32, buffer=nl.shared_hbm)


def test_arguments_are_counted(monkeypatch):
    monkeypatch.setattr(machine.Hbm, "stack_bytes", 1000)
    x, y = np.zeros(125, np.float32), np.zeros(126, np.float32)
    assert launch(lambda x, again: x, [x, x.copy()], tensor=NkiTensor).outputs is x
    with pytest.raises(CapacityError, match=r"tensor 'y' .126. of float32 needs 504 bytes"):
        launch(lambda x, y: x, [x, y], tensor=NkiTensor)


def test_a_tensor_larger_than_the_memory_of_the_host_is_reported(monkeypatch):
    def none(nbytes):
        raise MemoryError

    monkeypatch.setattr(storage.buffers, "take", none)
    with pytest.raises(NotEmulated, match=r"tensor \(4 x 4\) needs more memory than this computer"):
        Device().empty((4, 4), buffer="hbm")


# --- results that were never written --------------------------------------------------------------


@nki.jit
def forgotten(x, rows: int):
    nl.load(x)
    return nl.ndarray((rows, 1 << 20), nl.float32, buffer=nl.shared_hbm)


@pytest.mark.parametrize("rows", [1, 2048])
def test_a_result_that_was_never_written_is_poison_everywhere(rows):
    """8 GiB take no time, and have the same finding as a small result."""
    with pytest.warns(
        NeuronWarning, match=f"OUTPUT_NOT_WRITTEN.*{rows << 20:,} of the {rows << 20:,}"
    ):
        result = forgotten(np.zeros((4, 4), np.float32), rows)
    assert result.shape == (rows, 1 << 20) and result.dtype == np.float32
    assert np.isnan(result[[0, -1], :5]).all()
    assert result.strides == (0, 0)  # one element, repeated


def test_a_result_that_was_partly_written_is_a_separate_array():
    @nki.jit
    def half(x):
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out[0:1], nl.load(x))
        return out

    with pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN.*4 of the 8"):
        result = half(np.ones((1, 4), np.float32))
    assert (result[0] == 1).all() and np.isnan(result[1]).all()
    result[1] = 2


def test_results_that_neither_core_wrote_are_not_combined():
    with pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN"):
        assert np.isnan(forgotten[2](np.zeros((4, 4), np.float32), 2048)[0, 0])


def test_the_older_api_refuses_a_result_that_was_never_written():
    @older.jit
    def kernel(x):
        out = older_nl.ndarray((2048, 1 << 20), np.float32, buffer=older_nl.shared_hbm)
        older_nl.load(x)
        return out

    with pytest.raises(OutputError, match="nothing was written"):
        kernel(np.zeros((4, 4), np.float32))
