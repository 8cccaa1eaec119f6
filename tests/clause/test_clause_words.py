"""Parts of which clauses consist: formats by name, operands, rules about parameters."""

import nki.language as nl
import numpy as np
import pytest
from device import Device, noise, same

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.base.errors import DtypeError, OperatorError
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.operand import PSUM, SBUF, formats, reads, writes
from neuroncore.numerics.formats import FORMATS, bool_, float32, int32


def test_formats_are_found_by_their_names():
    assert formats("float32 bool") == (float32, bool_)
    assert {*FORMATS.values()} - {*formats("but float32 bool")} == {float32, bool_}
    with pytest.raises(KeyError):
        formats("float33")


def test_operands_are_in_memories_that_their_engine_reaches():
    anything, some = reads(), writes("int32", SBUF, partial=True)
    assert anything.reads and not anything.writes
    assert anything.dtypes is None and anything.regions == (SBUF, PSUM)
    assert some.writes and not some.reads and some.partial
    assert some.dtypes == (int32,) and some.regions == (SBUF,)


@pytest.mark.parametrize("chosen", [[True, False, True], [[True, False]] * 2 + [[False, True]]])
def test_selected_elements_are_stored_and_count_as_written(chosen):
    device, chosen = Device(), np.array(chosen)
    tile, values = device.empty((3, 2)), noise((3, 2))
    numeric.put(tile, chosen, values[chosen])
    same(tile.codes()[chosen], values[chosen])
    written = ~tile.missing()
    assert (written == np.broadcast_to(chosen.reshape(3, -1), (3, 2))).all()


# --- rules about parameters -----------------------------------------------------------------------


@pytest.fixture
def device():
    return Device("trn3")


def tiles(device, *dtypes):
    return [device.zeros((4, 6), dtype) for dtype in dtypes]


def test_a_second_operand_needs_a_second_operator(device):
    dst, data = tiles(device, "float32", "float32")
    given = dst, data, nl.add, 1.0
    words = ["operand1", "op1=None"]
    device.refuses(OperatorError, "tensor_scalar", *given, operand1=2.0, words=words)
    device.issue("tensor_scalar", *given, op1=nl.add, operand1=2.0)


def test_operators_must_have_their_operands(device):
    dst, data = tiles(device, "float32", "float32")
    words, column = ["operand0"], device.zeros((4, 1))
    for op, wrong, right in ((nl.add, None, 1.0), (nl.abs, column, None), (nl.abs, 1.0, 0)):
        error = device.refuses(OperatorError, "tensor_scalar", dst, data, op, wrong, words=words)
        assert error.argument == "operand0"
        device.issue("tensor_scalar", dst, data, op, right)


PATHS = ("add", "int32", "float32"), ("bitwise_and", "float32", "int32")


@pytest.mark.parametrize(("op", "wrong", "right"), PATHS)
def test_scalars_of_a_lane_have_the_format_of_its_data_path(device, op, wrong, right):
    dst, data = tiles(device, *([right] * 2))
    given = dst, data, getattr(nl, op)
    column = device.zeros((4, 1), wrong)
    device.refuses(DtypeError, "tensor_scalar", *given, column, words=["operand0", wrong])
    device.issue("tensor_scalar", *given, device.zeros((4, 1), right))


def test_an_initial_value_of_registers_needs_the_command_that_uses_it(device):
    dst, data = tiles(device, "float32", "float32")
    given = dst, data, nl.add, 1.0, nl.add
    load = {"reduce_cmd": reduce_cmd.load_reduce}
    words = ["reduce_init", "reduce_cmd=load_reduce"]
    device.refuses(OperatorError, "tensor_scalar_reduce", *given, **load, words=words)
    words = ["reduce_init", "reduce_cmd=reset_reduce"]
    device.refuses(OperatorError, "tensor_scalar_reduce", *given, reduce_init=0.0, words=words)
    device.issue("tensor_scalar_reduce", *given, **load, reduce_init=0.0)


def test_operators_run_only_on_engines_that_have_them(device):
    dst, data = tiles(device, "float32", "float32")
    given = dst, data, data, nl.power
    words = ["nl.power", "vector"]
    device.refuses(OperatorError, "tensor_tensor", *given, engine=engine.vector, words=words)
    device.issue("tensor_tensor", *given, engine=engine.gpsimd)


def test_a_constant_for_integers_must_be_representable(device):
    (dst,) = tiles(device, "int8")
    for value in (128, -129, 1.0):
        device.refuses(DtypeError, "memset", dst, value, words=["int8", "-128 to 127"])
    device.issue("memset", dst, -128)
    same(dst.numpy(), np.full((4, 6), -128, np.int8))
