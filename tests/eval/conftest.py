"""The judge without its processes."""

import pytest
from judged_here import stay_here


@pytest.fixture
def judged_here(monkeypatch):
    """Starting the processes of a worker takes a second."""
    stay_here(monkeypatch)
