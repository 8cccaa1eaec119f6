"""neuroncore run --ranks: inputs and references of each rank, what is said, what is refused."""

import json

import pytest

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


@pytest.fixture
def kernel(tmp_path):
    file = tmp_path / "k.py"
    file.write_text(KERNEL)
    return f"{file}::total"


def test_each_rank_has_its_inputs_and_its_reference(kernel, tmp_path, capsys):
    saved = str(tmp_path / "k.run")
    assert main(["run", kernel, "--ranks", "4", "--save", saved]) == 0
    printed = capsys.readouterr().out
    assert "result 3" in printed and "4 ranks of 1 core: " in printed
    assert "; rank 0 is the slowest\n" in printed
    assert "all_reduce of 4 ranks (0 to 3): 128 B by " in printed and "last was rank 0" in printed
    assert main(["run", saved]) == 0
    assert "4 ranks of 1 core" in capsys.readouterr().out


def test_what_it_is_in_can_be_said(kernel, capsys):
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


def test_why_takes_ranks(kernel, capsys):
    assert main(["why", kernel, "--ranks", "4"]) == 0
    assert "all_reduce" in capsys.readouterr().out
    assert main(["why", kernel, "--lnc", "2"]) != 0
    assert "--lnc goes with --ranks" in capsys.readouterr().err


def test_a_kernel_may_be_given_its_rank_itself(tmp_path, capsys):
    """And then so is the reference: it has the kernel's arguments, and the rank among them."""
    file = tmp_path / "k.py"
    text = KERNEL.replace("(x, group)", "(x, group, rank)").replace(
        "0, 1, 2, 3]])", "0, 1, 2, 3]]), rank"
    )
    file.write_text(text)
    assert main(["run", f"{file}::total", "--ranks", "4"]) == 0
    assert "agrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--ranks", "2"], "the replica group has rank 2"),
        (["--ranks", "3"], "3 ranks: a world has"),
        (["--lnc", "2"], "--lnc goes with --ranks"),
        (["--instance", "trn2.48xlarge"], "--instance goes with --ranks"),
        (["--ranks", "8", "--instance", "trn2.3xlarge", "--lnc", "2"], "has 4 ranks of 2 cores"),
        (["--ranks", "4", "--instance", "trn1.32xlarge", "--target", "trn2"], "cores of trn1"),
        (["--ranks", "4", "--instance", "trn9"], "no instance is called 'trn9'"),
    ],
)
def test_what_is_refused(kernel, given, why, capsys):
    assert main(["run", kernel, *given]) != 0
    assert why in capsys.readouterr().err


def test_ranks_are_of_one_kernel(kernel, capsys):
    assert main(["run", kernel.partition("::")[0], "--ranks", "2"]) != 0
    assert "--ranks is for one kernel" in capsys.readouterr().err
