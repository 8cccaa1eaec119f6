"""A machine file has the grade and source of every number, and everything in it is used."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pytest
from device import TARGETS
from every import for_all
from published_machines import PUBLISHED

from neuroncore import machine
from neuroncore.base.errors import DefinitionError, UsageError
from neuroncore.frontend.settings import settings, target_machine

GIB = 1 << 30


def text(name):
    return (files("neuroncore.isa") / "machines" / f"{name}.toml").read_text()


def leaves(table, path=""):
    """Yield (path, entry) for every entry of a parsed file that is not a table of entries."""
    for key, entry in table.items():
        if isinstance(entry, dict) and not {"value", "grade", "source"} & set(entry):
            yield from leaves(entry, f"{path}{key}.")
        else:
            yield f"{path}{key}", entry


def machines(name):
    return tomllib.loads(text(name))


# --- contents of the files ------------------------------------------------------------------------


def test_every_machine_has_a_row_of_published_figures():
    assert sorted(PUBLISHED) == machine.names() == list(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_generations_of_the_core_and_of_the_api_agree(name):
    one, generation = machine.load(name), PUBLISHED[name].generation
    assert one.generation == f"NeuronCore-v{generation}" and one.api_version == f"gen{generation}"
    assert one.aliases == PUBLISHED[name].other_names


@pytest.mark.parametrize("name", TARGETS)
def test_every_number_has_value_grade_and_source(name):
    raw = machines(name)
    sources = raw.pop("sources")
    for key in ("name", "generation", "api_version", "aliases", "description", "products"):
        raw.pop(key)
    facts = machine.load(name).facts
    entries = dict(leaves(raw))
    assert set(facts) == set(entries) and len(entries) > 80
    for path, entry in entries.items():
        assert set(entry) == {"value", "grade", "source"}, path
        assert entry["grade"] in ("documented", "measured", "assumed"), path
        assert {key.strip() for key in entry["source"].split(",")} <= set(sources), path
        assert facts[path].value == entry["value"]


@pytest.mark.parametrize("name", TARGETS)
def test_every_source_is_used_and_can_be_found(name):
    raw = machines(name)
    sources = raw.pop("sources")
    used = {
        key.strip()
        for _, entry in leaves(raw)
        if isinstance(entry, dict)
        for key in entry["source"].split(",")
    }
    assert set(sources) == used
    assert all(len(where) > 10 for where in sources.values())


@pytest.mark.parametrize("name", TARGETS)
def test_assumptions_are_not_graded_as_documented(name):
    for path, fact in machine.load(name).facts.items():
        if fact.source == "US":
            assert fact.grade == "assumed", path
        if fact.grade == "documented":
            assert fact.source not in ("US", "FIT", "PROFILE"), path


@pytest.mark.parametrize("name", TARGETS)
def test_engines_run_at_the_published_clocks(name):
    for unit, clock in PUBLISHED[name].clocks.items():
        assert machine.load(name).engines[unit].clock_ghz == clock, unit


@for_all("name", TARGETS)
@for_all("dtype", ["bfloat16", "float16", "float32"])
def test_geometry_times_clock_is_the_published_peak(dtype, name):
    core, peak = machine.load(name), PUBLISHED[name].peaks[dtype]
    assert core.peak_tflops[dtype] == peak
    unit = core.engines["tensor"]
    computed = 128 * 128 * 2 * unit.clock_ghz * unit.rate[dtype] / 1e3
    assert computed == pytest.approx(peak, abs=0.5)
    assert core.pe_cells == 128 * 128


@pytest.mark.parametrize(
    "name, dtype, factor, peak", [("trn2", "float8_double_row", 2, 158), ("trn3", "mx", 4, 315)]
)
def test_fast_modes_are_multiples_of_the_clock(name, dtype, factor, peak):
    core = machine.load(name)
    assert core.peak_tflops[dtype] == peak
    computed = 128 * 128 * 2 * core.engines["tensor"].clock_ghz * factor / 1e3
    assert computed == pytest.approx(peak, abs=1)


@pytest.mark.parametrize("name", TARGETS)
def test_memories_and_dma_have_published_figures(name):
    core, published = machine.load(name), PUBLISHED[name]
    assert core.sbuf.partition_bytes == published.sbuf * 1024 >= core.sbuf.usable_bytes
    assert core.psum.partition_bytes == published.psum * 1024
    assert core.psum.partition_bytes == core.psum.banks * core.psum.bank_bytes
    assert core.hbm.capacity_bytes == published.hbm * GIB
    assert core.hbm.gigabytes_per_s == published.bandwidth
    assert (core.dma.engines, core.dma.gigabytes_per_s_per_engine) == (16, published.dma)
    assert core.dma.engines * core.dma.partitions_per_engine == core.sbuf.partitions == 128


@pytest.mark.parametrize("name", TARGETS)
def test_accesses_start_at_the_partitions_in_the_guide(name):
    core = machine.load(name)
    for partitions in range(1, 129):
        step = 32 if partitions <= 32 else 64 if partitions <= 64 else 128
        assert core.starts(partitions) == tuple(range(0, 128, step))


def test_generations_differ_in_features():
    trn1, trn2, trn3 = map(machine.load, ("trn1", "trn2", "trn3"))
    assert not trn1.has("double_row") and trn2.has("double_row") and trn3.has("double_row")
    assert not trn1.has("hardware_dge") and trn2.has("hardware_dge")
    assert [m.has("mx") for m in (trn1, trn2, trn3)] == [False, False, True]
    assert not trn3.has("no such feature")


# --- names ----------------------------------------------------------------------------------------


@for_all(
    "name, means", [(name, m) for m, row in PUBLISHED.items() for name in (m, *row.other_names)]
)
def test_names_and_aliases(name, means):
    assert machine.load(name) is machine.load(name)
    assert machine.load(name).name == means


@pytest.mark.parametrize("name", ["tnr2", "TRN2", "H100", "", "../trn2", "trn2.toml"])
def test_unknown_machines_get_the_list(name):
    with pytest.raises(UsageError) as refused:
        machine.load(name)
    assert repr(name) in str(refused.value)
    assert f"there are {', '.join(machine.names())}, and other names of these: " in str(
        refused.value
    )


def test_targets_are_chosen_by_launch_then_settings_then_environment(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    assert target_machine().name == "trn2"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert target_machine().name == "trn1"
    with settings(target="trn3"):
        assert target_machine().name == "trn3"
        assert target_machine("gen2").name == "trn1"
    assert target_machine().name == "trn1"


# --- errors in files ------------------------------------------------------------------------------


def parsed(old, new):
    """Return the machine of trn2's file with one edit."""
    original = text("trn2")
    assert original.count(old) >= 1
    return machine.parse(original.replace(old, new, 1), "mine.toml")


FACT = '{ value = 1, grade = "assumed", source = "US" }'


@for_all(
    "old, new, says",
    [
        ("[limits]\n", f"[limits]\npartition = {FACT}\n", "'partition'; did you mean 'partitions'"),
        ("[sbuf]\n", f"[sbuf]\nzzz = {FACT}\n", "[sbuf] has the unknown key 'zzz'"),
        ("[psum]", "[psun]", "'psun'; did you mean 'psum'"),
        ("[engine.sync]", "[engine.synk]", "'synk'; did you mean 'sync'"),
        ("clock_ghz =", "clock_mhz =", "[engine.tensor] has the unknown key 'clock_mhz'"),
        ('grade = "documented"', 'grade = "guessed"', "grade must be one of documented, measured"),
        ('source = "ARCH1"', 'source = "ARCHI"', "'ARCHI'; did you mean 'ARCH"),
        ('source = "ARCH1"', 'source = "ARCH1, NOWHERE"', "'NOWHERE'"),
        ('grade = "documented", ', "", "must give value, grade and source"),
        ('{ value = 4, grade = "documented", source = "ISA" }', "4", "limits.iota_dims must give"),
        ('name = "trn2"', 'nam = "trn2"', "'nam'; did you mean 'name'"),
    ],
)
def test_unknown_entries_are_refused_by_name(old, new, says):
    with pytest.raises(DefinitionError) as refused:
        parsed(old, new)
    assert says in str(refused.value) and "mine.toml" in str(refused.value)


@for_all(
    "old, says",
    [
        ("partitions = {", "[limits] lacks partitions"),
        ("banks = {", "[psum] lacks banks"),
        ("latency_ns = {", "[engine.tensor] lacks latency_ns"),
        ("semaphore_ns = {", "[fixed] lacks semaphore_ns"),
        ("capacity_bytes = {", "[hbm] lacks capacity_bytes"),
        ("name = ", "lacks name"),
        ("[sources]", "lacks sources"),
        ("[start_partitions]", "lacks start_partitions"),
        ("[peak_tflops]", "lacks peak_tflops"),
        ("[dma]", "lacks dma"),
        ("[engine.vector]", "lacks vector"),
    ],
)
def test_missing_entries_are_named(old, says):
    lines = text("trn2").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(old))
    end = at + 1
    if old.startswith("["):  # the table with all its rows
        inside = (i for i in range(at + 1, len(lines)) if lines[i].startswith("["))
        end = next((i for i in inside if old[1:-1] not in lines[i]), len(lines))
    with pytest.raises(DefinitionError) as refused:
        machine.parse("\n".join(lines[:at] + lines[end:]), "mine.toml")
    assert says in str(refused.value) and "mine.toml" in str(refused.value)


def test_a_field_with_a_default_may_be_left_out():
    @dataclass
    class Effect:
        wakeup_ns: float = 0.0

    reader = machine.FactReader({"sources": {"US": "our assumption"}}, "mine.toml")
    set_to_nine = {"wakeup_ns": {"value": 9, "grade": "assumed", "source": "US"}}
    assert reader.section(Effect, "fixed", {}).wakeup_ns == 0
    assert reader.section(Effect, "fixed", set_to_nine).wakeup_ns == 9


def test_a_file_that_is_not_toml_is_named():
    with pytest.raises(DefinitionError, match=r"mine\.toml"):
        machine.parse("name = ", "mine.toml")


def test_a_fact_can_be_changed():
    assert parsed("value = 2.4", "value = 3.0").engines["tensor"].clock_ghz == 3.0
    assert np.isclose(machine.load("trn2").engines["tensor"].clock_ghz, 2.4)
