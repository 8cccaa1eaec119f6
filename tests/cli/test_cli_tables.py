"""Tables that the command line prints: machines, and one instruction."""

import pytest

from neuroncore import machine
from neuroncore.cli import main


def test_machines_shows_every_machine_side_by_side(capsys):
    assert main(["machines"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in machine.names())


def test_one_machine_is_printed_with_the_source_of_every_number(capsys):
    assert main(["machines", "trn2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[1 : lines.index("")]
    sources = {line.split()[0] for line in lines[lines.index("") + 1 :]}
    for line in table:
        assert {"documented", "measured", "assumed"} & set(line.split()), line
        assert set(line.replace(",", " ").split()) & sources, line


def test_isa_describes_one_instruction(capsys):
    assert main(["isa", "nisa.nc_matmul"]) == 0
    out = capsys.readouterr().out
    assert "sum_k stationary[k, m] * moving[k, n]" in out
    assert f"machines  {', '.join(machine.names())}" in out


def test_isa_prints_rules_and_lists_of_tiles_in_lines(capsys):
    assert main(["isa", "dma_compute"]) == 0
    out = capsys.readouterr().out
    rules = out[out.index("rules") : out.index("cost")]
    assert "srcs must have 1 to dma_sources tensors" in rules
    assert "srcs=[128 x 512 bfloat16 in private_hbm," in out and "View(" not in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("name", ["add", "exp", "nl.exp"])
def test_isa_describes_operators_and_functions(name, capsys):
    assert main(["isa", name]) == 0
    assert name.removeprefix("nl.") in capsys.readouterr().out


def test_isa_suggests_a_similar_name(capsys):
    assert main(["isa", "nc_matmull"]) == 2
    assert "'nc_matmul'" in capsys.readouterr().err
