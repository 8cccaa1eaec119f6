"""Shared parts of the tests of the page: a browser, and a run."""

import pytest
import tabs
import viewed


@pytest.fixture(scope="session")
def chromium():
    with tabs.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def run():
    return viewed.run()
