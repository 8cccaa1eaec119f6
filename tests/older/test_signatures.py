r"""The older API's names and signatures, compared with the vendor's public stubs of SDK 2.21 to
2.26, which are facts in data/signatures_older.json.

In this file, a function is a list of [parameter, default] in its latest form. The default is the
last part of its name or its value, or null if there is none; "*" precedes keyword-only
parameters."""

import importlib
import inspect
import json
from enum import Enum
from functools import reduce
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from every import for_all
from neuronxcc.nki import language as nl

FACTS = json.loads((Path(__file__).parents[1] / "data/signatures_older.json").read_text())
FUNCTIONS = [(space, name) for space, names in FACTS["functions"].items() for name in names]
LATER = {"nc_matmul": {"perf_mode"}, "dma_transpose": {"dge_mode"}}  # functions of SDK 2.27
# kernels that ran on inf2 pass a name to dma_copy; the other instructions accept one through kwargs
NAMED = {name: {"kwargs"} for name in ("dma_copy", "local_gather", "sequence_bounds")}
KINDS = inspect.Parameter


def found(path):
    """Return the object that a dotted name refers to."""
    root = importlib.import_module("neuronxcc")
    return reduce(getattr, path.split(".")[1:], root)


def written(default):
    if default is KINDS.empty:
        return None
    if default == nl.fp32.min:
        return "min"
    if isinstance(default, float | str):
        return str(default)
    if isinstance(default, Enum):
        return default.name
    return str(getattr(default, "__name__", default)).split(".")[-1]


def signature(function, later=()):
    parameters, rows = list(inspect.signature(function).parameters.values()), []
    for p in parameters:
        if p.kind is KINDS.KEYWORD_ONLY and not any(row[0].startswith("*") for row in rows):
            rows.append(["*", None])
        prefix = {KINDS.VAR_POSITIONAL: "*", KINDS.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.name not in ("self", *later):
            rows.append([prefix + p.name, written(p.default)])
    return rows


@for_all(("space", "name"), FUNCTIONS)
def test_functions_have_the_documented_signature(space, name):
    function = found(f"{space}.{name}")
    assert signature(function, (LATER | NAMED).get(name, ())) == FACTS["functions"][space][name]


@pytest.mark.parametrize("space", FACTS["names"])
def test_no_documented_name_is_missing(space):
    home = found(space)
    assert not [name for name in FACTS["names"][space] if not hasattr(home, name)]


@for_all("path", FACTS["members"])
def test_constants_have_the_documented_members(path):
    home = found(path)
    assert not [name for name in FACTS["members"][path] if not hasattr(home, name)]


def test_the_smallest_numbers_of_two_formats():
    assert nl.fp32.min == np.finfo(np.float32).min
    assert nl.bfp16.min == float(ml_dtypes.finfo(ml_dtypes.bfloat16).min)


def test_a_name_that_was_never_documented_is_refused_with_the_nearest():
    with pytest.raises(AttributeError, match=r"no 'sequential_rang'.*sequential_range"):
        nl.sequential_rang  # noqa: B018
