"""The process that judges: its limits, and when another process replaces it."""

import os
import sys

import pytest

from neuroncore.eval.court import MOST, Court
from neuroncore.eval.isolation import ProcessLimits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its limits are those of Linux")


def judge(asked, parts):
    while asked == "goes on":
        pass
    if asked == "takes memory":
        bytearray(1 << 50)
    if asked == "ends":
        os._exit(3)
    if asked == "fails":
        raise KeyError("x")
    return {"error": asked and {"code": asked}, "process": os.getpid()}


@pytest.fixture
def court():
    made = Court(judge, ProcessLimits(judge_seconds=1))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("goes on", "RECORD_LIMITS"),
        ("takes memory", "RECORD_LIMITS"),
        ("ends", "RECORD_LIMITS"),
        ("fails", "JUDGE_FAULT"),
    ],
)
def test_the_next_record_is_judged_by_another_process(court, asked, code):
    first = court.judged(None, []).entries["process"]
    assert court.judged(asked, []).entries["error"]["code"] == code
    assert court.judged(None, []).entries["process"] != first


def test_a_process_is_replaced_after_a_damaged_record_or_many_records(court):
    first = court.judged("WRONG_RESULT", []).entries["process"]
    assert court.judged(None, []).entries["process"] == first
    assert court.judged("RECORD_REFUSED", []).entries["process"] == first
    each = [court.judged(None, []).entries["process"] for _ in range(MOST + 1)]
    assert len({first, *each[:MOST]}) == 2 and each[MOST] not in each[:MOST]
