"""`neuroncore run --ranks`: inputs and references of each rank, the output, and the refusals."""

import json
import re
from pathlib import Path

import pytest
from checked_here import stay_here

from neuroncore.cli import main

KERNEL = """
import nki, nki.collectives as ncc, nki.isa as nisa, nki.language as nl
import numpy as np

@nki.jit
def total(x, group):
    src = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="dst")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], group, nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out

def inputs(rank):
    return np.full((4, 8), rank, np.float32), ncc.ReplicaGroup([[0, 1, 2, 3]])

def reference(x, group, rank):
    assert (x == rank).all()
    return np.full((4, 8), 6, np.float32)
"""


@pytest.fixture(autouse=True)
def here(monkeypatch):
    stay_here(monkeypatch)


@pytest.fixture
def kernel(tmp_path):
    file = tmp_path / "k.py"
    file.write_text(KERNEL)
    return f"{file}::total"


@pytest.mark.parametrize("command", ["run", "check"])
def test_three_ranks_run_with_a_warning(command, kernel, capsys):
    """The only source for the numbers of ranks is the test harness of nki-library."""
    file = Path(kernel.partition("::")[0])
    file.write_text(KERNEL.replace("0, 1, 2, 3]]", "0, 1, 2]]").replace("8), 6,", "8), 3,"))
    options = ["--inputs", "inputs"] if command == "check" else []
    assert main([command, kernel, "--ranks", "3", *options]) == 0
    printed = capsys.readouterr().out
    assert "warning[WORLD_SIZE] the launch has 3 ranks" in printed
    assert "1, 2, 4, 8 or 16 ranks, a multiple of 32" in printed


def test_each_rank_has_its_inputs_and_its_reference(kernel, tmp_path, capsys):
    saved = str(tmp_path / "k.run")
    assert main(["run", kernel, "--ranks", "4", "--save", saved]) == 0
    printed = capsys.readouterr().out
    assert "result 3" in printed and "4 ranks of 1 core: " in printed
    assert "; rank 0 is the slowest\n" in printed
    assert (
        "all_reduce of 4 ranks (0 to 3): 128 B by " in printed and "rank 0 arrives last" in printed
    )
    assert main(["run", saved]) == 0
    assert "4 ranks of 1 core" in capsys.readouterr().out


def test_the_instance_of_the_ranks_can_be_named(kernel, capsys):
    given = ["--ranks", "4", "--lnc", "2", "--instance", "trn2.3xlarge", "--json"]
    assert main(["run", kernel, *given]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["agrees"] and len(launch["results"]) == 4 and len(launch["cores"]) == 8
    (together,) = launch["collectives"]
    assert together["operation"] == "all_reduce" and together["replica_group"] == [0, 1, 2, 3]
    assert together["waited"][together["last_rank"]] == 0 == launch["waited_for_it"]
    assert launch["slowest_rank"] in range(4)
    for figures in launch["cores"]:
        assert figures["cc_op_count"] == 1
        assert together["duration"] <= figures["cc_op_time"] == figures["cc_op_active_time"]


def test_why_accepts_ranks_and_names_the_slowest(kernel, capsys):
    assert main(["why", kernel, "--ranks", "4", "--lnc", "2"]) == 0
    said = capsys.readouterr().out
    assert "total on trn2, rank 0 (core 0), the slowest of 4 ranks   " in said
    assert re.search(r"all_reduce +collectives \d+%", said) and "other core" not in said
    assert main(["why", kernel, "--ranks", "4", "--json"]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["rank"] in range(4) and launch["core"] == 0
    assert {"collectives"} == {name for line in launch["lines"] for name in line["parts"]} & {
        "collectives",
        "other core",
    }
    assert main(["why", kernel, "--lnc", "2"]) != 0
    assert "--lnc needs --ranks" in capsys.readouterr().err


def test_check_accepts_ranks_and_saved_runs(kernel, tmp_path, capsys):
    assert main(["check", kernel, "--ranks", "4", "--lnc", "2", "--orders", "2"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert "1 launch run; the bits are the same in 2 other orders of the cores, in which " in last
    assert last.endswith("were reversed)") and "of 8 pairs" in last
    saved = str(tmp_path / "k.run")
    assert main(["run", kernel, "--ranks", "4", "--lnc", "2", "--save", saved]) == 0
    capsys.readouterr()
    assert main(["check", saved, saved]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert " note[RACE] rank 0 (core 1) writes bytes of HBM that rank 0 (core 0) writes " in first
    assert last == "2 notes (1 saved run read; nothing was run)"


def test_options_that_do_not_apply_to_a_saved_run_are_refused(kernel, tmp_path, capsys):
    saved, cut = tmp_path / "k.run", tmp_path / "cut.run"
    assert main(["run", kernel, "--ranks", "4", "--save", str(saved)]) == 0
    cut.write_bytes(saved.read_bytes()[:300])
    for given, why in (
        ([saved, "--static"], "is a saved run, and --static checks only source files"),
        ([saved, "--ranks", "4"], "--ranks needs a kernel"),
        ([saved, "--args", "1"], "--args needs a kernel"),
        ([saved, "--target", "trn1"], "is a run on trn2: --target can't change the machine"),
        ([cut], "cut.run is damaged"),
    ):
        assert main(["check", *map(str, given)]) == 2
        assert why in capsys.readouterr().err


def test_check_on_more_ranks_than_exist_is_wrong_usage(kernel, capsys):
    assert main(["check", kernel, "--ranks", "8", "--instance", "trn2.3xlarge", "--lnc", "2"]) == 2
    assert "has 4 ranks of 2 cores" in capsys.readouterr().err


UNEVEN = """tile = nl.load(x)
    for _ in range(100):
        tile = nl.multiply(tile, 1.0)
    for _ in range(50 + 10 * rank):
        tile = nl.multiply(tile, 1.0)
    nisa.dma_copy(dst=src, src=tile)"""


def test_advice_is_reported_once_per_line_with_its_ranks(tmp_path, capsys):
    file = tmp_path / "k.py"
    file.write_text(with_rank(KERNEL).replace("nisa.dma_copy(dst=src, src=x)", UNEVEN))
    assert main(["run", f"{file}::total", "--ranks", "4", "--json"]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    told = [one["sentence"] for one in launch["findings"] if one["code"] == "FEW_LANES"]
    first, second = sorted(told)
    assert "(100 calls, 67% of its engine's time)" in first and first.endswith(", on ranks 0 to 3")
    assert "(80 calls, 44% of its engine's time)" in second and second.endswith(", on ranks 0 to 3")


def with_rank(text):
    """Return the text of the kernel and its inputs with the rank as an argument."""
    kernel = text.replace("(x, group)", "(x, group, rank)")
    return kernel.replace("0, 1, 2, 3]])", "0, 1, 2, 3]]), rank")


def test_a_kernel_may_have_the_rank_as_an_argument(tmp_path, capsys):
    """Its reference then has the rank too, because it gets the kernel's arguments."""
    file = tmp_path / "k.py"
    file.write_text(with_rank(KERNEL))
    assert main(["run", f"{file}::total", "--ranks", "4"]) == 0
    assert "agrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--ranks", "2"], "replica_group has rank 2"),
        (["--ranks", "2"], "use only ranks 0 to 1, which the launch has, or launch more ranks: "),
        (["--ranks", "2"], "neuroncore run --ranks 4, or per_rank="),
        (["--ranks", "8"], "add rank 4 to one of the lists"),
        (["--ranks", "99999"], "99,999 ranks of 1 core are too many"),
        (["--ranks", "0"], "--ranks must be at least 1"),
        (["--lnc", "2"], "--lnc needs --ranks"),
        (["--instance", "trn2.48xlarge"], "--instance needs --ranks"),
        (["--ranks", "8", "--instance", "trn2.3xlarge", "--lnc", "2"], "has 4 ranks of 2 cores"),
        (["--ranks", "4", "--instance", "trn1.32xlarge", "--target", "trn2"], "cores of trn1"),
        (["--ranks", "4", "--instance", "trn1.2xlarge"], "has 2 ranks of 1 core, not 4"),
        (["--ranks", "4", "--instance", "trn9"], "no instance is called 'trn9'"),
    ],
)
def test_wrong_options_for_ranks_are_refused(kernel, given, why, capsys):
    assert main(["run", kernel, *given]) != 0
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "view", "why", "check"])
def test_every_command_refuses_cores_without_ranks(kernel, command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([command, kernel, "--lnc", "2"]) == 2
    assert "--lnc needs --ranks" in capsys.readouterr().err


def test_the_instance_chooses_the_machine(kernel, capsys):
    """The header and the JSON object named the default machine, although the kernel ran on the
    machine of the instance."""
    given = ["run", kernel, "--ranks", "4", "--instance", "trn1.32xlarge"]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert "target trn1 (NeuronCore-v2)" in printed and "total on trn1" in printed
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == "trn1"


UNEQUAL = """
@nki.jit
def unequal(x, group, times):
    src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=n) for n in "sd")
    tile = nl.load(x)
    for _ in range(times):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    nl.store(src, tile)
    ncc.all_reduce([src], [dst], group, nl.add)

def waiting(rank):
    x = np.ones((128, 2048), np.float32)
    return x, ncc.ReplicaGroup([[0, 1, 2, 3]]), 40 if rank == 2 else 1
"""


def test_run_and_why_have_the_same_estimate_of_the_slowest_rank(tmp_path, capsys):
    """All ranks end at the same time, and `why` had the range of another rank."""
    file = tmp_path / "k.py"
    file.write_text(KERNEL.partition("def reference")[0] + UNEQUAL)
    ranges = []
    for command in ("run", "why"):
        words = [command, f"{file}::unequal", "--ranks", "4", "--inputs", "waiting"]
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert "rank 2" in printed
        ranges.append(re.search(r"80% range [^)]*", printed)[0])
    assert ranges[0] == ranges[1]


def test_why_says_that_no_limit_matters(tmp_path, capsys):
    """A kernel that only waits for its collective had a heading without a row."""
    file = tmp_path / "k.py"
    copy = "    nisa.dma_copy(dst=out, src=dst)\n"
    file.write_text(KERNEL.replace("    nisa.dma_copy(dst=src, src=x)\n", "").replace(copy, ""))
    assert main(["why", f"{file}::total", "--ranks", "4"]) == 0
    limits = capsys.readouterr().out.partition("limits: what ideal hardware would save\n")[2]
    assert "no limit that was tried saves 1% or more" in limits.splitlines()[0]


def test_ranks_run_a_single_kernel(kernel, capsys):
    assert main(["run", kernel.partition("::")[0], "--ranks", "2"]) != 0
    assert "--ranks needs a kernel" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "check"])
def test_launches_of_a_script_on_ranks_are_reported(tmp_path, capsys, command):
    script = tmp_path / "s.py"
    script.write_text(KERNEL + "\nimport neuroncore\nif __name__ == '__main__':\n"
        "    neuroncore.run(total, per_rank=[inputs(n) for n in range(4)])\n")  # fmt: skip
    assert main([command, str(script)]) == 0
    said = "4 ranks of 1 core" if command == "run" else "1 launch run"
    assert said in capsys.readouterr().out
