"""Tools that measure kernels: the time that each tool adds, and its name in reports."""

import pytest

from neuroncore import machine
from neuroncore.base.errors import DefinitionError
from neuroncore.capture.why import time_text
from neuroncore.cli import main
from neuroncore.machine import FactReader, harness
from neuroncore.machine.harness import BENCHMARK, EXPLORER, PROFILE, HarnessTime, harness_time


@pytest.mark.parametrize("name", machine.names())
def test_every_machine_has_the_time_that_each_tool_adds(name):
    facts = harness.overheads(name)
    assert tuple(facts) == harness.NAMES
    assert all(0 < fact.value < 50 and fact.source in harness.sources() for fact in facts.values())


def test_overheads_equal_published_measurements():
    assert harness_time(PROFILE, "trn2", 0).total_ns == pytest.approx(15_100)
    assert harness_time(PROFILE, "trn1", 0).total_ns == pytest.approx(15_300)
    assert harness_time(EXPLORER, "trn2", 0).total_ns == pytest.approx(13_200)
    assert harness_time(BENCHMARK, "trn2", 0).total_ns == pytest.approx(9_000)


def test_a_measurement_prints_its_parts_and_their_sum():
    found = harness_time(PROFILE, "trn2", 13_170)
    assert str(found) == "28.3 us: 13.2 us kernel + 15.1 us of neuron-profile"
    assert found.to_dict() == {
        "name": "neuron-profile",
        "kernel_time": pytest.approx(13.17e-6),
        "harness_time": pytest.approx(15.1e-6),
        "total_time": pytest.approx(28.27e-6),
    }


def test_nothing_is_added_where_the_time_is_unknown():
    found = harness_time(PROFILE, "trn9", 13_200)
    assert found.added_ns is None and found.total_ns == 13_200
    assert found.parts == "13.2 us kernel; the time that neuron-profile adds is unknown"
    assert found.to_dict()["harness_time"] is None


def test_a_measured_run_is_printed_in_the_same_words():
    said = str(HarnessTime(PROFILE, 21_000, 15_400))
    assert time_text(21_000, 36_400, None) == f"measured {said}"
    assert said == "36.4 us: 21 us kernel + 15.4 us of neuron-profile"
    assert time_text(21_000, 21_000, None) == "measured 21 us"


def test_a_machine_is_printed_with_its_overheads_and_their_sources(capsys):
    assert main(["machines", "trn2"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["harness_us.neuron-profile", "15.1", "measured", "NTFF"] in lines
    assert any(line[:1] == ["NTFF"] and len(line) > 1 for line in lines)


def test_a_file_with_an_unknown_harness_is_refused(monkeypatch):
    fact = {"value": 1.0, "grade": "measured", "source": "A"}
    wrong = FactReader({"sources": {"A": ""}, "trn1": {"neuron-profiler": fact}}, "mine.toml")
    monkeypatch.setattr(FactReader, "of", lambda file: wrong)
    harness._reader.cache_clear()
    try:
        with pytest.raises(DefinitionError, match=r"mine.toml.*'neuron-profiler'"):
            harness.overheads("trn1")
    finally:
        harness._reader.cache_clear()
