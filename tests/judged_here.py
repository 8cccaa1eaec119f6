"""The judge without its processes, for tests of its callers: a candidate runs in the process of the
test, as in `child`, and so does the judge. tests/eval/test_cheats.py tests the processes."""

import json

import neuroncore
from neuroncore.eval import answers, worker
from neuroncore.eval.court import Judged
from neuroncore.eval.zygote import End


class Zygote:
    def __init__(self, work, limits, level):
        self._work = work

    def played(self, request):
        with neuroncore.activated():
            content = bytes(answers.ISOLATION.size) + self._work.answer(request)
        return content, End("", 0, 0, 0.0, 0.0, 0)

    def close(self):
        """There is no process."""


class Court:
    def __init__(self, judge, limits):
        self._judge = judge

    def judged(self, request, parts):
        return Judged(json.loads(json.dumps(self._judge(request, parts))), 0.0)

    def close(self):
        """There is no process."""


def stay_here(monkeypatch):
    """Make workers start no process, and load nothing in advance."""
    monkeypatch.setattr(worker, "Zygote", Zygote)
    monkeypatch.setattr(worker, "Court", Court)
    monkeypatch.setattr(worker, "warm", lambda target: None)
