"""A fault of the emulator is reported as such, with its cause, and a mistake of the user as the
user's."""

import json

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.base import errors
from neuroncore.clause.immediate import Immediate
from neuroncore.cli import main
from neuroncore.core import binding, legality
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.memory import access
from neuroncore.memory.tile import Tile
from neuroncore.record.inputs import Data


def failing(kind):
    def fails(*_, **__):
        raise kind("a fault")

    return fails


def scaled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile, half = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(half, tile, nl.multiply, 0.5)  # here
    nisa.dma_copy(out, half)
    return out


# functions inside an instruction that fail: steps that find, check, execute and record a call
BELOW = {
    "the key of a tile": (Tile, "signature", AttributeError),
    "a number that is taken": (Immediate, "take", AttributeError),
    "what checks a call": (legality, "check", TypeError),
    "what is staged": (binding, "stage", KeyError),
    "the record": (Data, "value", ZeroDivisionError),
}


@pytest.mark.parametrize("what", BELOW)
def test_a_fault_of_the_emulator_is_not_blamed_on_the_kernel(what, monkeypatch):
    home, name, kind = BELOW[what]
    device = Device()
    x, out = device.tile(np.ones((3, 5), np.float32)), device.zeros((3, 5))
    x._signature = out._signature = None
    legality.known.clear()
    monkeypatch.setattr(home, name, failing(kind))
    with pytest.raises(errors.EmulatorError, match="neuroncore failed at ") as told:
        device.call(nisa.memset, out, np.float32(0.5))
        device.call(nisa.tensor_scalar, out, x, nl.multiply, 0.5)
    assert type(told.value.__cause__) is kind
    assert not isinstance(told.value, errors.KernelError)
    assert "please report it" in str(told.value)


def test_a_fault_of_the_emulator_names_the_line_of_the_kernel(monkeypatch):
    monkeypatch.setattr(binding, "stage", failing(ValueError))
    with pytest.raises(errors.EmulatorError) as told:
        launch(scaled, [np.ones((3, 7), np.float32)], tensor=NkiTensor)
    line = scaled.__code__.co_firstlineno + 2
    assert f"{__file__}:{line}: neuroncore failed at dma_copy: ValueError: a fault" in str(
        told.value
    )


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_an_integer_beyond_all_floats_is_a_mistake_of_the_kernel(number):
    device = Device()
    x, out = device.tile(np.ones((3, 5), np.float32)), device.zeros((3, 5))
    for call, name in [
        ((nisa.memset, out, number), "value"),
        ((nisa.tensor_scalar, out, x, nl.multiply, 0.5, False, nl.add, number), "operand1"),
        ((nisa.range_select, out, x, nl.less, nl.less, 1, number), "bound1"),
    ]:
        with pytest.raises(errors.DtypeError, match=f"{name} is an integer beyond all floating"):
            device.call(*call)


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, OSError])
def test_a_lack_of_memory_of_the_host_is_not_a_fault_of_the_emulator(kind, monkeypatch):
    device = Device()
    x = device.tile(np.ones((3, 6), np.float32))
    monkeypatch.setattr(binding, "stage", failing(kind))
    with pytest.raises(kind):
        device.call(nisa.tensor_copy, device.zeros((3, 6)), x)


MISTAKES = {
    "no tile": lambda x, out: nisa.tensor_scalar(out, 3, nl.add, 1.0),
    "no operator": lambda x, out: nisa.tensor_scalar(out, x, "add", 1.0),
    "no function": lambda x, out: nisa.activation(out, nl.add, x),
    "no list": lambda x, out: nisa.dma_compute(out, x, nl.add),
    "no engine": lambda x, out: nisa.tensor_copy(out, x, engine={}),
    "no constant": lambda x, out: nisa.dma_transpose(out, x, axes=[[1], [0]]),
    "no axis": lambda x, out: nisa.tensor_reduce(out, nl.add, x, axis={1: 2}),
    "no numbers": lambda x, out: nisa.iota(out, [[1, "a"]], 0),
}


@for_all("what", MISTAKES)
def test_a_mistake_of_the_kernel_is_reported_as_such(what):
    device = Device()
    x, out = device.tile(np.ones((3, 5), np.float32)), device.zeros((3, 5))
    with pytest.raises(errors.KernelError):
        device.call(MISTAKES[what], x, out)


def test_a_missing_attribute_in_emulator_code_is_not_an_unknown_name_of_the_kernel(monkeypatch):
    monkeypatch.delattr(access, "reshaped")

    def kernel(x):
        return x.flatten_dims(0, 1)

    with pytest.raises(errors.EmulatorError, match="no attribute 'reshaped'") as told:
        launch(kernel, [np.ones((3, 5), np.float32)], tensor=NkiTensor)
    assert type(told.value.__cause__) is AttributeError


KERNEL = """import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(binding, "stage", failing(KeyError))
    (tmp_path / "mine.py").write_text(KERNEL)
    return f"{tmp_path / 'mine.py'}::copied"


@pytest.mark.parametrize("command", ["run", "why", "view"])
def test_commands_end_with_3_and_the_cause(command, file, tmp_path, capsys):
    more = ["-o", str(tmp_path / "page.html")] if command == "view" else []
    assert main([command, file, "--args", "float32[4,4]", *more]) == 3
    said = capsys.readouterr().err
    assert "KeyError: 'a fault'" in said and "mine.py:6: neuroncore failed at dma_copy" in said


def test_json_says_that_it_is_a_fault_of_the_emulator(file, capsys):
    assert main(["run", file, "--args", "float32[4,4]", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["ours"] and "neuroncore failed at dma_copy" in error["statement"]


def test_diff_ends_with_3(file):
    assert main(["diff", file, file, "--args", "float32[4,4]"]) == 3


def test_a_fault_of_the_command_itself_ends_with_3(monkeypatch, capsys):
    monkeypatch.setattr("neuroncore.machine.names", failing(IndexError))
    assert main(["machines"]) == 3
    said = capsys.readouterr().err
    assert "IndexError: a fault" in said and "please report it" in said
