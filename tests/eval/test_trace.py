"""Verdicts are written as traces of flashinfer-bench, and validated with its models."""

import json

import pytest
from candidates import spec

from neuroncore.eval import trace

ERRORS = {"largest_error": 0.5, "largest_absolute": 3.0, "relative_l2": 0.1, "element": [0]}
SHAPES = [{"latency_us": 20.0, "roofline_us": 5.0, "seeds": [{"family": "usual", **ERRORS}]}]
UNLIKE = {**ERRORS, "largest_error": None}
ENDS = {  # for a code and fields of the error: the status of flashinfer-bench, and of SOL-ExecBench
    ("WRONG_RESULT", None): ("INCORRECT_SHAPE", "INCORRECT_SHAPE"),
    ("WRONG_RESULT", "errors"): ("INCORRECT_NUMERICAL", "INCORRECT_NUMERICAL"),
    ("WRONG_RESULT", "nan"): ("INCORRECT_NUMERICAL", "INCORRECT_NUMERICAL"),
    ("WRONG_DTYPE", None): ("INCORRECT_DTYPE", "INCORRECT_DTYPE"),
    ("SyntaxError", None): ("COMPILE_ERROR", "COMPILE_ERROR"),
    ("TIME", None): ("TIMEOUT", "TIMEOUT"),
    ("KILLED", None): ("RUNTIME_ERROR", "RUNTIME_ERROR"),
    ("CONSTANTS", None): ("RUNTIME_ERROR", "REWARD_HACK"),
}


def verdict(code=None, more=None):
    error = None
    if code is not None:
        error = {"code": code, "message": "so", "line": None, "hint": ""}
        error |= {} if more is None else {"errors": UNLIKE if more == "nan" else ERRORS}
    return {
        "candidate": "a.py",
        "key": "f00",
        "passed": error is None,
        "error": error,
        "shapes": SHAPES if error is None else [],
    }


def traces():
    wanted = spec(name="sums", shapes=[{"M": 4, "scale": 0.5}])
    yield "PASSED", trace.trace(verdict(), wanted)
    for (code, more), (status, _) in ENDS.items():
        yield status, trace.trace(verdict(code, more), wanted)


def test_statuses():
    for status, found in traces():
        assert found["evaluation"]["status"] == status
        assert found["workload"]["axes"] == {"M": 4}
    for (code, more), (_, status) in ENDS.items():
        assert trace.status(verdict(code, more), hacks=True) == status


def test_traces_have_the_errors_of_wrong_results():
    found = [one["evaluation"]["correctness"] for _, one in traces()]
    assert found[2] == {"max_relative_error": 0.5, "max_absolute_error": 3.0}
    assert found[3]["max_relative_error"] == "NaN" and found[1] is None


def test_cheats_are_named_in_the_log():
    *_, (_, found) = traces()
    assert found["evaluation"]["log"] == "REWARD_HACK: CONSTANTS: so"


def test_traces_are_valid():
    data = pytest.importorskip("flashinfer_bench.data")
    for _, found in traces():
        data.Trace.model_validate_json(json.dumps(found, allow_nan=False))
