"""The time at which loops are compiled: small loops run as plain Python, so that numba is not
loaded."""

from concurrent.futures import ThreadPoolExecutor

import nki.isa as nisa
import numpy as np
import pytest
from device import Device

from neuroncore import machine
from neuroncore.base import jit
from neuroncore.base.jit import borrowing, compiled
from neuroncore.numerics.loops import matmul
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule


@borrowing
def twice(x):
    return 2 * x


@compiled
def doubled(count):
    found = 0
    for i in range(count):
        found += twice(i)
    return found


def test_a_loop_is_compiled_after_enough_iterations():
    def loop(numbers):
        return type(numbers[0])

    looped = compiled(loop)
    assert looped.over(jit.COLD)(np.zeros(3, np.int32)) is int
    assert looped.over(1) is looped


def test_cached_machine_code_is_used_after_fewer_iterations(monkeypatch, tmp_path):
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path))
    one, other = (compiled(doubled.plain) for _ in range(2))
    assert one.over(jit.WARM + 1) is not one
    one(10)
    assert other.over(jit.WARM) is not other
    assert other.over(1) is other


@pytest.mark.parametrize("denied", ["save", "load"])
def test_machine_code_whose_files_cannot_be_accessed_is_still_used(denied, monkeypatch, tmp_path):
    def refused(*_):
        raise PermissionError(tmp_path)

    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(f"numba.core.caching.IndexDataCacheFile.{denied}", refused)
    assert compiled(doubled.plain)(10) == doubled.plain(10)


def test_machine_code_of_other_sources_is_removed(monkeypatch, tmp_path):
    sources, folder = tmp_path / "sources/numerics/loops", tmp_path / "cache"
    for made in (sources, folder):
        made.mkdir(parents=True)
    monkeypatch.setattr(jit, "PACKAGE", tmp_path / "sources")
    index, renew = folder / "loops.nbi", jit.renew.__wrapped__

    def kept():
        index.touch()
        renew(str(folder))
        return index.exists()

    source = sources / "parts.py"
    source.write_text("ONE = 1")
    assert [kept(), kept()] == [False, True]
    source.write_text("ONE = 2")
    assert [kept(), kept()] == [False, True]


def test_one_process_at_a_time_compiles_a_function_and_the_others_load_it(tmp_path):
    kept = {}
    first, second = (jit.CompilationLock(tmp_path / "doubled.lock") for _ in range(2))
    assert first.before(kept.get)("int64") is None
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(second.before(kept.get), "int64")
        assert not waits.done()
        first.after(kept.__setitem__)("int64", "machine code")
        assert waits.result() == "machine code"
    assert jit.locked(tmp_path / "doubled.lock") is not None


def test_a_process_that_compiles_for_too_long_does_not_block_others(monkeypatch, tmp_path):
    first, second = (jit.CompilationLock(tmp_path / "doubled.lock") for _ in range(2))
    monkeypatch.setattr(jit, "LONGEST_WAIT", 0.05)
    assert first.before({}.get)("int64") is None
    assert second.before({}.get)("int64") is None
    assert jit.CompilationLock(tmp_path / "missing/doubled.lock").before({}.get)("int64") is None


def test_plain_and_compiled_functions_call_their_parts_alike():
    assert doubled(10) == doubled.plain(10) == 90


@pytest.fixture
def program():
    device = Device()
    tile, total = device.zeros((128, 8)), device.zeros((8, 8), buffer="psum")
    host = device.zeros((128, 8), buffer="hbm")
    device.issue("dma_copy", tile, host)
    device.issue("nc_matmul", total, tile, tile)
    device.issue("tensor_copy", tile[:8], total)
    device.issue("tensor_copy", tile, tile, engine=nisa.engine.gpsimd)
    device.issue("dma_copy", host, tile)
    return device.core.program


@pytest.mark.parametrize("order", POLICIES)
def test_a_small_program_is_timed_without_numba(program, order, monkeypatch):
    def refused(_):
        raise AssertionError("numba was asked for")

    monkeypatch.setattr(jit, "COLD", 1 << 60)
    monkeypatch.setattr(jit.KeptCode, "is_at_hand", False)
    for kind in (jit.CompiledLoop, jit.KeptCode):
        monkeypatch.setattr(kind, "dispatcher", property(refused))
    assert schedule(program, machine.load("trn2"), order).total_ns > 0


def test_the_first_compilation_prints_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path))  # or it is printed once
    monkeypatch.delenv("NEURONCORE_PROGRESS")
    jit.say_that_it_compiles.cache_clear()
    jit.watch_compilation()

    def compile_one_of(module):
        def loop():
            pass

        loop.__module__ = module
        jit.CompiledLoop(loop)()

    compile_one_of("tests.loops")
    assert capsys.readouterr().err == ""
    for _ in range(2):
        compile_one_of("neuroncore.base.loops")
    assert capsys.readouterr().err == ("neuroncore: compiling loops (once per install)\n")


@pytest.mark.parametrize(
    ("source", "weights", "number"),
    [
        (np.zeros((4, 4), np.int32), np.zeros((1, 4, 4), np.float32), 0),
        (np.zeros((4, 4, 1), np.float32), np.zeros((1, 4, 4), np.float32), 0),
        (np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32), 1),
        (np.zeros((4, 4), np.float32), np.zeros((4, 4, 2), np.float32)[:, :, ::2], 1),
    ],
    ids=["format", "axes", "axes of the result", "order"],
)
def test_machine_code_asserts_the_types_of_its_arguments(source, weights, number):
    with pytest.raises(AssertionError, match=f"argument {number} of .*, not (readonly )?array"):
        matmul.pack_weights()(source, weights)


def test_loops_can_be_run_with_bounds_checks(monkeypatch, tmp_path):
    """The gate runs tests in this way: NUMBA_BOUNDSCHECK=1 sets `BOUNDSCHECK` of numba's
    configuration."""
    monkeypatch.setattr(jit.numba.config, "BOUNDSCHECK", 1)
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path))

    def beyond(numbers):
        return numbers[len(numbers)]

    with pytest.raises(IndexError):
        compiled(beyond)(np.zeros(3))
