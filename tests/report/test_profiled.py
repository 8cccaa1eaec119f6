"""The figures of a run in the form of neuron-profile."""

import nki.language as nl
import numpy as np
import pytest

from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report.saved import profiled
from neuroncore.report.summary import figures
from neuroncore.time.schedule import schedule


def products(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(nl.matmul(nl.load(x), nl.load(x), transpose_x=True)))
    return out


def figures_of(kernel, *arrays, target="trn2"):
    run = launch(kernel, arrays, tensor=NkiTensor, target=target)
    return figures(schedule(run.core.program, run.machine))


@pytest.fixture(scope="module")
def before():
    return figures_of(products, np.ones((128, 128), np.float32))


@pytest.fixture(scope="module")
def after(before):
    return profiled(before, "trn2")


def test_the_time_of_the_profiler_is_added_to_the_kernels(before, after):
    assert after["kernel_time"] == before["total_time"]
    for name in ("total_time", "total_time_p10", "total_time_p90"):
        assert after[name] == pytest.approx(before[name] + 15.1e-6)
    assert after["neuroncore_total_time"].endswith(" us kernel + 15.1 us of neuron-profile")


@pytest.mark.parametrize("what", ["tensor_engine", "vector_engine", "dma", "total"])
def test_shares_are_of_the_whole_time(after, what):
    share = after[f"{what}_active_time_percent"]
    assert share == pytest.approx(after[f"{what}_active_time"] / after["total_time"])


def test_utilization_is_of_the_whole_time(before, after):
    for name in ("mfu", "mfu_inst", "hfu", "mbu"):
        field = f"{name}_estimated_percent"
        achieved = before[field] * before["total_time"]
        assert after[field] * after["total_time"] == pytest.approx(achieved) and achieved > 0
    cycles, time = after["neuroncore_cycle_count"], after["total_time"]
    assert cycles / time == pytest.approx(1.2e9, rel=1e-3)


def test_other_figures_are_unchanged(before, after):
    changed = {name for name, value in before.items() if after[name] != value}
    assert all("time" in name or "percent" in name or "cycle" in name for name in changed)
    for name in ("tensor_engine_active_time", "hbm_read_bytes", "peak_flops_bandwidth_ratio"):
        assert name not in changed
    assert "mfu_max_achievable_estimated_percent" not in changed


def test_where_the_overhead_is_unknown_the_figures_are_the_kernels(before):
    found = profiled(before, "trn9")
    assert before.items() <= found.items() and "unknown" in found["neuroncore_total_time"]


def test_a_run_without_instructions_takes_the_profilers_time():
    empty = figures_of(lambda x: x, np.ones(3, np.float32))
    found = profiled(empty, "trn2")
    assert found["kernel_time"] == 0 and found["total_time"] == pytest.approx(15.1e-6)
    assert found["dma_active_time_percent"] == 0 and found["neuroncore_cycle_count"] == 0
    assert profiled(empty, "trn9")["total_time"] == 0
