"""Published peaks and bandwidths follow from the machine files by formulas."""

import re
from importlib.resources import files

import pytest
from device import TARGETS
from every import for_all

from neuroncore import machine
from neuroncore.base.errors import DefinitionError
from neuroncore.cli import machines, main

LINES = list(
    machines.compared(machines.published(), {name: machine.load(name) for name in TARGETS})
)


def line(of, what):
    (found,) = [x for x in LINES if x.claim.of.startswith(of) and x.claim.what == what]
    return found


# By hand: 128 x 128 x 2 x clock; 128 x 8 x clock of Vector and Scalar, 128 x 4 x 1.2 of GpSimd.
V, S, G = 1.024 * 0.96, 1.024 * 1.2, 0.512 * 1.2


@for_all(
    ("of", "what", "printed", "derived"),
    [
        ("Trainium1", "bfloat16", "190", 2 * (91.7504 + 1.024 * 1.12 + 1.024 * 1.4 + 0.512 * 1.4)),
        ("Trainium1", "float32, 2022", "52.5", 2 * (22.9376 + 3.29728)),
        ("Trainium1", "bfloat16, 2022", "210", 4 * 52.5),
        ("Trainium2", "bfloat16", "667", 8 * (79 + 2 * V + S + 2 * G)),
        ("Trainium2", "bfloat16, December 2024", "655", 8 * (79 + V + S + G)),
        ("Trainium2", "float8, press", "1300", 8 * (158 + 2 * V + S + 2 * G)),
        ("trn2.48xlarge", "float8", "20.8", 16 * 1.299),
        ("trn2.48xlarge", "float8, 2024", "20", 16 * 1.287),
        ("Trainium3", "MX, sparse", "2517", 8 * 4 * 78.6432),
        ("Trn3 UltraServer, 144", "MX, headline", "362", 144 * 2.517),
        ("Trainium1", "HBM", "820", 820),
        ("Trainium2", "HBM", "2.9", 2.9),
        ("Trainium3", "HBM", "4.9", 4.9),
    ],
)
def test_published_numbers_are_sums_over_engines(of, what, printed, derived):
    found = line(of, what)
    assert found.claim.printed == printed and found.holds
    assert found.derived == pytest.approx(derived)


@pytest.mark.parametrize(
    ("of", "what", "alone"),
    [
        ("Trainium1", "bfloat16", 183.5),
        ("Trainium2", "bfloat16", 629.15),
        ("Trainium2", "float8", 1258.29),
        ("Trn2 UltraServer", "bfloat16", 40.265),
        ("Trn3 UltraServer, 144", "MX", 362388),
    ],
)
def test_the_tensor_engine_alone_gives_less(of, what, alone):
    found = line(of, what)
    assert found.alone == pytest.approx(alone, rel=1e-5)
    assert found.alone < float(found.claim.printed)


@for_all("found", LINES)
def test_every_number_has_a_formula_or_a_reason_for_none(found):
    assert found.holds
    assert found.claim.formula or found.claim.note


def test_sources_are_all_named():
    text = (files("neuroncore.isa") / "published.toml").read_text()
    sources = re.findall(r"^(\w+) = \"", text.partition("[[claim]]")[0], re.MULTILINE)
    assert {x.claim.source for x in LINES} == set(sources)


def claim(printed, **how):
    return machines.Claim("chip", "trn2", 8, "x", printed, "HW", **how)


@pytest.mark.parametrize(
    ("printed", "how", "met", "missed"),
    [
        ("667", {}, 667.4, 667.6),
        ("20.8", {}, 20.76, 20.74),
        ("1300", {"to": 10}, 1299.4, 1294.9),
        ("20", {"cut": True}, 20.9, 21.1),
        ("20", {"cut": True}, 20.0, 19.9),
    ],
)
def test_a_number_agrees_to_its_last_digit(printed, how, met, missed):
    assert claim(printed, **how).is_met_by(met)
    assert not claim(printed, **how).is_met_by(missed)


def test_formulas_are_arithmetic_on_names():
    names = {"T": 80.0, "V": 0.5}
    assert machines.evaluated("8 * (T / 4 + 2*V) - 1", names) == 8 * (20 + 1) - 1
    for wrong in ("8 * X", "T ** 2", "abs(T)", "'T'"):
        with pytest.raises(DefinitionError) as refused:
            machines.evaluated(wrong, names)
        assert repr(wrong) in str(refused.value)


def test_the_check_prints_every_number_and_passes(capsys):
    assert main(["machines", "--check"]) == 0
    out = capsys.readouterr().out
    assert f"{len(LINES)} published numbers, 0 that do not follow from the machine files" in out
    assert "8 * (P + 2*V + S + 2*G)" in out and "OFF" not in out


def test_the_check_fails_when_a_clock_changes(capsys, monkeypatch):
    text = (files("neuroncore.isa") / "machines" / "trn2.toml").read_text()
    assert text.count("value = 2.4,") == 1
    slower = machine.parse(text.replace("value = 2.4,", "value = 2.2,"), "slower.toml")
    load = machine.load
    monkeypatch.setattr(machine, "load", lambda name: slower if name == "trn2" else load(name))
    assert main(["machines", "--check"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"bfloat16 .* 72\.0896 .* 79 .*OFF", out)
