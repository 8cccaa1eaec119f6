"""The judge without its separate processes."""

import pytest
from judged_here import stay_here


@pytest.fixture
def judged_here(monkeypatch):
    """Judge in this process, because the processes of a worker take a second to start."""
    stay_here(monkeypatch)
