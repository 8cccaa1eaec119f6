"""An instance file has the grade and source of every number; ranks have positions on chips."""

import dataclasses
from importlib.resources import files

import pytest
from every import for_all

from neuroncore import machine
from neuroncore.base.errors import DefinitionError, UsageError
from neuroncore.cli import machines, main
from neuroncore.machine import chip as chips
from neuroncore.machine import instance as instances

# name: chips, physical cores, ranks at the default LNC, GiB of HBM
SIZES = {
    "inf2.xlarge": (1, 2, 2, 32),
    "inf2.8xlarge": (1, 2, 2, 32),
    "inf2.24xlarge": (6, 12, 12, 192),
    "inf2.48xlarge": (12, 24, 24, 384),
    "trn1.2xlarge": (1, 2, 2, 32),
    "trn1.32xlarge": (16, 32, 32, 512),
    "trn1n.32xlarge": (16, 32, 32, 512),
    "trn2.3xlarge": (1, 8, 4, 96),
    "trn2.48xlarge": (16, 128, 64, 1536),
    "trn2-ultraserver": (64, 512, 256, 6144),
    "trn3-gen1-ultraserver": (64, 512, 256, 9216),
    "trn3-gen2-ultraserver": (144, 1152, 576, 20736),
}


def text(name):
    return (files("neuroncore.isa") / "instances" / f"{name}.toml").read_text()


def test_every_instance_is_a_row_here():
    assert sorted(instances.names()) == sorted(SIZES)
    order = [(one.chip.name, one.chips) for one in map(instances.load, instances.names())]
    assert order == sorted(order)


@for_all("name", SIZES)
def test_sizes_of_instances(name):
    one = instances.load(name)
    ranks = one.ranks(one.chip.logical_core_sizes[0])
    assert (one.chips, one.cores, ranks, one.hbm_bytes >> 30) == SIZES[name]


@for_all("name", SIZES)
def test_an_instance_has_the_sums_of_its_chips_and_cores(name):
    chip = instances.load(name).chip
    core = chip.core
    assert chip.hbm_banks * chip.hbm_bank_bytes == chip.cores * core.hbm.capacity_bytes
    assert chip.hbm_gigabytes_per_s == chip.cores * core.hbm.gigabytes_per_s
    assert chip.dma_engines == chip.cores * core.dma.engines
    assert chip.cores // chip.hbm_banks == core.hbm.cores_per_stack


@for_all("name", SIZES)
def test_every_source_is_used_and_has_one_meaning(name):
    one = instances.load(name)
    both = (one.facts, one.sources), (one.chip.facts, one.chip.sources)
    for facts, sources in both:
        cited = {key.strip() for fact in facts.values() for key in fact.source.split(",")}
        assert cited == set(sources)
    shared = set(one.sources) & set(one.chip.sources)
    assert all(one.sources[key] == one.chip.sources[key] for key in shared)


def test_compression_is_named_but_not_estimated():
    found = {name: chips.load(name).inline_compression for name in ("trainium1", "trainium2")}
    assert set(found.values()) == {"unpublished"}
    assert chips.load("trainium3").inline_compression == "none"


def test_ranks_have_positions():
    trn2, ultra = instances.find("trn2.48xlarge"), instances.find("u-trn2x64")
    assert trn2.place(63, 2) == (0, 15, 3) and trn2.place(63, 1) == (0, 7, 7)
    assert ultra.place(64, 2) == (1, 16, 0)
    assert trn2.distance(0, 3, 2) == 0 and trn2.distance(0, 40, 2) == 4


def test_positions_that_do_not_exist_are_refused():
    trn2 = instances.find("trn2u.48xlarge")
    with pytest.raises(UsageError, match=r"trn2\.48xlarge has no rank 64: its ranks are 0 to 63"):
        trn2.place(64, 2)
    with pytest.raises(UsageError, match="2 or 1 physical cores, not 4"):
        trn2.ranks(4)
    with pytest.raises(UsageError, match="of Trainium1 has 1 physical cores, not 2"):
        instances.find("trn1.2xlarge").ranks(2)
    with pytest.raises(UsageError, match=r"no instance is called 'trn9'; there are inf2"):
        instances.find("trn9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("servers = {", "servants = {", "unknown key 'servants'"),
        ('kind = { value = "torus"', 'kind = { value = "tree"', "must be one of chain, torus"),
        ('grade = "documented", source = "CC"', 'grade = "heard", source = "CC"', "grade must be"),
        ("per_chip = { value = 4", "per_chap = { value = 4", "unknown key 'per_chap'"),
        ("launch_us", "lunch_us", "unknown key 'lunch_us'"),
    ],
)
def test_a_wrong_file_is_reported(old, new, message):
    with pytest.raises(DefinitionError, match=message):
        instances.parse(text("trn2.48xlarge").replace(old, new), "wrong.toml")


def test_a_name_of_two_instances_is_refused(monkeypatch):
    same = dataclasses.replace(instances.load("trn2.3xlarge"), aliases=("trn2u.48xlarge",))
    load = instances.load
    monkeypatch.setattr(instances, "load", lambda name: same if "2.3x" in name else load(name))
    instances.aliases.cache_clear()
    with pytest.raises(
        DefinitionError, match=r"'trn2u\.48xlarge' is already a name of trn2\.3xlarge"
    ):
        instances.aliases()


def test_an_instance_is_printed_with_its_topology(capsys):
    assert main(["machines", "trn2-16.48xlarge"]) == 0
    out = capsys.readouterr().out
    assert "cores        128; ranks 64 at LNC2, 128 at LNC1" in out
    assert "──  4 ──  5 ──  6 ──  7 ──" in out
    assert "chip.inline_compression" in out and "unpublished" in out
    for path in instances.find("trn2.48xlarge").facts:
        assert path in out


@pytest.mark.parametrize("name", SIZES)
def test_every_instance_can_be_printed(name, capsys):
    assert main(["machines", name]) == 0
    assert capsys.readouterr().out.startswith(name)


def test_an_unknown_name_lists_machines_and_instances(capsys):
    assert main(["machines", "trn9"]) != 0
    told = capsys.readouterr().err
    assert ", ".join(machine.names()) in told and "trn2.48xlarge" in told


def test_claims_of_an_instance_count_its_cores():
    for claim in machines.published():
        if claim.instance and "chips" in claim.of:
            one = instances.load(claim.instance)
            assert claim.cores == one.cores and claim.machine == one.chip.machine


def test_the_check_prints_contradictions(capsys):
    assert main(["machines", "--check"]) == 0
    out = capsys.readouterr().out
    assert "Trainium1 INT8: 380 TOPS (HW: INT8); 420 TOPS (PAGE: INT8, 2022)" in out
    assert "Trn2 UltraServer EFA: 12800 Gb/s" in out and "3200 Gb/s (HW: EFA)" in out
    found = machines.contradictions(machines.published())
    assert f"{len(found)} contradictions" in out and "Trainium3 NeuronLink" in found


def test_numbers_that_agree_are_not_contradictions():
    first, second = machines.published()[:2]
    assert first.printed != second.printed
    same = [dataclasses.replace(first, quantity="q"), dataclasses.replace(first, quantity="q")]
    other = dataclasses.replace(second, quantity="q")
    assert machines.contradictions(same) == {}
    assert list(machines.contradictions([*same, other])) == ["q"]
