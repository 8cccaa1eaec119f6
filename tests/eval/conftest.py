"""Workers that several tests of a file use."""

from dataclasses import replace

import pytest

from neuroncore.eval import pool
from neuroncore.eval.worker import Worker


class Kept(Worker):
    def close(self):
        """It judges for the next test too."""


@pytest.fixture(scope="module")
def kept_workers():
    """The workers of a file by what they judge."""
    workers = {}
    yield workers
    for worker in workers.values():
        Worker.close(worker)


@pytest.fixture
def a_worker_for_equal_questions(kept_workers, monkeypatch):
    """Starting the processes of a worker takes a second."""

    def worker(spec, level, limits, *, why):
        asked = replace(spec, secret=None).fingerprint(), level, limits, why
        if asked not in kept_workers:
            kept_workers[asked] = Kept(spec, level, limits, why=why)
        return kept_workers[asked]

    monkeypatch.setattr(pool, "Worker", worker)
