r"""The API's names and signatures, compared with the vendor's public stubs of NKI 0.6, which are
facts in data/signatures.json.

In this file, a function is a list of [parameter, default]; the default is the last part of its name
or its value, or null if there is none. A member that is not a function is null."""

import inspect
import json
from pathlib import Path

import nki.isa as nisa
import nki.language as nl
from every import for_all

FACTS = json.loads((Path(__file__).parents[1] / "data/signatures.json").read_text())
PREFIXES = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
FP32_MIN = -3.4028234663852886e38


def written(default):
    if default is inspect.Parameter.empty:
        return None
    if default == FP32_MIN:
        return "FP32_MIN"
    return (
        repr(default).strip("'").split(".")[-1] if not isinstance(default, float) else str(default)
    )


def signature(function):
    parameters = inspect.signature(function).parameters.values()
    return [[PREFIXES.get(p.kind, "") + p.name, written(p.default)] for p in parameters]


@for_all("name", FACTS["nki.isa"])
def test_instructions_have_the_documented_signature(name):
    assert signature(getattr(nisa, name)) == FACTS["nki.isa"][name]


@for_all("name", FACTS["nki.language"])
def test_functions_have_the_documented_signature(name):
    assert signature(getattr(nl, name)) == FACTS["nki.language"][name]


@for_all("name", FACTS["nki.language.NkiTensor"])
def test_tensors_have_the_documented_members(name):
    assert hasattr(nl.NkiTensor, name)
    expected = FACTS["nki.language.NkiTensor"][name]
    if expected is not None:
        assert signature(getattr(nl.NkiTensor, name))[1:] == expected


@for_all("name", FACTS["nki.language.tile_size"])
def test_tile_size_has_the_documented_members(name):
    assert isinstance(getattr(nl.tile_size, name), int)


@for_all("name", FACTS["enums"])
def test_enumerations_have_the_documented_members(name):
    home = nisa if hasattr(nisa, name) else nl
    members = [member.name for member in getattr(home, name)]
    documented = FACTS["enums"][name]
    if name == "nc_version":  # machines may have been added
        members = members[: len(documented)]
    assert members == documented


def test_no_documented_name_is_missing():
    assert not [name for name in FACTS["nki.isa names"] if not hasattr(nisa, name)]
    assert not [name for name in FACTS["nki.language names"] if not hasattr(nl, name)]
