"""Benchmarks, bare runs and profiles of the older API: the measured times, the output, and the
files."""

import json

import ml_dtypes
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
import pytest

from neuroncore.base.errors import SignatureError, UsageError
from neuroncore.frontend.settings import last_launch, settings
from neuroncore.report import saved
from neuroncore.time.schedule import schedule

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 33)).astype(np.float32)
Y = RNG.standard_normal((7, 33)).astype(np.float32)


def add(x, y):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y))
    return out


def test_latencies_are_available_after_a_benchmark():
    kernel = nki.benchmark(warmup=2, iters=3)(nki.jit(add))
    kernel(X, Y)
    latency = kernel.benchmark_result.nc_latency
    found = {latency.get_latency_percentile(p) for p in (0, 1, 10, 25, 50, 90, 99, 100)}
    assert len(found) == 1 and 1.0 < found.pop() < 100.0


@pytest.mark.parametrize(("target", "added"), [("trn1", 15.0), ("trn2", 9.0)])
def test_a_latency_includes_the_time_that_the_vendors_benchmark_adds(target, added, capsys):
    kernel = nki.benchmark(nki.jit(add, platform_target=target))
    run = last_launch(kernel, (X, Y), {})
    latency = kernel.benchmark_result.nc_latency
    estimate = schedule(run.core.program, run.machine)
    assert latency.kernel_microseconds == pytest.approx(estimate.total_ns / 1e3)
    whole = latency.kernel_microseconds + added
    assert latency.get_latency_percentile(50) == pytest.approx(whole)
    said = f"us kernel + {added:g} us of nki.benchmark)"
    assert all(line.endswith(said) for line in capsys.readouterr().out.splitlines())


def test_arguments_of_a_benchmark_may_be_described():
    kernel = nki.benchmark(nki.jit(add))
    kernel(nt.tensor[[4, 8], nl.bfloat16], nt.tensor[(4, 8), nl.bfloat16])
    described = kernel.benchmark_result.nc_latency.get_latency_percentile(50)
    kernel(*(np.ones((4, 8), ml_dtypes.bfloat16) for _ in range(2)))
    assert described == kernel.benchmark_result.nc_latency.get_latency_percentile(50)


def test_percentiles_are_those_of_the_vendors_tool():
    kernel = nki.benchmark(add)
    assert not hasattr(kernel, "benchmark_result")  # before it ran
    kernel(X, Y)
    with pytest.raises(SignatureError, match="no percentile 95"):
        kernel.benchmark_result.nc_latency.get_latency_percentile(95)


def test_a_benchmark_prints_latencies_and_explains_them_on_stderr(capsys):
    nki.benchmark(add)(X, Y)
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [line.split()[1] for line in lines] == [f"P{p}" for p in (0, 1, 10, 25, 50, 90, 99, 100)]
    assert all(line.startswith("Latency P") and "us (estimated" in line for line in lines)
    assert "estimates of an emulator, not measurements" in printed.err


def test_only_a_benchmark_prints(capsys):
    nki.baremetal(add)(X, Y)
    nki.jit(add)(X, Y)
    assert capsys.readouterr() == ("", "")


def test_more_work_takes_longer():
    def latency(columns):
        kernel = nki.benchmark(add)
        kernel(*np.zeros((2, 128, columns), np.float32))
        return kernel.benchmark_result.nc_latency.get_latency_percentile(99)

    assert latency(16_000) > 4 * latency(16)


def run_dma_heavy(columns, piece):
    def pieces(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(columns // piece):
            part = slice(i * piece, (i + 1) * piece)
            nl.store(out[:, part], nl.load(x[:, part]))
        return out

    return pieces


@pytest.mark.parametrize("run", [nki.baremetal, nki.benchmark])
@pytest.mark.parametrize("piece", [4, 100])
def test_a_run_is_saved_under_the_requested_names(run, piece, tmp_path, capsys):
    neff, ntff = tmp_path / "a.neff", tmp_path / "b.ntff"
    kernel = run(run_dma_heavy(400, piece), save_neff_name=str(neff), save_trace_name=str(ntff))
    with settings(target="trn1"):  # whose compiler merges no transfers
        kernel(np.zeros((128, 400), np.float32))
    (figures,) = saved.summaries(saved.read(ntff, "ntff")).values()
    assert figures["dma_transfer_count"] == 2 * 400 // piece
    assert saved.read(neff, "neff")["kernel"] == "pieces"


def test_a_trace_alone_has_the_vendors_name_for_its_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nki.baremetal(save_trace_name="t.ntff")(add)(X, Y)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file.neff", "t.ntff"]


def test_nothing_is_saved_without_a_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nki.baremetal(add)(X, Y)
    nki.benchmark(add)(X, Y)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("executions", "nth", "kept"),
    [
        ({}, 1, ["profile"]),
        ({}, 2, ["profile_exec_2"]),
        ({"num_execs": 20}, 10, ["profile_exec_10", "profile_exec_20"]),
        ({"num_execs": 3}, 1, ["profile", "profile_exec_2", "profile_exec_3"]),
        ({"num_execs": 3}, 5, ["profile_exec_5"]),
    ],
)
def test_a_profile_keeps_every_nth_execution(executions, nth, kept, tmp_path):
    home = tmp_path / "deep/er"
    kernel = nki.profile(working_directory=str(home), profile_nth=nth, **executions)(add)
    assert (kernel(X, Y) == X + Y).all()
    assert (home / "file.neff").is_file()
    assert sorted(p.stem for p in home.glob("*.ntff")) == kept
    reports = sorted((home / "json_reports").iterdir())
    assert [p.name for p in reports] == [f"{name}.json" for name in kept]
    (figures,) = json.loads(reports[0].read_text()).values()
    assert figures["dma_transfer_count"] == 3 and figures["total_time"] > 0


def test_a_profile_accepts_names_and_replaces_files_only_on_request(tmp_path):
    given = {"working_directory": str(tmp_path), "save_neff_name": "k.neff"}
    once = nki.profile(**given, save_trace_name="k.ntff")(nki.jit(add))
    once(X, Y)
    assert {p.name for p in tmp_path.iterdir()} == {"k.neff", "k.ntff", "json_reports"}
    with pytest.raises(UsageError, match=r"k\.neff exists already.*overwrite=True"):
        once(X, Y)
    nki.profile(**given, overwrite=True)(add)(X, Y)


@pytest.mark.parametrize("options", [{}, {"working_directory": "here"}])
def test_a_profile_needs_an_absolute_folder(options):
    with pytest.raises(SignatureError, match="no folder"):
        nki.profile(**options)
